//! The schedulers that learn whether to wait: decisions and rewards worked out by hand.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_sched::VarInt;
use mpquic_sched::memory::Store;
use mpquic_sched::{
    Acked, Arm, Context, Decision, FeatureRtt, FirstPacket, Linucb, LinucbConfig, PathId,
    PathIndex, PathKey, PathUpdate, PathUpdateKind, PathView, QueueView, Registry, Reward,
    Scheduler, Sent, Step, StreamHead, StreamId, StreamUpdate, StreamUpdateKind,
};
use serde_json::json;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

/// RTTs of 40 and 100 ms, windows of 200 and 50 kB, variations of 5 ms: T_ref is 105 ms. The fast
/// one is full, unless it has room.
fn pair(room: bool) -> [PathView; 2] {
    let view = |index, rtt, window, in_flight| {
        let mut view = PathView::closed(slot(index));
        (view.open, view.can_send) = (true, true);
        (view.smoothed_rtt, view.latest_rtt) = (ms(rtt), ms(rtt));
        (view.rtt_var, view.pto) = (ms(5), ms(rtt + 45));
        (view.cwnd, view.in_flight) = (window, in_flight);
        view
    };
    let mut pair = [view(0, 40, 200_000, 200_000), view(1, 100, 50_000, 10_000)];
    pair[0].can_send = room;
    pair
}

/// x of that pair, with a flow-control window of 400 kB: bytes per ms over 1000.
const X: [f64; 6] = [5.0, 5.0, 10.0, 0.5, 0.1, 4.0];

/// x'x = 25 + 25 + 100 + 0.25 + 0.01 + 16.
const XX: f64 = 166.26;

fn queue() -> QueueView {
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 400_000, 400_000);
    queue
}

/// A scheduler with two paths, told of all that happens.
struct Connection {
    scheduler: Box<dyn Scheduler>,
    steps: Arc<Mutex<Vec<Step>>>,
    start: Instant,
    number: u64,
}

impl Connection {
    fn new(config: &LinucbConfig) -> Self {
        let mut connection = Self::without_paths(config);
        connection.open(0);
        connection.open(1);
        connection
    }

    fn without_paths(config: &LinucbConfig) -> Self {
        let steps = Arc::<Mutex<Vec<Step>>>::default();
        let into = Arc::clone(&steps);
        let observer = move |step: &Step| into.lock().unwrap().push(*step);
        let scheduler = Linucb::new(config).with_observer(Box::new(observer));
        Self {
            scheduler: Box::new(scheduler),
            steps,
            start: Instant::now(),
            number: 0,
        }
    }

    fn over(scheduler: Box<dyn Scheduler>) -> Self {
        let mut connection = Self {
            scheduler,
            steps: Arc::default(),
            start: Instant::now(),
            number: 0,
        };
        connection.open(0);
        connection.open(1);
        connection
    }

    fn open(&mut self, index: usize) {
        self.path(index, PathUpdateKind::Opened);
        self.path(index, PathUpdateKind::Validated);
    }

    fn path(&mut self, index: usize, kind: PathUpdateKind) {
        let event = PathUpdate::new(slot(index), PathId(index as u32), self.start, kind);
        let key = PathKey::new(100 + index as u64);
        self.scheduler.on_path(&event.with_key(key));
    }

    fn decide(&mut self, at: u64, paths: &[PathView], queue: &QueueView) -> Decision {
        let cx = Context::new(self.start + ms(at), paths, queue, self.number);
        self.number += 1;
        self.scheduler.decide(&cx)
    }

    /// The slot chosen so many milliseconds after the start; what is sent there leaves.
    fn next(&mut self, at: u64, paths: &[PathView]) -> Option<usize> {
        self.next_of(at, paths, &queue())
    }

    fn next_of(&mut self, at: u64, paths: &[PathView], queue: &QueueView) -> Option<usize> {
        let Decision::Send { path, .. } = self.decide(at, paths, queue) else {
            return None;
        };
        self.sent(at, path.get(), 1000);
        Some(path.get())
    }

