//! The store in memory: what is kept apart, what goes first, what is refused.

use mpquic_sched::PathKey;
use mpquic_sched::memory::{MAX_BYTES, MAX_ENTRY_BYTES, Recall, Store};
use serde_json::json;

const A: PathKey = PathKey::new(1);
const B: PathKey = PathKey::new(2);

#[test]
fn the_newest_deposit_of_a_pair_counts() {
    let store = Store::new();
    let recall = store.recall("x", &json!({}));
    assert_eq!(recall.recall::<u64>(A, B), None);
    recall.remember(A, B, &1_u64);
    recall.remember(A, B, &2_u64);
    recall.remember(B, A, &3_u64);
    assert_eq!(recall.recall(A, B), Some(2_u64));
    assert_eq!(recall.recall(B, A), Some(3_u64));
    assert_eq!((store.len(), store.refused()), (2, 0));
}

#[test]
fn paths_that_cannot_be_told_apart_have_no_pair_but_may_be_a_path() {
    let store = Store::new();
    let recall = store.recall("x", &json!({}));
    recall.remember(A, A, &1_u64);
    assert!(store.is_empty());
    recall.remember_path(A, &2_u64);
    assert_eq!(recall.recall_path(A), Some(2_u64));
    assert_eq!(recall.recall::<u64>(A, A), None);
}

#[test]
fn names_and_configurations_are_kept_apart_but_for_the_seed() {
    let store = Store::new();
    let config = json!({"alpha": 0.8, "seed": 1, "inner": {"a": 1, "b": 2}});
    store.recall("x", &config).remember(A, B, &1_u64);
    let get = |name, config| store.recall(name, &config).recall::<u64>(A, B);
    let same = json!({"inner": {"b": 2, "a": 1}, "seed": 9, "alpha": 0.8});
    assert_eq!(get("x", same), Some(1));
    assert_eq!(get("y", config), None);
    assert_eq!(
        get("x", json!({"alpha": 0.9, "inner": {"a": 1, "b": 2}})),
        None
    );
    assert_eq!(
        get("x", json!({"alpha": 0.8, "inner": {"a": 2, "b": 2}})),
        None
    );
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let store = Store::with_capacity(2);
    let recall = store.recall("x", &json!({}));
    let key = PathKey::new;
    recall.remember_path(key(1), &1_u64);
    recall.remember_path(key(2), &2_u64);
    assert_eq!(recall.recall_path(key(1)), Some(1_u64));
    recall.remember_path(key(3), &3_u64);
    assert_eq!(recall.recall_path::<u64>(key(2)), None);
    assert_eq!(recall.recall_path(key(1)), Some(1_u64));
    assert_eq!(recall.recall_path(key(3)), Some(3_u64));

    let nothing = Store::with_capacity(0);
    nothing.recall("x", &()).remember_path(A, &1_u64);
    assert!(nothing.is_empty());
}

#[test]
fn bytes_are_bounded_too() {
    let store = Store::with_capacity(usize::MAX);
    let recall = store.recall("x", &());
    let large = "x".repeat(MAX_ENTRY_BYTES - 2);
    let fit = MAX_BYTES / MAX_ENTRY_BYTES;
    for key in 0..fit as u64 + 8 {
        recall.remember_path(PathKey::new(key), &large);
    }
    assert!(store.len() < fit, "{} of {fit}", store.len());
    assert!(store.len() > fit - 8);
    assert_eq!(
        recall.recall_path(PathKey::new(fit as u64 + 7)),
        Some(large)
    );
    assert_eq!(store.refused(), 0);
    // What a store holds can always be saved and loaded.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory");
    store.save(&file).unwrap();
    assert_eq!(Store::load(&file).unwrap().len(), store.len());
}

#[test]
fn what_cannot_be_read_back_or_is_too_large_is_not_stored() {
    let store = Store::new();
    let recall = store.recall("x", &());
    recall.remember(A, B, &7_f64);
    recall.remember(A, B, &f64::NAN);
    recall.remember(A, B, &f64::INFINITY);
    recall.remember(A, B, &"x".repeat(MAX_ENTRY_BYTES));
    assert_eq!(store.refused(), 3);
    // Nor does it take the place of what was there.
    assert_eq!(recall.recall(A, B), Some(7_f64));
}

#[test]
fn what_its_scheduler_refuses_is_forgotten_and_counted() {
    let store = Store::new();
    let recall = store.recall("x", &());
    recall.remember(A, B, &[1.0, 2.0]);
    assert_eq!(recall.recall::<[f64; 3]>(A, B), None);
    assert_eq!((store.len(), store.refused()), (0, 1));
    assert_eq!(recall.recall::<[f64; 2]>(A, B), None);
    assert_eq!(store.refused(), 1);
}

#[test]
fn without_a_memory_nothing_is_known() {
    let recall = Recall::none();
    assert!(!recall.is_some());
    recall.remember(A, B, &1_u64);
    assert_eq!(recall.recall::<u64>(A, B), None);
    // Nor with a configuration that is no JSON.
    let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(!Store::new().recall("x", &odd).is_some());
}

#[test]
fn clones_are_one_memory_for_all_threads() {
    let store = Store::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let recall = store.clone().recall("x", &());
            scope.spawn(move || {
                for i in 0..100 {
                    let key = PathKey::new(100 * thread + i);
                    recall.remember_path(key, &i);
                    assert_eq!(recall.recall_path(key), Some(i));
                }
            });
        }
    });
    assert_eq!(store.len(), 400);
}
