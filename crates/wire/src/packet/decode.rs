//! Splits packets off a datagram and reads what is not protected.

use std::ops::Range;

use mpquic_sched_core::ConnectionId;
use thiserror::Error;

use super::varint::{Reader, UnexpectedEnd};
use super::{LONG_HEADER_FORM, MAX_CID_LEN, PacketType, TAG_LEN, Version};

/// Why no packet can be read here. The rest of the datagram is dropped without an answer, except
/// that a server may answer an unsupported version (RFC 9000 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PacketDecodeError {
    #[error("the datagram ends inside a header")]
    Truncated,
    #[error("a connection ID of {0} bytes")]
    ConnectionIdTooLong(usize),
    #[error("version {0:#x} is not supported")]
    UnsupportedVersion(u32),
    #[error("a Retry packet without a token")]
    EmptyRetryToken,
    #[error("a Version Negotiation packet with a broken list")]
    VersionList,
}

impl From<UnexpectedEnd> for PacketDecodeError {
    fn from(_: UnexpectedEnd) -> Self {
        Self::Truncated
    }
}

/// The version-independent fields (RFC 8999): what routing needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant<'a> {
    /// With a long header.
    Long {
        /// The first byte.
        first: u8,
        /// 0 for Version Negotiation.
        version: u32,
        /// Up to 255 bytes in versions that we do not speak.
        dcid: &'a [u8],
        /// Source Connection ID.
        scid: &'a [u8],
    },
    /// With a short header.
    Short {
        /// The first byte.
        first: u8,
        /// Destination Connection ID.
        dcid: &'a [u8],
    },
}

/// Reads the version-independent fields. `local_cid_len` is the length of the IDs that we issue.
#[inline]
pub fn parse_invariant(
    data: &[u8],
    local_cid_len: usize,
) -> Result<Invariant<'_>, PacketDecodeError> {
    let mut r = Reader::new(data);
    let first = r.u8()?;
    if first & LONG_HEADER_FORM == 0 {
        let dcid = r.bytes(local_cid_len)?;
        return Ok(Invariant::Short { first, dcid });
    }
    let version = r.u32()?;
    //= specs/rfc9000.txt#section-17.2
    //# In order to properly form a Version Negotiation packet, servers SHOULD be able to read
    //# longer connection IDs from other QUIC versions.
    let dcid_len = r.u8()?;
    let dcid = r.bytes(dcid_len.into())?;
    let scid_len = r.u8()?;
    let scid = r.bytes(scid_len.into())?;
    Ok(Invariant::Long {
        first,
        version,
        dcid,
        scid,
    })
}

/// A packet as far as it can be read without keys. Offsets are relative to the slice that was
/// decoded, and lie within `len`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtectedPacket {
    /// With a long header.
    Long {
        /// Which of them.
        ty: PacketType,
        /// The version.
        version: Version,
        /// Destination Connection ID.
        dcid: ConnectionId,
        /// Source Connection ID.
        scid: ConnectionId,
        /// Of an Initial packet; empty otherwise.
        token: Range<usize>,
        /// Where the packet number begins, from the packet's first byte.
        pn_offset: usize,
        /// The whole packet; what follows is coalesced (RFC 9000 section 12.2).
        len: usize,
    },
    /// With a short header.
    Short {
        /// Destination Connection ID.
        dcid: ConnectionId,
        /// Where the packet number begins, from the packet's first byte.
        pn_offset: usize,
        /// Always the rest of the datagram.
        len: usize,
    },
    /// A Retry packet (RFC 9000 section 17.2.5).
    Retry {
        /// The version.
        version: Version,
        /// Destination Connection ID.
        dcid: ConnectionId,
        /// Source Connection ID.
        scid: ConnectionId,
        /// Where the token is.
        token: Range<usize>,
        /// The Retry Integrity Tag, 16 bytes.
        tag: Range<usize>,
        /// Bytes of the packet.
        len: usize,
    },
    /// A Version Negotiation packet (RFC 9000 section 17.2.1).
    VersionNegotiation {
        /// Destination Connection ID.
        dcid: ConnectionId,
        /// Source Connection ID.
        scid: ConnectionId,
        /// See [`version_list`].
        versions: Range<usize>,
        /// Bytes of the packet.
        len: usize,
    },
}

