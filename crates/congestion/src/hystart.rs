//! HyStart++ (RFC 9406): leaves slow start before it overflows the bottleneck.

use std::time::{Duration, Instant};

use super::round_variation::RoundVariation;
use super::slow_start::Growth;

/// RFC 9406 section 4.3. Beyond it, MAX_RTT_THRESH follows what round trips vary by: [`RoundVariation`].
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// The initial slow start of one path. Without packet numbers at hand, a round ends when a packet
/// is acknowledged that was sent after the round began: the same as RFC 9406's windowEnd. Pacing
/// lifts the limit L on growth per acknowledgement.
#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    round_start: Option<Instant>,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    variation: RoundVariation,
    /// The packets of one ACK frame share its sample.
    sampled_at: Option<Instant>,
    /// In conservative slow start: the baseline and the rounds in it, the current one included.
    css: Option<(Duration, u32)>,
}

impl HyStart {
    /// A packet sent at `sent` was acknowledged; `rtt` is the newest sample.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        rtt: Duration,
    ) -> Growth {
        if self.round_start.is_none_or(|start| sent >= start) {
            let in_css = self.css.as_mut().map(|(_, rounds)| {
                *rounds += 1;
                *rounds
            });
            if in_css.is_some_and(|rounds| rounds > CSS_ROUNDS) {
                return Growth::Exit;
            }
            self.round_start = Some(now);
            self.last_round_min = self.round_min.take();
            self.samples = 0;
            self.variation.end_round();
        }
        if self.sampled_at != Some(now) {
            self.sampled_at = Some(now);
            self.samples += 1;
            self.variation.on_sample(rtt);
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.judge();
        }
        Growth::By(if self.css.is_some() {
            bytes / CSS_GROWTH_DIVISOR
        } else {
            bytes
        })
    }

    fn judge(&mut self) {
        let Some(current) = self.round_min.filter(|_| self.samples >= N_RTT_SAMPLE) else {
            return;
        };
        match (self.css, self.last_round_min) {
            // The delay fell again: the rise was jitter.
            (Some((baseline, _)), _) if current < baseline => self.css = None,
            (None, Some(last)) => {
                let threshold = self.variation.rise(last, MIN_RTT_THRESH);
                if current >= last.saturating_add(threshold) {
                    self.css = Some((current, 1));
                }
            }
            _ => {}
        }
    }

    /// Whether it grows at the reduced rate.
    #[cfg(test)]
    pub(super) const fn in_css(&self) -> bool {
        self.css.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of ten acknowledgements, one per millisecond; what the last of them says.
    fn round(h: &mut HyStart, start: Instant, rtt_ms: u64) -> Growth {
        let rtt = Duration::from_millis(rtt_ms);
        let mut growth = Growth::By(0);
        for i in 0..10 {
            let sent = start + Duration::from_millis(i);
            growth = h.on_ack(sent + rtt, sent, 1200, rtt);
        }
        growth
    }

    #[test]
    fn steady_delay_keeps_slow_start() {
        let t0 = Instant::now();
        let mut h = HyStart::default();
        for i in 0..20 {
            assert_eq!(
                round(&mut h, t0 + Duration::from_millis(i * 60), 50 + i % 4),
                Growth::By(1200)
            );
        }
        assert!(!h.in_css());
    }

    #[test]
    fn rising_delay_slows_then_ends_it() {
        let t0 = Instant::now();
        let mut h = HyStart::default();
        assert_eq!(round(&mut h, t0, 50), Growth::By(1200));
        let at = |i: u64| t0 + Duration::from_millis(i * 100);
        // 50 / 8 = 6.25 ms more.
        assert_eq!(round(&mut h, at(1), 56), Growth::By(1200));
        assert_eq!(round(&mut h, at(2), 65), Growth::By(300));
        for i in 3..7 {
            assert_eq!(round(&mut h, at(i), 66), Growth::By(300), "{i}");
        }
        assert_eq!(
            h.on_ack(at(8), at(7), 1200, Duration::from_millis(66)),
            Growth::Exit
        );
    }

    /// 24 ms more are a queue on a satellite's path, unless its round trips vary by as much.
    #[test]
    fn long_round_trips_that_vary_keep_slow_start() {
        let at = |start: Instant, i: u64| start + Duration::from_millis(i * 1000);
        for (varies, ends) in [(0, true), (60, false)] {
            let t0 = Instant::now();
            let mut h = HyStart::default();
            for i in 0..20 {
                let sent = at(t0, 0) + Duration::from_millis(i);
                let rtt = Duration::from_millis(560 + i % 3 * varies / 2);
                h.on_ack(sent + rtt, sent, 1200, rtt);
            }
            round(&mut h, at(t0, 1), 584);
            assert_eq!(h.in_css(), ends, "{varies}");
        }
    }

    #[test]
    fn falling_delay_resumes_slow_start() {
        let t0 = Instant::now();
        let mut h = HyStart::default();
        let at = |i: u64| t0 + Duration::from_millis(i * 100);
        round(&mut h, at(0), 50);
        assert_eq!(round(&mut h, at(1), 60), Growth::By(300));
        assert_eq!(round(&mut h, at(2), 52), Growth::By(1200));
        assert!(!h.in_css());
    }
}
