//! How regret grows with time and with the number of features, where nothing changes.

use super::world::{Blind, Frozen, Policy, SEEDS, Thompson, Ucb, World};

/// Equally far apart on a logarithmic scale, 1e3 to 3e4.
const MARKS: [usize; 6] = [1_000, 1_974, 3_897, 7_692, 15_185, 30_000];

/// Mean regret over the seeds up to each mark.
fn regret<const D: usize, P: Policy<D>>(policy: impl Fn(u64) -> P) -> [f64; MARKS.len()] {
    let mut mean = [0.0; MARKS.len()];
    for seed in 0..SEEDS {
        let mut world = World::<D>::new(seed);
        let mut policy = policy(seed);
        let (mut total, mut done) = (0.0, 0);
        for (mean, mark) in mean.iter_mut().zip(MARKS) {
            while done < mark {
                total += world.step(&mut policy);
                done += 1;
            }
            *mean += total / SEEDS as f64;
        }
    }
    mean
}

/// The exponent of t that fits best: least squares of log regret on log t.
fn exponent(regret: &[f64; MARKS.len()]) -> f64 {
    let n = MARKS.len() as f64;
    let (mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0);
    for (mark, regret) in MARKS.iter().zip(regret) {
        let (x, y) = ((*mark as f64).ln(), regret.ln());
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    (n * sxy - sx * sy) / (n * sxx - sx * sx)
}

/// What the theory promises is √t up to logarithms: an exponent of 0.5, and room for these.
fn sublinear(name: &str, regret: &[f64; MARKS.len()]) {
    let exponent = exponent(regret);
    assert!(exponent < 0.75, "{name}: t^{exponent}, {regret:?}");
}

#[test]
fn grows_like_the_root_of_time_and_with_dimension() {
    let blind = regret::<4, _>(|_| Blind::new());
    let frozen = regret::<4, _>(|_| Frozen::new());
    assert!(exponent(&blind) > 0.95 && exponent(&frozen) > 0.95);
    let end = MARKS.len() - 1;
    let linear = blind[end].min(frozen[end]);

    let ucb = [
        regret::<4, _>(|_| Ucb::new()),
        regret::<12, _>(|_| Ucb::new()),
    ];
    let thompson = [
        regret::<4, _>(Thompson::new),
        regret::<12, _>(Thompson::new),
    ];
    for (name, [four, twelve]) in [("ucb", ucb), ("thompson", thompson)] {
        sublinear(name, &four);
        sublinear(name, &twelve);
        assert!(four[end] < linear / 10.0, "{name}: {four:?}");
        // The bounds are D √t (LinUCB as analysed) and D^1.5 √t (Thompson): three times as many
        // features may cost up to 3^1.5 = 5.2 times the regret, and cannot be free.
        let ratio = twelve[end] / four[end];
        assert!((1.3..5.2).contains(&ratio), "{name}: {ratio}");
    }
}
