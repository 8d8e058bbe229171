//! Tests of the parts together: each transition of the state machine against the draft, with numbers
//! worked by hand, and no panic whatever the numbers.

mod any_order;
mod loss;
mod probe_bw;
mod resume;
mod start;

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::{AckSummary, InitialWindow, LostPacket, PathIndex};
use super::path::{Path, State};
use crate::{RateSample, RttEstimator};

const MTU: u64 = 1000;
/// The path of these tests: 1 MB/s and 100 ms are 100 kB.
const RATE: f64 = 1e6;
const RTT: Duration = ms(100);
const BDP: u64 = 100_000;
const SLOT: PathIndex = PathIndex::new(0).unwrap();

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A sample of this rate that tells nothing else.
pub(super) fn sample(rate: f64) -> RateSample {
    RateSample {
        rate,
        delivered: 0,
        prior_delivered: 0,
        tx_in_flight: 0,
        lost: 0,
        newly_acked: 0,
        newly_lost: 0,
        total_delivered: 0,
        app_limited: false,
    }
}

/// What an ACK frame says, beside the rate.
#[derive(Debug, Clone, Copy)]
struct Ack {
    /// Time since the one before.
    after: Duration,
    /// Bytes that it acknowledges.
    bytes: u64,
    /// It begins a round: the newest packet left after the last one began.
    round: bool,
    /// Bytes delivered since the newest packet left.
    delivered: u64,
    tx_in_flight: u64,
    lost: u64,
    in_flight: u64,
    rtt: Duration,
    app_limited: bool,
}

/// A round trip's worth in one frame, nothing lost, the pipe just full.
const FULL: Ack = Ack {
    after: RTT,
    bytes: BDP,
    round: true,
    delivered: BDP,
    tx_in_flight: BDP,
    lost: 0,
    in_flight: BDP,
    rtt: RTT,
    app_limited: false,
};

/// The same in a fifth of the time: many rounds before the round trip is probed.
const QUICK: Ack = Ack {
    after: ms(20),
    ..FULL
};

/// One path under the controller.
struct Flow {
    path: Path,
    rng: StdRng,
    rtt: RttEstimator,
    now: Instant,
    delivered: u64,
    lost: u64,
    lost_before: u64,
    next_number: u64,
}

impl Flow {
    fn new() -> Self {
        Self::with(false)
    }

    /// With Rapid Start.
    fn rapid() -> Self {
        Self::with(true)
    }

    fn with(rapid: bool) -> Self {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, RTT, Duration::ZERO);
        Self {
            path: Path::new(now, MTU as u16, InitialWindow::Bytes(10 * MTU), rapid),
            rng: StdRng::seed_from_u64(1),
            rtt,
            now,
            delivered: 0,
            lost: 0,
            lost_before: 0,
            next_number: 0,
        }
    }

    /// True if what leaves now is held back by choice.
    fn ack(&mut self, rate: f64, ack: Ack) -> bool {
        self.now += ack.after;
        // What was delivered when the newest packet left. The last round began no later than at what
        // is delivered now, so that a packet sent now begins the next.
        let prior = if ack.round { self.delivered } else { 0 };
        self.delivered += ack.bytes;
        let sample = RateSample {
            rate,
            delivered: ack.delivered,
            prior_delivered: prior,
            tx_in_flight: ack.tx_in_flight,
            lost: ack.lost,
            newly_acked: ack.bytes,
            newly_lost: self.lost - self.lost_before,
            total_delivered: self.delivered,
            app_limited: ack.app_limited,
        };
        self.lost_before = self.lost;
        let summary = AckSummary {
            path: SLOT,
            now: self.now,
            sample: &sample,
            newest_sent: self.now - ack.rtt,
            rtt_sample: Some(ack.rtt),
            rtt: &self.rtt,
            in_flight: ack.in_flight,
        };
        self.path.on_ack(&summary, &mut self.rng)
    }

    /// Rounds of the full pipe.
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.ack(RATE, FULL);
        }
    }

    /// Until it is in this state; how many acknowledgements that took.
    fn until(&mut self, state: State, rate: f64, ack: Ack) -> u32 {
        for count in 0..10_000 {
            if self.state() == state {
                return count;
            }
            self.ack(rate, ack);
        }
        panic!("{:?} is never left", self.state());
    }

    /// A packet is lost, which left with so much in flight, and since when so much was lost. With
    /// `gap`, the one before it was not.
    fn lose(&mut self, tx_in_flight: u64, lost: u64, gap: bool) {
        self.lost += MTU;
        self.next_number += if gap { 2 } else { 1 };
        let lost = LostPacket {
            path: SLOT,
            now: self.now,
            number: self.next_number,
            sent: self.now - RTT,
            size: MTU,
            tx_in_flight,
            lost,
            total_delivered: self.delivered,
            app_limited: false,
        };
        self.path.on_lost(&lost, &mut self.rng);
    }

    /// Packets with packets between them that are not lost.
    fn lose_separately(&mut self, count: u64) {
        for i in 1..=count {
            self.lose(BDP, i * MTU, true);
        }
    }

    /// In Drain: the pipe was found full at 1 MB/s.
    fn in_drain() -> Self {
        let mut flow = Self::new();
        flow.rounds(3);
        assert_eq!(flow.state(), State::Startup);
        // Twice the pipe is in flight.
        let ack = Ack {
            in_flight: 2 * BDP,
            ..FULL
        };
        flow.ack(RATE, ack);
        assert_eq!(flow.state(), State::Drain);
        flow
    }

    /// In the first cruise.
    fn in_cruise() -> Self {
        let mut flow = Self::in_drain();
        // Down is over as soon as it begins: there is no queue to drain.
        flow.rounds(1);
        assert_eq!(flow.state(), State::Cruise);
        flow
    }

    /// In the first ProbeBW_UP.
    fn in_up() -> Self {
        let mut flow = Self::in_cruise();
        flow.until(State::Refill, RATE, FULL);
        flow.rounds(1);
        assert_eq!(flow.state(), State::Up);
        flow
    }

    fn state(&self) -> State {
        self.path.state
    }

    /// Bytes per second, rounded.
    fn pace(&self) -> u64 {
        self.path.pacing_rate.round() as u64
    }
}

/// Rounded down, for products that are whole numbers but for the last bit.
fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 1
}
