//! What happens when a path gets other addresses: the peer moves or a NAT moves it, we move, and addresses are proven or
//! given up (RFC 9000 sections 8.2 and 9).

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathKey, Side};

use super::{NetworkPath, Path, Paths, Proof, Unanswered};
use crate::events::{DatagramMeta, EndpointEvent, EndpointEvents};
use crate::recovery::later;
use crate::{FourTuple, PathError, PathId};

/// What became of a path's challenges that stayed unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChallengeOutcome {
    /// There is time left, or nothing was asked.
    Waiting,
    /// The path has gone back to other addresses.
    WentBack,
    /// The path cannot be validated.
    Failed,
}

/// We move.
impl Paths {
    /// The addresses of the handshake.
    pub(crate) fn handshake_tuple(&self) -> FourTuple {
        self.handshake_tuple
    }

    /// The connection begins on these addresses, and not on those that it would have begun on.
    pub(crate) fn begin_on(&mut self, tuple: FourTuple) {
        self.handshake_tuple = tuple;
        if let Some(path) = self.get_mut(PathId::ZERO) {
            path.begin_on(tuple);
        }
    }

    /// Whether the client may move, on servers; whether the server's preferred address is followed, on clients.
    pub(crate) fn follow_peer_if(&mut self, follows: bool) {
        self.follows_peer = follows;
    }

    /// The slot of a path that is to go on from another address of ours; `None` if it is there already.
    fn slot_to_move(&self, id: PathId, local: SocketAddr) -> Result<Option<PathIndex>, PathError> {
        let path = self.open_one(id)?;
        let tuple = path.tuple();
        if tuple.local == local {
            return Ok(None);
        }
        self.may_send_from_elsewhere(tuple.remote)?;
        Ok(Some(path.index))
    }

    /// Whether packets from another address of ours, or on another path, may go to this address of the peer.
    pub(super) fn may_send_from_elsewhere(&self, remote: SocketAddr) -> Result<(), PathError> {
        //= specs/rfc9000.txt#section-18.2
        //# An endpoint that receives this transport parameter MUST NOT use a new local address when
        //# sending to the address that the peer used during the handshake.
        //= specs/rfc10069-draft.md#relation-to-other-transport-parameters
        //# If an endpoint receives a disable_active_migration transport parameter, it is forbidden to
        //# establish new paths to the peer's handshake address.
        //= specs/rfc9000.txt#section-9
        //# If the peer sent the disable_active_migration transport parameter, an endpoint also MUST
        //# NOT send packets (including probing packets; see Section 9.1) from a different local
        //# address to the address the peer used during the handshake, unless the endpoint has acted
        //# on a preferred_address transport parameter from the peer.
        if self.peer.forbids_migration && remote == self.handshake_tuple.remote {
            return Err(PathError::MigrationDisabled);
        }
        Ok(())
    }

    /// Goes on with a path from another address of ours. `returns`: it goes back to the one that it has if it cannot be
    /// reached at the new one; otherwise, that one is gone. Returns the slot if the path was not there already.
    ///
    /// # Errors
    ///
    /// If the path is not open; if the peer forbids it; if there is no connection ID for another address, and it matters.
    pub(crate) fn move_to(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
        returns: bool,
        events: &mut EndpointEvents,
    ) -> Result<Option<PathIndex>, PathError> {
        let Some(index) = self.slot_to_move(id, local)? else {
            return Ok(None);
        };
        //= specs/rfc9000.txt#section-9.5
        //# An endpoint MUST NOT reuse a connection ID when sending from more than one local address
        //# -- for example, when initiating connection migration as described in Section 9.2 or when
        //# probing a new network path as described in Section 9.1.
        //= specs/rfc9000.txt#section-9.5
        //# An endpoint SHOULD NOT initiate migration with a peer that has requested a zero-length
        //# connection ID, because traffic over the new path might be trivially linkable to traffic
        //# over the old one.
        let other = |path: &Path| path.id != id && path.is_validated();
        let reuses = !self.remote_cids.has_unused(id);
        // For the sake of privacy. Where the address is gone, the connection would wait for connection IDs that nobody can
        // send.
        if reuses && (returns || self.iter().any(other)) {
            return Err(PathError::NoCidAvailable { path: id });
        }
        let interval = self.challenge_interval();
        let path = self.open_one(id)?;
        let network = path.network_from(now, local, interval);
        tracing::debug!(%id, from = %path.tuple(), to = %network.tuple, "moving");
        if let Some((path, old)) = self.switch(now, index, network, false, events) {
            match returns {
                true => path.keep_for_return(old),
                false => path.forget_other_addresses(),
            }
            // More than a probe: the peer follows it.
            path.request_ping();
        }
        if !returns {
            self.remote_cids.retire_other(id);
        }
        self.settle_move(now, index);
        //= specs/rfc9000.txt#section-9.6.3
        //# In this case, the client SHOULD perform path validation to both the original and preferred
        //# server address from the client's new address concurrently.
        //= specs/rfc9000.txt#section-9.6.3
        //# If path validation of the server's preferred address fails but validation of the server's
        //# original address succeeds, the client MAY migrate to its new address and continue sending
        //# to the server's original address.
        self.try_preferred_address(now);
        Ok(Some(index))
    }

