//! Interoperability with quinn over real loopback sockets. Every exercise runs with quinn's client
//! and our server, and the other way round.

mod stacks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mpquic_test_support::runtime::{run, runtime};
use rustls::CipherSuite;
use sha2::{Digest, Sha256};
use stacks::{
    ALPN, Answer, DatagramRefused, End, Identity, Limits, Mpquic, Pair, Peer, Quinn, RecvHalf,
    SendHalf, Setup, Stack, StreamEnd,
};
use tokio::task::JoinSet;

/// One test per exercise and direction.
macro_rules! both_directions {
    ($($exercise:ident,)*) => {
        mod quinn_client_mpquic_server {
            use super::*;
            $(#[test] fn $exercise() { run(super::$exercise::<Quinn, Mpquic>()); })*
        }
        mod mpquic_client_quinn_server {
            use super::*;
            $(#[test] fn $exercise() { run(super::$exercise::<Mpquic, Quinn>()); })*
        }
    };
}

both_directions! {
    handshake_and_what_it_agreed_on,
    retry,
    resumption,
    early_data,
    rejected_early_data,
    every_cipher_suite,
    certificate_chain_beyond_the_amplification_limit,
    client_certificate,
    bidirectional_streams,
    unidirectional_streams,
    streams_through_narrow_windows,
    datagrams,
    datagrams_not_wanted_by_the_server,
    resets_and_stops,
    reset_and_stopped_streams_give_their_credit_back,
    close_by_the_client,
    close_by_the_server,
    bulk_from_the_client,
    bulk_from_the_server,
    bulk_both_ways,
    key_updates_by_the_client,
    key_updates_by_the_server,
    refused,
    wrong_alpn,
    unknown_certificate_authority,
    unknown_version,
    stateless_reset,
    empty_connection_ids_of_quinn,
    a_client_that_moves,
}

// -- helpers

/// Bytes that identify their stream and offset.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8)
        .collect()
}

/// From 0 to 300 kB, with small and large sizes mixed.
fn size_of(stream: usize) -> usize {
    match stream % 8 {
        0 => stream / 8 % 3,
        1..=3 => stream * 7,
        4..=6 => 1_000 + stream * 101,
        _ => 1_500 * (stream + 1),
    }
}

async fn read_to_end(recv: &mut impl RecvHalf) -> Result<Vec<u8>, StreamEnd> {
    let mut all = Vec::new();
    let mut buf = vec![0; 32 << 10];
    while let Some(count) = recv.read(&mut buf).await? {
        all.extend_from_slice(&buf[..count]);
    }
    Ok(all)
}

async fn read_exact(recv: &mut impl RecvHalf, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let count = recv.read(&mut all[filled..]).await.unwrap();
        filled += count.expect("the stream is too short");
    }
    all
}

/// Returns all data while it arrives.
async fn echo_one(mut send: impl SendHalf, mut recv: impl RecvHalf) {
    let mut buf = vec![0; 32 << 10];
    while let Some(count) = recv.read(&mut buf).await.unwrap() {
        send.write_all(&buf[..count]).await.unwrap();
    }
    send.finish();
    assert_eq!(send.stopped().await, Ok(None));
}

/// `from` opens all these streams at once, and `to` echoes them.
async fn echo_many<A: Peer, B: Peer>(from: &A, to: &B, streams: std::ops::Range<usize>) {
    let mut tasks = JoinSet::new();
    for _ in streams.clone() {
        let to = to.clone();
        tasks.spawn(async move {
            let (send, recv) = to.accept_bi().await.unwrap();
            echo_one(send, recv).await;
        });
    }
    for stream in streams {
        let from = from.clone();
        tasks.spawn(async move {
            let data = pattern(stream, size_of(stream));
            let (mut send, mut recv) = from.open_bi().await;
            let write = async {
                send.write_all(&data).await.unwrap();
                send.finish();
            };
            let (echo, ()) = tokio::join!(read_to_end(&mut recv), write);
            assert!(echo.unwrap() == data, "stream {stream} was garbled");
        });
    }
    join_all(tasks).await;
}

