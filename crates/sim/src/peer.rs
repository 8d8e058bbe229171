//! One endpoint with its connection and application, driven in the order that the protocol requires.

use std::time::{Duration, Instant};

use mpquic_proto::{
    Connection, ConnectionError, ConnectionHandle, ConnectionStats, DatagramEvent, Endpoint, Event,
    FourTuple, PathError, PathEvent, PathId, PathRef, Side,
};

use crate::app::{App, AppContext, Ledger};
use crate::fabric::{Arrived, Fabric};
use crate::measure::{OutOfOrderMeter, PathMeasurements, SideMeasurements};
use crate::script::Resume;
use crate::{AppError, SimError};

/// The limit of work per call of [`Peer::drive`]: far above any congestion window, so that only an
/// infinite loop reaches it.
const MAX_WORK: usize = 1_000_000;

/// A moment in virtual time and in the protocol's time.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    pub(crate) instant: Instant,
}

/// A host that does not run.
struct Stopped {
    until: Duration,
    resume: Resume,
    /// It runs again, and has not read its sockets yet.
    awake: bool,
    /// What came meanwhile, and when.
    waiting: Vec<(Moment, Arrived)>,
}

pub(crate) struct Peer {
    flow: usize,
    pub(crate) side: Side,
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Connection)>,
    /// On a server, further attempts of a client that races several: the first one to complete its handshake is the
    /// connection.
    attempts: Vec<(ConnectionHandle, Connection)>,
    pub(crate) app: Box<dyn App>,
    pub(crate) ledger: Ledger,
    /// When the connection needs [`Connection::handle_timeout`].
    pub(crate) timer: Option<Duration>,
    pub(crate) connected: Option<Duration>,
    pub(crate) confirmed: Option<Duration>,
    pub(crate) lost: Option<(Duration, ConnectionError)>,
    pub(crate) path_events: Vec<(Duration, PathEvent)>,
    /// Paths that the client opens as soon as the protocol allows it.
    pub(crate) wanted_paths: Vec<FourTuple>,
    /// See [`AppContext::paths_expected`].
    pub(crate) paths_expected: usize,
    /// The measurements of abandoned path IDs, indexed by the network's paths.
    pub(crate) abandoned: Vec<PathMeasurements>,
    /// `Some` if the run is measured.
    pub(crate) meter: Option<Box<OutOfOrderMeter>>,
    /// Datagrams that no connection accepted, plus connections that could not be accepted.
    pub(crate) refused: u64,
    max_datagrams: usize,
    buffer: Vec<u8>,
    stopped: Option<Stopped>,
}

impl Stopped {
    fn reads_at(&self) -> Duration {
        match self.resume {
            Resume::Timers { reads_after } => self.until + reads_after,
            Resume::Datagrams | Resume::Inbox => self.until,
        }
    }
}

impl Peer {
    pub(crate) fn new(
        flow: usize,
        side: Side,
        endpoint: Endpoint,
        app: Box<dyn App>,
        max_datagrams: usize,
    ) -> Self {
        Self {
            flow,
            side,
            endpoint,
            connection: None,
            attempts: Vec::new(),
            app,
            ledger: Ledger::new(flow, side),
            timer: None,
            connected: None,
            confirmed: None,
            lost: None,
            path_events: Vec::new(),
            wanted_paths: Vec::new(),
            paths_expected: 1,
            abandoned: Vec::new(),
            meter: None,
            refused: 0,
            max_datagrams: max_datagrams.max(1),
            buffer: Vec::new(),
            stopped: None,
        }
    }

    /// Lets the host stand still. A stop that is under way goes on, at least so long.
    pub(crate) fn stop(&mut self, until: Duration, resume: Resume) {
        match &mut self.stopped {
            Some(stopped) => {
                stopped.until = stopped.until.max(until);
                stopped.awake = false;
            }
            None => {
                self.stopped = Some(Stopped {
                    until,
                    resume,
                    awake: false,
                    waiting: Vec::new(),
                });
            }
        }
    }

