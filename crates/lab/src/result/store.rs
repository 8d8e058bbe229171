//! The results file: a heading and one JSON line per run. Runs are stored when they end, and an
//! interrupted experiment can resume.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::file;
use crate::plan::{FORMAT, Plan};
use crate::result::record::{Heading, Record};

/// The name of the results file in its folder.
pub const FILE: &str = "results.jsonl";

/// The contents of a results file.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The experiment.
    pub heading: Heading,
    /// The runs, in the order of the file.
    pub records: Vec<Record>,
}

/// Why results could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not valid.
    #[error("{}:{line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// What is wrong.
        fault: String,
    },
}

/// The results file for a path: the file itself, or the one in the folder.
pub fn results_file(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(FILE)
    } else {
        path.to_owned()
    }
}

impl Results {
    /// Reads a results file, given the file or its folder. Ignores an incomplete last line.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a results file.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let path = results_file(path);
        let io = |source| ReadError::Io {
            path: path.clone(),
            source,
        };
        let fault = |line: usize, fault: String| ReadError::Line {
            path: path.clone(),
            line,
            fault,
        };
        let mut lines = file::lines(&path, file::RESULTS).map_err(io)?;
        let first = lines.next().transpose().map_err(io)?.unwrap_or_default();
        let heading: Heading = serde_json::from_str(&first)
            .map_err(|error| fault(1, format!("not a results file of this version: {error}")))?;
        let (mut records, mut number) = (Vec::new(), 1);
        while let Some(line) = lines.next() {
            number += 1;
            match serde_json::from_str(&line.map_err(io)?) {
                Ok(record) => records.push(record),
                // Only the last line may have no end.
                Err(_) if !lines.is_separated() => {}
                Err(error) => return Err(fault(number, error.to_string())),
            }
        }
        Ok(Self { heading, records })
    }
}

/// What the folder for results contained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Runs that are kept.
    pub kept: usize,
    /// Runs that are dropped, because the experiment has changed since.
    pub outdated: usize,
    /// Where the results of another program were moved.
    pub set_aside: Option<PathBuf>,
}

/// A results file being written.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    heading: String,
    /// Keyed by cell and seed.
    lines: BTreeMap<(String, u64), String>,
    file: File,
}

impl Store {
    /// Opens the results file in a folder. Keeps the runs of the same build for cells of the plan, which must be the plan of
    /// the whole experiment. For a heading with a shard, it keeps those of the shard, of the plan that is sharded.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, or if it has another shard than the heading says.
    pub fn open(
        folder: &Path,
        heading: &Heading,
        whole: &Plan<'_>,
        fresh: bool,
    ) -> io::Result<(Self, Found)> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let mut found = Found::default();
        let mut lines = BTreeMap::new();
        if path.exists() && !fresh {
            let cells: BTreeMap<_, _> = whole
                .cells
                .iter()
                .enumerate()
                .map(|(at, cell)| (&*cell.fingerprint, at))
                .collect();
            let is_ours = |record: &Record| {
                let cell = cells.get(&*record.cell)?;
                let Some(share) = heading.shard else {
                    return Some(());
                };
                let seed = whole.seeds.binary_search(&record.seed).ok()?;
                let number = cell * whole.seeds.len() + seed;
                share.shard.has(number).then_some(())
            };
            match old_lines(&path, heading)? {
                Some(old) => {
                    for (record, line) in old {
                        if is_ours(&record).is_none() {
                            found.outdated += 1;
                        // A failed run is repeated.
                        } else if record.measured().is_some() {
                            lines.insert((record.cell, record.seed), line);
                        }
                    }
                    found.kept = lines.len();
                }
                None => {
                    let aside = folder.join("results.previous.jsonl");
                    fs::rename(&path, &aside)?;
                    found.set_aside = Some(aside);
                }
            }
        }
        let heading = serde_json::to_string(heading)?;
        let file = write(&path, &heading, lines.values())?;
        let store = Self {
            path,
            heading,
            lines,
            file,
        };
        Ok((store, found))
    }

    /// Whether the results contain a run.
    pub fn has(&self, cell: &str, seed: u64) -> bool {
        self.lines.contains_key(&(cell.to_owned(), seed))
    }

    /// Appends a run to the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let line = serde_json::to_string(record)?;
        // One write per line: an interruption leaves at most the last line incomplete.
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.lines.insert((record.cell.clone(), record.seed), line);
        Ok(())
    }

    /// Sorts the runs into the order of the plan.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(self, whole: &Plan<'_>) -> io::Result<PathBuf> {
        let mut left = self.lines;
        let mut sorted = Vec::new();
        for cell in &whole.cells {
            let from = (cell.fingerprint.clone(), 0);
            let to = (cell.fingerprint.clone(), u64::MAX);
            let seeds: Vec<_> = left.range(from..=to).map(|(key, _)| key.clone()).collect();
            sorted.extend(seeds.iter().filter_map(|key| left.remove(key)));
        }
        drop(write(&self.path, &self.heading, sorted.iter())?);
        Ok(self.path)
    }
}

/// The lines of a results file with their records, if the same program wrote them.
fn old_lines(path: &Path, heading: &Heading) -> io::Result<Option<Vec<(Record, String)>>> {
    let mut lines = file::lines(path, file::RESULTS)?;
    let first = lines.next().transpose()?.unwrap_or_default();
    let old = serde_json::from_str::<Heading>(&first).ok();
    let Some(old) = old.filter(|old| old.build == heading.build && old.format == FORMAT) else {
        return Ok(None);
    };
    let shard = |heading: &Heading| heading.shard.map(|share| share.shard);
    if let Some(wanted) = shard(heading)
        && shard(&old) != Some(wanted)
    {
        let there = match shard(&old) {
            Some(there) => format!("shard {there}"),
            None => "a whole experiment".to_owned(),
        };
        return Err(io::Error::other(format!(
            "it has results of {there}, and not of shard {wanted}; take another folder, or discard them with --fresh"
        )));
    }
    let mut old = Vec::new();
    for line in lines {
        let line = line?;
        // A run whose line is incomplete is repeated.
        if let Ok(record) = serde_json::from_str(&line) {
            old.push((record, line));
        }
    }
    Ok(Some(old))
}

/// Writes a new results file, replaces the old one with it, and opens it for appending.
fn write<'a>(
    path: &Path,
    heading: &str,
    lines: impl Iterator<Item = &'a String>,
) -> io::Result<File> {
    let new = path.with_extension("jsonl.new");
    let mut text = format!("{heading}\n");
    for line in lines {
        text += line;
        text.push('\n');
    }
    fs::write(&new, text)?;
    fs::rename(&new, path)?;
    OpenOptions::new().append(true).open(path)
}
