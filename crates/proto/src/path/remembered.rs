//! What a path takes from the memory of earlier connections, and what it leaves there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathKey, PathMemory, SavedPath, Side};

use crate::congestion::{
    AckSummary, CarefulResume, Controller, InitialWindow, ResumeState, Steering,
};
use crate::recovery::RttEstimator;
use crate::{CongestionControl, EndpointConfig, FourTuple, TransportConfig};

/// Rounds after which the largest delivery rate is forgotten, at least and twice that at most: paths change.
const RATE_ROUNDS: u32 = 10;

/// Rounds that a path must have been used in full for its rate to count.
const LEAST_ROUNDS: u32 = 2;

/// Packets that must have been acknowledged without a queue before loss by chance is told of.
const LEAST_PACKETS: u64 = 100;

/// A round trip that exceeds the usual one by this part has met a queue.
const QUEUE_PART: u32 = 8;

/// The first one of a connection is the usual one, if it exceeds the shortest by no more than this part.
const USUAL_PART: u32 = 4;

/// Connections in a row that must have measured about the same for it to lower a path's initial window.
const CONFIDENT: u32 = 3;

/// How a connection tells the time to a memory: the time since the Unix epoch, at an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch(Option<(Instant, Duration)>);

impl Epoch {
    /// Without a clock it is always the epoch, and nothing ages.
    pub(crate) const fn new(config: &EndpointConfig) -> Self {
        Self(config.clock)
    }

    pub(crate) fn at(self, now: Instant) -> Duration {
        self.0.map_or(Duration::ZERO, |(then, since_epoch)| {
            let later = now.saturating_duration_since(then);
            let earlier = then.saturating_duration_since(now);
            since_epoch.saturating_add(later).saturating_sub(earlier)
        })
    }
}

/// The name of a network path in the memory of paths.
pub(crate) fn memory_key(side: Side, tuple: FourTuple) -> PathKey {
    match side {
        Side::Client => tuple.key(),
        Side::Server => tuple.client_network_key(),
    }
}

/// The largest delivery rate of the newest rounds in which the path was used in full.
#[derive(Debug, Default)]
struct RateFilter {
    newest: u64,
    before: u64,
    rounds: u32,
    round_ends: u64,
    /// Whether a sample of this round was not limited by what there was to send.
    full: bool,
    full_rounds: u32,
}

impl RateFilter {
    fn update(&mut self, ack: &AckSummary<'_>) {
        let sample = ack.sample;
        if sample.prior_delivered >= self.round_ends {
            self.round_ends = sample.total_delivered;
            self.full_rounds += u32::from(std::mem::take(&mut self.full));
            self.rounds += 1;
            if self.rounds >= RATE_ROUNDS && self.newest > 0 {
                self.rounds = 0;
                self.before = std::mem::take(&mut self.newest);
            }
        }
        if !sample.app_limited && sample.rate > 0.0 {
            self.full = true;
            self.newest = self.newest.max(sample.rate as u64);
        }
    }

    /// Bytes per second; 0 before the path was used in full for long enough.
    fn get(&self) -> u64 {
        if self.full_rounds < LEAST_ROUNDS {
            return 0;
        }
        self.newest.max(self.before)
    }
}

/// A path's part in a memory: what was known when it began, how it makes use of that, and what it has measured.
pub(crate) struct Remembered {
    memory: Arc<dyn PathMemory>,
    key: PathKey,
    epoch: Epoch,
    saved: Option<SavedPath>,
    resume: Option<CarefulResume>,
    /// Nobody else may begin with what is known of the path.
    claimed: bool,
    /// What was known has proved wrong.
    refuted: bool,
    rate: RateFilter,
    startup_window: u64,
    bottleneck: u64,
    in_startup: bool,
    /// What the controller makes of losses.
    steering: Option<Steering>,
    /// Packets acknowledged and lost while no queue was to be seen, about.
    quiet_acked: u64,
    quiet_lost: u64,
    /// What is acknowledged or lost until then may have been sent while the controller was probing.
    probed_until: Option<Instant>,
    newest: Option<Newest>,
    first: Option<First>,
    /// What it carried beside the others, of [`SavedPath::ALL_CARRIED`], and which of these carried the most.
    carried: Option<(u32, PathKey)>,
}

