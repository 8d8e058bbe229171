//! Datagrams (RFC 9221) for which the application named the path: each path sends its own as it has room, and no scheduler
//! is asked.

use std::time::Instant;

use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::ids::Transmit;

impl Connection {
    /// The next packet with datagrams for one path.
    #[inline(never)]
    pub(super) fn transmit_steered(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let paths = self.data.datagrams.steered();
        for index in paths.iter() {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            let (id, ecn) = (path.id, path.ecn());
            self.data.schedule.refresh_path(now, &mut self.paths, index);
            if !self.data.schedule.can_send(index) || !self.paths.has_cid(id) {
                continue;
            }
            let spec = PacketSpec {
                ecn,
                ..PacketSpec::unscheduled(index)
            };
            let Some(packet) = self.open_packet(&spec, buf) else {
                continue;
            };
            let mut w = packet.writer(buf);
            self.data
                .datagrams
                .drop_oversized(Some(index), w.capacity());
            // Before the acknowledgement: the largest that may be queued fits only into a packet of its own.
            if !self.data.datagrams.fill(&mut w, Some(index), now) {
                packet.discard(w);
                continue;
            }
            self.paths.fill_own_ack(&mut w, now, index);
            let transmit = self.seal_datagram(now, &spec, &packet, w);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }
}
