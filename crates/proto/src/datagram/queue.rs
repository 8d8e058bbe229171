//! The two queues of datagrams, bounded by bytes; does not choose paths or detect losses.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::SendDatagramError;
use crate::frame::writer::FrameWriter;
use crate::frame::{datagram_header_size, encode_datagram_header, types};
use crate::memory::{Direction, Loan, Memory};
use crate::space::SentFrame;
use crate::{TransportConfig, TransportError};

/// What each datagram counts in a queue beyond its bytes, so that empty ones are bounded too.
const OVERHEAD: usize = 32;

/// Queued datagrams and the sum of what they count.
#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Bytes>,
    size: usize,
}

impl Queue {
    fn push(&mut self, data: Bytes) {
        self.size += data.len() + OVERHEAD;
        self.items.push_back(data);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.items.pop_front()?;
        self.size -= data.len() + OVERHEAD;
        Some(data)
    }
}

/// A connection's datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    outgoing: Queue,
    send_limit: usize,
    send_loan: Loan,
    /// The peer's max_datagram_frame_size (RFC 9221 section 3); 0 takes none.
    peer_max: u64,
    /// A send was refused for want of space.
    blocked: bool,
    incoming: Queue,
    recv_limit: Option<usize>,
    recv_loan: Loan,
    /// Received datagrams that were dropped because the application did not fetch them.
    dropped: u64,
}

impl Datagrams {
    pub(crate) fn new(config: &TransportConfig) -> Self {
        Self {
            outgoing: Queue::default(),
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

    /// Queues a datagram; with `drop`, the oldest make room. `room` as in
    /// [`max_size`](Self::max_size).
    pub(crate) fn send(
        &mut self,
        data: Bytes,
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
        let size = data.len() + OVERHEAD;
        if self.max_size(room).is_none_or(|max| data.len() > max) {
            return Err(SendDatagramError::TooLarge);
        }
        let most = self.send_room(size);
        if drop {
            while self.outgoing.size + size > most {
                if self.outgoing.pop().is_none() {
                    // One alone may exceed the limit.
                    break;
                }
            }
        } else if !self.outgoing.items.is_empty() && self.outgoing.size + size > most {
            self.blocked = true;
            return Err(SendDatagramError::Blocked(data));
        }
        self.outgoing.push(data);
        Ok(())
    }

    /// How much may wait to be sent, if `more` is to be added.
    fn send_room(&mut self, more: usize) -> usize {
        let wanted = self.send_limit.min(self.outgoing.size + more);
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
            .saturating_sub(self.outgoing.size + OVERHEAD)
    }

    /// Whether datagrams wait to be sent.
    pub(crate) fn can_send(&self) -> bool {
        !self.outgoing.items.is_empty()
    }

    /// True once after a refused send, when there is space again.
    pub(crate) fn poll_unblocked(&mut self) -> bool {
        let most = self.send_loan.most().min(self.send_limit as u64);
        let unblocked = self.blocked && self.outgoing.size as u64 * 2 <= most;
        self.blocked &= !unblocked;
        unblocked
    }

    /// Writes as many datagrams as fit, oldest first. True if any was written. They are never
    /// repeated (RFC 9221 section 5.2); their records serve statistics.
    pub(crate) fn fill(&mut self, w: &mut FrameWriter<'_>) -> bool {
        let mut wrote = false;
        while let Some(data) = self.outgoing.items.front() {
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
            self.outgoing.pop();
            wrote = true;
        }
        self.send_loan.settle(self.outgoing.size as u64);
        wrote
    }

    /// Drops all that waits to be sent.
    pub(crate) fn drop_outgoing(&mut self) {
        self.outgoing = Queue::default();
        self.send_loan.settle(0);
    }

    /// Drops datagrams in front that fit no packet any more: paths' MTUs may shrink. How many.
    pub(crate) fn drop_oversized(&mut self, room: usize) -> usize {
        let mut dropped = 0;
        while let Some(data) = self.outgoing.items.front()
            && self.max_size(room).is_none_or(|max| data.len() > max)
        {
            self.outgoing.pop();
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
        d.fill(&mut FrameWriter::new(&mut buf, room));
        assert!(buf.len() <= room);
        buf
    }

    #[test]
    fn refusals() {
        let data = Bytes::from_static(&[7; 100]);
        let mut d = datagrams(0, None);
        assert_eq!(
            d.send(data.clone(), false, 1200),
            Err(SendDatagramError::Disabled)
        );
        let mut d = datagrams(300, None);
        let refused = d.send(data.clone(), false, 1200);
        //= specs/rfc9221.txt#section-3
        //= type=test
        //# An endpoint MUST NOT send DATAGRAM frames until it has received the
        //# max_datagram_frame_size transport parameter with a non-zero value during the handshake
        //# (or during a previous handshake if 0-RTT is used).
        assert_eq!(refused, Err(SendDatagramError::UnsupportedByPeer));
        d.set_peer_max(Some(102));
        assert_eq!(d.max_size(1200), Some(99));
        let refused = d.send(data.clone(), false, 1200);
        //= specs/rfc9221.txt#section-3
        //= type=test
        //# An endpoint MUST NOT send DATAGRAM frames that are larger than the
        //# max_datagram_frame_size value it has received from its peer.
        assert_eq!(refused, Err(SendDatagramError::TooLarge));
        d.set_peer_max(Some(65535));
        assert_eq!(d.max_size(1200), Some(1197));
        assert_eq!(d.max_size(64), Some(61));
        d.send(data.clone(), false, 1200).unwrap();
        d.send(data.clone(), false, 1200).unwrap();
        let refused = d.send(data.clone(), false, 1200);
        assert_eq!(refused, Err(SendDatagramError::Blocked(data.clone())));
        assert!(!d.poll_unblocked());
        d.send(data, true, 1200).unwrap();
        assert_eq!(d.outgoing.items.len(), 2);
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
                d.send(vec![1; max].into(), false, room).unwrap();
                assert!(!fill(&mut d, room).is_empty(), "{room}");
            }
        }
        let mut d = datagrams(1 << 20, None);
        d.set_peer_max(Some(65535));
        d.send(vec![1; 1000].into(), false, 1200).unwrap();
        assert!(fill(&mut d, 900).is_empty());
        assert_eq!(u64::from(fill(&mut d, 1001)[0]), types::DATAGRAM);
        d.send(vec![1; 1000].into(), false, 1200).unwrap();
        assert_eq!(d.drop_oversized(1000), 1);
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
