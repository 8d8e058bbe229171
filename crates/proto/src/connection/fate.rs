//! What becomes of sent packets: acknowledged, lost, moved elsewhere; each frame's fate goes to the
//! frame's owner. Detects no loss itself.

use std::time::Instant;

use mpquic_sched_core::{Acked, Lost, PathIndex, PathSet, PathUpdateKind, Side};

use super::Connection;
use crate::congestion::{AckSummary, AckedPacket, CongestionEvent, LostPacket, SpuriousLoss};
use crate::frame::AckFrame;
use crate::handshake::Level;
use crate::path::{Path, PathState};
use crate::recovery::LossOutcome;
use crate::space::{SentFrame, SentPacket};
use crate::{Event, PathEvent, PathId, TransportError};

impl Connection {
    /// ACK at the Initial or Handshake level.
    pub(crate) fn on_level_ack(
        &mut self,
        now: Instant,
        level: Level,
        ack: &AckFrame<'_>,
    ) -> Result<(), TransportError> {
        let mut acked = std::mem::take(&mut self.acked_scratch);
        let result = self.process_level_ack(now, level, ack, &mut acked);
        acked.clear();
        self.acked_scratch = acked;
        result
    }

    fn process_level_ack(
        &mut self,
        now: Instant,
        level: Level,
        ack: &AckFrame<'_>,
        acked: &mut Vec<(u64, SentPacket)>,
    ) -> Result<(), TransportError> {
        let slot = level as usize;
        let (Some(space), Some(path)) = (
            self.levels.get_mut(slot).and_then(Option::as_mut),
            self.paths.get_mut(PathId::ZERO),
        ) else {
            return Ok(());
        };
        // RFC 9002 section 5.3: the delay of Initial and Handshake acknowledgements is ignored.
        let outcome = space.on_ack(
            ack.largest,
            ack.blocks.iter(),
            None,
            std::time::Duration::ZERO,
            now,
            &mut path.rtt,
            acked,
        )?;
        if acked.is_empty() {
            return Ok(());
        }
        let index = path.index;
        // RFC 9002 section 6.2.1: not for a server's Initial ACKs while the client may be unvalidated.
        if level == Level::Handshake || self.side == Side::Server {
            path.pto_count = 0;
        }
        self.level_probes[slot] = 0;
        if let Some(newest) = outcome.newest_sent {
            path.suspect.on_ack(now, newest, space);
        }
        for (_, packet) in acked.drain(..) {
            if packet.in_flight {
                self.controller.on_packet_acked(&AckedPacket {
                    path: index,
                    now,
                    sent: packet.time_sent,
                    size: packet.size.into(),
                    app_limited: true,
                    rtt: &path.rtt,
                });
            }
            for frame in &packet.frames {
                match *frame {
                    SentFrame::Crypto { start, end } => {
                        self.handshake.stream(level).on_acked(start, end);
                    }
                    SentFrame::Ack { largest, .. } => space.received.discard_below(largest + 1),
                    _ => {}
                }
            }
        }
        self.detect_level_losses(now, level);
        Ok(())
    }

    pub(crate) fn detect_level_losses(&mut self, now: Instant, level: Level) {
        let slot = level as usize;
        let max_ack_delay = self.peer_max_ack_delay();
        let mut lost = std::mem::take(&mut self.lost_scratch);
        if let (Some(space), Some(path)) = (
            self.levels.get_mut(slot).and_then(Option::as_mut),
            self.paths.get_mut(PathId::ZERO),
        ) {
            let outcome = space.detect_lost(now, &path.rtt, max_ack_delay, &mut lost);
            for (_, packet) in lost.drain(..) {
                path.counters.lost_packets += 1;
                self.totals.lost_packets += 1;
                for frame in &packet.frames {
                    if let SentFrame::Crypto { start, end } = *frame {
                        self.handshake.stream(level).on_lost(start, end);
                    }
                }
            }
            if let Some(sent) = outcome.newest_sent {
                self.controller.on_congestion_event(&CongestionEvent {
                    path: path.index,
                    now,
                    newest_sent: sent,
                    lost_bytes: outcome.bytes,
                    persistent: outcome.persistent,
                    ecn: false,
                });
            }
        }
        self.lost_scratch = lost;
    }

