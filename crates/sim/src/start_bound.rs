//! Bounds of a download that count how a connection starts: the handshake's round trip, the opening
//! of further paths, and slow start.
//!
//! They stand beside the [fluid bound](crate::fluid_bound), which lets every path carry data at its
//! full rate from the moment at which the server has the request.
//!
//! | bound | counted from | what it adds to the fluid bound |
//! |---|---|---|
//! | [`round_trips`](StartBounds::round_trips) | the first packet | the handshake, on the path where it takes the least time |
//! | [`all_paths`](StartBounds::all_paths) | the request | slow start on every path |
//! | [`startup`](StartBounds::startup) | the request | slow start, the request on the handshake's path, and the time until each other path may carry data |
//!
//! All of them have the fluid bound's smallest headers, no loss, and the best split of the data over
//! the paths. Slow start begins with the initial window. Each acknowledged byte lets two more bytes
//! out (RFC 9002 section 7.3.1; BBR's Startup does the same), so the window doubles per round trip
//! until the path carries its rate. The exceptions of the fluid bound hold here, too.
//!
//! The bounds with slow start have one exception more: a window can be larger than the initial window
//! when a path's data begins. Acknowledgements of the handshake or of the path's validation may have
//! opened it, by at most the three datagrams that a server may send before that (RFC 9000 section
//! 8.1), and BBR keeps at least four packets. This matters for windows of a few packets.

use mpquic_proto::PathStart;
use serde::Serialize;

use crate::bound::{Fluid, FluidPath, QUIC_OVERHEAD};

/// The size of datagrams that must not be smaller: those with Initial packets (RFC 9000 section
/// 14.1), and those that validate a path (RFC 9000 section 8.2).
const FULL_DATAGRAM: f64 = 1200.0;

/// The smallest datagram of a connection: a 1-RTT packet with a frame of a few bytes.
const SMALL_DATAGRAM: f64 = QUIC_OVERHEAD + 1.0;

/// How a download's connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartRules {
    /// The number of the path that carries the handshake, from 0.
    pub handshake: usize,
    /// When the other paths are opened.
    pub start: PathStart,
    /// The server's data may use a path before it is validated.
    pub early_data: bool,
    /// The initial congestion window of each path, in packets of the largest size.
    pub initial_window: u32,
}

/// The bounds of one download, in seconds. Each names the moment from which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StartBounds {
    /// The handshake on its path: from the first packet to its completion at the client. One round
    /// trip of full datagrams.
    pub handshake: f64,
    /// From the request: the fluid bound.
    pub fluid: f64,
    /// From the first packet: the fluid bound, after the handshake on the path where it takes the
    /// least time.
    pub round_trips: f64,
    /// From the request: every path may carry data as soon as the server has the request, and
    /// begins in slow start.
    pub all_paths: f64,
    /// From the request: each path may carry data when [`StartRules::start`] lets it, and begins in
    /// slow start.
    pub startup: f64,
}

impl StartBounds {
    /// The bounds of a download of `bytes` bytes with a request of `request` bytes. `None` if no
    /// path carries data, or there is no path with the handshake's number.
    ///
    /// `fluid` are the paths for the fluid bound, where paths through a shared link have divided its
    /// rate. `alone` are the paths as each would be without the others. They are the same if no link
    /// is shared.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mpquic_proto::PathStart;
    /// use mpquic_sim::{FluidPath, LinkConfig, StartBounds, StartRules};
    ///
    /// let ms = Duration::from_millis;
    /// let path = |rate, delay| {
    ///     let link = LinkConfig::new(rate, delay);
    ///     FluidPath::new(&link, &link, 1350)
    /// };
    /// // The slow path carries the handshake.
    /// let paths = [path(2_000_000, ms(100)), path(50_000_000, ms(20))];
    /// let rules = StartRules { handshake: 0, start: PathStart::Confirmed, early_data: false, initial_window: 32 };
    /// let bounds = StartBounds::new(2_000_000, 40, &paths, &paths, &rules).unwrap();
    /// assert!((bounds.fluid - 0.364).abs() < 0.001);
    /// assert!(bounds.all_paths > bounds.fluid && bounds.startup > bounds.all_paths);
    /// // The server may use the second path 200 + 60 ms after the request, and it must carry
    /// // nearly everything.
    /// assert!((0.64..0.67).contains(&bounds.startup));
    /// ```
    pub fn new(
        bytes: u64,
        request: usize,
        fluid: &[FluidPath],
        alone: &[FluidPath],
        rules: &StartRules,
    ) -> Option<Self> {
        let first = alone.get(rules.handshake)?;
        let bytes = bytes as f64;
        let model = Fluid::new(fluid);
        let fluid_bound = model.request(request) + model.delivery(bytes);
        let handshakes = alone.iter().map(handshake_time);
        let least = handshakes.fold(f64::INFINITY, f64::min);
        let asked = Fluid::new(alone).request(request);
        let at_once = alone.iter().map(|path| SlowStart::new(path, asked, rules));
        let all_paths = completion(&at_once.collect::<Vec<_>>(), bytes)?;
        let asked = Fluid::new(&[*first]).request(request);
        let in_turn = alone.iter().enumerate().map(|(number, path)| {
            let usable = match number == rules.handshake {
                true => asked,
                false => asked.max(usable_after(rules, first, path)),
            };
            SlowStart::new(path, usable, rules)
        });
        let startup = completion(&in_turn.collect::<Vec<_>>(), bytes)?;
        let bounds = Self {
            handshake: handshake_time(first),
            fluid: fluid_bound,
            round_trips: least + fluid_bound,
            // Paths that share a link do not divide its rate in the model of slow start.
            all_paths: all_paths.max(fluid_bound),
            startup: startup.max(fluid_bound),
        };
        bounds.startup.is_finite().then_some(bounds)
    }
}

