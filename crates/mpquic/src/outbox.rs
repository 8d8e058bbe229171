//! What one connection has to send, per socket; a socket whose buffer is full holds up no other.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use proto::{FourTuple, SpareBuffers, Transmit};

use crate::socket::{Sent, Socket, SocketSet, route, successor};
use crate::wait_queue::Turn;

/// Batches kept per full socket. Beyond, they are dropped as the interface's own queue drops them.
/// That happens only with several sockets in use: with one, nothing more is asked of the protocol
/// while it is full.
const MAX_PENDING: usize = 16;

/// The most datagrams asked of the protocol at once: what the system segments in one call. Where it segments nothing, they
/// are made together all the same, and go one by one.
const MAX_SEGMENTS: usize = 64;

/// The most bytes that the protocol writes at once: what goes in one call.
const MAX_BATCH: usize = 65_507;

/// The size of a datagram that goes in one call with a shorter one after it: to this, those with Initial packets are expanded
/// (RFC 9000 section 14.1), and it is the largest before the path MTU is known.
const JOINED: usize = 1200;

/// Whether it makes sense to ask for another datagram before this one is sent.
pub(crate) fn may_be_joined(first: &Transmit) -> bool {
    first.size == JOINED && first.segment_size.is_none()
}

/// Makes one batch of two datagrams, if one call can send both: the last one of a batch may be shorter. So it is with the
/// flights of a handshake.
pub(crate) fn join(first: &mut Transmit, second: &Transmit) -> bool {
    let fits = first.network_path == second.network_path
        && first.ecn == second.ecn
        && may_be_joined(first)
        && second.segment_size.is_none()
        && second.size <= first.size;
    if fits {
        first.segment_size = Some(first.size);
        first.size += second.size;
    }
    fits
}

/// Where the protocol writes.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The next batch to be sent.
    pub(crate) batch: Vec<u8>,
    /// For those of other paths.
    pub(crate) spare: SpareBuffers,
}

thread_local! {
    /// Of whichever connection runs: one that does not run has no buffers.
    static BUFFERS: Cell<Option<Buffers>> = const { Cell::new(None) };
}

/// A batch that waits for its socket.
struct Pending {
    transmit: Transmit,
    /// A copy, so that it holds what waits and not a buffer for the largest batch.
    data: Box<[u8]>,
    sent: usize,
}

/// One socket as this connection sees it.
struct Lane {
    socket: Arc<Socket>,
    pending: VecDeque<Pending>,
    /// Allocated only when the socket is full.
    turn: Option<Pin<Box<dyn Future<Output = Turn> + Send>>>,
}

impl Lane {
    const fn new(socket: Arc<Socket>) -> Self {
        Self {
            socket,
            pending: VecDeque::new(),
            turn: None,
        }
    }

    /// Sends what waits, when it is this connection's turn, and sees to it that the task is woken then.
    fn flush(&mut self, offload: bool, cx: &mut Context<'_>) {
        // Kept until what waits is gone, or the socket is full again: then it is the next one's.
        let mut turn = None;
        while let Some(first) = self.pending.front_mut() {
            if let Some(waiting) = &mut self.turn {
                let Poll::Ready(ours) = waiting.as_mut().poll(cx) else {
                    return;
                };
                turn = Some(ours);
                self.turn = None;
            }
            match self
                .socket
                .send(&first.transmit, &first.data, offload, &mut first.sent)
            {
                Sent::Blocked => {
                    turn = None;
                    self.wait();
                }
                Sent::Done | Sent::NoWay(_) => {
                    self.pending.pop_front();
                }
            }
        }
        drop(turn);
    }

    fn wait(&mut self) {
        if self.turn.is_none() {
            self.turn = Some(Box::pin(self.socket.turn()));
        }
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// It left, waits, or was dropped as a loss.
    Taken,
    /// No socket can send from its local address.
    Unroutable,
    /// The system knows no way from its local address to the remote one.
    NoWay(std::io::ErrorKind),
}

/// The sockets with what waits for them, and the buffer.
pub(crate) struct Outbox {
    generation: u64,
    lanes: Vec<Lane>,
    sockets: Arc<[Arc<Socket>]>,
    /// Taken from the thread while there is something to send.
    buffers: Option<Buffers>,
    /// The system may segment what goes in one call.
    offload: bool,
}

impl Outbox {
    pub(crate) fn new(set: &SocketSet, offload: bool) -> Self {
        let generation = set.generation();
        let sockets = set.snapshot();
        Self {
            generation,
            lanes: sockets
                .iter()
                .map(|socket| Lane::new(Arc::clone(socket)))
                .collect(),
            sockets,
            buffers: None,
            offload,
        }
    }

    /// Takes in changes of the endpoint's sockets; returns whether there were any. What waits for
    /// a socket that is gone is lost.
    pub(crate) fn refresh(&mut self, set: &SocketSet) -> bool {
        let generation = set.generation();
        if generation == self.generation {
            return false;
        }
        self.generation = generation;
        self.sockets = set.snapshot();
        let mut old = std::mem::take(&mut self.lanes);
        for socket in self.sockets.iter() {
            let kept = old
                .iter()
                .position(|lane| Arc::ptr_eq(&lane.socket, socket));
            self.lanes.push(match kept {
                Some(index) => old.swap_remove(index),
                None => Lane::new(Arc::clone(socket)),
            });
        }
        true
    }

