//! When the sockets are read at intervals and not with each datagram: while one transfer comes one datagram at a time.
//!
//! A network card that joins nothing gives each datagram of a download by itself. To be woken costs several times what the
//! datagram costs, so a receiver that lets a few gather does with a fraction of the work. Network cards do the same with their
//! interrupts.

use std::ops::AddAssign;
use std::time::Duration;

use tokio::time::Instant;

/// What comes is looked at for so long before it is judged.
const WINDOW: Duration = Duration::from_millis(10);

/// An interval is this part of the round trip at most. Nobody is to feel it: packets of Wi-Fi wait as long for others.
const OF_ROUND_TRIP: u32 = 8;

/// For so many round trips a transfer is read as it comes. Its sender is in slow start, where acknowledgements that come together
/// make it send a burst, and lose the end of that: 15 MB over 100 Mbit/s and 20 ms came at 0.94 of the rate.
const ROUND_TRIPS_OF_SLOW_START: u32 = 16;

/// After a pause of so long, a transfer is another one, which may begin with slow start again.
const PAUSE: Duration = Duration::from_millis(100);

/// The runtime's timers are no finer, and may be late by as much.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(4);

/// An interval is to gather so many datagrams at least, or it does not pay ...
const FEWEST: usize = 4;

/// ... and at most: where no limit was raised, a socket of Linux holds some ninety (212,992 bytes), and a timer may be late.
const MOST: usize = 32;

/// Of how many bytes the datagrams of a transfer are, in the mean. Small ones are requests, answers, acknowledgements, for
/// which somebody waits.
const LARGE: usize = 1000;

/// A wake-up that brings as many datagrams pays by itself.
const BY_ITSELF: usize = 3;

/// What was received since the last judgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    pub(crate) datagrams: usize,
    pub(crate) bytes: usize,
}

impl Gathered {
    const fn is_large(self) -> bool {
        self.bytes >= LARGE * self.datagrams
    }
}

impl AddAssign for Gathered {
    fn add_assign(&mut self, more: Self) {
        self.datagrams += more.datagrams;
        self.bytes += more.bytes;
    }
}

/// The judgement, of all sockets that one task reads.
#[derive(Debug)]
pub(crate) struct Coalescing {
    since: Instant,
    /// When it is judged next.
    until: Instant,
    /// Reads that found something.
    reads: usize,
    gathered: Gathered,
    /// Since when a transfer has come.
    transfer: Option<Instant>,
    /// While there are intervals: how long they are, and when the present one ends.
    interval: Option<(Duration, Instant)>,
}

