//! What happens when a path gets other addresses: the peer moves or a NAT moves it, we move, and addresses are proven or
//! given up (RFC 9000 sections 8.2 and 9). It builds no packets.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathUpdateKind, Side};

use super::{Connection, Event};
use crate::events::{DatagramMeta, EndpointEvent};
use crate::path::{ALL, NetworkPath, Path, Proof, Unanswered};
use crate::recovery::later;
use crate::space::SpaceId;
use crate::{ConnectionError, FourTuple, PathError, PathErrorCode, PathEvent, PathId};

/// We move.
impl Connection {
    /// Goes on with a path from another address of ours, as when the network changed: RFC 9000 section 9.2. The path ID,
    /// its packet numbers and all streams stay what they are. Only clients can, after the handshake is confirmed. What
    /// was measured of the path is forgotten, unless only the port is another one.
    ///
    /// [`PathEvent::Moved`] follows when the path is validated from there. If it cannot be, the path goes back to the
    /// address that it had. With multipath, opening a path and closing the other one is smoother.
    ///
    /// # Errors
    ///
    /// If the connection or the path is not open; before the handshake is confirmed; on servers; if the peer forbids
    /// it ([`PathError::MigrationDisabled`]); or if it has issued no connection ID for another address.
    pub fn migrate_path(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
    ) -> Result<(), PathError> {
        let Some(index) = self.slot_to_move(id, local)? else {
            return Ok(());
        };
        //= specs/rfc9000.txt#section-9.5
        //# An endpoint MUST NOT reuse a connection ID when sending from more than one local address
        //# -- for example, when initiating connection migration as described in Section 9.2 or when
        //# probing a new network path as described in Section 9.1.
        //= specs/rfc9000.txt#section-9.5
        //# An endpoint SHOULD NOT initiate migration with a peer that has requested a zero-length
        //# connection ID, because traffic over the new path might be trivially linkable to traffic
        //# over the old one.
        if !self.paths.remote_cids().has_unused(id) {
            return Err(PathError::NoCidAvailable { path: id });
        }
        self.move_to(now, index, local, true);
        Ok(())
    }

    /// Goes on with a path from another address of ours, since the one that it has is gone: its socket is closed, or its
    /// interface is. As [`migrate_path`](Self::migrate_path), but for two things. There is no way back. And if the peer has
    /// issued no connection ID for another address, and no other path is validated, the one in use goes on: RFC 9000 section
    /// 9.5 forbids that for the sake of privacy, and without it the connection would wait for connection IDs that nobody can
    /// send to an address that is gone.
    ///
    /// # Errors
    ///
    /// As [`migrate_path`](Self::migrate_path). With [`PathError::NoCidAvailable`], another path is validated:
    /// [close](Self::close_path) this one. With another error, the connection cannot go on from `local`, now or later.
    pub fn replace_local(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
    ) -> Result<(), PathError> {
        let Some(index) = self.slot_to_move(id, local)? else {
            return Ok(());
        };
        let is_other = |path: &Path| path.id != id && path.is_validated();
        if !self.paths.remote_cids().has_unused(id) && self.paths.iter().any(is_other) {
            return Err(PathError::NoCidAvailable { path: id });
        }
        self.move_to(now, index, local, false);
        Ok(())
    }

