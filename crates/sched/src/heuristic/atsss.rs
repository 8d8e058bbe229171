//! The steering modes of 3GPP's ATSSS, by name: which access carries what.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::support::usable;
use crate::{
    Acked, Backup, BackupConfig, Context, Decision, InvalidConfig, Lost, MAX_PATHS, MinRtt,
    MinRttConfig, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView, Redundant,
    RedundantConfig, Scheduler, Sent,
};

/// Packets in a sample of a path's losses.
const LOSS_SAMPLE: u16 = 256;

/// How long a path is left alone before it is asked again.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// Steers as a rule of an operator says: the five modes of ATSSS over any number of paths.
///
/// **Rule.** By [`mode`](AtsssConfig::mode):
///
/// | mode | the packet goes |
/// |---|---|
/// | `active_standby` | on the first of [`paths`](AtsssConfig::paths); on another one only if that fails |
/// | `smallest_delay` | on the path with room and the smallest smoothed RTT, as [`MinRtt`] has it |
/// | `load_balancing` | on the path that is the furthest behind its [share](AtsssConfig::shares) of the bytes; if that has no room it is waited for, since the shares are the rule |
/// | `priority` | on the first of `paths` that has room: the next one takes what is too much for those before it |
/// | `redundant` | on all paths, as [`Redundant`] has it |
///
/// A path whose RTT or share of lost packets is above a threshold is left alone by `load_balancing` and `priority` as long
/// as another one is below, and asked again after a second. Paths that `paths` does not name come after those that it names. The preferences of the
/// endpoints (RFC 10069, Path Status Management) come before all of this.
///
/// **Shares** are kept by start-time fair queueing: a path's bytes, divided by its share, are its time; the path
/// whose time is the earliest is next. A path that joins, or was in trouble, begins at the time of the others and makes
/// up for nothing.
///
/// **Source.** 3GPP TS 23.501 section 5.32.8 (rules and modes), with its thresholds for RTT and loss; P. Goyal, H. Vin and
/// H. Cheng, "Start-time Fair Queuing", SIGCOMM 1996, for the shares.
///
/// **Cost.** Three walks over the slots at most; 24 bytes of state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Atsss, AtsssConfig, Context, Decision, PathId, PathView, QueueView, Scheduler, SteeringMode};
///
/// let mut paths = [PathView::of(0, Duration::from_millis(15)), PathView::of(1, Duration::from_millis(40))];
/// let queue = QueueView::default();
/// let mut scheduler = Atsss::new(&AtsssConfig {
///     mode: SteeringMode::Priority,
///     paths: vec![PathId(1), PathId(0)],
///     ..AtsssConfig::default()
/// });
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index)); // slower, and first in the list
///
/// paths[1].can_send = false; // its window is full
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert_eq!(decision, Decision::send(paths[0].index));
/// ```
#[derive(Debug, Clone)]
pub struct Atsss {
    mode: Mode,
    limits: Limits,
}

/// The steering mode of [`AtsssConfig`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteeringMode {
    /// One path, and another one only if it fails.
    ActiveStandby,
    /// The path with the smallest RTT.
    #[default]
    SmallestDelay,
    /// Fixed shares.
    LoadBalancing,
    /// In the order of a list, each until it is full.
    Priority,
    /// Everything on every path.
    Redundant,
}

/// Settings of [`Atsss`].
///
/// ```
/// use mpquic_sched::{AtsssConfig, SteeringMode};
///
/// let config: AtsssConfig =
///     serde_json::from_str(r#"{"mode": "load_balancing", "paths": [0, 1], "shares": [80, 20], "max_rtt_ms": 200}"#)?;
/// assert_eq!(config.mode, SteeringMode::LoadBalancing);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AtsssConfig {
    /// Default `smallest_delay`.
    pub mode: SteeringMode,
    /// Path IDs (RFC 10069), the one that is preferred first. Needed by `active_standby`, `load_balancing` and `priority`.
    pub paths: Vec<PathId>,
    /// For `load_balancing`: what each of `paths` carries, in any unit; above 0.
    pub shares: Vec<f64>,
    /// For `load_balancing` and `priority`: paths with a larger smoothed RTT are left alone, milliseconds. Default none.
    pub max_rtt_ms: Option<f64>,
    /// For the same: paths that lost a larger part of their newest 256 packets or more, from 0 to 1. Default none.
    pub max_loss: Option<f64>,
}

