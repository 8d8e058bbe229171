//! The rewards of one arm with their contexts, and the nearest of these contexts.

#[cfg(feature = "serde")]
mod snapshot;
mod whitening;

use core::hint::black_box;

use crate::Draw;
use crate::vectors::{Work, widest};
use whitening::Whitening;

/// Contexts are compared so many at a time.
const LANES: usize = 8;

/// What this much is added to each variance, squared units of the features: a feature that never
/// changed would have none.
const VARIANCE_ADDED: f64 = 1e-6;

/// Up to `N` samples (context of `D` features, reward) of one arm. They are first collected, then
/// frozen, then queried for the reward of the nearest one.
///
/// **Formula.** Nearest in Mahalanobis distance under the covariance of the samples themselves,
/// `d(x, y)² = (x - y)' (C + 10⁻⁶ I)⁻¹ (x - y)` with `C` the mean of `(x - m)(x - m)'`. Freezing
/// factors `C + 10⁻⁶ I = L L'` (Cholesky) and replaces each context by `z = L⁻¹ (x - m)`, after which
/// the distance is the Euclidean one. Among equally near samples the choice is deterministic.
///
/// **Source.** Wu et al.: *Peekaboo*, IEEE JSAC 2020, section III-B: the reward that
/// the other action would have had is looked up in its history.
///
/// **Which samples are kept.** All up to `N`. Of more, each is kept with the same probability
/// (reservoir sampling, Vitter's algorithm R). The seed decides, so the same samples in give the same
/// samples kept.
///
/// **Precision.** Samples are kept as `f32`; mean, covariance, factor and the query's transformation
/// are `f64`. `|z|²/2 - q'z` is compared rather than the distance, so that a query that is far
/// off in a feature that hardly varied does not hide the differences in the others.
///
/// **Degenerate covariances** (fewer samples than features, constant features, features that depend
/// on each other) are safe: a pivot lost to rounding counts as 10⁻⁶.
///
/// **Cost.** A query: `D²` flops for the transformation and `2·N·D` for the scan, measured in the
/// bench `decision`. Freezing: about `N·D²` flops, once. A sample: O(D), and a draw once full.
/// `4·N·(D + 2) + 8·D·(D + 1)` bytes of state and some 40 more; no allocation.
///
/// **Before it is frozen**, and if it is empty, [`nearest`](Self::nearest) is `None`.
///
/// ```
/// use mpquic_bandit::History;
///
/// let mut history = History::<2, 64>::new(7);
/// // The first feature varies ten times as much as the second.
/// for (context, reward) in [
///     ([0.0, 0.0], 1.0),
///     ([10.0, 0.0], 2.0),
///     ([0.0, 1.0], 3.0),
///     ([10.0, 1.0], 4.0),
/// ] {
///     history.push(&context, reward);
/// }
/// assert_eq!(history.nearest(&[4.0, 0.9]), None);
/// history.freeze();
/// // By Euclid the first one is nearer than the third to none of these; by Mahalanobis:
/// assert_eq!(history.nearest(&[4.0, 0.9]), Some(3.0));
/// assert_eq!(history.nearest(&[4.0, 0.1]), Some(1.0));
/// assert_eq!(history.nearest(&[6.0, 0.1]), Some(2.0));
/// ```
#[derive(Debug, Clone)]
pub struct History<const D: usize, const N: usize> {
    /// By feature; as they came, or whitened once frozen.
    columns: [[f32; N]; D],
    /// `|z|²/2` once frozen; infinite where there is no sample, which no query is near to.
    half_squares: [f32; N],
    rewards: [f32; N],
    len: usize,
    seen: u64,
    refused: u64,
    draw: Draw,
    whitening: Option<Whitening<D>>,
}

impl<const D: usize, const N: usize> History<D, N> {
    /// An empty history; `seed` decides which samples are kept if there are more than `N`.
    pub const fn new(seed: u64) -> Self {
        const {
            assert!(D > 0, "a context has features");
            assert!(N > 0 && N.is_multiple_of(LANES), "a multiple of 8 samples");
        }
        Self {
            columns: [[0.0; N]; D],
            half_squares: [f32::INFINITY; N],
            rewards: [0.0; N],
            len: 0,
            seen: 0,
            refused: 0,
            draw: Draw::new(seed),
            whitening: None,
        }
    }

    /// Adds a sample. A sample with a number that is not finite or beyond `f32` is counted as refused.
    /// After freezing, samples are ignored.
    pub fn push(&mut self, context: &[f64; D], reward: f64) {
        if self.is_frozen() {
            return;
        }
        let finite = |x: &f64| (*x as f32).is_finite();
        if !context.iter().all(finite) || !finite(&reward) {
            self.refused += 1;
            return;
        }
        self.seen += 1;
        let place = if self.len < N {
            self.len += 1;
            self.len - 1
        } else {
            // The n-th sample takes the place of one of them with probability N/n.
            let place = (self.draw.unit() * self.seen as f64) as u64;
            match usize::try_from(place) {
                Ok(place) if place < N => place,
                _ => return,
            }
        };
        for (column, x) in self.columns.iter_mut().zip(context) {
            column[place] = *x as f32;
        }
        self.rewards[place] = reward as f32;
    }

