//! The queue that others have put on a path: what a round trip has above the base and the sender's own bytes.

use std::time::{Duration, Instant};

use super::RoundTrip;
use crate::support::nanos;

/// So many round trips what was seen is believed, and no longer than that: queues of others come and go within seconds.
const KEPT_ROUNDS: u32 = 32;
const KEPT: Duration = Duration::from_secs(5);

/// A sample is taken behind so many bytes of our own at most, since acknowledgements name every other packet,
const FEW: u64 = 2 * 1500;
/// or if what is ahead of it takes no longer than this part of the base, and [`CLEAR`].
const OWN_PART: f64 = 0.25;
const CLEAR: f64 = 1e6;

/// The smallest of so many samples is the queue: one sample alone may be late by chance.
const SAMPLES: usize = 3;

/// By how many times the mean difference of neighbouring samples the smallest of one, two or three samples must exceed the base to
/// be a queue. Delay that varies shows in the differences in full, a queue that stands hardly.
const ABOVE_NOISE: [f64; SAMPLES] = [8.0, 4.0, 2.0];

/// A difference counts for so many times the mean at most: where a queue begins is one step.
const MOST: f64 = 4.0;
/// The weight of a new difference in the mean, and the least of it in nanoseconds: clocks and timers are no better.
const WEIGHT: f64 = 0.2;
const LEAST: f64 = 1e5;

/// What the newest samples of a path have above its own bytes, in nanoseconds, one for each half of a round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// Newest first, and how many there are.
    samples: [f32; SAMPLES],
    count: u8,
    /// The mean difference of neighbours; 0 before the first.
    noise: f32,
    /// The queue as the newest samples show it.
    queue: f32,
    /// When the newest sample was taken.
    at: Option<Instant>,
}

/// Whether what was seen then is believed still.
#[inline]
pub(super) fn is_fresh(now: Instant, at: Instant, smoothed_rtt: Duration) -> bool {
    let kept = smoothed_rtt.saturating_mul(KEPT_ROUNDS).min(KEPT);
    now.saturating_duration_since(at) < kept
}

impl Others {
    #[inline]
    pub(super) fn update(&mut self, event: &RoundTrip, base: Duration) {
        let due = self.at.is_none_or(|at| {
            event.now.saturating_duration_since(at).saturating_mul(2) >= event.smoothed_rtt
        });
        if due {
            self.sample(event, nanos(base));
        }
    }

    #[inline(never)]
    fn sample(&mut self, event: &RoundTrip, base: f64) {
        let rate = event.delivery_rate as f64 * 1e-9;
        let smoothed = nanos(event.smoothed_rtt).max(1.0);
        let window_rate = event.window as f64 / smoothed;
        let ahead = event.ahead as f64;
        // The lower of both rates says how much of it may be our own.
        let slower = if rate > 0.0 {
            rate.min(window_rate)
        } else {
            window_rate
        };
        if event.ahead > FEW && ahead > slower * (base * OWN_PART + CLEAR) {
            return;
        }
        // What an application that sends little was seen to get is not what the path delivers: the higher of both.
        let own = ahead / rate.max(window_rate).max(1e-9);
        let sample = nanos(event.rtt) - nanos(event.ack_delay).min(nanos(event.rtt)) - own;
        if self.count > 0 {
            let step = (sample - f64::from(self.samples[0])).abs();
            let noise = f64::from(self.noise);
            self.noise = if noise == 0.0 {
                step.max(LEAST) as f32
            } else {
                (noise + WEIGHT * (step.min(MOST * noise) - noise)).max(LEAST) as f32
            };
        }
        self.samples.rotate_right(1);
        self.samples[0] = sample as f32;
        self.count = (self.count + 1).min(SAMPLES as u8);
        self.at = Some(event.now);
        self.queue = self.judge(base) as f32;
    }

    /// The smallest of the newest samples above the base, as many of them as it takes.
    fn judge(&self, base: f64) -> f64 {
        let noise = f64::from(self.noise);
        let mut smallest = f64::INFINITY;
        for (sample, above) in self.samples.iter().zip(ABOVE_NOISE).take(self.count.into()) {
            smallest = smallest.min(f64::from(*sample) - base);
            if noise > 0.0 && smallest > above * noise {
                return smallest;
            }
        }
        0.0
    }

