//! The example `streaming` in process: its command line works as documented, it plays what the
//! server generates, and the server survives malformed requests. The tests are small and measure
//! nothing, since speed depends on the machine.

#[macro_use]
#[path = "../examples/transfer/lines.rs"]
mod lines;

#[expect(dead_code, reason = "the tests have no command line of their own")]
#[path = "../examples/transfer/arguments.rs"]
mod arguments;
#[path = "../examples/streaming/cli.rs"]
mod cli;
#[path = "../examples/streaming/fetch.rs"]
mod fetch;
#[path = "../examples/streaming/hosts.rs"]
mod hosts;
#[path = "../examples/transfer/lab.rs"]
mod lab;
#[path = "../examples/transfer/link.rs"]
mod link;
#[path = "../examples/transfer/pin.rs"]
mod pin;
#[path = "../examples/streaming/playback.rs"]
mod playback;
#[path = "../examples/streaming/protocol.rs"]
mod protocol;
#[path = "../examples/streaming/report.rs"]
mod report;
#[path = "../examples/transfer/schedulers.rs"]
mod schedulers;
#[path = "../examples/streaming/screen.rs"]
mod screen;
#[path = "../examples/streaming/server.rs"]
mod server;
#[path = "../examples/transfer/server_config.rs"]
mod server_config;
#[path = "../examples/transfer/session.rs"]
mod session;
#[path = "../examples/transfer/shares.rs"]
mod shares;
#[path = "../examples/streaming/sparkline.rs"]
mod sparkline;
#[expect(
    dead_code,
    reason = "what is an error of the program is the program's business"
)]
#[path = "../examples/streaming/streaming.rs"]
mod streaming;

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clap::Parser;
use mpquic::{CongestionControl, Connection, ReadError, ReadToEndError, VarInt};
use sha2::{Digest, Sha256};

use fetch::{FetchError, fetch};
use lab::{Lab, Terms};
use protocol::{BAD_REQUEST, DIGEST_LEN, NO_SUCH_CHUNK, Request, Video};
use report::Report;
use server::{Source, serve};
use session::Session;
use streaming::{Options, OptionsError};

/// The length of chunks: short, as the player runs in real time.
const LENGTH: Duration = Duration::from_millis(100);

fn options(arguments: &[&str]) -> Result<Options, OptionsError> {
    let arguments = ["streaming"].iter().chain(arguments);
    cli::Arguments::try_parse_from(arguments).unwrap().options()
}

/// A few chunks over two paths with much more capacity than needed.
fn short(scheduler: &str) -> Options {
    let arguments = [
        "--path",
        "a:200:1",
        "--path",
        "b:100:2:0.5:200",
        "--seconds",
        "6",
        "--json",
    ];
    let arguments = [&arguments[..], &["--scheduler", scheduler]].concat();
    let mut options = options(&arguments).unwrap();
    options.video.length = LENGTH;
    options
}

#[test]
fn without_arguments() {
    let arguments = cli::Arguments::try_parse_from(["streaming"]).unwrap();
    let (hint, options) = (arguments.hint(), arguments.options().unwrap());
    if cli::has_policies() {
        assert_eq!((options.scheduler.name(), hint), ("dqn", None));
    } else {
        assert_eq!(options.scheduler.name(), "arrival");
        let hint = hint.unwrap();
        assert!(hint.starts_with("scheduled by arrival") && hint.contains("--features neural"));
    }
    assert_eq!(options.congestion, CongestionControl::Olia);
    let video = Video {
        chunks: 60,
        length: Duration::from_secs(1),
        bitrates: vec![1_000_000, 5_000_000, 10_000_000],
    };
    assert_eq!((options.video, options.buffer), (video, 2));
    assert!(options.live);
    let links = options.links.iter();
    let links: Vec<_> = links
        .map(|link| {
            (
                link.name.as_str(),
                link.rate_mbps,
                link.config.delay.as_millis(),
            )
        })
        .collect();
    assert_eq!(links, [("wifi", 12.0, 8), ("lte", 8.0, 35)]);
}

