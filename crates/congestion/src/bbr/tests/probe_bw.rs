//! The cycle of ProbeBW.

use super::*;
use crate::bbr::probe_bw::AckPhase;

/// An acknowledgement within a round.
const MEANWHILE: Ack = Ack {
    after: ms(10),
    bytes: 10_000,
    round: false,
    ..FULL
};

/// Section 5.3.3.1: both at or below the pipe, and with room for others.
#[test]
fn down_lasts_until_there_is_headroom() {
    let mut flow = Flow::in_drain();
    flow.path.inflight_longterm = 110_000;
    flow.ack(RATE, MEANWHILE);
    assert_eq!(flow.state(), State::Down);
    assert_eq!((flow.pace(), flow.path.cwnd), (891_000, 110_000));
    let with = |in_flight| Ack {
        in_flight,
        tx_in_flight: in_flight,
        ..MEANWHILE
    };
    // 0.85 * 110 kB = 93.5 kB.
    flow.ack(RATE, with(93_501));
    assert_eq!(flow.state(), State::Down);
    flow.ack(RATE, with(93_500));
    assert_eq!(flow.state(), State::Cruise);
    assert_eq!((flow.pace(), flow.path.cwnd), (990_000, 93_500));
}

/// Section 5.3.3.8.3: as many rounds as there are packets in the pipe, 63 at most, less 0 or 1.
#[test]
fn the_next_probe_comes_after_63_rounds() {
    let mut flow = Flow::in_cruise();
    let begun = flow.path.rounds.count;
    // 63 of them end before two seconds.
    flow.until(State::Refill, RATE, QUICK);
    let rounds = flow.path.rounds.count - begun;
    assert!((60..=63).contains(&rounds), "{rounds}");
}

#[test]
fn a_small_pipe_is_probed_as_often_as_reno_would_grow() {
    let mut flow = Flow::new();
    // 200 kB/s * 100 ms = 20 packets.
    let ack = Ack {
        bytes: 20_000,
        delivered: 20_000,
        in_flight: 20_000,
        ..FULL
    };
    flow.until(State::Cruise, 200_000.0, ack);
    let rounds = flow.until(State::Refill, 200_000.0, ack);
    assert!((18..=20).contains(&rounds), "{rounds}");
}

#[test]
fn the_next_probe_comes_after_two_to_three_seconds() {
    for seed in 0..20 {
        let mut flow = Flow::in_drain();
        flow.rng = StdRng::seed_from_u64(seed);
        flow.rounds(2);
        let begun = flow.path.cycle_start;
        // Rounds of a second: time it is.
        let ack = Ack {
            after: ms(50),
            round: false,
            ..FULL
        };
        flow.until(State::Refill, RATE, ack);
        let waited = flow.now - begun;
        assert!((ms(2000)..=ms(3050)).contains(&waited), "{waited:?}");
    }
}

/// Sections 5.3.3.3 and 5.3.3.4.
#[test]
fn a_probe_refills_the_pipe_for_a_round_and_then_goes_up() {
    let mut flow = Flow::in_cruise();
    flow.path.bw_shortterm = 0.5 * RATE;
    flow.path.inflight_shortterm = BDP / 2;
    flow.until(State::Refill, RATE, FULL);
    // The short-term model is forgotten.
    assert_eq!(flow.path.bw_shortterm, f64::INFINITY);
    assert_eq!(flow.path.inflight_shortterm, u64::MAX);
    assert_eq!(flow.pace(), 990_000);
    assert!(!flow.path.probe_sample);
    flow.ack(RATE, MEANWHILE);
    assert_eq!(flow.state(), State::Refill);
    flow.rounds(1);
    assert_eq!(flow.state(), State::Up);
    assert!(flow.path.probe_sample);
    assert_eq!(flow.pace(), 1_237_500);
    // 2.25 times the pipe, aggregation, and two packets: the window gets there by what is
    // acknowledged.
    flow.rounds(1);
    let extra = flow.path.aggregation.extra(true);
    assert_eq!(flow.path.cwnd, 225_000 + extra + 2000);
}

