//! Loss that no slowing down cures: measured in the cruise, so that only what exceeds it counts as
//! congestion; decides nothing.
//!
//! The draft answers every loss in the cruise by falling back to what was delivered of what was sent
//! (section 5.5.10.3). On a path that loses one packet in fifty however little it carries, that is
//! always less than what was sent, and each round sends less than the one before: until the next
//! probe, less than a third is left. Congestion does not behave so: once less is sent, the loss
//! ends. So loss counts as ambient if it goes on in rounds that
//!
//! - cruise, at no more than the path was seen to deliver,
//! - come after the model gave way to loss, as the draft has it: the first answer is always to slow
//!   down, and
//! - saw a round trip near the shortest: no queue stands.
//!
//! Bursts, as the probes of other flows cause them, count for no more than the largest rate that is
//! taken for ambient.

use std::time::Duration;

/// The largest part of the packets that is taken for ambient loss.
pub(super) const MAX_RATE: f64 = 0.05;
/// Lost packets before there is a measurement.
const MIN_LOST: f64 = 3.0;
/// Packets before there is one.
const MIN_PACKETS: f64 = 128.0;
/// The shortest round trip of a round without a standing queue, relative to that of the path.
const NO_QUEUE: f64 = 1.5;
/// Standard deviations by which losses must exceed what is expected of chance.
const DEVIATIONS: f64 = 3.0;

/// How many of so many packets may be lost by chance where ambient loss is at its most.
pub(super) fn most(packets: f64) -> f64 {
    by_chance(packets * MAX_RATE)
}

/// The most that is not yet remarkable of what chance brings, where so much is to be expected.
fn by_chance(expected: f64) -> f64 {
    expected + DEVIATIONS * expected.sqrt()
}

/// Whether a queue stood in a round, all through it, as far as its shortest round trip tells.
pub(super) fn has_queue(round: Option<Duration>, path: Option<Duration>) -> bool {
    match (round, path) {
        (Some(round), Some(path)) => round.as_secs_f64() > path.as_secs_f64() * NO_QUEUE,
        _ => true,
    }
}

pub(super) fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Packets, and those of them that were lost.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    packets: f64,
    lost: f64,
}

/// The estimator of one path.
#[derive(Debug, Default)]
pub(super) struct Ambient {
    /// Of the round under way, and its shortest round trip.
    round: Tally,
    rtt: Option<Duration>,
    /// The round under way began in the cruise, and not with it: what is acknowledged in it was sent
    /// in the cruise.
    settled: bool,
    /// Of the cruise before the newest, and of the newest.
    previous: Tally,
    current: Tally,
    rate: f64,
    /// What earlier connections have measured counts until this one has.
    expected: f64,
}

impl Ambient {
    /// The path is known to lose this part of the packets by chance.
    pub(super) const fn expect(&mut self, rate: f64) {
        self.expected = rate.clamp(0.0, MAX_RATE);
        if self.rate == 0.0 {
            self.rate = self.expected;
        }
    }

    /// A cruise begins.
    pub(super) fn on_cruise(&mut self) {
        if self.current.packets >= MIN_PACKETS {
            self.previous = std::mem::take(&mut self.current);
        }
        self.settled = false;
    }

    /// Packets (full-sized ones) were acknowledged and lost.
    pub(super) fn on_ack(&mut self, acked: f64, lost: f64, rtt: Option<Duration>) {
        self.round.packets += acked + lost;
        self.round.lost += lost;
        self.rtt = shorter(self.rtt, rtt);
    }

    /// A round ends, in the cruise or not; `relieved`: at its begin, the path was sent less than it
    /// was seen to deliver, because of loss. True if there is a measurement now and was none before.
    pub(super) fn on_round(
        &mut self,
        cruising: bool,
        relieved: bool,
        min_rtt: Option<Duration>,
    ) -> bool {
        let round = std::mem::take(&mut self.round);
        let rtt = self.rtt.take();
        let counts = cruising && std::mem::replace(&mut self.settled, cruising);
        if !counts || has_queue(rtt, min_rtt) || !(relieved || self.rate > 0.0) {
            return false;
        }
        self.current.packets += round.packets;
        self.current.lost += round.lost.min((round.packets * MAX_RATE).max(1.0));
        let packets = self.previous.packets + self.current.packets;
        let lost = self.previous.lost + self.current.lost;
        let before = self.rate;
        self.rate = if packets >= MIN_PACKETS && lost >= MIN_LOST {
            (lost / packets).min(MAX_RATE)
        } else {
            self.expected
        };
        before == 0.0 && self.rate > 0.0
    }

