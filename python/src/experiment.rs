//! Experiments: read, extended by schedulers in Python, run, with their results in memory or in a folder.

use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use mpquic_lab::{
    self, Experiment as LabExperiment, Record, SchedulerSpec, Schedulers, Store, Sweep,
};
use mpquic_sched::InvalidConfig;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Map, Value};

use crate::error::{simulation_error, value_error};
use crate::look;
use crate::results::{Results, measured};
use crate::scheduler::{Fault, InPython};
use crate::waiting::{Progress, wait};

/// An experiment, or the part of it that a pattern chose: a list of runs, and the schedulers written in Python that take
/// part in them.
#[pyclass(frozen, module = "mpquic_lab")]
pub(crate) struct Experiment {
    sweep: Sweep,
    fault: Arc<Fault>,
    /// Whether a scheduler is written in Python.
    python: bool,
}

/// A scheduler as Python names it: its label, its name, its configuration as JSON.
type Named = (String, String, Option<String>);
/// Schedulers in Python: their names, what makes them, whether they take a seed. And the identity of their code.
type Made = (Vec<(String, Py<PyAny>, bool)>, String);

/// The built-in schedulers and those that Python objects make.
fn roster(made: Made, fault: &Arc<Fault>) -> PyResult<Schedulers> {
    let (made, identity) = made;
    if made.is_empty() {
        return Ok(Schedulers::default());
    }
    let made: Vec<_> = made
        .into_iter()
        .map(|(name, make, seeded)| (name, Arc::new(make), seeded))
        .collect();
    let fault = Arc::clone(fault);
    let register = move |registry: &mut mpquic_sched::Registry| {
        for (name, make, seeded) in &made {
            let seeded = *seeded;
            // As with the built-in ones: whoever takes a seed gets that of the run.
            let check = move |config: &Map<String, Value>| match config.contains_key("seed") {
                true if !seeded => Err(InvalidConfig::field("seed", "it takes none")),
                _ => Ok(()),
            };
            let (make, fault) = (Arc::clone(make), Arc::clone(&fault));
            let make = move |config: &Map<String, Value>| InPython::new(&make, config, &fault);
            registry.register_checked(name, check, make)?;
        }
        Ok(())
    };
    Schedulers::with(&identity, register).map_err(value_error)
}

fn add(experiment: &mut LabExperiment, named: Vec<Named>) -> PyResult<()> {
    for (label, name, config) in named {
        let config = match config {
            None => Value::Null,
            Some(text) => serde_json::from_str(&text).map_err(value_error)?,
        };
        let spec = SchedulerSpec {
            label,
            name,
            config,
            training: 0,
            family: String::new(),
            parameters: Vec::new(),
        };
        experiment.add_scheduler(spec).map_err(value_error)?;
    }
    Ok(())
}

impl Experiment {
    fn new(
        mut experiment: LabExperiment,
        named: Vec<Named>,
        seeds: Option<(u64, u64)>,
        only: Option<&str>,
        fault: Arc<Fault>,
        python: bool,
    ) -> PyResult<Self> {
        let added = add(&mut experiment, named);
        // A scheduler was made to see whether it can be.
        if let Some(error) = fault.take() {
            return Err(error);
        }
        added?;
        if let Some((first, count)) = seeds {
            if count == 0 || first.checked_add(count).is_none() {
                return Err(value_error("expected at least one seed"));
            }
            experiment.seeds = mpquic_lab::Seeds { first, count };
        }
        let pattern = only.map(|only| only.parse().map_err(value_error));
        let pattern = pattern.transpose()?;
        let names = mpquic_lab::Plan::new(&experiment, None).cells;
        let names: Vec<_> = names
            .iter()
            .take(3)
            .map(|cell| cell.id.to_string())
            .collect();
        let sweep = Sweep::new(experiment, pattern.as_ref());
        if sweep.is_empty() {
            return Err(value_error(format!(
                "only: nothing matches; names are like {}",
                names.join(", ")
            )));
        }
        Ok(Self {
            sweep,
            fault,
            python,
        })
    }

    /// What Python raised during the work, or what became of the work.
    fn settled<T>(&self, done: PyResult<io::Result<T>>) -> PyResult<T> {
        let raised = self.fault.take();
        let done = done?;
        match raised {
            Some(error) => Err(error),
            None => Ok(done?),
        }
    }

