//! Tests of the lab's command line: results do not depend on threads or interruptions, and exit
//! statuses have their documented meaning.

use std::fs;
use std::path::{Path, PathBuf};

use mpquic_lab::cli;

const EXPERIMENT: &str = r#"
title = "A test"
workloads = ["file:100kB"]
seeds = 4
congestion = ["newreno", "cubic"]
schedulers = ["minrtt", { name = "rr", label = "turns" }]

[[network]]
name = "uneven"
paths = [{ rate = 20, owd = 10 }, { rate = 5, owd = 40, loss = 1 }]

[[network]]
name = "grid"
paths = [{ rate = [2, 20], owd = 10 }, { rate = 5, owd = 20, jitter = 10 }]
"#;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("lab")
        .join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The exit status, standard output and standard error of a command line.
fn lab(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["mpquic-lab"].iter().chain(arguments).map(Into::into);
    let code = cli::main(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(err))
}

/// Runs the experiment in a folder.
fn run(folder: &Path, more: &[&str]) -> (u8, String, String) {
    let file = folder.join("test.toml");
    if !file.exists() {
        fs::write(&file, EXPERIMENT).unwrap();
    }
    let (file, out) = (file.display().to_string(), folder.display().to_string());
    let mut arguments = vec!["run", &*file, "--out", &*out];
    arguments.extend(more);
    lab(&arguments)
}

fn results(folder: &Path) -> String {
    fs::read_to_string(folder.join("results.jsonl")).unwrap()
}

#[test]
fn threads_do_not_change_results() {
    let (one, two) = (folder("one-thread"), folder("two-threads"));
    let (code, first, _) = run(&one, &["--jobs", "1", "--json"]);
    assert_eq!(code, 0, "{first}");
    let (_, second, _) = run(&two, &["--jobs", "2", "--json"]);
    assert_eq!(first, second);
    assert_eq!(results(&one), results(&two));
    // A heading; three networks, two congestion controls, two schedulers, four seeds.
    assert_eq!(results(&one).lines().count(), 1 + 3 * 2 * 2 * 4);
    for file in ["report.html", "summary.csv", "runs.csv"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read(&one), read(&two), "{file}");
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let folder = folder("interrupted");
    run(&folder, &["--seeds", "2"]);
    let whole = results(&folder);
    // Ten complete lines, and an incomplete eleventh one.
    let ends: Vec<_> = whole.match_indices('\n').map(|(at, _)| at).collect();
    fs::write(folder.join("results.jsonl"), &whole[..ends[10] + 50]).unwrap();
    let (code, _, err) = run(&folder, &["--seeds", "2"]);
    assert_eq!(code, 0);
    assert!(err.starts_with("10 earlier runs are kept"), "{err}");
    assert_eq!(results(&folder), whole);

    let (_, _, err) = run(&folder, &["--seeds", "2", "--fresh"]);
    assert_eq!(err, "");
    assert_eq!(results(&folder), whole);
}

#[test]
fn a_part_first_and_the_rest_later_is_the_whole() {
    let (parts, whole) = (folder("parts"), folder("whole"));
    let (code, out, _) = run(&parts, &["--only", "uneven.*turns$", "--json"]);
    assert_eq!(code, 0);
    // Two congestion controls.
    assert_eq!(out.lines().count(), 2);
    let (_, out, err) = run(&parts, &["--json"]);
    assert!(err.starts_with("8 earlier runs"), "{err}");
    assert_eq!(out.lines().count(), 12);
    run(&whole, &[]);
    assert_eq!(results(&parts), results(&whole));
}

#[test]
fn runs_of_other_settings_or_builds_are_not_taken_up() {
    let folder = folder("changed");
    run(&folder, &["--seeds", "1"]);
    let file = folder.join("test.toml");
    fs::write(&file, EXPERIMENT.replace("loss = 1 ", "loss = 2 ")).unwrap();
    let (_, _, err) = run(&folder, &["--seeds", "1"]);
    assert!(err.contains("8 earlier runs are kept"), "{err}");
    assert!(
        err.contains("4 earlier runs with other settings are dropped"),
        "{err}"
    );

    let text = results(&folder).replacen("\"build\":\"", "\"build\":\"other-", 1);
    fs::write(folder.join("results.jsonl"), &text).unwrap();
    let (_, _, err) = run(&folder, &["--seeds", "1"]);
    assert!(
        err.contains("results of another build were moved to"),
        "{err}"
    );
    let previous = fs::read_to_string(folder.join("results.previous.jsonl")).unwrap();
    assert_eq!(previous, text);
    // The code is the same, so there is no difference, and there are too few seeds to show one.
    let old = folder.join("results.previous.jsonl").display().to_string();
    let new = folder.display().to_string();
    let (code, out, _) = lab(&["compare", &old, &new]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 12);
    assert!(
        out.contains("1 paired seeds are too few to tell, at least 6 are needed"),
        "{out}"
    );
}

#[test]
fn json_has_an_object_per_cell_with_all_its_figures() {
    let folder = folder("json");
    let (_, out, _) = run(&folder, &["--json"]);
    for line in out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| {
            object[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {line}"))
        };
        let (low, high) = (&object["ci95"][0], &object["ci95"][1]);
        let median = number("median");
        assert!(
            low.as_f64().unwrap() <= median && median <= high.as_f64().unwrap(),
            "{line}"
        );
        assert!(number("mean") > 0.0 && number("p95") >= median, "{line}");
        assert_eq!(object["seeds"], 4);
        assert_eq!(object["trace_hash"].as_str().unwrap().len(), 32);
        for key in ["scenario", "workload", "scheduler", "congestion"] {
            assert!(object[key].is_string(), "{key}: {line}");
        }
    }
}

