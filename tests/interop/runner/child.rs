//! Peers in other languages, or with libraries in C of their own, as processes: finds, starts and listens to them.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::case::Case;
use crate::hq;
use crate::verdict::{self, Left, Verdict};

/// Names the peers that are to be run, separated by commas.
const PEERS: &str = "MPQUIC_INTEROP_PEERS";
/// The exit status of a program whose library cannot do a case.
const UNSUPPORTED: i32 = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Aioquic,
    Aiopquic,
    QuicGo,
    XNet,
    S2nQuic,
    Quiche,
    Tquic,
    Ngtcp2,
    Xquic,
    Msquic,
}

impl Language {
    const fn name(self) -> &'static str {
        match self {
            Self::Aioquic => "aioquic",
            Self::Aiopquic => "aiopquic",
            Self::QuicGo => "quic-go",
            Self::XNet => "x-net",
            Self::S2nQuic => "s2n-quic",
            Self::Quiche => "quiche",
            Self::Tquic => "tquic",
            Self::Ngtcp2 => "ngtcp2",
            Self::Xquic => "xquic",
            Self::Msquic => "msquic",
        }
    }

    /// quic-go and xquic compare what they have sent with three times what they have received before each packet, and not
    /// what they will have sent: the last one may go beyond.
    pub(crate) const fn oversteps(self) -> bool {
        matches!(self, Self::QuicGo | Self::Xquic)
    }
}

/// That this peer is to be run.
pub(crate) fn is_wanted(name: &str) -> Verdict {
    let wanted = env::var(PEERS).unwrap_or_default();
    let named = wanted.split(',').any(|one| one.trim() == name);
    if named || verdict::page().is_some() {
        return Ok(());
    }
    let why = format!("{PEERS} does not name {name} (tests/interop/peers/README.md)");
    Err(Left::Skipped(why))
}

/// The version of a peer's library, if the peer is there.
pub(crate) fn version(language: Language) -> Option<String> {
    let output = Program::find(language)
        .ok()?
        .command()
        .arg("version")
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// How to start a peer.
#[derive(Clone)]
pub(crate) struct Program {
    command: Vec<PathBuf>,
}

/// A certificate chain, its root and its key in files, for programs that read them.
#[derive(Clone)]
pub(crate) struct Pem {
    folder: Arc<tempfile::TempDir>,
}

impl Pem {
    pub(crate) fn write(chain: &str, root: &str, key: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), chain).unwrap();
        std::fs::write(folder.path().join("root.pem"), root).unwrap();
        std::fs::write(folder.path().join("key.pem"), key).unwrap();
        Self {
            folder: Arc::new(folder),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A server of another language. Ends with the value: its standard input is closed.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}

/// What a client of another language told.
pub(crate) struct Said {
    lines: Vec<String>,
}

impl Said {
    /// That all files came whole, and what else the case is about.
    pub(crate) fn check(&self, case: Case) {
        let got: Vec<_> = self
            .lines
            .iter()
            .filter(|l| l.starts_with("got "))
            .collect();
        let sizes = case.sizes();
        assert_eq!(got.len(), sizes.len(), "{:?}", self.lines);
        for (line, size) in got.into_iter().zip(sizes) {
            let digest = Sha256::digest(hq::body(size));
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(*line, format!("got {size} {digest}"));
        }
        let says = |fact: &str| self.lines.iter().any(|line| line == fact);
        assert_eq!(says("resumed"), case.resumes(), "{:?}", self.lines);
        assert_eq!(says("early"), case == Case::ZeroRtt, "{:?}", self.lines);
        if let Some(fact) = case.fact() {
            assert!(says(fact), "{:?}", self.lines);
        }
        let version = format!("version {:#x}", case.version());
        assert!(says(&version), "{:?}", self.lines);
    }
}

impl Program {
    /// Those that are asked for, and, where the page is written, are there.
    pub(crate) fn find(language: Language) -> Result<Self, Left> {
        is_wanted(language.name())?;
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let python =
            || env::var_os("MPQUIC_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
        let this = Self {
            command: match language {
                Language::Aioquic => vec![python(), peers.join("aioquic_peer.py")],
                Language::Aiopquic => vec![python(), peers.join("aiopquic_peer.py")],
                Language::QuicGo => vec![peers.join("quic-go/peer")],
                Language::XNet => vec![peers.join("x-net/peer")],
                Language::Ngtcp2 => vec![peers.join("ngtcp2/peer")],
                Language::Msquic => vec![peers.join("msquic/peer")],
                Language::Xquic => vec![python(), peers.join("xquic_peer.py")],
                Language::S2nQuic | Language::Quiche | Language::Tquic => {
                    let built = peers.join("rust/target/release");
                    vec![built.join(format!("{}-peer", language.name()))]
                }
            },
        };
        if verdict::page().is_some() {
            let there = this.command().arg("version").output();
            if !there.is_ok_and(|output| output.status.success()) {
                let why = format!("{} is not on this machine", language.name());
                return Err(Left::Skipped(why));
            }
        }
        Ok(this)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }

    fn start(&self, role: &str, case: Case) -> Command {
        let mut command = self.command();
        command
            .args([role, case.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Both ends of a case that has two servers write on.
        let log = verdict::log(role).and_then(|log| {
            let mut options = std::fs::OpenOptions::new();
            options.create(true).append(true).open(log).ok()
        });
        command.stderr(log.map_or_else(Stdio::inherit, Stdio::from));
        command
    }

    /// Starts a server, if it can do the case.
    pub(crate) fn serve(&self, case: Case, pem: &Pem) -> Result<Server, Left> {
        let mut process = self
            .start("server", case)
            .args([pem.path("cert.pem"), pem.path("key.pem")])
            .arg(case.host().to_string())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.command[0].display()));
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the server says nothing").unwrap();
        if let Some(why) = first.strip_prefix("unsupported:") {
            assert_eq!(process.wait().unwrap().code(), Some(UNSUPPORTED));
            return Err(Left::NotOffered(why.trim().into()));
        }
        let port = first.strip_prefix("listening ").expect(&first);
        Ok(Server {
            address: SocketAddr::new(case.host(), port.parse().unwrap()),
            process,
        })
    }

    /// Runs a client to its end, if it can do the case.
    pub(crate) fn download(&self, case: Case, pem: &Pem, remote: SocketAddr) -> Result<Said, Left> {
        let sizes: Vec<_> = case.sizes().iter().map(usize::to_string).collect();
        let output = self
            .start("client", case)
            .arg(pem.path("root.pem"))
            .args([remote.ip().to_string(), remote.port().to_string()])
            .arg(sizes.join(","))
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.command[0].display()));
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.code() == Some(UNSUPPORTED) {
            let why = text.trim().trim_start_matches("unsupported:").trim();
            return Err(Left::NotOffered(why.into()));
        }
        assert!(output.status.success(), "{}: {text}", output.status);
        Ok(Said {
            lines: text.lines().map(str::to_owned).collect(),
        })
    }
}
