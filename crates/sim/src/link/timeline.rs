//! The planned events of a link in the order of their times: outages, rate steps, changes.

use std::collections::VecDeque;

use super::config::{LinkConfig, PlannedChange};
use super::nanos;

/// An event that is due.
pub(super) enum Due {
    /// An outage until this time, in ns.
    Outage(u64),
    /// A new rate, bit/s.
    Rate(u64),
    /// A change of settings.
    Change(PlannedChange),
}

/// All planned events, with times in ns from the start of the run.
pub(super) struct Timeline {
    /// As (start, end).
    outages: VecDeque<(u64, u64)>,
    changes: VecDeque<(u64, PlannedChange)>,
    steps: Option<Steps>,
    /// The time of the earliest event; `u64::MAX` for none.
    next: u64,
}

/// Rates in order, repeated if there is a period.
struct Steps {
    /// As (start, bit/s).
    list: Box<[(u64, u64)]>,
    period: Option<u64>,
    /// The next step, in the round that started at `base`.
    index: usize,
    base: u64,
}

impl Timeline {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let mut outages: Vec<_> = config
            .outages
            .iter()
            .map(|outage| {
                let start = nanos(outage.at);
                (start, start.saturating_add(nanos(outage.lasting)))
            })
            .collect();
        outages.sort_unstable();
        let mut changes: Vec<_> = config
            .changes
            .iter()
            .map(|change| (nanos(change.at), *change))
            .collect();
        // A stable sort: of two simultaneous changes, the later one in the list applies last.
        changes.sort_by_key(|change| change.0);
        let list: Box<[_]> = config
            .rate_steps
            .iter()
            .map(|step| (nanos(step.at), step.rate))
            .collect();
        let mut this = Self {
            outages: outages.into(),
            changes: changes.into(),
            steps: (!list.is_empty()).then(|| Steps {
                list,
                period: config.rate_period.map(nanos),
                index: 0,
                base: 0,
            }),
            next: 0,
        };
        this.find_next();
        this
    }

    /// When the next event is due; `u64::MAX` for never.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Removes the rate steps.
    pub(super) fn end_steps(&mut self) {
        self.steps = None;
        self.find_next();
    }

    /// Removes and returns the next event, at the time that [`next`](Self::next) gives. If the link
    /// is idle until `idle_until`, this skips whole rounds of rate steps up to then.
    pub(super) fn take(&mut self, idle_until: Option<u64>) -> Option<Due> {
        let due = self.take_one(idle_until);
        self.find_next();
        due
    }

    fn take_one(&mut self, idle_until: Option<u64>) -> Option<Due> {
        if self.outages.front().is_some_and(|next| next.0 == self.next) {
            return self.outages.pop_front().map(|(_, to)| Due::Outage(to));
        }
        if let Some(steps) = &mut self.steps
            && steps.next() == self.next
        {
            let rate = steps.take();
            if steps.index == steps.list.len() {
                self.steps = None;
            } else if let Some(target) = idle_until {
                steps.skip_rounds(target);
            }
            return Some(Due::Rate(rate));
        }
        self.changes
            .pop_front()
            .map(|(_, change)| Due::Change(change))
    }

    fn find_next(&mut self) {
        let outage = self.outages.front().map(|outage| outage.0);
        let change = self.changes.front().map(|change| change.0);
        let step = self.steps.as_ref().map(Steps::next);
        self.next = [outage, change, step]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX);
    }
}

impl Steps {
    fn next(&self) -> u64 {
        self.list
            .get(self.index)
            .map_or(u64::MAX, |step| self.base.saturating_add(step.0))
    }

    /// Removes the next step and returns its rate.
    fn take(&mut self) -> u64 {
        let rate = self.list.get(self.index).map_or(0, |step| step.1);
        self.index += 1;
        if let (true, Some(period)) = (self.index == self.list.len(), self.period) {
            self.index = 0;
            self.base = self.base.saturating_add(period);
        }
        rate
    }

    /// Skips rounds that end before `target`. They change nothing: each ends with the rate with
    /// which it started.
    fn skip_rounds(&mut self, target: u64) {
        if let (Some(period), Some(over)) = (self.period, target.checked_sub(self.next())) {
            self.base += over / period * period;
        }
    }
}