    fn sent(&mut self, at: u64, index: usize, bytes: u16) {
        let number = self.number.saturating_sub(1);
        let event = Sent::new(slot(index), self.start + ms(at), 1235, number, false, bytes);
        self.scheduler.on_sent(&event);
    }

    /// A packet sent at some time is acknowledged; so much is contiguous by it.
    fn acked(&mut self, at: u64, index: usize, sent: u64, contiguous: u64) {
        let (now, sent) = (self.start + ms(at), self.start + ms(sent));
        let event = Acked::new(slot(index), now, sent, 1235, None, None, contiguous);
        self.scheduler.on_acked(&event);
    }

    /// The packet of this decision is acknowledged.
    fn acked_of(&mut self, at: u64, index: usize, sent: u64, decision: u64, contiguous: u64) {
        let (now, sent) = (self.start + ms(at), self.start + ms(sent));
        let event = Acked::new(
            slot(index),
            now,
            sent,
            1235,
            None,
            Some(decision),
            contiguous,
        );
        self.scheduler.on_acked(&event);
    }

    fn reset_a_stream(&mut self) {
        let id = StreamId::from(VarInt::from_u32(0));
        let event = StreamUpdate::new(id, StreamUpdateKind::Reset);
        self.scheduler.on_stream(&event);
    }

    fn dropped(&self) -> u64 {
        self.scheduler.learned().unwrap().dropped
    }

    /// What was decided: the arm with the larger score, the one that was taken, the scores.
    fn decided(&self) -> Vec<(Arm, Arm, [f64; 2])> {
        let steps = self.steps.lock().unwrap();
        let decided = steps.iter().filter_map(|step| match step {
            Step::Decided {
                chosen,
                arm,
                scores,
                ..
            } => Some((*chosen, *arm, *scores)),
            _ => None,
        });
        decided.collect()
    }

    /// What was settled: the decision's number, the arm, the reward.
    fn settled(&self) -> Vec<(u64, Arm, f64)> {
        let steps = self.steps.lock().unwrap();
        let settled = steps.iter().filter_map(|step| match step {
            Step::Settled {
                decision,
                arm,
                reward,
                ..
            } => Some((*decision, *arm, *reward)),
            _ => None,
        });
        settled.collect()
    }
}

#[track_caller]
fn near(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= 1e-9 * expected.abs(),
        "{got} {expected}"
    );
}

#[test]
fn the_first_decisions_by_hand() {
    let mut connection = Connection::new(&LinucbConfig::default());
    // Nothing is known, both arms are equal: transmit.
    assert_eq!(connection.next(0, &pair(false)), Some(1));
    let Step::Decided {
        decision,
        fast,
        slow,
        context,
        reference,
        ..
    } = connection.steps.lock().unwrap()[0]
    else {
        panic!("a decision");
    };
    assert_eq!((decision, fast, slow), (0, slot(0), slot(1)));
    for (got, expected) in context.iter().zip(X) {
        near(*got, expected);
    }
    near(reference, 105.0);
    let (_, _, [tx, wt]) = connection.decided()[0];
    near(tx, 0.8 * XX.sqrt());
    assert_eq!(tx, wt);

    // 1000 bytes, 125 ms after the decision, in the second T_ref: R = 8 bytes/ms.
    connection.acked(125, 1, 0, 1000);
    connection.acked(314, 1, 200, 0);
    assert_eq!(connection.settled(), []);
    // Three T_ref have passed.
    assert_eq!(connection.next(315, &pair(false)), None);
    let [(0, Arm::Send, reward)] = connection.settled()[..] else {
        panic!("{:?}", connection.settled());
    };
    near(reward, 0.008);
    // tx: A = I + xx', so that A^-1 x = x/(1 + x'x); wt is not known at all.
    let (chosen, arm, [tx, wt]) = connection.decided()[1];
    assert_eq!((chosen, arm), (Arm::Wait, Arm::Wait));
    near(
        tx,
        (0.008 * XX + 0.8 * XX.sqrt() * (1.0 + XX).sqrt()) / (1.0 + XX),
    );
    near(wt, 0.8 * XX.sqrt());
}

