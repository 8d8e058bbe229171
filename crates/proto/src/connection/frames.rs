//! Each frame to its owner, one line per frame: those that came, and those that were sent, once they are acknowledged or
//! lost. Paths judge which packets are.

use std::time::Instant;

use mpquic_sched_core::{Acked, ConnectionId, Lost, PathIndex, PathStatus, PathUpdateKind};
use mpquic_wire::frame::{AckFrame, Frame, FrameIter, Stream};
use mpquic_wire::packet::PacketType;

use super::Connection;
use crate::events::{DatagramMeta, Event};
use crate::sent_frame::{Owner, SentFrame};
use crate::space::{ReceivedPacket, SpaceId};
use crate::{ConnectionError, NumberSpace, PathEvent, PathId, TransportError};

/// Frames that came.
impl Connection {
    /// The frames of an Initial, Handshake or 0-RTT packet.
    pub(super) fn on_long_payload(
        &mut self,
        arrival: &DatagramMeta,
        ty: PacketType,
        dcid: &ConnectionId,
        number: u64,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let now = arrival.now;
        let space_id = match ty {
            PacketType::Initial => SpaceId::Initial,
            PacketType::Handshake => SpaceId::Handshake,
            PacketType::ZeroRtt => SpaceId::Data,
        };
        let mut ack_eliciting = false;
        let mut any = false;
        let mut frames = FrameIter::new(payload);
        while let Some(frame) = frames.next() {
            let frame = frame?;
            any = true;
            let frame_type = frames.last_type();
            //= specs/rfc10069-draft.md#frames
            //# If an endpoint receives a multipath-specific frame in a different packet type, it
            //# MUST close the connection with an error of type PROTOCOL_VIOLATION.
            //= specs/rfc9000.txt#section-12.4
            //# An endpoint MUST treat receipt of a frame in a packet type that is not permitted as
            //# a connection error of type PROTOCOL_VIOLATION.
            //= specs/rfc9000.txt#section-12.5
            //# A server MAY treat receipt of these frames in 0-RTT packets as a connection error of
            //# type PROTOCOL_VIOLATION.
            //= specs/rfc9000.txt#section-17.2.4
            //# Endpoints MUST treat receipt of Handshake packets with other frames as a connection
            //# error of type PROTOCOL_VIOLATION.
            //= specs/rfc9001.txt#section-8.3
            //# A server MUST treat receipt of a CRYPTO frame in a 0-RTT packet as a connection error of
            //# type PROTOCOL_VIOLATION.
            if !frame.allowed_in(ty) {
                return Err(not_allowed().in_frame(frame_type));
            }
            ack_eliciting |= frame.is_ack_eliciting();
            let early = match &frame {
                Frame::Stream(stream) => Some(stream.id),
                Frame::ResetStream(reset) => Some(reset.id),
                _ => None,
            };
            let result = match frame {
                Frame::Ack(ack) => self.on_ack(now, PathId::ZERO, space_id, &ack),
                Frame::Crypto(crypto) => self.on_crypto(now, space_id, crypto.offset, crypto.data),
                Frame::Stream(stream) => self.on_stream(now, PathId::ZERO, &stream),
                frame => self.on_rare_frame(arrival, PathId::ZERO, dcid, frame),
            };
            result.map_err(|error| error.in_frame(frame_type))?;
            if !self.state.is_alive() {
                return Ok(());
            }
            if let Some(id) = early {
                self.data.streams_mut().mark_early(id);
            }
        }
        if !any {
            return Err(empty());
        }
        let mut received = ReceivedPacket {
            now,
            received: arrival.received,
            pn: number,
            ack_eliciting,
            ecn: arrival.ecn,
            policy: self.paths.ack_frequency().policy(),
            //= specs/rfc9000.txt#section-13.2.1
            //# An endpoint MUST acknowledge all ack-eliciting Initial and Handshake packets
            //# immediately and all ack-eliciting 0-RTT and 1-RTT packets within its advertised
            //# max_ack_delay, with the following exception.
            immediate: true,
        };
        if let Some(space) = self.handshake.space_mut(space_id) {
            space.on_received(&received);
        }
        //= specs/rfc9000.txt#section-13.2.6
        //# Packets that a client sends with 0-RTT packet protection MUST be acknowledged by the
        //# server in packets protected by 1-RTT keys.
        if ty == PacketType::ZeroRtt {
            received.immediate = false;
            self.paths.on_packet_received(PathId::ZERO, &received);
        }
        Ok(())
    }

