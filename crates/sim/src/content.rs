//! Pseudo-random content that can be generated and verified from any offset: the payload of the transfers.

/// The odd constant of SplitMix64: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Word `index` of the content with this seed: SplitMix64's output function over a counter.
pub const fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The number of words: eight bytes each, over all offsets of a u64.
const WORDS: u64 = u64::MAX / 8 + 1;

/// How many bytes from `offset` on come before the next whole word, at most `len`.
const fn before_word(offset: u64, len: usize) -> usize {
    let head = (offset.wrapping_neg() % 8) as usize;
    if head < len { head } else { len }
}

/// Bytes within one word, starting at this offset.
fn part(seed: u64, offset: u64, len: usize) -> ([u8; 8], std::ops::Range<usize>) {
    let skip = (offset % 8) as usize;
    (word(seed, offset / 8).to_le_bytes(), skip..skip + len)
}

/// Overwrites `buffer` with the content of this seed, starting at this offset.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let (head, rest) = buffer.split_at_mut(before_word(offset, buffer.len()));
    let (bytes, range) = part(seed, offset, head.len());
    head.copy_from_slice(&bytes[range]);
    let mut index = offset.wrapping_add(head.len() as u64) / 8;
    let (words, tail) = rest.as_chunks_mut();
    for place in words {
        *place = word(seed, index).to_le_bytes();
        index = (index + 1) % WORDS;
    }
    let (bytes, range) = part(seed, index * 8, tail.len());
    tail.copy_from_slice(&bytes[range]);
}

/// Compares data with the content of this seed, starting at this offset.
///
/// # Errors
///
/// The offset of the first byte that differs.
pub fn verify(seed: u64, offset: u64, data: &[u8]) -> Result<(), u64> {
    let (head, rest) = data.split_at(before_word(offset, data.len()));
    let check = |offset: u64, data: &[u8]| {
        let (bytes, range) = part(seed, offset, data.len());
        let differs = data.iter().zip(&bytes[range]).position(|(a, b)| a != b);
        differs.map_or(Ok(()), |place| Err(offset.wrapping_add(place as u64)))
    };
    check(offset, head)?;
    let mut index = offset.wrapping_add(head.len() as u64) / 8;
    let (words, tail) = rest.as_chunks();
    for bytes in words {
        if u64::from_le_bytes(*bytes) != word(seed, index) {
            return check(index * 8, bytes);
        }
        index = (index + 1) % WORDS;
    }
    check(index * 8, tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_fit_together(seed: u64, offset in 0_u64..1 << 40, cut in 0_usize..100) {
            let (mut whole, mut parts) = ([0; 100], [0; 100]);
            fill(seed, offset, &mut whole);
            fill(seed, offset, &mut parts[..cut]);
            fill(seed, offset + cut as u64, &mut parts[cut..]);
            prop_assert_eq!(whole, parts);
            prop_assert_eq!(verify(seed, offset, &whole), Ok(()));
        }

        #[test]
        fn the_first_wrong_byte_is_found(seed: u64, offset in 0_u64..1 << 40, wrong in 0_usize..100, xor in 1_u8..) {
            let mut data = [0; 100];
            fill(seed, offset, &mut data);
            data[wrong] ^= xor;
            prop_assert_eq!(verify(seed, offset, &data), Err(offset + wrong as u64));
        }
    }

    #[test]
    fn each_byte_is_that_of_its_word() {
        for offset in [0, 3, 8, 1 << 40, u64::MAX - 20] {
            for len in 0..40 {
                let mut bytes = vec![0; len];
                fill(9, offset, &mut bytes);
                for (i, byte) in bytes.iter().enumerate() {
                    let at = offset.wrapping_add(i as u64);
                    assert_eq!(*byte, word(9, at / 8).to_le_bytes()[at as usize % 8]);
                }
                assert_eq!(verify(9, offset, &bytes), Ok(()));
            }
        }
    }

    #[test]
    fn seeds_differ() {
        let (mut a, mut b) = ([0; 64], [0; 64]);
        fill(1, 0, &mut a);
        fill(2, 0, &mut b);
        assert_ne!(a, b);
    }
}
