//! A client whose address changes (RFC 9000 section 9.3; RFC 10069, Relation to Probing and Migration).

use std::net::SocketAddr;
use std::time::Duration;

use crate::pair::{self, Pair, client_addr, download, read_all, tuple};
use mpquic_proto::{Dir, Event, PathEvent, PathId, TransportConfig};

fn connected() -> Pair {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.connect();
    pair
}

/// The client's address of a path, seen from outside of a NAT.
fn outside(path: u8, host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, path, host], port))
}

fn moves(pair: &Pair, id: PathId) -> usize {
    let event = Event::Path(PathEvent::Moved { id });
    pair.server.events.iter().filter(|e| **e == event).count()
}

fn settle(pair: &mut Pair, id: PathId, remote: SocketAddr) {
    pair.c().ping();
    let moved = pair.run_until(Duration::from_secs(5), |pair| {
        pair.s().path(id).is_ok_and(|path| path.is_validated())
            && pair.s().path(id).unwrap().network_path().remote == remote
    });
    assert!(
        moved,
        "{:?}",
        pair.s().path(id).map(|path| path.network_path())
    );
}

/// Lets two seconds pass.
fn rest(pair: &mut Pair) {
    let later = pair.now + Duration::from_secs(2);
    pair.run_until(Duration::from_secs(2), |_| false);
    pair.now = later;
}

//= specs/rfc9000.txt#section-9.3
//= type=test
//# If the recipient permits the migration, it MUST send subsequent packets to the new peer address
//# and MUST initiate path validation (Section 8.2) to verify the peer's ownership of the address if
//# validation is not already underway.
#[test]
fn the_server_follows_a_nat_to_a_new_port() {
    let mut pair = connected();
    assert!(download(&mut pair, 500_000));
    let rtt = pair.s().path(PathId::ZERO).unwrap().rtt();
    for port in [6000, 6001, 6002] {
        pair.nat = vec![(client_addr(0), outside(0, 1, port))];
        settle(&mut pair, PathId::ZERO, outside(0, 1, port));
        assert!(download(&mut pair, 500_000));
    }
    assert_eq!(moves(&pair, PathId::ZERO), 3);
    // RFC 9000 section 9.4: the first change was of the host, the others of the port only.
    assert!(pair.s().path(PathId::ZERO).unwrap().rtt() < 3 * rtt);
}

//= specs/rfc10069-draft.md#relation-to-probing-and-migration
//= type=test
//# This MUST be treated as path migration, as specified in {{Section 9.3 of QUIC-TRANSPORT}}, with
//# the constraint that all connection IDs used during path migration MUST be associated with the
//# current path ID of the path being migrated.
//= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
//= type=test
//# For the extension specified in this document, endpoints MUST only rotate to another connection
//# ID associated with the same path ID.
#[test]
fn each_path_moves_by_itself_and_stays_what_it_is() {
    let mut pair = connected();
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
    assert!(download(&mut pair, 500_000));
    pair.nat = vec![(client_addr(1), outside(1, 9, 77))];
    settle(&mut pair, id, outside(1, 9, 77));
    let first = pair.s().path(PathId::ZERO).unwrap().network_path();
    assert_eq!(first.remote, client_addr(0));
    assert_eq!((moves(&pair, PathId::ZERO), moves(&pair, id)), (0, 1));
    assert!(download(&mut pair, 2_000_000));
    let opened = Event::Path(PathEvent::Opened { id });
    let count = pair.server.events.iter().filter(|e| **e == opened).count();
    assert_eq!(count, 1, "a path is opened once");
}

/// RFC 9000 section 9.3.1: an address that somebody made up gets three times what came from it.
//= specs/rfc9000.txt#section-8
//= type=test
//# Therefore, after receiving packets from an address that is not yet validated, an endpoint MUST
//# limit the amount of data it sends to the unvalidated address to three times the amount of data
//# received from that address.
#[test]
fn a_made_up_address_gets_little_and_is_left_again() {
    let mut pair = connected();
    assert!(download(&mut pair, 500_000));
    // What is sent to the victim's address arrives nowhere.
    let victim = outside(0, 66, 666);
    pair.filter = Box::new(move |from_client, tuple, _| from_client || tuple.remote != victim);
    pair.nat = vec![(client_addr(0), victim)];
    pair.c().ping();
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.s().path(PathId::ZERO).unwrap().network_path().remote == victim
    }));
    let traffic = pair.s().path(PathId::ZERO).unwrap().amplification();
    let (sent, received) = traffic.expect("nobody has proven the address");
    assert!(sent <= 3 * received, "{sent} {received}");
    // The client itself is where it was, and says so by its next packet.
    pair.nat.clear();
    settle(&mut pair, PathId::ZERO, client_addr(0));
    assert!(download(&mut pair, 500_000));
}

