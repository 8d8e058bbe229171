//! Paths: outside the path ID with its number space, recovery and status, inside the 4-tuple
//! (RFC 10069); congestion windows live in the connection's controller.

mod ack_frequency;
mod acks;
mod addresses;
mod cids;
mod due;
mod failover;
mod frames;
mod handles;
mod life;
mod limit;
mod moves;
mod network;
mod overall;
mod pending_abandons;
mod probe_budget;
mod receive_idle;
mod recovery;
mod remembered;
mod set;
mod silence;
mod status;
mod timers;
mod usefulness;
mod view;

use std::time::{Duration, Instant};

use mpquic_sched_core::{EcnCodepoint, PathIndex, PathKey, PathStatus, SavedPath};
use rand::rngs::StdRng;

pub(crate) use ack_frequency::AckFrequency;
pub(crate) use acks::{PathAck, ReceivedAck, SettledPackets};
pub(crate) use addresses::{Addresses, Proof, Unanswered};
pub(crate) use due::{Due, DueFacts};
pub(crate) use failover::ALL;
pub(crate) use frames::ACK_DELAY_EXPONENT;
pub use handles::{PathRef, PathsRef};
pub(crate) use life::PeerAbandons;
pub(crate) use limit::PathLimits;
pub(crate) use moves::ChallengeOutcome;
pub(crate) use network::NetworkPath;
pub(crate) use pending_abandons::PendingAbandons;
pub(crate) use receive_idle::Expected;
pub(crate) use remembered::{Epoch, memory_key};
#[cfg(test)]
pub(crate) use set::tests::open_paths as test_paths;
pub(crate) use set::{PathState, Paths, PathsSetup, RetiredPath};
pub(crate) use status::StatusState;
pub(crate) use timers::TimerFacts;
pub(crate) use usefulness::lead;
pub(crate) use view::PathFacts;

use crate::congestion::{Controller, InitialWindow};
use crate::frame_writer::{FrameWriter, Resent};
use crate::recovery::RttEstimator;
use crate::sent_frame::SentFrame;
use crate::space::{Owed, PacketOrigin, PacketSpace, ReceivedPacket, SentPacket, SpaceId};
use crate::{FourTuple, PathId, TransportConfig, TransportError};
use failover::Heard;
use probe_budget::ProbeBudget;
use receive_idle::ReceiveIdle;
use recovery::PathRecovery;
use remembered::Remembered;
use silence::Silence;

/// Probes sent when a PTO expires (RFC 9002 section 6.2.4).
pub(crate) const PROBES_PER_PTO: u8 = 2;

/// A path that is open: validated, or being validated. Its state changes by its own methods only.
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) index: PathIndex,
    network: NetworkPath,
    /// Other addresses at which the peer is or was seen: those before it moved, while the new ones
    /// are not validated, or those that it tries before it moves (RFC 9000 section 9).
    /// Boxed: few paths have one.
    previous: Option<Box<NetworkPath>>,
    /// The addresses that we have left, while `previous` is what we try beside those that we moved to.
    way_back: Option<Box<NetworkPath>>,
    /// The newest challenge of the peer from addresses for which there was no place beside those two.
    unplaced: Option<(FourTuple, u64)>,
    /// Challenges and answers beyond the congestion window, to any address.
    probe_budget: ProbeBudget,
    /// It was validated once: a later answer to a challenge is not news of a path.
    opened: bool,
    /// Data may go to the peer's address within the amplification limit, before it is validated.
    early_data: bool,
    /// The addresses that RTT, congestion window and MTU were measured over.
    measured: FourTuple,
    /// When losses on addresses that were left were last no sign of congestion.
    excused: Option<Instant>,
    /// No socket can send from our address.
    stranded: bool,
    status: StatusState,
    /// The 1-RTT packet number space of this path ID.
    space: PacketSpace,
    recovery: PathRecovery,
    /// When something was last received on this path, for keep-alive.
    last_activity: Instant,
    heard: Option<Heard>,
    receive_idle: ReceiveIdle,
    /// Boxed: few applications ask.
    silence: Option<Box<Silence>>,
}

