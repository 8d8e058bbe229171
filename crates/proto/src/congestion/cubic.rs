//! CUBIC (RFC 9438) with HyStart++; one uncoupled state per path.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::hystart::{Growth, HyStart};
use super::initial_window::minimum_window;
use super::slots::Slots;
use super::{
    AckedPacket, CongestionEvent, Controller, InitialWindow, MAX_WINDOW, NewPath, SpuriousLoss,
};

/// RFC 9438 section 5, in datagrams per second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.6.
const BETA: f64 = 0.7;
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
    window: f64,
    ssthresh: f64,
    curve: Curve,
    recovery_start: Option<Instant>,
    /// Bytes lost since the event that did not turn up again.
    missing: u64,
}

#[derive(Debug)]
struct Path {
    mtu: u16,
    window: f64,
    /// Infinite before the first congestion event.
    ssthresh: f64,
    recovery_start: Option<Instant>,
    curve: Curve,
    undo: Option<Undo>,
    hystart: HyStart,
    events: u64,
}

impl Path {
    fn new(mtu: u16, initial: InitialWindow) -> Self {
        Self {
            mtu,
            window: initial.bytes(mtu) as f64,
            ssthresh: f64::INFINITY,
            recovery_start: None,
            curve: Curve {
                w_max: 0.0,
                k: 0.0,
                w_est: 0.0,
                prior: 0.0,
                epoch: None,
                idle_since: None,
            },
            undo: None,
            hystart: HyStart::default(),
            events: 0,
        }
    }

    fn minimum(&self) -> f64 {
        minimum_window(self.mtu) as f64
    }

    /// The first acknowledgement in congestion avoidance begins an epoch.
    fn begin_epoch(&mut self, now: Instant) -> Instant {
        if self.curve.w_max < self.window {
            // After slow start, or after a timeout, the plateau is here: section 4.8.
            self.curve.w_max = self.window;
        }
        let rise = (self.curve.w_max - self.window) / f64::from(self.mtu.max(1));
        self.curve.k = (rise / C).cbrt();
        self.curve.w_est = self.window;
        self.curve.epoch = Some(now);
        self.curve.idle_since = None;
        now
    }

    /// Congestion avoidance: RFC 9438 sections 4.2 to 4.5.
    fn avoid(&mut self, now: Instant, bytes: f64, srtt: Duration) {
        let mut epoch = match self.curve.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now),
        };
        if let Some(since) = self.curve.idle_since.take() {
            // Section 5.8: the time in which the window was not used does not count.
            epoch += now.saturating_duration_since(since.max(epoch));
            self.curve.epoch = Some(epoch);
        }
        let mtu = f64::from(self.mtu.max(1));
        let t = now.saturating_duration_since(epoch).as_secs_f64();
        let cubic = |t: f64| C * mtu * (t - self.curve.k).powi(3) + self.curve.w_max;

        // Section 4.3.
        let alpha = if self.curve.w_est < self.curve.prior {
            ALPHA
        } else {
            1.0
        };
        let w_est = self.curve.w_est + alpha * mtu * bytes / self.window;
        let grown = if cubic(t) < w_est {
            self.window.max(w_est)
        } else {
            // Sections 4.4 and 4.5: towards where the curve is one RTT ahead, by at most half.
            let target = cubic(t + srtt.as_secs_f64()).clamp(self.window, 1.5 * self.window);
            self.window + (target - self.window) * bytes / self.window
        };
        self.curve.w_est = w_est.min(MAX_WINDOW as f64);
        self.window = grown;
    }

    fn reduce(&mut self, now: Instant, lost_bytes: u64, ecn: bool) {
        // What an ECN mark has told is true whatever turns up later.
        self.undo = (!ecn && lost_bytes > 0).then_some(Undo {
            window: self.window,
            ssthresh: self.ssthresh,
            curve: self.curve,
            recovery_start: self.recovery_start,
            missing: lost_bytes,
        });
        self.recovery_start = Some(now);
        self.events += 1;
        // Section 4.7, fast convergence: the path got narrower, leave room for the newcomer.
        self.curve.w_max = if self.window < self.curve.w_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.curve.prior = self.window;
        self.curve.epoch = None;
        self.window = (self.window * BETA).max(self.minimum());
        self.ssthresh = self.window;
    }
}

