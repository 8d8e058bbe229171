//! The file examples, server and client, in one process over real sockets: what arrives, what
//! errors say, and that no partial file is left behind.

#[expect(dead_code, reason = "the tests have no command line of their own")]
#[path = "../../examples/transfer/arguments.rs"]
mod arguments;
#[path = "../../examples/transfer/fetch.rs"]
mod fetch;
#[path = "../../examples/transfer/file_client.rs"]
mod file_client;
#[path = "../../examples/transfer/file_service.rs"]
mod file_service;
#[path = "../../examples/transfer/files.rs"]
mod files;
#[path = "../../examples/transfer/measure.rs"]
mod measure;
#[path = "../../examples/transfer/memory.rs"]
mod memory;
mod place;
#[path = "../../examples/transfer/progress.rs"]
mod progress;
#[path = "../../examples/transfer/protocol.rs"]
mod protocol;
#[path = "../../examples/transfer/recording.rs"]
mod recording;
#[path = "../../examples/transfer/report.rs"]
mod report;
#[path = "../../examples/transfer/routes.rs"]
mod routes;
#[path = "../../examples/transfer/save.rs"]
mod save;
#[path = "../../examples/transfer/schedulers.rs"]
mod schedulers;
#[path = "../../examples/transfer/serve.rs"]
mod serve;
#[path = "../../examples/transfer/server_config.rs"]
mod server_config;
#[path = "../../examples/transfer/session.rs"]
mod session;
#[path = "../../examples/transfer/shares.rs"]
mod shares;
#[path = "../../examples/transfer/switch.rs"]
mod switch;

use std::time::Duration;

use clap::Parser;
use mpquic::rustls::RootCertStore;
use mpquic::rustls::pki_types::CertificateDer;
use mpquic::rustls::pki_types::pem::PemObject;
use mpquic::{Connection, Endpoint, SendStream, TransportConfig, VarInt};

use place::{ADDRESSES, Place, names};

const NOTHING_MORE: [&str; 0] = [];

fn content(len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    mpquic_sim::content::fill(7, 0, &mut content);
    content
}