    /// Executes runs on several threads, in their order; what they give comes in any order. The first error ends them.
    fn execute(
        &self,
        runs: &[usize],
        jobs: usize,
        progress: &Progress,
        take: impl FnMut(usize, Record) -> io::Result<()> + Send,
    ) -> io::Result<()> {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = if jobs == 0 { cores() } else { jobs };
        let stop = &self.fault.stop;
        let next = AtomicUsize::new(0);
        let sink = Mutex::new((take, Ok(())));
        let work = || {
            while let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Some(record) = self.sweep.run_unless(run, stop) else {
                    return;
                };
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                let (take, ended) = &mut *sink;
                if ended.is_ok() {
                    *ended = take(run, record);
                }
                if ended.is_err() {
                    return;
                }
                progress.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs.min(runs.len()) {
                scope.spawn(work);
            }
        });
        sink.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The results of all runs, which are nowhere else.
    fn in_memory(&self, jobs: usize, progress: &Progress) -> io::Result<mpquic_lab::Results> {
        let runs: Vec<usize> = (0..self.sweep.len()).collect();
        let mut records: Vec<Option<Record>> = runs.iter().map(|_| None).collect();
        self.execute(&runs, jobs, progress, |run, record| {
            records[run] = Some(record);
            Ok(())
        })?;
        Ok(mpquic_lab::Results {
            heading: self.sweep.heading().clone(),
            records: records.into_iter().flatten().collect(),
        })
    }

    /// What a class in Python calls may have changed though the class has not, so with those all is run anew.
    fn open(&self, folder: &Path, fresh: bool) -> io::Result<Store> {
        let (store, _) = self.sweep.open(folder, fresh || self.python)?;
        Ok(store)
    }

    /// As `mpquic-lab run --out` does: what is there already is not run again.
    fn in_folder(
        &self,
        folder: &Path,
        fresh: bool,
        jobs: usize,
        progress: &Progress,
    ) -> io::Result<mpquic_lab::Results> {
        let mut store = self.open(folder, fresh)?;
        let runs = self.sweep.missing(&store);
        let kept = self.sweep.len() - runs.len();
        progress.done.store(kept, Ordering::Relaxed);
        self.execute(&runs, jobs, progress, |_, record| store.append(&record))?;
        if self.fault.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.sweep.finish(store)
    }
}

#[pymethods]
impl Experiment {
    /// Reads a file. `made` are Python schedulers that the file can name; `also` are added to the file's.
    #[staticmethod]
    fn load(
        path: PathBuf,
        made: Made,
        also: Vec<Named>,
        seeds: Option<(Option<u64>, u64)>,
        only: Option<&str>,
    ) -> PyResult<Self> {
        let (fault, python) = (Arc::default(), !made.0.is_empty());
        let roster = roster(made, &fault)?;
        let experiment = LabExperiment::load_with(&path, &roster).map_err(value_error);
        if let Some(error) = fault.take() {
            return Err(error);
        }
        let experiment = experiment?;
        let seeds = seeds.map(|(first, count)| (first.unwrap_or(experiment.seeds.first), count));
        Self::new(experiment, also, seeds, only, fault, python)
    }

    /// One network as a command line describes it.
    #[staticmethod]
    fn of_one_network(
        network: &str,
        workload: &str,
        schedulers: Vec<Named>,
        congestion: Vec<String>,
        made: Made,
        seeds: (u64, u64),
    ) -> PyResult<Self> {
        let (fault, python) = (Arc::default(), !made.0.is_empty());
        let roster = roster(made, &fault)?;
        let any = ["minrtt".to_owned()];
        let experiment =
            LabExperiment::of_one_network_with(network, workload, &any, &congestion, &roster);
        let mut experiment = experiment.map_err(value_error)?;
        experiment.schedulers.clear();
        let Some((first, ..)) = schedulers.first() else {
            return Err(value_error("empty list, expected at least one scheduler"));
        };
        experiment.baseline = match schedulers.iter().any(|(label, ..)| label == "minrtt") {
            true => "minrtt".to_owned(),
            false => first.clone(),
        };
        Self::new(experiment, schedulers, Some(seeds), None, fault, python)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.sweep.experiment().name
    }

    /// What two results must have in common to be put together.
    #[getter]
    fn build(&self) -> &str {
        &self.sweep.heading().build
    }

    #[getter]
    fn title(&self) -> &str {
        &self.sweep.experiment().title
    }

    fn __len__(&self) -> usize {
        self.sweep.len()
    }

