//! What we tell the peer when closing, and how that is written at each level of encryption.

use mpquic_sched_core::TransportErrorCode;

use crate::frame_writer::FrameWriter;
use crate::{ApplicationClose, ConnectionClose, ConnectionError, TransportError};

/// What we tell the peer when closing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseFrame {
    Transport(TransportError),
    Application(ApplicationClose),
    /// The peer takes what was written too slowly.
    TooSlow,
}

impl CloseFrame {
    /// What the application learns.
    pub(crate) fn reason(&self) -> ConnectionError {
        match self {
            Self::Transport(error) => ConnectionError::TransportError(error.clone()),
            Self::Application(_) => ConnectionError::LocallyClosed,
            Self::TooSlow => ConnectionError::TooSlow,
        }
    }

    /// Writes it into a 1-RTT packet. False if it does not fit.
    pub(crate) fn write(&self, w: &mut FrameWriter<'_>) -> bool {
        match self {
            Self::Transport(error) => write_transport_close(w, error),
            Self::Application(close) => {
                let room = w.remaining();
                close.encode(w.buf, room)
            }
            Self::TooSlow => {
                let error = TransportError::new(TransportErrorCode::NO_ERROR, "too slow");
                write_transport_close(w, &error)
            }
        }
    }

    /// Writes it into an Initial or Handshake packet. RFC 9000 section 10.2.3: what the application said is not for
    /// unauthenticated eyes. False if it does not fit: the amplification limit leaves no room.
    pub(crate) fn write_early(&self, w: &mut FrameWriter<'_>) -> bool {
        match self {
            Self::Application(_) => {
                //= specs/rfc9000.txt#section-10.2.3
                //# A CONNECTION_CLOSE of type 0x1d MUST be replaced by a CONNECTION_CLOSE of type 0x1c
                //# when sending the frame in Initial or Handshake packets.
                //= specs/rfc9000.txt#section-12.5
                //# CONNECTION_CLOSE frames signaling application errors (type 0x1d) MUST only appear in
                //# the application data packet number space.
                //= specs/rfc9000.txt#section-10.2.3
                //# Endpoints MUST clear the value of the Reason Phrase field and SHOULD use the
                //# APPLICATION_ERROR code when converting to a CONNECTION_CLOSE of type 0x1c.
                let error = TransportError::new(TransportErrorCode::APPLICATION_ERROR, "");
                write_transport_close(w, &error)
            }
            Self::Transport(_) | Self::TooSlow => self.write(w),
        }
    }
}

fn write_transport_close(w: &mut FrameWriter<'_>, error: &TransportError) -> bool {
    let close = ConnectionClose {
        error_code: error.code,
        frame_type: error.frame.unwrap_or(0),
        reason: bytes::Bytes::copy_from_slice(error.reason.as_bytes()),
    };
    let room = w.remaining();
    close.encode(w.buf, room)
}
