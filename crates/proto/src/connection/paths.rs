//! Paths as the application sees them, and what their life means for the other parts of the connection: the scheduler,
//! streams, batches and observers hear of a path that is opened, validated, moved, abandoned or discarded.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mpquic_sched_core::{
    ConnectionFacts, Lost, MAX_PATHS, PathIndex, PathStatus, PathUpdate, PathUpdateKind, Scheduler,
    Side,
};
use smallvec::SmallVec;

use super::{Connection, Event};
use crate::closing::CloseFrame;
use crate::config::PathStart;
use crate::path::{Path, PeerAbandons, Proof};
use crate::space::SpaceId;
use crate::{
    ConnectionError, FourTuple, Observation, PathChange, PathChangeKind, PathError, PathErrorCode,
    PathEvent, PathId, PathStats, TransportError,
};

/// Bytes of the headers of IP and UDP.
const fn headers(remote: IpAddr) -> u32 {
    match remote.to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

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
            PathStart::Complete if !self.paths.was_early_refused() => self.state.is_established(),
            _ => self.handshake.is_confirmed(),
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
        let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
        let (id, index) = self.paths.open(now, tuple, rng, events)?;
        self.on_path_added(now, index);
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

    /// Issues new connection IDs for all paths, and asks the peer to retire those that it has. For when the
    /// [generator](crate::ConnectionIdGenerator) makes other ones from now on. Does nothing before the connection is
    /// established, nor for paths of which the peer has not retired those of the last time.
    pub fn replace_connection_ids(&mut self) {
        if self.state.is_established() {
            let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
            self.paths.replace_cids(rng, events);
        }
    }

    /// A path that has carried enough for datagrams beyond the configured size to pay, if its link takes such: answer with
    /// [`set_link_mtu`](Self::set_link_mtu). A driver that never asks leaves it at that size.
    pub fn link_mtu_wanted(&self, now: Instant) -> Option<(PathId, FourTuple)> {
        let mut paths = self.paths.iter();
        let path = paths.find(|path| path.wants_link_mtu(now))?;
        Some((path.id, path.tuple()))
    }

    /// The link by which datagrams with these addresses leave takes IP packets of `mtu` bytes; `None` if the system does not
    /// tell. The search for the path MTU goes on up to it. Nothing happens if the path has other addresses by now, or
    /// [`TransportConfig::max_mtu`](crate::TransportConfig::max_mtu) was set.
    pub fn set_link_mtu(
        &mut self,
        now: Instant,
        id: PathId,
        network_path: &FourTuple,
        mtu: Option<u32>,
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if path.tuple() == *network_path {
            let payload = mtu
                .unwrap_or(0)
                .saturating_sub(headers(network_path.remote.ip()));
            path.set_link_mtu(now, u16::try_from(payload).unwrap_or(u16::MAX));
        }
    }
}

/// Moves to another address of ours.
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
        self.move_path(now, id, local, true)
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
        self.move_path(now, id, local, false)
    }

    /// Takes another address of ours into use for a path. `returns`: it goes back to the one that it has if it cannot be
    /// reached at the new one.
    fn move_path(
        &mut self,
        now: Instant,
        id: PathId,
        local: SocketAddr,
        returns: bool,
    ) -> Result<(), PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if self.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        //= specs/rfc9000.txt#section-9
        //# An endpoint MUST NOT initiate connection migration before the handshake is confirmed, as
        //# defined in Section 4.1.2 of [QUIC-TLS].
        if !self.handshake.is_confirmed() {
            return Err(PathError::HandshakeIncomplete);
        }
        let events = &mut self.endpoint_events;
        if let Some(index) = self.paths.move_to(now, id, local, returns, events)? {
            self.data.on_path_moved(index);
        }
        Ok(())
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
        if self.handshake.attempt().is_some() && self.state.is_handshaking() {
            return self.handle_send_error(now, network_path, "its socket is closed");
        }
        let local = network_path.local;
        let lost = ConnectionError::LocalAddressLost { local, reason };
        self.end(now, Some(lost).filter(|_| self.state.is_alive()));
    }
}

