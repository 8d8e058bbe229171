//! Bugs that hit other multipath stacks, as deterministic runs in virtual time. A timer that is orphaned when its path is
//! abandoned (noq#435) is an invariant of `random_interaction`.

use std::time::Duration;

use crate::support::{for_seeds, ms, seeds_or};
use mpquic_proto::{PathErrorCode, PathId, Side, TransportConfig};
use mpquic_sim::{Action, LinkConfig, Network, NetworkBuilder, TransferClient, TransferServer};

const FIRST: PathId = PathId::ZERO;
const SECOND: PathId = PathId(1);

fn two_paths(seed: u64, client: TransferClient) -> NetworkBuilder {
    Network::builder(seed)
        .symmetric_path(LinkConfig::new(20_000_000, ms(20)))
        .symmetric_path(LinkConfig::new(10_000_000, ms(40)))
        .client(client)
        .server(TransferServer::new())
        .null_aead()
}

/// noq#512: a path is abandoned while the handshake is under way. Here: at each millisecond of the first 300, by either
/// side. It is refused as long as it is too early; later, the other path carries on.
#[test]
fn noq_512_a_path_is_abandoned_during_the_handshake() {
    for_seeds(0..300, |at| {
        for side in [Side::Client, Side::Server] {
            let mut network = two_paths(at, TransferClient::download(100_000))
                .open_all_paths()
                .build()
                .unwrap();
            let close = Action::call(move |network| {
                let now = network.instant();
                if let Some(connection) = network.connection_mut(side) {
                    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
                    let _ = connection.path_mut(FIRST).close(now, code);
                }
            });
            network.at(ms(at), close);
            let report = network.run_to_completion(Duration::from_secs(10)).unwrap();
            assert_eq!(report.delivered[0], 100_000, "{side:?} at {at} ms");
        }
    });
}

/// picoquic#2167: two paths wedge at the start. Here: 1,000 starts, the second path opened at another offset in each, with
/// data in both directions at once.
#[test]
fn picoquic_2167_the_second_path_is_opened_at_any_offset() {
    for_seeds(0..1000, |seed| {
        let mut network = two_paths(seed, TransferClient::both_directions(100_000))
            .build()
            .unwrap();
        // From before the handshake is confirmed to after the end of the transfer on one path alone.
        let at = Duration::from_micros(300 * seed);
        let open = Action::call(|network| {
            let now = network.instant();
            let second = network.four_tuple(1, 0).unwrap();
            if let Some(client) = network.connection_mut(Side::Client) {
                let _ = client.open_path(now, second);
            }
        });
        network.at(at, open);
        let report = network.run_to_completion(Duration::from_secs(10)).unwrap();
        assert!(report.completed < ms(1000), "opened at {at:?}: {report:?}");
    });
}

/// A PTO that stalls for good where losses are frequent: 12 % of the packets in both directions, on one path and on two.
#[test]
fn at_12_percent_loss_no_probe_timeout_stalls_for_good() {
    let stalls = for_seeds(seeds_or(0..40), |seed| {
        let lossy = |rate, delay| LinkConfig::new(rate, delay).with_loss(0.12);
        let mut builder = Network::builder(seed).symmetric_path(lossy(20_000_000, ms(20)));
        if seed % 2 == 1 {
            builder = builder.symmetric_path(lossy(10_000_000, ms(40)));
        }
        let mut network = builder
            .client(TransferClient::download(500_000))
            .server(TransferServer::new())
            .open_all_paths()
            .null_aead()
            .build()
            .unwrap();
        let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
        report.longest_stall[0]
    });
    let longest = stalls.iter().max().unwrap();
    println!("longest stall {longest:?}");
    // Four losses of all probes in a row, each with twice the timeout before it.
    assert!(*longest < ms(2500), "{longest:?}");
}

/// noq#799: all PATH_ACKs come over one path. Here: nothing that the client sends on the second path arrives any more, so
/// that all its acknowledgements take the first one. The server still learns of what arrived on the second, and uses it.
#[test]
fn noq_799_acknowledgements_of_both_paths_come_on_one() {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(ms(100)));
    let mut network = two_paths(1, TransferClient::download(20_000_000))
        .transport(transport)
        .open_all_paths()
        .build()
        .unwrap();
    let deaf = Action::SetLinkUp {
        path: 1,
        from: Some(Side::Client),
        up: false,
    };
    network.at(ms(1000), deaf);
    network.run_until(ms(2000)).unwrap();
    let received = |network: &Network| {
        let client = network.connection(Side::Client).unwrap();
        client.path(SECOND).unwrap().stats().received_stream_bytes
    };
    let before = received(&network);
    let report = network.run_to_completion(Duration::from_secs(20)).unwrap();
    let since = received(&network) - before;
    let seconds = (report.completed - ms(2000)).as_secs_f64();
    let rate = since as f64 * 8.0 / seconds;
    println!(
        "{:.1} Mbit/s on the deaf path, done after {:?}",
        rate / 1e6,
        report.completed
    );
    assert!(rate > 5e6, "{rate} bit/s on a path of 10 Mbit/s");
}