async fn join_all(mut tasks: JoinSet<()>) {
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}

async fn pair<C: Stack, S: Stack>() -> (Pair<C, S>, C::Peer, S::Peer) {
    pair_with(Setup::default()).await
}

async fn pair_with<C: Stack, S: Stack>(setup: Setup) -> (Pair<C, S>, C::Peer, S::Peer) {
    let pair = Pair::new(setup);
    let (client, server) = pair.connect().await;
    (pair, client, server)
}

const NARROW: Limits = Limits {
    streams: 4,
    stream_window: 20_000,
    window: 50_000,
};

// -- handshake

async fn handshake_and_what_it_agreed_on<C: Stack, S: Stack>() {
    let (pair, client, server) = pair::<C, S>().await;
    assert_eq!(client.alpn().as_deref(), Some(ALPN));
    assert_eq!(server.alpn().as_deref(), Some(ALPN));
    assert_eq!(server.server_name().as_deref(), Some("localhost"));
    assert_eq!(client.peer_identity(), Some(pair.setup.identity.chain));
    assert_eq!(server.peer_identity(), None);
    assert_eq!(client.exported_key(), server.exported_key());
    assert_eq!(client.remote_address(), S::local_address(&pair.server));
    assert_eq!(server.remote_address(), C::local_address(&pair.client));
    echo_many(&client, &server, 1..2).await;
}

async fn retry<C: Stack, S: Stack>() {
    let pair = Pair::<C, S>::new(Setup::default());
    let (client, server) = pair.try_connect(Answer::Retry).await;
    let (client, server) = (client.unwrap(), server.unwrap());
    echo_many(&client, &server, 0..10).await;
}

async fn resumption<C: Stack, S: Stack>() {
    let pair = Pair::<C, S>::new(Setup::default());
    for _ in 0..4 {
        let (client, server) = pair.connect().await;
        // The session tickets arrive no later than the echoed data.
        echo_many(&client, &server, 0..3).await;
        client.close(0, b"");
    }
}

/// A pair whose client has tickets that allow early data.
async fn pair_with_tickets<C: Stack, S: Stack>() -> Pair<C, S> {
    let pair = Pair::<C, S>::new(Setup {
        early_data: true,
        ..Setup::default()
    });
    let (client, server) = pair.connect().await;
    // The session tickets arrive no later than the echoed data.
    echo_many(&client, &server, 0..3).await;
    client.close(0, b"");
    pair
}

/// 0-RTT, and 0.5-RTT of the server.
async fn early_data<C: Stack, S: Stack>() {
    let pair = pair_with_tickets::<C, S>().await;
    let remote = S::local_address(&pair.server);
    for size in [5, 900, 6_000, 100_000] {
        let request = pattern(1, size);
        // The client has written before the server is asked for the first time.
        let asking = C::ask_early(&pair.client, remote, request.clone());
        let (asked, (server, _)) = tokio::join!(asking, S::answer_early(&pair.server));
        let (client, accepted, answer) = asked.expect("a ticket");
        assert!(accepted, "{size}");
        assert_eq!(answer, Some(request));
        echo_many(&client, &server, 0..3).await;
        client.close(0, b"");
    }
}

/// A server that does not know the session: one that was restarted.
async fn rejected_early_data<C: Stack, S: Stack>() {
    let pair = pair_with_tickets::<C, S>().await;
    let socket = std::net::UdpSocket::bind(stacks::LOOPBACK).unwrap();
    let other = S::server(&pair.setup, socket);
    let asking = async {
        let remote = S::local_address(&other);
        let asked = C::ask_early(&pair.client, remote, pattern(1, 6_000)).await;
        let (client, accepted, answer) = asked.expect("a ticket");
        assert!(!accepted && answer.is_none());
        let (mut send, mut recv) = client.open_bi().await;
        send.write_all(b"again").await.unwrap();
        send.finish();
        assert_eq!(read_to_end(&mut recv).await.unwrap(), b"again");
        client
    };
    let (client, (server, early)) = tokio::join!(asking, S::answer_early(&other));
    assert!(!early);
    echo_many(&client, &server, 0..3).await;
}

