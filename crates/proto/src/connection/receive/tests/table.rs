//! Which frames may come in which packets, from whom and after which negotiation: the tables of the
//! RFCs, transcribed row by row. Nothing here is taken from the code that it is held against.

use mpquic_sched_core::{Side, TransportErrorCode};

use super::forge::{Outcome, Packet};

const VIOLATION: Outcome = Outcome::Closed(TransportErrorCode::PROTOCOL_VIOLATION);
const ENCODING: Outcome = Outcome::Closed(TransportErrorCode::FRAME_ENCODING_ERROR);

/// The frame of which RFC 9000 says that it may come in 0-RTT packets, and that it cannot.
pub(super) const RETIRE_CONNECTION_ID: u64 = 0x19;

/// What both sides or the receiver must have announced in transport parameters before a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// RFC 10069, Connection Lifecycle and Packet Protection: both sides sent initial_max_path_id.
    Multipath,
    /// RFC 9221 section 3: the receiver sent a max_datagram_frame_size above 0.
    Datagram,
}

/// The frame types of one row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) name: &'static str,
    /// As in table 3 of RFC 9000: the packet types that may carry the frame.
    pub(super) pkts: &'static str,
    /// As in table 3 of RFC 9000; of N and P only.
    pub(super) spec: &'static str,
    /// Where the frame is defined.
    pub(super) section: &'static str,
    /// Whether only servers may send it.
    server_only: bool,
    pub(super) extension: Option<Extension>,
    /// What may become of a valid frame in a packet that may carry it. Where the RFC leaves a
    /// choice, ours comes first.
    valid: &'static [Outcome],
}

const fn row(
    types: (u64, u64),
    name: &'static str,
    pkts: &'static str,
    spec: &'static str,
    section: &'static str,
) -> Row {
    Row {
        first: types.0,
        last: types.1,
        name,
        pkts,
        spec,
        section,
        server_only: false,
        extension: None,
        valid: &[Outcome::Accepted],
    }
}

impl Row {
    const fn by_server(mut self) -> Self {
        self.server_only = true;
        self
    }

    const fn of(mut self, extension: Extension) -> Self {
        self.extension = Some(extension);
        self
    }

    const fn becomes(mut self, valid: &'static [Outcome]) -> Self {
        self.valid = valid;
        self
    }
}

