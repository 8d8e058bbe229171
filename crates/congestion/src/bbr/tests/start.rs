//! Startup, Drain, and what comes and goes with time: ProbeRTT, idle periods.

use super::*;

#[test]
fn begins_with_the_initial_window_over_the_first_rtt() {
    let flow = Flow::new();
    assert_eq!(flow.state(), State::Startup);
    assert_eq!(flow.path.cwnd, 10_000);
    // Section 5.6.2: 2.77 * 10 kB / 100 ms.
    assert_eq!(flow.path.pacing_rate(&flow.rtt).round(), 277_000.0);
}

#[test]
fn startup_doubles_what_is_in_flight_and_paces_at_2_77() {
    let mut flow = Flow::new();
    let mut window = 10_000;
    for rate in [100_000.0, 200_000.0, 400_000.0] {
        let bytes = window;
        flow.ack(
            rate,
            Ack {
                bytes,
                delivered: bytes,
                ..FULL
            },
        );
        window *= 2;
        assert_eq!(flow.path.cwnd, window);
        // The pace of the beginning was a little higher than that of the first sample.
        assert_eq!(flow.pace(), (2.77 * 0.99 * rate).max(277_000.0) as u64);
    }
    // A limited sample that is smaller changes nothing: the pace never falls in Startup.
    let limited = Ack {
        bytes: 1000,
        app_limited: true,
        ..FULL
    };
    flow.ack(50_000.0, limited);
    assert_eq!(flow.pace(), (2.77 * 0.99 * 400_000.0) as u64);
    // 2 * 400 kB/s * 100 ms = 80 kB, and what came at once beyond the rate in this round: 1000
    // bytes. The window is there already, and does not grow.
    assert_eq!(flow.path.cwnd, 80_000 + 1000);
}

/// Section 5.3.1.2: three rounds in which less than a quarter is gained.
#[test]
fn a_plateau_ends_startup() {
    let mut flow = Flow::new();
    flow.rounds(3);
    assert_eq!(
        (flow.state(), flow.path.pipe.reached),
        (State::Startup, false)
    );
    flow.ack(
        RATE * 1.24,
        Ack {
            in_flight: 2 * BDP,
            ..FULL
        },
    );
    assert_eq!((flow.state(), flow.path.pipe.reached), (State::Drain, true));
    assert_eq!(flow.pace(), (0.5 * 0.99 * 1.24 * RATE) as u64);
    // No bound from loss.
    assert_eq!(flow.path.inflight_longterm, u64::MAX);
}

/// Appendix: never leaving Startup when limited by the application, without loss.
#[test]
fn rounds_limited_by_the_application_do_not_end_startup() {
    let mut flow = Flow::new();
    for _ in 0..20 {
        flow.ack(
            RATE,
            Ack {
                app_limited: true,
                ..FULL
            },
        );
    }
    assert_eq!(flow.state(), State::Startup);
}

/// Section 5.3.1.3: at least six separate losses, and more of them than may be ambient, in a round.
#[test]
fn loss_ends_startup() {
    // 5 % of 100 packets and three standard deviations: 5 + 3 * sqrt(5) = 11.7.
    for (losses, gap, lost, leaves) in [
        (12, true, 12, true),
        (12, true, 11, false),
        (5, true, 30, false),
        (30, false, 30, false),
    ] {
        let mut flow = Flow::new();
        flow.rounds(1);
        for i in 1..=losses {
            flow.lose(BDP, i * MTU, gap);
        }
        // The round of the losses ends with a packet sent after the first of them.
        flow.ack(
            2.0 * RATE,
            Ack {
                in_flight: 4 * BDP,
                lost: lost * MTU,
                delivered: 150_000,
                ..FULL
            },
        );
        let expected = if leaves { State::Drain } else { State::Startup };
        assert_eq!(flow.state(), expected, "{losses} losses, {lost} lost");
        // BBR.bw is still that of the round before, 1 MB/s: 100 kB. More was delivered.
        let bound = if leaves { 150_000 } else { u64::MAX };
        assert_eq!(flow.path.inflight_longterm, bound);
    }
}

