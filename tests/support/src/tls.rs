//! An identity that was made a moment ago, and TLS for those who have it and those who trust it.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A certificate for `localhost`, signed by itself, and its key.
#[derive(Debug)]
pub struct Identity {
    /// Whom clients trust.
    pub certificate: CertificateDer<'static>,
    /// The server's.
    pub key: PrivateKeyDer<'static>,
    /// The certificate as a file has it.
    pub pem: String,
}

impl Identity {
    /// A new one.
    ///
    /// # Panics
    ///
    /// If none can be made.
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self {
            certificate: made.cert.der().clone(),
            key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
            pem: made.cert.pem(),
        }
    }

    /// Only this certificate.
    ///
    /// # Panics
    ///
    /// Never: it is a certificate.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// Of a client that trusts it: TLS 1.3 by ring.
    ///
    /// # Panics
    ///
    /// Never: ring has what TLS 1.3 needs.
    pub fn client(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }

    /// Of a server that has it: TLS 1.3 by ring.
    ///
    /// # Panics
    ///
    /// Never: the key is that of the certificate.
    pub fn server(&self) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap()
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}
