//! The format inside DATAGRAM frames: source packets, repair packets, probes. `docs/design/live.md` describes it for others.
//!
//! What is read is a view of the bytes that came: nothing is copied or allocated, and nothing panics.

use crate::rlc::{MAX_SYMBOL, MAX_WINDOW};

/// The version of the format, in the upper half of the first byte.
pub const VERSION: u8 = 1;

const SOURCE: u8 = VERSION << 4;
const REPAIR: u8 = VERSION << 4 | 1;
const PROBE: u8 = VERSION << 4 | 2;

/// What is set in a source packet's flags when the frame is a key frame.
const KEY: u8 = 1;

/// The most packets of a frame.
pub const MAX_PARTS: u32 = 4_096;

/// The latest time that a packet may name, in milliseconds.
pub const MAX_SENT: u64 = 1 << 48;

/// The longest frame, in bytes.
pub const MAX_FRAME: usize = 4 << 20;

/// The most bytes that a source packet has beside its payload.
pub const SOURCE_OVERHEAD: usize = 1 + 8 + 4 + BODY_OVERHEAD;

/// The most bytes of a body beside its payload: flags, frame, sent, budget, length, parts and part.
pub const BODY_OVERHEAD: usize = 1 + 8 + 8 + 4 + 4 + 2 + 2;

/// By how many bytes a repair packet is longer than the longest source packet that it covers.
pub const REPAIR_EXCESS: usize = 6;

/// A datagram that is not of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends too early.
    #[error("the datagram ends within a field")]
    Short,
    /// Another version or kind of packet.
    #[error("{0:#04x} is no kind of packet of this version")]
    Kind(u8),
    /// A field has a value that it may not have.
    #[error("{0} is out of range")]
    Range(&'static str),
    /// There are bytes behind the last field.
    #[error("the datagram goes on behind its last field")]
    Trailing,
}

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'a> {
    /// A part of a frame.
    Source {
        /// Whose frame.
        flow: u32,
        /// The lowest 32 bits of the symbol's number within the flow.
        symbol: u32,
        /// What is coded: [`Body::read`] reads it.
        body: &'a [u8],
    },
    /// A combination of source packets' bodies.
    Repair {
        /// Whose frames.
        flow: u32,
        /// The key of the coefficients.
        key: u16,
        /// Their density, at most 15.
        density: u8,
        /// How many symbols it covers.
        window: u16,
        /// The lowest 32 bits of the number of the first of them.
        first: u32,
        /// The combination.
        symbol: &'a [u8],
    },
    /// Nothing: its acknowledgement tells that a path is alive.
    Probe,
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    ///
    /// If it is not of this format.
    pub fn read(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader(datagram);
        match from.byte()? {
            SOURCE => Ok(Self::Source {
                flow: from.bounded("flow", u32::MAX)?,
                symbol: u32::from_be_bytes(from.array()?),
                body: from.rest(MAX_SYMBOL - 2, "body")?,
            }),
            REPAIR => {
                let flow = from.bounded("flow", u32::MAX)?;
                let key = u16::from_be_bytes(from.array()?);
                let shape = u16::from_be_bytes(from.array()?);
                let (density, window) = ((shape >> 12) as u8, shape & 0xfff);
                if window == 0 || usize::from(window) > MAX_WINDOW {
                    return Err(Malformed::Range("window"));
                }
                Ok(Self::Repair {
                    flow,
                    key,
                    density,
                    window,
                    first: u32::from_be_bytes(from.array()?),
                    symbol: from.rest(MAX_SYMBOL, "symbol")?,
                })
            }
            PROBE if from.0.is_empty() => Ok(Self::Probe),
            PROBE => Err(Malformed::Trailing),
            other => Err(Malformed::Kind(other)),
        }
    }

    /// Appends the datagram to `out`. A density above 15 or a window of more than 4,095 is written modulo 16 or 4,096.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Source { flow, symbol, body } => {
                out.push(SOURCE);
                write_varint(out, u64::from(flow));
                out.extend_from_slice(&symbol.to_be_bytes());
                out.extend_from_slice(body);
            }
            Self::Repair {
                flow,
                key,
                density,
                window,
                first,
                symbol,
            } => {
                write_repair_header(out, flow, key, density, window, first);
                out.extend_from_slice(symbol);
            }
            Self::Probe => out.push(PROBE),
        }
    }
}

