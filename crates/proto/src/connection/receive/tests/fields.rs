//! Frames of the right type in the right place whose fields are wrong: each with the error that its
//! section in the RFC names.

use mpquic_sched_core::{Dir, Side, StreamId, TransportErrorCode as Code};

use super::forge::{self, Outcome, Packet};
use crate::TransportConfig;

const MAX: u64 = (1 << 62) - 1;

/// A payload, what may become of it (ours first), and where that is said.
struct Case {
    payload: Vec<u8>,
    allowed: &'static [Outcome],
    section: &'static str,
}

const ACCEPTED: &[Outcome] = &[Outcome::Accepted];
const ENCODING: &[Outcome] = &[Outcome::Closed(Code::FRAME_ENCODING_ERROR)];
const VIOLATION: &[Outcome] = &[Outcome::Closed(Code::PROTOCOL_VIOLATION)];
const STREAM_STATE: &[Outcome] = &[Outcome::Closed(Code::STREAM_STATE_ERROR)];
const STREAM_LIMIT: &[Outcome] = &[Outcome::Closed(Code::STREAM_LIMIT_ERROR)];
const FLOW_CONTROL: &[Outcome] = &[Outcome::Closed(Code::FLOW_CONTROL_ERROR)];
const FINAL_SIZE: &[Outcome] = &[Outcome::Closed(Code::FINAL_SIZE_ERROR)];
const CID_LIMIT: &[Outcome] = &[Outcome::Closed(Code::CONNECTION_ID_LIMIT_ERROR)];
const ENCODING_OR_FLOW_CONTROL: &[Outcome] = &[
    Outcome::Closed(Code::FRAME_ENCODING_ERROR),
    Outcome::Closed(Code::FLOW_CONTROL_ERROR),
];
const ENCODING_OR_CRYPTO_BUFFER: &[Outcome] = &[
    Outcome::Closed(Code::FRAME_ENCODING_ERROR),
    Outcome::Closed(Code::CRYPTO_BUFFER_EXCEEDED),
];
const ENCODING_OR_STREAM_LIMIT: &[Outcome] = &[
    Outcome::Closed(Code::FRAME_ENCODING_ERROR),
    Outcome::Closed(Code::STREAM_LIMIT_ERROR),
];
const MAY_VIOLATION: &[Outcome] = &[Outcome::Closed(Code::PROTOCOL_VIOLATION), Outcome::Accepted];

fn case(fields: &[u64], bytes: &[u8], allowed: &'static [Outcome], section: &'static str) -> Case {
    Case {
        payload: [&forge::varints(fields)[..], bytes].concat(),
        allowed,
        section,
    }
}

/// The end of a frame that issues a connection ID of `len` bytes.
fn cid(len: u8) -> Vec<u8> {
    let mut bytes = vec![len];
    bytes.resize(1 + usize::from(len), 0xc1);
    bytes.extend_from_slice(&[0x70; 16]);
    bytes
}

/// Acknowledgements. In 1-RTT packets, both sides have sent packet 0.
fn of_acks() -> Vec<Case> {
    let negative = "RFC 9000 section 19.3.1";
    let mut cases = Vec::new();
    for head in [&[0x02][..], &[0x03], &[0x3e, 0], &[0x3f, 0]] {
        let ecn: &[u64] = if head[0] & 1 == 0 { &[] } else { &[0, 0, 0] };
        let mut ack = |fields: &[u64], allowed, section| {
            cases.push(case(&[head, fields, ecn].concat(), &[], allowed, section));
        };
        // Largest Acknowledged, ACK Delay, ACK Range Count, First ACK Range, Gap, ACK Range Length.
        ack(&[0, 0, 0, 0], ACCEPTED, "RFC 9000 section 19.3");
        ack(&[0, 0, 0, 1], ENCODING, negative);
        ack(&[3, 0, 0, MAX], ENCODING, negative);
        ack(&[3, 0, 1, 2, 0, 0], ENCODING, negative);
        ack(&[3, 0, 1, 0, 2, 0], ENCODING, negative);
        ack(&[3, 0, 1, 0, 0, 2], ENCODING, negative);
        ack(&[9, 0, 2, 0, 0, 0, 7, 0], ENCODING, negative);
        // "An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a
        // connection error of type PROTOCOL_VIOLATION, if it is able to detect the condition."
        ack(&[1 << 30, 0, 0, 0], MAY_VIOLATION, "RFC 9000 section 13.1");
        ack(&[MAX, 0, 0, 0], MAY_VIOLATION, "RFC 9000 section 13.1");
    }
    cases
}

