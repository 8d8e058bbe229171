//! Fills a 1-RTT packet with acknowledgements and control frames: their owners are asked in a fixed order and choose
//! what to write.

use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathStatus};
use smallvec::SmallVec;

use crate::PathId;
use crate::connection::{ACK_DELAY_EXPONENT, Connection};
use crate::frame::Frame;
use crate::frame::writer::FrameWriter;
use crate::path::Path;
use crate::space::{SentFrame, SpaceId};

/// Writes a small frame if it fits.
fn write_small(w: &mut FrameWriter<'_>, frame: &Frame<'_>, record: SentFrame) -> bool {
    let fits = w.put(frame);
    if fits {
        w.record(record);
    }
    fits
}

impl Connection {
    /// The acknowledgement of a path's packets in a packet of the same path.
    pub(super) fn fill_own_ack(&mut self, w: &mut FrameWriter<'_>, now: Instant, index: PathIndex) {
        if let Some(path) = self.paths.at(index)
            && path.space().acks.pending()
            && self.carries_own_acks(path)
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
        let multipath = self.path_limits.is_some();
        if let Some(path) = self.paths.at_mut(index) {
            let wire = multipath.then_some(path.id);
            path.write_ack(w, now, wire, ACK_DELAY_EXPONENT);
        }
    }

    /// Acknowledgements of paths that cannot carry their own: abandoned ones (RFC 10069, Handling
    /// PATH_ACK for abandoned paths) and those whose [acknowledgements go elsewhere](Self::acks_on_other_path).
    pub(super) fn fill_acks_of_other_paths(&mut self, w: &mut FrameWriter<'_>, now: Instant) {
        for retired in self.paths.retired_mut() {
            let id = retired.id;
            //= specs/rfc10069-draft.md#ack-after-abandon
            //# Endpoints SHOULD promptly send PATH_ACK frames for all unacknowledged packets
            //# received on an abandoned path if path state is still retained to do so.
            let space = &mut retired.space;
            space.write_ack(w, now, Some(id), id, ACK_DELAY_EXPONENT);
        }
        let others: SmallVec<[PathIndex; 4]> = self
            .paths
            .iter()
            .filter(|path| path.space().acks.pending() && self.acks_on_other_path(path))
            .map(|path| path.index)
            .collect();
        for index in others {
            self.fill_ack(w, now, index);
        }
    }

    /// Whether an open path should not carry its own acknowledgements: one without a connection ID,
    /// or in trouble while another path is well. An acknowledgement that is stuck on a path that is
    /// dead in one direction would kill the living other one.
    fn acks_on_other_path(&self, path: &Path) -> bool {
        self.path_limits.is_some() && !self.carries_own_acks(path)
    }

    pub(super) fn carries_own_acks(&self, path: &Path) -> bool {
        self.has_cid(path.id) && !(path.is_suspect() && self.has_other_usable(path.index))
    }

    /// Whether an acknowledgement is due that has to travel on another path than its own.
    pub(super) fn ack_on_other_path_due(&self, now: Instant) -> bool {
        let retired = self.paths.retired().iter();
        retired
            .map(|path| &path.space)
            .any(|space| space.acks.due(now))
            || self
                .paths
                .iter()
                .any(|path| path.space().acks.due(now) && self.acks_on_other_path(path))
    }

    /// Whether control frames or datagrams wait to be scheduled.
    pub(crate) fn has_control(&self) -> bool {
        self.handshake_done_pending
            || self.ack_frequency.can_send()
            || self
                .new_tokens
                .as_ref()
                .is_some_and(|tokens| tokens.can_send())
            || self.handshake.can_send(SpaceId::Data)
            || self.local_cids.can_send()
            || self.remote_cids.can_send()
            || self.streams.can_send_control()
            || self.datagrams.can_send()
            || self
                .path_limits
                .as_ref()
                .is_some_and(|limits| limits.can_send())
            || self
                .paths
                .iter()
                .any(|path| path.status().pending().is_some())
            || self.paths.abandons().pending().is_some()
    }

    /// Everything but stream data and datagrams, most urgent first.
    pub(super) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        if self.handshake_done_pending
            && write_small(w, &Frame::HandshakeDone, SentFrame::HandshakeDone)
        {
            self.handshake_done_pending = false;
        }
        self.handshake.stream(SpaceId::Data).fill(w);
        if let Some(frame) = self.ack_frequency.pending()
            && write_small(
                w,
                &Frame::AckFrequency(frame),
                SentFrame::AckFrequency(frame.sequence),
            )
        {
            self.ack_frequency.on_sent();
        }
        if let Some(tokens) = &mut self.new_tokens {
            tokens.fill(w);
        }
        self.fill_path_frames(w);
        let multipath = self.path_limits.is_some();
        if self.remote_cids.can_send() {
            self.remote_cids.fill(w, multipath);
        }
        if self.local_cids.can_send() {
            self.local_cids.fill(w, multipath);
        }
        if self.streams.can_send_control() {
            self.streams.fill_control(w);
        }
    }

    fn fill_path_frames(&mut self, w: &mut FrameWriter<'_>) {
        //= specs/rfc10069-draft.md#path-close
        //# It is RECOMMENDED to send the PATH_ABANDON frames on another open path, especially if
        //# connectivity on the to-be-abandoned path is expected to be broken.
        let abandons = self.paths.abandons_mut();
        while let Some((id, error)) = abandons.pending() {
            let path = id.0.into();
            let frame = Frame::PathAbandon { path, error };
            if !write_small(w, &frame, SentFrame::PathAbandon(id)) {
                return;
            }
            abandons.on_sent(id);
        }
        for path in self.paths.iter_mut() {
            if let Some((status, seq)) = path.status().pending() {
                let id = path.id;
                let frame = status_frame(id, status, seq);
                let record = SentFrame::PathStatus {
                    path: id,
                    sequence: seq,
                };
                if !write_small(w, &frame, record) {
                    return;
                }
                path.status_mut().on_sent();
            }
        }
        let Some(limits) = &mut self.path_limits else {
            return;
        };
        // The largest of these takes 12 bytes: with less room, the next packet carries them.
        if !limits.can_send() || w.remaining() < 16 {
            return;
        }
        if let Some(max) = limits.take_max_path_id() {
            write_small(w, &Frame::MaxPathId(max.into()), SentFrame::MaxPathId(max));
        }
        if w.remaining() < 16 {
            return;
        }
        if let Some(max) = limits.take_paths_blocked() {
            write_small(
                w,
                &Frame::PathsBlocked(max.into()),
                SentFrame::PathsBlocked(max),
            );
        }
        if w.remaining() < 16 {
            return;
        }
        if let Some(path) = limits.take_cids_blocked() {
            let frame = Frame::PathCidsBlocked {
                path: path.0.into(),
                next_seq: self.remote_cids.next_expected(path),
            };
            write_small(w, &frame, SentFrame::PathCidsBlocked(path));
        }
    }
}

fn status_frame(id: PathId, status: PathStatus, seq: u64) -> Frame<'static> {
    let path = id.0.into();
    match status {
        PathStatus::Available => Frame::PathStatusAvailable { path, seq },
        PathStatus::Backup => Frame::PathStatusBackup { path, seq },
    }
}
