//! Books a packet that was built: number space, congestion, pacing, counters, timers; builds nothing.

use std::time::Instant;

use mpquic_sched_core::{EcnCodepoint, Sent};

use super::Built;
use crate::connection::Connection;
use crate::handshake::Level;
use crate::ids::Transmit;
use crate::space::{SentFrame, SentPacket};
use crate::{NumberSpace, PacketSent, PathId, TransportError, congestion};

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
    pub(super) fn book_level(
        &mut self,
        now: Instant,
        level: Level,
        built: Built,
        ecn: Option<EcnCodepoint>,
    ) {
        self.observe(now, NumberSpace::of_level(level), &built, None);
        self.book_path(now, PathId::ZERO, &built);
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        let ecn_marked = ecn.is_some();
        if ecn_marked {
            path.ecn.on_sent_marked();
        }
        let packet = SentPacket {
            time_sent: now,
            size: built.size,
            ack_eliciting: built.ack_eliciting,
            in_flight: built.in_flight,
            ecn_marked,
            mtu_probe: false,
            decision: None,
            delivery: None,
            frames: built.frames,
        };
        if let Some(space) = self.levels[level as usize].as_mut() {
            space.on_sent(packet, &mut self.rng);
        }
    }

    /// Books a 1-RTT packet of a path.
    pub(super) fn book(
        &mut self,
        now: Instant,
        id: PathId,
        built: Built,
        ecn: Option<EcnCodepoint>,
        origin: PacketOrigin,
    ) {
        let decision = match origin {
            PacketOrigin::Decision(number) | PacketOrigin::Copy(number) => Some(number),
            PacketOrigin::Owed | PacketOrigin::MtuProbe => None,
        };
        let (size, number, resent) = (built.size, built.number, built.resent);
        self.observe(now, NumberSpace::Path(id), &built, decision);
        self.book_path(now, id, &built);
        let (mut index, mut new_bytes) = (None, 0);
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
            new_bytes = stream_bytes.saturating_sub(resent.retransmitted + resent.copied);
            path.counters.retransmitted_packets += u64::from(resent.any);
            path.counters.retransmitted_bytes += resent.retransmitted;
            self.totals.retransmitted_bytes += resent.retransmitted;
            self.totals.reinjected_bytes += resent.copied;
            if matches!(origin, PacketOrigin::Copy(_)) {
                path.counters.copied_packets += 1;
                path.counters.copied_bytes += resent.copied;
                self.totals.copied_bytes += resent.copied;
            } else {
                path.counters.reinjected_bytes += resent.copied;
            }
            let ecn_marked = ecn.is_some();
            if ecn_marked {
                path.ecn.on_sent_marked();
            }
            let in_flight = path.space.bytes_in_flight();
            let delivery = built
                .in_flight
                .then(|| path.delivery.on_sent(now, in_flight, size));
            let packet = SentPacket {
                time_sent: now,
                size,
                ack_eliciting: built.ack_eliciting,
                in_flight: built.in_flight,
                ecn_marked,
                mtu_probe: origin == PacketOrigin::MtuProbe,
                decision,
                delivery,
                frames: built.frames,
            };
            path.space.on_sent(packet, &mut self.rng);
            if origin == PacketOrigin::MtuProbe {
                path.mtu.on_probe_sent(number, size);
            }
        }
        if let (Some(index), Some(decision)) = (index, decision) {
            // A packet is not larger than a UDP payload, so this saturates nothing.
            let new_bytes = u16::try_from(new_bytes).unwrap_or(u16::MAX);
            let sent = Sent::new(index, now, size, decision, resent.any, new_bytes);
            self.schedule.on_sent(&sent);
        }
    }

    fn book_path(&mut self, now: Instant, id: PathId, built: &Built) {
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
        if built.in_flight {
            path.pacer.on_sent(built.size.into());
            let before = path.space.bytes_in_flight();
            if before == 0 && path.delivery.is_app_limited() {
                self.controller.on_restart(path.index, now);
            }
            let after = before + u64::from(built.size);
            self.controller.on_packet_sent(&congestion::SentPacket {
                path: path.index,
                now,
                size: built.size.into(),
                in_flight: after,
            });
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

    /// Tells of a packet that was built.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        space: NumberSpace,
        built: &Built,
        decision: Option<u64>,
    ) {
        if let Some(observer) = &mut self.observer {
            observer.on_packet_sent(&PacketSent {
                now,
                space,
                number: built.number,
                size: built.size,
                ack_eliciting: built.ack_eliciting,
                retransmission: built.resent.any,
                decision,
                frames: &built.frames,
            });
        }
    }

    /// Protection failed: nothing can be sent any more.
    pub(super) fn on_seal_error(&mut self, now: Instant, error: TransportError) {
        self.fail(now, error);
    }
}
