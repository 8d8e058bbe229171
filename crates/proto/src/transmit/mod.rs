//! What leaves next, in which order: close, handshake, what paths owe, what the scheduler wants.
//! Each step is a file; this one only calls them.

mod batch;
mod builder;
mod close_packet;
mod fill;
mod handshake;
mod owed;
mod scheduled;
mod sent;

use std::time::Instant;

pub(crate) use crate::packet::TAG_LEN;
pub(crate) use batch::Batches;
pub(crate) use builder::{Built, PacketBuilder, SealKeys, Written};
pub(crate) use sent::PacketOrigin;

use crate::connection::Connection;
use crate::ids::Transmit;

/// Datagrams with Initial packets, and probes of a path, have at least so many bytes of UDP payload
/// (RFC 9000 sections 14.1 and 8.2.1).
pub(crate) const MIN_INITIAL_DATAGRAM: usize = 1200;

impl Connection {
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.state.is_alive() {
            return self.transmit_close(now, buf);
        }
        if !self.batches.is_empty()
            && let Some(transmit) = self.transmit_batch(buf)
        {
            return Some(transmit);
        }
        if let Some(transmit) = self.transmit_handshake(now, buf) {
            return Some(transmit);
        }
        self.handshake.one_rtt.as_ref()?;
        self.feed_stream_events();
        if let Some(transmit) = self.transmit_owed(now, buf, false) {
            return Some(transmit);
        }
        if self.state.is_established() {
            if let Some(transmit) = self.transmit_copy(now, buf) {
                return Some(transmit);
            }
            if let Some(transmit) = self.transmit_scheduled(now, max_datagrams, buf) {
                return Some(transmit);
            }
        }
        self.transmit_owed(now, buf, true)
    }
}
