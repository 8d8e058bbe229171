//! Writes the qlog of simulated runs, in virtual time: a folder per run, a file per side.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use mpquic_sim::NetworkBuilder;

use crate::plan::{Cell, Plan};
use crate::result::record::Record;
use crate::result::store::Results;
use crate::run::scenario;

/// Repeats the runs of a plan, and writes what both sides saw into a folder per run below `dir`. Compares their hashes with
/// the results, which shows whether looking changed a run. Returns how many were written.
///
/// # Errors
///
/// If a file cannot be written, or if a run gives another result.
pub(crate) fn keep(dir: &Path, plan: &Plan<'_>, results: &Results) -> io::Result<usize> {
    let mut written = 0;
    for cell in &plan.cells {
        for seed in &plan.seeds {
            let same = |record: &&Record| record.cell == cell.fingerprint && record.seed == *seed;
            let record = results.records.iter().find(same);
            let Some(unwatched) = record.and_then(Record::measured) else {
                continue;
            };
            let folder = dir.join(name(cell, *seed));
            clear(&folder)?;
            let hash = scenario::write_qlog(cell, *seed, &folder).map_err(io::Error::other)?;
            if hash != unwatched.trace_hash {
                let fault = format!("{}, seed {seed}: looking changed the result", cell.id);
                return Err(io::Error::other(fault));
            }
            written += 1;
        }
    }
    Ok(written)
}

/// The folder of a run: its cell and seed, as far as file systems take the characters.
fn name(cell: &Cell<'_>, seed: u64) -> PathBuf {
    let text = format!("{}-{seed}", cell.id);
    let safe = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "._-".contains(c) => c,
        _ => '_',
    };
    PathBuf::from(text.chars().map(safe).collect::<String>())
}

/// An empty folder: the files of an earlier run have the same names, or would be taken for this one's.
fn clear(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "sqlog") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Has both sides of a network write into a folder.
pub(crate) fn observed(builder: NetworkBuilder, folder: &Path) -> NetworkBuilder {
    let folder = folder.to_owned();
    builder.observer(move |_, origin| {
        let folder = folder.clone();
        Some(mpquic_qlog::direct(origin, move |stem| {
            let file = folder.join(format!("{stem}.sqlog"));
            match File::create(&file) {
                Ok(file) => Some(BufWriter::new(file)),
                Err(error) => {
                    tracing::warn!(%error, file = %file.display(), "no qlog");
                    None
                }
            }
        }))
    })
}
