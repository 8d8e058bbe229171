//! Tests of BBRv3 over modelled links: throughput on clean, lossy, jittery, shallow and changing
//! paths, beside other flows, and over two unequal paths.
//!
//! The steps of the algorithm have unit tests of their own.

use std::thread;
use std::time::Duration;

use mpquic_proto::{CongestionControl, InitialWindow, PathId, Side, TransportConfig};
use mpquic_sim::{
    Action, CrossTraffic, LinkConfig, Network, NetworkBuilder, QueueLimit, TransferClient,
    TransferServer,
};

const MEGABIT: f64 = 1e6;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// 50 Mbit/s and an RTT of 40 ms: a bandwidth-delay product of 250 kB, and a queue of the same
/// size.
fn fast() -> LinkConfig {
    LinkConfig::new(50_000_000, ms(20))
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.congestion(CongestionControl::Bbr);
    transport
}

fn builder(seed: u64, links: impl IntoIterator<Item = LinkConfig>) -> NetworkBuilder {
    let builder = Network::builder(seed)
        .null_aead()
        .transport(transport())
        .server(TransferServer::new())
        .open_all_paths();
    links
        .into_iter()
        .fold(builder, NetworkBuilder::symmetric_path)
}

/// A server that sends endlessly.
fn bulk(builder: NetworkBuilder) -> Network {
    let client = TransferClient::download(1 << 40);
    builder.client(client).build().unwrap()
}

/// The goodput at the client between two times, in Mbit/s.
fn goodput(network: &mut Network, from: Duration, to: Duration) -> f64 {
    network.run_until(from).unwrap();
    let before = network.report().delivered[0];
    network.run_until(to).unwrap();
    let bytes = network.report().delivered[0] - before;
    bytes as f64 * 8.0 / MEGABIT / (to - from).as_secs_f64()
}

