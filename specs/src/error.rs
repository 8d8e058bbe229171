//! What stops the reading: a file that is not there or that has another form.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the citations could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of settings or exceptions has another form.
    #[error("{}: {source}", path.display())]
    Toml {
        /// Where.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// Only patterns of the form `folder/**/*.rs` are understood.
    #[error("source pattern {0:?} is not of the form folder/**/*.extension")]
    Pattern(String),
    /// A citation of another form.
    #[error("{}:{line}: {what}", path.display())]
    Citation {
        /// Where.
        path: PathBuf,
        /// In which line.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// Reads a file as text.
pub(crate) fn read_to_string(path: PathBuf) -> Result<String, Error> {
    std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
}
