//! Packet protection keys (RFC 9001 section 5), their update; TLS itself is in `handshake`.

mod long;
mod one_rtt;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    long::{initial_keys, open_long, seal_long},
    one_rtt::{OneRttKeys, OpenError},
};
pub(crate) use rustls::quic::Keys;
