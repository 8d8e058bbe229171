//! Results of runs as columns, summaries and text.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mpquic_lab::{self, Board, Measured, Outcome, check_claims, summary_table};
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::value_error;

/// The results of an experiment.
#[pyclass(frozen, module = "mpquic_lab")]
pub(crate) struct Results(mpquic_lab::Results);

impl Results {
    pub(crate) const fn new(results: mpquic_lab::Results) -> Self {
        Self(results)
    }
}

/// What the lab measures of a run.
pub(crate) fn measured<'py>(py: Python<'py>, run: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("value", run.value)?;
    told.set_item("values", &run.values)?;
    told.set_item("bounds", &run.bounds)?;
    let series = PyDict::new(py);
    for (name, values) in &run.series {
        series.set_item(name, values.to_pyarray(py))?;
    }
    told.set_item("series", series)?;
    told.set_item("trace_hash", &run.trace_hash)?;
    Ok(told)
}

#[pymethods]
impl Results {
    /// Reads the results in a folder, or the file in it.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = py.detach(|| mpquic_lab::Results::read(&path));
        read.map(Self).map_err(value_error)
    }

    fn __len__(&self) -> usize {
        self.0.records.len()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.heading.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.0.heading.title
    }

    #[getter]
    fn build(&self) -> &str {
        &self.0.heading.build
    }

    #[getter]
    fn baseline(&self) -> &str {
        &self.0.heading.baseline
    }

    /// A row per run: the names of its cell, its seed, `value`, `trace_hash`, `error`, and a column per metric.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let records = &self.0.records;
        let columns = PyDict::new(py);
        let texts =
            |of: fn(&mpquic_lab::Record) -> &str| -> Vec<&str> { records.iter().map(of).collect() };
        columns.set_item("network", texts(|run| &run.network))?;
        columns.set_item("workload", texts(|run| &run.workload))?;
        columns.set_item("congestion", texts(|run| &run.congestion))?;
        columns.set_item("scheduler", texts(|run| &run.scheduler))?;
        let seeds: Vec<u64> = records.iter().map(|run| run.seed).collect();
        columns.set_item("seed", PyArray1::from_vec(py, seeds))?;
        let numbers = |of: &dyn Fn(&Measured) -> Option<f64>| {
            let values = records.iter().map(|run| run.measured().and_then(of));
            let values: Vec<f64> = values.map(|value| value.unwrap_or(f64::NAN)).collect();
            PyArray1::from_vec(py, values)
        };
        columns.set_item("value", numbers(&|run| Some(run.value)))?;
        let hashes = records
            .iter()
            .map(|run| run.measured().map(|run| &*run.trace_hash));
        columns.set_item("trace_hash", hashes.collect::<Vec<_>>())?;
        let errors = records.iter().map(|run| match &run.outcome {
            Outcome::Failed { error } => Some(&**error),
            Outcome::Done(_) => None,
        });
        columns.set_item("error", errors.collect::<Vec<_>>())?;
        let done = || records.iter().filter_map(mpquic_lab::Record::measured);
        let names: BTreeSet<&str> = done()
            .flat_map(|run| run.values.keys().map(|name| &**name))
            .collect();
        for name in names {
            columns.set_item(name, numbers(&|run| run.values.get(name).copied()))?;
        }
        let names: BTreeSet<&str> = done()
            .flat_map(|run| run.bounds.keys().map(|name| &**name))
            .collect();
        for name in names {
            let bound = numbers(&|run| run.bounds.get(name).copied());
            columns.set_item(format!("{name}_bound"), bound)?;
        }
        Ok(columns)
    }

    /// The values behind a metric (of every chunk, message, stream), by run; `None` where a run has none.
    fn series<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Vec<Option<Bound<'py, PyArray1<f64>>>>> {
        let runs = self
            .0
            .records
            .iter()
            .map(|run| run.measured()?.series.get(name));
        let runs: Vec<_> = runs.collect();
        if runs.iter().all(Option::is_none) {
            let done = self
                .0
                .records
                .iter()
                .filter_map(mpquic_lab::Record::measured);
            let known: BTreeSet<_> = done.flat_map(|run| run.series.keys().cloned()).collect();
            let known: Vec<_> = known.into_iter().collect();
            return Err(value_error(format!(
                "no series `{name}`, there are: {}",
                known.join(", ")
            )));
        }
        let runs = runs
            .into_iter()
            .map(|run| run.map(|values| values.to_pyarray(py)));
        Ok(runs.collect())
    }

    /// The summaries of all cells as JSON, an object each.
    fn summaries(&self, py: Python<'_>, headline_only: bool) -> PyResult<String> {
        let summed = py.detach(|| {
            let summaries = Board::new(&self.0).summaries(headline_only);
            serde_json::to_string(&summaries)
        });
        summed.map_err(value_error)
    }

    /// The table that `mpquic-lab run` prints.
    fn table(&self, py: Python<'_>) -> String {
        py.detach(|| summary_table(&Board::new(&self.0)))
    }

    /// The statements of the source and what came out, in words.
    fn claims(&self, py: Python<'_>) -> Vec<(String, String, String)> {
        py.detach(|| {
            let checked = check_claims(&Board::new(&self.0)).into_iter();
            let told = checked.map(|checked| {
                let sentence = checked.sentence().to_string();
                (
                    checked.claim.text.clone(),
                    checked.claim.source.clone(),
                    sentence,
                )
            });
            told.collect()
        })
    }
}
