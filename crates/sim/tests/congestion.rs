//! Tests of congestion control over modelled links against theory and RFCs: the square-root law,
//! the saw-tooth, fairness at a shared bottleneck.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, PathId, PathStart, Side, TransportConfig};
use mpquic_sim::{
    Action, CrossTraffic, Hop, LinkConfig, Network, NetworkBuilder, QueueLimit, TransferClient,
    TransferServer,
};

/// The size of every datagram of the bulk transfer.
const MTU: u64 = 1200;
/// The stream data in it: without the short header (1 + 8 + 2), the header of the STREAM frame
/// (about 11) and the tag (16).
const MSS: f64 = 1162.0;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A server that sends endlessly, as fast as the controller allows.
fn bulk(builder: NetworkBuilder, control: CongestionControl) -> Network {
    bulk_with(TransportConfig::default(), builder, control)
}

fn bulk_with(
    mut transport: TransportConfig,
    builder: NetworkBuilder,
    control: CongestionControl,
) -> Network {
    transport
        .congestion(control)
        // These tests are about congestion avoidance, from the first overflow on: which start led there decides where in
        // its saw tooth each path is when they look.
        .slow_start(SlowStart::HyStartPlusPlus)
        .path_start(PathStart::Confirmed)
        .max_mtu(MTU as u16)
        .expect("the least there is");
    builder
        .transport(transport)
        .client(TransferClient::download(1 << 40))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap()
}

/// For tests of shapes by the book, in which each second packet is acknowledged: with fewer acknowledgements, the window takes the
/// same steps, but only when one of them comes.
fn by_the_book() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.ack_frequency_config(None);
    transport
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance
/// algorithm" (1997): goodput = MSS / RTT * C / sqrt(p). C is sqrt(3/2) if the window grows by one
/// MSS per RTT. It is sqrt(3/4) if the receiver acknowledges every other packet and the sender
/// counts acknowledgements. Our receiver does so, but our sender counts bytes (RFC 9002 section
/// 7.3.3), so sqrt(3/2) applies.
///
/// The law ignores the recovery period, in which the window does not grow and a second loss has no
/// effect. At 1 % loss, where the window is a dozen packets, a model of only RFC 9002's rules,
/// without timers and delayed acknowledgements, reaches 0.90 of the law; at 0.1 %, it reaches 1.01.
#[test]
fn new_reno_follows_the_square_root_law() {
    let rtt = ms(100);
    for (loss, seeds, lasting) in [(0.001, 4, secs(200)), (0.01, 4, secs(200))] {
        let law = MSS / rtt.as_secs_f64() * (1.5_f64 / loss).sqrt();
        let ratios: Vec<_> = (0..seeds)
            .map(|seed| {
                // Fast enough that nothing queues. Acknowledgements are not lost.
                let link = LinkConfig::new(1_000_000_000, rtt / 2);
                let lossy = link.clone().with_loss(loss);
                let network = Network::builder(seed).path(link, lossy);
                let mut network = bulk(network, CongestionControl::NewReno);
                // The first losses end slow start. After 20 s, it has no more effect.
                network.run_until(secs(20)).unwrap();
                let before = network.report().delivered[0];
                network.run_until(secs(20) + lasting).unwrap();
                let bytes = network.report().delivered[0] - before;
                bytes as f64 / lasting.as_secs_f64() / law
            })
            .collect();
        let ratio = mean(&ratios);
        println!("loss {loss}: {ratio:.3} of the law, by seed {ratios:.3?}");
        assert!((0.85..1.15).contains(&ratio), "loss {loss}: {ratios:?}");
    }
}

/// A change of the window, with the connection's statistics at that time.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: Duration,
    window: u64,
    events: u64,
    rtt: Duration,
}

