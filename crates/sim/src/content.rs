//! Pseudo-random bytes that can be made and checked from any offset; the payload of the transfers.

/// The odd constant of SplitMix64: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Word `index` of the content with this seed: SplitMix64's output function over a counter.
pub(crate) const fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Splits `len` bytes from `offset` into pieces within one word each: calls `f` with the piece's
/// place in the caller's buffer and its bytes; stops at the first `false` and says where.
fn walk(seed: u64, offset: u64, len: usize, mut f: impl FnMut(usize, &[u8]) -> bool) -> usize {
    let mut done = 0;
    while done < len {
        let at = offset.wrapping_add(done as u64);
        let skip = (at % 8) as usize;
        let take = (8 - skip).min(len - done);
        let bytes = word(seed, at / 8).to_le_bytes();
        if !f(done, &bytes[skip..skip + take]) {
            return done;
        }
        done += take;
    }
    done
}

/// Writes the content with this seed, from this offset on, over `buffer`.
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let len = buffer.len();
    walk(seed, offset, len, |at, bytes| {
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
        true
    });
}

/// Compares data with the content of this seed from this offset on.
///
/// # Errors
///
/// The offset of the first byte that differs.
pub fn verify(seed: u64, offset: u64, data: &[u8]) -> Result<(), u64> {
    let equal = walk(seed, offset, data.len(), |at, bytes| {
        data[at..at + bytes.len()] == *bytes
    });
    if equal == data.len() {
        return Ok(());
    }
    let mut expected = [0; 8];
    let rest = &data[equal..data.len().min(equal + 8)];
    let start = offset.wrapping_add(equal as u64);
    fill(seed, start, &mut expected[..rest.len()]);
    let differs = rest.iter().zip(&expected).position(|(a, b)| a != b);
    Err(start + differs.unwrap_or(0) as u64)
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
    fn seeds_differ() {
        let (mut a, mut b) = ([0; 64], [0; 64]);
        fill(1, 0, &mut a);
        fill(2, 0, &mut b);
        assert_ne!(a, b);
    }
}
