//! What all paths of a connection say together: probe timeouts, other paths to go on, what is worth buffering, what the
//! peer is asked for by way of acknowledgements, and the figures of all.

use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionFacts, EcnCodepoint, PathIndex, PathSet, PathStatus};

use super::ack_frequency::PathsInUse;
use super::failover::AckWait;
use super::{Addresses, Path, PathFacts, Paths};
use crate::congestion::Controller;
use crate::frame_writer::FrameWriter;
use crate::{ConnectionStats, PathId, Transmit};

/// PATH_CHALLENGEs on a path without an RTT sample are repeated no sooner than after this time.
const MIN_CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);

/// Initial windows of new data that must wait so that some of it goes on a path of which nothing is known. With fewer, another
/// path delivers it all within its first two or three round trips; ours, from random pairs of paths.
const AHEAD_WINDOWS: u64 = 8;

/// UDP datagrams, and the bytes of their payloads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    sent: u64,
    pub(super) sent_bytes: u64,
    received: u64,
    received_bytes: u64,
}

impl Paths {
    /// The peer's max_ack_delay: that of its transport parameters (RFC 9000 section 18.2), or what it was asked for.
    pub(crate) fn peer_max_ack_delay(&self) -> Duration {
        self.ack_frequency.peer_max_ack_delay()
    }

    /// How long acknowledgements may be waited for.
    pub(crate) fn ack_wait(&self) -> AckWait {
        let asked = &self.ack_frequency;
        AckWait::new(
            asked.peer_max_ack_delay(),
            asked.peer_threshold(),
            asked.held_back(),
        )
    }

    /// The largest probe timeout of all paths (RFC 10069, Connection Closure and Key Phase Update Process).
    pub(crate) fn largest_pto(&self) -> Duration {
        let delay = self.peer_max_ack_delay();
        let ptos = self.iter().map(|path| path.pto(delay));
        ptos.max().unwrap_or(3 * self.config.initial_rtt)
    }

    /// The smallest probe timeout of the validated paths.
    pub(crate) fn smallest_pto(&self) -> Duration {
        let delay = self.peer_max_ack_delay();
        let validated = self.iter().filter(|path| path.is_validated());
        let ptos = validated.map(|path| path.pto(delay));
        ptos.min().unwrap_or(3 * self.config.initial_rtt)
    }

    //= specs/rfc9000.txt#section-9.4
    //# This timer SHOULD be set as described in Section 6.2.1 of [QUIC-RECOVERY] and MUST NOT be
    //# more aggressive.
    pub(crate) fn challenge_interval(&self) -> Duration {
        self.largest_pto().max(MIN_CHALLENGE_INTERVAL)
    }

    /// Whether the path ID can carry packets: open, with a connection ID of the peer.
    pub(crate) fn has_cid(&self, id: PathId) -> bool {
        self.remote_cids.active(id).is_some()
    }

    /// Whether data can go on another path than this one.
    pub(crate) fn has_other_usable(&self, index: PathIndex) -> bool {
        self.iter().any(|path| {
            path.index != index
                && path.is_validated()
                && !path.is_suspect()
                && self.has_cid(path.id)
        })
    }

    /// Whether data can go on this path and on no other.
    pub(crate) fn is_only_usable(&self, index: PathIndex) -> bool {
        let validated = self.at(index).is_some_and(Path::is_validated);
        validated && !self.has_other_usable(index)
    }

    /// The paths that a scheduler is offered: available before backup, healthy before suspect, and validated before the
    /// rest. Never empty on a connection that lives.
    pub(crate) fn best(&self) -> PathSet {
        let standing = |path: &Path| {
            let usable = path.is_validated() && self.has_cid(path.id);
            let backup = path.status().effective() == PathStatus::Backup;
            (!usable, path.is_suspect(), backup)
        };
        let best = self.iter().map(standing).min();
        let paths = self.iter().filter(|path| Some(standing(path)) == best);
        paths.map(|path| path.index).collect()
    }

