//! What an observer is told besides packets: plain values, made only for those who look.

use std::fmt;
use std::time::Duration;

use mpquic_sched_core::{ConnectionId, Data, PathStatus, Side};
use mpquic_wire::transport_parameters::TransportParameters;

use super::NumberSpace;
use crate::congestion::{CongestionControl, LossCauses};
use crate::space::SentPacket;
use crate::{ConnectionError, FourTuple, PathErrorCode, PathId, Version};

/// Something that happened in a connection.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// The connection begins. Comes first.
    Started(Started),
    /// The transport parameters of one side are known.
    Parameters(Parameters),
    /// The handshake is complete.
    HandshakeComplete,
    /// The handshake is confirmed (RFC 9001 section 4.1.2).
    HandshakeConfirmed,
    /// A path's life, status or addresses changed.
    Path(PathChange),
    /// Packets were acknowledged for the first time.
    Acked(AckedPackets<'a>),
    /// A packet was declared lost.
    Lost(PacketLost),
    /// What a path measures, after each acknowledgement, loss or probe timeout.
    Metrics(PathMetrics),
    /// The bytes received that cannot be read for a gap before them, over all streams, have changed.
    OutOfOrder {
        /// Bytes.
        bytes: u64,
    },
    /// The scheduler was asked.
    Decided(Decided),
    /// The packet keys were updated (RFC 9001 section 6).
    KeyUpdate {
        /// How often by now.
        phase: u64,
        /// Whether the peer began.
        by_peer: bool,
    },
    /// A packet did not decrypt.
    Undecryptable {
        /// Its number space.
        space: NumberSpace,
    },
    /// The connection is over.
    Closed(&'a ConnectionError),
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Started {
    /// Ours.
    pub side: Side,
    /// The version of QUIC.
    pub version: Version,
    /// The addresses of path 0.
    pub tuple: FourTuple,
    /// The destination connection ID of the client's first Initial packet: the same on both sides.
    pub original_dcid: ConnectionId,
    /// Our connection ID of the handshake.
    pub scid: ConnectionId,
}

/// Transport parameters (RFC 9000 section 18.2), as far as they are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameters {
    /// Whether they are the peer's.
    pub of_peer: bool,
    /// Milliseconds; 0 for none.
    pub max_idle_timeout_ms: u64,
    /// Bytes.
    pub max_udp_payload_size: u64,
    /// Bytes.
    pub initial_max_data: u64,
    /// Bytes.
    pub initial_max_stream_data_bidi_local: u64,
    /// Bytes.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Bytes.
    pub initial_max_stream_data_uni: u64,
    /// Streams.
    pub initial_max_streams_bidi: u64,
    /// Streams.
    pub initial_max_streams_uni: u64,
    /// The exponent of ACK Delay fields.
    pub ack_delay_exponent: u8,
    /// Milliseconds.
    pub max_ack_delay_ms: u64,
    /// Connection IDs.
    pub active_connection_id_limit: u64,
    /// Whether the peer may not move (RFC 9000 section 9).
    pub disable_active_migration: bool,
    /// Bytes (RFC 9221).
    pub max_datagram_frame_size: Option<u64>,
    /// The largest path ID (RFC 10069); `None` without the extension.
    pub initial_max_path_id: Option<u32>,
    /// Whether the QUIC bit may have either value (RFC 9287).
    pub grease_quic_bit: bool,
}

impl Parameters {
    pub(crate) fn of(parameters: &TransportParameters, of_peer: bool) -> Self {
        Self {
            of_peer,
            max_idle_timeout_ms: parameters.max_idle_timeout_ms,
            max_udp_payload_size: parameters.max_udp_payload_size,
            initial_max_data: parameters.initial_max_data,
            initial_max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
            initial_max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
            initial_max_stream_data_uni: parameters.initial_max_stream_data_uni,
            initial_max_streams_bidi: parameters.initial_max_streams_bidi,
            initial_max_streams_uni: parameters.initial_max_streams_uni,
            ack_delay_exponent: parameters.ack_delay_exponent,
            max_ack_delay_ms: parameters.max_ack_delay_ms,
            active_connection_id_limit: parameters.active_connection_id_limit,
            disable_active_migration: parameters.disable_active_migration,
            max_datagram_frame_size: parameters.max_datagram_frame_size,
            initial_max_path_id: parameters.initial_max_path_id,
            grease_quic_bit: parameters.grease_quic_bit,
        }
    }
}

/// A path's life, status or addresses changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathChange {
    /// The path.
    pub id: PathId,
    /// Its addresses; `None` if it has none any more, or never had any.
    pub tuple: Option<FourTuple>,
    /// What happened.
    pub kind: PathChangeKind,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChangeKind {
    /// It was opened, and its addresses are being validated.
    Opened,
    /// Its addresses were validated: it can carry data.
    Validated,
    /// It goes over other addresses now.
    Moved,
    /// What counts of both sides' statuses.
    Status(PathStatus),
    /// It does not deliver: its data goes to other paths.
    Suspect,
    /// It delivers again.
    Recovered,
    /// It was abandoned: nothing more is sent on it.
    Abandoned {
        /// Of the first PATH_ABANDON frame, sent or received.
        error_code: PathErrorCode,
        /// Whether the peer abandoned it first.
        by_peer: bool,
    },
    /// What was kept of it is forgotten.
    Discarded,
}

/// Packets that an ACK frame acknowledged for the first time, in ascending order of their numbers.
#[derive(Clone, Copy)]
pub struct AckedPackets<'a> {
    pub(crate) space: NumberSpace,
    pub(crate) packets: &'a [(u64, SentPacket)],
}

