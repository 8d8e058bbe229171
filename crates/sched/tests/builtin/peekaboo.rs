//! Peekaboo's stages over a toy network: one sender with two paths, fixed windows and delays.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_bandit::Draw;
use mpquic_sched::memory::Store;
use mpquic_sched::{
    Acked, Context, Decision, LearnedPair, PathId, PathIndex, PathKey, PathUpdate, PathUpdateKind,
    PathView, Peekaboo, PeekabooConfig, QueueView, Registry, Scheduler, Sent, Step,
};
use serde_json::{Value, json};

const PACKET: u64 = 1200;

/// A path: round trip, deviation from it at random, window in packets.
#[derive(Clone, Copy)]
struct Line {
    rtt: f64,
    jitter: f64,
    window: u64,
}

/// Transmitting on the second path is right: a packet is through before the first one has room.
const EVEN: [Line; 2] = [line(40.0, 2), line(44.0, 20)];
/// Waiting is right: whatever goes on the second path holds up many round trips of the first.
const UNEVEN: [Line; 2] = [line(40.0, 20), line(240.0, 20)];

/// As even, with room for more.
const BROAD: [Line; 2] = [line(40.0, 20), line(44.0, 20)];

const fn line(rtt: f64, window: u64) -> Line {
    Line {
        rtt,
        jitter: 4.0,
        window,
    }
}

/// A packet under way: when its acknowledgement comes, when it left, its place in the data.
type Packet = (f64, f64, usize);

struct World {
    scheduler: Box<dyn Scheduler>,
    start: Instant,
    now: f64,
    number: u64,
    lines: [Line; 2],
    flying: [VecDeque<Packet>; 2],
    /// By place in the data.
    arrived: Vec<bool>,
    contiguous: usize,
    draw: Draw,
    dead: bool,
    /// The path of each packet.
    sent: Vec<usize>,
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

impl World {
    fn new(scheduler: impl Scheduler + 'static, lines: [Line; 2]) -> Self {
        Self::of(Box::new(scheduler), lines)
    }

    fn of(mut scheduler: Box<dyn Scheduler>, lines: [Line; 2]) -> Self {
        let start = Instant::now();
        for index in 0..2 {
            for kind in [PathUpdateKind::Opened, PathUpdateKind::Validated] {
                let event = PathUpdate::new(slot(index), PathId(index as u32), start, kind);
                scheduler.on_path(&event.with_key(PathKey::new(7 + index as u64)));
            }
        }
        Self {
            scheduler,
            start,
            now: 0.0,
            number: 0,
            lines,
            flying: Default::default(),
            arrived: Vec::new(),
            contiguous: 0,
            draw: Draw::new(3),
            dead: false,
            sent: Vec::new(),
        }
    }

    fn at(&self, ms: f64) -> Instant {
        self.start + Duration::from_nanos((ms * 1e6) as u64)
    }

    fn views(&self) -> [PathView; 2] {
        [0, 1].map(|index| {
            let line = &self.lines[index];
            let in_flight = self.flying[index].len() as u64;
            let mut view = PathView::closed(slot(index));
            (view.id, view.open, view.mtu) = (PathId(index as u32), true, PACKET as u16);
            view.can_send = in_flight < line.window;
            view.smoothed_rtt = Duration::from_nanos((line.rtt * 1e6) as u64);
            (view.latest_rtt, view.min_rtt) = (view.smoothed_rtt, view.smoothed_rtt);
            view.rtt_var = Duration::from_millis(2);
            view.pto = view.smoothed_rtt + Duration::from_millis(33);
            view.suspect = self.dead && index == 0;
            (view.cwnd, view.in_flight) = (line.window * PACKET, in_flight * PACKET);
            view
        })
    }

