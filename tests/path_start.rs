//! When a second path can carry data: counted from the completion of the handshake, or from its confirmation.

use std::time::Duration;

use crate::support::{Recorder, Script, Told, has_room, ms, slot};
use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{EarlyPathData, PathEvent, PathId, PathStart, Side, TransportConfig};
use mpquic_sched::{Context, Decision, MinRtt};
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

/// So fast that packets take no time to be sent.
const RATE: u64 = 100_000_000_000;

/// A download over paths with these round trip times; when each side had validated the second path.
fn opened(client: PathStart, server: PathStart, rtts: [Duration; 2]) -> [Duration; 2] {
    let transport = |start| {
        let mut transport = TransportConfig::default();
        transport.path_start(start);
        transport
    };
    let mut network = Network::builder(7)
        .symmetric_path(LinkConfig::new(RATE, rtts[0] / 2))
        .symmetric_path(LinkConfig::new(RATE, rtts[1] / 2))
        .client_transport(transport(client))
        .server_transport(transport(server))
        .client(TransferClient::download(1 << 30))
        .server(TransferServer::new())
        .open_all_paths()
        .build()
        .unwrap();
    network.run_until(ms(1000)).unwrap();
    [Side::Client, Side::Server].map(|side| {
        let mut events = network.path_events(side).iter();
        let opened = events.find(|(_, event)| *event == PathEvent::Opened { id: PathId(1) });
        opened.unwrap().0
    })
}

fn near(measured: Duration, expected: Duration) -> bool {
    measured >= expected && measured < expected + ms(1)
}

#[test]
fn a_path_needs_one_round_trip_of_the_handshake_and_one_and_a_half_of_its_own() {
    use PathStart::{Complete, Confirmed};
    for (first, second) in [(100, 100), (40, 200), (200, 40), (300, 10)] {
        let rtts = [ms(first), ms(second)];
        let [client, server] = opened(Complete, Complete, rtts);
        // The server reads nothing of the path before it has the Finished.
        let challenged = (rtts[0] + rtts[1] / 2).max(rtts[0] * 3 / 2);
        assert!(
            near(client, challenged + rtts[1] / 2),
            "{first}, {second}: {client:?}"
        );
        assert!(
            near(server, challenged + rtts[1]),
            "{first}, {second}: {server:?}"
        );
        let [client, server] = opened(Confirmed, Confirmed, rtts);
        assert!(near(client, rtts[0] * 2 + rtts[1]), "{client:?}");
        assert!(near(server, rtts[0] * 2 + rtts[1] * 3 / 2), "{server:?}");
    }
}

#[test]
fn either_side_may_be_of_the_older_kind() {
    use PathStart::{Complete, Confirmed};
    let rtts = [ms(60), ms(100)];
    for (client, server) in [(Complete, Confirmed), (Confirmed, Complete)] {
        let [_, opened] = opened(client, server, rtts);
        assert!(
            near(opened, rtts[0] * 2 + rtts[1] * 3 / 2),
            "{client:?}, {server:?}: {opened:?}"
        );
    }
}

/// When the server's first packet with data leaves on the second path, in a download over paths with these round trip
/// times.
fn first_data(start: PathStart, early_data: bool, rtts: [Duration; 2]) -> Duration {
    first_data_by(start, early_data, rtts, |_| {})
}

/// The same with a server whose scheduler is another one.
fn first_data_by(
    start: PathStart,
    early_data: bool,
    rtts: [Duration; 2],
    schedule: impl FnOnce(&mut TransportConfig),
) -> Duration {
    let mut transport = TransportConfig::default();
    transport
        .path_start(start)
        .early_path_data(match early_data {
            true => EarlyPathData::Both,
            false => EarlyPathData::default(),
        })
        // It waits for no path.
        .scheduler(|| Box::new(MinRtt::default()))
        // The first path has no room left when the second one opens.
        .slow_start(SlowStart::HyStartPlusPlus);
    let recorder = Recorder::default();
    let mut server = transport.clone();
    recorder.attach(&mut server, Side::Server);
    schedule(&mut server);
    let mut network = Network::builder(7)
        .symmetric_path(LinkConfig::new(RATE, rtts[0] / 2))
        .symmetric_path(LinkConfig::new(RATE, rtts[1] / 2))
        .client_transport(transport)
        .server_transport(server)
        .client(TransferClient::download(1 << 30))
        .server(TransferServer::new())
        .open_all_paths()
        .build()
        .unwrap();
    let begin = network.instant();
    network
        .run_until(rtts[0] * 2 + rtts[1] * 3 / 2 + ms(2))
        .unwrap();
    let sent = recorder.take();
    let mut with_data = sent.iter().filter(|packet| !packet.data.is_empty());
    let first = with_data.find(|packet| packet.path == PathId(1)).unwrap();
    first.now - begin
}

/// The request needs one and a half round trips of the first path, whatever the second one does.
#[test]
fn the_second_path_carries_data_after_one_round_trip_of_the_handshake_and_one_and_a_half_of_its_own()
 {
    use PathStart::{Complete, Confirmed};
    for (first, second) in [(10, 70), (70, 10), (100, 20), (20, 100), (50, 50)] {
        let rtts = [ms(first), ms(second)];
        let read = (rtts[0] + rtts[1] / 2).max(rtts[0] * 3 / 2);
        let complete = first_data(Complete, false, rtts);
        assert!(
            near(complete, read + rtts[1]),
            "{first}, {second}: {complete:?}"
        );
        let confirmed = first_data(Confirmed, false, rtts);
        assert!(
            near(confirmed, rtts[0] * 2 + rtts[1] * 3 / 2),
            "{first}, {second}: {confirmed:?}"
        );
        // Where the server may send before it has validated the address: a round trip of the path earlier.
        let early = first_data(Complete, true, rtts);
        assert!(near(early, read), "{first}, {second}: {early:?}");
    }
}

/// A scheduler that has nothing in flight and waits for the second path is asked as soon as that may carry data.
#[test]
fn a_wait_ends_with_the_validation_of_a_path() {
    for (first, second) in [(10, 70), (70, 10), (100, 20), (20, 100), (50, 50)] {
        let rtts = [ms(first), ms(second)];
        let read = (rtts[0] + rtts[1] / 2).max(rtts[0] * 3 / 2);
        let sent = first_data_by(PathStart::Complete, false, rtts, |server| {
            Script::attach(server, || {
                |cx: &Context<'_>, _: &Told| match has_room(cx, 1) {
                    true => Decision::send(slot(1)),
                    false => Decision::Wait { until: None },
                }
            });
        });
        assert!(near(sent, read + rtts[1]), "{first}, {second}: {sent:?}");
    }
}
