//! How the two ends recognise each other: the configurations of TLS.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mpquic::Escaped;
use rustls::client::WebPkiServerVerifier;
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
    /// By the fingerprint that it had when the user met it, which is in a line of a file.
    Known {
        /// The fingerprint.
        fingerprint: Fingerprint,
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// By a certificate of these authorities (a PEM file), for the server's name.
    Authorities(PathBuf),
    /// By a certificate of an authority that the system trusts, for the server's name.
    System,
}

/// TLS of a client, and what it found out about its server.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// The configuration.
    pub config: rustls::ClientConfig,
    pub(crate) verdict: Verdict,
}

/// Why the last server was not trusted, in words for the user: TLS itself carries an alert's number and a short reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<(String, Fingerprint)>>>);

impl Verdict {
    pub(crate) fn take(&self) -> Option<(String, Fingerprint)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, why: String, seen: Fingerprint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((why, seen));
    }
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
) -> Result<ClientTls, Error> {
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Authorities(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
            verifier.build().map_err(|error| Error::file(path, error))?
        }
        Trust::Fingerprint(fingerprint) | Trust::Known { fingerprint, .. } => {
            Arc::new(Pinned(*fingerprint, provider()))
        }
        Trust::System => Arc::new(Verifier::new(provider())?),
    };
    let verdict = Verdict::default();
    let explaining = Explaining {
        verifier,
        trust: trust.clone(),
        verdict: verdict.clone(),
    };
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(explaining));
    let mut config = match identity {
        Some(identity) => {
            let (chain, key) = identity.into_parts();
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(ClientTls { config, verdict })
}

/// Judges as another verifier does, and says why a server is not trusted and what to do about it.
#[derive(Debug)]
struct Explaining {
    verifier: Arc<dyn ServerCertVerifier>,
    trust: Trust,
    verdict: Verdict,
}

impl Explaining {
    fn explain(&self, seen: Fingerprint, error: &rustls::Error) -> String {
        let by_whom = match &self.trust {
            Trust::Fingerprint(expected) => {
                return format!(
                    "its certificate has the fingerprint sha256:{seen}, and --pin expects sha256:{expected}; \
                     if the server has a new certificate, give --pin sha256:{seen}, else somebody else answers in its place"
                );
            }
            Trust::Known {
                fingerprint,
                path,
                line,
            } => {
                let path = path.display();
                return format!(
                    "THE SERVER IS NOT THE ONE THAT IT WAS. It has the fingerprint sha256:{seen}, and had sha256:{fingerprint} when it \
                     was met ({path}:{line}). Somebody else may answer in its place. If it has a new certificate, and prints this \
                     fingerprint, remove line {line} of {path} and connect again"
                );
            }
            Trust::Authorities(path) => format!("the authorities in {}", path.display()),
            Trust::System => "the authorities that this system trusts".to_owned(),
        };
        let why = match error {
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::Other(_),
            ) => format!("its certificate is not from {by_whom}"),
            rustls::Error::InvalidCertificate(error) => {
                let error = error.to_string();
                format!(
                    "its certificate does not hold before {by_whom}: {}",
                    Escaped::new(&error)
                )
            }
            error => error.to_string(),
        };
        let or_new = match self.trust {
            Trust::System => " or --accept-new",
            _ => "",
        };
        format!(
            "{why}; it has the fingerprint sha256:{seen}: if that is what the server prints, give --pin sha256:{seen}{or_new}"
        )
    }
}

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .verifier
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        if let Err(error) = &verified {
            let seen = Fingerprint::of(end_entity);
            self.verdict.set(self.explain(seen, error), seen);
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
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
