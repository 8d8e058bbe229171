//! Packet protection keys (RFC 9001 section 5), their update, the Retry tag; TLS itself is in `handshake`.

mod long;
mod one_rtt;
mod retry;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    long::{initial_keys, open_long, seal_long},
    one_rtt::{OneRttKeys, OpenError},
    retry::{retry_tag, verify_retry_tag},
};
pub(crate) use rustls::quic::Keys;

#[cfg(test)]
std::thread_local! {
    static KEYS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A key is derived, for a packet of a client that is not known or for its token: what a flood of them costs.
#[cfg(test)]
pub(crate) fn count_key() {
    KEYS.with(|keys| keys.set(keys.get() + 1));
}

/// How many keys this thread has derived.
#[cfg(test)]
pub(crate) fn keys_derived() -> usize {
    KEYS.with(std::cell::Cell::get)
}
