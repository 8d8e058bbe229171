//! The fluid bound: the best result that any run on a network can reach. The workloads turn it into
//! bounds of their metrics.
//!
//! The fluid model has no losses, no window limits and no waiting. The request takes the fastest
//! path. From then on, every link carries the answer and nothing else, at its full rate and with
//! its own propagation delay, and the receiver gets a packet bit by bit. Headers count with their
//! smallest size: the link's own (IPv4 and UDP, 28 bytes), a short header with an 8-byte connection
//! ID and a 1-byte packet number, the 16-byte AEAD tag, and a STREAM frame with a 1-byte stream ID
//! and no length. All datagrams have the largest size.
//!
//! No run can therefore be faster, with three exceptions. The model uses the mean delay, and delay
//! variation can make a packet arrive earlier. The model uses the mean rate of a trace.
//! [`Bulk`](crate::workload::Bulk) with a warm-up and the mean bitrate of
//! [`Video`](crate::workload::Video) can be better, as their documentation says. For a link that
//! changes, the model uses the highest rate and the smallest delay. It ignores cross traffic.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LinkConfig;
use crate::workload::Workload;

/// The bytes of QUIC per packet. Short header: flags, connection ID, packet number (RFC 9000
/// section 17.3.1); AEAD tag (RFC 9001 section 5.3); STREAM frame: type, stream ID (RFC 9000
/// section 19.8).
pub(crate) const QUIC_OVERHEAD: f64 = (1 + 8 + 1) as f64 + 16.0 + (1 + 1) as f64;

/// One direction of a path in the fluid model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FluidLink {
    /// The rate in bit/s, headers included. May be infinite.
    pub rate: f64,
    /// The propagation delay in seconds.
    pub delay: f64,
    /// Header bytes per packet below QUIC.
    pub overhead: f64,
}

impl FluidLink {
    /// Takes the highest rate and the smallest delay of a link.
    pub fn new(link: &LinkConfig) -> Self {
        let delays = link.changes.iter().filter_map(|change| change.delay);
        let delay = delays.fold(link.delay, Duration::min);
        Self {
            rate: link.peak_rate().map_or(f64::INFINITY, |rate| rate as f64),
            delay: delay.as_secs_f64(),
            overhead: f64::from(link.overhead),
        }
    }

    /// Uses this rate (bit/s) or delay instead if it is better, for links that change.
    #[must_use]
    pub fn or(mut self, rate: Option<u64>, delay: Option<Duration>) -> Self {
        if let Some(rate) = rate {
            self.rate = self.rate.max(rate as f64);
        }
        if let Some(delay) = delay {
            self.delay = self.delay.min(delay.as_secs_f64());
        }
        self
    }

    /// This link followed by another one.
    #[must_use]
    pub fn then(self, next: &Self) -> Self {
        Self {
            rate: self.rate.min(next.rate),
            delay: self.delay + next.delay,
            overhead: self.overhead.min(next.overhead),
        }
    }
}

/// One path in the fluid model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FluidPath {
    /// From the client to the server.
    pub up: FluidLink,
    /// From the server to the client.
    pub down: FluidLink,
    /// The largest UDP payload, bytes.
    pub mtu: u16,
}

impl FluidPath {
    /// A path over these links, whose datagrams have at most `mtu` bytes of UDP payload.
    pub fn new(up: &LinkConfig, down: &LinkConfig, mtu: u16) -> Self {
        Self {
            up: FluidLink::new(up),
            down: FluidLink::new(down),
            mtu,
        }
    }

    /// Stream bytes per second from the server to the client.
    pub(crate) fn goodput(&self) -> f64 {
        let mtu = f64::from(self.mtu);
        let share = (mtu - QUIC_OVERHEAD).max(0.0) / (mtu + self.down.overhead);
        self.down.rate / 8.0 * share
    }
}

