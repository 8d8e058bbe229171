//! Whose stateless reset tokens are, in a table of whose hash clients know nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use rand::RngExt;
use rand::rngs::StdRng;
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::cid::ResetToken;

/// Whose a token is, with its address, behind a pseudorandom function: looking one up tells nothing
/// about the tokens, whatever its timing (RFC 9000 section 10.3.1, the second approach), and
/// costs the same however many there are.
pub(crate) struct ResetTokens<T> {
    table: HashMap<u128, T, KeyedHash>,
    key: [u8; 16],
}

impl<T: Copy + PartialEq> ResetTokens<T> {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        Self {
            table: HashMap::with_hasher(KeyedHash::new(rng)),
            key: rng.random(),
        }
    }

    pub(crate) fn get(&self, remote: SocketAddr, token: &ResetToken) -> Option<T> {
        if self.table.is_empty() {
            return None;
        }
        self.table.get(&self.image(remote, token)).copied()
    }

    /// The first comer keeps it.
    pub(crate) fn add(&mut self, remote: SocketAddr, token: &ResetToken, owner: T) {
        let image = self.image(remote, token);
        self.table.entry(image).or_insert(owner);
    }

    /// Removes it if it is still this one's.
    pub(crate) fn remove(&mut self, remote: SocketAddr, token: &ResetToken, owner: T) {
        let image = self.image(remote, token);
        if self.table.get(&image) == Some(&owner) {
            self.table.remove(&image);
            shrink(&mut self.table);
        }
    }

    /// Its entries, and those that it has room for.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.table.len(), self.table.capacity())
    }

    fn image(&self, remote: SocketAddr, token: &ResetToken) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        match remote.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write(&remote.port().to_be_bytes());
        hasher.write(token);
        hasher.finish128().as_u128()
    }
}

/// Places that a table keeps whatever it holds: what 512 buckets have.
pub(crate) const KEPT: usize = 448;

/// A table that a flood has filled does not keep its memory for ever. It shrinks to what twice as many entries need when
/// a sixteenth of it is in use: what moving them costs is spread over as many removals as there were.
pub(crate) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V, KeyedHash>) {
    if table.capacity() > KEPT.max(16 * table.len()) {
        table.shrink_to(KEPT.max(2 * table.len()));
    }
}

/// SipHash under a secret key that comes from the endpoint's seed: no ambient randomness.
pub(crate) struct KeyedHash([u8; 16]);

impl KeyedHash {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        Self(rng.random())
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::ConnectionId;
    use rand::SeedableRng;

    use super::*;

    /// IDs prepared to collide under a hash of known key spread evenly under ours.
    #[test]
    fn prepared_collisions_do_not_collide() {
        let known = KeyedHash([0; 16]);
        let prepared: Vec<_> = (0_u64..)
            .map(|n| ConnectionId::new(&n.to_be_bytes()))
            .filter(|id| known.hash_one(id) & 0xff == 0)
            .take(4096)
            .collect();
        for seed in 0..4 {
            let ours = KeyedHash::new(&mut StdRng::seed_from_u64(seed));
            let mut buckets = [0; 256];
            for id in &prepared {
                buckets[(ours.hash_one(id) & 0xff) as usize] += 1;
            }
            // 16 are expected in each.
            assert!(buckets.iter().all(|&count| count < 50));
        }
    }
}
