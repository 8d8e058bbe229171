//! Networks that an experiment takes from elsewhere: drawn from the prior, or from other experiment files.

use std::collections::BTreeSet;
use std::path::Path;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, PathStart};
use mpquic_sim::workload::Workload;

use super::parse;
use super::parse::{some, workload};
use super::reader::{FileError, Item, Table};
use crate::Pattern;
use crate::file as files;
use crate::file::network::NetworkSpec;
use crate::networks::random;

const PRIOR: &str = "a table, as { networks = 300, seed = 1, release_seed = 2 }";
/// The most files that one file takes networks from.
const MAX_INCLUDES: usize = 100;
const COUNT: &str = "a number of networks from 1 to 10000";
const WORLD: &str = "a number of networks from 0 to 10000";
const SEED: &str = "a seed, a whole number";
const START: &str = "\"library\" or \"file\"";
const INCLUDE: &str = "tables, as { file = \"../peekaboo/fig07_downloads.toml\" }";

/// Adds the networks of `[prior]` and of each `[[include]]`, and the workloads that run on them.
pub(super) fn add(
    table: &Table<'_>,
    file: &str,
    congestion: &[CongestionControl],
    networks: &mut Vec<NetworkSpec>,
    workloads: &mut Vec<Workload>,
) -> Result<(), FileError> {
    // Networks of the file itself would also run the workloads of the others.
    let own: Vec<_> = workloads.iter().map(ToString::to_string).collect();
    for network in networks.iter_mut().filter(|some| some.workloads.is_empty()) {
        network.workloads.clone_from(&own);
    }
    let mut taken = Vec::new();
    if let Some(item) = table.get("include") {
        let list = item.list();
        if list.len() > MAX_INCLUDES {
            return Err(item.error(format!(
                "found {} files, expected {MAX_INCLUDES} at most",
                list.len()
            )));
        }
        for item in list {
            taken.extend(include(&item, file, congestion, taken.len())?);
        }
    }
    if let Some(item) = table.get("prior") {
        taken.extend(drawn(&item)?);
    }
    let mut names: BTreeSet<_> = networks.iter().map(|other| other.name.clone()).collect();
    for (network, uses) in taken {
        if !names.insert(network.name.clone()) {
            let item = table.require("title", "a title")?;
            return Err(item.error(format!("two networks are called `{}`", network.name)));
        }
        for workload in uses {
            if !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        networks.push(network);
    }
    Ok(())
}

type Taken = Vec<(NetworkSpec, Vec<Workload>)>;

/// Half of the networks by one seed, half by the other.
fn drawn(item: &Item<'_>) -> Result<Taken, FileError> {
    let table = item.table(PRIOR)?;
    let networks = table
        .require("networks", COUNT)?
        .integer(1, 10_000, COUNT)?;
    let seed = |key| table.require(key, SEED)?.integer(0, 1 << 53, SEED);
    let (kept, changed) = (seed("seed")?, seed("release_seed")?);
    let world = match table.get("world") {
        Some(item) => item.integer(0, 10_000, WORLD)?,
        None => 0,
    };
    table.finish()?;
    let parts = |networks: u64| {
        let last = (networks / 2) as usize;
        (networks as usize - last, last)
    };
    let (first, last) = parts(networks);
    let mut taken = random::draw("prior", first, kept);
    taken.extend(random::draw("release", last, changed));
    let (first, last) = parts(world);
    taken.extend(random::draw_world("world", first, kept));
    taken.extend(random::draw_world("world-release", last, changed));
    let taken = taken.into_iter();
    Ok(taken
        .map(|drawn| (drawn.network, vec![drawn.workload]))
        .collect())
}

/// Networks of another experiment file, each with the handshake on its first and on its second path,
/// with one of the congestion controls in turn.
fn include(
    item: &Item<'_>,
    file: &str,
    congestion: &[CongestionControl],
    before: usize,
) -> Result<Taken, FileError> {
    let table = item.table(INCLUDE)?;
    let name = table.require("file", "the path of an experiment file")?;
    let text = name.text("the path of an experiment file")?;
    let folder = Path::new(file).parent().unwrap_or_else(|| Path::new(""));
    let path = folder.join(text);
    let stem = path.file_stem().map_or_else(String::new, |stem| {
        stem.to_string_lossy().replace(['/', '|'], "_")
    });
    let label = match table.get("name") {
        Some(item) => item.text("a name")?.to_owned(),
        None => stem,
    };
    let only = match table.get("networks") {
        Some(item) => Some(pattern(&item)?),
        None => None,
    };
    let most = match table.get("at_most") {
        Some(item) => item.integer(1, 10_000, COUNT)? as usize,
        None => usize::MAX,
    };
    let own = match table.get("workloads") {
        Some(item) => {
            let list = some(&item)?;
            Some(list.iter().map(workload).collect::<Result<Vec<_>, _>>()?)
        }
        None => None,
    };
    let starts_as_file = match table.get("start") {
        Some(item) => match item.text(START)? {
            "library" => false,
            "file" => true,
            other => return Err(item.error(format!("found \"{other}\", expected {START}"))),
        },
        None => false,
    };
    table.finish()?;
    let (networks, workloads) = match files::read(&path, files::EXPERIMENT) {
        Ok(text) => parse::included(&path.display().to_string(), &text)?,
        Err(error) => return Err(name.error(format!("{} cannot be read: {error}", path.display()))),
    };
    let mut chosen: Vec<_> = networks.iter().collect();
    chosen.retain(|network| only.as_ref().is_none_or(|only| only.matches(&network.name)));
    if chosen.is_empty() {
        return Err(item.error("no network of the file is taken, expected one at least"));
    }
    let mut taken = Vec::new();
    for network in evenly(&chosen, most) {
        let uses = uses(network, &workloads, own.as_deref());
        let orders: &[usize] = match network.name.contains("handshake=") || network.paths.len() < 2
        {
            true => &[network.handshake],
            false => &[0, 1],
        };
        // The same for all orders, whose runs are then pairs.
        let turn = (before + taken.len()) / 2;
        for &handshake in orders {
            let mut network = network.clone();
            let name = format!("{label}/{}", network.name.replace('/', " "));
            network.twin = format!("{label}/{}", network.twin.replace('/', " "));
            network.name = match orders.len() {
                1 => name,
                _ => format!("{name} order={}", handshake + 1),
            };
            network.set.clone_from(&label);
            network.parameters = Vec::new();
            network.handshake = handshake;
            if !starts_as_file {
                start_as_library(&mut network);
            }
            network.schedulers = Vec::new();
            network.workloads = uses.iter().map(ToString::to_string).collect();
            if !congestion.is_empty() {
                network.congestion = vec![congestion[turn % congestion.len()].to_string()];
            }
            taken.push((network, uses.clone()));
        }
    }
    Ok(taken)
}

/// As the networks of the prior do: what is compared is what is shipped.
fn start_as_library(network: &mut NetworkSpec) {
    network.start = PathStart::default();
    network.race = true;
    network.early_path_data = false;
    network.initial_window = random::INITIAL_WINDOW;
    network.slow_start = SlowStart::default();
    network.tail_copies = true;
    network.ack_frequency = None;
}

/// At most this many, evenly spread.
fn evenly<'a>(all: &[&'a NetworkSpec], most: usize) -> Vec<&'a NetworkSpec> {
    let count = all.len().min(most);
    (0..count).map(|at| all[at * all.len() / count]).collect()
}

