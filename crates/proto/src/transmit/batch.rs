//! Datagrams of one path that leave together (segmentation offload: equal sizes, but for the last);
//! builds and sends nothing.

use std::collections::VecDeque;

use mpquic_sched_core::{EcnCodepoint, PathIndex};
use smallvec::SmallVec;

use crate::PathId;

/// Batches under construction or ready, at most one per path, and buffers to build them in.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    open: SmallVec<[Batch; 2]>,
    ready: VecDeque<Batch>,
    /// Buffers of batches that were handed out, kept for their allocation.
    spare: Vec<Vec<u8>>,
}

/// The datagrams for one path.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) index: PathIndex,
    pub(crate) id: PathId,
    /// The mark of all its datagrams: a batch has one IP header.
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) data: Vec<u8>,
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
    /// The batch of a path.
    pub(crate) fn open(
        &mut self,
        index: PathIndex,
        id: PathId,
        ecn: Option<EcnCodepoint>,
    ) -> &mut Batch {
        let at = match self.open.iter().position(|batch| batch.index == index) {
            Some(at) => at,
            None => {
                self.open.push(Batch {
                    index,
                    id,
                    ecn,
                    data: self.spare.pop().unwrap_or_default(),
                    first: 0,
                    last: 0,
                    count: 0,
                });
                self.open.len() - 1
            }
        };
        &mut self.open[at]
    }

    /// Appends the next batch to `buf`.
    pub(crate) fn pop(&mut self, buf: &mut Vec<u8>) -> Option<Popped> {
        self.ready.extend(self.open.drain(..));
        loop {
            let mut batch = self.ready.pop_front()?;
            let size = batch.data.len();
            let popped = Popped {
                id: batch.id,
                ecn: batch.ecn,
                size,
                segment_size: (batch.count > 1).then_some(batch.first),
            };
            if buf.is_empty() {
                // The usual case: the caller's buffer takes the place of ours.
                std::mem::swap(buf, &mut batch.data);
            } else {
                buf.extend_from_slice(&batch.data);
            }
            batch.data.clear();
            self.spare.push(batch.data);
            if size > 0 {
                return Some(popped);
            }
        }
    }

    /// Drops what was made for a path and is not handed out.
    pub(crate) fn forget(&mut self, index: PathIndex) {
        let batches = self.open.iter_mut().chain(&mut self.ready);
        for batch in batches.filter(|batch| batch.index == index) {
            batch.data.clear();
        }
    }

    /// Gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.spare = Vec::new();
        self.ready.shrink_to_fit();
    }

    /// Whether a batch is ready to be handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ready.is_empty()
    }
}

impl Batch {
    /// A datagram of this size was appended to `data`.
    pub(crate) fn push(&mut self, size: usize) {
        if self.count == 0 {
            self.first = size;
        }
        self.last = size;
        self.count += 1;
    }

    /// Whether nothing more may be appended: as many datagrams as asked for, or one shorter than
    /// those before it, or a first one below full size, which longer ones could not follow.
    pub(crate) fn is_full(&self, mtu: usize, max_datagrams: usize) -> bool {
        self.count > 0
            && (self.count >= max_datagrams || self.last < self.first || self.first < mtu)
    }
}
