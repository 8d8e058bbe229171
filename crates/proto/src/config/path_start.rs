//! From when a client may open paths; no behaviour.

/// From when a client may open further paths, and a server names connection IDs for them.
///
/// A further path takes one and a half of its own round trips until a server may send data on it (RFC 10069, Path
/// Initiation and Validation). This is what they are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PathStart {
    /// The handshake is complete: after one round trip for the client (RFC 10069, Path Management). A server issues
    /// the connection IDs of the first further paths in its first 1-RTT packet, before it has heard the client's
    /// Finished, so that they lie ready; a client opens its paths together with its Finished.
    Complete,
    /// The handshake is confirmed (RFC 9001 section 4.1.2): after two round trips for the client.
    #[default]
    Confirmed,
}
