//! Linux MPTCP's default scheduler: bursts for the path that drains what is queued first.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::support::{comes_back, has_new_data};
use crate::{
    Context, Data, Decision, InvalidConfig, MAX_PATHS, PathIndex, PathSet, PathUpdate,
    PathUpdateKind, PathView, Scheduler, Sent,
};

/// What the kernel hands out at a time, bytes: 2^16 less the longest headers.
const BURST: u64 = 65_428;

/// Bursts that are handed out and not yet sent, over all paths, at most.
const BURSTS: usize = 32;

/// What a subflow's send buffer holds at most, bytes: the kernel's default of `tcp_wmem`.
const LARGEST_BUFFER: f64 = 4_194_304.0;

/// The fewest packets that a send buffer is made for: TCP's initial window.
const INITIAL_WINDOW: u64 = 10;

/// Hands out new data in bursts, each to the path that is through with its queue first.
///
/// **Rule.** For each usable path, `q` is what is in flight on it and what has been handed to it and
/// not yet sent, bytes, and `avg` is its mean pace. While there is new data that no path has, the
/// next burst of it, 65,428 bytes or what there is, goes to the path with the smallest linger time
///
/// ```text
/// linger = q / avg
/// avg    = (avg · q + pace · burst) / (q + burst)      with each burst that it is given
/// pace   = 2 · W / R    if W < ssthresh / 2            W the window, R the smoothed RTT
///          1.2 · W / R  otherwise                      or the pace that the controller sets
/// ```
///
/// of equals the lowest slot. If the send buffer of that path is full, `q ≥ 2 · max(W, 10 packets)`
/// or 4 MiB, nothing is handed out, whatever the others have room for. A path sends the data
/// that was handed to it, in its order, and leaves out what the others were given before
/// ([`Data::Ahead`]). What was lost and control frames go on the path with room that has the smallest
/// linger time. Backup paths get bursts only while no other is usable; what a path has not sent when
/// it falls into trouble (the kernel: turns stale) or ends is handed out anew. A path without an RTT
/// sample lingers for no time, as the kernel's pace is without limit before the first one.
///
/// **Source.** Linux 5.15 to 6.x, `net/mptcp/protocol.c`: `mptcp_subflow_get_send`,
/// `__subflow_push_pending`, `mptcp_subflow_active`; `tcp_update_pacing_rate` and
/// `tcp_sndbuf_expand` for the pace and the buffer. Read in two ways: the kernel counts memory, with
/// the overhead of its buffers, which is taken for bytes of data here, on both sides of each
/// comparison; and a burst ends at the next boundary of a write in the kernel, which is left out.
/// Ours: a burst also ends at 32 bursts under way; a path that nothing would wake up gets none;
/// lost data may change the path at once, which the kernel does only once a timer has run out.
///
/// **Defects.** The time that a packet is on its way does not count: an idle path is as good as any
/// other, so that a short transfer is shared with a path ten times as slow. Data waits in a path's
/// own queue though another one is idle, up to two windows of it.
///
/// **Cost.** A walk over the slots and the bursts under way, and one over the slots for each burst;
/// 800 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, Mptcp, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt_ms, in_flight| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     (view.cwnd, view.in_flight) = (60_000, in_flight);
///     view
/// };
/// // A third of the window at 20 ms is sooner through than a third at 80 ms, an idle path at once.
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (10_000, 1_000_000);
/// let paths = [view(0, 80, 20_000), view(1, 20, 20_000)];
/// let decision = Mptcp::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index));
///
/// let paths = [view(0, 80, 0), view(1, 20, 20_000)];
/// let decision = Mptcp::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[0].index));
/// ```
#[derive(Debug, Clone)]
pub struct Mptcp {
    config: MptcpConfig,
    /// The mean pace of each slot, bytes per second; 0 before its first burst.
    paces: [f64; MAX_PATHS],
    /// What was handed to each slot and has not been sent, bytes.
    assigned: [u64; MAX_PATHS],
    /// The bursts of which that consists, in the order of the data.
    bursts: [Burst; BURSTS],
    len: usize,
    /// The decision made last, and the burst that its packet is to carry.
    asked: Option<(u64, usize)>,
}

