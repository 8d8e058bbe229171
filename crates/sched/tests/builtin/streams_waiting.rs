//! SA-ECF's decisions, worked out by hand; and what holds for it whatever the streams are.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Context, Data, Decision, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView, QueueView,
    SaEcf, SaEcfConfig, Scheduler, StreamHead, StreamId, StreamSharing, StreamView,
};
use mpquic_sched::{Dir, Side};
use proptest::prelude::*;

/// RTTs of 40 and 200 ms, windows of 60 and 30 packets of 1000 bytes, the fast one full. ECF waits
/// for less than 240000 bytes: (1 + 240/60) · 40 = 200. Once it waits, for less than 315000:
/// (1 + 315/60) · 40 = 250 = 1.25 · 200.
fn pair() -> [PathView; 2] {
    let view = |slot, rtt: u64, window, in_flight| {
        let mut view = PathView::of(slot, Duration::from_millis(rtt));
        view.mtu = 1000;
        view.pto = Duration::from_millis(rtt + 25);
        (view.cwnd, view.in_flight) = (window, in_flight);
        view.can_send = in_flight < window;
        view
    };
    [view(0, 40, 60_000, 60_000), view(1, 200, 30_000, 10_000)]
}

/// A stream's number, priority and unsent kilobytes.
fn stream(number: u64, priority: i32, unsent: u64) -> StreamView {
    let id = StreamId::new(Side::Server, Dir::Uni, number);
    StreamView::new(id, priority, unsent * 1000)
}

fn queue(streams: &[StreamView]) -> QueueView {
    let mut queue = QueueView::default();
    queue.unsent = streams.iter().map(|stream| stream.unsent).sum();
    (queue.window_left, queue.flow_control_window) = (1 << 40, 1 << 40);
    queue
}

/// The number of the stream that goes on the slow path, `None` if all wait.
fn ask(scheduler: &mut SaEcf, streams: &[StreamView]) -> Option<u64> {
    let queue = queue(streams);
    let paths = pair();
    let cx = Context::new(Instant::now(), &paths, &queue, 0).with_streams(streams);
    match scheduler.decide(&cx) {
        Decision::Send {
            path,
            data: Data::Stream(id),
            copies,
        } => {
            assert_eq!((path.get(), copies.is_empty()), (1, true));
            Some(id.index())
        }
        Decision::Wait { until: Some(_) } => None,
        decision => panic!("{decision:?}"),
    }
}

fn sharing(sharing: StreamSharing) -> SaEcf {
    SaEcf::new(&SaEcfConfig {
        sharing,
        ..SaEcfConfig::default()
    })
}

#[test]
fn each_way_of_sharing() {
    use StreamSharing::{ByTurns, Exclusive, Weighted};

    let one_then_other = [stream(0, 2, 100), stream(1, 1, 200)];
    let three_equals = [stream(0, 0, 100), stream(1, 0, 100), stream(2, 0, 100)];
    let long_and_short = [stream(0, 0, 200), stream(1, 0, 20)];
    let weights = [stream(0, 32, 100), stream(1, 16, 200)];
    let close_weights = [stream(0, 20, 150), stream(1, 16, 200)];
    let table: [(&str, StreamSharing, &[StreamView], Option<u64>); 13] = [
        // 100: waits; 100 + 200 = 300: goes.
        ("the second goes", ByTurns, &one_then_other, Some(1)),
        ("the second goes", Exclusive, &one_then_other, Some(1)),
        // 100 + 100 · 1/2 = 150; 200 + 100 = 300.
        ("the second goes", Weighted, &one_then_other, Some(1)),
        // 3 · 100 = 300, for each.
        ("the first of three goes", ByTurns, &three_equals, Some(0)),
        ("the first of three goes", Weighted, &three_equals, Some(0)),
        // 100, 200, 300.
        ("the last of three goes", Exclusive, &three_equals, Some(2)),
        // 200 + 20 = 220; 20 + 20 = 40.
        ("both wait", ByTurns, &long_and_short, None),
        ("both wait", Weighted, &long_and_short, None),
        // 200; 200 + 20 = 220.
        ("both wait", Exclusive, &long_and_short, None),
        // 100 + 100 · 16/32 = 150; 200 + 100 = 300.
        ("the lighter one goes", Weighted, &weights, Some(1)),
        // 150 + 150 · 16/20 = 270.
        ("the heavier one goes", Weighted, &close_weights, Some(0)),
        // 150; 350.
        ("priority first", ByTurns, &close_weights, Some(1)),
        // The floor: one window each, 80 < 200 and 200 ≥ 80.
        ("a last byte waits", ByTurns, &[stream(0, 0, 1)], None),
    ];
    for (case, how, streams, expected) in table {
        assert_eq!(ask(&mut sharing(how), streams), expected, "{case}, {how:?}");
    }
}

