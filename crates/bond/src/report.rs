//! What a connection does on each link, in figures.

use std::net::IpAddr;
use std::time::Duration;

use mpquic::{Connection, Path, PathStatus};
use serde_json::{Value, json};

use crate::interfaces;

/// One link of a connection. Counts begin with the path; a link that was away begins again.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LinkReport {
    /// The local address.
    pub local: IpAddr,
    /// The interface that has it, while it is there.
    pub interface: Option<String>,
    /// The path's ID.
    pub path: u32,
    /// Whether it was taken out, or is a backup: it is then used only if no other is left.
    pub out: bool,
    /// Whether it is used though it is out: no other is left.
    pub last: bool,
    /// Smoothed RTT.
    pub rtt: Duration,
    /// Bytes sent, with the heads of packets.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Of these, those that were declared lost.
    pub lost_packets: u64,
}

/// The links of a connection.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Report {
    /// One per open path, oldest first; none while there is no connection.
    pub links: Vec<LinkReport>,
}

impl Report {
    pub(crate) fn of(connection: &Connection) -> Self {
        let paths = connection.paths();
        let is_in = |path: &Path| matches!(path.status(), Ok(PathStatus::Available));
        let one_is_in = paths.iter().any(is_in);
        let links = paths.into_iter().filter_map(|path| {
            // One that is closed by now is left out.
            let (address, stats) = (path.network_path().ok()?, path.stats().ok()?);
            let out = path.status().ok()? == PathStatus::Backup;
            Some(LinkReport {
                local: address.local.ip(),
                interface: interfaces::name_of(address.local.ip()),
                path: path.id().0,
                out,
                last: out && !one_is_in,
                rtt: stats.rtt,
                sent: stats.sent_bytes,
                received: stats.received_bytes,
                sent_packets: stats.sent_packets,
                lost_packets: stats.lost_packets,
            })
        });
        Self {
            links: links.collect(),
        }
    }

    /// The report as JSON: `{"links": [{"local", "interface", "path", "out", "last", "rtt_ms", "sent", "received", "sent_packets", "lost_packets"}]}`.
    pub fn to_json(&self) -> Value {
        let link = |link: &LinkReport| {
            json!({
                "local": link.local.to_string(),
                "interface": link.interface,
                "path": link.path,
                "out": link.out,
                "last": link.last,
                "rtt_ms": link.rtt.as_secs_f64() * 1e3,
                "sent": link.sent,
                "received": link.received,
                "sent_packets": link.sent_packets,
                "lost_packets": link.lost_packets,
            })
        };
        json!({ "links": self.links.iter().map(link).collect::<Vec<_>>() })
    }
}
