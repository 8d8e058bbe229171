//! Follows the frames of HTTP/3 (RFC 9114 section 7.1) in the bytes of a stream, so that h3 gets no frame that is too large.
//!
//! h3 0.0.8 holds every frame but DATA until all of it is here, unknown ones too, however long it says that it is; and it takes
//! another piece of the stream for each frame header and for each piece of a body that it gives out. So it is given pieces that end
//! where a header or a payload ends: it gives out one for each that it takes, and holds no more than one frame.

use bytes::Bytes;

use crate::fields::{Fields, MOST_FIELDS};

/// Types of streams (RFC 9114 section 6.2) and of frames (sections 7.2 and 11.2.1).
const CONTROL_STREAM: u64 = 0x00;
const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;
/// The stream is WebTransport's from here on: no more frames (draft-ietf-webtrans-http3, section 4.2).
const WEBTRANSPORT_STREAM: u64 = 0x41;

/// Two integers of variable length: the longest header of a frame.
const LONGEST_HEADER: usize = 16;

/// A frame is larger than [`Connection::max_frame_size`](crate::Connection::max_frame_size) lets it be.
///
/// It comes in [`StreamError::Undefined`](h3::error::StreamError::Undefined) for a frame on a request's stream. That stream is
/// stopped and, if it is not [split](h3::quic::BidiStream::split), reset with `H3_EXCESSIVE_LOAD`; others go on. On a control stream
/// the connection is closed with that code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameTooLarge {
    /// The type of the frame, such as 1 for HEADERS.
    pub frame_type: u64,
    /// The length of its payload in bytes, as its header says.
    pub length: u64,
    /// How many bytes are taken.
    pub limit: u64,
    /// If it is not for its length: it has more fields than this, which is how many a `HeaderMap` of `http` has room for.
    pub most_fields: Option<usize>,
}

impl std::fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ty, length, limit) = (self.frame_type, self.length, self.limit);
        match name(ty) {
            Some(name) => write!(f, "the peer sent a {name} frame")?,
            None => write!(f, "the peer sent a frame of type {ty:#x}")?,
        }
        match self.most_fields {
            Some(most) => write!(f, " with more than {most} fields"),
            None => write!(f, " of {length} bytes; at most {limit} are taken"),
        }
    }
}

impl std::error::Error for FrameTooLarge {}

/// The name of a frame that h3 knows; it skips those of other types, as RFC 9114 section 9 wants it.
const fn name(ty: u64) -> Option<&'static str> {
    Some(match ty {
        DATA => "DATA",
        HEADERS => "HEADERS",
        0x03 => "CANCEL_PUSH",
        0x04 => "SETTINGS",
        0x05 => "PUSH_PROMISE",
        0x07 => "GOAWAY",
        0x0d => "MAX_PUSH_ID",
        // Those of HTTP/2 that have no meaning here (section 7.2.8).
        0x02 | 0x06 | 0x08 | 0x09 => "forbidden",
        _ => return None,
    })
}

/// Where in its frames a stream is.
#[derive(Debug)]
pub(crate) struct Frames {
    limit: u64,
    next: Next,
    /// The beginning of a header, the rest of which is not here yet.
    begun: [u8; LONGEST_HEADER],
    filled: usize,
    /// Of the HEADERS frame that comes.
    fields: Fields,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// The type of a unidirectional stream.
    StreamType,
    Header,
    Payload {
        left: u64,
        kind: Kind,
    },
    /// What has no frames, or none that h3 reads: it is handed over as it comes.
    Opaque,
}

/// What becomes of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is not for h3.
    Skipped,
    /// HEADERS of this length: its fields are counted.
    Fields(u64),
    /// h3 gets it as it comes.
    Other,
}

impl Frames {
    /// Of a request and its answer.
    pub(crate) const fn of_request(limit: u64) -> Self {
        Self::new(limit, Next::Header)
    }

    /// Of a unidirectional stream: what it carries depends on its type. Only the control stream has frames that h3 reads. It reads
    /// no push stream, no encoder and no decoder stream.
    pub(crate) const fn of_unidirectional(limit: u64) -> Self {
        Self::new(limit, Next::StreamType)
    }

    const fn new(limit: u64, next: Next) -> Self {
        Self {
            limit,
            next,
            begun: [0; LONGEST_HEADER],
            filled: 0,
            fields: Fields::new(),
        }
    }

