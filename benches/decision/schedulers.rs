//! What a scheduling decision costs, and what feeding a scheduler one acknowledged packet costs.
//!
//! The views are made before the clock starts: what refreshing them costs is the transport's.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_sched::{
    Acked, Context, Decision, Dir, PathIndex, PathView, QueueView, Registry, Scheduler, Sent, Side,
    StreamId, StreamUpdate, StreamUpdateKind, StreamView,
};
use serde_json::{Value, json};

const SCHEDULERS: &[&str] = &[
    "floor",
    "minrtt",
    "roundrobin",
    "blest",
    "blest_overflow",
    "ecf",
    "ecf_a",
    "ecf_nowait",
    "sa_ecf",
    "linucb",
    "peek_frozen",
    "peekaboo",
    "backup",
    "daps",
    "daps_gap",
    "minrtt_ns3",
    "redundant",
    "rr_ns3",
    "sailfish",
    "stms",
    "stream_minrtt",
    "ucb",
    "ucb_block",
    "dqn",
    "gaps",
];

/// Those that may wait for the fastest path, or leave a gap for it, are measured with that path full,
/// which is when they have something to weigh.
const WAITING: &[&str] = &[
    "blest",
    "blest_overflow",
    "ecf",
    "ecf_a",
    "sa_ecf",
    "linucb",
    "peek_frozen",
    "peekaboo",
    "daps_gap",
    "stms",
    "gaps",
];

/// Those whose next decision rests on whether the packet of the last one left: they are told.
const HEEDFUL: &[&str] = &["daps", "sailfish", "stream_minrtt"];

/// Those that ask a network now and then: what that costs is measured with a question for each packet.
const NEURAL: &[&str] = &["gaps"];

/// Those that settle late rewards: what that costs is measured with something to settle.
const LEARNING: [&str; 2] = ["linucb", "peekaboo"];

/// Open paths with different RTTs; every fourth one is full, as under load.
fn views(count: usize) -> Vec<PathView> {
    let view = |slot: usize| {
        let mut view = PathView::closed(PathIndex::new(slot).expect("below MAX_PATHS"));
        view.id = slot as u32;
        view.open = true;
        view.can_send = slot % 4 != 2;
        view.smoothed_rtt = Duration::from_micros(80_000 - 7_000 * slot as u64);
        view.pto = view.smoothed_rtt + Duration::from_millis(25);
        view.cwnd = 100_000;
        view.ssthresh = 80_000;
        view.in_flight = 50_000;
        view
    };
    (0..count).map(view).collect()
}

/// Looks at nothing: what asking costs by itself.
struct Floor(PathIndex);

impl Scheduler for Floor {
    fn decide(&mut self, _cx: &Context<'_>) -> Decision {
        Decision::send(self.0)
    }
}

fn scheduler(name: &str) -> Box<dyn Scheduler> {
    if name == "floor" {
        return Box::new(Floor(views(1)[0].index));
    }
    let config = match name {
        // It would wait from the tenth decision on, and a wait that stands is no decision.
        "peek_frozen" => json!({"p_tx": 1}),
        // Deployed at once, which is what it is for most of its life.
        "peekaboo" => json!({
            "tx_bytes": 0, "wt_bytes": 0, "candidate_bytes": 0, "estimate_bytes": 0,
        }),
        // The action drawn first is to draw between the paths, which costs the most.
        "dqn" => json!({"model": "random", "seed": 3}),
        // Untaught as it is, it transmits, and decides anew each time.
        _ => Value::Null,
    };
    let mut scheduler = built(name, &config);
    if name == "dqn" {
        // A chunk without end, so that the action holds for as long as time stands still.
        let id = StreamId::new(Side::Server, Dir::Uni, 0);
        let written = StreamUpdateKind::Written(1 << 60);
        scheduler.on_stream(&StreamUpdate::new(id, written));
    }
    scheduler
}

fn built(name: &str, config: &Value) -> Box<dyn Scheduler> {
    Registry::new()
        .build(name, config)
        .expect("a built-in scheduler with a good configuration")
}

