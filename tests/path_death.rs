//! Paths that die and recover during a transfer: nothing is lost, delivery hardly stalls, and a
//! path that recovers is used again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::support::real::{Setup, run};
use crate::support::{MEGABYTE, for_seeds, ms, seeds_of_today};
use mpquic_proto::{PathErrorCode, PathId, Side, TransportConfig};
use mpquic_sched::{MinRtt, SinglePath};
use mpquic_sim::{Action, LinkConfig, Network, TransferClient, TransferServer, content};

const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);
const DARK_FOR: Duration = ms(3000);
/// As promised: the path is suspect 35 ms after its last acknowledgement. What it had in flight may be lost once more, to
/// the full queue of the other path while that one leaves slow start: 147 ms until that is known, and as long to arrive.
const LONGEST_STALL: Duration = ms(305);
const BACK_WITHIN: Duration = ms(1000);

/// The paths of the example `download`.
fn wifi() -> LinkConfig {
    LinkConfig::new(50_000_000, ms(10))
}

fn lte() -> LinkConfig {
    LinkConfig::new(20_000_000, ms(35))
}

const fn set_link(path: usize, up: bool) -> Action {
    Action::SetLinkUp {
        path,
        from: None,
        up,
    }
}

/// A number from 0 to `bound`, exclusive.
fn draw(seed: u64, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    content::fill(seed, 0, &mut bytes);
    u64::from_le_bytes(bytes) % bound
}

fn download(seed: u64, bytes: u64) -> Network {
    download_with(seed, bytes, TransportConfig::default())
}

fn download_with(seed: u64, bytes: u64, transport: TransportConfig) -> Network {
    Network::builder(seed)
        .transport(transport)
        .symmetric_path(wifi())
        .symmetric_path(lte())
        .client(TransferClient::download(bytes))
        .server(TransferServer::new())
        .open_all_paths()
        .build()
        .unwrap()
}

/// When both paths are dead, in-flight data has nowhere to go. The first path to recover must carry
/// all of it, including the other path's part.
#[test]
fn the_first_path_to_return_carries_what_both_had_in_flight() {
    for first in [0, 1] {
        let mut network = download(1, 20_000_000);
        network.at(ms(1000), set_link(0, false));
        network.at(ms(1000), set_link(1, false));
        network.at(ms(2000), set_link(first, true));
        let report = network.run_to_completion(Duration::from_secs(20)).unwrap();
        // A second of outage, and at most another second until a probe gets through.
        assert!(report.longest_stall[0] < ms(2500), "{report:?}");
    }
}

/// The peer has not heard that a path was abandoned, and continues to probe it. The answers must
/// not be stateless resets, which would end the connection (RFC 10069, Path Close).
//= specs/rfc10069-draft.md#path-close
//= type=test
//# Therefore, knowledge of the connection IDs issued to the peer and of the state of the number
//# space associated to the path SHOULD be retained for 3 PTO after the PATH_ABANDON frame has been
//# received.
#[test]
fn an_abandoned_path_is_kept_until_the_peer_knows() {
    let mut network = download(1, 20_000_000);
    // The abandoned path recovers first, so that the peer's probes arrive before the PATH_ABANDON
    // frame.
    for (path, returns) in [(0, 20_000), (1, 5000)] {
        network.at(ms(1000), set_link(path, false));
        network.at(ms(returns), set_link(path, true));
    }
    let close = Action::ClosePath {
        side: Side::Client,
        id: LTE,
        code: PathErrorCode::APPLICATION_ABANDON_PATH,
    };
    network.at(ms(1100), close);
    network.run_to_completion(Duration::from_secs(60)).unwrap();
}

/// The transport ensures liveness: if a scheduler keeps sending on a dead path, or waits for it,
/// the living path gets a packet for every probe timeout that this costs.
#[test]
fn a_scheduler_that_insists_on_a_dead_path_stops_no_transfer() {
    for keep_alive in [None, Some(ms(50))] {
        let mut transport = TransportConfig::default();
        transport
            .keep_alive_interval(keep_alive)
            .scheduler(|| Box::new(SinglePath::default()));
        let mut network = Network::builder(1)
            .symmetric_path(wifi())
            .symmetric_path(lte())
            .transport(transport)
            .client(TransferClient::download(300_000))
            .server(TransferServer::new())
            .open_all_paths()
            .build()
            .unwrap();
        network.at(ms(70), set_link(0, false));
        let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
        assert!(report.server.overridden_waits > 0);
    }
}

/// Keep-alives and probes of a path that never answers must neither accumulate nor keep their rate.
#[test]
fn a_dead_path_costs_little_for_ever() {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(ms(100)));
    let mut network = Network::builder(1)
        .symmetric_path(wifi())
        .symmetric_path(lte())
        .transport(transport)
        .client(TransferClient::download(1_000_000))
        .server(TransferServer::new())
        .open_all_paths()
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(10)).unwrap();
    network.at(ms(10_000), set_link(0, false));
    network.run_until(ms(20_000)).unwrap();
    let wifi = |network: &Network, side| {
        let connection = network.connection(side).unwrap();
        connection.path(WIFI).unwrap().stats()
    };
    let before = [Side::Client, Side::Server].map(|side| wifi(&network, side));
    network.run_until(ms(620_000)).unwrap();
    let after = [Side::Client, Side::Server].map(|side| wifi(&network, side));
    for (before, after) in before.into_iter().zip(after) {
        let probes = after.sent_packets - before.sent_packets;
        // Ten minutes with a probe every 400 ms, the longest time that a recovery may stay
        // unnoticed.
        assert!((60..=1600).contains(&probes), "{probes} probes");
        assert!(
            after.in_flight < 3000,
            "{} bytes in flight",
            after.in_flight
        );
    }
}

