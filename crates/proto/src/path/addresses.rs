//! The addresses beneath a path ID, and what happens when the peer changes them (RFC 9000 section 9). The path ID stays
//! what it is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mpquic_sched_core::Side;

use super::Path;
use super::failover::AckWait;
use super::network::{ChallengeTimeout, NetworkPath};
use crate::congestion::{Controller, NewPath};
use crate::events::DatagramMeta;
use crate::space::SentPacket;
use crate::{FourTuple, TransportConfig};

/// Losses on the addresses that a path leaves are no sign of congestion, but no more often than this: a peer that moves
/// for ever would have a sender that no loss slows down.
const EXCUSE_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Addresses that we, as the client, tried before moving to them.
    Tried,
}

/// What became of challenges that stayed unanswered.
pub(crate) enum Unanswered {
    /// There is time left.
    Waiting,
    /// The path goes back to the addresses that it had (RFC 9000 section 9.3.2).
    GoBack(Box<NetworkPath>),
    /// The same for addresses of ours that we have left, and that have no connection ID any more.
    Return(Box<NetworkPath>),
    /// The path cannot be validated (RFC 10069, Path Initiation: it is closed explicitly).
    GiveUp,
}

impl Path {
    /// The path's addresses.
    pub(crate) fn tuple(&self) -> FourTuple {
        self.network.tuple
    }

    /// The connection begins on these addresses, and not on those that it would have begun on.
    pub(crate) fn begin_on(&mut self, tuple: FourTuple) {
        self.network.tuple = tuple;
        self.measured = tuple;
    }

    /// Bytes sent and received so far, while the amplification limit holds.
    pub(crate) fn traffic(&self) -> Option<(u64, u64)> {
        self.network.traffic()
    }