    /// The handshake is confirmed: the peer can read all that is sent, and the address that it prefers is tried.
    pub(crate) fn on_handshake_confirmed(&mut self, now: Instant) {
        self.confirmed = true;
        self.try_preferred_address(now);
    }

    /// Tries the address that the server prefers (RFC 9000 section 9.6.1; RFC 10069: on path 0, whose connection ID came
    /// with it).
    fn try_preferred_address(&mut self, now: Instant) {
        let interval = self.challenge_interval();
        let wanted = self.side == Side::Client && self.follows_peer;
        let Some(preferred) = self.peer.preferred_address.filter(|_| wanted) else {
            return;
        };
        let from = self.handshake_tuple.remote;
        let Some(path) = self.get_mut(PathId::ZERO) else {
            return;
        };
        let tuple = path.tuple();
        //= specs/rfc9000.txt#section-9.6.3
        //# A client that migrates to a new address SHOULD use a preferred address from the same
        //# address family for the server.
        let remote = match tuple.remote {
            SocketAddr::V4(_) => preferred.ipv4.map(SocketAddr::V4),
            SocketAddr::V6(_) => preferred.ipv6.map(SocketAddr::V6),
        };
        let Some(remote) = remote.filter(|remote| *remote != tuple.remote) else {
            return;
        };
        //= specs/rfc9000.txt#section-21.5.3
        //= type=implication
        //# A client MUST NOT send non-probing frames to a preferred address prior to validating that
        //# address; see Section 8.
        if !may_be_directed_to(remote, from) {
            tracing::debug!(%remote, "the preferred address is refused");
            return;
        }
        let local = tuple.local;
        //= specs/rfc9000.txt#section-9.6.2
        //# A client that migrates to a preferred address MUST validate the address it chooses
        //# before migrating; see Section 21.5.3.
        path.try_addresses(now, FourTuple { local, remote }, interval);
        self.remote_cids.retire_other(PathId::ZERO);
    }

    /// The addresses that were tried are proven: the path takes them into use.
    fn move_to_tried(&mut self, now: Instant, index: PathIndex, events: &mut EndpointEvents) {
        let Some(network) = self.at_mut(index).and_then(Path::take_tried) else {
            return;
        };
        //= specs/rfc9000.txt#section-9.6.3
        //# If path validation of the server's preferred address succeeds, the client MUST abandon
        //# validation of the original address and migrate to using the server's preferred address.
        tracing::debug!(to = %network.tuple, "moving to the preferred address");
        if let Some((path, _)) = self.switch(now, index, network, true, events) {
            path.request_ping();
        }
    }
}

/// Whether a server may direct a client from the address that it was reached at to another one. RFC 9000 section 21.5.6:
/// a server out in the network must not have its clients send to hosts that only they can reach.
fn may_be_directed_to(to: SocketAddr, from: SocketAddr) -> bool {
    to.port() != 0 && scope(to.ip()) >= scope(from.ip())
}

