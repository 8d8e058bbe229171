//! What may be sent twice, over all that sends anything twice, and what was, by its cause; decides nothing.

use crate::CopyStats;

/// Why stream data is sent once more although nobody takes it for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Copying {
    /// The scheduler asked for it, for a reason of its own.
    #[default]
    Asked,
    Deadline,
    Probe,
    Least,
    Late,
    Tail,
}

/// The connection's purse for copies: so many bytes in any case, and a part of all stream bytes that were sent for the first time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purse {
    bytes: u64,
    percent: u8,
    /// Stream bytes that no packet carried before.
    sent: u64,
    /// Bytes of copies that come out of it.
    spent: u64,
    /// Of these, what is in the packet that is being written.
    written: u64,
    /// Why.
    cause: Copying,
    pub(crate) copies: CopyStats,
}

impl Purse {
    pub(crate) fn new((bytes, percent): (u64, u8)) -> Self {
        Self {
            bytes,
            percent,
            sent: 0,
            spent: 0,
            written: 0,
            cause: Copying::Asked,
            copies: CopyStats::default(),
        }
    }

    /// What is left, bytes.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        let part = (self.sent / 100).saturating_mul(u64::from(self.percent));
        let all = self.bytes.saturating_add(part);
        all.saturating_sub(self.spent).saturating_sub(self.written)
    }

    /// What is left for the ends of transfers. `reserve`: the scheduler copies what is late out of it, too, and an eighth of the bytes
    /// that there are in any case is left to that: a path that goes dark does so when many ends were copied already.
    pub(crate) fn left_for_tails(&self, reserve: bool) -> u64 {
        let reserved = if reserve { self.bytes / 8 } else { 0 };
        self.left().saturating_sub(reserved)
    }

    /// A packet left with so many stream bytes that none carried before.
    #[inline]
    pub(crate) fn on_sent(&mut self, new_bytes: u64) {
        self.sent = self.sent.saturating_add(new_bytes);
        self.written = 0;
    }

    /// So many bytes of copies are in a packet that is being written.
    pub(crate) fn on_written(&mut self, bytes: u64, cause: Copying) {
        self.cause = cause;
        self.written = self.written.saturating_add(bytes);
    }

    /// A packet left with so many bytes of copies; `free`: they do not come out of the purse.
    #[cold]
    pub(crate) fn on_copied(&mut self, bytes: u64, free: bool) {
        let cause = std::mem::take(&mut self.cause);
        self.written = 0;
        if !free {
            self.spent = self.spent.saturating_add(bytes);
        }
        let copies = &mut self.copies;
        let counter = match cause {
            Copying::Asked => &mut copies.asked,
            Copying::Deadline => &mut copies.deadlines,
            Copying::Probe => &mut copies.probes,
            Copying::Least => &mut copies.least,
            Copying::Late => &mut copies.late,
            Copying::Tail => &mut copies.tails,
        };
        *counter = counter.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_grows_with_what_is_sent_and_falls_with_copies() {
        let mut purse = Purse::new((1000, 5));
        assert_eq!(purse.left(), 1000);
        purse.on_sent(10_000);
        assert_eq!(purse.left(), 1500);
        assert_eq!(
            [false, true].map(|reserve| purse.left_for_tails(reserve)),
            [1500, 1375]
        );
        // A packet with copies is being written, and leaves.
        purse.on_written(600, Copying::Probe);
        assert_eq!(purse.left(), 900);
        purse.on_copied(500, false);
        assert_eq!((purse.left(), purse.copies.probes), (1000, 500));
        // Copies that do not come out of it count all the same.
        purse.on_written(700, Copying::Asked);
        purse.on_copied(700, true);
        assert_eq!((purse.left(), purse.copies.asked), (1000, 700));
        // A packet with copies that came to nothing.
        purse.on_written(800, Copying::Tail);
        purse.on_sent(0);
        assert_eq!(purse.left(), 1000);
        purse.on_written(u64::MAX, Copying::Tail);
        purse.on_copied(u64::MAX, false);
        purse.on_sent(u64::MAX);
        assert_eq!((purse.left(), purse.copies.tails), (0, u64::MAX));
    }
}