/// The scheduler.
impl Connection {
    /// What a factory of schedulers is told of this connection.
    pub fn facts(&self) -> ConnectionFacts {
        ConnectionFacts::new(
            self.side,
            self.paths.handshake_tuple().remote,
            self.config.tag,
        )
    }

    /// Schedules by this one from now on. It is told of the open paths and of the streams that are not delivered as if they had just come: `Opened`,
    /// `Validated`, `Status` and `Suspect` of paths; `Opened`, `Hint`, `Written` (all that was written so far) and `Finished` of streams.
    /// What was sent before stays as it is: nothing is lost or sent twice for it. Acknowledgements of it reach the new scheduler, with
    /// numbers of decisions that it did not make.
    ///
    /// What the old one has learned goes with it, but for what it leaves in a memory. Does nothing once the connection is over.
    pub fn set_scheduler(&mut self, now: Instant, scheduler: Box<dyn Scheduler>) {
        if self.is_closed() {
            return;
        }
        self.data.replace_scheduler(now, scheduler);
        let paths = self.paths.iter().map(|path| {
            let status = path.status().effective();
            (path.index, path.is_validated(), status, path.is_suspect())
        });
        let paths: SmallVec<[_; MAX_PATHS]> = paths.collect();
        for (index, validated, status, suspect) in paths {
            self.tell_scheduler(now, index, PathUpdateKind::Opened);
            if validated {
                self.tell_scheduler(now, index, PathUpdateKind::Validated);
            }
            self.tell_scheduler(now, index, PathUpdateKind::Status(status));
            if suspect {
                self.tell_scheduler(now, index, PathUpdateKind::Suspect);
            }
        }
        self.data.tell_of_streams();
    }

    pub(crate) fn tell_scheduler(&mut self, now: Instant, index: PathIndex, kind: PathUpdateKind) {
        let Some(path) = self.paths.at(index) else {
            return;
        };
        let (id, tuple) = (path.id, path.tuple());
        let event = PathUpdate::new(index, id, now, kind).with_key(tuple.key());
        self.data.on_path(&event);
        if kind == PathUpdateKind::Suspect && self.watch.wants_losses() {
            let trouble = path.trouble(now, self.paths.has_other_usable(index));
            self.watch.on_trouble(now, id, &trouble);
        }
        self.watch.on_path_update(now, id, tuple, kind);
    }
}

/// What paths go through.
impl Connection {
    /// A path takes up its slot; its addresses are being validated.
    pub(crate) fn on_path_added(&mut self, now: Instant, index: PathIndex) {
        self.data.on_new_path(index);
        self.tell_scheduler(now, index, PathUpdateKind::Opened);
    }

    /// A path can carry data that could not before: what had nowhere to go until now is offered.
    pub(super) fn on_path_usable(
        &mut self,
        now: Instant,
        index: PathIndex,
        event: PathEvent,
        kind: PathUpdateKind,
    ) {
        self.offer_stranded(now);
        self.events.push_back(Event::Path(event));
        self.tell_scheduler(now, index, kind);
    }

    /// A PATH_RESPONSE came on this path.
    pub(crate) fn on_path_response(&mut self, now: Instant, id: PathId, token: u64) {
        let events = &mut self.endpoint_events;
        let Some((index, proof)) = self.paths.on_path_response(now, id, token, events) else {
            return;
        };
        if proof != Proof::Nothing {
            let proven = self.paths.get(id).map(Path::tuple);
            self.handshake.on_address_proven(now, &mut self.rng, proven);
        }
        match proof {
            Proof::Nothing => {}
            Proof::Opened => {
                let event = PathEvent::Opened { id };
                self.on_path_usable(now, index, event, PathUpdateKind::Validated);
            }
            Proof::Moved => {
                self.offer_stranded(now);
                self.announce_move(now, index);
                self.paths.give_up_elsewhere(index);
                self.on_packets_lost(now, index, SpaceId::Data);
            }
            Proof::Tried => self.on_path_switched(now, index),
        }
    }

    /// A path has taken other addresses into use.
    #[cold]
    pub(crate) fn on_path_switched(&mut self, now: Instant, index: PathIndex) {
        self.data.on_path_moved(index);
        self.announce_move(now, index);
    }

