//! What a path leaves in a memory, and what it takes from one, without a network.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::congestion::{
    CongestionEvent, ControllerContext, ControllerFactory, InitialWindow, LostPacket, NewPath,
};
use crate::recovery::RateSample;
use crate::{CarefulResumeConfig, CongestionControl};

const KEY: PathKey = PathKey::new(7);
const HOUR: Duration = Duration::from_secs(3600);
const LONG_AGO: Duration = Duration::from_secs(1_800_000_000);
const INITIAL: u64 = 12_000;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Default)]
struct Kept {
    saved: BTreeMap<PathKey, SavedPath>,
    claimed: Vec<PathKey>,
}

/// A memory that keeps everything.
#[derive(Default)]
struct Notes(Mutex<Kept>);

impl PathMemory for Notes {
    fn look_up(&self, key: PathKey, _: Duration) -> Option<SavedPath> {
        self.0.lock().unwrap().saved.get(&key).copied()
    }

    fn remember(&self, key: PathKey, saved: &SavedPath) {
        self.0.lock().unwrap().saved.insert(key, *saved);
    }

    fn forget(&self, key: PathKey) {
        self.0.lock().unwrap().saved.remove(&key);
    }

    fn claim(&self, key: PathKey) -> bool {
        let claimed = &mut self.0.lock().unwrap().claimed;
        let free = !claimed.contains(&key);
        claimed.push(key);
        free
    }

    fn release(&self, key: PathKey) {
        self.0.lock().unwrap().claimed.retain(|other| *other != key);
    }
}

/// A path, and the memory that it has.
struct Run {
    notes: Arc<Notes>,
    path: Box<Remembered>,
    cc: Box<dyn Controller>,
    rtt: RttEstimator,
    now: Instant,
    delivered: u64,
    /// What acknowledgements show of the bottleneck.
    bottleneck: u64,
}

impl Run {
    fn new(notes: &Arc<Notes>, since_epoch: Duration) -> Self {
        Self::under(CongestionControl::NewReno, notes, since_epoch)
    }

    fn under(control: CongestionControl, notes: &Arc<Notes>, since_epoch: Duration) -> Self {
        let now = Instant::now();
        let mut config = TransportConfig::default();
        config.path_memory(Some(Arc::clone(notes) as Arc<dyn PathMemory>));
        let mut endpoint = EndpointConfig::new([1; 32]);
        endpoint.clock(now, since_epoch);
        let slot = PathIndex::new(0).unwrap();
        let epoch = Epoch::new(&endpoint);
        let path = Remembered::new(now, slot, KEY, epoch, &config).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let mut context = ControllerContext::new(InitialWindow::default(), None, &mut rng);
        let mut cc = control.build(&mut context);
        let saved = path.saved().copied();
        cc.add_path(&NewPath::new(slot, now, 1200).with_saved(saved));
        Self {
            notes: Arc::clone(notes),
            path,
            cc,
            rtt: RttEstimator::new(ms(333)),
            now,
            delivered: 0,
            bottleneck: 0,
        }
    }

    /// A round trip of 20 ms that delivers at this rate, with this many packets lost.
    fn round(&mut self, rate: f64, app_limited: bool, lost: usize) {
        self.round_of(20, rate, app_limited, lost);
    }

    fn round_of(&mut self, rtt_ms: u64, rate: f64, app_limited: bool, lost: usize) {
        self.now += ms(rtt_ms);
        self.rtt.update(self.now, ms(rtt_ms), Duration::ZERO);
        let prior_delivered = self.delivered;
        self.delivered += 24_000;
        let mut sample = RateSample::default();
        (sample.rate, sample.app_limited) = (rate, app_limited);
        (sample.delivered, sample.newly_acked) = (24_000, 24_000);
        (sample.prior_delivered, sample.total_delivered) = (prior_delivered, self.delivered);
        let slot = PathIndex::new(0).unwrap();
        let ack = AckSummary::new(slot, self.now, self.now - ms(rtt_ms), &sample, &self.rtt);
        self.path
            .on_ack_end(&ack, Some(0), (20, lost), self.bottleneck, &mut *self.cc);
    }

