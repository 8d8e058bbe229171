//! From a datagram to decrypted packets (RFC 9000 section 12.2): splits, finds keys and number space,
//! decrypts, filters duplicates; what frames mean is `frames`'s.

#[cfg(test)]
mod tests;

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, PathUpdateKind, Side};
use mpquic_wire::frame::{Frame, FrameIter};
use mpquic_wire::packet::{
    LONG_HEADER_FORM, PacketType, ProtectedPacket, decode_next, version_list,
};

use super::Connection;
use crate::cid::is_reset;
use crate::events::{DatagramMeta, EndpointEvent};
use crate::handshake::{NotOpened, Opened, Source};
use crate::memory::MemoryFor;
use crate::path::{Path, PathState};
use crate::space::SpaceId;
use crate::{ConnectionError, NumberSpace, Observation, PacketReceived, PathId, TransportError};

impl Connection {
    /// Takes in one UDP payload.
    pub(crate) fn on_datagram(&mut self, arrival: &DatagramMeta, datagram: &mut [u8]) {
        if self.state.is_drained() || !self.paths.takes_from(&arrival.tuple) {
            return;
        }
        self.paths.count_received(datagram.len());
        if !matches!(datagram, [0..LONG_HEADER_FORM, ..]) {
            return self.on_long_datagram(arrival, datagram);
        }
        // One packet, as nearly all are.
        let pn_offset = 1 + self.endpoint_config.cids.len();
        let id = datagram.get(1..pn_offset);
        let id = id.filter(|_| self.endpoint_config.takes(datagram[0]));
        let Some((dcid, id)) = id.and_then(|id| self.paths.local_cids().addressed(id)) else {
            return self.check_reset(arrival.now, datagram);
        };
        // Counts, decryptable or not (RFC 9000 section 8.1).
        if let Some(path) = self.paths.receiving(id) {
            path.on_datagram_received(&arrival.tuple, datagram.len());
        }
        self.on_short_packet(arrival, id, &dcid, pn_offset, datagram);
    }

    /// One that begins with a long header may have several packets. Apart from the rest: once the handshake is over, there
    /// are none.
    #[inline(never)]
    fn on_long_datagram(&mut self, arrival: &DatagramMeta, datagram: &mut [u8]) {
        let mut offset = 0;
        let mut first_dcid = None;
        //= specs/rfc9000.txt#section-12.2
        //# Receivers MUST be able to process coalesced packets.
        while offset < datagram.len() {
            let rest = &mut datagram[offset..];
            let Ok(packet) = decode_next(rest, self.endpoint_config.cids.len()) else {
                break;
            };
            let negotiates = matches!(packet, ProtectedPacket::VersionNegotiation { .. });
            if !negotiates && !self.endpoint_config.takes(rest[0]) {
                break;
            }
            let len = packet.size();
            match first_dcid {
                None => {
                    let short = match &packet {
                        ProtectedPacket::Short { dcid, .. } => Some(dcid),
                        _ => None,
                    };
                    self.paths.on_datagram(short, &arrival.tuple, rest.len());
                    first_dcid = Some(*packet.dcid());
                }
                //= specs/rfc9000.txt#section-12.2
                //# Receivers SHOULD ignore any subsequent packets with a different Destination
                //# Connection ID than the first packet in the datagram.
                Some(first) if first != *packet.dcid() => {
                    offset += len;
                    continue;
                }
                Some(_) => {}
            }
            //= specs/rfc9000.txt#section-12.2
            //# The receiver of coalesced QUIC packets MUST individually process each QUIC packet and
            //# separately acknowledge them, as if they were received as the payload of different UDP
            //# datagrams.
            //= specs/rfc9000.txt#section-12.2
            //# For example, if decryption fails (because the keys are not available or for any other
            //# reason), the receiver MAY either discard or buffer the packet for later processing and
            //# MUST attempt to process the remaining packets.
            self.on_packet(arrival, &packet, &mut rest[..len]);
            if self.state.is_drained() {
                return;
            }
            offset += len;
        }
        //= specs/rfc9000.txt#section-10.3.1
        //# However, the comparison MUST be performed when the first packet in an incoming datagram
        //# either cannot be associated with a connection or cannot be decrypted.
        if first_dcid.is_none() {
            self.check_reset(arrival.now, datagram);
        }
    }

