//! RAVEN: redundant where it cannot tell which path is faster, by intervals around the predicted delays.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::support::usable;
use crate::{
    Acked, Context, Decision, InvalidConfig, MAX_PATHS, PathSet, PathUpdate, PathUpdateKind,
    PathView, Scheduler,
};

/// Sends on the path with the smallest predicted RTT, and on all that might be faster.
///
/// **Rule.** For each path, from its RTT samples x with weights that halve every `half_life_ms`: their mean μ and
/// standard deviation σ. The next RTT is predicted to lie within
///
/// ```text
/// μ ± width · σ · √(1 + age / half_life)
/// ```
///
/// with the age of the newest sample: what was not used for long is known less well. Of the paths with
/// room, the one with the smallest μ carries the packet. Each other one whose interval reaches below the upper
/// end of that one's carries a copy; so does one without a sample, of which nothing is known. Without such doubt it is minRTT.
///
/// **Source.** Lee, Flinn, Tonshal: "RAVEN: Improving Interactive Latency for the Connected Car" (MobiCom 2018), by its
/// public kernel module (forkjoseph/mptcp, `net/mptcp/mptcp_raven.c`): weighted means of RTTs, prediction
/// intervals of 90 % that overlap or not, and their ageing. The module looks the intervals up, as shares of the mean, in tables that were
/// made from measurements of the authors' cars and operators. Ours: σ in their place, which needs no measurements ahead,
/// with 1.645 of it on either side, 90 % of a normal distribution; the growth with age; the half-life. The module's ageing
/// is by the second, its weights by a parameter of 256 whose unit it does not say.
///
/// **Defects.** It is for messages and clicks: bulk data over paths with similar delays goes twice, at
/// the rate of one path. Delays are not normal, so that the share of predictions that hold is not 90 %. The queue that
/// its own packets make counts as delay of the path.
///
/// **Cost.** Three walks over the slots; 40 bytes of state per slot, and one exponential per acknowledgement.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, PathView, QueueView, Raven, Scheduler};
///
/// // Nothing is known of either: both carry it.
/// let paths = [0, 1].map(|slot| PathView::of(slot, Duration::from_millis(20)));
/// let queue = QueueView::default();
/// let decision = Raven::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// let Decision::Send { path, copies, .. } = decision else { unreachable!() };
/// assert_eq!(path, paths[0].index);
/// assert!(copies.contains(paths[1].index));
/// ```
#[derive(Debug, Clone)]
pub struct Raven {
    config: RavenConfig,
    delays: [Delay; MAX_PATHS],
}

/// Settings of [`Raven`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RavenConfig {
    /// Standard deviations from the mean to either end of the interval, 0 to 100. Default 1.645. With 0, only paths without
    /// a sample carry copies, and those that are equal.
    pub width: f64,
    /// How long it takes until a sample counts half, milliseconds, 1 to 3,600,000. Default 1000.
    pub half_life_ms: u64,
}

impl Default for RavenConfig {
    fn default() -> Self {
        Self {
            width: 1.645,
            half_life_ms: 1000,
        }
    }
}

impl RavenConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if !(0.0..=100.0).contains(&self.width) {
            let expected = format!("expected 0 to 100, got {}", self.width);
            return Err(InvalidConfig::field("width", expected));
        }
        if !(1..=3_600_000).contains(&self.half_life_ms) {
            let expected = format!("expected 1 to 3600000, got {}", self.half_life_ms);
            return Err(InvalidConfig::field("half_life_ms", expected));
        }
        Ok(())
    }
}

/// What is known of a path's RTTs, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    mean: f64,
    variance: f64,
    /// The sum of the samples' weights.
    weight: f64,
    /// When the newest sample came.
    newest: Option<Instant>,
}

impl Delay {
    /// Half-lives since the newest sample.
    fn age(&self, now: Instant, half_life: Duration) -> f64 {
        let newest = self.newest.unwrap_or(now);
        let age = now.saturating_duration_since(newest);
        age.as_secs_f64() / half_life.as_secs_f64()
    }

    fn learn(&mut self, now: Instant, half_life: Duration, rtt: f64) {
        self.weight = self.weight * (-self.age(now, half_life)).exp2() + 1.0;
        self.newest = Some(now);
        let share = 1.0 / self.weight;
        let error = rtt - self.mean;
        self.mean += share * error;
        self.variance = (1.0 - share) * (self.variance + share * error * error);
    }

    /// The lower and the upper end of the next RTT; all that is possible before there is a sample.
    fn interval(&self, now: Instant, config: &RavenConfig) -> (f64, f64) {
        if self.newest.is_none() {
            return (0.0, f64::INFINITY);
        }
        let half_life = Duration::from_millis(config.half_life_ms);
        let spread = (self.variance * (1.0 + self.age(now, half_life))).sqrt();
        let reach = config.width * spread;
        (self.mean - reach, self.mean + reach)
    }

    /// What paths are ranked by: those with a sample first.
    const fn rank(&self) -> f64 {
        if self.newest.is_some() {
            self.mean
        } else {
            f64::INFINITY
        }
    }
}

impl Raven {
    /// A scheduler with these settings.
    pub fn new(config: &RavenConfig) -> Self {
        Self {
            config: config.clone(),
            delays: [Delay::default(); MAX_PATHS],
        }
    }

    fn delay(&self, path: &PathView) -> &Delay {
        &self.delays[path.index.get()]
    }
}

impl Default for Raven {
    fn default() -> Self {
        Self::new(&RavenConfig::default())
    }
}