    /// The slot of a path that is to go on from another address of ours; `None` if it is there already.
    fn slot_to_move(&self, id: PathId, local: SocketAddr) -> Result<Option<PathIndex>, PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if self.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        //= specs/rfc9000.txt#section-9
        //# An endpoint MUST NOT initiate connection migration before the handshake is confirmed, as
        //# defined in Section 4.1.2 of [QUIC-TLS].
        if !self.confirmed {
            return Err(PathError::HandshakeIncomplete);
        }
        let path = self.paths.get(id).ok_or(PathError::NotOpen(id))?;
        let tuple = path.tuple();
        if tuple.local == local {
            return Ok(None);
        }
        self.may_send_from_elsewhere(tuple.remote)?;
        Ok(Some(path.index))
    }

    /// Takes another address of ours into use for a path. `returns`: it goes back to the one that it has if it cannot be
    /// reached at the new one.
    fn move_to(&mut self, now: Instant, index: PathIndex, local: SocketAddr, returns: bool) {
        let interval = self.paths.challenge_interval();
        let Some(path) = self.paths.at(index) else {
            return;
        };
        let id = path.id;
        let network = path.network_from(now, local, interval);
        tracing::debug!(%id, from = %path.tuple(), to = %network.tuple, "moving");
        if let Some((path, old)) = self.switch(now, index, network, false) {
            match returns {
                true => path.keep_for_return(old),
                false => path.forget_other_addresses(),
            }
            // More than a probe: the peer follows it.
            path.request_ping();
        }
        if !returns {
            self.paths.remote_cids_mut().retire_other(id);
        }
        let payload = self.peer.max_udp_payload();
        self.paths.settle_move(now, index, payload, &self.config);
        //= specs/rfc9000.txt#section-9.6.3
        //# In this case, the client SHOULD perform path validation to both the original and preferred
        //# server address from the client's new address concurrently.
        //= specs/rfc9000.txt#section-9.6.3
        //# If path validation of the server's preferred address fails but validation of the server's
        //# original address succeeds, the client MAY migrate to its new address and continue sending
        //# to the server's original address.
        self.try_preferred_address(now);
    }

    /// No socket can send from the address that a path uses, and none can take its place for now: nothing leaves or comes on
    /// the path. [`PathEvent::Stranded`] says so, once. A driver calls it again with `false` when there is a socket with just
    /// that address once more.
    pub fn set_stranded(&mut self, id: PathId, stranded: bool) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if path.set_stranded(stranded) && stranded && !self.is_closed() {
            let event = PathEvent::Stranded { id };
            self.events.push_back(Event::Path(event));
        }
    }

    /// No socket can send from the address of the last path, nor will one: the connection is over, and `reason` is why it
    /// cannot go on from another address. The peer cannot be told. A connection that is closed already is over, too: nobody can
    /// be told again. One that begins on several addresses goes on with the others.
    pub fn lose_address(&mut self, now: Instant, network_path: FourTuple, reason: PathError) {
        if self.race.is_some() && self.state.is_handshaking() {
            return self.handle_send_error(now, network_path, "its socket is closed");
        }
        let local = network_path.local;
        let lost = ConnectionError::LocalAddressLost { local, reason };
        self.end(now, Some(lost).filter(|_| self.state.is_alive()));
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
        if self.peer.disable_active_migration && remote == self.handshake_tuple.remote {
            return Err(PathError::MigrationDisabled);
        }
        Ok(())
    }

    /// The handshake is confirmed: tries the address that the server prefers (RFC 9000 section 9.6.1; RFC 10069: on path
    /// 0, whose connection ID came with it).
    pub(super) fn try_preferred_address(&mut self, now: Instant) {
        let interval = self.paths.challenge_interval();
        let Some(preferred) = self.peer.preferred_address else {
            return;
        };
        let wanted = self.side == Side::Client && self.confirmed && self.follows_preference;
        let Some(path) = self.paths.get_mut(PathId::ZERO).filter(|_| wanted) else {
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
        if !may_be_directed_to(remote, self.handshake_tuple.remote) {
            tracing::debug!(%remote, "the preferred address is refused");
            return;
        }
        let local = tuple.local;
        //= specs/rfc9000.txt#section-9.6.2
        //# A client that migrates to a preferred address MUST validate the address it chooses
        //# before migrating; see Section 21.5.3.
        path.try_addresses(now, FourTuple { local, remote }, interval);
        self.paths.remote_cids_mut().retire_other(PathId::ZERO);
    }

    /// The addresses that were tried are proven: the path takes them into use.
    fn move_to_tried(&mut self, now: Instant, index: PathIndex) {
        let Some(network) = self.paths.at_mut(index).and_then(Path::take_tried) else {
            return;
        };
        //= specs/rfc9000.txt#section-9.6.3
        //# If path validation of the server's preferred address succeeds, the client MUST abandon
        //# validation of the original address and migrate to using the server's preferred address.
        tracing::debug!(to = %network.tuple, "moving to the preferred address");
        if let Some((path, _)) = self.switch(now, index, network, true) {
            path.request_ping();
        }
        self.announce_move(now, index);
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
impl Connection {
    /// A PATH_CHALLENGE came on this path.
    //= specs/rfc9000.txt#section-8.2.2
    //# An endpoint MUST NOT delay transmission of a packet containing a PATH_RESPONSE frame unless
    //# constrained by congestion control.
    pub(crate) fn on_path_challenge(&mut self, arrival: &DatagramMeta, id: PathId, token: u64) {
        let (side, interval) = (self.side, self.paths.challenge_interval());
        let spare = self.paths.remote_cids().has_two_unused(id);
        if let Some(path) = self.paths.get_mut(id)
            && path.on_path_challenge(side, arrival, interval, token, spare)
        {
            self.paths.remote_cids_mut().retire_other(id);
        }
    }

    /// A PATH_RESPONSE came on this path.
    //= specs/rfc9000.txt#section-9.6.1
    //# If path validation fails, the client MUST continue sending all future packets to the
    //# server's original IP address.
    pub(crate) fn on_path_response(&mut self, now: Instant, id: PathId, token: u64) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let (index, proof) = (path.index, path.on_path_response(token));
        self.paths.tidy_other_cid(id);
        if proof != Proof::Nothing {
            self.on_address_proven(now, id);
        }
        match proof {
            Proof::Nothing => {}
            Proof::Opened => {
                self.offer_stranded(now);
                self.events.push_back(Event::Path(PathEvent::Opened { id }));
                self.tell_scheduler(now, index, PathUpdateKind::Validated);
            }
            Proof::Moved => {
                self.offer_stranded(now);
                self.announce_move(now, index);
                self.resend_from_elsewhere(now, index);
            }
            Proof::Tried => self.move_to_tried(now, index),
        }
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
    pub(crate) fn follow_peer(&mut self, arrival: &DatagramMeta, id: PathId, number: u64) {
        if self.side == Side::Client || !self.confirmed {
            return;
        }
        let Some(path) = self.paths.get(id) else {
            return;
        };
        //= specs/rfc10069-draft.md#relation-to-probing-and-migration
        //# This MUST be treated as path migration, as specified in {{Section 9.3 of
        //# QUIC-TRANSPORT}}, with the constraint that all connection IDs used during path migration
        //# MUST be associated with the current path ID of the path being migrated.
        if !path.is_moved_by(&arrival.tuple, number) {
            return;
        }
        let (index, interval) = (path.index, self.paths.challenge_interval());
        let spare = self.paths.remote_cids().has_two_unused(id);
        let Some(path) = self.paths.at_mut(index) else {
            return;
        };
        //= specs/rfc9000.txt#section-9.6.2
        //# The server MUST send non- probing packets from its original address until it receives a
        //# non-probing packet from the client at its preferred address and until the server has
        //# validated the new path.
        if !path.is_local(&arrival.tuple) && !path.has_tried(&arrival.tuple) {
            if path.try_addresses_of(arrival, interval, spare) {
                self.paths.remote_cids_mut().retire_other(id);
            }
            return;
        }
        let known = path.has_other(&arrival.tuple);
        let network = path.network_of_move(arrival.now, arrival.tuple, arrival.bytes, interval);
        tracing::debug!(%id, from = %path.tuple(), to = %network.tuple, "the peer moved");
        //= specs/rfc9000.txt#section-8.2.4
        //# A value of three times the larger of the current PTO or the PTO for the new path (using
        //# kInitialRtt, as defined in [QUIC-RECOVERY]) is RECOMMENDED.
        let pto = self.paths.largest_pto().max(3 * self.config.initial_rtt);
        let until = later(arrival.now, 3 * pto);
        if let Some((path, old)) = self.switch(arrival.now, index, network, known) {
            path.keep_previous(arrival.now, old, interval, until);
        }
        self.paths.tidy_other_cid(id);
        self.announce_move(arrival.now, index);
    }

    /// Takes other addresses into use for a path; returns the old ones. `known`: packets went there before, to a
    /// connection ID of their own.
    fn switch(
        &mut self,
        now: Instant,
        index: PathIndex,
        network: NetworkPath,
        known: bool,
    ) -> Option<(&mut Path, NetworkPath)> {
        let (path, cids) = self.paths.with_remote_cids(index)?;
        let id = path.id;
        if let Some(token) = cids.active_token(id) {
            let remote = path.tuple().remote;
            self.endpoint_events
                .push_back(EndpointEvent::RemoveResetToken(remote, token));
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
        self.data.on_path_moved(index);
        if let Some(token) = cids.active_token(id) {
            let remote = path.tuple().remote;
            self.endpoint_events
                .push_back(EndpointEvent::AddResetToken(remote, token));
        }
        Some((path, old))
    }

    /// The addresses of a path that was open before are new, and proven if they need to be.
    fn announce_move(&mut self, now: Instant, index: PathIndex) {
        let payload = self.peer.max_udp_payload();
        self.paths.settle_move(now, index, payload, &self.config);
        let Some(path) = self.paths.at(index).filter(|path| path.is_validated()) else {
            return;
        };
        let (id, key) = (path.id, path.tuple().key());
        if self.data.path_key(index) != Some(key) {
            self.tell_scheduler(now, index, PathUpdateKind::Moved);
        }
        self.events.push_back(Event::Path(PathEvent::Moved { id }));
    }

    /// What went to the addresses that the path had before is sent again: there was a round trip for its acknowledgements
    /// to come. That it is lost is no sign of congestion.
    fn resend_from_elsewhere(&mut self, now: Instant, index: PathIndex) {
        let Some(path) = self.paths.at_mut(index) else {
            return;
        };
        let mut settled = std::mem::take(&mut self.settled);
        path.drain_elsewhere(&mut settled.lost);
        self.on_packets_lost(now, index, SpaceId::Data, &settled);
        settled.lost.clear();
        self.settled = settled;
    }

    /// Repeats challenges that are due, and draws the conclusion from those that stayed unanswered.
    pub(super) fn on_challenge_timeout(&mut self, now: Instant, id: PathId) {
        let max_ack_delay = self.paths.peer_max_ack_delay();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let index = path.index;
        if path.suspect_early_data(now, max_ack_delay) {
            // Data that was sent ahead of the validation may have gone where nobody is: others carry it, too.
            self.on_suspect(now, id, index);
            if self.paths.fail_over(index) {
                self.offer_in_flight(index, ALL);
            }
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        match path.on_challenge_timeout(now) {
            Unanswered::Waiting => self.paths.tidy_other_cid(id),
            Unanswered::GoBack(last) => {
                tracing::debug!(%id, to = %last.tuple, "the peer did not move after all");
                self.switch(now, index, *last, true);
                self.paths.tidy_other_cid(id);
            }
            // RFC 9000 section 9.5: not with the ID that was used from elsewhere.
            Unanswered::Return(left) if self.paths.remote_cids().has_unused(id) => {
                tracing::debug!(%id, to = %left.tuple, "back to the address that we left");
                self.paths.remote_cids_mut().retire_other(id);
                self.switch(now, index, *left, false);
                self.paths.remote_cids_mut().retire_other(id);
            }
            Unanswered::Return(_) => {}
            //= specs/rfc9000.txt#section-9.3.2
            //# If an endpoint has no state about the last validated peer address, it MUST close the
            //# connection silently by discarding all connection state.
            Unanswered::GiveUp if self.paths.open_count() == 1 => {
                self.end(now, Some(ConnectionError::NoValidatedPath));
            }
            //= specs/rfc10069-draft.md#path-initiation
            //# If validation fails, the client MUST NOT use the path and can remove any status
            //# associated to the path initiation attempt.
            //= specs/rfc10069-draft.md#path-initiation
            //# As the used path ID is consumed either way, the endpoint MUST explicitly close the
            //# path, as specified in {{path-close}}.
            Unanswered::GiveUp => {
                self.abandon_path(now, id, PathErrorCode::PATH_UNSTABLE_OR_POOR, false);
            }
        }
    }

    /// Whether a datagram from or to these addresses may be for this connection.
    pub(crate) fn takes_from(&self, tuple: &FourTuple) -> bool {
        match self.side {
            //= specs/rfc9000.txt#section-9
            //# If a client receives packets from an unknown server address, the client MUST discard
            //# these packets.
            Side::Client => {
                let retired = self.paths.retired().iter();
                let mut left = retired.filter_map(|path| path.last);
                self.paths
                    .iter()
                    .any(|path| path.knows_remote(tuple.remote))
                    || left.any(|(last, _)| last.remote == tuple.remote)
            }
            //= specs/rfc9000.txt#section-9
            //# If the peer violates this requirement, the endpoint MUST either drop the incoming
            //# packets on that path without generating a Stateless Reset or proceed with path
            //# validation and allow the peer to migrate.
            Side::Server => {
                let handshake = self.handshake_tuple;
                self.allows_migration
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
    use super::*;

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
