//! The pre-shared token: how a client proves that it has it, without sending it.

use std::path::Path;

use mpquic::Connection;
use ring::hmac;

use crate::error::Error;
use crate::identity::read;

/// Shorter tokens could be guessed.
const SHORTEST: usize = 16;
/// The length of a proof, bytes: a SHA-256 MAC.
pub const PROOF: usize = 32;

/// A secret that client and server share.
#[derive(Clone)]
pub struct Token(hmac::Key);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A token from its bytes.
    ///
    /// # Errors
    ///
    /// If there are fewer than 16.
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        if secret.len() < SHORTEST {
            let why = format!(
                "a token has at least {SHORTEST} bytes, this one {}",
                secret.len()
            );
            return Err(Error::Setting(why));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// A token from a file, without the white space around it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has fewer than 16 bytes.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        Self::new(text.trim_ascii()).map_err(|error| Error::file(path, error))
    }

    /// A token from an environment variable, without the white space around it; `None` if that is not set or empty.
    ///
    /// # Errors
    ///
    /// If it has fewer than 16 bytes.
    pub fn from_env(variable: &str) -> Result<Option<Self>, Error> {
        let Some(text) = std::env::var_os(variable).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let token = Self::new(text.as_encoded_bytes().trim_ascii());
        token
            .map(Some)
            .map_err(|error| Error::Setting(format!("{variable}: {error}")))
    }

    /// The proof for a connection: a MAC over what only its two ends can derive (RFC 8446 section 7.5), so that it is worth nothing on
    /// another one. `label` is that of the application's protocol, such as `EXPORTER-example`.
    ///
    /// # Errors
    ///
    /// If the handshake is not complete.
    pub fn proof(
        &self,
        connection: &Connection,
        label: &str,
    ) -> Result<[u8; PROOF], rustls::Error> {
        let tag = hmac::sign(&self.0, &exported(connection, label)?);
        let mut proof = [0; PROOF];
        proof.copy_from_slice(tag.as_ref());
        Ok(proof)
    }

    /// Whether `proof` is that of a peer that has the token; takes the same time if not.
    pub fn proves(&self, connection: &Connection, label: &str, proof: &[u8]) -> bool {
        exported(connection, label)
            .is_ok_and(|exported| hmac::verify(&self.0, &exported, proof).is_ok())
    }
}

fn exported(connection: &Connection, label: &str) -> Result<[u8; 32], rustls::Error> {
    let mut exported = [0; 32];
    connection.export_keying_material(&mut exported, label.as_bytes(), b"")?;
    Ok(exported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_least_length_without_white_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "  0123456789abcdef\n").unwrap();
        assert!(Token::from_file(&path).is_ok());
        std::fs::write(&path, "0123456789abcde  \n").unwrap();
        let refused = Token::from_file(&path).unwrap_err().to_string();
        assert!(
            refused.contains("token: ") && refused.contains("at least 16 bytes, this one 15"),
            "{refused}"
        );
        if cfg!(unix) {
            let endless = Token::from_file(Path::new("/dev/zero")).unwrap_err();
            let told = "/dev/zero: longer than 1 MiB, the most that is read";
            assert_eq!(endless.to_string(), told);
        }
        let missing = Token::from_file(&folder.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(missing.contains("none"), "{missing}");
    }
}
