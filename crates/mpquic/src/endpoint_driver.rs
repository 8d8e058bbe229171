//! The task of one shard of an endpoint: receives on its sockets and hands datagrams to where they belong.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use proto::{ConnectionEvent, DatagramEvent, Transmit};
use tokio::time::{Instant, Sleep};

use crate::endpoint_shared::EndpointShared;
use crate::inbox::{OWN, Run};
use crate::receive::{Message, Receiver};
use crate::shared::Shared;
use crate::socket::Socket;
use crate::socket_health::{Health, SocketEvent};

/// System calls per socket before the next socket gets its turn.
const CALLS_PER_TURN: usize = 2;

/// Turns before other tasks get theirs. What is read meanwhile, at most 2 MiB of one socket, waits for the tasks of its
/// connections: to read far ahead of them costs memory and the processor's cache, and makes them look late.
const TURNS_PER_POLL: usize = 2;

/// Looks at where datagrams belong under one hold of the endpoint's mutex.
const LOOKS_PER_HOLD: usize = 64;

/// Retry packets that are written and sent between two looks at the sockets: some tens of microseconds, fewer than a handshake
/// takes.
const RETRIES_PER_POLL: usize = 16;

/// Datagrams that are read before Retry packets are sent, if the sockets always have more: an eighth of what a socket holds, so
/// that a flood faster than we read does not keep everybody from an answer.
const READ_BEFORE_RETRIES: usize = 1024;

/// A socket and how it behaves.
struct Source {
    socket: Arc<Socket>,
    health: Health,
}

/// The task.
pub(crate) struct EndpointDriver {
    shared: Arc<EndpointShared>,
    generation: Option<u64>,
    sources: Vec<Source>,
    receiver: Receiver,
    inbound: Inbound,
    /// For what waits to be accepted, and for sockets that rest.
    timer: Pin<Box<Sleep>>,
    /// Datagrams received since Retry packets could be sent.
    read: usize,
    finished: bool,
}

/// What a batch turns into; the memory is used again.
#[derive(Default)]
struct Inbound {
    messages: VecDeque<Message>,
    events: Vec<ConnectionEvent>,
    runs: Vec<(Arc<Shared>, Run)>,
    responses: Vec<Transmit>,
    response_data: Vec<u8>,
    refused: Vec<proto::Incoming>,
    /// What belongs to other shards.
    forwarded: VecDeque<(u16, Message)>,
    /// When the first client that waits to be accepted is forgotten.
    expiry: Option<Instant>,
    /// Clients wait for a Retry packet.
    retries: bool,
}

