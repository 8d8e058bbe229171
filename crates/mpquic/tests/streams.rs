//! Streams: data, ends, and what dropping means.

use std::future::poll_fn;
use std::task::Poll;

use crate::common::{Pair, loopback, pattern, run};
use bytes::Bytes;
use mpquic::{
    ClosedStream, ConnectionError, ReadError, ReadExactError, ReadToEndError, StoppedError,
    StreamHints, VarInt, WriteError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CODE: VarInt = VarInt::from_u32(42);

#[test]
fn a_megabyte_is_echoed() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(1 << 20);
        let echo = async {
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
                send.write_chunk(chunk).await.unwrap();
            }
            send.finish().unwrap();
        };
        let ask = async {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            let write = async {
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                assert_eq!(send.finish(), Err(ClosedStream));
            };
            let (answer, ()) = tokio::join!(recv.read_to_end(1 << 20), write);
            assert!(answer.unwrap() == data);
            assert_eq!(recv.read_chunk(1).await, Ok(None));
        };
        tokio::join!(echo, ask);
    });
}

/// Several wait for streams of the peer, in one task and in others: who gives up takes none from those who wait on.
#[test]
fn who_gives_up_waiting_for_a_stream_holds_up_nobody() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let other = server.clone();
        let other = tokio::spawn(async move { other.accept_bi().await.unwrap() });
        let mut first = Box::pin(server.accept_bi());
        let mut second = Box::pin(server.accept_bi());
        poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            assert!(second.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        // The other task waits, too.
        tokio::task::yield_now().await;
        drop(first);
        let mut streams = Vec::new();
        for _ in 0..2 {
            let (mut send, recv) = client.open_bi().await.unwrap();
            send.write_all(b"for one of them").await.unwrap();
            streams.push((send, recv));
        }
        let (other, second) = tokio::join!(other, second);
        assert_ne!(other.unwrap().1.id(), second.unwrap().1.id());
    });
}

#[test]
fn chunks_are_read_many_at_a_time_and_the_end_is_told_once_more() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(300_000);
        let write = async {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap();
        };
        let read = async {
            let mut recv = server.accept_uni().await.unwrap();
            let (mut chunks, mut all) = (vec![Bytes::new(); 4], Vec::new());
            assert_eq!(recv.read_chunks(&mut []).await, Ok(Some(0)));
            while let Some(count) = recv.read_chunks(&mut chunks).await.unwrap() {
                assert!((1..=4).contains(&count));
                chunks[..count]
                    .iter()
                    .for_each(|chunk| all.extend_from_slice(chunk));
            }
            assert!(all == data);
            assert_eq!(recv.read_chunks(&mut chunks).await, Ok(None));
            assert_eq!(recv.read_chunk(1).await, Ok(None));
        };
        tokio::join!(write, read);
    });
}

#[test]
fn limits_can_be_raised_in_use() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport
                .max_concurrent_uni_streams(0)
                .receive_window(10_000)
                .window_auto_tuning(false);
        });
        let (client, server) = pair.connect().await;
        let open = poll_fn(|cx| Poll::Ready(client.poll_open_uni(cx).is_ready()));
        assert!(!open.await, "the server allows none");
        server.set_max_concurrent_uni_streams(1);
        let mut send = client.open_uni().await.unwrap();
        let data = pattern(50_000);
        let write = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        };
        let read = async {
            let mut recv = server.accept_uni().await.unwrap();
            // Nobody reads: more than the first window arrives only because there is a larger one.
            server.set_receive_window(100_000);
            while server.stats().received_stream_bytes < 50_000 {
                tokio::task::yield_now().await;
            }
            assert!(recv.read_to_end(50_000).await.unwrap() == data);
        };
        tokio::join!(write, read);
    });
}

#[test]
fn more_streams_than_are_allowed_at_a_time() {
    const STREAMS: u32 = 500;
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.max_concurrent_uni_streams(8);
        });
        let (client, server) = pair.connect().await;
        let send = async {
            for number in 0..STREAMS {
                let mut stream = client.open_uni().await.unwrap();
                stream.write_all(&number.to_be_bytes()).await.unwrap();
                // Dropped: finished.
            }
        };
        let receive = async {
            let mut seen = vec![false; STREAMS as usize];
            for _ in 0..STREAMS {
                let mut stream = server.accept_uni().await.unwrap();
                let data = stream.read_to_end(4).await.unwrap();
                let number = u32::from_be_bytes(data.try_into().unwrap());
                assert!(!std::mem::replace(&mut seen[number as usize], true));
            }
        };
        tokio::join!(send, receive);
    });
}

