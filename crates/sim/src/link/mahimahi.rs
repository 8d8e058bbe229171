//! Mahimahi packet-delivery traces: the file format, and when a packet is delivered.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::file;

/// The bytes of one delivery opportunity.
pub(super) const OPPORTUNITY: u64 = 1500;
/// The latest timestamp: 24 days. This keeps the nanoseconds of many rounds within a u64.
const MAX_MILLIS: u64 = 1 << 31;
/// The most distinct timestamps, which take 64 MiB of memory.
const MAX_RUNS: usize = 8 << 20;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// When a link delivers packets, in the format of Mahimahi (Netravali et al., USENIX ATC 2015,
/// section 3). Each line is an opportunity to deliver 1500 bytes. It has the time in whole
/// milliseconds since the start. Times do not decrease, and several lines may have the same time.
/// After the last line, the trace starts again.
///
/// As in Mahimahi's link shell, packets share an opportunity, and a packet may need several. An
/// opportunity is lost if no packet waits when it comes. The link's
/// [`overhead`](super::LinkConfig::overhead) counts.
///
/// Settings in files have a list of times, `trace = [0, 5, 5, 12]`, or name a Mahimahi file with
/// [`LinkConfig::trace_file`](super::LinkConfig::trace_file). Clones share their memory, which
/// grows with the number of distinct times.
///
/// ```
/// use mpquic_sim::MahimahiTrace;
///
/// let trace: MahimahiTrace = "0\n5\n5\n12\n".parse()?;
/// assert_eq!(trace.mean_rate(), 4 * 1500 * 8 * 1000 / 12); // bit/s
/// # Ok::<(), mpquic_sim::TraceError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct MahimahiTrace {
    runs: Arc<[Run]>,
    opportunities: u64,
}

/// The opportunities within one millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    millis: u32,
    count: u32,
}

/// Why a trace is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read.
    #[error("trace file {path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// What is wrong with the file, or the system's error message.
        message: String,
    },
    /// A line is not a number of milliseconds.
    #[error("trace line {line}: `{text}` is not a whole number of milliseconds")]
    NotANumber {
        /// The line number, from 1.
        line: usize,
        /// The line, or the start of it.
        text: String,
    },
    /// A time is earlier than the one before it.
    #[error(
        "trace line {line}: {millis} ms comes after {before} ms, expected times that never fall"
    )]
    Backwards {
        /// The line number, from 1.
        line: usize,
        /// The time.
        millis: u64,
        /// The time before it.
        before: u64,
    },
    /// A time is too large.
    #[error("trace line {line}: {millis} ms, expected at most {MAX_MILLIS} ms")]
    TooLate {
        /// The line number, from 1.
        line: usize,
        /// The time.
        millis: u64,
    },
    /// There are too many distinct times.
    #[error("trace line {line}: more than {MAX_RUNS} different times")]
    TooLong {
        /// The line number, from 1.
        line: usize,
    },
    /// There is no line, or only the time 0. A round would take no time.
    #[error("a trace needs a time above 0 ms on its last line")]
    NoTime,
}

impl TraceError {
    /// The error with the file that it is in.
    pub fn in_file(&self, path: &Path) -> String {
        match self {
            Self::Read { .. } => self.to_string(),
            other => format!("trace file {}: {other}", path.display()),
        }
    }
}

/// Reads the times one after the other.
#[derive(Default)]
struct Reader {
    runs: Vec<Run>,
    lines: usize,
}

impl Reader {
    fn push(&mut self, millis: u64) -> Result<(), TraceError> {
        self.lines += 1;
        let line = self.lines;
        if millis > MAX_MILLIS {
            return Err(TraceError::TooLate { line, millis });
        }
        let at = millis as u32;
        let full = self.runs.len() >= MAX_RUNS;
        match self.runs.last_mut() {
            Some(last) if at < last.millis => {
                return Err(TraceError::Backwards {
                    line,
                    millis,
                    before: last.millis.into(),
                });
            }
            // The number of lines limits the count. If the count did saturate, the trace would only
            // be slower than its file.
            Some(last) if at == last.millis => last.count = last.count.saturating_add(1),
            _ if full => return Err(TraceError::TooLong { line }),
            _ => self.runs.push(Run {
                millis: at,
                count: 1,
            }),
        }
        Ok(())
    }

    fn finish(self) -> Result<MahimahiTrace, TraceError> {
        if self.runs.last().is_none_or(|last| last.millis == 0) {
            return Err(TraceError::NoTime);
        }
        Ok(MahimahiTrace {
            opportunities: self.runs.iter().map(|run| u64::from(run.count)).sum(),
            runs: self.runs.into(),
        })
    }
}

