//! Connections that remember their paths, over simulated networks: a second one jumps to half of what the first one
//! had, each path on its own, and leaves that again where the network has changed.

use std::sync::Arc;
use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::congestion::{InitialWindow, ResumeState};
use mpquic_proto::{
    CarefulResumeConfig, CongestionControl, Event, FourTuple, PathId, PathKey, PathMemory,
    PathStats, RaceConfig, SavedPath, Side, TransportConfig,
};
use mpquic_sched::memory::Store;
use mpquic_sched::{Arrival, ArrivalConfig};
use mpquic_sim::workload::Workload;
use mpquic_sim::{
    App, AppContext, AppError, CrossTraffic, LinkConfig, Network, TransferClient, TransferServer,
};

const SIZE: u64 = 4_000_000;

/// A path of 50 ms.
fn link(mbit: u64) -> LinkConfig {
    LinkConfig::new(mbit * 1_000_000, Duration::from_millis(25))
}

/// How a download went, and the server's figures of each path at its end.
struct Download {
    completed: Duration,
    paths: Vec<PathStats>,
}

fn download(
    memory: Option<Arc<dyn PathMemory>>,
    control: CongestionControl,
    links: &[LinkConfig],
    resume: CarefulResumeConfig,
) -> Download {
    let mut transport = TransportConfig::default();
    transport.congestion(control);
    let mut server = transport.clone();
    server.path_memory(memory).careful_resume(Some(resume));
    let mut network = Network::builder(1)
        .client_transport(transport)
        .server_transport(server)
        .client(TransferClient::download(SIZE))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead();
    for link in links {
        network = network.symmetric_path(link.clone());
    }
    let mut network = network.build().unwrap();
    let report = network.run_to_completion(Duration::from_secs(120)).unwrap();
    // All acknowledgements are there.
    network
        .run_until(report.completed + Duration::from_secs(2))
        .unwrap();
    let server = network.connection(Side::Server).unwrap();
    let paths = (0..links.len() as u32).map(|id| server.path(PathId(id)).unwrap().stats());
    Download {
        completed: report.completed,
        paths: paths.collect(),
    }
}

fn with(store: &Store, control: CongestionControl, links: &[LinkConfig]) -> Download {
    let memory: Arc<dyn PathMemory> = Arc::new(store.clone());
    download(Some(memory), control, links, CarefulResumeConfig::default())
}

fn cold(control: CongestionControl, links: &[LinkConfig]) -> Download {
    download(None, control, links, CarefulResumeConfig::default())
}

#[test]
fn the_second_connection_is_faster_under_every_controller() {
    for &control in CongestionControl::ALL {
        let store = Store::new();
        let links = [link(100)];
        let first = with(&store, control, &links);
        assert!(!first.paths[0].remembered, "{control}");
        assert_eq!(first.paths[0].careful_resume, ResumeState::Off, "{control}");
        assert_eq!(
            first.completed,
            cold(control, &links).completed,
            "{control}"
        );
        assert_eq!(store.saved_paths(), 1, "{control}");
        let second = with(&store, control, &links);
        let path = &second.paths[0];
        assert!(path.remembered, "{control}");
        assert_eq!(path.careful_resume, ResumeState::Validated, "{control}");
        // Half of 100 Mbit/s for 50 ms, about: headers and the measurement are in it.
        let jump = path.jump_window;
        assert!((200_000..=320_000).contains(&jump), "{control}: {jump}");
        let (before, after) = (first.completed, second.completed);
        assert!(
            after + Duration::from_millis(50) <= before,
            "{control}: {after:?} after {before:?}"
        );
    }
}

#[test]
fn each_path_jumps_by_what_it_carried_itself() {
    let store = Store::new();
    let links = [link(100), link(40)];
    let control = CongestionControl::Cubic;
    let first = with(&store, control, &links);
    assert_eq!(store.saved_paths(), 2);
    let second = with(&store, control, &links);
    let jumps: Vec<_> = second.paths.iter().map(|path| path.jump_window).collect();
    assert!(jumps[0] > 150_000 && jumps[1] > 0, "{jumps:?}");
    assert!(jumps[0] > jumps[1], "{jumps:?}");
    assert!(second.completed < first.completed);
}

