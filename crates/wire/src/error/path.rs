//! The error codes of paths (RFC 10069, Error Codes).

use std::fmt;

/// The error code of PATH_ABANDON (RFC 10069, Error Codes).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathErrorCode(pub u64);

impl PathErrorCode {
    /// No error.
    pub const NO_ERROR: Self = Self(0);
    /// At the application's request.
    pub const APPLICATION_ABANDON_PATH: Self = Self(0x3e);
    /// Not enough resources for the path.
    pub const PATH_RESOURCE_LIMIT_REACHED: Self = Self(0x3e75);
    /// The interface is unstable or performs poorly.
    pub const PATH_UNSTABLE_OR_POOR: Self = Self(0x3e76);
    /// No connection ID for the path.
    pub const NO_CID_AVAILABLE_FOR_PATH: Self = Self(0x3e77);
}

impl fmt::Display for PathErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NO_ERROR => f.write_str("NO_ERROR"),
            Self::APPLICATION_ABANDON_PATH => f.write_str("APPLICATION_ABANDON_PATH"),
            Self::PATH_RESOURCE_LIMIT_REACHED => f.write_str("PATH_RESOURCE_LIMIT_REACHED"),
            Self::PATH_UNSTABLE_OR_POOR => f.write_str("PATH_UNSTABLE_OR_POOR"),
            Self::NO_CID_AVAILABLE_FOR_PATH => f.write_str("NO_CID_AVAILABLE_FOR_PATH"),
            Self(code) => write!(f, "{code:#x}"),
        }
    }
}

/// As [`Display`](fmt::Display): logs and failed tests name the code.
impl fmt::Debug for PathErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
