//! A proxy that bonds links: every TCP connection becomes a stream of one multipath QUIC connection, so that one flow has the sum of
//! a machine's links, and survives the loss of any.
//!
//! [`Server`] runs on a host with a public address. [`Client`] runs on the machine with several links; programs on it use the client's
//! local port as a SOCKS5 (RFC 1928) or HTTP CONNECT (RFC 9110 section 9.3.6) proxy. UDP travels in datagrams (SOCKS5 UDP
//! ASSOCIATE). The program `mpquic-bond` is both.
//!
//! What is promised:
//!
//! - The end of one side is the end of the other: half-closed connections stay half-closed, resets become resets. A connection that breaks on the
//!   way is reset, so that nobody takes a part for the whole.
//! - Back-pressure passes through: no side reads more from a socket than the other has taken, but for the windows of the connection.
//! - A server connects to nothing without a rule ([`AllowList`]), and a rule for names does not reach into its own network, nor the server itself.
//! - No client takes what the others need: sockets, names that are looked up and memory have their limits for each.
//! - A client proves that it has the [`Token`] without sending it, or has a certificate of an authority that the server names.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod allow;
mod caps;
mod client;
mod error;
mod forward;
mod interfaces;
mod journal;
mod links;
mod live;
mod names;
mod proxy;
mod race;
mod report;
mod rows;
pub mod screen;
mod server;
mod settings;
mod special;
mod splice;
#[cfg(target_os = "linux")]
pub mod tun;
mod udp;
mod wire;

pub use allow::{AllowList, Rule};
pub use client::{Client, ClientSettings, Far};
pub use error::Error;
pub use forward::Forward;
pub use live::DEADLINE as LIVE_DEADLINE;
pub use mpquic_peer::{
    ClientTls, Fingerprint, Identity, LinkRule, Local, Token, Transport, Trust, Users,
};
pub use report::{LinkReport, Report};
pub use server::{Server, ServerSettings, users};
pub use settings::{client_tls, server_tls};
pub use wire::{ALPN, Malformed, Refusal, Target};
