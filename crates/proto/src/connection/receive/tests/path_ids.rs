//! What RFC 10069 says of path IDs, of their limit and of the frames that announce or miss it.

use std::time::Duration;

use mpquic_sched_core::{ConnectionId, Side, TransportErrorCode};
use mpquic_wire::frame::{Frame, NewConnectionId, RetireConnectionId};

use super::forge::{self, Outcome, Packet};
use super::pair::{self, Pair};
use crate::{ConnectionError, PathErrorCode, PathId, TransportConfig};

const SIDES: [Side; 2] = [Side::Client, Side::Server];
const VIOLATION: Outcome = Outcome::Closed(TransportErrorCode::PROTOCOL_VIOLATION);

/// `few` allows path IDs up to 1, its peer up to 7.
fn connected(few: Side) -> Pair {
    let many = TransportConfig::default();
    let mut limited = TransportConfig::default();
    limited.max_paths(2);
    let (client, server) = match few {
        Side::Client => (limited, many),
        Side::Server => (many, limited),
    };
    forge::ready_for(Packet::OneRtt, client, server)
}

/// What a 1-RTT packet with these integers comes to at `receiver`.
fn received(pair: &mut Pair, receiver: Side, fields: &[u64]) -> Outcome {
    let frame = forge::varints(fields);
    forge::deliver(pair, !receiver, Packet::OneRtt, &frame)
}

/// Every frame that speaks of a path ID, or of a limit of them that was never given.
fn frames_of(path: u64) -> Vec<Vec<u8>> {
    let frames = [
        Frame::NewConnectionId(NewConnectionId {
            path: Some(path),
            sequence: 0,
            retire_prior_to: 0,
            id: ConnectionId::new(&[7; 8]),
            reset_token: [7; 16],
        }),
        Frame::RetireConnectionId(RetireConnectionId {
            path: Some(path),
            sequence: 0,
        }),
        Frame::PathAbandon {
            path,
            error: PathErrorCode::NO_ERROR,
        },
        Frame::PathStatusAvailable { path, seq: 0 },
        Frame::PathStatusBackup { path, seq: 0 },
        Frame::PathsBlocked(path),
        Frame::PathCidsBlocked { path, next_seq: 0 },
    ];
    let encoded = |frame: &Frame<'_>| {
        let mut buf = Vec::new();
        frame.encode(&mut buf);
        buf
    };
    let mut all: Vec<_> = frames.iter().map(encoded).collect();
    // PATH_ACK: path ID, largest, delay, count of further ranges, first range; then the ECN counts.
    all.push(forge::varints(&[0x3e, path, 0, 0, 0, 0]));
    all.push(forge::varints(&[0x3f, path, 0, 0, 0, 0, 0, 0, 0]));
    all
}

/// RFC 10069, new frames: a path ID above the announced limit is a PROTOCOL_VIOLATION, whichever
/// frame speaks of it.
//= specs/rfc10069-draft.md#frames
//= type=test
//# Receipt of multipath-specific frames that use a path ID that is greater than the announced
//# Maximum Paths value in the MAX_PATH_ID frame or in the initial_max_path_id transport parameter,
//# if no MAX_PATH_ID frame was received yet, MUST be treated as a connection error of type
//# PROTOCOL_VIOLATION.
//= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
//= type=test
//# Receipt of a value of Maximum Path Identifier or Path Identifier that is higher than the local
//# maximum value MUST be treated as a connection error of type PROTOCOL_VIOLATION.
#[test]
fn path_ids_beyond_the_limit() {
    for receiver in SIDES {
        for path in [2, 3, 1 << 16, u64::from(u32::MAX), 1 << 32, (1 << 62) - 1] {
            for frame in frames_of(path) {
                let mut pair = connected(receiver);
                let outcome = forge::deliver(&mut pair, !receiver, Packet::OneRtt, &frame);
                assert_eq!(outcome, VIOLATION, "{path} to {receiver:?}: {frame:x?}");
            }
        }
    }
}

