//! The program as users run it: processes, and a place with what they need.
#![allow(dead_code, reason = "of the parts, some are for some systems")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mpquic_test_support::held::Held;
use tempfile::TempDir;

pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The deadline is there to fail a test that hangs, nothing else.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A process that runs, with what it writes line by line.
pub(crate) struct Process {
    pub(crate) child: Held,
    pub(crate) out: Receiver<String>,
    pub(crate) err: Receiver<String>,
}

pub(crate) fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            // The test may have read enough.
            let _ = sender.send(line);
        }
    });
    receiver
}

pub(crate) fn line_with(from: &Receiver<String>, text: &str) -> String {
    let begun = Instant::now();
    let mut seen = Vec::new();
    while let Some(left) = DEADLINE.checked_sub(begun.elapsed()) {
        let Ok(line) = from.recv_timeout(left) else {
            break;
        };
        if line.contains(text) {
            return line;
        }
        seen.push(line);
    }
    panic!("no line with {text:?}: {seen:#?}");
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
        Self {
            out: lines(child.stdout.take().unwrap()),
            err: lines(child.stderr.take().unwrap()),
            child: Held::new(child),
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(crate) fn bond() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mpquic-bond"))
}

/// A folder with a token, and a port for a server that stays the same.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) server: SocketAddr,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "a token for the tests").unwrap();
        // Free a moment ago: nobody else takes it so soon.
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        Self {
            server: socket.local_addr().unwrap(),
            folder,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn serve_by(&self, mut command: Command) -> Command {
        command
            .arg("serve")
            .args(["--listen", &self.server.to_string()])
            .args(["--allow", "127.0.0.0/8:*"])
            .arg("--token-file")
            .arg(self.path().join("token"))
            .arg("--identity")
            .arg(self.path().join("identity"));
        command
    }

    pub(crate) fn connect_by(&self, command: Command, pin: &str) -> Command {
        self.connect_on(command, pin, "127.0.0.1:0")
    }

    pub(crate) fn connect_on(&self, command: Command, pin: &str, proxy: &str) -> Command {
        let mut command = self.connect_without_token(command, pin, proxy);
        command.arg("--token-file").arg(self.path().join("token"));
        command
    }

    pub(crate) fn connect_without_token(
        &self,
        mut command: Command,
        pin: &str,
        proxy: &str,
    ) -> Command {
        command
            .args(["connect", &self.server.to_string()])
            .args(["--local", "127.0.0.1"])
            .args(["--proxy", proxy, "--pin", pin]);
        command
    }

    /// A server that listens, and its fingerprint.
    pub(crate) fn server(&self) -> (Process, String) {
        self.server_by(bond())
    }

    pub(crate) fn server_by(&self, command: Command) -> (Process, String) {
        let server = Process::start(&mut self.serve_by(command));
        line_with(&server.out, "listening on");
        let line = line_with(&server.out, "fingerprint ");
        let pin = line.strip_prefix("fingerprint ").unwrap().to_owned();
        assert!(pin.starts_with("sha256:"), "{pin}");
        (server, pin)
    }

    /// A client that is connected, and its local port.
    pub(crate) fn client(&self, pin: &str) -> (Process, SocketAddr) {
        self.client_by(bond(), pin)
    }

    pub(crate) fn client_by(&self, command: Command, pin: &str) -> (Process, SocketAddr) {
        let client = Process::start(&mut self.connect_by(command, pin));
        let line = line_with(&client.out, "proxy on ");
        let proxy = line.strip_prefix("proxy on ").unwrap().parse().unwrap();
        (client, proxy)
    }
}

/// A shell that becomes the program after `before`, with the program's arguments.
pub(crate) fn shell(before: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{before} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_mpquic-bond")]);
    command
}

/// Asks for a target, by SOCKS5; gives the reply's code, and the connection.
pub(crate) fn socks_to(
    proxy: SocketAddr,
    command: u8,
    target: &[u8],
    port: u16,
) -> (u8, SocketAddr, TcpStream) {
    socks_on(TcpStream::connect(proxy).unwrap(), command, target, port)
}

pub(crate) fn socks_on(
    mut socket: TcpStream,
    command: u8,
    target: &[u8],
    port: u16,
) -> (u8, SocketAddr, TcpStream) {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(&[5, 1, 0, 5, command, 0]).unwrap();
    socket.write_all(target).unwrap();
    socket.write_all(&port.to_be_bytes()).unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    let [_, _, _, code, _, _, a, b, c, d, high, low] = answer;
    let address = (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
    (code, address.into(), socket)
}

pub(crate) fn socks(proxy: SocketAddr, target: SocketAddr) -> (u8, TcpStream) {
    let (code, _, socket) = socks_to(proxy, 1, &[1, 127, 0, 0, 1], target.port());
    (code, socket)
}

pub(crate) fn named(name: &str) -> Vec<u8> {
    [&[3, name.len() as u8], name.as_bytes()].concat()
}

/// Takes connections and sends back what comes on them.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { continue };
            std::thread::spawn(move || {
                let mut reader = socket.try_clone().unwrap();
                // Programs of tests go away.
                let _ = std::io::copy(&mut reader, &mut socket);
            });
        }
    });
    address
}

pub(crate) fn works(proxy: SocketAddr, target: SocketAddr) -> bool {
    works_on(TcpStream::connect(proxy).unwrap(), target)
}

pub(crate) fn works_on(socket: TcpStream, target: SocketAddr) -> bool {
    let (code, _, mut socket) = socks_on(socket, 1, &[1, 127, 0, 0, 1], target.port());
    if code != 0 {
        return false;
    }
    let mut back = [0; 5];
    socket.write_all(b"hello").is_ok() && socket.read_exact(&mut back).is_ok() && &back == b"hello"
}

/// Runs it to its end: the exit code, and what it wrote to standard error.
pub(crate) fn ended(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}
