//! The inner layer of a path: its 4-tuple, whether the peer's address is validated, and how much
//! may be sent before it is; knows no path ID.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::{FourTuple, limits};

/// How often a PATH_CHALLENGE is sent before the path is given up.
const MAX_CHALLENGES: u32 = 7;

/// The network path beneath a path ID.
pub(crate) struct NetworkPath {
    pub(crate) tuple: FourTuple,
    validated: bool,
    /// Whether we opened it: a client may send before the peer's address is validated, and only data waits for that
    /// (RFC 9000 section 8.1 limits those who answer).
    ours: bool,
    /// UDP payload bytes received from and sent to the address while it is not validated.
    received: u64,
    sent: u64,
    challenge: Option<Challenge>,
    /// Data of PATH_CHALLENGEs to be answered, oldest first.
    responses: VecDeque<u64>,
}

struct Challenge {
    /// All tokens sent: an answer to any of them proves the address (RFC 9000 section 8.2.3).
    tokens: Vec<u64>,
    /// A token to be sent now.
    due: bool,
    /// When the next one is due.
    next: Option<Instant>,
    interval: Duration,
    /// When to give up, even if the amplification limit never let the challenges out.
    until: Instant,
}

/// What the challenge timer means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChallengeTimeout {
    NotDue,
    Resend,
    GiveUp,
}

impl NetworkPath {
    pub(crate) fn new(tuple: FourTuple, validated: bool) -> Self {
        Self {
            tuple,
            validated,
            ours: false,
            received: 0,
            sent: 0,
            challenge: None,
            responses: VecDeque::new(),
        }
    }

    /// Addresses that we, as the client, begin to send to.
    pub(crate) fn opened_by_us(tuple: FourTuple) -> Self {
        Self {
            ours: true,
            ..Self::new(tuple, false)
        }
    }

    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// The address is proven (RFC 9000 section 8.1: by a Handshake packet; section 8.2: by a
    /// PATH_RESPONSE).
    pub(crate) fn validate(&mut self) {
        self.validated = true;
        self.challenge = None;
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    /// Bytes that may be sent now: three times those received, until the address is validated
    /// (RFC 9000 section 8.1).
    pub(crate) fn send_limit(&self) -> u64 {
        if self.validated || self.ours {
            return u64::MAX;
        }
        (self.received.saturating_mul(3)).saturating_sub(self.sent)
    }

    /// Whether the amplification limit holds back a full datagram: what a probe timeout would send
    /// must wait for the peer then, and the timer with it (RFC 9002 section 6.2.2.1).
    pub(crate) fn is_at_limit(&self) -> bool {
        self.send_limit() < MIN_INITIAL_DATAGRAM as u64
    }

    /// Bytes sent and received so far, for tests of the amplification limit.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Starts validation; the first challenge is due at once.
    pub(crate) fn start_challenge(&mut self, now: Instant, interval: Duration) {
        if !self.validated {
            self.challenge_again(now, interval);
        }
    }

    /// The same, for an address that was validated once.
    pub(crate) fn challenge_again(&mut self, now: Instant, interval: Duration) {
        if self.challenge.is_some() {
            return;
        }
        self.challenge = Some(Challenge {
            tokens: Vec::with_capacity(MAX_CHALLENGES as usize),
            due: true,
            next: None,
            interval,
            // As long as all of them and the wait after the last take.
            until: now + interval.saturating_mul((1 << MAX_CHALLENGES) - 1),
        });
    }

    /// Validated, with nothing to ask or to answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.validated && self.challenge.is_none() && self.responses.is_empty()
    }

    /// No further challenges.
    pub(crate) fn stop_challenge(&mut self) {
        self.challenge = None;
    }

    pub(crate) fn challenge_due(&self) -> bool {
        self.challenge
            .as_ref()
            .is_some_and(|challenge| challenge.due)
    }

    /// A challenge with this token goes out now.
    pub(crate) fn on_challenge_sent(&mut self, now: Instant, token: u64) {
        let Some(challenge) = &mut self.challenge else {
            return;
        };
        challenge.tokens.push(token);
        challenge.due = false;
        challenge.next = Some(now + challenge.interval);
        challenge.interval = challenge.interval.saturating_mul(2);
    }

    pub(crate) fn challenge_timer(&self) -> Option<Instant> {
        let challenge = self.challenge.as_ref()?;
        Some(challenge.next.unwrap_or(challenge.until))
    }