/// Opens path 1 from the client.
fn open(pair: &mut Pair) -> PathId {
    let now = pair.now;
    let id = pair.c().open_path(now, pair::tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
    id
}

/// Opens path 1 and abandons it, until nothing is left of it.
fn open_and_abandon(pair: &mut Pair) -> PathId {
    let id = open(pair);
    let now = pair.now;
    pair.c()
        .path_mut(id)
        .close(now, PathErrorCode::NO_ERROR)
        .unwrap();
    let gone = |pair: &mut Pair| {
        SIDES.into_iter().all(|side| {
            let connection = forge::side_of(pair, side);
            forge::is_abandoned(connection, id) && connection.paths().abandoned(id).is_none()
        })
    };
    assert!(pair.run_until(Duration::from_secs(20), gone));
    id
}

/// The same frames of a path ID that was abandoned, and whose state is gone, are nothing.
//= specs/rfc10069-draft.md#frames
//= type=test
//# If an endpoint receives a multipath-specific frame with a path ID that it cannot process anymore
//# (e.g., because the path might have been abandoned), it MUST silently ignore the frame.
#[test]
fn frames_of_abandoned_paths_are_ignored() {
    for receiver in SIDES {
        let mut pair = connected(Side::Server);
        let id = open_and_abandon(&mut pair);
        for frame in frames_of(id.0.into()) {
            let outcome = forge::deliver(&mut pair, !receiver, Packet::OneRtt, &frame);
            assert_eq!(outcome, Outcome::Accepted, "to {receiver:?}: {frame:x?}");
        }
    }
}

/// The whole way: a client that believes in a higher limit than the server gave issues connection IDs
/// for path IDs beyond it, and hears why that was the end.
#[test]
fn a_client_that_goes_beyond_the_limit_is_told() {
    let mut pair = connected(Side::Server);
    forge::believe_in_path_limit(pair.c(), 5);
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.c().is_closed() && pair.s().is_closed()
    }));
    match pair.c().lost_reason() {
        Some(ConnectionError::ConnectionClosed(close)) => {
            assert_eq!(close.error_code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
        other => panic!("{other:?}"),
    }
}

/// A PATH_ACK for a path on which nothing was sent acknowledges a packet that was not sent: "An
/// endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a connection
/// error of type PROTOCOL_VIOLATION" (RFC 9000 section 13.1).
//= specs/rfc9000.txt#section-13.1
//= type=test
//# An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a
//# connection error of type PROTOCOL_VIOLATION, if it is able to detect the condition.
#[test]
fn path_ack_of_a_path_never_used() {
    for receiver in SIDES {
        for frame in [&[0x3e, 1, 0, 0, 0, 0][..], &[0x3f, 1, 0, 0, 0, 0, 0, 0, 0]] {
            let outcome = received(&mut connected(receiver), receiver, frame);
            assert_eq!(outcome, VIOLATION, "to {receiver:?}");
            // Once it is in use, packet 0 was sent on it.
            let mut pair = connected(receiver);
            open(&mut pair);
            let outcome = received(&mut pair, receiver, frame);
            assert_eq!(outcome, Outcome::Accepted, "to {receiver:?}");
            // Much more was not.
            let beyond = [&frame[..2], &[1 << 20], &frame[3..]].concat();
            let outcome = received(&mut pair, receiver, &beyond);
            assert_eq!(outcome, VIOLATION, "to {receiver:?}");
        }
    }
}

/// RFC 10069, PATHS_BLOCKED and PATH_CIDS_BLOCKED frames: "Receipt of a value of Next Sequence Number
/// that is higher than the sequence number of the next expected to be issued connection ID for this
/// path MUST be treated as a connection error of type PROTOCOL_VIOLATION."
//= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
//= type=test
//# Receipt of a value of Next Sequence Number that is higher than the sequence number of the next
//# expected to be issued connection ID for this path MUST be treated as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn path_cids_blocked_beyond_the_next() {
    for receiver in SIDES {
        for path in [0, 1] {
            let mut pair = connected(receiver);
            let connection = forge::side_of(&mut pair, receiver);
            let next = forge::next_cid_sequence(connection, PathId(path));
            // Five IDs of the open path, one of the next.
            assert_eq!(next, [5, 1][path as usize]);
            for sequence in [0, next - 1, next] {
                let outcome = received(&mut pair, receiver, &[0x3e7c, path.into(), sequence]);
                assert_eq!(outcome, Outcome::Accepted, "{sequence} of path {path}");
            }
            for sequence in [next + 1, (1 << 62) - 1] {
                let mut pair = connected(receiver);
                let outcome = received(&mut pair, receiver, &[0x3e7c, path.into(), sequence]);
                assert_eq!(outcome, VIOLATION, "{sequence} of path {path}");
            }
        }
    }
}