/// RFC 9000 section 9.3.2: with nothing heard from the client at all, the last proven address is
/// returned to.
//= specs/rfc9000.txt#section-9.3.2
//= type=test
//# To protect the connection from failing due to such a spurious migration, an endpoint MUST revert
//# to using the last validated peer address when validation of a new peer address fails.
#[test]
fn an_address_that_cannot_be_proven_is_given_up() {
    let mut pair = connected();
    assert!(download(&mut pair, 500_000));
    let victim = outside(0, 66, 666);
    pair.nat = vec![(client_addr(0), victim)];
    pair.c().ping();
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.s().path(PathId::ZERO).unwrap().network_path().remote == victim
    }));
    pair.nat.clear();
    pair.filter = Box::new(|_, _, _| false);
    assert!(pair.run_until(Duration::from_secs(25), |pair| {
        pair.s().path(PathId::ZERO).unwrap().network_path().remote == client_addr(0)
    }));
    pair.filter = Box::new(|_, _, _| true);
    assert!(download(&mut pair, 500_000));
}

/// A link that takes the answers and leaves the rest: all data waits for an answer, so that the server does not back off
/// as if the client were gone.
#[test]
fn lost_answers_from_a_client_that_is_heard_do_not_slow_its_validation() {
    let mut pair = connected();
    assert!(download(&mut pair, 500_000));
    rest(&mut pair);
    let mut losses = 6;
    // Answers fill a datagram, as challenges do (RFC 9000 section 8.2.2).
    pair.filter = Box::new(move |from_client, _, data| {
        let dropped = from_client && data.len() >= 1200 && losses > 0;
        losses -= u32::from(dropped);
        !dropped
    });
    let remote = outside(0, 1, 6000);
    pair.nat = vec![(client_addr(0), remote)];
    // So much that the amplification limit holds no challenge back.
    for _ in 0..8 {
        pair.c()
            .datagrams()
            .send(vec![0; 1100].into(), false)
            .unwrap();
    }
    let start = pair.now;
    assert!(pair.run_until(Duration::from_secs(20), |pair| {
        pair.s()
            .path(PathId::ZERO)
            .is_ok_and(|path| path.is_validated())
            && pair.s().path(PathId::ZERO).unwrap().network_path().remote == remote
    }));
    // With backoff, the first answer that arrives comes after 63 intervals of at least 100 ms, or never.
    let took = pair.now - start;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(download(&mut pair, 500_000));
}

/// A late packet from before the move does not move the path back (RFC 9000 section 9.3).
#[test]
fn reordering_does_not_move_a_path() {
    let mut pair = connected();
    let kept = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = std::rc::Rc::clone(&kept);
    pair.filter = Box::new(move |from_client, _, data| {
        if from_client {
            keep.borrow_mut().push(data.to_vec());
        }
        !from_client
    });
    pair.c().ping();
    assert!(pair.run_until(Duration::from_secs(1), |_| !kept.borrow().is_empty()));
    pair.filter = Box::new(|_, _, _| true);
    pair.nat = vec![(client_addr(0), outside(0, 1, 6000))];
    settle(&mut pair, PathId::ZERO, outside(0, 1, 6000));
    let late = kept.borrow_mut().remove(0);
    let at = pair.now;
    pair.server.inbound.push_front(pair::Flying {
        at,
        tuple: mpquic_proto::FourTuple {
            local: pair::server_addr(),
            remote: client_addr(0),
        },
        data: late,
    });
    assert!(download(&mut pair, 500_000));
    let now = pair.s().path(PathId::ZERO).unwrap().network_path();
    assert_eq!(now.remote, outside(0, 1, 6000));
    assert_eq!(moves(&pair, PathId::ZERO), 1);
}

