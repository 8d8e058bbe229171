//! Async multipath QUIC for tokio: the endpoint, its connections, their streams and their paths.
//!
//! A connection uses all networks of a machine at once (RFC 10069). Its packet scheduler can be
//! chosen, configured or written ([`sched`]). The API follows quinn's. New are:
//!
//! - An [`Endpoint`] has several local addresses, one socket each. A server can use one
//!   wildcard socket: its answers leave from the address that was asked.
//! - [`Connection::open_path`], [`Path`], [`Connection::path_events`]; or a [`PathManager`] that
//!   opens paths by itself.
//! - [`TransportConfig::scheduler`] and [`TransportConfig::congestion`];
//!   [`SendStream::set_hints`] for schedulers that can use what the application knows.
//!
//! A peer without the extension gets plain QUIC (RFC 9000).
//!
//! # Example
//!
//! ```no_run
//! # // no_run: needs the addresses, and a server that an authority of yours trusts
//! use std::sync::Arc;
//! use mpquic::{ClientConfig, Endpoint, FullMesh, TransportConfig, VarInt, rustls, sched};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut transport = TransportConfig::default();
//! transport.scheduler(|| Box::new(sched::MinRtt::default()));
//!
//! let roots = rustls::RootCertStore::empty(); // the certificate authorities that you trust
//! let mut config = ClientConfig::with_root_certificates(roots)?;
//! config.transport(Arc::new(transport));
//!
//! let endpoint = Endpoint::client(&["192.168.1.23:0".parse()?, "10.64.3.9:0".parse()?])?;
//! endpoint.set_path_manager(FullMesh::new()); // Wi-Fi and LTE at once
//! let connection = endpoint
//!     .connect_with(config, "203.0.113.5:4433".parse()?, "example.com")?
//!     .await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! println!("{:?}", recv.read_to_end(64 * 1024).await?);
//! connection.close(VarInt::from_u32(0), b"done");
//! endpoint.wait_idle().await;
//! # Ok(()) }
//! ```
//!
//! # Schedulers that learn
//!
//! They start from nothing with each connection, unless they have a memory. One
//! [`Store`](sched::memory::Store) per process, shared by all connections, lets a connection begin with
//! what the last one over the same paths learned; a file carries it over a restart:
//!
//! ```
//! use mpquic::sched::{Registry, memory::Store};
//! use mpquic::TransportConfig;
//!
//! # let file = std::env::temp_dir().join(format!("mpquic-doc-{}.json", std::process::id()));
//! # let file = file.as_path();
//! let memory = Store::load(file).unwrap_or_else(|refused| {
//!     eprintln!("{refused}; learning starts fresh"); // names the file, the place, what was expected
//!     Store::new()
//! });
//! let registry = Registry::new().with_memory(memory.clone());
//! let scheduler = registry.factory("linucb", &Default::default())?;
//! let mut transport = TransportConfig::default();
//! transport.scheduler(scheduler);
//!
//! // ... connections with this configuration, until it is time to stop:
//! memory.save(file)?;
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Configure the side that sends: each direction schedules for itself. A connection deposits what it
//! learned when it is closed, so close the endpoint before saving. Paths are identified by the IPs of
//! their ends ([`sched::PathKey`] says what that reveals). [`Connection::learned`] reports what a
//! connection's scheduler has learned.
//!
//! # Paths that are remembered
//!
//! The same store keeps what connections measured of their paths, for those that are given it as their memory. A later
//! connection then begins with half of what the path carried (RFC 9959), and backs off if that is too much:
//!
//! ```
//! use std::sync::Arc;
//! use mpquic::{TransportConfig, sched::memory::Store};
//!
//! let memory = Store::new();
//! let mut transport = TransportConfig::default();
//! transport.path_memory(Some(Arc::new(memory.clone())));
//! ```
//!
//! It is the side that sends that gains by it: for downloads, give the server a memory. [`PathStats::careful_resume`] says
//! what came of it.
//!
//! With the feature `record`, what schedulers experience (states, actions, rewards) can be written to a file for training:
//! `Registry::with_recorder`, and the module `sched::record`.
//!
//! # Configuration and TLS
//!
//! [`ClientConfig`] and [`ServerConfig`] are made from [`rustls`] configurations. A connection can
//! therefore do what rustls can: client certificates, ALPN, your own verifiers. To decrypt captures
//! with Wireshark, set the key log of that configuration. It writes to the file that the environment
//! variable `SSLKEYLOGFILE` names:
//!
//! ```
//! use std::sync::Arc;
//! use mpquic::rustls;
//!
//! fn log_keys(tls: &mut rustls::ClientConfig) {
//!     tls.key_log = Arc::new(rustls::KeyLogFile::new());
//! }
//! ```
//!
//! # Tasks
//!
//! An endpoint has one task, which receives on all its sockets. Each connection has a task of its own.
//! They run on the tokio runtime in which the endpoint was made, and end by themselves. All futures
//! are cancel-safe unless their documentation says otherwise: a dropped future has consumed nothing.
#![cfg_attr(docsrs, feature(doc_cfg))]
// One system call has it: `steer.rs`.
#![deny(unsafe_code)]