/// How far an address can be reached from: 0 for the host itself, 1 for its network, 2 for everywhere.
fn scope(ip: IpAddr) -> u8 {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_loopback() || ip.is_unspecified() => 0,
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            // RFC 6598: addresses behind a carrier's NAT.
            let shared = a == 100 && (64..128).contains(&b);
            let local = ip.is_private() || ip.is_link_local() || shared;
            let nobody = ip.is_multicast() || ip.is_broadcast() || a == 0;
            if nobody { 0 } else { 2 - u8::from(local) }
        }
        IpAddr::V6(ip) if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() => 0,
        IpAddr::V6(ip) => 2 - u8::from(ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

/// The peer moves, or seems to.
impl Paths {
    /// A PATH_CHALLENGE came on this path.
    //= specs/rfc9000.txt#section-8.2.2
    //# An endpoint MUST NOT delay transmission of a packet containing a PATH_RESPONSE frame unless
    //# constrained by congestion control.
    pub(crate) fn on_path_challenge(&mut self, arrival: &DatagramMeta, id: PathId, token: u64) {
        let (side, interval) = (self.side, self.challenge_interval());
        let spare = self.remote_cids.has_two_unused(id);
        if let Some(path) = self.get_mut(id)
            && path.on_path_challenge(side, arrival, interval, token, spare)
        {
            self.remote_cids.retire_other(id);
        }
    }

    /// A PATH_RESPONSE came on this path. Returns its slot, and what is proven.
    //= specs/rfc9000.txt#section-9.6.1
    //# If path validation fails, the client MUST continue sending all future packets to the
    //# server's original IP address.
    pub(crate) fn on_path_response(
        &mut self,
        now: Instant,
        id: PathId,
        token: u64,
        events: &mut EndpointEvents,
    ) -> Option<(PathIndex, Proof)> {
        let path = self.get_mut(id)?;
        let (index, proof) = (path.index, path.on_path_response(token));
        self.tidy_other_cid(id);
        if proof == Proof::Tried {
            self.move_to_tried(now, index, events);
        }
        Some((index, proof))
    }

    /// A packet that was more than a probe came on this path: the client may have moved with it (RFC 9000 section 9.3).
    //= specs/rfc9000.txt#section-9
    //# An endpoint MUST perform path validation (Section 8.2) if it detects any change to a peer's
    //# address, unless it has previously validated that address.
    //= specs/rfc9000.txt#section-9.3
    //# An endpoint MAY send data to an unvalidated peer address, but it MUST protect against
    //# potential attacks as described in Sections 9.3.1 and 9.3.2.
    //= specs/rfc9000.txt#section-9.6.3
    //# If packets received at the server's preferred address have a different source address than
    //# observed from the client during the handshake, the server MUST protect against potential
    //# attacks as described in Sections 9.3.1 and 9.3.2.
    ///
    /// Returns the slot of the path if it did. The handshake is confirmed.
    pub(crate) fn follow_peer(
        &mut self,
        arrival: &DatagramMeta,
        id: PathId,
        number: u64,
        events: &mut EndpointEvents,
    ) -> Option<PathIndex> {
        if self.side == Side::Client {
            return None;
        }
        let path = self.get(id)?;
        //= specs/rfc10069-draft.md#relation-to-probing-and-migration
        //# This MUST be treated as path migration, as specified in {{Section 9.3 of
        //# QUIC-TRANSPORT}}, with the constraint that all connection IDs used during path migration
        //# MUST be associated with the current path ID of the path being migrated.
        if !path.is_moved_by(&arrival.tuple, number) {
            return None;
        }
        let (index, interval) = (path.index, self.challenge_interval());
        let spare = self.remote_cids.has_two_unused(id);
        let path = self.at_mut(index)?;
        //= specs/rfc9000.txt#section-9.6.2
        //# The server MUST send non- probing packets from its original address until it receives a
        //# non-probing packet from the client at its preferred address and until the server has
        //# validated the new path.
        if !path.is_local(&arrival.tuple) && !path.has_tried(&arrival.tuple) {
            if path.try_addresses_of(arrival, interval, spare) {
                self.remote_cids.retire_other(id);
            }
            return None;
        }
        let known = path.has_other(&arrival.tuple);
        let network = path.network_of_move(arrival.now, arrival.tuple, arrival.bytes, interval);
        tracing::debug!(%id, from = %path.tuple(), to = %network.tuple, "the peer moved");
        //= specs/rfc9000.txt#section-8.2.4
        //# A value of three times the larger of the current PTO or the PTO for the new path (using
        //# kInitialRtt, as defined in [QUIC-RECOVERY]) is RECOMMENDED.
        let pto = self.largest_pto().max(3 * self.config.initial_rtt);
        let until = later(arrival.now, 3 * pto);
        if let Some((path, old)) = self.switch(arrival.now, index, network, known, events) {
            path.keep_previous(arrival.now, old, interval, until);
        }
        self.tidy_other_cid(id);
        Some(index)
    }

    /// Takes other addresses into use for a path; returns the old ones. `known`: packets went there before, to a
    /// connection ID of their own.
    fn switch(
        &mut self,
        now: Instant,
        index: PathIndex,
        network: NetworkPath,
        known: bool,
        events: &mut EndpointEvents,
    ) -> Option<(&mut Path, NetworkPath)> {
        let (path, cids) = (
            self.slots.get_mut(index.get())?.as_mut()?,
            &mut self.remote_cids,
        );
        let id = path.id;
        if let Some(token) = cids.active_token(id) {
            let remote = path.tuple().remote;
            events.push_back(EndpointEvent::RemoveResetToken(remote, token));
        }
        //= specs/rfc9000.txt#section-9.5
        //# Similarly, an endpoint MUST NOT reuse a connection ID when sending to more than one
        //# destination address.
        if known {
            cids.change_places(id, path.is_validated());
        } else {
            cids.move_on(id, path.is_validated());
        }
        let old = path.replace_network(now, network);
        if let Some(token) = cids.active_token(id) {
            let remote = path.tuple().remote;
            events.push_back(EndpointEvent::AddResetToken(remote, token));
        }
        Some((path, old))
    }

    /// The addresses of a path that was open before are new, and proven if they need to be: measures anew if the path
    /// leads to or from another host. Returns its ID and key once they are proven.
    pub(crate) fn settle_move(
        &mut self,
        now: Instant,
        index: PathIndex,
    ) -> Option<(PathId, PathKey)> {
        let path = self.slots.get_mut(index.get())?.as_mut()?;
        if !path.is_validated() {
            return None;
        }
        if path.settle_move(now, &self.config, &mut *self.controller) {
            path.limit_mtu(self.peer.max_udp_payload, &mut *self.controller);
        }
        Some((path.id, path.tuple().key()))
    }

    /// What went to the addresses that the path had before is lost: there was a round trip for its acknowledgements to
    /// come. That is no sign of congestion.
    pub(crate) fn give_up_elsewhere(&mut self, index: PathIndex) {
        if let Some(path) = self.slots.get_mut(index.get()).and_then(Option::as_mut) {
            path.drain_elsewhere(&mut self.settled.lost);
        }
    }

    /// Retires the connection ID for the path's other addresses once it has none.
    fn tidy_other_cid(&mut self, id: PathId) {
        let path = self.get(id);
        if path.is_some_and(|path| !path.has_other_addresses()) {
            //= specs/rfc9000.txt#section-5.1.2
            //# Endpoints SHOULD retire connection IDs when they are no longer actively using either
            //# the local or destination address for which the connection ID was used.
            self.remote_cids.retire_other(id);
        }
    }

    /// Repeats challenges that are due, and draws the conclusion from those that stayed unanswered.
    pub(crate) fn on_challenge_timeout(
        &mut self,
        now: Instant,
        index: PathIndex,
        events: &mut EndpointEvents,
    ) -> ChallengeOutcome {
        let Some(path) = self.at_mut(index) else {
            return ChallengeOutcome::Waiting;
        };
        let id = path.id;
        match path.on_challenge_timeout(now) {
            Unanswered::Waiting => self.tidy_other_cid(id),
            Unanswered::GoBack(last) => {
                tracing::debug!(%id, to = %last.tuple, "the peer did not move after all");
                self.switch(now, index, *last, true, events);
                self.tidy_other_cid(id);
                return ChallengeOutcome::WentBack;
            }
            // RFC 9000 section 9.5: not with the ID that was used from elsewhere.
            Unanswered::Return(left) if self.remote_cids.has_unused(id) => {
                tracing::debug!(%id, to = %left.tuple, "back to the address that we left");
                self.remote_cids.retire_other(id);
                self.switch(now, index, *left, false, events);
                self.remote_cids.retire_other(id);
                return ChallengeOutcome::WentBack;
            }
            Unanswered::Return(_) => {}
            Unanswered::GiveUp => return ChallengeOutcome::Failed,
        }
        ChallengeOutcome::Waiting
    }

    /// Whether a datagram from or to these addresses may be for this connection.
    pub(crate) fn takes_from(&self, tuple: &FourTuple) -> bool {
        match self.side {
            //= specs/rfc9000.txt#section-9
            //# If a client receives packets from an unknown server address, the client MUST discard
            //# these packets.
            Side::Client => {
                let retired = self.retired().iter();
                let mut left = retired.filter_map(|path| path.last);
                self.iter().any(|path| path.knows_remote(tuple.remote))
                    || left.any(|(last, _)| last.remote == tuple.remote)
            }
            //= specs/rfc9000.txt#section-9
            //# If the peer violates this requirement, the endpoint MUST either drop the incoming
            //# packets on that path without generating a Stateless Reset or proceed with path
            //# validation and allow the peer to migrate.
            Side::Server => {
                let handshake = self.handshake_tuple;
                self.follows_peer
                    || handshake.matches(tuple)
                    || !handshake.matches(&FourTuple {
                        remote: handshake.remote,
                        ..*tuple
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::tests::{multipath, open, tuple};
    use super::*;
    use crate::space::{AckPolicy, ReceivedPacket};

    fn from(local: u16, remote: u16) -> FourTuple {
        let mut tuple = tuple();
        tuple.local.set_port(local);
        tuple.remote.set_port(remote);
        tuple
    }

    fn receive(paths: &mut Paths, now: Instant, pn: u64) {
        let path = paths.get_mut(PathId::ZERO).unwrap();
        path.on_packet_received(&ReceivedPacket {
            now,
            received: now,
            pn,
            ack_eliciting: true,
            ecn: None,
            policy: AckPolicy::new(std::time::Duration::ZERO),
            immediate: false,
        });
    }

    /// RFC 9000 section 9.3: the newest packet, from elsewhere.
    #[test]
    fn a_server_follows_its_client_and_goes_back_if_nobody_answers_there() {
        let (mut now, mut events) = (Instant::now(), EndpointEvents::new());
        let mut paths = multipath(Side::Server);
        let index = open(&mut paths, 0);
        paths.know_other_cid(0, 1);
        (0..3).for_each(|pn| receive(&mut paths, now, pn));
        let moved = DatagramMeta::new(now, from(1, 9), None);
        let mut follow = |paths: &mut Paths, arrival, number| {
            paths.follow_peer(arrival, PathId::ZERO, number, &mut events)
        };
        assert_eq!(follow(&mut paths, &moved, 1), None, "an old packet");
        let stays = DatagramMeta::new(now, tuple(), None);
        assert_eq!(follow(&mut paths, &stays, 2), None);
        assert_eq!(follow(&mut paths, &moved, 2), Some(index));
        assert_eq!(paths.open_one(PathId::ZERO).unwrap().tuple(), from(1, 9));
        assert_eq!(paths.settle_move(now, index), None, "nothing is proven");
        // The challenge is never answered.
        let mut outcome = ChallengeOutcome::Waiting;
        while outcome == ChallengeOutcome::Waiting {
            now += paths.largest_pto();
            outcome = paths.on_challenge_timeout(now, index, &mut events);
        }
        assert_eq!(outcome, ChallengeOutcome::WentBack);
        assert_eq!(paths.open_one(PathId::ZERO).unwrap().tuple(), tuple());
        let key = paths.settle_move(now, index);
        assert_eq!(key, Some((PathId::ZERO, tuple().key())));
    }

    #[test]
    fn a_client_follows_nobody_and_moves_if_it_has_a_connection_id_for_it() {
        let (now, mut events) = (Instant::now(), EndpointEvents::new());
        let mut paths = multipath(Side::Client);
        let index = open(&mut paths, 0);
        receive(&mut paths, now, 0);
        let arrival = DatagramMeta::new(now, from(1, 9), None);
        let follows = paths.follow_peer(&arrival, PathId::ZERO, 0, &mut events);
        assert_eq!(follows, None);
        let to = from(8, 2).local;
        let mut migrate = |paths: &mut Paths, local, returns| {
            paths.move_to(now, PathId::ZERO, local, returns, &mut events)
        };
        assert_eq!(migrate(&mut paths, tuple().local, true), Ok(None));
        let missing = Err(PathError::NoCidAvailable { path: PathId::ZERO });
        assert_eq!(migrate(&mut paths, to, true), missing);
        paths.know_other_cid(0, 1);
        assert_eq!(migrate(&mut paths, to, true), Ok(Some(index)));
        assert_eq!(paths.open_one(PathId::ZERO).unwrap().tuple().local, to);
        // The address that it had is gone, and there is no other path: the same connection ID is better than none.
        let mut alone = multipath(Side::Client);
        let index = open(&mut alone, 0);
        assert_eq!(migrate(&mut alone, to, false), Ok(Some(index)));
        let mut several = multipath(Side::Client);
        open(&mut several, 0);
        open(&mut several, 1);
        assert_eq!(migrate(&mut several, to, false), missing);
        let mut forbidden = multipath(Side::Client);
        open(&mut forbidden, 0);
        forbidden.peer.forbids_migration = true;
        let disabled = Err(PathError::MigrationDisabled);
        assert_eq!(migrate(&mut forbidden, to, true), disabled);
    }

    #[test]
    fn datagrams_come_from_addresses_that_are_known_or_allowed() {
        let elsewhere = [from(1, 9), from(9, 2)];
        let taken = |side, follows| {
            let mut paths = multipath(side);
            open(&mut paths, 0);
            paths.follow_peer_if(follows);
            assert!(paths.takes_from(&tuple()));
            elsewhere.map(|tuple| paths.takes_from(&tuple))
        };
        // A client's own address may change; servers do not move.
        assert_eq!(taken(Side::Client, true), [false, true]);
        assert_eq!(taken(Side::Server, true), [true, true]);
        // One that forbids its clients to move may have told them a preferred address of its own.
        assert_eq!(taken(Side::Server, false), [false, true]);
    }

    #[test]
    fn a_server_directs_its_client_to_nobody_that_it_could_not_reach_itself() {
        let may =
            |to: &str, from: &str| may_be_directed_to(to.parse().unwrap(), from.parse().unwrap());
        for (to, from) in [
            ("192.0.2.1:443", "198.51.100.7:443"),
            ("10.0.0.2:443", "10.0.0.1:443"),
            ("192.168.0.2:443", "10.0.0.1:443"),
            ("127.0.0.1:443", "127.0.0.1:444"),
            ("192.0.2.1:443", "127.0.0.1:443"),
            ("[2001:db8::1]:443", "[2001:db8::2]:443"),
            ("[fd00::1]:443", "[fe80::2]:443"),
        ] {
            assert!(may(to, from), "from {from} to {to}");
        }
        for (to, from) in [
            ("127.0.0.1:443", "192.0.2.1:443"),
            ("127.0.0.1:443", "10.0.0.1:443"),
            ("10.0.0.1:443", "192.0.2.1:443"),
            ("169.254.169.254:80", "192.0.2.1:443"),
            ("100.64.0.1:443", "192.0.2.1:443"),
            ("0.0.0.0:443", "192.0.2.1:443"),
            ("224.0.0.1:443", "10.0.0.1:443"),
            ("192.0.2.1:0", "192.0.2.2:443"),
            ("[::1]:443", "[2001:db8::2]:443"),
            ("[::ffff:127.0.0.1]:443", "[2001:db8::2]:443"),
            ("[fe80::1]:443", "[2001:db8::2]:443"),
        ] {
            assert!(!may(to, from), "from {from} to {to}");
        }
    }
}
