//! All runs of an experiment in a fixed order. Each has a name and a fingerprint of everything that
//! determines its result. Below it: the parts of a plan that machines share, and the identity of the build.

pub(crate) mod build;
pub(crate) mod shard;
pub(crate) mod sweep;

use std::fmt;
use std::hash::Hasher as _;

use mpquic_proto::CongestionControl;
use mpquic_sim::workload::Workload;
use serde::Serialize;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::Pattern;
use crate::file::experiment::{Experiment, SchedulerSpec};
use crate::file::network::NetworkSpec;
use crate::file::scheduler_set::Schedulers;
use crate::result::record::Heading;

/// The version of what a run measures and how. Results with another version are not resumed.
pub(crate) const FORMAT: u32 = 1;

/// The names of a cell: of all runs that differ only in their seeds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId {
    /// The network's name.
    pub network: String,
    /// The workload's short form.
    pub workload: String,
    /// The congestion control's name.
    pub congestion: String,
    /// The scheduler's label.
    pub scheduler: String,
}

/// The form that `--only` matches.
impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            network,
            workload,
            congestion,
            scheduler,
        } = self;
        write!(f, "{network}/{workload}/{congestion}/{scheduler}")
    }
}

/// Runs that differ only in their seeds.
#[derive(Debug, Clone)]
pub struct Cell<'a> {
    /// Its names.
    pub id: CellId,
    /// A hash of everything that determines the results, except the seed and the code.
    pub fingerprint: String,
    pub(crate) network: &'a NetworkSpec,
    pub(crate) workload: &'a Workload,
    pub(crate) congestion: CongestionControl,
    pub(crate) scheduler: &'a SchedulerSpec,
    /// The workload of the training runs, if there are any.
    pub(crate) training_workload: &'a Workload,
    pub(crate) real_aead: bool,
    /// Whether runs say where their time went.
    pub(crate) time_lost: bool,
    /// Where its scheduler comes from.
    pub(crate) roster: &'a Schedulers,
}

/// A cell's network, workload, congestion control and scheduler, as indices into the experiment's lists.
pub(crate) type Place = [usize; 4];

/// The cells of an experiment, and their seeds.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// In the order of the file: networks, then workloads, congestion controls and schedulers.
    pub cells: Vec<Cell<'a>>,
    /// The same for all cells.
    pub seeds: Vec<u64>,
}

impl<'a> Plan<'a> {
    /// All cells of an experiment that match a pattern.
    pub fn new(experiment: &'a Experiment, only: Option<&Pattern>) -> Self {
        let cells = cells(experiment, only).map(|(_, cell)| cell);
        Self {
            cells: cells.collect(),
            seeds: seeds(experiment),
        }
    }

    /// A hash of all that decides what the runs are and how they are reported: the experiment, whatever its file looks like, and
    /// the cells that were asked for.
    pub(crate) fn identity(&self, heading: &Heading) -> String {
        let cells = self.cells.iter().map(|cell| &*cell.fingerprint);
        identity(heading, cells)
    }

    /// The number of runs.
    pub fn len(&self) -> usize {
        self.cells.len() * self.seeds.len()
    }

    /// Whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All cells that match a pattern, in the order of the file, and where each stands.
pub(crate) fn cells<'a>(
    experiment: &'a Experiment,
    only: Option<&Pattern>,
) -> impl Iterator<Item = (Place, Cell<'a>)> {
    let whole = |count: usize| 0..count;
    let places = whole(experiment.networks.len()).flat_map(move |network| {
        whole(experiment.workloads.len()).flat_map(move |workload| {
            whole(experiment.congestion.len()).flat_map(move |congestion| {
                whole(experiment.schedulers.len())
                    .map(move |scheduler| [network, workload, congestion, scheduler])
            })
        })
    });
    places.filter_map(move |place| {
        let mut cell = cell(experiment, place)?;
        if only.is_some_and(|only| !only.matches(&cell.id.to_string())) {
            return None;
        }
        cell.fingerprint = fingerprint(&cell);
        Some((place, cell))
    })
}

