//! Parses the top level of an experiment file: workloads, schedulers, seeds, and the papers' statements.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use mpquic_proto::CongestionControl;
use mpquic_sim::workload::Workload;
use serde::Deserialize as _;

use super::network::{self, Shared};
use super::path::Traces;
use super::reader::{FileError, Item, Node, Table, Value};
use super::scheduler::{self, Training};
use super::sources;
use super::vary;
use super::{Claim, Experiment, PaperNumber, Seeds, Selector, TimelineSpec};
use crate::Pattern;
use crate::Schedulers;
use crate::file::network::NetworkSpec;
use crate::run::learned;
use crate::run::metrics::{self, MetricInfo};
use crate::run::time_lost;

/// The most combinations of network, workload, congestion control and scheduler: a hundred times those of the full arena.
const MAX_COMBINATIONS: usize = 1_000_000;
const SEEDS: &str = "a number of seeds from 1 to 100000, or { first = 1, count = 20 }";
const LABEL: &str = "the label of a scheduler";

pub(super) fn experiment(
    file: &str,
    text: &str,
    roster: &Schedulers,
) -> Result<Experiment, FileError> {
    let root = Node::parse(file, text)?;
    let item = Item::root(file, &root);
    let table = item.table("a table")?;
    let text = |key, default: &str| match table.get(key) {
        Some(item) => item.text("text").map(|text| text.trim().to_owned()),
        None => Ok(default.to_owned()),
    };
    let name = name_of(file);
    let title = table.require("title", "one line that says what is looked at")?;
    let title = title.text("text")?.to_owned();
    let (about, source, expect) = (text("about", "")?, text("source", "")?, text("expect", "")?);

    let training = match table.get("train") {
        Some(item) => scheduler::training(&item)?,
        None => Training::default(),
    };
    let schedulers = table.require("schedulers", "a list of schedulers")?;
    let schedulers = scheduler::read(&schedulers, roster, training.runs, training.all)?;
    let labels: Vec<_> = schedulers.iter().map(|spec| spec.label.clone()).collect();
    let congestion = match table.get("congestion") {
        None => vec![CongestionControl::Olia],
        Some(item) => some(&item)?.iter().map(control).collect::<Result<_, _>>()?,
    };
    let workloads = read_workloads(&table)?;
    let seeds = match table.get("seeds") {
        None => Seeds {
            first: 1,
            count: 20,
        },
        Some(item) => read_seeds(&item)?,
    };
    let baseline = match table.get("baseline") {
        Some(item) => label(&item, &labels)?,
        None if labels.iter().any(|label| label == "minrtt") => "minrtt".into(),
        None => labels[0].clone(),
    };
    let metrics = match table.get("metrics") {
        Some(item) => item
            .list()
            .iter()
            .map(|item| metric(item, &workloads))
            .collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let real_aead = match table.get("aead") {
        None => false,
        Some(item) => match item.text("\"null\" or \"real\"")? {
            "null" => false,
            "real" => true,
            _ => return Err(item.expected("\"null\" or \"real\"")),
        },
    };
    let time_lost = match table.get("time_lost") {
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
        // Otherwise these metrics would have no values.
        None => metrics
            .iter()
            .any(|name: &String| time_lost::is_metric(name)),
    };
    let mut workloads = workloads;
    let mut networks = networks(&table, &labels, &workloads, &congestion)?;
    sources::add(&table, file, &congestion, &mut networks, &mut workloads)?;
    let chosen = |own: &[String], all: usize| if own.is_empty() { all } else { own.len() };
    let combinations = networks.iter().map(|network| {
        chosen(&network.workloads, workloads.len())
            * chosen(&network.congestion, congestion.len())
            * chosen(&network.schedulers, schedulers.len())
    });
    let combinations: usize = combinations.sum();
    if combinations > MAX_COMBINATIONS {
        return Err(item.error(format!(
            "stands for {combinations} combinations of network, workload, congestion control and scheduler, \
             expected {MAX_COMBINATIONS} at most"
        )));
    }
    let paper = list(&table, "paper")
        .iter()
        .map(|item| paper_number(item, &labels, &workloads))
        .collect::<Result<_, _>>()?;
    let claims = list(&table, "claim")
        .iter()
        .map(|item| claim(item, &labels, &workloads))
        .collect::<Result<_, _>>()?;
    let timeline = match table.get("timeline") {
        Some(item) => Some(timeline(&item, &labels, seeds)?),
        None => None,
    };
    table.finish()?;
    Ok(Experiment {
        name,
        title,
        about,
        source,
        expect,
        seeds,
        networks,
        workloads,
        schedulers,
        training_workload: training.workload,
        congestion,
        baseline,
        metrics,
        paper,
        claims,
        timeline,
        real_aead,
        time_lost,
        roster: roster.clone(),
    })
}

/// The networks and workloads of an experiment file from which another one takes networks. Everything
/// else in it does not matter, such as schedulers that this program may not have.
pub(super) fn included(
    file: &str,
    text: &str,
) -> Result<(Vec<NetworkSpec>, Vec<Workload>), FileError> {
    let root = Node::parse(file, text)?;
    let item = Item::root(file, &root);
    let table = item.table("a table")?;
    let workloads = read_workloads(&table)?;
    let networks = networks(&table, &[], &workloads, CongestionControl::ALL)?;
    Ok((networks, workloads))
}

/// The workloads of a file. It must have some, unless all of its networks bring their own.
fn read_workloads(table: &Table<'_>) -> Result<Vec<Workload>, FileError> {
    if table.get("workloads").is_none() && takes_networks(table) {
        return Ok(Vec::new());
    }
    let item = table.require("workloads", "a list of workloads, as [\"file:2MB\"]")?;
    some(&item)?.iter().map(workload).collect()
}

/// Whether there are networks that the file does not describe itself.
fn takes_networks(table: &Table<'_>) -> bool {
    table.get("prior").is_some() || table.get("include").is_some()
}

/// The name of an experiment in results: its path below the nearest folder called `experiments`,
/// with slashes and without the ending. For a file elsewhere, only the name of the file.
fn name_of(file: &str) -> String {
    let stem = Path::new(file).with_extension("");
    let mut parts = Vec::new();
    for part in stem.components().rev() {
        // The name is also a folder for results. `..` could lead out of the folder of all results.
        let Component::Normal(part) = part else { break };
        if part == "experiments" && !parts.is_empty() {
            parts.reverse();
            return parts.join("/");
        }
        parts.push(part.to_string_lossy().into_owned());
    }
    parts.into_iter().next().unwrap_or_else(|| file.to_owned())
}

/// The command line's `--network`, as if it were in a file.
pub(super) fn one_network(
    network: &str,
    workload: &str,
    schedulers: &[String],
    congestion: &[String],
    start: &str,
    roster: &Schedulers,
) -> Result<Experiment, FileError> {
    let text = |text: &str| Node {
        line: 0,
        value: Value::Text(text.to_owned()),
    };
    let texts = |texts: &[String]| Node {
        line: 0,
        value: Value::List(texts.iter().map(|one| text(one)).collect()),
    };
    let argument = |name: &'static str| Item {
        file: "command line",
        key: name.to_owned(),
        node: &Node {
            line: 0,
            value: Value::Flag(true),
        },
    };
    fn with<'a>(item: Item<'a>, node: &'a Node) -> Item<'a> {
        Item { node, ..item }
    }
    let node = texts(schedulers);
    let schedulers = scheduler::read(&with(argument("--scheduler"), &node), roster, 0, false)?;
    let node = texts(congestion);
    let congestion = with(argument("--congestion"), &node);
    let congestion = congestion
        .list()
        .iter()
        .map(control)
        .collect::<Result<_, _>>()?;
    let node = text(workload);
    let workload = self::workload(&with(argument("--workload"), &node))?;
    let entries = vec![
        ("name".into(), text("network")),
        ("paths".into(), text(network)),
        ("start".into(), text(start)),
    ];
    let node = Node {
        line: 0,
        value: Value::Table(entries),
    };
    let networks = network::read(&with(argument("--network"), &node), &Shared::default())?;
    Ok(Experiment {
        name: "command-line".into(),
        title: network.to_owned(),
        about: String::new(),
        source: String::new(),
        expect: String::new(),
        seeds: Seeds {
            first: 1,
            count: 20,
        },
        networks,
        workloads: vec![workload],
        baseline: schedulers[0].label.clone(),
        schedulers,
        training_workload: None,
        congestion,
        metrics: Vec::new(),
        paper: Vec::new(),
        claims: Vec::new(),
        timeline: None,
        real_aead: false,
        time_lost: false,
        roster: roster.clone(),
    })
}

