//! The time to adapt: how long after a change of the network each scheduler takes until downloads are as fast as they
//! are with the best one, from results of the workload `repeat`.

use std::time::Duration;

use serde::Serialize;

use crate::networks::sampling::Draws;
use crate::result::record::Measured;
use crate::result::statistics::{mean, mean_interval, quantile};
use crate::result::summary::{BOOTSTRAP_SEED, Board, Group};
use crate::view::text::{Align, significant, table};

/// Back is who is behind by no more than this share.
const WITHIN: f64 = 0.02;
/// Between two windows that are looked at, seconds.
const STEP: f64 = 0.1;
const RESAMPLES: usize = 500;

/// How one scheduler took a change of a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Adaptation {
    pub(crate) network: String,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    pub(crate) seeds: usize,
    /// Seconds from the change until the goodput was back within 2 % of the best in hindsight; `None`: not within the
    /// run. With the 95 % interval, whose ends are none for the same reason.
    pub(crate) back: Option<f64>,
    pub(crate) back_interval: [Option<f64>; 2],
    /// The same against the scheduler's own steady state.
    pub(crate) own: Option<f64>,
    /// Its goodput in the steady state over that of the best.
    pub(crate) steady: f64,
    /// How many seconds of the best's steady goodput it has lost from the change to the end of the run, and
    /// the 95 % interval.
    pub(crate) lost: f64,
    pub(crate) lost_interval: [f64; 2],
}

/// What had been downloaded by when, of one run: corners of a line, seconds since the change and bytes.
#[derive(Debug, Clone)]
struct Curve(Vec<(f64, f64)>);

impl Curve {
    fn of(run: &Measured, size: f64, change: f64) -> Option<Self> {
        let series = |name: &str| run.series.get(name);
        let first = *series("first_request")?.first()?;
        let mut corners = Vec::new();
        let downloads = series("begun")?.iter().zip(series("completion")?);
        for (number, (begun, completion)) in downloads.enumerate() {
            let at = first + begun - change;
            corners.push((at, number as f64 * size));
            corners.push((at + completion, (number + 1) as f64 * size));
        }
        (corners.len() > 1).then_some(Self(corners))
    }

    fn end(&self) -> f64 {
        self.0.last().map_or(0.0, |corner| corner.0)
    }

    /// Bytes by this time: a download brings its bytes evenly.
    fn by(&self, time: f64) -> f64 {
        let after = self.0.partition_point(|corner| corner.0 <= time);
        match (after.checked_sub(1).map(|at| self.0[at]), self.0.get(after)) {
            (Some((from, low)), Some(&(to, high))) => {
                low + (high - low) * (time - from) / (to - from)
            }
            (Some((_, all)), None) => all,
            (None, _) => 0.0,
        }
    }

    /// Bytes per second from one time to another.
    fn goodput(&self, from: f64, to: f64) -> f64 {
        (self.by(to) - self.by(from)) / (to - from)
    }
}

/// The logarithms of what a run's goodput is over a reference, for each time at which a window may begin: in the window, and from
/// there to the end.
struct Ratios {
    window: Vec<f64>,
    rest: Vec<f64>,
}

impl Ratios {
    fn of(curve: &Curve, reference: f64, window: f64, end: f64) -> Self {
        let starts = ((end - window) / STEP).floor().max(0.0) as usize;
        let log = |from: f64, to: f64| (curve.goodput(from, to) / reference).max(1e-9).ln();
        let each = (0..=starts).map(|at| at as f64 * STEP);
        Self {
            window: each.clone().map(|from| log(from, from + window)).collect(),
            rest: each.map(|from| log(from, end)).collect(),
        }
    }
}