/// RFC 10069, MAX_PATH_ID frame: the value MUST NOT exceed 2^32-1 nor be lower than
/// initial_max_path_id. "Receipt of an invalid Maximum Path Identifier value MUST be treated as a
/// connection error of type PROTOCOL_VIOLATION."
//= specs/rfc10069-draft.md#max-paths-frame
//= type=test
//# Receipt of an invalid Maximum Path Identifier value MUST be treated as a connection error of
//# type PROTOCOL_VIOLATION.
#[test]
fn invalid_values_of_max_path_id() {
    for receiver in SIDES {
        for value in [0, 6, 1 << 32, (1 << 62) - 1] {
            // The sender's initial_max_path_id is 7.
            let outcome = received(&mut connected(receiver), receiver, &[0x3e7a, value]);
            assert_eq!(outcome, VIOLATION, "{value} to {receiver:?}");
        }
        // A limit that was raised since makes no smaller value valid.
        let mut pair = connected(receiver);
        assert_eq!(
            received(&mut pair, receiver, &[0x3e7a, 9]),
            Outcome::Accepted
        );
        assert_eq!(received(&mut pair, receiver, &[0x3e7a, 6]), VIOLATION);
    }
}

/// The same section: "MAX_PATH_ID frames that do not increase the path limit MUST be ignored."
//= specs/rfc10069-draft.md#max-paths-frame
//= type=test
//# MAX_PATH_ID frames that do not increase the path limit MUST be ignored.
#[test]
fn max_path_id_never_lowers_the_limit() {
    for receiver in SIDES {
        // The sender allows path IDs up to 1, the receiver up to 7.
        let mut pair = connected(!receiver);
        for (value, limit) in [
            (1, 1),
            (5, 5),
            (4, 5),
            (1, 5),
            (6, 6),
            // From here on, it is the receiver's own limit that counts.
            (u32::MAX, 7),
            (7, 7),
        ] {
            let outcome = received(&mut pair, receiver, &[0x3e7a, value.into()]);
            assert_eq!(outcome, Outcome::Accepted, "{value} to {receiver:?}");
            let usable = forge::usable_path_limit(forge::side_of(&mut pair, receiver));
            assert_eq!(usable, limit, "after {value} to {receiver:?}");
        }
    }
}

/// RFC 10069, PATHS_BLOCKED and PATH_CIDS_BLOCKED frames: "If the received value is lower than the
/// currently allowed maximum value, this frame can be ignored." A value "that is higher than the local
/// maximum value MUST be treated as a connection error of type PROTOCOL_VIOLATION".
#[test]
fn paths_blocked_at_a_limit() {
    for receiver in SIDES {
        let mut pair = connected(receiver);
        for value in [1, 0, 1] {
            let outcome = received(&mut pair, receiver, &[0x3e7b, value]);
            assert_eq!(outcome, Outcome::Accepted, "{value} to {receiver:?}");
        }
        assert_eq!(received(&mut pair, receiver, &[0x3e7b, 2]), VIOLATION);
        // A path was abandoned: there may be another one instead.
        let mut pair = connected(receiver);
        open_and_abandon(&mut pair);
        for value in [1, 2, 0] {
            let outcome = received(&mut pair, receiver, &[0x3e7b, value]);
            assert_eq!(outcome, Outcome::Accepted, "{value} to {receiver:?}");
        }
        assert_eq!(received(&mut pair, receiver, &[0x3e7b, 3]), VIOLATION);
    }
}
