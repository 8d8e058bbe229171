//! Adds the schedulers to a registry. Each network is found and checked when a configuration is read, once for all
//! connections.

use mpquic_sched::neural::DqnConfig;
use mpquic_sched::{Registry, RegistryError};

use crate::{Dqn, Gaps, GapsConfig, Sailfish, SailfishConfig, dqn};

/// A registry with the schedulers of `mpquic-sched` and those of this crate.
///
/// ```
/// use serde_json::json;
///
/// let registry = mpquic_sched_neural::registry();
/// let shipped = registry.build("dqn", &json!({}))?;
/// let drawing = registry.build("dqn", &json!({"model": "random", "seed": 3}))?;
/// # drop((shipped, drawing));
///
/// let wrong = registry.build("dqn", &json!({"interval_ms": 0})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `dqn`, field `interval_ms`: expected 1 to 10000, got 0",
/// );
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    // None of these names is taken there, as the tests of this crate see.
    let _ = register(&mut registry);
    registry
}

/// Adds the schedulers of this crate: `dqn`, `gaps` and `sailfish`.
///
/// # Errors
///
/// [`RegistryError::NameTaken`], if the registry has one of them.
pub fn register(registry: &mut Registry) -> Result<&mut Registry, RegistryError> {
    registry
        .register_neural(
            "dqn",
            |config: &DqnConfig| {
                config.check()?;
                dqn::SHIPPED.load(&config.model)
            },
            |config, loaded| Dqn::new(config, loaded.policy(config.seed)),
        )?
        .register_neural(
            "gaps",
            |config: &GapsConfig| {
                config.check()?;
                Gaps::SHIPPED.load(&config.model)
            },
            |config, loaded| Gaps::new(config, loaded.policy(config.seed)),
        )?
        .register_neural(
            "sailfish",
            |config: &SailfishConfig| {
                config.check()?;
                Sailfish::SHIPPED.load(&config.model)
            },
            |config, loaded| Sailfish::new(config, loaded.policy(config.seed)),
        )
}