/// RFC 9002 section 7.3: a loss halves the window, which stays the same during the recovery period.
/// Then it grows by one datagram per acknowledged window, which is per RTT. On a clean link, only a
/// queue overflow causes loss, so the window's peak is what link and queue hold.
#[test]
fn new_reno_draws_a_saw_tooth() {
    // 1228 bytes with headers take 0.9824 ms. Without a queue, a packet and its acknowledgement
    // take 51 ms, which is 51.9 packets. Fifty more wait in the queue. The sender learns of an
    // overflow one RTT later, and the window grows by one more datagram until then.
    let slot = Duration::from_nanos(982_400);
    let base_rtt = ms(50) + slot;
    let queue = 50;
    let turn = base_rtt.as_secs_f64() / slot.as_secs_f64() + queue as f64 + 1.0;

    let link = LinkConfig::new(10_000_000, ms(25)).with_queue(QueueLimit::Packets(queue));
    let mut network = bulk_with(
        by_the_book(),
        Network::builder(1).symmetric_path(link),
        CongestionControl::NewReno,
    );
    let changes = Rc::new(RefCell::new(Vec::<Change>::new()));
    let seen = Rc::clone(&changes);
    network.on_step(move |view| {
        let Some(stats) = view
            .server
            .and_then(|server| server.path(PathId::ZERO).map(|path| path.stats()).ok())
        else {
            return Ok(());
        };
        if stats.pto_count > 0 || stats.spurious_losses > 0 {
            return Err(format!("a timeout, or no real loss: {stats:?}"));
        }
        let mut seen = seen.borrow_mut();
        if seen.last().is_none_or(|last| last.window != stats.cwnd) {
            seen.push(Change {
                at: view.now,
                window: stats.cwnd,
                events: stats.congestion_events,
                rtt: stats.rtt,
            });
        }
        Ok(())
    });
    network.run_until(secs(60)).unwrap();

    // From the first overflow on. Slow start came before.
    let changes = changes.borrow();
    let first = changes
        .iter()
        .position(|change| change.events == 1)
        .unwrap();
    let changes = &changes[first..];
    let (mut turns, mut since_turn) = (Vec::new(), 0);
    for pair in changes.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        let took = (after.at - before.at).as_secs_f64();
        let rtt = after.rtt.as_secs_f64();
        if after.events > before.events {
            assert_eq!(after.events, before.events + 1);
            // The acknowledgement that reveals the loss may also complete a window and add a
            // datagram.
            let halves = [before.window / 2, (before.window + MTU) / 2];
            assert!(halves.contains(&after.window), "{before:?} {after:?}");
            turns.push(before);
            since_turn = 0;
            continue;
        }
        assert_eq!(after.window, before.window + MTU, "at {:?}", after.at);
        since_turn += 1;
        if since_turn == 1 {
            // The recovery period is one RTT (still that of the full queue), and one more RTT
            // passes before the window grows.
            assert!(
                (1.5 * rtt..4.0 * rtt).contains(&took),
                "{took} s at {:?}",
                after.at
            );
        } else {
            let ratio = took / rtt;
            assert!((0.9..1.1).contains(&ratio), "{ratio} RTT at {:?}", after.at);
        }
    }
    println!(
        "{} teeth, {:?}",
        turns.len(),
        turns
            .iter()
            .map(|turn| turn.window / MTU)
            .collect::<Vec<_>>()
    );
    assert!(turns.len() >= 15, "{} teeth", turns.len());
    for turn_at in &turns {
        let packets = turn_at.window as f64 / MTU as f64;
        assert!(
            (packets - turn).abs() <= 1.5,
            "turned at {packets}, not at {turn}"
        );
    }
    // A tooth lasts one RTT per datagram from half the peak on, plus the recovery. The RTT is the
    // one at the current window.
    let teeth = turns
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_secs_f64());
    let rtt_at = |packets: u64| (slot * packets as u32).max(base_rtt).as_secs_f64();
    let half = turn as u64 / 2;
    let expected = (half..turn as u64).map(rtt_at).sum::<f64>() + 2.0 * rtt_at(turn as u64);
    let mean = mean(&teeth.collect::<Vec<_>>());
    assert!(
        (0.93..1.07).contains(&(mean / expected)),
        "{mean} s, not {expected}"
    );
    // With a queue of one bandwidth-delay product, the link is idle only after a halving.
    let goodput = network.report().delivered[0] as f64 / 60.0 / (MSS / slot.as_secs_f64());
    assert!((0.95..1.0).contains(&goodput), "{goodput}");
}

