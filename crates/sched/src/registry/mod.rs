//! Makes schedulers from names and JSON values; knows what is registered, not what it does.

mod error;
mod services;
mod settings;

pub use error::RegistryError;
pub use settings::{InvalidConfig, NoConfig};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::memory::{Recall, Store};
use crate::neural::{DqnOnline, DqnOnlineConfig, NeuralScheduler};
#[cfg(feature = "record")]
use crate::record::Recorder;
use services::{Services, Wire};

use crate::heuristic::arrival;
use crate::{
    Arrival, Atsss, AtsssConfig, Backup, Blest, BlestConfig, Daps, DapsConfig, Dems, Ecf, EcfA,
    EcfAConfig, EcfConfig, EpsilonGreedyConfig, Falcon, FalconConfig, Linucb, LinucbConfig, MinRtt,
    Mptcp, MptcpConfig, Otias, Peekaboo, PeekabooConfig, Raven, RavenConfig, Redundant, RoundRobin,
    SaEcf, SaEcfConfig, Scheduler, SchedulerFactory, SinglePath, Stms, StreamMinRtt, Ucb,
    UcbConfig, Xlink, XlinkConfig,
};

type Parse =
    Box<dyn Fn(&Value, &Services) -> Result<SchedulerFactory, InvalidConfig> + Send + Sync>;

/// The names that `mpquic-sched-neural` adds.
const NEURAL: [&str; 3] = ["dqn", "gaps", "sailfish"];

/// Schedulers by name, for command lines, experiment files and users' configurations.
///
/// A configuration is a JSON object; `null` stands for the empty one. Every field of the built-in
/// schedulers has a default, and an unknown field is an error.
///
/// | name | scheduler | configuration |
/// |---|---|---|
/// | `arrival`, `default` | [`Arrival`] | [`ArrivalConfig`](crate::ArrivalConfig) |
/// | `atsss` | [`Atsss`] | [`AtsssConfig`] |
/// | `backup` | [`Backup`] | [`BackupConfig`](crate::BackupConfig) |
/// | `blest` | [`Blest`] | [`BlestConfig`] |
/// | `daps` | [`Daps`] | [`DapsConfig`] |
/// | `dems` | [`Dems`] | [`DemsConfig`](crate::DemsConfig) |
/// | `dqn_online` | [`DqnOnline`] | [`DqnOnlineConfig`] |
/// | `ecf` | [`Ecf`] | [`EcfConfig`] |
/// | `ecf_a` | [`EcfA`] | [`EcfAConfig`] |
/// | `epsilon_greedy` | [`Ucb::epsilon_greedy`] | [`EpsilonGreedyConfig`] |
/// | `falcon` | [`Falcon`] | [`FalconConfig`] |
/// | `linucb` | [`Linucb`] | [`LinucbConfig`] |
/// | `minrtt` | [`MinRtt`] | [`MinRttConfig`](crate::MinRttConfig) |
/// | `mptcp` | [`Mptcp`] | [`MptcpConfig`] |
/// | `otias` | [`Otias`] | [`OtiasConfig`](crate::OtiasConfig) |
/// | `peekaboo` | [`Peekaboo`] | [`PeekabooConfig`] |
/// | `raven` | [`Raven`] | [`RavenConfig`] |
/// | `redundant` | [`Redundant`] | [`RedundantConfig`](crate::RedundantConfig) |
/// | `roundrobin`, `rr` | [`RoundRobin`] | [`RoundRobinConfig`](crate::RoundRobinConfig) |
/// | `sa_ecf` | [`SaEcf`] | [`SaEcfConfig`] |
/// | `single` | [`SinglePath`] | [`SinglePathConfig`](crate::SinglePathConfig) |
/// | `stms` | [`Stms`] | [`StmsConfig`](crate::StmsConfig) |
/// | `stream_minrtt` | [`StreamMinRtt`] | [`StreamMinRttConfig`](crate::StreamMinRttConfig) |
/// | `ucb` | [`Ucb`] | [`UcbConfig`] |
/// | `ucb_block` | [`Ucb`] that may choose a full path | [`UcbConfig`] |
/// | `xlink` | [`Xlink`] | [`XlinkConfig`] |
///
/// Those that ask a trained network, `dqn`, `gaps` and `sailfish`, are in the crate `mpquic-sched-neural`, which adds them to
/// a registry.
///
/// Copies of published faults are in `mpquic_lab::replica`, which adds them likewise.
///
/// ```
/// use mpquic_sched::Registry;
/// use serde_json::json;
///
/// let registry = Registry::new();
/// let mut scheduler = registry.build("roundrobin", &json!({"burst": 2}))?;
/// # let _ = &mut scheduler;
///
/// let error = registry.build("min-rtt", &json!({})).err().unwrap();
/// let message = error.to_string();
/// assert!(message.starts_with("unknown scheduler `min-rtt`, did you mean `minrtt`? Known: "));
/// assert!(message.contains("roundrobin (or rr)"));
///
/// let error = registry.build("rr", &json!({"burst": "two"})).err().unwrap();
/// assert_eq!(
///     error.to_string(),
///     "scheduler `roundrobin`, field `burst`: invalid type: string \"two\", expected a nonzero u32",
/// );
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
pub struct Registry {
    entries: BTreeMap<String, Parse>,
    /// Second names, and the first ones that they stand for.
    aliases: BTreeMap<String, String>,
    services: Services,
}

