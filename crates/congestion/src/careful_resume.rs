//! Careful resume (RFC 9959): how a path that is remembered jumps to half of what it carried, and how it leaves that
//! again if it was too much. It sends nothing and holds no window: the controller does.
//!
//! The phases are those of section 3. A phase is left by what is sent, acknowledged or lost on the path:
//!
//! | phase | entered when | window |
//! |---|---|---|
//! | Reconnaissance | the path opens | as ever |
//! | Unvalidated | a fresh round trip agrees with the saved one, and the window is full | half of the saved one |
//! | Validating | a round trip has passed, the window is full, or an unvalidated packet is acknowledged | what is in flight |
//! | Safe Retreat | congestion, before the last unvalidated packet is acknowledged | half of what is validated |
//!
//! A round trip that is longer than the saved one tells of a queue, and a queue of others who use the path now: the
//! more of it, the less of a jump.
//!
//! What counts as congestion is for the controller to say: a loss for most of them, too many losses for BBR.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, SavedPath};

use super::Controller;
use crate::RttEstimator;

/// What a path must have shown before it may jump to half of what it carried before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reconnaissance {
    /// The initial data that was sent on the path is acknowledged, and gave a round-trip time: on the first path
    /// the packets of the handshake, on a further path those of its validation. What follows may jump at once.
    #[default]
    FirstFlight,
    /// A whole initial window is acknowledged, which takes one round trip more.
    InitialWindow,
}

/// How far and how soon a path may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeLimits {
    /// The largest window that a path may jump to, bytes: max_jump.
    pub max_jump: u64,
    /// What a path must have shown before.
    pub reconnaissance: Reconnaissance,
}

impl Default for ResumeLimits {
    fn default() -> Self {
        Self {
            max_jump: 4 << 20,
            reconnaissance: Reconnaissance::default(),
        }
    }
}

/// What careful resume asks of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeStep {
    /// The Unvalidated Phase begins: the window becomes this large, and is paced over this round trip. Packets that
    /// are acknowledged before the next step must not enlarge it.
    Jump {
        /// Half of the saved window, or less, bytes.
        window: u64,
        /// The current RTT.
        rtt: Duration,
        /// Packets that the path is known to lose by chance, per million.
        chance_loss: u32,
    },
    /// The Unvalidated Phase is over: the window becomes this large, and grows as ever.
    Settle {
        /// What is in flight, or what was validated if that is more, bytes.
        window: u64,
        /// Whether packets are still to be validated.
        validating: bool,
    },
    /// All unvalidated packets arrived: careful resume is over.
    Validated,
    /// There was congestion: the window becomes this large at most, and must not grow before the next step.
    Retreat {
        /// Half of what was validated, bytes.
        window: u64,
    },
    /// The Safe Retreat Phase is over: the slow start threshold becomes this at most.
    Leave {
        /// Half of what the path has delivered, bytes.
        ssthresh: u64,
    },
}

/// How far careful resume is on a path, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ResumeState {
    /// Nothing usable is remembered of the path.
    #[default]
    Off,
    /// The path is being compared with what is remembered.
    Reconnaissance,
    /// More is being sent than a new path would be given.
    Unvalidated,
    /// The acknowledgements of these packets are awaited.
    Validating,
    /// There was congestion, and the path drains.
    SafeRetreat,
    /// All unvalidated packets arrived.
    Validated,
    /// There was too little to send to make use of the jump.
    RateLimited,
    /// There was congestion after the jump, and the path has drained.
    Retreated,
    /// The round-trip time is not the remembered one.
    RttChanged,
    /// The round-trip time tells of a queue: others use the path now.
    QueueSeen,
    /// There was congestion before the jump.
    Congested,
    /// The window was as large already, or the controller takes no jump, or another connection has jumped.
    Refused,
}

impl ResumeState {
    /// Whether careful resume is still at work.
    #[inline]
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Reconnaissance | Self::Unvalidated | Self::Validating | Self::SafeRetreat
        )
    }
}

/// The least saved window that is worth a jump, in initial windows: half of it is more than a path begins with.
const LEAST_SAVED: u64 = 2;

/// One by Beta of section 3.5, where a queue stands.
const BETA_DIVISOR: u64 = 2;

/// Section 4.2.1: a round trip so many times as long is another path's.
const LONGEST_RTT: u32 = 10;

/// So many round trips after an RTT sample, it says nothing of the path as it is now: others may have begun to send.
const FRESH_ROUNDS: u32 = 4;

