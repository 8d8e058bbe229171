//! MAX_PATH_ID in both directions, and the blocked frames (RFC 10069, New Frames).

use crate::{PathId, TransportError, limits};

/// How far path IDs may go.
#[derive(Debug)]
pub(crate) struct PathLimits {
    /// What we told the peer. Path IDs above it are a PROTOCOL_VIOLATION.
    //= specs/rfc10069-draft.md#max-paths-frame
    //= type=implication
    //# This value MUST NOT exceed 2<sup>32</sup>-1, which is the maximum allowed value for the path
    //# ID due to restrictions on the nonce calculation (see {{nonce}}).
    local_max: u32,
    local_pending: bool,
    remote_max: u32,
    blocked: Option<u32>,
    blocked_pending: bool,
    cids_blocked: Option<PathId>,
    cids_blocked_pending: bool,
    /// The path ID that the application was last told it can open.
    announced: Option<PathId>,
}

impl PathLimits {
    /// Both sides' initial_max_path_id.
    pub(crate) fn new(local_max: u32, remote_max: u32) -> Self {
        Self {
            local_max,
            local_pending: false,
            remote_max,
            blocked: None,
            blocked_pending: false,
            cids_blocked: None,
            cids_blocked_pending: false,
            announced: None,
        }
    }

    pub(crate) fn local_max(&self) -> u32 {
        self.local_max
    }

    /// The largest path ID that both sides allow.
    pub(crate) fn usable_max(&self) -> PathId {
        PathId(self.local_max.min(self.remote_max))
    }

    /// The largest path ID for which connection IDs are issued now, given the largest ever used:
    /// not all that a peer allows, were it 2^32-1.
    pub(crate) fn issue_max(&self, largest_used: PathId) -> PathId {
        let ahead = largest_used
            .0
            .saturating_add(limits::MAX_PATH_IDS_ISSUED_AHEAD);
        //= specs/rfc10069-draft.md#issuing-new-connection-ids
        //# Endpoints MUST NOT issue new connection IDs with path IDs greater than the Maximum Path
        //# Identifier field in MAX_PATH_ID frames (see {{max-paths-frame}}) or the value of
        //# initial_max_path_id transport parameter if no MAX_PATH_ID frame was received yet.
        PathId(self.usable_max().0.min(ahead))
    }

    /// Allows the peer path IDs up to this one; never less than before.
    pub(crate) fn raise_local(&mut self, max: u32) {
        //= specs/rfc10069-draft.md#max-paths-frame
        //# The Maximum Path Identifier value MUST NOT be lower than the value advertised in the
        //# initial_max_path_id transport parameter.
        if max > self.local_max {
            self.local_max = max;
            self.local_pending = true;
        }
    }

    /// MAX_PATH_ID came; true if it raised the limit. A smaller value than before is reordering
    /// and ignored.
    pub(crate) fn on_max_path_id(
        &mut self,
        max: u64,
        initial: u32,
    ) -> Result<bool, TransportError> {
        //= specs/rfc10069-draft.md#max-paths-frame
        //# Receipt of an invalid Maximum Path Identifier value MUST be treated as a connection
        //# error of type PROTOCOL_VIOLATION.
        let max = u32::try_from(max)
            .map_err(|_| TransportError::protocol_violation("MAX_PATH_ID above 2^32-1"))?;
        if max < initial {
            return Err(TransportError::protocol_violation(
                "MAX_PATH_ID below initial_max_path_id",
            ));
        }
        //= specs/rfc10069-draft.md#max-paths-frame
        //# MAX_PATH_ID frames that do not increase the path limit MUST be ignored.
        if max <= self.remote_max {
            return Ok(false);
        }
        self.remote_max = max;
        self.blocked = None;
        self.blocked_pending = false;
        Ok(true)
    }

    /// PATHS_BLOCKED came: informational, but its value must be one that we allowed.
    pub(crate) fn on_paths_blocked(&self, max: u64) -> Result<(), TransportError> {
        //= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
        //# Receipt of a value of Maximum Path Identifier or Path Identifier that is higher than the
        //# local maximum value MUST be treated as a connection error of type PROTOCOL_VIOLATION.
        if max > u64::from(self.local_max) {
            return Err(TransportError::protocol_violation(
                "PATHS_BLOCKED above MAX_PATH_ID",
            ));
        }
        Ok(())
    }

