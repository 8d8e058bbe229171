//! Which tokens were used: the trait, and a log in memory of bounded size.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::limits;

/// The token was used before, or may have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the address validation token was used before, or may have been")]
pub struct TokenReuseError;

/// Remembers which tokens of NEW_TOKEN frames clients have used, so that each counts once (RFC 9000 section
/// 8.1.4). Processes that share a token key should share what they remember, or accept that a token counts once
/// in each of them.
///
/// A log may forget, or refuse tokens that were not used: a refused token costs its client a round trip
/// under load, and until its address is proven the server sends it no more than three times what it received.
pub trait TokenLog: Send + Sync {
    /// Notes that a token is used now.
    ///
    /// `nonce` names the token: 128 random bits that the server made. It was `issued` at this time and
    /// does not count any more once `lifetime` has passed since then. (If the endpoint has no
    /// [clock](crate::EndpointConfig::clock), times count from when the endpoint began.)
    ///
    /// # Errors
    ///
    /// If it was used before, or the log cannot tell. Then the token does not count.
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError>;
}

/// A log for a server that gives out no tokens: refuses all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokenLog;

impl TokenLog for NoTokenLog {
    fn check_and_insert(&self, _: u128, _: SystemTime, _: Duration) -> Result<(), TokenReuseError> {
        Err(TokenReuseError)
    }
}

/// The default log, in memory: exact, and bounded by refusing what it cannot remember any more.
///
/// Tokens are remembered until none of their generation counts any more. A generation is one lifetime long, and
/// there are never more than two, so a restart or a crowd of clients costs memory for two lifetimes at most. A
/// token takes about 12 bytes.
#[derive(Debug)]
pub struct TokenMemoryLog {
    capacity: usize,
    state: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    /// Of the older generation: which lifetime since the epoch its tokens end in.
    first: u64,
    /// The older and the newer one. 64 of the nonce's random bits tell tokens apart well enough: a clash makes a
    /// token not count.
    used: [BTreeSet<u64>; 2],
}

impl TokenMemoryLog {
    /// A log that remembers so many tokens of each generation. Beyond that, tokens do not count until the
    /// generation is over.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }
}

impl Default for TokenMemoryLog {
    /// With room for [`limits::MAX_USED_TOKENS`].
    fn default() -> Self {
        Self::new(limits::MAX_USED_TOKENS)
    }
}

impl TokenLog for TokenMemoryLog {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let since_epoch = issued.duration_since(SystemTime::UNIX_EPOCH);
        let issued = since_epoch.map_err(|_| TokenReuseError)?;
        // Tokens that end in the same generation are forgotten together. Those that count at any one time end
        // within one lifetime from then, so in two generations.
        let length = lifetime.as_millis().max(1);
        let ends = (issued.as_millis() + length) / length;
        let generation = u64::try_from(ends).map_err(|_| TokenReuseError)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let at = state.place(generation).ok_or(TokenReuseError)?;
        let used = &mut state.used[at];
        if used.len() >= self.capacity || !used.insert(nonce as u64) {
            return Err(TokenReuseError);
        }
        Ok(())
    }
}

impl Generations {
    /// Where a generation is kept; forgets what is too old beside it. `None` if it is itself too old.
    fn place(&mut self, generation: u64) -> Option<usize> {
        let newest = self.first.saturating_add(1);
        if generation > newest {
            let [_, newer] = std::mem::take(&mut self.used);
            self.first = generation - 1;
            if self.first == newest {
                self.used[0] = newer;
            }
        }
        usize::try_from(generation.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFE: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    //= specs/rfc9000.txt#section-8.1.4
    //= type=test
    //# Tokens that are provided in NEW_TOKEN frames (Section 19.7) need to be valid for longer but
    //# SHOULD NOT be accepted multiple times.
    #[test]
    fn each_token_counts_once() {
        let log = TokenMemoryLog::default();
        for nonce in 0..1000 {
            assert_eq!(log.check_and_insert(nonce, at(5000), LIFE), Ok(()));
        }
        for nonce in 0..1000 {
            let again = log.check_and_insert(nonce, at(5000), LIFE);
            assert_eq!(again, Err(TokenReuseError));
        }
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let log = TokenMemoryLog::new(10);
        let used = |time| {
            let taken = (0..50_u128).filter(|n| {
                let nonce = (u128::from(time) << 32) + n;
                log.check_and_insert(nonce, at(time), LIFE).is_ok()
            });
            taken.count()
        };
        assert_eq!(used(1000), 10);
        assert_eq!(used(1000), 0);
        assert_eq!(used(1100), 10);
        assert_eq!(used(1200), 10);
        let held: usize = log
            .state
            .lock()
            .unwrap()
            .used
            .iter()
            .map(BTreeSet::len)
            .sum();
        assert_eq!(held, 20);
        // Two lifetimes later, those of then do not count, remembered or not.
        assert_eq!(used(1000), 0);
        assert_eq!(used(9000), 10);
    }

    #[test]
    fn odd_times_are_refused_or_taken() {
        let log = TokenMemoryLog::default();
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert!(log.check_and_insert(1, before, LIFE).is_err());
        assert!(log.check_and_insert(1, at(0), Duration::ZERO).is_ok());
        assert!(log.check_and_insert(1, at(0), Duration::MAX).is_err());
        assert!(NoTokenLog.check_and_insert(1, at(0), LIFE).is_err());
    }

    proptest! {
        /// Time goes on, and tokens that still count are used in any order, some again: none counts twice, and
        /// each counts once.
        #[test]
        fn once_whatever_the_order(
            uses in prop::collection::vec((0..60_u64, 0..100_u64, any::<bool>()), 0..300)
        ) {
            let log = TokenMemoryLog::default();
            let (mut now, mut known) = (10_000_u64, Vec::<(u128, u64)>::new());
            for (n, (pass, age, again)) in uses.into_iter().enumerate() {
                now += pass;
                known.retain(|(_, issued)| issued + LIFE.as_secs() >= now);
                match again.then(|| known.get(n % known.len().max(1)).copied()).flatten() {
                    Some((nonce, issued)) => {
                        prop_assert!(log.check_and_insert(nonce, at(issued), LIFE).is_err());
                    }
                    None => {
                        let issued = now - age;
                        prop_assert!(log.check_and_insert(n as u128, at(issued), LIFE).is_ok());
                        known.push((n as u128, issued));
                    }
                }
            }
        }
    }
}
