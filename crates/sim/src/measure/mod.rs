//! What a run comes to: exact figures of each side and path, and time lines; asks the parts, changes nothing.

mod histogram;
mod out_of_order;
mod series;
mod timeline;

use std::time::Duration;

use mpquic_proto::{ConnectionStats, PathStats, Side};
use serde::{Deserialize, Serialize};

pub use histogram::Distribution;
pub use out_of_order::OutOfOrder;
pub(crate) use out_of_order::OutOfOrderMeter;
pub use series::Series;
pub(crate) use timeline::Recorder;
pub use timeline::{PathTimeline, SideTimeline, Timeline};

/// What both sides did and got, as [`Network::measurements`](crate::Network::measurements) gives it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measurements {
    /// The client.
    pub client: SideMeasurements,
    /// The server.
    pub server: SideMeasurements,
}

impl Measurements {
    /// One of them.
    pub const fn side(&self, side: Side) -> &SideMeasurements {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// What one side did and got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideMeasurements {
    /// Its out-of-order queue as a receiver, if
    /// [`NetworkBuilder::measure`](crate::NetworkBuilder::measure) asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<OutOfOrder>,
    /// By the network's paths. One that was abandoned and opened again counts as one.
    pub paths: Vec<PathMeasurements>,
    /// Times its scheduler was asked.
    pub decisions: u64,
    /// Times its scheduler answered "wait", asked for data that there was not, or had nothing to send.
    pub waits: u64,
    /// Times its wait was overridden.
    pub overridden_waits: u64,
    /// Time during which data waited to be sent, a path could have sent it, and its scheduler's last
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
            decisions: stats.decisions,
            waits: stats.waits,
            overridden_waits: stats.overridden_waits,
            wait_time: stats.wait_time,
        }
    }

    /// All paths together.
    pub fn total(&self) -> PathMeasurements {
        let mut total = PathMeasurements::default();
        for path in &self.paths {
            total.add(path);
        }
        total.received_share = f64::from(total.received_bytes > 0);
        total
    }
}

/// What one side did and got on one path. Bytes of datagrams are those of UDP payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathMeasurements {
    /// QUIC packets sent.
    pub sent_packets: u64,
    /// Datagram bytes sent.
    pub sent_bytes: u64,
    /// Stream bytes sent, those sent again included.
    pub sent_stream_bytes: u64,
    /// Datagram bytes received.
    pub received_bytes: u64,
    /// Of the datagram bytes received on all paths, the part that came on this one; 0 to 1.
    pub received_share: f64,
    /// Stream bytes received, duplicates included.
    pub received_stream_bytes: u64,
    /// Stream bytes sent again because they were taken for lost.
    pub retransmitted_bytes: u64,
    /// Stream bytes of copies that the scheduler asked for together with the original.
    pub duplicated_bytes: u64,
    /// Stream bytes sent again while in flight elsewhere, because the scheduler asked for data not yet
    /// acknowledged.
    pub reinjected_bytes: u64,
    /// Packets sent and declared lost.
    pub lost_packets: u64,
    /// Of these, acknowledged after all.
    pub spurious_losses: u64,
    /// Times that the congestion window gave way to loss or ECN.
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

    /// Adds what a path ID of the connection came to.
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