#[test]
fn one_network_is_run_from_the_command_line() {
    let arguments = |network| {
        let more = [
            "--workload",
            "file:50kB",
            "--scheduler",
            "minrtt,rr",
            "--seeds",
            "2",
        ];
        let mut arguments = vec!["run", "--network", network, "--congestion", "cubic"];
        arguments.extend(more);
        lab(&arguments)
    };
    let (code, out, err) = arguments("50Mbit 20ms 0% | 2Mbit 100ms 1.5% jitter=8%");
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.contains("50 Mbit/s 20 ms | 2 Mbit/s 100 ms ±11.3 ms 1.5 % loss"),
        "{out}"
    );
    assert!(out.contains("minrtt") && out.contains("rr"), "{out}");

    let (code, _, err) = arguments("50Mbit 20parsec");
    assert_eq!(code, 2);
    assert!(err.contains("unknown unit \"parsec\""), "{err}");
}

/// "Try it on your network first": what the library ships takes the same time there with each scheduler, the papers' start does not.
#[test]
fn one_network_is_run_as_the_library_ships_unless_told() {
    let medians = |more: &[&str]| {
        let fixed = [
            "run",
            "--network",
            "2Mbit 100ms 1.5% | 50Mbit 20ms",
            "--workload",
            "file:2MB",
            "--scheduler",
            "default,minrtt,ecf",
            "--seeds",
            "6",
        ];
        let (code, out, err) = lab(&[&fixed[..], more].concat());
        assert_eq!((code, &*err), (0, ""));
        let (_, json, _) = lab(&[&fixed[..], more, &["--json"]].concat());
        let medians = json.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["median"].as_f64().unwrap()
        });
        (
            out.lines().next().unwrap().to_owned(),
            medians.collect::<Vec<_>>(),
        )
    };
    let (heading, shipped) = medians(&["--congestion", "bbr3"]);
    assert_eq!(
        heading,
        "2Mbit 100ms 1.5% | 50Mbit 20ms, started as the library does, bbr3"
    );
    assert_eq!(shipped.len(), 3);
    for median in shipped {
        assert!((0.42..0.45).contains(&median), "{median}");
    }
    let (heading, _) = medians(&[]);
    assert!(
        heading.ends_with(", started as the library does, auto"),
        "{heading}"
    );
    let (heading, papers) = medians(&["--start", "confirmed", "--congestion", "bbr3"]);
    assert!(heading.ends_with(", start confirmed, bbr3"), "{heading}");
    assert!(papers.iter().all(|median| *median > 0.6), "{papers:?}");
    let (code, _, err) = lab(&["run", "experiments/quick.toml", "--start", "library"]);
    assert!(code == 2 && err.contains("--network"), "{err}");
}

#[test]
fn two_schedulers_are_compared_seed_by_seed() {
    let folder = folder("compare");
    run(&folder, &["--seeds", "8"]);
    let path = folder.display().to_string();
    let (code, out, _) = lab(&["compare", "turns", "minrtt", &path]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 6);
    assert!(
        out.lines().all(|line| line.ends_with("8 paired seeds")),
        "{out}"
    );
    let (code, _, err) = lab(&["compare", "ecf", "minrtt", &path]);
    assert_eq!(code, 2);
    assert!(err.contains("no scheduler `ecf`"), "{err}");
}

#[test]
fn exit_statuses_tell_wrong_input_from_failed_runs() {
    let folder = folder("exit");
    // No packet ever arrives: the run fails and reports why.
    let dead = [
        "run",
        "--network",
        "1Mbit 20ms 100% reordering=0",
        "--workload",
        "file:1kB",
    ];
    let dead = [&dead[..], &["--scheduler", "minrtt", "--seeds", "1"]].concat();
    let (code, _, err) = lab(&dead);
    assert_eq!(code, 1);
    assert!(
        err.starts_with("1 run failed, the first: network/file:1kB/auto/minrtt, seed 1: "),
        "{err}"
    );

    let bad = folder.join("bad.toml");
    fs::write(&bad, EXPERIMENT.replace("rate = 20", "rate = -20")).unwrap();
    let bad = bad.display().to_string();
    let (code, out, err) = lab(&["run", &bad]);
    assert_eq!((code, &*out), (2, ""));
    assert_eq!(err.lines().count(), 1);
    assert!(
        err.starts_with(&format!("{bad}:10: network[1].paths[1].rate: ")),
        "{err}"
    );

    let (code, _, err) = run(&folder, &["--only", "no such"]);
    assert_eq!(code, 2);
    assert!(
        err.starts_with("--only: nothing matches; names are like uneven/file:100kB/"),
        "{err}"
    );
    for wrong in [&["run"][..], &["walk"], &["run", "x.toml", "--seeds", "0"]] {
        assert_eq!(lab(wrong).0, 2, "{wrong:?}");
    }
    let (code, out, _) = lab(&["--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Examples:") && out.contains("Exit status:"));
    let missing = folder.join("missing").display().to_string();
    assert_eq!(lab(&["report", &missing]).0, 1);
}

#[test]
fn time_lines_of_the_runs_that_are_named_are_in_the_report() {
    let folder = folder("timelines");
    let timeline = "timeline = { seed = 2, networks = [\"uneven\"], schedulers = [\"turns\"] }";
    let text = EXPERIMENT.replace("seeds = 4", &format!("seeds = 4\n{timeline}"));
    fs::write(folder.join("test.toml"), text).unwrap();
    let (code, _, err) = run(&folder, &[]);
    assert_eq!((code, &*err), (0, ""));
    let lines = fs::read_to_string(folder.join("timelines.jsonl")).unwrap();
    // Two congestion controls.
    assert_eq!(lines.lines().count(), 2);
    let report = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("One run over time"));
    let panels = report
        .matches("out-of-order bytes at the receiver [kB]")
        .count();
    assert_eq!(panels, 2);
}

