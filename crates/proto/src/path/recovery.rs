//! What RFC 9002 keeps for each path: RTT, losses, probe timeouts, pacing, ECN, MTU. It judges packets; what they
//! carried is repaired by the owners of the frames.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathModel, RoundTrip};

use super::PathCounters;
use super::acks::{PathAck, ReceivedAck, SettledPackets};
use super::failover::Suspect;
use super::remembered::Remembered;
use crate::congestion::{
    self, AckSummary, AckedPacket, CongestionEvent, Controller, LostPacket, SpuriousLoss,
};
use crate::mtu::MtuDiscovery;
use crate::recovery::{Acknowledged, DeliveryRate, EcnValidator, Pacer, RttEstimator, later};
use crate::space::{AckOutcome, LossOutcome, PacketSpace, SentPacket, SpaceId};
use crate::{TransportConfig, TransportError};

/// For so long a loss says how long the bottleneck's queue is. Ours: longer than windows of CUBIC of a thousand packets take from
/// one loss to the next.
const LOSS_COUNTS: Duration = Duration::from_secs(30);

/// Packets that an acknowledgement lets go at once fill this part of the queue at most. Ours: without a bound, BBRv3 took half of
/// a link with a short queue.
const BURST_PART: u32 = 12;

/// The recovery state of one path. On path 0 it serves the Initial and the Handshake space too: all three share one
/// RTT estimate and one congestion window (RFC 9002 section 5, RFC 9000 section 9.4).
pub(crate) struct PathRecovery {
    pub(super) index: PathIndex,
    pub(super) rtt: RttEstimator,
    pub(super) pacer: Pacer,
    pub(super) ecn: EcnValidator,
    pub(super) delivery: DeliveryRate,
    pub(super) model: PathModel,
    pub(super) suspect: Suspect,
    pub(super) mtu: MtuDiscovery,
    /// Probe timeouts in a row (RFC 9002 section 6.2.1).
    pub(super) pto_count: u32,
    /// Loss probes to be sent now.
    pub(super) probes: u8,
    /// A PING is to be sent now.
    pub(super) ping: bool,
    /// Its datagram is to be of full size.
    pub(super) full_ping: bool,
    pub(super) counters: PathCounters,
    /// Bytes delivered in the last round trip.
    pub(super) round_bytes: u64,
    /// When packets were last lost, and how many of full size waited in the bottleneck's queue then.
    pub(super) queue_at_loss: Option<(Instant, u32)>,
    /// The newest packet that asked to be acknowledged at once, as the last one of a burst.
    pub(super) burst_end: u64,
    /// What earlier connections know of the path, and what this one will leave to the next.
    pub(super) memory: Option<Box<Remembered>>,
}

impl PathRecovery {
    pub(super) fn new(now: Instant, index: PathIndex, config: &TransportConfig) -> Self {
        Self {
            index,
            rtt: RttEstimator::new(config.initial_rtt),
            pacer: Pacer::new(config.pacing),
            ecn: EcnValidator::new(config.ecn),
            delivery: DeliveryRate::default(),
            model: PathModel::default(),
            suspect: Suspect::default(),
            mtu: MtuDiscovery::new(now, config.initial_mtu, config.max_mtu, config.link_mtu),
            pto_count: 0,
            probes: 0,
            ping: false,
            full_ping: false,
            counters: PathCounters::default(),
            round_bytes: 0,
            queue_at_loss: None,
            burst_end: 0,
            memory: None,
        }
    }

    /// Forgets what was measured: the path leads over other addresses now (RFC 9000 section 9.4). The
    /// delivery rate goes by packets in flight, and finds its way by itself.
    pub(super) fn measure_anew(&mut self, config: &TransportConfig) {
        self.rtt = RttEstimator::new(config.initial_rtt);
        self.model = PathModel::default();
        let limit = self.pacer.limit();
        self.pacer = Pacer::new(config.pacing);
        self.pacer.set_limit(limit);
        self.pto_count = 0;
        //= specs/rfc9959-draft.md#3-2-reconnaissance-phase
        //# - Reconnaissance Phase (Path change): If the Remote Endpoint is not the same as any
        //# saved_remote_endpoint, or the sender receives a signal from the local stack indicating that the
        //# path is now different to the observed path, the sender MUST stop using Careful Resume and
        //# returns to use normal CC.
        self.memory = None;
    }

