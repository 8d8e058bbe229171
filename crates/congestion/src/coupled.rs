//! What LIA, OLIA and BALIA share: slow start, recovery periods, the path's window, and what each
//! path tells the others; each algorithm adds its [`CoupledIncrease`].

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::controller::Slots;
use super::reno_window::RenoWindow;
use super::{
    AckedPacket, CongestionEvent, Controller, InitialWindow, MAX_WINDOW, NewPath, ResumeStep,
    SlowStart,
};
use crate::RttEstimator;

/// A path on which nothing was acknowledged for so many probe timeouts is idle or broken: its window
/// says nothing of what the connection sends, and is left out of the others' sums.
const IDLE_AFTER_PTOS: u32 = 3;
/// What a peer may delay an acknowledgement by, in that probe timeout (RFC 9000 section 18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// One path, as the algorithms see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Flow {
    /// The congestion window, bytes.
    pub(super) window: f64,
    /// The smoothed RTT, seconds; above zero.
    pub(super) rtt: f64,
    /// The largest datagram, bytes: the papers' MSS.
    pub(super) mss: f64,
    /// Bytes acknowledged between the last two losses, or since the last one if that is more.
    pub(super) loss_interval: f64,
}

impl Flow {
    /// x_r of the papers, bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.window / self.rtt
    }
}

/// How windows grow in congestion avoidance, and give way.
pub(super) trait CoupledIncrease: Send {
    /// By how many datagrams of its own size a path's window grows per byte acknowledged: 1/window
    /// is the growth of a lone flow (RFC 9002 section 7.3.3). `all` are the paths in use, the path
    /// itself among them.
    fn increase(own: &Flow, all: impl Iterator<Item = Flow> + Clone) -> f64;

    /// The part of the window that is given up on a congestion event.
    fn decrease(_own: &Flow, _all: impl Iterator<Item = Flow> + Clone) -> f64 {
        0.5
    }
}

#[derive(Debug)]
struct Path {
    reno: RenoWindow,
    /// Growth in congestion avoidance that does not make a datagram yet, bytes. Below zero where a
    /// controller shrinks windows.
    growth: f64,
    /// Smoothed, as of the last acknowledgement; zero before the first.
    rtt: Duration,
    /// When the path counts as idle unless something is acknowledged before.
    idle_at: Option<Instant>,
    /// Bytes acknowledged between the last two congestion events, and since the last one.
    between_losses: u64,
    since_loss: u64,
}

impl Path {
    fn new(mtu: u16, initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            reno: RenoWindow::new(mtu, initial, slow_start),
            growth: 0.0,
            rtt: Duration::ZERO,
            idle_at: None,
            between_losses: 0,
            since_loss: 0,
        }
    }

    fn flow(&self) -> Flow {
        Flow {
            window: self.reno.window,
            rtt: self.rtt.max(Duration::from_micros(1)).as_secs_f64(),
            mss: self.reno.datagram(),
            loss_interval: self.between_losses.max(self.since_loss) as f64,
        }
    }

    /// Whether the path carries data at present, as far as acknowledgements tell.
    fn is_in_use(&self, now: Instant) -> bool {
        self.idle_at.is_some_and(|at| now < at)
    }

    fn on_acked(&mut self, now: Instant, bytes: u64, rtt: &RttEstimator) {
        self.rtt = rtt.smoothed();
        let patience = rtt.pto_base(MAX_ACK_DELAY).saturating_mul(IDLE_AFTER_PTOS);
        self.idle_at = Some(crate::later(now, patience));
        self.since_loss = self.since_loss.saturating_add(bytes);
    }

    /// The window moves in whole datagrams, as RFC 3465 section 2.1 has it for a lone flow.
    fn grow(&mut self, datagrams: f64) {
        let mss = self.reno.datagram();
        self.growth += datagrams * mss;
        // What adds up to one datagram by the book may lack the last bit.
        if self.growth + 1e-6 >= mss {
            let before = self.reno.window;
            self.reno.grow(mss);
            // What is left was acknowledged in the new window, as NewReno counts it.
            self.growth = (self.growth - mss) * before / self.reno.window;
        } else if self.growth <= -mss {
            self.growth += mss;
            self.reno.window = (self.reno.window - mss).max(self.reno.minimum());
            // Still congestion avoidance: what was given up is not for slow start to take back.
            self.reno.ssthresh = self.reno.ssthresh.min(self.reno.window);
        }
    }

    /// Gives up this part of the window.
    fn reduce(&mut self, event: &CongestionEvent, part: f64) {
        let window = self.reno.window;
        if !self.reno.converge(event, 1.0 - part) {
            self.reno.reduce(event.now, window - (window * part).ceil());
        }
        self.growth = 0.0;
        // Losses with nothing acknowledged between them count as one.
        if self.since_loss > 0 {
            self.between_losses = std::mem::take(&mut self.since_loss);
        }
    }
}