    /// The addresses of a path that was open before are new, and proven if they need to be.
    fn announce_move(&mut self, now: Instant, index: PathIndex) {
        let Some((id, key)) = self.paths.settle_move(now, index) else {
            return;
        };
        if self.data.path_key(index) != Some(key) {
            self.tell_scheduler(now, index, PathUpdateKind::Moved);
        }
        self.events.push_back(Event::Path(PathEvent::Moved { id }));
    }

    /// Tells the application, on clients, that a path can be opened now; once per path.
    pub(crate) fn announce_available(&mut self) {
        if !self.may_open_paths() {
            return;
        }
        if let Some(next) = self.paths.take_available() {
            self.events
                .push_back(Event::Path(PathEvent::Available { next }));
        }
    }

    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP came.
    pub(crate) fn on_path_status(
        &mut self,
        now: Instant,
        id: u64,
        status: PathStatus,
        seq: u64,
    ) -> Result<(), TransportError> {
        if let Some((id, index, effective)) = self.paths.on_status(id, status, seq)? {
            let event = PathEvent::RemoteStatus { id, status };
            self.events.push_back(Event::Path(event));
            self.tell_scheduler(now, index, PathUpdateKind::Status(effective));
        }
        Ok(())
    }

    /// PATH_ABANDON came.
    pub(crate) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: u64,
        error_code: PathErrorCode,
    ) -> Result<(), TransportError> {
        match self
            .paths
            .on_peer_abandons(now, id, self.handshake.is_confirmed())?
        {
            PeerAbandons::Nothing => {}
            PeerAbandons::LastPath(id) => {
                // The path stays for as long as CONNECTION_CLOSE has to travel on it.
                self.events.push_back(Event::Path(PathEvent::Abandoned {
                    id,
                    error_code,
                    by_peer: true,
                }));
                //= specs/rfc10069-draft.md#path-close
                //# If a PATH_ABANDON frame is received for the only open path of a QUIC connection,
                //# the receiving peer SHOULD send a CONNECTION_CLOSE frame and enter the closing
                //# state.
                let close = CloseFrame::Transport(TransportError::new(
                    mpquic_sched_core::TransportErrorCode::NO_ERROR,
                    "the last path was abandoned",
                ));
                self.start_closing(now, close, true);
            }
            PeerAbandons::Path(id) => {
                self.abandon_path(now, id, error_code, true);
            }
        }
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
        let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
        let abandoned = self
            .paths
            .abandon(now, id, error_code, by_peer, rng, events);
        if let Some((index, tuple)) = abandoned.last {
            let given_up = self.paths.take_lost();
            self.watch.on_given_up(now, id, &given_up);
            for (_, packet) in &given_up {
                for frame in &packet.frames {
                    self.on_frame_lost(SpaceId::Data, frame, index);
                }
                let (sent, size) = (packet.time_sent, packet.size);
                self.data
                    .on_lost(&Lost::new(index, now, sent, size, packet.decision));
            }
            self.paths.reuse_lost(given_up);
            let update = PathUpdate::new(index, id, now, PathUpdateKind::Abandoned);
            self.data.on_path_ended(&update.with_key(tuple.key()));
        }
        let tuple = abandoned.last.map(|(_, tuple)| tuple);
        let kind = PathChangeKind::Abandoned {
            error_code,
            by_peer,
        };
        self.watch
            .note(now, Observation::Path(PathChange { id, tuple, kind }));
        if let Some(id) = abandoned.discarded {
            self.on_path_discarded(now, id);
        }
        self.events.push_back(Event::Path(PathEvent::Abandoned {
            id,
            error_code,
            by_peer,
        }));
    }

    /// Nothing is kept of an abandoned path any more.
    pub(super) fn on_path_discarded(&mut self, now: Instant, id: PathId) {
        self.events
            .push_back(Event::Path(PathEvent::Discarded { id }));
        let (tuple, kind) = (None, PathChangeKind::Discarded);
        self.watch
            .note(now, Observation::Path(PathChange { id, tuple, kind }));
    }
}
