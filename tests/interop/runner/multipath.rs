//! The four multipath cases that were proposed for the interop runner (its pull request 329), on the numbers of RFC
//! 10069: between two ends of ours, and with picoquic in both roles. Those with noq are in `tests/interop/noq`.
//!
//! | case | what it shows |
//! |---|---|
//! | handshake | both sides take part |
//! | transfer | both paths carry data |
//! | abandon | a path that one side abandons in mid-transfer carries nothing more, and all data arrives |
//! | status | a path that one side marks as backup carries probes only |

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use mpquic::{PathErrorCode, PathEvent, PathEvents, PathId, PathStatus, sched};

use crate::case::Case;
use crate::picoquic::{self, Picoquic};
use crate::stacks::{Identity, Setup};
use crate::verdict::{Verdict, test};
use crate::wire::{Record, Wire};
use crate::{child, hq, loopback};
use mpquic_test_support::runtime::{run, run_within};

const LARGE: usize = 6_000_000;
/// More than probes of a path take.
const SOME: usize = 15_000;
/// What a backup path may carry: PATH_CHALLENGE and PATH_RESPONSE, probes of its packet size, and what keeps it alive.
const BACKUP: usize = LARGE / 50;
/// What is under way at once, so that a path can be abandoned in mid-transfer.
const WINDOW: u32 = 256 << 10;
/// Until then, the path that will be abandoned has carried its part.
const HALF: usize = LARGE / 2;
/// Exercises with picoquic take no longer.
const LIMIT: Duration = Duration::from_secs(120);
/// So much is read or written at once.
const PIECE: usize = 50_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Handshake,
    Transfer,
    Abandon,
    Status,
}

impl Act {
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Handshake => 1_024,
            _ => LARGE,
        }
    }
}

/// Which end abandons the path, or marks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Client,
    Server,
}

/// The tests of each act.
pub(crate) fn tests() -> Vec<Trial> {
    let acts = [
        ("handshake", Act::Handshake),
        ("transfer", Act::Transfer),
        ("abandon", Act::Abandon),
        ("status", Act::Status),
    ];
    let of_act = |(name, act)| {
        let of = |pair: &str| format!("multipath::{pair}::{name}");
        [
            test(of("our_client_acts"), move || ourselves(act, Actor::Client)),
            test(of("our_server_acts"), move || ourselves(act, Actor::Server)),
            test(of("picoquic_server"), move || picoquic_serves(act)),
            test(of("picoquic_client"), move || picoquic_asks(act)),
        ]
    };
    acts.into_iter().flat_map(of_act).collect()
}

fn ourselves(act: Act, actor: Actor) -> Verdict {
    run(async move {
        let (setup, _) = setup();
        loop {
            let wire = Arc::new(Wire::bind());
            let server = server(&setup);
            wire.start(Case::Transfer, server.local_addrs()[0]);
            let serving = serve(act, actor == Actor::Server, server, Arc::clone(&wire));
            let asking = ask(act, actor == Actor::Client, &setup, &wire, None);
            let (served, at_client) = tokio::join!(serving, asking);
            if act == Act::Status && served.trouble && carried(&wire.records())[1] >= BACKUP {
                continue;
            }
            return check(act, &wire.records(), served.mark.or(at_client), LARGE / 20);
        }
    });
    Ok(())
}

fn picoquic_serves(act: Act) -> Verdict {
    run_within(LIMIT, async move {
        let (setup, pem) = setup();
        let picoquic = Picoquic::find()?;
        // picoquic takes a backup path into use for good at its first probe timeout on the other one, and a machine
        // that pauses looks like that. A server that does not care for the status fails each time.
        let mut tries = if act == Act::Status { 5 } else { 1 };
        loop {
            let wire = Arc::new(Wire::bind());
            let server = picoquic.serve(&pem, act.size());
            wire.start(Case::Transfer, server.address);
            let mark = ask(act, true, &setup, &wire, Some(picoquic::FILE)).await;
            tries -= 1;
            let records = wire.records();
            if tries == 0 || carried(&records)[1] < BACKUP {
                check(act, &records, mark, SOME);
                return Ok(());
            }
        }
    })
}