/// Settings of [`Mptcp`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MptcpConfig {
    /// The bytes of a burst, 1 to 2^32. Default 65,428, the kernel's.
    pub burst: u64,
    /// How many windows a path's queue holds, what is in flight included, 1 to 100. Default 2, the
    /// kernel's but with BBR, where it is 3. With 1, little more is handed out than can leave.
    pub send_buffer: f64,
}

impl Default for MptcpConfig {
    fn default() -> Self {
        Self {
            burst: BURST,
            send_buffer: 2.0,
        }
    }
}

impl MptcpConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if !(1..=1 << 32).contains(&self.burst) {
            let expected = format!("expected 1 to 2^32, got {}", self.burst);
            return Err(InvalidConfig::field("burst", expected));
        }
        if !(1.0..=100.0).contains(&self.send_buffer) {
            let expected = format!("expected 1 to 100, got {}", self.send_buffer);
            return Err(InvalidConfig::field("send_buffer", expected));
        }
        Ok(())
    }
}

/// New data that was handed to a path.
#[derive(Debug, Clone, Copy)]
struct Burst {
    path: PathIndex,
    bytes: u64,
}

impl Burst {
    const NONE: Self = Self {
        path: match PathIndex::new(0) {
            Some(path) => path,
            None => panic!("0 is below MAX_PATHS"),
        },
        bytes: 0,
    };
}

impl Mptcp {
    /// A scheduler with these settings.
    pub fn new(config: &MptcpConfig) -> Self {
        Self {
            config: config.clone(),
            paces: [0.0; MAX_PATHS],
            assigned: [0; MAX_PATHS],
            bursts: [Burst::NONE; BURSTS],
            len: 0,
            asked: None,
        }
    }

    /// What waits on the path: the kernel's `sk_wmem_queued`.
    fn queued(&self, path: &PathView) -> u64 {
        path.in_flight
            .saturating_add(self.assigned[path.index.get()])
    }

    /// Seconds until the path is through with what it has.
    fn linger(&self, path: &PathView) -> f64 {
        let mean = self.paces[path.index.get()];
        let pace = if mean > 0.0 { mean } else { pace(path) };
        // Without any pace, as with a window of zero, it never is.
        let linger = self.queued(path) as f64 / pace;
        if linger.is_nan() { 0.0 } else { linger }
    }

