//! The schedulers that ask a trained network: each network is found and checked when a configuration is read, once for
//! all connections. Makes none of them itself.

use super::Registry;
use crate::neural::{Dqn, DqnConfig, Gaps, GapsConfig, Sailfish, SailfishConfig};

/// Adds them.
pub(super) fn insert(registry: &mut Registry) {
    registry
        .insert_prepared(
            "dqn",
            |config: &DqnConfig| {
                config.check()?;
                config.model.load(&Dqn::SHIPPED)
            },
            |config, loaded| Dqn::new(config, loaded.policy(config.seed)),
        )
        .insert_prepared(
            "gaps",
            |config: &GapsConfig| {
                config.check()?;
                config.model.load(&Gaps::SHIPPED)
            },
            |config, loaded| Gaps::new(config, loaded.policy(config.seed)),
        )
        .insert_prepared(
            "sailfish",
            |config: &SailfishConfig| {
                config.check()?;
                config.model.load(&Sailfish::SHIPPED)
            },
            |config, loaded| Sailfish::new(config, loaded.policy(config.seed)),
        );
}
