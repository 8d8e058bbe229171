//! The `linucb` scheduler over simulated networks against a naive reference: it computes every
//! context from the views, every choice by inverting A, and every reward from all sent packets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, InitialWindow, TransportConfig};
use mpquic_sched::{
    Acked, Arm, Context, Decision, Linucb, LinucbConfig, Lost, PathIndex, PathUpdate, PathView,
    Reward, Scheduler, Sent, Step, StreamUpdate,
};
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

const MEGABYTE: u64 = 1_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The inputs of a decision.
#[derive(Debug, Clone, Copy)]
struct Seen {
    rtt: Duration,
    var: Duration,
    window: u64,
    in_flight: u64,
}

impl Seen {
    fn of(view: &PathView) -> Self {
        Self {
            rtt: view.smoothed_rtt,
            var: view.rtt_var,
            window: view.cwnd,
            in_flight: view.in_flight,
        }
    }
}

/// What a scheduler was told and what it did, in order.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Step(Step),
    /// Of the decision before: its paths, fast and slow, and the flow-control window.
    Seen([Seen; 2], u64),
    Sent(Instant, u64, u16),
    Acked(Instant, u64),
}

type Log = Arc<Mutex<Vec<Entry>>>;

struct Recorder {
    inner: Linucb,
    log: Log,
}

impl Scheduler for Recorder {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.inner.decide(cx);
        let mut log = self.log.lock().unwrap();
        if let Some(Entry::Step(Step::Decided { fast, slow, .. })) = log.last() {
            let seen = [fast, slow].map(|path| Seen::of(&cx.paths[path.get()]));
            log.push(Entry::Seen(seen, cx.queue.flow_control_window));
        }
        decision
    }

    fn on_sent(&mut self, event: &Sent) {
        let entry = Entry::Sent(event.now, event.decision, event.new_bytes);
        self.log.lock().unwrap().push(entry);
        self.inner.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        let entry = Entry::Acked(event.now, event.contiguous);
        self.log.lock().unwrap().push(entry);
        self.inner.on_acked(event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.inner.on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.inner.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.inner.on_stream(event);
    }
}

/// A download over a slow path and a fast path with this loss. Returns a record of the server's
/// scheduler.
fn download(loss: f64, bytes: u64, seed: u64, config: &LinucbConfig) -> Vec<Entry> {
    let log = Log::default();
    let mut transport = TransportConfig::default();
    transport
        .receive_window(6 * MEGABYTE)
        .stream_receive_window(6 * MEGABYTE)
        .window_auto_tuning(false)
        .congestion(CongestionControl::Olia)
        // Where a train leads, some decisions are open for longer than the log of packets lasts, and are left out.
        .slow_start(SlowStart::Rapid)
        .initial_window(InitialWindow::Packets(32))
        .unwrap();
    let mut server = transport.clone();
    server.scheduler({
        let (log, config) = (Arc::clone(&log), config.clone());
        move || {
            let steps = Arc::clone(&log);
            let observer = move |step: &Step| steps.lock().unwrap().push(Entry::Step(*step));
            Box::new(Recorder {
                inner: Linucb::new(&config).with_observer(Box::new(observer)),
                log: Arc::clone(&log),
            })
        }
    });
    let slow = LinkConfig::new(2_000_000, ms(100))
        .with_rtt_variation(8.0)
        .with_loss(0.015);
    let fast = LinkConfig::new(50_000_000, ms(20));
    let mut network = Network::builder(seed)
        .path(slow.clone().with_loss(0.0), slow)
        .path(fast.clone(), fast.with_loss(loss))
        .transport(transport)
        .server_transport(server)
        .client(TransferClient::download(bytes))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(600)).unwrap();
    assert_eq!(report.delivered[0], bytes);
    drop(network);
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}

const D: usize = 6;

/// A = I + Σ x x' and b = Σ R x, without any shortcut.
#[derive(Debug, Clone)]
struct Regression {
    a: [[f64; D]; D],
    b: [f64; D],
}

impl Regression {
    fn new() -> Self {
        let mut a = [[0.0; D]; D];
        for (i, row) in a.iter_mut().enumerate() {
            row[i] = 1.0;
        }
        Self { a, b: [0.0; D] }
    }

    fn score(&self, alpha: f64, x: &[f64; D]) -> f64 {
        let inverse = inverse(&self.a);
        let dot = |u: &[f64; D], v: &[f64; D]| -> f64 { u.iter().zip(v).map(|(u, v)| u * v).sum() };
        let theta = inverse.map(|row| dot(&row, &self.b));
        let spread = dot(&inverse.map(|row| dot(&row, x)), x);
        dot(&theta, x) + alpha * spread.sqrt()
    }

    fn learn(&mut self, x: &[f64; D], reward: f64) {
        for i in 0..D {
            for j in 0..D {
                self.a[i][j] += x[i] * x[j];
            }
            self.b[i] += reward * x[i];
        }
    }
}

