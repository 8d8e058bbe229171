//! Packet protection keys (RFC 9001 section 5), their update, the Retry tag; TLS itself is in `handshake`.

mod long;
mod one_rtt;
mod retry;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::retry::retry_tag;
pub(crate) use self::{
    long::{initial_keys, open_long, seal_long},
    one_rtt::{OneRttKeys, OpenError},
    retry::verify_retry_tag,
};
pub(crate) use rustls::quic::Keys;
