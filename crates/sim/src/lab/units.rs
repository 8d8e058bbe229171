//! Quantities as people write them, "50Mbit", "20ms", "1.5%", "2MB"; knows units, not what is measured.

use std::time::Duration;

/// Units of one dimension and what they are worth in its base unit.
pub(crate) type Units = &'static [(&'static str, f64)];

/// Base unit: bit/s.
pub(crate) const RATE: Units = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("Mbit", 1e6),
    ("Gbit", 1e9),
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
];

/// Base unit: second.
pub(crate) const TIME: Units = &[
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
];

/// Base unit: 1 %.
pub(crate) const PERCENT: Units = &[("%", 1.0)];

/// Base unit: byte.
pub(crate) const SIZE: Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Base unit: packet.
pub(crate) const PACKETS: Units = &[("packets", 1.0), ("packet", 1.0)];

/// A number and its unit, in the base unit.
///
/// # Errors
///
/// What is wrong with it, with the units that it could have.
pub(crate) fn quantity(text: &str, units: Units) -> Result<f64, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let known = || units.iter().map(|unit| unit.0).collect::<Vec<_>>().join(", ");
    let Ok(number) = number.replace('_', "").parse::<f64>() else {
        return Err(format!("`{text}` does not begin with a number"));
    };
    match units.iter().find(|known| known.0 == unit) {
        Some((_, worth)) => Ok(number * worth),
        None if unit.is_empty() => Err(format!("`{text}` has no unit, one of {}", known())),
        None => Err(format!("unknown unit `{unit}`, not one of {}", known())),
    }
}

/// Seconds as a duration, to the nanosecond.
pub(crate) fn seconds(seconds: f64) -> Duration {
    // The cast saturates.
    Duration::from_nanos((seconds * 1e9).round() as u64)
}

/// A rate for people: "50 Mbit/s".
pub(crate) fn show_rate(bits_per_second: u64) -> String {
    let rate = bits_per_second as f64;
    let (worth, unit) = match bits_per_second {
        0..1_000 => (1.0, "bit/s"),
        1_000..1_000_000 => (1e3, "kbit/s"),
        1_000_000..1_000_000_000 => (1e6, "Mbit/s"),
        _ => (1e9, "Gbit/s"),
    };
    format!("{} {unit}", significant(rate / worth, 4))
}

/// A time for people: "20 ms".
pub(crate) fn show_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 1.0 {
        format!("{} s", significant(seconds, 4))
    } else {
        format!("{} ms", significant(seconds * 1e3, 4))
    }
}

/// A number with so many significant digits and no zeros behind.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits - 1 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_their_base_unit() {
        for (text, units, expected) in [
            ("50Mbit", RATE, 5e7),
            ("1.5 kbit/s", RATE, 1500.0),
            ("20ms", TIME, 0.02),
            ("2 min", TIME, 120.0),
            ("1.5%", PERCENT, 1.5),
            ("2MB", SIZE, 2e6),
            ("64KiB", SIZE, 65_536.0),
            ("1_000B", SIZE, 1000.0),
            ("100 packets", PACKETS, 100.0),
        ] {
            assert_eq!(quantity(text, units), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_name_the_units_that_would_do() {
        assert_eq!(
            quantity("3 parsec", TIME).unwrap_err(),
            "unknown unit `parsec`, not one of us, ms, s, min, h"
        );
        assert_eq!(
            quantity("3", PERCENT).unwrap_err(),
            "`3` has no unit, one of %"
        );
        assert_eq!(
            quantity("fast", RATE).unwrap_err(),
            "`fast` does not begin with a number"
        );
    }

    #[test]
    fn numbers_are_shown_short() {
        for (value, digits, expected) in [
            (0.0, 3, "0"),
            (1.0, 3, "1"),
            (1.2345, 3, "1.23"),
            (0.000_123_45, 3, "0.000123"),
            (123_456.0, 3, "123456"),
            (-2.5, 2, "-2.5"),
        ] {
            assert_eq!(significant(value, digits), expected);
        }
        assert_eq!(show_rate(2_500_000), "2.5 Mbit/s");
        assert_eq!(show_time(Duration::from_micros(3500)), "3.5 ms");
        assert_eq!(show_time(Duration::from_secs(60)), "60 s");
    }
}
