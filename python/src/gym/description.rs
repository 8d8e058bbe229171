//! What a run is described with: a network, a scheduler's configuration, as Python hands them over.

use mpquic_sim::LinkConfig;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::value_error;

/// A network: what its paths are, and what bounds the windows. The defaults are those of the experiment files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkDescription {
    /// For messages.
    #[serde(default)]
    pub(crate) name: String,
    /// The handshake's first.
    pub(crate) paths: Vec<PathDescription>,
    /// Of the connection and of each stream, bytes.
    #[serde(default = "six_megabytes")]
    pub(crate) receive_window: u64,
    /// Most bytes written and not acknowledged.
    #[serde(default = "six_megabytes")]
    pub(crate) send_window: u64,
    /// Packets.
    #[serde(default = "initial_window")]
    pub(crate) initial_window: u32,
    /// UDP payload bytes per datagram.
    #[serde(default = "mtu")]
    pub(crate) mtu: u16,
}

/// A path's links, as the simulator's files write them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathDescription {
    /// Client to server.
    pub(crate) up: LinkConfig,
    /// Server to client: the data's direction.
    pub(crate) down: LinkConfig,
}

const fn six_megabytes() -> u64 {
    6_000_000
}

const fn initial_window() -> u32 {
    32
}

const fn mtu() -> u16 {
    1350
}

impl NetworkDescription {
    /// The configured rates of the data direction, Mbit/s by path: what the configuration `"rates": "oracle"` of a
    /// scheduler stands for.
    fn oracle(&self) -> Value {
        let rate = |path: &PathDescription| path.down.peak_rate().map(|rate| rate as f64 / 1e6);
        self.paths.iter().map(rate).collect()
    }

    /// A scheduler's configuration with the oracle's answer in the place where it is asked for.
    pub(crate) fn answer_oracle(&self, config: &mut Value) {
        if let Some(rates) = config.get_mut("rates")
            && rates == "oracle"
        {
            *rates = self.oracle();
        }
    }
}

/// A Python value by way of JSON: a text is taken for JSON as it stands, anything else is written by Python's `json`.
pub(crate) fn from_python<T: DeserializeOwned>(
    what: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<T> {
    let json: String = if value.is_instance_of::<PyString>() {
        value.extract()?
    } else {
        let module = value.py().import("json")?;
        module.call_method1("dumps", (value,))?.extract()?
    };
    serde_json::from_str(&json).map_err(|error| value_error(format!("{what}: {error}")))
}

/// A scheduler's configuration; nothing given is the empty one.
pub(crate) fn config_from_python(value: Option<&Bound<'_, PyAny>>) -> PyResult<Value> {
    let config = match value {
        None => Value::Null,
        Some(value) => from_python("scheduler configuration", value)?,
    };
    match config {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(config),
        other => Err(value_error(format!(
            "scheduler configuration: expected an object, got {other}"
        ))),
    }
}
