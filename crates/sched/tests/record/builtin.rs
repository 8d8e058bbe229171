//! The built-in schedulers that are recorded: what is in the file is what their observers are told.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use mpquic_sched::record;
use mpquic_sched::{Linucb, LinucbConfig, Peekaboo, PeekabooConfig, Registry, Scheduler, Step};
use serde_json::{Value, json};

use super::drive::drive;
use super::{place, recorder};

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
