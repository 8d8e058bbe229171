//! The receiver alone: each frame has one verdict, its bytes are those that were sent, and hostile datagrams cost no more than
//! the limits say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mpquic_live::rlc::{DENSE, Encoder};
use mpquic_live::wire::{Body, MAX_FRAME, Packet, part_range};
use mpquic_live::{Limits, MAX_FRAMES, MAX_READY, ReceiveError, Receiver, Verdict};
use proptest::prelude::*;

fn source(symbol: u32, body: &Body<'_>) -> Vec<u8> {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    body.write(&mut bytes);
    Packet::Source {
        flow: 0,
        symbol,
        body: &bytes,
    }
    .write(&mut datagram);
    datagram
}

const fn body(frame: u64, sent: u64) -> Body<'static> {
    Body {
        key: false,
        frame,
        sent,
        budget: 100,
        length: 1,
        parts: 1,
        part: 0,
        payload: b"x",
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn bytes_of(frame: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (frame * 7 + i * 13) as u8)
        .collect()
}

proptest! {
    /// Frames of any sizes over a network that loses, delays, reorders, doubles and corrupts: what is handed over is what was
    /// sent, and each frame before the last one heard of has exactly one verdict.
    #[test]
    fn one_verdict_for_each_frame(
        lens in prop::collection::vec(0..4_000_usize, 1..80),
        fates in prop::collection::vec((0..100_u8, 0..150_u64, any::<u16>()), 1_000),
        repair in 0..4_usize,
    ) {
        let begin = Instant::now();
        let mut encoder = Encoder::new(512);
        // (arrival, order, bytes)
        let mut air: Vec<(u64, usize, Vec<u8>)> = Vec::new();
        let mut fate = fates.iter().cycle();
        let mut send = |at: u64, datagram: Vec<u8>| {
            let (luck, delay, noise) = fate.next().unwrap();
            let order = air.len();
            match luck {
                0..20 => {}
                20..25 => {
                    air.push((at + delay, order, datagram.clone()));
                    air.push((at + delay / 2, order + 1, datagram));
                }
                25..30 => {
                    // What gets past the transport's authentication never looks so, but it must do no harm beyond itself: a
                    // changed first byte is another packet, of another version.
                    let mut other = datagram;
                    other[0] ^= (*noise as u8) | 0x40;
                    air.push((at + delay, order, other));
                }
                _ => air.push((at + delay, order, datagram)),
            }
        };
        for (id, len) in lens.iter().enumerate() {
            let at = 33 * id as u64;
            let data = bytes_of(id as u64, *len);
            let parts = len.div_ceil(700).max(1) as u32;
            for part in 0..parts {
                let (from, to) = part_range(*len as u32, parts, part);
                let body = Body {
                    key: id == 0, frame: id as u64, sent: at, budget: 120, length: *len as u32, parts, part,
                    payload: &data[from..to],
                };
                let mut bytes = Vec::new();
                body.write(&mut bytes);
                let symbol = encoder.push(&bytes).unwrap() as u32;
                send(at, source(symbol, &body));
            }
            for key in 0..repair as u16 {
                let count = encoder.next().min(20) as usize;
                let first = encoder.next() - count as u64;
                let mut symbol = Vec::new();
                encoder.encode(first, count, key, DENSE, &mut symbol);
                let mut datagram = Vec::new();
                Packet::Repair { flow: 0, key, density: DENSE, window: count as u16, first: first as u32, symbol: &symbol }
                    .write(&mut datagram);
                send(at, datagram);
            }
        }
        air.sort();
        let mut receiver = Receiver::default();
        let mut verdicts: BTreeMap<u64, bool> = BTreeMap::new();
        let mut buffer = Vec::new();
        let mut heard = None;
        let mut check = |receiver: &mut Receiver, now: Instant| {
            while let Some(verdict) = receiver.poll(now, &mut buffer) {
                let (id, whole) = match verdict {
                    Verdict::Frame { id, key, .. } => {
                        assert_eq!(buffer, bytes_of(id, lens[id as usize]));
                        assert_eq!(key, id == 0);
                        (id, true)
                    }
                    Verdict::Missing { id, .. } => (id, false),
                    other => panic!("{other:?}"),
                };
                assert!(verdicts.insert(id, whole).is_none(), "two verdicts for {id}");
            }
        };
        for (at, _, datagram) in air {
            let now = begin + ms(at);
            while let Some(due) = receiver.poll_timeout().filter(|due| *due < now) {
                check(&mut receiver, due);
            }
            if receiver.receive(now, &datagram).is_ok()
                && let Ok(Packet::Source { body, .. }) = Packet::read(&datagram)
            {
                heard = heard.max(Some(Body::read(body).unwrap().frame));
            }
            check(&mut receiver, now);
        }
        let end = begin + Duration::from_secs(60);
        check(&mut receiver, end);
        prop_assert_eq!(receiver.held(), 0);
        prop_assert_eq!(receiver.poll_timeout(), None);
        let heard = heard.map_or(0, |last| last + 1);
        prop_assert!(verdicts.len() as u64 >= heard);
        prop_assert_eq!(verdicts.len() as u64, verdicts.keys().next_back().map_or(0, |last| last + 1));
        let stats = receiver.stats();
        prop_assert_eq!(stats.frames, verdicts.values().filter(|whole| **whole).count() as u64);
        prop_assert_eq!(stats.frames + stats.missing, verdicts.len() as u64);
        prop_assert_eq!(stats.refused, 0);
    }

    #[test]
    fn hostile_datagrams_are_bounded(
        packets in prop::collection::vec(
            (0..6_u8, prop_oneof![0..40_u64, 0..4_000_u64, 0..1_u64 << 62], 0..1_u64 << 49, 0..40_u64, any::<u32>(),
             prop::collection::vec(any::<u8>(), 0..60)),
            0..300,
        ),
        polls in any::<bool>(),
    ) {
        let begin = Instant::now();
        let limits = Limits { flows: 3, bytes: 64 << 10 };
        let mut receiver = Receiver::new(limits);
        let mut buffer = Vec::new();
        for (i, (kind, frame, sent, parts, number, payload)) in packets.into_iter().enumerate() {
            let mut datagram = Vec::new();
            let flow = u32::from(kind) % 4;
            match kind {
                0 => datagram = payload,
                1 => Packet::Repair {
                    flow, key: number as u16, density: number as u8 & 15, window: parts as u16, first: frame as u32,
                    symbol: &payload,
                }.write(&mut datagram),
                _ => {
                    let length = match kind {
                        2 => payload.len() as u64 * parts,
                        3 => MAX_FRAME as u64,
                        _ => payload.len() as u64,
                    };
                    let parts = if kind == 2 { parts } else { 1 };
                    let body = Body {
                        key: false, frame, sent, budget: number & 0x3fff, length: length as u32, parts: parts as u32,
                        part: number % parts.max(1) as u32, payload: &payload,
                    };
                    let mut bytes = Vec::new();
                    body.write(&mut bytes);
                    Packet::Source { flow, symbol: number, body: &bytes }.write(&mut datagram);
                }
            }
            let now = begin + ms(i as u64);
            let _ = receiver.receive(now, &datagram);
            prop_assert!(receiver.held() <= limits.bytes);
            prop_assert!(receiver.memory_use() <= limits.max_memory());
            receiver.poll_timeout();
            if polls {
                let mut counts = [0_u64; 4];
                while let Some(verdict) = receiver.poll(now, &mut buffer) {
                    let flow = match verdict {
                        Verdict::Frame { flow, .. } | Verdict::Missing { flow, .. } => flow,
                        Verdict::Skipped { flow, .. } => flow,
                        _ => unreachable!("{verdict:?}"),
                    };
                    counts[flow as usize] += 1;
                }
                // Of each flow, those that are pushed out, and those before the new one, should all be due: the others' may be, too.
                prop_assert!(counts.iter().all(|count| *count <= 2 * MAX_FRAMES), "{counts:?}");
            }
        }
    }
}

