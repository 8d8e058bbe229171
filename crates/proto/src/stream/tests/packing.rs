//! What goes into a packet: frame sizes, order of streams, gaps, copies.

use mpquic_sched_core::PathSet;

use super::*;

fn ranges(p: &Packet) -> Vec<StreamRange> {
    p.frames
        .iter()
        .filter_map(|f| match f {
            SentFrame::Stream(r) => Some(*r),
            _ => None,
        })
        .collect()
}

fn sent(s: &mut Streams, pick: Data, on: usize) -> Vec<(StreamId, u64, u64)> {
    data_packet(s, 1000, pick, on).map_or_else(Vec::new, |p| {
        ranges(&p).iter().map(|r| (r.id, r.start, r.end)).collect()
    })
}

#[test]
fn every_size_of_rest_carries_the_data_whole() {
    for size in 20..400 {
        for len in 1..200 {
            let (mut a, mut b) = pair(&TransportConfig::default());
            let id = a.open(Dir::Uni).unwrap();
            a.write(id, &pattern(id, 0, len)).unwrap();
            a.finish(id).unwrap();
            let mut packets = 0;
            while let Some(p) = data_packet(&mut a, size, Data::Next, 0) {
                deliver(&mut b, Instant::now(), &p.payload).unwrap();
                packets += 1;
            }
            // Type, ID and an offset of two bytes at most.
            assert!(packets <= len.div_ceil(size - 4) + 1, "{size} {len}");
            let mut buf = vec![0; 500];
            assert_eq!(b.read(id, &mut buf), Ok(Some(len)));
            assert_eq!(buf[..len], pattern(id, 0, len));
            assert_eq!(b.read(id, &mut buf), Ok(None));
        }
    }
}

#[test]
fn bulk_packets_are_full() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 100_000]).unwrap();
    for _ in 0..50 {
        let p = data_packet(&mut a, 1452, Data::Next, 0).unwrap();
        assert_eq!((p.payload.len(), p.frames.len()), (1452, 1));
    }
}

#[test]
fn priority_first_then_round_robin() {
    let (mut a, _) = pair(&TransportConfig::default());
    let ids: Vec<_> = (0..3).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        a.write(*id, &[1; 3000]).unwrap();
    }
    let firsts =
        |a: &mut Streams, n| -> Vec<_> { (0..n).map(|_| sent(a, Data::Next, 0)[0].0).collect() };
    assert_eq!(firsts(&mut a, 3), ids);
    a.set_priority(ids[2], 1).unwrap();
    assert_eq!(a.head().unwrap().id, ids[2]);
    assert_eq!(a.head().unwrap().priority, 1);
    assert_eq!(firsts(&mut a, 2), [ids[2], ids[2]]);
    // The rest of the third stream shares its packet.
    let mixed = sent(&mut a, Data::Next, 0);
    assert_eq!((mixed[0].0, mixed[1].0), (ids[2], ids[0]));
    assert_eq!(sent(&mut a, Data::Stream(ids[0]), 0)[0].0, ids[0]);
    assert_eq!(
        sent(&mut a, Data::Stream(client_stream(Dir::Uni, 9)), 0),
        []
    );
}

#[test]
fn again_carries_no_new_data() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 10_000]).unwrap();
    assert_eq!(sent(&mut a, Data::Retransmit, 0), []);
    let first = data_packet(&mut a, 300, Data::Next, 0).unwrap();
    let end = ranges(&first)[0].end;
    lost(&mut a, &first.frames, 0);
    // The packet has room for more.
    assert_eq!(sent(&mut a, Data::Retransmit, 1), [(id, 0, end)]);
    assert_eq!(sent(&mut a, Data::Retransmit, 1), []);
    assert_eq!(sent(&mut a, Data::Next, 1)[0].1, end);
}

