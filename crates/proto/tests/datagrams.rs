//! Datagrams for which the application names the path: each option on a connection with two paths, what becomes of them when
//! the path ends or the deadline passes, and what may wait.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::pair::{Pair, client_addr, tuple};
use bytes::Bytes;
use mpquic_proto::{
    DatagramOptions, PathErrorCode, PathId, PathStatus, SendDatagramError, TransportConfig,
};

const FIRST: PathId = PathId(0);
const SECOND: PathId = PathId(1);
const SIZE: usize = 1000;
/// So many of [`SIZE`], with what each counts beside its bytes, may wait.
const BUFFER: usize = 50 * (SIZE + 32);

/// When the client sent packets with such a datagram, and whether on its second path. Nothing else has their size.
type Sent = Rc<RefCell<Vec<(Instant, bool)>>>;

fn two_paths() -> Pair {
    let mut config = TransportConfig::default();
    config
        .datagram_send_buffer(BUFFER)
        .keep_alive_interval(Some(Duration::from_millis(100)));
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    let now = pair.now;
    assert_eq!(pair.c().open_path(now, tuple(1)), Ok(SECOND));
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(SECOND)));
    run(&mut pair, 500);
    pair
}

fn run(pair: &mut Pair, millis: u64) {
    pair.run_until(Duration::from_millis(millis), |_| false);
}

/// Notes what the client sends; what it sends on its second path is lost from then on if `dead`.
fn watch(pair: &mut Pair, dead: bool) -> Sent {
    let sent = Sent::default();
    let noted = Rc::clone(&sent);
    let clock = Rc::new(RefCell::new(pair.now));
    let hands = Rc::clone(&clock);
    pair.app = Box::new(move |_, now, _| *hands.borrow_mut() = now);
    pair.filter = Box::new(move |from_client, tuple, datagram| {
        let second = from_client && tuple.local == client_addr(1);
        if from_client && (SIZE..SIZE + 100).contains(&datagram.len()) {
            noted.borrow_mut().push((*clock.borrow(), second));
        }
        !(second && dead)
    });
    sent
}

fn numbered(number: u32) -> Bytes {
    let mut data = vec![7; SIZE];
    data[..4].copy_from_slice(&number.to_be_bytes());
    data.into()
}

fn send(pair: &mut Pair, number: u32, options: DatagramOptions) {
    let sent = pair
        .c()
        .datagrams()
        .send_with(numbered(number), options, false);
    assert_eq!(sent, Ok(()), "{number}");
}

