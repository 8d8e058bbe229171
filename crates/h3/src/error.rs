//! What the errors of mpquic are called in the traits of h3.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use mpquic::{ConnectionError, ReadError, VarInt, WriteError};

pub(crate) fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: close.error_code.into_inner(),
        },
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

pub(crate) fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: connection_error(error),
    }
}

pub(crate) fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => terminated(code),
        ReadError::ConnectionLost(reason) => lost(reason),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

pub(crate) fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => terminated(code),
        WriteError::ConnectionLost(reason) => lost(reason),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}

fn terminated(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated {
        error_code: code.into_inner(),
    }
}

/// A code of h3 for the wire. All that HTTP/3 knows fit; what does not is a mistake of the caller, and becomes the largest code.
pub(crate) fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