impl<'a> AckedPackets<'a> {
    /// Their number space.
    pub const fn space(&self) -> NumberSpace {
        self.space
    }

    /// Their numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.packets.iter().map(|(number, _)| *number)
    }
}

impl fmt::Debug for AckedPackets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.space)?;
        f.debug_list().entries(self.numbers()).finish()
    }
}

/// A packet that was declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketLost {
    /// Its number space.
    pub space: NumberSpace,
    /// Its number.
    pub number: u64,
    /// Its size, bytes, with the AEAD tag.
    pub size: u16,
    /// Whether it probed for a larger MTU, so that its loss is no sign of congestion.
    pub mtu_probe: bool,
    /// Whether it counts as lost because its path was abandoned, and for no other reason.
    pub abandoned: bool,
}

/// What a path measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetrics {
    /// The path.
    pub id: PathId,
    /// The newest RTT sample; `None` before the first.
    pub latest_rtt: Option<Duration>,
    /// The smallest RTT sample.
    pub min_rtt: Duration,
    /// Smoothed RTT (RFC 9002 section 5.3).
    pub smoothed_rtt: Duration,
    /// RTT variation.
    pub rtt_variation: Duration,
    /// Probe timeouts in a row.
    pub pto_count: u32,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Largest UDP payload known to pass, bytes.
    pub mtu: u16,
    /// What loss events were judged to be, as far as the controller judges them.
    pub loss_causes: LossCauses,
    /// Which controller steers the path, if it may change.
    pub steered_by: Option<CongestionControl>,
}

/// An answer of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// The number of the decision, from 0. Packets name it: [`PacketSent::decision`](super::PacketSent::decision).
    pub number: u64,
    /// What it said.
    pub choice: Choice,
    /// Why, in the words of a scheduler that says so ([`Scheduler::why`](mpquic_sched_core::Scheduler::why)).
    pub why: Option<&'static str>,
}

/// What a scheduler chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// A packet on a path.
    Send {
        /// The path.
        path: PathId,
        /// What it carries.
        data: Data,
        /// Further paths that carry a copy.
        copies: usize,
    },
    /// Nothing yet, although a path could send.
    Wait {
        /// For how long at most.
        at_most: Option<Duration>,
    },
    /// It wanted to wait, and had waited for a PTO with nothing in flight: the transport sends on this path.
    Overridden {
        /// The path.
        path: PathId,
    },
}
