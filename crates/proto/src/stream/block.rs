//! Blocks of bytes: the free ones, which both directions use again, and one of a receive buffer, with its bytes at their
//! places, or close together while they are few.
//!
//! Offsets in a block of a receive buffer are those within it. Bytes in order, from `floor` (the first that was not
//! read) to `front` (the first that was not received), are the caller's knowledge; bytes beyond
//! them are in `ranges`. A packed block has the former and then the latter without the gaps between,
//! so that few bytes that came far apart take little memory.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

/// Bytes in one block: a dozen packets, so that the cost of handling a block vanishes.
pub(super) const BLOCK: usize = 16 * 1024;

/// Blocks kept while streams are open: 4 MiB.
const KEEP_BUSY: usize = 256;

/// Blocks that the application has and that are kept in view: 1 MiB. One that reads ahead of what it has dealt with by more
/// leaves the rest to the allocator.
const KEEP_LENT: usize = 64;

/// Free blocks kept while no stream is open: 32 KiB. A request that needs more of them costs an allocation for each, which is
/// little beside the dozen packets that fill it.
const KEEP_IDLE: usize = 2;

/// Free blocks of the [`SMALLEST`] size kept: one for a request and one for its answer.
const KEEP_SMALL: usize = 2;

/// Blocks that are free for reuse, so that a steady transfer allocates none.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: Vec<BytesMut>,
    /// Of the [`SMALLEST`] size, so that small requests one after another allocate none either.
    small: Vec<BytesMut>,
    /// The empty ends of blocks whose bytes the application has, oldest first: once it has dropped them, the end is the last
    /// handle of the block and can have all of it.
    lent: VecDeque<BytesMut>,
}

impl Pool {
    /// A free block; its length and contents are anything, its capacity at least [`BLOCK`].
    pub(super) fn take(&mut self) -> Option<BytesMut> {
        self.free.pop().or_else(|| self.reclaim_oldest())
    }

    /// A free block whose capacity is [`SMALLEST`]; its length and contents are anything.
    pub(super) fn take_small(&mut self) -> Option<BytesMut> {
        self.small.pop()
    }

    /// The block that was lent first, if it is free. If it is not, others hardly are; and a chunk that somebody keeps for good
    /// is forgotten after [`KEEP_LENT`] others.
    fn reclaim_oldest(&mut self) -> Option<BytesMut> {
        match self.lent.front_mut()?.try_reclaim(BLOCK) {
            true => self.lent.pop_front(),
            false => None,
        }
    }

    /// The block that was lent last, if it is free.
    fn reclaim_newest(&mut self) -> Option<BytesMut> {
        match self.lent.back_mut()?.try_reclaim(BLOCK) {
            true => self.lent.pop_back(),
            false => None,
        }
    }

    /// Gives a block back; those that are neither of full size nor of the smallest are dropped.
    pub(super) fn give(&mut self, block: BytesMut) {
        if block.capacity() >= BLOCK {
            if self.kept() < KEEP_BUSY {
                self.free.push(block);
            }
        } else if block.capacity() == SMALLEST && self.small.len() < KEEP_SMALL {
            self.small.push(block);
        }
    }

    /// The application is given bytes of a block of full size: this is its end, which they were split from.
    pub(super) fn lend(&mut self, mut end: BytesMut) {
        // Who takes chunk after chunk has mostly dropped the last one, whose memory is still in the processor's cache.
        if let Some(block) = self.reclaim_newest() {
            self.free.push(block);
        }
        if self.lent.len() >= KEEP_LENT {
            // It is freed with the last chunk of it.
            self.lent.pop_front();
        } else if self.kept() >= KEEP_BUSY {
            self.free.pop();
        }
        end.clear();
        self.lent.push_back(end);
    }

    fn kept(&self) -> usize {
        self.free.len() + self.lent.len()
    }

