//! What a user sets: of the endpoint, of a client or server, of the transport; no behaviour.

mod client;
mod endpoint;
mod server;
mod transport;

pub use client::ClientConfig;
pub use endpoint::EndpointConfig;
pub use mpquic_sched_core::SchedulerFactory;
pub use server::ServerConfig;
pub use transport::TransportConfig;

use thiserror::Error;

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number is outside what the protocol or this implementation allows.
    #[error("{name} is {value}, expected {expected}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// What would have been right.
        expected: &'static str,
    },
    /// The TLS configuration lacks TLS 1.3 with a cipher suite for QUIC Initial packets.
    #[error("the TLS configuration offers no TLS 1.3 cipher suite that QUIC can use")]
    NoInitialCipherSuite,
    /// The TLS configuration was refused by rustls.
    #[error("TLS: {0}")]
    Tls(String),
}
