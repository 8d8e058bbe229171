//! What CONNECTION_CLOSE frames say (RFC 9000 section 19.19).

use bytes::Bytes;
use mpquic_sched_core::{TransportErrorCode, VarInt};

/// CONNECTION_CLOSE of the transport, as received (RFC 9000 section 19.19, type 0x1c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionClose {
    /// The code.
    pub error_code: TransportErrorCode,
    /// The frame type that triggered it; 0 for none.
    pub frame_type: u64,
    /// A text for people, as the peer wrote it: it may not be UTF-8, and may have line breaks and the sequences that terminals
    /// obey. [`Escaped`](crate::Escaped) shows it safely.
    pub reason: Bytes,
}

/// CONNECTION_CLOSE of the application (RFC 9000 section 19.19, type 0x1d).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationClose {
    /// The application's code.
    pub error_code: VarInt,
    /// A text for people, as the peer wrote it: it may not be UTF-8, and may have line breaks and the sequences that terminals
    /// obey. [`Escaped`](crate::Escaped) shows it safely.
    pub reason: Bytes,
}
