//! When a probe is due (RFC 9002 section 6.2); does not choose what it carries.

use std::time::{Duration, Instant};

use super::{RttEstimator, later};
use crate::space::PacketSpace;

/// Doublings after which the back-off stays: 64 PTOs. A path that came back is then noticed in
/// tolerable time, at a rate of probes that hurts nobody.
const MAX_BACKOFF_EXPONENT: u32 = 6;

/// The PTO with back-off (RFC 9002 section 6.2.1). `max_ack_delay` is zero for the Initial and
/// Handshake spaces.
pub(crate) fn pto_duration(
    rtt: &RttEstimator,
    max_ack_delay: Duration,
    pto_count: u32,
) -> Duration {
    rtt.pto_base(max_ack_delay)
        .saturating_mul(1 << pto_count.min(MAX_BACKOFF_EXPONENT))
}

/// When the probe timer of a space fires; `None` if no ack-eliciting packet is in flight. A client
/// that may have to unblock the server (section 6.2.2.1) arms [`pto_duration`] from now instead.
pub(crate) fn pto_time(
    space: &PacketSpace,
    rtt: &RttEstimator,
    max_ack_delay: Duration,
    pto_count: u32,
) -> Option<Instant> {
    if space.sent.ack_eliciting() == 0 {
        return None;
    }
    let sent = space.last_ack_eliciting_sent?;
    Some(later(sent, pto_duration(rtt, max_ack_delay, pto_count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backs_off_up_to_the_cap() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(Instant::now(), ms(100), Duration::ZERO);
        assert_eq!(pto_duration(&rtt, ms(25), 0), ms(325));
        assert_eq!(pto_duration(&rtt, ms(25), 2), ms(1300));
        assert_eq!(pto_duration(&rtt, Duration::ZERO, 6), ms(19_200));
        assert_eq!(pto_duration(&rtt, Duration::ZERO, u32::MAX), ms(19_200));
    }
}
