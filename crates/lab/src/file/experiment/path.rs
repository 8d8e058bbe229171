//! Parses a path's table with fixed values into its two directions, with its class and the defaults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpquic_sim::{GilbertElliott, LinkConfig, MahimahiTrace, Outage, PlannedChange, QueueLimit};

use super::reader::{FileError, Item, Node, Table, Value};
use crate::file::network::PathSpec;
use crate::networks::mobile::{MobileSpec, Model};

const RATE: &str = "a rate, as 50 (Mbit/s) or \"50Mbit\"";
const DELAY: &str = "a time, as 20 (ms) or \"20ms\"";
const TRACE: &str =
    "the name of a Mahimahi trace file, or a model as { model = \"lte-car\", rate = 20 }";
/// How long the channel of a model is unless the file says so.
const LENGTH: Duration = Duration::from_secs(300);
const MAX_LENGTH: Duration = Duration::from_secs(3600);
const QUEUE: &str = "\"auto\", a number of packets of 1 and up, or bytes as \"64kB\"";

/// The most words of a path: more than there are settings.
const MAX_WORDS: usize = 32;

/// The directions that lose packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossDirection {
    Both,
    /// Server to client only.
    Data,
}

/// The settings that apply to a path unless it overrides them.
pub(super) struct Surroundings<'a> {
    pub(super) classes: &'a [(String, Node)],
    pub(super) defaults: Option<&'a Node>,
    pub(super) loss: LossDirection,
    pub(super) traces: &'a Traces,
}

/// The traces that a file names, each read once: many networks may have the same.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// The folder for relative paths.
    folder: PathBuf,
    read: RefCell<BTreeMap<PathBuf, MahimahiTrace>>,
}

impl Traces {
    /// Those of an experiment file.
    pub(super) fn of(file: &str) -> Self {
        let folder = Path::new(file).parent();
        Self {
            folder: folder.map_or_else(PathBuf::new, Path::to_owned),
            read: RefCell::default(),
        }
    }

    fn get(&self, file: &str) -> Result<MahimahiTrace, String> {
        let path = self.folder.join(file);
        if let Some(trace) = self.read.borrow().get(&path) {
            return Ok(trace.clone());
        }
        let trace = MahimahiTrace::read(&path).map_err(|fault| fault.in_file(&path))?;
        self.read.borrow_mut().insert(path, trace.clone());
        Ok(trace)
    }
}

/// The paths of a network: a list of tables, or one line as on the command line.
pub(super) fn listed(item: &Item<'_>) -> Result<Node, FileError> {
    const WHAT: &str = "a list of paths, as [{ rate = 50, owd = 20 }, { rate = 2, owd = 100, loss = 1.5 }], or \"50Mbit 20ms | 2Mbit 100ms 1.5%\"";
    let line = item.node.line;
    match &item.node.value {
        Value::List(list) if !list.is_empty() => Ok(item.node.clone()),
        Value::Text(text) => {
            let paths = text.split('|').map(|path| words(item, line, path));
            let paths = paths.collect::<Result<_, _>>()?;
            Ok(Node {
                line,
                value: Value::List(paths),
            })
        }
        _ => Err(item.expected(WHAT)),
    }
}

/// `RATE OWD [LOSS] [key=value]...`
fn words(item: &Item<'_>, line: usize, path: &str) -> Result<Node, FileError> {
    let mut entries: Vec<(String, Node)> = Vec::new();
    let words = path.split_whitespace().count();
    if words > MAX_WORDS {
        return Err(item.error(format!(
            "found {words} words in a path, expected {MAX_WORDS} at most"
        )));
    }
    let mut places = ["rate", "owd", "loss"].into_iter();
    for word in path.split_whitespace() {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, value),
            None => match places.next() {
                Some(key) => (key, word),
                None => {
                    return Err(item.error(format!(
                        "`{word}` is too much, expected RATE DELAY [LOSS] [key=value]... for a path"
                    )));
                }
            },
        };
        if entries.iter().any(|entry| entry.0 == key) {
            return Err(item.error(format!("{key} is given twice in `{}`", path.trim())));
        }
        let value = match value.parse::<f64>() {
            Ok(number) => Value::Number(number, value.to_owned()),
            Err(_) => Value::Text(value.to_owned()),
        };
        entries.push((key.to_owned(), Node { line, value }));
    }
    if entries.is_empty() {
        return Err(item.error("empty path, expected RATE DELAY [LOSS], as 50Mbit 20ms 0.5%"));
    }
    Ok(Node {
        line,
        value: Value::Table(entries),
    })
}

