//! The life of a path: opened by the client, accepted by the server, validated, moved, abandoned, discarded (RFC 10069,
//! path initiation and path close; RFC 9000 sections 8.2 and 9). It builds no packets.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathStatus, PathUpdateKind, Side};

use super::{Connection, Event, memory_key};
use crate::closing::CloseFrame;
use crate::config::PathStart;
use crate::events::EndpointEvent;
use crate::path::{Epoch, NetworkPath, Path, PathState, RetiredPath};
use crate::space::PacketSpace;
use crate::{
    FourTuple, Observation, PathChange, PathChangeKind, PathError, PathErrorCode, PathEvent,
    PathId, PathStats, TransportError,
};

/// What the application asks.
impl Connection {
    /// Whether multipath was negotiated (RFC 10069). Known when the handshake is complete.
    pub fn is_multipath(&self) -> bool {
        self.paths.is_multipath() && !self.state.is_handshaking()
    }

    /// Whether this side may open paths now: it is a client, and the handshake is where
    /// [`TransportConfig::path_start`](crate::TransportConfig::path_start) has it. There may still be a limit in the
    /// way, or no connection ID; [`PathEvent::Available`] tells when there is none. Once the peer has refused a path
    /// that was opened before the handshake was confirmed, no other can be opened until it is.
    pub fn may_open_paths(&self) -> bool {
        let handshake = match self.config.path_start {
            PathStart::Complete if !self.early_path_refused => self.state.is_established(),
            _ => self.confirmed,
        };
        handshake && self.side.is_client()
    }

