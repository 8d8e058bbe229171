//! Where the time of downloads goes, and the bounds that count how a connection starts: on any
//! network the parts add up, and no run without losses is faster than a bound.

use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_lab::runner::{self, Options};
use mpquic_lab::{Experiment, Plan};
use mpquic_proto::{CongestionControl, PathStart};
use mpquic_sim::{FluidPath, LinkConfig, LostTime, StartBounds, StartRules};
use proptest::prelude::*;

/// The metrics of one run.
struct Run(BTreeMap<String, f64>);

impl Run {
    /// A download over one network, with the handshake on the path with this number, from 1.
    fn new(network: &str, file: &str, handshake: usize, scheduler: &str, control: &str) -> Self {
        Self::with_window(network, file, handshake, scheduler, control, 32)
    }

    fn with_window(
        network: &str,
        file: &str,
        handshake: usize,
        scheduler: &str,
        control: &str,
        window: u32,
    ) -> Self {
        let start = PathStart::Confirmed;
        Self::with_start(network, file, handshake, scheduler, control, window, start)
    }

    fn with_start(
        network: &str,
        file: &str,
        handshake: usize,
        scheduler: &str,
        control: &str,
        window: u32,
        start: PathStart,
    ) -> Self {
        let [schedulers, controls] = [scheduler, control].map(|name| [name.to_owned()]);
        let experiment = Experiment::of_one_network(network, file, &schedulers, &controls);
        let mut experiment = experiment.unwrap();
        experiment.time_lost = true;
        experiment.seeds.count = 1;
        experiment.networks[0].handshake = handshake - 1;
        experiment.networks[0].initial_window = window;
        experiment.networks[0].start = start;
        Self(run(&experiment))
    }

    fn of(&self, name: &str) -> f64 {
        self.0[name]
    }

    fn part(&self, name: &str) -> f64 {
        self.of(&format!("time_{name}"))
    }
}

fn run(experiment: &Experiment) -> BTreeMap<String, f64> {
    let plan = Plan::new(experiment, None);
    let mut records = Vec::new();
    let options = Options {
        jobs: 1,
        ..Options::default()
    };
    let take = |record| {
        records.push(record);
        Ok(())
    };
    runner::run(&plan, options, |_, _| false, take).unwrap();
    let record = records.remove(0);
    let measured = record.measured().unwrap_or_else(|| panic!("{record:?}"));
    measured.values.clone()
}

/// What holds for every download.
fn check(run: &Run) {
    let parts = LostTime::NAMES.map(|part| run.part(part));
    let context = format!("{:?}", run.0);
    assert!(parts.iter().all(|part| *part >= 0.0), "{context}");
    let total = run.of("time_total");
    assert!(
        (parts.iter().sum::<f64>() - total).abs() < 1e-9,
        "{context}"
    );
    // A cold download starts when the handshake is complete.
    let from_request = run.part("handshake") + run.of("completion");
    assert!((from_request - total).abs() < 1e-6, "{context}");
}

/// What holds in addition if nothing is lost and no delay varies.
fn check_bounds(run: &Run) {
    let context = format!("{:?}", run.0);
    let completion = run.of("completion");
    // Virtual time has whole nanoseconds.
    let least = |bound| run.of(bound) - 1e-7;
    assert!(completion >= least("bound_fluid"), "{context}");
    assert!(
        run.part("handshake") >= least("bound_handshake"),
        "{context}"
    );
    assert!(
        run.of("time_total") >= least("bound_round_trips"),
        "{context}"
    );
}

fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    // Each case is a whole download; PROPTEST_CASES asks for more.
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    ProptestConfig {
        cases: if asked { default.cases } else { 48 },
        failure_persistence: None,
        ..default
    }
}

