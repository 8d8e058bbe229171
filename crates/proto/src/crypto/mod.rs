//! Packet protection keys (RFC 9001 section 5), their update, the Retry tag; TLS itself is in `handshake`.
#![allow(dead_code, reason = "the connection does not use all of it yet")]

mod long;
mod one_rtt;
mod retry;
#[cfg(test)]
mod tests;

#[allow(unused_imports, reason = "the connection does not use all of it yet")]
pub(crate) use self::{
    long::{initial_keys, open_long, seal_long},
    one_rtt::{OneRttKeys, OpenError, Opened},
    retry::{retry_tag, verify_retry_tag},
};
#[allow(unused_imports, reason = "the connection does not use all of it yet")]
pub(crate) use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, Tag};
