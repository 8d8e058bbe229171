//! The judge of losses against the truth of the simulator: links on which every loss is an overflow, and links on which none is.

use std::time::Duration;

use mpquic_proto::{CongestionControl, PathId, PathStats, Side, TransportConfig};
use mpquic_sim::{GilbertElliott, LinkConfig, Network, QueueLimit, TransferClient, TransferServer};

const OWD: Duration = Duration::from_millis(20);
const SEEDS: u64 = 3;

/// The judge's verdicts over all seeds: overflow, chance, unclear. And what the links have dropped: queue full, at random.
#[derive(Debug, Default)]
struct Seen {
    verdicts: [u32; 3],
    dropped: [u64; 2],
}

impl Seen {
    /// The part of the loss events with this verdict.
    fn share(&self, verdict: usize) -> f64 {
        f64::from(self.verdicts[verdict]) / f64::from(self.verdicts.iter().sum::<u32>().max(1))
    }
}

fn run(down: &LinkConfig, window: u64) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let mut transport = TransportConfig::default();
        transport
            .congestion(CongestionControl::Auto)
            .receive_window(window)
            .stream_receive_window(window);
        let up = LinkConfig::new(1_000_000_000, OWD);
        let mut network = Network::builder(seed)
            .path(up, down.clone())
            .transport(transport)
            .client(TransferClient::download(1 << 40))
            .server(TransferServer::new())
            .null_aead()
            .build()
            .unwrap();
        network.run_until(Duration::from_secs(20)).unwrap();
        let server = network.connection(Side::Server).unwrap();
        let stats: PathStats = server.path(PathId::ZERO).unwrap().stats();
        let verdicts = [
            stats.losses_by_overflow,
            stats.losses_by_chance,
            stats.losses_unclear,
        ];
        let link = network.report().links[0][1];
        for (sum, verdict) in seen.verdicts.iter_mut().zip(verdicts) {
            *sum += verdict;
        }
        seen.dropped[0] += link.dropped_queue;
        seen.dropped[1] += link.dropped_loss;
    }
    seen
}

/// 10 Mbit/s and 40 ms are 41 packets of 1228 bytes.
#[test]
fn overflows_of_queues_of_all_lengths_are_known() {
    // What is judged an overflow, at least, and chance, at most. A queue of four packets overflows before round trips tell.
    for (packets, variation, least, most) in [
        (4, 0.0, 0.1, 0.15),
        (20, 0.0, 0.7, 0.25),
        (41, 0.0, 0.9, 0.05),
        (164, 0.0, 0.9, 0.05),
        (328, 0.0, 0.9, 0.05),
        (20, 3.0, 0.65, 0.3),
        (41, 10.0, 0.85, 0.1),
        (164, 10.0, 0.9, 0.05),
    ] {
        let link = LinkConfig::new(10_000_000, OWD)
            .with_queue(QueueLimit::Packets(packets))
            .with_rtt_variation(variation);
        let seen = run(&link, 16 << 20);
        println!("queue of {packets}, variation {variation} %: {seen:?}");
        assert!(seen.dropped[0] > 0 && seen.dropped[1] == 0);
        let (overflow, chance) = (seen.share(0), seen.share(1));
        let context = format!("queue of {packets}, {variation} %: {seen:?}");
        assert!(overflow >= least && chance <= most, "{context}");
    }
}

/// The receive window is a twenty-fifth of what the path holds, so that no queue ever grows: BBRv3, which takes over, sends what
/// it may send in a burst, and that is 1.6 ms of the bottleneck.
#[test]
fn losses_by_chance_are_known() {
    let bursts = GilbertElliott::from_mean(0.005, 2.5).unwrap();
    for (loss, variation, least) in [
        (Some(0.001), 0.0, 0.85),
        (Some(0.01), 0.0, 0.85),
        (Some(0.01), 3.0, 0.85),
        (Some(0.01), 10.0, 0.75),
        (None, 0.0, 0.85),
        (None, 3.0, 0.8),
    ] {
        let link = LinkConfig::new(1_000_000_000, OWD).with_rtt_variation(variation);
        let link = match loss {
            Some(loss) => link.with_loss(loss),
            None => link.with_gilbert_elliott(bursts),
        };
        let seen = run(&link, 200_000);
        let share = seen.share(1);
        println!("loss {loss:?}, variation {variation} %: {share:.2} {seen:?}");
        assert_eq!(seen.dropped[0], 0);
        assert!(share >= least, "loss {loss:?}, {variation} %: {seen:?}");
    }
}