/// The cell at a place, without its fingerprint; `None` if the network leaves it out, or if there is no such place.
pub(crate) fn cell(experiment: &Experiment, place: Place) -> Option<Cell<'_>> {
    let network = experiment.networks.get(place[0])?;
    let workload = experiment.workloads.get(place[1])?;
    let congestion = *experiment.congestion.get(place[2])?;
    let scheduler = experiment.schedulers.get(place[3])?;
    let id = CellId {
        network: network.name.clone(),
        workload: workload.to_string(),
        congestion: congestion.to_string(),
        scheduler: scheduler.label.clone(),
    };
    let runs = network.has_workload(&id.workload)
        && network.has_congestion(&id.congestion)
        && network.has_scheduler(scheduler);
    runs.then(|| Cell {
        id,
        fingerprint: String::new(),
        network,
        workload,
        congestion,
        scheduler,
        training_workload: experiment.training_workload.as_ref().unwrap_or(workload),
        real_aead: experiment.real_aead,
        time_lost: experiment.time_lost,
        roster: &experiment.roster,
    })
}

/// The seeds of an experiment; none if they do not fit into a number.
pub(crate) fn seeds(experiment: &Experiment) -> Vec<u64> {
    let last = experiment.seeds.first.checked_add(experiment.seeds.count);
    last.map_or_else(Vec::new, |last| (experiment.seeds.first..last).collect())
}

/// See [`Plan::identity`].
pub(crate) fn identity<'a>(heading: &Heading, cells: impl Iterator<Item = &'a str>) -> String {
    let heading = Heading {
        build: String::new(),
        experiment: String::new(),
        shard: None,
        ..heading.clone()
    };
    let mut hasher = SipHasher13::new();
    // All of this is plain data, whose serialisation cannot fail.
    hasher.write(&serde_json::to_vec(&heading).unwrap_or_default());
    for cell in cells {
        hasher.write(b"/");
        hasher.write(cell.as_bytes());
    }
    format!("{:016x}", hasher.finish128().h1)
}

impl Cell<'_> {
    /// The seed of the network's randomness, of the endpoints and of the workload. It depends on
    /// the network, the workload and the run's seed, but not on the scheduler or the congestion
    /// control, so that all of these meet the same randomness. Networks that differ only in how the
    /// connection starts meet the same randomness, too.
    pub(crate) fn network_seed(&self, seed: u64) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(self.network.twin.as_bytes());
        hasher.write(b"/");
        match self.workload.scene() {
            Some(scene) => hasher.write(scene.as_bytes()),
            None => hasher.write(self.id.workload.as_bytes()),
        }
        hasher.write_u64(seed);
        hasher.finish128().h1
    }

    /// A hash of everything that determines the results, except the seed and the code, and nothing of what the cell is called:
    /// cells that are alike have the same results, also those of several experiments.
    pub(crate) fn alike(&self) -> String {
        let network = NetworkSpec {
            name: self.network.twin.clone(),
            set: String::new(),
            parameters: Vec::new(),
            schedulers: Vec::new(),
            workloads: Vec::new(),
            congestion: Vec::new(),
            ..self.network.clone()
        };
        let scheduler = SchedulerSpec {
            label: self.scheduler.name.clone(),
            ..self.scheduler.clone()
        };
        let fingerprint = fingerprint(&Cell {
            network: &network,
            scheduler: &scheduler,
            ..self.clone()
        });
        // What the library does by default and what a file says count as one in fingerprints.
        format!("{fingerprint} {:?}", network.ack_frequency)
    }

    /// The seed of a training run before it; the first one is number 0. It does not depend on the
    /// scheduler or the congestion control either, and differs from those of all measured runs.
    pub(crate) fn training_seed(&self, seed: u64, number: u32) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(b"training");
        hasher.write_u64(self.network_seed(seed));
        hasher.write_u32(number);
        hasher.finish128().h1
    }
}