    /// The path ends; what is known of it then.
    fn end(self) -> Option<SavedPath> {
        let Self { notes, path, .. } = self;
        drop(path);
        assert!(notes.0.lock().unwrap().claimed.is_empty());
        notes.look_up(KEY, Duration::ZERO)
    }
}

#[test]
fn without_a_memory_nothing_is_kept() {
    let now = Instant::now();
    let config = TransportConfig::default();
    let epoch = Epoch::new(&EndpointConfig::new([1; 32]));
    let slot = PathIndex::new(0).unwrap();
    assert!(Remembered::new(now, slot, KEY, epoch, &config).is_none());
}

#[test]
fn a_path_leaves_what_it_delivered_in_its_shortest_round_trip() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    run.round(1e6, false, 0);
    run.round_of(40, 2e6, false, 0);
    run.round(1.5e6, false, 0);
    let saved = run.end().unwrap();
    assert_eq!(saved.min_rtt, ms(20));
    assert_eq!(saved.rate, 2_000_000);
    assert_eq!(saved.window, 40_000, "2 MB/s for 20 ms: no queue counts");
    assert_eq!(saved.confidence, 1);
    assert_eq!(saved.seen, LONG_AGO + ms(80));
    assert_eq!(saved.chance_loss, 0);
}

/// What the next connection compares its first round trips with is what this one saw at first, and not the shortest.
#[test]
fn the_first_round_trip_is_kept_beside_the_shortest() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    run.round_of(26, 1e6, false, 0);
    run.round_of(24, 1e6, false, 0);
    for _ in 0..3 {
        run.round_of(20, 1e6, false, 0);
    }
    let saved = run.end().unwrap();
    assert_eq!((saved.first_rtt, saved.min_rtt), (ms(24), ms(20)));
}

#[test]
fn a_rate_that_is_long_past_does_not_count() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    for _ in 0..3 {
        run.round(4e6, false, 0);
    }
    for _ in 0..2 * RATE_ROUNDS {
        run.round(1e6, false, 0);
    }
    assert_eq!(run.end().unwrap().rate, 1_000_000);
}

#[test]
fn little_to_send_tells_nothing_of_the_rate() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    for _ in 0..5 {
        run.round(1e6, true, 0);
    }
    let saved = run.end().unwrap();
    assert_eq!((saved.rate, saved.window, saved.min_rtt), (0, 0, ms(20)));

    // What is known stays, with its age.
    let mut run = Run::new(&notes, LONG_AGO);
    for _ in 0..5 {
        run.round(1e6, false, 0);
    }
    let known = run.end().unwrap();
    let mut run = Run::new(&notes, LONG_AGO + ms(60_000));
    run.round(1e3, true, 0);
    let saved = run.end().unwrap();
    assert_eq!((saved.rate, saved.window), (1_000_000, 20_000));
    assert_eq!((saved.confidence, saved.seen), (1, known.seen));
}

#[test]
fn connections_that_agree_make_it_sure() {
    let notes: Arc<Notes> = Arc::default();
    for (rate, confidence) in [(1e6, 1), (1.9e6, 2), (1e6, 3), (3e6, 1)] {
        let mut run = Run::new(&notes, LONG_AGO);
        for _ in 0..5 {
            run.round(rate, false, 0);
        }
        assert_eq!(run.end().unwrap().confidence, confidence, "{rate}");
    }
}

#[test]
fn loss_by_chance_is_that_without_a_queue() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    for number in 0..40 {
        run.round(1e6, false, usize::from(number % 4 == 0));
        // A queue: what is lost then is congestion.
        run.round_of(30, 1e6, false, 10);
    }
    let loss = run.end().unwrap().chance_loss;
    // 10 of 810.
    assert!((12_000..=12_700).contains(&loss), "{loss}");
}

