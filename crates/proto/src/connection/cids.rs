//! Issues connection IDs for each path ID that may be used (RFC 9000 section 5.1, RFC 10069, issuing
//! new connection IDs) and keeps the endpoint's routing in step.

use smallvec::SmallVec;

use super::Connection;
use crate::cid::{OnNew, Rotation};
use crate::events::EndpointEvent;
use crate::frame::{NewConnectionId, RetireConnectionId};
use crate::path::PathState;
use crate::{Event, PathEvent, PathId, TransportError, limits};

/// Connection IDs issued ahead for a path ID that is not in use yet: one opens the path.
const ISSUED_AHEAD: u64 = 1;

impl Connection {
    /// Issues what is missing, up to the peer's active_connection_id_limit per path.
    pub(crate) fn issue_cids(&mut self) {
        if !self.state.is_established() {
            return;
        }
        let most = self
            .peer
            .active_connection_id_limit
            .min(limits::MAX_ISSUED_CIDS_PER_PATH);
        let last = match self.paths.limits() {
            Some(limits) => limits.issue_max(self.paths.largest_used()),
            None => PathId::ZERO,
        };
        //= specs/rfc10069-draft.md#issuing-new-connection-ids
        //# If for any reason an endpoint does not want to issue connection IDs for all unused path
        //# ID, it SHOULD NOT introduce discontinuity in the issuing of path IDs as path initiation
        //# requires available connection IDs for the same path ID on both sides.
        let ids: SmallVec<[PathId; 32]> = self.paths.not_abandoned(last).collect();
        for id in ids {
            let wanted = match self.paths.get(id) {
                Some(_) => most,
                None => most.min(ISSUED_AHEAD),
            };
            self.issue_cids_of(id, wanted);
        }
    }

    /// Issues new connection IDs for all paths, and asks the peer to retire those that it has. For when the
    /// [generator](crate::ConnectionIdGenerator) makes other ones from now on. Does nothing before the connection is
    /// established, nor for paths of which the peer has not retired those of the last time.
    pub fn replace_connection_ids(&mut self) {
        if self.state.is_established() {
            self.paths.local_cids_mut().replace_all();
            self.issue_cids();
        }
    }

    /// Issues connection IDs for the first further paths before the handshake is complete, so that a client has them
    /// when it is. Only a server does it: it has 1-RTT keys a round trip before the client can use them.
    pub(crate) fn issue_early_cids(&mut self) {
        let Some(limits) = self.paths.limits() else {
            return;
        };
        let last = limits.usable_max().0.min(limits::MAX_PATH_IDS_ISSUED_EARLY);
        let wanted = self.peer.active_connection_id_limit.min(ISSUED_AHEAD);
        for id in 1..=last {
            self.issue_cids_of(PathId(id), wanted);
        }
    }

    /// Issues what a path ID lacks of this many connection IDs.
    fn issue_cids_of(&mut self, id: PathId, wanted: u64) {
        for _ in 0..self.paths.local_cids().needed(id, wanted) {
            let cid = self.cid_generator.generate(&mut self.rng);
            let token = self.reset_key.token(&cid);
            self.endpoint_events.push_back(EndpointEvent::AddCid(cid));
            self.paths.local_cids_mut().issue(id, cid, token);
        }
    }

    /// NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID.
    pub(crate) fn on_new_cid(&mut self, frame: &NewConnectionId) -> Result<(), TransportError> {
        let id = match self.paths.of_frame(frame.path)? {
            //= specs/rfc10069-draft.md#frames
            //# If an endpoint receives a multipath-specific frame with a path ID that it cannot
            //# process anymore (e.g., because the path might have been abandoned), it MUST silently
            //# ignore the frame.
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => id,
            PathState::Open(path) => path.id,
        };
        let had_any = self.paths.has_cid(id) || self.paths.remote_cids().has_unused(id);
        let outcome = self.paths.remote_cids_mut().on_new(
            id,
            frame.sequence,
            frame.retire_prior_to,
            frame.id,
            frame.reset_token,
        )?;
        if let OnNew::Rotated(rotation) = outcome {
            self.apply_rotation(id, rotation);
        }
        if self.paths.get(id).is_some() {
            // The client opened the path before its connection IDs for it arrived.
            self.activate_cid(id);
        } else if !had_any {
            if let Some(limits) = self.paths.limits_mut() {
                limits.on_cid(id);
            }
            self.announce_available();
        }
        Ok(())
    }

    /// RETIRE_CONNECTION_ID or PATH_RETIRE_CONNECTION_ID, in a packet sent to `dcid`.
    pub(crate) fn on_retire_cid(
        &mut self,
        frame: &RetireConnectionId,
        dcid: &mpquic_sched_core::ConnectionId,
    ) -> Result<(), TransportError> {
        let id = match self.paths.of_frame(frame.path)? {
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => id,
            PathState::Open(path) => path.id,
        };
        //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
        //# As such, when receiving a PATH_RETIRE_CONNECTION_ID frame, an endpoint SHOULD provide
        //# new connection IDs for that path, if still open, using PATH_NEW_CONNECTION_ID frames.
        //= specs/rfc9000.txt#section-5.1.1
        //# An endpoint SHOULD supply a new connection ID when the peer retires a connection ID.
        if let Some(cid) = self
            .paths
            .local_cids_mut()
            .retire(id, frame.sequence, dcid)?
        {
            self.endpoint_events
                .push_back(EndpointEvent::RetireCid(cid));
        }
        self.issue_cids();
        Ok(())
    }

    /// Takes the first connection ID of the peer for this path into use, unless one is.
    pub(crate) fn activate_cid(&mut self, id: PathId) {
        if let Some(rotation) = self.paths.remote_cids_mut().activate(id) {
            self.apply_rotation(id, rotation);
        }
    }

    /// Tells the endpoint which stateless reset tokens count on the path's remote address
    /// (RFC 9000 section 10.3.1: those of connection IDs in use).
    fn apply_rotation(&mut self, id: PathId, rotation: Rotation) {
        if let Some(token) = rotation.retired_token {
            self.forget_reset_token(id, token);
        }
        if let Some(token) = rotation.token {
            self.add_reset_token(id, token);
        }
    }

    pub(crate) fn add_reset_token(&mut self, id: PathId, token: [u8; 16]) {
        if let Some(path) = self.paths.get(id) {
            self.endpoint_events
                .push_back(EndpointEvent::AddResetToken(path.tuple().remote, token));
        }
    }

    pub(crate) fn forget_reset_token(&mut self, id: PathId, token: [u8; 16]) {
        if let Some(path) = self.paths.get(id) {
            self.endpoint_events
                .push_back(EndpointEvent::RemoveResetToken(path.tuple().remote, token));
        }
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
}
