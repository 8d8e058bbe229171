//! Read access to a network and the results of its run.

use std::any::Any;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mpquic_proto::{Connection, ConnectionStats, FourTuple, PathEvent, Side};

use super::{Flow, Network};
use crate::app::App;
use crate::builder::four_tuple;
use crate::cross::CrossReport;
use crate::fabric::index;
use crate::link::LinkStats;
use crate::measure::{LostTime, Measurements, Timeline};
use crate::observe::{ByteSeries, StallTracker};
use crate::peer::Peer;
use crate::trace::TraceRecord;
use crate::{Delivery, SimError};

/// The results of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// When both applications were complete.
    pub completed: Duration,
    /// When the handshake was complete at the client.
    pub connected: Option<Duration>,
    /// The same for equal runs.
    pub trace_hash: u128,
    /// The client's statistics.
    pub client: ConnectionStats,
    /// The server's statistics.
    pub server: ConnectionStats,
    /// The links of each path: client to server, server to client; see [`Network::link_stats`].
    pub links: Vec<[LinkStats; 2]>,
    /// The shared links, by number.
    pub shared_links: Vec<LinkStats>,
    /// The flows of cross traffic.
    pub cross: Vec<CrossReport>,
    /// Bytes that the applications have read from streams: the client's, the server's.
    pub delivered: [u64; 2],
    /// The longest time without newly delivered bytes, counted from the first delivery: at the
    /// client, at the server. Times without outstanding data count, too.
    pub longest_stall: [Duration; 2],
}

impl Network {
    /// The virtual time since the start of the run.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The virtual time as an [`Instant`], which the protocol's functions take.
    pub fn instant(&self) -> Instant {
        // No run reaches times that the platform's clock cannot express. If one did, time would
        // stop.
        self.origin.checked_add(self.now).unwrap_or(self.origin)
    }

    /// A side's connection. The server has one after the client's first datagram has arrived.
    pub fn connection(&self, side: Side) -> Option<&Connection> {
        self.peer(side).connection()
    }

    /// A side's mutable connection, for [`Action::call`](crate::Action::call). The next step
    /// processes what the call caused.
    pub fn connection_mut(&mut self, side: Side) -> Option<&mut Connection> {
        self.peer_mut(side).connection_mut()
    }

    /// A side's application, if it has this type.
    pub fn app<A: App>(&self, side: Side) -> Option<&A> {
        let app: &dyn Any = self.peer(side).app.as_ref();
        app.downcast_ref()
    }

    /// A side's mutable application, if it has this type.
    pub fn app_mut<A: App>(&mut self, side: Side) -> Option<&mut A> {
        let app: &mut dyn Any = self.peer_mut(side).app.as_mut();
        app.downcast_mut()
    }

    /// The addresses of a path as the client sees them, given the numbers of the client's and the
    /// server's address.
    ///
    /// # Errors
    ///
    /// If there is no address with one of these numbers.
    pub fn four_tuple(&self, client: usize, server: usize) -> Result<FourTuple, SimError> {
        let local = self.client_address(client).ok_or(SimError::Missing {
            what: "client address",
            number: client,
        })?;
        let remote = self.server_address(server).ok_or(SimError::Missing {
            what: "server address",
            number: server,
        })?;
        Ok(four_tuple(local, remote))
    }

    /// The client's address with this number.
    pub fn client_address(&self, number: usize) -> Option<SocketAddr> {
        self.fabric
            .clients
            .get(number)
            .map(|address| address.inside)
    }

    /// The same address as the server sees it: another one after a NAT rebinding.
    pub fn outside_address(&self, number: usize) -> Option<SocketAddr> {
        self.fabric
            .clients
            .get(number)
            .map(|address| address.outside)
    }

    /// The server's address with this number.
    pub fn server_address(&self, number: usize) -> Option<SocketAddr> {
        self.fabric.servers.get(number).copied()
    }

    /// The path events of a side, with their times.
    pub fn path_events(&self, side: Side) -> &[(Duration, PathEvent)] {
        &self.peer(side).path_events
    }

    /// When a side's handshake was complete, and when it was confirmed (RFC 9001 section 4.1.2).
    pub fn handshake(&self, side: Side) -> (Option<Duration>, Option<Duration>) {
        let peer = self.peer(side);
        (peer.connected, peer.confirmed)
    }

