//! What the handles of a connection and its task share: the state under one mutex, the inbox under
//! another, and the signals between them.
//!
//! Rules of the house. No lock is held across an `await` or a system call, no two locks are held
//! at once (so there is no order to keep; the one exception is a look at the endpoint's list of
//! sockets, whose lock is never held around anything), and wakers are called after the lock is released:
//! [`Shared::with`] and [`Wakeups`] see to the last one.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, Dir, Event, FourTuple, PathErrorCode,
    PathEvent, PathId, PathStats, StreamEvent, StreamId, VarInt,
};
use tokio::sync::{Notify, broadcast, oneshot};
use tokio::time::Instant;

use crate::endpoint_state::EndpointShared;
use crate::guarded::{Driven, Guarded, Task};
use crate::inbox::{Run, SharedInbox};
use crate::path_manager::Mesh;
use crate::sync::MutexGuard;

/// Path events that a slow reader may fall behind before it misses some.
const PATH_EVENTS: usize = 256;

/// What tasks wait for; each has its own queue of waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    HandshakeData,
    Connected,
    Paths,
    IncomingBi,
    IncomingUni,
    AvailableBi,
    AvailableUni,
    DatagramReceived,
    DatagramsUnblocked,
    Closed,
    /// Listed, and so without a queue in each connection: few wait for it.
    DatagramFates,
}

const SIGNALS: usize = Signal::Closed as usize + 1;
const ALL_SIGNALS: u16 = (1 << SIGNALS) - 1;

impl Signal {
    /// Of those who wait for a stream of their own to open, there may be thousands, and the peer may allow one
    /// more at a time. The first looks, and whoever got a stream [passes the signal on](Shared::pass_on).
    const ONE_BY_ONE: [usize; 2] = [Self::AvailableBi as usize, Self::AvailableUni as usize];

    pub(crate) const fn incoming(dir: Dir) -> Self {
        match dir {
            Dir::Bi => Self::IncomingBi,
            Dir::Uni => Self::IncomingUni,
        }
    }

    /// Whether all who wait for it are in the list of [`Poller`]s, none in a queue. So it is of streams that come in, as a
    /// server waits for one with each request: a queue that also serves those who wait one behind the other is much more code.
    const fn is_listed(self) -> bool {
        matches!(
            self,
            Self::IncomingBi | Self::IncomingUni | Self::DatagramFates
        )
    }

    pub(crate) const fn available(dir: Dir) -> Self {
        match dir {
            Dir::Bi => Self::AvailableBi,
            Dir::Uni => Self::AvailableUni,
        }
    }
}

/// What became of a path that someone waits for.
pub(crate) type PathOutcome = Result<(), (PathErrorCode, bool)>;

/// The part under the mutex.
pub(crate) struct State {
    pub(crate) proto: proto::Connection,
    /// Set once, when the connection is over.
    pub(crate) error: Option<ConnectionError>,
    pub(crate) handshake_data_ready: bool,
    pub(crate) connected: bool,
    pub(crate) task: Task,
    pub(crate) readers: Waiting,
    pub(crate) writers: Waiting,
    pub(crate) stopped: HashMap<StreamId, Arc<Notify>>,
    pub(crate) opening: HashMap<PathId, oneshot::Sender<PathOutcome>>,
    pub(crate) mesh: Option<Mesh>,
    /// The last figures of paths that were abandoned, the newest last.
    closed_paths: VecDeque<(PathId, FourTuple, PathStats)>,
    /// Tasks that are woken by a signal without a queue of its own: of those that polled for it and did not wait with a
    /// future, each at most once per signal.
    pollers: Vec<Poller>,
    /// The next future that waits among them.
    next_waiter: u64,
}

/// Who is woken by the next signal.
struct Poller {
    signal: Signal,
    waker: Waker,
    /// The future that waits, and takes itself off the list when it is dropped.
    waiter: Option<u64>,
}

