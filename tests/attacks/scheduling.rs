//! Attacks through the packet scheduler: copies without end, and a scheduler whose answers make no sense.

use std::time::Duration;

use mpquic::sched::{Context, Data, Decision, PathSet, Redundant, RoundRobin, Scheduler};
use mpquic_hostile::duel::Duel;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::Space;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, Side, StreamId, TransportConfig};

use super::*;

/// What became of a transfer.
#[derive(Debug, Default)]
struct Transfer {
    /// Of stream data, copies and all.
    sent: u64,
    /// Of the stream, each byte once.
    received: u64,
    milliseconds: u64,
}

/// Has the victim send so much over three paths, and takes it. Of the packets on a path, those are acknowledged that
/// `acks` lets through: path and packet number.
fn transfer(config: TransportConfig, bytes: usize, acks: impl Fn(u32, u64) -> bool) -> Transfer {
    transfer_held(config, bytes, acks, |_, _| true)
}

/// The same with acknowledgements that wait until `now` lets those of their path go: path and milliseconds since the begin.
fn transfer_held(
    config: TransportConfig,
    bytes: usize,
    acks: impl Fn(u32, u64) -> bool,
    now: impl Fn(u32, u64) -> bool,
) -> Transfer {
    let mut held: Vec<(u32, Frame)> = Vec::new();
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    duel.open_path(1);
    duel.open_path(2);
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let mut written = 0;
    let mut got = vec![false; bytes];
    let mut outcome = Transfer::default();
    while outcome.received < bytes as u64 && outcome.milliseconds < 120_000 {
        if written < bytes {
            let data = vec![7; bytes - written];
            written += duel
                .victim
                .connection()
                .send_stream(id)
                .write(&data)
                .unwrap_or(0);
        }
        duel.victim.flush();
        let came = duel.collect();
        for (_, opened) in &came {
            let Space::Data(path) = opened.space else {
                continue;
            };
            for frame in &opened.frames {
                if let Frame::Stream { offset, data, .. } = frame {
                    outcome.sent += data.len() as u64;
                    let from = *offset as usize;
                    for byte in &mut got[from..from + data.len()] {
                        outcome.received += u64::from(!std::mem::replace(byte, true));
                    }
                }
            }
            if acks(path, opened.number) {
                let ack = Frame::ack(Some(path.into()), opened.number, opened.number);
                held.push((path, ack));
            }
        }
        let time = outcome.milliseconds;
        let due = held.extract_if(.., |(path, _)| now(*path, time));
        let answer: Vec<Frame> = due.map(|(_, ack)| ack).collect();
        for frames in answer.chunks(50) {
            duel.send(frames);
        }
        duel.victim.advance(Duration::from_millis(10));
        outcome.milliseconds += 10;
        assert!(duel.alive(), "{:?}", duel.reason());
    }
    outcome
}

/// mptcp#474: everything on every path, and a peer that says that it is lost. No copy is made of a copy.
#[test]
fn redundant_copies() {
    const BYTES: usize = 200_000;
    type Acks = fn(u32, u64) -> bool;
    // Each path repeats what it has lost. A peer that leaves out every other packet makes one path alone send all twice
    // in the long run, whatever the scheduler: the same on each of three.
    let peers: [(&str, Acks, u64); 4] = [
        ("honest", |_, _| true, 300),
        ("every other packet", |_, number| number % 2 == 0, 600),
        ("one path never", |path, _| path != 1, 300),
        (
            "one path, every third",
            |path, number| path == 0 || number % 3 == 0,
            300,
        ),
    ];
    for (name, acks, limit) in peers {
        let mut config = quiet();
        config.scheduler(|| Box::new(Redundant::default()));
        let outcome = transfer(config, BYTES, acks);
        assert_eq!(outcome.received, BYTES as u64, "{name}: {outcome:?}");
        figure(
            "redundant blow-up",
            &format!("hundredths of a byte sent per byte, 3 paths, acknowledges {name}"),
            100 * outcome.sent / BYTES as u64,
            limit,
        );
    }
}

