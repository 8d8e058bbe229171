//! Puts received stream data in order; knows neither flow control nor final sizes.
//!
//! Data is copied to its offset into blocks of fixed size, so that memory follows the highest
//! offset received (which flow control bounds) and not the number or size of frames. Which bytes
//! of a block arrived out of order is kept per block: inserting costs the same however many gaps
//! the rest of the stream has. In-order data touches no range at all.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::SmallVec;

use super::pool::{BLOCK, Pool};

const BLOCK_U64: u64 = BLOCK as u64;

/// The smallest memory for the first block of a stream.
const SMALLEST: usize = 1024;

/// A received range within a block. Eight of them inline: a block holds no more than that many
/// full-size packets with gaps between.
type Ranges = SmallVec<[(u16, u16); 8]>;

#[derive(Debug, Default)]
struct Slot {
    data: Vec<u8>,
    /// Received ranges beyond the frontier, ascending, apart from each other.
    ranges: Ranges,
}

impl Slot {
    fn starts_full(&self) -> bool {
        self.ranges.first().is_some_and(|r| r.0 == 0)
    }

    fn ends_full(&self) -> bool {
        self.ranges
            .last()
            .is_some_and(|r| usize::from(r.1) == BLOCK)
    }

    /// Adds a range; how many bytes of it are new.
    fn add(&mut self, start: u16, end: u16) -> u64 {
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
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..first + count);
        }
        u64::from(merged.1 - merged.0) - known
    }

    /// Makes room for the bytes up to `end`.
    fn reserve(&mut self, end: usize, first_of_stream: bool, pool: &mut Pool) {
        if self.data.len() >= end {
            return;
        }
        if self.data.is_empty()
            && let Some(block) = pool.take()
        {
            self.data = block;
        }
        // A stream that never outgrows its first block needs no full one.
        let size = if first_of_stream && self.data.capacity() < BLOCK {
            end.next_power_of_two().clamp(SMALLEST, BLOCK)
        } else {
            BLOCK
        };
        if self.data.capacity() == 0 {
            self.data = vec![0; size];
        } else {
            self.data.resize(size.max(self.data.len()), 0);
        }
    }
}

/// The receive buffer of one stream.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    slots: VecDeque<Slot>,
    /// The number of the first slot's block.
    first_block: u64,
    /// Everything before was read.
    read: u64,
    /// Everything before was received.
    frontier: u64,
    /// Separate received ranges beyond the frontier: as many gaps.
    gaps: usize,
    /// Bytes received beyond the frontier.
    out_of_order: u64,
}

impl Assembler {
    /// Bytes in order and not read.
    pub(super) fn readable(&self) -> u64 {
        self.frontier - self.read
    }

    /// One past the last byte received in order.
    pub(super) fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Gaps in what was received.
    pub(super) fn gaps(&self) -> usize {
        self.gaps
    }

    /// Bytes received beyond the first gap.
    pub(super) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Bytes received and not read.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> u64 {
        self.readable() + self.out_of_order
    }

