//! What suspect paths have in flight, and how much of it is offered to other paths: a little while the peer or this host may
//! be the one that stands still, and all of it once it is certain that the path does.

use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathSet, PathUpdateKind};

use super::Connection;
use crate::path::Path;
use crate::recovery::later;
use crate::space::{SentFrame, SpaceId};
use crate::{Event, PathEvent, PathId};

/// Packets that are offered at once when a path falls suspect: what a connection may send before it knows anything of a
/// path (RFC 9002 section 7.2).
const PACKETS_IN_DOUBT: u64 = 10;

/// Bytes that may be offered so in any case, and the part of all that was sent that may be in addition. Beyond, it is one
/// packet, whose acknowledgement tells whether the peer runs.
const BYTES_IN_DOUBT: u64 = 16 * 1024;
const SHARE_IN_DOUBT: u64 = 256;

/// Largest PTOs after which a suspicion counts as certain even if nothing was heard of the peer.
const PTOS_IN_DOUBT: u32 = 2;

impl Connection {
    /// A path is in trouble: what it has in flight becomes sendable on the other paths, and stays in flight here until
    /// acknowledged or lost. All at once if the peer is known to run; otherwise a little, and the rest when it is.
    pub(super) fn on_suspect(&mut self, now: Instant, id: PathId, index: PathIndex) {
        self.streams.set_suspects(self.paths.suspects());
        self.doubt(now, index);
        if self.has_other_usable(index) && !self.offer_if_certain(now, id) {
            let packets = self.packets_in_doubt(index);
            self.offer_in_flight(id, packets);
        }
        self.events
            .push_back(Event::Path(PathEvent::Suspect { id }));
        self.tell_scheduler(now, index, PathUpdateKind::Suspect);
    }

    /// A probe timeout of a suspect path: a scheduler may have gone on to send on it.
    pub(super) fn on_suspect_pto(&mut self, now: Instant, id: PathId) {
        let doubtful = |path: &Path| path.suspicion().is_doubtful();
        if !self.paths.get(id).is_some_and(doubtful) {
            self.offer_in_flight(id, usize::MAX);
        } else if !self.offer_if_certain(now, id) {
            self.offer_in_flight(id, 1);
        }
    }

    /// It may be certain by now that a suspect path is silent and not the peer: then all that it has in flight is
    /// offered. Returns whether it is.
    pub(super) fn offer_if_certain(&mut self, now: Instant, id: PathId) -> bool {
        let Some(path) = self.paths.get_mut(id) else {
            return false;
        };
        let suspicion = path.suspicion_mut();
        if suspicion.certain_at().is_none_or(|at| at > now) {
            return false;
        }
        suspicion.on_certain();
        self.offer_in_flight(id, usize::MAX);
        true
    }

    /// All that a suspect path has in flight is offered, whoever stands still.
    pub(super) fn offer_now(&mut self, id: PathId, index: PathIndex) {
        if let Some(path) = self.paths.at_mut(index) {
            path.suspicion_mut().on_certain();
        }
        if self.has_other_usable(index) {
            self.offer_in_flight(id, usize::MAX);
        }
    }

    /// A path can be used that could not before: what the others have in flight and cannot be
    /// counted on to deliver had nowhere to go until now.
    pub(super) fn offer_stranded(&mut self, now: Instant) {
        let stranded: smallvec::SmallVec<[(PathId, PathIndex); 4]> = self
            .paths
            .iter()
            .filter(|path| path.is_suspect() && self.has_other_usable(path.index))
            .map(|path| (path.id, path.index))
            .collect();
        for (id, index) in stranded {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            if path.suspicion().is_doubtful() {
                // Perhaps both were silent together, and this one is about to be heard, too.
                self.doubt(now, index);
                self.offer_if_certain(now, id);
            } else {
                self.offer_in_flight(id, usize::MAX);
            }
        }
    }

    /// The peer was heard: that may tell whose the silence of suspect paths is.
    pub(super) fn on_heard(&mut self, now: Instant) {
        // It takes another path to tell.
        if self.paths.open_count() > 1 {
            self.look_for_evidence_on_all(now);
        }
    }

    #[inline(never)]
    fn look_for_evidence_on_all(&mut self, now: Instant) {
        let doubtful = self
            .paths
            .iter()
            .filter(|path| path.suspicion().is_doubtful());
        let doubtful: PathSet = doubtful.map(|path| path.index).collect();
        for index in doubtful.iter() {
            self.look_for_evidence(now, index);
        }
    }

    /// Whose silence it is has to be found out, from what is known already or is heard from now on.
    fn doubt(&mut self, now: Instant, index: PathIndex) {
        let longest = self.largest_pto().saturating_mul(PTOS_IN_DOUBT);
        if let Some(path) = self.paths.at_mut(index) {
            path.suspicion_mut().doubt_until(later(now, longest));
        }
        self.look_for_evidence(now, index);
    }

    fn look_for_evidence(&mut self, now: Instant, index: PathIndex) {
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.paths.at(index) else {
            return;
        };
        let others = self.paths.iter().filter(|other| other.index != index);
        let heard = others.filter_map(Path::peer_ran);
        let certain = heard.filter_map(|ran| path.own_silence(ran, max_ack_delay));
        if let Some(at) = certain.min()
            && let Some(path) = self.paths.at_mut(index)
        {
            path.suspicion_mut().on_evidence(at.max(now));
        }
    }

    /// How many packets of a path are offered in doubt.
    fn packets_in_doubt(&mut self, index: PathIndex) -> usize {
        let mtu = self.paths.at(index).map_or(1, |path| path.mtu().into());
        let budget = BYTES_IN_DOUBT + self.totals.sent_bytes / SHARE_IN_DOUBT;
        let left = budget.saturating_sub(self.offered_in_doubt);
        let packets = (left / mtu).clamp(1, PACKETS_IN_DOUBT);
        self.offered_in_doubt += packets * mtu;
        packets as usize
    }

    /// Queues the frames of the oldest packets in flight on a path again, without giving the packets up.
    fn offer_in_flight(&mut self, id: PathId, packets: usize) {
        for frame in &self.frames_in_flight(id, packets) {
            match frame {
                SentFrame::Stream(range) => self.streams.make_sendable(range),
                _ => self.repeat_control(SpaceId::Data, frame),
            }
        }
    }

    /// The frames of the oldest packets in flight on a path that carry any, at most so many packets.
    pub(super) fn frames_in_flight(
        &self,
        id: PathId,
        packets: usize,
    ) -> smallvec::SmallVec<[SentFrame; 8]> {
        let path = self.paths.get(id).into_iter();
        path.flat_map(|path| path.space().sent.iter())
            .filter(|(_, packet)| packet.ack_eliciting && !packet.frames.is_empty())
            .take(packets)
            .flat_map(|(_, packet)| packet.frames.iter().copied())
            .collect()
    }
}
