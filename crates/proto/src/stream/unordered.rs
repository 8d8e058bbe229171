//! Received stream data that is read in whatever order it arrives; knows neither flow control nor final sizes.
//!
//! Bytes lie in the same blocks as those of a stream that is read in order, but a block is there only as long as it has
//! bytes that were not read: one gap at the front of a long stream must not keep a place for each block behind it. What
//! was received is kept as ranges, so that a byte is handed out once however often it comes. Both are trees: what a frame
//! costs grows with the logarithm of the gaps, whose number is bounded (`limits.rs`).
//!
//! Reads take the lowest byte first. Bytes that were read therefore split those that were not into no more pieces than
//! the gaps did.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::block::{BLOCK, Block, InOrder, Pool, Why};

const BLOCK_U64: u64 = BLOCK as u64;

/// Nothing is in order here: all bytes of a block are in its ranges.
const NOTHING: InOrder = InOrder { floor: 0, front: 0 };

/// Disjoint ranges of offsets that do not touch: where each begins, and where it ends.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Whether `at` is in the set, and up to where that is so.
    fn probe(&self, at: u64) -> (bool, u64) {
        match self.0.range(..=at).next_back() {
            Some((_, &end)) if end > at => (true, end),
            _ => {
                let next = self.0.range(at..).next();
                (false, next.map_or(u64::MAX, |(&start, _)| start))
            }
        }
    }

    /// Adds a range that overlaps none.
    fn insert(&mut self, start: u64, mut end: u64) {
        if let Some(joined) = self.0.remove(&end) {
            end = joined;
        }
        match self.0.range_mut(..start).next_back() {
            Some((_, before)) if *before == start => *before = end,
            _ => {
                self.0.insert(start, end);
            }
        }
    }
}

/// The receive buffer of a stream that is read out of order.
#[derive(Debug, Default)]
pub(super) struct Unordered {
    /// All that was received, read or not.
    received: Ranges,
    /// The blocks with bytes that were not read, by their number.
    blocks: BTreeMap<u64, Block>,
    /// Bytes received and not read.
    unread: u64,
    /// Bytes of memory for data.
    held: usize,
}

impl Unordered {
    /// A stream of which all bytes before `end` were received, and none of them is here.
    pub(super) fn after(end: u64) -> Self {
        let mut this = Self::default();
        if end > 0 {
            this.received.insert(0, end);
        }
        this
    }

    /// Takes over a block with its number. Its bytes in order were counted as received, those beyond them were not.
    pub(super) fn adopt(
        &mut self,
        number: u64,
        mut block: Block,
        in_order: InOrder,
        pool: &mut Pool,
    ) {
        let base = number * BLOCK_U64;
        for &(start, end) in block.ranges() {
            self.received
                .insert(base + u64::from(start), base + u64::from(end));
            self.unread += u64::from(end - start);
        }
        if in_order.floor < in_order.front {
            self.unread += block.add(in_order.floor as u16, in_order.front as u16);
        }
        block.ahead = false;
        if block.ranges().is_empty() {
            pool.give(block.take_data());
            return;
        }
        if block.is_sparse() {
            block.pack(NOTHING, pool);
        }
        self.held += block.memory();
        self.blocks.insert(number, block);
    }

    /// Bytes received and not read.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// One past the last byte received without a gap.
    pub(super) fn frontier(&self) -> u64 {
        self.received.0.get(&0).copied().unwrap_or(0)
    }

    /// Gaps in what was received.
    pub(super) fn gaps(&self) -> usize {
        self.received.0.len() - usize::from(self.received.0.contains_key(&0))
    }