impl ProtectedPacket {
    /// Its Destination Connection ID.
    #[inline]
    pub const fn dcid(&self) -> &ConnectionId {
        match self {
            Self::Long { dcid, .. }
            | Self::Short { dcid, .. }
            | Self::Retry { dcid, .. }
            | Self::VersionNegotiation { dcid, .. } => dcid,
        }
    }

    /// Bytes of the datagram that this packet takes.
    #[inline]
    pub const fn size(&self) -> usize {
        match self {
            Self::Long { len, .. }
            | Self::Short { len, .. }
            | Self::Retry { len, .. }
            | Self::VersionNegotiation { len, .. } => *len,
        }
    }
}

#[inline]
fn cid(bytes: &[u8]) -> Result<ConnectionId, PacketDecodeError> {
    //= specs/rfc9000.txt#section-17.2
    //# Endpoints that receive a version 1 long header with a value larger than 20 MUST drop the
    //# packet.
    if bytes.len() > MAX_CID_LEN {
        return Err(PacketDecodeError::ConnectionIdTooLong(bytes.len()));
    }
    Ok(ConnectionId::new(bytes))
}

/// Reads the first packet of a datagram or of what is left of it, whatever its QUIC bit
/// (`EndpointConfig::takes` of `mpquic-proto`).
//= specs/rfc9000.txt#section-10.3
//# Endpoints MUST discard packets that are too small to be valid QUIC packets.
#[inline]
pub fn decode_next(
    datagram: &[u8],
    local_cid_len: usize,
) -> Result<ProtectedPacket, PacketDecodeError> {
    let len = datagram.len();
    let (first, version, dcid, scid) = match parse_invariant(datagram, local_cid_len)? {
        Invariant::Long {
            first,
            version,
            dcid,
            scid,
        } => (first, version, dcid, scid),
        Invariant::Short { dcid, .. } => {
            return Ok(ProtectedPacket::Short {
                dcid: cid(dcid)?,
                pn_offset: 1 + local_cid_len,
                len,
            });
        }
    };
    // First byte, version, and two IDs with their lengths.
    let at = 7 + dcid.len() + scid.len();
    //= specs/rfc9000.txt#section-17.2.1
    //# Clients MUST ignore the value of this field.
    if version == 0 {
        // RFC 9000 section 17.2.1: a list of 32-bit versions.
        if len == at || !(len - at).is_multiple_of(4) {
            return Err(PacketDecodeError::VersionList);
        }
        return Ok(ProtectedPacket::VersionNegotiation {
            dcid: cid(dcid)?,
            scid: cid(scid)?,
            versions: at..len,
            len,
        });
    }
    let Some(version) = Version::of(version) else {
        return Err(PacketDecodeError::UnsupportedVersion(version));
    };
    let dcid = cid(dcid)?;
    let scid = cid(scid)?;
    let mut r = Reader::new(&datagram[at..]);
    let Some(ty) = version.packet_type(first) else {
        // RFC 9000 section 17.2.5: the token is all but the tag, and not empty.
        let Some(tag_at) = len.checked_sub(TAG_LEN).filter(|&tag_at| tag_at >= at) else {
            return Err(PacketDecodeError::Truncated);
        };
        //= specs/rfc9000.txt#section-17.2.5.2
        //# A client MUST discard a Retry packet with a zero-length Retry Token field.
        if tag_at == at {
            return Err(PacketDecodeError::EmptyRetryToken);
        }
        //= specs/rfc9000.txt#section-17.2.5
        //# The value in the Unused field is set to an arbitrary value by the server; a client
        //# MUST ignore these bits.
        return Ok(ProtectedPacket::Retry {
            version,
            dcid,
            scid,
            token: at..tag_at,
            tag: tag_at..len,
            len,
        });
    };
    let token = if ty == PacketType::Initial {
        let token = r.varint_bytes()?;
        let end = len - r.remaining();
        end - token.len()..end
    } else {
        at..at
    };
    let body = r.varint()?;
    let pn_offset = len - r.remaining();
    // The Length field counts the packet number and the payload (RFC 9000 section 17.2).
    if body > r.remaining() as u64 {
        return Err(PacketDecodeError::Truncated);
    }
    Ok(ProtectedPacket::Long {
        ty,
        version,
        dcid,
        scid,
        token,
        pn_offset,
        len: pn_offset + body as usize,
    })
}

/// The versions in a Version Negotiation packet.
pub fn version_list(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (versions, _) = bytes.as_chunks::<4>();
    versions.iter().map(|v| u32::from_be_bytes(*v))
}
