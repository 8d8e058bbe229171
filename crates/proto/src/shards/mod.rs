//! What the shards of an endpoint have in common: which datagram is whose, and how many connections are complete. The
//! settings of each.

mod census;
mod network;
mod reset_tokens;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use census::ConnectionCount;
pub(crate) use census::{Census, Counted};
pub(crate) use network::Network;
#[cfg(test)]
pub(crate) use reset_tokens::KEPT;
pub(crate) use reset_tokens::{KeyedHash, ResetTokens, shrink};

use crate::cid::{ResetToken, Steering};
use crate::{ConfigError, EndpointConfig, limits};

/// One of the shards of an endpoint.
#[derive(Clone)]
pub(crate) struct Shard {
    index: u16,
    common: Arc<Common>,
}

struct Common {
    steering: Arc<Steering>,
    /// Of the peers of all shards. A stateless reset has no connection ID by which it could find its shard. Only datagrams
    /// that belong to no connection of the shard that they lead to are looked up.
    tokens: RwLock<ResetTokens<u16>>,
    census: Arc<Census>,
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shard").field(&self.index).finish()
    }
}

impl Shard {
    /// The count of the connections of all shards.
    pub(crate) fn census(&self) -> Arc<Census> {
        Arc::clone(&self.common.census)
    }

    /// Whose this datagram is, if it is another's.
    #[inline]
    pub(crate) fn other(&self, datagram: &[u8]) -> Option<u16> {
        let shard = self.common.steering.shard_of(datagram);
        (shard != self.index).then_some(shard)
    }

    /// Whose connection is reset by a datagram with this token, if it is another's.
    pub(crate) fn other_reset(&self, remote: SocketAddr, token: &ResetToken) -> Option<u16> {
        let tokens = self.common.tokens.read();
        let tokens = tokens.unwrap_or_else(PoisonError::into_inner);
        let owner = tokens.get(remote, token)?;
        (owner != self.index).then_some(owner)
    }

    pub(crate) fn add_token(&self, remote: SocketAddr, token: &ResetToken) {
        let tokens = self.common.tokens.write();
        let mut tokens = tokens.unwrap_or_else(PoisonError::into_inner);
        tokens.add(remote, token, self.index);
    }

    pub(crate) fn remove_token(&self, remote: SocketAddr, token: &ResetToken) {
        let tokens = self.common.tokens.write();
        let mut tokens = tokens.unwrap_or_else(PoisonError::into_inner);
        tokens.remove(remote, token, self.index);
    }
}

impl EndpointConfig {
    /// The settings of the shards of one endpoint: several [`Endpoint`](crate::Endpoint)s with the same addresses, each with
    /// connections of its own, which share nothing while packets come and go. They may run on different cores.
    ///
    /// The connection IDs that a shard issues lead back to it, on all paths: [`steering`](Self::steering) finds the shard of
    /// a datagram. One that comes to another shard is returned by
    /// [`Endpoint::handle`](crate::Endpoint::handle) to be passed on.
    ///
    /// All have the same keys. Each gets a seed of its own and an equal part of
    /// [`send_memory`](Self::send_memory) and [`receive_memory`](Self::receive_memory). Limits of a
    /// [`ServerConfig`](crate::ServerConfig) hold for each shard by itself, but for those on complete connections
    /// ([`ServerConfig::max_connections`](crate::ServerConfig::max_connections)), which hold for all together.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mpquic_proto::{Endpoint, EndpointConfig};
    ///
    /// let shards: Vec<Endpoint> = EndpointConfig::new([7; 32])
    ///     .into_shards(4)?
    ///     .into_iter()
    ///     .map(|config| Endpoint::new(Arc::new(config), None))
    ///     .collect();
    /// assert_eq!(shards.len(), 4);
    /// # Ok::<(), mpquic_proto::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `count` is 0 or above [`MAX_SHARDS`](crate::limits::MAX_SHARDS), or the
    /// [generator](crate::ConnectionIdGenerator) makes no connection IDs that lead to one of the shards.
    pub fn into_shards(mut self, count: u16) -> Result<Vec<Self>, ConfigError> {
        if !(1..=limits::MAX_SHARDS).contains(&count) {
            return Err(ConfigError::OutOfRange {
                name: "shards",
                value: count.into(),
                expected: "1 to 256",
            });
        }
        if count == 1 {
            return Ok(vec![self]);
        }
        let mut rng = StdRng::from_seed(*self.seed);
        let steering = Arc::new(Steering::new(count, self.cids.len(), &mut rng));
        let common = Arc::new(Common {
            steering: Arc::clone(&steering),
            tokens: RwLock::new(ResetTokens::new(&mut rng)),
            census: Arc::default(),
        });
        self.token_key.get_or_insert_with(|| self.seed.clone());
        self.reset_key.get_or_insert_with(|| self.seed.clone());
        self.send_memory /= u64::from(count);
        self.receive_memory /= u64::from(count);
        let shard = |index| {
            let mut config = self.clone();
            *config.seed = rng.random();
            config.cids = self.cids.for_shard(&steering, index);
            config.shard = Some(Shard {
                index,
                common: Arc::clone(&common),
            });
            match config.cids.try_generate(&mut rng) {
                Ok(_) => Ok(config),
                Err(_) => Err(ConfigError::UnsteerableIds { shard: index }),
            }
        };
        (0..count).map(shard).collect()
    }

