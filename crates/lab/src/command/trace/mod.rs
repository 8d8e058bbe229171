//! The command `trace`: shows recorded traces and models, converts recordings to Mahimahi's format, writes models in it.

mod convert;
mod show;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use convert::Recording;
use mpquic_sim::MahimahiTrace;
use show::Shown;

use crate::command::cli::{Failure, cannot};
use crate::file as files;
use crate::networks::mobile::Model;

/// The longest channel that is drawn.
const MAX_LENGTH: Duration = Duration::from_secs(24 * 3600);
/// The most bytes of a trace that is written: 66 million opportunities.
const MAX_BYTES: f64 = 100e9;
/// The bytes of one opportunity.
const OPPORTUNITY: f64 = 1500.0;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a Mahimahi file or a model: mean, quantiles, autocorrelation, outages, and a line of its rates.
    Show {
        /// A Mahimahi file, or the name of a model: lte-car, 5g-blockage, leo-satellite, wifi-walk, commuter-tunnel.
        trace: String,
        #[command(flatten)]
        drawing: Drawing,
        /// Write a plot of the rates over time.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Print one JSON object, and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// Convert a recording with a rate or a number of bytes per line to Mahimahi's format.
    Convert {
        /// The recording: lines with columns, separated by commas, semicolons or blanks.
        recording: PathBuf,
        /// The file to write.
        out: PathBuf,
        #[command(flatten)]
        columns: convert::Columns,
    },
    /// Write the rates of a model as a Mahimahi file; its delays and outages are not in it.
    Draw {
        /// The name of a model.
        model: Model,
        /// The file to write.
        out: PathBuf,
        #[command(flatten)]
        drawing: Drawing,
        /// The direction from the client.
        #[arg(long)]
        up: bool,
    },
}

/// How a model draws.
#[derive(Debug, Args)]
struct Drawing {
    /// The seed of a model.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The length of a model's channel.
    #[arg(long, default_value = "300s", value_parser = mpquic_sim::units::time::parse)]
    length: Duration,
}

/// Executes the command.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    match &arguments.command {
        Command::Show {
            trace,
            drawing,
            svg,
            json,
        } => {
            let shown = match trace.parse::<Model>() {
                Ok(model) => Shown::of_channel(&model.draw(drawing.seed, length(drawing)?)),
                Err(unknown) => {
                    let file = Path::new(trace);
                    if !file.exists() {
                        let fault = format!("{unknown}; and there is no file {trace}");
                        return Err(Failure::Usage(fault));
                    }
                    let read = MahimahiTrace::read(file);
                    Shown::of_trace(&read.map_err(|fault| Failure::Run(fault.in_file(file)))?)
                }
            };
            if let Some(file) = svg {
                fs::write(file, shown.svg(trace)).map_err(|error| cannot("write", file, &error))?;
            }
            match json {
                true => writeln!(out, "{}", shown.json())?,
                false => write!(out, "{}", shown.text(trace))?,
            }
        }
        Command::Convert {
            recording,
            out: file,
            columns,
        } => {
            let text = files::read(recording, files::RECORDING)
                .map_err(|error| cannot("read", recording, &error))?;
            let read = Recording::parse(&text, columns)
                .map_err(|fault| Failure::Usage(format!("{}:{fault}", recording.display())))?;
            let trace = mahimahi(read.intervals.iter().copied()).map_err(Failure::usage)?;
            fs::write(file, lines(&trace)).map_err(|error| cannot("write", file, &error))?;
            writeln!(out, "{}: {}", file.display(), read.summary(&trace))?;
        }
        Command::Draw {
            model,
            out: file,
            drawing,
            up,
        } => {
            let channel = model.draw(drawing.seed, length(drawing)?);
            let rates = if *up { &channel.up } else { &channel.down };
            let slot = channel.slot.as_secs_f64();
            let bytes = rates.iter().map(|rate| (slot, *rate as f64 / 8.0 * slot));
            let trace = mahimahi(bytes).map_err(Failure::usage)?;
            fs::write(file, lines(&trace)).map_err(|error| cannot("write", file, &error))?;
            writeln!(out, "{}: {} lines", file.display(), trace.opportunities())?;
        }
    }
    Ok(())
}

fn length(drawing: &Drawing) -> Result<Duration, Failure> {
    match drawing.length {
        length if (Duration::from_secs(1)..=MAX_LENGTH).contains(&length) => Ok(length),
        _ => Err(Failure::usage("--length: expected 1 s to 24 h")),
    }
}

/// The opportunities of intervals, each with its length in s and its bytes: evenly within an interval, and what is less than one
/// goes on to the next interval.
fn mahimahi(intervals: impl Iterator<Item = (f64, f64)>) -> Result<MahimahiTrace, String> {
    let (mut times, mut start, mut owed) = (Vec::new(), 0.0, 0.0);
    for (length, bytes) in intervals {
        let due = owed + bytes / OPPORTUNITY;
        if (times.len() as f64 + due) * OPPORTUNITY > MAX_BYTES {
            let most = MAX_BYTES / 1e9;
            return Err(format!(
                "more than {most} GB in the first {start} s, expected less"
            ));
        }
        let count = due.floor();
        for number in 1..=count as u64 {
            // When the opportunity's bytes have come at this rate.
            let share = (number as f64 - owed) * OPPORTUNITY / bytes;
            times.push(((start + length * share.clamp(0.0, 1.0)) * 1e3).round() as u64);
        }
        owed = due - count;
        start += length;
    }
    // The period of a trace is the time of its last line: a silent end needs one.
    let end = (start * 1e3).round() as u64;
    if times.last().is_none_or(|last| *last < end) {
        times.push(end);
    }
    MahimahiTrace::from_millis(times).map_err(|fault| fault.to_string())
}

/// The file of a trace.
fn lines(trace: &MahimahiTrace) -> String {
    let times = trace.millis();
    let mut text = String::new();
    for millis in times {
        text += &format!("{millis}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_become_opportunities() {
        // 12 kbit/s are one opportunity a second; nothing; 30 kB/s.
        let trace = mahimahi([(1.0, 1500.0), (1.0, 0.0), (1.0, 3750.0), (1.0, 0.0)].into_iter());
        let times: Vec<_> = trace.unwrap().millis().collect();
        // The last line keeps the length.
        assert_eq!(times, [1000, 2400, 2800, 4000]);
        // What is left over goes on.
        let trace = mahimahi([(1.0, 1000.0); 3].into_iter()).unwrap();
        assert_eq!(trace.millis().collect::<Vec<_>>(), [1500, 3000]);
        assert!(mahimahi(std::iter::empty()).is_err());
    }

    #[test]
    fn a_model_keeps_its_rate_in_a_file() {
        let channel = Model::LteCar.draw(5, Duration::from_secs(60));
        let slot = channel.slot.as_secs_f64();
        let mean = channel.down.iter().sum::<u64>() as f64 / channel.down.len() as f64;
        let bytes = channel
            .down
            .iter()
            .map(|rate| (slot, *rate as f64 / 8.0 * slot));
        let trace = mahimahi(bytes).unwrap();
        assert_eq!(trace.period_millis(), 60_000);
        assert!((trace.mean_rate() as f64 / mean - 1.0).abs() < 1e-3);
        assert_eq!(lines(&trace).parse::<MahimahiTrace>().unwrap(), trace);
    }
}
