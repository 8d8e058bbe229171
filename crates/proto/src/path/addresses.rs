//! The addresses beneath a path ID: whether they are validated, how much may be sent before they are, and what happens
//! when the peer changes them (RFC 9000 sections 8 and 9). The path ID stays what it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::Side;

use super::Path;
use crate::congestion::{Controller, NewPath};
use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::{FourTuple, TransportConfig, limits};

/// How often a PATH_CHALLENGE is sent before the path is given up.
const MAX_CHALLENGES: u32 = 7;

/// The network path beneath a path ID.
pub(crate) struct NetworkPath {
    pub(crate) tuple: FourTuple,
    validated: bool,
    /// An answer came to a challenge in a small datagram: the address is proven, a full datagram is not.
    address_proven: bool,
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
    /// All tokens sent, and whether in a full datagram: an answer to any of them proves the address (RFC 9000 section
    /// 8.2.3).
    tokens: Vec<(u64, bool)>,
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
            address_proven: false,
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
        (self.received.saturating_mul(3)).saturating_sub(self.sent)
    }

    /// Whether the amplification limit holds back a full datagram: what a probe timeout would send
    /// must wait for the peer then, and the timer with it (RFC 9002 section 6.2.2.1).
    pub(crate) fn is_at_limit(&self) -> bool {
        self.send_limit() < MIN_INITIAL_DATAGRAM as u64
    }

    /// Bytes sent and received so far, while the amplification limit holds.
    pub(crate) fn traffic(&self) -> Option<(u64, u64)> {
        self.is_limited().then_some((self.sent, self.received))
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
            //= specs/rfc9000.txt#section-8.2.4
            //# Endpoints SHOULD abandon path validation based on a timer.
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

    /// A challenge with this token goes out now; `full`: in a datagram of at least 1200 bytes.
    pub(crate) fn on_challenge_sent(&mut self, now: Instant, token: u64, full: bool) {
        let Some(challenge) = &mut self.challenge else {
            return;
        };
        challenge.tokens.push((token, full));
        challenge.due = false;
        challenge.next = Some(now + challenge.interval);
        //= specs/rfc9000.txt#section-8.2.1
        //# An endpoint SHOULD NOT probe a new path with packets containing a PATH_CHALLENGE frame
        //# more frequently than it would send an Initial packet.
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

    /// Whether a challenge or an answer is to be sent now.
    pub(crate) fn probe_due(&self) -> bool {
        self.challenge_due() || !self.responses.is_empty()
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
}

/// Which of a path's addresses a packet goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// Those that the path uses.
    Current,
    /// Those before the peer moved, or those that it tries before it moves.
    Previous,
}

/// What a PATH_RESPONSE proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing about the addresses in use.
    Nothing,
    /// The path carries data from now on.
    Opened,
    /// The addresses of a path that was open before.
    Moved,
}

/// What became of challenges that stayed unanswered.
pub(crate) enum Unanswered {
    /// There is time left.
    Waiting,
    /// The path goes back to the addresses that it had (RFC 9000 section 9.3.2).
    GoBack(NetworkPath),
    /// The path cannot be validated (RFC 10069, Path Initiation: it is closed explicitly).
    GiveUp,
}

impl Path {
    /// The path's addresses.
    pub(crate) fn tuple(&self) -> FourTuple {
        self.network.tuple
    }

    /// Bytes sent and received so far, while the amplification limit holds.
    pub(crate) fn traffic(&self) -> Option<(u64, u64)> {
        self.network.traffic()
    }

    /// The peer's address is validated.
    pub(crate) fn is_validated(&self) -> bool {
        self.network.is_validated()
    }

    /// The address is proven by other means than a PATH_RESPONSE (RFC 9000 section 8.1).
    pub(crate) fn validate(&mut self) {
        self.network.validate();
    }

    /// Starts to validate the addresses.
    pub(crate) fn start_challenge(&mut self, now: Instant, interval: Duration) {
        self.network.start_challenge(now, interval);
    }