/// Section 5.3.3.7, first condition.
#[test]
fn a_plateau_ends_the_probe() {
    let mut flow = Flow::in_up();
    flow.rounds(2);
    assert_eq!(flow.state(), State::Up);
    flow.rounds(1);
    assert_eq!(flow.state(), State::Down);
    assert_eq!(flow.path.ack_phase, AckPhase::Stopping);
    assert!(!flow.path.prev_probe_too_high);
    // A rise of a quarter begins the count anew.
    let mut flow = Flow::in_up();
    flow.rounds(2);
    flow.ack(1.25 * RATE, FULL);
    flow.ack(1.25 * RATE, FULL);
    flow.ack(1.25 * RATE, FULL);
    assert_eq!(flow.state(), State::Up);
    flow.ack(1.25 * RATE, FULL);
    assert_eq!(flow.state(), State::Down);
}

/// Section 5.5.6: a round after the probe, the filter moves on; two cycles later, an old maximum is
/// forgotten.
#[test]
fn a_maximum_lasts_for_two_cycles() {
    let mut flow = Flow::in_up();
    flow.ack(1.2 * RATE, FULL);
    let mut cycles = Vec::new();
    for _ in 0..3 {
        // ProbeRTT is another matter.
        flow.path.rtt.on_probed(flow.now);
        flow.until(State::Cruise, RATE, QUICK);
        // A round after the probe's end.
        flow.ack(RATE, QUICK);
        cycles.push(flow.path.max_bw.get() / RATE);
        flow.until(State::Up, RATE, QUICK);
    }
    assert_eq!(cycles, [1.2, 1.0, 1.0]);
}

/// Appendix: never leaving ProbeBW_UP when limited by the application, without loss.
#[test]
fn a_probe_that_is_limited_goes_on() {
    let mut flow = Flow::in_up();
    for _ in 0..20 {
        flow.ack(
            RATE,
            Ack {
                app_limited: true,
                ..QUICK
            },
        );
    }
    assert_eq!(flow.state(), State::Up);
}

/// Section 5.3.3.5: with the window used up at the bound, that grows by 1, 2, 4... packets per round.
#[test]
fn the_bound_is_raised_faster_and_faster() {
    let mut flow = Flow::in_up();
    flow.path.inflight_longterm = BDP;
    flow.path.cwnd = BDP;
    flow.path.probe_up_rounds = 0;
    flow.path.probe_up_acked = 0;
    flow.path.probe_up_acked_per_inc = BDP;
    let mut bounds = Vec::new();
    for _ in 0..6 {
        // All of the window leaves, and is acknowledged in ten parts.
        let window = flow.path.cwnd;
        for part in 0..10 {
            flow.path.on_sent(window);
            flow.ack(
                RATE,
                Ack {
                    bytes: window / 10,
                    round: part == 0,
                    in_flight: window,
                    tx_in_flight: window,
                    ..MEANWHILE
                },
            );
        }
        assert_eq!(flow.state(), State::Up);
        bounds.push((flow.path.inflight_longterm - BDP) / MTU);
    }
    // The slope is raised with the first acknowledgement of each round, after it has counted.
    let growth: Vec<_> = std::iter::once(bounds[0])
        .chain(bounds.windows(2).map(|pair| pair[1] - pair[0]))
        .collect();
    for (round, grown) in growth.iter().enumerate() {
        let expected = 1 << round;
        assert!(grown.abs_diff(expected) <= 1 + expected / 8, "{growth:?}");
    }
}

