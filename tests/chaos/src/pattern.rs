//! Bytes that follow from a seed, so that both ends know each of them.

/// The bytes of a seed, from the first one on.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    state: u64,
    left: [u8; 8],
    used: usize,
}

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            left: [0; 8],
            used: 8,
        }
    }

    /// A number that follows from the seed.
    pub(crate) fn sample(seed: u64) -> u64 {
        let mut word = [0; 8];
        Self::new(seed).fill(&mut word);
        u64::from_le_bytes(word)
    }

    /// The next ones.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == 8 {
                // SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut word = self.state;
                word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                self.left = (word ^ (word >> 31)).to_le_bytes();
                self.used = 0;
            }
            *byte = self.left[self.used];
            self.used += 1;
        }
    }

    /// How many of these bytes are not the next ones.
    pub(crate) fn wrong(&mut self, bytes: &[u8], scratch: &mut Vec<u8>) -> u64 {
        scratch.resize(bytes.len(), 0);
        self.fill(scratch);
        let pairs = bytes.iter().zip(scratch.iter());
        pairs.filter(|(came, due)| came != due).count() as u64
    }
}
