//! BLEST: keeps off the slow path what would block the window for the fast one.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::support::{Advice, Round, Waiting, float, nanos, whole};
use crate::{
    Context, Decision, InvalidConfig, MAX_PATHS, PathSet, PathUpdate, PathUpdateKind, PathView,
    Scheduler,
};

/// In initial slow start, a window doubles so many times at most: the kernel's bound.
const MAX_DOUBLINGS: f64 = 16.0;

/// Sends on the slower path only if the fast one does not need the window space meanwhile.
///
/// **Rule.** `f` is the path with the smallest smoothed RTT, `s` the one with the smallest among
/// those with room ([`Context::sendable`]). If they are the same, send. Otherwise, with R the
/// smoothed RTTs, W the congestion windows and w the same in packets, I the bytes in flight, `len`
/// the packet at hand:
///
/// ```text
/// rmin, rmax = smallest and largest R of each path so far
/// T = rmax_s                                           if I_s + len ≥ W_s
///     rmin_s + (rmax_s - rmin_s) · (I_s + len) / W_s   otherwise;  at least R_s
/// n = ⌊T / ((rmin_f + rmax_f) / 2)⌋ + 1                rounds of f while the packet lingers on s
/// P = w_f · (2ⁿ - 1), n ≤ 16                           f in its initial slow start
///     (c + (n - 1) / 2) · n,  c = max(w_f, ssthresh_f + 1)   otherwise
/// X = P · mss · λ                                      what f could send in that time
/// space = SW - (len + I_s),  at least 0
/// wait for f if X > space, else send on s
/// ```
///
/// SW is the connection's whole send window: all bytes in flight and what flow control still allows
/// ([`QueueView::flow_control_window`](crate::QueueView::flow_control_window); the windows of the streams count as well as
/// that of the connection, since with one stream it is the stream's that fills up). λ starts at 1.2
/// and stays within 1.0 to 1.3. At most once per rmin_s it grows by 0.04, if since the last time
/// the peer's windows were all that kept new data back while the oldest packet in flight was on `s`
/// ([`QueueView::blocked_by`](crate::QueueView::blocked_by)), and else shrinks by 0.01.
///
/// With a large receive window it practically never waits, and is minRTT. On a wait no other path
/// is tried. With `multi`, X is the sum over all paths faster than `s` that have no room.
///
/// **When it waits** for `f`: as [`Ecf`](crate::Ecf), the same bounds and the same treatment of
/// pacers, of what is not new data, and of paths without a sample.
///
/// **Source.** Ferlin, Alay, Mehani, Boreli: *BLEST: Blocking Estimation-based MPTCP Scheduler for
/// Heterogeneous Networks*, IFIP Networking 2016, in the form of Linux MPTCP v0.95,
/// `mptcp_blest.c`, in floating point. The kernel raises λ when it has to reinject a packet of the
/// slow path out of the window's order, which QUIC does not do: the event above, SW, the clock of λ
/// beginning at the first test, `multi`, the bound on waiting and the wait for the
/// pacer are ours.
///
/// **Cost.** Two walks over the slots; 16 bytes of state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Blest, Context, Decision, PathIndex, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt_ms| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     view.pto = Duration::from_millis(rtt_ms + 25);
///     (view.cwnd, view.ssthresh, view.mtu) = (60_000, 30_000, 1200);
///     view
/// };
/// let mut paths = [view(0, 40), view(1, 100)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 60_000); // its window is full
/// let mut queue = QueueView::default();
/// queue.unsent = 1_000_000;
///
/// // Three rounds of f fit in 100 ms: (50 + 1) · 3 · 1200 · 1.2 = 220320 bytes.
/// let mut scheduler = Blest::default();
/// (queue.window_left, queue.flow_control_window) = (200_000, 200_000);
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index)); // 258800 are free
///
/// (queue.window_left, queue.flow_control_window) = (150_000, 150_000);
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Wait { until: Some(_) })); // 208800 are
/// ```
#[derive(Debug, Clone)]
pub struct Blest {
    config: BlestConfig,
    wait: Waiting,
    /// Smallest and largest smoothed RTT of each slot, nanoseconds; not meaningful before the first
    /// sample.
    extremes: [Extremes; MAX_PATHS],
    lambda: f64,
    /// Since the last update of lambda.
    round: Option<Round>,
    /// Paths that have held the sender up since the last update of lambda for them.
    blockers: PathSet,
}

