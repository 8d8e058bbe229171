//! The path ID of RFC 10069.

use std::fmt;

/// A path ID (RFC 10069): the same in both directions, generated in ascending order, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct PathId(pub u32);

impl PathId {
    /// The path of the handshake.
    pub const ZERO: Self = Self(0);
    /// The largest path ID: the nonce has 32 bits for it (RFC 10069, Nonce Calculation).
    pub const MAX: Self = Self(u32::MAX);

    /// The path ID after this one, or `None` past the largest.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
