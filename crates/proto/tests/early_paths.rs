//! Paths that a client opens with its Finished: what a lost or a late datagram costs, and data before they are validated.

use std::time::{Duration, Instant};

use crate::pair::{self, Pair, tuple};
use mpquic_proto::{Dir, EarlyPathData, PathId, PathStart, StreamId, TransportConfig, limits};

const SECOND: PathId = PathId(1);

/// More than the packets of a handshake and of a new path.
const FLIGHT: usize = 24;

/// A pair whose client opens a second path and asks for data as soon as it may.
fn eager(client: TransportConfig, server: TransportConfig) -> Pair {
    let mut pair = Pair::new(client, server);
    pair.app = Box::new(|is_client, now: Instant, connection| {
        if is_client && connection.paths().may_open() && connection.paths().ids().count() == 1 {
            let _ = connection.open_path(now, tuple(1));
            if let Some(request) = connection.streams().open(Dir::Bi) {
                let _ = connection.send_stream(request).write(b"all of it");
            }
        }
    });
    pair
}

/// The stream on which it asks.
fn request() -> StreamId {
    StreamId::new(mpquic_proto::Side::Client, Dir::Bi, 0)
}

/// How long it takes until both sides have validated the second path, if the datagram with this number is lost.
/// `None`: there is no such datagram.
fn opened_without(start: PathStart, lost: usize) -> Option<Duration> {
    let mut transport = TransportConfig::default();
    transport.path_start(start);
    let mut pair = eager(transport.clone(), transport);
    let begin = pair.now;
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = count.clone();
    pair.filter = Box::new(move |_, _, _| {
        counter.set(counter.get() + 1);
        counter.get() != lost + 1
    });
    let open = pair.run_until(Duration::from_secs(20), |pair| {
        let server = pair.server.connection.is_some()
            && pair.s().path(SECOND).is_ok_and(|path| path.is_validated());
        server && pair.c().path(SECOND).is_ok_and(|path| path.is_validated())
    });
    assert!(open, "without datagram {lost}");
    (count.get() > lost).then(|| pair.now - begin)
}

/// Whichever datagram is lost, the path opens one probe timeout later at most (RFC 9002 section 6.2: a second before the
/// first sample of the RTT; then 85 ms here, and 100 ms between challenges).
#[test]
fn a_lost_datagram_costs_no_more_than_a_probe_timeout() {
    let rtt = Duration::from_millis(20);
    let without_loss = opened_without(PathStart::Complete, usize::MAX - 1);
    assert_eq!(without_loss, None);
    let (mut seen, mut first_flights) = (0, 0);
    for lost in 0..FLIGHT {
        let Some(took) = opened_without(PathStart::Complete, lost) else {
            continue;
        };
        seen += 1;
        // One round trip of the handshake, one and a half of the path.
        let base = rtt * 5 / 2;
        let later = took.saturating_sub(base);
        let before_any_sample = later > Duration::from_millis(150);
        first_flights += usize::from(before_any_sample);
        assert!(later <= Duration::from_millis(1100), "{lost}: {later:?}");
        println!("without datagram {lost}: {took:?}, {later:?} later");
    }
    assert!(seen >= 8, "{seen} datagrams");
    assert!(
        first_flights <= 3,
        "{first_flights} take as long as without an RTT"
    );
}

/// What opens the path overtakes the Finished, and so does more data than a server keeps until it has that.
#[test]
fn a_path_whose_packets_overtake_the_finished_opens_when_that_comes() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.app = Box::new(|is_client, now, connection| {
        if is_client && connection.paths().may_open() && connection.paths().ids().count() == 1 {
            let stream = connection.streams().open(Dir::Uni).unwrap();
            let _ = connection.send_stream(stream).write(&[7; 40_000]);
            connection.open_path(now, tuple(1)).unwrap();
        }
    });
    // After the ClientHello, nothing of the handshake passes until the challenge does.
    let (mut hello, mut challenged) = (true, false);
    pair.filter = Box::new(move |from_client, tuple, datagram| {
        challenged |= tuple.local == pair::client_addr(1);
        let long = datagram[0] & 0x80 != 0;
        !(from_client && long) || challenged || std::mem::take(&mut hello)
    });
    let opens =
        |pair: &mut Pair| pair.server.connection.is_some() && pair.c().paths().ids().count() == 2;
    assert!(pair.run_until(Duration::from_secs(5), opens));
    let flying = &mut pair.server.inbound;
    let challenge = flying
        .iter()
        .position(|flying| flying.tuple.remote == pair::client_addr(1));
    let challenge = flying.remove(challenge.unwrap()).unwrap();
    let at = flying.back().unwrap().at;
    flying.push_back(pair::Flying { at, ..challenge });
    let data = flying.iter().filter(|flying| flying.at == at);
    let data = data.count();
    assert!(data > limits::MAX_UNDECRYPTABLE_PACKETS, "{data} datagrams");
    // Nothing of the path is said again within this time: the first challenge was kept.
    let opened = pair.run_until(Duration::from_millis(99), |pair| {
        pair.s().path(SECOND).is_ok_and(|path| path.is_validated())
    });
    assert!(opened);
}

