//! QUIC on the wire: packets and their protection, frames, transport parameters (RFC 9000, 9001, 9221, 9287, 9368 and 10069).
//! A codec without state, sockets or clocks: what a packet means for a connection is decided in `mpquic-proto`.
//!
//! Decoding borrows from the packet and allocates nothing. Whatever a peer sends gives a value or an error, never a panic.
//!
//! ```
//! use mpquic_wire::frame::{Frame, FrameIter};
//!
//! let mut payload = Vec::new();
//! Frame::MaxData(1 << 20).encode(&mut payload);
//! let frames: Result<Vec<_>, _> = FrameIter::new(&payload).collect();
//! assert_eq!(frames.unwrap(), [Frame::MaxData(1 << 20)]);
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

pub mod crypto;
mod error;
pub mod frame;
pub mod packet;
pub mod transport_parameters;

pub use error::{ApplicationClose, ConnectionClose, Escaped, PathErrorCode, TransportError};
pub use mpquic_sched_core::{
    ConnectionId, Dir, EcnCodepoint, PathId, Side, StreamId, TransportErrorCode, VarInt,
};
