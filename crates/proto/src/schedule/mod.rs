//! Shows the connection's scheduler the paths and the queue, asks it, and remembers what it said.

mod purse;
mod reinject;
mod tail;
mod wait;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::{
    Acked, Context, CopyCause, Data, Decision, Learned, Lost, MAX_PATHS, MinRtt, PathIndex,
    PathKey, PathSet, PathUpdate, PathUpdateKind, PathView, QueueView, Scheduler, Sent,
    StreamUpdate, StreamView,
};
use smallvec::SmallVec;

pub(crate) use purse::{Copying, Purse};
pub(crate) use reinject::Candidate;
pub(crate) use tail::TailCopy;

use crate::path::{PathFacts, Paths};
use crate::recovery::earlier;
use crate::sent_frame::StreamRange;
use crate::stream::Streams;
use crate::{Choice, Decided, TransportConfig};
use reinject::ReinjectCursors;
use tail::TailCopies;
use wait::WaitClock;

/// Reinjections that wait for their path at most; more are dropped, they are only copies.
const MAX_PENDING_REINJECTIONS: usize = 4 * MAX_PATHS;

/// A decision to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: PathIndex,
    pub(crate) data: Data,
    pub(crate) copies: PathSet,
    pub(crate) number: u64,
    /// What its copies are for, if it asks for some.
    pub(crate) copying: Copying,
}

/// Stream data to be sent on one more path.
#[derive(Debug)]
pub(crate) struct Reinjection {
    pub(crate) path: PathIndex,
    /// The path and number of the packet that carried it first.
    pub(crate) source: PathIndex,
    pub(crate) packet: u64,
    pub(crate) ranges: SmallVec<[StreamRange; 2]>,
    pub(crate) decision: u64,
    pub(crate) copying: Copying,
}

/// The scheduler, what it sees, and what it decided.
pub(crate) struct Schedule {
    scheduler: Box<dyn Scheduler>,
    /// By slot, as many as were ever shown.
    views: Vec<PathView>,
    /// One past the highest slot in use.
    used: usize,
    queue: QueueView,
    /// Whether the scheduler looks at streams one by one.
    wants_streams: bool,
    /// For schedulers that want them; else empty.
    streams: Vec<StreamView>,
    cursors: ReinjectCursors,
    reinjections: VecDeque<Reinjection>,
    tail: TailCopies,
    pub(crate) purse: Purse,
    next_number: u64,
    /// A decision made and not yet carried out, since the batch before it was of another path.
    planned: Option<Planned>,
    /// For how many further packets of this batch the last decision stands.
    run: u32,
    /// When the scheduler wants to be asked again at the latest.
    wait_until: Option<Instant>,
    /// Since when it waits although a path could send and nothing is in flight.
    idle_wait_since: Option<Instant>,
    override_now: bool,
    /// When it was last woken at its own wish.
    woken: Option<Instant>,
    /// What it did that no scheduler may do.
    fault: Option<String>,
    /// Paths that had nothing of what the scheduler asked for: their views say that they cannot
    /// send, until these are brought up to date.
    exhausted: PathSet,
    /// What was sent last was asked for because nobody has acknowledged it, not because it waits.
    copying: bool,
    waits: u64,
    overridden: u64,
    wait_clock: WaitClock,
    /// What the scheduler had learned when the connection was over, if it learned.
    last_learned: Option<Learned>,
    ended: bool,
    /// Somebody wants to know what the scheduler says, and why.
    watched: bool,
    /// What it said last, until it is told.
    answer: Option<Answer>,
}

/// What the scheduler answered, for an observer.
#[derive(Debug, Clone, Copy)]
struct Answer {
    number: u64,
    decision: Decision,
    why: Option<&'static str>,
    /// Of the path that is sent on instead, since a wait has lasted too long.
    instead: Option<PathIndex>,
}

