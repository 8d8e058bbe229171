//! What the shards of an endpoint have in common: which datagram is whose, and how many connections are complete.

mod census;
mod network;
mod reset_tokens;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use rand::rngs::StdRng;

pub use census::ConnectionCount;
pub(crate) use census::{Census, Counted, Limits};
pub(crate) use network::Network;
#[cfg(test)]
pub(crate) use reset_tokens::KEPT;
pub(crate) use reset_tokens::{KeyedHash, ResetTokens, shrink};

use crate::cid::{ResetToken, Steering};

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
    /// The first of several, which share how connection IDs lead to them.
    pub(crate) fn first(steering: Arc<Steering>, rng: &mut StdRng) -> Self {
        let common = Common {
            steering,
            tokens: RwLock::new(ResetTokens::new(rng)),
            census: Arc::default(),
        };
        Self {
            index: 0,
            common: Arc::new(common),
        }
    }

    /// Another one of them.
    pub(crate) fn sibling(&self, index: u16) -> Self {
        Self {
            index,
            common: Arc::clone(&self.common),
        }
    }

    /// How connection IDs lead to all of them.
    pub(crate) fn steering(&self) -> &Steering {
        &self.common.steering
    }

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use rand::SeedableRng;

    use super::*;
    use crate::{ConfigError, ConnectionIdGenerator, EndpointConfig, QuicLb, QuicLbConfig, limits};

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
