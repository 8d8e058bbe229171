//! Tests of the experiment file format: errors take one line, and valid descriptions give the right networks.

mod earlier;

use std::time::Duration;

use mpquic_proto::PathStart;
use mpquic_proto::congestion::SlowStart;
use mpquic_sim::QueueLimit;

use super::*;
use crate::file::network::Parameter;

/// A valid file with these paths of its network, and with more text at its end.
fn file(paths: &str, more: &str) -> String {
    format!(
        "title = \"a test\"\n\
         workloads = [\"file:2MB\"]\n\
         schedulers = [\"minrtt\", \"rr\"]\n\
         [[network]]\n\
         name = \"one\"\n\
         paths = {paths}\n\
         {more}\n"
    )
}

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("x.toml", text).map_err(|error| error.to_string())
}

fn networks(paths: &str, more: &str) -> Vec<NetworkSpec> {
    parse(&file(paths, more)).unwrap().networks
}

fn names(networks: &[NetworkSpec]) -> Vec<&str> {
    networks.iter().map(|network| &*network.name).collect()
}

const PATHS: &str = "[{ rate = 50, owd = 20 }]";

#[test]
fn an_experiment_is_called_by_its_path_below_the_folder_experiments() {
    for (path, name) in [
        ("x.toml", "x"),
        ("some/folder/x.toml", "x"),
        ("experiments/x.toml", "x"),
        ("./experiments/paper/x.y.toml", "paper/x.y"),
        ("/at/experiments/of/experiments/paper/x.toml", "paper/x"),
        ("experiments/../x.toml", "x"),
        ("experiments.toml", "experiments"),
    ] {
        let experiment = Experiment::parse(path, &file(PATHS, "")).unwrap();
        assert_eq!(experiment.name, name, "{path}");
    }
}

