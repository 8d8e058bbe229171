//! From when a client may open paths, and whose data may use them before they are validated.

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

/// Whose data may use a further path before it is validated, a round trip earlier. See
/// [`TransportConfig::early_path_data`](crate::TransportConfig::early_path_data).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EarlyPathData {
    /// Nobody's: both sides wait for the validation (RFC 10069, Path Initiation and Validation).
    Never,
    /// A client's, on paths that it opens to the address at which the server has completed the handshake. It is the server
    /// that must hold back, because a client may lie about its address; the client knows whom it sends to. What it risks are
    /// the packets of an initial window, if nothing gets through.
    ///
    /// Only once the handshake is confirmed, for until then a server drops most of what overtakes the Finished; and only
    /// while eight initial windows of data wait, for nothing is known of the path, and the end of a transfer would come late
    /// on a slow one.
    #[default]
    Client,
    /// A server's too, where its client has this setting as well: at most three times the bytes that came from the
    /// unvalidated address (RFC 9000 section 8; RFC 10069, Relation to Probing and Migration: "any frame can be sent on a
    /// new path with a new path ID at any time as long as the anti-amplification limits [...] are respected").
    Both,
}
