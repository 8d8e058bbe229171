//! An experiment as a numbered list of independent runs, for whoever distributes them; keeps what belongs to its results.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpquic_sim::{Network, NetworkBuilder};

use crate::file::experiment::Experiment;
use crate::file::pattern::Pattern;
use crate::plan::shard::{Shard, Share};
use crate::plan::{self, Cell, CellId, Place, Plan};
use crate::result::record::{Heading, Measured, Record};
use crate::result::store::{Found, Results, Store};
use crate::result::summary::Board;
use crate::run::scenario;
use crate::run::setup::Watch;
use crate::run::timelines;
use crate::view::output;
use crate::view::report;

/// An experiment, as a list of runs that do not depend on each other: its cells in the order of the file, and the seeds of each.
///
/// A run's result depends on nothing but the build ([`Schedulers::build`]), the experiment ([`Heading::experiment`])
/// and the number of the run. So any machine may execute any run, in any order, and the results of all of them, put into a
/// [`Store`], are those of one machine, byte for byte.
///
/// ```
/// use mpquic_lab::{Experiment, Sweep};
///
/// let text = "title = \"Two runs\"\nworkloads = [\"file:50kB\"]\nschedulers = [\"minrtt\"]\nseeds = 2\n\
///             [[network]]\nname = \"one\"\npaths = \"50Mbit 20ms | 2Mbit 100ms\"";
/// let sweep = Sweep::new(Experiment::parse("two.toml", text)?, None);
/// assert_eq!(sweep.len(), 2);
/// let record = sweep.run(1).unwrap();
/// assert_eq!(record.seed, 2);
/// assert!(sweep.run(2).is_none());
///
/// let folder = tempfile::tempdir()?;
/// let (mut store, _) = sweep.open(folder.path(), false)?;
/// store.append(&record)?;
/// assert_eq!(sweep.missing(&store), [0]);
/// store.append(&sweep.run(0).unwrap())?;
/// let results = sweep.finish(store)?;
/// assert_eq!(results.records[0].seed, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Schedulers::build`]: crate::Schedulers::build
#[derive(Debug)]
pub struct Sweep {
    experiment: Experiment,
    heading: Heading,
    cells: Vec<(Place, String)>,
    seeds: Vec<u64>,
}

impl Sweep {
    /// The runs of an experiment's cells that match a pattern; all of them without one.
    pub fn new(experiment: Experiment, only: Option<&Pattern>) -> Self {
        let cells = plan::cells(&experiment, only);
        let cells: Vec<_> = cells.map(|(at, cell)| (at, cell.fingerprint)).collect();
        let mut heading = Heading::new(&experiment, &experiment.roster.build());
        let fingerprints = cells.iter().map(|(_, fingerprint)| &**fingerprint);
        heading.experiment = plan::identity(&heading, fingerprints);
        Self {
            seeds: plan::seeds(&experiment),
            heading,
            cells,
            experiment,
        }
    }

    /// The experiment.
    pub const fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The heading of its results: the identities of the build and of the experiment among others.
    pub const fn heading(&self) -> &Heading {
        &self.heading
    }

    /// The heading of the results of one shard.
    pub fn heading_of(&self, shard: Shard) -> Heading {
        let share = Share {
            shard,
            runs: self.len(),
        };
        Heading {
            shard: Some(share),
            ..self.heading.clone()
        }
    }

