//! qlog of simulated connections: as its schema has it, the same for the same seed, and drawn by the lab.

#[path = "../../qlog/tests/schema/mod.rs"]
mod schema;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpquic_proto::TransportConfig;
use mpquic_sched::Registry;
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};
use schema::Schema;

/// Files in memory, by their names.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

/// One of them.
struct OneFile(Files, String);

impl Write for OneFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut files = (self.0).0.lock().unwrap();
        files.entry(self.1.clone()).or_default().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A download over two paths, of which the second one is dead for a while.
fn download(scheduler: &str) -> (BTreeMap<String, String>, String) {
    let files = Files::default();
    let mut transport = TransportConfig::default();
    let factory = Registry::new()
        .factory(scheduler, &serde_json::Value::Null)
        .unwrap();
    transport.scheduler(factory);
    let written = files.clone();
    let mut network = Network::builder(11)
        .transport(transport)
        .client(TransferClient::download(4_000_000))
        .server(TransferServer::new())
        .symmetric_path(LinkConfig::new(20_000_000, Duration::from_millis(10)))
        .symmetric_path(
            LinkConfig::new(10_000_000, Duration::from_millis(30))
                .with_loss(0.01)
                .with_outage(Duration::from_millis(500), Duration::from_millis(400)),
        )
        .open_all_paths()
        .null_aead()
        .observer(move |_, origin| {
            let files = written.clone();
            Some(mpquic_qlog::direct(origin, move |stem| {
                Some(OneFile(files, stem.to_owned()))
            }))
        })
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    drop(network);
    let files = std::mem::take(&mut *files.0.lock().unwrap());
    let text = |(name, bytes)| (name, String::from_utf8(bytes).unwrap());
    let files = files.into_iter().map(text).collect();
    (files, format!("{:032x}", report.trace_hash))
}

#[test]
fn every_event_is_as_its_schema_has_it() {
    let schema = Schema::new();
    for scheduler in [
        "minrtt",
        "arrival",
        "ecf",
        "blest",
        "redundant",
        "daps",
        "sa_ecf",
    ] {
        let (files, _) = download(scheduler);
        assert_eq!(files.len(), 2, "{scheduler}: a file per side");
        for (name, text) in &files {
            let (wrong, names) = schema.check(text);
            assert!(
                wrong.is_empty(),
                "{scheduler}, {name}: {}: {}",
                wrong.len(),
                wrong[0]
            );
            assert!(names["quic:packet_sent"] > 100, "{names:?}");
            if name.ends_with("_server") {
                for expected in [
                    "mpquic:scheduler_decided",
                    "mpquic:loss_judged",
                    "quic:packet_lost",
                    "quic:packets_acked",
                    "quic:recovery_metrics_updated",
                ] {
                    assert!(
                        names.contains_key(expected),
                        "{scheduler}: no {expected}: {names:?}"
                    );
                }
                for what in ["suspect", "recovered"] {
                    assert!(
                        text.contains(&format!("\"new\":\"{what}\"")),
                        "{scheduler}: {what}"
                    );
                }
            } else if scheduler != "redundant" {
                // Where the fast path carries everything, nothing waits for the slow one.
                assert!(
                    names.contains_key("mpquic:out_of_order_updated"),
                    "{names:?}"
                );
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(download("ecf"), download("ecf"));
}

#[test]
fn the_lab_draws_it() {
    let dir = tempfile::tempdir().unwrap();
    let (files, _) = download("minrtt");
    let mut arguments = vec!["mpquic-lab".to_owned(), "look".to_owned()];
    for (name, text) in &files {
        let path = dir.path().join(format!("{name}.sqlog"));
        std::fs::write(&path, text).unwrap();
        arguments.push(path.to_str().unwrap().to_owned());
    }
    let page = dir.path().join("look.html");
    arguments.extend(["--out".to_owned(), page.to_str().unwrap().to_owned()]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.iter().map(Into::into);
    let code = mpquic_lab::cli::main(arguments, &mut out, &mut err);
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&err));
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("10.0.") && out.contains("Picture: "), "{out}");
    let html = std::fs::read_to_string(page).unwrap();
    for title in [
        "congestion window [kB]",
        "packets in flight",
        "smoothed RTT [ms]",
        "sent [Mbit/s]",
        "received out of order [kB]",
        "suspect",
        "As the client saw it",
        "As the server saw it",
    ] {
        assert!(html.contains(title), "no {title}");
    }
    assert!(!html.contains("NaN") && !html.contains("inf,"));
}

#[test]
fn what_is_no_qlog_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.sqlog");
    for (text, why) in [
        ("{}", "separator"),
        ("\x1e{}\n", "header"),
        ("\x1e{\"trace\":{}}\n", "no event"),
    ] {
        std::fs::write(&file, text).unwrap();
        let arguments = ["mpquic-lab", "look", file.to_str().unwrap()].map(Into::into);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = mpquic_lab::cli::main(arguments, &mut out, &mut err);
        let err = String::from_utf8(err).unwrap();
        assert_eq!(code, 2);
        assert!(
            err.contains(why) && err.trim().lines().count() == 1,
            "{err}"
        );
        assert!(!file.with_extension("html").exists());
    }
}
