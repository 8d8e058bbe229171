//! Frame to owner: one line per frame; holds no state and takes no decision of its own.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, PathStatus};
use mpquic_wire::frame::{Frame, FrameIter, Stream};
use mpquic_wire::packet::PacketType;

use crate::connection::{Connection, Event};
use crate::events::DatagramMeta;
use crate::space::{ReceivedPacket, SpaceId};
use crate::{ConnectionError, PathId, TransportError};

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
                Frame::Ack(ack) => self.on_ack(now, space_id, &ack),
                Frame::Crypto(crypto) => self.on_crypto(now, space_id, crypto.offset, crypto.data),
                frame => self.on_frame(arrival, PathId::ZERO, dcid, frame),
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
            self.on_frame(arrival, id, dcid, frame)
                .map_err(|error| error.in_frame(frame_type))?;
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
                self.on_path_switched(now, index);
            }
        }
        Ok(())
    }

    pub(super) fn on_frame(
        &mut self,
        arrival: &DatagramMeta,
        id: PathId,
        dcid: &ConnectionId,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        match frame {
            Frame::Ack(ack) => self.on_ack(arrival.now, SpaceId::Data, &ack),
            Frame::Stream(stream) => self.on_stream(arrival.now, id, &stream),
            Frame::Padding | Frame::Ping | Frame::ImmediateAck => Ok(()),
            frame => self.on_rare_frame(arrival, id, dcid, frame),
        }
    }

    #[inline(never)]
    fn on_stream(
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
        // Asked for by the first frame of a batch only.
        let (paths, config) = (&self.paths, &self.config);
        let rtt = || paths.covered_rtt().unwrap_or(config.initial_rtt);
        let before = self.data.streams().received();
        self.data.streams_mut().on_stream_frame(now, rtt, stream)?;
        let rise = self.data.streams().received() - before;
        self.receive_rate.on_received(now, rise, rtt);
        Ok(())
    }

    /// Apart from those that most packets have, so that these run through little code.
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
            Frame::Padding
            | Frame::Ping
            | Frame::ImmediateAck
            | Frame::Ack(_)
            | Frame::Stream(_) => {}
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
                    self.announce_available();
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
                    self.announce_available();
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

pub(super) fn not_allowed() -> TransportError {
    TransportError::protocol_violation("frame not allowed in this packet")
}

pub(super) fn empty() -> TransportError {
    //= specs/rfc9000.txt#section-12.4
    //# An endpoint MUST treat receipt of a packet containing no frames as a connection error of
    //# type PROTOCOL_VIOLATION.
    TransportError::protocol_violation("packet without frames")
}
