//! Packets on the wire: headers, packet numbers, header protection.

mod decode;
mod encode;
mod protection;
#[cfg(test)]
mod tests;
pub mod varint;
mod version;

pub use version::Version;
pub use version::reserved_version;

pub use self::{
    decode::{Invariant, ProtectedPacket, decode_next, parse_invariant, version_list},
    encode::{
        LongHeaderMarks, encode_long_header, encode_retry_header, encode_short_header,
        encode_version_negotiation, patch_length,
    },
    protection::{
        QuicBit, expand_pn, key_phase, pn_len, reserved_bits_are_zero, seal_packet,
        unprotect_header,
    },
};

/// The longest connection ID of version 1 (RFC 9000 section 17.2).
pub const MAX_CID_LEN: usize = 20;

/// The AEAD tag: every cipher suite of QUIC has 16 bytes (RFC 9001 section 5.3).
pub const TAG_LEN: usize = 16;

/// Datagrams with Initial packets, and probes of a path, have at least so many bytes of UDP payload
/// (RFC 9000 sections 14.1 and 8.2.1).
pub const MIN_INITIAL_DATAGRAM: usize = 1200;

/// A packet of so many bytes can be answered with a stateless reset that nobody tells from a packet: it is shorter than what
/// it answers, and has a connection ID of 20 bytes at most, 5 bytes of other content and the token, or a byte more (RFC 9000
/// sections 10.3 and 10.3.3). Who asks for an answer in a shorter one does not learn that the peer has lost the connection.
pub const MIN_RESETTABLE: usize = 43;

/// Bit 0x80: long header (RFC 9000 section 17).
pub const LONG_HEADER_FORM: u8 = 0x80;
/// Bit 0x40, the QUIC bit: set in version 1, unless the receiver has said that it need not be (RFC 9287).
pub const FIXED_BIT: u8 = 0x40;
/// Bits 0x30 of a long header: the type of packet; 0 is Initial (RFC 9000 table 5).
pub const LONG_TYPE_MASK: u8 = 0x30;
/// Key phase bit of a short header (RFC 9000 section 17.3.1).
pub const KEY_PHASE_BIT: u8 = 0x04;

/// What kind of packet, among those with a long header and protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// Initial (RFC 9000 section 17.2.2).
    Initial,
    /// 0-RTT (section 17.2.3).
    ZeroRtt,
    /// Handshake (section 17.2.4).
    Handshake,
}
