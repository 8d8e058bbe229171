//! When `auto` forgives, tries, and refuses.

use super::super::*;
use super::*;
use crate::{CongestionControl, RateSample, RttEstimator};

const MTU: u16 = 1200;
const PACKETS: u64 = 50;

/// A path whose round trips of 50 packets are told one after the other.
struct Run {
    cc: Auto,
    path: PathIndex,
    now: Instant,
    rtt: RttEstimator,
    number: u64,
    delivered: u64,
    /// What is delivered, bytes per second.
    rate: f64,
}

impl Run {
    fn new() -> Self {
        Self::with_saved(None)
    }

    /// A path of which earlier connections knew this.
    fn with_saved(saved: Option<SavedPath>) -> Self {
        let (now, path) = (Instant::now(), PathIndex::new(0).unwrap());
        let mut cc = Auto::new(InitialWindow::default(), Some(SlowStart::Classic), [1; 32]);
        cc.add_path(&NewPath::new(path, now, MTU).with_saved(saved));
        let rtt = RttEstimator::new(Duration::from_millis(333));
        Self {
            cc,
            path,
            now,
            rtt,
            number: 0,
            delivered: 0,
            rate: 1.25e6,
        }
    }

    /// CUBIC alone: BBRv3 does not take over.
    fn cubic() -> Self {
        let mut run = Self::new();
        let far = run.now + Duration::from_secs(1 << 20);
        run.state().returned_until = Some(far);
        run
    }

    fn state(&mut self) -> &mut Path {
        self.cc.watch(self.path, None).unwrap()
    }

    fn window(&self) -> u64 {
        self.cc.window(self.path)
    }

    /// A round trip: its packets are sent, acknowledged one per millisecond with these round trips, and the last of them tells of
    /// `lost` runs.
    fn round(&mut self, lost: u64, rtt: impl Fn(u64) -> u64) {
        let sent = self.now;
        for i in 0..PACKETS {
            let sample = Duration::from_micros(rtt(i));
            let at = sent + Duration::from_millis(i);
            self.now = at + sample;
            self.rtt.update(self.now, sample, Duration::ZERO);
            let packet = AckedPacket::new(self.path, self.now, at, MTU.into(), false, &self.rtt);
            self.cc.on_packet_acked(&packet);
            if i + 1 == PACKETS && lost > 0 {
                self.lose(lost, at, false);
            }
            let prior_delivered = self.delivered.saturating_sub(PACKETS * u64::from(MTU));
            self.delivered += u64::from(MTU);
            let sample_of_rate = RateSample {
                rate: self.rate,
                newly_acked: MTU.into(),
                delivered: self.delivered - prior_delivered,
                prior_delivered,
                total_delivered: self.delivered,
                ..RateSample::default()
            };
            let mut ack = AckSummary::new(self.path, self.now, at, &sample_of_rate, &self.rtt);
            ack.rtt_sample = Some(sample);
            self.cc.on_ack_end(&ack);
        }
    }

    fn lose(&mut self, runs: u64, sent: Instant, persistent: bool) {
        for _ in 0..runs {
            self.number += 2;
            let lost = LostPacket::new(self.path, self.now, self.number, sent, MTU.into());
            self.cc.on_packet_lost(&lost);
        }
        let bytes = runs * u64::from(MTU);
        let event = CongestionEvent::loss(self.path, self.now, sent, bytes, persistent);
        self.cc.on_congestion_event(&event);
    }

    /// Out of slow start, by an overflow on top of a queue.
    fn overflow(&mut self) {
        self.round(0, |_| 40_000);
        self.round(1, |i| 40_000 + i * 1000);
        assert!(!self.cc.in_slow_start(self.path));
    }
}

fn calm(_: u64) -> u64 {
    40_000
}

#[test]
fn what_a_queue_drops_counts_as_for_cubic() {
    let mut run = Run::new();
    run.overflow();
    for _ in 0..20 {
        run.round(1, |i| 40_000 + i * 1000);
    }
    assert_eq!(run.cc.loss_causes(run.path).chance, 0);
    assert_eq!(run.cc.congestion_events(run.path), 21);
}

#[test]
fn chance_is_forgiven_up_to_a_tenth() {
    let mut run = Run::cubic();
    run.round(0, calm);
    for lost in [1, 3] {
        let before = run.window();
        run.round(lost, calm);
        assert!(run.window() >= before, "{lost}");
    }
    let tenth = run.window() / 10 / u64::from(MTU);
    assert!(tenth > 3);
    let before = run.window();
    run.round(tenth + 20, calm);
    assert!(run.window() < before);
    assert_eq!(run.cc.congestion_events(run.path), 1);
}

