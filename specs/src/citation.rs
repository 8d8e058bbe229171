//! Citations as duvet writes them: `//= section`, then `//# quote`; exceptions with a reason in TOML.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, read_to_string};

/// A quote from a specification, and what stands under it.
#[derive(Debug)]
pub struct Citation {
    /// The file that cites, from the root of the repository.
    pub file: PathBuf,
    /// The line where the citation begins.
    pub line: usize,
    /// What the code under it does.
    pub kind: Kind,
    /// The path of the specification.
    pub target: String,
    /// The section in it.
    pub section: String,
    /// The words.
    pub quote: String,
    /// Why there is an exception.
    pub reason: String,
}

/// What the code under a citation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It meets the requirement.
    Implementation,
    /// It shows that the requirement is met.
    Test,
    /// It meets the requirement by construction: no test could fail.
    Implication,
    /// The requirement is not met, or does not apply, for a reason.
    Exception,
}

/// The citations in a source file.
pub fn in_source(root: &Path, file: &Path) -> Result<Vec<Citation>, Error> {
    let text = read_to_string(file.to_path_buf())?;
    let file = file.strip_prefix(root).unwrap_or(file);
    parse_source(file, &text)
}

/// The citations in the text of a source file.
pub fn parse_source(file: &Path, text: &str) -> Result<Vec<Citation>, Error> {
    let mut citations: Vec<Citation> = Vec::new();
    let mut open: Option<Open> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let failed = |what: String| Error::Citation {
            path: file.to_path_buf(),
            line: index + 1,
            what,
        };
        if let Some(meta) = line.strip_prefix("//=") {
            if open.as_ref().is_some_and(|open| !open.quote.is_empty()) {
                citations.extend(open.take().map(|open| open.close(file)).transpose()?);
            }
            let open = open.get_or_insert_with(|| Open::at(index + 1));
            open.meta(meta.trim()).map_err(failed)?;
        } else if let Some(quote) = line.strip_prefix("//#") {
            let Some(open) = &mut open else {
                return Err(failed("a quote without a section above it".to_owned()));
            };
            open.quote.push_str(quote.trim());
            open.quote.push(' ');
        } else {
            citations.extend(open.take().map(|open| open.close(file)).transpose()?);
        }
    }
    citations.extend(open.map(|open| open.close(file)).transpose()?);
    Ok(citations)
}

/// A citation that is being read.
struct Open {
    line: usize,
    target: Option<String>,
    kind: Kind,
    reason: String,
    quote: String,
}

impl Open {
    fn at(line: usize) -> Self {
        Self {
            line,
            target: None,
            kind: Kind::Implementation,
            reason: String::new(),
            quote: String::new(),
        }
    }

    fn meta(&mut self, meta: &str) -> Result<(), String> {
        match meta
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
        {
            None => self.target = Some(meta.to_owned()),
            Some(("type", kind)) => {
                self.kind = match kind {
                    "implementation" => Kind::Implementation,
                    "test" => Kind::Test,
                    "implication" => Kind::Implication,
                    "exception" => Kind::Exception,
                    other => return Err(format!("unknown type {other:?}")),
                }
            }
            Some(("reason", reason)) => {
                self.reason.push_str(reason);
                self.reason.push(' ');
            }
            Some((key, _)) => return Err(format!("unknown key {key:?}")),
        }
        Ok(())
    }

    fn close(self, file: &Path) -> Result<Citation, Error> {
        let failed = |what: &str| Error::Citation {
            path: file.to_path_buf(),
            line: self.line,
            what: what.to_owned(),
        };
        let target = self
            .target
            .as_deref()
            .ok_or_else(|| failed("no specification is named"))?;
        let (target, section) = target
            .split_once('#')
            .ok_or_else(|| failed("no section is named"))?;
        let quote = self.quote.trim();
        if quote.is_empty() {
            return Err(failed("no quote"));
        }
        if self.kind == Kind::Exception && self.reason.is_empty() {
            return Err(failed("an exception without a reason"));
        }
        Ok(Citation {
            file: file.to_path_buf(),
            line: self.line,
            kind: self.kind,
            target: target.to_owned(),
            section: section.to_owned(),
            quote: quote.to_owned(),
            reason: self.reason.trim().to_owned(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    target: Option<String>,
    exception: Vec<toml::Spanned<Exception>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    target: Option<String>,
    quote: String,
    reason: String,
}

/// The exceptions in a TOML file.
pub fn in_exceptions(root: &Path, path: &Path) -> Result<Vec<Citation>, Error> {
    let text = read_to_string(path.to_path_buf())?;
    let file = path.strip_prefix(root).unwrap_or(path);
    let exceptions: Exceptions = toml::from_str(&text).map_err(|source| Error::Toml {
        path: file.to_path_buf(),
        source: Box::new(source),
    })?;
    let mut citations = Vec::new();
    for exception in exceptions.exception {
        let line = text[..exception.span().start].lines().count() + 1;
        let exception = exception.into_inner();
        let open = Open {
            line,
            target: exception.target.or_else(|| exceptions.target.clone()),
            kind: Kind::Exception,
            reason: exception.reason,
            quote: exception.quote,
        };
        citations.push(open.close(file)?);
    }
    Ok(citations)
}

#[cfg(test)]
mod tests;
