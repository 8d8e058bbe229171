//! A toy scheduler that learns, made by a registry with a memory, without, and with another one's.

use std::collections::BTreeMap;
use std::time::Instant;

use mpquic_sched::memory::{Recall, Store};
use mpquic_sched::{
    Context, Decision, InvalidConfig, Learned, LearnedPair, PathId, PathIndex, PathKey, PathUpdate,
    PathUpdateKind, Registry, RegistryError, Scheduler,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToyConfig {
    step: u64,
    seed: u64,
}

/// Of every ordered pair of paths, how often it was looked at.
struct Toy {
    step: u64,
    recall: Recall,
    keys: BTreeMap<PathIndex, PathKey>,
    pairs: BTreeMap<(PathIndex, PathIndex), Pair>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Pair {
    looks: u64,
    #[serde(skip)]
    recalled: bool,
}

impl Toy {
    fn new(config: &ToyConfig, recall: Recall) -> Self {
        Self {
            step: config.step,
            recall,
            keys: BTreeMap::new(),
            pairs: BTreeMap::new(),
        }
    }

    fn deposit(&self, path: Option<PathIndex>) {
        for ((fast, slow), pair) in &self.pairs {
            if path.is_none_or(|path| path == *fast || path == *slow)
                && let (Some(f), Some(s)) = (self.keys.get(fast), self.keys.get(slow))
            {
                self.recall.remember(*f, *s, pair);
            }
        }
    }
}

impl Scheduler for Toy {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        for pair in self.pairs.values_mut() {
            pair.looks += self.step;
        }
        Decision::Wait { until: None }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        match (event.kind, event.key) {
            (PathUpdateKind::Validated, Some(key)) => {
                let others: Vec<_> = self.keys.iter().map(|(path, key)| (*path, *key)).collect();
                self.keys.insert(event.path, key);
                for (other, other_key) in others {
                    for ((fast, f), (slow, s)) in [
                        ((event.path, key), (other, other_key)),
                        ((other, other_key), (event.path, key)),
                    ] {
                        let known: Option<Pair> = self.recall.recall(f, s);
                        let mut pair = known.unwrap_or_default();
                        pair.recalled = known.is_some();
                        self.pairs.insert((fast, slow), pair);
                    }
                }
            }
            (PathUpdateKind::Abandoned, _) => {
                self.deposit(Some(event.path));
                self.keys.remove(&event.path);
                self.pairs
                    .retain(|(fast, slow), _| *fast != event.path && *slow != event.path);
            }
            _ => {}
        }
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("toy");
        for ((fast, slow), state) in &self.pairs {
            let mut pair = LearnedPair::new(*fast, *slow);
            (pair.decisions, pair.recalled) = (state.looks, state.recalled);
            learned.pairs.push(pair);
        }
        Some(learned)
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        self.deposit(None);
    }
}

fn registry(memory: Option<Store>) -> Registry {
    let mut registry = Registry::empty();
    if let Some(memory) = memory {
        registry = registry.with_memory(memory);
    }
    let check = |config: &ToyConfig| match config.step {
        0..=9 => Ok(()),
        step => Err(InvalidConfig::field(
            "step",
            format!("expected 0 to 9, got {step}"),
        )),
    };
    registry.register_learner("toy", check, Toy::new).unwrap();
    registry
}

/// A connection over paths with these keys: so many decisions, then whether and what each pair
/// recalled, and how many looks it has.
fn connection(
    registry: &Registry,
    config: &serde_json::Value,
    keys: &[u64],
    decisions: usize,
) -> Vec<(bool, u64)> {
    let mut scheduler = registry.build("toy", config).unwrap();
    let now = Instant::now();
    for (slot, key) in keys.iter().enumerate() {
        let path = PathIndex::new(slot).unwrap();
        for kind in [PathUpdateKind::Opened, PathUpdateKind::Validated] {
            let event = PathUpdate::new(path, PathId(slot as u32), now, kind);
            scheduler.on_path(&event.with_key(PathKey::new(*key)));
        }
    }
    let queue = mpquic_sched::QueueView::default();
    for decision in 0..decisions {
        scheduler.decide(&Context::new(now, &[], &queue, decision as u64));
    }
    let learned = scheduler.learned().unwrap();
    learned
        .pairs
        .iter()
        .map(|pair| (pair.recalled, pair.decisions))
        .collect()
}

#[test]
fn a_connection_begins_with_what_the_last_one_over_the_same_paths_learned() {
    let registry = registry(Some(Store::new()));
    let config = json!({"step": 1});
    assert_eq!(
        connection(&registry, &config, &[1, 2], 5),
        [(false, 5), (false, 5)]
    );
    assert_eq!(
        connection(&registry, &config, &[1, 2], 2),
        [(true, 7), (true, 7)]
    );
    // In another order of opening, and with a third path, of which nothing is known.
    let pairs = connection(&registry, &json!({"step": 1, "seed": 8}), &[2, 1, 3], 1);
    let known: Vec<_> = pairs.iter().map(|(recalled, _)| *recalled).collect();
    assert_eq!(known, [true, false, true, false, false, false]);
    assert_eq!(pairs[0].1, 8);
    // Of other hosts, and of other settings, nothing is known.
    assert_eq!(
        connection(&registry, &config, &[4, 5], 0),
        [(false, 0), (false, 0)]
    );
    assert_eq!(
        connection(&registry, &json!({"step": 2}), &[1, 2], 0),
        [(false, 0), (false, 0)]
    );
}

#[test]
fn a_path_that_ends_deposits_before_its_slot_is_given_away() {
    let store = Store::new();
    let registry = registry(Some(store.clone()));
    let mut scheduler = registry.build("toy", &json!({"step": 3})).unwrap();
    let now = Instant::now();
    let event = |slot: usize, id, kind, key| {
        PathUpdate::new(PathIndex::new(slot).unwrap(), PathId(id), now, kind)
            .with_key(PathKey::new(key))
    };
    scheduler.on_path(&event(0, 0, PathUpdateKind::Validated, 1));
    scheduler.on_path(&event(1, 1, PathUpdateKind::Validated, 2));
    let queue = mpquic_sched::QueueView::default();
    scheduler.decide(&Context::new(now, &[], &queue, 0));
    assert!(store.is_empty());
    scheduler.on_path(&event(1, 1, PathUpdateKind::Abandoned, 2));
    assert_eq!(store.len(), 2);
    scheduler.on_path(&event(1, 2, PathUpdateKind::Validated, 9));
    assert!(
        scheduler
            .learned()
            .unwrap()
            .pairs
            .iter()
            .all(|pair| !pair.recalled)
    );
    drop(scheduler);
    assert_eq!(store.len(), 4);
    assert_eq!(
        connection(&registry, &json!({"step": 3}), &[1, 2], 0),
        [(true, 3), (true, 3)]
    );
}

#[test]
fn without_a_memory_each_connection_learns_from_the_start() {
    let registry = registry(None);
    for _ in 0..2 {
        assert_eq!(
            connection(&registry, &json!({"step": 1}), &[1, 2], 5),
            [(false, 5), (false, 5)]
        );
    }
}

#[test]
fn a_restart_changes_nothing_and_a_corrupt_file_starts_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    let config = json!({"step": 1});
    let store = Store::load(&file).unwrap();
    connection(&registry(Some(store.clone())), &config, &[1, 2], 5);
    store.save(&file).unwrap();
    drop(store);

    let store = Store::load(&file).unwrap();
    assert_eq!(
        connection(&registry(Some(store)), &config, &[1, 2], 0),
        [(true, 5), (true, 5)]
    );

    // An entry that the scheduler refuses costs that entry only.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen(r#"{"looks":5}"#, r#"{"looks":-5}"#, 1)).unwrap();
    let store = Store::load(&file).unwrap();
    let pairs = connection(&registry(Some(store.clone())), &config, &[1, 2], 0);
    assert_eq!(pairs.iter().filter(|(recalled, _)| *recalled).count(), 1);
    assert_eq!(store.refused(), 1);

    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    Store::load(&file).unwrap_err();
    assert_eq!(
        connection(&registry(Some(Store::new())), &config, &[1, 2], 0),
        [(false, 0), (false, 0)]
    );
}

#[test]
fn learners_are_registered_and_checked_like_all_others() {
    let mut registry = registry(None);
    let check = |_: &ToyConfig| Ok(());
    let taken = registry.register_learner("toy", check, Toy::new).err();
    assert_eq!(taken, Some(RegistryError::NameTaken("toy".into())));
    let wrong = registry.build("toy", &json!({"step": 10})).err().unwrap();
    assert_eq!(
        wrong.to_string(),
        "scheduler `toy`, field `step`: expected 0 to 9, got 10"
    );
}