#[test]
fn marks_and_persistent_congestion_are_never_forgiven() {
    for ecn in [true, false] {
        let mut run = Run::new();
        run.round(0, calm);
        let (before, sent) = (run.window(), run.now);
        if ecn {
            let event = CongestionEvent::ecn(run.path, run.now, sent);
            run.cc.on_congestion_event(&event);
        } else {
            run.lose(1, sent, true);
        }
        assert!(run.window() < before);
    }
}

/// Losses that go on when less is sent are chance: forgiven again, and the window is given back.
#[test]
fn a_trial_that_finds_as_many_losses_proves_chance() {
    let mut run = Run::cubic();
    run.overflow();
    let mut trials = 0;
    for _ in 0..60 {
        let (before, events) = (run.window(), run.cc.congestion_events(run.path));
        run.round(1, |i| 46_000 + i % 5 * 50);
        let reduced = run.cc.congestion_events(run.path) > events;
        trials += u32::from(reduced && run.window() < before);
    }
    let p = run.cc.watched(run.path).unwrap();
    assert!(p.confirmed >= 1 && p.refused == 0, "{p:?}");
    assert!(trials <= 4, "{trials}");
}

/// Losses that end when less is sent were ours: none is forgiven for five seconds, and then for ten.
#[test]
fn a_trial_that_finds_fewer_losses_ends_forgiving() {
    let mut run = Run::cubic();
    run.overflow();
    let mut refused = Vec::new();
    let begin = run.now;
    for _ in 0..2000 {
        let trial = run.cc.watched(run.path).unwrap().trial.is_some();
        run.round(u64::from(!trial), |i| 46_000 + i % 5 * 50);
        let p = run.cc.watched(run.path).unwrap();
        if p.refused as usize > refused.len() {
            refused.push((run.now - begin, p.refused_until.unwrap() - run.now));
        }
        if let Some(until) = p.refused_until
            && run.now + Duration::from_millis(200) < until
        {
            let before = run.cc.congestion_events(run.path);
            run.round(1, |i| 46_000 + i % 5 * 50);
            assert_eq!(run.cc.congestion_events(run.path), before + 1);
        }
    }
    let lengths: Vec<_> = refused.iter().map(|(_, length)| length.as_secs()).collect();
    assert!(lengths.len() >= 3, "{lengths:?}");
    assert!(
        lengths.windows(2).all(|pair| pair[1] >= pair[0]),
        "{lengths:?}"
    );
    assert!(lengths[0] >= 4 && lengths[2] >= 18, "{lengths:?}");
}

/// A window that losses by chance hold down where no queue is goes back to slow start, each time after twice as long.
#[test]
fn slow_start_begins_again_without_a_queue() {
    let mut run = Run::cubic();
    run.overflow();
    for _ in 0..5 {
        run.round(0, calm);
    }
    assert!(!run.cc.in_slow_start(run.path));
    // The overflow still counts: chance has to explain most of the losses.
    let mut rounds = 0;
    while !run.cc.in_slow_start(run.path) {
        run.round(1, calm);
        rounds += 1;
        assert!(rounds < 10);
    }
    let p = run.cc.watched(run.path).unwrap();
    assert_eq!(p.reopened, 1);
    let mut standing = Run::cubic();
    standing.overflow();
    for _ in 0..10 {
        standing.round(1, |_| 50_000);
        assert!(!standing.cc.in_slow_start(standing.path), "a queue stands");
    }
}

/// A window that chance holds down is handed over with what is known of the path, and comes back with what was found.
#[test]
fn bbr_takes_over_where_chance_explains_the_losses() {
    let mut run = Run::new();
    run.round(0, calm);
    let mut rounds = 0;
    while run.cc.handed(run.path).is_none() {
        let window = run.window();
        run.round(1, calm);
        rounds += 1;
        assert!(rounds < 20, "{:?}", run.state());
        if run.cc.handed(run.path).is_some() {
            assert!(run.window() >= window);
        }
    }
    let rate = run.cc.pacing_rate(run.path, &run.rtt).unwrap();
    assert!(
        rate > 1.25e6,
        "Startup paces faster than the path was seen to deliver: {rate}"
    );
    // Chance goes on as before: it stays.
    for _ in 0..200 {
        run.round(1, calm);
    }
    assert!(run.cc.handed(run.path).is_some(), "{:?}", run.state());
    // Many more losses: back to CUBIC, without slow start, and not again for five seconds.
    let mut rounds = 0;
    while run.cc.handed(run.path).is_some() {
        run.round(6, calm);
        rounds += 1;
        assert!(rounds < 30, "{:?}", run.state());
    }
    assert_eq!(run.cc.pacing_rate(run.path, &run.rtt), None);
    assert!(!run.cc.in_slow_start(run.path));
    let until = run.state().returned_until.unwrap();
    assert!(until - run.now > Duration::from_millis(4900));
    while run.now + Duration::from_millis(200) < until {
        run.round(1, calm);
        assert!(run.cc.handed(run.path).is_none());
    }
}

