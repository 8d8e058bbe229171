//! What a connection holds, against what it is charged for (`CollectionSize::for_each_charge`): all frames in hostile orders, a
//! thousand streams, eight paths, the default windows. At most four bytes are held for each that is charged.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use mpquic_hostile::duel::from;
use mpquic_hostile::meter;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::{Sealing, Space};
use mpquic_hostile::victim::client_address;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{CollectionSize, Dir, Side, StreamId};
use proptest::prelude::*;

use super::*;

/// Cases of a run.
const CASES: u32 = 60;

/// Bytes held for each that is charged.
const MOST: f64 = 4.0;

/// Streams of each direction that the peer may have, and of those the ones that are reset, and nothing else.
const STREAMS: u64 = 1000;
const RESET: u64 = 100;

/// Credit that is used up: a little less than the connection's first window, beyond which it would end.
const CREDIT: u64 = 1_400_000;

thread_local! {
    /// The worst so far: how much is held for each byte that is charged, and what was charged then.
    static WORST: RefCell<(f64, String)> = const { RefCell::new((0.0, String::new())) };
}

/// A victim, what was held before it was there, and where the peer is on each stream.
struct Case {
    duel: Duel,
    before: i64,
    /// What was held and charged at the beginning.
    idle: Option<(i64, u64)>,
    offsets: Vec<u64>,
    seq: u64,
    number: u64,
}

impl Case {
    fn new(paths: u32) -> Self {
        let before = meter::reading().held;
        let mut config = quiet();
        config
            .max_concurrent_bidi_streams(STREAMS)
            .max_concurrent_uni_streams(STREAMS);
        let mut duel = Duel::established(config, Params::generous(Some(7)));
        for path in 1..=paths {
            duel.open_path(path);
        }
        duel.victim.keep_events = false;
        Self {
            duel,
            before,
            idle: None,
            offsets: vec![1; STREAMS as usize],
            seq: 2,
            number: 0,
        }
    }

    /// Compares what is held with what is charged.
    ///
    /// Once much is charged beyond what an idle connection is, that and what is held for it are compared by themselves.
    fn check(&mut self, order: &str) {
        let Some((_, connection)) = self.duel.victim.connections.first() else {
            return;
        };
        if connection.is_closed() {
            return;
        }
        let (mut sum, mut text) = (0, String::new());
        CollectionSize::for_each_charge(connection, |what, bytes| {
            sum += bytes;
            if bytes > 0 {
                text += &format!(" {what} {bytes},");
            }
        });
        let held = meter::reading().held - self.before;
        let (idle_held, idle_sum) = *self.idle.get_or_insert((held, sum));
        let mut ratio = held.max(0) as f64 / sum as f64;
        if sum > idle_sum + 65_536 {
            ratio = ratio.max((held - idle_held) as f64 / (sum - idle_sum) as f64);
        }
        WORST.with_borrow_mut(|worst| {
            if ratio > worst.0 {
                *worst = (
                    ratio,
                    format!("{order}: {held} held for {sum} charged:{text}"),
                );
            }
        });
        assert!(ratio <= MOST, "{order}: {held} held, {sum} charged:{text}");
    }

    fn path(&self, path: u64) -> u32 {
        let open: Vec<_> = match self.duel.victim.connections.first() {
            Some((_, connection)) => connection.paths().ids().map(|id| id.0).collect(),
            None => return 0,
        };
        open.get(path as usize % open.len().max(1))
            .copied()
            .unwrap_or(0)
    }