    /// How many of so many packets may be lost before it is remarkable where the part `tolerated` is no reason to slow down.
    /// For a few packets that is more than this part of them.
    pub(super) fn remarkable(&self, packets: f64, tolerated: f64) -> f64 {
        by_chance(packets * (self.rate + tolerated))
    }

    /// How many of so many packets may be lost before it is more than chance, beside the part
    /// `tolerated`.
    pub(super) fn allowance(&self, packets: f64, tolerated: f64) -> f64 {
        packets * tolerated + by_chance(packets * self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Rounds of a hundred packets in the cruise, so many of them lost.
    fn rounds(ambient: &mut Ambient, count: usize, lost: f64, relieved: bool, rtt: u64) -> usize {
        let mut news = 0;
        for _ in 0..count {
            ambient.on_ack(100.0 - lost, lost, Some(ms(rtt)));
            news += usize::from(ambient.on_round(true, relieved, Some(ms(100))));
        }
        news
    }

    fn cruising() -> Ambient {
        let mut ambient = Ambient::default();
        ambient.on_cruise();
        // The first round acknowledges what was sent before.
        assert_eq!(rounds(&mut ambient, 1, 50.0, true, 100), 0);
        ambient
    }

    #[test]
    fn is_measured_once_the_path_is_relieved() {
        let mut ambient = cruising();
        assert_eq!(rounds(&mut ambient, 20, 2.0, false, 100), 0);
        assert_eq!(ambient.allowance(100.0, 0.02), 2.0);
        // Three packets of at least 128.
        assert_eq!(rounds(&mut ambient, 1, 2.0, true, 100), 0);
        assert_eq!(rounds(&mut ambient, 1, 2.0, true, 100), 1);
        // From then on in every cruise: 2 % of 400 packets are 8, and chance may add 3 * sqrt(8).
        assert_eq!(rounds(&mut ambient, 20, 2.0, false, 100), 0);
        let allowed = ambient.allowance(400.0, 0.0);
        assert!((allowed - 16.485).abs() < 1e-3, "{allowed}");
        assert!((ambient.allowance(400.0, 0.02) - allowed - 8.0).abs() < 1e-9);
    }

    #[test]
    fn loss_that_ends_when_less_is_sent_is_none() {
        let mut ambient = cruising();
        assert_eq!(rounds(&mut ambient, 50, 0.0, true, 100), 0);
        assert_eq!(ambient.allowance(100.0, 0.0), 0.0);
    }

    #[test]
    fn rounds_with_a_queue_do_not_count() {
        let mut ambient = cruising();
        assert_eq!(rounds(&mut ambient, 50, 2.0, true, 151), 0);
        assert_eq!(rounds(&mut ambient, 2, 2.0, true, 150), 1);
    }

    /// One round in ten loses half its packets, as while another flow probes: that is 5 %, and
    /// counts as a tenth of it.
    #[test]
    fn bursts_count_for_little() {
        let mut ambient = cruising();
        for _ in 0..20 {
            rounds(&mut ambient, 1, 50.0, true, 100);
            rounds(&mut ambient, 9, 0.0, true, 100);
        }
        assert!((ambient.rate - 0.005).abs() < 1e-9, "{}", ambient.rate);
    }

    #[test]
    fn what_is_gone_is_forgotten_after_two_cruises() {
        let mut ambient = cruising();
        rounds(&mut ambient, 10, 3.0, true, 100);
        assert!((ambient.rate - 0.03).abs() < 1e-9);
        for expected in [0.015, 0.0] {
            ambient.on_cruise();
            rounds(&mut ambient, 1, 3.0, false, 100);
            rounds(&mut ambient, 10, 0.0, false, 100);
            assert!((ambient.rate - expected).abs() < 1e-9, "{}", ambient.rate);
        }
    }

    #[test]
    fn no_more_than_the_largest_rate() {
        let mut ambient = cruising();
        rounds(&mut ambient, 10, 20.0, true, 100);
        assert_eq!(ambient.rate, MAX_RATE);
        // 5 + 3 * sqrt(5) of a hundred.
        assert!((most(100.0) - 11.708).abs() < 1e-3);
        assert!((ambient.allowance(100.0, 0.0) - most(100.0)).abs() < 1e-9);
    }
}
