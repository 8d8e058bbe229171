//! BBRv3 (draft-ietf-ccwg-bbr of August 2026): a model of each path from delivery rate, round trip
//! and loss decides pace and window; detects no losses and sends nothing.
//!
//! Sections in these files are those of the draft. One uncoupled state per path:
//!
//! | file | part |
//! |---|---|
//! | `path` | the state of a path, and the order of the steps per acknowledgement |
//! | `bandwidth`, `min_rtt`, `aggregation` | the filters of the model |
//! | `startup`, `probe_bw`, `probe_rtt` | the state machine |
//! | `train` | what the first packets of a round tell of the rate |
//! | `congestion` | what loss does to the model, and how a spurious one is taken back |
//! | `ambient` | loss that no slowing down cures |
//! | `resume` | careful resume: a Startup that begins at half of a remembered rate |
//! | `take_over` | a Startup on a path that another controller has used before |
//! | `control` | pace, quantum and window |
//!
//! Beyond the draft, or where it leaves the choice:
//!
//! - **Ambient loss** (`ambient`): on a path that loses packets however little is sent, the draft's
//!   steady state sends less and less. Loss that stays when the path is relieved is measured, and
//!   only what exceeds it counts as congestion. A path without such loss is treated to the letter.
//! - **Consideration** (`take_over`): where it takes a path over from CUBIC, it has no more in flight than fills the path, less
//!   while a queue stands in the cruise, and a quarter more while it probes, until the probe has made a queue. So others keep what
//!   they can use. A flow that is BBRv3 from the start does none of that.
//! - **Persistent congestion** (RFC 9002 section 7.6) takes the place of TCP's retransmission
//!   timeout, and the window falls to RFC 9002's minimum. A probe timeout changes nothing.
//! - **ECN**: a round with new CE marks is a round with too much loss (section 3.7 asks for a
//!   response and leaves open which).
//! - **Packet trains** (`startup`, `train`): unless another slow start is asked for, the packets of the initial
//!   window tell the rate of the narrowest link by how they arrive. Startup goes there at once, is careful beyond it,
//!   and is over sooner once that rate is reached or a queue has grown.
//! - Rounds in which the scheduler or flow control held data back count as limited by the
//!   application: with several paths, that tells nothing of the path.

mod aggregation;
mod ambient;
mod bandwidth;
mod congestion;
mod control;
mod min_rtt;
mod path;
mod probe_bw;
mod probe_rtt;
mod resume;
mod startup;
mod take_over;
#[cfg(test)]
mod tests;

use std::time::Instant;

use mpquic_sched_core::PathIndex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::controller::Slots;
use super::{
    AckSummary, AckedPacket, CongestionEvent, Controller, InitialWindow, LostPacket, NewPath,
    ResumeStep, SentPacket, SlowStart, SpuriousLoss,
};
use crate::RttEstimator;
use path::{Path, State};
pub(super) use take_over::{Known, Round};

/// The controller.
pub(super) struct Bbr {
    initial: InitialWindow,
    /// Whether Startup is rapid.
    rapid: bool,
    paths: Slots<Path>,
    /// For the time between probes, so that flows do not probe in step (section 5.3.3.8).
    rng: StdRng,
}

impl Bbr {
    /// A controller without paths, with a random number generator of its own.
    pub(super) fn new(
        initial: InitialWindow,
        slow_start: Option<SlowStart>,
        seed: [u8; 32],
    ) -> Self {
        Self {
            initial,
            rapid: slow_start
                .is_none_or(|chosen| matches!(chosen, SlowStart::Rapid | SlowStart::Train)),
            paths: Slots::default(),
            rng: StdRng::from_seed(seed),
        }
    }
}

impl Controller for Bbr {
    fn add_path(&mut self, new: &NewPath) {
        let initial = new.initial_window.unwrap_or(self.initial);
        let state = Path::new(new.now, new.mtu, initial, self.rapid);
        self.paths.set(new.path, Some(state));
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.paths.set(path, None);
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        if let Some(p) = self.paths.get_mut(packet.path) {
            p.on_sent(packet.in_flight);
        }
    }

    fn on_packet_acked(&mut self, _packet: &AckedPacket<'_>) {
        // The model goes by whole ACK frames.
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        if let Some(p) = self.paths.get_mut(packet.path) {
            p.on_lost(packet, &mut self.rng);
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let Some(p) = self.paths.get_mut(event.path) else {
            return;
        };
        if event.ecn {
            p.ce_marked = true;
        }
        if event.persistent {
            p.on_persistent_congestion(event.now);
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        if let Some(p) = self.paths.get_mut(loss.path) {
            p.on_spurious_loss(loss.newest_sent, loss.bytes);
        }
    }

    fn on_ack_end(&mut self, ack: &AckSummary<'_>) -> bool {
        match self.paths.get_mut(ack.path) {
            Some(p) => p.on_ack(ack, &mut self.rng),
            None => false,
        }
    }

    fn on_restart(&mut self, path: PathIndex, now: Instant) {
        if let Some(p) = self.paths.get_mut(path) {
            p.on_restart(now, &mut self.rng);
        }
    }

    fn on_resume(&mut self, path: PathIndex, _now: Instant, step: &ResumeStep) -> bool {
        match self.paths.get_mut(path) {
            Some(p) => p.on_resume(step),
            None => false,
        }
    }

    fn pacing_rate(&self, path: PathIndex, rtt: &RttEstimator) -> Option<f64> {
        Some(self.paths.get(path)?.pacing_rate(rtt))
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        if let Some(p) = self.paths.get_mut(path) {
            p.on_mtu_update(mtu);
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.cwnd)
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        match self.paths.get(path) {
            Some(p) if p.pipe.reached => p.target_inflight(),
            Some(_) => u64::MAX,
            None => 0,
        }
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        let state = self.paths.get(path).map(|p| p.state);
        state == Some(State::Startup)
    }

    fn is_probing(&self, path: PathIndex) -> bool {
        let mut paths = self.paths.get(path).into_iter();
        paths.any(|p| p.state.is_probing() || p.state == State::Drain)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.congestion_events)
    }
}
