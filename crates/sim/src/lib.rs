//! Deterministic network simulator for mpquic: virtual time, modelled links, real protocol
//! endpoints. The same link model also runs under real sockets.
#![forbid(unsafe_code)]

mod app;
mod back_to_back;
mod bound;
mod builder;
mod chain;
pub mod content;
mod cross;
mod error;
mod event_queue;
mod fabric;
pub mod file;
mod fold;
pub mod identity;
mod link;
mod measure;
mod network;
mod null_aead;
mod observe;
mod pattern;
mod peer;
mod relay;
mod script;
mod seeds;
mod start_bound;
mod stream_io;
mod trace;
mod transfer;
pub mod units;
pub mod workload;

pub use app::{App, AppContext, Idle};
pub use back_to_back::{BackToBack, Meter};
pub use bound::{FluidLink, FluidPath, fluid_bound, fluid_bounds, share_link};
pub use builder::NetworkBuilder;
pub use chain::{Hop, SharedLink};
pub use cross::{CrossReport, CrossTraffic};
pub use error::{AppError, SimError};
pub use link::{
    Exit, Fate, GilbertElliott, Link, LinkConfig, LinkConfigError, LinkStats, Loss, MahimahiTrace,
    Outage, PlannedChange, QueueLimit, RateStep, TraceError, flip_bit,
};
pub use measure::{
    Distribution, LostTime, Measurements, OutOfOrder, PathMeasurements, PathTimeline, Series,
    SideMeasurements, SideTimeline, Timeline,
};
pub use network::{Network, Report};
pub use observe::{ByteSeries, StallTracker, StepView};
pub use relay::{Relay, RelayStats};
pub use script::{Action, LinkAction, Resume};
pub use start_bound::{StartBounds, StartRules, handshake_time};
pub use trace::{DatagramInfo, DatagramStep, Delivery, TraceRecord};
pub use transfer::{Job, TransferClient, TransferServer};
