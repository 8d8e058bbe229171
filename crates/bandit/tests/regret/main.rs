//! Regret: that it grows as theory has it, where theory says; speed is measured elsewhere.
//!
//! All seeds are fixed, so that every run gives the same figures. The checks that tell a policy
//! that learns from one that does not are turned on both kinds.

mod worlds;

use mpquic_bandit::{DiscountedUcb, Draw, SlidingWindowUcb, Ucb1};

use worlds::{Noise, Uniform, World, mean_regret};

const SEEDS: u64 = 100;

/// Each is twice the one before, so that a regret of a + b ln t has equal steps between them.
const DOUBLINGS: [u64; 6] = [1000, 2000, 4000, 8000, 16_000, 32_000];

/// By how much faster the regret grows at the end than at the beginning: the steps of the last two
/// doublings over those of the first two. 1 for a logarithm, 2.8 for a root, 8 for a straight line.
fn growth(regret: &[f64]) -> f64 {
    (regret[5] - regret[3]) / (regret[2] - regret[0])
}

/// The ceiling of Lattimore and Szepesvari, *Bandit Algorithms*, theorem 8.1, for rewards that are
/// sigma-subgaussian, with the best epsilon of a hundred.
fn ceiling(world: &World, sigma: f64, n: u64) -> f64 {
    let ln = (n as f64).ln();
    let ln_f = (1.0 + n as f64 * ln * ln).ln();
    world.over_gaps(|gap| {
        let gap = gap / sigma;
        let bound = |epsilon: f64| {
            let slack = 2.0 * (ln_f + (std::f64::consts::PI * ln_f).sqrt() + 1.0);
            1.0 + 5.0 / epsilon.powi(2) + slack / (gap - epsilon).powi(2)
        };
        let bounds = (1..100).map(|part| bound(gap * f64::from(part) / 100.0));
        sigma * gap * bounds.fold(f64::INFINITY, f64::min)
    })
}

/// The worlds that stay, and how their rewards scatter.
fn stationary() -> [(World, f64); 3] {
    [
        (World::new([0.3, 0.6, 0.4, 0.5], Noise::Bernoulli), 0.5),
        (World::new([0.9, 0.7, 0.8, 0.6], Noise::Bernoulli), 0.5),
        (World::new([-1.0, 0.0, 2.0, 1.0], Noise::Gaussian(2.0)), 2.0),
    ]
}

#[test]
fn ucb1_regret_is_logarithmic_and_below_the_ceiling() {
    for (world, sigma) in stationary() {
        let regret = mean_regret(&world, |_| Ucb1::new(sigma), &DOUBLINGS, SEEDS);
        println!("{world:?}: {regret:.1?}, growth {:.2}", growth(&regret));
        for (n, regret) in DOUBLINGS.iter().zip(&regret) {
            assert!(*regret < ceiling(&world, sigma, *n), "{world:?} {n}");
        }
        assert!(growth(&regret) < 1.5, "{world:?}: {regret:?}");
        // What nobody can beat who is good in all worlds of such noise (Lai and Robbins 1985) is sum of 2
        // sigma^2 / gap times ln t: by less than half of it between the first and the last.
        let least = world.over_gaps(|gap| 2.0 * sigma * sigma / gap) * 32_f64.ln();
        let step = regret[5] - regret[0];
        assert!(step > least / 2.0, "{world:?}: {step} {least}");

        // Those that do not explore, or do not learn, grow with t.
        let greedy = mean_regret(&world, |_| Ucb1::new(0.0), &DOUBLINGS, SEEDS);
        let uniform = mean_regret(&world, |seed| Uniform(Draw::new(seed)), &DOUBLINGS, 10);
        for regret in [greedy, uniform] {
            assert!(growth(&regret) > 4.0, "{world:?}: {regret:?}");
        }
    }
}

/// A world that changes so many times in the time that there is: the best arm becomes the worst, and
/// the best again.
fn switching(horizon: u64, breakpoints: u64) -> World {
    let mut world = World::new([0.5, 0.9, 0.3, 0.4], Noise::Bernoulli);
    let turn = horizon / (breakpoints + 1);
    world.other = Some(([0.5, 0.1, 0.3, 0.4], turn));
    world
}

