//! How the two ends recognise each other: the configurations of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::error::Error;
use crate::identity::{Fingerprint, Identity, certificates};

fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| Error::file(path, error))?;
    }
    Ok(roots)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS of a server that speaks the application protocol `alpn`; with `client_ca`, for clients with a certificate of that authority
/// only.
///
/// # Errors
///
/// If a file cannot be read, or key and certificate do not belong together.
pub fn server_tls(
    identity: Identity,
    client_ca: Option<&Path>,
    alpn: &[u8],
) -> Result<rustls::ServerConfig, Error> {
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match client_ca {
        Some(path) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider());
            let verifier = verifier.build().map_err(|error| Error::file(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = identity.into_parts();
    let mut tls = builder.with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![alpn.to_vec()];
    Ok(tls)
}

/// How a client recognises its server.
#[derive(Debug, Clone)]
pub enum Trust {
    /// By the fingerprint of its certificate, whatever name and dates that has.
    Fingerprint(Fingerprint),
    /// By a certificate of these authorities (a PEM file), for the server's name.
    Authorities(PathBuf),
    /// By a certificate of an authority that the system trusts, for the server's name.
    System,
}

/// TLS of a client that speaks the application protocol `alpn`, with a certificate of its own if the server asks for one.
///
/// # Errors
///
/// If a file cannot be read, key and certificate do not belong together, or the system has no authorities to tell.
pub fn client_tls(
    trust: &Trust,
    identity: Option<Identity>,
    alpn: &[u8],
) -> Result<rustls::ClientConfig, Error> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match trust {
        Trust::Authorities(path) => builder.with_root_certificates(roots(path)?),
        Trust::Fingerprint(fingerprint) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned(*fingerprint, provider()))),
        Trust::System => {
            let verifier = Verifier::new(provider())?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let mut tls = match identity {
        Some(identity) => {
            let (chain, key) = identity.into_parts();
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![alpn.to_vec()];
    Ok(tls)
}

/// Takes the one certificate that it knows. That the server has its key is checked as always.
#[derive(Debug)]
struct Pinned(Fingerprint, Arc<CryptoProvider>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Fingerprint::of(end_entity) == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.1.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}
