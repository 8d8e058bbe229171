//! The sink of a live connection: a bounded ring to the thread that writes. Never waits; counts what does not fit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;

use rtrb::Producer;

use crate::record::{Record, Timed};
use crate::recorder::Sink;
use crate::writer::Shared;

pub(crate) struct Ring {
    producer: Producer<Timed>,
    /// Slots that are free at least.
    free: usize,
    /// Records that were left out since the last one that fitted.
    left_out: u64,
    /// The thread was woken, since the ring was filling up.
    hurried: bool,
    thread: Thread,
    shared: Arc<Shared>,
}

impl Ring {
    pub(crate) fn new(producer: Producer<Timed>, thread: Thread, shared: Arc<Shared>) -> Self {
        Self {
            free: 0,
            left_out: 0,
            hurried: false,
            producer,
            thread,
            shared,
        }
    }

    /// Looks how much is free. Wakes the thread once when half of the ring is used.
    fn look(&mut self) {
        self.free = self.producer.slots();
        let filling = self.free < self.producer.buffer().capacity() / 2;
        if filling && !self.hurried {
            self.thread.unpark();
        }
        self.hurried = filling;
    }

    fn push(&mut self, timed: Timed) {
        // There is room: `free` never says more than there is.
        if self.producer.push(timed).is_ok() {
            self.free -= 1;
        }
    }
}

impl Sink for Ring {
    #[inline]
    fn put(&mut self, records: &mut Vec<Timed>) {
        let needed = records.len() + usize::from(self.left_out > 0);
        if self.free < needed + self.producer.buffer().capacity() / 2 {
            self.look();
        }
        if self.free < needed {
            self.left_out += records.len() as u64;
            let all = &self.shared.left_out;
            all.fetch_add(records.len() as u64, Ordering::Relaxed);
            return;
        }
        if self.left_out > 0
            && let Some(at) = records.first().map(|timed| timed.at)
        {
            let record = Record::LeftOut(std::mem::take(&mut self.left_out));
            self.push(Timed { at, record });
        }
        for timed in records.drain(..) {
            self.push(timed);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The last records are written at once, not at the thread's next look.
        self.thread.unpark();
    }
}
