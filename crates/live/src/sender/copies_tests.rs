//! Copies of what is overdue, where the other path has no room for all of them at once.

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
