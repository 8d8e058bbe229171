//! Counts allocations, and drives every scheduler of a registry through all that it may be told.

use std::time::{Duration, Instant};

use mpquic_sched::VarInt;
use mpquic_sched::{
    Acked, Context, Lost, MAX_STREAM_VIEWS, PathId, PathIndex, PathStatus, PathUpdate,
    PathUpdateKind, PathView, QueueView, Registry, Sent, StreamHints, StreamId, StreamUpdate,
    StreamUpdateKind, StreamView,
};
use mpquic_test_support::allocator::Counting;
pub(crate) use mpquic_test_support::allocator::allocations;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;

#[test]
fn schedulers_do_not_allocate() {
    do_not_allocate(&crate::registry());
}

/// Drives each of its schedulers, and counts.
pub(crate) fn do_not_allocate(registry: &Registry) {
    let slots: Vec<_> = (0..8).map(|slot| PathIndex::new(slot).unwrap()).collect();
    let mut paths: Vec<_> = slots.iter().map(|slot| PathView::closed(*slot)).collect();
    let mut queue = QueueView::default();
    let mut streams: Vec<_> = (0..MAX_STREAM_VIEWS as u32)
        .map(|n| StreamView::new(VarInt::from_u32(n).into(), 0, u64::from(n)))
        .collect();
    let start = Instant::now();
    let default = registry.names().map(|name| (name, Value::Null));
    // Settings that bring other code into play.
    let more = [
        ("falcon", json!({"confirm": 1, "threshold": 0.1})),
        ("linucb", json!({"discount": 0.9, "reward": "deadline"})),
        ("linucb", json!({"reward": "packet", "p_tx": 0.5})),
        (
            "linucb",
            json!({"reward": "own_ack", "first_packet": "sending"}),
        ),
        ("peekaboo", json!({"discount": 0.9, "tx_bytes": 0})),
        ("ucb", json!({"reward": "delayed"})),
        ("ucb", json!({"forgetting": {"window": 100}})),
        (
            "ucb",
            json!({"forgetting": {"discount": 0.9}, "reward": "rate"}),
        ),
    ];
    // Those that ask a network are in another crate, which runs this, too: each acknowledgement brings a decision of the
    // policy for gaps; streams are asked about once.
    let neural = [
        ("gaps", json!({"interval_ms": 0, "round_trips": 0})),
        (
            "gaps",
            json!({"interval_ms": 0, "round_trips": 0, "run": "thread", "model": "random"}),
        ),
        ("gaps", json!({"fixed_gap": 20})),
        ("sailfish", json!({"sample": false, "rates": [15, 5]})),
        ("sailfish", json!({"all_have_room": true})),
        ("sailfish", json!({"run": "thread"})),
    ]
    .into_iter()
    .filter(|(name, _)| registry.names().any(|known| known == *name));
    for (name, config) in default.chain(more).chain(neural) {
        let mut scheduler = registry.build(name, &config).expect("a good configuration");
        // Those that learn make room for what they learn of each two paths.
        for slot in &slots {
            let opened = PathUpdateKind::Opened;
            scheduler.on_path(&PathUpdate::new(*slot, PathId::ZERO, start, opened));
        }
        let before = allocations();
        for number in 0..10_000_u64 {
            let now = start + Duration::from_micros(number);
            let slot = slots[number as usize % slots.len()];
            // A view that walks through all combinations of what a path can be.
            let view = &mut paths[slot.get()];
            view.open = number % 11 != 0;
            view.can_send = view.open && number % 5 != 0;
            view.suspect = number % 17 == 0;
            view.status = [PathStatus::Available, PathStatus::Backup][number as usize / 64 % 2];
            view.smoothed_rtt = Duration::from_micros(number * 7919 % 50_000);
            view.pto = view.smoothed_rtt + Duration::from_millis(25);
            (view.cwnd, view.in_flight) = (100_000, number * 6151 % 100_000);
            view.next_release = Some(now).filter(|_| number % 13 == 0);
            // And a queue that has none, little, and much of everything.
            queue.unsent = number * 997 % 1_000_000;
            queue.window_left = number * 1009 % 3_000_000;
            queue.flow_control_window = queue.window_left / 2;
            queue.retransmittable = number / 32 % 2;
            queue.blocked_by = Some(slot).filter(|_| number % 19 == 0);
            // Now and then nothing waits, and what is in flight may be copied.
            if number % 29 == 0 {
                (queue.unsent, queue.retransmittable) = (0, 0);
            }
            queue.in_flight = number % 7 * 1200;
            queue.out_of_order = number % 7 * 1200;
            queue.control = number % 23 == 0;
            streams.rotate_left(1);
            streams[0].retransmittable = number % 2 * 1200;

            let cx = Context::new(now, &paths, &queue, number);
            let cx = cx.with_streams(&streams[..number as usize % streams.len()]);
            std::hint::black_box(scheduler.decide(&cx));
            scheduler.on_sent(&Sent::new(slot, now, 1452, number, number % 3 == 0, 1400));
            let rtt = Some(Duration::from_millis(20));
            let contiguous = number % 5 * 1400;
            let decision = Some(number / 2);
            scheduler.on_acked(&Acked::new(
                slot, now, start, 1452, rtt, decision, contiguous,
            ));
            scheduler.on_lost(&Lost::new(slot, now, start, 1452, Some(number)));
            // Not at every turn: something is to be learned meanwhile.
            for kind in [
                PathUpdateKind::Opened,
                PathUpdateKind::Validated,
                PathUpdateKind::Status(PathStatus::Backup),
                PathUpdateKind::Suspect,
                PathUpdateKind::Recovered,
                PathUpdateKind::Abandoned,
            ]
            .into_iter()
            .filter(|_| number % 501 == 0)
            {
                scheduler.on_path(&PathUpdate::new(slot, PathId(number as u32), now, kind));
            }
            for kind in [
                StreamUpdateKind::Opened,
                StreamUpdateKind::Written(1400),
                StreamUpdateKind::Hint(StreamHints {
                    deadline: Some(now).filter(|_| number % 2 == 0),
                    ..StreamHints::default()
                }),
                StreamUpdateKind::Finished,
                StreamUpdateKind::FullyAcked,
                StreamUpdateKind::Reset,
            ]
            .into_iter()
            .filter(|kind| *kind != StreamUpdateKind::Reset || number % 501 == 0)
            {
                let id = StreamId::from(VarInt::from_u32(number as u32));
                scheduler.on_stream(&StreamUpdate::new(id, kind));
            }
            std::hint::black_box(scheduler.next_wakeup());
            scheduler.on_wakeup(&Context::new(now, &paths, &queue, number));
        }
        assert_eq!(allocations() - before, 0, "{name} {config}");
        if ["falcon", "linucb", "peekaboo"].contains(&name) {
            let learned = scheduler.learned().expect("it learns");
            assert!(learned.pairs.iter().any(|pair| pair.settled > 0));
        }
        if name == "sailfish" {
            let learned = scheduler.learned().expect("it learns");
            let policy = learned.policy.expect("it asks one");
            assert!(policy.decisions > 0, "{name} {config}");
        }
    }
}

