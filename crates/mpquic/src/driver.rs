//! The task of one connection: moves datagrams in, lets timers run, and moves datagrams out.
//!
//! Why a task per connection with an inbox, and not calls from the endpoint's task: decryption
//! and stream work of different connections then run on different cores, and for a single
//! connection the system calls of receiving overlap with the decryption of what came before. The
//! inbox is two queues that are swapped, so that nothing is allocated per packet or per batch,
//! and the task is woken only when it sleeps. It is bounded, unlike a channel, by bytes.
//!
//! The connection's mutex is held for one bounded piece of work at a time (some datagrams in, one
//! batch out) and never across a system call, so that a reader or writer in the application waits
//! for microseconds even while this task saturates a core.

use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proto::{
    ConnectionError, ConnectionEvent, EndpointEvent, FourTuple, PathError, PathErrorCode, PathId,
    Remains, Transmit,
};
use tokio::time::{Instant, Sleep};

use crate::connection_state::{Shared, State, Wakeups};
use crate::outbox::{Dispatch, Outbox, join, may_be_joined};

/// Datagrams, and bytes, taken in under one hold of the mutex: about two batches of receive offload. They are acknowledged
/// together.
const DATAGRAMS_PER_ROUND: usize = 64;
const BYTES_PER_ROUND: usize = 96 << 10;

/// Rounds before other tasks get their turn: at most so many batches out (half a megabyte) and so
/// many datagrams in.
const ROUNDS_PER_POLL: usize = 8;

/// The protocol is to judge what was not answered, and a socket has something to read: the endpoint's task gets so long
/// to read it, and is looked at so often. On a busy host it may be the one that is late.
const READ_FIRST: Duration = Duration::from_millis(20);
const LOOK_AGAIN: Duration = Duration::from_millis(4);

/// If nothing came for so long, the queues for it are given back.
const REST: Duration = Duration::from_millis(500);

/// What one hold of the mutex gave.
struct Round {
    /// The protocol may have more.
    more: bool,
    /// The timers that were due were looked at.
    looked: bool,
    drained: bool,
    /// Nobody holds the connection any more, and this is all that its endpoint needs of it.
    remains: Option<Box<Remains>>,
}

/// What happened outside the protocol since the last hold of the mutex, and is its business.
#[derive(Default)]
struct PendingNotices {
    /// The protocol wanted to send what no socket could.
    unroutable: bool,
    /// Between these addresses, the system refused to send.
    no_way: Option<(FourTuple, std::io::ErrorKind)>,
    /// A path whose link's MTU would help; what the link takes, once that was asked for.
    link: Option<Box<(PathId, FourTuple, Option<u32>)>>,
}

impl PendingNotices {
    /// Whether something did not leave.
    const fn is_trouble(&self) -> bool {
        self.unroutable || self.no_way.is_some()
    }

    const fn is_any(&self) -> bool {
        self.is_trouble() || self.link.is_some()
    }

    /// Apart from the rest of a round, as all that is rare: a small request runs through as little code as can be.
    #[cold]
    #[inline(never)]
    fn tell(
        &mut self,
        proto: &mut proto::Connection,
        now: std::time::Instant,
        outbox: &Outbox,
        sockets_changed: bool,
        orphan: bool,
    ) {
        if std::mem::take(&mut self.unroutable) || sockets_changed {
            leave_unroutable(proto, now, outbox, orphan);
        }
        if let Some((path, kind)) = self.no_way.take() {
            proto.handle_send_error(now, path, &kind.to_string());
        }
        if let Some(link) = self.link.take() {
            let (id, path, mtu) = *link;
            proto.path_mut(id).set_link_mtu(now, &path, mtu);
        }
    }
}

