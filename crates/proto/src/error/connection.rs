//! Why a connection ended, as the application sees it.

use mpquic_wire::{ApplicationClose, ConnectionClose, Escaped, TransportError};
use thiserror::Error;

use super::{FailedAttempt, PathError};

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server does not speak the version that the client began with
    /// ([`ClientConfig::version`](crate::ClientConfig::version)).
    #[error("the peer supports none of our QUIC versions")]
    VersionMismatch,
    /// The peer violated the protocol, or the handshake failed here. We closed the connection.
    #[error("{0}")]
    TransportError(#[from] TransportError),
    /// The peer's transport closed the connection.
    #[error("closed by the peer's transport: {} ({})", .0.error_code, Escaped::new(&.0.reason))]
    ConnectionClosed(ConnectionClose),
    /// The peer's application closed the connection.
    #[error("closed by the peer's application: code {} ({})", .0.error_code, Escaped::new(&.0.reason))]
    ApplicationClosed(ApplicationClose),
    /// The peer has lost the connection's state (stateless reset, RFC 9000 section 10.3).
    #[error("reset by the peer")]
    Reset,
    /// Nothing was received for the idle timeout (RFC 9000 section 10.1), or the handshake was not complete in time
    /// ([`ClientConfig::handshake_timeout`](crate::ClientConfig::handshake_timeout)).
    #[error("timed out")]
    TimedOut,
    /// The peer took what was written more slowly than
    /// [`TransportConfig::min_peer_rate`](crate::TransportConfig::min_peer_rate) lets it. We closed the
    /// connection.
    #[error("the peer is too slow")]
    TooSlow,
    /// No address at which the peer can be reached is validated, and none could be (RFC 9000 section 9.3.2). The peer is
    /// not told.
    #[error("the peer can be reached at no address that is validated")]
    NoValidatedPath,
    /// The last address of ours that the connection used is gone, and it cannot go on from another one. The peer is not told.
    #[error(
        "the local address {local} is gone, and the connection cannot go on from another one: {reason}"
    )]
    LocalAddressLost {
        /// The address that is gone.
        local: std::net::SocketAddr,
        /// Why there is no other.
        #[source]
        reason: PathError,
    },
    /// No address of the server could be reached from any of ours. Each pair of addresses that was tried is listed, in
    /// the order in which they were given.
    #[error("the server could not be reached{}", FailedAttempt::list(.0))]
    Unreachable(std::sync::Arc<[FailedAttempt]>),
    /// This side closed the connection.
    #[error("closed locally")]
    LocallyClosed,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mpquic_sched_core::{TransportErrorCode, VarInt};

    use super::*;
    use crate::{AttemptError, ConfigError, ConnectError, FourTuple};

    /// A terminal's escape sequence, line breaks, a control of C1, an override of the direction, a separator, half a character.
    const HOSTILE: &[u8] = b"x\r\n203.0.113.9: sent secret\x1b[2J\x07\xc2\x9b2J\xe2\x80\xaetxt\xe2\x80\xa8\xe2\x81\xa6\xff";
    const SHOWN: &str =
        r"x\r\n203.0.113.9: sent secret\u{1b}[2J\u{7}\u{9b}2J\u{202e}txt\u{2028}\u{2066}";

    #[test]
    fn what_a_peer_wrote_is_shown_on_one_line_and_obeyed_by_no_terminal() {
        let reason = Bytes::from_static(HOSTILE);
        let text = || String::from_utf8_lossy(HOSTILE).into_owned();
        let closed = ConnectionError::ConnectionClosed(ConnectionClose {
            error_code: TransportErrorCode::NO_ERROR,
            frame_type: 0,
            reason: reason.clone(),
        });
        let application = ConnectionError::ApplicationClosed(ApplicationClose {
            error_code: VarInt::from_u32(1),
            reason,
        });
        let tls = ConnectionError::TransportError(TransportError::crypto(48, text()));
        let attempt = |reason| FailedAttempt {
            network_path: FourTuple {
                local: "192.0.2.1:1".parse().unwrap(),
                remote: "192.0.2.2:2".parse().unwrap(),
            },
            reason,
        };
        let attempts = [
            attempt(AttemptError::NotSent(text())),
            attempt(AttemptError::Ended(Box::new(application.clone()))),
        ];
        let unreachable = ConnectionError::Unreachable(attempts.to_vec().into());
        let errors: [&dyn std::error::Error; 8] = [
            &closed,
            &application,
            &tls,
            &attempts[0],
            &attempts[1],
            &unreachable,
            &ConnectError::InvalidServerName(text()),
            &ConfigError::Tls(text()),
        ];
        for error in errors {
            let shown = error.to_string();
            assert!(shown.contains(SHOWN), "{shown}");
            for text in [shown, format!("{error:?}")] {
                let misleads = |c: char| {
                    c.is_control()
                        || ('\u{2028}'..='\u{202e}').contains(&c)
                        || ('\u{2066}'..='\u{2069}').contains(&c)
                };
                assert!(!text.contains(misleads), "{text:?}");
            }
        }
    }
}