#[derive(Debug, Clone)]
enum Mode {
    Standby(Backup),
    Delay(MinRtt),
    Shares(Box<Shares>),
    Priority(Vec<PathId>),
    Redundant(Redundant),
}

impl AtsssConfig {
    /// Whether the settings fit each other.
    ///
    /// # Errors
    ///
    /// The first field that does not, and what was expected.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        use SteeringMode::{ActiveStandby, LoadBalancing, Priority};
        let listed = matches!(self.mode, ActiveStandby | LoadBalancing | Priority);
        if listed && self.paths.is_empty() {
            return Err(InvalidConfig::field(
                "paths",
                "expected a path ID for this mode, got none",
            ));
        }
        if self.paths.len() > MAX_PATHS {
            let what = format!(
                "expected at most {MAX_PATHS} path IDs, got {}",
                self.paths.len()
            );
            return Err(InvalidConfig::field("paths", what));
        }
        let twice = |(at, id): (usize, &PathId)| self.paths[..at].contains(id).then_some(*id);
        if let Some(PathId(id)) = self.paths.iter().enumerate().find_map(twice) {
            return Err(InvalidConfig::field(
                "paths",
                format!("path {id} is named twice"),
            ));
        }
        let expected = if self.mode == LoadBalancing {
            self.paths.len()
        } else {
            0
        };
        if self.shares.len() != expected {
            let what = format!("expected {expected} shares, got {}", self.shares.len());
            return Err(InvalidConfig::field("shares", what));
        }
        if let Some(share) = self
            .shares
            .iter()
            .find(|share| !(share.is_finite() && **share > 0.0))
        {
            return Err(InvalidConfig::field(
                "shares",
                format!("expected numbers above 0, got {share}"),
            ));
        }
        let steered = matches!(self.mode, LoadBalancing | Priority);
        for (name, limit) in [("max_rtt_ms", self.max_rtt_ms), ("max_loss", self.max_loss)] {
            if limit.is_some() && !steered {
                return Err(InvalidConfig::field(
                    name,
                    "only `load_balancing` and `priority` have thresholds",
                ));
            }
        }
        match (self.max_rtt_ms, self.max_loss) {
            (Some(ms), _) if !(ms > 0.0 && ms < 1e9) => Err(InvalidConfig::field(
                "max_rtt_ms",
                format!("expected more than 0, got {ms}"),
            )),
            (_, Some(part)) if !(0.0..=1.0).contains(&part) => Err(InvalidConfig::field(
                "max_loss",
                format!("expected 0 to 1, got {part}"),
            )),
            _ => Ok(()),
        }
    }
}

impl Atsss {
    /// A scheduler with these settings, which [`AtsssConfig::check`] has passed; what it would not pass counts as not set.
    pub fn new(config: &AtsssConfig) -> Self {
        let mode = match config.mode {
            SteeringMode::ActiveStandby => {
                let primary = config.paths.first().copied();
                Mode::Standby(Backup::new(&BackupConfig { primary }))
            }
            SteeringMode::SmallestDelay => Mode::Delay(MinRtt::new(&MinRttConfig::default())),
            SteeringMode::LoadBalancing => {
                Mode::Shares(Box::new(Shares::new(&config.paths, &config.shares)))
            }
            SteeringMode::Priority => Mode::Priority(config.paths.clone()),
            SteeringMode::Redundant => Mode::Redundant(Redundant::new(&RedundantConfig {})),
        };
        let rtt = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok();
        let limits = Limits {
            max_rtt: config.max_rtt_ms.and_then(rtt),
            max_loss: config.max_loss,
            lossy: [Lossy::default(); MAX_PATHS],
        };
        Self { mode, limits }
    }
}

