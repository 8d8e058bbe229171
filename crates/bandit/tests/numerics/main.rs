//! The linear models against plain ones that invert at every step, over long lives and on odd inputs.

mod agreement;
mod drift;
mod plain;
mod refusal;
#[cfg(feature = "serde")]
mod snapshots;
