//! `auto`: CUBIC that does not take losses by chance for congestion; detects no losses and measures no rates.
//!
//! On a radio link that loses one packet in a hundred, CUBIC's window is that of the loss and not that of the path. So each
//! loss event is judged ([`LossJudge`]): what a queue has dropped reduces the window as RFC 9438 has it, and what was lost by
//! chance does not, within bounds.
//!
//! - **The newest losses decide**, and not one: chance has to explain most of them, and no plain queue may stand.
//! - **So much and no more**: a tenth of the window is forgiven in a round trip, or one packet. More is answered at once.
//! - **Relief** is the proof. Chance loses as much when less is sent, and a queue does not: a policer, a queue of a few
//!   packets, one that is shorter than what delay varies by. After some forgiven losses the window is reduced once
//!   nevertheless, and what is lost then is counted. If losses become fewer, they were ours: from then on none is forgiven for
//!   a time that doubles with each such end.
//! - **Slow start begins again** where losses by chance have held the window down and no queue was seen for some round trips:
//!   CUBIC's curve would take its time.
//!
//! - **Paths that share a bottleneck grow as one**, as far as their losses show that they do.
//!
//! Everything else, such as slow start and careful resume, is that of [`Cubic`].
//!
//! **BBRv3 takes over** ([`Stay`]) where chance explains most losses, and until its losses or a standing queue speak against it.
//! Then CUBIC goes on with what was found, and the next time is later. It is a considerate BBRv3: what it has in flight fills
//! the path and hardly a queue, so that flows that do not forgive losses keep what these leave to them.

mod memory;
mod path;
mod shared;
mod stay;

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathSet, SavedPath};

use super::bbr::Bbr;
use super::controller::Slots;
use super::cubic::Cubic;
use super::{
    AckSummary, AckedPacket, CongestionControl, CongestionEvent, Controller, ControllerState,
    InitialWindow, LossCauses, LostPacket, NewPath, ResumeStep, RttEstimator, SentPacket,
    SlowStart, SpuriousLoss, Steering,
};
use path::{MOST_LOST, Path, Tally};
use stay::Reason;

/// Before so many packets were delivered, and none was lost, nothing is watched: most connections end with fewer or stay idle.
const WATCHED: u64 = 8;

/// A path, which is watched from some packets on.
#[derive(Debug)]
struct Slot {
    mtu: u16,
    watched: Option<Box<Path>>,
}

/// The controller. Small while no path is watched: an idle connection is.
pub(super) struct Auto {
    cubic: Cubic,
    /// Of the paths that it steers; once there is one.
    bbr: Option<Box<Bbr>>,
    /// These paths: asked for at each packet.
    handed: PathSet,
    slow_start: Option<SlowStart>,
    /// Of BBRv3.
    seed: [u8; 8],
    paths: Slots<Slot>,
}

impl Auto {
    pub(super) fn new(
        initial: InitialWindow,
        slow_start: Option<SlowStart>,
        seed: [u8; 32],
    ) -> Self {
        Self {
            cubic: Cubic::new(initial, slow_start.unwrap_or_default()),
            bbr: None,
            handed: PathSet::EMPTY,
            slow_start,
            seed: std::array::from_fn(|i| seed[i]),
            paths: Slots::default(),
        }
    }

    fn watched(&self, path: PathIndex) -> Option<&Path> {
        self.paths.get(path)?.watched.as_deref()
    }

    fn watched_mut(&mut self, path: PathIndex) -> Option<&mut Path> {
        self.paths.get_mut(path)?.watched.as_deref_mut()
    }

    /// The path is watched from now on. `shortest`: the shortest of the round trips that were not, if there were any.
    fn watch(&mut self, path: PathIndex, shortest: Option<Duration>) -> Option<&mut Path> {
        let slot = self.paths.get_mut(path)?;
        let begin = || Box::new(Path::new(slot.mtu, shortest.unwrap_or(Duration::MAX)));
        Some(slot.watched.get_or_insert_with(begin))
    }

    /// BBRv3, which most connections never need.
    fn bbr(&mut self) -> &mut Bbr {
        let seed = std::array::from_fn(|i| self.seed[i % self.seed.len()]);
        let make = || Box::new(Bbr::new(self.cubic.initial, self.slow_start, seed));
        self.bbr.get_or_insert_with(make)
    }

    /// BBRv3, if it steers the path.
    #[inline]
    fn handed(&self, path: PathIndex) -> Option<&Bbr> {
        if !self.handed.contains(path) {
            return None;
        }
        self.bbr.as_deref()
    }

