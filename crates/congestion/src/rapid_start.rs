//! Rapid Start (draft-kazuho-ccwg-rapid-start): faster growth while there is no queue, and a first recovery that converges
//! to what the path delivers; holds no window.
//!
//! Beyond the draft:
//!
//! - **Growth ends before a loss** if a queue grows within a round. HyStart++ (RFC 9406) compares the shortest round trips
//!   of two rounds. Packets of a window leave in half a round trip, so that the queue of a round drains before the next one
//!   begins, and the shortest round trip rises only once the window is twice what the path holds. Here the newest samples of
//!   a round are compared with the highest that the round before had. Delay variation is in both, and does not count.
//! - **Growth slows within a round** too, as soon as the newest samples tell of a queue.
//! - The initial window is paced as any other: the draft spreads a window that is twice as large over the round trip.

use std::time::{Duration, Instant};

use super::round_variation::RoundVariation;
use super::slow_start::Growth;

/// A round trip this much above the shortest tells of a queue: the smaller of both counts (the draft's
/// `queue_buildup_thresh`).
const QUEUE: Duration = Duration::from_millis(4);
const QUEUE_FACTOR: f64 = 1.1;

/// The queue has grown within a round if the newest samples are above those of the round before by [`RoundVariation::rise`],
/// and no less than this. RFC 9406 section 4.3 has 4 ms: it cannot tell delay variation from a queue, and that is too much for
/// round trips below 30 ms.
const MIN_RISE: Duration = Duration::from_millis(1);

/// The newest samples: the shortest of so many counts (N_RTT_SAMPLE of RFC 9406). A round with fewer tells nothing.
const SAMPLES: usize = 8;

/// The draft's factors, by the part of the window that a congestion event leaves.
const SILENCE_SHARE: f64 = 2.0 / 3.0;
/// The most that growth can have left above what the path holds.
const MAX_OVERSHOOT: f64 = 3.0;

/// What a queue has to exceed to end growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The highest that the shortest of the newest samples was in the round before, and what delay varies by.
    AboveCeiling,
    /// Each pair of samples of the round before, too. The packets of a larger window are closer together, and the newest eight of them
    /// may all stand behind one that was held up, as two did in the round before: that is no queue yet.
    AboveTop,
}

/// The first slow start of one path. A round ends when a packet is acknowledged that was sent after the round began.
#[derive(Debug, Clone, Default)]
pub(super) struct RapidStart {
    round_start: Option<Instant>,
    /// The shortest round trip so far in nanoseconds, of packets that fill the window: those of the handshake are smaller and faster.
    min: u64,
    /// The samples of this round, and what those of the round before varied by.
    variation: RoundVariation,
    /// The newest samples in nanoseconds, 4 s at most, by their number modulo the length.
    newest: [u32; SAMPLES],
    count: u32,
    /// The highest that the shortest of the newest samples was, in this round and in the one before; 0: there were too few.
    ceiling: u32,
    last_ceiling: u32,
    /// The highest that two samples in a row were, likewise.
    top: u32,
    last_top: u32,
    /// The packets of one ACK frame share its sample.
    sampled_at: Option<Instant>,
}

impl RapidStart {
    /// A packet sent at `sent` was acknowledged; `rtt` is the newest sample.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        rtt: Duration,
        end: End,
    ) -> Growth {
        if self.round_start.is_none_or(|start| sent >= start) {
            self.begin_round(now);
        }
        if self.sampled_at != Some(now) {
            self.sampled_at = Some(now);
            if self.sample(rtt, end) {
                return Growth::Exit;
            }
        }
        if self.has_queue() {
            Growth::By(bytes)
        } else {
            Growth::By(bytes.saturating_mul(2))
        }
    }

    fn begin_round(&mut self, now: Instant) {
        self.round_start = Some(now);
        self.variation.end_round();
        self.last_ceiling = std::mem::take(&mut self.ceiling);
        self.last_top = std::mem::take(&mut self.top);
    }

    /// Takes in a sample; true if a queue has grown in this round.
    fn sample(&mut self, rtt: Duration, end: End) -> bool {
        let whole = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        self.min = match self.count {
            0 => whole,
            _ => self.min.min(whole),
        };
        let sample = u32::try_from(whole).unwrap_or(u32::MAX);
        if self.variation.samples() > 0 {
            let before = self.newest[(self.count as usize + SAMPLES - 1) % SAMPLES];
            self.top = self.top.max(sample.min(before));
        }
        self.newest[self.count as usize % SAMPLES] = sample;
        self.count = self.count.saturating_add(1);
        self.variation.on_sample(rtt);
        if (self.variation.samples() as usize) < SAMPLES {
            return false;
        }
        let shortest = self.shortest();
        self.ceiling = self.ceiling.max(shortest);
        let rise = self
            .variation
            .rise(Duration::from_nanos(self.min), MIN_RISE);
        self.last_ceiling > 0
            && nanos(shortest) >= nanos(self.last_ceiling).saturating_add(rise)
            && (end == End::AboveCeiling || shortest > self.last_top)
    }

    /// The shortest of the newest samples, nanoseconds.
    fn shortest(&self) -> u32 {
        let newest = &self.newest[..(self.count as usize).min(SAMPLES)];
        newest.iter().copied().min().unwrap_or(0)
    }

    /// Whether a queue stands, or has just begun to grow.
    pub(super) fn has_queue(&self) -> bool {
        let Some(round) = self.variation.shortest() else {
            return false;
        };
        let min = Duration::from_nanos(self.min);
        let most = min.saturating_add(QUEUE).min(min.mul_f64(QUEUE_FACTOR));
        round.max(nanos(self.shortest())) > most
    }
}