/// What is counted per path.
#[derive(Debug, Default, Clone, Copy)]
struct PathCounters {
    sent_datagrams: u64,
    sent_bytes: u64,
    received_datagrams: u64,
    received_bytes: u64,
    sent_stream_bytes: u64,
    received_stream_bytes: u64,
    sent_packets: u64,
    lost_packets: u64,
    spurious_losses: u64,
    retransmitted_packets: u64,
    retransmitted_bytes: u64,
    copied_packets: u64,
    copied_bytes: u64,
    reinjected_bytes: u64,
    delivered_bytes: u64,
}

impl Path {
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        index: PathIndex,
        network: NetworkPath,
        space: PacketSpace,
        config: &TransportConfig,
    ) -> Self {
        Self {
            id,
            index,
            measured: network.tuple,
            early_data: network.may_go_ahead(config.early_path_data),
            network,
            previous: None,
            way_back: None,
            unplaced: None,
            probe_budget: ProbeBudget::default(),
            excused: None,
            stranded: false,
            opened: id == PathId::ZERO,
            status: StatusState::default(),
            space,
            recovery: PathRecovery::new(now, index, config),
            last_activity: now,
            heard: None,
            receive_idle: ReceiveIdle::default(),
            silence: None,
        }
    }

    /// What earlier connections know of the path is looked up, and what this one measures will be kept.
    pub(crate) fn remember(
        &mut self,
        now: Instant,
        key: PathKey,
        epoch: Epoch,
        config: &TransportConfig,
    ) {
        self.recovery.memory = Remembered::new(now, self.index, key, epoch, config);
    }

    /// The window with which the path begins, if it is not that of all paths. It has been looked up what is known of it.
    pub(crate) fn initial_window(&self, config: &TransportConfig) -> Option<InitialWindow> {
        let memory = self.recovery.memory.as_ref()?;
        memory.lower_window(config.initial_window, config.initial_mtu)
    }

    /// What earlier connections knew of it.
    pub(crate) fn saved(&self) -> Option<SavedPath> {
        self.recovery.memory.as_ref()?.saved().copied()
    }

    /// The connection ends: what was measured is kept for the next one.
    pub(crate) fn leave_memory(&mut self) {
        if let Some(memory) = &mut self.recovery.memory {
            memory.leave();
        }
    }

    /// The path is abandoned: its packet number space stays for a while.
    pub(crate) fn into_space(self) -> PacketSpace {
        self.space
    }

    /// It sends no faster than so many bytes per second.
    pub(crate) fn limit_rate(&mut self, bytes_per_second: Option<u64>) {
        self.recovery.pacer.set_limit(bytes_per_second);
    }

    // What is read of it.

    /// The packet number space of the path's 1-RTT packets.
    pub(crate) fn space(&self) -> &PacketSpace {
        &self.space
    }

    /// Gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.space.shrink();
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.recovery.rtt
    }

    /// The largest UDP payload that is known to pass, bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.recovery.mtu.current()
    }

    /// The mark for the IP header of the next packet.
    pub(crate) fn ecn(&self) -> Option<EcnCodepoint> {
        self.recovery.ecn.outgoing()
    }

    /// The probe timeout without back-off (RFC 9002 section 6.2.1).
    pub(crate) fn pto(&self, max_ack_delay: Duration) -> Duration {
        self.recovery.rtt.pto_base(max_ack_delay)
    }

    /// Probe timeouts in a row.
    pub(crate) fn pto_count(&self) -> u32 {
        self.recovery.pto_count
    }

    /// When something was last received on it.
    pub(crate) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// Bytes that may be sent to the path's addresses: unlimited once they are validated (RFC 9000 section 8.1).
    pub(crate) fn send_limit(&self) -> u64 {
        self.network.send_limit()
    }

    /// Whether a probe timeout could not send anything now (RFC 9002 section 6.2.2.1).
    pub(crate) fn is_at_limit(&self) -> bool {
        self.network.is_at_limit()
    }

    /// Loss probes are to be sent.
    pub(crate) fn has_probes(&self) -> bool {
        self.recovery.probes > 0
    }

    /// A PING is to be sent.
    pub(crate) fn has_ping(&self) -> bool {
        self.recovery.ping
    }

    /// The size of the MTU probe that is due.
    pub(crate) fn mtu_probe(&self, now: Instant, window: impl FnOnce() -> u64) -> Option<u16> {
        self.recovery.mtu.poll(now, window)
    }

    /// Whether the search for the path MTU goes on if its link takes more.
    pub(crate) fn wants_link_mtu(&self, now: Instant) -> bool {
        self.recovery.mtu.wants_link(now)
    }

    /// The link takes UDP payloads of this size; 0 if that is not known.
    pub(crate) fn set_link_mtu(&mut self, now: Instant, payload: u16) {
        self.recovery.mtu.set_link(now, payload);
    }

    // Status (RFC 10069, Path Status Management).

    pub(crate) fn status(&self) -> &StatusState {
        &self.status
    }

    pub(crate) fn status_mut(&mut self) -> &mut StatusState {
        &mut self.status
    }

    /// We prefer this from now on; returns what the scheduler goes by.
    pub(crate) fn set_local_status(&mut self, status: PathStatus) -> PathStatus {
        self.status.set_local(status);
        self.status.effective()
    }

    // Received packets.

    /// One past the largest packet number received: what truncated numbers are expanded near (RFC 9000 appendix A.3).
    pub(crate) fn next_expected(&self) -> u64 {
        self.space.next_expected()
    }

    pub(crate) fn is_duplicate(&self, number: u64) -> bool {
        self.space.received.is_duplicate(number)
    }

    fn count_received(&mut self, bytes: usize) {
        self.recovery.counters.received_datagrams += 1;
        self.recovery.counters.received_bytes += bytes as u64;
    }

    /// The datagram that opened the path came before the path that it is to be counted for.
    pub(crate) fn on_first_datagram(&mut self, packet: usize, datagram: usize) {
        self.network.on_received(packet);
        self.count_received(datagram);
    }

    /// Stream data came on this path.
    pub(crate) fn on_stream_bytes(&mut self, bytes: u64) {
        self.recovery.counters.received_stream_bytes += bytes;
        self.receive_idle.on_data();
    }

    /// A DATAGRAM frame came on this path.
    pub(crate) fn on_datagram_frame(&mut self, now: Instant) {
        self.receive_idle.on_datagram(now);
    }

    /// A packet was decrypted and its frames were processed.
    pub(crate) fn on_packet_received(&mut self, packet: &ReceivedPacket) {
        self.last_activity = packet.now;
        if self.heard.is_none_or(|heard| heard.last != packet.now) {
            self.note_heard(packet.now);
        }
        self.space.on_received(packet);
    }

    /// A packet was decrypted, and there is no memory for what it carries: the path is not silent.
    pub(crate) fn on_packet_refused(&mut self, now: Instant) {
        self.last_activity = now;
    }

    /// A packet with an acknowledgement up to `largest` has arrived at the peer: what it told need not be told again
    /// (RFC 9000 section 13.2.4).
    pub(crate) fn on_ack_acked(&mut self, largest: u64) {
        self.space.received.discard_below(largest + 1);
    }

    // Sent packets.

    /// Takes in an ACK frame for the path's own packets. What it settled is left in `settled`.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a packet that was never sent (RFC 9000 section 13.1).
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &ReceivedAck<'_, '_>,
        controller: &mut dyn Controller,
        settled: &mut SettledPackets,
    ) -> Result<Option<PathAck>, TransportError> {
        let mut outcome = self
            .recovery
            .on_ack(now, &mut self.space, ack, controller, settled)?;
        if let Some(outcome) = &mut outcome {
            if outcome.scheduled {
                self.receive_idle.on_delivered();
            }
            outcome.heard = self.ends_silence();
        }
        Ok(outcome)
    }

    /// The same for packets of the Initial or Handshake space, which travel on path 0.
    ///
    /// # Errors
    ///
    /// As [`on_ack`](Self::on_ack).
    pub(crate) fn on_handshake_ack(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        ack: &ReceivedAck<'_, '_>,
        controller: &mut dyn Controller,
        settled: &mut SettledPackets,
    ) -> Result<Option<PathAck>, TransportError> {
        self.recovery.on_ack(now, space, ack, controller, settled)
    }

    /// The loss timer of the Initial or Handshake space has come; lost packets go onto `lost`.
    pub(crate) fn on_handshake_loss_timeout(
        &mut self,
        now: Instant,
        space: &mut PacketSpace,
        id: SpaceId,
        max_ack_delay: Duration,
        controller: &mut dyn Controller,
        lost: &mut Vec<(u64, SentPacket)>,
    ) {
        self.recovery
            .detect_lost(now, space, id, max_ack_delay, controller, lost);
    }

    /// A probe timeout of the Initial or Handshake space.
    pub(crate) fn on_handshake_pto(&mut self) {
        self.recovery.pto_count = self.recovery.pto_count.saturating_add(1);
    }

    /// Keys were dropped, or the handshake is confirmed: the probe timeout starts afresh (RFC 9002 sections 6.2.1 and
    /// 6.2.2).
    pub(crate) fn reset_pto_backoff(&mut self) {
        self.recovery.pto_count = 0;
    }

    /// A PING is to be sent.
    pub(crate) fn request_ping(&mut self) {
        self.recovery.ping = true;
    }

    /// Whether the datagram of the PING is to be of full size.
    pub(crate) fn wants_full_ping(&self) -> bool {
        self.recovery.full_ping
    }

    /// The PING leaves now.
    pub(crate) fn on_ping_sent(&mut self) {
        self.recovery.ping = false;
        self.recovery.full_ping = false;
    }

    /// A loss probe leaves now.
    pub(crate) fn on_loss_probe_sent(&mut self) {
        self.recovery.probes -= 1;
        self.recovery.ping = false;
    }

    /// The peer takes no larger UDP payload than this.
    pub(crate) fn limit_mtu(&mut self, limit: u16, controller: &mut dyn Controller) {
        if self.recovery.mtu.set_peer_limit(limit) {
            controller.on_mtu_update(self.index, self.recovery.mtu.current());
        }
    }

    /// Number of the next packet and the largest one acknowledged; `None` once the space is used up.
    pub(crate) fn next_number(&self) -> Option<(u64, Option<u64>)> {
        Some((self.space.next_pn()?, self.space.largest_acked))
    }

    /// Takes the next number for a packet that nobody will acknowledge: CONNECTION_CLOSE.
    pub(crate) fn take_number(&mut self, rng: &mut StdRng) {
        self.space.numbers.take(rng);
    }

    /// A 1-RTT packet of this path left. Returns the stream bytes in it that no packet carried before.
    pub(crate) fn on_packet_sent(
        &mut self,
        now: Instant,
        mut packet: SentPacket,
        resent: Resent,
        origin: PacketOrigin,
        controller: &mut dyn Controller,
        rng: &mut StdRng,
    ) -> u64 {
        let in_flight = self.space.bytes_in_flight();
        let recovery = &mut self.recovery;
        recovery.on_packet_sent(now, packet.size, packet.in_flight, in_flight, controller);
        if packet.in_flight
            && let (Some(memory), Some(number)) = (&mut recovery.memory, self.space.next_pn())
        {
            let after = in_flight + u64::from(packet.size);
            let mtu = recovery.mtu.current();
            memory.on_sent(now, number, after, mtu, &recovery.rtt, controller);
        }
        let counters = &mut recovery.counters;
        let stream_bytes = packet.stream_bytes();
        counters.sent_stream_bytes += stream_bytes;
        counters.retransmitted_packets += u64::from(resent.any);
        counters.retransmitted_bytes += resent.retransmitted;
        if matches!(origin, PacketOrigin::Copy(_)) {
            counters.copied_packets += 1;
            counters.copied_bytes += resent.copied;
        } else {
            counters.reinjected_bytes += resent.copied;
        }
        if packet.ecn_marked {
            recovery.ecn.on_sent_marked();
        }
        if packet.in_flight {
            recovery
                .model
                .on_sent(now, recovery.counters.received_bytes);
            packet.delivery = Some(recovery.delivery.on_sent(now, in_flight, packet.size));
        }
        if packet.mtu_probe
            && let Some(number) = self.space.next_pn()
        {
            recovery.mtu.on_probe_sent(number, packet.size);
        }
        self.space.on_sent(packet, rng);
        stream_bytes.saturating_sub(resent.retransmitted + resent.copied)
    }

    /// A packet of the Initial or Handshake space left on this path.
    pub(crate) fn on_handshake_packet_sent(
        &mut self,
        now: Instant,
        packet: &SentPacket,
        controller: &mut dyn Controller,
    ) {
        let in_flight = self.space.bytes_in_flight();
        self.recovery
            .on_packet_sent(now, packet.size, packet.in_flight, in_flight, controller);
        if packet.ecn_marked {
            self.recovery.ecn.on_sent_marked();
        }
    }

    /// Datagrams leave for these addresses: `bytes` in all.
    pub(crate) fn on_datagrams_sent(
        &mut self,
        to: Addresses,
        datagrams: u64,
        bytes: usize,
    ) -> Option<FourTuple> {
        let network = self.network_mut(to)?;
        network.on_sent(bytes);
        let tuple = network.tuple;
        self.recovery.counters.sent_datagrams += datagrams;
        self.recovery.counters.sent_bytes += bytes as u64;
        Some(tuple)
    }

    /// Writes the acknowledgement that the path owes, if it owes one. `wire`: the path ID that PATH_ACK names; ACK
    /// names none.
    pub(crate) fn write_ack(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        wire: Option<PathId>,
        exponent: u8,
    ) {
        self.space.write_ack(w, now, wire, self.id, exponent);
    }

    /// What the path owes by way of acknowledgement, to be restored if the packet that was to carry it is taken back;
    /// `None` if it owes nothing.
    pub(crate) fn owed_ack(&self) -> Owed {
        self.space.acks.owed()
    }

    pub(crate) fn restore_ack(&mut self, owed: &Owed) {
        self.space.acks.restore(owed);
    }

    /// There is less to send than the path would take: its deliveries say less than what it could.
    pub(crate) fn on_app_limited(&mut self) {
        let in_flight = self.space.bytes_in_flight();
        self.recovery.delivery.on_app_limited(in_flight);
    }

    /// All of a sent packet's stream data is on one more path now.
    pub(crate) fn mark_carried(&mut self, packet: u64, target: PathIndex) {
        if let Some(packet) = self.space.sent.get_mut(packet) {
            for frame in &mut packet.frames {
                if let SentFrame::Stream(range) = frame {
                    range.carried.insert(target);
                }
            }
        }
    }

    /// Another path ended; its slot will mean another one, which has carried nothing.
    pub(crate) fn forget_path(&mut self, other: PathIndex) {
        self.space.sent.forget_path(other);
    }

    /// Takes out all that is in flight, which was not lost: the peer has dropped it for other reasons.
    pub(crate) fn discard_in_flight(&mut self) -> Vec<SentPacket> {
        let mut discarded = Vec::new();
        self.space.drain_all(&mut discarded);
        self.space.last_ack_eliciting_sent = None;
        discarded.into_iter().map(|(_, packet)| packet).collect()
    }

    /// Gives up all that is in flight, onto `lost`: the path is abandoned.
    pub(crate) fn drain_in_flight(&mut self, lost: &mut Vec<(u64, SentPacket)>) {
        self.space.drain_all(lost);
    }
}
