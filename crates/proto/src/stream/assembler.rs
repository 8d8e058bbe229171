//! Puts received stream data in order; knows neither flow control nor final sizes.
//!
//! Data is copied to its offset into blocks of fixed size, so that memory follows the highest
//! offset received (which flow control bounds) and not the number or size of frames. Nor does it
//! follow the offset alone: a block with few bytes has them packed (`block.rs`), so that what is held
//! is at most [`SPREAD`] times what was received. Which bytes of a block arrived out of order is kept
//! per block: inserting costs the same however many gaps the rest of the stream has. In-order data
//! touches no range at all.
//!
//! A stream that is read out of order has its data elsewhere from the first such read on (`unordered.rs`).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::block::{BLOCK, Block, InOrder, Pool, SPREAD, Why};
use super::unordered::Unordered;

const BLOCK_U64: u64 = BLOCK as u64;

/// Blocks with few bytes that are let be until a pass packs them all: a pass looks at every block.
const SLACK: usize = 4;

/// The list of a stream that is over serves another one if it has room for no more.
const KEPT_SLOTS: usize = 4;

/// What a stream's receive buffer adds to the sums over all streams, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Received beyond the first gap.
    pub(super) out_of_order: u64,
    /// Memory for data.
    pub(super) memory: u64,
}

/// The receive buffer of one stream.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    slots: VecDeque<Block>,
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
    /// Blocks beyond the frontier's that have memory of their full size.
    ahead: usize,
    /// Bytes of memory for data.
    held: usize,
    /// Once the stream is read out of order: everything. `frontier`, `gaps` and `held` say the same as it then, and the other
    /// fields are those of an empty stream.
    unordered: Option<Box<Unordered>>,
}

impl Assembler {
    /// Bytes that can be read: those in order, or all that are here if the stream is read out of order.
    pub(super) fn readable(&self) -> u64 {
        match &self.unordered {
            None => self.frontier - self.read,
            Some(unordered) => Self::unread(unordered),
        }
    }

    #[cold]
    #[inline(never)]
    fn unread(unordered: &Unordered) -> u64 {
        unordered.unread()
    }

    /// One past the last byte received in order.
    pub(super) fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Gaps in what was received.
    pub(super) fn gaps(&self) -> usize {
        self.gaps
    }

    /// Bytes that wait behind a gap: none if the stream is read out of order.
    pub(super) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Bytes of memory for data.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn is_unordered(&self) -> bool {
        self.unordered.is_some()
    }

    pub(super) fn usage(&self) -> Held {
        Held {
            out_of_order: self.out_of_order,
            memory: self.held() as u64,
        }
    }

    /// The most memory for data that what was received and not read may take.
    pub(super) fn most_held(&self) -> usize {
        let bytes = self.readable() + self.out_of_order;
        // The blocks of the first byte not read and of the frontier may be full ones.
        SPREAD * bytes as usize + (SLACK + 2) * BLOCK
    }