    /// The next packets take another network path. Whether it carries ECN marks, and how large a datagram it takes, has
    /// to be found out whatever part of the addresses has changed.
    pub(super) fn on_network_changed(&mut self, space: &mut PacketSpace) {
        // RFC 9000 section 13.4.2; RFC 8899 section 3: both belong to the network path.
        self.ecn.restart();
        space.ecn.restart(space.numbers.next().unwrap_or(u64::MAX));
        self.mtu.restart();
    }

    /// Takes in an ACK frame and looks for the packets that are lost by it. `None` if it acknowledged nothing new.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a packet that was never sent (RFC 9000 section 13.1).
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        ack: &ReceivedAck<'_, '_>,
        controller: &mut dyn Controller,
        settled: &mut SettledPackets,
    ) -> Result<Option<PathAck>, TransportError> {
        let one_rtt = ack.space == SpaceId::Data;
        let in_flight_before = space.bytes_in_flight();
        let outcome = space.on_ack(
            ack.frame.largest,
            ack.frame.blocks.iter(),
            if one_rtt { ack.frame.ecn } else { None },
            ack.delay,
            ack.back.is_some(),
            now,
            &mut self.rtt,
            &mut settled.acked,
        )?;
        if one_rtt && outcome.spurious > 0 {
            self.on_spurious(now, &outcome, controller);
        }
        let Some(newest_sent) = outcome.newest_sent else {
            return Ok(None);
        };
        if ack.resets_backoff {
            self.pto_count = 0;
        }
        if one_rtt {
            self.probes = 0;
        }
        let recovered = self.suspect.on_ack(now, newest_sent, space) && one_rtt;
        // RFC 9002 section 7.8: a window that was not used says nothing of the path. Pacing leaves a
        // part of it unused at any time. The handshake never fills it.
        let mut app_limited =
            !one_rtt || in_flight_before.saturating_mul(2) < controller.window(self.index);
        if let Some(memory) = &self.memory {
            //= specs/rfc9959-draft.md#3-5-safe-retreat-phase
            //# - Safe Retreat Phase (Maintaining CWND): The CWND MUST NOT be increased in the Safe Retreat
            //# Phase.
            // Nor in the Unvalidated Phase.
            app_limited |= memory.holds_window();
        }
        let (mut newest, mut scheduled) = (None, false);
        for (number, packet) in &settled.acked {
            scheduled |= packet.decision.is_some();
            if one_rtt {
                self.on_packet_acked(now, *number, packet, &mut newest, controller);
            }
            if packet.in_flight {
                controller.on_packet_acked(&AckedPacket::new(
                    self.index,
                    now,
                    packet.time_sent,
                    packet.size.into(),
                    app_limited,
                    &self.rtt,
                ));
            }
        }
        if one_rtt && self.ecn.on_ack(outcome.ecn) > 0 {
            self.on_marks(now, newest_sent, controller);
        }
        self.detect_lost(
            now,
            space,
            ack.space,
            ack.max_ack_delay,
            controller,
            &mut settled.lost,
        );
        if one_rtt {
            self.on_ack_end(
                now,
                space,
                newest_sent,
                (outcome.rtt_sample, outcome.own_rtt),
                ack,
                newest,
                controller,
                settled,
            );
        } else if let Some(rtt) = outcome.rtt_sample {
            self.model.on_handshake(now, rtt);
        }
        Ok(Some(PathAck {
            rtt_sample: outcome.rtt_sample,
            recovered,
            heard: false,
            scheduled,
        }))
    }

    /// 1-RTT packets were acknowledged that had been declared lost.
    #[cold]
    fn on_spurious(&mut self, now: Instant, outcome: &AckOutcome, controller: &mut dyn Controller) {
        self.counters.spurious_losses += u64::from(outcome.spurious);
        if let Some(sent) = outcome.spurious_sent {
            controller.on_spurious_loss(&SpuriousLoss::new(
                self.index,
                now,
                sent,
                outcome.spurious_bytes,
            ));
            self.delivery.on_spurious(outcome.spurious_bytes);
        }
    }

    /// A 1-RTT packet was acknowledged.
    fn on_packet_acked<'a>(
        &mut self,
        now: Instant,
        number: u64,
        packet: &'a SentPacket,
        newest: &mut Option<Acknowledged<'a>>,
        controller: &mut dyn Controller,
    ) {
        self.counters.delivered_bytes += u64::from(packet.size);
        if let Some(snapshot) = &packet.delivery {
            self.delivery
                .on_acked(now, packet.time_sent, packet.size, snapshot, newest);
            if let Some(memory) = &mut self.memory {
                memory.on_packet_acked(number, packet.size);
            }
        }
        if packet.mtu_probe {
            self.on_mtu_probe_acked(now, number, controller);
        } else {
            self.mtu.on_acked(packet.size);
        }
    }

    #[cold]
    fn on_mtu_probe_acked(&mut self, now: Instant, number: u64, controller: &mut dyn Controller) {
        if self.mtu.on_probe_acked(now, number) {
            controller.on_mtu_update(self.index, self.mtu.current());
        }
    }

    /// The peer reported new ECN-CE marks.
    #[cold]
    fn on_marks(&self, now: Instant, newest_sent: Instant, controller: &mut dyn Controller) {
        controller.on_congestion_event(&CongestionEvent::ecn(self.index, now, newest_sent));
    }

    /// The packets that an ACK frame acknowledged, and those lost by it, are settled: makes the sample of the
    /// delivery rate.
    fn on_ack_end(
        &mut self,
        now: Instant,
        space: &PacketSpace,
        newest_sent: Instant,
        (rtt_sample, own_rtt): (Option<Duration>, bool),
        ack: &ReceivedAck<'_, '_>,
        newest: Option<Acknowledged<'_>>,
        controller: &mut dyn Controller,
        settled: &SettledPackets,
    ) {
        let ack_delay = ack.delay;
        let Some(sample) = self.delivery.on_ack_end(now, ack_delay, &self.rtt, newest) else {
            return;
        };
        self.round_bytes = sample.delivered;
        if let Some(rtt) = rtt_sample {
            self.model.on_round_trip(&RoundTrip {
                now,
                sent: newest_sent,
                received: self.counters.received_bytes,
                rtt,
                ack_delay,
                smoothed_rtt: self.rtt.smoothed(),
                // But for the packet itself.
                ahead: sample
                    .tx_in_flight
                    .saturating_sub(self.mtu.current().into()),
                delivery_rate: self.delivery.rate(),
                window: controller.window(self.index),
                back: ack.back,
            });
        }
        let in_flight = space.bytes_in_flight();
        let mut summary = AckSummary::new(self.index, now, newest_sent, &sample, &self.rtt);
        // A controller would take a shorter way back for a shorter path, and this one for a queue from then on.
        summary.rtt_sample = rtt_sample.filter(|_| own_rtt);
        summary.in_flight = in_flight;
        if controller.on_ack_end(&summary) {
            self.delivery.on_app_limited(in_flight);
        }
        if let Some(memory) = &mut self.memory {
            let largest = settled.acked.iter().map(|(number, _)| *number).max();
            let packets = (settled.acked.len(), settled.lost.len());
            let bottleneck = self.delivery.bottleneck(memory.known().0);
            memory.on_ack_end(&summary, largest, packets, bottleneck, controller);
        }
    }

    /// Declares packets lost by the packet and time thresholds (RFC 9002 section 6.1), onto `lost`. Returns whether that
    /// establishes persistent congestion.
    pub(super) fn detect_lost(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        id: SpaceId,
        max_ack_delay: Duration,
        controller: &mut dyn Controller,
        lost: &mut Vec<(u64, SentPacket)>,
    ) -> bool {
        let outcome = space.detect_lost(now, &self.rtt, max_ack_delay, lost);
        !lost.is_empty() && self.on_lost(now, space, id, &outcome, controller, lost)
    }

    /// Packets of full size that wait in the bottleneck's queue, by what round trips take beyond the shortest one.
    fn queue(&self) -> u32 {
        let (rtt, min) = (
            self.rtt.smoothed().as_secs_f32(),
            self.rtt.min().as_secs_f32(),
        );
        let round = self.round_bytes as f32 / f32::from(self.mtu.current());
        (round * (1.0 - min / rtt.max(1e-6))) as u32
    }

    /// How many packets one acknowledgement may let go at once: no more than a part of the queue that overflowed the last time,
    /// if that was not long ago.
    pub(super) fn largest_burst(&self, now: Instant) -> u64 {
        match self.queue_at_loss {
            Some((at, queue)) if now < later(at, LOSS_COUNTS) => u64::from(queue / BURST_PART),
            _ => u64::MAX,
        }
    }

    /// Packets were declared lost.
    #[inline(never)]
    fn on_lost(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        id: SpaceId,
        outcome: &LossOutcome,
        controller: &mut dyn Controller,
        lost: &[(u64, SentPacket)],
    ) -> bool {
        let one_rtt = id == SpaceId::Data;
        for (number, packet) in lost {
            if packet.mtu_probe {
                self.mtu.on_probe_lost(now, *number);
                continue;
            }
            self.counters.lost_packets += 1;
            if one_rtt && space.left_elsewhere(*number, packet) {
                continue;
            }
            if packet.ecn_marked && one_rtt && space.ecn.concerns(*number) {
                self.ecn.on_lost_marked();
            }
            if let Some(snapshot) = &packet.delivery {
                let size = packet.size.into();
                let mut lost = LostPacket::new(self.index, now, *number, packet.time_sent, size);
                lost.tx_in_flight = snapshot.tx_in_flight;
                lost.lost = self.delivery.on_lost(packet.size, snapshot);
                lost.total_delivered = self.delivery.delivered();
                lost.app_limited = snapshot.app_limited;
                controller.on_packet_lost(&lost);
            }
        }
        if let Some(sent) = outcome.newest_sent {
            if one_rtt {
                self.queue_at_loss = Some((now, self.queue()));
            }
            //= specs/rfc9000.txt#section-13.3
            //# Upon detecting losses, a sender MUST take appropriate congestion control action.
            controller.on_congestion_event(&CongestionEvent::loss(
                self.index,
                now,
                sent,
                outcome.bytes,
                outcome.persistent,
            ));
            if outcome.persistent && one_rtt {
                // RFC 9002 section 5.2.
                self.rtt.reset_min();
            }
            if one_rtt && self.mtu.on_lost(now, outcome.largest_size) {
                controller.on_mtu_update(self.index, self.mtu.current());
            }
        }
        if one_rtt && self.suspect.is_suspect() && space.ack_eliciting_in_flight() == 0 {
            // All that a suspect path had in flight is lost: no probe timer is armed, and no scheduler may choose the
            // path. Without a probe, nothing would ever tell that it works.
            self.ping = true;
        }
        outcome.newest_sent.is_some() && outcome.persistent
    }

    /// A packet left; `in_flight_before`, the bytes in flight of the path's own space.
    pub(super) fn on_packet_sent(
        &mut self,
        now: Instant,
        size: u16,
        in_flight: bool,
        in_flight_before: u64,
        controller: &mut dyn Controller,
    ) {
        self.counters.sent_packets += 1;
        if in_flight {
            self.pacer.on_sent(size.into());
            if in_flight_before == 0 && self.delivery.is_app_limited() {
                controller.on_restart(self.index, now);
            }
            let after = in_flight_before + u64::from(size);
            //= specs/rfc9002.txt#section-7.5
            //# A sender MUST however count these packets as being additionally in flight, since
            //# these packets add network load without establishing packet loss.
            controller.on_packet_sent(&congestion::SentPacket::new(
                self.index,
                now,
                size.into(),
                after,
            ));
        }
    }
}
