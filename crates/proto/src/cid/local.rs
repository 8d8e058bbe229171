//! Connection IDs that this endpoint issued, per path ID; does not choose them or route by them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use mpquic_sched_core::ConnectionId;
use mpquic_wire::frame::{Frame, NewConnectionId};
use smallvec::SmallVec;

use super::{ResetToken, begins_with};
use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;
use crate::{PathId, TransportError, limits};

/// The IDs by which the peer may address us. Each belongs to one path ID (RFC 10069, Handling
/// Connection IDs).
///
/// Frames of the peer for path IDs that are beyond the limit, or whose state is discarded, must
/// not come here: what to do about those is the paths' matter.
#[derive(Debug)]
pub(crate) struct LocalCids {
    /// Boxed: a node of the map has room for eleven paths.
    paths: BTreeMap<PathId, Box<Path>>,
    /// Every ID of every path, sorted by ID: what each received packet is looked up in.
    by_id: Vec<(ConnectionId, PathId)>,
    /// Where in `by_id` the last look-up ended; only a hint.
    recent: Cell<usize>,
    /// Frames to send, for the first time or again.
    to_send: BTreeSet<(PathId, u64)>,
}

#[derive(Debug, Default)]
struct Path {
    /// Issued and not retired: at most [`limits::MAX_ISSUED_CIDS_PER_PATH`]. One inline: of a path that is not open, there is
    /// one.
    active: SmallVec<[Issued; 1]>,
    /// Of the next ID (RFC 9000 section 5.1.1: grows by 1).
    next: u64,
    /// One past the largest sequence number that went out.
    sent: u64,
    /// The peer is asked to retire those with smaller sequence numbers (RFC 9000 section 19.15).
    retire_prior_to: u64,
    /// No more are issued or announced; packets with those issued are still taken.
    stopped: bool,
}

#[derive(Debug)]
struct Issued {
    sequence: u64,
    id: ConnectionId,
    token: ResetToken,
    /// The peer has it for certain: never announced again.
    acked: bool,
}

impl LocalCids {
    /// With the ID of the handshake: path 0, sequence number 0 (RFC 9000 section 5.1.1). The peer
    /// learns it from the long headers, so there is no frame to send.
    pub(crate) fn new(initial: ConnectionId) -> Self {
        let path = Path {
            active: SmallVec::from_buf([Issued {
                sequence: 0,
                id: initial,
                token: [0; 16],
                acked: true,
            }]),
            next: 1,
            sent: 1,
            retire_prior_to: 0,
            stopped: false,
        };
        Self {
            paths: BTreeMap::from([(PathId::ZERO, Box::new(path))]),
            by_id: vec![(initial, PathId::ZERO)],
            recent: Cell::new(0),
            to_send: BTreeSet::new(),
        }
    }

    /// The ID that the transport parameter preferred_address brings to the peer: sequence number 1 of path 0 (RFC 9000
    /// section 5.1.1). There is no frame to send.
    pub(crate) fn add_preferred(&mut self, id: ConnectionId, token: ResetToken) {
        let sequence = self.issue(PathId::ZERO, id, token);
        self.to_send.remove(&(PathId::ZERO, sequence));
        if let Some(path) = self.paths.get_mut(&PathId::ZERO) {
            path.sent = path.next;
            for issued in &mut path.active {
                issued.acked = true;
            }
        }
    }

