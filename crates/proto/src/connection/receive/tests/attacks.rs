//! What a hostile peer's packets cost: work, memory and bytes that must not grow with the past, nor beyond what the
//! peer itself spends.

use std::time::Duration;

use mpquic_sched_core::{Side, TransportErrorCode};
use mpquic_wire::frame::Frame;

use super::forge::{self, Forgery, Outcome, Packet};
use super::pair::{self, Pair};
use crate::limits::MAX_ACK_RANGES;
use crate::{ConnectionError, PathErrorCode, PathId, TransportConfig};

fn connected() -> Pair {
    let config = TransportConfig::default();
    forge::ready_for(Packet::OneRtt, config.clone(), config)
}

fn abandon(path: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    Frame::PathAbandon {
        path: path.into(),
        error: PathErrorCode::NO_ERROR,
    }
    .encode(&mut frame);
    frame
}

/// A client that uses up path IDs as fast as it can: at first as many as paths may be open, then only as many as the
/// server has forgotten, three PTOs after the last. The looks at path IDs that a frame costs do not grow with the IDs
/// that were used up.
#[test]
fn path_ids_are_used_up_no_faster_than_they_are_forgotten() {
    let mut pair = connected();
    let max_paths = 8;
    let mut used = 1;
    let mut burst = 0;
    while used <= forge::announced_path_limit(pair.s()) {
        let outcome = forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &abandon(used));
        assert_eq!(outcome, Outcome::Accepted, "path {used}");
        used += 1;
        burst += 1;
        assert!(
            burst <= 3 * max_paths,
            "the limit rises with every PATH_ABANDON"
        );
    }
    let mut looks = Vec::new();
    for _ in 0..40 {
        let later = pair.now + Duration::from_secs(3);
        pair.run_until(later - pair.now, |_| false);
        pair.now = later;
        let limit = forge::announced_path_limit(pair.s());
        assert!(limit < used + max_paths, "{limit} with {used} used");
        while used <= limit {
            let outcome = forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &abandon(used));
            assert_eq!(outcome, Outcome::Accepted, "path {used}");
            used += 1;
        }
        looks.push(forge::path_ids_looked_at(pair.s()));
    }
    assert!(
        used > 10 * max_paths,
        "an honest client could go on: {used}"
    );
    assert!(
        looks.iter().all(|looks| *looks <= max_paths as usize),
        "{looks:?}"
    );
}

/// RFC 9000 section 12.3: no packet is processed twice. With as many ranges of packet numbers held as there may be, one
/// below all of them could not be remembered.
#[test]
fn a_packet_below_all_that_is_remembered_is_dropped() {
    let mut pair = connected();
    let ping = Forgery::new(Packet::OneRtt, &[1]);
    let dcid = forge::cid_of(pair.s(), PathId::ZERO);
    let (_, first) = ping.seal(&mut pair, Side::Client);
    let old = ping.seal_as(&mut pair, Side::Client, &dcid, first);
    for range in 1..=MAX_ACK_RANGES as u64 {
        let datagram = ping.seal_as(&mut pair, Side::Client, &dcid, first + 2 * range);
        forge::hand_over(&mut pair, Side::Server, &datagram);
    }
    let mut processed = 0;
    for _ in 0..200 {
        pair.now += Duration::from_millis(1);
        forge::hand_over(&mut pair, Side::Server, &old);
        processed += u32::from(forge::last_processed(pair.s()) == pair.now);
    }
    assert!(processed <= 1, "one packet was processed {processed} times");
}

/// RFC 9000 section 12.2: what is coalesced behind a packet, but goes to another connection ID, is ignored.
#[test]
fn coalesced_packets_to_other_connection_ids_are_ignored() {
    let mut pair = forge::ready_for(
        Packet::Handshake,
        TransportConfig::default(),
        TransportConfig::default(),
    );
    let ping = Forgery::new(Packet::Handshake, &[1]);
    let (mut datagram, first) = ping.seal(&mut pair, Side::Client);
    let other = forge::original_dcid(pair.s());
    let second = ping.seal_as(&mut pair, Side::Client, &other, first + 1);
    datagram.extend_from_slice(&second);
    forge::hand_over(&mut pair, Side::Server, &datagram);
    assert!(forge::was_received(pair.s(), Packet::Handshake, first));
    assert!(!forge::was_received(pair.s(), Packet::Handshake, first + 1));
}

/// Who hears that its only path is abandoned says that the connection ends.
//= specs/rfc10069-draft.md#path-close
//= type=test
//# If a PATH_ABANDON frame is received for the only open path of a QUIC connection, the receiving
//# peer SHOULD send a CONNECTION_CLOSE frame and enter the closing state.
#[test]
fn abandoning_the_only_path_is_answered_with_a_close() {
    let mut pair = connected();
    let outcome = forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &abandon(0));
    assert_eq!(outcome, Outcome::Closed(TransportErrorCode::NO_ERROR));
    pair.run_until(Duration::from_secs(1), |pair| pair.c().is_closed());
    let reason = pair.c().lost_reason().cloned();
    assert!(
        matches!(reason, Some(ConnectionError::ConnectionClosed(_))),
        "{reason:?}"
    );
}