fn picoquic_asks(act: Act) -> Verdict {
    run_within(LIMIT, async move {
        let (setup, pem) = setup();
        let picoquic = Picoquic::find()?;
        let picoquic = Arc::new(picoquic);
        loop {
            let wire = Arc::new(Wire::bind());
            let server = server(&setup);
            wire.start(Case::Transfer, server.local_addrs()[0]);
            let (remote, size) = (wire.address(), act.size());
            let (program, pem) = (Arc::clone(&picoquic), pem.clone());
            let asking = move || program.download(&pem, remote, size);
            let asking = tokio::task::spawn_blocking(asking);
            let serving = serve(act, true, server, Arc::clone(&wire));
            let (served, asked) = tokio::join!(serving, asking);
            let (said, answer) = asked.unwrap();
            assert!(said.contains("Enable multipath: Success."), "{said}");
            assert!(answer == hq::body(size), "{} bytes: {said}", answer.len());
            if act == Act::Status && served.trouble && carried(&wire.records())[1] >= BACKUP {
                continue;
            }
            check(act, &wire.records(), served.mark, LARGE / 20);
            return Ok(());
        }
    })
}

fn setup() -> (Setup, child::Pem) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let root = made.cert.der().clone();
    let setup = Setup {
        identity: Identity {
            chain: vec![root.clone()],
            key: rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
            root,
        },
        client_alpn: hq::ALPN.to_vec(),
        server_alpn: hq::ALPN.to_vec(),
        ..Setup::default()
    };
    let certificate = made.cert.pem();
    let pem = child::Pem::write(
        &certificate,
        &certificate,
        &made.signing_key.serialize_pem(),
    );
    (setup, pem)
}

/// Uses every path that has room.
fn transport() -> Arc<mpquic::TransportConfig> {
    let mut transport = mpquic::TransportConfig::default();
    transport
        .scheduler(|| Box::new(sched::RoundRobin::default()))
        .send_window(WINDOW.into())
        .stream_receive_window(WINDOW.into())
        // picoquic's demo client opens its path when something arrives.
        .keep_alive_interval(Some(Duration::from_millis(50)))
        .max_paths(4);
    Arc::new(transport)
}

fn server(setup: &Setup) -> mpquic::Endpoint {
    let mut config = mpquic::ServerConfig::new(Arc::new(setup.server_tls())).unwrap();
    config.transport(transport());
    mpquic::Endpoint::server(config, &[SocketAddr::new(loopback(1), 0)]).unwrap()
}

/// Waits for an event of this path.
async fn event(events: &mut PathEvents, wanted: impl Fn(&PathEvent) -> bool) {
    while !wanted(&events.recv().await.expect("the connection ended")) {}
}

/// Abandons a path, and waits until both sides have.
async fn abandon(connection: &mpquic::Connection, events: &mut PathEvents, id: PathId) {
    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
    connection.path(id).unwrap().close(code).unwrap();
    event(events, |event| *event == PathEvent::Discarded { id }).await;
}

/// What a server of ours saw.
struct Served {
    /// If it abandoned the path: how many datagrams had come by when it was gone.
    mark: Option<usize>,
    /// Whether it found the first path in trouble, for example because the machine paused. A backup path is used then,
    /// rightly: if it was, the exercise is repeated.
    trouble: bool,
}

/// Answers one request.
async fn serve(act: Act, acts: bool, server: mpquic::Endpoint, wire: Arc<Wire>) -> Served {
    let connection = server.accept().await.unwrap().await.unwrap();
    assert!(connection.is_multipath());
    let mut events = connection.path_events();
    let id = PathId(1);
    // It may have been opened before the events are there to be seen.
    if act != Act::Handshake && connection.paths().len() < 2 {
        event(&mut events, |event| *event == PathEvent::Opened { id }).await;
    }
    if acts && act == Act::Status {
        let path = connection.path(id).unwrap();
        path.set_status(PathStatus::Backup).unwrap();
    }
    let (mut send, mut recv) = connection.accept_bi().await.unwrap();
    recv.read_to_end(1_000).await.unwrap();
    let body = hq::body(act.size());
    let mut mark = None;
    let mut gone_at = None;
    for (number, piece) in body.chunks(PIECE).enumerate() {
        send.write_all(piece).await.unwrap();
        let sent = (number + 1) * PIECE;
        if acts && act == Act::Abandon && gone_at.is_none() {
            let carried = connection
                .path(id)
                .unwrap()
                .stats()
                .unwrap()
                .sent_stream_bytes;
            if carried > SOME as u64 {
                abandon(&connection, &mut events, id).await;
                gone_at = Some(sent);
            }
            assert!(sent < HALF, "a path carries nothing");
        }
        if gone_at.is_some_and(|at| sent > at + 2 * WINDOW as usize) {
            mark = mark.or_else(|| Some(wire.records().len()));
        }
    }
    send.finish().unwrap();
    connection.closed().await;
    let trouble = std::iter::from_fn(|| events.try_recv())
        .any(|event| event == PathEvent::Suspect { id: PathId::ZERO });
    Served { mark, trouble }
}