    /// Path IDs with IDs, and the most IDs of one path.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let most = self.paths.values().map(|path| path.active.len()).max();
        (self.paths.len(), most.unwrap_or(0))
    }

    /// IDs issued and not retired, over all paths.
    pub(crate) fn held(&self) -> usize {
        self.by_id.len()
    }

    /// How many more to issue for a path, given the peer's active_connection_id_limit, which
    /// counts per path ID (RFC 10069, Relation to Other Transport Parameters).
    pub(crate) fn needed(&self, path: PathId, peer_limit: u64) -> usize {
        //= specs/rfc9000.txt#section-5.1.1
        //# An endpoint MUST NOT provide more connection IDs than the peer's limit.
        let limit = peer_limit.min(limits::MAX_ISSUED_CIDS_PER_PATH) as usize;
        match self.paths.get(&path) {
            None => limit,
            Some(path) if path.stopped => 0,
            Some(path) => {
                // RFC 9000 section 5.1.1: more than the peer's limit, if it is to retire the excess.
                let counts = |issued: &&Issued| issued.sequence >= path.retire_prior_to;
                limit.saturating_sub(path.active.iter().filter(counts).count())
            }
        }
    }

    /// Takes a fresh ID for a path, to be announced. Returns its sequence number.
    pub(crate) fn issue(&mut self, path: PathId, id: ConnectionId, token: ResetToken) -> u64 {
        let state = self.paths.entry(path).or_default();
        let sequence = state.next;
        //= specs/rfc9000.txt#section-5.1.1
        //# The sequence number on each newly issued connection ID MUST increase by 1.
        state.next += 1;
        state.active.push(Issued {
            sequence,
            id,
            token,
            acked: false,
        });
        let at = self.by_id.partition_point(|(other, _)| *other < id);
        self.by_id.insert(at, (id, path));
        self.to_send.insert((path, sequence));
        sequence
    }

    /// The peer is to retire all IDs of all paths, with the next ones that are issued. Not those of a path of which it was
    /// asked that before and has not done so: one set of them is kept beside the one in use, no more.
    pub(crate) fn replace_all(&mut self) {
        for path in self.paths.values_mut() {
            let asked = |issued: &Issued| issued.sequence < path.retire_prior_to;
            if !path.stopped && !path.active.iter().any(asked) {
                path.retire_prior_to = path.next;
            }
        }
    }

    /// The sequence number that the next ID of a path will have.
    pub(crate) fn next_sequence(&self, path: PathId) -> u64 {
        self.paths.get(&path).map_or(0, |path| path.next)
    }

    /// The path ID to which a packet with this destination belongs.
    //= specs/rfc9000.txt#section-5.1.1
    //# When an endpoint issues a connection ID, it MUST accept packets that carry this connection
    //# ID for the duration of the connection or until its peer invalidates the connection ID via a
    //# RETIRE_CONNECTION_ID frame (Section 19.16).
    pub(crate) fn path_of(&self, id: &ConnectionId) -> Option<PathId> {
        let at = self
            .by_id
            .binary_search_by(|(other, _)| other.cmp(id))
            .ok()?;
        self.recent.set(at);
        Some(self.by_id[at].1)
    }

    /// The same for the bytes of an ID behind the first byte of a short header, with the ID.
    #[inline]
    pub(crate) fn addressed(&self, id: &[u8]) -> Option<(ConnectionId, PathId)> {
        // Packets come in runs of the same ID.
        match self.by_id.get(self.recent.get()) {
            Some((recent, path)) if recent.len() == id.len() && begins_with(id, recent) => {
                Some((*recent, *path))
            }
            _ => self.addressed_otherwise(id),
        }
    }

    #[inline(never)]
    fn addressed_otherwise(&self, id: &[u8]) -> Option<(ConnectionId, PathId)> {
        let id = ConnectionId::new(id);
        Some((id, self.path_of(&id)?))
    }

    /// Path ID and sequence number of an ID.
    #[cfg(test)]
    pub(crate) fn lookup(&self, id: &ConnectionId) -> Option<(PathId, u64)> {
        let path = self.path_of(id)?;
        let issued = self.paths.get(&path)?.active.iter().find(|i| i.id == *id)?;
        Some((path, issued.sequence))
    }

    /// The peer will not use this one again (RFC 9000 section 19.16), as a packet addressed to
    /// `packet_dcid` says. Returns the ID, for the endpoint to forget; `None` if it was retired
    /// already.
    pub(crate) fn retire(
        &mut self,
        path: PathId,
        sequence: u64,
        packet_dcid: &ConnectionId,
    ) -> Result<Option<ConnectionId>, TransportError> {
        //= specs/rfc9000.txt#section-19.16
        //# Receipt of a RETIRE_CONNECTION_ID frame containing a sequence number greater than any
        //# previously sent to the peer MUST be treated as a connection error of type
        //# PROTOCOL_VIOLATION.
        let state = self
            .paths
            .get_mut(&path)
            .filter(|state| sequence < state.sent)
            .ok_or_else(|| {
                TransportError::protocol_violation("retires a connection ID that was never issued")
            })?;
        let Some(at) = state.active.iter().position(|i| i.sequence == sequence) else {
            return Ok(None);
        };
        if state.active[at].id == *packet_dcid {
            return Err(TransportError::protocol_violation(
                "retires the connection ID that its packet is addressed to",
            ));
        }
        let id = state.active.remove(at).id;
        self.to_send.remove(&(path, sequence));
        self.forget_id(&id);
        Ok(Some(id))
    }

    /// The path is being abandoned: nothing more is issued or announced for it, but packets under
    /// way are still recognised.
    pub(crate) fn stop_issuing(&mut self, path: PathId) {
        //= specs/rfc10069-draft.md#path-close
        //# Therefore, knowledge of the connection IDs issued to the peer and of the state of the
        //# number space associated to the path SHOULD be retained for 3 PTO after the PATH_ABANDON
        //# frame has been received.
        self.paths.entry(path).or_default().stopped = true;
        self.unqueue(path);
    }

    /// The path's state is discarded. Returns its IDs, for the endpoint to forget.
    pub(crate) fn drop_path(
        &mut self,
        path: PathId,
    ) -> SmallVec<[ConnectionId; limits::MAX_ISSUED_CIDS_PER_PATH as usize]> {
        self.unqueue(path);
        self.by_id.retain(|&(_, of)| of != path);
        self.paths
            .remove(&path)
            .map(|state| state.active.iter().map(|issued| issued.id).collect())
            .unwrap_or_default()
    }

    /// Every ID that is not retired, of every path.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, PathId)> + '_ {
        self.by_id.iter().copied()
    }

    /// Whether an ID for this path was announced to the peer. Before that, no packet may leave on the path.
    pub(crate) fn is_announced(&self, path: PathId) -> bool {
        self.paths.get(&path).is_some_and(|state| state.sent > 0)
    }

    /// Announces the IDs of one path again of which the peer has none for certain: in a packet on the path itself, which
    /// may overtake the one that carried them, or arrive where that one is lost.
    pub(crate) fn repeat_unknown(&mut self, path: PathId, w: &mut FrameWriter<'_>) {
        let Some(state) = self.paths.get(&path) else {
            return;
        };
        if state.stopped || state.active.iter().any(|issued| issued.acked) {
            return;
        }
        let unknown = state.active.iter().map(|issued| (path, issued.sequence));
        self.to_send.extend(unknown);
        let mut next = (path, 0);
        while let Some(&due) = self.to_send.range(next..=(path, u64::MAX)).next() {
            if !self.announce(w, due, true) {
                return;
            }
            next = (path, due.1 + 1);
        }
    }

    /// Whether [`fill`](Self::fill) has something to write.
    pub(crate) fn can_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// Writes as many announcements as fit. Without multipath there is only path 0, and its frame
    /// is NEW_CONNECTION_ID.
    pub(crate) fn fill(&mut self, w: &mut FrameWriter<'_>, multipath: bool) {
        while let Some(&due) = self.to_send.first() {
            if !self.announce(w, due, multipath) {
                return;
            }
        }
    }

    /// Writes one announcement that is due, if it still counts. False if it does not fit.
    fn announce(
        &mut self,
        w: &mut FrameWriter<'_>,
        (path, sequence): (PathId, u64),
        multipath: bool,
    ) -> bool {
        let state = self.paths.get_mut(&path);
        if let Some(state) = state
            && let Some(issued) = state.active.iter().find(|i| i.sequence == sequence)
            && sequence >= state.retire_prior_to
        {
            //= specs/rfc10069-draft.md#consume-retire-cid
            //# Endpoints SHOULD also use PATH_NEW_CONNECTION_ID and PATH_RETIRE_CONNECTION_ID
            //# for the initial path with path ID 0.
            let frame = Frame::NewConnectionId(NewConnectionId {
                path: multipath.then_some(path.0.into()),
                sequence,
                //= specs/rfc9000.txt#section-19.15
                //# The value in the Retire Prior To field MUST be less than or equal to the
                //# value in the Sequence Number field.
                retire_prior_to: state.retire_prior_to,
                id: issued.id,
                reset_token: issued.token,
            });
            if !w.put(&frame) {
                return false;
            }
            state.sent = state.sent.max(sequence + 1);
            w.record(SentFrame::NewConnectionId { path, sequence });
        }
        self.to_send.remove(&(path, sequence));
        true
    }

    /// The packet with this announcement is lost: it is repeated if the ID still counts.
    pub(crate) fn on_lost(&mut self, path: PathId, sequence: u64) {
        let current = self.paths.get(&path).is_some_and(|state| {
            !state.stopped
                && state
                    .active
                    .iter()
                    .any(|i| i.sequence == sequence && !i.acked)
        });
        if current {
            self.to_send.insert((path, sequence));
        }
    }

    /// The peer has this announcement.
    pub(crate) fn on_acked(&mut self, path: PathId, sequence: u64) {
        self.to_send.remove(&(path, sequence));
        if let Some(state) = self.paths.get_mut(&path)
            && let Some(issued) = state.active.iter_mut().find(|i| i.sequence == sequence)
        {
            issued.acked = true;
        }
    }

    fn unqueue(&mut self, path: PathId) {
        self.to_send.retain(|&(of, _)| of != path);
    }

    fn forget_id(&mut self, id: &ConnectionId) {
        if let Ok(at) = self.by_id.binary_search_by(|(other, _)| other.cmp(id)) {
            self.by_id.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpquic_sched_core::TransportErrorCode as Code;
    use proptest::prelude::*;

    fn cid(n: u64) -> ConnectionId {
        ConnectionId::new(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
    }

    fn send(cids: &mut LocalCids, limit: usize) -> Vec<(PathId, u64)> {
        let mut buf = Vec::new();
        let mut w = FrameWriter::new(&mut buf, limit);
        cids.fill(&mut w, true);
        w.frames
            .iter()
            .map(|frame| match *frame {
                SentFrame::NewConnectionId { path, sequence } => (path, sequence),
                _ => panic!("{frame:?}"),
            })
            .collect()
    }

    //= specs/rfc9000.txt#section-5.1.1
    //= type=test
    //# An endpoint MUST NOT provide more connection IDs than the peer's limit.
    #[test]
    fn issues_up_to_the_lower_limit_per_path() {
        let mut cids = LocalCids::new(cid(0));
        assert_eq!(cids.needed(PathId::ZERO, 2), 1);
        assert_eq!(cids.needed(PathId::ZERO, u64::MAX), 4);
        assert_eq!(cids.needed(PathId(7), u64::MAX), 5);
        assert_eq!(cids.issue(PathId(7), cid(1), [1; 16]), 0);
        assert_eq!(cids.needed(PathId(7), 2), 1);
        assert_eq!(cids.next_sequence(PathId(7)), 1);
        assert_eq!(cids.next_sequence(PathId(8)), 0);
        assert_eq!(cids.lookup(&cid(1)), Some((PathId(7), 0)));
        assert_eq!(cids.lookup(&cid(2)), None);
    }

    //= specs/rfc10069-draft.md#consume-retire-cid
    //= type=test
    //# Endpoints SHOULD also use PATH_NEW_CONNECTION_ID and PATH_RETIRE_CONNECTION_ID for the
    //# initial path with path ID 0.
    #[test]
    fn frames_name_path_zero_too_with_multipath() {
        for (multipath, ty) in [(false, &[0x18][..]), (true, &[0x7e, 0x78, 0])] {
            let mut cids = LocalCids::new(cid(0));
            cids.issue(PathId::ZERO, cid(1), [1; 16]);
            let mut buf = Vec::new();
            cids.fill(&mut FrameWriter::new(&mut buf, 1200), multipath);
            assert!(buf.starts_with(ty), "{buf:x?}");
        }
    }

    //= specs/rfc9000.txt#section-19.16
    //= type=test
    //# Receipt of a RETIRE_CONNECTION_ID frame containing a sequence number greater than any
    //# previously sent to the peer MUST be treated as a connection error of type
    //# PROTOCOL_VIOLATION.
    #[test]
    fn retirement_rules() {
        let mut cids = LocalCids::new(cid(0));
        cids.issue(PathId::ZERO, cid(1), [1; 16]);
        let violation = Err(Code::PROTOCOL_VIOLATION);
        let code = |result: Result<_, TransportError>| result.map_err(|error| error.code);
        // Issued, but the frame has not gone out yet: the peer cannot know it.
        assert_eq!(code(cids.retire(PathId::ZERO, 1, &cid(0))), violation);
        assert_eq!(send(&mut cids, 1200), [(PathId::ZERO, 1)]);
        assert_eq!(code(cids.retire(PathId::ZERO, 2, &cid(0))), violation);
        assert_eq!(code(cids.retire(PathId(1), 0, &cid(0))), violation);
        assert_eq!(code(cids.retire(PathId::ZERO, 0, &cid(0))), violation);
        assert_eq!(cids.retire(PathId::ZERO, 0, &cid(1)), Ok(Some(cid(0))));
        assert_eq!(cids.retire(PathId::ZERO, 0, &cid(1)), Ok(None));
        assert_eq!(cids.path_of(&cid(0)), None);
        assert_eq!(cids.path_of(&cid(1)), Some(PathId::ZERO));
    }

    /// Whose ID was asked for last is no answer once the ID is retired, its path dropped, or another ID in its place.
    #[test]
    fn an_id_that_is_gone_is_not_found_again() {
        let mut cids = LocalCids::new(cid(0));
        for (path, n) in [(0, 1), (1, 2), (1, 3)] {
            cids.issue(PathId(path), cid(n), [n as u8; 16]);
        }
        send(&mut cids, 1200);
        let addressed = |cids: &LocalCids, n| cids.addressed(&cid(n));
        let all = [(0, 0), (1, 0), (2, 1), (3, 1)];
        for (n, path) in all.into_iter().chain(all) {
            let expected = Some((cid(n), PathId(path)));
            assert_eq!(addressed(&cids, n), expected);
            assert_eq!(addressed(&cids, n), expected, "from memory");
            assert_eq!(cids.addressed(&cid(n)[..7]), None);
            assert_eq!(cids.addressed(&[&cid(n)[..], &[0]].concat()), None);
        }
        assert_eq!(cids.retire(PathId(1), 1, &cid(2)), Ok(Some(cid(3))));
        assert_eq!(addressed(&cids, 3), None);
        assert_eq!(addressed(&cids, 2), Some((cid(2), PathId(1))));
        cids.drop_path(PathId(1));
        assert_eq!(addressed(&cids, 2), None);
        assert_eq!(addressed(&cids, 0), Some((cid(0), PathId::ZERO)));
        // The same ID for another path.
        cids.issue(PathId(4), cid(2), [2; 16]);
        assert_eq!(addressed(&cids, 2), Some((cid(2), PathId(4))));
    }

    #[test]
    fn lost_announcements_are_repeated_while_they_count() {
        let mut cids = LocalCids::new(cid(0));
        for n in 1..5 {
            cids.issue(PathId(1), cid(n), [n as u8; 16]);
        }
        // A frame takes 30 bytes: two of the four fit.
        assert_eq!(send(&mut cids, 60), [(PathId(1), 0), (PathId(1), 1)]);
        assert_eq!(send(&mut cids, 1200), [(PathId(1), 2), (PathId(1), 3)]);
        assert!(!cids.can_send());
        cids.on_acked(PathId(1), 0);
        cids.on_lost(PathId(1), 0);
        assert!(!cids.can_send());
        cids.on_lost(PathId(1), 1);
        cids.on_lost(PathId(1), 1);
        assert_eq!(send(&mut cids, 1200), [(PathId(1), 1)]);
        cids.on_lost(PathId(1), 2);
        assert_eq!(cids.retire(PathId(1), 2, &cid(0)), Ok(Some(cid(3))));
        assert!(!cids.can_send());
        cids.stop_issuing(PathId(1));
        cids.on_lost(PathId(1), 3);
        assert!(!cids.can_send());
        assert_eq!(cids.needed(PathId(1), 5), 0);
        assert_eq!(cids.path_of(&cid(4)), Some(PathId(1)));
        assert_eq!(
            cids.drop_path(PathId(1)).as_slice(),
            [cid(1), cid(2), cid(4)]
        );
        assert_eq!(cids.path_of(&cid(4)), None);
        assert_eq!(cids.iter().collect::<Vec<_>>(), [(cid(0), PathId::ZERO)]);
    }

    /// The peer retires at will; we replace. State stays flat over any churn.
    //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
    //= type=test
    //# As such, when receiving a PATH_RETIRE_CONNECTION_ID frame, an endpoint SHOULD provide new
    //# connection IDs for that path, if still open, using PATH_NEW_CONNECTION_ID frames.
    //= specs/rfc9000.txt#section-5.1.1
    //= type=test
    //# An endpoint SHOULD supply a new connection ID when the peer retires a connection ID.
    #[test]
    fn retire_flood_is_bounded() {
        let mut cids = LocalCids::new(cid(0));
        let mut n = 0;
        for round in 0..10_000 {
            for _ in 0..cids.needed(PathId(1), 5) {
                n += 1;
                cids.issue(PathId(1), cid(n), [0; 16]);
            }
            send(&mut cids, 1200);
            cids.retire(PathId(1), round, &cid(0)).unwrap();
            assert!(cids.by_id.len() <= 6 && cids.to_send.len() <= 5);
        }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Issue(u32),
        Send(usize),
        Fate(usize, bool),
        Retire(u32, u64),
        Stop(u32),
        Drop(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        let path = 0..4_u32;
        prop_oneof![
            4 => path.clone().prop_map(Op::Issue),
            4 => (0..200_usize).prop_map(Op::Send),
            4 => (any::<usize>(), any::<bool>()).prop_map(|(at, lost)| Op::Fate(at, lost)),
            4 => (path.clone(), 0..12_u64).prop_map(|(path, back)| Op::Retire(path, back)),
            1 => (1..4_u32).prop_map(Op::Stop),
            1 => (1..4_u32).prop_map(Op::Drop),
        ]
    }

    proptest! {
        /// Every ID that is not retired, stopped or acknowledged is queued or in flight, and the
        /// lookup agrees with what was issued.
        #[test]
        fn nothing_is_forgotten(ops in prop::collection::vec(op(), 0..300)) {
            let mut cids = LocalCids::new(cid(0));
            let mut n = 0;
            let mut in_flight: Vec<(PathId, u64)> = Vec::new();
            for op in ops {
                match op {
                    Op::Issue(path) => {
                        if cids.needed(PathId(path), 5) > 0 {
                            n += 1;
                            cids.issue(PathId(path), cid(n), [0; 16]);
                        }
                    }
                    Op::Send(limit) => in_flight.extend(send(&mut cids, limit)),
                    Op::Fate(at, lost) if !in_flight.is_empty() => {
                        let (path, sequence) = in_flight.swap_remove(at % in_flight.len());
                        if lost {
                            cids.on_lost(path, sequence);
                        } else {
                            cids.on_acked(path, sequence);
                        }
                    }
                    Op::Fate(..) => {}
                    Op::Retire(path, back) => {
                        let sequence = cids.next_sequence(PathId(path)).saturating_sub(back);
                        let _ = cids.retire(PathId(path), sequence, &cid(u64::MAX));
                    }
                    Op::Stop(path) => cids.stop_issuing(PathId(path)),
                    Op::Drop(path) => {
                        // A path ID is never used again: late fates of its frames find nothing.
                        cids.drop_path(PathId(path));
                        in_flight.retain(|&(of, _)| of != PathId(path));
                    }
                }
                let mut ids = Vec::new();
                for (&path, state) in &cids.paths {
                    prop_assert!(state.active.len() <= 5);
                    for issued in &state.active {
                        ids.push((issued.id, path));
                        let known = issued.acked
                            || state.stopped
                            || cids.to_send.contains(&(path, issued.sequence))
                            || in_flight.contains(&(path, issued.sequence));
                        prop_assert!(known);
                        prop_assert_eq!(cids.lookup(&issued.id), Some((path, issued.sequence)));
                    }
                }
                ids.sort();
                prop_assert_eq!(&cids.by_id, &ids);
            }
        }
    }
}
