//! `.duvet/config.toml`: which specifications there are and which source files cite them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, read_to_string};

/// The part of duvet's settings that this reader needs.
#[derive(Debug, Deserialize)]
pub struct Config {
    /// Where citations are looked for.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// What can be cited.
    #[serde(rename = "specification")]
    pub specifications: Vec<SpecificationSource>,
}

/// A group of source files.
#[derive(Debug, Deserialize)]
pub struct Source {
    /// `folder/**/*.extension`.
    pub pattern: String,
}

/// A specification's text.
#[derive(Debug, Deserialize)]
pub struct SpecificationSource {
    /// The path of its text, from the root of the repository. Citations name it so.
    pub source: String,
}

impl Config {
    /// Reads `.duvet/config.toml` under `root`.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let path = root.join(".duvet/config.toml");
        let text = read_to_string(path.clone())?;
        toml::from_str(&text).map_err(|source| Error::Toml {
            path,
            source: Box::new(source),
        })
    }
}

/// The source files that the patterns name, in order of their paths.
pub fn source_files(root: &Path, sources: &[Source]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for source in sources {
        let pattern = &source.pattern;
        let parts = pattern
            .split_once("/**/*.")
            .ok_or_else(|| Error::Pattern(pattern.clone()))?;
        walk(&root.join(parts.0), parts.1, &mut files)?;
    }
    files.sort();
    Ok(files)
}

/// The files in `.duvet/exceptions`.
pub fn exception_files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    walk(&root.join(".duvet/exceptions"), "toml", &mut files)?;
    files.sort();
    Ok(files)
}

fn walk(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read {
        path: folder.to_path_buf(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            walk(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}
