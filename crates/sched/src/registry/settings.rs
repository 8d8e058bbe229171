//! Reads a scheduler's configuration, and says which field is wrong if one is.

use std::cell::Cell;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The configuration of a scheduler that has none: an empty object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// What is wrong with a scheduler's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidConfig {
    field: Option<String>,
    expected: String,
}

impl InvalidConfig {
    /// One field is wrong; `expected` says what it should be.
    pub fn field(field: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            expected: expected.into(),
        }
    }

    /// It is wrong as a whole; `expected` says what it should be.
    pub fn whole(expected: impl Into<String>) -> Self {
        Self {
            field: None,
            expected: expected.into(),
        }
    }

    /// The same of a configuration that is the field `outer` of another one.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        Self {
            field: Some(match self.field {
                Some(field) => format!("{outer}.{field}"),
                None => outer.to_owned(),
            }),
            expected: self.expected,
        }
    }

    /// The field that is wrong, if it is one.
    pub fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "field `{field}`: ")?;
        }
        f.write_str(&self.expected)
    }
}

impl std::error::Error for InvalidConfig {}

/// Reads `value` as a `C`.
///
/// serde's own message tells what was expected but not where; the fields are therefore handed over
/// one by one, and the last one handed over is the one that was refused.
pub(super) fn read<C: DeserializeOwned>(value: &Value) -> Result<C, InvalidConfig> {
    let empty = serde_json::Map::new();
    let fields = match value {
        Value::Null => &empty,
        Value::Object(fields) => fields,
        other => {
            let expected = format!("expected an object of settings, got {other}");
            return Err(InvalidConfig::whole(expected));
        }
    };
    let current = Cell::new(None);
    let mut rest = fields.iter();
    let pairs = std::iter::from_fn(|| {
        let pair = rest.next();
        current.set(pair.map(|(name, _)| name.as_str()));
        pair.map(|(name, value)| (name.as_str(), value))
    });
    C::deserialize(MapDeserializer::new(pairs)).map_err(|error: serde_json::Error| InvalidConfig {
        // None once all were taken: what is wrong then is a field that is missing, and serde names it.
        field: current.get().map(str::to_owned),
        expected: error.to_string(),
    })
}

/// A configuration as JSON, its defaults included. Those that do not fit into JSON are written as nothing.
#[cfg(feature = "record")]
pub(super) fn written(config: &impl Serialize) -> Value {
    serde_json::to_value(config).unwrap_or_default()
}
