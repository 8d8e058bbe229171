//! Tests of everything between the peers: chains of links, shared links, cross traffic.

use std::time::Duration;

use mpquic_proto::{CongestionControl, Side, TransportConfig};
use mpquic_sim::{
    Action, CrossReport, CrossTraffic, Hop, LinkAction, LinkConfig, Network, NetworkBuilder,
    QueueLimit, SimError, TransferClient, TransferServer,
};

const MEGABYTE: u64 = 1_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn download(builder: NetworkBuilder, bytes: u64) -> Network {
    builder
        .client(TransferClient::download(bytes))
        .server(TransferServer::new())
        .open_all_paths()
        .build()
        .unwrap()
}

fn transport(control: CongestionControl) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.congestion(control);
    transport
}

/// The rate of UDP payload that the client receives over each path, in bit/s.
fn rates(network: &Network, paths: usize, over: Duration) -> Vec<f64> {
    let received = network.received(Side::Client);
    (0..paths)
        .map(|path| received.total(path) as f64 * 8.0 / over.as_secs_f64())
        .collect()
}

#[test]
fn delays_of_a_chain_add_up_and_the_narrowest_link_rules() {
    let chain = [
        LinkConfig::new(100_000_000, ms(7)),
        LinkConfig::new(5_000_000, ms(11)),
        LinkConfig::new(50_000_000, ms(13)),
    ];
    let back = LinkConfig::new(50_000_000, ms(2));
    let mut network = download(
        Network::builder(1).path_through([back], chain),
        2 * MEGABYTE,
    );
    let report = network.run_to_completion(secs(60)).unwrap();
    let path = network.connection(Side::Server).unwrap();
    let min_rtt = path
        .path(mpquic_proto::PathId::ZERO)
        .unwrap()
        .stats()
        .min_rtt;
    // 33 ms of delay, and about 2 ms for 1200 bytes at 5 Mbit/s.
    assert!((ms(33)..ms(37)).contains(&min_rtt), "{min_rtt:?}");
    // 2 MB and their headers (28 bytes outside, some 30 inside 1452) at 5 Mbit/s: 3.3 s.
    let expected = 2.0 * 8.0 / 5.0 * (1480.0 / 1420.0);
    let took = report.completed.as_secs_f64();
    assert!((expected..1.1 * expected).contains(&took), "{took}");
}

/// Two paths of different delay through one link get its rate together. With links of their own,
/// they get twice as much.
#[test]
fn paths_through_one_bottleneck_share_it() {
    let rate = 10_000_000;
    let run = |shared: bool| {
        let mut builder = Network::builder(1);
        let neck = LinkConfig::new(rate, ms(5));
        let bottleneck = builder.shared_link(neck.clone());
        for delay in [ms(5), ms(10)] {
            let access = LinkConfig::new(100_000_000, delay);
            let first = match shared {
                true => Hop::Shared(bottleneck),
                false => Hop::Own(neck.clone()),
            };
            let down = [first, Hop::Own(access.clone())];
            builder = builder.path_through([access], down);
        }
        let mut network = download(builder, 1 << 40);
        network.run_until(secs(10)).unwrap();
        let report = network.report();
        assert_eq!(report.shared_links.len(), 1);
        let dropped = report.shared_links[0].dropped_queue;
        assert_eq!(dropped > 0, shared, "{dropped}");
        let rates = rates(&network, 2, secs(10));
        println!("shared {shared}: {rates:?}");
        rates
    };
    let rate = rate as f64;
    let apart = run(false);
    assert!(apart.iter().all(|r| (0.85 * rate..rate).contains(r)));
    let together = run(true);
    let sum: f64 = together.iter().sum();
    assert!((0.85 * rate..rate).contains(&sum), "{together:?}");
    // Uncoupled controllers: each path has a share of the bottleneck.
    assert!(together.iter().all(|r| *r > 0.2 * rate), "{together:?}");
}

