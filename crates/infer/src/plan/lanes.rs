//! The vectors that kernels are written in: plain arrays for every CPU, AVX2 and AVX-512 where detected. The only
//! unsafe code of the plans is here.
//!
//! # What holds
//!
//! - `Avx512` is named as `L` only below [`execute_avx512`], `Avx2` only below that or [`execute_avx2`]. Both carry the
//!   target features that they need, and are called only by [`execute`], for [`Vectors`] that [`available`] detected on
//!   this CPU. So an intrinsic is never reached on a CPU without it.
//! - Every method is `inline(always)`: it becomes part of the caller that has the feature, and no vector passes a
//!   function's boundary. [`Lanes::apart`] alone is a call, of a function that carries the same features; it too is
//!   reached below `execute_avx2` and `execute_avx512` only.
//! - `load` and `store` take slices and check their length, so memory is touched only in bounds, whatever the plan
//!   says.

use super::step::{Step, execute as execute_with};
use crate::Vectors;

/// A vector of f32.
pub(super) trait Lanes: Copy {
    /// What to use where half a vector would stay empty: narrower vectors that every CPU with these has, or the same.
    type Narrow: Lanes;

    /// Lanes in it.
    const WIDTH: usize;
    /// Whether a multiplication and an addition are one instruction.
    const FUSED: bool;
    /// Vectors of columns that a row kernel takes at once, at most.
    const ROW_VECTORS: usize;
    /// Rows that a block kernel takes at once.
    const BLOCK_ROWS: usize;

    fn splat(x: f32) -> Self;
    /// The first `WIDTH` of the slice.
    fn load(from: &[f32]) -> Self;
    /// Into the first `WIDTH` of the slice.
    fn store(self, to: &mut [f32]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The larger, `other` where one is not a number.
    fn max(self, other: Self) -> Self;
    /// `self * by + to`
    fn mul_add(self, by: Self, to: Self) -> Self;
    /// What is not a number stays so: it must not pass for a 0.
    fn relu(self) -> Self;
    /// Bit i is set unless lane i is 0, of either sign. What is not a number is not 0. Where that costs more than it
    /// saves, all bits are set.
    fn nonzero(self) -> u32;

    /// Turns a block of 8 by 8: number `j` of row `i` becomes number `i` of row `j`, and rows follow on each other.
    #[inline(always)]
    fn turn(rows: [&[f32]; 8], turned: &mut [f32]) {
        for (j, to) in turned[..64].chunks_exact_mut(8).enumerate() {
            for i in 0..8 {
                to[i] = rows[i][j];
            }
        }
    }

    /// Runs a kernel as a function of its own, which keeps its numbers in registers: within the function that runs all
    /// steps, they would have to share those with what all the others keep.
    fn apart<K: Kernel>(kernel: K);
}

/// A kernel that runs [apart](Lanes::apart).
pub(super) trait Kernel {
    /// To be `inline(always)`: it becomes part of a function that has the vectors' features.
    fn run<L: Lanes>(self);
}

/// What every CPU can do: the compiler makes SSE2, NEON or scalar code of it.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

impl Lanes for Portable {
    type Narrow = Self;

    const WIDTH: usize = 4;
    const FUSED: bool = false;
    const ROW_VECTORS: usize = 8;
    const BLOCK_ROWS: usize = 4;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; 4])
    }

    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self([from[0], from[1], from[2], from[3]])
    }

    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[..4].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]])
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        let larger = |i: usize| if a[i] > b[i] { a[i] } else { b[i] };
        Self([larger(0), larger(1), larger(2), larger(3)])
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]])
    }

    #[inline(always)]
    fn mul_add(self, by: Self, to: Self) -> Self {
        self.mul(by).add(to)
    }

    #[inline(always)]
    fn relu(self) -> Self {
        let a = self.0;
        let positive = |x: f32| if x < 0.0 { 0.0 } else { x };
        Self([
            positive(a[0]),
            positive(a[1]),
            positive(a[2]),
            positive(a[3]),
        ])
    }

    #[inline(always)]
    fn nonzero(self) -> u32 {
        0b1111
    }

    #[inline(never)]
    fn apart<K: Kernel>(kernel: K) {
        kernel.run::<Self>();
    }
}

/// The widest of `Vectors` up to `widest` that this CPU has.
pub(crate) fn available(widest: Vectors) -> Vectors {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected;
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1");
        if widest >= Vectors::Avx512 && avx2 && is_x86_feature_detected!("avx512f") {
            return Vectors::Avx512;
        }
        if widest >= Vectors::Avx2 && avx2 {
            return Vectors::Avx2;
        }
    }
    let _ = widest;
    Vectors::Portable
}

/// Something that depends on the vectors' width, done while a plan is compiled.
pub(super) trait Task {
    type Output;

    /// Must not compute with `L`: the CPU may lack it.
    fn with<L: Lanes>(self) -> Self::Output;
}

/// Does a task for the vectors.
pub(super) fn with<T: Task>(vectors: Vectors, task: T) -> T::Output {
    match vectors {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => task.with::<x86::Avx512>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => task.with::<x86::Avx2>(),
        _ => task.with::<Portable>(),
    }
}

