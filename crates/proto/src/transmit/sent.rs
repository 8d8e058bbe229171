//! Books a packet that was built: number space, congestion, pacing, counters, timers; builds nothing.

use std::time::Instant;

use mpquic_sched::Sent;
use quinn_proto::EcnCodepoint;

use super::Built;
use crate::connection::Connection;
use crate::handshake::Level;
use crate::ids::Transmit;
use crate::space::{SentFrame, SentPacket};
use crate::{PathId, TransportError};

/// Why a 1-RTT packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketOrigin {
    /// The scheduler asked for it.
    Decision(u64),
    /// A copy of what the scheduler asked for.
    Copy(u64),
    /// The path owed it.
    Owed,
    /// It tries a larger datagram.
    MtuProbe,
}

impl Connection {
    /// Books a packet of the Initial or Handshake space.
    pub(super) fn book_level(&mut self, now: Instant, level: Level, built: Built) {
        let packet = sent_packet(now, &built, None);
        if let Some(space) = self.level(level) {
            space.on_sent(now, built.number, packet);
        }
        let in_flight = built.in_flight.then_some(built.size);
        self.book_path(now, PathId::ZERO, &built, in_flight);
    }

    /// Books a 1-RTT packet of a path.
    pub(super) fn book(&mut self, now: Instant, id: PathId, built: Built, origin: PacketOrigin) {
        let decision = match origin {
            PacketOrigin::Decision(number) | PacketOrigin::Copy(number) => Some(number),
            PacketOrigin::Owed | PacketOrigin::MtuProbe => None,
        };
        let size = built.size;
        let (retransmission, number) = (built.retransmission, built.number);
        let in_flight = built.in_flight.then_some(size);
        self.book_path(now, id, &built, in_flight);
        let mut index = None;
        if let Some(path) = self.paths.get_mut(id) {
            index = Some(path.index);
            let stream_bytes: u64 = built
                .frames
                .iter()
                .map(|frame| match frame {
                    SentFrame::Stream(range) => range.end - range.start,
                    _ => 0,
                })
                .sum();
            path.counters.sent_stream_bytes += stream_bytes;
            if retransmission {
                path.counters.retransmitted_packets += 1;
            }
            if matches!(origin, PacketOrigin::Copy(_)) {
                path.counters.copied_packets += 1;
            }
            let mut packet = sent_packet(now, &built, decision);
            packet.frames = built.frames;
            path.delivery.on_sent(now, path.space.bytes_in_flight(), &mut packet);
            if built.ack_eliciting {
                path.suspect.on_sent(now, path.space.has_ack_eliciting_in_flight(), &path.rtt);
            }
            path.space.on_sent(now, number, packet);
            if origin == PacketOrigin::MtuProbe {
                path.mtu.on_probe_sent(number);
            }
        }
        if let (Some(index), Some(decision)) = (index, decision) {
            self.schedule
                .on_sent(&Sent::new(index, now, size, decision, retransmission));
        }
    }

    fn book_path(&mut self, now: Instant, id: PathId, built: &Built, in_flight: Option<u16>) {
        self.totals.sent_packets += 1;
        if built.ack_eliciting && !self.eliciting_since_received {
            // RFC 9000 section 10.1: the first ack-eliciting packet after the last one received.
            self.eliciting_since_received = true;
            self.idle_since = now;
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.counters.sent_packets += 1;
        if let Some(bytes) = in_flight {
            path.pacer.on_sent(bytes.into());
            let after = path.space.bytes_in_flight() + u64::from(bytes);
            self.controller.on_sent(path.index, now, bytes, after);
        }
    }

    /// Books the datagrams of one call: `buf[start..]` on a path.
    pub(super) fn finish_transmit(
        &mut self,
        id: PathId,
        ecn: Option<EcnCodepoint>,
        size: usize,
        segment_size: Option<usize>,
    ) -> Option<Transmit> {
        let datagrams = segment_size.map_or(1, |segment| size.div_ceil(segment)) as u64;
        self.totals.sent_datagrams += datagrams;
        self.totals.sent_bytes += size as u64;
        let path = self.paths.get_mut(id)?;
        path.network.on_sent(size);
        path.counters.sent_datagrams += datagrams;
        path.counters.sent_bytes += size as u64;
        Some(Transmit {
            network_path: path.network.tuple,
            ecn,
            size,
            segment_size,
        })
    }

    /// Protection failed: nothing can be sent any more.
    pub(super) fn on_seal_error(&mut self, now: Instant, error: TransportError) {
        self.fail(now, error);
    }
}

fn sent_packet(now: Instant, built: &Built, decision: Option<u64>) -> SentPacket {
    SentPacket {
        time_sent: now,
        size: built.size,
        ack_eliciting: built.ack_eliciting,
        in_flight: built.in_flight,
        decision,
        retransmission: built.retransmission,
        frames: built.frames.clone(),
        ..SentPacket::default()
    }
}