    /// Opens a path. Only clients can, after the handshake
    /// ([`TransportConfig::path_start`](crate::TransportConfig::path_start)).
    /// [`PathEvent::Opened`] follows when the peer's address is validated,
    /// [`PathEvent::Abandoned`] if it cannot be.
    ///
    /// # Errors
    ///
    /// See [`PathError`]. If the peer's path limit is reached or it has issued no connection IDs, the
    /// peer is told, and [`PathEvent::Available`] is emitted when the path can be opened.
    pub fn open_path(&mut self, now: Instant, tuple: FourTuple) -> Result<PathId, PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if self.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        if !self.may_open_paths() {
            return Err(PathError::HandshakeIncomplete);
        }
        if !self.paths.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        let open = self.paths.open_count();
        if open >= self.config.max_paths as usize {
            return Err(PathError::TooManyPaths(open));
        }
        if self.peer.disable_active_migration && tuple.remote == self.handshake_tuple.remote {
            return Err(PathError::MigrationDisabled);
        }
        //= specs/rfc10069-draft.md#path-initiation
        //# To open a new path, an endpoint MUST use a new connection ID associated with an unused
        //# path ID.
        let id = self.paths.take_unused()?;
        let mut network = NetworkPath::opened_by_us(tuple);
        // Never more than a challenge to an address that has not shown that it is the server's.
        if self.config.early_path_data && tuple.remote == self.handshake_tuple.remote {
            network = network.with_credit();
        }
        self.add_path(now, id, network)
            .ok_or(PathError::TooManyPaths(open))?;
        Ok(id)
    }

    /// Abandons a path. Its data in flight is sent again on other paths.
    ///
    /// # Errors
    ///
    /// If the path is not open, or the last one.
    pub fn close_path(
        &mut self,
        now: Instant,
        id: PathId,
        code: PathErrorCode,
    ) -> Result<(), PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if !self.paths.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        self.paths.open_one(id)?;
        let is_other = |path: &Path| path.id != id && path.is_validated();
        if !self.paths.iter().any(is_other) {
            return Err(PathError::LastPath(id));
        }
        self.abandon_path(now, id, code, false);
        Ok(())
    }

    /// Sets our status for a path. The peer and our own scheduler are told.
    ///
    /// # Errors
    ///
    /// If the path is not open, or multipath was not negotiated.
    pub fn set_path_status(&mut self, id: PathId, status: PathStatus) -> Result<(), PathError> {
        if !self.paths.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        let path = self.paths.get_mut(id).ok_or(PathError::NotOpen(id))?;
        let effective = path.set_local_status(status);
        let (index, now) = (path.index, path.last_activity());
        self.tell_scheduler(now, index, PathUpdateKind::Status(effective));
        Ok(())
    }

    /// Our status for a path, and the peer's if it has sent one.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_status(&self, id: PathId) -> Result<(PathStatus, Option<PathStatus>), PathError> {
        let path = self.paths.open_one(id)?;
        Ok((path.status().local(), path.status().remote()))
    }

    /// The IDs of the open paths, validated or not.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + '_ {
        self.paths.iter().map(|path| path.id)
    }

    /// Whether the path is open and its address validated.
    pub fn is_path_validated(&self, id: PathId) -> bool {
        self.paths.get(id).is_some_and(Path::is_validated)
    }

    /// UDP payload bytes sent to and received from the path's address, while the amplification limit holds for it:
    /// until the peer has proven that it is there (RFC 9000 section 8.1). For tests of that limit.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_amplification(&self, id: PathId) -> Result<Option<(u64, u64)>, PathError> {
        Ok(self.paths.open_one(id)?.traffic())
    }

    /// The same for each pair of addresses that packets of open paths may go to: those that a path uses, those that it
    /// has left and may go back to, and those from which the peer probes it (RFC 9000 section 9.1).
    pub fn amplification(&self) -> impl Iterator<Item = (FourTuple, Option<(u64, u64)>)> + '_ {
        self.paths.iter().flat_map(Path::traffic_by_address)
    }

    /// The path's addresses.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn network_path(&self, id: PathId) -> Result<FourTuple, PathError> {
        Ok(self.paths.open_one(id)?.tuple())
    }

    /// The path's smoothed RTT.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn rtt(&self, id: PathId) -> Result<Duration, PathError> {
        Ok(self.paths.open_one(id)?.rtt().smoothed())
    }

    /// The path's figures.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path_stats(&self, id: PathId) -> Result<PathStats, PathError> {
        Ok(self.paths.open_one(id)?.stats(self.paths.controller()))
    }

    /// The last addresses and figures of a path that was abandoned, from
    /// [`PathEvent::Abandoned`](crate::PathEvent::Abandoned) to
    /// [`PathEvent::Discarded`](crate::PathEvent::Discarded).
    pub fn abandoned_path(&self, id: PathId) -> Option<(FourTuple, PathStats)> {
        let mut retired = self.paths.retired().iter();
        retired.find(|path| path.id == id)?.last
    }
}

/// Opening, validation and moves.
impl Connection {
    /// A packet on a path ID that was not used before decrypted: on servers, the client opens it.
    /// `None` if there is no room for it, or this side is the client, whose peer opens no paths.
    pub(crate) fn accept_path(
        &mut self,
        now: Instant,
        id: PathId,
        tuple: FourTuple,
    ) -> Option<&mut Path> {
        if self.side == Side::Client || !self.paths.is_multipath() || !self.state.is_established() {
            return None;
        }
        let mut network = NetworkPath::new(tuple, false);
        //= specs/rfc10069-draft.md#address-validation-token
        //# To avoid issues when clients make the "wrong" choice, a server SHOULD issue tokens that
        //# are capable of validating any of the previously validated addresses.
        // RFC 9000 section 8.1 lets a server send without limit to whom a token validates. Nobody has answered from there
        // yet, though: an initial window may go ahead of the validation, and no more; once for each address, or a client
        // that opens path after path would send it there again and again.
        let remote = tuple.remote.ip().to_canonical();
        let known = self.known_addresses.iter().position(|ip| *ip == remote);
        if known.is_some() {
            let mtu = self.config.initial_mtu;
            network = network.known_by_token(self.config.initial_window.bytes(mtu));
        }
        let index = self.add_path(now, id, network)?;
        if let Some(known) = known {
            self.known_addresses.swap_remove(known);
        }
        self.paths.at_mut(index)
    }