#[test]
fn a_network_that_has_shrunk_is_noticed_and_forgotten() {
    for &control in CongestionControl::ALL {
        let store = Store::new();
        with(&store, control, &[link(200)]);
        let mut narrow = link(20);
        narrow.queue = mpquic_sim::QueueLimit::Packets(40);
        let shrunk = with(&store, control, &[narrow.clone()]);
        let state = shrunk.paths[0].careful_resume;
        assert_eq!(state, ResumeState::Retreated, "{control}");
        // What was measured since is there instead: at most what the link carries.
        let third = with(&store, control, &[narrow.clone()]);
        let jump = third.paths[0].jump_window;
        assert!(jump <= 20_000_000 / 8 / 20 / 2, "{control}: {jump}");
        let (before, after) = (cold(control, &[narrow]).completed, shrunk.completed);
        assert!(
            after <= before + before / 4,
            "{control}: {after:?} with a memory, {before:?} cold"
        );
    }
}

#[test]
fn another_round_trip_is_no_reason_to_jump() {
    let store = Store::new();
    let control = CongestionControl::Cubic;
    with(&store, control, &[link(100)]);
    let near = [LinkConfig::new(100_000_000, Duration::from_millis(10))];
    let second = with(&store, control, &near);
    assert_eq!(second.paths[0].careful_resume, ResumeState::RttChanged);
    assert_eq!(second.completed, cold(control, &near).completed);
}

/// How long requests of 64 kB, one after the other, took over these paths, with or without what `bottleneck` switches.
fn requests(store: &Store, links: &[LinkConfig], bottleneck: bool) -> Duration {
    let workload: Workload = "requests:20:64kB:20ms".parse().unwrap();
    let mut transport = TransportConfig::default();
    // A packet train tells in the first round trip what this is about to remember.
    transport.slow_start(SlowStart::Rapid);
    let mut server = transport.clone();
    server.path_memory(Some(Arc::new(store.clone())));
    let config = ArrivalConfig {
        bottleneck,
        ..ArrivalConfig::default()
    };
    server.scheduler(move || Arrival::new(&config));
    let mut network = Network::builder(1)
        .client_transport(transport)
        .server_transport(server)
        .client_boxed(workload.client(1))
        .server_boxed(workload.server(1))
        .open_all_paths()
        .null_aead();
    for link in links {
        network = network.symmetric_path(link.clone());
    }
    let mut network = network.build().unwrap();
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    report.completed
}

/// A short path of 4 Mbit/s beside one of 100: what it carries is known from the first packet on.
#[test]
fn the_second_connection_does_not_fill_a_slow_path() {
    let [slow, fast] = [(4, 8), (100, 12)]
        .map(|(mbit, ms)| LinkConfig::new(mbit * 1_000_000, Duration::from_millis(ms)));
    let links = [slow, fast.clone()];
    let store = Store::new();
    let without = requests(&Store::new(), &links, false);
    let first = requests(&store, &links, true);
    assert!(first < without, "{first:?}, {without:?} without");
    let second = requests(&store, &links, true);
    assert!(second < first, "{second:?}, {first:?} the first time");
    // Who remembers the slow path where a fast one is now is as fast as who remembers nothing, or by an answer slower.
    let mended = [LinkConfig::new(100_000_000, Duration::from_millis(8)), fast];
    let cold = requests(&Store::new(), &mended, true);
    let wrong = requests(&store, &mended, true);
    assert!(
        wrong <= cold + cold / 20,
        "{wrong:?} with a memory of another network, {cold:?} without"
    );
}

/// How long a page of 0.5 MB took over a bad Wi-Fi and a 5G for a client that remembers, and how much of it came on the path that the
/// connection began on.
fn page(server: &Store, client: Option<&Store>, links: &[LinkConfig]) -> (f64, FourTuple) {
    let workload: Workload = "page:facebook:two_wave".parse().unwrap();
    let with = |store: Option<&Store>| {
        let mut transport = TransportConfig::default();
        let memory = store.map(|store| Arc::new(store.clone()) as Arc<dyn PathMemory>);
        transport.path_memory(memory);
        transport
    };
    let mut network = Network::builder(1)
        .client_transport(with(client))
        .server_transport(with(Some(server)))
        .client_boxed(workload.client(1))
        .server_boxed(workload.server(1))
        .open_all_paths()
        .race(RaceConfig::default())
        .null_aead();
    for link in links {
        network = network.symmetric_path(link.clone());
    }
    let mut network = network.build().unwrap();
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    network
        .run_until(report.completed + Duration::from_secs(2))
        .unwrap();
    let client = network.connection(Side::Client).unwrap();
    let began = client.path(PathId::ZERO).unwrap().network_path();
    (workload.result(&network).unwrap().primary, began)
}

