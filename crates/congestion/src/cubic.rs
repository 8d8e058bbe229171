//! CUBIC (RFC 9438) with a choice of slow starts; one uncoupled state per path.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::controller::Slots;
use super::reno_window::{RenoWindow, Saved};
use super::{
    AckedPacket, CongestionEvent, Controller, InitialWindow, MAX_WINDOW, NewPath, ResumeStep,
    RttEstimator, SlowStart, SpuriousLoss,
};

/// RFC 9438 section 5, in datagrams per second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.6.
const BETA: f64 = 0.7;
/// What is left of the window where a loss ends the first slow start, as RFC 5681 section 3.1 has it: the window has
/// doubled in the round trip before the loss is known, so that 0.7 of it overflows the queue once more. RFC 9438 section
/// 4.6 names that side effect.
const BETA_FIRST: f64 = 0.5;
/// RFC 9438 section 4.3: growth of the Reno-friendly window, datagrams per window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// What congestion avoidance computes with; all windows in bytes.
#[derive(Debug, Clone, Copy)]
struct Curve {
    /// The plateau.
    w_max: f64,
    /// Seconds from the start of the epoch to the plateau.
    k: f64,
    /// The Reno-friendly window.
    w_est: f64,
    /// The window before the reduction that began the epoch.
    prior: f64,
    /// Start of the epoch, moved on by the time in which the application sent too little.
    epoch: Option<Instant>,
    /// Since when it sends too little.
    idle_since: Option<Instant>,
}

/// What a congestion event changed, to be taken back if it proves spurious (RFC 9438 section 4.9).
#[derive(Debug, Clone, Copy)]
struct Undo {
    window: Saved,
    curve: Curve,
    /// Bytes lost since the event that did not turn up again.
    missing: u64,
}

#[derive(Debug)]
struct Path {
    reno: RenoWindow,
    curve: Curve,
    undo: Option<Undo>,
}

impl Path {
    fn new(mtu: u16, initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            reno: RenoWindow::new(mtu, initial, slow_start),
            curve: Curve {
                w_max: 0.0,
                k: 0.0,
                w_est: 0.0,
                prior: 0.0,
                epoch: None,
                idle_since: None,
            },
            undo: None,
        }
    }

    /// By which part of [`ALPHA`] the Reno-friendly window grows, so that paths that share a bottleneck are one flow together: a flow of Reno
    /// has a window in proportion to the square root of what it grows by in a round trip.
    fn growth(&self) -> f64 {
        match self.reno.flows {
            1 => 1.0,
            flows => f64::from(flows).powi(-2),
        }
    }

    /// How fast the curve rises: a flow of CUBIC has a window in proportion to the fourth root of `C`.
    fn c(&self) -> f64 {
        C * self.growth().powi(2)
    }

    /// The first acknowledgement in congestion avoidance begins an epoch.
    fn begin_epoch(&mut self, now: Instant) -> Instant {
        let window = self.reno.window;
        if self.curve.w_max < window {
            // After slow start, or after a timeout, the plateau is here: section 4.8.
            self.curve.w_max = window;
        }
        let rise = (self.curve.w_max - window) / self.reno.datagram();
        self.curve.k = (rise / self.c()).cbrt();
        self.curve.w_est = window;
        self.curve.epoch = Some(now);
        self.curve.idle_since = None;
        now
    }

    /// Congestion avoidance: RFC 9438 sections 4.2 to 4.5.
    fn avoid_congestion(&mut self, now: Instant, bytes: f64, srtt: Duration) {
        let mut epoch = match self.curve.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now),
        };
        if let Some(since) = self.curve.idle_since.take() {
            // Section 5.8: the time in which the window was not used does not count.
            epoch += now.saturating_duration_since(since.max(epoch));
            self.curve.epoch = Some(epoch);
        }
        let (window, mtu) = (self.reno.window, self.reno.datagram());
        let t = now.saturating_duration_since(epoch).as_secs_f64();
        let c = self.c();
        let cubic = |t: f64| c * mtu * (t - self.curve.k).powi(3) + self.curve.w_max;

        // Section 4.3.
        let alpha = if self.curve.w_est < self.curve.prior {
            ALPHA
        } else {
            1.0
        };
        let w_est = self.curve.w_est + self.growth() * alpha * mtu * bytes / window;
        let grown = if cubic(t) < w_est {
            window.max(w_est)
        } else {
            // Sections 4.4 and 4.5: towards where the curve is one RTT ahead, by at most half.
            let target = cubic(t + srtt.as_secs_f64()).clamp(window, 1.5 * window);
            window + (target - window) * bytes / window
        };
        self.curve.w_est = w_est.min(MAX_WINDOW as f64);
        self.reno.window = grown.min(MAX_WINDOW as f64);
    }

    fn reduce(&mut self, event: &CongestionEvent) {
        let (lost_bytes, ecn) = (event.lost_bytes, event.ecn);
        // What an ECN mark has told is true whatever turns up later.
        self.undo = (!ecn && lost_bytes > 0).then_some(Undo {
            window: self.reno.save(),
            curve: self.curve,
            missing: lost_bytes,
        });
        let window = self.reno.window;
        // Section 4.7, fast convergence: the path got narrower, leave room for the newcomer.
        self.curve.w_max = if window < self.curve.w_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.curve.prior = window;
        self.curve.epoch = None;
        if self.reno.converge(event, BETA) {
            return;
        }
        let first = self.reno.in_slow_start() && self.reno.ssthresh.is_infinite();
        let beta = if first && !ecn { BETA_FIRST } else { BETA };
        self.reno.reduce(event.now, window * beta);
    }
}

