//! Turns of those who wait for something that serves one at a time.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Those who wait for room in a socket, in the order in which they came. The first waits until there is room; the others wait for
/// their turn, so that room for one wakes one.
#[derive(Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

/// Whose turn it is. The next one's begins when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    /// Whether somebody waits or has the turn. Who comes then must wait too, or those who wait would find no room left.
    pub(crate) fn has_waiting(&self) -> bool {
        self.0.available_permits() == 0
    }

    /// Waits for the turn, and then for `room`. Who stops waiting gives up the turn.
    pub(crate) fn wait<F: Future<Output = ()>>(
        &self,
        room: F,
    ) -> impl Future<Output = Turn> + use<F> {
        let turns = Arc::clone(&self.0);
        async move {
            // The semaphore is never closed; if it were, all could go at once.
            let permit = turns.acquire_owned().await.ok();
            room.await;
            Turn { _permit: permit }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use tokio::sync::Notify;

    use super::*;

    struct Task {
        woken: AtomicUsize,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Waiting = Pin<Box<dyn Future<Output = Turn>>>;

    /// A hundred wait; each time that there is room, one is woken, the one who has waited longest.
    #[test]
    fn room_for_one_wakes_one_in_the_order_in_which_they_came() {
        let (turns, room) = (Turns::default(), Arc::new(Notify::new()));
        let wait = || -> Waiting {
            let room = Arc::clone(&room);
            Box::pin(turns.wait(async move { room.notified().await }))
        };
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                Arc::new(Task {
                    woken: AtomicUsize::new(0),
                })
            })
            .collect();
        let wakers: Vec<_> = tasks.iter().cloned().map(Waker::from).collect();
        let woken = || -> usize {
            let count = |task: &Arc<Task>| task.woken.load(Ordering::Relaxed);
            tasks.iter().map(count).sum()
        };
        assert!(!turns.has_waiting());
        let mut waiting: Vec<_> = (0..100).map(|_| wait()).collect();
        for (future, waker) in waiting.iter_mut().zip(&wakers) {
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
        }
        assert!(turns.has_waiting());
        assert_eq!(woken(), 0);
        for index in 0..100 {
            // There is room: who has the turn is woken, and nobody else.
            room.notify_waiters();
            assert_eq!(woken(), 2 * index + 1);
            let cx = &mut Context::from_waker(&wakers[index]);
            let Poll::Ready(turn) = waiting[index].as_mut().poll(cx) else {
                panic!("{index} was passed over");
            };
            assert!(turns.has_waiting());
            drop(turn);
            // The next one looks, and waits for room.
            if let Some(next) = waiting.get_mut(index + 1) {
                assert_eq!(tasks[index + 1].woken.load(Ordering::Relaxed), 1);
                let cx = &mut Context::from_waker(&wakers[index + 1]);
                assert!(next.as_mut().poll(cx).is_pending());
            }
        }
        assert!(!turns.has_waiting());
    }

    /// Who goes away does not keep the turn, whether it had it or not.
    #[test]
    fn who_stops_waiting_holds_up_nobody() {
        let (turns, room) = (Turns::default(), Arc::new(Notify::new()));
        let wait = || -> Waiting {
            let room = Arc::clone(&room);
            Box::pin(turns.wait(async move { room.notified().await }))
        };
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut first, mut second, mut third) = (wait(), wait(), wait());
        for one in [&mut first, &mut second, &mut third] {
            assert!(one.as_mut().poll(cx).is_pending());
        }
        drop(second);
        drop(first);
        assert!(third.as_mut().poll(cx).is_pending());
        room.notify_waiters();
        assert!(third.as_mut().poll(cx).is_ready());
        assert!(!turns.has_waiting());
    }
}