    /// A burst of one kind of frames.
    #[expect(clippy::too_many_lines, reason = "a table of what a peer can send")]
    fn burst(&mut self, kind: u8, a: u64, b: u64) {
        let path = self.path(a);
        let count = 1 + b % 24;
        let used: u64 = self.offsets.iter().sum();
        if kind <= 4 && used > CREDIT {
            return;
        }
        match kind {
            // Pieces with gaps, on many streams in one packet.
            0 | 1 => {
                let (len, gap) = (1 + b % 7, 1 + a % 5);
                for round in 0..count {
                    let mut frames = Vec::new();
                    for stream_of in 0..40 {
                        let id = (a + 40 * (round % 8) + stream_of) % (STREAMS - RESET);
                        let at = &mut self.offsets[id as usize];
                        frames.push(stream(4 * id, *at, &vec![7; len as usize]));
                        *at += len + gap;
                    }
                    self.duel.send_on(path, &frames);
                }
            }
            // The same on one stream, backwards.
            2 => {
                let id = a % (STREAMS - RESET);
                let start = self.offsets[id as usize];
                let frames: Vec<_> = (0..100)
                    .rev()
                    .map(|piece| stream(4 * id, start + 3 * piece, &[7; 2]))
                    .collect();
                self.offsets[id as usize] += 300;
                self.duel.send_on(path, &frames);
            }
            // A byte in each block.
            3 => {
                let id = a % (STREAMS - RESET);
                for piece in 0..count.min(4) {
                    let at = self.offsets[id as usize] + 16_384 * piece;
                    self.duel.send_on(path, &[stream(4 * id, at, &[7])]);
                }
                self.offsets[id as usize] += 16_384 * 4;
            }
            // Whole packets, with gaps and without.
            4 => {
                let id = a % (STREAMS - RESET);
                for piece in 0..count {
                    let at = self.offsets[id as usize];
                    self.duel.send_on(path, &[stream(4 * id, at, &[7; 1100])]);
                    self.offsets[id as usize] += 1100 + piece % 2;
                }
            }
            // The first bytes, one on each stream.
            5 => {
                let frames: Vec<_> = (0..100)
                    .map(|n| stream(4 * ((a + n) % (STREAMS - RESET)), 0, &[7]))
                    .collect();
                self.duel.send_on(path, &frames);
                let frames: Vec<_> = (0..100)
                    .map(|n| stream(4 * ((a + n) % (STREAMS - RESET)) + 2, 0, &[7]))
                    .collect();
                self.duel.send_on(path, &frames);
            }
            6 => {
                let frames = vec![Frame::Datagram(vec![7; (b % 9) as usize]); 60];
                for _ in 0..count {
                    self.duel.send_on(path, &frames);
                }
            }
            7 => {
                let frames: Vec<_> = (0..count.min(8))
                    .map(|piece| Frame::Crypto {
                        offset: 2000 + a % 50_000 + 3 * piece,
                        data: vec![7],
                    })
                    .collect();
                self.duel.send_on(path, &frames);
            }
            // Connection IDs, some of them retired at once.
            8 => {
                self.seq += 1;
                let of = a % 8;
                let mut token = [9; 16];
                token[..8].copy_from_slice(&self.seq.to_be_bytes());
                token[8] = of as u8;
                let frame = Frame::NewCid {
                    path: Some(of),
                    seq: self.seq,
                    retire_prior_to: self.seq - b % 2,
                    cid: self.duel.peer.own_cid(of as u32, self.seq as u32),
                    token,
                };
                self.duel.send_on(path, &[frame]);
            }
            // Every second packet number.
            9 | 10 => {
                for _ in 0..2 * count {
                    self.number = self
                        .number
                        .max(self.duel.peer.next_number(Space::Data(path)));
                    self.number += 2;
                    let how = Sealing {
                        number: Some(self.number),
                        ..Sealing::default()
                    };
                    self.duel.send_as(Space::Data(path), &[Frame::Ping], &how);
                }
            }
            11 => {
                let path = 1 + a % 7;
                self.duel.send(&[Frame::PathAbandon { path, code: 0 }]);
                self.duel.send(&[Frame::MaxPathId(100)]);
            }
            12 => {
                for round in 0..count {
                    let place = from(client_address(20 + (a + round) as u32 % 50));
                    let challenge = Frame::PathChallenge(round.to_be_bytes());
                    let frames = [challenge, Frame::Padding((b % 1100) as usize)];
                    self.duel.send_from(place, path, &frames);
                }
            }
            13 => {
                let id = 4 * (STREAMS - 1 - a % RESET);
                let reset = Frame::ResetStream {
                    id,
                    code: 1,
                    size: 10,
                };
                self.duel
                    .send_on(path, &[reset, Frame::StopSending { id, code: 1 }]);
            }
            // The application answers, and the peer says nothing.
            14 | 15 => self.duel.victim.run_app(|connection| {
                for id in a..a + count {
                    let id = StreamId::new(Side::Client, Dir::Bi, id % (STREAMS - RESET));
                    let _ = connection.send_stream(id).write(&[7; 700]);
                    let _ = connection.streams().accept(Dir::Bi);
                }
                let _ = connection.streams().open(Dir::Uni);
                let _ = connection.datagrams().send(Bytes::from_static(b"7"), true);
            }),
            16 => {
                let came = self.duel.collect();
                self.duel.answer(&came);
            }
            17 => self.duel.victim.run_app(|connection| {
                let mut buf = [0; 3000];
                for id in a..a + count {
                    let id = StreamId::new(Side::Client, Dir::Bi, id % (STREAMS - RESET));
                    let _ = connection.recv_stream(id).read(&mut buf);
                    let _ = connection.recv_stream(id).read_unordered(500);
                }
            }),
            18 => {
                self.duel.victim.advance(Duration::from_millis(b % 400));
                self.duel.collect();
            }
            _ => {
                let frames = [
                    Frame::PathStatus {
                        path: a % 8,
                        seq: b,
                        backup: b.is_multiple_of(2),
                    },
                    Frame::PathsBlocked(0),
                    Frame::DataBlocked(1),
                    Frame::RetireCid {
                        path: Some(a % 8),
                        seq: 0,
                    },
                ];
                // The last one may be the ID in use, which ends it.
                let frames = &frames[..3 + usize::from(b.is_multiple_of(16))];
                self.duel.send_on(path, frames);
            }
        }
    }
}

