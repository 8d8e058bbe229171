//! Files and folders between the two ends: interrupted, over two paths, and with names and links that lead elsewhere.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mpquic_cp::{
    Client, ClientSettings, CopyOptions, Error, Exit, Locals, Name, Progress, Server,
    ServerSettings, client_tls, server_tls,
};
use mpquic_peer::{Fingerprint, Identity, Token, Transport, Trust};
use mpquic_sim::{LinkConfig, Relay};
use mpquic_test_support::runtime::run;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A server on this machine lets a client open a stream sooner, if it does.
const SHORT: Duration = Duration::from_millis(200);

pub(crate) fn options() -> CopyOptions {
    CopyOptions::default()
}

fn overwrite() -> CopyOptions {
    let mut options = options();
    options.overwrite = true;
    options
}

pub(crate) fn token() -> Token {
    Token::new(b"a token for the tests").unwrap()
}

/// Folders of a server and a client, which outlive both.
pub(crate) struct Place {
    folder: TempDir,
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    fingerprint: Fingerprint,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["far", "near"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn far(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("far").join(name)
    }

    pub(crate) fn near(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("near").join(name)
    }

    pub(crate) fn serve(&self) -> Running {
        self.serve_with(ServerSettings::PATIENCE)
    }

    fn serve_with(&self, patience: Duration) -> Running {
        self.serve_telling(patience, |_| {})
    }

    pub(crate) fn serve_telling(
        &self,
        patience: Duration,
        log: impl Fn(&str) + Clone + Send + Sync + 'static,
    ) -> Running {
        let identity = Identity::kept_in(&self.folder.path().join("identity"), "test").unwrap();
        let fingerprint = identity.fingerprint().unwrap();
        let settings = ServerSettings {
            root: self.far(""),
            allow_put: true,
            allow_remove: false,
            users: None,
            only: None,
            client_certificates: false,
            token: Some(token()),
            announce: Vec::new(),
            transport: Transport::default(),
            patience,
        };
        let tls = server_tls(identity, None, None).unwrap();
        let server = Server::bind(tls, &[(FIRST, 0).into()], settings).unwrap();
        let address = server.local_addrs()[0];
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }, log).await;
        });
        Running {
            address,
            fingerprint,
            stop,
            task,
        }
    }
}

pub(crate) async fn client(server: &Running, at: SocketAddr, locals: &[IpAddr]) -> Client {
    connect(server, at, locals).await.unwrap()
}

pub(crate) async fn connect(
    server: &Running,
    at: SocketAddr,
    locals: &[IpAddr],
) -> Result<Client, Error> {
    let trust = Trust::Fingerprint(server.fingerprint);
    let tls = client_tls(&trust, None, None).unwrap();
    let settings = ClientSettings {
        server: at.to_string(),
        token: Some(token()),
        locals: Locals::These(locals.iter().map(|ip| (*ip).into()).collect()),
        transport: Transport::default(),
        rate: None,
    };
    Client::connect(tls, settings, |_| {}).await
}

/// A link on which a transfer takes long enough to be interrupted.
fn relay(server: &Running) -> Relay {
    let link = LinkConfig::new(40_000_000, Duration::from_millis(5));
    Relay::spawn((FIRST, 0).into(), server.address, link.clone(), link, 1).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| ((at * 31 + at / 251 + seed) % 251) as u8)
        .collect()
}

/// A folder with large and small files, folders in it, an empty file and an empty folder.
fn fill(folder: &Path) {
    for (index, (name, len)) in [
        ("large", 3_000_000),
        ("deep/er/large", 2_000_000),
        ("deep/small", 10),
        ("empty", 0),
        ("with space\u{e9}", 100_000),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, pattern(len, index)).unwrap();
    }
    std::fs::create_dir(folder.join("nothing")).unwrap();
}

