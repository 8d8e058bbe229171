//! What the shards of an endpoint have in common, and datagrams on their way from one to another.

use std::collections::VecDeque;
use std::task::Waker;

use tokio::sync::{Notify, broadcast};

use crate::crowd::Crowd;
use crate::recv_buffers::Message;
use crate::socket_health::{SOCKET_EVENTS, SocketEvent};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of datagrams that wait for a shard, sent by others. Beyond, they are dropped as a full socket buffer drops them.
const MAX_WAITING: usize = 4 << 20;

/// What a datagram takes beside its bytes.
const RECORD: usize = size_of::<Message>() + 32;

/// What is said to the task of a shard.
#[derive(Default)]
struct Mailbox {
    datagrams: VecDeque<Message>,
    bytes: usize,
    /// Of the shard's task.
    waker: Option<Waker>,
}

/// Datagrams of a shard, counted since it began.
#[derive(Default)]
struct Counts {
    received: AtomicU64,
    forwarded: AtomicU64,
    dropped: AtomicU64,
}

/// A shard as the others see it. A cache line of its own: the counts change with every batch.
#[derive(Default)]
#[repr(align(128))]
struct Door {
    mailbox: Mutex<Mailbox>,
    counts: Counts,
}

impl Door {
    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Datagrams that a shard of an endpoint received, counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Connections that it has, closing ones included.
    pub connections: usize,
    /// Datagrams that came to its sockets.
    pub received: u64,
    /// Of these, the ones that belonged to another shard and were passed on to it.
    pub forwarded: u64,
    /// Datagrams that others passed on to it and that were dropped, since it was too far behind.
    pub dropped: u64,
}

/// What is the endpoint's and not one shard's. Nothing of it is touched on the way of a packet that came to its shard.
pub(crate) struct Shards {
    /// Something came in to be accepted, or the endpoint was closed.
    pub(crate) incoming: Notify,
    pub(crate) idle: Notify,
    pub(crate) socket_events: broadcast::Sender<SocketEvent>,
    handles: AtomicUsize,
    /// Connections of all shards.
    open: AtomicUsize,
    pub(crate) crowd: Crowd,
    doors: Box<[Door]>,
    /// Counts those who ask whose turn it is.
    turns: AtomicUsize,
}

