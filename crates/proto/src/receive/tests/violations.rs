//! What a peer does that RFC 10069 forbids: tests, from within, as no public call violates anything.

use std::time::Duration;

use mpquic_sched_core::{ConnectionId, TransportErrorCode};

use super::pair::{self, Pair};
use crate::frame::{Frame, FrameIter, NewConnectionId, RetireConnectionId};
use crate::receive::DatagramMeta;
use crate::{ConnectionError, PathErrorCode, PathId, TransportConfig};

/// The server allows path IDs up to 1.
fn connected() -> Pair {
    let mut few = TransportConfig::default();
    few.max_paths(2);
    let mut pair = Pair::new(TransportConfig::default(), few);
    pair.connect();
    pair
}

/// What a frame in a 1-RTT packet on path 0 comes to at the server.
fn received(pair: &mut Pair, frame: &[u8]) -> Option<(TransportErrorCode, Option<u64>)> {
    let arrival = DatagramMeta {
        now: pair.now,
        tuple: pair::tuple(0),
        ecn: None,
        bytes: 1200,
    };
    let dcid = ConnectionId::new(&[9; 8]);
    let result = pair
        .s()
        .on_data_payload(arrival, PathId::ZERO, &dcid, 1 << 20, frame);
    result.err().map(|error| (error.code, error.frame))
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut buf = Vec::new();
    frame.encode(&mut buf);
    buf
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
    let mut all: Vec<_> = frames.iter().map(encoded).collect();
    // PATH_ACK: type, path ID, largest, delay, count of further ranges, first range.
    let mut ack = vec![0x3e];
    crate::packet::varint::put(&mut ack, path);
    ack.extend_from_slice(&[0, 0, 0, 0]);
    all.push(ack);
    all
}

/// RFC 10069, new frames: a path ID above the announced limit is a PROTOCOL_VIOLATION, whichever
/// frame speaks of it.
#[test]
fn path_ids_beyond_the_limit() {
    for path in [2, 3, 1 << 16, u64::from(u32::MAX), 1 << 32, (1 << 62) - 1] {
        for frame in frames_of(path) {
            let mut pair = connected();
            let ty = FrameIter::new(&frame).next().unwrap().unwrap().ty();
            let expected = (TransportErrorCode::PROTOCOL_VIOLATION, Some(ty));
            let got = received(&mut pair, &frame);
            assert_eq!(got, Some(expected), "path {path}, frame {ty:#x}");
        }
    }
}

/// The same frames of a path ID that was abandoned, and whose state is gone, are nothing.
#[test]
fn frames_of_abandoned_paths_are_ignored() {
    let mut pair = connected();
    let now = pair.now;
    let id = pair.c().open_path(now, pair::tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.c().is_path_validated(id) && pair.s().is_path_validated(id)
    }));
    let now = pair.now;
    pair.c()
        .close_path(now, id, PathErrorCode::NO_ERROR)
        .unwrap();
    pair.run_until(Duration::from_secs(20), |pair| {
        pair.s().paths.is_abandoned(id) && pair.s().paths.retired().is_empty()
    });
    assert!(pair.s().paths.is_abandoned(id));
    assert!(pair.s().paths.retired().is_empty());
    for frame in frames_of(id.0.into()) {
        assert_eq!(received(&mut pair, &frame), None, "{frame:x?}");
    }
}

/// The whole way: a client that believes in a higher limit than the server gave issues connection IDs
/// for path IDs beyond it, and hears why that was the end.
#[test]
fn a_client_that_goes_beyond_the_limit_is_told() {
    let mut pair = connected();
    let limits = pair.c().path_limits.as_mut().unwrap();
    assert_eq!(limits.on_max_path_id(5, 1), Ok(true));
    pair.c().issue_cids();
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