/// One path.
pub(super) fn read(item: &Item<'_>, around: &Surroundings<'_>) -> Result<PathSpec, FileError> {
    let merged = merge(item, around)?;
    let item = Item {
        node: &merged,
        ..item.clone()
    };
    let table = item.table("a path's table, as { rate = 50, owd = 20 }")?;
    let _ = table.get("class");
    let base = Settings::read(&table, around.traces)?;
    let model = match base.trace {
        Some(Source::Model(model)) => Some(model),
        _ => None,
    };
    if model.is_some()
        && let Some(other) = ["rate", "steps"].iter().find_map(|key| table.get(key))
    {
        return Err(other.error("a model is given as well, expected one of the two"));
    }
    let mut halves = [base.clone(), base];
    for (key, half) in ["up", "down"].into_iter().zip(&mut halves) {
        if let Some(item) = table.get(key) {
            let inner = item.table("a table of settings of this direction")?;
            let own = Settings::read(&inner, around.traces)?;
            let is_model = |trace: &Option<Source>| matches!(trace, Some(Source::Model(_)));
            let replaces = own.rate.is_some() || own.trace.is_some() || !own.steps.is_empty();
            if is_model(&own.trace) || model.is_some() && replaces {
                return Err(item.error("a model draws both directions, expected it for the path"));
            }
            half.amend(own);
            inner.finish()?;
        }
    }
    let [up, down] = &mut halves;
    for half in [&mut *up, &mut *down] {
        if half.rate.is_none() && half.trace.is_none() {
            table.require("rate", RATE)?;
        }
        if half.owd.is_none() {
            match &model {
                Some(spec) => half.owd = Some(spec.model.delay()),
                None => drop(table.require("owd", DELAY)?),
            }
        }
    }
    if around.loss == LossDirection::Data && table.get("up").is_none_or(|up| !has(&up, "loss")) {
        up.loss = None;
        up.bursts = None;
        for step in &mut up.steps {
            step.loss = None;
        }
    }
    let through = table
        .get("through")
        .map(|item| {
            item.text("the name of a link in `shared`")
                .map(str::to_owned)
        })
        .transpose()?;
    table.finish()?;
    // Half of the base RTT: the variation of each direction is relative to it.
    let mean = (up.owd.unwrap_or_default() + down.owd.unwrap_or_default()) / 2;
    let [mut up, mut down] = halves.map(|half| half.build(mean));
    if let Some(spec) = &model {
        // What is known before a run: for the oracle, the bounds and the order of the paths.
        let rates = spec.model.mean_rates();
        for (link, rate) in [&mut down, &mut up].into_iter().zip(rates) {
            link.rate = Some((rate as f64 * spec.scale).max(1.0) as u64);
        }
        let mut drawn = PathSpec {
            up: up.clone(),
            down: down.clone(),
            through: None,
            model,
        };
        spec.apply(&mut drawn, 0);
        for link in [&drawn.up, &drawn.down] {
            link.validate()
                .map_err(|fault| item.error(fault.to_string()))?;
        }
    }
    for link in [&up, &down] {
        link.validate()
            .map_err(|fault| item.error(fault.to_string()))?;
    }
    Ok(PathSpec {
        up,
        down,
        through,
        model,
    })
}