    /// Ends the collection: from now on it can be queried, and takes no more samples.
    pub fn freeze(&mut self) {
        if self.is_frozen() {
            return;
        }
        let whitening = Whitening::of(&self.columns, self.len);
        for place in 0..self.len {
            let z = whitening.apply(&core::array::from_fn(|d| f64::from(self.columns[d][place])));
            let mut half = 0.0;
            for (column, z) in self.columns.iter_mut().zip(z) {
                column[place] = z as f32;
                half += 0.5 * z * z;
            }
            self.half_squares[place] = half as f32;
        }
        self.whitening = Some(whitening);
    }

    /// The reward of the sample whose context is nearest to this one; `None` before it is frozen, if
    /// it is empty, and for a context that is not finite.
    #[inline]
    pub fn nearest(&self, context: &[f64; D]) -> Option<f64> {
        let whitening = self.whitening.as_ref()?;
        // By 0, what is finite gives 0, and anything else no number.
        let products = context.iter().map(|x| 0.0 * x);
        if self.len == 0 || products.sum::<f64>() != 0.0 {
            return None;
        }
        let place = widest::<Nearest, _, _, _>(self, whitening, context);
        Some(f64::from(self.rewards[place]))
    }

    #[inline(always)]
    fn nearest_place(&self, whitening: &Whitening<D>, context: &[f64; D]) -> usize {
        // Samples are within √(N·D) of the mean: no product with a query below this overflows.
        let query = whitening.apply(context);
        let query = query.map(|z| z.clamp(-1e30, 1e30) as f32);
        let count = self.len.div_ceil(LANES);
        let half_squares = blocks(&self.half_squares, count);
        let columns = self.columns.each_ref();
        let columns = columns.map(|column| blocks(column, count));
        let mut least = [f32::INFINITY; LANES];
        // Counted for each lane, in numbers that the compiler leaves so: not as one that is made a vector each time.
        let (mut present, mut block_of) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for block in 0..count {
            let mut score = half_squares[block];
            for (column, q) in columns.iter().zip(&query) {
                for lane in 0..LANES {
                    score[lane] -= q * column[block][lane];
                }
            }
            for lane in 0..LANES {
                let less = score[lane] < least[lane];
                least[lane] = if less { score[lane] } else { least[lane] };
                block_of[lane] = if less { present[lane] } else { block_of[lane] };
                present[lane] += 1.0;
            }
        }
        // Written down: whole vectors, instead of the parts that the search below takes them apart into.
        let (least, block_of) = black_box((least, block_of));
        let less = |least: f32, score: &f32| if *score < least { *score } else { least };
        let nearest = least.iter().fold(f32::INFINITY, less);
        let lane = least.iter().position(|score| *score == nearest);
        let lane = lane.unwrap_or(0);
        block_of[lane] as usize * LANES + lane
    }

    /// How many samples are kept.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many samples came, kept or not, refused ones excluded.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// How many were refused for a number that is not finite.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether the collection has ended.
    pub const fn is_frozen(&self) -> bool {
        self.whitening.is_some()
    }

    /// Empties it for a new collection. The stream of random numbers continues.
    pub fn clear(&mut self) {
        (self.len, self.seen) = (0, 0);
        self.half_squares = [f32::INFINITY; N];
        self.whitening = None;
    }
}

/// The first blocks of a column.
#[inline(always)]
fn blocks<const N: usize>(column: &[f32; N], count: usize) -> &[[f32; LANES]] {
    &column.as_chunks::<LANES>().0[..count]
}

/// [`History::nearest_place`].
struct Nearest;

impl<const D: usize, const N: usize> Work<&History<D, N>, &Whitening<D>, &[f64; D]> for Nearest {
    type Output = usize;

    #[inline(always)]
    fn run(history: &History<D, N>, whitening: &Whitening<D>, context: &[f64; D]) -> usize {
        history.nearest_place(whitening, context)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The inverse of `C + 10⁻⁶ I`, by Gauss and Jordan with pivots.
    fn inverse<const D: usize>(mut m: [[f64; D]; D]) -> [[f64; D]; D] {
        let mut inverse = [[0.0; D]; D];
        for (d, row) in inverse.iter_mut().enumerate() {
            row[d] = 1.0;
        }
        for d in 0..D {
            let pivot = (d..D)
                .max_by(|a, b| m[*a][d].abs().total_cmp(&m[*b][d].abs()))
                .unwrap();
            m.swap(d, pivot);
            inverse.swap(d, pivot);
            let by = m[d][d];
            for k in 0..D {
                m[d][k] /= by;
                inverse[d][k] /= by;
            }
            for row in (0..D).filter(|row| *row != d) {
                let by = m[row][d];
                for k in 0..D {
                    m[row][k] -= by * m[d][k];
                    inverse[row][k] -= by * inverse[d][k];
                }
            }
        }
        inverse
    }

    /// Squared distances from `query`, by the definition.
    fn distances<const D: usize>(samples: &[[f64; D]], query: &[f64; D]) -> Vec<f64> {
        let n = samples.len() as f64;
        let mean: [f64; D] =
            core::array::from_fn(|d| samples.iter().map(|x| x[d]).sum::<f64>() / n);
        let mut covariance = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..D {
                let products = samples.iter().map(|x| (x[i] - mean[i]) * (x[j] - mean[j]));
                covariance[i][j] = products.sum::<f64>() / n;
            }
            covariance[i][i] += 1e-6;
        }
        let inverse = inverse(covariance);
        let distance = |x: &[f64; D]| {
            let mut sum = 0.0;
            for i in 0..D {
                for j in 0..D {
                    sum += (x[i] - query[i]) * inverse[i][j] * (x[j] - query[j]);
                }
            }
            sum
        };
        samples.iter().map(distance).collect()
    }

