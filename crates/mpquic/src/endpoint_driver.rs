//! The task of one shard of an endpoint: has its sockets read, and its clients prove their addresses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep};

use crate::endpoint_state::EndpointShared;

/// Datagrams that are read before Retry packets are sent, if the sockets always have more: an eighth of what a socket holds, so
/// that a flood faster than we read does not keep everybody from an answer.
const READ_BEFORE_RETRIES: usize = 1024;

/// The task.
pub(crate) struct EndpointDriver {
    shared: Arc<EndpointShared>,
    /// For what waits to be accepted, and for sockets that rest.
    timer: Pin<Box<Sleep>>,
    /// Who is woken by the timer, as it is set.
    timed: Option<Waker>,
    finished: bool,
}

impl EndpointDriver {
    pub(crate) fn new(shared: Arc<EndpointShared>) -> Self {
        Self {
            shared,
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            timed: None,
            finished: false,
        }
    }

    /// Sets the timer for what comes next; returns whether it has come already.
    fn arm(&mut self, next: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(next) = next else {
            return false;
        };
        let moved = self.timer.deadline() != next;
        let timed = self.timed.as_ref();
        if !moved
            && !self.timer.is_elapsed()
            && timed.is_some_and(|timed| timed.will_wake(cx.waker()))
        {
            // It would say the same as when it was polled last.
            return false;
        }
        self.set_timer(moved.then_some(next), cx)
    }

    /// Apart from the rest: while datagrams come, the timer mostly stays as it is.
    #[inline(never)]
    fn set_timer(&mut self, to: Option<Instant>, cx: &mut Context<'_>) -> bool {
        if let Some(to) = to {
            self.timer.as_mut().reset(to);
        }
        // Without, the runtime has the task go on later, and the timer knows nothing of it.
        let has_turn = tokio::task::coop::has_budget_remaining();
        let over = self.timer.as_mut().poll(cx).is_ready();
        let is_set = has_turn && !over;
        self.timed = is_set.then(|| cx.waker().clone());
        over
    }
}

impl Future for EndpointDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let shared = &*this.shared;
        let mut reader = shared.reader();
        if !reader.begin(shared, cx.waker()) {
            this.finished = true;
            return Poll::Ready(());
        }
        let more = reader.look(shared, cx);
        if !more || reader.read() >= READ_BEFORE_RETRIES {
            let waiting = reader.send_retries(shared);
            if waiting && !more {
                // All other tasks come first, and the sockets are looked at: who has answered does not wait for all.
                let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
                return Poll::Pending;
            }
        }
        let next = reader.timeout();
        drop(reader);
        if !more && !this.arm(next, cx) {
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
