//! What both ends set of the transport.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic::{TransportConfig, sched::Registry};

use crate::error::Error;

/// TCP connections and UDP associations of a client at a time.
const STREAMS: u64 = 4096;
/// A connection without an answer for so long is over.
const IDLE: Duration = Duration::from_secs(30);
/// How often it asks for one.
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// Datagrams that wait in either direction, bytes.
const DATAGRAMS: usize = 4 << 20;

/// The scheduler and the congestion controller by which an end sends.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// The scheduler's name; without one, that of the library.
    pub scheduler: Option<String>,
    /// The controller's name; without one, that of the library.
    pub congestion: Option<String>,
}

impl Transport {
    pub(crate) fn config(&self) -> Result<TransportConfig, Error> {
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(STREAMS)
            .max_concurrent_uni_streams(0)
            .max_idle_timeout(Some(IDLE))
            .keep_alive_interval(Some(KEEP_ALIVE))
            .datagram_receive_buffer(Some(DATAGRAMS))
            .datagram_send_buffer(DATAGRAMS);
        if let Some(name) = &self.scheduler {
            let factory = Registry::new().factory(name, &Default::default());
            config.scheduler(factory.map_err(|error| Error::Argument(error.to_string()))?);
        }
        if let Some(name) = &self.congestion {
            let control: mpquic::CongestionControl = name
                .parse()
                .map_err(|error| Error::Argument(format!("{error}")))?;
            config.congestion(control);
        }
        Ok(config)
    }
}

pub(crate) fn tls(error: impl std::fmt::Display) -> Error {
    Error::Argument(format!("TLS: {error}"))
}

pub(crate) fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
