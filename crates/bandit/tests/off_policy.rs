//! Estimates of a policy from another's log: intervals that hold the truth as often as they say, and what is refused.

use mpquic_bandit::{ArmSet, Draw, Epsilon, OffPolicy, Refused};

const ARMS: usize = 3;
/// The mean reward of each arm, in the contexts 0 and 1.
const MEANS: [[f64; ARMS]; 2] = [[0.2, 0.5, 0.9], [0.7, 0.4, 0.1]];

/// A log of the policy that takes arm 0 and explores by 0.4; judged is the one that takes the best arm of each context, and
/// explores by 0.1. With `quality` 1 the model is right, with 0 it knows nothing.
fn judge(seed: u64, lines: usize, quality: f64) -> OffPolicy {
    let (all, mut draw) = (ArmSet::first_of(ARMS), Draw::new(seed));
    let (logger, target) = (Epsilon::new(0.4), Epsilon::new(0.1));
    let mut judged = OffPolicy::new();
    for _ in 0..lines {
        let context = usize::from(draw.chance(0.5));
        let best = [2, 0][context];
        let choice = logger.choose(0, all, &mut draw).unwrap();
        let reward = f64::from(u8::from(draw.chance(MEANS[context][choice.arm])));
        let model = MEANS[context].map(|mean| quality * mean);
        let expected = (0..ARMS)
            .map(|arm| target.probability(arm, best, all) * model[arm])
            .sum();
        judged
            .add_modelled(
                target.probability(choice.arm, best, all),
                choice.probability,
                reward,
                model[choice.arm],
                expected,
            )
            .unwrap();
    }
    judged
}

/// What the judged policy earns.
fn truth() -> f64 {
    let target = Epsilon::new(0.1);
    let of = |context: usize, best: usize| -> f64 {
        (0..ARMS)
            .map(|arm| target.probability(arm, best, ArmSet::first_of(ARMS)) * MEANS[context][arm])
            .sum()
    };
    f64::midpoint(of(0, 2), of(1, 0))
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let truth = truth();
    let runs = 1_000;
    let mut held = [0; 3];
    for seed in 0..runs {
        let judged = judge(seed, 500, 0.7);
        let estimates = [judged.ips(), judged.snips(), judged.doubly_robust()];
        for (held, estimate) in held.iter_mut().zip(estimates) {
            let (low, high) = estimate.interval(1.96);
            *held += u32::from(low <= truth && truth <= high);
        }
    }
    // 95 %, with five standard deviations of a binomial: 3.4 points.
    for held in held {
        assert!((916..=984).contains(&held), "{held} of {runs}");
    }
}

#[test]
fn a_good_model_narrows_the_interval() {
    let [good, none] = [1.0, 0.0].map(|quality| judge(7, 5_000, quality));
    assert!(good.doubly_robust().error < 0.7 * good.ips().error);
    assert_eq!(none.doubly_robust(), none.ips());
    assert!((good.direct().value - truth()).abs() < 0.02);
    let share = none.effective_lines() / none.lines() as f64;
    assert!(0.2 < share && share < 0.9, "{share}");
}

#[test]
fn what_is_refused_and_what_is_clipped() {
    let mut judged = OffPolicy::clipped(10.0);
    assert_eq!(judged.ips().value, 0.0);
    assert_eq!(judged.snips().error, f64::INFINITY);
    for (target, logged) in [
        (-0.1, 0.5),
        (1.1, 0.5),
        (f64::NAN, 0.5),
        (0.5, 0.0),
        (0.5, 1.5),
    ] {
        assert_eq!(judged.add(target, logged, 1.0), Err(Refused::Probability));
    }
    assert_eq!(judged.add(0.5, 0.5, f64::INFINITY), Err(Refused::Reward));
    assert_eq!((judged.lines(), judged.refused()), (0, 6));
    judged.add(1.0, 1e-300, 2.0).unwrap();
    assert_eq!((judged.largest_weight(), judged.ips().value), (10.0, 20.0));
    assert_eq!(judged.ips().error, f64::INFINITY);
}
