//! Settings of the linear bandits and their checks.

use core::fmt;

/// Settings of [`LinUcb`](crate::LinUcb) and [`LinThompson`](crate::LinThompson).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct LinUcbConfig {
    /// λ of the ridge regression: A starts as λ I, in units of a squared feature; 1e-6 to 1e6.
    /// Default 1, which is the A = I of the paper.
    pub ridge: f64,
    /// After how many updates of an arm its inverse is computed anew, 1 to 65,536. Default 256.
    pub reinvert_every: u32,
}

impl Default for LinUcbConfig {
    fn default() -> Self {
        Self {
            ridge: 1.0,
            reinvert_every: 256,
        }
    }
}

impl LinUcbConfig {
    /// # Errors
    ///
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        check_ridge(self.ridge)?;
        check_reinvert_every(self.reinvert_every)
    }
}

/// Settings of [`DiscountedLinUcb`](crate::DiscountedLinUcb).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct DiscountedLinUcbConfig {
    /// As [`LinUcbConfig::ridge`]; it does not fade. Default 1.
    pub ridge: f64,
    /// γ: how much a sample weighs one update later, 0.5 to 1 without 1. Default 0.99, a memory of
    /// 1/(1 - γ) = 100 updates; ours.
    pub discount: f64,
    /// As [`LinUcbConfig::reinvert_every`], counting updates of all arms, and never so many that
    /// a sample fades by more than 2^-20. Default 256.
    pub reinvert_every: u32,
}

impl Default for DiscountedLinUcbConfig {
    fn default() -> Self {
        Self {
            ridge: 1.0,
            discount: 0.99,
            reinvert_every: 256,
        }
    }
}

impl DiscountedLinUcbConfig {
    /// # Errors
    ///
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        check_ridge(self.ridge)?;
        check_discount(self.discount)?;
        check_reinvert_every(self.reinvert_every)
    }
}

/// A setting out of its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InvalidSetting {
    /// Which.
    pub field: &'static str,
    /// What may be there.
    pub expected: &'static str,
    /// What is there.
    pub got: f64,
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            expected,
            got,
        } = self;
        write!(f, "field `{field}`: expected {expected}, got {got}")
    }
}

impl core::error::Error for InvalidSetting {}

pub(crate) fn check_ridge(ridge: f64) -> Result<(), InvalidSetting> {
    if (1e-6..=1e6).contains(&ridge) {
        return Ok(());
    }
    Err(InvalidSetting {
        field: "ridge",
        expected: "1e-6 to 1e6",
        got: ridge,
    })
}

pub(crate) fn check_discount(discount: f64) -> Result<(), InvalidSetting> {
    if (0.5..1.0).contains(&discount) {
        return Ok(());
    }
    Err(InvalidSetting {
        field: "discount",
        expected: "0.5 to 1, without 1",
        got: discount,
    })
}

pub(crate) fn check_reinvert_every(every: u32) -> Result<(), InvalidSetting> {
    if (1..=65_536).contains(&every) {
        return Ok(());
    }
    Err(InvalidSetting {
        field: "reinvert_every",
        expected: "1 to 65536 updates",
        got: f64::from(every),
    })
}