impl Registry {
    /// A registry with the built-in schedulers.
    pub fn new() -> Self {
        let mut registry = Self::empty();
        registry
            .insert_checked("arrival", arrival::check, Arrival::new)
            .insert_checked("atsss", AtsssConfig::check, Atsss::new)
            .insert_checked("backup", |_| Ok(()), Backup::new)
            .insert_checked("blest", BlestConfig::check, Blest::new)
            .insert_checked("daps", DapsConfig::check, Daps::new)
            .insert_checked("dems", |_| Ok(()), Dems::new)
            .insert(
                "dqn_online",
                recalled("dqn_online", DqnOnlineConfig::check),
                |config, recall| DqnOnline::with_memory(config, recall.clone()),
                Services::observed,
            )
            .insert_checked("ecf", EcfConfig::check, Ecf::new)
            .insert_checked("ecf_a", EcfAConfig::check, EcfA::new)
            .insert_checked(
                "epsilon_greedy",
                EpsilonGreedyConfig::check,
                Ucb::epsilon_greedy,
            )
            .insert(
                "falcon",
                recalled("falcon", FalconConfig::check),
                |config, recall| Falcon::with_memory(config, recall.clone()),
                Services::observed,
            )
            .insert(
                "linucb",
                recalled("linucb", LinucbConfig::check),
                |config, recall| Linucb::with_memory(config, recall.clone()),
                Services::observed,
            )
            .insert_checked("minrtt", |_| Ok(()), MinRtt::new)
            .insert_checked("mptcp", MptcpConfig::check, Mptcp::new)
            .insert_checked("otias", |_| Ok(()), Otias::new)
            .insert(
                "peekaboo",
                recalled("peekaboo", PeekabooConfig::check),
                |config, recall| Peekaboo::with_memory(config, recall.clone()),
                Services::observed,
            )
            .insert_checked("raven", RavenConfig::check, Raven::new)
            .insert_checked("redundant", |_| Ok(()), Redundant::new)
            .insert_checked("roundrobin", |_| Ok(()), RoundRobin::new)
            .insert_checked("sa_ecf", SaEcfConfig::check, SaEcf::new)
            .insert_checked("single", |_| Ok(()), SinglePath::new)
            .insert_checked("stms", |_| Ok(()), Stms::new)
            .insert_checked("stream_minrtt", |_| Ok(()), StreamMinRtt::new)
            .insert_checked("ucb", UcbConfig::check, Ucb::new)
            .insert_checked("ucb_block", UcbConfig::check, Ucb::blocking)
            .insert_checked("xlink", XlinkConfig::check, Xlink::new);
        for (alias, name) in [("rr", "roundrobin"), ("default", "arrival")] {
            registry.aliases.insert(alias.into(), name.into());
        }
        registry
    }

    /// A registry with nothing in it.
    pub const fn empty() -> Self {
        Self {
            entries: BTreeMap::new(),
            aliases: BTreeMap::new(),
            services: Services::NOTHING,
        }
    }

    /// The same registry with a memory: learning schedulers that are made from now on begin with what
    /// those before them learned over the same paths, and leave there what they learn themselves.
    ///
    /// Without one, each connection learns from the start. See [`memory`](crate::memory).
    #[must_use]
    pub fn with_memory(mut self, memory: Store) -> Self {
        self.services.memory = Some(memory);
        self
    }