/// The time of a datagram over a link.
fn crossing(link: &crate::FluidLink, size: f64) -> f64 {
    link.delay + (size + link.overhead) * 8.0 / link.rate
}

/// How long the handshake takes the client over a path, seconds: a full datagram in each direction.
pub fn handshake_time(path: &FluidPath) -> f64 {
    crossing(&path.up, FULL_DATAGRAM) + crossing(&path.down, FULL_DATAGRAM)
}

/// When the server may send data on a path other than the handshake's, counted from the end of the
/// handshake at the client, which is when the client sends its request.
fn usable_after(rules: &StartRules, first: &FluidPath, path: &FluidPath) -> f64 {
    // The client's challenge, which the server reads once it has the client's last handshake message;
    // the server's challenge, and the client's response to it (RFC 9000 section 8.2).
    let challenged = crossing(&path.up, FULL_DATAGRAM).max(crossing(&first.up, SMALL_DATAGRAM));
    let validated = if rules.early_data {
        0.0
    } else {
        crossing(&path.down, FULL_DATAGRAM) + crossing(&path.up, FULL_DATAGRAM)
    };
    match rules.start {
        PathStart::Complete => challenged + validated,
        PathStart::Confirmed => {
            // The client's last handshake message, and HANDSHAKE_DONE (RFC 9001 section 4.1.2).
            let confirmed =
                crossing(&first.up, SMALL_DATAGRAM) + crossing(&first.down, SMALL_DATAGRAM);
            confirmed + crossing(&path.up, FULL_DATAGRAM) + validated
        }
        // Nothing is known about it.
        _ => 0.0,
    }
}

/// The data that a path delivers to the client at best, in slow start and after it.
struct SlowStart {
    /// When the server may send on it.
    usable: f64,
    /// From the server to the client.
    delay: f64,
    /// From a byte to its acknowledgement.
    round_trip: f64,
    /// Stream bytes of the first round trip.
    window: f64,
    /// Stream bytes per second.
    rate: f64,
}

impl SlowStart {
    fn new(path: &FluidPath, usable: f64, rules: &StartRules) -> Self {
        // A packet may leave when the window has room for a part of it.
        let packets = f64::from(rules.initial_window) + 1.0;
        Self {
            usable,
            delay: path.down.delay,
            round_trip: path.down.delay + crossing(&path.up, SMALL_DATAGRAM),
            window: packets * (f64::from(path.mtu) - QUIC_OVERHEAD).max(0.0),
            rate: path.goodput(),
        }
    }

    /// The bytes that have arrived by this time.
    ///
    /// The window lets out twice what was acknowledged, plus the initial window. What was
    /// acknowledged is what had left the link a round trip before. The first round trip therefore
    /// carries the initial window, and each one twice as much as the one before it, until the link
    /// never runs empty.
    fn delivered(&self, time: f64) -> f64 {
        let time = time - self.usable - self.delay;
        if time <= 0.0 || self.rate <= 0.0 {
            return 0.0;
        }
        let of = |time: f64| match time > 0.0 {
            true => self.rate * time,
            // Zero times infinity is not a number.
            false => 0.0,
        };
        if self.round_trip <= 0.0 {
            return of(time);
        }
        let (mut before, mut round) = (0.0, self.window);
        let mut begun = 0.0;
        loop {
            let left = time - begun;
            if round >= self.rate * self.round_trip || round <= 0.0 {
                return before + of(left);
            }
            if left < self.round_trip {
                return before + of(left).min(round);
            }
            before += round;
            round *= 2.0;
            begun += self.round_trip;
        }
    }
}

