//! Parses and formats sizes, rates, times and shares, such as "2 MB", "50 Mbit/s", "20 ms" and "8 %".
//!
//! A number without a unit is an error, because readers would disagree about its meaning. The
//! exception is 0. If there is an agreed default unit, use `parse_or`. For files, use the modules
//! with `#[serde(with = "...")]`:
//!
//! ```
//! use std::time::Duration;
//! use mpquic_sim::units::{rate, share, size, time};
//!
//! assert_eq!(size::parse("2 MB"), Ok(2_000_000));
//! assert_eq!(rate::parse("50Mbit/s"), Ok(50_000_000));
//! assert_eq!(time::parse_or("2.5", "ms"), Ok(Duration::from_micros(2500)));
//! assert_eq!(share::parse("8 %"), Ok(0.08));
//! assert_eq!(
//!     size::parse("2 XB").unwrap_err().to_string(),
//!     "size \"2 XB\": unknown unit \"XB\", expected B, kB, MB, GB, KiB, MiB or GiB"
//! );
//! ```

use thiserror::Error;

/// A unit and its size in base units.
type Unit = (&'static str, f64);

/// The largest number of base units, 2^50. Up to here, rounding restores every integer. This is a
/// petabyte, a petabit per second, or thirteen days.
const MAX: f64 = 1_125_899_906_842_624.0;

/// Why a quantity could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{quantity} \"{value}\": {problem}, expected {expected}")]
#[non_exhaustive]
pub struct UnitError {
    /// "size", "rate", "time" or "share".
    pub quantity: &'static str,
    /// The text.
    pub value: String,
    /// What is wrong with the text.
    pub problem: UnitProblem,
    /// What a valid text looks like.
    pub expected: &'static str,
}

/// What is wrong with a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitProblem {
    /// The text is empty.
    #[error("nothing there")]
    Empty,
    /// The text does not start with a number.
    #[error("not a number")]
    NotANumber,
    /// The number has no unit.
    #[error("no unit")]
    NoUnit,
    /// The unit does not belong to this quantity.
    #[error("unknown unit \"{0}\"")]
    UnknownUnit(String),
    /// The number is negative.
    #[error("negative")]
    Negative,
    /// The number is too large to represent.
    #[error("too large")]
    TooLarge,
}

/// The definition of one quantity.
struct Quantity {
    name: &'static str,
    units: &'static [Unit],
    expected: &'static str,
}

impl Quantity {
    /// Returns base units. The caller rounds.
    fn parse(&self, text: &str, default: Option<&str>) -> Result<f64, UnitError> {
        let fail = |problem| UnitError {
            quantity: self.name,
            value: text.to_owned(),
            problem,
            expected: self.expected,
        };
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(fail(UnitProblem::Empty));
        }
        let end = trimmed
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let number: f64 = number
            .replace('_', "")
            .parse()
            .map_err(|_| fail(UnitProblem::NotANumber))?;
        let unit = match (unit.trim_start(), default) {
            // Zero is the same in all units.
            ("", None) if number == 0.0 => return Ok(0.0),
            ("", None) => return Err(fail(UnitProblem::NoUnit)),
            ("", Some(default)) => default,
            (unit, _) => unit,
        };
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(fail(UnitProblem::UnknownUnit(unit.to_owned())));
        };
        let value = number * factor;
        if value < 0.0 {
            return Err(fail(UnitProblem::Negative));
        }
        if value > MAX {
            return Err(fail(UnitProblem::TooLarge));
        }
        Ok(value)
    }
}

/// Uses the largest unit in which the value has at most three decimals, so that the text is exact.
fn show(value: u64, units: &[(&str, u64)]) -> String {
    for &(name, unit) in units {
        let thousandths = u128::from(value) * 1000;
        if value < unit || thousandths % u128::from(unit) != 0 {
            continue;
        }
        let thousandths = thousandths / u128::from(unit);
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        if rest == 0 {
            return format!("{whole} {name}");
        }
        let digits = format!("{rest:03}");
        return format!("{whole}.{} {name}", digits.trim_end_matches('0'));
    }
    // No unit is small enough: the value is zero.
    units
        .last()
        .map_or_else(String::new, |(name, _)| format!("{value} {name}"))
}

