//! The facts of paths: kept within bounds, aged, claimed by one connection at a time, and the same from a file.

use std::fs;
use std::time::Duration;

use mpquic_sched::memory::{MAX_SAVED_AGE, MAX_SAVED_PATHS, MemoryError, Store};
use mpquic_sched::{PathKey, PathMemory, SavedPath};
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn saved(rate: u64) -> SavedPath {
    let mut saved = SavedPath::new(Duration::from_micros(20_123), NOW);
    saved.first_rtt = Duration::from_micros(20_456);
    saved.smoothed_rtt = Duration::from_micros(21_456);
    saved.rtt_var = Duration::from_micros(789);
    saved.rate = rate;
    saved.window = rate / 50;
    saved.startup_window = rate / 25;
    saved.chance_loss = 12_345;
    (saved.bbr, saved.refusals) = (true, 2);
    (saved.loss_events, saved.chance_events) = (85, 71);
    (saved.carried, saved.beside) = (640, Some(PathKey::new(0xfe)));
    saved.confidence = 3;
    saved
}

fn in_file(text: &str) -> Result<Store, MemoryError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    fs::write(&file, text).unwrap();
    Store::load(&file)
}

//= specs/rfc9959-draft.md#3-1-observing
//= type=test
//# - Observing (Updating saved CC parameters): A sender MUST NOT retain more than one set of CC
//# parameters for a Remote Endpoint, but the set of CC parameters SHOULD be updated (or replaced)
//# after a later observation of a path to the same Remote Endpoint.
#[test]
fn the_newest_facts_count_until_they_are_forgotten() {
    let store = Store::new();
    let key = PathKey::new(7);
    assert_eq!(store.look_up(key, NOW), None);
    store.remember(key, &saved(1_000_000));
    store.remember(key, &saved(2_000_000));
    assert_eq!(store.look_up(key, NOW), Some(saved(2_000_000)));
    assert_eq!((store.saved_paths(), store.len()), (1, 0));
    store.forget(key);
    assert_eq!(store.look_up(key, NOW), None);
    // A store that remembers nothing.
    let none = Store::with_capacity(0);
    none.remember(key, &saved(1));
    assert_eq!(none.saved_paths(), 0);
}

#[test]
fn facts_age() {
    let store = Store::new();
    let key = PathKey::new(7);
    store.remember(key, &saved(1_000_000));
    assert!(store.look_up(key, NOW + MAX_SAVED_AGE).is_some());
    let late = NOW + MAX_SAVED_AGE + Duration::from_secs(1);
    assert_eq!(store.look_up(key, late), None);
    assert_eq!(store.saved_paths(), 0, "forgotten");
}

#[test]
fn one_connection_at_a_time_begins_with_them() {
    let store = Store::new();
    let (a, b) = (PathKey::new(1), PathKey::new(2));
    assert!(store.claim(a));
    assert!(!store.clone().claim(a));
    assert!(store.claim(b));
    store.release(a);
    assert!(store.claim(a));
}

#[test]
fn the_least_used_go_first() {
    let store = Store::new();
    for number in 0..MAX_SAVED_PATHS as u64 {
        store.remember(PathKey::new(number), &saved(number));
    }
    assert!(store.look_up(PathKey::new(0), NOW).is_some());
    store.remember(PathKey::new(u64::MAX), &saved(1));
    assert_eq!(store.saved_paths(), MAX_SAVED_PATHS);
    assert!(store.look_up(PathKey::new(0), NOW).is_some());
    assert_eq!(store.look_up(PathKey::new(1), NOW), None);
}

