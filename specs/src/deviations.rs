//! The sections that `docs/deviations.md` names: where the code departs from one, a citation must say so.

use std::path::Path;

use crate::error::{Error, read_to_string};

/// The page, from the root of the repository.
pub const PAGE: &str = "docs/deviations.md";

/// A section that the page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The number of the RFC.
    pub rfc: String,
    /// As citations name it: "section-9.5".
    pub section: String,
    /// In which line of the page.
    pub line: usize,
}

/// The sections that the page under `root` names.
///
/// # Errors
///
/// If it cannot be read.
pub fn read(root: &Path) -> Result<Vec<Deviation>, Error> {
    Ok(parse(&read_to_string(root.join(PAGE))?))
}

/// "RFC 9000 section 9.5", "RFC 9000 sections 9.5 and 12.3", over ends of lines too. A section without the RFC's number before
/// it is none.
pub fn parse(text: &str) -> Vec<Deviation> {
    let mut words = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        words.extend(content.split_whitespace().map(|word| (line, word)));
    }
    let mut found = Vec::new();
    for at in 0..words.len() {
        let is = |at: usize, names: &[&str]| {
            let word = words.get(at).map_or("", |(_, word)| *word);
            names.contains(&word.trim_start_matches('('))
        };
        if !is(at, &["RFC"]) || !is(at + 2, &["section", "sections"]) {
            continue;
        }
        let rfc = words[at + 1].1.to_owned();
        for (line, word) in &words[at + 3..] {
            let number = word.trim_matches(|c: char| !c.is_ascii_digit());
            if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
                match *word {
                    "and" | "to" => continue,
                    _ => break,
                }
            }
            found.push(Deviation {
                rfc: rfc.clone(),
                section: format!("section-{number}"),
                line: *line,
            });
            if !word.ends_with(',') && !word.ends_with(char::is_numeric) {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_over_ends_of_lines() {
        let text = "Not so (RFC\n9000 section 9.5). RFC 9000 sections 1, 2 and 12.3 say. RFC 1 is none, nor section 7.";
        let found: Vec<_> = parse(text)
            .into_iter()
            .map(|one| (one.rfc, one.section, one.line))
            .collect();
        let expected = [("9.5", 2), ("1", 2), ("2", 2), ("12.3", 2)];
        let expected =
            expected.map(|(number, line)| ("9000".into(), format!("section-{number}"), line));
        assert_eq!(found, expected);
    }
}
