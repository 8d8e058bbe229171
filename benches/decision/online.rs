//! What it costs to decide with a network that learns meanwhile: a question per decision, a chunk's lessons, and the
//! longest time between a question and its answer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_sched::{
    Acked, Context, Dir, PathView, QueueView, Scheduler, Sent, Side, StreamHints, StreamId,
    StreamUpdate, StreamUpdateKind,
};
use serde_json::{Value, json};

use crate::schedulers::{built, queue, views};

/// Bytes of a chunk, and what of it a decision sends.
const CHUNK: u64 = 60_000;
const PART: u16 = 6_000;

/// A scheduler that is asked about a new state each time: chunks of ten decisions, 50 ms apart, then they arrive.
struct Player {
    scheduler: Box<dyn Scheduler>,
    paths: Vec<PathView>,
    queue: QueueView,
    now: Instant,
    number: u64,
    chunk: u64,
}

impl Player {
    /// One that has experience for some thousand batches.
    fn new(config: &Value) -> Self {
        let mut player = Self {
            scheduler: built("dqn_online", config),
            paths: views(2),
            queue: queue(),
            now: Instant::now(),
            number: 0,
            chunk: 0,
        };
        for _ in 0..100 {
            player.begin();
            for _ in 0..10 {
                player.decide();
                player.sent();
            }
            player.arrive();
        }
        player
    }

    fn stream(&mut self, kind: StreamUpdateKind) {
        let id = StreamId::new(Side::Server, Dir::Uni, self.chunk);
        self.scheduler.on_stream(&StreamUpdate::new(id, kind));
    }

    fn begin(&mut self) {
        self.chunk += 1;
        let hints = StreamHints {
            chunk: Some(self.chunk),
            size: Some(CHUNK),
            ..StreamHints::default()
        };
        self.stream(StreamUpdateKind::Hint(hints));
        self.stream(StreamUpdateKind::Written(CHUNK));
    }

    /// A question: the action before has been in force for 50 ms.
    #[inline]
    fn decide(&mut self) {
        self.number += 1;
        self.now += Duration::from_millis(50);
        self.paths[1].in_flight = 40_000 + self.number * 7919 % 50_000;
        let cx = Context::new(
            self.now,
            black_box(&self.paths),
            black_box(&self.queue),
            self.number,
        );
        let _ = black_box(self.scheduler.decide(&cx));
    }

    fn sent(&mut self) {
        let path = self.paths[0].index;
        let sent = Sent::new(path, self.now, 1452, self.number, false, PART);
        self.scheduler.on_sent(&sent);
    }

    /// All of the chunk has arrived: with lessons at the end of a chunk, this is when they are.
    fn arrive(&mut self) {
        let path = self.paths[0].index;
        let acked = Acked::new(
            path,
            self.now,
            self.now,
            1452,
            None,
            Some(self.number),
            CHUNK,
        );
        self.scheduler.on_acked(&acked);
        self.stream(StreamUpdateKind::FullyAcked);
    }

    fn steps(&self) -> u64 {
        let learned = self.scheduler.learned().expect("it learns");
        learned
            .online
            .expect("it learns within the connection")
            .steps
    }
}

/// A decision for which the network is asked, each time; the first packets of one endless chunk.
pub(crate) fn questions(c: &mut Criterion) {
    for (name, config) in [
        ("greedy", json!({"epsilon_decay": 0, "replay": 1000})),
        ("exploring", json!({"epsilon_decay": 1, "replay": 1000})),
    ] {
        let mut player = None;
        c.benchmark_group("scheduler/dqn_online")
            .bench_function(format!("question/{name}"), |b| {
                let player = player.get_or_insert_with(|| {
                    let mut player = Player::new(&config);
                    player.begin();
                    player
                });
                b.iter(|| player.decide());
            });
    }
}

/// The lessons at the end of a chunk of half a second, 50 steps of learning.
pub(crate) fn train(c: &mut Criterion) {
    let mut player = None;
    c.benchmark_group("scheduler/dqn_online")
        .bench_function("chunk_of_50_steps", |b| {
            let player = player.get_or_insert_with(|| Player::new(&json!({"replay": 1000})));
            b.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    player.begin();
                    for _ in 0..10 {
                        player.decide();
                        player.sent();
                    }
                    let began = Instant::now();
                    player.arrive();
                    spent += began.elapsed();
                }
                spent
            });
        });
}

/// Prints how long decisions took that asked the network, while a thread learned as fast as it could and while none
/// did: the time between the question and its answer, which is within the one call.
pub(crate) fn gap() {
    for (name, config) in [
        (
            "nobody learns",
            json!({"train": "thread", "batch": 1024, "replay": 1, "step_ms": 10_000}),
        ),
        ("a step each 10 ms", json!({"train": "thread"})),
        ("a step each 1 ms", json!({"train": "thread", "step_ms": 1})),
    ] {
        let mut player = Player::new(&config);
        let before = player.steps();
        let mut gaps: Vec<Duration> = Vec::with_capacity(1_000_000);
        while gaps.len() < 1_000_000 {
            player.begin();
            for _ in 0..10 {
                let began = Instant::now();
                player.decide();
                gaps.push(began.elapsed());
                player.sent();
            }
            player.arrive();
        }
        gaps.sort_unstable();
        let at = |share: f64| gaps[((gaps.len() - 1) as f64 * share) as usize];
        println!(
            "{name}: {} questions, {} steps meanwhile; median {:?}, 99 % {:?}, 99.99 % {:?}, longest {:?}",
            gaps.len(),
            player.steps() - before,
            at(0.5),
            at(0.99),
            at(0.9999),
            at(1.0),
        );
    }
}