    /// The number of runs.
    pub fn len(&self) -> usize {
        self.cells.len() * self.seeds.len()
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell and the seed of a run; `None` if there is no run with this number.
    pub fn id(&self, run: usize) -> Option<(CellId, u64)> {
        self.cell(run).map(|(cell, seed)| (cell.id, seed))
    }

    /// Executes a run, which takes from milliseconds to minutes and does no input or output. A run that fails or panics
    /// gives a record, too. `None` if there is no run with this number, counted from 0.
    pub fn run(&self, run: usize) -> Option<Record> {
        let (cell, seed) = self.cell(run)?;
        Some(scenario::run(&cell, seed, None))
    }

    /// The same, but for a run that another thread may end by setting `stop`: it gives no record then.
    pub fn run_unless(&self, run: usize, stop: &Arc<AtomicBool>) -> Option<Record> {
        let (cell, seed) = self.cell(run)?;
        let record = scenario::run(&cell, seed, Some(stop));
        (!stop.load(Ordering::Relaxed)).then_some(record)
    }

    /// Executes a run with more attached to its network, as [`NetworkBuilder::observer`] or
    /// [`NetworkBuilder::timeline`], which change nothing in it. Returns what the lab measures of it, and the network at
    /// its end. `attach` does not see the networks of training runs. Once `stop` is set, the run ends.
    ///
    /// # Errors
    ///
    /// If there is no such run, or if it fails or is stopped.
    ///
    /// # Panics
    ///
    /// If the scheduler does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use mpquic_lab::{Experiment, Sweep};
    ///
    /// let [scheduler, olia] = ["minrtt", "olia"].map(str::to_owned);
    /// let network = "50Mbit 20ms | 2Mbit 100ms";
    /// let experiment = Experiment::of_one_network(network, "file:200kB", &[scheduler], &[olia])?;
    /// let sweep = Sweep::new(experiment, None);
    /// let interval = Duration::from_millis(10);
    /// let attach = |builder: mpquic_sim::NetworkBuilder| builder.timeline(interval);
    /// let (measured, network) = sweep.watch(0, &Arc::default(), attach)?;
    /// assert_eq!(Some(measured.trace_hash), sweep.run(0).unwrap().measured().map(|run| run.trace_hash.clone()));
    /// assert_eq!(network.timeline().map(|timeline| timeline.server.paths.len()), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(
        &self,
        run: usize,
        stop: &Arc<AtomicBool>,
        attach: impl Fn(NetworkBuilder) -> NetworkBuilder,
    ) -> Result<(Measured, Network), String> {
        let (cell, seed) = self
            .cell(run)
            .ok_or_else(|| format!("there is no run {run}"))?;
        let watch = Watch {
            attach: Some(&attach),
            stop: Some(stop),
            ..Watch::default()
        };
        scenario::measure(&cell, seed, watch)
    }

    fn cell(&self, run: usize) -> Option<(Cell<'_>, u64)> {
        let (place, fingerprint) = self.cells.get(run.checked_div(self.seeds.len())?)?;
        let mut cell = plan::cell(&self.experiment, *place)?;
        cell.fingerprint.clone_from(fingerprint);
        Some((cell, self.seeds[run % self.seeds.len()]))
    }

    /// The same as a plan, without making fingerprints again.
    pub(crate) fn plan(&self) -> Plan<'_> {
        let cells = self.cells.iter().filter_map(|(place, fingerprint)| {
            let mut cell = plan::cell(&self.experiment, *place)?;
            cell.fingerprint.clone_from(fingerprint);
            Some(cell)
        });
        Plan {
            cells: cells.collect(),
            seeds: self.seeds.clone(),
        }
    }

    /// Opens the results in a folder, and keeps the runs that are there from this build and experiment, unless `fresh`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn open(&self, folder: &Path, fresh: bool) -> io::Result<(Store, Found)> {
        Store::open(folder, &self.heading, &self.plan(), fresh)
    }

    /// The numbers of the runs that are not in a store, in ascending order.
    pub fn missing(&self, store: &Store) -> Vec<usize> {
        let has = |run: &usize| {
            let cell = &self.cells[run / self.seeds.len()].1;
            store.has(cell, self.seeds[run % self.seeds.len()])
        };
        (0..self.len()).filter(|run| !has(run)).collect()
    }

    /// Sorts the results, and writes beside them what `mpquic-lab run` writes: time lines, tables and the report.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or if a run with a time line gives another result than without.
    pub fn finish(&self, store: Store) -> io::Result<Results> {
        let plan = self.plan();
        let file = store.finish(&plan)?;
        let results = Results::read(&file).map_err(io::Error::other)?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        if let Some(spec) = &self.experiment.timeline {
            timelines::keep(folder, spec, &plan, &results)?;
        }
        write_tables(folder, &results)?;
        Ok(results)
    }
}

/// Writes the tables and the report of results into their folder.
pub(crate) fn write_tables(folder: &Path, results: &Results) -> io::Result<()> {
    let board = Board::new(results);
    output::write_csv(&board, folder)?;
    std::fs::write(folder.join("report.html"), report::html(&board, folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_stopped_gives_no_record() {
        let [scheduler, olia] = ["minrtt", "olia"].map(str::to_owned);
        let experiment =
            Experiment::of_one_network("50Mbit 20ms", "file:20kB", &[scheduler], &[olia]).unwrap();
        let sweep = Sweep::new(experiment, None);
        let stop = Arc::new(AtomicBool::new(false));
        assert_eq!(sweep.run_unless(0, &stop), sweep.run(0));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sweep.run_unless(0, &stop), None);
        let fault = sweep.watch(0, &stop, |builder| builder).err().unwrap();
        assert_eq!(fault, "stopped at 0ns");
    }
}
