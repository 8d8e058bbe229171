//! What leaves next, in which order: close, handshake, what paths send by themselves, what the scheduler wants.
//! Each step is a file; this one calls them, and asks whether control frames wait.

mod handshake;
mod packet;
mod scheduled;
mod unscheduled;

use std::time::Instant;

use crate::connection::Connection;
use crate::data::SpareBuffers;
use crate::frame_writer::FrameWriter;
use crate::ids::Transmit;

impl Connection {
    /// Exchanges the free buffers in which batches for further paths are built, before and after
    /// [`poll_transmit`](Self::poll_transmit): the connection uses those that it is lent, and holds none in between.
    ///
    /// Drivers need not call it. A connection then keeps buffers of its own until it is at rest.
    pub fn swap_spare_buffers(&mut self, buffers: &mut SpareBuffers) {
        self.data.swap_spare(buffers);
    }

    /// Writes datagrams to send to the end of `buf`: one, or up to `max_datagrams` of equal size
    /// for one path. `None` if there is nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.handshake.attempt().is_some()
            && let Some(transmit) = self.transmit_race(now, max_datagrams, buf)
        {
            return Some(transmit);
        }
        if !self.state.is_alive() {
            return self.transmit_close(now, buf);
        }
        self.data.datagrams_mut().drop_expired(now);
        if self.data.has_batches()
            && let Some(transmit) = self.transmit_batch(buf)
        {
            return Some(transmit);
        }
        // Without such keys, there is nothing of the handshake to send any more.
        if self.handshake.has_long_keys()
            && let Some(transmit) = self.transmit_handshake(now, buf)
        {
            return Some(transmit);
        }
        if self.state.is_handshaking()
            && let Some(transmit) = self.transmit_early(now, buf)
        {
            return Some(transmit);
        }
        self.handshake.one_rtt()?;
        self.data.tell_stream_events();
        let mut left = false;
        if let Some(transmit) = self.transmit_unscheduled(now, buf, false, &mut left) {
            return Some(transmit);
        }
        if self.state.is_established() {
            while self.data.has_copies_to_send()
                && let Some(copy) = self.data.next_copy(now, &mut self.paths)
            {
                if let Some(transmit) = self.transmit_bound(now, copy, buf) {
                    return Some(transmit);
                }
            }
            for index in self.data.paths_of_datagrams().iter() {
                let data = self.data.datagrams_for(now, &mut self.paths, index);
                if let Some(data) = data
                    && let Some(transmit) = self.transmit_bound(now, data, buf)
                {
                    return Some(transmit);
                }
            }
            if let Some(transmit) = self.transmit_scheduled(now, max_datagrams.max(1), buf) {
                return Some(transmit);
            }
            if !self.state.is_alive() {
                // For a fault of the scheduler's.
                return self.transmit_close(now, buf);
            }
        }
        // Nothing has left since, so that no path has anything that it did not have.
        if !left {
            return None;
        }
        self.transmit_unscheduled(now, buf, true, &mut left)
    }

    /// Whether control frames or datagrams wait to be scheduled.
    fn has_control(&self) -> bool {
        self.handshake.can_send_control()
            || self.data.streams().can_send_control()
            || self.data.has_datagrams()
            || self.paths.can_send_control()
    }

    /// Whether there is anything that a scheduler could send.
    pub(crate) fn has_scheduled_data(&self) -> bool {
        self.data.can_send_streams() || self.has_control()
    }

    /// Fills a 1-RTT packet with everything but stream data and datagrams, most urgent first. The owners are asked in this
    /// order, and choose what to write.
    fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        self.handshake.fill_control(w);
        self.paths.fill_ack_frequency(w);
        self.handshake.fill_new_tokens(w);
        self.paths.fill_control(w);
        if self.data.streams().can_send_control() {
            self.data.streams_mut().fill_control(w);
        }
    }
}
