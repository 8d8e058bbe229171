//! The example `download` in process: its command line works as documented, and it downloads the
//! generated content. The tests are small and measure nothing, since speed depends on the machine.

#[macro_use]
#[path = "../examples/transfer/lines.rs"]
mod lines;

#[expect(dead_code, reason = "the tests have no command line of their own")]
#[path = "../examples/transfer/arguments.rs"]
mod arguments;
#[path = "../examples/download/cli.rs"]
mod cli;
#[path = "../examples/download/content.rs"]
mod content;
#[expect(
    dead_code,
    reason = "that a wrong digest is an error is the program's business"
)]
#[path = "../examples/download/download.rs"]
mod download;
#[path = "../examples/transfer/fetch.rs"]
mod fetch;
#[path = "../examples/transfer/lab.rs"]
mod lab;
#[path = "../examples/transfer/link.rs"]
mod link;
#[path = "../examples/transfer/measure.rs"]
mod measure;
#[path = "../examples/transfer/memory.rs"]
mod memory;
#[path = "../examples/transfer/progress.rs"]
mod progress;
#[path = "../examples/transfer/protocol.rs"]
mod protocol;
#[path = "../examples/transfer/recording.rs"]
mod recording;
#[path = "../examples/transfer/report.rs"]
mod report;
#[path = "../examples/transfer/schedulers.rs"]
mod schedulers;
#[path = "../examples/transfer/serve.rs"]
mod serve;
#[path = "../examples/transfer/server_config.rs"]
mod server_config;
#[path = "../examples/transfer/session.rs"]
mod session;
#[path = "../examples/transfer/shares.rs"]
mod shares;
#[path = "../examples/download/size.rs"]
mod size;

use clap::Parser;

use download::{Options, OptionsError};
use mpquic::CongestionControl;

fn options(arguments: &[&str]) -> Result<Options, OptionsError> {
    let arguments = ["download"].iter().chain(arguments);
    cli::Arguments::try_parse_from(arguments).unwrap().options()
}

#[test]
fn without_arguments() {
    let options = options(&[]).unwrap();
    assert_eq!(options.scheduler.name(), "arrival");
    assert_eq!(options.size, 64 << 20);
    assert!(options.alone && options.progress);
    let links: Vec<_> = options
        .links
        .iter()
        .map(|link| {
            (
                link.name.as_str(),
                link.config.rate,
                link.config.delay.as_millis(),
            )
        })
        .collect();
    assert_eq!(
        links,
        [
            ("wifi", Some(50_000_000), 10),
            ("lte", Some(20_000_000), 35)
        ]
    );
}

#[test]
fn paths_replace_the_default_ones() {
    let options = options(&["--path", "a:1:2", "--no-alone", "--json"]).unwrap();
    assert_eq!(options.links.len(), 1);
    assert!(!options.alone && !options.progress);
    assert_eq!(options.congestion, CongestionControl::default());
}

