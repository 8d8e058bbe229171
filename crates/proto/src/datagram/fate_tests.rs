//! Tests of what is told of datagrams with a tag.

use std::collections::HashMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn all(fates: &mut Fates) -> Vec<(u64, Fate)> {
    std::iter::from_fn(|| fates.next())
        .map(|news| (news.tag, news.fate))
        .collect()
}

fn acked(path: PathId, sent: Instant, at: Instant, after_loss: bool) -> Fate {
    Fate::Acknowledged {
        path,
        sent,
        at,
        after_loss,
    }
}

#[test]
fn a_small_record() {
    assert!(
        size_of::<DatagramFate>() <= 56,
        "{}",
        size_of::<DatagramFate>()
    );
    assert!(size_of::<Entry>() <= 16, "{}", size_of::<Entry>());
    assert!(size_of::<LostCopy>() <= 32, "{}", size_of::<LostCopy>());
    // A packet's record is not larger by the tag.
    let range = size_of::<crate::sent_frame::StreamRange>();
    assert_eq!(size_of::<crate::sent_frame::SentFrame>(), range);
}

#[test]
fn the_first_acknowledgement_of_a_copy_decides() {
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_millis(20));
    let mut fates = Fates::default();
    let tag = fates.follow(7, 2).unwrap();
    fates.on_sent(tag, A, now);
    fates.on_sent(tag, B, now);
    let sent = [A, B].map(|path| (7, Fate::Sent { path, at: now }));
    assert_eq!(all(&mut fates), sent);
    fates.on_lost(tag, A, Some(3), now, later);
    assert_eq!(all(&mut fates), [], "the other copy is on its way");
    fates.on_acked(tag, B, now, later);
    assert_eq!(all(&mut fates), [(7, acked(B, now, later, false))]);
    // That the other one arrived after all is no news. The place is free then.
    fates.on_late_ack(A, [0..=9].into_iter(), later);
    assert_eq!(all(&mut fates), []);
    assert_eq!((fates.free.len(), fates.entries.len()), (1, 1));
    assert_eq!(fates.follow(8, 1), Some(tag));
}

#[test]
fn it_is_lost_when_all_copies_are_and_may_be_found_once() {
    let now = Instant::now();
    let mut fates = Fates::default();
    let tag = fates.follow(1, 2).unwrap();
    fates.on_sent(tag, A, now);
    fates.on_sent(tag, B, now);
    fates.on_lost(tag, B, Some(5), now, now);
    fates.on_lost(tag, A, Some(9), now, now);
    let lost = Fate::Lost {
        path: A,
        sent: now,
        at: now,
    };
    assert_eq!(all(&mut fates)[2..], [(1, lost)]);
    fates.on_late_ack(A, [10..=12, 0..=8].into_iter(), now);
    assert_eq!(all(&mut fates), []);
    fates.on_late_ack(B, [4..=6].into_iter(), now);
    fates.on_late_ack(A, [9..=9].into_iter(), now);
    assert_eq!(all(&mut fates), [(1, acked(B, now, now, true))]);
    assert_eq!(fates.free, [tag]);
}

