//! Who an end is: its certificate and key, from files or made once, and the fingerprint by which others know it.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use mpquic::EndpointConfig;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// SHA-256 of a certificate, as a client may be given it to recognise its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = digest::digest(&digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl Fingerprint {
    /// That of the first certificate in a PEM file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has none.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let chain = certificates(path)?;
        chain
            .first()
            .map(Self::of)
            .ok_or_else(|| Error::file(path, "no certificate"))
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
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

    /// Hexadecimal digits, with or without colons, and with or without `sha256:` before them.
    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "{text:?} is no fingerprint: 64 hexadecimal digits are expected, as the server prints them"
            )
        };
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let digits: Vec<u8> = digits
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
            key: PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|error| Error::file(key, error))?,
        })
    }

    /// The one that is kept in a folder as `cert.pem` and `key.pem`; made there for `name` if the folder has none, so that its fingerprint
    /// stays the same from then on.
    ///
    /// # Errors
    ///
    /// If the files cannot be read or written.
    pub fn kept_in(folder: &Path, name: &str) -> Result<Self, Error> {
        let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        if !chain.exists() {
            // An empty key is being made by another process, or was when that was killed.
            match fs::metadata(&key) {
                Ok(there) if there.len() > 0 => {
                    // Until its certificate is there, too. What is wrong with the file shows when it is read.
                    let _ = fs::File::open(&key).and_then(|file| file.lock_shared());
                }
                _ => make(folder, name, &chain, &key)?,
            }
        }
        Self::from_files(&chain, &key)
    }

    /// One that is kept nowhere.
    ///
    /// # Errors
    ///
    /// If none can be made.
    pub fn passing(name: &str) -> Result<Self, Error> {
        let made = made(name)?;
        Ok(Self {
            chain: vec![made.cert.der().clone()],
            key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        })
    }

    /// The fingerprint of its own certificate, the first of the chain.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.chain.first().map(Fingerprint::of)
    }

    /// The configuration of an endpoint whose keys outlive the process: a server that was killed and started again ends the connections
    /// of before at the first packet that comes of them (stateless reset, RFC 9000 section 10.3), so that their clients need not wait for
    /// their idle timeouts, and takes the address validation tokens that it gave out (RFC 9000 section 8.1).
    ///
    /// The keys are derived from the private key, for the program of this name on these addresses: two servers with one identity must
    /// not end each other's connections (RFC 9000 section 21.11).
    ///
    /// # Errors
    ///
    /// If the system has no randomness.
    pub fn endpoint_config(
        &self,
        program: &str,
        listen: &[SocketAddr],
    ) -> Result<EndpointConfig, Error> {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| Error::Setting("the system has no randomness".to_owned()))?;
        let mut config = EndpointConfig::new(seed);
        config
            .reset_key(self.derive("stateless reset", program, listen))
            .token_key(self.derive("address validation", program, listen));
        // A clock before 1970 serves the tokens of this process all the same.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        config.clock(Instant::now(), since_epoch.unwrap_or_default());
        Ok(config)
    }

    /// A key for one purpose. HMAC-SHA256 is a pseudo-random function: what it gives says nothing of the private key.
    fn derive(&self, purpose: &str, program: &str, listen: &[SocketAddr]) -> [u8; 32] {
        let mut listen: Vec<_> = listen.iter().map(ToString::to_string).collect();
        listen.sort();
        let context = format!("mpquic {purpose}\n{program}\n{}", listen.join("\n"));
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.secret_der());
        let mut derived = [0; 32];
        derived.copy_from_slice(hmac::sign(&key, context.as_bytes()).as_ref());
        derived
    }

    pub(crate) fn into_parts(self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain, self.key)
    }
}

/// Where the program of this name keeps its identity: below the folder for the user's data (`XDG_DATA_HOME`, or `.local/share` at home).
///
/// # Errors
///
/// If there is no such folder.
pub fn identity_folder(program: &str) -> Result<PathBuf, Error> {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    let data = data.ok_or_else(|| {
        Error::Setting(
            "there is no home folder to keep a certificate in: give --identity".to_owned(),
        )
    })?;
    Ok(data.join(program))
}

