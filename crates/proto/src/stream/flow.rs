//! Receive windows and their auto-tuning (RFC 9000 section 4).
//!
//! A window starts small and follows what is consumed per round trip, times a factor that covers
//! the repair of losses, up to the configured maximum. It doubles, too, when the sender has used all
//! of it up and only a gap keeps the application from consuming: a path that falls behind the others
//! by more than its round trips told. That counts only if most of the window has arrived, and once
//! until the application reads again: else a peer could open the window to its maximum with a few bytes
//! at its end, or with data that nobody reads. Nor does it count between near hosts. Without auto-tuning it is at its maximum from the start. A new
//! limit is announced when a quarter of the window has been consumed since the last one.

use std::time::{Duration, Instant};

use mpquic_sched_core::VarInt;

/// What a stream's window starts at, unless its maximum is smaller.
pub(super) const INITIAL_STREAM_WINDOW: u64 = 1 << 20;

/// What the connection's window starts at, unless its maximum is smaller.
pub(super) const INITIAL_WINDOW: u64 = 3 << 19;

/// What a window starts at that would start at `initial` with auto-tuning.
pub(super) const fn first(auto_tuning: bool, initial: u64, max: u64) -> u64 {
    if auto_tuning { initial } else { max }
}

/// Round trips of consumption that a window covers. What was sent after a lost packet waits for it:
/// one round trip until the loss is noticed, one for the repair, and another if that is lost, too,
/// as it is with a queue of as long as the path, which the receiver's round-trip time does not know,
/// and with a limit that is announced only once a quarter of the window is consumed.
const ROUND_TRIPS: u64 = 8;

/// With shorter round trips on all paths, the hosts are near: what is missing there waits for a task that has its turn soon.
const NEAR: Duration = Duration::from_millis(1);

/// One receive window: a stream's, or the connection's.
#[derive(Debug)]
pub(super) struct RecvWindow {
    size: u64,
    max: u64,
    /// What there is memory for: no more is announced.
    memory: u64,
    /// The limit that the peer was told.
    announced: u64,
    /// Bytes that the application has read, or that were dropped.
    consumed: u64,
    /// Since when, and from which `consumed` on, the window's use is being measured.
    epoch: Option<(Instant, u64)>,
    /// When that was last looked at: a batch of packets comes at one time.
    looked_at: Option<Instant>,
    /// The application has read since the window last doubled.
    may_double: bool,
}

