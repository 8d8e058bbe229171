//! The facts of paths in a memory: bounded, aged, claimed by one connection at a time; in no file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{PathKey, SavedPath};

/// The most paths whose facts a store holds.
pub const MAX_SAVED_PATHS: usize = 4096;

/// The facts of a path that were not renewed for so long are forgotten.
pub const MAX_SAVED_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest round trip that is taken for one, and the longest time that anything of it may take.
pub(super) const LONGEST_RTT: Duration = Duration::from_secs(60);
/// The most bytes per second that are taken for a rate: 10 Tbit/s.
pub(super) const LARGEST_RATE: u64 = 1_250_000_000_000;
/// The most bytes that are taken for a window.
pub(super) const LARGEST_WINDOW: u64 = 1 << 40;
/// All.
pub(super) const MILLION: u32 = 1_000_000;

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// The time of the last use, in uses; no two paths of a store have the same.
    pub(super) used: u64,
    pub(super) saved: SavedPath,
}

#[derive(Debug, Default)]
pub(super) struct SavedPaths {
    known: BTreeMap<PathKey, Known>,
    /// Paths that a connection has begun with what is known of them.
    claimed: BTreeSet<PathKey>,
    uses: u64,
}

impl SavedPaths {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn get(&mut self, key: PathKey, now: Duration) -> Option<SavedPath> {
        self.uses += 1;
        let known = self.known.get_mut(&key)?;
        if known.saved.age(now) > MAX_SAVED_AGE {
            self.known.remove(&key);
            return None;
        }
        known.used = self.uses;
        Some(known.saved)
    }

    /// Takes in facts; those out of bounds become the nearest that are in.
    pub(super) fn put(&mut self, key: PathKey, saved: &SavedPath) {
        self.uses += 1;
        let known = Known {
            used: self.uses,
            saved: bounded(saved),
        };
        //= specs/rfc9959-draft.md#3-1-observing
        //# - Observing (Updating saved CC parameters): A sender MUST NOT retain more than one set of CC
        //# parameters for a Remote Endpoint, but the set of CC parameters SHOULD be updated (or replaced)
        //# after a later observation of a path to the same Remote Endpoint.
        self.known.insert(key, known);
        while self.known.len() > MAX_SAVED_PATHS {
            // A walk over all, but only when a path begins or ends with the memory full.
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                break;
            };
            self.known.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, key: PathKey) {
        self.known.remove(&key);
    }

    pub(super) fn claim(&mut self, key: PathKey) -> bool {
        self.claimed.insert(key)
    }

    pub(super) fn release(&mut self, key: PathKey) {
        self.claimed.remove(&key);
    }

    /// All paths in the order of their keys, with the times of their last uses replaced by their ranks.
    pub(super) fn ranked(&self) -> Vec<(PathKey, Known)> {
        let mut times: Vec<_> = self.known.values().map(|known| known.used).collect();
        times.sort_unstable();
        let rank = |used: u64| times.partition_point(|time| *time < used) as u64;
        let ranked = self.known.iter().map(|(key, known)| {
            let used = rank(known.used);
            (*key, Known { used, ..*known })
        });
        ranked.collect()
    }
}

/// Whole microseconds, as a file has them, within bounds.
fn bounded(saved: &SavedPath) -> SavedPath {
    let time = |time: Duration| {
        let micros = time.min(LONGEST_RTT).as_micros() as u64;
        Duration::from_micros(micros)
    };
    let mut bounded = *saved;
    bounded.min_rtt = time(saved.min_rtt).max(Duration::from_micros(1));
    bounded.first_rtt = time(saved.first_rtt).max(bounded.min_rtt);
    bounded.smoothed_rtt = time(saved.smoothed_rtt).max(Duration::from_micros(1));
    bounded.rtt_var = time(saved.rtt_var);
    bounded.rate = saved.rate.min(LARGEST_RATE);
    bounded.window = saved.window.min(LARGEST_WINDOW);
    bounded.startup_window = saved.startup_window.min(LARGEST_WINDOW);
    bounded.bottleneck = saved.bottleneck.min(LARGEST_RATE);
    bounded.chance_loss = saved.chance_loss.min(MILLION);
    bounded.refusals = saved.refusals.min(SavedPath::MAX_REFUSALS);
    bounded.loss_events = saved.loss_events.min(SavedPath::MAX_LOSS_EVENTS);
    bounded.chance_events = saved.chance_events.min(bounded.loss_events);
    bounded.carried = saved.carried.min(SavedPath::ALL_CARRIED);
    bounded.confidence = saved.confidence.clamp(1, SavedPath::MAX_CONFIDENCE);
    bounded.seen = Duration::from_secs(saved.seen.as_secs());
    bounded
}