    /// Bytes of memory for data.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// All memory but this struct's own; of the trees, what their entries take if all nodes are half full.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let spilled: usize = self.blocks.values().map(Block::spilled).sum();
        let blocks = self.blocks.len() * size_of::<(u64, Block)>();
        let ranges = self.received.0.len() * size_of::<(u64, u64)>();
        self.held + spilled + 2 * (blocks + ranges)
    }

    /// Takes in data. True if any of it is new.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> bool {
        let end = offset + data.len() as u64;
        let mut at = offset;
        let mut is_new = false;
        while at < end {
            let (known, until) = self.received.probe(at);
            let until = until.min(end);
            if !known {
                let new = &data[(at - offset) as usize..(until - offset) as usize];
                self.copy_in(at, new, pool);
                self.received.insert(at, until);
                is_new = true;
            }
            at = until;
        }
        is_new
    }

    /// Copies bytes in that are not there.
    fn copy_in(&mut self, mut start: u64, mut data: &[u8], pool: &mut Pool) {
        self.unread += data.len() as u64;
        while !data.is_empty() {
            let number = start / BLOCK_U64;
            let from = (start % BLOCK_U64) as usize;
            let n = data.len().min(BLOCK - from);
            let block = self.blocks.entry(number).or_default();
            let before = block.memory();
            block.put(from, &data[..n], NOTHING, number == 0, Why::Neither, pool);
            block.add(from as u16, (from + n) as u16);
            self.held = self.held - before + block.memory();
            data = &data[n..];
            start += n as u64;
        }
    }

    /// Takes out up to `max` bytes that follow each other, the lowest that there are, and where they begin.
    pub(super) fn read(&mut self, max: usize, pool: &mut Pool) -> Option<(u64, Bytes)> {
        let mut entry = self.blocks.first_entry()?;
        let base = entry.key() * BLOCK_U64;
        let block = entry.get_mut();
        self.held -= block.memory();
        let (at, bytes) = block.take_out(max, pool);
        if block.ranges().is_empty() {
            pool.give(entry.remove().take_data());
        } else {
            if block.is_sparse() {
                block.pack(NOTHING, pool);
            }
            self.held += block.memory();
        }
        self.unread -= bytes.len() as u64;
        Some((base + at as u64, bytes))
    }

    /// Drops everything that was not read.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        for mut block in std::mem::take(&mut self.blocks).into_values() {
            pool.give(block.take_data());
        }
        self.unread = 0;
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::assembler::Assembler;
    use super::*;

    /// Which byte it is depends on more than its place in a block.
    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    fn bytes(start: u64, len: u64) -> Vec<u8> {
        (start..start + len).map(byte).collect()
    }

    fn length() -> impl Strategy<Value = u64> {
        prop_oneof![1u64..3_000, 1u64..10, 10_000u64..40_000]
    }

    /// The sums are right: a block for no more than there is, and no block for nothing.
    fn check(unordered: &Unordered) {
        let held: usize = unordered.blocks.values().map(Block::memory).sum();
        assert_eq!(unordered.held, held);
        let ranges = unordered.blocks.values().flat_map(Block::ranges);
        let unread: u64 = ranges.map(|r| u64::from(r.1 - r.0)).sum();
        assert_eq!(unordered.unread, unread);
        assert!(unordered.blocks.values().all(|b| !b.ranges().is_empty()));
        let mut last = None;
        for (&start, &end) in &unordered.received.0 {
            assert!(start < end && last.is_none_or(|last| last < start));
            last = Some(end);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        /// Any frames in any order, as often as they like, at first read in order and then not: each byte is handed out
        /// once and is the right one, and nothing that is here is kept back.
        #[test]
        fn every_byte_once(
            ops in prop::collection::vec(
                (0u64..100_000, length(), any::<bool>(), prop_oneof![Just(usize::MAX), 1usize..20_000]),
                1..120,
            ),
            ordered in 0usize..40,
        ) {
            let mut pool = Pool::default();
            let mut assembler = Assembler::default();
            let mut received = vec![false; 140_000];
            let mut read = vec![false; 140_000];
            for (step, (offset, len, reads, max)) in ops.into_iter().enumerate() {
                let range = offset as usize..(offset + len) as usize;
                let frontier = assembler.frontier();
                let is_new = received[range.clone()].contains(&false);
                let was_unordered = assembler.is_unordered();
                let more = assembler.insert(offset, &bytes(offset, len), &mut pool);
                received[range].fill(true);
                let rose = assembler.frontier() > frontier;
                prop_assert_eq!(more, if was_unordered { is_new } else { rose });
                if step >= ordered {
                    if reads {
                        if let Some((at, chunk)) = assembler.read_unordered(max, &mut pool) {
                            prop_assert!(!chunk.is_empty() && chunk.len() <= max);
                            prop_assert_eq!(&chunk, &bytes(at, chunk.len() as u64));
                            let range = at as usize..at as usize + chunk.len();
                            prop_assert!(received[range.clone()].iter().all(|there| *there));
                            prop_assert!(!read[range.clone()].contains(&true), "twice");
                            read[range.clone()].fill(true);
                            let lowest = (0..range.start).any(|at| received[at] && !read[at]);
                            prop_assert!(!lowest, "not the lowest");
                        } else {
                            prop_assert_eq!(assembler.readable(), 0);
                        }
                    }
                } else if reads {
                    let chunk = assembler.read_chunk(max, &mut pool);
                    let at = read.iter().position(|read| !read).unwrap();
                    read[at..at + chunk.len()].fill(true);
                }
                if let Some(unordered) = assembler.unordered() {
                    check(unordered);
                    let unread = (0..received.len()).filter(|&at| received[at] && !read[at]);
                    prop_assert_eq!(assembler.readable(), unread.count() as u64);
                    prop_assert!(assembler.held() <= assembler.most_held());
                }
                let edge = received.iter().position(|there| !there).unwrap();
                prop_assert_eq!(assembler.frontier(), edge as u64);
                let starts = (edge + 1..received.len()).filter(|&at| received[at] && !received[at - 1]);
                prop_assert_eq!(assembler.gaps(), starts.count());
            }
            // What is left comes, and nothing is held then.
            while let Some((at, chunk)) = assembler.read_unordered(usize::MAX, &mut pool) {
                let range = at as usize..at as usize + chunk.len();
                prop_assert!(!read[range.clone()].contains(&true), "twice");
                prop_assert_eq!(&chunk, &bytes(at, chunk.len() as u64));
                read[range].fill(true);
            }
            prop_assert!(read == received);
            prop_assert_eq!(assembler.held(), 0);
        }
    }

    /// A sender that holds back the first byte and goes on for long: what is kept does not grow with that.
    #[test]
    fn a_gap_at_the_front_keeps_nothing_behind_it() {
        let mut pool = Pool::default();
        let mut assembler = Assembler::default();
        assert!(assembler.read_unordered(1, &mut pool).is_none());
        for at in (1..64 << 20).step_by(1200) {
            assert!(assembler.insert(at, &bytes(at, 1200), &mut pool));
            let mut here = 0;
            while let Some((_, chunk)) = assembler.read_unordered(usize::MAX, &mut pool) {
                here += chunk.len();
            }
            assert_eq!(here, 1200);
            assert!(assembler.memory() < 200, "{} bytes", assembler.memory());
        }
        assert_eq!((assembler.gaps(), assembler.frontier()), (1, 0));
        assert!(!assembler.insert(5_000, &bytes(5_000, 10_000), &mut pool));
        assert!(assembler.insert(0, &bytes(0, 1200), &mut pool));
        let (at, chunk) = assembler.read_unordered(usize::MAX, &mut pool).unwrap();
        assert_eq!((at, &chunk[..]), (0, &[0][..]));
        assert_eq!(assembler.gaps(), 0);
    }

    /// Every second byte: as many gaps as a stream that is read in order would have, for the cap to count.
    #[test]
    fn gaps_are_counted_whether_read_or_not() {
        for reads in [false, true] {
            let mut pool = Pool::default();
            let mut assembler = Assembler::default();
            assembler.read_unordered(1, &mut pool);
            for at in (1..20_000).step_by(2) {
                assembler.insert(at, &[byte(at)], &mut pool);
                if reads {
                    assert!(assembler.read_unordered(9, &mut pool).is_some());
                }
            }
            assert_eq!(assembler.gaps(), 10_000);
            assert!(assembler.held() <= assembler.most_held());
        }
    }

    /// A whole block is handed out as it is.
    #[test]
    fn whole_blocks_are_not_copied() {
        let mut pool = Pool::default();
        let mut assembler = Assembler::default();
        assembler.insert(BLOCK_U64, &bytes(BLOCK_U64, 2 * BLOCK_U64), &mut pool);
        let held = assembler.held();
        let (at, chunk) = assembler.read_unordered(usize::MAX, &mut pool).unwrap();
        assert_eq!((at, chunk.len()), (BLOCK_U64, BLOCK));
        assert_eq!(assembler.held(), held - BLOCK);
        assert!(pool.take().is_none(), "it was not recycled");
    }
}
