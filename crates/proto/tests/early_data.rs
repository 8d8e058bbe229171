//! Resumption, early data of clients (0-RTT) and of servers (0.5-RTT), in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::pair::{Pair, Tls};
use mpquic_proto::{Connection, Dir, Event, StreamId, TransportConfig};
use proptest::prelude::*;

const REQUEST: &[u8] = b"GET /";

fn defaults() -> (TransportConfig, TransportConfig) {
    Default::default()
}

fn resumed() -> Pair {
    let (client, server) = defaults();
    Tls::new().resumed_pair(client, server)
}

/// Writes all of it on a new stream, and ends it.
fn send(connection: &mut Connection, dir: Dir, data: &[u8]) -> StreamId {
    let id = connection.streams().open(dir).unwrap();
    assert_eq!(connection.send_stream(id).write(data), Ok(data.len()));
    connection.send_stream(id).finish().unwrap();
    id
}

/// Reads what is there.
fn read(connection: &mut Connection, id: StreamId) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = [0; 4096];
    while let Ok(Some(count)) = connection.recv_stream(id).read(&mut buf) {
        all.extend_from_slice(&buf[..count]);
    }
    all
}

fn has_accepted(pair: &mut Pair) -> bool {
    pair.server.connection.is_some()
}

#[test]
fn a_second_connection_resumes_the_session_of_the_first() {
    let mut tls = Tls::new();
    tls.client.enable_early_data = false;
    let (client, server) = defaults();
    let mut pair = tls.resumed_pair(client, server);
    assert!(!pair.c().session().has_0rtt());
    pair.connect();
    assert!(pair.c().session().is_resumed() && pair.s().session().is_resumed());
    assert!(
        !pair.s().session().has_0rtt()
            && !pair.c().session().accepted_0rtt()
            && !pair.c().session().rejected_0rtt()
    );
}

#[test]
fn without_a_ticket_there_is_no_early_data() {
    let (client, server) = defaults();
    let mut pair = Tls::new().pair(client, server);
    assert!(!pair.c().session().has_0rtt());
    assert_eq!(pair.c().streams().open(Dir::Uni), None);
    pair.connect();
    assert!(!pair.c().session().accepted_0rtt() && !pair.c().session().rejected_0rtt());
}

/// What an application saw, and when.
type Seen<T> = Rc<RefCell<Vec<(Instant, T)>>>;

/// The request arrives with the ClientHello, the answer with the server's first flight.
#[test]
fn a_request_and_its_answer_take_one_round_trip() {
    let mut pair = resumed();
    let (start, delay) = (pair.now, pair.delay);
    assert!(pair.c().session().has_0rtt() && pair.c().is_handshaking());
    let id = send(pair.c(), Dir::Bi, REQUEST);
    let seen: Seen<Vec<u8>> = Rc::default();
    let log = seen.clone();
    pair.app = Box::new(move |is_client, now, connection| {
        if !is_client && connection.streams().accept(Dir::Bi) == Some(id) {
            assert!(connection.is_handshaking() && connection.session().accepted_0rtt());
            assert!(connection.recv_stream(id).is_0rtt());
            log.borrow_mut().push((now, read(connection, id)));
            // 0.5-RTT.
            assert_eq!(connection.send_stream(id).write(b"200 OK"), Ok(6));
            connection.send_stream(id).finish().unwrap();
        }
        let answer = if is_client {
            read(connection, id)
        } else {
            Vec::new()
        };
        if !answer.is_empty() {
            assert!(connection.session().accepted_0rtt() && !connection.session().rejected_0rtt());
            log.borrow_mut().push((now, answer));
        }
    });
    pair.connect();
    let expected = [
        (start + delay, REQUEST.to_vec()),
        (start + 2 * delay, b"200 OK".to_vec()),
    ];
    assert_eq!(seen.borrow()[..], expected);
    assert_eq!(pair.c().stats().lost_packets, 0);
    assert!(pair.c().paths().is_multipath() && pair.s().paths().is_multipath());
}

