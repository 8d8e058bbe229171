//! Rounding of numbers that are not negative: a few instructions, where the CPU that code is built for by default has none
//! for it and `f64::floor` and `f64::round` are calls of the C library.

/// From here on, all numbers are whole: 2^52.
const ALL_WHOLE: f64 = (1_u64 << 52) as f64;

/// `x.floor()` of a number from 0 to below 2^64.
#[inline]
pub(crate) const fn whole(x: f64) -> f64 {
    if x < ALL_WHOLE {
        // The sum has no room for a fraction: it is rounded to the nearest whole number.
        let near = x + ALL_WHOLE - ALL_WHOLE;
        if near > x { near - 1.0 } else { near }
    } else {
        x as u64 as f64
    }
}

/// `x as f64`, sooner for what a signed number can be, too, which counts of bytes are: CPUs convert signed numbers.
#[inline]
pub(crate) fn float(x: u64) -> f64 {
    if x <= i64::MAX as u64 {
        x as i64 as f64
    } else {
        float_of_large(x)
    }
}

/// Not inlined: the compiler would see that both are one conversion.
#[cold]
#[inline(never)]
const fn float_of_large(x: u64) -> f64 {
    x as f64
}

/// `x.round() as u64` of a number that is not negative: half of one goes up, what is too large is `u64::MAX`.
#[inline]
pub(crate) const fn rounded(x: f64) -> u64 {
    let down = x as u64;
    // Exact: from 2^52 on all numbers are whole, and below both are so close that their difference has no error.
    let up = x - down as f64 >= 0.5;
    down.saturating_add(up as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_the_library_rounds(bits: u64, small in 0.0_f64..100.0, halves in 0_u64..1 << 54) {
            for x in [f64::from_bits(bits).abs(), small, halves as f64 / 2.0] {
                prop_assert_eq!(rounded(x), x.round() as u64, "{}", x);
                if x < 2_f64.powi(64) {
                    prop_assert_eq!(whole(x), x.floor(), "{}", x);
                }
            }
            for x in [bits, halves, bits >> 12] {
                prop_assert_eq!(float(x), x as f64);
            }
        }
    }

    #[test]
    fn at_the_edges() {
        for x in [
            0.0,
            0.5,
            0.499_999_999_999_999_94,
            1.5,
            2.5,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ] {
            assert_eq!(rounded(x), x.round() as u64, "{x}");
        }
    }
}
