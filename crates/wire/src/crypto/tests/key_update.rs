//! Key updates: by either side, by both, reordered, duplicated, forged, and at the AEAD limits.

use mpquic_sched_core::TransportErrorCode;

use super::*;

/// The client's keys, the server's, and a moment.
fn confirmed() -> (OneRttKeys, OneRttKeys, Instant) {
    let (client, server) = aes();
    (client, server, Instant::now())
}

/// An acknowledged packet each way, so that both may update.
fn exchange(a: &mut OneRttKeys, b: &mut OneRttKeys, pn: u64, now: Instant) {
    let packet = seal(a, Some(0), pn);
    assert_eq!(open(b, Some(0), pn, &packet, now), Ok(false));
    let packet = seal(b, Some(0), pn);
    assert_eq!(open(a, Some(0), pn, &packet, now), Ok(false));
    a.on_acked(Some(PathId(0)), pn, now, PTO);
    b.on_acked(Some(PathId(0)), pn, now, PTO);
}

fn code(error: Result<bool, OpenError>) -> TransportErrorCode {
    match error {
        Err(OpenError::Transport(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_of_path_3_is_not_one_of_path_4() {
    for suite in [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let (mut client, mut server) = handshake(suite);
        let now = Instant::now();
        let packet = seal(&mut client, Some(3), 54321);
        for path in [Some(4), Some(0), None] {
            assert_eq!(
                open(&mut server, path, 54321, &packet, now),
                Err(OpenError::Decrypt)
            );
        }
        assert_eq!(open(&mut server, Some(3), 54321, &packet, now), Ok(false));
        // Without multipath the nonce is that of path 0 (RFC 10069, Nonce Calculation).
        let plain = seal(&mut server, None, 9);
        assert_eq!(open(&mut client, Some(0), 9, &plain, now), Ok(false));
        assert_eq!(open(&mut client, None, 9, &plain, now), Ok(false));
    }
}

#[test]
fn every_corrupted_byte_is_noticed() {
    let (mut client, mut server, now) = confirmed();
    let packet = seal(&mut client, Some(1), 5);
    for at in 0..packet.len() {
        let mut bad = packet.clone();
        bad[at] ^= 0x20;
        let mut copy = bad.clone();
        let (first, _, len) = unprotect_header(&mut copy, 9, server.remote_header()).unwrap();
        let (header, payload) = copy.split_at_mut(9 + len);
        let phase = key_phase(first);
        let opened = server.open(Some(PathId(1)), 5, phase, header, payload, now, PTO);
        assert_eq!(opened, Err(OpenError::Decrypt), "{at}");
    }
    assert_eq!(server.updates(), 0);
    assert_eq!(open(&mut server, Some(1), 5, &packet, now), Ok(false));
}

//= specs/rfc9001.txt#section-6.1
//= type=test
//# An endpoint MUST NOT initiate a subsequent key update unless it has received an acknowledgment
//# for a packet that was sent protected with keys from the current key phase.
#[test]
fn an_update_needs_an_acknowledgment() {
    let (mut client, mut server, now) = confirmed();
    assert!(!client.initiate_update(now), "nothing was acknowledged");
    let packet = seal(&mut client, Some(0), 7);
    open(&mut server, Some(0), 7, &packet, now).unwrap();
    client.on_acked(Some(PathId(0)), 6, now, PTO);
    client.on_acked(Some(PathId(1)), 7, now, PTO);
    assert!(!client.initiate_update(now), "not of this packet");
    client.on_acked(Some(PathId(0)), 7, now, PTO);
    assert!(client.initiate_update(now));
    assert!(!client.initiate_update(now));
}

#[test]
fn update_by_one_side() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    assert!(client.initiate_update(now));
    assert!(client.phase());
    //= specs/rfc9001.txt#section-6.1
    //= type=test
    //# An endpoint MUST retain old keys until it has successfully unprotected a packet sent using
    //# the new keys.
    // The server's old packets still arrive, on any path, for as long as it has not answered.
    let old = seal(&mut server, Some(2), 0);
    let late = now + 100 * PTO;
    assert_eq!(open(&mut client, Some(2), 0, &old, late), Ok(false));
    assert_eq!(client.timer(), None);

    let new = seal(&mut client, Some(0), 1);
    assert_eq!(open(&mut server, Some(0), 1, &new, now), Ok(true));
    //= specs/rfc9001.txt#section-6.2
    //= type=test
    //# The endpoint MUST update its send keys to the corresponding key phase in response, as
    //# described in Section 6.1.
    assert!(server.phase());
    assert_eq!((server.updates(), client.updates()), (1, 1));

    let answer = seal(&mut server, Some(0), 1);
    assert_eq!(open(&mut client, Some(0), 1, &answer, now), Ok(false));
    assert_eq!(client.updates(), 1);
    assert_eq!(client.timer(), Some(now + 3 * PTO));

    // Not again before three PTOs after the acknowledgment.
    client.on_acked(Some(PathId(0)), 1, now, PTO);
    //= specs/rfc10069-draft.md#multipath-key-update
    //= type=test
    //# When this specification is used, endpoints SHOULD wait for at least three times the largest
    //# Probe Timeout (PTO) (see {{Section 6.2 of QUIC-RECOVERY}}) among all the paths before
    //# initiating a new key update after receiving an acknowledgment that confirms the receipt of
    //# the previous key update.
    //= specs/rfc9001.txt#section-6.5
    //= type=test
    //# Endpoints SHOULD wait three times the PTO before initiating a key update after receiving an
    //# acknowledgment that confirms that the previous key update was received.
    assert!(!client.initiate_update(now + 3 * PTO - Duration::from_nanos(1)));
    assert!(client.initiate_update(now + 3 * PTO));
    assert!(!client.phase());
}

/// neqo d8403dae: the packet that brought the update, and others of its phase, come again.
#[test]
fn duplicates_of_the_new_phase_update_once() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    client.initiate_update(now);
    let packets: Vec<_> = (1..4)
        .map(|pn| (pn, seal(&mut client, Some(0), pn)))
        .collect();
    let elsewhere = seal(&mut client, Some(1), 0);
    let mut updates = 0;
    for round in 0..4 {
        let now = now + round * 2 * PTO;
        for (pn, packet) in packets.iter().rev() {
            updates += u32::from(open(&mut server, Some(0), *pn, packet, now).unwrap());
        }
        updates += u32::from(open(&mut server, Some(1), 0, &elsewhere, now).unwrap());
    }
    assert_eq!((updates, server.updates()), (1, 1));
}

//= specs/rfc9001.txt#section-6.5
//= type=test
//# An endpoint SHOULD retain old read keys for no more than three times the PTO after having
//# received a packet protected using the new keys.
#[test]
fn old_packets_are_opened_for_three_ptos() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let old: Vec<_> = (1..5).map(|pn| seal(&mut client, Some(0), pn)).collect();
    let old_elsewhere = seal(&mut client, Some(1), 77);
    client.initiate_update(now);
    let new = seal(&mut client, Some(0), 5);
    assert_eq!(open(&mut server, Some(0), 5, &new, now), Ok(true));
    let expires = now + 3 * PTO;
    assert_eq!(server.timer(), Some(expires));
    let before = expires - Duration::from_nanos(1);
    assert_eq!(open(&mut server, Some(0), 4, &old[3], now), Ok(false));
    // A higher number than any of the new phase, but of another path.
    assert_eq!(
        open(&mut server, Some(1), 77, &old_elsewhere, before),
        Ok(false)
    );
    assert_eq!(open(&mut server, Some(0), 1, &old[0], before), Ok(false));
    let too_late = open(&mut server, Some(0), 2, &old[1], expires);
    assert_eq!(too_late, Err(OpenError::Decrypt));
    assert_eq!(server.timer(), None);
    assert_eq!(server.updates(), 1);
}

/// A packet of the old keys that is numbered beyond one of the new: nobody friendly sends it.
//= specs/rfc9001.txt#section-5.5
//= type=test
//# Once an endpoint successfully receives a packet with a given packet number, it MUST discard all
//# packets in the same packet number space with higher packet numbers if they cannot be
//# successfully unprotected with either the same key, or -- if there is a key update -- a
//# subsequent packet protection key; see Section 6.
#[test]
fn old_keys_open_no_packet_of_a_higher_number() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let old = seal(&mut client, Some(0), 3);
    client.initiate_update(now);
    let packet = seal(&mut client, Some(0), 2);
    assert_eq!(open(&mut server, Some(0), 2, &packet, now), Ok(true));
    assert_eq!(
        open(&mut server, Some(0), 3, &old, now),
        Err(OpenError::Decrypt)
    );
    let packet = seal(&mut client, Some(0), 4);
    assert_eq!(open(&mut server, Some(0), 4, &packet, now), Ok(false));
    assert_eq!(server.updates(), 1);
}

