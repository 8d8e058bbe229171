//! The figures of connections and their paths, and how they are written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mpquic::{Connection, PathStatus};
use serde::Serialize;

/// One path of a connection. Counts begin with the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathFigures {
    /// Its ID.
    pub id: u32,
    /// The local address.
    pub local: SocketAddr,
    /// The other one.
    pub remote: SocketAddr,
    /// The interface that has the local address.
    pub interface: Option<String>,
    /// Whether it is used only if no other is left.
    pub backup: bool,
    /// Smoothed RTT, seconds.
    pub rtt: f64,
    /// The shortest one, seconds.
    pub min_rtt: f64,
    /// Bytes sent, with the heads of packets.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Of these, those that were declared lost.
    pub lost_packets: u64,
    /// Bytes that are on their way.
    pub in_flight: u64,
    /// How many may be.
    pub window: u64,
}

impl PathFigures {
    /// Those of all paths of a connection.
    pub fn of(connection: &Connection) -> Vec<Self> {
        Self::named(connection, &interfaces())
    }

    fn named(connection: &Connection, interfaces: &[if_addrs::Interface]) -> Vec<Self> {
        let name_of = |ip: IpAddr| {
            let found = interfaces.iter().find(|one| one.ip() == ip.to_canonical());
            found.map(|interface| interface.name.clone())
        };
        let figures = connection.paths().into_iter().filter_map(|path| {
            // One that is closed by now is left out.
            let (address, stats) = (path.network_path().ok()?, path.stats().ok()?);
            Some(Self {
                id: path.id().0,
                local: address.local,
                remote: address.remote,
                interface: name_of(address.local.ip()),
                backup: path.status().ok()? == PathStatus::Backup,
                rtt: stats.rtt.as_secs_f64(),
                min_rtt: stats.min_rtt.as_secs_f64(),
                sent: stats.sent_bytes,
                received: stats.received_bytes,
                sent_packets: stats.sent_packets,
                lost_packets: stats.lost_packets,
                in_flight: stats.in_flight,
                window: stats.cwnd,
            })
        });
        figures.collect()
    }
}

/// Those of this machine; a system that does not tell them has paths without names.
fn interfaces() -> Vec<if_addrs::Interface> {
    if_addrs::get_if_addrs().unwrap_or_default()
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peer {
    /// Where the other end is.
    pub peer: String,
    /// Who it is, if it came by name.
    pub user: Option<String>,
    /// How long it is here, seconds.
    pub age: f64,
    /// What is open on it, by kind: TCP connections, say.
    pub open: BTreeMap<&'static str, u64>,
    /// Its paths.
    pub paths: Vec<PathFigures>,
}

/// What a program does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The program's name.
    pub program: &'static str,
    /// Its part, such as `serve`.
    pub role: &'static str,
    /// Its connections.
    pub peers: Vec<Peer>,
}

impl Status {
    /// In the text format of Prometheus (version 0.0.4).
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP mpquic_connections Connections now.\n# TYPE mpquic_connections gauge\nmpquic_connections {}",
            self.peers.len()
        );
        family(
            &mut text,
            "mpquic_open",
            "gauge",
            "What is open on a connection now.",
        );
        for peer in &self.peers {
            for (kind, count) in &peer.open {
                let labels = labels(peer);
                let _ = writeln!(text, "mpquic_open{{{labels},kind=\"{kind}\"}} {count}");
            }
        }
        type Figure = fn(&PathFigures) -> f64;
        let families: [(&str, &str, &str, Figure); 9] = [
            (
                "rtt_seconds",
                "gauge",
                "Smoothed round-trip time.",
                |path| path.rtt,
            ),
            (
                "min_rtt_seconds",
                "gauge",
                "Shortest round-trip time.",
                |path| path.min_rtt,
            ),
            ("sent_bytes_total", "counter", "Bytes sent.", |path| {
                path.sent as f64
            }),
            (
                "received_bytes_total",
                "counter",
                "Bytes received.",
                |path| path.received as f64,
            ),
            ("sent_packets_total", "counter", "Packets sent.", |path| {
                path.sent_packets as f64
            }),
            (
                "lost_packets_total",
                "counter",
                "Packets declared lost.",
                |path| path.lost_packets as f64,
            ),
            ("in_flight_bytes", "gauge", "Bytes on their way.", |path| {
                path.in_flight as f64
            }),
            (
                "window_bytes",
                "gauge",
                "Bytes that may be on their way.",
                |path| path.window as f64,
            ),
            (
                "backup",
                "gauge",
                "1 if it is used only when no other is left.",
                |path| f64::from(u8::from(path.backup)),
            ),
        ];
        for (name, kind, help, figure) in families {
            let name = format!("mpquic_path_{name}");
            family(&mut text, &name, kind, help);
            for peer in &self.peers {
                for path in &peer.paths {
                    let interface = path.interface.as_deref().unwrap_or_default();
                    let _ = writeln!(
                        text,
                        "{name}{{{},path=\"{}\",local=\"{}\",interface=\"{}\"}} {}",
                        labels(peer),
                        path.id,
                        path.local.ip(),
                        escaped(interface),
                        figure(path)
                    );
                }
            }
        }
        text
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels(peer: &Peer) -> String {
    let user = peer.user.as_deref().unwrap_or_default();
    format!(
        "peer=\"{}\",user=\"{}\"",
        escaped(&peer.peer),
        escaped(user)
    )
}