/// The task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    outbox: Outbox,
    /// Taken from the inbox, not yet handed to the protocol.
    batch: VecDeque<ConnectionEvent>,
    endpoint_events: Vec<EndpointEvent>,
    effects: Wakeups,
    timer: Pin<Box<Sleep>>,
    /// What the protocol said last of its timers.
    due: Option<Instant>,
    /// Who is woken by the timer, as it is set.
    timed: Option<Waker>,
    /// When the queues of the inbox are given back, if nothing comes; `None` if they were.
    rest_at: Option<Instant>,
    /// Since when the sockets are read before its timers are looked at.
    reading_since: Option<Instant>,
    news: PendingNotices,
    /// The endpoint knows that the connection is over.
    drained: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let offload = shared.lock().proto.paths().segmentation_offload();
        let outbox = Outbox::new(&shared.endpoint.sockets, offload);
        Self {
            outbox,
            batch: VecDeque::new(),
            endpoint_events: Vec::new(),
            effects: Wakeups::default(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            due: None,
            timed: None,
            rest_at: None,
            reading_since: None,
            news: PendingNotices::default(),
            drained: false,
            shared,
        }
    }

    /// Whether the time has come that the protocol said last.
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|at| at <= now)
    }

    /// Timers are due. Until when they wait, since the protocol would judge what was not answered, and the answer may be in a
    /// socket. Not for long: a socket into which others send all the while is never empty.
    #[cold]
    #[inline(never)]
    fn reads_first(&mut self, now: Instant) -> Option<Instant> {
        let judges = |proto: &proto::Connection| {
            // One that is closed only waits until it may be forgotten.
            !proto.is_closed() && proto.judges_silence(now.into_std())
        };
        let reads = judges(&self.shared.lock().proto) && self.outbox.has_unread();
        if !reads {
            self.reading_since = None;
            return None;
        }
        let until = *self.reading_since.get_or_insert(now) + READ_FIRST;
        (now < until).then(|| until.min(now + LOOK_AGAIN))
    }

    /// One hold of the mutex. If nothing else will make this task run on, since all that came is taken in and there is
    /// nothing to send, the next one to touch the state must wake it. Timers that are `due` are not looked at before `hold`.
    /// `transmits` is what is to be sent, one behind the other in the buffer.
    fn round(
        &mut self,
        now: Instant,
        due: bool,
        hold: Option<Instant>,
        cx: &Context<'_>,
        transmits: &mut [Option<Transmit>; 2],
    ) -> Round {
        let mut state = self.shared.lock();
        // Under the mutex: whoever changes the sockets then takes it to wake this task, and so
        // finds either the change seen or a waker to call.
        let sockets_changed = self.outbox.refresh(&self.shared.endpoint.sockets);
        let std_now = now.into_std();

        let taken_in = !self.batch.is_empty();
        let (mut count, mut bytes) = (0, 0);
        while count < DATAGRAMS_PER_ROUND
            && bytes < BYTES_PER_ROUND
            && let Some(event) = self.batch.pop_front()
        {
            count += event.count();
            bytes += event.size();
            state.proto.handle_event(event);
        }
        // What came is taken in before it is missed. If that has set a timer that is due already, the next round looks.
        let looked = due && hold.is_none() && self.batch.is_empty();
        if looked {
            state.proto.handle_timeout(std_now);
        }
        let state = &mut *state;
        if sockets_changed || self.news.is_any() {
            let (news, proto) = (&mut self.news, &mut state.proto);
            let orphan = self.shared.endpoint.common.is_orphan();
            news.tell(proto, std_now, &self.outbox, sockets_changed, orphan);
        }
        let mut mesh_timeout = None;
        if state.mesh.is_some() {
            let effects = &mut self.effects;
            mesh_timeout = poll_mesh(state, now, effects, &self.outbox, sockets_changed);
        }

        // What came up so far, the endpoint must know before more is sent ...
        let events = &mut self.endpoint_events;
        take_endpoint_events(&mut state.proto, events);
        let mut more = false;
        if self.outbox.is_open() {
            let (buffers, max_datagrams) = self.outbox.buffers();
            state.proto.swap_spare_buffers(&mut buffers.spare);
            let batch = &mut buffers.batch;
            let [transmit, second] = transmits;
            *transmit = state.proto.poll_transmit(std_now, max_datagrams, batch);
            more = transmit.is_some();
            // The first part of a handshake's flight. What else is single is mostly all that there is, and leaves at once.
            if let Some(first) = transmit.as_mut().filter(|first| may_be_joined(first)) {
                let next = state.proto.poll_transmit(std_now, 1, batch);
                more = next.is_some();
                *second = next.filter(|next| !join(first, next));
            } else if more {
                more = !state.proto.comes_to_rest(std_now);
            }
            state.proto.swap_spare_buffers(&mut buffers.spare);
        }
        // ... and what comes up by making the packets (new connection IDs) before these leave.
        take_endpoint_events(&mut state.proto, events);
        state.forward_events(now, &mut self.effects);
        if self.effects.has_path_events() {
            // What a path without a socket may do depends on the others.
            self.news.unroutable |= lacks_route(&state.proto, &self.outbox);
        }

        // What leaves makes the path's timers later. It may set the first ones of a path: they are far off, and found when
        // something has come or nothing more leaves.
        if hold.is_some() {
            self.due = hold;
        } else if taken_in || looked || !more {
            let timeout = match (state.proto.poll_timeout(), mesh_timeout) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            self.due = timeout.map(Instant::from_std);
        }
        if self.batch.is_empty() && !more {
            state.task.sleeps(cx.waker());
        }
        let mut remains = None;
        if state.proto.is_closed() && self.batch.is_empty() && !more && transmits[0].is_none() {
            remains = self.what_remains(&mut state.proto);
        }
        if let Some((id, path)) = state.proto.paths().link_mtu_wanted(std_now) {
            self.news.link = Some(Box::new((id, path, None)));
        }
        Round {
            more,
            looked,
            remains,
            drained: state.proto.is_drained(),
        }
    }

    /// The connection is closed and at rest: what its endpoint needs of it, if nobody holds it any more.
    #[cold]
    #[inline(never)]
    fn what_remains(&self, proto: &mut proto::Connection) -> Option<Box<Remains>> {
        let abandoned = self.shared.is_abandoned() && self.outbox.is_empty();
        abandoned.then(|| proto.remains()).flatten().map(Box::new)
    }

    /// Sets the timer if it would go off too late. One that goes off too early costs a look, less
    /// than moving it with every packet would.
    fn arm(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // When the protocol comes to rest, a task that was behind may have taken in the last of it just before.
        let timeout = match (self.due, self.rest_at) {
            (Some(due), Some(rest)) => due.min(rest),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return Poll::Pending,
        };
        let set = self.timer.deadline();
        let stays = set > now && set <= timeout && !self.timer.is_elapsed();
        let timed = self.timed.as_ref();
        if stays && timed.is_some_and(|timed| timed.will_wake(cx.waker())) {
            // It would say the same as when it was polled last.
            return Poll::Pending;
        }
        self.set_timer((!stays).then_some(timeout), cx)
    }

    /// Apart from the rest: between the datagrams of a busy connection, the timer stays as it is.
    #[inline(never)]
    fn set_timer(&mut self, to: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(to) = to {
            self.timer.as_mut().reset(to);
        }
        // Without, the runtime has the task go on later, and the timer knows nothing of it.
        let has_turn = tokio::task::coop::has_budget_remaining();
        let polled = self.timer.as_mut().poll(cx);
        let is_set = has_turn && polled.is_pending();
        self.timed = is_set.then(|| cx.waker().clone());
        polled
    }

    /// Notes that something came, or that nothing has for so long that the queues for it are given back.
    fn note_collected(&mut self, now: Instant) {
        if !self.batch.is_empty() {
            self.rest_at = Some(now + REST);
        } else if self.rest_at.is_some_and(|at| now >= at) {
            self.rest();
        }
    }

    #[cold]
    #[inline(never)]
    fn rest(&mut self) {
        self.rest_at = None;
        self.batch = VecDeque::new();
        self.shared.rest();
    }

    #[cold]
    #[inline(never)]
    fn tell_endpoint(&mut self) {
        self.drained |= self.endpoint_events.contains(&EndpointEvent::Drained);
        self.shared
            .endpoint
            .on_connection_events(self.shared.handle, self.endpoint_events.drain(..));
        // There is seldom something to tell: the memory is not kept for it.
        self.endpoint_events = Vec::new();
    }

    /// Sends what the protocol wrote, from this place of the buffer on.
    fn send(&mut self, transmit: &Transmit, at: usize, cx: &mut Context<'_>) {
        let path = transmit.network_path;
        match self.outbox.dispatch(transmit, at, cx) {
            Dispatch::Taken => {}
            Dispatch::Unroutable => {
                tracing::debug!(%path, "no socket for this path");
                self.news.unroutable = true;
                // A connection that begins on several addresses does so on the others.
                self.news.no_way = Some((path, std::io::ErrorKind::AddrNotAvailable));
            }
            Dispatch::NoWay(kind) => self.news.no_way = Some((path, kind)),
        }
    }

    fn work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_PER_POLL {
            self.outbox.flush(cx);
            if self.batch.is_empty() {
                self.shared.collect(&mut self.batch, cx.waker());
            }
            let now = Instant::now();
            let collected = !self.batch.is_empty();
            self.note_collected(now);
            let due = self.is_due(now);
            let mut hold = None;
            if due {
                hold = self.reads_first(now);
            } else {
                self.reading_since = None;
            }
            let mut transmits = [None, None];
            let round = self.round(now, due, hold, cx, &mut transmits);
            self.effects.fire(&self.shared);
            if !self.endpoint_events.is_empty() {
                self.tell_endpoint();
            }
            if let Some(link) = &mut self.news.link {
                link.2 = self.outbox.link_mtu(&link.1);
            }
            if let [Some(first), second] = &transmits {
                self.send(first, 0, cx);
                if let Some(second) = second {
                    self.send(second, first.size, cx);
                }
            }
            if round.more || self.news.is_trouble() {
                continue;
            }
            if round.drained {
                return Poll::Ready(());
            }
            if let Some(remains) = round.remains {
                self.drained = true;
                let handle = self.shared.handle;
                self.shared.endpoint.keep_remains(handle, *remains);
                return Poll::Ready(());
            }
            if !self.batch.is_empty() {
                continue;
            }
            if collected {
                // The inbox has not said yet that it is empty.
                self.shared.collect(&mut self.batch, cx.waker());
                if !self.batch.is_empty() {
                    continue;
                }
            }
            let missed = !round.looked && self.is_due(now);
            if !missed && self.arm(now, cx).is_pending() {
                return Poll::Pending;
            }
        }
        // Others first, then on.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Has the path manager open paths; when it wants to be asked again.