#[test]
fn frames_out_of_order_each_as_it_is_whole() {
    let (mut receiver, mut buffer, now) = (Receiver::default(), Vec::new(), Instant::now());
    let mut verdicts = |receiver: &mut Receiver, now| {
        let mut all = Vec::new();
        while let Some(verdict) = receiver.poll(now, &mut buffer) {
            all.push(verdict);
        }
        all
    };
    let whole = |id| Verdict::Frame {
        flow: 0,
        id,
        key: false,
        repaired: false,
    };
    receiver.receive(now, &source(1, &body(1, 50))).unwrap();
    assert_eq!(verdicts(&mut receiver, now), [whole(1)]);
    receiver.receive(now, &source(3, &body(3, 150))).unwrap();
    // Nothing of 0 came: its time stamp is taken for that of 1, which was due 100 ms after the first arrival. But the way of 3
    // was shorter by 100 ms.
    assert_eq!(
        verdicts(&mut receiver, now),
        [whole(3), Verdict::Missing { flow: 0, id: 0 }]
    );
    // 2 lies between 1 and 3: it is due 50 ms before 3, which came at its time.
    let due = receiver.poll_timeout().unwrap();
    assert_eq!(due, now + ms(50));
    receiver.receive(now, &source(2, &body(2, 100))).unwrap();
    assert_eq!(verdicts(&mut receiver, due), [whole(2)]);
    // Too late.
    receiver.receive(due, &source(0, &body(0, 0))).unwrap();
    assert_eq!(verdicts(&mut receiver, due), []);
    assert_eq!(receiver.stats().late, 1);
}

