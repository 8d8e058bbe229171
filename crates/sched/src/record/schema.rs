//! What the numbers of a scheduler's records mean.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MAX_SCHEMA_BYTES, MAX_VALUES, RecordError};

/// Which scheduler it was, how configured, and what its states and actions are made of.
///
/// ```
/// use mpquic_sched::record::Schema;
///
/// // A state of two paths with two features each, and an action for each path.
/// let schema = Schema::new("mine", serde_json::json!({"eager": true}))
///     .with_state(2, &[("rtt", "ms"), ("window", "bytes")])
///     .with_action(&["gap_0", "gap_1"]);
/// assert_eq!((schema.state_len(), schema.action_len()), (4, 2));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Schema {
    /// The scheduler's name, as the registry knows it.
    pub scheduler: String,
    /// Its configuration, defaults included.
    pub config: Value,
    /// Name and unit of each feature of a row.
    pub features: Vec<(String, String)>,
    /// How many rows of them a state has: one for each path, or a single one.
    pub rows: usize,
    /// The names of an action's elements.
    pub actions: Vec<String>,
}

impl Schema {
    /// Of a scheduler with this name and configuration, with empty states and actions.
    pub fn new(scheduler: impl Into<String>, config: Value) -> Self {
        Self {
            scheduler: scheduler.into(),
            config,
            features: Vec::new(),
            rows: 1,
            actions: Vec::new(),
        }
    }

    /// States are so many rows of these features, each with its unit.
    #[must_use]
    pub fn with_state(mut self, rows: usize, features: &[(&str, &str)]) -> Self {
        self.rows = rows;
        self.features = features
            .iter()
            .map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned()))
            .collect();
        self
    }

    /// Actions are made of these.
    #[must_use]
    pub fn with_action<S: AsRef<str>>(mut self, names: &[S]) -> Self {
        self.actions = names.iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    /// The elements of a state.
    pub fn state_len(&self) -> usize {
        self.rows.saturating_mul(self.features.len())
    }

    /// The elements of an action.
    pub fn action_len(&self) -> usize {
        self.actions.len()
    }

    /// What is wrong with its sizes.
    pub(super) fn problem(&self) -> Option<String> {
        let values = self.state_len().saturating_add(self.action_len());
        (values > MAX_VALUES)
            .then(|| format!("expected at most {MAX_VALUES} numbers a record, got {values}"))
    }

    /// As it stands in a file.
    pub(super) fn text(&self) -> Result<String, RecordError> {
        let refuse = |problem| RecordError::Schema {
            scheduler: self.scheduler.clone(),
            problem,
        };
        if let Some(problem) = self.problem() {
            return Err(refuse(problem));
        }
        let text = serde_json::to_string(self).map_err(|error| refuse(error.to_string()))?;
        if text.len() > MAX_SCHEMA_BYTES {
            let length = text.len();
            return Err(refuse(format!(
                "expected a configuration and names of at most {MAX_SCHEMA_BYTES} bytes, got {length}"
            )));
        }
        Ok(text)
    }
}
