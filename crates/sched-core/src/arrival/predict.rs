//! What a path has been seen to deliver, remembered for a few round trips, and when a packet arrives that is sent on it now, or as
//! soon as the path takes it.

use std::time::{Duration, Instant};

use super::ArrivalConfig;
use crate::patience::{float, larger, nanos_between, smaller};
use crate::support::nanos;
use crate::{Context, PathView};

/// Paths with a smaller smallest RTT are within a host or a rack.
const NEAR: Duration = Duration::from_millis(1);

/// So many packets leave by one decision on the shortest paths: what is in flight there does not decide as long as there is room,
/// but says when each is expected back.
const NEAR_RUN: u32 = 16;

/// What a path is expected to do, in nanoseconds from now and bytes per nanosecond.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prediction {
    /// When the next packet of this path arrives.
    pub(super) arrival: f64,
    /// What it delivers from then on.
    pub(super) rate: f64,
    /// When its acknowledgement comes.
    pub(super) round_trip: f64,
    /// What of both is the queue of others.
    pub(super) others: f64,
}

impl Prediction {
    /// For a path that has room, an RTT sample and nothing in flight: [`predict`] without a queue. Its rate is not worked out.
    pub(super) fn of_idle(path: &PathView, base: f64) -> Self {
        let round_trip = base.clamp(1.0, nanos(path.smoothed_rtt).max(1.0));
        Self {
            arrival: round_trip / 2.0,
            rate: 0.0,
            round_trip,
            others: 0.0,
        }
    }

    /// How many bytes the path has delivered by `time`.
    #[inline]
    pub(super) fn delivered_by(&self, time: f64) -> f64 {
        larger(time - self.arrival, 0.0) * self.rate
    }
}

/// The sender's own bytes before the bottleneck: what was sent, less what has passed since. In steady state, what is in flight
/// beyond a round trip's worth is all of it; of a burst into an empty path, all of the burst is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    bytes: f64,
    /// As of when.
    at: Option<Instant>,
    /// What the bottleneck lets through, bytes per nanosecond; 0 if that is not known.
    rate: f64,
}

impl Own {
    #[inline]
    fn left(&self, now: Instant) -> f64 {
        let since = self.at.map_or(0.0, |at| nanos_between(at, now));
        larger(self.bytes - since * self.rate, 0.0)
    }

    /// A packet leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, size: u16) {
        if self.rate > 0.0 {
            self.bytes = self.left(now) + f64::from(size);
            self.at = Some(now);
        }
    }

    /// How long it takes until they have passed, nanoseconds. `rate`: what the bottleneck lets through, bytes per nanosecond; 0 if that is
    /// not known, and so is this.
    #[inline]
    pub(super) fn time(&mut self, now: Instant, rate: f64, in_flight: u64) -> f64 {
        self.rate = rate;
        if rate == 0.0 || self.bytes == 0.0 {
            return 0.0;
        }
        // No more are there than are in flight, however slow the bottleneck is believed to be.
        self.bytes = smaller(self.left(now), float(in_flight));
        self.at = Some(now);
        self.bytes / self.rate
    }
}

/// What a path has shown, as of now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// The round trip without a queue, nanoseconds.
    pub(super) base: f64,
    /// What it was seen to deliver, bytes per nanosecond; 0 before the first measurement.
    pub(super) measured: f64,
    /// What its bottleneck lets through, bytes per nanosecond; 0 if that is not known.
    pub(super) bottleneck: f64,
    /// How long the sender's own bytes take to pass the bottleneck, nanoseconds; 0 if that is not known.
    pub(super) own: f64,
}