#[test]
fn views_list_streams_in_the_order_of_their_turns() {
    let (mut a, _) = pair(&TransportConfig::default());
    let ids: Vec<_> = (0..4).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for id in &ids[..3] {
        a.write(*id, &[1; 3000]).unwrap();
    }
    a.set_priority(ids[2], 1).unwrap();
    let hints = mpquic_sched_core::StreamHints {
        size: Some(9000),
        chunk: Some(4),
        ..Default::default()
    };
    a.set_hints(ids[2], hints).unwrap();
    let mut views = Vec::new();
    let listed = |a: &Streams, views: &mut Vec<_>| -> Vec<_> {
        a.views(views);
        views
            .iter()
            .map(|v: &mpquic_sched_core::StreamView| v.id)
            .collect()
    };
    assert_eq!(listed(&a, &mut views), [ids[2], ids[0], ids[1]]);
    assert_eq!((views[0].size, views[0].chunk), (Some(9000), Some(4)));
    assert_eq!((views[0].priority, views[1].priority), (1, 0));
    assert!(!views[1].started());
    // Who was asked for by ID goes behind its equals.
    let first = data_packet(&mut a, 1000, Data::Stream(ids[0]), 0).unwrap();
    assert_eq!(listed(&a, &mut views), [ids[2], ids[1], ids[0]]);
    let view = views[2];
    assert!(view.started());
    assert_eq!((view.unsent, view.sent), (3000 - view.sent, view.sent));
    // Streams with nothing but lost data come last, those that wait for nothing not at all.
    a.finish(ids[1]).unwrap();
    assert_eq!(listed(&a, &mut views).len(), 3);
    while data_packet(&mut a, 1000, Data::Next, 0).is_some() {}
    assert_eq!(listed(&a, &mut views), []);
    lost(&mut a, &first.frames, 0);
    a.write(ids[3], &[1; 10]).unwrap();
    assert_eq!(listed(&a, &mut views), [ids[3], ids[0]]);
    assert_eq!((views[1].unsent, views[1].retransmittable), (0, view.sent));
    // However many there are, so many are listed.
    for _ in 0..mpquic_sched_core::MAX_STREAM_VIEWS {
        let id = a.open(Dir::Uni).unwrap();
        a.write(id, b"x").unwrap();
    }
    assert_eq!(
        listed(&a, &mut views).len(),
        mpquic_sched_core::MAX_STREAM_VIEWS
    );
}

#[test]
fn many_small_streams_share_packets() {
    let (mut a, mut b) = pair(&TransportConfig::default());
    for _ in 0..60 {
        let id = a.open(Dir::Uni).unwrap();
        a.write(id, b"hello").unwrap();
        a.finish(id).unwrap();
    }
    let p = data_packet(&mut a, 1200, Data::Next, 0).unwrap();
    assert_eq!(p.frames.len(), 60);
    assert!(!a.can_send_data());
    deliver(&mut b, Instant::now(), &p.payload).unwrap();
    acked(&mut a, &p.frames);
    assert_eq!(events(&mut a).len(), 60);
    assert_eq!(a.open_halves(), (0, 0));
}

#[test]
fn ahead_leaves_a_gap_that_next_fills() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 5000]).unwrap();
    assert_eq!(sent(&mut a, Data::Ahead(5000), 1), []);
    assert_eq!(sent(&mut a, Data::Ahead(2000), 1), [(id, 2000, 2996)]);
    let before = a.window_left();
    // The gap counts: this goes right behind the former.
    assert_eq!(sent(&mut a, Data::Ahead(2000), 1), [(id, 2996, 3992)]);
    assert_eq!(a.window_left(), before - 996);
    assert_eq!(sent(&mut a, Data::Ahead(500), 1), [(id, 500, 1496)]);
    assert_eq!(a.queue().unsent, 5000 - (996 + 996 + 996));
    let mut next = Vec::new();
    while let got @ [_, ..] = &sent(&mut a, Data::Next, 0)[..] {
        next.extend_from_slice(got);
    }
    let expect = [(id, 0, 500), (id, 1496, 2000), (id, 3992, 5000)];
    let covered: u64 = next.iter().map(|r| r.2 - r.1).sum();
    assert_eq!(covered, 5000 - (996 + 996 + 996));
    for r in &next {
        assert!(expect.iter().any(|e| e.1 <= r.1 && r.2 <= e.2), "{r:?}");
    }
    assert_eq!(a.queue().unsent, 0);
}

#[test]
fn packets_behind_a_gap_are_full_whatever_lies_between() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 5000]).unwrap();
    assert_eq!(sent(&mut a, Data::Ahead(1500), 1), [(id, 1500, 2496)]);
    // The rest of the hole, and what follows behind it.
    let (first, second) = ((id, 1200, 1500), (id, 2496, 3186));
    assert_eq!(sent(&mut a, Data::Ahead(1200), 1), [first, second]);
}