/// Gauss-Jordan elimination with the largest pivot of each column first.
fn inverse(a: &[[f64; D]; D]) -> [[f64; D]; D] {
    let mut rest = *a;
    let mut inverse = Regression::new().a;
    for column in 0..D {
        let largest =
            |i: &usize, j: &usize| rest[*i][column].abs().total_cmp(&rest[*j][column].abs());
        let pivot = (column..D).max_by(largest).unwrap();
        rest.swap(column, pivot);
        inverse.swap(column, pivot);
        let by = rest[column][column];
        rest[column] = rest[column].map(|value| value / by);
        inverse[column] = inverse[column].map(|value| value / by);
        for row in (0..D).filter(|row| *row != column) {
            let by = rest[row][column];
            for k in 0..D {
                rest[row][k] -= by * rest[column][k];
                inverse[row][k] -= by * inverse[column][k];
            }
        }
    }
    inverse
}

fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.abs().max(b.abs())
}

/// Packets of new data: the number of the decision, when the packet was sent, its size, when it was
/// released.
struct Packets(Vec<(u64, Instant, u16, Option<Instant>)>);

impl Packets {
    fn of(log: &[Entry]) -> Self {
        let mut packets = Vec::new();
        for entry in log {
            if let Entry::Sent(now, decision, new_bytes) = *entry
                && new_bytes > 0
            {
                packets.push((decision, now, new_bytes, None));
            }
        }
        // A packet is released by the acknowledgement with which as many bytes become contiguous as
        // were sent up to it.
        let (mut sent, mut contiguous) = (0_u64, 0_u64);
        let (mut told, mut next, mut up_to) = (0_u64, 0, 0_u64);
        for entry in log {
            match *entry {
                Entry::Sent(_, _, new_bytes) => sent += u64::from(new_bytes),
                Entry::Acked(now, bytes) => {
                    contiguous = (contiguous + bytes).min(sent);
                    told += bytes;
                    while next < packets.len() && up_to + u64::from(packets[next].2) <= contiguous {
                        up_to += u64::from(packets[next].2);
                        packets[next].3 = Some(now);
                        next += 1;
                    }
                }
                _ => {}
            }
        }
        // The last acknowledgements may be in flight when the download is complete.
        assert!(told <= sent && sent - told < 3 * MEGABYTE, "{told} {sent}");
        Self(packets)
    }

    /// The discounted in-order reward of a decision, and whether it was complete at `settled`.
    fn reward(
        &self,
        decision: u64,
        made: Instant,
        reference: f64,
        settled: Instant,
    ) -> (f64, bool) {
        let first = self.0.partition_point(|packet| packet.0 < decision);
        let (mut reward, mut gamma) = (0.0, 1.0);
        for (place, packet) in self.0[first..].iter().enumerate() {
            let Some(at) = packet.3.filter(|at| *at <= settled) else {
                break;
            };
            let age = millis(at - made);
            if age >= 3.0 * reference || gamma < 1e-3 {
                break;
            }
            let since = if place == 0 { made } else { packet.1 };
            reward += gamma * f64::from(packet.2) / millis(at - since);
            gamma *= [0.9, 0.7, 0.5][(age / reference) as usize];
        }
        let over = millis(settled - made) >= 3.0 * reference;
        let last = self.0.get(first + 65).and_then(|packet| packet.3);
        (reward, over || last.is_some_and(|at| at <= settled))
    }

    fn first(&self, decision: u64, made: Instant, settled: Instant) -> (f64, bool) {
        let first = self.0.partition_point(|packet| packet.0 < decision);
        let packet = self.0[first];
        let at = packet.3.filter(|at| *at <= settled);
        let rate = at.map(|at| f64::from(packet.2) / millis(at - made));
        (rate.unwrap_or(f64::NAN), rate.is_some())
    }
}

#[derive(Debug, Default)]
struct Compared {
    decisions: u64,
    waits: u64,
    settled: u64,
    /// Cases in which both scores differ by less than 1e-9.
    ties: u64,
    /// The largest relative difference of a score.
    worst: f64,
}