/// What is to be done once the mutex is released.
#[derive(Default)]
pub(crate) struct Wakeups {
    wakers: Vec<Waker>,
    streams: Vec<Arc<Notify>>,
    opened: Vec<(oneshot::Sender<PathOutcome>, PathOutcome)>,
    paths: Vec<PathEvent>,
    signals: u16,
    closed: bool,
}

impl Wakeups {
    fn wake(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.wakers.push(waker);
        }
    }

    /// As after most rounds of a connection's task.
    const fn is_empty(&self) -> bool {
        let nobody = self.wakers.is_empty() && self.streams.is_empty() && self.opened.is_empty();
        nobody && self.paths.is_empty() && self.signals == 0 && !self.closed
    }

    /// Whether something happened to a path.
    pub(crate) const fn has_path_events(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Does it, and is empty afterwards. Not to be called with a lock held.
    pub(crate) fn fire(&mut self, shared: &Shared) {
        if self.is_empty() {
            return;
        }
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
        let closed = self.closed;
        if closed || !(self.streams.is_empty() && self.opened.is_empty() && self.paths.is_empty()) {
            self.fire_rare(shared);
        }
        let mut signals = std::mem::take(&mut self.signals) & ALL_SIGNALS;
        while signals != 0 {
            let index = signals.trailing_zeros() as usize;
            signals &= signals - 1;
            let notify = &shared.signals[index];
            if !closed && Signal::ONE_BY_ONE.contains(&index) {
                notify.notify_one();
            } else {
                notify.notify_waiters();
            }
        }
    }

    /// What most rounds have nothing of.
    #[cold]
    #[inline(never)]
    fn fire_rare(&mut self, shared: &Shared) {
        for notify in self.streams.drain(..) {
            notify.notify_waiters();
        }
        for (sender, outcome) in self.opened.drain(..) {
            // Whoever waited may have given up.
            let _ = sender.send(outcome);
        }
        for event in self.paths.drain(..) {
            shared.tell_path(Some(event));
        }
        if std::mem::take(&mut self.closed) {
            shared.tell_path(None);
        }
    }
}

impl Driven for State {
    fn task(&mut self) -> &mut Task {
        &mut self.task
    }
}

impl State {
    /// Those who wait for `signal` are to look again.
    fn signal(&mut self, signal: Signal, effects: &mut Wakeups) {
        if !signal.is_listed() {
            effects.signals |= 1 << signal as u16;
        }
        if !self.pollers.is_empty() {
            self.wake_pollers(signal, effects);
        }
    }

    fn wake_pollers(&mut self, signal: Signal, effects: &mut Wakeups) {
        if let [one] = &self.pollers[..] {
            // As mostly.
            if one.signal == signal {
                effects.wake(self.pollers.pop().map(|one| one.waker));
            }
            return;
        }
        self.wake_some_pollers(signal, effects);
    }

    #[cold]
    #[inline(never)]
    fn wake_some_pollers(&mut self, signal: Signal, effects: &mut Wakeups) {
        let woken = self.pollers.extract_if(.., |one| one.signal == signal);
        effects.wakers.extend(woken.map(|one| one.waker));
    }

    /// The future with this number is to be woken by the next `signal`. A new one gets a number.
    fn list(&mut self, waiter: &mut Option<u64>, signal: Signal, waker: &Waker) {
        if waiter.is_none() {
            *waiter = Some(self.next_waiter);
            self.next_waiter += 1;
        } else if let Some(known) = self.pollers.iter_mut().find(|one| one.waiter == *waiter) {
            // It was polled for another reason.
            known.waker.clone_from(waker);
            return;
        }
        self.pollers.push(Poller {
            signal,
            waker: waker.clone(),
            waiter: *waiter,
        });
    }

    /// The future with this number waits no longer.
    fn unlist(&mut self, waiter: u64) {
        self.pollers.retain(|one| one.waiter != Some(waiter));
    }