const SCHEDULERS: [&str; 6] = ["minrtt", "ecf", "stms", "rr", "blest", "redundant"];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_run_without_loss_is_faster_than_a_bound(
        paths in prop::collection::vec((1_u32..100, 0_u32..150), 1..4),
        first in 0_usize..4,
        kilobytes in 1_u32..4000,
        scheduler in prop::sample::select(&SCHEDULERS[..]),
        control in prop::sample::select(CongestionControl::ALL),
        window in prop::sample::select(&[2_u32, 10, 32, 100][..]),
        start in prop::sample::select(&[PathStart::Confirmed, PathStart::Complete][..]),
    ) {
        let network: Vec<_> = paths
            .iter()
            .map(|(rate, owd)| format!("{rate}Mbit {owd}ms queue=100000"))
            .collect();
        let (file, first) = (format!("file:{kilobytes}kB"), first % paths.len() + 1);
        let control = control.to_string();
        let network = network.join(" | ");
        let run = Run::with_start(&network, &file, first, scheduler, &control, window, start);
        check(&run);
        check_bounds(&run);
        // What the handshake may have added to the window, and BBR's least window.
        let rules = StartRules { handshake: first - 1, start, early_data: false, initial_window: window.max(4) + 3 };
        let fluid: Vec<_> = paths
            .iter()
            .map(|(rate, owd)| {
                let delay = Duration::from_millis(u64::from(*owd));
                let link = LinkConfig::new(u64::from(*rate) * 1_000_000, delay);
                FluidPath::new(&link, &link, 1350)
            })
            .collect();
        let bytes = u64::from(kilobytes) * 1000;
        let bounds = StartBounds::new(bytes, 20, &fluid, &fluid, &rules).unwrap();
        let completion = run.of("completion") + 1e-7;
        prop_assert!(completion >= bounds.all_paths, "{:?} {bounds:?}", run.0);
        prop_assert!(completion >= bounds.startup, "{:?} {bounds:?}", run.0);
        if run.of("lost") == 0.0 && run.of("retransmitted") == 0.0 {
            prop_assert_eq!(run.part("recovery"), 0.0);
        }
        if paths.len() == 1 {
            prop_assert_eq!(run.part("opening"), 0.0);
        }
    }

    #[test]
    fn the_parts_add_up_on_any_network(
        paths in prop::collection::vec((1_u32..100, 0_u32..150, 0_u32..30, 0_u32..20), 1..4),
        first in 0_usize..4,
        kilobytes in 1_u32..2000,
        scheduler in prop::sample::select(&SCHEDULERS[..]),
        control in prop::sample::select(CongestionControl::ALL),
    ) {
        let network: Vec<_> = paths
            .iter()
            .map(|(rate, owd, loss, jitter)| {
                format!("{rate}Mbit {owd}ms {}% jitter={jitter}%", f64::from(*loss) / 10.0)
            })
            .collect();
        let (file, first) = (format!("file:{kilobytes}kB"), first % paths.len() + 1);
        let run = Run::new(&network.join(" | "), &file, first, scheduler, &control.to_string());
        check(&run);
    }
}

#[test]
fn one_path_spends_its_time_on_what_one_path_can() {
    let run = Run::new(
        "50Mbit 20ms queue=10000",
        "file:2MB",
        1,
        "minrtt",
        "newreno",
    );
    check(&run);
    check_bounds(&run);
    // 50 Mbit/s, 1322 bytes of stream in each 1378: 2 MB take 0.334 s.
    assert!((run.part("carrying") - 2e6 * 8.0 / 50e6 * 1378.0 / 1322.0).abs() < 1e-6);
    // The request goes 20 ms up, the last byte 20 ms down.
    assert!((0.040..0.042).contains(&run.part("request")), "{:?}", run.0);
    // Handshake: a round trip.
    assert!(
        (0.040..0.050).contains(&run.part("handshake")),
        "{:?}",
        run.0
    );
    for never in ["opening", "recovery", "copies", "tail"] {
        assert!(run.part(never) < 1e-3, "{never}: {:?}", run.0);
    }
    // Slow start: the window doubles three times, and the first round trips are mostly idle.
    assert!((0.03..0.10).contains(&run.part("startup")), "{:?}", run.0);
    assert!(run.of("time_total") < 1.15 * (run.of("bound_handshake") + run.of("bound_startup")));
    // A small initial window makes it longer, and nothing else.
    let small = Run::with_window(
        "50Mbit 20ms queue=10000",
        "file:2MB",
        1,
        "minrtt",
        "newreno",
        4,
    );
    let gained = small.of("time_total") - run.of("time_total");
    assert!(gained > 0.05);
    assert!((small.part("startup") - run.part("startup") - gained).abs() < 0.01);
}

/// Peekaboo's figure 2 without losses, either path first.
#[test]
fn the_slow_path_first_is_time_lost_to_opening() {
    let network = "2Mbit 100ms queue=1000 | 50Mbit 20ms queue=1000";
    let slow = Run::new(network, "file:2MB", 1, "ecf", "bbr3");
    let fast = Run::new(network, "file:2MB", 2, "ecf", "bbr3");
    for run in [&slow, &fast] {
        check(run);
        check_bounds(run);
    }
    // The bound before the second path carries data: 200 and 60 ms, weighted with its 50 of 52
    // Mbit/s. The server knows the request after 100 of them.
    let expected = (0.2 + 0.06 - 0.1) * 50.0 / 52.0;
    assert!(
        (slow.part("opening") - expected).abs() < 0.02,
        "{:?}",
        slow.0
    );
    assert!(
        (0.640..0.670).contains(&slow.of("bound_startup")),
        "{:?}",
        slow.0
    );
    assert!(slow.of("bound_startup") > fast.of("bound_startup") + 0.1);
    for bound in ["bound_fluid", "bound_all_paths", "bound_round_trips"] {
        assert_eq!(slow.of(bound), fast.of(bound), "{bound}");
    }
    // An earlier start loses less to opening, and comes as close to its own bound.
    let early = PathStart::Complete;
    let early = Run::with_start(network, "file:2MB", 1, "ecf", "bbr3", 32, early);
    check_bounds(&early);
    assert!(
        early.part("opening") < slow.part("opening") - 0.08,
        "{:?}",
        early.0
    );
    assert!(
        early.of("bound_startup") < slow.of("bound_startup") - 0.08,
        "{:?}",
        early.0
    );
    // The slow path carries 2 of 52: whatever it does weighs little.
    assert!(fast.part("opening") < 0.02, "{:?}", fast.0);
}

