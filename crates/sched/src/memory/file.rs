//! A memory as a file: JSON in, checked; JSON out, whole or not at all.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::paths::{Known, LARGEST_RATE, LARGEST_WINDOW, LONGEST_RTT, MILLION};
use super::store::{Entry, Key};
use super::{MAX_BYTES, MAX_ENTRY_BYTES, MAX_SAVED_PATHS, MemoryError};
use crate::{PathKey, SavedPath};

/// What `format` must say. To be counted up when older files can no longer be read.
const FORMAT: u64 = 1;
/// What `crate` must say.
const CRATE: &str = env!("CARGO_PKG_NAME");

/// At least the bytes of a file without entries, and with as many paths as there can be.
pub(super) const FRAME: usize = 256 + MAX_SAVED_PATHS * PATH_SIZE;
/// At least the bytes that a path takes.
const PATH_SIZE: usize = 432;
/// At least the bytes that an entry takes beyond its scheduler's name and what was learned.
const ENTRY_FRAME: usize = 192;
/// How many names to try for the temporary file; those of processes that crashed may be taken.
const ATTEMPTS: u32 = 64;

/// What every version of the format has.
#[derive(Deserialize)]
#[serde(expecting = "an object with the fields `crate` and `format`")]
struct Header<'a> {
    #[serde(rename = "crate", borrow)]
    name: Cow<'a, str>,
    format: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    #[serde(rename = "crate")]
    _name: Cow<'a, str>,
    #[serde(rename = "format")]
    _format: u64,
    #[serde(borrow)]
    entries: Vec<DocumentEntry<'a>>,
    /// Not in files of releases that kept no facts of paths.
    #[serde(default)]
    paths: Vec<DocumentPath>,
}

/// Times are microseconds, but for the last one, which is seconds since the Unix epoch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentPath {
    path: Hexadecimal,
    used: u64,
    min_rtt: u64,
    /// Not in files of before: the shortest one then.
    #[serde(default)]
    first_rtt: Option<u64>,
    smoothed_rtt: u64,
    rtt_var: u64,
    rate: u64,
    window: u64,
    startup_window: u64,
    /// Not in files of before: nothing is known of it then.
    #[serde(default)]
    bottleneck: u64,
    chance_loss: u32,
    /// These four are not in files of before: no controller has judged its losses then.
    #[serde(default)]
    bbr: bool,
    #[serde(default)]
    refusals: u32,
    #[serde(default)]
    losses: u32,
    #[serde(default)]
    by_chance: u32,
    /// These two are not in files of before: nothing is known of the path beside others then.
    #[serde(default)]
    carried: u32,
    #[serde(default)]
    beside: Option<Hexadecimal>,
    confidence: u32,
    seen: u64,
}

/// What a file holds, in each case what was used last at the end.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<(Key, Entry)>,
    pub(super) paths: Vec<(PathKey, Known)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentEntry<'a> {
    scheduler: Cow<'a, str>,
    config: Hexadecimal,
    fast: Hexadecimal,
    slow: Hexadecimal,
    used: u64,
    #[serde(borrow)]
    learned: &'a RawValue,
}

/// Sixteen digits in a string: JSON's own numbers have 53 bits for most who read them.
struct Hexadecimal(u64);

impl<'de> Deserialize<'de> for Hexadecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Hexadecimal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 16 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hexadecimal, E> {
                let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
                let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
                number
                    .map(Hexadecimal)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Digits)
    }
}

/// What is in a file. Nothing is in one that does not exist.
pub(super) fn read(path: &Path) -> Result<Contents, MemoryError> {
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(source) => {
            let path = path.to_owned();
            return Err(MemoryError::Read { path, source });
        }
    };
    if bytes.len() > MAX_BYTES {
        return Err(MemoryError::TooLarge {
            path: path.to_owned(),
            limit: MAX_BYTES,
        });
    }
    parse(path, &bytes)
}

