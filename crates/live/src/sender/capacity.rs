//! What the paths can carry, what of it repair may have, and how far behind the transport is.

use std::time::{Duration, Instant};

use super::Sender;
use super::path::Standing;
use super::rates::Situation;

/// The share of what the paths can carry that frames and all that goes with them may have.
const FILLED: f64 = 0.9;

/// The share of what is left then that repair may have: the rest is for key frames and for copies.
const HEADROOM: f64 = 0.5;

impl Sender {
    /// How many bytes per second an encoder may make for this flow: 90 % of what the paths can carry, less what other flows have, less
    /// repair and copies. `None` while no path says what it can carry.
    pub fn target_rate(&self, now: Instant, flow: u32) -> Option<u64> {
        let own = self.flows.get(flow as usize)?;
        let room = self.capacity(now)? as f64 * FILLED;
        let others: f64 = self
            .flows
            .iter()
            .filter(|other| other.id != flow)
            .map(|other| other.frames_meter.rate(now) + other.extra_meter.rate(now))
            .sum();
        let frames = own.frames_meter.rate(now);
        let extra = if frames > 0.0 {
            own.extra_meter.rate(now) / frames
        } else {
            0.0
        };
        Some(((room - others).max(0.0) / (1.0 + extra.max(own.rate))) as u64)
    }

    /// Whether a frame of this flow that came now would be too late: the transport has not sent what it was given half of that time
    /// ago, or on each path that is well a queue stands in which it would wait for longer than it may. What is sent when nothing is
    /// on its way any more says when that is over.
    /// Not before a frame was judged: at the start of a connection, windows double each round trip.
    pub(super) fn is_behind(&mut self, now: Instant, flow: u32) -> bool {
        let way = self.shortest_way();
        let Some(to) = self.flows.get(flow as usize).filter(|to| to.judged) else {
            return false;
        };
        let deadline = to.flow.deadline;
        if self.waited(now) > deadline.saturating_sub(way) / 2 {
            return true;
        }
        let mut well = self
            .paths
            .iter()
            .filter(|path| path.standing(now) == Standing::Well)
            .peekable();
        well.peek().is_some() && well.all(|path| path.age(now) > deadline + path.one_way())
    }

    /// For how long the oldest part that the transport has not sent has waited for it.
    fn waited(&mut self, now: Instant) -> Duration {
        while let Some((tag, at)) = self.unsent.front() {
            let sent = tag.checked_sub(self.first_tag);
            let sent = sent.and_then(|place| self.sent.get(place as usize));
            if self.hears_sent && sent.is_some_and(|sent| sent.waits) {
                return now.saturating_duration_since(*at);
            }
            self.unsent.pop_front();
        }
        Duration::ZERO
    }

    /// Bytes of datagrams that are on their way over a path, if it is told when they leave.
    #[cfg(feature = "proto")]
    pub(crate) fn in_flight(&self, id: super::PathId) -> Option<u64> {
        let path = self.paths.iter().find(|path| path.view.id == id);
        self.hears_sent.then(|| path.map_or(0, |path| path.flying))
    }

    pub(super) fn longest_round_trip(&self) -> Duration {
        self.paths
            .iter()
            .map(|path| path.view.rtt)
            .max()
            .unwrap_or_default()
    }

    /// Where a packet goes for which the path with the earliest arrival has no room: to another, if it is there before that path is
    /// likely to have some, half a round trip on. `None`: as the transport's scheduler says.
    pub(super) fn spill(&self, now: Instant, deadline: Instant) -> Option<super::PathId> {
        let len = self.config.max_datagram;
        let first = self.best(now, |_| true)?;
        let first = self.paths.iter().find(|path| path.view.id == first)?;
        if !self.hears_sent || first.has_room(len) {
            return None;
        }
        let by = first.arrival(now) + first.view.rtt / 2;
        self.best(now, |path| {
            path.has_room(len) && path.arrival(now) < by.min(deadline)
        })
    }

    /// What the paths that are well can carry, in bytes per second; `None` if one of them does not say.
    pub(super) fn capacity(&self, now: Instant) -> Option<u64> {
        let mut rates = self
            .paths
            .iter()
            .filter(|path| path.standing(now) == Standing::Well)
            .map(|path| path.view.rate);
        let sum = rates.try_fold(0_u64, |sum, rate| {
            (rate > 0).then(|| sum.saturating_add(rate))
        });
        sum.filter(|sum| *sum > 0)
    }

    /// The highest rate of repair that headroom allows.
    pub(super) fn cap(&self, now: Instant) -> f64 {
        let frames: f64 = self
            .flows
            .iter()
            .map(|flow| flow.frames_meter.rate(now))
            .sum();
        match self.capacity(now) {
            Some(capacity) if frames > 0.0 => {
                (capacity as f64 * FILLED / frames - 1.0).max(0.0) * HEADROOM
            }
            _ => f64::INFINITY,
        }
    }

    pub(super) fn situation(&self, flow: u32) -> Situation {
        let Some(flow) = self.flows.get(flow as usize) else {
            return Situation::default();
        };
        // A round trip until it is overdue, and half of one until the copy is there.
        let again = self
            .paths
            .iter()
            .map(|path| path.view.rtt * 3 / 2)
            .max()
            .unwrap_or_default()
            + Duration::from_millis(20);
        // The same where it is overdue soonest, and the copy takes the shortest way.
        let soonest = self.paths.iter().map(|path| path.view.rtt).min();
        let soonest = soonest.unwrap_or_default() + self.shortest_way() + Duration::from_millis(20);
        Situation {
            loss: 1.0 - flow.share,
            again: again.as_secs_f64() / flow.flow.deadline.as_secs_f64(),
            soonest: soonest.as_secs_f64() / flow.flow.deadline.as_secs_f64(),
        }
    }
}
