//! Reads the specifications and their citations in the source files, checks each quote, and counts which
//! requirements are met and tested. Runs no code of the crates.

pub mod citation;
pub mod config;
pub mod coverage;
pub mod deviations;
pub mod error;
pub mod report;
pub mod specification;

use std::path::Path;

use crate::config::Config;
use crate::coverage::Coverage;
use crate::error::Error;
use crate::specification::Specification;

/// Reads everything that `.duvet/config.toml` under `root` names.
///
/// A file that cannot be read is an error; a quote that is not in its section is a
/// [finding](Coverage::wrong).
pub fn read(root: &Path) -> Result<Coverage, Error> {
    let config = Config::read(root)?;
    let mut specifications = Vec::new();
    for source in config.specifications {
        specifications.push(Specification::read(root, &source)?);
    }
    let mut citations = Vec::new();
    for file in config::source_files(root, &config.sources)? {
        citations.extend(citation::in_source(root, &file)?);
    }
    for file in config::exception_files(root)? {
        citations.extend(citation::in_exceptions(root, &file)?);
    }
    let mut coverage = Coverage::new(specifications, citations);
    coverage.deviations = deviations::read(root)?;
    Ok(coverage)
}