fn networks(
    table: &Table<'_>,
    labels: &[String],
    workloads: &[Workload],
    congestion: &[CongestionControl],
) -> Result<Vec<NetworkSpec>, FileError> {
    if takes_networks(table) && table.get("network").is_none() {
        return Ok(Vec::new());
    }
    let defaults = table.get("defaults");
    let path_defaults = match &defaults {
        Some(item) => item.table("a table of settings")?.get("path"),
        None => None,
    };
    let classes = match table.get("class") {
        None => Vec::new(),
        Some(item) => item
            .table("tables [class.NAME]")?
            .all()
            .map(|(name, item)| (name.to_owned(), item.node.clone()))
            .collect(),
    };
    let shared = Shared {
        classes,
        defaults,
        path_defaults: path_defaults.map(|item| item.node.clone()),
        labels: labels.to_vec(),
        workloads: workloads.iter().map(ToString::to_string).collect(),
        congestion: congestion.iter().map(ToString::to_string).collect(),
        traces: Traces::of(table.item.file),
    };
    let mut networks: Vec<NetworkSpec> = Vec::new();
    let mut names = BTreeSet::new();
    for item in some(&table.require("network", "at least one [[network]]")?)? {
        for network in network::read(&item, &shared)? {
            if networks.len() == vary::MAX_NETWORKS {
                return Err(item.error(format!(
                    "more than {} networks in the file",
                    vary::MAX_NETWORKS
                )));
            }
            if !names.insert(network.name.clone()) {
                return Err(item.error(format!(
                    "a second network is called `{}`, expected names that differ",
                    network.name
                )));
            }
            networks.push(network);
        }
    }
    Ok(networks)
}