/// The controller.
#[derive(Debug)]
pub(super) struct Cubic {
    paths: Slots<Path>,
    initial: InitialWindow,
}

impl Cubic {
    pub(super) fn new(initial: InitialWindow) -> Self {
        Self {
            paths: Slots::default(),
            initial,
        }
    }
}

impl Controller for Cubic {
    fn add_path(&mut self, new: &NewPath) {
        let state = Path::new(new.mtu, self.initial);
        self.paths.set(new.path, Some(state));
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.paths.set(path, None);
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        let &AckedPacket {
            path,
            now,
            sent,
            size: bytes,
            app_limited,
            rtt,
        } = packet;
        let Some(p) = self.paths.get_mut(path) else {
            return;
        };
        if p.recovery_start.is_some_and(|start| sent <= start) {
            return;
        }
        if app_limited {
            p.curve.idle_since.get_or_insert(now);
            return;
        }
        // No ACK frame covers more than that; it keeps the arithmetic within bounds.
        let acked = bytes.min(MAX_WINDOW);
        if p.ssthresh == f64::INFINITY {
            // RFC 9406 section 4.3: for the initial slow start only.
            match p.hystart.on_ack(now, sent, acked, rtt.latest()) {
                Growth::By(bytes) => p.window += bytes as f64,
                Growth::Exit => p.ssthresh = p.window,
            }
        } else if p.window < p.ssthresh {
            p.window += acked as f64;
        } else {
            p.avoid(now, (acked as f64).min(p.window), rtt.smoothed());
        }
        p.window = p.window.min(MAX_WINDOW as f64);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let &CongestionEvent {
            path,
            now,
            newest_sent: sent,
            lost_bytes,
            persistent,
            ecn,
        } = event;
        let Some(p) = self.paths.get_mut(path) else {
            return;
        };
        if p.recovery_start.is_none_or(|start| sent > start) {
            p.reduce(now, lost_bytes, ecn);
        } else if ecn {
            p.undo = None;
        } else if let Some(undo) = &mut p.undo {
            undo.missing = undo.missing.saturating_add(lost_bytes);
        }
        if persistent {
            // RFC 9002 section 7.6.2; RFC 9438 section 4.8: slow start up to ssthresh, then an epoch
            // that begins at its plateau.
            p.window = p.minimum();
            p.recovery_start = None;
            p.curve.w_max = 0.0;
            p.curve.epoch = None;
            p.undo = None;
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        let Some(p) = self.paths.get_mut(loss.path) else {
            return;
        };
        let of_this_event = p
            .recovery_start
            .is_some_and(|start| loss.newest_sent <= start);
        let Some(undo) = p.undo.as_mut().filter(|_| of_this_event) else {
            return;
        };
        undo.missing = undo.missing.saturating_sub(loss.bytes);
        if undo.missing > 0 {
            return;
        }
        // RFC 9438 section 4.9.2: all of the loss was reordering.
        p.window = p.window.max(undo.window);
        p.ssthresh = undo.ssthresh;
        p.curve = undo.curve;
        p.recovery_start = undo.recovery_start;
        p.undo = None;
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        if let Some(p) = self.paths.get_mut(path) {
            let begun = p.ssthresh != f64::INFINITY;
            let before = p.window as u64;
            let window = self.initial.on_mtu_update(before, begun, p.mtu, mtu);
            if window != before {
                p.window = window as f64;
            }
            p.mtu = mtu;
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.window as u64)
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        // A cast saturates: infinity becomes the largest integer.
        self.paths.get(path).map_or(0, |p| p.ssthresh as u64)
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.paths.get(path).is_some_and(|p| p.window < p.ssthresh)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.events)
    }
}