/// The answer to the first packet comes sooner on the Wi-Fi, and the page does not.
#[test]
fn the_second_connection_of_a_client_begins_where_the_first_received_the_most() {
    let links = [(4, 8), (100, 12)]
        .map(|(mbit, ms)| LinkConfig::new(mbit * 1_000_000, Duration::from_millis(ms)));
    let [server, client] = [(); 2].map(|()| Store::new());
    let (_, wifi) = page(&server, Some(&client), &links);
    let (second, mobile) = page(&server, Some(&client), &links);
    assert_ne!(wifi, mobile, "it begins on the 5G");
    let server = Store::new();
    page(&server, None, &links);
    let (without, began) = page(&server, None, &links);
    assert_eq!(began, wifi);
    assert!(second < 0.95 * without, "{second} s, {without} s without");
    let server = Store::new();
    page(&server, None, &links[1..]);
    let (alone, _) = page(&server, None, &links[1..]);
    assert!(second < 1.03 * alone, "{second} s, {alone} s alone");
}

/// A memory that says the same of every path.
struct Hostile(SavedPath);

impl PathMemory for Hostile {
    fn look_up(&self, _: PathKey, _: Duration) -> Option<SavedPath> {
        Some(self.0)
    }
    fn remember(&self, _: PathKey, _: &SavedPath) {}
    fn forget(&self, _: PathKey) {}
    fn claim(&self, _: PathKey) -> bool {
        true
    }
    fn release(&self, _: PathKey) {}
}

#[test]
fn no_memory_makes_a_path_send_beyond_the_largest_jump() {
    let mut saved = SavedPath::new(Duration::from_millis(50), Duration::ZERO);
    (saved.rate, saved.window) = (u64::MAX, u64::MAX);
    saved.startup_window = u64::MAX;
    saved.confidence = u32::MAX;
    let mut resume = CarefulResumeConfig::default();
    resume.max_jump(100_000);
    for &control in CongestionControl::ALL {
        let memory: Arc<dyn PathMemory> = Arc::new(Hostile(saved));
        let run = download(Some(memory), control, &[link(10)], resume);
        assert!(run.paths[0].jump_window <= 100_000, "{control}");
        let memory: Arc<dyn PathMemory> = Arc::new(Hostile(saved));
        let run = download(
            Some(memory),
            control,
            &[link(10)],
            CarefulResumeConfig::default(),
        );
        assert!(run.paths[0].jump_window <= 4 << 20, "{control}");
    }
}

#[test]
fn careful_resume_can_be_turned_off() {
    let store = Store::new();
    let control = CongestionControl::Cubic;
    with(&store, control, &[link(100)]);
    let mut server = TransportConfig::default();
    server
        .path_memory(Some(Arc::new(store.clone())))
        .careful_resume(None);
    let mut network = Network::builder(1)
        .server_transport(server)
        .client(TransferClient::download(SIZE))
        .server(TransferServer::new())
        .symmetric_path(link(100))
        .null_aead()
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(60)).unwrap();
    let stats = network.connection(Side::Server).unwrap();
    let stats = stats.path(PathId::ZERO).unwrap().stats();
    assert_eq!(stats.careful_resume, ResumeState::Off);
}

/// A path of 100 kbit/s whose queue holds less than an initial window.
fn narrow() -> LinkConfig {
    let mut link = LinkConfig::new(100_000, Duration::from_millis(100));
    link.queue = mpquic_sim::QueueLimit::Packets(4);
    link
}

/// 20 kB over this path: when they were there, and the server's figures at that time.
fn short(server: &TransportConfig, link: LinkConfig) -> (Duration, PathStats) {
    let mut network = Network::builder(1)
        .server_transport(server.clone())
        .client(TransferClient::download(20_000))
        .server(TransferServer::new())
        .symmetric_path(link)
        .null_aead()
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
    let server = network.connection(Side::Server).unwrap();
    (report.completed, server.path(PathId::ZERO).unwrap().stats())
}

#[test]
fn a_path_that_is_surely_slow_begins_with_less() {
    let mut server = TransportConfig::default();
    server.initial_window(InitialWindow::Packets(20)).unwrap();
    let (_, cold) = short(&server, narrow());
    let mut saved = SavedPath::new(Duration::from_millis(200), Duration::ZERO);
    (saved.rate, saved.window, saved.confidence) = (12_500, 2500, 3);
    server.path_memory(Some(Arc::new(Hostile(saved))));
    let (_, warm) = short(&server, narrow());
    assert!(
        warm.lost_packets < cold.lost_packets,
        "{} of {}",
        warm.lost_packets,
        cold.lost_packets
    );
}

