//! A path's time with BBRv3: when it begins, and what ends it; steers nothing.
//!
//! Chance loses the same part of the packets, however many are sent. So losses that become more frequent under BBRv3 were
//! those of a queue, whatever the judge took them for, and the path goes back to CUBIC. It goes back, too, where a queue stands
//! that BBRv3 has not made, and where the path has stopped to lose packets: a flow that asks for its share by losses would
//! get too little beside BBRv3.

use std::time::{Duration, Instant};

use super::Tally;
use crate::bbr::Round;

/// From so many losses on, they may be more than there were before.
const LEAST_RUNS: u32 = 6;
/// They are more from so many times on what is to be expected at most,
const MORE: f64 = 1.5;
/// and so many standard deviations beyond it.
const DEVIATIONS: f64 = 2.0;
/// A path on which so many losses were to be expected, and hardly any came, does not lose any more.
const EXPECTED: f64 = 16.0;
const HARDLY: u32 = 4;

/// So large a part of all bytes, and so many, are not lost by chance, in however few runs: bursts overflow a short queue.
const FLOOD: f64 = 0.2;
const FLOOD_BYTES: u64 = 32_000;

/// The first search is over by so many round trips. Where the application sends too little it never ends by itself, and what bursts
/// into a short queue lose would never be compared with the losses before.
const SEARCHED: u32 = 16;

/// What a round in the cruise weighs of the one after it.
const DECAY: f32 = 0.9;
/// Rounds that tell whether a queue stands: five, by their weights,
const LEAST_ROUNDS: f32 = 4.0;
/// in so large a part of which one stood.
const STANDS: f32 = 0.6;
/// A queue stands above this part of the shortest round trip, so much more, and so many variations.
const QUEUE_PART: f64 = 0.5;
const QUEUE_TIME: Duration = Duration::from_millis(1);
const QUEUE_VARIATIONS: u32 = 2;

/// Loss events judged outside of probes that tell whether queues are the cause,
const LEAST_EVENTS: u32 = 4;
/// if chance explains no more than this part of the newest.
const OVERFLOWS: f32 = 0.3;

/// Why a path goes back to CUBIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Losses became more frequent.
    Losses,
    /// A queue stands.
    Queue,
    /// Losses are those of a queue.
    Overflow,
    /// The path loses nothing any more.
    NoLosses,
}

#[derive(Debug)]
pub(super) struct Stay {
    /// Losses before.
    before: Tally,
    /// More losses than these, runs per byte, are not taken for chance.
    most: f64,
    /// CUBIC's window.
    pub(super) window: u64,
    /// What leaves from then on counts: the first search is over.
    counts_from: Option<Instant>,
    /// Round trips of that search.
    searched: u32,
    pub(super) seen: Tally,
    /// Bytes lost among those.
    lost: u64,
    /// Loss events outside of probes.
    pub(super) events: u32,
    /// The round under way: its shortest round trip, and whether it began in the cruise.
    shortest: Duration,
    cruises: bool,
    rounds: f32,
    queued: f32,
}

impl Stay {
    pub(super) fn new(before: Tally, window: u64, most: f64) -> Self {
        Self {
            before,
            window,
            most,
            counts_from: None,
            searched: 0,
            seen: Tally { runs: 0, bytes: 0 },
            lost: 0,
            events: 0,
            shortest: Duration::MAX,
            cruises: false,
            rounds: 0.0,
            queued: 0.0,
        }
    }

    /// A packet of so many bytes was lost that left then. Whether it is the first of a row.
    pub(super) fn on_lost(&mut self, sent: Instant, size: u64, first: bool) {
        if self.counts_from.is_some_and(|from| sent >= from) {
            self.seen.runs = self.seen.runs.saturating_add(u32::from(first));
            self.lost = self.lost.saturating_add(size);
        }
    }

    /// An ACK frame of a packet that left at `newest_sent` acknowledged so many bytes. `min`: the path's shortest round trip, and
    /// what round trips vary by; `share`: what chance explains of the newest losses.
    pub(super) fn on_ack(
        &mut self,
        (now, newest_sent): (Instant, Instant),
        acked: u64,
        sample: Option<Duration>,
        (min, var): (Duration, Duration),
        round: Round,
        share: f32,
    ) -> Option<Reason> {
        match self.counts_from {
            None if round.settled || self.searched >= SEARCHED => self.counts_from = Some(now),
            Some(from) if newest_sent >= from => self.seen.bytes += acked,
            None => self.searched += u32::from(round.started),
            Some(_) => {}
        }
        if let Some(sample) = sample {
            self.shortest = self.shortest.min(sample);
        }
        if !round.started {
            return None;
        }
        let shortest = std::mem::replace(&mut self.shortest, Duration::MAX);
        let cruised = std::mem::replace(&mut self.cruises, round.cruising) && round.cruising;
        if cruised && shortest < Duration::MAX {
            let limit = min + min.mul_f64(QUEUE_PART) + QUEUE_TIME + QUEUE_VARIATIONS * var;
            self.rounds = self.rounds * DECAY + 1.0;
            self.queued = self.queued * DECAY + f32::from(u8::from(shortest > limit));
        }
        let more = self.loses_more();
        if self.seen.fade() {
            self.lost /= 2;
        }
        if more {
            Some(Reason::Losses)
        } else if self.rounds > LEAST_ROUNDS && self.queued > STANDS * self.rounds {
            Some(Reason::Queue)
        } else if self.events >= LEAST_EVENTS && share < OVERFLOWS {
            Some(Reason::Overflow)
        } else if self.before.rate() * self.seen.bytes as f64 >= EXPECTED
            && self.seen.runs <= HARDLY
        {
            Some(Reason::NoLosses)
        } else {
            None
        }
    }

    fn loses_more(&self) -> bool {
        if self.lost >= FLOOD_BYTES
            && self.lost as f64 > FLOOD * (self.seen.bytes + self.lost) as f64
        {
            return true;
        }
        if self.seen.runs < LEAST_RUNS {
            return false;
        }
        // What few losses before leave open: a deviation more than there were.
        let runs = f64::from(self.before.runs) + 1.0;
        let most = (runs + runs.sqrt()) / self.before.bytes.max(1) as f64;
        let expected = (MORE * most).min(self.most) * self.seen.bytes as f64;
        f64::from(self.seen.runs) > expected + DEVIATIONS * expected.sqrt()
    }
}

#[cfg(test)]
#[path = "stay_tests.rs"]
mod tests;
