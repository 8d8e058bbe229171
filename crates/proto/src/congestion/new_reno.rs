//! NewReno as RFC 9002 section 7 and appendix B have it, with HyStart++; one uncoupled state per path.

use std::time::Instant;

use mpquic_sched_core::PathIndex;

use super::hystart::{Growth, HyStart};
use super::initial_window::minimum_window;
use super::slots::Slots;
use super::{AckedPacket, CongestionEvent, Controller, InitialWindow, MAX_WINDOW, NewPath};

#[derive(Debug)]
struct Path {
    mtu: u16,
    window: u64,
    ssthresh: u64,
    /// congestion_recovery_start_time.
    recovery_start: Option<Instant>,
    /// Bytes acknowledged in congestion avoidance towards the next datagram of growth.
    acked: u64,
    hystart: HyStart,
    events: u64,
}

/// The controller.
#[derive(Debug)]
pub(super) struct NewReno {
    paths: Slots<Path>,
    initial: InitialWindow,
}

impl NewReno {
    pub(super) fn new(initial: InitialWindow) -> Self {
        Self {
            paths: Slots::default(),
            initial,
        }
    }
}

impl Controller for NewReno {
    fn add_path(&mut self, new: &NewPath) {
        let state = Path {
            mtu: new.mtu,
            window: self.initial.bytes(new.mtu),
            ssthresh: u64::MAX,
            recovery_start: None,
            acked: 0,
            hystart: HyStart::default(),
            events: 0,
        };
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
        // Appendix B.5.
        if app_limited || p.recovery_start.is_some_and(|start| sent <= start) {
            return;
        }
        if p.ssthresh == u64::MAX {
            // RFC 9406 section 4.3: for the initial slow start only.
            match p.hystart.on_ack(now, sent, bytes, rtt.latest()) {
                Growth::By(bytes) => p.window = p.window.saturating_add(bytes),
                Growth::Exit => p.ssthresh = p.window,
            }
        } else if p.window < p.ssthresh {
            p.window = p.window.saturating_add(bytes);
        } else {
            // Section 7.3.3, with integers as in RFC 3465 section 2.1.
            p.acked = p.acked.saturating_add(bytes);
            if p.acked >= p.window {
                p.acked -= p.window;
                p.window += u64::from(p.mtu);
            }
        }
        p.window = p.window.min(MAX_WINDOW);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let &CongestionEvent {
            path,
            now,
            newest_sent: sent,
            persistent,
            ..
        } = event;
        let Some(p) = self.paths.get_mut(path) else {
            return;
        };
        // Appendix B.6: once per recovery period.
        if p.recovery_start.is_none_or(|start| sent > start) {
            p.recovery_start = Some(now);
            p.window = (p.window / 2).max(minimum_window(p.mtu));
            p.ssthresh = p.window;
            p.acked = 0;
            p.events += 1;
        }
        // Section 7.6.2 and appendix B.8.
        if persistent {
            p.window = minimum_window(p.mtu);
            p.recovery_start = None;
            p.acked = 0;
        }
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        if let Some(p) = self.paths.get_mut(path) {
            let begun = p.ssthresh != u64::MAX;
            p.window = self.initial.on_mtu_update(p.window, begun, p.mtu, mtu);
            p.mtu = mtu;
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.window)
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.ssthresh)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.events)
    }
}
