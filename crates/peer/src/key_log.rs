//! The secrets of connections in a file, for Wireshark: the format of `SSLKEYLOGFILE`.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Appends what TLS derives to a file that the user named (draft-ietf-tls-keylogfile). Who has the file can read the connections.
#[derive(Debug)]
pub struct KeyLog(Mutex<File>);

impl KeyLog {
    /// Opens or makes the file; one that is made can be read by its owner only.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(path)
            .map_err(|error| Error::file(path, error))?;
        Ok(Self(Mutex::new(file)))
    }
}

impl rustls::KeyLog for KeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        for (bytes, end) in [(client_random, ' '), (secret, '\n')] {
            for byte in bytes {
                // Writing to a string does not fail.
                let _ = write!(line, "{byte:02x}");
            }
            line.push(end);
        }
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            crate::log!("the key log cannot be written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::KeyLog as _;

    use super::*;

    #[test]
    fn lines_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        for secret in [[1, 0xab], [2, 0xcd]] {
            let log = KeyLog::open(&path).unwrap();
            log.log("CLIENT_TRAFFIC_SECRET_0", &[0x10, 0x0f], &secret);
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "CLIENT_TRAFFIC_SECRET_0 100f 01ab\nCLIENT_TRAFFIC_SECRET_0 100f 02cd\n"
        );
        assert!(KeyLog::open(folder.path()).is_err());
    }
}
