//! The simulator's fixed TLS identity and settings, chosen so that handshakes have the same size in
//! every run. For tests only: the private key is public.

use std::sync::Arc;

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite, kx_group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Self-signed, with Ed25519, whose signatures have a fixed size; valid from 2020 to 2099: see
/// `certs/README.md`.
const CERTIFICATE: &[u8] = include_bytes!("../certs/identity.cert.der");
const KEY: &[u8] = include_bytes!("../certs/identity.key.der");

/// The server name in the simulator's certificate, which is also valid for `server`.
pub const SERVER_NAME: &str = "localhost";

/// The ALPN protocol of both sides.
pub const ALPN: &[u8] = b"mpquic-sim";

/// Exactly one key exchange group and one cipher suite: X25519 key shares have a fixed size, and
/// the suite determines the size of the Finished messages.
fn provider(suite: SupportedCipherSuite) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![kx_group::X25519],
        ..ring::default_provider()
    })
}

/// The test certificate, which a client of [`server_tls`] must trust.
pub fn certificate() -> CertificateDer<'static> {
    CertificateDer::from(CERTIFICATE)
}

/// The TLS configuration of a server with the test identity. It sends no session tickets, whose
/// number and size would depend on the time of day.
///
/// # Errors
///
/// If rustls refuses the embedded identity.
pub fn server_tls() -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    server_tls_with(cipher_suite::TLS13_AES_128_GCM_SHA256)
}

/// The same with another suite, which must have the same sizes.
pub(crate) fn server_tls_with(
    suite: SupportedCipherSuite,
) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
    let mut tls = rustls::ServerConfig::builder_with_provider(provider(suite))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)?;
    tls.send_tls13_tickets = 0;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(tls))
}

/// The TLS configuration of a client that trusts only the test certificate.
///
/// # Errors
///
/// If rustls refuses the embedded certificate.
pub fn client_tls() -> Result<Arc<rustls::ClientConfig>, rustls::Error> {
    client_tls_with(cipher_suite::TLS13_AES_128_GCM_SHA256)
}

/// The same with another suite, which must have the same sizes.
pub(crate) fn client_tls_with(
    suite: SupportedCipherSuite,
) -> Result<Arc<rustls::ClientConfig>, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate())?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(suite))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = rustls::client::Resumption::disabled();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(tls))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::quic;

    use super::*;

    /// Performs a TLS handshake as QUIC does. Returns how many bytes each side sent per level.
    fn flights(name: &str) -> Vec<usize> {
        let server_name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = quic::Connection::Client(
            quic::ClientConnection::new(
                client_tls().unwrap(),
                quic::Version::V1,
                server_name,
                vec![1; 60],
            )
            .unwrap(),
        );
        let mut server = quic::Connection::Server(
            quic::ServerConnection::new(server_tls().unwrap(), quic::Version::V1, vec![2; 60])
                .unwrap(),
        );
        let mut sizes = Vec::new();
        for _ in 0..10 {
            for (from, to) in [(0, 1), (1, 0)] {
                let pair = [&mut client, &mut server];
                // One level's bytes at a time, as QUIC carries them (RFC 9001 section 4.1.3).
                loop {
                    let mut flight = Vec::new();
                    let change = pair[from].write_hs(&mut flight);
                    sizes.push(flight.len());
                    pair[to].read_hs(&flight).unwrap();
                    if change.is_none() {
                        break;
                    }
                }
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        sizes
    }

    #[test]
    fn handshakes_have_one_size() {
        let first = flights(SERVER_NAME);
        for _ in 0..10 {
            assert_eq!(flights(SERVER_NAME), first);
        }
        flights("server");
    }
}
