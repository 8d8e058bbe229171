//! Models written down and read back: to the last bit, or with an error that says what is wrong.

use mpquic_bandit::{
    DiscountedLinUcb, DiscountedLinUcbConfig, Draw, LinThompson, LinUcb, LinUcbConfig,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const D: usize = 3;
type Ucb = LinUcb<f64, D, 2>;
type Ucb32 = LinUcb<f32, D, 2>;
type Discounted = DiscountedLinUcb<f32, D, 2>;
type Thompson = LinThompson<f64, D, 2>;

/// Reads back what was written, and compares all that is kept.
fn there_and_back<M>(model: &M) -> Result<M, TestCaseError>
where
    M: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let text = serde_json::to_string(model).unwrap();
    let read: M = serde_json::from_str(&text)
        .map_err(|wrong| TestCaseError::fail(format!("{wrong}: {text}")))?;
    // Prints floats so that different ones look different.
    prop_assert_eq!(format!("{:?}", model), format!("{:?}", read));
    Ok(read)
}

/// How contexts may look: harmless, of all sizes, along one line, with features that vanish.
fn context(kind: u32, t: usize, draw: &mut Draw) -> [f64; D] {
    let [a, b, c] = [(); D].map(|()| draw.unit());
    match kind {
        0 => [a, b, c],
        1 => [1e-6 * a, b, 1e6 * c],
        2 => [1.0 + 1e-7 * a, 2.0, 3.0 - 1e-7 * b],
        3 if t > 40 => [a, 0.0, 0.0],
        _ => [a * 100.0, -b, c],
    }
}

proptest! {
    #[test]
    fn read_back_to_the_last_bit(
        kind in 0..4_u32, length in 0..2_000_usize, seed: u64,
        discount in 0.5..0.999_f64, every in 1..300_u32,
    ) {
        let config = LinUcbConfig { reinvert_every: every, ..LinUcbConfig::default() };
        let mut ucb = Ucb::new(&config);
        let mut single = Ucb32::new(&config);
        let mut thompson = Thompson::new(&config);
        let mut discounted = Discounted::new(&DiscountedLinUcbConfig {
            discount, reinvert_every: every, ..Default::default()
        });
        let mut draw = Draw::new(seed);
        for t in 0..length {
            let x = context(kind, t, &mut draw);
            let narrow = x.map(|x| x as f32);
            let arm = usize::from(draw.chance(0.4));
            let reward = x[arm] + draw.unit();
            ucb.update(arm, &x, reward).unwrap();
            single.update(arm, &narrow, reward as f32).unwrap();
            thompson.update(arm, &x, reward).unwrap();
            discounted.update(arm, &narrow, reward as f32).unwrap();
        }
        let _ = ucb.update(2, &[0.0; D], 0.0);
        let mut read = there_and_back(&ucb)?;
        there_and_back(&single)?;
        there_and_back(&thompson)?;
        let mut read_discounted = there_and_back(&discounted)?;
        prop_assert_eq!(read.refused(), 1);
        // And they go on alike, over re-inversions.
        for t in length..length + 600 {
            let x = context(kind, t, &mut draw);
            let arm = ucb.select(0.8, &x);
            prop_assert_eq!(arm, read.select(0.8, &x));
            ucb.update(arm, &x, 0.3).unwrap();
            read.update(arm, &x, 0.3).unwrap();
            let narrow = x.map(|x| x as f32);
            discounted.update(arm, &narrow, 0.3).unwrap();
            read_discounted.update(arm, &narrow, 0.3).unwrap();
        }
        prop_assert_eq!(format!("{:?}", ucb), format!("{:?}", read));
        prop_assert_eq!(format!("{:?}", discounted), format!("{:?}", read_discounted));
    }
}

fn written() -> Value {
    let mut model = Ucb::new(&LinUcbConfig::default());
    let mut draw = Draw::new(9);
    for t in 0..100 {
        let x = [(); D].map(|()| draw.unit());
        model.update(t % 2, &x, draw.unit()).unwrap();
    }
    serde_json::to_value(&model).unwrap()
}

