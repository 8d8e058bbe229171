//! What others see of a path: the scheduler's view and the statistics. It changes nothing but the pacer's clock.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathView;

use super::Path;
use crate::congestion::{Controller, MAX_WINDOW};
use crate::observe::Trouble;
use crate::recovery::Pace;
use crate::{PathMetrics, PathStats};

/// What the connection knows of a path beyond the path itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathFacts {
    /// Validated, or with room for data before that; with a connection ID of the peer.
    pub(crate) usable: bool,
    pub(crate) max_ack_delay: Duration,
}

impl Path {
    /// Brings the scheduler's view up to date. Called once per path and batch.
    pub(crate) fn fill_view(
        &mut self,
        view: &mut PathView,
        controller: &dyn Controller,
        facts: PathFacts,
        now: Instant,
    ) {
        let recovery = &self.recovery;
        view.id = self.id;
        view.open = facts.usable;
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
        view.mtu = recovery.mtu.current();
        view.lost_packets = recovery.counters.lost_packets;
        view.delivered_bytes = recovery.counters.delivered_bytes;
        view.delivery_rate = recovery.delivery.rate();
        view.last_acked = recovery.suspect.last_ack();
        view.rtt_history = *recovery.rtt.history();
        recovery.model.show(now, view);
        let memory = recovery.memory.as_ref();
        let (bottleneck, rtt) = memory.map_or_else(Default::default, |memory| memory.known());
        view.bottleneck = recovery.delivery.bottleneck(bottleneck);
        view.saved_rtt = rtt;
        self.fill_view_after_sending(view, controller, now);
    }

    /// Brings up to date what a packet that leaves changes of a view that was up to date before. Called once per packet:
    /// cheap.
    pub(crate) fn fill_view_after_sending(
        &mut self,
        view: &mut PathView,
        controller: &dyn Controller,
        now: Instant,
    ) {
        let recovery = &mut self.recovery;
        let state = controller.path_state(self.index, &recovery.rtt);
        let cwnd = state.window.min(MAX_WINDOW);
        let mtu = view.mtu;
        let in_flight = self.space.bytes_in_flight();
        let pace = match state.pacing_rate {
            Some(rate) => Pace::Rate(rate),
            None => match recovery.memory.as_ref().and_then(|memory| memory.pace()) {
                Some(rate) => Pace::Rate(rate),
                None => Pace::Window {
                    cwnd,
                    slow_start: state.in_slow_start,
                },
            },
        };
        //= specs/rfc9002.txt#section-7
        //# An endpoint MUST NOT send a packet if it would cause bytes_in_flight (see Appendix B.2)
        //# to be larger than the congestion window, unless the packet is sent on a PTO timer
        //# expiration (see Section 6.2) or when entering recovery (see Section 7.3.2).
        let reserved = u64::from(recovery.mtu.reserved(now, cwnd));
        let window = in_flight + u64::from(mtu) + reserved <= cwnd;
        //= specs/rfc9002.txt#section-7.7
        //# A sender SHOULD pace sending of all in-flight packets based on input from the congestion
        //# controller.
        let paced = recovery.pacer.is_open(now, pace, &recovery.rtt, mtu);
        view.can_send = view.open && window && paced && self.network.send_limit() >= u64::from(mtu);
        view.next_release = if window && !paced {
            recovery.pacer.next_release()
        } else {
            None
        };
        view.cwnd = cwnd;
        view.ssthresh = state.ssthresh;
        view.in_flight = in_flight;
        view.sent_packets = recovery.counters.sent_packets;
        view.retransmitted_packets = recovery.counters.retransmitted_packets;
        view.pacing_rate = match pace {
            Pace::Rate(rate) => whole(rate),
            Pace::Window { .. } => 0,
        };
        if let Some(limit) = recovery.pacer.limit() {
            view.pacing_rate = match view.pacing_rate {
                0 => limit,
                rate => rate.min(limit),
            };
        }
        view.last_sent = self.space.last_ack_eliciting_sent;
    }

    /// The figures that tell an operator why the path is in trouble. `elsewhere`: data can go on another path.
    pub(crate) fn trouble(&self, now: Instant, elsewhere: bool) -> Trouble {
        // Since it was last acknowledged, or since what waits to be: whichever is later.
        let last_ack = self.recovery.suspect.last_ack();
        let heard = last_ack.max(self.space.sent.first_ack_eliciting_sent());
        let silent = heard.map_or_else(Duration::default, |at| now.saturating_duration_since(at));
        Trouble {
            silent_ms: silent.as_millis() as u64,
            ptos: self.recovery.pto_count,
            in_flight: self.space.bytes_in_flight(),
            elsewhere,
        }
    }