/// The goodput of a connection with two paths through one bottleneck, divided by that of a
/// competing flow.
fn share_against(neighbour: CongestionControl, control: CongestionControl, seed: u64) -> f64 {
    let mut builder = Network::builder(seed);
    // 10 Mbit/s, an RTT of 50 ms, and a queue of one bandwidth-delay product.
    let neck = LinkConfig::new(10_000_000, ms(5)).with_queue(QueueLimit::Packets(50));
    let neck = builder.shared_link(neck);
    let mut access = LinkConfig::new(100_000_000, ms(10));
    // The delays vary a little. With exact delays, drop-tail queues prefer flows whose packets
    // arrive in phase (Floyd and Jacobson, "On traffic phase effects", 1992).
    access.delay_sd = ms(1);
    for _ in 0..2 {
        builder = builder.path_through([access.clone()], [Hop::Own(access.clone()), neck.into()]);
    }
    let cross = CrossTraffic::new(0, Side::Server, neighbour);
    let mut transport = TransportConfig::default();
    transport.congestion(control);
    let mut network = builder
        .transport(transport)
        .client(TransferClient::download(1 << 40))
        .server(TransferServer::new())
        .open_all_paths()
        .cross_traffic(cross)
        .null_aead()
        .build()
        .unwrap();
    let mut delivered = |until| {
        network.run_until(until).unwrap();
        let report = network.report();
        [report.delivered[0], report.cross[0].delivered].map(|bytes| bytes as f64)
    };
    // Without slow start, which is not coupled.
    let before = delivered(secs(10));
    let after = delivered(secs(70));
    let [own, other] = [0, 1].map(|i| after[i] - before[i]);
    // The bottleneck is fully used: the result is not fair just because the flows send little.
    let used = (own + other) * 8.0 / 60.0 / 10e6;
    assert!(
        (0.9..1.0).contains(&used),
        "{control}, seed {seed}: {used} used"
    );
    own / other
}