    /// The addresses of the sockets, and how paths from them are to be used.
    pub(crate) fn locals(
        &self,
    ) -> impl Iterator<Item = (std::net::SocketAddr, proto::PathStatus)> + '_ {
        let sockets = self.sockets.iter();
        sockets.map(|socket| (socket.local(), socket.status()))
    }

    /// Whether a socket can send from this address.
    pub(crate) fn can_send_from(&self, local: std::net::SocketAddr) -> bool {
        route(&self.sockets, local).is_some()
    }

    /// The address of the socket that replaced the one with this address.
    pub(crate) fn successor(&self, local: std::net::SocketAddr) -> Option<std::net::SocketAddr> {
        successor(&self.sockets, local)
    }

    /// The largest IP packet that the link between these addresses takes, if that is known.
    pub(crate) fn link_mtu(&self, path: &FourTuple) -> Option<u32> {
        self.sockets[route(&self.sockets, path.local)?].link_mtu(path)
    }

    /// Whether a socket has something that was not received yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.sockets.iter().any(|socket| socket.has_unread())
    }

    /// Sends what waited and can go now.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        for lane in &mut self.lanes {
            lane.flush(self.offload, cx);
        }
    }

    /// Whether nothing waits for a socket.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.pending.is_empty())
    }

    /// Whether it makes sense to ask the protocol for more: not if there is but one socket and it
    /// is full.
    pub(crate) fn is_open(&self) -> bool {
        match self.lanes.as_slice() {
            [only] => only.pending.is_empty(),
            _ => true,
        }
    }

    /// The buffers, that of the next batch empty, and how many datagrams it may have.
    pub(crate) fn buffers(&mut self) -> (&mut Buffers, usize) {
        let buffers = self
            .buffers
            .get_or_insert_with(|| BUFFERS.take().unwrap_or_default());
        buffers.batch.clear();
        buffers.batch.reserve(MAX_BATCH);
        (buffers, MAX_SEGMENTS)
    }

    /// Others have their turn: the buffers go back, so that a thread has them for ever, and not one more for each connection
    /// that begins or ends.
    pub(crate) fn rest(&mut self) {
        if let Some(ours) = self.buffers.take() {
            BUFFERS.set(Some(ours));
        }
    }

    /// Sends what the protocol wrote for a batch, at this place of the buffer.
    pub(crate) fn dispatch(
        &mut self,
        transmit: &Transmit,
        at: usize,
        cx: &mut Context<'_>,
    ) -> Dispatch {
        let Some(index) = route(&self.sockets, transmit.network_path.local) else {
            return Dispatch::Unroutable;
        };
        let lane = &mut self.lanes[index];
        let data = self.buffers.as_ref();
        let data = data.and_then(|ours| ours.batch.get(at..at + transmit.size));
        let data = data.unwrap_or_default();
        let mut sent = 0;
        if lane.pending.is_empty() && lane.socket.is_awaited() {
            // Whose packets come later does not pass those who wait.
            lane.wait();
        } else if lane.pending.is_empty() {
            match lane.socket.send(transmit, data, self.offload, &mut sent) {
                Sent::Done => return Dispatch::Taken,
                Sent::NoWay(kind) => return Dispatch::NoWay(kind),
                Sent::Blocked => lane.wait(),
            }
        } else if lane.pending.len() >= MAX_PENDING {
            tracing::trace!(path = %transmit.network_path, "socket full: batch dropped");
            return Dispatch::Taken;
        }
        lane.pending.push_back(Pending {
            transmit: *transmit,
            data: data.into(),
            sent,
        });
        lane.flush(self.offload, cx);
        Dispatch::Taken
    }
}

#[cfg(test)]
mod tests {
    use proto::{EcnCodepoint, FourTuple};

    use super::*;

    fn transmit(size: usize) -> Transmit {
        Transmit {
            network_path: FourTuple {
                local: "127.0.0.1:1".parse().unwrap(),
                remote: "127.0.0.1:2".parse().unwrap(),
            },
            ecn: Some(EcnCodepoint::Ect0),
            size,
            segment_size: None,
        }
    }

    /// The system lets only the last datagram of a call be shorter.
    #[test]
    fn a_datagram_goes_with_a_shorter_one_to_the_same_place() {
        for second in [1, 365, 1200] {
            let mut first = transmit(1200);
            assert!(join(&mut first, &transmit(second)));
            assert_eq!(
                (first.segment_size, first.size),
                (Some(1200), 1200 + second)
            );
            assert!(!join(&mut first, &transmit(1)), "it is a batch already");
        }
        let mut elsewhere = transmit(100);
        elsewhere.network_path.remote.set_port(3);
        let mut unmarked = transmit(100);
        unmarked.ecn = None;
        let mut batch = transmit(100);
        batch.segment_size = Some(50);
        for other in [elsewhere, unmarked, batch, transmit(1201)] {
            let mut first = transmit(1200);
            assert!(!join(&mut first, &other));
            assert_eq!((first.segment_size, first.size), (None, 1200));
        }
        // A probe for the path MTU goes alone; what is small leaves at once.
        for alone in [1300, 1199] {
            assert!(!join(&mut transmit(alone), &transmit(100)));
        }
    }
}
