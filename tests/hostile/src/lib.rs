//! A hostile QUIC peer: completes handshakes by rustls, then sends any frame in any packet on any path, and sees what
//! comes back. Its encoders are its own, so that they cannot share a fault with the code that they are held against.
//!
//! - [`wire`], [`packet`], [`params`]: bytes.
//! - [`peer`]: one end of a connection that keeps no rule.
//! - [`victim`]: the code under test in virtual time; [`meter`]: what it holds.
//! - [`duel`]: both together, and the way to a state that is worth attacking.
//! - [`blackbox`]: attacks over real sockets, by the program of this package.
//! - [`fuzz`]: whole connections driven by the bytes of a fuzzer.
//!
//! `tests/attacks` are the tests made of it. The package's program attacks a server over real sockets, and its example
//! `fuzz` mutates inputs of whole connections.

pub mod blackbox;
pub mod duel;
pub mod fuzz;
pub mod meter;
pub mod packet;
pub mod params;
pub mod peer;
pub mod tls;
pub mod victim;
pub mod wire;
