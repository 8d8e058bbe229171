//! Datagrams of one path that leave together (segmentation offload: equal sizes, but for the last);
//! builds and sends nothing.

use std::collections::VecDeque;

use mpquic_sched_core::{EcnCodepoint, MAX_PATHS, PathIndex};
use smallvec::SmallVec;

use crate::PathId;

/// The most bytes of a batch: one UDP datagram of IPv4 before it is segmented.
const MAX_BATCH: usize = 65_507;

/// Free buffers in which connections build the datagrams of further paths.
///
/// A connection that sends on several paths at once builds one batch for each, up to 64 KiB, and keeps their buffers to use
/// them again. A driver that runs many connections lends all of them the same ones:
/// [`Connection::swap_spare_buffers`](crate::Connection::swap_spare_buffers).
#[derive(Debug, Default)]
pub struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < MAX_PATHS {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// Batches under construction or ready, at most one per path, and buffers to build them in.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: SmallVec<[Batch; 2]>,
    ready: VecDeque<Batch>,
    /// Buffers of batches that were handed out, kept for their allocation.
    spare: SpareBuffers,
}

/// The datagrams for one path.
#[derive(Debug)]
pub(crate) struct Batch {
    index: PathIndex,
    id: PathId,
    /// The mark of all its datagrams: a batch has one IP header.
    ecn: Option<EcnCodepoint>,
    data: Vec<u8>,
    sizes: Sizes,
}

impl Batch {
    /// To build it.
    pub(crate) fn as_mut(&mut self) -> BatchMut<'_> {
        BatchMut {
            buf: &mut self.data,
            start: 0,
            sizes: &mut self.sizes,
            ecn: self.ecn,
        }
    }
}

/// A batch that is built in some buffer.
pub(crate) struct BatchMut<'a> {
    pub(crate) buf: &'a mut Vec<u8>,
    /// Where it begins in the buffer.
    pub(crate) start: usize,
    pub(crate) sizes: &'a mut Sizes,
    pub(crate) ecn: Option<EcnCodepoint>,
}

impl BatchMut<'_> {
    /// Whether nothing more may be appended: see `Sizes::is_full`.
    #[inline]
    pub(crate) fn is_full(&self, mtu: usize, block: u16, max_datagrams: usize) -> bool {
        let len = self.buf.len() - self.start;
        self.sizes.is_full(len, mtu, block, max_datagrams)
    }

    /// Where the next datagram must end in the buffer.
    #[inline]
    pub(crate) fn end_of_next(&self, mtu: usize) -> usize {
        self.buf.len() + self.sizes.most_of_next(mtu)
    }
}

/// How large the datagrams of a batch are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    first: usize,
    last: usize,
    count: usize,
}

/// A batch that was handed out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Popped {
    pub(crate) id: PathId,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) size: usize,
    pub(crate) segment_size: Option<usize>,
}

impl Batches {
    /// Takes the batch of a path out, opened if there is none; its place among the others stays.
    #[cold]
    pub(super) fn take(
        &mut self,
        index: PathIndex,
        id: PathId,
        ecn: Option<EcnCodepoint>,
    ) -> Batch {
        if let Some(batch) = self.open.iter_mut().find(|batch| batch.index == index) {
            let data = std::mem::take(&mut batch.data);
            return Batch { data, ..*batch };
        }
        let sizes = Sizes::default();
        let batch = |data| Batch {
            index,
            id,
            ecn,
            data,
            sizes,
        };
        self.open.push(batch(Vec::new()));
        batch(self.spare.take())
    }

    /// Puts a batch back that was taken out.
    #[cold]
    pub(super) fn put(&mut self, batch: Batch) {
        if let Some(place) = self.open.iter_mut().find(|open| open.index == batch.index) {
            *place = batch;
        }
    }

    /// Appends the next batch to `buf`.
    pub(super) fn pop(&mut self, buf: &mut Vec<u8>) -> Option<Popped> {
        loop {
            let mut batch = self.take_first()?;
            let size = batch.data.len();
            let popped = Popped {
                id: batch.id,
                ecn: batch.ecn,
                size,
                segment_size: batch.sizes.segment(),
            };
            if buf.is_empty() {
                // The usual case: the caller's buffer takes the place of ours.
                std::mem::swap(buf, &mut batch.data);
            } else {
                buf.extend_from_slice(&batch.data);
            }
            self.spare.give(batch.data);
            if size > 0 {
                return Some(popped);
            }
        }
    }

    /// The oldest batch. Mostly there is one.
    fn take_first(&mut self) -> Option<Batch> {
        if self.ready.is_empty() && self.open.len() < 2 {
            return self.open.pop();
        }
        self.ready.extend(self.open.drain(..));
        self.ready.pop_front()
    }

    /// Drops what was made for a path and is not handed out.
    pub(super) fn forget(&mut self, index: PathIndex) {
        let batches = self.open.iter_mut().chain(&mut self.ready);
        for batch in batches.filter(|batch| batch.index == index) {
            batch.data.clear();
        }
    }

    /// Exchanges the free buffers.
    pub(super) fn swap_spare(&mut self, buffers: &mut SpareBuffers) {
        std::mem::swap(&mut self.spare, buffers);
    }

    /// Gives back memory that is kept to be used again.
    pub(super) fn shrink(&mut self) {
        self.spare = SpareBuffers::default();
        self.ready.shrink_to_fit();
    }

    /// Whether a batch is ready to be handed out.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ready.is_empty()
    }
}

impl Sizes {
    /// Of the datagrams but for the last, if there are several.
    pub(crate) fn segment(&self) -> Option<usize> {
        (self.count > 1).then_some(self.first)
    }

    /// A datagram of this size was appended.
    pub(crate) fn push(&mut self, size: usize) {
        if self.count == 0 {
            self.first = size;
        }
        self.last = size;
        self.count += 1;
    }

    /// The most bytes of the next datagram, which is not longer than the first.
    fn most_of_next(&self, mtu: usize) -> usize {
        if self.count == 0 {
            mtu
        } else {
            mtu.min(self.first)
        }
    }

    /// Whether nothing more may be appended: as many datagrams as asked for, or as many bytes as segmentation offload takes,
    /// or a datagram shorter than those before it, or a first one below full size, which longer ones could not follow. A
    /// datagram of full size is up to one byte less than `block` shorter than `mtu`. `len`: the bytes so far.
    fn is_full(&self, len: usize, mtu: usize, block: u16, max_datagrams: usize) -> bool {
        self.count > 0
            && (self.count >= max_datagrams
                || len + mtu > MAX_BATCH
                || self.last < self.first
                || self.first + usize::from(block) <= mtu)
    }
}
