//! What a registry's schedulers share beyond their connections, and how it reaches them; knows no names.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::InvalidConfig;
use crate::memory::{Recall, Store};
#[cfg(feature = "neural")]
use crate::neural::{Dqn, Gaps, Sailfish};
#[cfg(feature = "record")]
use crate::record::{Recorder, Schema, Tape};
use crate::{Linucb, Peekaboo, Scheduler, SchedulerFactory};

/// A memory and a recorder, if there are any.
pub(super) struct Outside {
    pub(super) memory: Option<Store>,
    #[cfg(feature = "record")]
    pub(super) recorder: Option<Recorder>,
}

/// A scheduler that tells what it decides and earns.
pub(super) trait Observed: Scheduler + Sized + 'static {
    /// The same schema with what its states and actions are.
    #[cfg(feature = "record")]
    fn describe(schema: Schema) -> Schema;

    /// The same scheduler, which tells this tape.
    #[cfg(feature = "record")]
    fn tell(self, tape: Tape) -> Self;
}

impl Outside {
    pub(super) const NOTHING: Self = Self {
        memory: None,
        #[cfg(feature = "record")]
        recorder: None,
    };

    /// What this scheduler remembers.
    pub(super) fn recall(&self, scheduler: &str, config: &impl Serialize) -> Recall {
        match &self.memory {
            Some(store) => store.recall(scheduler, config),
            None => Recall::none(),
        }
    }

    /// Makes schedulers that are recorded, if there is a recorder.
    pub(super) fn factory<S: Observed>(
        &self,
        scheduler: &str,
        config: Value,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Result<SchedulerFactory, InvalidConfig> {
        #[cfg(feature = "record")]
        if let Some(recorder) = &self.recorder {
            let schema = S::describe(Schema::new(scheduler, config));
            let source = recorder
                .source(&schema)
                .map_err(|error| InvalidConfig::whole(error.to_string()))?;
            return Ok(Arc::new(move || {
                Box::new(source.record(|tape| make().tell(tape)))
            }));
        }
        #[cfg(not(feature = "record"))]
        let _ = (scheduler, config);
        Ok(Arc::new(move || Box::new(make())))
    }
}

/// What the bandits' records look like: their context, with the slots of the two paths.
#[cfg(feature = "record")]
fn waiting(schema: Schema) -> Schema {
    const RATE: &str = "bytes per ms, over the scale";
    let features = [
        ("fast_window_per_rtt", RATE),
        ("fast_in_flight_per_rtt", RATE),
        ("fast_credit_per_rtt", RATE),
        ("slow_window_per_rtt", RATE),
        ("slow_in_flight_per_rtt", RATE),
        ("slow_credit_per_rtt", RATE),
        ("fast", "slot"),
        ("slow", "slot"),
    ];
    schema.with_state(1, &features).with_action(&["arm"])
}

macro_rules! bandit {
    ($scheduler:ty) => {
        impl Observed for $scheduler {
            #[cfg(feature = "record")]
            fn describe(schema: Schema) -> Schema {
                waiting(schema)
            }

            #[cfg(feature = "record")]
            fn tell(self, mut tape: Tape) -> Self {
                self.with_observer(Box::new(move |step| tape.step(step)))
            }
        }
    };
}

bandit!(Linucb);
bandit!(Peekaboo);

/// The ones that ask a network: their states are rows of features, what they do is named here.
#[cfg(feature = "neural")]
macro_rules! neural {
    ($scheduler:ty, $actions:expr) => {
        impl Observed for $scheduler {
            #[cfg(feature = "record")]
            fn describe(schema: Schema) -> Schema {
                schema
                    .with_state(Self::STATE / Self::FEATURES.len(), Self::FEATURES)
                    .with_action(&$actions)
            }

            #[cfg(feature = "record")]
            fn tell(self, mut tape: Tape) -> Self {
                self.with_observer(Box::new(move |experience| tape.experience(experience)))
            }
        }
    };
}

#[cfg(feature = "neural")]
neural!(Dqn, ["action"]);
#[cfg(feature = "neural")]
neural!(Sailfish, ["slot"]);
#[cfg(feature = "neural")]
neural!(
    Gaps,
    (0..Self::OUTPUTS)
        .map(|token| format!("gap_{token}"))
        .collect::<Vec<_>>()
);
