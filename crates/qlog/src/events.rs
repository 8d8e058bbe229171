//! The events as they are written: one structure per event of the QUIC event schema, and those of our own. Field names are
//! the schema's.

use serde::Serialize;

use crate::frames::WrittenFrame;

/// Any event (main schema, section 7).
#[derive(Serialize)]
pub(crate) struct Event<'a, D> {
    /// Milliseconds.
    pub(crate) time: f64,
    pub(crate) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tuple: Option<&'a str>,
    pub(crate) data: D,
}

#[derive(Serialize)]
pub(crate) struct Raw {
    pub(crate) length: u64,
}

/// TupleEndpointInfo.
#[derive(Serialize, Default)]
pub(crate) struct TupleEnd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ip_v4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port_v4: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ip_v6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port_v6: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) connection_ids: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct VersionInformation {
    pub(crate) chosen_version: String,
}

#[derive(Serialize)]
pub(crate) struct ConnectionStarted {
    pub(crate) local: TupleEnd,
    pub(crate) remote: TupleEnd,
}

#[derive(Serialize)]
pub(crate) struct ConnectionState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<&'static str>,
    pub(crate) new: &'static str,
}

#[derive(Serialize, Default)]
pub(crate) struct ConnectionClosed {
    pub(crate) initiator: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connection_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_code: Option<u64>,
    pub(crate) reason: String,
    pub(crate) trigger: &'static str,
}

#[derive(Serialize)]
pub(crate) struct ParametersSet {
    pub(crate) initiator: &'static str,
    pub(crate) max_idle_timeout: u64,
    pub(crate) max_udp_payload_size: u64,
    pub(crate) ack_delay_exponent: u64,
    pub(crate) max_ack_delay: u64,
    pub(crate) active_connection_id_limit: u64,
    pub(crate) initial_max_data: u64,
    pub(crate) initial_max_stream_data_bidi_local: u64,
    pub(crate) initial_max_stream_data_bidi_remote: u64,
    pub(crate) initial_max_stream_data_uni: u64,
    pub(crate) initial_max_streams_bidi: u64,
    pub(crate) initial_max_streams_uni: u64,
    pub(crate) disable_active_migration: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_datagram_frame_size: Option<u64>,
    pub(crate) grease_quic_bit: bool,
    /// Ours: RFC 10069.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initial_max_path_id: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct TupleAssigned<'a> {
    pub(crate) tuple_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tuple_remote: Option<TupleEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tuple_local: Option<TupleEnd>,
    pub(crate) path_id: u32,
}

#[derive(Serialize)]
pub(crate) struct Header {
    pub(crate) packet_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packet_number: Option<u64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u16) -> bool {
    *value == 0
}

/// `packet_sent` and `packet_received`.
#[derive(Serialize)]
pub(crate) struct Packet<'a> {
    pub(crate) header: Header,
    pub(crate) path_id: u32,
    pub(crate) raw: Raw,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_mtu_probe_packet: bool,
    /// Ours: it carries data that had been sent before.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) retransmission: bool,
    /// Ours: the scheduler's decision that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<u64>,
    /// Ours: so many more frames are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) frames_left_out: u16,
    pub(crate) frames: &'a [WrittenFrame],
}

#[derive(Serialize)]
pub(crate) struct PacketDropped {
    pub(crate) header: Header,
    pub(crate) path_id: u32,
    pub(crate) trigger: &'static str,
}

#[derive(Serialize)]
pub(crate) struct PacketsAcked {
    pub(crate) packet_number_space: &'static str,
    pub(crate) packet_numbers: Run,
    pub(crate) path_id: u32,
}

/// Numbers in a row, written one by one.
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u32,
}

impl Serialize for Run {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.first..self.first + u64::from(self.count))
    }
}

#[derive(Serialize)]
pub(crate) struct PacketLost {
    pub(crate) header: Header,
    pub(crate) path_id: u32,
    /// Ours: bytes.
    pub(crate) size: u16,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) is_mtu_probe_packet: bool,
    /// Ours: its path was abandoned, and nothing else says that it is lost.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) path_abandoned: bool,
}

/// Those that have changed.
#[derive(Serialize, Default)]
pub(crate) struct RecoveryMetrics {
    pub(crate) path_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_rtt: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) smoothed_rtt: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latest_rtt: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_variance: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pto_count: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_in_flight: Option<u64>,
    /// Ours: bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery_rate: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct MtuUpdated {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<u32>,
    pub(crate) new: u32,
    pub(crate) path_id: u32,
}

#[derive(Serialize)]
pub(crate) struct KeyUpdated {
    pub(crate) key_type: &'static str,
    pub(crate) key_phase: u64,
    pub(crate) trigger: &'static str,
}

/// `mpquic:path_updated`.
#[derive(Serialize)]
pub(crate) struct PathUpdated {
    pub(crate) path_id: u32,
    pub(crate) new: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initiator: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_code: Option<u64>,
}

/// `mpquic:scheduler_decided`.
#[derive(Serialize, Default)]
pub(crate) struct SchedulerDecided {
    pub(crate) decision: u64,
    pub(crate) choice: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream_id: Option<u64>,
    /// Bytes of the gap that is left for another path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<u64>,
    /// Further paths that carry a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copies: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<&'static str>,
}

/// `mpquic:loss_judged`.
#[derive(Serialize)]
pub(crate) struct LossJudged {
    pub(crate) path_id: u32,
    pub(crate) cause: &'static str,
}

/// `mpquic:controller_updated`.
#[derive(Serialize)]
pub(crate) struct ControllerUpdated {
    pub(crate) path_id: u32,
    pub(crate) new: &'static str,
}

/// `mpquic:out_of_order_updated`.
#[derive(Serialize)]
pub(crate) struct OutOfOrderUpdated {
    pub(crate) bytes: u64,
}

/// `mpquic:records_left_out`.
#[derive(Serialize)]
pub(crate) struct RecordsLeftOut {
    pub(crate) count: u64,
}