#[test]
fn a_long_gap_is_one_verdict() {
    let (mut receiver, mut buffer, now) = (Receiver::default(), Vec::new(), Instant::now());
    receiver.receive(now, &source(0, &body(0, 0))).unwrap();
    receiver.poll(now, &mut buffer).unwrap();
    receiver
        .receive(now, &source(7, &body(1_000_000, 100)))
        .unwrap();
    let last = 1_000_000 - MAX_FRAMES;
    assert_eq!(
        receiver.poll(now, &mut buffer),
        Some(Verdict::Skipped {
            flow: 0,
            first: 1,
            last
        })
    );
    assert!(matches!(
        receiver.poll(now, &mut buffer),
        Some(Verdict::Frame { id: 1_000_000, .. })
    ));
    assert_eq!(receiver.stats().missing, last);
    let later = now + Duration::from_secs(1);
    assert_eq!(
        receiver.poll(later, &mut buffer),
        Some(Verdict::Missing {
            flow: 0,
            id: last + 1
        })
    );
}

#[test]
fn an_application_that_does_not_poll_is_not_buried() {
    let (mut receiver, now) = (Receiver::default(), Instant::now());
    let mut refused = 0;
    for i in 0..3 * MAX_READY as u64 {
        match receiver.receive(now, &source(i as u32, &body(i, i))) {
            Ok(()) => {}
            Err(ReceiveError::Clogged) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(refused, 2 * MAX_READY);
}

/// Large frames that are given up leave their buffers to small ones, and these stay open: their memory counts, not their bytes.
#[test]
fn small_frames_do_not_hoard_large_buffers() {
    let limits = Limits {
        flows: 2,
        bytes: 1 << 20,
    };
    let (mut receiver, mut buffer) = (Receiver::new(limits), Vec::new());
    let mut now = Instant::now();
    let part = |flow, frame, length: u32| {
        let parts = length.div_ceil(1_000).max(2);
        let (_, end) = part_range(length, parts, 0);
        let body = Body {
            budget: if flow == 0 { 0 } else { 1 << 30 },
            length,
            parts,
            payload: &[7; 1_000][..end],
            ..body(frame, frame)
        };
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        body.write(&mut bytes);
        Packet::Source {
            flow,
            symbol: frame as u32,
            body: &bytes,
        }
        .write(&mut datagram);
        datagram
    };
    for round in 0..200 {
        for i in 0..4 {
            let large = part(0, 4 * round + i, 200_000);
            receiver.receive(now, &large).unwrap();
        }
        now += ms(10);
        while receiver.poll(now, &mut buffer).is_some() {}
        for i in 0..4 {
            let small = part(1, 4 * round + i, 2);
            receiver.receive(now, &small).unwrap();
        }
        assert!(receiver.memory_use() <= limits.max_memory());
    }
    assert_eq!(receiver.stats().refused, 0);
    // All 800 in buffers of 200,000 bytes would be 160 MB.
    assert!(
        receiver.memory_use() < 24 << 20,
        "{}",
        receiver.memory_use()
    );
}

/// Whole frames count until they are taken.
#[test]
fn frames_that_nobody_takes_are_bounded() {
    let limits = Limits {
        flows: 1,
        bytes: 10_000,
    };
    let (mut receiver, mut buffer, now) = (Receiver::new(limits), Vec::new(), Instant::now());
    let frame = |id| {
        source(
            id as u32,
            &Body {
                length: 1_000,
                payload: &[7; 1_000],
                ..body(id, id)
            },
        )
    };
    for id in 0..12 {
        receiver.receive(now, &frame(id)).unwrap();
    }
    assert_eq!((receiver.held(), receiver.stats().refused), (10_000, 2));
    receiver.poll(now, &mut buffer).unwrap();
    receiver.receive(now, &frame(10)).unwrap();
    assert_eq!((receiver.held(), receiver.stats().refused), (10_000, 2));
}

#[test]
fn flows_are_counted() {
    let mut receiver = Receiver::new(Limits {
        flows: 2,
        ..Limits::default()
    });
    let now = Instant::now();
    let begin = |flow| {
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        body(0, 0).write(&mut bytes);
        Packet::Source {
            flow,
            symbol: 0,
            body: &bytes,
        }
        .write(&mut datagram);
        datagram
    };
    for flow in [9, 4] {
        receiver.receive(now, &begin(flow)).unwrap();
    }
    assert_eq!(
        receiver.receive(now, &begin(5)),
        Err(ReceiveError::TooManyFlows)
    );
    receiver.close(9);
    receiver.receive(now, &begin(5)).unwrap();
}
