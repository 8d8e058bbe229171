//! Tests of the measurements against independent accounts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{
    Event, NumberSpace, Observer, PacketSent, PathErrorCode, PathId, Side, StreamId,
    TransportConfig,
};
use mpquic_sched::{Context, Data, Decision, PathSet, Scheduler};
use mpquic_sim::{
    Action, App, AppContext, AppError, Job, LinkConfig, Measurements, Network, NetworkBuilder,
    QueueLimit, Series, Timeline, TransferClient, TransferServer,
};

const MEGABYTE: u64 = 1_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const LIMIT: Duration = Duration::from_secs(60);

/// A packet with stream data: its time, its path and its bytes.
type Sent = (Instant, PathId, Vec<(StreamId, u64, u64)>);

/// Records what the server sends.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Sent>>>);

impl Recorder {
    fn attach(&self, transport: &mut TransportConfig) {
        let recorder = self.clone();
        transport.observer(move |side| {
            (side == Side::Server).then(|| Box::new(recorder.clone()) as Box<dyn Observer>)
        });
    }
}

impl Observer for Recorder {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        let pieces = packet.stream_data().filter(|piece| piece.start < piece.end);
        let pieces: Vec<_> = pieces.map(|p| (p.id, p.start, p.end)).collect();
        if let (NumberSpace::Path(path), false) = (packet.space, pieces.is_empty()) {
            self.0.lock().unwrap().push((packet.now, path, pieces));
        }
    }
}

/// Alternates between the two paths, as long as both have room.
#[derive(Default)]
struct Alternate(usize);

impl Scheduler for Alternate {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let sendable: Vec<_> = cx.sendable().collect();
        self.0 += 1;
        match sendable.get(self.0 % sendable.len().max(1)) {
            Some(path) => Decision::send(path.index),
            None => Decision::Wait { until: None },
        }
    }
}

/// All that is sent is what the scheduler asks for.
fn scheduler<S: Scheduler + Default + 'static>(transport: &mut TransportConfig) {
    transport.tail_copies(false);
    transport.scheduler(|| Box::new(S::default()));
}

/// A client that starts when both paths are open.
struct Later(Option<Duration>, TransferClient);

fn later(jobs: impl IntoIterator<Item = Job>) -> Later {
    Later(Some(ms(500)), TransferClient::new(jobs))
}

fn download_later(bytes: u64) -> Later {
    later([Job::Download { bytes, seed: 1 }])
}

impl App for Later {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match (event, self.0) {
            (Event::Connected, Some(_)) => Ok(()),
            _ => self.1.on_event(cx, event),
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.0
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.0 = None;
        self.1.on_event(cx, &Event::Connected)
    }

    fn is_complete(&self) -> bool {
        self.1.is_complete()
    }
}

fn two_paths(seed: u64, [fast, slow]: [LinkConfig; 2], server: TransportConfig) -> NetworkBuilder {
    Network::builder(seed)
        .symmetric_path(fast)
        .symmetric_path(slow)
        .server_transport(server)
        .server(TransferServer::new())
        .open_all_paths()
}