    /// Takes in data. True if more can be read in order than before.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> bool {
        let end = offset + data.len() as u64;
        if end <= self.frontier || data.is_empty() {
            return false;
        }
        let start = offset.max(self.frontier);
        let data = &data[(start - offset) as usize..];
        if start > self.frontier {
            self.insert_ahead(start, data, pool);
            return false;
        }
        self.copy_in(start, data, pool);
        if self.gaps > 0 {
            self.mark(start, end);
            self.absorb();
        } else {
            self.frontier = end;
        }
        true
    }

    fn insert_ahead(&mut self, start: u64, data: &[u8], pool: &mut Pool) {
        self.copy_in(start, data, pool);
        self.mark(start, start + data.len() as u64);
    }

    fn copy_in(&mut self, mut start: u64, mut data: &[u8], pool: &mut Pool) {
        while !data.is_empty() {
            let block = start / BLOCK_U64;
            let from = (start % BLOCK_U64) as usize;
            let n = data.len().min(BLOCK - from);
            let at = (block - self.first_block) as usize;
            if at >= self.slots.len() {
                self.slots.resize_with(at + 1, Slot::default);
            }
            let slot = &mut self.slots[at];
            slot.reserve(from + n, block == 0, pool);
            slot.data[from..from + n].copy_from_slice(&data[..n]);
            data = &data[n..];
            start += n as u64;
        }
    }

    /// Records the range from `start` to `end`, whose slots exist, as received.
    fn mark(&mut self, start: u64, end: u64) {
        let first = (start / BLOCK_U64 - self.first_block) as usize;
        let last = ((end - 1) / BLOCK_U64 - self.first_block) as usize;
        let before = self.pieces(first, last);
        for at in first..=last {
            let base = (self.first_block + at as u64) * BLOCK_U64;
            let from = start.saturating_sub(base) as u16;
            let to = (end - base).min(BLOCK_U64) as u16;
            self.out_of_order += self.slots[at].add(from, to);
        }
        // May fall as well as rise.
        self.gaps = self.gaps + self.pieces(first, last) - before;
    }

    /// How many ranges the slots add to the total, where ranges that meet at the border of two
    /// blocks are one. One too many for each joined border, kept positive for the difference.
    fn pieces(&self, first: usize, last: usize) -> usize {
        let ranges: usize = (first..=last).map(|at| self.slots[at].ranges.len()).sum();
        let borders = last + 2 - first;
        let joined = (first..=last + 1)
            .filter(|&border| {
                border > 0
                    && self.slots[border - 1].ends_full()
                    && self.slots.get(border).is_some_and(Slot::starts_full)
            })
            .count();
        ranges + borders - joined
    }

    /// Moves the frontier over the received range that begins at it.
    fn absorb(&mut self) {
        self.gaps -= 1;
        loop {
            let at = (self.frontier / BLOCK_U64 - self.first_block) as usize;
            let Some(slot) = self.slots.get_mut(at) else {
                return;
            };
            let from = (self.frontier % BLOCK_U64) as u16;
            match slot.ranges.first() {
                Some(&(start, end)) if start == from => {
                    slot.ranges.remove(0);
                    self.frontier += u64::from(end - start);
                    self.out_of_order -= u64::from(end - start);
                    if usize::from(end) < BLOCK {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Moves bytes in order into `buf`.
    //= specs/rfc9000.txt#section-2.2
    //# Endpoints MUST be able to deliver stream data to an application as an ordered byte stream.
    pub(super) fn read(&mut self, buf: &mut [u8], pool: &mut Pool) -> usize {
        let mut done = 0;
        while done < buf.len() && self.read < self.frontier {
            let from = (self.read % BLOCK_U64) as usize;
            let n = (buf.len() - done)
                .min(BLOCK - from)
                .min(self.readable() as usize);
            buf[done..done + n].copy_from_slice(&self.slots[0].data[from..from + n]);
            done += n;
            self.advance(n as u64, pool);
        }
        done
    }

    /// Takes out up to `max` bytes in order; a whole block without copying, if it is one.
    pub(super) fn read_chunk(&mut self, max: usize, pool: &mut Pool) -> Bytes {
        let n = (self.readable().min(max as u64)) as usize;
        if n >= BLOCK && self.read.is_multiple_of(BLOCK_U64) {
            let block = std::mem::take(&mut self.slots[0].data);
            self.advance(BLOCK_U64, pool);
            return block.into();
        }
        // Up to the border of a block, so that the next call can hand out that block.
        let n = n.min(BLOCK - (self.read % BLOCK_U64) as usize);
        let mut out = vec![0; n];
        self.read(&mut out, pool);
        out.into()
    }

    fn advance(&mut self, n: u64, pool: &mut Pool) {
        self.read += n;
        if self.read.is_multiple_of(BLOCK_U64) {
            if let Some(slot) = self.slots.pop_front() {
                pool.give(slot.data);
            }
            self.first_block += 1;
        } else if self.read == self.frontier
            && let Some(slot) = self.slots.front_mut()
            && slot.ranges.is_empty()
        {
            // Nothing of the block is needed: a stream at rest holds no memory.
            pool.give(std::mem::take(&mut slot.data));
        }
    }

    /// Drops everything; nothing will be inserted or read any more.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        for slot in self.slots.drain(..) {
            pool.give(slot.data);
        }
        self.slots = VecDeque::new();
        self.read = self.frontier;
        self.gaps = 0;
        self.out_of_order = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::max_stream_gaps;

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    fn bytes(start: u64, len: u64) -> Vec<u8> {
        (start..start + len).map(byte).collect()
    }

    fn gaps_of(received: &[bool], frontier: usize) -> usize {
        let mut gaps = 0;
        for at in frontier..received.len() {
            if received[at] && at > 0 && !received[at - 1] {
                gaps += 1;
            }
        }
        gaps
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Any frames in any order: what is read is what was sent, and the counts are right.
        //= specs/rfc9000.txt#section-2.2
        //= type=test
        //# Endpoints MUST be able to deliver stream data to an application as an ordered byte
        //# stream.
        #[test]
        fn same_as_a_plain_array(
            ops in prop::collection::vec((0u64..50_000, 1u64..3_000, 0usize..4, 1usize..40_000), 1..120),
        ) {
            let mut pool = Pool::default();
            let mut a = Assembler::default();
            let mut received = vec![false; 60_000];
            let mut expect = 0u64;
            for (offset, len, how, size) in ops {
                let before = a.frontier();
                let more = a.insert(offset, &bytes(offset, len), &mut pool);
                received[offset as usize..(offset + len) as usize].fill(true);
                let frontier = received.iter().position(|r| !r).unwrap();
                prop_assert_eq!(a.frontier(), frontier as u64);
                prop_assert_eq!(more, a.frontier() > before);
                prop_assert_eq!(a.gaps(), gaps_of(&received, frontier));
                let beyond = received[frontier..].iter().filter(|r| **r).count();
                prop_assert_eq!(a.out_of_order(), beyond as u64);
                let got = match how {
                    0 => {
                        let mut buf = vec![0; size];
                        let n = a.read(&mut buf, &mut pool);
                        buf.truncate(n);
                        buf
                    }
                    1 => a.read_chunk(size, &mut pool).to_vec(),
                    _ => Vec::new(),
                };
                prop_assert_eq!(&got, &bytes(expect, got.len() as u64));
                expect += got.len() as u64;
            }
        }
    }

    #[test]
    fn memory_follows_the_offset_not_the_frames() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        for at in (1..1 << 20).step_by(2) {
            a.insert(at, &[byte(at)], &mut pool);
        }
        assert_eq!(a.gaps(), 1 << 19);
        let held: usize = a.slots.iter().map(|s| s.data.capacity()).sum();
        assert!(held <= (1 << 20) + BLOCK, "{held}");
    }

    #[test]
    fn an_idle_or_small_stream_holds_little() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        a.insert(0, &bytes(0, 100), &mut pool);
        assert_eq!(a.slots[0].data.capacity(), SMALLEST);
        let mut buf = [0; 200];
        assert_eq!(a.read(&mut buf, &mut pool), 100);
        assert_eq!(a.slots[0].data.capacity(), 0);
    }

    #[test]
    fn whole_blocks_are_handed_out_and_others_recycled() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        a.insert(0, &bytes(0, 40_000), &mut pool);
        let first = a.read_chunk(usize::MAX, &mut pool);
        assert_eq!(first.len(), BLOCK);
        let mut buf = vec![0; 30_000];
        assert_eq!(a.read(&mut buf, &mut pool), 40_000 - BLOCK);
        assert!(pool.take().is_some());
    }

    /// 16 MiB windows, packets alternating, one path 8 MiB behind the other.
    #[test]
    fn healthy_alternation_of_unequal_paths_stays_far_from_the_cap() {
        const WINDOW: u64 = 16 << 20;
        const LAG: u64 = 8 << 20;
        const PACKET: u64 = 1200;
        let data = bytes(0, PACKET);
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        let (mut most, mut blocks) = (0, 0);
        let mut buf = vec![0; 64 * 1024];
        for n in 0..2 * (32 << 20) / PACKET / 2 {
            a.insert(2 * n * PACKET, &data, &mut pool);
            if let Some(slow) = (2 * n * PACKET).checked_sub(LAG) {
                a.insert(slow / PACKET * PACKET + PACKET, &data, &mut pool);
                a.insert(slow / PACKET * PACKET, &data, &mut pool);
            }
            while a.readable() > 0 {
                a.read(&mut buf, &mut pool);
            }
            most = most.max(a.gaps());
            blocks = blocks.max(a.slots.len());
            assert!(a.gaps() < max_stream_gaps(WINDOW) / 4);
        }
        assert!(
            most > 1024,
            "the case is not the one that broke others: {most}"
        );
        assert!((blocks as u64) < (LAG + (1 << 20)) / BLOCK_U64);
    }
}