async fn every_cipher_suite<C: Stack, S: Stack>() {
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let setup = Setup {
            suite: Some(suite),
            ..Setup::default()
        };
        let (_pair, client, server) = pair_with::<C, S>(setup).await;
        echo_many(&client, &server, 0..20).await;
    }
}

/// RFC 9000 section 8.1: the server may send three times as much as it has received, and its
/// certificates are larger.
async fn certificate_chain_beyond_the_amplification_limit<C: Stack, S: Stack>() {
    let setup = Setup {
        identity: Identity::new(40),
        ..Setup::default()
    };
    assert!(
        setup
            .identity
            .chain
            .iter()
            .map(|one| one.len())
            .sum::<usize>()
            > 10_000
    );
    let (_pair, client, server) = pair_with::<C, S>(setup).await;
    echo_many(&client, &server, 0..10).await;
}

async fn client_certificate<C: Stack, S: Stack>() {
    let setup = Setup {
        server_needs_client_certificate: true,
        ..Setup::default()
    };
    let (pair, client, server) = pair_with::<C, S>(setup).await;
    assert_eq!(server.peer_identity(), Some(pair.setup.identity.chain));
    echo_many(&client, &server, 0..10).await;
}

async fn refused<C: Stack, S: Stack>() {
    let pair = Pair::<C, S>::new(Setup::default());
    let (client, _) = pair.try_connect(Answer::Refuse).await;
    // CONNECTION_REFUSED (RFC 9000 section 20.1).
    assert_eq!(client.unwrap_err().peer_code(), Some(0x02));
}

async fn wrong_alpn<C: Stack, S: Stack>() {
    let pair = Pair::<C, S>::new(Setup {
        client_alpn: b"something else".to_vec(),
        ..Setup::default()
    });
    let (client, server) = pair.try_connect(Answer::Accept).await;
    // no_application_protocol (RFC 9001 section 8.1).
    assert_eq!(server.unwrap_err().own_code(), Some(0x0178));
    assert_eq!(client.unwrap_err().peer_code(), Some(0x0178));
}

async fn unknown_certificate_authority<C: Stack, S: Stack>() {
    let pair = Pair::<C, S>::new(Setup {
        trusted: Some(Identity::new(0).root),
        ..Setup::default()
    });
    let (client, server) = pair.try_connect(Answer::Accept).await;
    // unknown_ca (RFC 8446 section 6).
    assert_eq!(client.unwrap_err().own_code(), Some(0x0130));
    assert_eq!(server.unwrap_err().peer_code(), Some(0x0130));
}

async fn unknown_version<C: Stack, S: Stack>() {
    // A draft version that quinn still supports and this crate does not.
    let pair = Pair::<C, S>::new(Setup {
        version: Some(0xff00_001d),
        ..Setup::default()
    });
    let client = C::connect(&pair.client, S::local_address(&pair.server)).await;
    assert_eq!(client.unwrap_err(), End::Version);
}

async fn empty_connection_ids_of_quinn<C: Stack, S: Stack>() {
    let setup = Setup {
        cid_len: 0,
        ..Setup::default()
    };
    let (_pair, client, server) = pair_with::<C, S>(setup).await;
    echo_many(&client, &server, 0..20).await;
    echo_many(&server, &client, 0..20).await;
    client.close(3, b"");
    assert_eq!(server.closed().await, End::Application(3, Vec::new()));
}

// -- streams

