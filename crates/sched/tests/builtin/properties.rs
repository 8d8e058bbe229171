//! What holds for every view: random ones, against the contract written out naively.

use std::time::Duration;

use mpquic_sched::{
    Context, Decision, MAX_PATHS, MinRtt, PathIndex, PathStatus, PathView, QueueView, Registry,
    RoundRobin, Scheduler,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::{ask, path};

fn view() -> impl Strategy<Value = PathView> {
    // Few values each, so that ties and rare standings come up often.
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (flags, any::<bool>(), 0..5_u64, 0..4_u64, 0..4_u32).prop_map(
        |((open, can_send, suspect), backup, rtt, sent, id)| {
            let mut view = PathView::closed(PathIndex::new(0).unwrap());
            view.open = open;
            view.can_send = can_send;
            view.suspect = suspect;
            if backup {
                view.status = PathStatus::Backup;
            }
            view.smoothed_rtt = Duration::from_millis(rtt);
            view.sent_packets = sent;
            view.id = id;
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

    #[test]
    fn sends_on_open_paths_with_room_and_waits_only_without(
        rounds in vec(views(), 1..8),
        burst in 1..4_u32,
    ) {
        let registry = Registry::new();
        for name in registry.names() {
            let config = if name == "roundrobin" { json!({"burst": burst}) } else { json!({}) };
            let mut scheduler = registry.build(name, &config).unwrap();
            for paths in &rounds {
                match ask(&mut *scheduler, paths) {
                    Some(slot) => {
                        prop_assert!(paths[slot].open && paths[slot].can_send, "{}", name);
                        let preferred = sendable(paths).iter().any(|path| path.index.get() == slot);
                        prop_assert!(preferred || name == "single", "{}", name);
                    }
                    // The one path of "single" may be full while others are not.
                    None if name == "single" => {
                        let only = paths.iter().filter(|path| path.open);
                        let only = only.min_by_key(|path| path.id);
                        prop_assert!(only.is_none_or(|path| !path.can_send));
                    }
                    None => prop_assert!(sendable(paths).is_empty(), "{}", name),
                }
            }
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
        let registry = Registry::new();
        let queue = QueueView::default();
        let now = std::time::Instant::now();
        for name in registry.names() {
            let run = || {
                let mut scheduler: Box<dyn Scheduler> = registry.build(name, &json!({})).unwrap();
                let decide = |(number, paths): (usize, &Vec<PathView>)| {
                    scheduler.decide(&Context::new(now, paths, &queue, number as u64))
                };
                rounds.iter().enumerate().map(decide).collect::<Vec<Decision>>()
            };
            prop_assert_eq!(run(), run());
        }
    }
}