/// The round trip as of the newest acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Newest {
    at: Instant,
    min_rtt: Duration,
    smoothed_rtt: Duration,
    rtt_var: Duration,
}

/// The round trips of the first one.
#[derive(Debug, Clone, Copy)]
struct First {
    until: Instant,
    min_rtt: Duration,
}

impl Remembered {
    /// A path of this key begins. `None` without a memory.
    pub(crate) fn new(
        now: Instant,
        path: PathIndex,
        key: PathKey,
        epoch: Epoch,
        config: &TransportConfig,
    ) -> Option<Box<Self>> {
        let memory = Arc::clone(config.path_memory.as_ref()?);
        let resume = config.careful_resume;
        let saved = memory.look_up(key, epoch.at(now));
        //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
        //# If the Lifetime of the observed CC parameters is exceeded, this set of CC parameters are not used, the
        //# saved CC parameters are deleted and MUST stop using Careful Resume and returns to use normal CC.
        let stale = |saved: &SavedPath, lifetime| saved.age(epoch.at(now)) > lifetime;
        if let (Some(saved), Some(resume)) = (&saved, &resume)
            && stale(saved, resume.lifetime)
        {
            memory.forget(key);
        }
        let fresh = saved.filter(|saved| resume.is_some_and(|r| !stale(saved, r.lifetime)));
        let initial = config.initial_window.bytes(config.initial_mtu);
        let resume = fresh
            .zip(resume)
            .and_then(|(saved, resume)| CarefulResume::new(path, &saved, initial, resume.limits));
        Some(Box::new(Self {
            memory,
            key,
            epoch,
            saved: fresh,
            resume,
            claimed: false,
            refuted: false,
            rate: RateFilter::default(),
            startup_window: 0,
            bottleneck: 0,
            in_startup: true,
            steering: None,
            quiet_acked: 0,
            quiet_lost: 0,
            probed_until: None,
            newest: None,
            first: None,
            carried: None,
        }))
    }

    /// What was known of the path when it began, if that may be used.
    pub(crate) const fn saved(&self) -> Option<&SavedPath> {
        self.saved.as_ref()
    }

    /// What earlier connections saw of the bottleneck, bytes per second, and the round trip with which they began. Zeros if they saw
    /// nothing, or it proved wrong.
    pub(crate) fn known(&self) -> (u64, Duration) {
        match &self.saved {
            Some(saved) if !self.refuted => (saved.bottleneck, saved.first_rtt),
            _ => (0, Duration::ZERO),
        }
    }

    /// What the path carries in a round trip, if several connections found that to be less than `initial`: more at once
    /// would only fill its queue. The least of RFC 9002 section 7.2, two packets, is kept by who reads it.
    pub(crate) fn lower_window(&self, initial: InitialWindow, mtu: u16) -> Option<InitialWindow> {
        let saved = self.saved.as_ref()?;
        let slow = saved.rate > 0 && saved.window < initial.bytes(mtu);
        (slow && saved.confidence >= CONFIDENT).then_some(InitialWindow::Bytes(saved.window))
    }

    /// How far careful resume is, and the window that was jumped to.
    pub(crate) fn resume_state(&self) -> (ResumeState, u64) {
        self.resume
            .as_ref()
            .map_or_else(Default::default, |resume| (resume.state(), resume.jump()))
    }

    /// Whether acknowledgements must not enlarge the window now.
    #[inline(never)]
    pub(crate) fn holds_window(&self) -> bool {
        self.resume
            .as_ref()
            .is_some_and(CarefulResume::holds_window)
    }

    /// The rate that unvalidated packets are paced at, bytes per second.
    pub(crate) fn pace(&self) -> Option<f64> {
        self.resume.as_ref().and_then(CarefulResume::pace)
    }

