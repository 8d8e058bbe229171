//! Durations in files as milliseconds with a fraction, the unit of the papers' tables.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(time.as_nanos() as f64 / 1e6)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    duration(f64::deserialize(d)?)
}

fn duration<E: Error>(millis: f64) -> Result<Duration, E> {
    // 1e12 ms are 1e18 ns, which fit in a u64.
    if !(0.0..=1e12).contains(&millis) {
        return Err(E::custom(format_args!(
            "{millis} is not a time: expected milliseconds from 0 to 1e12"
        )));
    }
    Ok(Duration::from_nanos((millis * 1e6).round() as u64))
}

/// The same for an optional time.
pub(super) mod option {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, s),
            None => s.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(d)?.map(duration).transpose()
    }
}
