//! Attacks on a server that somebody else runs: what can be seen of it from outside, and nothing of its memory.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::attacker::Attacker;
use super::attacks::{Attack, multipath};
use super::server::Error;

/// A server that is named on the command line.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it is.
    pub address: SocketAddr,
    /// Its name in TLS.
    pub name: String,
    /// The protocol that it wants, such as h3.
    pub alpn: Option<String>,
}

impl Target {
    /// Of "host:port" or an address with a port.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up.
    pub fn new(server: &str, name: Option<&str>, alpn: Option<&str>) -> Result<Self, Error> {
        let address = server.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| format!("{server} has no address"))?;
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        Ok(Self {
            address,
            name: name.unwrap_or(host).trim_matches(['[', ']']).to_owned(),
            alpn: alpn.map(str::to_owned),
        })
    }

    fn attacker(&self, rate: f64, time: Duration) -> Attacker {
        let mut attacker = Attacker::new(self.address, rate, time);
        attacker.name.clone_from(&self.name);
        attacker.alpn.clone_from(&self.alpn);
        attacker
    }

    /// How long a handshake takes; `None` if none is complete within ten seconds.
    fn handshake(&self, number: u32) -> Result<Option<Duration>, Error> {
        let client = self.attacker(1e9, Duration::from_secs(10));
        let mut client = client.numbered_from(number << 30);
        while !client.is_over() {
            let begin = Instant::now();
            if client.connected(multipath())?.is_some() {
                return Ok(Some(begin.elapsed()));
            }
        }
        Ok(None)
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    name: &'static str,
    what: &'static str,
    attacker: Attacker,
    /// A handshake before, in the middle of it, and after.
    handshakes: [Option<Duration>; 3],
}

impl Seen {
    /// Whether the server takes clients after it.
    pub const fn answers(&self) -> bool {
        self.handshakes[2].is_some()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.what)?;
        let (sent, received) = (self.attacker.sent, self.attacker.received);
        let ratio = received as f64 / sent.max(1) as f64;
        let count = self.attacker.datagrams;
        writeln!(
            f,
            "    sent {count} datagrams, {sent} bytes; received {received} bytes, {ratio:.2} for each"
        )?;
        for (when, time) in ["before", "during", "after"].iter().zip(self.handshakes) {
            match time {
                Some(time) => writeln!(
                    f,
                    "    handshake {when}: {:.1} ms",
                    time.as_secs_f64() * 1e3
                )?,
                None => writeln!(f, "    handshake {when}: none in ten seconds")?,
            }
        }
        for ((app, code, reason), count) in &self.attacker.closes {
            let whose = if *app { "application" } else { "transport" };
            writeln!(
                f,
                "    closed {count} times with {code:#x} of the {whose}: {reason:?}"
            )?;
        }
        Ok(())
    }
}

/// Attacks it.
///
/// # Errors
///
/// If there are no sockets to be had, or the attack wants what the server does not speak.
pub fn attack(
    target: &Target,
    (name, what, attack): Attack,
    rate: f64,
    time: Duration,
) -> Result<Seen, Error> {
    let before = target.handshake(1)?;
    if before.is_none() {
        return Err(format!("no handshake with {}", target.address).into());
    }
    let mut attacker = target.attacker(rate, time);
    let beside = target.clone();
    let during = std::thread::spawn(move || {
        std::thread::sleep(time / 2);
        beside.handshake(2).ok().flatten()
    });
    attack(&mut attacker)?;
    let during = during.join().ok().flatten();
    let after = target.handshake(3)?;
    Ok(Seen {
        name,
        what,
        attacker,
        handshakes: [before, during, after],
    })
}