/// Streams that a frame must not name, and ends of data beyond every limit.
fn of_streams(sender: Side) -> Vec<Case> {
    let stream = |initiator, dir, index| u64::from(StreamId::new(initiator, dir, index));
    let own_uni = stream(sender, Dir::Uni, 0);
    let own_bidi = stream(sender, Dir::Bi, 0);
    // Of the receiver, which has opened none.
    let peers_uni = stream(!sender, Dir::Uni, 0);
    let peers_bidi = stream(!sender, Dir::Bi, 0);
    let mut cases = Vec::new();
    let mut add = |fields: &[u64], bytes: &[u8], allowed, section| {
        cases.push(case(fields, bytes, allowed, section));
    };
    // "STREAM_STATE_ERROR if it receives a STREAM frame for a locally initiated stream that has not
    // yet been created, or for a send-only stream".
    for flags in 0..8 {
        let ty = 0x08 | flags;
        let mut rest = Vec::new();
        if flags & 4 != 0 {
            rest.push(0);
        }
        if flags & 2 != 0 {
            rest.push(1);
        }
        for peers in [peers_uni, peers_bidi] {
            let fields = [&[ty, peers][..], &rest].concat();
            add(&fields, &[7], STREAM_STATE, "RFC 9000 section 19.8");
        }
    }
    add(
        &[0x04, peers_uni, 0, 0],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.4",
    );
    add(
        &[0x05, peers_bidi, 0],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.5",
    );
    add(
        &[0x05, own_uni, 0],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.5",
    );
    add(
        &[0x11, peers_bidi, 1],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.10",
    );
    add(
        &[0x11, own_uni, 1],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.10",
    );
    add(
        &[0x15, peers_uni, 1],
        &[],
        STREAM_STATE,
        "RFC 9000 section 19.13",
    );

    // 128 streams of each direction are allowed.
    for (dir, index, allowed) in [
        (Dir::Bi, 127, ACCEPTED),
        (Dir::Bi, 128, STREAM_LIMIT),
        (Dir::Bi, (1 << 60) - 1, STREAM_LIMIT),
        (Dir::Uni, 127, ACCEPTED),
        (Dir::Uni, 128, STREAM_LIMIT),
        (Dir::Uni, (1 << 60) - 1, STREAM_LIMIT),
    ] {
        let id = stream(sender, dir, index);
        let section = "RFC 9000 section 4.6";
        add(&[0x08, id], &[7], allowed, section);
        add(&[0x04, id, 0, 0], &[], allowed, section);
        add(&[0x15, id, 1], &[], allowed, section);
        if dir == Dir::Bi {
            add(&[0x05, id, 0], &[], allowed, section);
            add(&[0x11, id, 1], &[], allowed, section);
        }
    }

    // "cannot exceed 2^62-1 [...] FRAME_ENCODING_ERROR or FLOW_CONTROL_ERROR".
    let section = "RFC 9000 section 19.8";
    add(
        &[0x0c, own_uni, MAX],
        &[7],
        ENCODING_OR_FLOW_CONTROL,
        section,
    );
    add(
        &[0x0e, own_uni, MAX, 1],
        &[7],
        ENCODING_OR_FLOW_CONTROL,
        section,
    );
    add(
        &[0x0f, own_bidi, MAX - 1, 2],
        &[7, 7],
        ENCODING_OR_FLOW_CONTROL,
        section,
    );
    let section = "RFC 9000 section 4.1";
    add(&[0x0c, own_uni, MAX - 1], &[7], FLOW_CONTROL, section);
    add(&[0x0d, own_uni, MAX], &[], FLOW_CONTROL, section);
    add(&[0x04, own_uni, 0, MAX], &[], FLOW_CONTROL, section);

    let section = "RFC 9000 section 4.5";
    let fin = forge::varints(&[0x0f, own_uni, 0, 1]);
    let longer = [
        fin.clone(),
        vec![7],
        forge::varints(&[0x0c, own_uni, 1]),
        vec![7],
    ]
    .concat();
    add(&[], &longer, FINAL_SIZE, section);
    let shorter = [
        forge::varints(&[0x0e, own_uni, 0, 2]),
        vec![7, 7],
        fin,
        vec![7],
    ]
    .concat();
    add(&[], &shorter, FINAL_SIZE, section);
    let reset = [forge::varints(&[0x0e, own_uni, 0, 2]), vec![7, 7]].concat();
    let reset = [reset, forge::varints(&[0x04, own_uni, 0, 1])].concat();
    add(&[], &reset, FINAL_SIZE, section);

    // "cannot exceed 2^60".
    for ty in [0x12, 0x13] {
        add(&[ty, 1 << 60], &[], ACCEPTED, "RFC 9000 section 19.11");
        add(
            &[ty, (1 << 60) + 1],
            &[],
            ENCODING,
            "RFC 9000 section 19.11",
        );
        add(&[ty, MAX], &[], ENCODING, "RFC 9000 section 19.11");
    }
    for ty in [0x16, 0x17] {
        add(&[ty, 1 << 60], &[], ACCEPTED, "RFC 9000 section 19.14");
        add(
            &[ty, (1 << 60) + 1],
            &[],
            ENCODING_OR_STREAM_LIMIT,
            "RFC 9000 section 19.14",
        );
        add(
            &[ty, MAX],
            &[],
            ENCODING_OR_STREAM_LIMIT,
            "RFC 9000 section 19.14",
        );
    }
    cases
}

