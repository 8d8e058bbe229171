//! Careful resume by hand: each transition of RFC 9959, under each controller.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::{
    AckedPacket, CongestionControl, CongestionEvent, ControllerContext, ControllerFactory,
    InitialWindow, NewPath, SlowStart,
};
use super::*;

const MTU: u16 = 1000;
const PACKET: u64 = MTU as u64;
const INITIAL: u64 = 10 * PACKET;

const WINDOWED: [CongestionControl; 5] = [
    CongestionControl::NewReno,
    CongestionControl::Cubic,
    CongestionControl::Lia,
    CongestionControl::Olia,
    CongestionControl::Balia,
];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn saved(window: u64, rtt: Duration) -> SavedPath {
    let mut saved = SavedPath::new(rtt, Duration::ZERO);
    saved.window = window;
    saved
}

/// A path of 100 ms that had carried 300 packets, and a sender that is never short of data.
struct Run {
    cc: Box<dyn Controller>,
    resume: CarefulResume,
    path: PathIndex,
    now: Instant,
    rtt: RttEstimator,
    sent: u64,
    in_flight: u64,
}

impl Run {
    fn new(kind: CongestionControl) -> Self {
        Self::with(kind, ResumeLimits::default())
    }

    fn with(kind: CongestionControl, limits: ResumeLimits) -> Self {
        let now = Instant::now();
        let path = PathIndex::new(0).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let (initial, slow_start) = (InitialWindow::Packets(10), Some(SlowStart::Classic));
        let mut context = ControllerContext::new(initial, slow_start, &mut rng);
        let mut cc = kind.build(&mut context);
        cc.add_path(&NewPath::new(path, now, MTU));
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, ms(100), Duration::ZERO);
        let resume =
            CarefulResume::new(path, &saved(300 * PACKET, ms(100)), INITIAL, limits).unwrap();
        Self {
            cc,
            resume,
            path,
            now,
            rtt,
            sent: 0,
            in_flight: 0,
        }
    }

    fn window(&self) -> u64 {
        self.cc.window(self.path)
    }

    fn packets(&self) -> u64 {
        self.window() / PACKET
    }

    /// Sends this many packets, numbered from 1.
    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.sent += 1;
            self.in_flight += PACKET;
            let (now, number) = (self.now, self.sent);
            let (rtt, cc) = (&self.rtt, &mut *self.cc);
            self.resume
                .on_sent(now, number, self.in_flight, MTU, rtt, cc, || true);
        }
    }

    /// The packets with these numbers are acknowledged together.
    fn ack(&mut self, numbers: std::ops::RangeInclusive<u64>) -> bool {
        self.ack_and_lose(numbers, 0)
    }

    /// And so many that were sent before are lost by it.
    fn ack_and_lose(&mut self, numbers: std::ops::RangeInclusive<u64>, lost: u64) -> bool {
        let app_limited = self.resume.holds_window();
        let sent = self.now - ms(100);
        let last = *numbers.end();
        for number in numbers {
            self.resume.on_packet_acked(number, MTU);
            self.in_flight -= PACKET;
            self.cc.on_packet_acked(&AckedPacket::new(
                self.path,
                self.now,
                sent,
                PACKET,
                app_limited,
                &self.rtt,
            ));
        }
        if lost > 0 {
            self.in_flight -= lost * PACKET;
            self.cc.on_congestion_event(&CongestionEvent::loss(
                self.path,
                self.now,
                self.now,
                lost * PACKET,
                false,
            ));
        }
        let cc = &mut *self.cc;
        self.resume
            .on_ack_end(self.now, Some(last), self.in_flight, &self.rtt, cc)
    }

    /// The first packets of appendix A.1: 29 in flight, and the path confirmed.
    fn jumped(kind: CongestionControl) -> Self {
        let mut run = Self::new(kind);
        run.send(10);
        assert_eq!(run.resume.state(), ResumeState::Unvalidated, "{kind}");
        run
    }
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# - Unvalidated Phase (Setting the jump_cwnd): To avoid starving other flows that could have either started or
//# increased their use of capacity since observing the capacity of a path, the jump_cwnd MUST be no more than half of
//# the saved_cwnd.
#[test]
fn a_full_window_jumps_to_half_of_what_is_saved() {
    for kind in WINDOWED {
        let mut run = Run::new(kind);
        run.send(9);
        assert_eq!(run.resume.state(), ResumeState::Reconnaissance, "{kind}");
        assert_eq!(run.packets(), 10, "{kind}");
        run.send(1);
        assert_eq!(run.resume.state(), ResumeState::Unvalidated, "{kind}");
        assert_eq!((run.packets(), run.resume.jump()), (150, 150_000), "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# - Unvalidated Phase (Pacing transmission): All packets sent in the Unvalidated Phase MUST use pacing based on the
//# current RTT.
#[test]
fn unvalidated_packets_are_paced_over_a_round_trip() {
    let mut run = Run::new(CongestionControl::Cubic);
    assert_eq!(run.resume.pace(), None);
    // The current RTT, not the saved one.
    run.rtt = RttEstimator::new(ms(333));
    run.rtt.update(run.now, ms(112), Duration::ZERO);
    run.send(10);
    assert_eq!(run.resume.pace(), Some(150_000.0 * 1e9 / 112e6));
    run.send(140);
    assert_eq!(run.resume.state(), ResumeState::Validating);
    assert_eq!(run.resume.pace(), None);
}

#[test]
fn no_jump_goes_beyond_the_configured_one() {
    let limits = ResumeLimits {
        max_jump: 40 * PACKET,
        ..ResumeLimits::default()
    };
    let mut run = Run::with(CongestionControl::NewReno, limits);
    run.send(10);
    assert_eq!(run.packets(), 40);
}

#[test]
fn a_small_window_is_not_worth_a_jump() {
    let path = PathIndex::new(0).unwrap();
    let new = |window, rtt| {
        let limits = ResumeLimits::default();
        CarefulResume::new(path, &saved(window, rtt), INITIAL, limits).is_some()
    };
    assert!(!new(2 * INITIAL - 1, ms(100)));
    assert!(new(2 * INITIAL, ms(100)));
    assert!(!new(2 * INITIAL, Duration::ZERO));
    assert!(new(u64::MAX, Duration::MAX));
}

//= specs/rfc9959-draft.md#3-2-reconnaissance-phase
//= type=test
//# - Reconnaissance Phase (Path confirmed): When the sender has received an ACK that acknowledges all the initial
//# data (usually the IW) without reported congestion, it MAY then enter the Unvalidated Phase.
#[test]
fn nothing_jumps_before_the_initial_data_is_acknowledged() {
    let mut run = Run::new(CongestionControl::Cubic);
    run.rtt = RttEstimator::new(ms(333));
    run.send(10);
    assert_eq!(run.resume.state(), ResumeState::Reconnaissance);

    let limits = ResumeLimits {
        reconnaissance: Reconnaissance::InitialWindow,
        ..ResumeLimits::default()
    };
    let mut run = Run::with(CongestionControl::Cubic, limits);
    run.send(10);
    assert_eq!(run.resume.state(), ResumeState::Reconnaissance);
    run.now += ms(100);
    run.ack(1..=9);
    // The window has grown to 19 packets.
    run.send(18);
    assert_eq!(run.resume.state(), ResumeState::Reconnaissance);
    run.ack(10..=10);
    run.send(2);
    assert_eq!(run.resume.state(), ResumeState::Unvalidated);
    assert_eq!(run.packets(), 150);
}

//= specs/rfc9959-draft.md#3-2-reconnaissance-phase
//= type=test
//# - Reconnaissance Phase (Minimum RTT too small): If the minimum RTT recorded in the Reconnaissance Phase is less
//# than or equal to (saved_rtt / 2) (see Section 4.2.1), the sender MUST stop using Careful Resume (e.g., logged as
//# rtt_not_validated in [LOG]) and returns to use normal CC.
#[test]
fn another_round_trip_is_another_path() {
    for (rtt, state) in [
        (50, ResumeState::RttChanged),
        (51, ResumeState::Unvalidated),
        (100, ResumeState::Unvalidated),
        (1001, ResumeState::RttChanged),
    ] {
        let mut run = Run::new(CongestionControl::Cubic);
        run.rtt = RttEstimator::new(ms(333));
        run.rtt.update(run.now, ms(rtt), Duration::ZERO);
        run.send(10);
        assert_eq!(run.resume.state(), state, "{rtt} ms");
        let jumped = state == ResumeState::Unvalidated;
        assert_eq!(run.packets(), if jumped { 150 } else { 10 }, "{rtt} ms");
    }
}

#[test]
fn the_longer_the_queue_the_smaller_the_jump() {
    for (rtt, packets) in [(112, 150), (113, 75), (125, 75), (126, 10), (1000, 10)] {
        let mut run = Run::new(CongestionControl::Cubic);
        run.rtt = RttEstimator::new(ms(333));
        run.rtt.update(run.now, ms(rtt), Duration::ZERO);
        run.send(10);
        assert_eq!(run.packets(), packets, "{rtt} ms");
    }
    // A path of a few milliseconds: its round trip varies by as much as hosts and radios do.
    for (rtt, state) in [
        (7, ResumeState::Unvalidated),
        (8, ResumeState::Reconnaissance),
    ] {
        let mut run = Run::new(CongestionControl::Cubic);
        let limits = ResumeLimits::default();
        run.resume =
            CarefulResume::new(run.path, &saved(300 * PACKET, ms(2)), INITIAL, limits).unwrap();
        run.rtt = RttEstimator::new(ms(333));
        run.rtt.update(run.now, ms(rtt), Duration::ZERO);
        run.send(10);
        assert_eq!(run.resume.state(), state, "{rtt} ms");
    }
}

#[test]
fn a_whole_initial_window_decides_whether_there_is_a_queue() {
    for (rtt, state) in [
        (100, ResumeState::Unvalidated),
        (140, ResumeState::QueueSeen),
    ] {
        let mut run = Run::new(CongestionControl::Cubic);
        run.rtt = RttEstimator::new(ms(333));
        run.rtt.update(run.now, ms(150), Duration::ZERO);
        run.send(10);
        assert_eq!(run.resume.state(), ResumeState::Reconnaissance);
        run.now += ms(rtt);
        run.rtt.update(run.now, ms(rtt), Duration::ZERO);
        run.ack(1..=10);
        run.send(20);
        assert_eq!(run.resume.state(), state, "{rtt} ms");
    }
}

#[test]
fn an_old_round_trip_says_nothing_of_the_path_as_it_is_now() {
    for (later, now) in [(400, 100), (401, 100), (401, 140)] {
        let mut run = Run::new(CongestionControl::Cubic);
        run.now += ms(later);
        run.send(10);
        if later == 400 {
            assert_eq!(run.resume.state(), ResumeState::Unvalidated);
            continue;
        }
        assert_eq!(run.resume.state(), ResumeState::Reconnaissance);
        // The first acknowledgement of the new packets decides, not the smallest round trip ever.
        run.now += ms(now);
        run.rtt.update(run.now, ms(now), Duration::ZERO);
        run.ack(1..=10);
        run.send(20);
        let queue = now > 100;
        let expected = if queue {
            ResumeState::QueueSeen
        } else {
            ResumeState::Unvalidated
        };
        assert_eq!(run.resume.state(), expected, "{now} ms");
    }
}

//= specs/rfc9959-draft.md#3-2-reconnaissance-phase
//= type=test
//# The sender stops using Careful Resume and MUST continue using normal CC to react to the detected congestion.
#[test]
fn congestion_before_the_jump_ends_it() {
    for kind in WINDOWED {
        let mut run = Run::new(kind);
        run.send(5);
        run.now += ms(100);
        assert!(!run.ack_and_lose(2..=5, 1), "{kind}: it may still be right");
        assert_eq!(run.resume.state(), ResumeState::Congested, "{kind}");
        let window = run.window();
        assert!(window < INITIAL, "{kind}");
        run.send(20);
        assert_eq!(run.window(), window, "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-2-reconnaissance-phase
//= type=test
//# If another connection has already started to use the saved_cwnd, the sender MUST exit Careful Resume and
//# return to use normal CC.
#[test]
fn two_connections_do_not_jump_by_one_memory() {
    let mut run = Run::new(CongestionControl::Cubic);
    let cc = &mut *run.cc;
    let mut asked = 0;
    for number in 1..20 {
        run.resume
            .on_sent(run.now, number, INITIAL, MTU, &run.rtt, cc, || {
                asked += 1;
                false
            });
    }
    assert_eq!((run.resume.state(), asked), (ResumeState::Refused, 1));
    assert_eq!(run.packets(), 10);
}

/// Appendix A.1 from the jump on: 10 packets in flight, then 140 more.
#[test]
fn what_arrives_without_loss_is_validated() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(139);
        assert_eq!(run.resume.state(), ResumeState::Unvalidated, "{kind}");
        run.send(1);
        assert_eq!(run.resume.state(), ResumeState::Validating, "{kind}");
        assert_eq!(run.packets(), 150, "{kind}");
        run.now += ms(100);
        // What was in flight at the jump, then unvalidated packets: slow start goes on.
        run.ack(1..=10);
        assert_eq!(run.packets(), 160, "{kind}");
        run.ack(11..=149);
        assert_eq!(run.resume.state(), ResumeState::Validating, "{kind}");
        run.ack(150..=150);
        assert_eq!(run.resume.state(), ResumeState::Validated, "{kind}");
        assert_eq!(run.packets(), 300, "{kind}");
        assert_eq!(run.cc.congestion_events(run.path), 0, "{kind}");
    }
}

/// The table of appendix A: the window is not increased in the Unvalidated Phase.
#[test]
fn the_window_stands_still_until_the_jump_is_sent() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(50);
        run.now += ms(100);
        run.ack(1..=10);
        assert_eq!(run.resume.state(), ResumeState::Unvalidated, "{kind}");
        assert_eq!(run.packets(), 150, "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# (The PipeSize does not include the part of the jump_cwnd that was not utilised.) Otherwise, the CWND MUST be set
//# to the flight_size and the sender progresses to the Validating Phase.
#[test]
fn an_acknowledgement_of_an_unvalidated_packet_ends_the_sending() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(50);
        run.now += ms(100);
        run.ack(1..=10);
        run.ack(11..=12);
        // 60 packets were sent, 12 are acknowledged.
        assert_eq!(run.resume.state(), ResumeState::Validating, "{kind}");
        assert_eq!(run.packets(), 48, "{kind}");
    }
}

/// Section 3.3, Limiting time in the Unvalidated Phase.
#[test]
fn a_round_trip_ends_the_sending() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(50);
        run.now += ms(101);
        run.send(1);
        assert_eq!(run.resume.state(), ResumeState::Validating, "{kind}");
        assert_eq!(run.packets(), 61, "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# Upon any of these events (and after processing any Acknowledgments that update the PipeSize and flight_size),
//# the sender checks if (flight_size is less than IW) or (flight_size is less than or equal to the PipeSize) then
//# the CWND is reset to the PipeSize (e.g., logged as rate_limited in [LOG]) and the sender stops using Careful
//# Resume and returns to use normal CC. In the absence of detected congestion, CWND is not reduced below IW.
#[test]
fn a_sender_with_little_to_send_is_left_with_what_it_used() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(12);
        run.now += ms(100);
        run.ack(1..=10);
        run.ack(11..=15);
        // PipeSize: 10 in flight at the jump, 5 since.
        assert_eq!(run.resume.state(), ResumeState::RateLimited, "{kind}");
        assert_eq!(run.packets(), 15, "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# - Unvalidated Phase (Confirming the path during transmission): If the sender determines that it is not valid to
//# use the previous CC parameters due to a detected path change (e.g., a change in the RTT or an explicit signal
//# indicating a path change), the Safe Retreat Phase MUST be entered (e.g., logged as path_changed in [LOG]).
#[test]
fn a_shorter_round_trip_after_the_jump_is_another_path() {
    let mut run = Run::jumped(CongestionControl::Cubic);
    run.send(50);
    run.now += ms(50);
    run.rtt.update(run.now, ms(50), Duration::ZERO);
    assert!(run.ack(1..=4));
    assert_eq!(run.resume.state(), ResumeState::SafeRetreat);
    assert_eq!(run.packets(), 5);
}

//= specs/rfc9959-draft.md#3-3-unvalidated-phase
//= type=test
//# - Unvalidated Phase (Detected congestion): If the sender detects congestion (e.g., packet loss or ECN-CE marking),
//# the Safe Retreat Phase MUST be entered (e.g., logged as either packet_loss or ECN_CE in [LOG]).
#[test]
fn a_loss_among_the_first_packets_is_a_retreat() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(50);
        run.now += ms(100);
        assert!(run.ack_and_lose(2..=5, 1), "{kind}");
        assert_eq!(run.resume.state(), ResumeState::SafeRetreat, "{kind}");
        // PipeSize is the 10 packets that were in flight.
        assert_eq!(run.packets(), 5, "{kind}");
    }
}

//= specs/rfc9959-draft.md#3-5-safe-retreat-phase
//= type=test
//# - Safe Retreat Phase (Re-initializing CWND): The CWND MUST be reduced to no more than (PipeSize/2).
//= specs/rfc9959-draft.md#3-5-safe-retreat-phase
//= type=test
//# - Safe Retreat Phase (Maintaining CWND): The CWND MUST NOT be increased in the Safe Retreat Phase.
//= specs/rfc9959-draft.md#3-5-safe-retreat-phase
//= type=test
//# When the last packet (or a later packet) sent during the Unvalidated Phase has been acknowledged, the sender
//# stops using Careful Resume and returns to use normal CC.
//= specs/rfc9959-draft.md#3-5-safe-retreat-phase
//= type=test
//# On leaving the Safe Retreat Phase, the ssthresh MUST be set to no larger than the most recently measured
//# PipeSize * Beta, where Beta is a scaling factor between 0.5 and 1.
#[test]
fn the_example_of_appendix_a_4() {
    for kind in WINDOWED {
        let mut run = Run::new(kind);
        // Ten packets are acknowledged, the window is 20, and 19 of it are used: as in the example, but for the 29.
        run.send(9);
        run.now += ms(100);
        run.ack(1..=9);
        run.send(19);
        assert_eq!(run.resume.state(), ResumeState::Unvalidated, "{kind}");
        run.send(121 + 10);
        assert_eq!(run.resume.state(), ResumeState::Validating, "{kind}");
        let last = run.sent;
        run.now += ms(100);
        // The 19, then 34 unvalidated packets; the 35th is lost.
        run.ack(10..=28);
        run.ack(29..=62);
        assert!(run.ack_and_lose(64..=66, 1), "{kind}");
        assert_eq!(run.resume.state(), ResumeState::SafeRetreat, "{kind}");
        // PipeSize is 19 + 34 + 3.
        assert_eq!(run.packets(), 28, "{kind}");
        assert!(!run.cc.in_slow_start(run.path), "{kind}");
        assert!(!run.ack(67..=last - 1), "{kind}: told once");
        assert_eq!(run.packets(), 28, "{kind}");
        // A queue stands still.
        run.rtt.update(run.now, ms(150), Duration::ZERO);
        run.ack(last..=last);
        assert_eq!(run.resume.state(), ResumeState::Retreated, "{kind}");
        assert_eq!(run.packets(), 28, "{kind}");
        // PipeSize is 19 + 131 - 1.
        assert_eq!(run.cc.ssthresh(run.path), 74_500, "{kind}");
        assert!(run.cc.in_slow_start(run.path), "{kind}");
        assert_eq!(run.cc.congestion_events(run.path), 1, "{kind}");
    }
}

/// What has arrived without any queue at the end of it was not too much: Beta is 1 then (section 3.5).
#[test]
fn where_no_queue_stands_after_the_retreat_all_that_arrived_counts() {
    for (rtt, ssthresh) in [(100, 149_000), (112, 149_000), (113, 74_500)] {
        for kind in WINDOWED {
            let mut run = Run::jumped(kind);
            run.send(140);
            let last = run.sent;
            run.now += ms(100);
            run.ack(1..=60);
            assert!(run.ack_and_lose(62..=62, 1), "{kind}");
            assert_eq!(run.resume.state(), ResumeState::SafeRetreat, "{kind}");
            run.now += ms(rtt);
            run.rtt.update(run.now, ms(rtt), Duration::ZERO);
            run.ack(63..=last);
            assert_eq!(run.resume.state(), ResumeState::Retreated, "{kind}");
            assert_eq!(run.cc.ssthresh(run.path), ssthresh, "{kind}, {rtt} ms");
        }
    }
}

/// The shortest round trip of a whole connection is shorter than what the next one sees first, where round trips vary.
#[test]
fn what_the_connection_before_saw_first_is_what_the_next_one_is_compared_with() {
    for (first, rtt, packets) in [
        (100, 126, 10),
        (120, 126, 150),
        (120, 136, 75),
        (120, 151, 10),
    ] {
        let mut run = Run::new(CongestionControl::Cubic);
        let mut saved = saved(300 * PACKET, ms(100));
        saved.first_rtt = ms(first);
        let limits = ResumeLimits::default();
        run.resume = CarefulResume::new(run.path, &saved, INITIAL, limits).unwrap();
        run.rtt = RttEstimator::new(ms(333));
        run.rtt.update(run.now, ms(rtt), Duration::ZERO);
        run.send(10);
        assert_eq!(run.packets(), packets, "{first} and {rtt} ms");
    }
}

/// Section 3.6.
#[test]
fn persistent_congestion_ends_it() {
    for kind in WINDOWED {
        let mut run = Run::jumped(kind);
        run.send(140);
        run.now += ms(1000);
        run.cc.on_congestion_event(&CongestionEvent::loss(
            run.path, run.now, run.now, 150_000, true,
        ));
        let cc = &mut *run.cc;
        assert!(run.resume.on_persistent_congestion(run.now, cc), "{kind}");
        assert_eq!(run.resume.state(), ResumeState::Retreated, "{kind}");
        assert_eq!(run.packets(), 2, "{kind}");
        assert_eq!(run.cc.ssthresh(run.path), 5000, "{kind}");
        assert!(!run.resume.on_persistent_congestion(run.now, &mut *run.cc));
    }
}

/// A controller that knows nothing of careful resume keeps its window.
#[test]
fn a_controller_may_refuse() {
    struct Fixed;
    impl Controller for Fixed {
        fn add_path(&mut self, _: &NewPath) {}
        fn remove_path(&mut self, _: PathIndex) {}
        fn on_packet_acked(&mut self, _: &AckedPacket<'_>) {}
        fn on_congestion_event(&mut self, _: &CongestionEvent) {}
        fn on_mtu_update(&mut self, _: PathIndex, _: u16) {}
        fn window(&self, _: PathIndex) -> u64 {
            INITIAL
        }
    }
    let mut run = Run::new(CongestionControl::Cubic);
    run.cc = Box::new(Fixed);
    run.send(10);
    assert_eq!(run.resume.state(), ResumeState::Refused);
}