    #[inline]
    fn handed_mut(&mut self, path: PathIndex) -> Option<&mut Bbr> {
        if !self.handed.contains(path) {
            return None;
        }
        self.bbr.as_deref_mut()
    }

    /// An ACK frame of a path that BBRv3 steers.
    fn on_ack_of_stay(&mut self, ack: &AckSummary<'_>) -> bool {
        let Some(bbr) = &mut self.bbr else {
            return false;
        };
        let held_back = bbr.on_ack_end(ack);
        let slot = self.paths.get_mut(ack.path);
        let (Some(p), Some(round)) = (slot.and_then(|s| s.watched.as_mut()), bbr.round(ack.path))
        else {
            return held_back;
        };
        let Some(stay) = &mut p.stay else {
            return held_back;
        };
        let ended = stay.on_ack(
            (ack.now, ack.newest_sent),
            ack.sample.newly_acked,
            ack.rtt_sample,
            (p.judge.min_rtt(), ack.rtt.var()),
            round,
            p.judge.chance_share(),
        );
        let Some(reason) = ended else {
            return held_back;
        };
        // What BBRv3 found fills the path, unless it found that at the cost of others.
        let found = bbr.bdp(ack.path);
        let window = match reason {
            Reason::Losses => found.min(stay.window),
            _ => found,
        };
        p.stay = None;
        p.end_stay(reason, ack.now);
        p.past_events += bbr.congestion_events(ack.path);
        bbr.remove_path(ack.path);
        self.handed.remove(ack.path);
        self.cubic.settle(ack.path, window, ack.now);
        false
    }

    /// The path ends, if there is one.
    fn forget(&mut self, path: PathIndex) {
        if let Some(bbr) = self.handed_mut(path) {
            bbr.remove_path(path);
        }
        self.handed.remove(path);
        self.part(path);
    }

    fn steers(&self, path: PathIndex) -> &dyn Controller {
        match self.handed(path) {
            Some(bbr) => bbr,
            None => &self.cubic,
        }
    }

    fn steers_mut(&mut self, path: PathIndex) -> &mut dyn Controller {
        // Not by `handed_mut`, which would borrow all of it for both arms.
        match (self.handed(path).is_some(), &mut self.bbr) {
            (true, Some(bbr)) => &mut **bbr,
            _ => &mut self.cubic,
        }
    }

    /// The first packets of a path were acknowledged.
    #[cold]
    #[inline(never)]
    fn begin_watch(&mut self, ack: &AckSummary<'_>) {
        let mtu = self.paths.get(ack.path).map_or(0, |slot| slot.mtu);
        if ack.sample.total_delivered >= WATCHED * u64::from(mtu)
            && let Some(p) = self.watch(ack.path, Some(ack.rtt.min()))
        {
            p.count(ack);
        }
    }

    /// An ACK frame for which there is more to do than to count it.
    #[inline(never)]
    fn on_ack(&mut self, ack: &AckSummary<'_>) -> bool {
        let path = ack.path;
        let window = self.cubic.window(path);
        let slow_start = self.cubic.in_slow_start(path);
        let Some(p) = self.watched_mut(path) else {
            return false;
        };
        let before = p.on_ack(ack, window, slow_start);
        if p.stay.is_some() {
            return self.on_ack_of_stay(ack);
        }
        if p.hands_over {
            let window = before.map_or(window, |before| before.window.max(window));
            let known = p.begin_stay(ack, window);
            self.bbr().take_over(path, &known);
            self.handed.insert(path);
        } else if let Some(before) = before {
            if before.slow_start {
                self.cubic.reopen(path);
            }
            self.cubic.raise(path, before.window);
        }
        false
    }
}

