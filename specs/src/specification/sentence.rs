//! Sentences of a paragraph, and how strong a requirement each is.

use super::Level;

/// The sentences. A full stop ends one if whitespace or nothing follows.
pub(super) fn split(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph.trim();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = |at: &usize| {
            rest[at + 1..]
                .chars()
                .next()
                .is_none_or(char::is_whitespace)
        };
        let end = rest
            .match_indices('.')
            .map(|(at, _)| at)
            .find(ends)
            .map_or(rest.len(), |at| at + 1);
        let (sentence, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(sentence)
    })
}

/// The strongest key word of RFC 2119 in the sentence. One before a closing quotation mark does not
/// count: there the text explains the word.
pub(super) fn level(sentence: &str) -> Option<Level> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut strongest = None;
    let mut rest = sentence;
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        rest = after;
        let after = after.strip_prefix(" NOT").unwrap_or(after);
        if !after.starts_with('"') {
            strongest = strongest.max(level_of(word));
        }
    }
    strongest
}

fn level_of(word: &str) -> Option<Level> {
    match word {
        "MUST" | "SHALL" | "REQUIRED" => Some(Level::Must),
        "SHOULD" | "RECOMMENDED" => Some(Level::Should),
        "MAY" | "OPTIONAL" => Some(Level::May),
        _ => None,
    }
}
