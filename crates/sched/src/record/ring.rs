//! The hot side: what a scheduler's thread writes on, and the counting around it; never waits, writes no file.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rtrb::Producer;

use super::Rewarded;
use super::codec::{Encoder, longest};
use super::tally::{Tally, add};
use crate::neural::Experience;
use crate::{
    Acked, Context, Decision, Learned, Lost, PathUpdate, Scheduler, Sent, Step, StreamUpdate,
};

/// Writes down what one scheduler decides and earns.
///
/// **Cost.** A record: some 30 bytes and the numbers are copied twice, within memory that was set aside when the ring was
/// made; no allocation, no lock, no system call. If there is no room, the record is dropped and counted.
pub struct Ring {
    connection: u64,
    producer: Producer<u8>,
    tally: Arc<Tally>,
    /// A record and its length, on its way into the ring: half a record must not be seen there.
    scratch: Box<[u8]>,
    state: usize,
    action: usize,
}

/// What the length before each record in the ring takes.
pub(super) const LENGTH: usize = 2;

impl Ring {
    pub(super) fn new(
        connection: u64,
        producer: Producer<u8>,
        tally: Arc<Tally>,
        [state, action]: [usize; 2],
    ) -> Self {
        Self {
            connection,
            producer,
            tally,
            scratch: vec![0; LENGTH + longest(state + action)].into(),
            state,
            action,
        }
    }

    /// The connection's number.
    pub const fn connection(&self) -> u64 {
        self.connection
    }

    /// A state was answered with an action; `fell_back` if that is not what the policy wanted. Numbers must grow.
    ///
    /// If the sizes are not those of the schema, the record is dropped and counted.
    pub fn decided(
        &mut self,
        number: u64,
        now: Instant,
        state: &[f32],
        action: &[f32],
        fell_back: bool,
    ) {
        let us = self.tally.us(now);
        add(&self.tally.decisions, 1);
        let fits = (state.len(), action.len()) == (self.state, self.action);
        let written = fits
            .then(|| {
                let encoder = Encoder::new(&mut self.scratch[LENGTH..]);
                encoder.decided(self.connection, number, us, fell_back, [state, action])
            })
            .flatten();
        self.push(written);
    }

    /// The decision of this number earned something; `done` if an episode ends with it.
    pub fn rewarded(&mut self, number: u64, now: Instant, reward: f64, done: bool) {
        let us = self.tally.us(now);
        add(&self.tally.rewards, 1);
        let written = Encoder::new(&mut self.scratch[LENGTH..]).rewarded(&Rewarded {
            connection: self.connection,
            number,
            us,
            reward,
            done,
        });
        self.push(written);
    }

    /// Hands over what lies ready, if it does.
    #[inline]
    fn push(&mut self, written: Option<usize>) {
        let pushed = written
            .and_then(|length| Some((length, u16::try_from(length).ok()?)))
            .is_some_and(|(length, prefix)| {
                self.scratch[..LENGTH].copy_from_slice(&prefix.to_le_bytes());
                let record = &self.scratch[..LENGTH + length];
                // Abandoned: nobody will ever read it.
                !self.producer.is_abandoned() && self.producer.push_entire_slice(record).is_ok()
            });
        if !pushed {
            add(&self.tally.dropped, 1);
        }
    }

    /// What one of the bandits tells. A state is its context and the slots of the two paths, an action the arm that was
    /// taken.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Decided {
                decision,
                now,
                fast,
                slow,
                context,
                chosen,
                arm,
                ..
            } => {
                let mut state = [0.0; 8];
                for (to, from) in state.iter_mut().zip(context) {
                    *to = *from as f32;
                }
                (state[6], state[7]) = (fast.get() as f32, slow.get() as f32);
                let action = [arm.index() as f32];
                self.decided(*decision, *now, &state, &action, arm != chosen);
            }
            Step::Settled {
                decision,
                now,
                reward,
                ..
            } => self.rewarded(*decision, *now, *reward, false),
        }
    }

    /// What one of those that ask a network tells.
    pub fn experience(&mut self, experience: &Experience<'_>) {
        match *experience {
            Experience::Decided {
                number,
                now,
                state,
                action,
                fell_back,
            } => self.decided(number, now, state, action, fell_back),
            Experience::Rewarded {
                number,
                now,
                reward,
                done,
            } => self.rewarded(number, now, f64::from(reward), done),
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("connection", &self.connection)
            .field("free_bytes", &self.producer.slots())
            .finish_non_exhaustive()
    }
}

/// A scheduler that is recorded: does what the one in it does, and counts what becomes of the packets.
///
/// **Cost.** Three or four counters in one or two lines of memory for each packet sent, acknowledged or lost.
#[derive(Debug)]
pub struct Recorded<S> {
    /// Dropped first: what it has to say at its end is said before the outcome is told.
    inner: S,
    tally: Arc<Tally>,
}

impl<S> Recorded<S> {
    pub(super) const fn new(inner: S, tally: Arc<Tally>) -> Self {
        Self { inner, tally }
    }
}

impl<S: Scheduler> Scheduler for Recorded<S> {
    #[inline]
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.decide(cx)
    }

    #[inline]
    fn on_sent(&mut self, event: &Sent) {
        self.tally.sent(event);
        self.inner.on_sent(event);
    }

    #[inline]
    fn on_acked(&mut self, event: &Acked) {
        self.tally.acked(event);
        self.inner.on_acked(event);
    }

    #[inline]
    fn on_lost(&mut self, event: &Lost) {
        self.tally.lost(event);
        self.inner.on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.tally.us(event.now);
        self.inner.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.inner.on_stream(event);
    }

    fn follows_streams(&self) -> bool {
        self.inner.follows_streams()
    }

    fn wants_streams(&self) -> bool {
        self.inner.wants_streams()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.inner.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &Context<'_>) {
        self.inner.on_wakeup(cx);
    }

    fn learned(&self) -> Option<Learned> {
        self.inner.learned()
    }

    fn why(&self) -> Option<&'static str> {
        self.inner.why()
    }

    fn heeds_purse(&self) -> bool {
        self.inner.heeds_purse()
    }

    fn copies_for(&self) -> mpquic_sched_core::CopyCause {
        self.inner.copies_for()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Two records fit, the third is dropped and counted, and after one was taken another one fits.
    #[test]
    fn a_full_ring_drops_whole_records() {
        let record = LENGTH + 1 + 3 * 8 + 1 + 8;
        let (producer, mut reader) = rtrb::RingBuffer::new(2 * record + record / 2);
        let tally = Arc::new(Tally::default());
        let mut ring = Ring::new(7, producer, Arc::clone(&tally), [0, 0]);
        let now = Instant::now();
        let dropped = || tally.dropped.load(Ordering::Relaxed);
        for (number, expected) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            ring.rewarded(number, now, 0.5, false);
            assert_eq!(
                (dropped(), reader.slots()),
                (expected, record * 2.min(number as usize + 1))
            );
        }
        let mut taken = vec![0; record];
        reader.pop_entire_slice(&mut taken).unwrap();
        ring.rewarded(4, now, 0.5, false);
        assert_eq!((dropped(), reader.slots()), (2, 2 * record));
        // Nobody will read any more.
        drop(reader);
        ring.rewarded(5, now, 0.5, false);
        assert_eq!(dropped(), 3);
        assert_eq!(tally.outcome(false).rewards, 6);
    }
}
