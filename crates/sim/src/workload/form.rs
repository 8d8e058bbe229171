//! Parses the short forms of workloads, such as "file:2MB", into parts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::WorkloadError;
use crate::units::{self, UnitError};

/// The parts of a short form after its kind: first those in order, then settings by name.
pub(super) struct Parts<'a> {
    whole: &'a str,
    rest: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
    form: &'static str,
}

impl<'a> Parts<'a> {
    /// Splits a form into its kind and the rest.
    pub(super) fn new(whole: &'a str) -> (&'a str, Self) {
        let mut parts = whole.trim().split(':').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut rest, mut named) = (Vec::new(), Vec::new());
        for part in parts {
            match part.split_once('=') {
                Some((name, value)) => named.push((name.trim(), value.trim())),
                None => rest.push(part),
            }
        }
        let parts = Self {
            whole,
            rest,
            named,
            form: "",
        };
        (kind, parts)
    }

    /// Sets the example of a valid form for error messages.
    pub(super) fn form(&mut self, form: &'static str) {
        self.form = form;
    }

    /// The next part, if any.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        (!self.rest.is_empty()).then(|| self.rest.remove(0))
    }

    pub(super) fn required(&mut self, part: &'static str) -> Result<&'a str, WorkloadError> {
        self.next()
            .filter(|text| !text.is_empty())
            .ok_or_else(|| WorkloadError::Missing {
                workload: self.whole.to_owned(),
                part,
                form: self.form,
            })
    }

    pub(super) fn unit<T>(&self, result: Result<T, UnitError>) -> Result<T, WorkloadError> {
        result.map_err(|source| WorkloadError::Unit {
            workload: self.whole.to_owned(),
            source,
        })
    }

    pub(super) fn size(&mut self, part: &'static str) -> Result<u64, WorkloadError> {
        let text = self.required(part)?;
        self.unit(units::size::parse(text))
    }

    pub(super) fn rate(&mut self, part: &'static str) -> Result<u64, WorkloadError> {
        let text = self.required(part)?;
        self.unit(units::rate::parse(text))
    }

    pub(super) fn time(&mut self, part: &'static str) -> Result<Duration, WorkloadError> {
        let text = self.required(part)?;
        self.unit(units::time::parse(text))
    }

    /// The next part as a time, if there is a part.
    pub(super) fn optional_time(&mut self) -> Result<Option<Duration>, WorkloadError> {
        match self.next() {
            Some(text) => self.unit(units::time::parse(text)).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn number<T: FromStr>(&mut self, part: &'static str) -> Result<T, WorkloadError> {
        let text = self.required(part)?;
        self.parse_number(part, text)
    }

    /// The value of a named setting, if present.
    fn named(&mut self, name: &str) -> Option<&'a str> {
        let at = self.named.iter().position(|(other, _)| *other == name)?;
        Some(self.named.remove(at).1)
    }

    pub(super) fn named_number<T: FromStr>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, WorkloadError> {
        let value = self.named(name);
        value.map(|text| self.parse_number(name, text)).transpose()
    }

    pub(super) fn named_time(&mut self, name: &str) -> Result<Option<Duration>, WorkloadError> {
        let value = self.named(name);
        self.unit(value.map(units::time::parse).transpose())
    }

    pub(super) fn named_size(&mut self, name: &str) -> Result<Option<u64>, WorkloadError> {
        let value = self.named(name);
        self.unit(value.map(units::size::parse).transpose())
    }

    pub(super) fn named_share(&mut self, name: &str) -> Result<Option<f64>, WorkloadError> {
        let value = self.named(name);
        self.unit(value.map(units::share::parse).transpose())
    }

    fn parse_number<T: FromStr>(&self, part: &'static str, text: &str) -> Result<T, WorkloadError> {
        text.parse().map_err(|_| WorkloadError::Number {
            workload: self.whole.to_owned(),
            part,
            value: text.to_owned(),
        })
    }

    pub(super) fn next_is(&self, word: &str) -> bool {
        self.rest.first() == Some(&word)
    }

    /// Whether the next part is this word. If so, this consumes it.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let found = self.next_is(word);
        if found {
            self.rest.remove(0);
        }
        found
    }

    /// Checks that all parts were consumed.
    pub(super) fn end(mut self) -> Result<(), WorkloadError> {
        let named = self.named.first().map(|(name, _)| *name);
        match self.next().or(named) {
            None => Ok(()),
            Some(part) => Err(WorkloadError::Surplus {
                workload: self.whole.to_owned(),
                part: part.to_owned(),
                form: self.form,
            }),
        }
    }
}

/// A size in short forms: without a space.
pub(super) fn size(bytes: u64) -> String {
    units::size::show(bytes).replace(' ', "")
}

/// A rate in short forms: without a space.
pub(super) fn rate(bits: u64) -> String {
    units::rate::show(bits).replace(' ', "")
}

/// A time in short forms: without a space.
pub(super) fn time(time: Duration) -> String {
    units::time::show(time).replace(' ', "")
}

/// A share in short forms: without a space.
pub(super) fn share(share: f64) -> String {
    units::share::show(share).replace(' ', "")
}

/// The last part in order of most forms.
pub(super) fn warm(f: &mut fmt::Formatter<'_>, warm: bool) -> fmt::Result {
    f.write_str(if warm { ":warm" } else { "" })
}

/// A named setting, unless it has its default value.
pub(super) fn named<T: PartialEq>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: T,
    default: T,
    show: impl FnOnce(T) -> String,
) -> fmt::Result {
    if value == default {
        return Ok(());
    }
    write!(f, ":{name}={}", show(value))
}
