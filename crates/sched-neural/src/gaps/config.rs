//! Settings of `gaps` and their ranges.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use mpquic_sched::InvalidConfig;
use mpquic_sched::neural::{Model, Run};

/// Settings of [`Gaps`](super::Gaps).
///
/// ```
/// use mpquic_sched_neural::{GapsConfig, Model};
///
/// let config: GapsConfig = serde_json::from_str(r#"{"model": "random", "seed": 3}"#)?;
/// assert_eq!((config.model, config.seed, config.interval_ms), (Model::Random, 3, 10.0));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GapsConfig {
    /// Which policy is asked: "shipped", the default, "random", or the path of an ONNX file.
    pub model: Model,
    /// Where it runs: "inline", the default, or "thread".
    pub run: Run,
    /// Where a random policy's numbers begin. Default 0.
    pub seed: u64,
    /// The least time from one decision of the policy to the next, milliseconds, 0 to 60,000. Default 10.
    pub interval_ms: f64,
    /// The same in smoothed RTTs of the fastest path, 0 to 1000; the longer of the two counts. Default 1. With 0 for
    /// both, every acknowledgement brings a decision, as in the paper.
    pub round_trips: f64,
    /// One gap for all slower paths, packets, 0 to 1,000,000; no policy is asked then, and nothing bounds it. Default
    /// none. For finding the gap that suits a network best, the paper's "true GAP": try all.
    pub fixed_gap: Option<f64>,
}

impl Default for GapsConfig {
    fn default() -> Self {
        Self {
            model: Model::default(),
            run: Run::default(),
            seed: 0,
            interval_ms: 10.0,
            round_trips: 1.0,
            fixed_gap: None,
        }
    }
}

impl GapsConfig {
    /// Whether the settings make sense.
    ///
    /// # Errors
    ///
    /// What is wrong with which.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let within = |field: &str, what: &str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            let expected = format!("expected {what}, 0 to {most}, got {value}");
            Err(InvalidConfig::field(field, expected))
        };
        within("interval_ms", "milliseconds", self.interval_ms, 60_000.0)?;
        within("round_trips", "round trips", self.round_trips, 1000.0)?;
        self.fixed_gap.map_or(Ok(()), |gap| {
            within("fixed_gap", "packets", gap, 1_000_000.0)
        })
    }

    /// The time between decisions with this RTT of the fastest path. Settings that do not pass
    /// [`check`](Self::check) are taken for the defaults.
    pub(super) fn interval(&self, rtt: Duration) -> Duration {
        let known = if self.check().is_ok() {
            (self.interval_ms, self.round_trips)
        } else {
            let usual = Self::default();
            (usual.interval_ms, usual.round_trips)
        };
        let (least, round_trips) = known;
        Duration::from_secs_f64(least / 1e3).max(rtt.mul_f64(round_trips))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_ranges() {
        assert_eq!(GapsConfig::default().check(), Ok(()));
        let wrong = [
            (
                "interval_ms",
                GapsConfig {
                    interval_ms: -1.0,
                    ..GapsConfig::default()
                },
            ),
            (
                "interval_ms",
                GapsConfig {
                    interval_ms: f64::NAN,
                    ..GapsConfig::default()
                },
            ),
            (
                "round_trips",
                GapsConfig {
                    round_trips: 1001.0,
                    ..GapsConfig::default()
                },
            ),
            (
                "fixed_gap",
                GapsConfig {
                    fixed_gap: Some(-1.0),
                    ..GapsConfig::default()
                },
            ),
            (
                "fixed_gap",
                GapsConfig {
                    fixed_gap: Some(f64::INFINITY),
                    ..GapsConfig::default()
                },
            ),
        ];
        for (field, config) in wrong {
            assert_eq!(config.check().unwrap_err().field_name(), Some(field));
        }
    }

    #[test]
    fn the_longer_of_both_times_counts() {
        let ms = Duration::from_millis;
        let usual = GapsConfig::default();
        assert_eq!(
            (usual.interval(ms(4)), usual.interval(ms(25))),
            (ms(10), ms(25))
        );
        let each = GapsConfig {
            interval_ms: 0.0,
            round_trips: 0.0,
            ..usual
        };
        assert_eq!(each.interval(ms(25)), Duration::ZERO);
    }
}
