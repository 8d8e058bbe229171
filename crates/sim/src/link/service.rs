//! How long the packet at the front of a link takes, at a rate or according to a trace.

use super::mahimahi::{Cursor, MahimahiTrace};

/// Bit-nanoseconds per bit. Work is in bit·ns, so that division by the rate gives nanoseconds.
const NANOS: u128 = 1_000_000_000;

/// Serves the queue of a link. Times are in ns from the start of the run.
pub(super) struct Service {
    /// Bit/s. `None` serves in no time; 0 does not serve.
    rate: Option<u64>,
    /// Replaces the rate.
    trace: Option<Cursor>,
    /// When the service of the front packet started.
    began: u64,
    /// The work in bit·ns that was left for the front packet at `since`.
    work: u128,
    since: u64,
    /// When the front packet departs, in whole ns, and the remainder of that division in bit·ns.
    /// Without the remainder, rounding errors would add up over a busy period.
    departs: u64,
    carry: u128,
}

impl Service {
    pub(super) fn new(rate: Option<u64>, trace: Option<MahimahiTrace>) -> Self {
        Self {
            rate,
            trace: trace.map(Cursor::new),
            began: 0,
            work: 0,
            since: 0,
            departs: 0,
            carry: 0,
        }
    }

    /// When the front packet departs; `u64::MAX` if it never does at this rate.
    pub(super) const fn departs(&self) -> u64 {
        self.departs
    }

    /// When the service of the front packet started.
    pub(super) const fn began(&self) -> u64 {
        self.began
    }

    /// A packet of this size arrives at an idle link.
    pub(super) fn begin_busy_period(&mut self, now: u64, bytes: u64) {
        self.carry = 0;
        if let Some(cursor) = &mut self.trace {
            cursor.seek(now);
        }
        self.begin(now, bytes);
    }

    /// A packet of this size moves to the front because the one before it departs.
    pub(super) fn begin(&mut self, now: u64, bytes: u64) {
        self.began = now;
        if let Some(cursor) = &mut self.trace {
            self.departs = cursor.serve(now, bytes);
            return;
        }
        self.work = u128::from(bytes) * 8 * NANOS + self.carry;
        self.since = now;
        self.plan();
    }

    /// Changes the rate at `now`. `front` is the size of the packet that is being served, if any.
    pub(super) fn set_rate(&mut self, now: u64, rate: Option<u64>, front: Option<u64>) {
        if self.trace.take().is_some() {
            // The part that an opportunity has served cannot be converted. The packet starts again.
            self.carry = 0;
            self.work = u128::from(front.unwrap_or(0)) * 8 * NANOS;
        } else {
            let done = u128::from(now - self.since) * u128::from(self.rate.unwrap_or(0));
            self.work = self.work.saturating_sub(done);
        }
        self.since = now;
        self.rate = rate;
        if front.is_some() {
            self.plan();
        }
    }

    fn plan(&mut self) {
        match self.rate {
            Some(0) => {
                self.departs = u64::MAX;
                self.carry = 0;
            }
            Some(rate) => {
                // A u128 division costs several times as much as a u64 division.
                let (time, carry) = match u64::try_from(self.work) {
                    Ok(work) => (work / rate, u128::from(work % rate)),
                    Err(_) => {
                        let wide = u128::from(rate);
                        let time = u64::try_from(self.work / wide).unwrap_or(u64::MAX);
                        (time, self.work % wide)
                    }
                };
                self.departs = self.since.saturating_add(time);
                self.carry = carry;
            }
            None => {
                self.departs = self.since;
                self.carry = 0;
            }
        }
    }
}