    /// What an observer is told of what the path measures.
    pub(crate) fn metrics(&self, controller: &dyn Controller) -> PathMetrics {
        let rtt = &self.recovery.rtt;
        PathMetrics {
            id: self.id,
            latest_rtt: rtt.has_sample().then(|| rtt.latest()),
            min_rtt: rtt.min(),
            smoothed_rtt: rtt.smoothed(),
            rtt_variation: rtt.var(),
            pto_count: self.recovery.pto_count,
            cwnd: controller.window(self.index),
            in_flight: self.space.bytes_in_flight(),
            delivery_rate: self.recovery.delivery.rate(),
            mtu: self.recovery.mtu.current(),
            loss_causes: controller.loss_causes(self.index),
            steered_by: controller.steering(self.index).map(|steering| steering.by),
        }
    }

    /// The path's figures.
    pub(crate) fn stats(&self, controller: &dyn Controller) -> PathStats {
        let recovery = &self.recovery;
        let counters = &recovery.counters;
        let memory = recovery.memory.as_ref();
        let (careful_resume, jump_window) =
            memory.map_or_else(Default::default, |memory| memory.resume_state());
        let causes = controller.loss_causes(self.index);
        let steering = controller.steering(self.index);
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
            losses_by_overflow: causes.overflow,
            losses_by_chance: causes.chance,
            losses_unclear: causes.unclear,
            steered_by: steering.map(|steering| steering.by),
            refusals: steering.map_or(0, |steering| steering.refusals),
            delivery_rate: recovery.delivery.rate(),
            suspect: recovery.suspect.is_suspect(),
            remembered: memory.is_some_and(|memory| memory.saved().is_some()),
            careful_resume,
            jump_window,
        }
    }
}

/// In bytes per second. Apart: most controllers set no pace, and this would be worked out for all of them.
#[inline(never)]
fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::PathIndex;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::congestion::{ControllerContext, NewPath};
    use crate::frame_writer::Resent;
    use crate::path::NetworkPath;
    use crate::space::{PacketOrigin, PacketSpace, SentPacket, tests_support::packet};
    use crate::{CongestionControl, FourTuple, PathId, TransportConfig};

    /// After each packet, what was brought up to date alone says what a view does that is filled anew.
    #[test]
    fn a_packet_changes_nothing_else_of_a_view() {
        for congestion in [
            CongestionControl::Cubic,
            CongestionControl::NewReno,
            CongestionControl::Bbr,
        ] {
            let mut config = TransportConfig::default();
            config.congestion(congestion);
            let mut rng = StdRng::seed_from_u64(1);
            let mut now = Instant::now();
            let index = PathIndex::new(0).unwrap();
            let mut context =
                ControllerContext::new(config.initial_window, config.slow_start, &mut rng);
            let mut controller = config.congestion.build(&mut context);
            controller.add_path(&NewPath::new(index, now, config.initial_mtu));
            let address = "192.0.2.1:443".parse().unwrap();
            let tuple = FourTuple {
                local: address,
                remote: address,
            };
            let network = NetworkPath::new(tuple, true);
            let space = PacketSpace::new(&mut rng);
            let mut path = Path::new(now, PathId::ZERO, index, network, space, &config);
            path.recovery
                .rtt
                .update(now, Duration::from_millis(20), Duration::ZERO);
            let facts = PathFacts {
                usable: true,
                max_ack_delay: Duration::from_millis(25),
            };
            let mut view = PathView::closed(index);
            path.fill_view(&mut view, &*controller, facts, now);
            let mut blocked = 0;
            for number in 0..100 {
                now += Duration::from_micros(300);
                let packet = SentPacket {
                    decision: Some(number),
                    ..packet(now)
                };
                let resent = Resent {
                    any: number % 3 == 0,
                    ..Resent::default()
                };
                let origin = PacketOrigin::Decision(number);
                let controller = &mut *controller;
                path.on_packet_sent(now, packet, resent, origin, controller, &mut rng);
                path.fill_view_after_sending(&mut view, controller, now);
                let mut anew = PathView::closed(index);
                path.fill_view(&mut anew, controller, facts, now);
                assert_eq!(format!("{view:?}"), format!("{anew:?}"));
                blocked += usize::from(!view.can_send);
            }
            assert!(blocked > 0 && view.sent_packets == 100);
        }
    }
}
