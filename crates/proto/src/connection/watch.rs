//! Tells whoever looks what the connection does; without an observer, nothing is made up for it.

use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionId, Decision, PathIndex, PathUpdateKind};
use tracing::Level;

use super::Connection;
use crate::observe::{Trouble, is_read_at};
use crate::path::{Path, SettledPackets};
use crate::schedule::Answer;
use crate::space::{SentPacket, SpaceId};
use crate::transport_parameters::TransportParameters;
use crate::{
    AckedPackets, Choice, Decided, NumberSpace, Observation, PacketLost, PacketReceived,
    PacketSent, Parameters, PathChange, PathChangeKind, PathId, Started,
};

impl Connection {
    /// Whether somebody looks.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Something happened that is not about a single packet.
    #[inline]
    pub(crate) fn note(&mut self, now: Instant, event: Observation<'_>) {
        if is_read_at(Level::DEBUG) {
            self.story.tell(now, &event);
        }
        if let Some(observer) = &mut self.observer {
            observer.on_event(now, &event);
        }
    }

    /// A packet leaves.
    #[cold]
    pub(crate) fn note_packet_sent(&mut self, packet: &PacketSent<'_>) {
        self.story.sent(packet);
        if let Some(observer) = &mut self.observer {
            observer.on_packet_sent(packet);
        }
    }

    /// A packet of the peer was decrypted.
    #[cold]
    pub(crate) fn note_packet_received(&mut self, packet: &PacketReceived<'_>) {
        self.story.received(packet);
        if let Some(observer) = &mut self.observer {
            observer.on_packet_received(packet);
        }
    }

    /// The connection begins, with our parameters.
    pub(super) fn note_start(
        &mut self,
        now: Instant,
        original_dcid: ConnectionId,
        ours: &TransportParameters,
    ) {
        let started = Started {
            side: self.side,
            version: self.version,
            tuple: self.handshake_tuple,
            original_dcid,
            scid: self.handshake_scid,
        };
        self.note(now, Observation::Started(started));
        self.note(now, Observation::Parameters(Parameters::of(ours, false)));
    }

    /// The scheduler was told of a path.
    pub(super) fn note_path_update(
        &mut self,
        now: Instant,
        index: PathIndex,
        update: PathUpdateKind,
    ) {
        let kind = match update {
            PathUpdateKind::Opened => PathChangeKind::Opened,
            PathUpdateKind::Validated => PathChangeKind::Validated,
            PathUpdateKind::Moved => PathChangeKind::Moved,
            PathUpdateKind::Status(status) => PathChangeKind::Status(status),
            PathUpdateKind::Suspect => PathChangeKind::Suspect,
            PathUpdateKind::Recovered => PathChangeKind::Recovered,
            // Told with its code where it happens.
            _ => return,
        };
        if kind == PathChangeKind::Suspect && is_read_at(Level::DEBUG) {
            self.tell_trouble(now, index);
        }
        if let Some((id, tuple)) = self.paths.at(index).map(|path| (path.id, path.tuple())) {
            let tuple = Some(tuple);
            self.note(now, Observation::Path(PathChange { id, tuple, kind }));
        }
    }

    /// The figures that tell an operator why a path is in trouble.
    fn tell_trouble(&self, now: Instant, index: PathIndex) {
        let Some(path) = self.paths.at(index) else {
            return;
        };
        // Since it was last acknowledged, or since what waits to be: whichever is later.
        let last_ack = path.suspicion().last_ack();
        let heard = last_ack.max(path.space().sent.first_ack_eliciting_sent());
        let silent = heard.map_or_else(Duration::default, |at| now.saturating_duration_since(at));
        let trouble = Trouble {
            silent_ms: silent.as_millis() as u64,
            ptos: path.pto_count(),
            in_flight: path.space().bytes_in_flight(),
            elsewhere: self.has_other_usable(index),
        };
        self.story.suspect(now, path.id, &trouble);
    }

    /// Packets were acknowledged.
    #[cold]
    pub(super) fn note_acked(
        &mut self,
        now: Instant,
        space: NumberSpace,
        packets: &[(u64, SentPacket)],
    ) {
        if !packets.is_empty() {
            self.note(now, Observation::Acked(AckedPackets { space, packets }));
        }
    }

    /// Packets were declared lost.
    #[cold]
    pub(super) fn note_lost(
        &mut self,
        now: Instant,
        index: PathIndex,
        space: SpaceId,
        settled: &SettledPackets,
        abandoned: bool,
    ) {
        if let Some(id) = self.paths.at(index).map(|path| path.id) {
            if is_read_at(Level::DEBUG) {
                self.story.lost(now, id, settled.lost.len());
            }
            self.note_lost_in(now, NumberSpace::on_path(space, id), settled, abandoned);
        }
    }

    /// The packets in flight on a path that is abandoned count as lost.
    pub(super) fn note_given_up(&mut self, now: Instant, id: PathId, settled: &SettledPackets) {
        if self.is_observed() {
            self.note_lost_in(now, NumberSpace::Path(id), settled, true);
        }
    }

    fn note_lost_in(
        &mut self,
        now: Instant,
        space: NumberSpace,
        settled: &SettledPackets,
        abandoned: bool,
    ) {
        for (number, packet) in &settled.lost {
            self.note(
                now,
                Observation::Lost(PacketLost {
                    space,
                    number: *number,
                    size: packet.size,
                    mtu_probe: packet.mtu_probe,
                    abandoned,
                }),
            );
        }
    }

    /// What a path measures has changed.
    #[inline]
    pub(super) fn note_metrics(&mut self, now: Instant, index: PathIndex) {
        if self.is_observed()
            && let Some(metrics) = self.paths.at(index).map(|path| self.metrics_of(path))
        {
            self.note(now, metrics);
        }
    }

    fn metrics_of(&self, path: &Path) -> Observation<'static> {
        Observation::Metrics(path.metrics(&*self.controller))
    }

    /// The packet keys were updated.
    pub(crate) fn note_key_update(&mut self, now: Instant, by_peer: bool) {
        let keys = self.handshake.one_rtt.as_ref();
        let phase = keys.map_or(0, crate::crypto::OneRttKeys::updates);
        self.note(now, Observation::KeyUpdate { phase, by_peer });
    }

    /// A packet did not decrypt.
    #[cold]
    pub(crate) fn on_undecryptable(&mut self, now: Instant, space: NumberSpace) {
        self.totals.undecryptable_packets += 1;
        self.note(now, Observation::Undecryptable { space });
    }

    /// The scheduler was asked.
    #[inline]
    pub(crate) fn note_answer(&mut self, now: Instant) {
        if self.is_observed() {
            self.tell_answer(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_answer(&mut self, now: Instant) {
        if let Some(answer) = self.schedule.take_answer()
            && let Some(decided) = self.decided(now, &answer)
        {
            self.note(now, Observation::Decided(decided));
        }
    }

    fn decided(&self, now: Instant, answer: &Answer) -> Option<Decided> {
        let id = |index| self.paths.at(index).map(|path| path.id);
        let choice = match (answer.instead, answer.decision) {
            (Some(index), _) => Choice::Overridden { path: id(index)? },
            (None, Decision::Send { path, data, copies }) => Choice::Send {
                path: id(path)?,
                data,
                copies: copies.len(),
            },
            (None, Decision::Wait { until }) => Choice::Wait {
                at_most: until.map(|until| until.saturating_duration_since(now)),
            },
        };
        let (number, why) = (answer.number, answer.why);
        Some(Decided {
            number,
            choice,
            why,
        })
    }
}
