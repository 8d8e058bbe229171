//! Receives on the sockets of a shard and hands datagrams to where they belong.
//!
//! The runtime lets tasks run in turns. With a thousand connections that have work to do, the endpoint's task would have its turn
//! every few tens of milliseconds, and what a socket holds is full in a few. So a task of a connection that finds the sockets
//! unread for long reads them in place of the endpoint's task. What waits then waits in the inboxes, which hold more.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, FourTuple, Transmit};
use tokio::time::Instant;

use crate::coalescing::{Coalescing, Gathered};
use crate::connection_state::Shared;
use crate::endpoint_state::{EndpointShared, EndpointState};
use crate::inbox::{OWN, Run};
use crate::recv_buffers::{Message, Receiver};
use crate::socket::Socket;
use crate::socket_health::{Health, SocketEvent};

/// System calls per socket before the next socket gets its turn.
const CALLS_PER_TURN: usize = 2;

/// Turns before other tasks get theirs. What is read meanwhile, at most 2 MiB of one socket, waits for the tasks of its
/// connections: what they find in the processor's cache costs them less.
const TURNS_PER_POLL: usize = 2;

/// System calls per socket of a task that reads in place of the endpoint's: what a full socket holds.
const CALLS_IN_PLACE: usize = 16;

/// If less than this came for so long, it is enough that the endpoint's task reads.
const MUCH: usize = 64 << 10;
const QUIET: Duration = Duration::from_millis(20);

/// If less than [`MUCH`] came at a time for so long, the blocks in which it came are given back.
const REST: Duration = Duration::from_secs(1);

/// What a message takes in a socket beside its bytes, about.
const RECORD: usize = 1 << 10;

/// Looks at where datagrams belong under one hold of the endpoint's mutex.
const LOOKS_PER_HOLD: usize = 64;

/// Retry packets that are written and sent between two looks at the sockets: some tens of microseconds, fewer than a handshake
/// takes.
const RETRIES_PER_POLL: usize = 16;

/// A socket and how it behaves.
struct Source {
    socket: Arc<Socket>,
    health: Health,
}

/// What a batch turns into; the memory is used again.
#[derive(Default)]
struct Inbound {
    messages: VecDeque<Message>,
    /// What was received here, and the messages in which it came.
    gathered: Gathered,
    count: usize,
    /// The connection for which they are, since the sockets were read last, and whether there are others.
    receiver: Option<ConnectionHandle>,
    has_several: bool,
    events: Vec<ConnectionEvent>,
    runs: Vec<(Arc<Shared>, Run)>,
    responses: Vec<Transmit>,
    response_data: Vec<u8>,
    refused: Vec<proto::Incoming>,
    /// What belongs to other shards.
    forwarded: VecDeque<(u16, Message)>,
    /// When the first client that waits to be accepted is forgotten, or what is left of a connection.
    expiry: Option<Instant>,
    /// Connections of which nothing is left now.
    gone: usize,
    /// Clients wait for a Retry packet.
    retries: bool,
    /// When a batch was sorted last, since the last look.
    sorted_at: Option<Instant>,
}

