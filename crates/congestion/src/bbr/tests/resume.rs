//! Careful resume under BBR: a jump in Startup, and what a retreat makes of the model.

use super::super::super::ResumeStep;
use super::*;

/// Half of a window of two bandwidth-delay products.
const JUMP: ResumeStep = ResumeStep::Jump {
    window: BDP,
    rtt: RTT,
    chance_loss: 0,
};

//= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
//= type=test
//# When this "carefully-resuming" flag is set, the BBR congestion controller sets the BBR pacing rate to the larger of
//# the nominal pacing rate (BBR.bw multiplied bytes BBRStartupPacingGain) or the calculated probing rate.
//= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
//= type=test
//# Then, CWND is set to the larger of BBR.bw and the probing rate, multiplied by BBR.rtt_min times
//# BBRStartupCwndGain.
#[test]
fn a_jump_sets_pace_and_window() {
    let mut flow = Flow::new();
    assert!(flow.path.on_resume(&JUMP));
    assert_eq!(flow.path.pacing_rate, RATE);
    assert_eq!(flow.path.cwnd, 2 * BDP);

    // Where Startup is faster already, nothing becomes slower.
    let mut flow = Flow::new();
    flow.ack(RATE, FULL);
    let (pace, cwnd) = (flow.path.pacing_rate, flow.path.cwnd);
    assert!(pace > RATE);
    let step = ResumeStep::Jump {
        window: BDP / 4,
        rtt: RTT,
        chance_loss: 0,
    };
    assert!(flow.path.on_resume(&step));
    assert_eq!(flow.path.pacing_rate, pace);
    assert_eq!(flow.path.cwnd, cwnd.max(2 * BDP));
}

//= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
//= type=test
//# Careful Resume is allowed to transmit unvalidated packets only when the BBR flow is in the Startup state.
#[test]
fn only_startup_jumps() {
    let mut flow = Flow::new();
    for _ in 0..10 {
        flow.ack(RATE, FULL);
    }
    assert_ne!(flow.path.state, State::Startup);
    let (pace, cwnd) = (flow.path.pacing_rate, flow.path.cwnd);
    assert!(!flow.path.on_resume(&JUMP));
    assert_eq!((flow.path.pacing_rate, flow.path.cwnd), (pace, cwnd));
}

#[test]
fn what_is_in_flight_is_the_window_from_which_startup_goes_on() {
    let mut flow = Flow::new();
    flow.path.on_resume(&JUMP);
    let settle = ResumeStep::Settle {
        window: BDP,
        validating: true,
    };
    assert!(flow.path.on_resume(&settle));
    assert_eq!(flow.path.cwnd, BDP);
    assert!(flow.path.resuming);
    flow.ack(
        RATE,
        Ack {
            bytes: BDP / 2,
            ..FULL
        },
    );
    assert_eq!(flow.path.cwnd, BDP + BDP / 2);
    assert!(flow.path.on_resume(&ResumeStep::Validated));
    assert!(!flow.path.resuming);
    assert_eq!(flow.path.state, State::Startup);
}

#[test]
fn a_jump_that_was_not_used_is_taken_back() {
    let mut flow = Flow::new();
    flow.path.on_resume(&JUMP);
    let settle = ResumeStep::Settle {
        window: 12_000,
        validating: false,
    };
    assert!(flow.path.on_resume(&settle));
    assert_eq!(flow.path.cwnd, 12_000);
    assert!(flow.path.pacing_rate < RATE);
    assert!(!flow.path.resuming);
}

