//! What the peers of this workspace share: how they are called, and what they ask and answer (`README.md` two folders above).

pub mod client;
pub mod net;
pub mod server;

use std::net::{IpAddr, SocketAddr};
use std::process::exit;

use sha2::{Digest as _, Sha256};

pub const ALPN: &[u8] = b"hq-interop";
/// Application error codes.
pub const RESET: u64 = 17;
pub const STOP: u64 = 18;
pub const CLOSE_BY_CLIENT: u64 = 20;
/// Datagrams that are to come back, and their size.
pub const DATAGRAMS: u8 = 20;
pub const DATAGRAM_LEN: usize = 1_000;
/// What the stopped download asks for.
pub const STOPPED_LEN: usize = 20 << 20;
/// What the download that is reset asks for.
pub const RESET_LEN: usize = 100_000;

/// Byte i of every answer is i modulo this.
const PERIOD: usize = 251;

/// How the program is called.
pub enum Call {
    Server {
        case: String,
        certificate: String,
        key: String,
        host: IpAddr,
    },
    Client {
        case: String,
        authority: String,
        remote: SocketAddr,
        sizes: Vec<usize>,
    },
}

/// Reads the command line. Ends the program for `version`, and where its library cannot do a case: `lacks` tells why, given whether the
/// role is the client's.
pub fn call(library: &str, lacks: fn(&str, bool) -> Option<&'static str>) -> Call {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (call, is_client) = match args[..] {
        ["version"] => {
            println!("{}", locked(library));
            exit(0);
        }
        ["server", case, certificate, key, host] => {
            let call = Call::Server {
                case: case.into(),
                certificate: certificate.into(),
                key: key.into(),
                host: host.parse().expect("an address"),
            };
            (call, false)
        }
        ["client", case, authority, host, port, sizes] => {
            let host: IpAddr = host.parse().expect("an address");
            let call = Call::Client {
                case: case.into(),
                authority: authority.into(),
                remote: SocketAddr::new(host, port.parse().expect("a port")),
                sizes: sizes
                    .split(',')
                    .map(|size| size.parse().expect("a size"))
                    .collect(),
            };
            (call, true)
        }
        _ => {
            eprintln!(
                "usage: peer server CASE CERT KEY HOST | client CASE CA HOST PORT SIZES | version"
            );
            exit(2);
        }
    };
    if let Some(why) = lacks(args[1], is_client) {
        println!("unsupported: {why}");
        exit(127);
    }
    call
}

/// A library's version in the lock file.
fn locked(library: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let (_, after) = lock
        .split_once(&format!("name = \"{library}\"\nversion = \""))
        .expect("it is locked");
    after.split_once('"').expect("quoted").0
}

/// Ends the program when its standard input ends.
pub fn exit_with_stdin() {
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        exit(0);
    });
}

/// Bytes of an answer from this place on.
pub fn body(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|i| (i % PERIOD) as u8).collect()
}

/// The idle timeout in seconds: lost handshakes have their own patience.
pub fn patience(case: &str) -> u64 {
    match case {
        "handshakeloss" | "handshakecorruption" | "amplificationlimit" => 120,
        _ => 30,
    }
}

/// The length of connection IDs that a case asks for.
pub fn id_len(case: &str) -> Option<usize> {
    case.strip_prefix("cid-")?.parse().ok()
}

/// Whether a client makes one connection before the one that it tells of.
pub fn comes_back(case: &str) -> bool {
    matches!(case, "close-client" | "resumption") || asks_early(case)
}

/// Whether a client asks before the handshake is complete.
pub fn asks_early(case: &str) -> bool {
    matches!(case, "zerortt" | "zerortt-refused")
}

/// A request: its verb and its number.
pub struct Request {
    pub verb: String,
    pub number: usize,
}

impl Request {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (verb, number) = str::from_utf8(bytes).ok()?.trim().split_once(" /")?;
        Some(Self {
            verb: verb.into(),
            number: number.parse().ok()?,
        })
    }

    pub fn line(verb: &str, number: usize) -> Vec<u8> {
        format!("{verb} /{number}\r\n").into_bytes()
    }
}

/// A download so far.
#[derive(Default)]
pub struct Download {
    digest: Sha256,
    pub count: usize,
}

impl Download {
    pub fn add(&mut self, data: &[u8]) {
        self.digest.update(data);
        self.count += data.len();
    }

    /// The line that a client prints.
    pub fn line(self) -> String {
        let hex: String = self
            .digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("got {} {hex}", self.count)
    }
}