/// Connection IDs. The sender has issued 0 to 4 for path 0, as many as are allowed, and 0 for path 1.
fn of_connection_ids() -> Vec<Case> {
    let mut cases = Vec::new();
    for head in [&[0x18][..], &[0x3e78, 0]] {
        let mut add = |sequence, prior, bytes: &[u8], allowed, section| {
            let fields = [head, &[sequence, prior][..]].concat();
            cases.push(case(&fields, bytes, allowed, section));
        };
        let section = "RFC 9000 section 19.15";
        for len in [1, 8, 20] {
            add(5, 1, &cid(len), ACCEPTED, section);
        }
        for len in [0, 21, 255] {
            add(5, 1, &cid(len), ENCODING, section);
        }
        add(5, 6, &cid(8), ENCODING, section);
        add(5, MAX, &cid(8), ENCODING, section);
        // "if a sequence number is used for different connection IDs, the endpoint MAY treat that
        // receipt as a connection error of type PROTOCOL_VIOLATION".
        add(1, 0, &cid(8), MAY_VIOLATION, section);
        // "MUST close the connection with an error of type CONNECTION_ID_LIMIT_ERROR".
        add(5, 0, &cid(8), CID_LIMIT, "RFC 9000 section 5.1.1");
    }
    for (head, next) in [(&[0x19][..], 5), (&[0x3e79, 0], 5), (&[0x3e79, 1], 1)] {
        let mut add = |sequence, allowed| {
            let fields = [head, &[sequence][..]].concat();
            cases.push(case(&fields, &[], allowed, "RFC 9000 section 19.16"));
        };
        add(next - 1, ACCEPTED);
        // "greater than any previously sent to the peer".
        add(next, VIOLATION);
        add(MAX, VIOLATION);
        if next > 1 {
            // That of the packet's own Destination Connection ID: "The peer MAY treat this as a
            // connection error of type PROTOCOL_VIOLATION."
            add(0, MAY_VIOLATION);
        }
    }
    cases
}

/// QUIC Acknowledgment Frequency. We announce a min_ack_delay of one millisecond.
fn of_ack_frequency() -> Vec<Case> {
    let mut cases = Vec::new();
    for (max_ack_delay, allowed) in [
        (0, VIOLATION),
        (999, VIOLATION),
        (1000, ACCEPTED),
        ((1 << 14) * 1000 - 1, ACCEPTED),
        ((1 << 14) * 1000, VIOLATION),
        (MAX, VIOLATION),
    ] {
        // Twice: the second one is obsolete, and invalid all the same.
        let fields = [0xaf, MAX, MAX, max_ack_delay, MAX];
        let section = "QUIC Acknowledgment Frequency, ACK_FREQUENCY Frame";
        cases.push(case(&fields.repeat(2), &[], allowed, section));
    }
    cases
}

/// Encodings that are wrong whatever the type.
fn of_all_frames() -> Vec<Case> {
    let mut cases = Vec::new();
    // "An endpoint MAY treat the receipt of a frame type that uses a longer encoding than necessary as
    // a connection error of type PROTOCOL_VIOLATION."
    for bytes in [
        &[0x40, 0x01][..],
        &[0x80, 0, 0, 0x01],
        &[0xc0, 0, 0, 0, 0, 0, 0, 0x01],
        &[0x40, 0x00],
        &[0x80, 0, 0x3e, 0x7a, 7],
    ] {
        cases.push(case(&[], bytes, MAY_VIOLATION, "RFC 9000 section 12.4"));
    }
    // Values may be longer than necessary (section 16).
    cases.push(case(
        &[0x10],
        &[0x80, 0, 0, 1],
        ACCEPTED,
        "RFC 9000 section 16",
    ));
    // "The sum of the offset and data length cannot exceed 2^62-1".
    for data in [&[0x06, MAX, 1][..], &[0x06, MAX - 1, 2]] {
        let section = "RFC 9000 section 19.6";
        cases.push(case(data, &[7, 7], ENCODING_OR_CRYPTO_BUFFER, section));
    }
    cases
}