#[test]
fn controller_and_settings_of_the_scheduler() {
    let chosen = options(&["--congestion", "bbr3"]).unwrap();
    assert_eq!(chosen.congestion, CongestionControl::Bbr);
    for name in ["--scheduler-config", "--config"] {
        let chosen = options(&[name, r#"{"burst": 4}"#, "--scheduler", "rr"]).unwrap();
        assert_eq!(chosen.scheduler.config()["burst"], 4);
    }
}

#[test]
fn options_that_cannot_be() {
    for (arguments, expected) in [
        (&["--scheduler", "nope"][..], "unknown scheduler `nope`"),
        (
            &["--scheduler-config", "{"][..],
            "the scheduler's configuration is not JSON",
        ),
        (
            &["--path", "a:1:2", "--path", "a:3:4"][..],
            "there is more than one path",
        ),
        (
            &[["--path", "a:1:2"]; 17].concat()[..],
            "17 paths: there can be 1 to 16",
        ),
    ] {
        let error = options(arguments).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn downloads_together_and_alone() {
    let fast = [
        "--path", "a:200:1", "--path", "b:100:2", "--size", "300kB", "--json",
    ];
    let report = download::run(options(&fast).unwrap()).await.unwrap();
    assert!(report.sha256_ok);
    assert_eq!(report.bytes, 300_000);
    assert_eq!(report.scheduler, "arrival");
    let paths = report.paths.iter();
    let paths: Vec<_> = paths
        .map(|path| (path.name.as_str(), path.rate_mbps))
        .collect();
    assert_eq!(paths, [("a", Some(200.0)), ("b", Some(100.0))]);
    assert!(report.paths.iter().map(|path| path.bytes).sum::<u64>() >= 300_000);
    let alone: Vec<_> = report
        .alone
        .iter()
        .map(|alone| alone.name.as_str())
        .collect();
    assert_eq!(alone, ["a", "b"]);
    assert!(report.seconds > 0.0 && report.goodput_mbps > 0.0);
}

/// Twice over two paths: the same content, and what the second connection knew of the paths.
#[tokio::test]
async fn a_second_connection_remembers_the_paths() {
    let twice = ["--path", "a:40:2", "--path", "b:20:10", "--size", "300kB"];
    let twice = [&twice[..], &["--no-alone", "--json", "--again"]].concat();
    let report = download::run(options(&twice).unwrap()).await.unwrap();
    assert!(report.sha256_ok);
    let text = report.to_string();
    let again = report.again.unwrap();
    // Paths are told apart where the server has an address for each (see `lab.rs`).
    let paths = if cfg!(target_os = "linux") { 2 } else { 1 };
    assert_eq!(again.remembered_paths, paths);
    assert!(again.seconds > 0.0 && again.goodput_mbps > 0.0);
    let gain = 1.0 - again.seconds / report.seconds;
    assert!((again.gain - gain).abs() < 1e-9);
    assert!(text.contains("\nsecond connection: "), "{text}");

    let cold = [&twice[..], &["--cold"]].concat();
    let report = download::run(options(&cold).unwrap()).await.unwrap();
    assert_eq!(report.again.unwrap().remembered_paths, 0);
    let once = options(&["--size", "0", "--no-alone", "--json"]).unwrap();
    assert!(download::run(once).await.unwrap().again.is_none());
}

/// The same file keeps what was measured of the paths.
#[tokio::test]
async fn paths_are_remembered_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    let more = ["--memory", file.to_str().unwrap()];
    let saved = || memory::Memory::load(&file).0.store.saved_paths();
    learning(&[&more[..], &["--cold"]].concat()).await;
    assert_eq!(saved(), 0);
    learning(&more).await;
    assert!(saved() > 0);
}

#[tokio::test]
async fn nothing_is_a_download_too() {
    let none = ["--size", "0", "--no-alone", "--json", "--path", "a:200:1"];
    let report = download::run(options(&none).unwrap()).await.unwrap();
    assert_eq!((report.bytes, report.sha256_ok), (0, true));
    // A report must be valid JSON whatever its values are.
    assert!(report.to_json().contains("\"goodput_mbps\":0.0"));
    assert!(report.to_string().contains("SHA-256 right"));
}

/// A download of 2 MB over two paths, one of which is full most of the time, with further
/// arguments.
async fn learning(more: &[&str]) -> (serde_json::Value, String) {
    let arguments = [
        &["--path", "a:40:2", "--path", "b:20:10", "--size", "2MB"][..],
        &["--no-alone", "--json"],
        more,
    ]
    .concat();
    let report = download::run(options(&arguments).unwrap()).await.unwrap();
    assert!(report.sha256_ok);
    let json = serde_json::from_str(&report.to_json()).unwrap();
    (json, report.to_string())
}

#[tokio::test]
async fn the_summary_tells_what_was_learned() {
    let (json, text) = learning(&["--scheduler", "minrtt"]).await;
    assert!(json["learned"].is_null());
    assert!(!text.contains("learned by"), "{text}");

    for name in ["linucb", "peekaboo"] {
        let (json, text) = learning(&["--scheduler", name]).await;
        let learned = &json["learned"];
        assert_eq!(learned["scheduler"], name);
        assert_eq!(learned["paths"], serde_json::json!({"0": 0, "1": 1}));
        let pairs = learned["pairs"].as_array().unwrap();
        let decisions = pairs.iter().filter_map(|pair| pair["decisions"].as_u64());
        assert!(decisions.sum::<u64>() > 0, "{learned}");
        assert!(
            pairs.iter().all(|pair| pair["alpha"].is_number()),
            "{learned}"
        );
        assert!(
            pairs.iter().all(|pair| pair["recalled"] == false),
            "{learned}"
        );
        let line = format!("\nlearned by {name}");
        assert!(text.contains(&line), "{text}");
        assert!(
            text.contains("\n  a before b: ") || text.contains("\n  b before a: "),
            "{text}"
        );
    }
    let (json, text) = learning(&["--scheduler", "ucb"]).await;
    let arms = json["learned"]["arms"].as_array().unwrap();
    let pulls = arms.iter().filter_map(|arm| arm["pulls"].as_u64());
    assert!(pulls.sum::<u64>() > 0, "{json}");
    assert!(text.contains("\nlearned by ucb"), "{text}");
    assert!(
        text.contains("\n  a: chosen ") && text.contains("\n  b: chosen "),
        "{text}"
    );
}

/// The schedulers that have entries in a file.
#[cfg(target_os = "linux")]
fn remembered(file: &std::path::Path) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let entries = json["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["scheduler"].as_str().unwrap().to_owned())
        .collect()
}

/// Only where paths can be identified (see `lab.rs`).
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_learned_is_there_the_next_time() {
    for name in ["linucb", "peekaboo"] {
        remembers(name).await;
    }
}

#[cfg(target_os = "linux")]
async fn remembers(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("learned.json");
    let arguments = ["--scheduler", name, "--memory", file.to_str().unwrap()];
    let recalled = |json: &serde_json::Value| {
        let pairs = json["learned"]["pairs"].as_array().unwrap();
        pairs.iter().any(|pair| pair["recalled"] == true)
    };
    let (first, _) = learning(&arguments).await;
    assert!(!recalled(&first), "{first}");
    assert!(!remembered(&file).is_empty());
    assert!(remembered(&file).iter().all(|other| other == name));
    let (second, text) = learning(&arguments).await;
    assert!(recalled(&second), "{second}");
    assert!(text.contains(", from memory"), "{text}");

    // An invalid file is renamed, and learning starts afresh.
    std::fs::write(&file, "something else").unwrap();
    let (memory, refusal) = memory::Memory::load(&file);
    assert!(memory.store.is_empty());
    let refusal = refusal.unwrap().to_string();
    assert!(
        refusal.contains("learned.json is refused at line 1"),
        "{refusal}"
    );
    let (fresh, _) = learning(&arguments).await;
    assert!(!recalled(&fresh), "{fresh}");
    let aside = folder.path().join("learned.json.refused");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "something else");
    assert!(!remembered(&file).is_empty());
}

#[tokio::test]
async fn what_a_scheduler_experienced_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("linucb.traj");
    let arguments = ["--scheduler", "linucb", "--record", file.to_str().unwrap()];
    let (json, _) = learning(&arguments).await;
    let pairs = json["learned"]["pairs"].as_array().unwrap();
    let decisions = pairs.iter().filter_map(|pair| pair["decisions"].as_u64());

    let recording = mpquic::sched::record::read(&file).unwrap();
    assert!(recording.damage.is_empty());
    let trajectories = recording.trajectories();
    // Only the server's, which has ended.
    let [trajectory] = &trajectories[..] else {
        panic!("{} connections", trajectories.len());
    };
    assert_eq!(trajectory.schema.scheduler, "linucb");
    let outcome = trajectory.ended.unwrap();
    assert!(!outcome.cut, "{outcome:?}");
    // All of it was sent. The last acknowledgements may come after nobody waits for them any more.
    assert!(outcome.sent_bytes >= 2_000_000, "{outcome:?}");
    let acked = outcome.contiguous_bytes;
    assert!(
        (1_000_000..outcome.sent_bytes).contains(&acked),
        "{outcome:?}"
    );
    assert_eq!(outcome.decisions, decisions.sum::<u64>());
    let told = (trajectory.pairs.len() + trajectory.orphans.len()) as u64;
    assert!(told + outcome.dropped >= outcome.decisions);
    assert!(trajectory.pairs.iter().any(|pair| !pair.rewards.is_empty()));

    // A file that is not a recording is not replaced.
    let file = folder.path().join("diary");
    std::fs::write(&file, "something else").unwrap();
    let more = ["--record", file.to_str().unwrap()];
    let arguments = [&["--size", "0", "--no-alone", "--json"], &more[..]].concat();
    let error = download::run(options(&arguments).unwrap()).await;
    let error = error.err().unwrap().to_string();
    assert!(error.contains("diary is in the way"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else");
}