/// One run per seed, on all cores. The results are in the order of the seeds.
fn for_seeds<T: Send>(seeds: u64, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..seeds)
            .map(|seed| {
                let run = &run;
                scope.spawn(move || run(seed))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Ten full seconds, handshake and Startup included, with a queue that is mostly empty.
#[test]
fn a_clean_link_is_filled_and_its_queue_is_not() {
    let mut network = bulk(builder(1, [fast()]));
    let mut queued = Vec::new();
    // After Startup and Drain.
    for tenth in 10..100 {
        network.run_until(ms(100 * tenth)).unwrap();
        let server = network.connection(Side::Server).unwrap();
        queued.push(server.path(PathId(0)).unwrap().stats().rtt);
    }
    let rate = network.report().delivered[0] as f64 * 8.0 / MEGABIT / 9.9;
    assert!(rate >= 0.9 * 50.0, "{rate} Mbit/s");
    // A full queue adds 40 ms.
    let empty = queued.iter().filter(|rtt| **rtt < ms(45)).count();
    assert!(empty * 10 >= queued.len() * 8, "{queued:?}");
    // The probes come close to a full queue, but do not reach it.
    assert!(queued.iter().all(|rtt| *rtt < ms(79)), "{queued:?}");
    // Startup may overflow the queue a little. Nothing overflows it later.
    assert!(network.report().links[0][1].dropped_queue <= 20);
}

/// On this link, a loss-based controller gets a twentieth of the rate.
#[test]
fn random_loss_does_not_slow_it_down() {
    for (loss, least) in [(0.005, 0.86), (0.02, 0.8), (0.03, 0.75)] {
        let rates = for_seeds(5, |seed| {
            let mut network = bulk(builder(seed, [fast().with_loss(loss)]));
            goodput(&mut network, Duration::ZERO, secs(10)) / 50.0
        });
        println!("{loss}: {rates:.3?}");
        assert!(rates.iter().all(|rate| *rate >= least), "{loss}: {rates:?}");
    }
}

/// With variation of 16 % and 3 % of loss, one run in five is well below the others, whatever Startup there is: of 16 seeds,
/// three with the draft's and four with this one stay below three quarters of the rate.
#[test]
fn jitter_does_not_slow_it_down() {
    for (percent, loss, least) in [
        (8.0, 0.0, 0.75),
        (16.0, 0.0, 0.75),
        (8.0, 0.015, 0.75),
        (16.0, 0.03, 0.65),
    ] {
        let rates = for_seeds(5, |seed| {
            let link = fast().with_rtt_variation(percent).with_loss(loss);
            let mut network = bulk(builder(seed, [link]));
            goodput(&mut network, Duration::ZERO, secs(10)) / 50.0
        });
        println!("{percent} %, {loss}: {rates:.3?}");
        assert!(
            rates.iter().all(|rate| *rate >= least),
            "{percent} %: {rates:?}"
        );
        let typical = median(rates);
        assert!(typical >= 0.8, "{percent} %: {typical}");
    }
}

#[test]
fn a_long_thin_path_is_filled() {
    let mut network = bulk(builder(1, [LinkConfig::new(2_000_000, ms(100))]));
    let rate = goodput(&mut network, Duration::ZERO, secs(20));
    assert!(rate >= 0.87 * 2.0, "{rate} Mbit/s");
}

/// After Startup, the queue drops few packets, and little of the rate stays unused.
#[test]
fn a_shallow_queue_is_respected() {
    for (packets, least) in [(10, 0.7), (20, 0.8), (40, 0.88)] {
        let link = fast().with_queue(QueueLimit::Packets(packets));
        let mut network = bulk(builder(1, [link]));
        network.run_until(secs(2)).unwrap();
        let before = network.report().links[0][1];
        let rate = goodput(&mut network, secs(2), secs(12)) / 50.0;
        let after = network.report().links[0][1];
        let dropped = after.dropped_queue - before.dropped_queue;
        let loss = dropped as f64 / (after.packets_in - before.packets_in) as f64;
        println!("{packets} packets: {rate:.3}, {loss:.4} lost");
        assert!(
            rate >= least && loss < 0.01,
            "{packets}: {rate}, {loss} lost"
        );
    }
}

/// When the rate falls, the queue fills, losses follow, and two cycles later the old maximum
/// expires. When the rate rises, the next probe finds it.
#[test]
fn it_follows_the_rate_down_and_up() {
    let mut network = bulk(builder(1, [fast()]));
    for (at, rate) in [(5, 10), (15, 50)] {
        let change = Action::SetLinkRate {
            path: 0,
            from: Some(Side::Server),
            rate: Some(rate * 1_000_000),
        };
        network.at(secs(at), change);
    }
    for (from, to, rate) in [(2, 5, 50.0), (7, 15, 10.0), (18, 25, 50.0)] {
        let used = goodput(&mut network, secs(from), secs(to)) / rate;
        println!("{from} s to {to} s: {used:.3} of {rate} Mbit/s");
        assert!(used >= 0.85, "{from} s to {to} s: {used}");
    }
}

/// A path becomes longer. The window is too small until the old minimum RTT expires after ten
/// seconds.
#[test]
fn it_follows_the_delay_up() {
    let mut network = bulk(builder(1, [fast()]));
    let longer = Action::SetLinkDelay {
        path: 0,
        from: None,
        delay: ms(60),
    };
    network.at(secs(4), longer);
    let used = goodput(&mut network, secs(20), secs(30)) / 50.0;
    assert!(used >= 0.85, "{used}");
}

/// Nothing arrives for two seconds: everything in flight is lost.
#[test]
fn it_is_back_soon_after_an_outage() {
    let link = fast().with_outage(secs(3), secs(2));
    let mut network = bulk(builder(1, [link]));
    let used = goodput(&mut network, secs(7), secs(10)) / 50.0;
    assert!(used >= 0.8, "{used}");
}

/// The shares of a link that a flow and a competing flow get, from the tenth second on.
fn beside(seed: u64, other: CongestionControl, queue: QueueLimit) -> [f64; 2] {
    let cross = CrossTraffic::new(0, Side::Server, other);
    let builder = builder(seed, [fast().with_queue(queue)]).cross_traffic(cross);
    let mut network = bulk(builder);
    let mut delivered = |until| {
        network.run_until(until).unwrap();
        let report = network.report();
        [report.delivered[0], report.cross[0].delivered]
    };
    let (before, after) = (delivered(secs(10)), delivered(secs(40)));
    [0, 1].map(|i| (after[i] - before[i]) as f64 * 8.0 / 30.0 / 50e6)
}

#[test]
fn two_flows_share_a_link() {
    for queue in [QueueLimit::Auto, QueueLimit::Packets(20)] {
        let shares = for_seeds(4, |seed| beside(seed, CongestionControl::Bbr, queue));
        println!("{queue:?}: {shares:.3?}");
        for [one, other] in shares {
            assert!(one + other >= 0.85, "{queue:?}: {one} and {other}");
            let ratio = one / other;
            assert!((0.5..2.0).contains(&ratio), "{queue:?}: {one} and {other}");
        }
    }
}

/// Neither flow starves, whichever started first.
#[test]
fn it_lives_beside_loss_based_flows() {
    for other in [CongestionControl::NewReno, CongestionControl::Cubic] {
        for queue in [QueueLimit::Auto, QueueLimit::Packets(600)] {
            let shares = for_seeds(4, |seed| beside(seed, other, queue));
            println!("{other}, {queue:?}: {shares:.3?}");
            for [one, theirs] in shares {
                assert!(one + theirs >= 0.85, "{other}: {one} and {theirs}");
                assert!(one >= 0.15 && theirs >= 0.15, "{other}: {one} and {theirs}");
            }
        }
    }
}

/// The slow and the fast path of Peekaboo (Wu et al., 2020), given the RTT variation in percent and
/// the loss.
fn peekaboo(variation: f64, loss: f64) -> [LinkConfig; 2] {
    let slow = LinkConfig::new(2_000_000, ms(100));
    [
        fast().with_rtt_variation(variation).with_loss(loss),
        slow.with_rtt_variation(8.0).with_loss(0.015),
    ]
}

/// The download time divided by its bound: both links at full rate from the first instant, each
/// after its delay.
fn download_ratio(seed: u64, links: [LinkConfig; 2], bytes: u64, initial: InitialWindow) -> f64 {
    let mut transport = transport();
    transport.initial_window(initial).unwrap();
    let [fast, slow] = &links;
    let rates = [fast, slow].map(|link| link.rate.unwrap() as f64);
    let delays = [fast, slow].map(|link| link.delay.as_secs_f64());
    let bits = bytes as f64 * 8.0;
    let alone = bits / rates[0];
    let both = (bits + (delays[1] - delays[0]) * rates[1]) / (rates[0] + rates[1]);
    let serialised = if alone < delays[1] - delays[0] {
        alone
    } else {
        both
    };
    let bound = 2.0 * delays[0] + serialised;
    let client = TransferClient::download(bytes);
    let mut network = builder(seed, links)
        .transport(transport)
        .client(client)
        .build()
        .unwrap();
    let report = network.run_to_completion(secs(60)).unwrap();
    assert_eq!(report.delivered[0], bytes);
    (report.completed - report.connected.unwrap()).as_secs_f64() / bound
}

/// On the second of these networks, CUBIC takes fifteen to twenty times the bound.
#[test]
fn two_unequal_lossy_paths_are_near_the_bound() {
    for (variation, loss, most) in [(0.0, 0.0, 1.2), (8.0, 0.015, 1.25), (16.0, 0.03, 1.45)] {
        let ratios = for_seeds(9, |seed| {
            let links = peekaboo(variation, loss);
            download_ratio(seed, links, 20_000_000, InitialWindow::default())
        });
        println!("{variation} %, {loss}: {ratios:.3?}");
        let typical = median(ratios);
        assert!(typical <= most, "{variation} %, {loss}: {typical}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut network = builder(seed, peekaboo(8.0, 0.015))
            .client(TransferClient::download(5_000_000))
            .build()
            .unwrap();
        network.run_to_completion(secs(60)).unwrap().trace_hash
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