#[test]
fn both_sides_update_at_once() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let old = [seal(&mut client, Some(0), 1), seal(&mut server, Some(0), 1)];
    assert!(client.initiate_update(now) && server.initiate_update(now));
    let new = [seal(&mut client, Some(0), 2), seal(&mut server, Some(0), 2)];
    assert_eq!(open(&mut server, Some(0), 2, &new[0], now), Ok(false));
    assert_eq!(open(&mut client, Some(0), 2, &new[1], now), Ok(false));
    assert_eq!(open(&mut server, Some(0), 1, &old[0], now), Ok(false));
    assert_eq!(open(&mut client, Some(0), 1, &old[1], now), Ok(false));
    assert_eq!((client.updates(), server.updates()), (1, 1));
}

/// A second update while the keys before the first are still kept: told from a late packet by its
/// number, path by path.
#[test]
fn a_quick_second_update() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let old = seal(&mut client, Some(0), 1);
    client.initiate_update(now);
    let packet = seal(&mut client, Some(0), 2);
    assert_eq!(open(&mut server, Some(0), 2, &packet, now), Ok(true));
    let answer = seal(&mut server, Some(0), 1);
    assert_eq!(open(&mut client, Some(0), 1, &answer, now), Ok(false));
    // The client believes in shorter PTOs than the server does.
    client.on_acked(Some(PathId(0)), 2, now, Duration::ZERO);
    let last = seal(&mut client, Some(0), 3);
    assert!(client.initiate_update(now));
    let packet = seal(&mut client, Some(0), 4);
    // Of the phase of two updates ago, but with the same bit as the next: opened as the older.
    assert_eq!(open(&mut server, Some(0), 1, &old, now), Ok(false));
    assert_eq!(open(&mut server, Some(0), 4, &packet, now), Ok(true));
    assert_eq!(server.updates(), 2);
    assert_eq!(open(&mut server, Some(0), 3, &last, now), Ok(false));
    // By now that one's keys are gone.
    assert_eq!(
        open(&mut server, Some(0), 1, &old, now),
        Err(OpenError::Decrypt)
    );
    assert_eq!(server.updates(), 2);
}

