//! What the two ends say to each other.
//!
//! The first stream of a connection is the greeting: the client sends the version and the proof of the token (zeros without one), the server
//! answers with a [`Welcome`]. Every other stream is a [`Request`] and its [`Answer`]. Messages are JSON behind their length (32 bits);
//! contents are bytes as they are, with their SHA-256 behind them.
//!
//! | request | answer |
//! |---|---|
//! | `List` | `Listing`, an [`Entry`] per file, folder and link, an [`Omission`] per thing that is left out, an empty message |
//! | `Get`, with the length and the SHA-256 of what the client has | `Content`: from where on; the bytes; the SHA-256 of the whole file; another `Get` may follow |
//! | `Put`, with the size | `Resume`: what the server has; the client sends from where on (64 bits), the bytes, the SHA-256 of the whole file; then `Done` |
//! | `Fresh`, with the size of a small file that the server should not have, behind it the bytes and their SHA-256 | `Done`, or that it has it; another `Fresh` may follow |
//! | `Stream` | `Ready`; the client sends pieces, each behind its length (32 bits), an empty one, and the SHA-256 of all; then `Done` |
//! | `Folder`, `Link`, `Remove`, `Rename` | `Done` |
//!
//! Fields that came later may be missing, and those that are not known are passed over: a side tells the other only what it has asked for.

use mpquic::{Escaped, ReadExactError, RecvStream, SendStream, WriteError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::Name;

/// The application protocol.
pub const ALPN: &[u8] = b"mpquic-cp/1";
/// The version of the greeting.
pub(crate) const VERSION: u8 = 1;
/// What the proof of a token is derived for.
pub(crate) const LABEL: &str = "EXPORTER-mpquic-cp";
/// The longest message, bytes: two names of the greatest length fit, however they are escaped.
const LONGEST: usize = 64 * 1024;

/// SHA-256, in hexadecimal digits where it is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no SHA-256");
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

/// What a server says to a client that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Whether it takes files.
    pub(crate) writable: bool,
    /// Its other addresses, for further paths: RFC 10069 leaves it to applications how a server tells them.
    pub(crate) addresses: Vec<std::net::SocketAddr>,
    /// Whether a `Get` may follow a `Get` on one stream, and a `Fresh` a `Fresh`.
    #[serde(default)]
    pub(crate) several: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    List {
        name: Name,
        /// All that is below, too.
        deep: bool,
        /// Links as links; else what they lead to.
        #[serde(default)]
        links: bool,
        /// What is left out, too.
        #[serde(default)]
        omissions: bool,
    },
    Get {
        name: Name,
        have: u64,
        digest: Option<Digest>,
    },
    Put {
        name: Name,
        size: u64,
        modified: Option<u64>,
        #[serde(default)]
        mode: Option<u32>,
        /// A file that was changed after this one is kept.
        #[serde(default)]
        keep_newer: bool,
    },
    /// A small file of which nothing is there.
    Fresh {
        name: Name,
        size: u64,
        modified: Option<u64>,
        mode: Option<u32>,
    },
    /// What the client does not know the size of.
    Stream { name: Name },
    Folder {
        name: Name,
        #[serde(default)]
        mode: Option<u32>,
    },
    Link {
        name: Name,
        /// Where it leads to, as the link has it.
        target: String,
        modified: Option<u64>,
        /// A file that was changed after this link is kept.
        keep_newer: bool,
    },
    Remove {
        name: Name,
        /// A folder with all that is below it; else an empty one only.
        deep: bool,
    },
    Rename {
        name: Name,
        /// The other name, which nothing has yet.
        to: Name,
    },
}

impl Request {
    pub(crate) const fn name(&self) -> &Name {
        match self {
            Self::List { name, .. }
            | Self::Get { name, .. }
            | Self::Put { name, .. }
            | Self::Fresh { name, .. }
            | Self::Stream { name }
            | Self::Folder { name, .. }
            | Self::Link { name, .. }
            | Self::Remove { name, .. }
            | Self::Rename { name, .. } => name,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Listing,
    Content {
        size: u64,
        from: u64,
        modified: Option<u64>,
        #[serde(default)]
        mode: Option<u32>,
    },
    Resume {
        have: u64,
        digest: Digest,
        /// The file is there under its name, with this digest.
        complete: bool,
    },
    Ready,
    Done,
    Refused(Refusal),
}

/// What a [`Name`] is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link that is told as such.
    Link,
}

/// A file, a folder or a link of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: Kind,
    /// Bytes; 0 for folders and links.
    pub size: u64,
    /// When it was last changed, in seconds since 1970, if known.
    pub modified: Option<u64>,
    /// Who may read, write and execute it: the nine bits of Unix, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Of a link: where it leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Something that is not copied, or not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omission {
    /// What: its name, as far as it can be written.
    pub omitted: String,
    /// Why.
    pub why: String,
    /// It was there, and is not any more.
    #[serde(default)]
    pub vanished: bool,
}

