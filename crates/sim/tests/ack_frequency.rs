//! Fewer acknowledgements on request (QUIC Acknowledgment Frequency): how many are left over modelled links, and that
//! losses and silence are noticed as before.

use std::time::Duration;

use mpquic_proto::{
    AckFrequencyConfig, CongestionControl, PathId, PathStats, Side, TransportConfig,
};
use mpquic_sim::{Action, LinkConfig, Network, TransferClient, TransferServer};

const LEN: u64 = 10_000_000;

/// So much that slow start, which has all acknowledgements, is a small part of it.
const LONG: u64 = 40_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A client that downloads and a server that asks for fewer acknowledgements, or does not.
fn network(paths: u32, asks: bool, loss: f64, control: CongestionControl, len: u64) -> Network {
    let mut server = TransportConfig::default();
    server
        .congestion(control)
        .ack_frequency_config(asks.then(AckFrequencyConfig::default));
    let mut builder = Network::builder(7)
        .server_transport(server)
        .client(TransferClient::download(len))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead();
    for path in 0..paths {
        let link = LinkConfig::new(20_000_000, ms(20 + 10 * u64::from(path))).with_loss(loss);
        builder = builder.symmetric_path(link);
    }
    builder.build().unwrap()
}

fn path_stats(network: &Network, paths: u32) -> Vec<PathStats> {
    let server = network.connection(Side::Server).unwrap();
    let stats = (0..paths).map(|id| server.path(PathId(id)).unwrap().stats());
    stats.collect()
}

/// Packets that the client sent per packet that the server sent, and how long the download took.
fn acknowledgements(network: &mut Network) -> (f64, Duration) {
    let report = network.run_to_completion(Duration::from_secs(120)).unwrap();
    let [acks, data] = [Side::Client, Side::Server]
        .map(|side| network.connection(side).unwrap().stats().sent_packets);
    (acks as f64 / data as f64, report.completed)
}

#[test]
fn a_download_takes_a_third_of_the_acknowledgements_at_most() {
    for control in [CongestionControl::Cubic, CongestionControl::Bbr] {
        for paths in [1, 2] {
            let (usual, usual_time) =
                acknowledgements(&mut network(paths, false, 0.0, control, LONG));
            let (fewer, time) = acknowledgements(&mut network(paths, true, 0.0, control, LONG));
            println!(
                "{control}, {paths} path(s): {usual:.3} acknowledgements per packet in {usual_time:?}, {fewer:.3} in {time:?}"
            );
            assert!(usual > 0.45, "{usual}");
            assert!(fewer < usual / 3.0, "{fewer} instead of {usual}");
            assert!(time <= usual_time * 21 / 20, "{time:?}, {usual_time:?}");
        }
    }
}

/// The client, which did not ask, is acknowledged as usual.
#[test]
fn only_who_asks_gets_fewer() {
    let mut client = TransportConfig::default();
    client.ack_frequency_config(Some(AckFrequencyConfig::default()));
    let mut server = TransportConfig::default();
    server.ack_frequency_config(None);
    let mut network = Network::builder(7)
        .client_transport(client)
        .server_transport(server)
        .symmetric_path(LinkConfig::new(20_000_000, ms(20)))
        .client(TransferClient::download(LEN))
        .server(TransferServer::new())
        .build()
        .unwrap();
    let (usual, _) = acknowledgements(&mut network);
    assert!(usual > 0.45, "{usual}");
}

#[test]
fn losses_are_noticed_as_before() {
    for paths in [1, 2] {
        let [usual, fewer] = [false, true].map(|asks| {
            let mut network = network(paths, asks, 0.01, CongestionControl::Cubic, LEN);
            let (_, time) = acknowledgements(&mut network);
            let stats = path_stats(&network, paths);
            let spurious: u64 = stats.iter().map(|path| path.spurious_losses).sum();
            let lost: u64 = stats.iter().map(|path| path.lost_packets).sum();
            println!("{paths} path(s), asked {asks}: {time:?}, {lost} lost, {spurious} spurious");
            assert!(lost > 30, "{lost}");
            assert!(
                spurious * 20 <= lost,
                "{spurious} of {lost} losses are none"
            );
            time
        });
        assert!(fewer < usual * 5 / 4, "{fewer:?} instead of {usual:?}");
    }
}

/// Nothing arrives for five seconds: persistent congestion. Then it goes on.
//= specs/rfc9002.txt#section-7.6.2
//= type=test
//# When persistent congestion is declared, the sender's congestion window MUST be reduced to the
//# minimum congestion window (kMinimumWindow), similar to a TCP sender's response on an RTO
//# [RFC5681].
#[test]
fn silence_is_persistent_congestion_as_before() {
    for asks in [false, true] {
        let mut network = network(1, asks, 0.0, CongestionControl::Cubic, LEN);
        for (at, up) in [(1000, false), (6000, true)] {
            let action = Action::SetLinkUp {
                path: 0,
                from: None,
                up,
            };
            network.at(ms(at), action);
        }
        let (mut least, mut at) = (u64::MAX, ms(6000));
        while at < ms(12_000) {
            network.run_until(at).unwrap();
            least = least.min(path_stats(&network, 1)[0].cwnd);
            at += ms(5);
        }
        let mtu = u64::from(path_stats(&network, 1)[0].mtu);
        assert!(
            least <= 3 * mtu,
            "asked {asks}: {least}, {:?}",
            path_stats(&network, 1)
        );
        assert_eq!(network.report().delivered[0], LEN, "asked {asks}");
    }
}

/// What ends a transfer is acknowledged at once, though the peer was asked to wait for more.
#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    for control in [CongestionControl::Cubic, CongestionControl::Bbr] {
        let mut network = network(1, true, 0.0, control, LEN);
        let done = network.run_to_completion(Duration::from_secs(60)).unwrap();
        // The way back, and a packet's time on the link.
        network.run_until(done.completed + ms(21)).unwrap();
        assert_eq!(path_stats(&network, 1)[0].in_flight, 0, "{control}");
    }
}
