//! Packets that come before their keys (RFC 9001 section 5.7): a bounded number is kept, and no flood of
//! them keeps a connection from being made.

use std::time::Duration;

use mpquic_sched_core::{Dir, Side};

use super::forge::{self, Forgery, Packet};
use super::pair::Pair;
use crate::TransportConfig;
use crate::limits::MAX_UNDECRYPTABLE_PACKETS;

/// Far more than are kept.
const FLOOD: usize = 1000;

fn ready_for(packet: Packet) -> Pair {
    forge::ready_for(
        packet,
        TransportConfig::default(),
        TransportConfig::default(),
    )
}

/// Hands `FLOOD` packets of this type to the peer of `sender`, none of which it can ever decrypt, and
/// checks that as many are kept as may be and no more.
fn flood(pair: &mut Pair, sender: Side, packet: Packet) {
    for i in 0..FLOOD {
        let (mut datagram, _) = Forgery::new(packet, &[0; 1000]).seal(pair, sender);
        *datagram.last_mut().unwrap() ^= 1;
        forge::hand_over(pair, !sender, &datagram);
        let kept = forge::kept_undecryptable(forge::side_of(pair, !sender));
        assert_eq!(kept, (i + 1).min(MAX_UNDECRYPTABLE_PACKETS));
    }
}

fn check_connects(pair: &mut Pair) {
    pair.connect();
    forge::settle(pair);
    for side in [Side::Client, Side::Server] {
        let connection = forge::side_of(pair, side);
        assert!(!connection.is_closed());
        assert_eq!(forge::kept_undecryptable(connection), 0);
    }
}

/// The client has Initial keys only.
#[test]
fn a_flood_to_a_client() {
    for packet in [Packet::Handshake, Packet::OneRtt] {
        let mut pair = ready_for(Packet::Initial);
        flood(&mut pair, Side::Server, packet);
        check_connects(&mut pair);
    }
}

/// The server has 1-RTT keys, which it must not use before TLS is complete.
#[test]
fn a_flood_to_a_server() {
    let mut pair = ready_for(Packet::Handshake);
    flood(&mut pair, Side::Client, Packet::OneRtt);
    check_connects(&mut pair);
}

/// RFC 9001 section 5.7: "A server MUST NOT process incoming 1-RTT protected packets before the TLS
/// handshake is complete." They "MAY be stored and later decrypted and used".
//= specs/rfc9001.txt#section-5.7
//= type=test
//# A server MUST NOT process incoming 1-RTT protected packets before the TLS handshake is complete.
#[test]
fn what_came_too_early_is_used_in_time() {
    let mut pair = ready_for(Packet::Handshake);
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[7; 100]), Ok(100));
    pair.server.inbound.clear();
    // The Finished is lost, the data is not.
    pair.filter = Box::new(|_, _, datagram| datagram[0] & 0x80 == 0);
    pair.step();
    pair.filter = Box::new(|_, _, _| true);
    assert_eq!(pair.server.inbound.len(), 1);
    pair.step();
    assert_eq!(forge::kept_undecryptable(pair.s()), 1);
    assert_eq!(pair.s().stats().received_stream_bytes, 0);
    assert_eq!(pair.s().streams().accept(Dir::Uni), None);
    // The Finished comes again with the client's first probe. Its data would come later.
    let complete = |pair: &mut Pair| forge::kept_undecryptable(pair.s()) == 0;
    assert!(pair.run_until(Duration::from_secs(5), complete));
    assert_eq!(pair.s().stats().received_stream_bytes, 100);
    assert_eq!(pair.s().streams().accept(Dir::Uni), Some(id));
}

/// The server keeps data of the client until it has its Finished. It says for how long: the client would take the wait
/// for the RTT, and no probe of a loss would follow for three times as long.
//= specs/rfc9000.txt#section-13.2.5
//= type=test
//# However, endpoints SHOULD include buffering delays caused by unavailability of decryption keys,
//# since these delays can be large and are likely to be non-repeating.
#[test]
fn waiting_for_keys_is_a_delay_of_the_acknowledgement() {
    let mut pair = ready_for(Packet::Handshake);
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[7; 100]), Ok(100));
    pair.server.inbound.clear();
    pair.filter = Box::new(|_, _, datagram| datagram[0] & 0x80 == 0);
    pair.run_until(Duration::from_secs(2), |_| false);
    pair.filter = Box::new(|_, _, _| true);
    assert_eq!(forge::kept_undecryptable(pair.s()), 1);
    pair.connect();
    forge::settle(&mut pair);
    let stats = pair.c().path(crate::PathId::ZERO).unwrap().stats();
    assert!(
        stats.rtt + 4 * stats.rtt_var < Duration::from_millis(500),
        "{stats:?}"
    );
}
