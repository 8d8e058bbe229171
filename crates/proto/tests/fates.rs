//! What an application is told of datagrams with a tag, and of paths that fall silent, on connections whose network loses
//! just what a test says.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{Pair, Tls, client_addr, tuple};
use bytes::Bytes;
use mpquic_proto::{
    AckFrequencyConfig, Connection, DatagramOptions, Event, Fate, PathErrorCode, PathEvent, PathId,
    SendDatagramError, TransportConfig, Unsendable, VarInt, limits,
};

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);
const DELAY: Duration = Duration::from_millis(10);
const RTT: Duration = Duration::from_millis(20);

fn two_paths() -> Pair {
    with_two_paths(TransportConfig::default())
}

fn with_two_paths(config: TransportConfig) -> Pair {
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    let now = pair.now;
    assert_eq!(pair.c().open_path(now, tuple(1)), Ok(SECOND));
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    run(&mut pair, 500);
    pair.client.events.clear();
    pair
}

fn run(pair: &mut Pair, millis: u64) {
    pair.run_until(Duration::from_millis(millis), |_| false);
}

fn send(connection: &mut Connection, options: DatagramOptions, size: usize) {
    let data = Bytes::from(vec![7; size]);
    let sent = connection.datagrams().send_with(data, options, true);
    assert_eq!(sent, Ok(()));
}

fn fates(connection: &mut Connection) -> Vec<(u64, Fate)> {
    let news = std::iter::from_fn(|| connection.datagrams().fate());
    news.map(|news| (news.tag, news.fate)).collect()
}

/// What the client sends on its second path is lost from now on, if `dead`.
fn second(pair: &mut Pair, dead: bool) {
    pair.filter = Box::new(move |_, tuple, _| {
        let second = [tuple.local, tuple.remote].contains(&client_addr(1));
        !(second && dead)
    });
}

fn is_announced(pair: &mut Pair) -> bool {
    let announced = pair.client.events.contains(&Event::DatagramFates);
    pair.client.events.clear();
    announced
}

#[test]
fn a_datagram_is_sent_and_acknowledged_on_its_path() {
    let mut pair = two_paths();
    for (tag, path) in [(7, FIRST), (u64::MAX, SECOND), (7, FIRST)] {
        let sent = pair.now;
        send(pair.c(), DatagramOptions::new().path(path).tag(tag), 100);
        // Another one is nobody's business.
        send(pair.c(), DatagramOptions::new().path(path), 100);
        run(&mut pair, 100);
        assert!(is_announced(&mut pair));
        let news = fates(pair.c());
        let [(first, Fate::Sent { path: on, at }), (second, acked)] = news[..] else {
            panic!("{news:?}");
        };
        assert_eq!((first, second, on, at), (tag, tag, path, sent));
        let Fate::Acknowledged {
            path: on,
            sent: left,
            at,
            after_loss,
        } = acked
        else {
            panic!("{acked:?}");
        };
        assert_eq!((on, left, after_loss), (path, sent, false));
        let most = RTT + Duration::from_millis(26);
        assert!((RTT..most).contains(&(at - sent)), "{:?}", at - sent);
    }
    assert_eq!(fates(pair.s()), [], "the peer knows nothing of tags");
    run(&mut pair, 100);
    assert!(!is_announced(&mut pair));
}

#[test]
fn the_scheduler_chooses_and_the_application_learns_what() {
    let mut pair = two_paths();
    let options = DatagramOptions::new();
    for tag in 0..20 {
        send(pair.c(), options.tag(tag), 1000);
    }
    run(&mut pair, 200);
    let news = fates(pair.c());
    assert_eq!(news.len(), 40);
    for tag in 0..20 {
        let mut of = news.iter().filter(|(of, _)| *of == tag);
        let (_, sent) = of.next().unwrap();
        let (_, acked) = of.next().unwrap();
        let (Fate::Sent { path, at }, Fate::Acknowledged { path: on, sent, .. }) = (sent, acked)
        else {
            panic!("{news:?}");
        };
        assert_eq!((path, at), (on, sent));
    }
}

