//! picoquic's demo program as a process: an optional peer that speaks multipath QUIC.

use std::env;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::child::{Pem, is_wanted};
use crate::verdict::{self, Left};
use crate::{hq, loopback};

/// What its server serves.
pub(crate) const FILE: &str = "body";

/// How to start it.
pub(crate) struct Picoquic {
    program: PathBuf,
}

/// The version that its client told.
static VERSION: OnceLock<String> = OnceLock::new();

/// The version, if a client ran.
pub(crate) fn version() -> Option<String> {
    VERSION.get().cloned()
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Picoquic {
    /// If it is asked for and, where the page is written, is there.
    pub(crate) fn find() -> Result<Self, Left> {
        is_wanted("picoquic")?;
        let this = Self {
            program: env::var_os("MPQUIC_PICOQUIC")
                .map_or_else(|| "picoquicdemo".into(), PathBuf::from),
        };
        if verdict::page().is_some() && this.start().arg("-h").output().is_err() {
            return Err(Left::Skipped("picoquicdemo is not on this machine".into()));
        }
        Ok(this)
    }

    fn start(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-a", "hq-interop", "-M"])
            .stdin(Stdio::null());
        command
    }

    /// A server of one file of so many bytes. It says nothing when it is ready: clients repeat their first packet.
    pub(crate) fn serve(&self, pem: &Pem, size: usize) -> Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), hq::body(size)).unwrap();
        // A port that was free just now.
        let socket = UdpSocket::bind((loopback(1), 0)).unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let process = self
            .start()
            .args(["-p", &address.port().to_string()])
            .arg("-c")
            .arg(pem.path("cert.pem"))
            .arg("-k")
            .arg(pem.path("key.pem"))
            .arg("-w")
            .arg(folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Server {
            address,
            process: process.unwrap_or_else(|error| panic!("{}: {error}", self.program.display())),
            _folder: folder,
        }
    }

    /// Downloads so many bytes over two paths. What the program said, and what it got.
    pub(crate) fn download(&self, pem: &Pem, remote: SocketAddr, size: usize) -> (String, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let output = self
            .start()
            .arg("-A")
            .arg(format!("{}/0", loopback(2)))
            .arg("-t")
            .arg(pem.path("root.pem"))
            .args(["-n", "localhost", "-o", "."])
            .args([remote.ip().to_string(), remote.port().to_string()])
            .arg(format!("/{size}"))
            .current_dir(folder.path())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        if let Some((_, version)) = said.split_once("Starting Picoquic (v") {
            VERSION.get_or_init(|| version.split(')').next().unwrap_or_default().to_owned());
        }
        let answer = std::fs::read(folder.path().join(size.to_string())).expect(&said);
        (said, answer)
    }
}
