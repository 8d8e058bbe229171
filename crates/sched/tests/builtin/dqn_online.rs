//! The chunk scheduler that learns within the connection: that it does, from what, and that it can be replayed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpquic_sched::memory::{Recall, Store};
use mpquic_sched::neural::{DqnOnline, DqnOnlineConfig, Experience};
use mpquic_sched::{
    Acked, LearnedOnline, PathId, PathIndex, PathKey, PathUpdate, PathUpdateKind, Registry,
    Scheduler, StreamHints, StreamUpdate, StreamUpdateKind, VarInt,
};
use serde_json::{Value, json};

use crate::{Asked, PACKET, loaded, unsent};

struct Fixture {
    asked: Asked<DqnOnline>,
    /// Of each decision the action and the ninth element of the state.
    decided: Arc<Mutex<Vec<(f32, f32)>>>,
    chunk: u32,
    ms: u64,
}

impl Fixture {
    fn new(config: Value) -> Self {
        Self::with_memory(config, Recall::none())
    }

    fn with_memory(config: Value, memory: Recall) -> Self {
        let config: DqnOnlineConfig = serde_json::from_value(config).unwrap();
        let decided = Arc::<Mutex<Vec<_>>>::default();
        let into = Arc::clone(&decided);
        let scheduler =
            DqnOnline::with_memory(&config, memory).with_observer(Box::new(move |experience| {
                if let Experience::Decided { action, state, .. } = experience {
                    into.lock().unwrap().push((action[0], state[8]));
                }
            }));
        let mut asked = Asked::new(scheduler);
        for path in 0..2 {
            let slot = PathIndex::new(path).unwrap();
            for kind in [PathUpdateKind::Opened, PathUpdateKind::Validated] {
                let event = PathUpdate::new(slot, PathId(path as u32), asked.now, kind);
                let key = PathKey::new(100 + path as u64);
                asked.scheduler.on_path(&event.with_key(key));
            }
        }
        Self {
            asked,
            decided,
            chunk: 0,
            ms: 0,
        }
    }

    fn stream(&mut self, kind: StreamUpdateKind) {
        let id = VarInt::from_u32(4 * self.chunk).into();
        self.asked.scheduler.on_stream(&StreamUpdate::new(id, kind));
    }

    fn begin(&mut self, explore: bool) {
        self.chunk += 1;
        self.asked.at(self.ms);
        let hints = StreamHints {
            chunk: Some(self.chunk.into()),
            size: Some(600_000),
            explore,
            ..StreamHints::default()
        };
        self.stream(StreamUpdateKind::Hint(hints));
        self.stream(StreamUpdateKind::Written(600_000));
    }

    /// The next packet; the action that was decided for it.
    fn decide(&mut self) -> usize {
        self.asked.at(self.ms);
        let paths = [loaded(0, 20, 10, 2), loaded(1, 80, 10, 2)];
        self.asked.next(&paths, &unsent(600_000));
        let decided = self.decided.lock().unwrap();
        decided.last().unwrap().0 as usize
    }

    /// All of the chunk arrives so many milliseconds from now.
    fn arrives(&mut self, after: u64) {
        self.ms += after;
        self.asked.at(self.ms);
        let (now, slot) = (self.asked.now, PathIndex::new(0).unwrap());
        let acked = Acked::new(slot, now, now, 1235, None, None, 0);
        self.asked.scheduler.on_acked(&acked);
        self.stream(StreamUpdateKind::FullyAcked);
    }

    /// A chunk of a single decision, which arrives soon after action 5 only. That action.
    fn chunk(&mut self, explore: bool) -> usize {
        self.begin(explore);
        let action = self.decide();
        self.arrives(if action == 5 { 100 } else { 900 });
        self.ms += 100;
        action
    }

    fn online(&self) -> LearnedOnline {
        self.asked.scheduler.learned().unwrap().online.unwrap()
    }
}

#[test]
fn it_learns_which_action_makes_chunks_arrive_soon() {
    let mut f = Fixture::new(json!({"seed": 1, "epsilon_decay": 0.98}));
    let actions: Vec<_> = (0..300).map(|_| f.chunk(false)).collect();
    let best = |actions: &[usize]| actions.iter().filter(|action| **action == 5).count();
    // By chance one of seven.
    assert!(best(&actions[..50]) < 25, "{actions:?}");
    assert!(best(&actions[250..]) > 40, "{actions:?}");
    let online = f.online();
    assert_eq!((online.transitions, online.episodes), (300, 300));
    assert!(online.epsilon < 0.01 && online.steps > 5000, "{online}");
    let text = f.asked.scheduler.learned().unwrap().to_string();
    assert!(text.contains("300 transitions from 300 episodes"), "{text}");
}