/// A round trip that exceeds the saved one by more than this part of it, or by more than this time if that is longer,
/// has met a short queue or a long one. RFC 9959 section 4.2.1 leaves the bound to the sender.
const SHORT_QUEUE: (u32, Duration) = (8, Duration::from_millis(2));
const LONG_QUEUE: (u32, Duration) = (4, Duration::from_millis(5));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reconnaissance,
    /// `first`: the first packet number of the phase.
    Unvalidated {
        first: u64,
        since: Instant,
        rtt: Duration,
    },
    /// `first` and `last`: the packet numbers of the Unvalidated Phase.
    Validating {
        first: u64,
        last: u64,
    },
    SafeRetreat {
        first: u64,
        last: u64,
    },
    Over(ResumeState),
}

/// Careful resume (RFC 9959) on one path: how a path of which something is remembered jumps to half of what it carried, and
/// how it leaves that again if it was too much. It holds no window: the controller does. Packet numbers are those of the path's 1-RTT packets.
#[derive(Debug)]
pub struct CarefulResume {
    path: PathIndex,
    limits: ResumeLimits,
    /// saved_cwnd.
    saved_window: u64,
    saved_rtt: Duration,
    /// The round trip that the connection saw at its begin which has measured the rest.
    first_rtt: Duration,
    chance_loss: u32,
    initial_window: u64,
    phase: Phase,
    pipe_size: u64,
    /// The window after the jump; 0 before.
    jump: u64,
    /// Congestion events of the path that are answered.
    events: u64,
    /// Bytes delivered on the path.
    delivered: u64,
    largest_sent: u64,
    recent: Option<Recent>,
}

/// The smallest RTT sample of a few round trips.
#[derive(Debug, Clone, Copy)]
struct Recent {
    since: Instant,
    newest: Instant,
    min: Duration,
}

impl CarefulResume {
    /// A path of which this is remembered begins. `None` if a jump would not be worth while.
    pub fn new(
        path: PathIndex,
        saved: &SavedPath,
        initial_window: u64,
        limits: ResumeLimits,
    ) -> Option<Self> {
        let (saved_window, saved_rtt) = (saved.window, saved.min_rtt);
        let worth =
            saved_window / LEAST_SAVED >= initial_window && limits.max_jump > initial_window;
        (worth && saved_rtt > Duration::ZERO).then_some(Self {
            path,
            limits,
            saved_window,
            saved_rtt,
            first_rtt: saved.first_rtt.max(saved_rtt),
            chance_loss: saved.chance_loss,
            initial_window,
            phase: Phase::Reconnaissance,
            pipe_size: 0,
            jump: 0,
            events: 0,
            delivered: 0,
            largest_sent: 0,
            recent: None,
        })
    }

    /// The phase, or how it ended.
    #[inline]
    pub const fn state(&self) -> ResumeState {
        match self.phase {
            Phase::Reconnaissance => ResumeState::Reconnaissance,
            Phase::Unvalidated { .. } => ResumeState::Unvalidated,
            Phase::Validating { .. } => ResumeState::Validating,
            Phase::SafeRetreat { .. } => ResumeState::SafeRetreat,
            Phase::Over(end) => end,
        }
    }

    /// The window that was jumped to, bytes; 0 if there was no jump.
    #[inline]
    pub const fn jump(&self) -> u64 {
        self.jump
    }

    /// Whether acknowledgements must not enlarge the window now.
    #[inline]
    pub const fn holds_window(&self) -> bool {
        matches!(
            self.phase,
            Phase::Unvalidated { .. } | Phase::SafeRetreat { .. }
        )
    }

    /// The rate to pace at in the Unvalidated Phase, bytes per second.
    //= specs/rfc9959-draft.md#3-3-unvalidated-phase
    //# - Unvalidated Phase (Pacing transmission): All packets sent in the Unvalidated Phase MUST use pacing based on
    //# the current RTT.
    #[inline]
    pub fn pace(&self) -> Option<f64> {
        match self.phase {
            Phase::Unvalidated { rtt, .. } => {
                let nanos = rtt.as_nanos().max(1) as f64;
                Some(self.jump as f64 * 1e9 / nanos)
            }
            _ => None,
        }
    }

