//! Runs the missing runs of a plan on several threads. The threads do not influence the results.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::plan::shard::Shard;
use crate::plan::{Cell, Plan};
use crate::result::record::Record;
use crate::result::store::Store;
use crate::run::scenario;

/// The time between two lines of progress.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// How to execute a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The number of threads; 0: one per core.
    pub jobs: usize,
    /// Whether to show progress on standard error, if it is a terminal.
    pub progress: bool,
    /// Whether to print a line with the progress on standard error from time to time, for logs.
    pub lines: bool,
    /// Whether to drop the values behind the metrics, which make most of a results file.
    pub slim: bool,
}

/// What was executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// The number of runs.
    pub ran: usize,
    /// The number of failed runs.
    pub failed: usize,
}

/// Executes all runs of a plan that `has` does not have, in the plan's order. Passes each record to
/// `take` when its run ends, in any order.
///
/// # Errors
///
/// The first error of `take`, or an error from starting the threads.
pub fn run(
    plan: &Plan<'_>,
    options: Options,
    has: impl Fn(&Cell<'_>, u64) -> bool,
    take: impl FnMut(Record) -> io::Result<()> + Send,
) -> io::Result<Done> {
    let missing: Vec<_> = plan
        .cells
        .iter()
        .flat_map(|cell| plan.seeds.iter().map(move |&seed| (cell, seed)))
        .filter(|(cell, seed)| !has(cell, *seed))
        .collect();
    let bar = bar(missing.len(), options.progress);
    let mut said = Duration::ZERO;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs)
        .build()
        .map_err(io::Error::other)?;
    let next = AtomicUsize::new(0);
    let sink = Mutex::new((take, Done::default(), None, &mut said));
    pool.broadcast(|_| {
        // In order, one at a time, so that long runs do not wait behind each other.
        while let Some((cell, seed)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut record = scenario::run(cell, *seed, None);
            if options.slim {
                record.slim();
            }
            let failed = record.measured().is_none();
            let Ok(mut sink) = sink.lock() else { return };
            let (take, done, error, said) = &mut *sink;
            done.ran += 1;
            done.failed += usize::from(failed);
            if let Err(fault) = take(record) {
                error.get_or_insert(fault);
                next.store(missing.len(), Ordering::Relaxed);
            }
            bar.inc(1);
            let gone = bar.elapsed();
            if options.lines && gone.saturating_sub(**said) >= BETWEEN_LINES {
                **said = gone;
                // Progress that cannot be shown is no reason to stop.
                let _ = writeln!(io::stderr(), "{}", line(done.ran, missing.len(), gone));
            }
        }
    });
    bar.finish_and_clear();
    match sink.into_inner() {
        Ok((_, done, None, _)) => Ok(done),
        Ok((_, _, Some(error), _)) => Err(error),
        Err(_) => Err(io::Error::other("a thread panicked")),
    }
}

/// Executes the missing runs of a shard and stores them.
///
/// # Errors
///
/// See [`run`].
pub fn run_into(
    store: &mut Store,
    plan: &Plan<'_>,
    shard: Shard,
    options: Options,
) -> io::Result<Done> {
    let runs = plan
        .cells
        .iter()
        .flat_map(|cell| plan.seeds.iter().map(move |&seed| (cell, seed)));
    let missing: BTreeSet<_> = runs
        .enumerate()
        .filter(|(number, (cell, seed))| shard.has(*number) && !store.has(&cell.fingerprint, *seed))
        .map(|(_, (cell, seed))| (cell.fingerprint.clone(), seed))
        .collect();
    let has = |cell: &Cell<'_>, seed| !missing.contains(&(cell.fingerprint.clone(), seed));
    run(plan, options, has, |record| store.append(&record))
}

/// The progress in words, with the time left if all runs took as long as those before.
fn line(ran: usize, all: usize, gone: Duration) -> String {
    let left = gone.as_secs_f64() / ran.max(1) as f64 * all.saturating_sub(ran) as f64;
    let minutes = |seconds: f64| format!("{:.1} min", seconds / 60.0);
    format!(
        "{ran} of {all} runs, {} gone, {} left",
        minutes(gone.as_secs_f64()),
        minutes(left)
    )
}

fn bar(runs: usize, shown: bool) -> ProgressBar {
    let target = if shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} gone, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(runs as u64), target).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_long_the_rest_takes() {
        let line = |ran, all| line(ran, all, Duration::from_secs(120));
        assert_eq!(
            line(100, 400),
            "100 of 400 runs, 2.0 min gone, 6.0 min left"
        );
        assert_eq!(
            line(400, 400),
            "400 of 400 runs, 2.0 min gone, 0.0 min left"
        );
    }
}