#[test]
fn options_that_cannot_be() {
    for (arguments, expected) in [
        (&["--scheduler", "nope"][..], "unknown scheduler `nope`"),
        (
            &["--config", "{"][..],
            "the scheduler's configuration is not JSON",
        ),
        (
            &["--scheduler-config", "{"][..],
            "the scheduler's configuration is not JSON",
        ),
        (&["--bitrates", "0"][..], "the bitrate is 0, expected"),
        (&["--bitrates", "1,NaN"][..], "the bitrate is NaN, expected"),
        (
            &["--path", "a:1:2", "--path", "a:3:4"][..],
            "there is more than one path",
        ),
        (
            &["--path", "a:1:2"].repeat(17)[..],
            "17 paths: there can be 1 to 16",
        ),
    ] {
        let error = options(arguments).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let bitrates = options(&["--bitrates", "5,1,5"]).unwrap();
    assert_eq!(bitrates.video.bitrates, [1_000_000, 5_000_000]);
    for arguments in [
        ["--seconds", "0"],
        ["--congestion", "nope"],
        ["--bitrates", ""],
    ] {
        let arguments = ["streaming"].iter().chain(&arguments);
        assert!(cli::Arguments::try_parse_from(arguments).is_err());
    }
}

/// Plays six chunks. Checks what holds at any speed of the machine.
async fn play(scheduler: &str) -> Report {
    let options = short(scheduler);
    let report = streaming::run(&options, pending()).await.unwrap();
    assert_eq!((report.end, &report.error), ("played", &None));
    assert!(report.sha256_ok);
    assert_eq!(report.chunks.len(), 6);
    for (number, chunk) in (0..).zip(&report.chunks) {
        assert_eq!(chunk.number, number);
        assert_eq!(chunk.bytes as f64, chunk.bitrate_mbps * 12_500.0);
    }
    // The first chunk has the lowest bitrate.
    assert_eq!(report.chunks[0].bytes, 12_500);
    assert_eq!(report.seen, 0.6);
    // It is played in real time.
    assert!(report.seconds >= report.seen && report.startup.is_some());
    let bytes: u64 = report.chunks.iter().map(|chunk| chunk.bytes).sum();
    assert!(report.paths.iter().map(|path| path.bytes).sum::<u64>() >= bytes);
    report
}

#[tokio::test]
async fn plays() {
    let report = play("minrtt").await;
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["scheduler"], "minrtt");
    assert_eq!(json["chunks"].as_array().unwrap().len(), 6);
    assert!(json["learned"].is_null());
    assert!(report.to_string().contains("SHA-256 right"));
}

/// The server of one host and the player of another, which reach each other by a socket and a pin.
#[tokio::test]
async fn plays_between_two_hosts() {
    let parse = |arguments: &[&str]| {
        let arguments = ["streaming"].iter().chain(arguments);
        cli::Arguments::try_parse_from(arguments)
    };
    let served = parse(&[
        "--serve",
        "127.0.0.1:0",
        "--scheduler",
        "minrtt",
        "--seconds",
        "3",
    ]);
    let mut served = served.unwrap().serving().unwrap();
    served.video.length = LENGTH;
    let (told, hears) = tokio::sync::oneshot::channel();
    let ready = |addresses: &[std::net::SocketAddr], pin: pin::Pin| {
        told.send((addresses[0], pin)).unwrap();
    };
    let server = tokio::spawn(hosts::serve(served, ready, pending()));
    let (address, pin) = hears.await.unwrap();
    let (address, pin) = (address.to_string(), pin.to_string());
    let play = |pin: &str| {
        let from = ["--play", &address, "--pin", pin, "--seconds", "3", "--json"];
        let from = [&from[..], &["--local", "127.0.0.1", "--local", "127.0.0.1"]].concat();
        let mut options = parse(&from).unwrap().playing().unwrap().unwrap();
        options.video.length = LENGTH;
        options
    };
    let report = hosts::play(&play(&pin), pending()).await.unwrap();
    assert_eq!((report.end, &report.error), ("played", &None));
    assert!(report.sha256_ok && report.chunks.len() == 3);
    assert_eq!(report.paths.len(), 2);
    assert!(report.to_string().contains("127.0.0.1"), "{report}");

    // Another server than the one that was named.
    let other = play(&format!("sha256:{}", "00".repeat(32)));
    let report = hosts::play(&other, pending()).await.unwrap();
    let error = report.error.unwrap();
    assert!(error.contains("another certificate"), "{error}");
    server.abort();

    assert!(parse(&["--play", "127.0.0.1:1"]).is_err(), "without a pin");
    assert!(parse(&["--play", "127.0.0.1:1", "--pin", "sha256:12"]).is_err());
    assert!(parse(&["--serve", "127.0.0.1:1", "--path", "a:1:2"]).is_err());
}

#[tokio::test]
async fn tells_what_was_learned() {
    let report = play("ucb").await;
    let text = report.to_string();
    assert!(text.contains("\nlearned by ucb"), "{text}");
    assert!(text.contains("\n  a: chosen "), "{text}");
}

/// If it can: `cargo test --workspace` has the policies, this package by itself says how to get them.
#[tokio::test]
async fn plays_with_a_policy() {
    if cfg!(not(feature = "neural")) && !cli::has_policies() {
        let error = options(&["--scheduler", "dqn"]).unwrap_err().to_string();
        assert!(error.contains("--features neural"), "{error}");
        return;
    }
    let report = play("dqn").await;
    let policy = report.learned.as_ref().unwrap().policy.as_ref().unwrap();
    assert!(!policy.engine.is_empty());
    let text = report.to_string();
    assert!(text.contains("\nlearned by dqn\n  policy: "), "{text}");
}