fn made(name: &str) -> Result<rcgen::CertifiedKey<rcgen::KeyPair>, Error> {
    rcgen::generate_simple_self_signed(vec![name.to_owned()])
        .map_err(|error| Error::Setting(format!("no certificate can be made: {error}")))
}

/// Makes both files, if no other process has meanwhile: those that start at the same time wait for one of them.
fn make(folder: &Path, name: &str, chain: &Path, key: &Path) -> Result<(), Error> {
    let made = made(name)?;
    fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(key).and_then(|file| {
        file.lock()?;
        let is_empty = file.metadata()?.len() == 0;
        Ok((file, is_empty))
    });
    let (mut file, is_empty) = opened.map_err(|error| Error::file(key, error))?;
    if !is_empty || chain.exists() {
        return Ok(());
    }
    // The certificate has its name when both are complete.
    let new = folder.join(".cert.pem.new");
    let written = fs::write(&new, made.cert.pem()).map_err(|error| Error::file(&new, error));
    let written = written.and_then(|()| {
        let pem = made.signing_key.serialize_pem();
        let written = file.write_all(pem.as_bytes());
        written.map_err(|error| Error::file(key, error))
    });
    let named =
        written.and_then(|()| fs::rename(&new, chain).map_err(|error| Error::file(chain, error)));
    if named.is_err() {
        // Half a key would be in the way of the next start. Nothing more can be done if it stays.
        let _ = file.set_len(0);
        let _ = fs::remove_file(&new);
    }
    named
}

/// A file, or what comes by a pipe, unless it has no end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    /// Thousands of certificates.
    const MOST: u64 = 1 << 20;
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| Error::file(path, error))?;
    let len = file.take(MOST + 1).read_to_end(&mut text);
    if len.map_err(|error| Error::file(path, error))? as u64 > MOST {
        return Err(Error::file(
            path,
            "longer than 1 MiB, the most that is read",
        ));
    }
    Ok(text)
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| Error::file(path, error))?;
    if certificates.is_empty() {
        return Err(Error::file(path, "it has no certificate in PEM"));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_start_at_the_same_time_have_one_identity() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let inside = folder.path().join("deeper");
            let made = std::thread::scope(|scope| {
                let start = || scope.spawn(|| Identity::kept_in(&inside, "example").unwrap());
                let all: Vec<_> = std::iter::repeat_with(start).take(8).collect();
                let made = all.into_iter().map(|one| one.join().unwrap().fingerprint());
                made.collect::<Vec<_>>()
            });
            assert!(made.iter().all(|one| *one == made[0]), "{made:?}");
            assert_eq!(fs::read_dir(&inside).unwrap().count(), 2);
        }
    }

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("deeper");
        let made = Identity::kept_in(&inside, "example")
            .unwrap()
            .fingerprint()
            .unwrap();
        assert_eq!(
            Identity::kept_in(&inside, "example").unwrap().fingerprint(),
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
        let refused = Identity::kept_in(&inside, "example")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("key.pem"), "{refused}");
    }

    #[test]
    fn keys_belong_to_an_identity_a_program_and_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let identity =
            |name: &str| Identity::kept_in(&folder.path().join(name), "example").unwrap();
        let listen: [SocketAddr; 2] = ["0.0.0.0:1".parse().unwrap(), "[::]:1".parse().unwrap()];
        let key = |name, program, listen: &[_]| identity(name).derive("x", program, listen);
        let kept = key("a", "p", &listen);
        assert_eq!(kept, key("a", "p", &[listen[1], listen[0]]));
        assert_ne!(kept, key("b", "p", &listen));
        assert_ne!(kept, key("a", "q", &listen));
        assert_ne!(kept, key("a", "p", &listen[..1]));
        assert_ne!(kept, identity("a").derive("y", "p", &listen));
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
        for text in [colons.clone(), format!("sha256:{colons}")] {
            assert_eq!(text.parse::<Fingerprint>(), Ok(Fingerprint([0xab; 32])));
        }
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
