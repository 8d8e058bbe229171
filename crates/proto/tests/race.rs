//! Connections over several addresses, packet by packet: copies that come together, late, damaged, or from somebody else.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::pair::{Flying, Pair, client_addr, server_addr, tuple};
use bytes::BytesMut;
use mpquic_proto::{
    AttemptError, ConnectionError, EndpointConfig, Event, FourTuple, PathId, PathKey, PathMemory,
    PathStart, RaceConfig, SavedPath, TransportConfig, Version,
};

const SECOND: Duration = Duration::from_secs(1);

/// The client begins on the paths 0 and 1.
fn race(mut pair: Pair) -> Pair {
    let config = pair.client_config.clone();
    let tuples = [tuple(0), tuple(1)];
    let client = &mut pair.client.endpoint;
    let connection = client.connect_any(pair.now, config, &tuples, "localhost");
    pair.client.connection = Some(connection.unwrap());
    pair
}

fn settings() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.path_start(PathStart::Complete);
    transport
}

fn racing() -> Pair {
    race(Pair::new(settings(), settings()))
}

/// A memory that knows the round trip of one path.
struct Known(PathKey, Duration);

impl PathMemory for Known {
    fn look_up(&self, key: PathKey, now: Duration) -> Option<SavedPath> {
        (key == self.0).then(|| SavedPath::new(self.1, now))
    }

    fn remember(&self, _: PathKey, _: &SavedPath) {}

    fn forget(&self, _: PathKey) {}

    fn claim(&self, _: PathKey) -> bool {
        true
    }

    fn release(&self, _: PathKey) {}
}

/// RFC 8305 section 4: addresses of known round trips come before others.
#[test]
fn a_path_that_is_remembered_comes_first() {
    for (known, first) in [(None, 0), (Some(0), 0), (Some(1), 1)] {
        let mut client = settings();
        if let Some(known) = known {
            let known = Known(tuple(known).key(), Duration::from_millis(20));
            client.path_memory(Some(Arc::new(known)));
        }
        let mut pair = race(Pair::new(client, settings()));
        let sent = note(&mut pair, |_, _, _| true);
        pair.connect();
        assert_eq!(sent.borrow()[0].0, tuple(first), "{known:?}");
    }
}

fn is_initial(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xc0
}

/// The client's datagrams as they left, by their sender.
type Sent = Rc<RefCell<Vec<(FourTuple, Vec<u8>)>>>;

/// Notes what the client sends, and lets through what `passes`.
fn note(pair: &mut Pair, passes: impl Fn(bool, &FourTuple, &[u8]) -> bool + 'static) -> Sent {
    let sent = Sent::default();
    let seen = Rc::clone(&sent);
    pair.filter = Box::new(move |from_client, tuple, datagram| {
        if from_client {
            seen.borrow_mut().push((*tuple, datagram.to_vec()));
        }
        passes(from_client, tuple, datagram)
    });
    sent
}

/// Every byte that the server sends to an address is within three times what came from there, while nothing is proven.
fn watch_amplification(pair: &mut Pair) -> Rc<RefCell<f64>> {
    let worst = Rc::new(RefCell::new(0.0_f64));
    let seen = Rc::clone(&worst);
    let mut bytes: HashMap<SocketAddr, (f64, f64)> = HashMap::new();
    let mut proven = false;
    pair.filter = Box::new(move |from_client, tuple, datagram| {
        let peer = if from_client {
            tuple.local
        } else {
            tuple.remote
        };
        let (received, sent) = bytes.entry(peer).or_default();
        if from_client {
            *received += datagram.len() as f64;
            proven |= !is_initial(datagram);
        } else {
            *sent += datagram.len() as f64;
        }
        if !proven && *sent > 0.0 {
            let mut worst = seen.borrow_mut();
            *worst = worst.max(*sent / *received);
        }
        true
    });
    worst
}

#[test]
fn copies_that_come_in_one_batch_are_one_connection() {
    let mut pair = racing();
    let worst = watch_amplification(&mut pair);
    let mut half_open = 0;
    let confirmed = pair.run_until(SECOND, |pair| {
        half_open = half_open.max(pair.server.endpoint.half_open().connections);
        pair.c().is_handshake_confirmed()
    });
    assert!(confirmed);
    assert_eq!(half_open, 1);
    assert_eq!(pair.server.endpoint.open_connections(), 1);
    let ratio = *worst.borrow();
    assert!(ratio > 0.5 && ratio <= 3.0, "{ratio}");
    // The other address is of use at once.
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(SECOND, |pair| {
        pair.s().path(id).is_ok_and(|path| path.is_validated())
    }));
}

