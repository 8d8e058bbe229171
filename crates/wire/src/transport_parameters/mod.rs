//! Transport parameters (RFC 9000 section 18, RFC 9221 section 3; RFC 10069, initial_max_path_id): values, codec and checks.

mod decode;
mod encode;
mod preferred_address;
mod remembered;
#[cfg(test)]
mod tests;
mod validate;
mod version_information;

use mpquic_sched_core::ConnectionId;

pub use self::{
    encode::Grease,
    preferred_address::PreferredAddress,
    remembered::{LIMITS, are_reduced},
    validate::ExpectedConnectionIds,
    version_information::VersionInformation,
};

/// Parameter IDs on the wire.
mod id {
    pub(super) const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub(super) const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    /// RFC 9368 section 3.
    pub(super) const VERSION_INFORMATION: u64 = 0x11;
    /// RFC 9221 section 3.
    pub(super) const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    /// QUIC Acknowledgment Frequency, Negotiating Extension Use.
    pub(super) const MIN_ACK_DELAY: u64 = 0xff04_de1b;
    /// RFC 9287 section 3.
    pub(super) const GREASE_QUIC_BIT: u64 = 0x2ab2;
    /// RFC 10069, initial_max_path_id.
    pub(super) const INITIAL_MAX_PATH_ID: u64 = 0x3e;
}

/// The largest max_udp_payload_size that means anything, and the default (RFC 9000 section 18.2).
pub const MAX_UDP_PAYLOAD_SIZE: u64 = 65527;
/// RFC 9000 section 18.2.
const DEFAULT_ACK_DELAY_EXPONENT: u8 = 3;
/// RFC 9000 section 18.2.
const DEFAULT_MAX_ACK_DELAY_MS: u64 = 25;
/// RFC 9000 section 18.2: at least 2, which is the default.
const DEFAULT_ACTIVE_CONNECTION_ID_LIMIT: u64 = 2;

/// What one side tells the other in the handshake. Absent parameters have their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportParameters {
    /// 0 is none.
    pub max_idle_timeout_ms: u64,
    /// `max_udp_payload_size`, in bytes.
    pub max_udp_payload_size: u64,
    /// `initial_max_data`, in bytes.
    pub initial_max_data: u64,
    /// `initial_max_stream_data_bidi_local`, in bytes.
    pub initial_max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`, in bytes.
    pub initial_max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`, in bytes.
    pub initial_max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub initial_max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub initial_max_streams_uni: u64,
    /// `ack_delay_exponent`.
    pub ack_delay_exponent: u8,
    /// `max_ack_delay`, in milliseconds.
    pub max_ack_delay_ms: u64,
    /// `disable_active_migration`.
    pub disable_active_migration: bool,
    /// `active_connection_id_limit`.
    pub active_connection_id_limit: u64,
    /// `initial_source_connection_id`.
    pub initial_source_connection_id: Option<ConnectionId>,
    /// Server only.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// Server only.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// Server only.
    pub stateless_reset_token: Option<[u8; 16]>,
    /// Server only.
    pub preferred_address: Option<PreferredAddress>,
    /// `None` if datagrams are not accepted (RFC 9221 section 3: also what 0 means).
    pub max_datagram_frame_size: Option<u64>,
    /// `None` if the sender does not speak RFC 10069. Never remembered for 0-RTT.
    //= specs/rfc10069-draft.md#nego
    //= type=implication
    //# This value MUST NOT exceed 2<sup>32</sup>-1, the maximum allowed value for the path ID due
    //# to restrictions on the nonce calculation (see {{nonce}}).
    pub initial_max_path_id: Option<u32>,
    /// Microseconds; `None` if the sender does not take ACK_FREQUENCY frames. Never remembered for 0-RTT.
    pub min_ack_delay_us: Option<u64>,
    /// Whether packets to the sender may have the QUIC bit cleared (RFC 9287). Never remembered for 0-RTT.
    pub grease_quic_bit: bool,
    /// `None` from those who do not know RFC 9368.
    pub version_information: Option<VersionInformation>,
    /// A parameter that nobody knows (RFC 9000 section 18.1); only ever sent.
    pub grease: Option<Grease>,
}

impl TransportParameters {
    /// The largest UDP payload that the peer takes.
    pub fn max_udp_payload(&self) -> u16 {
        u16::try_from(self.max_udp_payload_size).unwrap_or(u16::MAX)
    }
}

impl Default for TransportParameters {
    fn default() -> Self {
        Self {
            max_idle_timeout_ms: 0,
            max_udp_payload_size: MAX_UDP_PAYLOAD_SIZE,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: DEFAULT_ACK_DELAY_EXPONENT,
            max_ack_delay_ms: DEFAULT_MAX_ACK_DELAY_MS,
            disable_active_migration: false,
            active_connection_id_limit: DEFAULT_ACTIVE_CONNECTION_ID_LIMIT,
            initial_source_connection_id: None,
            original_destination_connection_id: None,
            retry_source_connection_id: None,
            stateless_reset_token: None,
            preferred_address: None,
            max_datagram_frame_size: None,
            initial_max_path_id: None,
            min_ack_delay_us: None,
            grease_quic_bit: false,
            version_information: None,
            grease: None,
        }
    }
}