    /// Finds the shard of a datagram, if these are the settings of a shard.
    pub fn steering(&self) -> Option<&Steering> {
        let shard = self.shard.as_ref()?;
        Some(&shard.common.steering)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use crate::{ConnectionIdGenerator, QuicLb, QuicLbConfig};

    /// Leaves nothing to chance but one byte, which counts.
    #[derive(Debug)]
    struct Counter(AtomicU8);

    impl ConnectionIdGenerator for Counter {
        fn id_len(&self) -> usize {
            7
        }

        fn write_id(&self, id: &mut [u8]) {
            id.fill(0xab);
            id[3] = self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[derive(Debug)]
    struct Constant;

    impl ConnectionIdGenerator for Constant {
        fn id_len(&self) -> usize {
            8
        }

        fn write_id(&self, id: &mut [u8]) {
            id.fill(1);
        }
    }

    fn configs(ids: Option<Arc<dyn ConnectionIdGenerator>>) -> EndpointConfig {
        let mut config = EndpointConfig::new([9; 32]);
        if let Some(ids) = ids {
            config.connection_ids(ids);
        }
        config
    }

    #[test]
    fn whatever_makes_connection_ids_they_lead_back_to_the_shard() {
        let plain = QuicLb::new(&QuicLbConfig::new(2, &[7, 7, 7], 8)).unwrap();
        #[allow(unused_mut, reason = "without a key, it stays as it is")]
        let mut config = QuicLbConfig::new(2, &[7, 7, 7], 8);
        #[cfg(feature = "quic-lb")]
        config.key([3; 16]);
        let keyed = QuicLb::new(&config).unwrap();
        let generators: [Option<Arc<dyn ConnectionIdGenerator>>; 4] = [
            None,
            Some(Arc::new(plain)),
            Some(Arc::new(keyed)),
            Some(Arc::new(Counter(AtomicU8::new(0)))),
        ];
        let mut rng = StdRng::seed_from_u64(1);
        for ids in generators {
            for count in [2, 3, 8] {
                let shards = configs(ids.clone()).into_shards(count).unwrap();
                for (index, config) in shards.iter().enumerate() {
                    for _ in 0..30 {
                        let id = config.cids.generate(&mut rng);
                        let packet = [&[0x40][..], &id, &[0; 30]].concat();
                        for other in &shards {
                            let shard = other.steering().unwrap().shard_of(&packet);
                            assert_eq!(usize::from(shard), index, "{ids:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        for count in [0, limits::MAX_SHARDS + 1] {
            let refused = configs(None).into_shards(count).unwrap_err();
            assert!(matches!(refused, ConfigError::OutOfRange { .. }));
        }
        let constant = configs(Some(Arc::new(Constant))).into_shards(2);
        assert!(matches!(
            constant.unwrap_err(),
            ConfigError::UnsteerableIds { .. }
        ));
        // One shard is an endpoint as it always was.
        let single = configs(Some(Arc::new(Constant))).into_shards(1).unwrap();
        assert!(single[0].steering().is_none());
    }

    #[test]
    fn shards_differ_in_what_is_random_and_share_the_keys() {
        let shards = configs(None).into_shards(3).unwrap();
        for (index, shard) in shards.iter().enumerate() {
            assert!(shards[..index].iter().all(|other| other.seed != shard.seed));
            assert_eq!(shard.token_key.as_deref(), Some(&[9; 32]));
            assert_eq!(shard.reset_key.as_deref(), Some(&[9; 32]));
            assert_eq!(shard.send_memory, limits::DEFAULT_SEND_MEMORY / 3);
        }
    }
}
