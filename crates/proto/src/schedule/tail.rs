//! The end of a transfer: what is sent again on a path that delivers it sooner than the path that it was sent on; writes
//! nothing.
//!
//! With nothing left to send, a fast path falls silent while a slow one still has the last bytes in its queue, and the
//! transfer takes as long as these. The newest of them then go on the faster path too: from the newest on, since it arrives
//! last, until a copy would arrive no sooner than the original.
//!
//! The scheduler stays master: a path that it leaves alone gets no copies, nor does any path once it has said which stream
//! goes where.

use std::time::{Duration, Instant};

use mpquic_sched_core::{Data, PathIndex, PathView};

use super::{Copying, Planned, Schedule};
use crate::path::Paths;
use crate::sent_frame::{SentFrame, StreamRange};
use crate::space::SentPacket;
use crate::stream::Streams;

/// Bytes that may be copied in any case, and the part of all that paths have delivered that may be in addition.
const BUDGET: u64 = 64 * 1024;
const BUDGET_DIVISOR: u64 = 10;

/// The same for a connection that has delivered much: it comes to many ends, and must not pay a tenth for all of them.
const LASTING_BUDGET: u64 = 256 * 1024;
const LASTING_DIVISOR: u64 = 50;

/// And at pauses of streams that go on.
const PAUSE_DIVISOR: u64 = 100;

/// A path is not left alone if the scheduler has chosen it since so many round trips before the packet to be copied was
/// sent: a full window is acknowledged within one.
const CHOSEN_ROUNDS: u32 = 2;

/// What arrives so many mean deviations of its round trip before its deadline is in time, as in a probe timeout (RFC 9002
/// section 6.2.1): a copy of it would gain nothing.
const VARIATIONS: u32 = 4;

/// Stream data to be sent on a second path.
#[derive(Debug)]
pub(crate) struct TailCopy {
    pub(crate) path: PathIndex,
    /// The path and number of the packet that carries it.
    pub(crate) source: PathIndex,
    pub(crate) packet: u64,
    pub(crate) ranges: Vec<StreamRange>,
    pub(crate) decision: u64,
}

/// Two paths that are both shorter than this, within a host or a rack, deliver nothing late that their ends do not make
/// late, and these would make a copy late too: it costs them what they lack.
const NEAR: Duration = Duration::from_millis(1);

/// What is known of one path.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The packet number from which on there is nothing left to copy, and the bytes of the packets in flight from there on.
    passed: (u64, u64),
    /// When the scheduler last chose it.
    chosen: Option<Instant>,
}

impl Slot {
    const NEW: Self = Self {
        passed: (u64::MAX, 0),
        chosen: None,
    };
}

/// What was copied so far, and where the search goes on.
#[derive(Debug, Default)]
pub(super) struct TailCopies {
    /// By path, as many as were ever needed.
    slots: Vec<Slot>,
    /// Something was passed.
    begun: bool,
    /// A copy waits for a pacer.
    pub(super) paced: bool,
    spent: u64,
    /// The scheduler has said which stream a path carries: none of them goes elsewhere.
    binds: bool,
    /// Room for the ranges of a copy, kept.
    ranges: Vec<StreamRange>,
}

impl TailCopies {
    /// The scheduler's choice for what comes next, be there anything or not.
    pub(super) fn on_decision(&mut self, now: Instant, planned: &Planned) {
        self.slot_mut(planned.path).chosen = Some(now);
        self.binds |= matches!(planned.data, Data::Stream(_));
    }

    fn slot(&self, path: PathIndex) -> Slot {
        self.slots.get(path.get()).copied().unwrap_or(Slot::NEW)
    }

    fn slot_mut(&mut self, path: PathIndex) -> &mut Slot {
        if self.slots.len() <= path.get() {
            self.grow(path);
        }
        &mut self.slots[path.get()]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, path: PathIndex) {
        self.slots.resize(path.get() + 1, Slot::NEW);
    }

    #[cold]
    #[inline(never)]
    fn begin_anew(&mut self) {
        self.begun = false;
        for slot in &mut self.slots {
            slot.passed = Slot::NEW.passed;
        }
    }
}

/// A packet in flight, and how long it takes from now to arrive.
struct Late {
    source: PathIndex,
    packet: u64,
    sent: Instant,
    size: u64,
    remaining: Duration,
    /// It has data of a stream on which more may be written.
    goes_on: bool,
}

