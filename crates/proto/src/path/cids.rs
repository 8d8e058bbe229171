//! Connection IDs of the paths: ours are issued for each path ID that may be used (RFC 9000 section 5.1; RFC 10069,
//! issuing new connection IDs), the peer's are taken into use. The endpoint is told which lead here.

use mpquic_sched_core::ConnectionId;
use mpquic_wire::frame::{NewConnectionId, RetireConnectionId};
use mpquic_wire::transport_parameters::TransportParameters;
use rand::rngs::StdRng;
use smallvec::SmallVec;

use super::set::PeerFacts;
use super::{Addresses, PathState, Paths};
use crate::cid::{OnNew, ResetToken, Rotation};
use crate::events::{EndpointEvent, EndpointEvents};
use crate::{FourTuple, PathId, TransportError, limits};

/// Connection IDs issued ahead for a path ID that is not in use yet: one opens the path.
const ISSUED_AHEAD: u64 = 1;

impl Paths {
    /// The peer's transport parameters are known.
    pub(crate) fn set_peer(
        &mut self,
        peer: &TransportParameters,
        events: &mut EndpointEvents,
    ) -> Result<(), TransportError> {
        self.ack_frequency.set_peer(peer);
        self.peer = PeerFacts::from(peer);
        if let Some(token) = peer.stateless_reset_token
            && self.remote_cids.set_reset_token(token)
        {
            self.add_reset_token(PathId::ZERO, token, events);
        }
        if let Some(preferred) = peer.preferred_address {
            //= specs/rfc10069-draft.md#relation-to-other-transport-parameters
            //# A such, the path ID for the connection ID specified in the preferred_address transport
            //# parameter is 0.
            let (id, token) = (preferred.connection_id, preferred.stateless_reset_token);
            self.remote_cids.on_new(PathId::ZERO, 1, 0, id, token)?;
        }
        if let Some(index) = self.get(PathId::ZERO).map(|path| path.index) {
            self.limit_mtu(index);
        }
        Ok(())
    }

    /// The handshake is complete: issues what is missing, up to the peer's active_connection_id_limit per path.
    pub(crate) fn issue_cids(&mut self, rng: &mut StdRng, events: &mut EndpointEvents) {
        let most = self.peer.cid_limit.min(limits::MAX_ISSUED_CIDS_PER_PATH);
        let last = match &self.limits {
            Some(limits) => limits.issue_max(self.largest_used()),
            None => PathId::ZERO,
        };
        //= specs/rfc10069-draft.md#issuing-new-connection-ids
        //# If for any reason an endpoint does not want to issue connection IDs for all unused path
        //# ID, it SHOULD NOT introduce discontinuity in the issuing of path IDs as path initiation
        //# requires available connection IDs for the same path ID on both sides.
        let ids: SmallVec<[PathId; 32]> = self.not_abandoned(last).collect();
        for id in ids {
            let wanted = match self.get(id) {
                Some(_) => most,
                None => most.min(ISSUED_AHEAD),
            };
            self.issue_cids_of(id, wanted, rng, events);
        }
    }

    /// Issues connection IDs for the first further paths before the handshake is complete, so that a client has them
    /// when it is. Only a server does it: it has 1-RTT keys a round trip before the client can use them.
    pub(crate) fn issue_early_cids(&mut self, rng: &mut StdRng, events: &mut EndpointEvents) {
        let Some(limits) = &self.limits else {
            return;
        };
        let last = limits.usable_max().0.min(limits::MAX_PATH_IDS_ISSUED_EARLY);
        let wanted = self.peer.cid_limit.min(ISSUED_AHEAD);
        for id in 1..=last {
            self.issue_cids_of(PathId(id), wanted, rng, events);
        }
    }

    /// Issues new connection IDs for all paths, and asks the peer to retire those that it has.
    pub(crate) fn replace_cids(&mut self, rng: &mut StdRng, events: &mut EndpointEvents) {
        self.local_cids.replace_all();
        self.issue_cids(rng, events);
    }

    /// Issues what a path ID lacks of this many connection IDs.
    fn issue_cids_of(
        &mut self,
        id: PathId,
        wanted: u64,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) {
        for _ in 0..self.local_cids.needed(id, wanted) {
            let cid = self.cid_generator.generate(rng);
            let token = self.reset_key.token(&cid);
            events.push_back(EndpointEvent::AddCid(cid));
            self.local_cids.issue(id, cid, token);
        }
    }

    /// The connection ID that our transport parameter preferred_address brings to the peer.
    pub(crate) fn add_preferred_cid(
        &mut self,
        cid: ConnectionId,
        token: ResetToken,
        events: &mut EndpointEvents,
    ) {
        events.push_back(EndpointEvent::AddCid(cid));
        self.local_cids.add_preferred(cid, token);
    }

    /// The stateless reset token of one of our connection IDs.
    pub(crate) fn reset_token(&self, cid: &ConnectionId) -> ResetToken {
        self.reset_key.token(cid)
    }

