//! An attacker's sockets, and the rate that it may not exceed.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::params::Params;
use crate::peer::{Peer, Space};
use crate::tls;
use crate::wire::Frame;

/// Bytes of IP and UDP headers, which count too.
const HEADERS: usize = 28;

/// Sends no faster than it may, until its time is over.
#[derive(Debug)]
pub struct Attacker {
    /// The server.
    pub server: SocketAddr,
    /// What it is asked for in TLS: its name, and a protocol if it wants one.
    pub name: String,
    /// See [`name`](Self::name).
    pub alpn: Option<String>,
    /// How it has closed connections, and how often: whether with an application's code, the code, the reason.
    pub closes: BTreeMap<(bool, u64, String), u64>,
    begin: Instant,
    end: Instant,
    bytes_per_second: f64,
    /// Bytes sent, headers included.
    pub sent: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Bytes that came back.
    pub received: u64,
    next: u32,
}

/// A connection of the attacker with a socket of its own.
#[derive(Debug)]
pub struct Wire {
    /// Where it sends from; another one is another address.
    pub socket: UdpSocket,
    /// Those of further paths.
    pub others: BTreeMap<u32, UdpSocket>,
    /// The connection.
    pub peer: Peer,
    told: bool,
}

impl Attacker {
    /// One that attacks from now on.
    pub fn new(server: SocketAddr, bits_per_second: f64, time: Duration) -> Self {
        let begin = Instant::now();
        Self {
            server,
            name: "localhost".into(),
            alpn: None,
            closes: BTreeMap::new(),
            begin,
            end: begin + time,
            bytes_per_second: bits_per_second / 8.0,
            sent: 0,
            datagrams: 0,
            received: 0,
            next: 0,
        }
    }

