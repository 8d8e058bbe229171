//! What is known of a path's way, estimated in one place from what is sent and acknowledged; the views show it to all.

mod base;
mod others;

use std::time::{Duration, Instant};

use crate::PathView;
use base::Base;
use others::Others;

/// What an acknowledgement shows of a path that gave an RTT sample.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// When it came.
    pub now: Instant,
    /// The RTT sample as it was measured (RFC 9002 section 5.1).
    pub rtt: Duration,
    /// How long the peer says that it held the acknowledgement back.
    pub ack_delay: Duration,
    /// The smoothed RTT.
    pub smoothed_rtt: Duration,
    /// Bytes in flight before the packet that it acknowledges, when that left.
    pub ahead: u64,
    /// The estimate of the delivery rate, bytes per second; 0 before the first.
    pub delivery_rate: u64,
    /// The congestion window, bytes.
    pub window: u64,
}

/// What is known of one path's way: the round trip without a queue, and the queue that others have put there.
///
/// The transport keeps one for each path, tells it of each round trip, and shows what it says in the path's [`PathView`].
#[derive(Debug, Clone, Default)]
pub struct PathModel {
    base: Base,
    others: Others,
}

impl PathModel {
    /// An acknowledgement gave an RTT sample.
    #[inline]
    pub fn on_round_trip(&mut self, event: &RoundTrip) {
        let base = self.base.update(event.now, event.rtt);
        self.others.update(event, base);
    }

    /// An acknowledgement of a handshake packet gave an RTT sample. It says how long the path is, but not what stands on it: who
    /// answers it has work to do first.
    pub fn on_handshake(&mut self, now: Instant, rtt: Duration) {
        self.base.update(now, rtt);
    }

    /// Shows what is known.
    #[inline]
    pub fn show(&self, now: Instant, view: &mut PathView) {
        view.base_rtt = self.base.get();
        (view.others_queue, view.others_seen) = self.others.at(now, view.smoothed_rtt);
    }
}