impl Scheduler for Atsss {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match &mut self.mode {
            Mode::Standby(backup) => backup.decide(cx),
            Mode::Delay(min_rtt) => min_rtt.decide(cx),
            Mode::Redundant(redundant) => redundant.decide(cx),
            Mode::Shares(shares) => {
                let place = |path: &&PathView| {
                    (!shares.is_named(path.id), self.limits.exceeds(path, cx.now))
                };
                let best = usable(cx).map(|path| place(&path)).min();
                let among = usable(cx).filter(|path| Some(place(path)) == best);
                // Times are finite.
                let next = among.min_by(|a, b| shares.start(a).total_cmp(&shares.start(b)));
                match next {
                    Some(path) if path.can_send => Decision::send(path.index),
                    _ => Decision::Wait { until: None },
                }
            }
            Mode::Priority(order) => {
                let place = |id| {
                    order
                        .iter()
                        .position(|listed| *listed == id)
                        .unwrap_or(order.len())
                };
                let ranked = usable(cx).map(|path| (self.limits.exceeds(path, cx.now), path));
                // Left alone is not full: what exceeds a limit gets nothing while another path is below it.
                let left_alone = usable(cx).all(|path| self.limits.exceeds(path, cx.now));
                let open = ranked.filter(|(exceeds, path)| path.can_send && *exceeds == left_alone);
                let next = open.min_by_key(|(_, path)| (place(path.id), path.rtt_rank()));
                match next {
                    Some((_, path)) => Decision::send(path.index),
                    None => Decision::Wait { until: None },
                }
            }
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        if let Mode::Shares(shares) = &mut self.mode {
            shares.charge(event.path, event.size);
        }
    }

    fn on_acked(&mut self, event: &Acked) {
        self.limits.count(event.path, false, event.now);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.limits.count(event.path, true, event.now);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // A slot's next path does not inherit what the one before did.
        if event.kind == PathUpdateKind::Opened {
            self.limits.lossy[event.path.get()] = Lossy::default();
            if let Mode::Shares(shares) = &mut self.mode {
                shares.hold(event.path, event.id);
            }
        }
    }
}

/// Who is the furthest behind its share.
#[derive(Debug, Clone)]
struct Shares {
    /// The listed paths and what each is to carry, a part of 1.
    listed: Vec<(PathId, f64)>,
    /// Per slot: bytes over share at which its next packet may begin, and the share.
    finish: [f64; MAX_PATHS],
    share: [f64; MAX_PATHS],
    /// Where the newest packet began.
    virtual_time: f64,
}

impl Shares {
    fn new(paths: &[PathId], shares: &[f64]) -> Self {
        let sum: f64 = shares.iter().sum();
        let part = |(id, share): (&PathId, &f64)| (*id, share / sum);
        Self {
            listed: paths.iter().zip(shares).map(part).collect(),
            finish: [0.0; MAX_PATHS],
            share: [1.0; MAX_PATHS],
            virtual_time: 0.0,
        }
    }

    fn is_named(&self, id: PathId) -> bool {
        self.listed.iter().any(|(listed, _)| *listed == id)
    }

    /// When the path's next packet begins: not before now, for what was missed is not made up for.
    fn start(&self, path: &PathView) -> f64 {
        self.finish[path.index.get()].max(self.virtual_time)
    }

    fn charge(&mut self, path: PathIndex, bytes: u16) {
        let slot = path.get();
        self.virtual_time = self.finish[slot].max(self.virtual_time);
        self.finish[slot] = self.virtual_time + f64::from(bytes) / self.share[slot];
    }

    /// The slot holds this path from now on.
    fn hold(&mut self, path: PathIndex, id: PathId) {
        let listed = self.listed.iter().find(|(listed, _)| *listed == id);
        self.share[path.get()] = listed.map_or(1.0, |(_, share)| *share);
        self.finish[path.get()] = 0.0;
    }
}

/// Which paths are left alone.
#[derive(Debug, Clone)]
struct Limits {
    max_rtt: Option<Duration>,
    max_loss: Option<f64>,
    lossy: [Lossy; MAX_PATHS],
}

impl Limits {
    fn exceeds(&self, path: &PathView, now: Instant) -> bool {
        let lossy = self.lossy[path.index.get()].until;
        lossy.is_some_and(|until| now < until) || self.is_slow(path, now)
    }

    /// Whoever sends nothing measures nothing, so that a path that was silent for a while counts as fast until its next
    /// sample. That one tells by itself: the smoothed RTT would take many.
    fn is_slow(&self, path: &PathView, now: Instant) -> bool {
        let rtt = path.smoothed_rtt.min(path.latest_rtt);
        let silent = path
            .last_sent
            .is_none_or(|sent| now.saturating_duration_since(sent) >= LEFT_ALONE);
        self.max_rtt.is_some_and(|most| rtt > most) && !silent
    }

    fn count(&mut self, path: PathIndex, lost: bool, now: Instant) {
        if let Some(most) = self.max_loss {
            self.lossy[path.get()].count(lost, most, now);
        }
    }
}

/// The share of lost packets, sample by sample.
#[derive(Debug, Clone, Copy, Default)]
struct Lossy {
    packets: u16,
    lost: u16,
    /// The path is left alone up to here.
    until: Option<Instant>,
}

