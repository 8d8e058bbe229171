//! Tests of shards: parts that several machines run are, together, what one machine writes, and nothing else is taken for it.

use std::fs;
use std::path::{Path, PathBuf};

use mpquic_lab::{Experiment, Sweep, cli};

const EXPERIMENT: &str = r#"
title = "A test"
workloads = ["file:60kB"]
seeds = 4
congestion = ["newreno", "cubic"]
schedulers = ["minrtt", { name = "rr", label = "turns" }, { name = "rr", label = "turns_too" }]
timeline = { seed = 2, networks = ["uneven"], schedulers = ["minrtt", "turns"] }

[[network]]
name = "uneven"
paths = [{ rate = 20, owd = 10 }, { rate = 5, owd = 40, loss = 1 }]

[[network]]
name = "even"
paths = [{ rate = 10, owd = 10 }, { rate = 10, owd = 10, jitter = 10 }]
"#;

/// Runs of the experiment: two networks, two congestion controls, three schedulers, four seeds.
const RUNS: usize = 2 * 2 * 3 * 4;

/// An empty folder for one test, with the experiment in it.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("shards")
        .join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("test.toml"), EXPERIMENT).unwrap();
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

fn run(folder: &Path, out: &str, more: &[&str]) -> (u8, String, String) {
    let file = folder.join("test.toml").display().to_string();
    let out = folder.join(out).display().to_string();
    let mut arguments = vec!["run", &*file, "--out", &*out];
    arguments.extend(more);
    lab(&arguments)
}

/// Runs shards of three, each into a folder of its number.
fn run_shards(folder: &Path, numbers: &[usize], more: &[&str]) {
    for number in numbers {
        let shard = format!("{number}/3");
        let mut arguments = vec!["--shard", &*shard];
        arguments.extend(more);
        let (code, out, err) = run(folder, &number.to_string(), &arguments);
        assert_eq!((code, &*err), (0, ""), "{out}");
    }
}

fn merge(folder: &Path, parts: &[&str]) -> (u8, String, String) {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| folder.join(part).display().to_string())
        .collect();
    let out = folder.join("merged").display().to_string();
    let mut arguments = vec!["merge", "--out", &*out];
    arguments.extend(parts.iter().map(|part| &**part));
    lab(&arguments)
}