    /// Whether the host stands still.
    fn is_stopped(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| !stopped.awake)
    }

    /// Runs again, and reads what waits, if it is time. Whether it runs.
    fn resume(&mut self, at: Moment, fabric: &mut Fabric) -> bool {
        let Some(stopped) = &mut self.stopped else {
            return true;
        };
        if at.now < stopped.until {
            return false;
        }
        stopped.awake = true;
        if at.now < stopped.reads_at() {
            return true;
        }
        let stopped = self.stopped.take();
        let inbox = stopped
            .as_ref()
            .is_some_and(|stopped| stopped.resume == Resume::Inbox);
        for (came, datagram) in stopped.into_iter().flat_map(|stopped| stopped.waiting) {
            self.receive(if inbox { came } else { at }, datagram, fabric);
        }
        true
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref().map(|(_, connection)| connection)
    }

    pub(crate) fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// When this side must be woken even if no datagram arrives.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.connection.as_ref()?;
        let reads = match &self.stopped {
            Some(stopped) if !stopped.awake => return Some(stopped.until),
            stopped => stopped.as_ref().map(Stopped::reads_at),
        };
        let times = [self.timer, self.app.next_wakeup(), reads];
        times.into_iter().flatten().min()
    }

    /// Receives one datagram. [`drive`](Self::drive) processes its effects.
    pub(crate) fn receive(&mut self, at: Moment, datagram: Arrived, fabric: &mut Fabric) {
        if let Some(stopped) = &mut self.stopped {
            stopped.waiting.push((at, datagram));
            return;
        }
        self.buffer.clear();
        let event = self.endpoint.handle(
            at.instant,
            datagram.network_path,
            datagram.ecn,
            datagram.bytes,
            &mut self.buffer,
        );
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => match &mut self.connection {
                Some((ours, connection)) if *ours == handle => {
                    connection.handle_event(event);
                    if let Some(meter) = &mut self.meter {
                        meter.look(at.now, connection);
                    }
                }
                _ => {
                    let mut attempts = self.attempts.iter_mut();
                    match attempts.find(|(known, _)| *known == handle) {
                        Some((_, attempt)) => attempt.handle_event(event),
                        None => self.refused += 1,
                    }
                    self.choose_attempt();
                }
            },
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.buffer.clear();
                let established = |(_, one): &(_, Connection)| !one.is_handshaking();
                if self.connection.as_ref().is_some_and(established) {
                    let answer = self.endpoint.refuse(incoming, &mut self.buffer);
                    fabric.send(at.now, self.flow, self.side, &answer, &self.buffer);
                    self.refused += 1;
                    return;
                }
                let accepted = self
                    .endpoint
                    .accept(incoming, at.instant, &mut self.buffer, None);
                match accepted {
                    Ok(connection) if self.connection.is_none() => {
                        self.connection = Some(connection);
                    }
                    Ok(connection) => self.attempts.push(connection),
                    Err(error) => {
                        self.refused += 1;
                        if let Some(answer) = error.response {
                            fabric.send(at.now, self.flow, self.side, &answer, &self.buffer);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(answer)) => {
                fabric.send(at.now, self.flow, self.side, &answer, &self.buffer);
            }
            _ => {}
        }
    }

    /// Takes an attempt whose handshake is complete for the connection, if that one's is not.
    fn choose_attempt(&mut self) {
        let waits = |(_, one): &(_, Connection)| one.is_handshaking() || one.is_closed();
        if self.connected.is_some() || !self.connection.as_ref().is_some_and(waits) {
            return;
        }
        let complete = |(_, one): &(_, Connection)| !one.is_handshaking() && !one.is_closed();
        if let Some(place) = self.attempts.iter().position(complete) {
            let chosen = self.attempts.remove(place);
            self.attempts.extend(self.connection.replace(chosen));
        }
    }

    /// Fires due timers: the connection's and the application's.
    pub(crate) fn handle_timeouts(
        &mut self,
        at: Moment,
        fabric: &mut Fabric,
    ) -> Result<(), SimError> {
        if !self.resume(at, fabric) {
            return Ok(());
        }
        if self.timer.is_some_and(|timer| timer <= at.now)
            && let Some((_, connection)) = &mut self.connection
        {
            connection.handle_timeout(at.instant);
        }
        for (_, attempt) in &mut self.attempts {
            if attempt.poll_timeout().is_some_and(|due| due <= at.instant) {
                attempt.handle_timeout(at.instant);
            }
        }
        if self
            .app
            .next_wakeup()
            .is_some_and(|wakeup| wakeup <= at.now)
        {
            self.with_app(at, |app, cx| app.on_wakeup(cx))?;
        }
        Ok(())
    }

    /// Lets connection and application work until neither has more to do at this instant.
    pub(crate) fn drive(
        &mut self,
        at: Moment,
        origin: Instant,
        fabric: &mut Fabric,
    ) -> Result<(), SimError> {
        if self.is_stopped() {
            return Ok(());
        }
        let mut work = 0;
        let mut event = self.poll(at, fabric);
        let mut more = self.connection.is_some();
        while more {
            // The application first: what it writes leaves together with what the protocol sends.
            while let Some(happened) = event {
                work += 1;
                self.on_event(at, &happened)?;
                if work > MAX_WORK {
                    return Err(SimError::Livelock { at: at.now });
                }
                event = self.poll(at, fabric);
            }
            while self.transmit(at, fabric) {
                work += 1;
                if work > MAX_WORK {
                    return Err(SimError::Livelock { at: at.now });
                }
            }
            // The protocol has just reported that it has no more to send, and without an event this
            // does not change.
            event = self.poll(at, fabric);
            more = event.is_some();
        }
        if let (Some(meter), Some((_, connection))) = (&mut self.meter, &self.connection) {
            meter.look(at.now, connection);
        }
        for delivery in self.ledger.pending.drain(..) {
            fabric.trace.delivery(&delivery);
        }
        self.timer = self
            .connection
            .as_mut()
            .and_then(|(_, connection)| connection.poll_timeout())
            .into_iter()
            .chain(
                self.attempts
                    .iter_mut()
                    .filter_map(|(_, attempt)| attempt.poll_timeout()),
            )
            .min()
            // A timer before the origin, or in the past, is due at once.
            .map(|timer| timer.saturating_duration_since(origin));
        Ok(())
    }

    fn poll(&mut self, at: Moment, fabric: &Fabric) -> Option<Event> {
        self.drain_endpoint_events();
        let event = self.connection.as_mut()?.1.poll()?;
        if matches!(event, Event::ConnectionLost { .. })
            && self.connected.is_none()
            && let Some(other) = self.attempts.pop()
        {
            // The client has given this attempt up.
            self.attempts.extend(self.connection.replace(other));
            return self.poll(at, fabric);
        }
        match &event {
            Event::Connected => self.connected = Some(at.now),
            Event::HandshakeConfirmed => self.confirmed = Some(at.now),
            Event::ConnectionLost { reason } => self.lost = Some((at.now, reason.clone())),
            Event::Path(event) => {
                self.path_events.push((at.now, *event));
                if let PathEvent::Abandoned { id, .. } = *event {
                    self.on_abandoned(id, fabric);
                }
            }
            _ => {}
        }
        Some(event)
    }

    /// Keeps the measurements of a path ID whose state the connection will soon discard.
    fn on_abandoned(&mut self, id: PathId, fabric: &Fabric) {
        let Some((_, connection)) = &self.connection else {
            return;
        };
        let Some((addresses, stats)) = connection.paths().abandoned(id) else {
            return;
        };
        let Some(path) = fabric.path_of(self.side, addresses) else {
            return;
        };
        self.abandoned
            .resize_with(fabric.paths.len(), PathMeasurements::default);
        self.abandoned[path].add_stats(&stats);
    }

    /// The measurements of this side so far.
    pub(crate) fn measurements(&self, fabric: &Fabric) -> SideMeasurements {
        let mut paths = self.abandoned.clone();
        paths.resize_with(fabric.paths.len(), PathMeasurements::default);
        let mut measured = match self.connection() {
            None => SideMeasurements::new(&ConnectionStats::default(), paths),
            Some(connection) => {
                for open in connection.paths().iter() {
                    if let Some(path) = fabric.path_of(self.side, open.network_path()) {
                        paths[path].add_stats(&open.stats());
                    }
                }
                SideMeasurements::new(&connection.stats(), paths)
            }
        };
        measured.out_of_order = self.meter.as_ref().map(|meter| meter.figures());
        measured
    }

    fn on_event(&mut self, at: Moment, event: &Event) -> Result<(), SimError> {
        if matches!(
            event,
            Event::HandshakeConfirmed | Event::Path(PathEvent::Available { .. })
        ) {
            self.open_wanted_paths(at)?;
        }
        self.with_app(at, |app, cx| app.on_event(cx, event))
    }

    /// Opens the paths that can be opened. The others wait for the next `Available`.
    fn open_wanted_paths(&mut self, at: Moment) -> Result<(), SimError> {
        let Some((_, connection)) = &mut self.connection else {
            return Ok(());
        };
        while let Some(path) = self.wanted_paths.first() {
            // That of the handshake is open.
            let is_it = |open: PathRef<'_>| open.network_path() == *path;
            if connection.paths().iter().any(is_it) {
                self.wanted_paths.remove(0);
                continue;
            }
            match connection.open_path(at.instant, *path) {
                Ok(_) => {
                    self.wanted_paths.remove(0);
                }
                Err(
                    PathError::HandshakeIncomplete
                    | PathError::NoCidAvailable { .. }
                    | PathError::NoPathIdLeft { .. },
                ) => break,
                Err(source) => {
                    return Err(SimError::Action {
                        at: at.now,
                        action: "open all paths",
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    fn with_app(
        &mut self,
        at: Moment,
        f: impl FnOnce(&mut dyn App, &mut AppContext<'_>) -> Result<(), AppError>,
    ) -> Result<(), SimError> {
        let Some((_, connection)) = &mut self.connection else {
            return Ok(());
        };
        let mut cx = AppContext {
            connection,
            now: at.now,
            instant: at.instant,
            paths_expected: self.paths_expected,
            ledger: &mut self.ledger,
        };
        f(self.app.as_mut(), &mut cx).map_err(|source| SimError::Integrity {
            side: self.side,
            at: at.now,
            source,
        })
    }

    /// Sends one batch. Returns `false` if there was none.
    fn transmit(&mut self, at: Moment, fabric: &mut Fabric) -> bool {
        self.drain_endpoint_events();
        for (_, attempt) in &mut self.attempts {
            self.buffer.clear();
            let transmit = attempt.poll_transmit(at.instant, self.max_datagrams, &mut self.buffer);
            if let Some(transmit) = transmit {
                fabric.send(at.now, self.flow, self.side, &transmit, &self.buffer);
                return true;
            }
        }
        let Some((_, connection)) = &mut self.connection else {
            return false;
        };
        self.buffer.clear();
        let rests = cfg!(debug_assertions) && connection.comes_to_rest(at.instant);
        let transmit = connection.poll_transmit(at.instant, self.max_datagrams, &mut self.buffer);
        debug_assert!(!rests || transmit.is_none(), "a connection at rest sends");
        // The datagram may carry new connection IDs. The endpoint must know them before the peer
        // can use them.
        self.drain_endpoint_events();
        match transmit {
            Some(transmit) => {
                fabric.send(at.now, self.flow, self.side, &transmit, &self.buffer);
                true
            }
            None => false,
        }
    }

    fn drain_endpoint_events(&mut self) {
        for (handle, connection) in self.connection.iter_mut().chain(&mut self.attempts) {
            while let Some(event) = connection.poll_endpoint_events() {
                self.endpoint.handle_event(*handle, event);
            }
        }
        self.attempts.retain(|(_, attempt)| !attempt.is_drained());
    }
}