#[test]
fn a_wait_stands_and_its_first_packet_counts_from_the_decision() {
    let mut connection = Connection::new(&LinucbConfig {
        // Every decision to transmit is turned into a wait.
        p_tx: 0.0,
        ..LinucbConfig::default()
    });
    for at in [10, 11, 30] {
        assert_eq!(connection.next(at, &pair(false)), None);
    }
    assert_eq!(connection.decided().len(), 1);
    assert_eq!(connection.next(30, &pair(true)), Some(0));
    assert_eq!(connection.next(30, &pair(true)), Some(0));
    // The next wait: its first packet is the third.
    assert_eq!(connection.next(31, &pair(false)), None);
    let decided = connection.decided();
    assert_eq!(
        (decided.len(), decided[1].0, decided[1].1),
        (2, Arm::Send, Arm::Wait)
    );
    assert_eq!(connection.next(40, &pair(true)), Some(0));
    // 1000/(70 - 10) + 0.9 · 1000/(70 - 30) + 0.81 · 1000/(90 - 40) = 16.67 + 22.5 + 16.2
    connection.acked(70, 0, 30, 1000);
    connection.acked(70, 0, 30, 1000);
    connection.acked(90, 0, 40, 1000);
    connection.acked(400, 0, 40, 0);
    let settled = connection.settled();
    assert_eq!(
        (settled.len(), settled[0].1, settled[1].1),
        (2, Arm::Wait, Arm::Wait)
    );
    near(settled[0].2, 1.0 / 60.0 + 0.0225 + 0.0162);
    // 1000/(90 - 31).
    near(settled[1].2, 1.0 / 59.0);
    let learned = connection.scheduler.learned().unwrap();
    let pair = &learned.pairs[0];
    assert_eq!((pair.decisions, pair.waits, pair.settled), (2, 2, 2));
    assert_eq!((pair.fast, pair.slow), (slot(0), slot(1)));
}

#[test]
fn with_room_on_both_paths_the_model_may_choose_too() {
    let config = |with_room, p_tx| LinucbConfig {
        with_room,
        p_tx,
        ..LinucbConfig::default()
    };
    let mut plain = Connection::new(&config(false, 1.0));
    assert_eq!(plain.next(0, &pair(true)), Some(0));
    // Nothing is known, both arms are equal: transmit on the slow path, as when the fast one is full.
    let mut asked = Connection::new(&config(true, 1.0));
    assert_eq!(asked.next(0, &pair(true)), Some(1));
    assert_eq!(asked.next(0, &pair(false)), Some(1));
    // Lost data, and data for which no other path has room, leave no choice.
    let mut lost = queue();
    lost.retransmittable = 1000;
    assert_eq!(asked.next_of(0, &pair(true), &lost), Some(0));
    let mut alone = pair(true);
    alone[1].can_send = false;
    assert_eq!(asked.next(0, &alone), Some(0));
    assert_eq!(asked.decided().len(), 2);

    // The other arm does not wait: the fast path has room. 1000 bytes in 40 ms.
    let mut fast = Connection::new(&config(true, 0.0));
    assert_eq!(fast.next(0, &pair(true)), Some(0));
    fast.acked(40, 0, 0, 1000);
    fast.acked(1000, 0, 900, 0);
    let [(0, Arm::Wait, reward)] = fast.settled()[..] else {
        panic!("{:?}", fast.settled());
    };
    near(reward, 0.025);
}

#[test]
fn after_the_probe_timeout_a_new_decision_is_due() {
    let mut connection = Connection::new(&LinucbConfig {
        p_tx: 0.0,
        ..LinucbConfig::default()
    });
    assert_eq!(connection.next(0, &pair(false)), None);
    assert_eq!(connection.next(84, &pair(false)), None);
    assert_eq!(connection.next(85, &pair(false)), Some(1));
    assert_eq!(connection.decided().len(), 1);
    assert_eq!(connection.next(85, &pair(false)), None);
    assert_eq!(connection.decided().len(), 2);
}

