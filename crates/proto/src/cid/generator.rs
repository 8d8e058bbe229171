//! Makes connection IDs of one length, random or as the application wants them.

use std::fmt;
use std::sync::Arc;

use mpquic_sched_core::ConnectionId;
use mpquic_wire::packet::MAX_CID_LEN;
use rand::Rng;
use rand::rngs::StdRng;

use super::Steering;

/// Makes the connection IDs by which peers address an endpoint, for something in front of it that routes packets by them,
/// such as a load balancer ([`EndpointConfig::connection_ids`](crate::EndpointConfig::connection_ids)).
///
/// All connection IDs of an endpoint come from it, on every path: what it writes into them is there whatever addresses a
/// client uses. [`QuicLb`](crate::QuicLb) is one, with the formats that balancers know.
///
/// A connection ID must not tell who watches that two of them are the same connection's (RFC 9000 section 5.1), and none
/// may be made twice.
pub trait ConnectionIdGenerator: fmt::Debug + Send + Sync {
    /// How long the connection IDs are, bytes. Always the same number, 4 to 20: others become the nearest of these.
    fn id_len(&self) -> usize;

    /// Makes a connection ID out of random bytes, [`id_len`](Self::id_len) of them. Bytes that it leaves stay random.
    ///
    /// An endpoint with several shards ([`EndpointConfig::into_shards`](crate::EndpointConfig::into_shards)) asks again
    /// until the connection ID is one that leads to the shard: on average as often as there are shards.
    fn write_id(&self, id: &mut [u8]);
}

/// The fewest bytes of connection IDs that an application makes: among fewer, chance finds one that another connection has.
const MIN_OWN_LEN: usize = 4;

/// How often a generator is asked for each shard of an endpoint until it has made an ID that leads there. With random IDs, chance
/// fails so often once in e^64 times.
const TRIES_PER_SHARD: usize = 64;

/// Makes connection IDs of one length, so that short headers can be parsed without state
/// (RFC 9000 section 10.3.2).
#[derive(Debug, Clone)]
pub(crate) struct CidGenerator {
    //= specs/rfc9000.txt#section-10.3.2
    //= type=implication
    //# An endpoint that uses this design MUST either use the same connection ID length for all
    //# connections or encode the length of the connection ID such that it can be recovered without
    //# state.
    len: usize,
    own: Option<Arc<dyn ConnectionIdGenerator>>,
    /// The shard to which the IDs are to lead.
    shard: Option<(Arc<Steering>, u16)>,
}

impl CidGenerator {
    /// IDs of `len` bytes. Multipath needs at least one (RFC 10069, initial_max_path_id); collisions must be as good as
    /// impossible, hence 8 by default.
    pub(crate) const fn new(len: usize) -> Self {
        Self {
            //= specs/rfc9000.txt#section-17.2
            //# In QUIC version 1, this value MUST NOT exceed 20 bytes.
            len: if len > MAX_CID_LEN { MAX_CID_LEN } else { len },
            own: None,
            shard: None,
        }
    }

    /// IDs that the application makes.
    pub(crate) fn own(own: Arc<dyn ConnectionIdGenerator>) -> Self {
        Self {
            len: own.id_len().clamp(MIN_OWN_LEN, MAX_CID_LEN),
            own: Some(own),
            shard: None,
        }
    }

    /// The same, but for IDs that lead to this shard.
    pub(crate) fn for_shard(&self, steering: &Arc<Steering>, index: u16) -> Self {
        Self {
            shard: Some((Arc::clone(steering), index)),
            ..self.clone()
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// A fresh ID. It carries no information that links it to others (RFC 9000 section 5.1).
    pub(crate) fn generate(&self, rng: &mut StdRng) -> ConnectionId {
        // A generator that makes none for the shard was refused when the endpoint began.
        self.try_generate(rng).unwrap_or_else(|other| other)
    }

    /// A fresh ID, or as an error one that leads to another shard, if the generator makes no other.
    pub(crate) fn try_generate(&self, rng: &mut StdRng) -> Result<ConnectionId, ConnectionId> {
        let Some((steering, index)) = &self.shard else {
            return Ok(self.make(rng));
        };
        let mut id = self.make(rng);
        for _ in 1..TRIES_PER_SHARD * usize::from(steering.shards()) {
            if steering.shard(&id) == *index {
                break;
            }
            id = self.make(rng);
        }
        if steering.shard(&id) == *index {
            Ok(id)
        } else {
            Err(id)
        }
    }

    fn make(&self, rng: &mut StdRng) -> ConnectionId {
        let mut bytes = [0; MAX_CID_LEN];
        //= specs/rfc9000.txt#section-5.1
        //# Connection IDs MUST NOT contain any information that can be used by an external observer
        //# (that is, one that does not cooperate with the issuer) to correlate them with other
        //# connection IDs for the same connection.
        //= specs/rfc9000.txt#section-5.1
        //# As a trivial example, this means the same connection ID MUST NOT be issued more than
        //# once on the same connection.
        rng.fill_bytes(&mut bytes[..self.len]);
        if let Some(own) = &self.own {
            own.write_id(&mut bytes[..self.len]);
        }
        ConnectionId::new(&bytes[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::BTreeSet;

    //= specs/rfc9000.txt#section-5.1
    //= type=test
    //# As a trivial example, this means the same connection ID MUST NOT be issued more than once on
    //# the same connection.
    #[test]
    fn same_seed_same_ids_and_all_differ() {
        let (mut a, mut b) = (StdRng::seed_from_u64(7), StdRng::seed_from_u64(7));
        let generator = CidGenerator::new(8);
        let mut seen = BTreeSet::new();
        for _ in 0..10_000 {
            let id = generator.generate(&mut a);
            assert_eq!(id.len(), 8);
            assert_eq!(id, generator.generate(&mut b));
            assert!(seen.insert(id));
        }
    }

    //= specs/rfc9000.txt#section-17.2
    //= type=test
    //# In QUIC version 1, this value MUST NOT exceed 20 bytes.
    #[test]
    fn length_is_capped() {
        let mut rng = StdRng::seed_from_u64(0);
        assert_eq!(CidGenerator::new(255).generate(&mut rng).len(), MAX_CID_LEN);
    }
}
