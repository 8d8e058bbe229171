//! The schedulers that ask a trained network: each network is found and checked when a configuration is read, once for
//! all connections. Makes none of them itself.

use super::Registry;
use super::outside::Outside;
use crate::neural::{Dqn, DqnConfig, Gaps, GapsConfig, Sailfish, SailfishConfig};

/// Adds them.
pub(super) fn insert(registry: &mut Registry) {
    registry
        .insert(
            "dqn",
            |config: &DqnConfig, _: &Outside| {
                config.check()?;
                config.model.load(&Dqn::SHIPPED)
            },
            |config, loaded| Dqn::new(config, loaded.policy(config.seed)),
            Outside::observed,
        )
        .insert(
            "gaps",
            |config: &GapsConfig, _: &Outside| {
                config.check()?;
                config.model.load(&Gaps::SHIPPED)
            },
            |config, loaded| Gaps::new(config, loaded.policy(config.seed)),
            Outside::observed,
        )
        .insert(
            "sailfish",
            |config: &SailfishConfig, _: &Outside| {
                config.check()?;
                config.model.load(&Sailfish::SHIPPED)
            },
            |config, loaded| Sailfish::new(config, loaded.policy(config.seed)),
            Outside::observed,
        );
}