/// Waits until packets have made a round trip on both paths of the connection.
async fn both_paths(connection: &Connection) {
    let answered = |path: &mpquic::Path| path.stats().is_ok_and(|stats| !stats.min_rtt.is_zero());
    while connection
        .paths()
        .iter()
        .filter(|path| answered(path))
        .count()
        < 2
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn downloads_over_two_paths() {
    let place = Place::with_file_server();
    let original = content(3_000_001);
    place.put("name with spaces", &original);
    let scheduler = [
        "--scheduler",
        "roundrobin",
        "--scheduler-config",
        r#"{"burst":2}"#,
    ];
    let more = [&place.two_paths()[..], &scheduler.map(str::to_owned)].concat();
    let (reports, result) = place.download("name with spaces", &more).await;
    result.unwrap();
    assert_eq!(std::fs::read(place.out().join("file")).unwrap(), original);
    assert_eq!(names(&place.out()), ["file"]);
    let [report] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!(report.scheduler, "roundrobin");
    assert_eq!(report.bytes, 3_000_001);
    assert!(report.sha256_ok && report.alone.is_empty());
    assert_eq!(report.paths.len(), 2);
    assert!(report.paths.iter().map(|path| path.bytes).sum::<u64>() > 3_000_001);
}

#[tokio::test]
async fn both_paths_carry_data() {
    let place = Place::with_answer(async |connection, mut send| {
        both_paths(&connection).await;
        let content = content(1_000_000);
        send.write_all(b"OK 1000000\n").await.unwrap();
        send.write_all(&content).await.unwrap();
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&content);
        send.write_all(&digest).await.unwrap();
        send.finish().unwrap();
    });
    let (reports, result) = place.download("file", &place.two_paths()).await;
    result.unwrap();
    let shares: Vec<_> = reports[0].paths.iter().map(|path| path.share).collect();
    assert!(shares.iter().all(|share| *share > 0.0), "{shares:?}");
    assert!(
        (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
        "{shares:?}"
    );
}

#[tokio::test]
async fn repeats_and_replaces() {
    let place = Place::with_file_server();
    place.put("file", b"new");
    place.put("empty", b"");
    std::fs::write(place.out().join("file"), b"something longer").unwrap();
    let (reports, result) = place.download("file", &["--repeat", "3"]).await;
    result.unwrap();
    assert_eq!(reports.len(), 3);
    assert_eq!(std::fs::read(place.out().join("file")).unwrap(), b"new");
    let (_, result) = place.download("empty", &NOTHING_MORE).await;
    result.unwrap();
    assert_eq!(std::fs::read(place.out().join("file")).unwrap(), b"");
}

#[tokio::test]
async fn usage_errors() {
    let place = Place::with_file_server();
    place.put("file", b"content");
    let not_pem = place.dir.path().join("root/file");
    let none = place.dir.path().join("none");
    for (more, text) in [
        (["--scheduler", "minrrt"], "did you mean `minrtt`?"),
        (["--scheduler-config", "{"], "not JSON"),
        (["--scheduler-config", "[1]"], "expected an object"),
        (["--scheduler-config", r#"{"alpha":1}"#], "alpha"),
        (["--path", "::1"], "one is IPv4 and the other IPv6"),
        (["--ca", not_pem.to_str().unwrap()], "no certificate in it"),
        (["--ca", none.to_str().unwrap()], "No such file"),
    ] {
        place.fails("file", &more, 2, text).await;
    }
    place
        .fails("two\nlines", &NOTHING_MORE, 2, "is not the name of a file")
        .await;
}

#[tokio::test]
async fn connect_errors() {
    let place = Place::with_file_server();
    place.put("file", b"content");
    let name = ["--server-name", "example.com"];
    place.fails("file", &name, 3, "not valid for name").await;
    // An address for documentation (RFC 5737), which no machine has.
    let local = ["--path", "203.0.113.7"];
    place
        .fails("file", &local, 3, "cannot bind 203.0.113.7:0")
        .await;

    // The second path leads to a socket that never answers. The download over the first path does
    // not hide that error.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = format!("127.0.0.1={}", nobody.local_addr().unwrap());
    let paths = ["--path", "127.0.0.1", "--path", &silent];
    place
        .fails("file", &paths, 3, "cannot open path 127.0.0.1=")
        .await;

    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.ca(), other.cert.pem()).unwrap();
    place
        .fails("file", &NOTHING_MORE, 3, "invalid peer certificate")
        .await;
}

#[tokio::test]
async fn refused_requests() {
    let place = Place::with_file_server();
    std::fs::write(place.dir.path().join("secret"), b"secret").unwrap();
    for (name, text) in [
        ("none", "no such file: none"),
        ("../secret", "not a file name below the root"),
        ("/etc/passwd", "not a file name below the root"),
        ("..", "not a file name below the root"),
        (".", "not a regular file"),
    ] {
        place.fails(name, &NOTHING_MORE, 4, text).await;
    }
}

#[tokio::test]
async fn answers_that_break_off() {
    let (lie, text) = ("NO 5\nhello", "makes no sense");
    answer_fails(
        async move |_, mut send| send.write_all(lie.as_bytes()).await.unwrap(),
        4,
        text,
    )
    .await;
    answer_fails(async |_, _| {}, 4, "makes no sense").await;
    let endless = vec![b'x'; 2 * protocol::MAX_HEADER];
    answer_fails(
        async move |_, mut send| send.write_all(&endless).await.unwrap(),
        4,
        "makes no sense",
    )
    .await;
    answer_fails(
        async |_, mut send| send.write_all(b"OK 10\nhello").await.unwrap(),
        4,
        "ended after 5 of 10 bytes",
    )
    .await;
    answer_fails(
        async |_, mut send| send.write_all(b"OK 5\nhellodigest").await.unwrap(),
        4,
        "ended after 5 of 5 bytes",
    )
    .await;
    answer_fails(
        async |_, mut send| {
            send.write_all(b"OK 1000000\n").await.unwrap();
            send.write_all(&content(400_000)).await.unwrap();
            send.reset(VarInt::from_u32(1)).unwrap();
        },
        4,
        "stream reset by the peer: code 1",
    )
    .await;
    answer_fails(
        async |connection, mut send| {
            send.write_all(b"OK 1000000\n").await.unwrap();
            send.write_all(&content(400_000)).await.unwrap();
            connection.close(VarInt::from_u32(9), b"the server stops");
        },
        4,
        "the server stops",
    )
    .await;
}

#[tokio::test]
async fn damaged_content() {
    let place = Place::with_answer(async |_, mut send| {
        send.write_all(b"OK 5\nhello").await.unwrap();
        send.write_all(&[0; protocol::DIGEST_LEN]).await.unwrap();
        send.finish().unwrap();
    });
    let (reports, result) = place.download("file", &NOTHING_MORE).await;
    assert!(!reports[0].sha256_ok);
    let (code, text) = result.unwrap_err();
    assert_eq!(code, 5);
    assert!(text.contains("digest is wrong"), "{text}");
    assert_eq!(names(&place.out()), [""; 0]);
}

#[tokio::test]
async fn servers_that_cannot_start() {
    let dir = tempfile::tempdir().unwrap();
    let [cert, none] = ["cert.pem", "none/cert.pem"].map(|name| dir.path().join(name));
    let [cert, none] = [&cert, &none].map(|path| path.to_str().unwrap());
    let root = dir.path().to_str().unwrap();
    for (arguments, code, text) in [
        (
            ["--root", none, "--cert-out", cert, "--listen", ADDRESSES[0]],
            2,
            "--root",
        ),
        (
            ["--root", root, "--cert-out", none, "--listen", ADDRESSES[0]],
            2,
            "--cert-out",
        ),
        (
            ["--root", root, "--cert-out", cert, "--scheduler", "nope"],
            2,
            "unknown scheduler",
        ),
        (
            [
                "--root",
                root,
                "--cert-out",
                cert,
                "--listen",
                "203.0.113.7:1",
            ],
            1,
            "cannot bind",
        ),
    ] {
        let arguments = ["file_server"].into_iter().chain(arguments);
        let arguments = file_service::Arguments::try_parse_from(arguments).unwrap();
        let Err(error) = file_service::Server::start(&arguments) else {
            panic!("{text}: started");
        };
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[tokio::test]
async fn a_stopping_server_says_goodbye() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cert) = (dir.path(), dir.path().join("cert.pem"));
    let arguments = [
        "file_server",
        "--listen",
        ADDRESSES[0],
        "--root",
        root.to_str().unwrap(),
    ];
    let arguments = arguments
        .into_iter()
        .chain(["--cert-out", cert.to_str().unwrap()]);
    let arguments = file_service::Arguments::try_parse_from(arguments).unwrap();
    let server = file_service::Server::start(&arguments).unwrap();
    let address = server.endpoint.local_addrs()[0];
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(server.run(async {
        stopped.await.unwrap();
        Ok(())
    }));

    let pem = std::fs::read(&cert).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let config = session::client_config(roots, TransportConfig::default()).unwrap();
    let endpoint = Endpoint::client(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    let connection = connecting.await.unwrap();
    // Before that, the server could not be sure that the client can read a reason.
    connection.handshake_confirmed().await.unwrap();
    stop.send(()).unwrap();
    let reason = connection.closed().await.to_string();
    assert!(reason.contains("the server stops"), "{reason}");
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_keeps_what_its_schedulers_learned() {
    let dir = tempfile::tempdir().unwrap();
    let [cert, file, aside] =
        ["cert.pem", "learned.json", "learned.json.refused"].map(|name| dir.path().join(name));
    std::fs::write(&file, "no memory").unwrap();
    let start = |memory: &std::path::Path| {
        let arguments = [
            ["file_server", "--listen", ADDRESSES[0]]
                .map(str::to_owned)
                .to_vec(),
            vec!["--root".into(), dir.path().display().to_string()],
            vec!["--cert-out".into(), cert.display().to_string()],
            vec!["--memory".into(), memory.display().to_string()],
        ];
        let arguments = file_service::Arguments::try_parse_from(arguments.concat()).unwrap();
        file_service::Server::start(&arguments).unwrap()
    };
    // An invalid memory file does not keep the server from starting, and is not lost.
    start(&file).run(std::future::ready(Ok(()))).await.unwrap();
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "no memory");
    let store = mpquic::sched::memory::Store::load(&file).unwrap();
    assert!(store.is_empty());

    // Entries of schedulers that no client uses are kept.
    let key = mpquic::sched::PathKey::new(1);
    store.recall("somebody's", &()).remember_path(key, &0.5);
    store.save(&file).unwrap();
    let before = std::fs::read(&file).unwrap();
    start(&file).run(std::future::ready(Ok(()))).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), before);

    // A memory that cannot be written is an error, but only at the end.
    let nowhere = dir.path().join("none/learned.json");
    let error = start(&nowhere)
        .run(std::future::ready(Ok(())))
        .await
        .unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(
        error.to_string().starts_with("cannot write the memory "),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_records_what_its_schedulers_experience() {
    let dir = tempfile::tempdir().unwrap();
    let [cert, file] =
        ["cert.pem", "all.traj"].map(|name| dir.path().join(name).display().to_string());
    let root = dir.path().display().to_string();
    let arguments = [
        ["file_server", "--listen", "127.0.0.1:0", "--root", &root],
        ["--cert-out", &cert, "--record", &file, "--scheduler=linucb"],
    ];
    let arguments = file_service::Arguments::try_parse_from(arguments.concat()).unwrap();
    let server = file_service::Server::start(&arguments).unwrap();
    let address = server.endpoint.local_addrs()[0];
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(server.run(async move {
        stopped.await.unwrap();
        Ok(())
    }));
    let pem = std::fs::read(&cert).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).unwrap())
        .unwrap();
    let config = session::client_config(roots, TransportConfig::default()).unwrap();
    let endpoint = Endpoint::client(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    let connection = connecting.await.unwrap();
    connection.handshake_confirmed().await.unwrap();
    stop.send(()).unwrap();
    connection.closed().await;
    running.await.unwrap().unwrap();

    let recording = mpquic::sched::record::read(&file).unwrap();
    let trajectories = recording.trajectories();
    assert_eq!(trajectories.len(), 1);
    assert_eq!(trajectories[0].schema.scheduler, "linucb");
    assert!(
        trajectories[0]
            .ended
            .is_some_and(|outcome| outcome.sent_packets > 0)
    );
}

/// A download with this response fails in this way.
async fn answer_fails<F>(
    answer: impl FnOnce(Connection, SendStream) -> F + Send + 'static,
    code: u8,
    text: &str,
) where
    F: Future<Output = ()> + Send,
{
    let place = Place::with_answer(answer);
    place.fails("file", &NOTHING_MORE, code, text).await;
}