async fn bidirectional_streams<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    echo_many(&client, &server, 0..200).await;
    // From both sides at the same time.
    tokio::join!(
        echo_many(&client, &server, 0..50),
        echo_many(&server, &client, 0..200),
    );
}

async fn uni_many<A: Peer, B: Peer>(from: &A, to: &B, streams: usize) {
    let mut tasks = JoinSet::new();
    for stream in 0..streams {
        let from = from.clone();
        tasks.spawn(async move {
            let mut send = from.open_uni().await;
            send.write_all(&(stream as u32).to_be_bytes())
                .await
                .unwrap();
            send.write_all(&pattern(stream, size_of(stream)))
                .await
                .unwrap();
            send.finish();
            assert_eq!(send.stopped().await, Ok(None));
        });
    }
    for _ in 0..streams {
        let to = to.clone();
        tasks.spawn(async move {
            let mut recv = to.accept_uni().await.unwrap();
            let number: [u8; 4] = read_exact(&mut recv, 4).await.try_into().unwrap();
            let stream = u32::from_be_bytes(number) as usize;
            let rest = read_to_end(&mut recv).await.unwrap();
            assert!(rest == pattern(stream, size_of(stream)), "stream {stream}");
        });
    }
    join_all(tasks).await;
}

async fn unidirectional_streams<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    tokio::join!(
        uni_many(&client, &server, 150),
        uni_many(&server, &client, 150)
    );
}

async fn streams_through_narrow_windows<C: Stack, S: Stack>() {
    let setup = Setup {
        limits: Some(NARROW),
        ..Setup::default()
    };
    let (_pair, client, server) = pair_with::<C, S>(setup).await;
    tokio::join!(
        echo_many(&client, &server, 0..40),
        echo_many(&server, &client, 0..40),
        uni_many(&client, &server, 40),
        uni_many(&server, &client, 40),
    );
}

async fn reset_and_stop<A: Peer, B: Peer>(from: &A, to: &B) {
    // The sender resets the stream.
    let mut send = from.open_uni().await;
    send.write_all(b"x").await.unwrap();
    let mut recv = to.accept_uni().await.unwrap();
    read_exact(&mut recv, 1).await;
    send.reset(17);
    assert_eq!(recv.read(&mut [0]).await, Err(StreamEnd::Reset(17)));

    // The receiver stops the stream.
    let mut send = from.open_uni().await;
    send.write_all(b"x").await.unwrap();
    let mut recv = to.accept_uni().await.unwrap();
    recv.stop(23);
    assert_eq!(send.stopped().await, Ok(Some(23)));
    assert_eq!(send.write_all(b"x").await, Err(StreamEnd::Stopped(23)));

    // The receiver stops the stream while the sender waits for room.
    let mut send = from.open_uni().await;
    let write = async {
        let chunk = vec![0; 1 << 20];
        loop {
            if let Err(end) = send.write_all(&chunk).await {
                break end;
            }
        }
    };
    let stop = async { to.accept_uni().await.unwrap().stop(24) };
    let (end, ()) = tokio::join!(write, stop);
    assert_eq!(end, StreamEnd::Stopped(24));

    // One half ends, the other does not. The code is the largest one that our test can represent.
    let (mut send, mut recv) = from.open_bi().await;
    send.write_all(b"question").await.unwrap();
    let (mut send_back, mut recv_there) = to.accept_bi().await.unwrap();
    read_exact(&mut recv_there, 8).await;
    send.reset(u32::MAX);
    let end = read_to_end(&mut recv_there).await;
    assert_eq!(end, Err(StreamEnd::Reset(u32::MAX.into())));
    send_back.write_all(b"answer").await.unwrap();
    send_back.finish();
    assert_eq!(read_to_end(&mut recv).await.unwrap(), b"answer");
    assert_eq!(send_back.stopped().await, Ok(None));

    // The other way round.
    let (mut send, mut recv) = from.open_bi().await;
    send.write_all(b"question").await.unwrap();
    let (send_back, mut recv_there) = to.accept_bi().await.unwrap();
    recv.stop(0);
    assert_eq!(send_back.stopped().await, Ok(Some(0)));
    send.finish();
    assert_eq!(read_to_end(&mut recv_there).await.unwrap(), b"question");
}