    /// `waker` is to be woken by the next `signal`.
    fn register(&mut self, signal: Signal, waker: &Waker) {
        let known = |one: &Poller| {
            one.waiter.is_none() && one.signal == signal && one.waker.will_wake(waker)
        };
        if !self.pollers.iter().any(known) {
            self.pollers.push(Poller {
                signal,
                waker: waker.clone(),
                waiter: None,
            });
        }
    }

    /// Whether a stream is gone, and its ID another's: the client opened it `early`, before the handshake was complete,
    /// and the server rejected early data.
    pub(crate) fn is_rejected(&self, early: bool) -> bool {
        early && self.proto.session().rejected_0rtt()
    }

    /// Takes in what the protocol has to tell its application.
    pub(crate) fn forward_events(&mut self, now: Instant, effects: &mut Wakeups) {
        while let Some(event) = self.proto.poll() {
            match event {
                Event::Stream(event) => self.on_stream(event, effects),
                event => self.on_event(event, now, effects),
            }
        }
    }

    /// Apart from the rest: most events are of streams.
    #[cold]
    #[inline(never)]
    fn on_event(&mut self, event: Event, now: Instant, effects: &mut Wakeups) {
        match event {
            Event::HandshakeDataReady => {
                self.handshake_data_ready = true;
                self.signal(Signal::HandshakeData, effects);
            }
            Event::Connected => {
                self.handshake_data_ready = true;
                self.connected = true;
                if let Some(mesh) = &mut self.mesh
                    && let Ok(path) = self.proto.path(PathId::ZERO)
                {
                    mesh.set_first_remote(path.network_path().remote);
                }
                if self.proto.session().rejected_0rtt() {
                    self.wake_streams(effects);
                }
                self.signal(Signal::HandshakeData, effects);
                self.signal(Signal::Connected, effects);
            }
            Event::HandshakeConfirmed => {
                if let Some(mesh) = &mut self.mesh {
                    mesh.unblock();
                }
                self.signal(Signal::Paths, effects);
            }
            Event::ConnectionLost { reason } => self.terminate(reason, effects),
            Event::DatagramReceived => self.signal(Signal::DatagramReceived, effects),
            Event::DatagramsUnblocked => self.signal(Signal::DatagramsUnblocked, effects),
            Event::DatagramFates => self.signal(Signal::DatagramFates, effects),
            Event::Path(event) => self.on_path(event, now, effects),
            _ => {}
        }
    }

    fn on_stream(&mut self, event: StreamEvent, effects: &mut Wakeups) {
        match event {
            StreamEvent::Opened { dir } => self.signal(Signal::incoming(dir), effects),
            StreamEvent::Available { dir } => self.signal(Signal::available(dir), effects),
            StreamEvent::Readable { id } => effects.wake(self.readers.remove(id)),
            StreamEvent::Writable { id } => effects.wake(self.writers.remove(id)),
            StreamEvent::Finished { id } => self.tell_stopped(id, effects),
            StreamEvent::Stopped { id, .. } => {
                self.tell_stopped(id, effects);
                effects.wake(self.writers.remove(id));
            }
            _ => {}
        }
    }

    /// Those who wait for a stream's end are to look.
    fn tell_stopped(&mut self, id: StreamId, effects: &mut Wakeups) {
        if !self.stopped.is_empty() {
            effects.streams.extend(self.stopped.remove(&id));
        }
    }