#[test]
fn a_gap_spans_the_end_of_the_stream() {
    let (mut a, mut b) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &pattern(id, 0, 1500)).unwrap();
    a.finish(id).unwrap();
    // At the last byte, at the end, and beyond.
    assert_eq!(sent(&mut a, Data::Ahead(1500), 1), []);
    assert_eq!(sent(&mut a, Data::Ahead(1501), 1), []);
    let ahead = data_packet(&mut a, 1000, Data::Ahead(1000), 1).unwrap();
    let last = ranges(&ahead)[0];
    assert_eq!((last.start, last.end, last.fin), (1000, 1500, true));
    // Nothing behind the gap is left.
    assert_eq!(sent(&mut a, Data::Ahead(1), 1), [(id, 1, 998)]);
    assert_eq!(sent(&mut a, Data::Ahead(4), 1), []);
    deliver(&mut b, Instant::now(), &ahead.payload).unwrap();
    acked(&mut a, &ahead.frames);
    assert_eq!(a.queue().out_of_order, 501);
    // The holes, in order.
    assert_eq!(sent(&mut a, Data::Next, 0), [(id, 0, 1), (id, 998, 1000)]);
    assert!(!a.can_send_data());
}

#[test]
fn a_gap_needs_window_and_holes_need_none() {
    let config = TransportConfig::default();
    let mut a = Streams::new(Side::Client, &config);
    a.set_peer_params(params(4000, 100_000, 10));
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 10_000]).unwrap();
    // The gap counts for the window: highest offsets do (RFC 9000 section 4.1).
    assert_eq!(sent(&mut a, Data::Ahead(3500), 1), [(id, 3500, 4000)]);
    assert_eq!(a.window_left(), 0);
    assert_eq!(sent(&mut a, Data::Ahead(3500), 1), []);
    // Those who fill the gap find room, and those who leave a smaller one.
    assert_eq!(sent(&mut a, Data::Ahead(3000), 1), [(id, 3000, 3500)]);
    assert_eq!(sent(&mut a, Data::Next, 0), [(id, 0, 998)]);
    while let [.., (_, _, end)] = sent(&mut a, Data::Next, 0)[..] {
        assert!(end <= 3000);
    }
    assert!(!a.can_send_data());
    assert_eq!(a.queue().unsent, 6000);
    a.on_max_data(20_000);
    assert_eq!(sent(&mut a, Data::Ahead(100), 1), [(id, 4100, 5096)]);
}

#[test]
fn lost_data_behind_a_gap_is_sent_again_before_new_data() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 10_000]).unwrap();
    let ahead = data_packet(&mut a, 1000, Data::Ahead(2000), 1).unwrap();
    lost(&mut a, &ahead.frames, 1);
    assert_eq!(a.queue().retransmittable, 996);
    // Behind a gap there is new data only, and what was lost is no part of the gap.
    assert_eq!(sent(&mut a, Data::Ahead(2000), 1), [(id, 2996, 3992)]);
    assert_eq!(sent(&mut a, Data::Next, 0)[0], (id, 2000, 2996));
    assert_eq!(a.queue().retransmittable, 0);
    assert_eq!(sent(&mut a, Data::Next, 0), [(id, 0, 998)]);
}

#[test]
fn a_gap_spans_streams_as_they_take_turns() {
    let (mut a, _) = pair(&TransportConfig::default());
    let ids: Vec<_> = (0..4).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for (id, len) in ids.iter().zip([1000, 3000, 3000, 5000]) {
        a.write(*id, &vec![1; len]).unwrap();
    }
    a.set_priority(ids[3], -1).unwrap();
    // Three in step: 500 bytes of each.
    let turn = sent(&mut a, Data::Ahead(1500), 1);
    assert_eq!(turn, [(ids[0], 500, 1000), (ids[1], 500, 990)]);
    // The first one has 500 left, the others go on to 1000.
    let turn = sent(&mut a, Data::Ahead(2500), 1);
    assert_eq!(turn, [(ids[2], 1000, 1996)], "the second one had a turn");
    let turn = sent(&mut a, Data::Ahead(2500), 1);
    assert_eq!(turn, [(ids[1], 1490, 2486)]);
    // 500, 3000 - 490 - 996 and 3000 - 996 bytes, then the less urgent one.
    let urgent = a.queue().unsent - 5000;
    assert_eq!(sent(&mut a, Data::Ahead(urgent), 1), [(ids[3], 0, 998)]);
    assert_eq!(
        sent(&mut a, Data::Ahead(urgent + 500), 1),
        [(ids[3], 1498, 2494)]
    );
    let all = a.queue().unsent;
    assert_eq!(sent(&mut a, Data::Ahead(all), 1), []);
    assert_eq!(sent(&mut a, Data::Ahead(u64::MAX), 1), []);
}