#[derive(Debug, Clone, Copy)]
struct Extremes {
    /// The two as they were measured.
    least_rtt: Duration,
    most_rtt: Duration,
    least: f64,
    most: f64,
}

impl Extremes {
    const NONE: Self = Self {
        least_rtt: Duration::MAX,
        most_rtt: Duration::ZERO,
        least: f64::INFINITY,
        most: 0.0,
    };
}

/// Settings of [`Blest`]; those of lambda are the kernel module's parameters.
///
/// ```
/// use mpquic_sched::BlestConfig;
///
/// let config: BlestConfig = serde_json::from_str(r#"{"lambda": 1.0, "multi": true}"#)?;
/// assert_eq!(config.lambda_max, 1.3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlestConfig {
    /// What lambda starts at, within its bounds. Default 1.2.
    pub lambda: f64,
    /// Its lower bound, 0 or more. Default 1.0.
    pub lambda_min: f64,
    /// Its upper bound, at most 100. Default 1.3.
    pub lambda_max: f64,
    /// By how much it grows when the slow path has held the sender up, 0 to 1. Default 0.04.
    pub lambda_raise: f64,
    /// By how much it shrinks otherwise, 0 to 1. Default 0.01.
    pub lambda_lower: f64,
    /// Whether the bytes that all faster paths without room could send count, not only those of
    /// the fastest one. Default false. The same with two paths.
    pub multi: bool,
    /// Whether an `f` with room in its window that only its pacer holds back is waited for. Default false, as
    /// published: see [`EcfConfig::wait_for_pacer`](crate::EcfConfig::wait_for_pacer).
    pub wait_for_pacer: bool,
}

impl Default for BlestConfig {
    fn default() -> Self {
        Self {
            lambda: 1.2,
            lambda_min: 1.0,
            lambda_max: 1.3,
            lambda_raise: 0.04,
            lambda_lower: 0.01,
            multi: false,
            wait_for_pacer: false,
        }
    }
}

impl BlestConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let (min, max) = (self.lambda_min, self.lambda_max);
        let ranges = [
            ("lambda_max", self.lambda_max, 0.0, 100.0),
            ("lambda_min", self.lambda_min, 0.0, max),
            ("lambda", self.lambda, min, max),
            ("lambda_raise", self.lambda_raise, 0.0, 1.0),
            ("lambda_lower", self.lambda_lower, 0.0, 1.0),
        ];
        for (field, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                let expected = format!("expected {low} to {high}, got {value}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        Ok(())
    }
}

impl Blest {
    /// A scheduler with these settings.
    pub fn new(config: &BlestConfig) -> Self {
        Self {
            config: config.clone(),
            wait: Waiting::new(config.wait_for_pacer),
            extremes: [Extremes::NONE; MAX_PATHS],
            lambda: config.lambda,
            round: None,
            blockers: PathSet::EMPTY,
        }
    }

    /// What there is to remember of every view, whatever the decision will be. Returns the bytes in flight on all of them.
    #[inline]
    fn observe(&mut self, cx: &Context<'_>) -> u64 {
        let mut in_flight = 0;
        for path in cx.open() {
            in_flight += path.in_flight;
            let seen = &mut self.extremes[path.index.get()];
            let rtt = path.smoothed_rtt;
            // Zero is "no sample". New extremes are rare: foreseen branches cost less than converting what stays as it is.
            if rtt < seen.least_rtt && path.has_rtt() {
                (seen.least, seen.least_rtt) = (nanos(rtt), rtt);
            }
            if rtt > seen.most_rtt {
                (seen.most, seen.most_rtt) = (nanos(rtt), rtt);
            }
        }
        if let Some(path) = cx.queue.blocked_by {
            self.blockers.insert(path);
        }
        in_flight
    }

