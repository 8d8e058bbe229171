//! Datagrams on their way from the endpoint's task to a connection's task, bounded by the memory that they hold.

use std::collections::VecDeque;
use std::task::Waker;

use proto::ConnectionEvent;

use crate::recv_buffers::BLOCK;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that one connection's datagrams may hold. Beyond, datagrams are dropped as a full socket buffer
/// drops them: the peer's congestion controller is the one to hear of it.
const MAX_HELD: usize = 16 << 20;

/// Bytes that the datagrams of all connections of an endpoint may hold.
const MAX_HELD_TOTAL: usize = 64 << 20;

/// Beyond so many of these, the sockets are read no further ahead. What is still in the processor's cache when its connection
/// takes it costs less, and this is what a burst on many connections adds to their memory.
const MAX_READ_AHEAD: usize = 24 << 20;

/// Places that an empty queue keeps for the next datagrams.
const KEPT_PLACES: usize = 256;

/// What an event takes beside the bytes of its datagrams: the record of it, and what the allocator needs if it is copied.
const RECORD: usize = size_of::<ConnectionEvent>() + 32;

/// The block of datagrams that are no slice of one.
pub(crate) const OWN: u64 = u64::MAX;

/// Consecutive events of one connection: their number and the bytes of their datagrams, and the first and the last of the
/// receive blocks that these are slices of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    pub(crate) first_block: u64,
    pub(crate) last_block: u64,
}

impl Run {
    /// Of one event in memory of its own.
    pub(crate) fn single(event: &ConnectionEvent) -> Self {
        Self {
            events: 1,
            bytes: event.size(),
            first_block: OWN,
            last_block: OWN,
        }
    }
}

/// Memory that datagrams hold, of all connections of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(AtomicUsize);

