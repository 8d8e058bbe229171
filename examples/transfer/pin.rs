//! A certificate that is trusted by its fingerprint: a server makes one at each start, and a client is told which.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mpquic::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use mpquic::rustls::crypto::{CryptoProvider, ring};
use mpquic::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use mpquic::rustls::{self, DigitallySignedStruct, SignatureScheme};
use mpquic::{ClientConfig, ConfigError, ServerConfig};
use sha2::{Digest, Sha256};

/// The SHA-256 of a certificate, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pin([u8; 32]);

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "expected sha256: and 64 hexadecimal digits";
        let digits = text.trim().strip_prefix("sha256:").ok_or(wrong)?;
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong);
        }
        let mut pin = [0; 32];
        for (place, byte) in pin.iter_mut().enumerate() {
            let pair = &digits[2 * place..2 * place + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong)?;
        }
        Ok(Self(pin))
    }
}

fn tls_error(error: impl fmt::Display) -> ConfigError {
    ConfigError::Tls(error.to_string())
}

/// A server's configuration with a certificate that is made now, and its pin.
pub(crate) fn server(alpn: &[u8]) -> Result<(ServerConfig, Pin), ConfigError> {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).map_err(tls_error)?;
    let certificate = made.cert.der().clone();
    let pin = Pin(Sha256::digest(&certificate).into());
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls_error)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(tls_error)?;
    tls.alpn_protocols = vec![alpn.to_vec()];
    Ok((ServerConfig::new(Arc::new(tls))?, pin))
}

/// A client's configuration that trusts the certificate with this pin, whatever name and dates it has.
pub(crate) fn client(alpn: &[u8], pin: Pin) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls_error)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { pin, provider }))
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    ClientConfig::new(Arc::new(tls))
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Pin(Sha256::digest(end_entity).into()) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(
            "the server has another certificate than the pinned one".to_owned(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
