//! Runs with and without encryption are the same runs.

use std::time::Duration;

use mpquic_proto::Side;
use mpquic_sim::{
    Action, Idle, LinkConfig, Network, NetworkBuilder, TransferClient, TransferServer,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Compares the hashes with real and with null packet protection.
fn same_run(name: &str, build: impl Fn() -> NetworkBuilder) {
    let run = |builder: NetworkBuilder| {
        let mut network = builder.keep_trace().build().unwrap();
        network.at(
            ms(300),
            Action::SetLinkUp {
                path: 0,
                from: None,
                up: false,
            },
        );
        network.at(
            ms(900),
            Action::SetLinkUp {
                path: 0,
                from: None,
                up: true,
            },
        );
        let report = network.run_to_completion(Duration::from_secs(120)).unwrap();
        (report.trace_hash, network.trace().to_vec())
    };
    let (real, real_trace) = run(build());
    let (null, null_trace) = run(build().null_aead());
    let parted = real_trace.iter().zip(&null_trace).find(|(a, b)| a != b);
    assert_eq!(parted, None, "{name}");
    assert_eq!(real, null, "{name}");
}

fn two_paths(seed: u64, link: LinkConfig) -> NetworkBuilder {
    Network::builder(seed)
        .symmetric_path(LinkConfig::new(2_000_000, ms(40)).with_loss(0.01))
        .symmetric_path(link)
        .server(TransferServer::new())
        .open_all_paths()
}

#[test]
fn a_download_is_the_same_with_null_packet_protection() {
    for seed in 0..3 {
        let link = LinkConfig::new(20_000_000, ms(10)).with_rtt_variation(8.0);
        same_run("download", || {
            two_paths(seed, link.clone()).client(TransferClient::download(1_000_000))
        });
    }
}

#[test]
fn hostile_links_are_as_hostile_to_null_packet_protection() {
    let hostile = LinkConfig {
        corruption: 0.05,
        duplication: 0.02,
        reordering: 0.02,
        ..LinkConfig::new(10_000_000, ms(20)).with_loss(0.02)
    };
    for seed in 0..10 {
        same_run("hostile", || {
            two_paths(seed, hostile.clone()).client(TransferClient::both_directions(200_000))
        });
    }
}

#[test]
fn it_is_in_force() {
    // A side with its own TLS configuration keeps the real suite. Neither side can then open the
    // other's packets, and the handshake does not complete.
    let mut network = Network::builder(1)
        .symmetric_path(LinkConfig::new(10_000_000, ms(10)))
        .null_aead()
        .server_tls(mpquic_sim::identity::server_tls().unwrap())
        .client(Idle)
        .build()
        .unwrap();
    network.run_until(Duration::from_secs(5)).unwrap();
    assert_eq!(network.handshake(Side::Client), (None, None));
}
