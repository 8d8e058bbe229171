//! What becomes of sent packets: acknowledged, lost, offered elsewhere. Paths judge the packets; here each frame's owner
//! learns what became of the frame.

use std::time::Instant;

use mpquic_sched_core::{Acked, Lost, PathIndex, PathUpdateKind};
use mpquic_wire::frame::AckFrame;

use super::Connection;
use crate::path::{ALL, PathAck};
use crate::sent_frame::SentFrame;
use crate::space::SpaceId;
use crate::{Event, NumberSpace, Observation, PathEvent, PathId, TransportError};

impl Connection {
    /// ACK or PATH_ACK, in a packet of this space.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        frame: &AckFrame<'_>,
    ) -> Result<(), TransportError> {
        let Some((id, index)) = self.paths.of_ack(space, frame)? else {
            return Ok(());
        };
        if space == SpaceId::Data && id == PathId::ZERO {
            self.handshake.check_ack(frame)?;
        }
        let confirmed = self.handshake.is_confirmed();
        let handshake = match space {
            SpaceId::Data => None,
            space => match self.handshake.space_mut(space) {
                None => return Ok(()),
                space => space,
            },
        };
        let outcome = self
            .paths
            .on_ack(now, index, space, frame, handshake, confirmed)?;
        let Some(outcome) = outcome else {
            return Ok(());
        };
        let acked = self.paths.take_acked();
        self.watch
            .on_acked(now, NumberSpace::on_path(space, id), &acked);
        // Before writers are told that there is room again.
        self.data
            .streams_mut()
            .set_worthwhile(self.paths.worth_buffering());
        for (_, packet) in &acked {
            let mut contiguous = 0;
            for frame in &packet.frames {
                contiguous += self.on_frame_acked(space, frame, index);
            }
            if packet.ack_eliciting && space == SpaceId::Data {
                self.data.on_acked(&Acked::new(
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
        self.data.streams_mut().settle_acked();
        self.paths.reuse_acked(acked);
        match space {
            SpaceId::Data => self.on_path_acked(now, id, index, frame.largest, outcome),
            space => self.handshake.on_acked(space),
        }
        if self.paths.any_lost() {
            self.on_packets_lost(now, index, space);
        }
        self.watch.on_metrics(now, || self.paths.metrics(index));
        Ok(())
    }

    /// 1-RTT packets of a path were acknowledged: what that means for the keys, and for a path that was in trouble.
    fn on_path_acked(
        &mut self,
        now: Instant,
        id: PathId,
        index: PathIndex,
        largest: u64,
        outcome: PathAck,
    ) {
        let keys = self.handshake.one_rtt();
        if keys.is_some_and(|keys| keys.awaits_ack() || keys.update_due()) {
            self.on_keys_acked(now, id, largest);
        }
        if self.paths.ack_frequency().is_wanted() && self.state.is_established() {
            self.paths.update_ack_frequency();
        }
        self.paths.on_heard(now);
        if outcome.recovered {
            self.data.streams_mut().set_suspects(self.paths.suspects());
            let event = PathEvent::Recovered { id };
            self.on_path_usable(now, index, event, PathUpdateKind::Recovered);
        }
    }

    /// The first packets of the current keys were acknowledged, or these are used up.
    #[cold]
    fn on_keys_acked(&mut self, now: Instant, id: PathId, largest: u64) {
        let (nonce_path, pto) = (self.paths.nonce_path(id), self.paths.largest_pto());
        let confirmed = self.handshake.is_confirmed();
        let Some(keys) = self.handshake.one_rtt_mut() else {
            return;
        };
        keys.on_acked(nonce_path, largest, now, pto);
        //= specs/rfc9001.txt#section-6.6
        //# Endpoints MUST initiate a key update before sending more protected packets than
        //# the confidentiality limit for the selected AEAD permits.
        if keys.update_due() && confirmed && keys.initiate_update(now) {
            let (phase, by_peer) = (keys.updates(), false);
            self.watch
                .note(now, Observation::KeyUpdate { phase, by_peer });
        }
    }

    /// The owner of a frame learns that it arrived on this path. Returns stream bytes that became contiguous by it.
    fn on_frame_acked(&mut self, space: SpaceId, frame: &SentFrame, path: PathIndex) -> u64 {
        match *frame {
            SentFrame::Stream(range) => return self.data.streams_mut().on_acked(&range).contiguous,
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
        self.data.streams_mut().settle_acked();
        match *frame {
            SentFrame::Crypto { .. } | SentFrame::Ack { .. } | SentFrame::NewToken(_) => {
                self.handshake.on_frame_acked(space, frame);
            }
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.data.streams_mut().on_control_acked(frame),
            SentFrame::PathChallenge(token) => self.paths.on_challenge_settled(path, token),
            SentFrame::NewConnectionId { .. }
            | SentFrame::RetireConnectionId { .. }
            | SentFrame::AckFrequency(_)
            | SentFrame::PathAbandon(_) => self.paths.on_control_acked(frame),
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
    #[inline(never)]
    pub(super) fn on_packets_lost(&mut self, now: Instant, index: PathIndex, space: SpaceId) {
        let lost = self.paths.take_lost();
        if !lost.is_empty()
            && self.watch.wants_losses()
            && let Some(id) = self.paths.at(index).map(|path| path.id)
        {
            self.watch
                .on_lost(now, id, NumberSpace::on_path(space, id), &lost);
        }
        for (_, packet) in &lost {
            self.totals.lost_packets += u64::from(!packet.mtu_probe);
            for frame in &packet.frames {
                self.on_frame_lost(space, frame, index);
            }
            if packet.ack_eliciting && space == SpaceId::Data {
                self.data.on_lost(&Lost::new(
                    index,
                    now,
                    packet.time_sent,
                    packet.size,
                    packet.decision,
                ));
            }
        }
        self.paths.reuse_lost(lost);
    }

    /// The owner of a frame learns that it did not arrive on this path.
    pub(super) fn on_frame_lost(&mut self, space: SpaceId, frame: &SentFrame, path: PathIndex) {
        match *frame {
            SentFrame::Stream(range) => self.data.on_range_lost(&range, path),
            SentFrame::PathChallenge(token) => self.paths.on_challenge_settled(path, token),
            _ => self.repeat_control(space, frame),
        }
    }

    /// The owner of a frame other than STREAM sends it again if it still matters.
    pub(super) fn repeat_control(&mut self, space: SpaceId, frame: &SentFrame) {
        match *frame {
            SentFrame::Crypto { .. } | SentFrame::HandshakeDone | SentFrame::NewToken(_) => {
                self.handshake.on_frame_lost(space, frame);
            }
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.data.streams_mut().on_control_lost(frame),
            SentFrame::NewConnectionId { .. }
            | SentFrame::RetireConnectionId { .. }
            | SentFrame::AckFrequency(_)
            | SentFrame::PathAbandon(_)
            | SentFrame::PathStatus { .. }
            | SentFrame::MaxPathId(_)
            | SentFrame::PathsBlocked(_)
            | SentFrame::PathCidsBlocked(_) => self.paths.on_control_lost(frame),
            // RFC 9000 section 13.3: newer acknowledgements replace old ones, challenges have their
            // own timer, datagrams are not repeated.
            SentFrame::Stream(_)
            | SentFrame::Ack { .. }
            | SentFrame::Datagram { .. }
            | SentFrame::PathChallenge(_) => {}
        }
    }

    /// A path is in trouble: what it has in flight becomes sendable on the other paths, and stays in flight here until
    /// acknowledged or lost.
    pub(super) fn on_suspect(&mut self, now: Instant, id: PathId, index: PathIndex) {
        self.data.streams_mut().set_suspects(self.paths.suspects());
        let packets = self.paths.on_suspect(now, index, self.totals.sent_bytes);
        self.offer_in_flight(index, packets);
        self.events
            .push_back(Event::Path(PathEvent::Suspect { id }));
        self.tell_scheduler(now, index, PathUpdateKind::Suspect);
    }

    /// A path can be used that could not before: what had nowhere to go until now is offered.
    pub(super) fn offer_stranded(&mut self, now: Instant) {
        for index in self.paths.stranded(now) {
            self.offer_in_flight(index, ALL);
        }
    }

    /// Queues the frames of the oldest packets in flight on a path again, without giving the packets up.
    pub(super) fn offer_in_flight(&mut self, index: PathIndex, packets: usize) {
        for frame in &self.paths.frames_in_flight(index, packets) {
            match frame {
                SentFrame::Stream(range) => self.data.streams_mut().make_sendable(range),
                _ => self.repeat_control(SpaceId::Data, frame),
            }
        }
    }
}
