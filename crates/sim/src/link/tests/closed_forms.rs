//! The link model against closed forms: serialisation, queueing theory, loss and delay statistics.
//! Seeds are fixed, so each statistic either holds or does not.

use super::*;

/// 99 % of a normal distribution lie within this number of standard deviations.
const Z99: f64 = 2.576;

/// Serialisation of 1000 bytes at 8 Mbit/s takes 1 ms; so the unit of time is a packet.
const PACKET: usize = 1000;

fn packets_per_ms() -> LinkConfig {
    bare(8_000_000, ms(0)).with_queue(QueueLimit::Packets(1_000_000))
}

/// How long each packet was inside, in the order of arrival.
fn sojourns(link: &mut Link<usize>, arrivals: &[Duration]) -> Vec<Duration> {
    for (i, at) in arrivals.iter().enumerate() {
        link.enqueue(*at, PACKET, i).unwrap();
    }
    drain(link)
        .iter()
        .map(|exit| exit.at - exit.entered)
        .collect()
}

#[test]
fn a_burst_leaves_at_exactly_the_rate() {
    // 1000 bytes at 7 Mbit/s: 8e6/7 us is no whole number of nanoseconds, yet nothing adds up.
    let mut link = Link::new(bare(7_000_000, ms(0)), 1).unwrap();
    for i in 0..100_u64 {
        link.enqueue(ms(0), 1000, i).unwrap();
    }
    for exit in drain(&mut link) {
        let exact = (u128::from(exit.payload) + 1) * 8000 * 1_000_000_000 / 7_000_000;
        assert_eq!(exit.at.as_nanos(), exact);
    }
}

#[test]
fn below_its_rate_a_regular_stream_never_waits() {
    // D/D/1 with a load of 0.8: each packet takes exactly its serialisation.
    let mut link = Link::new(packets_per_ms(), 1).unwrap();
    let arrivals: Vec<_> = (0..1000).map(|i| Duration::from_micros(1250 * i)).collect();
    let sojourns = sojourns(&mut link, &arrivals);
    assert!(sojourns.iter().all(|time| *time == ms(1)));
    assert_eq!(link.stats().max_queue_packets, 0);
    assert_eq!(link.stats().busy, ms(1000));
}

#[test]
fn above_its_rate_a_regular_stream_waits_linearly() {
    // D/D/1 with a load of 1.25: the n-th packet (from 0) comes at 0.8 n ms, departs at n + 1 ms.
    let mut link = Link::new(packets_per_ms(), 1).unwrap();
    let arrivals: Vec<_> = (0..1000).map(|i| Duration::from_micros(800 * i)).collect();
    for (n, time) in sojourns(&mut link, &arrivals).into_iter().enumerate() {
        assert_eq!(time, ms(1) + Duration::from_micros(200) * n as u32);
    }
    // At 799.2 ms the last comes; 799 have departed, one is served.
    assert_eq!(link.stats().max_queue_packets, 200);
}

#[test]
fn batches_make_busy_periods_of_their_work() {
    // Ten packets at once every 20 ms: busy for 10 ms each, the k-th waits k - 1 ms.
    let mut link = Link::new(packets_per_ms(), 1).unwrap();
    let arrivals: Vec<_> = (0..50).flat_map(|batch| [ms(20 * batch); 10]).collect();
    for (n, time) in sojourns(&mut link, &arrivals).into_iter().enumerate() {
        assert_eq!(time, ms(n as u64 % 10 + 1));
    }
    assert_eq!(link.stats().busy, ms(500));
    assert_eq!(link.stats().max_queue_packets, 9);
}