    /// Sends what may be sent now; when it wants to be asked again.
    fn send(&mut self, unsent: u64) -> Option<Instant> {
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left, queue.flow_control_window) =
            (unsent, 6_000_000, 6_000_000);
        let now = self.at(self.now);
        while queue.unsent > 0 {
            let views = self.views();
            let cx = Context::new(now, &views, &queue, self.number);
            let decision = self.scheduler.decide(&cx);
            self.number += 1;
            match decision {
                Decision::Wait { until } => return until,
                Decision::Send { path, .. } => {
                    let line = &self.lines[path.get()];
                    let delay = line.rtt + line.jitter * (self.draw.unit() - 0.5);
                    let flying = &mut self.flying[path.get()];
                    // In order on each path.
                    let before = flying.back().map_or(0.0, |packet| packet.0);
                    let ack = if self.dead && path.get() == 0 {
                        f64::INFINITY
                    } else {
                        (self.now + delay).max(before)
                    };
                    flying.push_back((ack, self.now, self.arrived.len()));
                    self.arrived.push(false);
                    self.sent.push(path.get());
                    let bytes = PACKET as u16;
                    let sent = Sent::new(path, now, bytes, self.number - 1, false, bytes);
                    self.scheduler.on_sent(&sent);
                    queue.unsent = queue.unsent.saturating_sub(PACKET);
                }
            }
        }
        None
    }

    /// The next thing happens: an acknowledgement, or the end of a wait.
    fn step(&mut self, unsent: u64) {
        let until = self.send(unsent);
        let next = |index: usize| self.flying[index].front().map_or(f64::INFINITY, |p| p.0);
        let (first, ack) = if next(0) <= next(1) {
            (0, next(0))
        } else {
            (1, next(1))
        };
        let until = until.map_or(f64::INFINITY, |until| {
            (until - self.start).as_nanos() as f64 / 1e6
        });
        if until < ack {
            self.now = until.max(self.now + 1e-3);
            return;
        }
        assert!(ack.is_finite(), "nothing will ever happen again");
        self.now = ack;
        let (_, sent, place) = self.flying[first].pop_front().unwrap();
        self.arrived[place] = true;
        let before = self.contiguous;
        while self.arrived.get(self.contiguous) == Some(&true) {
            self.contiguous += 1;
        }
        let bytes = (self.contiguous - before) as u64 * PACKET;
        let (now, sent) = (self.at(self.now), self.at(sent));
        let size = PACKET as u16;
        let acked = Acked::new(slot(first), now, sent, size, None, None, bytes);
        self.scheduler.on_acked(&acked);
    }

    /// Until so many bytes more are contiguous.
    fn run(&mut self, bytes: u64) {
        let until = self.contiguous + (bytes / PACKET) as usize;
        while self.contiguous < until {
            self.step(1 << 20);
        }
    }

    /// Until the pair is in this stage; how many bytes that took.
    fn run_to(&mut self, stage: &str) -> u64 {
        let before = self.contiguous;
        while self.pair().stage.as_deref() != Some(stage) {
            assert!(self.contiguous - before < 20_000, "never in {stage}");
            self.run(PACKET);
        }
        (self.contiguous - before) as u64 * PACKET
    }

    fn pair(&self) -> LearnedPair {
        let learned = self.scheduler.learned().unwrap();
        assert_eq!(learned.refused, 0);
        let pair = learned
            .pairs
            .into_iter()
            .find(|pair| pair.fast == slot(0) && pair.slow == slot(1));
        pair.unwrap_or_else(|| LearnedPair::new(slot(0), slot(1)))
    }

    /// The share of the second path in the packets since.
    fn share_since(&self, place: usize) -> f64 {
        let since = &self.sent[place..];
        since.iter().sum::<usize>() as f64 / since.len() as f64
    }
}

fn config(value: Value) -> PeekabooConfig {
    serde_json::from_value(value).unwrap()
}

const NEVER_WAIT: &str = "learning: never wait";
const NEVER_SEND: &str = "learning: never use the slow path";
const TUNING: &str = "learning: tuning of alpha";
const ESTIMATION: &str = "learning: estimation of q";
const DEPLOYMENT: &str = "deployment";

#[test]
fn the_stages_follow_each_other_by_their_budgets() {
    let mut world = World::new(Peekaboo::default(), UNEVEN);
    world.run(PACKET);
    assert_eq!(world.pair().stage.as_deref(), Some(NEVER_WAIT));
    // What was released before the first decision and what fills the round trips counts, too.
    let near = |bytes: u64, budget: u64| {
        assert!(bytes.abs_diff(budget) <= 120_000, "{bytes} for {budget}");
    };
    near(world.run_to(NEVER_SEND), 750_000);
    let pair = world.pair();
    assert_eq!(pair.waits, 0);
    assert!(pair.decisions > 0);
    let place = world.sent.len();
    near(world.run_to(TUNING), 750_000);
    assert_eq!(world.share_since(place), 0.0);
    let after = world.pair();
    assert_eq!(after.waits, after.decisions - pair.decisions);
    near(world.run_to(ESTIMATION), 7 * 350_000);
    assert_eq!((world.pair().q_tx, world.pair().q_wt), (None, None));
    near(world.run_to(DEPLOYMENT), 350_000);
    let pair = world.pair();
    let alpha = pair.alpha.unwrap();
    assert!((0.1..=1.5).contains(&alpha), "{alpha}");
    assert!(pair.p_tx.is_some() && pair.p_wt.is_some());
    assert!(pair.settled > 1000 && pair.relearned == 0);
}