    /// The one of these paths with the smallest linger time.
    fn soonest<'a>(&self, paths: impl Iterator<Item = &'a PathView>) -> Option<&'a PathView> {
        let timed = paths.map(|path| (self.linger(path), path));
        let soonest = timed.reduce(|best, other| if other.0 < best.0 { other } else { best });
        soonest.map(|(_, path)| path)
    }

    /// Whether the path's send buffer takes another burst.
    fn has_memory(&self, path: &PathView) -> bool {
        let window = path.cwnd.max(INITIAL_WINDOW * u64::from(path.mtu)) as f64;
        let buffer = (self.config.send_buffer * window).min(LARGEST_BUFFER);
        (self.queued(path) as f64) < buffer
    }

    /// Bytes handed out and not sent.
    fn outstanding(&self) -> u64 {
        self.bursts[..self.len]
            .iter()
            .fold(0, |sum, burst| sum.saturating_add(burst.bytes))
    }

    /// Takes back what was handed to paths that are not among these.
    fn keep(&mut self, paths: PathSet) {
        let mut kept = 0;
        for place in 0..self.len {
            let burst = self.bursts[place];
            if burst.bytes > 0 && paths.contains(burst.path) {
                self.bursts[kept] = burst;
                kept += 1;
            } else {
                let assigned = &mut self.assigned[burst.path.get()];
                *assigned = assigned.saturating_sub(burst.bytes);
            }
        }
        self.len = kept;
    }

    /// Takes back what is no longer there to be sent, from the end of the data.
    fn trim(&mut self, unsent: u64) {
        let mut excess = self.outstanding().saturating_sub(unsent);
        while excess > 0 && self.len > 0 {
            let burst = &mut self.bursts[self.len - 1];
            let taken = burst.bytes.min(excess);
            burst.bytes -= taken;
            excess -= taken;
            self.assigned[burst.path.get()] -= taken;
            if burst.bytes == 0 {
                self.len -= 1;
            }
        }
    }

    /// Hands out new data while there is some that no path has.
    fn hand_out<'a>(&mut self, cx: &Context<'a>, usable: PathSet) {
        let mut left = cx.queue.unsent.min(cx.queue.window_left);
        left = left.saturating_sub(self.outstanding());
        while left > 0 {
            let paths = usable.iter().filter_map(|path| cx.path(path));
            let Some(path) = self.soonest(paths).filter(|path| self.has_memory(path)) else {
                return;
            };
            let (index, bytes) = (path.index, left.min(self.config.burst));
            let same = self.len > 0 && self.bursts[self.len - 1].path == index;
            if !same && self.len == BURSTS {
                return;
            }
            let (queued, burst) = (self.queued(path) as f64, bytes as f64);
            let (mean, now) = (&mut self.paces[index.get()], pace(path));
            if now.is_finite() {
                let before = if *mean > 0.0 { *mean } else { now };
                *mean = (before * queued + now * burst) / (queued + burst);
            }
            if same {
                self.bursts[self.len - 1].bytes += bytes;
            } else {
                self.bursts[self.len] = Burst { path: index, bytes };
                self.len += 1;
            }
            self.assigned[index.get()] += bytes;
            left -= bytes;
        }
    }

    /// New bytes left, of the data that begins with this burst.
    fn left(&mut self, place: usize, bytes: u64) {
        let mut bytes = bytes;
        for burst in &mut self.bursts[place.min(self.len)..self.len] {
            let taken = burst.bytes.min(bytes);
            burst.bytes -= taken;
            self.assigned[burst.path.get()] -= taken;
            bytes -= taken;
            if bytes == 0 {
                break;
            }
        }
    }

    /// The next burst whose path has room, with what lies before it.
    fn next(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let mut gap = 0;
        for (place, burst) in self.bursts[..self.len].iter().enumerate() {
            if burst.bytes > 0 && cx.path(burst.path).is_some_and(|path| path.can_send) {
                self.asked = Some((cx.decision, place));
                return Some(match gap {
                    0 => Decision::send(burst.path),
                    gap => Decision::send_data(burst.path, Data::Ahead(gap)),
                });
            }
            gap += burst.bytes;
        }
        None
    }
}

impl Default for Mptcp {
    fn default() -> Self {
        Self::new(&MptcpConfig::default())
    }
}

/// The pace of the kernel's `tcp_update_pacing_rate`, bytes per second; infinite before there is an RTT.
fn pace(path: &PathView) -> f64 {
    if path.pacing_rate > 0 {
        return path.pacing_rate as f64;
    }
    let factor = if path.cwnd < path.ssthresh / 2 {
        2.0
    } else {
        1.2
    };
    if path.has_rtt() {
        factor * path.cwnd as f64 / path.smoothed_rtt.as_secs_f64()
    } else {
        f64::INFINITY
    }
}

