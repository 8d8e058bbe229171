//! Puts a simulated network together as the lab does, and runs its workload to the end.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpquic_proto::{CongestionControl, Connection, InitialWindow, TransportConfig};
use mpquic_sched::SchedulerFactory;
use mpquic_sim::workload::Workload;
use mpquic_sim::{Network, SimError};

use super::description::NetworkDescription;
use super::outcome::Outcome;

/// How long a run goes on once its client has all it wanted: the last acknowledgements still have to come, and with them
/// the last rewards. Longer than any path of the papers needs, loss of acknowledgements included.
const LINGER: Duration = Duration::from_secs(3);

/// All that a run follows from.
pub(crate) struct Setup {
    pub(crate) network: NetworkDescription,
    pub(crate) workload: Workload,
    pub(crate) congestion: CongestionControl,
    pub(crate) seed: u64,
    pub(crate) client: SchedulerFactory,
    pub(crate) server: SchedulerFactory,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error("transport settings: {0}")]
    Config(#[from] mpquic_proto::ConfigError),
    #[error("{0}")]
    Result(#[from] mpquic_sim::workload::ResultError),
    #[error("panicked: {0}")]
    Panicked(String),
}

impl RunError {
    /// What a panic said, if it said anything.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panicked(text.unwrap_or_default())
    }
}

impl Setup {
    /// Whether it can be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name = &self.network.name;
        let network = self.network();
        network
            .map(|_| ())
            .map_err(|error| format!("network `{name}`: {error}"))
    }

    /// The network at time 0.
    fn network(&self) -> Result<Network, RunError> {
        let mut builder = Network::builder(self.seed)
            .client_transport(self.transport(&self.client)?)
            .server_transport(self.transport(&self.server)?)
            .client_boxed(self.workload.client(self.seed))
            .server_boxed(self.workload.server(self.seed))
            .open_all_paths()
            .measure()
            .null_aead();
        for path in &self.network.paths {
            builder = builder.path(path.up.clone(), path.down.clone());
        }
        Ok(builder.build()?)
    }

    fn transport(
        &self,
        scheduler: &SchedulerFactory,
    ) -> Result<TransportConfig, mpquic_proto::ConfigError> {
        let spec = &self.network;
        let mut transport = TransportConfig::default();
        transport
            .receive_window(spec.receive_window)
            .stream_receive_window(spec.receive_window)
            .window_auto_tuning(false)
            .send_window(spec.send_window)
            .congestion(self.congestion)
            .initial_window(InitialWindow::Packets(spec.initial_window))?
            .scheduler(scheduler.clone())
            .initial_mtu(spec.mtu)?
            .max_mtu(spec.mtu)?;
        Ok(transport)
    }

    /// Runs the workload to its end, and a little further if `linger` says that something still listens; ends early,
    /// with an error, once `stop` is set. Tells `started` what time 0 is, and shows `watch` the client after each step.
    pub(crate) fn run(
        &self,
        linger: bool,
        stop: Arc<AtomicBool>,
        started: impl FnOnce(Instant),
        watch: impl Fn(&Connection) + 'static,
    ) -> Result<Outcome, RunError> {
        let mut network = self.network()?;
        started(network.instant());
        network.on_step(move |view| {
            if let Some(client) = view.client {
                watch(client);
            }
            match stop.load(Ordering::Relaxed) {
                true => Err("abandoned".to_owned()),
                false => Ok(()),
            }
        });
        let report = network.run_to_completion(self.workload.time_limit())?;
        let outcome = Outcome::of(&self.workload, &network, &report)?;
        // A download without end would only go on.
        if linger && !matches!(self.workload, Workload::Bulk(_)) {
            network.run_until(network.now() + LINGER)?;
        }
        Ok(outcome)
    }
}
