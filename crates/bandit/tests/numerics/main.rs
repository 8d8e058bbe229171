//! The linear models against plain ones that invert at every step, over long lives and on odd inputs.
#![allow(
    clippy::needless_range_loop,
    reason = "the indices are those of the formulas, and most loops run over a triangle"
)]

mod agreement;
mod drift;
mod plain;
mod refusal;
#[cfg(feature = "serde")]
mod snapshots;
