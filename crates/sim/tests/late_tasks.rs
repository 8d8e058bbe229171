//! Hosts whose tasks do not run for a while: what that costs in bytes that are sent twice. A path is not silent because
//! this host does not listen, nor because the peer does not run.

use std::time::Duration;

use mpquic_proto::congestion::CongestionControl;
use mpquic_proto::{PathEvent, Side, TransportConfig};
use mpquic_sim::{Action, LinkConfig, Network, Resume, TransferClient, TransferServer};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const BYTES: u64 = 20_000_000;
const LIMIT: Duration = Duration::from_secs(60);
const CONTROLLERS: [CongestionControl; 2] = [CongestionControl::Cubic, CongestionControl::Bbr];

/// Stops of so long, so often, both in milliseconds.
const PATTERNS: [(u64, u64); 4] = [(50, 200), (100, 400), (200, 1000), (500, 1500)];

/// The order in which a host that was stopped looks at its timers and its sockets.
const RESUMES: [Resume; 4] = [
    Resume::Datagrams,
    Resume::Timers {
        reads_after: Duration::from_nanos(1),
    },
    Resume::Timers { reads_after: ms(3) },
    Resume::Inbox,
];

/// The paths of the example `download`, and those of the tests with failing links.
fn networks() -> [[LinkConfig; 2]; 2] {
    let link = |rate, delay| LinkConfig::new(rate, ms(delay));
    [
        [link(50_000_000, 10), link(20_000_000, 35)],
        [link(20_000_000, 20), link(10_000_000, 40)],
    ]
}

fn download(seed: u64, links: &[LinkConfig; 2], control: CongestionControl) -> Network {
    let mut transport = TransportConfig::default();
    // Copies of the last bytes have a budget of their own.
    transport.congestion(control).tail_copies(false);
    let mut builder = Network::builder(seed);
    for link in links {
        builder = builder.symmetric_path(link.clone());
    }
    builder
        .transport(transport)
        .client(TransferClient::download(BYTES))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap()
}

/// A side stops again and again.
fn stop(network: &mut Network, side: Side, (time, every): (u64, u64), resume: Resume) {
    let mut at = ms(500);
    while at < LIMIT {
        let time = ms(time);
        network.at(at, Action::Stop { side, time, resume });
        at += ms(every);
    }
}

/// Bytes that the server sent again though their packets were not lost, and how often a path fell suspect.
fn sent_twice(network: &Network) -> (u64, usize) {
    let sent = network.measurements().server.total();
    let again = sent.retransmitted_bytes + sent.reinjected_bytes + sent.duplicated_bytes;
    // What is lost to full queues is no waste.
    let lost = sent.lost_packets * 1452;
    let events = network.path_events(Side::Server).iter();
    let suspicions = events.filter(|(_, event)| matches!(event, PathEvent::Suspect { .. }));
    (again.saturating_sub(lost), suspicions.count())
}

fn check(side: Side, resumes: &[Resume], most_suspicions: usize) {
    for (links, control) in networks()
        .iter()
        .flat_map(|links| CONTROLLERS.map(|c| (links, c)))
    {
        for (pattern, resume) in PATTERNS
            .iter()
            .flat_map(|p| resumes.iter().map(move |r| (*p, *r)))
        {
            let mut network = download(1, links, control);
            stop(&mut network, side, pattern, resume);
            network.run_to_completion(LIMIT).unwrap();
            let (again, suspicions) = sent_twice(&network);
            let share = again as f64 / BYTES as f64 * 100.0;
            println!(
                "{side:?} {control} {pattern:?} {resume:?}: {share:.2} % twice, suspect {suspicions} times"
            );
            assert!(share <= 1.0, "{share} %");
            assert!(suspicions <= most_suspicions, "{suspicions}");
        }
    }
}

/// The sender's own task is late: what came meanwhile is read before anything is missed. A path that was due to fall suspect
/// within the last three milliseconds of a stop still does.
#[test]
fn a_sender_that_stops_sends_hardly_anything_twice() {
    check(Side::Server, &RESUMES, 5);
}

/// The receiver's task is late: all paths are silent together, and none of them is to blame.
#[test]
fn a_receiver_that_stops_is_sent_hardly_anything_twice() {
    check(Side::Client, &RESUMES[..1], usize::MAX);
}

/// A path that dies while hosts stop is told from the stops.
#[test]
fn a_path_that_dies_is_noticed_beside_stops() {
    for side in [Side::Client, Side::Server] {
        for control in CONTROLLERS {
            let mut network = download(1, &networks()[0], control);
            stop(&mut network, side, PATTERNS[0], RESUMES[2]);
            network.at(
                ms(1010),
                Action::SetLinkUp {
                    path: 0,
                    from: None,
                    up: false,
                },
            );
            let report = network.run_to_completion(LIMIT).unwrap();
            let stall = report.longest_stall[0];
            println!("{side:?} stops, {control}: stall {stall:?}");
            assert!(stall <= ms(400), "{stall:?}");
        }
    }
}
