//! Endpoint, client, server and transport settings.

mod ack_frequency;
mod careful_resume;
mod client;
mod endpoint;
mod path_start;
mod provider;
mod race;
mod server;
mod session_memory;
mod shards;
mod tokens;
mod transport;

pub use ack_frequency::AckFrequencyConfig;
pub use careful_resume::{CarefulResumeConfig, Reconnaissance};
pub use client::ClientConfig;
pub use endpoint::EndpointConfig;
pub use mpquic_sched_core::SchedulerFactory;
pub use path_start::{EarlyPathData, PathStart};
pub use race::RaceConfig;
pub use server::ServerConfig;
pub use session_memory::SessionMemory;
pub use tokens::ValidationTokenConfig;
pub use transport::TransportConfig;

use std::time::Duration;

use thiserror::Error;

/// The longest time that a setting may have: sums of such times with a point in time overflow nowhere.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// The shortest interval of keep-alives. No NAT forgets sooner, nor does a radio fall asleep, and 20 datagrams per second are few.
pub(crate) const MIN_KEEP_ALIVE: Duration = Duration::from_millis(50);

/// The smallest window, bytes. With 0, data would wait for ever; with a few bytes, it would crawl at a few bytes per round trip.
pub(crate) const MIN_WINDOW: u64 = 512;

/// The shortest time for a handshake: that of networks within a room.
const MIN_HANDSHAKE: Duration = Duration::from_millis(10);

/// The time for a handshake: zero is no limit, which is a day here.
pub(crate) fn handshake_time(timeout: Duration) -> Duration {
    match timeout {
        Duration::ZERO => DAY,
        timeout => timeout.clamp(MIN_HANDSHAKE, DAY),
    }
}

/// Why a configuration was refused.
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
        /// The values that are allowed.
        expected: &'static str,
    },
    /// The TLS configuration lacks the TLS 1.3 cipher suite that protects Initial packets (RFC 9001
    /// section 5.2).
    #[error(
        "the TLS configuration has no TLS 1.3 cipher suite for QUIC Initial packets, expected TLS13_AES_128_GCM_SHA256"
    )]
    NoInitialCipherSuite,
    /// The generator of connection IDs makes none that leads to this shard: what it makes differs too little.
    #[error("the generator of connection IDs makes none that leads to shard {shard}")]
    UnsteerableIds {
        /// The shard, counted from 0.
        shard: u16,
    },
    /// rustls refused the certificates, the key or the roots.
    #[error("rustls refused the TLS configuration: {}", crate::Escaped::new(.0))]
    Tls(String),
}