    /// A path with this ID can be opened. True if the application was not told so before, or
    /// found since that it could not be.
    pub(crate) fn announce(&mut self, next: PathId) -> bool {
        self.announced.replace(next) != Some(next)
    }

    /// The peer's limit, not ours, forbids the path that the application wants. Told once per limit.
    pub(crate) fn note_blocked(&mut self) {
        self.announced = None;
        //= specs/rfc10069-draft.md#issuing-new-connection-ids
        //# When an endpoint cannot open a path because there are no unused path IDs, it SHOULD
        //# either send a MAX_PATH_ID frame to increase the maximum path ID limit (when limited by
        //# the sender) or a PATHS_BLOCKED frame (see {{paths-and-cids-blocked-frame}}) to inform
        //# the peer that its current limit prevented the creation of the new path.
        if self.remote_max <= self.local_max && self.blocked != Some(self.remote_max) {
            self.blocked = Some(self.remote_max);
            self.blocked_pending = true;
        }
    }

    /// The peer has issued no connection ID for the path that the application wants. Told once per path.
    pub(crate) fn note_cids_blocked(&mut self, path: PathId) {
        self.announced = None;
        //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
        //# Further, an endpoint MAY also send a PATH_CIDS_BLOCKED frame if it wants to open a new
        //# path and has no connection IDs available for an unused path ID even though the Maximum
        //# Path Identifier value would allow for more paths.
        if self.cids_blocked != Some(path) {
            self.cids_blocked = Some(path);
            self.cids_blocked_pending = true;
        }
    }

    /// A connection ID for this path came.
    pub(crate) fn on_cid(&mut self, path: PathId) {
        if self.cids_blocked == Some(path) {
            self.cids_blocked = None;
            self.cids_blocked_pending = false;
        }
    }

    pub(crate) fn can_send(&self) -> bool {
        self.local_pending || self.blocked_pending || self.cids_blocked_pending
    }

    /// The limit to tell, if it is due.
    pub(crate) fn take_max_path_id(&mut self) -> Option<u32> {
        std::mem::take(&mut self.local_pending).then_some(self.local_max)
    }

    pub(crate) fn take_paths_blocked(&mut self) -> Option<u32> {
        std::mem::take(&mut self.blocked_pending)
            .then_some(self.blocked)
            .flatten()
    }

    pub(crate) fn take_cids_blocked(&mut self) -> Option<PathId> {
        std::mem::take(&mut self.cids_blocked_pending)
            .then_some(self.cids_blocked)
            .flatten()
    }

    /// Repeated only if no newer one was sent.
    pub(crate) fn on_max_path_id_lost(&mut self, max: u32) {
        //= specs/rfc10069-draft.md#max-paths-frame
        //# MAX_PATH_ID frames are ack-eliciting and SHOULD be retransmitted when lost and no more
        //# recent MAX_PATH_ID frame has been sent in the meantime.
        self.local_pending |= max == self.local_max;
    }

    /// Repeated only while still blocked.
    pub(crate) fn on_paths_blocked_lost(&mut self, max: u32) {
        //= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
        //# PATHS_BLOCKED and PATH_CIDS_BLOCKED frames are ack-eliciting and MAY be retransmitted if
        //# the path is still blocked when the loss is detected.
        self.blocked_pending |= self.blocked == Some(max);
    }