/// A shared link, which is the same in both directions.
pub(super) fn read_shared(table: &Table<'_>, traces: &Traces) -> Result<LinkConfig, FileError> {
    let settings = Settings::read(table, traces)?;
    if settings.rate.is_none() && settings.trace.is_none() {
        table.require("rate", RATE)?;
    }
    if let Some(Source::Model(_)) = settings.trace {
        return Err(table
            .item
            .error("a model draws a path, expected a link with a rate or a trace"));
    }
    let mean = settings.owd.unwrap_or_default();
    let link = settings.build(mean);
    link.validate()
        .map_err(|fault| table.item.error(fault.to_string()))?;
    Ok(link)
}

fn has(item: &Item<'_>, key: &str) -> bool {
    match &item.node.value {
        Value::Table(entries) => entries.iter().any(|entry| entry.0 == key),
        _ => false,
    }
}

/// The path's own keys first, then those of its class, then the defaults.
fn merge(item: &Item<'_>, around: &Surroundings<'_>) -> Result<Node, FileError> {
    let Value::Table(own) = &item.node.value else {
        return Err(item.expected("a path's table, as { rate = 50, owd = 20 }"));
    };
    let mut entries = own.clone();
    let mut layers = Vec::new();
    if let Some((_, class)) = own.iter().find(|entry| entry.0 == "class") {
        let item = Item {
            file: item.file,
            key: format!("{}.class", item.key),
            node: class,
        };
        let name = item.text("the name of a [class.NAME] table")?;
        let Some((_, class)) = around.classes.iter().find(|class| class.0 == name) else {
            let known: Vec<_> = around.classes.iter().map(|class| &*class.0).collect();
            return Err(item.expected(&format!("one of the classes: {}", known.join(", "))));
        };
        layers.push(class);
    }
    layers.extend(around.defaults);
    for layer in layers {
        if let Value::Table(layer) = &layer.value {
            for (key, node) in layer {
                if !entries.iter().any(|entry| entry.0 == *key) {
                    entries.push((key.clone(), node.clone()));
                }
            }
        }
    }
    Ok(Node {
        line: item.node.line,
        value: Value::Table(entries),
    })
}

/// The settings of a direction in the units of the papers.
#[derive(Debug, Clone, Default)]
struct Settings {
    /// Bit/s.
    rate: Option<u64>,
    owd: Option<Duration>,
    /// A share of the base RTT.
    jitter: Option<f64>,
    jitter_reorders: Option<bool>,
    loss: Option<f64>,
    bursts: Option<GilbertElliott>,
    trace: Option<Source>,
    queue: Option<QueueLimit>,
    reordering: Option<f64>,
    reordering_delay: Option<Duration>,
    duplication: Option<f64>,
    corruption: Option<f64>,
    outages: Vec<Outage>,
    steps: Vec<Step>,
}

/// What replaces a rate.
#[derive(Debug, Clone)]
enum Source {
    File(MahimahiTrace),
    Model(MobileSpec),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    at: Duration,
    rate: Option<u64>,
    owd: Option<Duration>,
    jitter: Option<f64>,
    loss: Option<f64>,
}

impl Settings {
    fn read(table: &Table<'_>, traces: &Traces) -> Result<Self, FileError> {
        let share = |key| table.get(key).map(|item| item.share()).transpose();
        let owd = match (table.get("owd"), table.get("rtt")) {
            (Some(_), Some(rtt)) => {
                return Err(rtt.error("`owd` is given as well, expected one of the two"));
            }
            (Some(owd), None) => Some(owd.time()?),
            (None, Some(rtt)) => Some(rtt.time()? / 2),
            (None, None) => None,
        };
        Ok(Self {
            rate: table.get("rate").map(|item| item.rate()).transpose()?,
            owd,
            jitter: share("jitter")?,
            jitter_reorders: match table.get("jitter_reorders") {
                None => None,
                Some(item) => match item.node.value {
                    Value::Flag(flag) => Some(flag),
                    _ => {
                        return Err(
                            item.expected("true or false, whether jitter changes the order")
                        );
                    }
                },
            },
            loss: share("loss")?,
            bursts: table
                .get("burst_loss")
                .map(|item| read_bursts(&item))
                .transpose()?,
            trace: table
                .get("trace")
                .map(|item| read_trace(&item, traces))
                .transpose()?,
            queue: table
                .get("queue")
                .map(|item| read_queue(&item))
                .transpose()?,
            reordering: share("reordering")?,
            reordering_delay: table
                .get("reordering_delay")
                .map(|item| item.time())
                .transpose()?,
            duplication: share("duplication")?,
            corruption: share("corruption")?,
            outages: match table.get("outages") {
                None => Vec::new(),
                Some(list) => list
                    .list()
                    .iter()
                    .map(read_outage)
                    .collect::<Result<_, _>>()?,
            },
            steps: match table.get("steps") {
                None => Vec::new(),
                Some(list) => read_steps(&list)?,
            },
        })
    }

