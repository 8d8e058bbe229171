//! The packet schedulers of mpquic, their registry, their memory and their recorder; knows nothing of packets' bytes,
//! sockets or clocks. The contract itself is `mpquic-sched-core`, all of which is here under the same names.
//!
//! A [`Scheduler`] is asked once per packet, with a [`Context`] that it borrows, and answers with
//! a [`Decision`]. It is a plain state machine: time comes in as an argument and nothing in it
//! blocks, so the same calls give the same decisions. A [`Registry`] makes the schedulers that come
//! with the crate, and yours, from a name and a JSON value; it has the list of them.
//!
//! Every built-in scheduler's documentation says what its rule is, where it comes from, and what a
//! decision costs. None of them allocates while it decides.
//!
//! # A scheduler of your own
//!
//! Two thirds of the packets on the path with the lowest RTT, the rest on the others:
//!
//! ```
//! use mpquic_sched::{Context, Decision, NoConfig, Registry, Scheduler};
//!
//! #[derive(Default)]
//! struct TwoThirds;
//!
//! impl Scheduler for TwoThirds {
//!     fn decide(&mut self, cx: &Context<'_>) -> Decision {
//!         let fastest = cx.sendable().min_by_key(|path| path.smoothed_rtt);
//!         let other = cx
//!             .sendable()
//!             .find(|path| Some(path.index) != fastest.map(|fastest| fastest.index));
//!         match (fastest, other) {
//!             (Some(_), Some(other)) if cx.decision % 3 == 2 => Decision::send(other.index),
//!             (Some(fastest), _) => Decision::send(fastest.index),
//!             (None, _) => Decision::Wait { until: None },
//!         }
//!     }
//! }
//!
//! let mut registry = Registry::new();
//! registry.register("twothirds", |_: &NoConfig| TwoThirds)?;
//! let scheduler = registry.build("twothirds", &serde_json::json!({}))?;
//! # drop(scheduler);
//! # Ok::<(), mpquic_sched::RegistryError>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests take a point to start from off the clock"
    )
)]

#[cfg(test)]
#[macro_use]
mod testing;

mod heuristic;
mod learned;
pub mod memory;
pub mod neural;
#[cfg(feature = "record")]
pub mod record;
mod registry;
pub mod support;

pub use heuristic::{
    Atsss, AtsssConfig, Backup, BackupConfig, Blest, BlestConfig, Daps, DapsConfig, Dems,
    DemsConfig, Ecf, EcfA, EcfAConfig, EcfConfig, Mptcp, MptcpConfig, Otias, OtiasConfig, Raven,
    RavenConfig, Redundant, RedundantConfig, RoundRobin, RoundRobinConfig, SaEcf, SaEcfConfig,
    SinglePath, SinglePathConfig, SteeringMode, Stms, StmsConfig, StreamMinRtt, StreamMinRttConfig,
    StreamSharing, Xlink, XlinkConfig,
};
pub use learned::{
    Arm, BudgetOf, EpsilonGreedyConfig, Falcon, FalconConfig, FeatureRtt, Forgetting, LearnedWait,
    Linucb, LinucbConfig, Peekaboo, PeekabooConfig, Reference, Reward, Step, Tuning, Ucb,
    UcbConfig, UcbReward,
};
pub use registry::{InvalidConfig, NoConfig, Registry, RegistryError};

pub use mpquic_bandit::{Boundaries, FirstPacket};
pub use serde_json;

pub use mpquic_sched_core::{
    Acked, Arrival, ArrivalConfig, ConnectionFacts, ConnectionId, Context, CopyCause, Data,
    Decision, Dir, EcnCodepoint, Fallbacks, IntoSchedulerFactory, Learned, LearnedArm, LearnedGap,
    LearnedOnline, LearnedPair, LearnedPolicy, Lost, MAX_PATHS, MAX_STREAM_VIEWS, MinRtt,
    MinRttConfig, PathId, PathIndex, PathKey, PathMemory, PathSet, PathStatus, PathUpdate,
    PathUpdateKind, PathView, QueueView, RttHistory, SavedPath, Scheduler, SchedulerFactory, Sent,
    Side, StreamHead, StreamHints, StreamId, StreamUpdate, StreamUpdateKind, StreamView,
    TransportErrorCode, VarInt,
};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
