//! Mobile links from the command line: shown, converted, drawn, and in experiments.

use std::fs;
use std::path::{Path, PathBuf};

use mpquic_lab::{Results, cli};
use mpquic_sim::MahimahiTrace;

const EXPERIMENT: &str = r#"
title = "A drive"
workloads = ["file:300kB"]
seeds = 3
schedulers = ["minrtt", "ecf"]

[[network]]
name = "car"
handshake = [1, 2]
paths = [{ trace = { model = "lte-car", length = "20s" } }, { trace = "car.trace", owd = 30 }]
"#;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("mobile")
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

#[test]
fn a_recording_becomes_a_trace_that_an_experiment_runs() {
    let folder = folder("convert");
    let path = |file: &str| folder.join(file).display().to_string();
    // Ten seconds at 6 Mbit/s, with one that has no value.
    let mut text = "Timestamp,Operatorname,DL_bitrate\n".to_owned();
    for second in 0..10 {
        text += &format!(
            "2020.02.13_13.57.{second:02},A,{}\n",
            if second == 4 { "-" } else { "6000" }
        );
    }
    fs::write(folder.join("recording.csv"), text).unwrap();
    let (recording, trace) = (path("recording.csv"), path("car.trace"));
    let (code, out, err) = lab(&[
        "trace",
        "convert",
        &recording,
        &trace,
        "--rate",
        "DL_bitrate",
    ]);
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.contains("10 intervals, 1 of them without a value") && out.contains("5.40 Mbit/s"),
        "{out}"
    );
    let read = MahimahiTrace::read(&folder.join("car.trace")).unwrap();
    assert_eq!((read.opportunities(), read.period_millis()), (4500, 10_000));
    let (code, out, _) = lab(&["trace", "show", &trace, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert!(
        (shown["down"]["mean"].as_f64().unwrap() - 5.4).abs() < 1e-6,
        "{out}"
    );
    assert!(
        (shown["down"]["longest_zero_s"].as_f64().unwrap() - 1.0).abs() < 0.2,
        "{out}"
    );

    fs::write(folder.join("drive.toml"), EXPERIMENT).unwrap();
    let run = |out: &str, jobs: &str| {
        let (code, _, err) = lab(&[
            "run",
            &path("drive.toml"),
            "--out",
            &path(out),
            "--jobs",
            jobs,
        ]);
        assert_eq!((code, &*err), (0, ""));
        Results::read(&folder.join(out)).unwrap().records
    };
    let runs = run("once", "1");
    assert_eq!(runs, run("again", "2"));
    assert_eq!(runs.len(), 12);
    // Each seed is another drive, and the schedulers have it in common: so have the bounds, which know the channel.
    let bound = |network: &str, scheduler: &str, seed: u64| {
        let mut found = runs
            .iter()
            .filter(|run| (&*run.network, &*run.scheduler, run.seed) == (network, scheduler, seed));
        *found
            .next()
            .unwrap()
            .measured()
            .unwrap()
            .bounds
            .values()
            .next()
            .unwrap()
    };
    let first = bound("car/handshake=1", "minrtt", 1);
    assert_eq!(first, bound("car/handshake=1", "ecf", 1));
    assert_eq!(first, bound("car/handshake=2", "ecf", 1));
    assert_ne!(first, bound("car/handshake=1", "minrtt", 2));
}

#[test]
fn a_model_is_shown_and_drawn() {
    let folder = folder("models");
    let path = |file: &str| folder.join(file).display().to_string();
    let (code, out, _) = lab(&[
        "trace",
        "show",
        "leo-satellite",
        "--length",
        "60s",
        "--svg",
        &path("leo.svg"),
    ]);
    assert_eq!(code, 0);
    for part in [
        "60 s in slots of 500 ms",
        "Mbit/s: mean",
        "4 changes",
        "outages: 4",
        "autocorrelation",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(
        fs::read_to_string(folder.join("leo.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    let (_, again, _) = lab(&["trace", "show", "leo-satellite", "--length", "60s"]);
    assert_eq!(again, out);
    let (_, other, _) = lab(&[
        "trace",
        "show",
        "leo-satellite",
        "--length",
        "60s",
        "--seed",
        "2",
    ]);
    assert_ne!(other, out);
    let drawn = path("wifi.trace");
    let (code, _, err) = lab(&[
        "trace",
        "draw",
        "wifi-walk",
        &drawn,
        "--length",
        "30s",
        "--up",
    ]);
    assert_eq!((code, &*err), (0, ""));
    let read = MahimahiTrace::read(Path::new(&drawn)).unwrap();
    assert_eq!(read.period_millis(), 30_000);

    for (arguments, code, fault) in [
        (&["show", "lte"][..], 2, "unknown model `lte`"),
        (
            &["show", "lte-car", "--length", "1ms"][..],
            2,
            "expected 1 s to 24 h",
        ),
        (
            &["convert", "nowhere.csv", "x", "--rate", "2"][..],
            1,
            "nowhere.csv",
        ),
        (&["convert", "nowhere.csv", "x"][..], 2, "--rate"),
    ] {
        let (found, _, err) = lab(&[&["trace"], arguments].concat());
        assert!(
            found == code && err.contains(fault),
            "{arguments:?}: {found} {err}"
        );
    }
}
