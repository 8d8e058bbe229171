//! The checks of a link's settings, and their errors.

use std::time::Duration;

use thiserror::Error;

use super::config::{LinkConfig, PlannedChange};

/// The largest propagation delay and the largest standard deviation of it: an hour. This keeps sums
/// of times far from overflow.
const MAX_DELAY: Duration = Duration::from_secs(3600);
/// The shortest round of rate steps. A busy link does some work per step.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// Why the settings of a link are invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// A number is outside its range.
    #[error("link setting `{field}` is {value}, expected {expected}")]
    OutOfRange {
        /// The setting, by its name in files.
        field: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// Two settings exclude each other.
    #[error("link settings `{first}` and `{second}` exclude each other")]
    Conflict {
        /// The first setting.
        first: String,
        /// The other setting.
        second: &'static str,
    },
    /// The trace file was not loaded.
    #[error("link setting `trace_file` names {path}, which was not loaded")]
    TraceNotLoaded {
        /// The file.
        path: String,
    },
    /// Two outages overlap.
    #[error("the outages at {first:?} and at {second:?} overlap: make them one")]
    OverlappingOutages {
        /// The start of the first outage.
        first: Duration,
        /// The start of the second outage.
        second: Duration,
    },
}

pub(super) fn out_of_range(
    field: impl Into<String>,
    value: impl ToString,
    expected: &'static str,
) -> LinkConfigError {
    LinkConfigError::OutOfRange {
        field: field.into(),
        value: value.to_string(),
        expected,
    }
}

pub(super) fn probability(field: &str, value: f64) -> Result<(), LinkConfigError> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(out_of_range(field, value, "a probability, 0 to 1"))
    }
}

pub(super) fn rate(field: &str, value: Option<u64>) -> Result<(), LinkConfigError> {
    if value == Some(0) {
        let expected = "at least 1 bit/s (for a dead link, an outage)";
        return Err(out_of_range(field, 0, expected));
    }
    Ok(())
}

pub(super) fn delay(field: &str, value: Duration) -> Result<(), LinkConfigError> {
    if value > MAX_DELAY {
        return Err(out_of_range(field, value.as_millis(), "at most 3600000 ms"));
    }
    Ok(())
}

impl LinkConfig {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The first invalid setting.
    pub fn validate(&self) -> Result<(), LinkConfigError> {
        rate("rate", self.rate)?;
        for (field, value) in [
            ("delay_ms", self.delay),
            ("delay_sd_ms", self.delay_sd),
            ("reordering_delay_ms", self.reordering_delay),
        ] {
            delay(field, value)?;
        }
        for (field, value) in [
            ("loss", self.loss),
            ("reordering", self.reordering),
            ("duplication", self.duplication),
            ("corruption", self.corruption),
        ] {
            probability(field, value)?;
        }
        if let Some(chain) = &self.gilbert_elliott {
            chain.validate("")?;
        }
        if self.overhead > 1500 {
            let expected = "at most 1500 bytes";
            return Err(out_of_range("overhead", self.overhead, expected));
        }
        self.validate_trace()?;
        self.validate_steps()?;
        for (number, change) in self.changes.iter().enumerate() {
            self.validate_change(number, change)?;
        }
        self.validate_outages()
    }

    fn validate_trace(&self) -> Result<(), LinkConfigError> {
        if let Some(file) = &self.trace_file {
            return Err(LinkConfigError::TraceNotLoaded {
                path: file.display().to_string(),
            });
        }
        if self.trace.is_none() {
            return Ok(());
        }
        let other = if self.rate.is_some() {
            "rate"
        } else if !self.rate_steps.is_empty() {
            "rate_steps"
        } else {
            return Ok(());
        };
        Err(conflict(other, "trace"))
    }

    fn validate_steps(&self) -> Result<(), LinkConfigError> {
        for (number, pair) in self.rate_steps.windows(2).enumerate() {
            if pair[0].at >= pair[1].at {
                return Err(out_of_range(
                    format!("rate_steps[{}].at_ms", number + 1),
                    pair[1].at.as_millis(),
                    "a later time than that of the step before",
                ));
            }
        }
        let Some(last) = self.rate_steps.last() else {
            return match self.rate_period {
                Some(period) => Err(out_of_range(
                    "rate_period_ms",
                    period.as_millis(),
                    "none without `rate_steps`",
                )),
                None => Ok(()),
            };
        };
        if let Some(period) = self.rate_period
            && (period <= last.at || period < MIN_PERIOD)
        {
            let expected = "1 ms at least, and more than the last step's time";
            let value = period.as_secs_f64() * 1e3;
            return Err(out_of_range("rate_period_ms", value, expected));
        }
        // A link on which packets wait for ever is invalid. An outage states that they are lost.
        let dead = match self.rate_period {
            Some(_) => self.rate_steps.iter().all(|step| step.rate == 0),
            None => last.rate == 0,
        };
        if dead {
            let field = format!("rate_steps[{}].rate", self.rate_steps.len() - 1);
            return Err(out_of_range(field, 0, "a rate above 0 at some later time"));
        }
        Ok(())
    }

    fn validate_change(
        &self,
        number: usize,
        change: &PlannedChange,
    ) -> Result<(), LinkConfigError> {
        let prefix = format!("changes[{number}].");
        if change.rate.is_some() {
            let field = format!("{prefix}rate");
            if self.trace.is_some() {
                return Err(conflict(field, "trace"));
            }
            if !self.rate_steps.is_empty() {
                return Err(conflict(field, "rate_steps"));
            }
            let at = |change: &PlannedChange| (change.rate.is_some(), change.at);
            let last = !self.changes.iter().any(|other| at(other) > at(change));
            if change.rate == Some(0) && last {
                return Err(out_of_range(field, 0, "a rate above 0 at some later time"));
            }
        }
        for (name, value) in [("delay_ms", change.delay), ("delay_sd_ms", change.delay_sd)] {
            delay(&format!("{prefix}{name}"), value.unwrap_or_default())?;
        }
        probability(&format!("{prefix}loss"), change.loss.unwrap_or_default())?;
        match &change.gilbert_elliott {
            Some(chain) => chain.validate(&prefix),
            None => Ok(()),
        }
    }

    fn validate_outages(&self) -> Result<(), LinkConfigError> {
        let mut outages: Vec<_> = self.outages.iter().collect();
        outages.sort_by_key(|outage| outage.at);
        for pair in outages.windows(2) {
            if pair[0].at.saturating_add(pair[0].lasting) > pair[1].at {
                return Err(LinkConfigError::OverlappingOutages {
                    first: pair[0].at,
                    second: pair[1].at,
                });
            }
        }
        Ok(())
    }
}

fn conflict(first: impl Into<String>, second: &'static str) -> LinkConfigError {
    LinkConfigError::Conflict {
        first: first.into(),
        second,
    }
}