    pub(crate) fn on_challenge_timeout(&mut self, now: Instant) -> ChallengeTimeout {
        let Some(challenge) = &mut self.challenge else {
            return ChallengeTimeout::NotDue;
        };
        if challenge.until <= now {
            return ChallengeTimeout::GiveUp;
        }
        if challenge.next.is_none_or(|next| next > now) {
            return ChallengeTimeout::NotDue;
        }
        if challenge.tokens.len() >= MAX_CHALLENGES as usize {
            return ChallengeTimeout::GiveUp;
        }
        challenge.next = None;
        challenge.due = true;
        ChallengeTimeout::Resend
    }

    /// A PATH_RESPONSE came; true if it is the first that answers a challenge of ours. One that
    /// answers none is ignored (RFC 9000 section 8.2.3).
    pub(crate) fn on_response(&mut self, token: u64) -> bool {
        let answers = self
            .challenge
            .as_ref()
            .is_some_and(|challenge| challenge.tokens.contains(&token));
        if answers {
            self.validate();
        }
        answers
    }

    /// A PATH_CHALLENGE came: it is to be answered on this path (RFC 9000 section 8.2.2).
    pub(crate) fn on_challenge(&mut self, token: u64) {
        if self.responses.len() == limits::MAX_PENDING_PATH_RESPONSES {
            self.responses.pop_front();
        }
        self.responses.push_back(token);
    }

    /// Whether a challenge or an answer is to be sent now.
    pub(crate) fn probe_due(&self) -> bool {
        self.challenge_due() || !self.responses.is_empty()
    }

    /// Challenges to be answered.
    pub(crate) fn responses_due(&self) -> usize {
        self.responses.len()
    }

    pub(crate) fn next_response(&mut self) -> Option<u64> {
        self.responses.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network_path() -> NetworkPath {
        let tuple = FourTuple {
            local: "127.0.0.1:1".parse().unwrap(),
            remote: "127.0.0.1:2".parse().unwrap(),
        };
        NetworkPath::new(tuple, false)
    }

    #[test]
    fn three_times_what_was_received_until_validated() {
        let mut path = network_path();
        assert_eq!(path.send_limit(), 0);
        path.on_received(1200);
        assert_eq!(path.send_limit(), 3600);
        path.on_sent(3000);
        assert_eq!(path.send_limit(), 600);
        path.on_sent(1000);
        assert_eq!(path.send_limit(), 0);
        path.validate();
        assert_eq!(path.send_limit(), u64::MAX);
    }

    #[test]
    fn any_token_sent_validates_and_no_other() {
        let now = Instant::now();
        let mut path = network_path();
        path.start_challenge(now, Duration::from_millis(100));
        assert!(path.challenge_due());
        path.on_challenge_sent(now, 7);
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::NotDue);
        let later = now + Duration::from_millis(100);
        assert_eq!(path.on_challenge_timeout(later), ChallengeTimeout::Resend);
        path.on_challenge_sent(later, 8);
        assert!(!path.on_response(9));
        assert!(path.on_response(7));
        assert!(path.is_validated());
        assert!(!path.on_response(8));
    }

    #[test]
    fn gives_up_in_the_end() {
        let mut now = Instant::now();
        let mut path = network_path();
        path.start_challenge(now, Duration::from_millis(100));
        for token in 0..u64::from(MAX_CHALLENGES) {
            path.on_challenge_sent(now, token);
            now = path.challenge_timer().unwrap();
            let expected = if token + 1 < u64::from(MAX_CHALLENGES) {
                ChallengeTimeout::Resend
            } else {
                ChallengeTimeout::GiveUp
            };
            assert_eq!(path.on_challenge_timeout(now), expected);
        }
    }

    #[test]
    fn gives_up_if_the_limit_lets_nothing_out() {
        let now = Instant::now();
        let mut path = network_path();
        path.start_challenge(now, Duration::from_millis(100));
        let until = now + Duration::from_millis(12_700);
        assert_eq!(path.challenge_timer(), Some(until));
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::NotDue);
        assert_eq!(path.on_challenge_timeout(until), ChallengeTimeout::GiveUp);
    }

    #[test]
    fn a_flood_of_challenges_keeps_the_newest() {
        let mut path = network_path();
        for token in 0..1_000_000 {
            path.on_challenge(token);
        }
        let answered: Vec<_> = std::iter::from_fn(|| path.next_response()).collect();
        assert_eq!(answered.len(), limits::MAX_PENDING_PATH_RESPONSES);
        assert_eq!(answered.last(), Some(&999_999));
    }
}
