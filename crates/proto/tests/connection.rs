//! Two connections in memory: handshake, streams, paths, closing.

use std::time::Duration;

use crate::pair::{Flying, Pair, client_addr, server_addr, tuple};
use bytes::{Bytes, BytesMut};
use mpquic_proto::sched::{Context, Decision, PathIndex, Scheduler};
use mpquic_proto::{
    ConnectionError, DatagramEvent, Dir, Event, FourTuple, PathEvent, PathId, ReadError,
    StreamEvent, TransportConfig, TransportErrorCode, VarInt, WriteError,
};

fn pair() -> Pair {
    Pair::new(TransportConfig::default(), TransportConfig::default())
}

/// Sends `len` bytes from the client and reads them at the server.
fn transfer(pair: &mut Pair, len: usize, limit: Duration) {
    let data: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
    let id = pair.c().streams().open(Dir::Bi).unwrap();
    let mut written = 0;
    let mut received = Vec::new();
    let mut finished = false;
    let expected = data.clone();
    let done = pair.run_until(limit, |pair| {
        while written < data.len() {
            match pair.c().send_stream(id).write(&data[written..]) {
                Ok(n) => written += n,
                Err(_) => break,
            }
            if written == data.len() {
                pair.c().send_stream(id).finish().unwrap();
            }
        }
        if pair.server.connection.is_some() {
            pair.s().streams().accept(Dir::Bi);
            let mut buf = [0; 65536];
            loop {
                match pair.s().recv_stream(id).read(&mut buf) {
                    Ok(Some(n)) => received.extend_from_slice(&buf[..n]),
                    Ok(None) => {
                        finished = true;
                        break;
                    }
                    Err(ReadError::Blocked) => break,
                    Err(_) => break,
                }
            }
        }
        finished
    });
    assert!(
        done,
        "stuck at {} of {len}: {:?}",
        received.len(),
        pair.c().stats()
    );
    assert!(received == expected, "data differs");
}

/// A side that got a frame of the extension in an Initial or Handshake packet would close the connection.
//= specs/rfc10069-draft.md#frames
//= type=test
//# All frames defined in this document MUST only be sent in 1-RTT packets.
#[test]
fn handshake() {
    let mut pair = pair();
    pair.connect();
    assert!(pair.c().paths().is_multipath() && pair.s().paths().is_multipath());
}

#[test]
fn bulk_on_one_path() {
    let mut pair = pair();
    pair.connect();
    transfer(&mut pair, 5_000_000, Duration::from_secs(20));
    assert_eq!(pair.c().stats().lost_packets, 0);
}

#[test]
fn bulk_on_two_paths() {
    let mut pair = pair();
    pair.connect();
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert_eq!(id, PathId(1));
    assert!(pair.run_until(Duration::from_secs(2), |pair| pair.both_validated(id)));
    transfer(&mut pair, 5_000_000, Duration::from_secs(20));
    for id in [PathId(0), PathId(1)] {
        assert!(pair.c().path(id).unwrap().stats().sent_stream_bytes > 0);
    }
}

/// The peer's connection IDs for later path IDs say nothing new of the next one.
#[test]
fn available_is_told_once_per_path() {
    let mut pair = pair();
    pair.connect();
    pair.run_until(Duration::from_secs(1), |_| false);
    let now = pair.now;
    pair.c().open_path(now, tuple(1)).unwrap();
    pair.run_until(Duration::from_secs(1), |_| false);
    let mut told: Vec<_> = pair
        .client
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Path(PathEvent::Available { next }) => Some(*next),
            _ => None,
        })
        .collect();
    assert_eq!(told.first(), Some(&PathId(1)));
    let count = told.len();
    told.dedup();
    assert_eq!(told.len(), count);
}

#[test]
fn bulk_with_losses() {
    let mut pair = pair();
    pair.connect();
    let mut count = 0u64;
    pair.filter = Box::new(move |_, _, _| {
        count += 1;
        !count.is_multiple_of(37)
    });
    transfer(&mut pair, 2_000_000, Duration::from_secs(60));
    assert!(pair.c().stats().lost_packets > 0);
}

#[test]
fn close_reaches_the_peer() {
    let mut pair = pair();
    pair.connect();
    let now = pair.now;
    pair.c()
        .close(now, VarInt::from_u32(7), Bytes::from_static(b"bye"));
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.c().is_drained() && pair.s().is_drained()
    }));
    match pair.s().lost_reason() {
        Some(ConnectionError::ApplicationClosed(close)) => {
            assert_eq!(close.error_code, VarInt::from_u32(7));
            assert_eq!(&close.reason[..], b"bye");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pair.server.endpoint.open_connections(), 0);
}

/// The next packet of the server with data.
fn from_server(pair: &mut Pair) -> BytesMut {
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    pair.s().send_stream(id).write(b"more").unwrap();
    let (now, mut data) = (pair.now, Vec::new());
    assert!(pair.s().poll_transmit(now, 1, &mut data).is_some());
    BytesMut::from(&data[..])
}

