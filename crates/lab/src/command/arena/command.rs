//! The command `mpquic-lab arena`: runs what is missing and prints the findings.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use mpquic_proto::Escaped;

use super::Arena;
use crate::command::cli::{Failure, carry_out, failures, no_match};
use crate::file::experiment::Experiment;
use crate::file::pattern::Pattern;
use crate::file::scheduler_set::Schedulers;
use crate::plan::{CellId, Plan};
use crate::result::record::{Heading, Record};
use crate::result::store::Results;
use crate::result::summary::Board;
use crate::run::runner::Options;
use crate::view::report;

/// The arguments of `arena`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An experiment file to run, or results to read (files or their folders).
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// Run only these schedulers, and the single paths that they are compared with.
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    schedulers: Vec<String>,
    /// The number of seeds; replaces the number in the file.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Run only combinations NETWORK/WORKLOAD/CONGESTION/SCHEDULER that contain this text or pattern.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Pattern>,
    /// The number of threads [default: one per core].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Print one JSON object for the arena and one per scheduler, and nothing else.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
    /// The folder for results [default: target/lab/NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Discard earlier results.
    #[arg(long)]
    fresh: bool,
}

/// Executes the command.
pub(crate) fn run(
    arguments: &Arguments,
    schedulers: &Schedulers,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let is_file = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let (results, folder) = match &*arguments.from {
        [file] if is_file(file) => run_file(file, arguments, schedulers, err)?,
        several if several.iter().any(is_file) => {
            return Err(Failure::usage(
                "expected one experiment file, or results of several",
            ));
        }
        several => (read(several)?, arguments.out.clone()),
    };
    let wanted = |record: &Record| {
        let id = record.id();
        arguments
            .only
            .as_ref()
            .is_none_or(|only| only.matches(&id.to_string()))
            && is_wanted(arguments, &results.heading, &id)
            && arguments
                .seeds
                .is_none_or(|count| record.seed < results.heading.seeds.first + count)
    };
    let board = Board::of(&results, wanted);
    let Some(arena) = Arena::new(&board) else {
        if let Some(folder) = folder.filter(|_| arguments.from.iter().any(is_file)) {
            writeln!(
                err,
                "one scheduler has no rival: put its results together with others, as in \
                 mpquic-lab arena OTHERS {}",
                folder.display()
            )?;
            return failures(&board);
        }
        return Err(Failure::usage(
            "expected results of two schedulers at least, apart from single paths",
        ));
    };
    if arguments.json {
        for line in super::json(&arena) {
            writeln!(out, "{line}")?;
        }
    } else if arguments.markdown {
        write!(out, "{}", super::markdown(&arena))?;
    } else {
        let title = Escaped::new(&results.heading.title);
        writeln!(out, "{title}\n{}", super::text(&arena))?;
    }
    if let Some(folder) = folder {
        std::fs::create_dir_all(&folder)?;
        let lines: Vec<_> = super::json(&arena)
            .iter()
            .map(ToString::to_string)
            .collect();
        std::fs::write(folder.join("arena.md"), super::markdown(&arena))?;
        std::fs::write(folder.join("arena.jsonl"), lines.join("\n") + "\n")?;
        let svg = report::regrets(&arena.curves());
        let document = super::document(&arena, &results.heading);
        let document = serde_json::to_string_pretty(&document).map_err(Failure::run)?;
        std::fs::write(folder.join("arena.json"), document + "\n")?;
        std::fs::write(
            folder.join("arena.html"),
            super::page(&arena, &results.heading, &svg),
        )?;
        std::fs::write(folder.join("arena.svg"), svg)?;
        if !arguments.json && !arguments.markdown {
            let name = folder.join("arena.html");
            writeln!(out, "Leaderboard: {}", name.display())?;
        }
    }
    failures(&board)
}

/// Whether a scheduler is asked for: by name, or as a single path.
fn is_wanted(arguments: &Arguments, heading: &Heading, id: &CellId) -> bool {
    let single = || {
        let specs = heading.schedulers.iter();
        let mut specs = specs.filter(|spec| spec.label == id.scheduler);
        specs.any(|spec| spec.name == "single")
    };
    arguments.schedulers.is_empty() || arguments.schedulers.contains(&id.scheduler) || single()
}

fn run_file(
    file: &Path,
    arguments: &Arguments,
    schedulers: &Schedulers,
    err: &mut dyn Write,
) -> Result<(Results, Option<PathBuf>), Failure> {
    let mut experiment = Experiment::load_with(file, schedulers).map_err(Failure::usage)?;
    if let Some(seeds) = arguments.seeds {
        experiment.seeds.count = seeds;
    }
    let known: Vec<_> = experiment
        .schedulers
        .iter()
        .map(|spec| spec.label.clone())
        .collect();
    for label in &arguments.schedulers {
        if !known.contains(label) {
            return Err(Failure::Usage(format!(
                "no scheduler `{label}`, there are: {}",
                known.join(", ")
            )));
        }
    }
    let whole = Plan::new(&experiment, None);
    let mut heading = Heading::new(&experiment, &schedulers.build());
    let mut plan = Plan::new(&experiment, arguments.only.as_ref());
    plan.cells
        .retain(|cell| is_wanted(arguments, &heading, &cell.id));
    if plan.is_empty() {
        return Err(Failure::Usage(no_match(&whole)));
    }
    heading.experiment = plan.identity(&heading);
    let folder = match &arguments.out {
        Some(folder) => folder.clone(),
        None => Path::new("target/lab").join(&experiment.name),
    };
    let options = Options {
        jobs: arguments.jobs,
        progress: io::stderr().is_terminal(),
        lines: !io::stderr().is_terminal(),
        slim: true,
    };
    let runs = plan.len();
    writeln!(
        err,
        "{} scenarios and schedulers, {runs} runs",
        plan.cells.len()
    )?;
    let results = carry_out(
        &whole,
        &plan,
        heading,
        Some(&folder),
        arguments.fresh,
        options,
        err,
    )?;
    Ok((results, Some(folder)))
}

/// The runs of all results together, with the networks, workloads and schedulers of all.
fn read(paths: &[PathBuf]) -> Result<Results, Failure> {
    let mut all: Option<Results> = None;
    for path in paths {
        let results = Results::read(path).map_err(Failure::run)?;
        let Some(all) = &mut all else {
            all = Some(results);
            continue;
        };
        let (into, from) = (&mut all.heading, results.heading);
        add(&mut into.networks, from.networks, |network| &network.name);
        add(&mut into.workloads, from.workloads, |workload| {
            &workload.name
        });
        add(&mut into.schedulers, from.schedulers, |spec| &spec.label);
        add(&mut into.congestion, from.congestion, |name| name);
        all.records.extend(results.records);
    }
    let Some(mut all) = all else {
        return Err(Failure::usage("expected results"));
    };
    // The last one counts.
    let mut last = BTreeMap::new();
    for record in all.records {
        last.insert((record.id(), record.seed), record);
    }
    all.records = last.into_values().collect();
    Ok(all)
}

/// Adds what is not there yet, by name.
fn add<T>(into: &mut Vec<T>, from: Vec<T>, name: impl Fn(&T) -> &String) {
    for one in from {
        if !into.iter().any(|other| name(other) == name(&one)) {
            into.push(one);
        }
    }
}
