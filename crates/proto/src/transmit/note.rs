//! Notes what leaves: a packet with its path, its space and the scheduler; datagrams with their path.

use std::time::Instant;

use mpquic_sched_core::{EcnCodepoint, Sent};

use super::plan::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::frame::writer::Resent;
use crate::ids::Transmit;
use crate::path::Addresses;
use crate::space::{PacketOrigin, SentPacket, SpaceId};

impl Connection {
    /// A packet leaves: the path and the scheduler learn of it.
    pub(super) fn note_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: SentPacket,
        resent: Resent,
    ) {
        let (decision, size) = (packet.decision, packet.size);
        let Some((path, controller)) = self.paths.with_controller(spec.path) else {
            return;
        };
        if spec.origin == PacketOrigin::Close {
            // Nobody acknowledges it, and nobody waits for it.
            match self.handshake.space_mut(spec.space) {
                Some(space) => {
                    space.numbers.take(&mut self.rng);
                }
                None => path.take_number(&mut self.rng),
            }
            return;
        }
        self.totals.sent_packets += 1;
        if packet.ack_eliciting {
            self.idle.on_eliciting_sent(now);
        }
        if spec.space != SpaceId::Data {
            path.on_handshake_packet_sent(now, &packet, controller);
            if let Some(space) = self.handshake.space_mut(spec.space) {
                space.on_sent(packet, &mut self.rng);
            }
            return;
        }
        let origin = spec.origin;
        let new_bytes = path.on_packet_sent(now, packet, resent, origin, controller, &mut self.rng);
        self.totals.retransmitted_bytes += resent.retransmitted;
        self.totals.reinjected_bytes += resent.copied;
        if matches!(origin, PacketOrigin::Copy(_)) {
            self.totals.copied_bytes += resent.copied;
        }
        if let Some(decision) = decision {
            // A packet is not larger than a UDP payload, so this saturates nothing.
            let new_bytes = u16::try_from(new_bytes).unwrap_or(u16::MAX);
            self.data.on_sent(&Sent::new(
                spec.path, now, size, decision, resent.any, new_bytes,
            ));
        }
    }

    /// Datagrams leave: the last `size` bytes of the buffer, for a path.
    pub(super) fn note_datagrams(
        &mut self,
        id: PathId,
        to: Addresses,
        ecn: Option<EcnCodepoint>,
        size: usize,
        segment_size: Option<usize>,
    ) -> Option<Transmit> {
        let datagrams = segment_size.map_or(1, |segment| size.div_ceil(segment)) as u64;
        self.totals.sent_datagrams += datagrams;
        self.totals.sent_bytes += size as u64;
        let path = self.paths.get_mut(id)?;
        Some(Transmit {
            network_path: path.on_datagrams_sent(to, datagrams, size)?,
            ecn,
            size,
            segment_size,
        })
    }
}