pub(crate) fn write_repair_header(
    out: &mut Vec<u8>,
    flow: u32,
    key: u16,
    density: u8,
    window: u16,
    first: u32,
) {
    out.push(REPAIR);
    write_varint(out, u64::from(flow));
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&(u16::from(density) << 12 | window & 0xfff).to_be_bytes());
    out.extend_from_slice(&first.to_be_bytes());
}

/// What a source packet says beside its number, and what is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body<'a> {
    /// A key frame, which others need.
    pub key: bool,
    /// The frame's number within the flow.
    pub frame: u64,
    /// When the frame was handed over, in milliseconds since the sender began.
    pub sent: u64,
    /// How many milliseconds later than the earliest arrival that is possible the frame is of use.
    pub budget: u32,
    /// Bytes of the frame.
    pub length: u32,
    /// How many parts it has: 1 to [`MAX_PARTS`], and at most one for each byte.
    pub parts: u32,
    /// Which of them this is, from 0 on.
    pub part: u32,
    /// The bytes of the part.
    pub payload: &'a [u8],
}

impl<'a> Body<'a> {
    /// Reads a body, and checks that its fields agree with each other and with the payload's length.
    ///
    /// # Errors
    ///
    /// If it is not of this format.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Reader(body);
        let flags = from.byte()?;
        if flags & !KEY != 0 {
            return Err(Malformed::Range("flags"));
        }
        let read = Self {
            key: flags & KEY != 0,
            frame: from.varint()?,
            sent: match from.varint()? {
                sent if sent <= MAX_SENT => sent,
                _ => return Err(Malformed::Range("sent")),
            },
            budget: from.bounded("budget", 1 << 30)?,
            length: from.bounded("length", MAX_FRAME as u32)?,
            parts: from.bounded("parts", MAX_PARTS)?,
            part: from.bounded("part", MAX_PARTS)?,
            payload: from.0,
        };
        if read.parts == 0 || read.parts > read.length.max(1) {
            return Err(Malformed::Range("parts"));
        }
        if read.part >= read.parts {
            return Err(Malformed::Range("part"));
        }
        let (begin, end) = part_range(read.length, read.parts, read.part);
        if read.payload.len() != end - begin {
            return Err(Malformed::Range("payload"));
        }
        Ok(read)
    }

    /// Appends the body to `out`.
    ///
    /// # Panics
    ///
    /// If `frame` or `sent` does not fit 62 bits.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(if self.key { KEY } else { 0 });
        for number in [self.frame, self.sent]
            .into_iter()
            .chain([self.budget, self.length, self.parts, self.part].map(u64::from))
        {
            write_varint(out, number);
        }
        out.extend_from_slice(self.payload);
    }
}

/// Where a part of a frame begins and ends in it: all parts have the same number of bytes, or one less towards the end.
///
/// `parts` must not be 0, `part` be below it.
///
/// ```
/// use mpquic_live::wire::part_range;
///
/// assert_eq!([0, 1, 2].map(|part| part_range(8, 3, part)), [(0, 3), (3, 6), (6, 8)]);
/// ```
pub fn part_range(length: u32, parts: u32, part: u32) -> (usize, usize) {
    let (share, longer) = (length / parts, length % parts);
    let begin =
        |part: u32| (u64::from(share) * u64::from(part) + u64::from(part.min(longer))) as usize;
    (begin(part), begin(part + 1))
}

