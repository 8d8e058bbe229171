//! The packet scheduler contract of mpquic and its schedulers; knows nothing of packets' bytes, sockets or clocks.
#![forbid(unsafe_code)]

mod decision;
mod event;
mod path_set;
mod view;

pub use decision::{Data, Decision, Scheduler};
pub use event::{
    Acked, Lost, PathEvent, PathEventKind, Sent, StreamEvent, StreamEventKind, StreamHints,
};
pub use path_set::{MAX_PATHS, PathIndex, PathSet};
pub use quinn_proto::StreamId;
pub use view::{Context, PathStatus, PathView, QueueView, RttHistory, StreamHead};

mod min_rtt;
mod round_robin;
pub use min_rtt::MinRtt;
pub use round_robin::RoundRobin;