#[test]
fn a_loss_is_told_and_a_copy_elsewhere_makes_none() {
    let mut pair = two_paths();
    second(&mut pair, true);
    send(pair.c(), DatagramOptions::new().path(SECOND).tag(1), 100);
    send(pair.c(), DatagramOptions::new().all_paths().tag(2), 100);
    run(&mut pair, 30);
    second(&mut pair, false);
    // Those that come through tell that the others did not.
    for _ in 0..4 {
        send(pair.c(), DatagramOptions::new().path(SECOND), 100);
        run(&mut pair, 5);
    }
    run(&mut pair, 200);
    let news = fates(pair.c());
    let ends = |tag| {
        let of = news.iter().filter(move |(of, _)| *of == tag);
        let ends = of.filter(|(_, fate)| !matches!(fate, Fate::Sent { .. }));
        ends.map(|(_, fate)| *fate).collect::<Vec<_>>()
    };
    let [Fate::Lost { path, sent, at }] = ends(1)[..] else {
        panic!("{news:?}");
    };
    assert!(path == SECOND && at - sent > RTT);
    let [Fate::Acknowledged { path, .. }] = ends(2)[..] else {
        panic!("{news:?}");
    };
    assert_eq!(path, FIRST);
}

#[test]
fn what_does_not_leave_is_told_with_the_reason() {
    let mut config = TransportConfig::default();
    config.datagram_send_buffer(10 * 1032);
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    run(&mut pair, 500);
    let late = pair.now;
    let c = pair.c();
    send(c, DatagramOptions::new().tag(1).deadline(late), 1000);
    for tag in 2..=11 {
        send(c, DatagramOptions::new().tag(tag), 1000);
    }
    // The oldest made room for the last one.
    let why = Unsendable::Displaced;
    assert_eq!(fates(c), [(1, Fate::Unsent { why })]);
    let soon = pair.now + Duration::from_nanos(1);
    pair.now = soon;
    send(
        pair.c(),
        DatagramOptions::new().tag(12).deadline(soon),
        1000,
    );
    run(&mut pair, 100);
    let news = fates(pair.c());
    let unsent = |why| move |(_, fate): &&(u64, Fate)| *fate == Fate::Unsent { why };
    let tags = |why| news.iter().filter(unsent(why)).map(|(tag, _)| *tag);
    assert_eq!(tags(Unsendable::Expired).collect::<Vec<_>>(), [12]);
    assert_eq!(tags(Unsendable::Displaced).collect::<Vec<_>>(), [2]);
    // A datagram that was not queued has no fate.
    let large = Bytes::from(vec![7; 9000]);
    let options = DatagramOptions::new().tag(13);
    let refused = pair.c().datagrams().send_with(large, options, true);
    assert_eq!(refused, Err(SendDatagramError::TooLarge));
    assert_eq!(fates(pair.c()), []);
}

#[test]
fn a_path_that_ends_is_the_end_of_what_it_has() {
    let mut pair = two_paths();
    second(&mut pair, true);
    for tag in 0..40 {
        send(pair.c(), DatagramOptions::new().path(SECOND).tag(tag), 1000);
    }
    send(pair.c(), DatagramOptions::new().all_paths().tag(40), 1000);
    run(&mut pair, 5);
    let now = pair.now;
    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
    pair.c().path_mut(SECOND).close(now, code).unwrap();
    run(&mut pair, 200);
    let news = fates(pair.c());
    let count = |is: fn(&Fate) -> bool| news.iter().filter(|(_, fate)| is(fate)).count();
    let left = count(|fate| matches!(fate, Fate::Sent { path: SECOND, .. }));
    assert!((1..40).contains(&left), "{left} left");
    let lost = count(|fate| matches!(fate, Fate::Lost { path: SECOND, .. }));
    let why = Unsendable::PathEnded;
    let unsent = news
        .iter()
        .filter(|(_, fate)| *fate == Fate::Unsent { why })
        .count();
    assert_eq!((lost, unsent), (left, 40 - left));
    let arrived = |(tag, fate): &(u64, Fate)| {
        *tag == 40 && matches!(fate, Fate::Acknowledged { path: FIRST, .. })
    };
    assert_eq!(news.iter().filter(|one| arrived(one)).count(), 1);
}