/// QUIC's variable-length integers (RFC 9000 section 16).
fn write_varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        0x4000_0000..0x4000_0000_0000_0000 => {
            out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes())
        }
        _ => panic!("{value} does not fit 62 bits"),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let first = *self.0.first().ok_or(Malformed::Short)?;
        Ok(match first >> 6 {
            0 => u64::from(self.byte()?),
            1 => u64::from(u16::from_be_bytes(self.array()?) & 0x3fff),
            2 => u64::from(u32::from_be_bytes(self.array()?) & 0x3fff_ffff),
            _ => u64::from_be_bytes(self.array()?) & 0x3fff_ffff_ffff_ffff,
        })
    }

    fn bounded(&mut self, what: &'static str, most: u32) -> Result<u32, Malformed> {
        match u32::try_from(self.varint()?) {
            Ok(value) if value <= most => Ok(value),
            _ => Err(Malformed::Range(what)),
        }
    }

    fn rest(self, most: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        match self.0.len() {
            0 => Err(Malformed::Short),
            len if len > most => Err(Malformed::Range(what)),
            _ => Ok(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_each_kind() {
        let body = Body {
            key: true,
            frame: 7,
            sent: 1_000,
            budget: 180,
            length: 5,
            parts: 2,
            part: 1,
            payload: b"yz",
        };
        let mut bytes = Vec::new();
        body.write(&mut bytes);
        assert_eq!(bytes, [1, 7, 0x43, 0xe8, 0x40, 180, 5, 2, 1, b'y', b'z']);
        assert_eq!(Body::read(&bytes), Ok(body));

        let mut datagram = Vec::new();
        let packet = Packet::Source {
            flow: 3,
            symbol: 0x01020304,
            body: &bytes,
        };
        packet.write(&mut datagram);
        assert_eq!(datagram[..6], [0x10, 3, 1, 2, 3, 4]);
        assert_eq!(Packet::read(&datagram), Ok(packet));

        // RFC 8681 section 4.1.3: key, density and window, first symbol.
        let packet = Packet::Repair {
            flow: 3,
            key: 0xabcd,
            density: 15,
            window: 18,
            first: 0x01020304,
            symbol: &[9, 9, 9],
        };
        datagram.clear();
        packet.write(&mut datagram);
        assert_eq!(
            datagram,
            [0x11, 3, 0xab, 0xcd, 0xf0, 18, 1, 2, 3, 4, 9, 9, 9]
        );
        assert_eq!(Packet::read(&datagram), Ok(packet));

        datagram.clear();
        Packet::Probe.write(&mut datagram);
        assert_eq!(datagram, [0x12]);
        assert_eq!(Packet::read(&datagram), Ok(Packet::Probe));
    }

    #[test]
    fn what_is_refused() {
        assert_eq!(Packet::read(&[]), Err(Malformed::Short));
        assert_eq!(Packet::read(&[0x20, 1, 1]), Err(Malformed::Kind(0x20)));
        assert_eq!(Packet::read(&[0x12, 0]), Err(Malformed::Trailing));
        assert_eq!(Packet::read(&[0x10, 3, 1, 2, 3, 4]), Err(Malformed::Short));
        assert_eq!(
            Packet::read(&[0x11, 3, 0, 0, 0xf0, 0, 1, 2, 3, 4, 9]),
            Err(Malformed::Range("window"))
        );
        assert_eq!(
            Packet::read(&[0x11, 3, 0, 0, 0xf0, 129, 1, 2, 3, 4, 9]),
            Err(Malformed::Range("window"))
        );
        assert_eq!(
            Packet::read(&[0x10; MAX_SYMBOL + 10]),
            Err(Malformed::Range("body"))
        );
        let body = |fields: [u8; 6], payload: &[u8]| {
            let mut bytes = vec![0];
            bytes.extend(fields);
            bytes.extend(payload);
            Body::read(&bytes).map(|_| ())
        };
        assert_eq!(body([1, 1, 1, 2, 1, 0], b"ab"), Ok(()));
        assert_eq!(body([1, 1, 1, 0, 1, 0], b""), Ok(()));
        assert_eq!(
            body([1, 1, 1, 2, 0, 0], b"ab"),
            Err(Malformed::Range("parts"))
        );
        assert_eq!(
            body([1, 1, 1, 2, 3, 0], b"a"),
            Err(Malformed::Range("parts"))
        );
        assert_eq!(
            body([1, 1, 1, 2, 1, 1], b"ab"),
            Err(Malformed::Range("part"))
        );
        assert_eq!(
            body([1, 1, 1, 2, 1, 0], b"abc"),
            Err(Malformed::Range("payload"))
        );
        assert_eq!(
            Body::read(&[2, 1, 1, 1, 0, 1, 0]),
            Err(Malformed::Range("flags"))
        );
    }

    #[test]
    fn parts_make_up_the_frame() {
        for length in 0..200_u32 {
            for parts in 1..=length.max(1) {
                let mut at = 0;
                for part in 0..parts {
                    let (begin, end) = part_range(length, parts, part);
                    assert_eq!(begin, at);
                    assert!(end > begin || length == 0);
                    at = end;
                }
                assert_eq!(at, length as usize);
            }
        }
    }
}
