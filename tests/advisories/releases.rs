//! What release notes of others say was mended, and what their regression tests ask, of connections that are complete.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mpquic_hostile::duel::from;
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::Space;
use mpquic_hostile::victim::client_address;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, PathId, Side, StreamId, WriteError};

use super::*;

/// Frames of the victim that say that it is blocked.
fn blocked(frames: &[Frame]) -> usize {
    let is_one = |frame: &&Frame| {
        matches!(
            frame,
            Frame::DataBlocked(_) | Frame::StreamDataBlocked { .. } | Frame::StreamsBlocked { .. }
        )
    };
    frames.iter().filter(is_one).count()
}

/// quinn GHSA-2hv7-gw8g-gpq5, the other direction: empty datagrams that the application queues and nobody takes count too.
#[test]
fn ghsa_2hv7_gw8g_gpq5_empty_datagrams_sent() {
    for dropping in [true, false] {
        let mut duel = server();
        let before = meter::reading().held;
        let queued = duel.victim.run_app(|connection| {
            let mut datagrams = connection.datagrams();
            (0..200_000)
                .filter(|_| datagrams.send(Bytes::new(), dropping).is_ok())
                .count()
        });
        assert!(queued > 1000, "{queued}");
        let held = (meter::reading().held - before) as f64;
        let what = format!("bytes held for 200,000 to be sent, dropping: {dropping}");
        figure("GHSA-2hv7-gw8g-gpq5", &what, held, 2e6);
    }
}