/// What `merge` says to these parts, none of which it may take.
fn refused(folder: &Path, parts: &[&str]) -> String {
    let (code, out, err) = merge(folder, parts);
    assert_eq!((code, &*out), (1, ""), "{err}");
    assert!(!folder.join("merged/results.jsonl").exists());
    err
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// All files in a folder of results are the same.
fn assert_same(folder: &Path, one: &str, other: &str) {
    for file in [
        "results.jsonl",
        "timelines.jsonl",
        "summary.csv",
        "runs.csv",
        "report.html",
    ] {
        let [one, other] = [one, other].map(|part| read(&folder.join(part), file));
        assert!(!one.is_empty());
        assert_eq!(one, other, "{file}");
    }
}

#[test]
fn merged_shards_are_the_run_of_one_machine_byte_for_byte() {
    let folder = folder("merged");
    let (code, whole, _) = run(&folder, "whole", &["--jobs", "2"]);
    assert_eq!(code, 0);
    assert_eq!(
        read(&folder, "whole/results.jsonl").lines().count(),
        1 + RUNS
    );
    assert_eq!(read(&folder, "whole/timelines.jsonl").lines().count(), 4);

    let (_, out, _) = run(&folder, "2", &["--shard", "2/3", "--jobs", "2"]);
    assert!(out.starts_with("Shard 2/3: 16 of 48 runs in "), "{out}");
    run_shards(&folder, &[3, 1], &["--jobs", "1"]);
    let (code, out, err) = merge(&folder, &["3", "1", "2"]);
    assert_eq!((code, &*err), (0, ""));
    assert_same(&folder, "whole", "merged");
    // The tables, too.
    let tables = |out: &str| out.rsplit_once("Report:").unwrap().0.to_owned();
    assert_eq!(tables(&out), tables(&whole));
    // Merging is no run: it can be done again.
    assert_eq!(merge(&folder, &["1", "2", "3"]).0, 0);
    assert_same(&folder, "whole", "merged");
}

#[test]
fn a_part_of_an_experiment_is_sharded_too() {
    let folder = folder("part");
    let part = ["--only", "even.*turns", "--seeds", "5"];
    assert_eq!(run(&folder, "whole", &part).0, 0);
    run_shards(&folder, &[1, 2, 3], &part);
    assert_eq!(merge(&folder, &["1", "2", "3"]).0, 0);
    assert_same(&folder, "whole", "merged");
}

#[test]
fn an_interrupted_shard_goes_on_where_it_stopped() {
    let folder = folder("interrupted");
    run(&folder, "whole", &[]);
    run_shards(&folder, &[1, 2, 3], &[]);
    let file = folder.join("2/results.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    // As an interruption leaves it: in the order in which the runs ended, the last line incomplete.
    let left = [lines[0], lines[3], lines[1], lines[2], &lines[4][..50]].join("\n");
    fs::write(&file, left).unwrap();
    let err = refused(&folder, &["1", "2", "3"]);
    assert!(
        err.contains("shard 2/3 has 4 of 16 runs: run it again"),
        "{err}"
    );

    let (code, out, err) = run(&folder, "2", &["--shard", "2/3"]);
    assert_eq!(code, 0);
    assert!(err.starts_with("3 earlier runs are kept"), "{err}");
    assert!(out.contains("16 of 48 runs"), "{out}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(merge(&folder, &["1", "2", "3"]).0, 0);
    assert_same(&folder, "whole", "merged");
}

#[test]
fn what_is_not_one_whole_is_refused() {
    let folder = folder("refused");
    run_shards(&folder, &[1, 2, 3], &[]);
    let err = refused(&folder, &["1", "3"]);
    assert!(err.contains("of 3 shards, these are missing: 2"), "{err}");
    let err = refused(&folder, &["1", "3", "2", "3"]);
    assert!(err.contains("are both shard 3/3"), "{err}");

    run(&folder, "whole", &["--seeds", "1"]);
    let err = refused(&folder, &["1", "2", "3", "whole"]);
    assert!(err.contains("has results of a whole experiment"), "{err}");

    run(&folder, "other", &["--shard", "2/4"]);
    let err = refused(&folder, &["1", "other", "3"]);
    assert!(
        err.contains("is shard 1/3, and") && err.contains("is shard 2/4"),
        "{err}"
    );

    for (name, more) in [
        ("seeds", ["--seeds", "3"]),
        ("only", ["--only", "uneven"]),
        ("time_lost", ["--time-lost", "--fresh"]),
    ] {
        let mut arguments = vec!["--shard", "2/3"];
        arguments.extend(more);
        run(&folder, name, &arguments);
        let err = refused(&folder, &["1", name, "3"]);
        assert!(err.contains("are not of the same experiment"), "{err}");
    }
    fs::write(
        folder.join("test.toml"),
        EXPERIMENT.replace("loss = 1 ", "loss = 2 "),
    )
    .unwrap();
    run(&folder, "edited", &["--shard", "2/3"]);
    let err = refused(&folder, &["1", "edited", "3"]);
    assert!(err.contains("are not of the same experiment"), "{err}");
    assert!(refused(&folder, &["1", "nowhere", "3"]).contains("nowhere"));
}

#[test]
fn builds_are_not_mixed_and_runs_not_moved() {
    let folder = folder("builds");
    run_shards(&folder, &[1, 2, 3], &[]);
    let file = folder.join("2/results.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replacen("\"build\":\"", "\"build\":\"other-", 1),
    )
    .unwrap();
    let err = refused(&folder, &["1", "2", "3"]);
    assert!(
        err.contains("of build other-") && err.contains("the same build"),
        "{err}"
    );

    let mut lines: Vec<_> = text.lines().collect();
    lines.swap(3, 9);
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    let err = refused(&folder, &["1", "2", "3"]);
    assert!(
        err.contains("results.jsonl:4: not the run that belongs here"),
        "{err}"
    );
    // Every run of a cell under another fingerprint.
    let cell = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["cell"].as_str().unwrap().to_owned()
    };
    let first = cell(text.lines().nth(1).unwrap());
    for part in ["1", "2", "3"] {
        let file = folder.join(part).join("results.jsonl");
        let text = if part == "2" {
            text.clone()
        } else {
            fs::read_to_string(&file).unwrap()
        };
        fs::write(&file, text.replace(&first, "0000000000000000")).unwrap();
    }
    let err = refused(&folder, &["1", "2", "3"]);
    assert!(err.contains("not the run that belongs here"), "{err}");
}

#[test]
fn a_folder_has_one_shard() {
    let folder = folder("one_shard");
    run_shards(&folder, &[1], &[]);
    let (code, _, err) = run(&folder, "1", &["--shard", "2/3"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("it has results of shard 1/3, and not of shard 2/3"),
        "{err}"
    );
    assert_eq!(run(&folder, "1", &["--shard", "2/3", "--fresh"]).0, 0);
    // Without shards, it becomes the whole.
    assert!(
        run(&folder, "1", &[])
            .2
            .starts_with("16 earlier runs are kept")
    );
    let (code, _, err) = run(&folder, "2", &["--shard", "4/3"]);
    assert_eq!(code, 2);
    assert!(err.contains("`4/3` is not a shard"), "{err}");
}

#[test]
fn runs_in_any_order_are_the_run_of_one_machine() {
    let folder = folder("sweep");
    run(&folder, "whole", &[]);
    let experiment = Experiment::load(&folder.join("test.toml")).unwrap();
    let sweep = Sweep::new(experiment, None);
    assert_eq!(sweep.len(), RUNS);
    assert_eq!(
        sweep.id(5).map(|(cell, seed)| (cell.scheduler, seed)),
        Some(("turns".into(), 2))
    );
    assert_eq!(sweep.id(RUNS), None);
    let (mut store, _) = sweep.open(&folder.join("any"), false).unwrap();
    for run in (0..RUNS).rev().step_by(2) {
        store.append(&sweep.run(run).unwrap()).unwrap();
    }
    // Another process goes on.
    drop(store);
    let (mut store, found) = sweep.open(&folder.join("any"), false).unwrap();
    assert_eq!(found.kept, RUNS / 2);
    let missing = sweep.missing(&store);
    assert_eq!(missing, (0..RUNS).step_by(2).collect::<Vec<_>>());
    for run in missing {
        store.append(&sweep.run(run).unwrap()).unwrap();
    }
    sweep.finish(store).unwrap();
    assert_same(&folder, "whole", "any");
}
