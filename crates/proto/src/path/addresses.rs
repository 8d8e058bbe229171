//! The addresses beneath a path ID: challenged, proven, changed by the peer (RFC 9000 sections 8.2 and 9). The path ID
//! stays what it is.

use std::time::{Duration, Instant};

use mpquic_sched_core::Side;

use super::{ChallengeTimeout, NetworkPath, Path};
use crate::congestion::{Controller, NewPath};
use crate::{FourTuple, TransportConfig};

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
    /// The path cannot be validated (RFC 10069, path initiation: it is closed explicitly).
    GiveUp,
}

impl Path {
    /// The path's addresses.
    pub(crate) fn tuple(&self) -> FourTuple {
        self.network.tuple
    }

    /// Bytes sent and received so far, for tests of the amplification limit.
    pub(crate) fn traffic(&self) -> (u64, u64) {
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
        network.start_challenge(now, interval);
        network
    }

    /// Takes other addresses into use; returns the old ones.
    pub(crate) fn replace_network(&mut self, network: NetworkPath) -> NetworkPath {
        std::mem::replace(&mut self.network, network)
    }

    /// Keeps the addresses that the peer has left, if they were validated. RFC 9000 section 9.3.2: to be returned to.
    /// Section 9.3.3: and to be asked whether the peer has moved at all, or somebody only passes its packets on.
    pub(crate) fn keep_previous(&mut self, now: Instant, old: NetworkPath, interval: Duration) {
        if old.is_validated() {
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
            self.recovery.measure_anew(now, config);
            controller.on_path_changed(&NewPath::new(self.index, now, self.mtu()));
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
            Some(last) => Unanswered::GoBack(last),
            None => Unanswered::GiveUp,
        }
    }
}
