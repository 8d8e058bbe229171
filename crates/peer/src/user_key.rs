//! The tokens of named users: a secret of the user's, of which the server keeps a public key.
//!
//! A token has 128 random bits. What a server keeps of it is an Ed25519 public key that is derived from it, and the user proves the token
//! by a signature over keying material of the connection. So the token is never sent, a copy of the server's file is of no use to
//! whoever has it (it neither is the token nor can prove it), and no slow hash is needed: nobody goes through 2^128 tokens.

use std::fs;
use std::io::Write;
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::error::Error;
use crate::identity::read;

/// Bytes that nobody can guess.
///
/// # Errors
///
/// If the system has no randomness.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::Setting("the system has no randomness".to_owned()))?;
    Ok(bytes)
}

/// The length of a user's token, bytes.
pub(crate) const SECRET: usize = 16;

/// The secret of a user, or of a user's device.
#[derive(Clone, PartialEq, Eq)]
pub struct UserSecret([u8; SECRET]);

impl std::fmt::Debug for UserSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserSecret")
    }
}

impl UserSecret {
    /// A new one.
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn random() -> Result<Self, Error> {
        Ok(Self(random()?))
    }

    /// The one that a folder keeps as `device.key`, by which this user's programs are one device; made there if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn of_device(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("device.key");
        if !path.exists() {
            let secret = Self::random()?;
            fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
            // Whole, or not at all: another program may read it at once.
            let made = folder.join(format!(".device.key.{}", std::process::id()));
            let written = private(&made, &secret.0).and_then(|()| fs::hard_link(&made, &path));
            let _ = fs::remove_file(&made);
            match written {
                Ok(()) => return Ok(secret),
                // Another program was faster.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file(&path, error)),
            }
        }
        let bytes = read(&path)?;
        let bytes = bytes.try_into();
        bytes.map(Self).map_err(|_| {
            Error::file(
                &path,
                "no key of a device: remove it, and another one is made",
            )
        })
    }

    pub(crate) const fn from_bytes(bytes: [u8; SECRET]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; SECRET] {
        &self.0
    }

    fn pair(&self) -> Ed25519KeyPair {
        let seed = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, &self.0),
            b"mpquic user key",
        );
        // The seed has the length that is wanted, and any seed is a key.
        Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).unwrap_or_else(|_| unreachable!())
    }

    /// What a server keeps of it.
    pub fn key(&self) -> UserKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair().public_key().as_ref());
        UserKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.pair().sign(message).as_ref());
        bytes
    }
}

/// Makes a file that its owner alone can read.
pub(crate) fn private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// What a server keeps of a user's secret: it says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserKey(pub(crate) [u8; 32]);

impl UserKey {
    /// Whether `signature` was made over `message` by who has the secret.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(message, signature).is_ok()
    }
}

impl std::fmt::Display for UserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for UserKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is no key of a user: 64 hexadecimal digits are expected");
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(wanted());
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wanted())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_knows_its_secret_and_no_other() {
        let (one, two) = (UserSecret::random().unwrap(), UserSecret::random().unwrap());
        let key: UserKey = one.key().to_string().parse().unwrap();
        assert_eq!(key, one.key());
        assert!(key.verifies(b"text", &one.sign(b"text")));
        assert!(!key.verifies(b"other", &one.sign(b"text")));
        assert!(!key.verifies(b"text", &two.sign(b"text")));
        assert_eq!(format!("{one:?}"), "UserSecret");
        assert!("zz".repeat(32).parse::<UserKey>().is_err());
    }

    #[test]
    fn a_device_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let device = UserSecret::of_device(&folder).unwrap();
        assert_eq!(UserSecret::of_device(&folder).unwrap(), device);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(folder.join("device.key"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::write(folder.join("device.key"), "short").unwrap();
        assert!(UserSecret::of_device(&folder).is_err());
    }
}