    /// Bytes of the blocks, those that the application has included.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let free: usize = self.free.iter().map(BytesMut::capacity).sum();
        free + self.small.len() * SMALLEST + self.lent.len() * BLOCK
    }

    /// No stream is open: keep little.
    pub(super) fn trim(&mut self) {
        while self.free.len() < KEEP_IDLE
            && let Some(block) = self.reclaim_newest()
        {
            self.free.push(block);
        }
        if self.lent.capacity() > 0 {
            self.lent = VecDeque::new();
        }
        if self.free.capacity() > KEEP_IDLE {
            self.free.truncate(KEEP_IDLE);
            self.free.shrink_to(KEEP_IDLE);
        }
    }
}

/// The smallest memory for the first block of a stream.
pub(super) const SMALLEST: usize = 1024;

/// A block whose memory is so many times its bytes is worth packing.
pub(super) const SPREAD: usize = 4;

/// A received range within a block. Eight of them inline: a block holds no more than that many
/// full-size packets with gaps between.
type Ranges = SmallVec<[(u16, u16); 8]>;

/// The bytes in order that a block has: from the first not read to the first not received.
#[derive(Debug, Clone, Copy)]
pub(super) struct InOrder {
    pub(super) floor: usize,
    pub(super) front: usize,
}

impl InOrder {
    const fn len(self) -> usize {
        self.front.saturating_sub(self.floor)
    }
}

/// What speaks for memory of full size for a block with few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The new bytes follow all that came before.
    Follows,
    /// The stream as a whole holds enough.
    Covered,
    Neither,
}

/// Bytes of a stream whose offsets have all but the last 14 bits in common.
#[derive(Debug, Default)]
pub(super) struct Block {
    data: BytesMut,
    /// Received ranges beyond the frontier, ascending, apart from each other.
    ranges: Ranges,
    packed: bool,
    /// Where the first byte of `data` belongs, if they are at their places: all before it was read when memory was taken.
    begin: u16,
    /// Has memory of its full size while no byte of it is in order.
    pub(super) ahead: bool,
}

impl Block {
    pub(super) fn starts_full(&self) -> bool {
        self.ranges.first().is_some_and(|r| r.0 == 0)
    }

    pub(super) fn ends_full(&self) -> bool {
        self.ranges
            .last()
            .is_some_and(|r| usize::from(r.1) == BLOCK)
    }

    pub(super) fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    pub(super) const fn is_packed(&self) -> bool {
        self.packed
    }

    /// Bytes of memory for data.
    pub(super) fn memory(&self) -> usize {
        self.data.capacity()
    }

    /// Bytes of memory for ranges that are too many to be inline.
    #[cfg(test)]
    pub(super) fn spilled(&self) -> usize {
        if self.ranges.spilled() {
            self.ranges.capacity() * size_of::<(u16, u16)>()
        } else {
            0
        }
    }

    /// Bytes beyond the frontier.
    fn beyond(&self) -> usize {
        let bytes = self.ranges.iter().map(|r| usize::from(r.1 - r.0));
        bytes.sum()
    }