#[test]
fn reports_are_made_from_results_alone() {
    let folder = folder("report");
    run(&folder, &["--seeds", "2", "--only", "grid"]);
    let first = fs::read_to_string(folder.join("report.html")).unwrap();
    fs::remove_file(folder.join("test.toml")).unwrap();
    let other = folder.join("other.html").display().to_string();
    let path = folder.display().to_string();
    let (code, out, _) = lab(&["report", &path, "--out", &other]);
    assert_eq!((code, out), (0, format!("Report: {other}\n")));
    assert_eq!(fs::read_to_string(other).unwrap(), first);
}

/// A learning scheduler, trained and cold. Losses keep the fast path's window small and the run
/// long, so that rewards become known during the run.
const LEARNING: &str = r#"
title = "A test"
workloads = ["file:2MB"]
seeds = 3
schedulers = [
    "minrtt",
    "linucb",
    { name = "linucb", label = "cold", train = 0 },
    { name = "linucb", label = "long", train = 4 },
]
metrics = ["completion", "learned_decisions"]
timeline = { seed = 2, schedulers = ["linucb"] }

[train]
runs = 2

[[network]]
name = "uneven"
paths = [{ rate = 50, owd = 20, loss = 1 }, { rate = 2, owd = 100 }]
"#;

/// The metrics of each run of a scheduler.
fn figures(folder: &Path, scheduler: &str) -> Vec<serde_json::Value> {
    let lines = results(folder);
    let records = lines
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap());
    records
        .filter(|record: &serde_json::Value| record["scheduler"] == scheduler)
        .map(|record| record["values"].clone())
        .collect()
}

#[test]
fn learners_begin_the_measured_run_with_what_they_learned_before() {
    let (one, two) = (folder("training-one"), folder("training-two"));
    for (folder, jobs) in [(&one, "1"), (&two, "2")] {
        fs::write(folder.join("test.toml"), LEARNING).unwrap();
        // With time lines, which repeat a run and compare the results.
        let (code, _, err) = run(folder, &["--jobs", jobs]);
        assert_eq!((code, &*err), (0, ""));
    }
    assert_eq!(results(&one), results(&two));

    for (scheduler, runs) in [("linucb", 2), ("cold", 0), ("long", 4)] {
        let of_all = figures(&one, scheduler);
        assert_eq!(of_all.len(), 3);
        for values in of_all {
            assert_eq!(values["training_runs"], f64::from(runs), "{values}");
            assert_eq!(values["learned_recalled"], f64::from(u8::from(runs > 0)));
            assert_eq!(values["learned_refused"], 0.0);
            let [decisions, settled] =
                ["learned_decisions", "learned_settled"].map(|key| values[key].as_f64().unwrap());
            assert!(decisions > 0.0, "{values}");
            // `learned_settled` counts over all connections, `learned_decisions` only in this one.
            assert_eq!(settled > decisions, runs > 0, "{values}");
        }
    }
    let minrtt = figures(&one, "minrtt");
    assert!(
        minrtt
            .iter()
            .all(|values| values.get("training_runs").is_none())
    );
    let completions = |scheduler: &str| -> Vec<_> {
        let of_all = figures(&one, scheduler).into_iter();
        of_all.map(|values| values["completion"].clone()).collect()
    };
    assert_ne!(completions("linucb"), completions("cold"));
    assert_ne!(completions("linucb"), completions("long"));

    // Another training workload does not change the results of untrained schedulers.
    fs::write(
        two.join("test.toml"),
        LEARNING.replace("runs = 2", "runs = 2\nworkload = \"file:1MB\""),
    )
    .unwrap();
    let (code, _, err) = run(&two, &[]);
    assert_eq!(code, 0);
    assert_eq!(
        err,
        "6 earlier runs are kept (--fresh discards them)\n\
         6 earlier runs with other settings are dropped\n"
    );
    assert_ne!(figures(&one, "linucb"), figures(&two, "linucb"));
    let page = lab(&["table", "--markdown", &two.display().to_string()]).1;
    // Schedulers that do not learn have no column.
    assert!(
        page.contains("\nlearned decisions, median:\n\n| network | `linucb` | `cold` | `long` |\n"),
        "{page}"
    );
    assert!(
        page.contains(
            "3 seeds; before each measured run, `linucb` learned in 2 runs of `file:1MB`; \
             before each measured run, `long` learned in 4 runs of `file:1MB`."
        ),
        "{page}"
    );
}