    /// The peer's connection ID for packets to these addresses of a path.
    #[inline]
    pub(crate) fn remote_cid(&mut self, id: PathId, to: Addresses) -> Option<ConnectionId> {
        match to {
            Addresses::Current => self.remote_cids.active(id),
            Addresses::Previous => self.remote_cids.for_other(id),
        }
    }

    /// The source connection ID of the server's first packet (RFC 9000 section 7.2), or of a Retry.
    pub(crate) fn replace_remote_cid(&mut self, cid: ConnectionId) {
        self.remote_cids.replace_initial(cid);
    }

    /// Counts a datagram for the path that its first packet belongs to (RFC 9000 section 8.1: all bytes count, decryptable
    /// or not): by its connection ID, or path 0 for a packet with a long header.
    pub(crate) fn on_datagram(
        &mut self,
        short: Option<&ConnectionId>,
        from: &FourTuple,
        bytes: usize,
    ) {
        let id = match short {
            Some(dcid) => self.local_cids.path_of(dcid),
            None => Some(PathId::ZERO),
        };
        if let Some(path) = id.and_then(|id| self.get_mut(id)) {
            path.on_datagram_received(from, bytes);
        }
    }

    /// NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID. Whether a path may be available now that was not.
    pub(crate) fn on_new_cid(
        &mut self,
        frame: &NewConnectionId,
        events: &mut EndpointEvents,
    ) -> Result<bool, TransportError> {
        let (id, open) = match self.of_frame(frame.path)? {
            //= specs/rfc10069-draft.md#frames
            //# If an endpoint receives a multipath-specific frame with a path ID that it cannot
            //# process anymore (e.g., because the path might have been abandoned), it MUST silently
            //# ignore the frame.
            PathState::Abandoned(_) => return Ok(false),
            PathState::NeverOpened(id) => (id, false),
            PathState::Open(path) => (path.id, true),
        };
        let had_any = self.has_cid(id) || self.remote_cids.has_unused(id);
        let outcome = self.remote_cids.on_new(
            id,
            frame.sequence,
            frame.retire_prior_to,
            frame.id,
            frame.reset_token,
        )?;
        if let OnNew::Rotated(rotation) = outcome {
            self.apply_rotation(id, rotation, events);
        }
        if open {
            // The client opened the path before its connection IDs for it arrived.
            self.activate_cid(id, events);
            return Ok(false);
        }
        if !had_any && let Some(limits) = &mut self.limits {
            limits.on_cid(id);
        }
        Ok(!had_any)
    }