    fn on_path(&mut self, event: PathEvent, now: Instant, effects: &mut Wakeups) {
        let outcome = match event {
            PathEvent::Opened { id } => Some((id, Ok(()))),
            PathEvent::Abandoned {
                id,
                error_code,
                by_peer,
            } => Some((id, Err((error_code, by_peer)))),
            _ => None,
        };
        if let PathEvent::Abandoned { id, .. } = event
            && let Some((tuple, stats)) = self.proto.paths().abandoned(id)
        {
            if self.closed_paths.len() == PATH_EVENTS {
                self.closed_paths.pop_front();
            }
            self.closed_paths.push_back((id, tuple, stats));
        }
        if let Some((id, outcome)) = outcome {
            let waiting = self.opening.remove(&id);
            effects
                .opened
                .extend(waiting.map(|sender| (sender, outcome)));
        }
        if let Some(mesh) = &mut self.mesh {
            mesh.on_event(&event, now.into_std());
        }
        effects.paths.push(event);
        self.signal(Signal::Paths, effects);
    }

    /// The last addresses and figures of a path that was abandoned. Kept for as many paths as an event may wait to be read.
    pub(crate) fn closed_path(&self, id: PathId) -> Option<(FourTuple, PathStats)> {
        let mut closed = self.closed_paths.iter().rev();
        let (_, tuple, stats) = closed.find(|(known, ..)| *known == id)?;
        Some((*tuple, *stats))
    }

    /// Whoever waits for a stream is to look again.
    fn wake_streams(&mut self, effects: &mut Wakeups) {
        effects.wakers.extend(self.readers.drain());
        effects.wakers.extend(self.writers.drain());
        effects
            .streams
            .extend(self.stopped.drain().map(|(_, notify)| notify));
    }

    /// The connection is over: whoever waits for anything hears of it. The first reason counts.
    pub(crate) fn terminate(&mut self, reason: ConnectionError, effects: &mut Wakeups) {
        if self.error.is_some() {
            return;
        }
        self.error = Some(reason);
        self.wake_streams(effects);
        // Dropping the senders tells the receivers.
        self.opening.clear();
        self.mesh = None;
        let pollers = self.pollers.drain(..);
        effects.wakers.extend(pollers.map(|one| one.waker));
        effects.signals = u16::MAX;
        effects.closed = true;
    }
}

/// Who waits for streams. Mostly nobody waits, or for one: then no hash is worked out.
#[derive(Default)]
pub(crate) struct Waiting {
    one: Option<(StreamId, Waker)>,
    /// Never the same stream.
    others: HashMap<StreamId, Waker>,
}