/// The same at the side that made the first update: what it received since then tells.
#[test]
fn a_quick_second_update_by_the_other_side() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let old = [seal(&mut server, Some(0), 1), seal(&mut server, Some(1), 9)];
    client.initiate_update(now);
    let packet = seal(&mut client, Some(0), 1);
    assert_eq!(open(&mut server, Some(0), 1, &packet, now), Ok(true));
    let answers = [seal(&mut server, Some(0), 2), seal(&mut server, Some(0), 3)];
    assert_eq!(open(&mut client, Some(0), 3, &answers[1], now), Ok(false));
    assert_eq!(open(&mut client, Some(0), 2, &answers[0], now), Ok(false));
    server.on_acked(Some(PathId(0)), 2, now, Duration::ZERO);
    assert!(server.initiate_update(now));
    let second = seal(&mut server, Some(0), 4);
    assert_eq!(open(&mut client, Some(0), 1, &old[0], now), Ok(false));
    // Nothing of the current phase came on path 1, where 9 says nothing.
    assert_eq!(open(&mut client, Some(1), 9, &old[1], now), Ok(false));
    assert_eq!(open(&mut client, Some(0), 4, &second, now), Ok(true));
    assert_eq!((client.updates(), server.updates()), (2, 2));
}

/// RFC 9001 section 6.2: an update before anything acknowledged the last one.
#[test]
fn an_unconfirmed_second_update_is_an_error() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    client.initiate_update(now);
    let packet = seal(&mut client, Some(0), 1);
    assert_eq!(open(&mut server, Some(0), 1, &packet, now), Ok(true));
    // No answer from the server; the client pretends that there was one.
    client.on_acked(Some(PathId(0)), 1, now, Duration::ZERO);
    assert!(client.initiate_update(now));
    let packet = seal(&mut client, Some(0), 2);
    let error = open(&mut server, Some(0), 2, &packet, now);
    assert_eq!(code(error), TransportErrorCode::KEY_UPDATE_ERROR);
}

