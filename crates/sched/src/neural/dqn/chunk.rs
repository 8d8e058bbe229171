//! Which chunks are in transfer and how far each one is; rewards nothing.

use std::collections::VecDeque;
use std::time::Instant;

use super::state::Progress;
use crate::{QueueView, StreamEvent, StreamEventKind, StreamId};

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

    pub(super) fn progress(&self, now: Instant) -> Progress {
        Progress {
            unsent: self.unsent(),
            unacked: self.bytes().saturating_sub(self.contiguous),
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
    pub(super) fn on_stream(&mut self, event: &StreamEvent) -> Option<(Chunk, bool)> {
        let place = self
            .chunks
            .iter()
            .position(|chunk| chunk.stream == Some(event.id));
        match (event.kind, place) {
            (StreamEventKind::Hint(hints), Some(place)) => {
                let chunk = &mut self.chunks[place];
                chunk.size = hints.size.or(chunk.size);
            }
            (StreamEventKind::Hint(hints), None)
                if hints.chunk.is_some() && self.chunks.len() < CHUNKS =>
            {
                self.chunks.push_back(Chunk {
                    stream: Some(event.id),
                    size: hints.size,
                    ..Chunk::default()
                });
                (self.undated, self.changed) = (true, true);
            }
            (StreamEventKind::Written(bytes), place) => {
                let chunk = match place {
                    Some(place) => &mut self.chunks[place],
                    None => &mut self.loose,
                };
                chunk.written += bytes;
                self.undated |= chunk.begun.is_none();
                self.changed |= chunk.asked.is_none();
            }
            (StreamEventKind::FullyAcked, Some(place)) => {
                return self.remove(place).map(|chunk| (chunk, true));
            }
            (StreamEventKind::Reset, Some(place)) => {
                return self.remove(place).map(|chunk| (chunk, false));
            }
            (StreamEventKind::Reset, None) => self.uncertain |= self.loose.written > 0,
            _ => {}
        }
        None
    }

    fn remove(&mut self, place: usize) -> Option<Chunk> {
        let chunk = self.chunks.remove(place)?;
        self.changed = true;
        // What it had too little of was counted for those before it.
        let (mut sent, mut contiguous) = (chunk.unsent(), chunk.bytes() - chunk.contiguous);
        for before in self.chunks.range_mut(..place) {
            let part = contiguous.min(before.contiguous);
            before.contiguous -= part;
            contiguous -= part;
            let part = sent.min(before.sent - before.contiguous);
            before.sent -= part;
            sent -= part;
        }
        Some(chunk)
    }
}