#[test]
fn a_round_with_marks_ends_startup() {
    let mut flow = Flow::new();
    flow.rounds(1);
    flow.path.ce_marked = true;
    flow.ack(
        RATE,
        Ack {
            in_flight: 2 * BDP,
            ..FULL
        },
    );
    assert_eq!(flow.state(), State::Drain);
}

#[test]
fn drain_ends_when_the_queue_is_gone() {
    let mut flow = Flow::in_drain();
    assert_eq!(flow.pace(), 495_000);
    let drained = |in_flight| Ack {
        after: ms(10),
        bytes: 1000,
        round: false,
        in_flight,
        ..FULL
    };
    flow.ack(RATE, drained(BDP + 1));
    assert_eq!(flow.state(), State::Drain);
    // And so is the reason for ProbeBW_DOWN.
    flow.ack(RATE, drained(BDP));
    assert_eq!(flow.state(), State::Cruise);
    assert_eq!(flow.pace(), 990_000);
}

/// Appendix: leaving Drain based on time.
#[test]
fn drain_ends_after_three_rounds() {
    let mut flow = Flow::in_drain();
    let full = Ack {
        in_flight: 2 * BDP,
        ..FULL
    };
    for _ in 0..3 {
        flow.ack(RATE, full);
        assert_eq!(flow.state(), State::Drain);
    }
    flow.ack(RATE, full);
    assert_eq!(flow.state(), State::Down);
}

/// Sections 5.3.4.3 and 5.3.4.4.
#[test]
fn the_round_trip_is_probed_after_five_seconds() {
    let mut flow = Flow::in_cruise();
    let longer = Ack {
        rtt: ms(110),
        ..FULL
    };
    let start = flow.now;
    flow.until(State::ProbeRtt, RATE, longer);
    let waited = flow.now - start;
    assert!((ms(4500)..=ms(5100)).contains(&waited), "{waited:?}");
    // Half the pipe, and samples that say so.
    assert_eq!(flow.path.cwnd, BDP / 2);
    assert_eq!(flow.pace(), 990_000);
    let ack = |in_flight, round| Ack {
        after: ms(50),
        bytes: 5000,
        in_flight,
        round,
        rtt: RTT,
        ..FULL
    };
    assert!(
        flow.ack(RATE, ack(60_000, true)),
        "too much is in flight yet"
    );
    assert_eq!(flow.path.probe_rtt_done, None);
    assert!(flow.ack(RATE, ack(50_000, false)));
    let begun = flow.now;
    // 200 ms and a round.
    flow.until(State::Cruise, RATE / 2.0, ack(50_000, true));
    assert_eq!(flow.now - begun, ms(250));
    assert_eq!(
        flow.path.bw, RATE,
        "what was measured meanwhile was not taken"
    );
    assert!(flow.path.cwnd > 190_000, "{}", flow.path.cwnd);
}

#[test]
fn without_a_round_the_round_trip_probe_goes_on() {
    let mut flow = Flow::in_cruise();
    flow.now += ms(6000);
    flow.ack(RATE, FULL);
    assert_eq!(flow.state(), State::ProbeRtt);
    let ack = Ack {
        after: ms(100),
        bytes: 1000,
        round: false,
        in_flight: 40_000,
        ..FULL
    };
    for _ in 0..5 {
        flow.ack(RATE, ack);
        assert_eq!(flow.state(), State::ProbeRtt);
    }
    flow.ack(RATE, Ack { round: true, ..ack });
    assert_eq!(flow.state(), State::Cruise);
}

/// Appendix: entering and leaving ProbeRTT during Startup.
#[test]
fn a_probe_during_startup_leads_back_to_it() {
    let mut flow = Flow::new();
    flow.rounds(2);
    flow.now += ms(6000);
    let low = Ack {
        in_flight: 4000,
        app_limited: true,
        ..FULL
    };
    flow.ack(RATE, low);
    assert_eq!(flow.state(), State::ProbeRtt);
    for _ in 0..3 {
        flow.ack(RATE, low);
    }
    assert_eq!(flow.state(), State::Startup);
    assert_eq!(flow.path.state.pacing_gain(), 2.77);
}