/// Puts a shared link behind the paths with these numbers. Each path gets the delay of the shared
/// link, and the sum of their rates is at most its rate. The path with the smallest delay gets its
/// full rate first, then the others share what is left. This is the best that a shared link can
/// deliver.
pub fn share_link(paths: &mut [FluidPath], numbers: &[usize], up: &FluidLink, down: &FluidLink) {
    let mut numbers = numbers.to_vec();
    numbers.retain(|number| *number < paths.len());
    numbers.sort_by(|a, b| paths[*a].down.delay.total_cmp(&paths[*b].down.delay));
    let mut left = down.rate;
    for number in numbers {
        let path = &mut paths[number];
        path.up = path.up.then(up);
        path.down = path.down.then(down);
        path.down.rate = path.down.rate.min(left);
        // Infinity minus infinity is not a number.
        if left.is_finite() {
            left -= path.down.rate;
        }
    }
}

/// The bound of the workload's primary metric, in its unit: no run is better. `None` if there are
/// no paths, or none of them carries data.
///
/// ```
/// use std::time::Duration;
/// use mpquic_sim::{FluidPath, LinkConfig, fluid_bound};
///
/// let link = LinkConfig::new(10_000_000, Duration::from_millis(20));
/// let path = FluidPath::new(&link, &link, 1350);
/// let bound = fluid_bound(&"file:1MB".parse()?, &[path], 0).unwrap();
/// // 40 ms of delay, 0.8 s for the megabyte, and 56 bytes of headers for each 1322 of it.
/// assert!((bound - 0.874).abs() < 0.001);
/// # Ok::<(), mpquic_sim::workload::WorkloadError>(())
/// ```
pub fn fluid_bound(workload: &Workload, paths: &[FluidPath], seed: u64) -> Option<f64> {
    fluid_bounds(workload, paths, seed)
        .get(workload.primary().name)
        .copied()
}

/// The bounds of the workload's metrics by name, in their units. Metrics without a bound are
/// absent.
pub fn fluid_bounds(
    workload: &Workload,
    paths: &[FluidPath],
    seed: u64,
) -> BTreeMap<&'static str, f64> {
    let fluid = Fluid::new(paths);
    if fluid.downs.is_empty() {
        return BTreeMap::new();
    }
    let mut bounds = workload.bounds(&fluid, seed);
    bounds.retain(|_, bound| bound.is_finite());
    bounds
}

/// All paths together, in seconds.
#[derive(Debug)]
pub(crate) struct Fluid {
    /// Delay, and stream bytes per second; sorted by delay.
    downs: Vec<(f64, f64)>,
    ups: Vec<FluidLink>,
}