impl Shards {
    /// With one handle.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            incoming: Notify::new(),
            idle: Notify::new(),
            socket_events: broadcast::Sender::new(SOCKET_EVENTS),
            handles: AtomicUsize::new(1),
            open: AtomicUsize::new(0),
            crowd: Crowd::default(),
            doors: (0..shards).map(|_| Door::default()).collect(),
            turns: AtomicUsize::new(0),
        }
    }

    /// The shard whose turn it is.
    pub(crate) fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed) % self.doors.len()
    }

    /// There is one more handle of the endpoint.
    pub(crate) fn on_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// A handle is gone. Whether it was the last: the tasks end when the last connection has.
    pub(crate) fn on_handle_gone(&self) -> bool {
        let last = self.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            self.wake_all();
            self.idle.notify_waiters();
        }
        last
    }

    /// Whether nobody will accept what comes in.
    pub(crate) fn is_orphan(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    /// Whether the tasks have nothing left to do. Each stays while another has connections: it may receive for that one.
    pub(crate) fn is_finished(&self) -> bool {
        self.open() == 0 && self.is_orphan()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn on_open(&self) {
        let before = self.open.fetch_add(1, Ordering::AcqRel);
        self.crowd.on_open(before + 1);
    }

    /// So many connections are over.
    pub(crate) fn on_gone(&self, count: usize) {
        if count == 0 || self.open.fetch_sub(count, Ordering::AcqRel) != count {
            return;
        }
        self.idle.notify_waiters();
        // Whether or not a handle is left: the last one may go at the same time, and not be seen here.
        self.wake_all();
    }

    /// The shard's task is to look at what changed.
    pub(crate) fn wake(&self, shard: usize) {
        let waker = self.doors[shard].mailbox().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn wake_all(&self) {
        for shard in 0..self.doors.len() {
            self.wake(shard);
        }
    }

    /// The task of a shard begins to look at what there is to do: takes what others have passed on to it. Whether there is anything left
    /// to do at all.
    pub(crate) fn begin(
        &self,
        shard: usize,
        datagrams: &mut VecDeque<Message>,
        waker: &Waker,
    ) -> bool {
        // In this order: who ends what is left, and finds nobody to wake, did so before it is looked at.
        self.collect(shard, datagrams, waker);
        !self.is_finished()
    }

    /// Takes what others have passed on to this shard; `datagrams` must be empty. Its task will be woken by what comes next.
    pub(crate) fn collect(&self, shard: usize, datagrams: &mut VecDeque<Message>, waker: &Waker) {
        debug_assert!(datagrams.is_empty());
        let mut mailbox = self.doors[shard].mailbox();
        if !mailbox.datagrams.is_empty() {
            mailbox.bytes = 0;
            std::mem::swap(&mut mailbox.datagrams, datagrams);
        }
        match &mut mailbox.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Passes datagrams on, each to the shard with this number. Each must be in memory of its own.
    pub(crate) fn forward(&self, from: usize, datagrams: &mut VecDeque<(u16, Message)>) {
        let count = datagrams.len() as u64;
        if count > 0 {
            let counts = &self.doors[from].counts;
            counts.forwarded.fetch_add(count, Ordering::Relaxed);
        }
        while let Some((to, first)) = datagrams.pop_front() {
            let Some(door) = self.doors.get(usize::from(to)) else {
                continue;
            };
            let mut next = Some(first);
            let mut dropped = 0;
            let waker = {
                let mut mailbox = door.mailbox();
                while let Some(datagram) = next.take() {
                    let bytes = datagram.payload.len() + RECORD;
                    if mailbox.bytes + bytes <= MAX_WAITING {
                        mailbox.bytes += bytes;
                        mailbox.datagrams.push_back(datagram);
                    } else {
                        dropped += 1;
                    }
                    if datagrams.front().is_some_and(|(shard, _)| *shard == to) {
                        next = datagrams.pop_front().map(|(_, datagram)| datagram);
                    }
                }
                mailbox.waker.take()
            };
            door.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    pub(crate) fn on_received(&self, shard: usize, datagrams: usize) {
        let counts = &self.doors[shard].counts;
        counts
            .received
            .fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, shard: usize, connections: usize) -> ShardStats {
        let counts = &self.doors[shard].counts;
        ShardStats {
            connections,
            received: counts.received.load(Ordering::Relaxed),
            forwarded: counts.forwarded.load(Ordering::Relaxed),
            dropped: counts.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn tell(&self, event: SocketEvent) {
        // No receiver is fine.
        let _ = self.socket_events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use bytes::BytesMut;
    use proto::FourTuple;

    use super::*;
    use crate::inbox::OWN;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn datagram(len: usize) -> Message {
        let address = "127.0.0.1:1".parse().unwrap();
        Message {
            network_path: FourTuple {
                local: address,
                remote: address,
            },
            ecn: None,
            payload: BytesMut::zeroed(len),
            segment: len,
            block: OWN,
        }
    }

    #[test]
    fn what_is_passed_on_is_bounded_and_wakes_once() {
        let common = Shards::new(2);
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut taken = VecDeque::new();
        common.collect(1, &mut taken, &waker);
        let mut sent = 0;
        while common.stats(1, 0).dropped == 0 {
            common.forward(0, &mut (0..100).map(|_| (1, datagram(1200))).collect());
            sent += 100;
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        common.collect(1, &mut taken, &waker);
        let held: usize = taken.iter().map(|one| one.payload.len() + RECORD).sum();
        assert!(held <= MAX_WAITING && held > MAX_WAITING * 9 / 10, "{held}");
        let (zero, one) = (common.stats(0, 0), common.stats(1, 0));
        assert_eq!((zero.forwarded, zero.dropped, one.forwarded), (sent, 0, 0));
        assert_eq!(one.dropped + taken.len() as u64, sent);
        // There is room again, for those to whom it leads: no such shard gets nothing.
        taken.clear();
        common.forward(0, &mut VecDeque::from([(9, datagram(1)), (1, datagram(1))]));
        common.collect(1, &mut taken, &waker);
        assert_eq!((taken.len(), woken.0.load(Ordering::Relaxed)), (1, 2));
    }
}