#[cold]
#[inline(never)]
fn poll_mesh(
    state: &mut State,
    now: Instant,
    effects: &mut Wakeups,
    outbox: &Outbox,
    sockets_changed: bool,
) -> Option<std::time::Instant> {
    // It hears of paths before it opens others.
    state.forward_events(now, effects);
    let mesh = state.mesh.as_mut()?;
    if sockets_changed {
        mesh.unblock();
    }
    mesh.poll(&mut state.proto, now.into_std(), outbox.locals())
}

/// One copy, as it is called twice.
#[inline(never)]
fn take_endpoint_events(proto: &mut proto::Connection, events: &mut Vec<EndpointEvent>) {
    events.extend(std::iter::from_fn(|| proto.poll_endpoint_events()));
}

/// Moves the paths whose local address is gone to the socket that replaced theirs, as far as a client may. Abandons those
/// that nothing replaced, so that nobody waits for what they carried. The last one goes on from any other socket. Without
/// one it stays: a socket may come, or the idle timeout ends it. If none can come that would help, the connection is over.
fn leave_unroutable(
    proto: &mut proto::Connection,
    now: std::time::Instant,
    outbox: &Outbox,
    orphan: bool,
) {
    // Rare enough for a list.
    let paths: Vec<_> = proto.paths().ids().collect();
    let mut staying = Vec::new();
    for id in paths {
        let Ok(path) = proto.path(id).map(|path| path.network_path()) else {
            continue;
        };
        if outbox.can_send_from(path.local) {
            proto.path_mut(id).set_stranded(false);
        } else if let Err(stays) = leave(proto, now, outbox, id) {
            staying.push((id, path, stays));
        }
    }
    let route = has_route(proto, outbox);
    for (id, path, stays) in staying {
        let reason = why_for_good(proto, outbox, &stays, orphan);
        if let Some(reason) = reason.filter(|_| !route) {
            tracing::debug!(%id, %path, %reason, "the last path has no socket, and cannot have another");
            return proto.lose_address(now, path, reason);
        }
        tracing::debug!(%id, %path, "path without a socket stays");
        proto.path_mut(id).set_stranded(true);
    }
}