/// A path that nobody proves becomes the last one: nobody is told anything, and nothing is kept.
//= specs/rfc9000.txt#section-9.3.2
//= type=test
//# If an endpoint has no state about the last validated peer address, it MUST close the connection
//# silently by discarding all connection state.
#[test]
fn without_any_proven_address_the_connection_ends_in_silence() {
    let mut pair = connected();
    let now = pair.now;
    let id = pair.c().open_path(now, pair::tuple(1)).unwrap();
    pair.filter = Box::new(|from_client, _, _| from_client);
    assert!(pair.run_until(Duration::from_secs(1), |pair| { pair.s().path(id).is_ok() }));
    pair.filter = Box::new(|_, _, _| false);
    forge::deliver(&mut pair, Side::Client, Packet::OneRtt, &abandon(0));
    assert!(pair.run_until(Duration::from_secs(25), |pair| pair.s().is_drained()));
    let reason = pair.s().lost_reason().cloned();
    assert_eq!(reason, Some(ConnectionError::NoValidatedPath));
}

/// Challenges of 40 bytes draw answers of 1200, from a sender whose window is full besides: in RFC 9002 section 7, it must
/// send nothing. A challenge now and then is answered at once nevertheless.
#[test]
fn challenges_draw_little_from_a_full_window() {
    let mut pair = connected();
    let id = pair
        .s()
        .streams()
        .open(mpquic_sched_core::Dir::Uni)
        .unwrap();
    let _ = pair.s().send_stream(id).write(&[7; 1 << 20]);
    pair.filter = Box::new(|from_client, _, _| from_client);
    pair.client.inbound.clear();
    let full = |pair: &mut Pair| {
        let stats = pair.s().path(PathId::ZERO).unwrap().stats();
        stats.in_flight + 1200 > stats.cwnd
    };
    assert!(pair.run_until(Duration::from_secs(5), full));
    let before = pair.s().stats();
    let (mut received, mut at_most_in_flight) = (0, 0);
    for number in 0..2000u64 {
        let mut frame = Vec::new();
        Frame::PathChallenge(number).encode(&mut frame);
        let (datagram, _) = Forgery::new(Packet::OneRtt, &frame).seal(&mut pair, Side::Client);
        received += datagram.len() as u64;
        forge::hand_over(&mut pair, Side::Server, &datagram);
        let later = pair.now + Duration::from_millis(1);
        pair.run_until(Duration::from_millis(1), |_| false);
        pair.now = later;
        let stats = pair.s().path(PathId::ZERO).unwrap().stats();
        at_most_in_flight =
            at_most_in_flight.max(stats.in_flight - stats.cwnd.min(stats.in_flight));
        if number == 0 {
            assert_eq!(pair.s().stats().sent_datagrams, before.sent_datagrams + 1);
        }
    }
    let sent = pair.s().stats().sent_bytes - before.sent_bytes;
    println!("{sent} bytes out for {received} in, {at_most_in_flight} beyond the window");
    assert!(sent <= 2 * received, "{sent} bytes for {received}");
    assert!(
        at_most_in_flight <= 40_000,
        "{at_most_in_flight} bytes beyond the window"
    );
}

/// Who retires connection IDs faster than that is acknowledged is told why the connection ends, though the ID in use is
/// among the retired ones.
#[test]
fn too_many_ids_to_retire_are_told_of() {
    let mut pair = connected();
    let told = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&told);
    pair.filter = Box::new(move |from_client, _, _| {
        count.set(count.get() + u32::from(from_client));
        !from_client
    });
    let closed = (10..600u64).any(|number| {
        let mut frame = Vec::new();
        let mut id = [0; 8];
        id.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Frame::NewConnectionId(mpquic_wire::frame::NewConnectionId {
            path: None,
            sequence: number,
            retire_prior_to: number,
            id: mpquic_sched_core::ConnectionId::new(&id),
            reset_token: [number as u8; 16].map(|byte| byte ^ (number >> 8) as u8),
        })
        .encode(&mut frame);
        told.set(0);
        let outcome = forge::deliver(&mut pair, Side::Server, Packet::OneRtt, &frame);
        outcome == Outcome::Closed(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR)
    });
    assert!(closed);
    pair.step();
    assert!(told.get() > 0, "nothing was sent");
}

/// Also what a server sends to be sure, and not for its content: a second probe with no CRYPTO data left to repeat.
//= specs/rfc9000.txt#section-14.1
//= type=test
//# Similarly, a server MUST expand the payload of all UDP datagrams carrying ack-eliciting Initial
//# packets to at least the smallest allowed maximum datagram size of 1200 bytes.
#[test]
fn a_server_expands_each_datagram_with_an_initial_packet_that_asks_for_an_answer() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let sizes = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&sizes);
    let mut first = true;
    pair.filter = Box::new(move |from_client, _, data| {
        // A long header, and the type of an Initial packet.
        if !from_client && data[0] & 0xb0 == 0x80 {
            seen.borrow_mut().push(data.len());
        }
        from_client && std::mem::take(&mut first)
    });
    pair.run_until(Duration::from_secs(5), |_| false);
    let sizes = sizes.borrow();
    assert!(
        sizes.len() >= 2 && sizes.iter().all(|size| *size >= 1200),
        "{sizes:?}"
    );
}
