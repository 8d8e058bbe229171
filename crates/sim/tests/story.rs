//! What an operator reads at `debug` when a path fails: the whole story, in at most ten lines. The guide shows this
//! transcript.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mpquic_proto::TransportConfig;
use mpquic_sched::MinRtt;
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};
use tracing::Level;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One test at a time: tracing-core keeps the interest of a callsite once per process, not once per subscriber.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What is logged at this level while a client downloads over two paths, of which the second one dies.
fn logged(level: Level) -> Vec<String> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .with_writer(Mutex::new(lines.clone()))
        .finish();
    // The guide's transcript is of this one, whatever the default is.
    let mut transport = TransportConfig::default();
    transport.scheduler(|| Box::new(MinRtt::default()));
    tracing::subscriber::with_default(subscriber, || {
        let mut network = Network::builder(11)
            .transport(transport)
            .client(TransferClient::download(6_000_000))
            .server(TransferServer::new())
            .symmetric_path(LinkConfig::new(20_000_000, Duration::from_millis(10)))
            .symmetric_path(
                LinkConfig::new(10_000_000, Duration::from_millis(30))
                    .with_outage(Duration::from_millis(800), Duration::from_millis(900)),
            )
            .open_all_paths()
            .null_aead()
            .build()
            .unwrap();
        network.run_to_completion(Duration::from_secs(60)).unwrap();
    });
    let bytes = lines.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// The sender's lines.
fn of_the_server(lines: &[String]) -> Vec<&str> {
    let own = lines.iter().filter(|line| line.contains("side=\"server\""));
    own.map(String::as_str).collect()
}

#[test]
fn the_failure_of_a_path_is_told_in_ten_lines() {
    let lines = logged(Level::DEBUG);
    let story = of_the_server(&lines);
    println!("{}", story.join("\n"));
    assert!(story.len() <= 10, "{} lines", story.len());
    for part in [
        "connection begins",
        "handshake complete",
        "path opens",
        "path does not deliver: its data goes to other paths",
        "path delivers again",
    ] {
        let told = story.iter().filter(|line| line.contains(part)).count();
        assert_eq!(told, 1, "{part}");
    }
    let of_path = |part: &str| {
        let mut lines = story.iter();
        let line = lines.find(|line| line.contains(part)).unwrap();
        line.contains("path{id=1 ") && line.contains("at_ms=")
    };
    assert!(of_path("path does not deliver") && of_path("path delivers again"));
    // The guide shows what is really said.
    let guide = include_str!("../../../docs/guide/seeing-inside.md");
    assert!(
        guide.contains(&story.join("\n")),
        "the guide shows something else"
    );
}

#[test]
fn at_trace_every_packet_is_told() {
    let lines = logged(Level::TRACE);
    let of = |part: &str| {
        of_the_server(&lines)
            .iter()
            .filter(|line| line.contains(part))
            .count()
    };
    assert!(of("packet sent") > 4000, "{}", of("packet sent"));
    assert!(of("packet received") > 1000, "{}", of("packet received"));
    assert!(of("packets lost") > 0);
}
