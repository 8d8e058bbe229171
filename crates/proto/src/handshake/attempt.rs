//! One attempt of a client to begin a connection, from several addresses at once (RFC 8305): whether the server is heard,
//! which packets are copied, and what became of each address.

use std::time::{Duration, Instant};

use mpquic_sched_core::EcnCodepoint;
use smallvec::SmallVec;

use super::Handshake;
use super::copies::Copies;
use crate::space::SpaceId;
use crate::{AttemptError, ConnectionError, FailedAttempt, FourTuple, RaceConfig, Transmit};

/// What an attempt has until its handshake is confirmed, if there are several addresses to begin on.
#[derive(Debug)]
pub(crate) struct Attempt {
    copies: Copies,
    /// When something was last heard in it, or when it began.
    heard: Instant,
    /// Further attempts from single addresses were made, or would be of no use.
    split: bool,
    /// Nothing is copied any more.
    ended: bool,
}

/// What it means that nothing can be sent from an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The attempt goes on as before.
    Nothing,
    /// It goes on from this one.
    GoOn(FourTuple),
    /// It cannot go on.
    All,
}

impl Attempt {
    /// `lead`: by how much the first address begins before all others.
    pub(crate) fn new(
        now: Instant,
        tuples: &[FourTuple],
        lead: Duration,
        config: &RaceConfig,
    ) -> Self {
        Self {
            copies: Copies::new(now, tuples, lead, config.stagger),
            heard: now,
            split: tuples.len() < 2,
            ended: false,
        }
    }

    /// The next copy that is due, written to the end of `buf`.
    pub(crate) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.copies.poll_transmit(now, buf)
    }

    /// When the next copy is due.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.copies.timer()
    }

    /// A datagram leaves with this Initial or Handshake packet. `again`: whether the others are to send it, too, though
    /// the server has answered on this one.
    pub(crate) fn copy(
        &mut self,
        now: Instant,
        packet: u64,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
        again: bool,
    ) {
        if !self.ended && (again || !self.copies.is_answered()) {
            self.copies.push(now, packet, ecn, datagram);
        }
    }

    /// Goes on from the address that it is on, and from no other.
    pub(crate) fn end(&mut self) {
        self.copies.stop();
        self.ended = true;
        self.split = true;
    }

    /// The system refuses to send from an address, in these words.
    pub(crate) fn refuse(&mut self, tuple: &FourTuple, why: &str) -> Refused {
        match self.copies.refuse(tuple, why) {
            Some(next) => Refused::GoOn(next),
            None if self.copies.all_refused() => Refused::All,
            None => Refused::Nothing,
        }
    }

    /// When it counts as silent. A server that has answered may need a round trip for its next answer: `round_trip`.
    pub(crate) fn silent_at(&self, delay: Duration, round_trip: Option<Duration>) -> Instant {
        let measured = round_trip.filter(|_| self.copies.is_answered());
        let answer = measured.map(|round_trip| round_trip.mul_f64(1.5));
        self.heard + delay.max(answer.unwrap_or_default())
    }

    /// Whether further attempts from single addresses of this one may be worth it.
    pub(crate) fn may_split(&self) -> bool {
        !self.split && !self.copies.others().is_empty()
    }

    /// Splits: the addresses from which further attempts begin.
    pub(crate) fn split(&mut self) -> SmallVec<[FourTuple; 2]> {
        let others = match self.split {
            true => SmallVec::new(),
            false => self.copies.others(),
        };
        self.split = true;
        others
    }

    /// It has failed, for this reason: what became of its addresses.
    pub(crate) fn failed(&self, reason: Option<&ConnectionError>) -> Vec<FailedAttempt> {
        let outcome = self.copies.outcome();
        let failed = outcome.map(|(network_path, answered, refused)| {
            let reason = match (refused, reason) {
                (Some(why), _) => AttemptError::NotSent(why.to_owned()),
                (None, Some(ConnectionError::TimedOut) | None) if answered => {
                    AttemptError::FellSilent
                }
                (None, Some(ConnectionError::TimedOut) | None) => AttemptError::NoAnswer,
                // Version negotiation and a Retry are of no one address.
                (None, Some(_)) if !answered && self.copies.is_answered() => AttemptError::NoAnswer,
                (None, Some(reason)) => AttemptError::Ended(Box::new(reason.clone())),
            };
            FailedAttempt {
                network_path,
                reason,
            }
        });
        failed.collect()
    }
}