    /// When and why a side's connection ended.
    pub fn lost(&self, side: Side) -> Option<&(Duration, mpquic_proto::ConnectionError)> {
        self.peer(side).lost.as_ref()
    }

    /// How many datagrams reached a side's endpoint without being accepted by a connection, plus
    /// how many connections the side did not accept.
    pub fn refused(&self, side: Side) -> u64 {
        self.peer(side).refused
    }

    /// How many datagrams had addresses that no path joins.
    pub const fn unroutable(&self) -> u64 {
        self.fabric.unroutable
    }

    /// The stalls of a side's application.
    pub fn stalls(&self, side: Side) -> StallTracker {
        self.peer(side).ledger.stalls
    }

    /// Bytes received by a side over each path, over time.
    pub fn received(&self, side: Side) -> &ByteSeries {
        // The series are indexed by the sender.
        &self.fabric.received[1 - index(side)]
    }

    /// The links of each path: client to server, server to client. For a direction with several
    /// links, this is the first link that no other path uses, or the first one if all are shared.
    pub fn link_stats(&self) -> Vec<[LinkStats; 2]> {
        let stats = |path, direction| {
            let link = self.fabric.own_link(path, direction);
            link.map_or_else(LinkStats::default, |number| {
                *self.fabric.lines[number].link.stats()
            })
        };
        (0..self.fabric.paths.len())
            .map(|path| [stats(path, 0), stats(path, 1)])
            .collect()
    }

    /// The shared links, by number.
    pub fn shared_link_stats(&self) -> Vec<LinkStats> {
        let shared = self.fabric.lines.iter().filter(|line| line.shared);
        shared.map(|line| *line.link.stats()).collect()
    }

    /// The results so far of each flow of cross traffic.
    pub fn cross_traffic(&self) -> Vec<CrossReport> {
        self.flows[1..].iter().filter_map(Flow::report).collect()
    }

    /// A hash of the run: the time, path, size and fate of every datagram, and every read of the
    /// applications. It does not cover the bytes on the wire, which TLS randomises.
    pub fn trace_hash(&self) -> u128 {
        self.fabric.trace.hash()
    }

    /// The records behind the hash, if [`keep_trace`](crate::NetworkBuilder::keep_trace) was set.
    pub fn trace(&self) -> &[TraceRecord] {
        self.fabric.trace.records()
    }

    /// The measurements so far of both sides of the connection under test.
    pub fn measurements(&self) -> Measurements {
        let [client, server] = self.flows[0].peers.each_ref();
        Measurements {
            client: client.measurements(&self.fabric),
            server: server.measurements(&self.fabric),
        }
    }

    /// The state of the paths over time, if [`timeline`](crate::NetworkBuilder::timeline) was set.
    pub fn timeline(&self) -> Option<Timeline> {
        let recorder = self.meters.recorder.as_ref()?;
        Some(recorder.timeline(self.now))
    }

    /// Where the time of a download went that the client requested and completed at these times, if
    /// [`lost_time`](crate::NetworkBuilder::lost_time) was set.
    pub fn lost_time(&self, requested: Duration, completed: Duration) -> Option<LostTime> {
        let meter = self.meters.lost_time.as_ref()?;
        Some(meter.lost_time(requested, completed))
    }

    /// The results so far.
    pub fn report(&self) -> Report {
        let stats = |peer: &Peer| peer.connection().map(Connection::stats).unwrap_or_default();
        let peers = self.flows[0].peers.each_ref();
        Report {
            completed: self.now,
            connected: peers[0].connected,
            trace_hash: self.trace_hash(),
            client: stats(peers[0]),
            server: stats(peers[1]),
            links: self.link_stats(),
            shared_links: self.shared_link_stats(),
            cross: self.cross_traffic(),
            delivered: peers.map(|peer| peer.ledger.delivered),
            longest_stall: peers.map(|peer| peer.ledger.stalls.longest(self.now).0),
        }
    }

    /// The reads of one side in the trace, if the records were kept.
    pub fn deliveries(&self, side: Side) -> impl Iterator<Item = &Delivery> {
        self.trace().iter().filter_map(move |record| match record {
            TraceRecord::Delivery(delivery) if (delivery.flow, delivery.side) == (0, side) => {
                Some(delivery)
            }
            _ => None,
        })
    }
}