    /// RETIRE_CONNECTION_ID or PATH_RETIRE_CONNECTION_ID, in a packet sent to `dcid`.
    pub(crate) fn on_retire_cid(
        &mut self,
        frame: &RetireConnectionId,
        dcid: &ConnectionId,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Result<(), TransportError> {
        let id = match self.of_frame(frame.path)? {
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => id,
            PathState::Open(path) => path.id,
        };
        //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
        //# As such, when receiving a PATH_RETIRE_CONNECTION_ID frame, an endpoint SHOULD provide
        //# new connection IDs for that path, if still open, using PATH_NEW_CONNECTION_ID frames.
        //= specs/rfc9000.txt#section-5.1.1
        //# An endpoint SHOULD supply a new connection ID when the peer retires a connection ID.
        if let Some(cid) = self.local_cids.retire(id, frame.sequence, dcid)? {
            events.push_back(EndpointEvent::RetireCid(cid));
        }
        self.issue_cids(rng, events);
        Ok(())
    }

    /// MAX_PATH_ID came. Whether a path may be available now that was not.
    pub(crate) fn on_max_path_id(
        &mut self,
        max: u64,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Result<bool, TransportError> {
        let initial = self.peer.initial_max_path_id;
        let raised = self.limits_of_frame()?.on_max_path_id(max, initial)?;
        if raised {
            self.issue_cids(rng, events);
        }
        Ok(raised)
    }

    /// PATH_CIDS_BLOCKED came.
    pub(crate) fn on_cids_blocked(
        &mut self,
        path: u64,
        next_seq: u64,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Result<(), TransportError> {
        let id = match self.of_frame(Some(path))? {
            PathState::Abandoned(_) => return Ok(()),
            PathState::NeverOpened(id) => id,
            PathState::Open(path) => path.id,
        };
        //= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
        //# Receipt of a value of Next Sequence Number that is higher than the sequence number of
        //# the next expected to be issued connection ID for this path MUST be treated as a
        //# connection error of type PROTOCOL_VIOLATION.
        if next_seq > self.local_cids.next_sequence(id) {
            return Err(TransportError::protocol_violation(
                "PATH_CIDS_BLOCKED expects a connection ID beyond the next",
            ));
        }
        self.issue_cids(rng, events);
        Ok(())
    }

    /// Takes the first connection ID of the peer for this path into use, unless one is.
    pub(super) fn activate_cid(&mut self, id: PathId, events: &mut EndpointEvents) {
        if let Some(rotation) = self.remote_cids.activate(id) {
            self.apply_rotation(id, rotation, events);
        }
    }

    /// Forgets our connection IDs of a path.
    pub(super) fn drop_cids(&mut self, id: PathId, events: &mut EndpointEvents) {
        for cid in self.local_cids.drop_path(id) {
            events.push_back(EndpointEvent::RetireCid(cid));
        }
    }

    /// Tells the endpoint which stateless reset tokens count on the path's remote address
    /// (RFC 9000 section 10.3.1: those of connection IDs in use).
    fn apply_rotation(&mut self, id: PathId, rotation: Rotation, events: &mut EndpointEvents) {
        if let Some(token) = rotation.retired_token {
            self.forget_reset_token(id, token, events);
        }
        if let Some(token) = rotation.token {
            self.add_reset_token(id, token, events);
        }
    }

    fn add_reset_token(&self, id: PathId, token: ResetToken, events: &mut EndpointEvents) {
        if let Some(path) = self.get(id) {
            events.push_back(EndpointEvent::AddResetToken(path.tuple().remote, token));
        }
    }

    pub(super) fn forget_reset_token(
        &self,
        id: PathId,
        token: ResetToken,
        events: &mut EndpointEvents,
    ) {
        if let Some(path) = self.get(id) {
            events.push_back(EndpointEvent::RemoveResetToken(path.tuple().remote, token));
        }
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::Side;
    use rand::SeedableRng;

    use super::super::set::tests::{multipath, open, tuple};
    use super::*;

    fn cids(events: &EndpointEvents) -> Vec<ConnectionId> {
        let added = events.iter().filter_map(|event| match event {
            EndpointEvent::AddCid(cid) => Some(*cid),
            _ => None,
        });
        added.collect()
    }

    #[test]
    fn an_open_path_gets_what_the_peer_takes_and_those_ahead_one_each() {
        let (mut rng, mut events) = (StdRng::seed_from_u64(1), EndpointEvents::new());
        let mut paths = multipath(Side::Server);
        open(&mut paths, 0);
        let peer = TransportParameters {
            active_connection_id_limit: 3,
            ..TransportParameters::default()
        };
        assert_eq!(paths.set_peer(&peer, &mut events), Ok(()));
        paths.issue_cids(&mut rng, &mut events);
        // Path 0 has that of the handshake; three more are allowed.
        assert_eq!(cids(&events).len() as u64, 2 + 3 * ISSUED_AHEAD);
        events.clear();
        paths.issue_cids(&mut rng, &mut events);
        assert_eq!(cids(&events), [], "nothing is missing");
        let frame = RetireConnectionId {
            path: Some(0),
            sequence: 0,
        };
        // What is in use, by which the frame came, is not retired; another one is, and replaced.
        let other = ConnectionId::new(&[9; 8]);
        let handshake = ConnectionId::new(&[7; 8]);
        let refused = paths.on_retire_cid(&frame, &handshake, &mut rng, &mut events);
        assert!(refused.is_err());
        let retired = paths.on_retire_cid(&frame, &other, &mut rng, &mut events);
        assert_eq!(retired, Ok(()));
        assert_eq!(events[0], EndpointEvent::RetireCid(handshake));
        assert_eq!(cids(&events).len(), 1);
        // PATH_CIDS_BLOCKED: the next one has number 4.
        for (next, taken) in [(4, true), (5, false)] {
            let result = paths.on_cids_blocked(0, next, &mut rng, &mut events);
            assert_eq!(result.is_ok(), taken);
        }
    }

    #[test]
    fn the_endpoint_hears_of_the_tokens_of_connection_ids_in_use() {
        let mut events = EndpointEvents::new();
        let mut paths = multipath(Side::Client);
        open(&mut paths, 0);
        let peer = TransportParameters {
            stateless_reset_token: Some([5; 16]),
            ..TransportParameters::default()
        };
        assert_eq!(paths.set_peer(&peer, &mut events), Ok(()));
        let remote = tuple().remote;
        assert_eq!(events, [EndpointEvent::AddResetToken(remote, [5; 16])]);
        events.clear();
        let frame = |path, sequence, byte: u8| NewConnectionId {
            path: Some(path),
            sequence,
            retire_prior_to: sequence,
            id: ConnectionId::new(&[byte; 8]),
            reset_token: [byte; 16],
        };
        // The first for path 1 makes it available, the next does not.
        assert_eq!(paths.on_new_cid(&frame(1, 0, 1), &mut events), Ok(true));
        assert_eq!(paths.on_new_cid(&frame(1, 1, 2), &mut events), Ok(false));
        assert!(events.is_empty(), "neither is in use");
        // One that retires the one in use takes its place.
        assert_eq!(paths.on_new_cid(&frame(0, 1, 3), &mut events), Ok(false));
        let changed = [
            EndpointEvent::RemoveResetToken(remote, [5; 16]),
            EndpointEvent::AddResetToken(remote, [3; 16]),
        ];
        assert_eq!(events, changed);
    }
}
