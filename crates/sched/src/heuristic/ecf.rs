//! ECF: waits for the fast path if that ends the transfer sooner.

use serde::{Deserialize, Serialize};

use crate::support::{Advice, PairFlags, Waiting, backlog, nanos};
use crate::{Context, Decision, InvalidConfig, PathUpdate, PathUpdateKind, PathView, Scheduler};

/// Sends on the slower path only if what waits is thereby through sooner.
///
/// **Rule.** `f` is the path with the smallest smoothed RTT, `s` the one with the smallest among
/// those with room ([`Context::sendable`]). If they are the same, send. Otherwise, with R the
/// smoothed RTTs, W the congestion windows, K all bytes that wait to be sent, and δ the larger of both RTT
/// variations:
///
/// ```text
/// kf = max(K, W_f)    ks = max(K, W_s)
/// if (1 + kf / W_f) · R_f < (1 + waiting · β) · μ · (R_s + δ):
///     if ks / W_s · R_s ≥ τ · (2 · R_f + δ):  waiting = 1, wait for f
///     else:                                   send on s
/// else:                                       waiting = 0, send on s
/// ```
///
/// The first test: all that waits is through over `f` alone before one packet on `s` is. The
/// second: nor would `s` be through in the time that `f` takes. The flag, with β = 0.25, keeps it
/// from changing its mind too easily; μ ([`margin`](EcfConfig::margin)) and τ
/// ([`threshold`](EcfConfig::threshold)) are 1 as published; there is one for each ordered pair (`f`, `s`), so that any
/// number of paths works. On a wait no other path is tried.
///
/// **When it waits** for `f`, it is asked again at every acknowledgement. It never waits for a path
/// in trouble or with nothing in flight, nor longer than that path's probe timeout, after which one
/// packet goes on `s`. Only new data is put to the tests. Lost data, control frames and datagrams
/// go on `s` unless they arrive sooner over `f`, whatever the tests say of new data: the window of
/// `f` has room again once what is too much in flight is acknowledged, in that share of R_f, and
/// the packet then takes half of R_f, against half of R_s. An `f` that its pacer holds back counts as
/// full; with [`wait_for_pacer`](EcfConfig::wait_for_pacer), one with room in its window is waited for until the pacer
/// lets go, provided that the packet still arrives no later than it
/// would on `s`. A path without an RTT sample gets packets without a test once no other has room.
///
/// **Source.** Lim, Nahum, Towsley, Gibbens: *ECF: An MPTCP Path Scheduler to Manage Heterogeneous
/// Paths*, CoNEXT 2017, in the form of Linux MPTCP v0.95, `mptcp_ecf.c`. The paper writes K for
/// `kf` and `ks`. The kernel's floor of one window is what keeps the last packets off the slow
/// path: for K much smaller than W_s the second test would fail without it. The flags per pair, the
/// bound on waiting, the wait for the pacer and the place of lost data are ours; the kernel has one flag per
/// connection, and each of its subflows repeats its own losses.
///
/// **Cost.** One walk over the slots, two divisions; one bit of state per pair.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, Ecf, PathIndex, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt_ms, window| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     view.pto = Duration::from_millis(rtt_ms + 25);
///     view.cwnd = window;
///     view
/// };
/// let mut paths = [view(0, 40, 60_000), view(1, 200, 30_000)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 60_000); // its window is full
/// let mut queue = QueueView::default();
/// queue.window_left = 1_000_000;
///
/// let mut scheduler = Ecf::default();
/// queue.unsent = 600_000; // (1 + 10) · 40 ms, longer than 200 ms
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index));
///
/// queue.unsent = 180_000; // (1 + 3) · 40 ms, shorter than 200 ms
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Wait { until: Some(_) }));
/// ```
#[derive(Debug, Clone)]
pub struct Ecf {
    config: EcfConfig,
    wait: Waiting,
    flags: PairFlags,
}

