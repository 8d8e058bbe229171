//! Rates as users write them, and what keeps to them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What may pass at once after a pause, of the time that it takes at the rate.
const BURST: Duration = Duration::from_millis(100);

/// A rate of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    bytes_per_second: u64,
}

impl Rate {
    /// So many bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.bytes_per_second
    }

    fn time_of(self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    /// A number with a unit per second: `bit`, `kbit`, `Mbit`, `Gbit`, `B`, `kB`, `MB` or `GB`; `10Mbit`, `2.5 MB/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no rate: a number and bit, kbit, Mbit, Gbit, B, kB, MB or GB are expected, as in 10Mbit"
            )
        };
        let digits = text.find(|symbol: char| !symbol.is_ascii_digit() && symbol != '.');
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let unit = unit.trim();
        let unit = unit
            .strip_suffix("/s")
            .or_else(|| unit.strip_suffix("ps"))
            .unwrap_or(unit);
        let bytes = match unit.strip_suffix("bit") {
            Some(prefix) => factor(prefix).ok_or_else(wanted)? / 8.0,
            None => factor(unit.strip_suffix('B').ok_or_else(wanted)?).ok_or_else(wanted)?,
        };
        let number: f64 = number.parse().map_err(|_| wanted())?;
        let bytes_per_second = number * bytes;
        // Slower than a byte in a second is nothing, and faster than 1 TB is no limit.
        if !(1.0..=1e12).contains(&bytes_per_second) {
            return Err(format!("{text:?} is no rate between 8bit and 1000GB"));
        }
        Ok(Self {
            bytes_per_second: bytes_per_second as u64,
        })
    }
}

fn factor(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    })
}

/// Keeps what passes to a rate, over all that share it (the virtual scheduling of ITU-T I.371).
#[derive(Debug)]
pub struct Throttle(Mutex<Paced>);

#[derive(Debug)]
struct Paced {
    rate: Option<Rate>,
    /// When all that has passed would have passed at the rate.
    due: Instant,
}

impl Throttle {
    /// With a rate, or none.
    pub fn new(rate: Option<Rate>) -> Self {
        Self(Mutex::new(Paced {
            rate,
            due: Instant::now(),
        }))
    }

    /// Another rate, from now on.
    pub fn set(&self, rate: Option<Rate>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rate = rate;
    }

    /// Waits after so many bytes have passed until more may.
    pub async fn passed(&self, bytes: usize) {
        if let Some(until) = self.note(bytes, Instant::now()) {
            sleep_until(until).await;
        }
    }

    /// Whether so many bytes may pass now; counts them if so. For what is dropped rather than held up.
    pub fn takes(&self, bytes: usize) -> bool {
        let now = Instant::now();
        let mut paced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rate) = paced.rate else { return true };
        if paced.due > now + BURST {
            return false;
        }
        paced.due = paced.due.max(now) + rate.time_of(bytes);
        true
    }

    fn note(&self, bytes: usize, now: Instant) -> Option<Instant> {
        let mut paced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = paced.rate?;
        paced.due = paced.due.max(now) + rate.time_of(bytes);
        let until = paced.due - BURST;
        (until > now).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_as_they_are_written() {
        for (text, bytes) in [
            ("10Mbit", 1_250_000),
            ("10 Mbit/s", 1_250_000),
            ("2.5MB", 2_500_000),
            ("64kbit", 8_000),
            ("1Gbit", 125_000_000),
            ("100B/s", 100),
        ] {
            assert_eq!(
                text.parse::<Rate>().unwrap().bytes_per_second(),
                bytes,
                "{text}"
            );
        }
        for text in [
            "",
            "10",
            "Mbit",
            "10mbit",
            "-1MB",
            "0B",
            "1e9GB",
            "2000GB",
            "10 Mbit x",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_keeps_to_the_rate() {
        let throttle = Throttle::new(Some("1MB".parse().unwrap()));
        let begun = Instant::now();
        for _ in 0..100 {
            throttle.passed(20_000).await;
        }
        let took = begun.elapsed().as_secs_f64();
        assert!((1.89..=1.91).contains(&took), "{took}");
        let passed = (0..100).filter(|_| throttle.takes(20_000)).count();
        assert!(passed <= 1, "{passed}");
        throttle.set(None);
        throttle.passed(1 << 30).await;
        assert!(throttle.takes(1 << 30));
        assert_eq!(begun.elapsed().as_secs_f64(), took);
    }
}
