//! Counts the half-open connections and what they hold against a budget.

use crate::{ServerConfig, limits};

/// Connections of a server whose handshake is not complete, and what they hold: an estimate from above.
/// Those that wait to be accepted are among them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HalfOpen {
    /// How many.
    pub connections: usize,
    /// Bytes that they hold.
    pub bytes: usize,
}

impl HalfOpen {
    /// Whether one more, whose first datagram has so many bytes, is within the budget.
    pub(super) const fn has_room(&self, server: &ServerConfig, datagram: usize) -> bool {
        self.connections < server.max_half_open
            && self.bytes + limits::HALF_OPEN_COST + datagram <= server.half_open_memory
    }

    pub(super) const fn add(&mut self, share: &Share) {
        self.connections += 1;
        self.bytes += share.bytes();
    }

    pub(super) const fn remove(&mut self, share: &Share) {
        self.connections -= 1;
        self.bytes -= share.bytes();
    }

    /// A connection's handshake data has so many bytes now.
    pub(super) const fn resize(&mut self, share: &mut Share, handshake: usize) {
        self.bytes -= share.bytes();
        share.handshake = handshake;
        self.bytes += share.bytes();
    }
}

/// What one half-open connection counts for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Share {
    handshake: usize,
}

impl Share {
    const fn bytes(&self) -> usize {
        limits::HALF_OPEN_COST + self.handshake
    }
}
