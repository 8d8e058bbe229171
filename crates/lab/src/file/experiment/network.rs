//! Parses the description of a network, which may stand for several networks.

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, PathStart, Side};

use super::path::{self, LossDirection, Surroundings, Traces};
use super::reader::{FileError, Item, Node, Value};
use super::vary;

use mpquic_sim::CrossTraffic;

use crate::file::network::{Earlier, NetworkSpec, PathSpec, SharedSpec, start_of};

const WINDOW: &str = "a size from 1 kB to 1 GB, as \"6MB\"";

/// The most paths of a network.
pub(super) const MAX_PATHS: usize = 8;

/// What `start` may be.
const STARTS: &str = "\"confirmed\" or \"complete\", which the handshake must be before paths are opened, or \"library\"";

/// The parts of the file that apply to all networks.
#[derive(Default)]
pub(super) struct Shared<'a> {
    /// `[class.NAME]`
    pub(super) classes: Vec<(String, Node)>,
    /// `[defaults]`
    pub(super) defaults: Option<Item<'a>>,
    /// `[defaults.path]`
    pub(super) path_defaults: Option<Node>,
    /// Labels, to check the `schedulers` of a network.
    pub(super) labels: Vec<String>,
    /// Short forms, to check the `workloads` of a network.
    pub(super) workloads: Vec<String>,
    /// Names, to check the `congestion` of a network.
    pub(super) congestion: Vec<String>,
    /// The files that networks name.
    pub(super) traces: Traces,
}

/// All networks of one `[[network]]` table.
pub(super) fn read(item: &Item<'_>, shared: &Shared<'_>) -> Result<Vec<NetworkSpec>, FileError> {
    let table = item.table("a [[network]] table")?;
    let name = table.require("name", "a name for results to call it by")?;
    let set = name.text("a name for results to call it by")?;
    if set.is_empty() || set.contains(['/', '|']) || set.contains(char::is_control) {
        return Err(name.expected("a name without /, | and control characters"));
    }
    let paths = table.require("paths", "the list of paths")?;
    let listed = path::listed(&paths)?;
    if let Value::List(list) = &listed.value
        && list.len() > MAX_PATHS
    {
        return Err(paths.error(format!(
            "found {} paths, expected {MAX_PATHS} at most",
            list.len()
        )));
    }
    let node = with_paths(item.node, listed);
    let item = Item {
        node: &node,
        ..item.clone()
    };
    let mut networks = Vec::new();
    for concrete in vary::expand(&item)? {
        let item = Item {
            node: &concrete.node,
            ..item.clone()
        };
        let mut network = one(&item, set, shared)?;
        for (name, suffix) in [
            (&mut network.name, &concrete.suffix),
            (&mut network.twin, &concrete.twin),
        ] {
            if !suffix.is_empty() {
                *name = format!("{set}/{suffix}");
            }
        }
        network.parameters = concrete.parameters;
        networks.push(network);
    }
    Ok(networks)
}

fn with_paths(node: &Node, paths: Node) -> Node {
    let mut node = node.clone();
    if let Value::Table(entries) = &mut node.value
        && let Some(entry) = entries.iter_mut().find(|entry| entry.0 == "paths")
    {
        entry.1 = paths;
    }
    node
}

