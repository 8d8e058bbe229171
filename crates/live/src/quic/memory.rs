//! What flows have learned, kept per pair of paths in the memory that schedulers have.

use mpquic::sched::PathKey;
use mpquic::sched::memory::{Recall, Store};
use mpquic::{Connection, PathStats};

use crate::{Flow, Learned};

/// Under which name the memory has it.
const NAME: &str = "live";

/// What a flow has learned in so many frames is its own: what was known before comes too late then.
pub(super) const OWN: f64 = 30.0;

/// Two paths, in an order that does not depend on which was first; the same path twice if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair(PathKey, PathKey);

impl Pair {
    /// The two paths with the shortest round trips, of those that have answered.
    pub(super) fn of(
        connection: &Connection,
        paths: &[(mpquic::PathId, PathStats)],
    ) -> Option<Self> {
        let mut measured: Vec<_> = paths.iter().filter(|(_, stats)| stats.has_rtt).collect();
        measured.sort_by_key(|(id, stats)| (stats.min_rtt, *id));
        let mut keys = measured.iter().take(2).filter_map(|(id, _)| {
            let path = connection.path(*id).ok()?;
            Some(path.network_path().ok()?.key())
        });
        let first = keys.next()?;
        let second = keys.next().unwrap_or(first);
        Some(Self(first.min(second), first.max(second)))
    }
}

/// A flow's part of the memory: that of flows with this deadline, in milliseconds, and price.
pub(super) fn recall_of(store: &Store, flow: &Flow) -> Recall {
    store.recall(NAME, &(flow.deadline().as_millis() as u64, flow.price()))
}

pub(super) fn recall(recall: &Recall, Pair(first, second): Pair) -> Option<Learned> {
    let bytes: Vec<u8> = match first == second {
        true => recall.recall_path(first),
        false => recall.recall(first, second),
    }?;
    Learned::from_bytes(&bytes).ok()
}

pub(super) fn remember(recall: &Recall, Pair(first, second): Pair, learned: &Learned) {
    let bytes = learned.to_bytes();
    match first == second {
        true => recall.remember_path(first, &bytes),
        false => recall.remember(first, second, &bytes),
    }
}