#[test]
fn a_training_run_that_fails_is_told_from_the_measured_one() {
    let folder = folder("training-fails");
    let dead = LEARNING
        .replace("loss = 1 ", "loss = 100 ")
        .replace("rate = 2, owd = 100", "rate = 2, owd = 100, loss = 100");
    fs::write(folder.join("test.toml"), dead).unwrap();
    let (code, _, err) = run(&folder, &["--only", "linucb", "--seeds", "1"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("uneven/file:2MB/olia/linucb, seed 1: training run 1: "),
        "{err}"
    );
}

#[test]
fn results_are_printed_again_and_as_sections_of_a_page() {
    let folder = folder("table");
    let text = EXPERIMENT
        .replace("\"A test\"", "\"Ours, figure 1: a test\"")
        .replace("seeds = 4", "seeds = 6\nexpect = \"turns are slower\"")
        .replace(
            "schedulers = [\"minrtt\", ",
            "metrics = [\"completion\", \"waits\"]\n\
             schedulers = [{ name = \"ecf_a\", config = { p_wait = \"$p\" }, vary = { p = [0, 0.5] } }, \"minrtt\", ",
        )
        + "\n[[network]]\nname = \"many\"\nschedulers = [\"minrtt\", \"turns\"]\nsample = { points = 13 }\n\
           paths = [{ rate = { min = 2, max = 20 }, owd = 10 }, { rate = 5, owd = 20 }]\n\
           [[claim]]\ntext = \"minRTT is faster\"\nsource = \"figure 1\"\nnetwork = \"uneven\"\nbetter = [\"minrtt\"]\nworse = [\"turns\"]\n";
    fs::write(folder.join("test.toml"), text).unwrap();
    let (code, first, err) = run(&folder, &[]);
    assert_eq!((code, &*err), (0, ""));
    let path = folder.display().to_string();
    let (code, again, _) = lab(&["table", &path]);
    assert_eq!(code, 0);
    assert!(first.starts_with(&again), "{first}\nis not\n{again}");

    let (code, page, err) = lab(&["table", "--markdown", &path, &path]);
    assert_eq!((code, &*err), (0, ""));
    let (one, other) = page.split_at(page.len() / 2);
    assert_eq!(one, other);
    for part in [
        "## Ours, figure 1\n\n`mpquic-lab run experiments/test.toml`\n\nA test.\n\n\
         Expected: turns are slower.\n\n6 seeds.\n\n",
        "\n- \"minRTT is faster\" (figure 1): **",
        "better, - worse than `minrtt`, = no difference, ? too few seeds:\n\n\
         | network | controller | `minrtt` | `turns` |\n|---|---|---|---|\n| uneven | newreno | 0.",
        "\n| grid/rate1=20 | cubic | 0.",
        "completion [s] of `ecf_a` over `p`, median, the best in bold:\n\n\
         | network | controller | 0 | 0.5 |\n|---|---|---|---|\n| uneven | newreno | ",
        "waits of `ecf_a` over `p`, median:\n\n",
        "\nwaits, median:\n\n| network | controller | `minrtt` | `turns` |\n",
        "| networks | controller | scheduler | median | better | worse | ",
        "\n| many (13) | newreno | `minrtt` | 0.",
    ] {
        assert!(one.contains(part), "{part}\nin\n{one}");
    }
    // Each row of a table has as many cells as the head.
    for lines in one.split("\n\n").filter(|part| part.starts_with('|')) {
        let cells = |line: &str| line.matches('|').count();
        let head = lines.lines().next().map(cells);
        assert!(
            lines.lines().all(|line| Some(cells(line)) == head),
            "{lines}"
        );
    }
    let missing = folder.join("missing").display().to_string();
    assert_eq!(lab(&["table", &missing]).0, 1);
    assert_eq!(lab(&["table"]).0, 2);
}

#[test]
fn the_old_name_of_an_experiment_still_works_and_is_noted() {
    let folder = folder("renamed");
    let experiments = folder.join("experiments");
    fs::create_dir_all(experiments.join("peekaboo")).unwrap();
    let new = experiments.join("peekaboo/fig02_dynamicity.toml");
    fs::write(&new, EXPERIMENT).unwrap();
    let old = experiments.join("pb_f2.toml").display().to_string();
    let new = new.display().to_string();
    let note = format!("note: {old} is now {new}; the next release will not know the old name\n");

    // Results go where the new name has its folder, whichever of the names is given.
    let results = folder.join("peekaboo/fig02_dynamicity");
    let out = results.display().to_string();
    let run = |file: &str| {
        lab(&[
            "run", file, "--seeds", "1", "--json", "--fresh", "--out", &out,
        ])
    };
    let (code, by_new, err) = run(&new);
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(run(&old), (0, by_new, note));

    // The commands that read results accept old names, too.
    let old = folder.join("pb_f2").display().to_string();
    let note = format!("note: {old} is now {out}; the next release will not know the old name\n");
    for command in ["table", "report"] {
        let (code, by_new, err) = lab(&[command, &out]);
        assert_eq!((code, &*err), (0, ""));
        assert_eq!(lab(&[command, &old]), (0, by_new, note.clone()));
    }
    let (code, _, err) = lab(&["compare", "turns", "minrtt", &old]);
    assert_eq!((code, err), (0, note));

    // A file that exists under an old name is used.
    let old = experiments.join("pb_f2.toml");
    fs::write(&old, EXPERIMENT).unwrap();
    let (code, _, err) = run(&old.display().to_string());
    assert_eq!((code, &*err), (0, ""));
}

const ORDERS: &str = r#"
title = "Orders"
workloads = ["file:200kB"]
seeds = 3
congestion = ["cubic"]
schedulers = ["minrtt", { name = "single", label = "fast_alone", config = { path = "best" } }]
time_lost = true

[[network]]
name = "uneven"
paths = "2Mbit 100ms | 50Mbit 20ms 1%"
handshake = [1, 2]
"#;

#[test]
fn the_time_of_downloads_and_the_order_of_paths_are_told() {
    let folder = folder("orders");
    let file = folder.join("orders.toml");
    fs::write(&file, ORDERS).unwrap();
    let (file, out) = (file.display().to_string(), folder.display().to_string());
    let (code, text, err) = lab(&["run", &file, "--out", &out]);
    assert_eq!((code, &*err), (0, ""));
    for part in [
        "Where the time went",
        "uneven/handshake=2",
        "Which path carries the handshake",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let report = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("stacked bars of time of a download [s], mean"));
    let (code, markdown, _) = lab(&["table", "--markdown", &out]);
    assert_eq!(code, 0);
    assert!(markdown.contains("| network | scheduler | total | handshake | request |"));
    assert!(markdown.contains("| networks | scheduler | metric | last / first | spread |"));

    let (code, text, _) = lab(&["time", &out]);
    assert_eq!(code, 0);
    assert!(text.starts_with("Orders\nWhere the time went"), "{text}");
    let (code, json, _) = lab(&["time", "--json", &out]);
    assert_eq!(code, 0);
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Two orders of two schedulers, then a spread for each scheduler.
    assert_eq!(lines.len(), 4 + 2);
    for line in &lines[..4] {
        let parts = line["parts"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        let total = line["total"].as_f64().unwrap();
        assert!((sum - total).abs() < 1e-9, "{line}");
        assert!(total >= line["bounds"]["round_trips"].as_f64().unwrap());
    }
    // The slow path first is the worse order: the fast one carries data later.
    for (number, line) in lines[4..].iter().enumerate() {
        assert_eq!(line["networks"], 1);
        assert_eq!(line["worst_network"], "uneven");
        assert_eq!(line["scheduler"], ["minrtt", "fast_alone"][number]);
        let [ratio, spread] = ["ratio", "spread"].map(|name| line[name].as_f64().unwrap());
        assert!((spread * ratio - 1.0).abs() < 1e-9, "{line}");
        // One path alone carries its handshake in either order: they are the same run.
        let as_expected = if number == 0 {
            ratio < 0.8
        } else {
            ratio == 1.0
        };
        assert!(as_expected, "{line}");
    }
    // Alone on the best path, whichever order it is opened in.
    let results = results(&folder);
    let shares = results.lines().skip(1).filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (line["scheduler"] == "fast_alone").then(|| line["values"]["path2_share"].as_f64().unwrap())
    });
    for share in shares {
        // All but the validation of the other path.
        assert!(share > 99.0, "{share}");
    }
}