    /// Contexts like those of a scheduler: most vary, some hardly or never do, one follows another.
    fn contexts() -> impl Strategy<Value = Vec<[f64; 6]>> {
        let scales = [10.0, 1.0, 0.1, 5.0, 1e-3, 0.0];
        let dependent = any::<bool>();
        let one = vec(-1.0..1.0_f64, 6);
        (vec(one, 1..100), dependent).prop_map(move |(contexts, dependent)| {
            let context = |x: Vec<f64>| {
                let mut x: [f64; 6] =
                    core::array::from_fn(|d| f64::from((3.0 + scales[d] * x[d]) as f32));
                if dependent {
                    x[3] = f64::from((2.0 * x[0]) as f32);
                }
                x
            };
            contexts.into_iter().map(context).collect()
        })
    }

    proptest! {
        #[test]
        fn the_nearest_is_the_nearest_by_definition(
            samples in contexts(),
            queries in vec(vec(-12.0..18.0_f64, 6), 1..8),
        ) {
            let mut history = History::<6, 104>::new(1);
            for (n, context) in samples.iter().enumerate() {
                history.push(context, n as f64);
            }
            history.freeze();
            let own = samples.iter().copied();
            let others = queries.into_iter().map(|x| core::array::from_fn(|d| x[d]));
            for query in own.chain(others) {
                let place = history.nearest(&query).unwrap() as usize;
                let distances = distances(&samples, &query);
                let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
                // Samples in one place are as good as each other; what is rounded away is a share
                // of the terms that were compared, not of their difference.
                let rounding = 1e-5 * distances[place].sqrt().max(1.0) * 30.0;
                prop_assert!(
                    distances[place] <= least + rounding,
                    "{} {} {}", distances[place], least, place
                );
            }
        }
    }

    #[test]
    fn a_far_query_still_tells_the_samples_apart() {
        // The last feature never varied: a query off by 100 there is at a distance of 100,000.
        let mut history = History::<2, 8>::new(1);
        for n in 0..8 {
            history.push(&[f64::from(n), 5.0], f64::from(n));
        }
        history.freeze();
        for n in 0..8 {
            assert_eq!(
                history.nearest(&[f64::from(n) + 0.2, 105.0]),
                Some(f64::from(n))
            );
        }
        assert!(history.nearest(&[f64::MAX, -f64::MAX]).is_some());
        assert_eq!(history.nearest(&[f64::NAN, 5.0]), None);
        assert_eq!(history.nearest(&[f64::INFINITY, 5.0]), None);
    }

    #[test]
    fn a_reservoir_keeps_all_alike_and_the_same_for_the_same_seed() {
        let kept = |seed: u64| {
            let mut history = History::<1, 16>::new(seed);
            for n in 0..64 {
                history.push(&[0.0], f64::from(n));
            }
            assert_eq!((history.len(), history.seen()), (16, 64));
            history.rewards
        };
        assert_eq!(kept(3), kept(3));
        let mut counts = [0_u32; 64];
        for seed in 0..4000 {
            // Neighbouring seeds of SplitMix64 are streams of their own.
            kept(seed).iter().for_each(|n| counts[*n as usize] += 1);
        }
        // Each with probability 1/4; six standard deviations are 6 · √(4000 · 3/16) = 164.
        for (n, count) in counts.iter().enumerate() {
            assert!(count.abs_diff(1000) < 164, "{n}: {count}");
        }
    }

    #[test]
    fn what_is_not_finite_is_refused_and_a_frozen_one_takes_nothing() {
        let mut history = History::<1, 8>::new(0);
        history.freeze();
        assert_eq!(history.nearest(&[0.0]), None);
        history.clear();
        for (x, reward) in [(f64::NAN, 0.0), (0.0, f64::INFINITY), (1e39, 0.0)] {
            history.push(&[x], reward);
        }
        assert_eq!((history.len(), history.refused()), (0, 3));
        history.push(&[1.0], 4.0);
        assert!(!history.is_empty() && !history.is_frozen());
        history.freeze();
        history.push(&[2.0], 5.0);
        assert_eq!((history.len(), history.seen()), (1, 1));
        assert_eq!(history.nearest(&[2.0]), Some(4.0));
        history.clear();
        assert!(history.is_empty());
        history.push(&[2.0], 5.0);
        history.freeze();
        assert_eq!(history.nearest(&[2.0]), Some(5.0));
    }
}
