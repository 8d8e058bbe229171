//! Connections that begin over several links at once: the faster link decides, a dead one costs nothing, and whatever
//! dies during the handshake costs little.

use std::time::Duration;

use mpquic_proto::{
    CongestionControl, ConnectionError, FourTuple, PathId, PathStart, RaceConfig, ServerConfig,
    Side, TransportConfig,
};
use mpquic_sim::{
    Action, LinkConfig, Network, NetworkBuilder, SimError, TransferClient, TransferServer,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn link(delay: Duration) -> LinkConfig {
    LinkConfig::new(50_000_000, delay)
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.path_start(PathStart::Complete);
    transport
}

/// A download of so many bytes over links with these delays.
fn builder(seed: u64, delays: &[Duration], bytes: u64) -> NetworkBuilder {
    let paths = delays.iter();
    paths
        .fold(Network::builder(seed), |builder, delay| {
            builder.symmetric_path(link(*delay))
        })
        .transport(transport())
        .client(TransferClient::download(bytes))
        .server(TransferServer::new())
        .race(RaceConfig::default())
        .open_all_paths()
}

/// When the client's handshake was complete, and from which of its addresses.
fn connected(network: &Network, addresses: usize) -> (Duration, usize) {
    let (at, _) = network.handshake(Side::Client);
    let client = network.connection(Side::Client).unwrap();
    let path = client.path(PathId::ZERO).unwrap().network_path();
    let numbers = 0..addresses;
    let mut numbers = numbers.filter(|&number| network.four_tuple(number, 0).unwrap() == path);
    (at.unwrap(), numbers.next().unwrap())
}

fn down(path: usize) -> Action {
    Action::SetLinkUp {
        path,
        from: None,
        up: false,
    }
}

#[test]
fn the_faster_link_carries_the_handshake_in_either_order() {
    let run = |delays: [Duration; 2], race: bool| {
        let mut builder = builder(1, &delays, 200_000);
        if !race {
            builder = Network::builder(1)
                .symmetric_path(link(delays[0]))
                .symmetric_path(link(delays[1]))
                .transport(transport())
                .client(TransferClient::download(200_000))
                .server(TransferServer::new())
                .open_all_paths();
        }
        let mut network = builder.build().unwrap();
        let report = network.run_to_completion(ms(10_000)).unwrap();
        assert_eq!(
            network.refused(Side::Server),
            0,
            "a late copy begins nothing"
        );
        let client = network.connection(Side::Client).unwrap();
        assert_eq!(client.paths().ids().count(), 2);
        let rtt = client.path(PathId::ZERO).unwrap().stats().min_rtt;
        (connected(&network, 2), report.completed, rtt)
    };
    let (fast, slow) = (ms(20), ms(100));
    let ((at, link), slow_first, rtt) = run([slow, fast], true);
    assert_eq!(link, 1);
    assert!((ms(40)..ms(45)).contains(&at), "{at:?}");
    // Measured over the link that it began on.
    assert!((ms(40)..ms(45)).contains(&rtt), "{rtt:?}");
    let ((at, link), fast_first, _) = run([fast, slow], true);
    assert_eq!(link, 0);
    assert!((ms(40)..ms(45)).contains(&at), "{at:?}");
    let spread = slow_first.as_secs_f64() / fast_first.as_secs_f64();
    assert!(
        (0.99..1.01).contains(&spread),
        "{slow_first:?} {fast_first:?}"
    );
    // What the order costs without a race.
    let ((at, _), alone, _) = run([slow, fast], false);
    assert!(at >= ms(200));
    assert!(alone > slow_first + ms(100), "{alone:?} {slow_first:?}");
}

#[test]
fn a_dead_first_link_costs_nothing() {
    for control in [CongestionControl::Cubic, CongestionControl::Bbr] {
        for seed in 0..20 {
            let mut transport = transport();
            transport.congestion(control);
            let builder = builder(seed, &[ms(10), ms(40)], 200_000).transport(transport);
            let mut network = builder.build().unwrap();
            network.at(Duration::ZERO, down(0));
            network.run_to_completion(ms(10_000)).unwrap();
            let (at, link) = connected(&network, 2);
            assert_eq!(link, 1);
            assert!((ms(80)..ms(85)).contains(&at), "{at:?}");
        }
    }
}

#[test]
fn a_stagger_lets_the_first_link_go_first() {
    let run = |delays: [Duration; 2], dead: bool| {
        let mut race = RaceConfig::default();
        race.stagger(ms(30));
        let builder = builder(1, &delays, 100_000).race(race);
        let mut network = builder.build().unwrap();
        if dead {
            network.at(Duration::ZERO, down(0));
        }
        // The first sample, before there are others.
        network.run_until(ms(75)).unwrap();
        let client = network.connection(Side::Client).unwrap();
        let rtt = client.path(PathId::ZERO).unwrap().rtt();
        network.run_to_completion(ms(10_000)).unwrap();
        (connected(&network, 2), rtt)
    };
    assert_eq!(run([ms(30), ms(20)], false).0.1, 0);
    let ((at, link), rtt) = run([ms(100), ms(20)], false);
    assert_eq!(link, 1);
    assert!((ms(70)..ms(75)).contains(&at), "{at:?}");
    // Counted from when the copy left, and not from when the first packet did.
    assert!((ms(40)..ms(45)).contains(&rtt), "{rtt:?}");
    let ((at, _), _) = run([ms(10), ms(20)], true);
    assert!((ms(70)..ms(75)).contains(&at), "{at:?}");
}

/// The server takes the first packets from a link whose way back is dead, and stays with it: another attempt does not.
#[test]
fn a_link_that_brings_nothing_back_costs_at_most_the_delay_between_attempts() {
    for dead in [0, 1] {
        let mut delays = [ms(50); 2];
        delays[dead] = ms(10);
        let mut network = builder(dead as u64, &delays, 200_000).build().unwrap();
        network.at(
            Duration::ZERO,
            Action::SetLinkUp {
                path: dead,
                from: Some(Side::Server),
                up: false,
            },
        );
        network.run_to_completion(ms(20_000)).unwrap();
        let (at, link) = connected(&network, 2);
        assert_eq!(link, 1 - dead);
        assert!((ms(350)..ms(360)).contains(&at), "{at:?}");
    }
}

#[test]
fn both_links_dead_is_said_of_each() {
    let mut network = builder(1, &[ms(10), ms(20)], 1000).build().unwrap();
    network
        .at(Duration::ZERO, down(0))
        .at(Duration::ZERO, down(1));
    let error = network.run_to_completion(ms(60_000)).unwrap_err();
    let SimError::ConnectionLost { at, reason, .. } = error else {
        panic!("{error}");
    };
    let ConnectionError::Unreachable(attempts) = &reason else {
        panic!("{reason}");
    };
    let paths: Vec<_> = attempts.iter().map(|one| one.network_path).collect();
    let expected = [0, 1].map(|client| network.four_tuple(client, 0).unwrap());
    assert_eq!(paths, expected);
    let text = reason.to_string();
    assert_eq!(text.matches("no answer").count(), 2, "{text}");
    for path in expected {
        assert!(text.contains(&path.to_string()), "{text}");
    }
    assert_eq!(at, ms(10_000), "the time for the handshake");
}

#[test]
fn the_first_retry_decides_and_the_token_is_used_where_it_came() {
    for delays in [[ms(80), ms(20)], [ms(20), ms(80)]] {
        let retry = |config: &mut ServerConfig| {
            config.retry_above(0);
        };
        let builder = builder(3, &delays, 100_000).configure_server(retry);
        let mut network = builder.build().unwrap();
        network.run_to_completion(ms(10_000)).unwrap();
        let (at, _) = connected(&network, 2);
        assert!((ms(80)..ms(90)).contains(&at), "{at:?}");
        assert_eq!(network.refused(Side::Server), 0);
    }
}

#[test]
fn a_server_that_forbids_migration_is_connected_to_and_left_alone_afterwards() {
    let forbid = |config: &mut ServerConfig| {
        config.migration(false);
    };
    // Without further paths: the server forbids them.
    let mut network = Network::builder(5)
        .symmetric_path(link(ms(90)))
        .symmetric_path(link(ms(20)))
        .transport(transport())
        .client(TransferClient::download(100_000))
        .server(TransferServer::new())
        .race(RaceConfig::default())
        .configure_server(forbid)
        .build()
        .unwrap();
    network.run_to_completion(ms(10_000)).unwrap();
    let (at, link) = connected(&network, 2);
    assert!(at < ms(45) && link == 1, "{at:?} {link}");
}

#[test]
fn damaged_copies_do_no_harm() {
    for damaged in [0, 1] {
        let mut delays = [ms(30); 2];
        delays[damaged] = ms(10);
        let links = delays.map(link);
        let mut network = Network::builder(7).race(RaceConfig::default());
        for (path, mut link) in links.into_iter().enumerate() {
            if path == damaged {
                link.corruption = 1.0;
            }
            network = network.symmetric_path(link);
        }
        let mut network = network
            .transport(transport())
            .client(TransferClient::download(50_000))
            .server(TransferServer::new())
            .build()
            .unwrap();
        network.run_to_completion(ms(10_000)).unwrap();
        let (at, link) = connected(&network, 2);
        assert!(at < ms(65) && link == 1 - damaged, "{at:?} {link}");
    }
}

#[test]
fn losses_on_both_links_delay_a_connection_less_than_on_one() {
    let late = |race: bool| {
        let runs = (0..200).filter(|&seed| {
            let mut network = Network::builder(seed);
            if race {
                network = network.race(RaceConfig::default());
            }
            for delay in [10, 20] {
                network = network.symmetric_path(link(ms(delay)).with_loss(0.2));
            }
            let mut network = network
                .transport(transport())
                .client(TransferClient::download(1000))
                .server(TransferServer::new())
                .build()
                .unwrap();
            network.run_to_completion(ms(60_000)).unwrap();
            connected(&network, 2).0 > ms(350)
        });
        runs.count()
    };
    let (alone, raced) = (late(false), late(true));
    assert!(
        alone > 50 && raced * 3 < alone,
        "{raced} of 200, {alone} without a race"
    );
}

/// Several addresses of a server, from one address of the client.
fn servers(seed: u64, delays: &[Duration]) -> NetworkBuilder {
    let mut builder = Network::builder(seed);
    for (server, delay) in delays.iter().enumerate() {
        builder = builder.path_between(0, server, link(*delay), link(*delay));
    }
    builder
        .transport(transport())
        .client(TransferClient::download(50_000))
        .server(TransferServer::new())
        .race(RaceConfig::default())
}

fn server_of(network: &Network) -> FourTuple {
    let client = network.connection(Side::Client).unwrap();
    client.path(PathId::ZERO).unwrap().network_path()
}

#[test]
fn addresses_of_a_server_are_tried_one_after_another() {
    // The first one answers in time: nothing is sent to the second one.
    let mut network = servers(1, &[ms(60), ms(10)]).build().unwrap();
    network.run_to_completion(ms(10_000)).unwrap();
    assert_eq!(server_of(&network), network.four_tuple(0, 0).unwrap());
    assert_eq!(network.link_stats()[1][0].packets_in, 0);

    // The first two are dead.
    let mut network = servers(2, &[ms(10), ms(10), ms(20)]).build().unwrap();
    network
        .at(Duration::ZERO, down(0))
        .at(Duration::ZERO, down(1));
    network.run_to_completion(ms(10_000)).unwrap();
    let (at, _) = network.handshake(Side::Client);
    assert_eq!(server_of(&network), network.four_tuple(0, 2).unwrap());
    assert!((ms(540)..ms(545)).contains(&at.unwrap()), "{at:?}");
}

/// The slower one is told once that it is not needed, and keeps nothing.
#[test]
fn the_first_complete_handshake_is_the_connection_and_the_other_one_is_over() {
    let mut network = servers(3, &[ms(200), ms(20)]).build().unwrap();
    network.run_to_completion(ms(10_000)).unwrap();
    let (at, _) = network.handshake(Side::Client);
    assert_eq!(server_of(&network), network.four_tuple(0, 1).unwrap());
    assert!((ms(290)..ms(295)).contains(&at.unwrap()), "{at:?}");
    network.run_until(ms(5_000)).unwrap();
    let to_first = network.link_stats()[0][0];
    // The first packet, and that it is over.
    assert_eq!(to_first.packets_in, 2);
    assert!(network.lost(Side::Client).is_none());
}

#[test]
fn no_address_of_a_server_answers_is_said_of_each() {
    let mut network = servers(4, &[ms(10), ms(10)]).build().unwrap();
    network
        .at(Duration::ZERO, down(0))
        .at(Duration::ZERO, down(1));
    let error = network.run_to_completion(ms(60_000)).unwrap_err();
    let text = error.to_string();
    for server in [0, 1] {
        let path = network.four_tuple(0, server).unwrap().to_string();
        assert!(text.contains(&format!("{path}: no answer")), "{text}");
    }
}

/// Any link dies at any time during the handshake, for good, in both directions or in one.
#[test]
fn whichever_link_dies_during_the_handshake_the_other_one_has_the_connection_in_time() {
    for seed in 0..1000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let delays = [0; 2].map(|_| ms(rng.random_range(5..=100)));
        let dead = rng.random_range(0..2);
        // Until the server has the last packet of the handshake.
        let fastest = 3 * delays.iter().min().unwrap().as_micros() as u64;
        let death = Duration::from_micros(rng.random_range(0..=fastest));
        let from = [None, Some(Side::Client), Some(Side::Server)][rng.random_range(0..3)];
        let mut network = builder(seed, &delays, 20_000).build().unwrap();
        network.at(
            death,
            Action::SetLinkUp {
                path: dead,
                from,
                up: false,
            },
        );
        let report = network.run_to_completion(ms(20_000));
        let report = report.unwrap_or_else(|error| {
            panic!("seed {seed}: {error}, {delays:?}, {dead} dies at {death:?} {from:?}")
        });
        let (at, _) = connected(&network, 2);
        let bound = death + ms(300) + 2 * delays[1 - dead] + ms(5);
        assert!(
            at <= bound,
            "seed {seed}: {at:?} > {bound:?}, {delays:?}, {dead} dies at {death:?} {from:?}"
        );
        // And it is of use, even if the server did not hear that the handshake is complete.
        assert!(
            report.completed < ms(5_000),
            "seed {seed}: {:?}",
            report.completed
        );
    }
}
