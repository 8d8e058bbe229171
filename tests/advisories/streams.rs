//! What streams make an endpoint hold, and the credit that they use.

use std::time::Duration;

use mpquic_hostile::meter;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, Side, StreamId};

use super::*;

/// quinn RUSTSEC-2026-0341: many small pieces with gaps between them, on as many streams as may be opened. Of what is held, each
/// byte is paid for by credit: up to the end of the newest piece (RFC 9000 section 4.1).
#[test]
fn rustsec_2026_0341_pieces_with_gaps() {
    for streams in [1, 10, 100] {
        let mut duel = server();
        duel.victim.keep_events = false;
        let before = meter::reading().held;
        let mut accounted = 0u64;
        'pieces: for piece in 0..4000 {
            // The first byte is withheld; three are sent, one is not.
            for id in 0..streams {
                duel.send(&[stream(4 * id, 1 + 4 * piece, &[7; 3])]);
                accounted += 4;
                if !duel.alive() || accounted > 600_000 {
                    break 'pieces;
                }
            }
        }
        let held = (meter::reading().held - before).max(0) as f64;
        let what = format!("bytes held per accounted byte, {streams} streams");
        figure("RUSTSEC-2026-0341", &what, held / accounted as f64, 4.0);
    }
}

/// The same, read without order: pieces below what was received make no new pieces and use no credit twice.
#[test]
fn rustsec_2026_0341_overlaps_below_what_was_received() {
    let mut duel = server();
    duel.victim.keep_events = false;
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    duel.send(&[stream(0, 40_000, &[7; 1000])]);
    duel.victim.run_app(|connection| {
        let accepted = connection.streams().accept(Dir::Bi);
        assert_eq!(accepted, Some(id));
    });
    let before = meter::reading().held;
    for at in 0..20_000u64 {
        // Two bytes, of which the second one is known.
        duel.send(&[stream(0, 39_999 - at, &[7; 2])]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as f64;
    let what = "bytes held per byte, descending and overlapping";
    figure("RUSTSEC-2026-0341", what, held / 20_000.0, 4.0);
}

/// quinn's repair of the same refused honest peers: small pieces in order are whole, however many, and nobody reads them.
#[test]
fn rustsec_2026_0341_honest_small_pieces() {
    let mut duel = server();
    for piece in 0..8192u64 {
        duel.send(&[stream(0, 32 * piece, &[7; 32])]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let read = duel.victim.run_app(|connection| {
        let id = connection.streams().accept(Dir::Bi).unwrap();
        let (mut buf, mut read) = ([0; 4096], 0);
        while let Ok(Some(size)) = connection.recv_stream(id).read(&mut buf) {
            read += size;
        }
        read
    });
    assert_eq!(read, 8192 * 32);
}

/// OpenSSL CVE-2026-54873: pieces in reversed order. What one costs does not grow with those that are there.
#[test]
fn cve_2026_54873_reversed_pieces() {
    let allocations = |pieces: u64| {
        let mut duel = server();
        duel.victim.keep_events = false;
        let before = meter::reading().allocations;
        for piece in 0..pieces {
            duel.send(&[stream(0, 2 * (pieces - piece), &[7])]);
            assert!(duel.alive(), "{:?}", duel.reason());
        }
        (meter::reading().allocations - before) as f64 / pieces as f64
    };
    let (few, many) = (allocations(100), allocations(4000));
    let what = "allocations per piece, 4,000 for 100";
    figure("CVE-2026-54873", what, many, few + 1.0);
}

/// OpenSSL CVE-2026-75804: the sum over all streams is bounded by MAX_DATA (RFC 9000 section 4.1).
#[test]
fn cve_2026_75804_sum_of_streams() {
    let mut duel = server();
    for id in 0..4 {
        // A megabyte each, of which the server allows one stream that much, and the connection less than four.
        duel.send(&[stream(4 * id, (1 << 20) - 1, &[7])]);
    }
    assert_eq!(duel.error(), FLOW_CONTROL_ERROR);
}

/// quinn 0.11.19: a frame that only names a stream with a large number does not make all below it (RFC 9000 section 3.2, 4.6).
#[test]
fn quinn_0_11_19_frames_that_name_a_stream_of_2_to_40() {
    let id = 1 << 40;
    for frame in [
        Frame::MaxStreamData { id, max: 1 },
        Frame::StreamDataBlocked { id, max: 1 },
        Frame::StopSending { id, code: 1 },
        Frame::ResetStream {
            id,
            code: 1,
            size: 0,
        },
        stream(id, 0, &[7]),
    ] {
        let mut duel = server();
        let before = meter::reading().held;
        duel.send(std::slice::from_ref(&frame));
        assert_eq!(duel.error(), STREAM_LIMIT_ERROR, "{frame:?}");
        let held = (meter::reading().held - before).max(0) as f64;
        figure(
            "quinn 0.11.19",
            "bytes held for a stream of 2^40",
            held,
            65_536.0,
        );
    }
    // And of streams that only the server may open (section 19.4, 19.5, 19.10).
    for frame in [
        Frame::MaxStreamData { id: 1, max: 1 },
        Frame::StopSending { id: 1, code: 1 },
        stream(3, 0, &[7]),
    ] {
        let mut duel = server();
        duel.send(std::slice::from_ref(&frame));
        assert_eq!(duel.error(), STREAM_STATE_ERROR, "{frame:?}");
    }
}

/// s2n-quic 0.91: what arrives of streams that the application has stopped gives its credit back, or others starve (RFC 9000 section
/// 3.5: "data is not delivered", its credit is consumed).
#[test]
fn s2n_quic_0_91_credit_of_stopped_streams() {
    let mut duel = server();
    let mut limit = 0;
    for id in 0..50u64 {
        duel.send(&[stream(4 * id, 0, &[7])]);
        duel.victim.run_app(|connection| {
            let id = connection.streams().accept(Dir::Bi).unwrap();
            connection.recv_stream(id).stop(1u32.into()).unwrap();
        });
        // It sends on for a while: 50 kB each, 2.5 MB in all, more than the connection's first window.
        for part in 0..50u64 {
            duel.send(&[stream(4 * id, 1 + 1000 * part, &[7; 1000])]);
        }
        duel.settle();
        for frame in duel.frames() {
            if let Frame::MaxData(max) = frame {
                limit = limit.max(max);
            }
        }
        assert!(duel.alive(), "stream {id}: {:?}", duel.reason());
    }
    duel.send(&[stream(4 * 50, 0, &[7; 1000])]);
    assert!(duel.alive(), "{:?}", duel.reason());
    let read = duel.victim.run_app(|connection| {
        let id = connection.streams().accept(Dir::Bi).unwrap();
        connection.recv_stream(id).read(&mut [0; 2000])
    });
    assert_eq!(read, Ok(Some(1000)));
}

/// quicly CVE-2026-44433: a byte at the largest offset gains no credit, and nothing lies beyond it (RFC 9000 section 19.8).
#[test]
fn cve_2026_44433_the_largest_offset() {
    for (offset, expected) in [
        ((1 << 62) - 2, [FLOW_CONTROL_ERROR, FRAME_ENCODING_ERROR]),
        ((1 << 62) - 1, [FRAME_ENCODING_ERROR, FLOW_CONTROL_ERROR]),
    ] {
        let mut duel = server();
        duel.send(&[stream(0, offset, &[7])]);
        let error = duel.error();
        assert!(expected.contains(&error), "{offset}: {error:?}");
    }
}

/// Q3Fuzz 2: RESET_STREAM with a final size above 2^62 - 1 cannot be written; the largest is beyond all credit (RFC 9000 section 4.5).
#[test]
fn q3fuzz_02_final_sizes() {
    let reset = |size| Frame::ResetStream {
        id: 0,
        code: 1,
        size,
    };
    let mut duel = server();
    duel.send(&[reset((1 << 62) - 1)]);
    assert_eq!(duel.error(), FLOW_CONTROL_ERROR);
    // Below what was sent, and two that differ.
    for frames in [
        vec![stream(0, 0, &[7; 100]), reset(99)],
        vec![reset(10), reset(11)],
    ] {
        let mut duel = server();
        duel.send(&frames);
        assert_eq!(duel.error(), FINAL_SIZE_ERROR, "{frames:?}");
    }
}

/// OpenSSL CVE-2026-124709: a stream that is reset before anybody has accepted it leaves nothing behind when it is refused.
#[test]
fn cve_2026_124709_streams_reset_before_they_are_accepted() {
    let mut duel = server();
    duel.victim.keep_events = false;
    let mut held = Vec::new();
    let (mut next, mut allowed) = (0u64, 100u64);
    for round in 0..2000 {
        let mut frames = Vec::new();
        while next < allowed && frames.len() < 20 {
            frames.push(stream(4 * next, 0, &[7]));
            frames.push(Frame::ResetStream {
                id: 4 * next,
                code: 1,
                size: 1,
            });
            next += 1;
        }
        frames.push(Frame::Ping);
        duel.send(&frames);
        duel.victim.run_app(|connection| {
            while let Some(id) = connection.streams().accept(Dir::Bi) {
                let _ = connection.send_stream(id).reset(1u32.into());
                let _ = connection.recv_stream(id).stop(1u32.into());
            }
        });
        duel.victim.flush();
        duel.victim.advance(Duration::from_millis(2));
        let came = duel.collect();
        for (_, opened) in &came {
            for frame in &opened.frames {
                if let Frame::MaxStreams { uni: false, max } = frame {
                    allowed = allowed.max(*max);
                }
            }
        }
        duel.answer(&came);
        if round == 499 || round == 1999 {
            held.push(meter::reading().held);
        }
    }
    assert!(duel.alive() && next > 5000, "{next}: {:?}", duel.reason());
    let grown = (held[1] - held[0]).max(0) as f64;
    let what = "bytes held more after 2,000 rounds than after 500";
    figure("CVE-2026-124709", what, grown, 65_536.0);
}