/// RFC 6356 section 2, goal 2: a connection takes no more than a single flow would take on any of
/// its paths. With two paths through one bottleneck, it gets what one flow gets. Without coupling,
/// it gets twice as much.
#[test]
fn coupled_paths_are_fair_to_new_reno_at_a_shared_bottleneck() {
    let shares = |control| {
        let shares: Vec<_> = (0..12)
            .map(|seed| share_against(CongestionControl::NewReno, control, seed))
            .collect();
        (control, mean(&shares), shares)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = [
            CongestionControl::NewReno,
            CongestionControl::Lia,
            CongestionControl::Olia,
            CongestionControl::Balia,
        ]
        .into_iter()
        .map(|control| scope.spawn(move || shares(control)))
        .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for (control, mean, shares) in &results {
        println!("{control}: {mean:.3} times a NewReno flow, by seed {shares:.3?}");
        if *control == CongestionControl::NewReno {
            assert!((1.7..2.3).contains(mean), "{control}: {shares:?}");
        } else {
            // It also gets at least about what one path would have got.
            assert!((0.8..1.15).contains(mean), "{control}: {shares:?}");
        }
    }
}

/// `auto` sees by its losses that its paths share a bottleneck, after some of them, and CUBIC does not ask.
#[test]
fn auto_takes_less_than_two_flows_where_its_paths_share_a_bottleneck() {
    let [cubic, auto] = [CongestionControl::Cubic, CongestionControl::Auto].map(|control| {
        let shares: Vec<_> = thread::scope(|scope| {
            let run = |seed| move || share_against(CongestionControl::Cubic, control, seed);
            let threads: Vec<_> = (0..6).map(|seed| scope.spawn(run(seed))).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        println!(
            "{control}: {:.3} times a CUBIC flow, by seed {shares:.3?}",
            mean(&shares)
        );
        mean(&shares)
    });
    assert!((1.7..2.5).contains(&cubic), "{cubic}");
    assert!(auto < 0.85 * cubic, "{auto}, {cubic}");
}

/// Two paths with a bottleneck and a neighbour each: `auto` gets of both what CUBIC gets.
#[test]
fn auto_takes_paths_of_their_own_for_such() {
    let own = |control, seed| {
        let link = || LinkConfig::new(10_000_000, ms(25)).with_queue(QueueLimit::Packets(50));
        let cross = |path| CrossTraffic::new(path, Side::Server, CongestionControl::Cubic);
        let builder = Network::builder(seed)
            .symmetric_path(link())
            .symmetric_path(link())
            .cross_traffic(cross(0))
            .cross_traffic(cross(1));
        let mut network = bulk(builder, control);
        network.run_until(secs(70)).unwrap();
        network.report().delivered[0] as f64
    };
    let ratios: Vec<_> = (0..6)
        .map(|seed| own(CongestionControl::Auto, seed) / own(CongestionControl::Cubic, seed))
        .collect();
    println!("{:.3} of CUBIC, by seed {ratios:.3?}", mean(&ratios));
    assert!((0.9..1.15).contains(&mean(&ratios)), "{ratios:?}");
}

/// When one path dies, the window of the other soon grows like that of a single flow: the window of
/// the dead path no longer counts.
#[test]
fn a_dead_path_does_not_hold_back_the_other() {
    for control in [
        CongestionControl::Lia,
        CongestionControl::Olia,
        CongestionControl::Balia,
    ] {
        let link = LinkConfig::new(20_000_000, ms(25));
        let builder = Network::builder(1)
            .symmetric_path(link.clone())
            .symmetric_path(link);
        // Equal paths stay equal: how the default scheduler divides the data decides where in its saw tooth each of them is.
        let mut transport = by_the_book();
        transport.scheduler(|| Box::new(mpquic_sched::MinRtt::default()));
        let mut network = bulk_with(transport, builder, control);
        let dark = Action::SetLinkUp {
            path: 1,
            from: None,
            up: false,
        };
        network.at(secs(20), dark);
        let mut look = |at| {
            network.run_until(at).unwrap();
            let server = network.connection(Side::Server).unwrap();
            server.path(PathId::ZERO).unwrap().stats()
        };
        // Datagrams per RTT.
        let mut growth = |from, until| {
            let [before, after] = [look(from), look(until)];
            assert_eq!(after.congestion_events, before.congestion_events);
            let rtt = (before.rtt + after.rtt) / 2;
            let rtts = (until - from).as_secs_f64() / rtt.as_secs_f64();
            (after.cwnd as f64 - before.cwnd as f64) / MTU as f64 / rtts
        };
        // Two equal paths grow by a quarter of a datagram each.
        let (coupled, alone) = (growth(secs(15), secs(17)), growth(secs(21), secs(23)));
        println!("{control}: {coupled:.3}, then {alone:.3} datagrams per RTT");
        assert!((0.2..0.3).contains(&coupled), "{control}: {coupled}");
        assert!((0.9..1.1).contains(&alone), "{control}: {alone}");
    }
}

/// The world stays the same when we start in another way; only flows of our own default controller do as we do.
#[test]
fn what_others_send_does_not_depend_on_how_we_start() {
    for (control, same) in [
        (CongestionControl::Cubic, true),
        (CongestionControl::Bbr, true),
        (CongestionControl::Auto, false),
    ] {
        let delivered = SlowStart::ALL.iter().map(|start| {
            let mut transport = TransportConfig::default();
            transport.slow_start(*start);
            let mut network = Network::builder(1)
                .transport(transport)
                .symmetric_path(LinkConfig::new(50_000_000, ms(40)))
                .cross_traffic(CrossTraffic::new(0, Side::Server, control))
                .null_aead()
                .build()
                .unwrap();
            network.run_until(secs(2)).unwrap();
            network.cross_traffic()[0].delivered
        });
        let delivered: Vec<_> = delivered.collect();
        let alike = delivered.iter().all(|bytes| *bytes == delivered[0]);
        assert_eq!(alike, same, "{control}: {delivered:?}");
    }
}
