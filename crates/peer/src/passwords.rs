//! Names and passwords of those who may use a port of this machine.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::Error;
use crate::identity::read;

/// Names with their passwords, of which no text is kept: each is compared in constant time, and all are.
pub struct Passwords {
    key: hmac::Key,
    tags: Vec<hmac::Tag>,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Passwords({})", self.tags.len())
    }
}

impl Passwords {
    /// Those of a file: lines of `NAME:PASSWORD`. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    ///
    /// If it cannot be read, has none, or a line is not of that form.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let mut key = [0; 32];
        SystemRandom::new()
            .fill(&mut key)
            .map_err(|_| Error::Setting("the system has no randomness".to_owned()))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let text = read(path)?;
        let mut tags = Vec::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':');
            if !colon.is_some_and(|at| at > 0 && at + 1 < line.len()) {
                let why = format!("line {}: NAME:PASSWORD is expected", number + 1);
                return Err(Error::file(path, why));
            }
            tags.push(hmac::sign(&key, line));
        }
        if tags.is_empty() {
            return Err(Error::file(path, "it has no line of NAME:PASSWORD"));
        }
        Ok(Self { key, tags })
    }

    /// Whether a name has this password.
    pub fn takes(&self, name: &str, password: &str) -> bool {
        self.takes_pair(format!("{name}:{password}").as_bytes())
    }

    /// The same for a field of HTTP's Basic authentication (RFC 7617).
    pub fn takes_basic(&self, field: &str) -> bool {
        let pair = field.split_once(' ').and_then(|(scheme, value)| {
            let decoded = STANDARD.decode(value.trim()).ok()?;
            scheme.eq_ignore_ascii_case("basic").then_some(decoded)
        });
        pair.is_some_and(|pair| self.takes_pair(&pair))
    }

    fn takes_pair(&self, pair: &[u8]) -> bool {
        let given = hmac::sign(&self.key, pair);
        // MACs of MACs: how alike two of these are says nothing.
        let given = hmac::sign(&self.key, given.as_ref());
        let mut found = false;
        for tag in &self.tags {
            found |= hmac::verify(&self.key, tag.as_ref(), given.as_ref()).is_ok();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_their_passwords() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        std::fs::write(&path, "# ours\n\nann:one:two\nbob:three\n").unwrap();
        let passwords = Passwords::from_file(&path).unwrap();
        assert!(passwords.takes("ann", "one:two") && passwords.takes("bob", "three"));
        for (name, password) in [
            ("ann", "three"),
            ("bob", ""),
            ("", ""),
            ("# ours", ""),
            ("b", "ob:three"),
        ] {
            assert!(!passwords.takes(name, password), "{name}");
        }
        assert!(passwords.takes_basic(&format!("basic {}", STANDARD.encode("bob:three"))));
        for field in ["", "Basic", "Basic %", "Bearer three"] {
            assert!(!passwords.takes_basic(field), "{field}");
        }
        for text in ["", "# none", "ann", ":one", "ann:"] {
            std::fs::write(&path, text).unwrap();
            assert!(Passwords::from_file(&path).is_err(), "{text}");
        }
    }
}
