//! The frames that are about paths: their acknowledgements, their status, their end, their connection IDs and their limit.
//! What is written, what became of it, and what a path ID in a frame means.

use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathStatus, Side};
use mpquic_wire::frame::Frame;
use smallvec::SmallVec;

use super::{Path, PathLimits, PathState, Paths};
use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;
use crate::{Event, PathEvent, PathId, TransportError};

/// Our ack_delay_exponent: the default of RFC 9000 section 18.2.
pub(crate) const ACK_DELAY_EXPONENT: u8 = 3;

/// A frame of RFC 10069 came, and that was not negotiated.
fn not_negotiated() -> TransportError {
    //= specs/rfc10069-draft.md#connection-lifecycle-and-packet-protection
    //# If either of the endpoints does not advertise the initial_max_path_id transport
    //# parameter, then both endpoints MUST NOT use any frame or mechanism defined in this
    //# document.
    TransportError::protocol_violation("multipath frame without negotiation")
}

/// Writes a small frame if it fits.
fn put(w: &mut FrameWriter<'_>, frame: &Frame<'_>, record: SentFrame) -> bool {
    let fits = w.put(frame);
    if fits {
        w.record(record);
    }
    fits
}

/// Received frames.
impl Paths {
    /// What the path ID of a frame means; frames without one speak of path 0.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a path ID above the limit that we announced, and for one where the extension was not
    /// negotiated (RFC 10069, New Frames).
    pub(crate) fn of_frame(&mut self, path: Option<u64>) -> Result<PathState<'_>, TransportError> {
        let max = match (&self.limits, path) {
            (Some(limits), _) => limits.local_max(),
            (None, None) => 0,
            (None, Some(_)) => return Err(not_negotiated()),
        };
        //= specs/rfc10069-draft.md#frames
        //# Receipt of multipath-specific frames that use a path ID that is greater than the
        //# announced Maximum Paths value in the MAX_PATH_ID frame or in the initial_max_path_id
        //# transport parameter, if no MAX_PATH_ID frame was received yet, MUST be treated as a
        //# connection error of type PROTOCOL_VIOLATION.
        //= specs/rfc10069-draft.md#paths-and-cids-blocked-frame
        //# Receipt of a value of Maximum Path Identifier or Path Identifier that is higher than the
        //# local maximum value MUST be treated as a connection error of type PROTOCOL_VIOLATION.
        match u32::try_from(path.unwrap_or(0)) {
            Ok(id) if id <= max => Ok(self.state(PathId(id))),
            _ => Err(TransportError::protocol_violation(
                "path ID above MAX_PATH_ID",
            )),
        }
    }

    /// The limits, for a frame that speaks of them.
    pub(crate) fn limits_of_frame(&mut self) -> Result<&mut PathLimits, TransportError> {
        self.limits.as_mut().ok_or_else(not_negotiated)
    }
}

/// Sent frames.
impl Paths {
    /// Says which path ID can be opened next, once for each; on clients, once they may open any.
    pub(crate) fn take_available(&mut self) -> Option<Event> {
        if !self.may_open() {
            return None;
        }
        let next = self.next_unused(self.limits.as_ref()?.usable_max())?;
        let available = self.remote_cids.has_unused(next) && self.limits.as_mut()?.announce(next);
        available.then_some(Event::Path(PathEvent::Available { next }))
    }

    /// Whether frames about paths wait to be scheduled.
    pub(crate) fn can_send_control(&self) -> bool {
        self.ack_frequency.is_urgent()
            || self.local_cids.can_send()
            || self.remote_cids.can_send()
            || self.limits.as_ref().is_some_and(PathLimits::can_send)
            || self.iter().any(|path| path.status().pending().is_some())
            || self.abandons().pending().is_some()
    }

    /// The request for acknowledgements, if one is due: it matters to data, and travels with it.
    #[inline(never)]
    pub(crate) fn fill_ack_frequency(&mut self, w: &mut FrameWriter<'_>) {
        if let Some(frame) = self.ack_frequency.pending() {
            let record = SentFrame::AckFrequency(frame.sequence);
            if put(w, &Frame::AckFrequency(frame), record) {
                self.ack_frequency.on_sent();
            }
        }
    }

