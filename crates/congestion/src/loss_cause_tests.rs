//! The judge of losses, on round trips and losses of which the cause is known.

use proptest::prelude::*;

use super::*;

/// A path, whose round trips are told in microseconds, one per millisecond.
struct Run {
    judge: LossJudge,
    rtt: RttEstimator,
    now: Instant,
}

impl Run {
    fn new() -> Self {
        Self {
            judge: LossJudge::default(),
            rtt: RttEstimator::new(Duration::from_millis(333)),
            now: Instant::now(),
        }
    }

    fn sees(&mut self, rtts: impl IntoIterator<Item = u64>) -> &mut Self {
        for rtt in rtts {
            let sample = Duration::from_micros(rtt);
            self.now += Duration::from_millis(1);
            self.rtt.update(self.now, sample, Duration::ZERO);
            self.judge.on_sample(self.now, sample, &self.rtt);
        }
        self
    }

    fn loses(&mut self) -> LossCause {
        self.judge.judge(false)
    }
}

/// A saw tooth over a queue of 4 ms, on a path of 40 ms: far from a plain queue.
#[test]
fn the_top_of_a_saw_tooth_is_an_overflow_and_its_middle_chance() {
    let mut run = Run::new();
    for _ in 0..5 {
        let cause = run.sees((0..200).map(|i| 40_000 + 20 * i)).loses();
        assert_eq!(cause, LossCause::Overflow);
    }
    assert_eq!(run.judge.chance_share(), 0.0);
    let mut run = Run::new();
    run.sees((0..200).map(|i| 40_000 + 20 * i)).loses();
    for i in [20, 80, 120] {
        run.sees((0..200).map(|i| 40_000 + 20 * i));
        let cause = run.sees((0..8).map(|_| 40_000 + 20 * i)).loses();
        assert_eq!(cause, LossCause::Chance, "{i}");
    }
    assert!(
        run.judge.chance_share() > 0.6,
        "{}",
        run.judge.chance_share()
    );
    assert_eq!(
        run.judge.causes(),
        LossCauses {
            overflow: 1,
            chance: 3,
            unclear: 0
        }
    );
}

#[test]
fn without_a_queue_it_is_chance() {
    let mut run = Run::new();
    run.sees([40_000; 100]);
    assert_eq!(run.loses(), LossCause::Chance);
    assert!(run.judge.is_quiet());
    // Differences of a thousandth are none.
    run.sees((0..100).map(|i| 40_000 + i));
    assert_eq!(run.loses(), LossCause::Chance);
    assert_eq!(run.judge.chance_share(), 1.0);
}

/// More than half a round trip and four variations is a queue, whatever was seen before.
#[test]
fn a_plain_queue_is_never_chance() {
    let mut run = Run::new();
    run.sees([40_000; 100])
        .sees([200_000; 20])
        .sees([80_000; 60]);
    assert!(run.judge.has_plain_queue());
    assert_eq!(run.loses(), LossCause::Overflow);
    assert!(!run.judge.is_quiet());
}

#[test]
fn little_was_seen_and_persistent_congestion() {
    let mut run = Run::new();
    assert_eq!(run.loses(), LossCause::Chance);
    // No queue so far, and then the first sign of one.
    assert_eq!(run.sees([40_000; 7]).loses(), LossCause::Chance);
    assert_eq!(run.sees([46_000]).loses(), LossCause::Unclear);
    let failed = run.sees([40_000; 40]).sees([90_000; 8]).judge.judge(true);
    assert_eq!(failed, LossCause::Overflow);
    // What was the shortest round trip is forgotten.
    run.sees([90_000; 40]);
    assert_eq!(run.loses(), LossCause::Chance);
}

/// Delay varies by twice the queue that overflows: a comparison with the shortest round trip sees nothing.
#[test]
fn the_rank_sees_an_overflow_below_the_variation() {
    let mut run = Run::new();
    let varied = |i: u64, queue: u64| 40_000 + queue + (i * 7919 % 101) * 20;
    let mut seen = [0; 2];
    for _ in 0..20 {
        run.sees((0..300).map(|i| varied(i, i * 20)));
        seen[usize::from(run.loses() == LossCause::Overflow)] += 1;
    }
    assert!(seen[1] >= 16, "{seen:?}");
}

#[test]
fn it_is_small() {
    assert!(size_of::<LossJudge>() <= 240, "{}", size_of::<LossJudge>());
}

proptest! {
    /// Any times: no panic, and a share between 0 and 1. A queue that only grows is never chance once a rank can tell.
    #[test]
    #[test]
    fn any_samples_are_taken(
        samples in prop::collection::vec((any::<u64>(), 0..5000_u64, any::<u8>()), 1..300),
        step in 320..20_000_u64,
    ) {
        let mut run = Run::new();
        for (sample, gap, event) in samples {
            run.now += Duration::from_millis(gap);
            run.sees([sample >> (event % 64)]);
            if event < 40 {
                run.judge.judge(event < 5);
            }
            let share = run.judge.chance_share();
            prop_assert!((0.0..=1.0).contains(&share));
        }
        let mut run = Run::new();
        run.sees((0..64).map(|i| 40_000 + i * step));
        prop_assert_ne!(run.loses(), LossCause::Chance);
    }
}