/// What a path whose round trip is known will do.
// For a decision among several paths: what is worked out for one is needed by the rest of the walk, and stays in registers.
#[inline(always)]
pub(super) fn predict(
    config: &ArrivalConfig,
    now: Instant,
    path: &PathView,
    shown: &Shown,
) -> Prediction {
    let Shown {
        base,
        measured,
        bottleneck,
        own,
    } = *shown;
    let rtt = larger(nanos(path.known_rtt()), 1.0);
    let min_rtt = smaller(larger(base, 1.0), rtt);
    let window_rate = float(path.cwnd.max(1)) / rtt;
    let growing = config.fresh && is_growing(path, base);
    let rate = if growing {
        // What is acknowledged now was sent a round trip ago, by half the window.
        2.0 * window_rate
    } else if measured > 0.0 {
        smaller(measured, window_rate)
    } else {
        window_rate
    };
    // What an application that sends little was seen to get is less than what the bottleneck lets through.
    let delivers = if !growing {
        larger(rate, smaller(bottleneck, window_rate))
    } else {
        rate
    };
    let in_flight = float(path.in_flight);
    let drained = if growing {
        0.0
    } else {
        in_flight / rate - min_rtt
    };
    let leaves = if path.can_send {
        0.0
    } else if let Some(release) = path.next_release {
        nanos(release.saturating_duration_since(now))
    } else {
        let packet = u64::from(path.mtu);
        let excess = path
            .in_flight
            .saturating_add(packet)
            .saturating_sub(path.cwnd);
        float(excess) / rate
    };
    let busy = larger(larger(leaves, drained), own);
    // The queue of the shortest paths is in the hosts, on whichever of them a packet goes: to turn from one to the other with
    // each few packets only makes work.
    let wait = if is_near(path) { leaves } else { busy };
    // In which direction it stands, nobody knows.
    let others = if config.others {
        nanos(path.others_queue)
    } else {
        0.0
    };
    Prediction {
        arrival: wait + min_rtt / 2.0 + others,
        rate: delivers,
        round_trip: busy + min_rtt + others,
        others,
    }
}

/// Whether it was seen to be within a host or a rack.
#[inline]
pub(super) fn is_near(path: &PathView) -> bool {
    path.has_rtt() && path.min_rtt < NEAR
}

/// For how many packets a decision stands that sends on this path, the soonest of several.
pub(super) fn run_among(cx: &Context<'_>, path: &PathView) -> u32 {
    let deadline = cx.queue.head.and_then(|head| head.deadline);
    if is_near(path) && deadline.is_none() {
        NEAR_RUN
    } else {
        1
    }
}

/// Whether the path is in its first slow start, and its newest RTT sample shows no queue: then the rate that was measured
/// says what the window was a round trip ago, and what is in flight beyond that is no queue.
fn is_growing(path: &PathView, base: f64) -> bool {
    path.ssthresh == u64::MAX && nanos(path.latest_rtt) <= base * 1.125 + 1e6
}

/// Over how many smoothed RTTs the rate falls to a lower measurement.
const FALL_ROUNDS: f64 = 4.0;

/// The delivery rate of one path: it rises at once and falls slowly. A measurement that is too low is frequent (a window
/// that was reduced, a late acknowledgement), one that is too high is rare. Pauses of the application do not lower the
/// measurements in the first place ([`PathView::delivery_rate`]).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes per nanosecond; 0 before the first measurement.
    rate: f64,
    /// [`PathView::delivered_bytes`] at the newest measurement, and when that was.
    delivered: u64,
    at: Option<Instant>,
}