    /// The frames of a 1-RTT packet on a path.
    pub(super) fn on_data_payload(
        &mut self,
        arrival: &DatagramMeta,
        id: PathId,
        dcid: &ConnectionId,
        number: u64,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let now = arrival.now;
        let mut ack_eliciting = false;
        let mut any = false;
        let mut probing = true;
        let mut immediate = false;
        let mut frames = FrameIter::new(payload);
        loop {
            // Mostly data: it is handed on as it is decoded.
            if let Some(stream) = frames.next_stream() {
                (any, ack_eliciting, probing) = (true, true, false);
                let stream = match stream {
                    Ok(stream) => stream,
                    Err(malformed) => return Err(frames.malformed(malformed)),
                };
                let frame_type = frames.last_type();
                self.on_stream(now, id, &stream)
                    .map_err(|error| error.in_frame(frame_type))?;
                continue;
            }
            let Some(frame) = frames.next() else {
                break;
            };
            let frame = frame?;
            any = true;
            ack_eliciting |= frame.is_ack_eliciting();
            probing &= frame.is_probing();
            immediate |= matches!(frame, Frame::ImmediateAck);
            let frame_type = frames.last_type();
            let taken = match frame {
                Frame::Ack(ack) => self.on_ack(now, id, SpaceId::Data, &ack),
                Frame::Padding | Frame::Ping => Ok(()),
                frame => self.on_rare_frame(arrival, id, dcid, frame),
            };
            taken.map_err(|error| error.in_frame(frame_type))?;
            if !self.state.is_alive() {
                return Ok(());
            }
        }
        if !any {
            return Err(empty());
        }
        //= specs/rfc9000.txt#section-13.1
        //# A packet MUST NOT be acknowledged until packet protection has been successfully removed
        //# and all frames contained in the packet have been processed.
        let received = ReceivedPacket {
            now,
            received: arrival.received,
            pn: number,
            ack_eliciting,
            ecn: arrival.ecn,
            policy: self.paths.ack_frequency().policy(),
            immediate,
        };
        // A PATH_ABANDON among the frames may have moved the space.
        let kept = self.paths.on_packet_received(id, &received);
        if kept && !probing && self.handshake.is_confirmed() {
            let events = &mut self.endpoint_events;
            if let Some(index) = self.paths.follow_peer(arrival, id, number, events) {
                self.data.on_path_moved(index);
                self.announce_move(now, index);
            }
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn on_stream(
        &mut self,
        now: Instant,
        id: PathId,
        stream: &Stream<'_>,
    ) -> Result<(), TransportError> {
        let bytes = stream.data.len() as u64;
        self.totals.received_stream_bytes += bytes;
        if let Some(path) = self.paths.receiving(id) {
            path.on_stream_bytes(bytes);
        }
        let paths = &self.paths;
        self.data
            .on_stream_frame(now, || paths.covered_rtt(), stream)
    }

    /// All frames but those that most packets have, so that these run through little code.
    #[cold]
    #[inline(never)]
    fn on_rare_frame(
        &mut self,
        arrival: &DatagramMeta,
        id: PathId,
        dcid: &ConnectionId,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        let now = arrival.now;
        let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
        match frame {
            Frame::Padding | Frame::Ping | Frame::ImmediateAck => {}
            Frame::Ack(ack) => self.on_ack(now, id, SpaceId::Data, &ack)?,
            Frame::Stream(stream) => self.on_stream(now, id, &stream)?,
            Frame::AckFrequency(frame) => self.paths.ack_frequency_mut().on_frame(&frame)?,
            Frame::Crypto(crypto) => {
                self.on_crypto(now, SpaceId::Data, crypto.offset, crypto.data)?;
            }
            Frame::ResetStream(reset) => {
                self.data.streams_mut().on_reset_stream(
                    reset.id,
                    reset.error_code,
                    reset.final_size,
                )?;
            }
            Frame::StopSending(stop) => self
                .data
                .streams_mut()
                .on_stop_sending(stop.id, stop.error_code)?,
            Frame::MaxData(max) => self.data.streams_mut().on_max_data(max),
            Frame::MaxStreamData { id, offset } => {
                self.data.streams_mut().on_max_stream_data(id, offset)?
            }
            Frame::MaxStreams { dir, count } => {
                self.data.streams_mut().on_max_streams(dir, count)?
            }
            // RFC 9000 sections 19.12 and 19.14: of use for debugging only.
            Frame::DataBlocked { .. } => {}
            Frame::StreamsBlocked { dir, limit } => {
                self.data.streams_mut().on_streams_blocked(dir, limit)?
            }
            Frame::StreamDataBlocked { id, .. } => {
                self.data.streams_mut().on_stream_data_blocked(id)?
            }
            Frame::NewConnectionId(frame) => {
                if self.paths.on_new_cid(&frame, events)? {
                    self.events.extend(self.paths.take_available());
                }
            }
            Frame::RetireConnectionId(frame) => {
                self.paths.on_retire_cid(&frame, dcid, rng, events)?;
            }
            Frame::PathChallenge(token) => self.paths.on_path_challenge(arrival, id, token),
            Frame::PathResponse(token) => self.on_path_response(now, id, token),
            Frame::HandshakeDone => {
                if self.handshake.on_done()? {
                    self.confirm_handshake(now);
                }
            }
            Frame::NewToken(token) => self.handshake.on_new_token(token)?,
            Frame::Datagram(data) => {
                if let Some(path) = self.paths.get_mut(id) {
                    path.on_datagram_frame(now);
                }
                if self.data.datagrams_mut().on_datagram(data)? {
                    self.events.push_back(Event::DatagramReceived);
                }
            }
            Frame::ConnectionClose(close) => {
                self.drain(now, ConnectionError::ConnectionClosed(close));
            }
            Frame::ApplicationClose(close) => {
                self.drain(now, ConnectionError::ApplicationClosed(close));
            }
            Frame::PathAbandon { path, error } => self.on_path_abandon(now, path, error)?,
            Frame::PathStatusAvailable { path, seq } => {
                self.on_path_status(now, path, PathStatus::Available, seq)?;
            }
            Frame::PathStatusBackup { path, seq } => {
                self.on_path_status(now, path, PathStatus::Backup, seq)?;
            }
            Frame::MaxPathId(max) => {
                if self.paths.on_max_path_id(max, rng, events)? {
                    self.events.extend(self.paths.take_available());
                }
            }
            // Informational: the limit rises when a path is abandoned, not on request.
            Frame::PathsBlocked(max) => self.paths.limits_of_frame()?.on_paths_blocked(max)?,
            Frame::PathCidsBlocked { path, next_seq } => {
                self.paths.on_cids_blocked(path, next_seq, rng, events)?;
            }
        }
        Ok(())
    }

    /// A packet while we are closing: only a close of the peer's matters (RFC 9000 section 10.2.1).
    pub(super) fn closing_packet(&mut self, arrival: &DatagramMeta, id: PathId, payload: &[u8]) {
        for frame in FrameIter::new(payload) {
            match frame {
                Ok(Frame::ConnectionClose(_) | Frame::ApplicationClose(_)) => {
                    // Why is known already.
                    self.drain(arrival.now, ConnectionError::LocallyClosed);
                    return;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let path = self
            .paths
            .get(id)
            .or_else(|| self.paths.iter().next())
            .map(|path| path.index);
        if let Some(index) = path {
            self.state.on_packet_while_closing(index);
        }
    }
}

/// Frames that were sent.
impl Connection {
    /// ACK or PATH_ACK, in a packet of this space that came on path `over`.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        over: PathId,
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
            .on_ack(now, index, over, space, frame, handshake, confirmed)?;
        let has_fates = space == SpaceId::Data && self.data.has_fates();
        if has_fates {
            self.data.datagrams_mut().on_late_ack(now, id, frame);
        }
        let Some(outcome) = outcome else {
            return Ok(());
        };
        let acked = self.paths.take_acked();
        self.watch
            .on_acked(now, NumberSpace::on_path(space, id), &acked);
        if has_fates {
            self.data.datagrams_mut().on_acked(now, id, &acked);
        }
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
            SpaceId::Data => {
                if self.handshake.keys_await_ack() {
                    let (path, pto) = (self.paths.nonce_path(id), self.paths.largest_pto());
                    let updated = self.handshake.on_keys_acked(now, path, frame.largest, pto);
                    self.watch.on_key_update(now, updated, false);
                }
                if self.paths.ack_frequency().is_wanted() && self.state.is_established() {
                    self.paths.update_ack_frequency(now);
                }
                self.paths.on_heard(now);
                if outcome.heard {
                    let event = PathEvent::Heard { id };
                    self.events.push_back(Event::Path(event));
                }
                if outcome.recovered {
                    self.data.streams_mut().set_suspects(self.paths.suspects());
                    let event = PathEvent::Recovered { id };
                    self.on_path_usable(now, index, event, PathUpdateKind::Recovered);
                }
            }
            space => self.handshake.on_acked(space),
        }
        if self.paths.any_lost() {
            self.on_packets_lost(now, index, space);
        }
        self.watch.on_metrics(now, || self.paths.metrics(index));
        Ok(())
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
            SentFrame::Ack { .. } => self.handshake.on_frame_acked(space, frame),
            _ => {
                self.data.streams_mut().settle_acked();
                match frame.owner() {
                    Owner::Handshake => self.handshake.on_frame_acked(space, frame),
                    Owner::Streams => self.data.streams_mut().on_control_acked(frame),
                    Owner::Paths => self.paths.on_control_acked(frame, path),
                    Owner::Nobody => {}
                }
            }
        }
        0
    }

    /// Packets of a space that travelled on a path were declared lost: the owners of their frames repeat what still
    /// matters, and the scheduler is told.
    #[inline(never)]
    pub(super) fn on_packets_lost(&mut self, now: Instant, index: PathIndex, space: SpaceId) {
        let lost = self.paths.take_lost();
        if !lost.is_empty()
            && let Some(id) = self.paths.at(index).map(|path| path.id)
        {
            if self.watch.wants_losses() {
                self.watch
                    .on_lost(now, id, NumberSpace::on_path(space, id), &lost);
            }
            if space == SpaceId::Data {
                self.data.datagrams_mut().on_lost(now, id, &lost);
            }
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
        match frame.owner() {
            Owner::Handshake => self.handshake.on_frame_lost(space, frame),
            Owner::Streams => self.data.streams_mut().on_control_lost(frame),
            Owner::Paths => self.paths.on_control_lost(frame),
            Owner::Nobody => {}
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

fn not_allowed() -> TransportError {
    TransportError::protocol_violation("frame not allowed in this packet")
}

fn empty() -> TransportError {
    //= specs/rfc9000.txt#section-12.4
    //# An endpoint MUST treat receipt of a packet containing no frames as a connection error of
    //# type PROTOCOL_VIOLATION.
    TransportError::protocol_violation("packet without frames")
}