    /// Repeated only while still blocked.
    pub(crate) fn on_cids_blocked_lost(&mut self, path: PathId) {
        self.cids_blocked_pending |= self.cids_blocked == Some(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= specs/rfc10069-draft.md#max-paths-frame
    //= type=test
    //# MAX_PATH_ID frames that do not increase the path limit MUST be ignored.
    //= specs/rfc10069-draft.md#max-paths-frame
    //= type=test
    //# Receipt of an invalid Maximum Path Identifier value MUST be treated as a connection error of
    //# type PROTOCOL_VIOLATION.
    //= specs/rfc10069-draft.md#max-paths-frame
    //= type=test
    //# The Maximum Path Identifier value MUST NOT be lower than the value advertised in the
    //# initial_max_path_id transport parameter.
    #[test]
    fn limits_only_rise() {
        let mut limits = PathLimits::new(3, 3);
        assert_eq!(limits.on_max_path_id(5, 3), Ok(true));
        assert_eq!(limits.on_max_path_id(4, 3), Ok(false));
        assert!(limits.on_max_path_id(2, 3).is_err());
        assert!(limits.on_max_path_id(1 << 32, 3).is_err());
        assert_eq!(limits.usable_max(), PathId(3));
        assert_eq!(limits.on_max_path_id(u64::from(u32::MAX), 3), Ok(true));
        limits.raise_local(7);
        assert_eq!(limits.take_max_path_id(), Some(7));
        limits.raise_local(5);
        assert_eq!(limits.take_max_path_id(), None);
    }

    //= specs/rfc10069-draft.md#issuing-new-connection-ids
    //= type=test
    //# Endpoints MUST NOT issue new connection IDs with path IDs greater than the Maximum Path
    //# Identifier field in MAX_PATH_ID frames (see {{max-paths-frame}}) or the value of
    //# initial_max_path_id transport parameter if no MAX_PATH_ID frame was received yet.
    #[test]
    fn connection_ids_are_issued_up_to_the_lower_limit() {
        let mut limits = PathLimits::new(7, 3);
        assert_eq!(limits.issue_max(PathId(2)), PathId(3));
        assert_eq!(limits.on_max_path_id(u64::from(u32::MAX), 3), Ok(true));
        assert_eq!(limits.issue_max(PathId(2)), PathId(7));
        limits.raise_local(u32::MAX);
        assert_eq!(limits.issue_max(PathId(2)), PathId(18));
    }

    //= specs/rfc10069-draft.md#max-paths-frame
    //= type=test
    //# MAX_PATH_ID frames are ack-eliciting and SHOULD be retransmitted when lost and no more
    //# recent MAX_PATH_ID frame has been sent in the meantime.
    #[test]
    fn a_lost_limit_is_repeated_if_it_is_the_newest() {
        let mut limits = PathLimits::new(3, 3);
        limits.raise_local(4);
        assert_eq!(limits.take_max_path_id(), Some(4));
        limits.on_max_path_id_lost(4);
        assert_eq!(limits.take_max_path_id(), Some(4));
        limits.raise_local(5);
        assert_eq!(limits.take_max_path_id(), Some(5));
        limits.on_max_path_id_lost(4);
        assert_eq!(limits.take_max_path_id(), None);
    }

    //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
    //= type=test
    //# Further, an endpoint MAY also send a PATH_CIDS_BLOCKED frame if it wants to open a new path
    //# and has no connection IDs available for an unused path ID even though the Maximum Path
    //# Identifier value would allow for more paths.
    #[test]
    fn a_path_that_can_be_opened_is_told_once() {
        let mut limits = PathLimits::new(7, 3);
        assert!(limits.announce(PathId(1)));
        assert!(!limits.announce(PathId(1)));
        assert!(limits.announce(PathId(2)));
        // It had a connection ID, which the peer has retired since.
        limits.note_cids_blocked(PathId(2));
        assert_eq!(limits.take_cids_blocked(), Some(PathId(2)));
        limits.note_cids_blocked(PathId(2));
        assert_eq!(limits.take_cids_blocked(), None);
        assert!(limits.announce(PathId(2)));
    }

    //= specs/rfc10069-draft.md#issuing-new-connection-ids
    //= type=test
    //# When an endpoint cannot open a path because there are no unused path IDs, it SHOULD either
    //# send a MAX_PATH_ID frame to increase the maximum path ID limit (when limited by the sender)
    //# or a PATHS_BLOCKED frame (see {{paths-and-cids-blocked-frame}}) to inform the peer that its
    //# current limit prevented the creation of the new path.
    //= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
    //= type=test
    //# PATHS_BLOCKED and PATH_CIDS_BLOCKED frames are ack-eliciting and MAY be retransmitted if the
    //# path is still blocked when the loss is detected.
    #[test]
    fn blocked_is_told_once_per_limit() {
        let mut limits = PathLimits::new(7, 3);
        limits.note_blocked();
        assert_eq!(limits.take_paths_blocked(), Some(3));
        limits.note_blocked();
        assert_eq!(limits.take_paths_blocked(), None);
        limits.on_paths_blocked_lost(3);
        assert_eq!(limits.take_paths_blocked(), Some(3));
        limits.on_max_path_id(4, 3).unwrap();
        limits.on_paths_blocked_lost(3);
        assert_eq!(limits.take_paths_blocked(), None);
        assert!(limits.on_paths_blocked(8).is_err());
    }
}