    /// Numbers its clients from here on, so that none is taken for one of another attacker in this process.
    #[must_use]
    pub const fn numbered_from(mut self, number: u32) -> Self {
        self.next = number;
        self
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// How long it has attacked.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits; the socket of `wire` is read meanwhile.
    pub fn pause(&mut self, time: Duration, wire: Option<&mut Wire>) {
        std::thread::sleep(time.min(self.end.saturating_duration_since(Instant::now())));
        if let Some(wire) = wire {
            self.pump(wire);
        }
    }

    /// Sends a datagram when the rate allows it.
    pub fn send(&mut self, socket: &UdpSocket, datagram: &[u8]) {
        self.sent += (datagram.len() + HEADERS) as u64;
        self.datagrams += 1;
        let due = Duration::from_secs_f64(self.sent as f64 / self.bytes_per_second);
        // A burst of 20 ms is what any sender has.
        let ahead = due.saturating_sub(self.begin.elapsed());
        if ahead > Duration::from_millis(20) {
            std::thread::sleep(ahead);
        }
        // A full buffer is a loss.
        let _ = socket.send_to(datagram, self.server);
    }

    /// A socket on a free port, from which the server can be reached.
    ///
    /// # Errors
    ///
    /// If there is none to be had.
    pub fn another_socket(&self) -> io::Result<UdpSocket> {
        let ip: IpAddr = match self.server {
            _ if self.server.ip() == Ipv4Addr::LOCALHOST => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((ip, 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// A new client that has sent nothing.
    ///
    /// # Errors
    ///
    /// If there is no socket to be had.
    pub fn client(&mut self, params: Params) -> io::Result<Wire> {
        self.next += 1;
        let first = [
            b"hostile".as_slice(),
            &self.next.to_be_bytes(),
            &std::process::id().to_be_bytes(),
        ]
        .concat();
        let tls = tls::credulous_client_for(self.alpn.as_deref());
        let peer = Peer::client_of(&self.name, self.next, &first, params, tls)
            .map_err(io::Error::other)?;
        Ok(Wire {
            socket: self.another_socket()?,
            others: BTreeMap::new(),
            peer,
            told: false,
        })
    }

    /// Gives the connection another socket.
    ///
    /// # Errors
    ///
    /// If there is none to be had.
    pub fn moved(&mut self, wire: &mut Wire) -> io::Result<()> {
        wire.socket = self.another_socket()?;
        Ok(())
    }

    /// What TLS wants to send.
    pub fn flight(&mut self, wire: &mut Wire) {
        for datagram in wire.peer.flight() {
            self.send(&wire.socket, &datagram);
        }
    }

    /// Takes in what has come, without an answer. How many packets were opened.
    pub fn pump(&mut self, wire: &mut Wire) -> Vec<Frame> {
        let mut buf = [0; 65_536];
        let mut frames = Vec::new();
        for socket in std::iter::once(&wire.socket).chain(wire.others.values()) {
            while let Ok((len, _)) = socket.recv_from(&mut buf) {
                self.received += (len + HEADERS) as u64;
                for opened in wire.peer.receive(&buf[..len]) {
                    frames.extend(opened.frames);
                }
            }
        }
        if let Some((app, code, reason)) = &wire.peer.close
            && !std::mem::replace(&mut wire.told, true)
        {
            let reason = String::from_utf8_lossy(reason).into_owned();
            *self.closes.entry((*app, *code, reason)).or_default() += 1;
        }
        frames
    }

    /// A client with a confirmed connection; `None` if the server does not let it in within a second.
    ///
    /// # Errors
    ///
    /// If there is no socket to be had.
    pub fn connected(&mut self, params: Params) -> io::Result<Option<Wire>> {
        let mut wire = self.client(params)?;
        // Short turns: those who open connection after connection are held up by their rate, and not by the wait.
        for turn in 0..500 {
            if turn % 200 == 199 {
                wire.peer.repeat_flight();
            }
            self.flight(&mut wire);
            self.pause(Duration::from_millis(2), Some(&mut wire));
            if wire.peer.confirmed {
                self.flight(&mut wire);
                self.acknowledge(&mut wire);
                return Ok(Some(wire));
            }
            if self.is_over() || wire.peer.close.is_some() {
                break;
            }
        }
        Ok(None)
    }

    /// Sends frames on path 0; `false` without keys.
    pub fn frames(&mut self, wire: &mut Wire, frames: &[Frame]) -> bool {
        let sealed = wire.peer.seal(Space::Data(0), frames);
        if let Some(datagram) = &sealed {
            self.send(&wire.socket, datagram);
        }
        sealed.is_some()
    }

    /// Sends frames on a path, from the socket that belongs to it.
    pub fn frames_on(&mut self, wire: &mut Wire, path: u32, frames: &[Frame]) -> bool {
        let sealed = wire.peer.seal(Space::Data(path), frames);
        if let Some(datagram) = &sealed {
            self.datagram_on(wire, path, datagram);
        }
        sealed.is_some()
    }

    /// Sends a datagram from the socket of a path.
    pub fn datagram_on(&mut self, wire: &Wire, path: u32, datagram: &[u8]) {
        let socket = wire.others.get(&path).unwrap_or(&wire.socket);
        self.send(socket, datagram);
    }

    /// Opens a path with a socket of its own: issues connection IDs, challenges, answers. Whether the server has answered
    /// within half a second.
    ///
    /// # Errors
    ///
    /// If there is no socket to be had.
    pub fn open_path(&mut self, wire: &mut Wire, path: u32) -> io::Result<bool> {
        let issue = [wire.peer.issue(path, 0), wire.peer.issue(path, 1)];
        self.frames(wire, &issue);
        let socket = self.another_socket()?;
        wire.others.insert(path, socket);
        let ours = [path as u8; 8];
        for turn in 0..50 {
            if turn % 10 == 0 {
                let challenge = [Frame::PathChallenge(ours), Frame::Padding(1150)];
                self.frames_on(wire, path, &challenge);
            }
            self.pause(Duration::from_millis(10), None);
            for frame in self.pump(wire) {
                match frame {
                    Frame::PathChallenge(data) => {
                        let answer = [Frame::PathResponse(data), Frame::Padding(1150)];
                        self.frames_on(wire, path, &answer);
                    }
                    Frame::PathResponse(data) if data == ours => {
                        self.acknowledge(wire);
                        return Ok(true);
                    }
                    _ => {}
                }
            }
            self.acknowledge(wire);
            if self.is_over() || wire.peer.close.is_some() {
                break;
            }
        }
        Ok(false)
    }

    /// Acknowledges what came.
    pub fn acknowledge(&mut self, wire: &mut Wire) {
        let acks = wire.peer.take_acks();
        if !acks.is_empty() {
            self.frames(wire, &acks);
        }
    }
}
