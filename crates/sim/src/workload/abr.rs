//! The player of DASH-like video: its buffer, and the rule that chooses each chunk's bitrate. It is
//! independent of the network.
//!
//! The rules and constants are those of the player in Lee and Yoo's work on a learned scheduler (a
//! modified AStream), as far as their paper and scripts describe them.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of chunks in the average rate.
const HISTORY: usize = 20;

/// Chooses the bitrate of each video chunk from the download rate of the last 20 chunks.
///
/// **Rule.** The rate is the sum of the nominal bits of the last 20 chunks, divided by the sum of
/// their download times. If the rate is above 1.5 times the current bitrate, take the next higher
/// bitrate. If 0.9 times the rate is below the current bitrate, take the highest bitrate of which
/// 1.5 times is below the rate, or the lowest one. Otherwise keep the bitrate.
///
/// **Source.** Lee and Yoo 2022, section 5.5.
///
/// ```
/// use mpquic_sim::workload::RateRule;
///
/// let mut rule = RateRule::new(&[1_000_000, 5_000_000, 10_000_000]);
/// assert_eq!(rule.bitrate(), 1_000_000);
/// // A chunk of 1 s came in 0.1 s, at 10 Mbit/s: one step up.
/// rule.on_chunk(1.0, 0.1);
/// assert_eq!(rule.bitrate(), 5_000_000);
/// ```
#[derive(Debug, Clone)]
pub struct RateRule {
    /// Bit/s, ascending.
    encodings: Vec<u64>,
    /// The index of the encoding of the last chunk.
    current: usize,
    /// The nominal bits and the download time (s) of the last chunks.
    history: VecDeque<(f64, f64)>,
}

impl RateRule {
    /// A rule that chooses among these bitrates (bit/s, in any order). Without bitrates, it always
    /// chooses 0.
    pub fn new(encodings: &[u64]) -> Self {
        let mut encodings = encodings.to_vec();
        encodings.sort_unstable();
        Self {
            encodings,
            current: 0,
            history: VecDeque::with_capacity(HISTORY),
        }
    }

    /// The bitrate of the next chunk in bit/s. The first chunk has the lowest one.
    pub fn bitrate(&self) -> u64 {
        self.encodings.get(self.current).copied().unwrap_or(0)
    }

    /// A chunk of the current bitrate and this length has arrived; the download took this long.
    /// Both are in seconds.
    pub fn on_chunk(&mut self, length: f64, took: f64) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        let current = self.bitrate() as f64;
        self.history.push_back((current * length, took));
        let (bits, time) = self
            .history
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let rate = bits / time;
        if rate > 1.5 * current {
            self.current = (self.current + 1).min(self.encodings.len().saturating_sub(1));
        } else if 0.9 * rate < current {
            let fits = |bitrate: &u64| 1.5 * (*bitrate as f64) < rate;
            self.current = self.encodings.iter().rposition(fits).unwrap_or(0);
        }
    }
}

/// Plays chunks in order, each for its length, and stalls when it has none.
///
/// It needs one chunk to start, and one to continue after a stall. Any clock that does not go
/// backwards will do, with any origin.
///
/// ```
/// use std::time::Duration;
/// use mpquic_sim::workload::Player;
///
/// let ms = Duration::from_millis;
/// let mut player = Player::new(ms(1000), ms(0));
/// player.on_chunk(ms(300)); // plays until 1300 ms
/// player.on_chunk(ms(1500));
/// assert_eq!(player.startup(), ms(300));
/// assert_eq!(player.stalls(), (1, ms(200)));
/// assert_eq!(player.left(ms(1600)), ms(900));
/// ```
#[derive(Debug, Clone)]
pub struct Player {
    length: Duration,
    /// Chunks that wait for playback.
    waiting: u64,
    /// When the current chunk ends.
    playing_until: Option<Duration>,
    /// Since when there is nothing to play: since the start, or since a stall began.
    dry_since: Option<Duration>,
    started: bool,
    startup: Duration,
    stalls: u64,
    stalled: Duration,
}

impl Player {
    /// A player of chunks of this length. Its startup delay counts from `now`.
    pub const fn new(length: Duration, now: Duration) -> Self {
        Self {
            length,
            waiting: 0,
            playing_until: None,
            dry_since: Some(now),
            started: false,
            startup: Duration::ZERO,
            stalls: 0,
            stalled: Duration::ZERO,
        }
    }

    /// Plays until `now`.
    pub fn advance(&mut self, now: Duration) {
        while let Some(end) = self.playing_until
            && end <= now
        {
            if self.waiting > 0 {
                self.waiting -= 1;
                self.playing_until = Some(end + self.length);
            } else {
                self.playing_until = None;
                self.dry_since = Some(end);
            }
        }
    }

    /// Adds one chunk.
    pub fn on_chunk(&mut self, now: Duration) {
        self.advance(now);
        let Some(since) = self.dry_since.take() else {
            self.waiting += 1;
            return;
        };
        // One buffered chunk is enough to start, and to continue.
        self.playing_until = Some(now + self.length);
        let dry = now - since;
        if !self.started {
            self.started = true;
            self.startup = dry;
        } else if !dry.is_zero() {
            self.stalls += 1;
            self.stalled += dry;
        }
    }

