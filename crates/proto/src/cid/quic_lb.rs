//! Connection IDs by which load balancers find a server (QUIC-LB, draft-ietf-quic-load-balancers).

use std::fmt;
use std::sync::{PoisonError, RwLock};

use thiserror::Error;

use super::ConnectionIdGenerator;
#[cfg(feature = "quic-lb")]
use super::quic_lb_cipher::{Cipher, Nonces};

/// The most bytes of server ID and nonce together (section "Configuration Agent Actions").
pub(super) const MAX_PLAINTEXT: usize = 19;

/// The fewest bytes of a nonce (the same section).
const MIN_NONCE: usize = 4;

/// Of the bits for the configuration: no balancer can route it (section "Configuration Failover").
const UNROUTABLE: u8 = 0b111;

/// Why a configuration cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuicLbError {
    /// The three bits 0b111 are reserved for connection IDs that cannot be routed.
    #[error("the identifier of a QUIC-LB configuration is 0 to 6, not {0}")]
    Rotation(u8),
    /// A server ID has at least one byte.
    #[error("the server ID is empty")]
    NoServerId,
    /// A nonce has at least four bytes.
    #[error("a nonce of {0} bytes is too short: at least 4")]
    ShortNonce(usize),
    /// A connection ID has at most 20 bytes, and the first one is none of theirs.
    #[error("server ID and nonce have {0} bytes together: at most 19")]
    Long(usize),
    /// A configuration can only be replaced by one with connection IDs of the same length.
    #[error(
        "connection IDs of {new} bytes cannot replace those of {old}: packets are parsed by their length"
    )]
    OtherLength {
        /// The length in use, bytes.
        old: usize,
        /// The length refused, bytes.
        new: usize,
    },
}

/// One configuration of QUIC-LB, as this server has it. All servers behind a balancer have the same, but for the server
/// ID.
#[derive(Clone)]
pub struct QuicLbConfig {
    rotation: u8,
    server_id: Vec<u8>,
    nonce_len: usize,
    #[cfg(feature = "quic-lb")]
    key: Option<[u8; 16]>,
    encodes_length: bool,
}

impl QuicLbConfig {
    /// The configuration with this identifier (0 to 6, in the first three bits of each connection ID), in which this
    /// server has this ID. A connection ID has one byte more than the server ID and the nonce of `nonce_len` bytes
    /// together.
    ///
    /// Without a key, nonces are random: choose at least 8 bytes, so that none comes twice, and know that who watches sees
    /// which server a client talks to. With a key (`key`, feature `quic-lb`) they count up, and 4 bytes are enough for four
    /// thousand million connection IDs.
    pub fn new(rotation: u8, server_id: &[u8], nonce_len: usize) -> Self {
        Self {
            rotation,
            server_id: server_id.to_vec(),
            nonce_len,
            #[cfg(feature = "quic-lb")]
            key: None,
            encodes_length: false,
        }
    }

    /// The key with which balancers decrypt server IDs. Without one, who watches sees which server a client talks to, and
    /// can tell by it that two addresses may be the same client's.
    #[cfg(feature = "quic-lb")]
    pub fn key(&mut self, key: [u8; 16]) -> &mut Self {
        self.key = Some(key);
        self
    }

    /// Whether the first byte tells the length of the connection ID, as some hardware wants it. Default: random bits.
    pub fn encodes_length(&mut self, encodes: bool) -> &mut Self {
        self.encodes_length = encodes;
        self
    }

    fn plaintext_len(&self) -> usize {
        self.server_id.len().saturating_add(self.nonce_len)
    }

