//! What others see of a path: the scheduler's view and the statistics. It changes nothing but the pacer's clock.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathView;

use super::Path;
use crate::PathStats;
use crate::congestion::{Controller, MAX_WINDOW};
use crate::recovery::Pace;

/// What the connection knows of a path beyond the path itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathFacts {
    /// Validated, with a connection ID of the peer, and data may flow at all.
    pub(crate) usable: bool,
    pub(crate) max_ack_delay: Duration,
}

impl Path {
    /// Brings the scheduler's view up to date. Called once per path and batch, and for the sending path once per
    /// packet: cheap.
    pub(crate) fn fill_view(
        &mut self,
        view: &mut PathView,
        controller: &dyn Controller,
        facts: PathFacts,
        now: Instant,
    ) {
        let recovery = &mut self.recovery;
        let cwnd = controller.window(self.index).min(MAX_WINDOW);
        let mtu = recovery.mtu.current();
        let in_flight = self.space.bytes_in_flight();
        let pace = match controller.pacing_rate(self.index, &recovery.rtt) {
            Some(rate) => Pace::Rate(rate),
            None => Pace::Window {
                cwnd,
                slow_start: controller.in_slow_start(self.index),
            },
        };
        //= specs/rfc9002.txt#section-7
        //# An endpoint MUST NOT send a packet if it would cause bytes_in_flight (see Appendix B.2)
        //# to be larger than the congestion window, unless the packet is sent on a PTO timer
        //# expiration (see Section 6.2) or when entering recovery (see Section 7.3.2).
        let window = in_flight + u64::from(mtu) <= cwnd;
        let budget = recovery.pacer.budget(now, pace, &recovery.rtt, mtu);
        //= specs/rfc9002.txt#section-7.7
        //# A sender SHOULD pace sending of all in-flight packets based on input from the congestion
        //# controller.
        let paced = budget >= u64::from(mtu);
        view.id = self.id;
        view.open = facts.usable;
        view.can_send =
            facts.usable && window && paced && self.network.send_limit() >= u64::from(mtu);
        view.next_release = if window && !paced {
            recovery.pacer.next_release()
        } else {
            None
        };
        view.suspect = recovery.suspect.is_suspect();
        view.status = self.status.effective();
        // The contract: zero before the first sample, not a guess that looks like one.
        view.smoothed_rtt = if recovery.rtt.has_sample() {
            recovery.rtt.smoothed().max(Duration::from_nanos(1))
        } else {
            Duration::ZERO
        };
        view.latest_rtt = recovery.rtt.latest();
        view.min_rtt = recovery.rtt.min();
        view.rtt_var = recovery.rtt.var();
        view.pto = recovery.rtt.pto_base(facts.max_ack_delay);
        view.pto_count = recovery.pto_count;
        view.cwnd = cwnd;
        view.ssthresh = controller.ssthresh(self.index);
        view.in_flight = in_flight;
        view.mtu = mtu;
        view.sent_packets = recovery.counters.sent_packets;
        view.lost_packets = recovery.counters.lost_packets;
        view.retransmitted_packets = recovery.counters.retransmitted_packets;
        view.delivered_bytes = recovery.counters.delivered_bytes;
        view.delivery_rate = recovery.delivery.rate();
        view.pacing_rate = match pace {
            Pace::Rate(rate) => rate as u64,
            Pace::Window { .. } => 0,
        };
        view.last_acked = recovery.suspect.last_ack();
        view.last_sent = self.space.last_ack_eliciting_sent;
        view.rtt_history = *recovery.rtt.history();
    }

    /// The path's figures.
    pub(crate) fn stats(&self, controller: &dyn Controller) -> PathStats {
        let recovery = &self.recovery;
        let counters = &recovery.counters;
        PathStats {
            rtt: recovery.rtt.smoothed(),
            min_rtt: recovery.rtt.min(),
            rtt_var: recovery.rtt.var(),
            has_rtt: recovery.rtt.has_sample(),
            cwnd: controller.window(self.index),
            in_flight: self.space.bytes_in_flight(),
            mtu: recovery.mtu.current(),
            pto_count: recovery.pto_count,
            sent_datagrams: counters.sent_datagrams,
            sent_bytes: counters.sent_bytes,
            received_datagrams: counters.received_datagrams,
            received_bytes: counters.received_bytes,
            sent_stream_bytes: counters.sent_stream_bytes,
            received_stream_bytes: counters.received_stream_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            spurious_losses: counters.spurious_losses,
            retransmitted_packets: counters.retransmitted_packets,
            retransmitted_bytes: counters.retransmitted_bytes,
            copied_packets: counters.copied_packets,
            copied_bytes: counters.copied_bytes,
            reinjected_bytes: counters.reinjected_bytes,
            congestion_events: controller.congestion_events(self.index),
            delivery_rate: recovery.delivery.rate(),
            suspect: recovery.suspect.is_suspect(),
        }
    }
}
