//! The settings of the shards of an endpoint.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{ConfigError, EndpointConfig};
use crate::cid::Steering;
use crate::limits;
use crate::shards::Shard;

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
        let first = Shard::first(Arc::clone(&steering), &mut rng);
        self.token_key.get_or_insert_with(|| self.seed.clone());
        self.reset_key.get_or_insert_with(|| self.seed.clone());
        self.send_memory /= u64::from(count);
        self.receive_memory /= u64::from(count);
        let shard = |index| {
            let mut config = self.clone();
            *config.seed = rng.random();
            config.cids = self.cids.for_shard(&steering, index);
            config.shard = Some(first.sibling(index));
            match config.cids.try_generate(&mut rng) {
                Ok(_) => Ok(config),
                Err(_) => Err(ConfigError::UnsteerableIds { shard: index }),
            }
        };
        (0..count).map(shard).collect()
    }

    /// Finds the shard of a datagram, if these are the settings of a shard.
    pub fn steering(&self) -> Option<&Steering> {
        self.shard.as_ref().map(Shard::steering)
    }
}