/// A download that is asked for this long after the start: until then, the connection is silent.
struct Later {
    inner: TransferClient,
    at: Duration,
    asked: bool,
}

impl App for Later {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if !self.asked && matches!(event, Event::Connected) {
            return Ok(());
        }
        self.inner.on_event(cx, event)
    }

    fn next_wakeup(&self) -> Option<Duration> {
        (!self.asked).then_some(self.at)
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if !self.asked && cx.now() >= self.at {
            self.asked = true;
            self.inner.on_event(cx, &Event::Connected)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.asked && self.inner.is_complete()
    }
}

/// The share of a NewReno flow, percent of the bottleneck's 20 Mbit/s, in the 5 s from the request of a download on
/// that shares the bottleneck with it, and whether that jumped. The memory is of the bottleneck without that flow.
fn competitor(
    control: CongestionControl,
    memory: Option<&Store>,
    link: &LinkConfig,
    seed: u64,
) -> (f64, bool) {
    const REQUEST: Duration = Duration::from_secs(10);
    const AROUND: Duration = Duration::from_secs(5);
    let mut transport = TransportConfig::default();
    transport.congestion(control);
    let mut server = transport.clone();
    server.path_memory(memory.map(|store| Arc::new(store.clone()) as Arc<dyn PathMemory>));
    let mut network = Network::builder(seed)
        .client_transport(transport)
        .server_transport(server)
        .client(Later {
            inner: TransferClient::download(40_000_000),
            at: REQUEST,
            asked: false,
        })
        .server(TransferServer::new())
        .symmetric_path(link.clone())
        .cross_traffic(CrossTraffic::new(
            0,
            Side::Server,
            CongestionControl::NewReno,
        ))
        .null_aead()
        .build()
        .unwrap();
    network.run_until(REQUEST).unwrap();
    let before = network.cross_traffic()[0].delivered;
    network.run_until(REQUEST + AROUND).unwrap();
    let delivered = network.cross_traffic()[0].delivered - before;
    let server = network.connection(Side::Server).unwrap();
    let jump = server.path(PathId::ZERO).unwrap().stats().jump_window;
    let share = 100.0 * delivered as f64 * 8.0 / AROUND.as_secs_f64() / 20e6;
    (share, jump > 0)
}

#[test]
fn a_jump_takes_little_of_a_competitor_that_a_cold_start_leaves_it() {
    // A long queue tells of the competitor by the round trip. A short one does not, nor that losses are its own.
    for (queue, least_jumps) in [(None, 0), (Some(20), 18), (Some(10), 18)] {
        let mut shared = link(20);
        if let Some(packets) = queue {
            shared.queue = mpquic_sim::QueueLimit::Packets(packets);
        }
        for control in [
            CongestionControl::NewReno,
            CongestionControl::Cubic,
            CongestionControl::Bbr,
        ] {
            let part = |seeds: std::ops::RangeInclusive<u64>| {
                let link = &shared;
                let runs = seeds.map(|seed| {
                    // Each connection jumps by the memory of the one that had the link for itself.
                    let copy = Store::new();
                    with(&copy, control, std::slice::from_ref(link));
                    let (cold, _) = competitor(control, None, link, seed);
                    let (warm, jumped) = competitor(control, Some(&copy), link, seed);
                    (cold - warm, jumped)
                });
                runs.collect::<Vec<_>>()
            };
            let runs = std::thread::scope(|scope| {
                let half = scope.spawn(|| part(13..=24));
                let mut runs = part(1..=12);
                runs.extend(half.join().unwrap());
                runs
            });
            let jumps = runs.iter().filter(|(_, jumped)| *jumped).count();
            let mut lost: Vec<_> = runs.into_iter().map(|(lost, _)| lost).collect();
            lost.sort_by(f64::total_cmp);
            let median = f64::midpoint(lost[11], lost[12]);
            let mean = lost.iter().sum::<f64>() / 24.0;
            println!(
                "{control}, queue {queue:?}: {jumps} jumps, median {median:.2}, mean {mean:.2} points of {lost:.1?}"
            );
            assert!(jumps >= least_jumps, "{control}, {queue:?}: {jumps} jumps");
            assert!(median <= 5.0, "{control}, {queue:?}: {lost:?}");
            assert!(mean <= 5.0, "{control}, {queue:?}: {lost:?}");
        }
    }
}
