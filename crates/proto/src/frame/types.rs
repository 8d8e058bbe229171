//! Frame types on the wire (RFC 9000 section 19, RFC 9221 section 4, RFC 10069, New Frames); numbers only.

pub(crate) const PADDING: u64 = 0x00;
pub(crate) const PING: u64 = 0x01;
pub(crate) const ACK: u64 = 0x02;
pub(crate) const ACK_ECN: u64 = 0x03;
pub(crate) const RESET_STREAM: u64 = 0x04;
pub(crate) const STOP_SENDING: u64 = 0x05;
pub(crate) const CRYPTO: u64 = 0x06;
pub(crate) const NEW_TOKEN: u64 = 0x07;
/// STREAM is 0x08 to 0x0f: this, and the three flags below.
pub(crate) const STREAM: u64 = 0x08;
pub(crate) const STREAM_LAST: u64 = 0x0f;
pub(crate) const STREAM_FIN: u64 = 0x01;
pub(crate) const STREAM_LEN: u64 = 0x02;
pub(crate) const STREAM_OFF: u64 = 0x04;
pub(crate) const MAX_DATA: u64 = 0x10;
pub(crate) const MAX_STREAM_DATA: u64 = 0x11;
pub(crate) const MAX_STREAMS_BIDI: u64 = 0x12;
pub(crate) const MAX_STREAMS_UNI: u64 = 0x13;
pub(crate) const DATA_BLOCKED: u64 = 0x14;
pub(crate) const STREAM_DATA_BLOCKED: u64 = 0x15;
pub(crate) const STREAMS_BLOCKED_BIDI: u64 = 0x16;
pub(crate) const STREAMS_BLOCKED_UNI: u64 = 0x17;
pub(crate) const NEW_CONNECTION_ID: u64 = 0x18;
pub(crate) const RETIRE_CONNECTION_ID: u64 = 0x19;
pub(crate) const PATH_CHALLENGE: u64 = 0x1a;
pub(crate) const PATH_RESPONSE: u64 = 0x1b;
pub(crate) const CONNECTION_CLOSE: u64 = 0x1c;
pub(crate) const APPLICATION_CLOSE: u64 = 0x1d;
pub(crate) const HANDSHAKE_DONE: u64 = 0x1e;
/// QUIC Acknowledgment Frequency, IMMEDIATE_ACK Frame.
pub(crate) const IMMEDIATE_ACK: u64 = 0x1f;
/// DATAGRAM that reaches to the end of the packet.
pub(crate) const DATAGRAM: u64 = 0x30;
/// DATAGRAM with a length.
pub(crate) const DATAGRAM_LEN: u64 = 0x31;
pub(crate) const PATH_ACK: u64 = 0x3e;
pub(crate) const PATH_ACK_ECN: u64 = 0x3f;
/// QUIC Acknowledgment Frequency, ACK_FREQUENCY Frame.
pub(crate) const ACK_FREQUENCY: u64 = 0xaf;
pub(crate) const PATH_ABANDON: u64 = 0x3e75;
pub(crate) const PATH_STATUS_BACKUP: u64 = 0x3e76;
pub(crate) const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
pub(crate) const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
pub(crate) const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
pub(crate) const MAX_PATH_ID: u64 = 0x3e7a;
pub(crate) const PATHS_BLOCKED: u64 = 0x3e7b;
pub(crate) const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