impl Lossy {
    fn count(&mut self, lost: bool, most: f64, now: Instant) {
        self.packets += 1;
        self.lost += u16::from(lost);
        if self.packets == LOSS_SAMPLE {
            let exceeds = f64::from(self.lost) > most * f64::from(LOSS_SAMPLE);
            *self = Self {
                until: exceeds.then_some(now + LEFT_ALONE),
                ..Self::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueView;

    fn config(mode: SteeringMode, paths: &[u32]) -> AtsssConfig {
        AtsssConfig {
            mode,
            paths: paths.iter().map(|id| PathId(*id)).collect(),
            ..AtsssConfig::default()
        }
    }

    fn path(slot: usize, rtt_ms: u64) -> PathView {
        let rtt = Duration::from_millis(rtt_ms);
        changed!(PathView::of(slot, rtt), latest_rtt = rtt, min_rtt = rtt)
    }

    fn opened(scheduler: &mut Atsss, path: &PathView, now: Instant) {
        scheduler.on_path(&PathUpdate::new(
            path.index,
            path.id,
            now,
            PathUpdateKind::Opened,
        ));
    }

    /// The slot that is asked to carry the next packet, or `None` for a wait.
    fn next(scheduler: &mut Atsss, paths: &[PathView], now: Instant) -> Option<usize> {
        match scheduler.decide(&Context::new(now, paths, &QueueView::default(), 0)) {
            Decision::Send { path, .. } => Some(path.get()),
            Decision::Wait { .. } => None,
        }
    }

    fn send(scheduler: &mut Atsss, paths: &[PathView], now: Instant) -> Option<usize> {
        let slot = next(scheduler, paths, now)?;
        scheduler.on_sent(&Sent::new(paths[slot].index, now, 1200, 0, false, 1200));
        Some(slot)
    }

    fn shares(shares: &[f64]) -> Atsss {
        let ids: Vec<u32> = (0..shares.len() as u32).collect();
        Atsss::new(&AtsssConfig {
            shares: shares.to_vec(),
            ..config(SteeringMode::LoadBalancing, &ids)
        })
    }

    #[test]
    fn shares_are_kept_to_a_packet() {
        let (mut scheduler, now) = (shares(&[70.0, 20.0, 10.0]), Instant::now());
        let paths = [path(0, 10), path(1, 20), path(2, 30)];
        paths
            .iter()
            .for_each(|path| opened(&mut scheduler, path, now));
        let mut sent = [0; 3];
        for _ in 0..1000 {
            sent[send(&mut scheduler, &paths, now).unwrap()] += 1;
        }
        assert!(
            sent.iter()
                .zip([700, 200, 100])
                .all(|(is, wanted): (&i32, i32)| (is - wanted).abs() <= 1),
            "{sent:?}"
        );
    }

    #[test]
    fn a_share_that_has_no_room_is_waited_for_and_one_in_trouble_is_not() {
        let (mut scheduler, now) = (shares(&[1.0, 1.0]), Instant::now());
        let mut paths = [path(0, 10), path(1, 20)];
        paths
            .iter()
            .for_each(|path| opened(&mut scheduler, path, now));
        assert_eq!(send(&mut scheduler, &paths, now), Some(0));
        paths[1].can_send = false;
        assert_eq!(send(&mut scheduler, &paths, now), None);
        paths[1].suspect = true;
        for _ in 0..50 {
            assert_eq!(send(&mut scheduler, &paths, now), Some(0));
        }
        // It comes back and makes up for nothing.
        (paths[1].can_send, paths[1].suspect) = (true, false);
        let turns: Vec<_> = (0..6)
            .filter_map(|_| send(&mut scheduler, &paths, now))
            .collect();
        assert_eq!(
            turns.iter().filter(|slot| **slot == 1).count(),
            3,
            "{turns:?}"
        );
    }

    #[test]
    fn a_path_that_is_not_named_is_for_when_no_other_is_left() {
        let (mut scheduler, now) = (shares(&[1.0]), Instant::now());
        let mut paths = [path(0, 10), path(1, 5)];
        paths
            .iter()
            .for_each(|path| opened(&mut scheduler, path, now));
        assert_eq!(send(&mut scheduler, &paths, now), Some(0));
        paths[0].open = false;
        assert_eq!(send(&mut scheduler, &paths, now), Some(1));
    }

    #[test]
    fn priority_overflows_in_its_order() {
        let mut scheduler = Atsss::new(&config(SteeringMode::Priority, &[2, 0]));
        let mut paths = [path(0, 10), path(1, 5), path(2, 90)];
        let now = Instant::now();
        for expected in [Some(2), Some(0), Some(1), None] {
            assert_eq!(send(&mut scheduler, &paths, now), expected);
            if let Some(slot) = expected {
                paths[slot].can_send = false;
            }
        }
    }

    #[test]
    fn a_slow_path_is_left_alone_and_asked_again_after_a_second() {
        let mut scheduler = Atsss::new(&AtsssConfig {
            max_rtt_ms: Some(50.0),
            ..config(SteeringMode::Priority, &[0, 1])
        });
        let now = Instant::now();
        let mut paths = [path(0, 80), path(1, 20)];
        paths[0].last_sent = Some(now);
        assert_eq!(next(&mut scheduler, &paths, now), Some(1));
        paths[1].can_send = false; // left alone is not the same as full
        assert_eq!(next(&mut scheduler, &paths, now), None);
        paths[1].can_send = true;
        assert_eq!(next(&mut scheduler, &paths, now + LEFT_ALONE), Some(0));
        // Its next sample is a good one.
        paths[0].last_sent = Some(now + LEFT_ALONE);
        paths[0].latest_rtt = Duration::from_millis(30);
        assert_eq!(next(&mut scheduler, &paths, now + LEFT_ALONE), Some(0));
        // Where all are slow, the order is what is left.
        (paths[0].latest_rtt, paths[1].open) = (Duration::from_millis(80), false);
        assert_eq!(next(&mut scheduler, &paths, now + LEFT_ALONE), Some(0));
    }

    #[test]
    fn a_lossy_path_is_left_alone_for_a_second() {
        let mut scheduler = Atsss::new(&AtsssConfig {
            max_loss: Some(0.02),
            ..config(SteeringMode::Priority, &[0, 1])
        });
        let (paths, now) = ([path(0, 10), path(1, 20)], Instant::now());
        let feed = |scheduler: &mut Atsss, lost: u16| {
            for number in 0..LOSS_SAMPLE {
                scheduler.limits.count(paths[0].index, number < lost, now);
            }
        };
        feed(&mut scheduler, 5); // 1.95 %
        assert_eq!(next(&mut scheduler, &paths, now), Some(0));
        feed(&mut scheduler, 6); // 2.3 %
        assert_eq!(next(&mut scheduler, &paths, now), Some(1));
        assert_eq!(next(&mut scheduler, &paths, now + LEFT_ALONE), Some(0));
    }

    #[test]
    fn the_other_modes_are_schedulers_that_there_were() {
        let now = Instant::now();
        let mut paths = [path(0, 80), path(1, 20)];
        let mut standby = Atsss::new(&config(SteeringMode::ActiveStandby, &[0]));
        assert_eq!(next(&mut standby, &paths, now), Some(0));
        let mut delay = Atsss::new(&config(SteeringMode::SmallestDelay, &[]));
        assert_eq!(next(&mut delay, &paths, now), Some(1));
        paths[0].can_send = false;
        assert_eq!(next(&mut standby, &paths, now), None);
        let mut redundant = Atsss::new(&config(SteeringMode::Redundant, &[]));
        let queue = QueueView::default();
        let decision = redundant.decide(&Context::new(now, &paths, &queue, 0));
        assert_eq!(
            decision,
            Decision::send_data(paths[1].index, crate::Data::Redundant)
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let said = |config: AtsssConfig| config.check().unwrap_err().to_string();
        let none = config(SteeringMode::Priority, &[]);
        assert!(said(none).contains("paths"));
        let twice = config(SteeringMode::Priority, &[1, 1]);
        assert!(said(twice).contains("path 1 is named twice"));
        let unequal = config(SteeringMode::LoadBalancing, &[0, 1]);
        assert!(said(unequal).contains("expected 2 shares, got 0"));
        let mut zero = config(SteeringMode::LoadBalancing, &[0]);
        zero.shares = vec![0.0];
        assert!(said(zero).contains("above 0"));
        let mut pointless = config(SteeringMode::SmallestDelay, &[]);
        pointless.max_loss = Some(0.1);
        assert!(said(pointless).contains("max_loss"));
        let mut loss = config(SteeringMode::Priority, &[0]);
        loss.max_loss = Some(1.5);
        assert!(said(loss).contains("expected 0 to 1, got 1.5"));
        assert!(AtsssConfig::default().check().is_ok());
    }
}
