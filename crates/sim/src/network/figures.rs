//! What can be known of a network and its run from outside; changes nothing.

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
use crate::measure::{Measurements, Timeline};
use crate::observe::{ByteSeries, StallTracker};
use crate::peer::Peer;
use crate::trace::TraceRecord;
use crate::{Delivery, SimError};

/// How a run went.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// When both applications were done.
    pub completed: Duration,
    /// When the client knew that the handshake was complete.
    pub connected: Option<Duration>,
    /// Equal for equal runs.
    pub trace_hash: u128,
    /// The client's figures.
    pub client: ConnectionStats,
    /// The server's figures.
    pub server: ConnectionStats,
    /// Each path's links: client to server, server to client; see [`Network::link_stats`].
    pub links: Vec<[LinkStats; 2]>,
    /// The shared links, by number.
    pub shared_links: Vec<LinkStats>,
    /// Each flow of cross traffic.
    pub cross: Vec<CrossReport>,
    /// Bytes that the applications read from streams: the client's, the server's.
    pub delivered: [u64; 2],
    /// The longest time without newly delivered bytes, from the first on: at the client, at the
    /// server. Waiting for nothing counts, too.
    pub longest_stall: [Duration; 2],
}

impl Network {
    /// The virtual time.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The virtual time as the protocol wants it.
    pub fn instant(&self) -> Instant {
        // Beyond what the platform's clock can express, time stands still; nothing gets there.
        self.origin.checked_add(self.now).unwrap_or(self.origin)
    }

    /// A side's connection; the server has one once a client's first datagram came.
    pub fn connection(&self, side: Side) -> Option<&Connection> {
        self.peer(side).connection()
    }

    /// A side's connection, for [`Action::call`](crate::Action::call); what it makes it do happens at the next step.
    pub fn connection_mut(&mut self, side: Side) -> Option<&mut Connection> {
        self.peer_mut(side).connection_mut()
    }

    /// A side's application, if it is of this type.
    pub fn app<A: App>(&self, side: Side) -> Option<&A> {
        let app: &dyn Any = self.peer(side).app.as_ref();
        app.downcast_ref()
    }

    /// A side's application, if it is of this type.
    pub fn app_mut<A: App>(&mut self, side: Side) -> Option<&mut A> {
        let app: &mut dyn Any = self.peer_mut(side).app.as_mut();
        app.downcast_mut()
    }

    /// The addresses of a path as the client sees them, by number.
    ///
    /// # Errors
    ///
    /// If there are none with these numbers.
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

    /// One of the client's addresses.
    pub fn client_address(&self, number: usize) -> Option<SocketAddr> {
        self.fabric
            .clients
            .get(number)
            .map(|address| address.inside)
    }

    /// One of the server's addresses.
    pub fn server_address(&self, number: usize) -> Option<SocketAddr> {
        self.fabric.servers.get(number).copied()
    }

    /// What happened to a side's paths, and when.
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

    /// Datagrams that reached a side's endpoint and that its connection did not take, and
    /// connections that it did not accept.
    pub fn refused(&self, side: Side) -> u64 {
        self.peer(side).refused
    }

    /// Datagrams that no link joins to their address.
    pub const fn unroutable(&self) -> u64 {
        self.fabric.unroutable
    }

    /// How a side's application was supplied.
    pub fn stalls(&self, side: Side) -> StallTracker {
        self.peer(side).ledger.stalls
    }

    /// Bytes that came to a side over each path, over time.
    pub fn received(&self, side: Side) -> &ByteSeries {
        // The series are kept by sender.
        &self.fabric.received[1 - index(side)]
    }

    /// Each path's links: client to server, server to client. Where a direction leads through
    /// several, the first that it shares with nothing, or the first of all if it shares them all.
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

    /// Each shared link, by number.
    pub fn shared_link_stats(&self) -> Vec<LinkStats> {
        let shared = self.fabric.lines.iter().filter(|line| line.shared);
        shared.map(|line| *line.link.stats()).collect()
    }

    /// What each flow of cross traffic has achieved up to now.
    pub fn cross_traffic(&self) -> Vec<CrossReport> {
        self.flows[1..].iter().filter_map(Flow::report).collect()
    }

    /// A hash of all that happened: the time, path, size and fate of every datagram, and every
    /// read of the applications. Not of the bytes on the wire, which TLS randomises.
    pub fn trace_hash(&self) -> u128 {
        self.fabric.trace.hash()
    }

    /// What the hash was made of, if [`keep_trace`](crate::NetworkBuilder::keep_trace) was asked for.
    pub fn trace(&self) -> &[TraceRecord] {
        self.fabric.trace.records()
    }

    /// What both sides of the connection under test have done and got up to now.
    pub fn measurements(&self) -> Measurements {
        let [client, server] = self.flows[0].peers.each_ref();
        Measurements {
            client: client.measurements(&self.fabric),
            server: server.measurements(&self.fabric),
        }
    }

    /// What its paths did over time, if [`timeline`](crate::NetworkBuilder::timeline) was asked for.
    pub fn timeline(&self) -> Option<Timeline> {
        let recorder = self.recorder.as_ref()?;
        Some(recorder.timeline(self.now))
    }

    /// How it has gone up to now.
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

    /// The reads in the trace of one side, if records were kept.
    pub fn deliveries(&self, side: Side) -> impl Iterator<Item = &Delivery> {
        self.trace().iter().filter_map(move |record| match record {
            TraceRecord::Delivery(delivery) if (delivery.flow, delivery.side) == (0, side) => {
                Some(delivery)
            }
            _ => None,
        })
    }
}