    /// ACK or PATH_ACK of 1-RTT packets.
    pub(crate) fn on_path_ack(
        &mut self,
        now: Instant,
        ack: &AckFrame<'_>,
    ) -> Result<(), TransportError> {
        let id = match self.path_of_frame(ack.path)? {
            PathState::BeyondLimit => return Err(super::cids::beyond_limit()),
            PathState::NeverOpened(_) => {
                return Err(TransportError::protocol_violation(
                    "PATH_ACK for a path on which nothing was sent",
                ));
            }
            // RFC 10069, handling PATH_ACK for abandoned paths: silently ignored; the data went
            // elsewhere when the path was abandoned.
            PathState::Abandoned(_) => return Ok(()),
            PathState::Open(path) => path.id,
        };
        let mut acked = std::mem::take(&mut self.acked_scratch);
        let result = self.process_path_ack(now, id, ack, &mut acked);
        acked.clear();
        self.acked_scratch = acked;
        result
    }

    fn process_path_ack(
        &mut self,
        now: Instant,
        id: PathId,
        ack: &AckFrame<'_>,
        acked: &mut Vec<(u64, SentPacket)>,
    ) -> Result<(), TransportError> {
        let max_ack_delay = self.peer_max_ack_delay();
        let exponent = u32::from(self.peer.ack_delay_exponent);
        let delay = std::time::Duration::from_micros(
            ack.delay
                .checked_shl(exponent)
                .unwrap_or(u64::MAX)
                .min(1 << 40),
        );
        // RFC 9002 section 5.3: not above max_ack_delay once the handshake is confirmed.
        let delay = if self.confirmed {
            delay.min(max_ack_delay)
        } else {
            delay
        };
        let Some(path) = self.paths.get_mut(id) else {
            return Ok(());
        };
        let in_flight_before = path.space.bytes_in_flight();
        let outcome = path.space.on_ack(
            ack.largest,
            ack.blocks.iter(),
            ack.ecn,
            delay,
            now,
            &mut path.rtt,
            acked,
        )?;
        let index = path.index;
        path.counters.spurious_losses += u64::from(outcome.spurious);
        if let Some(sent) = outcome.spurious_sent {
            self.controller.on_spurious_loss(&SpuriousLoss {
                path: index,
                now,
                newest_sent: sent,
                bytes: outcome.spurious_bytes,
            });
            path.delivery.on_spurious(outcome.spurious_bytes);
        }
        let Some(newest_sent) = outcome.newest_sent else {
            return Ok(());
        };
        path.pto_count = 0;
        path.probes = 0;
        let recovered = path.suspect.on_ack(now, newest_sent, &path.space);
        let cwnd = self.controller.window(index);
        // RFC 9002 section 7.8: a window that was not used says nothing of the path. Pacing leaves a
        // part of it unused at any time.
        let app_limited = in_flight_before.saturating_mul(2) < cwnd;
        for (number, packet) in acked.drain(..) {
            self.on_packet_acked(now, id, number, &packet, outcome.rtt_sample, app_limited);
        }
        if let Some(path) = self.paths.get_mut(id)
            && path.ecn.on_ack(outcome.ecn) > 0
        {
            let marked = CongestionEvent::ecn(index, now, newest_sent);
            self.controller.on_congestion_event(&marked);
        }
        let (nonce_path, pto) = (self.nonce_path(id), self.largest_pto());
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.on_acked(nonce_path, ack.largest, now, pto);
            if keys.update_due() && self.confirmed {
                // RFC 9001 section 6.6: long before the limit of the keys is reached.
                keys.initiate_update(now);
            }
        }
        if recovered {
            self.sync_suspects();
            self.offer_stranded();
            self.events
                .push_back(Event::Path(PathEvent::Recovered { id }));
            self.tell_scheduler(now, id, index, PathUpdateKind::Recovered);
        }
        self.detect_path_losses(now, id);
        self.finish_path_ack(now, id, newest_sent, outcome.rtt_sample);
        Ok(())
    }

    /// The packets that an ACK frame acknowledged, and those lost by it, have met their fate: makes
    /// the sample of the delivery rate.
    fn finish_path_ack(
        &mut self,
        now: Instant,
        id: PathId,
        newest_sent: Instant,
        rtt_sample: Option<std::time::Duration>,
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let Some(sample) = path.delivery.on_ack_end(now, &path.rtt) else {
            return;
        };
        let in_flight = path.space.bytes_in_flight();
        let summary = AckSummary {
            path: path.index,
            now,
            sample: &sample,
            newest_sent,
            rtt_sample,
            rtt: &path.rtt,
            in_flight,
        };
        if self.controller.on_ack_end(&summary) {
            path.delivery.on_app_limited(in_flight);
        }
    }

    fn on_packet_acked(
        &mut self,
        now: Instant,
        id: PathId,
        number: u64,
        packet: &SentPacket,
        rtt: Option<std::time::Duration>,
        app_limited: bool,
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let index = path.index;
        path.counters.delivered_bytes += u64::from(packet.size);
        if let Some(snapshot) = &packet.delivery {
            path.delivery
                .on_acked(now, packet.time_sent, packet.size, snapshot);
        }
        if packet.mtu_probe {
            if path.mtu.on_probe_acked(now, number) {
                self.controller.on_mtu_update(index, path.mtu.current());
            }
        } else {
            path.mtu.on_acked(packet.size);
        }
        if packet.in_flight {
            self.controller.on_packet_acked(&AckedPacket {
                path: index,
                now,
                sent: packet.time_sent,
                size: packet.size.into(),
                app_limited,
                rtt: &path.rtt,
            });
        }
        let mut contiguous = 0;
        for frame in &packet.frames {
            contiguous += self.on_frame_acked(frame);
        }
        if packet.ack_eliciting {
            self.schedule.on_acked(&Acked::new(
                index,
                now,
                packet.time_sent,
                packet.size,
                rtt,
                packet.decision,
                contiguous,
            ));
        }
    }

    /// One line per frame: its owner learns that it arrived. Returns stream bytes that became
    /// contiguous by it.
    fn on_frame_acked(&mut self, frame: &SentFrame) -> u64 {
        match *frame {
            SentFrame::Stream(range) => return self.streams.on_acked(&range).contiguous,
            SentFrame::Crypto { start, end } => {
                self.handshake.stream(Level::OneRtt).on_acked(start, end);
            }
            SentFrame::Ack { path, largest } => {
                if let Some(path) = self.paths.get_mut(path) {
                    path.space.received.discard_below(largest + 1);
                }
            }
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_acked(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_acked(path, sequence);
            }
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.streams.on_control_acked(frame),
            SentFrame::HandshakeDone
            | SentFrame::Datagram { .. }
            | SentFrame::PathChallenge(_)
            | SentFrame::PathAbandon(_)
            | SentFrame::PathStatus { .. }
            | SentFrame::MaxPathId(_)
            | SentFrame::PathsBlocked(_)
            | SentFrame::PathCidsBlocked(_) => {}
        }
        0
    }

    /// One line per frame: its owner learns that it did not arrive, and repeats it if it still
    /// matters.
    fn on_frame_lost(&mut self, frame: &SentFrame, path: PathIndex) {
        match *frame {
            SentFrame::Stream(range) => self.streams.on_lost(&range, path),
            _ => self.repeat_control(frame),
        }
    }

    fn repeat_control(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Crypto { start, end } => {
                self.handshake.stream(Level::OneRtt).on_lost(start, end);
            }
            SentFrame::NewConnectionId { path, sequence } => {
                self.local_cids.on_lost(path, sequence);
            }
            SentFrame::RetireConnectionId { path, sequence } => {
                self.remote_cids.on_lost(path, sequence);
            }
            SentFrame::ResetStream(_)
            | SentFrame::StopSending(_)
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams(_)
            | SentFrame::DataBlocked
            | SentFrame::StreamDataBlocked(_)
            | SentFrame::StreamsBlocked(_) => self.streams.on_control_lost(frame),
            SentFrame::HandshakeDone => self.handshake_done_pending = true,
            SentFrame::PathAbandon(id) => {
                let mut retired = self.paths.retired_mut().iter_mut();
                if let Some(path) = retired.find(|path| path.id == id) {
                    path.abandon_pending = true;
                }
            }
            SentFrame::PathStatus { path, sequence } => {
                if let Some(path) = self.paths.get_mut(path) {
                    path.status.on_lost(sequence);
                }
            }
            SentFrame::MaxPathId(max) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_max_path_id_lost(max);
                }
            }
            SentFrame::PathsBlocked(max) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_paths_blocked_lost(max);
                }
            }
            SentFrame::PathCidsBlocked(path) => {
                if let Some(limits) = &mut self.path_limits {
                    limits.on_cids_blocked_lost(path);
                }
            }
            // RFC 9000 section 13.3: newer acknowledgements replace old ones, challenges have their
            // own timer, datagrams are not repeated.
            SentFrame::Stream(_)
            | SentFrame::Ack { .. }
            | SentFrame::Datagram { .. }
            | SentFrame::PathChallenge(_) => {}
        }
    }

    /// Declares packets lost by the packet and time thresholds (RFC 9002 section 6.1).
    pub(crate) fn detect_path_losses(&mut self, now: Instant, id: PathId) {
        let mut lost = std::mem::take(&mut self.lost_scratch);
        let max_ack_delay = self.peer_max_ack_delay();
        if let Some(path) = self.paths.get_mut(id) {
            let outcome = path
                .space
                .detect_lost(now, &path.rtt, max_ack_delay, &mut lost);
            if !lost.is_empty() {
                self.on_packets_lost(now, id, &outcome, &lost);
                lost.clear();
                self.keep_suspect_probed(id);
            }
        }
        self.lost_scratch = lost;
    }

    /// All that a path in trouble had in flight was declared lost: no probe timer is armed, and no
    /// scheduler may choose it. Without a probe, nothing would ever tell that it works.
    fn keep_suspect_probed(&mut self, id: PathId) {
        if let Some(path) = self.paths.get_mut(id)
            && path.suspect.is_suspect()
            && path.space.ack_eliciting_in_flight() == 0
        {
            path.ping = true;
        }
    }

    fn on_packets_lost(
        &mut self,
        now: Instant,
        id: PathId,
        outcome: &LossOutcome,
        lost: &[(u64, SentPacket)],
    ) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let index = path.index;
        for (number, packet) in lost {
            if packet.mtu_probe {
                path.mtu.on_probe_lost(now, *number);
                continue;
            }
            path.counters.lost_packets += 1;
            self.totals.lost_packets += 1;
            if packet.ecn_marked {
                path.ecn.on_lost_marked();
            }
            if let Some(snapshot) = &packet.delivery {
                let lost = LostPacket {
                    path: index,
                    now,
                    number: *number,
                    sent: packet.time_sent,
                    size: packet.size.into(),
                    tx_in_flight: snapshot.tx_in_flight,
                    lost: path.delivery.on_lost(packet.size, snapshot),
                    total_delivered: path.delivery.delivered(),
                    app_limited: snapshot.app_limited,
                };
                self.controller.on_packet_lost(&lost);
            }
        }
        if let Some(sent) = outcome.newest_sent {
            let persistent = outcome.persistent;
            self.controller.on_congestion_event(&CongestionEvent {
                path: index,
                now,
                newest_sent: sent,
                lost_bytes: outcome.bytes,
                persistent,
                ecn: false,
            });
            if persistent {
                // RFC 9002 section 5.2.
                path.rtt.reset_min();
            }
            if path.mtu.on_lost(now, outcome.largest_size) {
                self.controller.on_mtu_update(index, path.mtu.current());
            }
        }
        for (_, packet) in lost {
            for frame in &packet.frames {
                self.on_frame_lost(frame, index);
            }
            if packet.ack_eliciting {
                self.schedule.on_lost(&Lost::new(
                    index,
                    now,
                    packet.time_sent,
                    packet.size,
                    packet.decision,
                ));
            }
        }
    }

    /// A path is abandoned: all that it had in flight goes back to the queues (RFC 10069: considered
    /// lost).
    pub(crate) fn rehome(&mut self, now: Instant, path: &mut Path) {
        let mut lost = std::mem::take(&mut self.lost_scratch);
        path.space.drain_all(&mut lost);
        for (_, packet) in lost.drain(..) {
            for frame in &packet.frames {
                self.on_frame_lost(frame, path.index);
            }
            self.schedule.on_lost(&Lost::new(
                path.index,
                now,
                packet.time_sent,
                packet.size,
                packet.decision,
            ));
        }
        self.lost_scratch = lost;
    }

    /// RFC 9002 section 6.2.4: on the only path there is, a probe carries again what a lost packet may
    /// have carried. Control frames are queued again; stream data is copied when the probe is built.
    pub(crate) fn repeat_oldest_control(&mut self, id: PathId) {
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let frames: smallvec::SmallVec<[SentFrame; 8]> = path
            .space
            .sent
            .iter()
            .filter(|(_, packet)| packet.ack_eliciting)
            .take(2)
            .flat_map(|(_, packet)| packet.frames.iter().copied())
            .collect();
        for frame in &frames {
            self.repeat_control(frame);
        }
    }

    /// Whether data can go on another path than this one.
    pub(crate) fn has_other_usable(&self, index: PathIndex) -> bool {
        self.paths.iter().any(|path| {
            path.index != index
                && path.network.is_validated()
                && !path.suspect.is_suspect()
                && self.has_cid(path.id)
        })
    }

    /// A path is in trouble: what it has in flight becomes sendable on the other paths at once, and
    /// stays in flight here until acknowledged or lost.
    pub(crate) fn on_suspect(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let index = path.index;
        self.sync_suspects();
        if self.has_other_usable(index) {
            self.offer_in_flight(id);
        }
        self.events
            .push_back(Event::Path(PathEvent::Suspect { id }));
        self.tell_scheduler(now, id, index, PathUpdateKind::Suspect);
    }

    /// A path can be used that could not before: what the others have in flight and cannot be
    /// counted on to deliver had nowhere to go until now.
    pub(crate) fn offer_stranded(&mut self) {
        let stranded: smallvec::SmallVec<[PathId; 4]> = self
            .paths
            .iter()
            .filter(|path| path.suspect.is_suspect() && self.has_other_usable(path.index))
            .map(|path| path.id)
            .collect();
        for id in stranded {
            self.offer_in_flight(id);
        }
    }

    /// Queues the frames of the packets in flight on a path again, without giving the packets up.
    pub(crate) fn offer_in_flight(&mut self, id: PathId) {
        let mut frames: smallvec::SmallVec<[SentFrame; 8]> = smallvec::SmallVec::new();
        let Some(path) = self.paths.get(id) else {
            return;
        };
        frames.extend(
            path.space
                .sent
                .iter()
                .filter(|(_, packet)| packet.ack_eliciting)
                .flat_map(|(_, packet)| packet.frames.iter().copied()),
        );
        for frame in &frames {
            match frame {
                SentFrame::Stream(range) => self.streams.make_sendable(range),
                _ => self.repeat_control(frame),
            }
        }
    }

    /// Tells the streams which paths cannot be counted on.
    pub(crate) fn sync_suspects(&mut self) {
        let suspects: PathSet = self
            .paths
            .iter()
            .filter(|path| path.suspect.is_suspect())
            .map(|path| path.index)
            .collect();
        self.streams.set_suspects(suspects);
    }
}
