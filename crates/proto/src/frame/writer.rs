//! A bounded writer of one packet's payload that records what went in; chooses nothing.

use super::Frame;
use crate::space::{SentFrame, SentFrames};

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
    retransmission: bool,
}

impl<'a> FrameWriter<'a> {
    pub(crate) fn new(buf: &'a mut Vec<u8>, end: usize) -> Self {
        Self {
            start: buf.len(),
            buf,
            end,
            frames: SentFrames::new(),
            ack_eliciting: false,
            retransmission: false,
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

    /// Notes that data in this packet was sent before.
    pub(crate) fn mark_retransmission(&mut self) {
        self.retransmission = true;
    }

    pub(crate) fn is_ack_eliciting(&self) -> bool {
        self.ack_eliciting
    }

    pub(crate) fn is_retransmission(&self) -> bool {
        self.retransmission
    }
}
