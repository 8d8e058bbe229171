//! The Initial and the Handshake packet number space, each until its keys are dropped, and packets with long headers: opened,
//! and what those of these spaces have to carry.

use std::ops::Range;
use std::time::Instant;

use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::open_long;
use mpquic_wire::packet::{
    MIN_INITIAL_DATAGRAM, PacketType, Version, expand_pn, reserved_bits_are_zero, unprotect_header,
};
use rand::rngs::StdRng;
use rustls::quic::DirectionalKeys;

use super::Handshake;
use crate::PathId;
use crate::frame_writer::FrameWriter;
use crate::path::Path;
use crate::space::{PacketSpace, SpaceId};

/// What the header and the tag of an Initial packet take beside its token and its CRYPTO frames, with an ACK frame.
const INITIAL_OVERHEAD: usize = 160;

/// What became of a packet with a long header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is decrypted: its number, and where its frames are.
    Packet(u64, Range<usize>),
    /// Its keys are still to come.
    TooEarly,
    /// It does not decrypt.
    Undecryptable,
    /// Its sender sets bits that must be zero.
    ReservedBits,
    /// There are no keys for it, or it is too short.
    Dropped,
}

/// Whom a packet with a long header names as its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The server, for the first time: packets go there from now on.
    New,
    /// The peer, as before.
    Known,
    /// Somebody else: it is to be dropped.
    Other,
}

/// What the Initial and Handshake spaces have to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) initial: bool,
    pub(crate) handshake: bool,
    /// There is more than data, which the congestion window may hold back (RFC 9002 section 7).
    pub(crate) urgent: bool,
    /// The datagram must be expanded.
    pub(crate) padded: bool,
}

/// A datagram with what they have to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) initial: bool,
    pub(crate) handshake: bool,
    /// The datagram must be expanded.
    pub(crate) padded: bool,
    /// Its bytes, at most.
    pub(crate) size: usize,
}

impl Handshake {
    /// Whether such a packet may come to this side. `datagram`: bytes of the UDP payload that it came in.
    pub(crate) fn takes(
        &self,
        ty: PacketType,
        version: Version,
        token: &Range<usize>,
        datagram: usize,
    ) -> bool {
        //= specs/rfc9000.txt#section-5.2.1
        //# If a client receives a packet that uses a different version than it initially
        //# selected, it MUST discard that packet.
        if version != self.version {
            return false;
        }
        match ty {
            //= specs/rfc9000.txt#section-14
            //# Therefore, an endpoint MUST NOT close a connection when it receives a
            //# datagram that does not meet size constraints; the endpoint MAY discard such
            //# datagrams.
            //= specs/rfc9000.txt#section-14.1
            //# A server MUST discard an Initial packet that is carried in a UDP datagram
            //# with a payload that is smaller than the smallest allowed maximum datagram
            //# size of 1200 bytes.
            PacketType::Initial if self.side == Side::Server => datagram >= MIN_INITIAL_DATAGRAM,
            //= specs/rfc9000.txt#section-17.2.2
            //# Initial packets sent by the server MUST set the Token Length field to 0;
            //# clients that receive an Initial packet with a non-zero Token Length field
            //# MUST either discard the packet or generate a connection error of type
            //# PROTOCOL_VIOLATION.
            PacketType::Initial => token.is_empty(),
            PacketType::Handshake => true,
            //= specs/rfc9001.txt#section-5.6
            //# A client MUST NOT attempt to decrypt 0-RTT packets it receives and
            //# instead MUST discard them.
            PacketType::ZeroRtt => self.side == Side::Server,
        }
    }