const STARTS: &str = r#"
title = "Starts"
workloads = ["file:200kB"]
seeds = 6
congestion = ["cubic"]
schedulers = ["minrtt"]
time_lost = true

[[network]]
name = "uneven"
paths = "50Mbit 20ms | 10Mbit 60ms"
handshake = [1, 2]
start = ["confirmed", "complete"]
early_path_data = [false, true]
"#;

#[test]
fn ways_to_open_paths_are_compared_in_pairs() {
    let folder = folder("starts");
    let file = folder.join("starts.toml");
    fs::write(&file, STARTS).unwrap();
    let (file, out) = (file.display().to_string(), folder.display().to_string());
    let (code, text, err) = lab(&["run", &file, "--out", &out]);
    assert_eq!((code, &*err), (0, ""));
    assert!(text.contains("How paths are opened"), "{text}");
    let (code, markdown, _) = lab(&["table", "--markdown", &out]);
    assert_eq!(code, 0);
    let heads = "| networks | handshake | scheduler | start | mean | interval | median | slower |";
    assert!(markdown.contains(heads), "{markdown}");
    let (code, json, _) = lab(&["time", "--json", &out]);
    assert_eq!(code, 0);
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let gains: Vec<_> = lines.iter().filter(|line| line["mean"].is_f64()).collect();
    let of = |start: &str, handshake: u64| {
        let found = gains
            .iter()
            .find(|line| line["start"] == start && line["handshake"].as_u64() == Some(handshake));
        let line = found.unwrap_or_else(|| panic!("no {start} in {json}"));
        assert_eq!((&line["networks"], &line["slower"]), (&1.into(), &0.into()));
        let value = |name: &str| line[name].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| line["interval"][end].as_f64().unwrap());
        assert!(low <= value("mean") && value("mean") <= high, "{line}");
        assert!((value("mean") - value("worst")).abs() < 1e-9, "{line}");
        [value("mean"), value("of_first")]
    };
    assert_eq!(gains.len(), 2 * 3);
    // A path that opens earlier, and one whose data does not wait, save time; most of it where the slow path goes first.
    let [complete, early] = ["complete", "complete, early data"].map(|start| of(start, 2)[0]);
    assert!(complete < 0.97 && early < complete, "{complete}, {early}");
    assert!(of("complete", 1)[0] <= 1.0);
    // The first order is the better one here, by far.
    assert!(of("complete", 2)[1] > 1.1);
    let spreads = lines.iter().filter(|line| line["spread"].is_f64());
    let starts: Vec<_> = spreads
        .map(|line| line["start"].as_str().unwrap())
        .collect();
    assert_eq!(starts.len(), 4, "{json}");
    assert!(starts.contains(&"") && starts.contains(&"complete"));
}

