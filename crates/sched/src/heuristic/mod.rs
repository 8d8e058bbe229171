//! Schedulers with a fixed rule: from the literature, from the Linux kernel, and a few of our own.

pub(crate) mod arrival;
mod atsss;
mod backup;
mod blest;
mod daps;
mod dems;
mod ecf;
mod ecf_a;
mod mptcp;
mod otias;
mod raven;
mod redundant;
mod round_robin;
mod sa_ecf;
mod single_path;
mod stms;
mod stream_min_rtt;
mod xlink;

pub use atsss::{Atsss, AtsssConfig, SteeringMode};
pub use backup::{Backup, BackupConfig};
pub use blest::{Blest, BlestConfig};
pub use daps::{Daps, DapsConfig};
pub use dems::{Dems, DemsConfig};
pub use ecf::{Ecf, EcfConfig};
pub use ecf_a::{EcfA, EcfAConfig};
pub use mptcp::{Mptcp, MptcpConfig};
pub use otias::{Otias, OtiasConfig};
pub use raven::{Raven, RavenConfig};
pub use redundant::{Redundant, RedundantConfig};
pub use round_robin::{RoundRobin, RoundRobinConfig};
pub use sa_ecf::{SaEcf, SaEcfConfig, StreamSharing};
pub use single_path::{SinglePath, SinglePathConfig};
pub use stms::{Stms, StmsConfig};
pub use stream_min_rtt::{StreamMinRtt, StreamMinRttConfig};
pub use xlink::{Xlink, XlinkConfig};
