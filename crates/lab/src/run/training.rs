//! Training runs: what a client and a server remember from connections over a cell's network before the measured
//! run: the experience of a learning scheduler, the facts of paths.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpquic_proto::{TokenMemoryStore, TokenStore};
use mpquic_sched::Registry;
use mpquic_sched::memory::Store;

use crate::plan::Cell;
use crate::run::setup;

/// How long a connection stays open after its application is complete. A real application might
/// request more. It is long enough for all acknowledgements, so that the rewards of the last
/// decisions are known.
const LINGER: Duration = Duration::from_secs(2);

/// Makes the schedulers of the measured run, with the memory of the training runs.
pub(crate) struct Trained {
    pub(crate) registry: Registry,
    /// What the server remembers of its paths, if it does.
    pub(crate) paths: Option<Store>,
    /// What the client does.
    pub(crate) client_paths: Option<Store>,
    /// The address validation tokens that the client keeps, if it does.
    pub(crate) tokens: Option<Arc<dyn TokenStore>>,
    /// The number of training runs.
    pub(crate) runs: u32,
}

/// Executes a cell's training runs one after the other. Each is a connection of its own over the
/// same network with another seed. The schedulers' memory passes from each run to the next. `stop` ends them.
///
/// # Errors
///
/// If a training run fails, or if the memory refuses what was learned.
pub(crate) fn train(
    cell: &Cell<'_>,
    seed: u64,
    stop: Option<&Arc<AtomicBool>>,
) -> Result<Trained, String> {
    let memory = Store::new();
    // Facts of paths need a connection that has measured them.
    let before = u32::from(cell.network.memory) * cell.network.connections_before;
    let runs = cell.scheduler.training.max(before);
    let trained = Trained {
        registry: cell.roster.registry().with_memory(memory.clone()),
        paths: cell.network.memory.then(|| memory.clone()),
        client_paths: cell.network.memory.then(Store::new),
        tokens: (cell.network.memory && cell.network.tokens)
            .then(|| Arc::new(TokenMemoryStore::default()) as Arc<dyn TokenStore>),
        runs,
    };
    let watch = setup::Watch {
        stop,
        ..setup::Watch::default()
    };
    let network = cell.network.before();
    let cell = &Cell {
        network: &network,
        ..cell.clone()
    };
    for number in 0..runs {
        let fault = |error: &dyn std::error::Error| format!("training run {}: {error}", number + 1);
        let workload = cell.training_workload;
        let seed = cell.training_seed(seed, number);
        // Another time on the same way: another channel of the same models.
        let drawn = cell.network.drawn(seed);
        let cell = &Cell {
            network: drawn.as_ref().unwrap_or(cell.network),
            ..cell.clone()
        };
        let mut network =
            setup::network(cell, workload, seed, &trained, watch).map_err(|error| fault(&error))?;
        let done = network
            .run_to_completion(workload.time_limit())
            .map_err(|error| fault(&error))?;
        network
            .run_until(done.completed + LINGER)
            .map_err(|error| fault(&error))?;
        // The connections end here, and their schedulers store what they have learned in the
        // memory.
        drop(network);
    }
    if memory.refused() > 0 {
        // What the memory refused is lost. The run would wrongly count as trained.
        let refused = memory.refused();
        return Err(format!(
            "training: the memory refused to store {refused} entries"
        ));
    }
    Ok(trained)
}
