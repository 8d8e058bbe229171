//! One pair of addresses beneath a path ID: whether it is validated, how much may be sent before it is, and which
//! challenges are to be sent or answered there (RFC 9000 section 8).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_wire::packet::MIN_INITIAL_DATAGRAM;

use crate::config::EarlyPathData;
use crate::events::DatagramMeta;
use crate::{FourTuple, limits};

/// What a datagram with nothing but a PATH_CHALLENGE or a PATH_RESPONSE takes at most: a short header with the longest
/// connection ID and packet number (RFC 9000 section 17.3.1), the frame, the AEAD tag.
const SMALLEST_PROBE: u64 = (1 + 20 + 4) + (1 + 8) + 16;

/// How often a PATH_CHALLENGE is sent before the path is given up, if nothing is heard of any. So many of them can be
/// answered.
const MAX_CHALLENGES: u32 = 7;

/// The network path beneath a path ID.
pub(crate) struct NetworkPath {
    pub(crate) tuple: FourTuple,
    validated: bool,
    /// An answer came to a challenge in a small datagram: the address is proven, a full datagram is not.
    address_proven: bool,
    /// Whether we opened it: a client may send before the peer's address is validated, and only data waits for that
    /// (RFC 9000 section 8.1 limits those who answer).
    pub(super) ours: bool,
    /// UDP payload bytes received from and sent to the address while it is not validated.
    received: u64,
    sent: u64,
    challenge: Option<Challenge>,
    /// Data of PATH_CHALLENGEs to be answered, oldest first.
    responses: VecDeque<u64>,
    /// The client was at this IP in a connection before: bytes that may go there before the address is validated, beside
    /// what the amplification limit allows; 0 if nothing is known.
    token_allowance: u64,
    /// Full datagrams still to be sent so that the server may send more before it has validated our address.
    credit_due: u8,
    /// Data of ours, as the client, may go there before it is validated.
    ahead: bool,
    /// It is rather to wait.
    held: bool,
    /// The peer tries these addresses, and has not moved to them: they are kept once they are validated.
    pub(super) tried: bool,
}

struct Challenge {
    /// The newest tokens sent, and whether in a full datagram: an answer to any of them proves the address (RFC 9000
    /// section 8.2.3).
    tokens: VecDeque<(u64, bool)>,
    /// A token to be sent now.
    due: bool,
    /// When the next one is due.
    next: Option<Instant>,
    /// When it would be due without backoff.
    soonest: Option<Instant>,
    /// The first interval, without backoff.
    base: Duration,
    interval: Duration,
    /// When to give up, even if the amplification limit never let the challenges out.
    until: Instant,
}

/// What the challenge timer means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChallengeTimeout {
    NotDue,
    Resend,
    GiveUp,
}

impl NetworkPath {
    pub(crate) fn new(tuple: FourTuple, validated: bool) -> Self {
        Self {
            tuple,
            validated,
            address_proven: false,
            ours: false,
            received: 0,
            sent: 0,
            challenge: None,
            responses: VecDeque::new(),
            token_allowance: 0,
            credit_due: 0,
            ahead: false,
            held: false,
            tried: false,
        }
    }

    /// Addresses that we, as the client, begin to send to.
    pub(crate) fn opened_by_us(tuple: FourTuple) -> Self {
        Self {
            ours: true,
            ..Self::new(tuple, false)
        }
    }

    /// The same, and data may go there before the peer has answered: it has proven elsewhere that the address is its own.
    /// Held until [`hold`](Self::hold) says otherwise.
    pub(crate) const fn ahead_of_validation(mut self) -> Self {
        self.ahead = true;
        self.held = true;
        self
    }

    /// Whether such data is rather to wait. Returns whether that matters: there is no answer yet.
    pub(super) const fn hold(&mut self, held: bool) -> bool {
        self.held = held;
        self.ahead && !self.validated
    }

    /// Whether data may go there before the address is validated, as far as the limits allow.
    pub(super) const fn may_go_ahead(&self, setting: EarlyPathData) -> bool {
        let server = matches!(setting, EarlyPathData::Both) && !self.ours;
        self.ahead || server || self.is_known_by_token()
    }

    /// The same, and a token says that the client has received there: so many bytes may go ahead of the validation.
    pub(crate) fn known_by_token(mut self, bytes: u64) -> Self {
        self.token_allowance = bytes;
        self
    }

