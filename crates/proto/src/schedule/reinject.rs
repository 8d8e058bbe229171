//! Finds the oldest stream data in flight on other paths that a path has not carried.

use mpquic_sched_core::PathIndex;
use smallvec::SmallVec;

use crate::path::Paths;
use crate::sent_frame::{SentFrame, StreamRange};

/// For each pair of paths, the packet number on the second below which there is nothing left to
/// copy to the first: what was looked at once is not looked at again. Slots without a number stand at 0: a connection whose
/// scheduler asks for no copies has none.
#[derive(Debug, Default)]
pub(crate) struct ReinjectCursors(Vec<Vec<u64>>);

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
        for cursor in self.0.iter_mut().filter_map(|row| row.get_mut(path.get())) {
            *cursor = 0;
        }
        if let Some(row) = self.0.get_mut(path.get()) {
            row.fill(0);
        }
    }

    /// The number for a pair of paths.
    fn cursor(&mut self, target: PathIndex, source: PathIndex) -> &mut u64 {
        let (target, source) = (target.get(), source.get());
        if self.0.len() <= target {
            self.0.resize_with(target + 1, Vec::new);
        }
        let row = &mut self.0[target];
        if row.len() <= source {
            row.resize(source + 1, 0);
        }
        &mut row[source]
    }

    /// The oldest packet with data for `target`.
    pub(crate) fn oldest(&mut self, paths: &Paths, target: PathIndex) -> Option<Candidate> {
        let mut best: Option<(std::time::Instant, PathIndex, u64)> = None;
        for path in paths.iter().filter(|path| path.index != target) {
            let cursor = self.cursor(target, path.index);
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
        let cursor = self.cursor(target, candidate.source);
        *cursor = (*cursor).max(candidate.packet + 1);
    }
}