/// If packets leave but no answer comes, a path becomes suspect before any probe. The next
/// acknowledgement that is as quick as those before clears it, though it settles everything in
/// flight: schedulers avoid the path, so that nothing else would.
#[test]
fn an_answer_in_time_clears_a_suspect_path() {
    let mut network = Network::builder(1).symmetric_path(wifi()).build().unwrap();
    network.run_until(ms(5000)).unwrap();
    // Three datagrams, which are not repeated, are lost. The fourth is acknowledged after 20 ms.
    let dark = |up| Action::SetLinkUp {
        path: 0,
        from: Some(Side::Server),
        up,
    };
    network.at(ms(5000), dark(false));
    network.at(ms(5055), dark(true));
    for number in 0..4 {
        let send = Action::call(|network| {
            let server = network.connection_mut(Side::Server).unwrap();
            server.datagrams().send(vec![7; 100].into(), false).unwrap();
        });
        network.at(ms(5000 + 20 * number), send);
    }
    let stats = |network: &Network| {
        let server = network.connection(Side::Server).unwrap();
        server.path(WIFI).unwrap().stats()
    };
    network.run_until(ms(5079)).unwrap();
    assert!(stats(&network).suspect);
    assert_eq!(stats(&network).pto_count, 0);
    network.run_until(ms(5082)).unwrap();
    let cleared = stats(&network);
    assert!(!cleared.suspect && cleared.lost_packets == 3 && cleared.in_flight == 0);
}

/// The only path dies with data in flight. A path that is opened afterwards carries the data.
//= specs/rfc10069-draft.md#ack-after-abandon
//= type=test
//# When an endpoint finally deletes all state associated with the path, the packets sent over the
//# path and not yet acknowledged MUST be considered lost.
#[test]
fn a_new_path_carries_what_the_only_one_had_in_flight() {
    let mut network = Network::builder(1)
        .symmetric_path(wifi())
        .symmetric_path(lte())
        .client(TransferClient::download(20_000_000))
        .server(TransferServer::new())
        .build()
        .unwrap();
    let (client, server) = (1, 0);
    network.at(ms(1000), set_link(0, false));
    network.at(ms(1500), Action::OpenPath { client, server });
    network.run_to_completion(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_download_survives_the_death_of_its_fast_path() {
    survives("arrival", TransportConfig::default);
}

#[test]
fn a_download_with_minrtt_survives_the_death_of_its_fast_path() {
    survives("minrtt", || {
        let mut transport = TransportConfig::default();
        transport.scheduler(MinRtt::default);
        transport
    });
}

/// Prints the worst of the seeds, which the page of performance has.
fn survives(scheduler: &str, transport: fn() -> TransportConfig) {
    let results = for_seeds(seeds_of_today(0..200), |seed| {
        let dies = ms(500) + Duration::from_micros(draw(seed, 2_500_000));
        let returns = dies + DARK_FOR;
        // At the full rate of all working paths, the transfer ends 1.5 s after the recovery.
        let fast = (dies + ms(1500)).as_micros() as u64 * 50 / 8;
        let slow = (returns + ms(1500)).as_micros() as u64 * 20 / 8;
        let bytes = fast + slow;
        let mut network = download_with(seed, bytes, transport());
        network.at(dies, set_link(0, false));
        network.at(returns, set_link(0, true));
        let back = Rc::new(Cell::new(None));
        let seen = Rc::clone(&back);
        let mut before = 0;
        network.on_step(move |view| {
            if seen.get().is_none() {
                let stats = view
                    .client
                    .and_then(|client| client.path(WIFI).map(|path| path.stats()).ok());
                let received = stats.map_or(0, |stats| stats.received_stream_bytes);
                if view.now >= returns && received > before {
                    seen.set(Some(view.now - returns));
                }
                before = received;
            }
            Ok(())
        });
        let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
        assert_eq!(report.delivered[0], bytes);
        let back = back.get().expect("wifi carries data again");
        let (stall, from) = network.stalls(Side::Client).longest(network.now());
        assert!(
            stall <= LONGEST_STALL && back <= BACK_WITHIN,
            "dead at {dies:?}: stall of {stall:?} from {from:?} on, back after {back:?}"
        );
        (stall, back)
    });
    let stall = results.iter().map(|result| result.0).max().unwrap();
    let back = results.iter().map(|result| result.1).max().unwrap();
    println!(
        "{scheduler}, worst of {}: stall {stall:?}, back after {back:?}",
        results.len()
    );
}

/// The same on real sockets. The test does not depend on timing: wifi is down while lte carries the
/// data of three seconds, and the download continues until wifi has recovered.
#[test]
fn a_download_on_real_sockets_survives_the_death_of_its_fast_path() {
    run(async {
        let setup = Setup::new(&[wifi(), lte()], TransportConfig::default()).await;
        let mut download = setup.download(u64::MAX).await;
        download.until(8 * MEGABYTE).await;
        download.longest_stall = Duration::ZERO;
        let died = Instant::now();
        setup.relays[0].set_up(false);
        let in_the_dark = setup.received(LTE) + 20 * MEGABYTE / 8 * 3;
        while setup.received(LTE) < in_the_dark {
            assert!(download.more().await);
        }
        let (before, lit) = (setup.received(WIFI), Instant::now());
        setup.relays[0].set_up(true);
        while setup.received(WIFI) == before {
            assert!(download.more().await);
        }
        let back = lit.elapsed();
        download.enough().await;
        println!(
            "real sockets: dark for {:?}, stall {:?}, back after {back:?}",
            lit - died,
            download.longest_stall,
        );
        setup.close().await;
    });
}