/// The numbers of what the server has received, in order.
fn received(pair: &mut Pair) -> Vec<u32> {
    let all = std::iter::from_fn(|| pair.s().datagrams().recv());
    let number = |data: Bytes| u32::from_be_bytes(data[..4].try_into().unwrap());
    let mut all: Vec<_> = all.map(number).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_path_that_was_named_carries_it_and_no_scheduler_is_asked() {
    for (path, is_second) in [(FIRST, false), (SECOND, true)] {
        let mut pair = two_paths();
        let sent = watch(&mut pair, false);
        let decisions = pair.c().stats().decisions;
        for number in 0..40 {
            send(&mut pair, number, DatagramOptions::new().path(path));
        }
        run(&mut pair, 1000);
        assert_eq!(received(&mut pair), (0..40).collect::<Vec<_>>());
        assert_eq!(pair.c().stats().decisions, decisions);
        let sent = sent.borrow();
        assert_eq!(sent.len(), 40);
        assert!(sent.iter().all(|(_, second)| *second == is_second));
    }
}

#[test]
fn without_options_the_scheduler_is_asked() {
    let mut pair = two_paths();
    let decisions = pair.c().stats().decisions;
    send(&mut pair, 1, DatagramOptions::default());
    run(&mut pair, 1000);
    assert_eq!(received(&mut pair), [1]);
    assert!(pair.c().stats().decisions > decisions);
}

#[test]
fn all_paths_carry_a_copy_and_a_backup_none() {
    let mut pair = two_paths();
    send(&mut pair, 1, DatagramOptions::new().all_paths());
    run(&mut pair, 1000);
    assert_eq!(received(&mut pair), [1, 1]);

    // One path loses what it takes.
    watch(&mut pair, true);
    send(&mut pair, 2, DatagramOptions::new().all_paths());
    run(&mut pair, 100);
    assert_eq!(received(&mut pair), [2]);

    let mut pair = two_paths();
    pair.c()
        .path_mut(SECOND)
        .set_status(PathStatus::Backup)
        .unwrap();
    send(&mut pair, 3, DatagramOptions::new().all_paths());
    run(&mut pair, 1000);
    assert_eq!(received(&mut pair), [3]);
}

#[test]
fn they_end_with_their_path_and_the_other_path_goes_on() {
    let mut pair = two_paths();
    let sent = watch(&mut pair, true);
    for number in 0..40 {
        send(&mut pair, number, DatagramOptions::new().path(SECOND));
    }
    run(&mut pair, 20);
    let left = sent.borrow().len();
    assert!((1..40).contains(&left), "{left} left");
    // What waits for a full path keeps nothing else from being sent.
    send(&mut pair, 100, DatagramOptions::new().path(FIRST));
    send(&mut pair, 101, DatagramOptions::new().all_paths());
    let now = pair.now;
    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
    pair.c().path_mut(SECOND).close(now, code).unwrap();
    run(&mut pair, 1000);
    assert_eq!(received(&mut pair), [100, 101]);
    // One of the copies was for the path that ended.
    let stats = pair.c().stats();
    assert_eq!(stats.stranded_datagrams, (40 - left) as u64 + 1);
    assert_eq!(stats.expired_datagrams, 0);
    assert_eq!(pair.c().datagrams().send_buffer_space(), BUFFER - 32);
    let late =
        pair.c()
            .datagrams()
            .send_with(numbered(0), DatagramOptions::new().path(SECOND), true);
    assert_eq!(late, Err(SendDatagramError::PathNotOpen));
}

#[test]
fn what_is_too_late_is_dropped_unsent() {
    for options in [
        DatagramOptions::new(),
        DatagramOptions::new().path(SECOND),
        DatagramOptions::new().path(FIRST),
    ] {
        let mut pair = two_paths();
        let sent = watch(&mut pair, false);
        let deadline = pair.now + Duration::from_millis(2);
        for number in 0..49 {
            send(&mut pair, number, options.deadline(deadline));
        }
        // One that may wait comes behind those that may not.
        send(&mut pair, 49, options);
        run(&mut pair, 1000);
        let received = received(&mut pair);
        let expired = pair.c().stats().expired_datagrams;
        assert!((1..49).contains(&expired), "{expired} expired");
        assert_eq!(received.len() as u64 + expired, 50, "{options:?}");
        assert_eq!(received.last(), Some(&49));
        let mut sent = sent.borrow().clone();
        assert_eq!(sent.pop().map(|(at, _)| at >= deadline), Some(true));
        assert!(sent.iter().all(|(at, _)| *at < deadline));
        assert_eq!(pair.c().stats().stranded_datagrams, 0);
        assert_eq!(pair.c().datagrams().send_buffer_space(), BUFFER - 32);
    }
}

#[test]
fn all_that_waits_is_bounded_together() {
    let mut pair = two_paths();
    watch(&mut pair, true);
    let mut queued = 0;
    let refused = loop {
        let options = DatagramOptions::new().path(SECOND);
        match pair
            .c()
            .datagrams()
            .send_with(numbered(queued), options, false)
        {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, SendDatagramError::Blocked(numbered(queued)));
    assert_eq!(queued, 50);
    assert!(matches!(
        pair.c().datagrams().send(numbered(0), false),
        Err(SendDatagramError::Blocked(_))
    ));
    // Two copies at a time: the fullest queue gives way, which is that of the dead path.
    for number in 0..10_000 {
        let options = DatagramOptions::new().all_paths();
        let copies = pair
            .c()
            .datagrams()
            .send_with(numbered(number), options, true);
        assert_eq!(copies, Ok(()));
        assert!(pair.c().datagrams().send_buffer_space() <= SIZE);
    }
    // The newest of the living path are there.
    run(&mut pair, 1000);
    let received = received(&mut pair);
    assert_eq!(received, (9975..10_000).collect::<Vec<_>>());
}
