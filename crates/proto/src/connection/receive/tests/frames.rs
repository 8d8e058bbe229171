//! Every frame type in every packet type, to both roles, with and without the extensions, held
//! against the tables of the RFCs.

use std::time::Duration;

use mpquic_sched_core::{Dir, Side, StreamId};
use mpquic_wire::frame::FrameIter;
use mpquic_wire::packet::PacketType;

use super::forge::{self, Outcome, Packet};
use super::pair::Pair;
use super::table::{self, Extension};
use crate::{ConnectionError, PathId, TransportConfig};

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// An endpoint that announces all extensions, or none.
fn config(extensions: bool) -> TransportConfig {
    let mut config = TransportConfig::default();
    if !extensions {
        config.max_paths(1).datagram_receive_buffer(None);
    }
    config
}

/// A valid frame of this type from `sender` with the fields that the RFCs' figures have. Of a type
/// that is not known, the type alone.
fn valid_frame(pair: &mut Pair, sender: Side, ty: u64) -> Vec<u8> {
    let bidi = StreamId::new(sender, Dir::Bi, 0).into();
    let uni = StreamId::new(sender, Dir::Uni, 0).into();
    let mut next_cid = |path| forge::next_cid_sequence(forge::side_of(pair, sender), PathId(path));
    let cid = [&[8][..], &[0xc1; 8], &[0x70; 16]].concat();
    let with = |fields: &[u64], bytes: &[u8]| [&forge::varints(fields)[..], bytes].concat();
    match ty {
        // Packet 0, which each side has sent in each space.
        0x02 => with(&[ty, 0, 0, 0, 0], &[]),
        0x03 => with(&[ty, 0, 0, 0, 0, 0, 0, 0], &[]),
        0x04 => with(&[ty, uni, 0, 0], &[]),
        0x05 => with(&[ty, bidi, 0], &[]),
        // No data: of each level, all was received.
        0x06 => with(&[ty, 0, 0], &[]),
        0x07 => with(&[ty, 5], b"token"),
        0x08..=0x0f => {
            let mut fields = vec![ty, uni];
            if ty & 0x04 != 0 {
                fields.push(0);
            }
            if ty & 0x02 != 0 {
                fields.push(4);
            }
            with(&fields, b"data")
        }
        0x10 | 0x12..=0x14 | 0x16 | 0x17 => with(&[ty, 1], &[]),
        0x11 => with(&[ty, bidi, 1], &[]),
        0x15 => with(&[ty, uni, 1], &[]),
        // One more than there may be, were the first not retired by it.
        0x18 => with(&[ty, next_cid(0), 1], &cid),
        0x19 => with(&[ty, 1], &[]),
        0x1a | 0x1b => with(&[ty], b"8 bytes."),
        0x1c => with(&[ty, 0, 0, 0], &[]),
        0x1d => with(&[ty, 0, 0], &[]),
        0xaf => with(&[ty, 0, 1, 25_000, 1], &[]),
        0x30 => with(&[ty], b"datagram"),
        0x31 => with(&[ty, 8], b"datagram"),
        0x3e => with(&[ty, 0, 0, 0, 0, 0], &[]),
        0x3f => with(&[ty, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
        // Of path ID 1, which both sides allow and nobody uses.
        0x3e75..=0x3e77 | 0x3e79 | 0x3e7c => with(&[ty, 1, 0], &[]),
        0x3e78 => with(&[ty, 1, next_cid(1), 0], &cid),
        // The initial_max_path_id of both sides.
        0x3e7a | 0x3e7b => with(&[ty, 7], &[]),
        _ => with(&[ty], &[]),
    }
}

/// One cell of the table: `sender` sends one frame; what becomes of it, and whether `sender` hears of
/// an error what RFC 9000 section 19.19 says.
fn check(ty: u64, packet: Packet, sender: Side, offers: [bool; 2]) {
    let receiver = !sender;
    let [receiver_offers, sender_offers] = offers;
    let (client, server) = match receiver {
        Side::Client => (config(receiver_offers), config(sender_offers)),
        Side::Server => (config(sender_offers), config(receiver_offers)),
    };
    let mut pair = forge::ready_for(packet, client, server);
    let frame = valid_frame(&mut pair, sender, ty);
    let allowed = table::expected(ty, packet, receiver, |extension| match extension {
        Extension::Multipath => receiver_offers && sender_offers,
        Extension::Datagram => receiver_offers,
    });
    let outcome = forge::deliver(&mut pair, sender, packet, &frame);
    let row = table::find(ty).map_or("unknown", |row| row.name);
    let cell = format!(
        "{row} ({ty:#x}) in {packet:?} to {receiver:?}, extensions {offers:?}: {frame:02x?}"
    );
    assert_eq!(outcome, allowed[0], "{cell}; the RFCs allow {allowed:?}");
    if let Outcome::Closed(code) = outcome {
        let error = forge::own_error(forge::side_of(&mut pair, receiver)).unwrap();
        assert_eq!(error.frame, Some(ty), "{cell}");
        let told = pair.run_until(Duration::from_secs(5), |pair| {
            forge::side_of(pair, sender).is_closed()
        });
        assert!(told, "{cell}");
        match forge::side_of(&mut pair, sender).lost_reason() {
            Some(ConnectionError::ConnectionClosed(close)) => {
                assert_eq!((close.error_code, close.frame_type), (code, ty), "{cell}");
            }
            other => panic!("{cell}: {other:?}"),
        }
    }
}

fn check_all(packet: Packet) {
    let known = table::FRAMES.iter().flat_map(|row| row.first..=row.last);
    let types: Vec<_> = known.chain(table::unknown_types()).collect();
    for sender in SIDES {
        for &ty in &types {
            check(ty, packet, sender, [true, true]);
            check(ty, packet, sender, [false, false]);
            if table::find(ty).is_some_and(|row| row.extension.is_some()) {
                check(ty, packet, sender, [true, false]);
                check(ty, packet, sender, [false, true]);
            }
        }
    }
}

//= specs/rfc10069-draft.md#frames
//= type=test
//# If an endpoint receives a multipath-specific frame in a different packet type, it MUST close the
//# connection with an error of type PROTOCOL_VIOLATION.
//= specs/rfc9000.txt#section-12.4
//= type=test
//# An endpoint MUST treat receipt of a frame in a packet type that is not permitted as a connection
//# error of type PROTOCOL_VIOLATION.
#[test]
fn in_initial_packets() {
    check_all(Packet::Initial);
}

//= specs/rfc9000.txt#section-17.2.4
//= type=test
//# Endpoints MUST treat receipt of Handshake packets with other frames as a connection error of
//# type PROTOCOL_VIOLATION.
#[test]
fn in_handshake_packets() {
    check_all(Packet::Handshake);
}

//= specs/rfc9000.txt#section-12.5
//= type=test
//# A server MAY treat receipt of these frames in 0-RTT packets as a connection error of type
//# PROTOCOL_VIOLATION.
//= specs/rfc9001.txt#section-5.6
//= type=test
//# A client MUST NOT attempt to decrypt 0-RTT packets it receives and instead MUST discard them.
#[test]
fn in_zero_rtt_packets() {
    check_all(Packet::ZeroRtt);
}

//= specs/rfc10069-draft.md#handling-ack-and-path-ack-in-0-rtt-and-1-rtt
//= type=test
//# Endpoints MUST still process ACK frames that acknowledge 0-RTT packets or 1-RTT packets.
//= specs/rfc9000.txt#section-19.7
//= type=test
//# A server MUST treat receipt of a NEW_TOKEN frame as a connection error of type
//# PROTOCOL_VIOLATION.
//= specs/rfc9000.txt#section-19.20
//= type=test
//# A server MUST treat receipt of a HANDSHAKE_DONE frame as a connection error of type
//# PROTOCOL_VIOLATION.
//= specs/rfc9000.txt#section-12.4
//= type=test
//# An endpoint MUST treat the receipt of a frame of unknown type as a connection error of type
//# FRAME_ENCODING_ERROR.
//= specs/rfc9221.txt#section-3
//= type=test
//# An endpoint that receives a DATAGRAM frame when it has not indicated support via the transport
//# parameter MUST terminate the connection with an error of type PROTOCOL_VIOLATION.
#[test]
fn in_one_rtt_packets() {
    check_all(Packet::OneRtt);
}

/// The columns of table 3, those included that decide nothing about a packet's fate when it comes alone: N and P.
//= specs/rfc9221.txt#section-5
//= type=test
//# Like STREAM frames, DATAGRAM frames contain application data and MUST be protected with either
//# 0-RTT or 1-RTT keys.
//= specs/rfc9221.txt#section-6
//= type=test
//# All application data transmitted with the DATAGRAM frame, like the STREAM frame, MUST be
//# protected either by 0-RTT or 1-RTT keys.
#[test]
fn marks_of_the_table() {
    let mut pair = forge::ready_for(Packet::OneRtt, config(true), config(true));
    for row in table::FRAMES {
        for ty in row.first..=row.last {
            let bytes = valid_frame(&mut pair, Side::Client, ty);
            let mut frames = FrameIter::new(&bytes);
            let frame = frames.next().unwrap().unwrap();
            let cell = format!("{} of {}", row.name, row.section);
            assert_eq!(frames.next(), None, "{cell}");
            assert_eq!(frames.last_type(), ty, "{cell}");
            for (packet, letter) in [
                (PacketType::Initial, 'I'),
                (PacketType::Handshake, 'H'),
                (PacketType::ZeroRtt, '0'),
            ] {
                let impossible = packet == PacketType::ZeroRtt && ty == table::RETIRE_CONNECTION_ID;
                let allowed = row.pkts.contains(letter) && !impossible;
                assert_eq!(frame.allowed_in(packet), allowed, "{cell} in {packet:?}");
            }
            assert_eq!(frame.is_ack_eliciting(), !row.spec.contains('N'), "{cell}");
            assert_eq!(frame.is_probing(), row.spec.contains('P'), "{cell}");
            let multipath = row.extension == Some(Extension::Multipath);
            assert_eq!(frame.is_multipath(), multipath, "{cell}");
        }
    }
}
