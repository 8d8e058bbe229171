//! Two peers and their connection over the network: the connection under test, or cross traffic.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{ClientConfig, Connection, FourTuple, Side};

use crate::SimError;
use crate::cross::{CrossReport, CrossTraffic, OVER};
use crate::fabric::index;
use crate::identity::SERVER_NAME;
use crate::peer::{Moment, Peer};

/// A client and a server of one connection.
pub(crate) struct Flow {
    /// The client and the server.
    pub(crate) peers: [Peer; 2],
    cross: Option<Cross>,
}

/// The part of a flow that only cross traffic has.
struct Cross {
    traffic: CrossTraffic,
    /// `Some` until the flow starts.
    config: Option<ClientConfig>,
    addresses: FourTuple,
    started: Option<Duration>,
    stopped: Option<Duration>,
    /// Bytes delivered until the flow was stopped.
    delivered: Option<u64>,
}

impl Flow {
    /// The flow under test.
    pub(crate) fn under_test(peers: [Peer; 2]) -> Self {
        Self { peers, cross: None }
    }

    /// A flow of cross traffic, which has not started yet.
    pub(crate) fn cross(
        peers: [Peer; 2],
        traffic: CrossTraffic,
        config: ClientConfig,
        addresses: FourTuple,
    ) -> Self {
        Self {
            peers,
            cross: Some(Cross {
                traffic,
                config: Some(config),
                addresses,
                started: None,
                stopped: None,
                delivered: None,
            }),
        }
    }

    /// Makes the client connect.
    pub(crate) fn connect(
        &mut self,
        instant: Instant,
        config: ClientConfig,
        begin_on: &[FourTuple],
    ) -> Result<(), SimError> {
        let [client, _] = &mut self.peers;
        let connection = client
            .endpoint
            .connect_any(instant, config, begin_on, SERVER_NAME)?;
        client.connection = Some(connection);
        Ok(())
    }

    /// Starts cross traffic.
    pub(super) fn begin(&mut self, at: Moment) -> Result<(), SimError> {
        let Some(cross) = &mut self.cross else {
            return Ok(());
        };
        let Some(config) = cross.config.take() else {
            return Ok(());
        };
        cross.started = Some(at.now);
        let addresses = cross.addresses;
        self.connect(at.instant, config, &[addresses])
    }

    /// Ends cross traffic: the sender closes the connection. Returns the side that must be driven.
    pub(super) fn end(&mut self, at: Moment) -> Option<Side> {
        let cross = self.cross.as_mut()?;
        cross.stopped = Some(at.now);
        let from = cross.traffic.from;
        cross.delivered = Some(self.peers[index(!from)].ledger.delivered);
        // A server that has not heard of the connection yet cannot close it.
        let closer = match self.peers[index(from)].connection() {
            Some(_) => from,
            None => Side::Client,
        };
        let connection = self.peers[index(closer)].connection_mut()?;
        connection.close(at.instant, OVER, Bytes::new());
        Some(closer)
    }

    /// When one of the peers must be woken.
    pub(super) fn next_time(&self) -> Option<Duration> {
        match self.peers.each_ref().map(Peer::next_time) {
            [Some(a), Some(b)] => Some(a.min(b)),
            [a, b] => a.or(b),
        }
    }

    /// The results of cross traffic; `None` for the flow under test.
    pub(super) fn report(&self) -> Option<CrossReport> {
        let cross = self.cross.as_ref()?;
        let sender = &self.peers[index(cross.traffic.from)];
        let receiver = &self.peers[index(!cross.traffic.from)];
        Some(CrossReport {
            traffic: cross.traffic,
            started: cross.started,
            stopped: cross.stopped,
            delivered: cross.delivered.unwrap_or(receiver.ledger.delivered),
            sender: sender
                .connection()
                .map(Connection::stats)
                .unwrap_or_default(),
            lost: match cross.stopped {
                Some(_) => None,
                None => sender.lost.as_ref().map(|(at, _)| *at),
            },
        })
    }
}