impl Coalescing {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: now,
            until: now + WINDOW,
            reads: 0,
            gathered: Gathered::default(),
            transfer: None,
            interval: None,
        }
    }

    /// When the sockets are read next, if that is not with the next datagram.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.interval.map(|(_, next)| next)
    }

    /// As if what came had told.
    #[cfg(test)]
    pub(crate) fn begin(&mut self, now: Instant, interval: Duration) {
        self.interval = Some((interval, now + interval));
    }

    /// The sockets were read, because something was there or an interval was over. `round_trip` says the shortest of the one
    /// connection for which all of it was; `None` if there were several. It is asked once per [`WINDOW`] at most.
    /// Returns whether there are intervals from now on.
    pub(crate) fn on_read(
        &mut self,
        now: Instant,
        gathered: Gathered,
        round_trip: impl FnOnce() -> Option<Duration>,
    ) -> bool {
        if let Some((interval, _)) = self.interval {
            // Of half of what was counted on, the transfer is at its end, or has become another.
            let goes_on = gathered.datagrams >= FEWEST / 2 && gathered.is_large();
            self.interval = goes_on.then(|| (interval, now + interval));
        }
        self.reads += usize::from(gathered.datagrams > 0);
        self.gathered += gathered;
        if now >= self.until {
            self.judge(now, round_trip);
        }
        self.interval.is_some()
    }

    #[cold]
    #[inline(never)]
    fn judge(&mut self, now: Instant, round_trip: impl FnOnce() -> Option<Duration>) {
        let elapsed = now.saturating_duration_since(self.since);
        let gathered = std::mem::take(&mut self.gathered);
        let reads = std::mem::take(&mut self.reads);
        let since = std::mem::replace(&mut self.since, now);
        self.until = now + WINDOW;
        let comes = gathered.datagrams > 0 && gathered.is_large();
        let begun = if elapsed < PAUSE {
            self.transfer.unwrap_or(since)
        } else {
            now
        };
        self.transfer = comes.then_some(begun);
        let one_by_one = gathered.datagrams < reads.saturating_mul(BY_ITSELF);
        let pays = self.interval.is_some() || one_by_one;
        let lasts = |round_trip: &Duration| now >= begun + *round_trip * ROUND_TRIPS_OF_SLOW_START;
        let interval = (pays && comes)
            .then(round_trip)
            .flatten()
            .filter(lasts)
            .and_then(|round_trip| {
                let time_for =
                    |datagrams| elapsed.mul_f64(datagrams as f64 / gathered.datagrams as f64);
                let longest = LONGEST.min(time_for(MOST));
                let interval = longest.min(round_trip / OF_ROUND_TRIP);
                (interval >= SHORTEST.max(time_for(FEWEST))).then_some(interval)
            });
        self.interval = interval.map(|interval| (interval, now + interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = 1452;

    /// Datagrams of `size` bytes come every `gap`, `batch` at once; who reads is woken by each batch, or reads at
    /// intervals. How often it read for a thousand of them, after a second, and how long one of all waited at most.
    fn run(gap: Duration, batch: usize, size: usize, rtt: Option<Duration>) -> (u32, Duration) {
        let begin = Instant::now();
        let mut coalescing = Coalescing::new(begin);
        let (mut reads, mut longest) = (0, Duration::ZERO);
        let (mut waiting, mut oldest) = (0, None);
        let second = (Duration::from_secs(1).as_micros() / gap.as_micros()) as u32;
        for index in 1..=second + 1000 {
            let came = begin + gap * index;
            if index == second + 1 {
                reads = 0;
            }
            // The reads that were due before it came.
            while let Some(next) = coalescing.next().filter(|next| *next <= came) {
                let datagrams = std::mem::take(&mut waiting);
                let bytes = size * datagrams;
                longest = longest.max(oldest.take().map_or(Duration::ZERO, |old| next - old));
                coalescing.on_read(next, Gathered { datagrams, bytes }, || rtt);
                reads += 1;
            }
            waiting += batch;
            oldest.get_or_insert(came);
            if coalescing.next().is_none() {
                let datagrams = std::mem::take(&mut waiting);
                let bytes = size * datagrams;
                oldest = None;
                coalescing.on_read(came, Gathered { datagrams, bytes }, || rtt);
                reads += 1;
            }
        }
        (reads, longest)
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_transfer_that_comes_one_by_one_is_read_at_intervals() {
        for (name, gap, rtt, reads_at_most) in [
            ("100 Mbit/s, 20 ms", us(116), us(20_000), 150),
            ("20 Mbit/s, 40 ms", us(581), us(40_000), 250),
            ("20 Mbit/s, 20 ms", us(581), us(20_000), 300),
            ("300 Mbit/s, 10 ms", us(39), us(10_000), 300),
        ] {
            let (reads, longest) = run(gap, 1, FULL, Some(rtt));
            assert!(reads <= reads_at_most, "{name}: {reads} reads");
            assert!(longest <= rtt / OF_ROUND_TRIP, "{name}: {longest:?}");
        }
    }

    #[test]
    fn all_else_is_read_as_it_comes() {
        for (name, gap, batch, size, rtt) in [
            ("small ones", us(116), 1, 200, Some(us(20_000))),
            ("batches", us(1160), 10, FULL, Some(us(20_000))),
            ("a short round trip", us(116), 1, FULL, Some(us(4000))),
            ("several connections", us(116), 1, FULL, None),
            ("a slow link", us(2000), 1, FULL, Some(us(20_000))),
            (
                "more than a socket holds",
                us(11),
                1,
                FULL,
                Some(us(80_000)),
            ),
        ] {
            let (reads, longest) = run(gap, batch, size, rtt);
            assert_eq!((reads, longest), (1000, Duration::ZERO), "{name}");
        }
    }

    #[test]
    fn intervals_end_with_the_transfer() {
        let rtt = us(32_000);
        let mut now = Instant::now();
        let mut coalescing = Coalescing::new(now);
        let read = |coalescing: &mut Coalescing, now, datagrams: usize, size| {
            let bytes = size * datagrams;
            coalescing.on_read(now, Gathered { datagrams, bytes }, || Some(rtt))
        };
        let mut begin = |coalescing: &mut Coalescing, pause| {
            now += pause;
            let slow_start = now + rtt * ROUND_TRIPS_OF_SLOW_START;
            for _ in 0..10_000 {
                now += us(100);
                if read(coalescing, now, 1, FULL) {
                    assert!(now >= slow_start, "in slow start");
                    return now;
                }
            }
            panic!("no intervals");
        };
        let since = begin(&mut coalescing, Duration::ZERO);
        assert_eq!(coalescing.next(), Some(since + us(3200)), "32 datagrams");
        // It was read early, in another's place: what it found counts.
        assert!(read(&mut coalescing, since + us(1000), 10, FULL));
        assert_eq!(coalescing.next(), Some(since + us(4200)));
        assert!(!read(&mut coalescing, since + us(4200), 1, FULL));
        assert_eq!(coalescing.next(), None);
        // What comes instead is small. A pause makes what follows another transfer.
        let since = begin(&mut coalescing, PAUSE * 2);
        assert!(!read(&mut coalescing, since + us(3200), 32, 100));
    }
}