/// A network with every value fixed.
fn one(item: &Item<'_>, set: &str, shared: &Shared<'_>) -> Result<NetworkSpec, FileError> {
    let table = item.table("a [[network]] table")?;
    let defaults = match &shared.defaults {
        Some(item) => Some(item.table("a table of settings of all networks")?),
        None => None,
    };
    // The network's own setting, or the default in the file.
    let setting = |key| {
        let default = defaults.as_ref().and_then(|table| table.get(key));
        table.get(key).or(default)
    };
    let window = |key| -> Result<u64, FileError> {
        let Some(item) = setting(key) else {
            return Ok(6_000_000);
        };
        let bytes = item.size()?;
        if !(1_000..=1_000_000_000).contains(&bytes) {
            return Err(item.expected(WINDOW));
        }
        Ok(bytes)
    };
    let whole = |key, low, high, default, what: &str| match setting(key) {
        Some(item) => item.integer(low, high, what),
        None => Ok(default),
    };
    let loss = match setting("loss_direction") {
        None => LossDirection::Data,
        Some(item) => match item.text("\"both\" or \"data\"")? {
            "both" => LossDirection::Both,
            "data" => LossDirection::Data,
            _ => return Err(item.expected("\"both\" or \"data\" (server to client only)")),
        },
    };
    let receive_window = window("receive_window")?;
    let send_window = window("send_window")?;
    let initial_window = whole("initial_window", 2, 10_000, 32, "packets, 2 to 10000")? as u32;
    let library = match setting("start") {
        Some(item) => item.text(STARTS)? == "library",
        None => false,
    };
    let slow_start = match setting("slow_start") {
        None if library => SlowStart::default(),
        None => SlowStart::HyStartPlusPlus,
        Some(item) => {
            let known: Vec<_> = SlowStart::ALL.iter().map(|known| known.name()).collect();
            let expected = known.join(", ");
            let name = item.text(&expected)?;
            name.parse().map_err(|_| item.expected(&expected))?
        }
    };
    let tail_copies = match setting("tail_copies") {
        None => library,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
    };
    // What other stacks do is pinned; what the library does follows its default.
    let ack_frequency = match setting("ack_frequency") {
        None => (!library).then_some(false),
        Some(item) => match item.node.value {
            Value::Flag(flag) => Some(flag),
            _ => {
                return Err(
                    item.expected("true or false, whether fewer acknowledgements are asked for")
                );
            }
        },
    };
    let pacing = match setting("pacing") {
        None => true,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false, whether packets are paced")),
        },
    };
    let mtu = whole("mtu", 1200, 65_527, 1350, "bytes, 1200 to 65527")? as u16;

    let around = Surroundings {
        classes: &shared.classes,
        defaults: shared.path_defaults.as_ref(),
        loss,
        traces: &shared.traces,
    };
    let list = table.require("paths", "the list of paths")?.list();
    let paths = list.iter().map(|item| path::read(item, &around));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;

    let what = format!(
        "the number of the path that carries the handshake, 1 to {}",
        list.len()
    );
    let handshake = whole("handshake", 1, list.len() as u64, 1, &what)? as usize - 1;
    let start = match setting("start") {
        None => PathStart::Confirmed,
        Some(_) if library => PathStart::default(),
        Some(item) => start_of(item.text(STARTS)?).ok_or_else(|| item.expected(STARTS))?,
    };

    let race = match setting("race") {
        None => library,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => {
                return Err(item
                    .expected("true or false, whether the handshake begins on all paths at once"));
            }
        },
    };
    let early_path_data = match setting("early_path_data") {
        None => false,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
    };

    let bottlenecks = match table.get("shared") {
        None => Vec::new(),
        Some(item) => {
            let links = item.list();
            let links = links.iter().map(|item| bottleneck(item, &shared.traces));
            links.collect::<Result<Vec<_>, _>>()?
        }
    };
    for (item, path) in list.iter().zip(&paths) {
        if let Some(name) = &path.through
            && !bottlenecks.iter().any(|link| link.name == *name)
        {
            let mut error = item.error(format!(
                "found \"{name}\", expected the name of a link in `shared`"
            ));
            error.key += ".through";
            return Err(error);
        }
    }
    let cross_traffic = match table.get("cross_traffic") {
        None => Vec::new(),
        Some(item) => {
            let flows = item.list();
            let flows = flows.iter().map(|item| flow(item, paths.len()));
            flows.collect::<Result<_, _>>()?
        }
    };
    let schedulers = match table.get("schedulers") {
        None => Vec::new(),
        Some(item) => {
            // A file that another one includes has no labels: its schedulers do not run.
            for label in item.list().iter().filter(|_| !shared.labels.is_empty()) {
                if !shared
                    .labels
                    .iter()
                    .any(|known| Ok(&**known) == label.text("a label"))
                {
                    let known = shared.labels.join(", ");
                    return Err(label.expected(&format!("a label out of `schedulers`: {known}")));
                }
            }
            item.texts("labels of schedulers")?
        }
    };
    let earlier = match setting("earlier") {
        None => None,
        Some(item) => Some(earlier(&item, &paths, &around)?),
    };
    let memory = match setting("memory") {
        None => false,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
    };
    let tokens = match setting("tokens") {
        None => true,
        Some(item) => match item.node.value {
            Value::Flag(flag) => flag,
            _ => return Err(item.expected("true or false")),
        },
    };
    let workloads = match setting("workloads") {
        None => Vec::new(),
        Some(item) => {
            let list = item.list();
            let forms = list.iter().map(|item| {
                let form = super::parse::workload(item)?.to_string();
                if shared.workloads.contains(&form) {
                    return Ok(form);
                }
                let known = shared.workloads.join(", ");
                Err(item.expected(&format!("one out of the experiment's `workloads`: {known}")))
            });
            forms.collect::<Result<_, _>>()?
        }
    };
    let congestion = match setting("congestion") {
        None => Vec::new(),
        Some(item) => {
            let list = item.list();
            let names = list.iter().map(|item| {
                let name = super::parse::control(item)?.to_string();
                if shared.congestion.contains(&name) {
                    return Ok(name);
                }
                let known = shared.congestion.join(", ");
                Err(item.expected(&format!(
                    "one out of the experiment's `congestion`: {known}"
                )))
            });
            names.collect::<Result<_, _>>()?
        }
    };
    let _ = (table.get("name"), table.get("about"));
    table.finish()?;
    if let Some(defaults) = defaults {
        let _ = defaults.get("path");
        defaults.finish()?;
    }
    Ok(NetworkSpec {
        name: set.to_owned(),
        twin: set.to_owned(),
        set: set.to_owned(),
        parameters: Vec::new(),
        paths,
        handshake,
        start,
        race,
        early_path_data,
        shared: bottlenecks,
        cross_traffic,
        receive_window,
        send_window,
        initial_window,
        slow_start,
        tail_copies,
        ack_frequency,
        pacing,
        mtu,
        schedulers,
        workloads,
        congestion,
        memory,
        connections_before: 1,
        tokens,
        earlier,
    })
}

