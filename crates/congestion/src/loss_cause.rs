//! Why packets of a path were lost: because a queue overflowed, or by chance. It judges each loss event from the round trips
//! around it, and decides nothing.
//!
//! A queue that overflows is full: the round trips of the packets beside the lost one are the longest since the last loss. What
//! is lost by chance, on a radio link, is lost wherever the queue stands. So the judge compares the queue at a loss with those
//! since the losses before: by its size where that is plain, and else by its rank. A comparison with the shortest round trip
//! alone fails where delay varies.
//!
//! What it cannot see: a queue that is shorter than what round trips vary by, a policer, and losses of a queue that others
//! fill. Who acts on a verdict has to see whether losses become fewer once it sends less.

use std::time::{Duration, Instant};

use crate::RttEstimator;

/// So many of the newest round trips count, by the shortest of them: one packet late is no queue (N_RTT_SAMPLE of RFC 9406).
const NEWEST: usize = 8;
/// Queues that are kept since the events before.
const KEPT: usize = 32;
/// With fewer of them a rank tells nothing.
const LEAST_KEPT: usize = 8;
/// Then one that no round trip so far speaks for is likely to be chance: a queue is long before it overflows.
const NO_QUEUE_YET: f32 = 0.8;
/// With fewer of them those of before the event stay.
const ENOUGH_KEPT: usize = 16;
/// The shortest round trip and the highest queue are those of this time, at least, and twice that at most: routes change.
const SPAN: Duration = Duration::from_secs(15);
/// A queue is plain from this part of the shortest round trip on, and four variations more.
const PLAIN_PART: u32 = 2;
const PLAIN_VARIATIONS: u32 = 4;
/// There is none below this part of it, if there were queues of twice that.
const NONE_PART: u32 = 8;
const LEAST_NONE: u32 = 1000;
/// Who sends more than the path takes for a round trip, a quarter more at least, fills a queue to this part of it.
const PROBED_PART: u32 = 4;
/// Round trips that differ by less than this part differ by nothing.
const EQUAL_PART: u32 = 128;
/// Overflows happen at the top: from this rank on, and by chance up to this one.
const TOP_RANK: f32 = 0.95;
const CHANCE_RANK: f32 = 0.75;
/// What an event weighs of the one after it.
const DECAY: f32 = 0.9;
/// So that they weigh no more than this.
const MOST_WEIGHT: f32 = 10.0;

/// Why packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// A queue was full.
    Overflow,
    /// By chance, whatever was sent.
    Chance,
    /// It could be either.
    Unclear,
}

/// How many loss events had which cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub struct LossCauses {
    /// [`LossCause::Overflow`].
    pub overflow: u32,
    /// [`LossCause::Chance`].
    pub chance: u32,
    /// [`LossCause::Unclear`].
    pub unclear: u32,
}

/// Judges the loss events of one path.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use mpquic_congestion::{LossCause, LossJudge, RttEstimator};
///
/// let (mut now, mut rtt) = (Instant::now(), RttEstimator::new(Duration::from_millis(333)));
/// let mut judge = LossJudge::default();
/// // Forty round trips, of which each is longer than the one before: a queue grows.
/// for i in 0..40 {
///     let sample = Duration::from_millis(20 + i);
///     now += Duration::from_millis(1);
///     rtt.update(now, sample, Duration::ZERO);
///     judge.on_sample(now, sample, &rtt);
/// }
/// assert_eq!(judge.judge(false), LossCause::Overflow);
/// ```
#[derive(Debug, Clone)]
pub struct LossJudge {
    /// All times are microseconds.
    newest: [u32; NEWEST],
    samples: u32,
    /// The shortest round trip of this span and of the one before it.
    min: [u32; 2],
    /// The highest queue of these.
    highest: [u32; 2],
    span_ends: Option<Instant>,
    /// The longest round trip before there are enough for a rank.
    longest: u32,
    var: u32,
    kept: [u32; KEPT],
    len: u8,
    /// One sample in so many is kept; samples since the last one.
    every: u16,
    skipped: u16,
    chance: f32,
    weight: f32,
    causes: LossCauses,
    /// Of the newest event.
    score: f32,
    proven: bool,
}

impl Default for LossJudge {
    fn default() -> Self {
        Self {
            newest: [0; NEWEST],
            samples: 0,
            min: [u32::MAX; 2],
            highest: [0; 2],
            span_ends: None,
            longest: 0,
            var: 0,
            kept: [0; KEPT],
            len: 0,
            every: 1,
            skipped: 0,
            chance: 0.0,
            weight: 0.0,
            causes: LossCauses::default(),
            score: 1.0,
            proven: false,
        }
    }
}