/// The client has closed, and the packet that says so is lost.
fn closed_unheard() -> Pair {
    let mut pair = pair();
    pair.connect();
    let now = pair.now;
    pair.c().close(now, VarInt::from_u32(7), Bytes::new());
    let close = pair.c().poll_transmit(now, 1, &mut Vec::new());
    assert!(close.is_some());
    pair
}

/// A connection that nobody holds is gone before its closing period is over: the endpoint answers in its place. Not what came
/// within a round trip: it left before the close can have arrived.
//= specs/rfc9000.txt#section-10.2.1
//= type=test
//# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
#[test]
fn what_is_left_of_a_connection_tells_the_peer_that_it_is_closed() {
    let mut pair = closed_unheard();
    let trip = pair.c().path(PathId::ZERO).unwrap().stats().rtt;
    let (handle, mut connection) = pair.client.connection.take().unwrap();
    while let Some(event) = connection.poll_endpoint_events() {
        pair.client.endpoint.handle_event(handle, event);
    }
    let end = connection.poll_timeout().unwrap();
    let remains = connection.remains().unwrap();
    drop(connection);
    assert!(pair.client.endpoint.keep_remains(handle, remains));

    for (wait, answered) in [(trip / 2, false), (trip, true)] {
        pair.now += wait;
        let (now, datagram) = (pair.now, from_server(&mut pair));
        let endpoint = &mut pair.client.endpoint;
        let mut answer = Vec::new();
        let event = endpoint.handle(now, tuple(0), None, datagram, &mut answer);
        let Some(DatagramEvent::ConnectionEvent(to, event)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(to, handle);
        let transmit = endpoint.handle_remains(to, &event, &mut answer);
        assert_eq!(transmit.is_some(), answered, "after {wait:?}");
        if transmit.is_some() {
            let data = BytesMut::from(&answer[..]);
            let there = FourTuple {
                local: tuple(0).remote,
                remote: tuple(0).local,
            };
            let server = &mut pair.server.endpoint;
            let event = server.handle(now, there, None, data, &mut Vec::new());
            let Some(DatagramEvent::ConnectionEvent(_, event)) = event else {
                panic!("{event:?}");
            };
            pair.s().handle_event(event);
        }
    }
    assert!(matches!(
        pair.s().lost_reason(),
        Some(ConnectionError::ApplicationClosed(close)) if close.error_code == VarInt::from_u32(7)
    ));

    // The server's connection drains, and nobody holds it, either: nothing is left but when its time is over.
    let (_, server) = pair.server.connection.as_mut().unwrap();
    assert!(server.poll_transmit(pair.now, 1, &mut Vec::new()).is_none());
    while server.poll_endpoint_events().is_some() {}
    assert!(server.remains().is_some());

    let endpoint = &mut pair.client.endpoint;
    assert_eq!(endpoint.forget_remains(Some(end)), 0);
    assert_eq!(endpoint.open_connections(), 1);
    let due = endpoint.poll_timeout().unwrap();
    assert!(due >= end && due < end + Duration::from_millis(20));
    assert_eq!(endpoint.forget_remains(Some(due)), 1);
    assert_eq!(endpoint.open_connections(), 0);
    assert_eq!(endpoint.poll_timeout(), None);
}

/// A packet for each path in turn, as long as it has room.
struct ByTurns(Option<PathIndex>);

impl Scheduler for ByTurns {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let after = cx.sendable().find(|path| Some(path.index) > self.0);
        let Some(path) = after.or_else(|| cx.sendable().next()) else {
            return Decision::Wait { until: None };
        };
        self.0 = Some(path.index);
        Decision::send(path.index)
    }
}

/// A path that delivers only to the client: what came on it is acknowledged on the other one, so
/// that the server goes on using it.
#[test]
fn a_path_dead_in_one_direction_still_serves_the_other() {
    let mut config = TransportConfig::default();
    config.scheduler(|| Box::new(ByTurns(None)));
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(2), |pair| pair.both_validated(id)));
    pair.filter = Box::new(|from_client, path, _| !(from_client && *path == tuple(1)));
    let up = pair.c().streams().open(Dir::Uni).unwrap();
    let down = pair.s().streams().open(Dir::Uni).unwrap();
    const LEN: usize = 40_000_000;
    let data = vec![7; 65536];
    let mut buf = vec![0; 65536];
    let mut left = [LEN; 2];
    let mut received = [0; 2];
    let (mut on_second, mut at_half) = (0, 0);
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        for (side, id) in [up, down].into_iter().enumerate() {
            while left[side] > 0 {
                let sender = if side == 0 { pair.c() } else { pair.s() };
                let Ok(n) = sender
                    .send_stream(id)
                    .write(&data[..left[side].min(data.len())])
                else {
                    break;
                };
                left[side] -= n;
            }
            let receiver = if side == 0 { pair.s() } else { pair.c() };
            receiver.streams().accept(Dir::Uni);
            while let Ok(Some(n)) = receiver.recv_stream(id).read(&mut buf) {
                received[side] += n;
            }
        }
        on_second = pair.s().path(id).unwrap().stats().sent_stream_bytes;
        if received[1] < LEN / 2 {
            at_half = on_second;
        }
        received == [LEN; 2]
    });
    assert!(done, "{received:?}");
    // To the end, though its acknowledgements are late: how much that is, windows decide.
    assert!(
        on_second > at_half + LEN as u64 / 100,
        "the server left the path: {at_half} {on_second}"
    );
}

