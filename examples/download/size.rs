//! Parses sizes such as "64 MiB".

use std::str::FromStr;

use thiserror::Error;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// Why a size could not be parsed.
#[derive(Debug, Error)]
pub(crate) enum SizeError {
    #[error("not a number of bytes, with or without a unit (B, kB, KiB, MB, MiB, GB, GiB)")]
    Malformed,
    #[error("more bytes than can be counted")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "kib" => 1 << 10,
            "mb" => 1_000_000,
            "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "gib" => 1 << 30,
            _ => return Err(SizeError::Malformed),
        };
        if number.is_empty() {
            return Err(SizeError::Malformed);
        }
        let number: u64 = number.parse().map_err(|_| SizeError::TooLarge)?;
        let bytes = number.checked_mul(factor).ok_or(SizeError::TooLarge)?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1200", 1200),
            ("7B", 7),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("5kB", 5_000),
            ("5KiB", 5 << 10),
            ("1GB", 1_000_000_000),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(text.parse::<Size>().unwrap(), Size(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "1 2", "1TiB", "1MiBMiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        for text in ["99999999999999999999", "99999999999GiB"] {
            assert!(matches!(text.parse::<Size>(), Err(SizeError::TooLarge)));
        }
    }
}