#[test]
fn what_the_application_announced_counts() {
    let mut announced = stream(0, 0, 30);
    assert_eq!(ask(&mut SaEcf::default(), &[announced]), None);
    // 300 kB in all, of which 50 kB are sent and 30 kB are written: 250 kB are left.
    (announced.size, announced.sent) = (Some(300_000), 50_000);
    assert_eq!(ask(&mut SaEcf::default(), &[announced]), Some(0));
    // It was to be less: what is written counts.
    (announced.size, announced.sent) = (Some(40_000), 200_000);
    assert_eq!(ask(&mut SaEcf::default(), &[announced]), None);
    // All that is written of the first has left, but more will come before the second: 300 + 20.
    let mut first = stream(0, 1, 0);
    (first.size, first.sent) = (Some(400_000), 100_000);
    assert_eq!(
        ask(&mut SaEcf::default(), &[first, stream(1, 0, 20)]),
        Some(1)
    );
}

#[test]
fn each_stream_has_a_flag() {
    let mut scheduler = SaEcf::default();
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 100)]), None);
    // It waits on below 315, another one would not have begun to.
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 314)]), None);
    assert_eq!(ask(&mut scheduler, &[stream(5, 0, 314)]), Some(5));
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 314)]), None);
    // A slot's next path: another pair.
    let slot = PathIndex::new(1).unwrap();
    let gone = PathUpdate::new(slot, PathId(1), Instant::now(), PathUpdateKind::Abandoned);
    scheduler.on_path(&gone);
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 314)]), Some(0));
    // The stream that falls on the same place takes it over.
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 100)]), None);
    assert_eq!(ask(&mut scheduler, &[stream(64, 0, 100)]), None);
    assert_eq!(ask(&mut scheduler, &[stream(0, 0, 314)]), Some(0));
}

#[test]
fn without_streams_and_with_other_things_to_send() {
    let paths = pair();
    let decide = |queue: &QueueView, streams: &[StreamView]| {
        let cx = Context::new(Instant::now(), &paths, queue, 0).with_streams(streams);
        SaEcf::default().decide(&cx)
    };
    // As ECF with the connection's 240 and 239 kB.
    let slow = Decision::send(paths[1].index);
    assert_eq!(decide(&queue(&[stream(0, 0, 240)]), &[]), slow);
    let decision = decide(&queue(&[stream(0, 0, 239)]), &[]);
    assert!(matches!(decision, Decision::Wait { until: Some(_) }));
    // What was lost arrives sooner over the fast path, and does not take the stream's packet.
    let streams = [stream(0, 1, 100), stream(1, 0, 300)];
    let mut queue = queue(&streams);
    let data = |queue: &QueueView| match decide(queue, &streams) {
        Decision::Send { data, .. } => data,
        decision => panic!("{decision:?}"),
    };
    queue.retransmittable = 1;
    assert_eq!(data(&queue), Data::Stream(streams[1].id));
    let head = streams[1];
    queue.head = Some(StreamHead::new(head.id, 0, head.unsent, None, None));
    assert_eq!(data(&queue), Data::Ahead(0));
}

proptest! {
    /// One stream is the connection: all ways of sharing decide as ECF does. And of many, the one
    /// that goes has new data.
    #[test]
    fn one_stream_is_ecf(sizes in prop::collection::vec((-3..3_i32, 0..400_u64), 1..20)) {
        let all = [StreamSharing::ByTurns, StreamSharing::Exclusive, StreamSharing::Weighted];
        for how in all {
            let (mut one, mut ecf) = (sharing(how), mpquic_sched::Ecf::default());
            for (priority, unsent) in &sizes {
                let only = [stream(0, *priority, unsent + 1)];
                let queue = queue(&only);
                let paths = pair();
                let cx = Context::new(Instant::now(), &paths, &queue, 0);
                let sends = ecf.decide(&cx) == Decision::send(paths[1].index);
                prop_assert_eq!(ask(&mut one, &only).is_some(), sends);
            }
            let mut streams: Vec<_> = (0..).zip(&sizes).map(|(n, s)| stream(n, s.0, s.1)).collect();
            streams.sort_by_key(|stream| -stream.priority);
            streams.push(stream(99, -9, 1));
            if let Some(number) = ask(&mut sharing(how), &streams) {
                let chosen = streams.iter().find(|stream| stream.id.index() == number).unwrap();
                prop_assert!(chosen.unsent > 0);
            } else {
                // 240 kB in all would do for the last one.
                let total: u64 = streams.iter().map(|stream| stream.unsent).sum();
                prop_assert!(how == StreamSharing::Weighted || total < 240_000);
            }
        }
    }
}