impl Schedule {
    /// There is something to send: the next tail begins anew.
    pub(crate) fn end_tail(&mut self) {
        self.tail.paced = false;
        self.on_copy_lost();
    }

    /// Of data that two paths carried, one packet was lost: it may be copied once more. A walk over what was copied is
    /// begun anew for each copy at most.
    pub(crate) fn on_copy_lost(&mut self) {
        if self.tail.begun {
            self.tail.begin_anew();
        }
    }

    /// The slot of a path means another path: its packet numbers begin anew.
    pub(super) fn forget_tail(&mut self, path: PathIndex) {
        if let Some(slot) = self.tail.slots.get_mut(path.get()) {
            *slot = Slot::NEW;
        }
    }

    /// With nothing left to send: the next copy, if one arrives sooner than its original. The views are up to date.
    pub(crate) fn tail_copy(
        &mut self,
        now: Instant,
        paths: &Paths,
        streams: &Streams,
    ) -> Option<TailCopy> {
        self.tail.paced = false;
        if self.tail.binds {
            return None;
        }
        let far = |view: &PathView| view.open && view.min_rtt >= NEAR;
        if !self.views().iter().any(far) || self.tail_budget(false) == 0 {
            return None;
        }
        let late = self.latest(now, paths, streams)?;
        if late.size > self.tail_budget(late.goes_on) {
            return None;
        }
        let (path, release) = self.sooner(now, &late)?;
        if release.is_some() {
            self.tail.paced = true;
            return None;
        }
        let packet = paths.at(late.source)?.space().sent.get(late.packet)?;
        let decision = packet.decision?;
        let mut ranges = std::mem::take(&mut self.tail.ranges);
        ranges.extend(packet.frames.iter().filter_map(SentFrame::stream).copied());
        Some(TailCopy {
            path,
            source: late.source,
            packet: late.packet,
            ranges,
            decision,
        })
    }

    /// How many bytes may still be copied; `goes_on`: of a stream on which more may be written.
    fn tail_budget(&self, goes_on: bool) -> u64 {
        if self.tail.binds {
            return 0;
        }
        let delivered: u64 = self.views().iter().map(|view| view.delivered_bytes).sum();
        let own = budget(delivered, goes_on).saturating_sub(self.tail.spent);
        own.min(self.purse.left_for_tails(self.scheduler.heeds_purse()))
    }

    /// A copy was written, or does not fit: its room is for the next one.
    pub(crate) fn recycle(&mut self, mut copy: TailCopy) {
        copy.ranges.clear();
        self.tail.ranges = copy.ranges;
    }

    /// All of a packet was copied.
    pub(crate) fn on_tail_copied(&mut self, copy: &TailCopy) {
        let bytes = |range: &StreamRange| range.end - range.start;
        let size = copy.ranges.iter().map(bytes).sum();
        self.pass(copy.source, copy.packet, size);
        self.tail.spent = self.tail.spent.saturating_add(size);
        self.purse.on_written(size, Copying::Tail);
    }

    /// The packet with stream data that no other packet in flight carries which arrives last.
    fn latest(&mut self, now: Instant, paths: &Paths, streams: &Streams) -> Option<Late> {
        let mut latest: Option<Late> = None;
        for path in paths.iter() {
            let source = path.index;
            if self.view(source).is_none_or(|view| view.suspect) {
                // What it has in flight is to be sent again anyway.
                continue;
            }
            let space = path.space();
            let (below, _) = self.tail.slot(source).passed;
            for (number, packet) in space.sent.newest_below(below) {
                let mut ranges = packet.frames.iter().filter_map(SentFrame::stream);
                let copyable = packet.decision.is_some()
                    && ranges.any(|range| streams.is_in_flight_once(range));
                let size = u64::from(packet.size);
                if !copyable {
                    self.pass(source, number, size);
                    continue;
                }
                let (_, after) = self.tail.slot(source).passed;
                let ahead = space.bytes_in_flight().saturating_sub(after);
                let age = |packet: &SentPacket| now.saturating_duration_since(packet.time_sent);
                let oldest = space.sent.first().map_or(packet, |(_, oldest)| oldest);
                let view = &self.views[source.get()];
                let remaining = remaining(view, ahead, age(packet), age(oldest));
                let by = now + remaining.saturating_add(view.rtt_var * VARIATIONS);
                let mut ranges = packet.frames.iter().filter_map(SentFrame::stream);
                if ranges.all(|range| streams.is_due_after(range.id, by)) {
                    // What was sent before it may have no deadline.
                    self.pass(source, number, size);
                    continue;
                }
                if latest
                    .as_ref()
                    .is_none_or(|late| remaining > late.remaining)
                {
                    let mut ranges = packet.frames.iter().filter_map(SentFrame::stream);
                    latest = Some(Late {
                        source,
                        packet: number,
                        sent: packet.time_sent,
                        size,
                        remaining,
                        goes_on: ranges.any(|range| streams.goes_on(range.id)),
                    });
                }
                break;
            }
        }
        latest
    }

