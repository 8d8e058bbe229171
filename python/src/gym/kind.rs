//! The schedulers that can be stepped: their names, shapes, and how each is made around a policy that Python answers for; the schedulers themselves are the library's.

use std::str::FromStr;
use std::sync::Arc;

use mpquic_sched::{RegistryError, SchedulerFactory};
use mpquic_sched_neural::{Dqn, DqnConfig, Gaps, GapsConfig, Run, Sailfish, SailfishConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use super::remote::Simulated;
use crate::error::value_error;

/// Which scheduler is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dqn,
    Gaps,
    Sailfish,
}

/// Why there is no such scheduler.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KindError {
    #[error("unknown kind \"{0}\", expected one of {known}", known = Kind::NAMES.join(", "))]
    Unknown(String),
    #[error(transparent)]
    Config(#[from] RegistryError),
    #[error("scheduler `{0}`, field `run`: expected \"inline\", a session waits for its answers")]
    NotInline(&'static str),
    #[error("scheduler `{0}`: {1}")]
    Json(&'static str, serde_json::Error),
}

/// Makes schedulers of one kind whose policy is at the other end.
macro_rules! factory {
    ($kind:expr, $scheduler:ty, $config:ty, $value:expr, $simulated:expr) => {{
        let kind = $kind.name();
        let config: $config =
            serde_json::from_value($value).map_err(|error| KindError::Json(kind, error))?;
        if config.run != Run::Inline {
            return Err(KindError::NotInline(kind));
        }
        let simulated = Arc::clone($simulated);
        Ok(SchedulerFactory::from(move || {
            let scheduler = <$scheduler>::new(&config, simulated.policy());
            Box::new(scheduler.with_observer(simulated.observer()))
        }))
    }};
}

impl Kind {
    /// All names.
    pub(crate) const NAMES: [&str; 3] = ["dqn", "gaps", "sailfish"];

    /// As the registry calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dqn => "dqn",
            Self::Gaps => "gaps",
            Self::Sailfish => "sailfish",
        }
    }

    /// Name and unit of each feature.
    const fn features(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Dqn => Dqn::FEATURES,
            Self::Gaps => Gaps::FEATURES,
            Self::Sailfish => Sailfish::FEATURES,
        }
    }

    /// Elements of a state.
    const fn state(self) -> usize {
        match self {
            Self::Dqn => Dqn::STATE,
            Self::Gaps => Gaps::STATE,
            Self::Sailfish => Sailfish::STATE,
        }
    }

    /// Elements of an answer.
    pub(crate) const fn outputs(self) -> usize {
        match self {
            Self::Dqn => Dqn::OUTPUTS,
            Self::Gaps => Gaps::OUTPUTS,
            Self::Sailfish => Sailfish::OUTPUTS,
        }
    }

    /// Makes schedulers of this kind whose policy is at the other end; with the run's seed, if none was given.
    pub(crate) fn factory(
        self,
        mut config: Value,
        seed: u64,
        simulated: &Arc<Simulated>,
    ) -> Result<SchedulerFactory, KindError> {
        if let Value::Object(settings) = &mut config {
            settings.entry("seed").or_insert_with(|| seed.into());
            // Python answers, whatever was given.
            settings.insert("model".into(), "random".into());
        }
        // The registry knows what is wrong with a configuration, and says so in the usual words.
        mpquic_sched_neural::registry().factory(self.name(), &config)?;
        match self {
            Self::Dqn => factory!(self, Dqn, DqnConfig, config, simulated),
            Self::Gaps => factory!(self, Gaps, GapsConfig, config, simulated),
            Self::Sailfish => factory!(self, Sailfish, SailfishConfig, config, simulated),
        }
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        match text {
            "dqn" => Ok(Self::Dqn),
            "gaps" => Ok(Self::Gaps),
            "sailfish" => Ok(Self::Sailfish),
            _ => Err(KindError::Unknown(text.to_owned())),
        }
    }
}

/// What a kind of session hands over and takes back: `{"features": [(name, unit)], "state": n, "outputs": n}`.
#[pyfunction]
pub(crate) fn describe<'py>(py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyDict>> {
    let kind: Kind = kind.parse().map_err(value_error)?;
    let told = PyDict::new(py);
    told.set_item("features", kind.features().to_vec())?;
    told.set_item("state", kind.state())?;
    told.set_item("outputs", kind.outputs())?;
    Ok(told)
}
