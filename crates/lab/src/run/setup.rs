//! Builds the simulated network of one run from its description.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{
    AckFrequencyConfig, CongestionControl, EarlyPathData, InitialWindow, RaceConfig,
    TransportConfig,
};
use mpquic_sched::{Registry, RegistryError, SchedulerFactory};
use mpquic_sim::workload::Workload;
use mpquic_sim::{
    FluidLink, FluidPath, Hop, LinkConfig, Network, NetworkBuilder, SimError, StartBounds,
    StartRules, fluid_bounds, share_link,
};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::file::experiment::SchedulerSpec;
use crate::file::network::NetworkSpec;
use crate::plan::Cell;
use crate::run::oracle;
use crate::run::qlogs;
use crate::run::training::Trained;

/// Why a run could not start.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Config(#[from] mpquic_proto::ConfigError),
    #[error(transparent)]
    Scheduler(#[from] RegistryError),
}

/// Who looks at a run besides its meters, and who ends it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'a> {
    /// Time lines are kept, thinned to this interval.
    pub(crate) timeline: Option<Duration>,
    /// The qlog of both sides goes into this folder.
    pub(crate) qlog: Option<&'a Path>,
    /// What else is attached.
    pub(crate) attach: Option<&'a dyn Fn(NetworkBuilder) -> NetworkBuilder>,
    /// Once this is set, the run ends.
    pub(crate) stop: Option<&'a Arc<AtomicBool>>,
}

/// The network of one run of a cell at time 0. The caller chooses the workload, the seed of all
/// randomness, and what is remembered from runs before.
pub(crate) fn network(
    cell: &Cell<'_>,
    workload: &Workload,
    seed: u64,
    trained: &Trained,
    watch: Watch<'_>,
) -> Result<Network, SetupError> {
    let alone = alone(cell.scheduler, cell.network, workload);
    let (spec, of) = match &alone {
        Some((network, scheduler)) => (network, scheduler),
        None => (cell.network, cell.scheduler),
    };
    let factory = scheduler(&trained.registry, of, spec, workload, seed)?;
    let mut transport = spec.transport(cell.congestion, factory)?;
    workload.tune(&mut transport);
    let mut server = transport.clone();
    if let Some(paths) = &trained.paths {
        server.path_memory(Some(Arc::new(paths.clone())));
    }
    let mut client = transport;
    if let Some(paths) = &trained.client_paths {
        client.path_memory(Some(Arc::new(paths.clone())));
    }
    let mut builder = Network::builder(seed)
        .client_transport(client)
        .server_transport(server)
        .client_boxed(workload.client(seed))
        .server_boxed(workload.server(seed))
        .handshake_path(spec.handshake)
        .open_all_paths()
        .measure();
    if let Some(tokens) = &trained.tokens {
        builder = builder.token_store(Arc::clone(tokens));
    }
    if spec.race {
        builder = builder.race(RaceConfig::default());
    }
    if let Some(bytes) = workload.download_size()
        && cell.time_lost
    {
        builder = builder.lost_time(&fluid_paths(spec), bytes);
    }
    if let Some(interval) = watch.timeline {
        builder = builder.timeline(interval);
    }
    if let Some(folder) = watch.qlog {
        builder = qlogs::observed(builder, folder);
    }
    if let Some(attach) = watch.attach {
        builder = attach(builder);
    }
    if let Some(stop) = watch.stop {
        builder = builder.stop_when(Arc::clone(stop));
    }
    if !cell.real_aead {
        builder = builder.null_aead();
    }
    // A shared link has one queue for both directions: take one link per direction.
    let shared: Vec<_> = spec
        .shared
        .iter()
        .map(|shared| {
            let [up, down] = [(); 2].map(|()| builder.shared_link(shared.link.clone()));
            (&shared.name, up, down)
        })
        .collect();
    for path in &spec.paths {
        let through = shared
            .iter()
            .find(|link| Some(link.0) == path.through.as_ref());
        builder = match through {
            None => builder.path(path.up.clone(), path.down.clone()),
            Some(&(_, up, down)) => {
                let own = |link: &LinkConfig| Hop::from(link.clone());
                builder.path_through([own(&path.up), up.into()], [down.into(), own(&path.down)])
            }
        };
    }
    for &traffic in &spec.cross_traffic {
        builder = builder.cross_traffic(traffic);
    }
    // Nobody else goes where a train leads.
    builder = builder.cross_slow_start(match spec.slow_start {
        SlowStart::Train => SlowStart::Rapid,
        other => other,
    });
    Ok(builder.build()?)
}

