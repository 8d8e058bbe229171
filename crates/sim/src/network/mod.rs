//! A network in virtual time: one client, one server, the paths between them, and the events to come.

mod actions;
mod figures;
mod flow;

pub use figures::Report;
pub(crate) use flow::Flow;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpquic_proto::{ClientConfig, Connection, FourTuple, Side};

use crate::SimError;
use crate::builder::NetworkBuilder;
use crate::event_queue::EventQueue;
use crate::fabric::{Arrived, Fabric, index};
use crate::measure::{LostTimeMeter, Recorder};
use crate::observe::StepView;
use crate::peer::{Moment, Peer};
use crate::script::Action;
use crate::trace::DatagramInfo;

/// The most steps at one instant: more than any burst of datagrams and timers causes.
const MAX_STEPS_PER_INSTANT: u32 = 1_000_000;

/// A function that inspects both connections between events. An error ends the run.
type StepHook = Box<dyn FnMut(&StepView<'_>) -> Result<(), String>>;

/// A client, a server, the paths between them and the cross traffic on these paths, in virtual
/// time.
///
/// Events have a total order. Of simultaneous events, scripted actions run first, then link events,
/// then timers. The connection under test comes before cross traffic, the client before the server,
/// and links come by number. All other simultaneous events run in insertion order. With the TLS
/// settings of [`identity`](crate::identity), the same seed gives the same
/// [`trace_hash`](Self::trace_hash).
pub struct Network {
    origin: Instant,
    now: Duration,
    steps_at_now: u32,
    fabric: Fabric,
    /// The first flow is the one under test, the others are cross traffic.
    flows: Vec<Flow>,
    script: EventQueue<Scripted>,
    hooks: Vec<StepHook>,
    started: bool,
    meters: Meters,
    // Reused by each step.
    arrived: Vec<Arrived>,
    receivers: Vec<(usize, Side)>,
}

/// What watches a run without changing it, and what ends it.
#[derive(Default)]
pub(crate) struct Meters {
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) lost_time: Option<Box<LostTimeMeter>>,
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

/// A planned event.
enum Scripted {
    Action(Action),
    /// A flow of cross traffic, by its index among the flows.
    Begin(usize),
    End(usize),
}

/// The work that a step found.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// Nothing before the limit.
    Later,
    /// Nothing at all.
    Nothing,
}

/// The start of virtual time.
#[allow(
    clippy::disallowed_methods,
    reason = "an Instant can be had from the clock alone; all times are relative to this one"
)]
pub(crate) fn origin() -> Instant {
    Instant::now()
}

impl Network {
    /// Starts to configure a network. All randomness follows from `seed`.
    pub fn builder(seed: u64) -> NetworkBuilder {
        NetworkBuilder::new(seed)
    }

    /// Connects the first flow at once, with this configuration. The others start and end at these
    /// times.
    pub(crate) fn start(
        origin: Instant,
        flows: Vec<Flow>,
        fabric: Fabric,
        config: ClientConfig,
        begin_on: &[FourTuple],
        times: impl IntoIterator<Item = (Duration, Option<Duration>)>,
        meters: Meters,
    ) -> Result<Self, SimError> {
        let mut this = Self {
            origin,
            now: Duration::ZERO,
            steps_at_now: 0,
            fabric,
            flows,
            script: EventQueue::new(),
            hooks: Vec::new(),
            started: false,
            meters,
            arrived: Vec::new(),
            receivers: Vec::new(),
        };
        this.flows[0].connect(origin, config, begin_on)?;
        for (number, (begin, end)) in times.into_iter().enumerate() {
            this.script.push(begin, Scripted::Begin(number + 1));
            if let Some(end) = end {
                this.script.push(end, Scripted::End(number + 1));
            }
        }
        Ok(this)
    }

    /// Plans an action. A time in the past counts as now.
    pub fn at(&mut self, time: Duration, action: Action) -> &mut Self {
        self.script
            .push(time.max(self.now), Scripted::Action(action));
        self
    }

    /// Calls `hook` for every datagram that enters or leaves a link.
    pub fn on_datagram(&mut self, hook: impl FnMut(&DatagramInfo) + 'static) -> &mut Self {
        self.fabric.hooks.push(Box::new(hook));
        self
    }

    /// Calls `hook` after each step with both connections. An error ends the run.
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
    /// If the run fails. A lost connection is not an error here.
    pub fn run_until(&mut self, time: Duration) -> Result<(), SimError> {
        while self.step(time)? == Step::Done {}
        self.now = self.now.max(time);
        Ok(())
    }

