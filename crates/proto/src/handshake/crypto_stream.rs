//! The CRYPTO stream of one encryption level, both directions (RFC 9000 section 7).

use std::collections::VecDeque;
use std::ops::Range;

use mpquic_wire::frame::{crypto_header_size, encode_crypto_header};

use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;
use crate::{TransportError, limits};

/// The bytes sent and received at one level. Small: kept until the level is dropped.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    out: Vec<u8>,
    /// What to send, for the first time or again.
    pending: VecDeque<Range<u64>>,
    /// What was acknowledged, ascending and disjoint.
    acked: Vec<Range<u64>>,
    /// Bytes handed to TLS so far.
    read: u64,
    /// Received and not read, ascending, disjoint and not adjacent. The gaps between them take no memory.
    received: Vec<Piece>,
}

/// Received bytes that follow each other.
#[derive(Debug)]
struct Piece {
    start: u64,
    data: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    /// Adds what lies beyond its end of data that begins no later than there.
    fn extend(&mut self, start: u64, data: &[u8]) {
        let known = usize::try_from(self.end() - start).unwrap_or(usize::MAX);
        self.data
            .extend_from_slice(data.get(known..).unwrap_or_default());
    }
}

impl CryptoStream {
    /// Queues bytes from TLS.
    pub(crate) fn write(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let start = self.out.len() as u64;
        self.out.extend_from_slice(data);
        self.pending.push_back(start..self.out.len() as u64);
    }

    /// Bytes kept of what came, and the ranges that they form.
    pub(crate) fn buffered(&self) -> (usize, usize) {
        let bytes = self.received.iter().map(|piece| piece.data.capacity());
        (bytes.sum(), self.received.len())
    }

    /// Memory of what was sent and of what came.
    pub(crate) fn memory(&self) -> usize {
        self.out.capacity() + self.buffered().0
    }

