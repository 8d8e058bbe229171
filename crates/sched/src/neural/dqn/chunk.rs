//! Which chunks are in transfer and how far each one is.

use std::collections::VecDeque;
use std::time::Instant;

use super::state::Progress;
use crate::{QueueView, StreamId, StreamUpdate, StreamUpdateKind};

/// Chunks in transfer at a time; further ones count as data without a chunk. A player asks for one at a time.
const CHUNKS: usize = 64;

/// A chunk in transfer.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunk {
    /// `None` for data of streams that no hint calls a chunk.
    stream: Option<StreamId>,
    /// As hinted, bytes.
    size: Option<u64>,
    /// Bytes that the application has written.
    written: u64,
    /// Bytes that some packet carried.
    sent: u64,
    /// Bytes that are acknowledged with all before them.
    contiguous: u64,
    /// Whether the application can afford a worse decision for it.
    explore: bool,
    /// When it was asked for.
    begun: Option<Instant>,
    /// The newest decision that was asked for it.
    pub(super) asked: Option<u64>,
    /// The newest decision that was made for it, and told.
    pub(super) decided: Option<u64>,
}

impl Chunk {
    /// Its bytes, as far as they are known.
    pub(super) fn bytes(&self) -> u64 {
        self.size.unwrap_or(0).max(self.written).max(self.sent)
    }

    const fn unsent(&self) -> u64 {
        let known = match self.size {
            Some(size) if size > self.written => size,
            _ => self.written,
        };
        known.saturating_sub(self.sent)
    }

    /// Milliseconds from when it was asked for to `now`.
    pub(super) fn millis(&self, now: Instant) -> f64 {
        let since = self.begun.unwrap_or(now);
        now.saturating_duration_since(since).as_secs_f64() * 1e3
    }

    /// Whether its application has marked it for exploration.
    pub(super) const fn explore(&self) -> bool {
        self.explore
    }

    pub(super) fn progress(&self, now: Instant) -> Progress {
        Progress {
            unsent: self.unsent(),
            unacked: self.bytes().saturating_sub(self.contiguous),
            received: self.contiguous,
            elapsed: self.millis(now) / 1e3,
        }
    }
}

/// The chunks in transfer, in the order in which they were announced.
///
/// Packets do not tell of which stream their bytes are: what is sent and acknowledged counts for the first chunk that
/// it can be of, and only then for data without a chunk. With one chunk at a time and nothing beside it, as players do
/// it, that is exact; when a chunk ends is, in any case.
#[derive(Debug)]
pub(super) struct Chunks {
    chunks: VecDeque<Chunk>,
    /// What is in transfer and of no chunk, which makes one chunk, from when there is some to when all of it has
    /// arrived.
    loose: Chunk,
    /// Whether there are chunks that do not know when they began.
    undated: bool,
    /// Whether another chunk may have come to the front since [`current`](Self::current) was asked last.
    changed: bool,
    /// Whether `loose` is not known any more, a stream having been reset.
    uncertain: bool,
}

impl Default for Chunks {
    fn default() -> Self {
        Self {
            chunks: VecDeque::with_capacity(CHUNKS),
            loose: Chunk::default(),
            undated: false,
            changed: false,
            uncertain: false,
        }
    }
}

impl Chunks {
    /// Whether it is time to ask for the [`current`](Self::current) one again.
    #[inline]
    pub(super) const fn changed(&self) -> bool {
        self.changed
    }

