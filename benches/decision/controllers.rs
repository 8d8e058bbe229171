//! What an acknowledgement costs a congestion controller, with what the transport asks beside it; and the judge of losses alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mpquic_congestion::{
    AckSummary, AckedPacket, CongestionControl, CongestionEvent, Controller, ControllerContext,
    ControllerFactory as _, InitialWindow, LossJudge, LostPacket, NewPath, PathIndex, RateSample,
    RttEstimator, SentPacket,
};

/// Each second packet is acknowledged, after this round trip and up to [`QUEUE`] more, at 40 Mbit/s.
const RTT: Duration = Duration::from_millis(20);
const QUEUE: u64 = 8_000;
const SIZE: u64 = 1400;
const PERIOD: Duration = Duration::from_micros(560);
/// A packet of this many pairs is lost: a queue overflows every quarter of a second.
const LOST: u64 = 400;

/// A path in congestion avoidance, and what its controller is told.
struct Flow {
    controller: Box<dyn Controller>,
    path: PathIndex,
    now: Instant,
    rtt: RttEstimator,
    sample: RateSample,
    pairs: u64,
}

impl Flow {
    fn new(control: CongestionControl) -> Self {
        let mut rng = rand::SeedableRng::seed_from_u64(1);
        let mut context = ControllerContext::new(InitialWindow::default(), None, &mut rng);
        let mut controller = control.build(&mut context);
        let path = PathIndex::new(0).expect("the first slot");
        let start = Instant::now();
        controller.add_path(&NewPath::new(path, start, SIZE as u16));
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        let now = start + RTT;
        rtt.update(now, RTT, Duration::ZERO);
        let mut sample = RateSample::default();
        (sample.rate, sample.newly_acked) = (5e6, 2 * SIZE);
        (sample.delivered, sample.tx_in_flight) = (100_000, 100_000);
        let mut flow = Self {
            controller,
            path,
            now,
            rtt,
            sample,
            pairs: 0,
        };
        // Past slow start, and past what the first losses make of it.
        for _ in 0..20 * LOST {
            flow.pair();
        }
        flow
    }

    /// Two packets are acknowledged, and two are sent for them.
    fn pair(&mut self) {
        self.pairs += 1;
        self.now += PERIOD;
        let round = RTT + Duration::from_micros(self.pairs % LOST * QUEUE / LOST);
        self.rtt.update(self.now, round, Duration::ZERO);
        let sent = self.now.checked_sub(round).expect("later than the start");
        for _ in 0..2 {
            let acked = AckedPacket::new(self.path, self.now, sent, SIZE, false, &self.rtt);
            self.controller.on_packet_acked(&acked);
        }
        self.sample.total_delivered += 2 * SIZE;
        if self.pairs.is_multiple_of(LOST) {
            let lost = LostPacket::new(self.path, self.now, 3 * self.pairs, sent, SIZE);
            self.controller.on_packet_lost(&lost);
            let event = CongestionEvent::loss(self.path, self.now, sent, SIZE, false);
            self.controller.on_congestion_event(&event);
        }
        let mut ack = AckSummary::new(self.path, self.now, sent, &self.sample, &self.rtt);
        (ack.rtt_sample, ack.in_flight) = (Some(round), 60_000);
        self.controller.on_ack_end(&ack);
        for _ in 0..2 {
            black_box(self.controller.path_state(self.path, &self.rtt));
            let packet = SentPacket::new(self.path, self.now, SIZE, 60_000);
            self.controller.on_packet_sent(&packet);
        }
    }
}

pub(crate) fn controllers(c: &mut Criterion) {
    for control in [
        CongestionControl::NewReno,
        CongestionControl::Cubic,
        CongestionControl::Auto,
        CongestionControl::Bbr,
    ] {
        let mut flow = Flow::new(control);
        c.bench_function(&format!("controller/{control}/ack"), |b| {
            b.iter(|| flow.pair());
        });
    }
    let (mut now, mut rtt) = (
        Instant::now(),
        RttEstimator::new(Duration::from_millis(333)),
    );
    rtt.update(now, RTT, Duration::ZERO);
    let mut judge = LossJudge::default();
    let mut samples = 0;
    c.bench_function("controller/judge/sample", |b| {
        b.iter(|| {
            samples += 1;
            now += PERIOD;
            let round = RTT + Duration::from_micros(samples % LOST * QUEUE / LOST);
            judge.on_sample(now, black_box(round), &rtt);
            if samples % LOST == 0 {
                black_box(judge.judge(false));
            }
        });
    });
}
