//! Versions of QUIC that are spoken (RFC 9000, RFC 9369), and in what their packets differ on the wire.

use rand::Rng;

use super::{LONG_TYPE_MASK, PacketType};

/// A version of QUIC. Version 2 differs from version 1 in its numbers only: it keeps middleboxes from taking version 1
/// for the only one (RFC 9369).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// RFC 9000.
    #[default]
    V1,
    /// RFC 9369.
    V2,
}

/// A version of the form 0x?a?a?a?a, which nobody speaks (RFC 9000 section 15).
pub fn reserved_version(rng: &mut impl Rng) -> u32 {
    rng.next_u32() & 0xf0f0_f0f0 | 0x0a0a_0a0a
}

impl Version {
    /// All that are spoken.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// Its number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 0x6b33_43cf,
        }
    }

    /// The version with this number, if it is spoken.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.number() == number)
    }

    /// How TLS names it.
    pub const fn tls(self) -> rustls::quic::Version {
        match self {
            Self::V1 => rustls::quic::Version::V1,
            Self::V2 => rustls::quic::Version::V2,
        }
    }

    /// Bits 0x30 of a long header (RFC 9000 table 5; RFC 9369 section 3.2). `None` is Retry.
    pub const fn long_type(self, ty: Option<PacketType>) -> u8 {
        let index = match ty {
            Some(PacketType::Initial) => 0,
            Some(PacketType::ZeroRtt) => 1,
            Some(PacketType::Handshake) => 2,
            None => 3,
        };
        let shift = match self {
            Self::V1 => 0,
            Self::V2 => 1,
        };
        ((index + shift) % 4) << 4
    }

    /// The type that a long header's first byte says; `None` is Retry.
    pub const fn packet_type(self, first: u8) -> Option<PacketType> {
        let shift = match self {
            Self::V1 => 0,
            Self::V2 => 3,
        };
        match (((first & LONG_TYPE_MASK) >> 4) + shift) % 4 {
            0 => Some(PacketType::Initial),
            1 => Some(PacketType::ZeroRtt),
            2 => Some(PacketType::Handshake),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9369 section 3.2: "Initial: 0b01, 0-RTT: 0b10, Handshake: 0b11, Retry: 0b00".
    #[test]
    fn types_are_those_of_the_version() {
        use PacketType::{Handshake, Initial, ZeroRtt};
        for (version, bits) in [
            (Version::V1, [0x00, 0x10, 0x20, 0x30]),
            (Version::V2, [0x10, 0x20, 0x30, 0x00]),
        ] {
            for (ty, bits) in [Some(Initial), Some(ZeroRtt), Some(Handshake), None]
                .into_iter()
                .zip(bits)
            {
                assert_eq!(version.long_type(ty), bits, "{version:?} {ty:?}");
                assert_eq!(version.packet_type(0xcf & !LONG_TYPE_MASK | bits), ty);
            }
            assert_eq!(Version::of(version.number()), Some(version));
        }
        assert_eq!(Version::of(0), None);
        assert_eq!(Version::of(0x0a0a_0a0a), None);
    }
}