    /// Abandoned paths, statuses, limits, and connection IDs.
    pub(crate) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        self.fill_path_frames(w);
        if self.remote_cids.can_send() {
            self.remote_cids.fill(w, self.limits.is_some());
        }
        if self.local_cids.can_send() {
            self.fill_local_cids(w);
        }
    }

    /// New connection IDs of ours.
    fn fill_local_cids(&mut self, w: &mut FrameWriter<'_>) {
        self.local_cids.fill(w, self.limits.is_some());
    }

    /// On servers: those of further paths, in a packet that leaves before the handshake is complete.
    pub(crate) fn fill_early_cids(&mut self, w: &mut FrameWriter<'_>) {
        //= specs/rfc10069-draft.md#frames
        //# All frames defined in this document MUST only be sent in 1-RTT packets.
        if self.side == Side::Server {
            self.fill_local_cids(w);
        }
    }

    fn fill_path_frames(&mut self, w: &mut FrameWriter<'_>) {
        //= specs/rfc10069-draft.md#path-close
        //# It is RECOMMENDED to send the PATH_ABANDON frames on another open path, especially if
        //# connectivity on the to-be-abandoned path is expected to be broken.
        let abandons = self.abandons_mut();
        while let Some((id, error)) = abandons.pending() {
            let path = id.0.into();
            let frame = Frame::PathAbandon { path, error };
            if !put(w, &frame, SentFrame::PathAbandon(id)) {
                return;
            }
            abandons.on_sent(id);
        }
        for path in self.iter_mut() {
            if let Some((status, seq)) = path.status().pending() {
                let id = path.id;
                let frame = status_frame(id, status, seq);
                let record = SentFrame::PathStatus {
                    path: id,
                    sequence: seq,
                };
                if !put(w, &frame, record) {
                    return;
                }
                path.status_mut().on_sent();
            }
        }
        let Some(limits) = &mut self.limits else {
            return;
        };
        // The largest of these takes 12 bytes: with less room, the next packet carries them.
        if !limits.can_send() || w.remaining() < 16 {
            return;
        }
        if let Some(max) = limits.take_max_path_id() {
            put(w, &Frame::MaxPathId(max.into()), SentFrame::MaxPathId(max));
        }
        if w.remaining() < 16 {
            return;
        }
        if let Some(max) = limits.take_paths_blocked() {
            let frame = Frame::PathsBlocked(max.into());
            put(w, &frame, SentFrame::PathsBlocked(max));
        }
        if w.remaining() < 16 {
            return;
        }
        if let Some(path) = limits.take_cids_blocked() {
            let frame = Frame::PathCidsBlocked {
                path: path.0.into(),
                next_seq: self.remote_cids.next_expected(path),
            };
            put(w, &frame, SentFrame::PathCidsBlocked(path));
        }
    }

    /// The connection IDs of a path that is being opened, unless the peer has one for certain: it could not answer here
    /// without them, and the path that carried them may be slower, or dead.
    pub(crate) fn fill_own_cids(&mut self, w: &mut FrameWriter<'_>, index: PathIndex) {
        let multipath = self.is_multipath();
        if let Some(path) = self.at(index)
            && multipath
            && !path.is_validated()
        {
            let id = path.id;
            self.local_cids.repeat_unknown(id, w);
        }
    }

    /// A control frame about paths that travelled on one of them arrived at the peer.
    pub(crate) fn on_control_acked(&mut self, frame: &SentFrame, on: PathIndex) {
        match *frame {
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_acked(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_acked(path, sequence);
            }
            SentFrame::AckFrequency(sequence) => self.ack_frequency.on_acked(sequence),
            SentFrame::PathAbandon(id) => self.abandons_mut().on_acked(id),
            SentFrame::PathChallenge(token) => self.on_challenge_settled(on, token),
            _ => {}
        }
    }

    /// A control frame about paths is sent again if it still matters.
    pub(crate) fn on_control_lost(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_lost(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_lost(path, sequence);
            }
            SentFrame::AckFrequency(sequence) => self.ack_frequency.on_lost(sequence),
            //= specs/rfc10069-draft.md#path-abandon-frame
            //# If a packet containing a PATH_ABANDON frame is considered lost, the peer SHOULD
            //# repeat it.
            SentFrame::PathAbandon(id) => self.abandons_mut().on_lost(id),
            SentFrame::PathStatus { path, sequence } => {
                if let Some(path) = self.get_mut(path) {
                    path.status_mut().on_lost(sequence);
                }
            }
            _ => {}
        }
        let Some(limits) = &mut self.limits else {
            return;
        };
        match *frame {
            SentFrame::MaxPathId(max) => limits.on_max_path_id_lost(max),
            SentFrame::PathsBlocked(max) => limits.on_paths_blocked_lost(max),
            SentFrame::PathCidsBlocked(path) => limits.on_cids_blocked_lost(path),
            _ => {}
        }
    }

    /// A packet that carried a PATH_CHALLENGE on this path was acknowledged or lost.
    pub(crate) fn on_challenge_settled(&mut self, path: PathIndex, token: u64) {
        if let Some(path) = self.at_mut(path) {
            path.on_challenge_settled(token);
        }
    }
}

/// Acknowledgements.
impl Paths {
    /// The acknowledgement of a path's packets in a packet of the same path.
    pub(crate) fn fill_own_ack(&mut self, w: &mut FrameWriter<'_>, now: Instant, index: PathIndex) {
        if let Some(path) = self.at(index)
            && path.space().acks.pending()
            && self.carries_own_acks(now, path)
        {
            self.fill_ack(w, now, index);
        }
    }