#[test]
fn the_next_connection_begins_with_what_was_learned() {
    for train in ["chunk", "thread"] {
        let config = || json!({"seed": 1, "epsilon_decay": 0.98, "train": train});
        let store = Store::new();
        let recall = || store.recall("dqn_online", &json!({"train": train}));
        let mut first = Fixture::with_memory(config(), recall());
        while first.online().steps < 20 {
            first.chunk(false);
            // The thread takes its own time.
            std::thread::park_timeout(Duration::from_micros(100));
        }
        let epsilon = first.online().epsilon;
        drop(first);
        assert_eq!((store.len(), store.refused()), (1, 0));
        let mut next = Fixture::with_memory(config(), recall());
        assert_eq!(next.online().epsilon, epsilon);
        next.chunk(false);
        assert!(next.online().explored <= 1);
        // Without paths that are known there is nothing to begin with.
        let new = Fixture::with_memory(config(), store.recall("dqn_online", &json!({})));
        assert_eq!(new.online().epsilon, 1.0);
    }
    // What it learns holds: action 5 from the first chunk on.
    let store = Store::new();
    let recall = || store.recall("dqn_online", &json!({}));
    let config = || json!({"seed": 1, "epsilon_decay": 0.98});
    let mut first = Fixture::with_memory(config(), recall());
    for _ in 0..300 {
        first.chunk(false);
    }
    drop(first);
    let mut next = Fixture::with_memory(config(), recall());
    let actions: Vec<_> = (0..30).map(|_| next.chunk(false)).collect();
    let best = actions.iter().filter(|action| **action == 5).count();
    assert!(best > 25, "{actions:?}");
}

#[test]
fn the_same_seed_learns_the_same() {
    let run = |seed: u64| {
        let mut f = Fixture::new(json!({"seed": seed}));
        (0..150).map(|_| f.chunk(false)).collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn each_decision_makes_one_transition() {
    for (config, ninth) in [
        (json!({}), [0.0, 4.0, 8.0]),
        (json!({"ninth": "missing"}), [500.0, 496.0, 492.0]),
    ] {
        let mut f = Fixture::new(config);
        f.begin(false);
        for step in 0..3 {
            f.decide();
            f.ms += 60;
            f.asked.at(f.ms);
            let (now, slot) = (f.asked.now, PathIndex::new(0).unwrap());
            // Sent before it is acknowledged in order.
            for _ in 0..4 {
                f.asked.sent(slot, false);
            }
            let acked = Acked::new(slot, now, now, 1235, None, None, 4 * PACKET);
            f.asked.scheduler.on_acked(&acked);
            // That of the last decision waits for the next one, or the end.
            assert_eq!(f.online().transitions, step);
        }
        f.arrives(10);
        let online = f.online();
        assert_eq!((online.transitions, online.episodes), (3, 1));
        assert_eq!(online.episodes_ms.round(), 190.0);
        let decided = f.decided.lock().unwrap();
        let states: Vec<_> = decided
            .iter()
            .map(|decided| decided.1 / PACKET as f32)
            .collect();
        assert_eq!(states, ninth);
    }
}

#[test]
fn chunks_that_are_marked_are_explored_more() {
    // After the first decision, only those of marked chunks are by chance.
    let mut f = Fixture::new(json!({"epsilon_decay": 0, "explore": 1, "batch": 1024}));
    for number in 0..100 {
        f.chunk(number % 4 == 0);
    }
    assert_eq!((f.online().explored, f.online().epsilon), (25, 0.0));
    let mut f = Fixture::new(json!({"epsilon_decay": 0, "epsilon_min": 0.25, "batch": 1024}));
    for _ in 0..1000 {
        f.chunk(false);
    }
    // Five standard deviations of a binomial: 68.
    assert!(f.online().explored.abs_diff(250) < 68);
}

#[test]
fn epsilon_falls_by_actions_or_by_steps() {
    let mut f = Fixture::new(json!({"epsilon_decay": 0.9, "batch": 1000}));
    for _ in 0..10 {
        f.chunk(false);
    }
    assert!((f.online().epsilon - 0.9_f64.powi(10)).abs() < 1e-12);
    assert_eq!(f.online().steps, 0);
    let mut f = Fixture::new(json!({"epsilon_decay": 0.9, "batch": 1000, "decay": "step"}));
    for _ in 0..10 {
        f.chunk(false);
    }
    assert_eq!(f.online().epsilon, 1.0);
}

#[test]
fn it_learns_on_a_thread() {
    let mut f = Fixture::new(
        json!({"train": "thread", "step_ms": 1, "epsilon_decay": 0, "explore": 1, "refresh": 1}),
    );
    let mut actions = Vec::new();
    // The thread takes its own time, and the chunks here take none.
    while actions.len() < 100_000 {
        actions.push(f.chunk(actions.len() < 200));
        let late = actions.len().saturating_sub(60);
        if f.online().steps > 100 && actions[late..].iter().all(|action| *action == 5) {
            return;
        }
        std::thread::park_timeout(Duration::from_micros(100));
    }
    panic!("{}", f.asked.scheduler.learned().unwrap());
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    for (field, value) in [
        ("interval_ms", json!(0)),
        ("batch", json!(0)),
        ("replay", json!(2_000_000)),
        ("step_ms", json!(0)),
        ("refresh", json!(0)),
        ("gamma", json!(-0.1)),
        ("learning_rate", json!(0)),
        ("epsilon_decay", json!(1.01)),
        ("epsilon_min", json!(2)),
        ("explore", json!(2)),
    ] {
        let mut config = json!({});
        config[field] = value;
        let error = Registry::new().build("dqn_online", &config).err().unwrap();
        let message = error.to_string();
        assert!(
            message.contains(&format!("field `{field}`: expected")),
            "{message}"
        );
    }
}
