//! The keys of Initial packets, and in tests how many keys were derived.

use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::Keys;
use mpquic_wire::packet::Version;

/// As [`mpquic_wire::crypto::initial_keys`].
pub(crate) fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Keys {
    #[cfg(test)]
    count_key();
    mpquic_wire::crypto::initial_keys(version, dcid, side)
}

#[cfg(test)]
std::thread_local! {
    static KEYS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A key is derived, for a packet of a client that is not known or for its token: what a flood of them costs.
#[cfg(test)]
pub(crate) fn count_key() {
    KEYS.with(|keys| keys.set(keys.get() + 1));
}

/// How many keys this thread has derived.
#[cfg(test)]
pub(crate) fn keys_derived() -> usize {
    KEYS.with(std::cell::Cell::get)
}
