//! What a scheduling decision costs, and what telling a scheduler of one acknowledged packet costs: for schedulers by
//! name. Which ones those are is for `main.rs` here and for the bench `inference` to say.
//!
//! The views are made before the clock starts: what refreshing them costs is the transport's.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_sched::{
    Acked, Context, Decision, Dir, PathIndex, PathView, QueueView, Scheduler, Sent, Side, StreamId,
    StreamUpdate, StreamUpdateKind, StreamView,
};
use serde_json::{Value, json};

/// Those that may wait for the fastest path, or leave a gap for it, are measured with that path full,
/// which is when they have something to weigh.
const WAITING: &[&str] = &[
    "arrival",
    "blest",
    "blest_overflow",
    "ecf",
    "ecf_a",
    "kept",
    "sa_ecf",
    "linucb",
    "peek_frozen",
    "peekaboo",
    "daps_gap",
    "dems",
    "stms",
    "gaps",
];

/// Those whose next decision rests on whether the packet of the last one left: they are told.
pub(crate) const HEEDFUL: &[&str] = &["daps", "fstream", "sailfish", "stream_minrtt"];

/// Open paths with different RTTs; every fourth one is full, as under load.
pub(crate) fn views(count: usize) -> Vec<PathView> {
    let view = |slot: usize| {
        let mut view = PathView::of(slot, Duration::from_micros(80_000 - 7_000 * slot as u64));
        view.can_send = slot % 4 != 2;
        view.pto = view.smoothed_rtt + Duration::from_millis(25);
        view.cwnd = 100_000;
        view.ssthresh = 80_000;
        view.in_flight = 50_000;
        view
    };
    (0..count).map(view).collect()
}

/// A long queue that flow control does not hold back.
pub(crate) fn queue() -> QueueView {
    let mut queue = QueueView::default();
    queue.unsent = 1_000_000;
    (queue.window_left, queue.flow_control_window) = (6_000_000, 6_000_000);
    queue
}

/// Looks at nothing: what asking costs by itself.
struct Floor(PathIndex);

impl Scheduler for Floor {
    fn decide(&mut self, _cx: &Context<'_>) -> Decision {
        Decision::send(self.0)
    }
}

pub(crate) fn scheduler(name: &str) -> Box<dyn Scheduler> {
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
        "dqn_online" => json!({"seed": 3, "replay": 1000}),
        // Untaught as it is, it transmits, and decides anew each time.
        _ => Value::Null,
    };
    let mut scheduler = built(name, &config);
    if name.starts_with("dqn") {
        // A chunk without end, so that the action holds for as long as time stands still.
        let id = StreamId::new(Side::Server, Dir::Uni, 0);
        let written = StreamUpdateKind::Written(1 << 60);
        scheduler.on_stream(&StreamUpdate::new(id, written));
    }
    scheduler
}

pub(crate) fn built(name: &str, config: &Value) -> Box<dyn Scheduler> {
    crate::registry()
        .build(name, config)
        .expect("a built-in scheduler with a good configuration")
}

/// A scheduler, and what it is asked about.
pub(crate) struct Asked {
    scheduler: Box<dyn Scheduler>,
    now: Instant,
    paths: Vec<PathView>,
    queue: QueueView,
    streams: Vec<StreamView>,
    number: u64,
}

impl Asked {
    pub(crate) fn new(name: &str, count: usize) -> Self {
        let mut paths = views(count);
        if WAITING.contains(&name) {
            let fastest = &mut paths[count - 1];
            (fastest.can_send, fastest.in_flight) = (false, fastest.cwnd);
        }
        let stream = |n| StreamView::new(StreamId::new(Side::Server, Dir::Uni, n), 0, 125_000);
        Self {
            scheduler: scheduler(name),
            now: Instant::now(),
            paths,
            queue: queue(),
            streams: (0..8).map(stream).collect(),
            number: 0,
        }
    }

    #[inline]
    pub(crate) fn decide(&mut self) -> Option<PathIndex> {
        self.number += 1;
        let (paths, queue) = (black_box(&self.paths), black_box(&self.queue));
        let cx = Context::new(self.now, paths, queue, self.number)
            .with_streams(black_box(&self.streams));
        // Taken apart as a transport does; moving the whole answer into a black box would cost more than making it.
        match self.scheduler.decide(&cx) {
            Decision::Send { path, .. } => Some(path),
            Decision::Wait { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn decide_and_send(&mut self) -> Option<PathIndex> {
        let path = self.decide()?;
        let sent = Sent::new(path, self.now, 1452, self.number, false, 1400);
        self.scheduler.on_sent(&sent);
        Some(path)
    }
}

pub(crate) fn decide(c: &mut Criterion, names: &[&str]) {
    for &name in names {
        let mut group = c.benchmark_group(format!("scheduler/{name}"));
        for count in [2, 4, 8] {
            let mut asked = Asked::new(name, count);
            group.bench_function(format!("{count}paths"), |b| {
                if HEEDFUL.contains(&name) {
                    b.iter(|| asked.decide_and_send());
                } else {
                    b.iter(|| asked.decide());
                }
            });
        }
        group.finish();
    }
}

/// A scheduler that is told of one acknowledged packet after the other, on two paths in turn.
pub(crate) struct Told {
    scheduler: Box<dyn Scheduler>,
    slots: [PathIndex; 2],
    sent: Instant,
    now: Instant,
    number: u64,
}

impl Told {
    pub(crate) fn new(name: &str) -> Self {
        let sent = Instant::now();
        Self {
            scheduler: scheduler(name),
            slots: [0, 1].map(|slot| PathIndex::new(slot).expect("below MAX_PATHS")),
            sent,
            now: sent + Duration::from_millis(20),
            number: 0,
        }
    }

    #[inline]
    pub(crate) fn acked(&mut self) {
        self.number += 1;
        let path = self.slots[self.number as usize % 2];
        let rtt = Some(Duration::from_millis(20));
        let number = Some(self.number);
        let acked = Acked::new(path, self.now, self.sent, 1452, rtt, number, 1400);
        self.scheduler.on_acked(black_box(&acked));
    }
}

pub(crate) fn acked(c: &mut Criterion, names: &[&str]) {
    for &name in names {
        let mut told = Told::new(name);
        c.benchmark_group(format!("scheduler/{name}"))
            .bench_function("acked", |b| b.iter(|| told.acked()));
    }
}