/// Settings of [`Ecf`].
///
/// ```
/// use mpquic_sched::EcfConfig;
///
/// let config: EcfConfig = serde_json::from_str(r#"{"beta": 1.0}"#)?;
/// assert!(config.floor);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EcfConfig {
    /// By which share of `s`'s time a wait that has begun is favoured, 0 to 100. Default 0.25. The
    /// ns-3 model has 1, one public Rust version 10.
    pub beta: f64,
    /// Whether a backlog smaller than a window counts as one window. Default true. Without it, as
    /// in the paper's text and in the ns-3 model, the last packets of a transfer go on the slow
    /// path, which is the opposite of the purpose: for reproducing such results only.
    pub floor: bool,
    /// μ: by which factor the first test favours waiting, 0 to 1e9. Default 1, as published. 0 never waits. Ours, as
    /// [`threshold`](Self::threshold): rules from "never wait" to "always wait", of which the best with hindsight
    /// says how much waiting can gain on a network.
    #[serde(skip_serializing_if = "is_one")]
    pub margin: f64,
    /// τ: the factor of the second test, 0 to 1e9. Default 1, as published. 0 leaves that test out.
    #[serde(skip_serializing_if = "is_one")]
    pub threshold: f64,
    /// Whether an `f` with room in its window that only its pacer holds back is waited for, if the packet
    /// still arrives no later than on `s`. Default false, as published: it counts as full, and the tests decide.
    pub wait_for_pacer: bool,
}

impl Default for EcfConfig {
    fn default() -> Self {
        Self {
            beta: 0.25,
            floor: true,
            margin: 1.0,
            threshold: 1.0,
            wait_for_pacer: false,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_one(factor: &f64) -> bool {
    *factor == 1.0
}

impl EcfConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        for (field, value, most) in [
            ("beta", self.beta, 100.0),
            ("margin", self.margin, 1e9),
            ("threshold", self.threshold, 1e9),
        ] {
            if !(0.0..=most).contains(&value) {
                let expected = format!("expected 0 to {most}, got {value}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        Ok(())
    }

    /// The two tests for a backlog of so many bytes; true is "wait for `fast`". Brings the pair's
    /// flag up to date.
    #[inline]
    pub(crate) fn says_wait(
        &self,
        fast: &PathView,
        slow: &PathView,
        backlog: u64,
        waiting: &mut bool,
    ) -> bool {
        let delta = nanos(fast.rtt_var.max(slow.rtt_var));
        let (fast_rtt, slow_rtt) = (nanos(fast.smoothed_rtt), nanos(slow.smoothed_rtt));
        let windows = |path: &PathView| {
            let window = path.capacity();
            let floor = if self.floor { window } else { 0 };
            backlog.max(floor) as f64 / window as f64
        };
        let hysteresis = if *waiting { 1.0 + self.beta } else { 1.0 };
        let (margin, threshold) = (hysteresis * self.margin, self.threshold);
        // A window of zero makes the left side infinite: send.
        if (1.0 + windows(fast)) * fast_rtt < margin * (slow_rtt + delta) {
            let wait = windows(slow) * slow_rtt >= threshold * (2.0 * fast_rtt + delta);
            *waiting |= wait;
            wait
        } else {
            *waiting = false;
            false
        }
    }
}

impl Ecf {
    /// A scheduler with these settings.
    pub fn new(config: &EcfConfig) -> Self {
        Self {
            config: config.clone(),
            wait: Waiting::new(config.wait_for_pacer),
            flags: PairFlags::default(),
        }
    }
}

impl Default for Ecf {
    fn default() -> Self {
        Self::new(&EcfConfig::default())
    }
}

impl Scheduler for Ecf {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Self {
            config,
            wait,
            flags,
        } = self;
        wait.decide(cx, |fast, slow| {
            let mut waiting = flags.get(fast.index, slow.index);
            let says_wait = config.says_wait(fast, slow, backlog(cx), &mut waiting);
            flags.set(fast.index, slow.index, waiting);
            Advice::wait_if(says_wait)
        })
    }

    fn why(&self) -> Option<&'static str> {
        Some(self.wait.why())
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            self.flags.forget(event.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::QueueView;

    #[test]
    fn lost_data_is_in_the_backlog() {
        let queue = changed!(
            QueueView::default(),
            unsent = 180_000,
            retransmittable = 420_000
        );
        assert_eq!(
            backlog(&Context::new(Instant::now(), &[], &queue, 0)),
            600_000
        );
    }
}