    /// Removes the protection of a packet. `expected`: the number that is next on path 0, where 0-RTT packets belong.
    pub(crate) fn open(
        &self,
        ty: PacketType,
        expected: Option<u64>,
        pn_offset: usize,
        bytes: &mut [u8],
    ) -> Opened {
        let (keys, expected) = match ty {
            PacketType::Initial => (
                self.session.initial.as_ref().map(|keys| &keys.remote),
                self.expected(SpaceId::Initial),
            ),
            PacketType::Handshake => (
                self.session.handshake.as_ref().map(|keys| &keys.remote),
                self.expected(SpaceId::Handshake),
            ),
            PacketType::ZeroRtt => (self.session.early_data.keys(), expected),
        };
        let Some(keys) = keys else {
            let awaited = match ty {
                PacketType::Initial => false,
                PacketType::Handshake => self.spaces.get(SpaceId::Handshake).is_some(),
                //= specs/rfc9001.txt#section-4.6.2
                //# When rejecting 0-RTT, a server MUST NOT process any 0-RTT packets, even if it could.
                //= specs/rfc9001.txt#section-5.7
                //# The server MAY retain these packets for later decryption in anticipation of
                //# receiving a ClientHello.
                PacketType::ZeroRtt => self.session.awaits_client_hello(),
            };
            return if awaited {
                Opened::TooEarly
            } else {
                Opened::Dropped
            };
        };
        let Some(expected) = expected else {
            return Opened::Dropped;
        };
        let Some((first, truncated, pn_len)) = unprotect_header(bytes, pn_offset, &*keys.header)
        else {
            return Opened::Dropped;
        };
        let number = expand_pn(truncated, pn_len, expected);
        let start = pn_offset + pn_len;
        let (header, payload) = bytes.split_at_mut(start);
        let Some(len) = open_long(keys, number, header, payload) else {
            return Opened::Undecryptable;
        };
        //= specs/rfc9000.txt#section-17.2
        //# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits
        //# after removing both packet and header protection as a connection error of type
        //# PROTOCOL_VIOLATION.
        match reserved_bits_are_zero(first) {
            true => Opened::Packet(number, start..start + len),
            false => Opened::ReservedBits,
        }
    }

    fn expected(&self, space_id: SpaceId) -> Option<u64> {
        self.spaces.get(space_id).map(PacketSpace::next_expected)
    }

    /// A packet was decrypted that names this source.
    pub(crate) fn hear(&mut self, scid: &ConnectionId) -> Source {
        //= specs/rfc9000.txt#section-7.2
        //# Once a client has received a valid Initial packet from the server, it MUST discard any
        //# subsequent packet it receives on that connection with a different Source Connection ID.
        let first = self.side == Side::Client && !self.heard;
        if first {
            //= specs/rfc9000.txt#section-7.2
            //# A client MUST change the Destination Connection ID it uses for sending packets in
            //# response to only the first received Initial or Retry packet.
            //= specs/rfc9000.txt#section-7.2
            //# Until a packet is received from the server, the client MUST use the same Destination
            //# Connection ID value on all packets in this connection.
            self.remote_scid = *scid;
        //= specs/rfc9000.txt#section-7.2
        //# Any further changes to the Destination Connection ID are only permitted if the values
        //# are taken from NEW_CONNECTION_ID frames; if subsequent Initial packets include a
        //# different Source Connection ID, they MUST be discarded.
        } else if self.remote_scid != *scid && !self.confirmed {
            return Source::Other;
        }
        self.heard = true;
        if first { Source::New } else { Source::Known }
    }

    /// What the Initial and Handshake spaces have to send now.
    pub(crate) fn waiting(&self, now: Instant) -> Option<Waiting> {
        let initial = self.has_to_send(now, SpaceId::Initial);
        let handshake = self.has_to_send(now, SpaceId::Handshake);
        if !initial && !handshake {
            return None;
        }
        let owes_ack = || self.spaces.iter().any(|space| space.acks.due(now));
        //= specs/rfc9000.txt#section-14.1
        //# A client MUST expand the payload of all UDP datagrams carrying Initial packets to at
        //# least the smallest allowed maximum datagram size of 1200 bytes by adding PADDING frames
        //# to the Initial packet or by coalescing the Initial packet; see Section 12.2.
        //= specs/rfc9000.txt#section-14.1
        //# Similarly, a server MUST expand the payload of all UDP datagrams carrying ack-eliciting
        //# Initial packets to at least the smallest allowed maximum datagram size of 1200 bytes.
        //= specs/rfc9000.txt#section-8.1
        //# Clients MUST ensure that UDP datagrams containing Initial packets have UDP payloads of
        //# at least 1200 bytes, adding PADDING frames as necessary.
        //= specs/rfc9001.txt#section-9.3
        //# First, the packet containing a ClientHello MUST be padded to a minimum size.
        let ack_eliciting =
            || self.session.can_send(SpaceId::Initial) || self.spaces.wants_probe(SpaceId::Initial);
        Some(Waiting {
            initial,
            handshake,
            urgent: self.spaces.has_probes() || owes_ack(),
            padded: initial && (self.side == Side::Client || ack_eliciting()),
        })
    }

