//! Schedulers with the faults of published code, to reproduce the figures that rest on them; not for use.
//!
//! Each is named after the scheduler that it gets wrong, and its documentation says which publication has it, what the
//! fault is, and what to use instead. Experiments name them like all others; a list for people keeps them apart.

use mpquic_sched::{Registry, RegistryError};

mod blest_overflow;
mod daps_gap;
mod ecf_nowait;
mod minrtt_ns3;
mod peek_frozen;
mod rr_ns3;

pub use blest_overflow::{BlestOverflow, BlestOverflowConfig};
pub use daps_gap::{DapsGap, DapsGapConfig};
pub use ecf_nowait::{EcfNoWait, EcfNoWaitConfig};
pub use minrtt_ns3::{MinRttNs3, MinRttNs3Config};
pub use peek_frozen::{PeekFrozen, PeekFrozenConfig};
pub use rr_ns3::{RrNs3, RrNs3Config};

/// Their names, in alphabetical order.
pub const NAMES: [&str; 6] = [
    "blest_overflow",
    "daps_gap",
    "ecf_nowait",
    "minrtt_ns3",
    "peek_frozen",
    "rr_ns3",
];

/// Adds them to a registry, under [`NAMES`].
///
/// # Errors
///
/// [`RegistryError::NameTaken`].
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry
        .register("blest_overflow", BlestOverflow::new)?
        .register("daps_gap", DapsGap::new)?
        .register("ecf_nowait", EcfNoWait::new)?
        .register("minrtt_ns3", MinRttNs3::new)?
        .register_checked("peek_frozen", PeekFrozenConfig::check, PeekFrozen::new)?
        .register("rr_ns3", RrNs3::new)?;
    Ok(())
}
