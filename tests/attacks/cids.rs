//! Attacks by connection IDs: floods of new and retired ones, exhaustion, rotation, one ID for several addresses.

use std::collections::{BTreeMap, BTreeSet};

use mpquic_hostile::duel::{Duel, from};
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::CID_LEN;
use mpquic_hostile::victim::client_address;
use mpquic_hostile::wire::Frame;

use super::*;

fn new_cid(duel: &Duel, path: Option<u64>, seq: u64, retire_prior_to: u64) -> Frame {
    let mut token = [3; 16];
    token[..8].copy_from_slice(&seq.to_be_bytes());
    token[8] = path.unwrap_or(0) as u8;
    Frame::NewCid {
        path,
        seq,
        retire_prior_to,
        cid: duel.peer.own_cid(path.unwrap_or(0) as u32, seq as u32),
        token,
    }
}

/// CVE-2024-22189: Retire Prior To rises with every frame, and no retirement is ever acknowledged.
#[test]
fn new_connection_id_flood() {
    for path in [None, Some(0), Some(1)] {
        let mut duel = multipath();
        if path == Some(1) {
            duel.open_path(1);
        }
        let before = meter::reading().held;
        meter::reset_peak();
        let mut seq = 1;
        while duel.alive() && seq < 2000 {
            seq += 1;
            let frame = new_cid(&duel, path, seq, seq);
            duel.send(&[frame]);
        }
        let error = duel.error();
        assert!(
            [CONNECTION_ID_LIMIT_ERROR, PROTOCOL_VIOLATION].contains(&error),
            "{path:?}: {error:?}"
        );
        figure(
            "NEW_CONNECTION_ID flood",
            &format!("frames until the end, path {path:?}"),
            seq,
            400,
        );
        growth(
            "NEW_CONNECTION_ID flood",
            "bytes held at most",
            before,
            meter::reading().peak,
            131_072,
        );
    }
    // Beyond the limit of active ones without retiring any.
    for path in [None, Some(0), Some(3)] {
        let mut duel = multipath();
        for seq in 1..40 {
            let frame = new_cid(&duel, path, seq, 0);
            duel.send(&[frame]);
        }
        assert_eq!(duel.error(), CONNECTION_ID_LIMIT_ERROR, "{path:?}");
    }
}

/// The cap on retirements that wait holds for the connection, not per path.
#[test]
fn retire_flood_on_all_paths() {
    let mut duel = multipath();
    let before = meter::reading().held;
    meter::reset_peak();
    let mut frames = 0;
    'flood: for seq in 1..400 {
        for path in 0..8 {
            let frame = new_cid(&duel, Some(path), seq, seq);
            duel.send(&[frame]);
            frames += 1;
            if !duel.alive() {
                break 'flood;
            }
            assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
        }
    }
    assert_eq!(duel.error(), CONNECTION_ID_LIMIT_ERROR);
    figure(
        "retire flood x paths",
        "frames on 8 paths until the end",
        frames,
        400,
    );
    growth(
        "retire flood x paths",
        "bytes held at most",
        before,
        meter::reading().peak,
        131_072,
    );
}