    fn pass(&mut self, path: PathIndex, packet: u64, size: u64) {
        let (below, after) = &mut self.tail.slot_mut(path).passed;
        *below = packet;
        *after += size;
        self.tail.begun = true;
    }

    /// The path on which a copy arrives first, if that is sooner than the original; and when its pacer lets it go, if not
    /// now.
    fn sooner(&self, now: Instant, late: &Late) -> Option<(PathIndex, Option<Instant>)> {
        let source = self.view(late.source)?;
        let since = source.smoothed_rtt.saturating_mul(CHOSEN_ROUNDS);
        let chosen = |view: &PathView| {
            let chosen = self.tail.slot(view.index).chosen;
            chosen.is_some_and(|at| at + since >= late.sent)
        };
        let paths = self.views().iter();
        let paths = paths.filter(|view| may_copy(view, source) && chosen(view));
        let arrivals = paths.map(|view| {
            let release = view.next_release.filter(|_| !view.can_send);
            let wait = release.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            (wait.saturating_add(arrival(view)), view.index, release)
        });
        let (arrival, path, release) = arrivals.min_by_key(|(arrival, ..)| *arrival)?;
        (arrival < late.remaining).then_some((path, release))
    }

    fn views(&self) -> &[PathView] {
        Self::visible(&self.views, self.used)
    }
}

/// What may be copied in all, of a connection that has delivered so much. With nothing left to send of a stream that goes
/// on, this is a pause: an application may make many of them, and they leave the end its share.
fn budget(delivered: u64, goes_on: bool) -> u64 {
    if goes_on {
        BUDGET + delivered / PAUSE_DIVISOR
    } else {
        (BUDGET + delivered / BUDGET_DIVISOR).min(LASTING_BUDGET + delivered / LASTING_DIVISOR)
    }
}

/// Whether a path may carry copies of what another one has in flight. No backup path does so for an available one
/// (RFC 10069, Path Status Management).
fn may_copy(view: &PathView, source: &PathView) -> bool {
    let ready = view.can_send || view.next_release.is_some();
    let healthy = view.open && !view.suspect && !view.smoothed_rtt.is_zero();
    let far = view.min_rtt.max(source.min_rtt) >= NEAR;
    ready && healthy && far && view.index != source.index && view.standing() <= source.standing()
}

/// How long this many bytes take at the rate of a path; by its window before the first measurement.
fn transmission(view: &PathView, bytes: u64) -> Duration {
    let rate = if view.delivery_rate > 0 {
        view.delivery_rate as f64
    } else {
        view.cwnd.max(1) as f64 / view.smoothed_rtt.as_secs_f64().max(1e-6)
    };
    // A day is as good as never, and no overflow.
    Duration::from_secs_f64((bytes as f64 / rate).min(86_400.0))
}

/// When a packet arrives that was sent so long ago, with so many bytes in flight up to it, the oldest of them sent so long
/// ago. Its acknowledgement comes after a round trip, and not before the path has delivered all of these since the oldest is
/// acknowledged; it arrives half a round trip before its acknowledgement.
fn remaining(view: &PathView, ahead: u64, age: Duration, oldest: Duration) -> Duration {
    let rtt = view.smoothed_rtt;
    let queue = rtt
        .saturating_sub(oldest)
        .saturating_add(transmission(view, ahead));
    let acknowledged = rtt.saturating_sub(age).max(queue);
    acknowledged.saturating_sub(view.min_rtt / 2)
}