impl Scheduler for Raven {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let with_room = || usable(cx).filter(|path| path.can_send);
        let best = with_room().reduce(|best, other| {
            if self.delay(other).rank() < self.delay(best).rank() {
                other
            } else {
                best
            }
        });
        let Some(best) = best else {
            return Decision::Wait { until: None };
        };
        let (_, latest) = self.delay(best).interval(cx.now, &self.config);
        let mut copies = PathSet::EMPTY;
        for path in with_room().filter(|path| path.index != best.index) {
            if self.delay(path).interval(cx.now, &self.config).0 <= latest {
                copies.insert(path.index);
            }
        }
        Decision::Send {
            path: best.index,
            data: crate::Data::Next,
            copies,
        }
    }

    fn on_acked(&mut self, event: &Acked) {
        if let Some(rtt) = event.rtt {
            let half_life = Duration::from_millis(self.config.half_life_ms);
            let delay = &mut self.delays[event.path.get()];
            delay.learn(event.now, half_life, rtt.as_secs_f64());
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // What was measured of a path says nothing of another one.
        if matches!(
            event.kind,
            PathUpdateKind::Abandoned | PathUpdateKind::Moved
        ) {
            self.delays[event.path.get()] = Delay::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathId, PathIndex, QueueView};

    const MS: Duration = Duration::from_millis(1);

    struct Asked {
        scheduler: Raven,
        start: Instant,
        paths: Vec<PathView>,
    }

    impl Asked {
        fn new(paths: usize) -> Self {
            Self {
                scheduler: Raven::default(),
                start: Instant::now(),
                paths: (0..paths).map(|slot| PathView::of(slot, MS)).collect(),
            }
        }

        /// Alternating samples of this mean and deviation, a hundred of them at the start.
        fn learn(&mut self, slot: usize, mean_ms: f64, sd_ms: f64) -> &mut Self {
            for number in 0..100 {
                let sign = if number % 2 == 0 { 1.0 } else { -1.0 };
                let rtt = Duration::from_secs_f64((mean_ms + sign * sd_ms) / 1000.0);
                let slot = PathIndex::new(slot).unwrap();
                let acked = Acked::new(slot, self.start, self.start, 1200, Some(rtt), None, 0);
                self.scheduler.on_acked(&acked);
            }
            self
        }

        /// The slot that carries a packet, and those that carry copies.
        fn at(&mut self, after_ms: u32) -> Option<(usize, Vec<usize>)> {
            let queue = QueueView::default();
            let cx = Context::new(self.start + MS * after_ms, &self.paths, &queue, 0);
            match self.scheduler.decide(&cx) {
                Decision::Send { path, copies, .. } => {
                    let copies = copies.iter().map(|path| path.get()).collect();
                    Some((path.get(), copies))
                }
                Decision::Wait { .. } => None,
            }
        }
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_samples() {
        let mut asked = Asked::new(1);
        asked.learn(0, 50.0, 10.0);
        let delay = asked.scheduler.delays[0];
        assert!((delay.mean - 0.05).abs() < 1e-9, "{delay:?}");
        assert!((delay.variance.sqrt() - 0.01).abs() < 1e-9, "{delay:?}");
        // A half-life later, a hundred samples count as fifty.
        let later = asked.start + MS * 1000;
        asked.scheduler.delays[0].learn(later, MS * 1000, 0.101);
        assert!((asked.scheduler.delays[0].mean - 0.051).abs() < 1e-9);
    }

    #[test]
    fn intervals_that_overlap_bring_copies() {
        // Up to 50 + 1.645 · 10 = 66.45 ms; from 80 - 1.645 · 8 = 66.84 ms, and from 65.195 ms.
        let mut asked = Asked::new(2);
        asked.learn(1, 50.0, 10.0).learn(0, 80.0, 8.0);
        assert_eq!(asked.at(0), Some((1, vec![])));
        let mut asked = Asked::new(2);
        asked.learn(1, 50.0, 10.0).learn(0, 80.0, 9.0);
        assert_eq!(asked.at(0), Some((1, vec![0])));
    }

    #[test]
    fn age_widens_intervals() {
        // 50 + 16.45 · √2 = 73.3 ms and 90 - 16.45 · √2 = 66.7 ms after a half-life; 66.45 and 73.55 ms at once.
        let mut asked = Asked::new(2);
        asked.learn(0, 50.0, 10.0).learn(1, 90.0, 10.0);
        assert_eq!(asked.at(0), Some((0, vec![])));
        assert_eq!(asked.at(1000), Some((0, vec![1])));
    }

    #[test]
    fn what_is_unknown_carries_copies_and_is_never_the_first() {
        let mut asked = Asked::new(3);
        assert_eq!(asked.at(0), Some((0, vec![1, 2])));
        asked.learn(1, 90.0, 1.0).learn(2, 50.0, 1.0);
        assert_eq!(asked.at(0), Some((2, vec![0])));
        let ended = PathUpdate::new(
            asked.paths[2].index,
            PathId::ZERO,
            asked.start,
            PathUpdateKind::Abandoned,
        );
        asked.scheduler.on_path(&ended);
        assert_eq!(asked.at(0), Some((1, vec![0, 2])));
    }

    #[test]
    fn paths_without_room_carry_nothing() {
        let mut asked = Asked::new(3);
        asked.paths[1].can_send = false;
        assert_eq!(asked.at(0), Some((0, vec![2])));
        asked.paths[0].can_send = false;
        asked.paths[2].status = crate::PathStatus::Backup;
        assert_eq!(asked.at(0), None);
    }
}
