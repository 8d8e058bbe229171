//! The sender: which packet goes where, what is sent again, what is repaired ahead of loss, and what is too late.

mod capacity;
mod datagram;
mod flow;
mod habit;
mod path;
mod rates;
mod repair;
mod replay;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use datagram::{Cause, Count, Fate, SenderStats, Transmit};
use datagram::{Due, Held, Item, Sent};
pub use flow::{Flow, FrameInfo, SendError};
use flow::{MAX_COPIES, Outbound, Place};
use path::{PROBE, Path, Standing};
pub use path::{PathId, PathView};
pub use rates::{Learned, NotLearned, RATES, Repair};
use repair::WIDE;

use crate::rlc::MAX_SYMBOL;
use crate::wire::{Packet, REPAIR_EXCESS};

/// How many datagrams are followed: of those before, fates are not heard any more.
const FOLLOWED: usize = 8_192;

/// How many copies wait for room.
const WAITING: usize = 1_024;

/// How many repair packets wait for room.
const MAX_DUE: f64 = 4.0;

/// For how long repair waits to hear over which path its frame went, so that it takes another. Ours: a transport that has room sends
/// within its turn.
const HOLD: Duration = Duration::from_millis(10);

/// How many repair packets wait so.
const HELD: usize = 1_024;

/// For how long after the last frame silent paths are probed.
const PROBED: Duration = Duration::from_secs(2);

/// What a sender is set up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The longest datagram, in bytes. Default: 1,200; from 128 to 2,000, anything else counts as the nearest.
    pub max_datagram: usize,
    /// For what is drawn: nothing but [`Repair::Hedge`].
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_datagram: 1_200,
            seed: 0,
        }
    }
}

/// What frames go in, datagrams come out of, and their fates go in again. It reads no clock and does no I/O: times are arguments.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use mpquic_live::{Config, Fate, Flow, FrameInfo, PathId, PathView, Sender};
///
/// let now = Instant::now();
/// let mut live = Sender::new(Config::default(), now);
/// let rtt = Duration::from_millis(40);
/// let path = PathView { id: PathId(0), rtt, rttvar: rtt / 8, room: 12_000, rate: 1_000_000, backup: false };
/// live.set_paths(&[path, PathView { id: PathId(1), ..path }]);
///
/// let camera = live.flow(now, Flow::new(Duration::from_millis(200)).worth(0.02));
/// live.send(now, camera, &[7; 3_000], FrameInfo { key: true })?;
/// let mut datagram = Vec::new();
/// while let Some(transmit) = live.poll_transmit(now, &mut datagram) {
///     // Hand it to the transport with its tag and deadline; then tell what became of it.
///     assert_eq!(transmit.path, None);
///     live.fate(transmit.tag, Fate::Sent { path: PathId(0), at: now });
/// }
/// assert_eq!(live.stats().source.packets, 3);
/// assert_eq!(live.target_rate(now, camera), Some(1_800_000)); // 90 % of what the paths can carry
/// # Ok::<(), mpquic_live::SendError>(())
/// ```
#[derive(Debug)]
pub struct Sender {
    config: Config,
    begin: Instant,
    paths: Vec<Path>,
    flows: Vec<Outbound>,
    /// The tag of the first of `sent`.
    first_tag: u64,
    sent: VecDeque<Sent>,
    /// What is sent before all else: copies, hedges, probes.
    urgent: VecDeque<Item>,
    queue: VecDeque<Item>,
    /// Copies that wait for room.
    waiting: VecDeque<Due>,
    /// Repair packets that wait for their frame to leave.
    held: VecDeque<Held>,
    /// Parts that the transport had not sent when it was last asked, with the time when it was given them.
    unsent: VecDeque<(u64, Instant)>,
    /// It is told when datagrams leave.
    hears_sent: bool,
    last_frame: Option<Instant>,
    stats: SenderStats,
}

