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
//! # A server and a client
//!
//! Over loopback, in one program:
//!
//! ```
//! use mpquic::rustls::{RootCertStore, pki_types::PrivateKeyDer};
//! use mpquic::{ClientConfig, Endpoint, ServerConfig, VarInt};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A certificate for the name that the client asks for. A real server has one from an authority.
//!     let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
//!     let certificate = made.cert.der().clone();
//!     let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
//!
//!     // The server: one address is enough, whatever the client has. Port 0 is any free one.
//!     let config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
//!     let server = Endpoint::server(config, &["127.0.0.1:0".parse()?])?;
//!     let address = server.local_addr()?;
//!     tokio::spawn(async move {
//!         while let Some(incoming) = server.accept().await {
//!             tokio::spawn(async move {
//!                 let connection = incoming.await?;
//!                 while let Ok((mut send, mut recv)) = connection.accept_bi().await {
//!                     let question = recv.read_to_end(64 * 1024).await?; // the client decides how much: set a limit
//!                     send.write_all(&question.to_ascii_uppercase()).await?;
//!                     send.finish()?;
//!                 }
//!                 Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//!             });
//!         }
//!     });
//!
//!     // The client trusts that one certificate. It has two addresses, as with Wi-Fi and LTE, and a path from each; they would be
//!     // "192.168.1.23:0" and "10.64.3.9:0".
//!     let mut roots = RootCertStore::empty();
//!     roots.add(certificate)?;
//!     let client = Endpoint::client(&["127.0.0.1:0".parse()?, "127.0.0.1:0".parse()?])?;
//!     client.set_default_client_config(ClientConfig::with_root_certificates(roots)?);
//!     let connection = client.connect(address, "localhost")?.await?;
//!
//!     let (mut send, mut recv) = connection.open_bi().await?;
//!     send.write_all(b"hello").await?;
//!     send.finish()?;
//!     assert_eq!(recv.read_to_end(64 * 1024).await?, b"HELLO");
//!
//!     connection.close(VarInt::from_u32(0), b"done");
//!     client.wait_idle().await; // until the server has heard of it
//!     Ok(())
//! }
//! ```
//!
//! With the feature `interfaces`, `Endpoint::builder().all_interfaces()` is an endpoint on all links of the machine, as they come
//! and go. [`TransportConfig::scheduler`] chooses another packet scheduler: `transport.scheduler(sched::Ecf::default)`.
//!
//! # The guide
//!
//! The repository has a guide, in `docs/guide`: first steps, two interfaces step by step, paths, schedulers, deploying, seeing
//! inside, a table of what each setting takes, and what differs from quinn. `docs/reliability.md` says what is promised and what a
//! peer can cost, `docs/results` what the schedulers are worth.
//!
//! # Features
//!
//! All are off by default, and none changes what the others do.
//!
//! | feature | what it adds |
//! |---|---|
//! | `aws-lc-rs` | TLS configurations that are made here have their cryptography from AWS-LC, not from ring. Needs a C compiler and cmake. |
//! | `fast-apple-datapath` | On macOS and iOS, several datagrams per system call, by calls that Apple does not document. |
//! | `interfaces` | The interfaces of the machine, as they come and go: `EndpointBuilder::all_interfaces`, `SystemInterfaces`. |
//! | `metrics` | Counters, gauges and histograms for monitoring, through the `metrics` facade: the module `metrics`. |
//! | `platform-verifier` | Trust the certificate authorities of the system: `ClientConfig::with_platform_verifier`. |
//! | `qlog` | A file per connection of what happened in it, for the environment variable `QLOGDIR` and by configuration: the module `qlog`. |
//! | `quic-lb` | Encrypted connection IDs for load balancers: `QuicLbConfig::key`. |
//! | `record` | What schedulers experience, written down for training: `sched::record`. |
//! | `serde` | Statistics as data: `PathStats`, `ConnectionStats`. |
//!
//! The crate `mpquic-sched-neural` adds schedulers that ask a trained network to a registry: `dqn`, `sailfish`, `gaps`. It
//! brings in tract, which takes minutes to build.
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
//! It is the side that sends that gains the most by it: for downloads, give the server a memory. A client's memory decides on which of
//! several links a connection begins: on the one that brought the most. [`PathStats::careful_resume`] says
//! what came of it.
//!
//! With the feature `record`, what schedulers experience (states, actions, rewards) can be written to a file:
//! `Registry::with_recorder`.
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
// Two system calls have it: `steer.rs`, `crowd.rs`.
#![deny(unsafe_code)]

mod async_socket;
mod binder;
mod builder;
mod coalescing;
mod connection;
mod connection_state;
mod crowd;
mod driver;
mod endpoint;
mod endpoint_driver;
mod endpoint_state;
mod error;
mod guarded;
#[cfg(doctest)]
mod guide;
mod inbox;
mod incoming;
mod link_mtu;
mod links;
#[cfg(all(test, mpquic_loom))]
mod loom_models;
#[cfg(feature = "metrics")]
pub mod metrics;
mod next_look;
mod outbox;
mod path;
mod path_manager;
mod readiness;
mod recv_buffers;
mod recv_driver;
mod recv_stream;
mod send_stream;
mod shards;
mod socket;
mod socket_health;
mod steer;
mod sync;
mod wait_queue;

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
    ConnectionClose, ConnectionCount, ConnectionError, ConnectionIdGenerator, ConnectionStats,
    CopyStats, DatagramFate, DatagramOptions, Decided, Dir, EarlyPathData, EndpointConfig, Escaped,
    FailedAttempt, Fate, FourTuple, FrameInfo, Frames, HalfOpen, InitialWindow, MemoryUse,
    NoTokenLog, NoTokenStore, NumberSpace, Observation, Observer, ObserverFactory, PacketLost,
    PacketReceived, PacketSent, Parameters, PathChange, PathChangeKind, PathError, PathErrorCode,
    PathEvent, PathId, PathMemory, PathMetrics, PathStart, PathStats, PathStatus, QuicLb,
    QuicLbConfig, QuicLbError, RaceConfig, Reconnaissance, SavedPath, ServerConfig, SessionMemory,
    Side, Started, StreamHints, StreamId, StreamPiece, ThroughputForecast, TokenLog,
    TokenMemoryLog, TokenMemoryStore, TokenReuseError, TokenStore, TransportConfig, TransportError,
    TransportErrorCode, UnknownCongestionControl, Unsendable, ValidationTokenConfig, VarInt,
};
pub use mpquic_proto::{config, congestion, limits};
#[cfg(feature = "qlog")]
pub use mpquic_qlog as qlog;
pub use mpquic_sched as sched;
/// What an [`AsyncUdpSocket`] is given to send, and says of what it received.
pub use quinn_udp as udp;
pub use rustls;
