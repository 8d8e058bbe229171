//! PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP of one path (RFC 10069, Path Status Management);
//! does not choose paths.

use mpquic_sched_core::PathStatus;

/// What each side wants of the path.
#[derive(Debug, Default)]
pub(crate) struct StatusState {
    local: PathStatus,
    /// Sequence number of the newest status that we told, if we told any.
    local_seq: Option<u64>,
    pending: bool,
    remote: Option<PathStatus>,
    remote_seq: Option<u64>,
}

impl StatusState {
    pub(crate) fn local(&self) -> PathStatus {
        self.local
    }

    pub(crate) fn remote(&self) -> Option<PathStatus> {
        self.remote
    }

    /// What the scheduler goes by: either side's wish for backup, for its own sending, counts.
    /// The peer's frame says what it wants us to do; our own setting says what we want to do.
    pub(crate) fn effective(&self) -> PathStatus {
        self.local.max(self.remote.unwrap_or_default())
    }

    /// We prefer this from now on; the peer is told, also if nothing changed since it last was.
    pub(crate) fn set_local(&mut self, status: PathStatus) {
        self.local = status;
        //= specs/rfc10069-draft.md#path-backup-available-frame
        //# The sequence number space is common to the two frame types, and monotonically increasing
        //# values MUST be used when sending PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP frames for
        //# a given path ID.
        self.local_seq = Some(self.local_seq.map_or(0, |seq| seq + 1));
        self.pending = true;
    }

    /// The frame to send now, if one is due.
    pub(crate) fn pending(&self) -> Option<(PathStatus, u64)> {
        self.pending
            .then(|| self.local_seq.map(|seq| (self.local, seq)))
            .flatten()
    }

    pub(crate) fn on_sent(&mut self) {
        self.pending = false;
    }

    /// Repeated only if it is still the newest.
    pub(crate) fn on_lost(&mut self, seq: u64) {
        //= specs/rfc10069-draft.md#path-backup-available-frame
        //# If a packet containing a PATH_STATUS_BACKUP or PATH_STATUS_AVAILABLE frame is considered
        //# lost, the peer SHOULD resend the frame only if it contains the last status sent for that
        //# path -- as indicated by the sequence number.
        if self.local_seq == Some(seq) {
            self.pending = true;
        }
    }

    /// The peer's frame; true if it changes anything. Frames that are not newer than one seen
    /// before are ignored.
    pub(crate) fn on_remote(&mut self, status: PathStatus, seq: u64) -> bool {
        //= specs/rfc10069-draft.md#path-backup-available-frame
        //# A peer MUST ignore an incoming PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP frame if it
        //# previously received another PATH_STATUS_BACKUP frame or PATH_STATUS_AVAILABLE frame for
        //# the same path ID with a Path Status sequence number equal to or higher than the Path
        //# Status sequence number of the incoming frame.
        if self.remote_seq.is_some_and(|newest| newest >= seq) {
            return false;
        }
        self.remote_seq = Some(seq);
        self.remote.replace(status) != Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= specs/rfc10069-draft.md#path-backup-available-frame
    //= type=test
    //# A peer MUST ignore an incoming PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP frame if it
    //# previously received another PATH_STATUS_BACKUP frame or PATH_STATUS_AVAILABLE frame for the
    //# same path ID with a Path Status sequence number equal to or higher than the Path Status
    //# sequence number of the incoming frame.
    #[test]
    fn the_highest_sequence_number_wins() {
        let mut state = StatusState::default();
        assert!(state.on_remote(PathStatus::Backup, 3));
        assert!(!state.on_remote(PathStatus::Available, 3));
        assert!(!state.on_remote(PathStatus::Available, 1));
        assert_eq!(state.effective(), PathStatus::Backup);
        assert!(state.on_remote(PathStatus::Available, 4));
        assert_eq!(state.effective(), PathStatus::Available);
    }

    //= specs/rfc10069-draft.md#path-backup-available-frame
    //= type=test
    //# The sequence number space is common to the two frame types, and monotonically increasing
    //# values MUST be used when sending PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP frames for a
    //# given path ID.
    //= specs/rfc10069-draft.md#path-backup-available-frame
    //= type=test
    //# If a packet containing a PATH_STATUS_BACKUP or PATH_STATUS_AVAILABLE frame is considered
    //# lost, the peer SHOULD resend the frame only if it contains the last status sent for that
    //# path -- as indicated by the sequence number.
    #[test]
    fn only_the_newest_is_repeated() {
        let mut state = StatusState::default();
        state.set_local(PathStatus::Backup);
        assert_eq!(state.pending(), Some((PathStatus::Backup, 0)));
        state.on_sent();
        state.set_local(PathStatus::Available);
        state.on_sent();
        state.on_lost(0);
        assert_eq!(state.pending(), None);
        state.on_lost(1);
        assert_eq!(state.pending(), Some((PathStatus::Available, 1)));
    }
}