impl MahimahiTrace {
    /// Reads a Mahimahi trace file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no regular file, has more than 1 GB, or is not a trace.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let failed = |error: std::io::Error| TraceError::Read {
            path: path.display().to_string(),
            message: error.to_string(),
        };
        let mut reader = Reader::default();
        for line in file::lines(path, file::TRACE).map_err(failed)? {
            let millis = millis(&line.map_err(failed)?, reader.lines + 1)?;
            reader.push(millis)?;
        }
        reader.finish()
    }

    /// A trace with opportunities at these milliseconds.
    ///
    /// # Errors
    ///
    /// If they do not form a trace. Lines are counted from 1.
    pub fn from_millis(times: impl IntoIterator<Item = u64>) -> Result<Self, TraceError> {
        let mut reader = Reader::default();
        for millis in times {
            reader.push(millis)?;
        }
        reader.finish()
    }

    /// The times of the opportunities of one round, in milliseconds.
    pub fn millis(&self) -> impl Iterator<Item = u64> {
        let runs = self.runs.iter();
        runs.flat_map(|run| (0..run.count).map(|_| u64::from(run.millis)))
    }

    /// The number of opportunities in one round.
    pub const fn opportunities(&self) -> u64 {
        self.opportunities
    }

    /// The duration of one round in milliseconds.
    pub fn period_millis(&self) -> u64 {
        self.runs.last().map_or(0, |last| last.millis.into())
    }

    /// The mean rate in bit/s of a link that always has packets to deliver.
    pub fn mean_rate(&self) -> u64 {
        let bits = u128::from(self.opportunities) * u128::from(OPPORTUNITY) * 8;
        let rate = bits * 1000 / u128::from(self.period_millis().max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

fn millis(text: &str, line: usize) -> Result<u64, TraceError> {
    let text = text.trim();
    text.parse().map_err(|_| TraceError::NotANumber {
        line,
        text: text.chars().take(40).collect(),
    })
}

impl FromStr for MahimahiTrace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut reader = Reader::default();
        for line in text.lines() {
            let millis = millis(line, reader.lines + 1)?;
            reader.push(millis)?;
        }
        reader.finish()
    }
}

/// Short, since a trace has many lines.
impl fmt::Debug for MahimahiTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MahimahiTrace")
            .field("opportunities", &self.opportunities)
            .field("period_millis", &self.period_millis())
            .finish_non_exhaustive()
    }
}

impl Serialize for MahimahiTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = usize::try_from(self.opportunities).ok();
        let mut list = serializer.serialize_seq(len)?;
        for run in self.runs.iter() {
            for _ in 0..run.count {
                list.serialize_element(&run.millis)?;
            }
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for MahimahiTrace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Times;

        impl<'de> Visitor<'de> for Times {
            type Value = MahimahiTrace;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of times in whole milliseconds that never fall")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut times: A) -> Result<Self::Value, A::Error> {
                let mut reader = Reader::default();
                while let Some(millis) = times.next_element()? {
                    reader.push(millis).map_err(A::Error::custom)?;
                }
                reader.finish().map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_seq(Times)
    }
}

/// The current position of a busy link in its trace.
#[derive(Debug)]
pub(super) struct Cursor {
    trace: MahimahiTrace,
    /// The run of the next unused opportunity, and how many opportunities of it are used.
    index: usize,
    used: u32,
    /// When the current round started, in ns.
    base: u64,
    /// Bytes left in the last opportunity, for packets that wait at that time.
    left: u64,
}

impl Cursor {
    pub(super) const fn new(trace: MahimahiTrace) -> Self {
        Self {
            trace,
            index: 0,
            used: 0,
            base: 0,
            left: 0,
        }
    }

    /// Drops the opportunities up to `now` (ns), since the link was idle.
    pub(super) fn seek(&mut self, now: u64) {
        let period = self.trace.period_millis() * NANOS_PER_MILLI;
        // `Reader` rejects a period of 0. If it did not, this division still must not panic.
        self.base = now - now % period.max(1);
        let offset = now - self.base;
        // The time of the last run is the period, which is above every offset.
        self.index = self
            .trace
            .runs
            .partition_point(|run| u64::from(run.millis) * NANOS_PER_MILLI <= offset);
        self.used = 0;
        self.left = 0;
    }

    /// When (ns) a packet of this size is delivered that has been at the front since `now`.
    pub(super) fn serve(&mut self, now: u64, bytes: u64) -> u64 {
        if bytes <= self.left {
            self.left -= bytes;
            return now;
        }
        let mut bytes = bytes - self.left;
        loop {
            let Some(run) = self.trace.runs.get(self.index) else {
                self.base = self
                    .base
                    .saturating_add(self.trace.period_millis() * NANOS_PER_MILLI);
                self.index = 0;
                continue;
            };
            let unused = run.count - self.used;
            let wanted = bytes.div_ceil(OPPORTUNITY);
            if wanted <= u64::from(unused) {
                let at = u64::from(run.millis) * NANOS_PER_MILLI;
                self.used += wanted as u32;
                self.left = wanted * OPPORTUNITY - bytes;
                if self.used == run.count {
                    self.index += 1;
                    self.used = 0;
                }
                return self.base.saturating_add(at);
            }
            bytes -= u64::from(unused) * OPPORTUNITY;
            self.index += 1;
            self.used = 0;
        }
    }
}
