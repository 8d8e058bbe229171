//! Leaves the vector registers clean after tract's kernels; the only thing it does.
//!
//! tract-linalg 0.23.9's AVX assembly returns without `vzeroupper`. Every SSE instruction that the thread runs
//! afterwards then depends on the upper halves that were left, which made SSE code 1.6 to 4.6 times slower until they
//! were cleared: a thread that asks a policy and then moves packets would pay for it on every packet.

/// Clears the upper halves of the vector registers, where the CPU has any. To be called after every call into tract.
pub(crate) fn clear() {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx")]
        fn zeroupper() {
            std::arch::x86_64::_mm256_zeroupper();
        }
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: AVX was detected, which is all that `vzeroupper` needs. It changes only the upper halves of the
            // vector registers, which no value may live in across a call in the x86-64 calling convention, and
            // `zeroupper` is not inlined into code that lacks AVX, so this is a call.
            unsafe { zeroupper() }
        }
    }
}
