//! The window of one path as RFC 9002 section 7 has it: slow start, recovery periods, persistent
//! congestion. How it grows in congestion avoidance, and by how much it gives way, is its owner's.

use std::time::Instant;

use super::initial_window::minimum_window;
use super::rapid_start::Convergence;
use super::slow_start::{FirstSlowStart, Growth};
use super::{
    AckedPacket, CongestionEvent, InitialWindow, MAX_WINDOW, ResumeStep, RttEstimator, SlowStart,
};

/// Windows are bytes. They are floating point numbers for the sake of CUBIC; NewReno and the coupled
/// controllers keep them whole.
#[derive(Debug)]
pub(super) struct RenoWindow {
    /// The congestion window.
    pub(super) window: f64,
    /// The slow start threshold; infinite before the first congestion event.
    pub(super) ssthresh: f64,
    mtu: u16,
    initial: InitialWindow,
    /// congestion_recovery_start_time.
    recovery_start: Option<Instant>,
    first_slow_start: FirstSlowStart,
    /// It had ended once: it doubles the window per round trip from then on, at most.
    reopened: bool,
    /// The first recovery, if the window converges in it.
    convergence: Option<Convergence>,
    events: u32,
    /// So many paths, with this one, share its bottleneck and grow like one flow, as far as anybody knows.
    pub(super) flows: u8,
}

/// A window to go back to if a loss proves spurious.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saved {
    window: f64,
    ssthresh: f64,
    recovery_start: Option<Instant>,
}