    /// The number of buffered chunks that have not started.
    pub const fn buffered(&self) -> u64 {
        self.waiting
    }

    /// How long the buffered video lasts, at `now`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mpquic_sim::workload::Player;
    ///
    /// let ms = Duration::from_millis;
    /// let mut player = Player::new(ms(1000), ms(0));
    /// assert_eq!(player.left(ms(0)), ms(0));
    /// player.on_chunk(ms(300));
    /// player.on_chunk(ms(400));
    /// assert_eq!(player.left(ms(400)), ms(1900));
    /// assert_eq!(player.left(ms(5000)), ms(0));
    /// ```
    pub fn left(&self, now: Duration) -> Duration {
        let Some(end) = self.playing_until else {
            return Duration::ZERO;
        };
        let waiting = u32::try_from(self.waiting).unwrap_or(u32::MAX);
        let all = end.saturating_add(self.length.saturating_mul(waiting));
        all.saturating_sub(now)
    }

    /// When the current chunk ends and the next one starts; `None` while nothing plays.
    pub const fn next_change(&self) -> Option<Duration> {
        self.playing_until
    }

    /// The time from the start to the first picture; zero before it.
    pub const fn startup(&self) -> Duration {
        self.startup
    }

    /// The number of stalls and their total duration. Only stalls that are over count.
    pub const fn stalls(&self) -> (u64, Duration) {
        (self.stalls, self.stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    /// The bitrates (Mbit/s) chosen on a link of this rate (Mbit/s).
    fn choices(rate: f64, count: usize) -> Vec<u64> {
        let mut rule = RateRule::new(&[10 * MBIT, MBIT, 5 * MBIT]);
        (0..count)
            .map(|_| {
                let chosen = rule.bitrate();
                rule.on_chunk(1.0, chosen as f64 / (rate * 1e6));
                chosen / MBIT
            })
            .collect()
    }

    #[test]
    fn bitrates_by_hand() {
        // Not above 1.5 times 1.
        assert_eq!(choices(1.5, 4), [1, 1, 1, 1]);
        // Above it. 0.9 * 3 is below 5. Of 1.5 * 1, 1.5 * 5 and 1.5 * 10, only the first is below
        // 3.
        assert_eq!(choices(3.0, 5), [1, 5, 1, 5, 1]);
        // 0.9 * 6 = 5.4 is not below 5, and 6 is not above 7.5. The paper's minRTT behaves like
        // this.
        assert_eq!(choices(6.0, 4), [1, 5, 5, 5]);
        // Above 7.5, but 0.9 * 8 is below 10, and 1.5 * 5 is below 8: the bitrate alternates
        // evenly, as it does with the paper's ECF, whose mean is 7.5.
        assert_eq!(choices(8.0, 6), [1, 5, 10, 5, 10, 5]);
        // 0.9 * 12 is above 10.
        assert_eq!(choices(12.0, 4), [1, 5, 10, 10]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_twenty_chunks() {
        let mut rule = RateRule::new(&[MBIT, 5 * MBIT]);
        // Ten times slower than the bitrate: the lowest bitrate stays.
        for _ in 0..20 {
            rule.on_chunk(1.0, 10.0);
        }
        assert_eq!(rule.bitrate(), MBIT);
        // A few fast chunks do not outweigh the slow ones.
        rule.on_chunk(1.0, 0.01);
        assert_eq!(rule.bitrate(), MBIT);
        for _ in 0..17 {
            rule.on_chunk(1.0, 0.01);
        }
        // 20 Mbit in 2 * 10 + 18 * 0.01 s; with one slow chunk less, 1.96 Mbit/s.
        assert_eq!(rule.bitrate(), MBIT);
        rule.on_chunk(1.0, 0.01);
        assert_eq!(rule.bitrate(), 5 * MBIT);
    }

    #[test]
    fn a_player_starts_stalls_and_goes_on() {
        let ms = Duration::from_millis;
        let mut player = Player::new(ms(1000), ms(0));
        // Starts with one chunk at 400 ms. The next two wait.
        player.on_chunk(ms(400));
        player.on_chunk(ms(500));
        player.on_chunk(ms(600));
        assert_eq!(player.startup(), ms(400));
        assert_eq!(
            (player.buffered(), player.next_change()),
            (2, Some(ms(1400)))
        );
        player.advance(ms(1400));
        assert_eq!(
            (player.buffered(), player.next_change()),
            (1, Some(ms(2400)))
        );
        // Playback ends at 3400 ms and the next chunk comes at 3650 ms: one stall of 250 ms.
        player.on_chunk(ms(3650));
        assert_eq!(player.stalls(), (1, ms(250)));
        // A chunk that comes when the last one ends is in time.
        player.on_chunk(ms(4650));
        assert_eq!(player.stalls(), (1, ms(250)));
        assert_eq!(player.next_change(), Some(ms(5650)));
    }
}