pub(crate) fn decide(c: &mut Criterion) {
    let now = Instant::now();
    let mut queue = QueueView::default();
    queue.unsent = 1_000_000;
    (queue.window_left, queue.credit) = (6_000_000, 6_000_000);
    let streams: Vec<_> = (0..8)
        .map(|n| StreamView::new(StreamId::new(Side::Server, Dir::Uni, n), 0, 125_000))
        .collect();
    for &name in SCHEDULERS {
        let mut group = c.benchmark_group(format!("scheduler/{name}"));
        for count in [2, 4, 8] {
            let mut paths = views(count);
            if WAITING.contains(&name) {
                let fastest = &mut paths[count - 1];
                (fastest.can_send, fastest.in_flight) = (false, fastest.cwnd);
            }
            let mut scheduler = scheduler(name);
            let mut number = 0;
            let decide = |scheduler: &mut dyn Scheduler, number| {
                let cx = Context::new(now, black_box(&paths), black_box(&queue), number)
                    .with_streams(black_box(&streams));
                // Taken apart as a transport does; moving the whole answer into a black box would
                // cost more than making it.
                match scheduler.decide(&cx) {
                    Decision::Send { path, .. } => Some(path),
                    Decision::Wait { .. } => None,
                }
            };
            group.bench_function(format!("{count}paths"), |b| {
                if !HEEDFUL.contains(&name) {
                    b.iter(|| {
                        number += 1;
                        decide(&mut *scheduler, number)
                    });
                    return;
                }
                b.iter(|| {
                    number += 1;
                    let path = decide(&mut *scheduler, number)?;
                    scheduler.on_sent(&Sent::new(path, now, 1452, number, false, 1400));
                    Some(path)
                });
            });
        }
        group.finish();
    }
}

/// Packets that leave between decisions, in a round of [`learning`].
const ROUND: u64 = 64;

/// One packet sent and acknowledged, with one decision for each `packets` of them, which settle
/// meanwhile. Making the decisions is not on the clock.
fn learning(c: &mut Criterion, name: &str, packets: u64) {
    let mut paths = views(2);
    (paths[1].can_send, paths[1].in_flight) = (false, paths[1].cwnd);
    let mut queue = QueueView::default();
    queue.unsent = 1_000_000;
    (queue.window_left, queue.credit) = (6_000_000, 6_000_000);
    let mut scheduler = match name {
        // Deployed with full histories after half a megabyte, for good.
        "peekaboo" => built(
            name,
            &json!({"tx_bytes": 250_000, "wt_bytes": 250_000, "candidate_bytes": 0, "estimate_bytes": 0,
                    "relearn": false}),
        ),
        _ => scheduler(name),
    };
    let (mut now, mut number) = (Instant::now(), 0_u64);
    c.benchmark_group(format!("scheduler/{name}"))
        .bench_function(format!("sent_and_acked/{packets}_a_decision"), |b| {
            b.iter_custom(|iterations| {
                let rounds = iterations.div_ceil(ROUND);
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    for _ in 0..ROUND / packets {
                        number += 1;
                        // Each time another context.
                        paths[1].in_flight = 90_000 + number % 1000 * 10;
                        let cx = Context::new(now, &paths, &queue, number);
                        let _ = black_box(scheduler.decide(&cx));
                        // A wait is over.
                        paths[1].can_send = true;
                        let cx = Context::new(now, &paths, &queue, number);
                        let _ = black_box(scheduler.decide(&cx));
                        paths[1].can_send = false;
                    }
                    let began = Instant::now();
                    for _ in 0..ROUND {
                        let left = now;
                        now += Duration::from_micros(200);
                        let path = paths[number as usize % 2].index;
                        scheduler
                            .on_sent(black_box(&Sent::new(path, left, 1452, number, false, 1400)));
                        let acked = Acked::new(path, now, left, 1452, None, Some(number), 1400);
                        scheduler.on_acked(black_box(&acked));
                    }
                    spent += began.elapsed();
                }
                spent.mul_f64(iterations as f64 / (rounds * ROUND) as f64)
            });
        });
    let learned = scheduler.learned().expect("it learns");
    assert!(
        learned.pairs[0].settled > 0 && learned.dropped == 0,
        "{learned}"
    );
}