#[test]
fn a_reset_stream_is_no_part_of_a_gap() {
    let (mut a, _) = pair(&TransportConfig::default());
    let ids: Vec<_> = (0..2).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        a.write(*id, &[1; 3000]).unwrap();
    }
    a.reset(ids[0], code(1)).unwrap();
    assert_eq!(sent(&mut a, Data::Ahead(2500), 1), [(ids[1], 2500, 3000)]);
    assert_eq!(sent(&mut a, Data::Ahead(2500), 1), []);
}

#[test]
fn loss_of_one_copy_is_no_loss() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 500]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let r = ranges(&first)[0];
    let copy = |on, a: &mut Streams| {
        let mut made = None;
        packet(1000, |w| made = a.fill_range(w, &r, path(on)));
        made
    };
    assert_eq!(copy(0, &mut a), None);
    let second = copy(1, &mut a).unwrap();
    assert_eq!(second.carried, [path(0), path(1)].into_iter().collect());
    assert_eq!(copy(1, &mut a), None);
    a.on_lost(&r, path(0));
    assert_eq!(a.queue().retransmittable, 0);
    a.on_lost(&second, path(1));
    assert_eq!(a.queue().retransmittable, 500);
    assert_eq!(a.head().unwrap().id, id);
    // A path that has not carried it may still take it as a copy: it leaves the queue.
    copy(2, &mut a).unwrap();
    assert_eq!(a.queue().retransmittable, 0);
}

/// Where everything goes on every path, each repeats its own losses: the copy of another may be stuck in a queue.
#[test]
fn loss_of_one_copy_is_a_loss_of_its_path_if_each_repeats() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 500]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let r = ranges(&first)[0];
    let mut second = None;
    packet(1000, |w| second = a.fill_range(w, &r, path(1)));
    a.set_each_repeats(true);
    a.on_lost(&r, path(0));
    assert_eq!(a.queue().retransmittable, 500);
    // Not on the path that still has it in flight.
    let mut wrote = [true, false];
    packet(1000, |w| wrote[0] = a.fill_again(w, path(1)));
    packet(1000, |w| wrote[1] = a.fill_again(w, path(0)));
    assert_eq!(wrote, [false, true]);
    assert_eq!(a.queue().retransmittable, 0);
    acked_range(&mut a, &second.unwrap());
    assert_eq!(a.queue().in_flight, 0);
    // And no longer where each is sent once.
    a.write(id, &[1; 500]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let r = ranges(&first)[0];
    packet(1000, |w| second = a.fill_range(w, &r, path(1)));
    a.set_each_repeats(false);
    a.on_lost(&r, path(0));
    assert_eq!(a.queue().retransmittable, 0);
}

/// What was lost on one path and went on another one then is in flight once: a copy may bring it back. What two paths have
/// in flight is copied no more, until one of them has lost it.
#[test]
fn copies_of_a_tail_go_where_the_data_was_lost() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 500]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let first = ranges(&first)[0];
    assert!(a.is_in_flight_once(&first));
    a.on_lost(&first, path(0));
    let second = data_packet(&mut a, 1000, Data::Next, 1).unwrap();
    let second = ranges(&second)[0];
    assert_eq!(second.carried.len(), 2);
    assert!(a.is_in_flight_once(&second));
    let copy = |a: &mut Streams| {
        let mut made = [None, None];
        packet(1000, |w| {
            made[0] = a.fill_range(w, &second, path(0));
            made[1] = a.fill_range_again(w, &second, path(0));
        });
        made
    };
    let [none, third] = copy(&mut a);
    assert_eq!(none, None);
    let third = third.unwrap();
    assert_eq!((third.start, third.end), (0, 500));
    assert!(!a.is_in_flight_once(&second) && !a.is_in_flight_once(&third));
    assert_eq!(copy(&mut a), [None, None]);
    a.on_lost(&third, path(0));
    assert!(a.is_in_flight_once(&second));
    acked_range(&mut a, &second);
    assert!(!a.is_in_flight_once(&second));
}

#[test]
fn retransmissions_prefer_another_path() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 3000]).unwrap();
    let p: Vec<_> = [0, 1, 0]
        .map(|on| data_packet(&mut a, 1000, Data::Next, on).unwrap())
        .into();
    lost(&mut a, &p[0].frames, 0);
    lost(&mut a, &p[1].frames, 1);
    a.set_usable([path(0), path(1)].into_iter().collect(), PathSet::EMPTY);
    let again = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let expected = Resent {
        any: true,
        retransmitted: ranges(&again)[0].end - ranges(&again)[0].start,
        copied: 0,
    };
    assert_eq!(again.resent, expected);
    assert_eq!(ranges(&again)[0].start, ranges(&p[1])[0].start);
    let again = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    assert_eq!(ranges(&again)[0].start, 0);
}

