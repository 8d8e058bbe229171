//! What the schedulers that ask a trained network cost: decisions that do not ask it, and those that do.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_sched::{
    Acked, Context, Decision, Dir, Sent, Side, StreamId, StreamUpdate, StreamUpdateKind, StreamView,
};
use serde_json::json;

use crate::asked::{acked, built, decide, queue, scheduler, views};
use crate::names::SCHEDULERS;

/// A packet acknowledged and a decision, for which the policy is asked each time: inline, so that its answer is on the
/// clock.
fn policy(c: &mut Criterion, name: &str) {
    let queue = queue();
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

/// A decision of `dqn` for which the shipped network is asked, each time: an endless chunk, of which each action holds for
/// a millisecond.
fn question(c: &mut Criterion) {
    let queue = queue();
    let mut group = c.benchmark_group("scheduler/dqn");
    for count in [2, 8] {
        let mut paths = views(count);
        let mut scheduler = built("dqn", &json!({"interval_ms": 1}));
        let id = StreamId::new(Side::Server, Dir::Uni, 0);
        scheduler.on_stream(&StreamUpdate::new(id, StreamUpdateKind::Written(1 << 60)));
        let (mut now, mut number) = (Instant::now(), 0_u64);
        group.bench_function(format!("question/{count}paths"), |b| {
            b.iter(|| {
                number += 1;
                now += Duration::from_millis(1);
                paths[0].in_flight = 40_000 + number * 7919 % 50_000;
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
    let queue = queue();
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

pub(crate) fn schedulers(c: &mut Criterion) {
    decide(c, SCHEDULERS);
    question(c);
    policy(c, "gaps");
    binding(c);
    acked(c, SCHEDULERS);
}