/// Chunks come and go, packets are lost and overtake each other, and the policy is asked each time.
#[test]
fn dqn_does_not_allocate_over_chunks() {
    let online = [
        json!({}),
        json!({"train": "thread", "step_ms": 1, "replay": 500}),
    ];
    let online = online.map(|config| ("dqn_online", config)).into_iter();
    let neural = [json!({}), json!({"model": "random"})];
    let neural = neural.map(|config| ("dqn", config)).into_iter();
    let registry = crate::registry();
    let neural = neural.filter(|(name, _)| registry.names().any(|known| known == *name));
    for (name, config) in online.chain(neural) {
        let mut scheduler = registry.build(name, &config).unwrap();
        let start = Instant::now();
        let mut paths = [0, 1, 2].map(|slot| {
            let mut view = PathView::closed(PathIndex::new(slot).unwrap());
            (view.open, view.cwnd, view.in_flight) = (true, 100_000, 50_000);
            view.smoothed_rtt = Duration::from_millis(20 + 30 * slot as u64);
            view.pto = view.smoothed_rtt * 3;
            scheduler.on_path(&PathUpdate::new(
                view.index,
                PathId::ZERO,
                start,
                PathUpdateKind::Opened,
            ));
            view
        });
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20, 1 << 20);
        let before = allocations();
        for number in 0..40_000_u64 {
            let now = start + Duration::from_millis(number);
            let tell = |scheduler: &mut dyn mpquic_sched::Scheduler, chunk: u64, kind| {
                let id = StreamId::from(VarInt::from_u32(chunk as u32));
                scheduler.on_stream(&StreamUpdate::new(id, kind));
            };
            if number % 200 == 0 {
                let chunk = number / 200;
                let hints = StreamHints {
                    size: Some(200_000),
                    chunk: Some(chunk),
                    explore: chunk % 2 == 0,
                    ..StreamHints::default()
                };
                tell(&mut *scheduler, chunk, StreamUpdateKind::Hint(hints));
                tell(&mut *scheduler, chunk, StreamUpdateKind::Written(200_000));
                tell(&mut *scheduler, 1 << 20, StreamUpdateKind::Written(2_000));
                if let Some(last) = chunk.checked_sub(100) {
                    tell(&mut *scheduler, last, StreamUpdateKind::FullyAcked);
                }
            }
            for (slot, path) in paths.iter_mut().enumerate() {
                path.can_send = !(number + slot as u64).is_multiple_of(3);
            }
            let cx = Context::new(now, &paths, &queue, number);
            std::hint::black_box(scheduler.decide(&cx));
            let path = paths[number as usize % 3].index;
            scheduler.on_sent(&Sent::new(path, now, 1235, number, false, 1200));
            // What was sent in a block of 18 is acknowledged backwards in the next one, or lost.
            let Some(late) = (number / 18 * 18).checked_sub(number % 18 + 1) else {
                continue;
            };
            let path = paths[late as usize % 3].index;
            if late.is_multiple_of(7) {
                scheduler.on_lost(&Lost::new(path, now, start, 1235, Some(late)));
            } else {
                let acked = Acked::new(path, now, now, 1235, None, Some(late), 1200);
                scheduler.on_acked(&acked);
            }
        }
        assert_eq!(allocations() - before, 0, "{name} {config}");
        let learned = scheduler.learned().unwrap();
        let policy = learned.policy.unwrap();
        assert!(policy.decisions > 700, "{policy}");
        assert_eq!(policy.fallbacks.total(), 0, "{policy}");
        if name == "dqn_online" {
            let online = learned.online.unwrap();
            assert!(
                online.transitions > 500 && online.explored > 100,
                "{online}"
            );
            // The thread may not have had a turn; here it is done when a chunk has arrived.
            assert!(
                online.steps > 500 || config["train"] == "thread",
                "{online}"
            );
        }
    }
}