impl Handshake {
    /// The server's first answer, or one of its later ones, came to this address. Returns it if the attempt is there from
    /// now on.
    //= specs/rfc9000.txt#section-9
    //# The design of QUIC relies on endpoints retaining a stable address for the duration of the
    //# handshake.
    pub(crate) fn on_answer(&mut self, now: Instant, to: &FourTuple) -> Option<FourTuple> {
        let attempt = self.attempt.as_deref_mut()?;
        attempt.heard = now;
        let answered = attempt.copies.answer(to)?;
        tracing::debug!(path = %answered.tuple, "the server's first answer");
        if let Some(space) = self.spaces.get_mut(SpaceId::Initial) {
            // What is measured counts from when the copy left that was answered.
            for (number, at) in answered.sent {
                space.on_left_later(number, at);
            }
        }
        Some(answered.tuple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn tuple(number: u8) -> FourTuple {
        FourTuple {
            local: ([10, 0, number, 1], 5000).into(),
            remote: ([192, 0, 2, 1], 443).into(),
        }
    }

    fn attempt(now: Instant, tuples: &[FourTuple]) -> Attempt {
        Attempt::new(now, tuples, Duration::ZERO, &RaceConfig::default())
    }

    fn copies(attempt: &mut Attempt, now: Instant) -> usize {
        let mut buf = Vec::new();
        std::iter::from_fn(|| attempt.poll_transmit(now, &mut buf)).count()
    }

    #[test]
    fn it_counts_as_silent_by_what_was_measured_once_the_server_has_answered() {
        let now = Instant::now();
        let mut attempt = attempt(now, &[tuple(0), tuple(1)]);
        // Until then, a round trip is a guess.
        let round_trip = Some(400 * MS);
        assert_eq!(attempt.silent_at(250 * MS, round_trip), now + 250 * MS);
        attempt.copies.answer(&tuple(1)).unwrap();
        assert_eq!(attempt.silent_at(250 * MS, round_trip), now + 600 * MS);
        assert_eq!(attempt.silent_at(250 * MS, Some(MS)), now + 250 * MS);
        assert_eq!(attempt.silent_at(250 * MS, None), now + 250 * MS);
    }

    #[test]
    fn it_splits_once_into_the_addresses_that_were_not_answered() {
        let now = Instant::now();
        let mut attempts = attempt(now, &[tuple(0), tuple(1), tuple(2)]);
        assert!(attempts.may_split());
        attempts.copies.answer(&tuple(1)).unwrap();
        assert_eq!(attempts.split().as_slice(), [tuple(0), tuple(2)]);
        assert!(!attempts.may_split() && attempts.split().is_empty());
        assert!(!attempt(now, &[tuple(0)]).may_split(), "of one");
    }

    #[test]
    fn what_leaves_after_the_answer_is_copied_only_if_that_may_help() {
        let now = Instant::now();
        let mut attempt = attempt(now, &[tuple(0), tuple(1)]);
        attempt.copy(now, 0, None, b"a", false);
        assert_eq!(copies(&mut attempt, now), 1);
        attempt.copies.answer(&tuple(0)).unwrap();
        attempt.copy(now, 1, None, b"b", false);
        assert_eq!(copies(&mut attempt, now), 0);
        attempt.copy(now, 2, None, b"c", true);
        assert_eq!(copies(&mut attempt, now), 1);
        attempt.copy(now, 3, None, b"d", true);
        attempt.end();
        attempt.copy(now, 4, None, b"e", true);
        assert_eq!((copies(&mut attempt, now), attempt.timer()), (0, None));
        assert!(!attempt.may_split());
    }

    #[test]
    fn it_goes_on_from_the_next_address_until_none_is_left_and_says_why() {
        let now = Instant::now();
        let mut attempt = attempt(now, &[tuple(0), tuple(1), tuple(2)]);
        assert_eq!(attempt.refuse(&tuple(1), "down"), Refused::Nothing);
        assert_eq!(
            attempt.refuse(&tuple(0), "no route"),
            Refused::GoOn(tuple(2))
        );
        let reasons = |attempt: &Attempt, reason: Option<&ConnectionError>| {
            let failed = attempt.failed(reason).into_iter();
            failed.map(|failed| failed.reason).collect::<Vec<_>>()
        };
        let not_sent = |why: &str| AttemptError::NotSent(why.into());
        let timed_out = Some(&ConnectionError::TimedOut);
        assert_eq!(
            reasons(&attempt, timed_out),
            [
                not_sent("no route"),
                not_sent("down"),
                AttemptError::NoAnswer
            ]
        );
        attempt.copies.answer(&tuple(2)).unwrap();
        assert_eq!(reasons(&attempt, timed_out)[2], AttemptError::FellSilent);
        let reset = ConnectionError::Reset;
        assert_eq!(
            reasons(&attempt, Some(&reset))[2],
            AttemptError::Ended(Box::new(reset.clone()))
        );
        assert_eq!(attempt.refuse(&tuple(2), "gone"), Refused::All);
    }
}
