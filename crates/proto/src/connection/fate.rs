//! What becomes of sent packets: acknowledged, lost, moved elsewhere; each frame's fate goes to the
//! frame's owner. Detects no loss itself.

use std::time::Instant;

use mpquic_sched::{Acked, Lost, PathEventKind, PathIndex, PathSet};

use super::Connection;
use crate::congestion::Acknowledged;
use crate::frame::AckFrame;
use crate::handshake::Level;
use crate::path::{Path, PathState};
use crate::recovery::is_persistent_congestion;
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
        if outcome.resets_pto {
            path.pto_count = 0;
            self.level_probes[slot] = 0;
        }
        path.suspect.on_acked(outcome.largest_sent);
        for (_, packet) in acked.drain(..) {
            if packet.in_flight {
                self.controller.on_ack(
                    index,
                    now,
                    Acknowledged {
                        sent: packet.time_sent,
                        bytes: packet.size.into(),
                        app_limited: true,
                    },
                    &path.rtt,
                );
            }
            for frame in &packet.frames {
                match *frame {
                    SentFrame::Crypto { start, end } => {
                        self.handshake.stream(level).on_acked(start, end);
                    }
                    SentFrame::Ack { largest, .. } => space.received.on_ack_of_ack(largest),
                    _ => {}
                }
            }
        }
        self.detect_level_losses(now, level);
        Ok(())
    }

    pub(crate) fn detect_level_losses(&mut self, now: Instant, level: Level) {
        let slot = level as usize;
        let mut lost = std::mem::take(&mut self.lost_scratch);
        if let (Some(space), Some(path)) = (
            self.levels.get_mut(slot).and_then(Option::as_mut),
            self.paths.get_mut(PathId::ZERO),
        ) {
            space.detect_lost(now, &path.rtt, &mut lost);
            let mut newest = None;
            let mut bytes = 0;
            for (_, packet) in lost.drain(..) {
                path.counters.lost_packets += 1;
                self.totals.lost_packets += 1;
                newest = newest.max(Some(packet.time_sent));
                bytes += u64::from(packet.size);
                for frame in &packet.frames {
                    if let SentFrame::Crypto { start, end } = *frame {
                        self.handshake.stream(level).on_lost(start, end);
                    }
                }
            }
            if let Some(sent) = newest {
                path.counters.congestion_events += 1;
                self.controller
                    .on_congestion_event(path.index, now, sent, false, bytes, false);
            }
        }
        self.lost_scratch = lost;
    }

    /// ACK or PATH_ACK of 1-RTT packets, which came on path `arrived`.
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
            ack.delay.checked_shl(exponent).unwrap_or(u64::MAX).min(1 << 40),
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
        let ecn = ack.ecn.map(|counts| (counts.ect0, counts.ect1, counts.ce));
        let outcome = path.space.on_ack(
            ack.largest,
            ack.blocks.iter(),
            ecn,
            delay,
            now,
            &mut path.rtt,
            acked,
        )?;
        path.counters.spurious_losses += outcome.spurious;
        if outcome.spurious > 0 {
            self.controller.on_spurious_loss(path.index, now);
        }
        if acked.is_empty() {
            return Ok(());
        }
        path.pto_count = 0;
        path.probes = 0;
        path.last_acked = Some(now);
        let index = path.index;
        let recovered = path.suspect.on_acked(outcome.largest_sent);
        let cwnd = self.controller.window(index);
        // RFC 9002 section 7.8: a window that was not used says nothing of the path. Pacing leaves a
        // part of it unused at any time.
        let app_limited = in_flight_before.saturating_mul(2) < cwnd;
        for (number, packet) in acked.drain(..) {
            self.on_packet_acked(now, id, number, &packet, outcome.rtt_sample, app_limited);
        }
        if let Some(path) = self.paths.get_mut(id) {
            let ce = path.ecn.on_ack(&outcome);
            if let Some(sent) = ce {
                path.counters.congestion_events += 1;
                self.controller
                    .on_congestion_event(index, now, sent, false, 0, true);
            }
            self.controller.on_end_acks(index, now);
        }
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.on_acked(outcome.largest_sent);
        }
        if recovered {
            self.events.push_back(Event::Path(PathEvent::Recovered { id }));
            self.tell_scheduler(now, id, index, PathEventKind::Recovered);
        }
        self.detect_path_losses(now, id);
        Ok(())
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
        path.delivery.on_acked(now, packet, app_limited);
        if path.mtu.on_acked(number) {
            self.controller.on_mtu_update(index, path.mtu.current());
        }
        if packet.in_flight {
            self.controller.on_ack(
                index,
                now,
                Acknowledged {
                    sent: packet.time_sent,
                    bytes: packet.size.into(),
                    app_limited,
                },
                &path.rtt,
            );
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
                    path.space.received.on_ack_of_ack(largest);
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
            | SentFrame::NewToken
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
    fn on_frame_lost(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Stream(range) => self.streams.on_lost(&range),
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
            | SentFrame::NewToken
            | SentFrame::Datagram { .. }
            | SentFrame::PathChallenge(_) => {}
        }
    }

    /// Declares packets lost by the packet and time thresholds (RFC 9002 section 6.1).
    pub(crate) fn detect_path_losses(&mut self, now: Instant, id: PathId) {
        let mut lost = std::mem::take(&mut self.lost_scratch);
        if let Some(path) = self.paths.get_mut(id) {
            path.space.detect_lost(now, &path.rtt, &mut lost);
        }
        if !lost.is_empty() {
            self.on_packets_lost(now, id, &lost);
            lost.clear();
        }
        self.lost_scratch = lost;
    }

    fn on_packets_lost(&mut self, now: Instant, id: PathId, lost: &[(u64, SentPacket)]) {
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let index = path.index;
        let mut newest = None;
        let mut bytes = 0;
        for (number, packet) in lost {
            if path.mtu.on_lost(*number, packet.size, now) {
                // RFC 8899 section 3: the loss of a probe is no sign of congestion.
                continue;
            }
            path.counters.lost_packets += 1;
            self.totals.lost_packets += 1;
            newest = newest.max(Some(packet.time_sent));
            bytes += u64::from(packet.size);
        }
        let persistent = is_persistent_congestion(lost, &path.rtt, max_ack_delay);
        path.ecn.on_lost(lost.len());
        if let Some(sent) = newest {
            path.counters.congestion_events += 1;
            self.controller
                .on_congestion_event(index, now, sent, persistent, bytes, false);
            if persistent {
                path.rtt.reset_min();
            }
        }
        for (_, packet) in lost {
            for frame in &packet.frames {
                self.on_frame_lost(frame);
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
                self.on_frame_lost(frame);
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
        if self.has_other_usable(index) {
            self.offer_in_flight(id, usize::MAX);
        }
        self.events.push_back(Event::Path(PathEvent::Suspect { id }));
        self.tell_scheduler(now, id, index, PathEventKind::Suspect);
    }

    /// Queues the frames of the oldest `count` ack-eliciting packets in flight on a path again,
    /// without giving the packets up.
    pub(crate) fn offer_in_flight(&mut self, id: PathId, count: usize) {
        let mut frames: smallvec::SmallVec<[SentFrame; 8]> = smallvec::SmallVec::new();
        let Some(path) = self.paths.get(id) else {
            return;
        };
        frames.extend(
            path.space
                .sent
                .iter()
                .filter(|(_, packet)| packet.ack_eliciting)
                .take(count)
                .flat_map(|(_, packet)| packet.frames.iter().copied()),
        );
        for frame in &frames {
            match frame {
                SentFrame::Stream(range) => self.streams.make_sendable(range),
                _ => self.repeat_control(frame),
            }
        }
    }

    /// Paths that carry data now, as a set; for tests and the close packet.
    pub(crate) fn validated_paths(&self) -> PathSet {
        self.paths
            .iter()
            .filter(|path| path.network.is_validated())
            .map(|path| path.index)
            .collect()
    }
}
