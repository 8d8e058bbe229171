//! How a connection gets a scheduler of its own; knows no scheduler.

use std::sync::Arc;

use crate::Scheduler;

/// Makes a scheduler for each new connection; cannot fail.
pub type SchedulerFactory = Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>;
