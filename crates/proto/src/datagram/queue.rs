//! Datagrams to send and received ones, bounded by bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{PathIndex, PathSet};
use mpquic_wire::frame::{AckFrame, datagram_header_size, encode_datagram_header, types};

use super::fate::{DatagramFate, Fates};
use super::outgoing::{Outgoing, Unsent};
use super::{SendDatagramError, Unsendable};
use crate::frame_writer::FrameWriter;
use crate::memory::{Direction, Loan, Memory};
use crate::sent_frame::{SentFrame, Tag};
use crate::space::SentPacket;
use crate::{PathId, TransportConfig, TransportError};

/// What each datagram counts in a queue beyond its bytes, so that empty ones are bounded too.
const OVERHEAD: usize = 32;

/// Queued datagrams and the sum of what they count.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: VecDeque<T>,
    size: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            size: 0,
        }
    }
}

impl<T: AsRef<[u8]>> Queue<T> {
    pub(super) fn push(&mut self, item: T) {
        self.size += item.as_ref().len() + OVERHEAD;
        self.items.push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.size -= item.as_ref().len() + OVERHEAD;
        Some(item)
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.items.front()
    }

    pub(super) const fn size(&self) -> usize {
        self.size
    }
}

/// A connection's datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    outgoing: Outgoing,
    send_limit: usize,
    send_loan: Loan,
    /// The peer's max_datagram_frame_size (RFC 9221 section 3); 0 takes none.
    peer_max: u64,
    /// A send was refused for want of space.
    blocked: bool,
    incoming: Queue<Bytes>,
    recv_limit: Option<usize>,
    recv_loan: Loan,
    /// Received datagrams that were dropped because the application did not fetch them.
    dropped: u64,
    /// Boxed, and there once a datagram has a tag: few applications ask.
    fates: Option<Box<Fates>>,
}