/// Section 5.4.1, and of the appendix: skipping ProbeRTT.
#[test]
fn after_idle_time_the_pace_is_the_rate_and_nothing_is_probed() {
    let mut flow = Flow::in_up();
    assert_eq!(flow.pace(), 1_237_500);
    flow.now += ms(20_000);
    flow.path.on_restart(flow.now, &mut flow.rng);
    assert_eq!(flow.pace(), 990_000);
    flow.ack(RATE, FULL);
    assert_eq!(flow.state(), State::Up);
    // The pause was the probe.
    flow.ack(RATE, FULL);
    assert_ne!(flow.state(), State::ProbeRtt);
}

#[test]
fn idle_time_ends_a_round_trip_probe() {
    let mut flow = Flow::in_cruise();
    let window = flow.path.cwnd;
    flow.now += ms(6000);
    let low = Ack {
        in_flight: 4000,
        ..FULL
    };
    flow.ack(RATE, low);
    assert_eq!(flow.state(), State::ProbeRtt);
    assert!(flow.path.cwnd < window);
    flow.path.on_restart(flow.now + ms(200), &mut flow.rng);
    assert_eq!(flow.state(), State::ProbeRtt);
    flow.path.on_restart(flow.now + ms(201), &mut flow.rng);
    assert_eq!(flow.state(), State::Cruise);
    assert_eq!(flow.path.cwnd, window);
}

/// Section 5.6.4.2: twice the pipe and what comes at once beyond the rate; at least the quantum, and
/// four packets.
#[test]
fn the_window_covers_pipe_aggregation_and_quantum() {
    let flow = Flow::in_cruise();
    let extra = flow.path.aggregation.extra(true);
    assert!(extra > 0);
    assert_eq!(flow.path.cwnd, 2 * BDP + extra);
    // A path of 10 kB/s: a pipe of one packet.
    let mut slow = Flow::new();
    let tiny = Ack {
        bytes: 1000,
        delivered: 1000,
        in_flight: 1000,
        ..FULL
    };
    slow.until(State::Cruise, 10_000.0, tiny);
    assert_eq!(slow.path.cwnd, 4000);
    assert_eq!(slow.pace(), 9_900);
}

/// A round whose packets left together, two of them per acknowledgement: at 1 MB/s, those arrive 2 ms apart.
fn train(flow: &mut Flow, rate: f64, packets: u64) {
    flow.path.cwnd_limited[0] = true;
    for i in 0..packets / 2 {
        let ack = Ack {
            after: if i == 0 { RTT } else { ms(2) },
            bytes: 2 * MTU,
            delivered: 2 * MTU,
            round: i == 0,
            rtt: RTT + ms(2 * i),
            ..FULL
        };
        flow.ack(rate, ack);
    }
}

/// The path takes 1 MB/s, and holds 100 kB. The initial window is 10 kB.
#[test]
fn rapid_startup_goes_to_the_rate_of_a_train() {
    let mut flow = Flow::rapid();
    train(&mut flow, 100_000.0, 6);
    // Too few packets: the window doubles.
    assert_eq!(flow.path.cwnd, 16_000);
    assert_eq!(flow.pace(), 277_000);
    train(&mut flow, 150_000.0, 16);
    // The round began with a window of 18 kB, eight times of which is more than the path holds.
    assert_eq!(flow.path.cwnd, BDP);
    assert_eq!(flow.pace(), 1_000_000);
    // The pace goes little further.
    flow.ack(0.85 * RATE, FULL);
    assert_eq!(flow.pace(), 1_350_000);
    flow.ack(RATE, FULL);
    assert_eq!(flow.pace(), 1_350_000);
    let (mut plain, mut first) = (Flow::new(), Flow::rapid());
    train(&mut plain, 100_000.0, 10);
    assert_eq!(plain.path.cwnd, 20_000);
    train(&mut first, 100_000.0, 10);
    // Eight times the first window.
    assert_eq!(first.path.cwnd, 80_000);
    assert_eq!(first.pace(), 800_000);
}