/// The controller.
#[derive(Debug)]
pub(super) struct Cubic {
    paths: Slots<Path>,
    pub(super) initial: InitialWindow,
    slow_start: SlowStart,
}

impl Cubic {
    pub(super) fn new(initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            paths: Slots::default(),
            initial,
            slow_start,
        }
    }
}

impl Cubic {
    /// The window of a path was held down by what was no congestion, and the path is not full: slow start begins again.
    pub(super) fn reopen(&mut self, path: PathIndex) {
        if let Some(p) = self.paths.get_mut(path) {
            p.reno.reopen();
            p.curve.w_max = 0.0;
            p.curve.epoch = None;
            p.undo = None;
        }
    }

    /// A path is one of so many that share a bottleneck, and grows so that together they are one flow.
    pub(super) fn grow_as_part(&mut self, path: PathIndex, flows: u8) {
        if let Some(p) = self.paths.get_mut(path)
            && p.reno.flows != flows
        {
            p.reno.flows = flows;
            p.curve.epoch = None;
        }
    }

    /// Another controller has found what the path holds: congestion avoidance goes on from there.
    pub(super) fn settle(&mut self, path: PathIndex, window: u64, now: Instant) {
        if let Some(p) = self.paths.get_mut(path) {
            let window = window.min(MAX_WINDOW) as f64;
            p.reno.settle(now, window);
            p.curve.w_max = 0.0;
            p.curve.prior = 0.0;
            p.curve.epoch = None;
            p.undo = None;
        }
    }

    /// The window is no smaller than this again: it gave way to no congestion.
    pub(super) fn raise(&mut self, path: PathIndex, window: u64) {
        if let Some(p) = self.paths.get_mut(path) {
            p.reno.window = p.reno.window.max(window.min(MAX_WINDOW) as f64);
            p.curve.epoch = None;
        }
    }
}

impl Controller for Cubic {
    fn add_path(&mut self, new: &NewPath) {
        let initial = new.initial_window.unwrap_or(self.initial);
        let state = Path::new(new.mtu, initial, self.slow_start);
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
        let acked = packet.size.min(MAX_WINDOW);
        if p.reno.in_recovery(packet.sent) {
            p.reno.on_recovery(acked, 0);
            return;
        }
        if let Some(full) = p.reno.end_convergence() {
            // Rapid Start's draft hands over twice the estimate: where slow start would have got to. A smaller plateau
            // would leave the flow behind those that begin with slow start.
            p.curve.w_max = (2.0 * full).min(MAX_WINDOW as f64);
            p.curve.prior = p.curve.w_max;
        }
        //= specs/rfc9002.txt#section-7.8
        //# When this occurs, the congestion window SHOULD NOT be increased in either slow start or
        //# congestion avoidance.
        if packet.app_limited {
            p.curve.idle_since.get_or_insert(packet.now);
            return;
        }
        if !p.reno.slow_start(packet, acked) {
            let bytes = (acked as f64).min(p.reno.window);
            p.avoid_congestion(packet.now, bytes, packet.rtt.smoothed());
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let Some(p) = self.paths.get_mut(event.path) else {
            return;
        };
        let threshold = p.reno.ssthresh;
        let climbing = p.reno.in_slow_start() && threshold.is_finite();
        if !p.reno.in_recovery(event.newest_sent) {
            p.reduce(event);
        } else {
            p.reno.on_recovery(0, event.lost_bytes);
            if event.ecn {
                p.undo = None;
            } else if let Some(undo) = &mut p.undo {
                undo.missing = undo.missing.saturating_add(event.lost_bytes);
            }
        }
        if event.persistent {
            // RFC 9438 section 4.8: slow start up to ssthresh, then an epoch that begins at its
            // plateau.
            p.reno.collapse();
            // The path failed again before the window was back at the threshold that the last failure left: how far
            // it got says nothing of the path. RFC 5681 section 3.1 holds the threshold constant through timeouts in
            // a row likewise. A path that flaps would otherwise be left with a window of a few packets and without
            // slow start.
            if climbing {
                p.reno.ssthresh = threshold;
            }
            p.curve.w_max = 0.0;
            p.curve.epoch = None;
            p.undo = None;
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        let Some(p) = self.paths.get_mut(loss.path) else {
            return;
        };
        let of_this_event = p.reno.in_recovery(loss.newest_sent);
        let Some(undo) = p.undo.as_mut().filter(|_| of_this_event) else {
            return;
        };
        undo.missing = undo.missing.saturating_sub(loss.bytes);
        if undo.missing > 0 {
            return;
        }
        // RFC 9438 section 4.9.2: all of the loss was reordering.
        p.reno.restore(&undo.window);
        p.curve = undo.curve;
        p.undo = None;
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        let Some(p) = self.paths.get_mut(path) else {
            return false;
        };
        p.reno.resume(now, step);
        if matches!(step, ResumeStep::Retreat { .. } | ResumeStep::Leave { .. }) {
            // What the window was before a retreat says nothing of the path: the next epoch begins at its plateau.
            p.curve.w_max = 0.0;
            p.curve.prior = 0.0;
            p.curve.epoch = None;
            // And it is not to be had back.
            p.undo = None;
        }
        true
    }

    fn pacing_rate(&self, path: PathIndex, rtt: &RttEstimator) -> Option<f64> {
        self.paths.get(path)?.reno.pace(rtt)
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        if let Some(p) = self.paths.get_mut(path) {
            p.reno.on_mtu_update(mtu);
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.reno.bytes())
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.reno.threshold())
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.paths.get(path).is_some_and(|p| p.reno.in_slow_start())
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.reno.events())
    }
}
