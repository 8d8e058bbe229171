//! The streams that are open: their sizes, and how long each took from its first bytes to its end.

use std::time::{Duration, Instant};

use mpquic_sched::{PathIndex, StreamId};

/// Streams that are known of at most, about 1.2 MB of them; of those beyond, the size is not known and no reward comes.
const MOST_STREAMS: usize = 1 << 14;

/// Streams that there is room for from the start.
const USUAL_STREAMS: usize = 128;

/// The open streams.
#[derive(Debug)]
pub(super) struct Ledger {
    /// By stream ID.
    open: Vec<Entry>,
    /// The time told last. Events of streams have none of their own.
    now: Option<Instant>,
    /// How many of them wait for the time of their first bytes.
    undated: usize,
}

#[derive(Debug)]
struct Entry {
    id: StreamId,
    written: u64,
    /// Whether there will be no more.
    finished: bool,
    since: Option<Instant>,
    decided: Option<Decided>,
}

/// What was decided about a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Decided {
    /// The number of the decision.
    pub(super) number: u64,
    /// The path.
    pub(super) path: PathIndex,
    /// The reward, less the completion time.
    pub(super) merit: f64,
}

/// A stream is over.
#[derive(Debug, PartialEq)]
pub(super) struct Over {
    /// What was decided about it, if anything was.
    pub(super) decided: Option<Decided>,
    /// When.
    pub(super) now: Instant,
    /// From its first bytes on.
    pub(super) took: Duration,
    /// Whether no other stream is open.
    pub(super) last: bool,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::with_capacity(USUAL_STREAMS),
            now: None,
            undated: 0,
        }
    }

    /// The time is `now`.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = Some(now);
        if self.undated > 0 {
            for entry in &mut self.open {
                entry.since.get_or_insert(now);
            }
            self.undated = 0;
        }
    }

    /// The application wrote so many bytes to a stream. May allocate, up to the most streams.
    pub(super) fn written(&mut self, id: StreamId, bytes: u64) {
        if let Some(entry) = self.entry(id, MOST_STREAMS) {
            entry.written += bytes;
        }
    }

    /// The application will write no more to it.
    pub(super) fn finished(&mut self, id: StreamId) {
        if let Some(entry) = self.entry(id, MOST_STREAMS) {
            entry.finished = true;
        }
    }

    /// How many bytes a stream has in all, as far as the application has told.
    pub(super) fn size(&self, id: StreamId) -> Option<u64> {
        let entry = &self.open[self.find(id).ok()?];
        entry.finished.then_some(entry.written)
    }

    /// Whether something was decided about a stream that is open.
    pub(super) fn is_decided(&self, id: StreamId) -> bool {
        self.find(id)
            .is_ok_and(|at| self.open[at].decided.is_some())
    }

    /// Something was decided about a stream. Allocates nothing: of a stream that nothing was told of, it is noted only
    /// if there is room. Whether it was.
    pub(super) fn decide(&mut self, id: StreamId, decided: Decided) -> bool {
        let room = self.open.capacity();
        let Some(entry) = self.entry(id, room) else {
            return false;
        };
        entry.decided = Some(decided);
        if let Some(now) = self.now {
            self.at(now);
        }
        true
    }

    /// A stream is over; `None` if it was not known of.
    pub(super) fn close(&mut self, id: StreamId) -> Option<Over> {
        let entry = self.open.remove(self.find(id).ok()?);
        if entry.since.is_none() {
            self.undated -= 1;
        }
        let now = self.now?;
        Some(Over {
            decided: entry.decided,
            now,
            took: now.saturating_duration_since(entry.since.unwrap_or(now)),
            last: self.open.is_empty(),
        })
    }

    /// How many streams are open.
    pub(super) const fn len(&self) -> usize {
        self.open.len()
    }

    fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.open.binary_search_by_key(&id, |entry| entry.id)
    }

    /// A stream's entry, a new one if there are fewer than `most`.
    fn entry(&mut self, id: StreamId, most: usize) -> Option<&mut Entry> {
        let at = match self.find(id) {
            Ok(at) => at,
            Err(_) if self.open.len() >= most => return None,
            Err(at) => {
                let entry = Entry {
                    id,
                    written: 0,
                    finished: false,
                    since: None,
                    decided: None,
                };
                self.open.insert(at, entry);
                self.undated += 1;
                at
            }
        };
        Some(&mut self.open[at])
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched::VarInt;

    use super::*;

    fn id(number: u32) -> StreamId {
        VarInt::from_u32(number).into()
    }

    fn decided(number: u64) -> Decided {
        Decided {
            number,
            path: PathIndex::new(1).unwrap(),
            merit: 0.5,
        }
    }

    #[test]
    fn a_stream_takes_from_the_first_time_told_after_its_first_bytes_to_the_last_before_its_end() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut ledger = Ledger::new();
        ledger.at(start);
        ledger.written(id(4), 100);
        ledger.at(start + ms(5));
        ledger.written(id(4), 100);
        ledger.written(id(0), 1);
        assert_eq!(ledger.size(id(4)), None);
        ledger.finished(id(4));
        assert_eq!(ledger.size(id(4)), Some(200));
        ledger.at(start + ms(7));
        assert!(!ledger.is_decided(id(4)));
        assert!(ledger.decide(id(4), decided(3)));
        assert!(ledger.is_decided(id(4)) && !ledger.is_decided(id(0)));
        ledger.at(start + ms(30));
        let over = ledger.close(id(4)).unwrap();
        assert_eq!(over.decided, Some(decided(3)));
        assert_eq!((over.took, over.now), (ms(25), start + ms(30)));
        assert!(!over.last);
        let over = ledger.close(id(0)).unwrap();
        assert_eq!((over.took, over.decided, over.last), (ms(23), None, true));
        assert_eq!(ledger.close(id(0)), None);
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn a_stream_that_nothing_was_told_of_begins_with_its_decision() {
        let start = Instant::now();
        let mut ledger = Ledger::new();
        ledger.at(start);
        assert!(ledger.decide(id(8), decided(0)));
        ledger.at(start + Duration::from_secs(1));
        let over = ledger.close(id(8)).unwrap();
        assert_eq!(over.took, Duration::from_secs(1));
        // One that ended before any time was told took none.
        ledger.written(id(8), 1);
        let over = ledger.close(id(8)).unwrap();
        assert_eq!(over.took, Duration::ZERO);
        assert_eq!(ledger.undated, 0);
    }

    #[test]
    fn a_flood_of_streams_fills_it_and_no_more() {
        let mut ledger = Ledger::new();
        ledger.at(Instant::now());
        for number in 0..2 * MOST_STREAMS as u32 {
            ledger.written(id(number), 1);
        }
        assert_eq!(ledger.len(), MOST_STREAMS);
        let room = ledger.open.capacity();
        assert!(room <= MOST_STREAMS);
        let beyond = id(MOST_STREAMS as u32);
        assert!(!ledger.decide(beyond, decided(1)));
        assert_eq!((ledger.len(), ledger.open.capacity()), (MOST_STREAMS, room));
        assert_eq!(ledger.close(beyond), None);
    }
}
