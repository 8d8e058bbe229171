//! What paths, queues and receivers did over time, for plots; recorded as it changes, and changes nothing.

use std::time::Duration;

use mpquic_proto::{Connection, PathId, Side};
use serde::{Deserialize, Serialize};

use super::series::Series;
use crate::fabric::{Fabric, index};

/// What both sides' paths did over time.
///
/// Looked at after each event that could have changed a value, so that nothing between two events is
/// missed, and thinned to an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The length of an interval, seconds.
    pub interval_s: f64,
    /// When the run ended, seconds.
    pub end_s: f64,
    /// The client.
    pub client: SideTimeline,
    /// The server.
    pub server: SideTimeline,
}

/// What one side did over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideTimeline {
    /// Bytes that it has received beyond the first gap of their stream, over all streams.
    pub out_of_order: Series,
    /// By the network's paths.
    pub paths: Vec<PathTimeline>,
}

/// What one side did on one of the network's paths over time. Zeros after the path was abandoned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathTimeline {
    /// Congestion window, bytes.
    pub cwnd: Series,
    /// Smoothed RTT, microseconds; from the first sample on.
    pub smoothed_rtt_us: Series,
    /// Bytes in flight.
    pub in_flight: Series,
    /// Bytes that wait or are being serialised on the links in the direction in which it sends, with
    /// the links' overhead: of all that passes there. Nearly all of it is at the bottleneck.
    pub queue: Series,
}

/// Records a [`Timeline`].
pub(crate) struct Recorder {
    interval: Duration,
    sides: [SideTimeline; 2],
    /// Which of the network's paths each path ID goes over, by side: later changes of addresses do not
    /// confuse it.
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

    /// A side's connection may have changed.
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
        for id in connection.paths() {
            let Ok(stats) = connection.path_stats(id) else {
                continue;
            };
            let path = known.iter().find(|(known, _)| *known == id);
            let path = path.map(|(_, path)| *path).or_else(|| {
                let path = fabric.path_of(side, connection.network_path(id).ok()?)?;
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
        // Those that are gone, unless another path ID goes over the same path of the network.
        known.retain(|(id, _)| connection.path_stats(*id).is_ok());
        for (number, path) in timeline.paths.iter_mut().enumerate() {
            let gone = !path.cwnd.slot.is_empty() && known.iter().all(|(_, path)| *path != number);
            if gone {
                path.cwnd.set(now, interval, 0);
                path.smoothed_rtt_us.set(now, interval, 0);
                path.in_flight.set(now, interval, 0);
            }
        }
    }

    /// The links' queues may have changed.
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
