//! The player of DASH-like video: its buffer, and the rule that chooses each chunk's bitrate; pure, it knows no connection.
//!
//! Rules and constants are those of the player in Lee and Yoo's work on a learned scheduler
//! (AStream, changed by them), as far as their paper and scripts tell.

use std::collections::VecDeque;
use std::time::Duration;

/// Chunks over which the rate is averaged.
const HISTORY: usize = 20;

/// Chooses the bitrate of each chunk of video by the rate at which the last 20 came in.
///
/// **Rule.** The rate is the sum of the last 20 chunks' nominal bits by the sum of their times. Above
/// 1.5 times the current bitrate: one step up. If 0.9 of it are below the current bitrate: the
/// highest bitrate of which 1.5 times are below it, or the lowest. Else: no change.
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
    /// Index of the encoding of the last chunk.
    current: usize,
    /// Nominal bits and download time (s) of the last chunks.
    history: VecDeque<(f64, f64)>,
}

impl RateRule {
    /// A rule that chooses among these bitrates (bit/s), in any order; from none of them, always 0.
    pub fn new(encodings: &[u64]) -> Self {
        let mut encodings = encodings.to_vec();
        encodings.sort_unstable();
        Self {
            encodings,
            current: 0,
            history: VecDeque::with_capacity(HISTORY),
        }
    }

    /// The bitrate of the next chunk, bit/s: the lowest at first.
    pub fn bitrate(&self) -> u64 {
        self.encodings.get(self.current).copied().unwrap_or(0)
    }

    /// A chunk of the current bitrate and this length took so long; both in seconds.
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

/// Plays chunks in order, each for its length; stalls when there is none.
///
/// One chunk is enough to start, and to go on after a stall. Times are those of any clock that does
/// not go back, counted from any moment.
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
    /// Chunks that wait to be played.
    waiting: u64,
    /// When the chunk that is played now is over.
    playing_until: Option<Duration>,
    /// Since when there was nothing to play: from the start, or in a stall.
    dry_since: Option<Duration>,
    started: bool,
    startup: Duration,
    stalls: u64,
    stalled: Duration,
}

impl Player {
    /// A player of chunks of this length that wants to begin at `now`.
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

    /// Plays up to `now`.
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

    /// One more chunk is there.
    pub fn on_chunk(&mut self, now: Duration) {
        self.advance(now);
        let Some(since) = self.dry_since.take() else {
            self.waiting += 1;
            return;
        };
        // One buffered chunk is enough to start, and to go on.
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

    /// Chunks buffered and not begun.
    pub const fn buffered(&self) -> u64 {
        self.waiting
    }

    /// How long it can go on with what it has, as of `now`.
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

    /// When the chunk that plays ends, and the next one is taken from the buffer; `None` if none plays.
    pub const fn next_change(&self) -> Option<Duration> {
        self.playing_until
    }

    /// From the start to the first picture; zero before it.
    pub const fn startup(&self) -> Duration {
        self.startup
    }

    /// How often there was nothing to play, and for how long in all; only what is over.
    pub const fn stalls(&self) -> (u64, Duration) {
        (self.stalls, self.stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    /// The bitrates chosen on a link of this rate in Mbit/s, in Mbit/s.
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
        // Above it; 0.9 * 3 is below 5, and of 1.5 * 1, 1.5 * 5, 1.5 * 10 only the first is below 3.
        assert_eq!(choices(3.0, 5), [1, 5, 1, 5, 1]);
        // 0.9 * 6 = 5.4 is not below 5, and 6 is not above 7.5: what the paper's minRTT shows.
        assert_eq!(choices(6.0, 4), [1, 5, 5, 5]);
        // Above 7.5, but 0.9 * 8 is below 10, and 1.5 * 5 is below 8: an even alternation, as the
        // paper's ECF shows with a mean of 7.5.
        assert_eq!(choices(8.0, 6), [1, 5, 10, 5, 10, 5]);
        // 0.9 * 12 is above 10.
        assert_eq!(choices(12.0, 4), [1, 5, 10, 10]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_twenty_chunks() {
        let mut rule = RateRule::new(&[MBIT, 5 * MBIT]);
        // Ten times slower than the bitrate: stays at the lowest.
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
        // Starts with one chunk at 400 ms; the next two wait.
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
        // All played at 3400 ms; the next comes at 3650 ms: one stall of 250 ms.
        player.on_chunk(ms(3650));
        assert_eq!(player.stalls(), (1, ms(250)));
        // A chunk that comes as the last one ends is in time.
        player.on_chunk(ms(4650));
        assert_eq!(player.stalls(), (1, ms(250)));
        assert_eq!(player.next_change(), Some(ms(5650)));
    }
}
