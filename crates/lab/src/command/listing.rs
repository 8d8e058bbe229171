//! The commands `list` and `names`: which experiment files there are, and what they can name.

use std::io::Write;
use std::path::Path;

use crate::command::cli::{Failure, cannot};
use crate::file::experiment::{Experiment, FileError};
use crate::file::scheduler_set::Schedulers;
use crate::plan::Plan;
use crate::run::time_lost;
use crate::{own, replica};

/// Executes `list`.
pub(crate) fn files(
    folder: &Path,
    schedulers: &Schedulers,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|error| cannot("read", &folder, &error))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            // A link could lead into a loop.
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml")
                // In the folder of a package, this one is no experiment.
                && path.file_name().is_none_or(|name| name != "Cargo.toml")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut rows = Vec::new();
    let mut faults = Vec::new();
    for file in &files {
        match Experiment::load_with(file, schedulers) {
            Ok(experiment) => rows.push(vec![
                file.display().to_string(),
                experiment.networks.len().to_string(),
                Plan::new(&experiment, None).len().to_string(),
                experiment.title,
            ]),
            // The file is right, and this program too small for it.
            Err(FileError {
                feature: Some(feature),
                ..
            }) => rows.push(vec![
                file.display().to_string(),
                "-".into(),
                "-".into(),
                format!("needs a lab that was built with --features {feature}"),
            ]),
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    use crate::view::text::Align::{Left, Right};
    let heads = [
        ("file", Left),
        ("networks", Right),
        ("runs", Right),
        ("title", Left),
    ];
    write!(out, "{}", crate::view::text::table(&heads, &rows))?;
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Failure::Usage(faults.join("\n")))
    }
}

/// Executes `names`.
pub(crate) fn names(schedulers: &Schedulers, out: &mut dyn Write) -> Result<(), Failure> {
    let registry = schedulers.registry();
    let schedulers: Vec<_> = registry
        .names()
        .filter(|name| !replica::NAMES.contains(name) && !own::NAMES.contains(name))
        .collect();
    writeln!(out, "schedulers: {}", schedulers.join(", "))?;
    writeln!(out, "for experiments only: {}", own::NAMES.join(", "))?;
    writeln!(
        out,
        "replicas of published faults, not for use: {}",
        replica::NAMES.join(", ")
    )?;
    let controls = mpquic_proto::CongestionControl::ALL.iter();
    let controls: Vec<_> = controls.map(ToString::to_string).collect();
    writeln!(out, "congestion controls: {}", controls.join(", "))?;
    let metrics: Vec<_> = crate::run::metrics::transport()
        .map(|metric| metric.name)
        .collect();
    writeln!(out, "metrics of all workloads: {}", metrics.join(", "))?;
    let metrics: Vec<_> = crate::run::learned::all()
        .map(|metric| metric.name)
        .collect();
    writeln!(
        out,
        "metrics of schedulers that learn: {}",
        metrics.join(", ")
    )?;
    let metrics: Vec<_> = time_lost::metrics().map(|metric| metric.name).collect();
    writeln!(
        out,
        "metrics of downloads with time_lost: {}",
        metrics.join(", ")
    )?;
    Ok(())
}