#[test]
fn the_end_of_the_connection_ends_all_and_can_still_be_read() {
    let mut pair = two_paths();
    second(&mut pair, true);
    for tag in 0..40 {
        send(pair.c(), DatagramOptions::new().path(SECOND).tag(tag), 1000);
    }
    run(&mut pair, 5);
    let left = fates(pair.c()).len();
    let now = pair.now;
    pair.c().close(now, VarInt::from_u32(0), Bytes::new());
    let why = Unsendable::Closed;
    let mut news = fates(pair.c());
    news.sort_by_key(|(tag, _)| *tag);
    let expected = (0..40).map(|tag| match tag < left as u64 {
        true => (tag, Fate::Undecided),
        false => (tag, Fate::Unsent { why }),
    });
    assert_eq!(news, expected.collect::<Vec<_>>());
    run(&mut pair, 5000);
    send(pair.c(), DatagramOptions::new().tag(40), 1000);
    assert_eq!(fates(pair.c()), [(40, Fate::Unsent { why })]);
}

#[test]
fn early_data_that_is_rejected_is_lost() {
    let tls = Tls::new();
    let server = TransportConfig::default();
    tls.get_tickets(&server);
    let mut refusing = tls.clone();
    refusing.server.max_early_data_size = 0;
    for (tls, accepted) in [(&tls, true), (&refusing, false)] {
        let mut pair = tls.pair(TransportConfig::default(), server.clone());
        for tag in 0..30 {
            send(pair.c(), DatagramOptions::new().tag(tag), 1000);
        }
        pair.connect();
        run(&mut pair, 500);
        assert_eq!(pair.c().session().accepted_0rtt(), accepted);
        let news = fates(pair.c());
        for tag in 0..30 {
            let of = news.iter().filter(|(of, _)| *of == tag);
            let ends: Vec<_> = of
                .map(|(_, fate)| *fate)
                .filter(|fate| !matches!(fate, Fate::Sent { .. }))
                .collect();
            let as_expected = match ends[..] {
                [Fate::Acknowledged { .. }] => accepted,
                [Fate::Lost { path: FIRST, .. } | Fate::Unsent { .. }] => !accepted,
                _ => false,
            };
            assert!(as_expected, "{tag}: {ends:?}");
        }
    }
}

#[test]
fn a_retry_drops_what_was_sent_before() {
    let tls = Tls::new();
    let server = TransportConfig::default();
    tls.get_tickets(&server);
    let mut pair = tls.pair(TransportConfig::default(), server);
    pair.retry = true;
    send(pair.c(), DatagramOptions::new().tag(1), 500);
    pair.connect();
    run(&mut pair, 500);
    let news = fates(pair.c());
    assert!(
        matches!(news[..], [(1, Fate::Sent { .. }), (1, Fate::Lost { .. })]),
        "{news:?}"
    );
}

#[test]
fn news_that_nobody_takes_are_bounded_and_counted() {
    let mut pair = two_paths();
    let count = limits::MAX_DATAGRAM_FATES as u64;
    for tag in 0..count {
        send(pair.c(), DatagramOptions::new().tag(tag), 1000);
        if tag % 16 == 0 {
            run(&mut pair, 25);
        }
    }
    run(&mut pair, 500);
    assert_eq!(pair.c().stats().dropped_fates, count);
    let news = fates(pair.c());
    assert_eq!(news.len() as u64, count);
    assert_eq!(news.last().map(|(tag, _)| *tag), Some(count - 1));
}

/// Sends so many packets on a path now and then, as a call does.
fn chat(pair: &mut Pair, path: PathId, every: Duration, packets: usize) {
    let next = Rc::new(Cell::new(pair.now));
    pair.app = Box::new(move |is_client, now, connection| {
        if is_client && now >= next.get() && !connection.is_closed() {
            for _ in 0..packets {
                send(connection, DatagramOptions::new().path(path), 1000);
            }
            next.set(now + every);
        }
        while connection.datagrams().recv().is_some() {}
    });
}

/// When the client's paths fell silent or were heard again.
fn silences(pair: &mut Pair) -> Vec<PathEvent> {
    let events = std::mem::take(&mut pair.client.events);
    let paths = events.into_iter().filter_map(|event| match event {
        Event::Path(event @ (PathEvent::Silent { .. } | PathEvent::Heard { .. })) => Some(event),
        _ => None,
    });
    paths.collect()
}

/// Steps through so much time, in steps of a millisecond at most: so often the application looks at its clock.
fn live(pair: &mut Pair, millis: u64) {
    let end = pair.now + Duration::from_millis(millis);
    live_until(pair, |pair| pair.now >= end);
}

fn live_until(pair: &mut Pair, mut done: impl FnMut(&mut Pair) -> bool) {
    while !done(pair) {
        let tick = pair.now + Duration::from_millis(1);
        pair.step();
        pair.now = pair.now.min(tick);
    }
}