/// The first packets leave from both addresses, byte for byte the same, and nothing more does once there is an answer.
#[test]
fn copies_are_the_same_packets_and_end_with_the_first_answer() {
    let mut pair = racing();
    let sent = note(&mut pair, |_, _, _| true);
    pair.connect();
    let sent = sent.borrow();
    let of = |path: u8| -> Vec<&Vec<u8>> {
        let mine = sent.iter().filter(|(from, _)| *from == tuple(path));
        mine.map(|(_, datagram)| datagram).collect()
    };
    let copies = of(1);
    assert!(!copies.is_empty());
    assert_eq!(of(0)[..copies.len()], copies[..]);
    assert!(of(0).len() > copies.len());
}

/// A copy that comes when the handshake is complete, over a slow link, begins nothing: for three seconds.
#[test]
fn late_copies_begin_nothing() {
    let mut pair = racing();
    let sent = note(&mut pair, |_, from, _| from.local != client_addr(1));
    pair.connect();
    let late: Vec<_> = sent.borrow().clone();
    let late: Vec<_> = late
        .into_iter()
        .filter(|(from, _)| *from == tuple(1))
        .collect();
    let mut buf = Vec::new();
    let from = FourTuple {
        local: server_addr(),
        remote: client_addr(1),
    };
    let mut deliver = |pair: &mut Pair| {
        for (_, datagram) in &late {
            let datagram = BytesMut::from(&datagram[..]);
            let server = &mut pair.server.endpoint;
            let event = server.handle(pair.now, from, None, datagram, &mut buf);
            if event.is_some() {
                return true;
            }
        }
        false
    };
    assert!(!late.is_empty());
    assert!(!deliver(&mut pair));
    pair.now += Duration::from_millis(2900);
    assert!(!deliver(&mut pair));
    assert_eq!(pair.server.endpoint.half_open().connections, 0);
    // What is remembered is not remembered for ever.
    pair.now += Duration::from_millis(200);
    assert!(deliver(&mut pair));
}

/// RFC 9000 section 21.1: somebody who sees the first packet sends it from an address of its own, before it arrives. The
/// server answers there, within the limit of what came from there, and stays with that address. Without a race, the client
/// is never heard; with one, it makes further attempts.
#[test]
fn a_copy_from_somebody_else_that_comes_first_brings_no_more_than_three_times_its_size() {
    let stranger = SocketAddr::from(([192, 0, 2, 66], 6666));
    for several in [false, true] {
        let mut pair = Pair::new(settings(), settings());
        if several {
            pair = race(pair);
        }
        let sent = note(&mut pair, |_, _, _| false);
        pair.step();
        let first = sent.borrow()[0].1.clone();
        let at = pair.now;
        pair.server.inbound.push_back(Flying {
            at,
            tuple: FourTuple {
                local: server_addr(),
                remote: stranger,
            },
            data: first.clone(),
        });
        let to_stranger = Rc::new(RefCell::new(0));
        let attempts = Rc::new(RefCell::new(Vec::new()));
        let (bytes, seen) = (Rc::clone(&to_stranger), Rc::clone(&attempts));
        let dcid = first[6..14].to_vec();
        pair.filter = Box::new(move |from_client, tuple, datagram| {
            if !from_client {
                assert_eq!(tuple.remote, stranger);
                *bytes.borrow_mut() += datagram.len();
                return false;
            }
            // The server of these tests has one connection: further attempts are noted only.
            let known = datagram[6..14] == dcid;
            if !known {
                seen.borrow_mut().push(tuple.local);
            }
            known
        });
        let mut half_open = 0;
        let ended = pair.run_until(2 * SECOND, |pair| {
            half_open = half_open.max(pair.server.endpoint.half_open().connections);
            !pair.c().is_handshaking()
        });
        assert!(!ended);
        assert_eq!(half_open, 1);
        let answered = *to_stranger.borrow();
        assert!(answered > 0 && answered <= 3 * first.len(), "{answered}");
        let attempts = attempts.borrow();
        for path in [0, 1] {
            assert_eq!(attempts.contains(&client_addr(path)), several);
        }
    }
}

#[test]
fn version_negotiation_ends_the_race() {
    let client = EndpointConfig::new([1; 32]);
    let mut server = EndpointConfig::new([2; 32]);
    server.supported_versions(&[Version::V2]);
    let mut pair = race(Pair::with_endpoints(
        settings(),
        settings(),
        [client, server],
    ));
    assert!(pair.run_until(SECOND, |pair| pair.c().is_closed()));
    // The one server there is has spoken: that is the reason, and not a list.
    assert_eq!(
        pair.c().lost_reason(),
        Some(&ConnectionError::VersionMismatch)
    );
}

