//! Frame types on the wire (RFC 9000 section 19, RFC 9221 section 4, RFC 10069, New Frames); numbers only.

/// `PADDING` (RFC 9000 section 19.1).
pub const PADDING: u64 = 0x00;
/// `PING` (RFC 9000 section 19.2).
pub const PING: u64 = 0x01;
/// `ACK` (RFC 9000 section 19.3).
pub const ACK: u64 = 0x02;
/// `ACK_ECN` (RFC 9000 section 19.3).
pub const ACK_ECN: u64 = 0x03;
/// `RESET_STREAM` (RFC 9000 section 19.4).
pub const RESET_STREAM: u64 = 0x04;
/// `STOP_SENDING` (RFC 9000 section 19.5).
pub const STOP_SENDING: u64 = 0x05;
/// `CRYPTO` (RFC 9000 section 19.6).
pub const CRYPTO: u64 = 0x06;
/// `NEW_TOKEN` (RFC 9000 section 19.7).
pub const NEW_TOKEN: u64 = 0x07;
/// STREAM is 0x08 to 0x0f: this, and the three flags below.
pub const STREAM: u64 = 0x08;
/// The largest type of STREAM (RFC 9000 section 19.8).
pub const STREAM_LAST: u64 = 0x0f;
/// The FIN bit of STREAM (RFC 9000 section 19.8).
pub const STREAM_FIN: u64 = 0x01;
/// The LEN bit of STREAM (RFC 9000 section 19.8).
pub const STREAM_LEN: u64 = 0x02;
/// The OFF bit of STREAM (RFC 9000 section 19.8).
pub const STREAM_OFF: u64 = 0x04;
/// `MAX_DATA` (RFC 9000 section 19.9).
pub const MAX_DATA: u64 = 0x10;
/// `MAX_STREAM_DATA` (RFC 9000 section 19.10).
pub const MAX_STREAM_DATA: u64 = 0x11;
/// `MAX_STREAMS_BIDI` (RFC 9000 section 19.11).
pub const MAX_STREAMS_BIDI: u64 = 0x12;
/// `MAX_STREAMS_UNI` (RFC 9000 section 19.11).
pub const MAX_STREAMS_UNI: u64 = 0x13;
/// `DATA_BLOCKED` (RFC 9000 section 19.12).
pub const DATA_BLOCKED: u64 = 0x14;
/// `STREAM_DATA_BLOCKED` (RFC 9000 section 19.13).
pub const STREAM_DATA_BLOCKED: u64 = 0x15;
/// `STREAMS_BLOCKED_BIDI` (RFC 9000 section 19.14).
pub const STREAMS_BLOCKED_BIDI: u64 = 0x16;
/// `STREAMS_BLOCKED_UNI` (RFC 9000 section 19.14).
pub const STREAMS_BLOCKED_UNI: u64 = 0x17;
/// `NEW_CONNECTION_ID` (RFC 9000 section 19.15).
pub const NEW_CONNECTION_ID: u64 = 0x18;
/// `RETIRE_CONNECTION_ID` (RFC 9000 section 19.16).
pub const RETIRE_CONNECTION_ID: u64 = 0x19;
/// `PATH_CHALLENGE` (RFC 9000 section 19.17).
pub const PATH_CHALLENGE: u64 = 0x1a;
/// `PATH_RESPONSE` (RFC 9000 section 19.18).
pub const PATH_RESPONSE: u64 = 0x1b;
/// `CONNECTION_CLOSE` (RFC 9000 section 19.19).
pub const CONNECTION_CLOSE: u64 = 0x1c;
/// `APPLICATION_CLOSE` (RFC 9000 section 19.19).
pub const APPLICATION_CLOSE: u64 = 0x1d;
/// `HANDSHAKE_DONE` (RFC 9000 section 19.20).
pub const HANDSHAKE_DONE: u64 = 0x1e;
/// QUIC Acknowledgment Frequency, IMMEDIATE_ACK Frame.
pub const IMMEDIATE_ACK: u64 = 0x1f;
/// DATAGRAM that reaches to the end of the packet.
pub const DATAGRAM: u64 = 0x30;
/// DATAGRAM with a length.
pub const DATAGRAM_LEN: u64 = 0x31;
/// `PATH_ACK` (RFC 10069).
pub const PATH_ACK: u64 = 0x3e;
/// `PATH_ACK_ECN` (RFC 10069).
pub const PATH_ACK_ECN: u64 = 0x3f;
/// QUIC Acknowledgment Frequency, ACK_FREQUENCY Frame.
pub const ACK_FREQUENCY: u64 = 0xaf;
/// `PATH_ABANDON` (RFC 10069).
pub const PATH_ABANDON: u64 = 0x3e75;
/// `PATH_STATUS_BACKUP` (RFC 10069).
pub const PATH_STATUS_BACKUP: u64 = 0x3e76;
/// `PATH_STATUS_AVAILABLE` (RFC 10069).
pub const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
/// `PATH_NEW_CONNECTION_ID` (RFC 10069).
pub const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
/// `PATH_RETIRE_CONNECTION_ID` (RFC 10069).
pub const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
/// `MAX_PATH_ID` (RFC 10069).
pub const MAX_PATH_ID: u64 = 0x3e7a;
/// `PATHS_BLOCKED` (RFC 10069).
pub const PATHS_BLOCKED: u64 = 0x3e7b;
/// `PATH_CIDS_BLOCKED` (RFC 10069).
pub const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
