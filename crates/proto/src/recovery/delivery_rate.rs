//! How fast a path delivers (draft-cheng-iccrg-delivery-rate-estimation); steers nothing.

use std::time::{Duration, Instant};

use super::RttEstimator;

/// The state of delivery when a packet left: kept with the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliverySnapshot {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    app_limited: bool,
}

/// The estimator of one path.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Bytes acknowledged so far, and when the newest of them was.
    delivered: u64,
    delivered_at: Option<Instant>,
    /// When the packet was sent with which the current sample's send interval begins.
    first_sent: Option<Instant>,
    /// Samples are limited by the application until so many bytes are delivered; 0: they are not.
    app_limited_until: u64,
    /// The newest packet of the ACK frame under way: its snapshot and when it was sent.
    candidate: Option<(DeliverySnapshot, Instant)>,
    rate: u64,
}

impl DeliveryRate {
    /// A packet that counts as in flight leaves; `in_flight` is the number of bytes before it.
    pub(crate) fn on_sent(&mut self, now: Instant, in_flight: u64) -> DeliverySnapshot {
        if in_flight == 0 {
            self.first_sent = Some(now);
            self.delivered_at = Some(now);
        }
        DeliverySnapshot {
            delivered: self.delivered,
            delivered_at: *self.delivered_at.get_or_insert(now),
            first_sent: *self.first_sent.get_or_insert(now),
            app_limited: self.app_limited_until != 0,
        }
    }

    /// Nothing more is there to be sent, though the window and the pacer would allow it: until what
    /// is in flight now is acknowledged, samples tell of the application rather than of the path.
    pub(crate) const fn on_app_limited(&mut self, in_flight: u64) {
        let until = self.delivered.saturating_add(in_flight);
        self.app_limited_until = if until == 0 { 1 } else { until };
    }

    /// A packet was newly acknowledged; one call for each packet of an ACK frame.
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        sent: Instant,
        size: u16,
        snapshot: &DeliverySnapshot,
    ) {
        self.delivered += u64::from(size);
        self.delivered_at = Some(now);
        let newer = match &self.candidate {
            None => true,
            Some((best, best_sent)) => (snapshot.delivered, sent) >= (best.delivered, *best_sent),
        };
        if newer {
            self.candidate = Some((*snapshot, sent));
            self.first_sent = Some(sent);
        }
    }

    /// The packets of an ACK frame have been told: makes the sample, if they give one.
    pub(crate) fn on_ack_end(&mut self, now: Instant, rtt: &RttEstimator) -> Option<u64> {
        let (snapshot, sent) = self.candidate.take()?;
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        // The slower of sending and acknowledging: compressed ACKs must not feign a fast path.
        let send_elapsed = sent.saturating_duration_since(snapshot.first_sent);
        let ack_elapsed = now.saturating_duration_since(snapshot.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        if interval < rtt.min() || interval == Duration::ZERO {
            return None;
        }
        let bytes = self.delivered - snapshot.delivered;
        let sample = (bytes as f64 / interval.as_secs_f64()) as u64;
        // A sample limited by the application only shows that the path can do at least that.
        if !snapshot.app_limited || sample >= self.rate {
            self.rate = sample;
        }
        Some(sample)
    }

    /// The newest estimate, bytes per second; 0 before the first.
    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Bytes acknowledged so far.
    #[cfg(test)]
    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn rtt(ms: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(Instant::now(), Duration::from_millis(ms), Duration::ZERO);
        rtt
    }

    /// A window of 20 packets over a path that delivers one per millisecond, 10 ms away.
    #[test]
    fn finds_the_bottleneck() {
        let mut now = Instant::now();
        let rtt = rtt(10);
        let mut rate = DeliveryRate::default();
        let mut flight: VecDeque<(Instant, DeliverySnapshot)> = VecDeque::new();
        for _ in 0..20 {
            let in_flight = flight.len() as u64 * 1000;
            flight.push_back((now, rate.on_sent(now, in_flight)));
        }
        now += Duration::from_millis(10);
        for _ in 0..200 {
            let (sent, snapshot) = flight.pop_front().unwrap();
            rate.on_acked(now, sent, 1000, &snapshot);
            rate.on_ack_end(now, &rtt);
            flight.push_back((now, rate.on_sent(now, flight.len() as u64 * 1000)));
            now += Duration::from_millis(1);
        }
        assert!(
            (950_000..=1_050_000).contains(&rate.rate()),
            "{}",
            rate.rate()
        );
        assert_eq!(rate.delivered(), 200_000);
    }

    #[test]
    fn an_idle_application_does_not_lower_the_estimate() {
        let t0 = Instant::now();
        let rtt = rtt(10);
        let mut rate = DeliveryRate::default();
        let first: Vec<_> = (0..10).map(|i| rate.on_sent(t0, i * 1000)).collect();
        let t1 = t0 + Duration::from_millis(10);
        for snapshot in &first {
            rate.on_acked(t1, t0, 1000, snapshot);
        }
        assert_eq!(rate.on_ack_end(t1, &rtt), Some(1_000_000));
        rate.on_app_limited(0);
        let snapshot = rate.on_sent(t1, 0);
        let t2 = t1 + Duration::from_millis(10);
        rate.on_acked(t2, t1, 1000, &snapshot);
        assert_eq!(rate.on_ack_end(t2, &rtt), Some(100_000));
        assert_eq!(rate.rate(), 1_000_000);
        assert_eq!(rate.on_ack_end(t2, &rtt), None, "nothing new");
    }
}
