//! The store as a file: what is written is read back, and what is anything else is refused in words
//! that name the file, the place and what was expected.

use std::fs;
use std::path::PathBuf;

use mpquic_sched::PathKey;
use mpquic_sched::memory::{MAX_BYTES, MAX_ENTRY_BYTES, MemoryError, Store};
use proptest::prelude::*;
use tempfile::TempDir;

/// A file that is written anew for each case.
struct Place {
    _folder: TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            file: folder.path().join("memory.json"),
            _folder: folder,
        }
    }

    fn load(&self, bytes: impl AsRef<[u8]>) -> Result<Store, MemoryError> {
        fs::write(&self.file, bytes).unwrap();
        Store::load(&self.file)
    }

    /// What is said of these bytes, less the file's name, which it must have.
    fn refusal(&self, bytes: impl AsRef<[u8]>) -> String {
        let message = self.load(bytes).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        let start = format!("the memory {} is refused", self.file.display());
        let rest = message
            .strip_prefix(&start)
            .unwrap_or_else(|| panic!("{message}"));
        rest.trim_start_matches(": ").trim_start().to_owned()
    }
}

/// Floats that must come back to the last bit, and every order of use.
fn store() -> Store {
    let store = Store::new();
    let recall = store.recall("linucb", &());
    for key in [5, 3, 9, 1] {
        let value = vec![1.0 / 3.0, f64::MIN_POSITIVE, 1e300 / key as f64];
        recall.remember(PathKey::new(key), PathKey::new(100), &value);
    }
    store
        .recall("we \"quote\"", &())
        .remember_path(PathKey::new(7), &"ünïcode\n".to_owned());
    store
}

/// A file with these texts as what was learned.
fn file_of(learned: &[&str]) -> String {
    let entries: Vec<_> = learned
        .iter()
        .map(|learned| {
            format!(
                r#"{{"scheduler": "x", "config": "00000000000000ff", "fast": "0000000000000001",
                    "slow": "0000000000000002", "used": 0, "learned": {learned}}}"#
            )
        })
        .collect();
    let entries = entries.join(",");
    format!(r#"{{"crate": "mpquic-sched", "format": 1, "entries": [{entries}]}}"#)
}

#[test]
fn what_is_saved_is_loaded_and_saved_as_the_same_bytes() {
    let place = Place::new();
    let store = store();
    store.save(&place.file).unwrap();
    let bytes = fs::read(&place.file).unwrap();
    let loaded = Store::load(&place.file).unwrap();
    assert_eq!(loaded.len(), 5);
    loaded.save(&place.file).unwrap();
    assert_eq!(fs::read(&place.file).unwrap(), bytes);
    let recall = loaded.recall("linucb", &());
    let value: Vec<f64> = recall.recall(PathKey::new(3), PathKey::new(100)).unwrap();
    assert_eq!(value, [1.0 / 3.0, f64::MIN_POSITIVE, 1e300 / 3.0]);
    // The temporary file is gone.
    let folder = place.file.parent().unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

#[test]
fn the_same_memory_makes_the_same_bytes_whatever_came_in_between() {
    let (one, other) = (Place::new(), Place::new());
    let same = store();
    store().save(&one.file).unwrap();
    for _ in 0..10 {
        same.recall("unknown", &())
            .recall_path::<u64>(PathKey::new(1));
    }
    same.save(&other.file).unwrap();
    assert_eq!(fs::read(&one.file).unwrap(), fs::read(&other.file).unwrap());
}

#[test]
fn a_restart_does_not_change_what_goes_first() {
    let place = Place::new();
    let store = store();
    store
        .recall("linucb", &())
        .recall::<Vec<f64>>(PathKey::new(5), PathKey::new(100));
    store.save(&place.file).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&place.file).unwrap()).unwrap();
    let used: Vec<_> = json["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["fast"].as_str().unwrap(),
                entry["used"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        used,
        [
            ("0000000000000001", 2),
            ("0000000000000003", 0),
            ("0000000000000005", 4),
            ("0000000000000009", 1),
            ("0000000000000007", 3),
        ]
    );
}

#[test]
fn a_file_that_is_not_there_is_an_empty_memory() {
    let place = Place::new();
    assert!(Store::load(&place.file).unwrap().is_empty());
    // One that cannot be read is not.
    let folder = place.file.parent().unwrap();
    let error = Store::load(folder).unwrap_err();
    assert!(matches!(error, MemoryError::Read { .. }));
    assert!(error.to_string().ends_with("not a regular file"), "{error}");
}