async fn resets_and_stops<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    reset_and_stop(&client, &server).await;
    reset_and_stop(&server, &client).await;
    echo_many(&client, &server, 0..8).await;
}

/// Resets or stops streams with unread data, several times as much as the windows hold.
async fn give_up_streams<A: Peer, B: Peer>(from: &A, to: &B) {
    for round in 0..30 {
        let mut send = from.open_uni().await;
        send.write_all(&[round; 15_000]).await.unwrap();
        let mut recv = to.accept_uni().await.unwrap();
        if round % 2 == 0 {
            send.reset(5);
            // Earlier data may or may not be read.
            let end = loop {
                match recv.read(&mut [0; 1000]).await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("finished"),
                    Err(end) => break end,
                }
            };
            assert_eq!(end, StreamEnd::Reset(5));
        } else {
            recv.stop(6);
            assert_eq!(send.stopped().await, Ok(Some(6)));
            drop(send);
        }
    }
}

async fn reset_and_stopped_streams_give_their_credit_back<C: Stack, S: Stack>() {
    let setup = Setup {
        limits: Some(NARROW),
        ..Setup::default()
    };
    let (_pair, client, server) = pair_with::<C, S>(setup).await;
    give_up_streams(&client, &server).await;
    give_up_streams(&server, &client).await;
    echo_many(&client, &server, 0..16).await;
}

// -- datagrams

async fn datagrams_from<A: Peer, B: Peer>(from: &A, to: &B) {
    // One at a time: no queue overflows, so none is lost.
    for number in 0..50 {
        let max = from.max_datagram_size().unwrap();
        assert!(max > 1000, "{max}");
        let data = Bytes::from(pattern(number, max * number / 49));
        from.send_datagram(data.clone()).unwrap();
        assert_eq!(to.read_datagram().await, Ok(data));
    }
    let too_large = from.send_datagram(vec![0; 60_000].into());
    assert_eq!(too_large, Err(DatagramRefused::TooLarge));
    // A few at once, which fit into any queue.
    for number in 0..20_u8 {
        from.send_datagram(vec![number; 100].into()).unwrap();
    }
    for number in 0..20_u8 {
        let data = to.read_datagram().await.unwrap();
        assert_eq!(data.as_ref(), [number; 100]);
    }
}

async fn datagrams<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    tokio::join!(
        datagrams_from(&client, &server),
        datagrams_from(&server, &client),
    );
}

async fn datagrams_not_wanted_by_the_server<C: Stack, S: Stack>() {
    let setup = Setup {
        server_takes_datagrams: false,
        ..Setup::default()
    };
    let (_pair, client, server) = pair_with::<C, S>(setup).await;
    assert_eq!(client.max_datagram_size(), None);
    let refused = client.send_datagram(Bytes::new());
    assert_eq!(refused, Err(DatagramRefused::UnsupportedByPeer));
    echo_many(&client, &server, 0..8).await;
}

// -- the end

async fn close_by<A: Peer, B: Peer>(from: &A, to: &B) {
    let (mut send, _recv) = from.open_bi().await;
    send.write_all(b"x").await.unwrap();
    let (_send, mut recv) = to.accept_bi().await.unwrap();
    read_exact(&mut recv, 1).await;
    from.close(0x1234_5678, b"that is enough");
    let end = End::Application(0x1234_5678, b"that is enough".to_vec());
    assert_eq!(to.closed().await, end);
    assert_eq!(from.closed().await, End::Local);
    // All pending operations report it.
    let lost = StreamEnd::Lost(end.clone());
    assert_eq!(recv.read(&mut [0]).await, Err(lost.clone()));
    assert_eq!(to.accept_uni().await.err(), Some(end));
    let lost = StreamEnd::Lost(End::Local);
    assert_eq!(send.write_all(b"x").await, Err(lost));
}