/// Lost data is released when what was sent in its place fills the hole; what waited behind it has
/// waited.
#[test]
fn a_hole_costs_all_behind_it() {
    let mut connection = Connection::new(&LinucbConfig::default());
    for _ in 0..2 {
        assert_eq!(connection.next(0, &pair(false)), Some(1));
    }
    // The second arrives, but the first is lost, and sent again: nothing new in that.
    connection.acked(100, 1, 0, 0);
    connection.sent(110, 0, 0);
    connection.acked(150, 0, 110, 2000);
    connection.acked(1000, 0, 110, 0);
    // 1000/150 + 0.7 · 1000/150, and 1000/150.
    let settled = connection.settled();
    near(settled[0].2, 1.7 / 150.0);
    near(settled[1].2, 1.0 / 150.0);
}

#[test]
fn what_was_sent_before_does_not_count_and_is_before_what_does() {
    let mut connection = Connection::without_paths(&LinucbConfig::default());
    connection.open(0);
    // With one path there is nothing to learn yet.
    connection.sent(0, 0, 1400);
    connection.open(1);
    connection.sent(5, 0, 600);
    assert_eq!(connection.next(10, &pair(false)), Some(1));
    connection.acked(40, 0, 0, 1400);
    connection.acked(45, 0, 5, 600);
    connection.acked(60, 1, 10, 1000);
    connection.acked(1000, 1, 10, 0);
    near(connection.settled()[0].2, 0.02);
}

#[test]
fn the_first_packet_alone() {
    let mut connection = Connection::new(&LinucbConfig {
        reward: Reward::Packet,
        ..LinucbConfig::default()
    });
    for _ in 0..2 {
        assert_eq!(connection.next(0, &pair(false)), Some(1));
    }
    connection.acked(1000, 0, 900, 0);
    assert_eq!(connection.settled(), []);
    connection.acked(1250, 1, 0, 1000);
    assert_eq!(connection.settled().len(), 1);
    connection.acked(2000, 1, 0, 1000);
    let settled = connection.settled();
    near(settled[0].2, 0.000_8);
    near(settled[1].2, 0.000_5);
}

/// One packet is lost, and the one behind it has its own acknowledgement after 40 ms, but is released with the hole.
#[test]
fn by_its_own_acknowledgement_a_packet_is_as_fast_as_it_was() {
    let earn = |reward, first_packet| {
        let mut connection = Connection::new(&LinucbConfig {
            reward,
            first_packet,
            ..LinucbConfig::default()
        });
        assert_eq!(connection.next(0, &pair(false)), Some(1));
        // The decision's own packet, as `next` sent it, and one on the fast path.
        assert_eq!(connection.next(10, &pair(true)), Some(0));
        connection.acked_of(50, 0, 10, 1, 0);
        connection.acked_of(100, 1, 0, 0, 2000);
        connection.acked(1000, 1, 0, 0);
        connection.settled()[0].2
    };
    let slow = 1.0 / 100.0;
    near(
        earn(Reward::Discounted, FirstPacket::Decision),
        slow + 0.9 / 90.0,
    );
    near(
        earn(Reward::OwnAck, FirstPacket::Decision),
        slow + 0.9 / 40.0,
    );
    near(
        earn(Reward::OwnAck, FirstPacket::Sending),
        slow + 0.9 / 40.0,
    );
}