/// A controller that judges losses leaves its verdicts, and the next connection's begins with them.
#[test]
fn what_losses_were_judged_to_be_is_kept() {
    let notes: Arc<Notes> = Arc::default();
    let slot = PathIndex::new(0).unwrap();
    let mut run = Run::under(CongestionControl::Auto, &notes, LONG_AGO);
    for number in 1..20 {
        run.round(1e6, false, 0);
        let lost = LostPacket::new(slot, run.now, 2 * number, run.now - ms(1), 1200);
        run.cc.on_packet_lost(&lost);
        let event = CongestionEvent::loss(slot, run.now, run.now - ms(1), 1200, false);
        run.cc.on_congestion_event(&event);
        run.round(1e6, false, 1);
    }
    let judged = run.cc.steering(slot).unwrap();
    assert!(judged.loss_events > 0, "{judged:?}");
    let known = run.end().unwrap();
    assert_eq!(known.loss_events, judged.loss_events);
    assert_eq!(known.chance_events, judged.chance_events);
    assert_eq!(known.bbr, judged.by == CongestionControl::Bbr);
    // The next one knows it from the start, and keeps what it has not seen itself.
    let mut run = Run::under(CongestionControl::Auto, &notes, LONG_AGO);
    let recalled = run.cc.steering(slot).unwrap();
    assert_eq!(recalled.loss_events, known.loss_events);
    run.round(1e6, false, 0);
    let mut cubic = Run::under(CongestionControl::Cubic, &notes, LONG_AGO);
    run.end();
    cubic.round(1e6, false, 0);
    assert_eq!(cubic.end().unwrap().loss_events, known.loss_events);
}

/// In BBR's Startup the queue may be too short to be seen in the round trip.
#[test]
fn what_is_lost_while_the_controller_probes_is_not_by_chance() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::under(CongestionControl::Bbr, &notes, LONG_AGO);
    assert!(run.cc.is_probing(PathIndex::new(0).unwrap()));
    for _ in 0..40 {
        run.round(1e6, false, 1);
    }
    assert_eq!(run.end().unwrap().chance_loss, 0);
}

#[test]
fn a_path_that_is_surely_slow_begins_with_what_it_carries() {
    for (confidence, rate, window, expected) in [
        (3, 50_000, 5000, Some(5000)),
        (1000, 50_000, 0, Some(0)),
        (2, 50_000, 5000, None),
        (3, 0, 0, None),
        (3, 120_000, 11_999, Some(11_999)),
        (3, 120_000, 12_000, None),
    ] {
        let notes: Arc<Notes> = Arc::default();
        let mut saved = SavedPath::new(ms(100), LONG_AGO);
        (saved.rate, saved.window, saved.confidence) = (rate, window, confidence);
        notes.remember(KEY, &saved);
        let run = Run::new(&notes, LONG_AGO);
        let lower = run.path.lower_window(InitialWindow::default(), 1200);
        assert_eq!(lower, expected.map(InitialWindow::Bytes), "{saved:?}");
    }
}

//= specs/rfc9959-draft.md#3-2-reconnaissance-phase
//= type=test
//# If the Lifetime of the observed CC parameters is exceeded, this set of CC parameters are not used, the saved CC
//# parameters are deleted and MUST stop using Careful Resume and returns to use normal CC.
#[test]
fn what_is_too_old_is_forgotten() {
    let saved = |notes: &Arc<Notes>| {
        let mut saved = SavedPath::new(ms(20), LONG_AGO);
        (saved.rate, saved.window) = (10_000_000, 200_000);
        notes.remember(KEY, &saved);
    };
    let lifetime = CarefulResumeConfig::default().lifetime;
    assert_eq!(lifetime, HOUR);
    let notes: Arc<Notes> = Arc::default();
    saved(&notes);
    let run = Run::new(&notes, LONG_AGO + lifetime);
    assert_eq!(run.path.resume_state().0, ResumeState::Reconnaissance);
    assert!(run.path.saved().is_some());
    drop(run);
    let run = Run::new(&notes, LONG_AGO + lifetime + ms(1));
    assert_eq!(run.path.resume_state().0, ResumeState::Off);
    assert!(run.path.saved().is_none());
    assert_eq!(notes.look_up(KEY, Duration::ZERO), None);
}

