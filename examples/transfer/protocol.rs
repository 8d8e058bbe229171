//! The request protocol of the file examples.
//!
//! Each request uses one bidirectional stream. The client sends lines of text and ends the stream:
//!
//! ```text
//! GET <name>
//! SCHEDULER <name> <configuration as JSON>      (may be left out)
//! ```
//!
//! The optional second line asks the server to schedule the connection's packets this way. Each
//! side of a connection schedules what it sends, so the server's scheduler matters for a download.
//!
//! The server responds with a line, the content, 32 bytes with the content's SHA-256, and the end
//! of the stream. On an error, it responds with another line and the end.
//!
//! ```text
//! OK <length of the content in bytes>
//! ERROR <reason>
//! ```
//!
//! The digest comes last, so that the server reads a file only once and sends while it reads.

use mpquic::VarInt;

use crate::schedulers::Choice;

/// The ALPN protocol name. It prevents connections to servers and clients of other protocols.
pub(crate) const ALPN: &[u8] = b"mpquic-files/1";

/// The longest request or first response line in bytes. The peer decides how much it sends, so
/// everything that is kept in memory needs a limit.
pub(crate) const MAX_HEADER: usize = 8 * 1024;

/// The length of the digest in bytes.
pub(crate) const DIGEST_LEN: usize = 32;

/// The error code with which a client closes the connection when it is finished. It is not 0,
/// because a connection closes with 0 when the client program just goes away.
pub(crate) const DONE: VarInt = VarInt::from_u32(1);

/// A client's request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// The name of the content, relative to the server's root.
    pub(crate) name: String,
    /// The scheduler that the server should use, if the client asks for one.
    pub(crate) scheduler: Option<Choice>,
}