/// Where the window is not used up, the bound stays.
#[test]
fn an_unused_bound_is_not_raised() {
    let mut flow = Flow::in_up();
    flow.path.inflight_longterm = BDP;
    for _ in 0..2 {
        flow.ack(
            RATE,
            Ack {
                tx_in_flight: BDP / 2,
                in_flight: BDP / 2,
                ..FULL
            },
        );
    }
    assert_eq!(flow.path.inflight_longterm, BDP);
    // More in flight without too much loss: the bound is at least that.
    flow.ack(
        RATE,
        Ack {
            tx_in_flight: BDP + 500,
            lost: 2009,
            ..MEANWHILE
        },
    );
    assert_eq!(flow.path.inflight_longterm, BDP + 500);
}

/// Section 5.3.3.6: after a probe that went too high, the next one only touches the bound; if that
/// does no harm, another follows at once.
#[test]
fn a_probe_after_one_too_high_is_careful() {
    let mut flow = Flow::in_up();
    flow.rounds(1);
    // The third of 100 packets lost: more than 2 %.
    for i in 1..=3 {
        flow.lose(BDP, i * MTU, true);
    }
    assert_eq!(flow.state(), State::Down);
    assert!(flow.path.prev_probe_too_high);
    let bound = flow.path.inflight_longterm;
    // 0.02 * 99 - 2 = -0.02 packets of it, over 0.98, are 20 bytes less than 99 packets.
    assert!(near(bound, 98_979), "{bound}");

    let low = Ack {
        in_flight: 80_000,
        tx_in_flight: 80_000,
        ..QUICK
    };
    flow.until(State::Up, RATE, low);
    assert!(!flow.path.prev_probe_precautionary);
    flow.ack(
        RATE,
        Ack {
            in_flight: bound,
            tx_in_flight: bound,
            ..MEANWHILE
        },
    );
    assert_eq!(flow.state(), State::Down);
    assert!(flow.path.prev_probe_precautionary);
    assert!(!flow.path.prev_probe_too_high);
    // A round without too much loss, and it goes on.
    flow.ack(
        RATE,
        Ack {
            in_flight: 80_000,
            tx_in_flight: 80_000,
            ..FULL
        },
    );
    assert_eq!(flow.state(), State::Refill);
    flow.rounds(1);
    assert_eq!(flow.state(), State::Up);
    flow.ack(
        RATE,
        Ack {
            in_flight: 2 * BDP,
            ..MEANWHILE
        },
    );
    assert_eq!(flow.state(), State::Up);
}

/// A flow that took the path over from CUBIC, in the cruise.
fn considerate() -> Flow {
    let mut flow = Flow::in_cruise();
    (flow.path.considerate, flow.path.fill) = (true, 1.1);
    flow
}

const fn with_rtt(rtt: Duration) -> Ack {
    Ack { rtt, ..FULL }
}

#[test]
fn a_considerate_flow_leaves_more_while_a_queue_stands() {
    let mut flow = considerate();
    let mut fill_after = |rounds, rtt| {
        for _ in 0..rounds {
            flow.ack(RATE, with_rtt(rtt));
            assert_eq!(flow.state(), State::Cruise);
        }
        let full = flow.path.considerate_inflight(&flow.rtt);
        (flow.path.fill, full)
    };
    // An eighth of 100 ms is no more than variation.
    let (_, before) = fill_after(2, ms(112));
    let (fill, less) = fill_after(1, ms(113));
    assert!((fill - 1.05).abs() < 1e-9 && less < before, "{fill}");
    assert!((fill_after(1, ms(113)).0 - 1.0).abs() < 1e-9);
    // A fifth is left to others, and no more.
    assert!((fill_after(6, ms(113)).0 - 0.8).abs() < 1e-9);
    assert!((fill_after(3, ms(100)).0 - 0.83).abs() < 1e-9);
}

#[test]
fn a_considerate_probe_ends_with_the_queue_that_it_makes() {
    for (considers, queue, ends) in [(true, 26, true), (true, 24, false), (false, 26, false)] {
        let mut flow = considerate();
        flow.path.considerate = considers;
        flow.until(State::Up, RATE, QUICK);
        flow.ack(RATE, with_rtt(ms(100 + queue)));
        assert_eq!(flow.state() == State::Down, ends, "{considers} {queue}");
    }
}