    /// Takes a slot for a path and starts to validate its addresses.
    fn add_path(&mut self, now: Instant, id: PathId, network: NetworkPath) -> Option<PathIndex> {
        let interval = self.paths.challenge_interval();
        let index = self.paths.free_slot()?;
        let space = PacketSpace::new(&mut self.rng);
        self.data.on_new_path(index);
        let path = Path::new(now, id, index, network, space, &self.config);
        let key = memory_key(self.side, path.tuple());
        let epoch = Epoch::new(&self.endpoint_config);
        self.paths.open(now, path, key, epoch, &self.config);
        self.paths.limit_mtu(index, self.peer.max_udp_payload());
        //= specs/rfc10069-draft.md#path-initiation
        //# A client that wants to use a new path MUST validate the peer's address as described in
        //# {{Section 8.2 of QUIC-TRANSPORT}}, unless it has previously validated the 4-tuple used
        //# for that path.
        if let Some(path) = self.paths.at_mut(index) {
            path.start_challenge(now, interval);
        }
        self.tell_scheduler(now, index, PathUpdateKind::Opened);
        self.activate_cid(id);
        self.issue_cids();
        Some(index)
    }

    pub(crate) fn tell_scheduler(&mut self, now: Instant, index: PathIndex, kind: PathUpdateKind) {
        let Some(path) = self.paths.at(index) else {
            return;
        };
        let (id, tuple) = (path.id, path.tuple());
        let event = mpquic_sched_core::PathUpdate::new(index, id, now, kind).with_key(tuple.key());
        self.data.on_path(&event);
        if kind == PathUpdateKind::Suspect && self.watch.wants_losses() {
            let trouble = path.trouble(now, self.paths.has_other_usable(index));
            self.watch.on_trouble(now, id, &trouble);
        }
        self.watch.on_path_update(now, id, tuple, kind);
    }
}

/// Status and the end.
impl Connection {
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP came, perhaps for a path that is not in use yet.
    pub(crate) fn on_path_status(
        &mut self,
        now: Instant,
        id: u64,
        status: PathStatus,
        seq: u64,
    ) -> Result<(), TransportError> {
        let (id, index, effective) = match self.paths.of_frame(Some(id))? {
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => {
                if let Some(early) = self.paths.early_status(id) {
                    early.on_remote(status, seq);
                }
                return Ok(());
            }
            PathState::Open(path) => {
                if !path.status_mut().on_remote(status, seq) {
                    return Ok(());
                }
                (path.id, path.index, path.status().effective())
            }
        };
        self.events
            .push_back(Event::Path(PathEvent::RemoteStatus { id, status }));
        self.tell_scheduler(now, index, PathUpdateKind::Status(effective));
        Ok(())
    }

