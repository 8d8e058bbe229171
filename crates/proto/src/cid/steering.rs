//! Which shard of an endpoint a datagram belongs to, by its connection ID alone.

use std::fmt;

use rand::RngExt;
use rand::rngs::StdRng;

use mpquic_wire::packet::MAX_CID_LEN;

/// Where the connection ID of a packet with a short header begins (RFC 8999 section 5.2).
const SHORT_HEADER: usize = 1;

/// Where the destination connection ID of a packet with a long header begins, whatever the version: after the first
/// byte, the version and the length (RFC 8999 section 5.1).
const LONG_HEADER: usize = 6;

/// The bit that tells a long header (RFC 8999 section 5.1).
const LONG_HEADER_BIT: u8 = 0x80;

/// The most pieces of which a connection ID is read.
const MAX_PIECES: usize = MAX_CID_LEN / 4 + 2;

/// A piece of a connection ID, a number in network byte order, and the factor that it counts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteeringPiece {
    /// Where it begins, bytes from the start of the connection ID.
    pub offset: u8,
    /// Its bytes: 4, 2 or 1.
    pub width: u8,
    /// What it is multiplied by, modulo 2^32. A secret.
    pub factor: u32,
}

/// Finds the shard of a datagram: a sum of the pieces of its connection ID, each times a secret factor, scaled to the
/// number of shards. Each shard of an endpoint makes connection IDs that lead back to it
/// ([`EndpointConfig::into_shards`](crate::EndpointConfig::into_shards)).
///
/// The number of the shard does not stand in the connection ID, since then it would tell two connections apart to who
/// watches (RFC 9000 section 5.1), and there might be no byte left for it. Who does not know the factors sees nothing.
///
/// The same sum can be done by a program in front of the sockets, such as one for the Berkeley Packet Filter: with
/// `base` 6 if the first bit of the datagram is set, else 1, let `h` be [`start`](Self::start) plus, for each of
/// [`pieces`](Self::pieces), the number at `base + offset` times the factor, all modulo 2^32. The shard is
/// `(h / 2^16 * shards) / 2^16`, or 0 if the datagram is too short.
#[derive(Clone, PartialEq, Eq)]
pub struct Steering {
    shards: u16,
    start: u32,
    pieces: [SteeringPiece; MAX_PIECES],
    count: usize,
}

impl Steering {
    /// For connection IDs of `id_len` bytes, with factors from `rng`.
    pub(crate) fn new(shards: u16, id_len: usize, rng: &mut StdRng) -> Self {
        let none = SteeringPiece {
            offset: 0,
            width: 0,
            factor: 0,
        };
        let (mut pieces, mut count, mut offset) = ([none; MAX_PIECES], 0, 0);
        while offset < id_len {
            let width = match id_len - offset {
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            pieces[count] = SteeringPiece {
                offset: offset as u8,
                width: width as u8,
                factor: rng.random(),
            };
            offset += width;
            count += 1;
        }
        Self {
            shards,
            start: rng.random(),
            pieces,
            count,
        }
    }

    /// The number of shards.
    pub const fn shards(&self) -> u16 {
        self.shards
    }

    /// What the sum begins with. A secret.
    pub const fn start(&self) -> u32 {
        self.start
    }

    /// The pieces of a connection ID.
    pub fn pieces(&self) -> &[SteeringPiece] {
        &self.pieces[..self.count]
    }

    /// The shard of this datagram, counted from 0.
    #[inline]
    pub fn shard_of(&self, datagram: &[u8]) -> u16 {
        let Some(first) = datagram.first() else {
            return 0;
        };
        let base = if first & LONG_HEADER_BIT == 0 {
            SHORT_HEADER
        } else {
            LONG_HEADER
        };
        datagram.get(base..).map_or(0, |rest| self.shard(rest))
    }

    /// The shard to which this connection ID leads.
    pub(crate) fn shard(&self, id: &[u8]) -> u16 {
        let mut sum = self.start;
        for piece in self.pieces() {
            let from = usize::from(piece.offset);
            let Some(bytes) = id.get(from..from + usize::from(piece.width)) else {
                return 0;
            };
            let number = bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte));
            sum = sum.wrapping_add(number.wrapping_mul(piece.factor));
        }
        (((sum >> 16) * u32::from(self.shards)) >> 16) as u16
    }
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The factors are a secret.
        f.debug_struct("Steering")
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn every_byte_counts_and_the_shards_have_equal_parts() {
        let mut rng = StdRng::seed_from_u64(3);
        for len in 1..=MAX_CID_LEN {
            for shards in [1, 2, 3, 8, 256] {
                let steering = Steering::new(shards, len, &mut rng);
                let covered: usize = steering.pieces().iter().map(|p| usize::from(p.width)).sum();
                assert_eq!(covered, len);
            }
        }
        let steering = Steering::new(4, 10, &mut rng);
        let mut counts = [0; 4];
        for number in 0..4000_u64 {
            // Consecutive numbers, as a generator that counts makes them.
            let id = [&[7, 7][..], &number.to_be_bytes()].concat();
            counts[usize::from(steering.shard(&id))] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn long_and_short_headers_lead_to_the_same_shard_and_scraps_to_the_first() {
        let mut rng = StdRng::seed_from_u64(4);
        let steering = Steering::new(16, 8, &mut rng);
        for number in 0..1000_u64 {
            let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let short = [&[0x41][..], &id, &[0; 20]].concat();
            let long = [&[0xc1, 0, 0, 0, 1, 8][..], &id, &[0; 20]].concat();
            assert_eq!(steering.shard_of(&short), steering.shard(&id));
            assert_eq!(steering.shard_of(&long), steering.shard(&id));
            assert!(steering.shard(&id) < 16);
            assert_eq!(steering.shard_of(&short[..8]), 0);
            assert_eq!(steering.shard_of(&long[..13]), 0);
        }
        assert_eq!(steering.shard_of(&[]), 0);
        assert_eq!(steering.shard_of(&[0x80]), 0);
    }
}
