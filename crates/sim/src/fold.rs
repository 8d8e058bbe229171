//! A fast 128-bit hash of words. Different sequences give different results except by chance; it
//! does not resist attacks.

/// The construction of MurmurHash3's 128-bit variant for 64-bit machines, over words instead of
/// bytes: two lanes are multiplied, rotated and mixed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    lanes: [u64; 2],
    count: u64,
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

impl Fold {
    pub(crate) const fn new() -> Self {
        Self {
            lanes: [0; 2],
            count: 0,
        }
    }

    /// Adds a record.
    #[inline]
    pub(crate) const fn add(&mut self, record: [u64; 8]) {
        let [mut a, mut b] = self.lanes;
        let mut at = 0;
        while at < record.len() {
            let (first, second) = (record[at], record[at + 1]);
            a ^= first.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
            a = a.rotate_left(27).wrapping_add(b);
            a = a.wrapping_mul(5).wrapping_add(0x52dc_e729);
            b ^= second.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
            b = b.rotate_left(31).wrapping_add(a);
            b = b.wrapping_mul(5).wrapping_add(0x3849_5ab5);
            at += 2;
        }
        self.lanes = [a, b];
        self.count += 1;
    }

    /// The hash of everything added so far.
    pub(crate) const fn finish(&self) -> u128 {
        let [a, b] = self.lanes;
        let (a, b) = (a ^ self.count, b ^ self.count);
        let a = a.wrapping_add(b);
        let b = b.wrapping_add(a);
        let (a, b) = (avalanche(a), avalanche(b));
        let a = a.wrapping_add(b);
        let b = b.wrapping_add(a);
        (a as u128) << 64 | b as u128
    }
}

/// Each input bit changes half of the output bits.
const fn avalanche(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(records: &[[u64; 8]]) -> u128 {
        let mut fold = Fold::new();
        records.iter().for_each(|record| fold.add(*record));
        fold.finish()
    }

    #[test]
    fn each_bit_changes_about_half_of_the_result() {
        let base = [[3; 8], [5; 8]];
        let result = fold(&base);
        for bit in 0..8 * 64 {
            let mut changed = base;
            changed[0][bit / 64] ^= 1 << (bit % 64);
            let differ = (fold(&changed) ^ result).count_ones();
            assert!((32..=96).contains(&differ), "bit {bit}: {differ}");
        }
    }

    #[test]
    fn order_and_number_count() {
        let (a, b) = ([1; 8], [2; 8]);
        let mut results = vec![
            fold(&[]),
            fold(&[[0; 8]]),
            fold(&[[0; 8]; 2]),
            fold(&[a, b]),
            fold(&[b, a]),
            fold(&[a]),
            fold(&[b]),
        ];
        results.sort_unstable();
        results.dedup();
        assert_eq!(results.len(), 7);
    }

    #[test]
    fn small_records_do_not_collide() {
        let mut results: Vec<_> = (0..100_000_u64)
            .map(|i| fold(&[[1, i * 1000, i % 2, 0, 1200, i % 7, 0, 0]]) as u64)
            .collect();
        results.sort_unstable();
        results.dedup();
        // Half of the result is enough to distinguish them.
        assert_eq!(results.len(), 100_000);
    }
}
