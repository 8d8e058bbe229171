//! BLEST with the faults of the Go code behind two papers: a coin toss; for reproducing figures only.

use serde::{Deserialize, Serialize};

use mpquic_sched::support::{Advice, Waiting};
use mpquic_sched::{Context, Decision, PathView, Scheduler};

/// What that code takes for the size of a packet, whatever the path's (`DefaultTCPMSS`).
const MSS: u64 = 1460;

/// **Faulty on purpose**: BLEST in unsigned 64-bit products that wrap.
///
/// **Why it exists.** The Go code of Lee and Yoo (*Sensors* 2022, 22, 6333), whose figures
/// 6 and 10 and table 2 have a BLEST, decides by
///
/// ```text
/// left  = 1460 · R_s · (2 · W_f · R_f + R_s - R_f)
/// right = 2 · R_f² · (C - (I_s + 1460))
/// wait for f if left > right, else send on s
/// ```
///
/// with the RTTs in nanoseconds, the windows in bytes and C what flow control still allows on the
/// response's stream, all as unsigned 64-bit integers. It has the same lines from the code behind *Peekaboo*
/// (Wu et al., IEEE JSAC 2020), where they were never reached (see
/// [`EcfNoWait`](super::EcfNoWait)).
/// 1. For any RTT above about a millisecond both products exceed 2⁶⁴ and wrap. Over random states of
///    those papers' networks it decides to wait in half of the cases, whatever the network, and
///    differs from the formula that was meant in half of the cases: a coin toss.
/// 2. W_f is in bytes and multiplied by the packet size all the same; and I_s is taken off a
///    window that does not contain it any more: if the window is the smaller, the difference wraps.
///
/// There is no λ. To compare schedulers, use [`Blest`](mpquic_sched::Blest). C is
/// [`QueueView::flow_control_window`](mpquic_sched::QueueView::flow_control_window) here.
///
/// **Rule.** As above; what comes before the test (which paths are `f` and `s`, how long it waits)
/// is as in [`Blest`](mpquic_sched::Blest), so that the test alone makes the difference.
///
/// **Cost.** One walk over the slots; 16 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, PathIndex, PathView, QueueView, Scheduler};
/// use mpquic_lab::replica::BlestOverflow;
///
/// let view = |slot, rtt_us| {
///     let mut view = PathView::of(slot, Duration::from_micros(rtt_us));
///     view.cwnd = 60_000;
///     view.pto = Duration::from_micros(rtt_us + 25_000);
///     view
/// };
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left, queue.flow_control_window) = (1_000_000, 6_000_000, 6_000_000);
/// let mut waits = |slow_rtt_us| {
///     let mut paths = [view(0, 40_000), view(1, slow_rtt_us)];
///     (paths[0].can_send, paths[0].in_flight) = (false, 60_000);
///     let cx = Context::new(Instant::now(), &paths, &queue, 0);
///     matches!(BlestOverflow::default().decide(&cx), Decision::Wait { .. })
/// };
/// // A few microseconds of RTT change everything.
/// let decisions = [100_000, 100_001, 100_002, 100_003].map(&mut waits);
/// assert!(decisions.contains(&true) && decisions.contains(&false));
/// ```
#[derive(Debug, Clone, Default)]
pub struct BlestOverflow {
    wait: Waiting,
}

/// Settings of [`BlestOverflow`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlestOverflowConfig {}

impl BlestOverflow {
    /// A scheduler with these settings.
    pub fn new(_config: &BlestOverflowConfig) -> Self {
        Self::default()
    }
}

/// The test, wrapping where the original does.
fn says_wait(fast: &PathView, slow: &PathView, flow_window: u64) -> bool {
    // A duration there is a count of nanoseconds in 64 bits.
    let (fast_rtt, slow_rtt) = (
        fast.smoothed_rtt.as_nanos() as u64,
        slow.smoothed_rtt.as_nanos() as u64,
    );
    let rounds = fast
        .cwnd
        .wrapping_mul(2)
        .wrapping_mul(fast_rtt)
        .wrapping_add(slow_rtt)
        .wrapping_sub(fast_rtt);
    let left = MSS.wrapping_mul(slow_rtt).wrapping_mul(rounds);
    let space = flow_window.wrapping_sub(slow.in_flight.wrapping_add(MSS));
    let right = 2_u64
        .wrapping_mul(fast_rtt)
        .wrapping_mul(fast_rtt)
        .wrapping_mul(space);
    left > right
}

impl Scheduler for BlestOverflow {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.wait.decide(cx, |fast, slow| {
            Advice::wait_if(says_wait(fast, slow, cx.queue.flow_control_window))
        })
    }
}