/// The beginning of the first window in which the mean over these runs is within 2 % of the reference, and from
/// which on all the rest is, too: a window that is so by chance does not count, nor does one before a relapse.
fn back(runs: &[&Ratios]) -> Option<f64> {
    let least = (1.0 - WITHIN).ln();
    let starts = runs.iter().map(|run| run.window.len()).min()?;
    let mean = |of: fn(&Ratios) -> &[f64], at: usize| {
        runs.iter().map(|run| of(run)[at]).sum::<f64>() / runs.len() as f64
    };
    let first = (0..starts)
        .find(|&at| mean(|run| &run.window, at) >= least && mean(|run| &run.rest, at) >= least);
    first.map(|at| at as f64 * STEP)
}

/// The 95 % bootstrap interval of [`back`] over the runs; `None` is later than any time.
fn back_interval(runs: &[Ratios]) -> [Option<f64>; 2] {
    let mut draws = Draws::new(BOOTSTRAP_SEED);
    let mut times: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<_> = runs
                .iter()
                .map(|_| &runs[draws.below(runs.len())])
                .collect();
            back(&drawn).unwrap_or(f64::INFINITY)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    // No interpolation: times may be infinite.
    [0.025, 0.975].map(|q| {
        let time = times[((RESAMPLES - 1) as f64 * q).round() as usize];
        time.is_finite().then_some(time)
    })
}

/// All schedulers on all networks that change, in the order of the experiment. `window`: over how much time goodput is taken.
pub(crate) fn all(board: &Board<'_>, window: Duration) -> Vec<Adaptation> {
    let groups = board.groups().into_iter();
    let changing = groups.filter(|group| group.network.changed > 0.0);
    changing
        .flat_map(|group| of_group(board, &group, window.as_secs_f64()))
        .collect()
}