impl Datagrams {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            outgoing: Outgoing::default(),
            send_limit: config.datagram_send_buffer,
            send_loan: Loan::unlimited(Direction::Send),
            peer_max: 0,
            blocked: false,
            incoming: Queue::default(),
            recv_limit: config.datagram_receive_buffer,
            recv_loan: Loan::unlimited(Direction::Receive),
            dropped: 0,
            fates: None,
        }
    }

    /// What waits counts for this memory from now on.
    pub(crate) fn share(&mut self, memory: &Arc<Memory>) {
        self.send_loan = Loan::new(Arc::clone(memory), Direction::Send);
        self.recv_loan = Loan::new(Arc::clone(memory), Direction::Receive);
    }

    /// What our transport parameters must say: the largest frame that we take, if any.
    pub(crate) fn local_max_frame_size(config: &TransportConfig) -> Option<u64> {
        //= specs/rfc9221.txt#section-3
        //= type=implication
        //# Similarly, an endpoint that receives a DATAGRAM frame that is larger than the value it
        //# sent in its max_datagram_frame_size transport parameter MUST terminate the connection
        //# with an error of type PROTOCOL_VIOLATION.
        // No UDP payload holds a larger one.
        config.datagram_receive_buffer.map(|_| 65535)
    }

    /// The peer's max_datagram_frame_size.
    pub(crate) fn set_peer_max(&mut self, max_frame_size: Option<u64>) {
        self.peer_max = max_frame_size.unwrap_or(0);
    }

    /// The largest datagram that fits into a packet with `room` bytes for frames and that the
    /// peer takes; `None` if it takes none.
    pub(crate) fn max_size(&self, room: usize) -> Option<usize> {
        //= specs/rfc9221.txt#section-3
        //# An endpoint MUST NOT send DATAGRAM frames that are larger than the
        //# max_datagram_frame_size value it has received from its peer.
        let frame = usize::try_from(self.peer_max).map_or(room, |max| max.min(room));
        // The length's own size depends on the length: with the larger header there is always
        // enough, and exact at its border.
        let size = frame.checked_sub(datagram_header_size(Some(frame)))?;
        Some(size)
    }

    /// Queues a datagram, with a copy for each of these paths, or for the one that the scheduler will choose; with
    /// `drop`, the oldest make room. `room` as in [`max_size`](Self::max_size).
    pub(crate) fn send(
        &mut self,
        data: Bytes,
        paths: Option<PathSet>,
        deadline: Option<Instant>,
        tag: Option<u64>,
        drop: bool,
        room: usize,
    ) -> Result<(), SendDatagramError> {
        if self.send_limit == 0 {
            return Err(SendDatagramError::Disabled);
        }
        //= specs/rfc9221.txt#section-3
        //# An endpoint MUST NOT send DATAGRAM frames until it has received the
        //# max_datagram_frame_size transport parameter with a non-zero value during the handshake
        //# (or during a previous handshake if 0-RTT is used).
        if self.peer_max == 0 {
            return Err(SendDatagramError::UnsupportedByPeer);
        }
        let copies = paths.map_or(1, PathSet::len);
        let size = (data.len() + OVERHEAD) * copies;
        if self.max_size(room).is_none_or(|max| data.len() > max) {
            return Err(SendDatagramError::TooLarge);
        }
        let most = self.send_room(size);
        if drop {
            while self.outgoing.size() + size > most {
                let Some(oldest) = self.outgoing.drop_oldest() else {
                    // One alone may exceed the limit.
                    break;
                };
                self.tell_unsent(&oldest, Unsendable::Displaced);
            }
        } else if !self.outgoing.is_empty() && self.outgoing.size() + size > most {
            self.blocked = true;
            return Err(SendDatagramError::Blocked(data));
        }
        let tag = tag.and_then(|tag| self.follow(tag, copies));
        let unsent = |data| Unsent {
            data,
            deadline,
            tag,
        };
        let Some(paths) = paths else {
            self.outgoing.push(None, unsent(data));
            return Ok(());
        };
        // The last one takes the data itself: nothing is counted or allocated for a single path.
        let mut paths = paths.iter().peekable();
        while let Some(path) = paths.next() {
            if paths.peek().is_none() {
                self.outgoing.push(Some(path), unsent(data));
                break;
            }
            self.outgoing.push(Some(path), unsent(data.clone()));
        }
        Ok(())
    }

    /// How much may wait to be sent, if `more` is to be added.
    fn send_room(&mut self, more: usize) -> usize {
        let wanted = self.send_limit.min(self.outgoing.size() + more);
        let covered = self.send_loan.cover(wanted as u64) as usize;
        if covered < wanted {
            covered
        } else {
            self.send_limit
        }
    }

    /// Free bytes of the send buffer.
    pub(crate) fn send_buffer_space(&self) -> usize {
        self.send_limit
            .saturating_sub(self.outgoing.size() + OVERHEAD)
    }

    /// Whether datagrams wait for a path that the scheduler chooses.
    pub(crate) fn can_send(&self) -> bool {
        self.outgoing.front(None).is_some()
    }

    /// The paths for which datagrams wait that only they may carry.
    pub(crate) fn steered(&self) -> PathSet {
        self.outgoing.steered()
    }

    /// Drops what has come to the front too late. What waits behind it is looked at when its turn has come.
    pub(crate) fn drop_expired(&mut self, now: Instant) {
        if self.outgoing.is_empty() {
            return;
        }
        self.drop_expired_of(None, now);
        for path in self.outgoing.steered().iter() {
            self.drop_expired_of(Some(path), now);
        }
        self.settle_sent();
    }

    fn drop_expired_of(&mut self, lane: Option<PathIndex>, now: Instant) {
        while let Some(expired) = self.outgoing.drop_expired(lane, now) {
            self.tell_unsent(&expired, Unsendable::Expired);
        }
    }

    /// A path ended, which had this ID in its slot. All that it had in flight is lost already.
    pub(crate) fn forget_path(&mut self, path: PathIndex, id: PathId) {
        while let Some(stranded) = self.outgoing.drop_stranded(path) {
            self.tell_unsent(&stranded, Unsendable::PathEnded);
        }
        if let Some(fates) = &mut self.fates {
            fates.forget_path(id);
        }
        self.settle_sent();
    }

    /// The connection is at rest.
    pub(crate) fn shrink(&mut self) {
        self.outgoing.shrink();
        self.fates.take_if(|fates| fates.shrink());
    }

    /// The connection is over.
    pub(crate) fn on_closed(&mut self) {
        if let Some(fates) = &mut self.fates {
            fates.end();
        }
        self.outgoing.clear();
        self.settle_sent();
    }

    fn settle_sent(&mut self) {
        self.send_loan.settle(self.outgoing.size() as u64);
    }

    /// Whether a send was refused and there was no space since.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// True once after a refused send, when there is space again.
    pub(crate) fn poll_unblocked(&mut self) -> bool {
        let most = self.send_loan.most().min(self.send_limit as u64);
        let unblocked = self.blocked && self.outgoing.size() as u64 * 2 <= most;
        self.blocked &= !unblocked;
        unblocked
    }

    /// Writes those that a scheduler sends; whether there were any. `carrier`: the path that the packet goes on.
    #[inline]
    pub(crate) fn fill_scheduled(
        &mut self,
        w: &mut FrameWriter<'_>,
        carrier: impl FnOnce() -> PathId,
        now: Instant,
    ) -> bool {
        self.can_send() && self.fill_waiting(w, carrier(), now)
    }

    /// Apart from the rest: most packets have stream data only.
    #[inline(never)]
    fn fill_waiting(&mut self, w: &mut FrameWriter<'_>, carrier: PathId, now: Instant) -> bool {
        self.drop_oversized(None, w.capacity());
        self.fill(w, None, carrier, now)
    }

    /// Writes as many datagrams as fit, oldest first: of those for this path, or of those for the one that the scheduler
    /// chooses. True if any was written. They are never repeated (RFC 9221 section 5.2); their records serve statistics, and
    /// those who follow their fates. `carrier`: the path that the packet goes on.
    pub(crate) fn fill(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: Option<PathIndex>,
        carrier: PathId,
        now: Instant,
    ) -> bool {
        let mut wrote = false;
        while let Some(Unsent { data, tag, .. }) = self.outgoing.front(path) {
            let tag = *tag;
            let room = w.remaining();
            let len = data.len();
            let explicit = match room {
                _ if datagram_header_size(Some(len)) + len <= room => true,
                _ if datagram_header_size(None) + len == room => false,
                _ => break,
            };
            encode_datagram_header(w.buf, explicit.then_some(len));
            w.buf.extend_from_slice(data);
            w.record(SentFrame::Datagram {
                len: u16::try_from(len).unwrap_or(u16::MAX),
                tag,
            });
            self.outgoing.pop(path);
            if let (Some(tag), Some(fates)) = (tag, &mut self.fates) {
                fates.on_sent(tag, carrier, now);
            }
            self.drop_expired_of(path, now);
            wrote = true;
        }
        self.settle_sent();
        wrote
    }

    /// Drops all that waits to be sent: the server has rejected early data.
    pub(crate) fn start_over(&mut self) {
        if self.fates.is_some() {
            while let Some(rejected) = self.outgoing.drop_oldest() {
                self.tell_unsent(&rejected, Unsendable::EarlyDataRejected);
            }
        }
        self.outgoing.clear();
        self.send_loan.settle(0);
    }

    /// Drops datagrams in front that fit no packet any more: paths' MTUs may shrink. How many.
    pub(crate) fn drop_oversized(&mut self, path: Option<PathIndex>, room: usize) -> usize {
        let mut dropped = 0;
        while let Some(Unsent { data, .. }) = self.outgoing.front(path)
            && self.max_size(room).is_none_or(|max| data.len() > max)
        {
            if let Some(oversized) = self.outgoing.pop(path) {
                self.tell_unsent(&oversized, Unsendable::TooLarge);
            }
            dropped += 1;
        }
        dropped
    }

    /// A datagram whose fate is to be told is queued, so many times.
    #[cold]
    fn follow(&mut self, tag: u64, copies: usize) -> Option<Tag> {
        let fates = self.fates.get_or_insert_default();
        fates.follow(tag, copies)
    }

    fn tell_unsent(&mut self, unsent: &Unsent, why: Unsendable) {
        if let (Some(tag), Some(fates)) = (unsent.tag, &mut self.fates) {
            fates.on_unsent(tag, why);
        }
    }

    /// Whether the fate of any datagram was asked for.
    #[inline]
    pub(crate) const fn has_fates(&self) -> bool {
        self.fates.is_some()
    }

    /// Packets of a path were acknowledged.
    #[inline(never)]
    pub(crate) fn on_acked(&mut self, now: Instant, path: PathId, acked: &[(u64, SentPacket)]) {
        let Some(fates) = &mut self.fates else {
            return;
        };
        for (_, packet) in acked {
            for tag in tags(packet) {
                fates.on_acked(tag, path, packet.time_sent, now);
            }
        }
    }

    /// Packets of a path were declared lost.
    #[inline(never)]
    pub(crate) fn on_lost(&mut self, now: Instant, path: PathId, lost: &[(u64, SentPacket)]) {
        let Some(fates) = &mut self.fates else {
            return;
        };
        for (number, packet) in lost {
            for tag in tags(packet) {
                fates.on_lost(tag, path, Some(*number), packet.time_sent, now);
            }
        }
    }

    /// Packets of a path were dropped unread, and the peer has said so.
    #[cold]
    pub(crate) fn on_refused(&mut self, now: Instant, path: PathId, refused: &[SentPacket]) {
        let Some(fates) = &mut self.fates else {
            return;
        };
        for packet in refused {
            for tag in tags(packet) {
                fates.on_lost(tag, path, None, packet.time_sent, now);
            }
        }
    }

    /// An ACK frame for packets of a path, which may name some that were declared lost.
    #[inline(never)]
    pub(crate) fn on_late_ack(&mut self, now: Instant, path: PathId, frame: &AckFrame<'_>) {
        if let Some(fates) = &mut self.fates {
            fates.on_late_ack(path, frame.blocks.iter(), now);
        }
    }

    /// The oldest news of a datagram with a tag.
    pub(crate) fn next_fate(&mut self) -> Option<DatagramFate> {
        self.fates.as_mut()?.next()
    }

    /// True once after there were none, when there are such news.
    #[inline]
    pub(crate) fn poll_fates(&mut self) -> bool {
        let fates = self.fates.as_mut();
        fates.is_some_and(|fates| fates.poll_news())
    }

    /// News of datagrams that were dropped because the application did not take them.
    pub(crate) fn dropped_fates(&self) -> u64 {
        self.fates.as_ref().map_or(0, |fates| fates.dropped())
    }

    /// How many such news wait, and how many lost datagrams are remembered, at most on one path.
    pub(crate) fn fate_sizes(&self) -> (usize, usize) {
        self.fates.as_ref().map_or((0, 0), |fates| fates.sizes())
    }

    /// DATAGRAM (RFC 9221 section 4). True if none waited before: the application is to be told.
    pub(crate) fn on_datagram(&mut self, data: &[u8]) -> Result<bool, TransportError> {
        let Some(limit) = self.recv_limit else {
            //= specs/rfc9221.txt#section-3
            //# An endpoint that receives a DATAGRAM frame when it has not indicated support via the
            //# transport parameter MUST terminate the connection with an error of type
            //# PROTOCOL_VIOLATION.
            return Err(
                TransportError::protocol_violation("datagrams are turned off")
                    .in_frame(types::DATAGRAM),
            );
        };
        let size = data.len() + OVERHEAD;
        if size > limit {
            self.dropped += 1;
            return Ok(false);
        }
        let was_empty = self.incoming.items.is_empty();
        let wanted = limit.min(self.incoming.size + size);
        let limit = match self.recv_loan.cover(wanted as u64) as usize {
            covered if covered < wanted => covered,
            _ => limit,
        };
        while self.incoming.size + size > limit && self.incoming.pop().is_some() {
            self.dropped += 1;
        }
        self.incoming.push(Bytes::copy_from_slice(data));
        Ok(was_empty)
    }

    /// What the datagrams that wait to be sent count.
    pub(crate) fn send_size(&self) -> usize {
        self.outgoing.size()
    }

    /// What the received datagrams that were not fetched count, and what they may.
    pub(crate) fn received_size(&self) -> (usize, usize) {
        (self.incoming.size, self.recv_limit.unwrap_or(0))
    }

    /// The oldest received datagram.
    pub(crate) fn recv(&mut self) -> Option<Bytes> {
        let data = self.incoming.pop();
        self.recv_loan.settle(self.incoming.size as u64);
        data
    }

    /// Received datagrams that were dropped because the application did not fetch them.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Datagrams that were dropped unsent because their deadline passed.
    pub(crate) fn expired(&self) -> u64 {
        self.outgoing.expired()
    }

    /// Datagrams that were dropped unsent because the path that they were for ended.
    pub(crate) fn stranded(&self) -> u64 {
        self.outgoing.stranded()
    }
}

/// The datagrams in a packet whose fates are followed.
fn tags(packet: &SentPacket) -> impl Iterator<Item = Tag> + '_ {
    packet.frames.iter().filter_map(|frame| match frame {
        SentFrame::Datagram { tag, .. } => *tag,
        _ => None,
    })
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
