//! Packet protection keys (RFC 9001 section 5), their update, the Retry tag; TLS itself is in `handshake`.

mod long;
mod one_rtt;
mod retry;
#[cfg(test)]
mod tests;

pub use self::{
    long::{initial_keys, open_long, seal_long},
    one_rtt::{OneRttKeys, OpenError},
    retry::{retry_tag, verify_retry_tag},
};
pub use rustls::quic::Keys;

/// Whether there is the suite of Initial packets (RFC 9001 section 5.2), TLS13_AES_128_GCM_SHA256 with QUIC support.
pub fn has_initial_suite(provider: &rustls::crypto::CryptoProvider) -> bool {
    provider.cipher_suites.iter().any(|suite| {
        suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256
            && suite.tls13().is_some_and(|suite| suite.quic.is_some())
    })
}
