//! How each connection gets a scheduler of its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Scheduler, Side};

/// What is known of a connection when its scheduler is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConnectionFacts {
    /// Which side schedules.
    pub side: Option<Side>,
    /// The peer's address: of several, the one that is tried first.
    pub peer: Option<SocketAddr>,
}

impl ConnectionFacts {
    /// Those of a connection to `peer`.
    pub const fn new(side: Side, peer: SocketAddr) -> Self {
        Self {
            side: Some(side),
            peer: Some(peer),
        }
    }
}

/// Makes a scheduler for each new connection; cannot fail.
///
/// Whatever takes a factory takes a closure, too: one that returns a boxed scheduler. Settings and connections also take
/// functions that return one without a box ([`IntoSchedulerFactory`]).
///
/// ```
/// use mpquic_sched_core::{MinRtt, SchedulerFactory};
///
/// let factory = SchedulerFactory::from(|| Box::new(MinRtt::default()));
/// let (for_one_connection, for_another) = (factory.make(), factory.make());
/// # drop((for_one_connection, for_another));
/// ```
///
/// One that looks at the connection:
///
/// ```
/// use mpquic_sched_core::{MinRtt, SchedulerFactory, Side};
///
/// let factory = SchedulerFactory::for_each(|connection| {
///     let scheduler = MinRtt::default();
///     println!("{:?} of {:?}", scheduler, connection.peer);
///     assert_ne!(connection.side, Some(Side::Server));
///     Box::new(scheduler)
/// });
/// # drop(factory.make());
/// ```
#[derive(Clone)]
pub struct SchedulerFactory(Arc<Make>);

type Make = dyn Fn(&ConnectionFacts) -> Box<dyn Scheduler> + Send + Sync;

impl SchedulerFactory {
    /// A factory that calls `make` for each scheduler.
    pub fn new(make: impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |_| make()))
    }

    /// A factory that calls `make` for each scheduler with what is known of its connection.
    pub fn for_each(
        make: impl Fn(&ConnectionFacts) -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    /// One scheduler, for a connection of which nothing is known.
    pub fn make(&self) -> Box<dyn Scheduler> {
        self.make_for(&ConnectionFacts::default())
    }

    /// One scheduler, for this connection.
    pub fn make_for(&self, connection: &ConnectionFacts) -> Box<dyn Scheduler> {
        self.0(connection)
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

/// What settings and connections take for a scheduler: a [`SchedulerFactory`], or a function or closure that returns a scheduler,
/// in a box or not. `Kind` tells these apart and is found by the compiler.
///
/// ```
/// use mpquic_sched_core::{IntoSchedulerFactory, MinRtt, SchedulerFactory};
///
/// fn configure<Kind>(scheduler: impl IntoSchedulerFactory<Kind>) -> SchedulerFactory {
///     scheduler.into_factory()
/// }
///
/// let factory = configure(MinRtt::default);
/// configure(|| MinRtt::default());
/// configure(|| Box::new(MinRtt::default()));
/// configure(factory);
/// ```
pub trait IntoSchedulerFactory<Kind> {
    /// The factory.
    fn into_factory(self) -> SchedulerFactory;
}

impl<T: Into<SchedulerFactory>> IntoSchedulerFactory<SchedulerFactory> for T {
    fn into_factory(self) -> SchedulerFactory {
        self.into()
    }
}

impl<F, S> IntoSchedulerFactory<fn() -> S> for F
where
    F: Fn() -> S + Send + Sync + 'static,
    S: Scheduler + 'static,
{
    fn into_factory(self) -> SchedulerFactory {
        SchedulerFactory::new(move || Box::new(self()))
    }
}

impl fmt::Debug for SchedulerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerFactory").finish_non_exhaustive()
    }
}
