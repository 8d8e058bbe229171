//! The life of a connection (RFC 9000 section 10) as a private state machine: all transitions are
//! here; sends nothing.

use std::time::Instant;

use crate::ConnectionError;

/// Where the connection stands.
pub(crate) struct State(Inner);

enum Inner {
    /// TLS is under way.
    Handshaking,
    /// TLS is complete.
    Established,
    /// We closed: CONNECTION_CLOSE is repeated to a peer that goes on sending.
    Closing { close: CloseFrame, until: Instant },
    /// The peer closed, or reset: nothing is sent.
    Draining { until: Instant },
    /// Over.
    Drained,
}

/// What we tell the peer when closing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseFrame {
    Transport(crate::TransportError),
    Application(crate::ApplicationClose),
}

impl State {
    pub(crate) const fn new() -> Self {
        Self(Inner::Handshaking)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.0, Inner::Handshaking)
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.0, Inner::Established)
    }

    /// Neither closing nor beyond.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.0, Inner::Handshaking | Inner::Established)
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.0, Inner::Closing { .. })
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.0, Inner::Drained)
    }

    pub(crate) fn establish(&mut self) {
        if self.is_handshaking() {
            self.0 = Inner::Established;
        }
    }

    /// RFC 9000 section 10.2.1. No effect unless alive.
    pub(crate) fn close(&mut self, close: CloseFrame, until: Instant) {
        if self.is_alive() {
            self.0 = Inner::Closing { close, until };
        }
    }

    /// RFC 9000 section 10.2.2: also from closing, when the peer's close arrives.
    pub(crate) fn drain(&mut self, until: Instant) {
        match self.0 {
            Inner::Handshaking | Inner::Established => self.0 = Inner::Draining { until },
            Inner::Closing { until, .. } => self.0 = Inner::Draining { until },
            Inner::Draining { .. } | Inner::Drained => {}
        }
    }

    /// Over at once; true if it was not before.
    pub(crate) fn end(&mut self) -> bool {
        let was = !self.is_drained();
        self.0 = Inner::Drained;
        was
    }

    pub(crate) fn timer(&self) -> Option<Instant> {
        match self.0 {
            Inner::Closing { until, .. } | Inner::Draining { until } => Some(until),
            _ => None,
        }
    }

    pub(crate) fn close_frame(&self) -> Option<&CloseFrame> {
        match &self.0 {
            Inner::Closing { close, .. } => Some(close),
            _ => None,
        }
    }
}

/// What the application learns when this side closes for an error of the peer's.
pub(crate) fn reason(close: &CloseFrame) -> ConnectionError {
    match close {
        CloseFrame::Transport(error) => ConnectionError::TransportError(error.clone()),
        CloseFrame::Application(_) => ConnectionError::LocallyClosed,
    }
}