    /// Whether a token says that the peer has received there before.
    pub(super) const fn is_known_by_token(&self) -> bool {
        self.token_allowance > 0
    }

    /// The same, and the server is to have room for data before it has validated our address.
    pub(crate) fn with_credit(mut self) -> Self {
        self.credit_due = limits::EARLY_CREDIT_DATAGRAMS;
        self
    }

    /// Whether a datagram is to be sent for the sake of what the server may send in return. The challenge goes first.
    pub(super) fn wants_credit(&self) -> bool {
        self.credit_due > 0 && !self.validated && !self.challenge_due()
    }

    /// Such a datagram left.
    pub(super) fn on_credit_sent(&mut self) {
        self.credit_due = self.credit_due.saturating_sub(1);
    }

    /// Whether a datagram of so many bytes is within the limit that holds until the address is validated, with room left
    /// to repeat the challenge: otherwise a lost one would have to wait for the peer. Not once it was repeated: what is
    /// sent there may be lost, too.
    pub(super) fn has_early_room(&self, bytes: u64) -> bool {
        let asked = self.challenge.as_ref();
        let first = asked.is_some_and(|challenge| challenge.tokens.len() <= 1);
        let room = self.send_limit() >= bytes + MIN_INITIAL_DATAGRAM as u64;
        (!self.ours || (self.ahead && !self.held)) && !self.tried && first && room
    }

    /// Other addresses of ours for a peer whose address is proven: it may be sent to at once (RFC 9000 section 9.2).
    pub(super) fn migrated_to(tuple: FourTuple) -> Self {
        Self {
            ours: true,
            ..Self::new(tuple, true)
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

    /// Whether the amplification limit holds.
    fn is_limited(&self) -> bool {
        !self.validated && !self.address_proven && !self.ours
    }

    /// Bytes that may be sent now: three times those received, until the address is validated
    /// (RFC 9000 section 8.1).
    pub(crate) fn send_limit(&self) -> u64 {
        //= specs/rfc9000.txt#section-14.1
        //# The server MUST also limit the number of bytes it sends before validating the address of
        //# the client; see Section 8.
        if !self.is_limited() {
            return u64::MAX;
        }
        //= specs/rfc9000.txt#section-8.1
        //# Prior to validating the client address, servers MUST NOT send more than three times as
        //# many bytes as the number of bytes they have received.
        //= specs/rfc9000.txt#section-8
        //# Therefore, after receiving packets from an address that is not yet validated, an
        //# endpoint MUST limit the amount of data it sends to the unvalidated address to three
        //# times the amount of data received from that address.
        let allowed = (self.received.saturating_mul(3)).saturating_add(self.token_allowance);
        allowed.saturating_sub(self.sent)
    }

    /// Whether the amplification limit holds back a full datagram: what a probe timeout would send
    /// must wait for the peer then, and the timer with it (RFC 9002 section 6.2.2.1).
    pub(crate) fn is_at_limit(&self) -> bool {
        self.send_limit() < MIN_INITIAL_DATAGRAM as u64
    }

    /// Bytes sent and received so far, while the amplification limit holds.
    pub(crate) fn traffic(&self) -> Option<(u64, u64)> {
        let limited = self.is_limited() && !self.is_known_by_token();
        limited.then_some((self.sent, self.received))
    }

    /// Addresses from which the peer sends without having moved there: to be validated, as RFC 9000 section 9.6.3 says.
    pub(super) fn tried_by_peer(arrival: &DatagramMeta, interval: Duration) -> Self {
        let mut tried = Self::new(arrival.tuple, false);
        tried.tried = true;
        tried.on_received(arrival.bytes);
        //= specs/rfc9000.txt#section-9.6.3
        //# Servers SHOULD initiate path validation to the client's new address upon receiving a probe
        //# packet from a different address; see Section 8.
        //= specs/rfc9000.txt#section-9.6.2
        //# The server MUST probe on the path toward the client from its preferred address.
        tried.start_challenge(arrival.now, interval);
        tried
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
            tokens: VecDeque::with_capacity(MAX_CHALLENGES as usize),
            due: true,
            next: None,
            soonest: None,
            base: interval,
            interval,
            // As long as all of them and the wait after the last take.
            //= specs/rfc9000.txt#section-8.2.4
            //# Endpoints SHOULD abandon path validation based on a timer.
            until: now + interval.saturating_mul((1 << MAX_CHALLENGES) - 1),
        });
    }

