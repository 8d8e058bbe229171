//! The multipath scenarios that picoquic tests, by their names there, in runs of our own making in virtual time.
//!
//! Those that are not here, and why:
//! - `renew`: an application cannot ask for another connection ID; the transport changes it when the path moves.
//! - `socket_error`, `socket0_error`: this core has no sockets; what a socket refuses is the tokio API's matter.
//! - `stream_af`, `stream_af_backup`, `dg_af`: the affinity of data is the scheduler's choice;
//!   `data_order::a_stream_stays_on_its_path` has a scheduler that binds streams to paths.
//! - `aead`: the nonce with the path ID has its vectors in `crates/wire/src/crypto/tests`.
//! - `cid_retire`: `crates/proto/tests/multipath.rs` and the tests of `cid/`.
//! - `discovery`: the extension for address discovery is not implemented.

use std::time::Duration;

use crate::support::{Later, MEGABYTE, ms};
use mpquic_proto::congestion::{CongestionControl, SlowStart};
use mpquic_proto::{
    ConnectionError, PathErrorCode, PathEvent, PathId, PathStatus, Side, TransportConfig,
};
use mpquic_sim::{
    Action, Idle, LinkConfig, Network, NetworkBuilder, Report, SimError, TransferClient,
    TransferServer,
};

const FIRST: PathId = PathId::ZERO;
const SECOND: PathId = PathId(1);
const BYTES: u64 = 5 * MEGABYTE;
/// In the midst of a transfer of 5 MB over both paths, and of one over either.
const MIDWAY: Duration = ms(700);
const SIDES: [Side; 2] = [Side::Client, Side::Server];

fn first() -> LinkConfig {
    LinkConfig::new(20_000_000, ms(20))
}

fn second() -> LinkConfig {
    LinkConfig::new(10_000_000, ms(40))
}

fn builder(links: &[LinkConfig]) -> NetworkBuilder {
    let mut builder = Network::builder(1);
    for link in links {
        builder = builder.symmetric_path(link.clone());
    }
    builder
        .client(TransferClient::download(BYTES))
        .server(TransferServer::new())
        .null_aead()
}

/// A download over both paths.
fn network() -> Network {
    builder(&[first(), second()])
        .open_all_paths()
        .build()
        .unwrap()
}

const fn link(path: usize, up: bool) -> Action {
    Action::SetLinkUp {
        path,
        from: None,
        up,
    }
}

const fn close(side: Side, id: PathId) -> Action {
    Action::ClosePath {
        side,
        id,
        code: PathErrorCode::APPLICATION_ABANDON_PATH,
    }
}

fn complete(network: &mut Network) -> Report {
    let report = network.run_to_completion(Duration::from_secs(30)).unwrap();
    assert_eq!(report.delivered[0], BYTES);
    report
}

/// How many paths each side has open.
fn open_paths(network: &Network) -> [usize; 2] {
    SIDES.map(|side| network.connection(side).unwrap().paths().ids().count())
}

fn received_on(network: &Network, id: PathId) -> u64 {
    let client = network.connection(Side::Client).unwrap();
    client.path(id).unwrap().stats().received_stream_bytes
}

/// `basic`: both paths are used, and the transfer takes less time than on one alone.
#[test]
fn basic() {
    let mut both = network();
    let report = complete(&mut both);
    let mut alone = builder(&[first()]).build().unwrap();
    let single = complete(&mut alone);
    assert!(report.completed.as_secs_f64() < 0.85 * single.completed.as_secs_f64());
    assert!(received_on(&both, FIRST) > BYTES / 2 && received_on(&both, SECOND) > BYTES / 5);
}

/// `drop_first`, `drop_second`, `break1`: a path dies for good. Its data takes the other one, and stalls for no longer
/// than it takes to notice.
#[test]
fn drop_first_and_second() {
    for path in [0, 1] {
        let mut network = network();
        network.at(MIDWAY, link(path, false));
        let report = complete(&mut network);
        assert!(report.longest_stall[0] < ms(400), "{report:?}");
        let dead = network.connection(Side::Server).unwrap();
        let stats = dead.path(PathId(path as u32)).unwrap().stats();
        assert!(stats.suspect, "path {path}");
    }
}

