//! Packets with any payload, sealed with the real keys of one side and delivered to the other, and
//! what becomes of them. The other test files reach into connections only through these functions.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, Side, TransportErrorCode};
use mpquic_wire::crypto::seal_long;
use mpquic_wire::packet::{PacketType, Version, encode_long_header, encode_short_header, varint};

use super::pair::{self, Pair};
use crate::space::{PacketSpace, SpaceId};
use crate::{
    Connection, ConnectionError, DatagramEvent, FourTuple, PathId, TransportConfig, TransportError,
};

/// The packet types that carry frames (RFC 9000 table 3, column "Pkts").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packet {
    Initial,
    Handshake,
    ZeroRtt,
    OneRtt,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its frames were processed, and the connection goes on.
    Accepted,
    /// Nothing changed.
    Dropped,
    /// The receiver closed the connection with this error.
    Closed(TransportErrorCode),
    /// The receiver took the packet for the sender's close.
    PeerClosed,
}

/// A pair in which packets of this type can be sent and opened in both directions.
///
/// - Initial: the server has answered, and the client has not received the answer.
/// - Handshake: the client has completed TLS, and the server has not received its Finished.
/// - 0-RTT: the server has accepted early data and answered, and the client has not received the answer.
/// - 1-RTT: the handshake is confirmed, and neither side has anything left to send.
pub(super) fn ready_for(packet: Packet, client: TransportConfig, server: TransportConfig) -> Pair {
    let mut pair = match packet {
        Packet::ZeroRtt => pair::Tls::new().resumed_pair(client, server),
        _ => Pair::new(client, server),
    };
    let limit = Duration::from_secs(10);
    let reached = match packet {
        Packet::Initial | Packet::ZeroRtt => {
            pair.run_until(limit, |pair| pair.server.connection.is_some())
        }
        Packet::Handshake => pair.run_until(limit, |pair| pair.c().handshake.is_complete()),
        Packet::OneRtt => {
            pair.connect();
            settle(&mut pair);
            true
        }
    };
    assert!(
        reached,
        "no {packet:?} packets: {:?}",
        pair.c().lost_reason()
    );
    pair
}

/// Runs until all that both sides had to send has arrived and was acknowledged.
pub(super) fn settle(pair: &mut Pair) {
    let end = pair.now + Duration::from_secs(2);
    pair.run_until(end - pair.now, |_| false);
    // What comes next, the idle timeout perhaps, has not happened yet.
    pair.now = end;
}

pub(super) fn side_of(pair: &mut Pair, side: Side) -> &mut Connection {
    match side {
        Side::Client => pair.c(),
        Side::Server => pair.s(),
    }
}

/// A packet as an endpoint that keeps no rule would send it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forgery<'a> {
    pub(super) packet: Packet,
    /// The path ID of a 1-RTT packet.
    pub(super) path: PathId,
    pub(super) payload: &'a [u8],
    /// Bits of the first byte that are set before header protection is applied.
    pub(super) first_byte: u8,
    /// The token of an Initial packet.
    pub(super) token: &'a [u8],
    /// What the datagram is filled up to, behind the packet.
    pub(super) datagram: usize,
}

impl<'a> Forgery<'a> {
    pub(super) fn new(packet: Packet, payload: &'a [u8]) -> Self {
        Self {
            packet,
            path: PathId::ZERO,
            payload,
            first_byte: 0,
            token: &[],
            // RFC 9000 section 14.1.
            datagram: 1200,
        }
    }

    /// Seals the packet with the keys of `from`, under a number that was not used yet. Returns the
    /// datagram and the number.
    pub(super) fn seal(&self, pair: &mut Pair, from: Side) -> (Vec<u8>, u64) {
        let receiver = side_of(pair, !from);
        let next_unseen = space(receiver, self.packet, self.path)
            .and_then(|space| space.received.largest())
            .map_or(0, |largest| largest + 1);
        let dcid = cid_of(receiver, self.path);
        let sender = side_of(pair, from);
        let next_unsent = space(sender, self.packet, self.path).and_then(|space| space.next_pn());
        let number = next_unseen.max(next_unsent.unwrap_or(0));
        (self.seal_as(pair, from, &dcid, number), number)
    }

