//! A network in virtual time: one client, one server, the paths between them, and what is to happen when.

use std::any::Any;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{
    ClientConfig, Connection, ConnectionStats, FourTuple, PathError, PathEvent, Side, VarInt,
};

use crate::app::App;
use crate::builder::{NetworkBuilder, four_tuple};
use crate::event_queue::EventQueue;
use crate::fabric::{Fabric, index};
use crate::identity::SERVER_NAME;
use crate::link::{LinkConfigError, LinkStats};
use crate::observe::{ByteSeries, StallTracker, StepView};
use crate::peer::{Moment, Peer};
use crate::script::Action;
use crate::trace::{DatagramInfo, TraceRecord};
use crate::{Delivery, SimError};

/// How many steps may fall on one instant: more than any burst of datagrams and timers.
const MAX_STEPS_PER_INSTANT: u32 = 1_000_000;

/// A function that looks at both connections between events; an error ends the run.
type StepHook = Box<dyn FnMut(&StepView<'_>) -> Result<(), String>>;

/// A client, a server and the paths between them, in virtual time.
///
/// The order of things is total: scripted actions before link events before timers of the same
/// time, the client before the server, and otherwise as planned. With the TLS settings of
/// [`identity`](crate::identity), the same seed gives the same [`trace_hash`](Self::trace_hash).
pub struct Network {
    origin: Instant,
    now: Duration,
    steps_at_now: u32,
    fabric: Fabric,
    client: Peer,
    server: Peer,
    script: EventQueue<Action>,
    hooks: Vec<StepHook>,
    started: bool,
}

/// What a step found to do.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// Nothing until the limit.
    Later,
    /// Nothing at all.
    Nothing,
}

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
    /// Each path's links: client to server, server to client.
    pub links: Vec<[LinkStats; 2]>,
    /// Bytes that the applications read from streams: the client's, the server's.
    pub delivered: [u64; 2],
    /// The longest time without newly delivered bytes, from the first on: at the client, at the
    /// server. Waiting for nothing counts, too.
    pub longest_stall: [Duration; 2],
}

impl Network {
    /// Begins to describe a network in which all that is random follows from `seed`.
    pub fn builder(seed: u64) -> NetworkBuilder {
        NetworkBuilder::new(seed)
    }

