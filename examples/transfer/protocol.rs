//! The request protocol of the file examples: what goes over a stream; moves no bytes itself.
//!
//! One bidirectional stream per request. The client sends lines of text and ends the stream:
//!
//! ```text
//! GET <name>
//! SCHEDULER <name> <configuration as JSON>      (may be left out)
//! ```
//!
//! The second line asks the server to schedule the connection's packets in that way: each side of a
//! connection schedules what it sends, so for a download, it is the server's scheduler that counts.
//!
//! The server answers with a line, the content, the content's SHA-256 as 32 bytes, and the end of
//! the stream; or with another line and the end.
//!
//! ```text
//! OK <length of the content in bytes>
//! ERROR <reason>
//! ```
//!
//! The digest comes last so that the server reads a file once, and sends while it reads.

use mpquic::VarInt;

use crate::schedulers::Choice;

/// The ALPN protocol name: a client and a server of something else must not get along.
pub(crate) const ALPN: &[u8] = b"mpquic-files/1";

/// Bytes of the longest request or answer line. The other side decides how much it sends, so
/// everything that is kept in memory needs a limit.
pub(crate) const MAX_HEADER: usize = 8 * 1024;

/// Bytes of the digest.
pub(crate) const DIGEST_LEN: usize = 32;

/// The code with which a client closes the connection when it has all it wants. Not 0: with that, a
/// connection is closed when its client is merely gone.
pub(crate) const DONE: VarInt = VarInt::from_u32(1);

/// What a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// What it wants; relative to the server's root.
    pub(crate) name: String,
    /// How the server shall schedule, if the client minds.
    pub(crate) scheduler: Option<Choice>,
}