    /// Seals the packet under this number, to this connection ID.
    pub(super) fn seal_as(
        &self,
        pair: &mut Pair,
        from: Side,
        dcid: &ConnectionId,
        number: u64,
    ) -> Vec<u8> {
        let sender = side_of(pair, from);
        let mut datagram = match self.packet {
            Packet::OneRtt => self.seal_short(sender, dcid, number),
            _ => self.seal_long(sender, dcid, number),
        };
        if self.packet == Packet::Initial && datagram.len() < self.datagram {
            // RFC 9000 section 14.1: an Initial packet may be coalesced with an invalid packet.
            datagram.resize(self.datagram, 0);
        }
        datagram
    }

    fn seal_long(&self, sender: &Connection, dcid: &ConnectionId, number: u64) -> Vec<u8> {
        let ty = match self.packet {
            Packet::Initial => PacketType::Initial,
            Packet::Handshake => PacketType::Handshake,
            Packet::ZeroRtt | Packet::OneRtt => PacketType::ZeroRtt,
        };
        let keys = sender.handshake.local_keys(match self.packet {
            Packet::Initial => SpaceId::Initial,
            Packet::Handshake => SpaceId::Handshake,
            Packet::ZeroRtt | Packet::OneRtt => SpaceId::Data,
        });
        let mut buf = Vec::new();
        let scid = &sender.handshake.scid();
        let marks =
            encode_long_header(&mut buf, ty, Version::V1, dcid, scid, self.token, number, 4);
        buf[0] |= self.first_byte;
        buf.extend_from_slice(self.payload);
        seal_long(keys.unwrap(), &mut buf, &marks, number).unwrap();
        buf
    }

    fn seal_short(&self, sender: &mut Connection, dcid: &ConnectionId, number: u64) -> Vec<u8> {
        let nonce_path = sender.paths.nonce_path(self.path);
        let keys = sender.handshake.one_rtt_mut().unwrap();
        let mut buf = Vec::new();
        let pn_offset = encode_short_header(&mut buf, dcid, keys.phase(), number, 4);
        buf[0] |= self.first_byte;
        buf.extend_from_slice(self.payload);
        keys.seal_packet(&mut buf, 0, pn_offset, 4, nonce_path, number)
            .unwrap();
        buf
    }

    /// Seals the packet and hands it to the peer of `from` at once.
    pub(super) fn deliver(&self, pair: &mut Pair, from: Side) -> Outcome {
        let (datagram, number) = self.seal(pair, from);
        hand_over(pair, !from, &datagram);
        let receiver = side_of(pair, !from);
        match receiver.lost_reason() {
            Some(ConnectionError::TransportError(error)) => Outcome::Closed(error.code),
            Some(ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_)) => {
                Outcome::PeerClosed
            }
            Some(other) => panic!("{other:?}"),
            None => {
                let space = space(receiver, self.packet, self.path);
                if space.is_some_and(|space| space.received.is_duplicate(number)) {
                    Outcome::Accepted
                } else {
                    Outcome::Dropped
                }
            }
        }
    }
}

/// Sends one packet of this type with this payload from `from` to its peer.
pub(super) fn deliver(pair: &mut Pair, from: Side, packet: Packet, payload: &[u8]) -> Outcome {
    Forgery::new(packet, payload).deliver(pair, from)
}

/// Hands a datagram on path 0 to `to`, as its endpoint routes it.
pub(super) fn hand_over(pair: &mut Pair, to: Side, datagram: &[u8]) {
    let client = pair::tuple(0);
    let (end, tuple) = match to {
        Side::Client => (&mut pair.client, client),
        Side::Server => {
            let tuple = FourTuple {
                local: client.remote,
                remote: client.local,
            };
            (&mut pair.server, tuple)
        }
    };
    let mut answer = Vec::new();
    let datagram = BytesMut::from(datagram);
    let event = end
        .endpoint
        .handle(pair.now, tuple, None, datagram, &mut answer);
    if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
        end.connection.as_mut().unwrap().1.handle_event(event);
    }
}

