//! Recycled blocks of bytes for both directions' buffers.

use std::collections::VecDeque;

use bytes::BytesMut;

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

/// Blocks that are free for reuse, so that a steady transfer allocates none.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: Vec<BytesMut>,
    /// The empty ends of blocks whose bytes the application has, oldest first: once it has dropped them, the end is the last
    /// handle of the block and can have all of it.
    lent: VecDeque<BytesMut>,
}

impl Pool {
    /// A free block; its length and contents are anything, its capacity at least [`BLOCK`].
    pub(super) fn take(&mut self) -> Option<BytesMut> {
        self.free.pop().or_else(|| self.reclaim_oldest())
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

    /// Gives a block back; those that are not of full size are dropped.
    pub(super) fn give(&mut self, block: BytesMut) {
        if block.capacity() >= BLOCK && self.kept() < KEEP_BUSY {
            self.free.push(block);
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
        free + self.lent.len() * BLOCK
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
