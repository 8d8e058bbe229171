//! What is refused leaves everything as it was, to the last bit; what is not keeps it in order.

use mpquic_bandit::{
    DiscountedLinUcb, DiscountedLinUcbConfig, Draw, LinThompson, LinUcb, LinUcbConfig, Real,
    Refused,
};
use proptest::prelude::*;

use super::plain::positive_definite;

const D: usize = 3;

/// All that decides and all that is kept: `{:?}` prints each float so that it can be read back.
fn state(model: &impl std::fmt::Debug) -> String {
    let text = format!("{model:?}");
    let (before, after) = text.split_once("refused: ").expect("a counter of refusals");
    let end = after.find([',', ' ']).expect("something after the counter");
    format!("{before}{}", &after[end..])
}

fn trained() -> (
    LinUcb<f64, D, 2>,
    DiscountedLinUcb<f32, D, 2>,
    LinThompson<f64, D, 2>,
) {
    let mut models = (
        LinUcb::new(&LinUcbConfig::default()),
        DiscountedLinUcb::new(&DiscountedLinUcbConfig::default()),
        LinThompson::new(&LinUcbConfig::default()),
    );
    let mut draw = Draw::new(5);
    for t in 0..300 {
        let x = [(); D].map(|()| draw.unit());
        models.0.update(t % 2, &x, draw.unit()).unwrap();
        models.1.update(t % 2, &x.map(|x| x as f32), 0.5).unwrap();
        models.2.update(t % 2, &x, draw.unit()).unwrap();
    }
    models
}

fn spoilt() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN),
        // x'x overflows, though x does not.
        Just(1e200),
        // Above 2^480 = 3.1e144, 2^40 for f32.
        (145.0..308.0_f64).prop_map(|e| 10_f64.powf(e)),
        (145.0..308.0_f64).prop_map(|e| -(10_f64.powf(e))),
    ]
}

proptest! {
    #[test]
    fn nothing_of_a_refused_sample_stays(
        bad in spoilt(), place in 0..D, good in -1.0..1.0_f64, arm in 0..2_usize,
    ) {
        let (mut ucb, mut discounted, mut thompson) = trained();
        let before = (state(&ucb), state(&discounted), state(&thompson));
        let mut x = [good; D];
        x[place] = bad;
        let narrow = x.map(|x| x as f32);
        prop_assert_eq!(ucb.update(arm, &x, good), Err(Refused::Context));
        prop_assert_eq!(discounted.update(arm, &narrow, 0.1), Err(Refused::Context));
        prop_assert_eq!(thompson.update(arm, &x, good), Err(Refused::Context));
        let x = [good; D];
        let narrow = x.map(|x| x as f32);
        prop_assert_eq!(ucb.update(arm, &x, bad), Err(Refused::Reward));
        prop_assert_eq!(discounted.update(arm, &narrow, bad as f32), Err(Refused::Reward));
        prop_assert_eq!(thompson.update(arm, &x, bad), Err(Refused::Reward));
        prop_assert_eq!(ucb.update(arm + 2, &x, good), Err(Refused::Arm));
        prop_assert_eq!(discounted.update(arm + 2, &narrow, 0.1), Err(Refused::Arm));
        prop_assert_eq!(thompson.update(usize::MAX, &x, good), Err(Refused::Arm));
        let after = (state(&ucb), state(&discounted), state(&thompson));
        prop_assert_eq!(before, after);
        prop_assert_eq!((ucb.refused(), discounted.refused(), thompson.refused()), (3, 3, 3));
    }

    /// Whatever is accepted, however the sizes are mixed, leaves finite numbers and an A^-1 that is
    /// positive definite.
    #[test]
    fn all_that_is_accepted_does_no_harm(
        samples in prop::collection::vec(
            (prop::array::uniform3((-60.0..145.0_f64, any::<bool>())), -60.0..145.0_f64), 1..60),
        every in 1..10_u32,
    ) {
        let config = LinUcbConfig { reinvert_every: every, ..LinUcbConfig::default() };
        let mut model = LinUcb::<f64, D, 1>::new(&config);
        for (exponents, reward) in samples {
            let x = exponents.map(|(e, negative)| 10_f64.powf(e) * if negative { -1.0 } else { 1.0 });
            if model.update(0, &x, 10_f64.powf(reward)).is_err() {
                continue;
            }
            let inverse: Vec<_> = model.inverse(0).iter().map(|row| row.to_vec()).collect();
            prop_assert!(positive_definite(&inverse), "{inverse:?}");
            prop_assert!(model.theta(0).iter().all(|theta| theta.is_finite()));
            prop_assert!(model.scores(1.0, &x)[0].is_finite());
        }
    }
}

