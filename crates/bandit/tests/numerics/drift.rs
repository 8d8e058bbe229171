//! Sherman–Morrison with re-inversion against direct inversion, over a million updates.

use mpquic_bandit::{DiscountedLinUcb, DiscountedLinUcbConfig, Draw, LinUcb, LinUcbConfig};

use super::plain::{PlainArm, eliminate, identity, positive_definite};

const D: usize = 6;
const UPDATES: u32 = 1_000_000;

/// |a - b| / |b|.
fn relative(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

fn rows(m: &[[f64; D]; D]) -> Vec<Vec<f64>> {
    m.iter().map(|row| row.to_vec()).collect()
}

fn random(draw: &mut Draw) -> [f64; D] {
    [(); D].map(|()| draw.unit())
}

/// One direction, and a part in a million of noise.
fn nearly_collinear(draw: &mut Draw) -> [f64; D] {
    let length = 1.0 + draw.unit();
    let mut i = 0.0;
    [(); D].map(|()| {
        i += 1.0;
        length * (0.3 + 0.1 * i + 1e-6 * (draw.unit() - 0.5))
    })
}

/// The largest relative error of θ at any checkpoint, in units of what each feature of this size brings;
/// there, A^-1 must be symmetric to the last bit and positive definite.
fn error_of_theta(
    every: u32,
    sizes: [f64; D],
    mut context: impl FnMut(&mut Draw) -> [f64; D],
) -> f64 {
    let config = LinUcbConfig {
        reinvert_every: every,
        ..LinUcbConfig::default()
    };
    let mut model = LinUcb::<f64, D, 1>::new(&config);
    let mut plain = PlainArm::new(D, 1.0);
    let mut draw = Draw::new(11);
    let weights = [0.5, -0.2, 0.9, 0.1, 0.7, -0.4];
    let mut worst = 0.0_f64;
    for t in 1..=UPDATES {
        let mut i = 0;
        let x = context(&mut draw).map(|x| {
            i += 1;
            x * sizes[i - 1]
        });
        let signal: f64 = x.iter().zip(weights).map(|(x, w)| x * w).sum();
        let reward = signal + draw.unit() - 0.5;
        model.update(0, &x, reward).unwrap();
        plain.update(&x, reward);
        // Mostly between two re-inversions: neither divides the other.
        if t % 9_973 == 0 || t == UPDATES || t < 100 {
            let brings = |theta: &[f64]| -> Vec<f64> {
                theta.iter().zip(sizes).map(|(t, s)| t * s).collect()
            };
            worst = worst.max(relative(&brings(model.theta(0)), &brings(&plain.theta())));
            let inverse = model.inverse(0);
            for i in 0..D {
                for j in 0..i {
                    assert_eq!(inverse[i][j].to_bits(), inverse[j][i].to_bits());
                }
            }
            assert!(positive_definite(&rows(inverse)), "after {t} updates");
        }
    }
    assert_eq!(model.refused(), 0);
    worst
}

#[test]
fn random_contexts() {
    let error = error_of_theta(256, [1.0; D], random);
    assert!(error < 1e-11, "{error:e}");
}

#[test]
fn nearly_collinear_contexts() {
    let error = error_of_theta(256, [1.0; D], nearly_collinear);
    assert!(error < 1e-6, "{error:e}");
}

#[test]
fn without_reinversion_errors_add_up() {
    // What re-inversion is for; if this fails, it is for nothing.
    let seldom = error_of_theta(65_536, [1.0; D], nearly_collinear);
    let often = error_of_theta(256, [1.0; D], nearly_collinear);
    assert!(seldom > 3.0 * often, "{seldom:e} against {often:e}");
}

#[test]
fn contexts_of_all_sizes() {
    // Features in raw units, 1e-3 to 1e6, so that single updates weigh 1e12 against the ridge.
    let sizes = [1e-3, 1.0, 1e2, 1e4, 1e6, 1e5];
    let error = error_of_theta(256, sizes, random);
    // The first samples leave A with a condition of 1e12, which no inversion gets around.
    assert!(error < 1e-5, "{error:e}");
}

#[test]
fn f32_does_not_drift_either() {
    let mut model = LinUcb::<f32, D, 1>::new(&LinUcbConfig::default());
    let mut plain = PlainArm::new(D, 1.0);
    let mut draw = Draw::new(12);
    let mut worst = [0.0_f64; 2];
    for t in 1..=UPDATES {
        let x = random(&mut draw).map(|x| x as f32);
        let reward = x[0] - 0.5 * x[3] + (draw.unit() - 0.5) as f32;
        model.update(0, &x, reward).unwrap();
        plain.update(&x.map(f64::from), f64::from(reward));
        if t == 1_000 || t == UPDATES {
            let theta = model.theta(0).map(f64::from);
            let inverse = model.inverse(0).map(|row| row.map(f64::from)).concat();
            let late = usize::from(t == UPDATES);
            worst[late] =
                relative(&theta, &plain.theta()).max(relative(&inverse, &plain.inverse().concat()));
        }
    }
    assert!(worst[0] < 1e-5 && worst[1] < 1e-5, "{worst:?}");
}

/// V of an arm by its definition: γ^(t-s) for the samples, and the regulariser as documented.
#[test]
fn the_discounted_model_is_what_it_says() {
    let gamma = 0.98_f64;
    let config = DiscountedLinUcbConfig {
        ridge: 0.7,
        discount: gamma,
        reinvert_every: 100,
    };
    let mut model = DiscountedLinUcb::<f64, D, 2>::new(&config);
    let mut draw = Draw::new(13);
    let mut history: Vec<(usize, [f64; D], f64)> = Vec::new();
    for t in 1..=2_500_usize {
        let arm = usize::from(draw.chance(0.3));
        let mut x = random(&mut draw);
        if t > 500 {
            // A feature that is not seen any more: only the regulariser holds it.
            x[2] = 0.0;
        }
        let reward = x[0] + draw.unit();
        model.update(arm, &x, reward).unwrap();
        history.push((arm, x, reward));
        if t % 97 != 0 && t > 10 {
            continue;
        }
        for arm in 0..2 {
            let mut v = PlainArm::new(D, 0.0);
            let mut w = PlainArm::new(D, 0.0);
            for i in 0..D {
                // Coordinate i had its turn at the latest step s with (s - 1) mod D = i.
                let age = (t + D - 1 - i) % D;
                v.a[i][i] = 0.7 * gamma.powi(age as i32);
                w.a[i][i] = 0.7 * gamma.powi(2 * age as i32);
            }
            for (s, (of, x, reward)) in history.iter().enumerate() {
                if *of == arm {
                    let weight = gamma.powi((t - 1 - s) as i32);
                    v.update(&x.map(|x| x * weight.sqrt()), reward * weight.sqrt());
                    w.update(&x.map(|x| x * weight), 0.0);
                }
            }
            let inverse = model.inverse(arm);
            assert!(positive_definite(&rows(inverse)), "after {t} updates");
            assert!(relative(&inverse.concat(), &v.inverse().concat()) < 1e-11);
            // Nothing to compare with before its first sample.
            if history.iter().any(|(of, ..)| *of == arm) {
                assert!(relative(model.theta(arm), &v.theta()) < 1e-11);
            }
            let x = [0.2, 0.4, 0.1, 0.9, 0.3, 0.5];
            let column: Vec<_> = x.iter().map(|&x| vec![x]).collect();
            let spread = eliminate(&v.a, &column).concat();
            let bonus: f64 = (0..D)
                .flat_map(|i| (0..D).map(move |j| (i, j)))
                .map(|(i, j)| spread[i] * w.a[i][j] * spread[j])
                .sum();
            let mean: f64 = v.theta().iter().zip(x).map(|(t, x)| t * x).sum();
            let expected = mean + 0.8 * bonus.sqrt();
            assert!((model.scores(0.8, &x)[arm] - expected).abs() < 1e-9);
        }
    }
}

#[test]
fn the_reference_inverts() {
    let a = vec![vec![0.0, 2.0], vec![1.0, 4.0]];
    assert_eq!(
        eliminate(&a, &identity(2)),
        [vec![-2.0, 1.0], vec![0.5, 0.0]]
    );
    assert!(!positive_definite(&[vec![1.0, 2.0], vec![2.0, 1.0]]));
}

/// Arithmetic on subnormal numbers can be a hundred times slower: none may stay, however long a
/// feature has not been seen.
#[test]
fn what_fades_becomes_zero() {
    fn count_subnormal(model: &impl std::fmt::Debug, smallest: f64) -> usize {
        let text = format!("{model:?}");
        let numbers = text.split(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
        numbers
            .filter_map(|number| number.parse::<f64>().ok())
            .filter(|number| *number != 0.0 && number.abs() < smallest)
            .count()
    }
    for discount in [0.5, 0.9, 0.99] {
        let config = DiscountedLinUcbConfig {
            discount,
            ..DiscountedLinUcbConfig::default()
        };
        let mut double = DiscountedLinUcb::<f64, D, 2>::new(&config);
        let mut single = DiscountedLinUcb::<f32, D, 2>::new(&config);
        let mut draw = Draw::new(14);
        for t in 0..100_000 {
            let mut x = random(&mut draw);
            if t > 100 {
                (x[1], x[4]) = (0.0, 0.0);
            }
            // Arm 1 is not chosen any more at all.
            let arm = usize::from(t < 50);
            double.update(arm, &x, x[0]).unwrap();
            single.update(arm, &x.map(|x| x as f32), 0.5).unwrap();
            if t % 499 == 0 {
                assert_eq!(count_subnormal(&double, f64::MIN_POSITIVE), 0);
                assert_eq!(count_subnormal(&single, f32::MIN_POSITIVE.into()), 0);
            }
        }
        assert_eq!((double.theta(0)[1], single.theta(1)[0]), (0.0, 0.0));
    }
    assert_eq!(count_subnormal(&[1e-310, 0.0, 1.0], f64::MIN_POSITIVE), 1);
}
