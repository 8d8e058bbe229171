//! The built-in schedulers that are recorded: what is in the file is what their observers are told.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_sched::record;
use mpquic_sched::{
    Acked, Context, Linucb, LinucbConfig, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView,
    Peekaboo, PeekabooConfig, QueueView, Registry, Scheduler, Sent, Step,
};
use serde_json::{Value, json};

use super::{place, recorder};

/// A fast path that fills and empties, a slow one with room, everything acknowledged later, in order.
fn drive(scheduler: &mut dyn Scheduler, start: Instant) {
    let mut paths = [0, 1].map(|slot| {
        let mut view = PathView::closed(PathIndex::new(slot).unwrap());
        (view.open, view.cwnd) = (true, 100_000);
        view.smoothed_rtt = Duration::from_millis(20 + 30 * slot as u64);
        view.pto = view.smoothed_rtt * 3;
        let opened = PathUpdateKind::Opened;
        scheduler.on_path(&PathUpdate::new(view.index, PathId::ZERO, start, opened));
        view
    });
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20, 1 << 20);
    for number in 0..3000_u64 {
        let now = start + Duration::from_micros(500 * number);
        (paths[0].can_send, paths[1].can_send) = (number % 3 == 0, true);
        paths[0].in_flight = 90_000 + number * 7919 % 10_000;
        let cx = Context::new(now, &paths, &queue, number);
        let decision = scheduler.decide(&cx);
        if let mpquic_sched::Decision::Send { path, .. } = decision {
            scheduler.on_sent(&Sent::new(path, now, 1452, number, false, 1400));
            let sent = now;
            let now = now + Duration::from_micros(100);
            scheduler.on_acked(&Acked::new(path, now, sent, 1452, None, Some(number), 1400));
        }
    }
}

/// Both made the same way, one recorded, one observed.
fn agree(name: &str, config: &Value, observed: impl FnOnce(Observer) -> Box<dyn Scheduler>) {
    let (_folder, file) = place();
    let recorder = recorder(&file, 16 << 20, 4 << 20);
    let registry = Registry::new().with_recorder(recorder.clone());
    let start = Instant::now();
    let mut recorded = registry.build(name, config).unwrap();
    drive(&mut *recorded, start);
    let learned = recorded.learned().unwrap();
    drop(recorded);
    assert_eq!(recorder.flush().unwrap().dropped, 0);

    let steps = Arc::<Mutex<Vec<Step>>>::default();
    let into = Arc::clone(&steps);
    let mut twin = observed(Box::new(move |step| into.lock().unwrap().push(*step)));
    drive(&mut *twin, start);
    drop(twin);

    let recording = record::read(&file).unwrap();
    let trajectories = recording.trajectories();
    let [trajectory] = &trajectories[..] else {
        panic!("one connection");
    };
    assert_eq!(trajectory.schema.scheduler, name);
    for (field, value) in config.as_object().unwrap() {
        assert_eq!(&trajectory.schema.config[field], value);
    }
    assert!(trajectory.schema.config["alpha"] == 0.8 || name == "peekaboo");
    let outcome = trajectory.ended.unwrap();
    assert_eq!((outcome.dropped, outcome.cut), (0, false));
    assert_eq!(outcome.contiguous_bytes, outcome.sent_packets * 1400);
    let decisions: u64 = learned.pairs.iter().map(|pair| pair.decisions).sum();
    assert!(decisions > 0 && trajectory.pairs.len() as u64 == decisions);

    let (mut pairs, mut rewards) = (trajectory.pairs.iter(), Vec::new());
    for step in steps.lock().unwrap().iter() {
        match *step {
            Step::Decided {
                decision,
                now,
                fast,
                slow,
                context,
                chosen,
                arm,
                ..
            } => {
                let decided = pairs.next().unwrap().decided;
                let us = (now - start).as_micros() as u64;
                assert_eq!((decided.number, decided.us), (decision, us));
                let mut state: Vec<_> = context.iter().map(|value| *value as f32).collect();
                state.extend([fast.get() as f32, slow.get() as f32]);
                assert_eq!(decided.state, state);
                assert_eq!(decided.action, [arm.index() as f32]);
                assert_eq!(decided.fell_back, chosen != arm);
            }
            Step::Settled {
                decision, reward, ..
            } => rewards.push((decision, reward)),
            _ => panic!("{step:?}"),
        }
    }
    assert!(pairs.next().is_none() && !rewards.is_empty());
    let all = trajectory.pairs.iter().flat_map(|pair| &pair.rewards);
    let read: Vec<_> = all.map(|reward| (reward.number, reward.reward)).collect();
    assert_eq!(read, rewards);
}

