//! How much more a path acknowledges at a time than its rate explains (BBR.extra_acked, section
//! 5.5.9); bounds no window itself.

use std::time::Instant;

/// BBR.ExtraAckedFilterLen, rounds.
const FILTER_ROUNDS: usize = 10;

/// The estimator of one path.
#[derive(Debug)]
pub(super) struct Aggregation {
    interval_start: Instant,
    /// Bytes acknowledged since then.
    delivered: u64,
    /// The largest excess of each of the newest rounds, by round number modulo the length.
    rounds: [u64; FILTER_ROUNDS],
    newest: u64,
}

impl Aggregation {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            interval_start: now,
            delivered: 0,
            rounds: [0; FILTER_ROUNDS],
            newest: 0,
        }
    }

    /// Sending begins again after silence: what was expected meanwhile could not come.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.interval_start = now;
    }

    /// UpdateACKAggregation(): bytes were acknowledged in this round; `bw` in bytes per second.
    pub(super) fn update(&mut self, now: Instant, round: u64, acked: u64, bw: f64, cwnd: u64) {
        let elapsed = now.saturating_duration_since(self.interval_start);
        let mut expected = (bw * elapsed.as_secs_f64()) as u64;
        if self.delivered <= expected {
            self.delivered = 0;
            self.interval_start = now;
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(acked);
        let extra = (self.delivered - expected.min(self.delivered)).min(cwnd);
        self.advance(round);
        let slot = &mut self.rounds[(round % FILTER_ROUNDS as u64) as usize];
        *slot = (*slot).max(extra);
    }

    /// Clears the slots of the rounds since the newest one.
    fn advance(&mut self, round: u64) {
        let gone = round.saturating_sub(self.newest).min(FILTER_ROUNDS as u64);
        for back in 0..gone {
            self.rounds[((round - back) % FILTER_ROUNDS as u64) as usize] = 0;
        }
        self.newest = self.newest.max(round);
    }

    /// The largest excess, bytes: of the current round alone before the pipe was full once.
    pub(super) fn extra(&self, full_pipe_reached: bool) -> u64 {
        if full_pipe_reached {
            self.rounds.into_iter().fold(0, u64::max)
        } else {
            self.rounds[(self.newest % FILTER_ROUNDS as u64) as usize]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A path of 1 MB/s that acknowledges 10 kB every 10 ms, and once 30 kB after 30 ms of silence.
    #[test]
    fn an_episode_is_remembered_for_ten_rounds() {
        let t0 = Instant::now();
        let at = |ms| t0 + Duration::from_millis(ms);
        let mut aggregation = Aggregation::new(t0);
        let mut update = |ms, round, acked| {
            aggregation.update(at(ms), round, acked, 1e6, 100_000);
            (aggregation.extra(false), aggregation.extra(true))
        };
        // The interval begins with the first acknowledgement, which is excess as a whole.
        assert_eq!(update(10, 1, 10_000), (10_000, 10_000));
        // 10 kB expected and 10 kB come: the interval begins again.
        assert_eq!(update(20, 1, 10_000), (10_000, 10_000));
        assert_eq!(update(50, 2, 30_000), (30_000, 30_000));
        // 30 kB more than the 10 kB expected since then.
        assert_eq!(update(60, 2, 10_000), (30_000, 30_000));
        assert_eq!(update(90, 3, 5_000), (5_000, 30_000));
        assert_eq!(update(200, 11, 5_000), (5_000, 30_000));
        assert_eq!(update(300, 12, 5_000), (5_000, 5_000));
        // No more than the window.
        assert_eq!(update(400, 40, 500_000), (100_000, 100_000));
    }

    #[test]
    fn silence_by_choice_is_no_aggregation() {
        let t0 = Instant::now();
        let mut aggregation = Aggregation::new(t0);
        aggregation.update(t0, 1, 5_000, 1e6, 100_000);
        let later = t0 + Duration::from_secs(1);
        aggregation.restart(later);
        aggregation.update(later, 20, 1_000, 1e6, 100_000);
        assert_eq!(aggregation.extra(true), 6_000);
    }
}
