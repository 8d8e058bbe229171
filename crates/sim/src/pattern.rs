//! The payload of simulated streams: slices of one block that all streams share, so that making it copies nothing and
//! what waits to be sent takes no memory.

use std::sync::LazyLock;

use bytes::Bytes;

use crate::content;

/// The payload repeats after so many bytes. A prime number: data that lands where it does not belong is off by packets,
/// blocks or windows, none of which is a multiple of it, and so differs from what belongs there.
const PERIOD: usize = 65_521;
/// The longest slice.
pub(crate) const LONGEST: usize = 16 * 1024;
/// The seed of the block. Ours.
const SEED: u64 = 0x5eed;

/// A period and what a slice may reach into the next one.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut block = vec![0; PERIOD + LONGEST];
    let (period, next) = block.split_at_mut(PERIOD);
    content::fill(SEED, 0, period);
    next.copy_from_slice(&period[..LONGEST]);
    block
});

/// The payload of one stream: the block from a place that the seed gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    phase: usize,
}

impl Pattern {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            phase: (content::word(seed, 0) % PERIOD as u64) as usize,
        }
    }

    /// Where a byte of the payload is in the block.
    const fn place(self, offset: u64) -> usize {
        let place = self.phase + (offset % PERIOD as u64) as usize;
        if place < PERIOD {
            place
        } else {
            place - PERIOD
        }
    }

    /// The payload from this offset on, `len` bytes of it, at most [`LONGEST`].
    pub(crate) fn slice(self, offset: u64, len: usize) -> Bytes {
        let place = self.place(offset);
        Bytes::from_static(&BLOCK[place..place + len.min(LONGEST)])
    }

    /// Compares data with the payload from this offset on.
    ///
    /// # Errors
    ///
    /// The offset of the first byte that differs.
    pub(crate) fn verify(self, offset: u64, data: &[u8]) -> Result<(), u64> {
        let block: &[u8] = &BLOCK;
        let mut offset = offset;
        for piece in data.chunks(LONGEST) {
            let place = self.place(offset);
            let expected = &block[place..place + piece.len()];
            if piece != expected {
                let differs = piece.iter().zip(expected).position(|(a, b)| a != b);
                return Err(offset.wrapping_add(differs.unwrap_or(0) as u64));
            }
            offset = offset.wrapping_add(piece.len() as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The byte at an offset, by its definition.
    fn byte(seed: u64, offset: u64) -> u8 {
        let phase = u128::from(content::word(seed, 0) % PERIOD as u64);
        let place = ((phase + u128::from(offset)) % PERIOD as u128) as u64;
        content::word(SEED, place / 8).to_le_bytes()[place as usize % 8]
    }

    proptest! {
        #[test]
        fn slices_are_of_one_payload(seed: u64, offset: u64, len in 0_usize..40_000) {
            let slice = Pattern::new(seed).slice(offset, len);
            prop_assert_eq!(slice.len(), len.min(LONGEST));
            for at in [0, slice.len() / 2, slice.len().saturating_sub(1)] {
                if let Some(found) = slice.get(at) {
                    prop_assert_eq!(*found, byte(seed, offset.saturating_add(at as u64)));
                }
            }
        }

        #[test]
        fn the_first_wrong_byte_is_found(
            seed: u64, offset in 0_u64..1 << 40, len in 1_usize..40_000, place: prop::sample::Index, xor in 1_u8..,
        ) {
            let mut data: Vec<u8> = (0..len as u64).map(|at| byte(seed, offset + at)).collect();
            prop_assert_eq!(Pattern::new(seed).verify(offset, &data), Ok(()));
            let wrong = place.index(len);
            data[wrong] ^= xor;
            prop_assert_eq!(Pattern::new(seed).verify(offset, &data), Err(offset + wrong as u64));
        }

        #[test]
        fn what_is_out_of_place_differs(seed: u64, offset in 0_u64..1 << 40, by in 1_u64..PERIOD as u64) {
            let slice = Pattern::new(seed).slice(offset, 1_200);
            prop_assert!(Pattern::new(seed).verify(offset + by, &slice).is_err());
        }
    }

    #[test]
    fn streams_differ() {
        let slice = Pattern::new(1).slice(0, 1_200);
        for seed in 2..1_000 {
            assert!(Pattern::new(seed).verify(0, &slice).is_err(), "{seed}");
        }
    }
}
