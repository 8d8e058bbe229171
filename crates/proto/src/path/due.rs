//! Picks the next unscheduled packet of a path that has one due, the most urgent first: challenges and answers, loss
//! probes, acknowledgements, keep-alives, MTU probes.

use std::time::Instant;

use super::{Addresses, Path, Paths};
use crate::limits;
use crate::packet::MIN_INITIAL_DATAGRAM;

/// An unscheduled packet that a path has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    PathProbe(Addresses),
    LossProbe,
    Ack,
    Ping,
    Credit,
    MtuProbe(u16),
}

/// What the connection knows beyond its paths, for what they have to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueFacts {
    /// The handshake is complete.
    pub(crate) established: bool,
    /// Acknowledgements of other paths wait for one to carry them.
    pub(crate) other_acks: bool,
    /// Acknowledgements and MTU probes are not left to scheduled packets any more.
    pub(crate) all: bool,
}

impl Paths {
    /// Whether a path has something to send by itself, now or with what is scheduled.
    pub(crate) fn has_due(&self, now: Instant, path: &Path, facts: DueFacts) -> bool {
        facts.other_acks
            || path.has_probes()
            || path.space().acks.due(now)
            || (facts.established && path.has_ping())
            || path.wants_credit()
            || path
                .probe_due(now, || self.has_room_for_probe(path))
                .is_some()
            || (facts.established && self.mtu_probe(now, path).is_some())
    }

    /// The size of the path's MTU probe that is due.
    fn mtu_probe(&self, now: Instant, path: &Path) -> Option<u16> {
        path.mtu_probe(now, || self.controller.window(path.index))
    }

    /// The next unscheduled packet of a path that [has](Self::has_due) one due. `data_waits`: whether there is
    /// anything that a scheduler could send.
    pub(crate) fn due(
        &self,
        now: Instant,
        path: &Path,
        facts: DueFacts,
        data_waits: impl FnOnce() -> bool,
    ) -> Option<Due> {
        let DueFacts {
            established, all, ..
        } = facts;
        //= specs/rfc10069-draft.md#path-management
        //# The client can open a new path when both endpoints have issued available connection IDs
        //# for at least one unused, common path ID, as the same path ID is used in both directions.
        // Ours may still wait for their turn among the scheduled packets.
        if !self.has_cid(path.id) || !self.local_cids.is_announced(path.id) {
            return None;
        }
        if let Some(to) = path.probe_due(now, || self.has_room_for_probe(path)) {
            return Some(Due::PathProbe(to));
        }
        if path.has_probes() {
            return Some(Due::LossProbe);
        }
        let ack = path.space().acks.due(now);
        let carried = || established && self.data_will_carry_ack(path) && data_waits();
        if self.carries_own_acks(path) && (facts.other_acks || (ack && (all || !carried()))) {
            return Some(Due::Ack);
        }
        if established && path.has_ping() {
            return Some(Due::Ping);
        }
        if path.wants_credit() && self.has_room_for_probe(path) {
            return Some(Due::Credit);
        }
        let mtu = self.mtu_probe(now, path).filter(|_| established && all);
        mtu.map(Due::MtuProbe)
    }

    /// Whether the path's congestion window has room for a datagram with a PATH_CHALLENGE or PATH_RESPONSE, and the peer
    /// has acknowledged enough of those before it.
    pub(crate) fn has_room_for_probe(&self, path: &Path) -> bool {
        path.space().sent.path_probes() < limits::MAX_PATH_PROBES_IN_FLIGHT
            && self.has_room(path, MIN_INITIAL_DATAGRAM as u64)
    }

    /// Whether the path's congestion window has room for so many bytes.
    pub(crate) fn has_room(&self, path: &Path, bytes: u64) -> bool {
        path.space().bytes_in_flight() + bytes <= self.controller.window(path.index)
    }

    /// Whether a scheduled packet on this path is likely to follow at once, if data waits.
    fn data_will_carry_ack(&self, path: &Path) -> bool {
        self.open_count() == 1 && path.is_validated() && self.has_room(path, path.mtu().into())
    }
}