#[test]
fn what_is_known_of_the_bottleneck_stays_until_something_else_is_seen() {
    let notes: Arc<Notes> = Arc::default();
    let mut run = Run::new(&notes, LONG_AGO);
    assert_eq!(run.path.known(), (0, Duration::ZERO));
    run.bottleneck = 400_000;
    run.round(1e6, true, 0);
    assert_eq!(run.end().unwrap().bottleneck, 400_000);
    // What the estimator says at the end is kept, which is what was known if nothing was seen.
    let mut run = Run::new(&notes, LONG_AGO);
    assert_eq!(run.path.known(), (400_000, ms(20)));
    run.bottleneck = run.path.known().0;
    run.round(1e6, true, 0);
    assert_eq!(run.end().unwrap().bottleneck, 400_000);
    let run = Run::new(&notes, LONG_AGO);
    assert_eq!(
        run.end().unwrap().bottleneck,
        400_000,
        "no acknowledgement came"
    );
    // Too old.
    let lifetime = CarefulResumeConfig::default().lifetime;
    let run = Run::new(&notes, LONG_AGO + lifetime + ms(1000));
    assert_eq!(run.path.known(), (0, Duration::ZERO));
}

#[test]
fn what_a_path_carried_beside_another_counts_by_half_with_what_was_known() {
    let notes: Arc<Notes> = Arc::default();
    let [other, third] = [PathKey::new(8), PathKey::new(9)];
    let known = |carried: Option<(u32, PathKey)>| {
        let mut run = Run::new(&notes, LONG_AGO);
        run.round(1e6, true, 0);
        if let Some((part, beside)) = carried {
            run.path.on_carried(part, beside);
        }
        let saved = run.end().unwrap();
        (saved.carried, saved.beside)
    };
    assert_eq!(known(None), (0, None));
    assert_eq!(known(Some((800, other))), (800, Some(other)));
    assert_eq!(known(Some((400, other))), (600, Some(other)));
    assert_eq!(known(None), (600, Some(other)), "it was alone");
    assert_eq!(known(Some((100, third))), (100, Some(third)));
}

//= specs/rfc9959-draft.md#3-5-safe-retreat-phase
//= type=test
//# The set of saved CC parameters for the path are deleted, to prevent these from being used again by later flows.
#[test]
fn what_proves_wrong_is_forgotten_and_the_claim_ends_with_the_path() {
    let notes: Arc<Notes> = Arc::default();
    let mut saved = SavedPath::new(ms(20), LONG_AGO);
    (saved.rate, saved.window) = (10_000_000, 200_000);
    notes.remember(KEY, &saved);
    let mut run = Run::new(&notes, LONG_AGO);
    let mut other = Run::new(&notes, LONG_AGO);
    run.rtt.update(run.now, ms(20), Duration::ZERO);
    for run in [&mut run, &mut other] {
        run.rtt.update(run.now, ms(20), Duration::ZERO);
        run.path
            .on_sent(run.now, 1, INITIAL, 1200, &run.rtt, &mut *run.cc);
    }
    assert_eq!(run.path.resume_state(), (ResumeState::Unvalidated, 100_000));
    assert_eq!(other.path.resume_state(), (ResumeState::Refused, 0));
    drop(other.path);
    assert_eq!(notes.0.lock().unwrap().claimed.len(), 2, "still claimed");
    run.now += ms(30);
    let slot = PathIndex::new(0).unwrap();
    run.cc
        .on_congestion_event(&CongestionEvent::loss(slot, run.now, run.now, 1200, false));
    run.path.on_loss_timeout(run.now, false, &mut *run.cc);
    assert_eq!(run.path.resume_state().0, ResumeState::SafeRetreat);
    assert_eq!(run.path.known(), (0, Duration::ZERO));
    assert_eq!(notes.look_up(KEY, Duration::ZERO), None);
    // What is measured from then on is as good as any.
    run.path.on_loss_timeout(run.now, true, &mut *run.cc);
    assert_eq!(run.path.resume_state().0, ResumeState::Retreated);
    for _ in 0..5 {
        run.round(1e6, false, 0);
    }
    assert_eq!(run.end().unwrap().rate, 1_000_000);
}