//= specs/rfc9959-draft.md#a-2-validation-for-bbr
//= type=test
//# If congestion is detected while using Careful Resume (i.e, the "carefully-resuming" flag is True), BBR then exits the
//# Startup state and enters the Drain state.
//= specs/rfc9959-draft.md#a-3-safe-retreat-for-bbr
//= type=test
//# Therefore any delivery rates measured in the Drain state MUST be discarded if the "carefully-resuming" flag is set to
//# True.
#[test]
fn a_retreat_drains_and_measures_nothing_while_it_does() {
    let mut flow = Flow::new();
    flow.path.on_resume(&JUMP);
    flow.ack(
        RATE / 4.0,
        Ack {
            in_flight: 2 * BDP,
            ..FULL
        },
    );
    assert!(
        flow.path
            .on_resume(&ResumeStep::Retreat { window: BDP / 8 })
    );
    assert_eq!(flow.path.state, State::Drain);
    flow.ack(
        RATE,
        Ack {
            in_flight: 2 * BDP,
            ..FULL
        },
    );
    assert_eq!(flow.path.state, State::Drain);
    assert_eq!(flow.path.max_bw.get(), RATE / 4.0, "no measure of the path");
    let ssthresh = BDP / 8;
    assert!(flow.path.on_resume(&ResumeStep::Leave { ssthresh }));
    assert!(flow.path.resuming, "it is still draining");
    flow.ack(
        RATE,
        Ack {
            in_flight: 0,
            ..FULL
        },
    );
    let state = flow.path.state;
    assert!(
        matches!(state, State::Refill | State::Up),
        "{state:?}: it looks for more at once"
    );
    assert!(!flow.path.resuming);
    flow.ack(RATE / 2.0, FULL);
    assert_eq!(flow.path.max_bw.get(), RATE / 2.0);
}

/// Half of what the jump delivered is what slow start may reach at once, and so it is for the rate, even if hardly any was measured
/// before the jump. Not less than was measured.
#[test]
fn a_retreat_leaves_half_of_what_was_delivered() {
    for (measured, ssthresh, left) in [
        (RATE / 100.0, BDP / 4, RATE / 4.0),
        (RATE / 2.0, BDP / 4, RATE / 2.0),
    ] {
        let mut flow = Flow::new();
        flow.path.on_resume(&JUMP);
        flow.ack(
            measured,
            Ack {
                in_flight: 2 * BDP,
                ..FULL
            },
        );
        flow.path
            .on_resume(&ResumeStep::Retreat { window: ssthresh });
        flow.path.on_resume(&ResumeStep::Leave { ssthresh });
        let rate = flow.path.max_bw.get();
        assert!((rate / left - 1.0).abs() < 0.01, "{rate} {left}");
    }
}

/// A fifth of a jump is lost, and then some more: one congestion event.
#[test]
fn much_loss_after_a_jump_is_congestion_at_once() {
    let mut flow = Flow::new();
    flow.path.on_resume(&JUMP);
    flow.ack(RATE / 4.0, FULL);
    assert_eq!(flow.path.congestion_events, 0);
    for lost in 1..=20 {
        flow.path.on_lost(
            &LostPacket {
                tx_in_flight: BDP,
                lost: lost * MTU,
                total_delivered: BDP,
                ..LostPacket::new(SLOT, flow.now, lost, flow.now, MTU)
            },
            &mut flow.rng,
        );
    }
    assert_eq!(flow.path.state, State::Drain);
    assert_eq!(flow.path.congestion_events, 1);
}

/// What the path is known to lose by chance is no congestion after a jump, and what is more than that still is.
#[test]
fn loss_that_is_known_of_the_path_ends_no_jump() {
    let after = |chance_loss, lost: u64| {
        let mut flow = Flow::new();
        let step = ResumeStep::Jump {
            window: BDP,
            rtt: RTT,
            chance_loss,
        };
        flow.path.on_resume(&step);
        flow.ack(RATE / 4.0, FULL);
        for number in 1..=lost {
            flow.path.on_lost(
                &LostPacket {
                    tx_in_flight: BDP,
                    lost: number * MTU,
                    total_delivered: BDP,
                    ..LostPacket::new(SLOT, flow.now, number, flow.now, MTU)
                },
                &mut flow.rng,
            );
        }
        flow.path.state
    };
    let packets = BDP / MTU;
    // More than two percent, by more than chance.
    let expected = packets as f64 * 0.02;
    let few = (expected + 3.0 * expected.sqrt()) as u64;
    assert_eq!(after(0, few), State::Startup);
    assert_eq!(after(0, few + 1), State::Drain);
    assert_eq!(after(30_000, few + 1), State::Startup);
    // No memory makes more than a twentieth of them chance.
    assert_eq!(after(30_000, packets / 2), State::Drain);
    assert_eq!(after(1_000_000, packets / 2), State::Drain);
}