/// For the scheduler that uses one path: the network with the handshake on that path, which makes its path ID 0, and the
/// scheduler told so. It stands for a connection that has no other path: one whose handshake took another path would be
/// slower or faster than that for a reason that is none of its own.
fn alone(
    spec: &SchedulerSpec,
    network: &NetworkSpec,
    workload: &Workload,
) -> Option<(NetworkSpec, SchedulerSpec)> {
    if spec.name != "single" {
        return None;
    }
    let best = || oracle::best_path(network, workload, &fluid_paths(network));
    let config = oracle::told(&spec.config, Vec::new, best);
    // A configuration that is none is refused where it is read.
    let id = match config.get("path") {
        None => 0,
        Some(path) => usize::try_from(path.as_u64()?).ok()?,
    };
    let opened = network.opened();
    let number = *opened.get(id).or_else(|| opened.first())?;
    let network = NetworkSpec {
        handshake: number,
        race: false,
        ..network.clone()
    };
    let mut spec = spec.clone();
    if let Some(path) = spec.config.get_mut("path") {
        *path = 0.into();
    }
    Some((network, spec))
}

/// A scheduler as configured. It gets the network's rates if it asks for an oracle, and the run's
/// seed if it takes a seed and has none.
fn scheduler(
    registry: &Registry,
    spec: &SchedulerSpec,
    network: &NetworkSpec,
    workload: &Workload,
    seed: u64,
) -> Result<SchedulerFactory, RegistryError> {
    let name = &*spec.name;
    let rates = || oracle::rates(network);
    let best = || oracle::best_path(network, workload, &fluid_paths(network));
    let config = &oracle::told(&spec.config, rates, best);
    let mut seeded = match config {
        Value::Null => Map::new(),
        Value::Object(settings) => settings.clone(),
        _ => return registry.factory(name, config),
    };
    if !seeded.contains_key("seed") {
        seeded.insert("seed".to_owned(), seed.into());
        if let Ok(factory) = registry.factory(name, &Value::Object(seeded)) {
            return Ok(factory);
        }
    }
    registry.factory(name, config)
}

/// The paths' own links.
fn own_paths(spec: &NetworkSpec) -> Vec<FluidPath> {
    let paths = spec.paths.iter();
    paths
        .map(|path| FluidPath::new(&path.up, &path.down, spec.mtu))
        .collect()
}

/// The paths of the fluid bound, where those through a shared link have divided its rate.
fn fluid_paths(spec: &NetworkSpec) -> Vec<FluidPath> {
    let mut paths = own_paths(spec);
    for shared in &spec.shared {
        let through: Vec<_> = (0..paths.len())
            .filter(|&number| spec.paths[number].through.as_ref() == Some(&shared.name))
            .collect();
        let link = FluidLink::new(&shared.link);
        share_link(&mut paths, &through, &link, &link);
    }
    paths
}

/// The paths as each would be without the others.
fn paths_alone(spec: &NetworkSpec) -> Vec<FluidPath> {
    let mut paths = own_paths(spec);
    for (path, own) in paths.iter_mut().zip(&spec.paths) {
        let through = spec.shared.iter();
        for shared in through.filter(|shared| own.through.as_ref() == Some(&shared.name)) {
            let link = FluidLink::new(&shared.link);
            path.up = path.up.then(&link);
            path.down = path.down.then(&link);
        }
    }
    paths
}

