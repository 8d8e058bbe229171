//! Parses an experiment's schedulers: names, configurations, families over a setting, and training.

use mpquic_sched::{Registry, RegistryError};
use mpquic_sim::workload::Workload;

use super::SchedulerSpec;
use super::parse::{some, workload};
use super::reader::{FileError, Item, Node, Value};
use super::vary;
use crate::Schedulers;
use crate::file::network::Parameter;
use crate::run::oracle;
use crate::{own, replica};

/// The most training runs: more than any scheduler needs. The limit catches typing errors.
const MAX_TRAINING: u64 = 1000;
/// The largest family: more than a reader can follow. The limit catches typing errors.
const MAX_FAMILY: usize = 1000;
/// The most schedulers of a file.
const MAX_SCHEDULERS: usize = 2000;
const RUNS: &str = "a number of runs from 0 to 1000";
const WHAT: &str =
    "a scheduler's name, or { name = .., config = { .. }, label = .., train = .., vary = { .. } }";

/// The table `[train]`.
#[derive(Debug, Default)]
pub(super) struct Training {
    /// The training runs before each measured run, for learning schedulers without a number of
    /// their own.
    pub(super) runs: u32,
    /// Whether schedulers that do not learn make these runs, too.
    pub(super) all: bool,
    /// `None`: the measured workload.
    pub(super) workload: Option<Workload>,
}

pub(super) fn training(item: &Item<'_>) -> Result<Training, FileError> {
    let table = item.table("a table [train] with `runs` and, if need be, `workload`")?;
    let runs = runs(&table.require("runs", RUNS)?)?;
    let all = match table.get("all") {
        None => false,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
    };
    let workload = match table.get("workload") {
        Some(item) => Some(workload(&item)?),
        None => None,
    };
    table.finish()?;
    Ok(Training {
        runs,
        all,
        workload,
    })
}

fn runs(item: &Item<'_>) -> Result<u32, FileError> {
    let runs = item.integer(0, MAX_TRAINING, RUNS)?;
    u32::try_from(runs).map_err(|_| item.expected(RUNS))
}

/// Parses all schedulers. Learning schedulers get `runs` training runs unless their entry overrides
/// it. With `all`, the others do, too.
pub(super) fn read(
    item: &Item<'_>,
    roster: &Schedulers,
    runs: u32,
    all: bool,
) -> Result<Vec<SchedulerSpec>, FileError> {
    let registry = roster.registry();
    let mut specs: Vec<SchedulerSpec> = Vec::new();
    for item in some(item)? {
        let all_others = matches!(&item.node.value, Value::Text(text) if text == ALL);
        let entries = match all_others {
            true => others(&registry, &specs),
            false => entry(&item)?,
        };
        for mut spec in entries {
            if specs.len() == MAX_SCHEDULERS {
                return Err(
                    item.error(format!("more than {MAX_SCHEDULERS} schedulers in the file"))
                );
            }
            // The rates come from each network. Here it only matters whether the scheduler accepts
            // rates.
            let config = oracle::told(&spec.spec.config, || vec![1.0], || 0);
            let scheduler = registry.build(&spec.spec.name, &config);
            let scheduler = scheduler.map_err(|fault| FileError {
                feature: match &fault {
                    RegistryError::NotBuilt { .. } => Some("neural"),
                    _ => None,
                },
                ..item.error(fault.to_string())
            })?;
            // A policy that was trained in advance is reported by its scheduler, which keeps nothing from one run to the
            // next; one that learns within the connection keeps that.
            let learned = scheduler.learned();
            let learns = all
                || learned
                    .is_some_and(|learned| learned.policy.is_none() || learned.online.is_some());
            spec.spec.training = match &spec.train {
                Some((0, _)) => 0,
                Some((runs, _)) if learns => *runs,
                Some((_, item)) => {
                    let fault = format!("`{}` does not learn, expected 0 runs", spec.spec.name);
                    return Err(item.error(fault));
                }
                None if learns => runs,
                None => 0,
            };
            let label = &spec.spec.label;
            if label.contains(['/', '|']) || label.contains(char::is_control) {
                return Err(item.error(format!(
                    "label `{label}`, expected one without /, | and control characters"
                )));
            }
            if specs.iter().any(|other| other.label == *label) {
                return Err(item.error(format!(
                    "a second scheduler is called `{label}`, expected a `label` that differs"
                )));
            }
            specs.push(spec.spec);
        }
    }
    Ok(specs)
}

/// What stands for all schedulers that the list has not named before.
const ALL: &str = "*";