    /// The same registry with a recorder: what the schedulers experience that are made from now on is written down,
    /// if they are of those that tell (`linucb`, `peekaboo`, those that ask a network). See [`record`](crate::record).
    #[cfg(feature = "record")]
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.services.recorder = Some(recorder);
        self
    }

    /// Registers a scheduler whose configuration is right if it can be read as a `C`.
    ///
    /// Give `C` the attribute `#[serde(deny_unknown_fields, default)]`, or take
    /// [`NoConfig`].
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`].
    pub fn register<C, S>(
        &mut self,
        name: &str,
        make: impl Fn(&C) -> S + Send + Sync + 'static,
    ) -> Result<&mut Self, RegistryError>
    where
        C: DeserializeOwned + Send + Sync + 'static,
        S: Scheduler + 'static,
    {
        self.register_checked(name, |_| Ok(()), make)
    }

    /// Registers a scheduler whose configuration must pass `check` beyond being readable as a `C`:
    /// ranges, fields that exclude each other.
    ///
    /// ```
    /// use mpquic_sched::{InvalidConfig, MinRtt, MinRttConfig, Registry};
    ///
    /// #[derive(serde::Deserialize)]
    /// #[serde(deny_unknown_fields)]
    /// struct Config {
    ///     alpha: f64,
    /// }
    ///
    /// let mut registry = Registry::new();
    /// registry.register_checked(
    ///     "mine",
    ///     |config: &Config| match config.alpha {
    ///         0.0.. => Ok(()),
    ///         alpha => Err(InvalidConfig::field("alpha", format!("expected 0 or more, got {alpha}"))),
    ///     },
    ///     |_| MinRtt::new(&MinRttConfig::default()),
    /// )?;
    /// let error = registry.build("mine", &serde_json::json!({"alpha": -1.0})).err().unwrap();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "scheduler `mine`, field `alpha`: expected 0 or more, got -1",
    /// );
    /// # Ok::<(), mpquic_sched::RegistryError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`].
    pub fn register_checked<C, S>(
        &mut self,
        name: &str,
        check: impl Fn(&C) -> Result<(), InvalidConfig> + Send + Sync + 'static,
        make: impl Fn(&C) -> S + Send + Sync + 'static,
    ) -> Result<&mut Self, RegistryError>
    where
        C: DeserializeOwned + Send + Sync + 'static,
        S: Scheduler + 'static,
    {
        self.free(name)?;
        Ok(self.insert_checked(name, check, make))
    }

    /// Registers a scheduler that learns: each one made gets a handle on what the earlier ones of
    /// this name learned, with the same configuration but for its field `seed`. The handle is
    /// [`Recall::none`] if the registry has no memory.
    ///
    /// [`memory`](crate::memory) has an example.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`].
    pub fn register_learner<C, S>(
        &mut self,
        name: &str,
        check: impl Fn(&C) -> Result<(), InvalidConfig> + Send + Sync + 'static,
        make: impl Fn(&C, Recall) -> S + Send + Sync + 'static,
    ) -> Result<&mut Self, RegistryError>
    where
        C: DeserializeOwned + Serialize + Send + Sync + 'static,
        S: Scheduler + 'static,
    {
        self.free(name)?;
        let make = move |config: &C, recall: &Recall| make(config, recall.clone());
        Ok(self.insert(name, recalled(name, check), make, Services::plain))
    }

    /// Registers a scheduler that asks a policy. `prepare` checks its configuration and finds the policy, once for all
    /// connections; `make` makes a scheduler of these two. What it experiences is recorded, if the registry has a
    /// recorder.
    ///
    /// ```
    /// use mpquic_sched::Registry;
    /// use mpquic_sched::neural::{Dqn, DqnConfig, Random};
    ///
    /// let mut registry = Registry::new();
    /// registry.register_neural(
    ///     "chance",
    ///     |config: &DqnConfig| {
    ///         config.check()?;
    ///         Ok(Random::new(Dqn::OUTPUTS, config.seed))
    ///     },
    ///     |config, policy| Dqn::new(config, Box::new(policy.clone())),
    /// )?;
    /// let scheduler = registry.build("chance", &serde_json::json!({"seed": 3}))?;
    /// # drop(scheduler);
    /// # Ok::<(), mpquic_sched::RegistryError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`].
    pub fn register_neural<C, P, S>(
        &mut self,
        name: &str,
        prepare: impl Fn(&C) -> Result<P, InvalidConfig> + Send + Sync + 'static,
        make: impl Fn(&C, &P) -> S + Send + Sync + 'static,
    ) -> Result<&mut Self, RegistryError>
    where
        C: DeserializeOwned + Serialize + Send + Sync + 'static,
        P: Send + Sync + 'static,
        S: NeuralScheduler,
    {
        self.free(name)?;
        let prepare = move |config: &C, _: &Services| prepare(config);
        Ok(self.insert(name, prepare, make, Services::observed))
    }

    fn free(&self, name: &str) -> Result<(), RegistryError> {
        if self.entries.contains_key(name) || self.aliases.contains_key(name) {
            return Err(RegistryError::NameTaken(name.to_owned()));
        }
        Ok(())
    }

    fn insert_checked<C, S>(
        &mut self,
        name: &str,
        check: impl Fn(&C) -> Result<(), InvalidConfig> + Send + Sync + 'static,
        make: impl Fn(&C) -> S + Send + Sync + 'static,
    ) -> &mut Self
    where
        C: DeserializeOwned + Send + Sync + 'static,
        S: Scheduler + 'static,
    {
        let prepare = move |config: &C, _: &Services| check(config);
        self.insert(
            name,
            prepare,
            move |config, ()| make(config),
            Services::plain,
        )
    }

    /// The one way in. A configuration is read, and `prepare` checks it and gets what its schedulers need from the
    /// services, both once for all connections; `make` makes a scheduler of these two, and `wire` a factory that calls
    /// it.
    fn insert<C, P, S>(
        &mut self,
        name: &str,
        prepare: impl Fn(&C, &Services) -> Result<P, InvalidConfig> + Send + Sync + 'static,
        make: impl Fn(&C, &P) -> S + Send + Sync + 'static,
        wire: Wire<C, S>,
    ) -> &mut Self
    where
        C: DeserializeOwned + Send + Sync + 'static,
        P: Send + Sync + 'static,
        S: Scheduler + 'static,
    {
        let make = Arc::new(make);
        let scheduler = name.to_owned();
        let parse = move |value: &Value, services: &Services| {
            let config = Arc::new(settings::read::<C>(value)?);
            let prepared = prepare(&config, services)?;
            let (make, of) = (make.clone(), config.clone());
            wire(
                services,
                &scheduler,
                &config,
                Box::new(move || make(&of, &prepared)),
            )
        };
        self.entries.insert(name.to_owned(), Box::new(parse));
        self
    }

    /// Makes one scheduler.
    ///
    /// # Errors
    ///
    /// [`RegistryError::UnknownName`], [`RegistryError::InvalidConfig`].
    pub fn build(&self, name: &str, config: &Value) -> Result<Box<dyn Scheduler>, RegistryError> {
        Ok(self.factory(name, config)?.make())
    }

    /// Checks name and configuration once, and makes any number of schedulers after that.
    ///
    /// ```
    /// use mpquic_sched::Registry;
    ///
    /// let factory = Registry::new().factory("minrtt", &serde_json::Value::Null)?;
    /// let for_one_connection = factory.make();
    /// let for_another = factory.make();
    /// # drop((for_one_connection, for_another));
    /// # Ok::<(), mpquic_sched::RegistryError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RegistryError::UnknownName`], [`RegistryError::InvalidConfig`].
    pub fn factory(&self, name: &str, config: &Value) -> Result<SchedulerFactory, RegistryError> {
        let canonical = self.aliases.get(name).map_or(name, String::as_str);
        match self.entries.get(canonical) {
            Some(parse) => {
                parse(config, &self.services).map_err(|problem| RegistryError::InvalidConfig {
                    scheduler: canonical.to_owned(),
                    problem,
                })
            }
            None => Err(self.unknown(name)),
        }
    }

    /// The names of all schedulers, in alphabetical order and without second names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    fn unknown(&self, name: &str) -> RegistryError {
        if NEURAL.contains(&name) {
            return RegistryError::NotBuilt {
                name: name.to_owned(),
                package: "mpquic-sched-neural",
            };
        }
        let known = self.names().map(|known| {
            let seconds: Vec<_> = self
                .aliases
                .iter()
                .filter(|(_, first)| *first == known)
                .map(|(second, _)| second.as_str())
                .collect();
            if seconds.is_empty() {
                known.to_owned()
            } else {
                format!("{known} (or {})", seconds.join(", "))
            }
        });
        RegistryError::UnknownName {
            name: name.to_owned(),
            nearest: error::nearest(name, self.names().chain(self.aliases.keys().map(|a| &**a))),
            known: known.collect(),
        }
    }
}

/// Checks a configuration, and gets what a learning scheduler of this name remembers.
fn recalled<C: Serialize>(
    name: &str,
    check: impl Fn(&C) -> Result<(), InvalidConfig> + Send + Sync + 'static,
) -> impl Fn(&C, &Services) -> Result<Recall, InvalidConfig> + Send + Sync + 'static {
    let name = name.to_owned();
    move |config, services| {
        check(config)?;
        Ok(services.recall(&name, config))
    }
}

impl Default for Registry {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