/// A client's first packets and its first update may arrive before the server has sent anything with these keys.
#[test]
fn a_first_update_before_anything_was_sent_is_taken() {
    let (mut client, mut server, now) = confirmed();
    let first = seal(&mut client, Some(0), 0);
    // The client pretends that it was acknowledged.
    client.on_acked(Some(PathId(0)), 0, now, Duration::ZERO);
    assert!(client.initiate_update(now));
    let packet = seal(&mut client, Some(0), 1);
    assert_eq!(open(&mut server, Some(0), 1, &packet, now), Ok(true));
    assert_eq!(open(&mut server, Some(0), 0, &first, now), Ok(false));
    let answer = seal(&mut server, Some(0), 0);
    assert_eq!(open(&mut client, Some(0), 0, &answer, now), Ok(false));
    assert_eq!((client.updates(), server.updates()), (1, 1));
}

/// A flipped key phase bit must neither update nor cost the connection.
//= specs/rfc9001.txt#section-5.5
//= type=test
//# Similarly, a packet that appears to trigger a key update but cannot be unprotected successfully
//# MUST be discarded.
#[test]
fn a_forged_key_phase_changes_nothing() {
    let (mut client, mut server, now) = confirmed();
    exchange(&mut client, &mut server, 0, now);
    let mut forged = seal(&mut client, Some(0), 1);
    forged[0] ^= crate::packet::KEY_PHASE_BIT;
    for _ in 0..100 {
        assert_eq!(
            open(&mut server, Some(0), 1, &forged, now),
            Err(OpenError::Decrypt)
        );
    }
    assert_eq!((server.updates(), server.phase()), (0, false));
    let packet = seal(&mut client, Some(0), 1);
    assert_eq!(open(&mut server, Some(0), 1, &packet, now), Ok(false));
}

/// RFC 10069, Cryptographic Handshake and AEAD Nonce: the limit is on packets of all paths together.
//= specs/rfc9001.txt#section-6.6
//= type=test
//# If the total number of encrypted packets with the same key exceeds the confidentiality limit for
//# the selected AEAD, the endpoint MUST stop using those keys.
//= specs/rfc9001.txt#section-6.6
//= type=test
//# Endpoints MUST count the number of encrypted packets for each set of keys.
#[test]
fn sealed_packets_count_over_all_paths() {
    let (mut client, mut server, now) = confirmed();
    client.set_limits(10, u64::MAX);
    exchange(&mut client, &mut server, 0, now);
    for pn in 1..5 {
        assert!(!client.update_due());
        seal(&mut client, Some(pn as u32), pn);
    }
    assert!(client.update_due(), "half of the limit");
    for pn in 5..10 {
        seal(&mut client, Some(pn as u32 % 3), pn);
    }
    let error = client.seal_packet(&mut vec![0x41; 40], 0, 9, 2, Some(PathId(9)), 10);
    let error = error.expect_err("the limit is reached");
    assert_eq!(error.code, TransportErrorCode::AEAD_LIMIT_REACHED);
    // New keys, new count.
    assert!(client.initiate_update(now));
    assert!(!client.update_due());
    let packet = seal(&mut client, Some(0), 11);
    assert_eq!(open(&mut server, Some(0), 11, &packet, now), Ok(true));
}

