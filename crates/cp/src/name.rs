//! Names of files as the two ends tell them: below a folder, and never outside of it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use mpquic::Escaped;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Around the hexadecimal digits in the name of a file that is not complete.
const SCRATCH: (&str, &str) = (".mpquic-", ".part");
/// How many digits: nobody has a file of this name by chance.
const DIGITS: usize = 32;
/// As long as a path may be on Linux, bytes (`PATH_MAX`).
const LONGEST: usize = 4096;

/// A relative name with `/` between its parts, none of which leads up. The empty name is the folder itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadName {
    /// It leads, or could lead, out of the folder.
    #[error("{0:?} is not a name below the folder")]
    Outside(String),
    /// It is that of a transfer that is not complete.
    #[error("{0:?} is kept for transfers that are not complete")]
    Part(String),
    /// It is longer than names can be.
    #[error("the name has {0} bytes, at most {LONGEST} are allowed")]
    Long(usize),
}

impl Name {
    /// The name below this one.
    ///
    /// # Errors
    ///
    /// If `part` is no name.
    pub fn join(&self, part: &str) -> Result<Self, BadName> {
        if self.0.is_empty() {
            part.parse()
        } else {
            format!("{}/{part}", self.0).parse()
        }
    }

    /// Its last part; none for the folder itself.
    pub fn last(&self) -> Option<&str> {
        self.0.rsplit('/').next().filter(|last| !last.is_empty())
    }

    /// Its last part as a name.
    pub(crate) fn own(&self) -> Self {
        Self(self.last().unwrap_or_default().to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A path for the system, relative to the folder: `.` for the folder itself.
    pub(crate) fn path(&self) -> &Path {
        Path::new(if self.0.is_empty() { "." } else { &self.0 })
    }

    /// The folder that it is in.
    pub(crate) fn folder(&self) -> Self {
        Self(
            self.0
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder)
                .to_owned(),
        )
    }

    /// How many folders lead to it.
    pub(crate) fn depth(&self) -> usize {
        self.0.matches('/').count()
    }

    /// Where it is while it is not complete: in the same folder, under a name of the same length whatever its own is, so that a name
    /// as long as the file system takes has room for it.
    pub(crate) fn part(&self) -> PathBuf {
        let digest = Sha256::digest(self.last().unwrap_or_default());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let (before, after) = SCRATCH;
        let scratch = format!("{before}{}{after}", &digits[..DIGITS]);
        self.folder().path().join(scratch)
    }
}

/// Whether a file has the name of one that is not complete.
pub(crate) fn is_scratch(last: &str) -> bool {
    let (before, after) = SCRATCH;
    let digits = last
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    digits.is_some_and(|digits| {
        digits.len() == DIGITS
            && digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// For a terminal: without control characters.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        Escaped::new(&self.0).fmt(f)
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if text.len() > LONGEST {
            return Err(BadName::Long(text.len()));
        }
        let outside = || BadName::Outside(text.to_owned());
        if text.starts_with('/') || text.contains('\0') {
            return Err(outside());
        }
        let mut name = String::with_capacity(text.len());
        for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
            // As this system reads it: a drive or a backslash is a part of a name on some systems only.
            let mut components = Path::new(part).components();
            match (components.next(), components.next()) {
                (Some(Component::Normal(normal)), None) if normal == part => {}
                _ => return Err(outside()),
            }
            if is_scratch(part) {
                return Err(BadName::Part(text.to_owned()));
            }
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(part);
        }
        Ok(Self(name))
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_folder() {
        for (text, name) in [
            ("a", "a"),
            ("./a//b/./c/", "a/b/c"),
            ("", ""),
            (".", ""),
            ("...", "..."),
            ("a b\n", "a b\n"),
        ] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), name);
        }
        for text in ["..", "a/../b", "../a", "/etc/passwd", "/", "a\0b"] {
            let refused = text.parse::<Name>();
            assert_eq!(refused, Err(BadName::Outside(text.to_owned())));
        }
        let part = "a/.mpquic-0123456789abcdef0123456789abcdef.part";
        assert_eq!(part.parse::<Name>(), Err(BadName::Part(part.to_owned())));
        // A user's own names.
        for text in [
            "b.mpquic.part",
            ".mpquic-1.part",
            ".mpquic-.part",
            ".mpquic-",
        ] {
            assert!(text.parse::<Name>().is_ok(), "{text}");
        }
        assert_eq!("a".repeat(5000).parse::<Name>(), Err(BadName::Long(5000)));
    }

    #[test]
    fn a_name_from_the_peer_is_checked() {
        assert!(serde_json::from_str::<Name>("\"a/b\"").is_ok());
        let refused = serde_json::from_str::<Name>("\"../b\"").unwrap_err();
        assert!(refused.to_string().contains("not a name below"));
    }

    #[test]
    fn parts_and_paths() {
        let name: Name = "a/b".parse().unwrap();
        assert_eq!(name.last(), Some("b"));
        let part = name.part();
        assert_eq!(part.parent(), Some(Path::new("a")));
        assert!(is_scratch(part.file_name().unwrap().to_str().unwrap()));
        assert_ne!(part, "a/c".parse::<Name>().unwrap().part());
        let long: Name = "n".repeat(255).parse().unwrap();
        assert_eq!(long.part().file_name().unwrap().len(), 45);
        assert_eq!((name.folder().as_str(), name.depth()), ("a", 1));
        assert_eq!((long.folder().as_str(), long.depth()), ("", 0));
        assert_eq!(name.join("c").unwrap().as_str(), "a/b/c");
        assert!(name.join("..").is_err());
        assert_eq!(Name::default().path(), Path::new("."));
        assert_eq!(Name::default().last(), None);
        assert_eq!(
            "a\x1b[2J".parse::<Name>().unwrap().to_string(),
            "a\\u{1b}[2J"
        );
    }
}
