//! Connection IDs that the peer issued, per path ID; does not decide when a path needs another one.

use std::collections::{BTreeMap, BTreeSet};

use mpquic_sched_core::ConnectionId;
use mpquic_wire::frame::{Frame, RetireConnectionId};
use smallvec::SmallVec;

use super::ResetToken;
use crate::frame_writer::FrameWriter;
use crate::number_set::NumberSet;
use crate::sent_frame::SentFrame;
use crate::{PathId, TransportError, limits};

/// Ranges of retired sequence numbers remembered per path. A peer that numbers its IDs as RFC 9000
/// section 5.1.1 says has at most one hole per ID that we keep; this leaves room for one that
/// skips numbers, and stops one that sends every second number below Retire Prior To.
const MAX_RETIRED_RANGES: usize = 16;

/// What a new connection ID changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnNew {
    /// A repetition, or retired at once: nothing.
    Ignored,
    /// There is one more to use.
    Stored,
    /// The path uses another ID from now on: the peer retired the one in use, or there was none.
    Rotated(Rotation),
    /// The peer retired the ID in use and there is no other: nothing can be sent on the path
    /// until [`OnNew::Rotated`].
    Blocked {
        /// Of the ID that was in use: it does not identify a stateless reset any longer.
        retired_token: Option<ResetToken>,
    },
}

/// A path changed from one ID to another. Stateless reset tokens count for IDs in use only
/// (RFC 9000 section 10.3.1): the endpoint is to be told of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// The ID to use.
    pub(crate) id: ConnectionId,
    /// Its token.
    pub(crate) token: Option<ResetToken>,
    /// The token of the ID that was in use before, if there was one.
    pub(crate) retired_token: Option<ResetToken>,
}

/// The IDs by which we may address the peer. Each may be used on one path ID only (RFC 10069,
/// Handling Connection IDs).
///
/// Frames for path IDs beyond the limit, or abandoned, must not come here: they are an error and
/// ignored respectively, which is the paths' matter.
#[derive(Debug)]
pub(crate) struct RemoteCids {
    /// Boxed: a node of the map has room for eleven paths.
    paths: BTreeMap<PathId, Box<Path>>,
    /// RETIRE frames to be sent, for the first time or again, and those under way. Together at
    /// most [`limits::MAX_PENDING_RETIRE`] and the IDs kept.
    to_send: BTreeSet<(PathId, u64)>,
    in_flight: BTreeSet<(PathId, u64)>,
    /// The peer chose a zero-length ID in the handshake: it cannot issue others.
    zero_length: bool,
}

#[derive(Debug, Default)]
struct Path {
    /// The path is open: it wants an ID in use.
    in_use: bool,
    active: Option<Held>,
    /// For other addresses than the path uses: those before it moved, or those that are tried (RFC 9000 section 9.5).
    other: Option<Held>,
    /// Ascending by sequence number, at most [`limits::ACTIVE_CONNECTION_ID_LIMIT`]. One inline: of a path that is not open,
    /// there is mostly one.
    unused: SmallVec<[Held; 1]>,
    retire_prior_to: u64,
    /// Numbers that a RETIRE frame was made for: never again, and never taken again.
    retired: NumberSet,
    /// One past the largest number seen.
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    sequence: u64,
    id: ConnectionId,
    /// The initial ID has none unless the transport parameters brought it.
    token: Option<ResetToken>,
}

impl RemoteCids {
    /// With the destination of the handshake's packets: path 0, in use, sequence number 0. A
    /// client starts with an ID of its own choice and [replaces](Self::replace_initial) it.
    pub(crate) fn new(initial: ConnectionId) -> Self {
        let path = Path {
            in_use: true,
            active: Some(Held {
                sequence: 0,
                id: initial,
                token: None,
            }),
            next: 1,
            ..Path::default()
        };
        Self {
            paths: BTreeMap::from([(PathId::ZERO, Box::new(path))]),
            to_send: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            zero_length: initial.is_empty(),
        }
    }