impl Scheduler for Mptcp {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.asked = None;
        let usable = cx.fold_usable(
            || PathSet::EMPTY,
            |set, path| {
                if comes_back(path) {
                    set.insert(path.index);
                }
            },
        );
        if self.len > 0 {
            self.keep(usable);
            self.trim(cx.queue.unsent);
        }
        let again = cx.queue.retransmittable > 0 || cx.queue.control;
        if has_new_data(cx) {
            self.hand_out(cx, usable);
            if !again {
                if let Some(decision) = self.next(cx) {
                    return decision;
                }
                // Data waits for the path that has it.
                let paths = || usable.iter().filter_map(|path| cx.path(path));
                if paths().any(|path| !path.can_send) {
                    let until: Option<Instant> = paths().filter_map(|path| path.next_release).min();
                    return Decision::Wait { until };
                }
            }
        }
        let data = if again && cx.queue.unsent > 0 {
            Data::Retransmit
        } else {
            Data::Next
        };
        match self.soonest(cx.sendable()) {
            Some(path) => Decision::send_data(path.index, data),
            None => Decision::Wait { until: None },
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        if event.new_bytes == 0 {
            return;
        }
        let place = match self.asked {
            Some((decision, place)) if decision == event.decision => place,
            _ => 0,
        };
        self.left(place, u64::from(event.new_bytes));
    }

