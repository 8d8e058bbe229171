//! DAPS: a schedule of packets over a period, so that they arrive in order; adapts between periods only.

mod schedule;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::schedule::{Plan, Schedule};
use crate::support::{Fastest, Patience, payload, usable};
use crate::{
    Context, Data, Decision, InvalidConfig, MAX_PATHS, PathIndex, PathSet, PathUpdate,
    PathUpdateKind, PathView, Scheduler, Sent,
};

/// Makes a schedule for a period from delays and windows, and follows it.
///
/// **Rule.** For each usable path with an RTT sample: its forward delay `d_i = R_i / 2`, rounded to
/// a multiple of `q` and at least `q`; its burst `b_i`, its congestion window in packets, smoothed
/// once per RTT as 7/8 of what it was and 1/8 of what it is. The period is the least common multiple
/// of the delays; were it longer than 64 `q`, `q` is raised by an eighth until it is not. In each multiple of
/// `d_i` up to the period a burst of path `i` arrives, those with smaller RTTs first, and that is
/// the order in which they carry the data. Each path goes through its own part: a packet of a slower
/// path leaves a gap for all packets of the others that come before it in the order
/// ([`Data::Ahead`]).
///
/// When all packets of the schedule are sent, the next one is made. A path that becomes unusable is
/// skipped, and what it should have carried the others do. A path with a full window is waited for,
/// if nobody else has packets left in the period or data behind theirs: after a probe timeout of
/// it, one packet goes without the schedule, as by [`MinRtt`](crate::MinRtt). So does whatever was
/// lost, and everything while no path has an RTT sample.
///
/// Within a period, it does not react to loss or to changed delays. That is its design, and it has a
/// price: a path whose window shrinks holds the others up, and paths that wait for each other show
/// their congestion controllers less than they could carry. With rate-based ones (BBR) two paths may
/// be slower than one.
///
/// **Source.** Kuhn et al., "DAPS: Intelligent Delay-Aware Packet Scheduling For Multipath
/// Transport" (ICC 2014), by the code for Linux (`mptcp_daps.c` of mptcp-kau). That code takes
/// microseconds for milliseconds, so that its periods explode; and it sends strictly in the order
/// of the schedule, while here paths go on side by side, as data that is due when it arrives
/// demands. `q` is 4 ms there; the bound of 64 is ours.
///
/// **Cost.** Two walks over the slots for most packets; one walk for each path when a schedule is
/// made. 112 bytes of state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Daps, Data, Decision, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt, window: u64| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt));
///     (view.mtu, view.cwnd) = (1235, window * 1235); // 1200 bytes of data in a packet
///     view
/// };
/// // Delays of one and three slots of 4 ms: three bursts arrive before the slow path's does.
/// let mut paths = [view(0, 8, 5), view(1, 24, 10)];
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
///
/// let mut scheduler = Daps::default();
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[0].index));
///
/// paths[0].can_send = false;
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Send { data: Data::Ahead(18_000), .. })); // 3 * 5 packets
/// ```
#[derive(Debug, Clone, Default)]
pub struct Daps {
    config: DapsConfig,
    schedule: Schedule,
    windows: [Window; MAX_PATHS],
    patience: Patience,
    /// The decision that the schedule made last, until its packet has left.
    planned: Option<(u64, PathIndex)>,
}

/// Settings of [`Daps`].
///
/// ```
/// use mpquic_sched::DapsConfig;
///
/// let config: DapsConfig = serde_json::from_str(r#"{"unit_ms": 8}"#)?;
/// assert_eq!(config.unit_ms, 8.0);
/// assert_eq!(DapsConfig::default().unit_ms, 4.0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DapsConfig {
    /// `q`, the unit of forward delays, milliseconds; above 0. Default 4.
    pub unit_ms: f64,
}

impl Default for DapsConfig {
    fn default() -> Self {
        Self { unit_ms: 4.0 }
    }
}

