//! A violation of the protocol and the code that tells it to the peer (RFC 9000 section 20.1).

use std::borrow::Cow;
use std::fmt;

use mpquic_sched_core::TransportErrorCode as Code;

use super::Escaped;

/// A connection error of the transport: what goes into CONNECTION_CLOSE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportError {
    /// The code on the wire.
    pub code: Code,
    /// The type of the frame that triggered it, if known.
    pub frame: Option<u64>,
    /// A text for people; may be empty.
    pub reason: Cow<'static, str>,
}

impl TransportError {
    /// An error of this code and reason, of no frame in particular.
    // Cold, as is `in_frame`: what leads to an error is moved out of the way of what runs with each packet.
    #[cold]
    #[inline(never)]
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            frame: None,
            reason: reason.into(),
        }
    }

    /// The same error, of a frame of this type. The last call counts: who reads the packet knows the
    /// type as it came, flags included (RFC 9000 section 19.19).
    #[cold]
    #[inline(never)]
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame = Some(frame_type);
        self
    }

    /// PROTOCOL_VIOLATION.
    pub fn protocol_violation(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::PROTOCOL_VIOLATION, reason)
    }

    /// FRAME_ENCODING_ERROR.
    pub fn frame_encoding(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::FRAME_ENCODING_ERROR, reason)
    }

    /// FLOW_CONTROL_ERROR.
    pub fn flow_control(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::FLOW_CONTROL_ERROR, reason)
    }

    /// STREAM_LIMIT_ERROR.
    pub fn stream_limit(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::STREAM_LIMIT_ERROR, reason)
    }

    /// STREAM_STATE_ERROR.
    pub fn stream_state(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::STREAM_STATE_ERROR, reason)
    }

    /// FINAL_SIZE_ERROR.
    pub fn final_size(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::FINAL_SIZE_ERROR, reason)
    }

    /// TRANSPORT_PARAMETER_ERROR.
    pub fn transport_parameter(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::TRANSPORT_PARAMETER_ERROR, reason)
    }

    /// VERSION_NEGOTIATION_ERROR (RFC 9368 section 10.2), which the vocabulary does not know by name.
    pub fn version_negotiation(reason: impl Into<Cow<'static, str>>) -> Self {
        let code = <Code as mpquic_sched_core::coding::Codec>::decode(&mut [0x11].as_slice());
        Self::new(code.unwrap_or(Code::PROTOCOL_VIOLATION), reason)
    }

    /// CONNECTION_ID_LIMIT_ERROR.
    pub fn connection_id_limit(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::CONNECTION_ID_LIMIT_ERROR, reason)
    }

    /// CRYPTO_BUFFER_EXCEEDED.
    pub fn crypto_buffer_exceeded(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::CRYPTO_BUFFER_EXCEEDED, reason)
    }

    /// INTERNAL_ERROR.
    pub fn internal(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::INTERNAL_ERROR, reason)
    }

    /// CRYPTO_ERROR carrying a TLS alert (RFC 9001 section 4.8).
    pub fn crypto(alert: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::crypto(alert), reason)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(frame) = self.frame {
            write!(f, " in frame {frame:#x}")?;
        }
        if !self.reason.is_empty() {
            // rustls quotes what the peer's certificate says.
            write!(f, ": {}", Escaped::new(self.reason.as_ref()))?;
        }
        Ok(())
    }
}

impl std::error::Error for TransportError {}