/// When a packet arrives that is sent now: behind what stands in the path's queue.
fn arrival(view: &PathView) -> Duration {
    let queued = transmission(view, view.in_flight).saturating_sub(view.min_rtt);
    let own = transmission(view, view.mtu.into());
    queued.saturating_add(own).saturating_add(view.min_rtt / 2)
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::PathStatus;

    use super::*;

    fn view(slot: usize, rtt: u64, rate: u64, in_flight: u64) -> PathView {
        let mut view = PathView::of(slot, Duration::from_millis(rtt));
        view.min_rtt = Duration::from_millis(rtt);
        view.delivery_rate = rate;
        view.in_flight = in_flight;
        view.mtu = 1250;
        view
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_stands_in_a_queue_arrives_when_it_is_drained() {
        // 250 kB/s: 50 kB are 200 ms, one round trip of 200 ms; 100 kB stand in a queue for another one.
        let slow = view(0, 200, 250_000, 100_000);
        assert_eq!(remaining(&slow, 100_000, ms(0), ms(250)), ms(300));
        assert_eq!(remaining(&slow, 50_000, ms(100), ms(200)), ms(100));
        assert_eq!(remaining(&slow, 1000, ms(10), ms(200)), ms(90));
        assert_eq!(remaining(&slow, 1000, ms(250), ms(250)), ms(0));
        // A burst 50 ms ago: the first of it is acknowledged in 150 ms, the last 100 ms later.
        assert_eq!(remaining(&slow, 25_000, ms(50), ms(50)), ms(150));
        // 6.25 MB/s: 250 kB fill a round trip of 40 ms, 125 kB more are 20 ms.
        let fast = view(1, 40, 6_250_000, 375_000);
        assert_eq!(arrival(&fast), ms(40) + Duration::from_micros(200));
        let idle = view(1, 40, 6_250_000, 1000);
        assert_eq!(arrival(&idle), ms(20) + Duration::from_micros(200));
        // Nothing measured: a window per round trip.
        let mut fresh = view(1, 40, 0, 0);
        fresh.cwnd = 12_500;
        assert_eq!(arrival(&fresh), ms(24));
    }

    #[test]
    fn the_scheduler_is_told_how_much_may_be_copied() {
        let mut schedule = Schedule::new(Box::new(mpquic_sched_core::MinRtt::default()));
        schedule.show(2);
        assert_eq!(schedule.tail_budget(false), BUDGET);
        // No more than the connection's purse has.
        schedule.purse = crate::schedule::Purse::new((5000, 0));
        assert_eq!(schedule.tail_budget(false), 5000);
        schedule.purse = crate::schedule::Purse::new((1 << 30, 0));
        for view in &mut schedule.views[..2] {
            view.delivered_bytes = 500_000;
        }
        assert_eq!(schedule.tail_budget(false), BUDGET + 100_000);
        schedule.tail.spent = 100_001;
        assert_eq!(schedule.tail_budget(false), BUDGET - 1);
        schedule.tail.spent = u64::MAX;
        assert_eq!(schedule.tail_budget(false), 0);
        schedule.tail.spent = 0;
        schedule.tail.binds = true;
        assert_eq!(schedule.tail_budget(false), 0);
    }

    #[test]
    fn many_ends_cost_a_fiftieth_and_pauses_leave_an_end_its_share() {
        let budgets = |delivered| [false, true].map(|goes_on| budget(delivered, goes_on));
        assert_eq!(budgets(0), [65_536, 65_536]);
        // The end of a download of 2 MB may take a tenth of it.
        assert_eq!(budgets(2_000_000), [265_536, 85_536]);
        assert_eq!(budgets(1_000_000), [165_536, 75_536]);
        assert_eq!(budgets(100_000_000), [2_262_144, 1_065_536]);
    }

    #[test]
    fn which_paths_may_carry_copies_for_which() {
        let sending = |slot, status| {
            let mut view = view(slot, 40, 1_000_000, 1000);
            (view.open, view.can_send, view.status) = (true, true, status);
            view
        };
        let [available, backup] = [PathStatus::Available, PathStatus::Backup];
        for (of, to, may) in [
            (available, available, true),
            (available, backup, false),
            (backup, available, true),
            (backup, backup, true),
        ] {
            let (source, target) = (sending(0, of), sending(1, to));
            assert_eq!(may_copy(&target, &source), may, "{of:?} {to:?}");
            assert!(!may_copy(&source, &source));
        }
        let mut near = [sending(0, available), sending(1, available)];
        near[0].min_rtt = Duration::from_micros(900);
        assert!(may_copy(&near[1], &near[0]));
        near[1].min_rtt = Duration::from_micros(90);
        assert!(!may_copy(&near[1], &near[0]));
        let mut suspect = sending(1, available);
        suspect.suspect = true;
        assert!(!may_copy(&suspect, &sending(0, available)));
    }
}