#[test]
fn poisson_arrivals_wait_as_long_as_pollaczek_and_khinchine_say() {
    // M/D/1: the mean wait is rho / (2 (1 - rho)) services.
    for (load, seed) in [(0.5, 1), (0.8, 2)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let n = 200_000;
        let mut at = 0.0;
        let arrivals: Vec<_> = (0..n)
            .map(|_| {
                // Exponential gaps with a mean of 1/load ms.
                at -= (1.0 - rng.random::<f64>()).ln() / load;
                Duration::from_nanos((at * 1e6) as u64)
            })
            .collect();
        let mut link = Link::new(packets_per_ms(), 1).unwrap();
        let waits: Vec<_> = sojourns(&mut link, &arrivals)
            .iter()
            .map(|time| time.as_secs_f64() * 1e3 - 1.0)
            .collect();
        let expected = load / (2.0 * (1.0 - load));
        let (mean, error) = batch_means(&waits, 100);
        assert!(
            (mean - expected).abs() < Z99 * error,
            "{mean} for {expected}, standard error {error}"
        );
        assert!(
            error < 0.05 * expected,
            "the test would see nothing: {error}"
        );
        // Utilisation, and the share of packets that find it idle: both follow from the load.
        let horizon = arrivals.last().unwrap().as_secs_f64();
        let busy = link.stats().busy.as_secs_f64() / horizon;
        assert!((busy - load).abs() < 0.01, "{busy}");
        let idle = waits.iter().filter(|wait| **wait < 1e-9).count() as f64 / f64::from(n);
        assert!((idle - (1.0 - load)).abs() < 0.01, "{idle}");
    }
}

/// The mean of a correlated series and its standard error, by means of batches.
fn batch_means(series: &[f64], batches: usize) -> (f64, f64) {
    let means: Vec<_> = series
        .chunks_exact(series.len() / batches)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let (mean, variance) = moments(&means);
    (mean, (variance / means.len() as f64).sqrt())
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance)
}

#[test]
fn the_queue_takes_exactly_so_many_packets() {
    for limit in [0, 1, 7, 100] {
        let config = packets_per_ms().with_queue(QueueLimit::Packets(limit));
        let mut link = Link::new(config, 1).unwrap();
        let taken = (0..200_u64).filter(|i| link.enqueue(ms(0), PACKET, *i).is_ok());
        // One is being serialised and does not count.
        assert_eq!(taken.count() as u64, limit + 1);
        assert_eq!(link.stats().max_queue_packets, limit);
        // Full all the time: one goes in as one goes out.
        for step in 1..50 {
            assert!(link.enqueue(ms(step), PACKET, 0).is_ok());
            assert!(link.enqueue(ms(step), PACKET, 0).is_err());
        }
    }
}

#[test]
fn the_queue_takes_exactly_so_many_bytes() {
    // With 28 bytes of overhead each: 72 are 100, 972 are 1000.
    let config = LinkConfig {
        overhead: 28,
        ..bare(8_000_000, ms(0)).with_queue(QueueLimit::Bytes(2100))
    };
    let mut link = Link::new(config, 1).unwrap();
    // The first is being serialised; then 1000, 1000, 100 fill it to the byte.
    for size in [972, 972, 972, 72] {
        link.enqueue(ms(0), size, 0).unwrap();
    }
    assert_eq!(link.stats().max_queue_bytes, 2100);
    assert!(link.enqueue(ms(0), 0, 0).is_err());
    // Another is served: 1000 bytes of room, but not 1001.
    assert!(link.enqueue(ms(1), 973, 0).is_err());
    assert!(link.enqueue(ms(1), 972, 0).is_ok());
    assert!(link.enqueue(ms(1), 0, 0).is_err());
    assert_eq!(link.stats().max_queue_bytes, 2100);
}

#[test]
fn overload_loses_all_that_is_beyond_the_rate() {
    // Two packets a service: after the queue is full, one of two is lost.
    let config = packets_per_ms().with_queue(QueueLimit::Packets(10));
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..1000_u64 {
        let _ = link.enqueue(Duration::from_micros(500 * i), PACKET, i);
    }
    let exits = drain(&mut link);
    // Served from 0 to 499.5 ms: 499 whole services by then, one under way and ten waiting.
    assert_eq!(exits.len(), 499 + 11);
    assert_eq!(link.stats().dropped_queue, 1000 - 510);
}

/// How many of `n` packets are lost, and the lengths of the runs of losses.
fn losses(config: LinkConfig, seed: u64, n: u32) -> (f64, Vec<f64>) {
    let mut link = Link::new(config, seed).unwrap();
    for i in 0..n {
        link.enqueue(ms(u64::from(i)), PACKET, i).unwrap();
    }
    let (mut lost, mut runs, mut run) = (0_u64, Vec::new(), 0_u32);
    for exit in drain(&mut link) {
        if exit.fate == Fate::Lost(Loss::Random) {
            lost += 1;
            run += 1;
        } else if run > 0 {
            runs.push(f64::from(std::mem::take(&mut run)));
        }
    }
    assert_eq!(lost, link.stats().dropped_loss);
    (lost as f64, runs)
}