/// The error with which a connection was closed by itself.
pub(super) fn own_error(connection: &Connection) -> Option<TransportError> {
    match connection.lost_reason() {
        Some(ConnectionError::TransportError(error)) => Some(error.clone()),
        _ => None,
    }
}

/// Packets that are kept until their keys are there.
pub(super) fn kept_undecryptable(connection: &Connection) -> usize {
    connection.handshake.undecryptable().len()
}

/// The sequence number of the next connection ID that a side issues for a path.
pub(super) fn next_cid_sequence(connection: &Connection, path: PathId) -> u64 {
    connection.paths.local_cids().next_sequence(path)
}

/// The packet number space that packets of this type belong to, as long as there is one.
fn space(connection: &Connection, packet: Packet, path: PathId) -> Option<&PacketSpace> {
    match packet {
        Packet::Initial => connection.handshake.space(SpaceId::Initial),
        Packet::Handshake => connection.handshake.space(SpaceId::Handshake),
        Packet::ZeroRtt | Packet::OneRtt => connection.paths.get(path).map(|path| path.space()),
    }
}

/// A connection ID by which packets on a path reach this side.
pub(super) fn cid_of(connection: &Connection, path: PathId) -> ConnectionId {
    if path == PathId::ZERO {
        return connection.handshake.scid();
    }
    let mut ids = connection.paths.local_cids().iter();
    ids.find(|(_, of)| *of == path).unwrap().0
}

/// A frame that is its type and these variable-length integers.
pub(super) fn varints(fields: &[u64]) -> Vec<u8> {
    let mut frame = Vec::new();
    for &field in fields {
        varint::put(&mut frame, field);
    }
    frame
}

/// Whether a path ID was abandoned.
pub(super) fn is_abandoned(connection: &Connection, path: PathId) -> bool {
    connection.paths.is_abandoned(path)
}

/// The largest path ID that both sides allow.
pub(super) fn usable_path_limit(connection: &Connection) -> u32 {
    connection.paths.limits().unwrap().usable_max().0
}

/// Makes a side take this for the limit that its peer has announced, and issue connection IDs up to it.
pub(super) fn believe_in_path_limit(connection: &mut Connection, max: u32) {
    let limits = connection.paths.limits_of_frame().unwrap();
    assert_eq!(limits.on_max_path_id(max.into(), 0), Ok(true));
    let (rng, events) = (&mut connection.rng, &mut connection.endpoint_events);
    connection.paths.issue_cids(rng, events);
}

/// The largest path ID that a side allows its peer.
pub(super) fn announced_path_limit(connection: &Connection) -> u32 {
    connection.paths.limits().unwrap().local_max()
}

/// The path IDs that a side looks at when it issues connection IDs, and the ranges in which it remembers the abandoned
/// ones, whichever are more.
pub(super) fn path_ids_looked_at(connection: &Connection) -> usize {
    let limit = PathId(announced_path_limit(connection));
    let ids = connection.paths.not_abandoned(limit).count();
    ids.max(connection.paths.abandoned_ranges())
}

/// The number of the next 1-RTT packet that a side sends on path 0.
pub(super) fn next_number(connection: &Connection) -> u64 {
    let space = space(connection, Packet::OneRtt, PathId::ZERO);
    space.and_then(|space| space.next_pn()).unwrap()
}

/// When a side last received a packet that it processed.
pub(super) fn last_processed(connection: &Connection) -> Instant {
    connection.idle.since()
}

/// The connection ID that the client chose for its first packet: it reaches the server until the handshake is over.
pub(super) fn original_dcid(connection: &Connection) -> ConnectionId {
    connection.handshake.original_dcid()
}

/// Whether a packet with this number was received and processed.
pub(super) fn was_received(connection: &Connection, packet: Packet, number: u64) -> bool {
    let space = space(connection, packet, PathId::ZERO);
    space.is_some_and(|space| space.received.is_duplicate(number))
}

/// Whether keys of 0-RTT packets are kept.
pub(super) fn has_early_keys(connection: &Connection) -> bool {
    connection.handshake.early_data().keys().is_some()
}

/// When the keys of 0-RTT packets will be forgotten.
pub(super) fn early_key_timer(connection: &Connection) -> Option<Instant> {
    connection.handshake.early_data().timer()
}