fn with_early_data(client: bool, server: bool) -> [TransportConfig; 2] {
    [client, server].map(|early| {
        let mut transport = TransportConfig::default();
        let whose = match early {
            true => EarlyPathData::Both,
            false => EarlyPathData::Never,
        };
        transport.early_path_data(whose).max_mtu(1200).unwrap();
        transport
    })
}

/// A download over two paths of which the first has no room left; what the server sent on the second one until it
/// heard the answer to its challenge, and whether it ever sent more than three times what came.
fn sent_before_validation(client: bool, server: bool) -> u64 {
    let [client, server] = with_early_data(client, server);
    let mut pair = eager(client, server);
    let mut before = 0;
    let _ = pair.run_until(Duration::from_secs(5), |pair| {
        if pair.server.connection.is_none() {
            return false;
        }
        if let Some(stream) = pair.s().streams().accept(Dir::Bi) {
            let _ = pair.s().send_stream(stream).write(&[7; 400_000]);
        }
        for (_, traffic) in pair.s().paths().amplification() {
            if let Some((sent, received)) = traffic {
                assert!(sent <= 3 * received, "{sent} after {received}");
            }
        }
        let Ok(stats) = pair.s().path(SECOND).map(|path| path.stats()) else {
            return false;
        };
        if pair.s().path(SECOND).is_ok_and(|path| path.is_validated()) {
            return true;
        }
        before = stats.sent_stream_bytes;
        false
    });
    before
}

/// Without the setting, on either side, all data waits for the validation (RFC 10069, Path Initiation and Validation).
//= specs/rfc10069-draft.md#path-initiation
//= type=test
//# After receiving packets from the client on a new path, if the server decides to use the new path,
//# the server MUST validate the peer's address before sending any data as described in ({{Section
//# 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the 4-tuple used for that path.
#[test]
fn data_waits_for_the_validation_unless_a_server_is_told_otherwise() {
    assert_eq!(sent_before_validation(false, false), 0);
    assert_eq!(sent_before_validation(true, false), 0);
    // A challenge alone lets a server send two full datagrams beside its own.
    let unasked = sent_before_validation(false, true);
    assert!(unasked <= 2 * 1200, "{unasked}");
    // Five let it send an initial window.
    let asked = sent_before_validation(true, true);
    assert!((8 * 1100..=14 * 1200).contains(&asked), "{asked}");
}

/// The client's datagrams for that go only to the address that is the server's for certain, and only once.
#[test]
fn only_the_servers_own_address_gets_more_than_a_challenge() {
    for (remote, most) in [(pair::server_addr(), 5), (pair::client_addr(9), 1)] {
        let [client, server] = with_early_data(true, true);
        let mut pair = Pair::new(client, server);
        pair.connect();
        let now = pair.now;
        let target = mpquic_proto::FourTuple {
            local: pair::client_addr(1),
            remote,
        };
        pair.c().open_path(now, target).unwrap();
        let sent = std::rc::Rc::new(std::cell::Cell::new(0));
        let counter = sent.clone();
        pair.filter = Box::new(move |from_client, tuple, _| {
            let there = from_client && tuple.local == target.local;
            counter.set(counter.get() + usize::from(there));
            !there
        });
        pair.run_until(Duration::from_millis(50), |_| false);
        assert_eq!(sent.get(), most, "{remote}");
        pair.run_until(Duration::from_millis(2000), |_| false);
        // Afterwards, challenges alone.
        assert!(sent.get() <= most + 6, "{} to {remote}", sent.get());
    }
}

/// Nobody answers at the address: what was sent there ahead of the validation goes on the other path, soon.
#[test]
fn early_data_that_is_lost_goes_on_the_other_path() {
    let [client, server] = with_early_data(true, true);
    let mut pair = eager(client, server);
    // The server is heard on the first path only.
    pair.filter =
        Box::new(|from_client, tuple, _| from_client || tuple.remote == pair::client_addr(0));
    let begin = pair.now;
    const LEN: usize = 100_000;
    let (mut written, mut received) = (0, 0);
    let mut stream = None;
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        if pair.server.connection.is_some() {
            stream = stream.or_else(|| pair.s().streams().accept(Dir::Bi));
        }
        if let Some(stream) = stream
            && written < LEN
        {
            written += pair
                .s()
                .send_stream(stream)
                .write(&vec![7; LEN - written])
                .unwrap_or(0);
        }
        while let Ok(Some(chunk)) = pair.c().recv_stream(request()).read_chunk(usize::MAX) {
            received += chunk.len();
        }
        received == LEN
    });
    assert!(done, "{received} bytes");
    let took = pair.now - begin;
    assert!(took < Duration::from_millis(600), "{took:?}");
}

