//! What a few packets that were sent together tell of a path's rate (the dispersion of a packet train), long before a round
//! trip's worth was delivered; paces nothing.
//!
//! Packets that leave together arrive no faster than the narrowest link lets them pass. Acknowledgements that come together
//! feign a faster one, and delay variation a slower one: what follows from the estimate has bounds of its own.

use std::time::{Duration, Instant};

/// So many packets after the first one make a train.
const PACKETS: u64 = 6;

/// The packets of a train arrive over so much more time than they were sent over: the path spread them, not the pacer.
const SPREAD: f64 = 1.25;

/// Packets that arrive this much faster refute the estimate.
const FASTER: f64 = 1.25;

/// The acknowledgement with which a train begins.
#[derive(Debug, Clone, Copy)]
struct First {
    now: Instant,
    sent: Instant,
    delivered: u64,
}

/// The estimator of one path. A train begins with a round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Train {
    first: Option<First>,
    rate: f64,
}

impl Train {
    /// A packet was acknowledged that left at `sent`; so many bytes are delivered with it. The packets of one acknowledgement
    /// came at the same time: all of the first one's are the beginning.
    pub(crate) fn on_packet(
        &mut self,
        round_started: bool,
        now: Instant,
        sent: Instant,
        delivered: u64,
        mtu: u16,
    ) {
        match &mut self.first {
            Some(first) if first.now == now => {
                first.sent = first.sent.max(sent);
                first.delivered = delivered;
            }
            _ => self.on_ack(round_started, now, sent, delivered, mtu),
        }
    }

    /// So many bytes are delivered, and the newest packet among them left at `sent`.
    pub(crate) fn on_ack(
        &mut self,
        round_started: bool,
        now: Instant,
        sent: Instant,
        delivered: u64,
        mtu: u16,
    ) {
        let Some(first) = self.first.filter(|_| !round_started) else {
            self.first = Some(First {
                now,
                sent,
                delivered,
            });
            return;
        };
        let bytes = delivered.saturating_sub(first.delivered);
        let arrival = now.saturating_duration_since(first.now);
        if bytes < PACKETS * u64::from(mtu) || arrival == Duration::ZERO {
            return;
        }
        let sending = sent.saturating_duration_since(first.sent);
        let rate = bytes as f64 / arrival.max(sending).as_secs_f64();
        if arrival > sending.mul_f64(SPREAD) {
            self.rate = self.rate.max(rate);
        } else if rate > self.rate * FASTER {
            self.rate = 0.0;
        }
    }

    /// The highest rate at which the path spread a train, bytes per second; 0: none was seen, or packets arrived faster since.
    pub(crate) const fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1000;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// A round of acknowledgements of two packets each, these times apart; the packets were sent these times apart.
    fn round(train: &mut Train, start: Instant, count: u64, apart: u64, sent: u64) -> f64 {
        for i in 0..count {
            let at = |apart: u64| start + us(i * apart);
            let delivered = (i + 1) * 2 * u64::from(MTU);
            train.on_ack(i == 0, at(apart), at(sent), delivered, MTU);
        }
        train.rate()
    }

    #[test]
    fn packets_that_left_together_tell_the_rate() {
        let start = Instant::now();
        let mut train = Train::default();
        // Six packets after the first two.
        assert_eq!(round(&mut train, start, 3, 2000, 0), 0.0);
        assert_eq!(round(&mut train, start, 4, 2000, 0), 1e6);
        // The highest rate counts.
        assert_eq!(round(&mut train, start, 5, 4000, 0), 1e6);
        assert_eq!(round(&mut train, start, 5, 1000, 0), 2e6);
    }

    #[test]
    fn packets_that_arrive_as_they_left_tell_nothing() {
        let start = Instant::now();
        let mut train = Train::default();
        assert_eq!(round(&mut train, start, 8, 2000, 2000), 0.0);
        assert_eq!(round(&mut train, start, 8, 2500, 2000), 0.0);
        assert_eq!(round(&mut train, start, 8, 2600, 2000).round(), 769_231.0);
        // Unless they are faster than any train was.
        assert!(round(&mut train, start, 8, 2100, 2100) > 0.0);
        assert_eq!(round(&mut train, start, 8, 2000, 2000), 0.0);
    }

    #[test]
    fn packets_of_one_acknowledgement_begin_together() {
        let start = Instant::now();
        for together in [1, 2, 10] {
            let mut train = Train::default();
            for i in 0..20u64 {
                let now = start + us(i / together * together * 500);
                train.on_packet(i == 0, now, start, (i + 1) * u64::from(MTU), MTU);
            }
            // The last group is complete: a packet per half a millisecond.
            assert_eq!(train.rate().round(), 2e6, "{together}");
        }
    }

    #[test]
    fn acknowledgements_at_one_time_tell_nothing() {
        let mut train = Train::default();
        assert_eq!(round(&mut train, Instant::now(), 8, 0, 0), 0.0);
    }
}