#[test]
fn what_never_leaves_is_told_once_for_all_copies() {
    let now = Instant::now();
    let why = Unsendable::PathEnded;
    let mut fates = Fates::default();
    let tag = fates.follow(1, 2).unwrap();
    fates.on_unsent(tag, Unsendable::Displaced);
    fates.on_unsent(tag, why);
    assert_eq!(all(&mut fates), [(1, Fate::Unsent { why })]);
    // One copy was lost, and the other one never leaves: the first may be found.
    let tag = fates.follow(2, 2).unwrap();
    fates.on_sent(tag, A, now);
    fates.on_lost(tag, A, Some(1), now, now);
    fates.on_unsent(tag, why);
    fates.on_late_ack(A, [1..=1].into_iter(), now);
    let expected = [Fate::Unsent { why }, acked(A, now, now, true)];
    assert_eq!(all(&mut fates)[1..], expected.map(|fate| (2, fate)));
    assert_eq!(fates.free.len(), 1);
    assert_eq!(fates.follow(3, 0), None);
    assert_eq!(all(&mut fates), [(3, Fate::Unsent { why })]);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_each() {
    let now = Instant::now();
    let why = Unsendable::Closed;
    let mut fates = Fates::default();
    let waiting = fates.follow(1, 1).unwrap();
    let flying = fates.follow(2, 1).unwrap();
    fates.on_sent(flying, A, now);
    let done = fates.follow(3, 1).unwrap();
    fates.on_sent(done, A, now);
    fates.on_acked(done, A, now, now);
    all(&mut fates);
    fates.end();
    fates.end();
    let ends = [(1, Fate::Unsent { why }), (2, Fate::Undecided)];
    assert_eq!(all(&mut fates), ends);
    // Nothing more comes, whatever is heard.
    fates.on_unsent(waiting, why);
    fates.on_lost(flying, A, Some(1), now, now);
    fates.on_acked(flying, A, now, now);
    assert_eq!(all(&mut fates), []);
    assert_eq!(fates.follow(4, 1), None);
    assert_eq!(all(&mut fates), [(4, Fate::Unsent { why })]);
}

#[test]
fn an_application_that_never_asks_costs_no_more_than_the_cap() {
    let now = Instant::now();
    let mut fates = Fates::default();
    assert!(!fates.poll_news());
    for tag in 0..10_000 {
        let place = fates.follow(tag, 1).unwrap();
        fates.on_sent(place, A, now);
        fates.on_lost(place, A, Some(tag), now, now);
        // It is told once.
        assert_eq!(fates.poll_news(), tag == 0);
    }
    let (news, lost) = fates.sizes();
    assert_eq!((news, lost), (MAX_DATAGRAM_FATES, MAX_LOST_DATAGRAMS));
    assert_eq!(fates.dropped(), 20_000 - MAX_DATAGRAM_FATES as u64);
    // One is taken in before the oldest that is remembered goes.
    assert_eq!(fates.entries.len(), MAX_LOST_DATAGRAMS + 1);
    let news = all(&mut fates);
    assert_eq!(news.first().map(|(tag, _)| *tag), Some(10_000 - 2048));
    assert!(!fates.poll_news());
    // What is no more remembered stays lost.
    fates.on_late_ack(A, [0..=9_999].into_iter(), now);
    assert_eq!(all(&mut fates).len(), MAX_LOST_DATAGRAMS);
    assert!(!fates.shrink(), "it is told how many were dropped");
    assert_eq!(fates.entries.capacity(), 0);
}

/// A copy in the model: where it is.
#[derive(Clone, Copy, PartialEq)]
enum Copy {
    Waits(Tag),
    Flies(Tag, PathId, u64),
    Lost(PathId, u64),
}

/// Whatever happens to copies, in whatever order: each datagram has one end, and one correction at most; and no place is
/// held for what is over.
#[test]
fn each_has_one_end_whatever_happens() {
    for seed in 0..200 {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let mut fates = Fates::default();
        let mut copies: Vec<Copy> = Vec::new();
        let (mut ends, mut corrections) = (HashMap::<u64, u32>::new(), HashMap::<u64, u32>::new());
        let (mut followed, mut numbers) = (0u64, 0u64);
        let mut count = |fates: &mut Fates| {
            for (tag, fate) in all(fates) {
                match fate {
                    Fate::Sent { .. } => {}
                    Fate::Acknowledged {
                        after_loss: true, ..
                    } => *corrections.entry(tag).or_default() += 1,
                    _ => *ends.entry(tag).or_default() += 1,
                }
            }
        };
        for step in 0..600 {
            if step < 400 && rng.random_bool(0.3) {
                let number = rng.random_range(1..=3);
                let tag = fates.follow(followed, number).unwrap();
                copies.extend(std::iter::repeat_n(Copy::Waits(tag), number));
                followed += 1;
            } else if !copies.is_empty() {
                let index = rng.random_range(0..copies.len());
                let path = PathId(rng.random_range(0..2));
                match copies[index] {
                    Copy::Waits(tag) if rng.random_bool(0.9) => {
                        fates.on_sent(tag, path, now);
                        copies[index] = Copy::Flies(tag, path, numbers);
                        numbers += 1;
                    }
                    Copy::Waits(tag) => {
                        fates.on_unsent(tag, Unsendable::Expired);
                        copies.swap_remove(index);
                    }
                    Copy::Flies(tag, path, _) if rng.random_bool(0.5) => {
                        fates.on_acked(tag, path, now, now);
                        copies.swap_remove(index);
                    }
                    Copy::Flies(..) => {
                        // The oldest on its path is lost first.
                        let oldest =
                            copies
                                .iter()
                                .enumerate()
                                .filter_map(|(at, copy)| match copy {
                                    Copy::Flies(tag, path, number) => {
                                        Some((*number, at, *tag, *path))
                                    }
                                    _ => None,
                                });
                        let (number, at, tag, path) = oldest.min_by_key(|one| one.0).unwrap();
                        let remembered = rng.random_bool(0.9).then_some(number);
                        fates.on_lost(tag, path, remembered, now, now);
                        copies[at] = Copy::Lost(path, number);
                    }
                    Copy::Lost(path, number) if rng.random_bool(0.5) => {
                        fates.on_late_ack(path, [number..=number].into_iter(), now);
                        copies.swap_remove(index);
                    }
                    Copy::Lost(..) => {
                        copies.swap_remove(index);
                    }
                }
            }
            if rng.random_bool(0.01) {
                fates.forget_path(A);
            }
            count(&mut fates);
        }
        fates.end();
        count(&mut fates);
        assert_eq!(ends.len() as u64, followed, "seed {seed}");
        assert!(ends.values().all(|count| *count == 1), "seed {seed}");
        assert!(corrections.values().all(|count| *count == 1), "seed {seed}");
        assert!(!corrections.is_empty());
    }
}