fn list<'a>(table: &Table<'a>, key: &'static str) -> Vec<Item<'a>> {
    table.get(key).map_or_else(Vec::new, |item| item.list())
}

/// The elements of a list that must not be empty.
pub(super) fn some<'a>(item: &Item<'a>) -> Result<Vec<Item<'a>>, FileError> {
    let list = item.list();
    if list.is_empty() {
        return Err(item.error("empty list, expected at least one element"));
    }
    Ok(list)
}

/// A congestion control's name.
pub(super) fn control(item: &Item<'_>) -> Result<CongestionControl, FileError> {
    let name = item.text("the name of a congestion control")?;
    name.parse::<CongestionControl>()
        .map_err(|fault| item.error(fault.to_string()))
}

pub(super) fn workload(item: &Item<'_>) -> Result<Workload, FileError> {
    let fault = |fault: String| item.error(fault.replace('\n', " "));
    match &item.node.value {
        Value::Text(text) => text.parse().map_err(|error| fault(format!("{error}"))),
        Value::Table(_) => {
            Workload::deserialize(item.node.to_json()).map_err(|error| fault(error.to_string()))
        }
        _ => Err(item.expected("a workload, as \"file:2MB\" or { kind = \"file\", .. }")),
    }
}

fn read_seeds(item: &Item<'_>) -> Result<Seeds, FileError> {
    if let Value::Table(_) = item.node.value {
        let table = item.table(SEEDS)?;
        let first = table.require("first", SEEDS)?.integer(0, 1 << 53, SEEDS)?;
        let count = table.require("count", SEEDS)?.integer(1, 100_000, SEEDS)?;
        table.finish()?;
        return Ok(Seeds { first, count });
    }
    let count = item.integer(1, 100_000, SEEDS)?;
    Ok(Seeds { first: 1, count })
}

fn label(item: &Item<'_>, labels: &[String]) -> Result<String, FileError> {
    let text = item.text(LABEL)?;
    if labels.iter().any(|label| label == text) {
        return Ok(text.to_owned());
    }
    Err(item.expected(&format!(
        "a label out of `schedulers`: {}",
        labels.join(", ")
    )))
}

fn label_list(
    table: &Table<'_>,
    key: &'static str,
    labels: &[String],
) -> Result<Vec<String>, FileError> {
    let items = list(table, key);
    items.iter().map(|item| label(item, labels)).collect()
}