fn of_group(board: &Board<'_>, group: &Group<'_>, window: f64) -> Vec<Adaptation> {
    let mut parts = group.workload.name.split(':');
    let (Some("repeat"), Some(size)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let Ok(size) = mpquic_sim::units::size::parse(size) else {
        return Vec::new();
    };
    let labels = board.schedulers(group);
    // Runs of seeds that all have, in the order of the seeds.
    let runs: Vec<Vec<(u64, Curve)>> = labels
        .iter()
        .map(|label| {
            let records = board.records(&group.cell(label)).iter();
            let curves = records.filter_map(|record| {
                let curve = Curve::of(record.measured()?, size as f64, group.network.changed)?;
                Some((record.seed, curve))
            });
            curves.collect()
        })
        .collect();
    let everywhere = |seed: u64| {
        runs.iter()
            .all(|of| of.iter().any(|(other, _)| *other == seed))
    };
    let curves: Vec<Vec<&Curve>> = runs
        .iter()
        .map(|of| {
            let kept = of.iter().filter(|(seed, _)| everywhere(*seed));
            kept.map(|(_, curve)| curve).collect()
        })
        .collect();
    let ends = curves.iter().flatten().map(|curve| curve.end());
    let end = ends.fold(f64::INFINITY, f64::min);
    let seeds = curves.first().map_or(0, Vec::len);
    if seeds == 0 || !end.is_finite() || end < 2.0 * window {
        return Vec::new();
    }
    // The steady state is the second half of the time after the change.
    let steady: Vec<Vec<f64>> = curves
        .iter()
        .map(|of| {
            let runs = of.iter();
            runs.map(|curve| curve.goodput(end / 2.0, end).max(1e-9).ln())
                .collect()
        })
        .collect();
    let references: Vec<f64> = (0..seeds)
        .map(|seed| best_on(&steady, seed).exp())
        .collect();
    let each = labels.iter().zip(&curves).zip(&steady);
    let adaptations = each.map(|((label, curves), steady)| {
        let against = |references: &[f64]| -> Vec<Ratios> {
            let runs = curves.iter().zip(references);
            runs.map(|(curve, reference)| Ratios::of(curve, *reference, window, end))
                .collect()
        };
        let ratios = against(&references);
        let own = against(&steady.iter().map(|log| log.exp()).collect::<Vec<_>>());
        let lost: Vec<f64> = curves
            .iter()
            .zip(&references)
            .map(|(curve, reference)| end - (curve.by(end) - curve.by(0.0)) / reference)
            .collect();
        let over: Vec<f64> = steady
            .iter()
            .zip(&references)
            .map(|(log, reference)| log - reference.ln())
            .collect();
        Adaptation {
            network: group.network.name.clone(),
            workload: group.workload.name.clone(),
            congestion: group.congestion.to_owned(),
            scheduler: (*label).to_owned(),
            seeds,
            back: back(&ratios.iter().collect::<Vec<_>>()),
            back_interval: back_interval(&ratios),
            own: back(&own.iter().collect::<Vec<_>>()),
            steady: mean(&over).exp(),
            lost: mean(&lost),
            lost_interval: mean_interval(&lost, BOOTSTRAP_SEED),
        }
    });
    adaptations.collect()
}

/// The steady state, on one seed, of the scheduler that is the best on the others: chosen on the same seed, the best of many would
/// look better than it is. With one seed, there are no others.
fn best_on(steady: &[Vec<f64>], seed: usize) -> f64 {
    let on_others = |of: &Vec<f64>| {
        let others = of.iter().enumerate();
        let others: Vec<f64> = others
            .filter(|(other, _)| *other != seed || of.len() == 1)
            .map(|(_, log)| *log)
            .collect();
        mean(&others)
    };
    let best = steady
        .iter()
        .max_by(|a, b| on_others(a).total_cmp(&on_others(b)));
    best.map_or(f64::NAN, |best| best[seed])
}

/// What the columns mean.
const LEGEND: &str = "`back`: seconds from the change until the goodput is within 2 % of the steady state of the best in \
     hindsight, the mean over seeds, in a window and in all that follows; `own`: the same against the scheduler's own steady \
     state, the second half of the time after the change; `steady`: that over the best's; `lost`: seconds of the best's goodput \
     lost from the change to the end. In brackets 95 % bootstrap intervals over seeds; -: not within the run.";

/// The table, for the terminal or as Markdown.
pub(crate) fn text(adaptations: &[Adaptation], markdown: bool) -> String {
    let heads = [
        ("network", Align::Left),
        ("controller", Align::Left),
        ("scheduler", Align::Left),
        ("back", Align::Right),
        ("own", Align::Right),
        ("steady", Align::Right),
        ("lost", Align::Right),
    ];
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1}"));
    let mut rows: Vec<Vec<String>> = adaptations
        .iter()
        .map(|one| {
            let [low, high] = one.back_interval.map(time);
            let lost = |value: f64| format!("{value:.1}");
            vec![
                one.network.clone(),
                one.congestion.clone(),
                one.scheduler.clone(),
                format!("{} [{low}, {high}]", time(one.back)),
                time(one.own),
                significant(one.steady, 3),
                format!(
                    "{} [{}, {}]",
                    lost(one.lost),
                    lost(one.lost_interval[0]),
                    lost(one.lost_interval[1])
                ),
            ]
        })
        .collect();
    rows.extend(pooled(adaptations));
    if !markdown {
        return format!("{LEGEND}\n\n{}", table(&heads, &rows));
    }
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = format!("{LEGEND}\n\n");
    text += &line(heads.iter().map(|head| head.0).collect());
    text += &line(
        heads
            .iter()
            .map(|head| match head.1 {
                Align::Left => "---",
                Align::Right => "---:",
            })
            .collect(),
    );
    for row in &rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

/// A row per scheduler over all networks: the median of `back`, where none is the longest, and the mean of what was lost.
fn pooled(adaptations: &[Adaptation]) -> Vec<Vec<String>> {
    let mut labels: Vec<&str> = Vec::new();
    for one in adaptations {
        if !labels.contains(&&*one.scheduler) {
            labels.push(&one.scheduler);
        }
    }
    let rows = labels.into_iter().map(|label| {
        let of: Vec<_> = adaptations
            .iter()
            .filter(|one| one.scheduler == label)
            .collect();
        let mut times: Vec<f64> = of
            .iter()
            .map(|one| one.back.unwrap_or(f64::INFINITY))
            .collect();
        times.sort_by(f64::total_cmp);
        let middle = times[times.len() / 2];
        let median = if middle.is_finite() {
            format!("{middle:.1}")
        } else {
            "-".to_owned()
        };
        let found = of.iter().filter(|one| one.back.is_some()).count();
        let own: Vec<f64> = of.iter().filter_map(|one| one.own).collect();
        let log: Vec<f64> = of.iter().map(|one| one.steady.ln()).collect();
        let lost: Vec<f64> = of.iter().map(|one| one.lost).collect();
        vec![
            format!("all ({})", of.len()),
            String::new(),
            label.to_owned(),
            format!("{median}, {found} of {}", of.len()),
            significant(quantile(&own, 0.5), 3),
            significant(mean(&log).exp(), 3),
            format!("{:.1}", mean(&lost)),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Downloads of 1 byte that take `before` seconds up to second 10, and `after` from then on, with `during` until `until`.
    fn run(during: f64, until: f64, after: f64) -> Measured {
        let (mut now, mut begun, mut completion) = (0.0, Vec::new(), Vec::new());
        while now < 40.0 {
            let takes = match now - 9.5 {
                ..0.0 => 0.2,
                since if since < until => during,
                _ => after,
            };
            begun.push(now);
            completion.push(takes);
            now += takes;
        }
        let series = [
            ("first_request", vec![0.5]),
            ("begun", begun),
            ("completion", completion),
        ];
        Measured {
            value: 0.0,
            bounds: BTreeMap::new(),
            values: BTreeMap::new(),
            series: series
                .map(|(name, values)| (name.to_owned(), values))
                .into(),
            trace_hash: String::new(),
        }
    }

    fn curve(during: f64, until: f64, after: f64) -> Curve {
        Curve::of(&run(during, until, after), 1.0, 10.0).unwrap()
    }

    #[test]
    fn a_download_brings_its_bytes_evenly() {
        let curve = curve(0.4, 8.0, 0.1);
        assert!((curve.goodput(-9.0, -1.0) - 5.0).abs() < 1e-6);
        assert!((curve.goodput(1.1, 7.3) - 2.5).abs() < 1e-6);
        assert!((curve.goodput(9.0, 20.0) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn it_is_back_where_a_window_and_the_rest_are() {
        let ratios = |during, until, after| {
            let curve = curve(during, until, after);
            Ratios::of(&curve, 10.0, 2.0, 28.0)
        };
        let time = |runs: &[&Ratios]| back(runs);
        let slow = ratios(0.4, 8.0, 0.1);
        let found = time(&[&slow]).unwrap();
        assert!((7.8..8.2).contains(&found), "{found}");
        // The last slow download ends 0.1 s after the change, and makes the first window 2.5 % slower.
        assert_eq!(time(&[&ratios(0.1, 8.0, 0.1)]), Some(0.1));
        // Behind for ever.
        assert_eq!(time(&[&ratios(0.1, 8.0, 0.11)]), None);
        // The mean over runs: half of them behind by 75 % are too many.
        let both = time(&[&slow, &ratios(0.1, 8.0, 0.1)]).unwrap();
        assert!((7.8..8.2).contains(&both), "{both}");
        let runs = [ratios(0.4, 8.0, 0.1), ratios(0.4, 10.0, 0.1)];
        let [low, high] = back_interval(&runs).map(Option::unwrap);
        assert!((7.8..8.2).contains(&low) && (9.8..10.2).contains(&high));
    }

    #[test]
    fn the_best_is_chosen_on_the_other_seeds() {
        let steady = [vec![1.0, 2.0, 3.0], vec![5.0, 1.9, 1.0]];
        // Without seed 0, the first one is the better one.
        assert_eq!(best_on(&steady, 0), 1.0);
        assert_eq!(best_on(&steady, 2), 1.0);
        assert_eq!(best_on(&[vec![1.0], vec![2.0]], 0), 2.0);
    }
}
