//! What is kept of an abandoned path for three PTOs (RFC 10069, path close): enough to acknowledge
//! stragglers and not to answer them with stateless resets; nothing is sent on it.

use std::time::Instant;

use crate::space::PacketSpace;
use crate::{FourTuple, PathErrorCode, PathId, PathStats};

/// An abandoned path on its way out.
pub(crate) struct RetiredPath {
    pub(crate) id: PathId,
    /// Still takes packets, and owes acknowledgements for them, which travel on other paths.
    pub(crate) space: PacketSpace,
    /// When the rest is forgotten: three PTOs after the peer has abandoned the path too. Until it
    /// has, it may send on the path, and a stateless reset in answer would end its connection.
    pub(crate) discard_at: Option<Instant>,
    /// Our PATH_ABANDON is to be sent (again).
    pub(crate) abandon_pending: bool,
    pub(crate) error_code: PathErrorCode,
    /// Its addresses and figures when it was abandoned, if it was ever open.
    pub(crate) last: Option<(FourTuple, PathStats)>,
}
