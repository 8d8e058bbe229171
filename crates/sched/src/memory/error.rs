//! Why a memory could not be read or written, in words that help.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file of memories was refused, or not written. Each message is one line and names the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The file is there and cannot be read, or is no regular file.
    #[error("cannot read the memory {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is larger than any that [`Store::save`](super::Store::save) writes.
    #[error(
        "the memory {} is refused: larger than {limit} bytes, the most that is read",
        path.display(),
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read, bytes.
        limit: usize,
    },
    /// The file is not JSON, ends in the middle, or is not built as it should be.
    #[error("the memory {} is refused at line {line}, column {column}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1; 0 before the first character of a line.
        column: usize,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file is JSON of another program's.
    #[error("the memory {} is refused: written by {found:?}, expected {expected:?}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What the field `crate` says.
        found: String,
        /// What it should say.
        expected: &'static str,
    },
    /// The file has another format version, that of an older or newer release.
    #[error("the memory {} is refused: format {found}, expected {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format version of the file.
        found: u64,
        /// The format version that this release reads.
        expected: u64,
    },
    /// One of the entries is not as any entry should be.
    #[error(
        "the memory {} is refused: entry {index}, of scheduler {scheduler:?}: {problem}",
        path.display(),
    )]
    Entry {
        /// The file.
        path: PathBuf,
        /// Which entry, from 0.
        index: usize,
        /// The scheduler that the entry names.
        scheduler: String,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The facts of one of the paths are none that a path can have.
    #[error("the memory {} is refused: path {index}: {problem}", path.display())]
    Path {
        /// The file.
        path: PathBuf,
        /// Which path, from 0.
        index: usize,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file could not be written. What was there before is there still.
    #[error("cannot write the memory {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