    /// Network, workload, congestion control, scheduler and seed of a run.
    fn id(&self, run: usize) -> PyResult<(String, String, String, String, u64)> {
        let Some((cell, seed)) = self.sweep.id(run) else {
            return Err(no_run(run));
        };
        let mpquic_lab::CellId {
            network,
            workload,
            congestion,
            scheduler,
        } = cell;
        Ok((network, workload, congestion, scheduler, seed))
    }

    /// Executes all runs, or those that are not in the folder.
    #[pyo3(signature = (jobs, out, fresh, tell))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: usize,
        out: Option<PathBuf>,
        fresh: bool,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let progress = Progress::default();
        progress.all.store(self.sweep.len(), Ordering::Relaxed);
        let done = wait(
            py,
            &self.fault.stop,
            &progress,
            tell.as_ref(),
            || match &out {
                Some(folder) => self.in_folder(folder, fresh, jobs, &progress),
                None => self.in_memory(jobs, &progress),
            },
        );
        self.settled(done).map(Results::new)
    }

    /// Executes the runs with these numbers, from 0, and returns them as lines of a results file, in that order.
    fn run_some<'py>(
        &self,
        py: Python<'py>,
        runs: Vec<usize>,
        jobs: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(run) = runs.iter().find(|run| **run >= self.sweep.len()) {
            return Err(no_run(*run));
        }
        let progress = Progress::default();
        let done = wait(py, &self.fault.stop, &progress, None, || {
            let mut lines = std::collections::BTreeMap::new();
            self.execute(&runs, jobs, &progress, |run, record| {
                lines.insert(run, serde_json::to_string(&record)?);
                Ok(())
            })?;
            let mut text = String::new();
            for line in runs.iter().filter_map(|run| lines.get(run)) {
                text += line;
                text.push('\n');
            }
            Ok(text)
        });
        let text = self.settled(done)?;
        Ok(PyBytes::new(py, text.as_bytes()))
    }

    /// Opens a folder for runs that are executed elsewhere.
    fn gather(&self, py: Python<'_>, folder: PathBuf, fresh: bool) -> PyResult<Gathering> {
        let store = py.detach(|| self.open(&folder, fresh))?;
        Ok(Gathering(Mutex::new(Some(store))))
    }

    /// One run with more than the lab keeps of it.
    #[pyo3(signature = (run, interval = None))]
    fn look<'py>(
        &self,
        py: Python<'py>,
        run: usize,
        interval: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if run >= self.sweep.len() {
            return Err(no_run(run));
        }
        let interval = interval.map(look::interval).transpose()?;
        let stop = &self.fault.stop;
        let seen = wait(py, stop, &Progress::default(), None, || {
            look::run(&self.sweep, run, stop, interval)
        });
        let raised = self.fault.take();
        let seen = seen?;
        if let Some(error) = raised {
            return Err(error);
        }
        let (run, seen) = seen.map_err(simulation_error)?;
        let told = measured(py, &run)?;
        if let Some(seen) = seen {
            told.set_item("timeline", seen.into_python(py)?)?;
        }
        Ok(told)
    }
}

fn no_run(run: usize) -> PyErr {
    PyIndexError::new_err(format!("there is no run {run}"))
}

/// A folder of results that fills from elsewhere.
#[pyclass(frozen, module = "mpquic_lab")]
pub(crate) struct Gathering(Mutex<Option<Store>>);

impl Gathering {
    fn lock(&self) -> MutexGuard<'_, Option<Store>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn finished() -> PyErr {
    value_error("these results are finished")
}

#[pymethods]
impl Gathering {
    /// The numbers of the runs that are not there.
    fn missing(&self, experiment: &Experiment) -> PyResult<Vec<usize>> {
        let store = self.lock();
        let store = store.as_ref().ok_or_else(finished)?;
        Ok(experiment.sweep.missing(store))
    }

    /// Takes lines as `run_some` returned them.
    fn take(&self, py: Python<'_>, lines: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let mut store = self.lock();
            let store = store.as_mut().ok_or_else(finished)?;
            let text = std::str::from_utf8(lines).map_err(value_error)?;
            for line in text.lines() {
                let record = serde_json::from_str(line).map_err(value_error)?;
                store.append(&record)?;
            }
            Ok(())
        })
    }

    /// Sorts the runs, and writes tables and report.
    fn finish(&self, py: Python<'_>, experiment: &Experiment) -> PyResult<Results> {
        py.detach(|| {
            let store = self.lock().take().ok_or_else(finished)?;
            Ok(Results::new(experiment.sweep.finish(store)?))
        })
    }
}