    /// Replaces the settings that `other` has.
    fn amend(&mut self, other: Self) {
        self.rate = other.rate.or(self.rate);
        self.owd = other.owd.or(self.owd);
        self.jitter = other.jitter.or(self.jitter);
        self.jitter_reorders = other.jitter_reorders.or(self.jitter_reorders);
        self.loss = other.loss.or(self.loss);
        self.bursts = other.bursts.or(self.bursts);
        self.trace = other.trace.or_else(|| self.trace.take());
        self.queue = other.queue.or(self.queue);
        self.reordering = other.reordering.or(self.reordering);
        self.reordering_delay = other.reordering_delay.or(self.reordering_delay);
        self.duplication = other.duplication.or(self.duplication);
        self.corruption = other.corruption.or(self.corruption);
        if !other.outages.is_empty() {
            self.outages = other.outages;
        }
        if !other.steps.is_empty() {
            self.steps = other.steps;
        }
    }

    /// `mean` is half of the path's base RTT.
    fn build(self, mean: Duration) -> LinkConfig {
        let jitter = self.jitter.unwrap_or(0.0);
        let mut link = LinkConfig {
            // A trace replaces the rate.
            rate: self.rate.filter(|_| self.trace.is_none()),
            trace: match self.trace {
                Some(Source::File(trace)) => Some(trace),
                _ => None,
            },
            delay: self.owd.unwrap_or_default(),
            delay_sd: deviation(jitter, mean),
            delay_reorders: self.jitter_reorders.unwrap_or(false),
            loss: self.loss.unwrap_or(0.0),
            gilbert_elliott: self.bursts,
            queue: self.queue.unwrap_or_default(),
            outages: self.outages,
            reordering: self.reordering.unwrap_or(0.0),
            duplication: self.duplication.unwrap_or(0.0),
            corruption: self.corruption.unwrap_or(0.0),
            ..LinkConfig::default()
        };
        if let Some(delay) = self.reordering_delay {
            link.reordering_delay = delay;
        }
        // The variation is relative to the delay, so a step of either one changes the product.
        let (mut mean, mut jitter) = (mean, jitter);
        for step in self.steps {
            mean = step.owd.unwrap_or(mean);
            jitter = step.jitter.unwrap_or(jitter);
            let varies = step.jitter.is_some() || (step.owd.is_some() && jitter > 0.0);
            link.changes.push(PlannedChange {
                rate: step.rate,
                delay: step.owd,
                delay_sd: varies.then(|| deviation(jitter, mean)),
                loss: step.loss,
                ..PlannedChange::at(step.at)
            });
        }
        link
    }
}

/// The convention of the papers: a share of the base RTT as the standard deviation of the RTT. It
/// is split so that the variances of both directions add up to it.
fn deviation(jitter: f64, mean: Duration) -> Duration {
    mean.mul_f64(jitter * std::f64::consts::SQRT_2)
}