    /// A packet that counts as in flight left.
    #[inline(never)]
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        number: u64,
        in_flight: u64,
        mtu: u16,
        rtt: &RttEstimator,
        controller: &mut dyn Controller,
    ) {
        if let Some(resume) = &mut self.resume {
            let (memory, key, claimed) = (&self.memory, self.key, &mut self.claimed);
            let claim = || {
                *claimed |= memory.claim(key);
                *claimed
            };
            resume.on_sent(now, number, in_flight, mtu, rtt, controller, claim);
        }
    }

    /// A packet that counted as in flight was newly acknowledged.
    #[inline(never)]
    pub(crate) fn on_packet_acked(&mut self, number: u64, size: u16) {
        if let Some(resume) = &mut self.resume {
            resume.on_packet_acked(number, size);
        }
    }

    /// An ACK frame was processed, `ack` tells what came of it, and the controller knows. `packets`: acknowledged and
    /// lost by it; `largest`: the largest number newly acknowledged; `bottleneck`: what is known of that now.
    #[inline(never)]
    pub(crate) fn on_ack_end(
        &mut self,
        ack: &AckSummary<'_>,
        largest: Option<u64>,
        packets: (usize, usize),
        bottleneck: u64,
        controller: &mut dyn Controller,
    ) {
        self.bottleneck = bottleneck;
        if let Some(resume) = &mut self.resume {
            let wrong = resume.on_ack_end(ack.now, largest, ack.in_flight, ack.rtt, controller);
            self.judge(wrong);
        }
        self.observe(ack, packets, controller);
    }

    /// Packets were declared lost because time has passed, and the controller knows.
    pub(crate) fn on_loss_timeout(
        &mut self,
        now: Instant,
        persistent: bool,
        controller: &mut dyn Controller,
    ) {
        if let Some(resume) = &mut self.resume {
            let wrong = if persistent {
                resume.on_persistent_congestion(now, controller)
            } else {
                resume.check_congestion(now, controller)
            };
            self.judge(wrong);
        }
    }

    //= specs/rfc9959-draft.md#3-5-safe-retreat-phase
    //# The set of saved CC parameters for the path are deleted, to prevent these from being used again by later
    //# flows.
    fn judge(&mut self, wrong: bool) {
        if wrong && !self.refuted {
            self.refuted = true;
            self.memory.forget(self.key);
        }
    }

    fn observe(
        &mut self,
        ack: &AckSummary<'_>,
        (acked, lost): (usize, usize),
        controller: &dyn Controller,
    ) {
        let rtt = ack.rtt;
        self.newest = Some(Newest {
            at: ack.now,
            min_rtt: rtt.min(),
            smoothed_rtt: rtt.smoothed(),
            rtt_var: rtt.var(),
        });
        let first = self.first.get_or_insert_with(|| First {
            until: ack.now + rtt.smoothed(),
            min_rtt: rtt.min(),
        });
        if ack.now <= first.until {
            first.min_rtt = rtt.min();
        }
        self.steering = controller.steering(ack.path).or(self.steering);
        // Section 4.6: what is measured by a jump is no measure of the path's capacity yet.
        let jumping = self
            .resume
            .as_ref()
            .is_some_and(|resume| resume.state().is_active() && resume.jump() > 0);
        if !jumping {
            self.rate.update(ack);
        }
        // Round trips vary: most are above the shortest, and no more than this part of it without a queue.
        let usual = first
            .min_rtt
            .min(rtt.min().saturating_add(rtt.min() / USUAL_PART));
        let quiet = usual.saturating_add(usual / QUEUE_PART);
        // A queue of a few packets is shorter than what round trips vary by. It overflows when more is sent than it drains.
        if controller.is_probing(ack.path) {
            self.probed_until = Some(ack.now + rtt.smoothed());
        }
        let probed = self.probed_until.is_some_and(|until| ack.now <= until);
        if rtt.latest() <= quiet && !probed {
            self.quiet_acked += acked as u64;
            self.quiet_lost += lost as u64;
        }
        if self.in_startup && !jumping && !controller.in_slow_start(ack.path) {
            self.in_startup = false;
            self.startup_window = controller.window(ack.path);
            self.deposit();
        }
    }

    /// The name of the path in the memory.
    pub(super) const fn key(&self) -> PathKey {
        self.key
    }

    /// The connection ends: this part of what it received came on the path, and the most of the rest on that one.
    pub(super) const fn on_carried(&mut self, part: u32, beside: PathKey) {
        self.carried = Some((part, beside));
    }

    /// What it carried beside another path, put together with what was known before.
    fn usefulness(&self, known: Option<&SavedPath>) -> (u32, Option<PathKey>) {
        match (self.carried, known) {
            (Some((part, beside)), Some(known)) if known.beside == Some(beside) => {
                (u32::midpoint(part, known.carried), Some(beside))
            }
            (Some((part, beside)), _) => (part, Some(beside)),
            (None, Some(known)) => (known.carried, known.beside),
            (None, None) => (0, None),
        }
    }

    /// What the path has measured, put together with what was known before. `None` before the first round trip.
    fn measured(&self) -> Option<SavedPath> {
        let newest = self.newest?;
        let mut measured = SavedPath::new(newest.min_rtt, self.epoch.at(newest.at));
        measured.first_rtt = self.first.map_or(newest.min_rtt, |first| first.min_rtt);
        measured.smoothed_rtt = newest.smoothed_rtt;
        measured.rtt_var = newest.rtt_var;
        measured.startup_window = self.startup_window;
        measured.bottleneck = self.bottleneck;
        let known = self.saved.filter(|_| !self.refuted);
        let packets = self.quiet_acked + self.quiet_lost;
        if packets >= LEAST_PACKETS {
            measured.chance_loss = (self.quiet_lost * 1_000_000 / packets) as u32;
        } else if let Some(known) = &known {
            measured.chance_loss = known.chance_loss;
        }
        if let Some(steering) = self.steering {
            measured.bbr = steering.by == CongestionControl::Bbr;
            if measured.bbr {
                // It knows when it has probed, and so more of the losses at other times.
                measured.chance_loss = measured.chance_loss.max(steering.chance_loss);
            }
            measured.refusals = steering.refusals;
            measured.loss_events = steering.loss_events;
            measured.chance_events = steering.chance_events;
        } else if let Some(known) = &known {
            (measured.bbr, measured.refusals) = (known.bbr, known.refusals);
            measured.loss_events = known.loss_events;
            measured.chance_events = known.chance_events;
        }
        (measured.carried, measured.beside) = self.usefulness(known.as_ref());
        measured.rate = self.rate.get();
        let Some(known) = known else {
            measured.window = window_of(measured.rate, measured.min_rtt);
            return Some(measured);
        };
        if measured.rate == 0 {
            // Section 4.1: a sender that had little to send has seen nothing of the path's capacity. What is known of that
            // stays, and is as old as it is.
            (measured.rate, measured.window) = (known.rate, known.window);
            measured.startup_window = known.startup_window;
            (measured.confidence, measured.seen) = (known.confidence, known.seen);
            return Some(measured);
        }
        if measured.agrees_with(&known) {
            measured.confidence = known
                .confidence
                .saturating_add(1)
                .clamp(1, SavedPath::MAX_CONFIDENCE);
        }
        if measured.startup_window == 0 {
            measured.startup_window = known.startup_window;
        }
        measured.window = window_of(measured.rate, measured.min_rtt);
        Some(measured)
    }

    /// Leaves in the memory what the path has measured.
    fn deposit(&self) {
        if let Some(measured) = self.measured() {
            self.memory.remember(self.key, &measured);
        }
    }

    /// The path is over, or the connection is.
    pub(crate) fn leave(&mut self) {
        self.deposit();
        self.newest = None;
        if std::mem::take(&mut self.claimed) {
            self.memory.release(self.key);
        }
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.leave();
    }
}

/// saved_cwnd: what is delivered in the shortest round trip, so that a queue adds nothing to it.
//= specs/rfc9959-draft.md#3-1-observing
//# The currently utilised capacity for the connection is measured as the volume of bytes sent during an RTT and is
//# recorded in the saved_cwnd.
fn window_of(rate: u64, min_rtt: Duration) -> u64 {
    let bytes = u128::from(rate) * min_rtt.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
