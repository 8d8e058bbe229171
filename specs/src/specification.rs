//! The text of a specification: its sections, and the requirements in them (RFC 2119).

mod ietf;
mod markdown;
mod sentence;

use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::config::SpecificationSource;
use crate::error::{Error, read_to_string};

/// A specification.
#[derive(Debug)]
pub struct Specification {
    /// As citations name it: the path of its text.
    pub path: String,
    /// "RFC 9000".
    pub name: String,
    /// In the order of the text.
    pub sections: Vec<Section>,
}

/// A section, without the sections below it.
#[derive(Debug, Default)]
pub struct Section {
    /// As citations name it: "section-5.1", or the anchor in a Markdown text.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Its text without any whitespace: quotes are compared with that.
    folded: String,
    /// Its normative sentences.
    pub requirements: Vec<Requirement>,
}

/// A normative sentence.
#[derive(Debug)]
pub struct Requirement {
    /// The strongest word in it.
    pub level: Level,
    /// The sentence in one line.
    pub text: String,
    /// Where it is in the section's folded text.
    pub range: Range<usize>,
}

/// How strong a requirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// MAY, OPTIONAL.
    May,
    /// SHOULD, RECOMMENDED, and their negations.
    Should,
    /// MUST, SHALL, REQUIRED, and their negations.
    Must,
}

impl Level {
    /// All levels, the strongest first.
    pub const ALL: [Self; 3] = [Self::Must, Self::Should, Self::May];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::May => "MAY",
            Self::Should => "SHOULD",
            Self::Must => "MUST",
        })
    }
}

impl Specification {
    /// Reads the text. Markdown by its extension; anything else is the plain text of an RFC.
    pub fn read(root: &Path, source: &SpecificationSource) -> Result<Self, Error> {
        let text = read_to_string(root.join(&source.source))?;
        Ok(Self::parse(&source.source, &text))
    }

    /// Takes the text apart.
    pub fn parse(path: &str, text: &str) -> Self {
        let sections = if path.ends_with(".md") {
            markdown::sections(text)
        } else {
            ietf::sections(text)
        };
        let digits: String = path
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        Self {
            path: path.to_owned(),
            name: format!("RFC {digits}"),
            sections,
        }
    }

    /// The section with this name.
    pub fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }
}

impl Section {
    /// Where the quote is in the folded text. Whitespace does not count.
    pub fn find(&self, quote: &str) -> Option<Range<usize>> {
        let quote = fold(quote);
        if quote.is_empty() {
            return None;
        }
        self.folded
            .find(&quote)
            .map(|start| start..start + quote.len())
    }

    /// Takes in a paragraph or a list item.
    fn push_paragraph(&mut self, paragraph: &str) {
        for sentence in sentence::split(paragraph) {
            self.folded.push_str(&fold(sentence));
            // A sentence that the section has said before is cited by the same quote: both are in its place.
            if let (Some(level), Some(range)) = (sentence::level(sentence), self.find(sentence)) {
                let text = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
                self.requirements.push(Requirement { level, text, range });
            }
        }
    }
}

fn fold(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests;