/// The bytes of a regular file, one more than allowed at most.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for whoever writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Contents, MemoryError> {
    let malformed = |error: serde_json::Error| MemoryError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        problem: without_place(&error),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        MemoryError::Malformed {
            path: path.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: 1 + before.len() - line_start,
            problem: "not UTF-8".to_owned(),
        }
    })?;
    let header: Header<'_> = serde_json::from_str(text).map_err(malformed)?;
    if header.name != CRATE {
        return Err(MemoryError::Foreign {
            path: path.to_owned(),
            found: excerpt(&header.name),
            expected: CRATE,
        });
    }
    if header.format != FORMAT {
        return Err(MemoryError::Format {
            path: path.to_owned(),
            found: header.format,
            expected: FORMAT,
        });
    }
    let document: Document<'_> = serde_json::from_str(text).map_err(malformed)?;
    let mut entries = Vec::with_capacity(document.entries.len());
    for (index, entry) in document.entries.into_iter().enumerate() {
        check(entry.learned.get()).map_err(|problem| MemoryError::Entry {
            path: path.to_owned(),
            index,
            scheduler: excerpt(&entry.scheduler),
            problem,
        })?;
        let key = Key {
            scheduler: entry.scheduler.into(),
            config: entry.config.0,
            fast: PathKey::new(entry.fast.0),
            slow: PathKey::new(entry.slow.0),
        };
        let learned = entry.learned.get().into();
        entries.push((
            key,
            Entry {
                used: entry.used,
                learned,
            },
        ));
    }
    // Stable: of those that claim the same time, the last one stands as the newest.
    entries.sort_by_key(|(_, entry)| entry.used);
    let mut paths = Vec::with_capacity(document.paths.len().min(MAX_SAVED_PATHS));
    for (index, found) in document.paths.iter().enumerate() {
        let saved = saved_path(found).map_err(|problem| MemoryError::Path {
            path: path.to_owned(),
            index,
            problem,
        })?;
        let used = found.used;
        paths.push((PathKey::new(found.path.0), Known { used, saved }));
    }
    paths.sort_by_key(|(_, known)| known.used);
    Ok(Contents { entries, paths })
}

/// The facts of a path, each of which must be one that a path can have.
fn saved_path(found: &DocumentPath) -> Result<SavedPath, String> {
    let within = |name: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(format!("{name} is {value}, expected {least} to {most}"))
    };
    let longest = LONGEST_RTT.as_micros() as u64;
    let time = |name, value, least| within(name, value, least, longest).map(Duration::from_micros);
    let min_rtt = time("min_rtt", found.min_rtt, 1)?;
    let seen = within("seen", found.seen, 0, u64::MAX >> 1)?;
    let mut saved = SavedPath::new(min_rtt, Duration::from_secs(seen));
    saved.first_rtt = time("first_rtt", found.first_rtt.unwrap_or(found.min_rtt), 1)?;
    saved.smoothed_rtt = time("smoothed_rtt", found.smoothed_rtt, 1)?;
    saved.rtt_var = time("rtt_var", found.rtt_var, 0)?;
    saved.rate = within("rate", found.rate, 0, LARGEST_RATE)?;
    saved.window = within("window", found.window, 0, LARGEST_WINDOW)?;
    saved.startup_window = within("startup_window", found.startup_window, 0, LARGEST_WINDOW)?;
    saved.bottleneck = within("bottleneck", found.bottleneck, 0, LARGEST_RATE)?;
    within("chance_loss", found.chance_loss.into(), 0, MILLION.into())?;
    saved.chance_loss = found.chance_loss;
    saved.bbr = found.bbr;
    within(
        "refusals",
        found.refusals.into(),
        0,
        SavedPath::MAX_REFUSALS.into(),
    )?;
    saved.refusals = found.refusals;
    let most = SavedPath::MAX_LOSS_EVENTS.into();
    let events = within("losses", found.losses.into(), 0, most)?;
    saved.loss_events = found.losses;
    within("by_chance", found.by_chance.into(), 0, events)?;
    saved.chance_events = found.by_chance;
    let all = SavedPath::ALL_CARRIED.into();
    within("carried", found.carried.into(), 0, all)?;
    saved.carried = found.carried;
    saved.beside = found.beside.as_ref().map(|key| PathKey::new(key.0));
    let surest = SavedPath::MAX_CONFIDENCE;
    within("confidence", found.confidence.into(), 1, surest.into())?;
    saved.confidence = found.confidence;
    Ok(saved)
}