/// A server without multipath: the connection is an ordinary one, on whichever address the answer came to.
#[test]
fn servers_without_multipath_take_it_as_one_attempt() {
    let mut single = settings();
    single.max_paths(1);
    let mut pair = race(Pair::new(settings(), single));
    pair.filter = Box::new(|from_client, tuple, datagram| {
        !(from_client && tuple.local == client_addr(0) && is_initial(datagram))
    });
    pair.connect();
    assert!(!pair.c().paths().is_multipath());
    assert_eq!(
        pair.c().path(PathId::ZERO).map(|path| path.network_path()),
        Ok(tuple(1))
    );
    assert_eq!(pair.server.endpoint.open_connections(), 1);
}

/// What `into_0rtt` rests on: no copies any more, and no further attempts.
#[test]
fn a_race_that_is_ended_sends_from_one_address_only() {
    let mut pair = racing();
    pair.c().end_race();
    let sent = note(&mut pair, |from_client, _, _| from_client);
    pair.run_until(2 * SECOND, |_| false);
    let sent = sent.borrow();
    assert!(sent.len() > 1);
    // Of the one attempt: its connection ID.
    let id = |datagram: &[u8]| datagram[6..14].to_vec();
    let first = id(&sent[0].1);
    for (from, datagram) in sent.iter() {
        assert_eq!(*from, tuple(0));
        assert_eq!(id(datagram), first);
    }
}

#[test]
fn a_client_that_closes_leaves_no_attempt_behind() {
    let mut pair = racing();
    pair.filter = Box::new(|_, _, _| false);
    pair.run_until(SECOND, |_| false);
    let now = pair.now;
    let before = pair.client.endpoint.open_connections();
    pair.c()
        .close(now, mpquic_proto::VarInt::from_u32(0), Default::default());
    assert!(pair.run_until(10 * SECOND, |pair| pair.c().is_drained()));
    pair.step();
    assert_eq!(pair.client.endpoint.open_connections(), before - 1);
}

/// Tries these addresses, of which none answers, with a time limit if there is one. Returns when it gave up, and why.
fn in_vain(tuples: &[FourTuple], limit: Option<Duration>) -> (Duration, ConnectionError) {
    let mut pair = Pair::new(settings(), settings());
    pair.filter = Box::new(|_, _, _| false);
    let mut config = pair.client_config.clone();
    let mut race = RaceConfig::default();
    race.attempt_delay(SECOND);
    config.race(Some(race));
    if let Some(limit) = limit {
        config.handshake_timeout(limit);
    }
    let (began, client) = (pair.now, &mut pair.client.endpoint);
    let connection = client.connect_any(began, config, tuples, "localhost");
    pair.client.connection = Some(connection.unwrap());
    let ended = |pair: &mut Pair| pair.c().is_closed();
    assert!(pair.run_until(100 * SECOND, ended));
    let lost = pair.client.events.iter().find_map(|event| match event {
        Event::ConnectionLost { reason } => Some(reason.clone()),
        _ => None,
    });
    (pair.now - began, lost.unwrap())
}

/// However many addresses there are, the time for the handshake is for all of them together.
#[test]
fn a_handshake_ends_with_its_time_and_it_is_said_why_of_each_address() {
    let ten = 10 * SECOND;
    assert_eq!(
        in_vain(&[tuple(0)], None),
        (ten, ConnectionError::TimedOut),
        "by default"
    );
    let servers = (0..6).map(|number| SocketAddr::from(([10, 0, 1, number], 4433)));
    let tuples: Vec<_> = servers
        .flat_map(|remote| {
            [0, 1].map(|client| FourTuple {
                local: client_addr(client),
                remote,
            })
        })
        .collect();
    let limit = SECOND * 5 / 2;
    let (took, reason) = in_vain(&tuples, Some(limit));
    assert_eq!(took, limit);
    let ConnectionError::Unreachable(attempts) = reason else {
        panic!("{reason}");
    };
    let tried: Vec<_> = attempts.iter().map(|one| one.network_path).collect();
    assert_eq!(tried, tuples);
    // The second server's addresses were tried after a second, the third one's after two.
    let (first, last) = attempts.split_at(6);
    let all = |some: &[mpquic_proto::FailedAttempt], why| some.iter().all(|one| one.reason == why);
    assert!(all(first, AttemptError::NoAnswer), "{attempts:?}");
    assert!(all(last, AttemptError::NotTried), "{attempts:?}");
}
