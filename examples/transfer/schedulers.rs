//! Packet schedulers by name and JSON configuration, validated before anything is sent.

use mpquic::sched::memory::Store;
use mpquic::sched::record::Recorder;
use mpquic::sched::{RegistryError, SchedulerFactory};
use serde_json::Value;
use thiserror::Error;

/// A valid scheduler name and its valid configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    name: String,
    config: Value,
}

/// Why a scheduler was rejected.
#[derive(Debug, Error)]
pub(crate) enum ChoiceError {
    #[error("the scheduler's configuration is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error(
        "the scheduler {name} is not in this program: build it with the feature neural, as in \
         `cargo run --release --features neural --example ...`"
    )]
    NotBuilt { name: String },
    #[error(transparent)]
    Registry(RegistryError),
}

impl From<RegistryError> for ChoiceError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::NotBuilt { name, .. } => Self::NotBuilt { name },
            error => Self::Registry(error),
        }
    }
}

impl Choice {
    /// Validates a name and a configuration. An empty text is the default configuration.
    pub(crate) fn parse(name: &str, config: &str) -> Result<Self, ChoiceError> {
        let config = match config.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text)?,
        };
        mpquic_workspace::schedulers().factory(name, &config)?;
        Ok(Self {
            name: name.to_owned(),
            config,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn config(&self) -> &Value {
        &self.config
    }

    /// The factory that makes the scheduler of each new connection. With a memory, learning
    /// schedulers start with its contents and store what they learn. With a recorder, they record
    /// their decisions.
    pub(crate) fn factory(
        &self,
        memory: Option<&Store>,
        recorder: Option<&Recorder>,
    ) -> Result<SchedulerFactory, ChoiceError> {
        let mut registry = mpquic_workspace::schedulers();
        if let Some(memory) = memory {
            registry = registry.with_memory(memory.clone());
        }
        if let Some(recorder) = recorder {
            registry = registry.with_recorder(recorder.clone());
        }
        Ok(registry.factory(&self.name, &self.config)?)
    }
}
