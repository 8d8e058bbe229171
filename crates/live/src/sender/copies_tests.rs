//! Copies of what is overdue, where the other path has no room for all of them at once; and whole frames dropped, where the transport is behind.

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A key frame that was sent into a hole is larger than the window of the path that is left: its copies leave as that has room.
#[test]
fn copies_wait_for_room() {
    let begin = Instant::now();
    let view = |id, room| PathView {
        id: PathId(id),
        rtt: ms(20),
        rttvar: ms(2),
        room,
        rate: 1_000_000,
        backup: false,
    };
    let mut live = Sender::new(Config::default(), begin);
    live.set_paths(&[view(0, 100_000), view(1, 0)]);
    let flow = live.flow(begin, Flow::new(ms(400)).repair(Repair::Fixed(0.0)));
    live.send(begin, flow, &[7; 10_000], FrameInfo { key: true })
        .unwrap();
    let mut datagram = Vec::new();
    let mut sent = 0;
    while let Some(transmit) = live.poll_transmit(begin, &mut datagram) {
        let path = PathId(0);
        live.fate(transmit.tag, Fate::Sent { path, at: begin });
        sent += 1;
    }
    let mut copies = |at, room| {
        live.set_paths(&[view(0, 0), view(1, room)]);
        let mut copied = 0;
        while let Some(transmit) = live.poll_transmit(begin + at, &mut datagram) {
            if transmit.cause == Cause::Copy {
                assert_eq!(transmit.path, Some(PathId(1)));
                copied += 1;
            }
        }
        copied
    };
    // All are overdue, and there is no room for any of them.
    assert_eq!(copies(ms(60), 0), 0);
    assert_eq!(copies(ms(80), 500), 0);
    // Then there is, for all of them in the end, and for each once.
    let first = copies(ms(100), 2_500);
    assert!(first > 0);
    let rest = copies(ms(120), 100_000);
    assert_eq!(first + rest, sent);
    assert_eq!(copies(ms(121), 100_000), 0);
    assert_eq!(live.stats().copies_skipped, 0);
}

/// Where the transport is behind, whole frames are dropped; but not at the start of a connection, whose windows double.
#[test]
fn no_frame_is_dropped_whole_at_the_start() {
    let begin = Instant::now();
    let view = PathView {
        id: PathId(0),
        rtt: ms(100),
        rttvar: ms(5),
        room: 12_000,
        rate: 100_000,
        backup: false,
    };
    let mut live = Sender::new(Config::default(), begin);
    live.set_paths(&[view]);
    let flow = live.flow(begin, Flow::new(ms(200)).repair(Repair::Fixed(0.0)));
    let mut datagram = Vec::new();
    for (at, dropped) in [(0, 0), (1, 0), (80, 0), (400, 0), (401, 0), (480, 1)] {
        let now = begin + ms(at);
        live.send(now, flow, b"a frame", FrameInfo::default())
            .unwrap();
        let before = live.stats().dropped;
        while let Some(transmit) = live.poll_transmit(now, &mut datagram) {
            // The first frame leaves, and again one after the first were judged; what comes then waits.
            if at == 0 || at == 400 {
                let path = PathId(0);
                live.fate(transmit.tag, Fate::Sent { path, at: now });
            }
        }
        if at == 80 || at == 480 {
            assert_eq!(before, dropped, "at {at} ms");
        }
        if at == 80 {
            // What waited is dropped by the transport, and the silent path answers.
            for tag in 1..=2 {
                live.fate(tag, Fate::Unsent { at: now });
            }
            live.fate(
                0,
                Fate::Acknowledged {
                    path: PathId(0),
                    sent: begin,
                    at: begin + ms(100),
                },
            );
        }
    }
}
