//! What the run says, for people and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::heap::Held;
use crate::traffic::Tally;

/// Bytes per page of `/proc/self/statm`.
const PAGE: u64 = 4096;
/// Memory is told after each of so many equal parts of the run.
const PARTS: usize = 4;
/// So many sizes of blocks are told of which there are more at the end.
const SIZES: usize = 5;

/// What the process holds at a moment.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where the system tells.
    resident: Option<u64>,
    allocated: Held,
}

impl Memory {
    pub(crate) fn now(allocated: Held) -> Self {
        Self {
            resident: resident_memory(),
            allocated,
        }
    }
}

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
    /// Bytes allocated and not freed, at the same times: what is more in `memory` is the allocator's.
    allocated: Vec<i64>,
    /// Sizes of blocks of which there are more at the end than after the first quarter, most bytes first, and how many more.
    grown: Vec<(usize, i64)>,
    pub(crate) errors: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        size: usize,
        elapsed: Duration,
        failures: usize,
        memory: Vec<Memory>,
        tallies: Vec<Tally>,
    ) -> Self {
        let mut requests: Vec<_> = tallies.iter().map(|tally| tally.requests).collect();
        requests.sort_unstable();
        let mut longest: Vec<_> = tallies.iter().map(|tally| tally.longest).collect();
        longest.sort_unstable();
        let total: u64 = requests.iter().sum();
        let quarters = quarters(&memory);
        let grown = match &quarters[..] {
            [first, .., last] => last.allocated.more_than(&first.allocated),
            _ => Vec::new(),
        };
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
            memory: quarters.iter().filter_map(|m| m.resident).collect(),
            allocated: quarters.iter().map(|m| m.allocated.bytes).collect(),
            grown: grown.into_iter().take(SIZES).collect(),
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
        for (name, values) in [
            (
                "memory    ",
                self.memory.iter().map(|b| *b as f64).collect::<Vec<_>>(),
            ),
            (
                "allocated ",
                self.allocated.iter().map(|b| *b as f64).collect(),
            ),
        ] {
            if values.is_empty() {
                continue;
            }
            write!(f, "{name}")?;
            for bytes in values {
                write!(f, " {:.1}", bytes / 1e6)?;
            }
            writeln!(f, " MB after each quarter")?;
        }
        for (size, more) in &self.grown {
            writeln!(f, "  more     {more} blocks of up to {size} bytes")?;
        }
        writeln!(f, "errors     {}", self.errors.len())?;
        for error in self.errors.iter().take(10) {
            writeln!(f, "  {error}")?;
        }
        Ok(())
    }
}

/// The last sample of each part of the run.
fn quarters(memory: &[Memory]) -> Vec<&Memory> {
    let ends = (1..=PARTS).map(|part| (memory.len() * part / PARTS).checked_sub(1));
    ends.filter_map(|end| memory.get(end?)).collect()
}

/// Resident bytes of this process, where the system tells.
fn resident_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}
