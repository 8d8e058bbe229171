//! Fills a 1-RTT packet with control frames: their owners are asked in a fixed order and choose what to write.

use crate::connection::Connection;
use crate::frame::Frame;
use crate::frame::SentFrame;
use crate::frame::writer::FrameWriter;
use crate::space::SpaceId;

impl Connection {
    /// Whether control frames or datagrams wait to be scheduled.
    pub(crate) fn has_control(&self) -> bool {
        self.handshake_done_pending
            || self
                .new_tokens
                .as_ref()
                .is_some_and(|tokens| tokens.can_send())
            || self.handshake.can_send(SpaceId::Data)
            || self.data.streams.can_send_control()
            || self.data.datagrams.can_send()
            || self.paths.can_send_control()
    }

    /// Everything but stream data and datagrams, most urgent first.
    pub(super) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        if self.handshake_done_pending && w.put(&Frame::HandshakeDone) {
            w.record(SentFrame::HandshakeDone);
            self.handshake_done_pending = false;
        }
        self.handshake.stream(SpaceId::Data).fill(w);
        self.paths.fill_ack_frequency(w);
        if let Some(tokens) = &mut self.new_tokens {
            tokens.fill(w);
        }
        self.paths.fill_control(w);
        if self.data.streams.can_send_control() {
            self.data.streams.fill_control(w);
        }
    }
}
