//! Why a connection could not be begun from one address to another.

use std::fmt::Write;

use thiserror::Error;

use mpquic_wire::Escaped;

use super::ConnectionError;
use crate::FourTuple;

/// A pair of addresses between which no connection could be begun, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{network_path}: {reason}")]
#[non_exhaustive]
pub struct FailedAttempt {
    /// From where to where.
    pub network_path: FourTuple,
    /// Why it failed.
    #[source]
    pub reason: AttemptError,
}

/// Why a connection could not be begun between two addresses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// No packet came back.
    #[error("no answer")]
    NoAnswer,
    /// The server answered, and then nothing more came before the handshake was complete.
    #[error("an answer, and then none before the handshake was complete")]
    FellSilent,
    /// The handshake took too long over the addresses before these
    /// ([`ClientConfig::handshake_timeout`](crate::ClientConfig::handshake_timeout)).
    #[error("not tried within the time for the handshake")]
    NotTried,
    /// The system refused to send: in its words.
    #[error("not sent: {}", Escaped::new(.0))]
    NotSent(String),
    /// The server ended the attempt, or we did because of what it sent.
    #[error("{0}")]
    Ended(Box<ConnectionError>),
}

impl FailedAttempt {
    /// The attempts in words, to follow a sentence.
    pub(super) fn list(attempts: &[Self]) -> String {
        let mut text = String::new();
        for (number, attempt) in attempts.iter().enumerate() {
            let mark = if number == 0 { ": " } else { "; " };
            // Writing to a string does not fail.
            let _ = write!(text, "{mark}{attempt}");
        }
        text
    }
}