/// Losses at the top of a queue are for CUBIC.
#[test]
fn bbr_does_not_take_over_where_a_queue_overflows() {
    let mut run = Run::new();
    run.overflow();
    for _ in 0..100 {
        run.round(1, |i| 40_000 + i * 500);
        assert!(run.cc.handed(run.path).is_none());
    }
}

/// A path that is gone, or is another one, is CUBIC's, and slots are used again.
#[test]
fn a_path_that_changes_begins_with_cubic() {
    for removed in [true, false] {
        let mut run = Run::new();
        run.round(0, calm);
        for _ in 0..20 {
            run.round(1, calm);
        }
        assert!(run.cc.handed(run.path).is_some());
        if removed {
            run.cc.remove_path(run.path);
            assert_eq!(run.window(), 0);
            run.cc.add_path(&NewPath::new(run.path, run.now, MTU));
        } else {
            run.cc
                .on_path_changed(&NewPath::new(run.path, run.now, MTU));
        }
        assert!(run.cc.handed(run.path).is_none() && run.cc.in_slow_start(run.path));
        assert_eq!(run.window(), InitialWindow::default().bytes(MTU));
    }
}

#[test]
fn it_is_known_by_name_and_small() {
    assert_eq!("auto".parse(), Ok(CongestionControl::Auto));
    // The judge, and what is done with its verdicts.
    let own = size_of::<Path>() - size_of::<LossJudge>();
    assert!(own <= 368, "{own}");
}

#[test]
fn a_small_path_is_forgiven_little() {
    let forgiven = |rate: f64| {
        let mut run = Run::cubic();
        run.rate = rate;
        run.overflow();
        // What is forgiven in slow start does not count.
        run.state().reopens_at = run.state().returned_until;
        let (mut forgiven, mut at_end) = (0, false);
        for _ in 0..60 {
            let before = run.cc.congestion_events(run.path);
            run.round(1, calm);
            at_end = run.cc.congestion_events(run.path) == before;
            forgiven += u32::from(at_end);
        }
        (forgiven, at_end)
    };
    // 0.6 MB/s and 40 ms: 20 packets, or one fewer.
    let (small, at_end) = forgiven(0.57e6);
    assert_eq!((small, at_end), (FORGIVEN_SMALL, false));
    assert!(forgiven(0.61e6).0 > 2 * FORGIVEN_SMALL);
}

/// Most connections send little: nothing is kept for their paths, and what was the shortest round trip until then is known.
#[test]
fn a_path_is_watched_from_some_packets_on() {
    let mut run = Run::new();
    assert!(size_of::<Auto>() <= 128, "{}", size_of::<Auto>());
    run.rtt
        .update(run.now, Duration::from_millis(30), Duration::ZERO);
    for packets in 1..=WATCHED {
        let delivered = RateSample {
            total_delivered: packets * u64::from(MTU),
            ..RateSample::default()
        };
        assert!(run.cc.watched(run.path).is_none());
        let ack = AckSummary::new(run.path, run.now, run.now, &delivered, &run.rtt);
        run.cc.on_ack_end(&ack);
    }
    let judge = &run.cc.watched(run.path).unwrap().judge;
    assert_eq!(judge.min_rtt(), Duration::from_millis(30));
    // Or from the first loss on.
    let mut run = Run::new();
    run.lose(1, run.now, false);
    assert_eq!(run.cc.loss_causes(run.path).chance, 1);
}

/// What the path leaves to the next connection.
fn saved(run: &Run, chance_loss: u32) -> SavedPath {
    let mut saved = SavedPath::new(Duration::from_millis(40), Duration::ZERO);
    (saved.rate, saved.window) = (1_250_000, 50_000);
    let steering = run.cc.steering(run.path).unwrap();
    saved.chance_loss = chance_loss;
    saved.bbr = steering.by == CongestionControl::Bbr;
    saved.refusals = steering.refusals;
    (saved.loss_events, saved.chance_events) = (steering.loss_events, steering.chance_events);
    saved
}

/// The second connection begins where the first has ended: with BBRv3's Startup.
#[test]
fn what_bbr_steered_at_the_end_it_steers_from_the_start() {
    let mut run = Run::new();
    assert_eq!(run.cc.steering(run.path), None);
    run.round(0, calm);
    for _ in 0..20 {
        run.round(1, calm);
    }
    let first = saved(&run, 20_000);
    assert!(first.bbr && first.chance_events > 80, "{first:?}");
    let mut run = Run::with_saved(Some(first));
    assert!(run.cc.handed(run.path).is_some() && run.cc.in_slow_start(run.path));
    assert_eq!(run.window(), InitialWindow::default().bytes(MTU));
    for _ in 0..200 {
        run.round(1, calm);
    }
    assert!(run.cc.handed(run.path).is_some(), "{:?}", run.state());
    // Not if the path was not seen to lose anything by chance, and not once it proved wrong.
    let mut none = first;
    none.chance_loss = 0;
    let run = Run::with_saved(Some(none));
    assert!(run.cc.handed(run.path).is_none());
    let mut run = Run::with_saved(Some(first));
    let mut rounds = 0;
    while run.cc.handed(run.path).is_some() {
        run.round(6, calm);
        rounds += 1;
        assert!(rounds < 60, "{:?}", run.state());
    }
    let second = saved(&run, 20_000);
    assert_eq!((second.bbr, second.refusals), (false, 1));
}