/// Garivier and Moulines' choice, for rewards in [0, 1].
fn discounted(horizon: u64, breakpoints: u64) -> DiscountedUcb<{ worlds::K }> {
    let per_step = breakpoints as f64 / horizon as f64;
    DiscountedUcb::new(0.5, 1.0 - per_step.sqrt() / 4.0)
}

/// Theirs of a window.
fn windowed(horizon: u64, breakpoints: u64) -> SlidingWindowUcb<{ worlds::K }, 4096> {
    let horizon = horizon as f64;
    let window = 2.0 * (horizon * horizon.ln() / breakpoints as f64).sqrt();
    SlidingWindowUcb::new(0.5, window as usize)
}

#[test]
fn those_that_forget_do_better_where_the_world_changes() {
    let (horizon, breakpoints) = (20_000, 9);
    let world = switching(horizon, breakpoints);
    let plain = mean_regret(&world, |_| Ucb1::new(0.5), &[horizon], 20)[0];
    let discount = mean_regret(&world, |_| discounted(horizon, breakpoints), &[horizon], 20)[0];
    let window = mean_regret(&world, |_| windowed(horizon, breakpoints), &[horizon], 20)[0];
    println!("plain {plain:.0}, discounted {discount:.0}, window {window:.0}");
    assert!(discount < plain / 2.0 && window < plain / 2.0);

    // And worse where it does not: forgetting has its price.
    let world = World {
        other: None,
        ..world
    };
    let plain = mean_regret(&world, |_| Ucb1::new(0.5), &[horizon], 20)[0];
    let discount = mean_regret(&world, |_| discounted(horizon, breakpoints), &[horizon], 20)[0];
    let window = mean_regret(&world, |_| windowed(horizon, breakpoints), &[horizon], 20)[0];
    println!("plain {plain:.0}, discounted {discount:.0}, window {window:.0}");
    assert!(discount > 2.0 * plain && window > 2.0 * plain);
}

/// With a number of changes that does not depend on the horizon, and the parameter that goes with
/// both, the regret is of order sqrt(T), give or take logarithms: four times the time, twice the
/// regret.
#[test]
fn tuned_for_the_horizon_the_regret_grows_as_its_root() {
    let breakpoints = 3;
    let horizons = [5_000, 20_000, 80_000];
    let of = |play: &dyn Fn(&World, u64) -> f64| {
        horizons.map(|horizon| play(&switching(horizon, breakpoints), horizon))
    };
    let discount = of(&|world, horizon| {
        mean_regret(world, |_| discounted(horizon, breakpoints), &[horizon], 20)[0]
    });
    let window = of(&|world, horizon| {
        mean_regret(world, |_| windowed(horizon, breakpoints), &[horizon], 20)[0]
    });
    for regret in [discount, window] {
        println!("{regret:.0?}");
        for pair in regret.windows(2) {
            let ratio = pair[1] / pair[0];
            assert!((1.4..3.0).contains(&ratio), "{regret:?}");
        }
    }
    let uniform =
        of(&|world, horizon| mean_regret(world, |seed| Uniform(Draw::new(seed)), &[horizon], 5)[0]);
    assert!(uniform[1] / uniform[0] > 3.5, "{uniform:?}");
}

/// Joulani et al.: what a delay costs does not grow with time; it is at most the choices
/// that were outstanding at a time, made for the wrong arms.
#[test]
fn a_delay_costs_a_constant() {
    for (mut world, sigma) in stationary() {
        let prompt = mean_regret(&world, |_| Ucb1::new(sigma), &DOUBLINGS, SEEDS);
        let mut last = 0.0;
        for delay in [10, 100] {
            world.delay = delay;
            let late = mean_regret(&world, |_| Ucb1::new(sigma), &DOUBLINGS, SEEDS);
            println!("{delay}: {late:.1?} {prompt:.1?}");
            let most = world.over_gaps(|gap| gap) * delay as f64;
            let cost = late[5] - prompt[5];
            // Chance is in both, a few per cent.
            assert!(cost < most + 0.1 * prompt[5], "{world:?}: {cost} {most}");
            assert!(late[5] > last, "a delay costs something");
            assert!(growth(&late) < 1.5, "{world:?}: {late:?}");
            last = late[5];
        }
        assert!(last > prompt[5], "{world:?}");
    }
}
