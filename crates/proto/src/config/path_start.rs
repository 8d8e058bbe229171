//! From when a client may open paths.

/// From when a client may open further paths, and a server names connection IDs for them.
///
/// A further path takes one and a half of its own round trips until a server may send data on it (RFC 10069, Path
/// Initiation and Validation). This is what they are counted from.
///
/// RFC 10069 counts from the end of the handshake: "after completing the handshake indicating multipath support,
/// endpoints can start using multiple paths" (Path Management). For a client, the handshake is complete one round trip
/// before it is confirmed (RFC 9001 section 4.1). RFC 9000 section 9 has a client wait for the confirmation before it
/// migrates, because until then an address could change beneath the handshake itself. A further path leaves the
/// addresses of the handshake as they are, and its packets have keys and packet numbers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PathStart {
    /// The handshake is complete: after one round trip for the client. A server issues the connection IDs of the first
    /// further paths in its first 1-RTT packet, before it has heard the client's Finished, so that they lie ready. A
    /// client opens its paths together with its Finished; their first packets repeat its own connection IDs for them,
    /// because they may overtake the packet that has them. A server keeps what comes before the Finished, within
    /// [`limits::MAX_UNDECRYPTABLE_PER_FURTHER_PATH`](crate::limits::MAX_UNDECRYPTABLE_PER_FURTHER_PATH), and reads it
    /// after that (RFC 9001 section 5.7).
    ///
    /// A peer that issues no connection IDs so early is waited for. If a peer refuses such a path, no other is opened
    /// before the handshake is confirmed.
    #[default]
    Complete,
    /// The handshake is confirmed (RFC 9001 section 4.1.2): after two round trips for the client.
    Confirmed,
}