/// The bounds of a run's metrics.
pub(crate) fn bounds(cell: &Cell<'_>, seed: u64) -> BTreeMap<&'static str, f64> {
    fluid_bounds(
        cell.workload,
        &fluid_paths(cell.network),
        cell.network_seed(seed),
    )
}

/// The bounds of a download that count how its connection starts; `None` for other workloads.
pub(crate) fn start_bounds(cell: &Cell<'_>) -> Option<StartBounds> {
    let alone = alone(cell.scheduler, cell.network, cell.workload);
    let spec = alone.as_ref().map_or(cell.network, |(network, _)| network);
    let rules = StartRules {
        handshake: spec.handshake_path(),
        start: spec.start,
        early_data: spec.early_path_data,
        initial_window: spec.initial_window,
    };
    StartBounds::new(
        cell.workload.download_size()?,
        cell.workload.request_size()?,
        &fluid_paths(spec),
        &paths_alone(spec),
        &rules,
    )
}

impl NetworkSpec {
    /// The settings of both sides of the measured connection, with this controller and scheduler. Real endpoints that use them
    /// do what the simulated ones do.
    ///
    /// # Errors
    ///
    /// If the network has settings that the library refuses.
    pub fn transport(
        &self,
        congestion: CongestionControl,
        factory: SchedulerFactory,
    ) -> Result<TransportConfig, mpquic_proto::ConfigError> {
        let mut transport = TransportConfig::default();
        transport
            .receive_window(self.receive_window)
            .stream_receive_window(self.receive_window)
            // The papers give a window size, not an auto-tuning policy.
            .window_auto_tuning(false)
            .send_window(self.send_window)
            .congestion(congestion)
            .path_start(self.start)
            .early_path_data(match self.early_path_data {
                true => EarlyPathData::Both,
                false => EarlyPathData::default(),
            })
            .tail_copies(self.tail_copies)
            .pacing(self.pacing)
            .initial_window(InitialWindow::Packets(self.initial_window))?
            .scheduler(factory)
            // As in the papers' stacks, which do not search for a larger size.
            .initial_mtu(self.mtu)?
            .max_mtu(self.mtu)?;
        transport.slow_start(self.slow_start);
        if let Some(asks) = self.ack_frequency {
            transport.ack_frequency_config(asks.then(AckFrequencyConfig::default));
        }
        Ok(transport)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use mpquic_sched::MinRtt;
    use serde_json::json;

    use super::*;
    use crate::Experiment;

    fn network_of(line: &str) -> NetworkSpec {
        let schedulers = ["minrtt".to_owned()];
        let olia = ["olia".to_owned()];
        let experiment = Experiment::of_one_network(line, "file:2MB", &schedulers, &olia);
        experiment.unwrap().networks.remove(0)
    }

    #[test]
    fn one_path_alone_carries_its_handshake() {
        let network = network_of("50Mbit 20ms 0% | 2Mbit 100ms 1.5% | 8Mbit 1ms 0%");
        let spec = |name: &str, config| SchedulerSpec {
            label: name.into(),
            name: name.into(),
            config,
            training: 0,
            family: String::new(),
            parameters: Vec::new(),
        };
        let workload: Workload = "file:2MB".parse().unwrap();
        let of = |network: &NetworkSpec, config| {
            let (network, spec) = alone(&spec("single", config), network, &workload)?;
            Some((network.handshake_path(), spec.config))
        };
        let first = json!({"path": 0});
        assert_eq!(of(&network, json!({"path": 1})), Some((1, first.clone())));
        assert_eq!(of(&network, json!({"path": 9})), Some((0, first.clone())));
        assert_eq!(of(&network, Value::Null), Some((0, Value::Null)));
        assert_eq!(of(&network, json!({"path": "worst"})), None);
        assert!(alone(&spec("minrtt", json!({})), &network, &workload).is_none());
        // Path IDs follow the handshake's path, and a race would choose the third one.
        let second = NetworkSpec {
            handshake: 1,
            race: true,
            ..network
        };
        let opened = second.opened();
        for (id, number) in opened.into_iter().enumerate() {
            let expected = Some((number, first.clone()));
            assert_eq!(of(&second, json!({"path": id})), expected);
        }
        assert_eq!(of(&second, json!({"path": "best"})), Some((0, first)));
    }

    /// Takes only the rates of its network.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rates {
        rates: Vec<f64>,
    }

    #[test]
    fn an_oracle_is_told_the_rates_of_the_network() {
        let mut registry = Registry::new();
        let seen = Arc::<Mutex<Vec<Vec<f64>>>>::default();
        let into = Arc::clone(&seen);
        let make = move |config: &Rates| {
            into.lock().unwrap().push(config.rates.clone());
            MinRtt::default()
        };
        registry.register("knowing", make).unwrap();
        let spec = SchedulerSpec {
            label: "knowing".into(),
            name: "knowing".into(),
            config: json!({"rates": "oracle"}),
            training: 0,
            family: String::new(),
            parameters: Vec::new(),
        };
        for line in [
            "50Mbit 20ms 0% | 2Mbit 100ms 1.5%",
            "8Mbit 1ms 0% | 9Mbit 1ms 0% | 10Mbit 1ms 0%",
        ] {
            let factory = scheduler(
                &registry,
                &spec,
                &network_of(line),
                &"file:2MB".parse().unwrap(),
                7,
            )
            .unwrap();
            drop(factory.make());
        }
        assert_eq!(
            *seen.lock().unwrap(),
            [vec![50.0, 2.0], vec![8.0, 9.0, 10.0]]
        );
    }

    #[test]
    fn schedulers_get_the_seed_if_they_take_one() {
        let registry = Registry::new();
        let network = network_of("50Mbit 20ms 0% | 2Mbit 100ms 1.5%");
        let make = |name: &str, config: &Value| {
            let spec = SchedulerSpec {
                label: name.into(),
                name: name.into(),
                config: config.clone(),
                training: 0,
                family: String::new(),
                parameters: Vec::new(),
            };
            scheduler(&registry, &spec, &network, &"file:2MB".parse().unwrap(), 7)
        };
        for (name, config) in [
            ("minrtt", Value::Null),
            ("minrtt", json!({})),
            ("ecf_a", json!({"p_wait": 0.5})),
            ("ecf_a", json!({"seed": 3})),
        ] {
            assert!(make(name, &config).is_ok(), "{name} {config}");
        }
        for (name, config) in [
            ("no_such", Value::Null),
            ("minrtt", json!({"p_wait": 1})),
            ("ecf_a", json!({"p_wait": 2.0})),
            ("ecf_a", json!([])),
        ] {
            assert!(make(name, &config).is_err(), "{name} {config}");
        }
    }
}
