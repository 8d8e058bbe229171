//! What the run says, for people and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::traffic::Tally;

/// Bytes per page of `/proc/self/statm`.
const PAGE: u64 = 4096;
/// Memory is told after each of so many equal parts of the run.
const PARTS: usize = 4;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    connections: usize,
    seconds: f64,
    /// Paths that failed.
    failures: usize,
    requests: u64,
    mbit_per_s: f64,
    /// Requests of the slowest, the median and the fastest connection.
    slowest: u64,
    median: u64,
    fastest: u64,
    /// Milliseconds of the longest request of the median connection, and of all.
    longest_median_ms: u64,
    longest_ms: u64,
    /// Resident bytes after each quarter of the run, where the system tells. Buffers become resident as they are
    /// first used to their end, so the first quarters are the warm-up.
    memory: Vec<u64>,
    pub(crate) errors: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        size: usize,
        elapsed: Duration,
        failures: usize,
        memory: Vec<Option<u64>>,
        tallies: Vec<Tally>,
    ) -> Self {
        let mut requests: Vec<_> = tallies.iter().map(|tally| tally.requests).collect();
        requests.sort_unstable();
        let mut longest: Vec<_> = tallies.iter().map(|tally| tally.longest).collect();
        longest.sort_unstable();
        let total: u64 = requests.iter().sum();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            connections: tallies.len(),
            seconds: elapsed.as_secs_f64(),
            failures,
            requests: total,
            mbit_per_s: total as f64 * size as f64 * 8.0 / 1e6 / elapsed.as_secs_f64(),
            slowest: requests.first().copied().unwrap_or(0),
            median: requests.get(requests.len() / 2).copied().unwrap_or(0),
            fastest: requests.last().copied().unwrap_or(0),
            longest_median_ms: longest.get(longest.len() / 2).map_or(0, |&t| millis(t)),
            longest_ms: longest.last().map_or(0, |&time| millis(time)),
            memory: quarters(&memory),
            errors: tallies
                .into_iter()
                .filter_map(|tally| tally.error)
                .collect(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report of numbers and strings")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} connections x 2 paths, {:.1} s, {} path failures",
            self.connections, self.seconds, self.failures
        )?;
        writeln!(
            f,
            "requests   {} ({:.0} Mbit/s each way); slowest {}, median {}, fastest {}",
            self.requests, self.mbit_per_s, self.slowest, self.median, self.fastest
        )?;
        writeln!(
            f,
            "longest    {} ms (median connection), {} ms (worst)",
            self.longest_median_ms, self.longest_ms
        )?;
        if !self.memory.is_empty() {
            write!(f, "memory    ")?;
            for bytes in &self.memory {
                write!(f, " {:.1}", *bytes as f64 / 1e6)?;
            }
            writeln!(f, " MB after each quarter")?;
        }
        writeln!(f, "errors     {}", self.errors.len())?;
        for error in self.errors.iter().take(10) {
            writeln!(f, "  {error}")?;
        }
        Ok(())
    }
}

/// The last sample of each part of the run.
fn quarters(memory: &[Option<u64>]) -> Vec<u64> {
    let ends = (1..=PARTS).map(|part| (memory.len() * part / PARTS).checked_sub(1));
    ends.filter_map(|end| memory.get(end?).copied().flatten())
        .collect()
}

/// Resident bytes of this process, where the system tells.
pub(crate) fn resident_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}
