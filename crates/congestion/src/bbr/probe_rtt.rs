//! ProbeRTT (section 5.3.4): now and then, little enough in flight to see the path without a queue.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use super::super::AckSummary;
use super::path::{Path, State};
use super::probe_bw::AckPhase;

/// BBR.ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);

impl Path {
    /// CheckProbeRTT(). True if the state holds back what leaves from now on.
    pub(super) fn check_probe_rtt(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) -> bool {
        if self.state != State::ProbeRtt && self.rtt.probe_due && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::Stopping;
            self.rounds.restart(self.delivered);
        }
        let held_back = self.state == State::ProbeRtt;
        if held_back {
            self.handle_probe_rtt(ack, rng);
        }
        if ack.sample.delivered > 0 {
            self.idle_restart = false;
        }
        held_back
    }

    /// HandleProbeRTT().
    fn handle_probe_rtt(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) {
        if self.probe_rtt_done.is_none() {
            if ack.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(ack.now + DURATION);
                self.probe_rtt_round_done = false;
                self.rounds.restart(self.delivered);
            }
            return;
        }
        self.probe_rtt_round_done |= self.rounds.started;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(ack.now, rng);
        }
    }

    /// CheckProbeRTTDone().
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, rng: &mut StdRng) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.rtt.on_probed(now);
            self.restore_cwnd();
            self.exit_probe_rtt(now, rng);
        }
    }

    /// ExitProbeRTT() (section 5.3.4.4).
    fn exit_probe_rtt(&mut self, now: Instant, rng: &mut StdRng) {
        self.reset_short_term();
        if self.pipe.reached {
            self.start_down(now, rng);
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }
}
