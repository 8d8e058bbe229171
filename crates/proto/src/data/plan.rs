//! What leaves next: the scheduler is shown paths and data, asked, and told of what came of its answer.

use std::time::Instant;

use mpquic_sched_core::PathIndex;
use smallvec::SmallVec;

use super::DataPlane;
use super::fill::size_of;
use crate::Observation;
use crate::observe::ObserverHooks;
use crate::path::Paths;
use crate::schedule::{Planned, Reinjection, TailCopy};
use crate::sent_frame::{SentFrame, StreamRange};

/// Data that goes on one path without a decision of its own.
pub(crate) enum BoundData {
    /// Datagrams for which the application named the path.
    Datagrams(PathIndex),
    /// A copy that was asked for together with the original.
    Copy(Reinjection),
    /// A copy of the last bytes of a transfer.
    Tail(TailCopy),
}

impl BoundData {
    /// The path that it goes on.
    pub(crate) fn path(&self) -> PathIndex {
        match self {
            Self::Datagrams(path) => *path,
            Self::Copy(copy) => copy.path,
            Self::Tail(copy) => copy.path,
        }
    }

    /// The decision that the original was sent for, if it is a copy.
    pub(crate) fn copy_of(&self) -> Option<u64> {
        match self {
            Self::Datagrams(_) => None,
            Self::Copy(copy) => Some(copy.decision),
            Self::Tail(copy) => Some(copy.decision),
        }
    }
}

impl DataPlane {
    /// Whether stream data can be sent now, on some path.
    #[inline]
    pub(crate) fn can_send_streams(&self) -> bool {
        self.streams.can_send_data()
    }