impl RenoWindow {
    pub(super) fn new(mtu: u16, initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            window: initial.bytes(mtu) as f64,
            ssthresh: f64::INFINITY,
            mtu,
            initial,
            recovery_start: None,
            first_slow_start: FirstSlowStart::new(slow_start),
            reopened: false,
            convergence: None,
            events: 0,
            flows: 1,
        }
    }

    /// The window, whole bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.window as u64
    }

    /// The slow start threshold, whole bytes.
    pub(super) fn threshold(&self) -> u64 {
        // A cast saturates: infinity becomes the largest integer.
        self.ssthresh as u64
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Congestion events to which the window gave way.
    pub(super) fn events(&self) -> u64 {
        self.events.into()
    }

    /// The size of a datagram; above zero.
    pub(super) fn datagram(&self) -> f64 {
        f64::from(self.mtu.max(1))
    }

    pub(super) fn minimum(&self) -> f64 {
        minimum_window(self.mtu) as f64
    }

    /// Whether a packet sent then belongs to the recovery period: the window neither grows nor
    /// shrinks by what becomes of it (RFC 9002 section 7.3.2).
    pub(super) fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }

    /// Grows by an acknowledgement in slow start (RFC 9002 section 7.3.1). False in congestion
    /// avoidance: nothing has changed then.
    pub(super) fn slow_start(&mut self, packet: &AckedPacket<'_>, bytes: u64) -> bool {
        if self.ssthresh == f64::INFINITY {
            // RFC 9406 section 4.3: for the initial slow start only.
            let rtt = packet.rtt.latest();
            let first = &mut self.first_slow_start;
            match first.on_ack(packet.now, packet.sent, bytes, rtt) {
                Growth::By(more) if self.reopened => self.grow(more.min(bytes) as f64),
                Growth::By(bytes) => {
                    let grown = self.window + bytes as f64;
                    let window = first.search(packet, self.window, grown, self.mtu);
                    self.window = window.min(MAX_WINDOW as f64);
                }
                Growth::Exit => self.ssthresh = self.window,
            }
        } else if self.window < self.ssthresh {
            self.grow(bytes as f64);
        } else {
            return false;
        }
        true
    }

    /// The most to send at, bytes per second, where the first slow start knows; it paces by the window as well.
    #[inline]
    pub(super) fn pace(&self, rtt: &RttEstimator) -> Option<f64> {
        if self.ssthresh != f64::INFINITY || self.reopened {
            return None;
        }
        let by_window = 2.0 * self.window / rtt.smoothed().as_secs_f64().max(1e-6);
        self.first_slow_start.pace().map(|most| most.min(by_window))
    }

    /// This window fills the path. Packets that left before count for nothing.
    pub(super) fn settle(&mut self, now: Instant, window: f64) {
        self.window = window.max(self.minimum());
        self.ssthresh = self.window;
        self.recovery_start = Some(now);
        self.convergence = None;
    }

    /// A larger window, as far as there is one.
    pub(super) fn grow(&mut self, bytes: f64) {
        self.window = (self.window + bytes).min(MAX_WINDOW as f64);
    }

    /// Gives way to congestion: a recovery period begins (RFC 9002 section 7.3.2).
    pub(super) fn reduce(&mut self, now: Instant, window: f64) {
        //= specs/rfc9002.txt#section-7.3.1
        //# The sender MUST exit slow start and enter a recovery period when a packet is lost or
        //# when the ECN-CE count reported by its peer increases.
        self.recovery_start = Some(now);
        self.window = window.max(self.minimum());
        //= specs/rfc9002.txt#section-7.3.2
        //# The congestion window MUST be set to the reduced value of the slow start threshold
        //# before exiting the recovery period.
        self.ssthresh = self.window;
        self.convergence = None;
        self.events = self.events.saturating_add(1);
    }

    /// Gives way to congestion in the first slow start, if the window then converges to the part `beta` of what the path
    /// delivers. False if it does not: nothing has changed then.
    pub(super) fn converge(&mut self, event: &CongestionEvent, beta: f64) -> bool {
        if self.ssthresh != f64::INFINITY || !self.first_slow_start.converges() {
            return false;
        }
        let convergence = Convergence::new(self.window, beta);
        let window = convergence.begin(self.window);
        self.reduce(event.now, window.floor());
        self.convergence = Some(convergence);
        self.on_recovery(0, event.lost_bytes);
        true
    }

    /// Packets of the recovery period were acknowledged or lost.
    pub(super) fn on_recovery(&mut self, acked: u64, lost: u64) {
        if let Some(convergence) = self.convergence {
            let window = convergence.window(self.window, acked, lost).floor();
            self.window = window.max(self.minimum());
            self.ssthresh = self.window;
        }
    }

    /// A packet was acknowledged that was sent after the recovery period began: it is over. What the path and its queue
    /// hold, if the window has converged to that.
    pub(super) fn end_convergence(&mut self) -> Option<f64> {
        let convergence = self.convergence.take()?;
        Some(convergence.full(self.window))
    }

    /// Persistent congestion (RFC 9002 section 7.6.2 and appendix B.8).
    //= specs/rfc9002.txt#section-7.6.2
    //# When persistent congestion is declared, the sender's congestion window MUST be reduced to
    //# the minimum congestion window (kMinimumWindow), similar to a TCP sender's response on an RTO
    //# [RFC5681].
    pub(super) fn collapse(&mut self) {
        self.window = self.minimum();
        self.recovery_start = None;
        self.convergence = None;
    }

    /// What ended the first slow start was no congestion: it goes on, with what it knows of the path's round trips.
    pub(super) fn reopen(&mut self) {
        self.ssthresh = f64::INFINITY;
        self.reopened = true;
        self.recovery_start = None;
        self.convergence = None;
    }

    /// RFC 9002 section 7.2: the initial window follows the size, as long as it is the window.
    pub(super) fn on_mtu_update(&mut self, mtu: u16) {
        let begun = self.ssthresh != f64::INFINITY;
        let before = self.bytes();
        let window = self.initial.on_mtu_update(before, begun, self.mtu, mtu);
        if window != before {
            self.window = window as f64;
        }
        self.mtu = mtu;
    }

    /// Careful resume (RFC 9959).
    pub(super) fn resume(&mut self, now: Instant, step: &ResumeStep) {
        let bytes =
            |bytes: u64| (bytes.min(MAX_WINDOW) as f64).max(minimum_window(self.mtu) as f64);
        match *step {
            ResumeStep::Jump { window, .. } => self.window = self.window.max(bytes(window)),
            ResumeStep::Settle { window, .. } => self.window = bytes(window),
            ResumeStep::Validated => {}
            ResumeStep::Retreat { window } => {
                self.window = self.window.min(bytes(window));
                // No slow start before all that was too much has left the path.
                self.ssthresh = self.window;
                self.recovery_start = Some(now);
                self.convergence = None;
            }
            ResumeStep::Leave { ssthresh } => self.ssthresh = bytes(ssthresh),
        }
    }

    pub(super) fn save(&self) -> Saved {
        Saved {
            window: self.window,
            ssthresh: self.ssthresh,
            recovery_start: self.recovery_start,
        }
    }

    /// What made the window give way was no congestion.
    pub(super) fn restore(&mut self, saved: &Saved) {
        self.window = self.window.max(saved.window);
        self.ssthresh = saved.ssthresh;
        self.recovery_start = saved.recovery_start;
        self.convergence = None;
    }
}