    fn on_packet(&mut self, arrival: &DatagramMeta, packet: &ProtectedPacket, bytes: &mut [u8]) {
        match packet {
            ProtectedPacket::Long {
                ty,
                version,
                dcid,
                scid,
                token,
                pn_offset,
                ..
            } => {
                if self.handshake.takes(*ty, *version, token, arrival.bytes) {
                    self.on_long_packet(arrival, *ty, dcid, scid, *pn_offset, bytes);
                }
            }
            ProtectedPacket::Short {
                dcid, pn_offset, ..
            } => match self.paths.local_cids().path_of(dcid) {
                Some(id) => self.on_short_packet(arrival, id, dcid, *pn_offset, bytes),
                None => self.check_reset(arrival.now, bytes),
            },
            ProtectedPacket::VersionNegotiation { dcid, versions, .. } => {
                let listed = version_list(&bytes[versions.clone()]);
                if self.state.is_alive() && self.handshake.accepts_negotiation(dcid, listed) {
                    //= specs/rfc9000.txt#section-6.2
                    //# A client that supports only this version of QUIC MUST abandon the current
                    //# connection attempt if it receives a Version Negotiation packet, with the
                    //# following two exceptions.
                    self.end(arrival.now, Some(ConnectionError::VersionMismatch));
                }
            }
            ProtectedPacket::Retry {
                version,
                dcid,
                scid,
                token,
                ..
            } if *version == self.handshake.version() => {
                self.on_retry(arrival, dcid, *scid, &bytes[token.clone()], bytes)
            }
            ProtectedPacket::Retry { .. } => {}
        }
    }

    /// An Initial, Handshake or 0-RTT packet.
    fn on_long_packet(
        &mut self,
        arrival: &DatagramMeta,
        ty: PacketType,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        pn_offset: usize,
        bytes: &mut [u8],
    ) {
        let now = arrival.now;
        let (kept_with, space) = match ty {
            PacketType::Initial => (SpaceId::Initial, NumberSpace::Initial),
            PacketType::Handshake => (SpaceId::Handshake, NumberSpace::Handshake),
            PacketType::ZeroRtt => (SpaceId::Initial, NumberSpace::Path(PathId::ZERO)),
        };
        let path = self.paths.get(PathId::ZERO);
        let expected = path.map(Path::next_expected);
        let (number, payload) = match self.handshake.open(ty, expected, pn_offset, bytes) {
            Opened::Packet(number, payload) => (number, payload),
            Opened::TooEarly => {
                if self.state.is_alive() {
                    let zero = PathId::ZERO;
                    self.handshake
                        .keep_undecryptable(kept_with, zero, arrival, bytes);
                }
                return;
            }
            Opened::Undecryptable => {
                self.totals.undecryptable_packets += 1;
                return self.watch.note(now, Observation::Undecryptable { space });
            }
            Opened::ReservedBits => {
                return self.fail(
                    now,
                    TransportError::protocol_violation("reserved bits are set"),
                );
            }
            Opened::Dropped => return,
        };
        if !self.state.is_alive() {
            if self.state.is_closing() {
                self.closing_packet(arrival, PathId::ZERO, &bytes[payload]);
            }
            return;
        }
        match self.handshake.hear(scid) {
            Source::New => self.paths.replace_remote_cid(*scid),
            Source::Known => {}
            Source::Other => return,
        }
        if let Some(tuple) = self.handshake.on_answer(now, &arrival.tuple) {
            self.paths.begin_on(tuple);
        }
        //= specs/rfc9000.txt#section-12.3
        //# A receiver MUST discard a newly unprotected packet unless it is certain that it has not
        //# processed another packet with the same packet number from the same packet number space.
        //= specs/rfc9000.txt#section-12.3
        //# Duplicate suppression MUST happen after removing packet protection for the reasons
        //# described in Section 9.5 of [QUIC-TLS].
        let repeated = match ty {
            PacketType::ZeroRtt => {
                let path = self.paths.get(PathId::ZERO);
                path.is_none_or(|path| path.is_duplicate(number))
            }
            _ => {
                let space = self.handshake.space(kept_with);
                space.is_none_or(|space| space.received.is_duplicate(number))
            }
        };
        if repeated {
            return;
        }
        if ty == PacketType::ZeroRtt {
            // As with 1-RTT packets.
            let streams = self.data.streams_mut();
            let memory = streams.memory_for(now, payload.len() as u64);
            if memory != MemoryFor::All && streams.lacks_memory_for(memory, &bytes[payload.clone()])
            {
                self.totals.refused_packets += 1;
                return;
            }
        }
        // RFC 9000 section 10.1: a packet that was received and processed restarts the idle timer.
        self.idle.on_received(now);
        self.watch.on_packet_received(|| PacketReceived {
            now,
            space,
            number,
            early: ty == PacketType::ZeroRtt,
            header: payload.start,
            payload: &bytes[payload.clone()],
        });
        if self.side == Side::Server && ty == PacketType::Handshake {
            let path = self.paths.get_mut(PathId::ZERO);
            //= specs/rfc9001.txt#section-4.9.1
            //# Thus, a client MUST discard Initial keys when it first sends a Handshake packet and
            //# a server MUST discard Initial keys when it first successfully processes a Handshake
            //# packet.
            let first = self.handshake.discard(SpaceId::Initial);
            if let Some(path) = path {
                // RFC 9000 section 8.1: the client has proven its address.
                path.validate();
                if first {
                    path.reset_pto_backoff();
                }
            }
            if first {
                // Copies of the client's first packets may still come, over other links.
                let dcid = self.handshake.original_dcid();
                self.endpoint_events
                    .push_back(EndpointEvent::RetireCidQuietly(dcid, now));
            }
        }
        if let Err(error) = self.on_long_payload(arrival, ty, dcid, number, &bytes[payload]) {
            self.fail(now, error);
        }
    }