/// All that is in a folder: contents of files, `None` for folders.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(&inside).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_dir() {
                found.insert(name, None);
                folders.push(path);
            } else {
                found.insert(name, Some(std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Where a file is that is not complete, as the guide tells it: by the SHA-256 of its name.
pub(crate) fn scratch(name: &str) -> String {
    let digest = Sha256::digest(name);
    let digits: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(".mpquic-{digits}.part")
}

pub(crate) fn has_parts(folder: &Path) -> bool {
    contents(folder)
        .keys()
        .any(|name| name.contains(".mpquic-"))
}

/// Until more than this has been transferred.
async fn moved(progress: &Progress, bytes: u64) {
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    while progress.done() <= bytes {
        looks.tick().await;
    }
}

#[test]
fn an_interrupted_get_of_a_folder_goes_on_where_it_stopped() {
    run(async {
        let place = Place::new();
        fill(&place.far("photos"));
        let server = place.serve();
        let relay = relay(&server);
        let client_1 = client(&server, relay.addr(), &[FIRST]).await;
        let progress = Arc::new(Progress::new());
        let name: Name = "photos".parse().unwrap();
        let getting = tokio::spawn({
            let (client, progress, name, near) = (
                client_1.clone(),
                Arc::clone(&progress),
                name.clone(),
                place.near(""),
            );
            async move { client.get(&name, &near, &options(), &progress).await }
        });
        moved(&progress, 1_500_000).await;
        // The connection is closed in the middle.
        server.stop().await;
        let error = getting.await.unwrap().unwrap_err();
        assert_eq!(error.exit(), Exit::Lost, "{error}");
        assert!(!place.near("photos/large").exists());
        assert!(has_parts(&place.near("")));

        let server = place.serve();
        let again = Arc::new(Progress::new());
        let client_2 = client(&server, server.address, &[FIRST]).await;
        client_2
            .get(&name, &place.near(""), &options(), &again)
            .await
            .unwrap();
        assert_eq!(
            contents(&place.near("photos")),
            contents(&place.far("photos"))
        );
        let done = again.summary(Duration::from_secs(1), client_2.paths());
        assert_eq!((done.files, done.bytes), (5, 5_100_010));
        assert!(done.resumed > 1_000_000, "{done:?}");
        assert_eq!(done.resumed + done.moved, 5_100_010);

        // Nothing is transferred twice.
        let third = Arc::new(Progress::new());
        client_2
            .get(&name, &place.near(""), &options(), &third)
            .await
            .unwrap();
        let done = third.summary(Duration::from_secs(1), Vec::new());
        assert_eq!((done.files, done.unchanged, done.moved), (5, 5, 0));
        client_2.close().await;
    });
}

#[test]
fn an_interrupted_put_of_a_folder_goes_on_where_it_stopped() {
    run(async {
        let place = Place::new();
        fill(&place.near("videos"));
        let server = place.serve();
        let relay = relay(&server);
        let client_1 = client(&server, relay.addr(), &[FIRST]).await;
        let progress = Arc::new(Progress::new());
        let putting = tokio::spawn({
            let (client, progress, near) = (
                client_1.clone(),
                Arc::clone(&progress),
                place.near("videos"),
            );
            async move { client.put(&near, Some("in/"), &options(), &progress).await }
        });
        // What is written is on its way, not there: three times the part that is looked for.
        moved(&progress, 3_000_000).await;
        client_1.close().await;
        let error = putting.await.unwrap().unwrap_err();
        assert_eq!(error.exit(), Exit::Lost, "{error}");
        assert!(!place.far("in/videos/large").exists());

        let again = Arc::new(Progress::new());
        let client_2 = client(&server, server.address, &[FIRST]).await;
        let near = place.near("videos");
        client_2
            .put(&near, Some("in/"), &options(), &again)
            .await
            .unwrap();
        assert_eq!(contents(&place.far("in/videos")), contents(&near));
        let done = again.summary(Duration::from_secs(1), Vec::new());
        assert_eq!((done.files, done.bytes), (5, 5_100_010));
        assert!(done.resumed > 300_000, "{done:?}");
        assert_eq!(done.resumed + done.moved, 5_100_010);

        let third = Arc::new(Progress::new());
        client_2
            .put(&near, Some("in/"), &options(), &third)
            .await
            .unwrap();
        let done = third.summary(Duration::from_secs(1), Vec::new());
        assert_eq!((done.files, done.unchanged, done.moved), (5, 5, 0));
    });
}

#[test]
fn two_paths_carry_a_folder() {
    run(async {
        let place = Place::new();
        fill(&place.far("photos"));
        let server = place.serve();
        let link = |rate, delay| LinkConfig::new(rate, Duration::from_millis(delay));
        let (fast, slow) = (link(40_000_000, 5), link(20_000_000, 15));
        let listen = (FIRST, 0).into();
        let relay = Relay::spawn(listen, server.address, fast.clone(), fast, 1).unwrap();
        relay.add_links(SECOND, slow.clone(), slow, 2).unwrap();
        let client = client(&server, relay.addr(), &[FIRST, SECOND]).await;
        let progress = Arc::new(Progress::new());
        let name: Name = "photos".parse().unwrap();
        client
            .get(&name, &place.near(""), &options(), &progress)
            .await
            .unwrap();
        assert_eq!(
            contents(&place.near("photos")),
            contents(&place.far("photos"))
        );
        let paths = client.paths();
        assert_eq!(paths.len(), 2, "{paths:?}");
        assert!(
            paths.iter().all(|path| path.received > 500_000),
            "{paths:?}"
        );
    });
}

#[test]
fn a_part_that_is_no_beginning_of_the_file_is_given_up() {
    run(async {
        let place = Place::new();
        let data = pattern(500_000, 3);
        std::fs::write(place.far("file"), &data).unwrap();
        std::fs::write(place.near(&scratch("other")), pattern(400_000, 4)).unwrap();
        std::fs::write(place.near(&scratch("longer")), pattern(600_000, 3)).unwrap();
        let server = place.serve();
        let client = client(&server, server.address, &[FIRST]).await;
        let name: Name = "file".parse().unwrap();
        for local in ["other", "longer"] {
            let progress = Arc::new(Progress::new());
            client
                .get(&name, &place.near(local), &options(), &progress)
                .await
                .unwrap();
            assert_eq!(std::fs::read(place.near(local)).unwrap(), data);
            let done = progress.summary(Duration::from_secs(1), Vec::new());
            assert_eq!((done.resumed, done.moved), (0, 500_000));
        }
        // The same on the server, and a file with other contents of the same size, which is replaced.
        std::fs::write(place.far(&scratch("there")), pattern(400_000, 4)).unwrap();
        std::fs::write(place.far("same size"), pattern(500_000, 9)).unwrap();
        for name in ["there", "same size"] {
            let progress = Arc::new(Progress::new());
            let near = place.near("other");
            client
                .put(&near, Some(name), &overwrite(), &progress)
                .await
                .unwrap();
            assert_eq!(std::fs::read(place.far(name)).unwrap(), data);
            let done = progress.summary(Duration::from_secs(1), Vec::new());
            assert_eq!((done.resumed, done.moved), (0, 500_000));
        }
        assert!(!has_parts(&place.far("")) && !has_parts(&place.near("")));
    });
}

#[cfg(unix)]
#[test]
fn links_and_names_lead_nowhere_else() {
    use std::os::unix::fs::symlink;

    run(async {
        let place = Place::new();
        let outside = place.folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        symlink(&outside, place.far("way")).unwrap();
        symlink(outside.join("secret"), place.far("secret")).unwrap();
        std::fs::write(place.near("file"), "contents").unwrap();
        let server = place.serve();
        let client = client(&server, server.address, &[FIRST]).await;
        let progress = Arc::new(Progress::new());
        for name in ["secret", "way/secret", "way", "none"] {
            let name: Name = name.parse().unwrap();
            let error = client
                .get(&name, &place.near(""), &options(), &progress)
                .await
                .unwrap_err();
            assert_eq!(error.exit(), Exit::Denied, "{name}: {error}");
        }
        for name in ["way/file", "way/"] {
            let near = place.near("file");
            let error = client.put(&near, Some(name), &overwrite(), &progress).await;
            let error = error.unwrap_err();
            assert!(
                matches!(error.exit(), Exit::Denied | Exit::Storage),
                "{name}: {error}"
            );
        }
        for name in ["../file", "/file", "a/../../file", &scratch("file")] {
            let near = place.near("file");
            let error = client.put(&near, Some(name), &overwrite(), &progress).await;
            assert!(matches!(error, Err(Error::Name(_))), "{name}: {error:?}");
        }
        // A link in the place of a file is replaced, not followed.
        client
            .put(&place.near("file"), Some("secret"), &options(), &progress)
            .await
            .unwrap();
        assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"secret");
        assert_eq!(std::fs::read(place.far("secret")).unwrap(), b"contents");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);

        // Nor does the client follow links of its own folder that lead out.
        std::fs::create_dir(place.far("tree")).unwrap();
        std::fs::write(place.far("tree/new"), "new").unwrap();
        symlink(&outside, place.near("tree")).unwrap();
        let tree: Name = "tree".parse().unwrap();
        client
            .get(&tree, &place.near(""), &options(), &progress)
            .await
            .unwrap_err();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    });
}

/// A client that speaks the protocol by hand, and reads nothing that it does not ask for here.
pub(crate) async fn raw(server: &Running) -> (mpquic::Endpoint, mpquic::Connection) {
    let trust = Trust::Fingerprint(server.fingerprint);
    let tls = client_tls(&trust, None, None).unwrap();
    let mut config = mpquic::ClientConfig::new(Arc::new(tls.config)).unwrap();
    let mut transport = mpquic::TransportConfig::default();
    // A stream that is not read keeps none of the others waiting.
    transport.stream_receive_window(64).receive_window(1 << 20);
    config.transport(Arc::new(transport));
    let endpoint = mpquic::Endpoint::client(&[(FIRST, 0).into()]).unwrap();
    let connecting = endpoint
        .connect_with(config, server.address, "server")
        .unwrap();
    let connection = connecting.await.unwrap();
    let proof = token().proof(&connection, "EXPORTER-mpquic-cp").unwrap();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&[&[1], &proof[..]].concat()).await.unwrap();
    send.finish().unwrap();
    recv.read_to_end(1000).await.unwrap();
    (endpoint, connection)
}