    fn check(&self) -> Result<(), QuicLbError> {
        if self.rotation >= UNROUTABLE {
            return Err(QuicLbError::Rotation(self.rotation));
        }
        if self.server_id.is_empty() {
            return Err(QuicLbError::NoServerId);
        }
        if self.nonce_len < MIN_NONCE {
            return Err(QuicLbError::ShortNonce(self.nonce_len));
        }
        match self.plaintext_len() {
            long if long > MAX_PLAINTEXT => Err(QuicLbError::Long(long)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for QuicLbConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("QuicLbConfig")
            .field("rotation", &self.rotation)
            .field("server_id", &self.server_id)
            .field("nonce_len", &self.nonce_len)
            .finish_non_exhaustive()
    }
}

/// Makes connection IDs of one QUIC-LB configuration at a time, for any number of endpoints.
///
/// ```
/// use std::sync::Arc;
///
/// use mpquic_proto::{EndpointConfig, QuicLb, QuicLbConfig};
///
/// let ids = Arc::new(QuicLb::new(&QuicLbConfig::new(0, &[0, 7], 8))?);
/// let mut endpoint = EndpointConfig::new([7; 32]);
/// endpoint.connection_ids(ids.clone());
/// // Later, when the balancers know the next configuration:
/// ids.replace(&QuicLbConfig::new(1, &[0, 7], 8))?;
/// # Ok::<(), mpquic_proto::QuicLbError>(())
/// ```
pub struct QuicLb {
    active: RwLock<Active>,
    len: usize,
}

/// The configuration in use.
struct Active {
    config: QuicLbConfig,
    #[cfg(feature = "quic-lb")]
    cipher: Option<Cipher>,
    #[cfg(feature = "quic-lb")]
    nonces: Nonces,
}

impl Active {
    fn new(config: &QuicLbConfig) -> Self {
        Self {
            #[cfg(feature = "quic-lb")]
            cipher: config.key.as_ref().map(Cipher::new),
            #[cfg(feature = "quic-lb")]
            nonces: Nonces::default(),
            config: config.clone(),
        }
    }

    /// Replaces random bytes with a connection ID.
    fn write(&self, id: &mut [u8]) {
        let config = &self.config;
        let random = id.first().copied().unwrap_or_default();
        let length = id.len().saturating_sub(1) as u8;
        let Some((first, block)) = id.split_first_mut() else {
            return;
        };
        if block.len() != config.plaintext_len() {
            return;
        }
        let low = if config.encodes_length {
            length
        } else {
            random
        };
        *first = config.rotation << 5 | (low & 0x1f);
        let at = config.server_id.len();
        #[cfg(feature = "quic-lb")]
        if self.cipher.is_some() && !self.nonces.next(&mut block[at..]) {
            // Section "Connection ID Entropy": a server that has exhausted its nonces uses the reserved identifier, and
            // such a connection ID encodes its length. What is left of it is random.
            *first = UNROUTABLE << 5 | length;
            return;
        }
        block[..at].copy_from_slice(&config.server_id);
        #[cfg(feature = "quic-lb")]
        if let Some(cipher) = &self.cipher {
            cipher.encrypt(block);
        }
    }
}

impl QuicLb {
    /// Connection IDs of this configuration.
    ///
    /// # Errors
    ///
    /// If the draft forbids the configuration.
    pub fn new(config: &QuicLbConfig) -> Result<Self, QuicLbError> {
        config.check()?;
        Ok(Self {
            len: 1 + config.plaintext_len(),
            active: RwLock::new(Active::new(config)),
        })
    }

    /// Makes connection IDs of another configuration from now on. Those that were issued stay valid until they are
    /// retired: balancers must know both configurations, which the first three bits tell apart, until the last
    /// connection of the old one is over.
    ///
    /// # Errors
    ///
    /// If the draft forbids the configuration, or its connection IDs have another length.
    pub fn replace(&self, config: &QuicLbConfig) -> Result<(), QuicLbError> {
        config.check()?;
        let (old, new) = (self.len, 1 + config.plaintext_len());
        if old != new {
            return Err(QuicLbError::OtherLength { old, new });
        }
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Active::new(config);
        Ok(())
    }
}

impl ConnectionIdGenerator for QuicLb {
    fn id_len(&self) -> usize {
        self.len
    }

    fn write_id(&self, id: &mut [u8]) {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        active.write(id);
    }
}

impl fmt::Debug for QuicLb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("QuicLb").field(&active.config).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// The connection ID with this nonce as the first one.
    fn id(rotation: u8, server_id: &str, nonce: &str, key: Option<&str>) -> Vec<u8> {
        let (server_id, nonce) = (bytes(server_id), bytes(nonce));
        let mut config = QuicLbConfig::new(rotation, &server_id, nonce.len());
        config.encodes_length(true);
        #[cfg(feature = "quic-lb")]
        if let Some(key) = key {
            config.key(bytes(key).try_into().unwrap());
        }
        #[cfg(not(feature = "quic-lb"))]
        assert_eq!(key, None);
        let ids = QuicLb::new(&config).unwrap();
        let mut id = vec![0xff; ids.id_len()];
        id[1 + server_id.len()..].copy_from_slice(&nonce);
        ids.write_id(&mut id);
        id
    }

    /// Appendix "Load Balancer Test Vectors". Left out: the second unencrypted one, whose nonce has nine digits. In the last
    /// one, the first byte has the identifier in two bits, as earlier versions of the draft had it.
    #[test]
    fn test_vectors_of_the_draft() {
        let key = Some("8f95f09245765f80256934e50c66207f");
        let vectors = [
            (0, "c4605e", "4504cc4f", None, "07c4605e4504cc4f"),
            (0, "ed793a", "ee080dbf", key, "0720b1d07b359d3c"),
            (
                1,
                "ed793a51d49b8f5fab65",
                "ee080dbf48",
                key,
                "2fcc381bc74cb4fbad2823a3d1f8fed2",
            ),
            (
                2,
                "ed793a51d49b8f5f",
                "ee080dbf48c0d1e5",
                key,
                "504dd2d05a7b0de9b2b9907afb5ecf8cc3",
            ),
            (
                0,
                "ed793a51d49b8f5fab",
                "ee080dbf48c0d1e55d",
                key,
                "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc",
            ),
            // The example of the section "Encryption Example".
            (
                0,
                "31441a",
                "9c69c275",
                Some("fdf726a9893ec05c0632d3956680baf0"),
                "0767947d29be054a",
            ),
        ];
        for (rotation, server_id, nonce, key, expected) in vectors {
            if key.is_some() && !cfg!(feature = "quic-lb") {
                continue;
            }
            assert_eq!(
                id(rotation, server_id, nonce, key),
                bytes(expected),
                "{expected}"
            );
        }
    }

    /// Every length, with a key: no two connection IDs are the same although the random bytes are.
    #[cfg(feature = "quic-lb")]
    #[test]
    fn nonces_do_not_repeat() {
        for nonce_len in MIN_NONCE..=17 {
            let mut config = QuicLbConfig::new(3, &[1, 2], nonce_len);
            config.key([9; 16]);
            let ids = QuicLb::new(&config).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..600 {
                let mut id = vec![0xff; ids.id_len()];
                ids.write_id(&mut id);
                assert_eq!(id[0] >> 5, 3);
                assert!(seen.insert(id));
            }
        }
    }

    #[cfg(feature = "quic-lb")]
    #[test]
    fn a_server_without_nonces_cannot_be_routed_to() {
        let mut config = QuicLbConfig::new(0, &[1], 4);
        config.key([9; 16]);
        let ids = QuicLb::new(&config).unwrap();
        let used = |count| {
            let active = ids.active.read().unwrap();
            active.nonces.skip(count);
        };
        let next = || {
            let mut id = [0x55; 6];
            ids.write_id(&mut id);
            id
        };
        used(u64::from(u32::MAX));
        assert_eq!(next()[0] >> 5, 0);
        let id = next();
        assert_eq!(id, [0xe5, 0x55, 0x55, 0x55, 0x55, 0x55]);
        // Another configuration has nonces of its own.
        ids.replace(QuicLbConfig::new(1, &[1], 4).key([8; 16]))
            .unwrap();
        assert_eq!(next()[0] >> 5, 1);
    }

    /// The bits of the configuration and the server ID are where balancers look for them, the rest is random.
    #[test]
    fn without_a_key_the_server_id_is_to_be_read() {
        let ids = QuicLb::new(&QuicLbConfig::new(0, &[1, 2], 8)).unwrap();
        let mut id = [0xab; 11];
        ids.write_id(&mut id);
        assert_eq!(id[..3], [0x0b, 1, 2]);
        assert_eq!(id[3..], [0xab; 8]);
        ids.replace(&QuicLbConfig::new(5, &[9, 8], 8)).unwrap();
        ids.write_id(&mut id);
        assert_eq!(id[..3], [0xab, 9, 8]);
        // Of another length than it was asked for, it writes nothing.
        let mut other = [0xcd; 7];
        ids.write_id(&mut other);
        assert_eq!(other, [0xcd; 7]);
    }

    #[test]
    fn what_the_draft_forbids_is_refused() {
        let refused = |config: QuicLbConfig| QuicLb::new(&config).unwrap_err();
        assert_eq!(
            refused(QuicLbConfig::new(7, &[1], 8)),
            QuicLbError::Rotation(7)
        );
        assert_eq!(
            refused(QuicLbConfig::new(0, &[], 8)),
            QuicLbError::NoServerId
        );
        assert_eq!(
            refused(QuicLbConfig::new(0, &[1], 3)),
            QuicLbError::ShortNonce(3)
        );
        assert_eq!(
            refused(QuicLbConfig::new(0, &[1; 10], 10)),
            QuicLbError::Long(20)
        );
        assert_eq!(
            refused(QuicLbConfig::new(0, &[1], usize::MAX)),
            QuicLbError::Long(usize::MAX)
        );
        let ids = QuicLb::new(&QuicLbConfig::new(0, &[1; 10], 9)).unwrap();
        assert_eq!(ids.id_len(), 20);
        assert_eq!(
            ids.replace(&QuicLbConfig::new(1, &[1], 8)),
            Err(QuicLbError::OtherLength { old: 20, new: 10 })
        );
        assert!(!format!("{ids:?}").contains("key"));
    }
}