/// On links without a rate, each packet arrives exactly one path delay after it was sent. The
/// out-of-order queue after each arrival therefore follows from what was sent when.
#[test]
fn the_out_of_order_queue_is_that_of_a_plain_account() {
    let delays = [Duration::from_micros(10_000), Duration::from_micros(37_123)];
    let links = delays.map(|delay| LinkConfig {
        delay,
        ..LinkConfig::default()
    });
    let (mut transport, recorder) = (TransportConfig::default(), Recorder::default());
    scheduler::<Alternate>(&mut transport);
    transport.slow_start(SlowStart::HyStartPlusPlus);
    recorder.attach(&mut transport);
    let jobs = [(1, 300_000), (2, 200_000)].map(|(seed, bytes)| Job::Download { bytes, seed });
    let mut network = two_paths(1, links, transport)
        .client(later(jobs))
        .measure()
        .timeline(ms(1))
        .build()
        .unwrap();
    network.run_to_completion(LIMIT).unwrap();

    let sent = recorder.0.lock().unwrap();
    let mut arrivals: Vec<_> = sent
        .iter()
        .enumerate()
        .map(|(n, (at, path, pieces))| (*at + delays[path.0 as usize], n, pieces))
        .collect();
    arrivals.sort();
    // One flag per byte.
    let mut received: BTreeMap<StreamId, Vec<bool>> = BTreeMap::new();
    let mut queue = Vec::new();
    for (at, _, pieces) in arrivals {
        for (id, start, end) in pieces {
            let bytes = received.entry(*id).or_default();
            bytes.resize(bytes.len().max(*end as usize), false);
            bytes[*start as usize..*end as usize].fill(true);
        }
        let beyond = |bytes: &Vec<bool>| {
            let first_gap = bytes.iter().position(|byte| !byte);
            let rest = &bytes[first_gap.unwrap_or(bytes.len())..];
            rest.iter().filter(|byte| **byte).count() as u64
        };
        queue.push((at, received.values().map(beyond).sum::<u64>()));
    }

    let measured = network.measurements();
    // Both requests were in one packet, which went on both paths.
    let requests = measured.server.out_of_order.unwrap().by_arrival;
    assert_eq!((requests.weight, requests.max), (2, 0));
    let got = measured.client.out_of_order.unwrap();
    let count = queue.len();
    assert!(count > 350, "{count}");
    assert_eq!(got.by_arrival.weight, count as u64);
    let sum: u64 = queue.iter().map(|(_, bytes)| bytes).sum();
    assert!((got.by_arrival.mean - sum as f64 / count as f64).abs() < 1e-6);
    let mut sorted: Vec<_> = queue.iter().map(|(_, bytes)| *bytes).collect();
    sorted.sort_unstable();
    assert_eq!(got.by_arrival.max, sorted[count - 1]);
    assert!(got.by_arrival.max > 50_000, "{got:?}");
    for (part, got) in [(0.5, got.by_arrival.p50), (0.95, got.by_arrival.p95)] {
        let exact = sorted[(part * count as f64).ceil() as usize - 1];
        assert!(
            got.abs_diff(exact) as f64 <= exact as f64 / 256.0,
            "{got} {exact}"
        );
    }
    let spans = queue
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0, pair[0].1));
    let byte_seconds: f64 = spans
        .map(|(time, bytes)| time.as_secs_f64() * bytes as f64)
        .sum();
    let time = (queue[count - 1].0 - queue[0].0).as_secs_f64();
    assert!(
        (got.by_time.mean - byte_seconds / time).abs() < 1e-3,
        "{got:?}"
    );
    assert_eq!(got.by_time.max, got.by_arrival.max);
    let drawn = &network.timeline().unwrap().client.out_of_order;
    assert_eq!(drawn.greatest(), Some(got.by_arrival.max));
    assert_eq!(drawn.last.last(), Some(&0));
}

/// How often and for how long a scheduler held data back.
type Account = Arc<Mutex<(u64, Duration)>>;

/// Waits for 10 ms before each packet.
struct Slow {
    since: Option<Instant>,
    account: Account,
}

impl Scheduler for Slow {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Some(path) = cx.sendable().next() else {
            return Decision::Wait { until: None };
        };
        let queue = cx.queue;
        let nothing = queue.unsent == 0 && queue.retransmittable == 0 && !queue.control;
        if nothing {
            self.since = None;
            return Decision::Wait { until: None };
        }
        let since = *self.since.get_or_insert(cx.now);
        let waited = cx.now - since;
        if waited < ms(10) {
            let until = Some(since + ms(10));
            return Decision::Wait { until };
        }
        self.since = None;
        let mut account = self.account.lock().unwrap();
        account.0 += 1;
        account.1 += waited;
        Decision::send(path.index)
    }
}

#[test]
fn wait_time_is_what_a_scheduler_makes_data_wait() {
    let mut transport = TransportConfig::default();
    let account = Account::default();
    let kept = account.clone();
    transport.scheduler(move || {
        Box::new(Slow {
            since: None,
            account: kept.clone(),
        })
    });
    let links = [10, 20].map(|delay| LinkConfig::new(20_000_000, ms(delay)));
    let mut network = two_paths(1, links, transport)
        .client(download_later(200_000))
        .build()
        .unwrap();
    let report = network.run_to_completion(LIMIT).unwrap();
    let measured = network.measurements();
    let (packets, waited) = *account.lock().unwrap();
    // About 145 packets, each 10 ms after the one before.
    assert!(packets > 135, "{packets}");
    assert_eq!(measured.server.wait_time, waited);
    assert!(waited >= ms(10) * packets as u32 && waited < report.completed);
    assert!(measured.server.waits >= packets);
    // minRTT does not wait.
    assert_eq!(measured.client.wait_time, Duration::ZERO);
}

/// Sends everything on all paths, as soon as all have room.
#[derive(Default)]
struct Redundant;

impl Scheduler for Redundant {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let copies: PathSet = cx.sendable().map(|path| path.index).collect();
        match cx.sendable().next() {
            Some(path) if copies.len() == cx.open().count() => Decision::Send {
                path: path.index,
                data: Data::Next,
                copies,
            },
            _ => Decision::Wait { until: None },
        }
    }
}

