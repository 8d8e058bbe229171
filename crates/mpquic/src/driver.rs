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

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use proto::{
    ConnectionError, ConnectionEvent, EndpointEvent, FourTuple, PathErrorCode, PathId, Remains,
    Transmit,
};
use tokio::time::{Instant, Sleep};

use crate::outbox::{Dispatch, Outbox, join, may_be_joined};
use crate::shared::{Effects, Shared};

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
    /// What is to be sent, one behind the other in the buffer.
    transmits: [Option<Transmit>; 2],
    /// The protocol may have more.
    more: bool,
    /// The timers that were due were looked at.
    looked: bool,
    /// A path whose link's MTU would help.
    link: Option<(PathId, FourTuple)>,
    drained: bool,
    /// Nobody holds the connection any more, and this is all that its endpoint needs of it.
    remains: Option<Remains>,
}

/// The task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    outbox: Outbox,
    /// Taken from the inbox, not yet handed to the protocol.
    batch: VecDeque<ConnectionEvent>,
    endpoint_events: Vec<EndpointEvent>,
    effects: Effects,
    timer: Pin<Box<Sleep>>,
    /// What the protocol said last of its timers.
    due: Option<Instant>,
    /// When something was last taken from the inbox; `None` if its queues were given back since.
    collected: Option<Instant>,
    /// Since when the sockets are read before its timers are looked at.
    reading_since: Option<Instant>,
    /// The protocol wanted to send what no socket could.
    unroutable: bool,
    /// Between these addresses, the system refused to send.
    no_way: Option<(FourTuple, std::io::ErrorKind)>,
    /// What the link of a path takes, as asked for.
    link: Option<(PathId, FourTuple, Option<u32>)>,
    /// The endpoint knows that the connection is over.
    drained: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let outbox = Outbox::new(&shared.endpoint.sockets);
        Self {
            outbox,
            batch: VecDeque::new(),
            endpoint_events: Vec::new(),
            effects: Effects::default(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            due: None,
            collected: None,
            reading_since: None,
            unroutable: false,
            no_way: None,
            link: None,
            drained: false,
            shared,
        }
    }

    /// Until when timers wait, since the protocol would judge what was not answered, and the answer may be in a socket.
    /// Not for long: a socket into which others send all the while is never empty.
    fn reads_first(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due.is_some_and(|at| at <= now);
        let judges = |proto: &proto::Connection| {
            // One that is closed only waits until it may be forgotten.
            !proto.is_closed() && proto.judges_silence(now.into_std())
        };
        let reads = due && judges(&self.shared.lock().proto) && self.outbox.has_unread();
        if !reads {
            self.reading_since = None;
            return None;
        }
        let until = *self.reading_since.get_or_insert(now) + READ_FIRST;
        (now < until).then(|| until.min(now + LOOK_AGAIN))
    }

    /// One hold of the mutex. If nothing else will make this task run on, since all that came is taken in and there is
    /// nothing to send, the next one to touch the state must wake it. Timers are not looked at before `hold`.
    fn round(&mut self, now: Instant, hold: Option<Instant>, cx: &Context<'_>) -> Round {
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
        let due = self.due.is_some_and(|at| at <= now);
        let looked = due && hold.is_none() && self.batch.is_empty();
        if looked {
            state.proto.handle_timeout(std_now);
        }
        if sockets_changed || std::mem::take(&mut self.unroutable) {
            leave_unroutable(&mut state.proto, std_now, &self.outbox);
        }
        if let Some((path, kind)) = self.no_way.take() {
            state
                .proto
                .handle_send_error(std_now, path, &kind.to_string());
        }
        if let Some((id, path, mtu)) = self.link.take() {
            state.proto.set_link_mtu(std_now, id, &path, mtu);
        }

        let state = &mut *state;
        let mut mesh_timeout = None;
        if state.mesh.is_some() {
            // It hears of paths before it opens others.
            state.forward_events(now, &mut self.effects);
        }
        if let Some(mesh) = &mut state.mesh {
            if sockets_changed {
                mesh.unblock();
            }
            mesh_timeout = mesh.poll(&mut state.proto, std_now, self.outbox.locals());
        }

        // What came up so far, the endpoint must know before more is sent ...
        let events = &mut self.endpoint_events;
        events.extend(std::iter::from_fn(|| state.proto.poll_endpoint_events()));
        let mut transmits = [None, None];
        let mut more = false;
        if self.outbox.is_open() {
            let (buffers, max_datagrams) = self.outbox.buffers();
            state.proto.swap_spare_buffers(&mut buffers.spare);
            let batch = &mut buffers.batch;
            let mut first = state.proto.poll_transmit(std_now, max_datagrams, batch);
            more = first.is_some();
            // The first part of a handshake's flight. What else is single is mostly all that there is, and leaves at once.
            if let Some(first) = first.as_mut().filter(|first| may_be_joined(first)) {
                let second = state.proto.poll_transmit(std_now, 1, batch);
                more = second.is_some();
                transmits[1] = second.filter(|second| !join(first, second));
            }
            transmits[0] = first;
            state.proto.swap_spare_buffers(&mut buffers.spare);
        }
        // ... and what comes up by making the packets (new connection IDs) before these leave.
        events.extend(std::iter::from_fn(|| state.proto.poll_endpoint_events()));
        state.forward_events(now, &mut self.effects);

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
            match &mut state.driver {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        let idle = self.batch.is_empty() && !more && transmits[0].is_none();
        let abandoned =
            idle && state.proto.is_closed() && self.shared.is_abandoned() && self.outbox.is_empty();
        let remains = abandoned.then(|| state.proto.remains()).flatten();
        Round {
            transmits,
            more,
            looked,
            remains,
            link: state.proto.link_mtu_wanted(std_now),
            drained: state.proto.is_drained(),
        }
    }

    /// Sets the timer if it would go off too late. One that goes off too early costs a look, less
    /// than moving it with every packet would.
    fn arm(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // When the protocol comes to rest, a task that was behind may have taken in the last of it just before.
        let rest = self.collected.map(|at| at + REST);
        let Some(timeout) = self.due.into_iter().chain(rest).min() else {
            return Poll::Pending;
        };
        let set = self.timer.deadline();
        if self.timer.is_elapsed() || set <= now || set > timeout {
            self.timer.as_mut().reset(timeout);
        }
        self.timer.as_mut().poll(cx)
    }

    /// Notes that something came, or that nothing has for so long that the queues for it are given back.
    fn note_collected(&mut self, now: Instant) {
        if !self.batch.is_empty() {
            self.collected = Some(now);
        } else if self.collected.is_some_and(|at| now >= at + REST) {
            self.collected = None;
            self.batch = VecDeque::new();
            self.shared.rest();
        }
    }

    fn tell_endpoint(&mut self) {
        if self.endpoint_events.is_empty() {
            return;
        }
        self.drained |= self.endpoint_events.contains(&EndpointEvent::Drained);
        self.shared
            .endpoint
            .on_connection_events(self.shared.handle, self.endpoint_events.drain(..));
        // There is seldom something to tell: the memory is not kept for it.
        self.endpoint_events = Vec::new();
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
            let hold = self.reads_first(now);
            let round = self.round(now, hold, cx);
            self.effects.fire(&self.shared);
            self.tell_endpoint();
            if let Some((id, path)) = round.link {
                self.link = Some((id, path, self.outbox.link_mtu(&path)));
            }
            let mut at = 0;
            for transmit in round.transmits.into_iter().flatten() {
                let (path, end) = (transmit.network_path, at + transmit.size);
                match self.outbox.dispatch(transmit, at, cx) {
                    Dispatch::Taken => {}
                    Dispatch::Unroutable => {
                        tracing::debug!(%path, "no socket for this path");
                        self.unroutable = true;
                    }
                    Dispatch::NoWay(kind) => self.no_way = Some((path, kind)),
                }
                at = end;
            }
            if round.more || self.unroutable || self.no_way.is_some() {
                continue;
            }
            if round.drained {
                return Poll::Ready(());
            }
            if let Some(remains) = round.remains {
                self.drained = true;
                let handle = self.shared.handle;
                self.shared.endpoint.keep_remains(handle, remains);
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
            let missed = !round.looked && self.due.is_some_and(|at| at <= now);
            if !missed && self.arm(now, cx).is_pending() {
                return Poll::Pending;
            }
        }
        // Others first, then on.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Moves the paths whose local address is gone to the socket that replaced theirs, as far as a client may. Abandons those
/// that nothing replaced, so that nobody waits for what they carried. The last one goes on from any other socket; without
/// one it stays: a socket may come back, or the idle timeout ends it.
fn leave_unroutable(proto: &mut proto::Connection, now: std::time::Instant, outbox: &Outbox) {
    // Rare enough for a list.
    let paths: Vec<_> = proto.paths().collect();
    for id in paths {
        let Ok(FourTuple { local, remote }) = proto.network_path(id) else {
            continue;
        };
        if outbox.can_send_from(local) {
            continue;
        }
        if let Some(local) = outbox.successor(local) {
            match proto.migrate_path(now, id, local) {
                Ok(()) => continue,
                Err(error) => tracing::debug!(%id, %local, %error, "path does not move"),
            }
        }
        let Err(error) = proto.close_path(now, id, PathErrorCode::PATH_UNSTABLE_OR_POOR) else {
            continue;
        };
        let mut others = outbox.locals().map(|(local, _)| local);
        let other = others.find(|other| other.is_ipv4() == remote.is_ipv4());
        match other.map(|other| proto.migrate_path(now, id, other)) {
            Some(Ok(())) => tracing::debug!(%id, "path goes on from another socket"),
            _ => tracing::debug!(%id, %error, "path without a socket stays"),
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.endpoint.next_look.count_turn();
        self.shared.endpoint.read_if_due();
        let polled = self.work(cx);
        self.outbox.rest();
        polled
    }
}

impl Drop for Driver {
    /// Also when the runtime shuts down under the task, or it panics: no handle may wait for ever.
    fn drop(&mut self) {
        let mut effects = Effects::default();
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