#[test]
fn more_early_data_than_one_datagram_holds() {
    let mut pair = resumed();
    let data: Vec<u8> = (0..8000_u32).map(|i| i as u8).collect();
    let id = send(pair.c(), Dir::Uni, &data);
    let (start, delay) = (pair.now, pair.delay);
    let seen: Seen<Vec<u8>> = Rc::default();
    let log = seen.clone();
    pair.app = Box::new(move |is_client, now, connection| {
        if !is_client {
            connection.streams().accept(Dir::Uni);
            log.borrow_mut().push((now, read(connection, id)));
        }
    });
    pair.connect();
    let seen = seen.borrow();
    let all: Vec<u8> = seen.iter().flat_map(|(_, data)| data.clone()).collect();
    assert_eq!(all, data);
    // With the first flight.
    assert_eq!((seen[0].0, seen[0].1.len()), (start + delay, data.len()));
    assert_eq!(pair.c().stats().retransmitted_bytes, 0);
}

#[test]
fn rejected_early_data_is_as_if_never_sent() {
    let tls = Tls::new();
    let (client, server) = defaults();
    tls.get_tickets(&server);
    let mut refusing = tls.clone();
    refusing.server.max_early_data_size = 0;
    let mut pair = refusing.pair(client, server);
    let id = send(pair.c(), Dir::Uni, &[7; 5000]);
    pair.c()
        .datagrams()
        .send(b"lost"[..].into(), false)
        .unwrap();
    pair.connect();
    assert!(pair.c().session().rejected_0rtt() && !pair.c().session().accepted_0rtt());
    assert!(!pair.s().session().has_0rtt() && !pair.s().session().accepted_0rtt());
    assert_eq!(pair.s().streams().accept(Dir::Uni), None);
    assert_eq!(pair.s().stats().received_stream_bytes, 0);
    // The stream is gone, and its ID is free.
    assert!(pair.c().send_stream(id).write(b"more").is_err());
    assert_eq!(send(pair.c(), Dir::Uni, b"again"), id);
    let arrived = |pair: &mut Pair| pair.s().streams().accept(Dir::Uni).is_some();
    assert!(pair.run_until(Duration::from_secs(1), arrived));
    assert!(!pair.s().recv_stream(id).is_0rtt());
    assert_eq!(read(pair.s(), id), b"again");
    assert_eq!(pair.s().datagrams().recv(), None);
    assert_eq!(pair.c().stats().lost_packets, 0);
}

/// RFC 9001 section 4.6.2: "A server will always reject 0-RTT if it sends a TLS HelloRetryRequest." The session is
/// resumed all the same.
#[test]
fn a_hello_retry_request_rejects_early_data() {
    let mut tls = Tls::new();
    let (client, server) = defaults();
    tls.get_tickets(&server);
    let provider = rustls::crypto::CryptoProvider {
        // Not the one that the client guesses.
        kx_groups: vec![rustls::crypto::ring::kx_group::SECP384R1],
        ..rustls::crypto::ring::default_provider()
    };
    let mut config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(tls.server.cert_resolver.clone());
    config.max_early_data_size = u32::MAX;
    config.session_storage = tls.server.session_storage.clone();
    tls.server = config;
    let mut pair = tls.pair(client, server);
    send(pair.c(), Dir::Uni, &[7; 20_000]);
    pair.connect();
    assert!(pair.c().session().rejected_0rtt() && pair.c().session().is_resumed());
    assert!(!pair.s().session().accepted_0rtt());
    assert_eq!(pair.s().stats().received_stream_bytes, 0);
}

/// A blocked open is told of the limits of the new connection, whatever became of the early data.
#[test]
fn who_waits_for_a_stream_hears_of_it_after_a_rejection() {
    let mut tls = Tls::new();
    let (client, mut server) = defaults();
    server.max_concurrent_uni_streams(1);
    tls.get_tickets(&server);
    tls.server.max_early_data_size = 0;
    let mut pair = tls.pair(client, server);
    assert!(pair.c().streams().open(Dir::Uni).is_some());
    assert!(pair.c().streams().open(Dir::Uni).is_none());
    pair.connect();
    let available = Event::Stream(mpquic_proto::StreamEvent::Available { dir: Dir::Uni });
    assert!(pair.client.events.contains(&available));
    assert!(pair.c().streams().open(Dir::Uni).is_some());
}

