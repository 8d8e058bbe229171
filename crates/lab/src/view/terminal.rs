//! What the lab prints: texts of files are in it, which must not steer a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use mpquic_proto::Escaped;

/// Passes text on, with everything that does not only show itself ([`Escaped`]) written as JSON writes it, so that lines of JSON
/// stay that. Line breaks pass: who prints the text of a file within a line escapes these.
pub(crate) struct Terminal<'a>(pub(crate) &'a mut dyn Write);

impl Write for Terminal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(safe(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Bytes that the lab formatted, which are whole characters.
fn safe(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    let plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    if bytes.iter().all(plain) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut buffer = [0; 4];
    for character in text.chars() {
        let alone = &*character.encode_utf8(&mut buffer);
        if character == '\n' || Escaped::new(alone).to_string() == alone {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            shown += &format!("\\u{unit:04x}");
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_json_has_it() {
        for (text, shown) in [
            ("a ±1 | 東京\n", "a ±1 | 東京\n"),
            ("\x1b[2J\r\x07\n", "\\u001b[2J\\u000d\\u0007\n"),
            ("\u{9b}2J \u{202e}x", "\\u009b2J \\u202ex"),
        ] {
            let mut out = Vec::new();
            write!(Terminal(&mut out), "{text}").unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), shown);
        }
        let json = format!("\"{}\"", safe("\u{9b}\u{202e}".as_bytes()));
        assert_eq!(
            serde_json::from_str::<String>(&json).unwrap(),
            "\u{9b}\u{202e}"
        );
    }
}