#[test]
fn a_train_opens_no_window_that_is_not_used() {
    let mut flow = Flow::rapid();
    train(&mut flow, 100_000.0, 10);
    let window = flow.path.cwnd;
    let mut unused = Flow::rapid();
    train(&mut unused, 100_000.0, 2);
    unused.path.cwnd_limited = [false; 2];
    for i in 1..8 {
        let ack = Ack {
            after: ms(2),
            bytes: 2 * MTU,
            round: false,
            rtt: RTT + ms(2 * i),
            ..FULL
        };
        unused.ack(100_000.0, ack);
    }
    assert_eq!(window, 80_000);
    assert!(unused.path.cwnd < 40_000, "{}", unused.path.cwnd);
}

/// Nor after a loss, which tells that the path is full, or that nothing is known of it.
#[test]
fn a_train_opens_no_window_beside_a_loss() {
    let mut flow = Flow::rapid();
    flow.path.recovery = Some(flow.now + ms(1000));
    train(&mut flow, 100_000.0, 10);
    assert_eq!(flow.path.cwnd, 20_000);
}

/// One round without growth that was sent faster than the train's rate is enough.
#[test]
fn rapid_startup_is_over_once_the_rate_of_the_train_is_reached() {
    let mut flow = Flow::rapid();
    train(&mut flow, 100_000.0, 10);
    let full = Ack {
        in_flight: 2 * BDP,
        ..FULL
    };
    // Reached in this round; the second one after it tells what came of it.
    flow.ack(0.95 * RATE, full);
    flow.ack(RATE, full);
    assert_eq!(flow.state(), State::Startup);
    flow.ack(RATE, full);
    assert_eq!(flow.state(), State::Drain);
    assert_eq!(flow.path.inflight_longterm, u64::MAX);
}

/// The train told too little: the rate still grows.
#[test]
fn rapid_startup_goes_on_beyond_a_train() {
    let mut flow = Flow::rapid();
    train(&mut flow, 100_000.0, 10);
    let mut rate = RATE;
    for _ in 0..8 {
        rate *= 1.3;
        flow.ack(rate, FULL);
        assert_eq!(flow.state(), State::Startup);
    }
    assert!(near(flow.pace(), (1.35 * rate) as u64));
}

/// Rounds of twenty acknowledgements, in the second of which a queue grows; the path delivers more in the second round than
/// in the first. Then one round at a time, at these rates.
fn beside_a_queue(mut flow: Flow, rates: [f64; 2]) -> (u64, Flow) {
    let ack = Ack {
        after: ms(5),
        bytes: BDP / 20,
        ..FULL
    };
    let round = |flow: &mut Flow, rate, rtt: fn(u64) -> Duration| {
        for i in 0..20 {
            let (round, rtt) = (i == 0, RTT + rtt(i));
            flow.ack(rate, Ack { round, rtt, ..ack });
        }
    };
    round(&mut flow, RATE, |_| ms(0));
    round(&mut flow, 2.0 * RATE, |i| ms(2 * i));
    assert_eq!(flow.state(), State::Startup);
    let window = flow.path.cwnd;
    for rate in rates {
        round(&mut flow, rate, |_| ms(40));
    }
    (flow.path.cwnd - window.min(flow.path.cwnd), flow)
}

#[test]
fn rapid_startup_is_over_when_the_rate_does_not_grow_beside_a_queue() {
    let stalled = [2.0 * RATE; 2];
    let (_, rapid) = beside_a_queue(Flow::rapid(), stalled);
    assert_ne!(rapid.state(), State::Startup);
    assert_eq!(rapid.path.congestion_events, 0);
    let (grown, plain) = beside_a_queue(Flow::new(), stalled);
    assert_eq!(plain.state(), State::Startup);
    assert!(grown > 0);
}

#[test]
fn rapid_startup_goes_on_if_the_rate_grows_all_the_same() {
    let (_, mut flow) = beside_a_queue(Flow::rapid(), [2.0 * RATE, 4.0 * RATE]);
    assert_eq!(flow.state(), State::Startup);
    let before = flow.path.cwnd;
    flow.ack(4.0 * RATE, FULL);
    assert!(flow.path.cwnd > before);
}
