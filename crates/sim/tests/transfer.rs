//! Complete transfers between real endpoints over modelled paths.

use std::time::Duration;

use mpquic_proto::Side;
use mpquic_sim::{
    Action, AppError, Fate, LinkConfig, Loss, Network, NetworkBuilder, SimError, TransferClient,
    TransferServer,
};

const MEGABYTE: u64 = 1_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The slow and the fast path of the papers, both with some loss.
fn two_paths(seed: u64) -> NetworkBuilder {
    Network::builder(seed)
        .symmetric_path(LinkConfig::new(2_000_000, ms(100)).with_loss(0.005))
        .symmetric_path(LinkConfig::new(50_000_000, ms(20)).with_loss(0.005))
        .server(TransferServer::new())
        .open_all_paths()
}

#[test]
fn a_megabyte_comes_down_over_two_paths() {
    let mut network = two_paths(1)
        .client(TransferClient::download(MEGABYTE))
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    assert_eq!(report.delivered[0], MEGABYTE);
    // The slow path alone takes over 4 s.
    assert!(report.completed < Duration::from_secs(4), "{report:?}");
    let received = network.received(Side::Client);
    assert!(received.total(1) > received.total(0));
    assert_eq!(network.unroutable(), 0);
}

#[test]
fn uploads_echoes_and_both_directions() {
    for client in [
        TransferClient::upload(MEGABYTE),
        TransferClient::echo(MEGABYTE),
        TransferClient::both_directions(MEGABYTE),
    ] {
        let mut network = two_paths(2).client(client).build().unwrap();
        network.run_to_completion(Duration::from_secs(60)).unwrap();
        let server = network.app::<TransferServer>(Side::Server).unwrap();
        assert!(server.served() >= 1);
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let run = |seed| {
        let mut network = two_paths(seed)
            .client(TransferClient::download(MEGABYTE))
            .keep_trace()
            .build()
            .unwrap();
        network.run_to_completion(Duration::from_secs(60)).unwrap();
        (network.trace_hash(), network.trace().to_vec())
    };
    let ((first, records), (again, others)) = (run(3), run(3));
    // The first difference is a better message than the fact that they differ.
    let parted = records.iter().zip(&others).find(|(a, b)| a != b);
    assert_eq!(parted, None);
    assert_eq!(first, again);
    assert_ne!(first, run(4).0);
}

#[test]
fn a_transfer_outlives_its_fast_path() {
    let mut network = two_paths(5)
        .client(TransferClient::download(MEGABYTE))
        .build()
        .unwrap();
    network.at(
        ms(600),
        Action::SetLinkUp {
            path: 1,
            from: None,
            up: false,
        },
    );
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    assert_eq!(report.delivered[0], MEGABYTE);
    assert!(report.longest_stall[0] < Duration::from_secs(5));
}

#[test]
fn a_closed_connection_drains() {
    let mut network = two_paths(6)
        .client(TransferClient::download(1000))
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(60)).unwrap();
    let now = network.now();
    network.at(
        now,
        Action::Close {
            side: Side::Client,
            code: 7,
        },
    );
    network.run_until_drained(Duration::from_secs(120)).unwrap();
    assert!(network.lost(Side::Server).is_some());
}

#[test]
fn hooks_see_every_datagram_and_every_step() {
    use std::cell::Cell;
    use std::rc::Rc;

    let (lost, steps) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u64)));
    let mut network = two_paths(7)
        .client(TransferClient::download(MEGABYTE))
        .build()
        .unwrap();
    let count = Rc::clone(&lost);
    network.on_datagram(move |info| {
        if info.what == mpquic_sim::DatagramStep::Left(Fate::Lost(Loss::Random)) {
            count.set(count.get() + 1);
        }
    });
    let count = Rc::clone(&steps);
    network.on_step(move |view| {
        count.set(count.get() + 1);
        view.client
            .map(|_| ())
            .ok_or_else(|| "the client has no connection".to_owned())
    });
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    let counted: u64 = report
        .links
        .iter()
        .flatten()
        .map(|link| link.dropped_loss)
        .sum();
    assert_eq!(lost.get(), counted);
    assert!(counted > 0 && steps.get() > counted);
}

#[test]
fn bad_networks_are_refused() {
    let link = LinkConfig::default;
    let error = |builder: NetworkBuilder| builder.build().err().map(|error| error.to_string());
    assert_eq!(
        error(Network::builder(1)).as_deref(),
        Some("a network needs at least one path")
    );
    let twice = Network::builder(1)
        .path_between(0, 0, link(), link())
        .path_between(0, 0, link(), link());
    assert_eq!(
        error(twice).as_deref(),
        Some("path 1 joins client address 0 and server address 0, as path 0 does")
    );
    let gap = Network::builder(1).path_between(1, 0, link(), link());
    assert_eq!(error(gap).as_deref(), Some("there is no client address 0"));
    let many = (0..251).fold(Network::builder(1), |builder, _| {
        builder.symmetric_path(link())
    });
    assert_eq!(
        error(many).as_deref(),
        Some("251 client addresses, expected at most 250")
    );
    let lossy = Network::builder(1).symmetric_path(link().with_loss(7.0));
    assert_eq!(
        error(lossy).as_deref(),
        Some("path 0: link setting `loss` is 7, expected a probability, 0 to 1")
    );
}

#[test]
fn errors_name_what_went_wrong() {
    let stream = mpquic_proto::StreamId::new(Side::Client, mpquic_proto::Dir::Bi, 0);
    let error = AppError::Mismatch { stream, offset: 17 };
    assert!(error.to_string().ends_with("wrong byte at 17"));
}

#[test]
fn hostile_links_change_no_byte_and_no_run() {
    let hostile = LinkConfig {
        corruption: 0.02,
        duplication: 0.02,
        reordering: 0.02,
        ..LinkConfig::new(10_000_000, ms(20)).with_loss(0.02)
    };
    for seed in 0..10 {
        let run = || {
            let mut network = Network::builder(seed)
                .symmetric_path(hostile.clone())
                .symmetric_path(hostile.clone())
                .client(TransferClient::both_directions(200_000))
                .server(TransferServer::new())
                .open_all_paths()
                .build()
                .unwrap();
            network
                .run_to_completion(Duration::from_secs(60))
                .unwrap()
                .trace_hash
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

#[test]
fn too_little_time_and_no_way_are_told_apart() {
    let build = |link: LinkConfig| {
        Network::builder(9)
            .symmetric_path(link)
            .client(TransferClient::download(MEGABYTE))
            .server(TransferServer::new())
            .build()
            .unwrap()
    };
    let slow = build(LinkConfig::new(100_000, ms(20))).run_to_completion(Duration::from_secs(5));
    assert!(
        matches!(slow, Err(SimError::TimeLimit { delivered, .. }) if delivered > 0),
        "{slow:?}"
    );
    let dead =
        build(LinkConfig::default().with_loss(1.0)).run_to_completion(Duration::from_secs(3600));
    assert!(
        matches!(
            dead,
            Err(SimError::ConnectionLost {
                side: Side::Client,
                ..
            })
        ),
        "{dead:?}"
    );
}