/// The sockets that one shard reads. The endpoint's task has it, and a task of a connection if that one is late.
pub(crate) struct Reader {
    generation: Option<u64>,
    sources: Vec<Source>,
    receiver: Receiver,
    inbound: Inbound,
    /// Datagrams received since Retry packets could be sent.
    read: usize,
    /// When much was received last, and what came since.
    much_at: Option<Instant>,
    bytes: usize,
    /// When it is looked whether much has come since, while there are blocks to give back.
    rest_at: Option<Instant>,
    much_since: bool,
    /// What came since the sockets were read last, and whether they are read at intervals.
    gathered: Gathered,
    coalescing: Coalescing,
    /// All sockets are the system's: it can be asked what is there without waiting for it.
    is_systems: bool,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            generation: None,
            sources: Vec::new(),
            receiver: Receiver::new(),
            inbound: Inbound::default(),
            read: 0,
            much_at: None,
            bytes: 0,
            rest_at: None,
            much_since: false,
            gathered: Gathered::default(),
            coalescing: Coalescing::new(Instant::now()),
            is_systems: false,
        }
    }

    fn refresh(&mut self, shared: &EndpointShared) {
        let generation = shared.sockets.generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        let sockets = shared.sockets.snapshot();
        let health = |socket: &Arc<Socket>| {
            let known = self
                .sources
                .iter()
                .find(|old| Arc::ptr_eq(&old.socket, socket));
            known.map(|old| old.health).unwrap_or_default()
        };
        let shard = shared.shard;
        self.sources = sockets
            .iter()
            .filter(|socket| socket.is_read_by(shard))
            .map(|socket| Source {
                health: health(socket),
                socket: Arc::clone(socket),
            })
            .collect();
        self.is_systems = (self.sources.iter()).all(|source| source.socket.is_systems());
    }

    /// Before the sockets are looked at, so that a change after that wakes: which sockets there are, who has waited to be
    /// accepted for too long, what other shards have passed on. Returns whether there is anything left to do.
    pub(crate) fn begin(&mut self, shared: &EndpointShared, waker: &Waker) -> bool {
        // First of all: whoever changes something from here on finds whom to wake.
        let (shard, common) = (shared.shard, &shared.common);
        if !common.begin(shard, &mut self.inbound.messages, waker) {
            return false;
        }
        let gone = {
            let mut state = shared.lock();
            let (gone, expiry) = state.expire(|| Instant::now().into_std());
            self.inbound.expiry = expiry.map(Instant::from_std);
            self.inbound.retries = state.proto.has_next_retry();
            gone
        };
        if gone > 0 {
            shared.on_gone(gone);
            if common.is_finished() {
                return false;
            }
        }
        if !self.inbound.messages.is_empty() {
            self.inbound.process(shared, true);
        }
        self.refresh(shared);
        true
    }

    /// Datagrams received since Retry packets could be sent.
    pub(crate) const fn read(&self) -> usize {
        self.read
    }

    /// Has some of those who wait prove their address; returns whether others wait on.
    pub(crate) fn send_retries(&mut self, shared: &EndpointShared) -> bool {
        self.read = 0;
        if self.inbound.retries {
            self.inbound.send_retries(shared);
        }
        self.inbound.retries
    }

    /// When the endpoint's task is to look again, whatever comes.
    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        let next = self.coalescing.next();
        [self.due(), self.rest_at, next].into_iter().flatten().min()
    }

    /// When there is something to do beside reading.
    fn due(&mut self) -> Option<Instant> {
        let mut next = self.inbound.expiry;
        for source in &mut self.sources {
            if source.health.may_rest()
                && let Some(until) = source.health.rests_until(Instant::now())
            {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
        next
    }

    /// Reads all sockets for a while; returns whether there may be more.
    pub(crate) fn look(&mut self, shared: &EndpointShared, cx: &mut Context<'_>) -> bool {
        if let Some(next) = self.coalescing.next() {
            if Instant::now() < next {
                // For another reason: nothing has said that there is something to read.
                return false;
            }
            self.read_now(shared);
            self.end_look(shared, true);
            if self.coalescing.next().is_some() {
                return false;
            }
            // To look is to be told again of what comes.
        }
        let mut more = false;
        for _ in 0..TURNS_PER_POLL {
            more = false;
            for index in 0..self.sources.len() {
                more |= self.turn(shared, index, cx);
            }
            if !more {
                break;
            }
        }
        self.end_look(shared, true);
        more
    }

    /// Reads what the sockets have, in place of the endpoint's task. That one is woken only if there is more to do than to
    /// read: of what comes later, it hears by itself.
    pub(crate) fn look_in_place(&mut self, shared: &EndpointShared) {
        self.read_now(shared);
        self.end_look(shared, false);
        if self.inbound.retries || self.due().is_some() {
            shared.common.wake(shared.shard);
        }
    }

    /// Reads what the sockets have, whether or not the runtime has heard of it.
    fn read_now(&mut self, shared: &EndpointShared) {
        for index in 0..self.sources.len() {
            for _ in 0..CALLS_IN_PLACE {
                let source = &mut self.sources[index];
                if source.health.may_rest() && source.health.rests_until(Instant::now()).is_some() {
                    break;
                }
                let inbound = &mut self.inbound;
                let sink = |message| inbound.push(message);
                match self.receiver.receive_now(&source.socket, sink) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        self.on_error(shared, index, &error);
                        break;
                    }
                    None => break,
                }
                self.on_received(shared, index);
                if !self.receiver.is_filled() {
                    break;
                }
            }
        }
    }

    /// Now, as far as it was looked at the clock since the last look: that costs as much as a hundred instructions.
    fn about_now(&mut self) -> Instant {
        let sorted_at = self.inbound.sorted_at.take();
        sorted_at.unwrap_or_else(Instant::now)
    }

    /// Says when the next look is due. Whether the sockets were read in turn, and not in place of a late task.
    fn end_look(&mut self, shared: &EndpointShared, in_turn: bool) {
        let now = self.about_now();
        self.end_look_at(shared, now);
        let came = in_turn && self.gathered != Gathered::default();
        if self.coalescing.next().map_or(came, |next| next <= now) {
            self.coalesce(shared, now);
        }
    }

    /// Judges whether the sockets are to be read at intervals.
    fn coalesce(&mut self, shared: &EndpointShared, now: Instant) {
        let gathered = std::mem::take(&mut self.gathered);
        let was = self.coalescing.next().is_some();
        let (inbound, is_systems) = (&mut self.inbound, self.is_systems);
        let goes_on = self.coalescing.on_read(now, gathered, || {
            let several = std::mem::take(&mut inbound.has_several);
            let only = inbound.receiver.take().filter(|_| is_systems && !several)?;
            shared.shortest_round_trip(only)
        });
        if goes_on && !was {
            self.unwatch();
        }
    }

    /// The runtime is not told of what comes until the next [`turn`](Self::turn).
    fn unwatch(&self) {
        for source in &self.sources {
            source.socket.unwatch();
        }
    }

    fn end_look_at(&mut self, shared: &EndpointShared, now: Instant) {
        if self.bytes >= MUCH {
            (self.much_at, self.bytes) = (Some(now), 0);
            self.much_since = true;
            self.rest_at.get_or_insert(now + REST);
        } else if self.much_at.is_some_and(|at| now - at > QUIET) {
            self.much_at = None;
        }
        if self.rest_at.is_some_and(|at| at <= now) {
            self.rest(now);
        }
        shared.next_look.set(now, self.much_at.is_some());
    }

    /// Gives the blocks back if there was little since the last look.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, now: Instant) {
        let busy = std::mem::take(&mut self.much_since);
        self.rest_at = busy.then(|| now + REST);
        if !busy {
            self.receiver.rest();
        }
    }

    fn on_received(&mut self, shared: &EndpointShared, index: usize) {
        if self.sources[index].health.on_received() {
            self.on_recovered(shared, index);
        }
        let gathered = std::mem::take(&mut self.inbound.gathered);
        let records = RECORD * std::mem::take(&mut self.inbound.count);
        self.gathered += gathered;
        self.bytes += gathered.bytes + records;
        let count = gathered.datagrams;
        self.read += count;
        shared.common.on_received(shared.shard, count);
        self.inbound.process(shared, false);
    }

    #[cold]
    #[inline(never)]
    fn on_recovered(&self, shared: &EndpointShared, index: usize) {
        let local = self.sources[index].socket.local();
        tracing::info!(%local, "socket receives again");
        shared.common.tell(SocketEvent::Recovered { local });
    }

    #[cold]
    #[inline(never)]
    fn on_error(&mut self, shared: &EndpointShared, index: usize, error: &io::Error) {
        if error.kind() == io::ErrorKind::WouldBlock {
            // The next look at the readiness waits for a new event.
            return;
        }
        let source = &mut self.sources[index];
        let local = source.socket.local();
        tracing::debug!(%local, %error, "receiving");
        if source.health.on_error(Instant::now()) {
            tracing::warn!(%local, %error, "socket fails to receive");
            let error = error.kind();
            shared.common.tell(SocketEvent::Failing { local, error });
        }
    }

    /// Receives on one socket for a while; returns whether there may be more.
    fn turn(&mut self, shared: &EndpointShared, index: usize, cx: &mut Context<'_>) -> bool {
        for _ in 0..CALLS_PER_TURN {
            let source = &mut self.sources[index];
            if source.health.may_rest() && source.health.rests_until(Instant::now()).is_some() {
                return false;
            }
            let ready = match source.socket.poll_recv_ready(cx) {
                Poll::Pending => return false,
                Poll::Ready(ready) => ready,
            };
            let inbound = &mut self.inbound;
            let received = ready.map(|()| {
                let sink = |message| inbound.push(message);
                self.receiver.poll_receive(cx, &source.socket, sink)
            });
            let result = match received {
                Ok(Poll::Pending) => return false,
                Ok(Poll::Ready(result)) => result,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => self.on_received(shared, index),
                Err(error) => self.on_error(shared, index, &error),
            }
        }
        true
    }
}