    pub(crate) fn can_send(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes that wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        let bytes = self.pending.iter().map(|range| range.end - range.start);
        usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Writes CRYPTO frames while there is room.
    pub(crate) fn fill(&mut self, w: &mut FrameWriter<'_>) {
        while let Some(range) = self.pending.front().cloned() {
            let want = (range.end - range.start) as usize;
            let room = w.remaining();
            let header = crypto_header_size(range.start, want);
            // A frame of fewer than 8 bytes of data is not worth its header.
            if room < header + want.min(8) {
                return;
            }
            let len = want.min(room - header);
            let end = range.start + len as u64;
            encode_crypto_header(w.buf, range.start, len);
            w.buf
                .extend_from_slice(&self.out[range.start as usize..end as usize]);
            w.record(SentFrame::Crypto {
                start: range.start,
                end,
            });
            self.pending.pop_front();
            if end < range.end {
                self.pending.push_front(end..range.end);
            }
        }
    }

    pub(crate) fn on_acked(&mut self, start: u64, end: u64) {
        insert(&mut self.acked, start..end);
        self.pending
            .retain(|range| !(start <= range.start && range.end <= end));
    }

    /// Queues the bytes again unless they were acknowledged or are queued already.
    pub(crate) fn on_lost(&mut self, start: u64, end: u64) {
        let covers = |range: &Range<u64>| range.start <= start && end <= range.end;
        if !self.acked.iter().any(covers) && !self.pending.iter().any(covers) {
            self.pending.push_front(start..end);
        }
    }

    /// Queues again all that is in flight, if nothing else is queued: a loss probe carries data (RFC 9002 section
    /// 6.2.4), and the first Initial packet that a server sees has to carry some (RFC 9000 section 17.2.2).
    pub(crate) fn repeat(&mut self) {
        if self.can_send() {
            return;
        }
        let mut start = 0;
        for acked in &self.acked {
            if start < acked.start {
                self.pending.push_back(start..acked.start);
            }
            start = acked.end;
        }
        let end = self.out.len() as u64;
        if start < end {
            self.pending.push_back(start..end);
        }
    }

    /// Whether TLS has got all bytes up to this offset.
    pub(crate) fn has_read(&self, end: u64) -> bool {
        end <= self.read
    }

    /// Whether bytes came that TLS has not got.
    pub(crate) fn has_unread(&self) -> bool {
        !self.received.is_empty()
    }

    /// Takes in a CRYPTO frame.
    pub(crate) fn on_frame(&mut self, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        let end = offset + data.len() as u64;
        //= specs/rfc9000.txt#section-7.5
        //# Implementations MUST support buffering at least 4096 bytes of data received in
        //# out-of-order CRYPTO frames.
        //= specs/rfc9000.txt#section-7.5
        //# If an endpoint does not expand its buffer, it MUST close the connection with a
        //# CRYPTO_BUFFER_EXCEEDED error code.
        if end > self.read + limits::MAX_CRYPTO_BUFFER {
            return Err(TransportError::crypto_buffer_exceeded(
                "CRYPTO data too far ahead",
            ));
        }
        let start = offset.max(self.read);
        if start >= end {
            return Ok(());
        }
        self.insert(start, &data[(start - offset) as usize..]);
        if self.received.len() > limits::MAX_CRYPTO_GAPS {
            return Err(TransportError::crypto_buffer_exceeded(
                "too many gaps in CRYPTO data",
            ));
        }
        Ok(())
    }

    /// Puts received bytes to those that they touch.
    fn insert(&mut self, start: u64, data: &[u8]) {
        let end = start + data.len() as u64;
        let from = self.received.partition_point(|piece| piece.end() < start);
        let to = self.received.partition_point(|piece| piece.start <= end);
        if from == to {
            let data = data.to_vec();
            self.received.insert(from, Piece { start, data });
            return;
        }
        let mut merged = match &mut self.received[from] {
            // The usual case: it follows what is there.
            first if first.start <= start => Piece {
                start: first.start,
                data: std::mem::take(&mut first.data),
            },
            _ => Piece {
                start,
                data: data.to_vec(),
            },
        };
        merged.extend(start, data);
        for piece in self.received.drain(from..to) {
            merged.extend(piece.start, &piece.data);
        }
        self.received.insert(from, merged);
    }

    /// Hands the bytes that follow what was read so far to `consume`, if there are any.
    pub(crate) fn read<E>(
        &mut self,
        consume: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self
            .received
            .first()
            .is_none_or(|first| first.start != self.read)
        {
            return Ok(false);
        }
        let first = self.received.remove(0);
        self.read = first.end();
        let result = consume(&first.data);
        result.map(|()| true)
    }
}

/// Adds a range to a list of ascending, disjoint, non-adjacent ranges.
fn insert(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    let from = ranges.partition_point(|range| range.end < new.start);
    let to = ranges.partition_point(|range| range.start <= new.end);
    if from == to {
        ranges.insert(from, new);
        return;
    }
    let merged = ranges[from].start.min(new.start)..ranges[to - 1].end.max(new.end);
    ranges[from] = merged;
    ranges.drain(from + 1..to);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(stream: &mut CryptoStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream
            .read(|data| {
                all.extend_from_slice(data);
                Ok::<(), ()>(())
            })
            .unwrap();
        all
    }

    #[test]
    fn reassembles_out_of_order_and_overlapping() {
        let mut stream = CryptoStream::default();
        stream.on_frame(5, b"fgh").unwrap();
        assert!(read(&mut stream).is_empty());
        stream.on_frame(0, b"abc").unwrap();
        assert_eq!(read(&mut stream), b"abc");
        stream.on_frame(1, b"bcdef").unwrap();
        assert_eq!(read(&mut stream), b"defgh");
        stream.on_frame(0, b"abc").unwrap();
        assert!(read(&mut stream).is_empty());
    }

    //= specs/rfc9000.txt#section-7.5
    //= type=test
    //# If an endpoint does not expand its buffer, it MUST close the connection with a
    //# CRYPTO_BUFFER_EXCEEDED error code.
    #[test]
    fn caps_hold() {
        let mut stream = CryptoStream::default();
        assert!(stream.on_frame(1 << 20, b"x").is_err());
        let taken = (1..1000).take_while(|i| stream.on_frame(i * 2, b"x").is_ok());
        assert_eq!(taken.count(), limits::MAX_CRYPTO_GAPS);
    }

    #[test]
    fn a_gap_takes_no_memory() {
        let mut stream = CryptoStream::default();
        stream
            .on_frame(limits::MAX_CRYPTO_BUFFER - 1, b"x")
            .unwrap();
        let (bytes, pieces) = stream.buffered();
        assert!(bytes <= 64 && pieces == 1, "{bytes} bytes in {pieces}");
    }

    proptest! {
        #[test]
        fn agrees_with_a_flat_buffer(
            frames in prop::collection::vec((0_u64..60, 0_usize..20, any::<bool>()), 0..60)
        ) {
            let byte = |at: u64| at as u8;
            let mut stream = CryptoStream::default();
            let mut there = [false; 100];
            let mut read_so_far = 0;
            for (offset, len, reads) in frames {
                let data: Vec<u8> = (offset..offset + len as u64).map(byte).collect();
                stream.on_frame(offset, &data).unwrap();
                there[offset as usize..offset as usize + len].fill(true);
                if reads {
                    let end = (read_so_far..100).find(|at| !there[*at]).unwrap_or(100);
                    let expected: Vec<u8> = (read_so_far as u64..end as u64).map(byte).collect();
                    prop_assert_eq!(read(&mut stream), expected);
                    read_so_far = end;
                }
                let pieces = &stream.received;
                prop_assert!(pieces.windows(2).all(|two| two[0].end() < two[1].start));
            }
        }
    }

    #[test]
    fn lost_data_is_sent_again_and_acked_data_is_not() {
        let mut stream = CryptoStream::default();
        stream.write(&[7; 100]);
        let mut buf = Vec::new();
        let mut w = FrameWriter::new(&mut buf, 1000);
        stream.fill(&mut w);
        assert_eq!(w.frames[..], [SentFrame::Crypto { start: 0, end: 100 }]);
        assert!(!stream.can_send());
        stream.on_lost(0, 100);
        stream.on_lost(0, 100);
        assert_eq!(stream.pending.len(), 1);
        stream.on_acked(0, 100);
        assert!(!stream.can_send());
        stream.on_lost(0, 100);
        assert!(!stream.can_send());
    }
}
