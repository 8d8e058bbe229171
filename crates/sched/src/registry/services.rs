//! What a registry's schedulers share beyond their connections, and how it reaches them.

use serde::Serialize;

use super::InvalidConfig;
#[cfg(feature = "record")]
use super::settings;
use crate::learned::WaitRule;
use crate::memory::{Recall, Store};
use crate::neural::NeuralScheduler;
#[cfg(feature = "record")]
use crate::record::{Recorder, Ring, Schema};
use crate::{LearnedWait, Scheduler, SchedulerFactory};

/// A memory and a recorder, if there are any.
pub(super) struct Services {
    pub(super) memory: Option<Store>,
    #[cfg(feature = "record")]
    pub(super) recorder: Option<Recorder>,
}

/// Makes one scheduler.
pub(super) type Make<S> = Box<dyn Fn() -> S + Send + Sync>;

/// How a factory comes from what makes one scheduler: [`Services::plain`] or [`Services::observed`].
pub(super) type Wire<C, S> =
    fn(&Services, &str, &C, Make<S>) -> Result<SchedulerFactory, InvalidConfig>;

/// A scheduler that tells what it decides and earns.
pub(super) trait Observed: Scheduler + Sized + 'static {
    /// The same schema with what its states and actions are.
    #[cfg(feature = "record")]
    fn describe(schema: Schema) -> Schema;

    /// The same scheduler, which tells this ring.
    #[cfg(feature = "record")]
    fn tell(self, ring: Ring) -> Self;
}

impl Services {
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

    /// A factory of schedulers that nobody watches.
    pub(super) fn plain<C, S: Scheduler + 'static>(
        &self,
        _scheduler: &str,
        _config: &C,
        make: Make<S>,
    ) -> Result<SchedulerFactory, InvalidConfig> {
        Ok(SchedulerFactory::new(move || Box::new(make())))
    }

    /// A factory of schedulers that are recorded, if there is a recorder.
    pub(super) fn observed<C: Serialize, S: Observed>(
        &self,
        scheduler: &str,
        config: &C,
        make: Make<S>,
    ) -> Result<SchedulerFactory, InvalidConfig> {
        #[cfg(feature = "record")]
        if let Some(recorder) = &self.recorder {
            let schema = S::describe(Schema::new(scheduler, settings::written(config)));
            let source = recorder
                .source(&schema)
                .map_err(|error| InvalidConfig::whole(error.to_string()))?;
            return Ok(SchedulerFactory::new(move || {
                Box::new(source.record(|ring| make().tell(ring)))
            }));
        }
        self.plain(scheduler, config, make)
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

impl<R: WaitRule> Observed for LearnedWait<R> {
    #[cfg(feature = "record")]
    fn describe(schema: Schema) -> Schema {
        waiting(schema)
    }

    #[cfg(feature = "record")]
    fn tell(self, mut ring: Ring) -> Self {
        self.with_observer(Box::new(move |step| ring.step(step)))
    }
}

/// Those that ask a network: they say themselves what their states and actions are.
impl<S: NeuralScheduler> Observed for S {
    #[cfg(feature = "record")]
    fn describe(schema: Schema) -> Schema {
        schema
            .with_state(S::STATE / S::FEATURES.len(), S::FEATURES)
            .with_action(&S::actions())
    }

    #[cfg(feature = "record")]
    fn tell(self, mut ring: Ring) -> Self {
        self.with_observer(Box::new(move |experience| ring.experience(experience)))
    }
}
