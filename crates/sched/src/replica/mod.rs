//! Schedulers with the faults of published code, to reproduce the figures that rest on them; not for use.
//!
//! Each is named after the scheduler that it gets wrong, and its documentation says which publication has it, what the
//! fault is, and what to use instead. A [`Registry`](crate::Registry) makes them by name like all others, and
//! lists them apart ([`Registry::replicas`](crate::Registry::replicas)).

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
