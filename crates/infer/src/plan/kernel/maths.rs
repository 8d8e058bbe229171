//! exp, tanh and the logistic function without branches, so that loops over them become vectors.
//!
//! Polynomials and ranges are those of Cephes' `expf` and `tanhf` (S. Moshier, 1992), within 2 units in the last place.

use crate::plan::lanes::Lanes;

/// `a * b + c`, in one instruction where there is one: `f32::mul_add` is a library call where there is none.
#[inline(always)]
fn mul_add<L: Lanes>(a: f32, b: f32, c: f32) -> f32 {
    if L::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// e^x; x is held within [-87, 88], where the result is a normal number.
#[inline(always)]
pub(super) fn exp<L: Lanes>(x: f32) -> f32 {
    /// 1.5 * 2^23: added to a small number, leaves its nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let rounded = mul_add::<L>(x, std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    // ln 2 in two parts, the first exact in few bits.
    let r = mul_add::<L>(n, -0.693_359_4, x);
    let r = mul_add::<L>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    for c in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = mul_add::<L>(p, r, c);
    }
    let p = mul_add::<L>(p, r * r, r) + 1.0;
    let power = (rounded
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127))
        << 23;
    p * f32::from_bits(power)
}

#[inline(always)]
pub(super) fn sigmoid<L: Lanes>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<L>(-x))
}

#[inline(always)]
pub(super) fn tanh<L: Lanes>(x: f32) -> f32 {
    let size = x.abs();
    let square = x * x;
    let mut p = -5.704_988_7e-3;
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = mul_add::<L>(p, square, c);
    }
    let near = mul_add::<L>(p * square, x, x);
    let far = (1.0 - 2.0 / (exp::<L>(size + size) + 1.0)).copysign(x);
    if size < 0.625 { near } else { far }
}
