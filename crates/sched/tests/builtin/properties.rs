//! What holds for every view: random ones, against the contract written out naively.

use std::sync::LazyLock;
use std::time::Duration;

use mpquic_sched::VarInt;
use mpquic_sched::{
    Acked, Context, Data, Decision, MAX_PATHS, MinRtt, PathIndex, PathStatus, PathView, QueueView,
    Registry, RoundRobin, SchedulerFactory, Sent, StreamId, StreamView,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::{PACKET, ask, loaded, path};

/// Every scheduler by its name, with its defaults. Configurations are read once: networks are large, and take longer
/// to load than a case takes to run.
static ALL: LazyLock<Vec<(String, SchedulerFactory)>> = LazyLock::new(|| {
    let registry = crate::registry();
    let factory = |name: &str| (name.to_owned(), registry.factory(name, &json!({})).unwrap());
    registry.names().map(factory).collect()
});

fn view() -> impl Strategy<Value = PathView> {
    // Few values each, so that ties and rare standings come up often.
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    let load = (0..4_u64, 1..4_u64);
    (flags, any::<bool>(), 0..5_u64, 0..4_u64, 0..4_u32, load).prop_map(
        |((open, can_send, suspect), backup, rtt, sent, id, (in_flight, cwnd))| {
            let mut view = PathView::closed(PathIndex::new(0).unwrap());
            view.open = open;
            view.can_send = can_send;
            view.suspect = suspect;
            if backup {
                view.status = PathStatus::Backup;
            }
            view.smoothed_rtt = Duration::from_millis(rtt);
            view.latest_rtt = view.smoothed_rtt;
            view.min_rtt = view.smoothed_rtt;
            view.pto = view.smoothed_rtt * 2;
            view.sent_packets = sent;
            view.id = mpquic_sched::PathId(id);
            view.in_flight = in_flight * 6000;
            view.cwnd = cwnd * 6000;
            view
        },
    )
}

fn views() -> impl Strategy<Value = Vec<PathView>> {
    vec(view(), 0..=MAX_PATHS).prop_map(|mut views| {
        for (slot, view) in views.iter_mut().enumerate() {
            view.index = PathIndex::new(slot).unwrap();
        }
        views
    })
}

/// What there is to send, and the streams that it is of.
fn queues() -> impl Strategy<Value = (QueueView, Vec<StreamView>)> {
    let stream = (0..6_u32, 0..20_000_u64, prop::bool::weighted(0.2));
    (vec(stream, 0..4), prop::bool::weighted(0.1)).prop_map(|(streams, control)| {
        let mut queue = QueueView::default();
        let mut views: Vec<StreamView> = Vec::new();
        for (id, unsent, lost) in streams {
            let id = StreamId::from(VarInt::from_u32(id));
            let mut view = StreamView::new(id, 0, unsent);
            view.retransmittable = if lost { 1000 } else { 0 };
            if views.iter().all(|view| view.id != id) {
                queue.unsent += unsent;
                queue.retransmittable += view.retransmittable;
                views.push(view);
            }
        }
        (queue.control, queue.window_left) = (control, 1 << 20);
        (queue, views)
    })
}

/// Whether something will make the transport ask again for a path without room.
fn comes_back(path: &PathView) -> bool {
    path.in_flight > 0 || path.next_release.is_some()
}

/// [`Context::sendable`] as its documentation has it, in two walks.
fn sendable(paths: &[PathView]) -> Vec<&PathView> {
    let open = || paths.iter().filter(|path| path.open);
    let best = open().map(PathView::standing).min();
    open()
        .filter(|path| Some(path.standing()) == best && path.can_send)
        .collect()
}

proptest! {
    #[test]
    fn sendable_is_what_it_says(paths in views()) {
        let queue = QueueView::default();
        let cx = Context::new(std::time::Instant::now(), &paths, &queue, 0);
        let slots = |paths: Vec<&PathView>| paths.iter().map(|path| path.index).collect::<Vec<_>>();
        prop_assert_eq!(slots(cx.sendable().collect()), slots(sendable(&paths)));
        prop_assert_eq!(cx.sendable_set().iter().collect::<Vec<_>>(), slots(sendable(&paths)));
    }

    /// What is chosen can send and is among the preferred, and a wait despite such a path is one for
    /// a path that something will free.
    #[test]
    fn sends_on_open_paths_with_room_and_waits_for_what_comes(
        rounds in vec((views(), queues(), 0..30_u64, any::<bool>()), 1..12),
        burst in 1..4_u32,
    ) {
        let start = std::time::Instant::now();
        for (name, factory) in &*ALL {
            let mut scheduler = factory.make();
            if name == "roundrobin" {
                scheduler = Registry::new().build(name, &json!({"burst": burst})).unwrap();
            }
            let mut now = start;
            for (number, (paths, (queue, streams), ms, retransmission)) in rounds.iter().enumerate() {
                now += Duration::from_millis(*ms);
                let number = number as u64;
                let cx = Context::new(now, paths, queue, number).with_streams(streams);
                let preferred = sendable(paths);
                match scheduler.decide(&cx) {
                    Decision::Send { path, .. } => {
                        let view = &paths[path.get()];
                        prop_assert!(view.open && view.can_send, "{}", name);
                        let ok = preferred.iter().any(|other| other.index == path);
                        prop_assert!(ok || name == "single", "{}", name);
                        let sent = Sent::new(path, now, 1200, number, *retransmission, 1160);
                        scheduler.on_sent(&sent);
                    }
                    // The one path of "single" may be full while others are not.
                    Decision::Wait { .. } if name == "single" => {
                        let only = paths.iter().filter(|path| path.open);
                        let only = only.min_by_key(|path| path.id);
                        prop_assert!(only.is_none_or(|path| !path.can_send));
                    }
                    // Backup-only takes one path, come what may: the transport sees to it.
                    Decision::Wait { .. } if name == "backup" => {}
                    Decision::Wait { .. } => {
                        let best = paths.iter().filter(|path| path.open);
                        let best = best.map(PathView::standing).min();
                        let mut usable = paths.iter().filter(|path| {
                            path.open && Some(path.standing()) == best
                        });
                        let waits = usable.any(|path| !path.can_send && comes_back(path));
                        prop_assert!(preferred.is_empty() || waits, "{}", name);
                    }
                }
                for (slot, view) in paths.iter().enumerate().take(2) {
                    let slot = PathIndex::new(slot).unwrap();
                    let rtt = Some(view.smoothed_rtt);
                    let bytes = number % 5 * 1200;
                    let acked = Acked::new(slot, now, start, 1200, rtt, Some(number), bytes);
                    scheduler.on_acked(&acked);
                }
            }
        }
    }

    /// Where theory leaves no choice but the path with the smallest RTT.
    #[test]
    fn equal_to_min_rtt(paths in views(), unsent in 1..1_000_000_u64) {
        let mut queue = QueueView::default();
        queue.window_left = u64::MAX;
        let streams = [StreamView::new(StreamId::from(VarInt::from_u32(0)), 0, unsent)];
        let now = std::time::Instant::now();
        // The copies of published faults are among the lab's only.
        let registry = crate::registry();
        let choice = |name: &str, paths: &[PathView], queue: &QueueView| {
            let mut scheduler = registry.build(name, &json!({})).unwrap();
            match scheduler.decide(&Context::new(now, paths, queue, 0).with_streams(&streams)) {
                Decision::Send { path, .. } => Some(path.get()),
                Decision::Wait { .. } => None,
            }
        };
        let same = |names: &[&str], paths: &[PathView], queue: &QueueView| {
            let expected = choice("minrtt", paths, queue);
            for name in names.iter().filter(|name| registry.names().any(|known| known == **name)) {
                prop_assert_eq!(choice(name, paths, queue), expected, "{}", name);
            }
            Ok(())
        };
        // More to send than any gap; the first packet of a stream.
        queue.unsent = u64::MAX / 2;
        same(&["stms", "daps_gap", "redundant", "stream_minrtt"], &paths, &queue)?;
        // Nothing but what was lost.
        queue.unsent = 0;
        queue.retransmittable = unsent;
        same(&["stms", "daps_gap", "daps", "redundant"], &paths, &queue)?;
        // Nobody is full, and all measurements agree.
        queue.unsent = unsent;
        queue.retransmittable = 0;
        let mut free = paths.clone();
        for path in &mut free {
            path.can_send = path.open;
            path.sent_packets = 0;
        }
        same(&["stms", "daps_gap", "redundant", "backup", "minrtt_ns3"], &free, &queue)?;
        // One path.
        let one = &paths[..paths.len().min(1)];
        let all = ["stms", "daps_gap", "daps", "redundant", "backup", "minrtt_ns3", "rr_ns3",
            "stream_minrtt", "roundrobin", "single"];
        same(&all, one, &queue)?;
        // Nobody has been measured.
        let mut unknown = paths.clone();
        for path in &mut unknown {
            path.smoothed_rtt = Duration::ZERO;
        }
        same(&["daps", "stms", "daps_gap"], &unknown, &queue)?;
    }

    /// Every packet of the schedule has a place of its own in the data: what paths leave out for each
    /// other adds up, whoever has room when.
    #[test]
    fn daps_leaves_no_more_than_a_period(rounds in vec(vec(any::<bool>(), 3), 1..300)) {
        let mut scheduler = Registry::new().build("daps", &json!({})).unwrap();
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left) = (1 << 40, u64::MAX);
        let now = std::time::Instant::now();
        // Delays of 2, 3 and 5 slots and bursts of 2, 3 and 4: 15 * 2 + 10 * 3 + 6 * 4 packets.
        let paths: Vec<_> = [(16, 2), (24, 3), (40, 4)]
            .into_iter()
            .enumerate()
            .map(|(slot, (rtt, window))| loaded(slot, rtt, window, 0))
            .collect();
        let period = [30, 30, 24];
        let (mut sent, mut periods) = ([0_u64; 3], 0);
        for (number, room) in rounds.iter().enumerate() {
            let mut paths = paths.clone();
            for (view, room) in paths.iter_mut().zip(room) {
                view.can_send = *room;
                view.in_flight = if *room { 0 } else { view.cwnd };
            }
            let cx = Context::new(now, &paths, &queue, number as u64);
            let Decision::Send { path, data, .. } = scheduler.decide(&cx) else { continue };
            if sent == period {
                (sent, periods) = ([0; 3], periods + 1);
            }
            let left: u64 = (0..3).filter(|slot| *slot != path.get()).map(|slot| period[slot] - sent[slot]).sum();
            match data {
                Data::Ahead(gap) => prop_assert!(0 < gap && gap <= left * PACKET),
                data => prop_assert_eq!(data, Data::Next),
            }
            sent[path.get()] += 1;
            prop_assert!(sent[path.get()] <= period[path.get()], "{:?} in period {}", sent, periods);
            let packet = Sent::new(path, now, 1235, number as u64, false, 1200);
            scheduler.on_sent(&packet);
        }
    }

    #[test]
    fn min_rtt_takes_the_minimum(paths in views()) {
        let candidates = sendable(&paths);
        if let Some(slot) = ask(&mut MinRtt::default(), &paths) {
            let chosen = &paths[slot];
            for other in candidates {
                if chosen.has_rtt() {
                    prop_assert!(!other.has_rtt() || (chosen.smoothed_rtt, slot)
                        <= (other.smoothed_rtt, other.index.get()));
                } else {
                    prop_assert!(!other.has_rtt() && (chosen.sent_packets, slot)
                        <= (other.sent_packets, other.index.get()));
                }
            }
        }
    }

    #[test]
    fn round_robin_is_fair(paths in 1..=MAX_PATHS, burst in 1..5_u32, packets in 0..200_usize) {
        let config = json!({"burst": burst});
        let mut scheduler = Registry::new().build("rr", &config).unwrap();
        let views: Vec<_> = (0..paths).map(|slot| path(slot, 1)).collect();
        let mut sent = vec![0_usize; paths];
        for _ in 0..packets {
            sent[ask(&mut *scheduler, &views).unwrap()] += 1;
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            prop_assert!(most - least <= burst as usize);
        }
    }

    /// Two paths that have room at the same times never drift apart, whatever the others do.
    #[test]
    fn round_robin_is_fair_among_paths_with_room(others in vec(vec(any::<bool>(), 4), 1..100)) {
        let mut scheduler = RoundRobin::default();
        let (mut first, mut last) = (0_u32, 0_u32);
        for room in others {
            let mut views: Vec<_> = (0..6).map(|slot| path(slot, 1)).collect();
            for (view, room) in views[1..5].iter_mut().zip(room) {
                view.can_send = room;
            }
            match ask(&mut scheduler, &views) {
                Some(0) => first += 1,
                Some(5) => last += 1,
                _ => {}
            }
            prop_assert!(first.abs_diff(last) <= 1);
        }
    }

    #[test]
    fn the_same_calls_give_the_same_decisions(rounds in vec(views(), 1..20)) {
        let queue = QueueView::default();
        let now = std::time::Instant::now();
        for (_, factory) in &*ALL {
            let run = || {
                let mut scheduler = factory.make();
                let decide = |(number, paths): (usize, &Vec<PathView>)| {
                    scheduler.decide(&Context::new(now, paths, &queue, number as u64))
                };
                rounds.iter().enumerate().map(decide).collect::<Vec<Decision>>()
            };
            prop_assert_eq!(run(), run());
        }
    }
}