impl LossJudge {
    /// A judge that comes late: the shortest round trip before it. [`Duration::MAX`] if there was none.
    pub fn with_min_rtt(shortest: Duration) -> Self {
        let mut judge = Self::default();
        if shortest < Duration::MAX {
            judge.min[0] = micros(shortest);
        }
        judge
    }

    /// A round trip was measured; `rtt` has taken it in.
    #[inline]
    pub fn on_sample(&mut self, now: Instant, sample: Duration, rtt: &RttEstimator) {
        let micros = micros(sample);
        self.newest[self.samples as usize % NEWEST] = micros;
        self.samples = self.samples.checked_add(1).unwrap_or(NEWEST as u32);
        self.min[0] = self.min[0].min(micros);
        if (self.samples as usize) < NEWEST + LEAST_KEPT {
            self.longest = self.longest.max(micros);
        }
        self.skipped += 1;
        if self.skipped >= self.every && self.samples as usize >= NEWEST {
            self.keep(now, rtt);
        }
    }

    fn keep(&mut self, now: Instant, rtt: &RttEstimator) {
        self.skipped = 0;
        self.var = micros(rtt.var());
        match self.span_ends {
            Some(end) if now < end => {}
            ends => {
                self.span_ends = Some(now + SPAN);
                if ends.is_some() {
                    self.min = [self.shortest(), self.min[0]];
                    self.highest = [0, self.highest[0]];
                }
            }
        }
        let queue = self.queue_micros();
        self.highest[0] = self.highest[0].max(queue);
        if usize::from(self.len) == KEPT {
            // Every second one stays, so that they spread over all the time since.
            for i in 0..KEPT / 2 {
                self.kept[i] = self.kept[2 * i];
            }
            self.len = KEPT as u8 / 2;
            self.every = self.every.saturating_mul(2);
        }
        self.kept[usize::from(self.len)] = queue;
        self.len += 1;
    }

    /// Packets were lost: why? Once for all that are lost within a round trip. `persistent`: persistent congestion.
    pub fn judge(&mut self, persistent: bool) -> LossCause {
        let score = self.score(persistent);
        self.chance = self.chance * DECAY + score;
        self.score = score;
        self.weight = self.weight * DECAY + 1.0;
        if persistent {
            // The path may be another one (RFC 9002 section 5.2).
            self.min = [self.shortest(), u32::MAX];
            self.highest = [0; 2];
        }
        if persistent || usize::from(self.len) >= ENOUGH_KEPT {
            self.len = 0;
            self.every = (self.every / 2).max(1);
            self.skipped = 0;
        }
        self.count(score)
    }

    /// The newest event was one of chance, as it turned out since.
    pub fn revise(&mut self) {
        self.chance += 1.0 - self.score;
        let causes = &mut self.causes;
        let counted = match cause_of(self.score) {
            LossCause::Overflow => &mut causes.overflow,
            LossCause::Chance => &mut causes.chance,
            LossCause::Unclear => &mut causes.unclear,
        };
        *counted = counted.saturating_sub(1);
        causes.chance = causes.chance.saturating_add(1);
        self.score = 1.0;
    }

    /// Packets were lost of which more were sent than the path was seen to take, to see whether it takes more: the verdict is
    /// counted, and has no part in [`chance_share`](Self::chance_share).
    ///
    /// A probe sends a quarter more than the path takes for a round trip at least, so that what overflows a queue in it shows a
    /// quarter of the shortest round trip. Less than that is chance.
    pub fn judge_probe(&mut self) -> LossCause {
        let score = if self.has_probed_queue() {
            self.score(false)
        } else {
            1.0
        };
        self.count(score)
    }

    fn count(&mut self, score: f32) -> LossCause {
        let cause = cause_of(score);
        let count = match cause {
            LossCause::Overflow => &mut self.causes.overflow,
            LossCause::Chance => &mut self.causes.chance,
            LossCause::Unclear => &mut self.causes.unclear,
        };
        *count = count.saturating_add(1);
        cause
    }