#[test]
fn time_is_told_only_if_it_was_recorded() {
    let folder = folder("untold");
    run(&folder, &["--seeds", "1"]);
    let out = folder.display().to_string();
    let before = results(&folder);
    assert!(!before.contains("time_total"));
    let (code, _, err) = lab(&["time", &out]);
    assert_eq!(code, 2);
    assert!(err.ends_with("run it with --time-lost\n"), "{err}");

    // The option records it, and the runs are otherwise the same.
    let (code, _, err) = run(&folder, &["--seeds", "1", "--time-lost"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(lab(&["time", &out]).0, 0);
    let hashes = |results: &str| -> Vec<String> {
        let lines = results.lines().skip(1);
        let hash = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["trace_hash"].to_string()
        };
        lines.map(hash).collect()
    };
    assert_eq!(hashes(&before), hashes(&results(&folder)));
}

const ARENA: &str = r#"
title = "A tiny arena"
seeds = 2
congestion = ["cubic", "olia", "bbr3"]
schedulers = [
    { name = "single", label = "first", config = { path = 0 } },
    { name = "single", label = "third", config = { path = 2 } },
    "minrtt", "ecf", "redundant",
]

[prior]
networks = 6
seed = 1
release_seed = 2

[[include]]
file = "other.toml"
workloads = ["file:64kB"]
"#;

const OTHER: &str = r#"
title = "Networks for an arena"
workloads = ["file:2MB"]
schedulers = ["gaps"]

[[network]]
name = "uneven"
schedulers = ["gaps"]
paths = "20Mbit 10ms | 5Mbit 40ms 1%"
"#;

/// A folder with the tiny arena, and the path of its file.
fn arena_in(name: &str) -> (PathBuf, String) {
    let folder = folder(name);
    fs::write(folder.join("other.toml"), OTHER).unwrap();
    let file = folder.join("tiny.toml");
    fs::write(&file, ARENA).unwrap();
    (folder, file.display().to_string())
}

#[test]
fn an_arena_runs_goes_on_and_says_the_same_again() {
    let (folder, file) = arena_in("arena");
    let out = folder.join("out").display().to_string();
    // Half of it first, as if it had been interrupted.
    let (code, _, err) = lab(&["arena", &file, "--out", &out, "--only", "minrtt"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("put its results together"), "{err}");
    let (code, whole, err) = lab(&["arena", &file, "--out", &out, "--json", "--jobs", "2"]);
    assert_eq!(code, 0, "{err}");
    // Six networks of the prior and two orders of the other; one scenario each.
    assert!(err.contains("16 earlier runs are kept"), "{err}");
    let lines: Vec<serde_json::Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["scenarios"], 8);
    assert_eq!(lines[0]["seeds"], serde_json::json!([2, 2]));
    let labels: Vec<_> = lines[1..]
        .iter()
        .map(|row| row["scheduler"].as_str().unwrap())
        .collect();
    for label in ["minrtt", "ecf", "redundant"] {
        assert!(labels.contains(&label), "{labels:?}");
    }
    assert_eq!(labels.len(), 3, "single paths are references");
    for row in &lines[1..] {
        assert_eq!(row["failed"], 0);
        assert_eq!(row["alone"]["scenarios"], 8);
        assert_eq!(row["by_source"]["prior"]["scenarios"], 3);
        assert_eq!(row["by_source"]["release"]["scenarios"], 3);
        assert_eq!(row["by_source"]["other"]["scenarios"], 2);
    }
    for name in [
        "arena.md",
        "arena.jsonl",
        "arena.svg",
        "arena.json",
        "arena.html",
    ] {
        assert!(folder.join("out").join(name).exists(), "{name}");
    }
    // Again, from the results, and from a fresh run with one thread.
    let (code, again, _) = lab(&["arena", &out, "--json"]);
    assert_eq!((code, &again), (0, &whole));
    let fresh = folder.join("fresh").display().to_string();
    let (code, again, _) = lab(&["arena", &file, "--out", &fresh, "--json", "--jobs", "1"]);
    assert_eq!((code, &again), (0, &whole));
}

/// The part of the small arena that nobody may tune away: one network of each kind of both halves, with what ships and what
/// it is compared with.
#[test]
fn the_small_arena_has_each_kind_and_all_schedulers_come_through() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let text = fs::read_to_string(experiments.join("arena/small.toml")).unwrap();
    // The file that it takes networks from, from elsewhere.
    let text = text.replace("../live", &experiments.join("live").display().to_string());
    // The first network of each kind: 7 of the prior's kinds and 11 of the world's in each half.
    let text = text.replace("networks = 60", "networks = 14");
    let folder = folder("arena-kinds");
    let file = folder.join("kinds.toml");
    fs::write(&file, text).unwrap();
    let out = folder.join("out").display().to_string();
    let file = file.display().to_string();
    let arguments = ["--seeds", "1", "--schedulers", "arrival,minrtt", "--json"];
    let (code, lines, err) = lab(&[&["arena", &file, "--out", &out], &arguments[..]].concat());
    assert_eq!(code, 0, "{err}");
    let mut kinds: Vec<_> = [
        "plain", "loss", "bursts", "mobile", "outage", "shared", "stuck",
    ]
    .map(|kind| format!("prior {kind}"))
    .to_vec();
    // Two networks with a camera, in both orders.
    kinds.push("live".to_owned());
    kinds.extend(
        [
            "download", "falls", "again", "upload", "comes", "models", "returns", "goes", "both",
            "blinks", "drifts",
        ]
        .map(|kind| format!("world {kind}")),
    );
    for line in lines.lines().skip(1) {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["failed"], 0, "{line}");
        let by_kind = row["by_kind"].as_object().unwrap();
        assert_eq!(by_kind.len(), kinds.len());
        for kind in &kinds {
            let on = &by_kind[kind];
            let scenarios = if kind == "live" { 4 } else { 2 };
            assert_eq!(on["scenarios"], scenarios, "{kind}: {on}");
            assert!(on["never_slower"].as_f64().is_some(), "{kind}: {on}");
            assert!(on["twice"].as_f64().unwrap() >= 0.0, "{kind}: {on}");
        }
    }
    assert_eq!(lines.lines().count(), 3);
}

