//! The thread that empties the rings into the file; the hot side never waits for it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use rtrb::Consumer;

use super::codec;
use super::recorder::{Shared, Written};
use super::ring::LENGTH;
use super::segment::{About, Segments};
use super::tally::Tally;

/// How long records lie in a ring. Telling this thread that there are some would be a system call on the hot path: it
/// looks for itself instead, as long as there are connections.
const PERIOD: Duration = Duration::from_millis(10);

/// A connection that is recorded, as the writer has it.
pub(super) struct Live {
    pub(super) connection: u64,
    pub(super) schema: Arc<str>,
    pub(super) ring: Consumer<u8>,
    pub(super) tally: Arc<Tally>,
    pub(super) introduced: Option<u64>,
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) segments: Segments,
    pub(super) live: Vec<Live>,
    pub(super) payload: Vec<u8>,
    pub(super) written: Written,
}

impl Writer {
    /// Writes until told to stop, or until nothing more can be written.
    pub(super) fn run(mut self) {
        loop {
            // Before the rings are looked at: what was in them when somebody asked is written when they are answered.
            let stop = self.shared.stop.load(Ordering::Acquire);
            let asked = {
                let mut desk = self.shared.lock();
                self.live.append(&mut desk.opened);
                desk.asked
            };
            let result = self.pass(stop);
            let failed = result.is_err();
            {
                let mut desk = self.shared.lock();
                desk.answered = asked;
                desk.written = self.written;
                if let Err(error) = result {
                    desk.failed = Some(error);
                }
                self.shared.answer.notify_all();
            }
            if stop || failed {
                break;
            }
            if self.live.is_empty() {
                // A new connection, a question and the end each wake it.
                thread::park();
            } else {
                thread::park_timeout(PERIOD);
            }
        }
    }

    /// What is in the rings now, and how those went that have ended.
    fn pass(&mut self, stop: bool) -> io::Result<()> {
        let mut index = 0;
        while let Some(live) = self.live.get_mut(index) {
            // In this order: what it wrote last is in the ring when it is seen to be gone.
            let gone = live.ring.is_abandoned();
            let records = live.drain(&mut self.segments, &mut self.payload)?;
            self.written.records += records;
            if !gone && !stop {
                index += 1;
                continue;
            }
            let outcome = live.tally.outcome(!gone);
            let payload = codec::ended(live.connection, &outcome);
            self.segments.put(live.about(), &payload)?;
            self.written.dropped += outcome.dropped;
            self.written.connections += 1;
            self.live.swap_remove(index);
        }
        self.segments.flush()
    }
}

impl Drop for Writer {
    /// Whoever records on sees that nobody reads, and counts; whoever waits for an answer gets one, also after a panic.
    fn drop(&mut self) {
        let mut desk = self.shared.lock();
        desk.opened.clear();
        desk.failed
            .get_or_insert_with(|| io::Error::other("the thread that writes has ended"));
        self.shared.answer.notify_all();
    }
}

impl Live {
    const fn about(&mut self) -> About<'_> {
        About {
            connection: self.connection,
            schema: &self.schema,
            introduced: &mut self.introduced,
        }
    }

    /// Moves what is in the ring now; not what comes meanwhile, so that one connection does not keep the others waiting.
    fn drain(&mut self, segments: &mut Segments, payload: &mut Vec<u8>) -> io::Result<u64> {
        let mut left = self.ring.slots();
        let mut records = 0;
        while left > 0 {
            let mut length = [0; LENGTH];
            let whole = self.ring.pop_entire_slice(&mut length).is_ok();
            payload.resize(usize::from(u16::from_le_bytes(length)), 0);
            // Records enter a ring whole.
            if !whole || self.ring.pop_entire_slice(payload).is_err() {
                break;
            }
            left = left.saturating_sub(LENGTH + payload.len());
            segments.put(self.about(), payload)?;
            records += 1;
        }
        Ok(records)
    }
}

impl Shared {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, super::recorder::Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
