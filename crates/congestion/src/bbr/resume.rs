//! Careful resume under BBR (RFC 9959, Implementation Notes for using BBR): a Startup that begins at half of a
//! remembered rate. When to begin and when it is over is for the owner of the phases.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use super::super::{MAX_WINDOW, ResumeStep};
use super::path::{Path, State};
use crate::RateSample;

impl Path {
    /// Returns whether the step is taken.
    pub(super) fn on_resume(&mut self, step: &ResumeStep) -> bool {
        match *step {
            ResumeStep::Jump {
                window,
                rtt,
                chance_loss,
            } => {
                return self.jump(window, rtt, chance_loss);
            }
            ResumeStep::Settle { window, validating } => {
                // From here on the window grows as in any Startup: not beyond two round trips of what is measured.
                self.cwnd = self.cwnd.min(window).max(self.min_pipe_cwnd());
                if !validating {
                    // Too little to send: what the jump allowed was not used, and has shown nothing.
                    self.resuming = false;
                    self.pacing_rate = 0.0;
                }
            }
            ResumeStep::Validated => self.resuming = false,
            ResumeStep::Retreat { .. } => self.retreat(),
            ResumeStep::Leave { ssthresh } => {
                self.keep_half(ssthresh);
                if self.state != State::Drain {
                    self.resuming = false;
                }
            }
        }
        true
    }

    //= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
    //# Careful Resume is allowed to transmit unvalidated packets only when the BBR flow is in the Startup
    //# state.
    fn jump(&mut self, window: u64, rtt: Duration, chance_loss: u32) -> bool {
        if self.state != State::Startup || self.pipe.reached {
            return false;
        }
        // The Unvalidated Phase starts with a round.
        self.rounds.restart(self.delivered);
        self.resuming = true;
        self.ambient.expect(f64::from(chance_loss) / 1e6);
        let probing =
            window.min(MAX_WINDOW) as f64 / rtt.max(Duration::from_micros(1)).as_secs_f64();
        //= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
        //# When this "carefully-resuming" flag is set, the BBR congestion controller sets the BBR pacing rate to
        //# the larger of the nominal pacing rate (BBR.bw multiplied bytes BBRStartupPacingGain) or the
        //# calculated probing rate.
        self.pacing_rate = self.pacing_rate.max(probing);
        //= specs/rfc9959-draft.md#a-1-sending-unvalidated-packets-using-bbr
        //# Then, CWND is set to the larger of BBR.bw and the probing rate, multiplied by BBR.rtt_min times
        //# BBRStartupCwndGain.
        let round_trip = self.rtt.get().unwrap_or(rtt).as_secs_f64();
        let inflight = State::Startup.cwnd_gain() * self.bw.max(probing) * round_trip;
        self.cwnd = self.cwnd.max(inflight as u64).min(MAX_WINDOW);
        true
    }

    //= specs/rfc9959-draft.md#a-2-validation-for-bbr
    //# If congestion is detected while using Careful Resume (i.e, the "carefully-resuming" flag is True), BBR then
    //# exits the Startup state and enters the Drain state.
    pub(super) fn retreat(&mut self) {
        if self.state == State::Startup {
            self.pipe.now = true;
            self.pipe.reached = true;
            self.enter_drain();
        }
        self.resuming &= self.state == State::Drain;
    }

    /// Half of what the jump has delivered may be sent in a round trip from here on: a window would grow to that as fast as
    /// slow start does, and the rate that was measured before the jump may be a hundredth of it.
    fn keep_half(&mut self, half: u64) {
        let Some(rtt) = self.rtt.get() else {
            return;
        };
        let rate = half as f64 / rtt.max(Duration::from_micros(1)).as_secs_f64();
        if rate > self.max_bw.get() {
            self.max_bw.update(&RateSample {
                rate,
                ..RateSample::default()
            });
        }
    }

    /// The queue that the jump has made is gone. The rate that was measured before it may be far below that of the path: a
    /// probe for more begins at once, and not after the seconds that ProbeBW would wait. Its slope doubles with each round.
    /// A second Startup would find the rate as soon, and take it from those who share the path: they have met a burst already.
    pub(super) fn end_retreat(&mut self, now: Instant, rng: &mut StdRng) {
        self.resuming = false;
        // The losses of the jump are answered.
        self.signals.forget_losses();
        self.reset_short_term();
        self.start_down(now, rng);
        self.start_refill();
    }

    /// Whether a delivery rate is one of a queue that the jump has made.
    //= specs/rfc9959-draft.md#a-3-safe-retreat-for-bbr
    //# Therefore any delivery rates measured in the Drain state MUST be discarded if the "carefully-resuming" flag
    //# is set to True.
    pub(super) fn is_sample_tainted(&self) -> bool {
        self.resuming && self.state == State::Drain
    }
}