    pub(crate) fn start(
        mut client: Peer,
        server: Peer,
        fabric: Fabric,
        config: ClientConfig,
        path: FourTuple,
    ) -> Result<Self, SimError> {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant can be had from the clock alone; all times are relative to this one"
        )]
        let origin = Instant::now();
        let connection = client.endpoint.connect(origin, config, path, SERVER_NAME)?;
        client.connection = Some(connection);
        Ok(Self {
            origin,
            now: Duration::ZERO,
            steps_at_now: 0,
            fabric,
            client,
            server,
            script: EventQueue::new(),
            hooks: Vec::new(),
            started: false,
        })
    }

    /// Plans an action. A time that is over counts as now.
    pub fn at(&mut self, time: Duration, action: Action) -> &mut Self {
        self.script.push(time.max(self.now), action);
        self
    }

    /// Has a function see every datagram enter and leave its link.
    pub fn on_datagram(&mut self, hook: impl FnMut(&DatagramInfo) + 'static) -> &mut Self {
        self.fabric.hooks.push(Box::new(hook));
        self
    }

    /// Has a function look at both connections after each step; its error ends the run.
    pub fn on_step(
        &mut self,
        hook: impl FnMut(&StepView<'_>) -> Result<(), String> + 'static,
    ) -> &mut Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Runs until this virtual time.
    ///
    /// # Errors
    ///
    /// What went wrong; a lost connection is not an error here.
    pub fn run_until(&mut self, time: Duration) -> Result<(), SimError> {
        while self.step(time)? == Step::Done {}
        self.now = self.now.max(time);
        Ok(())
    }

    /// Runs until both applications are done.
    ///
    /// # Errors
    ///
    /// If they are not done at the limit or never will be, or if something went wrong.
    pub fn run_to_completion(&mut self, limit: Duration) -> Result<Report, SimError> {
        loop {
            let step = self.step(limit)?;
            // Both: a server is done before it was asked anything.
            if self.client.app.is_complete() && self.server.app.is_complete() {
                return Ok(self.report());
            }
            for peer in [&self.client, &self.server] {
                if let Some((at, reason)) = &peer.lost {
                    return Err(SimError::ConnectionLost {
                        side: peer.side,
                        at: *at,
                        reason: reason.clone(),
                    });
                }
            }
            match step {
                Step::Done => {}
                Step::Later => {
                    return Err(SimError::TimeLimit {
                        limit,
                        delivered: self.client.ledger.delivered + self.server.ledger.delivered,
                        last_delivery: self
                            .client
                            .ledger
                            .stalls
                            .last_delivery()
                            .max(self.server.ledger.stalls.last_delivery()),
                    });
                }
                Step::Nothing => return Err(SimError::Stuck { at: self.now }),
            }
        }
    }

    /// Runs until both connections are over and forgotten. Close one first.
    ///
    /// # Errors
    ///
    /// If they are not at the limit or never will be, or if something went wrong.
    pub fn run_until_drained(&mut self, limit: Duration) -> Result<Report, SimError> {
        loop {
            let step = self.step(limit)?;
            let drained = [&self.client, &self.server]
                .iter()
                .all(|peer| peer.connection().is_none_or(Connection::is_drained));
            match step {
                _ if drained => return Ok(self.report()),
                Step::Done => {}
                Step::Later => {
                    return Err(SimError::TimeLimit {
                        limit,
                        delivered: self.client.ledger.delivered + self.server.ledger.delivered,
                        last_delivery: None,
                    });
                }
                Step::Nothing => return Err(SimError::Stuck { at: self.now }),
            }
        }
    }

    fn step(&mut self, limit: Duration) -> Result<Step, SimError> {
        if !self.started {
            self.started = true;
            self.drive(Side::Client)?;
            return self.call_hooks().map(|()| Step::Done);
        }
        let script = self.script.next_time();
        let wire = self.fabric.next_time();
        let timers = [self.client.next_time(), self.server.next_time()];
        let Some(next) = [script, wire, timers[0], timers[1]]
            .into_iter()
            .flatten()
            .min()
        else {
            return Ok(Step::Nothing);
        };
        if next > limit {
            self.now = self.now.max(limit);
            return Ok(Step::Later);
        }
        // A timer may be set in the past; time stays where it is then.
        if next > self.now {
            self.now = next;
            self.steps_at_now = 0;
        } else {
            self.steps_at_now += 1;
            if self.steps_at_now > MAX_STEPS_PER_INSTANT {
                return Err(SimError::Livelock { at: self.now });
            }
        }
        if script == Some(next) {
            if let Some((_, action)) = self.script.pop() {
                self.act(action)?;
            }
            self.drive(Side::Client)?;
            self.drive(Side::Server)?;
        } else if wire == Some(next) {
            self.work()?;
        } else {
            let at = self.moment();
            for side in [Side::Client, Side::Server] {
                if timers[index(side)].is_some_and(|timer| timer <= self.now) {
                    self.peer_mut(side).handle_timeouts(at)?;
                    self.drive(side)?;
                }
            }
        }
        self.call_hooks().map(|()| Step::Done)
    }

    /// Lets one link work and hands over what came out.
    fn work(&mut self) -> Result<(), SimError> {
        let at = self.moment();
        let mut arrived = Vec::new();
        self.fabric.work(self.now, &mut arrived);
        let mut receiver = None;
        for datagram in arrived {
            let peer = match datagram.to {
                Side::Client => &mut self.client,
                Side::Server => &mut self.server,
            };
            receiver = Some(datagram.to);
            peer.receive(at, datagram, &mut self.fabric);
        }
        // One link has one receiver; what arrived together is answered together.
        receiver.map_or(Ok(()), |side| self.drive(side))
    }

    fn drive(&mut self, side: Side) -> Result<(), SimError> {
        let at = self.moment();
        let peer = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        peer.drive(at, self.origin, &mut self.fabric)
    }

    fn call_hooks(&mut self) -> Result<(), SimError> {
        let view = StepView {
            now: self.now,
            client: self.client.connection(),
            server: self.server.connection(),
            timers: [self.client.timer, self.server.timer],
        };
        for hook in &mut self.hooks {
            hook(&view).map_err(|message| SimError::Invariant {
                at: view.now,
                message,
            })?;
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            instant: self.instant(),
        }
    }

    fn act(&mut self, action: Action) -> Result<(), SimError> {
        let (at, instant) = (self.now, self.instant());
        let refused = |action: &'static str, result: Result<(), PathError>| {
            result.map_err(|source| SimError::Action { at, action, source })
        };
        match action {
            Action::OpenPath { client, server } => {
                let path = self.four_tuple(client, server)?;
                let result = match self.client.connection_mut() {
                    Some(connection) => connection.open_path(instant, path).map(|_| ()),
                    None => Err(PathError::Closed),
                };
                refused("open path", result)
            }
            Action::ClosePath { side, id, code } => {
                let result = match self.peer_mut(side).connection_mut() {
                    Some(connection) => connection.close_path(instant, id, code),
                    None => Err(PathError::Closed),
                };
                refused("close path", result)
            }
            Action::SetPathStatus { side, id, status } => {
                let result = match self.peer_mut(side).connection_mut() {
                    Some(connection) => connection.set_path_status(id, status),
                    None => Err(PathError::Closed),
                };
                refused("set path status", result)
            }
            Action::SetLinkUp { path, from, up } => self.change_link(path, from, |link| {
                link.set_up(at, up);
                Ok(())
            }),
            Action::SetLinkRate { path, from, rate } => {
                self.change_link(path, from, |link| link.set_rate(at, rate))
            }
            Action::SetLinkDelay { path, from, delay } => {
                self.change_link(path, from, |link| link.set_delay(at, delay))
            }
            Action::SetLinkLoss { path, from, loss } => {
                self.change_link(path, from, |link| link.set_loss(at, loss))
            }
            Action::Rebind { client, outside } => match self.fabric.clients.get_mut(client) {
                Some(address) => {
                    address.outside = outside;
                    Ok(())
                }
                None => Err(SimError::Address {
                    what: "client address",
                    number: client,
                }),
            },
            Action::Close { side, code } => {
                if let Some(connection) = self.peer_mut(side).connection_mut() {
                    connection.close(instant, VarInt::from_u32(code), Bytes::new());
                }
                Ok(())
            }
            Action::Call(f) => {
                f(self);
                Ok(())
            }
        }
    }

    fn change_link(
        &mut self,
        path: usize,
        from: Option<Side>,
        change: impl Fn(&mut crate::Link<crate::fabric::Datagram>) -> Result<(), LinkConfigError>,
    ) -> Result<(), SimError> {
        for side in [Side::Client, Side::Server] {
            if from.is_some_and(|from| from != side) {
                continue;
            }
            let Some(ends) = self.fabric.paths.get_mut(path) else {
                return Err(SimError::Address {
                    what: "path",
                    number: path,
                });
            };
            change(&mut ends.links[index(side)])
                .map_err(|source| SimError::Link { path, source })?;
            self.fabric.plan(path, index(side));
        }
        Ok(())
    }

    fn peer(&self, side: Side) -> &Peer {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    fn peer_mut(&mut self, side: Side) -> &mut Peer {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

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

    /// A side's connection, for [`Action::call`]; what it makes it do happens at the next step.
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
        let local = self.client_address(client).ok_or(SimError::Address {
            what: "client address",
            number: client,
        })?;
        let remote = self.server_address(server).ok_or(SimError::Address {
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

    /// Each path's links: client to server, server to client.
    pub fn link_stats(&self) -> Vec<[LinkStats; 2]> {
        self.fabric
            .paths
            .iter()
            .map(|path| [*path.links[0].stats(), *path.links[1].stats()])
            .collect()
    }

    /// A hash of all that happened: the time, path, size and fate of every datagram, and every
    /// read of the applications. Not of the bytes on the wire, which TLS randomises.
    pub fn trace_hash(&self) -> u128 {
        self.fabric.trace.hash()
    }

    /// What the hash was made of, if [`keep_trace`](NetworkBuilder::keep_trace) was asked for.
    pub fn trace(&self) -> &[TraceRecord] {
        self.fabric.trace.records()
    }

    /// How it has gone up to now.
    pub fn report(&self) -> Report {
        let stats = |peer: &Peer| peer.connection().map(Connection::stats).unwrap_or_default();
        let peers = [&self.client, &self.server];
        Report {
            completed: self.now,
            connected: self.client.connected,
            trace_hash: self.trace_hash(),
            client: stats(&self.client),
            server: stats(&self.server),
            links: self.link_stats(),
            delivered: peers.map(|peer| peer.ledger.delivered),
            longest_stall: peers.map(|peer| peer.ledger.stalls.longest(self.now).0),
        }
    }

    /// The reads in the trace of one side, if records were kept.
    pub fn deliveries(&self, side: Side) -> impl Iterator<Item = &Delivery> {
        self.trace().iter().filter_map(move |record| match record {
            TraceRecord::Delivery(delivery) if delivery.side == side => Some(delivery),
            _ => None,
        })
    }
}
