//! NewReno (RFC 9002 section 7 and appendix B), with a choice of slow starts; one uncoupled state per path.

use std::time::Instant;

use mpquic_sched_core::PathIndex;

use super::controller::Slots;
use super::reno_window::RenoWindow;
use super::{
    AckedPacket, CongestionEvent, Controller, InitialWindow, MAX_WINDOW, NewPath, ResumeStep,
    RttEstimator, SlowStart,
};

/// kLossReductionFactor of RFC 9002 appendix B.1.
const BETA: f64 = 0.5;

#[derive(Debug)]
struct Path {
    window: RenoWindow,
    /// Bytes acknowledged in congestion avoidance towards the next datagram of growth.
    acked: u64,
}

impl Path {
    /// RFC 9002 section 7.3.3, with integers as in RFC 3465 section 2.1.
    fn avoid_congestion(&mut self, bytes: u64) {
        self.acked = self.acked.saturating_add(bytes);
        let window = self.window.bytes();
        if self.acked >= window {
            self.acked -= window;
            //= specs/rfc9002.txt#section-7.3.3
            //# A sender in congestion avoidance uses an Additive Increase Multiplicative Decrease
            //# (AIMD) approach that MUST limit the increase to the congestion window to at most one
            //# maximum datagram size for each congestion window that is acknowledged.
            self.window.grow(self.window.datagram());
        }
    }
}

/// The controller.
#[derive(Debug)]
pub(super) struct NewReno {
    paths: Slots<Path>,
    initial: InitialWindow,
    slow_start: SlowStart,
}

impl NewReno {
    pub(super) fn new(initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            paths: Slots::default(),
            initial,
            slow_start,
        }
    }
}

impl Controller for NewReno {
    fn add_path(&mut self, new: &NewPath) {
        let initial = new.initial_window.unwrap_or(self.initial);
        let state = Path {
            window: RenoWindow::new(new.mtu, initial, self.slow_start),
            acked: 0,
        };
        self.paths.set(new.path, Some(state));
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.paths.set(path, None);
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        let Some(p) = self.paths.get_mut(packet.path) else {
            return;
        };
        // No ACK frame covers more than that; it keeps the arithmetic within bounds.
        let bytes = packet.size.min(MAX_WINDOW);
        if p.window.in_recovery(packet.sent) {
            p.window.on_recovery(bytes, 0);
            return;
        }
        p.window.end_convergence();
        // RFC 9002 appendix B.5.
        //= specs/rfc9002.txt#section-7.8
        //# When this occurs, the congestion window SHOULD NOT be increased in either slow start or
        //# congestion avoidance.
        if packet.app_limited {
            return;
        }
        if !p.window.slow_start(packet, bytes) {
            p.avoid_congestion(bytes);
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let Some(p) = self.paths.get_mut(event.path) else {
            return;
        };
        // RFC 9002 appendix B.6: once per recovery period.
        if !p.window.in_recovery(event.newest_sent) {
            //= specs/rfc9002.txt#section-7.3.2
            //# On entering a recovery period, a sender MUST set the slow start threshold to half
            //# the value of the congestion window when loss is detected.
            if !p.window.converge(event, BETA) {
                p.window.reduce(event.now, (p.window.window * BETA).floor());
            }
            p.acked = 0;
        } else {
            p.window.on_recovery(0, event.lost_bytes);
        }
        if event.persistent {
            p.window.collapse();
            p.acked = 0;
        }
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        let Some(p) = self.paths.get_mut(path) else {
            return false;
        };
        p.window.resume(now, step);
        p.acked = 0;
        true
    }

    fn pacing_rate(&self, path: PathIndex, rtt: &RttEstimator) -> Option<f64> {
        self.paths.get(path)?.window.pace(rtt)
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        if let Some(p) = self.paths.get_mut(path) {
            p.window.on_mtu_update(mtu);
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.window.bytes())
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.window.threshold())
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.window.events())
    }
}
