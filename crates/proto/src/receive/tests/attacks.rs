//! What a hostile peer's packets cost: work, memory and bytes that must not grow with the past, nor beyond what the
//! peer itself spends.

use std::time::Duration;

use mpquic_sched_core::{Side, TransportErrorCode};

use super::forge::{self, Forgery, Outcome, Packet};
use super::pair::Pair;
use crate::frame::Frame;
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