    /// Adds a range; how many bytes of it are new.
    pub(super) fn add(&mut self, start: u16, end: u16) -> u64 {
        // The ranges from `first` to before `last` touch or overlap the new one.
        let first = self.ranges.partition_point(|r| r.1 < start);
        let touching = self.ranges[first..].iter().take_while(|r| r.0 <= end);
        let (mut merged, mut known, mut count) = ((start, end), 0, 0);
        for r in touching {
            merged = (merged.0.min(r.0), merged.1.max(r.1));
            known += u64::from(r.1 - r.0);
            count += 1;
        }
        if count == 0 {
            self.make_room_for_a_range();
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..first + count);
        }
        u64::from(merged.1 - merged.0) - known
    }

    /// Grows by an eighth, not to twice as many: of single bytes with gaps of one, which use two bytes of credit each, the ranges take
    /// more memory than the bytes. To insert one moves half of them anyway.
    fn make_room_for_a_range(&mut self) {
        let len = self.ranges.len();
        if len == self.ranges.capacity() {
            self.ranges.reserve_exact((len / 8).max(8));
        }
    }

    /// Takes out the first range, if it begins at `start`; where it ends.
    pub(super) fn take_first(&mut self, start: u16) -> Option<u16> {
        let end = self.ranges.first().filter(|r| r.0 == start)?.1;
        self.ranges.remove(0);
        Some(end)
    }

    /// The memory that the block needs with its bytes at their places up to `end`.
    fn full_size(&self, end: usize, is_first: bool) -> usize {
        if !is_first {
            return BLOCK;
        }
        // A stream that never outgrows its first block needs no full one.
        let last = self.ranges.last().map_or(0, |r| usize::from(r.1));
        end.max(last).next_power_of_two().clamp(SMALLEST, BLOCK)
    }

    /// Appends bytes that follow all that were received, if the block has nothing or room for them; if not, false: they are to be
    /// [`put`](Self::put). `is_first`: of the stream.
    pub(super) fn append(
        &mut self,
        from: usize,
        data: &[u8],
        is_first: bool,
        pool: &mut Pool,
    ) -> bool {
        let to = from + data.len();
        if self.packed {
            return false;
        }
        if self.room() < to {
            if self.data.capacity() > 0 {
                return false;
            }
            let size = self.full_size(to, is_first);
            self.data = Self::start(size, pool);
            self.begin = from as u16;
        }
        self.write(from, data);
        true
    }

    /// Up to which place there is memory for bytes at their places.
    fn room(&self) -> usize {
        usize::from(self.begin) + self.data.capacity()
    }

    /// Where the byte of a place lies, if they are at their places. None before `begin` is asked for.
    fn at(&self, place: usize) -> usize {
        place.saturating_sub(self.begin.into())
    }

    /// Puts bytes at their places, for which there is room.
    fn write(&mut self, from: usize, data: &[u8]) {
        let at = self.at(from);
        if at == self.data.len() {
            self.data.extend_from_slice(data);
        } else if let Some(place) = self.data.get_mut(at..at + data.len()) {
            // Memory that was used before.
            place.copy_from_slice(data);
        } else {
            self.put_at(at, data);
        }
    }

    /// Memory for bytes up to `size`.
    #[inline(never)]
    fn start(size: usize, pool: &mut Pool) -> BytesMut {
        // Zeroed only where bytes come later: most blocks are filled from front to back.
        let free = pool.take().or_else(|| {
            let small = size <= SMALLEST;
            small.then(|| pool.take_small()).flatten()
        });
        free.unwrap_or_else(|| BytesMut::with_capacity(size))
    }

    /// Puts bytes in that begin at `from`, at or beyond the frontier. `is_first`: of the stream.
    pub(super) fn put(
        &mut self,
        from: usize,
        data: &[u8],
        in_order: InOrder,
        is_first: bool,
        why: Why,
        pool: &mut Pool,
    ) {
        let to = from + data.len();
        let has_room = !self.packed && self.room() >= to;
        if !has_room && !self.make_room(from, to, in_order, is_first, why, pool) {
            return self.put_packed(from, data, in_order);
        }
        self.write(from, data);
    }

    /// Makes room for bytes at their places, or packs all that there are, which is false.
    #[inline(never)]
    fn make_room(
        &mut self,
        from: usize,
        to: usize,
        in_order: InOrder,
        is_first: bool,
        why: Why,
        pool: &mut Pool,
    ) -> bool {
        let size = self.full_size(to, is_first);
        let bytes = in_order.len() + self.beyond() + (to - from);
        let may_spread = match why {
            // All bytes before these came at some time.
            Why::Follows => !is_first || size <= (2 * to).max(SMALLEST),
            Why::Covered => true,
            Why::Neither => false,
        };
        if size <= SPREAD * bytes || may_spread {
            self.spread(size, in_order, pool);
            return true;
        }
        self.pack(in_order, pool);
        false
    }

    /// Puts bytes in, for which there is room: not at the end of what was written so far.
    #[inline(never)]
    fn put_at(&mut self, at: usize, data: &[u8]) {
        if self.data.len() < at {
            self.data.resize(at, 0);
        }
        let (over, beyond) = data.split_at(data.len().min(self.data.len() - at));
        self.data[at..at + over.len()].copy_from_slice(over);
        self.data.extend_from_slice(beyond);
    }

    /// Brings all bytes to their places, in memory for the bytes up to `size`.
    fn spread(&mut self, size: usize, in_order: InOrder, pool: &mut Pool) {
        if !self.packed && self.data.capacity() > 0 {
            self.data.reserve(size.saturating_sub(self.data.len()));
            return;
        }
        let mut block = Self::start(size, pool);
        if self.packed {
            let mut at = 0;
            let front = (in_order.floor, in_order.front);
            let beyond = self.ranges.iter().map(|r| (r.0.into(), r.1.into()));
            for (start, end) in std::iter::once(front).chain(beyond) {
                let n = end.saturating_sub(start);
                if block.len() < start + n {
                    block.resize(start + n, 0);
                }
                block[start..start + n].copy_from_slice(&self.data[at..at + n]);
                at += n;
            }
        }
        self.data = block;
        self.packed = false;
    }

    /// Brings all bytes together, in memory for no more than them.
    pub(super) fn pack(&mut self, in_order: InOrder, pool: &mut Pool) {
        if self.packed {
            return;
        }
        let mut packed = BytesMut::with_capacity(in_order.len() + self.beyond());
        if !self.data.is_empty() {
            if in_order.len() > 0 {
                let bytes = self.at(in_order.floor)..self.at(in_order.front);
                packed.extend_from_slice(&self.data[bytes]);
            }
            for r in &self.ranges {
                let bytes = self.at(r.0.into())..self.at(r.1.into());
                packed.extend_from_slice(&self.data[bytes]);
            }
        }
        pool.give(std::mem::replace(&mut self.data, packed));
        self.begin = 0;
        self.packed = true;
    }

    /// Whether packing would free most of its memory.
    pub(super) fn is_sparse(&self) -> bool {
        !self.packed && self.data.capacity() > SPREAD * self.beyond()
    }

    /// Inserts those of the bytes that are not there.
    fn put_packed(&mut self, from: usize, data: &[u8], in_order: InOrder) {
        let to = from + data.len();
        let mut at = in_order.len();
        let mut pos = from;
        let mut insert = |at: usize, pos: usize, end: usize| {
            let (new, len) = (&data[pos - from..end - from], self.data.len());
            self.data.extend_from_slice(new);
            self.data.copy_within(at..len, at + new.len());
            self.data[at..at + new.len()].copy_from_slice(new);
        };
        for &(start, end) in &self.ranges {
            let (start, end) = (usize::from(start), usize::from(end));
            if start >= to || pos >= to {
                break;
            }
            if pos < start {
                insert(at, pos, start);
                at += start - pos;
            }
            at += end - start;
            pos = pos.max(end);
        }
        if pos < to {
            insert(at, pos, to);
        }
    }

    /// The bytes in order from `floor` on, at least those up to the frontier.
    pub(super) fn read_from(&self, floor: usize) -> &[u8] {
        let at = if self.packed { 0 } else { self.at(floor) };
        self.data.get(at..).unwrap_or_default()
    }

    /// So many bytes in order were read.
    pub(super) fn consume(&mut self, n: usize) {
        if self.packed {
            self.drop_first(n.min(self.data.len()));
        }
    }

    /// Removes the first bytes, and keeps their memory.
    fn drop_first(&mut self, n: usize) {
        self.data.copy_within(n.., 0);
        self.data.truncate(self.data.len() - n);
    }

    /// Whether so many bytes, which are the last ones that the block is needed for, are worth the memory of all of it until
    /// the application has dealt with them. It must not have few bytes of many blocks, and by that more than [`SPREAD`]
    /// times what came.
    pub(super) fn may_lend(&self, n: usize) -> bool {
        !self.packed && self.data.capacity() >= BLOCK && SPREAD * n >= BLOCK
    }

    /// Takes out all memory, with `n` bytes from `from` on for the application.
    pub(super) fn lend(&mut self, from: usize, n: usize, pool: &mut Pool) -> Bytes {
        let at = self.at(from);
        let mut end = self.take_data();
        let mut bytes = end.split_to(at + n);
        pool.lend(end);
        bytes.advance(at);
        bytes.freeze()
    }

    /// Takes out up to `max` bytes from where the first range begins, and where that is. There must be a range, and no
    /// bytes in order. Without copying, if no others are there.
    pub(super) fn take_out(&mut self, max: usize, pool: &mut Pool) -> (usize, Bytes) {
        let (start, end) = self.ranges[0];
        let (start, len) = (usize::from(start), usize::from(end - start));
        let n = len.min(max);
        if n < len {
            self.ranges[0].0 += n as u16;
        } else {
            self.ranges.remove(0);
        }
        if self.ranges.is_empty() && self.may_lend(n) {
            return (start, self.lend(start, n, pool));
        }
        let whole = self.data.len() == n && (self.packed || self.data.capacity() <= 2 * n);
        let bytes = if whole {
            self.take_data().freeze()
        } else if self.packed {
            let bytes = Bytes::copy_from_slice(&self.data[..n]);
            self.drop_first(n);
            if self.data.capacity() > SPREAD * self.data.len() {
                self.data = BytesMut::from(&self.data[..]);
            }
            bytes
        } else {
            let at = self.at(start);
            Bytes::copy_from_slice(&self.data[at..at + n])
        };
        (start, bytes)
    }

    /// Takes the memory out.
    pub(super) fn take_data(&mut self) -> BytesMut {
        self.packed = false;
        self.begin = 0;
        std::mem::take(&mut self.data)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// A block of which the application has all.
    fn lend(pool: &mut Pool, mut block: BytesMut) -> Bytes {
        block.resize(BLOCK, 0);
        let bytes = block.split_to(BLOCK - 5).freeze();
        pool.lend(block);
        bytes
    }

    #[test]
    fn a_block_is_free_when_the_application_has_dropped_it() {
        let mut pool = Pool::default();
        let chunk = lend(&mut pool, BytesMut::with_capacity(BLOCK));
        let place = chunk.as_ptr();
        let part = chunk.slice(100..200);
        drop(chunk);
        assert!(pool.take().is_none());
        drop(part);
        let block = pool.take().unwrap();
        assert_eq!((block.as_ptr(), block.len()), (place, 0));
        assert!(block.capacity() >= BLOCK);
        assert!(pool.take().is_none());
    }

    /// What the application keeps is not kept in view for ever, and does not hide what it has dropped.
    #[test]
    fn kept_chunks_are_forgotten() {
        let mut pool = Pool::default();
        let fresh = || BytesMut::with_capacity(BLOCK);
        let kept: Vec<_> = (0..3).map(|_| lend(&mut pool, fresh())).collect();
        for _ in 0..10 {
            // One that is dropped at once is used by the next.
            drop(lend(&mut pool, fresh()));
            assert!(pool.memory() <= (3 + 10) * BLOCK);
        }
        let more: Vec<_> = (0..2 * KEEP_LENT)
            .map(|_| lend(&mut pool, fresh()))
            .collect();
        assert_eq!(pool.lent.len(), KEEP_LENT);
        pool.free.clear();
        drop(more);
        for _ in 0..KEEP_LENT {
            assert!(pool.take().is_some());
        }
        assert!(pool.take().is_none());
        drop(kept);
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let mut pool = Pool::default();
        let fresh = || BytesMut::with_capacity(BLOCK);
        for _ in 0..2 * KEEP_BUSY {
            pool.give(fresh());
        }
        let chunks: Vec<_> = (0..KEEP_BUSY).map(|_| lend(&mut pool, fresh())).collect();
        assert_eq!(pool.kept(), KEEP_BUSY);
        drop(chunks);
        pool.trim();
        assert_eq!((pool.kept(), pool.lent.capacity()), (KEEP_IDLE, 0));
        // What the application has just dropped serves the next request.
        while pool.take().is_some() {}
        drop([lend(&mut pool, fresh()), lend(&mut pool, fresh())]);
        pool.trim();
        assert_eq!(pool.free.len(), KEEP_IDLE);
    }
}