#[test]
fn the_first_packet_counts_from_the_decision_or_from_its_sending() {
    let earn = |reward, first_packet| {
        let mut connection = Connection::new(&LinucbConfig {
            alpha: 0.0,
            reward,
            first_packet,
            p_tx: 0.0,
            ..LinucbConfig::default()
        });
        // It waits, and sends on the fast path 20 ms later.
        assert_eq!(connection.next(0, &pair(false)), None);
        assert_eq!(connection.next(20, &pair(true)), Some(0));
        let number = connection.number - 1;
        connection.acked_of(60, 0, 20, number, 1000);
        connection.acked(1000, 0, 20, 0);
        connection.settled()[0].2
    };
    for reward in [Reward::Discounted, Reward::OwnAck] {
        near(earn(reward, FirstPacket::Decision), 1.0 / 60.0);
        near(earn(reward, FirstPacket::Sending), 1.0 / 40.0);
    }
}

#[test]
fn what_comes_too_late_counts_for_nothing() {
    let mut connection = Connection::new(&LinucbConfig {
        reward: Reward::Deadline,
        ..LinucbConfig::default()
    });
    let due = |at: Option<u64>| {
        let mut queue = queue();
        let deadline = at.map(|at| connection.start + ms(at));
        let id = StreamId::from(VarInt::from_u32(0));
        queue.head = Some(StreamHead::new(id, 0, 1 << 20, deadline, None));
        queue
    };
    let (early, late, none) = (due(Some(49)), due(Some(50)), due(None));
    for queue in [&early, &late, &none] {
        assert_eq!(connection.next_of(0, &pair(false), queue), Some(1));
    }
    // Sent at 0 and acknowledged at 100: they arrived at 50.
    for _ in 0..3 {
        connection.acked(100, 1, 0, 1000);
    }
    connection.acked(1000, 1, 0, 0);
    let settled = connection.settled();
    // The first came too late, and discounts the others.
    near(settled[0].2, (0.0 + 0.9 + 0.81) / 100.0);
    near(settled[1].2, (1.0 + 0.9) / 100.0);
    near(settled[2].2, 1.0 / 100.0);
}

#[test]
fn a_path_that_ends_takes_its_decisions_along() {
    let mut connection = Connection::new(&LinucbConfig::default());
    for _ in 0..3 {
        assert_eq!(connection.next(0, &pair(false)), Some(1));
    }
    connection.path(1, PathUpdateKind::Abandoned);
    assert_eq!(connection.dropped(), 3);
    connection.acked(1000, 0, 0, 3000);
    assert_eq!(connection.settled(), []);
    assert!(connection.scheduler.learned().unwrap().pairs.is_empty());
    // Its slot is another path's, of which nothing is known.
    connection.path(1, PathUpdateKind::Opened);
    assert_eq!(connection.next(1000, &pair(false)), Some(1));
    connection.acked(1100, 1, 1000, 1000);
    connection.acked(2000, 1, 1000, 0);
    near(connection.settled()[0].2, 0.01);
    assert_eq!(connection.dropped(), 3);
}

#[test]
fn a_reset_stream_takes_all_decisions_along() {
    let mut connection = Connection::new(&LinucbConfig::default());
    for _ in 0..2 {
        assert_eq!(connection.next(0, &pair(false)), Some(1));
    }
    connection.reset_a_stream();
    assert_eq!(connection.dropped(), 2);
    // What was reset never becomes contiguous, and what comes next does not wait for it.
    assert_eq!(connection.next(10, &pair(false)), Some(1));
    connection.acked(110, 1, 10, 1000);
    connection.acked(1000, 1, 10, 0);
    assert_eq!(connection.settled().len(), 1);
    near(connection.settled()[0].2, 0.01);
}

/// More decisions than are waited for: the oldest go.
#[test]
fn too_many_decisions_are_dropped_and_counted() {
    let mut connection = Connection::new(&LinucbConfig::default());
    for _ in 0..1500 {
        assert_eq!(connection.next(0, &pair(false)), Some(1));
    }
    assert_eq!(connection.dropped(), 1500 - 1024);
    connection.acked(100, 1, 0, 1_500_000);
    connection.acked(1000, 1, 0, 0);
    let settled = connection.settled();
    assert_eq!((settled.len(), settled[0].0), (1024, 1500 - 1024));
}

