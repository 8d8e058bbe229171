//! The command `mpquic-lab curves`: how a value changes from one chunk (download, message) to the next, as the mean over
//! seeds with its interval.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use mpquic_proto::Escaped;

use crate::command::cli::Failure;
use crate::file::pattern::Pattern;
use crate::result::record::Measured;
use crate::result::statistics::{mean, mean_interval};
use crate::result::store::Results;
use crate::result::summary::{BOOTSTRAP_SEED, Board};
use crate::view::report::{self, Curves};
use crate::view::text::significant;

/// The arguments of `curves`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Results (a file or its folder).
    results: PathBuf,
    /// The values to show, of those that a run keeps beside its metrics.
    #[arg(long, default_value = "chunk_time")]
    series: String,
    /// The numbers (chunks, downloads) that make one point.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    bin: u64,
    /// Show only these schedulers.
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    schedulers: Vec<String>,
    /// Show only combinations NETWORK/WORKLOAD/CONGESTION/SCHEDULER that contain this text or pattern.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Pattern>,
    /// Leave out the chunks that the player has marked for exploration.
    #[arg(long)]
    plain: bool,
    /// The SVG file to write [default: none].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Executes the command.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let results = Results::read(&arguments.results).map_err(Failure::run)?;
    let board = Board::of(&results, |record| {
        let id = record.id();
        let labels = &arguments.schedulers;
        arguments
            .only
            .as_ref()
            .is_none_or(|only| only.matches(&id.to_string()))
            && (labels.is_empty() || labels.contains(&id.scheduler))
    });
    let mut panels = Vec::new();
    for group in board.groups() {
        let mut lines = Vec::new();
        for scheduler in board.schedulers(&group) {
            let records = board.records(&group.cell(scheduler));
            let runs: Vec<_> = records
                .iter()
                .filter_map(|record| binned(record.measured()?, arguments))
                .collect();
            if !runs.is_empty() {
                lines.push((scheduler.to_owned(), over_seeds(&runs, arguments.bin)));
            }
        }
        if !lines.is_empty() {
            let title = group.title(&results.heading);
            panels.push(Curves { title, lines });
        }
    }
    if panels.is_empty() {
        return Err(Failure::usage(format!(
            "no runs with values `{}`",
            arguments.series
        )));
    }
    for panel in &panels {
        writeln!(out, "{}", Escaped::new(&panel.title))?;
        for (scheduler, points) in &panel.lines {
            writeln!(out, "  {}", Escaped::new(scheduler))?;
            for [at, mean, low, high] in points {
                let [mean, low, high] = [mean, low, high].map(|value| significant(*value, 4));
                writeln!(out, "    {at:>6.0}  {mean} ({low} to {high})")?;
            }
        }
    }
    if let Some(file) = &arguments.out {
        let svg = report::curves(&panels, "number", &arguments.series);
        std::fs::write(file, svg)?;
    }
    Ok(())
}

/// The means of a run's values in each bin; NaN where none is left.
fn binned(measured: &Measured, arguments: &Arguments) -> Option<Vec<f64>> {
    let values = measured.series.get(&arguments.series)?;
    let marked = measured.series.get("marked").filter(|_| arguments.plain);
    let is_plain = |number: usize| marked.is_none_or(|marked| marked.get(number) != Some(&1.0));
    let bin = usize::try_from(arguments.bin).unwrap_or(usize::MAX).max(1);
    let bins = values.chunks(bin).enumerate().map(|(at, values)| {
        let values = values.iter().enumerate();
        let plain = values.filter(|(number, _)| is_plain(at * bin + number));
        mean(&plain.map(|(_, value)| *value).collect::<Vec<_>>())
    });
    Some(bins.collect())
}

/// The middle of each bin, and the mean over the runs that have a value there with its interval.
fn over_seeds(runs: &[Vec<f64>], bin: u64) -> Vec<[f64; 4]> {
    let bins = runs.iter().map(Vec::len).max().unwrap_or(0);
    let points = (0..bins).filter_map(|at| {
        let values: Vec<_> = runs
            .iter()
            .filter_map(|run| run.get(at).copied().filter(|value| value.is_finite()))
            .collect();
        if values.is_empty() {
            return None;
        }
        let [low, high] = mean_interval(&values, BOOTSTRAP_SEED);
        let middle = (at as f64 + 0.5) * bin as f64;
        Some([middle, mean(&values), low, high])
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn arguments(plain: bool) -> Arguments {
        Arguments {
            results: PathBuf::new(),
            series: "chunk_time".into(),
            bin: 2,
            schedulers: Vec::new(),
            only: None,
            plain,
            out: None,
        }
    }

    #[test]
    fn points_are_means_over_bins_and_then_over_seeds() {
        let series = [
            ("chunk_time".to_owned(), vec![1.0, 3.0, 5.0, 5.0, 9.0]),
            ("marked".to_owned(), vec![0.0, 1.0, 1.0, 1.0, 0.0]),
        ];
        let measured = Measured {
            value: 0.0,
            bounds: BTreeMap::new(),
            values: BTreeMap::new(),
            series: series.into(),
            trace_hash: String::new(),
        };
        let all = binned(&measured, &arguments(false)).unwrap();
        assert_eq!(all, [2.0, 5.0, 9.0]);
        let plain = binned(&measured, &arguments(true)).unwrap();
        assert_eq!((plain[0], plain[2]), (1.0, 9.0));
        assert!(plain[1].is_nan());
        let points = over_seeds(&[all, plain], 2);
        let means: Vec<_> = points.iter().map(|point| (point[0], point[1])).collect();
        assert_eq!(means, [(1.0, 1.5), (3.0, 5.0), (5.0, 9.0)]);
        assert!(points[0][2] <= 1.5 && points[0][3] >= 1.5);
    }

    #[test]
    fn a_plot_has_a_line_and_a_band_for_each_scheduler() {
        let points = vec![[5.0, 1.0, 0.5, 1.5], [15.0, 0.7, 0.5, 0.9]];
        let lines = vec![
            ("minrtt".to_owned(), points.clone()),
            ("dqn_online".to_owned(), points),
        ];
        let title = "one".to_owned();
        let svg = report::curves(&[Curves { title, lines }], "chunk", "time");
        assert!(svg.starts_with("<svg xmlns"));
        assert_eq!(svg.matches("class=\"band c").count(), 2);
        assert!(svg.contains("dqn_online") && !svg.contains("NaN"));
    }
}