/// All schedulers of the registry that work without a configuration and that the list has not named
/// before it. Left out are copies of published faults, those that ask a trained network, which not
/// every program has, `single`, which is a reference and not a scheduler of several paths, and those for experiments
/// only.
fn others<'a>(registry: &Registry, named: &[SchedulerSpec]) -> Vec<Entry<'a>> {
    let asks_network = |name: &str| {
        let made = registry.build(name, &serde_json::Value::Null);
        made.map_or(true, |made| {
            made.learned()
                .is_some_and(|learned| learned.policy.is_some())
        })
    };
    let left = registry.names().filter(|name| {
        *name != "single"
            && !own::NAMES.contains(name)
            && !replica::NAMES.contains(name)
            && !named.iter().any(|spec| spec.label == *name)
            && !asks_network(name)
    });
    let entries = left.map(|name| Entry {
        spec: SchedulerSpec {
            label: name.to_owned(),
            name: name.to_owned(),
            config: serde_json::Value::Null,
            training: 0,
            family: String::new(),
            parameters: Vec::new(),
        },
        train: None,
    });
    entries.collect()
}

/// A scheduler, with its entry's training setting.
struct Entry<'a> {
    spec: SchedulerSpec,
    train: Option<(u32, Item<'a>)>,
}

/// The schedulers of one entry.
fn entry<'a>(item: &Item<'a>) -> Result<Vec<Entry<'a>>, FileError> {
    let spec = |name: &str, label: String, config, parameters: Vec<Parameter>| SchedulerSpec {
        label,
        name: name.to_owned(),
        config,
        training: 0,
        family: String::new(),
        parameters,
    };
    if let Value::Text(name) = &item.node.value {
        let spec = spec(name, name.clone(), serde_json::Value::Null, Vec::new());
        return Ok(vec![Entry { spec, train: None }]);
    }
    let table = item.table(WHAT)?;
    let name = table.require("name", WHAT)?.text(WHAT)?;
    let config = table.get("config");
    let label = match table.get("label") {
        Some(item) => item.text("a label")?.to_owned(),
        None => name.to_owned(),
    };
    let train = match table.get("train") {
        Some(item) => Some((runs(&item)?, item)),
        None => None,
    };
    let vary = table.get("vary");
    table.finish()?;
    let Some(vary) = vary else {
        let config = config.map_or(serde_json::Value::Null, |item| item.node.to_json());
        let spec = spec(name, label, config, Vec::new());
        return Ok(vec![Entry { spec, train }]);
    };
    let lists = vary::lists(&vary)?;
    let mut made = vec![(config.map(|item| item.node.clone()), Vec::new())];
    for (list, values) in &lists {
        if made.len().saturating_mul(values.len()) > MAX_FAMILY {
            return Err(vary.error(format!("stands for more than {MAX_FAMILY} schedulers")));
        }
        let mut next = Vec::new();
        for (config, parameters) in made {
            for value in values {
                let mut config = config.clone();
                let places = config.as_mut().map_or(0, |config| put(config, list, value));
                if places == 0 {
                    let mut fault = vary.error(format!("nothing is set to \"${list}\""));
                    fault.key = format!("{}.{list}", vary.key);
                    return Err(fault);
                }
                let mut parameters: Vec<Parameter> = parameters.clone();
                parameters.push(Parameter::new(list, value.label()));
                next.push((config, parameters));
            }
        }
        made = next;
    }
    let entries = made.into_iter().map(|(config, parameters)| {
        let config = config.map_or(serde_json::Value::Null, |config| config.to_json());
        let settings = parameters.iter().fold(label.clone(), |text, parameter| {
            format!("{text},{}={}", parameter.name, parameter.value)
        });
        let mut spec = spec(name, settings, config, parameters);
        spec.family.clone_from(&label);
        Entry {
            spec,
            train: train.clone(),
        }
    });
    Ok(entries.collect())
}

/// Puts a value wherever a configuration has `"$name"`. Returns the number of places.
fn put(config: &mut Node, name: &str, value: &Node) -> usize {
    match &mut config.value {
        Value::Text(text) if text.strip_prefix('$') == Some(name) => {
            // The steps of a range have their decimal text, not the sum of binary fractions.
            config.value = match &value.value {
                Value::Number(number, text) => {
                    Value::Number(text.parse().unwrap_or(*number), text.clone())
                }
                other => other.clone(),
            };
            1
        }
        Value::List(list) => list.iter_mut().map(|node| put(node, name, value)).sum(),
        Value::Table(entries) => entries
            .iter_mut()
            .map(|(_, node)| put(node, name, value))
            .sum(),
        _ => 0,
    }
}