/// A controller whose paths grow as one: each path has slow start, recovery periods and the least
/// window of its own, as NewReno has (RFC 9002 section 7).
#[derive(Debug)]
pub(super) struct Coupled<I> {
    paths: Slots<Path>,
    initial: InitialWindow,
    slow_start: SlowStart,
    increase: PhantomData<I>,
}

impl<I> Coupled<I> {
    pub(super) fn new(initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            paths: Slots::default(),
            initial,
            slow_start,
            increase: PhantomData,
        }
    }

    /// The path itself, and the flows of all paths in use, itself among them.
    fn flows(
        &self,
        path: PathIndex,
        now: Instant,
    ) -> Option<(Flow, impl Iterator<Item = Flow> + Clone)> {
        let own = self.paths.get(path)?.flow();
        let all = self
            .paths
            .iter()
            .filter(move |(index, other)| *index == path || other.is_in_use(now))
            .map(|(_, other)| other.flow());
        Some((own, all))
    }
}

impl<I: CoupledIncrease> Controller for Coupled<I> {
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
        let bytes = packet.size.min(MAX_WINDOW);
        p.on_acked(packet.now, bytes, packet.rtt);
        if p.reno.in_recovery(packet.sent) {
            p.reno.on_recovery(bytes, 0);
            return;
        }
        p.reno.end_convergence();
        // RFC 9002 appendix B.5.
        //= specs/rfc9002.txt#section-7.8
        //# When this occurs, the congestion window SHOULD NOT be increased in either slow start or
        //# congestion avoidance.
        if packet.app_limited || p.reno.slow_start(packet, bytes) {
            return;
        }
        let growth = match self.flows(packet.path, packet.now) {
            Some((own, all)) => I::increase(&own, all) * (bytes as f64).min(own.window),
            None => 0.0,
        };
        if let Some(p) = self.paths.get_mut(packet.path) {
            p.grow(growth);
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let part = match self.flows(event.path, event.now) {
            Some((own, all)) => I::decrease(&own, all),
            None => return,
        };
        let Some(p) = self.paths.get_mut(event.path) else {
            return;
        };
        // RFC 9002 appendix B.6: once per recovery period.
        if !p.reno.in_recovery(event.newest_sent) {
            p.reduce(event, part);
        } else {
            p.reno.on_recovery(0, event.lost_bytes);
        }
        if event.persistent {
            p.reno.collapse();
            p.growth = 0.0;
        }
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        let Some(p) = self.paths.get_mut(path) else {
            return false;
        };
        p.reno.resume(now, step);
        p.growth = 0.0;
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

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.reno.events())
    }
}

#[cfg(test)]
#[path = "coupled_tests.rs"]
mod tests;

#[cfg(test)]
pub(super) mod tests_support {
    use super::Flow;

    /// A path of datagrams of 1000 bytes without losses: the window in bytes, the RTT in ms.
    pub(in super::super) fn flow(window: u64, rtt_ms: u64) -> Flow {
        Flow {
            window: window as f64,
            rtt: rtt_ms as f64 / 1e3,
            mss: 1000.0,
            loss_interval: 0.0,
        }
    }

    pub(in super::super) fn close(is: f64, expected: f64) {
        assert!(
            (is - expected).abs() <= 1e-9 * expected.abs(),
            "{is} instead of {expected}"
        );
    }
}
