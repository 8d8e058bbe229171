//! ACK and PATH_ACK (RFC 9000 section 19.3, RFC 10069, PATH_ACK Frame); which packets to acknowledge is decided elsewhere.

use std::fmt;
use std::ops::RangeInclusive;

use super::decode::Malformed;
use super::types;
use crate::PathId;
use crate::packet::varint::{self, Reader};

/// Marks seen by the acknowledging side (RFC 9000 section 19.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// Packets received with ECT(0).
    pub ect0: u64,
    /// Packets received with ECT(1).
    pub ect1: u64,
    /// Packets received with CE.
    pub ce: u64,
}

impl EcnCounts {
    #[inline]
    fn size(&self) -> usize {
        varint::size(self.ect0) + varint::size(self.ect1) + varint::size(self.ce)
    }
}

/// ACK or PATH_ACK as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrame<'a> {
    /// `None` for ACK.
    pub path: Option<u64>,
    /// Largest Acknowledged.
    pub largest: u64,
    /// As on the wire: before the exponent of the sender is applied.
    pub delay: u64,
    /// The ranges, from the largest down.
    pub blocks: AckBlocks<'a>,
    /// The ECN counts of an ACK_ECN or PATH_ACK_ECN.
    pub ecn: Option<EcnCounts>,
}

/// The acknowledged ranges, still encoded. Checked when decoded, so that iterating cannot fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AckBlocks<'a> {
    largest: u64,
    first: u64,
    /// Pairs of Gap and ACK Range Length.
    rest: &'a [u8],
}

impl<'a> AckBlocks<'a> {
    /// The acknowledged packet numbers, in descending order of ranges. Allocates nothing.
    #[inline]
    pub fn iter(&self) -> AckBlocksIter<'a> {
        let low = self.largest - self.first;
        AckBlocksIter {
            first: Some((low, self.largest)),
            low,
            rest: Reader::new(self.rest),
        }
    }
}

impl fmt::Debug for AckBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// See [`AckBlocks::iter`].
#[derive(Debug, Clone)]
pub struct AckBlocksIter<'a> {
    first: Option<(u64, u64)>,
    /// The lowest number so far.
    low: u64,
    rest: Reader<'a>,
}

impl Iterator for AckBlocksIter<'_> {
    type Item = RangeInclusive<u64>;

    #[inline]
    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let (low, high) = match self.first.take() {
            Some(first) => first,
            // Most frames have one range.
            None if self.rest.is_empty() => return None,
            None => below(self.low, &mut self.rest)?,
        };
        self.low = low;
        Some(low..=high)
    }
}

/// The range below `low` (RFC 9000 section 19.3.1), or `None` if there is none or it is malformed.
#[inline(never)]
fn below(low: u64, rest: &mut Reader<'_>) -> Option<(u64, u64)> {
    let gap = rest.varint().ok()?;
    let length = rest.varint().ok()?;
    let high = low.checked_sub(gap)?.checked_sub(2)?;
    Some((high.checked_sub(length)?, high))
}

/// So many ranges below `low`, still encoded.
#[inline(never)]
fn further<'a>(mut low: u64, count: u64, r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let start = *r;
    for _ in 0..count {
        (low, _) = below(low, r).ok_or(Malformed("ACK range below zero or cut off"))?;
    }
    let used = start.remaining() - r.remaining();
    Ok(&start.rest()[..used])
}

impl<'a> AckFrame<'a> {
    #[inline]
    pub(super) fn decode(path: bool, ecn: bool, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let path = if path { Some(r.varint()?) } else { None };
        let largest = r.varint()?;
        let delay = r.varint()?;
        let count = r.varint()?;
        let first = r.varint()?;
        // A range takes two bytes at least: a larger count is a lie, found out before any work.
        if count > (r.remaining() / 2) as u64 {
            return Err(Malformed("more ACK ranges than bytes"));
        }
        //= specs/rfc9000.txt#section-19.3.1
        //# If any computed packet number is negative, an endpoint MUST generate a connection error
        //# of type FRAME_ENCODING_ERROR.
        let low = largest
            .checked_sub(first)
            .ok_or(Malformed("ACK range below zero"))?;
        let rest = if count == 0 {
            &[]
        } else {
            further(low, count, r)?
        };
        let blocks = AckBlocks {
            largest,
            first,
            rest,
        };
        let ecn = if ecn {
            Some(EcnCounts {
                ect0: r.varint()?,
                ect1: r.varint()?,
                ce: r.varint()?,
            })
        } else {
            None
        };
        Ok(Self {
            path,
            largest,
            delay,
            blocks,
            ecn,
        })
    }

