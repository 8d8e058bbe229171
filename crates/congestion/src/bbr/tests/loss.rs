//! What loss, marks and their undoing do to the model.

use super::*;

/// Section 5.5.10.2: the bound falls to what was in flight when the losses crossed the threshold, or
/// to 0.7 of what is wanted in flight.
#[test]
fn loss_in_a_probe_sets_the_bound() {
    for (tx_in_flight, before, bound) in [
        // 149 packets before it, 3 lost: 0.02 * 149 - 3 = -0.02 packets, over 0.98.
        (150, 3, 148_979),
        // Ten lost of 100: (1.98 - 9) / 0.98 = -7.163 packets, from 99.
        (100, 9, 91_836),
        // 0.7 * 100 kB are more than the 40 packets.
        (40, 5, 70_000),
    ] {
        let mut flow = Flow::in_up();
        flow.lose(tx_in_flight * MTU, (before + 1) * MTU, true);
        assert_eq!(flow.state(), State::Down, "{tx_in_flight}");
        let found = flow.path.inflight_longterm;
        assert!(near(found, bound), "{found} for {bound}");
        // Only once for each probe.
        flow.lose(50 * MTU, 20 * MTU, true);
        assert_eq!(flow.path.inflight_longterm, found);
    }
    // Two of 100 are not too many.
    let mut flow = Flow::in_up();
    flow.lose(BDP, 2 * MTU, true);
    assert_eq!(flow.state(), State::Up);
    assert_eq!(flow.path.inflight_longterm, u64::MAX);
}

/// Appendix: leaving ProbeBW_UP on loss when limited by the application: the probe ends, but what was
/// in flight says nothing.
#[test]
fn loss_in_a_limited_probe_sets_no_bound() {
    let mut flow = Flow::in_up();
    let lost = LostPacket {
        path: SLOT,
        now: flow.now,
        number: 1,
        sent: flow.now - RTT,
        size: MTU,
        tx_in_flight: BDP,
        lost: 5 * MTU,
        total_delivered: flow.delivered,
        app_limited: true,
    };
    flow.path.on_lost(&lost, &mut flow.rng);
    assert_eq!(flow.state(), State::Down);
    assert_eq!(flow.path.inflight_longterm, u64::MAX);
}

/// Section 5.5.10.3: at the end of each round with loss, what was delivered in it, or 0.7 of what was
/// before.
#[test]
fn loss_in_the_cruise_lowers_the_short_term_model() {
    let mut flow = Flow::in_cruise();
    let window = flow.path.cwnd;
    let lose_in_round = |flow: &mut Flow, rate: f64, delivered| {
        flow.lose(BDP, MTU, true);
        let ack = Ack { delivered, ..FULL };
        // Ends the round of the loss; the samples of the next begin with it.
        flow.ack(rate, ack);
    };
    // The round before was at 1 MB/s, and its samples still count.
    lose_in_round(&mut flow, 0.9 * RATE, 90_000);
    assert_eq!(flow.path.bw_shortterm, RATE);
    lose_in_round(&mut flow, 0.6 * RATE, 60_000);
    assert_eq!(flow.path.bw_shortterm, 0.9 * RATE);
    assert_eq!(flow.path.bw, 0.9 * RATE);
    assert_eq!(flow.pace(), (0.9 * 0.99 * RATE) as u64);
    // 0.7 * 0.7 of the window at the first loss, more than the 90 kB delivered.
    let expected = window as f64 * 0.49;
    let bound = flow.path.inflight_shortterm as f64;
    assert!((bound - expected).abs() <= 2.0, "{bound}, {window}");
    assert_eq!(flow.path.cwnd, flow.path.inflight_shortterm);
    lose_in_round(&mut flow, 0.6 * RATE, 60_000);
    // Not below 0.7 of 0.9.
    assert!((flow.path.bw_shortterm - 0.63 * RATE).abs() < 1.0);
    // Without loss, it stays.
    flow.ack(0.7 * RATE, FULL);
    flow.ack(0.7 * RATE, FULL);
    assert!((flow.path.bw_shortterm - 0.63 * RATE).abs() < 1.0);
    assert_eq!(flow.path.congestion_events, 3);
    assert_eq!(flow.path.max_bw.get(), RATE);
}

#[test]
fn loss_while_probing_leaves_the_short_term_model_alone() {
    let mut flow = Flow::in_up();
    flow.lose(BDP, MTU, true);
    flow.rounds(1);
    assert_eq!(flow.path.bw_shortterm, f64::INFINITY);
    assert_eq!(flow.state(), State::Up);
}