#[test]
fn dropping_the_sender_finishes() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"all of it").await.unwrap();
        drop(stream);
        let mut stream = server.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(100).await.unwrap(), b"all of it");
    });
}

#[test]
fn dropping_the_receiver_stops() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"unwanted").await.unwrap();
        drop(server.accept_uni().await.unwrap());
        let stopped = stream.stopped().await;
        assert_eq!(stopped, Ok(Some(VarInt::from_u32(0))));
        let error = stream.write_all(b"more").await.unwrap_err();
        assert_eq!(error, WriteError::Stopped(VarInt::from_u32(0)));
    });
}

#[test]
fn a_blocked_writer_hears_of_a_stop() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        // More than any window: it is blocked when the stop comes, or will be.
        let write = async {
            let chunk = vec![0; 1 << 20];
            loop {
                if let Err(error) = stream.write_all(&chunk).await {
                    break error;
                }
            }
        };
        let stop = async { server.accept_uni().await.unwrap().stop(CODE).unwrap() };
        let (error, ()) = tokio::join!(write, stop);
        assert_eq!(error, WriteError::Stopped(CODE));
    });
}

#[test]
fn a_reset_is_read_and_waited_for() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for wait in [false, true] {
            let mut stream = client.open_uni().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            let mut there = server.accept_uni().await.unwrap();
            there.read_exact(&mut [0]).await.unwrap();
            stream.reset(CODE).unwrap();
            assert_eq!(stream.write_all(b"x").await, Err(WriteError::ClosedStream));
            if wait {
                assert_eq!(there.received_reset().await, Ok(Some(CODE)));
            }
            let read = there.read(&mut [0]).await;
            assert_eq!(read, Err(ReadError::Reset(CODE)));
        }
    });
}

#[test]
fn received_reset_tells_the_end_too() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.finish().unwrap();
        let mut there = server.accept_uni().await.unwrap();
        there.read_exact(&mut [0]).await.unwrap();
        assert_eq!(there.received_reset().await, Ok(None));
        assert_eq!(there.read(&mut [0]).await, Ok(None));
    });
}

#[test]
fn stopped_says_when_all_has_arrived() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(&pattern(100_000)).await.unwrap();
        stream.finish().unwrap();
        let arrived = stream.stopped();
        let read = async {
            let mut there = server.accept_uni().await.unwrap();
            there.read_to_end(100_000).await.unwrap()
        };
        let (arrived, data) = tokio::join!(arrived, read);
        assert_eq!(arrived, Ok(None));
        assert_eq!(data.len(), 100_000);
    });
}

#[test]
fn limits_of_reads() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for _ in 0..2 {
            let mut stream = client.open_uni().await.unwrap();
            stream.write_all(b"12345").await.unwrap();
            stream.finish().unwrap();
        }
        let mut stream = server.accept_uni().await.unwrap();
        let error = stream.read_exact(&mut [0; 6]).await.unwrap_err();
        assert_eq!(error, ReadExactError::FinishedEarly(5));
        let mut stream = server.accept_uni().await.unwrap();
        let error = stream.read_to_end(4).await.unwrap_err();
        assert_eq!(error, ReadToEndError::TooLong);
    });
}

#[test]
fn streams_are_tokio_readers_and_writers() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.set_priority(3).unwrap();
        assert_eq!(stream.priority(), Ok(3));
        stream
            .set_hints(StreamHints {
                size: Some(5),
                ..StreamHints::default()
            })
            .unwrap();
        AsyncWriteExt::write_all(&mut stream, b"hello")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        stream.shutdown().await.unwrap();
        let mut stream = server.accept_uni().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    });
}