#[test]
fn chance_keeps_some_of_the_decisions() {
    let mut connection = Connection::new(&LinucbConfig {
        p_tx: 0.7,
        seed: 3,
        ..LinucbConfig::default()
    });
    for _ in 0..1000 {
        connection.next(0, &pair(false));
        connection.decide(0, &pair(true), &queue());
    }
    let decided = connection.decided();
    assert!(decided.iter().all(|(chosen, ..)| *chosen == Arm::Send));
    let waits = decided
        .iter()
        .filter(|(_, arm, _)| *arm == Arm::Wait)
        .count();
    // Five standard deviations of a binomial: 5 · √(1000 · 0.3 · 0.7) = 72.
    assert!(waits.abs_diff(300) < 72, "{waits}");
}

/// With the latest samples, and without one: all features are 0, both arms are equal.
#[test]
fn features_of_the_latest_samples() {
    let config = LinucbConfig {
        features: FeatureRtt::Latest,
        ..LinucbConfig::default()
    };
    let mut connection = Connection::new(&config);
    let mut paths = pair(false);
    paths[0].latest_rtt = ms(80);
    assert_eq!(connection.next(0, &paths), Some(1));
    paths[1].latest_rtt = Duration::ZERO;
    assert_eq!(connection.next(0, &paths), Some(1));
    let steps = connection.steps.lock().unwrap();
    let contexts: Vec<_> = steps
        .iter()
        .map(|step| match step {
            Step::Decided { context, .. } => *context,
            step => panic!("{step:?}"),
        })
        .collect();
    near(contexts[0][0], 2.5);
    near(contexts[0][5], 4.0);
    assert_eq!(contexts[1], [0.0; 6]);
}

#[test]
fn a_later_connection_begins_with_what_was_learned() {
    let memory = Store::new();
    let registry = Registry::new().with_memory(memory.clone());
    for (config, entries) in [(json!({"seed": 1}), 1), (json!({"discount": 0.95}), 2)] {
        let build = || Connection::over(registry.build("linucb", &config).unwrap());
        let mut first = build();
        for at in 0..20 {
            let slot = first.next(1000 * at, &pair(false)).unwrap_or(1);
            first.acked(1000 * at + 100, slot, 1000 * at, 1000);
            first.decide(1000 * at + 900, &pair(true), &queue());
        }
        let learned = first.scheduler.learned().unwrap();
        assert!(learned.pairs[0].settled > 15 && !learned.pairs[0].recalled);
        drop(first);
        assert_eq!(memory.len(), entries);

        let second = build();
        let recalled = second.scheduler.learned().unwrap();
        assert!(recalled.pairs[0].recalled);
        // The last decision was open until the end, and all had arrived by then.
        assert_eq!(learned.pairs[0].settled, learned.pairs[0].decisions - 1);
        assert_eq!(recalled.pairs[0].settled, learned.pairs[0].decisions);
        assert_eq!(recalled.pairs[0].decisions, 0);
    }
    assert_eq!(memory.refused(), 0);
}

/// Decisions that are open when the connection ends are not blamed for what is still under way.
#[test]
fn what_is_under_way_at_the_end_settles_nothing() {
    for acked in [false, true] {
        let registry = Registry::new().with_memory(Store::new());
        let build = || Connection::over(registry.build("linucb", &json!({})).unwrap());
        let mut first = build();
        for at in 0..20 {
            first.decide(1000 * at, &pair(false), &queue());
            // A wait, or what was decided to be sent: it leaves on the fast path either way.
            first.sent(1000 * at + 10, 0, 1000);
            if at < 19 || acked {
                first.acked(1000 * at + 100, 0, 1000 * at + 10, 1000);
            }
            first.decide(1000 * at + 900, &pair(true), &queue());
        }
        let settled = first.scheduler.learned().unwrap().pairs[0].settled;
        drop(first);
        let recalled = build().scheduler.learned().unwrap().pairs[0].settled;
        assert_eq!(recalled, settled + u64::from(acked));
    }
}
