//! Sliding-window random linear codes over GF(2^8) (RFC 8681): coefficients, encoding, incremental decoding.
//!
//! A repair symbol is the sum of the source symbols of a window, each times a coefficient. Coefficients follow from a key of
//! 16 bits and a density of 4, so that both ends know them. They are those of the RFC, over [its generator](TinyMt32), so that
//! another implementation can be checked with ours. Symbols need not have one size: a shorter one counts as if zeros followed.

mod decoder;
mod encoder;
mod field;
mod tinymt;

pub use decoder::{Decoder, MAX_ROWS, REACH, RepairOutcome};
pub use encoder::{Encoder, TooLong};
use field::{combine, padded};
pub use tinymt::TinyMt32;

/// The most source symbols that a repair symbol covers: our window. The RFC's field has room for 4,095.
pub const MAX_WINDOW: usize = field::MAX_TERMS;

/// The longest symbol, in bytes. What is longer is refused, so that a peer cannot make rows as long as it likes.
pub const MAX_SYMBOL: usize = 2_048;

/// The density with which every coefficient differs from 0.
pub const DENSE: u8 = 15;

/// The coefficients of a repair symbol over `out.len()` source symbols (RFC 8681 section 3.6, with m = 8).
///
/// `density` is from 0 to 15; with less than 15, (`density` + 1) / 16 of the coefficients differ from 0 in the mean. A larger one
/// counts as 15.
///
/// ```
/// use mpquic_live::rlc::{DENSE, coefficients};
///
/// let mut three = [0; 3];
/// coefficients(1, DENSE, &mut three);
/// assert_eq!(three, [37, 225, 177]);
/// ```
pub fn coefficients(key: u16, density: u8, out: &mut [u8]) {
    let mut numbers = TinyMt32::new(u32::from(key));
    for coefficient in out {
        *coefficient = 0;
        if density >= DENSE || numbers.next_16() <= density {
            while *coefficient == 0 {
                *coefficient = numbers.next_256();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_as_dense_as_asked() {
        for density in 0..=15 {
            let mut not_zero = 0;
            for key in 0..1_000 {
                let mut out = [0; 16];
                coefficients(key, density, &mut out);
                not_zero += out.iter().filter(|c| **c != 0).count();
            }
            // Five standard deviations of a binomial over 16,000 are at most 316.
            let expected = 1_000 * (usize::from(density) + 1);
            assert!(not_zero.abs_diff(expected) <= 316, "{density}: {not_zero}");
        }
        let mut out = [0; 16];
        coefficients(7, 15, &mut out);
        assert!(out.iter().all(|c| *c != 0));
    }

    /// The rule of RFC 8681 section 3.6 on the numbers of RFC 8682 figure 2, by hand: below the full density each coefficient
    /// takes a number of 4 bits, and if this is at most the density, numbers of 8 bits until one differs from 0.
    #[test]
    fn sparse_coefficients_by_hand() {
        // For seed 1 modulo 16: 5, 1, 1, 0, 5, 6, 6, 11; modulo 256: 37, 225, 177, 176, 21, 246, 54, 139.
        let mut out = [0; 5];
        coefficients(1, 4, &mut out);
        // 5 > 4: 0. 1: takes 177. 0 (176 mod 16): takes 21. 6 > 4: 0. 6 > 4: 0.
        assert_eq!(out, [0, 177, 21, 0, 0]);
    }
}
