//! A seeded stream of random numbers; not for secrets.

/// SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014):
/// eight bytes of state, and the same numbers on every machine.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Draw(u64);

impl Draw {
    /// The stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p`: never for 0, always for 1.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_published_sequence() {
        // The first outputs for seed 1234567, as published with the algorithm's reference code.
        let mut draw = Draw::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| draw.bits()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn chances_come_out() {
        let mut draw = Draw::new(42);
        let mut count = |p| (0..100_000).filter(|_| draw.chance(p)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 100_000));
        // Five standard deviations of a binomial: 5 · √(100000 · 0.73 · 0.27) = 702.
        assert!(count(0.73).abs_diff(73_000) < 702);
    }
}