/// All frames that a receiver of ours knows.
///
/// - RFC 9000: table 3 (section 12.4) as it stands there. Who may send a frame is in the frame's own
///   section.
/// - RFC 9221 has no such table. Section 5 requires 0-RTT or 1-RTT keys; section 5.2 says that
///   DATAGRAM frames are ack-eliciting.
/// - RFC 10069, New Frames: all of them in 1-RTT packets only. PATH_ACK stands for ACK, and
///   PATH_NEW_CONNECTION_ID for NEW_CONNECTION_ID, so each has the marks of the other.
///
/// RFC 9000 contradicts itself once: table 3 permits RETIRE_CONNECTION_ID in 0-RTT packets, and section
/// 12.5 says that it is not possible there and that a server MAY treat it as a PROTOCOL_VIOLATION.
#[rustfmt::skip]
pub(super) const FRAMES: &[Row] = &[
    row((0x00, 0x00), "PADDING", "IH01", "NP", "RFC 9000 section 19.1"),
    row((0x01, 0x01), "PING", "IH01", "", "RFC 9000 section 19.2"),
    row((0x02, 0x03), "ACK", "IH_1", "N", "RFC 9000 section 19.3"),
    row((0x04, 0x04), "RESET_STREAM", "__01", "", "RFC 9000 section 19.4"),
    row((0x05, 0x05), "STOP_SENDING", "__01", "", "RFC 9000 section 19.5"),
    row((0x06, 0x06), "CRYPTO", "IH_1", "", "RFC 9000 section 19.6"),
    // "A server MUST treat receipt of a NEW_TOKEN frame as a connection error of type
    // PROTOCOL_VIOLATION."
    row((0x07, 0x07), "NEW_TOKEN", "___1", "", "RFC 9000 section 19.7").by_server(),
    row((0x08, 0x0f), "STREAM", "__01", "", "RFC 9000 section 19.8"),
    row((0x10, 0x10), "MAX_DATA", "__01", "", "RFC 9000 section 19.9"),
    row((0x11, 0x11), "MAX_STREAM_DATA", "__01", "", "RFC 9000 section 19.10"),
    row((0x12, 0x13), "MAX_STREAMS", "__01", "", "RFC 9000 section 19.11"),
    row((0x14, 0x14), "DATA_BLOCKED", "__01", "", "RFC 9000 section 19.12"),
    row((0x15, 0x15), "STREAM_DATA_BLOCKED", "__01", "", "RFC 9000 section 19.13"),
    row((0x16, 0x17), "STREAMS_BLOCKED", "__01", "", "RFC 9000 section 19.14"),
    row((0x18, 0x18), "NEW_CONNECTION_ID", "__01", "P", "RFC 9000 section 19.15"),
    row((0x19, 0x19), "RETIRE_CONNECTION_ID", "__01", "", "RFC 9000 section 19.16"),
    row((0x1a, 0x1a), "PATH_CHALLENGE", "__01", "P", "RFC 9000 section 19.17"),
    // The one that is sent here answers no challenge: "the endpoint MAY generate a connection error
    // of type PROTOCOL_VIOLATION".
    row((0x1b, 0x1b), "PATH_RESPONSE", "___1", "P", "RFC 9000 section 19.18")
        .becomes(&[Outcome::Accepted, VIOLATION]),
    // "ih": only 0x1c can appear in Initial or Handshake packets.
    row((0x1c, 0x1c), "CONNECTION_CLOSE", "IH01", "N", "RFC 9000 section 19.19")
        .becomes(&[Outcome::PeerClosed]),
    row((0x1d, 0x1d), "CONNECTION_CLOSE", "__01", "N", "RFC 9000 section 19.19")
        .becomes(&[Outcome::PeerClosed]),
    // "A server MUST treat receipt of a HANDSHAKE_DONE frame as a connection error of type
    // PROTOCOL_VIOLATION."
    row((0x1e, 0x1e), "HANDSHAKE_DONE", "___1", "", "RFC 9000 section 19.20").by_server(),

    row((0x1f, 0x1f), "IMMEDIATE_ACK", "___1", "",
        "QUIC Acknowledgment Frequency, IMMEDIATE_ACK Frame"),
    row((0xaf, 0xaf), "ACK_FREQUENCY", "___1", "",
        "QUIC Acknowledgment Frequency, ACK_FREQUENCY Frame"),

    row((0x30, 0x31), "DATAGRAM", "__01", "", "RFC 9221 section 4").of(Extension::Datagram),

    row((0x3e, 0x3f), "PATH_ACK", "___1", "N", "RFC 10069, PATH_ACK Frame")
        .of(Extension::Multipath),
    row((0x3e75, 0x3e75), "PATH_ABANDON", "___1", "", "RFC 10069, PATH_ABANDON Frame")
        .of(Extension::Multipath),
    row((0x3e76, 0x3e76), "PATH_STATUS_BACKUP", "___1", "",
        "RFC 10069, PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP frames")
        .of(Extension::Multipath),
    row((0x3e77, 0x3e77), "PATH_STATUS_AVAILABLE", "___1", "",
        "RFC 10069, PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP frames")
        .of(Extension::Multipath),
    row((0x3e78, 0x3e78), "PATH_NEW_CONNECTION_ID", "___1", "P",
        "RFC 10069, PATH_NEW_CONNECTION_ID frame")
        .of(Extension::Multipath),
    row((0x3e79, 0x3e79), "PATH_RETIRE_CONNECTION_ID", "___1", "",
        "RFC 10069, PATH_RETIRE_CONNECTION_ID frame")
        .of(Extension::Multipath),
    row((0x3e7a, 0x3e7a), "MAX_PATH_ID", "___1", "", "RFC 10069, MAX_PATH_ID frame")
        .of(Extension::Multipath),
    row((0x3e7b, 0x3e7b), "PATHS_BLOCKED", "___1", "",
        "RFC 10069, PATHS_BLOCKED and PATH_CIDS_BLOCKED frames")
        .of(Extension::Multipath),
    row((0x3e7c, 0x3e7c), "PATH_CIDS_BLOCKED", "___1", "",
        "RFC 10069, PATHS_BLOCKED and PATH_CIDS_BLOCKED frames")
        .of(Extension::Multipath),
];

