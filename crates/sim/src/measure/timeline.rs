//! Records what paths, queues and receivers do over time, for plots.

use std::time::Duration;

use mpquic_proto::{Connection, PathId, Side};
use serde::{Deserialize, Serialize};

use super::series::Series;
use crate::fabric::{Fabric, index};

/// The state of both sides' paths over time.
///
/// The simulator samples after each event that could have changed a value, so it misses no change,
/// and thins the samples to an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The length of an interval in seconds.
    pub interval_s: f64,
    /// The end of the run in seconds.
    pub end_s: f64,
    /// The client.
    pub client: SideTimeline,
    /// The server.
    pub server: SideTimeline,
}

/// The state of one side over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideTimeline {
    /// Bytes received beyond the first gap of their stream, summed over all streams.
    pub out_of_order: Series,
    /// Indexed by the network's paths.
    pub paths: Vec<PathTimeline>,
}

/// The state of one side on one path over time. All values are zero after the path is abandoned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathTimeline {
    /// The congestion window in bytes.
    pub cwnd: Series,
    /// The smoothed RTT in microseconds, from the first sample on.
    pub smoothed_rtt_us: Series,
    /// The bytes in flight.
    pub in_flight: Series,
    /// The bytes, overhead included, that wait or are being serialised on the links in this side's
    /// sending direction. All traffic counts. Nearly all of it is at the bottleneck.
    pub queue: Series,
}

/// Records a [`Timeline`].
pub(crate) struct Recorder {
    interval: Duration,
    sides: [SideTimeline; 2],
    /// The path that each path ID uses, by side. Later address changes do not affect it.
    known: [Vec<(PathId, usize)>; 2],
}

impl Recorder {
    pub(crate) fn new(interval: Duration, paths: usize) -> Self {
        let side = SideTimeline {
            out_of_order: Series::default(),
            paths: vec![PathTimeline::default(); paths],
        };
        Self {
            interval: interval.max(Duration::from_micros(1)),
            sides: [side.clone(), side],
            known: [Vec::new(), Vec::new()],
        }
    }

    /// Samples a side's connection, which may have changed.
    pub(crate) fn look_at_peer(
        &mut self,
        now: Duration,
        side: Side,
        connection: &Connection,
        fabric: &Fabric,
    ) {
        let interval = self.interval;
        let known = &mut self.known[index(side)];
        let timeline = &mut self.sides[index(side)];
        let bytes = connection.stats().out_of_order;
        timeline.out_of_order.set(now, interval, bytes);
        for open in connection.paths().iter() {
            let (id, stats) = (open.id(), open.stats());
            let path = known.iter().find(|(known, _)| *known == id);
            let path = path.map(|(_, path)| *path).or_else(|| {
                let path = fabric.path_of(side, open.network_path())?;
                known.push((id, path));
                Some(path)
            });
            let Some(path) = path.and_then(|path| timeline.paths.get_mut(path)) else {
                continue;
            };
            let rtt = u64::try_from(stats.rtt.as_micros()).unwrap_or(u64::MAX);
            path.cwnd.set(now, interval, stats.cwnd);
            if stats.has_rtt {
                path.smoothed_rtt_us.set(now, interval, rtt);
            }
            path.in_flight.set(now, interval, stats.in_flight);
        }
        // Path IDs that are gone, unless another path ID uses the same path.
        known.retain(|(id, _)| connection.path(*id).is_ok());
        for (number, path) in timeline.paths.iter_mut().enumerate() {
            let gone = !path.cwnd.slot.is_empty() && known.iter().all(|(_, path)| *path != number);
            if gone {
                path.cwnd.set(now, interval, 0);
                path.smoothed_rtt_us.set(now, interval, 0);
                path.in_flight.set(now, interval, 0);
            }
        }
    }

    /// Samples the queues of the links.
    pub(crate) fn look_at_queues(&mut self, now: Duration, fabric: &Fabric) {
        for (direction, side) in self.sides.iter_mut().enumerate() {
            for (number, path) in side.paths.iter_mut().enumerate() {
                let bytes = fabric.queued_bytes(number, direction);
                path.queue.set(now, self.interval, bytes);
            }
        }
    }

    pub(crate) fn timeline(&self, now: Duration) -> Timeline {
        let [client, server] = self.sides.clone();
        Timeline {
            interval_s: self.interval.as_secs_f64(),
            end_s: now.as_secs_f64(),
            client,
            server,
        }
    }
}
