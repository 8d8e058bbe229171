//! What becomes of sent packets: acknowledged, lost, offered elsewhere. Paths judge the packets; here each frame's owner
//! learns what became of the frame.

use std::time::{Duration, Instant};

use mpquic_sched_core::{Acked, Lost, PathIndex, PathUpdateKind, Side};

use super::Connection;
use crate::frame::AckFrame;
use crate::path::{Path, PathAck, PathState, ReceivedAck, SettledPackets};
use crate::recovery::PathsInUse;
use crate::space::{SentFrame, SpaceId};
use crate::{Event, NumberSpace, Observation, PathEvent, PathId, TransportError};

/// A PATH_ACK came for a path that is not open.
#[cold]
fn ack_of_closed(path: &PathState<'_>) -> Result<(), TransportError> {
    match path {
        PathState::NeverOpened(_) => Err(TransportError::protocol_violation(
            "PATH_ACK for a path on which nothing was sent",
        )),
        //= specs/rfc10069-draft.md#frames
        //# If an endpoint receives a multipath-specific frame with a path ID that it cannot
        //# process anymore (e.g., because the path might have been abandoned), it MUST
        //# silently ignore the frame.
        PathState::Abandoned(_) | PathState::Open(_) => Ok(()),
    }
}

impl Connection {
    /// ACK or PATH_ACK, in a packet of this space.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        frame: &AckFrame<'_>,
    ) -> Result<(), TransportError> {
        let (id, index) = match space {
            //= specs/rfc10069-draft.md#handling-ack-and-path-ack-in-0-rtt-and-1-rtt
            //# Endpoints MUST still process ACK frames that acknowledge 0-RTT packets or 1-RTT
            //# packets.
            SpaceId::Data => match self.path_of_frame(frame.path)? {
                PathState::Open(path) => (path.id, path.index),
                closed => return ack_of_closed(&closed),
            },
            SpaceId::Initial | SpaceId::Handshake => match self.paths.get(PathId::ZERO) {
                Some(path) => (path.id, path.index),
                None => return Ok(()),
            },
        };
        if space == SpaceId::Data && id == PathId::ZERO && self.rejected_0rtt() {
            self.check_rejected(frame)?;
        }
        let max_ack_delay = self.peer_max_ack_delay();
        let ack = ReceivedAck {
            frame,
            space,
            delay: self.ack_delay(space, frame, max_ack_delay),
            max_ack_delay,
            // RFC 9002 section 6.2.1: not for a server's Initial ACKs while the client may be unvalidated.
            resets_backoff: space != SpaceId::Initial || self.side == Side::Server,
        };
        self.process_ack(now, id, index, &ack)
    }

    /// The peer has rejected 0-RTT packets: an acknowledgement of packets on path 0 must not be of those.
    #[cold]
    fn check_rejected(&self, frame: &AckFrame<'_>) -> Result<(), TransportError> {
        let mut ranges = frame.blocks.iter();
        //= specs/rfc9001.txt#section-4.6.2
        //# When 0-RTT was rejected, a client SHOULD treat receipt of an acknowledgment for a
        //# 0-RTT packet as a connection error of type PROTOCOL_VIOLATION, if it is able to
        //# detect the condition.
        if ranges.any(|range| self.handshake.early_data.is_rejected_number(*range.start())) {
            return Err(TransportError::protocol_violation(
                "acknowledgement of a 0-RTT packet that was rejected",
            ));
        }
        Ok(())
    }

    /// What the ACK Delay field says, as far as it is to be believed.
    fn ack_delay(&self, space: SpaceId, frame: &AckFrame<'_>, max_ack_delay: Duration) -> Duration {
        // RFC 9002 section 5.3: the delay of Initial and Handshake acknowledgements is ignored.
        if space != SpaceId::Data {
            return Duration::ZERO;
        }
        let exponent = u32::from(self.peer.ack_delay_exponent);
        let micros = frame.delay.checked_shl(exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(micros.min(1 << 40));
        //= specs/rfc9002.txt#section-5.3
        //# * MUST use the lesser of the acknowledgment delay and the peer's max_ack_delay after the
        //# handshake is confirmed; and
        if self.confirmed {
            delay.min(max_ack_delay)
        } else {
            delay
        }
    }

    fn process_ack(
        &mut self,
        now: Instant,
        id: PathId,
        index: PathIndex,
        ack: &ReceivedAck<'_, '_>,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.at_mut(index) else {
            return Ok(());
        };
        let controller = &mut *self.controller;
        let settled = &mut self.settled;
        let outcome = match ack.space {
            SpaceId::Data => path.on_ack(now, ack, controller, settled)?,
            space_id => match self.spaces.get_mut(space_id) {
                Some(space) => path.on_handshake_ack(now, space, ack, controller, settled)?,
                None => return Ok(()),
            },
        };
        let Some(outcome) = outcome else {
            return Ok(());
        };
        let mut acked = std::mem::take(&mut self.settled.acked);
        self.watch
            .on_acked(now, NumberSpace::on_path(ack.space, id), &acked);
        // Before writers are told that there is room again.
        self.fit_send_buffer();
        for (_, packet) in &acked {
            let mut contiguous = 0;
            for frame in &packet.frames {
                contiguous += self.on_frame_acked(ack.space, frame, index);
            }
            if packet.ack_eliciting && ack.space == SpaceId::Data {
                self.schedule.on_acked(&Acked::new(
                    index,
                    now,
                    packet.time_sent,
                    packet.size,
                    outcome.rtt_sample,
                    packet.decision,
                    contiguous,
                ));
            }
        }
        self.streams.settle_acked();
        acked.clear();
        self.settled.acked = acked;
        match ack.space {
            SpaceId::Data => self.on_path_acked(now, id, index, ack, outcome),
            space_id => self.spaces.on_acked(space_id),
        }
        if !self.settled.lost.is_empty() {
            self.on_settled_lost(now, index, ack.space);
        }
        self.watch.on_metrics(now, || {
            Some(self.paths.at(index)?.metrics(&*self.controller))
        });
        Ok(())
    }

    /// Packets were declared lost because of an ACK frame.
    #[inline(never)]
    fn on_settled_lost(&mut self, now: Instant, index: PathIndex, space: SpaceId) {
        let mut settled = std::mem::take(&mut self.settled);
        self.on_packets_lost(now, index, space, &settled);
        settled.lost.clear();
        self.settled = settled;
    }

    /// 1-RTT packets of a path were acknowledged: what that means for the keys, and for a path that was in trouble.
    fn on_path_acked(
        &mut self,
        now: Instant,
        id: PathId,
        index: PathIndex,
        ack: &ReceivedAck<'_, '_>,
        outcome: PathAck,
    ) {
        let keys = self.handshake.one_rtt.as_ref();
        if keys.is_some_and(|keys| keys.awaits_ack() || keys.update_due()) {
            self.on_keys_acked(now, id, ack);
        }
        if self.ack_frequency.is_wanted() && self.state.is_established() {
            self.update_ack_frequency();
        }
        self.on_heard(now);
        if outcome.recovered {
            self.on_recovered(now, id, index);
        }
    }

    /// The first packets of the current keys were acknowledged, or these are used up.
    #[cold]
    fn on_keys_acked(&mut self, now: Instant, id: PathId, ack: &ReceivedAck<'_, '_>) {
        let (nonce_path, pto) = (self.nonce_path(id), self.largest_pto());
        let Some(keys) = &mut self.handshake.one_rtt else {
            return;
        };
        keys.on_acked(nonce_path, ack.frame.largest, now, pto);
        //= specs/rfc9001.txt#section-6.6
        //# Endpoints MUST initiate a key update before sending more protected packets than
        //# the confidentiality limit for the selected AEAD permits.
        if keys.update_due() && self.confirmed && keys.initiate_update(now) {
            let (phase, by_peer) = (keys.updates(), false);
            self.watch
                .note(now, Observation::KeyUpdate { phase, by_peer });
        }
    }

    /// A packet came through on a path that was suspect.
    #[cold]
    fn on_recovered(&mut self, now: Instant, id: PathId, index: PathIndex) {
        self.streams.set_suspects(self.paths.suspects());
        self.offer_stranded(now);
        self.events
            .push_back(Event::Path(PathEvent::Recovered { id }));
        self.tell_scheduler(now, index, PathUpdateKind::Recovered);
    }

    /// What the peer is asked for by way of acknowledgements has to suit all paths.
    #[inline(never)]
    fn update_ack_frequency(&mut self) {
        let mut least: Option<PathsInUse> = None;
        for path in self.paths.iter() {
            if !path.is_validated() || path.is_suspect() || path.space().bytes_in_flight() == 0 {
                continue;
            }
            let rtt = path.rtt().smoothed();
            let window = self.controller.window(path.index) / u64::from(path.mtu());
            least = Some(
                least.map_or(PathsInUse { rtt, window }, |least| PathsInUse {
                    rtt: least.rtt.min(rtt),
                    window: least.window.min(window),
                }),
            );
        }
        if let Some(paths) = least {
            self.ack_frequency.update(paths);
        }
    }

    /// The owner of a frame learns that it arrived on this path. Returns stream bytes that became contiguous by it.
    fn on_frame_acked(&mut self, space: SpaceId, frame: &SentFrame, path: PathIndex) -> u64 {
        match *frame {
            SentFrame::Stream(range) => return self.streams.on_acked(&range).contiguous,
            SentFrame::Ack { path, largest } if space == SpaceId::Data => {
                if let Some(path) = self.paths.get_mut(path) {
                    path.on_ack_acked(largest);
                }
            }
            _ => self.on_control_acked(space, frame, path),
        }
        0
    }

    /// The same for the other frames.
    #[inline(never)]
    fn on_control_acked(&mut self, space: SpaceId, frame: &SentFrame, path: PathIndex) {
        self.streams.settle_acked();
        match *frame {
            SentFrame::Crypto { start, end } => {
                self.handshake.stream(space).on_acked(start, end);
            }
            SentFrame::Ack { largest, .. } => {
                if let Some(space) = self.spaces.get_mut(space) {
                    space.received.discard_below(largest + 1);
                }
            }
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_acked(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_acked(path, sequence);
            }
            SentFrame::AckFrequency(sequence) => self.ack_frequency.on_acked(sequence),
            SentFrame::PathAbandon(id) => self.paths.abandons_mut().on_acked(id),
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.streams.on_control_acked(frame),
            SentFrame::NewToken(number) => {
                if let Some(tokens) = &mut self.new_tokens {
                    tokens.on_acked(number);
                }
            }
            SentFrame::PathChallenge(token) => self.on_challenge_settled(path, token),
            SentFrame::Stream(_)
            | SentFrame::HandshakeDone
            | SentFrame::Datagram { .. }
            | SentFrame::PathStatus { .. }
            | SentFrame::MaxPathId(_)
            | SentFrame::PathsBlocked(_)
            | SentFrame::PathCidsBlocked(_) => {}
        }
    }

    /// Packets of a space that travelled on a path were declared lost: the owners of their frames repeat what still
    /// matters, and the scheduler is told.
    pub(super) fn on_packets_lost(
        &mut self,
        now: Instant,
        index: PathIndex,
        space: SpaceId,
        settled: &SettledPackets,
    ) {
        if !settled.lost.is_empty()
            && self.watch.wants_losses()
            && let Some(id) = self.paths.at(index).map(|path| path.id)
        {
            let space = NumberSpace::on_path(space, id);
            self.watch.on_lost(now, id, space, &settled.lost);
        }
        for (_, packet) in &settled.lost {
            self.totals.lost_packets += u64::from(!packet.mtu_probe);
            for frame in &packet.frames {
                self.on_frame_lost(space, frame, index);
            }
            if packet.ack_eliciting && space == SpaceId::Data {
                self.schedule.on_lost(&Lost::new(
                    index,
                    now,
                    packet.time_sent,
                    packet.size,
                    packet.decision,
                ));
            }
        }
    }

    /// The owner of a frame learns that it did not arrive on this path.
    pub(super) fn on_frame_lost(&mut self, space: SpaceId, frame: &SentFrame, path: PathIndex) {
        match *frame {
            SentFrame::Stream(range) => {
                self.streams.on_lost(&range, path);
                if range.carried.len() > 1 {
                    self.schedule.on_copy_lost();
                }
            }
            SentFrame::PathChallenge(token) => self.on_challenge_settled(path, token),
            _ => self.repeat_control(space, frame),
        }
    }

    fn on_challenge_settled(&mut self, path: PathIndex, token: u64) {
        if let Some(path) = self.paths.at_mut(path) {
            path.on_challenge_settled(token);
        }
    }

    /// The owner of a frame other than STREAM sends it again if it still matters.
    pub(super) fn repeat_control(&mut self, space: SpaceId, frame: &SentFrame) {
        match *frame {
            SentFrame::Crypto { start, end } => {
                self.handshake.stream(space).on_lost(start, end);
            }
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_lost(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_lost(path, sequence);
            }
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.streams.on_control_lost(frame),
            //= specs/rfc9000.txt#section-13.3
            //# * The HANDSHAKE_DONE frame MUST be retransmitted until it is acknowledged.
            SentFrame::HandshakeDone => self.handshake_done_pending = true,
            SentFrame::AckFrequency(sequence) => self.ack_frequency.on_lost(sequence),
            SentFrame::NewToken(number) => {
                if let Some(tokens) = &mut self.new_tokens {
                    tokens.on_lost(number);
                }
            }
            //= specs/rfc10069-draft.md#path-abandon-frame
            //# If a packet containing a PATH_ABANDON frame is considered lost, the peer SHOULD
            //# repeat it.
            SentFrame::PathAbandon(id) => self.paths.abandons_mut().on_lost(id),
            SentFrame::PathStatus { path, sequence } => {
                if let Some(path) = self.paths.get_mut(path) {
                    path.status_mut().on_lost(sequence);
                }
            }
            SentFrame::MaxPathId(max) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_max_path_id_lost(max);
                }
            }
            SentFrame::PathsBlocked(max) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_paths_blocked_lost(max);
                }
            }
            SentFrame::PathCidsBlocked(path) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_cids_blocked_lost(path);
                }
            }
            // RFC 9000 section 13.3: newer acknowledgements replace old ones, challenges have their
            // own timer, datagrams are not repeated.
            SentFrame::Stream(_)
            | SentFrame::Ack { .. }
            | SentFrame::Datagram { .. }
            | SentFrame::PathChallenge(_) => {}
        }
    }

    /// The loss timer of the Initial or Handshake space has come.
    pub(super) fn on_handshake_loss_timeout(&mut self, now: Instant, space_id: SpaceId) {
        let max_ack_delay = self.peer_max_ack_delay();
        let mut settled = std::mem::take(&mut self.settled);
        if let (Some(space), Some(path)) = (
            self.spaces.get_mut(space_id),
            self.paths.get_mut(PathId::ZERO),
        ) {
            let (controller, lost) = (&mut *self.controller, &mut settled.lost);
            path.on_handshake_loss_timeout(now, space, space_id, max_ack_delay, controller, lost);
            let index = path.index;
            self.on_packets_lost(now, index, space_id, &settled);
            settled.lost.clear();
        }
        self.settled = settled;
    }

    /// A path is abandoned: all that it had in flight goes back to the queues (RFC 10069: considered
    /// lost).
    pub(super) fn requeue_in_flight(&mut self, now: Instant, path: &mut Path) {
        let mut settled = std::mem::take(&mut self.settled);
        //= specs/rfc10069-draft.md#ack-after-abandon
        //# When an endpoint finally deletes all state associated with the path, the packets sent
        //# over the path and not yet acknowledged MUST be considered lost.
        path.drain_in_flight(&mut settled.lost);
        self.watch.on_given_up(now, path.id, &settled.lost);
        for (_, packet) in settled.lost.drain(..) {
            for frame in &packet.frames {
                self.on_frame_lost(SpaceId::Data, frame, path.index);
            }
            self.schedule.on_lost(&Lost::new(
                path.index,
                now,
                packet.time_sent,
                packet.size,
                packet.decision,
            ));
        }
        self.settled = settled;
    }

    /// RFC 9002 section 6.2.4: on the only path there is, a probe carries again what a lost packet may
    /// have carried. Control frames are queued again; stream data is copied when the probe is built.
    pub(super) fn repeat_oldest_control(&mut self, id: PathId) {
        for frame in &self.frames_in_flight(id, 2) {
            self.repeat_control(SpaceId::Data, frame);
        }
    }

    /// Whether data can go on another path than this one.
    pub(crate) fn has_other_usable(&self, index: PathIndex) -> bool {
        self.paths.iter().any(|path| {
            path.index != index
                && path.is_validated()
                && !path.is_suspect()
                && self.has_cid(path.id)
        })
    }
}
