//! Points in a unit cube, evenly spread or random. The same seed gives the same points on every platform.

use mpquic_sim::content;

/// Pseudo-random numbers from the content generator. They use integer arithmetic up to the last
/// step, so that they are the same on every platform.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    seed: u64,
    next: u64,
}

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    pub(crate) fn word(&mut self) -> u64 {
        let word = content::word(self.seed, self.next);
        self.next += 1;
        word
    }

    /// A uniform number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A uniform number in 0..n, for n below 2^32. The bias is below 2^-32.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let product = u128::from(self.word()) * n as u128;
        (product >> 64) as usize
    }
}

/// How points are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Evenly spread: the selection of Wootton, Sergent and Phan-Tan-Luu among random candidates.
    Wsp,
    /// Independent and uniform.
    Uniform,
}

/// This many points in the unit cube with this many dimensions.
pub(crate) fn points(method: Method, count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f64>> {
    match method {
        Method::Uniform => uniform(count, dimensions, seed),
        Method::Wsp => wsp(count, dimensions, seed),
    }
}

fn uniform(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut draws = Draws::new(seed);
    let mut point = || (0..dimensions).map(|_| draws.unit()).collect();
    (0..count).map(|_| point()).collect()
}

/// Candidates per point: enough for even gaps between the selected ones.
const CANDIDATES: usize = 20;

/// Bisects the smallest distance until about `count` candidates survive, and keeps the first
/// `count`.
fn wsp(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f64>> {
    let candidates = uniform(count * CANDIDATES, dimensions, seed);
    let (mut low, mut high) = (0.0, dimensions as f64);
    let mut best = survivors(&candidates, low);
    // 30 halvings of a squared distance of at most `dimensions` are finer than the distances
    // between candidates.
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        let chosen = survivors(&candidates, middle);
        if chosen.len() >= count {
            low = middle;
            best = chosen;
        } else {
            high = middle;
        }
    }
    best.truncate(count);
    best.into_iter().map(|at| candidates[at].clone()).collect()
}

/// Starts at the candidate nearest to the middle, drops all others within the distance, and
/// continues at the nearest one that is left.
fn survivors(candidates: &[Vec<f64>], squared_distance: f64) -> Vec<usize> {
    let between =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum() };
    let nearest = |left: &[usize], to: &[f64]| -> Option<usize> {
        let distances = left.iter().map(|&at| (between(&candidates[at], to), at));
        distances
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map(|(_, at)| at)
    };
    let mut left: Vec<_> = (0..candidates.len()).collect();
    let middle = vec![0.5; candidates.first().map_or(0, Vec::len)];
    let mut chosen = Vec::new();
    let mut at = nearest(&left, &middle);
    while let Some(seed) = at {
        chosen.push(seed);
        left.retain(|&other| {
            other != seed && between(&candidates[other], &candidates[seed]) >= squared_distance
        });
        at = nearest(&left, &candidates[seed]);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smallest_distance(points: &[Vec<f64>]) -> f64 {
        let mut smallest = f64::INFINITY;
        for (at, a) in points.iter().enumerate() {
            for b in &points[..at] {
                let squared: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                smallest = smallest.min(squared.sqrt());
            }
        }
        smallest
    }

    #[test]
    fn points_lie_in_the_cube_and_are_those_of_the_seed() {
        for method in [Method::Wsp, Method::Uniform] {
            let drawn = points(method, 40, 3, 7);
            assert_eq!(drawn.len(), 40);
            assert!(drawn.iter().flatten().all(|x| (0.0..1.0).contains(x)));
            assert_eq!(drawn, points(method, 40, 3, 7));
            assert_ne!(drawn, points(method, 40, 3, 8));
        }
    }

    #[test]
    fn wsp_spreads_points_further_apart_than_chance() {
        let spread = smallest_distance(&points(Method::Wsp, 100, 4, 1));
        let chance = smallest_distance(&points(Method::Uniform, 100, 4, 1));
        assert!(spread > 2.0 * chance, "{spread} against {chance}");
    }

    #[test]
    fn draws_below_are_even() {
        let mut draws = Draws::new(3);
        let mut counts = [0_u32; 5];
        for _ in 0..10_000 {
            counts[draws.below(5)] += 1;
        }
        // Each is binomial with mean 2000 and standard deviation 40.
        assert!(
            counts.iter().all(|count| (1800..2200).contains(count)),
            "{counts:?}"
        );
        assert!((0..100).all(|_| draws.below(1) == 0));
    }
}