impl Inbound {
    /// Takes in what was received.
    fn push(&mut self, message: Message) {
        self.gathered += Gathered {
            datagrams: message.count(),
            bytes: message.payload.len(),
        };
        self.count += 1;
        self.messages.push_back(message);
    }

    /// Sorts the batch and delivers it: what belongs to connections first, then what wants to be one. Another shard has
    /// passed it on, or it was received here.
    fn process(&mut self, shared: &EndpointShared, passed_on: bool) {
        let mut news = false;
        // Others want the mutex, too: each hold is short, however much was received at once.
        while !self.messages.is_empty() {
            news |= self.sort(shared, passed_on);
            let mut events = self.events.drain(..);
            for (connection, run) in self.runs.drain(..) {
                let receiver = *self.receiver.get_or_insert(connection.handle);
                self.has_several |= receiver != connection.handle;
                connection.deliver(run, events.by_ref().take(run.events));
            }
        }
        if self.has_others() {
            self.serve_others(shared);
        }
        if news {
            shared.common.incoming.notify_one();
        }
    }

    /// Whether there was something that belongs to none of the shard's connections.
    fn has_others(&self) -> bool {
        let answered = self.responses.is_empty() && self.response_data.is_empty();
        self.gone > 0 || !answered || !self.forwarded.is_empty() || !self.refused.is_empty()
    }

