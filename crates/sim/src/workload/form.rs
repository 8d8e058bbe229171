//! The short forms of workloads, "file:2MB": takes them apart and names what is wrong; what the parts mean is each workload's business.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::WorkloadError;
use crate::units::{self, UnitError};

/// The parts of a short form behind its kind.
pub(super) struct Parts<'a> {
    whole: &'a str,
    rest: Vec<&'a str>,
    form: &'static str,
}

impl<'a> Parts<'a> {
    /// Splits a form into its kind and the rest.
    pub(super) fn new(whole: &'a str) -> (&'a str, Self) {
        let mut rest: Vec<_> = whole.trim().split(':').map(str::trim).collect();
        let kind = rest.remove(0);
        let parts = Self {
            whole,
            rest,
            form: "",
        };
        (kind, parts)
    }

    /// What a right form looks like, for the messages.
    pub(super) fn form(&mut self, form: &'static str) {
        self.form = form;
    }

    /// The next part, if there is one.
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

    pub(super) fn time(&mut self, part: &'static str) -> Result<Duration, WorkloadError> {
        let text = self.required(part)?;
        self.unit(units::time::parse(text))
    }

    /// The next part, if there is one, as a time.
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

    /// A number behind this character.
    pub(super) fn prefixed_number<T: FromStr>(
        &mut self,
        prefix: char,
        part: &'static str,
    ) -> Result<T, WorkloadError> {
        let text = self.required(part)?;
        self.parse_number(part, text.strip_prefix(prefix).unwrap_or(text))
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

    pub(super) fn next_starts_with(&self, first: char) -> bool {
        self.rest
            .first()
            .is_some_and(|part| part.starts_with(first))
    }

    /// Whether this word is the next part; takes it then.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let found = self.next_is(word);
        if found {
            self.rest.remove(0);
        }
        found
    }

    /// Everything must have been taken.
    pub(super) fn end(mut self) -> Result<(), WorkloadError> {
        match self.next() {
            None => Ok(()),
            Some(part) => Err(WorkloadError::Surplus {
                workload: self.whole.to_owned(),
                part: part.to_owned(),
                form: self.form,
            }),
        }
    }
}

/// A size as short forms have it: without a space.
pub(super) fn size(bytes: u64) -> String {
    units::size::show(bytes).replace(' ', "")
}

/// A rate as short forms have it: without a space.
pub(super) fn rate(bits: u64) -> String {
    units::rate::show(bits).replace(' ', "")
}

/// A time as short forms have it: without a space.
pub(super) fn time(time: Duration) -> String {
    units::time::show(time).replace(' ', "")
}

/// The last part of most forms.
pub(super) fn warm(f: &mut fmt::Formatter<'_>, warm: bool) -> fmt::Result {
    f.write_str(if warm { ":warm" } else { "" })
}