    /// It is `now`: what has begun since the last event began now.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant) {
        if std::mem::take(&mut self.undated) {
            let loose = (self.loose.written > 0).then_some(&mut self.loose);
            for chunk in self.chunks.iter_mut().chain(loose) {
                chunk.begun.get_or_insert(now);
            }
        }
    }

    /// The chunk that what is sent now is of, if there is something to send for the first time. With it, how many
    /// decisions will never be rewarded because their chunk got lost sight of.
    pub(super) fn current(&mut self, now: Instant, queue: &QueueView) -> (Option<&mut Chunk>, u64) {
        self.changed = false;
        let mut dropped = 0;
        if std::mem::take(&mut self.uncertain) {
            dropped = u64::from(self.loose.decided.is_some());
            self.loose = Chunk::default();
            if self.chunks.is_empty() {
                self.loose.sent = queue.in_flight + queue.out_of_order;
                self.loose.written = self.loose.sent + queue.unsent;
            }
            self.undated = true;
        }
        self.tick(now);
        let all = self.chunks.iter_mut().chain([&mut self.loose]);
        (all.into_iter().find(|chunk| chunk.unsent() > 0), dropped)
    }

    /// The chunk that this decision was asked for, if it is still in transfer.
    pub(super) fn asked(&mut self, number: u64) -> Option<&mut Chunk> {
        let mut all = self.chunks.iter_mut().chain([&mut self.loose]);
        all.find(|chunk| chunk.asked == Some(number))
    }

    /// So many bytes were sent for the first time.
    #[inline]
    pub(super) fn on_sent(&mut self, mut bytes: u64) {
        for chunk in &mut self.chunks {
            if bytes == 0 {
                return;
            }
            let unsent = chunk.unsent();
            let part = bytes.min(unsent);
            chunk.sent += part;
            bytes -= part;
            self.changed |= part > 0 && part == unsent;
        }
        self.loose.sent += bytes;
        self.loose.written = self.loose.written.max(self.loose.sent);
    }

    /// So many bytes became contiguous. The data without a chunk, if all of it has arrived with them.
    #[inline]
    pub(super) fn on_contiguous(&mut self, mut bytes: u64) -> Option<Chunk> {
        for chunk in &mut self.chunks {
            if bytes == 0 {
                return None;
            }
            let part = bytes.min(chunk.sent - chunk.contiguous);
            chunk.contiguous += part;
            bytes -= part;
        }
        let loose = &mut self.loose;
        loose.contiguous += bytes.min(loose.sent - loose.contiguous);
        if loose.written == 0 || loose.contiguous < loose.written || self.uncertain {
            return None;
        }
        Some(std::mem::take(loose))
    }

    /// Something happened to a stream. The chunk that ended by it, and whether all of it has arrived.
    pub(super) fn on_stream(&mut self, event: &StreamUpdate) -> Option<(Chunk, bool)> {
        let place = self
            .chunks
            .iter()
            .position(|chunk| chunk.stream == Some(event.id));
        match (event.kind, place) {
            (StreamUpdateKind::Hint(hints), Some(place)) => {
                let chunk = &mut self.chunks[place];
                chunk.size = hints.size.or(chunk.size);
                chunk.explore = hints.explore;
            }
            (StreamUpdateKind::Hint(hints), None)
                if hints.chunk.is_some() && self.chunks.len() < CHUNKS =>
            {
                self.chunks.push_back(Chunk {
                    stream: Some(event.id),
                    size: hints.size,
                    explore: hints.explore,
                    ..Chunk::default()
                });
                (self.undated, self.changed) = (true, true);
            }
            (StreamUpdateKind::Written(bytes), place) => {
                let chunk = match place {
                    Some(place) => &mut self.chunks[place],
                    None => &mut self.loose,
                };
                chunk.written += bytes;
                self.undated |= chunk.begun.is_none();
                self.changed |= chunk.asked.is_none();
            }
            (StreamUpdateKind::FullyAcked, Some(place)) => {
                self.give_back(place);
                self.changed = true;
                return self.chunks.remove(place).map(|chunk| (chunk, true));
            }
            (StreamUpdateKind::Reset, Some(place)) => {
                self.changed = true;
                return self.chunks.remove(place).map(|chunk| (chunk, false));
            }
            (StreamUpdateKind::Reset, None) => self.uncertain |= self.loose.written > 0,
            _ => {}
        }
        None
    }

    /// All of this chunk has arrived: what it has too little of was counted for those before it.
    fn give_back(&mut self, place: usize) {
        let chunk = &self.chunks[place];
        let (mut sent, mut contiguous) = (chunk.unsent(), chunk.bytes() - chunk.contiguous);
        for before in self.chunks.range_mut(..place) {
            let part = contiguous.min(before.contiguous);
            before.contiguous -= part;
            contiguous -= part;
            let part = sent.min(before.sent - before.contiguous);
            before.sent -= part;
            sent -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::VarInt;

    use super::*;
    use crate::StreamHints;

    fn event(chunks: &mut Chunks, stream: u32, kind: StreamUpdateKind) -> Option<(Chunk, bool)> {
        let id = VarInt::from_u32(stream).into();
        chunks.on_stream(&StreamUpdate::new(id, kind))
    }

    fn hint(chunk: Option<u64>, size: Option<u64>) -> StreamUpdateKind {
        StreamUpdateKind::Hint(StreamHints {
            chunk,
            size,
            ..StreamHints::default()
        })
    }

    /// Unsent and unacked bytes of the current chunk, and milliseconds since it was asked for.
    fn current(chunks: &mut Chunks, now: Instant) -> Option<(u64, u64, f64)> {
        let (chunk, dropped) = chunks.current(now, &QueueView::default());
        assert_eq!(dropped, 0);
        let progress = chunk?.progress(now);
        Some((
            progress.unsent,
            progress.unacked,
            (progress.elapsed * 1e3).round(),
        ))
    }

    #[test]
    fn what_is_to_be_written_counts_if_it_was_told() {
        let start = Instant::now();
        let mut chunks = Chunks::default();
        assert_eq!(current(&mut chunks, start), None);
        event(&mut chunks, 0, hint(Some(1), Some(1000)));
        event(&mut chunks, 0, StreamUpdateKind::Written(100));
        assert_eq!(current(&mut chunks, start), Some((1000, 1000, 0.0)));
        chunks.on_sent(100);
        chunks.on_contiguous(40);
        let later = start + Duration::from_millis(30);
        assert_eq!(current(&mut chunks, later), Some((900, 960, 30.0)));
        // More than was told.
        event(&mut chunks, 0, StreamUpdateKind::Written(1100));
        assert_eq!(current(&mut chunks, later), Some((1100, 1160, 30.0)));
        // Only what is written, where no size is told.
        event(&mut chunks, 0, StreamUpdateKind::FullyAcked);
        event(&mut chunks, 4, hint(Some(2), None));
        assert_eq!(current(&mut chunks, later), None);
        event(&mut chunks, 4, StreamUpdateKind::Written(7));
        assert_eq!(current(&mut chunks, later), Some((7, 7, 0.0)));
    }

    #[test]
    fn a_later_chunk_that_is_done_first_takes_back_what_was_counted_for_others() {
        let now = Instant::now();
        let mut chunks = Chunks::default();
        for stream in 0..2 {
            event(&mut chunks, stream, hint(Some(stream.into()), Some(1000)));
        }
        // In truth they take turns, and the second one is shorter than its hint.
        chunks.on_sent(600);
        chunks.on_contiguous(500);
        assert_eq!(current(&mut chunks, now), Some((400, 500, 0.0)));
        let (second, arrived) = event(&mut chunks, 1, StreamUpdateKind::FullyAcked).unwrap();
        assert!(arrived && second.bytes() == 1000);
        // As much as there is to take back.
        assert_eq!(current(&mut chunks, now), Some((1000, 1000, 0.0)));
        // One that was reset takes nothing back.
        event(&mut chunks, 2, hint(Some(2), Some(1000)));
        chunks.on_sent(600);
        let (_, arrived) = event(&mut chunks, 2, StreamUpdateKind::Reset).unwrap();
        assert!(!arrived);
        assert_eq!(current(&mut chunks, now), Some((400, 1000, 0.0)));
    }

    #[test]
    fn more_chunks_than_there_is_room_for_count_as_none() {
        let mut chunks = Chunks::default();
        let room = chunks.chunks.capacity();
        for stream in 0..2 * CHUNKS as u32 {
            event(&mut chunks, stream, hint(Some(stream.into()), Some(10)));
        }
        assert_eq!(
            (chunks.chunks.len(), chunks.chunks.capacity()),
            (CHUNKS, room)
        );
        // A hint without a number makes no chunk, nor does it end one.
        event(&mut chunks, 0, hint(None, None));
        event(&mut chunks, 999, hint(None, Some(10)));
        assert_eq!(chunks.chunks.len(), CHUNKS);
        event(
            &mut chunks,
            2 * CHUNKS as u32 - 1,
            StreamUpdateKind::Written(10),
        );
        chunks.on_sent(10 * CHUNKS as u64 + 10);
        assert!(chunks.on_contiguous(10 * CHUNKS as u64 + 9).is_none());
        let loose = chunks.on_contiguous(1).unwrap();
        assert_eq!(loose.bytes(), 10);
    }
}