/// Downloads over two paths. If it acts: how many datagrams had come by when the path was gone.
async fn ask(
    act: Act,
    acts: bool,
    setup: &Setup,
    wire: &Wire,
    file: Option<&str>,
) -> Option<usize> {
    let hosts: [IpAddr; 2] = [loopback(1), loopback(2)];
    let client = mpquic::Endpoint::client(&hosts.map(|host| (host, 0).into())).unwrap();
    client.set_path_manager(mpquic::PathManager::Manual);
    let mut config = mpquic::ClientConfig::new(Arc::new(setup.client_tls())).unwrap();
    config.transport(transport());
    let remote = wire.address();
    let connecting = client.connect_with(config, remote, "localhost").unwrap();
    let connection = connecting.await.unwrap();
    assert!(connection.is_multipath(), "the server takes no part");
    let mut events = connection.path_events();
    let id = match act {
        Act::Handshake => PathId::ZERO,
        _ => connection.open_path(hosts[1], remote).await.unwrap().id(),
    };
    if acts && act == Act::Status {
        let path = connection.path(id).unwrap();
        path.set_status(PathStatus::Backup).unwrap();
    }
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let request = match file {
        Some(name) => format!("GET /{name}\r\n").into_bytes(),
        None => hq::request(act.size()),
    };
    send.write_all(&request).await.unwrap();
    send.finish().unwrap();
    let mut whole = vec![0; act.size()];
    let mut mark = None;
    let mut gone_at = None;
    let mut read = 0;
    for piece in whole.chunks_mut(PIECE) {
        recv.read_exact(piece).await.unwrap();
        read += piece.len();
        if acts && act == Act::Abandon && gone_at.is_none() {
            let carried = connection.path(id).unwrap().stats().unwrap();
            if carried.received_stream_bytes > SOME as u64 {
                abandon(&connection, &mut events, id).await;
                gone_at = Some(read);
            }
            assert!(read < HALF, "a path carries nothing");
        }
        if gone_at.is_some_and(|at| read > at + 2 * WINDOW as usize) {
            mark = mark.or_else(|| Some(wire.records().len()));
        }
    }
    assert!(whole == hq::body(act.size()));
    connection.close(0u32.into(), b"");
    client.wait_idle().await;
    mark
}

/// Bytes to the client on the first path and on the other one.
fn carried(records: &[Record]) -> [usize; 2] {
    let first = records[0].route;
    [true, false].map(|is_first| {
        let of = records
            .iter()
            .filter(|one| !one.up && (one.route == first) == is_first);
        of.map(|one| one.len).sum()
    })
}

/// What came by shows it. Each path carries `least` bytes where both are used.
fn check(act: Act, records: &[Record], gone: Option<usize>, least: usize) {
    let all = carried(records);
    match act {
        Act::Handshake => {}
        Act::Transfer => assert!(all.iter().all(|bytes| *bytes > least), "{all:?}"),
        Act::Abandon => {
            let (before, after) = records.split_at(gone.expect("the path was not abandoned"));
            assert!(carried(before)[1] > SOME, "{all:?}");
            let first = records[0].route;
            let late = after.iter().filter(|one| one.route != first).count();
            assert_eq!(late, 0, "datagrams on the path that is gone");
            let after: usize = after.iter().filter(|one| !one.up).map(|one| one.len).sum();
            assert!(after > LARGE / 5, "{all:?}");
        }
        Act::Status => assert!(all[1] < BACKUP, "{all:?}"),
    }
}