#[test]
fn it_learns_to_wait_where_waiting_is_right_and_to_transmit_where_that_is() {
    let share = |lines| {
        let mut world = World::new(Peekaboo::default(), lines);
        world.run_to(DEPLOYMENT);
        let place = world.sent.len();
        world.run(1_000_000);
        (world.share_since(place), world.pair())
    };
    let (uneven, pair) = share(UNEVEN);
    assert!(pair.q_wt.is_some_and(|q| q > 0.7), "{pair}");
    let (even, pair) = share(EVEN);
    assert!(even > 0.3 && even > 2.0 * uneven, "{even} {uneven} {pair}");
}

#[test]
fn it_learns_anew_when_the_world_changes_and_not_otherwise() {
    let mut world = World::new(Peekaboo::default(), UNEVEN);
    world.run_to(DEPLOYMENT);
    world.run(20_000_000);
    assert_eq!(world.pair().relearned, 0, "{}", world.pair());
    world.lines = EVEN;
    let mut bytes = 0;
    while world.pair().relearned == 0 {
        world.run(100_000);
        bytes += 100_000;
        assert!(bytes < 10_000_000, "{}", world.pair());
    }
    world.run_to(DEPLOYMENT);
    let place = world.sent.len();
    world.run(1_000_000);
    assert!(world.share_since(place) > 0.3, "{}", world.pair());

    // Not when it is told not to, nor when it forgets.
    for settings in [json!({"relearn": false}), json!({"discount": 0.99})] {
        let mut world = World::new(Peekaboo::new(&config(settings)), UNEVEN);
        world.run_to(DEPLOYMENT);
        world.lines = EVEN;
        world.run(10_000_000);
        assert_eq!(world.pair().relearned, 0);
    }
}

/// What is under way when a pair learns anew uses up its first budget, before any decision.
#[test]
fn a_new_lesson_counts_bytes_at_once() {
    let eager = config(json!({
        "tx_bytes": 12_000, "wt_bytes": 120_000, "candidate_bytes": 12_000, "estimate_bytes": 120_000,
        "samples": 0, "threshold": 0, "least": 1, "judge_every": 1, "pause_ms": 0,
    }));
    let mut world = World::new(Peekaboo::new(&eager), BROAD);
    world.run_to(DEPLOYMENT);
    while world.pair().relearned == 0 {
        world.step(1 << 20);
        assert!(world.contiguous < 20_000, "{}", world.pair());
    }
    assert_eq!(world.pair().stage.as_deref(), Some(NEVER_WAIT));
    let decisions = world.pair().decisions;
    while world.flying.iter().any(|flying| !flying.is_empty()) {
        world.step(0);
    }
    assert_eq!(world.pair().decisions, decisions);
    assert_eq!(world.pair().stage.as_deref(), Some(NEVER_SEND));
}

/// As the paper counts: a budget is traffic, whether or not there was something to decide.
#[test]
fn a_budget_of_released_bytes_counts_them_all() {
    for (budget_of, stage) in [("question", NEVER_WAIT), ("released", NEVER_SEND)] {
        let settings = config(json!({"budget_of": budget_of, "samples": 0}));
        let mut world = World::new(Peekaboo::new(&settings), BROAD);
        world.run(200_000);
        assert!(world.pair().decisions > 0);
        assert_eq!(world.pair().stage.as_deref(), Some(NEVER_WAIT));
        // From now on, one packet at a time: the fast path is never full.
        let until = world.contiguous + (800_000 / PACKET) as usize;
        while world.contiguous < until {
            let room = world.flying[0].len() < 10;
            world.step(if room { PACKET } else { 0 });
        }
        assert_eq!(world.pair().stage.as_deref(), Some(stage), "{budget_of}");
    }
}