/// What would let the application write is not reported once the connection has ended: nothing can be written any more.
/// What came before can still be read.
#[test]
fn the_end_of_a_connection_is_no_invitation_to_write() {
    let mut server = TransportConfig::default();
    server.send_window(10_000);
    let mut pair = Pair::new(TransportConfig::default(), server);
    pair.connect();
    let id = pair.c().streams().open(Dir::Bi).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[7; 1000]), Ok(1000));
    pair.run_until(Duration::from_secs(1), |_| false);
    let [first, second] = [(); 2].map(|()| pair.s().streams().open(Dir::Uni).unwrap());
    while pair.s().send_stream(first).write(&[7; 1000]).is_ok() {}
    assert_eq!(
        pair.s().send_stream(second).write(&[7]),
        Err(WriteError::Blocked)
    );
    while pair.s().poll().is_some() {}
    // There is room for the second stream from here on, and an event says so.
    pair.s()
        .send_stream(first)
        .reset(VarInt::from_u32(1))
        .unwrap();
    let now = pair.now;
    pair.s().close(now, VarInt::from_u32(2), Bytes::new());
    while let Some(event) = pair.s().poll() {
        let invites = matches!(
            event,
            Event::Stream(StreamEvent::Writable { .. } | StreamEvent::Available { .. })
                | Event::DatagramsUnblocked
        );
        assert!(!invites, "{event:?}");
    }
    assert_eq!(pair.s().streams().accept(Dir::Bi), Some(id));
    assert_eq!(
        pair.s().recv_stream(id).read(&mut [0; 2000]),
        Ok(Some(1000))
    );
}

//= specs/rfc9000.txt#section-10.2
//= type=test
//# Endpoints that have some alternative means to ensure that late-arriving packets do not induce a
//# response, such as those that are able to close the UDP socket, MAY end these states earlier to
//# allow for faster resource recovery.
#[test]
fn a_client_that_closes_before_it_hears_anything_is_over_at_once() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let sent = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&sent);
    pair.filter = Box::new(move |from_client, _, _| {
        count.set(count.get() + u32::from(from_client));
        true
    });
    pair.step();
    assert_eq!(sent.get(), 1, "the ClientHello");
    let now = pair.now;
    pair.c().close(now, VarInt::from_u32(0), Bytes::new());
    while pair.c().poll_transmit(now, 1, &mut Vec::new()).is_some() {
        sent.set(sent.get() + 1);
    }
    assert_eq!(sent.get(), 2, "the close");
    assert!(pair.c().is_drained());
    assert_eq!(pair.c().poll_timeout(), None);
    let mut told = Vec::new();
    while let Some(event) = pair.c().poll_endpoint_events() {
        told.push(event);
    }
    use mpquic_proto::EndpointEvent::{Drained, RetireCidQuietly};
    assert!(
        matches!(told[..], [.., RetireCidQuietly(_, at), Drained] if at == now),
        "{told:?}"
    );
}

/// So is one that the server refuses: three PTOs without a sample of the RTT are three seconds.
#[test]
fn a_client_that_is_refused_is_over_at_once() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let now = pair.now;
    let mut buf = Vec::new();
    let _ = pair.c().poll_transmit(now, 1, &mut buf).unwrap();
    let from = FourTuple {
        local: server_addr(),
        remote: client_addr(0),
    };
    let event =
        pair.server
            .endpoint
            .handle(now, from, None, BytesMut::from(&buf[..]), &mut Vec::new());
    let Some(DatagramEvent::NewConnection(incoming)) = event else {
        panic!("{event:?}");
    };
    let mut answer = Vec::new();
    let _ = pair.server.endpoint.refuse(incoming, &mut answer);
    pair.client.inbound.push_back(Flying {
        at: now,
        tuple: tuple(0),
        data: answer,
    });
    assert!(pair.run_until(Duration::from_millis(1), |pair| pair.c().is_drained()));
    let reason = pair.c().lost_reason().cloned();
    assert!(
        matches!(&reason, Some(ConnectionError::ConnectionClosed(close))
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED),
        "{reason:?}"
    );
}
