//! Async multipath QUIC for tokio.