macro_rules! quantity {
    (
        $(#[$doc:meta])* $module:ident: $type:ty, $quantity:ident, $from:expr, $show:expr
    ) => {
        $(#[$doc])*
        pub mod $module {
            use serde::de::{Error as _, Unexpected, Visitor};
            use serde::{Deserializer, Serializer};

            use super::{$quantity, UnitError};

            /// Parses a number with a unit.
            ///
            /// # Errors
            ///
            /// What is wrong, and what a valid text looks like.
            pub fn parse(text: &str) -> Result<$type, UnitError> {
                $quantity.parse(text, None).map($from)
            }

            /// Parses a number with a unit. A number without a unit has this one.
            ///
            /// # Errors
            ///
            /// What is wrong, and what a valid text looks like.
            pub fn parse_or(text: &str, unit: &str) -> Result<$type, UnitError> {
                $quantity.parse(text, Some(unit)).map($from)
            }

            /// Formats the value exactly, in the form that [`parse`] reads.
            pub fn show(value: $type) -> String {
                let show: fn($type) -> String = $show;
                show(value)
            }

            /// For `#[serde(with = "...")]`.
            ///
            /// # Errors
            ///
            /// The error of the serializer.
            pub fn serialize<S: Serializer>(value: &$type, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&show(*value))
            }

            /// For `#[serde(with = "...")]`.
            ///
            /// # Errors
            ///
            /// See [`parse`].
            pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "a {} with its unit in quotes: {}", $quantity.name, $quantity.expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        parse(text).map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<$type, E> {
                        if value == 0 {
                            return Ok($from(0.0));
                        }
                        Err(E::invalid_type(Unexpected::Unsigned(value), &self))
                    }

                    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<$type, E> {
                        if value == 0 {
                            return Ok($from(0.0));
                        }
                        Err(E::invalid_type(Unexpected::Signed(value), &self))
                    }
                }
                d.deserialize_any(Text)
            }

            /// The same for an `Option`, with `default` and `skip_serializing_if =
            /// "Option::is_none"`. A key that is present must have a value.
            pub mod optional {
                use super::{Deserializer, Serializer};

                /// For `#[serde(with = "...")]`.
                ///
                /// # Errors
                ///
                /// The error of the serializer.
                pub fn serialize<S: Serializer>(
                    value: &Option<$type>,
                    s: S,
                ) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => super::serialize(value, s),
                        None => s.serialize_none(),
                    }
                }

                /// For `#[serde(with = "...")]`.
                ///
                /// # Errors
                ///
                /// See [`parse`](super::parse).
                pub fn deserialize<'de, D: Deserializer<'de>>(
                    d: D,
                ) -> Result<Option<$type>, D::Error> {
                    super::deserialize(d).map(Some)
                }
            }

            /// The same for a list.
            pub mod list {
                use serde::Deserialize;
                use serde::ser::SerializeSeq;

                use super::{Deserializer, Serializer, parse, show};

                /// For `#[serde(with = "...")]`.
                ///
                /// # Errors
                ///
                /// The error of the serializer.
                pub fn serialize<S: Serializer>(
                    values: &[$type],
                    s: S,
                ) -> Result<S::Ok, S::Error> {
                    let mut list = s.serialize_seq(Some(values.len()))?;
                    for value in values {
                        list.serialize_element(&show(*value))?;
                    }
                    list.end()
                }

                /// For `#[serde(with = "...")]`.
                ///
                /// # Errors
                ///
                /// See [`parse`](super::parse).
                pub fn deserialize<'de, D: Deserializer<'de>>(
                    d: D,
                ) -> Result<Vec<$type>, D::Error> {
                    Vec::<String>::deserialize(d)?
                        .iter()
                        .map(|text| parse(text).map_err(super::custom::<D>))
                        .collect()
                }
            }

            fn custom<'de, D: Deserializer<'de>>(error: UnitError) -> D::Error {
                D::Error::custom(error)
            }
        }
    };
}

const SIZE: Quantity = Quantity {
    name: "size",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    expected: "B, kB, MB, GB, KiB, MiB or GiB",
};

const RATE: Quantity = Quantity {
    name: "rate",
    units: &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("bps", 1.0),
        ("kbps", 1e3),
        ("Mbps", 1e6),
        ("Gbps", 1e9),
        ("bit", 1.0),
        ("kbit", 1e3),
        ("Mbit", 1e6),
        ("Gbit", 1e9),
    ],
    expected: "bit/s, kbit/s, Mbit/s or Gbit/s",
};

const TIME: Quantity = Quantity {
    name: "time",
    units: &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
    ],
    expected: "ns, us, ms, s, min or h",
};

const SHARE: Quantity = Quantity {
    name: "share",
    units: &[("%", 1.0)],
    expected: "a percentage such as \"8 %\"",
};

quantity! {
    /// Sizes in bytes.
    size: u64, SIZE, |bytes: f64| bytes.round() as u64, |bytes| {
        super::show(bytes, &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)])
    }
}

quantity! {
    /// Rates in bits per second.
    rate: u64, RATE, |bits: f64| bits.round() as u64, |bits| {
        super::show(
            bits,
            &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)],
        )
    }
}