/// Long header, type 1 (RFC 9000 section 17.2.3).
fn is_zero_rtt(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xd0
}

#[test]
fn lost_early_data_is_sent_again() {
    let mut pair = resumed();
    // More than the congestion window takes: the handshake must not wait for it.
    let data = vec![9; 30_000];
    let id = send(pair.c(), Dir::Uni, &data);
    let start = pair.now;
    let dropped = Rc::new(Cell::new(0));
    let count = dropped.clone();
    pair.filter = Box::new(move |_, _, datagram| {
        let drop = is_zero_rtt(datagram);
        count.set(count.get() + usize::from(drop));
        !drop
    });
    pair.connect();
    assert!(dropped.get() >= 8, "{}", dropped.get());
    let took = pair.now - start;
    assert!(took <= 10 * pair.delay, "{took:?}");
    let mut got = Vec::new();
    let all = pair.run_until(Duration::from_secs(5), |pair| {
        pair.s().streams().accept(Dir::Uni);
        got.extend(read(pair.s(), id));
        got.len() == 30_000
    });
    assert!(all, "{}", got.len());
    assert_eq!(got, data);
}

/// A server with smaller limits than those it promised does not break the promise: the session is forgotten.
//= specs/rfc9000.txt#section-7.4.1
//= type=test
//# A server MUST reject 0-RTT data if the restored values for transport parameters cannot be
//# supported.
#[test]
fn a_server_with_smaller_limits_rejects_early_data() {
    for (streams, accepted) in [(128, true), (500, true), (127, false)] {
        let tls = Tls::new();
        let (client, server) = defaults();
        tls.get_tickets(&server);
        let mut changed = TransportConfig::default();
        changed.max_concurrent_bidi_streams(streams);
        let mut pair = tls.pair(client, changed);
        assert!(pair.c().session().has_0rtt());
        pair.connect();
        assert_eq!(pair.c().session().accepted_0rtt(), accepted, "{streams}");
        assert_eq!(pair.c().session().is_resumed(), accepted, "{streams}");
        let open = std::iter::from_fn(|| pair.c().streams().open(Dir::Bi)).count();
        assert_eq!(open as u64, streams);
    }
}

//= specs/rfc9221.txt#section-3
//= type=test
//# When servers decide to accept 0-RTT data, they MUST send a max_datagram_frame_size transport
//# parameter greater than or equal to the value they sent to the client in the connection where
//# they sent them the NewSessionTicket message.
#[test]
fn a_server_that_takes_datagrams_no_more_rejects_early_data() {
    for (takes, accepted) in [(Some(1 << 20), true), (None, false)] {
        let tls = Tls::new();
        let (client, server) = defaults();
        tls.get_tickets(&server);
        let mut changed = TransportConfig::default();
        changed.datagram_receive_buffer(takes);
        let mut pair = tls.pair(client, changed);
        assert!(pair.c().session().has_0rtt());
        pair.connect();
        assert_eq!(pair.c().session().accepted_0rtt(), accepted, "{takes:?}");
    }
}

/// Limits that rose since hold from the end of the handshake on, for streams opened before it, too.
//= specs/rfc9000.txt#section-7.4.1
//= type=test
//# Once the handshake completes, the client uses the transport parameters established in the
//# handshake.
#[test]
fn limits_that_rose_hold_for_early_streams() {
    let tls = Tls::new();
    let mut small = TransportConfig::default();
    small.stream_receive_window(1000);
    tls.get_tickets(&small);
    let mut pair = tls.pair(TransportConfig::default(), TransportConfig::default());
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[1; 5000]), Ok(1000));
    pair.connect();
    assert!(pair.c().session().accepted_0rtt());
    assert_eq!(pair.c().send_stream(id).write(&[1; 5000]), Ok(5000));
}