    /// Runs until both applications are complete.
    ///
    /// # Errors
    ///
    /// If they are not complete at the limit, if they can no longer complete, or if the run fails.
    pub fn run_to_completion(&mut self, limit: Duration) -> Result<Report, SimError> {
        loop {
            let step = self.step(limit)?;
            let peers = &self.flows[0].peers;
            // Both must be: a server is complete before the client asks for anything.
            if peers.iter().all(|peer| peer.app.is_complete()) {
                return Ok(self.report());
            }
            for peer in peers {
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
                        delivered: self.delivered(),
                        last_delivery: peers
                            .iter()
                            .filter_map(|peer| peer.ledger.stalls.last_delivery())
                            .max(),
                    });
                }
                Step::Nothing => return Err(SimError::Stuck { at: self.now }),
            }
        }
    }

    /// Runs until both connections have ended and their state is gone. Close one of them first.
    ///
    /// # Errors
    ///
    /// If they have not ended at the limit, if they can no longer end, or if the run fails.
    pub fn run_until_drained(&mut self, limit: Duration) -> Result<Report, SimError> {
        loop {
            let step = self.step(limit)?;
            let drained = self.flows[0]
                .peers
                .iter()
                .all(|peer| peer.connection().is_none_or(Connection::is_drained));
            match step {
                _ if drained => return Ok(self.report()),
                Step::Done => {}
                Step::Later => {
                    return Err(SimError::TimeLimit {
                        limit,
                        delivered: self.delivered(),
                        last_delivery: None,
                    });
                }
                Step::Nothing => return Err(SimError::Stuck { at: self.now }),
            }
        }
    }

    fn step(&mut self, limit: Duration) -> Result<Step, SimError> {
        let stop = self.meters.stop.as_ref();
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(SimError::Stopped { at: self.now });
        }
        if !self.started {
            self.started = true;
            self.drive(0, Side::Client)?;
            return self.call_hooks().map(|()| Step::Done);
        }
        let script = self.script.next_time();
        let wire = self.fabric.next_time();
        let timer = self.flows.iter().filter_map(Flow::next_time).min();
        let Some(next) = [script, wire, timer].into_iter().flatten().min() else {
            return Ok(Step::Nothing);
        };
        if next > limit {
            self.now = self.now.max(limit);
            return Ok(Step::Later);
        }
        // A timer may be set to the past. The time then stays the same.
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
            if let Some((_, scripted)) = self.script.pop() {
                self.perform(scripted)?;
            }
        } else if wire == Some(next) {
            self.work()?;
        } else {
            self.fire_timers()?;
        }
        self.call_hooks().map(|()| Step::Done)
    }

    /// Performs a planned event that is due.
    fn perform(&mut self, scripted: Scripted) -> Result<(), SimError> {
        let at = self.moment();
        match scripted {
            Scripted::Action(action) => {
                self.act(action)?;
                self.drive(0, Side::Client)?;
                self.drive(0, Side::Server)
            }
            Scripted::Begin(flow) => {
                self.flows[flow].begin(at)?;
                self.drive(flow, Side::Client)
            }
            Scripted::End(flow) => match self.flows[flow].end(at) {
                Some(side) => self.drive(flow, side),
                None => Ok(()),
            },
        }
    }

    /// Lets one link work, and delivers the packets that leave it.
    fn work(&mut self) -> Result<(), SimError> {
        let at = self.moment();
        self.receivers.clear();
        self.fabric.work(self.now, &mut self.arrived);
        if let Some(recorder) = &mut self.meters.recorder {
            recorder.look_at_queues(self.now, &self.fabric);
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        for datagram in arrived.drain(..) {
            let (flow, side) = (datagram.flow, datagram.to);
            if !self.receivers.contains(&(flow, side)) {
                self.receivers.push((flow, side));
            }
            self.flows[flow].peers[index(side)].receive(at, datagram, &mut self.fabric);
            // Before the peer answers: acknowledged data is not in flight any more, and no new data
            // is yet.
            self.record(flow, side);
        }
        self.arrived = arrived;
        // A peer answers all datagrams of the same instant together.
        for place in 0..self.receivers.len() {
            let (flow, side) = self.receivers[place];
            self.drive(flow, side)?;
        }
        Ok(())
    }

    fn fire_timers(&mut self) -> Result<(), SimError> {
        let at = self.moment();
        for flow in 0..self.flows.len() {
            for side in [Side::Client, Side::Server] {
                let peer = &mut self.flows[flow].peers[index(side)];
                if peer.next_time().is_some_and(|time| time <= self.now) {
                    peer.handle_timeouts(at, &mut self.fabric)?;
                    self.drive(flow, side)?;
                }
            }
        }
        Ok(())
    }

    fn drive(&mut self, flow: usize, side: Side) -> Result<(), SimError> {
        let at = self.moment();
        self.flows[flow].peers[index(side)].drive(at, self.origin, &mut self.fabric)?;
        self.record(flow, side);
        Ok(())
    }

    /// Lets the time line sample what may have changed.
    fn record(&mut self, flow: usize, side: Side) {
        let Some(recorder) = &mut self.meters.recorder else {
            return;
        };
        let connection = self.flows[flow].peers[index(side)].connection();
        if let (0, Some(connection)) = (flow, connection) {
            recorder.look_at_peer(self.now, side, connection, &self.fabric);
        }
        recorder.look_at_queues(self.now, &self.fabric);
    }

    fn call_hooks(&mut self) -> Result<(), SimError> {
        let peers = &self.flows[0].peers;
        let [client, server] = peers.each_ref().map(Peer::connection);
        if let (Some(meter), Some(server)) = (&mut self.meters.lost_time, server) {
            let requested = peers[index(Side::Server)].ledger.delivered > 0;
            meter.look(self.now, requested, server, &self.fabric);
        }
        let view = StepView {
            now: self.now,
            client,
            server,
            timers: peers.each_ref().map(|peer| peer.timer),
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

    /// Bytes that the applications under test have read.
    fn delivered(&self) -> u64 {
        let peers = self.flows[0].peers.iter();
        peers.map(|peer| peer.ledger.delivered).sum()
    }

    /// A peer of the connection under test.
    fn peer(&self, side: Side) -> &Peer {
        &self.flows[0].peers[index(side)]
    }

    fn peer_mut(&mut self, side: Side) -> &mut Peer {
        &mut self.flows[0].peers[index(side)]
    }
}