impl Controller for Auto {
    fn add_path(&mut self, new: &NewPath) {
        self.forget(new.path);
        self.cubic.add_path(new);
        let (mtu, watched) = (new.mtu, None);
        self.paths.set(new.path, Some(Slot { mtu, watched }));
        let judged = |saved: &&SavedPath| saved.loss_events > 0 || saved.refusals > 0;
        if let Some(saved) = new.saved.as_ref().filter(judged) {
            self.recall(new, saved);
        }
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.forget(path);
        self.cubic.remove_path(path);
        self.paths.set(path, None);
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        match self.handed_mut(packet.path) {
            Some(bbr) => bbr.on_packet_sent(packet),
            None => self.cubic.on_packet_sent(packet),
        }
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        match self.handed_mut(packet.path) {
            Some(bbr) => bbr.on_packet_acked(packet),
            None => self.cubic.on_packet_acked(packet),
        }
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        if let Some(p) = self.watch(packet.path, None) {
            p.on_lost(packet);
        }
        self.steers_mut(packet.path).on_packet_lost(packet);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let path = event.path;
        if let Some(bbr) = self.handed_mut(path) {
            let probing = bbr.is_probing(path);
            bbr.on_congestion_event(event);
            if let Some(p) = self.watched_mut(path).filter(|_| !event.ecn) {
                p.on_loss_of_stay(event, probing);
            }
            return;
        }
        if event.ecn {
            // A mark is never made by chance.
            self.cubic.on_congestion_event(event);
            return;
        }
        let window = self.cubic.window(path);
        let slow_start = self.cubic.in_slow_start(path);
        let Some(p) = self.watch(path, None) else {
            return;
        };
        if p.on_loss(event, window, slow_start) {
            let began = p.began(event.now) && !slow_start;
            self.cubic.on_congestion_event(event);
            if began {
                self.on_overflow(path, event.now);
            }
        } else if !slow_start && p.reopens(event.now) {
            self.cubic.reopen(path);
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        self.steers_mut(loss.path).on_spurious_loss(loss);
    }

    fn on_ack_end(&mut self, ack: &AckSummary<'_>) -> bool {
        match self.watched_mut(ack.path) {
            Some(p) => p.count(ack) && self.on_ack(ack),
            None => {
                self.begin_watch(ack);
                false
            }
        }
    }

    fn on_restart(&mut self, path: PathIndex, now: Instant) {
        self.steers_mut(path).on_restart(path, now);
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        if let Some(p) = self.watch(path, None) {
            p.resuming = match step {
                ResumeStep::Jump { .. } | ResumeStep::Retreat { .. } => true,
                ResumeStep::Settle { validating, .. } => *validating,
                ResumeStep::Validated | ResumeStep::Leave { .. } => false,
            };
        }
        self.steers_mut(path).on_resume(path, now, step)
    }

    fn pacing_rate(&self, path: PathIndex, rtt: &RttEstimator) -> Option<f64> {
        match self.handed(path) {
            Some(bbr) => bbr.pacing_rate(path, rtt),
            None => self.cubic.pacing_rate(path, rtt),
        }
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        self.cubic.on_mtu_update(path, mtu);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_mtu_update(path, mtu);
        }
        if let Some(slot) = self.paths.get_mut(path) {
            slot.mtu = mtu;
            if let Some(p) = &mut slot.watched {
                p.mtu = mtu;
            }
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        match self.handed(path) {
            Some(bbr) => bbr.window(path),
            None => self.cubic.window(path),
        }
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        match self.handed(path) {
            Some(bbr) => bbr.ssthresh(path),
            None => self.cubic.ssthresh(path),
        }
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        match self.handed(path) {
            Some(bbr) => bbr.in_slow_start(path),
            None => self.cubic.in_slow_start(path),
        }
    }

    /// Asked for before each packet: who steers is looked up once.
    fn path_state(&self, path: PathIndex, rtt: &RttEstimator) -> ControllerState {
        match self.handed(path) {
            Some(bbr) => bbr.path_state(path, rtt),
            None => self.cubic.path_state(path, rtt),
        }
    }

    fn is_probing(&self, path: PathIndex) -> bool {
        self.steers(path).is_probing(path)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        let past = self.watched(path).map_or(0, |p| p.past_events);
        let bbr = self
            .bbr
            .as_ref()
            .map_or(0, |bbr| bbr.congestion_events(path));
        past + bbr + self.cubic.congestion_events(path)
    }

    fn loss_causes(&self, path: PathIndex) -> LossCauses {
        self.watched(path)
            .map_or_else(LossCauses::default, |p| p.judge.causes())
    }

    fn steering(&self, path: PathIndex) -> Option<Steering> {
        let p = self.watched(path)?;
        let tenths = |sum: f32| (sum * 10.0).round() as u32;
        Some(Steering {
            by: match p.stay {
                Some(_) => CongestionControl::Bbr,
                None => CongestionControl::Cubic,
            },
            refusals: (p.returns + p.refused).saturating_sub(p.recalled),
            loss_events: tenths(p.judge.event_sum()),
            chance_events: tenths(p.judge.chance_sum()),
            chance_loss: p.chance_loss(),
        })
    }
}
