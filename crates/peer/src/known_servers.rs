//! The servers that a user knows: a file of names and fingerprints, as ssh's `known_hosts`.

use std::fs;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::identity::{Fingerprint, identity_folder, read};
use crate::trust::Trust;

/// The servers that a user's program trusts since it met them first.
#[derive(Debug, Clone)]
pub struct KnownServers(PathBuf);

impl KnownServers {
    /// Those of the program of this name: `known_servers` in its folder of the user's data.
    ///
    /// # Errors
    ///
    /// If there is no such folder.
    pub fn of(program: &str) -> Result<Self, Error> {
        Ok(Self::at(identity_folder(program)?.join("known_servers")))
    }

    /// Those of a file.
    pub const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The fingerprint that a server, `HOST:PORT`, had when it was met, and the line of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has something else for this server.
    pub fn find(&self, server: &str) -> Result<Option<(Fingerprint, usize)>, Error> {
        if !self.0.exists() {
            return Ok(None);
        }
        let text = read(&self.0)?;
        for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            let Some((name, fingerprint)) = line.trim().split_once(' ') else {
                continue;
            };
            if name.eq_ignore_ascii_case(server) {
                let found: Result<Fingerprint, String> = fingerprint.trim().parse();
                let wrong = |why| Error::file(&self.0, format!("line {}: {why}", number + 1));
                return Ok(Some((found.map_err(wrong)?, number + 1)));
            }
        }
        Ok(None)
    }

    /// How to recognise a server: as it was met, or by the authorities that the system trusts.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn trust(&self, server: &str) -> Result<Trust, Error> {
        Ok(match self.find(server)? {
            Some((fingerprint, line)) => Trust::Known {
                fingerprint,
                path: self.0.clone(),
                line,
            },
            None => Trust::System,
        })
    }

    /// Adds one that is not known yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&self, server: &str, fingerprint: Fingerprint) -> Result<(), Error> {
        let wrong = |error: std::io::Error| Error::file(&self.0, error);
        if let Some(folder) = self.0.parent() {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.0).map_err(wrong)?;
        let line = format!("{} sha256:{fingerprint}\n", server.to_ascii_lowercase());
        file.write_all(line.as_bytes()).map_err(wrong)
    }

    /// Asks the user on the terminal whether to trust a server that is met for the first time, or takes it unasked with `accept_new`, and
    /// notes it. `false` without a terminal. Waits for an answer.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn meet(
        &self,
        server: &str,
        fingerprint: Fingerprint,
        accept_new: bool,
    ) -> Result<bool, Error> {
        let accepted = accept_new || ask(server, fingerprint);
        if accepted {
            self.add(server, fingerprint)?;
            crate::note!(
                "{server} is known from now on, by sha256:{fingerprint}: {}",
                self.0.display()
            );
        }
        Ok(accepted)
    }
}

fn ask(server: &str, fingerprint: Fingerprint) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    crate::note!(
        "{server} is met for the first time, and no authority that this system trusts knows it.\n\
         Its fingerprint is sha256:{fingerprint}: the server prints it when it starts."
    );
    loop {
        let _ = write!(
            std::io::stderr(),
            "Connect, and know it by this from now on? (yes, no, or the fingerprint that you have) "
        );
        let mut answer = String::new();
        // The end of the terminal is no answer.
        if !matches!(std::io::stdin().lock().read_line(&mut answer), Ok(1..)) {
            return false;
        }
        match answer.trim().to_ascii_lowercase().as_str() {
            "yes" => return true,
            "no" => return false,
            other => match other.parse::<Fingerprint>() {
                Ok(given) if given == fingerprint => return true,
                Ok(_) => {
                    crate::note!(
                        "That is another fingerprint: somebody else may answer in its place."
                    );
                    return false;
                }
                Err(_) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_after_it_was_met() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownServers::at(folder.path().join("new/known_servers"));
        let one: Fingerprint = "ab".repeat(32).parse().unwrap();
        let two: Fingerprint = "cd".repeat(32).parse().unwrap();
        assert_eq!(known.find("a.example:4433").unwrap(), None);
        assert!(known.meet("A.example:4433", one, true).unwrap());
        known.add("a.example:1", two).unwrap();
        assert_eq!(known.find("a.example:4433").unwrap(), Some((one, 1)));
        assert_eq!(known.find("a.EXAMPLE:1").unwrap(), Some((two, 2)));
        assert_eq!(known.find("b.example:1").unwrap(), None);
        fs::write(known.path(), "# mine\n\nb.example:1 nonsense\n").unwrap();
        let why = known.find("b.example:1").unwrap_err().to_string();
        assert!(why.contains("known_servers: line 3: "), "{why}");
    }
}