/// The links of a chain have the given order. A path's actions change its own link; a shared link
/// is changed by name.
#[test]
fn actions_reach_own_links_by_path_and_shared_ones_by_name() {
    let build = || {
        let mut builder = Network::builder(1);
        let shared = builder.shared_link(LinkConfig::new(20_000_000, ms(1)));
        for _ in 0..2 {
            let access = LinkConfig::new(20_000_000, ms(10));
            builder = builder.path_through([access.clone()], [shared.into(), Hop::Own(access)]);
        }
        (download(builder, 1 << 40), shared)
    };
    let received =
        |network: &Network| [0, 1].map(|path| network.received(Side::Client).total(path));

    let (mut network, _) = build();
    let dark = Action::SetLinkUp {
        path: 0,
        from: Some(Side::Server),
        up: false,
    };
    network.at(secs(2), dark);
    network.run_until(ms(2100)).unwrap();
    let before = received(&network);
    network.run_until(secs(4)).unwrap();
    let after = received(&network);
    assert_eq!(after[0], before[0]);
    assert!(after[1] > before[1] + 4 * MEGABYTE);

    let (mut network, link) = build();
    let dark = LinkAction::Up(false);
    network.at(secs(2), Action::ChangeSharedLink { link, change: dark });
    network.run_until(ms(2100)).unwrap();
    let before = received(&network);
    network.run_until(secs(4)).unwrap();
    assert_eq!(received(&network), before);
    let change = LinkAction::Rate(Some(0));
    network.at(secs(4), Action::ChangeSharedLink { link, change });
    let refused = network.run_until(secs(5)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "shared link 0: link setting `rate` is 0, expected at least 1 bit/s (for a dead link, an \
         outage)"
    );
}

#[test]
fn eight_paths_all_carry_data() {
    let mut builder = Network::builder(3);
    for path in 0..8 {
        builder = builder.symmetric_path(LinkConfig::new(5_000_000, ms(5 + 3 * path)));
    }
    let mut network = download(builder, 1 << 40);
    network.run_until(secs(10)).unwrap();
    let rates = rates(&network, 8, secs(10));
    assert!(rates.iter().all(|rate| *rate > 3_500_000.0), "{rates:?}");
}

fn bottleneck() -> LinkConfig {
    LinkConfig::new(10_000_000, ms(20)).with_queue(QueueLimit::Packets(50))
}

/// With a flow of the same controller on the same link, each gets about half of it. After that flow
/// ends, the connection gets all of it.
#[test]
fn cross_traffic_takes_its_share_and_stops() {
    for from in [Side::Server, Side::Client] {
        let cross =
            CrossTraffic::new(0, from, CongestionControl::NewReno).between(secs(5), secs(35));
        let client = match from {
            Side::Server => TransferClient::download(1 << 40),
            Side::Client => TransferClient::upload(1 << 40),
        };
        let mut network = Network::builder(1)
            .symmetric_path(bottleneck())
            .transport(transport(CongestionControl::NewReno))
            .client(client)
            .server(TransferServer::new())
            .cross_traffic(cross)
            .build()
            .unwrap();
        let mut at = |time| {
            network.run_until(time).unwrap();
            let cross = network.cross_traffic().remove(0);
            let own = network.received(!from).total(0);
            (own as f64 * 8.0, cross)
        };
        let mbits = |from: f64, to: f64, time: Duration| (to - from) / time.as_secs_f64() / 1e6;

        let (alone, cross) = at(secs(5));
        assert_eq!((cross.started, cross.delivered), (None, 0));
        assert!(mbits(0.0, alone, secs(5)) > 8.5);
        let (before, early) = at(secs(15));
        let started = early.started.unwrap();
        assert!((secs(5)..ms(5100)).contains(&started), "{started:?}");
        let (shared, cross) = at(secs(35));
        let own = mbits(before, shared, secs(20));
        // Over the same time: while they find their shares, one has more and the other less.
        let share = mbits(
            early.delivered as f64 * 8.0,
            cross.delivered as f64 * 8.0,
            secs(20),
        );
        println!("own {own}, cross {share}");
        assert!((3.0..7.0).contains(&own), "{own}");
        assert!((3.0..7.0).contains(&share), "{share}");
        assert!((8.5..10.0).contains(&(own + share)), "{own} + {share}");
        assert!(cross.sender.lost_packets > 0 && cross.lost.is_none());

        let (again, _) = at(secs(40));
        let (after, ended) = at(secs(50));
        assert_eq!(ended.stopped, Some(secs(35)));
        assert_eq!(ended.delivered, cross.delivered);
        assert!(mbits(again, after, secs(10)) > 9.0);
    }
}

