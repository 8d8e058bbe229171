//! Puts the shards of an experiment together. The result is that of one machine, byte for byte.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::file;
use crate::plan::shard::{Shard, Share};
use crate::plan::sweep;
use crate::plan::{self, FORMAT};
use crate::result::record::{Heading, Record};
use crate::result::store::{FILE, ReadError, Results, results_file};
use crate::run::timelines;

/// Why results could not be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to put together.
    #[error("expected the folders of all shards")]
    Nothing,
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The merged results could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file has no results of this version.
    #[error("{}: not a results file of this version: {fault}", path.display())]
    NotResults {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// The results are not those of a shard.
    #[error("{} has results of a whole experiment, expected a shard: mpquic-lab run FILE --shard 1/4", path.display())]
    NotAShard {
        /// The file.
        path: PathBuf,
    },
    /// Two builds, whose results must not be mixed.
    #[error(
        "{} is of build {first_build}, and {} of build {second_build}: run all shards with the same build",
        first.display(), second.display()
    )]
    MixedBuilds {
        /// One file.
        first: PathBuf,
        /// Its build.
        first_build: String,
        /// The other file.
        second: PathBuf,
        /// The build of that.
        second_build: String,
    },
    /// Two experiments, or one with different settings.
    #[error(
        "{} and {} are not of the same experiment: the files, what they include, --seeds, --only or --time-lost differ",
        first.display(), second.display()
    )]
    MixedExperiments {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// One is a part of so many shards, the other of another number.
    #[error("{} is shard {first_shard}, and {} is shard {second_shard}: not parts of one whole", first.display(), second.display())]
    MixedCounts {
        /// One file.
        first: PathBuf,
        /// Its shard.
        first_shard: Shard,
        /// The other file.
        second: PathBuf,
        /// The shard of that.
        second_shard: Shard,
    },
    /// A shard is there twice.
    #[error("{} and {} are both shard {shard}", first.display(), second.display())]
    Doubled {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// The shard of both.
        shard: Shard,
    },
    /// Shards are not there.
    #[error("of {count} shards, these are missing: {}", list(numbers))]
    Missing {
        /// How many there should be.
        count: usize,
        /// The numbers of those that are missing, from 1.
        numbers: Vec<usize>,
    },
    /// A shard does not have all of its runs.
    #[error("{}: shard {shard} has {found} of {expected} runs: run it again, and it goes on where it stopped", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The shard.
        shard: Shard,
        /// The runs that it has.
        found: usize,
        /// The runs that it should have.
        expected: usize,
    },
    /// A run is not where it should be: the shard was interrupted before its runs were sorted, or the file was changed.
    #[error("{}:{line}: not the run that belongs here: run the shard again", path.display())]
    OutOfPlace {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// The first numbers of a list.
fn list(numbers: &[usize]) -> String {
    let shown: Vec<_> = numbers.iter().take(20).map(ToString::to_string).collect();
    let more = if numbers.len() > 20 { ", .." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The results of a shard, being read.
struct Part {
    path: PathBuf,
    heading: Heading,
    share: Share,
    /// How many runs it has.
    found: usize,
    lines: file::Pieces,
}

/// Puts the results of all shards, given their folders, into a folder: the results, the tables, the time lines and the
/// report. What is written is what one machine would have written.
///
/// # Errors
///
/// [`MergeError`], in particular if shards are missing, doubled or incomplete, or of different builds or experiments.
/// Nothing is written then but, if a run turns out to be out of place, a file `results.jsonl.new`.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<Results, MergeError> {
    let mut parts = folders
        .iter()
        .map(|folder| Part::open(folder))
        .collect::<Result<Vec<_>, _>>()?;
    check(&parts)?;
    parts.sort_by_key(|part| part.share.shard);
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| MergeError::Io { path, source }
    };
    fs::create_dir_all(out).map_err(io(out))?;
    let (path, new) = (out.join(FILE), out.join(FILE).with_extension("jsonl.new"));
    let cells = write(&mut parts, &new).map_err(|fault| match fault {
        Fault::Merge(error) => error,
        Fault::Io(error) => io(&new)(error),
    })?;
    fs::rename(&new, &path).map_err(io(&path))?;
    let results = Results::read(&path)?;
    if results.heading.timeline.is_some() {
        let from = parts.iter().map(|part| part.folder());
        timelines::merge(from, out, &cells).map_err(io(out))?;
    }
    sweep::write_tables(out, &results).map_err(io(out))?;
    Ok(results)
}

/// The name of the experiment whose results a folder has.
pub(crate) fn name(folder: &Path) -> Result<String, MergeError> {
    Part::open(folder).map(|part| part.heading.name)
}

/// What may go wrong while the results are written.
enum Fault {
    Merge(MergeError),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<MergeError> for Fault {
    fn from(error: MergeError) -> Self {
        Self::Merge(error)
    }
}

/// Whether the parts, by their headings, are one whole.
fn check(parts: &[Part]) -> Result<(), MergeError> {
    let first = parts.first().ok_or(MergeError::Nothing)?;
    let mut seen: BTreeMap<Shard, &Part> = BTreeMap::new();
    for part in parts {
        if part.heading.build != first.heading.build {
            return Err(MergeError::MixedBuilds {
                first: first.path.clone(),
                first_build: first.heading.build.clone(),
                second: part.path.clone(),
                second_build: part.heading.build.clone(),
            });
        }
        if part.heading.experiment != first.heading.experiment
            || part.share.runs != first.share.runs
        {
            return Err(MergeError::MixedExperiments {
                first: first.path.clone(),
                second: part.path.clone(),
            });
        }
        if part.share.shard.count() != first.share.shard.count() {
            return Err(MergeError::MixedCounts {
                first: first.path.clone(),
                first_shard: first.share.shard,
                second: part.path.clone(),
                second_shard: part.share.shard,
            });
        }
        if let Some(other) = seen.insert(part.share.shard, part) {
            return Err(MergeError::Doubled {
                first: other.path.clone(),
                second: part.path.clone(),
                shard: part.share.shard,
            });
        }
    }
    for part in parts {
        let expected = part.share.shard.of(part.share.runs).count();
        if part.found < expected {
            return Err(MergeError::Incomplete {
                path: part.path.clone(),
                shard: part.share.shard,
                found: part.found,
                expected,
            });
        }
    }
    let count = first.share.shard.count();
    let there: Vec<_> = seen.keys().map(|shard| shard.number()).collect();
    let numbers = (1..=count).filter(|number| there.binary_search(number).is_err());
    let numbers: Vec<_> = numbers.collect();
    if numbers.is_empty() {
        Ok(())
    } else {
        Err(MergeError::Missing { count, numbers })
    }
}

/// Writes the runs in the order of the experiment, of sorted parts that are one whole. Returns the fingerprints of the cells.
fn write(parts: &mut [Part], new: &Path) -> Result<Vec<String>, Fault> {
    let Some(first) = parts.first() else {
        return Err(MergeError::Nothing.into());
    };
    let (runs, count) = (first.share.runs, first.share.shard.count());
    let heading = Heading {
        shard: None,
        ..first.heading.clone()
    };
    let seeds = heading.seeds;
    let mut out = BufWriter::new(File::create(new)?);
    writeln!(
        out,
        "{}",
        serde_json::to_string(&heading).map_err(io::Error::from)?
    )?;
    let mut cells: Vec<String> = Vec::new();
    for run in 0..runs {
        let part = &mut parts[run % count];
        let line = part.line()?;
        let record: Option<Record> = serde_json::from_str(&line).ok();
        let (cell, seed) = (run as u64 / seeds.count, run as u64 % seeds.count);
        let fits = record.is_some_and(|record| {
            if cells.len() as u64 == cell {
                cells.push(record.cell.clone());
            }
            cells.last() == Some(&record.cell) && record.seed == seeds.first.saturating_add(seed)
        });
        if !fits {
            return Err(part.out_of_place(run / count).into());
        }
        writeln!(out, "{line}")?;
    }
    for part in &mut *parts {
        let own = part.share.shard.of(runs).count();
        if part.lines.next().is_some() {
            return Err(part.out_of_place(own).into());
        }
    }
    out.flush()?;
    let identity = plan::identity(&heading, cells.iter().map(|cell| &**cell));
    if identity != heading.experiment {
        return Err(parts[0].out_of_place(0).into());
    }
    Ok(cells)
}

impl Part {
    fn open(folder: &Path) -> Result<Self, MergeError> {
        let path = results_file(folder);
        let io = |source| MergeError::Io {
            path: path.clone(),
            source,
        };
        let mut lines = file::lines(&path, file::RESULTS).map_err(io)?;
        let all = file::lines(&path, file::RESULTS).map_err(io)?;
        let first = lines.next().transpose().map_err(io)?.unwrap_or_default();
        let heading: Heading = match serde_json::from_str::<Heading>(&first) {
            Ok(heading) if heading.format == FORMAT => heading,
            Ok(heading) => {
                return Err(MergeError::NotResults {
                    path,
                    fault: format!("format {}, expected {FORMAT}", heading.format),
                });
            }
            Err(error) => {
                return Err(MergeError::NotResults {
                    path,
                    fault: error.to_string(),
                });
            }
        };
        let Some(share) = heading.shard else {
            return Err(MergeError::NotAShard { path });
        };
        let found = all.skip(1).take_while(Result::is_ok).count();
        Ok(Self {
            path,
            heading,
            share,
            found,
            lines,
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new(""))
    }

    /// The line of its next run.
    fn line(&mut self) -> Result<String, MergeError> {
        match self.lines.next() {
            Some(Ok(line)) => Ok(line),
            Some(Err(source)) => Err(MergeError::Io {
                path: self.path.clone(),
                source,
            }),
            None => Err(MergeError::Incomplete {
                path: self.path.clone(),
                shard: self.share.shard,
                found: self.found,
                expected: self.share.shard.of(self.share.runs).count(),
            }),
        }
    }

    fn out_of_place(&self, run: usize) -> MergeError {
        MergeError::OutOfPlace {
            path: self.path.clone(),
            // The heading, and lines count from 1.
            line: run + 2,
        }
    }
}