#[test]
fn a_full_store_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    let store = Store::new();
    let mut most = SavedPath::new(Duration::MAX, Duration::MAX / 4);
    most.rate = u64::MAX;
    most.window = u64::MAX;
    most.startup_window = u64::MAX;
    most.bottleneck = u64::MAX;
    most.chance_loss = u32::MAX;
    (most.refusals, most.loss_events) = (u32::MAX, u32::MAX);
    most.chance_events = u32::MAX;
    (most.carried, most.beside) = (u32::MAX, Some(PathKey::new(u64::MAX)));
    most.confidence = u32::MAX;
    (most.first_rtt, most.rtt_var) = (Duration::MAX, Duration::MAX);
    for number in 0..MAX_SAVED_PATHS as u64 + 10 {
        store.remember(PathKey::new(u64::MAX - number), &most);
    }
    store.save(&file).unwrap();
    let bytes = fs::read(&file).unwrap();
    let loaded = Store::load(&file).unwrap();
    assert_eq!(loaded.saved_paths(), MAX_SAVED_PATHS);
    loaded.save(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn files_without_paths_are_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    Store::new().save(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(
        text,
        "{\n\"crate\": \"mpquic-sched\",\n\"format\": 1,\n\"entries\": [\n]\n}\n"
    );
    assert_eq!(in_file(&text).unwrap().saved_paths(), 0);
}

#[test]
fn facts_that_no_path_can_have_are_refused() {
    let good = "\"path\": \"00000000000000ff\", \"used\": 0, \"min_rtt\": 20000, \"first_rtt\": 20500, \
                \"smoothed_rtt\": 21000, \"rtt_var\": 100, \"rate\": 1000000, \"window\": 20000, \"startup_window\": 0, \
                \"bottleneck\": 500000, \"chance_loss\": 0, \"bbr\": true, \"refusals\": 3, \"losses\": 40, \
                \"by_chance\": 30, \"carried\": 700, \"beside\": \"00000000000000fe\", \"confidence\": 1, \"seen\": 1800000000";
    let file = |path: &str| {
        format!(
            "{{\"crate\": \"mpquic-sched\", \"format\": 1, \"entries\": [], \"paths\": [{{{path}}}]}}"
        )
    };
    assert_eq!(in_file(&file(good)).unwrap().saved_paths(), 1);
    let before = in_file(&file(&good.replace("\"first_rtt\": 20500, ", ""))).unwrap();
    let known = before.look_up(PathKey::new(0xff), NOW).unwrap();
    assert_eq!(known.first_rtt, Duration::from_millis(20));
    assert_eq!(known.bottleneck, 500_000);
    let before = in_file(&file(&good.replace("\"bottleneck\": 500000, ", ""))).unwrap();
    let known = before.look_up(PathKey::new(0xff), NOW).unwrap();
    assert_eq!(known.bottleneck, 0, "a file of an older release");
    assert_eq!((known.bbr, known.refusals), (true, 3));
    assert_eq!((known.loss_events, known.chance_events), (40, 30));
    assert_eq!(
        (known.carried, known.beside),
        (700, Some(PathKey::new(0xfe)))
    );
    let worth = "\"carried\": 700, \"beside\": \"00000000000000fe\", ";
    assert!(good.contains(worth));
    let before = in_file(&file(&good.replace(worth, ""))).unwrap();
    let known = before.look_up(PathKey::new(0xff), NOW).unwrap();
    assert_eq!((known.carried, known.beside), (0, None), "nor these");
    let judged = "\"bbr\": true, \"refusals\": 3, \"losses\": 40, \"by_chance\": 30, ";
    assert!(good.contains(judged));
    let before = in_file(&file(&good.replace(judged, ""))).unwrap();
    let known = before.look_up(PathKey::new(0xff), NOW).unwrap();
    assert_eq!((known.bbr, known.refusals), (false, 0), "nor those");
    assert_eq!((known.loss_events, known.chance_events), (0, 0));
    for (what, instead, said) in [
        ("20000,", "0,", "min_rtt is 0, expected 1 to 60000000"),
        ("20500,", "0,", "first_rtt is 0, expected 1 to 60000000"),
        (
            "20000,",
            "60000001,",
            "min_rtt is 60000001, expected 1 to 60000000",
        ),
        (
            "1000000,",
            "18446744073709551615,",
            "rate is 18446744073709551615, expected 0 to 1250000000000",
        ),
        (
            "\"window\": 20000",
            "\"window\": 1099511627777",
            "window is 1099511627777, expected 0 to 1099511627776",
        ),
        (
            "\"confidence\": 1",
            "\"confidence\": 0",
            "confidence is 0, expected 1 to 1000",
        ),
        (
            "\"chance_loss\": 0",
            "\"chance_loss\": 1000001",
            "chance_loss is 1000001, expected 0 to 1000000",
        ),
        (
            "\"refusals\": 3",
            "\"refusals\": 101",
            "refusals is 101, expected 0 to 100",
        ),
        (
            "\"losses\": 40",
            "\"losses\": 101",
            "losses is 101, expected 0 to 100",
        ),
        (
            "\"by_chance\": 30",
            "\"by_chance\": 41",
            "by_chance is 41, expected 0 to 40",
        ),
        (
            "\"carried\": 700",
            "\"carried\": 1001",
            "carried is 1001, expected 0 to 1000",
        ),
        (
            "1800000000",
            "18446744073709551615",
            "seen is 18446744073709551615, expected 0 to 9223372036854775807",
        ),
    ] {
        let text = file(&good.replacen(what, instead, 1));
        assert_ne!(text, file(good), "{what}");
        let error = in_file(&text).unwrap_err();
        assert!(
            matches!(error, MemoryError::Path { index: 0, .. }),
            "{error}"
        );
        assert!(
            error.to_string().ends_with(&format!("path 0: {said}")),
            "{error}"
        );
    }
    for bad in [
        "\"rate\": -1",
        "\"rate\": 1.5",
        "\"rate\": \"1\"",
        "\"rate\": 1, \"beside\": \"fe\"",
        "\"speed\": 1",
    ] {
        let text = file(&good.replace("\"rate\": 1000000", bad));
        let error = in_file(&text).unwrap_err();
        assert!(matches!(error, MemoryError::Malformed { .. }), "{error}");
    }
}

proptest! {
    /// What comes back is what was put in, moved into bounds, and a file changes nothing of it.
    #[test]
    fn a_file_changes_nothing(
        facts in prop::collection::vec((any::<u64>(), any::<[u64; 9]>(), any::<[u32; 6]>()), 0..20)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.json");
        let store = Store::new();
        for (key, n, m) in &facts {
            let mut saved = SavedPath::new(Duration::from_nanos(n[0]), Duration::from_millis(n[1]));
            saved.first_rtt = Duration::from_nanos(n[7]);
            saved.smoothed_rtt = Duration::from_nanos(n[2]);
            saved.rtt_var = Duration::from_nanos(n[3]);
            (saved.rate, saved.window, saved.startup_window) = (n[4], n[5], n[6]);
            saved.bottleneck = n[8];
            (saved.chance_loss, saved.confidence) = (m[0], m[1]);
            (saved.bbr, saved.refusals) = (m[2] % 2 == 0, m[2]);
            (saved.loss_events, saved.chance_events) = (m[3], m[4]);
            saved.carried = m[5];
            saved.beside = (m[5] % 2 == 0).then(|| PathKey::new(n[4]));
            store.remember(PathKey::new(*key), &saved);
        }
        store.save(&file).unwrap();
        let loaded = Store::load(&file).unwrap();
        prop_assert_eq!(loaded.saved_paths(), store.saved_paths());
        for (key, ..) in &facts {
            let key = PathKey::new(*key);
            let now = Duration::ZERO;
            prop_assert_eq!(loaded.look_up(key, now), store.look_up(key, now));
        }
    }

    /// Any text in the place of the paths is refused or taken in, and never more than there may be.
    #[test]
    fn no_text_is_too_much(text in "[\\[\\]{}:,\"a-z0-9_.-]{0,200}") {
        let file = format!("{{\"crate\": \"mpquic-sched\", \"format\": 1, \"entries\": [], \"paths\": {text}}}");
        if let Ok(store) = in_file(&file) {
            prop_assert!(store.saved_paths() <= MAX_SAVED_PATHS);
        }
    }
}