    /// A packet on the path of this ID, to which its connection ID belongs.
    #[inline(never)]
    fn on_short_packet(
        &mut self,
        arrival: &DatagramMeta,
        id: PathId,
        dcid: &ConnectionId,
        pn_offset: usize,
        bytes: &mut [u8],
    ) {
        let now = arrival.now;
        //= specs/rfc9001.txt#section-5.7
        //# A server MUST NOT process incoming 1-RTT protected packets before the TLS handshake is
        //# complete.
        //= specs/rfc9001.txt#section-5.7
        //# Endpoints in either role MUST NOT decrypt 1-RTT packets from their peer prior to
        //# completing the handshake.
        //= specs/rfc9001.txt#section-5.7
        //# Even if it has 1-RTT secrets, a client MUST NOT process incoming 1-RTT protected packets
        //# before the TLS handshake is complete.
        let ready = self.handshake.is_complete() || self.state.is_closing();
        if self.handshake.one_rtt().is_none() || !ready {
            if self.state.is_alive() {
                self.handshake
                    .keep_undecryptable(SpaceId::Data, id, arrival, bytes);
            }
            return;
        }
        let nonce_path = self.paths.nonce_path(id);
        let expected = match self.paths.state(id) {
            PathState::Open(path) => path.next_expected(),
            PathState::Abandoned(Some(retired)) => retired.space.next_expected(),
            PathState::NeverOpened(_) => 0,
            PathState::Abandoned(None) => return,
        };
        let paths = &self.paths;
        let pto = || paths.largest_pto();
        let opened = self
            .handshake
            .open_short(now, nonce_path, expected, pn_offset, bytes, pto);
        let opened = match opened {
            Ok(opened) => opened,
            Err(NotOpened::NoPacket) => return self.check_reset(now, bytes),
            Err(NotOpened::Undecryptable) => {
                self.totals.undecryptable_packets += 1;
                let space = NumberSpace::Path(id);
                self.watch.note(now, Observation::Undecryptable { space });
                return self.check_reset(now, bytes);
            }
            Err(NotOpened::Error(error)) => return self.fail(now, error),
        };
        let (number, payload) = (opened.number, opened.payload);
        self.watch.on_key_update(now, opened.updated, true);
        //= specs/rfc9000.txt#section-17.3.1
        //# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits,
        //# after removing both packet and header protection, as a connection error of type
        //# PROTOCOL_VIOLATION.
        if opened.reserved_bits {
            return self.fail(
                now,
                TransportError::protocol_violation("reserved bits are set"),
            );
        }
        let paths = &self.paths;
        self.handshake
            .on_one_rtt_packet(|| now + 3 * paths.largest_pto());
        if !self.state.is_alive() {
            if self.state.is_closing() {
                self.closing_packet(arrival, id, &bytes[payload]);
            }
            return;
        }
        // Parsed twice only when memory is short.
        let memory = self
            .data
            .streams_mut()
            .memory_for(now, payload.len() as u64);
        if memory != MemoryFor::All
            && self
                .data
                .streams()
                .lacks_memory_for(memory, &bytes[payload.clone()])
        {
            return self.on_packet_refused(memory, arrival, id, number, &bytes[payload]);
        }
        let fresh = match self.paths.state(id) {
            PathState::Open(path) => !path.is_duplicate(number),
            PathState::Abandoned(Some(retired)) => !retired.space.received.is_duplicate(number),
            PathState::NeverOpened(id) => {
                let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
                let packet = bytes.len();
                let Some(index) = self.paths.accept(id, arrival, packet, rng, events) else {
                    return;
                };
                self.data.on_new_path(index);
                self.tell_scheduler(now, index, PathUpdateKind::Opened);
                true
            }
            PathState::Abandoned(None) => false,
        };
        if !fresh {
            return;
        }
        // RFC 9000 section 10.1: a packet that was received and processed restarts the idle timer.
        self.idle.on_received(now);
        self.watch.on_packet_received(|| PacketReceived {
            now,
            space: NumberSpace::Path(id),
            number,
            early: false,
            header: payload.start,
            payload: &bytes[payload.clone()],
        });
        //= specs/rfc9000.txt#section-5.2
        //# An endpoint MUST generate a connection error if processing the contents of these packets
        //# prior to discovering an error, or fully revert any changes made during that processing.
        if let Err(error) = self.on_data_payload(arrival, id, dcid, number, &bytes[payload]) {
            self.fail(now, error);
        }
        if self.watch.is_observed() {
            let bytes = self.data.streams().out_of_order();
            self.watch.note(now, Observation::OutOfOrder { bytes });
        }
    }