/// quinn 0.11.18: data that is acknowledged out of order and kept counts for the send window.
#[test]
fn quinn_0_11_18_acknowledged_out_of_order() {
    const WINDOW: u64 = 256 << 10;
    let mut config = quiet();
    config.send_window(WINDOW);
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    duel.victim.keep_events = false;
    let before = meter::reading().held;
    meter::reset_peak();
    let id = duel
        .victim
        .run_app(|connection| connection.streams().open(Dir::Uni).unwrap());
    let mut written = 0;
    for _ in 0..300 {
        written += duel.victim.run_app(|connection| {
            let mut stream = connection.send_stream(id);
            stream.write(&[7; 64 << 10]).unwrap_or(0)
        });
        duel.victim.flush();
        duel.victim.advance(Duration::from_millis(10));
        // All but the packets with the first byte.
        let mut acks = Vec::new();
        for (_, opened) in duel.collect() {
            let first = |frame: &Frame| matches!(frame, Frame::Stream { offset: 0, .. });
            if !opened.frames.iter().any(first) {
                acks.push(Frame::ack(Some(0), opened.number, opened.number));
            }
        }
        for acks in acks.chunks(50) {
            duel.send(acks);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let what = "bytes written per byte of the window";
    figure("quinn 0.11.18", what, written as f64 / WINDOW as f64, 1.0);
    let held = (meter::reading().peak - before) as f64 / WINDOW as f64;
    let what = "bytes held at most per byte of the window";
    figure("quinn 0.11.18", what, held, 2.0);
}

/// quinn 0.11.18: the credit of a stream that the application has stopped and the peer then resets comes back once (RFC 9000 section
/// 3.5, 4.1).
#[test]
fn quinn_0_11_18_credit_of_stopped_streams_given_twice() {
    let mut config = quiet();
    config.receive_window(1 << 20).window_auto_tuning(false);
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    let initial = duel.peer.their_params.get(id::INITIAL_MAX_DATA).unwrap();
    let (mut sent, mut granted) = (0, initial);
    for id in 0..100u64 {
        duel.send(&[stream(4 * id, 0, &[7; 1000])]);
        duel.victim.run_app(|connection| {
            let id = connection.streams().accept(Dir::Bi).unwrap();
            connection.recv_stream(id).stop(1u32.into()).unwrap();
        });
        // What it sends on, and a reset that names all of it, twice.
        duel.send(&[stream(4 * id, 1000, &[7; 1000])]);
        let size = 9000;
        sent += size;
        let reset = Frame::ResetStream {
            id: 4 * id,
            code: 1,
            size,
        };
        for _ in 0..3 {
            duel.send(std::slice::from_ref(&reset));
        }
        duel.victim.run_app(|connection| {
            let id = StreamId::new(Side::Client, Dir::Bi, id);
            let _ = connection.recv_stream(id).stop(1u32.into());
            let _ = connection.send_stream(id).reset(1u32.into());
        });
        for _ in 0..4 {
            duel.victim.advance(Duration::from_millis(30));
            let came = duel.collect();
            for frame in came.iter().flat_map(|(_, opened)| &opened.frames) {
                if let Frame::MaxData(max) = frame {
                    granted = granted.max(*max);
                }
            }
            duel.answer(&came);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let what = "credit given back per byte that used it";
    figure(
        "quinn 0.11.18",
        what,
        (granted - initial) as f64 / sent as f64,
        1.0,
    );
}

/// OpenSSL, one of the four of CVE-2026-35191: a small piece does not hold the large buffer that it came in.
#[test]
fn cve_2026_42772_pieces_of_large_buffers() {
    let mut duel = server();
    duel.victim.keep_events = false;
    let before = meter::reading().held;
    let pieces = 200u64;
    for piece in 0..pieces {
        let sealed = duel
            .peer
            .seal(Space::Data(0), &[stream(0, 1 + 2 * piece, &[7])]);
        let (sealed, tuple) = (sealed.unwrap(), duel.tuple(0));
        // As receive offload hands it over: a block of 64 KiB, of which this datagram is the front.
        duel.victim.deliver_from(tuple, None, sealed.len(), || {
            let mut block = BytesMut::with_capacity(1 << 16);
            block.extend_from_slice(&sealed);
            block.resize(1 << 16, 0);
            block.split_to(sealed.len())
        });
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before) as f64;
    let what = "bytes held for 200 bytes in blocks of 64 KiB";
    figure("CVE-2026-42772", what, held, 65_536.0);
}

/// Unbound CVE-2026-97206: an answer that is written after its path is gone, and after the connection is.
#[test]
fn cve_2026_97206_answers_after_the_end_of_a_path() {
    let mut duel = server();
    duel.open_path(1);
    duel.send_on(1, &[stream(0, 0, b"question"), stream(4, 0, b"question")]);
    let ids = duel.victim.run_app(|connection| {
        let mut streams = connection.streams();
        [
            streams.accept(Dir::Bi).unwrap(),
            streams.accept(Dir::Bi).unwrap(),
        ]
    });
    // The first answer is on its way over both paths when the second one goes.
    let written = duel
        .victim
        .run_app(|connection| connection.send_stream(ids[0]).write(&[1; 30_000]));
    assert_eq!(written, Ok(30_000));
    duel.victim.flush();
    duel.victim.sent.clear();
    duel.send(&[Frame::PathAbandon { path: 1, code: 0 }]);
    let written = duel
        .victim
        .run_app(|connection| connection.send_stream(ids[1]).write(&[2; 3000]));
    assert_eq!(written, Ok(3000));
    let mut got = [vec![false; 30_000], vec![false; 3000]];
    for _ in 0..200 {
        duel.victim.advance(Duration::from_millis(20));
        let came = duel.collect();
        for (_, opened) in &came {
            for frame in &opened.frames {
                if let Frame::Stream {
                    id, offset, data, ..
                } = frame
                {
                    let from = *offset as usize;
                    got[(*id / 4) as usize][from..from + data.len()].fill(true);
                }
            }
        }
        duel.answer(&came);
    }
    let missing = got.iter().flatten().filter(|byte| !**byte).count();
    figure(
        "CVE-2026-97206",
        "bytes of the answers that never came",
        missing as f64,
        0.0,
    );
    // The connection ends while a third one waits.
    let close = Frame::Close {
        app: true,
        code: 0,
        reason: Vec::new(),
    };
    duel.send(&[close]);
    assert!(!duel.alive());
    if !duel.victim.connections.is_empty() {
        let written = duel.victim.run_app(|connection| {
            let _ = connection.recv_stream(ids[0]).read(&mut [0; 10]);
            let _ = connection.streams().open(Dir::Uni);
            connection.send_stream(ids[0]).write(&[3; 10])
        });
        assert!(written.is_err(), "{written:?}");
    }
    duel.victim.advance(Duration::from_secs(10));
    assert_eq!(duel.victim.endpoint.open_connections(), 0);
}

/// nginx CVE-2026-40460: the address that an application reads of a path during and after a migration, and of another path.
#[test]
fn cve_2026_40460_addresses_during_a_migration() {
    let mut duel = server();
    duel.open_path(1);
    let spare = duel.peer.issue(0, 1);
    duel.send(&[spare]);
    duel.settle();
    let seen = |duel: &mut Duel, path| {
        let connection = duel.victim.connection();
        let path = connection.path(PathId(path)).unwrap();
        (path.network_path().remote, path.is_validated())
    };
    let (old, new, other) = (client_address(0), client_address(50), client_address(1));
    assert_eq!(seen(&mut duel, 0), (old, true));
    let tuple = from(new);
    duel.send_from(tuple, 0, &[Frame::Ping, Frame::Padding(1150)]);
    // An address that nobody has proved is never shown as proved.
    let during = seen(&mut duel, 0);
    assert!(
        during == (old, true) || during == (new, false),
        "{during:?}"
    );
    assert_eq!(seen(&mut duel, 1), (other, true));
    // Answered from where the challenge came to; anything else from the old address would be a way back.
    for _ in 0..20 {
        duel.victim.advance(Duration::from_millis(10));
        for (to, opened) in duel.collect() {
            for frame in &opened.frames {
                if let Frame::PathChallenge(data) = frame
                    && to.remote == new
                {
                    let answer = [Frame::PathResponse(*data), Frame::Padding(1150)];
                    duel.send_from(to, 0, &answer);
                }
            }
        }
    }
    assert_eq!(seen(&mut duel, 0), (new, true));
    assert_eq!(seen(&mut duel, 1), (other, true));
}

/// Q3Fuzz 4: data far ahead, STOP_SENDING and an end on one stream in one packet.
#[test]
fn q3fuzz_04_far_ahead_stopped_and_ended() {
    let mut duel = server();
    let before = meter::reading().held;
    let last = |offset| Frame::Stream {
        id: 0,
        offset,
        fin: true,
        data: Vec::new(),
    };
    duel.send(&[
        stream(0, 58_672, &[1; 40]),
        Frame::StopSending { id: 0, code: 7 },
        last(58_712),
    ]);
    assert!(duel.alive(), "{:?}", duel.reason());
    duel.victim.run_app(|connection| {
        let id = connection.streams().accept(Dir::Bi).unwrap();
        let written = connection.send_stream(id).write(&[1]);
        assert_eq!(written, Err(WriteError::Stopped(7u32.into())));
        assert!(connection.recv_stream(id).read(&mut [0; 100]).is_err());
    });
    let held = (meter::reading().held - before) as f64;
    figure("Q3Fuzz 4", "bytes held for 40 far ahead", held, 16_384.0);
    // An end elsewhere.
    duel.send(&[last(58_713)]);
    assert_eq!(duel.error(), FINAL_SIZE_ERROR);
}

/// Q3Fuzz 9: a stream that ends with no bytes, again and again: it wakes its reader once, and no timer runs for it.
#[test]
fn q3fuzz_09_ends_without_data() {
    let mut duel = server();
    duel.settle();
    duel.victim.events.clear();
    let end = Frame::Stream {
        id: 2,
        offset: 0,
        fin: true,
        data: Vec::new(),
    };
    // Nobody has read it yet, and then somebody has.
    for _ in 0..1000 {
        duel.send(std::slice::from_ref(&end));
    }
    duel.victim.run_app(|connection| {
        let id = connection.streams().accept(Dir::Uni).unwrap();
        let mut stream = connection.recv_stream(id);
        assert_eq!(stream.read(&mut [0; 10]), Ok(None));
    });
    for _ in 0..1000 {
        duel.send(std::slice::from_ref(&end));
    }
    duel.settle();
    assert!(duel.alive(), "{:?}", duel.reason());
    let events = duel.victim.events.len() as f64;
    figure("Q3Fuzz 9", "events for 2,000 ends", events, 3.0);
    let sent = duel.victim.sent_in_all().datagrams;
    duel.victim.advance(Duration::from_secs(10));
    let sent = (duel.victim.sent_in_all().datagrams - sent) as f64;
    figure("Q3Fuzz 9", "datagrams in the ten seconds after", sent, 2.0);
}

/// quinn, DATA_BLOCKED and STREAM_DATA_BLOCKED: a peer that says without end that it is blocked gets no credit for it, and no answer
/// each (RFC 9000 section 19.12, 19.13).
#[test]
fn quinn_blocked_frames_received() {
    let mut duel = server();
    duel.victim.keep_events = false;
    duel.send(&[stream(0, 0, &[7; 10])]);
    duel.settle();
    let (before, sent) = (meter::reading().held, duel.victim.sent_in_all().bytes);
    let mut credit = 0;
    for round in 0..10_000u64 {
        duel.send(&[
            Frame::DataBlocked(round % 7),
            Frame::StreamDataBlocked {
                id: 0,
                max: round % 5,
            },
            Frame::StreamsBlocked {
                uni: false,
                max: round % 3,
            },
        ]);
        if round % 100 == 0 {
            duel.victim.flush();
            let came = duel.collect();
            let frames = came.iter().flat_map(|(_, opened)| &opened.frames);
            credit += frames
                .filter(|frame| {
                    matches!(
                        frame,
                        Frame::MaxData(_) | Frame::MaxStreamData { .. } | Frame::MaxStreams { .. }
                    )
                })
                .count();
            duel.answer(&came);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    figure(
        "quinn blocked",
        "frames with credit for 30,000",
        credit as f64,
        0.0,
    );
    let out = (duel.victim.sent_in_all().bytes - sent) as f64 / 30_000.0;
    figure("quinn blocked", "bytes out per frame", out, 20.0);
    let held = (meter::reading().held - before).max(0) as f64;
    figure("quinn blocked", "bytes held more", held, 65_536.0);
}

/// quinn, DATA_BLOCKED: one that is blocked says so once for each limit, and not for limits that fall or stay (RFC 9000 section 4.1).
#[test]
fn quinn_blocked_frames_sent() {
    let mut params = Params::generous(Some(7));
    params.set(id::INITIAL_MAX_DATA, 1000);
    let mut duel = Duel::established(quiet(), params);
    let id = duel
        .victim
        .run_app(|connection| connection.streams().open(Dir::Uni).unwrap());
    let mut said = 0;
    for round in 0..500u64 {
        // Every fifth is more, all others repeat it or say less.
        let max = 1000 + 100 * (round / 5);
        let max = if round % 5 == 3 { max - 50 } else { max };
        duel.send(&[Frame::MaxData(max)]);
        duel.victim.run_app(|connection| {
            let _ = connection.send_stream(id).write(&[7; 5000]);
        });
        duel.victim.flush();
        let came = duel.collect();
        for (_, opened) in &came {
            said += blocked(&opened.frames);
        }
        duel.answer(&came);
        duel.victim.advance(Duration::from_millis(1));
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert!(said >= 50, "{said}");
    figure(
        "quinn blocked",
        "frames for a hundred limits",
        said as f64,
        110.0,
    );
}

/// quinn, oversized datagrams: DATAGRAM frames to one that has announced none, or smaller ones, are an error (RFC 9221 section 3).
#[test]
fn quinn_oversized_datagrams_received() {
    let mut config = quiet();
    config.datagram_receive_buffer(None);
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    let announced = duel.peer.their_params.get(id::MAX_DATAGRAM_FRAME_SIZE);
    assert_eq!(announced.unwrap_or(0), 0);
    duel.send(&[Frame::Datagram(Vec::new())]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// quinn, oversized datagrams: none is sent that is larger than the peer's limit, however small, or than a packet.
#[test]
fn quinn_oversized_datagrams_sent() {
    for limit in [0, 1, 2, 3, 64, 100, 1000, 65_535, (1 << 62) - 1] {
        let mut params = Params::generous(Some(7));
        params.set(id::MAX_DATAGRAM_FRAME_SIZE, limit);
        let mut duel = Duel::established(quiet(), params);
        duel.victim.run_app(|connection| {
            let mut datagrams = connection.datagrams();
            let max = datagrams.max_size();
            for size in (0..1300)
                .step_by(3)
                .chain([max.unwrap_or(0), max.unwrap_or(0) + 1])
            {
                let sent = datagrams.send(vec![5; size].into(), true);
                match max {
                    None => assert!(sent.is_err(), "{limit} {size}"),
                    Some(max) => assert_eq!(sent.is_ok(), size <= max, "{limit} {size} {max}"),
                }
            }
        });
        let mut largest = 0;
        for _ in 0..50 {
            duel.victim.advance(Duration::from_millis(20));
            let came = duel.collect();
            for frame in came.iter().flat_map(|(_, opened)| &opened.frames) {
                if let Frame::Datagram(data) = frame {
                    // Type and length, in their shortest form.
                    largest = largest.max(2 + data.len());
                }
            }
            duel.answer(&came);
        }
        let what = format!("bytes of the largest frame, limit {limit}");
        figure("quinn oversized", &what, largest as f64, limit as f64);
    }
}

/// noq 1.4: a close while the congestion window is full leaves at once (RFC 9002 section 7: it is not in flight).
#[test]
fn noq_1_4_close_while_blocked_by_congestion() {
    let mut duel = server();
    duel.victim.run_app(|connection| {
        let id = connection.streams().open(Dir::Uni).unwrap();
        let _ = connection.send_stream(id).write(&[7; 1 << 18]);
    });
    for _ in 0..50 {
        duel.victim.advance(Duration::from_millis(1));
    }
    let stats = duel.victim.connection().path(PathId(0)).unwrap().stats();
    assert!(stats.in_flight + 1200 > stats.cwnd, "{stats:?}");
    duel.collect();
    let now = duel.victim.now;
    duel.victim
        .run_app(|connection| connection.close(now, 7u32.into(), "enough".into()));
    duel.victim.flush();
    let close = Frame::Close {
        app: true,
        code: 7,
        reason: b"enough".to_vec(),
    };
    assert!(duel.frames().contains(&close));
}

/// noq 1.4: the batch that leaves in one call is what the caller allows, and no more than the initial window leaves at one moment (RFC
/// 9002 section 7.7).
#[test]
fn noq_1_4_batches_within_bounds() {
    for allowed in [1, 2, 3, 10, 64] {
        let mut duel = server();
        duel.victim.run_app(|connection| {
            let id = connection.streams().open(Dir::Uni).unwrap();
            let _ = connection.send_stream(id).write(&[7; 1 << 18]);
        });
        let now = duel.victim.now;
        let (mut most, mut sum) = (0, 0);
        let mut buf = Vec::new();
        while let Some(transmit) = duel
            .victim
            .connection()
            .poll_transmit(now, allowed, &mut buf)
        {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            most = most.max(transmit.size.div_ceil(segment));
            sum += transmit.size;
            buf.clear();
        }
        let what = format!("datagrams beyond the {allowed} that are allowed");
        figure("noq 1.4 batches", &what, most as f64 - allowed as f64, 0.0);
        figure(
            "noq 1.4 batches",
            "bytes at one moment",
            sum as f64,
            14_720.0,
        );
    }
}

/// quinn, bundled ACKs: an acknowledgement that is due leaves with the data that leaves, and makes no datagram of its own (RFC 9000
/// section 13.2.1).
#[test]
fn quinn_acknowledgements_ride_on_data() {
    let mut duel = server();
    let id = duel
        .victim
        .run_app(|connection| connection.streams().open(Dir::Uni).unwrap());
    duel.settle();
    let (mut rounds, mut datagrams) = (0.0, 0.0);
    for _ in 0..200 {
        duel.send(&[Frame::Ping]);
        duel.victim.run_app(|connection| {
            connection.send_stream(id).write(&[7; 10]).unwrap();
        });
        // The second one makes an acknowledgement due at once.
        duel.send(&[Frame::Ping]);
        let came = duel.collect();
        rounds += 1.0;
        datagrams += came.len() as f64;
        duel.acknowledge();
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    figure(
        "quinn bundled ACKs",
        "packets per round",
        datagrams / rounds,
        1.1,
    );
}