    /// The addresses that a probe goes to.
    pub(crate) fn network(&self, which: Addresses) -> Option<&NetworkPath> {
        match which {
            Addresses::Current => Some(&self.network),
            Addresses::Previous => self.previous.as_ref(),
        }
    }

    /// The same, to send to.
    pub(crate) fn network_mut(&mut self, which: Addresses) -> Option<&mut NetworkPath> {
        match which {
            Addresses::Current => Some(&mut self.network),
            Addresses::Previous => self.previous.as_mut(),
        }
    }

    /// The addresses to which a challenge or an answer is to be sent now.
    pub(crate) fn probe_due(&self) -> Option<Addresses> {
        if self.network.probe_due() {
            return Some(Addresses::Current);
        }
        let previous = self.previous.as_ref();
        previous
            .is_some_and(NetworkPath::probe_due)
            .then_some(Addresses::Previous)
    }

    /// Counts a datagram from these addresses (RFC 9000 section 8.1: all bytes count, decryptable or not).
    pub(crate) fn on_datagram_received(&mut self, from: &FourTuple, bytes: usize) {
        //= specs/rfc9000.txt#section-8.1
        //# For the purposes of avoiding amplification prior to address validation, servers MUST
        //# count all of the payload bytes received in datagrams that are uniquely attributed to a
        //# single connection.
        if self.network.tuple.matches(from) {
            self.network.on_received(bytes);
            self.count_received(bytes);
            // The system may have chosen the local IP: now it is known.
            self.network.tuple.local = from.local;
        } else if let Some(previous) = self.previous.as_mut()
            && previous.tuple.matches(from)
        {
            previous.on_received(bytes);
        }
    }

    /// A PATH_CHALLENGE came in a datagram of so many bytes: it is answered to where it came from (RFC 9000 section
    /// 8.2.2).
    //= specs/rfc9000.txt#section-8.2.1
    //# Unlike other cases where datagrams are expanded, endpoints MUST NOT discard datagrams that
    //# appear to be too small when they contain PATH_CHALLENGE or PATH_RESPONSE.
    pub(crate) fn on_path_challenge(
        &mut self,
        side: Side,
        from: FourTuple,
        bytes: usize,
        token: u64,
    ) {
        if self.network.tuple.matches(&from) {
            self.network.on_challenge(token);
            return;
        }
        if side == Side::Client {
            // RFC 9000 section 9: servers do not move.
            return;
        }
        match &mut self.previous {
            Some(known) if known.tuple.matches(&from) => known.on_challenge(token),
            // What could be needed again stays; the peer repeats its challenge.
            Some(other) if other.is_validated() => {}
            slot => {
                let mut tried = NetworkPath::new(from, false);
                tried.on_received(bytes);
                tried.on_challenge(token);
                *slot = Some(tried);
            }
        }
    }

    /// A PATH_RESPONSE came on this path. RFC 9000 section 8.2.3: whichever way it came, it proves the address that the
    /// challenge was sent to.
    pub(crate) fn on_path_response(&mut self, token: u64) -> Proof {
        //= specs/rfc9000.txt#section-8.2.2
        //# This requirement MUST NOT be enforced by the endpoint that initiates path validation, as
        //# that would enable an attack on migration; see Section 9.3.3.
        let answered = self.network.on_response(token);
        if let Some(previous) = &mut self.previous {
            previous.on_response(token);
        }
        // The other addresses are of no more use once both were asked and have answered.
        if self.network.is_validated() {
            self.previous.take_if(|previous| previous.is_settled());
        }
        match (answered, answered && !self.opened) {
            (false, _) => Proof::Nothing,
            (true, false) => Proof::Moved,
            (true, true) => {
                self.opened = true;
                Proof::Opened
            }
        }
    }