/// The client goes on from another port, without a path of its own (RFC 9000 section 9).
async fn a_client_that_moves<C: Stack, S: Stack>() {
    let (pair, client, server) = pair::<C, S>().await;
    for round in 0..3 {
        let before = server.remote_address();
        echo_many(&client, &server, 10 * round..10 * (round + 1)).await;
        C::move_client(&pair.client);
        let mut more = 100 * (round + 1);
        while server.remote_address() == before {
            echo_many(&client, &server, more..more + 1).await;
            more += 1;
        }
    }
    echo_many(&server, &client, 0..10).await;
}

/// Copies of our first packets are nothing to quinn's server, whichever address they come from first.
#[test]
fn our_client_begins_over_several_addresses() {
    run(async {
        let setup = Arc::new(Setup::default());
        let socket = std::net::UdpSocket::bind(stacks::LOOPBACK).unwrap();
        let address = socket.local_addr().unwrap();
        let server = Quinn::server(&setup, socket);
        let client = Mpquic::client(&setup);
        for last in [2, 3] {
            let local = std::net::Ipv4Addr::new(127, 0, 0, last);
            client.add_socket((local, 0).into()).unwrap();
        }
        for answer in [Answer::Accept, Answer::Accept, Answer::Retry] {
            let (ours, theirs) = tokio::join!(
                Mpquic::connect(&client, address),
                Quinn::answer(&server, answer)
            );
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            echo_many(&ours, &theirs, 0..10).await;
            let local = ours.0.paths()[0].network_path().unwrap().local;
            assert_eq!(local, theirs.remote_address());
            // No copy has begun another connection.
            assert_eq!(server.open_connections(), 1);
            close_by(&ours, &theirs).await;
            tokio::join!(Mpquic::wait_idle(&client), Quinn::wait_idle(&server));
        }
    });
}

async fn close_by_the_client<C: Stack, S: Stack>() {
    let (pair, client, server) = pair::<C, S>().await;
    close_by(&client, &server).await;
    tokio::join!(C::wait_idle(&pair.client), S::wait_idle(&pair.server));
}

async fn close_by_the_server<C: Stack, S: Stack>() {
    let (pair, client, server) = pair::<C, S>().await;
    close_by(&server, &client).await;
    tokio::join!(C::wait_idle(&pair.client), S::wait_idle(&pair.server));
}

async fn stateless_reset<C: Stack, S: Stack>() {
    let setup = Arc::new(Setup::default());
    let client = C::client(&setup);
    let socket = std::net::UdpSocket::bind(stacks::LOOPBACK).unwrap();
    let address = socket.local_addr().unwrap();

    // Dropping the server's runtime drops all its tasks, so nothing sends a close. We keep its
    // port.
    let doomed = runtime();
    let server = doomed.spawn({
        let (setup, socket) = (Arc::clone(&setup), socket.try_clone().unwrap());
        async move {
            let server = S::server(&setup, socket);
            let peer = S::answer(&server, Answer::Accept).await.unwrap();
            (server, peer)
        }
    });
    let connection = C::connect(&client, address).await.unwrap();
    let (server, peer) = server.await.unwrap();
    echo_many(&connection, &peer, 0..4).await;
    let mut send = connection.open_uni().await;
    let shutdown = move || doomed.shutdown_timeout(std::time::Duration::from_secs(10));
    tokio::task::spawn_blocking(shutdown).await.unwrap();
    drop((server, peer));

    let _successor = S::server(&setup, socket);
    // The reset is shorter than the packet that it answers (RFC 9000 section 10.3.3). It may
    // already have answered a late acknowledgement.
    let written = send.write_all(&[0; 1000]).await;
    assert!(matches!(written, Ok(()) | Err(StreamEnd::Lost(End::Reset))));
    assert_eq!(connection.closed().await, End::Reset);
}

