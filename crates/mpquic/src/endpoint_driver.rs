//! The task of one endpoint: receives on all sockets and hands datagrams to where they belong.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use proto::{ConnectionEvent, DatagramEvent, Transmit};
use tokio::time::Instant;

use crate::endpoint_shared::EndpointShared;
use crate::receive::{Datagram, Receiver};
use crate::shared::Shared;
use crate::socket::Socket;

/// System calls per socket before the next socket gets its turn.
const CALLS_PER_TURN: usize = 4;

/// Turns before other tasks get theirs.
const TURNS_PER_POLL: usize = 4;

/// Errors in a row after which a socket is taken for dead. One by one they are harmless: some
/// systems report here that a peer was unreachable.
const MAX_ERRORS: u32 = 64;

/// A socket and how it behaves.
struct Source {
    socket: Arc<Socket>,
    errors: u32,
}

/// Consecutive datagrams of one connection.
struct Run {
    connection: Arc<Shared>,
    datagrams: usize,
    bytes: usize,
}

/// The task.
pub(crate) struct EndpointDriver {
    shared: Arc<EndpointShared>,
    generation: Option<u64>,
    sources: Vec<Source>,
    receiver: Receiver,
    inbound: Inbound,
}

/// What a batch turns into; the memory is used again.
#[derive(Default)]
struct Inbound {
    datagrams: Vec<Datagram>,
    events: Vec<ConnectionEvent>,
    runs: Vec<Run>,
    responses: Vec<Transmit>,
    response_data: Vec<u8>,
    refused: Vec<proto::Incoming>,
}

impl EndpointDriver {
    pub(crate) fn new(shared: Arc<EndpointShared>) -> Self {
        Self {
            shared,
            generation: None,
            sources: Vec::new(),
            receiver: Receiver::new(),
            inbound: Inbound::default(),
        }
    }

    fn refresh(&mut self) {
        let generation = self.shared.sockets.generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        let sockets = self.shared.sockets.snapshot();
        let errors = |socket: &Arc<Socket>| {
            let known = self
                .sources
                .iter()
                .find(|old| Arc::ptr_eq(&old.socket, socket));
            known.map_or(0, |old| old.errors)
        };
        self.sources = sockets
            .iter()
            .map(|socket| Source {
                errors: errors(socket),
                socket: Arc::clone(socket),
            })
            .collect();
    }

    /// Receives on one socket for a while; returns whether there may be more.
    fn turn(&mut self, index: usize, cx: &mut Context<'_>) -> bool {
        let source = &mut self.sources[index];
        for _ in 0..CALLS_PER_TURN {
            if source.errors >= MAX_ERRORS {
                return false;
            }
            let ready = match source.socket.poll_recv_ready(cx) {
                Poll::Pending => return false,
                Poll::Ready(ready) => ready,
            };
            let datagrams = &mut self.inbound.datagrams;
            let result = ready.and_then(|()| {
                self.receiver
                    .receive(&source.socket, |datagram| datagrams.push(datagram))
            });
            match result {
                Ok(()) => {
                    source.errors = 0;
                    self.inbound.process(&self.shared);
                }
                // The next look at the readiness waits for a new event.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    let local = source.socket.local();
                    tracing::debug!(%local, %error, "receiving");
                    source.errors += 1;
                    if source.errors == MAX_ERRORS {
                        tracing::warn!(%local, %error, "socket given up");
                        self.shared.remove_socket(local);
                        return false;
                    }
                }
            }
        }
        true
    }
}

impl Inbound {
    /// Sorts the batch under one hold of the endpoint's mutex, and delivers it after.
    fn process(&mut self, shared: &EndpointShared) {
        let now = Instant::now().into_std();
        let mut news = false;
        {
            let mut state = shared.lock();
            let state = &mut *state;
            for datagram in self.datagrams.drain(..) {
                let bytes = datagram.payload.len();
                let event = state.proto.handle(
                    now,
                    datagram.network_path,
                    datagram.ecn,
                    datagram.payload,
                    &mut self.response_data,
                );
                match event {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        match self.runs.last_mut() {
                            Some(run) if run.connection.handle == handle => {
                                run.datagrams += 1;
                                run.bytes += bytes;
                            }
                            _ => {
                                let Some(connection) = state.connection(handle) else {
                                    continue;
                                };
                                self.runs.push(Run {
                                    connection: Arc::clone(connection),
                                    datagrams: 1,
                                    bytes,
                                });
                            }
                        }
                        self.events.push(event);
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        if state.closed || shared.is_orphan() {
                            self.refused.push(incoming);
                        } else {
                            state.incoming.push_back(incoming);
                            news = true;
                        }
                    }
                    Some(DatagramEvent::Response(transmit)) => self.responses.push(transmit),
                    // Nothing to do, or nothing that this driver knows of.
                    _ => {}
                }
            }
        }
        let mut events = self.events.drain(..);
        for run in self.runs.drain(..) {
            run.connection
                .deliver(events.by_ref().take(run.datagrams), run.bytes);
        }
        drop(events);
        let mut start = 0;
        for transmit in self.responses.drain(..) {
            let end = start + transmit.size;
            if let Some(data) = self.response_data.get(start..end) {
                shared.respond(&transmit, data);
            }
            start = end;
        }
        self.response_data.clear();
        for incoming in self.refused.drain(..) {
            shared.refuse(incoming);
        }
        if news {
            shared.incoming.notify_waiters();
        }
    }
}

impl Future for EndpointDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut state = this.shared.lock();
            if this.shared.is_finished(&state) {
                return Poll::Ready(());
            }
            // Before the sockets are looked at, so that a change after that wakes.
            state.driver = Some(cx.waker().clone());
        }
        this.refresh();
        for _ in 0..TURNS_PER_POLL {
            let mut more = false;
            for index in 0..this.sources.len() {
                more |= this.turn(index, cx);
            }
            if !more {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