fn read_queue(item: &Item<'_>) -> Result<QueueLimit, FileError> {
    match &item.node.value {
        Value::Text(text) if text == "auto" => Ok(QueueLimit::Auto),
        Value::Text(text) if text.contains("packet") => {
            let number = text.trim_end_matches('s').trim_end_matches("packet").trim();
            let packets = number.parse().map_err(|_| item.expected(QUEUE))?;
            whole(item, packets).map(QueueLimit::Packets)
        }
        Value::Text(_) => {
            let bytes = item.size()?;
            whole(item, bytes as f64).map(QueueLimit::Bytes)
        }
        Value::Number(packets, _) => whole(item, *packets).map(QueueLimit::Packets),
        _ => Err(item.expected(QUEUE)),
    }
}

fn whole(item: &Item<'_>, number: f64) -> Result<u64, FileError> {
    if number.fract() == 0.0 && (1.0..=1e12).contains(&number) {
        Ok(number as u64)
    } else {
        Err(item.expected(QUEUE))
    }
}

fn read_bursts(item: &Item<'_>) -> Result<GilbertElliott, FileError> {
    let table = item.table("loss in bursts, as { mean_loss = 1.5, mean_burst = 4 }")?;
    let loss = table
        .require("mean_loss", "the share of packets lost")?
        .share()?;
    let burst = table.require("mean_burst", "packets lost in a row on average")?;
    let burst = burst.float("a number of packets")?;
    table.finish()?;
    GilbertElliott::from_mean(loss, burst).map_err(|fault| item.error(fault.to_string()))
}

fn read_trace(item: &Item<'_>, traces: &Traces) -> Result<Source, FileError> {
    if let Value::Table(_) = item.node.value {
        return read_model(item).map(Source::Model);
    }
    let file = item.text(TRACE)?;
    let trace = traces.get(file);
    let trace = trace.map_err(|fault| item.error(fault))?;
    Ok(Source::File(trace))
}

/// A model of a mobile link.
fn read_model(item: &Item<'_>) -> Result<MobileSpec, FileError> {
    let table = item.table(TRACE)?;
    let model = table.require("model", "the name of a model, as \"lte-car\"")?;
    let name = model.text("the name of a model, as \"lte-car\"")?;
    let parsed = name.parse::<Model>();
    let model = parsed.map_err(|fault| model.error(fault.to_string()))?;
    let seed = match table.get("seed") {
        Some(item) => Some(item.integer(0, 1 << 53, "a seed, a whole number")?),
        None => None,
    };
    let length = match table.get("length") {
        Some(item) => match item.time()? {
            length if (Duration::from_secs(1)..=MAX_LENGTH).contains(&length) => length,
            _ => return Err(item.expected("a length from 1 s to 1 h, as \"300s\"")),
        },
        None => LENGTH,
    };
    let scale = match table.get("rate") {
        Some(item) => item.rate()? as f64 / model.mean_rates()[0] as f64,
        None => 1.0,
    };
    table.finish()?;
    Ok(MobileSpec {
        model,
        seed,
        length,
        scale,
    })
}

fn read_outage(item: &Item<'_>) -> Result<Outage, FileError> {
    let table = item.table("an outage, as { at = \"5s\", lasting = \"2s\" }")?;
    let at = table.require("at", DELAY)?.time()?;
    let lasting = table.require("lasting", DELAY)?.time()?;
    table.finish()?;
    Ok(Outage { at, lasting })
}

fn read_steps(list: &Item<'_>) -> Result<Vec<Step>, FileError> {
    let mut steps: Vec<Step> = Vec::new();
    for item in list.list() {
        let table = item.table("a change, as { at = \"10s\", rate = 5 }")?;
        let at = table.require("at", DELAY)?;
        let step = Step {
            at: at.time()?,
            rate: table.get("rate").map(|item| item.rate()).transpose()?,
            owd: table.get("owd").map(|item| item.time()).transpose()?,
            jitter: table.get("jitter").map(|item| item.share()).transpose()?,
            loss: table.get("loss").map(|item| item.share()).transpose()?,
        };
        table.finish()?;
        if steps.last().is_some_and(|last| last.at >= step.at) {
            return Err(at.expected("a time after that of the change before"));
        }
        steps.push(step);
    }
    Ok(steps)
}