#[test]
fn both_halves_of_many_streams_at_once() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let serve = tokio::spawn(async move {
            while let Ok((mut send, mut recv)) = server.accept_bi().await {
                tokio::spawn(async move {
                    let data = recv.read_to_end(1 << 20).await.unwrap();
                    send.write_all(&data).await.unwrap();
                });
            }
        });
        let mut asks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let client = client.clone();
            asks.spawn(async move {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                let data = pattern(number * 100);
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                assert_eq!(recv.read_to_end(1 << 20).await.unwrap(), data);
            });
        }
        while let Some(result) = asks.join_next().await {
            result.unwrap();
        }
        drop(client);
        pair.client.close(0u32.into(), b"");
        serve.await.unwrap();
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Of those who wait for a stream, about as many wake as streams become available, and none is forgotten.
#[test]
fn openers_wake_as_credits_come() {
    const WAITING: usize = 1000;
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.max_concurrent_uni_streams(1);
        });
        let (client, server) = pair.connect().await;
        let first = client.open_uni().await.unwrap();
        let wakes: Vec<_> = (0..WAITING)
            .map(|_| std::sync::Arc::new(Wakes::default()))
            .collect();
        let mut openers: Vec<_> = wakes
            .iter()
            .map(|wake| {
                let mut opener = Box::pin(client.open_uni());
                let waker = std::task::Waker::from(std::sync::Arc::clone(wake));
                let mut context = std::task::Context::from_waker(&waker);
                assert!(opener.as_mut().poll(&mut context).is_pending());
                Some(opener)
            })
            .collect();
        let woken = |index: usize| wakes[index].0.swap(0, std::sync::atomic::Ordering::Relaxed);
        let mut total = 0;
        let mut send = first;
        for opened in 0..100 {
            // The stream ends, so the peer allows one more.
            send.finish().unwrap();
            let mut recv = server.accept_uni().await.unwrap();
            assert!(recv.read_to_end(10).await.unwrap().is_empty());
            drop(recv);
            send = loop {
                let index = (0..WAITING).find(|&index| {
                    let count = woken(index);
                    total += count;
                    count > 0 && openers[index].is_some()
                });
                let Some(index) = index else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let waker = std::task::Waker::from(std::sync::Arc::clone(&wakes[index]));
                let mut context = std::task::Context::from_waker(&waker);
                let opener = openers[index].as_mut().unwrap();
                if let Poll::Ready(stream) = opener.as_mut().poll(&mut context) {
                    openers[index] = None;
                    break stream.unwrap();
                }
            };
            assert!(
                total <= 3 * (opened + 1),
                "{total} woken for {} streams",
                opened + 1
            );
        }
        // All that still wait hear of the end.
        client.close(0_u32.into(), b"");
        let left = openers.iter().flatten().count();
        let told = (0..WAITING).filter(|&index| openers[index].is_some() && woken(index) > 0);
        assert_eq!((left, told.count()), (WAITING - 100, WAITING - 100));
    });
}

/// A local reset ends the wait for the stream's end, before and after, and is not taken for delivery.
#[test]
fn a_local_reset_ends_the_wait_for_the_end() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"part").await.unwrap();
        let waiting = tokio::spawn(send.stopped());
        let mut recv = server.accept_uni().await.unwrap();
        tokio::task::yield_now().await;
        send.reset(CODE).unwrap();
        assert_eq!(waiting.await.unwrap(), Err(StoppedError::ClosedStream));
        assert_eq!(send.stopped().await, Err(StoppedError::ClosedStream));
        assert_eq!(
            recv.read_to_end(10).await,
            Err(ReadToEndError::Read(ReadError::Reset(CODE)))
        );
        // Nor later, when the peer has acknowledged the reset and the stream is gone.
        client.open_uni().await.unwrap().finish().unwrap();
        server
            .accept_uni()
            .await
            .unwrap()
            .read_to_end(10)
            .await
            .unwrap();
        assert_eq!(send.stopped().await, Err(StoppedError::ClosedStream));
    });
}

/// A message of which a part was written never looks whole.
#[test]
fn a_write_that_is_cancelled_does_not_finish_the_stream() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.stream_receive_window(1000);
        });
        let (client, server) = pair.connect().await;
        let reset = Err(ReadToEndError::Read(ReadError::Reset(VarInt::from_u32(0))));
        for way in 0..3 {
            let mut send = client.open_uni().await.unwrap();
            {
                let data = pattern(100_000);
                let write = async {
                    match way {
                        0 => send.write_all(&data).await.unwrap(),
                        1 => send.write_chunk(data.into()).await.unwrap(),
                        // Tokio's own, which knows but `poll_write`.
                        _ => AsyncWriteExt::write_all(&mut send, &data).await.unwrap(),
                    }
                };
                tokio::select! {
                    biased;
                    () = write => panic!("there was room for all"),
                    // It has begun, and waits for room.
                    () = tokio::task::yield_now() => {}
                }
            }
            drop(send);
            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.read_to_end(200_000).await, reset, "{way}");
        }
        // Who says that it is the end means it, and who has written all may just let go.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"whole").await.unwrap();
        drop(send);
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"whole");
    });
}

