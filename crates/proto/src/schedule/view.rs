//! Fills a scheduler's view of a path from the path's state; decides nothing.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathView;

use crate::congestion::{Controller, MAX_WINDOW};
use crate::path::Path;
use crate::recovery::Pace;

/// What the connection knows of a path beyond the path itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathFacts {
    /// Validated, with a connection ID of the peer, and data may flow at all.
    pub(crate) usable: bool,
    pub(crate) max_ack_delay: Duration,
}

/// Brings the view up to date. Called once per path and batch, and for the sending path once per
/// packet: cheap.
pub(crate) fn refresh(
    view: &mut PathView,
    path: &mut Path,
    controller: &dyn Controller,
    facts: PathFacts,
    now: Instant,
) {
    let cwnd = controller.window(path.index).min(MAX_WINDOW);
    let mtu = path.mtu.current();
    let in_flight = path.space.bytes_in_flight();
    let pace = match controller.pacing_rate(path.index, &path.rtt) {
        Some(rate) => Pace::Rate(rate),
        None => Pace::Window {
            cwnd,
            slow_start: controller.in_slow_start(path.index),
        },
    };
    let window = in_flight + u64::from(mtu) <= cwnd;
    let paced = path.pacer.budget(now, pace, &path.rtt, mtu) >= u64::from(mtu);
    view.id = path.id.0;
    view.open = facts.usable;
    view.can_send = facts.usable && window && paced && path.network.budget() >= u64::from(mtu);
    view.next_release = if window && !paced {
        path.pacer.next_release()
    } else {
        None
    };
    view.suspect = path.suspect.is_suspect();
    view.status = path.status.effective();
    // The contract: zero before the first sample, not a guess that looks like one.
    view.smoothed_rtt = if path.rtt.has_sample() {
        path.rtt.smoothed().max(Duration::from_nanos(1))
    } else {
        Duration::ZERO
    };
    view.latest_rtt = path.rtt.latest();
    view.min_rtt = path.rtt.min();
    view.rtt_var = path.rtt.var();
    view.pto = path.pto(facts.max_ack_delay);
    view.pto_count = path.pto_count;
    view.cwnd = cwnd;
    view.ssthresh = controller.ssthresh(path.index);
    view.in_flight = in_flight;
    view.mtu = mtu;
    view.sent_packets = path.counters.sent_packets;
    view.lost_packets = path.counters.lost_packets;
    view.retransmitted_packets = path.counters.retransmitted_packets;
    view.delivered_bytes = path.counters.delivered_bytes;
    view.delivery_rate = path.delivery.rate();
    view.pacing_rate = match pace {
        Pace::Rate(rate) => rate as u64,
        Pace::Window { .. } => 0,
    };
    view.last_acked = path.suspect.last_ack();
    view.last_sent = path.space.last_ack_eliciting_sent;
    view.rtt_history = *path.rtt.history();
}
