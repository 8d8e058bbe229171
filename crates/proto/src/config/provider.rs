//! Which implementation of cryptography TLS configurations get that are made here.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

use super::ConfigError;

/// rustls over ring; over AWS-LC with the feature `aws-lc-rs`.
pub(super) fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = rustls::crypto::ring::default_provider();
    Arc::new(provider)
}

/// What rustls or a verifier has to say against a configuration.
pub(super) fn refused(error: impl ToString) -> ConfigError {
    ConfigError::Tls(error.to_string())
}

/// RFC 9001 section 5.2: Initial packets need TLS13_AES_128_GCM_SHA256, with QUIC support.
pub(super) fn check_suites(provider: &CryptoProvider) -> Result<(), ConfigError> {
    match mpquic_wire::crypto::has_initial_suite(provider) {
        true => Ok(()),
        false => Err(ConfigError::NoInitialCipherSuite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The feature changes it, and nothing else does.
    #[test]
    fn the_feature_chooses_the_provider() {
        let described = format!("{:?}", provider().key_provider);
        let expected = if cfg!(feature = "aws-lc-rs") {
            "AwsLcRs"
        } else {
            "Ring"
        };
        assert_eq!(described, expected);
        assert!(check_suites(&provider()).is_ok());
    }
}
