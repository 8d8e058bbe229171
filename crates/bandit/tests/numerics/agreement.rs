//! The same arms as a model that inverts at every step, on histories of all kinds.

use mpquic_bandit::{LinUcb, LinUcbConfig};
use proptest::prelude::*;

use super::plain::PlainArm;

const D: usize = 4;
const K: usize = 3;

#[derive(Debug, Clone)]
struct Step {
    x: [f64; D],
    noise: f64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let feature = prop_oneof![
        4 => -2.0..2.0_f64,
        1 => Just(0.0),
        1 => -100.0..100.0_f64,
        1 => -1e-4..1e-4_f64,
    ];
    let step =
        (prop::array::uniform4(feature), -1.0..1.0_f64).prop_map(|(x, noise)| Step { x, noise });
    prop::collection::vec(step, 1..200)
}

/// Follows its own choices; `compare` is given what each step's scores are.
fn follow(steps: &[Step], alpha: f64, ridge: f64, every: u32) -> Result<(), TestCaseError> {
    let config = LinUcbConfig {
        ridge,
        reinvert_every: every,
    };
    let mut model = LinUcb::<f64, D, K>::new(&config);
    let mut single = LinUcb::<f32, D, K>::new(&config);
    let mut plain = vec![PlainArm::new(D, ridge); K];
    for Step { x, noise } in steps {
        let scores: Vec<_> = plain.iter().map(|arm| arm.score(alpha, x)).collect();
        let arm = model.select(alpha, x);
        let best = scores.iter().copied().fold(f64::MIN, f64::max);
        let first = scores.iter().position(|&s| s == best).unwrap();
        // Two correct programs may round a tie apart; anything else must be the same arm.
        let size = 1.0 + best.abs();
        prop_assert!(
            arm == first || best - scores[arm] < 1e-9 * size,
            "{scores:?}, {arm}"
        );
        for (ours, theirs) in model.scores(alpha, x).iter().zip(&scores) {
            prop_assert!((ours - theirs).abs() < 1e-9 * size, "{ours} for {theirs}");
        }
        let narrow = x.map(|x| x as f32);
        for (ours, theirs) in single.scores(alpha as f32, &narrow).iter().zip(&scores) {
            prop_assert!(
                (f64::from(*ours) - theirs).abs() < 0.02 * size,
                "{ours} for {theirs}"
            );
        }
        let reward = x[arm] - x[3] * 0.5 + noise;
        model.update(arm, x, reward).unwrap();
        single.update(arm, &narrow, reward as f32).unwrap();
        plain[arm].update(x, reward);
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_same_arms_as_by_plain_inversion(
        steps in steps(),
        alpha in 0.0..2.0_f64,
        ridge in prop_oneof![Just(1.0), 0.01..10.0_f64],
        every in prop_oneof![Just(256_u32), 1..20_u32],
    ) {
        follow(&steps, alpha, ridge, every)?;
    }

    /// The mean of models is the model of the mean of what they have seen.
    #[test]
    fn the_mean_of_models(histories in prop::collection::vec(steps(), 1..4)) {
        let n = histories.len() as f64;
        let mut models = Vec::new();
        let mut plain = vec![PlainArm::new(D, 1.0); K];
        for steps in &histories {
            let mut model = LinUcb::<f64, D, K>::new(&LinUcbConfig::default());
            let _ = model.update(K, &[0.0; D], 0.0);
            for (number, Step { x, noise }) in steps.iter().enumerate() {
                model.update(number % K, x, *noise).unwrap();
                // Weighing a sample by w is scaling it by sqrt(w).
                let scaled = x.map(|x| x / n.sqrt());
                plain[number % K].update(&scaled, *noise / n.sqrt());
            }
            models.push(model);
        }
        let mean = LinUcb::mean_of(models.iter()).unwrap();
        prop_assert_eq!(mean.refused(), 0);
        for (arm, plain) in plain.iter().enumerate() {
            for (ours, theirs) in mean.theta(arm).iter().zip(plain.theta()) {
                prop_assert!((ours - theirs).abs() < 1e-9 * (1.0 + theirs.abs()));
            }
            for (ours, theirs) in mean.inverse(arm).iter().zip(plain.inverse()) {
                for (ours, theirs) in ours.iter().zip(theirs) {
                    prop_assert!((ours - theirs).abs() < 1e-9);
                }
            }
        }
    }
}

#[test]
fn the_mean_of_none() {
    assert!(LinUcb::<f64, D, K>::mean_of(std::iter::empty()).is_none());
}
