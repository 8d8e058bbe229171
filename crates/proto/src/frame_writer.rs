//! A bounded writer of one packet's payload that records what went in.

use mpquic_wire::frame::{Frame, types};

use crate::sent_frame::{SentFrame, SentFrames};

/// Writes frames of one packet. Owners write through it, in the order in which they are asked.
pub(crate) struct FrameWriter<'a> {
    /// The datagram so far, header included; frames are appended.
    pub(crate) buf: &'a mut Vec<u8>,
    /// Where the payload starts: an index into `buf`.
    start: usize,
    /// Where the payload must end, AEAD tag not included: an index into `buf`.
    end: usize,
    /// The record.
    pub(crate) frames: SentFrames,
    ack_eliciting: bool,
    resent: Resent,
}

/// Stream bytes in a packet that were sent before, by the reason for sending them again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Resent {
    /// There is such data in the packet, be it the end of a stream alone.
    pub(crate) any: bool,
    /// Lost, in flight only on paths in trouble, or probing for the peer.
    pub(crate) retransmitted: u64,
    /// In flight, and one more time on purpose.
    pub(crate) copied: u64,
}

impl<'a> FrameWriter<'a> {
    pub(crate) fn new(buf: &'a mut Vec<u8>, end: usize) -> Self {
        Self {
            start: buf.len(),
            buf,
            end,
            frames: SentFrames::new(),
            ack_eliciting: false,
            resent: Resent::default(),
        }
    }

    /// Bytes that an empty packet like this has for frames.
    pub(crate) fn capacity(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Bytes left for frames.
    pub(crate) fn remaining(&self) -> usize {
        self.end.saturating_sub(self.buf.len())
    }

    /// Writes a PING, for which there is always room: a packet has four bytes, and acknowledgements leave one.
    pub(crate) fn ping(&mut self) {
        self.buf.push(types::PING as u8);
        self.mark_ack_eliciting();
    }

    /// Writes an IMMEDIATE_ACK if there is room.
    pub(crate) fn immediate_ack(&mut self) {
        if self.remaining() > 0 {
            self.buf.push(types::IMMEDIATE_ACK as u8);
            self.mark_ack_eliciting();
        }
    }

    /// Writes a frame if it fits; the caller notes what it was. False, and nothing written, if not.
    pub(crate) fn put(&mut self, frame: &Frame<'_>) -> bool {
        let fits = frame.size() <= self.remaining();
        if fits {
            frame.encode(self.buf);
        }
        fits
    }

    /// Notes that the frame just written is ack-eliciting and is to be repeated as `frame`.
    pub(crate) fn record(&mut self, frame: SentFrame) {
        self.ack_eliciting |= !matches!(frame, SentFrame::Ack { .. });
        self.frames.push(frame);
    }

    /// Notes an ack-eliciting frame that needs no record (PING, PATH_RESPONSE).
    pub(crate) fn mark_ack_eliciting(&mut self) {
        self.ack_eliciting = true;
    }

    /// Notes that so many stream bytes in this packet were sent before, and are taken for lost.
    pub(crate) fn mark_retransmission(&mut self, bytes: u64) {
        self.resent.any = true;
        self.resent.retransmitted += bytes;
    }

    /// Notes that so many stream bytes in this packet are in flight, too.
    pub(crate) fn mark_copy(&mut self, bytes: u64) {
        self.resent.any = true;
        self.resent.copied += bytes;
    }

    pub(crate) fn is_ack_eliciting(&self) -> bool {
        self.ack_eliciting
    }

    pub(crate) fn resent(&self) -> Resent {
        self.resent
    }
}
