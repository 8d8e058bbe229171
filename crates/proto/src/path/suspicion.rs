//! What suspect paths have in flight, and how much of it is offered to other paths: a little while the peer or this host may
//! be the one that stands still, and all of it once it is certain that the path does.

use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathSet};
use smallvec::SmallVec;

use super::{Path, Paths};
use crate::recovery::later;
use crate::space::SentFrame;

/// Packets that are offered at once when a path falls suspect: what a connection may send before it knows anything of a
/// path (RFC 9002 section 7.2).
const PACKETS_IN_DOUBT: u64 = 10;

/// Bytes that may be offered so in any case, and the part of all that was sent that may be in addition. Beyond, it is one
/// packet, whose acknowledgement tells whether the peer runs.
const BYTES_IN_DOUBT: u64 = 16 * 1024;
const SHARE_IN_DOUBT: u64 = 256;

/// Largest PTOs after which a suspicion counts as certain even if nothing was heard of the peer.
const PTOS_IN_DOUBT: u32 = 2;

/// All packets in flight are offered.
pub(crate) const ALL: usize = usize::MAX;

impl Paths {
    /// A path falls suspect. Returns how many of its packets in flight are offered to the other paths: all at once if the
    /// peer is known to run, otherwise a few, and the rest when it is. `sent`: the bytes of the whole connection.
    pub(crate) fn on_suspect(&mut self, now: Instant, index: PathIndex, sent: u64) -> usize {
        self.doubt(now, index);
        if !self.has_other_usable(index) {
            return 0;
        }
        match self.settle_doubt(now, index) {
            true => ALL,
            false => self.packets_in_doubt(index, sent),
        }
    }

    /// A probe timeout of a suspect path: a scheduler may have gone on to send on it. Returns how many of its packets are
    /// offered.
    pub(crate) fn on_suspect_pto(&mut self, now: Instant, index: PathIndex) -> usize {
        let doubtful = |path: &Path| path.suspicion().is_doubtful();
        if self.at(index).is_some_and(doubtful) && !self.settle_doubt(now, index) {
            return 1;
        }
        ALL
    }

    /// It may be certain by now that a suspect path is silent and not the peer: then all that it has in flight is to be
    /// offered. Returns whether it is.
    pub(crate) fn settle_doubt(&mut self, now: Instant, index: PathIndex) -> bool {
        let Some(path) = self.at_mut(index) else {
            return false;
        };
        let suspicion = path.suspicion_mut();
        let certain = suspicion.certain_at().is_some_and(|at| at <= now);
        if certain {
            suspicion.on_certain();
        }
        certain
    }

    /// All that a suspect path has in flight is to be offered, whoever stands still. Returns whether another path can take
    /// it.
    pub(crate) fn end_doubt(&mut self, index: PathIndex) -> bool {
        if let Some(path) = self.at_mut(index) {
            path.suspicion_mut().on_certain();
        }
        self.has_other_usable(index)
    }

    /// A path can be used that could not before: what the others have in flight and cannot be counted on to deliver had
    /// nowhere to go until now. Returns those of which all is to be offered.
    pub(crate) fn stranded(&mut self, now: Instant) -> SmallVec<[PathIndex; 4]> {
        let with_others = |path: &&Path| path.is_suspect() && self.has_other_usable(path.index);
        let suspects = self.iter().filter(with_others);
        let mut stranded: SmallVec<[PathIndex; 4]> = suspects.map(|path| path.index).collect();
        stranded.retain(|index| {
            let doubtful = |path: &Path| path.suspicion().is_doubtful();
            if !self.at(*index).is_some_and(doubtful) {
                return true;
            }
            // Perhaps both were silent together, and this one is about to be heard, too.
            self.doubt(now, *index);
            self.settle_doubt(now, *index)
        });
        stranded
    }

    /// The peer was heard: that may tell whose the silence of suspect paths is.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        // It takes another path to tell.
        if self.open_count() > 1 {
            self.look_for_evidence_on_all(now);
        }
    }

    #[inline(never)]
    fn look_for_evidence_on_all(&mut self, now: Instant) {
        let doubtful = self.iter().filter(|path| path.suspicion().is_doubtful());
        let doubtful: PathSet = doubtful.map(|path| path.index).collect();
        for index in doubtful.iter() {
            self.look_for_evidence(now, index);
        }
    }

    /// Whose silence it is has to be found out, from what is known already or is heard from now on.
    fn doubt(&mut self, now: Instant, index: PathIndex) {
        let longest = self.largest_pto().saturating_mul(PTOS_IN_DOUBT);
        if let Some(path) = self.at_mut(index) {
            path.suspicion_mut().doubt_until(later(now, longest));
        }
        self.look_for_evidence(now, index);
    }

    fn look_for_evidence(&mut self, now: Instant, index: PathIndex) {
        let max_ack_delay = self.peer_max_ack_delay();
        let Some(path) = self.at(index) else {
            return;
        };
        let others = self.iter().filter(|other| other.index != index);
        let heard = others.filter_map(Path::peer_ran);
        let certain = heard.filter_map(|ran| path.own_silence(ran, max_ack_delay));
        if let Some(at) = certain.min()
            && let Some(path) = self.at_mut(index)
        {
            path.suspicion_mut().on_evidence(at.max(now));
        }
    }

    /// How many packets of a path are offered in doubt.
    fn packets_in_doubt(&mut self, index: PathIndex, sent: u64) -> usize {
        let mtu = self.at(index).map_or(1, |path| path.mtu().into());
        let budget = BYTES_IN_DOUBT + sent / SHARE_IN_DOUBT;
        let left = budget.saturating_sub(self.offered_in_doubt);
        let packets = (left / mtu).clamp(1, PACKETS_IN_DOUBT);
        self.offered_in_doubt += packets * mtu;
        packets as usize
    }

    /// The paths in trouble.
    pub(crate) fn suspects(&self) -> PathSet {
        let suspects = self.iter().filter(|path| path.is_suspect());
        suspects.map(|path| path.index).collect()
    }

    /// The frames of the oldest packets in flight on a path that carry any, at most so many packets.
    pub(crate) fn frames_in_flight(
        &self,
        index: PathIndex,
        packets: usize,
    ) -> SmallVec<[SentFrame; 8]> {
        let path = self.at(index).into_iter();
        path.flat_map(|path| path.space().sent.iter())
            .filter(|(_, packet)| packet.ack_eliciting && !packet.frames.is_empty())
            .take(packets)
            .flat_map(|(_, packet)| packet.frames.iter().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::set::tests::{open, paths};
    use super::*;

    #[test]
    fn a_suspect_path_offers_little_until_it_is_certain_that_the_silence_is_its_own() {
        let now = Instant::now();
        let mut paths = paths();
        let first = open(&mut paths, 0);
        assert_eq!(paths.on_suspect(now, first, 0), 0, "there is no other");
        open(&mut paths, 1);
        // 16 KiB of packets of 1200 bytes, at most ten at a time, and never less than one.
        for packets in [10, 3, 1, 1] {
            assert_eq!(paths.on_suspect(now, first, 0), packets);
        }
        assert_eq!(paths.on_suspect(now, first, 1 << 30), 10, "much was sent");
        assert_eq!(paths.on_suspect_pto(now, first), 1);
        let certain = now + paths.largest_pto() * PTOS_IN_DOUBT;
        let before = certain.checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(!paths.settle_doubt(before, first));
        assert_eq!(paths.on_suspect_pto(certain, first), ALL);
        assert_eq!(
            paths.on_suspect_pto(certain, first),
            ALL,
            "no doubt is left"
        );
    }
}