    /// As much data as the paths can carry in four times their longest round trip: what waits for a slow path must not
    /// keep a fast one from sending, and schedulers look far ahead. To a near peer, that time is mostly spent in queues of
    /// the hosts, which are no reason to write ahead.
    pub(crate) fn worth_buffering(&self) -> u64 {
        let mut paths = self.iter();
        match (paths.next(), paths.next()) {
            (Some(path), None) => {
                let window = self.controller.window(path.index).saturating_mul(4);
                window.min(path.rtt().near_ahead().unwrap_or(u64::MAX))
            }
            _ => self.worth_buffering_for_several(),
        }
    }

    #[inline(never)]
    fn worth_buffering_for_several(&self) -> u64 {
        let longest = self.iter().map(|path| path.rtt().smoothed()).max();
        let longest = longest.unwrap_or(self.config.initial_rtt).as_micros() as u64;
        let usable = self.iter().map(|path| {
            let rtt = path.rtt().smoothed().as_micros() as u64;
            let window = self.controller.window(path.index);
            window.saturating_mul(longest) / rtt.max(1)
        });
        let usable = usable.fold(0, u64::saturating_add);
        let near = self.iter().map(|path| path.rtt().near_ahead());
        let near = near.reduce(|one, other| Some(one?.max(other?))).flatten();
        usable.saturating_mul(4).min(near.unwrap_or(u64::MAX))
    }

    /// What the peer is asked for by way of acknowledgements has to suit all paths.
    #[inline(never)]
    pub(crate) fn update_ack_frequency(&mut self, now: Instant) {
        let mut least: Option<PathsInUse> = None;
        let several = self.iter().nth(1).is_some();
        for path in self.iter() {
            if !path.is_validated() || path.is_suspect() || path.space().bytes_in_flight() == 0 {
                continue;
            }
            let controller = self.controller.path_state(path.index, path.rtt());
            let this = PathsInUse {
                rtt: path.rtt().smoothed(),
                round: path.recovery.round_bytes / u64::from(path.mtu()),
                burst: path.recovery.largest_burst(now),
                starting: controller.in_slow_start,
                by_rate: controller.pacing_rate.is_some(),
                several,
            };
            least = Some(least.map_or(this, |least| least.and(this)));
        }
        if let Some(paths) = least {
            self.ack_frequency.update(paths);
        }
    }

    /// Nothing follows this packet for now: where the peer would wait for more before it acknowledges, it is asked to do so
    /// at once. Of packets that come one by one, every second one is, as without the extension.
    #[cold]
    #[inline(never)]
    pub(crate) fn fill_end_of_burst(
        &mut self,
        w: &mut FrameWriter<'_>,
        index: PathIndex,
        number: u64,
    ) {
        let Some(path) = self.at_mut(index) else {
            return;
        };
        if w.remaining() > 0 && number > path.recovery.burst_end + 1 {
            path.recovery.burst_end = number;
            w.immediate_ack();
        }
    }

    /// So many new bytes wait. Decides whether data may go on paths whose validation is under way, on clients
    /// ([`EarlyPathData::Client`](crate::EarlyPathData::Client)): not before the server has the keys to read it, which drops most
    /// of what overtakes the Finished; and not the end of a transfer, for nothing is known of the path.
    pub(crate) fn let_ahead(&mut self, waiting: u64) {
        if !self.ahead {
            return;
        }
        let window = self.config.initial_window.bytes(self.config.initial_mtu);
        let held = !self.confirmed || waiting < AHEAD_WINDOWS * window;
        self.ahead = false;
        for path in self.slots[..self.used].iter_mut().flatten() {
            self.ahead |= path.hold_ahead(held);
        }
    }

    /// Each open path with what a scheduler's view of it is made of.
    pub(crate) fn for_each_view(
        &mut self,
        mut fill: impl FnMut(&mut Path, &dyn Controller, PathFacts),
    ) {
        let max_ack_delay = self.peer_max_ack_delay();
        for path in self.slots[..self.used].iter_mut().flatten() {
            let has_cid = self.remote_cids.active(path.id).is_some();
            let facts = PathFacts {
                usable: path.may_carry_data() && has_cid,
                max_ack_delay,
            };
            fill(path, &*self.controller, facts);
        }
    }

    /// Nothing waits to be sent: what the paths with room in their windows deliver says less than
    /// what they could.
    pub(crate) fn note_app_limited(&mut self) {
        for slot in 0..self.used() {
            if let Some(path) = &mut self.slots[slot]
                && path.space().bytes_in_flight() < self.controller.window(path.index)
            {
                path.on_app_limited();
            }
        }
    }