    /// The datagram that leaves next, on the path of the handshake and within its congestion window.
    pub(crate) fn next_flight(&self, now: Instant, path: &Path, window: u64) -> Option<Flight> {
        let waiting = self.waiting(now)?;
        let limit = usize::try_from(path.send_limit()).unwrap_or(usize::MAX);
        let size = usize::from(path.mtu()).min(limit);
        let in_flight = self.bytes_in_flight() + path.space().bytes_in_flight();
        // RFC 9002 section 7: probes may exceed the window; the handshake otherwise may not.
        if !waiting.urgent && window.saturating_sub(in_flight) < size as u64 {
            return None;
        }
        if size < 64 || (waiting.padded && size < MIN_INITIAL_DATAGRAM) {
            return None;
        }
        Some(Flight {
            initial: waiting.initial,
            handshake: waiting.handshake,
            padded: waiting.padded,
            size,
        })
    }

    fn has_to_send(&self, now: Instant, space_id: SpaceId) -> bool {
        let space = self.spaces.get(space_id);
        space.is_some_and(|space| {
            self.has_keys(space_id)
                && (space.acks.due(now)
                    || self.session.can_send(space_id)
                    || self.spaces.wants_probe(space_id))
        })
    }

    /// Whether the last Handshake packet that has anything to carry has left.
    pub(crate) fn has_sent_all(&self) -> bool {
        !self.session.can_send(SpaceId::Handshake)
    }

    /// The size of the Initial packet that is next, at most.
    pub(crate) fn initial_size(&self) -> usize {
        self.session.unsent(SpaceId::Initial) + self.initial_token.len() + INITIAL_OVERHEAD
    }

    /// What goes into Initial packets of ours.
    pub(crate) fn initial_token(&self) -> &[u8] {
        &self.initial_token
    }

    /// The type of a packet of ours with a long header that belongs into this space; `None` if there can be none.
    pub(crate) fn long_type(&self, space_id: SpaceId) -> Option<PacketType> {
        match space_id {
            SpaceId::Initial => Some(PacketType::Initial),
            SpaceId::Handshake => Some(PacketType::Handshake),
            //= specs/rfc9001.txt#section-5.6
            //# A server MUST NOT use 0-RTT keys to protect packets; it uses 1-RTT keys to
            //# protect acknowledgments of 0-RTT packets.
            SpaceId::Data if self.side == Side::Server => None,
            SpaceId::Data => {
                let keys = self.session.early_data.keys();
                keys.map(|_| PacketType::ZeroRtt)
            }
        }
    }

    /// The keys for a packet with a long header.
    pub(crate) fn local_keys(&self, space_id: SpaceId) -> Option<&DirectionalKeys> {
        match space_id {
            SpaceId::Initial => self.session.initial.as_ref().map(|keys| &keys.local),
            SpaceId::Handshake => self.session.handshake.as_ref().map(|keys| &keys.local),
            SpaceId::Data => self.session.early_data.keys(),
        }
    }

