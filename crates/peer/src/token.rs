//! The tokens of clients, one that all share or a user's own: how they are proven, without being sent.

use std::path::Path;

use mpquic::Connection;
use ring::hmac;

use crate::error::Error;
use crate::greeting::{NAMED, signed};
use crate::identity::read;
use crate::user_key::UserSecret;

/// Shorter tokens could be guessed.
const SHORTEST: usize = 16;
/// The length of a proof, bytes: a SHA-256 MAC.
pub const PROOF: usize = 32;

/// A secret that client and server share; or a named user's, of which the server has a public key.
#[derive(Clone)]
pub struct Token(Secret);

#[derive(Clone)]
enum Secret {
    Shared(hmac::Key),
    User(UserSecret, UserSecret),
}

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
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Ok(Self(Secret::Shared(key)))
    }

    /// A named user's, on a device: see [`UserSecret::of_device`].
    pub const fn of_user(user: UserSecret, device: UserSecret) -> Self {
        Self(Secret::User(user, device))
    }

    /// What a client says at the begin of its first stream: the version of its protocol, and that it has the token.
    ///
    /// # Errors
    ///
    /// If the handshake is not complete.
    pub fn greeting(
        &self,
        connection: &Connection,
        version: u8,
        label: &str,
    ) -> Result<Vec<u8>, rustls::Error> {
        match &self.0 {
            Secret::Shared(_) => {
                let mut greeting = vec![version];
                greeting.extend(self.proof(connection, label)?);
                Ok(greeting)
            }
            Secret::User(user, device) => {
                let keys = [user.key(), device.key()];
                let message = signed(exported(connection, label)?, keys[0], keys[1]);
                let mut greeting = vec![version | NAMED];
                for key in keys {
                    greeting.extend(key.0);
                }
                for secret in [user, device] {
                    greeting.extend(secret.sign(&message));
                }
                Ok(greeting)
            }
        }
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
    /// If the handshake is not complete, or it is a user's, which signs instead.
    pub fn proof(
        &self,
        connection: &Connection,
        label: &str,
    ) -> Result<[u8; PROOF], rustls::Error> {
        let Secret::Shared(key) = &self.0 else {
            return Err(rustls::Error::General("a user's token signs".to_owned()));
        };
        let tag = hmac::sign(key, &exported(connection, label)?);
        let mut proof = [0; PROOF];
        proof.copy_from_slice(tag.as_ref());
        Ok(proof)
    }

    /// Whether `proof` is that of a peer that has the token; takes the same time if not.
    pub fn proves(&self, connection: &Connection, label: &str, proof: &[u8]) -> bool {
        let Secret::Shared(key) = &self.0 else {
            return false;
        };
        exported(connection, label)
            .is_ok_and(|exported| hmac::verify(key, &exported, proof).is_ok())
    }
}

pub(crate) fn exported(connection: &Connection, label: &str) -> Result<[u8; 32], rustls::Error> {
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