/// Several flows at once, in both directions, on several paths, with both controllers. The trace
/// includes them.
#[test]
fn cross_traffic_is_part_of_the_run() {
    let run = |seed, count: usize| {
        let mut builder = Network::builder(seed)
            .symmetric_path(bottleneck())
            .symmetric_path(LinkConfig::new(20_000_000, ms(10)))
            .keep_trace();
        let flows = [
            CrossTraffic::new(0, Side::Server, CongestionControl::NewReno),
            CrossTraffic::new(1, Side::Server, CongestionControl::Cubic)
                .between(ms(500), ms(2500))
                .with_phase(ms(1000)),
            CrossTraffic::new(1, Side::Client, CongestionControl::Cubic),
        ];
        for flow in &flows[..count] {
            builder = builder.cross_traffic(*flow);
        }
        // Long enough for the flow that begins late.
        let mut network = download(builder, 6 * MEGABYTE);
        let report = network.run_to_completion(secs(60)).unwrap();
        assert_eq!(network.trace_hash(), report.trace_hash);
        (report.trace_hash, report.completed, report.cross)
    };
    let (hash, took, cross) = run(1, 3);
    assert!(
        cross.iter().all(|flow| flow.goodput(took) > 1e6),
        "{cross:?}"
    );
    let (again, _, _) = run(1, 3);
    assert_eq!(hash, again);
    let started = |cross: &[CrossReport]| cross.iter().map(|c| c.started).collect::<Vec<_>>();
    let (other, _, others) = run(2, 3);
    assert_ne!(hash, other);
    assert_ne!(started(&cross), started(&others));
    let (fewer, sooner, _) = run(1, 2);
    assert_ne!(hash, fewer);
    let (_, alone, _) = run(1, 0);
    assert!(
        alone < sooner && sooner < took + secs(1),
        "{alone:?} {sooner:?} {took:?}"
    );
}

/// The link is down for a minute, twice as long as a connection's default idle timeout. The flow
/// continues afterwards.
#[test]
fn cross_traffic_survives_an_outage() {
    let dark = bottleneck().with_outage(secs(5), secs(60));
    let mut network = Network::builder(1)
        .symmetric_path(dark)
        .cross_traffic(CrossTraffic::new(0, Side::Server, CongestionControl::Cubic))
        .build()
        .unwrap();
    network.run_until(secs(60)).unwrap();
    let before = network.cross_traffic()[0].delivered;
    network.run_until(secs(200)).unwrap();
    let after = &network.cross_traffic()[0];
    assert!(after.lost.is_none());
    assert!(after.delivered > before + 20 * MEGABYTE, "{after:?}");
}

#[test]
fn networks_that_cannot_be_are_refused() {
    let error = |builder: NetworkBuilder| builder.build().err().unwrap();
    let link = LinkConfig::default;
    let none: [LinkConfig; 0] = [];
    let empty = error(Network::builder(1).path_through([link()], none));
    assert_eq!(
        empty.to_string(),
        "path 0, Server sending: 0 links, expected 1 to 16"
    );
    let long = error(Network::builder(1).path_through(vec![link(); 17], [link()]));
    assert!(matches!(
        long,
        SimError::Chain {
            path: 0,
            from: Side::Client,
            hops: 17,
            ..
        }
    ));

    let foreign = Network::builder(1).shared_link(link());
    let unknown = error(Network::builder(1).path_through([foreign], [foreign]));
    assert!(matches!(
        unknown,
        SimError::Missing {
            what: "shared link",
            number: 0
        }
    ));
    let mut lossy = Network::builder(1);
    lossy.shared_link(link().with_loss(2.0));
    assert_eq!(
        error(lossy.symmetric_path(link())).to_string(),
        "shared link 0: link setting `loss` is 2, expected a probability, 0 to 1"
    );

    let cross = CrossTraffic::new(1, Side::Server, CongestionControl::Cubic);
    let nowhere = Network::builder(1)
        .symmetric_path(link())
        .cross_traffic(cross);
    assert!(matches!(
        error(nowhere),
        SimError::Missing {
            what: "path",
            number: 1
        }
    ));
    let cross = CrossTraffic { path: 0, ..cross }.between(secs(1), secs(1));
    let never = Network::builder(1)
        .symmetric_path(link())
        .cross_traffic(cross);
    assert_eq!(
        error(never).to_string(),
        "cross traffic 0 stops at 1s, expected later than its start at 1s with its phase of up to \
         100ms"
    );
}