/// The one path that is left has lost the oldest data before: it goes first all the same. Otherwise, the receiver waits
/// for it until all that is newer was sent again.
#[test]
fn the_only_path_repeats_the_oldest_data_first() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 3000]).unwrap();
    let p: Vec<_> = [0, 1, 1]
        .map(|on| data_packet(&mut a, 1000, Data::Next, on).unwrap())
        .into();
    for (packet, on) in p.iter().zip([0, 1, 1]) {
        lost(&mut a, &packet.frames, on);
    }
    a.set_usable(PathSet::only(path(0)), PathSet::EMPTY);
    let again = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    assert_eq!(ranges(&again)[0].start, 0);
}

/// On a path that is far slower than another one, which has no room just now, new data goes first: what was lost would
/// arrive sooner on the fast one.
#[test]
fn a_late_path_leaves_lost_data_to_the_fast_one() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 1500]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 1).unwrap();
    lost(&mut a, &first.frames, 1);
    let both = [path(0), path(1)].into_iter().collect();
    a.set_usable(both, PathSet::only(path(1)));
    let fresh = data_packet(&mut a, 1000, Data::Next, 1).unwrap();
    assert_eq!(ranges(&fresh)[0].start, ranges(&first)[0].end);
    assert!(data_packet(&mut a, 1000, Data::Next, 1).is_none());
    // A scheduler that asks for it gets it.
    assert!(a.queue().retransmittable > 0);
    let asked = data_packet(&mut a, 1000, Data::Retransmit, 1).unwrap();
    assert_eq!(ranges(&asked)[0].start, 0);
    lost(&mut a, &asked.frames, 1);
    a.set_usable(both, PathSet::EMPTY);
    let again = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    assert_eq!(ranges(&again)[0].start, 0);
}

#[test]
fn data_of_a_path_in_trouble_goes_elsewhere_and_never_sticks() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 900]).unwrap();
    let first = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let r = ranges(&first)[0];
    a.set_suspects(PathSet::only(path(0)));
    a.make_sendable(&r);
    a.make_sendable(&r);
    assert_eq!(a.queue().retransmittable, 900);
    // Not on the path that has it in flight.
    assert!(data_packet(&mut a, 1000, Data::Next, 0).is_none());
    let second = data_packet(&mut a, 1000, Data::Next, 1).unwrap();
    a.make_sendable(&r);
    assert_eq!(a.queue().retransmittable, 0);
    // Its copy is lost: what is left is in flight on the path in trouble only.
    lost(&mut a, &second.frames, 1);
    assert_eq!(a.queue().retransmittable, 900);
    let third = data_packet(&mut a, 1000, Data::Next, 1).unwrap();
    acked(&mut a, &third.frames);
    lost(&mut a, &first.frames, 0);
    assert_eq!(a.queue().retransmittable, 0);
    assert!(!a.has_unacked());
    a.forget_path(path(0));
    assert!(a.suspects.is_empty());
    // A probe may repeat on its own path.
    a.write(id, &[1; 100]).unwrap();
    let fourth = data_packet(&mut a, 1000, Data::Next, 0).unwrap();
    let mut made = None;
    packet(1000, |w| {
        made = a.fill_probe(w, &ranges(&fourth)[0], path(0))
    });
    assert_eq!(made.map(|r| (r.start, r.end)), Some((900, 1000)));
}

#[test]
fn acks_tell_what_became_contiguous() {
    let (mut a, _) = pair(&TransportConfig::default());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &[1; 2000]).unwrap();
    a.finish(id).unwrap();
    let p: Vec<_> = std::iter::from_fn(|| data_packet(&mut a, 1000, Data::Next, 0)).collect();
    let r: Vec<_> = p.iter().map(|p| ranges(p)[0]).collect();
    assert!(r[2].fin && r.len() == 3);
    let last = acked_range(&mut a, &r[2]);
    assert_eq!((last.newly, last.contiguous), (r[2].end - r[2].start, 0));
    assert_eq!(a.queue().out_of_order, last.newly + 1);
    let first = acked_range(&mut a, &r[0]);
    assert_eq!((first.newly, first.contiguous), (r[0].end, r[0].end));
    assert_eq!(acked_range(&mut a, &r[0]).newly, 0);
    let middle = acked_range(&mut a, &r[1]);
    assert_eq!(middle.newly, r[1].end - r[1].start);
    assert_eq!(middle.contiguous, middle.newly + last.newly);
    assert_eq!(events(&mut a), [StreamEvent::Finished { id }]);
}