/// As a label's value is written.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

type Open = Box<dyn Fn() -> BTreeMap<&'static str, u64> + Send + Sync>;

/// The connections that are here now.
#[derive(Default)]
pub struct Present(Mutex<(u64, BTreeMap<u64, One>)>);

impl std::fmt::Debug for Present {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Present({})", self.all().1.len())
    }
}

struct One {
    peer: String,
    user: Option<String>,
    since: Instant,
    connection: Connection,
    open: Open,
}

impl Present {
    fn all(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, One>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in, until what it returns is dropped. `open` says what is open on it.
    pub fn enter(
        self: &Arc<Self>,
        peer: impl ToString,
        user: Option<&str>,
        connection: &Connection,
        open: impl Fn() -> BTreeMap<&'static str, u64> + Send + Sync + 'static,
    ) -> Entered {
        let one = One {
            peer: peer.to_string(),
            user: user.map(str::to_owned),
            since: Instant::now(),
            connection: connection.clone(),
            open: Box::new(open),
        };
        let mut all = self.all();
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, one);
        Entered(Arc::clone(self), number)
    }

    /// What they do.
    pub fn peers(&self) -> Vec<Peer> {
        let interfaces = interfaces();
        let all = self.all();
        let peers = all.1.values().map(|one| Peer {
            peer: one.peer.clone(),
            user: one.user.clone(),
            age: one.since.elapsed().as_secs_f64(),
            open: (one.open)(),
            paths: PathFigures::named(&one.connection, &interfaces),
        });
        peers.collect()
    }
}

/// A connection that is here.
#[derive(Debug)]
pub struct Entered(Arc<Present>, u64);

impl Drop for Entered {
    fn drop(&mut self) {
        let gone = self.0.all().1.remove(&self.1);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_prometheus_reads_them() {
        let path = PathFigures {
            id: 1,
            local: "10.0.0.1:5".parse().unwrap(),
            remote: "192.0.2.1:4433".parse().unwrap(),
            interface: Some("wlan0".to_owned()),
            backup: true,
            rtt: 0.02,
            min_rtt: 0.01,
            sent: 7,
            received: 8,
            sent_packets: 9,
            lost_packets: 1,
            in_flight: 3,
            window: 4,
        };
        let status = Status {
            program: "mpquic-test",
            role: "serve",
            peers: vec![Peer {
                peer: "a\"b\\c\nd".to_owned(),
                user: Some("alice".to_owned()),
                age: 1.0,
                open: [("tcp", 2)].into(),
                paths: vec![path],
            }],
        };
        let text = status.to_prometheus();
        let peer = r#"peer="a\"b\\c\nd",user="alice""#;
        for line in [
            "mpquic_connections 1".to_owned(),
            format!("mpquic_open{{{peer},kind=\"tcp\"}} 2"),
            "# TYPE mpquic_path_sent_bytes_total counter".to_owned(),
            format!(
                "mpquic_path_rtt_seconds{{{peer},path=\"1\",local=\"10.0.0.1\",interface=\"wlan0\"}} 0.02"
            ),
            format!(
                "mpquic_path_lost_packets_total{{{peer},path=\"1\",local=\"10.0.0.1\",interface=\"wlan0\"}} 1"
            ),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