/// With the reference from the lesson itself, the first window can already differ from it.
#[test]
fn q_of_the_lesson_can_be_what_deployment_is_held_against() {
    let lasts = |reference: &str| {
        let eager = config(json!({
            "tx_bytes": 60_000, "wt_bytes": 60_000, "candidate_bytes": 12_000, "estimate_bytes": 120_000,
            "threshold": 0, "least": 10, "window": 50, "judge_every": 1, "pause_ms": 0, "reference": reference,
        }));
        let mut world = World::new(Peekaboo::new(&eager), EVEN);
        world.run_to(DEPLOYMENT);
        let before = world.pair().decisions;
        world.run_to(NEVER_WAIT);
        world.pair().decisions - before
    };
    let (learning, deployment) = (lasts("learning"), lasts("deployment"));
    // A window has to be full in both; the other one has to move after that.
    assert!(
        (40..deployment).contains(&learning),
        "{learning} {deployment}"
    );
}

#[test]
fn between_two_lessons_there_is_a_pause() {
    let eager = config(json!({
        "tx_bytes": 60_000, "wt_bytes": 60_000, "candidate_bytes": 12_000, "estimate_bytes": 120_000,
        "threshold": 0, "least": 1, "judge_every": 1, "pause_ms": 3000,
    }));
    let mut world = World::new(Peekaboo::new(&eager), EVEN);
    let mut deployed = None;
    for _ in 0..3 {
        world.run_to(DEPLOYMENT);
        let since = *deployed.insert(world.now);
        world.run_to(NEVER_WAIT);
        let pause = world.now - since;
        // And then until q is another.
        assert!((3000.0..8000.0).contains(&pause), "{pause}");
    }
    assert_eq!(world.pair().relearned, 3);
}

#[test]
fn the_same_seed_decides_the_same() {
    let steps = |seed: u64| {
        let steps = Arc::<Mutex<Vec<String>>>::default();
        let into = Arc::clone(&steps);
        let observer = move |step: &Step| {
            // Without the times, which are of another start.
            if let Step::Decided {
                decision,
                arm,
                scores,
                ..
            } = step
            {
                into.lock()
                    .unwrap()
                    .push(format!("{decision} {arm:?} {scores:?}"));
            }
        };
        let peekaboo = Peekaboo::new(&config(json!({"seed": seed, "least": 10})));
        let mut world = World::new(peekaboo.with_observer(Box::new(observer)), EVEN);
        world.run(8_000_000);
        assert_eq!(world.pair().stage.as_deref(), Some(DEPLOYMENT));
        steps.lock().unwrap().clone()
    };
    let first = steps(1);
    assert_eq!(first, steps(1));
    assert_ne!(first, steps(2));
}

#[test]
fn stages_without_a_budget_are_left_out() {
    let none = json!({"tx_bytes": 0, "wt_bytes": 0, "candidate_bytes": 0, "estimate_bytes": 0});
    let mut world = World::new(Peekaboo::new(&config(none)), EVEN);
    world.run(100_000);
    let pair = world.pair();
    assert_eq!(pair.stage.as_deref(), Some(DEPLOYMENT));
    // Nothing is known: it transmits, and keeps to it.
    assert_eq!(
        (pair.p_tx, pair.p_wt, pair.waits),
        (Some(1.0), Some(1.0), 0)
    );

    let mut world = World::new(Peekaboo::new(&config(json!({"tx_bytes": 0}))), EVEN);
    world.run(200_000);
    assert_eq!(world.pair().stage.as_deref(), Some(NEVER_SEND));
    assert_eq!(world.share_since(0), 0.0);
}

#[test]
fn what_never_fills_the_fast_path_is_no_lesson() {
    let mut world = World::new(Peekaboo::default(), BROAD);
    for _ in 0..200 {
        // Ten packets now and then.
        world.send(10 * PACKET);
        while !world.flying[0].is_empty() {
            world.step(0);
        }
    }
    assert_eq!(world.contiguous, 2000);
    assert_eq!(world.pair().decisions, 0);
    assert_eq!(world.pair().stage, None);
}