    /// Validation ends by then: there are other addresses to go back to, which are better than none.
    pub(super) fn give_up_by(&mut self, until: Instant) {
        if let Some(challenge) = &mut self.challenge {
            challenge.until = challenge.until.min(until);
        }
    }

    /// Validated, with nothing to ask or to answer.
    pub(crate) fn is_settled(&self) -> bool {
        self.validated && self.challenge.is_none() && self.responses.is_empty() && !self.tried
    }

    /// Whether these addresses are kept though the peer tries others: the path has left them, and may have to go back
    /// (RFC 9000 section 9.3.2), or is still to hear from there that the peer has not moved at all (section 9.3.3). Neither
    /// once those of now are proven, and a challenge has gone unanswered for so long that it was repeated. Otherwise a
    /// client that moves could not reach the server's preferred address (section 9.6.3) for as long. `spare`: there are
    /// connection IDs for more addresses, so that none goes to two of them (section 9.5).
    pub(super) fn is_kept(&self, now_used: &Self, spare: bool) -> bool {
        let asked = self.challenge.as_ref();
        let in_vain = asked.is_some_and(|challenge| challenge.tokens.len() > 1);
        self.validated && !self.tried && !(now_used.validated && in_vain && spare)
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

    /// A challenge with this token goes out now; `full`: in a datagram of at least 1200 bytes.
    pub(crate) fn on_challenge_sent(&mut self, now: Instant, token: u64, full: bool) {
        let Some(challenge) = &mut self.challenge else {
            return;
        };
        if challenge.tokens.len() == MAX_CHALLENGES as usize {
            challenge.tokens.pop_front();
        }
        challenge.tokens.push_back((token, full));
        challenge.due = false;
        challenge.next = Some(now + challenge.interval);
        challenge.soonest = Some(now + challenge.base);
        //= specs/rfc9000.txt#section-8.2.1
        //# An endpoint SHOULD NOT probe a new path with packets containing a PATH_CHALLENGE frame
        //# more frequently than it would send an Initial packet.
        challenge.interval = challenge.interval.saturating_mul(2);
    }

    /// The packet with this challenge was acknowledged or declared lost. Packets travel between the addresses then, and
    /// only the challenge or its answer was lost, if no answer comes soon. The next one waits for one interval only, and
    /// backoff begins anew: all data waits for the answer, and the peer's data may wait for ours.
    pub(super) fn on_challenge_settled(&mut self, token: u64) {
        //= specs/rfc9000.txt#section-8.2.1
        //# An endpoint MAY send multiple PATH_CHALLENGE frames to guard against packet loss.
        if let Some(challenge) = &mut self.challenge
            && challenge
                .tokens
                .back()
                .is_some_and(|(sent, _)| *sent == token)
        {
            // RFC 9002 section 6.2.1: an acknowledgement resets the backoff of probes, too.
            challenge.interval = challenge.base;
            challenge.next = challenge.next.and(challenge.soonest);
        }
    }

    pub(crate) fn challenge_timer(&self) -> Option<Instant> {
        let challenge = self.challenge.as_ref()?;
        let next = challenge.next.unwrap_or(challenge.until);
        Some(next.min(challenge.until))
    }

    /// Whether the next challenge is to be sent because there was no answer to the last.
    pub(super) fn is_challenge_overdue(&self, now: Instant) -> bool {
        let next = self.challenge.as_ref().and_then(|challenge| challenge.next);
        next.is_some_and(|at| at <= now)
    }

    pub(super) fn on_challenge_timeout(&mut self, now: Instant) -> ChallengeTimeout {
        let Some(challenge) = &mut self.challenge else {
            return ChallengeTimeout::NotDue;
        };
        if challenge.until <= now {
            return ChallengeTimeout::GiveUp;
        }
        if challenge.next.is_none_or(|next| next > now) {
            return ChallengeTimeout::NotDue;
        }
        challenge.next = None;
        challenge.due = true;
        ChallengeTimeout::Resend
    }

    /// A PATH_RESPONSE came; true if it validates the path, being the first that answers a challenge of ours in a full
    /// datagram. One that answers none is ignored (RFC 9000 section 8.2.3).
    //= specs/rfc9000.txt#section-8.2.3
    //# However, the endpoint MUST initiate another path validation with an expanded datagram to
    //# verify that the path supports the required MTU.
    pub(crate) fn on_response(&mut self, token: u64) -> bool {
        let Some(challenge) = &mut self.challenge else {
            return false;
        };
        let answered = challenge.tokens.iter().find(|(sent, _)| *sent == token);
        match answered {
            None => false,
            Some((_, true)) => {
                self.validate();
                true
            }
            Some((_, false)) => {
                //= specs/rfc9000.txt#section-8.2.1
                //# To ensure that the path MTU is large enough, the endpoint MUST perform a second
                //# path validation by sending a PATH_CHALLENGE frame in a datagram of at least 1200
                //# bytes.
                //= specs/rfc10069-draft.md#path-initiation
                //# Each endpoint MUST also validate that a minimum QUIC packet MTU of 1200 bytes is
                //# supported on the path.
                if !self.address_proven {
                    self.address_proven = true;
                    challenge.due = true;
                    challenge.next = None;
                }
                false
            }
        }
    }

    /// A PATH_CHALLENGE came: it is to be answered on this path (RFC 9000 section 8.2.2).
    pub(crate) fn on_challenge(&mut self, token: u64) {
        if self.responses.len() == limits::MAX_PENDING_PATH_RESPONSES {
            self.responses.pop_front();
        }
        //= specs/rfc9000.txt#section-8.2.2
        //# On receiving a PATH_CHALLENGE frame, an endpoint MUST respond by echoing the data
        //# contained in the PATH_CHALLENGE frame in a PATH_RESPONSE frame.
        //= specs/rfc9000.txt#section-19.17
        //# The recipient of this frame MUST generate a PATH_RESPONSE frame (Section 19.18)
        //# containing the same Data value.
        self.responses.push_back(token);
    }

    /// Whether a challenge or an answer is to be sent. Not while the amplification limit leaves no room for the smallest:
    /// what else the path has to send would wait for it.
    pub(crate) fn wants_probe(&self) -> bool {
        self.send_limit() >= SMALLEST_PROBE && (self.challenge_due() || !self.responses.is_empty())
    }

    /// Challenges to be answered.
    pub(crate) fn responses_due(&self) -> usize {
        self.responses.len()
    }

    //= specs/rfc9000.txt#section-8.2.2
    //# An endpoint MUST NOT send more than one PATH_RESPONSE frame in response to one
    //# PATH_CHALLENGE frame; see Section 13.3.
    pub(crate) fn next_response(&mut self) -> Option<u64> {
        self.responses.pop_front()
    }

    /// The answer to the newest challenge, which leaves though there is no room for it. The older ones are forgotten.
    pub(crate) fn newest_response(&mut self) -> Option<u64> {
        let newest = self.responses.pop_back()?;
        self.responses.clear();
        Some(newest)
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

    //= specs/rfc9000.txt#section-8
    //= type=test
    //# Therefore, after receiving packets from an address that is not yet validated, an endpoint
    //# MUST limit the amount of data it sends to the unvalidated address to three times the amount
    //# of data received from that address.
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

    //= specs/rfc9000.txt#section-8.2.2
    //= type=test
    //# However, an endpoint MUST NOT expand the datagram containing the PATH_RESPONSE if the
    //# resulting data exceeds the anti-amplification limit.
    #[test]
    fn answers_and_challenges_wait_until_the_smallest_datagram_is_within_the_limit() {
        let now = Instant::now();
        let mut path = network_path();
        path.on_received(31);
        path.on_challenge(1);
        path.start_challenge(now, Duration::from_millis(100));
        assert!(path.wants_probe());
        path.on_sent(59);
        assert_eq!(path.send_limit(), 34);
        assert!(!path.wants_probe());
        path.on_received(31);
        assert!(path.wants_probe());
    }

    #[test]
    fn any_token_sent_validates_and_no_other() {
        let now = Instant::now();
        let mut path = network_path();
        path.start_challenge(now, Duration::from_millis(100));
        assert!(path.challenge_due());
        path.on_challenge_sent(now, 7, true);
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::NotDue);
        let later = now + Duration::from_millis(100);
        assert_eq!(path.on_challenge_timeout(later), ChallengeTimeout::Resend);
        path.on_challenge_sent(later, 8, true);
        assert!(!path.on_response(9));
        assert!(path.on_response(7));
        assert!(path.is_validated());
        assert!(!path.on_response(8));
    }

    //= specs/rfc9000.txt#section-8.2.4
    //= type=test
    //# Endpoints SHOULD abandon path validation based on a timer.
    //= specs/rfc9000.txt#section-8.2.1
    //= type=test
    //# To ensure that the path MTU is large enough, the endpoint MUST perform a second path
    //# validation by sending a PATH_CHALLENGE frame in a datagram of at least 1200 bytes.
    #[test]
    fn an_answer_to_a_small_challenge_asks_for_a_full_one() {
        let now = Instant::now();
        let mut path = network_path();
        path.on_received(100);
        path.start_challenge(now, Duration::from_millis(100));
        path.on_challenge_sent(now, 7, false);
        assert!(!path.on_response(7) && !path.is_validated());
        assert_eq!(path.send_limit(), u64::MAX, "the address is proven");
        assert!(path.challenge_due(), "the size is not");
        path.on_challenge_sent(now, 8, true);
        assert!(!path.on_response(7) && !path.challenge_due());
        assert!(path.on_response(8) && path.is_validated());
    }

    #[test]
    fn gives_up_in_the_end() {
        let mut now = Instant::now();
        let mut path = network_path();
        path.start_challenge(now, Duration::from_millis(100));
        for token in 0..u64::from(MAX_CHALLENGES) {
            path.on_challenge_sent(now, token, true);
            now = path.challenge_timer().unwrap();
            let expected = if token + 1 < u64::from(MAX_CHALLENGES) {
                ChallengeTimeout::Resend
            } else {
                ChallengeTimeout::GiveUp
            };
            assert_eq!(path.on_challenge_timeout(now), expected);
        }
    }

    /// That the peer has a challenge, or did not get it while others came through, says that the addresses work.
    #[test]
    fn a_challenge_whose_fate_is_known_is_repeated_without_backoff() {
        let interval = Duration::from_millis(100);
        let start = Instant::now();
        let mut now = start;
        let mut path = network_path();
        path.on_received(1200);
        path.start_challenge(now, interval);
        for token in 0..4 {
            path.on_challenge_sent(now, token, true);
            now = path.challenge_timer().unwrap();
            assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::Resend);
        }
        assert_eq!(now - start, 15 * interval);
        path.on_challenge_sent(now, 4, true);
        path.on_challenge_settled(3);
        assert_eq!(path.challenge_timer(), Some(now + 16 * interval));
        path.on_challenge_settled(4);
        assert_eq!(path.challenge_timer(), Some(now + interval));
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::NotDue);
        now += interval;
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::Resend);
        path.on_challenge_settled(4);
        assert!(path.challenge_due());
        path.on_challenge_sent(now, 5, true);
        assert_eq!(path.challenge_timer(), Some(now + interval));
        now += interval;
        assert_eq!(path.on_challenge_timeout(now), ChallengeTimeout::Resend);
        path.on_challenge_sent(now, 6, true);
        assert_eq!(path.challenge_timer(), Some(now + 2 * interval));
        assert!(path.on_response(5));
        path.on_challenge_settled(6);
        assert_eq!(path.challenge_timer(), None);
    }

    /// Who confirms all challenges and answers none gets one in each interval, and is given up when others are.
    #[test]
    fn challenges_that_are_never_answered_end_however_many_are_acknowledged() {
        let interval = Duration::from_millis(100);
        let start = Instant::now();
        let (mut now, mut sent) = (start, 0);
        let mut path = network_path();
        path.start_challenge(now, interval);
        loop {
            path.on_challenge_sent(now, sent, true);
            path.on_challenge_settled(sent);
            sent += 1;
            now = path.challenge_timer().unwrap();
            if path.on_challenge_timeout(now) == ChallengeTimeout::GiveUp {
                break;
            }
        }
        assert_eq!((now - start, sent), (127 * interval, 127));
        assert!(!path.on_response(119), "forgotten");
        assert!(path.on_response(120));
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