    /// A packet of this number left, after which `in_flight` bytes are in flight. `claim` makes sure that no other
    /// connection jumps by the same memory; it is called once at most.
    #[inline]
    pub fn on_sent(
        &mut self,
        now: Instant,
        number: u64,
        in_flight: u64,
        mtu: u16,
        rtt: &RttEstimator,
        controller: &mut dyn Controller,
        claim: impl FnOnce() -> bool,
    ) {
        self.largest_sent = number;
        let packet = u64::from(mtu);
        match self.phase {
            // RFC 9959 section 3.2: the transition may wait until more is sent than would normally be permitted. A path
            // with little to send stays here, and loses nothing by it.
            Phase::Reconnaissance if in_flight + packet > controller.window(self.path) => {
                self.consider_jump(now, in_flight, rtt, controller, claim);
            }
            Phase::Unvalidated { since, rtt, .. } => {
                let elapsed = now.saturating_duration_since(since);
                if in_flight + packet > self.jump || elapsed > rtt {
                    self.leave_unvalidated(now, in_flight, controller);
                }
            }
            _ => {}
        }
    }

    /// The window is full. Begins the Unvalidated Phase if all is as it was.
    fn consider_jump(
        &mut self,
        now: Instant,
        in_flight: u64,
        rtt: &RttEstimator,
        controller: &mut dyn Controller,
        claim: impl FnOnce() -> bool,
    ) {
        //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
        //# - Reconnaissance Phase (Path confirmed): When the sender has received an ACK that acknowledges all the
        //# initial data (usually the IW) without reported congestion, it MAY then enter the Unvalidated Phase.
        let all_arrived = self.delivered >= self.initial_window;
        let confirmed = match self.limits.reconnaissance {
            Reconnaissance::FirstFlight => true,
            Reconnaissance::InitialWindow => all_arrived,
        };
        let Some(recent) = self.fresh_rtt(now, rtt).filter(|_| confirmed) else {
            return;
        };
        //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
        //# - Reconnaissance Phase (Minimum RTT too small): If the minimum RTT recorded in the Reconnaissance Phase is
        //# less than or equal to (saved_rtt / 2) (see Section 4.2.1), the sender MUST stop using Careful Resume
        //# (e.g., logged as rtt_not_validated in [LOG]) and returns to use normal CC.
        let shorter = rtt.min() <= self.saved_rtt / 2;
        // Section 4.2.1: more than ten times the saved one.
        let longer = rtt.min() > self.saved_rtt.saturating_mul(LONGEST_RTT);
        if shorter || longer {
            self.phase = Phase::Over(ResumeState::RttChanged);
            return;
        }
        //= specs/rfc9959-draft.md#3-3-unvalidated-phase
        //# - Unvalidated Phase (Setting the jump_cwnd): To avoid starving other flows that could have either started
        //# or increased their use of capacity since observing the capacity of a path, the jump_cwnd MUST be no more
        //# than half of the saved_cwnd.
        let half = self.saved_window / 2;
        if self.has_queue(recent, LONG_QUEUE) {
            // Hosts are slow at times: a whole initial window may still show that there is no queue.
            if all_arrived {
                self.phase = Phase::Over(ResumeState::QueueSeen);
            }
            return;
        }
        let fair = match self.has_queue(recent, SHORT_QUEUE) {
            true => half / 2,
            false => half,
        };
        let jump = fair.min(self.limits.max_jump);
        let current = rtt.smoothed();
        let step = ResumeStep::Jump {
            window: jump,
            rtt: current,
            chance_loss: self.chance_loss,
        };
        //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
        //# If another connection has already started to use the saved_cwnd, the sender MUST exit Careful
        //# Resume and return to use normal CC.
        let possible = jump > controller.window(self.path) && claim();
        if !possible || !controller.on_resume(self.path, now, &step) {
            self.phase = Phase::Over(ResumeState::Refused);
            return;
        }
        self.jump = jump;
        //= specs/rfc9959-draft.md#3-3-unvalidated-phase
        //# The variable PipeSize is initialised to the flight_size on entry to the Unvalidated Phase.
        self.pipe_size = in_flight;
        self.phase = Phase::Unvalidated {
            first: self.largest_sent + 1,
            since: now,
            rtt: current,
        };
    }

    /// Whether a round trip tells of more of a queue than there was when the connection began that measured the rest.
    /// Round trips vary on some paths, and the shortest one of a whole connection is shorter than most first ones.
    fn has_queue(&self, rtt: Duration, (part, least): (u32, Duration)) -> bool {
        rtt.saturating_sub(self.first_rtt) > (self.first_rtt / part).max(least)
    }