/// What an eavesdropper can do: send the client's first flight again, to the server whose client is long gone. The
/// ticket was used: no early data is accepted, and the handshake goes nowhere.
#[test]
fn a_replay_to_the_same_server_is_rejected() {
    let tls = Tls::new();
    let (client, server) = defaults();
    let mut pair = tls.resumed_pair(client, server);
    let id = send(pair.c(), Dir::Uni, b"pay");
    pair.step();
    let recorded = pair.server.inbound.clone();
    pair.connect();
    assert_eq!(pair.s().streams().accept(Dir::Uni), Some(id));
    // Another connection of the same server.
    let (client, server) = defaults();
    let mut again = tls.pair(client, server);
    again.step();
    again.server.inbound = recorded
        .into_iter()
        .map(|mut flying| {
            flying.at = again.now;
            flying
        })
        .collect();
    again.filter = Box::new(|_, _, _| false);
    assert!(again.run_until(Duration::from_secs(1), has_accepted));
    assert!(!again.s().session().accepted_0rtt() && !again.s().session().is_resumed());
    assert_eq!(again.s().streams().accept(Dir::Uni), None);
    assert!(again.s().is_handshaking());
}

#[test]
fn a_limit_on_early_data_other_than_all_is_refused() {
    let mut tls = Tls::new().server;
    tls.max_early_data_size = 1000;
    let error = mpquic_proto::ServerConfig::new(tls.into()).unwrap_err();
    assert!(
        error.to_string().contains("max_early_data_size is 1000"),
        "{error}"
    );
}

/// RFC 9000 section 8.1: a server that answers early sends no more than three times what it received until
/// it has heard a Handshake packet.
#[test]
fn a_server_that_answers_early_keeps_to_the_amplification_limit() {
    let mut pair = resumed();
    let id = send(pair.c(), Dir::Bi, REQUEST);
    // The client falls silent after its first datagram.
    let bytes = Rc::new(Cell::new((0, 0)));
    let count = bytes.clone();
    pair.filter = Box::new(move |from_client, _, datagram| {
        let (received, sent) = count.get();
        if from_client && received > 0 {
            return false;
        }
        count.set(if from_client {
            (datagram.len(), sent)
        } else {
            (received, sent + datagram.len())
        });
        true
    });
    assert!(pair.run_until(Duration::from_secs(1), has_accepted));
    assert_eq!(pair.s().streams().accept(Dir::Bi), Some(id));
    assert_eq!(pair.s().send_stream(id).write(&[1; 100_000]), Ok(100_000));
    pair.run_until(Duration::from_secs(5), |_| false);
    let (received, sent) = bytes.get();
    assert!(received >= 1200 && sent > received, "{received}, {sent}");
    assert!(sent <= 3 * received, "{received}, {sent}");
}

/// A server can speak first, without any early data of the client's.
#[test]
fn a_server_may_send_before_the_handshake_is_complete() {
    let (client, server) = defaults();
    let mut pair = Pair::new(client, server);
    let (start, delay) = (pair.now, pair.delay);
    let seen: Seen<Vec<u8>> = Rc::default();
    let log = seen.clone();
    pair.app = Box::new(move |is_client, now, connection| {
        if is_client {
            if let Some(id) = connection.streams().accept(Dir::Uni) {
                log.borrow_mut().push((now, read(connection, id)));
            }
        } else if connection.is_handshaking()
            && let Some(id) = connection.streams().open(Dir::Uni)
        {
            assert_eq!(connection.send_stream(id).write(b"welcome"), Ok(7));
        }
    });
    pair.connect();
    let seen = seen.borrow();
    assert_eq!(seen[0], (start + 2 * delay, b"welcome".to_vec()));
}

/// RFC 9000 section 17.2.5.3: 0-RTT packets follow a Retry, to the server's connection ID, with new numbers.
//= specs/rfc9000.txt#section-17.2.3
//= type=test
//# A client SHOULD attempt to resend data in 0-RTT packets after it sends a new Initial packet.
#[test]
fn early_data_is_sent_again_after_a_retry() {
    let mut pair = resumed();
    pair.retry = true;
    let data = vec![3; 5000];
    let id = send(pair.c(), Dir::Uni, &data);
    let (start, delay) = (pair.now, pair.delay);
    let seen: Seen<Vec<u8>> = Rc::default();
    let log = seen.clone();
    pair.app = Box::new(move |is_client, now, connection| {
        if !is_client && connection.streams().accept(Dir::Uni) == Some(id) {
            assert!(connection.recv_stream(id).is_0rtt() && connection.is_handshaking());
            log.borrow_mut().push((now, read(connection, id)));
        }
    });
    pair.connect();
    assert!(pair.c().session().accepted_0rtt());
    // A round trip later than without, and as early as the handshake.
    assert_eq!(seen.borrow()[..], [(start + 3 * delay, data)]);
    // Dropped by the server, not lost.
    assert_eq!(pair.c().stats().lost_packets, 0);
}

