//! Connection IDs, their retirement, and the resets that name them.

use mpquic_hostile::meter;
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

/// How many RETIRE_CONNECTION_ID frames came.
fn retirements(duel: &mut Duel) -> usize {
    duel.victim.flush();
    let frames = duel.frames();
    let is_one = |frame: &&Frame| matches!(frame, Frame::RetireCid { .. });
    frames.iter().filter(is_one).count()
}

/// OpenSSL CVE-2026-107494: a connection ID below Retire Prior To that is repeated is retired once (RFC 9000 section 19.15: a
/// retirement is sent "unless it has already done so for that sequence number").
#[test]
fn cve_2026_107494_repeated_new_connection_ids() {
    for path in [None, Some(0)] {
        let mut duel = server();
        let first = new_cid(&duel, path, 6, 6);
        duel.send(&[first]);
        duel.settle();
        retirements(&mut duel);
        let before = meter::reading().held;
        let old = new_cid(&duel, path, 3, 0);
        let mut sent = 0;
        for round in 0..10_000 {
            duel.send(std::slice::from_ref(&old));
            if round % 100 == 0 {
                // What is sent is acknowledged.
                sent += retirements(&mut duel);
                duel.settle();
            }
        }
        assert!(duel.alive(), "{path:?}: {:?}", duel.reason());
        let held = (meter::reading().held - before).max(0) as f64;
        let what = format!("bytes held after 10,000 duplicates, path {path:?}");
        figure("CVE-2026-107494", &what, held, 65_536.0);
        let sent = (sent + retirements(&mut duel)) as f64;
        let what = format!("retirements for 10,000 duplicates, path {path:?}");
        figure("CVE-2026-107494", &what, sent, 1.0);
    }
}

/// quinn GHSA-hmxj-32vh-65vr: retired one at a time, over all paths, they escape no cap: whoever never acknowledges the retirements is
/// closed.
#[test]
fn ghsa_hmxj_32vh_65vr_retired_one_by_one() {
    let mut duel = server();
    let before = meter::reading().held;
    meter::reset_peak();
    'all: for seq in 1..1000 {
        for path in 0..8 {
            let frame = new_cid(&duel, Some(path), seq, seq);
            duel.send(&[frame]);
            if !duel.alive() {
                break 'all;
            }
        }
    }
    assert_eq!(duel.error(), CONNECTION_ID_LIMIT_ERROR);
    let held = (meter::reading().peak - before).max(0) as f64;
    let what = "bytes held at most, eight paths";
    figure("GHSA-hmxj-32vh-65vr", what, held, 131_072.0);
}

/// Q3Fuzz 3: a length that is not that of the connection ID (RFC 9000 section 19.15).
#[test]
fn q3fuzz_03_lengths_that_lie() {
    for length in [0, 21, 63] {
        let mut duel = server();
        // Sequence number 1, nothing to retire, then the length and far fewer bytes.
        let mut bytes = vec![0x18, 1, 0, length];
        bytes.extend_from_slice(&[5; 24]);
        duel.send(&[Frame::Raw(bytes)]);
        assert_eq!(duel.error(), FRAME_ENCODING_ERROR, "{length}");
    }
}

/// Q3Fuzz 8: RETIRE_CONNECTION_ID of the ID that the packet itself was sent to, again and again (RFC 9000 section 19.16).
#[test]
fn q3fuzz_08_retires_what_it_uses() {
    let mut duel = server();
    duel.send(&[Frame::RetireCid { path: None, seq: 0 }]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
    // And of one that was never issued.
    let mut duel = server();
    duel.send(&[Frame::RetireCid {
        path: None,
        seq: 1 << 40,
    }]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// quicly CVE-2026-44434: a datagram that ends in zeros is no stateless reset, on no path: a connection ID without a token has none (RFC
/// 9000 section 10.3.1).
#[test]
fn cve_2026_44434_resets_with_tokens_that_nobody_gave() {
    let mut duel = server();
    duel.open_path(1);
    for path in 0..2 {
        for fill in [0, 1, 0xff] {
            let mut datagram = vec![0x40 | (fill & 0x3f); 60];
            datagram[44..].fill(fill);
            let tuple = duel.tuple(path);
            duel.victim.deliver(tuple, None, &datagram);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
}
