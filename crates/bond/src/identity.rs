//! Who the server is: its certificate, kept in files or made once, and how a client recognises it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;
use crate::wire::ALPN;

/// SHA-256 of a certificate, as a client may be given it to recognise its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = digest::digest(&digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = String;

    /// Hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no fingerprint: 64 hexadecimal digits are expected, as the server prints them"
            )
        };
        let digits: Vec<u8> = text
            .chars()
            .filter(|digit| *digit != ':')
            .map(|digit| digit.to_digit(16).map(|value| value as u8))
            .collect::<Option<_>>()
            .ok_or_else(wanted)?;
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(wanted());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From PEM files.
    ///
    /// # Errors
    ///
    /// If one cannot be read, or has none.
    pub fn from_files(chain: &Path, key: &Path) -> Result<Self, Error> {
        Ok(Self {
            chain: certificates(chain)?,
            key: PrivateKeyDer::from_pem_file(key).map_err(|error| Error::file(key, error))?,
        })
    }

    /// The one that is kept in a folder as `cert.pem` and `key.pem`; made there if the folder has none, so that its fingerprint stays the
    /// same from then on.
    ///
    /// # Errors
    ///
    /// If the files cannot be read or written.
    pub fn kept_in(folder: &Path) -> Result<Self, Error> {
        let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        if !chain.exists() && !key.exists() {
            make(folder, &chain, &key)?;
        }
        Self::from_files(&chain, &key)
    }

    /// The fingerprint of its own certificate, the first of the chain.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.chain.first().map(Fingerprint::of)
    }
}

fn make(folder: &Path, chain: &Path, key: &Path) -> Result<(), Error> {
    let made = rcgen::generate_simple_self_signed(vec!["mpquic-bond".into()])
        .map_err(|error| Error::Argument(format!("no certificate can be made: {error}")))?;
    fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(key)
        .and_then(|mut file| file.write_all(made.signing_key.serialize_pem().as_bytes()));
    if let Err(error) = written {
        // Half a key would be in the way of the next start. Nothing more can be done if it stays.
        let _ = fs::remove_file(key);
        return Err(Error::file(key, error));
    }
    fs::write(chain, made.cert.pem()).map_err(|error| {
        let _ = fs::remove_file(chain);
        let _ = fs::remove_file(key);
        Error::file(chain, error)
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| Error::file(path, error))?;
    if certificates.is_empty() {
        return Err(Error::file(path, "it has no certificate in PEM"));
    }
    Ok(certificates)
}

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

/// TLS of a server; with `client_ca`, for clients with a certificate of that authority only.
///
/// # Errors
///
/// If a file cannot be read, or key and certificate do not belong together.
pub fn server_tls(
    identity: Identity,
    client_ca: Option<&Path>,
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
    let mut tls = builder.with_single_cert(identity.chain, identity.key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    Ok(tls)
}

/// How a client recognises its server.
#[derive(Debug, Clone)]
pub enum Trust {
    /// By the fingerprint of its certificate, whatever name and dates that has.
    Fingerprint(Fingerprint),
    /// By a certificate of these authorities, for the server's name.
    Authorities(PathBuf),
}

/// TLS of a client, with a certificate of its own if the server asks for one.
///
/// # Errors
///
/// If a file cannot be read, or key and certificate do not belong together.
pub fn client_tls(
    trust: &Trust,
    identity: Option<Identity>,
) -> Result<rustls::ClientConfig, Error> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match trust {
        Trust::Authorities(path) => builder.with_root_certificates(roots(path)?),
        Trust::Fingerprint(fingerprint) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned(*fingerprint, provider()))),
    };
    let mut tls = match identity {
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![ALPN.to_vec()];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("deeper");
        let made = Identity::kept_in(&inside).unwrap().fingerprint().unwrap();
        assert_eq!(
            Identity::kept_in(&inside).unwrap().fingerprint(),
            Some(made)
        );
        assert_eq!(made.to_string().parse(), Ok(made));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(inside.join("key.pem"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // Half of it is not mended by itself: the other half may be somewhere.
        fs::remove_file(inside.join("key.pem")).unwrap();
        let refused = Identity::kept_in(&inside).unwrap_err().to_string();
        assert!(refused.contains("key.pem"), "{refused}");
    }

    #[test]
    fn what_is_no_fingerprint_is_refused() {
        for text in ["", "12", &"g".repeat(64), &"1".repeat(66)] {
            assert!(
                text.parse::<Fingerprint>()
                    .unwrap_err()
                    .contains("64 hexadecimal")
            );
        }
        let colons = vec!["ab"; 32].join(":");
        assert_eq!(colons.parse::<Fingerprint>(), Ok(Fingerprint([0xab; 32])));
    }

    #[test]
    fn a_file_without_a_certificate_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.pem");
        fs::write(&path, "nothing").unwrap();
        let refused = certificates(&path).unwrap_err().to_string();
        assert!(
            refused.contains("empty.pem: it has no certificate"),
            "{refused}"
        );
    }
}