/// `fail`: no answer of the server comes back on the new path. It is given up at both ends, and the transfer goes on.
#[test]
fn fail() {
    let mut network = network();
    let mute = Action::SetLinkUp {
        path: 1,
        from: Some(Side::Server),
        up: false,
    };
    network.at(ms(0), mute);
    complete(&mut network);
    network.run_until(Duration::from_secs(20)).unwrap();
    assert_eq!(open_paths(&network), [1, 1]);
    let given_up =
        |event: &PathEvent| matches!(event, PathEvent::Abandoned { id, .. } if *id == SECOND);
    for side in SIDES {
        assert!(
            network
                .path_events(side)
                .iter()
                .any(|(_, event)| given_up(event))
        );
    }
}

/// `ab1`: the second path is opened and abandoned seven times over, then used.
#[test]
fn abandon_cycle() {
    let mut network = builder(&[first(), second()]).build().unwrap();
    let (client, server) = (1, 0);
    for cycle in 0..7 {
        let begin = ms(200 + 200 * cycle);
        network.at(begin, Action::OpenPath { client, server });
        let id = PathId(1 + cycle as u32);
        network.at(
            begin + ms(150),
            close([Side::Client, Side::Server][cycle as usize % 2], id),
        );
    }
    network.at(ms(1600), Action::OpenPath { client, server });
    complete(&mut network);
    assert!(received_on(&network, PathId(8)) > 0);
    assert_eq!(open_paths(&network), [2, 2]);
}

/// `sat_plus`: a satellite of 300 ms beside a slow line. The satellite must not hold up what the line could deliver.
/// The median over satellites of about that delay: when Cubic loses which packet of the slow line decides over a third
/// of a second.
#[test]
fn satellite() {
    let line = LinkConfig::new(2_000_000, ms(20));
    for congestion in [CongestionControl::Cubic, CongestionControl::Bbr] {
        let mut took: Vec<_> = (295..=305)
            .map(|delay| {
                let mut transport = TransportConfig::default();
                transport.congestion(congestion);
                let satellite = LinkConfig::new(10_000_000, ms(delay));
                let mut network = builder(&[line.clone(), satellite])
                    .transport(transport)
                    .open_all_paths()
                    .build()
                    .unwrap();
                complete(&mut network).completed
            })
            .collect();
        took.sort_unstable();
        // 40 Mbit over 12 Mbit/s, and three RTTs of the satellite until it is up to speed.
        let median = took[took.len() / 2];
        assert!(median < ms(7500), "{congestion}: {took:?}");
    }
}

/// `rotation`: the keys are updated again and again while both paths carry data.
#[test]
fn key_rotation() {
    let mut network = network();
    for number in 0..8 {
        let side = SIDES[number as usize % 2];
        let update = Action::call(move |network| {
            let now = network.instant();
            network.connection_mut(side).unwrap().force_key_update(now);
        });
        network.at(ms(300 + 150 * number), update);
    }
    complete(&mut network);
}

/// `nat`, `nat_challenge`: the client's address on the first path changes underway. The path stays, at the new address,
/// which is validated.
#[test]
fn nat_rebinding() {
    let mut network = network();
    let outside = "10.0.0.2:60007".parse().unwrap();
    network.at(MIDWAY, Action::Rebind { client: 0, outside });
    complete(&mut network);
    assert_eq!(open_paths(&network), [2, 2]);
    let server = network.connection(Side::Server).unwrap();
    assert_eq!(server.path(FIRST).unwrap().network_path().remote, outside);
    assert_eq!(
        server.path(FIRST).map(|path| path.amplification()),
        Ok(None)
    );
    assert!(server.path(FIRST).is_ok_and(|path| path.is_validated()));
}

/// `break_both`: both paths die for good. The connection ends by its idle timeout, and not before.
#[test]
fn break_both() {
    let mut network = network();
    network.at(MIDWAY, link(0, false));
    network.at(MIDWAY, link(1, false));
    let ended = network.run_to_completion(Duration::from_secs(300));
    let Err(SimError::ConnectionLost { at, reason, .. }) = ended else {
        panic!("{ended:?}");
    };
    assert!(matches!(reason, ConnectionError::TimedOut), "{reason:?}");
    assert!(at > MIDWAY + Duration::from_secs(29), "{at:?}");
}