/// Orders that were the worst ones found.
#[test]
fn bytes_held_in_the_worst_orders() {
    for (order, kinds, paths) in [
        ("a byte on each stream", &[5u8][..], 0u32),
        ("pieces with gaps on all streams", &[0], 7),
        ("a byte in each block", &[3], 0),
        ("whole packets with gaps", &[4], 7),
        ("backwards", &[2], 0),
        ("every second packet number", &[9], 7),
        ("datagrams", &[6], 0),
        ("answers that nobody acknowledges", &[5, 14, 0], 7),
        ("everything", &[5, 0, 2, 3, 4, 6, 7, 9, 12, 14], 7),
    ] {
        let mut case = Case::new(paths);
        case.check(order);
        let mut a = 0;
        'rounds: for round in 0..40u64 {
            for kind in kinds {
                case.burst(*kind, a, round);
                a += 37;
                if !case.duel.alive() {
                    break 'rounds;
                }
                case.check(order);
            }
        }
        let (ratio, text) = WORST.take();
        figure("bytes per byte", order, ratio, MOST);
        println!("    {text}");
    }
}

/// RUSTSEC-2026-0341 at its worst: single bytes with gaps of one, and a little more than fills what was allocated for so many; of
/// streams that are read in order, and of those that are not.
#[test]
fn bytes_held_for_single_bytes_with_gaps() {
    const MANY: u64 = 40;
    for (pieces, width) in [(1030u64, 1u64), (2056, 1), (4090, 1), (1030, 3), (2056, 3)] {
        for unordered in [false, true] {
            let mut case = Case::new(0);
            let order = format!("{pieces} pieces of {width}, unordered: {unordered}");
            case.check(&order);
            for first in (0..pieces).step_by(10) {
                for id in 0..MANY {
                    let frames: Vec<_> = (first..first + 10)
                        .map(|piece| {
                            let offset = width + (width + 1) * piece;
                            stream(4 * id, offset, &vec![7; width as usize])
                        })
                        .collect();
                    case.duel.send(&frames);
                    // Nothing is read of every second stream once it is read that way.
                    if unordered && (id.is_multiple_of(2) || first == 0) {
                        case.duel.victim.run_app(|connection| {
                            let id = StreamId::new(Side::Client, Dir::Bi, id);
                            while connection
                                .recv_stream(id)
                                .read_unordered(9)
                                .is_ok_and(|c| c.is_some())
                            {}
                        });
                    }
                }
                assert!(case.duel.alive(), "{:?}", case.duel.reason());
                case.check(&order);
            }
            let (ratio, text) = WORST.take();
            figure("bytes per byte", &order, ratio, MOST);
            println!("    {text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// All frames, in any order.
    #[test]
    fn bytes_held_in_any_order(
        paths in 0u32..8,
        bursts in prop::collection::vec((0u8..20, any::<u32>(), any::<u16>()), 40..120),
    ) {
        let known = WORST.with_borrow(|worst| worst.0);
        let mut case = Case::new(paths);
        case.check("begin");
        for (at, (kind, a, b)) in bursts.iter().enumerate() {
            case.burst(*kind, u64::from(*a), u64::from(*b));
            if !case.duel.alive() {
                break;
            }
            case.check(&format!("burst {at} of kind {kind}"));
        }
        let worse = WORST.with_borrow(|worst| (worst.0 > known).then(|| worst.clone()));
        if let Some((ratio, text)) = worse {
            println!("worst so far {ratio:.2}, {text}");
        }
    }
}