fn nanos(nanos: u32) -> Duration {
    Duration::from_nanos(nanos.into())
}

/// The first recovery: how a window that grew beyond the path comes down to what the path delivers, times `beta`, by the end
/// of the recovery period. Until then the sender stays silent for no longer than in any other recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convergence {
    /// What a congestion event leaves of a window.
    beta: f64,
    /// No less is left, whatever is lost.
    floor: f64,
}

impl Convergence {
    /// A loss ended the first slow start at this window.
    pub(super) fn new(window: f64, beta: f64) -> Self {
        Self {
            beta,
            floor: window * beta / MAX_OVERSHOOT,
        }
    }

    /// What is left of the window at once: the draft's `silence_factor`.
    pub(super) fn begin(self, window: f64) -> f64 {
        window * self.loss_factor()
    }

    /// The window after so many bytes were acknowledged or lost.
    pub(super) fn window(self, window: f64, acked: u64, lost: u64) -> f64 {
        let acked = acked as f64 * SILENCE_SHARE * (1.0 - self.beta);
        let left = window - acked - lost as f64 * self.loss_factor();
        left.max(self.floor.min(window))
    }

    /// What the path and its queue hold, if this window is what recovery has left.
    pub(super) fn full(self, window: f64) -> f64 {
        window / self.beta
    }