fn earlier(
    item: &Item<'_>,
    paths: &[PathSpec],
    around: &Surroundings<'_>,
) -> Result<Earlier, FileError> {
    let table = item.table("factors, as { rate = 4, rtt = 0.5 }, or the `paths` of then")?;
    let factor = |key| match table.get(key) {
        None => Ok(1.0),
        Some(item) => match item.float("a factor from 0.01 to 100")? {
            factor if (0.01..=100.0).contains(&factor) => Ok(factor),
            _ => Err(item.expected("a factor from 0.01 to 100")),
        },
    };
    let then = match table.get("paths") {
        None => None,
        Some(item) => {
            let list = item.list();
            let then = list.iter().map(|item| path::read(item, around));
            let then = then.collect::<Result<Vec<_>, _>>()?;
            if then.len() != paths.len() {
                let (found, expected) = (then.len(), paths.len());
                return Err(item.error(format!("found {found} paths, expected {expected} as now")));
            }
            Some(then)
        }
    };
    let (rate, rtt) = (factor("rate")?, factor("rtt")?);
    table.finish()?;
    let paths = then.as_deref().unwrap_or(paths);
    let traced = paths
        .iter()
        .any(|path| path.up.trace.is_some() || path.down.trace.is_some());
    let models = paths.iter().any(|path| path.model.is_some());
    if models {
        return Err(
            item.error("a model draws its own delays and rates, expected paths with `rate`")
        );
    }
    if rate != 1.0 && traced {
        return Err(item.error("the rate of a trace has no factor, expected paths with `rate`"));
    }
    Ok(Earlier {
        rate,
        rtt,
        paths: then,
    })
}

fn bottleneck(item: &Item<'_>, traces: &Traces) -> Result<SharedSpec, FileError> {
    let table = item.table("a shared link, as { name = \"dsl\", rate = 20 }")?;
    let name = table.require("name", "a name for `through`")?;
    let name = name.text("a name for `through`")?.to_owned();
    let link = path::read_shared(&table, traces)?;
    table.finish()?;
    Ok(SharedSpec { name, link })
}

fn flow(item: &Item<'_>, paths: usize) -> Result<CrossTraffic, FileError> {
    let table = item.table("a flow, as { path = 1, congestion = \"newreno\" }")?;
    let what = format!("the number of a path, 1 to {paths}");
    let path = table.require("path", &what)?;
    let path = path.integer(1, paths as u64, &what)? as usize - 1;
    let from_client = match table.get("from") {
        None => false,
        Some(item) => match item.text("\"client\" or \"server\"")? {
            "client" => true,
            "server" => false,
            _ => return Err(item.expected("\"client\" or \"server\"")),
        },
    };
    let control = match table.get("congestion") {
        None => CongestionControl::NewReno,
        Some(item) => super::parse::control(&item)?,
    };
    let time = |key| table.get(key).map(|item| item.time()).transpose();
    let start = time("start")?.unwrap_or_default();
    let stop = time("stop")?;
    let from = if from_client {
        Side::Client
    } else {
        Side::Server
    };
    let mut traffic = CrossTraffic::new(path, from, control);
    traffic.start = start;
    traffic.stop = stop;
    if let Some(phase) = time("phase")? {
        traffic.phase = phase;
    }
    table.finish()?;
    if stop.is_some_and(|stop| stop <= start + traffic.phase) {
        return Err(
            item.error("`stop` comes before `start` and `phase` are over, expected it after")
        );
    }
    Ok(traffic)
}