type Observer = Box<dyn FnMut(&Step) + Send>;

#[test]
fn linucb_is_recorded() {
    let config = json!({"p_wt": 0.5, "seed": 3});
    agree("linucb", &config.clone(), move |observer| {
        let config: LinucbConfig = serde_json::from_value(config).unwrap();
        Box::new(Linucb::new(&config).with_observer(observer))
    });
}

#[test]
fn peekaboo_is_recorded() {
    let config = json!({"seed": 3});
    agree("peekaboo", &config.clone(), move |observer| {
        let config: PeekabooConfig = serde_json::from_value(config).unwrap();
        Box::new(Peekaboo::new(&config).with_observer(observer))
    });
}

#[test]
fn the_others_are_as_without_a_recorder() {
    let (_folder, file) = place();
    let recorder = recorder(&file, 1 << 20, 1);
    let registry = Registry::new().with_recorder(recorder.clone());
    drive(
        &mut *registry.build("minrtt", &Value::Null).unwrap(),
        Instant::now(),
    );
    assert_eq!(recorder.flush().unwrap().connections, 0);
    assert!(record::read(&file).unwrap().connections.is_empty());
}

/// Those that ask a network, by what their states and actions are.
#[cfg(feature = "neural")]
#[test]
fn those_that_ask_a_network_are_recorded() {
    use mpquic_sched::neural::{Dqn, Gaps, Sailfish};

    let (_folder, file) = place();
    let recorder = recorder(&file, 16 << 20, 4 << 20);
    let registry = Registry::new().with_recorder(recorder.clone());
    let config = json!({"model": "random", "seed": 5});
    for name in ["dqn", "sailfish", "gaps"] {
        drive(&mut *registry.build(name, &config).unwrap(), Instant::now());
    }
    assert_eq!(recorder.flush().unwrap().dropped, 0);
    let recording = record::read(&file).unwrap();
    let trajectories = recording.trajectories();
    for (trajectory, (name, state, rows, actions)) in trajectories.iter().zip([
        ("dqn", Dqn::STATE, 1, 1),
        ("sailfish", Sailfish::STATE, 4, 1),
        ("gaps", Gaps::STATE, 8, Gaps::OUTPUTS),
    ]) {
        let schema = trajectory.schema;
        assert_eq!(
            (&*schema.scheduler, schema.state_len(), schema.rows),
            (name, state, rows)
        );
        assert_eq!(schema.action_len(), actions);
        assert_eq!(
            (&schema.config["model"], &schema.config["seed"]),
            (&json!("random"), &json!(5))
        );
        assert!(trajectory.ended.unwrap().sent_packets > 0);
    }
    // The other two decide about streams, of which there are none here.
    let gaps = &trajectories[2];
    assert!(gaps.pairs.len() > 10);
    for (number, pair) in (0..).zip(&gaps.pairs) {
        assert_eq!(pair.decided.number, number);
        assert!(pair.decided.action.iter().all(|change| change.abs() <= 1.0));
        // What a decision earned is known at the next one.
        assert!(pair.rewards.len() == 1 || pair == gaps.pairs.last().unwrap());
    }
}