impl Sender {
    /// A sender without flows and paths, that begins now.
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            config: Config {
                max_datagram: config.max_datagram.clamp(128, 2_000),
                ..config
            },
            begin: now,
            paths: Vec::with_capacity(8),
            flows: Vec::new(),
            first_tag: 0,
            sent: VecDeque::with_capacity(FOLLOWED),
            urgent: VecDeque::with_capacity(256),
            queue: VecDeque::with_capacity(1_024),
            waiting: VecDeque::with_capacity(WAITING),
            held: VecDeque::with_capacity(HELD),
            unsent: VecDeque::with_capacity(1_024),
            hears_sent: false,
            last_frame: None,
            stats: SenderStats::default(),
        }
    }

    /// Begins a flow. Returns its number.
    pub fn flow(&mut self, now: Instant, flow: Flow) -> u32 {
        let id = self.flows.len() as u32;
        self.flows.push(Outbound::new(
            id,
            flow,
            now,
            self.config.seed ^ u64::from(id),
        ));
        id
    }

    /// Says which paths are open and how they are. To be called before [`poll_transmit`](Self::poll_transmit) whenever this may have
    /// changed: `room` counts what it has handed out since.
    pub fn set_paths(&mut self, views: &[PathView]) {
        self.paths
            .retain(|path| views.iter().any(|view| view.id == path.view.id));
        for view in views {
            match self.paths.iter_mut().find(|path| path.view.id == view.id) {
                Some(path) => {
                    path.view = *view;
                    path.given = 0;
                }
                None => self.paths.push(Path::new(*view)),
            }
        }
    }

    /// Takes a frame. Never waits: what cannot be sent in time is dropped later, and counted. Returns its number.
    ///
    /// # Errors
    ///
    /// If there is no such flow, or the frame is too long.
    pub fn send(
        &mut self,
        now: Instant,
        flow: u32,
        frame: &[u8],
        info: FrameInfo,
    ) -> Result<u64, SendError> {
        // Before it is asked what repair it leaves room for.
        if let Some(to) = self.flows.get_mut(flow as usize) {
            to.frames_meter.add(now, frame.len());
        }
        let cap = self.cap(now);
        let situation = self.situation(flow);
        let way = self.shortest_way();
        let behind = self.is_behind(now, flow);
        let Some(to) = self.flows.get_mut(flow as usize) else {
            return Err(SendError::NoFlow(flow));
        };
        // Where less leaves than comes, parts of all frames would be too late, and no frame whole: then some of them go, and others do not.
        let late = behind && !info.key;
        let due = to.due;
        let place = Place {
            sent: now.saturating_duration_since(self.begin).as_millis() as u64,
            budget: to.flow.deadline.saturating_sub(way).as_millis() as u32,
            // So that a repair packet, which is a little longer, fits too.
            body: (self.config.max_datagram - REPAIR_EXCESS - 1 - 5 - 4).min(MAX_SYMBOL - 2),
            cap,
            situation,
        };
        let first = to.encoder.next();
        let (id, parts) = to.push(now, frame, info, &place, &mut self.stats.dropped)?;
        for symbol in first..first + u64::from(parts) {
            if late && let Some(packet) = to.packet(symbol) {
                packet.dropped = true;
            } else {
                self.queue.push_back(Item::Source { flow, symbol });
            }
        }
        if late {
            to.due = due;
            self.stats.dropped += u64::from(parts);
        }
        let last = first + u64::from(parts) - 1;
        while to.due >= 1.0 {
            to.due -= 1.0;
            if self.hears_sent && self.held.len() < HELD {
                self.held.push_back(Held {
                    flow,
                    last,
                    until: now + HOLD,
                    repairs: true,
                });
            } else {
                self.queue.push_back(Item::Repair { flow, last });
            }
        }
        if self.hears_sent && !late && parts >= WIDE && self.held.len() < HELD {
            self.held.push_back(Held {
                flow,
                last,
                until: now + HOLD,
                repairs: false,
            });
        }
        self.stats.frames += 1;
        self.last_frame = Some(now);
        Ok(id)
    }

    /// Something happened to a datagram. Unknown tags are ignored.
    pub fn fate(&mut self, tag: u64, fate: Fate) {
        let Some(place) = tag.checked_sub(self.first_tag) else {
            return;
        };
        let Some(sent) = self.sent.get_mut(place as usize) else {
            return;
        };
        let (part, flow) = (sent.part, sent.flow);
        let was_live = sent.live;
        let was_settled = sent.settled;
        let len = u64::from(sent.len);
        sent.waits = false;
        if !matches!(fate, Fate::Sent { .. }) {
            (sent.live, sent.settled) = (false, true);
        }
        if let Fate::Acknowledged { path, .. } | Fate::Lost { path, .. } = fate
            && !was_settled
            && let Some(path) = self.paths.iter_mut().find(|open| open.view.id == path)
        {
            path.flying = path.flying.saturating_sub(len);
        }
        let to = flow.and_then(|flow| self.flows.get_mut(flow as usize));
        match fate {
            Fate::Sent { path: id, at } => {
                self.hears_sent = true;
                if let Some(path) = self.paths.iter_mut().find(|path| path.view.id == id) {
                    path.sent(tag, at, part.is_some());
                    path.flying += len;
                }
                if let (Some(to), Some((_, symbol))) = (to, part) {
                    to.went_over(symbol, id);
                }
            }
            Fate::Acknowledged { path: id, sent, at } => {
                let path = self.paths.iter_mut().find(|path| path.view.id == id);
                let way = path.map_or(Duration::ZERO, |path| {
                    path.acknowledged(sent, at);
                    path.one_way()
                });
                let Some(to) = to else { return };
                if !was_settled {
                    to.count(true);
                }
                if let Some(packet) = part.and_then(|(_, symbol)| to.packet(symbol)) {
                    packet.live = packet.live.saturating_sub(u8::from(was_live));
                    // What left since is no earlier there.
                    let arrival = at
                        .checked_sub(way)
                        .map_or(sent, |arrival| arrival.max(sent));
                    packet.arrival = Some(
                        packet
                            .arrival
                            .map_or(arrival, |earlier| earlier.min(arrival)),
                    );
                }
            }
            Fate::Lost { path, at } => {
                let Some(to) = to else { return };
                if !was_settled {
                    to.count(false);
                }
                if let Some((flow, symbol)) = part {
                    self.gone(at, flow, symbol, Some(path), was_live, true);
                }
            }
            Fate::Unsent { at } => {
                if let Some((flow, symbol)) = part {
                    self.gone(at, flow, symbol, None, was_live, true);
                }
            }
        }
    }

    /// What to send next, in `datagram`, which is emptied before; `None` if nothing. To be asked after all that was told, and when
    /// [`poll_timeout`](Self::poll_timeout) says.
    pub fn poll_transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<Transmit> {
        self.advance(now);
        datagram.clear();
        while let Some(item) = self.urgent.pop_front().or_else(|| self.queue.pop_front()) {
            let transmit = match item {
                Item::Source { flow, symbol } => self.source(now, flow, symbol, datagram),
                Item::Again {
                    flow,
                    symbol,
                    path,
                    cause,
                } => self.again(now, flow, symbol, path, cause, datagram),
                Item::Repair { flow, last } => self.repair(now, flow, last, datagram),
                Item::Probe(path) => {
                    Packet::Probe.write(datagram);
                    self.stats.probes.add(datagram.len());
                    let kind = Sent::beside(None);
                    Some(self.transmit(
                        now,
                        Some(path),
                        now + PROBE,
                        Cause::Probe,
                        kind,
                        datagram.len(),
                    ))
                }
            };
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// When to ask [`poll_transmit`](Self::poll_transmit) again, even if nothing happens until then.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let round_trip = self.longest_round_trip();
        let judged = self
            .flows
            .iter()
            .filter_map(|flow| flow.judged_at(round_trip));
        let probing = self.last_frame.is_some_and(|last| now < last + PROBED);
        let paths = self.paths.iter().flat_map(|path| {
            let overdue = path
                .watched
                .front()
                .map(|(_, at)| *at + path.overdue_after(now));
            let probe = match path.next_probe {
                Some(at) => Some(at),
                None => path.dark_at(),
            };
            [
                overdue,
                path.suspect_at().filter(|at| *at > now),
                probe.filter(|_| probing),
            ]
        });
        let held = self.held.front().map(|held| held.until);
        judged.chain(paths.flatten()).chain(held).min()
    }

    /// What it has done.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// The rate of repair of a flow's last frame: repair packets for each source packet.
    pub fn repair_rate(&self, flow: u32) -> Option<f64> {
        self.flows.get(flow as usize).map(|flow| flow.rate)
    }

    /// What a flow has learned, to be kept for the next one over the same paths; `None` if it does not learn by replay.
    pub fn learned(&self, flow: u32) -> Option<Learned> {
        self.flows.get(flow as usize)?.rates.learned()
    }

    /// Lets a flow go on from what an earlier one has learned; does nothing if it does not learn by replay. It counts for 30 frames
    /// at most, so that it yields if it is not true any more: upwards within a second, downwards within a minute, as bytes are cheap.
    pub fn go_on_from(&mut self, flow: u32, learned: &Learned) {
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.rates.go_on_from(learned);
        }
    }

    /// What became due by the passing of time.
    fn advance(&mut self, now: Instant) {
        for place in 0..self.paths.len() {
            let path = &mut self.paths[place];
            let (id, after) = (path.view.id, path.overdue_after(now));
            while let Some((tag, at)) = self.paths[place].watched.front().copied() {
                let sent = tag
                    .checked_sub(self.first_tag)
                    .and_then(|place| self.sent.get_mut(place as usize));
                let late = at + after <= now;
                let settled = sent.as_ref().is_none_or(|sent| sent.settled);
                if !late && !settled {
                    break;
                }
                self.paths[place].watched.pop_front();
                if let Some(sent) = sent.filter(|_| !settled) {
                    let (was_live, part) = (std::mem::take(&mut sent.live), sent.part);
                    if let Some((flow, symbol)) = part {
                        self.gone(now, flow, symbol, Some(id), was_live, false);
                    }
                }
            }
            let probing = self.last_frame.is_some_and(|last| now < last + PROBED);
            let path = &mut self.paths[place];
            if path.standing(now) != Standing::Dark || !probing {
                path.next_probe = None;
            } else if path.next_probe.is_none_or(|at| at <= now) {
                path.next_probe = Some(now + PROBE);
                self.urgent.push_back(Item::Probe(id));
            }
        }
        while let Some(due) = self.waiting.front().copied() {
            if !self.copy(now, due) {
                break;
            }
            self.waiting.pop_front();
        }
        self.release(now);
        let round_trip = self.longest_round_trip();
        let way = self.shortest_way();
        for flow in &mut self.flows {
            self.stats.dropped += flow.judge(now, round_trip, way);
        }
    }

    /// A packet on its way is not to be counted on any more: it is overdue, lost or was dropped. Sends a copy if that is of use.
    fn gone(
        &mut self,
        now: Instant,
        flow: u32,
        symbol: u64,
        from: Option<PathId>,
        was_live: bool,
        lost: bool,
    ) {
        let Some(packet) = self
            .flows
            .get_mut(flow as usize)
            .and_then(|flow| flow.packet(symbol))
        else {
            return;
        };
        packet.live = packet.live.saturating_sub(u8::from(was_live));
        let due = Due {
            flow,
            symbol,
            from,
            lost,
        };
        if self.copy(now, due) {
            return;
        }
        if self.waiting.len() < WAITING {
            self.waiting.push_back(due);
        } else {
            self.stats.copies_skipped += 1;
        }
    }

    /// Sends a copy if that is of use. Returns whether there is nothing left to do: it is to be asked again once there is room.
    fn copy(&mut self, now: Instant, due: Due) -> bool {
        let Due {
            flow,
            symbol,
            from,
            lost,
        } = due;
        let Some(packet) = self
            .flows
            .get_mut(flow as usize)
            .and_then(|flow| flow.packet(symbol))
        else {
            return true;
        };
        if !packet.wants()
            || packet.live > 0
            || packet.copies >= MAX_COPIES
            || now >= packet.deadline
        {
            return true;
        }
        let deadline = packet.deadline;
        let len = self.config.max_datagram;
        // On the path that lost it, once it is known to be lost: it answers.
        let other = |path: &Path| Some(path.view.id) != from;
        let in_time = |path: &Path| path.arrival(now) <= deadline;
        let best = |room: bool, other_path: bool| {
            self.best(now, |path| {
                (!room || path.has_room(len))
                    && in_time(path)
                    && (other(path) == other_path)
                    && (other_path || lost)
            })
        };
        let Some(path) = best(true, true).or_else(|| best(true, false)) else {
            // A key frame may be larger than the window of a path that has carried little so far.
            if best(false, true).or_else(|| best(false, false)).is_some() {
                return false;
            }
            self.stats.copies_skipped += 1;
            return true;
        };
        if let Some(packet) = self.flows[flow as usize].packet(symbol) {
            packet.copies += 1;
            packet.live += 1;
        }
        self.urgent.push_back(Item::Again {
            flow,
            symbol,
            path,
            cause: Cause::Copy,
        });
        true
    }

    /// How long a packet takes on the fastest path at least.
    fn shortest_way(&self) -> Duration {
        let ways = self.paths.iter().map(Path::one_way);
        ways.min().unwrap_or_default()
    }

    /// Of the paths that are well and not for backup, the one with the earliest arrival among those that will do; of those for backup if
    /// no other is well.
    fn best(&self, now: Instant, mut will_do: impl FnMut(&Path) -> bool) -> Option<PathId> {
        let well = |path: &&Path| path.standing(now) == Standing::Well;
        let backup = !self
            .paths
            .iter()
            .any(|path| well(&path) && !path.view.backup);
        self.paths
            .iter()
            .filter(|path| well(path) && path.view.backup == backup && will_do(path))
            .min_by_key(|path| path.arrival(now))
            .map(|path| path.view.id)
    }

    fn source(
        &mut self,
        now: Instant,
        flow: u32,
        symbol: u64,
        datagram: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let way = self.shortest_way();
        let silent = self
            .paths
            .iter()
            .any(|path| path.standing(now) != Standing::Well);
        let deadline = self.flows[flow as usize].packet(symbol)?.deadline;
        let path = if silent {
            self.best(now, |_| true)
        } else {
            self.spill(now, deadline)
        };
        let to = &mut self.flows[flow as usize];
        let packet = to.packet(symbol)?;
        if now + way > deadline {
            packet.dropped = true;
            self.stats.dropped += 1;
            return None;
        }
        to.left(symbol, now);
        if silent && path.is_some() {
            let suspect = self
                .paths
                .iter()
                .filter(|path| path.standing(now) == Standing::Suspect);
            for suspect in suspect {
                let path = suspect.view.id;
                if let Some(packet) = to.packet(symbol) {
                    packet.live += 1;
                }
                self.urgent.push_back(Item::Again {
                    flow,
                    symbol,
                    path,
                    cause: Cause::Hedge,
                });
            }
        }
        Packet::Source {
            flow,
            symbol: symbol as u32,
            body: to.encoder.content(symbol)?,
        }
        .write(datagram);
        self.stats.source.add(datagram.len());
        let kind = Sent::of_frame(flow, symbol);
        Some(self.transmit(
            now,
            path,
            deadline - way,
            Cause::Source,
            kind,
            datagram.len(),
        ))
    }

    fn again(
        &mut self,
        now: Instant,
        flow: u32,
        symbol: u64,
        path: PathId,
        cause: Cause,
        datagram: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let way = self
            .paths
            .iter()
            .find(|open| open.view.id == path)
            .map(Path::one_way);
        let to = &mut self.flows[flow as usize];
        let packet = to.packet(symbol)?;
        let deadline = packet.deadline;
        let Some(way) = way.filter(|way| packet.wants() && now + *way <= deadline) else {
            packet.live = packet.live.saturating_sub(1);
            return None;
        };
        Packet::Source {
            flow,
            symbol: symbol as u32,
            body: to.encoder.content(symbol)?,
        }
        .write(datagram);
        to.extra_meter.add(now, datagram.len());
        match cause {
            Cause::Hedge => self.stats.hedge.add(datagram.len()),
            _ => self.stats.copies.add(datagram.len()),
        }
        let kind = Sent::of_frame(flow, symbol);
        Some(self.transmit(now, Some(path), deadline - way, cause, kind, datagram.len()))
    }

    fn transmit(
        &mut self,
        now: Instant,
        path: Option<PathId>,
        deadline: Instant,
        cause: Cause,
        kind: Sent,
        len: usize,
    ) -> Transmit {
        // What the transport's scheduler places goes there, most likely.
        let likely = path.or_else(|| self.best(now, |_| true));
        if let Some(path) = self
            .paths
            .iter_mut()
            .find(|open| Some(open.view.id) == likely)
        {
            path.given += len as u64;
        }
        if self.sent.len() == FOLLOWED {
            self.sent.pop_front();
            self.first_tag += 1;
        }
        if self.unsent.len() == FOLLOWED {
            self.unsent.pop_front();
        }
        self.sent.push_back(Sent {
            len: u16::try_from(len).unwrap_or(u16::MAX),
            ..kind
        });
        let tag = self.first_tag + self.sent.len() as u64 - 1;
        if cause == Cause::Source {
            self.unsent.push_back((tag, now));
        }
        Transmit {
            path,
            tag,
            deadline,
            cause,
        }
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod copies_tests;