    /// `mptcp_blest_update_lambda`.
    fn update_lambda(&mut self, now: Instant, slow: &PathView) {
        let least = self.extremes[slow.index.get()].least_rtt;
        let Some(round) = &mut self.round else {
            self.round = Some(Round::new(now, least));
            return;
        };
        if !round.is_over(now, least) {
            return;
        }
        self.round = Some(Round::new(now, least));
        let step = if self.blockers.contains(slow.index) {
            self.config.lambda_raise
        } else {
            -self.config.lambda_lower
        };
        self.blockers.remove(slow.index);
        self.lambda = (self.lambda + step).clamp(self.config.lambda_min, self.config.lambda_max);
    }

    /// How long the next packet stays on the path, nanoseconds: `mptcp_blest_estimate_linger_time`.
    #[inline]
    fn linger(&self, slow: &PathView) -> f64 {
        let Extremes { least, most, .. } = self.extremes[slow.index.get()];
        let after = float(slow.in_flight + u64::from(slow.mtu));
        let window = float(slow.capacity());
        let estimate = if after >= window {
            most
        } else {
            least + (most - least) * after / window
        };
        larger(estimate, nanos(slow.smoothed_rtt))
    }

    /// The bytes that a path could send in this time: `mptcp_blest_estimate_bytes`.
    #[inline]
    fn could_send(&self, fast: &PathView, linger: f64) -> f64 {
        let Extremes { least, most, .. } = self.extremes[fast.index.get()];
        let rounds = whole(linger / ((least + most) / 2.0)) + 1.0;
        let mss = f64::from(fast.mtu);
        let window = float(fast.capacity()) / mss;
        let packets = if fast.ssthresh == u64::MAX {
            let rounds = rounds.min(MAX_DOUBLINGS);
            window * (f64::from(1_u32 << rounds as u32) - 1.0)
        } else {
            // As if it were in congestion avoidance already.
            let window = larger(window, float(fast.ssthresh) / mss + 1.0);
            (window + (rounds - 1.0) / 2.0) * rounds
        };
        packets * mss
    }

    /// The bytes that all faster paths without room could send in this time.
    #[inline(never)]
    fn all_could_send(&self, cx: &Context<'_>, slow: &PathView, linger: f64) -> f64 {
        let standing = slow.standing();
        let blocked = cx.open().filter(|path| {
            path.standing() == standing
                && !path.can_send
                && path.has_rtt()
                && path.smoothed_rtt < slow.smoothed_rtt
        });
        blocked.map(|path| self.could_send(path, linger)).sum()
    }

    /// Whether the slow path would take space that the fast one needs; so much is in flight on all paths.
    #[inline]
    fn would_block(
        &self,
        cx: &Context<'_>,
        fast: &PathView,
        slow: &PathView,
        in_flight: u64,
    ) -> bool {
        let linger = self.linger(slow);
        let bytes = if self.config.multi {
            self.all_could_send(cx, slow, linger)
        } else {
            self.could_send(fast, linger)
        };
        let send_window = cx.queue.flow_control_window.saturating_add(in_flight);
        let space = send_window.saturating_sub(slow.in_flight + u64::from(slow.mtu));
        bytes * self.lambda > float(space)
    }
}

/// The larger one of two numbers; `f64::max` takes six instructions to see to NaN.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

impl Default for Blest {
    fn default() -> Self {
        Self::new(&BlestConfig::default())
    }
}

impl Scheduler for Blest {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let in_flight = self.observe(cx);
        let mut wait = self.wait;
        let decision = wait.decide(cx, |fast, slow| {
            self.update_lambda(cx.now, slow);
            Advice::wait_if(self.would_block(cx, fast, slow, in_flight))
        });
        self.wait = wait;
        decision
    }

    fn why(&self) -> Option<&'static str> {
        Some(self.wait.why())
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // A slot's next path has RTTs of its own.
        if event.kind == PathUpdateKind::Abandoned {
            self.extremes[event.path.get()] = Extremes::NONE;
            self.blockers.remove(event.path);
        }
    }
}