/// Replays what a scheduler saw, and compares everything that it did.
fn compare(log: &[Entry], config: &LinucbConfig, compared: &mut Compared) {
    let packets = Packets::of(log);
    let mut models: BTreeMap<(PathIndex, PathIndex), [Regression; 2]> = BTreeMap::new();
    let mut open = std::collections::VecDeque::new();
    let mut entries = log.iter();
    while let Some(entry) = entries.next() {
        match *entry {
            Entry::Step(Step::Decided {
                decision,
                now,
                fast,
                slow,
                context,
                scores,
                chosen,
                arm,
                reference,
                ..
            }) => {
                let Some(Entry::Seen([f, s], window)) = entries.next() else {
                    panic!("what decision {decision} rested on");
                };
                let per = |bytes: u64, path: &Seen| bytes as f64 / millis(path.rtt) / config.scale;
                let expected = [
                    per(f.window, f),
                    per(f.in_flight, f),
                    per(*window, f),
                    per(s.window, s),
                    per(s.in_flight, s),
                    per(*window, s),
                ];
                let same = expected
                    .iter()
                    .zip(&context)
                    .all(|(a, b)| near(*a, *b, 1e-12));
                assert!(same, "{decision}: {context:?}, expected {expected:?}");
                let reach = |path: &Seen| millis(path.rtt) + millis(path.var);
                let expected = f64::max(2.0 * reach(f), reach(s));
                assert!(
                    near(reference, expected, 1e-12),
                    "{decision}: {reference} {expected}"
                );

                if !models.contains_key(&(fast, slow)) {
                    let mut model = [Regression::new(), Regression::new()];
                    let others = models.len() as f64;
                    if others > 0.0 {
                        for (arm, mean) in model.iter_mut().enumerate() {
                            let sum = |of: &dyn Fn(&Regression) -> f64| -> f64 {
                                models.values().map(|other| of(&other[arm])).sum()
                            };
                            for i in 0..D {
                                mean.b[i] = sum(&|other| other.b[i]) / others;
                                for j in 0..D {
                                    mean.a[i][j] = sum(&|other| other.a[i][j]) / others;
                                }
                            }
                        }
                    }
                    models.insert((fast, slow), model);
                }
                let model = &models[&(fast, slow)];
                let [tx, wt] = [0, 1].map(|arm| model[arm].score(config.alpha, &context));
                for (ours, theirs) in [(tx, scores[0]), (wt, scores[1])] {
                    let largest = ours.abs().max(theirs.abs());
                    compared.worst = compared.worst.max((ours - theirs).abs() / largest);
                }
                let expected = if wt > tx { Arm::Wait } else { Arm::Send };
                // The very first scores are bitwise equal on both sides.
                if near(tx, wt, 1e-9) && tx != wt {
                    compared.ties += 1;
                } else {
                    assert_eq!(
                        chosen, expected,
                        "{decision}: {scores:?}, expected {tx} {wt}"
                    );
                }
                assert_eq!(arm, chosen);
                compared.decisions += 1;
                compared.waits += u64::from(arm == Arm::Wait);
                open.push_back((decision, now, fast, slow, context, arm, reference));
            }
            Entry::Step(Step::Settled {
                decision,
                now,
                fast,
                slow,
                context,
                arm,
                reward,
                ..
            }) => {
                // No decision is left out or out of order, and each has the context of its own
                // time.
                let made = open.pop_front().unwrap();
                assert_eq!(made.0, decision);
                assert_eq!((made.2, made.3, made.4, made.5), (fast, slow, context, arm));
                let (expected, complete) = match config.reward {
                    Reward::Packet => packets.first(decision, made.1, now),
                    _ => packets.reward(decision, made.1, made.6, now),
                };
                assert!(complete, "{decision} is settled too early");
                let expected = expected / config.scale;
                assert!(
                    near(reward, expected, 1e-9),
                    "{decision}: {reward}, expected {expected}"
                );
                let model = models.get_mut(&(fast, slow)).unwrap();
                model[arm.index()].learn(&context, reward);
                compared.settled += 1;
            }
            _ => {}
        }
    }
    // The decisions that are still open are those of the last three reference times.
    assert!(
        open.len() < 2000,
        "{} decisions are never settled",
        open.len()
    );
}

/// Downloads until this many decisions are compared.
fn compare_downloads(config: &LinucbConfig, decisions: u64) -> Compared {
    let mut compared = Compared::default();
    let began = Instant::now();
    for seed in 0.. {
        for loss in [0.0, 0.005, 0.01, 0.02, 0.03] {
            let log = download(loss, 20 * MEGABYTE, seed, config);
            compare(&log, config, &mut compared);
        }
        if compared.decisions >= decisions {
            break;
        }
    }
    println!("{config:?}: {compared:?} in {:?}", began.elapsed());
    assert_eq!(compared.ties, 0);
    compared
}

#[test]
fn every_decision_and_every_reward_are_the_references() {
    compare_downloads(&LinucbConfig::default(), 100_000);
}

/// In the units of the public code, the exploration bonus dominates, so both arms are chosen often.
#[test]
fn so_they_are_with_much_exploration_and_the_other_reward() {
    for reward in [Reward::Discounted, Reward::Packet] {
        let config = LinucbConfig {
            scale: 1e6,
            reward,
            ..LinucbConfig::default()
        };
        let compared = compare_downloads(&config, 20_000);
        let rarer = compared.waits.min(compared.decisions - compared.waits);
        assert!(10 * rarer > compared.decisions, "{compared:?}");
    }
}
