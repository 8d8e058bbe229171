//! What is known of a path from earlier connections, and the contract of what keeps it.

use std::time::Duration;

use crate::PathKey;

/// What earlier connections measured on a path in the direction in which this endpoint sends: the
/// congestion control parameters of RFC 9959 section 3.1, and what else is worth knowing of a path
/// before the first packet.
///
/// Nothing in it is more than a hint: it may come from a file that somebody else can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedPath {
    /// The shortest round trip that was seen: saved_rtt.
    pub min_rtt: Duration,
    /// The shortest round trip of the first one that the connection saw, before it had a queue of its own: longer than
    /// [`min_rtt`](Self::min_rtt) where round trips vary, or where others had a queue then.
    pub first_rtt: Duration,
    /// The smoothed round trip at the end.
    pub smoothed_rtt: Duration,
    /// The variation of the round trip at the end.
    pub rtt_var: Duration,
    /// The rate at which the path delivered when it was used in full, bytes per second; 0 if it never was.
    pub rate: u64,
    /// The bytes that the path delivered in a round trip when it was used in full: saved_cwnd; 0 if it never was.
    pub window: u64,
    /// The congestion window with which the first slow start ended, bytes; 0 if it did not end.
    pub startup_window: u64,
    /// What the bottleneck lets through, bytes per second: how fast packets arrived that left faster, whether or not the path was
    /// ever used in full. 0 if none were seen to.
    pub bottleneck: u64,
    /// Packets lost per million while the round trip was near its minimum, and the controller did not probe for more: loss that no
    /// queue explains.
    pub chance_loss: u32,
    /// BBRv3 steered the path at the end, since chance explained what it lost: the controller `auto` had handed it over.
    pub bbr: bool,
    /// How often `auto` took losses for chance and was wrong; earlier connections count by half.
    pub refusals: u32,
    /// Loss events that `auto` has judged, in tenths, each of which weighs nine tenths of the one after it: 100 at most.
    pub loss_events: u32,
    /// Those of them that chance explained.
    pub chance_events: u32,
    /// Of all that a client received over several paths, the part that came on this one, per thousand: what it was worth beside the
    /// others. The newest connection counts by half, those before it by the other one. 0 if nothing is known.
    pub carried: u32,
    /// The other path that carried the most then.
    pub beside: Option<PathKey>,
    /// How many connections in a row measured about the same: how sure it is. At least 1.
    pub confidence: u32,
    /// When it was measured: the time since the Unix epoch.
    pub seen: Duration,
}

impl SavedPath {
    /// The largest number of connections that [`confidence`](Self::confidence) counts.
    pub const MAX_CONFIDENCE: u32 = 1000;
    /// The largest number of [`refusals`](Self::refusals) that is kept.
    pub const MAX_REFUSALS: u32 = 100;
    /// All that a client received, in the unit of [`carried`](Self::carried).
    pub const ALL_CARRIED: u32 = 1000;
    /// The largest weight of [`loss_events`](Self::loss_events).
    pub const MAX_LOSS_EVENTS: u32 = 100;

    /// A path of which a round trip was measured and nothing else.
    pub const fn new(min_rtt: Duration, seen: Duration) -> Self {
        Self {
            min_rtt,
            first_rtt: min_rtt,
            smoothed_rtt: min_rtt,
            rtt_var: Duration::ZERO,
            rate: 0,
            window: 0,
            startup_window: 0,
            bottleneck: 0,
            chance_loss: 0,
            bbr: false,
            refusals: 0,
            loss_events: 0,
            chance_events: 0,
            carried: 0,
            beside: None,
            confidence: 1,
            seen,
        }
    }

    /// How long ago it was measured. A time that has not come yet counts as now: clocks differ.
    pub const fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.seen)
    }

    /// Whether another measurement says about the same: rate and shortest round trip are within a
    /// factor of two.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let near = |a: u128, b: u128| a <= b.saturating_mul(2) && b <= a.saturating_mul(2);
        near(self.rate.into(), other.rate.into())
            && near(self.min_rtt.as_nanos(), other.min_rtt.as_nanos())
    }
}

/// What keeps the facts of paths from one connection to the next, for any number of connections at a
/// time. `mpquic-sched` has one that is bounded, ages, and can be a file.
///
/// It is asked when a path opens, and told when a path leaves its first slow start and when it ends:
/// never for a packet. Its methods should not block for longer than a copy takes.
pub trait PathMemory: Send + Sync {
    /// What is known of a path. `now`: the time since the Unix epoch.
    fn look_up(&self, key: PathKey, now: Duration) -> Option<SavedPath>;

    /// Remembers this of a path, in place of what was known.
    fn remember(&self, key: PathKey, saved: &SavedPath);

    /// Forgets the path: what was known of it proved wrong.
    fn forget(&self, key: PathKey);

    /// A connection wants to begin with what is known, so that no other one may do so before it has
    /// called [`release`](Self::release) (RFC 9959 section 3.2). False if another one already has.
    fn claim(&self, key: PathKey) -> bool;

    /// The connection that claimed the path has left it.
    fn release(&self, key: PathKey);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(rtt_ms: u64, rate: u64) -> SavedPath {
        SavedPath {
            rate,
            ..SavedPath::new(Duration::from_millis(rtt_ms), Duration::from_secs(100))
        }
    }

    #[test]
    fn a_factor_of_two_is_about_the_same() {
        assert!(saved(20, 1000).agrees_with(&saved(40, 500)));
        assert!(saved(40, 500).agrees_with(&saved(20, 1000)));
        assert!(!saved(20, 1000).agrees_with(&saved(41, 1000)));
        assert!(!saved(20, 1000).agrees_with(&saved(20, 499)));
        assert!(!saved(20, 0).agrees_with(&saved(20, 1)));
        assert!(saved(20, u64::MAX).agrees_with(&saved(20, u64::MAX)));
    }

    #[test]
    fn the_future_is_now() {
        let saved = saved(20, 1000);
        assert_eq!(saved.age(Duration::from_secs(160)).as_secs(), 60);
        assert_eq!(saved.age(Duration::from_secs(1)), Duration::ZERO);
    }
}