#[test]
fn faults_are_one_line_with_place_key_and_what_was_expected() {
    let change = |from: &str, to: &str| file(PATHS, "").replace(from, to);
    let table: &[(String, &str)] = &[
        (
            file(PATHS, "handshake = 2"),
            "x.toml:7: network[1].handshake: found 2, expected the number of the path that carries the handshake, 1 to 1",
        ),
        (
            file(PATHS, "race = 1"),
            "x.toml:7: network[1].race: found 1, expected true or false, whether the handshake begins on all paths at once",
        ),
        (
            file(PATHS, "start = \"early\""),
            "x.toml:7: network[1].start: found \"early\", expected \"confirmed\" or \"complete\", which the handshake must be before paths are opened, or \"library\"",
        ),
        (
            "title = ".into(),
            "x.toml:1: string values must be quoted, expected literal string",
        ),
        (
            change("\"minrtt\"", "\"min-rtt\""),
            "x.toml:3: schedulers[1]: unknown scheduler `min-rtt`, did you mean `minrtt`? Known: ",
        ),
        (
            change("\"rr\"", "{ name = \"rr\", config = { burst = 0 } }"),
            "x.toml:3: schedulers[2]: scheduler `roundrobin`, field `burst`: ",
        ),
        (
            change("\"rr\"", "\"minrtt\""),
            "x.toml:3: schedulers[2]: a second scheduler is called `minrtt`, expected a `label` that differs",
        ),
        (
            change("\"rr\"", "{ name = \"rr\", train = 2 }"),
            "x.toml:3: schedulers[2].train: `rr` does not learn, expected 0 runs",
        ),
        (
            change("\"rr\"", "{ name = \"rr\", train = 1.5 }"),
            "x.toml:3: schedulers[2].train: found 1.5, expected a number of runs from 0 to 1000",
        ),
        (
            change("[[network]]", "[train]\nruns = 1001\n[[network]]"),
            "x.toml:5: train.runs: found 1001, expected a number of runs from 0 to 1000",
        ),
        (
            change(
                "[[network]]",
                "[train]\nworkload = \"file:2MB\"\n[[network]]",
            ),
            "x.toml:4: train.runs: missing, expected a number of runs from 0 to 1000",
        ),
        (
            change(
                "[[network]]",
                "[train]\nruns = 2\nworkload = \"file\"\n[[network]]",
            ),
            "x.toml:6: train.workload: ",
        ),
        (
            change("[[network]]", "[train]\nruns = 2\nseeds = 3\n[[network]]"),
            "x.toml:6: train.seeds: unknown key, expected one of runs, all, workload",
        ),
        (
            change("\"rr\"", "{ name = \"ecf_a\", vary = { p = [0, 1] } }"),
            "x.toml:3: schedulers[2].vary.p: nothing is set to \"$p\"",
        ),
        (
            change(
                "\"rr\"",
                "{ name = \"ecf_a\", config = { p_wait = \"$p\" }, vary = { p = { min = 0, max = 1 } } }",
            ),
            "x.toml:3: schedulers[2].vary.p: found a table, expected a list of values, or { from = ",
        ),
        (
            change(
                "\"rr\"",
                "{ name = \"ecf_a\", config = { p_wait = \"$p\" }, vary = { p = [0, 2] } }",
            ),
            "x.toml:3: schedulers[2]: scheduler `ecf_a`, field `p_wait`: ",
        ),
        (
            change("title = \"a test\"\n", ""),
            "x.toml:1: title: missing, expected one line that says what is looked at",
        ),
        (
            change("file:2MB", "file:2XB"),
            "x.toml:2: workloads[1]: workload \"file:2XB\": size \"2XB\": unknown unit \"XB\", expected B, kB, MB, GB, KiB, MiB or GiB",
        ),
        (
            change("[\"file:2MB\"]", "[]"),
            "x.toml:2: workloads: empty list, expected at least one element",
        ),
        (
            change("[[network]]", "congestion = \"reno\"\n[[network]]"),
            "x.toml:4: congestion: unknown congestion control",
        ),
        (
            change("[[network]]", "colour = 3\n[[network]]"),
            "x.toml:4: colour: unknown key, expected one of title, about, ",
        ),
        (
            change("[[network]]", "seeds = 0\n[[network]]"),
            "x.toml:4: seeds: found 0, expected a number of seeds from 1 to 100000",
        ),
        (
            change("name = \"one\"", "nam = \"one\""),
            "x.toml:4: network[1].name: missing, expected a name for results to call it by",
        ),
        (
            file("[{ rate = -5, owd = 20 }]", ""),
            "x.toml:6: network[1].paths[1].rate: rate \"-5\": negative, expected bit/s, kbit/s, Mbit/s or Gbit/s, as 50 (Mbit/s) or \"50Mbit/s\"",
        ),
        (
            file("[{ rate = \"50 furlongs\", owd = 20 }]", ""),
            "x.toml:6: network[1].paths[1].rate: rate \"50 furlongs\": unknown unit \"furlongs\", expected bit/s",
        ),
        (
            file("[{ rate = 50 }]", ""),
            "x.toml:6: network[1].paths[1].owd: missing, expected a time, as 20 (ms) or \"20ms\"",
        ),
        (
            file("[{ rate = 50, owd = 20, rtt = 40 }]", ""),
            "x.toml:6: network[1].paths[1].rtt: `owd` is given as well, expected one of the two",
        ),
        (
            file("[{ rate = 50, owd = 20, los = 1 }]", ""),
            "x.toml:6: network[1].paths[1].los: unknown key, expected one of class, owd, rtt, ",
        ),
        (
            file("[{ rate = 50, owd = 20, loss = 101 }]", ""),
            "x.toml:6: network[1].paths[1].loss: found 101, expected at most 100 percent",
        ),
        (
            file("[{ rate = 50, owd = 20, queue = \"some\" }]", ""),
            "x.toml:6: network[1].paths[1].queue: size \"some\": not a number",
        ),
        (
            file("[{ rate = 50, owd = { min = 1, max = 2 } }]", ""),
            "x.toml:4: network[1]: `owd1` is drawn from a range, expected `sample = { points = N",
        ),
        (
            file(PATHS, "sample = { points = 3 }"),
            "x.toml:4: network[1].sample: nothing to draw, expected a value `{ min = .., max = .. }` in a path",
        ),
        (
            file("[{ rate = 50, owd = \"$d\" }]", ""),
            "x.toml:6: network[1].paths[1].owd: found \"$d\", expected the name of a list in `vary`",
        ),
        (
            file(PATHS, "vary = { d = [1, 2] }"),
            "x.toml:4: network[1].vary.d: nothing is set to \"$d\"",
        ),
        (
            file(
                "[{ rate = 50, owd = 20, class = \"bad\" }]",
                "[class.good]\nloss = 0",
            ),
            "x.toml:6: network[1].paths[1].class: found \"bad\", expected one of the classes: good",
        ),
        (
            file("[{ rate = 50, owd = 20, through = \"dsl\" }]", ""),
            "x.toml:6: network[1].paths[1].through: found \"dsl\", expected the name of a link in `shared`",
        ),
        (
            file(PATHS, "cross_traffic = [{ path = 2 }]"),
            "x.toml:7: network[1].cross_traffic[1].path: found 2, expected the number of a path, 1 to 1",
        ),
        (
            file(PATHS, "schedulers = [\"ecf\"]"),
            "x.toml:7: network[1].schedulers[1]: found \"ecf\", expected a label out of `schedulers`: minrtt, rr",
        ),
        (
            file("\"50Mbit\"", ""),
            "x.toml:6: network[1].paths[1].owd: missing, expected a time, as 20 (ms) or \"20ms\"",
        ),
        (
            file(
                PATHS,
                "[[claim]]\ntext = \"so\"\nbetter = [\"ecf\"]\nworse = [\"rr\"]",
            ),
            "x.toml:9: claim[1].better[1]: found \"ecf\", expected a label out of `schedulers`: minrtt, rr",
        ),
        (
            file(
                PATHS,
                "[[paper]]\nscheduler = \"rr\"\nvalue = \"x\"\nsource = \"y\"",
            ),
            "x.toml:9: paper[1].value: found \"x\", expected a number",
        ),
        (
            file(
                PATHS,
                "[[claim]]\ntext = \"so\"\nnetwork = \"(\"\nsimilar = [\"minrtt\", \"rr\"]",
            ),
            "x.toml:9: claim[1].network: pattern `(`: has a group",
        ),
    ];
    for (text, expected) in table {
        let error = parse(text).expect_err(text);
        assert!(
            error.starts_with(expected),
            "\n{error}\nexpected\n{expected}\nof\n{text}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_a_fault_of_one_line() {
    let error = Experiment::load(std::path::Path::new("no/such.toml")).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("no/such.toml: cannot be read: "),
        "{error}"
    );
}

#[test]
fn bare_numbers_are_in_the_papers_units() {
    let network = &networks(
        "[{ rate = 50, rtt = 40, jitter = 10, loss = 1.5, queue = 7 }]",
        "",
    )[0];
    let down = &network.paths[0].down;
    assert_eq!(down.rate, Some(50_000_000));
    assert_eq!(down.delay, Duration::from_millis(20));
    // 10 % of 40 ms over both directions: 4 ms / sqrt 2.
    assert_eq!(down.delay_sd.as_micros(), 2828);
    assert_eq!(down.loss, 0.015);
    assert_eq!(down.queue, QueueLimit::Packets(7));
    // By default, only data is lost.
    assert_eq!(network.paths[0].up.loss, 0.0);
    assert_eq!(
        (network.receive_window, network.initial_window, network.mtu),
        (6_000_000, 32, 1350)
    );
}

#[test]
fn what_is_said_close_by_holds_over_what_is_said_far_away() {
    let more = "[class.bad]\nloss = 3\nqueue = 5\n\
                [defaults]\nloss_direction = \"both\"\nmtu = 1400\n\
                [defaults.path]\nqueue = 9\njitter = 8\nowd = 1";
    let networks = networks(
        "[{ rate = 50, owd = 20, class = \"bad\", jitter = 0 }, { rate = 2, up = { rate = 1, loss = 2 } }]",
        more,
    );
    let [first, second] = &*networks[0].paths else {
        panic!("two paths")
    };
    assert_eq!((first.up.loss, first.down.loss), (0.03, 0.03));
    assert_eq!(first.down.queue, QueueLimit::Packets(5));
    assert!(first.down.delay_sd.is_zero());
    assert_eq!(second.down.queue, QueueLimit::Packets(9));
    assert_eq!(second.down.delay, Duration::from_millis(1));
    assert_eq!(
        (second.up.rate, second.down.rate),
        (Some(1_000_000), Some(2_000_000))
    );
    assert_eq!((second.up.loss, second.down.loss), (0.02, 0.0));
    assert_eq!(networks[0].mtu, 1400);
}

#[test]
fn lists_become_grids_whose_last_variable_is_fastest() {
    let grid = networks(
        "[{ rate = [2, 10], owd = \"$d\", loss = { from = 0, to = 1, step = 0.5 } }, { rate = 50, owd = \"$d\" }]",
        "vary = { d = [80, 140] }",
    );
    assert_eq!(grid.len(), 12);
    assert_eq!(
        names(&grid)[..4],
        [
            "one/d=80,rate1=2,loss1=0",
            "one/d=80,rate1=2,loss1=0.5",
            "one/d=80,rate1=2,loss1=1",
            "one/d=80,rate1=10,loss1=0",
        ]
    );
    let last = &grid[11];
    assert!(
        last.paths
            .iter()
            .all(|path| path.down.delay == Duration::from_millis(140))
    );
    assert_eq!(last.paths[0].down.loss, 0.01);
    assert_eq!(last.parameters[0], Parameter::new("d", "140".into()));
    assert_eq!(last.set, "one");
}

#[test]
fn boxes_are_sampled_the_same_every_time() {
    let paths =
        "[{ rate = { min = 2, max = 10 }, owd = 80 }, { rate = 50, owd = { min = 20, max = 30 } }]";
    let drawn = networks(paths, "sample = { points = 20, seed = 5 }");
    assert_eq!(drawn.len(), 20);
    assert_eq!(names(&drawn)[..2], ["one/001", "one/002"]);
    assert_eq!(drawn, networks(paths, "sample = { points = 20, seed = 5 }"));
    assert_ne!(drawn, networks(paths, "sample = { points = 20, seed = 6 }"));
    for network in &drawn {
        let rate = network.paths[0].down.rate.unwrap();
        assert!((2_000_000..=10_000_000).contains(&rate));
        let delay = network.paths[1].down.delay;
        assert!((20..=30).contains(&delay.as_millis()));
    }
    let uniform = networks(
        paths,
        "sample = { points = 20, seed = 5, method = \"uniform\" }",
    );
    assert_ne!(drawn, uniform);
}

#[test]
fn a_redraw_is_one_network_that_changes() {
    let paths = "[{ rate = { min = 2, max = 10 }, owd = 80, loss = { min = 0, max = 3 } }, { rate = 50, owd = 20 }]";
    let drawn = networks(
        paths,
        "sample = { seed = 5 }\nredraw = { every = \"60s\", until = \"300s\" }",
    );
    assert_eq!(names(&drawn), ["one"]);
    let changes = &drawn[0].paths[0].down.changes;
    let times: Vec<_> = changes.iter().map(|change| change.at.as_secs()).collect();
    assert_eq!(times, [60, 120, 180, 240]);
    assert!(
        changes
            .iter()
            .all(|change| change.rate.is_some() && change.loss.is_some())
    );
    assert!(drawn[0].paths[1].down.changes.is_empty());
    let fault = parse(&file(
        "[{ rate = 2, owd = 80, duplication = { min = 0, max = 3 } }]",
        "sample = { seed = 5 }\nredraw = { every = \"60s\", until = \"300s\" }",
    ));
    assert!(
        fault
            .unwrap_err()
            .contains("`duplication1` cannot change during a run")
    );
}

#[test]
fn paths_are_repeated_to_their_count() {
    let counted = networks(
        "[{ rate = 50, owd = { min = 10, max = 25 } }, { rate = 20, owd = 30 }]",
        "path_count = [2, 3, 5]\nsample = { points = 4 }",
    );
    assert_eq!(counted.len(), 12);
    assert_eq!(names(&counted)[0], "one/paths=2/001");
    let sizes: Vec<_> = counted.iter().map(|network| network.paths.len()).collect();
    assert_eq!(sizes, [2, 2, 2, 2, 3, 3, 3, 3, 5, 5, 5, 5]);
    let rates = counted[11]
        .paths
        .iter()
        .map(|path| path.down.rate.unwrap() / 1_000_000);
    assert_eq!(rates.collect::<Vec<_>>(), [50, 20, 50, 20, 50]);
    // Each path is sampled on its own, and is the same for every count.
    assert_ne!(counted[8].paths[0], counted[8].paths[2]);
    assert_eq!(counted[0].paths[0], counted[8].paths[0]);
}

#[test]
fn a_scheduler_that_varies_becomes_a_family() {
    let text = file(PATHS, "").replace(
        "\"rr\"",
        "{ name = \"ecf_a\", label = \"a\", config = { p_wait = \"$p\", seed = \"$s\" }, \
         vary = { p = { from = 0, to = 0.3, step = 0.1 }, s = [7, 8] } }",
    );
    let schedulers = parse(&text).unwrap().schedulers;
    let labels: Vec<_> = schedulers.iter().map(|spec| &*spec.label).collect();
    assert_eq!(
        labels[..4],
        ["minrtt", "a,p=0,s=7", "a,p=0,s=8", "a,p=0.1,s=7"]
    );
    assert_eq!(labels.len(), 1 + 4 * 2);
    let last = &schedulers[8];
    // Not 0.30000000000000004, which three steps of 0.1 add up to.
    assert_eq!(last.config, serde_json::json!({ "p_wait": 0.3, "seed": 8 }));
    assert_eq!((&*last.name, &*last.family), ("ecf_a", "a"));
    assert_eq!(last.parameters[0], Parameter::new("p", "0.3".into()));
    assert!(schedulers[0].family.is_empty());
}

#[test]
fn schedulers_that_learn_are_trained_unless_they_say_otherwise() {
    let schedulers = "\"linucb\", { name = \"linucb\", label = \"cold\", train = 0 }, \
                      { name = \"linucb\", label = \"much\", train = 9 }, { name = \"rr\", train = 0 }";
    let train = "[train]\nruns = 3\nworkload = \"file:4MB\"";
    for (more, runs) in [(train, [0, 3, 0, 9, 0]), ("", [0, 0, 0, 9, 0])] {
        let text = file(PATHS, more).replace("\"rr\"", schedulers);
        let experiment = parse(&text).unwrap();
        let specs = experiment.schedulers.iter();
        assert_eq!(specs.map(|spec| spec.training).collect::<Vec<_>>(), runs);
        let workload = experiment.training_workload.map(|one| one.to_string());
        assert_eq!(
            workload.as_deref(),
            (!more.is_empty()).then_some("file:4MB")
        );
    }
}

#[cfg(feature = "neural")]
#[test]
fn a_policy_is_not_trained_and_may_be_told_the_rates() {
    let schedulers = "{ name = \"sailfish\", config = { rates = \"oracle\" } }";
    let text = file(PATHS, "[train]\nruns = 3").replace("\"rr\"", schedulers);
    let experiment = parse(&text).unwrap();
    let spec = &experiment.schedulers[1];
    assert_eq!(
        (spec.training, &spec.config["rates"]),
        (0, &"oracle".into())
    );
    let text = text.replace("\"oracle\"", "\"delphi\"");
    let fault = parse(&text).unwrap_err();
    let expected = "x.toml:3: schedulers[2]: scheduler `sailfish`, field `rates`: ";
    assert!(fault.starts_with(expected), "{fault}");
}

#[test]
fn links_and_flows_are_shared_as_said() {
    let network = &networks(
        "[{ rate = 50, owd = 20, through = \"dsl\" }, { rate = 20, owd = 30, through = \"dsl\" }]",
        "shared = [{ name = \"dsl\", rate = 30, owd = 5 }]\n\
         cross_traffic = [{ path = 2, from = \"server\", congestion = \"cubic\", start = \"1s\" }]",
    )[0];
    assert_eq!(network.shared[0].link.rate, Some(30_000_000));
    assert_eq!(network.cross_traffic[0].path, 1);
    assert_eq!(network.cross_traffic[0].start, Duration::from_secs(1));
}

#[test]
fn the_command_line_describes_one_network() {
    let schedulers = ["minrtt".to_owned(), "rr".to_owned()];
    let olia = ["olia".to_owned()];
    let one = |network: &str| {
        Experiment::of_one_network(network, "file:2MB", &schedulers, &olia)
            .map_err(|error| error.to_string())
    };
    let experiment = one("50Mbit 20ms 0% | 2Mbit 100ms 1.5% jitter=8% queue=50").unwrap();
    let paths = &experiment.networks[0].paths;
    assert_eq!(paths[0].down.rate, Some(50_000_000));
    assert_eq!(paths[1].down.loss, 0.015);
    assert_eq!(paths[1].down.queue, QueueLimit::Packets(50));
    assert_eq!(experiment.schedulers.len(), 2);
    for (network, fault) in [
        ("50Mbit", "command line: --network.paths[1].owd: missing"),
        (
            "50Mbit 20ms 0% 7",
            "command line: --network.paths: `7` is too much",
        ),
        ("", "command line: --network.paths: empty path"),
        (
            "50Mbit 20ms rate=3",
            "command line: --network.paths: rate is given twice",
        ),
    ] {
        let error = one(network).unwrap_err();
        assert!(error.starts_with(fault), "{error}");
    }
}

#[cfg(not(feature = "neural"))]
#[test]
fn a_scheduler_that_was_not_built_is_not_unknown() {
    let fault = parse(&file(PATHS, "").replace("\"rr\"", "\"dqn\"")).unwrap_err();
    assert_eq!(
        fault,
        "x.toml:3: schedulers[2]: scheduler `dqn` is in the crate `mpquic-sched-neural`, which this program was built \
         without: mpquic's own programs have it with `--features neural`",
    );
}

#[test]
fn the_path_of_the_handshake_is_an_axis_whose_runs_are_pairs() {
    let two = "[{ rate = [5, 50], owd = 20 }, { rate = 5, owd = 20 }]";
    let all = networks(two, "handshake = [1, 2]\nstart = \"complete\"");
    assert_eq!(
        names(&all),
        [
            "one/rate1=5,handshake=1",
            "one/rate1=5,handshake=2",
            "one/rate1=50,handshake=1",
            "one/rate1=50,handshake=2",
        ]
    );
    let twins: Vec<_> = all.iter().map(|network| &*network.twin).collect();
    assert_eq!(
        twins,
        ["one/rate1=5", "one/rate1=5", "one/rate1=50", "one/rate1=50"]
    );
    let first: Vec<_> = all.iter().map(|network| network.handshake).collect();
    assert_eq!(first, [0, 1, 0, 1]);
    assert_eq!(all[0].paths, all[1].paths);
    assert!(
        all[1]
            .describe()
            .ends_with(", handshake on path 2, start complete")
    );

    assert!(
        all.iter()
            .all(|network| network.start == PathStart::Complete)
    );
    let rapid = networks(PATHS, "slow_start = \"rapid\"");
    assert_eq!(rapid[0].slow_start, SlowStart::Rapid);
    assert!(rapid[0].describe().ends_with(", slow start rapid"));
    assert_eq!(all[0].slow_start, SlowStart::HyStartPlusPlus);
    let copies = networks(PATHS, "tail_copies = true");
    assert!(copies[0].tail_copies && !all[0].tail_copies);
    assert!(copies[0].describe().ends_with(", tail copies"));
    let fewer = networks(PATHS, "ack_frequency = [true, false]");
    assert_eq!(
        names(&fewer),
        ["one/ack_frequency=true", "one/ack_frequency=false"]
    );
    assert_eq!(
        [0, 1].map(|at| fewer[at].ack_frequency),
        [Some(true), Some(false)]
    );
    assert!(fewer[0].describe().ends_with(", ACK frequency"));
    assert_eq!(all[0].ack_frequency, Some(false));
    let paced = networks(PATHS, "pacing = [true, false]");
    assert_eq!(names(&paced), ["one/pacing=true", "one/pacing=false"]);
    assert_eq!([0, 1].map(|at| paced[at].pacing), [true, false]);
    assert!(paced[1].describe().ends_with(", no pacing"));
    let order = networks(
        "[{ rate = 5, owd = 20, jitter = 8, jitter_reorders = [false, true] }, { rate = 5, owd = 90 }]",
        "",
    );
    let reorders = |at: usize| {
        let path = &order[at].paths[0];
        (path.up.delay_reorders, path.down.delay_reorders)
    };
    assert_eq!([0, 1].map(reorders), [(false, false), (true, true)]);
    assert!(order[1].describe().contains("±2.26 ms out of order |"));
    let starts = networks(PATHS, "start = [\"confirmed\", \"complete\"]");
    assert_eq!(
        names(&starts),
        ["one/start=confirmed", "one/start=complete"]
    );
    assert!(starts.iter().all(|network| network.twin == "one"));
    assert!(starts[1].describe().ends_with(", start complete"));
    let library = networks(PATHS, "start = [\"confirmed\", \"library\"]");
    let start = |at: usize| {
        let network: &NetworkSpec = &library[at];
        (network.start, network.race, network.slow_start)
    };
    assert_eq!([0, 1].map(|at| library[at].tail_copies), [false, true]);
    assert_eq!(
        [0, 1].map(|at| library[at].ack_frequency),
        [Some(false), None]
    );
    let before = (PathStart::Confirmed, false, SlowStart::HyStartPlusPlus);
    assert_eq!(start(0), before);
    assert_eq!(start(1), (PathStart::Complete, true, SlowStart::default()));
    let but = networks(
        PATHS,
        "start = \"library\"\nrace = false\nslow_start = \"classic\"",
    );
    assert_eq!(
        (but[0].race, but[0].slow_start),
        (false, SlowStart::Classic)
    );
    let early = networks(PATHS, "early_path_data = [false, true]");
    assert!(early.iter().all(|network| network.twin == "one"));
    assert_eq!([0, 1].map(|at| early[at].early_path_data), [false, true]);
    assert!(early[1].describe().ends_with(", early path data"));

    let races = networks(PATHS, "race = [false, true]");
    assert_eq!(names(&races), ["one/race=false", "one/race=true"]);
    assert!(races.iter().all(|network| network.twin == "one"));
    assert!(races[1].race && races[1].describe().ends_with(", all paths at once"));
    // With a race, the path with the shorter round trip has the handshake and the first path ID.
    let three = "[{ rate = 5, owd = 20 }, { rate = 5, owd = 90 }, { rate = 5, owd = 10 }]";
    for (race, order) in [("false", [1, 0, 2]), ("true", [2, 1, 0])] {
        let network = &networks(three, &format!("handshake = 2\nrace = {race}"))[0];
        assert_eq!(network.opened(), order);
        assert_eq!(network.handshake_path(), order[0]);
    }

    // By the name of a list, and with sampled values.
    let two = "[{ rate = { min = 2, max = 9 }, owd = 20 }, { rate = 5, owd = 20 }]";
    let more = "sample = { points = 2 }\nvary = { first = [1, 2] }\nhandshake = \"$first\"";
    let all = networks(two, more);
    assert_eq!(
        names(&all),
        [
            "one/first=1/001",
            "one/first=1/002",
            "one/first=2/001",
            "one/first=2/002"
        ]
    );
    assert_eq!(all[0].twin, "one/001");
    assert_eq!(all[2].twin, "one/001");
    assert_eq!(all[0].paths, all[2].paths);

    // One value is no axis. The default is the first path.
    let two = "[{ rate = 5, owd = 20 }, { rate = 5, owd = 20 }]";
    let second = networks(two, "handshake = 2").remove(0);
    assert_eq!(
        (&*second.name, &*second.twin, second.handshake),
        ("one", "one", 1)
    );
    assert_eq!(networks(two, "").remove(0).handshake, 0);
}

#[test]
fn a_network_may_run_some_of_the_workloads() {
    let text = file(PATHS, "").replace("[\"file:2MB\"]", "[\"file:2MB\", \"file:20MB\"]");
    let with = |more: &str| parse(&format!("{text}{more}\n"));
    let some = with("workloads = [\"file:2000kB\"]").unwrap();
    assert_eq!(some.networks[0].workloads, ["file:2MB"]);
    assert_eq!(
        with("workloads = [\"file:3MB\"]").unwrap_err(),
        "x.toml:8: network[1].workloads[1]: found \"file:3MB\", expected one out of the experiment's \
         `workloads`: file:2MB, file:20MB"
    );
    let defaults = text.replace(
        "[[network]]",
        "[defaults]\nworkloads = [\"file:20MB\"]\n[[network]]",
    );
    assert_eq!(
        parse(&defaults).unwrap().networks[0].workloads,
        ["file:20MB"]
    );
}

#[test]
fn where_time_went_is_recorded_if_asked_for() {
    let with = |line: &str| parse(&file(PATHS, "").replacen("[[", &format!("{line}\n[["), 1));
    for (line, expected) in [
        ("", false),
        ("time_lost = true", true),
        ("time_lost = false", false),
        ("metrics = [\"completion\", \"time_opening\"]", true),
        ("metrics = [\"wait_time\"]", false),
    ] {
        assert_eq!(with(line).unwrap().time_lost, expected, "{line}");
    }
    assert_eq!(
        with("time_lost = 1").unwrap_err(),
        "x.toml:4: time_lost: found 1, expected true or false"
    );
}

#[test]
fn a_star_stands_for_all_schedulers_that_were_not_named() {
    let text = file(PATHS, "").replace(
        "[\"minrtt\", \"rr\"]",
        "[\"ecf\", { name = \"minrtt\", label = \"mine\" }, \"*\"]",
    );
    let experiment = parse(&text).unwrap();
    let labels: Vec<_> = experiment
        .schedulers
        .iter()
        .map(|spec| &*spec.label)
        .collect();
    assert_eq!(labels[..2], ["ecf", "mine"]);
    for label in ["minrtt", "roundrobin", "peekaboo", "redundant"] {
        assert_eq!(labels.iter().filter(|other| **other == label).count(), 1);
    }
    assert_eq!(labels.iter().filter(|label| **label == "ecf").count(), 1);
    for label in ["single", "minrtt_ns3", "peek_frozen", "dqn", "rr"] {
        assert!(!labels.contains(&label), "{label}");
    }
}

#[test]
fn a_network_has_the_congestion_controls_that_it_names() {
    let with = |some: &str| {
        let text = file(PATHS, &format!("congestion = {some}"));
        text.replace(
            "schedulers =",
            "congestion = [\"olia\", \"bbr3\"]\nschedulers =",
        )
    };
    let experiment = parse(&with("\"bbr3\"")).unwrap();
    assert_eq!(experiment.networks[0].congestion, ["bbr3"]);
    let plan = crate::Plan::new(&experiment, None);
    assert!(plan.cells.iter().all(|cell| cell.id.congestion == "bbr3"));
    assert_eq!(plan.cells.len(), 2);
    let error = parse(&with("\"cubic\"")).unwrap_err();
    assert!(
        error.contains("one out of the experiment's `congestion`: olia, bbr3"),
        "{error}"
    );
}

#[test]
fn a_scheduler_is_added_to_those_of_a_file() {
    let text = "title = \"a\"\nworkloads = [\"file:200kB\"]\nseeds = 2\nschedulers = [\"minrtt\", \"rr\"]\n\
                [[network]]\nname = \"one\"\npaths = \"50Mbit 20ms\"\nschedulers = [\"minrtt\"]\n";
    let mut experiment = Experiment::parse("test.toml", text).unwrap();
    let spec = |label: &str, name: &str| SchedulerSpec {
        label: label.into(),
        name: name.into(),
        config: serde_json::Value::Null,
        training: 0,
        family: String::new(),
        parameters: Vec::new(),
    };
    experiment.add_scheduler(spec("other", "ecf")).unwrap();
    let plan = crate::Plan::new(&experiment, None);
    let labels: Vec<_> = plan.cells.iter().map(|cell| &*cell.id.scheduler).collect();
    assert_eq!(labels, ["minrtt", "other"]);
    let mut fault = |label, name| {
        let error = experiment.add_scheduler(spec(label, name));
        error.unwrap_err().to_string()
    };
    let taken = "a second scheduler is called `other`, expected a `label` that differs";
    assert_eq!(fault("other", "ecf"), taken);
    let characters = "label `a/b`, expected one without /, | and control characters";
    assert_eq!(fault("a/b", "ecf"), characters);
    assert!(fault("mine", "mine").starts_with("unknown scheduler `mine`"));
}