    /// The source connection ID of the server's first packet (RFC 9000 section 7.2), or of a Retry.
    pub(crate) fn replace_initial(&mut self, id: ConnectionId) {
        self.zero_length = id.is_empty();
        if let Some(held) = self.initial() {
            held.id = id;
        }
    }

    /// The transport parameter stateless_reset_token, of the initial ID. Whether that is in use
    /// still, and the endpoint thus to be told.
    pub(crate) fn set_reset_token(&mut self, token: ResetToken) -> bool {
        self.initial()
            .map(|held| held.token = Some(token))
            .is_some()
    }

    /// RETIRE frames to be sent or acknowledged, and the most IDs kept for one path.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (
            self.to_send.len() + self.in_flight.len(),
            self.paths
                .values()
                .map(|path| path.held())
                .max()
                .unwrap_or(0),
        )
    }

    /// IDs kept, over all paths.
    pub(crate) fn held(&self) -> usize {
        self.paths.values().map(|path| path.held()).sum()
    }

    /// Where the peer can be reached on a path. Asked several times for each packet: one copy of the look-up.
    #[inline(never)]
    pub(crate) fn active(&self, path: PathId) -> Option<ConnectionId> {
        Some(self.paths.get(&path)?.active?.id)
    }

    /// Token of the ID in use on a path.
    pub(crate) fn active_token(&self, path: PathId) -> Option<ResetToken> {
        self.paths.get(&path)?.active?.token
    }

    /// Tokens of all IDs in use: for [`is_reset`](super::is_reset).
    //= specs/rfc9000.txt#section-10.3.1
    //# An endpoint MUST NOT check for any stateless reset tokens associated with connection IDs it
    //# has not used or for connection IDs that have been retired.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &ResetToken> {
        self.paths
            .values()
            .flat_map(|path| path.active.iter().chain(&path.other))
            .filter_map(|held| held.token.as_ref())
    }

    /// Whether a path could be opened, or change to another ID.
    pub(crate) fn has_unused(&self, path: PathId) -> bool {
        self.paths
            .get(&path)
            .is_some_and(|path| !path.unused.is_empty())
    }

    /// Whether there is an ID for addresses that the peer tries, and then another one for those that it moves to.
    pub(crate) fn has_two_unused(&self, path: PathId) -> bool {
        let state = self.paths.get(&path);
        state.is_some_and(|path| path.unused.len() > 1)
    }

    /// The sequence number that the peer's next ID for a path is expected to have: for
    /// PATH_CIDS_BLOCKED (RFC 10069, PATHS_BLOCKED and PATH_CIDS_BLOCKED frames).
    pub(crate) fn next_expected(&self, path: PathId) -> u64 {
        self.paths.get(&path).map_or(0, |path| path.next)
    }

    /// NEW_CONNECTION_ID (then for path 0), PATH_NEW_CONNECTION_ID, or the transport parameter
    /// preferred_address (path 0, sequence number 1, Retire Prior To 0).
    pub(crate) fn on_new(
        &mut self,
        path: PathId,
        sequence: u64,
        retire_prior_to: u64,
        id: ConnectionId,
        token: ResetToken,
    ) -> Result<OnNew, TransportError> {
        if retire_prior_to > sequence || id.is_empty() {
            //= specs/rfc9000.txt#section-19.15
            //# Receiving a value in the Retire Prior To field that is greater than that in the
            //# Sequence Number field MUST be treated as a connection error of type
            //# FRAME_ENCODING_ERROR.
            return Err(TransportError::frame_encoding(
                "connection ID of length 0, or Retire Prior To above its own sequence number",
            ));
        }
        //= specs/rfc9000.txt#section-19.15
        //# An endpoint that is sending packets with a zero-length Destination Connection ID MUST
        //# treat receipt of a NEW_CONNECTION_ID frame as a connection error of type
        //# PROTOCOL_VIOLATION.
        if self.zero_length {
            return Err(TransportError::protocol_violation(
                "issues connection IDs, having chosen a zero-length one",
            ));
        }
        let repeated = self.check_unique(path, sequence, &id, &token)?;
        let state = self.paths.entry(path).or_default();
        state.next = state.next.max(sequence.saturating_add(1));

        //= specs/rfc9000.txt#section-5.1.2
        //# Upon receipt of an increased Retire Prior To field, the peer MUST stop using the
        //# corresponding connection IDs and retire them with RETIRE_CONNECTION_ID frames before
        //# adding the newly provided connection ID to the set of active connection IDs.
        //= specs/rfc9000.txt#section-19.15
        //# A receiver MUST ignore any Retire Prior To fields that do not increase the largest
        //# received Retire Prior To value.
        let retired_token = (retire_prior_to > state.retire_prior_to)
            .then(|| state.raise_retire_prior_to(retire_prior_to, path, &mut self.to_send))
            .flatten();
        let known = repeated || state.retired.contains(sequence);
        let mut stored = false;
        if !known {
            if sequence < state.retire_prior_to {
                //= specs/rfc9000.txt#section-19.15
                //# An endpoint that receives a NEW_CONNECTION_ID frame with a sequence number
                //# smaller than the Retire Prior To field of a previously received
                //# NEW_CONNECTION_ID frame MUST send a corresponding RETIRE_CONNECTION_ID frame
                //# that retires the newly received connection ID, unless it has already done so for
                //# that sequence number.
                state.retire(sequence, path, &mut self.to_send);
            } else {
                let at = state.unused.partition_point(|h| h.sequence < sequence);
                let held = Held {
                    sequence,
                    id,
                    token: Some(token),
                };
                state.unused.insert(at, held);
                stored = true;
            }
        }
        let held = state.held();
        //= specs/rfc9000.txt#section-5.1.1
        //# After processing a NEW_CONNECTION_ID frame and adding and retiring active connection
        //# IDs, if the number of active connection IDs exceeds the value advertised in its
        //# active_connection_id_limit transport parameter, an endpoint MUST close the connection
        //# with an error of type CONNECTION_ID_LIMIT_ERROR.
        if held > limits::ACTIVE_CONNECTION_ID_LIMIT as usize {
            state.take_for_close();
            return Err(TransportError::connection_id_limit(
                "more connection IDs than the active_connection_id_limit",
            ));
        }
        if self.to_send.len() + self.in_flight.len() > limits::MAX_PENDING_RETIRE
            || state.retired.ranges() > MAX_RETIRED_RANGES
        {
            state.take_for_close();
            //= specs/rfc9000.txt#section-5.1.2
            //# An endpoint SHOULD limit the number of connection IDs it has retired locally for
            //# which RETIRE_CONNECTION_ID frames have not yet been acknowledged.
            return Err(TransportError::connection_id_limit(
                "too many connection IDs to retire",
            ));
        }

        if state.in_use && state.active.is_none() {
            return Ok(match state.take_next(retired_token) {
                Some(rotation) => OnNew::Rotated(rotation),
                None => OnNew::Blocked { retired_token },
            });
        }
        Ok(if stored {
            OnNew::Stored
        } else {
            OnNew::Ignored
        })
    }

    /// Opens a path: takes its first ID into use. `None`, and no change, if there is none, or if
    /// the path has one in use.
    pub(crate) fn activate(&mut self, path: PathId) -> Option<Rotation> {
        let state = self.paths.get_mut(&path)?;
        if state.active.is_some() {
            return None;
        }
        let rotation = state.take_next(None)?;
        state.in_use = true;
        Some(rotation)
    }

    /// Changes to another ID of the same path (RFC 9000 section 9.5) and retires the one in use.
    /// `None`, and no change, if there is no other.
    //= specs/rfc10069-draft.md#rotating-and-retiring-connection-ids
    //# For the extension specified in this document, endpoints MUST only rotate to another
    //# connection ID associated with the same path ID.
    pub(crate) fn rotate(&mut self, path: PathId) -> Option<Rotation> {
        let state = self.paths.get_mut(&path)?;
        if !state.in_use || state.unused.is_empty() {
            return None;
        }
        let old = state.active.take();
        if let Some(old) = old {
            state.retire(old.sequence, path, &mut self.to_send);
        }
        state.take_next(old.and_then(|old| old.token))
    }

    /// The path takes new addresses into use, and another ID with them, if there is one: RFC 9000 section 9.5. The ID of
    /// those before goes on for them if they are `kept`, or else is retired.
    pub(crate) fn move_on(&mut self, path: PathId, kept: bool) {
        if !kept {
            self.rotate(path);
            return;
        }
        let Some(state) = self.paths.get_mut(&path) else {
            return;
        };
        // With no other ID, that in use goes on for both: RFC 9000 section 9.5 allows it if the peer did not mean to move.
        let other = match state.unused.is_empty() {
            true => state.other.take(),
            false => std::mem::replace(&mut state.other, state.active.take()),
        };
        state.retire_held(other, path, &mut self.to_send);
        if state.active.is_none() {
            state.take_next(None);
        }
    }

    /// The path takes its other addresses into use, which have an ID already, unless there were too few.
    pub(crate) fn change_places(&mut self, path: PathId, kept: bool) {
        if let Some(state) = self.paths.get_mut(&path)
            && state.active.is_some()
            && state.other.is_some()
        {
            std::mem::swap(&mut state.active, &mut state.other);
            return;
        }
        self.move_on(path, kept);
    }

    /// The ID for packets to the path's other addresses: one of their own, unless there are too few.
    pub(crate) fn for_other(&mut self, path: PathId) -> Option<ConnectionId> {
        let state = self.paths.get_mut(&path)?;
        if state.other.is_none() && !state.unused.is_empty() && state.active.is_some() {
            state.other = Some(state.unused.remove(0));
        }
        Some(state.other.or(state.active)?.id)
    }

    /// Nothing goes to the path's other addresses any more.
    pub(crate) fn retire_other(&mut self, path: PathId) {
        if let Some(state) = self.paths.get_mut(&path) {
            let other = state.other.take();
            state.retire_held(other, path, &mut self.to_send);
        }
    }

    /// The path is abandoned: all its IDs count as retired immediately, without RETIRE frames
    /// (RFC 10069). Returns the token that the endpoint is to forget.
    //= specs/rfc10069-draft.md#path-close
    //# Endpoints that send a PATH_ABANDON frame MUST treat all connection IDs received from the
    //# peer for the path ID indicated in the PATH_ABANDON as immediately retired, and subsequently
    //# cannot send any packet on that path anymore.
    pub(crate) fn abandon(&mut self, path: PathId) -> Option<ResetToken> {
        self.to_send.retain(|&(of, _)| of != path);
        self.in_flight.retain(|&(of, _)| of != path);
        self.paths.remove(&path)?.active?.token
    }

    /// Whether [`fill`](Self::fill) has something to write.
    pub(crate) fn can_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// Writes as many RETIRE frames as fit. The IDs that they retire are in use on no path any
    /// more, so any packet may carry them (RFC 9000 section 19.16).
    pub(crate) fn fill(&mut self, w: &mut FrameWriter<'_>, multipath: bool) {
        while let Some(&(path, sequence)) = self.to_send.first() {
            //= specs/rfc9000.txt#section-19.16
            //# The sequence number specified in a RETIRE_CONNECTION_ID frame MUST NOT refer to the
            //# Destination Connection ID field of the packet in which the frame is contained.
            //= specs/rfc10069-draft.md#consume-retire-cid
            //# Endpoints SHOULD also use PATH_NEW_CONNECTION_ID and PATH_RETIRE_CONNECTION_ID for
            //# the initial path with path ID 0.
            let frame = Frame::RetireConnectionId(RetireConnectionId {
                path: multipath.then_some(path.0.into()),
                sequence,
            });
            if !w.put(&frame) {
                return;
            }
            w.record(SentFrame::RetireConnectionId { path, sequence });
            self.to_send.pop_first();
            self.in_flight.insert((path, sequence));
        }
    }

    /// The packet with this RETIRE frame is lost.
    pub(crate) fn on_lost(&mut self, path: PathId, sequence: u64) {
        if self.in_flight.remove(&(path, sequence)) {
            self.to_send.insert((path, sequence));
        }
    }

    /// The peer has this RETIRE frame.
    pub(crate) fn on_acked(&mut self, path: PathId, sequence: u64) {
        self.in_flight.remove(&(path, sequence));
        // Declared lost too early: no need to repeat it.
        self.to_send.remove(&(path, sequence));
    }

    fn initial(&mut self) -> Option<&mut Held> {
        self.paths
            .get_mut(&PathId::ZERO)?
            .active
            .as_mut()
            .filter(|held| held.sequence == 0)
    }

    /// RFC 9000 section 19.15: one number, one ID, one token; RFC 10069, Issuing New Connection IDs: over
    /// all paths. Whether
    /// this is the repetition of one that we hold.
    fn check_unique(
        &self,
        path: PathId,
        sequence: u64,
        id: &ConnectionId,
        token: &ResetToken,
    ) -> Result<bool, TransportError> {
        let mut repeated = false;
        for (&of, state) in &self.paths {
            let in_use = state.active.iter().chain(&state.other);
            for held in in_use.chain(&state.unused) {
                let same_number = of == path && held.sequence == sequence;
                let same_id = held.id == *id;
                let same_token = held.token.as_ref() == Some(token);
                if same_number && same_id && (same_token || held.token.is_none()) {
                    //= specs/rfc9000.txt#section-19.15
                    //# Receipt of the same frame multiple times MUST NOT be treated as a connection
                    //# error.
                    repeated = true;
                } else if same_number || same_id || same_token {
                    return Err(TransportError::protocol_violation(
                        "connection ID, sequence number or reset token used twice",
                    ));
                }
            }
        }
        Ok(repeated)
    }

    /// Entries that the peer can make grow: for tests of the caps.
    #[cfg(test)]
    pub(super) fn state_size(&self) -> usize {
        self.to_send.len()
            + self.in_flight.len()
            + self
                .paths
                .values()
                .map(|p| p.held() + p.retired.ranges())
                .sum::<usize>()
    }
}

