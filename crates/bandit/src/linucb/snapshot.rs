//! What linear models are written down as, and the checks on what is read back.
//!
//! Symmetric matrices are written as their lower triangles, row by row: what is read is symmetric by
//! form. Nothing is allocated, in either direction.

use core::fmt;

use num_traits::Float;
use serde::de::{DeserializeOwned, Error, Expected, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::LinUcb;
use super::config::{DiscountedLinUcbConfig, check_reinvert_every};
use super::discounted::{DiscountedLinUcb, Fading};
use super::inversion;
use super::real::Real;
use super::regression::{Regression, kept};

/// `LinUcb` as it is read, before it is checked.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    rename = "LinUcb",
    bound = "T: Real + DeserializeOwned"
)]
pub(super) struct Read<T, const D: usize, const K: usize> {
    #[serde(with = "array")]
    arms: [Regression<T, D>; K],
    reinvert_every: u32,
    refused: u64,
}

/// `DiscountedLinUcb` as it is read, before it is checked.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    rename = "DiscountedLinUcb",
    bound = "T: Real + DeserializeOwned"
)]
pub(super) struct ReadDiscounted<T, const D: usize, const K: usize> {
    #[serde(with = "array")]
    arms: [Fading<T, D>; K],
    config: DiscountedLinUcbConfig,
    turn: usize,
    refused: u64,
}

impl<T: Real, const D: usize, const K: usize> TryFrom<Read<T, D, K>> for LinUcb<T, D, K> {
    type Error = Broken;

    fn try_from(read: Read<T, D, K>) -> Result<Self, Broken> {
        let Read {
            arms,
            reinvert_every,
            refused,
        } = read;
        check_reinvert_every(reinvert_every).map_err(|_| Broken::whole("reinvert_every"))?;
        for (arm, regression) in arms.iter().enumerate() {
            check(regression, reinvert_every).map_err(|what| Broken::arm(arm, what))?;
        }
        Ok(Self {
            arms,
            reinvert_every,
            refused,
        })
    }
}

impl<T: Real, const D: usize, const K: usize> TryFrom<ReadDiscounted<T, D, K>>
    for DiscountedLinUcb<T, D, K>
{
    type Error = Broken;

    fn try_from(read: ReadDiscounted<T, D, K>) -> Result<Self, Broken> {
        let ReadDiscounted {
            arms,
            config,
            turn,
            refused,
        } = read;
        config.check().map_err(|wrong| Broken::whole(wrong.field))?;
        if turn >= D {
            return Err(Broken::whole("turn"));
        }
        for (arm, fading) in arms.iter().enumerate() {
            check(&fading.regression, config.reinvert_every)
                .map_err(|what| Broken::arm(arm, what))?;
            let squares = fading.squares.map(|row| row.map(Real::wide));
            if inversion::inverse(&squares).is_none() {
                return Err(Broken::arm(arm, "squares are not positive definite"));
            }
        }
        Ok(Self::from_parts(arms, config, turn, refused))
    }
}

/// What is wrong with a model that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    arm: Option<usize>,
    what: &'static str,
}

impl Broken {
    fn whole(what: &'static str) -> Self {
        Self { arm: None, what }
    }

    fn arm(arm: usize, what: &'static str) -> Self {
        Self {
            arm: Some(arm),
            what,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arm {
            Some(arm) => write!(f, "not a linear model: arm {arm}: {}", self.what),
            None => write!(f, "not a linear model: `{}` is out of range", self.what),
        }
    }
}

/// Whether it can have come from updates.
///
/// A must be positive definite, all of it finite and small enough to go on with. A^-1 and θ must be
/// those of A and b up to what updates since the last re-inversion may have rounded. That rounding
/// is a share of sqrt((A^-1)_jj (A^-1)_kk) in an element of A^-1, which bounds the residuals of
/// A A^-1 - I and A θ - b; the share allowed is the square root of the rounding unit.
fn check<T: Real, const D: usize>(
    model: &Regression<T, D>,
    every: u32,
) -> Result<(), &'static str> {
    let Regression {
        gram,
        moments,
        inverse,
        theta,
        since,
    } = model;
    if *since >= every {
        return Err("the last re-inversion was too long ago");
    }
    if inversion::inverse(gram).is_none() {
        return Err("A is not positive definite");
    }
    let limit = T::LIMIT.wide() * T::LIMIT.wide() * (1_u64 << 40) as f64;
    if (0..D).any(|i| gram[i][i] > limit) {
        return Err("A is too large");
    }
    if !moments.iter().all(|b| b.abs() <= limit) {
        return Err("b is not finite or too large");
    }
    let theta = theta.map(Real::wide);
    let inverse = inverse.map(|row| row.map(Real::wide));
    let finite = |values: &[f64; D]| values.iter().all(|value| value.is_finite());
    if !finite(&theta) || !inverse.iter().all(finite) {
        return Err("A^-1 or theta is not finite");
    }
    if (0..D).any(|i| inverse[i][i] <= 0.0) {
        return Err("A^-1 is not positive definite");
    }
    let share = Float::sqrt(T::epsilon().wide());
    let row =
        |i: usize, x: &[f64; D]| -> f64 { (0..D).map(|k| gram[i.max(k)][i.min(k)] * x[k]).sum() };
    let root = |i: usize| Float::sqrt(gram[i][i]);
    let spread = |i: usize| Float::sqrt(inverse[i][i]);
    let condition: f64 = (0..D).map(|k| root(k) * spread(k)).sum();
    for i in 0..D {
        for j in 0..D {
            let unit = if i == j { 1.0 } else { 0.0 };
            let rounding = share * root(i) * spread(j) * condition;
            if (row(i, &inverse[j]) - unit).abs() > rounding {
                return Err("A^-1 is not the inverse of A");
            }
        }
    }
    for i in 0..D {
        // Rewards may have cancelled out: those of a size of 1 count even if nothing is left of them.
        let size: f64 = (0..D).map(|k| root(k) * (theta[k].abs() + spread(k))).sum();
        if (row(i, &theta) - moments[i]).abs() > share * (root(i) * size + moments[i].abs()) {
            return Err("theta is not A^-1 b");
        }
    }
    Ok(())
}

