//! Discounted means and Hedge: bounds against adversaries, following changes, what is refused.

use mpquic_bandit::{DiscountedMeans, Draw, Hedge, Refused};
use proptest::prelude::*;

/// What an adversary gives, who knows the probabilities.
#[derive(Debug, Clone, Copy)]
enum Adversary {
    /// All but the likeliest arm.
    AgainstLikeliest,
    /// Arms by turns, each for so long.
    Turns(u64),
    /// Independent draws, one arm a little better.
    Chance,
}

fn rewards<const K: usize>(
    adversary: Adversary,
    round: u64,
    probabilities: &[f64; K],
    draw: &mut Draw,
) -> [f64; K] {
    match adversary {
        Adversary::AgainstLikeliest => {
            let likeliest = (0..K)
                .max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]))
                .unwrap();
            std::array::from_fn(|arm| f64::from(u8::from(arm != likeliest)))
        }
        Adversary::Turns(long) => {
            let turn = (round / long) as usize % K;
            std::array::from_fn(|arm| f64::from(u8::from(arm == turn)))
        }
        Adversary::Chance => std::array::from_fn(|arm| {
            f64::from(u8::from(draw.chance(0.5 + 0.1 / (arm + 1) as f64)))
        }),
    }
}

fn regret_holds<const K: usize>(adversary: Adversary) {
    let (mut hedge, mut draw) = (Hedge::<K>::new(), Draw::new(3));
    let (mut expected, mut sums) = (0.0, [0.0; K]);
    for round in 0..5_000 {
        let probabilities = hedge.probabilities();
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let rewards = rewards(adversary, round, &probabilities, &mut draw);
        for arm in 0..K {
            expected += probabilities[arm] * rewards[arm];
            sums[arm] += rewards[arm];
        }
        hedge.update(&rewards).unwrap();
        let best = sums.into_iter().fold(0.0, f64::max);
        let bound = Hedge::<K>::regret_bound(round + 1);
        assert!(
            best - expected <= bound,
            "{adversary:?}: {best} - {expected} > {bound}"
        );
    }
}

#[test]
fn hedge_keeps_its_bound() {
    for adversary in [
        Adversary::AgainstLikeliest,
        Adversary::Turns(1),
        Adversary::Turns(37),
        Adversary::Turns(1_000),
        Adversary::Chance,
    ] {
        regret_holds::<2>(adversary);
        regret_holds::<5>(adversary);
        regret_holds::<10>(adversary);
    }
}

#[test]
fn draws_follow_the_probabilities() {
    let (mut hedge, mut draw) = (Hedge::<3>::new(), Draw::new(7));
    for _ in 0..5 {
        hedge.update(&[0.1, 0.5, 0.3]).unwrap();
    }
    let mut counts = [0_u32; 3];
    for _ in 0..100_000 {
        counts[hedge.select(&mut draw)] += 1;
    }
    for (count, probability) in counts.into_iter().zip(hedge.probabilities()) {
        // Five standard deviations are at most 791.
        assert!((f64::from(count) - 100_000.0 * probability).abs() < 791.0);
    }
}

/// After 2,000 rounds in which the first was best, 350 rounds in which it brings nothing are enough: 0.998^350 < 1/2.
#[test]
fn means_follow_a_change() {
    let mut means = DiscountedMeans::<2>::new(0.998);
    for _ in 0..2_000 {
        means.update(&[1.0, 0.0]).unwrap();
    }
    assert_eq!(means.select(0.0, &[0.0; 2]), 0);
    for _ in 0..350 {
        means.update(&[0.0, 1.0]).unwrap();
    }
    assert_eq!(means.select(0.0, &[0.0; 2]), 1);
}

/// What is written under the bound of the means: an arm that is worse by d is taken with a probability of exp(-n d²/2) at most.
#[test]
fn a_worse_arm_is_soon_left() {
    let (mut draw, mut wrong) = (Draw::new(5), [0_u32; 4]);
    let at = [25, 50, 100, 200];
    for _ in 0..2_000 {
        let mut means = DiscountedMeans::<2>::new(1.0);
        for round in 0..=200 {
            if let Some(place) = at.iter().position(|n| *n == round) {
                wrong[place] += u32::from(means.select(0.0, &[0.0; 2]) == 0);
            }
            let reward = |p, draw: &mut Draw| f64::from(u8::from(draw.chance(p)));
            means
                .update(&[reward(0.3, &mut draw), reward(0.6, &mut draw)])
                .unwrap();
        }
    }
    for (n, wrong) in at.into_iter().zip(wrong) {
        let bound = (-f64::from(n) * 0.09 / 2.0).exp();
        assert!(f64::from(wrong) / 2_000.0 <= bound, "{n}: {wrong}");
    }
}

#[test]
fn restored_means_yield_to_what_is_new() {
    let mut means = DiscountedMeans::<2>::new(0.998);
    for _ in 0..5_000 {
        means.update(&[0.9, 0.5]).unwrap();
    }
    let mut again = DiscountedMeans::restore(0.998, &means.means(), means.weight(), 50.0).unwrap();
    assert_eq!(again.weight(), 50.0);
    assert!((again.means()[0] - 0.9).abs() < 1e-9);
    // 50 g^n of the old against (1 - g^n) / (1 - g) of the new: even after 47.6 rounds.
    for _ in 0..47 {
        again.update(&[0.4, 0.8]).unwrap();
    }
    assert_eq!(again.select(0.0, &[0.0; 2]), 0);
    again.update(&[0.4, 0.8]).unwrap();
    assert_eq!(again.select(0.0, &[0.0; 2]), 1);
    for (means, weight) in [
        ([f64::NAN, 0.0], 1.0),
        ([1.1, 0.0], 1.0),
        ([0.0; 2], -1.0),
        ([0.0; 2], f64::NAN),
    ] {
        assert_eq!(
            DiscountedMeans::restore(1.0, &means, weight, 1.0),
            Err(Refused::Reward)
        );
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_learned_or_refused(
        rounds in prop::collection::vec(prop::array::uniform3(prop_oneof![0.0..=1.0, any::<f64>()]), 0..50),
        discount in any::<f64>(),
    ) {
        let mut means = DiscountedMeans::<3>::new(discount);
        let mut hedge = Hedge::<3>::new();
        for rewards in rounds {
            let (before, probabilities) = (means.means(), hedge.probabilities());
            let fine = rewards.iter().all(|r| (0.0..=1.0).contains(r));
            prop_assert_eq!(means.update(&rewards).is_ok(), fine);
            prop_assert_eq!(hedge.update(&rewards).is_ok(), fine);
            if !fine {
                prop_assert_eq!(before, means.means());
                prop_assert_eq!(probabilities, hedge.probabilities());
            }
            prop_assert!(means.select(0.1, &[0.0, 0.5, 1.0]) < 3);
            prop_assert!(DiscountedMeans::restore(discount, &means.means(), means.weight(), 9.0).is_ok());
        }
    }
}
