//! What forgetting is for: worlds whose weights turn over now and then.

use super::world::{Discounted, Policy, SEEDS, Ucb, World};

const D: usize = 4;
const SEGMENT: usize = 2_500;
const SEGMENTS: usize = 8;

/// Mean regret over the seeds in each segment: in its first fifth, and in the rest.
fn regret<P: Policy<D>>(policy: impl Fn() -> P) -> [[f64; 2]; SEGMENTS] {
    let mut mean = [[0.0; 2]; SEGMENTS];
    for seed in 0..SEEDS {
        let mut world = World::<D>::new(seed);
        let mut policy = policy();
        for segment in &mut mean {
            for step in 0..SEGMENT {
                let part = usize::from(step >= SEGMENT / 5);
                segment[part] += world.step(&mut policy) / SEEDS as f64;
            }
            world.turn();
        }
    }
    mean
}

#[test]
fn the_discounted_one_follows() {
    // 1/(1 - γ) = 200 updates, 12 times in a segment.
    let discounted = regret(|| Discounted::new(0.995));
    let plain = regret(Ucb::new);
    let sum = |regret: &[[f64; 2]]| regret.iter().flatten().sum::<f64>();

    // Where nothing has changed yet, not forgetting is better.
    assert!(sum(&plain[..1]) < sum(&discounted[..1]));
    // After that the plain one falls behind, further with each switch.
    assert!(sum(&discounted[1..]) < 0.5 * sum(&plain[1..]));

    // A switch costs the discounted one the same however many there were before, and it has settled
    // long before the next one: per step it misses a third or less of what it misses at first.
    let per_switch: Vec<_> = discounted[1..].iter().map(|[a, b]| a + b).collect();
    let least = per_switch.iter().copied().fold(f64::MAX, f64::min);
    let most = per_switch.iter().copied().fold(0.0, f64::max);
    assert!(most < 1.3 * least, "{per_switch:?}");
    for [first, rest] in &discounted[1..] {
        assert!(rest / 4.0 < first / 3.0, "{discounted:?}");
    }
}