/// A path that nothing takes the place of.
struct Stays {
    /// Why it may not go on from another socket; `None` if there is none of its address family.
    refusal: Option<PathError>,
    /// Its socket was replaced, not just closed.
    replaced: bool,
}

/// Has a path go on from another socket, or abandons it.
fn leave(
    proto: &mut proto::Connection,
    now: std::time::Instant,
    outbox: &Outbox,
    id: PathId,
) -> Result<(), Stays> {
    let mut stays = Stays {
        refusal: None,
        replaced: false,
    };
    let Ok(FourTuple { local, remote }) = proto.path(id).map(|path| path.network_path()) else {
        return Ok(());
    };
    if proto.is_closed() {
        stays.refusal = Some(PathError::Closed);
        return Err(stays);
    }
    let successor = outbox.successor(local);
    stays.replaced = successor.is_some();
    if let Some(successor) = successor {
        match proto.path_mut(id).replace_local(now, successor) {
            Ok(()) => return Ok(()),
            Err(error) => stays.refusal = Some(error),
        }
    }
    let abandoned = proto
        .path_mut(id)
        .close(now, PathErrorCode::PATH_UNSTABLE_OR_POOR);
    if abandoned.is_ok() {
        return Ok(());
    }
    let mut others = outbox.locals().map(|(local, _)| local);
    if let Some(other) = others.find(|other| other.is_ipv4() == remote.is_ipv4()) {
        match proto.path_mut(id).replace_local(now, other) {
            Ok(()) => return Ok(()),
            Err(error) => stays.refusal = Some(error),
        }
    }
    Err(stays)
}

