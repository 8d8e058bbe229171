//! Where bytes in flight are, and what streams add up to.

use mpquic_sched_core::{PathIndex, PathSet};

/// How often bytes are in flight, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flight {
    /// Packets in flight that carry them.
    pub(super) count: u16,
    /// How many of these on each path, four bits each: probes repeat on their own path.
    flying: u64,
    /// Paths that ever carried them.
    pub(super) carried: PathSet,
}

impl Flight {
    /// In flight once, as the record of that packet tells.
    pub(super) fn once(carried: PathSet) -> Self {
        Self {
            count: 1,
            flying: carried.iter().map(Self::one).sum(),
            carried,
        }
    }

    /// One packet on a path.
    fn one(path: PathIndex) -> u64 {
        1 << (4 * path.get())
    }

    fn flying_on(self, path: PathIndex) -> u64 {
        self.flying >> (4 * path.get()) & 0xf
    }

    pub(super) fn sent(mut self, path: PathIndex) -> Self {
        self.count = self.count.saturating_add(1);
        if self.flying_on(path) < 0xf {
            self.flying += Self::one(path);
        }
        self.carried.insert(path);
        self
    }

    pub(super) fn lost(mut self, path: PathIndex) -> Self {
        self.count = self.count.saturating_sub(1);
        if self.flying_on(path) > 0 {
            self.flying -= Self::one(path);
        }
        // The count decides: paths that ended may have left traces in the records.
        if self.count == 0 {
            self.flying = 0;
        }
        self
    }

    pub(super) fn forget(&mut self, path: PathIndex) {
        self.flying &= !(0xf << (4 * path.get()));
        self.carried.remove(path);
    }

    /// Whether nothing in flight can be counted on.
    pub(super) fn needs_sending(self, suspects: PathSet) -> bool {
        let hopeless: u64 = suspects.iter().map(|p| 0xf << (4 * p.get())).sum();
        self.count == 0 || self.flying & !hopeless == 0
    }

    /// Whether a path may carry them (again).
    pub(super) fn may_go(self, path: PathIndex) -> bool {
        self.flying_on(path) == 0
    }

    /// Whether this is what the absence of a record says too.
    pub(super) fn is_plain(self) -> bool {
        self.count == 1 && self.carried.len() <= 1
    }
}

// Four bits a path must do for all slots.
const _: () = assert!(mpquic_sched_core::MAX_PATHS <= 16);

/// What a stream adds to the sums over all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Bytes (and ends) never sent.
    pub(super) unsent: u64,
    /// Of these, sendable without credit: holes and ends alone.
    pub(super) free: u64,
    /// Bytes to be sent again.
    pub(super) again: u64,
    /// Bytes acknowledged beyond the first that is not.
    pub(super) out_of_order: u64,
    /// Bytes in flight, those to be sent again left out.
    pub(super) in_flight: u64,
    /// Bytes kept.
    pub(super) buffered: u64,
    /// What the stream's window leaves for new data, if it has some or wants to write some; no
    /// more than [`ROOM_CAP`](Self::ROOM_CAP).
    pub(super) room: u64,
    /// Streams whose own window is all that keeps them from having new data.
    pub(super) starved: u64,
}

impl Tally {
    /// Stands for any room beyond: sums over all streams cannot overflow.
    pub(super) const ROOM_CAP: u64 = 1 << 40;

    /// Replaces one stream's share.
    pub(super) fn replace(&mut self, before: &Self, after: &Self) {
        self.unsent = self.unsent - before.unsent + after.unsent;
        self.free = self.free - before.free + after.free;
        self.again = self.again - before.again + after.again;
        self.out_of_order = self.out_of_order - before.out_of_order + after.out_of_order;
        self.in_flight = self.in_flight - before.in_flight + after.in_flight;
        self.buffered = self.buffered - before.buffered + after.buffered;
        self.room = self.room - before.room + after.room;
        self.starved = self.starved - before.starved + after.starved;
    }

    /// Replaces the share of a stream that has new data, and all else in order: it had and has nothing in the other sums,
    /// but that it may have been starved.
    pub(super) fn replace_in_order(
        &mut self,
        totals: &mut Self,
        unsent: u64,
        in_flight: u64,
        buffered: u64,
        room: u64,
    ) {
        totals.unsent = totals.unsent - self.unsent + unsent;
        totals.in_flight = totals.in_flight - self.in_flight + in_flight;
        totals.buffered = totals.buffered - self.buffered + buffered;
        totals.room = totals.room - self.room + room;
        totals.starved -= self.starved;
        *self = Self {
            unsent,
            in_flight,
            buffered,
            room,
            starved: 0,
            ..*self
        };
    }
}

/// What an acknowledgement brought, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AckedBytes {
    /// Acknowledged for the first time.
    pub(crate) newly: u64,
    /// Became contiguous at the receiver: all before them is acknowledged too.
    pub(crate) contiguous: u64,
}