impl Schedule {
    pub(crate) fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self {
            scheduler,
            views: Vec::new(),
            used: 0,
            queue: QueueView::default(),
            wants_streams: false,
            streams: Vec::new(),
            cursors: ReinjectCursors::default(),
            reinjections: VecDeque::new(),
            tail: TailCopies::default(),
            purse: Purse::new(TransportConfig::default().copy_budget),
            next_number: 0,
            planned: None,
            run: 0,
            wait_until: None,
            idle_wait_since: None,
            override_now: false,
            woken: None,
            fault: None,
            exhausted: PathSet::EMPTY,
            copying: false,
            waits: 0,
            overridden: 0,
            wait_clock: WaitClock::default(),
            last_learned: None,
            ended: false,
            watched: false,
            answer: None,
        }
    }

    /// The view of a slot, made if there was none.
    fn view_mut(&mut self, path: PathIndex) -> &mut PathView {
        let known = self.views.len();
        if known <= path.get() {
            self.views.reserve_exact(path.get() + 1 - known);
            let new = (known..=path.get()).filter_map(PathIndex::new);
            self.views.extend(new.map(PathView::closed));
        }
        &mut self.views[path.get()]
    }

    /// Whether what the scheduler says is kept for [`take_decided`](Self::take_decided).
    pub(crate) fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// What the scheduler said since the last call, if it is watched and was asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_decided(&mut self, now: Instant, paths: &Paths) -> Option<Decided> {
        let answer = self.answer.take()?;
        let id = |index| paths.at(index).map(|path| path.id);
        let choice = match (answer.instead, answer.decision) {
            (Some(index), _) => Choice::Overridden { path: id(index)? },
            (None, Decision::Send { path, data, copies }) => Choice::Send {
                path: id(path)?,
                data,
                copies: copies.len(),
            },
            (None, Decision::Wait { until }) => Choice::Wait {
                at_most: until.map(|until| until.saturating_duration_since(now)),
            },
        };
        Some(Decided {
            number: answer.number,
            choice,
            why: answer.why,
        })
    }

    /// Slots up to the highest one in use; schedulers need not look at the rest.
    fn visible(views: &[PathView], used: usize) -> &[PathView] {
        &views[..used.min(views.len())]
    }

    /// Brings the views of all paths up to date: those with room are offered to the scheduler again.
    pub(crate) fn refresh(&mut self, now: Instant, paths: &mut Paths) {
        self.wants_streams = self.scheduler.wants_streams();
        self.exhausted = PathSet::EMPTY;
        self.used = paths.used();
        paths.for_each_view(|path, controller, facts| {
            let view = self.view_mut(path.index);
            path.fill_view(view, controller, facts, now);
        });
    }

    /// Brings the view of one usable path up to date.
    pub(crate) fn refresh_path(&mut self, now: Instant, paths: &mut Paths, index: PathIndex) {
        let max_ack_delay = paths.peer_max_ack_delay();
        if let Some((path, controller)) = paths.with_controller(index) {
            let facts = PathFacts {
                usable: path.may_carry_data(),
                max_ack_delay,
            };
            path.fill_view(self.view_mut(index), controller, facts, now);
        }
    }

    /// Brings the view of a path up to date that has sent a packet since it was up to date.
    pub(crate) fn refresh_sender(&mut self, now: Instant, paths: &mut Paths, index: PathIndex) {
        if let Some(view) = self.views.get_mut(index.get())
            && let Some((path, controller)) = paths.with_controller(index)
        {
            path.fill_view_after_sending(view, controller, now);
        }
    }

    /// Tells the scheduler what the streams noted.
    pub(crate) fn on_streams(&mut self, streams: &mut Streams) {
        while let Some(event) = streams.poll_sched_event() {
            self.on_stream(&event);
        }
    }

    /// Tells the streams which paths carry what is to be sent again.
    #[cold]
    #[inline(never)]
    fn tell_usable(&self, streams: &mut Streams) {
        let waits = streams.queue().retransmittable;
        streams.set_usable(self.usable(), self.late(waits));
    }

    /// Brings the view of the queue up to date: O(1) but for the streams one by one, if the scheduler wants them.
    /// `control`: whether control frames or datagrams wait.
    pub(crate) fn refresh_queue(&mut self, streams: &mut Streams, control: bool, paths: &Paths) {
        if streams.queue().retransmittable > 0 {
            self.tell_usable(streams);
        }
        let counters = streams.queue();
        let queue = &mut self.queue;
        queue.unsent = counters.unsent;
        queue.retransmittable = counters.retransmittable;
        queue.window_left = counters.window_left;
        queue.flow_control_window = counters.credit;
        queue.blocked_by = if counters.blocked {
            paths.oldest_scheduled_in_flight()
        } else {
            None
        };
        queue.out_of_order = counters.out_of_order;
        queue.in_flight = counters.in_flight;
        queue.control = control;
        queue.purse = self.purse.left();
        queue.head = streams.head();
        if self.wants_streams {
            streams.views(&mut self.streams);
        } else {
            self.streams.clear();
        }
    }

    /// The paths that data may be sent on and that are not in trouble, when their views were last brought up to date.
    pub(crate) fn usable(&self) -> PathSet {
        let views = Self::visible(&self.views, self.used).iter();
        let usable = views.filter(|view| view.open && !view.suspect);
        usable.map(|view| view.index).collect()
    }

    /// The paths on which lost data would arrive later than on a faster one that has no room just now, of which so many bytes
    /// wait. A path without room has something in flight: room comes with the next acknowledgement, or the path falls suspect.
    /// What it takes more than that for is better off on a path that has room.
    pub(crate) fn late(&self, waits: u64) -> PathSet {
        let views = Self::visible(&self.views, self.used).iter();
        let full = |view: &&PathView| {
            let busy = !view.can_send && !self.exhausted.contains(view.index);
            busy && view.open && !view.suspect && !view.smoothed_rtt.is_zero()
        };
        let arrivals = views.clone().filter(full);
        let arrivals = arrivals.map(|view| (arrival_on_full(view, waits), view.index));
        let Some((soonest, first)) = arrivals.min_by_key(|(arrival, _)| *arrival) else {
            return PathSet::EMPTY;
        };
        let late = views.filter(|view| {
            // The newest sample tells first that the queue of a path grows.
            let rtt = view.smoothed_rtt.max(view.latest_rtt);
            let known = view.open && !view.smoothed_rtt.is_zero();
            known && view.index != first && rtt / 2 > soonest
        });
        late.map(|view| view.index).collect()
    }

    /// Whether control frames or datagrams waited when the view of the queue was last brought up to date.
    pub(crate) fn control_waits(&self) -> bool {
        self.queue.control
    }

    /// Whether a path had room when its view was last brought up to date.
    pub(crate) fn can_send(&self, path: PathIndex) -> bool {
        self.view(path).is_some_and(|view| view.can_send)
    }

    /// When the pacer lets a path send, if only that keeps it from it; of when its view was last brought up to date.
    pub(crate) fn release_of(&self, path: PathIndex) -> Option<Instant> {
        self.view(path)
            .filter(|view| view.open)
            .and_then(|view| view.next_release)
    }

    fn view(&self, path: PathIndex) -> Option<&PathView> {
        self.views.get(path.get())
    }

    /// The name of the network path that the scheduler was last told for a path.
    pub(crate) fn key(&self, path: PathIndex) -> Option<PathKey> {
        self.view(path)?.key
    }

    /// What to send next. `nothing_in_flight` arms the override of endless waits.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        nothing_in_flight: &dyn Fn() -> bool,
    ) -> Option<Planned> {
        self.run = 0;
        if self.planned.is_some()
            && let Some(planned) = self.take_kept(now)
        {
            return Some(planned);
        }
        let views = Self::visible(&self.views, self.used);
        if !views.iter().any(|view| view.can_send) {
            // Nothing is left to the scheduler.
            self.wait_clock.stop(now);
            return None;
        }
        let cx =
            Context::new(now, views, &self.queue, self.next_number).with_streams(&self.streams);
        let decision = self.scheduler.decide(&cx);
        let number = self.next_number;
        self.next_number += 1;
        if self.watched {
            self.keep_answer(number, decision);
        }
        match decision {
            Decision::Send { path, data, copies } => {
                if path.get() < self.used && self.can_send(path) {
                    self.wait_until = None;
                    self.wait_clock.stop(now);
                    let doubtful = self.is_doubtful(path);
                    if doubtful && let Some(instead) = self.overdue(now, nothing_in_flight) {
                        return Some(instead);
                    }
                    let copying = if copies.is_empty() && !data.is_copy() {
                        Copying::Asked
                    } else {
                        self.copying_for()
                    };
                    let planned = Planned {
                        path,
                        data,
                        copies,
                        number,
                        copying,
                    };
                    self.tail.on_decision(now, &planned);
                    if !doubtful && !self.watched {
                        self.run = self.scheduler.run().saturating_sub(1);
                    }
                    return Some(planned);
                }
                self.blame(path);
                return None;
            }
            Decision::Wait { until } => self.wait_until = until.filter(|until| *until > now),
        }
        self.wait(now, nothing_in_flight)
    }

    /// What the scheduler's copies are for.
    #[cold]
    #[inline(never)]
    fn copying_for(&self) -> Copying {
        match self.scheduler.copies_for() {
            CopyCause::Deadline => Copying::Deadline,
            CopyCause::Probe => Copying::Probe,
            CopyCause::Least => Copying::Least,
            CopyCause::Late => Copying::Late,
            _ => Copying::Asked,
        }
    }

    /// Whether so many bytes that the scheduler asks for may be sent twice.
    pub(crate) fn may_copy(&self, bytes: u64) -> bool {
        bytes <= self.purse.left() || !self.scheduler.heeds_purse()
    }

    /// A packet left with so many bytes of copies.
    #[cold]
    pub(crate) fn on_copied(&mut self, bytes: u64) {
        let free = !self.scheduler.heeds_purse();
        self.purse.on_copied(bytes, free);
    }

    /// The scheduler has broken its contract.
    #[cold]
    #[inline(never)]
    fn blame(&mut self, path: PathIndex) {
        let what = match self.view(path).filter(|_| path.get() < self.used) {
            None => "does not exist",
            Some(view) if !view.open => "is not open",
            Some(_) => "has no room",
        };
        let name = self.scheduler.name();
        self.fault = Some(format!(
            "the scheduler {name} chose the path in slot {path}, which {what}"
        ));
        self.wait_until = None;
    }

    /// What the scheduler did that no scheduler may do: the connection cannot go on with it.
    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// What was decided for this batch when the one before was full, if its path can send still.
    #[cold]
    #[inline(never)]
    fn take_kept(&mut self, now: Instant) -> Option<Planned> {
        let planned = self.planned.take()?;
        if !self.can_send(planned.path) {
            return None;
        }
        self.wait_clock.stop(now);
        Some(planned)
    }

    #[cold]
    #[inline(never)]
    fn keep_answer(&mut self, number: u64, decision: Decision) {
        self.answer = Some(Answer {
            number,
            decision,
            why: self.scheduler.why(),
            instead: None,
        });
    }

    /// The same again, if the scheduler's last decision stands for another packet. `control`: whether control frames or
    /// datagrams wait.
    pub(crate) fn again(&mut self, planned: &Planned, control: bool) -> Option<Planned> {
        if self.run == 0 || !self.can_send(planned.path) {
            return None;
        }
        self.run -= 1;
        self.queue.control = control;
        let number = self.next_number;
        self.next_number += 1;
        Some(Planned { number, ..*planned })
    }

    /// There was nothing of the kind planned for this path: what else to send, on another one.
    pub(crate) fn instead(
        &mut self,
        now: Instant,
        planned: &Planned,
        nothing_in_flight: &dyn Fn() -> bool,
    ) -> Option<Planned> {
        if planned.data.is_copy() {
            self.copying = false;
        }
        self.view_mut(planned.path).can_send = false;
        self.exhausted.insert(planned.path);
        let views = Self::visible(&self.views, self.used);
        if views.iter().any(|view| view.can_send) {
            return self.next(now, nothing_in_flight);
        }
        self.wait(now, nothing_in_flight)
    }

    /// The scheduler waits, or asked for data of which there is none: to be asked again at the next
    /// event. What is sent in place of that, if it has gone on for too long.
    #[inline(never)]
    fn wait(&mut self, now: Instant, nothing_in_flight: &dyn Fn() -> bool) -> Option<Planned> {
        self.waits += 1;
        self.wait_clock.start(now);
        self.overdue(now, nothing_in_flight)
    }

    /// What is sent instead of what the scheduler wants, once nothing has got on for a PTO.
    #[inline(never)]
    fn overdue(&mut self, now: Instant, nothing_in_flight: &dyn Fn() -> bool) -> Option<Planned> {
        if !nothing_in_flight() {
            self.idle_wait_since = None;
            return None;
        }
        self.idle_wait_since.get_or_insert(now);
        if !std::mem::take(&mut self.override_now) {
            return None;
        }
        // Liveness is the transport's promise: the wait has lasted a PTO with nothing in flight.
        for path in std::mem::take(&mut self.exhausted).iter() {
            self.view_mut(path).can_send = true;
        }
        let views = Self::visible(&self.views, self.used);
        let cx = Context::new(now, views, &self.queue, self.next_number);
        let best = cx.sendable().min_by_key(|view| view.smoothed_rtt)?;
        self.overridden += 1;
        self.wait_until = None;
        self.wait_clock.stop(now);
        if let Some(answer) = &mut self.answer {
            answer.instead = Some(best.index);
        }
        Some(Planned {
            path: best.index,
            data: Data::Next,
            copies: PathSet::EMPTY,
            number: self.next_number - 1,
            copying: Copying::Asked,
        })
    }

    /// A decision was carried out.
    pub(crate) fn on_progress(&mut self, planned: &Planned) {
        self.copying = planned.data.is_copy();
        if !self.is_doubtful(planned.path) {
            self.idle_wait_since = None;
        }
    }

    /// Whether there may be more copies when there is nothing else: the scheduler's, or those of a tail.
    pub(crate) fn is_copying(&self) -> bool {
        self.copying || self.tail.paced
    }

    /// Whether a path is in trouble while another one is not: what a scheduler sends there all the
    /// same gets nothing on.
    fn is_doubtful(&self, path: PathIndex) -> bool {
        self.is_suspect(path) && self.is_any_well()
    }

    /// Whether a path is open and not in trouble.
    #[cold]
    #[inline(never)]
    fn is_any_well(&self) -> bool {
        let mut views = Self::visible(&self.views, self.used).iter();
        views.any(|view| view.open && !view.suspect)
    }

    /// Whether a path was in trouble when its view was last brought up to date.
    fn is_suspect(&self, path: PathIndex) -> bool {
        self.view(path).is_some_and(|view| view.suspect)
    }

    /// Keeps a decision for the next batch.
    pub(crate) fn keep(&mut self, planned: Planned) {
        self.planned = Some(planned);
    }

    /// A path ended; its slot will mean another one.
    pub(crate) fn forget_path(&mut self, path: PathIndex) {
        *self.view_mut(path) = PathView::closed(path);
        self.reinjections
            .retain(|copy| copy.path != path && copy.source != path);
        let reinjections = self.reinjections.iter_mut();
        for range in reinjections.flat_map(|copy| &mut copy.ranges) {
            range.carried.remove(path);
        }
    }

    /// A slot was given to a new path.
    pub(crate) fn on_new_path(&mut self, path: PathIndex) {
        self.cursors.reset(path);
        self.forget_tail(path);
    }

    /// A packet left as planned: its stream data goes on the further paths that were asked for too, as soon as they
    /// take it.
    pub(crate) fn plan_reinjections(
        &mut self,
        planned: &Planned,
        packet: u64,
        ranges: &[StreamRange],
    ) {
        let others = planned.copies.difference(PathSet::only(planned.path));
        for path in others.iter() {
            if self.can_send(path) && self.reinjections.len() < MAX_PENDING_REINJECTIONS {
                self.reinjections.push_back(Reinjection {
                    path,
                    source: planned.path,
                    packet,
                    ranges: SmallVec::from_slice(ranges),
                    decision: planned.number,
                    copying: planned.copying,
                });
            }
        }
    }

    /// Whether a reinjection waits.
    pub(crate) fn has_reinjections(&self) -> bool {
        !self.reinjections.is_empty()
    }

    /// The oldest reinjection that waits.
    pub(crate) fn next_reinjection(&mut self) -> Option<Reinjection> {
        self.reinjections.pop_front()
    }

    /// The oldest packet in flight on other paths with stream data that this path has not carried.
    pub(crate) fn oldest_not_carried(
        &mut self,
        paths: &Paths,
        target: PathIndex,
    ) -> Option<Candidate> {
        self.cursors.oldest(paths, target)
    }

    /// All of the packet's data is on this path now.
    pub(crate) fn on_carried(&mut self, target: PathIndex, candidate: &Candidate) {
        self.cursors.advance(target, candidate);
    }

    /// When to ask again although nothing happened: a pacer lets a path send, or a wait has lasted long enough.
    pub(crate) fn next_timeout(&self, pto: impl FnOnce() -> Duration) -> Option<Instant> {
        let mut next = earlier(self.wait_until, self.next_wakeup());
        if let Some(since) = self.idle_wait_since {
            next = earlier(next, Some(since + pto()));
        }
        for view in Self::visible(&self.views, self.used) {
            if view.open {
                next = earlier(next, view.next_release);
            }
        }
        next
    }

    /// There is nothing to send: a scheduler that has nothing to send does not wait.
    pub(crate) fn on_nothing_to_send(&mut self, now: Instant) {
        self.wait_clock.stop(now);
    }

    pub(crate) fn on_timeout(&mut self, now: Instant, pto: Duration) {
        if self.wait_until.is_some_and(|until| until <= now) {
            self.wait_until = None;
        }
        if self.idle_wait_since.is_some_and(|since| since + pto <= now) {
            self.override_now = true;
            self.idle_wait_since = None;
        }
        if self.next_wakeup().is_some_and(|at| at <= now) {
            self.woken = Some(now);
            let cx = Context::new(
                now,
                Self::visible(&self.views, self.used),
                &self.queue,
                self.next_number,
            )
            .with_streams(&self.streams);
            self.scheduler.on_wakeup(&cx);
        }
    }

    /// When the scheduler wants to be woken. What it was woken for already is no reason to ask without end.
    fn next_wakeup(&self) -> Option<Instant> {
        let wanted = self.scheduler.next_wakeup()?;
        self.woken
            .is_none_or(|woken| wanted > woken)
            .then_some(wanted)
    }

    /// Times that the scheduler answered "wait".
    pub(crate) fn waits(&self) -> u64 {
        self.waits
    }

    /// Waits that were overridden.
    pub(crate) fn overridden(&self) -> u64 {
        self.overridden
    }

    /// How long data waited that a path could have sent.
    pub(crate) fn wait_time(&self) -> Duration {
        self.wait_clock.total()
    }

    /// Times that the scheduler was asked.
    pub(crate) fn decisions(&self) -> u64 {
        self.next_number
    }

    pub(crate) fn learned(&self) -> Option<Learned> {
        match &self.last_learned {
            Some(learned) => Some(learned.clone()),
            None => {
                let mut learned = self.scheduler.learned()?;
                let open = self.views.iter().filter(|view| view.open);
                learned.paths = open.map(|view| (view.index, view.id)).collect();
                Some(learned)
            }
        }
    }

    /// The connection is over, and there is nothing left to schedule. The scheduler goes at once, so
    /// that what it leaves behind is there for the peer's next connection, which may well come
    /// while this one still drains.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.last_learned = self.learned();
            self.scheduler = Box::new(MinRtt::default());
            self.planned = None;
            self.wait_until = None;
        }
    }

    /// The same, and the scheduler, which has panicked, perhaps, is not called again, not even to be dropped.
    pub(crate) fn abandon(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            std::mem::forget(std::mem::replace(
                &mut self.scheduler,
                Box::new(MinRtt::default()),
            ));
            self.planned = None;
            self.wait_until = None;
        }
    }

    /// What the scheduler is called.
    pub(crate) fn name(&self) -> &'static str {
        self.scheduler.name()
    }

    /// Another scheduler takes the place of this one. What was decided and not carried out is decided anew.
    pub(crate) fn replace(&mut self, now: Instant, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.planned = None;
        self.wait_until = None;
        self.idle_wait_since = None;
        self.override_now = false;
        self.woken = None;
        self.copying = false;
        self.wait_clock.stop(now);
    }

    pub(crate) fn on_sent(&mut self, event: &Sent) {
        self.scheduler.on_sent(event);
    }

    pub(crate) fn on_acked(&mut self, event: &Acked) {
        self.scheduler.on_acked(event);
    }

    pub(crate) fn on_lost(&mut self, event: &Lost) {
        self.scheduler.on_lost(event);
    }

    pub(crate) fn on_path(&mut self, event: &PathUpdate) {
        self.planned = None;
        if event.kind != PathUpdateKind::Abandoned {
            self.view_mut(event.path).key = event.key;
        }
        self.scheduler.on_path(event);
    }

    /// Whether the scheduler is to be told of streams.
    pub(crate) fn follows_streams(&self) -> bool {
        self.scheduler.follows_streams()
    }

    pub(crate) fn on_stream(&mut self, event: &StreamUpdate) {
        self.scheduler.on_stream(event);
    }
}

/// Lost data takes no more round trips than this, as far as it is counted: no path is slower by so much.
const MOST_ROUNDS: f64 = 1000.0;

/// When the last of so many bytes of lost data would arrive on a path that has no room now. A window is acknowledged within an
/// RTT: what is in flight beyond it takes its share of that, and so does what waits. Acknowledgements may come no more often
/// than four times per RTT.
fn arrival_on_full(view: &PathView, waits: u64) -> Duration {
    let after = view.in_flight.saturating_add(view.mtu.into());
    let windows = |bytes: u64| bytes as f64 / view.cwnd.max(1) as f64;
    let excess = windows(after.saturating_sub(view.cwnd)).min(1.0);
    let rtt = view.smoothed_rtt;
    (rtt / 4 + rtt / 2).saturating_add(rtt.mul_f64(excess + windows(waits).min(MOST_ROUNDS)))
}

#[cfg(test)]
mod tests;