/// RFC 9000 section 9.3.2: a peer that moves on before it has proven where it was. It is answered wherever it is, and the
/// last proven address is not forgotten for those that never were.
#[test]
fn a_peer_that_moves_twice_is_answered() {
    for paths in [1, 8] {
        let mut config = TransportConfig::default();
        config.max_paths(paths);
        let mut pair = Pair::new(config.clone(), config);
        pair.connect();
        assert!(download(&mut pair, 500_000));
        let dead = [outside(0, 1, 6000), outside(0, 2, 6001)];
        pair.filter =
            Box::new(move |from_client, tuple, _| from_client || !dead.contains(&tuple.remote));
        for place in dead {
            pair.nat = vec![(client_addr(0), place)];
            pair.c().ping();
            assert!(pair.run_until(Duration::from_secs(5), |pair| {
                pair.s().path(PathId::ZERO).unwrap().network_path().remote == place
            }));
        }
        // Nobody can be reached there: back to the last one that was proven, for as long as it takes.
        let back = pair.run_until(Duration::from_secs(40), |pair| {
            pair.s().path(PathId::ZERO).unwrap().network_path().remote == client_addr(0)
        });
        assert!(
            back && !pair.s().is_closed()
                && pair
                    .s()
                    .path(PathId::ZERO)
                    .is_ok_and(|path| path.is_validated())
        );
        // And from where it can, it is answered at once.
        let place = outside(0, 3, 6002);
        pair.nat = vec![(client_addr(0), place)];
        pair.c().ping();
        let began = pair.now;
        settle(&mut pair, PathId::ZERO, place);
        assert!(pair.now - began < Duration::from_secs(1));
        assert!(download(&mut pair, 500_000));
    }
}

/// RFC 9000 section 9.3.3: somebody who is not on the path forwards packets of the client, faster than they come
/// themselves. The server asks at the old address too, and the client's answer moves the path back, though the client has
/// nothing to send.
//= specs/rfc9000.txt#section-9.3.3
//= type=test
//# In response to an apparent migration, endpoints MUST validate the previously active path using a
//# PATH_CHALLENGE frame.
//= specs/rfc9000.txt#section-9.3.3
//= type=test
//# An endpoint that receives a PATH_CHALLENGE on an active path SHOULD send a non-probing packet in
//# response.
#[test]
fn forwarded_packets_do_not_capture_a_path() {
    let mut pair = connected();
    assert!(download(&mut pair, 500_000));
    rest(&mut pair);
    let attacker = outside(0, 66, 666);
    let mut forwarded = 0;
    for _ in 0..3 {
        // One packet, by another way; what is sent to the attacker goes on to nobody.
        pair.nat = vec![(client_addr(0), attacker)];
        pair.filter =
            Box::new(move |from_client, tuple, _| from_client || tuple.remote != attacker);
        pair.c().ping();
        pair.step();
        pair.nat.clear();
        let caught = pair.run_until(Duration::from_secs(1), |pair| {
            pair.s().path(PathId::ZERO).unwrap().network_path().remote == attacker
        });
        forwarded += u32::from(caught);
        let began = pair.now;
        let back = pair.run_until(Duration::from_secs(5), |pair| {
            pair.s().path(PathId::ZERO).unwrap().network_path().remote == client_addr(0)
        });
        assert!(back && pair.now - began < Duration::from_millis(500));
        rest(&mut pair);
    }
    assert_eq!(forwarded, 3);
    let stats = pair.s().path(PathId::ZERO).unwrap().stats();
    assert!(download(&mut pair, 500_000));
    let after = pair.s().path(PathId::ZERO).unwrap().stats();
    assert_eq!(after.congestion_events, stats.congestion_events);
}