    fn on_path(&mut self, event: &PathUpdate) {
        match event.kind {
            PathUpdateKind::Abandoned => {
                let mut rest = PathSet::from_bits(u16::MAX);
                rest.remove(event.path);
                self.keep(rest);
                self.paces[event.path.get()] = 0.0;
            }
            PathUpdateKind::Moved => self.paces[event.path.get()] = 0.0,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{PathId, PathStatus, QueueView};

    const MS: Duration = Duration::from_millis(1);

    /// In congestion avoidance, with room for all of its window.
    fn path(slot: usize, rtt_ms: u32, window: u64, in_flight: u64) -> PathView {
        changed!(
            PathView::of(slot, MS * rtt_ms),
            cwnd = window,
            ssthresh = window,
            in_flight = in_flight,
            can_send = in_flight < window
        )
    }

    fn new_data(bytes: u64) -> QueueView {
        changed!(
            QueueView::default(),
            unsent = bytes,
            window_left = 10_000_000
        )
    }

    struct Asked {
        scheduler: Mptcp,
        now: Instant,
        number: u64,
    }

    impl Asked {
        fn of(config: MptcpConfig) -> Self {
            Self {
                scheduler: Mptcp::new(&config),
                now: Instant::now(),
                number: 0,
            }
        }

        fn new() -> Self {
            Self::of(MptcpConfig::default())
        }

        fn decide(&mut self, paths: &[PathView], queue: &QueueView) -> Decision {
            self.number += 1;
            self.scheduler
                .decide(&Context::new(self.now, paths, queue, self.number))
        }

        /// The slot that carries the next packet and what it leaves out; its new bytes leave.
        fn sends(&mut self, paths: &[PathView], queue: &mut QueueView) -> Option<(usize, u64)> {
            let (slot, gap) = match self.decide(paths, queue) {
                Decision::Wait { .. } => return None,
                Decision::Send { path, data, .. } => match data {
                    Data::Next => (path, 0),
                    Data::Ahead(gap) => (path, gap),
                    data => panic!("{data:?}"),
                },
            };
            let bytes = queue.unsent.min(1000) as u16;
            queue.unsent -= u64::from(bytes);
            let sent = Sent::new(slot, self.now, 1035, self.number, false, bytes);
            self.scheduler.on_sent(&sent);
            Some((slot.get(), gap))
        }
    }

    #[test]
    fn the_pace_is_the_kernels() {
        // 100,000 bytes in 100 ms: 1.2 times that, twice that far below the threshold.
        let mut path = path(0, 100, 100_000, 0);
        assert_eq!(pace(&path), 1_200_000.0);
        path.ssthresh = 200_001;
        assert_eq!(pace(&path), 1_200_000.0);
        path.ssthresh = 200_002;
        assert_eq!(pace(&path), 2_000_000.0);
        path.pacing_rate = 700_000;
        assert_eq!(pace(&path), 700_000.0);
        assert_eq!(pace(&PathView::of(0, Duration::ZERO)), f64::INFINITY);
    }

    #[test]
    fn the_path_that_is_through_first_gets_the_burst_whatever_its_delay() {
        let mut queue = new_data(1000);
        // 50,000 bytes of 1 MB/s (60 ms / 1.2) against 20,000 of 0.3 MB/s.
        let paths = [path(0, 60, 60_000, 50_000), path(1, 200, 60_000, 20_000)];
        assert_eq!(Asked::new().sends(&paths, &mut queue), Some((0, 0)));
        queue.unsent = 1000;
        let paths = [path(0, 60, 60_000, 50_000), path(1, 200, 60_000, 10_000)];
        assert_eq!(Asked::new().sends(&paths, &mut queue), Some((1, 0)));
        // Of equals, the lowest slot.
        queue.unsent = 1000;
        let paths = [path(0, 200, 60_000, 0), path(1, 20, 60_000, 0)];
        assert_eq!(Asked::new().sends(&paths, &mut queue), Some((0, 0)));
    }

    #[test]
    fn a_burst_stays_with_its_path_and_the_others_go_on_behind_it() {
        let config = MptcpConfig {
            burst: 3000,
            ..MptcpConfig::default()
        };
        let mut asked = Asked::of(config);
        let mut queue = new_data(8000);
        // By turns: each is as far behind as it has been given, at equal paces.
        let mut paths = [path(0, 50, 60_000, 0), path(1, 50, 60_000, 0)];
        assert_eq!(asked.sends(&paths, &mut queue), Some((0, 0)));
        // 2000 for 0, 3000 for 1, 2000 for 0.
        (paths[0].can_send, paths[0].in_flight) = (false, 1000);
        assert_eq!(asked.sends(&paths, &mut queue), Some((1, 2000)));
        assert_eq!(asked.sends(&paths, &mut queue), Some((1, 2000)));
        assert_eq!(asked.sends(&paths, &mut queue), Some((1, 2000)));
        // What is left is the other path's, which is waited for.
        assert_eq!(asked.sends(&paths, &mut queue), None);
        paths[0].can_send = true;
        (paths[1].can_send, paths[1].in_flight) = (false, 3000);
        for _ in 0..4 {
            assert_eq!(asked.sends(&paths, &mut queue), Some((0, 0)));
        }
        assert_eq!(queue.unsent, 0);
        assert_eq!(asked.scheduler.outstanding(), 0);
        assert_eq!(asked.scheduler.assigned, [0; MAX_PATHS]);
    }

    #[test]
    fn a_packet_over_the_end_of_its_burst_takes_from_the_next_one() {
        let config = MptcpConfig {
            burst: 1500,
            ..MptcpConfig::default()
        };
        let mut asked = Asked::of(config);
        let mut queue = new_data(3000);
        let paths = [path(0, 50, 60_000, 0), path(1, 50, 60_000, 0)];
        assert_eq!(asked.sends(&paths, &mut queue), Some((0, 0)));
        assert_eq!(asked.sends(&paths, &mut queue), Some((0, 0)));
        assert_eq!(asked.scheduler.assigned[..2], [0, 1000]);
        assert_eq!(asked.sends(&paths, &mut queue), Some((1, 0)));
    }

    #[test]
    fn a_full_send_buffer_ends_the_handing_out() {
        // Two windows of 20,000 and of 12,000 at least (10 packets), in bursts of 20,000.
        let config = MptcpConfig {
            burst: 20_000,
            ..MptcpConfig::default()
        };
        let assigned = |window, in_flight| {
            let mut asked = Asked::of(config.clone());
            let only = [path(0, 50, window, in_flight)];
            asked.decide(&only, &new_data(1_000_000));
            asked.scheduler.assigned[0]
        };
        assert_eq!(assigned(20_000, 0), 40_000);
        assert_eq!(assigned(20_000, 19_000), 40_000);
        assert_eq!(assigned(20_000, 40_000), 0);
        assert_eq!(assigned(2_400, 0), 40_000);
        assert_eq!(assigned(2_400, 4_000), 20_000);
        assert_eq!(assigned(100_000_000, 0), 4_200_000 - 3_200_000);
        // Whatever others have room for: the first is through sooner.
        let mut asked = Asked::of(config.clone());
        let paths = [path(0, 10, 20_000, 40_000), path(1, 400, 60_000, 30_000)];
        assert!(matches!(
            asked.decide(&paths, &new_data(50_000)),
            Decision::Wait { .. }
        ));
    }

    #[test]
    fn the_mean_pace_follows_by_what_is_queued() {
        let mut asked = Asked::new();
        let mut paths = [path(0, 100, 100_000, 60_000)];
        let mut queue = new_data(20_000);
        asked.decide(&paths, &queue);
        assert_eq!(asked.scheduler.paces[0], 1_200_000.0);
        // 80,000 bytes of the old pace, 40,000 of one that is half as fast.
        paths[0].smoothed_rtt = 200 * MS;
        queue.unsent = 60_000;
        asked.decide(&paths, &queue);
        assert_eq!(asked.scheduler.paces[0], 1_000_000.0);
        let ended = PathUpdate::new(
            paths[0].index,
            PathId::ZERO,
            asked.now,
            PathUpdateKind::Abandoned,
        );
        asked.scheduler.on_path(&ended);
        assert_eq!(asked.scheduler.paces[0], 0.0);
        assert_eq!(asked.scheduler.outstanding(), 0);
    }

    #[test]
    fn backup_and_stale_paths_get_nothing_while_another_is_usable() {
        let mut asked = Asked::new();
        let mut paths = [path(0, 50, 60_000, 0), path(1, 50, 60_000, 50_000)];
        let mut queue = new_data(10_000);
        paths[0].status = PathStatus::Backup;
        assert_eq!(asked.sends(&paths, &mut queue), Some((1, 0)));
        assert_eq!(asked.scheduler.assigned[..2], [0, 9000]);
        // What a stale path had is handed out anew.
        paths[1].suspect = true;
        assert_eq!(asked.sends(&paths, &mut queue), Some((0, 0)));
        assert_eq!(asked.scheduler.assigned[..2], [8000, 0]);
    }

    #[test]
    fn what_is_gone_from_the_queue_is_taken_back() {
        let mut asked = Asked::new();
        let paths = [path(0, 50, 60_000, 0)];
        asked.decide(&paths, &new_data(30_000));
        assert_eq!(asked.scheduler.outstanding(), 30_000);
        asked.decide(&paths, &new_data(7000));
        assert_eq!(asked.scheduler.outstanding(), 7000);
        // Nor is more handed out than the peer's window allows.
        let mut asked = Asked::new();
        let queue = changed!(new_data(30_000), window_left = 4000);
        asked.decide(&paths, &queue);
        assert_eq!(asked.scheduler.outstanding(), 4000);
    }

    #[test]
    fn lost_data_goes_where_it_lingers_least() {
        let mut asked = Asked::new();
        let paths = [path(0, 50, 60_000, 50_000), path(1, 80, 60_000, 10_000)];
        let queue = changed!(new_data(10_000), retransmittable = 1000);
        assert_eq!(
            asked.decide(&paths, &queue),
            Decision::send_data(paths[1].index, Data::Retransmit)
        );
    }

    #[test]
    fn a_wait_for_a_pacer_ends_with_it() {
        let mut asked = Asked::new();
        let mut paths = [path(0, 10, 60_000, 0), path(1, 400, 60_000, 50_000)];
        let release = asked.now + 3 * MS;
        (paths[0].can_send, paths[0].next_release) = (false, Some(release));
        assert_eq!(
            asked.decide(&paths, &new_data(10_000)),
            Decision::Wait {
                until: Some(release)
            }
        );
        // Nothing would end this one: the other path gets the burst.
        paths[0].next_release = None;
        assert_eq!(
            asked.decide(&paths, &new_data(10_000)),
            Decision::send(paths[1].index)
        );
    }
}
