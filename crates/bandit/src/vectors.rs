//! Runs functions as compiled for AVX2 where the processor has it. The crate's only unsafe code.
//!
//! # What holds
//!
//! [`in_avx2`] is called by [`widest`] alone, and only after AVX2 was detected. It is no more than the function it is
//! given, compiled anew: safe code, whose results are the same to the last bit. AVX2 has neither fused multiplications and
//! additions nor sums in another order; the compiler brings in none by itself.
#![allow(
    unsafe_code,
    reason = "a call of a function that needs a feature, which was detected"
)]

#[cfg(all(feature = "std", target_arch = "x86_64"))]
use std::arch::is_x86_feature_detected;

/// What is [run](widest) on arguments of these types. Its method is to be `inline(always)`, or it is compiled without the
/// feature.
pub(crate) trait Work<A, B, C> {
    type Output;

    fn run(a: A, b: B, c: C) -> Self::Output;
}

/// Does the work in vectors of four `f64` if the processor has them.
#[inline(always)]
pub(crate) fn widest<W: Work<A, B, C>, A, B, C>(a: A, b: B, c: C) -> W::Output {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        return unsafe { in_avx2::<W, A, B, C>(a, b, c) };
    }
    as_built::<W, A, B, C>(a, b, c)
}

/// Not inlined where it is the exception: the caller would save registers for it.
#[cfg_attr(all(feature = "std", target_arch = "x86_64"), inline(never))]
#[cfg_attr(not(all(feature = "std", target_arch = "x86_64")), inline(always))]
fn as_built<W: Work<A, B, C>, A, B, C>(a: A, b: B, c: C) -> W::Output {
    W::run(a, b, c)
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn in_avx2<W: Work<A, B, C>, A, B, C>(a: A, b: B, c: C) -> W::Output {
    W::run(a, b, c)
}
