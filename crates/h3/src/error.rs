//! What the errors of mpquic are called in the traits of h3.

use std::sync::Arc;

use h3::error::Code;
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use mpquic::{ConnectionError, ReadError, TransportErrorCode, VarInt, WriteError};

pub(crate) fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: match close.error_code.into_inner() {
                // HTTP/3 has no such code, and what it does not know is H3_NO_ERROR (RFC 9114 section 9). It is the transport's own
                // when the last handle of a connection is dropped, in mpquic as in quinn.
                0 => Code::H3_NO_ERROR.value(),
                code => code,
            },
        },
        // How curl and Chromium end a connection that they need no more.
        ConnectionError::ConnectionClosed(close)
            if close.error_code == TransportErrorCode::NO_ERROR =>
        {
            ConnectionErrorIncoming::ApplicationClose {
                error_code: Code::H3_NO_ERROR.value(),
            }
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mpquic::{ApplicationClose, ConnectionClose};

    use super::*;

    fn no_error(error: ConnectionError) -> bool {
        let ConnectionErrorIncoming::ApplicationClose { error_code } = connection_error(error)
        else {
            return false;
        };
        // What h3's `is_h3_no_error` looks at.
        error_code == Code::H3_NO_ERROR.value()
    }

    #[test]
    fn a_close_without_an_error_is_a_normal_end() {
        let transport = |error_code| {
            ConnectionError::ConnectionClosed(ConnectionClose {
                error_code,
                frame_type: 0,
                reason: Bytes::new(),
            })
        };
        assert!(no_error(transport(TransportErrorCode::NO_ERROR)));
        assert!(!no_error(transport(TransportErrorCode::INTERNAL_ERROR)));
        let application = |error_code: u32| {
            ConnectionError::ApplicationClosed(ApplicationClose {
                error_code: error_code.into(),
                reason: Bytes::new(),
            })
        };
        assert!(no_error(application(0)));
        assert!(no_error(application(0x100)));
        assert!(!no_error(application(0x102)));
        assert!(!no_error(ConnectionError::TimedOut));
    }
}