    /// Whether the packet with this number, which was more than a probe, tells that the peer has moved: it is the newest
    /// one and came over other addresses than before (RFC 9000 section 9.3: the client moved, or its NAT moved it).
    pub(crate) fn is_moved_by(&self, from: &FourTuple, number: u64) -> bool {
        self.space.received.largest() == Some(number) && !self.network.tuple.matches(from)
    }

    /// Where the path leads once the peer has moved there; its validation is under way. `bytes` came from there.
    pub(crate) fn network_of_move(
        &mut self,
        now: Instant,
        to: FourTuple,
        bytes: usize,
        interval: Duration,
    ) -> NetworkPath {
        let known = self
            .previous
            .take_if(|previous| previous.tuple.matches(&to));
        let mut network = known.unwrap_or_else(|| {
            let mut network = NetworkPath::new(to, false);
            network.on_received(bytes);
            network
        });
        //= specs/rfc9000.txt#section-9.3
        //# If the recipient permits the migration, it MUST send subsequent packets to the new peer
        //# address and MUST initiate path validation (Section 8.2) to verify the peer's ownership
        //# of the address if validation is not already underway.
        network.start_challenge(now, interval);
        network
    }

    /// Takes other addresses into use; returns the old ones.
    pub(crate) fn replace_network(&mut self, network: NetworkPath) -> NetworkPath {
        self.recovery.on_network_changed(&mut self.space);
        std::mem::replace(&mut self.network, network)
    }

    /// Keeps the addresses that the peer has left, if they were validated. RFC 9000 section 9.3.2: to be returned to.
    /// Section 9.3.3: and to be asked whether the peer has moved at all, or somebody only passes its packets on.
    pub(crate) fn keep_previous(&mut self, now: Instant, old: NetworkPath, interval: Duration) {
        if old.is_validated() {
            //= specs/rfc9000.txt#section-9.3.3
            //# In response to an apparent migration, endpoints MUST validate the previously active
            //# path using a PATH_CHALLENGE frame.
            self.previous.insert(old).challenge_again(now, interval);
        }
    }

    /// The addresses of a path that was open before are new and proven: measures anew if they lead to another host
    /// (RFC 9000 section 9.4: but for a change of the port only). Whether it does.
    pub(crate) fn settle_move(
        &mut self,
        now: Instant,
        config: &TransportConfig,
        controller: &mut dyn Controller,
    ) -> bool {
        let same_host = self.measured.remote.ip() == self.network.tuple.remote.ip();
        if !same_host {
            self.measured = self.network.tuple;
            //= specs/rfc9000.txt#section-9.4
            //# On confirming a peer's ownership of its new address, an endpoint MUST immediately
            //# reset the congestion controller and round-trip time estimator for the new path to
            //# initial values (see Appendices A.3 and B.3 of [QUIC-RECOVERY]) unless the only
            //# change in the peer's address is its port number.
            self.recovery.measure_anew(config);
            controller.on_path_changed(&NewPath::new(self.index, now, self.mtu()));
        } else {
            controller.on_mtu_update(self.index, self.mtu());
        }
        !same_host
    }

    /// Repeats challenges that are due, and draws the conclusion from those that stayed unanswered.
    pub(crate) fn on_challenge_timeout(&mut self, now: Instant) -> Unanswered {
        let given_up = self.network.on_challenge_timeout(now) == ChallengeTimeout::GiveUp;
        if let Some(previous) = &mut self.previous
            && previous.on_challenge_timeout(now) == ChallengeTimeout::GiveUp
        {
            previous.stop_challenge();
            if !given_up {
                self.previous = None;
            }
        }
        if !given_up {
            return Unanswered::Waiting;
        }
        match self.previous.take_if(|previous| previous.is_validated()) {
            //= specs/rfc9000.txt#section-9.3.2
            //# To protect the connection from failing due to such a spurious migration, an endpoint
            //# MUST revert to using the last validated peer address when validation of a new peer
            //# address fails.
            Some(last) => Unanswered::GoBack(last),
            None => Unanswered::GiveUp,
        }
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