#[test]
fn files_that_are_refused() {
    let place = Place::new();
    for (text, expected) in [
        ("", "at line 1, column 0: EOF while parsing a value"),
        (
            "{\n  \"crate\": ",
            "at line 2, column 11: EOF while parsing a value",
        ),
        (
            "[]",
            "at line 1, column 2: invalid length 0, expected an object with the fields `crate` and `format`",
        ),
        ("{}", "at line 1, column 2: missing field `crate`"),
        (
            r#"{"crate": "other", "format": 1}"#,
            r#"written by "other", expected "mpquic-sched""#,
        ),
        (
            r#"{"crate": "mpquic-sched", "format": 2, "anything": []}"#,
            "format 2, expected 1",
        ),
        (
            r#"{"crate": "mpquic-sched", "format": "1"}"#,
            r#"at line 1, column 39: invalid type: string "1", expected u64"#,
        ),
        (
            r#"{"crate": "mpquic-sched", "format": 1}"#,
            "at line 1, column 38: missing field `entries`",
        ),
        (
            r#"{"crate": "mpquic-sched", "format": 1, "entries": [], "more": 0}"#,
            "at line 1, column 60: unknown field `more`, expected one of `crate`, `format`, `entries`, `paths`",
        ),
        (&file_of(&["NaN"]), "at line 2, column 71: expected value"),
        (
            &file_of(&["-Infinity"]),
            "at line 2, column 72: invalid number",
        ),
        (
            &file_of(&["1", "[0, 1e999]"]),
            r#"entry 1, of scheduler "x": number out of range, expected finite numbers"#,
        ),
        (
            &file_of(&[&format!("{}{}", "[".repeat(200), "]".repeat(200))]),
            r#"entry 0, of scheduler "x": recursion limit exceeded, expected finite numbers"#,
        ),
        (
            &file_of(&[&format!("\"{}\"", "x".repeat(MAX_ENTRY_BYTES))]),
            r#"entry 0, of scheduler "x": 262146 bytes, expected at most 262144"#,
        ),
        (
            &file_of(&["1"]).replace("00ff", "00fg"),
            "at line 1, column 98: invalid value: string \"00000000000000fg\", \
             expected a string of 16 hexadecimal digits",
        ),
        (
            &file_of(&["1"]).replace("\"used\": 0", "\"used\": -1"),
            "at line 2, column 58: invalid value: integer `-1`, expected u64",
        ),
    ] {
        assert_eq!(
            place.refusal(text),
            expected,
            "{}",
            text.get(..200).unwrap_or(text)
        );
    }
    assert_eq!(
        place.refusal(b"{\n\"\xff"),
        "at line 2, column 2: not UTF-8"
    );
}

#[test]
fn a_message_stays_a_line_whatever_the_file_says() {
    let place = Place::new();
    let name = "a\nb".repeat(10_000);
    let text = serde_json::json!({"crate": name, "format": 1}).to_string();
    let refusal = place.refusal(text);
    assert!(refusal.len() < 400, "{refusal}");
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let place = Place::new();
    let file = fs::File::create(&place.file).unwrap();
    file.set_len(MAX_BYTES as u64 + 1).unwrap();
    let error = Store::load(&place.file).unwrap_err();
    assert!(matches!(
        error,
        MemoryError::TooLarge {
            limit: MAX_BYTES,
            ..
        }
    ));
}

#[test]
fn what_is_not_written_leaves_what_was_there() {
    let place = Place::new();
    let folder = place.file.parent().unwrap();
    let error = store().save(folder.join("no folder/memory")).unwrap_err();
    assert!(matches!(error, MemoryError::Write { .. }), "{error}");
    // A folder does not go for a file.
    let taken = folder.join("taken");
    fs::create_dir(&taken).unwrap();
    store().save(&taken).unwrap_err();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    assert!(store().save("..").is_err());
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_it_and_a_link_is_not_followed() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let victim = place.file.with_file_name("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &place.file).unwrap();
    store().save(&place.file).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    let mode = fs::symlink_metadata(&place.file)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn entries_beyond_the_capacity_go_oldest_first() {
    let entry = |n: u64| {
        format!(
            r#"{{"scheduler": "x", "config": "00000000000000ff", "fast": "{n:016x}",
                "slow": "{n:016x}", "used": {n}, "learned": {n}}}"#
        )
    };
    let entries: Vec<_> = (0..1100).map(entry).collect();
    let entries = entries.join(",");
    let text = format!(r#"{{"crate": "mpquic-sched", "format": 1, "entries": [{entries}]}}"#);
    let place = Place::new();
    let store = place.load(text).unwrap();
    assert_eq!(store.len(), 1024);
    store.save(&place.file).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&place.file).unwrap()).unwrap();
    assert_eq!(json["entries"][0]["fast"], format!("{:016x}", 76));
}

/// Loads it, and asks for what may be there as several types would.
fn survives(place: &Place, bytes: &[u8]) {
    if let Ok(store) = place.load(bytes) {
        let recall = store.recall("linucb", &());
        for key in [1, 3, 5, 9] {
            let (fast, slow) = (PathKey::new(key), PathKey::new(100));
            let _: Option<Vec<f64>> = recall.recall(fast, slow);
            let _: Option<[f64; 3]> = recall.recall(fast, slow);
        }
        store.save(&place.file).unwrap();
        Store::load(&place.file).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        survives(&Place::new(), &bytes);
    }

    /// Nearly right files get further than noise.
    #[test]
    fn no_damage_to_a_file_makes_it_panic(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let place = Place::new();
        store().save(&place.file).unwrap();
        let mut bytes = fs::read(&place.file).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            // Half of them digits, which leave the syntax as it is.
            bytes[at] = if byte < 128 { b'0' + byte % 10 } else { byte };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        survives(&place, &bytes);
    }
}