/// A path whose acknowledgements do not come falls suspect, and what it has in flight is offered to the others: a peer that holds
/// them back and sends them later would have all that sent again, a window each time. While it may be the peer that stands
/// still, only a little is offered.
#[test]
fn acknowledgements_in_bursts() {
    const BYTES: usize = 20_000_000;
    type Now = fn(u32, u64) -> bool;
    let peers: [(&str, Now); 5] = [
        ("at once", |_, _| true),
        ("one path's every 100 ms", |path, at| {
            path != 1 || at % 100 == 0
        }),
        ("every path's every 300 ms", |_, at| at % 300 == 0),
        ("every path's every 300 ms, in turns", |path, at| {
            at % 300 == u64::from(path) * 100
        }),
        ("every path's every 3 s", |_, at| at % 3000 == 0),
    ];
    for (name, now) in peers {
        let mut config = quiet();
        config.scheduler(|| Box::new(RoundRobin::default()));
        let outcome = transfer_held(config, BYTES, |_, _| true, now);
        assert_eq!(outcome.received, BYTES as u64, "{name}: {outcome:?}");
        figure(
            "suspicion for nothing",
            &format!("hundredths of a byte sent per byte, acknowledges {name}"),
            100 * outcome.sent / BYTES as u64,
            110,
        );
    }
}

/// Answers at random with all that the contract allows: waits without end, data that is not there, copies to paths that
/// are not.
struct Nonsense(u64);

impl Nonsense {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % below
    }
}

impl Scheduler for Nonsense {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let count = cx.sendable().count() as u64;
        let at = self.draw(count.max(1));
        let Some(path) = cx.sendable().nth(at as usize) else {
            return Decision::Wait { until: None };
        };
        let data = match self.draw(10) {
            0 => Data::Retransmit,
            1 => Data::Control,
            2 => Data::Stream(StreamId::new(Side::Server, Dir::Uni, self.draw(2))),
            3 => Data::Stream(StreamId::new(Side::Client, Dir::Bi, 1 << 50)),
            4 => Data::Ahead(self.draw(5000)),
            5 => Data::Ahead(u64::MAX),
            6 => Data::Reinject,
            7 => Data::Redundant,
            8 => {
                let waits = [
                    None,
                    Some(cx.now),
                    cx.now.checked_sub(SECOND),
                    cx.now.checked_add(1000 * SECOND),
                ];
                let until = waits[self.draw(4) as usize];
                return Decision::Wait { until };
            }
            _ => Data::Next,
        };
        Decision::Send {
            path: path.index,
            data,
            copies: PathSet::from_bits(self.draw(1 << 16) as u16),
        }
    }
}

/// Never sends anything.
struct Idle;

impl Scheduler for Idle {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Wait { until: None }
    }
}

/// The transport does not wait for ever with nothing in flight: after a probe timeout it sends one packet by itself.
#[test]
fn a_scheduler_that_never_sends() {
    const BYTES: usize = 20_000;
    let mut config = quiet();
    config.scheduler(|| Box::new(Idle));
    let outcome = transfer(config, BYTES, |_, _| true);
    assert_eq!(outcome.received, BYTES as u64, "{outcome:?}");
    figure(
        "policy without sense",
        "ms for 20 kB with a scheduler that never sends",
        outcome.milliseconds,
        5000,
    );
}

/// A learned policy can answer anything. What its scheduler makes of it may be slow, but all data arrives, nothing
/// panics, and no more is sent than each byte on each path.
#[test]
fn decisions_without_sense() {
    const BYTES: usize = 100_000;
    let (mut slowest, mut most) = (0, 0);
    for seed in 0..20 {
        let mut config = quiet();
        config.scheduler(move || Box::new(Nonsense(seed)));
        let outcome = transfer(config, BYTES, |_, _| true);
        assert_eq!(outcome.received, BYTES as u64, "{seed}: {outcome:?}");
        slowest = slowest.max(outcome.milliseconds);
        most = most.max(outcome.sent);
    }
    figure(
        "policy without sense",
        "ms for 100 kB at most, of 20 schedulers",
        slowest,
        5000,
    );
    figure(
        "policy without sense",
        "hundredths of a byte sent per byte, 3 paths",
        100 * most / BYTES as u64,
        300,
    );
}
