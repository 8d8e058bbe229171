//! Persistent congestion (RFC 9002 section 7.6): all packets of a long enough time lost.

use std::time::{Duration, Instant};

use super::RttEstimator;

/// kPersistentCongestionThreshold (RFC 9002 section 7.6.1).
const THRESHOLD: u32 = 3;

/// Follows the fate of a space's packets, told in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct PersistentCongestion {
    /// When the oldest lost ack-eliciting packet was sent after which none is acknowledged.
    run_start: Option<Instant>,
}

impl PersistentCongestion {
    /// The next packet number was acknowledged: what was lost before it does not join what follows.
    pub(crate) const fn on_acked(&mut self) {
        self.run_start = None;
    }

    /// The next ack-eliciting packet was lost. Whether that establishes persistent congestion
    /// (RFC 9002 section 7.6.2).
    pub(crate) fn on_lost(
        &mut self,
        sent: Instant,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
    ) -> bool {
        // Packets sent before the first RTT sample do not count.
        //= specs/rfc9002.txt#section-7.6.2
        //# The persistent congestion period SHOULD NOT start until there is at least one RTT
        //# sample.
        if rtt.first_sample().is_none_or(|first| sent <= first) {
            return false;
        }
        let start = *self.run_start.get_or_insert(sent);
        let duration = rtt.pto_base(max_ack_delay).saturating_mul(THRESHOLD);
        if sent.saturating_duration_since(start) <= duration {
            return false;
        }
        // Another declaration takes another such period.
        self.run_start = Some(sent);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt(now: Instant) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        // smoothed 0.5 s, rttvar 0.25 s, max_ack_delay 0.5 s below: the 2 s of section 7.6.3.
        rtt.update(now, Duration::from_millis(500), Duration::ZERO);
        rtt
    }
    const MAX_ACK_DELAY: Duration = Duration::from_millis(500);

    #[test]
    fn example_of_section_7_6_3() {
        let t0 = Instant::now();
        let rtt = rtt(t0);
        let mut pc = PersistentCongestion::default();
        pc.on_acked();
        let seconds = [1, 2, 3, 4, 5, 6, 8];
        let declared: Vec<_> = seconds
            .iter()
            .map(|&s| pc.on_lost(t0 + Duration::from_secs(s), &rtt, MAX_ACK_DELAY))
            .collect();
        assert_eq!(declared, [false, false, false, false, false, false, true]);
    }

    #[test]
    fn an_acknowledged_packet_between_breaks_the_period() {
        let t0 = Instant::now();
        let rtt = rtt(t0);
        let mut pc = PersistentCongestion::default();
        assert!(!pc.on_lost(t0 + Duration::from_secs(1), &rtt, MAX_ACK_DELAY));
        pc.on_acked();
        assert!(!pc.on_lost(t0 + Duration::from_secs(4), &rtt, MAX_ACK_DELAY));
        assert!(!pc.on_lost(t0 + Duration::from_secs(10), &rtt, MAX_ACK_DELAY));
        assert!(pc.on_lost(t0 + Duration::from_millis(10_001), &rtt, MAX_ACK_DELAY));
    }

    //= specs/rfc9002.txt#section-7.6.2
    //= type=test
    //# The persistent congestion period SHOULD NOT start until there is at least one RTT sample.
    #[test]
    fn packets_before_the_first_sample_do_not_count() {
        let t0 = Instant::now();
        let mut pc = PersistentCongestion::default();
        let none = RttEstimator::new(Duration::from_millis(333));
        assert!(!pc.on_lost(t0, &none, MAX_ACK_DELAY));
        let rtt = rtt(t0 + Duration::from_secs(9));
        assert!(!pc.on_lost(t0 + Duration::from_secs(8), &rtt, MAX_ACK_DELAY));
        assert!(!pc.on_lost(t0 + Duration::from_secs(10), &rtt, MAX_ACK_DELAY));
    }
}