fn fingerprint(cell: &Cell<'_>) -> String {
    #[derive(Serialize)]
    struct All<'a> {
        format: u32,
        network: &'a NetworkSpec,
        workload: &'a Workload,
        scheduler: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<&'a str>,
        config: &'a serde_json::Value,
        congestion: String,
        real_aead: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        training: Option<(u32, &'a Workload)>,
        #[serde(skip_serializing_if = "Option::is_none")]
        time_lost: Option<bool>,
    }
    let spec = cell.scheduler;
    let all = All {
        format: FORMAT,
        network: cell.network,
        workload: cell.workload,
        scheduler: &spec.name,
        // Two labels may stand for the same settings, to see that their results are the same.
        label: (spec.label != spec.name).then_some(&*spec.label),
        config: &spec.config,
        congestion: cell.congestion.to_string(),
        real_aead: cell.real_aead,
        time_lost: cell.time_lost.then_some(true),
        training: (spec.training > 0).then_some((spec.training, cell.training_workload)),
    };
    // All of this is plain data, whose serialisation cannot fail.
    let bytes = serde_json::to_vec(&all).unwrap_or_default();
    let mut hasher = SipHasher13::new();
    hasher.write(&bytes);
    format!("{:016x}", hasher.finish128().h1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"a\"\nworkloads = [\"file:1MB\", \"file:2MB\"]\nseeds = { first = 5, count = 3 }\n\
                        schedulers = [\"minrtt\", \"rr\"]\ncongestion = [\"olia\", \"cubic\"]\n\
                        [[network]]\nname = \"one\"\npaths = \"50Mbit 20ms\"\n\
                        [[network]]\nname = \"two\"\npaths = [{ rate = [1, 2], owd = 20 }]\nschedulers = [\"rr\"]\n";

    fn experiment(text: &str) -> Experiment {
        Experiment::parse("test.toml", text).unwrap()
    }

    #[test]
    fn a_plan_is_everything_crossed_with_everything() {
        let experiment = experiment(TEXT);
        let plan = Plan::new(&experiment, None);
        // One network with two schedulers and two networks with one, times workloads and congestion
        // controls.
        assert_eq!(plan.cells.len(), (2 + 2) * 2 * 2);
        assert_eq!(plan.seeds, [5, 6, 7]);
        assert_eq!(plan.len(), 48);
        let names: Vec<_> = plan.cells.iter().map(|cell| cell.id.to_string()).collect();
        assert_eq!(
            names[..3],
            [
                "one/file:1MB/olia/minrtt",
                "one/file:1MB/olia/rr",
                "one/file:1MB/cubic/minrtt"
            ]
        );
        let only = "two/rate1=2/.*/cubic".parse().unwrap();
        let part = Plan::new(&experiment, Some(&only));
        assert_eq!(part.cells.len(), 2);
        assert!(part.cells.iter().all(|cell| cell.id.scheduler == "rr"));
        let none = "three".parse().unwrap();
        assert!(Plan::new(&experiment, Some(&none)).is_empty());
    }

    #[test]
    fn fingerprints_follow_what_decides_results_and_nothing_else() {
        let first = experiment(TEXT);
        let fingerprints = |experiment: &Experiment| -> Vec<String> {
            let plan = Plan::new(experiment, None);
            plan.cells
                .iter()
                .map(|cell| cell.fingerprint.clone())
                .collect()
        };
        let all = fingerprints(&first);
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
        let same = experiment(
            &TEXT
                .replace("title = \"a\"", "title = \"b\"")
                .replace("count = 3", "count = 9"),
        );
        assert_eq!(fingerprints(&same), all);
        // Only those of the first network.
        let other = fingerprints(&experiment(&TEXT.replace("20ms", "21ms")));
        assert!(all[..8].iter().zip(&other).all(|(a, b)| a != b));
        assert_eq!(all[8..], other[8..]);
        let real = fingerprints(&experiment(
            &TEXT.replace("title", "aead = \"real\"\ntitle"),
        ));
        assert!(all.iter().zip(&real).all(|(a, b)| a != b));
    }

    #[test]
    fn training_counts_for_those_who_are_trained() {
        let text = TEXT.replace("\"rr\"", "\"linucb\"");
        let fingerprints = |train: &str| -> Vec<(String, String)> {
            let text = text.replacen("[[network]]", &format!("{train}[[network]]"), 1);
            let experiment = experiment(&text);
            let cells = Plan::new(&experiment, None).cells.into_iter();
            cells
                .map(|cell| (cell.id.scheduler, cell.fingerprint))
                .collect()
        };
        let cold = fingerprints("");
        assert_eq!(fingerprints("[train]\nruns = 0\n"), cold);
        let trained = fingerprints("[train]\nruns = 2\n");
        let longer = fingerprints("[train]\nruns = 2\nworkload = \"file:9MB\"\n");
        for (at, (scheduler, cold)) in cold.iter().enumerate() {
            let all = [cold, &trained[at].1, &longer[at].1];
            if scheduler == "minrtt" {
                assert_eq!(all, [cold; 3]);
            } else {
                assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
            }
        }
    }

    #[test]
    fn cells_are_alike_whatever_they_are_called() {
        let alike = |text: &str| -> Vec<String> {
            let experiment = experiment(text);
            Plan::new(&experiment, None)
                .cells
                .iter()
                .map(Cell::alike)
                .collect()
        };
        let all = alike(TEXT);
        let labels = TEXT.replace(
            "\"rr\"]\ncong",
            "{ name = \"rr\", label = \"other\" }]\ncong",
        );
        assert_eq!(alike(&labels.replace("[\"rr\"]", "[\"other\"]")), all);
        // The second network of two of another set, which meets another randomness.
        let other = alike(&TEXT.replace("name = \"one\"", "name = \"three\""));
        assert!(all[..8].iter().zip(&other).all(|(a, b)| a != b));
        assert_eq!(all[8..], other[8..]);
        let orders = TEXT.replace("20ms\"", "20ms | 2Mbit 9ms\"\nhandshake = [1, 2]");
        let single = TEXT.replace("20ms\"", "20ms | 2Mbit 9ms\"");
        let (orders, single) = (alike(&orders), alike(&single));
        assert_eq!(orders[..8], single[..8]);
        assert!(orders[8..16].iter().zip(&single).all(|(a, b)| a != b));
        for change in [
            ("50Mbit", "51Mbit"),
            ("\"minrtt\"", "\"ecf\""),
            ("\"olia\"", "\"bbr3\""),
        ] {
            let changed = alike(&TEXT.replace(change.0, change.1));
            assert_ne!(changed[0], all[0], "{change:?}");
        }
    }

    #[test]
    fn training_meets_the_same_randomness_for_all_and_never_that_which_is_measured() {
        let experiment = experiment(TEXT);
        let plan = Plan::new(&experiment, None);
        let [first, second] = [&plan.cells[0], &plan.cells[1]];
        let mut seen = Vec::new();
        for seed in [5, 6] {
            seen.push(first.network_seed(seed));
            for number in [0, 1] {
                let training = first.training_seed(seed, number);
                assert_eq!(training, second.training_seed(seed, number));
                seen.push(training);
            }
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn schedulers_and_controllers_meet_the_same_randomness() {
        let experiment = experiment(TEXT);
        let plan = Plan::new(&experiment, None);
        let seeds: Vec<_> = plan.cells.iter().map(|cell| cell.network_seed(5)).collect();
        // One network and workload: two congestion controls with two schedulers.
        assert!(seeds[..4].iter().all(|seed| *seed == seeds[0]));
        assert_ne!(seeds[0], seeds[4], "another workload");
        assert_ne!(seeds[0], seeds[8], "another network");
        assert_ne!(seeds[0], plan.cells[0].network_seed(6));
    }

    #[test]
    fn how_a_connection_starts_changes_no_randomness() {
        let text = TEXT.replace(
            "paths = \"50Mbit 20ms\"",
            "paths = \"50Mbit 20ms | 2Mbit 100ms\"\nhandshake = [1, 2]\nworkloads = [\"file:1MB\"]",
        );
        let experiment = experiment(&text);
        let plan = Plan::new(&experiment, None);
        let seeds: Vec<_> = plan.cells.iter().map(|cell| cell.network_seed(5)).collect();
        assert_eq!(plan.cells[0].id.network, "one/handshake=1");
        assert_eq!(plan.cells[4].id.network, "one/handshake=2");
        assert!(seeds[..8].iter().all(|seed| *seed == seeds[0]));
        assert_ne!(plan.cells[0].fingerprint, plan.cells[4].fingerprint);
        // The network draws what it would draw without the axis.
        let plain = Experiment::parse("test.toml", TEXT).unwrap();
        assert_eq!(Plan::new(&plain, None).cells[0].network_seed(5), seeds[0]);
    }
}