#[test]
fn a_path_that_is_not_used_waits() {
    let network = "20Mbit 20ms queue=1000 | 20Mbit 20ms queue=1000";
    let one = Run::new(network, "file:2MB", 1, "single", "newreno");
    check(&one);
    // Path 1 carries 0.83 s of data; path 2 could have carried half of it.
    assert!((0.2..0.45).contains(&one.part("waiting")), "{:?}", one.0);
    let both = Run::new(network, "file:2MB", 1, "minrtt", "newreno");
    assert!(both.part("waiting") < 0.05, "{:?}", both.0);
}

#[test]
fn copies_and_losses_have_parts_of_their_own() {
    let network = "20Mbit 20ms | 20Mbit 20ms";
    let copies = Run::new(network, "file:2MB", 1, "redundant", "newreno");
    check(&copies);
    // Everything goes twice, so half of the capacity carries copies.
    assert!(
        copies.part("copies") > 0.5 * copies.part("carrying"),
        "{:?}",
        copies.0
    );
    let clean = Run::new(network, "file:2MB", 1, "minrtt", "newreno");
    assert!(clean.part("copies") < 0.01, "{:?}", clean.0);
    let lossy = Run::new(
        "20Mbit 20ms 2% | 20Mbit 20ms 2%",
        "file:2MB",
        1,
        "minrtt",
        "newreno",
    );
    check(&lossy);
    let most = lossy.part("recovery");
    for part in [
        "opening", "startup", "copies", "waiting", "tail", "overhead",
    ] {
        assert!(lossy.part(part) < most, "{part}: {:?}", lossy.0);
    }
    assert!(most > clean.part("recovery") + 0.2);
}

/// The second path ends long before the first one, whose queue is long.
#[test]
fn the_last_bytes_of_a_slow_path_are_a_tail() {
    let network = "2Mbit 100ms queue=1000 | 50Mbit 20ms queue=1000";
    let turns = Run::with_window(network, "file:4MB", 2, "rr", "newreno", 200);
    check(&turns);
    assert!(turns.part("tail") > 0.2, "{:?}", turns.0);
    // The fast path alone has no other path to wait for.
    let alone = Run::with_window(network, "file:4MB", 2, "single", "newreno", 200);
    check(&alone);
    assert!(alone.part("tail") < 0.01, "{:?}", alone.0);
}

#[test]
fn other_workloads_say_nothing() {
    let mut experiment = Experiment::of_one_network(
        "50Mbit 20ms",
        "requests:2:10kB",
        &["minrtt".to_owned()],
        &["cubic".to_owned()],
    )
    .unwrap();
    experiment.time_lost = true;
    let values = run(&experiment);
    assert!(
        values.keys().all(|name| !name.starts_with("time_")),
        "{values:?}"
    );
}

/// Watching a run does not change it.
#[test]
fn a_watched_run_is_the_same_run() {
    let text = |more: &str| {
        format!(
            "title = \"t\"\nworkloads = [\"file:500kB\"]\nschedulers = [\"ecf\"]\nseeds = 2\n{more}\n\
             [[network]]\nname = \"n\"\npaths = \"2Mbit 100ms 1.5% jitter=8% | 50Mbit 20ms 1%\"\n"
        )
    };
    let hashes = |more: &str| -> Vec<String> {
        let experiment = Experiment::parse("t.toml", &text(more)).unwrap();
        let plan = Plan::new(&experiment, None);
        let mut hashes = Vec::new();
        let take = |record: mpquic_lab::Record| {
            hashes.push(record.measured().unwrap().trace_hash.clone());
            Ok(())
        };
        let options = Options {
            jobs: 1,
            ..Options::default()
        };
        runner::run(&plan, options, |_, _| false, take).unwrap();
        hashes
    };
    assert_eq!(hashes(""), hashes("time_lost = true"));
}
