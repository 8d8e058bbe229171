//! Sans-IO multipath QUIC: RFC 9000, 9001, 9002, 9221 and 10069, with a packet scheduler on the
//! hot path. Knows no socket, no clock, no runtime and no global randomness.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests take a point to start from off the clock"
    )
)]

// The pair of `tests/pair` is used by tests within this crate too, under the same name.
#[cfg(test)]
extern crate self as mpquic_proto;

mod cid;
mod closing;
pub mod config;
pub mod congestion;
mod connection;
mod crypto;
mod data;
mod datagram;
mod endpoint;
mod error;
mod events;
mod forecast;
mod frame_writer;
#[cfg(any(test, feature = "__fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod ids;
mod inspect;
pub mod limits;
mod memory;
mod mtu;
mod number_set;
mod observe;
mod path;
mod recovery;
mod schedule;
mod sent_frame;
mod shards;
mod space;
mod stats;
mod stream;
mod token;

pub use cid::{ConnectionIdGenerator, QuicLb, QuicLbConfig, QuicLbError, Steering, SteeringPiece};
pub use closing::Remains;
pub use config::{
    AckFrequencyConfig, CarefulResumeConfig, ClientConfig, ConfigError, EarlyPathData,
    EndpointConfig, PathStart, RaceConfig, Reconnaissance, ServerConfig, SessionMemory,
    TransportConfig, ValidationTokenConfig,
};
pub use congestion::{CongestionControl, InitialWindow, UnknownCongestionControl};
pub use connection::{Connection, PathMut};
pub use data::{Datagrams, RecvStream, SchedulerRef, SendStream, SpareBuffers, Streams};
pub use datagram::{DatagramFate, DatagramOptions, Fate, SendDatagramError, Unsendable};
pub use endpoint::{
    AcceptError, AcceptJob, AcceptOutcome, Accepted, DatagramEvent, Endpoint, HalfOpen, Incoming,
    RetryError,
};
pub use error::{AttemptError, ConnectionError, FailedAttempt, PathError};
pub use events::{ConnectionEvent, EndpointEvent, Event, PathEvent};
pub use forecast::ThroughputForecast;
pub use handshake::{ConnectError, Session};
pub use ids::{ConnectionHandle, FourTuple, Transmit};
#[doc(hidden)]
pub use inspect::CollectionSize;
pub use memory::MemoryUse;
pub use mpquic_sched_core as sched;
pub use mpquic_sched_core::{
    ConnectionId, Dir, EcnCodepoint, PathId, PathKey, PathMemory, PathStatus, SavedPath, Side,
    StreamHints, StreamId, TransportErrorCode, VarInt,
};
pub use mpquic_wire::packet::Version;
pub use mpquic_wire::{ApplicationClose, ConnectionClose, Escaped, PathErrorCode, TransportError};
pub use observe::{
    AckRanges, AckedPackets, Choice, Decided, FrameInfo, Frames, NumberSpace, Observation,
    Observer, ObserverFactory, PacketLost, PacketReceived, PacketSent, Parameters, PathChange,
    PathChangeKind, PathMetrics, Started, StreamPiece,
};
pub use path::{PathRef, PathsRef};
pub use shards::ConnectionCount;
pub use stats::{ConnectionStats, CopyStats, PathStats};
pub use stream::{Chunk, ClosedStream, FinishError, ReadError, StreamEvent, WriteError};
pub use token::{
    NoTokenLog, NoTokenStore, TokenLog, TokenMemoryLog, TokenMemoryStore, TokenReuseError,
    TokenStore,
};
