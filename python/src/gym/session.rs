//! A connection stepped from Python, one decision of its scheduler at a time; the simulation runs in a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use numpy::{AllowTypeChange, PyArray1, PyArrayLike1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::description::{NetworkDescription, config_from_python, from_python};
use super::episode::{congestion_from, registered};
use super::kind::Kind;
use super::outcome::Outcome;
use super::remote::{News, Simulated};
use super::run::{RunError, Setup};
use crate::error::{simulation_error, value_error};

/// How often a wait for the simulation looks whether the user wants to end it all.
const SIGNALS: Duration = Duration::from_millis(200);

/// A simulated connection whose server asks Python for the decisions of its scheduler.
///
/// `next()` runs the simulation up to the next state and returns `(state, rewards, info)`; `state` is None at the end.
/// `answer(outputs)` answers it. An abandoned session ends its simulation.
#[pyclass(module = "mpquic_lab.gym")]
pub(crate) struct Session {
    kind: Kind,
    line: Mutex<Line>,
    simulated: Arc<Simulated>,
}

/// What is used by one call at a time.
struct Line {
    news: Receiver<News>,
    /// `None` once the session is over.
    answers: Option<Sender<Vec<f32>>>,
    thread: Option<JoinHandle<()>>,
    /// There is a state that was not answered.
    waits: bool,
}

/// A reward as Python gets it: the decision's number, the reward, whether it ends the episode.
type Reward = (u64, f32, bool);

#[pymethods]
impl Session {
    /// Sets up a run and starts it. `network` and `scheduler` are dictionaries or JSON texts, see the README; `client`
    /// names the scheduler of the client, which sends little but requests and acknowledgements.
    #[new]
    #[pyo3(signature = (kind, network, workload, congestion = "olia", seed = 0, scheduler = None, client = "minrtt"))]
    fn new(
        kind: &str,
        network: &Bound<'_, PyAny>,
        workload: &str,
        congestion: &str,
        seed: u64,
        scheduler: Option<&Bound<'_, PyAny>>,
        client: &str,
    ) -> PyResult<Self> {
        let kind: Kind = kind.parse().map_err(value_error)?;
        let network: NetworkDescription = from_python("network", network)?;
        let mut config = config_from_python(scheduler)?;
        network.answer_oracle(&mut config);
        let ends = Simulated::session();
        let setup = Setup {
            workload: workload.parse().map_err(value_error)?,
            congestion: congestion_from(congestion)?,
            seed,
            client: registered(client, serde_json::json!({}), seed)?,
            server: kind
                .factory(config, seed, &ends.simulated)
                .map_err(value_error)?,
            network,
        };
        // What cannot be is said here, not at the first step.
        setup.check().map_err(value_error)?;
        let its = Arc::clone(&ends.simulated);
        let thread = thread::Builder::new()
            .name("mpquic-session".into())
            .spawn(move || {
                // Nothing of the run outlives a panic; whoever waits is told.
                let outcome = catch_unwind(AssertUnwindSafe(|| simulate(&setup, &its)));
                let outcome = outcome.unwrap_or_else(|panic| Err(RunError::panicked(&*panic)));
                // Fails if nobody listens any more.
                let _ = its.news.send(News::End(outcome.map(Box::new)));
            })
            .map_err(simulation_error)?;
        Ok(Self {
            kind,
            line: Mutex::new(Line {
                news: ends.news,
                answers: Some(ends.answers),
                thread: Some(thread),
                waits: false,
            }),
            simulated: ends.simulated,
        })
    }

    /// Runs on to the next decision, or to the end: `(state | None, [(number, reward, done)], info)`.
    ///
    /// `info["taken"]` has the decisions taken since the last call as `(number, action, fell_back, seconds)`,
    /// `info["earned_at"]` the virtual times of the rewards, `info["queues"]` the client's out-of-order queue in bytes, on
    /// average over the arrivals before each of them, and `info["outcome"]`, at the end, what the run came to.
    #[expect(clippy::type_complexity, reason = "it is Python's tuple")]
    fn next<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(
        Option<Bound<'py, PyArray1<f32>>>,
        Vec<Reward>,
        Bound<'py, PyDict>,
    )> {
        let news = loop {
            let waited = py.detach(|| {
                let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
                if line.waits {
                    return Err("the last state was not answered");
                }
                if line.answers.is_none() {
                    return Err("the session is over");
                }
                let waited = line.news.recv_timeout(SIGNALS);
                line.waits = matches!(waited, Ok(News::State(_)));
                Ok(waited)
            });
            match waited.map_err(value_error)? {
                Ok(news) => break news,
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(simulation_error("the simulation's thread died"));
                }
            }
        };
        let experienced = self.simulated.take();
        let info = PyDict::new(py);
        let taken = experienced.taken.into_iter();
        let taken = taken.map(|one| (one.number, one.action, one.fell_back, one.at));
        info.set_item("taken", taken.collect::<Vec<_>>())?;
        let earned = &experienced.earned;
        let at: Vec<_> = earned.iter().map(|one| one.at).collect();
        info.set_item("earned_at", at)?;
        let queues: Vec<_> = earned.iter().map(|one| one.queue).collect();
        info.set_item("queues", queues)?;
        let rewards = earned.iter();
        let rewards = rewards.map(|one| (one.number, one.reward, one.done));
        let rewards = rewards.collect();
        let state = match news {
            News::State(state) => Some(PyArray1::from_vec(py, state)),
            News::End(outcome) => {
                self.close(py);
                let outcome = outcome.map_err(simulation_error)?;
                info.set_item("outcome", outcome.to_python(py)?)?;
                None
            }
        };
        Ok((state, rewards, info))
    }

    /// Answers the last state. What the scheduler cannot follow it falls back from, as it does in a sender; only the
    /// number of outputs is checked here.
    fn answer(&self, outputs: PyArrayLike1<'_, f32, AllowTypeChange>) -> PyResult<()> {
        let outputs: Vec<f32> = outputs.as_array().iter().copied().collect();
        let expected = self.kind.outputs();
        if outputs.len() != expected {
            let found = outputs.len();
            return Err(value_error(format!("{found} outputs, expected {expected}")));
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if !line.waits {
            return Err(value_error("no state waits for an answer: call next()"));
        }
        line.waits = false;
        let answers = line.answers.as_ref();
        let told = answers.is_some_and(|answers| answers.send(outputs).is_ok());
        if told {
            Ok(())
        } else {
            Err(value_error("the session is over"))
        }
    }

    /// Ends the simulation, wherever it is, and waits for that.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// What its scheduler is.
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind.name()
    }
}

impl Session {
    fn end(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        self.simulated.stop.store(true, Ordering::Relaxed);
        line.answers = None;
        line.waits = false;
        if let Some(thread) = line.thread.take() {
            // It caught its own panics.
            let _ = thread.join();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

fn simulate(setup: &Setup, simulated: &Arc<Simulated>) -> Result<Outcome, RunError> {
    let stop = Arc::clone(&simulated.stop);
    let receiver = Arc::clone(simulated);
    setup.run(
        true,
        stop,
        |origin| {
            // The only one who sets it.
            let _ = simulated.origin.set(origin);
        },
        move |client| receiver.look(client),
    )
}
