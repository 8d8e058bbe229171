//! What threads share, in every order in which they can touch it, as loom finds them: who waits is woken, what was passed on is taken once.
//! The types are those of the crate, over loom's mutexes and atomics.
//!
//! ```sh
//! .ci/loom
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use bytes::BytesMut;
use loom::sync::Arc;
use loom::thread;
use proto::{Dir, FourTuple, Side, StreamId};

use crate::connection_state::Waiting;
use crate::guarded::{Driven, Guarded, Task};
use crate::inbox::tests::Source;
use crate::inbox::{OWN, ReadAhead, SharedInbox};
use crate::recv_buffers::Message;
use crate::shards::Shards;

/// All orders in which threads are interrupted, where they need not wait, at most so often.
fn model(interrupted: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interrupted);
    builder.check(check);
}

fn message() -> Message {
    let address = "127.0.0.1:1".parse().unwrap();
    Message {
        network_path: FourTuple {
            local: address,
            remote: address,
        },
        ecn: None,
        payload: BytesMut::zeroed(1),
        segment: 1,
        block: OWN,
    }
}

/// A shard passes a datagram on, the last connection ends, the last handle is dropped: the other shard's task takes the datagram once
/// and ends. A task that is not woken is a deadlock, which loom finds.
#[test]
fn the_task_of_a_shard_ends_with_the_last_handle_and_connection() {
    model(3, || {
        let shards = Arc::new(Shards::new(2));
        shards.on_open();
        let (passing, ending) = (Arc::clone(&shards), Arc::clone(&shards));
        let first = thread::spawn(move || {
            passing.forward(0, &mut VecDeque::from([(1, message())]));
            passing.on_gone(1);
        });
        let second = thread::spawn(move || assert!(ending.on_handle_gone()));
        let mut taken = 0;
        loom::future::block_on(poll_fn(|cx| {
            let mut datagrams = VecDeque::new();
            let on = shards.begin(1, &mut datagrams, cx.waker());
            taken += datagrams.len();
            if on { Poll::Pending } else { Poll::Ready(()) }
        }));
        first.join().unwrap();
        second.join().unwrap();
        assert!(taken <= 1);
    });
}

/// Two shards pass datagrams on to a third, whose task sleeps and wakes: all arrive.
#[test]
fn what_shards_pass_on_arrives() {
    model(3, || {
        let shards = Arc::new(Shards::new(3));
        let threads: Vec<_> = (0..2)
            .map(|from| {
                let shards = Arc::clone(&shards);
                thread::spawn(move || shards.forward(from, &mut VecDeque::from([(2, message())])))
            })
            .collect();
        let mut taken = 0;
        loom::future::block_on(poll_fn(|cx| {
            let mut datagrams = VecDeque::new();
            assert!(shards.begin(2, &mut datagrams, cx.waker()));
            taken += datagrams.len();
            if taken < 2 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shards.stats(2, 0).dropped, 0);
    });
}

/// Datagrams come for a connection while its task takes them, and sleeps when there are none: it gets each, and in the end nothing counts.
#[test]
fn datagrams_wake_the_task_of_their_connection() {
    let source = std::sync::Arc::new(std::sync::Mutex::new(Source::new()));
    model(3, move || {
        let shared = Arc::new((SharedInbox::default(), ReadAhead::default()));
        let (other, source) = (Arc::clone(&shared), std::sync::Arc::clone(&source));
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                let (run, event, _) = source.lock().unwrap().datagram(100);
                other.0.deliver(run, std::iter::once(event), &other.1);
            }
        });
        let (mut batch, mut taken) = (VecDeque::new(), 0);
        loom::future::block_on(poll_fn(|cx| {
            loop {
                shared.0.lock().collect(&mut batch, cx.waker(), &shared.1);
                if batch.is_empty() {
                    return Poll::Pending;
                }
                taken += batch.len();
                batch.clear();
                if taken == 2 {
                    return Poll::Ready(());
                }
            }
        }));
        reader.join().unwrap();
        shared.0.lock().clear(&shared.1);
        assert_eq!(shared.1.bytes(), 0);
    });
}

/// A stream of a connection: what has come and was not read, and what was written and has not left.
#[derive(Default)]
struct Halves {
    task: Task,
    readers: Waiting,
    writers: Waiting,
    to_read: u32,
    to_send: u32,
}

impl Driven for Halves {
    fn task(&mut self) -> &mut Task {
        &mut self.task
    }
}

fn stream() -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, 0)
}

/// An application writes more than there is room for and reads what comes back, in two threads, while the task of the connection takes and
/// returns it: nobody sleeps for ever.
#[test]
fn readers_writers_and_the_task_wake_each_other() {
    const ROOM: u32 = 1;
    const ALL: u32 = 2;

    model(2, || {
        let shared = Arc::new(Guarded::new(Halves::default()));
        let (writing, reading) = (Arc::clone(&shared), Arc::clone(&shared));
        let writer = thread::spawn(move || {
            for _ in 0..ALL {
                loom::future::block_on(poll_fn(|cx| {
                    writing.with(|state| {
                        if state.to_send == ROOM {
                            state.writers.insert(stream(), cx.waker());
                            return Poll::Pending;
                        }
                        state.to_send += 1;
                        state.task.touched = true;
                        Poll::Ready(())
                    })
                }));
            }
        });
        let reader = thread::spawn(move || {
            let mut read = 0;
            loom::future::block_on(poll_fn(|cx| {
                reading.with(|state| {
                    read += std::mem::take(&mut state.to_read);
                    if read == ALL {
                        return Poll::Ready(());
                    }
                    state.readers.insert(stream(), cx.waker());
                    Poll::Pending
                })
            }));
        });
        let mut left = ALL;
        loom::future::block_on(poll_fn(|cx| {
            let mut wakers: Vec<Waker> = Vec::new();
            {
                let mut state = shared.lock();
                let sent = std::mem::take(&mut state.to_send);
                if sent > 0 {
                    state.to_read += sent;
                    left -= sent;
                    wakers.extend(state.writers.remove(stream()));
                    wakers.extend(state.readers.remove(stream()));
                }
                state.task.sleeps(cx.waker());
            }
            // As `Wakeups` does: not with the lock held.
            for waker in wakers {
                waker.wake();
            }
            if left == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        writer.join().unwrap();
        reader.join().unwrap();
    });
}