impl ReadAhead {
    fn take(&self, bytes: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= MAX_HELD_TOTAL;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    /// Whether there is room to read further ahead of the tasks of connections than a little. If not, datagrams are better left
    /// in the socket.
    pub(crate) fn has_room(&self) -> bool {
        self.0.load(Ordering::Relaxed) < MAX_READ_AHEAD
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was counted for some datagrams.
#[derive(Debug, Default, Clone, Copy)]
struct Charge {
    /// Memory that they hold: whole receive blocks, even if other connections have slices of them too.
    held: usize,
    /// Their bytes and records, counted towards the total, in which each block is to count once.
    own: usize,
}

/// The queue, and what it holds.
#[derive(Default)]
pub(crate) struct Inbox {
    events: VecDeque<ConnectionEvent>,
    queued: Charge,
    /// What was collected last and may still be there.
    collected: Charge,
    /// The receive block that was counted last.
    block: Option<u64>,
    /// Of the connection's task, if it sleeps.
    waker: Option<Waker>,
}

impl Inbox {
    /// Puts datagrams in, or drops them if they would hold too much. The waker to call, if the task
    /// sleeps.
    pub(crate) fn push(
        &mut self,
        run: Run,
        events: impl Iterator<Item = ConnectionEvent>,
        total: &ReadAhead,
    ) -> Option<Waker> {
        let records = run.events * RECORD;
        let own = run.first_block == OWN;
        let known = u64::from(own || self.block == Some(run.first_block));
        let blocks = (run.last_block - run.first_block + 1 - known) as usize;
        // A slice holds its whole block. A task that is behind must not hold a block for each small
        // datagram: those are copied. One that keeps up finds them where they were received.
        let copies = blocks > 0 && !self.events.is_empty() && run.bytes < blocks * BLOCK / 4;
        let pinned = if own || copies {
            run.bytes
        } else {
            blocks * BLOCK
        };
        let charge = Charge {
            held: records + pinned,
            own: records + run.bytes,
        };
        let held = self.queued.held + self.collected.held + charge.held;
        if held > MAX_HELD || !total.take(charge.own) {
            drop_all(run, events);
            return None;
        }
        self.queued.held += charge.held;
        self.queued.own += charge.own;
        if copies {
            self.copy(events);
        } else {
            if !own {
                self.block = Some(run.last_block);
            }
            self.events.extend(events);
        }
        self.waker.take()
    }

    /// The task is behind.
    #[cold]
    #[inline(never)]
    fn copy(&mut self, events: impl Iterator<Item = ConnectionEvent>) {
        self.events.extend(events.map(ConnectionEvent::into_owned));
    }

    /// Takes all that is there; `batch` must be empty and its memory goes the other way. If there is
    /// nothing, the task will be woken by the next datagram.
    pub(crate) fn collect(
        &mut self,
        batch: &mut VecDeque<ConnectionEvent>,
        waker: &Waker,
        total: &ReadAhead,
    ) {
        debug_assert!(batch.is_empty());
        total.give_back(std::mem::take(&mut self.collected).own);
        if self.events.is_empty() {
            if self.events.capacity().max(batch.capacity()) > KEPT_PLACES {
                self.shrink(batch);
            }
            match &mut self.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return;
        }
        std::mem::swap(&mut self.events, batch);
        self.collected = std::mem::take(&mut self.queued);
        self.block = None;
        self.waker = None;
    }

    /// Gives back the places of empty queues that have many.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self, batch: &mut VecDeque<ConnectionEvent>) {
        for queue in [&mut self.events, batch] {
            if queue.capacity() > KEPT_PLACES {
                *queue = VecDeque::new();
            }
        }
    }

    /// Nothing has come for a while: the places for it are given back.
    pub(crate) fn rest(&mut self) {
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// The connection is over: nothing is kept any more.
    pub(crate) fn clear(&mut self, total: &ReadAhead) {
        total.give_back(self.collected.own + self.queued.own);
        let waker = self.waker.take();
        *self = Self::default();
        self.waker = waker;
    }
}

/// The inbox of a connection, into which other threads put datagrams.
#[derive(Default)]
pub(crate) struct SharedInbox(Mutex<Inbox>);

impl SharedInbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts datagrams in. Wakes the task only if it sleeps: while it works, it looks into the inbox by itself.
    pub(crate) fn deliver(
        &self,
        run: Run,
        events: impl Iterator<Item = ConnectionEvent>,
        total: &ReadAhead,
    ) {
        let waker = self.lock().push(run, events, total);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// There is no room for datagrams.
#[cold]
#[inline(never)]
fn drop_all(run: Run, events: impl Iterator<Item = ConnectionEvent>) {
    tracing::debug!(bytes = run.bytes, "inbox full: datagrams dropped");
    // The caller's queue moves on all the same.
    events.for_each(drop);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::BytesMut;
    use proto::{ClientConfig, DatagramEvent, Endpoint, EndpointConfig, FourTuple};

    use super::*;

    /// Makes datagrams for a connection.
    pub(crate) struct Source {
        endpoint: Endpoint,
        header: Vec<u8>,
        path: FourTuple,
        blocks: u64,
    }

    impl Source {
        pub(crate) fn new() -> Self {
            let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::new([1; 32])), None);
            let config =
                ClientConfig::with_root_certificates(rustls::RootCertStore::empty()).unwrap();
            let path = FourTuple {
                local: "127.0.0.1:1000".parse().unwrap(),
                remote: "127.0.0.1:443".parse().unwrap(),
            };
            let now = Instant::now();
            let (_, mut connection) = endpoint.connect(now, config, path, "localhost").unwrap();
            let mut first = Vec::new();
            let _ = connection.poll_transmit(now, 1, &mut first).unwrap();
            // RFC 9000 section 17.2: what it sends from is where we send to.
            let scid = 6 + usize::from(first[5]);
            let len = usize::from(first[scid]);
            let mut header = vec![0x40];
            header.extend(&first[scid + 1..scid + 1 + len]);
            Self {
                endpoint,
                header,
                path,
                blocks: 0,
            }
        }

        /// A datagram at the start of a block of its own, and the rest of the block.
        pub(crate) fn datagram(&mut self, len: usize) -> (Run, ConnectionEvent, BytesMut) {
            let mut block = BytesMut::with_capacity(BLOCK);
            block.extend_from_slice(&self.header);
            block.resize(self.header.len().max(len), 0);
            let datagram = block.split();
            let bytes = datagram.len();
            let event =
                self.endpoint
                    .handle(Instant::now(), self.path, None, datagram, &mut Vec::new());
            let Some(DatagramEvent::ConnectionEvent(_, event)) = event else {
                panic!("{event:?}");
            };
            self.blocks += 1;
            let run = Run {
                events: 1,
                bytes,
                first_block: self.blocks,
                last_block: self.blocks,
            };
            (run, event, block)
        }
    }

    /// Memory of blocks that datagrams still hold.
    fn held(rests: &mut [BytesMut]) -> usize {
        let held = rests.iter_mut().filter_map(|rest| {
            let free = rest.try_reclaim(BLOCK);
            (!free).then_some(BLOCK)
        });
        held.sum()
    }

    #[test]
    fn a_task_that_is_behind_holds_what_is_counted_and_no_more() {
        let (mut source, total, mut inbox) =
            (Source::new(), ReadAhead::default(), Inbox::default());
        let mut rests = Vec::new();
        let mut bytes = 0;
        for _ in 0..2000 {
            let (run, event, rest) = source.datagram(1);
            bytes += run.bytes;
            inbox.push(run, std::iter::once(event), &total);
            rests.push(rest);
        }
        let blocks = held(&mut rests);
        let records = inbox.events.len() * size_of::<ConnectionEvent>();
        let counted = inbox.queued.held;
        assert_eq!(inbox.events.len(), 2000);
        assert!(
            blocks + records + bytes <= counted + BLOCK,
            "{blocks} {counted}"
        );
        // Slices would hold 64 KiB for each.
        assert!(blocks <= BLOCK, "{blocks}");
        assert_eq!(total.bytes(), inbox.queued.own);

        let mut batch = VecDeque::new();
        let waker = Waker::noop();
        inbox.collect(&mut batch, waker, &total);
        assert_eq!(batch.len(), 2000);
        // They are still there, so they still count.
        assert!(total.bytes() > 0 && inbox.collected.held == counted);
        batch.clear();
        inbox.collect(&mut batch, waker, &total);
        assert_eq!((total.bytes(), held(&mut rests)), (0, 0));
        // Nor does the idle queue keep the memory of the records.
        assert!(inbox.events.capacity() + batch.capacity() <= 2 * KEPT_PLACES);
    }

    #[test]
    fn the_bounds_hold_for_the_tiniest_datagrams_and_for_all_connections() {
        let (mut source, total) = (Source::new(), ReadAhead::default());
        let mut inboxes: Vec<Inbox> = (0..6).map(|_| Inbox::default()).collect();
        let per_datagram = RECORD + 9;
        for inbox in &mut inboxes {
            let mut dropped = 0;
            while dropped < 10 {
                let before = inbox.events.len();
                let (run, event, _) = source.datagram(1);
                inbox.push(run, std::iter::once(event), &total);
                dropped += usize::from(inbox.events.len() == before);
                assert!(inbox.queued.held <= MAX_HELD && total.bytes() <= MAX_HELD_TOTAL);
            }
        }
        // The first ones are full by themselves, the last ones because of the others.
        let counts: Vec<_> = inboxes.iter().map(|inbox| inbox.events.len()).collect();
        assert!(counts[0] > MAX_HELD / per_datagram * 9 / 10, "{counts:?}");
        assert!(counts[5] < counts[0] / 2, "{counts:?}");
        for inbox in &mut inboxes {
            inbox.clear(&total);
        }
        assert_eq!(total.bytes(), 0);
    }

    #[test]
    fn a_task_that_keeps_up_copies_nothing() {
        let (mut source, total, mut inbox) =
            (Source::new(), ReadAhead::default(), Inbox::default());
        let mut batch = VecDeque::new();
        let mut rests = Vec::new();
        for _ in 0..10 {
            let (run, event, rest) = source.datagram(1200);
            inbox.push(run, std::iter::once(event), &total);
            rests.push(rest);
            assert_eq!(held(&mut rests), BLOCK);
            inbox.collect(&mut batch, Waker::noop(), &total);
            batch.clear();
        }
        // Nor is a batch that fills its blocks.
        let (mut run, event, rest) = source.datagram(BLOCK);
        inbox.push(run, std::iter::once(event), &total);
        rests.push(rest);
        let (next, event, rest) = source.datagram(BLOCK);
        run = next;
        inbox.push(run, std::iter::once(event), &total);
        rests.push(rest);
        assert_eq!(inbox.queued.held, 2 * (BLOCK + RECORD));
    }
}