quantity! {
    /// Durations.
    time: std::time::Duration, TIME, |nanos: f64| std::time::Duration::from_nanos(nanos.round() as u64), |time| {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        super::show(nanos, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
    }
}

quantity! {
    /// Shares as fractions: "8 %" is 0.08. They may exceed 100 %.
    share: f64, SHARE, |percent: f64| percent / 100.0, |share| {
        // Twelve digits are enough for every input, and hide the rounding of the multiplication.
        let percent = (share * 100.0 * 1e10).round() / 1e10;
        format!("{percent} %")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[test]
    fn units_are_read_with_and_without_spaces() {
        for (text, bytes) in [
            ("2 MB", 2_000_000),
            ("2MB", 2_000_000),
            (" 1.5 kB ", 1500),
            ("50 KB", 50_000),
            ("1 MiB", 1 << 20),
            ("1_000 B", 1000),
            ("0", 0),
        ] {
            assert_eq!(size::parse(text), Ok(bytes), "{text}");
        }
        assert_eq!(rate::parse("0.5 Gbit/s"), Ok(500_000_000));
        assert_eq!(rate::parse("2Mbit"), Ok(2_000_000));
        assert_eq!(rate::parse_or("50", "Mbit/s"), Ok(50_000_000));
        assert_eq!(rate::parse_or("50 kbit/s", "Mbit/s"), Ok(50_000));
        assert_eq!(time::parse("33 ms"), Ok(Duration::from_millis(33)));
        assert_eq!(time::parse("2 min"), Ok(Duration::from_secs(120)));
        assert_eq!(time::parse("12.5 µs"), Ok(Duration::from_nanos(12_500)));
        assert_eq!(share::parse("1.5%"), Ok(0.015));
    }

    #[test]
    fn errors_say_value_problem_and_expectation() {
        for (error, message) in [
            (
                size::parse("").unwrap_err(),
                "size \"\": nothing there, expected B, kB, MB, GB, KiB, MiB or GiB",
            ),
            (
                rate::parse("-5 Mbit/s").unwrap_err(),
                "rate \"-5 Mbit/s\": negative, expected bit/s, kbit/s, Mbit/s or Gbit/s",
            ),
            (
                rate::parse("5 MB/s").unwrap_err(),
                "rate \"5 MB/s\": unknown unit \"MB/s\", expected bit/s, kbit/s, Mbit/s or Gbit/s",
            ),
            (
                time::parse("20").unwrap_err(),
                "time \"20\": no unit, expected ns, us, ms, s, min or h",
            ),
            (
                time::parse("soon").unwrap_err(),
                "time \"soon\": not a number, expected ns, us, ms, s, min or h",
            ),
            (
                size::parse("1.2.3 MB").unwrap_err(),
                "size \"1.2.3 MB\": not a number, expected B, kB, MB, GB, KiB, MiB or GiB",
            ),
            (
                size::parse("99999999999 GB").unwrap_err(),
                "size \"99999999999 GB\": too large, expected B, kB, MB, GB, KiB, MiB or GiB",
            ),
            (
                share::parse("8").unwrap_err(),
                "share \"8\": no unit, expected a percentage such as \"8 %\"",
            ),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn what_is_shown_is_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1500, "1.5 kB"),
            (2_000_000, "2 MB"),
            (2_000_001, "2000.001 kB"),
            (1_234_567, "1234.567 kB"),
        ] {
            assert_eq!(size::show(bytes), text);
        }
        assert_eq!(time::show(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(time::show(Duration::from_nanos(1)), "1 ns");
        assert_eq!(rate::show(2_500_000), "2.5 Mbit/s");
        assert_eq!(share::show(0.07), "7 %");
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Filed {
        #[serde(with = "rate")]
        rate: u64,
        #[serde(default, with = "time::optional")]
        after: Option<Duration>,
        #[serde(default, with = "rate::list")]
        rates: Vec<u64>,
    }

    #[test]
    fn files_hold_strings_with_units() {
        let text = r#"{"rate":"5 Mbit/s","after":"2 s","rates":["1 Mbit/s"]}"#;
        let filed: Filed = serde_json::from_str(text).unwrap();
        assert_eq!(filed.after, Some(Duration::from_secs(2)));
        assert_eq!(serde_json::to_string(&filed).unwrap(), text);
        let bare: Filed = serde_json::from_str(r#"{"rate":0}"#).unwrap();
        assert_eq!((bare.rate, bare.after), (0, None));
        let error = serde_json::from_str::<Filed>(r#"{"rate":5}"#).unwrap_err();
        let expected = "invalid type: integer `5`, expected a rate with its unit in quotes: \
                        bit/s, kbit/s, Mbit/s or Gbit/s";
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = serde_json::from_str::<Filed>(r#"{"rate":"1 s"}"#).unwrap_err();
        assert!(error.to_string().contains("unknown unit \"s\""), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(value in 0_u64..1 << 50) {
            prop_assert_eq!(size::parse(&size::show(value)), Ok(value));
            prop_assert_eq!(rate::parse(&rate::show(value)), Ok(value));
            let span = Duration::from_nanos(value);
            prop_assert_eq!(time::parse(&time::show(span)), Ok(span));
        }

        #[test]
        fn shares_are_read_back(hundredths in 0_u32..20_000) {
            let value = f64::from(hundredths) / 100.0 / 100.0;
            prop_assert_eq!(share::parse(&share::show(value)), Ok(value));
        }
    }
}
