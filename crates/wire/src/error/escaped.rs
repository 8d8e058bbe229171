//! Text of a peer, made safe for terminals and logs.

use std::fmt;

/// Displays bytes that a peer chose as text on one line.
///
/// Control characters (with them line breaks and the escape sequences of terminals), separators of lines and characters
/// that change the direction of text are written as Rust would write them in a string literal; what is not UTF-8 becomes
/// U+FFFD. All other text stays as it is.
///
/// ```
/// # use mpquic_wire::Escaped;
/// let reason = b"bye\n203.0.113.9: sent secret \x1b[2J";
/// assert_eq!(Escaped::new(reason).to_string(), r"bye\n203.0.113.9: sent secret \u{1b}[2J");
/// ```
#[derive(Clone, Copy)]
pub struct Escaped<'a>(&'a [u8]);

impl<'a> Escaped<'a> {
    /// Wraps a text, which may not be UTF-8.
    pub fn new(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self(text.as_ref())
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if misleads(character) {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    f.write_char(character)?;
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

/// In logs by `?`, it is the same text, in quotes.
impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Whether a character does something else than to be seen: controls (C0, DEL, C1), separators of lines, the marks,
/// embeddings, overrides and isolates of Unicode's bidirectional algorithm (UAX 9), and the byte order mark.
const fn misleads(character: char) -> bool {
    matches!(character,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_escaped_and_all_else_stays() {
        for (text, shown) in [
            (
                &b"plain, \"quoted\" \\ back"[..],
                "plain, \"quoted\" \\ back",
            ),
            ("grün 東京 👍".as_bytes(), "grün 東京 👍"),
            (b"a\r\nb\tc\0", r"a\r\nb\tc\u{0}"),
            (b"\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("\u{9b}2J \u{7f}".as_bytes(), r"\u{9b}2J \u{7f}"),
            (
                "\u{202e}txt\u{2066}\u{2028}\u{feff}".as_bytes(),
                r"\u{202e}txt\u{2066}\u{2028}\u{feff}",
            ),
            (b"\xff\xfe end", "\u{fffd}\u{fffd} end"),
            (b"", ""),
        ] {
            assert_eq!(Escaped::new(text).to_string(), shown);
        }
        assert_eq!(format!("{:?}", Escaped::new("x\n")), r#""x\n""#);
    }
}