    /// The acknowledgement of a path's packets, in whichever packet.
    //= specs/rfc9000.txt#section-17.2.3
    //# An acknowledgment for a 1-RTT packet MUST be carried in a 1-RTT packet.
    //= specs/rfc9000.txt#section-13.2.6
    //# For instance, packets that are protected with 1-RTT keys MUST be acknowledged in packets
    //# that are also protected with 1-RTT keys.
    fn fill_ack(&mut self, w: &mut FrameWriter<'_>, now: Instant, index: PathIndex) {
        let multipath = self.is_multipath();
        if let Some(path) = self.at_mut(index) {
            let wire = multipath.then_some(path.id);
            path.write_ack(w, now, wire, ACK_DELAY_EXPONENT);
        }
    }

    /// Acknowledgements of paths that cannot carry their own: abandoned ones (RFC 10069, Handling
    /// PATH_ACK for abandoned paths) and those whose [acknowledgements go elsewhere](Self::acks_on_other_path).
    pub(crate) fn fill_acks_of_other_paths(&mut self, w: &mut FrameWriter<'_>, now: Instant) {
        for retired in self.retired_mut() {
            let id = retired.id;
            //= specs/rfc10069-draft.md#ack-after-abandon
            //# Endpoints SHOULD promptly send PATH_ACK frames for all unacknowledged packets
            //# received on an abandoned path if path state is still retained to do so.
            let space = &mut retired.space;
            space.write_ack(w, now, Some(id), id, ACK_DELAY_EXPONENT);
        }
        let others: SmallVec<[PathIndex; 4]> = self
            .iter()
            .filter(|path| path.space().acks.pending() && self.acks_on_other_path(now, path))
            .map(|path| path.index)
            .collect();
        for index in others {
            self.fill_ack(w, now, index);
        }
    }

    /// Whether an open path should not carry its own acknowledgements: one without a connection ID, or in trouble while
    /// another path is well, or behind others' queue. An acknowledgement that is stuck on a path that is dead in one
    /// direction would kill the living other one.
    fn acks_on_other_path(&self, now: Instant, path: &Path) -> bool {
        self.is_multipath() && !self.carries_own_acks(now, path)
    }

    pub(super) fn carries_own_acks(&self, now: Instant, path: &Path) -> bool {
        self.has_cid(path.id)
            && !(path.is_suspect() && self.has_other_usable(path.index))
            && !self.acks_sooner_elsewhere(now, path)
    }

    /// Whether others' queue stands on a path, so that acknowledgements arrive sooner on another one. The peer then sees
    /// whether it stands in its own direction ([`RoundTrip::back`](mpquic_sched_core::RoundTrip::back)).
    ///
    //= specs/rfc10069-draft.md#packet-scheduling
    //# Implementations can choose different strategies such as, for instance, sending
    //# PATH_ACK frames either simply on the path where the acknowledged packets was received,
    //# or alternatively the shortest path, which results in shorter control loops
    //# and potentially better performance.
    fn acks_sooner_elsewhere(&self, now: Instant, path: &Path) -> bool {
        let recovery = &path.recovery;
        let queue = recovery.model.foreign(now, recovery.rtt.smoothed());
        let base = recovery.model.base();
        // One that is shorter than the path itself would leave the peer a smallest RTT that is not the path's own.
        let sooner = |other: &Path| {
            other.index != path.index
                && other.is_validated()
                && !other.is_suspect()
                && self.has_cid(other.id)
                && other.recovery.model.base() >= base
                && other.recovery.rtt.smoothed() / 2 < base / 2 + queue
        };
        !queue.is_zero() && self.iter().any(sooner)
    }

    /// The path that carries acknowledgements of others, if some are due: that with the smallest RTT.
    pub(crate) fn carrier_of_other_acks(&self, now: Instant) -> Option<PathIndex> {
        if self.used() < 2 && self.retired().is_empty() {
            return None;
        }
        let retired = self.retired().iter();
        let mut spaces = retired.map(|path| &path.space);
        let due = spaces.any(|space| space.acks.due(now))
            || self
                .iter()
                .any(|path| path.space().acks.due(now) && self.acks_on_other_path(now, path));
        let carries = |path: &&Path| {
            self.carries_own_acks(now, path) && self.local_cids.is_announced(path.id)
        };
        let carriers = self.iter().filter(|path| due && carries(path));
        // Nothing is known of a path without a sample.
        let rtt = |path: &&Path| {
            let rtt = &path.recovery.rtt;
            (path.is_suspect() || !rtt.has_sample(), rtt.smoothed())
        };
        carriers.min_by_key(rtt).map(|path| path.index)
    }
}

fn status_frame(id: PathId, status: PathStatus, seq: u64) -> Frame<'static> {
    let path = id.0.into();
    match status {
        PathStatus::Available => Frame::PathStatusAvailable { path, seq },
        PathStatus::Backup => Frame::PathStatusBackup { path, seq },
    }
}
