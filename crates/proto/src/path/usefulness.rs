//! What each path of a client brought beside the others, for the memory of paths; and on which the next connection begins.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathKey, PathMemory, SavedPath, Side};

use super::{Epoch, Paths, memory_key};
use crate::FourTuple;

/// What a connection must have received for it to tell which path brings the most, bytes.
const LEAST_RECEIVED: u64 = 32 * 1024;

/// The least part of what connections received that the path brought which the next one begins on, of
/// [`SavedPath::ALL_CARRIED`].
const MOST: u32 = 600;

/// No address waits longer for one that is better, and may be dead.
const LONGEST_LEAD: Duration = Duration::from_millis(50);

impl Paths {
    /// The connection ends: what was measured is kept for the next one.
    pub(crate) fn leave_memory(&mut self) {
        self.note_carried();
        for path in self.iter_mut() {
            path.leave_memory();
        }
    }

    fn note_carried(&mut self) {
        if self.side == Side::Server {
            return;
        }
        let received = |path: &super::Path| {
            let key = path.recovery.memory.as_ref()?.key();
            Some((key, path.recovery.counters.received_bytes))
        };
        let total: u64 = self
            .iter()
            .filter_map(received)
            .map(|(_, bytes)| bytes)
            .sum();
        if total < LEAST_RECEIVED {
            return;
        }
        for at in 0..self.used {
            let Some((key, bytes)) = self.slots[at].as_ref().and_then(received) else {
                continue;
            };
            let others = self.iter().filter_map(received);
            let others = others.filter(|(other, _)| *other != key);
            let Some((beside, _)) = others.max_by_key(|(_, bytes)| *bytes) else {
                continue;
            };
            let all = u64::from(SavedPath::ALL_CARRIED);
            let part = (u128::from(bytes) * u128::from(all) / u128::from(total)) as u32;
            let path = self.slots[at].as_mut();
            if let Some(memory) = path.and_then(|path| path.recovery.memory.as_mut()) {
                memory.on_carried(part, beside);
            }
        }
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        // Of a connection that was dropped before it was closed.
        self.note_carried();
    }
}

/// Puts the pair of addresses first on which earlier connections of the client received the most, if that is known of it beside
/// another one of these. Returns by how much the others begin later, so that the server's first answer comes there: where a connection
/// begins, its first flight goes, and a path that opens beside it is a round trip behind.
pub(crate) fn lead(
    memory: &dyn PathMemory,
    epoch: Epoch,
    now: Instant,
    tuples: &mut [FourTuple],
) -> Duration {
    let known: Vec<(PathKey, Option<SavedPath>)> = tuples
        .iter()
        .map(|tuple| memory_key(Side::Client, *tuple))
        .map(|key| (key, memory.look_up(key, epoch.at(now))))
        .collect();
    let is_there = |beside: Option<PathKey>| known.iter().any(|(key, _)| Some(*key) == beside);
    let useful = known.iter().enumerate().filter_map(|(at, (_, saved))| {
        let saved = saved.filter(|saved| saved.carried >= MOST && is_there(saved.beside))?;
        Some((at, saved))
    });
    let Some((best, saved)) = useful.max_by_key(|(_, saved)| saved.carried) else {
        return Duration::ZERO;
    };
    let others = known.iter().enumerate().filter(|(at, _)| *at != best);
    let others = others.filter_map(|(_, (_, other))| other.map(|other| other.min_rtt));
    let shortest = others.min().unwrap_or(saved.first_rtt);
    // As late as its first packet may come, without one in twenty of those that come later.
    let variation = saved.rtt_var.saturating_mul(2);
    let latest = saved.first_rtt.saturating_add(variation);
    let lead = latest.saturating_sub(shortest) / 2;
    if lead > LONGEST_LEAD {
        return Duration::ZERO;
    }
    tuples[..=best].rotate_right(1);
    lead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndpointConfig;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn tuple(number: u8) -> FourTuple {
        FourTuple {
            local: ([10, 0, number, 1], 5000).into(),
            remote: ([192, 0, 2, 1], 443).into(),
        }
    }

    fn key(number: u8) -> PathKey {
        memory_key(Side::Client, tuple(number))
    }

    /// What is known of paths, by number: the round trip, its variation, what it carried and beside which.
    struct Known(Vec<(u8, u64, u64, u32, u8)>);

    impl PathMemory for Known {
        fn look_up(&self, of: PathKey, now: Duration) -> Option<SavedPath> {
            let found = self.0.iter().find(|known| key(known.0) == of)?;
            let mut saved = SavedPath::new(ms(found.1), now);
            saved.rtt_var = match found.2 {
                u64::MAX => Duration::MAX,
                millis => ms(millis),
            };
            (saved.carried, saved.beside) = (found.3, Some(key(found.4)));
            Some(saved)
        }

        fn remember(&self, _: PathKey, _: &SavedPath) {}

        fn forget(&self, _: PathKey) {}

        fn claim(&self, _: PathKey) -> bool {
            true
        }

        fn release(&self, _: PathKey) {}
    }

    /// The order of these, and the lead of the first one in milliseconds.
    fn led(known: &[(u8, u64, u64, u32, u8)], numbers: &[u8]) -> (Vec<u8>, f64) {
        let mut tuples: Vec<_> = numbers.iter().map(|number| tuple(*number)).collect();
        let epoch = Epoch::new(&EndpointConfig::new([1; 32]));
        let memory = Known(known.to_vec());
        let lead = lead(&memory, epoch, Instant::now(), &mut tuples);
        let number = |at: &FourTuple| numbers.iter().find(|number| tuple(**number) == *at);
        let order = tuples.iter().filter_map(number).copied().collect();
        (order, lead.as_secs_f64() * 1e3)
    }

    #[test]
    fn a_connection_begins_where_the_most_came() {
        // 24 ms and 2 of variation beside 16 ms: what leaves 6 ms earlier comes first.
        let pair = [(1, 16, 3, 200, 2), (2, 24, 2, 800, 1)];
        assert_eq!(led(&pair, &[1, 2]), (vec![2, 1], 6.0));
        // The shorter one needs no lead but for what its round trips vary by.
        let pair = [(1, 16, 3, 800, 2), (2, 24, 2, 200, 1)];
        assert_eq!(led(&pair, &[1, 2]), (vec![1, 2], 0.0));
        // Of a third one, nothing is known.
        let pair = [(1, 16, 3, 200, 2), (2, 24, 2, 800, 1)];
        assert_eq!(led(&pair, &[3, 1, 2]), (vec![2, 3, 1], 6.0));
    }

    #[test]
    fn nothing_leads_that_is_not_known_to_be_worth_it() {
        let same = |known: &[_], numbers: &[u8]| {
            assert_eq!(led(known, numbers), (numbers.to_vec(), 0.0), "{known:?}");
        };
        same(&[], &[1, 2]);
        same(&[(1, 16, 3, 401, 2), (2, 24, 2, 599, 1)], &[1, 2]);
        // It was worth so much beside a path that is not there.
        same(&[(2, 24, 2, 900, 3)], &[1, 2]);
        // 60 ms are too long to wait for it, and what no clock can count.
        same(&[(1, 20, 1, 100, 2), (2, 120, u64::MAX, 900, 1)], &[1, 2]);
        same(&[(1, 20, 1, 100, 2), (2, 120, 10, 900, 1)], &[1, 2]);
    }
}