impl Waiting {
    /// In the place of who waited for that stream before.
    pub(crate) fn insert(&mut self, id: StreamId, waker: &Waker) {
        match &mut self.one {
            None if self.others.is_empty() => self.one = Some((id, waker.clone())),
            Some((known, before)) if *known == id => before.clone_from(waker),
            _ => self.insert_other(id, waker),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_other(&mut self, id: StreamId, waker: &Waker) {
        self.others.insert(id, waker.clone());
    }

    /// Who waits for that stream, and does so no longer.
    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Waker> {
        if self.one.as_ref().is_some_and(|(known, _)| *known == id) {
            return self.one.take().map(|(_, waker)| waker);
        }
        match self.others.is_empty() {
            true => None,
            false => self.remove_other(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_other(&mut self, id: StreamId) -> Option<Waker> {
        self.others.remove(&id)
    }

    fn drain(&mut self) -> impl Iterator<Item = Waker> + '_ {
        let all = self.one.take().into_iter().chain(self.others.drain());
        all.map(|(_, waker)| waker)
    }
}

/// Everything that a connection's handles, its task and its endpoint share.
pub(crate) struct Shared {
    state: Guarded<State>,
    inbox: SharedInbox,
    signals: [Notify; SIGNALS],
    /// There once somebody listens: it is as large as all else that a new connection has here.
    path_events: OnceLock<broadcast::Sender<Option<PathEvent>>>,
    pub(crate) endpoint: Arc<EndpointShared>,
    pub(crate) handle: ConnectionHandle,
    /// Where it was when it began.
    pub(crate) first_path: FourTuple,
    /// Handles that keep the connection open: the task and the endpoint do not count.
    handles: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(
        proto: proto::Connection,
        handle: ConnectionHandle,
        first_path: FourTuple,
        endpoint: Arc<EndpointShared>,
        mesh: Option<Mesh>,
    ) -> Self {
        Self {
            state: Guarded::new(State {
                proto,
                error: None,
                handshake_data_ready: false,
                connected: false,
                task: Task::default(),
                readers: Waiting::default(),
                writers: Waiting::default(),
                stopped: HashMap::new(),
                opening: HashMap::new(),
                mesh,
                closed_paths: VecDeque::new(),
                pollers: Vec::new(),
                next_waiter: 0,
            }),
            inbox: SharedInbox::default(),
            signals: std::array::from_fn(|_| Notify::new()),
            path_events: OnceLock::new(),
            endpoint,
            handle,
            first_path,
            handles: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs `f` under the mutex, then wakes the connection's task if `f` left work for it.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        self.state.with(f)
    }

    /// Waits until `check`, run under the mutex now and after each `signal`, gives a value. For a signal that
    /// [is listed](Signal::is_listed).
    pub(crate) async fn wait_listed<T>(
        &self,
        signal: Signal,
        check: impl Fn(&mut State) -> Option<T>,
    ) -> T {
        let mut waiter = Waiter {
            shared: self,
            number: None,
        };
        poll_fn(|cx| waiter.poll(signal, cx, &check)).await
    }

    /// Waits until `check`, run under the mutex now and after each `signal`, gives a value.
    pub(crate) async fn wait_for<T>(
        &self,
        signal: Signal,
        mut check: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        debug_assert!(!signal.is_listed());
        // Mostly there is no need to wait.
        if let Some(value) = self.with(&mut check) {
            return value;
        }
        loop {
            // Made before the check: it hears signals from here on, so none is missed between.
            let notified = self.signals[signal as usize].notified();
            if let Some(value) = self.with(&mut check) {
                return value;
            }
            notified.await;
        }
    }

    /// What `check`, run under the mutex, gives; if nothing, the task of `cx` is woken by the next `signal`.
    pub(crate) fn poll_for<T>(
        &self,
        signal: Signal,
        cx: &Context<'_>,
        check: impl FnOnce(&mut State) -> Option<T>,
    ) -> Poll<T> {
        self.with(|state| match check(state) {
            Some(value) => Poll::Ready(value),
            None => {
                state.register(signal, cx.waker());
                Poll::Pending
            }
        })
    }

    /// Ends the connection for a reason that its application did not give: its endpoint is gone.
    pub(crate) fn fail(&self, reason: ConnectionError) {
        let mut effects = Wakeups::default();
        self.with(|state| {
            if state.error.is_none() {
                let code = VarInt::from_u32(0);
                state
                    .proto
                    .close(Instant::now().into_std(), code, Bytes::new());
                state.terminate(reason, &mut effects);
                state.task.touched = true;
            }
        });
        effects.fire(self);
    }

    /// Closes the connection, if it is open. In any case, its task looks whether it is still needed.
    pub(crate) fn close(&self, code: VarInt, reason: Bytes) {
        let mut effects = Wakeups::default();
        self.with(|state| {
            if state.error.is_none() {
                state.proto.close(Instant::now().into_std(), code, reason);
                state.terminate(ConnectionError::LocallyClosed, &mut effects);
            }
            state.task.touched = true;
        });
        effects.fire(self);
    }

    /// Whether no handle keeps the connection any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    /// Wakes the task, for changes that are not in the state.
    pub(crate) fn wake(&self) {
        self.with(|state| state.task.touched = true);
    }

    /// Puts datagrams into the inbox. Wakes the task only if it sleeps: while it works, it looks
    /// into the inbox by itself.
    pub(crate) fn deliver(&self, run: Run, events: impl Iterator<Item = ConnectionEvent>) {
        self.inbox.deliver(run, events, &self.endpoint.read_ahead);
    }

    /// Takes all that is in the inbox; `batch` must be empty and its memory goes the other way.
    /// If there is nothing, the task will be woken by the next datagram.
    pub(crate) fn collect(&self, batch: &mut VecDeque<ConnectionEvent>, waker: &Waker) {
        let total = &self.endpoint.read_ahead;
        self.inbox.lock().collect(batch, waker, total);
    }

    /// Nothing has come for a while.
    pub(crate) fn rest(&self) {
        self.inbox.lock().rest();
    }

    /// The task is over: what is in the inbox is of no use any more.
    pub(crate) fn discard(&self) {
        self.inbox.lock().clear(&self.endpoint.read_ahead);
    }

    /// Events of paths from here on.
    pub(crate) fn path_events(&self) -> broadcast::Receiver<Option<PathEvent>> {
        let sender = self
            .path_events
            .get_or_init(|| broadcast::Sender::new(PATH_EVENTS));
        sender.subscribe()
    }

    fn tell_path(&self, event: Option<PathEvent>) {
        if let Some(sender) = self.path_events.get() {
            // No receiver is fine.
            let _ = sender.send(event);
        }
    }

    /// One more of those who wait for `signal` is to look.
    pub(crate) fn pass_on(&self, signal: Signal) {
        self.signals[signal as usize].notify_one();
    }
}

/// A future that waits for a signal that is listed.
struct Waiter<'a> {
    shared: &'a Shared,
    /// If it may be in the list.
    number: Option<u64>,
}

impl Waiter<'_> {
    fn poll<T>(
        &mut self,
        signal: Signal,
        cx: &Context<'_>,
        check: impl FnOnce(&mut State) -> Option<T>,
    ) -> Poll<T> {
        let shared = self.shared;
        shared.with(|state| match check(state) {
            Some(value) => {
                if let Some(number) = self.number.take() {
                    state.unlist(number);
                }
                Poll::Ready(value)
            }
            None => {
                state.list(&mut self.number, signal, cx.waker());
                Poll::Pending
            }
        })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.with(|state| state.unlist(number));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What came after the task was over.
        self.discard();
    }
}

/// A counted reference: when the last one goes, the connection is closed with code 0.
pub(crate) struct ConnectionRef(Arc<Shared>);

impl ConnectionRef {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Clone for ConnectionRef {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close(VarInt::from_u32(0), Bytes::new());
        }
    }
}

impl Deref for ConnectionRef {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl std::fmt::Debug for ConnectionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.0.handle.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether one waits or several, in whichever order they come and go: each is found once, the latest who waits for a stream.
    #[test]
    fn who_waits_for_a_stream_is_found_once() {
        let tasks: Vec<_> = (0..4)
            .map(|_| Arc::new(Task(AtomicUsize::new(0))))
            .collect();
        let waker = |task: usize| Waker::from(Arc::clone(&tasks[task]));
        let id = |index: u64| StreamId::new(proto::Side::Client, Dir::Bi, index);
        let mut waiting = Waiting::default();
        assert!(waiting.remove(id(0)).is_none());
        waiting.insert(id(0), &waker(0));
        waiting.insert(id(1), &waker(1));
        waiting.insert(id(0), &waker(2));
        assert!(waiting.remove(id(0)).unwrap().will_wake(&waker(2)));
        assert!(waiting.remove(id(0)).is_none());
        // Nobody is in the first place, and this one is known in the other.
        waiting.insert(id(1), &waker(3));
        waiting.insert(id(2), &waker(0));
        for waker in waiting.drain() {
            waker.wake();
        }
        let woken = |task: &Arc<Task>| task.0.load(Ordering::Relaxed);
        assert_eq!(tasks.iter().map(woken).collect::<Vec<_>>(), [1, 0, 0, 1]);
        assert!(waiting.remove(id(1)).is_none() && waiting.remove(id(2)).is_none());
    }
}