/// Arrays of any length, which serde itself knows only up to 32.
pub(crate) mod array {
    use super::*;

    pub(crate) fn serialize<V: Serialize, S: Serializer, const N: usize>(
        values: &[V; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values)
    }

    pub(crate) fn deserialize<'de, V, From, const N: usize>(
        from: From,
    ) -> Result<[V; N], From::Error>
    where
        V: Deserialize<'de> + Default,
        From: Deserializer<'de>,
    {
        struct Elements<V, const N: usize>([V; N]);

        impl<'de, V: Deserialize<'de>, const N: usize> Visitor<'de> for Elements<V, N> {
            type Value = [V; N];

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<[V; N], A::Error> {
                for i in 0..N {
                    match from.next_element()? {
                        Some(value) => self.0[i] = value,
                        None => return Err(A::Error::invalid_length(i, &self)),
                    }
                }
                no_more(from, N, &self)?;
                Ok(self.0)
            }
        }

        from.deserialize_seq(Elements(core::array::from_fn(|_| V::default())))
    }
}

/// The lower triangle of A, of which no more is kept.
pub(crate) mod lower {
    use super::*;

    pub(crate) use super::triangle::serialize;

    pub(crate) fn deserialize<'de, From: Deserializer<'de>, const D: usize>(
        from: From,
    ) -> Result<[[f64; D]; D], From::Error> {
        let mut matrix = triangle::deserialize::<f64, From, D>(from)?;
        for (i, row) in matrix.iter_mut().enumerate() {
            row[kept::<D>(i)..].fill(0.0);
        }
        Ok(matrix)
    }
}

/// The lower triangle of a symmetric matrix, row by row.
pub(crate) mod triangle {
    use super::*;

    pub(crate) fn serialize<T: Real + Serialize, S: Serializer, const D: usize>(
        matrix: &[[T; D]; D],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq((0..D).flat_map(|i| &matrix[i][..=i]))
    }

    pub(crate) fn deserialize<'de, T, From, const D: usize>(
        from: From,
    ) -> Result<[[T; D]; D], From::Error>
    where
        T: Real + Deserialize<'de>,
        From: Deserializer<'de>,
    {
        struct Rows<T, const D: usize>([[T; D]; D]);

        impl<'de, T: Real + Deserialize<'de>, const D: usize> Visitor<'de> for Rows<T, D> {
            type Value = [[T; D]; D];

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let count = D * (D + 1) / 2;
                write!(
                    f,
                    "the lower triangle of a {D} by {D} matrix, {count} numbers"
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(
                mut self,
                mut from: A,
            ) -> Result<[[T; D]; D], A::Error> {
                let mut count = 0;
                for i in 0..D {
                    for j in 0..=i {
                        let Some(value) = from.next_element()? else {
                            return Err(A::Error::invalid_length(count, &self));
                        };
                        (self.0[i][j], self.0[j][i]) = (value, value);
                        count += 1;
                    }
                }
                no_more(from, count, &self)?;
                Ok(self.0)
            }
        }

        from.deserialize_seq(Rows([[T::zero(); D]; D]))
    }
}

fn no_more<'de, A: SeqAccess<'de>>(
    mut from: A,
    length: usize,
    expected: &dyn Expected,
) -> Result<(), A::Error> {
    match from.next_element::<IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(A::Error::invalid_length(length + 1, expected)),
    }
}