/// `abandon`: the client abandons the first path, on which the connection began. The server follows, and nothing is left
/// of the path after a second.
#[test]
fn abandon() {
    // The server keeps the path for three probe timeouts: less than a second with a queue that has grown slowly.
    let mut transport = TransportConfig::default();
    transport.slow_start(SlowStart::Rapid);
    let mut network = builder(&[first(), second()])
        .transport(transport)
        .open_all_paths()
        .build()
        .unwrap();
    network.at(MIDWAY, close(Side::Client, FIRST));
    complete(&mut network);
    assert_eq!(open_paths(&network), [1, 1]);
    for side in SIDES {
        let gone = network.path_events(side).iter().find_map(|(at, event)| {
            matches!(event, PathEvent::Discarded { id } if *id == FIRST).then_some(*at)
        });
        let gone = gone.unwrap();
        assert!(gone < MIDWAY + ms(1500), "{side:?} {gone:?}");
    }
}

/// `back0`: the first path is abandoned, and a new one is opened over its addresses.
#[test]
fn back_after_an_abandon() {
    let mut network = network();
    network.at(MIDWAY, close(Side::Client, FIRST));
    let (client, server) = (0, 0);
    network.at(MIDWAY + ms(400), Action::OpenPath { client, server });
    complete(&mut network);
    assert_eq!(open_paths(&network), [2, 2]);
    assert!(
        received_on(&network, PathId(2)) > 0,
        "path IDs are never used again"
    );
}

/// `back1`: a path is down for a second and comes back. It is used again.
#[test]
fn back_after_an_outage() {
    for path in [0, 1] {
        let mut network = network();
        network.at(ms(500), link(path, false));
        network.at(ms(1000), link(path, true));
        network.run_until(ms(1000)).unwrap();
        let id = PathId(path as u32);
        let before = received_on(&network, id);
        complete(&mut network);
        assert_eq!(open_paths(&network), [2, 2]);
        assert!(
            received_on(&network, id) > before + BYTES / 50,
            "path {path}"
        );
    }
}

/// `backup`: the second path is a backup. The server knows, and sends hardly anything on it.
#[test]
fn backup() {
    let mut network = builder(&[first(), second()])
        .client(Later::new(ms(300), TransferClient::download(BYTES)))
        .open_all_paths()
        .build()
        .unwrap();
    let status = PathStatus::Backup;
    let (side, id) = (Side::Client, SECOND);
    network.at(ms(200), Action::SetPathStatus { side, id, status });
    complete(&mut network);
    let server = network.connection(Side::Server).unwrap();
    assert_eq!(server.path(SECOND).unwrap().remote_status(), Some(status));
    assert!(received_on(&network, SECOND) < 50_000);
}

/// `standup`: the second path is a backup, and the first one dies.
#[test]
fn standup() {
    let mut network = network();
    let status = PathStatus::Backup;
    let (side, id) = (Side::Client, SECOND);
    network.at(ms(250), Action::SetPathStatus { side, id, status });
    network.at(MIDWAY, link(0, false));
    let report = complete(&mut network);
    assert!(report.longest_stall[0] < ms(400), "{report:?}");
    assert!(received_on(&network, SECOND) > BYTES / 2);
}

/// `datagram`: unreliable datagrams go over both paths. There are more of them than the windows take at first; those that
/// wait too long give way to newer ones.
#[test]
fn datagrams() {
    let mut network = builder(&[first(), second()])
        .client(Idle)
        .server(Idle)
        .open_all_paths()
        .build()
        .unwrap();
    for burst in 0..100 {
        let send = Action::call(move |network| {
            let server = network.connection_mut(Side::Server).unwrap();
            for number in 0..30u8 {
                let content = vec![number; 1000];
                server.datagrams().send(content.into(), false).unwrap();
            }
        });
        network.at(ms(300 + 10 * burst), send);
    }
    network.run_until(Duration::from_secs(5)).unwrap();
    let client = network.connection_mut(Side::Client).unwrap();
    let arrived = std::iter::from_fn(|| client.datagrams().recv()).count();
    let shares = [FIRST, SECOND].map(|id| client.path(id).unwrap().stats().received_bytes);
    // 30 of 1,000 bytes in 10 ms are 24 Mbit/s: more than the first path carries.
    assert!(arrived > 900, "{arrived}");
    assert!(shares.iter().all(|bytes| *bytes > 100_000), "{shares:?}");
}

