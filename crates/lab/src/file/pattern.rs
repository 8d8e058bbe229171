//! Patterns that select runs by name: a part of the name, or a small regular expression without groups.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A part of a name, or a small regular expression: `. * + ? [..] ^ $` and, at the top level only,
/// `|`. `\` before a character means the character itself.
///
/// ```
/// use mpquic_lab::Pattern;
///
/// let pattern: Pattern = "low.*/minrtt$|low.*/ecf$".parse()?;
/// assert!(pattern.matches("low/file:2MB/olia/ecf"));
/// assert!(!pattern.matches("high/file:2MB/olia/ecf"));
/// # Ok::<(), mpquic_lab::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    alternatives: Vec<Alternative>,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("pattern `{pattern}`: {fault}")]
#[non_exhaustive]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Alternative {
    from_start: bool,
    to_end: bool,
    pieces: Vec<Piece>,
}

/// One symbol, and how often it may occur.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    sign: Sign,
    least: usize,
    most: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sign {
    Any,
    Exactly(char),
    /// Ranges of characters, and whether the class is negated.
    Class(bool, Vec<(char, char)>),
}

impl Sign {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(sign) => *sign == c,
            Self::Class(not, ranges) => {
                ranges.iter().any(|&(low, high)| (low..=high).contains(&c)) != *not
            }
        }
    }
}

impl Pattern {
    /// Whether the pattern occurs in a name. An empty pattern occurs in every name.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<_> = name.chars().collect();
        self.alternatives.iter().any(|alternative| {
            let starts = if alternative.from_start {
                0
            } else {
                name.len()
            };
            (0..=starts)
                .any(|start| matches_here(&alternative.pieces, &name[start..], alternative.to_end))
        })
    }
}

/// Backtracking is fast enough, since patterns and names are short.
fn matches_here(pieces: &[Piece], name: &[char], to_end: bool) -> bool {
    let Some((piece, rest)) = pieces.split_first() else {
        return !to_end || name.is_empty();
    };
    let run = name.iter().take_while(|&&c| piece.sign.matches(c)).count();
    (piece.least..=run.min(piece.most))
        .rev()
        .any(|taken| matches_here(rest, &name[taken..], to_end))
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |fault| PatternError {
            pattern: text.to_owned(),
            fault,
        };
        let mut alternatives = vec![Alternative::default()];
        let mut signs = text.chars().peekable();
        while let Some(c) = signs.next() {
            let last = alternatives.len() - 1;
            let alternative = &mut alternatives[last];
            if alternative.to_end && c != '|' {
                return Err(fail("`$` must be at the end"));
            }
            let sign = match c {
                '|' => {
                    alternatives.push(Alternative::default());
                    continue;
                }
                '^' if alternative.pieces.is_empty() && !alternative.from_start => {
                    alternative.from_start = true;
                    continue;
                }
                '^' => return Err(fail("`^` must be at the start")),
                '$' => {
                    alternative.to_end = true;
                    continue;
                }
                '*' | '+' | '?' => {
                    let piece = alternative.pieces.last_mut();
                    let piece =
                        piece.ok_or_else(|| fail("`*`, `+` or `?` needs something to repeat"))?;
                    (piece.least, piece.most) = match c {
                        '*' => (0, usize::MAX),
                        '+' => (1, usize::MAX),
                        _ => (0, 1),
                    };
                    continue;
                }
                '(' | ')' => {
                    return Err(fail("has a group: write the alternatives out, as a/x|a/y"));
                }
                '.' => Sign::Any,
                '[' => class(&mut signs).ok_or_else(|| fail("`[` is not closed"))?,
                '\\' => Sign::Exactly(signs.next().ok_or_else(|| fail("ends with `\\`"))?),
                c => Sign::Exactly(c),
            };
            alternative.pieces.push(Piece {
                sign,
                least: 1,
                most: 1,
            });
        }
        Ok(Self {
            text: text.to_owned(),
            alternatives,
        })
    }
}

fn class(signs: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Sign> {
    let not = signs.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        let low = match signs.next()? {
            ']' => return Some(Sign::Class(not, ranges)),
            '\\' => signs.next()?,
            c => c,
        };
        let mut high = low;
        if signs.next_if_eq(&'-').is_some() {
            high = signs.next()?;
        }
        ranges.push((low, high));
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched() {
        for (pattern, name, expected) in [
            ("", "anything", true),
            ("low", "f2/low/ecf", true),
            ("low", "f2/lo", false),
            ("^low", "f2/low", false),
            ("ecf$", "low/ecf", true),
            ("ecf$", "low/ecf_a", false),
            ("^a.*z$", "abcz", true),
            ("a|b", "xbx", true),
            ("^a$|^b$", "ab", false),
            ("ab*c", "ac", true),
            ("ab+c", "ac", false),
            ("ab?c", "abc", true),
            ("rate1=[0-4]0,", "rate1=20,owd1=20", true),
            ("rate1=[^2]", "rate1=20", false),
            (r"0\.5", "loss=0.5", true),
            (r"0\.5", "loss=0x5", false),
        ] {
            let parsed: Pattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(name), expected, "{pattern} in {name}");
            assert_eq!(parsed.to_string(), pattern);
        }
    }

    #[test]
    fn bad_patterns_are_refused() {
        for (pattern, fault) in [
            (
                "(a|b)",
                "pattern `(a|b)`: has a group: write the alternatives out, as a/x|a/y",
            ),
            (
                "*a",
                "pattern `*a`: `*`, `+` or `?` needs something to repeat",
            ),
            ("[ab", "pattern `[ab`: `[` is not closed"),
            ("a$b", "pattern `a$b`: `$` must be at the end"),
            ("a^", "pattern `a^`: `^` must be at the start"),
            ("a\\", "pattern `a\\`: ends with `\\`"),
        ] {
            assert_eq!(pattern.parse::<Pattern>().unwrap_err().to_string(), fault);
        }
    }
}
