//! The life of a path: opened by the client, accepted by the server, validated, abandoned, discarded
//! (RFC 10069, path initiation and path close); builds no packets.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathStatus, PathUpdateKind, Side};

use super::{CloseFrame, Connection, Event};
use crate::congestion::NewPath;
use crate::endpoint::EndpointEvent;
use crate::path::{Path, PathState, RetiredPath};
use crate::space::PacketSpace;
use crate::{FourTuple, PathError, PathErrorCode, PathEvent, PathId, TransportError};

/// PATH_CHALLENGEs on a path without an RTT sample are repeated no sooner than after this time.
const MIN_CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);

impl Connection {
    /// Opens a path; on clients only, after the handshake is confirmed.
    /// [`PathEvent::Opened`] follows when the peer's address is validated,
    /// [`PathEvent::Abandoned`] if it cannot be.
    ///
    /// # Errors
    ///
    /// See [`PathError`]. If the peer's limit or its connection IDs stand in the way, the peer is
    /// told, and [`PathEvent::Available`] follows when they no longer do.
    pub fn open_path(&mut self, now: Instant, tuple: FourTuple) -> Result<PathId, PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        if self.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        if !self.confirmed {
            return Err(PathError::HandshakeIncomplete);
        }
        let Some(limits) = &mut self.path_limits else {
            return Err(PathError::MultipathNotNegotiated);
        };
        let open = self.paths.open_count();
        if open >= self.config.max_paths as usize {
            return Err(PathError::TooManyPaths(open));
        }
        let usable = limits.usable_max();
        let Some(id) = self.paths.next_unused(usable) else {
            limits.note_blocked();
            return Err(PathError::NoPathIdLeft { limit: usable });
        };
        if !self.remote_cids.has_unused(id) {
            limits.note_cids_blocked(id);
            return Err(PathError::NoCidAvailable { path: id });
        }
        let interval = self.challenge_interval();
        let path = self
            .add_path(now, id, tuple)
            .ok_or(PathError::TooManyPaths(open))?;
        path.network.start_challenge(now, interval);
        // A client may send before the peer's address is validated; only data waits for that.
        path.network.on_received(usize::MAX / 8);
        self.activate_cid(id);
        self.issue_cids();
        Ok(id)
    }

    /// A packet on a path ID that was not used before decrypted: on servers, the client opens it.
    /// `None` if there is no room for it, or this side is the client, whose peer opens no paths.
    pub(crate) fn accept_path(&mut self, now: Instant, id: PathId, tuple: FourTuple) -> Option<()> {
        if self.side == Side::Client || self.path_limits.is_none() || !self.state.is_established() {
            return None;
        }
        let interval = self.challenge_interval();
        let path = self.add_path(now, id, tuple)?;
        path.network.start_challenge(now, interval);
        self.activate_cid(id);
        self.issue_cids();
        Some(())
    }

    pub(crate) fn challenge_interval(&self) -> Duration {
        self.largest_pto().max(MIN_CHALLENGE_INTERVAL)
    }

    fn add_path(&mut self, now: Instant, id: PathId, tuple: FourTuple) -> Option<&mut Path> {
        let index = self.paths.free_slot()?;
        let space = PacketSpace::new(&mut self.rng);
        let new = NewPath::new(index, now, self.config.initial_mtu);
        self.controller.add_path(&new);
        self.schedule.cursors.reset(index);
        let path = Path::new(now, id, index, tuple, false, space, &self.config);
        self.paths.insert(path);
        self.limit_mtu(id);
        self.tell_scheduler(now, id, index, PathUpdateKind::Opened);
        self.paths.get_mut(id)
    }

    /// The peer's max_udp_payload_size holds for every path.
    pub(crate) fn limit_mtu(&mut self, id: PathId) {
        let limit = u16::try_from(self.peer.max_udp_payload_size).unwrap_or(u16::MAX);
        if let Some(path) = self.paths.get_mut(id)
            && path.mtu.set_peer_limit(limit)
        {
            self.controller
                .on_mtu_update(path.index, path.mtu.current());
        }
    }

    pub(crate) fn tell_scheduler_of_first_path(&mut self, now: Instant) {
        if let Some(index) = self.paths.get(PathId::ZERO).map(|path| path.index) {
            self.tell_scheduler(now, PathId::ZERO, index, PathUpdateKind::Opened);
            self.tell_scheduler(now, PathId::ZERO, index, PathUpdateKind::Validated);
        }
    }

    pub(crate) fn tell_scheduler(
        &mut self,
        now: Instant,
        id: PathId,
        index: PathIndex,
        kind: PathUpdateKind,
    ) {
        let mut event = mpquic_sched_core::PathUpdate::new(index, id.0, now, kind);
        event.key = self.paths.get(id).map(|path| path.network.tuple.key());
        self.schedule.views[index.get()].key = event.key;
        self.schedule.on_path(&event);
    }

    /// PATH_ABANDON came.
    pub(crate) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: u64,
        error_code: PathErrorCode,
    ) -> Result<(), TransportError> {
        let until = now + 3 * self.largest_pto();
        let id = match self.path_of_frame(Some(id))? {
            PathState::BeyondLimit => return Err(super::cids::beyond_limit()),
            PathState::Abandoned(None) => return Ok(()),
            PathState::Abandoned(Some(retired)) => {
                // RFC 10069, path close: kept for 3 PTO after the frame was received.
                retired.discard_at.get_or_insert(until);
                return Ok(());
            }
            PathState::NeverOpened(id) => id,
            PathState::Open(path) => path.id,
        };
        let last = self.paths.open_count() == 1 && self.paths.get(id).is_some();
        self.abandon_path(now, id, error_code, true);
        if last {
            // RFC 10069, path close: the only open path is gone.
            let close = CloseFrame::Transport(TransportError::new(
                mpquic_sched_core::TransportErrorCode::NO_ERROR,
                "the last path was abandoned",
            ));
            self.start_closing(now, close, true);
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
        let pto = self.largest_pto();
        // RFC 10069, path close: the peer's connection IDs count as retired at once.
        if let Some(token) = self.remote_cids.abandon(id) {
            self.forget_reset_token(id, token);
        }
        self.local_cids.stop_issuing(id);
        let (space, last) = match self.paths.take(id) {
            Some(mut path) => {
                let last = (path.network.tuple, self.stats_of(&path));
                let kind = PathUpdateKind::Abandoned;
                let event = mpquic_sched_core::PathUpdate::new(path.index, id.0, now, kind)
                    .with_key(path.network.tuple.key());
                self.rehome(now, &mut path);
                self.controller.remove_path(path.index);
                self.schedule.forget_path(path.index);
                self.streams.forget_path(path.index);
                for other in self.paths.iter_mut() {
                    other.space.sent.forget_path(path.index);
                }
                self.schedule.on_path(&event);
                (path.space, Some(last))
            }
            None => {
                self.paths.abandon_unused(id);
                (PacketSpace::new(&mut self.rng), None)
            }
        };
        let dropped = self.paths.retire(RetiredPath {
            id,
            space,
            discard_at: by_peer.then(|| now + 3 * pto),
            abandon_pending: true,
            error_code,
            last,
        });
        if let Some(dropped) = dropped {
            self.discard_path(dropped.id);
        }
        self.events.push_back(Event::Path(PathEvent::Abandoned {
            id,
            error_code,
            by_peer,
        }));
        let max = self.config.max_paths - 1 + self.paths.abandoned_count();
        if let Some(limits) = &mut self.path_limits {
            limits.raise_local(max);
        }
        self.issue_cids();
    }

    /// Forgets what was kept of an abandoned path.
    pub(crate) fn discard_path(&mut self, id: PathId) {
        for cid in self.local_cids.drop_path(id) {
            self.endpoint_events
                .push_back(EndpointEvent::RetireCid(cid));
        }
        self.events
            .push_back(Event::Path(PathEvent::Discarded { id }));
    }

    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP came, perhaps for a path that is not in use yet.
    pub(crate) fn on_path_status(
        &mut self,
        now: Instant,
        id: u64,
        status: PathStatus,
        seq: u64,
    ) -> Result<(), TransportError> {
        let (id, index, effective) = match self.path_of_frame(Some(id))? {
            PathState::BeyondLimit => return Err(super::cids::beyond_limit()),
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => {
                if let Some(early) = self.paths.early_status(id) {
                    early.on_remote(status, seq);
                }
                return Ok(());
            }
            PathState::Open(path) => {
                if !path.status.on_remote(status, seq) {
                    return Ok(());
                }
                (path.id, path.index, path.status.effective())
            }
        };
        self.events
            .push_back(Event::Path(PathEvent::RemoteStatus { id, status }));
        self.tell_scheduler(now, id, index, PathUpdateKind::Status(effective));
        Ok(())
    }

    /// Whether the path ID can carry packets: open, with a connection ID of the peer.
    pub(crate) fn has_cid(&self, id: PathId) -> bool {
        self.remote_cids.active(id).is_some()
    }
}