#[test]
fn parts_of_an_arena_are_put_together() {
    let (folder, file) = arena_in("arena-parts");
    let out = |name: &str| folder.join(name).display().to_string();
    let arena = |arguments: &[&str]| {
        let (code, out, err) = lab(&[&["arena"], arguments].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    let whole = arena(&[&file, "--out", &out("whole"), "--json", "--seeds", "1"]);
    arena(&[
        &file,
        "--out",
        &out("a"),
        "--schedulers",
        "minrtt,ecf",
        "--seeds",
        "1",
    ]);
    arena(&[
        &file,
        "--out",
        &out("b"),
        "--schedulers",
        "redundant",
        "--seeds",
        "1",
    ]);
    assert_eq!(arena(&[&out("a"), &out("b"), "--json"]), whole);
    let markdown = arena(&[&out("a"), "--markdown"]);
    assert!(
        markdown.starts_with("2 schedulers in 8 scenarios, 1 seeds each."),
        "{markdown}"
    );
    // A path that a network does not have is no reference there.
    let runs = fs::read_to_string(folder.join("whole/results.jsonl")).unwrap();
    let third = runs
        .lines()
        .filter(|line| line.contains(r#""scheduler":"third""#));
    // One of the three networks by each seed has three paths or more.
    assert_eq!(third.count(), 2);
}

#[test]
fn an_arena_says_what_is_wrong() {
    let (folder, file) = arena_in("arena-wrong");
    let (code, _, err) = lab(&["arena", &file, "--schedulers", "none"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("no scheduler `none`, there are: first, third, minrtt"),
        "{err}"
    );
    let wrong = folder.join("wrong.toml");
    for (from, to, message) in [
        (
            "networks = 6",
            "networks = 0",
            "expected a number of networks from 1 to 10000",
        ),
        ("release_seed = 2", "relase_seed = 2", "release_seed"),
        ("other.toml", "none.toml", "cannot be read"),
        (
            "workloads = [\"file:64kB\"]",
            "networks = \"equal\"",
            "no network of the file is taken",
        ),
        ("\"redundant\"", "\"*\", \"*\", \"no_such\"", "no_such"),
    ] {
        let text = ARENA.replace(from, to);
        assert_ne!(text, ARENA, "{from}");
        fs::write(&wrong, text).unwrap();
        let (code, _, err) = lab(&["arena", &wrong.display().to_string()]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(message), "{message}: {err}");
    }
    let (code, _, err) = lab(&["arena", &file, &file]);
    assert_eq!(code, 2, "{err}");
    let (code, _, err) = lab(&["arena", &out_of(&folder)]);
    assert_eq!(code, 1, "{err}");
}

/// A folder without results.
fn out_of(folder: &Path) -> String {
    folder.join("nothing").display().to_string()
}

#[test]
fn every_experiment_file_of_the_project_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let folder = folder.display().to_string();
    let (code, out, err) = lab(&["list", &folder]);
    // Files with schedulers that ask a network load only if these were built. If not, their lines say how to.
    let built = cfg!(feature = "neural");
    assert_eq!((code, &*err), (0, ""));
    let missing = "needs a lab that was built with --features neural";
    assert_eq!(out.contains(missing), !built, "{out}");
    // A head line, then the experiments.
    for (file, networks) in [
        ("quick", 3),
        ("start", 386),
        ("start_now", 784),
        ("tail", 384),
        ("peekaboo/fig02_dynamicity", 3),
        ("peekaboo/fig05a_loss", 7),
        ("peekaboo/fig05b_jitter", 5),
        ("peekaboo/fig06_keep_probability", 11),
        ("peekaboo/fig07_downloads", 100),
        ("peekaboo/fig08_messages", 100),
        ("peekaboo/fig09_redrawn", 1),
        ("peekaboo/fig10_heat_maps", 270),
        ("peekaboo/both_orders", 228),
        ("dqn/table1_chunk_tail", 1),
        ("dqn/sec5_2_unequal_delay", 1),
        ("dqn/sec5_3_lossy_path", 1),
        ("dqn/sec5_5_bitrate", 7),
        ("dqn/online", 2),
        ("dqn/online_bitrate", 1),
        ("dqn/both_orders", 6),
        ("sailfish/ch6_pages", 10),
        ("sailfish/both_orders", 20),
        ("csc579/fig04_competing_flows", 2),
        ("csc579/fig06_07_growing_delay", 6),
        ("csc579/both_orders", 8),
        ("gaps/fig02_settings", 36),
        ("gaps/fig03_subflows", 21),
        ("gaps/fig09_delay", 6),
        ("gaps/fig09_delay_poor", 6),
        ("gaps/fig06_distribution", 10),
        ("gaps/fig07_fixed_gaps", 4),
        ("gaps/fig08_loss_and_congestion", 21),
        ("gaps/fig10_limited_buffers", 12),
        ("gaps/both_orders", 72),
        ("ours/message_deadlines", 100),
        ("ours/long_download", 2),
        ("ours/held_out_dqn", 30),
        ("ours/held_out_sailfish", 30),
        ("ours/held_out_gaps", 30),
        ("mobile/two_paths", 6),
        ("mqvpn/profiles", 32),
        ("arena/small", 86),
        ("arena/full", 644),
    ] {
        let name = format!("/{file}.toml");
        let line = out.lines().find(|line| line.contains(&name));
        let line = line.unwrap_or_else(|| panic!("{name} in\n{out}"));
        if !built && line.contains(missing) {
            continue;
        }
        let count = line
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok());
        assert_eq!(count, Some(networks), "{line}");
    }
}

/// After a change, minRTT is back at once and a scheduler that stays on the path that became slow never is.
#[test]
fn the_time_to_adapt_is_counted_from_the_last_change() {
    let folder = folder("adapt");
    let experiment = r#"
title = "A change"
workloads = ["repeat:100kB:24s"]
seeds = 2
congestion = ["cubic"]
schedulers = ["minrtt", { name = "single", config = { path = 0 } }]

[[network]]
name = "falls"
paths = [{ rate = 8, owd = 10, steps = [{ at = "4s", rate = 4 }, { at = "8s", rate = 2 }] }, { rate = 8, owd = 15 }]

[[network]]
name = "steady"
paths = [{ rate = 8, owd = 10 }, { rate = 8, owd = 15 }]
"#;
    fs::write(folder.join("test.toml"), experiment).unwrap();
    let out = folder.display().to_string();
    assert_eq!(run(&folder, &["--jobs", "1"]).0, 0);
    let (code, json, _) = lab(&["adapt", "--json", &out]);
    assert_eq!(code, 0);
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Not the network that does not change.
    assert_eq!(rows.len(), 2);
    let [min_rtt, single] = [&rows[0], &rows[1]];
    assert_eq!(
        (&min_rtt["network"], &min_rtt["seeds"]),
        (&"falls".into(), &2.into())
    );
    // A window more, and it would have seen the step before.
    let back = min_rtt["back"].as_f64().unwrap();
    assert!(back < 5.0, "{back}");
    assert!(single["back"].is_null());
    // With 2 of 10 Mbit/s it loses most of the 16 s.
    let lost = single["lost"].as_f64().unwrap();
    assert!((9.0..16.0).contains(&lost), "{lost}");
    let (code, text, _) = lab(&["adapt", "--window", "1s", &out]);
    assert!(code == 0 && text.contains("all (1)"), "{text}");
    let (_, markdown, _) = lab(&["adapt", "--markdown", &out]);
    assert!(
        markdown.contains("| falls | cubic | minrtt |"),
        "{markdown}"
    );
    // Nothing is left of the run for windows of this length.
    let (code, _, error) = lab(&["adapt", "--window", "9s", &out]);
    assert!(
        code == 2 && error.contains("no downloads back to back"),
        "{error}"
    );
}

/// A page as `table` writes it holds; one with another digit does not, whether all of it is checked or the figure is drawn.
#[test]
fn figures_of_a_page_are_checked() {
    let folder = folder("figures");
    assert_eq!(run(&folder, &[]).0, 0);
    let (code, section, _) = lab(&["table", "--markdown", &folder.display().to_string()]);
    assert_eq!(code, 0);
    // The page names the file where it is, and a title that is not asked for.
    let (file, page) = (folder.join("test.toml"), folder.join("page.md"));
    let command = section
        .lines()
        .find(|line| line.starts_with("`mpquic-lab run"));
    let section = section.replace(
        command.unwrap(),
        &format!("`mpquic-lab run {}`", file.display()),
    );
    let text = format!("# Tables\n\nWords.\n\n{section}\n## Words\n\nNo command.\n");
    fs::write(&page, &text).unwrap();
    let page = page.display().to_string();
    let check = |more: &[&str]| {
        let mut arguments = vec!["check-figures", &*page];
        arguments.extend(more);
        lab(&arguments)
    };
    // Completion of two schedulers with two controllers on three networks, and more metrics.
    let (code, out, err) = check(&["--all"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    let checked: usize = out.lines().filter(|line| line.ends_with(": holds")).count();
    assert!(checked >= 12, "{out}");
    let end = |times: usize, made: usize, shared: usize| {
        let all = times * checked;
        format!("\n{all} of {all} figures checked, 0 moved; {made} runs made, {shared} shared\n")
    };
    let (_, runs) = out.rsplit_once("; ").unwrap();
    let made = runs.split(' ').next().unwrap().parse().unwrap();
    assert!(out.ends_with(&end(1, made, 0)), "{out}");
    // The section once more, of which no run is made again.
    let twice = text.replace("\n## Words", &format!("\n{section}\n## Words"));
    fs::write(folder.join("page.md"), twice).unwrap();
    let (code, out, err) = check(&["--all"]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    assert!(out.ends_with(&end(2, made, made)), "{out}");
    fs::write(folder.join("page.md"), &text).unwrap();
    let (code, listed, _) = check(&["--list", "--draw", "3", "--by", "commit"]);
    assert_eq!((code, listed.lines().count()), (0, 3), "{listed}");
    let (code, drawn, _) = check(&["--draw", "3", "--by", "commit"]);
    assert_eq!(code, 0, "{drawn}");
    for line in listed.lines() {
        assert!(drawn.contains(line), "{line} is not in {drawn}");
    }
    // The same text draws the same figures, another one others.
    assert_eq!(
        check(&["--list", "--draw", "3", "--by", "commit"]).1,
        listed
    );
    assert_ne!(check(&["--list", "--draw", "3", "--by", "other"]).1, listed);

    // A digit changes.
    let line = text.lines().find(|line| line.starts_with("| uneven"));
    let figure = line.unwrap().split(" | ").nth(2).unwrap();
    let figure = figure.split(' ').next().unwrap();
    let wrong = format!("9{figure}");
    let text = text.replacen(&format!("| {figure} "), &format!("| {wrong} "), 1);
    fs::write(folder.join("page.md"), text).unwrap();
    let (code, out, err) = check(&["--all", "--json"]);
    assert_eq!(code, 1);
    assert!(
        err.starts_with("1 figures are not what their commands print"),
        "{err}"
    );
    let moved: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|one: &serde_json::Value| one["says"] != one["now"])
        .collect();
    assert_eq!(moved.len(), 1);
    assert_eq!(
        (&moved[0]["says"], &moved[0]["now"]),
        (&wrong.into(), &figure.into())
    );

    // A page whose experiment is gone does not hold.
    let gone = section.replace("test.toml", "gone.toml");
    fs::write(folder.join("page.md"), format!("# Tables\n\n{gone}")).unwrap();
    let (code, _, err) = check(&["--all"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("not checked: ") && err.contains("none of these figures"),
        "{err}"
    );

    // Nothing to check.
    fs::write(
        folder.join("page.md"),
        "# Tables\n\n## Words\n\nNo command.\n",
    )
    .unwrap();
    let (code, _, err) = check(&[]);
    assert_eq!(code, 2);
    assert!(err.contains("no section with a command"), "{err}");
}