impl EndpointDriver {
    pub(crate) fn new(shared: Arc<EndpointShared>) -> Self {
        Self {
            shared,
            generation: None,
            sources: Vec::new(),
            receiver: Receiver::new(),
            inbound: Inbound::default(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            read: 0,
            finished: false,
        }
    }

    fn refresh(&mut self) {
        let generation = self.shared.sockets.generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        let sockets = self.shared.sockets.snapshot();
        let health = |socket: &Arc<Socket>| {
            let known = self
                .sources
                .iter()
                .find(|old| Arc::ptr_eq(&old.socket, socket));
            known.map(|old| old.health).unwrap_or_default()
        };
        let shard = self.shared.shard;
        self.sources = sockets
            .iter()
            .filter(|socket| socket.is_read_by(shard))
            .map(|socket| Source {
                health: health(socket),
                socket: Arc::clone(socket),
            })
            .collect();
    }

    /// Receives on one socket for a while; returns whether there may be more.
    fn turn(&mut self, index: usize, cx: &mut Context<'_>) -> bool {
        let source = &mut self.sources[index];
        for _ in 0..CALLS_PER_TURN {
            if source.health.rests_until(Instant::now()).is_some() {
                return false;
            }
            let ready = match source.socket.poll_recv_ready(cx) {
                Poll::Pending => return false,
                Poll::Ready(ready) => ready,
            };
            let messages = &mut self.inbound.messages;
            let received = ready.map(|()| {
                let sink = |message| messages.push_back(message);
                self.receiver.poll_receive(cx, &source.socket, sink)
            });
            let result = match received {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(result)) => result,
                Err(error) => Err(error),
            };
            let local = source.socket.local();
            match result {
                Ok(()) => {
                    if source.health.on_received() {
                        tracing::info!(%local, "socket receives again");
                        self.shared.common.tell(SocketEvent::Recovered { local });
                    }
                    let count = self.inbound.messages.iter().map(Message::count).sum();
                    self.read += count;
                    self.shared.common.on_received(self.shared.shard, count);
                    self.inbound.process(&self.shared, false);
                }
                // The next look at the readiness waits for a new event.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::debug!(%local, %error, "receiving");
                    if source.health.on_error(Instant::now()) {
                        tracing::warn!(%local, %error, "socket fails to receive");
                        let error = error.kind();
                        self.shared
                            .common
                            .tell(SocketEvent::Failing { local, error });
                    }
                }
            }
        }
        true
    }

    /// Sets the timer for what comes next; returns whether it has come already.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let rests = self.sources.iter_mut();
        let rests = rests.filter_map(|source| source.health.rests_until(now));
        let Some(next) = rests.chain(self.inbound.expiry).min() else {
            return false;
        };
        if self.timer.deadline() != next {
            self.timer.as_mut().reset(next);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl Inbound {
    /// Sorts the batch and delivers it: what belongs to connections first, then what wants to be one. Another shard has
    /// passed it on, or it was received here.
    fn process(&mut self, shared: &EndpointShared, passed_on: bool) {
        let mut news = false;
        // Others want the mutex, too: each hold is short, however much was received at once.
        while !self.messages.is_empty() {
            news |= self.sort(shared, passed_on);
            let mut events = self.events.drain(..);
            for (connection, run) in self.runs.drain(..) {
                connection.deliver(run, events.by_ref().take(run.events));
            }
        }
        shared.common.forward(shared.shard, &mut self.forwarded);
        self.respond(shared);
        for incoming in self.refused.drain(..) {
            shared.refuse(incoming);
        }
        if news {
            shared.common.incoming.notify_one();
        }
    }

    fn respond(&mut self, shared: &EndpointShared) {
        let mut start = 0;
        for transmit in self.responses.drain(..) {
            let end = start + transmit.size;
            if let Some(data) = self.response_data.get(start..end) {
                shared.respond(&transmit, data);
            }
            start = end;
        }
        self.response_data.clear();
    }

    /// Has some of those who wait prove their address.
    fn send_retries(&mut self, shared: &EndpointShared) {
        let now = Instant::now().into_std();
        let ready = {
            let mut state = shared.lock();
            let (proto, answers) = (&mut state.proto, &mut self.response_data);
            let retries = std::iter::from_fn(|| proto.next_retry(now, answers));
            self.responses.extend(retries.take(RETRIES_PER_POLL));
            self.retries = proto.has_next_retry();
            proto.has_next_incoming()
        };
        self.respond(shared);
        if ready {
            shared.common.incoming.notify_one();
        }
    }

    /// Sorts some of the batch under one hold of the endpoint's mutex. Whether there are new clients to be accepted.
    fn sort(&mut self, shared: &EndpointShared, passed_on: bool) -> bool {
        let now = Instant::now().into_std();
        let mut news = false;
        let mut state = shared.lock();
        let state = &mut *state;
        for _ in 0..LOOKS_PER_HOLD {
            let Some(message) = self.messages.front_mut() else {
                break;
            };
            let (network_path, ecn, block) = (message.network_path, message.ecn, message.block);
            let (payload, answers) = (&mut message.payload, &mut self.response_data);
            let before = payload.len();
            let event = if passed_on {
                // One by one.
                let datagram = std::mem::take(payload);
                let proto = &mut state.proto;
                proto.handle_forwarded(now, network_path, ecn, datagram, answers)
            } else {
                let (proto, segment) = (&mut state.proto, message.segment);
                proto.handle_first(now, network_path, ecn, payload, segment, answers)
            };
            let bytes = before - payload.len();
            if payload.is_empty() {
                self.messages.pop_front();
            }
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    match self.runs.last_mut() {
                        Some((connection, run)) if connection.handle == handle => {
                            run.events += 1;
                            run.bytes += bytes;
                            run.last_block = block;
                        }
                        _ => {
                            let Some(connection) = state.connection(handle) else {
                                continue;
                            };
                            let run = Run {
                                events: 1,
                                bytes,
                                first_block: block,
                                last_block: block,
                            };
                            self.runs.push((Arc::clone(connection), run));
                        }
                    }
                    self.events.push(event);
                }
                Some(DatagramEvent::Queued) => {
                    if state.closed || shared.common.is_orphan() {
                        self.refused.extend(state.proto.drain_clients());
                    } else {
                        news = true;
                    }
                }
                Some(DatagramEvent::Response(transmit)) => self.responses.push(transmit),
                Some(DatagramEvent::Forward(to, payload)) => {
                    // A copy: a slice would keep a block of this shard until the other one has read it.
                    let message = Message {
                        network_path,
                        ecn,
                        payload: BytesMut::from(&payload[..]),
                        segment: payload.len().max(1),
                        block: OWN,
                    };
                    self.forwarded.push_back((to, message));
                }
                // Nothing to do, or nothing that this driver knows of.
                _ => {}
            }
        }
        self.expiry = state.expire(now).map(Instant::from_std);
        self.retries |= news && state.proto.has_next_retry();
        news && state.proto.has_next_incoming()
    }
}