    fn loss_factor(self) -> f64 {
        self.beta + SILENCE_SHARE * (1.0 - self.beta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A round of so many acknowledgements, one per millisecond, each with its round trip; what they brought.
    fn round(
        rapid: &mut RapidStart,
        start: Instant,
        rtts: impl IntoIterator<Item = u64>,
    ) -> Vec<Growth> {
        let acks = rtts.into_iter().enumerate();
        acks.map(|(i, rtt)| {
            let sent = start + ms(i as u64);
            rapid.on_ack(sent + ms(rtt), sent, 1200, ms(rtt), End::AboveCeiling)
        })
        .collect()
    }

    fn at(start: Instant, round: u64) -> Instant {
        start + ms(200 * round)
    }

    #[test]
    fn triples_without_a_queue_and_doubles_beside_one() {
        let start = Instant::now();
        let mut rapid = RapidStart::default();
        for i in 0..20 {
            let growths = round(&mut rapid, at(start, i), [50; 16]);
            assert_eq!(growths, [Growth::By(2400); 16], "{i}");
        }
        // 4 ms more are a queue; a round trip of 30 ms has one with 3 ms more.
        let growths = round(&mut rapid, at(start, 20), [54, 54, 55, 55]);
        assert_eq!(growths[..2], [Growth::By(2400); 2]);
        assert_eq!(
            growths[2..],
            [Growth::By(2400); 2],
            "some samples have none"
        );
        let growths = round(&mut rapid, at(start, 21), [55; 12]);
        assert_eq!(growths, [Growth::By(1200); 12]);
        let mut short = RapidStart::default();
        round(&mut short, start, [30]);
        assert_eq!(round(&mut short, at(start, 1), [33]), [Growth::By(2400)]);
        assert_eq!(round(&mut short, at(start, 2), [34]), [Growth::By(1200)]);
    }

    /// The queue grows within the second round: that is enough.
    #[test]
    fn ends_in_the_round_in_which_the_queue_grows() {
        let start = Instant::now();
        let mut rapid = RapidStart::default();
        round(&mut rapid, start, [80; 16]);
        let growths = round(&mut rapid, at(start, 1), (0..40).map(|i| 80 + i));
        let exit = growths.iter().position(|growth| *growth == Growth::Exit);
        // An eighth, 10 ms; the shortest of the newest eight is 7 ms behind.
        assert_eq!(exit, Some(17));
    }

    /// Twice as much delay as the queue that would end it, in every round.
    #[test]
    fn delay_variation_does_not_end_it() {
        let start = Instant::now();
        let mut rapid = RapidStart::default();
        let jitter = |i: u64| 40 + [0, 3, 9, 10, 10, 10, 10, 10, 10, 10, 10, 6][i as usize % 12];
        for i in 0..12 {
            let growths = round(&mut rapid, at(start, i), (0..48).map(jitter));
            assert!(!growths.contains(&Growth::Exit), "{i}");
        }
    }

    /// A satellite's round trips that vary by three per cent: in the third round, chance alone has the newest eight 24 ms above
    /// those of the second.
    #[test]
    fn long_round_trips_that_vary_do_not_end_it() {
        for (spread, ends) in [(0, true), (60, false)] {
            let start = Instant::now();
            let at = |round: u64| start + ms(2000 * round);
            let mut rapid = RapidStart::default();
            for i in 0..2 {
                let rtts = (0..20).map(|j| 560 + j % 3 * spread / 2);
                assert!(!round(&mut rapid, at(i), rtts).contains(&Growth::Exit));
            }
            let growths = round(&mut rapid, at(2), [584; 10]);
            assert_eq!(growths.contains(&Growth::Exit), ends, "{spread}");
            // A queue does.
            let growths = round(&mut rapid, at(3), (0..100).map(|j| 560 + 2 * j));
            assert!(growths.contains(&Growth::Exit), "{spread}");
        }
    }

    /// Sixteen packets of the first round, of which two are held up by 40 ms; four times as many in the second one, with sixteen in a row
    /// behind another such delay. Only those that are later than all pairs are in a queue.
    #[test]
    fn packets_behind_one_that_was_held_up_are_no_queue() {
        for (end, ends) in [(End::AboveCeiling, true), (End::AboveTop, false)] {
            let start = Instant::now();
            let mut rapid = RapidStart::default();
            let mut ack = |round: u64, i: u64, rtt: u64| {
                let sent = start + ms(1000 * round + i);
                rapid.on_ack(sent + ms(rtt), sent, 1200, ms(rtt), end) == Growth::Exit
            };
            for i in 0..16 {
                assert!(!ack(0, i, 300 + if i / 2 == 3 { 40 } else { 0 }));
            }
            let held = (0..64).any(|i| ack(1, i, 300 + if i / 16 == 2 { 40 } else { 0 }));
            assert_eq!(held, ends, "{end:?}");
            assert!((0..64).any(|i| ack(2, i, 300 + i)), "{end:?}");
        }
    }

    /// One packet late is no queue.
    #[test]
    fn single_samples_do_not_count() {
        let start = Instant::now();
        let mut rapid = RapidStart::default();
        for i in 0..10 {
            let rtts = (0..20).map(|j| if (i + j) % 7 == 0 { 90 } else { 50 });
            assert!(!round(&mut rapid, at(start, i), rtts).contains(&Growth::Exit));
        }
    }

    /// A window of three times what the path holds: two thirds are lost, and `beta` of the path is left. The same without
    /// any loss but the first packet: `beta` of the window is left.
    #[test]
    fn recovery_ends_at_what_the_path_delivers() {
        for beta in [0.5, 0.7] {
            for lost in [0u64, 10_000, 100_000, 199_000] {
                let convergence = Convergence::new(300_000.0, beta);
                let mut window = convergence.begin(300_000.0);
                let acked = 300_000 - lost;
                for _ in 0..100 {
                    window = convergence.window(window, acked / 100, lost / 100);
                }
                let expected = acked as f64 * beta;
                assert!((window - expected).abs() < 10.0, "{window} {expected}");
                assert!((convergence.full(window) - acked as f64).abs() < 20.0);
            }
            // More is no overflow of a queue.
            let convergence = Convergence::new(300_000.0, beta);
            let window = convergence.window(convergence.begin(300_000.0), 0, 290_000);
            assert!((window - 100_000.0 * beta).abs() < 1e-6, "{window}");
        }
    }
}