#[test]
fn the_loss_rate_is_as_configured() {
    let n = 100_000;
    for (p, seed) in [(0.0001, 41), (0.015, 42), (0.03, 43), (0.5, 44)] {
        let (lost, _) = losses(LinkConfig::default().with_loss(p), seed, n);
        // The binomial's 99 % interval, by the normal approximation.
        let spread = Z99 * (f64::from(n) * p * (1.0 - p)).sqrt();
        assert!((lost - f64::from(n) * p).abs() < spread, "{lost} of {n}");
    }
    assert_eq!(losses(LinkConfig::default(), 1, 1000).0, 0.0);
    assert_eq!(
        losses(LinkConfig::default().with_loss(1.0), 1, 1000).0,
        1000.0
    );
}

#[test]
fn no_more_packets_in_a_row_are_harmed_than_allowed() {
    let (n, most) = (100_000, 3_u32);
    let free = LinkConfig::default().with_loss(0.3);
    let bounded = free.clone().with_max_burst(most.try_into().unwrap());
    let longest = |runs: &[f64]| runs.iter().copied().fold(0.0, f64::max);
    assert!(longest(&losses(free, 51, n).1) > f64::from(most));
    let (lost, runs) = losses(bounded.clone(), 51, n);
    assert_eq!(longest(&runs), f64::from(most));
    // A cycle is a run of at most three losses and the packet that passes: 0.3 + 0.3^2 + 0.3^3 losses in the mean.
    let (p, count) = (0.3_f64, f64::from(n));
    let mean = p + p * p + p * p * p;
    let share = mean / (1.0 + mean);
    let spread = Z99 * (count * share * (1.0 - share)).sqrt();
    assert!((lost - count * share).abs() < spread, "{lost} of {n}");

    // Corrupted packets count with the lost ones.
    let both = LinkConfig {
        corruption: 0.5,
        ..bounded
    };
    let mut link = Link::new(both, 52).unwrap();
    for i in 0..n {
        link.enqueue(ms(u64::from(i)), PACKET, i).unwrap();
    }
    let (mut run, mut longest) = (0, 0);
    for exit in drain(&mut link) {
        run = if exit.fate == Fate::Delivered {
            0
        } else {
            run + 1
        };
        longest = longest.max(run);
    }
    assert_eq!(longest, most);
}

#[test]
fn losses_in_bursts_have_the_mean_and_the_length_asked_for() {
    let n = 200_000;
    for (loss, burst, seed) in [(0.015, 4.0, 7), (0.03, 1.0, 8), (0.1, 20.0, 9)] {
        let chain = GilbertElliott::from_mean(loss, burst).unwrap();
        let config = LinkConfig::default().with_gilbert_elliott(chain);
        let (lost, runs) = losses(config, seed, n);
        // The states' correlation over one packet is 1 - p - r, which widens the binomial.
        let correlation = 1.0 - chain.p - chain.r;
        let widening = (1.0 + correlation) / (1.0 - correlation);
        let spread = Z99 * (f64::from(n) * loss * (1.0 - loss) * widening).sqrt();
        assert!((lost - f64::from(n) * loss).abs() < spread, "{lost} of {n}");
        // Runs are geometric with a mean of 1/r.
        let (mean, _) = moments(&runs);
        let deviation = (1.0 - chain.r).sqrt() / chain.r;
        let spread = Z99 * deviation / (runs.len() as f64).sqrt();
        assert!((mean - burst).abs() <= spread, "{mean} for {burst}");
    }
}