impl Future for EndpointDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut state = this.shared.lock();
            if this.shared.common.is_finished() {
                this.finished = true;
                return Poll::Ready(());
            }
            let now = Instant::now().into_std();
            this.inbound.expiry = state.expire(now).map(Instant::from_std);
            this.inbound.retries = state.proto.has_next_retry();
        }
        // Before the sockets are looked at, so that a change after that wakes.
        let (shard, common) = (this.shared.shard, &this.shared.common);
        common.collect(shard, &mut this.inbound.messages, cx.waker());
        this.inbound.process(&this.shared, true);
        this.refresh();
        let mut more = false;
        for _ in 0..TURNS_PER_POLL {
            more = false;
            for index in 0..this.sources.len() {
                more |= this.turn(index, cx);
            }
            if !more {
                break;
            }
        }
        if !more || this.read >= READ_BEFORE_RETRIES {
            this.read = 0;
            if this.inbound.retries {
                this.inbound.send_retries(&this.shared);
            }
            if this.inbound.retries && !more {
                // All other tasks come first, and the sockets are looked at: who has answered does not wait for all.
                let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
                return Poll::Pending;
            }
        }
        if !more && !this.arm(cx) {
            return Poll::Pending;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for EndpointDriver {
    /// Also if the runtime shuts down under the task, or it panics: nothing is received any more, so nobody
    /// may wait for what would come.
    fn drop(&mut self) {
        if !self.finished {
            self.shared.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use crate::{Endpoint, SocketEvent};

    /// A server's only socket reports errors without end, and comes back.
    #[tokio::test(flavor = "current_thread")]
    async fn a_socket_that_fails_is_kept() {
        let endpoint = Endpoint::client(&[(Ipv4Addr::LOCALHOST, 0).into()]).unwrap();
        let local = endpoint.local_addrs()[0];
        let mut events = endpoint.socket_events();
        let socket = endpoint.shard(0).sockets.snapshot()[0].clone();
        socket.failures.store(70, Ordering::Relaxed);
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sender.send_to(b"there is something", local).unwrap();
        // The deadline is there to fail a test that hangs.
        let told = tokio::time::timeout(Duration::from_secs(60), async {
            [events.recv().await, events.recv().await]
        });
        let error = std::io::ErrorKind::NetworkDown;
        assert_eq!(
            told.await.unwrap(),
            [
                Some(SocketEvent::Failing { local, error }),
                Some(SocketEvent::Recovered { local })
            ]
        );
        assert_eq!(socket.failures.load(Ordering::Relaxed), 0);
        assert_eq!(endpoint.local_addrs(), [local]);
    }
}