    /// The scheduler leaves paths unused that `can_send`, though data waits. That, too, says less than what they could,
    /// unless enough is in flight to keep them busy meanwhile.
    pub(crate) fn note_held_back(&mut self, can_send: impl Fn(PathIndex) -> bool) {
        for slot in 0..self.used() {
            if let Some(path) = &mut self.slots[slot]
                && can_send(path.index)
                && path.space().bytes_in_flight().saturating_mul(2)
                    < self.controller.window(path.index)
            {
                path.on_app_limited();
            }
        }
    }

    /// What an observer is told of a path.
    pub(crate) fn metrics(&self, index: PathIndex) -> Option<crate::PathMetrics> {
        Some(self.at(index)?.metrics(self.controller()))
    }

    /// All data of a packet that was sent on one path is on another one now, too.
    pub(crate) fn mark_carried(&mut self, source: PathIndex, packet: u64, target: PathIndex) {
        if let Some(path) = self.at_mut(source) {
            path.mark_carried(packet, target);
        }
    }

    /// A UDP payload of so many bytes came.
    #[inline]
    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.traffic.received += 1;
        self.traffic.received_bytes += bytes as u64;
    }

    /// So many datagrams leave, with so many bytes of UDP payload in all.
    #[inline]
    pub(crate) fn count_sent(&mut self, datagrams: u64, bytes: u64) {
        self.traffic.sent += datagrams;
        self.traffic.sent_bytes += bytes;
    }

    /// This connection takes the place of one that sent on these paths.
    pub(crate) fn add_sent_by(&mut self, old: &Self) {
        self.count_sent(old.traffic.sent, old.traffic.sent_bytes);
    }

    /// Adds the figures of datagrams.
    pub(crate) fn add_stats(&self, stats: &mut ConnectionStats) {
        stats.sent_datagrams = self.traffic.sent;
        stats.sent_bytes = self.traffic.sent_bytes;
        stats.received_datagrams = self.traffic.received;
        stats.received_bytes = self.traffic.received_bytes;
    }

    /// What the paths that can be used now deliver to the peer, bytes per second.
    pub(crate) fn delivery_rate(&self) -> u64 {
        let usable = self.iter().filter(|path| !path.is_suspect());
        let rates = usable.map(|path| path.stats(self.controller()).delivery_rate);
        rates.sum()
    }

    /// What a factory of schedulers is told of the connection.
    pub(crate) fn facts(&self) -> ConnectionFacts {
        ConnectionFacts::new(self.side, self.handshake_tuple.remote)
    }

    /// Datagrams leave: the last `size` bytes of a buffer, for a path. `None` if it is not open any more.
    #[inline]
    pub(crate) fn on_datagrams_sent(
        &mut self,
        id: PathId,
        to: Addresses,
        ecn: Option<EcnCodepoint>,
        size: usize,
        segment_size: Option<usize>,
    ) -> Option<Transmit> {
        let datagrams = segment_size.map_or(1, |segment| size.div_ceil(segment)) as u64;
        self.count_sent(datagrams, size as u64);
        Some(Transmit {
            network_path: self.get_mut(id)?.on_datagrams_sent(to, datagrams, size)?,
            ecn,
            size,
            segment_size,
        })
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::Side;

    use super::super::set::tests::{multipath, open};
    use super::*;

    #[test]
    fn datagrams_of_a_path_count_for_the_connection_also_when_it_is_gone() {
        let mut paths = multipath(Side::Client);
        open(&mut paths, 0);
        let mut leave = |id, size, segment| {
            let to = Addresses::Current;
            let left = paths.on_datagrams_sent(PathId(id), to, None, size, segment);
            left.map(|left| (left.size, left.segment_size))
        };
        // Two full ones, and a shorter one at the end.
        assert_eq!(leave(0, 2500, Some(1200)), Some((2500, Some(1200))));
        assert_eq!(leave(1, 700, None), None);
        paths.count_received(60);
        let mut stats = ConnectionStats::default();
        paths.add_stats(&mut stats);
        assert_eq!((stats.sent_datagrams, stats.sent_bytes), (4, 3200));
        assert_eq!((stats.received_datagrams, stats.received_bytes), (1, 60));
    }
}
