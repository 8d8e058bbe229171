//! Checks the simulator against reality: compares the medians of the same downloads in virtual time
//! and in real time, over the same link models. Run it without arguments on a quiet machine.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
#[path = "../transfer/lines.rs"]
mod lines;

#[path = "../transfer/arguments.rs"]
mod arguments;
mod cli;
mod real;
mod report;
mod scenario;
mod simulated;

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mpquic_sched::RegistryError;
use thiserror::Error;

use report::{Report, Row};
use scenario::Scenario;

/// The largest relative difference of the medians that counts as agreement.
const TOLERANCE: f64 = 0.10;

/// The same of the ratio of two schedulers' medians.
const RATIO_TOLERANCE: f64 = 0.05;

/// Why there is no result.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("no scenario is named {0:?}; there are {1}")]
    UnknownScenario(String, String),
    #[error(transparent)]
    Scheduler(#[from] RegistryError),
    #[error("{scenario}, simulated: {source}")]
    Simulated {
        scenario: &'static str,
        source: simulated::Error,
    },
    #[error("{scenario}, in real time: {source}")]
    Real {
        scenario: &'static str,
        source: real::Error,
    },
}

fn main() -> ExitCode {
    let arguments: cli::Arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    match run(&arguments) {
        Ok(report) => {
            if arguments.json {
                say!("{}", report.to_json());
            } else {
                say!("{}", report.to_string().trim_end());
            }
            if report.agrees() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            note!("error: {error}");
            match error {
                Error::UnknownScenario(..) | Error::Scheduler(_) => {
                    ExitCode::from(arguments::USAGE)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: &cli::Arguments) -> Result<Report, Error> {
    let schedulers = [&arguments.scheduler, &arguments.against];
    let schedulers: Vec<_> = schedulers
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let scenarios = scenario::chosen(&arguments.only, &schedulers)?;
    let total = scenarios.iter().map(Vec::len).sum::<usize>() as u64 * arguments.runs;
    let progress = if arguments.json {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(total).with_style(style)
    };
    let mut rows = Vec::new();
    for group in scenarios {
        if let Some(scenario) = group.first() {
            progress.set_message(scenario.name);
        }
        rows.push(compare(&group, arguments.runs, &progress)?);
    }
    progress.finish_and_clear();
    Ok(Report {
        rows,
        tolerance: TOLERANCE,
        ratio_tolerance: RATIO_TOLERANCE,
    })
}

/// The same scenario with each of its schedulers.
fn compare(group: &[Scenario], runs: u64, progress: &ProgressBar) -> Result<Vec<Row>, Error> {
    let row = |scenario: &Scenario| Row {
        name: scenario.name,
        what: scenario.what,
        scheduler: scenario.scheduler.clone(),
        simulated: Vec::<Duration>::new(),
        real: Vec::<Duration>::new(),
    };
    let mut rows: Vec<_> = group.iter().map(row).collect();
    // Simulated and real runs and the schedulers take turns, so that other load on the machine affects all of them equally.
    for seed in 0..runs {
        for (scenario, row) in group.iter().zip(&mut rows) {
            let name = scenario.name;
            let time = simulated::download(scenario, seed).map_err(|source| Error::Simulated {
                scenario: name,
                source,
            })?;
            row.simulated.push(time);
            let time = real::download(scenario, seed).map_err(|source| Error::Real {
                scenario: name,
                source,
            })?;
            row.real.push(time);
            progress.inc(1);
        }
    }
    Ok(rows)
}