    /// Fills an Initial or Handshake packet.
    pub(crate) fn fill(&mut self, space_id: SpaceId, w: &mut FrameWriter<'_>, now: Instant) {
        if let Some(space) = self.spaces.get_mut(space_id) {
            //= specs/rfc10069-draft.md#frames
            //# All frames defined in this document MUST only be sent in 1-RTT packets.
            //= specs/rfc9000.txt#section-13.2.6
            //# ACK frames MUST only be carried in a packet that has the same packet number
            //# space as the packet being acknowledged; see Section 12.1.
            space.write_ack(w, now, None, PathId::ZERO, 0);
        }
        let probe = self.spaces.take_probe(space_id);
        // ACK, CRYPTO and PING, nothing else; `CloseFrame::write_early` has what a close says here.
        //= specs/rfc9000.txt#section-12.5
        //# * All other frame types MUST only be sent in the application data packet number space.
        let stream = self.session.stream(space_id);
        if probe {
            stream.repeat();
        }
        stream.fill(w);
        if probe && !w.is_ack_eliciting() {
            w.ping();
        }
    }
}

/// The packet number spaces of the handshake, each until its keys are dropped (RFC 9001 section 4.9).
pub(crate) struct HandshakeSpaces {
    /// Boxed: a connection is without them for most of its life.
    spaces: [Option<Box<PacketSpace>>; 2],
    /// Loss probes to be sent.
    probes: [u8; 2],
    /// How often the client's Finished was asked for.
    asked: u8,
}

impl HandshakeSpaces {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        let initial = PacketSpace::new(rng);
        let handshake = PacketSpace::new(rng);
        Self {
            spaces: [Some(Box::new(initial)), Some(Box::new(handshake))],
            probes: [0; 2],
            asked: 0,
        }
    }

    const fn slot(space_id: SpaceId) -> Option<usize> {
        match space_id {
            SpaceId::Initial => Some(0),
            SpaceId::Handshake => Some(1),
            SpaceId::Data => None,
        }
    }

    pub(crate) fn get(&self, space_id: SpaceId) -> Option<&PacketSpace> {
        self.spaces[Self::slot(space_id)?].as_deref()
    }

    pub(crate) fn get_mut(&mut self, space_id: SpaceId) -> Option<&mut PacketSpace> {
        self.spaces[Self::slot(space_id)?].as_deref_mut()
    }

    /// The spaces whose keys are still there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PacketSpace> {
        self.spaces.iter().flatten().map(|space| &**space)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The keys were dropped; true if the space was there until now.
    pub(crate) fn discard(&mut self, space_id: SpaceId) -> bool {
        let Some(slot) = Self::slot(space_id) else {
            return false;
        };
        self.probes[slot] = 0;
        self.spaces[slot].take().is_some()
    }

    /// Packets were acknowledged: no probe is needed.
    pub(crate) fn on_acked(&mut self, space_id: SpaceId) {
        self.request_probes(space_id, 0);
    }

    /// So many loss probes are to be sent (RFC 9002 section 6.2.4).
    pub(crate) fn request_probes(&mut self, space_id: SpaceId, count: u8) {
        if let Some(slot) = Self::slot(space_id) {
            self.probes[slot] = count;
        }
    }

    /// How often the client's Finished was asked for.
    pub(crate) fn asked(&self) -> u32 {
        u32::from(self.asked)
    }

    /// The client's Finished is to be asked for, with a PING and an acknowledgement of all that came: that tells the
    /// client what was lost, if what came after it asked for none.
    pub(crate) fn ask_for_finished(&mut self) {
        self.asked = self.asked.saturating_add(1);
        self.request_probes(SpaceId::Handshake, 1);
        if let Some(space) = self.get_mut(SpaceId::Handshake) {
            space.acks.add_to_next();
        }
    }

    /// Whether loss probes are to be sent in a space.
    pub(crate) fn wants_probe(&self, space_id: SpaceId) -> bool {
        Self::slot(space_id).is_some_and(|slot| self.probes[slot] > 0)
    }

    /// Whether loss probes are to be sent in any of them.
    pub(crate) fn has_probes(&self) -> bool {
        self.probes != [0; 2]
    }

    /// A packet of a space leaves: if a probe was due, the packet is it.
    pub(crate) fn take_probe(&mut self, space_id: SpaceId) -> bool {
        let due = self.wants_probe(space_id);
        if due && let Some(slot) = Self::slot(space_id) {
            self.probes[slot] -= 1;
        }
        due
    }

    /// Bytes in flight over both.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.iter().map(PacketSpace::bytes_in_flight).sum()
    }
}