/// Frame types of no row: the rest of those of one byte, the neighbours of the ranges of RFC 10069, the
/// smallest and the largest of each length, and some of extensions that we do not speak.
pub(super) fn unknown_types() -> Vec<u64> {
    let one_byte = 0x00..=0x3f;
    let neighbours = [0x3e74, 0x3e7d];
    let edges = [0x40, 0x3fff, 0x4000, (1 << 30) - 1, 1 << 30, (1 << 62) - 1];
    // ADD_ADDRESS and PUNCH_ME_NOW of NAT traversal; the
    // PATH_ABANDON of an early draft of RFC 10069.
    let others = [0x003d_7e90, 0x003d_7e92, 0x1522_8c05];
    let all = one_byte.chain(neighbours).chain(edges).chain(others);
    all.filter(|ty| find(*ty).is_none()).collect()
}

pub(super) fn find(ty: u64) -> Option<&'static Row> {
    FRAMES
        .iter()
        .find(|row| (row.first..=row.last).contains(&ty))
}

/// What may become of a valid frame of this type; where there is a choice, ours comes first.
pub(super) fn expected(
    ty: u64,
    packet: Packet,
    receiver: Side,
    negotiated: impl Fn(Extension) -> bool,
) -> Vec<Outcome> {
    if packet == Packet::ZeroRtt && receiver == Side::Client {
        // "A client MUST NOT attempt to decrypt 0-RTT packets it receives and instead MUST discard them"
        // (RFC 9001 section 5.6).
        return vec![Outcome::Dropped];
    }
    if packet == Packet::ZeroRtt && ty == RETIRE_CONNECTION_ID {
        // "A server MAY treat receipt of these frames in 0-RTT packets as a connection error of type
        // PROTOCOL_VIOLATION" (RFC 9000 section 12.5).
        return vec![VIOLATION, Outcome::Accepted];
    }
    let mut outcomes = in_readable_packet(ty, packet, receiver, negotiated);
    if packet == Packet::Initial && matches!(outcomes[0], Outcome::Closed(_)) {
        // "Discarding an Initial packet is permitted even where this specification otherwise mandates
        // a connection error" (RFC 9000 section 11.1).
        outcomes.push(Outcome::Dropped);
    }
    outcomes
}

fn in_readable_packet(
    ty: u64,
    packet: Packet,
    receiver: Side,
    negotiated: impl Fn(Extension) -> bool,
) -> Vec<Outcome> {
    let Some(row) = find(ty) else {
        // "An endpoint MUST treat the receipt of a frame of unknown type as a connection error of type
        // FRAME_ENCODING_ERROR" (RFC 9000 section 12.4).
        return vec![ENCODING];
    };
    let letter = match packet {
        Packet::Initial => 'I',
        Packet::Handshake => 'H',
        Packet::ZeroRtt => '0',
        Packet::OneRtt => '1',
    };
    let misplaced = !row.pkts.contains(letter);
    match row.extension.filter(|extension| !negotiated(*extension)) {
        // "both endpoints MUST NOT use any frame or mechanism defined in this document" (RFC 10069,
        // Connection Lifecycle and Packet Protection). It names no error. To who knows the frames it
        // is a violation; to who does not, a frame of unknown type (RFC 9000 section 12.4).
        Some(Extension::Multipath) => return vec![VIOLATION, ENCODING],
        // "An endpoint that receives a DATAGRAM frame when it has not indicated support via the
        // transport parameter MUST terminate the connection with an error of type
        // PROTOCOL_VIOLATION" (RFC 9221 section 3).
        Some(Extension::Datagram) => return vec![VIOLATION],
        None => {}
    }
    // "An endpoint MUST treat receipt of a frame in a packet type that is not permitted as a
    // connection error of type PROTOCOL_VIOLATION" (RFC 9000 section 12.4; RFC 10069, New Frames).
    if misplaced || (row.server_only && receiver == Side::Server) {
        return vec![VIOLATION];
    }
    row.valid.to_vec()
}