    /// Takes bytes from the front of `rest`, which is not empty. Gives what h3 may have; `None` if that is nothing yet.
    pub(crate) fn take(&mut self, rest: &mut Bytes) -> Result<Option<Bytes>, FrameTooLarge> {
        match self.next {
            Next::Opaque => Ok(Some(std::mem::take(rest))),
            Next::Payload { left, kind } => {
                let count = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                let piece = rest.split_to(count);
                if let Kind::Fields(length) = kind
                    && !self.fields.take(&piece)
                {
                    return Err(FrameTooLarge {
                        frame_type: HEADERS,
                        length,
                        limit: self.limit,
                        most_fields: Some(MOST_FIELDS),
                    });
                }
                self.next = payload(left - count as u64, kind);
                Ok((kind != Kind::Skipped).then_some(piece))
            }
            Next::StreamType => {
                let Some(([ty], header)) = self.header(rest) else {
                    return Ok(None);
                };
                self.next = match ty {
                    CONTROL_STREAM => Next::Header,
                    _ => Next::Opaque,
                };
                Ok(Some(header))
            }
            Next::Header => {
                let Some(([ty, length], header)) = self.header(rest) else {
                    return Ok(None);
                };
                let kind = match ty {
                    // Instead of a length, the ID of a session follows.
                    WEBTRANSPORT_STREAM => {
                        self.next = Next::Opaque;
                        return Ok(Some(header));
                    }
                    // h3 hands it on as it comes.
                    DATA => Kind::Other,
                    HEADERS if length <= self.limit => {
                        self.fields = Fields::new();
                        Kind::Fields(length)
                    }
                    _ if length <= self.limit => Kind::Other,
                    _ if name(ty).is_none() => Kind::Skipped,
                    _ => {
                        return Err(FrameTooLarge {
                            frame_type: ty,
                            length,
                            limit: self.limit,
                            most_fields: None,
                        });
                    }
                };
                self.next = payload(length, kind);
                Ok((kind != Kind::Skipped).then_some(header))
            }
        }
    }

    /// What was held back when the stream ended: the beginning of a header. h3 finds that the frame is not complete.
    pub(crate) fn unfinished(&mut self) -> Option<Bytes> {
        let filled = std::mem::take(&mut self.filled);
        (filled > 0).then(|| Bytes::copy_from_slice(&self.begun[..filled]))
    }

    /// The next `N` integers, and the bytes that say them; `None` as long as they are not complete.
    fn header<const N: usize>(&mut self, rest: &mut Bytes) -> Option<([u64; N], Bytes)> {
        if self.filled == 0
            && let Some((values, size)) = integers(rest)
        {
            return Some((values, rest.split_to(size)));
        }
        while !rest.is_empty() {
            self.begun[self.filled] = rest.split_to(1)[0];
            self.filled += 1;
            if let Some((values, _)) = integers(&self.begun[..self.filled]) {
                return Some((values, self.unfinished()?));
            }
        }
        None
    }
}

const fn payload(left: u64, kind: Kind) -> Next {
    match left {
        0 => Next::Header,
        _ => Next::Payload { left, kind },
    }
}