impl DapsConfig {
    /// Whether the settings make sense.
    ///
    /// # Errors
    ///
    /// What is wrong with which.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        // Nanoseconds are the finest unit that delays have.
        if (1e-6..=1e6).contains(&self.unit_ms) {
            return Ok(());
        }
        let expected = format!("expected milliseconds above 0, got {}", self.unit_ms);
        Err(InvalidConfig::field("unit_ms", expected))
    }
}

/// A path's congestion window over time.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// Smoothed, packets.
    packets: f64,
    /// When it was last brought up to date.
    updated: Option<Instant>,
}

impl Window {
    /// Takes in the window once per RTT.
    fn update(&mut self, now: Instant, path: &PathView) {
        let packets = path.cwnd as f64 / f64::from(path.mtu.max(1));
        match self.updated {
            None => self.packets = packets,
            Some(last) if now.saturating_duration_since(last) < path.smoothed_rtt => return,
            Some(_) => self.packets += (packets - self.packets) / 8.0,
        }
        self.updated = Some(now);
    }
}

impl Daps {
    /// A scheduler with these settings. A unit that does not pass [`DapsConfig::check`] is taken for
    /// the default.
    pub fn new(config: &DapsConfig) -> Self {
        let config = match config.check() {
            Ok(()) => config.clone(),
            Err(_) => DapsConfig::default(),
        };
        Self {
            config,
            ..Self::default()
        }
    }

    fn rebuild(&mut self, cx: &Context<'_>) {
        let windows = &self.windows;
        let plans = usable(cx).filter(|path| path.has_rtt()).map(|path| Plan {
            path: path.index,
            rtt: path.smoothed_rtt,
            // No window is so large that its packets would not fit.
            burst: (windows[path.index.get()].packets.round() as u32).clamp(1, 1 << 20),
            payload: payload(path),
        });
        let unit = Duration::from_secs_f64(self.config.unit_ms / 1e3);
        self.schedule.build(plans, unit);
    }
}

impl Scheduler for Daps {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Some(Fastest {
            sendable: Some(fastest),
            ..
        }) = Fastest::of(cx)
        else {
            return Decision::Wait { until: None };
        };
        let (mut open, mut able) = (PathSet::EMPTY, PathSet::EMPTY);
        for path in usable(cx).filter(|path| path.has_rtt()) {
            open.insert(path.index);
            if path.can_send {
                able.insert(path.index);
            }
            self.windows[path.index.get()].update(cx.now, path);
        }
        self.planned = None;
        let queue = cx.queue;
        if queue.retransmittable > 0 {
            return Decision::send_data(fastest.index, Data::Retransmit);
        }
        if queue.unsent == 0 || open.is_empty() {
            self.patience.end();
            return Decision::send(fastest.index);
        }
        if self.schedule.pending().intersection(open).is_empty() {
            self.rebuild(cx);
        }
        if let Some((path, gap)) = self.schedule.first(able, open) {
            if gap == 0 {
                self.patience.end();
                self.planned = Some((cx.decision, path));
                return Decision::send(path);
            }
            if queue.control {
                return Decision::send_data(path, Data::Retransmit);
            }
            if gap < queue.unsent {
                self.patience.end();
                self.planned = Some((cx.decision, path));
                return Decision::send_data(path, Data::Ahead(gap));
            }
        }
        // The path whose packet comes first of all is full.
        let first = self.schedule.first(open, open);
        let blocked = first.and_then(|(path, _)| cx.path(path));
        if let Some(wait) = blocked.and_then(|blocked| self.patience.wait(cx.now, blocked)) {
            return wait;
        }
        Decision::send(fastest.index)
    }

    fn on_sent(&mut self, event: &Sent) {
        if self
            .planned
            .take_if(|planned| *planned == (event.decision, event.path))
            .is_some()
        {
            self.schedule.on_sent(event.path);
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // A slot's next path has a delay and a window of its own.
        if event.kind == PathUpdateKind::Abandoned {
            self.schedule.remove(event.path);
            self.windows[event.path.get()] = Window::default();
        }
    }
}