/// Whether no socket can send for some path.
#[cold]
#[inline(never)]
fn lacks_route(proto: &proto::Connection, outbox: &Outbox) -> bool {
    let mut paths = proto.paths().iter().map(|path| path.network_path());
    !proto.is_closed() && paths.any(|path| !outbox.can_send_from(path.local))
}

/// Whether a socket can send for some path.
fn has_route(proto: &proto::Connection, outbox: &Outbox) -> bool {
    let mut paths = proto.paths().iter().map(|path| path.network_path());
    paths.any(|path| outbox.can_send_from(path.local))
}

/// Why no socket can ever take the place of that of a connection's last path; `None` if one may come.
fn why_for_good(
    proto: &proto::Connection,
    outbox: &Outbox,
    stays: &Stays,
    orphan: bool,
) -> Option<PathError> {
    let is_bare = outbox.locals().next().is_none();
    match stays.refusal {
        // The application may open a path, or its path manager.
        Some(PathError::HandshakeIncomplete)
            if proto.paths().may_open() && proto.paths().is_multipath() && !is_bare =>
        {
            None
        }
        Some(PathError::HandshakeIncomplete | PathError::MigrationDisabled | PathError::Closed) => {
            stays.refusal
        }
        // Unless one with the same address comes, which is where its clients look for the server.
        Some(PathError::ServerSide) if stays.replaced => stays.refusal,
        None if proto.is_handshaking() => Some(PathError::HandshakeIncomplete),
        None if is_bare && orphan => Some(PathError::NoSocketLeft),
        _ => None,
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.endpoint.next_look.count_turn();
        self.shared.endpoint.read_if_due();
        let this = &mut *self;
        // Code of the application runs in here: schedulers, observers, sockets.
        let polled = catch_unwind(AssertUnwindSafe(|| this.work(cx)));
        if let Err(panic) = &polled {
            this.on_panic(&**panic, cx);
        }
        self.outbox.rest();
        polled.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Driver {
    /// The task is about to end by a panic. The peer is told, and does not wait for what will not come; nor does anybody here.
    #[cold]
    #[inline(never)]
    fn on_panic(&mut self, panic: &(dyn Any + Send), cx: &mut Context<'_>) {
        // The state is whatever the panic left. If this panics too, the handles learn of it all the same, by the drop.
        let _ = catch_unwind(AssertUnwindSafe(|| self.abort(panic, cx)));
    }

    fn abort(&mut self, panic: &(dyn Any + Send), cx: &mut Context<'_>) {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let now = Instant::now().into_std();
        let mut state = self.shared.lock();
        let scheduler = catch_unwind(AssertUnwindSafe(|| state.proto.scheduler().name()));
        let told = format!(
            "the task of the connection has panicked, with the scheduler {}",
            scheduler.unwrap_or("?")
        );
        // What a panic says is not for the peer.
        let mut error = state.proto.abort(now, &told);
        error.reason = format!("{told}: {}", text.unwrap_or("?")).into();
        state.terminate(ConnectionError::TransportError(error), &mut self.effects);
        take_endpoint_events(&mut state.proto, &mut self.endpoint_events);
        let (buffers, _) = self.outbox.buffers();
        let transmit = state.proto.poll_transmit(now, 1, &mut buffers.batch);
        drop(state);
        self.effects.fire(&self.shared);
        self.tell_endpoint();
        if let Some(transmit) = transmit {
            self.send(&transmit, 0, cx);
        }
        let remains = self.shared.lock().proto.remains();
        if let Some(remains) = remains.filter(|_| !self.drained) {
            self.drained = true;
            let handle = self.shared.handle;
            self.shared.endpoint.keep_remains(handle, remains);
        }
    }
}

impl Drop for Driver {
    /// Also when the runtime shuts down under the task, or it panics: no handle may wait for ever.
    fn drop(&mut self) {
        let mut effects = Wakeups::default();
        self.shared
            .lock()
            .terminate(ConnectionError::LocallyClosed, &mut effects);
        effects.fire(&self.shared);
        self.shared.discard();
        if !self.drained {
            self.shared
                .endpoint
                .on_connection_events(self.shared.handle, std::iter::once(EndpointEvent::Drained));
        }
    }
}
