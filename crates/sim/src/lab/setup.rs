//! Builds the simulated network of one run out of its description; the only place of the lab that knows how the simulator is put together.

use mpquic_proto::{CongestionControl, Side, TransportConfig};
use mpquic_sched::{RegistryError, SchedulerFactory};
use thiserror::Error;

use super::network::{DirectionSpec, NetworkSpec};
use super::plan::Cell;
use crate::{Action, Network, SimError};

/// Why a run could not begin.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Config(#[from] mpquic_proto::ConfigError),
    #[error(transparent)]
    Scheduler(#[from] RegistryError),
    #[error("{0}")]
    Unsupported(&'static str),
}

/// The network of one run, at time 0.
pub(crate) fn network(cell: &Cell<'_>, seed: u64) -> Result<Network, SetupError> {
    let spec = cell.network;
    let seed = cell.network_seed(seed);
    let registry = mpquic_sched::Registry::new();
    let factory = registry.factory(&cell.scheduler.name, &cell.scheduler.config)?;
    let transport = transport(spec, cell.congestion, factory)?;
    if !spec.shared.is_empty() || !spec.cross_traffic.is_empty() {
        return Err(SetupError::Unsupported("no shared links and no cross traffic yet"));
    }
    let mut builder = Network::builder(seed)
        .transport(transport)
        .client_boxed(cell.workload.client(seed))
        .server_boxed(cell.workload.server(seed))
        .open_all_paths();
    for path in &spec.paths {
        builder = builder.path(path.up.link.clone(), path.down.link.clone());
    }
    let mut network = builder.build()?;
    for (number, path) in spec.paths.iter().enumerate() {
        script(&mut network, number, Side::Client, &path.up);
        script(&mut network, number, Side::Server, &path.down);
    }
    Ok(network)
}

fn transport(
    spec: &NetworkSpec,
    congestion: CongestionControl,
    factory: SchedulerFactory,
) -> Result<TransportConfig, mpquic_proto::ConfigError> {
    let mut transport = TransportConfig::default();
    transport
        .receive_window(spec.receive_window)
        .stream_receive_window(spec.receive_window)
        .send_window(spec.send_window)
        .congestion(congestion)
        .scheduler(move || factory())
        // As the papers' stacks, which do not search for a larger size.
        .initial_mtu(spec.mtu)?
        .max_mtu(spec.mtu)?;
    Ok(transport)
}

fn script(network: &mut Network, path: usize, from: Side, direction: &DirectionSpec) {
    for step in &direction.steps {
        let from = Some(from);
        if let Some(rate) = step.rate {
            let rate = Some(rate);
            network.at(step.at, Action::SetLinkRate { path, from, rate });
        }
        if let Some(delay) = step.delay {
            network.at(step.at, Action::SetLinkDelay { path, from, delay });
        }
        if let Some(loss) = step.loss {
            network.at(step.at, Action::SetLinkLoss { path, from, loss });
        }
    }
}