/// Loss that goes on with less in flight and without a queue is ambient: its first rounds are
/// answered, and once it is known, taken back.
#[test]
fn ambient_loss_is_measured_and_borne() {
    let mut flow = Flow::in_cruise();
    let lossy_round = |flow: &mut Flow, lost: u64| {
        for _ in 0..lost {
            flow.lose(BDP, MTU, true);
        }
        // All that is not lost is delivered.
        flow.ack((1.0 - 0.01 * lost as f64) * flow.path.bw, FULL);
    };
    lossy_round(&mut flow, 2);
    lossy_round(&mut flow, 2);
    assert!(flow.path.bw_shortterm < RATE, "first it gives way");
    lossy_round(&mut flow, 2);
    lossy_round(&mut flow, 2);
    assert_eq!(
        flow.path.bw_shortterm,
        f64::INFINITY,
        "known, and taken back"
    );
    let events = flow.path.congestion_events;
    for _ in 0..20 {
        lossy_round(&mut flow, 2);
    }
    assert_eq!(flow.path.congestion_events, events);
    assert_eq!(flow.pace(), 990_000);
    // 2 % are expected: 2 + 3 * sqrt(2) = 6.2 of 100 packets may be lost.
    lossy_round(&mut flow, 6);
    assert_eq!(flow.path.congestion_events, events);
    lossy_round(&mut flow, 8);
    assert_eq!(flow.path.congestion_events, events + 1);
}

/// With a queue all through the round, loss is congestion, however usual.
#[test]
fn loss_with_a_queue_is_never_ambient() {
    let mut flow = Flow::in_cruise();
    let events = flow.path.congestion_events;
    for round in 1..=10 {
        flow.lose(BDP, MTU, true);
        flow.ack(
            RATE,
            Ack {
                rtt: ms(151),
                ..FULL
            },
        );
        assert_eq!(flow.path.congestion_events, events + round);
    }
    assert_eq!(flow.path.ambient.allowance(100.0, 0.0), 0.0);
}

/// Section 3.7 asks for a response to marks.
#[test]
fn marks_are_congestion() {
    let mut flow = Flow::in_cruise();
    flow.path.ce_marked = true;
    flow.ack(0.8 * RATE, FULL);
    flow.ack(0.8 * RATE, FULL);
    assert!(flow.path.bw_shortterm <= RATE);
    assert_eq!(flow.path.congestion_events, 1);
    let mut flow = Flow::in_up();
    flow.path.ce_marked = true;
    flow.ack(
        RATE,
        Ack {
            tx_in_flight: 110_000,
            ..FULL
        },
    );
    assert_eq!(flow.state(), State::Down);
    assert_eq!(flow.path.inflight_longterm, 110_000);
    // Nothing takes a mark back.
    flow.path.on_spurious_loss(flow.now, 1 << 20);
    assert_eq!(flow.state(), State::Down);
}

/// RFC 9002 section 7.6.2.
#[test]
fn persistent_congestion_leads_to_the_least_window_and_back_by_doubling() {
    let mut flow = Flow::in_cruise();
    flow.lose(BDP, MTU, true);
    flow.path.on_persistent_congestion(flow.now);
    assert_eq!(flow.path.cwnd, 2 * MTU);
    flow.now += RTT;
    let mut window = 2 * MTU;
    for _ in 0..4 {
        let ack = Ack {
            bytes: window,
            in_flight: 0,
            ..FULL
        };
        flow.ack(RATE, ack);
        window = (2 * window).max(4 * MTU);
        assert_eq!(flow.path.cwnd, window);
    }
}

/// Section 5.5.11.2: once all that an episode lost has turned up, as if it had not been.
#[test]
fn a_spurious_loss_is_taken_back() {
    let mut flow = Flow::in_cruise();
    let window = flow.path.cwnd;
    let sent = flow.now - RTT;
    flow.lose(BDP, MTU, true);
    flow.lose(BDP, 2 * MTU, true);
    flow.ack(0.5 * RATE, FULL);
    flow.ack(0.5 * RATE, FULL);
    assert!(flow.path.bw_shortterm <= RATE);
    assert!(flow.path.cwnd < window);
    flow.path.on_spurious_loss(sent, MTU);
    assert!(flow.path.cwnd < window, "one is still missing");
    // One that was lost before the episode counts for nothing.
    flow.path.on_spurious_loss(sent - ms(1), MTU);
    assert!(flow.path.cwnd < window);
    flow.path.on_spurious_loss(sent, MTU);
    assert_eq!(flow.path.cwnd, window);
    assert_eq!(flow.path.bw_shortterm, f64::INFINITY);
    assert_eq!(flow.path.inflight_shortterm, u64::MAX);
    assert_eq!(flow.state(), State::Cruise);
}

#[test]
fn a_state_left_for_a_spurious_loss_is_entered_again() {
    let mut flow = Flow::in_up();
    let sent = flow.now - RTT;
    for i in 1..=3 {
        flow.lose(BDP, i * MTU, true);
    }
    assert_eq!(flow.state(), State::Down);
    flow.path.on_spurious_loss(sent, 3 * MTU);
    assert_eq!(flow.state(), State::Refill);
    assert_eq!(flow.path.inflight_longterm, u64::MAX);

    let mut flow = Flow::new();
    flow.rounds(1);
    let sent = flow.now - RTT;
    flow.lose_separately(12);
    flow.ack(
        RATE,
        Ack {
            lost: 12 * MTU,
            in_flight: 2 * BDP,
            ..FULL
        },
    );
    assert_eq!(flow.state(), State::Drain);
    flow.path.on_spurious_loss(sent, 12 * MTU);
    assert_eq!(flow.state(), State::Startup);
    assert!(!flow.path.pipe.reached);
}
