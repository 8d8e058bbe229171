//! Codec and core allocate nothing once their buffers have grown.

use std::time::{Duration, Instant};

use mpquic_live::rlc::{DENSE, Decoder, Encoder};
use mpquic_live::{Config, Fate, Flow, FrameInfo, PathId, PathView, Receiver, Repair, Sender};
use mpquic_test_support::allocator::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;

#[test]
fn the_codec_does_not_allocate() {
    let (mut encoder, mut decoder) = (Encoder::new(256), Decoder::new());
    let mut symbol = Vec::with_capacity(2_048);
    let content = [7; 1_200];
    let mut before = 0;
    let mut back = 0;
    for i in 0..20_000_u64 {
        if i == 5_000 {
            before = allocations();
        }
        encoder.push(&content).unwrap();
        if i % 7 != 0 {
            decoder.source(i as u32, &content);
        }
        if i % 5 == 4 && i > 128 {
            symbol.clear();
            encoder.encode(i - 63, 64, i as u16, DENSE, &mut symbol);
            decoder.repair(i as u32 - 63, 64, i as u16, DENSE, &symbol);
        }
        while decoder.recovered().is_some() {
            back += 1;
        }
    }
    assert_eq!(allocations(), before);
    assert!(back > 2_800, "{back}");
}

/// Frames over two paths, every seventh datagram lost, a third of them overdue: sent, copied, repaired, judged, put together.
#[test]
fn sender_and_receiver_do_not_allocate() {
    #[expect(clippy::disallowed_methods, reason = "a starting point")]
    let begin = Instant::now();
    let ms = Duration::from_millis;
    let mut sender = Sender::new(Config::default(), begin);
    let mut receiver = Receiver::default();
    let path = PathView {
        id: PathId(0),
        rtt: ms(30),
        rttvar: ms(2),
        room: 100_000,
        rate: 2_000_000,
        backup: false,
    };
    let views = [
        path,
        PathView {
            id: PathId(1),
            ..path
        },
    ];
    sender.set_paths(&views);
    let flow = sender.flow(begin, Flow::new(ms(200)).repair(Repair::Fixed(0.2)));
    let frame = [7; 15_000];
    let (mut datagram, mut buffer) = (Vec::with_capacity(2_048), Vec::with_capacity(15_000));
    // What the transport would keep: fates that are to come, of bounded number.
    let mut fates = std::collections::VecDeque::with_capacity(4_096);
    let (mut before, mut frames) = (0, 0);
    for tick in 0..20_000_u64 {
        if tick == 10_000 {
            before = allocations();
        }
        let now = begin + ms(tick);
        sender.set_paths(&views);
        if tick % 33 == 0 {
            sender
                .send(now, flow, &frame, FrameInfo::default())
                .unwrap();
        }
        while let Some(transmit) = sender.poll_transmit(now, &mut datagram) {
            let path = transmit.path.unwrap_or(PathId(transmit.tag as u32 / 8 % 2));
            sender.fate(transmit.tag, Fate::Sent { path, at: now });
            if transmit.tag % 7 == 0 {
                fates.push_back((
                    tick + 60,
                    transmit.tag,
                    Fate::Lost {
                        path,
                        at: now + ms(60),
                    },
                ));
            } else {
                receiver.receive(now, &datagram).unwrap();
                let late = if transmit.tag % 3 == 0 { 55 } else { 30 };
                let at = now + ms(late);
                fates.push_back((
                    tick + late,
                    transmit.tag,
                    Fate::Acknowledged {
                        path,
                        sent: now,
                        at,
                    },
                ));
            }
        }
        for _ in 0..fates.len() {
            let (due, tag, fate) = fates.pop_front().unwrap();
            if due <= tick {
                sender.fate(tag, fate);
            } else {
                fates.push_back((due, tag, fate));
            }
        }
        while let Some(verdict) = receiver.poll(now, &mut buffer) {
            frames += u64::from(matches!(verdict, mpquic_live::Verdict::Frame { .. }));
        }
        std::hint::black_box((sender.poll_timeout(now), receiver.poll_timeout()));
    }
    assert_eq!(allocations(), before);
    let stats = sender.stats();
    assert!(
        frames > 590 && receiver.stats().repaired > 100,
        "{frames} {:?}",
        receiver.stats()
    );
    assert!(
        stats.copies.packets > 500 && stats.repair.packets > 1_000,
        "{stats:?}"
    );
}