impl Path {
    /// Retires what is below. Returns the token of the ID in use if that was among it.
    fn raise_retire_prior_to(
        &mut self,
        below: u64,
        path: PathId,
        to_send: &mut BTreeSet<(PathId, u64)>,
    ) -> Option<ResetToken> {
        self.retire_prior_to = below;
        while self.unused.first().is_some_and(|h| h.sequence < below) {
            let held = self.unused.remove(0);
            self.retire(held.sequence, path, to_send);
        }
        let other = self.other.take_if(|held| held.sequence < below);
        self.retire_held(other, path, to_send);
        let active = self.active.take_if(|held| held.sequence < below)?;
        self.retire(active.sequence, path, to_send);
        active.token
    }

    //= specs/rfc9000.txt#section-5.1.2
    //# An endpoint MUST NOT forget a connection ID without retiring it, though it MAY choose to
    //# treat having connection IDs in need of retirement that exceed this limit as a connection
    //# error of type CONNECTION_ID_LIMIT_ERROR.
    fn retire(&mut self, sequence: u64, path: PathId, to_send: &mut BTreeSet<(PathId, u64)>) {
        if self.retired.insert(sequence) {
            to_send.insert((path, sequence));
        }
    }

    fn retire_held(
        &mut self,
        held: Option<Held>,
        path: PathId,
        to_send: &mut BTreeSet<(PathId, u64)>,
    ) {
        if let Some(held) = held {
            self.retire(held.sequence, path, to_send);
        }
    }

    /// How many IDs are kept: those that count as active (RFC 9000 section 5.1.1).
    fn held(&self) -> usize {
        self.unused.len() + usize::from(self.active.is_some()) + usize::from(self.other.is_some())
    }

    /// The connection ends for an error of the peer's, which is to be told: CONNECTION_CLOSE needs an ID, too.
    fn take_for_close(&mut self) {
        if self.in_use && self.active.is_none() {
            self.take_next(None);
        }
    }

    fn take_next(&mut self, retired_token: Option<ResetToken>) -> Option<Rotation> {
        if self.unused.is_empty() {
            return None;
        }
        let next = self.unused.remove(0);
        self.active = Some(next);
        Some(Rotation {
            id: next.id,
            token: next.token,
            retired_token,
        })
    }
}