/// `keep_alive`: both paths outlive the idle timeout by their keep-alives.
#[test]
fn keep_alive() {
    let mut transport = TransportConfig::default();
    let (keep_alive, idle) = (Duration::from_secs(2), Duration::from_secs(5));
    transport
        .keep_alive_interval(Some(keep_alive))
        .max_idle_timeout(Some(idle));
    let mut network = builder(&[first(), second()])
        .transport(transport)
        .client(Later::new(
            Duration::from_secs(60),
            TransferClient::download(BYTES),
        ))
        .open_all_paths()
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(90)).unwrap();
    assert_eq!(report.delivered[0], BYTES);
    assert_eq!(open_paths(&network), [2, 2]);
    for path in &report.links {
        assert!(path.iter().all(|link| link.packets_in > 30), "{path:?}");
    }
}

/// `callback`, `quality`: the application hears of each turn in the life of a path, in order, and its figures are those of
/// the links.
#[test]
fn events_and_quality() {
    let mut network = network();
    network.at(ms(600), link(1, false));
    network.at(ms(1000), link(1, true));
    network.at(ms(1500), close(Side::Client, SECOND));
    network.run_until(ms(599)).unwrap();
    for (id, link) in [(FIRST, first()), (SECOND, second())] {
        let server = network.connection(Side::Server).unwrap();
        let stats = server.path(id).unwrap().stats();
        let base = 2 * link.delay;
        assert!(
            stats.min_rtt >= base && stats.min_rtt < base + ms(10),
            "{stats:?}"
        );
    }
    complete(&mut network);
    network.run_until(Duration::from_secs(10)).unwrap();
    let told: Vec<_> = network
        .path_events(Side::Server)
        .iter()
        .filter_map(|(_, event)| match event {
            PathEvent::Opened { id } if *id == SECOND => Some("opened"),
            PathEvent::Suspect { id } if *id == SECOND => Some("suspect"),
            PathEvent::Recovered { id } if *id == SECOND => Some("recovered"),
            PathEvent::Abandoned { id, .. } if *id == SECOND => Some("abandoned"),
            PathEvent::Discarded { id } if *id == SECOND => Some("discarded"),
            _ => None,
        })
        .collect();
    let story = ["opened", "suspect", "recovered", "abandoned", "discarded"];
    assert_eq!(told, story);
}

/// `perf`: two fast paths are filled.
#[test]
fn performance() {
    let fast = || LinkConfig::new(200_000_000, ms(10));
    let bytes = 100 * MEGABYTE;
    for congestion in [CongestionControl::Cubic, CongestionControl::Bbr] {
        let mut transport = TransportConfig::default();
        transport.congestion(congestion);
        let mut network = builder(&[fast(), fast()])
            .client(TransferClient::download(bytes))
            .transport(transport)
            .open_all_paths()
            .build()
            .unwrap();
        let report = network.run_to_completion(Duration::from_secs(30)).unwrap();
        let rate = bytes as f64 * 8.0 / report.completed.as_secs_f64();
        assert!(rate > 0.75 * 400e6, "{congestion}: {rate}");
    }
}

/// `tunnel`: both paths are gone for 5 s, as in a tunnel, and come back. The return is noticed within an eighth of that.
#[test]
fn tunnel() {
    let mut network = network();
    for path in [0, 1] {
        network.at(MIDWAY, link(path, false));
        network.at(MIDWAY + ms(5000), link(path, true));
    }
    let report = complete(&mut network);
    assert!(report.longest_stall[0] < ms(5000 + 625 + 250), "{report:?}");
    assert_eq!(open_paths(&network), [2, 2]);
}

/// `just_one`: the server lets the client have one path beside the first, and no third.
#[test]
fn just_one() {
    let mut transport = TransportConfig::default();
    transport.max_paths(2);
    let mut network = builder(&[first(), second(), second()])
        .server_transport(transport)
        .open_all_paths()
        .build()
        .unwrap();
    complete(&mut network);
    assert_eq!(open_paths(&network), [2, 2]);
}