    /// There is no memory for what a packet carries. Takes that for which there is: above all the data that comes next for
    /// an application that has read all before it, and acknowledgements. The packet is not acknowledged, and so the rest
    /// comes again; what was taken changes nothing then. Without that, a sender that packs what is waited for together
    /// with other data would be refused for ever: the application waits for the one, and the other waits for the
    /// application.
    #[cold]
    #[inline(never)]
    fn on_packet_refused(
        &mut self,
        memory: MemoryFor,
        arrival: &DatagramMeta,
        id: PathId,
        number: u64,
        payload: &[u8],
    ) {
        self.totals.refused_packets += 1;
        let Some(path) = self.paths.receiving(id) else {
            return;
        };
        path.on_packet_refused(arrival.now);
        if path.is_duplicate(number) {
            return;
        }
        let mut frames = FrameIter::new(payload);
        while let Some(frame) = frames.next() {
            let frame_type = frames.last_type();
            let taken = frame.and_then(|frame| match &frame {
                Frame::Stream(stream) if self.data.streams().has_memory_for(memory, stream) => {
                    let taken = self.on_stream(arrival.now, id, stream);
                    taken.map_err(|error| error.in_frame(frame_type))
                }
                Frame::Ack(ack) => {
                    let taken = self.on_ack(arrival.now, id, SpaceId::Data, ack);
                    taken.map_err(|error| error.in_frame(frame_type))
                }
                _ => Ok(()),
            });
            if let Err(error) = taken {
                return self.fail(arrival.now, error);
            }
        }
    }

    /// New keys are there: tries again what came too early (RFC 9001 section 5.7).
    pub(crate) fn retry_undecryptable(&mut self, now: Instant) {
        while let Some(packets) = self.handshake.take_decryptable() {
            for mut buffered in packets {
                let arrival = DatagramMeta {
                    now,
                    received: buffered.received,
                    tuple: buffered.network_path,
                    ecn: buffered.ecn,
                    bytes: buffered.packet.len(),
                };
                // When it came, its path was not there to be credited with it.
                if buffered.path != PathId::ZERO
                    && let Some(path) = self.paths.get_mut(buffered.path)
                {
                    path.on_datagram_received(&arrival.tuple, arrival.bytes);
                }
                let decoded = decode_next(&buffered.packet, self.endpoint_config.cids.len());
                if let Ok(packet) = decoded {
                    self.on_packet(&arrival, &packet, &mut buffered.packet);
                }
            }
        }
    }

    /// RFC 9000 section 10.3.1.
    #[cold]
    #[inline(never)]
    fn check_reset(&mut self, now: Instant, bytes: &[u8]) {
        //= specs/rfc9000.txt#section-10.3.1
        //# If the last 16 bytes of the datagram are identical in value to a stateless reset token,
        //# the endpoint MUST enter the draining period and not send any further packets on this
        //# connection.
        if self.state.is_alive() && is_reset(self.paths.remote_cids().tokens(), bytes) {
            self.drain(now, ConnectionError::Reset);
        }
    }
}