mod async_socket;
mod binder;
mod builder;
mod connection;
mod driver;
mod endpoint;
mod endpoint_driver;
mod endpoint_shared;
mod error;
#[cfg(doctest)]
mod guide;
mod inbox;
mod incoming;
mod link_mtu;
mod links;
#[cfg(feature = "metrics")]
pub mod metrics;
mod outbox;
mod path;
mod path_manager;
mod reader;
mod receive;
mod recv_stream;
mod send_stream;
mod shards;
mod shared;
mod socket;
mod socket_health;
mod steer;
mod turns;
mod watched;

extern crate mpquic_proto as proto;

pub use async_socket::{AsyncUdpSocket, SystemSocket, UdpPoller};
pub use binder::MissingAddr;
pub use builder::EndpointBuilder;
pub use connection::{Connecting, Connection, HandshakeData, ZeroRttAccepted};
pub use endpoint::Endpoint;
pub use error::{
    ConnectError, OpenPathError, ReadError, ReadExactError, ReadToEndError, ResetError,
    SendDatagramError, StoppedError, WriteError,
};
pub use incoming::{Incoming, IncomingFuture, RetryError};
#[cfg(feature = "interfaces")]
pub use links::SystemInterfaces;
pub use links::{
    Interface, InterfaceWatcher, LinkEvent, LinkManager, LinkPolicy, LinkTask, Metered,
};
pub use path::{OpenPath, Path, PathEvents};
pub use path_manager::{FullMesh, PathManager};
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;
pub use shards::ShardStats;
pub use socket::LocalAddr;
pub use socket_health::{SocketEvent, SocketEvents};

pub use bytes::Bytes;
/// Why a connection attempt could not be started: [`ConnectError::Start`].
pub use mpquic_proto::ConnectError as StartError;
pub use mpquic_proto::Version;
pub use mpquic_proto::{
    AckFrequencyConfig, AckRanges, AckedPackets, ApplicationClose, AttemptError,
    CarefulResumeConfig, Choice, Chunk, ClientConfig, ClosedStream, ConfigError, CongestionControl,
    ConnectionClose, ConnectionError, ConnectionIdGenerator, ConnectionStats, DatagramOptions,
    Decided, Dir, EndpointConfig, Escaped, FailedAttempt, FourTuple, FrameInfo, Frames, HalfOpen,
    InitialWindow, MemoryUse, NoTokenLog, NoTokenStore, NumberSpace, Observation, Observer,
    ObserverFactory, PacketLost, PacketReceived, PacketSent, Parameters, PathChange,
    PathChangeKind, PathError, PathErrorCode, PathEvent, PathId, PathMemory, PathMetrics,
    PathStart, PathStats, PathStatus, QuicLb, QuicLbConfig, QuicLbError, RaceConfig,
    Reconnaissance, SavedPath, ServerConfig, SessionMemory, Side, Started, StreamHints, StreamId,
    StreamPiece, ThroughputForecast, TokenLog, TokenMemoryLog, TokenMemoryStore, TokenReuseError,
    TokenStore, TransportConfig, TransportError, TransportErrorCode, UnknownCongestionControl,
    ValidationTokenConfig, VarInt,
};
pub use mpquic_proto::{config, congestion, limits};
#[cfg(feature = "qlog")]
pub use mpquic_qlog as qlog;
pub use mpquic_sched as sched;
/// What an [`AsyncUdpSocket`] is given to send, and says of what it received.
pub use quinn_udp as udp;
pub use rustls;