#[test]
fn a_pair_that_is_seldom_in_question_gets_on_all_the_same() {
    let mut world = World::new(
        Peekaboo::new(&config(json!({"tx_bytes": 1_000_000}))),
        BROAD,
    );
    let mut rounds = 0;
    while world.pair().stage.as_deref() != Some(NEVER_SEND) {
        // A burst that fills the fast path, and a long time in which it is never full.
        world.send(21 * PACKET);
        for _ in 0..1000 {
            let (unsent, room) = (PACKET, world.flying[0].len() < 10);
            world.step(if room { unsent } else { 0 });
        }
        rounds += 1;
        assert!(rounds < 100, "{}", world.pair());
    }
    // 8 · 1 MB at some 1020 packets a round; by its own bytes it would take three times as long.
    assert!((7..=9).contains(&rounds), "{rounds}");
}

#[test]
fn a_fast_path_that_dies_strands_nothing() {
    // In the stage that never uses the slow path.
    let mut world = World::new(Peekaboo::new(&config(json!({"tx_bytes": 0}))), BROAD);
    world.run(100_000);
    assert_eq!(world.share_since(0), 0.0);
    // Nothing comes back any more, and nobody knows yet: one packet a probe timeout goes on the
    // slow path.
    for packet in &mut world.flying[0] {
        packet.0 = f64::INFINITY;
    }
    let (place, since) = (world.sent.len(), world.now);
    while world.sent[place..]
        .iter()
        .filter(|path| **path == 1)
        .count()
        < 5
    {
        world.step(1 << 20);
    }
    // The last step ends with an acknowledgement on the slow path.
    assert!(
        world.now - since <= 5.0 * (40.0 + 33.0) + 50.0,
        "{}",
        world.now - since
    );
    // Now it is in trouble: all goes on the other one.
    world.dead = true;
    let (place, since) = (world.sent.len(), world.now);
    while world.sent.len() < place + 200 {
        world.step(1 << 20);
    }
    assert!(world.sent[place..].iter().all(|path| *path == 1));
    assert!(world.now - since < 12.0 * 44.0);
}

#[test]
fn a_lesson_goes_on_in_the_next_connection() {
    let registry = Registry::new().with_memory(Store::new());
    let connect = || World::of(registry.build("peekaboo", &json!({})).unwrap(), UNEVEN);
    let stages: Vec<_> = (0..10)
        .map(|connection| {
            let mut world = connect();
            world.run(600_000);
            assert_eq!(world.pair().recalled, connection > 0);
            world.pair().stage.unwrap()
        })
        .collect();
    assert_eq!(stages[0], NEVER_WAIT);
    assert_eq!(stages[1], NEVER_SEND);
    assert!(stages.iter().any(|stage| stage == TUNING));
    assert_eq!(stages[9], DEPLOYMENT);
    // It decides from the start as the last one did.
    let mut world = connect();
    world.run(500_000);
    assert!(world.share_since(0) < 0.1, "{}", world.pair());
}

#[test]
fn a_memory_is_checked() {
    let store = Store::new();
    let registry = Registry::new().with_memory(store.clone());
    let connect = || World::of(registry.build("peekaboo", &json!({})).unwrap(), UNEVEN);
    let mut world = connect();
    world.run_to(ESTIMATION);
    drop(world);
    let recall = store.recall("peekaboo", &PeekabooConfig::default());
    let (fast, slow) = (PathKey::new(7), PathKey::new(8));
    let good: Value = recall.recall(fast, slow).unwrap();
    let cases: [(&str, Value); 8] = [
        ("/alpha", json!(-1)),
        ("/alpha", json!(null)),
        ("/stage", json!("never_wait")),
        ("/stage", json!("tuning")),
        ("/reference", json!([2.0, null])),
        ("/adjustment", json!([0.5, 1.5])),
        ("/histories/0/factor/2/2", json!(-1.0)),
        ("/histories", json!([])),
    ];
    for (number, (place, wrong)) in cases.into_iter().enumerate() {
        let mut damaged = good.clone();
        *damaged.pointer_mut(place).unwrap() = wrong;
        recall.remember(fast, slow, &damaged);
        let mut world = connect();
        world.run(PACKET * 30);
        assert!(!world.pair().recalled, "{place}");
        assert_eq!(store.refused(), number as u64 + 1, "{place}");
        // What it would remember itself is not what is tested.
        drop(world);
    }
    recall.remember(fast, slow, &good);
    assert!(connect().pair().recalled);
}
