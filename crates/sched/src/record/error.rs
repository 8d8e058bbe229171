//! Why a recording could not be made or read, in words that help.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why nothing is recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A setting is out of its range.
    #[error("the recorder's `{field}`: expected {expected}, got {found}")]
    Setting {
        /// Which setting.
        field: &'static str,
        /// Its range.
        expected: String,
        /// What it was.
        found: u64,
    },
    /// There is something of this name that no recorder has written; it is left as it is.
    #[error("{} is in the way: {problem}; name another file for the recording", path.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// What it is.
        problem: &'static str,
    },
    /// Another recorder writes to the file, in this process or another one.
    #[error("another recorder is writing to {}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be made or written. What was recorded before is there still.
    #[error("cannot write the recording {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system gave us no thread to write with.
    #[error("no thread to write the recording with: {0}")]
    Thread(io::Error),
    /// What a scheduler wants recorded does not fit.
    #[error("scheduler `{scheduler}` cannot be recorded: {problem}")]
    Schema {
        /// The scheduler.
        scheduler: String,
        /// What was expected, and what was found.
        problem: String,
    },
}

/// Why a recording cannot be read.
///
/// A file that breaks off is no error: see [`Damage`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is not there, cannot be read, or is no regular file.
    #[error("cannot read the recording {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than any that a recorder writes.
    #[error("a recording of {found} bytes is refused: expected at most {limit}")]
    TooLarge {
        /// Its size, bytes.
        found: u64,
        /// The most that is read, bytes.
        limit: u64,
    },
    /// The file does not begin as recordings do.
    #[error("not a recording: {problem}")]
    Foreign {
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file has another format version, that of an older or newer release.
    #[error("a recording of format {found}, expected {expected}")]
    Format {
        /// The format version of the file.
        found: u64,
        /// The format version that this release reads.
        expected: u64,
    },
    /// A record is whole, and is not as any should be: whoever wrote it was not this crate, or is at fault.
    #[error("segment {segment}, at byte {offset}: {problem}")]
    Malformed {
        /// The segment's number.
        segment: u64,
        /// Where in it the record begins, bytes.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
}

/// Where a segment can no longer be read, because the process or the machine stopped or the file was damaged. All before
/// it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The segment's number, from 0 over the recording.
    pub segment: u64,
    /// Where the first unreadable record begins, bytes.
    pub offset: u64,
    /// How many bytes are left from there on.
    pub left: u64,
    /// Whether it looks as a crash leaves it: the last record is cut off, or nothing but zeros follows. Else bytes have
    /// changed, and records behind them may be lost.
    pub torn: bool,
}

/// One sentence.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            offset,
            left,
            torn,
        } = self;
        let what = if *torn { "breaks off" } else { "is damaged" };
        write!(
            f,
            "segment {segment} {what} at byte {offset}, {left} bytes are left unread"
        )
    }
}