/// Connection IDs for every path ID that is allowed, and one beyond.
#[test]
fn connection_ids_for_every_path() {
    let mut duel = multipath();
    let before = meter::reading().held;
    let limit = duel.peer.their_max_path_id.unwrap();
    for path in 1..=limit {
        for seq in 0..5 {
            let frame = new_cid(&duel, Some(path), seq, 0);
            duel.send(&[frame]);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    growth(
        "PATH_NEW_CONNECTION_ID everywhere",
        "bytes held for all that is allowed",
        before,
        meter::reading().held,
        65_536,
    );
    let frame = new_cid(&duel, Some(limit + 1), 0, 0);
    duel.send(&[frame]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// RETIRE_CONNECTION_ID of all that is issued, without end: each costs what one costs.
#[test]
fn retire_connection_id_flood() {
    for path in [0u32, 1] {
        let mut duel = multipath();
        duel.open_path(1);
        let issue: Vec<_> = (1..4).map(|seq| duel.peer.issue(0, seq)).collect();
        duel.send(&issue);
        duel.settle();
        let held = meter::reading().held;
        let sent = duel.victim.sent_in_all().bytes;
        let mut received = 0;
        let mut retired = 0u64;
        // Under the connection ID with the highest number, all lower ones are retired, over and over.
        for _ in 0..2000 {
            let Some(cids) = duel.peer.their_cids.get_mut(&path) else {
                break;
            };
            if cids.len() < 2 {
                duel.victim.advance(20 * mpquic_hostile::duel::DELAY);
                let came = duel.collect();
                duel.answer(&came);
                continue;
            }
            let oldest = cids.remove(0);
            retired += 1;
            let frames = [Frame::RetireCid {
                path: Some(path.into()),
                seq: oldest.seq,
            }];
            duel.send_on(if path == 0 { 1 } else { 0 }, &frames);
            received += 40;
            let came = duel.collect();
            duel.answer(&came);
            received += 40;
            assert!(duel.alive(), "{:?}", duel.error());
        }
        assert!(retired > 500);
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
        let out = duel.victim.sent_in_all().bytes - sent;
        figure(
            "RETIRE_CONNECTION_ID flood",
            &format!("bytes sent per byte received, path {path}"),
            out / received,
            3,
        );
        growth(
            "RETIRE_CONNECTION_ID flood",
            "bytes held after 2,000",
            held,
            meter::reading().held,
            65_536,
        );
    }
    // One that was never issued, and the one that the packet itself used (RFC 9000 section 19.16).
    for (seq, name) in [(99, "never issued"), (0, "in use by its own packet")] {
        let mut duel = multipath();
        duel.peer.their_cids.get_mut(&0).unwrap().truncate(1);
        duel.send(&[Frame::RetireCid { path: None, seq }]);
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{name}");
    }
}

/// GHSA-rfhg-rjfp-9q8q: the peer moves, and has issued no spare connection ID.
#[test]
fn moves_without_spare_connection_ids() {
    let mut answered = 0;
    for step in 1..=10u32 {
        let mut duel = single_path();
        for place in 1..=step {
            duel.send_from(from(client_address(place)), 0, &[Frame::Ping]);
            duel.victim.advance(SECOND / 10);
        }
        let came = duel.collect();
        answered += u64::from(!came.is_empty());
        duel.victim.advance(120 * SECOND);
        assert_eq!(duel.victim.endpoint.open_connections(), 0, "it ends");
    }
    figure(
        "CID exhaustion on migration",
        "connections that fall silent, of 10",
        10 - answered,
        0,
    );
}

/// RFC 9000 section 9.5: whoever watches two networks must not be able to tell that a client moved from one to the other.
#[test]
fn one_connection_id_for_each_address() {
    let mut duel = single_path();
    let mut used: BTreeMap<Vec<u8>, BTreeSet<_>> = BTreeMap::new();
    let spare = [duel.peer.issue(0, 1), duel.peer.issue(0, 2)];
    duel.send(&spare);
    duel.settle();
    for place in 1..=20u32 {
        let here = from(client_address(place));
        let elsewhere = from(client_address(100 + place));
        let issue = duel.peer.issue(0, 2 + place);
        duel.send_from(here, 0, &[issue, Frame::Padding(1100)]);
        // Before it is known that the peer is there, it tries another address.
        duel.send_from(
            elsewhere,
            0,
            &[Frame::PathChallenge([9; 8]), Frame::Padding(1150)],
        );
        for _ in 0..50 {
            duel.victim.advance(SECOND / 10);
            for sent in &duel.victim.sent {
                let id = sent.data[1..=CID_LEN].to_vec();
                used.entry(id).or_default().insert(sent.tuple.remote);
            }
            let came = duel.collect();
            let challenges = came.iter().flat_map(|(tuple, opened)| {
                let frames = opened.frames.iter();
                frames.filter_map(move |frame| match frame {
                    Frame::PathChallenge(data) if tuple.remote == here.remote => Some(*data),
                    _ => None,
                })
            });
            for data in challenges {
                duel.send_from(here, 0, &[Frame::PathResponse(data), Frame::Padding(1150)]);
            }
            let acks = duel.peer.take_acks();
            duel.send_from(here, 0, &acks);
        }
        assert!(duel.alive(), "{:?} at {place}", duel.reason());
    }
    let places: BTreeSet<_> = used.values().flatten().collect();
    assert!(places.len() > 20, "it was answered everywhere");
    figure(
        "one connection ID for each address",
        "IDs that went to several addresses, of 20 moves",
        used.values().filter(|places| places.len() > 1).count() as u64,
        0,
    );
}

/// RFC 9000 section 5.1.1: the connection ID of the preferred address has sequence number 1, whether or not the address
/// is of use.
#[test]
fn connection_id_of_the_preferred_address() {
    let preferred = || {
        let mut params = Params::generous(Some(7));
        params.set_bytes(id::PREFERRED_ADDRESS, &preferred_address([127, 0, 0, 1]));
        Duel::established_client(quiet(), params)
    };
    let mut duel = preferred();
    let other = new_cid(&duel, None, 1, 0);
    duel.send(&[other]);
    assert_eq!(
        duel.error(),
        PROTOCOL_VIOLATION,
        "another ID of that number"
    );
    // It counts towards the limit: with that of the handshake there is room for three.
    let mut duel = preferred();
    for seq in 2..=4 {
        let more = new_cid(&duel, None, seq, 0);
        duel.send(&[more]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let more = new_cid(&duel, None, 5, 0);
    duel.send(&[more]);
    assert_eq!(duel.error(), CONNECTION_ID_LIMIT_ERROR);
}

/// Rotations without end, with losses: state stays bounded and the newest wins (noq 653d6ee2).
#[test]
fn rotations_with_losses() {
    let mut duel = multipath();
    duel.open_path(1);
    let held = meter::reading().held;
    for seq in 2..2000u64 {
        for path in [0, 1] {
            // Every third frame comes after its successor.
            if seq % 3 != path {
                let frame = new_cid(&duel, Some(path), seq, seq - 1);
                duel.send(&[frame]);
            }
            if (seq - 1) % 3 == path && seq > 2 {
                let frame = new_cid(&duel, Some(path), seq - 1, seq - 2);
                duel.send(&[frame]);
            }
        }
        if seq % 5 != 0 {
            let came = duel.collect();
            duel.answer(&came);
        }
        duel.victim.advance(SECOND / 50);
        if !duel.alive() {
            panic!("{:?} at {seq}", duel.reason());
        }
    }
    duel.settle();
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    growth(
        "CID rotation",
        "bytes held after 2,000 rotations",
        held,
        meter::reading().held,
        32_768,
    );
}