/// RFC 9001 section 6.6: failures count over the connection, not per key.
//= specs/rfc9001.txt#section-6.6
//= type=test
//# If the total number of received packets that fail authentication within the connection, across
//# all keys, exceeds the integrity limit for the selected AEAD, the endpoint MUST immediately close
//# the connection with a connection error of type AEAD_LIMIT_REACHED and not process any more
//# packets.
#[test]
fn forged_packets_count_over_all_paths_and_keys() {
    let (mut client, mut server, now) = confirmed();
    server.set_limits(u64::MAX, 6);
    exchange(&mut client, &mut server, 0, now);
    let mut forged = seal(&mut client, Some(0), 1);
    *forged.last_mut().unwrap() ^= 1;
    for path in 0..3 {
        let opened = open(&mut server, Some(path), 1, &forged, now);
        assert_eq!(opened, Err(OpenError::Decrypt));
    }
    client.initiate_update(now);
    let packet = seal(&mut client, Some(0), 2);
    assert_eq!(open(&mut server, Some(0), 2, &packet, now), Ok(true));
    for path in 0..3 {
        let opened = open(&mut server, Some(path), 1, &forged, now);
        assert_eq!(opened, Err(OpenError::Decrypt));
    }
    let error = open(&mut server, Some(0), 1, &forged, now);
    assert_eq!(code(error), TransportErrorCode::AEAD_LIMIT_REACHED);
}

/// Random updates, losses, delays within three PTOs and duplicates on three paths: what is opened is
/// what was sent, and both sides stay together.
#[test]
fn random_updates_on_three_paths() {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    for seed in 0..8 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut a, mut b, start) = confirmed();
        let mut now = start;
        let mut pns = [[0u64; 3]; 2];
        // (arrival, to b?, path, pn, packet), for packets delayed by two PTOs at most.
        let mut wire: Vec<(Instant, bool, u32, u64, Vec<u8>)> = Vec::new();
        let mut lost = 0;
        for _ in 0..3000 {
            now += PTO / 8;
            let to_b = rng.random_bool(0.5);
            let path = rng.random_range(0..3u32);
            let pn = &mut pns[usize::from(to_b)][path as usize];
            let packet = seal(if to_b { &mut a } else { &mut b }, Some(path), *pn);
            if rng.random_bool(0.9) {
                let arrival = now + PTO / 10 * rng.random_range(1..20);
                wire.push((arrival, to_b, path, *pn, packet.clone()));
                if rng.random_bool(0.1) {
                    wire.push((arrival + PTO / 5, to_b, path, *pn, packet));
                }
            } else {
                lost += 1;
            }
            *pn += 1;
            if rng.random_bool(0.02) {
                a.initiate_update(now);
            }
            if rng.random_bool(0.02) {
                b.initiate_update(now);
            }
            let mut i = 0;
            while i < wire.len() {
                if wire[i].0 > now {
                    i += 1;
                    continue;
                }
                let (_, to_b, path, pn, packet) = wire.swap_remove(i);
                let (from, to) = if to_b {
                    (&mut a, &mut b)
                } else {
                    (&mut b, &mut a)
                };
                open(to, Some(path), pn, &packet, now).unwrap();
                from.on_acked(Some(PathId(path)), pn, now, PTO);
            }
            assert!(a.updates().abs_diff(b.updates()) <= 1);
        }
        assert!(lost > 0);
        assert!(a.updates() > 20, "{} updates", a.updates());
    }
}