/// Frames that end before their last field does (section 12.4: frames "cannot span multiple packets").
fn cut_off() -> Vec<Case> {
    let whole: &[&[u64]] = &[
        &[0x02, 0, 0, 0, 0],
        &[0x03, 0, 0, 0, 0, 0, 0, 0],
        &[0x04, 0, 0, 0],
        &[0x05, 0, 0],
        &[0x06, 0, 0],
        &[0x07, 1],
        &[0x0e, 0, 0, 1],
        &[0x10, 0],
        &[0x11, 0, 0],
        &[0x12, 0],
        &[0x13, 0],
        &[0x14, 0],
        &[0x15, 0, 0],
        &[0x16, 0],
        &[0x17, 0],
        &[0x18, 5, 1, 8],
        &[0x19, 0],
        &[0x1a],
        &[0x1b],
        &[0x1c, 0, 0, 0],
        &[0x1d, 0, 0],
        &[0xaf, 0, 1, 25_000, 1],
        &[0x31, 1],
        &[0x3e, 0, 0, 0, 0, 0],
        &[0x3f, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x3e75, 1, 0],
        &[0x3e76, 1, 0],
        &[0x3e77, 1, 0],
        &[0x3e78, 1, 1, 0, 8],
        &[0x3e79, 1, 0],
        &[0x3e7a, 7],
        &[0x3e7b, 7],
        &[0x3e7c, 1, 0],
    ];
    let mut cases = Vec::new();
    for fields in whole {
        // With bytes after the last integer, all of these integers are not the whole frame either.
        let has_bytes = matches!(fields[0], 0x07 | 0x0e | 0x18 | 0x1a | 0x1b | 0x31 | 0x3e78);
        for len in 1..fields.len() + usize::from(has_bytes) {
            cases.push(case(&fields[..len], &[], ENCODING, "RFC 9000 section 12.4"));
        }
    }
    cases
}

fn check(sender: Side, cases: Vec<Case>) {
    for case in cases {
        let mut pair = forge::ready_for(
            Packet::OneRtt,
            TransportConfig::default(),
            TransportConfig::default(),
        );
        let outcome = forge::deliver(&mut pair, sender, Packet::OneRtt, &case.payload);
        assert_eq!(
            outcome, case.allowed[0],
            "from {sender:?}: {:02x?}; {} allows {:?}",
            case.payload, case.section, case.allowed
        );
    }
}

//= specs/rfc9000.txt#section-13.1
//= type=test
//# An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a
//# connection error of type PROTOCOL_VIOLATION, if it is able to detect the condition.
#[test]
fn acknowledgements() {
    check(Side::Client, of_acks());
    check(Side::Server, of_acks());
}

#[test]
fn streams() {
    check(Side::Client, of_streams(Side::Client));
    check(Side::Server, of_streams(Side::Server));
}

//= specs/quic-ack-frequency.md#ack-frequency-frame
//= type=test
//# Note that values
//# of 2^14 milliseconds or greater are invalid for max_ack_delay, as specified in
//# {{Section 18.2 of QUIC-TRANSPORT}}. A value smaller than the min_ack_delay
//# advertised by the peer is also invalid. Receipt of an invalid value MUST be
//# treated as a connection error of type PROTOCOL_VIOLATION.
#[test]
fn ack_frequency() {
    check(Side::Client, of_ack_frequency());
    check(Side::Server, of_ack_frequency());
}

#[test]
fn connection_ids() {
    check(Side::Client, of_connection_ids());
    check(Side::Server, of_connection_ids());
}

//= specs/rfc9000.txt#section-19.7
//= type=test
//# A client MUST treat receipt of a NEW_TOKEN frame with an empty Token field as a connection error
//# of type FRAME_ENCODING_ERROR.
#[test]
fn encodings() {
    for sender in [Side::Client, Side::Server] {
        check(sender, of_all_frames());
        check(sender, cut_off());
    }
    // "A client MUST treat receipt of a NEW_TOKEN frame with an empty Token field as a connection
    // error of type FRAME_ENCODING_ERROR."
    let empty_token = case(&[0x07, 0], &[], ENCODING, "RFC 9000 section 19.7");
    check(Side::Server, vec![empty_token]);
}

/// As above, of streams that the receiver has opened. Only the direction is wrong then.
#[test]
fn streams_in_the_other_direction() {
    for sender in [Side::Client, Side::Server] {
        for (dir, allowed) in [(Dir::Uni, STREAM_STATE), (Dir::Bi, ACCEPTED)] {
            let id = u64::from(StreamId::new(!sender, dir, 0));
            for fields in [&[0x0a, id, 0][..], &[0x04, id, 0, 0], &[0x15, id, 1]] {
                let mut pair = forge::ready_for(
                    Packet::OneRtt,
                    TransportConfig::default(),
                    TransportConfig::default(),
                );
                let opened = forge::side_of(&mut pair, !sender).streams().open(dir);
                assert_eq!(opened.map(u64::from), Some(id));
                let frame = forge::varints(fields);
                let outcome = forge::deliver(&mut pair, sender, Packet::OneRtt, &frame);
                assert_eq!(outcome, allowed[0], "from {sender:?}: {frame:02x?}");
            }
        }
    }
}