    /// The frame type on the wire.
    pub const fn ty(&self) -> u64 {
        match (self.path.is_some(), self.ecn.is_some()) {
            (false, false) => types::ACK,
            (false, true) => types::ACK_ECN,
            (true, false) => types::PATH_ACK,
            (true, true) => types::PATH_ACK_ECN,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        varint::put(buf, self.ty());
        if let Some(path) = self.path {
            varint::put(buf, path);
        }
        varint::put(buf, self.largest);
        varint::put(buf, self.delay);
        varint::put(buf, self.blocks.iter().count() as u64 - 1);
        varint::put(buf, self.blocks.first);
        buf.extend_from_slice(self.blocks.rest);
        put_ecn(buf, self.ecn);
    }

    /// Bytes that the frame takes.
    #[inline]
    pub fn size(&self) -> usize {
        varint::size(self.ty())
            + self.path.map_or(0, varint::size)
            + varint::size(self.largest)
            + varint::size(self.delay)
            + varint::size(self.blocks.iter().count() as u64 - 1)
            + varint::size(self.blocks.first)
            + self.blocks.rest.len()
            + self.ecn.map_or(0, |ecn| ecn.size())
    }
}

#[inline]
fn put_ecn(buf: &mut Vec<u8>, ecn: Option<EcnCounts>) {
    if let Some(ecn) = ecn {
        varint::put(buf, ecn.ect0);
        varint::put(buf, ecn.ect1);
        varint::put(buf, ecn.ce);
    }
}

/// The most ranges that [`encode_ack`] writes below the first: their count takes one byte then,
/// and is patched in, so that the ranges are walked once.
const MAX_FURTHER_RANGES: u8 = 63;

/// Appends an ACK (`path` is `None`) or PATH_ACK frame of at most `limit` bytes.
///
/// `ranges` descend, and neither overlap nor touch. As many as fit are written, newest first, 64 at
/// most. Returns the smallest packet number written; `None`, with `buf` as it was, if not even the
/// first range fits or there is none.
pub fn encode_ack(
    buf: &mut Vec<u8>,
    path: Option<PathId>,
    delay: u64,
    ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
    ecn: Option<EcnCounts>,
    limit: usize,
) -> Option<u64> {
    let mut ranges = ranges.into_iter();
    let newest = ranges.next()?;
    let (mut low, largest) = newest.into_inner();
    let first = largest.checked_sub(low)?;
    let ty = match (path.is_some(), ecn.is_some()) {
        (false, false) => types::ACK,
        (false, true) => types::ACK_ECN,
        (true, false) => types::PATH_ACK,
        (true, true) => types::PATH_ACK_ECN,
    };
    // Nearly always there is room whatever it takes.
    if limit < MAX_FIXED && limit < fixed_size(ty, path, largest, delay, first, ecn) {
        return None;
    }
    let start = buf.len();
    varint::put(buf, ty);
    if let Some(path) = path {
        varint::put(buf, path.0.into());
    }
    varint::put(buf, largest);
    varint::put(buf, delay);
    let count_at = buf.len();
    buf.push(0);
    varint::put(buf, first);
    // Mostly there is one range.
    if let Some(second) = ranges.next() {
        let ranges = std::iter::once(second).chain(ranges);
        let left = limit.saturating_sub(buf.len() - start);
        (buf[count_at], low) = put_further(buf, low, ranges, left, ecn);
    }
    put_ecn(buf, ecn);
    Some(low)
}

/// Bytes of an ACK frame of one range, at most.
const MAX_FIXED: usize = 65;

/// Bytes of an ACK frame of one range.
#[cold]
fn fixed_size(
    ty: u64,
    path: Option<PathId>,
    largest: u64,
    delay: u64,
    first: u64,
    ecn: Option<EcnCounts>,
) -> usize {
    varint::size(ty)
        + path.map_or(0, |path| varint::size(path.0.into()))
        + varint::size(largest)
        + varint::size(delay)
        + 1
        + varint::size(first)
        + ecn.map_or(0, |ecn| ecn.size())
}

/// Appends as many of the ranges below `low` as fit into `left` bytes with what follows. Their number, and the lowest packet
/// number in them.
#[inline(never)]
fn put_further(
    buf: &mut Vec<u8>,
    mut low: u64,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    left: usize,
    ecn: Option<EcnCounts>,
) -> (u8, u64) {
    let mut left = left.saturating_sub(ecn.map_or(0, |ecn| ecn.size()));
    let mut count = 0;
    for range in ranges {
        if count == MAX_FURTHER_RANGES {
            break;
        }
        let (start, end) = range.into_inner();
        let Some(gap) = low.checked_sub(end).and_then(|d| d.checked_sub(2)) else {
            debug_assert!(false, "ACK ranges overlap or touch");
            break;
        };
        let Some(length) = end.checked_sub(start) else {
            break;
        };
        let size = varint::size(gap) + varint::size(length);
        if size > left {
            break;
        }
        left -= size;
        varint::put(buf, gap);
        varint::put(buf, length);
        low = start;
        count += 1;
    }
    (count, low)
}
