//! Contexts and models as views of the crate `ndarray`: checks lengths and passes on.

use core::fmt;

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut1};

use crate::{DiscountedLinUcb, Draw, LinThompson, LinUcb, Real, Refused};

/// Why nothing came of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// It has another number of elements than there are features, or arms.
    Length {
        /// How many it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// The bandit does not learn from this; it has counted it.
    Refused(Refused),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "a view of {found} elements, expected {expected}")
            }
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

impl core::error::Error for ViewError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Length { .. } => None,
            Self::Refused(refused) => Some(refused),
        }
    }
}

impl From<Refused> for ViewError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The features of a context, whatever their stride.
#[inline]
fn features<T: Real, const D: usize>(x: ArrayView1<'_, T>) -> Result<[T; D], ViewError> {
    if x.len() != D {
        return Err(ViewError::Length {
            found: x.len(),
            expected: D,
        });
    }
    Ok(core::array::from_fn(|feature| x[feature]))
}

/// Writes a number for each arm.
#[inline]
fn give<T: Real>(numbers: &[T], to: &mut ArrayViewMut1<'_, T>) -> Result<(), ViewError> {
    if to.len() != numbers.len() {
        return Err(ViewError::Length {
            found: to.len(),
            expected: numbers.len(),
        });
    }
    for (to, from) in to.iter_mut().zip(numbers) {
        *to = *from;
    }
    Ok(())
}

/// With the feature `ndarray`: the same with views, of any stride. Nothing is allocated, and the numbers are the same.
///
/// ```
/// use mpquic_bandit::{LinUcb, LinUcbConfig, ViewError};
/// use ndarray::{Array1, array};
///
/// let mut bandit = LinUcb::<f64, 2, 3>::new(&LinUcbConfig::default());
/// let contexts = array![[1.0, 0.5], [0.2, 0.9]];
/// for x in contexts.rows() {
///     let arm = bandit.select_view(0.8, x)?;
///     bandit.update_view(arm, x, 0.3)?;
/// }
/// let mut scores = Array1::zeros(3);
/// bandit.scores_into(0.8, contexts.row(0), scores.view_mut())?;
/// assert_eq!(scores.as_slice(), Some(&bandit.scores(0.8, &[1.0, 0.5])[..]));
/// assert_eq!(bandit.inverse_view(0).dim(), (2, 2));
///
/// let wrong = bandit.select_view(0.8, contexts.column(0).slice(ndarray::s![..1]));
/// assert_eq!(wrong, Err(ViewError::Length { found: 1, expected: 2 }));
/// # Ok::<(), ViewError>(())
/// ```
impl<T: Real, const D: usize, const K: usize> LinUcb<T, D, K> {
    /// [`select`](Self::select).
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features.
    #[inline]
    pub fn select_view(&self, alpha: T, x: ArrayView1<'_, T>) -> Result<usize, ViewError> {
        Ok(self.select(alpha, &features(x)?))
    }

    /// [`scores`](Self::scores), written to `to`, a number for each arm.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features, or a `to` that is not of K arms.
    #[inline]
    pub fn scores_into(
        &self,
        alpha: T,
        x: ArrayView1<'_, T>,
        mut to: ArrayViewMut1<'_, T>,
    ) -> Result<(), ViewError> {
        give(&self.scores(alpha, &features(x)?), &mut to)
    }

    /// [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features, which is not counted; [`ViewError::Refused`].
    #[inline]
    pub fn update_view(
        &mut self,
        arm: usize,
        x: ArrayView1<'_, T>,
        reward: T,
    ) -> Result<(), ViewError> {
        Ok(self.update(arm, &features(x)?, reward)?)
    }

    /// [`theta`](Self::theta), where it lies.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn theta_view(&self, arm: usize) -> ArrayView1<'_, T> {
        ArrayView1::from(&self.theta(arm)[..])
    }

    /// [`inverse`](Self::inverse), where it lies.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn inverse_view(&self, arm: usize) -> ArrayView2<'_, T> {
        ArrayView2::from(self.inverse(arm))
    }
}

/// With the feature `ndarray`: the same with views, of any stride, as [`LinUcb`] has it.
impl<T: Real, const D: usize, const K: usize> DiscountedLinUcb<T, D, K> {
    /// [`select`](Self::select).
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features.
    #[inline]
    pub fn select_view(&self, alpha: T, x: ArrayView1<'_, T>) -> Result<usize, ViewError> {
        Ok(self.select(alpha, &features(x)?))
    }

    /// [`scores`](Self::scores), written to `to`, a number for each arm.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features, or a `to` that is not of K arms.
    #[inline]
    pub fn scores_into(
        &self,
        alpha: T,
        x: ArrayView1<'_, T>,
        mut to: ArrayViewMut1<'_, T>,
    ) -> Result<(), ViewError> {
        give(&self.scores(alpha, &features(x)?), &mut to)
    }

    /// [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// As [`LinUcb::update_view`].
    #[inline]
    pub fn update_view(
        &mut self,
        arm: usize,
        x: ArrayView1<'_, T>,
        reward: T,
    ) -> Result<(), ViewError> {
        Ok(self.update(arm, &features(x)?, reward)?)
    }

    /// [`theta`](Self::theta), where it lies.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn theta_view(&self, arm: usize) -> ArrayView1<'_, T> {
        ArrayView1::from(&self.theta(arm)[..])
    }

    /// [`inverse`](Self::inverse), where it lies.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn inverse_view(&self, arm: usize) -> ArrayView2<'_, T> {
        ArrayView2::from(self.inverse(arm))
    }
}

/// With the feature `ndarray`: the same with views, of any stride, as [`LinUcb`] has it.
impl<T: Real, const D: usize, const K: usize> LinThompson<T, D, K> {
    /// [`select`](Self::select).
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] of a context that is not of D features; `draw` is as it was.
    #[inline]
    pub fn select_view(
        &self,
        v: T,
        x: ArrayView1<'_, T>,
        draw: &mut Draw,
    ) -> Result<usize, ViewError> {
        Ok(self.select(v, &features(x)?, draw))
    }

    /// [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// As [`LinUcb::update_view`].
    #[inline]
    pub fn update_view(
        &mut self,
        arm: usize,
        x: ArrayView1<'_, T>,
        reward: T,
    ) -> Result<(), ViewError> {
        Ok(self.update(arm, &features(x)?, reward)?)
    }
}