    /// The queue, and when the newest sample was taken.
    #[inline]
    pub(super) fn at(&self, now: Instant, smoothed_rtt: Duration) -> (Duration, Option<Instant>) {
        if self.queue == 0.0 {
            return (Duration::ZERO, self.at);
        }
        let fresh = self.at.is_some_and(|at| is_fresh(now, at, smoothed_rtt));
        let queue = if fresh { self.queue as u64 } else { 0 };
        (Duration::from_nanos(queue), self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 20;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A path of 20 ms and 1 MB/s on which a packet is acknowledged every 20 ms.
    struct Path {
        others: Others,
        event: RoundTrip,
    }

    impl Path {
        fn new() -> Self {
            Self {
                others: Others::default(),
                event: RoundTrip {
                    now: Instant::now(),
                    sent: Instant::now(),
                    received: 0,
                    rtt: ms(BASE),
                    ack_delay: ms(0),
                    smoothed_rtt: ms(BASE),
                    ahead: 0,
                    delivery_rate: 1_000_000,
                    window: 20_000,
                    back: None,
                },
            }
        }

        /// The queue in milliseconds after a sample of this round trip, held back for so long, behind so many own bytes.
        fn sees(&mut self, rtt: u64, held: u64, ahead: u64) -> u64 {
            self.event.now += ms(20);
            (self.event.rtt, self.event.ack_delay) = (ms(rtt), ms(held));
            self.event.ahead = ahead;
            self.others.update(&self.event, ms(BASE));
            self.queue(0)
        }

        fn queue(&self, later: u64) -> u64 {
            let at = self.event.now + ms(later);
            // A float of 24 bits rounds.
            let (queue, _) = self.others.at(at, self.event.smoothed_rtt);
            (queue.as_secs_f64() * 1e3).round() as u64
        }
    }

    #[test]
    fn a_queue_that_stands_is_seen_at_once_where_delay_does_not_vary() {
        let mut path = Path::new();
        assert_eq!(
            [20, 20, 50, 52].map(|rtt| path.sees(rtt, 0, 0)),
            [0, 0, 30, 32]
        );
        assert_eq!(path.sees(21, 0, 0), 1);
        assert_eq!(path.sees(20, 0, 0), 0);
    }

    #[test]
    fn delay_that_varies_is_no_queue() {
        let mut path = Path::new();
        let rtts = [
            20, 28, 22, 30, 21, 29, 24, 31, 22, 27, 20, 30, 24, 29, 21, 26,
        ];
        assert_eq!(rtts.map(|rtt| path.sees(rtt, 0, 0)), [0; 16]);
        // A queue of 60 ms on the same path: two samples tell.
        assert_eq!([80, 88].map(|rtt| path.sees(rtt, 0, 0)), [0, 60]);
    }

    #[test]
    fn what_the_peer_holds_back_and_what_is_our_own_is_none() {
        let mut path = Path::new();
        path.sees(20, 0, 0);
        path.sees(20, 0, 0);
        assert_eq!([45, 45, 45].map(|rtt| path.sees(rtt, 25, 0)), [0; 3]);
        // 5 kB ahead take 5 ms of it.
        assert_eq!(path.sees(25, 0, 5000), 0);
        assert_eq!(path.sees(35, 0, 5000), 10);
        // And behind 7 kB, nobody knows.
        assert_eq!(path.sees(90, 0, 7000), 10);
        // Two packets are few however slow the path seems.
        path.event.delivery_rate = 100_000;
        assert_eq!(path.sees(93, 0, 3000), 70);
        assert_eq!(path.sees(23, 0, 3001), 70);
    }

    #[test]
    fn it_is_believed_for_32_round_trips() {
        let mut path = Path::new();
        assert_eq!([20, 20, 50].map(|rtt| path.sees(rtt, 0, 0)), [0, 0, 30]);
        assert_eq!([639, 640].map(|later| path.queue(later)), [30, 0]);
        path.event.smoothed_rtt = ms(500);
        assert_eq!([4999, 5000].map(|later| path.queue(later)), [30, 0]);
    }
}