    /// The addresses that packets may go to, those in use first. For each: bytes sent and received so far, while the
    /// amplification limit holds.
    pub(crate) fn traffic_by_address(
        &self,
    ) -> impl Iterator<Item = (FourTuple, Option<(u64, u64)>)> + '_ {
        let networks = std::iter::once(&self.network).chain(self.previous.as_deref());
        networks.map(|network| (network.tuple, network.traffic()))
    }

    /// The peer's address is validated.
    pub(crate) fn is_validated(&self) -> bool {
        self.network.is_validated()
    }

    /// Whether scheduled packets may use the path: its address is validated, or there is room within the amplification
    /// limit of a path that was never open, and that is wanted.
    pub(crate) fn may_carry_data(&self) -> bool {
        self.is_validated() || self.may_carry_early_data()
    }

    /// Whether it may only within the amplification limit.
    //= specs/rfc10069-draft.md#relation-to-probing-and-migration
    //# Therefore, any frame can be sent on a new path with a new path ID at any time as long as the
    //# anti-amplification limits (see {{Section 21.1.1.1 of QUIC-TRANSPORT}}) and the congestion
    //# control limits for this path are respected.
    pub(crate) fn may_carry_early_data(&self) -> bool {
        let wanted = self.early_data && !self.opened && !self.is_validated();
        wanted && self.network.has_early_room(self.mtu().into())
    }

    /// Whether data of a client's is to wait for the validation. Returns whether there is a validation to wait for.
    pub(super) const fn hold_ahead(&mut self, held: bool) -> bool {
        self.network.hold(held)
    }

    /// Whether the client is to send a datagram so that the server may send more here before it is validated.
    pub(crate) fn wants_credit(&self) -> bool {
        self.network.wants_credit()
    }

    /// Such a datagram left.
    pub(crate) fn on_credit_sent(&mut self) {
        self.network.on_credit_sent();
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
            Addresses::Previous => self.previous.as_deref(),
        }
    }

    /// The same, to send to.
    pub(crate) fn network_mut(&mut self, which: Addresses) -> Option<&mut NetworkPath> {
        match which {
            Addresses::Current => Some(&mut self.network),
            Addresses::Previous => self.previous.as_deref_mut(),
        }
    }

    /// The addresses to which a challenge or an answer is to be sent now.
    /// `room`: whether there is room for it in the congestion window.
    pub(crate) fn probe_due(&self, now: Instant, room: impl FnOnce() -> bool) -> Option<Addresses> {
        let wanted = self.probe_wanted()?;
        (self.probe_budget.may_send(now) || room()).then_some(wanted)
    }

    /// The addresses to which a challenge or an answer is to be sent, the most urgent first.
    fn probe_wanted(&self) -> Option<Addresses> {
        if self.network.wants_probe() {
            return Some(Addresses::Current);
        }
        let previous = self.previous.as_deref();
        let wanted = previous.is_some_and(NetworkPath::wants_probe);
        wanted.then_some(Addresses::Previous)
    }

    /// When a challenge or an answer may leave that waits though no room comes.
    pub(super) fn probe_timer(&self) -> Option<Instant> {
        let timer = self.probe_budget.timer()?;
        self.probe_wanted().map(|_| timer)
    }

    /// A challenge or an answer left though there was no room for it; the next one waits until `again`. A peer that
    /// acknowledges none of them grows nothing.
    pub(crate) fn on_probe_beyond_window(&mut self, again: Instant) {
        self.probe_budget.on_sent(again);
        self.forget_bare_packets();
    }

    /// Counts a datagram from these addresses (RFC 9000 section 8.1: all bytes count, decryptable or not).
    pub(crate) fn on_datagram_received(&mut self, from: &FourTuple, bytes: usize) {
        //= specs/rfc9000.txt#section-8.1
        //# For the purposes of avoiding amplification prior to address validation, servers MUST
        //# count all of the payload bytes received in datagrams that are uniquely attributed to a
        //# single connection.
        if self.network.tuple == *from || self.network.tuple.matches(from) {
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
    ///
    /// Whether other addresses are forgotten for these. `spare`: there are connection IDs for more addresses.
    pub(crate) fn on_path_challenge(
        &mut self,
        side: Side,
        arrival: &DatagramMeta,
        interval: Duration,
        token: u64,
        spare: bool,
    ) -> bool {
        let from = arrival.tuple;
        if self.network.tuple.matches(&from) {
            self.network.on_challenge(token);
            return false;
        }
        match &mut self.previous {
            Some(known) if known.tuple.matches(&from) => {
                known.on_challenge(token);
                false
            }
            // RFC 9000 section 9: servers do not move.
            _ if side == Side::Client => false,
            // What could be needed again stays. The answer waits for the packet with which the peer moves.
            Some(other) if other.is_kept(&self.network, spare) => {
                self.unplaced = Some((from, token));
                false
            }
            slot => {
                let forgets = slot.is_some();
                slot.insert(Box::new(NetworkPath::tried_by_peer(arrival, interval)))
                    .on_challenge(token);
                forgets
            }
        }
    }

    /// The peer sends from addresses that are to be validated before it is followed there. Whether others are
    /// forgotten for them. `spare`: there are connection IDs for more addresses.
    pub(crate) fn try_addresses_of(
        &mut self,
        arrival: &DatagramMeta,
        interval: Duration,
        spare: bool,
    ) -> bool {
        match &self.previous {
            Some(known) if known.tuple.matches(&arrival.tuple) => false,
            Some(other) if other.is_kept(&self.network, spare) => false,
            slot => {
                let forgets = slot.is_some();
                self.previous = Some(Box::new(NetworkPath::tried_by_peer(arrival, interval)));
                forgets
            }
        }
    }

    /// Starts to try other addresses, as the client that would move to them.
    pub(crate) fn try_addresses(&mut self, now: Instant, tuple: FourTuple, interval: Duration) {
        // What we have left is needed again if neither these nor those that we use can be reached.
        let left = self.previous.take_if(|left| left.is_validated());
        self.way_back = left.or_else(|| self.way_back.take());
        let opened = NetworkPath::opened_by_us(tuple);
        let candidate = self.previous.insert(Box::new(opened));
        candidate.start_challenge(now, interval);
    }

    /// Where the path leads once we have moved to another address of ours.
    pub(crate) fn network_from(
        &self,
        now: Instant,
        local: SocketAddr,
        interval: Duration,
    ) -> NetworkPath {
        let remote = self.network.tuple.remote;
        let mut network = NetworkPath::migrated_to(FourTuple { local, remote });
        //= specs/rfc9000.txt#section-9.2
        //# To establish reachability on the new path, an endpoint initiates path validation (Section
        //# 8.2) on the new path.
        network.challenge_again(now, interval);
        network
    }

    /// The addresses that were tried, and are taken into use.
    pub(crate) fn take_tried(&mut self) -> Option<NetworkPath> {
        let tried = self.previous.take_if(|tried| tried.is_validated())?;
        self.way_back = None;
        Some(*tried)
    }

    /// Whether there are addresses beside those that the path uses.
    pub(crate) fn has_other_addresses(&self) -> bool {
        self.previous.is_some()
    }

    /// Whether these are addresses beside those that the path uses.
    pub(crate) fn has_other(&self, tuple: &FourTuple) -> bool {
        let mut other = self.previous.iter();
        other.any(|other| other.tuple.matches(tuple))
    }

    /// Keeps the addresses that we have left, to go back to if we cannot be reached at the new ones. If their validation
    /// was under way, it ends: an answer would be taken for one from addresses that we try before we move to them.
    pub(crate) fn keep_for_return(&mut self, mut old: NetworkPath) {
        old.stop_challenge();
        self.way_back = None;
        self.previous = old.is_validated().then(|| Box::new(old));
    }

    /// What the path has left, or tries, is at an address of ours that is gone.
    pub(crate) fn forget_other_addresses(&mut self) {
        self.way_back = None;
        self.previous = None;
    }

    /// Whether no socket can send from our address. If one can again, the path asks at once whether the peer is there. Whether
    /// that is news.
    pub(crate) fn set_stranded(&mut self, stranded: bool) -> bool {
        let news = std::mem::replace(&mut self.stranded, stranded) != stranded;
        if news && !stranded {
            self.recovery.pto_count = 0;
            self.request_ping();
        }
        news
    }

    /// Whether these addresses of the peer are proven, though the path does not use them.
    pub(crate) fn has_tried(&self, tuple: &FourTuple) -> bool {
        let mut tried = self.previous.iter();
        tried.any(|tried| tried.is_validated() && tried.tuple.matches(tuple))
    }

    /// Whether packets of the peer may come from this address.
    pub(crate) fn knows_remote(&self, remote: SocketAddr) -> bool {
        self.network.tuple.remote == remote || self.knows_remote_otherwise(remote)
    }

    /// As what it was before, or in the other way to write an IPv4 address.
    #[inline(never)]
    fn knows_remote_otherwise(&self, remote: SocketAddr) -> bool {
        let networks = std::iter::once(&self.network).chain(self.previous.as_deref());
        networks.map(|network| network.tuple.remote).any(|known| {
            known.port() == remote.port() && known.ip().to_canonical() == remote.ip().to_canonical()
        })
    }

    /// Whether a packet to this address of ours came to the one that the path uses.
    pub(crate) fn is_local(&self, tuple: &FourTuple) -> bool {
        let FourTuple { local, .. } = *tuple;
        let remote = self.network.tuple.remote;
        self.network.tuple.matches(&FourTuple { local, remote })
    }

    /// A PATH_RESPONSE came on this path. RFC 9000 section 8.2.3: whichever way it came, it proves the address that the
    /// challenge was sent to.
    pub(crate) fn on_path_response(&mut self, token: u64) -> Proof {
        //= specs/rfc9000.txt#section-8.2.2
        //# This requirement MUST NOT be enforced by the endpoint that initiates path validation, as
        //# that would enable an attack on migration; see Section 9.3.3.
        let answered = self.network.on_response(token);
        if answered {
            self.way_back = None;
        }
        if let Some(previous) = &mut self.previous
            && previous.on_response(token)
            && previous.ours
        {
            return Proof::Tried;
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

    /// The packet with this challenge was acknowledged or declared lost. It matters for the addresses in use only: that
    /// there are packets which travel says nothing about others.
    pub(crate) fn on_challenge_settled(&mut self, token: u64) {
        self.network.on_challenge_settled(token);
    }

    /// Whether the packet with this number, which was more than a probe, tells that the peer has moved: it is the newest
    /// one and came over other addresses than before (RFC 9000 section 9.3: the client moved, or its NAT moved it).
    pub(crate) fn is_moved_by(&self, from: &FourTuple, number: u64) -> bool {
        let stays = self.network.tuple == *from || self.network.tuple.matches(from);
        !stays && self.space.received.largest() == Some(number)
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
        let unknown = || {
            let mut network = NetworkPath::new(to, false);
            network.on_received(bytes);
            network
        };
        let mut network = known.map_or_else(unknown, |known| *known);
        if let Some((_, token)) = self.unplaced.take_if(|(from, _)| from.matches(&to)) {
            network.on_challenge(token);
        }
        //= specs/rfc9000.txt#section-9.3
        //# If the recipient permits the migration, it MUST send subsequent packets to the new peer
        //# address and MUST initiate path validation (Section 8.2) to verify the peer's ownership
        //# of the address if validation is not already underway.
        network.tried = false;
        network.start_challenge(now, interval);
        network
    }

    /// Takes other addresses into use; returns the old ones.
    pub(crate) fn replace_network(&mut self, now: Instant, network: NetworkPath) -> NetworkPath {
        self.recovery.on_network_changed(&mut self.space);
        let old = std::mem::replace(&mut self.network, network);
        self.stranded = false;
        self.recovery.pto_count = 0;
        if !old.is_validated() {
            // No more than probes went there, and what went to these addresses before may still arrive.
            self.space.on_new_addresses(self.space.end_of_elsewhere());
        } else if self.excused.is_none_or(|at| at + EXCUSE_INTERVAL <= now) {
            self.excused = Some(now);
            self.space.on_new_addresses(0);
        }
        old
    }

    /// Gives up, onto `lost`, what went to the addresses before these and is not acknowledged.
    pub(crate) fn drain_elsewhere(&mut self, lost: &mut Vec<(u64, SentPacket)>) {
        self.space.drain_elsewhere(lost);
        self.recovery.counters.lost_packets += lost.len() as u64;
    }

    /// Keeps the addresses that the peer has left, if they were validated. RFC 9000 section 9.3.2: to be returned to, at
    /// `until` at the latest if nothing proves the new ones. Section 9.3.3: and to be asked whether the peer has moved at
    /// all, or somebody only passes its packets on.
    pub(crate) fn keep_previous(
        &mut self,
        now: Instant,
        old: NetworkPath,
        interval: Duration,
        until: Instant,
    ) {
        if old.is_validated() {
            //= specs/rfc9000.txt#section-9.3.3
            //# In response to an apparent migration, endpoints MUST validate the previously active
            //# path using a PATH_CHALLENGE frame.
            let previous = self.previous.insert(Box::new(old));
            previous.challenge_again(now, interval);
            self.network.give_up_by(until);
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
        let (before, after) = (self.measured, self.network.tuple);
        let same_local = before.local.ip() == after.local.ip()
            || before.local.ip().is_unspecified()
            || after.local.ip().is_unspecified();
        let same_host = same_local && before.remote.ip() == after.remote.ip();
        if !same_host {
            self.measured = self.network.tuple;
            //= specs/rfc9000.txt#section-9.4
            //# On confirming a peer's ownership of its new address, an endpoint MUST immediately
            //# reset the congestion controller and round-trip time estimator for the new path to
            //# initial values (see Appendices A.3 and B.3 of [QUIC-RECOVERY]) unless the only
            //# change in the peer's address is its port number.
            self.recovery.measure_anew(config);
            let new = NewPath::new(self.index, now, self.mtu());
            controller.on_path_changed(&new);
        } else {
            controller.on_mtu_update(self.index, self.mtu());
        }
        !same_host
    }

    /// A challenge may have gone unanswered for so long that it is repeated, while data is in flight that did not wait for
    /// the answer: the path is suspect then. Whether it has become so just now.
    pub(crate) fn suspect_early_data(&mut self, now: Instant, max_ack_delay: Duration) -> bool {
        let waiting = self.early_data && !self.opened && !self.is_validated();
        let sent = self.space.sent.scheduled() > 0;
        if !(waiting && sent && self.network.is_challenge_overdue(now)) {
            return false;
        }
        let recovery = &mut self.recovery;
        let (suspect, rtt) = (&mut recovery.suspect, &recovery.rtt);
        // The unanswered challenge is a probe timeout.
        let wait = AckWait {
            longest: max_ack_delay,
            apart: Duration::ZERO,
        };
        suspect.check(now, &self.space, rtt, wait, 1)
    }

    /// Repeats challenges that are due, and draws the conclusion from those that stayed unanswered.
    pub(crate) fn on_challenge_timeout(&mut self, now: Instant) -> Unanswered {
        let given_up = self.network.on_challenge_timeout(now) == ChallengeTimeout::GiveUp;
        if let Some(previous) = &mut self.previous
            && previous.on_challenge_timeout(now) == ChallengeTimeout::GiveUp
        {
            previous.stop_challenge();
            // Until other addresses are validated, these are the last that were.
            if self.network.is_validated() || !previous.is_validated() {
                self.previous = None;
            }
        }
        self.probe_budget.on_timeout(now);
        if !given_up {
            return Unanswered::Waiting;
        }
        self.network.stop_challenge();
        let known = self.previous.take_if(|previous| previous.is_validated());
        match (known, self.way_back.take()) {
            //= specs/rfc9000.txt#section-9.3.2
            //# To protect the connection from failing due to such a spurious migration, an endpoint
            //# MUST revert to using the last validated peer address when validation of a new peer
            //# address fails.
            (Some(last), _) => Unanswered::GoBack(last),
            (None, Some(left)) => {
                self.previous = None;
                Unanswered::Return(left)
            }
            // We moved, and there is no way back. The peer's address is proven: the idle timeout decides.
            (None, None) if self.network.is_validated() => Unanswered::Waiting,
            (None, None) => Unanswered::GiveUp,
        }
    }
}