/// Alternates between the paths. Without new data, it sends what the other path has in flight.
#[derive(Default)]
struct Reinject(Alternate);

impl Scheduler for Reinject {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        if cx.queue.unsent > 0 || cx.queue.retransmittable > 0 || cx.queue.control {
            return self.0.decide(cx);
        }
        match cx.sendable().next() {
            Some(path) if cx.queue.in_flight > 0 => Decision::Send {
                path: path.index,
                data: Data::Reinject,
                copies: PathSet::EMPTY,
            },
            _ => Decision::Wait { until: None },
        }
    }
}

/// A download of a megabyte with a scheduler, over links with this probability of loss.
fn download<S: Scheduler + Default + 'static>(loss: f64) -> (Network, Measurements) {
    let mut transport = TransportConfig::default();
    scheduler::<S>(&mut transport);
    let queue = QueueLimit::Packets(100_000);
    let links = [(20, 10), (10, 40)].map(|(mbits, delay)| {
        let link = LinkConfig::new(mbits * 1_000_000, ms(delay)).with_queue(queue);
        link.with_loss(loss)
    });
    let mut network = two_paths(1, links, transport)
        .client(download_later(MEGABYTE))
        .build()
        .unwrap();
    network.run_to_completion(LIMIT).unwrap();
    let measured = network.measurements();
    (network, measured)
}

/// Each stream byte is sent for the first time, or again for one of three reasons.
#[test]
fn every_byte_sent_has_its_reason() {
    let again = |measured: &Measurements| {
        let total = measured.server.total();
        let counts = [
            total.retransmitted_bytes,
            total.duplicated_bytes,
            total.reinjected_bytes,
        ];
        assert_eq!(
            total.sent_stream_bytes,
            MEGABYTE + counts.iter().sum::<u64>()
        );
        counts
    };
    let (_, clean) = download::<Alternate>(0.0);
    assert_eq!(again(&clean), [0, 0, 0]);

    let (_, lossy) = download::<Alternate>(0.02);
    let [retransmitted, 0, 0] = again(&lossy) else {
        panic!("{lossy:?}");
    };
    let total = lossy.server.total();
    assert!(
        retransmitted > 10_000 && total.lost_packets > 8,
        "{lossy:?}"
    );
    assert!(lossy.server.paths.iter().all(|path| path.lost_packets > 0));
    assert!(total.congestion_events > 0);

    let (_, twice) = download::<Redundant>(0.0);
    let [0, duplicated, 0] = again(&twice) else {
        panic!("{twice:?}");
    };
    // The slow path takes half as many.
    assert!(duplicated > MEGABYTE / 3, "{twice:?}");
    assert_eq!(twice.server.paths[1].duplicated_bytes, duplicated);
    assert!(twice.server.wait_time > ms(100));
    // Some copies are still in flight when the download is complete.
    let received = twice.client.total().received_stream_bytes;
    assert!((MEGABYTE + duplicated / 2..=MEGABYTE + duplicated).contains(&received));

    let (network, reinjected) = download::<Reinject>(0.0);
    let [_, 0, bytes] = again(&reinjected) else {
        panic!("{reinjected:?}");
    };
    assert!(bytes > 20_000, "{reinjected:?}");
    let server = network.connection(Side::Server).unwrap().stats();
    assert_eq!((server.reinjected_bytes, server.copied_bytes), (bytes, 0));
}

#[test]
fn shares_and_counts_are_those_of_the_wire() {
    let (network, measured) = download::<Alternate>(0.01);
    for side in [Side::Client, Side::Server] {
        let stats = network.connection(side).unwrap().stats();
        let own = measured.side(side);
        let total = own.total();
        assert_eq!(total.sent_packets, stats.sent_packets);
        assert_eq!(total.sent_bytes, stats.sent_bytes);
        assert_eq!(total.received_bytes, stats.received_bytes);
        assert_eq!(total.lost_packets, stats.lost_packets);
        assert_eq!((own.decisions, own.waits), (stats.decisions, stats.waits));
        for (number, path) in own.paths.iter().enumerate() {
            let wire = network.received(side).total(number);
            assert_eq!(path.received_bytes, wire);
            let share = wire as f64 / stats.received_bytes as f64;
            assert!((path.received_share - share).abs() < 1e-12);
        }
    }
}