    /// Apart from the rest: mostly there is nothing, and a small request runs through as little code as can be.
    #[inline(never)]
    fn serve_others(&mut self, shared: &EndpointShared) {
        shared.on_gone(std::mem::take(&mut self.gone));
        shared.common.forward(shared.shard, &mut self.forwarded);
        self.respond(shared);
        for incoming in self.refused.drain(..) {
            shared.refuse(incoming);
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
        let now = Instant::now();
        self.sorted_at = Some(now);
        let now = now.into_std();
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
                                self.sort_late(state, handle, &event);
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
                Some(other) => news |= self.sort_other(shared, state, other, network_path, ecn),
                None => {}
            }
        }
        let (gone, expiry) = state.expire(|| now);
        self.gone += gone;
        self.expiry = expiry.map(Instant::from_std);
        self.retries |= news && state.proto.has_next_retry();
        news && state.proto.has_next_incoming()
    }

    /// A datagram for a connection of which only remains are left.
    #[cold]
    #[inline(never)]
    fn sort_late(
        &mut self,
        state: &mut EndpointState,
        handle: ConnectionHandle,
        event: &ConnectionEvent,
    ) {
        let answers = &mut self.response_data;
        let answer = state.proto.handle_remains(handle, event, answers);
        self.responses.extend(answer);
    }

    /// What belongs to none of the shard's connections. Whether a new client waits.
    #[cold]
    #[inline(never)]
    fn sort_other(
        &mut self,
        shared: &EndpointShared,
        state: &mut EndpointState,
        event: DatagramEvent,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
    ) -> bool {
        match event {
            DatagramEvent::Queued => {
                if state.closed || shared.common.is_orphan() {
                    self.refused.extend(state.proto.drain_clients());
                } else {
                    return true;
                }
            }
            DatagramEvent::Response(transmit) => self.responses.push(transmit),
            DatagramEvent::Forward(to, payload) => {
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
        false
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::Endpoint;
    use crate::next_look::{INTERVAL, TURNS_OF_OTHERS};

    /// Datagrams that no connection knows, more than `MUCH`.
    const COUNT: u64 = 20;

    async fn endpoint() -> (Endpoint, impl Fn()) {
        let endpoint = Endpoint::client(&[(Ipv4Addr::LOCALHOST, 0).into()]).unwrap();
        let local = endpoint.local_addrs()[0];
        // The endpoint's task has its first turn.
        while endpoint.shard(0).reader().sources.is_empty() {
            tokio::task::yield_now().await;
        }
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let send = move || {
            for _ in 0..COUNT {
                sender.send_to(&[0; 4000], local).unwrap();
            }
        };
        (endpoint, send)
    }

    /// Much came a while ago, and many tasks had their turn since.
    fn make_due(shared: &EndpointShared) {
        shared.next_look.at.store(0, Ordering::Relaxed);
        for _ in 0..TURNS_OF_OTHERS {
            shared.next_look.count_turn();
        }
    }

    /// The task whose work it is never has its turn meanwhile: nothing is awaited.
    #[tokio::test(flavor = "current_thread")]
    async fn sockets_are_read_in_place_of_a_late_task() {
        let (endpoint, send) = endpoint().await;
        let shared = endpoint.shard(0);
        let received = || endpoint.shard_stats()[0].received;
        send();
        shared.read_if_due();
        assert_eq!(received(), 0, "it is not late while little comes");
        make_due(shared);
        shared.read_if_due();
        assert_eq!(received(), COUNT);
        // Without any event for the runtime in between.
        send();
        make_due(shared);
        shared.read_if_due();
        assert_eq!(received(), 2 * COUNT);
        // Its turn comes, and it finds nothing; then what comes later wakes it.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(received(), 2 * COUNT);
        send();
        while received() < 3 * COUNT {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_look_is_due_while_much_comes() {
        let (endpoint, send) = endpoint().await;
        let shared = endpoint.shard(0);
        let due_at = |at| {
            for _ in 1..TURNS_OF_OTHERS {
                shared.next_look.count_turn();
            }
            // The endpoint's task waits behind a few.
            assert!(!shared.next_look.is_due(|| at));
            shared.next_look.count_turn();
            let due = shared.next_look.is_due(|| at);
            shared.next_look.turns.store(0, Ordering::Relaxed);
            due
        };
        let begin = Instant::now();
        let far = begin + Duration::from_secs(1000);
        assert!(!due_at(far));
        send();
        shared.reader().look_in_place(shared);
        let end = Instant::now();
        assert!(!due_at(begin + INTERVAL) && due_at(end + INTERVAL));
        // Now and then, nothing comes ...
        shared.reader().end_look_at(shared, begin + QUIET);
        assert!(!due_at(begin + QUIET) && due_at(begin + QUIET + INTERVAL));
        // ... and then for longer.
        let late = end + 2 * QUIET;
        shared.reader().end_look_at(shared, late);
        assert!(!due_at(far));
    }

    /// The runtime is told of nothing meanwhile; of what comes when that is over, it is.
    #[tokio::test(flavor = "current_thread")]
    async fn sockets_are_read_at_intervals_until_little_comes() {
        let (endpoint, send) = endpoint().await;
        let shared = endpoint.shard(0);
        let received = async |count| {
            while endpoint.shard_stats()[0].received < count {
                tokio::task::yield_now().await;
            }
        };
        let test = async {
            for round in (0..6).step_by(2) {
                {
                    let mut reader = shared.reader();
                    reader.coalescing.begin(Instant::now(), QUIET);
                    reader.unwatch();
                }
                shared.common.wake(shared.shard);
                send();
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                let due = shared.reader().coalescing.next();
                let early = endpoint.shard_stats()[0].received == round * COUNT;
                assert!(early || due.is_none_or(|due| due <= Instant::now()));
                received((round + 1) * COUNT).await;
                while shared.reader().coalescing.next().is_some() {
                    tokio::task::yield_now().await;
                }
                send();
                received((round + 2) * COUNT).await;
            }
        };
        // The deadline is there to fail a test that hangs.
        tokio::time::timeout(Duration::from_secs(60), test)
            .await
            .unwrap();
    }

    /// It holds the lock: it reads at this moment, on another core.
    #[tokio::test(flavor = "current_thread")]
    async fn who_finds_the_sockets_being_read_does_not_wait() {
        let (endpoint, send) = endpoint().await;
        let shared = endpoint.shard(0);
        send();
        make_due(shared);
        let reader = shared.reader();
        shared.read_if_due();
        drop(reader);
        assert_eq!(endpoint.shard_stats()[0].received, 0);
    }
}
