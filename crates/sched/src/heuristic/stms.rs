//! STMS: slower paths carry data from further ahead, by as much as arrival in order needs.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::support::{Fastest, Patience, Round, gap, payload, rounded};
use crate::{
    Acked, Context, Decision, MAX_PATHS, PathIndex, PathUpdate, PathUpdateKind, PathView,
    Scheduler, Sent,
};

/// The gain of the moving average of adjustments.
const GAIN: f64 = 1.0 / 8.0;

/// An advance by no more packets than this is what a receiver that acknowledges every second
/// packet shows for traffic in perfect order.
const IN_ORDER: f64 = 2.0;

/// How many retransmissions are remembered: more are rarely on their way at a time.
const REPEATS: usize = 64;

/// Sends on the fastest path with room; on slower ones, data that lies a gap ahead.
///
/// **Rule.** Path choice as [`MinRtt`](crate::MinRtt). The fastest path of all carries what was
/// lost and the lowest data never sent. Another path `i` leaves out the next `GAP_i` packets of
/// unsent data and carries what follows ([`Data::Ahead`](crate::Data::Ahead)); the faster paths
/// fill the hole, in order, while its packet is under way.
///
/// `GAP_i` starts at `w_f (R_i - R_f) / (2 R_f)`, what the fastest path `f` delivers in the
/// difference of one-way delays. Whenever the contiguously acknowledged data advances, by `a`
/// packets, the packet that closed the hole says which way it was wrong: if `a > 2` and it
/// came on a slower path, data came late on it, and `d = a` for that path; if it came on the fastest
/// one, data had waited for it, and `d = -a` is shared among the paths whose data had, in proportion
/// to how much. With `a <= 2`, `d = 0`. A moving average of `d` with gain 1/8 begins at 0 in each
/// interval of one `R_i`; at its end it is added to `GAP_i`, which stays within 0 and
/// `2 w_f R_i / R_f`.
///
/// If no more than the gap is left to send, the fastest path is waited for; after a probe timeout
/// of it, one packet goes without a gap. A path without an RTT sample leaves no gap.
///
/// **Source.** Shi et al., "STMS: Improving MPTCP Throughput Under Heterogeneous Networks" (USENIX
/// ATC 2018), by its abstract and its summary in section II-B and Eq. 4 of Liao et al., "Precise
/// and Adaptable" (GAPS). Ours: `d = 0` for `a <= 2`, without which the gap falls for ever on
/// traffic in order; more than one slower path; and that nothing is learnt when a retransmission
/// closes the hole, since a hole that a loss made says nothing of delays. The acknowledgement of a path's
/// packet comes back over the same path here, so that data looks later by the difference of the
/// ways back, and gaps come out up to twice as long as they need be. Late data on a slow path closes
/// the hole up to the next packet of the same path, hence the few packets by which a gap grows in an
/// interval: a path whose delay changes faster than that, as by its own queue, is followed late.
///
/// **Cost.** Two walks over the slots, and one per acknowledgement; 64 bytes of state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Data, Decision, PathView, QueueView, Scheduler, Stms};
///
/// let view = |slot, rtt| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt));
///     (view.mtu, view.cwnd) = (1235, 12_350); // 10 packets of 1200 bytes of data
///     view
/// };
/// let mut paths = [view(0, 20), view(1, 60)];
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
///
/// let mut scheduler = Stms::default();
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[0].index));
///
/// paths[0].can_send = false; // in (60 - 20) / 2 ms it delivers another 10 packets
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Send { data: Data::Ahead(12_000), .. }));
/// ```
#[derive(Debug, Clone)]
pub struct Stms {
    gaps: [Gap; MAX_PATHS],
    /// Whether any of them has [`early`](Gap::early) bytes.
    is_early: bool,
    patience: Patience,
    /// As of the last decision.
    fastest: Option<PathIndex>,
    /// Stream data in a packet of the fastest path, bytes.
    packet: f64,
    /// The decisions whose packets carried retransmissions, the newest of them, in a ring.
    repeats: [Option<u64>; REPEATS],
    next_repeat: usize,
}