/// A client that only receives owes nothing once nothing comes. Its NAT has forgotten it, and all that was on the way is
/// lost: nobody but the client can tell the server where it is, and it has nothing to send but the question.
#[test]
fn a_client_that_expects_data_and_hears_nothing_asks() {
    for paths in [1, 8] {
        for offset in 0..20 {
            let mut config = TransportConfig::default();
            config.max_paths(paths);
            let mut pair = Pair::new(config.clone(), config);
            pair.connect();
            let id = pair.s().streams().open(Dir::Uni).unwrap();
            let data = vec![7; 4_000_000];
            let (mut written, mut read) = (0, 0);
            let mut run = |pair: &mut Pair, time: Duration, until: usize| {
                pair.run_until(time, |pair| {
                    written += pair
                        .s()
                        .send_stream(id)
                        .write(&data[written..])
                        .unwrap_or(0);
                    pair.c().streams().accept(Dir::Uni);
                    read_all(pair, id, &mut read);
                    read >= until
                });
                read
            };
            let before = run(&mut pair, Duration::from_secs(5), 100_000 + 50_000 * offset);
            pair.nat = vec![(client_addr(0), outside(0, 1, 6000))];
            // Nothing that the client still owes gets through, and nothing that was on its way to it.
            pair.client.inbound.clear();
            pair.server.inbound.clear();
            pair.filter = Box::new(|from_client, _, _| !from_client);
            let owed = pair.now + Duration::from_millis(30);
            pair.run_until(Duration::from_millis(30), |_| false);
            pair.now = owed;
            pair.filter = Box::new(|_, _, _| true);
            // The RTT is 20 ms, and the acknowledgement of the last data is 25 ms late at most.
            let stats = pair.c().path(PathId::ZERO).unwrap().stats();
            let pto = stats.rtt + 4 * stats.rtt_var + Duration::from_millis(25);
            let after = run(&mut pair, 3 * pto, before + 1);
            assert!(after > before, "at {before}: silence for {:?}", 3 * pto);
        }
    }
}

/// The same for a client that only receives datagrams, of which nobody says whether they are to come: those that came at
/// some pace are missed. A steady flow costs no questions, and the end of one costs a few.
#[test]
fn a_client_that_misses_datagrams_asks() {
    for (paths, ms) in [(1, 10), (1, 50), (1, 400), (8, 50)] {
        let interval = Duration::from_millis(ms);
        let mut config = TransportConfig::default();
        config.max_paths(paths).max_idle_timeout(None);
        config.max_mtu(1200).unwrap();
        let mut pair = Pair::new(config.clone(), config);
        pair.connect();
        rest(&mut pair);
        // Questions go in datagrams of full size; the client sends nothing else but acknowledgements.
        let asked = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&asked);
        pair.filter = Box::new(move |from_client, _, data| {
            count.set(count.get() + u32::from(from_client && data.len() >= 1200));
            true
        });
        let tick = |pair: &mut Pair| {
            let later = pair.now + interval;
            pair.run_until(interval, |_| false);
            pair.now = later;
            let came = std::iter::from_fn(|| pair.c().datagrams().recv()).count();
            pair.s()
                .datagrams()
                .send(vec![7; 100].into(), true)
                .unwrap();
            came
        };
        let came: usize = (0..100).map(|_| tick(&mut pair)).sum();
        assert!(came > 90, "{came}");
        assert!(
            asked.get() <= 2,
            "{} questions in a steady flow",
            asked.get()
        );
        // All that is on the way is lost.
        pair.nat = vec![(client_addr(0), outside(0, 1, 6000))];
        pair.client.inbound.clear();
        pair.server.inbound.clear();
        let stats = pair.c().path(PathId::ZERO).unwrap().stats();
        let pto = stats.rtt + 4 * stats.rtt_var + Duration::from_millis(25);
        let began = pair.now;
        while tick(&mut pair) == 0 {
            let silent = pair.now - began;
            assert!(
                silent <= 3 * pto + 3 * interval,
                "{silent:?} at {interval:?}"
            );
        }
        let came: usize = (0..100).map(|_| tick(&mut pair)).sum();
        assert!(came > 90, "{came} after the rebinding");
        // The flow ends, and the client does not know.
        let before = asked.get();
        let later = pair.now + Duration::from_secs(3600);
        pair.run_until(Duration::from_secs(3600), |_| false);
        pair.now = later;
        let more = asked.get() - before;
        assert!((1..=6).contains(&more), "{more} questions in an hour");
    }
}

/// What the silence ends with, once the client's NAT has forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The answer to a request.
    Data,
    /// Credit of the connection, of a stream, or for one more stream.
    Connection,
    Stream,
    Streams,
}