    /// 0: an overflow; 1: chance.
    fn score(&self, persistent: bool) -> f32 {
        if persistent {
            return 0.0;
        }
        let min = self.min();
        if (self.samples as usize) < NEWEST + LEAST_KEPT {
            let none = self.longest.saturating_sub(min) < (min / NONE_PART).max(LEAST_NONE);
            return if none { NO_QUEUE_YET } else { 0.5 };
        }
        let queue = self.queue_micros();
        if self.is_plain(queue) {
            return 0.0;
        }
        let highest = self.highest[0].max(self.highest[1]);
        let none = self.proven || queue < (min / NONE_PART).max(LEAST_NONE);
        if none && queue < highest / 2 {
            return 1.0;
        }
        let kept = &self.kept[..usize::from(self.len)];
        if kept.len() < LEAST_KEPT {
            return 0.5;
        }
        let same = min / EQUAL_PART;
        let below = kept.iter().filter(|kept| **kept + same < queue).count();
        let above = kept.iter().filter(|kept| **kept > queue + same).count();
        // Those that are equal count by half.
        let rank = (kept.len() + below - above) as f32 / (2 * kept.len()) as f32;
        ((TOP_RANK - rank) / (TOP_RANK - CHANCE_RANK)).clamp(0.0, 1.0)
    }

    /// Whether sending less has shown that the path loses by chance. A queue that overflows is then one as high as the highest:
    /// where delay varies, one loss by chance in twenty meets round trips that are longer than nearly all since the last.
    pub const fn set_proven(&mut self, proven: bool) {
        self.proven = proven;
    }

    /// The part of the newest events that chance explains, 0 to 1; an event counts for 0.9 of the one after it.
    pub fn chance_share(&self) -> f32 {
        if self.weight > 0.0 {
            self.chance / self.weight
        } else {
            0.0
        }
    }

    /// How many of the newest events chance explains, in the same weights: ten at most.
    pub const fn chance_sum(&self) -> f32 {
        self.chance
    }

    /// The newest events in the same weights, whatever explains them.
    pub const fn event_sum(&self) -> f32 {
        self.weight
    }

    /// So many events are known of before the first, and chance explained so many of them; ten at most count.
    pub const fn recall(&mut self, events: f32, chance: f32) {
        self.weight = events.clamp(0.0, MOST_WEIGHT);
        self.chance = chance.clamp(0.0, self.weight);
    }

    /// What the newest events were does not count any more.
    pub const fn forget_chance(&mut self) {
        self.chance = 0.0;
        self.weight = 0.0;
    }

    /// The shortest round trip of the last quarter of a minute at least, and twice that at most; zero before there is one.
    pub fn min_rtt(&self) -> Duration {
        match self.min() {
            u32::MAX => Duration::ZERO,
            min => Duration::from_micros(min.into()),
        }
    }

    /// Whether a queue stands that nobody takes for variation.
    pub fn has_plain_queue(&self) -> bool {
        self.samples as usize >= NEWEST && self.is_plain(self.queue_micros())
    }

    /// Whether a queue stands that is as long as a round trip makes it in which more is sent than the path takes.
    pub fn has_probed_queue(&self) -> bool {
        self.queue_micros() >= self.min() / PROBED_PART
    }

    /// Whether there is hardly a queue: an eighth of the shortest round trip, at most, or 1 ms.
    pub fn is_quiet(&self) -> bool {
        self.samples as usize >= NEWEST
            && self.queue_micros() < (self.min() / NONE_PART).max(LEAST_NONE)
    }

    /// The verdicts so far.
    pub const fn causes(&self) -> LossCauses {
        self.causes
    }

    fn is_plain(&self, queue: u32) -> bool {
        let variations = self.var.saturating_mul(PLAIN_VARIATIONS);
        queue > (self.min() / PLAIN_PART).saturating_add(variations)
    }

    fn min(&self) -> u32 {
        self.min[0].min(self.min[1])
    }

    /// The shortest of the newest round trips.
    fn shortest(&self) -> u32 {
        let newest = &self.newest[..NEWEST.min(self.samples as usize)];
        newest.iter().copied().min().unwrap_or(u32::MAX)
    }

    fn queue_micros(&self) -> u32 {
        self.shortest().saturating_sub(self.min())
    }
}

fn cause_of(score: f32) -> LossCause {
    if score < 0.25 {
        LossCause::Overflow
    } else if score > 0.75 {
        LossCause::Chance
    } else {
        LossCause::Unclear
    }
}

/// Up to half an hour, so that sums do not overflow.
const fn micros(duration: Duration) -> u32 {
    const MOST: u64 = 1800;
    if duration.as_secs() >= MOST {
        return MOST as u32 * 1_000_000;
    }
    duration.as_secs() as u32 * 1_000_000 + duration.subsec_micros()
}

#[cfg(test)]
#[path = "loss_cause_tests.rs"]
mod tests;