fn optional_text(table: &Table<'_>, key: &'static str) -> Result<String, FileError> {
    match table.get(key) {
        Some(item) => item.text("text").map(str::to_owned),
        None => Ok(String::new()),
    }
}

fn selector(table: &Table<'_>) -> Result<Selector, FileError> {
    let pattern = |key| match table.get(key) {
        None => Ok(String::new()),
        Some(item) => pattern(&item),
    };
    Ok(Selector {
        network: pattern("network")?,
        workload: pattern("workload")?,
        congestion: pattern("congestion")?,
    })
}

fn pattern(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text("a part of a name, or a pattern")?;
    let parsed = text.parse::<Pattern>();
    parsed.map_err(|fault| item.error(fault.to_string()))?;
    Ok(text.to_owned())
}

/// The name of a metric that at least one of the workloads has.
fn metric(item: &Item<'_>, workloads: &[Workload]) -> Result<String, FileError> {
    let name = item.text("the name of a metric")?;
    let of = |workload: &Workload| workload.metrics().iter().map(MetricInfo::from).collect();
    let known: Vec<Vec<MetricInfo>> = workloads.iter().map(of).collect();
    if known
        .iter()
        .any(|known| metrics::find(known, name).is_some())
    {
        return Ok(name.to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    let others = metrics::transport()
        .chain(learned::all())
        .chain(time_lost::metrics());
    for metric in known.into_iter().flatten().chain(others) {
        if !names.contains(&metric.name) {
            names.push(metric.name);
        }
    }
    names.push("path1_share (and _rate, _lost)".into());
    Err(item.expected(&format!("one of {}", names.join(", "))))
}

fn optional_metric(table: &Table<'_>, workloads: &[Workload]) -> Result<String, FileError> {
    match table.get("metric") {
        Some(item) => metric(&item, workloads),
        None => Ok(String::new()),
    }
}

fn paper_number(
    item: &Item<'_>,
    labels: &[String],
    workloads: &[Workload],
) -> Result<PaperNumber, FileError> {
    let table = item.table("a [[paper]] table")?;
    let number = PaperNumber {
        cells: selector(&table)?,
        scheduler: label(&table.require("scheduler", LABEL)?, labels)?,
        metric: optional_metric(&table, workloads)?,
        value: table
            .require("value", "the paper's number")?
            .float("a number")?,
        source: table
            .require("source", "where it stands")?
            .text("text")?
            .into(),
    };
    table.finish()?;
    Ok(number)
}

fn claim(item: &Item<'_>, labels: &[String], workloads: &[Workload]) -> Result<Claim, FileError> {
    let table = item.table("a [[claim]] table")?;
    let claim = Claim {
        text: table.require("text", "the statement")?.text("text")?.into(),
        source: optional_text(&table, "source")?,
        cells: selector(&table)?,
        metric: optional_metric(&table, workloads)?,
        better: label_list(&table, "better", labels)?,
        worse: label_list(&table, "worse", labels)?,
        similar: label_list(&table, "similar", labels)?,
        by_percent: match table.get("by") {
            Some(item) => Some(item.share()? * 100.0),
            None => None,
        },
    };
    table.finish()?;
    let pairs = !claim.better.is_empty() && !claim.worse.is_empty();
    if !pairs && claim.similar.len() < 2 {
        return Err(item.error("expected `better` and `worse`, or two labels in `similar`"));
    }
    Ok(claim)
}

fn timeline(item: &Item<'_>, labels: &[String], seeds: Seeds) -> Result<TimelineSpec, FileError> {
    let table = item.table("{ seed = 1, networks = [..], schedulers = [..] }")?;
    let seed = match table.get("seed") {
        Some(item) => item.integer(0, 1 << 53, "a seed")?,
        None => seeds.first,
    };
    let interval_ms = match table.get("interval") {
        Some(item) => {
            let interval = item.time()?;
            if interval.is_zero() {
                return Err(item.expected("a time above 0, as 20 (ms) or \"20ms\""));
            }
            interval.as_secs_f64() * 1e3
        }
        None => 20.0,
    };
    let networks = match table.get("networks") {
        Some(item) => item.list().iter().map(pattern).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let spec = TimelineSpec {
        seed,
        networks,
        schedulers: label_list(&table, "schedulers", labels)?,
        interval_ms,
    };
    table.finish()?;
    Ok(spec)
}
