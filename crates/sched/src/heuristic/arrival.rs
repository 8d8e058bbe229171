//! Reads the settings of `Arrival` from configuration files; the scheduler is in `mpquic-sched-core`, for it is the default.

use mpquic_sched_core::ArrivalConfig;

use crate::InvalidConfig;

/// Whether each setting is in its range.
pub(crate) fn check(config: &ArrivalConfig) -> Result<(), InvalidConfig> {
    if !(0.0..=100.0).contains(&config.margin) {
        let expected = format!("expected 0 to 100, got {}", config.margin);
        return Err(InvalidConfig::field("margin", expected));
    }
    Ok(())
}