#[tokio::test]
async fn stops_when_told() {
    let mut options = short("minrtt");
    // So many that no machine can finish before the stop.
    options.video.chunks = 86_400;
    let report = streaming::run(&options, async {}).await.unwrap();
    assert_eq!((report.end, report.chunks.len()), ("stopped", 0));
    assert!(report.to_string().contains("(stopped)"));

    // In the middle of the playback: each packet and each tick polls.
    let mut polls = 0;
    let stop = poll_fn(|_| {
        polls += 1;
        if polls > 20 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    let report = streaming::run(&options, stop).await.unwrap();
    assert_eq!(report.end, "stopped");
    assert!(report.chunks.len() < 86_400 && report.sha256_ok, "{report}");
}

/// A client's connection to a server. The caller must keep the other values alive.
async fn connected<S, F>(serve: S) -> (Session, Lab, Vec<mpquic_sim::Relay>)
where
    S: Fn(Connection) -> F + Clone + Send + 'static,
    F: Future<Output: Send> + Send + 'static,
{
    let options = short("minrtt");
    let terms = Terms {
        scheduler: &options.scheduler,
        congestion: CongestionControl::default(),
        memory: None,
        path_memory: None,
        recorder: None,
        paths: 1,
        seed: 1,
    };
    let lab = Lab::start(terms, serve).unwrap();
    let (client, links) = lab.client(&[(0, &options.links[0])]).unwrap();
    let session = Session::connect(&client).await.unwrap();
    (session, lab, links)
}

/// A video of three chunks.
fn video() -> Video {
    Video {
        chunks: 3,
        ..short("minrtt").video
    }
}

/// The server's response to this request.
async fn answer(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, VarInt> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    // The server may stop the stream before everything is sent.
    let _ = send.write_all(request).await;
    let _ = send.finish();
    recv.read_to_end(1 << 20)
        .await
        .map_err(|error| match error {
            ReadToEndError::Read(ReadError::Reset(code)) => code,
            error => panic!("{error}"),
        })
}

#[tokio::test]
async fn bad_requests_get_codes() {
    let video = video();
    let source = Arc::new(Source {
        video: video.clone(),
        seed: 1,
    });
    let serve = move |connection| serve(connection, Arc::clone(&source));
    let (session, _lab, _links) = connected(serve).await;
    let connection = &session.connection;
    let long = vec![b'x'; 200_000];
    for (request, code) in [
        (&b""[..], BAD_REQUEST),
        (b"CHUNK 0 1000000", BAD_REQUEST),
        (b"CHUNK \xff 1000000\n", BAD_REQUEST),
        (b"GET /\n", BAD_REQUEST),
        (b"CHUNK 0 -1\n", BAD_REQUEST),
        (&long, BAD_REQUEST),
        (b"CHUNK 3 1000000\n", NO_SUCH_CHUNK),
        (
            b"CHUNK 18446744073709551615 18446744073709551615\n",
            NO_SUCH_CHUNK,
        ),
        (b"CHUNK 0 1000001\n", NO_SUCH_CHUNK),
    ] {
        assert_eq!(answer(connection, request).await, Err(code), "{request:?}");
    }
    // Valid requests get the right chunks, each with different content.
    let first = answer(connection, b"CHUNK 0 1000000\n").await.unwrap();
    let second = answer(connection, b"CHUNK 1 1000000\n").await.unwrap();
    assert_eq!(first.len(), 12_500 + DIGEST_LEN);
    assert_ne!(first[..12_500], second[..12_500]);

    let ask = |number, bitrate| fetch(connection, &video, Request { number, bitrate });
    assert_eq!(ask(2, 10_000_000).await, Ok(true));
    assert_eq!(ask(3, 1_000_000).await, Err(FetchError::NoSuchChunk));
    // A client with another manifest: the bitrate exists, but the chunk is longer than the client
    // expects.
    let other = Video {
        length: LENGTH / 2,
        ..video.clone()
    };
    let request = Request {
        number: 0,
        bitrate: 1_000_000,
    };
    let error = fetch(connection, &other, request).await.unwrap_err();
    assert!(
        matches!(error, FetchError::Size { expected: 6282, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn wrong_content_is_noticed() {
    // This server sends the first chunk with a correct digest to every request, so it is correct
    // for one request only.
    let serve = |connection: Connection| async move {
        while let Ok((mut send, _recv)) = connection.accept_bi().await {
            let content = vec![7; 12_500];
            let mut hasher = Sha256::new();
            hasher.update("CHUNK 0 1000000\n");
            hasher.update(&content);
            send.write_all(&content).await.unwrap();
            send.write_all(&hasher.finalize()).await.unwrap();
            send.finish().unwrap();
        }
    };
    let (session, _lab, _links) = connected(serve).await;
    let video = video();
    let bitrate = 1_000_000;
    let ask = |number| fetch(&session.connection, &video, Request { number, bitrate });
    assert_eq!(ask(0).await, Ok(true));
    assert_eq!(ask(1).await, Ok(false));
}

#[tokio::test]
async fn a_server_that_goes_away_is_told() {
    let (session, lab, _links) = connected(|connection: Connection| async move {
        connection.accept_bi().await.unwrap();
        connection.close(VarInt::from_u32(9), b"no more");
    })
    .await;
    let request = Request {
        number: 0,
        bitrate: 1_000_000,
    };
    let error = fetch(&session.connection, &video(), request).await;
    assert!(matches!(error, Err(FetchError::Connection(_))), "{error:?}");
    drop(lab);
}
