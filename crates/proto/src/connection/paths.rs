//! Paths as the application sees them, and what their life means for the other parts of the connection: the scheduler,
//! streams, batches and observers hear of a path that is opened, validated, moved, abandoned or discarded.

use std::time::Instant;

use mpquic_sched_core::{
    ConnectionFacts, Lost, MAX_PATHS, PathIndex, PathStatus, PathUpdate, PathUpdateKind, Scheduler,
    Side,
};
use smallvec::SmallVec;

use super::{Connection, Event, PathMut};
use crate::closing::CloseFrame;
use crate::config::PathStart;
use crate::path::{Path, PeerAbandons, Proof};
use crate::space::SpaceId;
use crate::{
    ConnectionError, FourTuple, Observation, PathChange, PathChangeKind, PathError, PathErrorCode,
    PathEvent, PathId, PathRef, PathsRef, TransportError,
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

    /// An open path, to be read.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path(&self, id: PathId) -> Result<PathRef<'_>, PathError> {
        self.paths.path_handle(id)
    }

    /// A path, to be changed. Its methods tell if it is not open.
    pub fn path_mut(&mut self, id: PathId) -> PathMut<'_> {
        PathMut::new(self, id)
    }

    /// The paths as a whole: which are open, and what concerns all of them.
    pub fn paths(&self) -> PathsRef<'_> {
        self.paths.handle()
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
        ConnectionFacts::new(self.side, self.paths.handshake_tuple().remote)
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