/// What holds for the entries of all schedulers: not too large, not too deep, and all numbers finite.
fn check(learned: &str) -> Result<(), String> {
    if learned.len() > MAX_ENTRY_BYTES {
        let length = learned.len();
        return Err(format!(
            "{length} bytes, expected at most {MAX_ENTRY_BYTES}"
        ));
    }
    match serde_json::from_str::<Value>(learned) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "{}, expected finite numbers",
            without_place(&error)
        )),
    }
}

/// The message without the line and column, which stand elsewhere.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    excerpt(text.strip_suffix(&place).unwrap_or(&text))
}

/// A text of the file's as it may stand in a message of one line: short, without control characters.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 160;
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect();
    if short.len() < text.len() && text.chars().count() > LONGEST {
        short.push('…');
    }
    short
}

/// The bytes of a file with these entries and paths.
pub(super) fn text(entries: &[(Key, Entry)], paths: &[(PathKey, Known)]) -> Vec<u8> {
    let mut text = format!(
        "{{\n\"crate\": {},\n\"format\": {FORMAT},\n\"entries\": [",
        quoted(CRATE)
    );
    for (index, (key, entry)) in entries.iter().enumerate() {
        text += &format!(
            "{}\n{{\"scheduler\": {}, \"config\": \"{:016x}\", \"fast\": \"{}\", \"slow\": \"{}\", \
             \"used\": {}, \"learned\": {}}}",
            if index == 0 { "" } else { "," },
            quoted(&key.scheduler),
            key.config,
            key.fast,
            key.slow,
            entry.used,
            entry.learned,
        );
    }
    text += "\n]";
    for (index, (key, known)) in paths.iter().enumerate() {
        text += if index == 0 { ",\n\"paths\": [" } else { "," };
        let (saved, used) = (&known.saved, known.used);
        text += &format!(
            "\n{{\"path\": \"{key}\", \"used\": {used}, \"min_rtt\": {}, \"first_rtt\": {}, \"smoothed_rtt\": {}, \
             \"rtt_var\": {}, \"rate\": {}, \"window\": {}, \"startup_window\": {}, \"bottleneck\": {}, \"chance_loss\": {}, \"bbr\": {}, \
             \"refusals\": {}, \"losses\": {}, \"by_chance\": {}, \"carried\": {}, {}\"confidence\": {}, \"seen\": {}}}",
            saved.min_rtt.as_micros(),
            saved.first_rtt.as_micros(),
            saved.smoothed_rtt.as_micros(),
            saved.rtt_var.as_micros(),
            saved.rate,
            saved.window,
            saved.startup_window,
            saved.bottleneck,
            saved.chance_loss,
            saved.bbr,
            saved.refusals,
            saved.loss_events,
            saved.chance_events,
            saved.carried,
            saved
                .beside
                .map_or_else(String::new, |key| format!("\"beside\": \"{key}\", ")),
            saved.confidence,
            saved.seen.as_secs(),
        );
    }
    text += if paths.is_empty() {
        "\n}\n"
    } else {
        "\n]\n}\n"
    };
    text.into_bytes()
}

/// At least the bytes that an entry takes in a file.
pub(super) fn size(key: &Key, learned: &str) -> usize {
    ENTRY_FRAME + quoted(&key.scheduler).len() + learned.len()
}

/// A string of JSON's.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Puts the bytes in the place of whatever has this name, in one step.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    replace(path, bytes).map_err(|source| MemoryError::Write {
        path: path.to_owned(),
        source,
    })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = create_beside(path)?;
    let written = file
        .write_all(bytes)
        // Else a crash of the machine could leave the name with nothing behind it.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A new file in the same folder, since a file can take the name of another only within a file system.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut options = OpenOptions::new();
    // New: never through a link that somebody has laid out.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut attempt = 0;
    loop {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.{attempt}.tmp", std::process::id()));
        let temporary = path.with_file_name(temporary);
        match options.open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