    /// Takes in the newest RTT sample, if it was not seen before.
    fn note_rtt(&mut self, rtt: &RttEstimator) {
        let Some(at) = rtt.latest_at() else {
            return;
        };
        let sample = rtt.latest();
        match &mut self.recent {
            Some(recent) if recent.newest == at => {}
            Some(recent) if at.saturating_duration_since(recent.since) <= fresh_for(rtt) => {
                recent.newest = at;
                recent.min = recent.min.min(sample);
            }
            _ => {
                self.recent = Some(Recent {
                    since: at,
                    newest: at,
                    min: sample,
                });
            }
        }
    }

    /// The smallest RTT sample of late. `None` if the newest one is too old.
    fn fresh_rtt(&mut self, now: Instant, rtt: &RttEstimator) -> Option<Duration> {
        self.note_rtt(rtt);
        let fresh =
            |recent: &Recent| now.saturating_duration_since(recent.newest) <= fresh_for(rtt);
        self.recent.filter(fresh).map(|recent| recent.min)
    }

    /// A packet was newly acknowledged. Called for each, before [`on_ack_end`](Self::on_ack_end).
    #[inline]
    pub const fn on_packet_acked(&mut self, number: u64, size: u16) {
        self.delivered += size as u64;
        // Those in flight at the jump are in it already: the examples of appendix A count unvalidated packets only.
        match self.phase {
            Phase::Unvalidated { first, .. }
            | Phase::Validating { first, .. }
            | Phase::SafeRetreat { first, .. }
                if number >= first =>
            {
                self.pipe_size += size as u64;
            }
            _ => {}
        }
    }

    /// An ACK frame was processed, and the controller knows what was lost by it. `largest`: the largest number that it
    /// newly acknowledged. Returns whether what is remembered proved wrong.
    #[inline]
    pub fn on_ack_end(
        &mut self,
        now: Instant,
        largest: Option<u64>,
        in_flight: u64,
        rtt: &RttEstimator,
        controller: &mut dyn Controller,
    ) -> bool {
        self.note_rtt(rtt);
        let wrong = self.check_congestion(now, controller);
        let reached = |number: u64| largest.is_some_and(|largest| largest >= number);
        match self.phase {
            Phase::Unvalidated {
                first,
                since,
                rtt: pace,
            } => {
                if rtt.min() <= self.saved_rtt / 2 {
                    //= specs/rfc9959-draft.md#3-3-unvalidated-phase
                    //# - Unvalidated Phase (Confirming the path during transmission): If the sender determines that
                    //# it is not valid to use the previous CC parameters due to a detected path change (e.g., a
                    //# change in the RTT or an explicit signal indicating a path change), the Safe Retreat Phase MUST
                    //# be entered (e.g., logged as path_changed in [LOG]).
                    self.retreat(now, first, self.largest_sent, controller);
                    return true;
                }
                if reached(first) || now.saturating_duration_since(since) > pace {
                    self.leave_unvalidated(now, in_flight, controller);
                }
            }
            Phase::Validating { last, .. } if reached(last) => {
                self.phase = Phase::Over(ResumeState::Validated);
                controller.on_resume(self.path, now, &ResumeStep::Validated);
            }
            Phase::SafeRetreat { last, .. } if reached(last) => {
                self.leave_retreat(now, rtt, controller);
            }
            _ => {}
        }
        wrong
    }

    /// Whether the controller has seen congestion since it was last asked, and what follows from that. Returns whether
    /// what is remembered proved wrong.
    #[inline]
    pub fn check_congestion(&mut self, now: Instant, controller: &mut dyn Controller) -> bool {
        let events = controller.congestion_events(self.path);
        if std::mem::replace(&mut self.events, events) == events {
            return false;
        }
        match self.phase {
            //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
            //# The sender stops using Careful Resume and MUST continue using normal CC to react to the detected
            //# congestion.
            Phase::Reconnaissance => {
                self.phase = Phase::Over(ResumeState::Congested);
                false
            }
            //= specs/rfc9959-draft.md#3-3-unvalidated-phase
            //# - Unvalidated Phase (Detected congestion): If the sender detects congestion (e.g., packet loss or
            //# ECN-CE marking), the Safe Retreat Phase MUST be entered (e.g., logged as either packet_loss or ECN_CE
            //# in [LOG]).
            Phase::Unvalidated { first, .. } => {
                self.retreat(now, first, self.largest_sent, controller);
                true
            }
            Phase::Validating { first, last } => {
                self.retreat(now, first, last, controller);
                true
            }
            Phase::SafeRetreat { .. } | Phase::Over(_) => false,
        }
    }