impl Default for Stms {
    fn default() -> Self {
        Self {
            gaps: [Gap::default(); MAX_PATHS],
            patience: Patience::default(),
            is_early: false,
            fastest: None,
            packet: 1.0,
            repeats: [None; REPEATS],
            next_repeat: 0,
        }
    }
}

/// Settings of [`Stms`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StmsConfig {}

/// What is known of one path's gap.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    /// `GAP`, packets; `None` before the first use.
    packets: Option<f64>,
    /// The moving average of `d` in this interval, packets.
    adjustment: f64,
    /// This interval: an RTT of the path.
    interval: Option<Round>,
    /// Bytes acknowledged on this path that wait for data before them.
    early: f64,
}

impl Stms {
    /// A scheduler with these settings.
    pub fn new(_config: &StmsConfig) -> Self {
        Self::default()
    }
}

impl Gap {
    /// The gap before data on `path`, bytes.
    fn bytes(&mut self, now: Instant, fast: &PathView, path: &PathView) -> u64 {
        let packet = payload(fast) as f64;
        let window = fast.cwnd as f64 / f64::from(fast.mtu.max(1));
        let ratio = path.smoothed_rtt.as_secs_f64() / fast.smoothed_rtt.as_secs_f64();
        let packets = self
            .packets
            .get_or_insert_with(|| (window * (ratio - 1.0) / 2.0).max(0.0));
        let rtt = path.smoothed_rtt;
        let interval = self.interval.get_or_insert_with(|| Round::new(now, rtt));
        if interval.is_over(now, rtt) {
            *packets += self.adjustment;
            self.adjustment = 0.0;
            *interval = Round::new(now, rtt);
        }
        *packets = packets.clamp(0.0, 2.0 * window * ratio);
        rounded(*packets * packet)
    }

    fn adjust(&mut self, d: f64) {
        self.adjustment += GAIN * (d - self.adjustment);
    }
}

impl Scheduler for Stms {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let fastest = Fastest::of(cx);
        if let Some(Fastest { overall, .. }) = fastest {
            self.fastest = Some(overall.index);
            self.packet = payload(overall) as f64;
        }
        if self.is_early && cx.queue.out_of_order == 0 {
            self.is_early = false;
            for gap in &mut self.gaps {
                gap.early = 0.0;
            }
        }
        let gaps = &mut self.gaps;
        gap::decide_between(fastest, cx, &mut self.patience, |fast, path| {
            gaps[path.index.get()].bytes(cx.now, fast, path)
        })
    }

    fn on_acked(&mut self, event: &Acked) {
        let Some(fastest) = self.fastest else {
            return;
        };
        let own = f64::from(event.size).min(self.packet);
        if event.contiguous == 0 {
            self.gaps[event.path.get()].early += own;
            self.is_early = true;
            return;
        }
        let advance = event.contiguous as f64;
        let early: f64 = self.gaps.iter().map(|gap| gap.early).sum();
        // What is left waiting lies behind another hole.
        let released = if early > 0.0 {
            ((advance - own) / early).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let a = advance / self.packet;
        let d = if a > IN_ORDER { a } else { 0.0 };
        let lost_before =
            d > 0.0 && event.decision.is_some() && self.repeats.contains(&event.decision);
        if lost_before {
            // A hole that a loss made.
        } else if event.path != fastest {
            self.gaps[event.path.get()].adjust(d);
        } else if early > 0.0 {
            for gap in self.gaps.iter_mut().filter(|gap| gap.early > 0.0) {
                // The fastest path's own share is as may be: it has no gap.
                gap.adjust(-d * gap.early / early);
            }
        }
        for gap in &mut self.gaps {
            gap.early *= 1.0 - released;
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        if event.retransmission {
            self.repeats[self.next_repeat] = Some(event.decision);
            self.next_repeat = (self.next_repeat + 1) % REPEATS;
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // A slot's next path has delays of its own.
        if event.kind == PathUpdateKind::Abandoned {
            self.gaps[event.path.get()] = Gap::default();
        }
    }
}