/// What becomes of a datagram.
#[derive(Debug, Clone, Copy)]
struct Network {
    seed: u64,
    /// Of 100 datagrams, so many are lost,
    loss: u64,
    /// and so many overtaken by others.
    reordered: u64,
}

/// Datagrams that are lost in all: with more, a handshake may rightly be given up.
const MAX_DROPS: u32 = 6;

/// A number below 100.
fn draw(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % 100
}

/// Client and server exchange data from the first packet on. Whatever the network does, and whether or not the server
/// takes early data, all arrives once and intact: what was rejected is written again.
fn exchange(network: Network, sizes: &[usize], rejects: bool, retry: bool) {
    let mut tls = Tls::new();
    let (client, server) = defaults();
    tls.get_tickets(&server);
    if rejects {
        tls.server.max_early_data_size = 0;
    }
    let mut pair = tls.pair(client, server);
    pair.retry = retry;
    let mut state = network.seed;
    let mut drops = MAX_DROPS;
    pair.filter = Box::new(move |_, _, _| {
        let lost = draw(&mut state) < network.loss && drops > 0;
        drops -= u32::from(lost);
        !lost
    });
    let data: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
    let write = |connection: &mut Connection| -> Vec<StreamId> {
        data.iter()
            .map(|data| send(connection, Dir::Bi, data))
            .collect()
    };
    let ids = write(pair.c());
    let mut state = !network.seed;
    let (mut rejected, mut said) = (false, false);
    let mut got = vec![Vec::new(); sizes.len()];
    let mut back = got.clone();
    let done = pair.run_until(Duration::from_secs(200), |pair| {
        for inbound in [&mut pair.client.inbound, &mut pair.server.inbound] {
            if inbound.len() > 1 && draw(&mut state) < network.reordered {
                let last = inbound.len() - 1;
                let (earlier, later) = inbound.as_mut_slices().0.split_at_mut(last.min(1));
                if let (Some(one), Some(other)) = (earlier.first_mut(), later.last_mut()) {
                    std::mem::swap(&mut one.data, &mut other.data);
                }
            }
        }
        assert!(!pair.c().is_closed(), "{:?}", pair.c().lost_reason());
        if pair.c().session().rejected_0rtt() && !std::mem::replace(&mut rejected, true) {
            assert_eq!(write(pair.c()), ids, "the IDs are free");
        }
        if let Some((_, server)) = &mut pair.server.connection {
            while let Some(id) = server.streams().accept(Dir::Bi) {
                assert!(ids.contains(&id));
                let _ = server.send_stream(id).finish();
            }
            if !said && let Some(id) = server.streams().open(Dir::Uni) {
                said = true;
                assert_eq!(server.send_stream(id).write(b"welcome"), Ok(7));
            }
            for (id, got) in ids.iter().zip(&mut got) {
                got.extend(read(server, *id));
            }
        }
        for (id, back) in ids.iter().zip(&mut back) {
            back.extend(read(pair.c(), *id));
        }
        got == data && !pair.c().is_handshaking()
    });
    assert!(done, "{:?}", pair.c().lost_reason());
    assert_eq!(pair.c().session().rejected_0rtt(), rejects);
    assert_eq!(pair.s().session().accepted_0rtt(), !rejects);
    assert!(back.iter().all(Vec::is_empty));
}

proptest! {
    #[test]
    fn all_arrives_whatever_the_network_does(
        seed in any::<u64>(),
        loss in 0_u64..30,
        reordered in 0_u64..80,
        sizes in prop::collection::vec(0_usize..6000, 1..6),
        rejects in any::<bool>(),
        retry in any::<bool>(),
    ) {
        let network = Network { seed, loss, reordered };
        exchange(network, &sizes, rejects, retry);
    }
}
