//! The packet scheduler contract of mpquic: what a scheduler is asked, what it answers, what it is told.
//!
//! A [`Scheduler`] is asked once per packet, with a [`Context`] that it borrows, and answers with
//! a [`Decision`]. Afterwards it is told what became of the packet ([`Sent`], [`Acked`], [`Lost`])
//! and what happens to paths and streams. It is a plain state machine: time comes in as an argument
//! and nothing in it blocks, so the same calls give the same decisions.
//!
//! This crate has the contract, the default scheduler [`Arrival`], the usual one [`MinRtt`], and the part
//! of QUIC's vocabulary that the other crates share ([`VarInt`], [`StreamId`], [`ConnectionId`] and the
//! like, which come from quinn-proto). The schedulers that come with mpquic are in `mpquic-sched`, which has all of
//! this, too.
//!
//! ```
//! use mpquic_sched_core::{Context, Decision, Scheduler};
//!
//! /// Two thirds of the packets on the path with the lowest RTT, the rest on another one.
//! #[derive(Default)]
//! struct TwoThirds;
//!
//! impl Scheduler for TwoThirds {
//!     fn decide(&mut self, cx: &Context<'_>) -> Decision {
//!         let fastest = cx.sendable().min_by_key(|path| path.rtt_rank());
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

mod arrival;
mod decision;
mod event;
mod factory;
mod learned;
mod min_rtt;
mod path_id;
mod path_key;
mod path_model;
mod path_set;
mod patience;
mod saved_path;
mod view;

pub use arrival::{Arrival, ArrivalConfig};
pub use decision::{CopyCause, Data, Decision, Scheduler};
pub use event::{
    Acked, Lost, PathUpdate, PathUpdateKind, Sent, StreamHints, StreamUpdate, StreamUpdateKind,
};
pub use factory::{ConnectionFacts, IntoSchedulerFactory, SchedulerFactory};
pub use learned::{
    Fallbacks, Learned, LearnedArm, LearnedGap, LearnedOnline, LearnedPair, LearnedPolicy,
};
pub use min_rtt::{MinRtt, MinRttConfig};
pub use path_id::PathId;
pub use path_key::PathKey;
pub use path_model::{PathModel, RoundTrip};
pub use path_set::{MAX_PATHS, PathIndex, PathSet};
pub use saved_path::{PathMemory, SavedPath};
pub use view::{
    Context, MAX_STREAM_VIEWS, PathStatus, PathView, QueueView, RttHistory, StreamHead, StreamView,
};

/// What schedulers that wait share. `mpquic-sched` has more of it, under the same name.
pub mod support {
    pub use crate::patience::{Patience, comes_back, nanos};
}

/// How integers and other fields are written on the wire.
pub use quinn_proto::coding;
pub use quinn_proto::{
    ConnectionId, Dir, EcnCodepoint, Side, StreamId, TransportErrorCode, VarInt,
};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