#[test]
fn both_states_may_lose() {
    let chain = GilbertElliott {
        p: 0.02,
        r: 0.1,
        loss_good: 0.01,
        loss_bad: 0.4,
    };
    // A sixth of the packets find the bad state.
    let expected = 0.4 / 6.0 + 0.01 * 5.0 / 6.0;
    assert!((chain.mean_loss() - expected).abs() < 1e-12);
    let n = 200_000_u32;
    let config = LinkConfig::default().with_gilbert_elliott(chain);
    let (lost, _) = losses(config, 3, n);
    // The variance of a sum of indicators whose probabilities follow the chain: the binomial's
    // plus twice the covariances, a geometric series of ratio 1 - p - r.
    let states = (0.4_f64 - 0.01).powi(2) * (1.0 / 6.0) * (5.0 / 6.0);
    let ratio = 1.0 - chain.p - chain.r;
    let variance = expected * (1.0 - expected) + 2.0 * states * ratio / (1.0 - ratio);
    let spread = Z99 * (f64::from(n) * variance).sqrt();
    assert!(
        (lost - f64::from(n) * expected).abs() < spread,
        "{lost} of {n}"
    );
}

#[test]
fn bursts_and_independent_losses_add_up() {
    let chain = GilbertElliott::from_mean(0.1, 2.0).unwrap();
    let config = LinkConfig::default().with_loss(0.2);
    let n = 100_000;
    let (lost, _) = losses(config.with_gilbert_elliott(chain), 5, n);
    // Survives both: 0.9 * 0.8.
    let expected = f64::from(n) * 0.28;
    assert!((lost - expected).abs() < 0.03 * expected, "{lost}");
}

#[test]
fn delay_variation_has_the_configured_moments_before_order_is_kept() {
    let config = LinkConfig {
        delay_sd: ms(2),
        ..bare(1_000_000_000, ms(20))
    };
    // Far apart: order never binds, so the deviation shows undistorted.
    let mut link = Link::new(config.clone(), 7).unwrap();
    let n = 100_000_u64;
    let mut offsets = Vec::new();
    for i in 0..n {
        let at = ms(100 * i);
        link.enqueue(at, 1000, i).unwrap();
        let exit = drain(&mut link).remove(0);
        let took = exit.at - at - Duration::from_micros(8);
        assert!(took >= ms(20 - 12) && took <= ms(20 + 12), "{took:?}");
        offsets.push(took.as_secs_f64() * 1e3 - 20.0);
    }
    let (mean, variance) = moments(&offsets);
    let n = n as f64;
    assert!(mean.abs() < Z99 * 2.0 / n.sqrt(), "{mean}");
    // Of twelve uniform variates, the excess kurtosis is -1.2/12.
    let error = 4.0 * ((2.0 - 0.1) / n).sqrt();
    assert!((variance - 4.0).abs() < Z99 * error, "{variance}");
    // Near to normal: 68.3 % within one deviation, 95.4 % within two.
    for (within, share) in [(2.0, 0.683), (4.0, 0.954)] {
        let count = offsets.iter().filter(|x| x.abs() < within).count() as f64;
        assert!((count / n - share).abs() < 0.01, "{count} within {within}");
    }

    // Close together: no reordering.
    let mut link = Link::new(config, 7).unwrap();
    for i in 0..1000 {
        link.enqueue(Duration::from_micros(20 * i), 1000, i)
            .unwrap();
    }
    assert!(drain(&mut link).iter().map(|exit| exit.payload).eq(0..1000));
}

#[test]
fn keeping_order_makes_each_packet_as_late_as_the_latest_before() {
    // A packet each 1 ms with delays drawn independently: arrivals are the running maximum.
    let config = LinkConfig {
        delay_sd: ms(5),
        ..LinkConfig::default()
    };
    let config = LinkConfig {
        delay: ms(50),
        ..config
    };
    let sent: Vec<_> = (0..500).map(ms).collect();
    let run = |gap: u64| {
        let mut link = Link::new(config.clone(), 11).unwrap();
        sent.iter()
            .enumerate()
            .map(|(i, _)| ms(gap * i as u64))
            .for_each(|at| {
                link.enqueue(at, PACKET, ()).unwrap();
            });
        drain(&mut link)
    };
    // Far apart, the same draws show as they are.
    let drawn: Vec<_> = run(1000)
        .iter()
        .map(|exit| exit.at - exit.entered)
        .collect();
    let mut latest = ms(0);
    for ((exit, delay), at) in run(1).iter().zip(drawn).zip(sent) {
        latest = latest.max(at + delay);
        assert_eq!(exit.at, latest);
    }
}