/// `N` integers of variable length (RFC 9000 section 16) at the front of `bytes`, and how long they are.
fn integers<const N: usize>(bytes: &[u8]) -> Option<([u64; N], usize)> {
    let mut values = [0; N];
    let mut at = 0;
    for value in &mut values {
        let first = *bytes.get(at)?;
        let size = 1 << (first >> 6);
        let tail = bytes.get(at + 1..at + size)?;
        *value = tail.iter().fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        });
        at += size;
    }
    Some((values, at))
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = 100;

    fn integer(into: &mut impl BufMut, value: u64) {
        match value {
            0..0x40 => into.put_u8(value as u8),
            0x40..0x4000 => into.put_u16(0x4000 | value as u16),
            0x4000..0x4000_0000 => into.put_u32(0x8000_0000 | value as u32),
            _ => into.put_u64(0xc000_0000_0000_0000 | value),
        }
    }

    fn frame(into: &mut BytesMut, ty: u64, length: usize) {
        integer(into, ty);
        integer(into, length as u64);
        into.put_bytes(ty as u8 ^ 0x5a, length);
    }

    /// All that comes through, in the pieces in which it does.
    fn run(
        mut frames: Frames,
        chunks: impl Iterator<Item = Bytes>,
    ) -> Result<Vec<Bytes>, FrameTooLarge> {
        let mut pieces = Vec::new();
        for mut rest in chunks {
            while !rest.is_empty() {
                pieces.extend(frames.take(&mut rest)?);
            }
        }
        pieces.extend(frames.unfinished());
        assert!(
            pieces.iter().all(|piece| !piece.is_empty()),
            "h3 takes an empty piece for none"
        );
        Ok(pieces)
    }

    fn cut(bytes: &Bytes, sizes: &[usize]) -> Vec<Bytes> {
        let mut rest = bytes.clone();
        let mut sizes = sizes.iter().cycle();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            chunks.push(rest.split_to(rest.len().min(*sizes.next().unwrap())));
        }
        chunks
    }

    /// A type, and a length that fits unless the frame is skipped or not held.
    fn any_frame() -> impl Strategy<Value = (u64, usize)> {
        let held = (
            prop::sample::select(vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 0xd]),
            0..=LIMIT as usize,
        );
        let unknown = (
            prop_oneof![Just(0x21_u64), 0x1234_u64..1 << 60],
            0..300_usize,
        );
        prop_oneof![held, (Just(DATA), 0..300_usize), unknown]
    }

    proptest! {
        /// Wherever the chunks end, all bytes come through but those of unknown frames that are too large, and no piece has bytes of
        /// two frames.
        #[test]
        fn all_but_large_unknown_frames_come_through(
            unidirectional: bool,
            list in prop::collection::vec(any_frame(), 0..12),
            missing in 0..20_usize,
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let mut sent = BytesMut::new();
            let mut expected = BytesMut::new();
            let mut ends = Vec::new();
            if unidirectional {
                integer(&mut sent, CONTROL_STREAM);
                integer(&mut expected, CONTROL_STREAM);
                ends.push(expected.len());
            }
            for (ty, length) in list {
                frame(&mut sent, ty, length);
                if ty == DATA || length as u64 <= LIMIT || name(ty).is_some() {
                    frame(&mut expected, ty, length);
                    ends.extend([expected.len() - length, expected.len()]);
                }
            }
            // The stream may end anywhere.
            sent.truncate(sent.len().saturating_sub(missing));
            let frames = if unidirectional { Frames::of_unidirectional(LIMIT) } else { Frames::of_request(LIMIT) };
            let pieces = run(frames, cut(&sent.freeze(), &sizes).into_iter()).unwrap();
            let mut at = 0;
            for piece in &pieces {
                prop_assert!(!ends.iter().any(|end| at < *end && *end < at + piece.len()));
                at += piece.len();
            }
            let got = pieces.concat();
            prop_assert!(expected.starts_with(&got) || missing > 0);
            prop_assert!(missing > 0 || got == expected);
        }

        /// A frame that h3 would hold is refused before a byte of its payload comes through.
        #[test]
        fn a_large_frame_is_refused(
            before in prop::collection::vec(any_frame(), 0..4),
            ty in prop::sample::select(vec![1_u64, 2, 3, 4, 5, 6, 7, 8, 9, 0xd]),
            length in LIMIT + 1..1 << 62,
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let mut sent = BytesMut::new();
            for (ty, length) in before {
                frame(&mut sent, ty, length);
            }
            integer(&mut sent, ty);
            integer(&mut sent, length);
            let chunks = cut(&sent.freeze(), &sizes).into_iter();
            let most_fields = None;
            let refused = FrameTooLarge { frame_type: ty, length, limit: LIMIT, most_fields };
            prop_assert_eq!(run(Frames::of_request(LIMIT), chunks), Err(refused));
        }

        /// Streams without frames are left alone.
        #[test]
        fn other_streams_are_not_looked_into(
            ty in 1_u64..1 << 62,
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let mut sent = BytesMut::new();
            integer(&mut sent, ty);
            sent.extend_from_slice(&bytes);
            let sent = sent.freeze();
            let pieces = run(Frames::of_unidirectional(LIMIT), cut(&sent, &sizes).into_iter()).unwrap();
            prop_assert_eq!(pieces.concat(), sent);

            let mut sent = BytesMut::new();
            integer(&mut sent, WEBTRANSPORT_STREAM);
            integer(&mut sent, ty);
            sent.extend_from_slice(&bytes);
            let sent = sent.freeze();
            let pieces = run(Frames::of_request(LIMIT), cut(&sent, &sizes).into_iter()).unwrap();
            prop_assert_eq!(pieces.concat(), sent);
        }
    }

    #[test]
    fn an_error_names_the_frame() {
        let error = |frame_type| FrameTooLarge {
            frame_type,
            length: 1 << 40,
            limit: 65536,
            most_fields: None,
        };
        assert_eq!(
            error(1).to_string(),
            "the peer sent a HEADERS frame of 1099511627776 bytes; at most 65536 are taken"
        );
    }
}