impl Omission {
    pub(crate) fn new(omitted: impl ToString, why: impl ToString) -> Self {
        Self {
            omitted: omitted.to_string(),
            why: why.to_string(),
            vanished: false,
        }
    }

    /// Left out because of an error of the file system.
    pub(crate) fn by(omitted: impl ToString, error: &std::io::Error) -> Self {
        Self {
            vanished: error.kind() == std::io::ErrorKind::NotFound,
            ..Self::new(omitted, error)
        }
    }
}

/// On one line, whatever the peer wrote.
impl std::fmt::Display for Omission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (omitted, why) = (Escaped::new(&self.omitted), Escaped::new(&self.why));
        write!(f, "{omitted}: {why}")
    }
}

/// What a listing consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Listed {
    Omitted(Omission),
    Entry(Entry),
}

/// Why a server does not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{}", Escaped::new(why))]
#[non_exhaustive]
pub struct Refusal {
    /// What kind of reason it is.
    pub kind: RefusalKind,
    /// The reason in words.
    pub why: String,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RefusalKind {
    /// There is no such file or folder.
    Missing,
    /// It may not be read or written.
    Denied,
    /// Another transfer writes it.
    Busy,
    /// The server's file was changed later.
    Newer,
    /// There is something already.
    Present,
    /// So many are not served at a time.
    Limit,
    /// The server's disk is full.
    Full,
    /// The server's disk does not do it.
    Storage,
    /// The contents arrived damaged.
    Damaged,
    /// The request makes no sense.
    Malformed,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
        }
    }
}

/// Why a message did not come.
#[derive(Debug, Error)]
pub(crate) enum Unread {
    #[error("{0}")]
    Stream(#[from] ReadExactError),
    #[error("a message of {0} bytes, at most {LONGEST} are allowed")]
    Long(usize),
    #[error("a message that makes no sense: {}", Escaped::new(&.0.to_string()))]
    Malformed(#[from] serde_json::Error),
}

/// A message as bytes, with its length before it.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain structures of text and numbers can always be written.
    let json = serde_json::to_vec(message).unwrap_or_default();
    let mut bytes = Vec::with_capacity(4 + json.len());
    bytes.extend_from_slice(&(json.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&json);
    bytes
}

pub(crate) async fn send(
    stream: &mut SendStream,
    message: &impl Serialize,
) -> Result<(), WriteError> {
    stream.write_chunk(encode(message).into()).await
}

/// The next message; `None` if it is empty.
pub(crate) async fn receive<M: DeserializeOwned>(
    stream: &mut RecvStream,
) -> Result<Option<M>, Unread> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let len = u32::from_be_bytes(len) as usize;
    if len == 0 {
        return Ok(None);
    }
    if len > LONGEST {
        return Err(Unread::Long(len));
    }
    let mut json = vec![0; len];
    stream.read_exact(&mut json).await?;
    Ok(Some(serde_json::from_slice(&json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let digest = Digest(std::array::from_fn(|index| index as u8));
        let get = Request::Get {
            name: "a/b".parse().unwrap(),
            have: u64::MAX,
            digest: Some(digest),
        };
        let bytes = encode(&get);
        assert_eq!(bytes[..4], (bytes.len() as u32 - 4).to_be_bytes());
        assert_eq!(serde_json::from_slice::<Request>(&bytes[4..]).unwrap(), get);
        let text = String::from(digest);
        assert!(text.starts_with("000102"));
        assert_eq!(Digest::try_from(text), Ok(digest));
    }

    #[test]
    fn a_listing_has_entries_and_omissions() {
        let entry = Entry {
            name: "a".parse().unwrap(),
            kind: Kind::File,
            size: 1,
            modified: None,
            mode: Some(0o640),
            target: None,
        };
        let omission = Omission::new("b\n", "no");
        assert_eq!(omission.to_string(), "b\\n: no");
        for listed in [Listed::Entry(entry), Listed::Omitted(omission)] {
            let bytes = encode(&listed);
            assert_eq!(
                serde_json::from_slice::<Listed>(&bytes[4..]).unwrap(),
                listed
            );
        }
        // As a side of before says it.
        let old = r#"{"List":{"name":"a","deep":true}}"#;
        let old = serde_json::from_str::<Request>(old).unwrap();
        assert!(matches!(
            old,
            Request::List {
                omissions: false,
                links: false,
                ..
            }
        ));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in [
            r#"{"Get":{"name":"../a","have":0,"digest":null}}"#,
            r#"{"Get":{"name":"a","have":-1,"digest":null}}"#,
            r#"{"Get":{"name":"a","have":0,"digest":"00"}}"#,
            r#"{"Delete":{"name":"a"}}"#,
            "",
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
        assert!(Digest::try_from("é".repeat(32)).is_err());
        assert!(Digest::try_from("g".repeat(64)).is_err());
    }
}