// -- bulk

const BULK: usize = 20 << 20;
const CHUNK: usize = 64 << 10;

/// Each chunk has other content, so the hash detects lost, repeated and misplaced data.
fn bulk_chunk(index: usize, chunk: &mut [u8]) {
    let mut word = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for bytes in chunk.chunks_exact_mut(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

async fn bulk_from<A: Peer, B: Peer>(from: &A, to: &B) {
    // The caller keeps its handles. Dropping the last one would close the connection before the end
    // is acknowledged.
    let (from, to) = (from.clone(), to.clone());
    let send = tokio::spawn(async move {
        let mut send = from.open_uni().await;
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        for index in 0..BULK / CHUNK {
            bulk_chunk(index, &mut chunk);
            hash.update(&chunk);
            send.write_all(&chunk).await.unwrap();
        }
        send.finish();
        assert_eq!(send.stopped().await, Ok(None));
        hash.finalize()
    });
    let receive = tokio::spawn(async move {
        let mut recv = to.accept_uni().await.unwrap();
        let mut hash = Sha256::new();
        let mut buf = vec![0; CHUNK];
        let mut received = 0;
        while let Some(count) = recv.read(&mut buf).await.unwrap() {
            hash.update(&buf[..count]);
            received += count;
        }
        assert_eq!(received, BULK);
        hash.finalize()
    });
    let (sent, received) = tokio::join!(send, receive);
    assert_eq!(sent.unwrap(), received.unwrap());
}

async fn bulk_from_the_client<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    bulk_from(&client, &server).await;
}

async fn bulk_from_the_server<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    bulk_from(&server, &client).await;
}

async fn bulk_both_ways<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    tokio::join!(bulk_from(&client, &server), bulk_from(&server, &client));
}

// -- keys

/// `from` updates keys repeatedly while data flows in both directions.
async fn key_updates_by<A: Peer, B: Peer>(from: &A, to: &B) {
    let echo = tokio::spawn({
        let to = to.clone();
        async move {
            let (send, recv) = to.accept_bi().await.unwrap();
            echo_one(send, recv).await;
        }
    });
    let updates = || from.key_updates().or_else(|| to.key_updates()).unwrap();
    let enough = AtomicBool::new(false);
    let (mut send, mut recv) = from.open_bi().await;
    let mut chunk = vec![0; CHUNK];
    let write = async {
        let mut index = 0;
        while !enough.load(Ordering::Relaxed) {
            bulk_chunk(index, &mut chunk);
            send.write_all(&chunk).await.unwrap();
            index += 1;
        }
        send.finish();
        index
    };
    let read = async {
        let mut expected = vec![0; CHUNK];
        let mut index = 0;
        let mut after = 0;
        loop {
            let mut chunk = vec![0; CHUNK];
            let mut filled = 0;
            while filled < CHUNK {
                match recv.read(&mut chunk[filled..]).await.unwrap() {
                    Some(count) => filled += count,
                    None => break,
                }
            }
            if filled == 0 {
                break index;
            }
            bulk_chunk(index, &mut expected);
            assert!(chunk == expected, "chunk {index} was garbled");
            index += 1;
            if updates() < 4 {
                from.force_key_update();
            } else {
                // A few more round trips with the last keys.
                after += 1;
                enough.store(after > 16, Ordering::Relaxed);
            }
        }
    };
    let (written, read) = tokio::join!(write, read);
    assert_eq!(written, read);
    echo.await.unwrap();
}

async fn key_updates_by_the_client<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    key_updates_by(&client, &server).await;
}

async fn key_updates_by_the_server<C: Stack, S: Stack>() {
    let (_pair, client, server) = pair::<C, S>().await;
    key_updates_by(&server, &client).await;
}