/// What reading says once `change` has been done to a good snapshot.
fn error(change: impl FnOnce(&mut Value)) -> String {
    let mut value = written();
    change(&mut value);
    let wrong = serde_json::from_value::<Ucb>(value.clone()).unwrap_err();
    assert_eq!(
        serde_json::from_value::<Thompson>(value)
            .unwrap_err()
            .to_string(),
        wrong.to_string()
    );
    wrong.to_string()
}

#[test]
fn the_good_one_is_read() {
    serde_json::from_value::<Ucb>(written()).unwrap();
}

#[test]
fn wrong_dimensions() {
    let wrong = serde_json::from_value::<LinUcb<f64, 4, 2>>(written()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "invalid length 6, expected the lower triangle of a 4 by 4 matrix, 10 numbers"
    );
    let wrong = serde_json::from_value::<LinUcb<f64, 2, 2>>(written()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "invalid length 4, expected the lower triangle of a 2 by 2 matrix, 3 numbers"
    );
    let wrong = serde_json::from_value::<LinUcb<f64, D, 3>>(written()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "invalid length 2, expected an array of 3"
    );
    let wrong = error(|v| v["arms"][1]["theta"] = json!([1.0, 2.0]));
    assert_eq!(wrong, "invalid length 2, expected an array of 3");
}

#[test]
fn not_what_updates_leave_behind() {
    let of_arm_1 = "not a linear model: arm 1: ";
    let negated = error(|v| v["arms"][1]["gram"][0] = json!(-1.0));
    assert_eq!(negated, format!("{of_arm_1}A is not positive definite"));
    let indefinite = error(|v| v["arms"][1]["gram"][1] = json!(1e3));
    assert_eq!(indefinite, format!("{of_arm_1}A is not positive definite"));
    let other = error(|v| v["arms"][1]["inverse"][3] = json!(0.3));
    assert_eq!(other, format!("{of_arm_1}A^-1 is not the inverse of A"));
    let other = error(|v| v["arms"][1]["theta"][2] = json!(7.0));
    assert_eq!(other, format!("{of_arm_1}theta is not A^-1 b"));
    let huge = error(|v| v["arms"][1]["moments"][2] = json!(1e306));
    assert_eq!(huge, format!("{of_arm_1}b is not finite or too large"));
    let late = error(|v| v["arms"][1]["since"] = json!(256));
    assert_eq!(
        late,
        format!("{of_arm_1}the last re-inversion was too long ago")
    );
    let never = error(|v| v["reinvert_every"] = json!(0));
    assert_eq!(
        never,
        "not a linear model: `reinvert_every` is out of range"
    );
    // JSON has no NaN; it is written as null.
    assert!(error(|v| v["arms"][0]["gram"][2] = Value::Null).contains("null"));
    assert!(error(|v| v["more"] = json!(1)).contains("unknown field `more`"));
    assert!(error(|v| v["arms"][0]["more"] = json!(1)).contains("unknown field `more`"));
}

#[test]
fn a_discounted_model_is_checked_too() {
    let good = serde_json::to_value(Discounted::new(&DiscountedLinUcbConfig::default())).unwrap();
    serde_json::from_value::<Discounted>(good.clone()).unwrap();
    let error = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect("a part of it") = value;
        serde_json::from_value::<Discounted>(bad)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("/config/discount", json!(1.0)),
        "not a linear model: `discount` is out of range"
    );
    assert_eq!(
        error("/turn", json!(3)),
        "not a linear model: `turn` is out of range"
    );
    assert_eq!(
        error("/arms/0/squares/0", json!(-1.0)),
        "not a linear model: arm 0: squares are not positive definite"
    );
    assert_eq!(
        error("/arms/1/regression/inverse/0", json!(9.0)),
        "not a linear model: arm 1: A^-1 is not the inverse of A"
    );
}

#[test]
fn settings_are_read_with_defaults() {
    let config: LinUcbConfig = serde_json::from_value(json!({"ridge": 2.0})).unwrap();
    assert_eq!((config.ridge, config.reinvert_every), (2.0, 256));
    assert!(serde_json::from_value::<LinUcbConfig>(json!({"rigde": 2.0})).is_err());
}