/// A path that is abandoned and opened again, and a path that moves to another address, each count
/// for the right path.
#[test]
fn abandoned_and_moved_paths_are_counted() {
    let links = [10, 20].map(|delay| LinkConfig::new(10_000_000, ms(delay)));
    let mut network = two_paths(1, links, TransportConfig::default())
        .client(TransferClient::download(4 * MEGABYTE))
        .timeline(ms(10))
        .build()
        .unwrap();
    let close = Action::ClosePath {
        side: Side::Client,
        id: PathId(1),
        code: PathErrorCode::APPLICATION_ABANDON_PATH,
    };
    network.at(ms(500), close);
    let (client, server) = (1, 0);
    network.at(ms(1500), Action::OpenPath { client, server });
    let outside = "203.0.113.7:40000".parse().unwrap();
    network.at(ms(2000), Action::Rebind { client: 0, outside });
    network.run_to_completion(LIMIT).unwrap();
    for side in [Side::Client, Side::Server] {
        let stats = network.connection(side).unwrap().stats();
        let total = network.measurements().side(side).total();
        assert_eq!(total.sent_packets, stats.sent_packets);
        assert_eq!(total.sent_stream_bytes > 0, stats.sent_bytes > 0);
    }
    let Timeline { server, .. } = network.timeline().unwrap();
    let cwnd = |at: u32| server.paths[1].cwnd.at(at).unwrap();
    assert_eq!((cwnd(100), cwnd(140)), (0, 0));
    assert!(cwnd(40) > 10_000 && cwnd(180) > 10_000);
}

/// Bulk data over one path with a queue of 50 packets: the extremes of the time lines agree with
/// the statistics of the link and the connection.
#[test]
fn time_lines_agree_with_what_links_and_paths_say() {
    let link = LinkConfig::new(10_000_000, ms(20)).with_queue(QueueLimit::Packets(50));
    let interval = ms(50);
    let mut network = Network::builder(1)
        .symmetric_path(link)
        .client(TransferClient::download(1 << 40))
        .server(TransferServer::new())
        .timeline(interval)
        .build()
        .unwrap();
    network.run_until(Duration::from_secs(10)).unwrap();
    let timeline = network.timeline().unwrap();
    assert_eq!((timeline.interval_s, timeline.end_s), (0.05, 10.0));
    let down = network.link_stats()[0][1];
    let path = &timeline.server.paths[0];
    // The queue includes the packet that is being serialised.
    let most = path.queue.greatest().unwrap();
    let waited = down.max_queue_bytes;
    assert!((waited + 1200..=waited + 1480).contains(&most), "{most}");
    let stats = network.connection(Side::Server).unwrap();
    let stats = stats.path(PathId::ZERO).unwrap().stats();
    assert_eq!(path.cwnd.last.last(), Some(&stats.cwnd));
    assert_eq!(path.in_flight.last.last(), Some(&stats.in_flight));
    let rtt = stats.rtt.as_micros() as u64;
    assert_eq!(path.smoothed_rtt_us.last.last(), Some(&rtt));
    // There is no value before the first sample.
    assert!(path.smoothed_rtt_us.greatest().unwrap() < 150_000);
    // It stays within the window, except for data that was in flight when the window was reduced.
    let greatest = |series: &Series| series.greatest().unwrap();
    assert!(greatest(&path.in_flight) <= greatest(&path.cwnd));
    assert!(greatest(&path.cwnd) > 100_000);
    // There are no more points than intervals, and the queue is empty at first.
    for series in [&path.cwnd, &path.queue, &path.in_flight] {
        assert!(series.slot.len() <= 200 && series.slot.is_sorted());
    }
    assert_eq!(path.queue.at(0), Some(0));
    let json = serde_json::to_string(&timeline).unwrap();
    assert_eq!(serde_json::from_str::<Timeline>(&json).unwrap(), timeline);
    let measured = network.measurements();
    let json = serde_json::to_string(&measured).unwrap();
    assert_eq!(
        serde_json::from_str::<Measurements>(&json).unwrap(),
        measured
    );
}

/// Measuring does not change the run, and gives the same result each time.
#[test]
fn measuring_changes_nothing() {
    let run = |watched: bool| {
        let links = [10, 40].map(|delay| LinkConfig::new(10_000_000, ms(delay)).with_loss(0.01));
        let mut builder = two_paths(5, links, TransportConfig::default())
            .client(TransferClient::both_directions(MEGABYTE / 2));
        if watched {
            builder = builder.measure().timeline(ms(5));
        }
        let mut network = builder.build().unwrap();
        let report = network.run_to_completion(LIMIT).unwrap();
        (
            report.trace_hash,
            network.measurements(),
            network.timeline(),
        )
    };
    let (hash, plain, none) = run(false);
    assert!(none.is_none() && plain.client.out_of_order.is_none());
    let (watched, measured, timeline) = run(true);
    assert_eq!(hash, watched);
    assert_eq!(measured.server.paths, plain.server.paths);
    let (_, again, lines) = run(true);
    assert_eq!((measured, timeline), (again, lines));
}