/// Runs the steps with the vectors that `available` gave.
pub(super) fn execute(vectors: Vectors, steps: &[Step], weights: &[f32], arena: &mut [f32]) {
    match vectors {
        // SAFETY: `Vectors` of a plan come from `available`, which detected the features.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { execute_avx512(steps, weights, arena) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { execute_avx2(steps, weights, arena) },
        _ => execute_with::<Portable>(steps, weights, arena),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1")]
fn execute_avx2(steps: &[Step], weights: &[f32], arena: &mut [f32]) {
    execute_with::<x86::Avx2>(steps, weights, arena);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma,bmi1")]
fn execute_avx512(steps: &[Step], weights: &[f32], arena: &mut [f32]) {
    execute_with::<x86::Avx512>(steps, weights, arena);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Kernel, Lanes};

    #[target_feature(enable = "avx2,fma,bmi1")]
    #[inline(never)]
    fn apart_avx2<K: Kernel>(kernel: K) {
        kernel.run::<Avx2>();
    }

    #[target_feature(enable = "avx512f,avx2,fma,bmi1")]
    #[inline(never)]
    fn apart_avx512<K: Kernel>(kernel: K) {
        kernel.run::<Avx512>();
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx2(__m256);

    impl Lanes for Avx2 {
        type Narrow = Self;

        const WIDTH: usize = 8;
        const FUSED: bool = true;
        const ROW_VECTORS: usize = 8;
        const BLOCK_ROWS: usize = 4;

        #[inline(always)]
        fn splat(x: f32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_set1_ps(x) })
        }

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            let from = &from[..Self::WIDTH];
            // SAFETY: 8 floats are there; the load needs no alignment. See the module.
            Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            let to = &mut to[..Self::WIDTH];
            // SAFETY: as for `load`.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn max(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_max_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul_add(self, by: Self, to: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_fmadd_ps(self.0, by.0, to.0) })
        }

        #[inline(always)]
        fn relu(self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_max_ps(_mm256_setzero_ps(), self.0) })
        }

        #[inline(always)]
        fn nonzero(self) -> u32 {
            // SAFETY: see the module.
            let lanes = unsafe {
                _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(self.0, _mm256_setzero_ps()))
            };
            lanes as u32
        }

        #[inline(always)]
        fn turn(rows: [&[f32]; 8], turned: &mut [f32]) {
            // Without closures: the compiler does not make intrinsics part of them.
            let [a, b, c, d, e, f, g, h] = rows;
            let (a, b, c, d) = (
                Self::load(a).0,
                Self::load(b).0,
                Self::load(c).0,
                Self::load(d).0,
            );
            let (e, f, g, h) = (
                Self::load(e).0,
                Self::load(f).0,
                Self::load(g).0,
                Self::load(h).0,
            );
            // SAFETY: see the module.
            let out = unsafe {
                // Numbers of two rows by turns, then of four, then of eight.
                let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let (ef, ef_high) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
                let (gh, gh_high) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
                let first0 = _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd);
                let first1 = _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd);
                let first2 = _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high);
                let first3 = _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high);
                let last0 = _mm256_shuffle_ps::<0b01_00_01_00>(ef, gh);
                let last1 = _mm256_shuffle_ps::<0b11_10_11_10>(ef, gh);
                let last2 = _mm256_shuffle_ps::<0b01_00_01_00>(ef_high, gh_high);
                let last3 = _mm256_shuffle_ps::<0b11_10_11_10>(ef_high, gh_high);
                [
                    _mm256_permute2f128_ps::<0x20>(first0, last0),
                    _mm256_permute2f128_ps::<0x20>(first1, last1),
                    _mm256_permute2f128_ps::<0x20>(first2, last2),
                    _mm256_permute2f128_ps::<0x20>(first3, last3),
                    _mm256_permute2f128_ps::<0x31>(first0, last0),
                    _mm256_permute2f128_ps::<0x31>(first1, last1),
                    _mm256_permute2f128_ps::<0x31>(first2, last2),
                    _mm256_permute2f128_ps::<0x31>(first3, last3),
                ]
            };
            for (out, to) in out.into_iter().zip(turned[..64].chunks_exact_mut(8)) {
                Self(out).store(to);
            }
        }

        #[inline(always)]
        fn apart<K: Kernel>(kernel: K) {
            // SAFETY: see the module: this is reached only below `execute_avx2`.
            unsafe { apart_avx2(kernel) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx512(__m512);

    impl Lanes for Avx512 {
        type Narrow = Avx2;

        const WIDTH: usize = 16;
        const FUSED: bool = true;
        const ROW_VECTORS: usize = 4;
        const BLOCK_ROWS: usize = 8;

        #[inline(always)]
        fn splat(x: f32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_set1_ps(x) })
        }

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            let from = &from[..Self::WIDTH];
            // SAFETY: 16 floats are there; the load needs no alignment. See the module.
            Self(unsafe { _mm512_loadu_ps(from.as_ptr()) })
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            let to = &mut to[..Self::WIDTH];
            // SAFETY: as for `load`.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn max(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_max_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_mul_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul_add(self, by: Self, to: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_fmadd_ps(self.0, by.0, to.0) })
        }

        #[inline(always)]
        fn relu(self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_max_ps(_mm512_setzero_ps(), self.0) })
        }

        #[inline(always)]
        fn nonzero(self) -> u32 {
            // SAFETY: see the module.
            let lanes = unsafe { _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(self.0, _mm512_setzero_ps()) };
            u32::from(lanes)
        }

        #[inline(always)]
        fn apart<K: Kernel>(kernel: K) {
            // SAFETY: see the module: this is reached only below `execute_avx512`.
            unsafe { apart_avx512(kernel) }
        }
    }
}
