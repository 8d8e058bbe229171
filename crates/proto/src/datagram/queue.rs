//! Datagrams to send and received ones, bounded by bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{PathIndex, PathSet};
use mpquic_wire::frame::{datagram_header_size, encode_datagram_header, types};

use super::SendDatagramError;
use super::outgoing::{Outgoing, Unsent};
use crate::frame_writer::FrameWriter;
use crate::memory::{Direction, Loan, Memory};
use crate::sent_frame::SentFrame;
use crate::{TransportConfig, TransportError};

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
        }
    }

    /// What waits counts for this memory from now on.
    pub(crate) fn share(&mut self, memory: &Arc<Memory>) {
        self.send_loan = Loan::new(Arc::clone(memory), Direction::Send);
        self.recv_loan = Loan::new(Arc::clone(memory), Direction::Receive);
    }

    /// What our transport parameters must say: the largest frame that we take, if any.
    pub(crate) fn local_max_frame_size(config: &TransportConfig) -> Option<u64> {
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
        let size = (data.len() + OVERHEAD) * paths.map_or(1, PathSet::len);
        if self.max_size(room).is_none_or(|max| data.len() > max) {
            return Err(SendDatagramError::TooLarge);
        }
        let most = self.send_room(size);
        if drop {
            while self.outgoing.size() + size > most {
                if !self.outgoing.drop_oldest() {
                    // One alone may exceed the limit.
                    break;
                }
            }
        } else if !self.outgoing.is_empty() && self.outgoing.size() + size > most {
            self.blocked = true;
            return Err(SendDatagramError::Blocked(data));
        }
        let Some(paths) = paths else {
            self.outgoing.push(None, Unsent { data, deadline });
            return Ok(());
        };
        // The last one takes the data itself: nothing is counted or allocated for a single path.
        let mut paths = paths.iter().peekable();
        while let Some(path) = paths.next() {
            if paths.peek().is_none() {
                self.outgoing.push(Some(path), Unsent { data, deadline });
                break;
            }
            let data = data.clone();
            self.outgoing.push(Some(path), Unsent { data, deadline });
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
        self.outgoing.drop_expired(None, now);
        for path in self.outgoing.steered().iter() {
            self.outgoing.drop_expired(Some(path), now);
        }
        self.settle_sent();
    }

    /// A path ended.
    pub(crate) fn forget_path(&mut self, path: PathIndex) {
        self.outgoing.forget_path(path);
        self.settle_sent();
    }

    /// The connection is at rest.
    pub(crate) fn shrink(&mut self) {
        self.outgoing.shrink();
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

    /// Writes those that a scheduler sends; whether there were any.
    pub(crate) fn fill_scheduled(&mut self, w: &mut FrameWriter<'_>, now: Instant) -> bool {
        let before = w.buf.len();
        if self.can_send() {
            self.drop_oversized(None, w.capacity());
            self.fill(w, None, now);
        }
        w.buf.len() > before
    }

    /// Writes as many datagrams as fit, oldest first: of those for this path, or of those for the one that the scheduler
    /// chooses. True if any was written. They are never repeated (RFC 9221 section 5.2); their records serve statistics.
    pub(crate) fn fill(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: Option<PathIndex>,
        now: Instant,
    ) -> bool {
        let mut wrote = false;
        while let Some(Unsent { data, .. }) = self.outgoing.front(path) {
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
            });
            self.outgoing.pop(path);
            self.outgoing.drop_expired(path, now);
            wrote = true;
        }
        self.settle_sent();
        wrote
    }

    /// Drops all that waits to be sent.
    pub(crate) fn drop_outgoing(&mut self) {
        self.outgoing.clear();
        self.send_loan.settle(0);
    }

    /// Drops datagrams in front that fit no packet any more: paths' MTUs may shrink. How many.
    pub(crate) fn drop_oversized(&mut self, path: Option<PathIndex>, room: usize) -> usize {
        let mut dropped = 0;
        while let Some(Unsent { data, .. }) = self.outgoing.front(path)
            && self.max_size(room).is_none_or(|max| data.len() > max)
        {
            self.outgoing.pop(path);
            dropped += 1;
        }
        dropped
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

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams(send: usize, recv: Option<usize>) -> Datagrams {
        let mut config = TransportConfig::default();
        config
            .datagram_send_buffer(send)
            .datagram_receive_buffer(recv);
        Datagrams::new(&config)
    }

    fn fill(d: &mut Datagrams, room: usize) -> Vec<u8> {
        let mut buf = Vec::new();
        d.fill(&mut FrameWriter::new(&mut buf, room), None, Instant::now());
        assert!(buf.len() <= room);
        buf
    }

    #[test]
    fn refusals() {
        let data = Bytes::from_static(&[7; 100]);
        let mut d = datagrams(0, None);
        assert_eq!(
            d.send(data.clone(), None, None, false, 1200),
            Err(SendDatagramError::Disabled)
        );
        let mut d = datagrams(300, None);
        let refused = d.send(data.clone(), None, None, false, 1200);
        //= specs/rfc9221.txt#section-3
        //= type=test
        //# An endpoint MUST NOT send DATAGRAM frames until it has received the
        //# max_datagram_frame_size transport parameter with a non-zero value during the handshake
        //# (or during a previous handshake if 0-RTT is used).
        assert_eq!(refused, Err(SendDatagramError::UnsupportedByPeer));
        d.set_peer_max(Some(102));
        assert_eq!(d.max_size(1200), Some(99));
        let refused = d.send(data.clone(), None, None, false, 1200);
        //= specs/rfc9221.txt#section-3
        //= type=test
        //# An endpoint MUST NOT send DATAGRAM frames that are larger than the
        //# max_datagram_frame_size value it has received from its peer.
        assert_eq!(refused, Err(SendDatagramError::TooLarge));
        d.set_peer_max(Some(65535));
        assert_eq!(d.max_size(1200), Some(1197));
        assert_eq!(d.max_size(64), Some(61));
        d.send(data.clone(), None, None, false, 1200).unwrap();
        d.send(data.clone(), None, None, false, 1200).unwrap();
        let refused = d.send(data.clone(), None, None, false, 1200);
        assert_eq!(refused, Err(SendDatagramError::Blocked(data.clone())));
        assert!(!d.poll_unblocked());
        d.send(data, None, None, true, 1200).unwrap();
        assert_eq!(d.outgoing.size(), 2 * 132);
        assert_eq!(fill(&mut d, 1200).len(), 2 * 103);
        assert!(!d.can_send() && d.poll_unblocked() && !d.poll_unblocked());
        assert!(d.on_datagram(b"x").is_err());
    }

    #[test]
    fn sizes_at_the_borders_fit() {
        for room in 1..=1500 {
            let mut d = datagrams(1 << 20, None);
            d.set_peer_max(Some(65535));
            if let Some(max) = d.max_size(room) {
                d.send(vec![1; max].into(), None, None, false, room)
                    .unwrap();
                assert!(!fill(&mut d, room).is_empty(), "{room}");
            }
        }
        let mut d = datagrams(1 << 20, None);
        d.set_peer_max(Some(65535));
        d.send(vec![1; 1000].into(), None, None, false, 1200)
            .unwrap();
        assert!(fill(&mut d, 900).is_empty());
        assert_eq!(u64::from(fill(&mut d, 1001)[0]), types::DATAGRAM);
        d.send(vec![1; 1000].into(), None, None, false, 1200)
            .unwrap();
        assert_eq!(d.drop_oversized(None, 1000), 1);
        assert!(!d.can_send());
    }

    #[test]
    fn the_oldest_received_go_first() {
        let mut d = datagrams(0, Some(1000));
        for n in 0..100_000u32 {
            let first = d.on_datagram(&n.to_be_bytes()).unwrap();
            assert_eq!(first, n == 0);
            d.on_datagram(&[]).unwrap();
        }
        assert!(d.incoming.size <= 1000);
        assert!(d.dropped() > 199_900);
        d.on_datagram(b"last").unwrap();
        let all: Vec<_> = std::iter::from_fn(|| d.recv()).collect();
        assert_eq!(all.last().unwrap(), &Bytes::from_static(b"last"));
        assert_eq!(d.incoming.size, 0);
        assert!(!d.on_datagram(&[0; 2000]).unwrap());
    }
}
