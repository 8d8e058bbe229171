//! The settings of `Arrival`; decides nothing.

use serde::{Deserialize, Serialize};

/// Settings of [`Arrival`](super::Arrival). The defaults are what it is meant to be used with; the switches take single parts
/// of the rule out, to measure what each is worth.
///
/// ```
/// use mpquic_sched::ArrivalConfig;
///
/// let config: ArrivalConfig = serde_json::from_str(r#"{"wait": false}"#)?;
/// assert!(config.ahead);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArrivalConfig {
    /// Whether a path with room may be left unused because the others deliver all that waits before it would. Default true.
    pub wait: bool,
    /// Whether a slower path carries what lies ahead of what the others deliver meanwhile. Default true.
    pub ahead: bool,
    /// Whether, in a path's first slow start, a queue must show in its round-trip times to be believed. Default true.
    pub fresh: bool,
    /// Whether it counts on the transport's copies of the last bytes instead of waiting, as far as their budget reaches. Default
    /// true.
    pub copies: bool,
}

impl Default for ArrivalConfig {
    fn default() -> Self {
        Self {
            wait: true,
            ahead: true,
            fresh: true,
            copies: true,
        }
    }
}