/// A packet acknowledged and a decision, for which the policy is asked each time: inline, so that its answer is on the
/// clock.
fn policy(c: &mut Criterion, name: &str) {
    let mut queue = QueueView::default();
    queue.unsent = 1_000_000;
    (queue.window_left, queue.credit) = (6_000_000, 6_000_000);
    let mut group = c.benchmark_group(format!("scheduler/{name}"));
    for count in [2, 8] {
        let mut paths = views(count);
        let fastest = &mut paths[count - 1];
        (fastest.can_send, fastest.in_flight) = (false, fastest.cwnd);
        let mut scheduler = built(name, &json!({"interval_ms": 0, "round_trips": 0}));
        let (mut now, mut number) = (Instant::now(), 0_u64);
        group.bench_function(format!("policy/{count}paths"), |b| {
            b.iter(|| {
                number += 1;
                now += Duration::from_micros(200);
                let path = paths[number as usize % count].index;
                let rtt = Some(Duration::from_millis(20));
                let acked = Acked::new(path, now, now, 1452, rtt, Some(number), 1400);
                scheduler.on_acked(black_box(&acked));
                let cx = Context::new(now, black_box(&paths), black_box(&queue), number);
                scheduler.decide(&cx)
            });
        });
        let asked = scheduler.learned().and_then(|learned| learned.policy);
        let asked = asked.expect("it has a policy");
        assert!(
            number == 0 || asked.decisions == number && asked.fallbacks.total() == 0,
            "{asked}"
        );
    }
    group.finish();
}

/// Binding a stream by a policy, from its first bytes to its reward, which happens once in its life: on two paths, with
/// seven streams before it that are bound already.
fn binding(c: &mut Criterion) {
    let paths = views(2);
    let mut queue = QueueView::default();
    queue.unsent = 1_000_000;
    (queue.window_left, queue.credit) = (6_000_000, 6_000_000);
    let id = |n| StreamId::new(Side::Server, Dir::Uni, n);
    let mut streams: Vec<_> = (0..8).map(|n| StreamView::new(id(n), 0, 125_000)).collect();
    let now = Instant::now();
    let mut scheduler = scheduler("sailfish");
    let mut number = 0_u64;
    c.benchmark_group("scheduler/sailfish")
        .bench_function("bind_and_reward", |b| {
            b.iter(|| {
                number += 1;
                // The new one goes first.
                streams[0].id = id(7 + number);
                scheduler.on_stream(&StreamUpdate::new(
                    streams[0].id,
                    StreamUpdateKind::Written(125_000),
                ));
                let cx = Context::new(now, black_box(&paths), black_box(&queue), number)
                    .with_streams(black_box(&streams));
                if let Decision::Send { path, .. } = scheduler.decide(&cx) {
                    scheduler.on_sent(&Sent::new(path, now, 1452, number, false, 1400));
                }
                scheduler.on_stream(&StreamUpdate::new(
                    streams[0].id,
                    StreamUpdateKind::FullyAcked,
                ));
            });
        });
    let learned = scheduler.learned().expect("it reports");
    let policy = learned.policy.expect("it asks one");
    assert!(policy.decisions >= number && policy.fallbacks.total() == 0);
}

pub(crate) fn feedback(c: &mut Criterion) {
    for &name in NEURAL {
        policy(c, name);
    }
    binding(c);
    for name in LEARNING {
        for packets in [1, 2, 8] {
            learning(c, name, packets);
        }
    }
    let sent = Instant::now();
    let now = sent + Duration::from_millis(20);
    for &name in SCHEDULERS {
        let mut scheduler = scheduler(name);
        let slots = [0, 1].map(|slot| PathIndex::new(slot).expect("below MAX_PATHS"));
        let mut number = 0_u64;
        c.benchmark_group(format!("scheduler/{name}"))
            .bench_function("acked", |b| {
                b.iter(|| {
                    number += 1;
                    let path = slots[number as usize % 2];
                    let rtt = Some(Duration::from_millis(20));
                    let acked = Acked::new(path, now, sent, 1452, rtt, Some(number), 1400);
                    scheduler.on_acked(black_box(&acked));
                });
            });
    }
}