/// How long a path whose datagrams come in frames of so many packets may be dark before it is told silent. The peer may hold the
/// acknowledgement of a single packet back, unless it was asked not to.
#[test]
fn a_silent_path_is_told_of_early_and_so_is_its_return() {
    let every = Duration::from_millis(33);
    let mut asked = AckFrequencyConfig::default();
    asked.ack_eliciting_threshold(0u32.into());
    for (packets, ask, held_back) in [(2, None, 0), (1, None, 25), (1, Some(asked), 0)] {
        let mut config = TransportConfig::default();
        config.ack_frequency_config(ask);
        let mut pair = with_two_paths(config);
        let extra = Duration::from_millis(20);
        let c = pair.c();
        assert_eq!(c.path_mut(SECOND).watch_silence(Some(extra)), Ok(()));
        assert!(c.path_mut(PathId(9)).watch_silence(Some(extra)).is_err());
        chat(&mut pair, SECOND, every, packets);
        // A packet may be under way when the peer takes in what it is asked for.
        live(&mut pair, 200);
        silences(&mut pair);
        live(&mut pair, 1000);
        assert_eq!(silences(&mut pair), []);

        second(&mut pair, true);
        let dark = pair.now;
        live_until(&mut pair, |pair| {
            let silent = |event: &Event| matches!(event, Event::Path(PathEvent::Silent { .. }));
            pair.client.events.iter().any(silent)
        });
        let patience = pair.c().path(SECOND).unwrap().rtt() + extra;
        let took = pair.now - dark;
        let most = patience + every + Duration::from_millis(1 + held_back);
        assert!(took <= most, "{took:?}");
        let events = silences(&mut pair);
        let [PathEvent::Silent { id: SECOND, after }] = events[..] else {
            panic!("{events:?}");
        };
        // The answer to a packet that had arrived, or was about to, is lost, too.
        let before = DELAY + Duration::from_millis(held_back);
        assert!(after >= patience && after <= took + before, "{after:?}");
        let path = pair.c().path(SECOND).unwrap();
        let (oldest, heard) = (path.oldest_unacked().unwrap(), path.last_heard().unwrap());
        assert!(oldest + before >= dark && heard <= dark + DELAY);

        // It is told once, however long it lasts.
        live(&mut pair, 300);
        assert_eq!(silences(&mut pair), []);
        second(&mut pair, false);
        live(&mut pair, 1000);
        assert_eq!(silences(&mut pair), [PathEvent::Heard { id: SECOND }]);

        // Not any more, if it is not wanted.
        pair.c().path_mut(SECOND).watch_silence(None).unwrap();
        second(&mut pair, true);
        live(&mut pair, 300);
        assert_eq!(silences(&mut pair), []);
    }
}

#[test]
fn a_path_without_traffic_is_not_silent_and_arms_no_timer() {
    let mut pair = two_paths();
    run(&mut pair, 5000);
    let before = pair.c().poll_timeout();
    let extra = Some(Duration::ZERO);
    pair.c().path_mut(SECOND).watch_silence(extra).unwrap();
    assert_eq!(pair.c().poll_timeout(), before);
    assert_eq!(pair.c().path(SECOND).unwrap().oldest_unacked(), None);
    run(&mut pair, 5000);
    assert_eq!(silences(&mut pair), []);
}

/// One path of several loses all in one direction: what is heard on it does not hide that.
#[test]
fn a_path_is_silent_if_nothing_of_ours_arrives_though_it_is_heard() {
    let mut pair = two_paths();
    let extra = Duration::from_millis(30);
    pair.c()
        .path_mut(SECOND)
        .watch_silence(Some(extra))
        .unwrap();
    pair.filter =
        Box::new(move |from_client, tuple, _| !(from_client && tuple.local == client_addr(1)));
    chat(&mut pair, SECOND, Duration::from_millis(33), 2);
    let start = pair.now;
    for _ in 0..20 {
        let options = DatagramOptions::new().path(SECOND);
        send(pair.s(), options, 100);
        live(&mut pair, 10);
    }
    let events = silences(&mut pair);
    assert!(
        matches!(events[..], [PathEvent::Silent { id: SECOND, .. }]),
        "{events:?}"
    );
    let heard = pair.c().path(SECOND).unwrap().last_heard().unwrap();
    assert!(heard > start + Duration::from_millis(150));
}
