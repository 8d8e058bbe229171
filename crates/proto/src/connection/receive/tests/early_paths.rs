//! Paths that a client opens before its handshake is confirmed, and a peer that does not want them.

use mpquic_sched_core::Side;
use mpquic_wire::frame::Frame;

use super::forge::{self, Forgery, Packet};
use super::pair::{self, Pair};
use crate::{Event, PathError, PathErrorCode, PathEvent, PathId, TransportConfig};

/// The path IDs that the client was told it can open.
fn available(pair: &mut Pair) -> Vec<PathId> {
    let events = pair.client.events.drain(..);
    events
        .filter_map(|event| match event {
            Event::Path(PathEvent::Available { next }) => Some(next),
            _ => None,
        })
        .collect()
}

/// The path is lost, not the connection. The client waits until the handshake is confirmed, and is told that it can open
/// the next one then.
#[test]
fn a_refused_path_is_asked_for_again_when_the_handshake_is_confirmed() {
    let config = TransportConfig::default;
    let mut pair = forge::ready_for(Packet::Handshake, config(), config());
    assert!(!pair.c().is_handshake_confirmed() && pair.c().paths().may_open());
    while let Some(event) = pair.c().poll() {
        pair.client.events.push_back(event);
    }
    assert_eq!(available(&mut pair), [PathId(1)]);
    let now = pair.now;
    assert_eq!(pair.c().open_path(now, pair::tuple(1)), Ok(PathId(1)));
    let mut refusal = Vec::new();
    Frame::PathAbandon {
        path: 1,
        error: PathErrorCode::PATH_RESOURCE_LIMIT_REACHED,
    }
    .encode(&mut refusal);
    // Far ahead of the numbers that the server will use.
    let dcid = forge::cid_of(pair.c(), PathId::ZERO);
    let forgery = Forgery::new(Packet::OneRtt, &refusal);
    let datagram = forgery.seal_as(&mut pair, Side::Server, &dcid, 30);
    forge::hand_over(&mut pair, Side::Client, &datagram);
    assert!(!pair.c().is_handshake_confirmed() && !pair.c().paths().may_open());
    let again = pair.c().open_path(now, pair::tuple(1));
    assert_eq!(again, Err(PathError::HandshakeIncomplete));
    while let Some(event) = pair.c().poll() {
        pair.client.events.push_back(event);
    }
    assert_eq!(available(&mut pair), []);
    let mut done = Vec::new();
    Frame::HandshakeDone.encode(&mut done);
    let forgery = Forgery::new(Packet::OneRtt, &done);
    let datagram = forgery.seal_as(&mut pair, Side::Server, &dcid, 31);
    forge::hand_over(&mut pair, Side::Client, &datagram);
    assert!(pair.c().is_handshake_confirmed() && !pair.c().is_closed());
    while let Some(event) = pair.c().poll() {
        pair.client.events.push_back(event);
    }
    assert_eq!(available(&mut pair), [PathId(2)]);
    assert_eq!(pair.c().open_path(now, pair::tuple(1)), Ok(PathId(2)));
}
