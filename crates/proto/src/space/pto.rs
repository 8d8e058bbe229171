//! When a probe is due (RFC 9002 section 6.2).

use std::time::{Duration, Instant};

use super::PacketSpace;
use crate::recovery::{RttEstimator, later};

/// So often doubled, the longest PTO lasts longer than any connection. The multiplication is what it limits.
const MAX_BACKOFF_EXPONENT: u32 = 30;

/// The PTO with back-off (RFC 9002 section 6.2.1). `max_ack_delay` is zero for the Initial and
/// Handshake spaces.
pub(crate) fn pto_duration(
    rtt: &RttEstimator,
    max_ack_delay: Duration,
    pto_count: u32,
) -> Duration {
    //= specs/rfc9002.txt#section-6.2.1
    //# When a PTO timer expires, the PTO backoff MUST be increased, resulting in the PTO period
    //# being set to twice its current value.
    let base = rtt.pto_base(max_ack_delay);
    match pto_count {
        // Nearly always.
        0 => base,
        _ => base.saturating_mul(1 << pto_count.min(MAX_BACKOFF_EXPONENT)),
    }
}

impl PacketSpace {
    /// When the probe timer fires; `None` if no ack-eliciting packet is in flight. A client that may have to unblock the
    /// server (section 6.2.2.1) arms [`pto_duration`] from now instead.
    pub(crate) fn pto_time(
        &self,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
        pto_count: u32,
    ) -> Option<Instant> {
        //= specs/rfc9002.txt#section-6.2.1
        //# The PTO timer MUST NOT be set if a timer is set for time threshold loss detection; see
        //# Section 6.1.2.
        if self.sent.ack_eliciting() == 0 || self.loss_time.is_some() {
            return None;
        }
        let sent = self.last_ack_eliciting_sent?;
        Some(later(sent, pto_duration(rtt, max_ack_delay, pto_count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= specs/rfc9002.txt#section-6.2.1
    //= type=test
    //# The PTO timer MUST NOT be set if a timer is set for time threshold loss detection; see Section
    //# 6.1.2.
    #[test]
    fn waits_while_a_loss_by_time_is_awaited() {
        let now = Instant::now();
        let mut rng: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(1);
        let mut space = PacketSpace::new(&mut rng);
        let rtt = RttEstimator::new(Duration::from_millis(333));
        space.on_sent(crate::space::tests_support::packet(now), &mut rng);
        assert!(space.pto_time(&rtt, Duration::ZERO, 0).is_some());
        space.loss_time = Some(now);
        assert_eq!(space.pto_time(&rtt, Duration::ZERO, 0), None);
    }

    #[test]
    //= specs/rfc9002.txt#section-6.2.1
    //= type=test
    //# When a PTO timer expires, the PTO backoff MUST be increased, resulting in the PTO period
    //# being set to twice its current value.
    fn backs_off_without_end() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(Instant::now(), ms(100), Duration::ZERO);
        assert_eq!(pto_duration(&rtt, ms(25), 0), ms(325));
        assert_eq!(pto_duration(&rtt, ms(25), 2), ms(1300));
        assert_eq!(pto_duration(&rtt, Duration::ZERO, 6), ms(19_200));
        assert_eq!(pto_duration(&rtt, Duration::ZERO, 7), ms(38_400));
        assert_eq!(pto_duration(&rtt, Duration::ZERO, 16), ms(300 << 16));
        let longest = pto_duration(&rtt, Duration::ZERO, u32::MAX);
        assert!(longest > ms(300 << 16));
    }
}