    /// All memory but this struct's own.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let spilled: usize = self.slots.iter().map(Block::spilled).sum();
        let slots = self.slots.capacity() * size_of::<Block>();
        let unordered = self.unordered.as_deref().map_or(0, Unordered::memory);
        self.held + spilled + slots + unordered
    }

    #[cfg(test)]
    pub(super) fn unordered(&self) -> Option<&Unordered> {
        self.unordered.as_deref()
    }

    /// Bytes received and not read.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> u64 {
        self.readable() + self.out_of_order
    }

    /// Takes in data. True if more can be read than before.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> bool {
        // Most data follows what was received so far.
        if offset == self.frontier && self.gaps == 0 && self.unordered.is_none() {
            self.append(data, pool);
            return !data.is_empty();
        }
        self.insert_anywhere(offset, data, pool)
    }

    /// Takes in data for which nothing waits, and which follows what was received so far.
    fn append(&mut self, mut data: &[u8], pool: &mut Pool) {
        while !data.is_empty() {
            let block = self.frontier / BLOCK_U64;
            let from = (self.frontier % BLOCK_U64) as usize;
            let (now, later) = data.split_at(data.len().min(BLOCK - from));
            let at = (block - self.first_block) as usize;
            while self.slots.len() <= at {
                self.slots.push_back(Block::default());
            }
            let slot = &mut self.slots[at];
            let before = slot.memory();
            if !slot.append(from, now, block == 0, pool) {
                let in_order = self.in_order(block);
                self.slots[at].put(from, now, in_order, block == 0, Why::Follows, pool);
            }
            self.held = self.held - before + self.slots[at].memory();
            self.frontier += now.len() as u64;
            data = later;
        }
    }

    #[inline(never)]
    fn insert_anywhere(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> bool {
        if let Some(unordered) = &mut self.unordered {
            let more = unordered.insert(offset, data, pool);
            self.follow_unordered();
            return more;
        }
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
        self.copy_in(start, data, true, pool);
        let before = self.frontier;
        if self.gaps > 0 {
            self.mark(start, end);
            self.absorb();
        } else {
            self.frontier = end;
        }
        self.on_frontier_moved(before, pool);
        true
    }

    /// What is looked at most is kept here, too.
    fn follow_unordered(&mut self) {
        if let Some(unordered) = &self.unordered {
            self.frontier = unordered.frontier();
            self.gaps = unordered.gaps();
            self.held = unordered.held();
        }
    }

    fn insert_ahead(&mut self, start: u64, data: &[u8], pool: &mut Pool) {
        self.copy_in(start, data, false, pool);
        self.mark(start, start + data.len() as u64);
    }

    /// `follows`: it begins at the frontier.
    fn copy_in(&mut self, mut start: u64, mut data: &[u8], follows: bool, pool: &mut Pool) {
        while !data.is_empty() {
            let block = start / BLOCK_U64;
            let from = (start % BLOCK_U64) as usize;
            let n = data.len().min(BLOCK - from);
            let at = (block - self.first_block) as usize;
            if at >= self.slots.len() {
                self.slots.resize_with(at + 1, Block::default);
            }
            let in_order = self.in_order(block);
            let is_ahead = !follows && block > self.frontier / BLOCK_U64;
            // What waits behind a gap is enough for one more block that is not full.
            let wanted = (self.ahead + 1) * BLOCK;
            let why = if follows {
                Why::Follows
            } else if is_ahead && wanted as u64 <= SPREAD as u64 * self.out_of_order {
                Why::Covered
            } else {
                Why::Neither
            };
            let slot = &mut self.slots[at];
            let before = slot.memory();
            slot.put(from, &data[..n], in_order, block == 0, why, pool);
            self.held = self.held - before + slot.memory();
            if is_ahead && !slot.is_packed() && !slot.ahead {
                slot.ahead = true;
                self.ahead += 1;
            }
            data = &data[n..];
            start += n as u64;
        }
    }

    /// The bytes in order of a block.
    fn in_order(&self, block: u64) -> InOrder {
        let base = block * BLOCK_U64;
        let within = |at: u64| at.saturating_sub(base).min(BLOCK_U64) as usize;
        InOrder {
            floor: within(self.read),
            front: within(self.frontier),
        }
    }

    /// Blocks that the frontier reached are ahead of it no more; and if what waits behind a gap became
    /// little, so does the memory for it.
    fn on_frontier_moved(&mut self, before: u64, pool: &mut Pool) {
        let reached = self.frontier / BLOCK_U64;
        for block in before / BLOCK_U64 + 1..=reached {
            if let Some(slot) = self.slots.get_mut((block - self.first_block) as usize) {
                self.ahead -= usize::from(std::mem::take(&mut slot.ahead));
            }
        }
        let most = SPREAD as u64 * self.out_of_order + (SLACK * BLOCK) as u64;
        if (self.ahead * BLOCK) as u64 <= most {
            return;
        }
        // Those that stay hold so much that this is not soon the case again.
        let first = (reached + 1 - self.first_block) as usize;
        for slot in self.slots.iter_mut().skip(first) {
            if slot.ahead && slot.is_sparse() {
                let before = slot.memory();
                slot.pack(InOrder { floor: 0, front: 0 }, pool);
                self.held = self.held - before + slot.memory();
                slot.ahead = false;
                self.ahead -= 1;
            }
        }
    }

    /// Records the range from `start` to `end`, whose slots exist, as received.
    fn mark(&mut self, start: u64, end: u64) {
        let first = (start / BLOCK_U64 - self.first_block) as usize;
        let last = ((end - 1) / BLOCK_U64 - self.first_block) as usize;
        if first == last {
            let base = (self.first_block + first as u64) * BLOCK_U64;
            return self.mark_within(first, (start - base) as u16, (end - base) as u16);
        }
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

    /// The same within one block: of the ranges of its neighbours, only what touches its borders may become one with its own.
    fn mark_within(&mut self, at: usize, from: u16, to: u16) {
        let slot = &mut self.slots[at];
        let (ranges, began, ended) = (slot.ranges().len(), slot.starts_full(), slot.ends_full());
        self.out_of_order += slot.add(from, to);
        self.gaps = self.gaps + slot.ranges().len() - ranges;
        let (begins, ends) = (slot.starts_full() && !began, slot.ends_full() && !ended);
        if begins && at > 0 && self.slots[at - 1].ends_full() {
            self.gaps -= 1;
        }
        if ends && self.slots.get(at + 1).is_some_and(Block::starts_full) {
            self.gaps -= 1;
        }
    }

    /// How many ranges the slots add to the total, where ranges that meet at the border of two
    /// blocks are one. One too many for each joined border, kept positive for the difference.
    fn pieces(&self, first: usize, last: usize) -> usize {
        let ranges: usize = (first..=last).map(|at| self.slots[at].ranges().len()).sum();
        let borders = last + 2 - first;
        let joined = (first..=last + 1)
            .filter(|&border| {
                border > 0
                    && self.slots[border - 1].ends_full()
                    && self.slots.get(border).is_some_and(Block::starts_full)
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
            let Some(end) = slot.take_first(from) else {
                return;
            };
            self.frontier += u64::from(end - from);
            self.out_of_order -= u64::from(end - from);
            if usize::from(end) < BLOCK {
                return;
            }
        }
    }

    /// Takes out up to `max` bytes that follow each other, the lowest that were received and not read, and where they
    /// begin. From the first call on, the stream is read out of order.
    pub(super) fn read_unordered(&mut self, max: usize, pool: &mut Pool) -> Option<(u64, Bytes)> {
        if self.unordered.is_none() {
            self.become_unordered(pool);
        }
        let read = self.unordered.as_mut()?.read(max, pool);
        self.follow_unordered();
        read
    }

    fn become_unordered(&mut self, pool: &mut Pool) {
        let mut unordered = Unordered::after(self.frontier);
        let slots = std::mem::take(&mut self.slots);
        for (number, slot) in (self.first_block..).zip(slots) {
            unordered.adopt(number, slot, self.in_order(number), pool);
        }
        *self = Self::default();
        self.unordered = Some(Box::new(unordered));
        self.follow_unordered();
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
            buf[done..done + n].copy_from_slice(&self.slots[0].read_from(from)[..n]);
            done += n;
            self.advance(n as u64, pool);
        }
        done
    }

    /// Takes out up to `max` bytes in order. Without copying, if their block is not needed for others.
    pub(super) fn read_chunk(&mut self, max: usize, pool: &mut Pool) -> Bytes {
        // Up to the border of a block, so that the next call can hand out that block.
        let from = (self.read % BLOCK_U64) as usize;
        let n = (self.readable().min(max as u64) as usize).min(BLOCK - from);
        let is_all = n as u64 == self.readable();
        let Some(block) = self.slots.front_mut().filter(|_| n > 0) else {
            return Bytes::new();
        };
        // What comes after the last bytes that are here goes into another block: a stream at rest holds no memory.
        let is_last = from + n == BLOCK || (is_all && block.ranges().is_empty());
        let chunk = if is_last && block.may_lend(n) {
            self.held -= block.memory();
            block.lend(from, n, pool)
        } else {
            Bytes::copy_from_slice(&block.read_from(from)[..n])
        };
        self.advance(n as u64, pool);
        chunk
    }

    fn advance(&mut self, n: u64, pool: &mut Pool) {
        self.read += n;
        if self.read.is_multiple_of(BLOCK_U64) {
            if let Some(mut slot) = self.slots.pop_front() {
                let (data, ahead) = (slot.take_data(), slot.ahead);
                self.give(data, ahead, pool);
            }
            self.first_block += 1;
        } else if let Some(slot) = self.slots.front_mut() {
            slot.consume(n as usize);
            if self.read == self.frontier && slot.ranges().is_empty() {
                // Nothing of the block is needed: a stream at rest holds no memory.
                let data = slot.take_data();
                let ahead = std::mem::take(&mut slot.ahead);
                self.give(data, ahead, pool);
            }
        }
    }

    #[inline(never)]
    fn give(&mut self, data: BytesMut, ahead: bool, pool: &mut Pool) {
        self.held -= data.capacity();
        self.ahead -= usize::from(ahead);
        pool.give(data);
    }

    /// Drops everything; nothing will be inserted or read any more.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        while let Some(mut slot) = self.slots.pop_front() {
            let (data, ahead) = (slot.take_data(), slot.ahead);
            self.give(data, ahead, pool);
        }
        self.gaps = 0;
        self.out_of_order = 0;
        if let Some(unordered) = &mut self.unordered {
            unordered.clear(pool);
            self.follow_unordered();
        } else {
            self.read = self.frontier;
        }
    }

    /// As if nothing had ever been put in. It was cleared, and is [lean](Self::is_lean).
    pub(super) fn renew(&mut self) {
        let Self {
            slots,
            first_block,
            read,
            frontier,
            gaps,
            out_of_order,
            ahead,
            held,
            unordered,
        } = self;
        debug_assert!(slots.is_empty() && unordered.is_none());
        (*first_block, *read, *frontier) = (0, 0, 0);
        (*gaps, *out_of_order, *ahead, *held) = (0, 0, 0, 0);
    }

    /// Whether it holds no memory but a short list, what the first block allocates.
    pub(super) fn is_lean(&self) -> bool {
        self.unordered.is_none() && self.slots.is_empty() && self.slots.capacity() <= KEPT_SLOTS
    }

    /// Gives back memory that a stream at rest does not need.
    pub(super) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::block::SMALLEST;
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

    fn length() -> impl Strategy<Value = u64> {
        prop_oneof![1u64..3_000, 1u64..10]
    }

    /// The sum is right, and no more than a multiple of what is needed.
    fn check_memory(a: &Assembler) {
        let held: usize = a.slots.iter().map(Block::memory).sum();
        assert_eq!(a.held(), held);
        let ahead = a.slots.iter().filter(|slot| slot.ahead).count();
        assert_eq!(a.ahead, ahead);
        assert!(held <= a.most_held(), "{held} for {}", a.buffered());
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
            ops in prop::collection::vec((0u64..50_000, length(), 0usize..4, 1usize..40_000), 1..120),
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
                check_memory(&a);
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
                check_memory(&a);
            }
        }
    }

    /// Ranges that meet exactly at the border of two blocks are one, whichever came first.
    #[test]
    fn ranges_that_meet_at_the_border_of_blocks_are_one() {
        let halves = [(BLOCK_U64 - 100, 100), (BLOCK_U64, 50)];
        for order in [[0, 1], [1, 0]] {
            let mut pool = Pool::default();
            let mut a = Assembler::default();
            for half in order {
                let (at, len) = halves[half];
                a.insert(at, &bytes(at, len), &mut pool);
                assert_eq!(a.gaps(), 1);
            }
            assert_eq!(a.out_of_order(), 150);
        }
    }

    /// One byte in every block of the largest window: what is held is a few bytes for each.
    #[test]
    fn few_bytes_far_apart_take_little_memory() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        let blocks = 1024;
        for block in 0..blocks {
            let at = block * BLOCK_U64 + 16_000;
            a.insert(at, &bytes(at, 1), &mut pool);
        }
        assert_eq!(a.gaps(), blocks as usize);
        assert!(a.held() <= 8 * blocks as usize, "{} bytes", a.held());
        let overhead = a.slots.capacity() * size_of::<Block>();
        assert!(overhead <= 160 * blocks as usize, "{overhead} bytes");
        // The other bytes come, and all of it is right.
        for at in (0..blocks * BLOCK_U64).step_by(1000) {
            a.insert(at, &bytes(at, 1000), &mut pool);
        }
        let mut at = 0;
        while a.readable() > 0 {
            let chunk = a.read_chunk(usize::MAX, &mut pool);
            assert_eq!(chunk, bytes(at, chunk.len() as u64));
            at += chunk.len() as u64;
        }
        assert!(at >= blocks * BLOCK_U64);
    }

    /// A stream for each byte, wherever in its first block the byte is.
    #[test]
    fn a_byte_of_a_new_stream_takes_little_memory() {
        for (at, then) in [(0, 16_383), (16_383, 0), (9_000, 4_000)] {
            let mut pool = Pool::default();
            let mut a = Assembler::default();
            a.insert(at, &bytes(at, 1), &mut pool);
            a.insert(then, &bytes(then, 1), &mut pool);
            assert!(a.held() <= SMALLEST, "{} bytes", a.held());
            a.insert(1, &bytes(1, 16_382), &mut pool);
            a.insert(0, &bytes(0, 16_384), &mut pool);
            let chunk = a.read_chunk(usize::MAX, &mut pool);
            assert_eq!(chunk, bytes(0, 16_384));
        }
    }

    /// What waits behind a gap lends memory to what came far apart, until the gap is filled.
    #[test]
    fn memory_is_given_back_when_the_gap_is_filled() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        a.insert(1, &bytes(1, 1 << 20), &mut pool);
        for block in 66..258 {
            a.insert(block * BLOCK_U64, b"x", &mut pool);
        }
        assert!(a.held() > 3 << 20);
        a.insert(0, &bytes(0, 1), &mut pool);
        while a.readable() > 0 {
            a.read_chunk(usize::MAX, &mut pool);
        }
        assert!(a.held() <= 192 * 8, "{} bytes", a.held());
    }

    #[test]
    fn memory_follows_the_offset_not_the_frames() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        for at in (1..1 << 20).step_by(2) {
            a.insert(at, &[byte(at)], &mut pool);
        }
        assert_eq!(a.gaps(), 1 << 19);
        let held: usize = a.slots.iter().map(Block::memory).sum();
        assert!(held <= (1 << 20) + BLOCK, "{held}");
    }

    #[test]
    fn an_idle_or_small_stream_holds_little() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        a.insert(0, &bytes(0, 100), &mut pool);
        assert_eq!(a.slots[0].memory(), SMALLEST);
        let mut buf = [0; 200];
        assert_eq!(a.read(&mut buf, &mut pool), 100);
        assert_eq!(a.slots[0].memory(), 0);
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

    /// However much comes, who has dropped a chunk gets its memory again: what is there takes one or two blocks more than the
    /// batch, and a reader who keeps some of the chunks takes as many more.
    #[test]
    fn the_memory_of_chunks_is_used_again() {
        const BATCH: u64 = 71_200;
        for keep in [0, 1, 9] {
            let mut pool = Pool::default();
            let mut a = Assembler::default();
            let mut kept = VecDeque::new();
            let mut memory = std::collections::BTreeSet::new();
            let (mut at, mut copied) = (0, 0);
            for batch in 0..200 {
                for packet in (0..BATCH).step_by(1424) {
                    let data = bytes(batch * BATCH + packet, 1424);
                    a.insert(batch * BATCH + packet, &data, &mut pool);
                }
                let there: Vec<_> = a.slots.iter().map(|slot| slot.read_from(0)).collect();
                let there: Vec<_> = there.iter().map(|block| block.as_ptr_range()).collect();
                while a.readable() > 0 {
                    let chunk = a.read_chunk(usize::MAX, &mut pool);
                    assert_eq!(chunk, bytes(at, chunk.len() as u64));
                    at += chunk.len() as u64;
                    if there.iter().any(|block| block.contains(&chunk.as_ptr())) {
                        memory.insert(chunk.as_ptr() as usize / BLOCK);
                    } else {
                        assert!(chunk.len() < BLOCK / SPREAD);
                        copied += chunk.len();
                    }
                    kept.push_back(chunk);
                    while kept.len() > keep {
                        kept.pop_front();
                    }
                }
                assert_eq!(a.held(), 0);
            }
            assert!(copied as u64 <= at / 10, "{copied} of {at} copied");
            // A block is not at a multiple of its size.
            let places = memory.len();
            assert!(places <= 2 * (6 + 1 + keep), "{places} places, {keep} kept");
            assert!(pool.memory() <= (6 + 1 + keep) * BLOCK);
        }
    }

    /// A chunk that is kept keeps no more memory than [`SPREAD`] times its length, and the stream that it came from none.
    #[test]
    fn a_small_chunk_keeps_no_block() {
        let mut pool = Pool::default();
        let mut a = Assembler::default();
        // The first block has its full size, so that nothing but the length tells what may be lent.
        a.insert(0, &bytes(0, BLOCK_U64), &mut pool);
        a.read(&mut [0; BLOCK], &mut pool);
        let mut at = BLOCK_U64;
        let least = BLOCK_U64 / SPREAD as u64;
        for len in [1, least - 1, least, least + 1] {
            a.insert(at, &bytes(at, len), &mut pool);
            let place = a.slots[0].read_from((at % BLOCK_U64) as usize).as_ptr();
            let chunk = a.read_chunk(usize::MAX, &mut pool);
            assert_eq!(chunk, bytes(at, len));
            assert_eq!(chunk.as_ptr() == place, len >= least, "{len}");
            assert_eq!(a.held(), 0);
            at += len;
        }
        // Nor does one of which others in the same block are still needed.
        a.insert(at, &bytes(at, 10_000), &mut pool);
        let place = a.slots[0].read_from((at % BLOCK_U64) as usize).as_ptr();
        let room = (BLOCK_U64 - at % BLOCK_U64) as usize;
        let chunk = a.read_chunk(room / 2, &mut pool);
        assert_ne!(chunk.as_ptr(), place);
        assert_eq!(chunk, bytes(at, room as u64 / 2));
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
