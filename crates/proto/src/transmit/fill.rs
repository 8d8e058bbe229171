//! Fills a 1-RTT packet with control frames: their owners are asked in a fixed order and choose what to write.

use crate::connection::Connection;
use crate::frame::writer::FrameWriter;

impl Connection {
    /// Whether control frames or datagrams wait to be scheduled.
    pub(crate) fn has_control(&self) -> bool {
        self.handshake.can_send_control()
            || self.data.streams().can_send_control()
            || self.data.has_datagrams()
            || self.paths.can_send_control()
    }

    /// Whether there is anything that a scheduler could send.
    pub(crate) fn has_scheduled_data(&self) -> bool {
        self.data.can_send_streams() || self.has_control()
    }

    /// Everything but stream data and datagrams, most urgent first.
    pub(super) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        self.handshake.fill_control(w);
        self.paths.fill_ack_frequency(w);
        self.handshake.fill_new_tokens(w);
        self.paths.fill_control(w);
        if self.data.streams().can_send_control() {
            self.data.streams_mut().fill_control(w);
        }
    }
}