/// What becomes of the server's datagrams on the second path.
#[derive(Clone, Copy)]
enum Answers {
    Come,
    /// All but the first, which has the answer to the challenge.
    Late,
    /// None, nor do the client's get through.
    Never,
}

/// An upload over two paths, of which the client opens the second as soon as it may. What it sent there until it heard the
/// answer to its challenge, and how long the upload took.
fn upload(
    whose: EarlyPathData,
    remote: std::net::SocketAddr,
    answers: Answers,
    bytes: usize,
) -> (u64, Duration) {
    let transport = || {
        let mut transport = TransportConfig::default();
        transport.early_path_data(whose).max_mtu(1200).unwrap();
        transport
    };
    let mut pair = Pair::new(transport(), transport());
    let second = mpquic_proto::FourTuple { remote, ..tuple(1) };
    pair.app = Box::new(move |is_client, now: Instant, connection| {
        if is_client && connection.paths().may_open() && connection.paths().ids().count() == 1 {
            let _ = connection.open_path(now, second);
            if let Some(stream) = connection.streams().open(Dir::Uni) {
                let _ = connection.send_stream(stream).write(&vec![7; bytes]);
                let _ = connection.send_stream(stream).finish();
            }
        }
    });
    let mut answered = 0;
    pair.filter = Box::new(move |from_client, tuple, _| {
        let local = if from_client {
            tuple.local
        } else {
            tuple.remote
        };
        if local != second.local {
            return true;
        }
        answered += u32::from(!from_client);
        match answers {
            Answers::Come => true,
            Answers::Late => from_client || answered > 1,
            Answers::Never => false,
        }
    });
    let stream = StreamId::new(mpquic_proto::Side::Client, Dir::Uni, 0);
    let (begin, mut before, mut received) = (pair.now, 0, 0);
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        if let Ok(path) = pair.c().path(SECOND)
            && !path.is_validated()
        {
            before = path.stats().sent_stream_bytes;
        }
        if pair.server.connection.is_none() {
            return false;
        }
        while let Ok(Some(chunk)) = pair.s().recv_stream(stream).read_chunk(usize::MAX) {
            received += chunk.len();
        }
        received == bytes
    });
    assert!(done, "{received} bytes");
    (before, pair.now - begin)
}

/// The server can read what it gets, and its answer is late: what the first path has no room for does not wait for it.
#[test]
fn a_client_sends_ahead_of_the_validation_unless_it_is_told_not_to() {
    let server = pair::server_addr();
    let (none, waited) = upload(EarlyPathData::Never, server, Answers::Late, 400_000);
    assert_eq!(none, 0);
    for whose in [EarlyPathData::Client, EarlyPathData::Both] {
        let (ahead, took) = upload(whose, server, Answers::Late, 400_000);
        // The pacer lets half of an initial window go at once; acknowledgements make room for more.
        assert!(ahead > 4 * 1100, "{ahead}");
        assert!(took <= waited, "{took:?}, {waited:?} without");
    }
}

/// Before the Finished has come, a server drops most of what is sent on further paths; the end of a transfer is not for a path
/// of which nothing is known; and an address that only says that it is the server's gets a challenge.
#[test]
fn a_client_holds_back_what_would_be_lost_or_late() {
    let other = "192.0.2.99:4433".parse().unwrap();
    for (remote, answers, bytes) in [
        (pair::server_addr(), Answers::Come, 400_000),
        (pair::server_addr(), Answers::Late, 60_000),
        (other, Answers::Never, 400_000),
    ] {
        let (ahead, _) = upload(EarlyPathData::Client, remote, answers, bytes);
        assert_eq!(ahead, 0, "{bytes} to {remote}");
    }
}

/// Nothing gets through on the second path: what went ahead goes on the first one after the first unanswered challenge.
#[test]
fn what_a_client_sent_ahead_into_nothing_goes_on_the_other_path() {
    let server = pair::server_addr();
    let (_, waited) = upload(EarlyPathData::Never, server, Answers::Never, 400_000);
    let (ahead, took) = upload(EarlyPathData::Client, server, Answers::Never, 400_000);
    assert!(ahead > 0);
    assert!(
        took < waited + Duration::from_millis(500),
        "{took:?}, {waited:?} without"
    );
}
