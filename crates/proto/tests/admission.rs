//! Address validation over the wire: Retry and its loss, tokens of earlier connections.

mod pair;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mpquic_proto::{PathId, TransportConfig};
use pair::Pair;

const SECOND: Duration = Duration::from_secs(1);

fn pair() -> Pair {
    Pair::new(TransportConfig::default(), TransportConfig::default())
}

/// Bits of the first byte that tell a Retry packet.
fn is_retry(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xf0
}

//= specs/rfc9000.txt#section-7.3
//= type=test
//# A server MUST include the Destination Connection ID field from the first Initial packet it
//# received from the client in the original_destination_connection_id transport parameter; if the
//# server sent a Retry packet, this refers to the first Initial packet received before sending the
//# Retry packet.
//= specs/rfc9000.txt#section-7.3
//= type=test
//# If it sends a Retry packet, a server MUST also include the Source Connection ID field from the
//# Retry packet in the retry_source_connection_id transport parameter.
#[test]
fn a_handshake_with_retry() {
    let mut pair = pair();
    pair.retry = true;
    let start = pair.now;
    // The client checks both parameters, or there is no connection.
    pair.connect();
    let took = pair.now - start;
    assert!(
        took <= Duration::from_millis(80),
        "one round trip more: {took:?}"
    );
    assert_eq!(pair.server.endpoint.open_connections(), 1);
    assert_eq!(pair.server.endpoint.half_open().connections, 0);
}

/// Every one of the first datagrams is lost once, each in a run of its own, and all of the first few.
#[test]
fn a_handshake_with_retry_under_loss() {
    for lost in 0..12 {
        for all_before in [false, true] {
            let mut pair = pair();
            pair.retry = true;
            let mut number = 0;
            let retries = Rc::new(Cell::new(0));
            let count = Rc::clone(&retries);
            pair.filter = Box::new(move |_, _, datagram| {
                let now = number;
                number += 1;
                let drop = if all_before {
                    now < lost / 3
                } else {
                    now == lost
                };
                if !drop && is_retry(datagram) {
                    count.set(count.get() + 1);
                }
                !drop
            });
            pair.connect();
            assert!(retries.get() >= 1);
        }
    }
}

/// Somebody who saw the client's first packet repeats it: the client takes one Retry, and the server keeps nothing
/// for the others.
#[test]
fn repeated_first_packets() {
    let mut pair = pair();
    pair.retry = true;
    let mut first = None;
    assert!(pair.run_until(SECOND, |pair| {
        first = pair.server.inbound.front().cloned();
        first.is_some()
    }));
    let first = first.unwrap();
    for _ in 0..5 {
        pair.server.inbound.push_back(first.clone());
    }
    pair.connect();
    assert_eq!(pair.server.endpoint.open_connections(), 1);
    assert_eq!(pair.server.endpoint.half_open().connections, 0);
}

/// RFC 9000 section 8.1: the address is proven, so a large certificate needs no more of the client's packets.
#[test]
fn a_proven_address_has_no_limit() {
    for retry in [false, true] {
        let mut pair = pair();
        pair.retry = retry;
        let accepted = pair.run_until(SECOND, |pair| pair.server.connection.is_some());
        assert!(accepted);
        assert_eq!(pair.s().is_path_validated(PathId::ZERO), retry);
    }
}