impl Rate {
    /// The rate in bytes per nanosecond, brought up to date by what was acknowledged since the last call; 0 before the
    /// first measurement.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, path: &PathView) -> f64 {
        if self.is_behind(path) {
            self.measure(now, path);
        }
        self.rate
    }

    /// Whether something was acknowledged since the last call of [`update`](Self::update).
    #[inline]
    pub(super) const fn is_behind(&self, path: &PathView) -> bool {
        path.delivered_bytes != self.delivered
    }

    #[inline(never)]
    fn measure(&mut self, now: Instant, path: &PathView) {
        let newest = path.delivery_rate as f64 * 1e-9;
        let before = self.at.replace(now);
        self.delivered = path.delivered_bytes;
        if newest >= self.rate {
            self.rate = newest;
        } else {
            let since = before.map_or(0.0, |at| nanos_between(at, now));
            let rounds = FALL_ROUNDS * nanos(path.smoothed_rtt).max(1.0);
            self.rate += (newest - self.rate) * (since / rounds).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// 40 ms, a window of 60 kB after its first slow start, 1 MB/s.
    fn view(in_flight: u64) -> PathView {
        changed!(
            PathView::of(0, ms(40)),
            min_rtt = ms(40),
            latest_rtt = ms(40),
            rtt_var = ms(3),
            cwnd = 60_000,
            ssthresh = 60_000,
            mtu = 1000,
            in_flight = in_flight
        )
    }

    fn predicted(
        config: &ArrivalConfig,
        now: Instant,
        path: &PathView,
        measured: f64,
    ) -> Prediction {
        let shown = Shown {
            base: 40e6,
            measured,
            bottleneck: if config.bottleneck {
                path.bottleneck as f64 * 1e-9
            } else {
                0.0
            },
            own: 0.0,
        };
        predict(config, now, path, &shown)
    }

    fn arrival(now: Instant, path: &PathView) -> f64 {
        predicted(&ArrivalConfig::default(), now, path, 1e-3).arrival / 1e6
    }

    fn near(is: f64, expected: f64) {
        assert!((is - expected).abs() < 1e-6, "{is} instead of {expected}");
    }

    #[test]
    fn on_the_shortest_paths_a_decision_stands_for_some_packets() {
        let run = |rtt, deadline| {
            let paths = [0, 1].map(|slot| PathView::of(slot, rtt));
            let paths = paths.map(|path| changed!(path, min_rtt = rtt));
            let id = crate::StreamId::new(crate::Side::Client, crate::Dir::Bi, 0);
            let head = crate::StreamHead::new(id, 0, 9000, deadline, None);
            let queue = crate::QueueView {
                unsent: 9000,
                window_left: 9000,
                head: Some(head),
                ..crate::QueueView::default()
            };
            let mut arrival = super::super::Arrival::default();
            let cx = Context::new(Instant::now(), &paths, &queue, 0);
            crate::Scheduler::decide(&mut arrival, &cx);
            crate::Scheduler::run(&arrival)
        };
        let near_by = Duration::from_micros(900);
        assert_eq!(run(near_by, None), NEAR_RUN);
        assert_eq!(run(Duration::from_millis(1), None), 1);
        // Which packets have a copy is asked of each.
        let soon = Instant::now() + Duration::from_millis(50);
        assert_eq!(run(near_by, Some(soon)), 1);
    }

    #[test]
    fn an_empty_path_takes_half_a_round_trip() {
        near(arrival(Instant::now(), &view(0)), 20.0);
        // 40 kB are what is under way in 40 ms.
        near(arrival(Instant::now(), &view(40_000)), 20.0);
    }

    /// An application that sends little is seen to get 500 bytes per ms over a bottleneck of 1200.
    #[test]
    fn a_path_delivers_what_its_bottleneck_lets_through_and_no_more_than_its_window() {
        let rate = |config: &ArrivalConfig, bottleneck| {
            let path = changed!(view(0), bottleneck = bottleneck);
            predicted(config, Instant::now(), &path, 5e-4).rate
        };
        let config = ArrivalConfig::default();
        near(rate(&config, 0), 5e-4);
        near(rate(&config, 1_200_000), 1.2e-3);
        near(rate(&config, 9_000_000), 60_000.0 / 40e6);
        let without = ArrivalConfig {
            bottleneck: false,
            ..config
        };
        near(rate(&without, 1_200_000), 5e-4);
    }

    #[test]
    fn what_is_in_flight_beyond_a_round_trip_is_a_queue() {
        near(arrival(Instant::now(), &view(55_000)), 35.0);
    }

    /// Its acknowledgement is expected behind the queue all the same: it is not late before that.
    #[test]
    fn the_queue_of_a_path_within_the_host_counts_for_no_path() {
        let now = Instant::now();
        let near_by = changed!(view(55_000), min_rtt = Duration::from_micros(900));
        near(arrival(now, &near_by), 20.0);
        let prediction = predicted(&ArrivalConfig::default(), now, &near_by, 1e-3);
        near(prediction.round_trip / 1e6, 55.0);
        let full = changed!(near_by, cwnd = 20_000, can_send = false, in_flight = 24_000);
        near(arrival(now, &full), 30.0);
    }

    #[test]
    fn what_exceeds_a_full_window_is_acknowledged_first() {
        let now = Instant::now();
        let full = |in_flight| changed!(view(in_flight), cwnd = 20_000, can_send = false);
        // 500 bytes per ms: the window carries no more. A packet, and 5000 bytes with it after the window was reduced.
        near(arrival(now, &full(20_000)), 22.0);
        near(arrival(now, &full(24_000)), 30.0);
    }

    #[test]
    fn the_queue_of_others_comes_on_top_unless_it_is_taken_out() {
        let behind = changed!(view(0), others_queue = ms(25));
        near(arrival(Instant::now(), &behind), 45.0);
        let config = ArrivalConfig {
            others: false,
            ..ArrivalConfig::default()
        };
        let without = predicted(&config, Instant::now(), &behind, 1e-3);
        near(without.arrival, 20e6);
        let with = predicted(&ArrivalConfig::default(), Instant::now(), &behind, 1e-3);
        near(with.round_trip, 65e6);
    }

    #[test]
    fn a_pacer_lets_go_when_it_says() {
        let now = Instant::now();
        let paced = changed!(view(0), can_send = false, next_release = Some(now + ms(7)));
        near(arrival(now, &paced), 27.0);
    }

    #[test]
    fn in_the_first_slow_start_a_queue_must_show_in_the_round_trip() {
        let now = Instant::now();
        let growing = changed!(view(55_000), ssthresh = u64::MAX);
        near(arrival(now, &growing), 20.0);
        let prediction = predicted(&ArrivalConfig::default(), now, &growing, 1e-3);
        near(prediction.rate, 2.0 * 60_000.0 / 40e6);
        let queued = changed!(growing, latest_rtt = ms(47));
        near(arrival(now, &queued), 35.0);
    }

    #[test]
    fn nothing_measured_means_a_window_per_round_trip() {
        let prediction = predicted(&ArrivalConfig::default(), Instant::now(), &view(0), 0.0);
        near(prediction.rate, 60_000.0 / 40e6);
        near(prediction.delivered_by(20e6), 0.0);
        near(prediction.delivered_by(30e6), 15_000.0);
        near(prediction.round_trip, 40e6);
    }
}

#[cfg(test)]
mod rate_tests {
    use std::time::Duration;

    use super::*;

    fn view(delivered: u64, rate: u64) -> PathView {
        changed!(
            PathView::of(0, Duration::from_millis(50)),
            delivered_bytes = delivered,
            delivery_rate = rate
        )
    }

    fn near(rate: f64, expected: f64) {
        assert!(
            (rate - expected).abs() < 1e-9,
            "{rate} instead of {expected}"
        );
    }

    #[test]
    fn it_rises_at_once_and_falls_over_four_round_trips() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rate = Rate::default();
        near(rate.update(at(0), &view(0, 0)), 0.0);
        near(rate.update(at(0), &view(1, 1_000_000)), 1e-3);
        near(rate.update(at(10), &view(2, 2_000_000)), 2e-3);
        // Half of four round trips: half of the way.
        near(rate.update(at(110), &view(3, 1_000_000)), 1.5e-3);
        // Nothing was acknowledged, so that nothing was measured.
        near(rate.update(at(900), &view(3, 1_000_000)), 1.5e-3);
        near(rate.update(at(910), &view(4, 1_000_000)), 1e-3);
    }
}
