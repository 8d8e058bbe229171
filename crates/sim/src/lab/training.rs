//! Lets a scheduler that learns gather experience on a cell's network before the run that is measured; measures nothing.

use std::time::Duration;

use mpquic_sched::Registry;
use mpquic_sched::memory::Store;

use super::plan::Cell;
use super::setup;

/// How long a connection stays open once its application is done, as one does whose application may
/// ask for more: long enough for all to be acknowledged, so that what the last decisions brought
/// is known.
const LINGER: Duration = Duration::from_secs(2);

/// What makes the schedulers of the measured run, with the memory of the runs before it.
pub(crate) struct Trained {
    pub(crate) registry: Registry,
    /// How many runs there were.
    pub(crate) runs: u32,
}

/// Runs a cell's training runs one after the other, each a connection of its own over the same
/// network with another seed, the memory of its schedulers carried over from the one before.
///
/// # Errors
///
/// If one of them fails: which, and why. If the memory does not take what was learned.
pub(crate) fn train(cell: &Cell<'_>, seed: u64) -> Result<Trained, String> {
    let memory = Store::new();
    let registry = Registry::new().with_memory(memory.clone());
    let runs = cell.scheduler.training;
    for number in 0..runs {
        let fault = |error: &dyn std::error::Error| format!("training run {}: {error}", number + 1);
        let workload = cell.training_workload;
        let seed = cell.training_seed(seed, number);
        let mut network =
            setup::network(cell, workload, seed, &registry, None).map_err(|error| fault(&error))?;
        let done = network
            .run_to_completion(workload.time_limit())
            .map_err(|error| fault(&error))?;
        network
            .run_until(done.completed + LINGER)
            .map_err(|error| fault(&error))?;
        // Its connections end here, and leave what they have learned to the memory.
        drop(network);
    }
    if memory.refused() > 0 {
        // What was not kept was not learned from: such a run would pass for a trained one.
        let refused = memory.refused();
        return Err(format!("training: the memory refused {refused} deposits"));
    }
    Ok(Trained { registry, runs })
}