impl Fluid {
    pub(crate) fn new(paths: &[FluidPath]) -> Self {
        let down = |path: &FluidPath| (path.down.delay, path.goodput());
        let mut downs: Vec<_> = paths.iter().map(down).collect();
        downs.retain(|(_, rate)| *rate > 0.0);
        downs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            downs,
            ups: paths.iter().map(|path| path.up).collect(),
        }
    }

    /// The time from the first byte of a request of this size to its arrival.
    pub(crate) fn request(&self, bytes: usize) -> f64 {
        let times = self.ups.iter().map(|up| {
            let size = bytes as f64 + QUIC_OVERHEAD + up.overhead;
            up.delay + size * 8.0 / up.rate
        });
        times.fold(f64::INFINITY, f64::min)
    }

    /// The time until this many bytes arrive, counted from when the server has them. Each path
    /// delivers at its rate after its delay.
    pub(crate) fn delivery(&self, bytes: f64) -> f64 {
        let (mut now, mut rate, mut left) = (0.0, 0.0, bytes);
        for &(delay, more) in &self.downs {
            let until = rate * (delay - now);
            if rate > 0.0 && until >= left {
                break;
            }
            // There is no rate before the first delay, and zero times infinity is not a number.
            if rate > 0.0 {
                left -= until;
            }
            now = delay;
            rate += more;
        }
        now + left / rate
    }

    /// The bytes that arrive within this time after the server has them.
    pub(crate) fn delivered(&self, time: f64) -> f64 {
        let of = |&(delay, rate): &(f64, f64)| {
            let time: f64 = time - delay;
            if time > 0.0 { rate * time } else { 0.0 }
        };
        self.downs.iter().map(of).sum()
    }

    /// The time from the request to the arrival of an object, given the sizes of both.
    pub(crate) fn object(&self, request: usize, bytes: u64) -> f64 {
        self.request(request) + self.delivery(bytes as f64)
    }

    /// The completion times of objects that are requested together, ascending. When `n` of them are
    /// complete, at least the bytes of the `n` smallest have arrived.
    pub(crate) fn together(&self, request: usize, sizes: &[u64]) -> Vec<f64> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        let mut sum = 0;
        sizes
            .iter()
            .map(|size| {
                sum += size;
                self.object(request, sum)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A path without headers below QUIC. QUIC's headers take a tenth of the rate.
    fn path(rate: u64, up: u64, down: u64) -> FluidPath {
        let link = |delay| LinkConfig {
            overhead: 0,
            ..LinkConfig::new(rate, ms(delay))
        };
        FluidPath::new(&link(up), &link(down), 280)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn one_path_by_hand() {
        // 8 Mbit/s: 900 bytes of stream per ms. 9000 bytes: 10 ms.
        let fluid = Fluid::new(&[path(8_000_000, 10, 20)]);
        close(fluid.delivery(9000.0), 0.030);
        close(fluid.delivered(0.030), 9000.0);
        close(fluid.delivered(0.020), 0.0);
        // A request of 72 bytes and 28 of headers at 1000 bytes per ms.
        close(fluid.request(72), 0.0101);
        close(fluid.object(72, 9000), 0.0401);
    }

    #[test]
    fn two_paths_by_hand() {
        // Path 0 delivers 900 bytes per ms from 20 ms on, path 1 90 bytes per ms from 50 ms on.
        let fluid = Fluid::new(&[path(800_000, 10, 50), path(8_000_000, 30, 20)]);
        // By 50 ms, path 1 alone has delivered 27,000.
        close(fluid.delivery(27_000.0), 0.050);
        close(fluid.delivery(900.0), 0.021);
        // The rest at 990 bytes per ms.
        close(fluid.delivery(27_000.0 + 9900.0), 0.060);
        close(fluid.delivered(0.060), 36_900.0);
        // The request goes by path 0: 10 ms and 100 bytes at 100 bytes per ms.
        close(fluid.request(72), 0.011);
        // 900 and 27,000 bytes in all.
        let both = fluid.together(72, &[26_100, 900]);
        close(both[0], 0.011 + 0.021);
        close(both[1], 0.011 + 0.050);
    }

    #[test]
    fn a_link_without_rate_takes_no_time() {
        let link = LinkConfig {
            delay: ms(30),
            ..LinkConfig::default()
        };
        let fast = FluidPath::new(&link, &link, 1350);
        let fluid = Fluid::new(&[path(8_000_000, 10, 20), fast]);
        close(fluid.delivery(900.0), 0.021);
        close(fluid.delivery(1e9), 0.030);
        close(fluid.request(100), 0.010_128);
    }

    #[test]
    fn a_shared_link_limits_the_sum() {
        let shared = FluidLink {
            rate: 10_000_000.0,
            delay: 0.005,
            overhead: 0.0,
        };
        let mut paths = [
            path(8_000_000, 10, 50),
            path(8_000_000, 10, 20),
            path(1, 1, 1),
        ];
        share_link(&mut paths, &[0, 1], &shared, &shared);
        close(paths[1].down.rate, 8e6);
        close(paths[0].down.rate, 2e6);
        close(paths[0].down.delay, 0.055);
        close(paths[1].up.delay, 0.015);
        assert_eq!(paths[2], path(1, 1, 1));
    }

    #[test]
    fn of_a_changing_link_the_best_counts() {
        let link = LinkConfig::new(1_000_000, ms(20))
            .with_rate_steps([(ms(500), 3_000_000), (ms(900), 2_000_000)], None);
        let fluid = FluidLink::new(&link).or(Some(2_500_000), Some(ms(15)));
        close(fluid.rate, 3e6);
        close(fluid.delay, 0.015);
        assert_eq!(fluid.or(None, None), fluid);
    }

    #[test]
    fn without_paths_there_is_no_bound() {
        let workload = "file:1MB".parse().unwrap();
        assert_eq!(fluid_bound(&workload, &[], 0), None);
    }
}
