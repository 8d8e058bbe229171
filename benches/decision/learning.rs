//! What feeding a scheduler that learns costs: packets that leave and are acknowledged, while rewards settle.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_sched::{Acked, Context, PathView, QueueView, Scheduler, Sent};
use serde_json::json;

use crate::schedulers::{built, queue, scheduler, views};

/// Those that settle late rewards: what that costs is measured with something to settle.
pub(crate) const LEARNING: [&str; 2] = ["linucb", "peekaboo"];

/// Packets that leave between two stretches of decisions.
pub(crate) const ROUND: u64 = 64;

/// Rounds after which rewards settle, even those of a scheduler that deploys after half a megabyte.
const WARM_UP: u64 = 32;

/// A scheduler that makes one decision for each `packets` packets, which settle meanwhile.
pub(crate) struct Rounds {
    scheduler: Box<dyn Scheduler>,
    packets: u64,
    paths: Vec<PathView>,
    queue: QueueView,
    now: Instant,
    number: u64,
}

impl Rounds {
    /// One that has been at it for a while.
    pub(crate) fn new(name: &str, packets: u64) -> Self {
        let mut paths = views(2);
        (paths[1].can_send, paths[1].in_flight) = (false, paths[1].cwnd);
        let scheduler = match name {
            // Deployed with full histories after half a megabyte, for good.
            "peekaboo" => built(
                name,
                &json!({"tx_bytes": 250_000, "wt_bytes": 250_000, "candidate_bytes": 0, "estimate_bytes": 0,
                        "relearn": false}),
            ),
            _ => scheduler(name),
        };
        let mut rounds = Self {
            scheduler,
            packets,
            paths,
            queue: queue(),
            now: Instant::now(),
            number: 0,
        };
        for _ in 0..WARM_UP {
            rounds.decide();
            rounds.feed();
        }
        rounds
    }

    /// The decisions of a round; not on the clock.
    pub(crate) fn decide(&mut self) {
        for _ in 0..ROUND / self.packets {
            self.number += 1;
            // Each time another context.
            self.paths[1].in_flight = 90_000 + self.number % 1000 * 10;
            let cx = Context::new(self.now, &self.paths, &self.queue, self.number);
            let _ = black_box(self.scheduler.decide(&cx));
            // A wait is over.
            self.paths[1].can_send = true;
            let cx = Context::new(self.now, &self.paths, &self.queue, self.number);
            let _ = black_box(self.scheduler.decide(&cx));
            self.paths[1].can_send = false;
        }
    }

    /// The decisions of a round with a packet after each, which leaves; not on the clock.
    pub(crate) fn decide_and_send(&mut self) {
        for _ in 0..ROUND {
            self.number += 1;
            self.now += Duration::from_micros(200);
            self.paths[1].in_flight = 90_000 + self.number % 1000 * 10;
            let cx = Context::new(self.now, &self.paths, &self.queue, self.number);
            let _ = black_box(self.scheduler.decide(&cx));
            // A wait is over.
            self.paths[1].can_send = true;
            let cx = Context::new(self.now, &self.paths, &self.queue, self.number);
            let _ = black_box(self.scheduler.decide(&cx));
            self.paths[1].can_send = false;
            let path = self.paths[self.number as usize % 2].index;
            let sent = Sent::new(path, self.now, 1452, self.number, false, 1400);
            self.scheduler.on_sent(&sent);
        }
    }

    /// The acknowledgements of these packets. Each completes the reward of one decision, that of 65 packets before.
    #[inline]
    pub(crate) fn acknowledge(&mut self) {
        let left = self.now;
        for number in self.number - ROUND + 1..=self.number {
            self.now += Duration::from_micros(20);
            let path = self.paths[number as usize % 2].index;
            let acked = Acked::new(path, self.now, left, 1452, None, Some(number), 1400);
            self.scheduler.on_acked(black_box(&acked));
        }
    }

    /// How many rewards were learned from so far.
    fn settled(&self) -> u64 {
        let learned = self.scheduler.learned().expect("it learns");
        learned.pairs.iter().map(|pair| pair.settled).sum()
    }

    /// The packets of a round, each sent and acknowledged.
    #[inline]
    pub(crate) fn feed(&mut self) {
        for _ in 0..ROUND {
            let left = self.now;
            self.now += Duration::from_micros(200);
            let path = self.paths[self.number as usize % 2].index;
            let sent = Sent::new(path, left, 1452, self.number, false, 1400);
            self.scheduler.on_sent(black_box(&sent));
            let number = Some(self.number);
            let acked = Acked::new(path, self.now, left, 1452, None, number, 1400);
            self.scheduler.on_acked(black_box(&acked));
        }
    }

    /// # Panics
    ///
    /// If nothing settled: then something else was measured.
    pub(crate) fn check(&self) {
        let learned = self.scheduler.learned().expect("it learns");
        let settled = learned.pairs.iter().any(|pair| pair.settled > 0);
        assert!(settled && learned.dropped == 0, "{learned}");
    }
}

/// One acknowledgement that completes the reward of one decision, which is learned from: LinUCB updates its model, but
/// only before its next decision, which is not on the clock here; `instructions.sh` counts both as `rounds`. Of Peekaboo, in
/// deployment, one decision in eight is judged, and the others have no reward to settle; the reward of the other arm is
/// looked up with the decision, which is in `rounds`, too.
pub(crate) fn acked_and_settled(c: &mut Criterion) {
    for name in LEARNING {
        let mut rounds = None;
        c.benchmark_group(format!("scheduler/{name}"))
            .bench_function("acked_and_settled", |b| {
                let rounds = rounds.get_or_insert_with(|| {
                    let mut rounds = Rounds::new(name, 1);
                    for _ in 0..4 {
                        rounds.decide_and_send();
                        rounds.acknowledge();
                    }
                    rounds
                });
                b.iter_custom(|iterations| {
                    let count = iterations.div_ceil(ROUND);
                    let before = rounds.settled();
                    let mut spent = Duration::ZERO;
                    for _ in 0..count {
                        rounds.decide_and_send();
                        let began = Instant::now();
                        rounds.acknowledge();
                        spent += began.elapsed();
                    }
                    let every = if name == "linucb" { 1 } else { 8 };
                    let settled = rounds.settled() - before;
                    assert!(
                        settled.abs_diff(count * ROUND / every) <= 1,
                        "{name}: {settled} of {count} rounds"
                    );
                    spent.mul_f64(iterations as f64 / (count * ROUND) as f64)
                });
            });
    }
}

pub(crate) fn sent_and_acked(c: &mut Criterion) {
    for name in LEARNING {
        for packets in [1, 2, 8] {
            let id = format!("sent_and_acked/{packets}_a_decision");
            // Made when it is first measured: a filter may leave this bench out.
            let mut rounds = None;
            c.benchmark_group(format!("scheduler/{name}"))
                .bench_function(id, |b| {
                    let rounds = rounds.get_or_insert_with(|| Rounds::new(name, packets));
                    b.iter_custom(|iterations| {
                        let count = iterations.div_ceil(ROUND);
                        let mut spent = Duration::ZERO;
                        for _ in 0..count {
                            rounds.decide();
                            let began = Instant::now();
                            rounds.feed();
                            spent += began.elapsed();
                        }
                        spent.mul_f64(iterations as f64 / (count * ROUND) as f64)
                    });
                    rounds.check();
                });
        }
    }
}