#[test]
fn a_panic_does_not_finish_the_stream() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        let task = tokio::spawn(async move {
            send.write_all(b"part").await.unwrap();
            panic!("in the middle of a message, as the test wants it");
        });
        assert!(task.await.unwrap_err().is_panic());
        let mut recv = server.accept_uni().await.unwrap();
        let reset = Err(ReadToEndError::Read(ReadError::Reset(VarInt::from_u32(0))));
        assert_eq!(recv.read_to_end(10).await, reset);
        // A stream that was finished before stays so.
        let mut send = client.open_uni().await.unwrap();
        let task = tokio::spawn(async move {
            send.write_all(b"whole").await.unwrap();
            send.finish().unwrap();
            panic!("after the message, as the test wants it");
        });
        assert!(task.await.unwrap_err().is_panic());
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"whole");
    });
}

/// Whoever polls is woken: all of them by a stream that opens or comes, and by the end.
#[test]
fn those_who_poll_are_woken() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.max_concurrent_uni_streams(1_u32.into());
        });
        let (client, server) = pair.connect().await;

        // Two accept; one stream comes, then the end.
        let accepting = [server.clone(), server.clone()].map(|server| {
            tokio::spawn(async move { poll_fn(|cx| server.poll_accept_uni(cx)).await })
        });
        let (done, mut is_done) = tokio::sync::mpsc::channel(2);
        for task in accepting {
            let done = done.clone();
            tokio::spawn(async move { done.send(task.await.unwrap()).await });
        }
        let mut first = poll_fn(|cx| client.poll_open_uni(cx)).await.unwrap();
        let mut chunk = Bytes::from_static(b"once");
        let taken = poll_fn(|cx| first.poll_write_chunk(cx, &mut chunk)).await;
        assert_eq!((taken, chunk.len()), (Ok(4), 0));
        let mut accepted = is_done.recv().await.unwrap().unwrap();

        // No more are allowed before the first is over.
        let opening = tokio::spawn({
            let client = client.clone();
            async move { poll_fn(|cx| client.poll_open_uni(cx)).await }
        });
        first.finish().unwrap();
        assert_eq!(accepted.read_to_end(10).await.unwrap(), b"once");
        drop(accepted);
        let second = opening.await.unwrap().unwrap();
        assert_ne!(second.id(), first.id());

        client.close(VarInt::from_u32(7), b"");
        let error = is_done.recv().await.unwrap().unwrap_err();
        assert!(
            matches!(error, ConnectionError::ApplicationClosed(_)),
            "{error}"
        );
        let error = poll_fn(|cx| client.poll_open_bi(cx)).await.unwrap_err();
        assert_eq!(error, ConnectionError::LocallyClosed);
        let error = poll_fn(|cx| client.poll_read_datagram(cx))
            .await
            .unwrap_err();
        assert_eq!(error, ConnectionError::LocallyClosed);
    });
}

#[test]
fn data_is_read_out_of_order_and_then_in_no_other_way() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |transport| {
            transport
                .stream_receive_window(100_000)
                .window_auto_tuning(false);
        });
        let (client, server) = pair.connect().await;
        let second = pair.client.local_addrs()[1];
        client
            .open_path_from(second, pair.server_addr)
            .await
            .unwrap();
        let data = pattern(1 << 20);
        let write = async {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap();
        };
        let read = async {
            let mut recv = server.accept_uni().await.unwrap();
            let mut start = [0; 1000];
            recv.read_exact(&mut start).await.unwrap();
            let mut all = start.to_vec();
            all.resize(data.len(), 0);
            let mut bytes = 1000;
            while let Some(chunk) = recv.read_unordered(5000).await.unwrap() {
                assert!((1..=5000).contains(&chunk.bytes.len()));
                let at = chunk.offset as usize;
                all[at..at + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                if bytes == 1000 {
                    let wrong = recv.read(&mut start).await;
                    assert_eq!(wrong, Err(ReadError::IllegalOrderedRead));
                    let wrong = recv.read_chunk(1).await;
                    assert_eq!(wrong, Err(ReadError::IllegalOrderedRead));
                }
                bytes += chunk.bytes.len();
            }
            assert_eq!(bytes, data.len());
            assert!(all == data);
            assert_eq!(recv.read_unordered(1).await, Ok(None));
            assert_eq!(recv.received_reset().await, Ok(None));
        };
        tokio::join!(write, read);
    });
}