/// Found by the property above: a single sample with features 57 powers of ten apart, where elimination
/// in place (Gauss and Jordan's) gave an inverse that was not positive definite.
#[test]
fn features_far_apart() {
    let config = LinUcbConfig {
        reinvert_every: 1,
        ..LinUcbConfig::default()
    };
    let mut model = LinUcb::<f64, D, 1>::new(&config);
    let x = [
        86.175_414_351_171_51,
        120.238_238_546_141_33,
        63.275_589_883_270_83,
    ];
    model.update(0, &x.map(|e| 10_f64.powf(e)), 1.0).unwrap();
    let inverse: Vec<_> = model.inverse(0).iter().map(|row| row.to_vec()).collect();
    assert!(positive_definite(&inverse), "{inverse:?}");
}

#[test]
fn the_largest_that_are_learned_from() {
    fn at_the_limit<T: Real>() -> f64 {
        let limit = T::LIMIT;
        let mut model = LinUcb::<T, 2, 1>::new(&LinUcbConfig {
            ridge: 1e-6,
            ..LinUcbConfig::default()
        });
        for _ in 0..1_000 {
            model.update(0, &[limit, T::zero()], limit).unwrap();
            model.update(0, &[T::one(), T::one()], -limit).unwrap();
        }
        let x = [limit, T::one()];
        assert!(model.scores(T::one(), &x)[0].is_finite());
        let above = limit * (T::one() + T::epsilon() + T::epsilon());
        let spoilt = model.update(0, &[above, T::zero()], T::one());
        assert_eq!(spoilt, Err(Refused::Context));
        let spoilt = model.update(0, &[T::one(), T::zero()], -above);
        assert_eq!(spoilt, Err(Refused::Reward));
        model.means(&[T::one(), T::zero()])[0].wide()
    }
    let (double, single) = (at_the_limit::<f64>(), at_the_limit::<f32>());
    assert!(
        (double - 1.0).abs() < 1e-3 && (single - 1.0).abs() < 1e-3,
        "{double}, {single}"
    );
}

#[test]
fn a_context_that_is_no_number_is_survived_by_a_choice() {
    let (ucb, discounted, thompson) = trained();
    let x = [f64::NAN, 1.0, f64::INFINITY];
    assert!(ucb.select(0.8, &x) < 2);
    assert!(discounted.select(0.8, &x.map(|x| x as f32)) < 2);
    assert!(thompson.select(0.8, &x, &mut Draw::new(1)) < 2);
}

#[test]
fn settings_out_of_range() {
    let config = LinUcbConfig {
        ridge: 0.0,
        ..LinUcbConfig::default()
    };
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "field `ridge`: expected 1e-6 to 1e6, got 0"
    );
    let config = DiscountedLinUcbConfig {
        discount: 1.0,
        ..DiscountedLinUcbConfig::default()
    };
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "field `discount`: expected 0.5 to 1, without 1, got 1"
    );
    let config = LinUcbConfig {
        reinvert_every: 0,
        ..LinUcbConfig::default()
    };
    assert!(config.check().is_err());
    assert!(std::panic::catch_unwind(|| LinUcb::<f64, D, 2>::new(&config)).is_err());
}
