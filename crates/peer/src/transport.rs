//! Scheduler and congestion controller, as users name them.

use mpquic::{TransportConfig, sched::Registry};

use crate::error::Error;

/// The scheduler and the congestion controller by which an end sends.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// The scheduler's name; without one, that of the library.
    pub scheduler: Option<String>,
    /// The controller's name; without one, that of the library.
    pub congestion: Option<String>,
}

/// The schedulers that there are by name: those that ask a trained network, too, with the feature `neural`.
pub fn schedulers() -> Registry {
    #[cfg(feature = "neural")]
    return mpquic_sched_neural::registry();
    #[cfg(not(feature = "neural"))]
    Registry::new()
}

impl Transport {
    /// Whether there are such.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn check(&self) -> Result<(), Error> {
        self.apply(&mut TransportConfig::default())
    }

    /// Sets them.
    ///
    /// # Errors
    ///
    /// If there is none of such a name: the error lists those that there are.
    pub fn apply(&self, config: &mut TransportConfig) -> Result<(), Error> {
        if let Some(name) = &self.scheduler {
            let factory = schedulers().factory(name, &Default::default());
            config.scheduler(factory.map_err(|error| Error::Setting(error.to_string()))?);
        }
        if let Some(name) = &self.congestion {
            let control: mpquic::CongestionControl = name
                .parse()
                .map_err(|error| Error::Setting(format!("{error}")))?;
            config.congestion(control);
        }
        Ok(())
    }
}
