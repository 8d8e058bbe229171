//! How each connection gets a scheduler of its own; knows no scheduler.

use std::fmt;
use std::sync::Arc;

use crate::Scheduler;

/// Makes a scheduler for each new connection; cannot fail.
///
/// Whatever takes a factory takes a closure, too: one that returns a boxed scheduler.
///
/// ```
/// use mpquic_sched_core::{MinRtt, SchedulerFactory};
///
/// let factory = SchedulerFactory::from(|| Box::new(MinRtt::default()));
/// let (for_one_connection, for_another) = (factory.make(), factory.make());
/// # drop((for_one_connection, for_another));
/// ```
#[derive(Clone)]
pub struct SchedulerFactory(Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>);

impl SchedulerFactory {
    /// A factory that calls `make` for each scheduler.
    pub fn new(make: impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// One scheduler.
    pub fn make(&self) -> Box<dyn Scheduler> {
        self.0()
    }
}

impl<F, B> From<F> for SchedulerFactory
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Into<Box<dyn Scheduler>>,
{
    fn from(make: F) -> Self {
        Self::new(move || make().into())
    }
}

impl<S: Scheduler + 'static> From<Box<S>> for Box<dyn Scheduler> {
    fn from(scheduler: Box<S>) -> Self {
        scheduler
    }
}

impl fmt::Debug for SchedulerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerFactory").finish_non_exhaustive()
    }
}
