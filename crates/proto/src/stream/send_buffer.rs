//! The bytes of a stream from the first unacknowledged one on.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::block::{BLOCK, Pool, SMALLEST};

/// Writes below this size are copied together rather than kept as they came.
const COALESCE: usize = 1024;

/// First writes below this size get a block of their own size rather than a full one.
const SMALL: usize = 4096;

/// The list of a stream that is over serves another one if it has room for no more.
const KEPT_SEGMENTS: usize = 4;

#[derive(Debug)]
enum Block {
    /// Handed over by the application.
    Shared(Bytes),
    /// Copied; room may be left at its end.
    Owned(BytesMut),
    /// The same with memory that began as that of a small write. It may have grown to a block, but no pool has given it: each burst of
    /// small writes would leave one more there.
    Small(BytesMut),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Owned(bytes) | Self::Small(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
struct Segment {
    start: u64,
    block: Block,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.block.bytes().len() as u64
    }
}

/// What was written and may have to be sent (again).
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    segments: VecDeque<Segment>,
    /// The first byte that is kept.
    base: u64,
    /// One past the last byte written.
    end: u64,
    /// The segment read last: sending goes forward.
    hint: usize,
}

impl SendBuffer {
    /// One past the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes kept.
    pub(super) fn len(&self) -> u64 {
        self.end - self.base
    }

    /// Appends a copy of `data`.
    pub(super) fn write(&mut self, mut data: &[u8], pool: &mut Pool) {
        // What fits the last segment, and then new ones.
        while !data.is_empty() {
            match self.segments.back_mut() {
                Some(Segment {
                    block: Block::Owned(tail) | Block::Small(tail),
                    ..
                }) if tail.len() < BLOCK => {
                    let (now, later) = data.split_at(data.len().min(BLOCK - tail.len()));
                    tail.extend_from_slice(now);
                    self.end += now.len() as u64;
                    data = later;
                }
                _ => self.add_segment(data.len(), pool),
            }
        }
    }

    /// An empty segment at the end, for so many bytes.
    fn add_segment(&mut self, bytes: usize, pool: &mut Pool) {
        let block = if self.segments.is_empty() && bytes < SMALL {
            let free = (bytes <= SMALLEST).then(|| pool.take_small()).flatten();
            let mut block = free.unwrap_or_else(|| BytesMut::with_capacity(bytes));
            block.clear();
            Block::Small(block)
        } else {
            let mut block = pool
                .take()
                .unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
            block.clear();
            Block::Owned(block)
        };
        self.segments.push_back(Segment {
            start: self.end,
            block,
        });
    }

    /// Appends `data` itself, or a copy if it is small.
    pub(super) fn push(&mut self, data: Bytes, pool: &mut Pool) {
        if data.len() < COALESCE {
            self.write(&data, pool);
            return;
        }
        let start = self.end;
        self.end += data.len() as u64;
        self.segments.push_back(Segment {
            start,
            block: Block::Shared(data),
        });
    }

    /// Forgets what lies before `to`.
    pub(super) fn release(&mut self, to: u64, pool: &mut Pool) {
        let to = to.min(self.end);
        if to <= self.base {
            return;
        }
        self.base = to;
        while let Some(first) = self.segments.front() {
            if first.end() > to {
                break;
            }
            match self.segments.pop_front().map(|segment| segment.block) {
                Some(Block::Owned(block)) => pool.give(block),
                Some(Block::Small(block)) if block.capacity() == SMALLEST => pool.give(block),
                _ => {}
            }
            self.hint = self.hint.saturating_sub(1);
        }
    }

    /// Appends the bytes from `start` to `end`, which must be kept, to `out`.
    //= specs/rfc9000.txt#section-2.2
    //# The data at a given offset MUST NOT change if it is sent multiple times; an endpoint MAY
    //# treat receipt of different data at the same offset within a stream as a connection error of
    //# type PROTOCOL_VIOLATION.
    pub(super) fn copy_to(&mut self, mut start: u64, end: u64, out: &mut Vec<u8>) {
        debug_assert!(self.base <= start && end <= self.end);
        let mut at = self.hint;
        let near = self
            .segments
            .get(at)
            .is_some_and(|s| s.start <= start && start < s.end());
        if !near {
            at = self.segments.partition_point(|s| s.end() <= start);
        }
        while start < end {
            let Some(segment) = self.segments.get(at) else {
                return;
            };
            let from = (start - segment.start) as usize;
            let bytes = segment.block.bytes();
            let n = (bytes.len() - from).min((end - start) as usize);
            out.extend_from_slice(&bytes[from..from + n]);
            self.hint = at;
            start += n as u64;
            at += 1;
        }
    }

    /// As if nothing had ever been written. All of it was released.
    pub(super) fn renew(&mut self) {
        let Self {
            segments,
            base,
            end,
            hint,
        } = self;
        debug_assert!(segments.is_empty());
        (*base, *end, *hint) = (0, 0, 0);
    }

    /// Whether it holds no memory but a short list, what the first segment allocates.
    pub(super) fn is_lean(&self) -> bool {
        self.segments.is_empty() && self.segments.capacity() <= KEPT_SEGMENTS
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        self.release(self.end, pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(from: u64, len: usize) -> Vec<u8> {
        (from..from + len as u64).map(|i| (i % 251) as u8).collect()
    }

    //= specs/rfc9000.txt#section-2.2
    //= type=test
    //# The data at a given offset MUST NOT change if it is sent multiple times; an endpoint MAY
    //# treat receipt of different data at the same offset within a stream as a connection error of
    //# type PROTOCOL_VIOLATION.
    #[test]
    fn keeps_bytes_across_segments_of_all_kinds() {
        let mut pool = Pool::default();
        let mut buffer = SendBuffer::default();
        for (i, len) in [10, 3000, 20_000, 100, 70_000, 5, 1024]
            .into_iter()
            .enumerate()
        {
            let data = pattern(buffer.end(), len);
            if i % 2 == 0 {
                buffer.write(&data, &mut pool);
            } else {
                buffer.push(data.into(), &mut pool);
            }
        }
        let end = buffer.end();
        let mut at = 0;
        while at < end {
            let to = (at + 1200).min(end);
            let mut out = Vec::new();
            buffer.copy_to(at, to, &mut out);
            assert_eq!(out, pattern(at, (to - at) as usize));
            if at > 30_000 {
                buffer.release(at - 30_000, &mut pool);
                let mut out = Vec::new();
                buffer.copy_to(at - 30_000, at - 29_000, &mut out);
                assert_eq!(out, pattern(at - 30_000, 1000));
            }
            at = to;
        }
        buffer.clear(&mut pool);
        assert_eq!(buffer.len(), 0);
        assert!(pool.take().is_some());
    }

    /// Each burst begins with a segment of its own size.
    #[test]
    fn bursts_of_small_writes_leave_no_more_blocks_than_one_needs() {
        let mut pool = Pool::default();
        let mut buffer = SendBuffer::default();
        for _ in 0..50 {
            for _ in 0..1000 {
                buffer.write(&[7; 24], &mut pool);
            }
            let end = buffer.end();
            buffer.release(end, &mut pool);
        }
        assert!(pool.memory() <= 2 * BLOCK, "{}", pool.memory());
    }

    #[test]
    fn small_writes_share_a_segment() {
        let mut pool = Pool::default();
        let mut buffer = SendBuffer::default();
        for _ in 0..1000 {
            buffer.push(Bytes::from_static(b"0123456789"), &mut pool);
        }
        assert_eq!(buffer.segments.len(), 1);
        assert_eq!(buffer.len(), 10_000);
    }
}