async fn ask(connection: &mpquic::Connection, request: &str) -> mpquic::RecvStream {
    let (mut send, recv) = connection.open_bi().await.unwrap();
    let len = (request.len() as u32).to_be_bytes();
    send.write_all(&[&len, request.as_bytes()].concat())
        .await
        .unwrap();
    send.finish().unwrap();
    recv
}

/// The bytes of the next message.
pub(crate) async fn message(recv: &mut mpquic::RecvStream) -> String {
    let mut len = [0; 4];
    recv.read_exact(&mut len).await.unwrap();
    let mut text = vec![0; u32::from_be_bytes(len) as usize];
    recv.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn who_asks_for_what_makes_no_sense_is_told_what_is_wrong() {
    run(async {
        let place = Place::new();
        let server = place.serve();
        let (_endpoint, connection) = raw(&server).await;
        let unknown = format!(r#"{{"{}":{{}}}}"#, "x".repeat(60_000));
        let with_len = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        for (request, why) in [
            (
                with_len(r#"{"Delete":{"name":"a"}}"#),
                "unknown variant `Delete`",
            ),
            (
                with_len(r#"{"Get":{"name":"../a","have":0,"digest":null}}"#),
                "a message that makes no sense: ",
            ),
            (with_len("\u{1b}[2J"), "a message that makes no sense: "),
            (with_len(&unknown), "unknown variant `xxx"),
            (with_len(""), "an empty request"),
            (
                vec![0x7f, 0xff, 0xff, 0xff],
                "a message of 2147483647 bytes, at most 65536 are allowed",
            ),
            (with_len("{}")[..5].to_vec(), "a request that ends too soon"),
            (Vec::new(), "a request that ends too soon"),
        ] {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&request).await.unwrap();
            send.finish().unwrap();
            let answer = message(&mut recv).await;
            assert!(answer.contains(r#""kind":"Malformed""#), "{answer}");
            assert!(answer.contains(why) && answer.len() < 1000, "{answer}");
            // Nothing else comes.
            assert_eq!(recv.read_to_end(10).await.unwrap(), b"");
        }
        // The connection goes on.
        let mut listing = ask(&connection, r#"{"List":{"name":"","deep":true}}"#).await;
        assert_eq!(message(&mut listing).await, r#""Listing""#);
    });
}

#[test]
fn a_stream_without_a_size_that_makes_no_sense_leaves_nothing() {
    run(async {
        let place = Place::new();
        let server = place.serve();
        let (_endpoint, connection) = raw(&server).await;
        let request = r#"{"Stream":{"name":"file"}}"#;
        let request = [&(request.len() as u32).to_be_bytes(), request.as_bytes()].concat();
        let piece = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
        let sum = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes)).to_vec();
        for (contents, why) in [
            // More than a piece may have; its end in the middle; without its end, or its sum.
            ((512_u32 << 10).to_be_bytes().to_vec(), None),
            (u32::MAX.to_be_bytes().to_vec(), None),
            (piece(b"abc")[..6].to_vec(), None),
            (piece(b"abc"), None),
            ([piece(b"abc"), piece(b"")].concat(), None),
            (
                [piece(b"abc"), piece(b""), sum(b"abd")].concat(),
                Some("damaged on its way"),
            ),
            (
                [piece(b"abc"), piece(b"d"), piece(b""), sum(b"abcd")].concat(),
                Some("Done"),
            ),
        ] {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&request).await.unwrap();
            assert_eq!(message(&mut recv).await, r#""Ready""#);
            send.write_all(&contents).await.unwrap();
            send.finish().unwrap();
            match why {
                Some(why) => {
                    let answer = message(&mut recv).await;
                    assert!(answer.contains(why), "{answer}");
                }
                // The stream ends, or is reset.
                None => drop(recv.read_to_end(10).await),
            }
            let there: Vec<_> = std::fs::read_dir(place.far("")).unwrap().collect();
            assert_eq!(there.len(), usize::from(why == Some("Done")), "{there:?}");
        }
        assert_eq!(std::fs::read(place.far("file")).unwrap(), b"abcd");
        // Two that write the same file at a time: the second waits for nothing.
        let ask = || async {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&request).await.unwrap();
            let answer = message(&mut recv).await;
            (send, recv, answer)
        };
        let (_first, _kept, answer) = ask().await;
        assert_eq!(answer, r#""Ready""#);
        let (.., answer) = ask().await;
        assert!(answer.contains("another transfer writes it"), "{answer}");
    });
}

#[test]
fn a_client_cannot_fill_the_log() {
    run(async {
        let place = Place::new();
        std::fs::write(place.far("file"), "contents").unwrap();
        let lines = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
        let told = Arc::clone(&lines);
        let log = move |line: &str| told.lock().unwrap().push(line.to_owned());
        let server = place.serve_telling(ServerSettings::PATIENCE, log);
        let (_endpoint, connection) = raw(&server).await;
        let begun = std::time::Instant::now();
        for number in 0..300 {
            let get = format!(r#"{{"Get":{{"name":"none{number}","have":0,"digest":null}}}}"#);
            let mut recv = ask(&connection, &get).await;
            assert!(message(&mut recv).await.contains("Missing"));
        }
        let took = begun.elapsed();
        // What it got is told all the same.
        let get = r#"{"Get":{"name":"file","have":0,"digest":null}}"#;
        let mut recv = ask(&connection, get).await;
        recv.read_to_end(1000).await.unwrap();
        connection.close(mpquic::VarInt::from_u32(0), b"");
        let of = |what: &str| {
            let lines = lines.lock().unwrap();
            lines.iter().filter(|line| line.contains(what)).count()
        };
        while of(": gone") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if took < Duration::from_secs(10) {
            assert_eq!(of("no such file"), 200);
        } else {
            println!("a slow machine: no ten seconds had so many");
        }
        assert_eq!(of("sent file: 8 of 8 bytes"), 1);
        server.stop().await;
    });
}

#[test]
fn connections_beyond_the_limit_are_refused_and_told_when_to_come_back() {
    run(async {
        let place = Place::new();
        let server = place.serve();
        let mut inside = Vec::new();
        for _ in 0..32 {
            inside.push(raw(&server).await);
        }
        let error = connect(&server, server.address, &[SECOND])
            .await
            .unwrap_err();
        assert_eq!(error.exit(), Exit::Unreachable, "{error:?}");
        assert!(error.is_passing());
        let told = "it takes no further connection now, or none from this network: try again later";
        assert!(error.to_string().ends_with(told), "{error}");
        // One goes, and another one comes as soon as the server has forgotten it.
        let (endpoint, connection) = inside.pop().unwrap();
        connection.close(0_u32.into(), b"");
        endpoint.wait_idle().await;
        while connect(&server, server.address, &[FIRST]).await.is_err() {}
    });
}

#[test]
fn listings_and_files_that_nobody_reads_keep_nobody_else_waiting() {
    run(async {
        let place = Place::new();
        for index in 0..600 {
            std::fs::write(place.far(&format!("file {index}")), "").unwrap();
        }
        std::fs::write(place.far("big"), pattern(3_000_000, 1)).unwrap();
        let server = place.serve();
        let mut hostile = Vec::new();
        // As many as the server lets them have: with a thread for each listing, all of tokio's 512 were taken.
        for _ in 0..30 {
            let (endpoint, connection) = raw(&server).await;
            let mut streams = Vec::new();
            for index in 0..60 {
                let request = match index % 4 {
                    3 => r#"{"Get":{"name":"big","have":0,"digest":null}}"#,
                    _ => r#"{"List":{"name":"","deep":true}}"#,
                };
                let asking = tokio::time::timeout(SHORT, ask(&connection, request));
                let Ok(stream) = asking.await else { break };
                streams.push(stream);
            }
            hostile.push((endpoint, connection, streams));
        }
        // Who asks for more listings at a time is told so. The server may begin them in any order.
        let (_, _, streams) = &mut hostile[0];
        let mut begun = 0;
        for index in [0, 1, 2, 4, 5, 6] {
            let answer = message(&mut streams[index]).await;
            if answer.contains(r#""kind":"Limit""#) {
                let told = "at most 2 listings of a client";
                assert!(answer.contains(told), "{answer}");
            } else {
                begun += 1;
            }
        }
        assert!(begun <= 2, "{begun} listings at a time");
        let honest = client(&server, server.address, &[FIRST]).await;
        let progress = Arc::new(Progress::new());
        let name: Name = "big".parse().unwrap();
        let getting = async {
            honest
                .get(&name, &place.near(""), &options(), &progress)
                .await
        };
        let got = tokio::time::timeout(Duration::from_secs(20), getting).await;
        got.expect("nobody else is served").unwrap();
    });
}

#[test]
fn who_takes_nothing_of_what_it_asked_for_does_not_stay() {
    run(async {
        let place = Place::new();
        std::fs::write(place.far("big"), pattern(3_000_000, 1)).unwrap();
        let server = place.serve_with(Duration::from_secs(1));
        let (_endpoint, connection) = raw(&server).await;
        let request = r#"{"Get":{"name":"big","have":0,"digest":null}}"#;
        let _stream = ask(&connection, request).await;
        // It is alive, and answers all that it is asked.
        let ended = connection.closed().await.to_string();
        assert!(ended.contains("too slow"), "{ended}");
    });
}

#[test]
fn a_client_has_one_stream_until_it_has_greeted() {
    run(async {
        let place = Place::new();
        let server = place.serve();
        let trust = Trust::Fingerprint(server.fingerprint);
        let tls = client_tls(&trust, None, None).unwrap();
        let config = mpquic::ClientConfig::new(Arc::new(tls.config)).unwrap();
        let endpoint = mpquic::Endpoint::client(&[(FIRST, 0).into()]).unwrap();
        let connecting = endpoint
            .connect_with(config, server.address, "server")
            .unwrap();
        let connection = connecting.await.unwrap();
        let (mut first, _recv) = connection.open_bi().await.unwrap();
        let mut second = std::pin::pin!(connection.open_bi());
        let waits = std::future::poll_fn(|context| {
            std::task::Poll::Ready(second.as_mut().poll(context).is_pending())
        });
        assert!(waits.await, "a second stream");
        first.write_all(&[1; 33]).await.unwrap();
        let ended = connection.closed().await.to_string();
        assert!(ended.contains("wrong token"), "{ended}");
    });
}

#[test]
fn the_same_question_costs_nothing_the_second_time() {
    run(async {
        let place = Place::new();
        let path = place.far("big");
        std::fs::write(&path, pattern(40_000_000, 1)).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(100);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(old).unwrap();
        let server = place.serve();
        let (_endpoint, connection) = raw(&server).await;
        let digest = "00".repeat(32);
        let request = format!(r#"{{"Get":{{"name":"big","have":40000000,"digest":"{digest}"}}}}"#);
        let mut times = Vec::new();
        for _ in 0..6 {
            let begun = std::time::Instant::now();
            let mut stream = ask(&connection, &request).await;
            stream.read_exact(&mut [0; 4]).await.unwrap();
            times.push(begun.elapsed());
            stream.stop(0_u32.into()).unwrap();
        }
        let later = times[1..].iter().min().unwrap();
        assert!(*later < times[0] / 4, "{times:?}");
    });
}