/// What was wrong in earlier connections makes the next one wait for more, and for less from one to the next.
#[test]
fn refusals_are_remembered_and_fade() {
    let rounds = |refusals: u32| {
        let mut known = SavedPath::new(Duration::from_millis(40), Duration::ZERO);
        known.refusals = refusals;
        let mut run = Run::with_saved(Some(known));
        let told = run.cc.steering(run.path).map_or(0, |known| known.refusals);
        assert_eq!(told, refusals / 2);
        run.overflow();
        let mut rounds = 0;
        while run.cc.handed(run.path).is_none() {
            run.round(1, calm);
            rounds += 1;
            assert!(rounds < 60, "{:?}", run.state());
        }
        rounds
    };
    assert_eq!(rounds(0), rounds(1));
    assert!(rounds(4) > rounds(1));
    assert!(rounds(8) > rounds(4));
}

/// Losses of many short connections are judged together: what is too little for one is enough for the next.
#[test]
fn judged_losses_add_up_over_connections() {
    let mut known = None;
    let mut connections = 0;
    loop {
        let mut run = Run::with_saved(known);
        run.state().returns = 4;
        run.round(1, calm);
        connections += 1;
        if run.cc.handed(run.path).is_some() {
            break;
        }
        assert!(connections < 20, "{:?}", run.state());
        known = Some(saved(&run, 20_000));
    }
    assert!(connections > 3, "{connections}");
}

/// Each run of an event counts, whichever report tells of it: BBRv3 is compared with that.
#[test]
fn all_runs_of_an_event_count_as_chance() {
    let mut run = Run::cubic();
    run.round(0, calm);
    run.round(0, calm);
    let sent = run.now - Duration::from_millis(50);
    for _ in 0..3 {
        run.lose(2, sent, false);
    }
    let p = run.state();
    assert_eq!(p.chance.runs, 6);
    assert_eq!(p.chance.bytes, 2 * PACKETS * u64::from(MTU));
    // What came before an overflow tells of nothing.
    run.round(1, |i| 40_000 + i * 1000);
    let p = run.state();
    assert_eq!((p.chance.runs, p.unjudged + p.acked), (6, u64::from(MTU)));
}

/// Slow start that overflows a queue loses many packets: one in a hundred is given back, with all that followed from it.
#[test]
fn a_lone_loss_ends_no_slow_start() {
    // The newest round trips are the longest, by what may be a queue.
    let late = |i: u64| 40_000 + 90 * i;
    let mut run = Run::cubic();
    (0..3).for_each(|_| run.round(0, late));
    let before = run.window();
    assert!(run.cc.in_slow_start(run.path));
    run.round(1, late);
    assert_eq!(run.state().judge.causes().chance, 0);
    assert!(!run.cc.in_slow_start(run.path) && run.state().lone.is_some());
    run.round(0, late);
    assert!(run.cc.in_slow_start(run.path));
    assert!(run.window() >= before);
    assert_eq!(run.state().judge.causes().chance, 1);

    // A round that goes on to lose is an overflow.
    let mut run = Run::cubic();
    (0..3).for_each(|_| run.round(0, late));
    run.round(1, late);
    let sent = run.now - Duration::from_millis(50);
    run.lose(PACKETS / 4, sent, false);
    run.round(0, late);
    assert!(!run.cc.in_slow_start(run.path));
    assert_eq!(run.state().judge.causes().chance, 0);
}

/// Where many packets are in flight, few of their round trips are needed.
#[test]
fn round_trips_are_sampled_by_the_window() {
    let mut run = Run::cubic();
    (0..4).for_each(|_| run.round(0, calm));
    let packets = run.window() / u64::from(MTU);
    assert!(packets > 2 * SAMPLED_PACKETS);
    assert_eq!(u64::from(run.state().every), packets / SAMPLED_PACKETS);
    // All bytes count, sooner or later.
    let counted = |p: &Path| p.acked + p.unjudged;
    let (before, delivered) = (counted(run.state()), run.delivered);
    run.round(0, calm);
    assert_eq!(counted(run.state()) - before, run.delivered - delivered);
    // While losses are being understood, each one counts.
    run.state().hands_over = true;
    assert!(run.state().is_busy());
}
