//! The QUIC bit of the packets that are sent to a peer that takes either value of it (RFC 9287 section 3.1).

use super::FIXED_BIT;

/// What the QUIC bit of the next packet is. Set, until the peer has said that it need not be.
#[derive(Debug, Default)]
pub struct QuicBit {
    /// Of a xorshift generator; 0 while the bit is set.
    state: u64,
}

impl QuicBit {
    /// The peer has sent grease_quic_bit. The bits follow from `seed`, which no observer knows: drawing each of them
    /// from the random numbers of the connection would cost more than the bit is worth.
    pub const fn start(&mut self, seed: [u8; 16]) {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        self.state = u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1;
    }

    /// Gives the first byte of a packet, whose header is not yet protected, its QUIC bit.
    #[inline]
    pub const fn apply(&mut self, first: &mut u8) {
        if self.state == 0 {
            return;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        if self.state >> 63 == 0 {
            *first &= !FIXED_BIT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Only that bit is touched, only when the peer takes it, and both values come without a period that shows.
        #[test]
        fn both_values_once_the_peer_takes_them(seed in any::<[u8; 16]>(), byte in any::<u8>()) {
            let mut bit = QuicBit::default();
            let draw = |bit: &mut QuicBit| {
                let mut first = byte | FIXED_BIT;
                bit.apply(&mut first);
                assert_eq!(first | FIXED_BIT, byte | FIXED_BIT);
                first & FIXED_BIT != 0
            };
            prop_assert!((0..100).all(|_| draw(&mut bit)));
            bit.start(seed);
            // The first few of a seed with few bits are alike.
            let drawn: Vec<_> = (0..1064).map(|_| draw(&mut bit)).skip(64).collect();
            let set = drawn.iter().filter(|set| **set).count();
            prop_assert!((350..650).contains(&set), "{set} of 1000");
            prop_assert!((1..100).all(|period| drawn[..800] != drawn[period..][..800]));
        }
    }
}
