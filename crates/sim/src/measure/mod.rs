//! The measurements of a run: exact figures per side and path, and time lines.

mod histogram;
mod lost_time;
mod out_of_order;
mod series;
mod timeline;

use std::time::Duration;

use mpquic_proto::{ConnectionStats, CopyStats, PathStats, Side};
use serde::{Deserialize, Serialize};

pub use histogram::Distribution;
pub use lost_time::LostTime;
pub(crate) use lost_time::LostTimeMeter;
pub use out_of_order::OutOfOrder;
pub(crate) use out_of_order::OutOfOrderMeter;
pub use series::Series;
pub(crate) use timeline::Recorder;
pub use timeline::{PathTimeline, SideTimeline, Timeline};

/// The measurements of both sides: see [`Network::measurements`](crate::Network::measurements).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measurements {
    /// The client.
    pub client: SideMeasurements,
    /// The server.
    pub server: SideMeasurements,
}

impl Measurements {
    /// The measurements of one side.
    pub const fn side(&self, side: Side) -> &SideMeasurements {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// The measurements of one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideMeasurements {
    /// The side's out-of-order queue as a receiver, if
    /// [`NetworkBuilder::measure`](crate::NetworkBuilder::measure) was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<OutOfOrder>,
    /// Indexed by the network's paths. A path that was abandoned and opened again is one path.
    pub paths: Vec<PathMeasurements>,
    /// Stream bytes sent as copies, by what they were for. Not in files.
    #[serde(skip)]
    pub copies: CopyStats,
    /// How often the scheduler was asked.
    pub decisions: u64,
    /// How often the scheduler answered "wait", asked for data that does not exist, or had nothing
    /// to send.
    pub waits: u64,
    /// How often a wait was overridden.
    pub overridden_waits: u64,
    /// The time during which data waited, a path could have sent it, and the scheduler's last
    /// answer was "wait". In files: `wait_time_s`.
    #[serde(rename = "wait_time_s", with = "seconds")]
    pub wait_time: Duration,
}

impl SideMeasurements {
    pub(crate) fn new(stats: &ConnectionStats, mut paths: Vec<PathMeasurements>) -> Self {
        let received: u64 = paths.iter().map(|path| path.received_bytes).sum();
        if received > 0 {
            for path in &mut paths {
                path.received_share = path.received_bytes as f64 / received as f64;
            }
        }
        Self {
            out_of_order: None,
            paths,
            copies: stats.copies,
            decisions: stats.decisions,
            waits: stats.waits,
            overridden_waits: stats.overridden_waits,
            wait_time: stats.wait_time,
        }
    }

    /// The sum over all paths.
    pub fn total(&self) -> PathMeasurements {
        let mut total = PathMeasurements::default();
        for path in &self.paths {
            total.add(path);
        }
        total.received_share = f64::from(total.received_bytes > 0);
        total
    }
}

/// The measurements of one side on one path. Bytes of datagrams are UDP payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathMeasurements {
    /// QUIC packets sent.
    pub sent_packets: u64,
    /// Datagram bytes sent.
    pub sent_bytes: u64,
    /// Stream bytes sent, retransmissions included.
    pub sent_stream_bytes: u64,
    /// Datagram bytes received.
    pub received_bytes: u64,
    /// This path's share of the datagram bytes received on all paths; 0 to 1.
    pub received_share: f64,
    /// Stream bytes received, duplicates included.
    pub received_stream_bytes: u64,
    /// Stream bytes sent again because they were declared lost.
    pub retransmitted_bytes: u64,
    /// Stream bytes of copies that the scheduler requested together with the original.
    pub duplicated_bytes: u64,
    /// Stream bytes sent again while in flight on another path, because the scheduler requested
    /// unacknowledged data.
    pub reinjected_bytes: u64,
    /// Packets sent and declared lost.
    pub lost_packets: u64,
    /// Packets among these that were acknowledged later.
    pub spurious_losses: u64,
    /// How often loss or ECN reduced the congestion window.
    pub congestion_events: u64,
}

impl PathMeasurements {
    fn add(&mut self, other: &Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.sent_stream_bytes += other.sent_stream_bytes;
        self.received_bytes += other.received_bytes;
        self.received_stream_bytes += other.received_stream_bytes;
        self.retransmitted_bytes += other.retransmitted_bytes;
        self.duplicated_bytes += other.duplicated_bytes;
        self.reinjected_bytes += other.reinjected_bytes;
        self.lost_packets += other.lost_packets;
        self.spurious_losses += other.spurious_losses;
        self.congestion_events += other.congestion_events;
    }

    /// Adds the statistics of one path ID of the connection.
    pub(crate) fn add_stats(&mut self, stats: &PathStats) {
        self.add(&Self {
            sent_packets: stats.sent_packets,
            sent_bytes: stats.sent_bytes,
            sent_stream_bytes: stats.sent_stream_bytes,
            received_bytes: stats.received_bytes,
            received_share: 0.0,
            received_stream_bytes: stats.received_stream_bytes,
            retransmitted_bytes: stats.retransmitted_bytes,
            duplicated_bytes: stats.copied_bytes,
            reinjected_bytes: stats.reinjected_bytes,
            lost_packets: stats.lost_packets,
            spurious_losses: stats.spurious_losses,
            congestion_events: stats.congestion_events,
        });
    }
}

/// Times in files as seconds with a fraction.
mod seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(d)?).map_err(D::Error::custom)
    }
}
