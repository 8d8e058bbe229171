//! Recycled blocks of bytes for both directions' buffers; does not know what is in them.

/// Bytes in one block: a dozen packets, so that the cost of handling a block vanishes.
pub(super) const BLOCK: usize = 16 * 1024;

/// Free blocks kept while streams are open: 4 MiB.
const KEEP_BUSY: usize = 256;

/// Free blocks kept while no stream is open: 32 KiB. A request that needs more of them costs an allocation for each, which is
/// little beside the dozen packets that fill it.
const KEEP_IDLE: usize = 2;

/// Blocks that are free for reuse, so that a steady transfer allocates none.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// A free block; its length and contents are anything, its capacity at least [`BLOCK`].
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.free.pop()
    }

    /// Gives a block back; those that are not of full size are dropped.
    pub(super) fn give(&mut self, block: Vec<u8>) {
        if block.capacity() >= BLOCK && self.free.len() < KEEP_BUSY {
            self.free.push(block);
        }
    }

    /// Bytes of the free blocks.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.free.iter().map(Vec::capacity).sum()
    }

    /// No stream is open: keep little.
    pub(super) fn trim(&mut self) {
        if self.free.capacity() > KEEP_IDLE {
            self.free.truncate(KEEP_IDLE);
            self.free.shrink_to(KEEP_IDLE);
        }
    }
}
