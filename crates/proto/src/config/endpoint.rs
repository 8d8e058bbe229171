//! Settings of an endpoint, shared by all its connections; no behaviour.

use std::fmt;

/// Settings of an endpoint.
#[derive(Clone)]
pub struct EndpointConfig {
    pub(crate) cid_len: usize,
    pub(crate) max_udp_payload_size: u16,
    pub(crate) seed: [u8; 32],
}

impl EndpointConfig {
    /// The default settings with this seed. The seed determines everything random: connection IDs,
    /// stateless reset keys, PATH_CHALLENGE data, skipped packet numbers. In production it must be
    /// secret and used once. In a simulation, the same seed gives the same run.
    pub const fn new(seed: [u8; 32]) -> Self {
        Self {
            //= specs/rfc10069-draft.md#nego
            //= type=implication
            //# When advertising the initial_max_path_id transport parameter, endpoints MUST use
            //# Source and Destination Connection IDs with non-zero lengths.
            cid_len: 8,
            max_udp_payload_size: 65527,
            seed,
        }
    }

    /// The largest UDP payload that this endpoint accepts (RFC 9000 section 18.2).
    /// Default 65527; a value below 1200 becomes 1200.
    pub const fn max_udp_payload_size(&mut self, bytes: u16) -> &mut Self {
        self.max_udp_payload_size = if bytes < 1200 { 1200 } else { bytes };
        self
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed is a secret.
        f.debug_struct("EndpointConfig")
            .field("cid_len", &self.cid_len)
            .field("max_udp_payload_size", &self.max_udp_payload_size)
            .finish_non_exhaustive()
    }
}