/// The workloads of a network: those that the file with `[[include]]` names, or its own.
fn uses(network: &NetworkSpec, all: &[Workload], own: Option<&[Workload]>) -> Vec<Workload> {
    if let Some(own) = own {
        return own.to_vec();
    }
    let all = all.iter();
    all.filter(|workload| network.has_workload(&workload.to_string()))
        .cloned()
        .collect()
}

fn pattern(item: &Item<'_>) -> Result<Pattern, FileError> {
    let text = item.text("a pattern of network names")?;
    text.parse().map_err(|fault| item.error(format!("{fault}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Experiment;

    const OTHER: &str = r#"
title = "Networks of another file"
schedulers = ["minrtt"]
workloads = ["file:2MB"]

[[network]]
name = "uneven"
start = "confirmed"
slow_start = "classic"
initial_window = 10
paths = "20Mbit 10ms | 5Mbit 40ms 1%"
"#;

    fn including(start: &str) -> Result<Experiment, FileError> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("other.toml"), OTHER).expect("room on the disk");
        let file = folder.path().join("this.toml");
        let text = format!(
            "title = \"t\"\nschedulers = [\"minrtt\"]\n[[include]]\nfile = \"other.toml\"\n{start}\n"
        );
        fs::write(&file, text).expect("room on the disk");
        Experiment::load(&file)
    }

    #[test]
    fn included_networks_start_as_the_library_does_or_as_their_file_says() {
        let starts = |start: &str| -> Vec<_> {
            let networks = including(start).expect("a good file").networks;
            let one = |network: &NetworkSpec| {
                let tuned = (network.race, network.tail_copies, network.initial_window);
                (network.start, network.slow_start, tuned)
            };
            networks.iter().map(one).collect()
        };
        let library = (
            PathStart::default(),
            SlowStart::default(),
            (true, true, random::INITIAL_WINDOW),
        );
        assert_eq!(starts(""), [library; 2]);
        assert_eq!(starts("start = \"library\""), [library; 2]);
        let own = (PathStart::Confirmed, SlowStart::Classic, (false, false, 10));
        assert_eq!(starts("start = \"file\""), [own; 2]);
        let error = including("start = \"confirmed\"").expect_err("no such start");
        let error = error.to_string();
        assert!(
            error.contains("expected \"library\" or \"file\""),
            "{error}"
        );
    }
}