    /// PATH_ABANDON came.
    pub(crate) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: u64,
        error_code: PathErrorCode,
    ) -> Result<(), TransportError> {
        let until = now + 3 * self.paths.largest_pto();
        let (id, open) = match self.paths.of_frame(Some(id))? {
            PathState::Abandoned(None) => return Ok(()),
            PathState::Abandoned(Some(retired)) => {
                retired.on_peer_abandoned(until);
                return Ok(());
            }
            PathState::NeverOpened(id) => (id, false),
            PathState::Open(path) => (path.id, true),
        };
        if open && self.paths.open_count() == 1 {
            // The path stays for as long as CONNECTION_CLOSE has to travel on it.
            self.events.push_back(Event::Path(PathEvent::Abandoned {
                id,
                error_code,
                by_peer: true,
            }));
            //= specs/rfc10069-draft.md#path-close
            //# If a PATH_ABANDON frame is received for the only open path of a QUIC connection, the
            //# receiving peer SHOULD send a CONNECTION_CLOSE frame and enter the closing state.
            let close = CloseFrame::Transport(TransportError::new(
                mpquic_sched_core::TransportErrorCode::NO_ERROR,
                "the last path was abandoned",
            ));
            self.start_closing(now, close, true);
            return Ok(());
        }
        // Not every peer may like paths that begin so soon.
        self.early_path_refused |= !self.confirmed;
        self.abandon_path(now, id, error_code, true);
        Ok(())
    }

    /// Ends a path ID, opened or not. Its data in flight goes back to the queues.
    pub(crate) fn abandon_path(
        &mut self,
        now: Instant,
        id: PathId,
        error_code: PathErrorCode,
        by_peer: bool,
    ) {
        let pto = self.paths.largest_pto();
        //= specs/rfc10069-draft.md#path-close
        //# Endpoints that send a PATH_ABANDON frame MUST treat all connection IDs received from the
        //# peer for the path ID indicated in the PATH_ABANDON as immediately retired, and
        //# subsequently cannot send any packet on that path anymore.
        if let Some(token) = self.paths.remote_cids_mut().abandon(id) {
            self.forget_reset_token(id, token);
        }
        self.paths.local_cids_mut().stop_issuing(id);
        let (space, last) = match self.paths.take(id) {
            Some(mut path) => {
                let last = (path.tuple(), path.stats(self.paths.controller()));
                let kind = PathUpdateKind::Abandoned;
                let event = mpquic_sched_core::PathUpdate::new(path.index, id, now, kind)
                    .with_key(path.tuple().key());
                self.requeue_in_flight(now, &mut path);
                self.paths.on_slot_left(path.index);
                self.data.on_path_ended(&event);
                (path.into_space(), Some(last))
            }
            None => {
                self.paths.abandon_unused(id);
                (PacketSpace::new(&mut self.rng), None)
            }
        };
        //= specs/rfc10069-draft.md#path-close
        //# Therefore, knowledge of the connection IDs issued to the peer and of the state of the
        //# number space associated to the path SHOULD be retained for 3 PTO after the PATH_ABANDON
        //# frame has been received.
        let discard_at = by_peer.then(|| now + 3 * pto);
        //= specs/rfc10069-draft.md#path-close
        //# An endpoint that wants to abandon a path MUST explicitly close the path by sending a
        //# PATH_ABANDON frame (see {{path-abandon-frame}}).
        //= specs/rfc10069-draft.md#path-close
        //# When an endpoint receives a PATH_ABANDON frame, it MUST send a corresponding
        //# PATH_ABANDON frame, if it has not already done so, and respectively treat all connection
        //# IDs received from the peer for that path as immediately retired.
        let retired = RetiredPath::new(id, space, discard_at, last);
        let dropped = self.paths.retire(retired, error_code);
        let tuple = last.map(|(tuple, _)| tuple);
        let kind = PathChangeKind::Abandoned {
            error_code,
            by_peer,
        };
        self.watch
            .note(now, Observation::Path(PathChange { id, tuple, kind }));
        if let Some(dropped) = dropped {
            self.discard_path(now, dropped.id);
        }
        self.events.push_back(Event::Path(PathEvent::Abandoned {
            id,
            error_code,
            by_peer,
        }));
        self.raise_path_limit();
    }

    /// Allows the peer as many new path IDs as the abandoned ones make room for.
    fn raise_path_limit(&mut self) {
        let max = self.paths.limit(self.config.max_paths);
        if let Some(limits) = self.paths.limits_mut() {
            limits.raise_local(max);
        }
        self.issue_cids();
    }

    /// Forgets what was kept of an abandoned path.
    pub(super) fn discard_path(&mut self, now: Instant, id: PathId) {
        for cid in self.paths.local_cids_mut().drop_path(id) {
            self.endpoint_events
                .push_back(EndpointEvent::RetireCid(cid));
        }
        self.events
            .push_back(Event::Path(PathEvent::Discarded { id }));
        let (tuple, kind) = (None, PathChangeKind::Discarded);
        self.watch
            .note(now, Observation::Path(PathChange { id, tuple, kind }));
        self.raise_path_limit();
    }
}