/// When all paths together have delivered this many bytes. Never later than that, so that it stays
/// a bound.
fn completion(paths: &[SlowStart], bytes: f64) -> Option<f64> {
    let enough = |time: f64| {
        let delivered: f64 = paths.iter().map(|path| path.delivered(time)).sum();
        delivered >= bytes
    };
    let mut late = 1.0;
    while !enough(late) {
        late *= 2.0;
        if late > 1e12 {
            return None;
        }
    }
    let mut early = 0.0;
    // Each step halves the interval; after these, it has the precision of the number.
    for _ in 0..100 {
        let middle = f64::midpoint(early, late);
        match enough(middle) {
            true => late = middle,
            false => early = middle,
        }
    }
    Some(early)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::LinkConfig;

    /// A path without headers below QUIC. QUIC's headers take a tenth of the rate.
    fn path(rate: u64, up: u64, down: u64) -> FluidPath {
        let link = |delay| LinkConfig {
            overhead: 0,
            ..LinkConfig::new(rate, Duration::from_millis(delay))
        };
        FluidPath::new(&link(up), &link(down), 280)
    }

    const fn rules(handshake: usize, initial_window: u32) -> StartRules {
        StartRules {
            handshake,
            start: PathStart::Confirmed,
            early_data: false,
            initial_window,
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }

    /// 8 Mbit/s: 900 bytes of stream per ms; packets have 252 of them. A small datagram takes 29
    /// microseconds.
    #[test]
    fn one_path_by_hand() {
        let paths = [path(8_000_000, 10, 20)];
        // One packet, and the one that begins with a part of the window: 504, 1008, 2016 bytes per
        // round trip of 30.029 ms; the fourth round trip carries the rest.
        let bounds = StartBounds::new(504 + 1008 + 2016 + 900, 72, &paths, &paths, &rules(0, 1));
        let bounds = bounds.unwrap();
        close(bounds.handshake, 0.030 + 2.0 * 0.0012);
        close(bounds.fluid, 0.0101 + 0.020 + 4428.0 / 900e3);
        close(bounds.round_trips, bounds.handshake + bounds.fluid);
        close(bounds.startup, 0.0101 + 0.020 + 3.0 * 0.030_029 + 0.001);
        close(bounds.all_paths, bounds.startup);
        // A window beyond the bandwidth-delay product is no limit.
        let wide = StartBounds::new(1_000_000, 72, &paths, &paths, &rules(0, 200)).unwrap();
        close(wide.startup, wide.fluid);
    }

    #[test]
    fn a_second_path_waits_for_confirmation_and_validation() {
        let paths = [path(8_000_000, 10, 20), path(8_000_000, 1, 2)];
        let before = |bytes| {
            let bounds = StartBounds::new(bytes, 72, &paths, &paths, &rules(0, 200));
            bounds.unwrap()
        };
        // Confirmed after 30 ms and two small datagrams. Three full ones and 4 ms later, the server
        // may use path 1: at 37.658 ms. By 39.658 ms, path 0 has delivered 9.558 ms of data.
        let usable: f64 = 0.030 + 2.0 * 0.000_029 + 0.004 + 3.0 * 0.0012;
        let alone = ((usable + 0.002 - 0.0301) * 900e3).floor() as u64;
        close(
            before(alone).startup,
            usable + 0.002 - (((usable + 0.002 - 0.0301) * 900e3).fract() / 900e3),
        );
        close(before(alone + 1800).startup, before(alone).startup + 0.001);
        // All usable at once: the request takes path 1 as well.
        close(before(900).all_paths, 0.0011 + 0.002 + 0.001);
        let swapped = StartBounds::new(900, 72, &paths, &paths, &rules(1, 200)).unwrap();
        close(swapped.startup, 0.0041);
        close(swapped.handshake, 0.0054);
        close(swapped.round_trips, before(900).round_trips);
    }

    #[test]
    fn odd_networks_have_a_bound_or_none() {
        let none: [FluidPath; 0] = [];
        assert_eq!(StartBounds::new(1, 1, &none, &none, &rules(0, 10)), None);
        let one = [path(8_000_000, 0, 0)];
        assert_eq!(StartBounds::new(1, 1, &one, &one, &rules(1, 10)), None);
        // Without a rate and without a delay.
        let link = LinkConfig {
            overhead: 0,
            ..LinkConfig::default()
        };
        for path in [FluidPath::new(&link, &link, 1350), one[0]] {
            let bounds = StartBounds::new(1_000_000, 40, &[path], &[path], &rules(0, 10));
            let bounds = bounds.unwrap();
            assert!(bounds.startup >= bounds.fluid, "{bounds:?}");
        }
    }

    #[test]
    fn paths_that_are_opened_with_the_handshake_save_a_round_trip() {
        let complete = |paths: [FluidPath; 2], bytes| {
            let rules = StartRules {
                start: PathStart::Complete,
                ..rules(0, 200)
            };
            StartBounds::new(bytes, 72, &paths, &paths, &rules).unwrap()
        };
        // The challenge takes 10 ms and a full datagram, the rest 30 ms and two of them.
        let equal = [path(8_000_000, 10, 20), path(8_000_000, 10, 20)];
        let usable: f64 = 0.040 + 3.0 * 0.0012;
        let before = (usable - 0.0101) * 900e3;
        let more = complete(equal, before.round() as u64 + 1800);
        close(more.startup, usable + 0.020 + 0.001);
        // The server reads no challenge before the end of the handshake, which takes 10 ms.
        let uneven = [path(8_000_000, 10, 20), path(8_000_000, 1, 2)];
        let usable = 0.010_029 + 0.003 + 2.0 * 0.0012;
        let more = complete(uneven, 900);
        close(more.startup, usable + 0.002 + 0.001);
    }

    fn any_path() -> impl Strategy<Value = FluidPath> {
        (100_000..200_000_000_u64, 0..300_u64, 0..300_u64).prop_map(|(rate, up, down)| {
            let link = |delay| LinkConfig::new(rate, Duration::from_millis(delay));
            FluidPath::new(&link(up), &link(down), 1350)
        })
    }

    proptest! {
        #[test]
        fn bounds_are_ordered(
            paths in prop::collection::vec(any_path(), 1..5),
            first in 0..5_usize,
            bytes in 1..50_000_000_u64,
            window in 1..200_u32,
            start in prop::sample::select(&[PathStart::Confirmed, PathStart::Complete][..]),
        ) {
            let rules = StartRules { start, ..rules(first % paths.len(), window) };
            let bounds = StartBounds::new(bytes, 40, &paths, &paths, &rules).unwrap();
            let StartBounds { handshake, fluid, round_trips, all_paths, startup } = bounds;
            // The bisection ends within a rounding error.
            let below = |low: f64, high: f64| low <= high * (1.0 + 1e-9);
            prop_assert!(handshake >= 0.0 && fluid > 0.0, "{bounds:?}");
            prop_assert!(below(fluid, all_paths), "{bounds:?}");
            prop_assert!(below(all_paths, startup), "{bounds:?}");
            prop_assert!(below(fluid, round_trips), "{bounds:?}");
            prop_assert!(below(round_trips, handshake + startup), "{bounds:?}");
            // More data and a smaller window take longer.
            let more = StartBounds::new(bytes + 10_000, 40, &paths, &paths, &rules).unwrap();
            prop_assert!(below(startup, more.startup));
            let wider = StartRules { initial_window: window + 10, ..rules };
            let wider = StartBounds::new(bytes, 40, &paths, &paths, &wider).unwrap();
            prop_assert!(below(wider.startup, startup));
            // Data before the validation is never worse.
            let ahead = StartRules { early_data: true, ..rules };
            let ahead = StartBounds::new(bytes, 40, &paths, &paths, &ahead).unwrap();
            prop_assert!(below(ahead.startup, startup));
            // An earlier start is never worse.
            let early = StartRules { start: PathStart::Complete, ..rules };
            let early = StartBounds::new(bytes, 40, &paths, &paths, &early).unwrap();
            prop_assert!(below(early.startup, startup));
            // A path more is never worse, unless it has the handshake.
            let mut others = paths.clone();
            others.push(paths[0]);
            let more = StartBounds::new(bytes, 40, &others, &others, &rules).unwrap();
            prop_assert!(below(more.startup, startup));
        }
    }
}
