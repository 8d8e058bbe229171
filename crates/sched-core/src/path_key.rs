//! Names a path across connections, by the hosts at its two ends.

use std::fmt;

/// A name for the way between a local and a remote IP, the same in every connection, process, build
/// and machine. What was learned of a path is stored under it.
///
/// A transport gives it with [`PathUpdate::key`](crate::PathUpdate::key) and
/// [`PathView::key`](crate::PathView::key).
///
/// The transport of this project makes it of the two IPs. Ports do not count: a client has another
/// one each time, and so have most connections behind a NAT. Two paths between the same hosts
/// therefore have one key.
///
/// # What it reveals
///
/// A keyed hash under a fixed, public key: 64 bits that show no address, but whoever has them can
/// try all IPv4 addresses that he cares about. A file of keys says with whom its owner has talked to
/// anyone who makes that effort; store it as you would store a log of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey(u64);

impl PathKey {
    /// The key with this number; for tests of schedulers, and for transports that name paths in
    /// another way than by addresses.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// As sixteen hexadecimal digits.
impl fmt::Display for PathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
