//! Tests of the parts together: each transition of the state machine, with numbers worked by hand.

use crate::recovery::RateSample;

/// A sample of this rate that tells nothing else.
pub(super) fn sample(rate: f64) -> RateSample {
    RateSample {
        rate,
        delivered: 0,
        prior_delivered: 0,
        tx_in_flight: 0,
        lost: 0,
        newly_acked: 0,
        newly_lost: 0,
        total_delivered: 0,
        app_limited: false,
    }
}