/// A server takes its time, and the client's NAT forgets the client meanwhile. What the server has to say then goes
/// nowhere. The client has nothing in flight; it asks again after a silence as long as the one before.
#[test]
fn a_nat_that_forgets_its_client_late_in_a_silence_ends_no_connection() {
    use Awaited::{Connection, Data, Stream, Streams};
    for (awaited, seconds) in [Data, Connection, Stream, Streams]
        .into_iter()
        .flat_map(|awaited| [0, 1, 5, 60].map(|seconds| (awaited, seconds)))
    {
        let (client, mut server) = (TransportConfig::default(), TransportConfig::default());
        server.max_concurrent_uni_streams(1);
        match awaited {
            Connection => server.receive_window(20_000),
            Stream => server.stream_receive_window(20_000),
            Data | Streams => &mut server,
        };
        let [client, server] = [client, server].map(|mut config| {
            config.max_idle_timeout(None).max_mtu(1200).unwrap();
            config
        });
        let mut pair = Pair::new(client, server);
        pair.connect();
        let dir = match awaited {
            Data => Dir::Bi,
            Connection | Stream | Streams => Dir::Uni,
        };
        let id = pair.c().streams().open(dir).unwrap();
        pair.c().send_stream(id).write(&[7; 30_000]).unwrap();
        if awaited == Stream {
            assert!(pair.c().send_stream(id).write(&[7]).is_err());
        }
        if awaited == Streams {
            pair.c().send_stream(id).finish().unwrap();
            assert_eq!(pair.c().streams().open(dir), None);
        }
        let pass = |pair: &mut Pair, time: Duration| {
            let later = pair.now + time;
            pair.run_until(time, |_| false);
            pair.now = later;
        };
        pass(&mut pair, Duration::from_secs(2 + seconds));
        assert_eq!(pair.s().streams().accept(dir), Some(id));
        pair.nat = vec![(client_addr(0), outside(0, 1, 6000))];
        // All that came is read, so that there is credit again.
        let mut buf = vec![0; 30_000];
        while let Ok(Some(1..)) = pair.s().recv_stream(id).read(&mut buf) {}
        if awaited == Data {
            pair.s().send_stream(id).write(b"answer").unwrap();
            pair.s().send_stream(id).finish().unwrap();
        }
        // What the server has to say now goes to where the client was.
        pass(&mut pair, Duration::from_millis(15));
        let came = |pair: &mut Pair| match awaited {
            Data => pair.c().recv_stream(id).read(&mut buf) == Ok(Some(6)),
            Connection => matches!(pair.s().recv_stream(id).read(&mut buf), Ok(Some(1..))),
            Stream => pair.c().send_stream(id).write(&[7]) == Ok(1),
            Streams => pair.c().streams().open(dir).is_some(),
        };
        let most = Duration::from_secs(2 * (3 + seconds));
        assert!(pair.run_until(most, came), "{awaited:?}, {seconds} s");
    }
}

/// A connection on which nothing is expected stays silent, and one whose peer takes its time asks ever more rarely.
#[test]
fn a_connection_that_waits_is_quiet() {
    // Questions after 1, 2, 4, ... PTOs of at least 40 ms: 14 in ten minutes.
    for (open, most) in [(false, 0), (true, 14)] {
        let mut config = TransportConfig::default();
        config.max_idle_timeout(None).max_mtu(1200).unwrap();
        let mut pair = Pair::new(config.clone(), config);
        pair.connect();
        assert!(download(&mut pair, 100_000));
        let id = pair.c().streams().open(Dir::Bi).unwrap();
        assert_eq!(pair.c().send_stream(id).write(b"request"), Ok(7));
        pair.c().send_stream(id).finish().unwrap();
        pair.run_until(Duration::from_secs(1), |pair| {
            pair.s().streams().accept(Dir::Bi).is_some()
        });
        if !open {
            pair.s().send_stream(id).finish().unwrap();
            let mut buf = [0; 10];
            let done = |pair: &mut Pair| pair.c().recv_stream(id).read(&mut buf) == Ok(None);
            assert!(pair.run_until(Duration::from_secs(1), done));
        }
        rest(&mut pair);
        let before = pair.c().stats().sent_packets;
        let later = pair.now + Duration::from_secs(600);
        pair.run_until(Duration::from_secs(600), |_| false);
        pair.now = later;
        let sent = pair.c().stats().sent_packets - before;
        assert!(
            sent <= most,
            "{sent} packets in ten minutes, stream open: {open}"
        );
    }
}