    /// Whether stream data is in flight.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.streams.queue().in_flight > 0
    }

    /// Whether control frames or datagrams waited when the scheduler was last shown what waits.
    #[inline]
    pub(crate) fn control_waited(&self) -> bool {
        self.schedule.control_waits()
    }

    /// Whether control frames or datagrams wait, after a packet of a batch. If none waited before it, there are some now only
    /// if the peer's limit was reached: all others come of what is received, or from the application. `has_control`: looks
    /// for all of them.
    #[inline]
    pub(crate) fn control_waits_still(&self, has_control: impl Fn() -> bool) -> bool {
        let waits = if self.control_waited() {
            has_control()
        } else {
            self.streams.is_data_blocked_due()
        };
        debug_assert_eq!(
            waits,
            has_control(),
            "a packet made other control frames wait"
        );
        waits
    }

    /// Tells the scheduler what was noted of streams.
    #[inline]
    pub(crate) fn tell_stream_events(&mut self) {
        self.schedule.on_streams(&mut self.streams);
    }

    /// The first packet of a batch. `control`: whether control frames or datagrams wait; `waits`: whether these or stream
    /// data do. If nothing waits, only copies are planned.
    pub(crate) fn plan_first(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        watch: &mut ObserverHooks,
        control: bool,
        waits: bool,
    ) -> Option<Planned> {
        paths.let_ahead(self.streams.queue().unsent);
        self.schedule.refresh(now, paths);
        self.schedule
            .refresh_queue(&mut self.streams, control, paths);
        self.ask(now, paths, watch, waits, waits)
    }

    /// The packet after one that was sent as planned. `control` as it is now, `waits` as it was for the first packet.
    pub(crate) fn plan_next(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        watch: &mut ObserverHooks,
        sent: &Planned,
        control: bool,
        waits: bool,
    ) -> Option<Planned> {
        self.schedule.on_progress(sent);
        let done = !control && !self.streams.can_send_data();
        if !done || self.has_copies(paths) {
            self.schedule.refresh_sender(now, paths, sent.path);
        }
        if done {
            return None;
        }
        if self.streams.queue().retransmittable == 0
            && let Some(again) = self.schedule.again(sent, control)
        {
            return Some(again);
        }
        self.schedule
            .refresh_queue(&mut self.streams, control, paths);
        self.ask(now, paths, watch, false, waits)
    }

    /// What the scheduler wants to be sent next; `idle`: whether nothing may be in flight, for all that was sent just now.
    fn ask(
        &mut self,
        now: Instant,
        paths: &Paths,
        watch: &mut ObserverHooks,
        idle: bool,
        waits: bool,
    ) -> Option<Planned> {
        let nothing_in_flight = || idle && nothing_in_flight(paths);
        let planned = self.schedule.next(now, &nothing_in_flight);
        if watch.is_observed() {
            self.tell_decision(now, paths, watch);
        }
        planned.filter(|planned| waits || planned.data.is_copy())
    }

    /// The batch of its path is full: this packet is the first of the next one.
    pub(crate) fn keep(&mut self, planned: Planned) {
        self.schedule.keep(planned);
    }

    /// What the scheduler did that no scheduler may do: the connection cannot go on with it.
    #[inline]
    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.schedule.take_fault()
    }

    /// There is nothing to send, and nobody waits for anything.
    pub(crate) fn on_nothing_to_send(&mut self, now: Instant) {
        self.schedule.on_nothing_to_send(now);
    }

    /// There was something to send: the next end of a transfer is another one.
    pub(crate) fn end_tail(&mut self) {
        self.schedule.end_tail();
    }

    /// Data waits, and the scheduler leaves paths unused that have room.
    pub(crate) fn note_held_back(&self, paths: &mut Paths) {
        paths.note_held_back(|path| self.schedule.can_send(path));
    }

    /// Whether copies wait that were asked for together with the original.
    #[inline]
    pub(crate) fn has_copies_to_send(&self) -> bool {
        self.schedule.has_reinjections()
    }

    /// Whether something waits that is bound to a path already: packets that are built, copies and datagrams.
    #[inline]
    pub(crate) fn has_bound(&self) -> bool {
        self.has_batches() || self.has_copies_to_send() || !self.paths_of_datagrams().is_empty()
    }

    /// The oldest of those copies whose path has room.
    #[inline(never)]
    pub(crate) fn next_copy(&mut self, now: Instant, paths: &mut Paths) -> Option<BoundData> {
        while let Some(copy) = self.schedule.next_reinjection() {
            if paths.at(copy.path).is_none() {
                continue;
            }
            self.schedule.refresh_path(now, paths, copy.path);
            let affordable = self.schedule.may_copy(size_of(&copy.ranges));
            if affordable && self.schedule.can_send(copy.path) {
                return Some(BoundData::Copy(copy));
            }
        }
        None
    }

    /// Datagrams for which the application named this path, if it has room.
    #[inline(never)]
    pub(crate) fn datagrams_for(
        &mut self,
        now: Instant,
        paths: &mut Paths,
        index: PathIndex,
    ) -> Option<BoundData> {
        let id = paths.at(index)?.id;
        self.schedule.refresh_path(now, paths, index);
        //= specs/rfc9221.txt#section-5.4
        //# The sender MUST either delay sending the frame until the controller allows it or drop
        //# the frame without sending it (at which point it MAY notify the application).
        let ready = self.schedule.can_send(index) && paths.has_cid(id);
        ready.then_some(BoundData::Datagrams(index))
    }

    /// Nothing is left to send, and the scheduler wants no copies: what arrives late anyway goes on a path that delivers it
    /// sooner. The views of paths are up to date where anything is in flight.
    #[inline(never)]
    pub(crate) fn tail_copy(&mut self, now: Instant, paths: &Paths) -> Option<BoundData> {
        let copy = self.schedule.tail_copy(now, paths, &self.streams)?;
        Some(BoundData::Tail(copy))
    }

    /// There was nothing of the kind planned for a path: what else to send. `idle`: whether nothing was sent just now.
    #[cold]
    #[inline(never)]
    pub(crate) fn plan_instead(
        &mut self,
        now: Instant,
        paths: &Paths,
        watch: &mut ObserverHooks,
        planned: &Planned,
        idle: bool,
        waits: bool,
    ) -> Option<Planned> {
        let nothing_in_flight = || waits && idle && nothing_in_flight(paths);
        let instead = self.schedule.instead(now, planned, &nothing_in_flight);
        if watch.is_observed() {
            self.tell_decision(now, paths, watch);
        }
        instead.filter(|instead| waits || instead.data.is_copy())
    }

    /// A packet left that is to go on further paths, too.
    #[cold]
    #[inline(never)]
    pub(crate) fn plan_copies(&mut self, paths: &Paths, planned: &Planned, number: u64) {
        let packet = paths.at(planned.path);
        let packet = packet.and_then(|path| path.space().sent.get(number));
        let ranges = packet.map_or_else(SmallVec::new, |packet| stream_ranges(&packet.frames));
        if !ranges.is_empty() {
            self.schedule.plan_reinjections(planned, number, &ranges);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_decision(&mut self, now: Instant, paths: &Paths, watch: &mut ObserverHooks) {
        if let Some(decided) = self.schedule.take_decided(now, paths) {
            watch.note(now, Observation::Decided(decided));
        }
    }
}

/// Whether nothing that was scheduled is in flight and can be counted on to arrive. Probes and
/// keep-alives get nothing on.
fn nothing_in_flight(paths: &Paths) -> bool {
    paths
        .iter()
        .all(|path| path.space().sent.scheduled() == 0 || path.is_suspect())
}

/// The stream data among a packet's frames.
pub(super) fn stream_ranges(frames: &[SentFrame]) -> SmallVec<[StreamRange; 2]> {
    let ranges = frames.iter().filter_map(SentFrame::stream);
    ranges.copied().collect()
}