    /// Persistent congestion: careful resume is over (section 3.6). Returns whether what is remembered proved wrong.
    pub fn on_persistent_congestion(
        &mut self,
        now: Instant,
        controller: &mut dyn Controller,
    ) -> bool {
        let end = match self.phase {
            Phase::Reconnaissance => ResumeState::Congested,
            Phase::Over(_) => return false,
            _ => ResumeState::Retreated,
        };
        self.events = controller.congestion_events(self.path);
        self.phase = Phase::Over(end);
        if end == ResumeState::Retreated {
            self.end_retreat(now, BETA_DIVISOR, controller);
        }
        end == ResumeState::Retreated
    }

    /// The Unvalidated Phase is over without congestion.
    fn leave_unvalidated(&mut self, now: Instant, in_flight: u64, controller: &mut dyn Controller) {
        let Phase::Unvalidated { first, .. } = self.phase else {
            return;
        };
        //= specs/rfc9959-draft.md#3-3-unvalidated-phase
        //# Upon any of these events (and after processing any Acknowledgments that update the PipeSize and
        //# flight_size), the sender checks if (flight_size is less than IW) or (flight_size is less than or
        //# equal to the PipeSize) then the CWND is reset to the PipeSize (e.g., logged as rate_limited in
        //# [LOG]) and the sender stops using Careful Resume and returns to use normal CC. In the absence of
        //# detected congestion, CWND is not reduced below IW.
        let limited = in_flight < self.initial_window || in_flight <= self.pipe_size;
        let window = if limited {
            self.phase = Phase::Over(ResumeState::RateLimited);
            self.pipe_size.max(self.initial_window)
        } else {
            //= specs/rfc9959-draft.md#3-3-unvalidated-phase
            //# (The PipeSize does not include the part of the jump_cwnd that was not utilised.) Otherwise, the CWND
            //# MUST be set to the flight_size and the sender progresses to the Validating Phase.
            self.phase = Phase::Validating {
                first,
                last: self.largest_sent,
            };
            in_flight
        };
        let step = ResumeStep::Settle {
            window,
            validating: !limited,
        };
        controller.on_resume(self.path, now, &step);
    }

    //= specs/rfc9959-draft.md#3-5-safe-retreat-phase
    //# - Safe Retreat Phase (Re-initializing CWND): The CWND MUST be reduced to no more than (PipeSize/2).
    fn retreat(&mut self, now: Instant, first: u64, last: u64, controller: &mut dyn Controller) {
        self.phase = Phase::SafeRetreat { first, last };
        let window = self.pipe_size / 2;
        controller.on_resume(self.path, now, &ResumeStep::Retreat { window });
    }

    //= specs/rfc9959-draft.md#3-5-safe-retreat-phase
    //# When the last packet (or a later packet) sent during the Unvalidated Phase has been acknowledged, the
    //# sender stops using Careful Resume and returns to use normal CC.
    fn leave_retreat(&mut self, now: Instant, rtt: &RttEstimator, controller: &mut dyn Controller) {
        self.phase = Phase::Over(ResumeState::Retreated);
        // Where no queue stands even now, all that has arrived was not too much: Beta is 1.
        let divisor = match self.has_queue(rtt.latest(), SHORT_QUEUE) {
            true => BETA_DIVISOR,
            false => 1,
        };
        self.end_retreat(now, divisor, controller);
    }

    //= specs/rfc9959-draft.md#3-5-safe-retreat-phase
    //# On leaving the Safe Retreat Phase, the ssthresh MUST be set to no larger than the most recently
    //# measured PipeSize * Beta, where Beta is a scaling factor between 0.5 and 1.
    fn end_retreat(&self, now: Instant, divisor: u64, controller: &mut dyn Controller) {
        let ssthresh = self.pipe_size / divisor;
        controller.on_resume(self.path, now, &ResumeStep::Leave { ssthresh });
    }
}

/// How long an RTT sample says something of the path as it is now.
const fn fresh_for(rtt: &RttEstimator) -> Duration {
    rtt.smoothed().saturating_mul(FRESH_ROUNDS)
}

#[cfg(test)]
#[path = "careful_resume_tests.rs"]
mod tests;
