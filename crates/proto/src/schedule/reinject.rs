//! Finds the oldest stream data in flight on other paths that a path has not carried; writes nothing.

use mpquic_sched_core::{MAX_PATHS, PathIndex};
use smallvec::SmallVec;

use crate::path::Paths;
use crate::space::{SentFrame, StreamRange};

/// For each pair of paths, the packet number on the second below which there is nothing left to
/// copy to the first: what was looked at once is not looked at again.
pub(crate) struct ReinjectCursors([[u64; MAX_PATHS]; MAX_PATHS]);

impl Default for ReinjectCursors {
    fn default() -> Self {
        Self([[0; MAX_PATHS]; MAX_PATHS])
    }
}

/// A packet in flight whose stream data may go on another path too.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) source: PathIndex,
    pub(crate) packet: u64,
    pub(crate) ranges: SmallVec<[StreamRange; 2]>,
}

impl ReinjectCursors {
    /// A slot was given to a new path, whose packet numbers start again.
    pub(crate) fn reset(&mut self, path: PathIndex) {
        for row in &mut self.0 {
            row[path.get()] = 0;
        }
        self.0[path.get()] = [0; MAX_PATHS];
    }

    /// The oldest packet with data for `target`.
    pub(crate) fn oldest(&mut self, paths: &Paths, target: PathIndex) -> Option<Candidate> {
        let mut best: Option<(std::time::Instant, PathIndex, u64)> = None;
        for path in paths.iter().filter(|path| path.index != target) {
            let cursor = &mut self.0[target.get()][path.index.get()];
            for (number, packet) in path.space().sent.iter_from(*cursor) {
                let copyable = packet.frames.iter().any(
                    |frame| matches!(frame, SentFrame::Stream(range) if !range.carried.contains(target)),
                );
                *cursor = number;
                if copyable {
                    if best.is_none_or(|(sent, ..)| packet.time_sent < sent) {
                        best = Some((packet.time_sent, path.index, number));
                    }
                    break;
                }
                *cursor = number + 1;
            }
        }
        let (_, source, packet) = best?;
        let sent = paths.at(source)?.space().sent.get(packet)?;
        let ranges = sent
            .frames
            .iter()
            .filter_map(|frame| match frame {
                SentFrame::Stream(range) if !range.carried.contains(target) => Some(*range),
                _ => None,
            })
            .collect();
        Some(Candidate {
            source,
            packet,
            ranges,
        })
    }

    /// The packet is done with as far as `target` is concerned.
    pub(crate) fn advance(&mut self, target: PathIndex, candidate: &Candidate) {
        let cursor = &mut self.0[target.get()][candidate.source.get()];
        *cursor = (*cursor).max(candidate.packet + 1);
    }
}