impl RecvWindow {
    pub(super) fn new(initial: u64, max: u64) -> Self {
        let size = initial.min(max).min(VarInt::MAX.into_inner());
        Self {
            size,
            max,
            memory: u64::MAX,
            announced: size,
            consumed: 0,
            epoch: None,
            looked_at: None,
            may_double: true,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The limit that holds for the peer.
    pub(super) fn limit(&self) -> u64 {
        self.announced
    }

    /// The application has read so much.
    pub(super) fn consume(&mut self, bytes: u64) {
        self.consumed += bytes;
        self.may_double = true;
    }

    /// The application will never read so much, which may never have been sent: that returns credit and
    /// says nothing of how fast it reads.
    pub(super) fn discard(&mut self, bytes: u64) {
        self.consumed += bytes;
        if let Some((_, from)) = &mut self.epoch {
            *from += bytes;
        }
    }

    /// There is memory for so many bytes. Credit that the peer has stays its own; it gets no more until
    /// that is used.
    pub(super) fn set_memory(&mut self, bytes: u64) {
        self.memory = bytes;
    }

    /// Another maximum from now on; `whole` if the window has that size at once. Credit that the peer has stays its own.
    pub(super) fn set_max(&mut self, max: u64, whole: bool) {
        self.max = max.min(VarInt::MAX.into_inner());
        self.size = if whole {
            self.max
        } else {
            self.size.min(self.max)
        };
    }

    /// What is to be open in front of what was consumed.
    fn open(&self) -> u64 {
        self.size.min(self.memory)
    }

    fn target(&self) -> u64 {
        (self.consumed.saturating_add(self.open())).min(VarInt::MAX.into_inner())
    }

    /// Whether a new limit is worth a frame (RFC 9000 section 4.2).
    pub(super) fn is_due(&self) -> bool {
        //= specs/rfc9000.txt#section-4.2
        //# Therefore, a receiver MUST NOT wait for a STREAM_DATA_BLOCKED or DATA_BLOCKED frame
        //# before sending a MAX_STREAM_DATA or MAX_DATA frame; doing so could result in the sender
        //# being blocked for the rest of the connection.
        self.target().saturating_sub(self.announced) >= (self.open() / 4).max(1)
    }

    /// The limit for a frame that is being written. Never falls.
    pub(super) fn announce(&mut self) -> u64 {
        self.announced = self.announced.max(self.target());
        self.announced
    }

    /// Measures, once per round trip; to be called as data arrives. `rtt` is the longest among the
    /// paths in use that windows cover. True if the window grew.
    #[inline]
    pub(super) fn tune(&mut self, now: Instant, rtt: impl FnOnce() -> Duration) -> bool {
        if self.size >= self.max || self.looked_at == Some(now) {
            return false;
        }
        self.measure(now, rtt())
    }

    #[inline(never)]
    fn measure(&mut self, now: Instant, rtt: Duration) -> bool {
        self.looked_at = Some(now);
        let Some((start, from)) = self.epoch else {
            self.epoch = Some((now, self.consumed));
            return false;
        };
        let elapsed = now.saturating_duration_since(start);
        if elapsed < rtt || elapsed.is_zero() {
            return false;
        }
        self.epoch = Some((now, self.consumed));
        let consumed = u128::from(self.consumed - from);
        let per_round_trip = consumed * rtt.as_nanos() / elapsed.as_nanos();
        let before = self.size;
        let per_round_trip = u64::try_from(per_round_trip).unwrap_or(u64::MAX);
        self.grow_to(per_round_trip.saturating_mul(ROUND_TRIPS));
        self.size > before
    }

    /// The peer has used up all that it may send, and what the application waits for is still on its way.
    /// So much has arrived behind it. `rtt` is as for [`tune`](Self::tune). True if the window grew.
    pub(super) fn on_starved(&mut self, waiting: u64, rtt: Duration) -> bool {
        if rtt < NEAR || !self.may_double || waiting < self.size / 2 {
            return false;
        }
        self.may_double = false;
        let before = self.size;
        self.grow_to(self.size.saturating_mul(2));
        self.size > before
    }

    /// Grows to `size`, if the maximum lets it.
    pub(super) fn grow_to(&mut self, size: u64) {
        self.size = self.size.max(size.min(self.max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_for_what_arrived_and_once_until_something_is_read() {
        let mut window = RecvWindow::new(1000, 8000);
        assert!(
            !window.on_starved(499, NEAR),
            "the peer sent next to nothing"
        );
        assert!(window.on_starved(500, NEAR));
        assert!(!window.on_starved(2000, NEAR), "nothing was read since");
        window.discard(10);
        assert!(!window.on_starved(2000, NEAR));
        window.consume(1);
        assert!(window.on_starved(2000, NEAR));
        assert_eq!(window.size(), 4000);
        window.consume(1);
        let near = Duration::from_micros(250);
        assert!(!window.on_starved(4000, near), "it comes soon");
    }

    #[test]
    fn a_new_maximum_takes_no_credit_back() {
        let mut window = RecvWindow::new(1000, 8000);
        window.set_max(400, false);
        assert_eq!((window.size(), window.announce()), (400, 1000));
        window.consume(700);
        assert!(window.is_due());
        assert_eq!(window.announce(), 1100);
        window.set_max(2000, false);
        assert_eq!(window.size(), 400, "it grows by use");
        window.set_max(2000, true);
        assert_eq!((window.size(), window.announce()), (2000, 2700));
    }

    #[test]
    fn no_more_is_announced_than_there_is_memory_for() {
        let mut window = RecvWindow::new(1000, 8000);
        window.set_memory(400);
        window.consume(600);
        assert!(!window.is_due());
        window.consume(99);
        assert!(!window.is_due());
        window.consume(1);
        assert!(window.is_due());
        assert_eq!(window.announce(), 1100);
        window.set_memory(u64::MAX);
        assert_eq!(window.announce(), 1700);
    }

    /// Streams that are reset at the end of their windows cost a peer nothing.
    #[test]
    fn what_is_dropped_does_not_grow_the_window() {
        let rtt = Duration::from_millis(100);
        let mut now = Instant::now();
        let mut window = RecvWindow::new(1000, 8000);
        for _ in 0..100 {
            window.tune(now, || rtt);
            window.discard(1000);
            window.announce();
            now += rtt;
        }
        assert_eq!(window.size(), 1000);
        assert_eq!(window.limit(), 101_000);
    }

    #[test]
    fn follows_what_is_consumed_per_round_trip() {
        let rtt = Duration::from_millis(100);
        let mut now = Instant::now();
        let mut window = RecvWindow::new(1000, 8000);
        for _ in 0..100 {
            // An eighth of the window.
            window.consume(125);
            assert!(!window.tune(now, || rtt));
            now += rtt;
        }
        assert_eq!(window.size(), 1000);
        window.consume(400);
        assert!(
            !window.tune(now - rtt / 10, || rtt),
            "the round trip is not over"
        );
        // 400 bytes in two round trips.
        assert!(window.tune(now + rtt, || rtt));
        assert_eq!(window.size(), 1600);
        window.consume(8000);
        assert!(window.tune(now + rtt * 2, || rtt));
        assert_eq!(window.size(), 8000, "the maximum");
        assert_eq!(window.announce(), window.consumed() + 8000);
        assert!(!window.is_due());
        window.consume(1999);
        assert!(!window.is_due());
        window.consume(1);
        assert!(window.is_due());
    }
}
