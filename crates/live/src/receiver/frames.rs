//! The frames of a flow: put together from their parts, handed over once whole, given up when they are due.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::{Buffers, MAP, MAX_FRAMES, MAX_READY, ReceiverStats, Verdict};
use crate::rlc::REACH;
use crate::wire::{Body, part_range};

/// What says when a frame is due.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    sent: u64,
    budget: u32,
    /// Nothing is later than this: the arrival of the first part and the budget.
    latest: Instant,
}

/// A frame that is not whole.
#[derive(Debug)]
struct Open {
    key: bool,
    stamp: Stamp,
    length: u32,
    parts: u32,
    data: Vec<u8>,
    /// A bit for each part that is there.
    got: Vec<u64>,
    missing: u32,
    repaired: bool,
}

#[derive(Debug)]
enum Slot {
    /// Nothing of it came.
    Unknown,
    Open(Open),
    /// Handed over.
    Done(Stamp),
}

/// What the application is told next, and the frame's bytes.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) verdict: Verdict,
    pub(super) data: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Frames {
    flow: u32,
    /// The first frame without a verdict.
    base: u64,
    /// When the last frame before `base` was sent, as far as is known.
    base_sent: u64,
    slots: VecDeque<Slot>,
    clock: Clock,
    ready: VecDeque<Ready>,
}

impl Frames {
    /// The most bytes that one takes beside the frames' own. At the limit of verdicts that wait, one datagram may still bring
    /// back as many symbols as there are, push out all slots, and so add as many verdicts.
    pub(super) const MAX_MEMORY: usize = 2 * MAX_FRAMES as usize * (size_of::<Slot>() + MAP / 2)
        + 2 * (MAX_READY + MAX_FRAMES as usize + 3 * REACH) * size_of::<Ready>();

    /// Bytes that it takes beside the frames' own.
    pub(super) fn memory_use(&self) -> usize {
        let maps: usize = self
            .slots
            .iter()
            .map(|slot| match slot {
                Slot::Open(open) => open.got.capacity() * size_of::<u64>(),
                _ => 0,
            })
            .sum();
        maps + self.slots.capacity() * size_of::<Slot>()
            + self.ready.capacity() * size_of::<Ready>()
    }

    pub(super) fn new(flow: u32, now: Instant, sent: u64) -> Self {
        Self {
            flow,
            base: 0,
            base_sent: sent,
            slots: VecDeque::new(),
            clock: Clock::new(now, sent),
            ready: VecDeque::new(),
        }
    }

    /// Whether the application has not taken what is ready.
    pub(super) fn is_clogged(&self) -> bool {
        self.ready.len() >= MAX_READY
    }

    /// A part came, or was brought back.
    pub(super) fn part(
        &mut self,
        now: Instant,
        body: &Body<'_>,
        repaired: bool,
        buffers: &mut Buffers,
        stats: &mut ReceiverStats,
    ) {
        if !repaired {
            self.clock.observe(now, body.sent);
        }
        if body.frame < self.base {
            stats.late += 1;
            return;
        }
        if body.frame - self.base >= MAX_FRAMES {
            self.push_out(body.frame - (MAX_FRAMES - 1), buffers, stats);
        }
        let place = (body.frame - self.base) as usize;
        while self.slots.len() <= place {
            self.slots.push_back(Slot::Unknown);
        }
        let slot = &mut self.slots[place];
        if let Slot::Unknown = slot {
            let Some((data, mut got)) = buffers.take(body.length as usize) else {
                stats.refused += 1;
                return;
            };
            let words = body.parts.div_ceil(64) as usize;
            got.reserve_exact(words);
            got.resize(words, 0);
            *slot = Slot::Open(Open {
                key: body.key,
                stamp: Stamp {
                    sent: body.sent,
                    budget: body.budget,
                    latest: now + Duration::from_millis(u64::from(body.budget)),
                },
                length: body.length,
                parts: body.parts,
                data,
                got,
                missing: body.parts,
                repaired: false,
            });
        }
        let Slot::Open(open) = slot else {
            stats.duplicates += 1;
            return;
        };
        if (open.length, open.parts, open.stamp.sent) != (body.length, body.parts, body.sent) {
            stats.refused += 1;
            return;
        }
        let (word, bit) = (body.part as usize / 64, 1 << (body.part % 64));
        if open.got[word] & bit != 0 {
            stats.duplicates += 1;
            return;
        }
        open.got[word] |= bit;
        let (begin, end) = part_range(open.length, open.parts, body.part);
        open.data[begin..end].copy_from_slice(body.payload);
        open.repaired |= repaired;
        open.missing -= 1;
        if open.missing > 0 {
            return;
        }
        let stamp = open.stamp;
        let Slot::Open(open) = std::mem::replace(slot, Slot::Done(stamp)) else {
            return;
        };
        stats.frames += 1;
        stats.repaired += u64::from(open.repaired);
        buffers.put_map(open.got);
        let verdict = Verdict::Frame {
            flow: self.flow,
            id: body.frame,
            key: open.key,
            repaired: open.repaired,
        };
        self.ready.push_back(Ready {
            verdict,
            data: open.data,
        });
        self.advance(buffers, stats, |_| false);
    }

    /// Gives up what is due.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        buffers: &mut Buffers,
        stats: &mut ReceiverStats,
    ) {
        while self.due().is_some_and(|due| due <= now) && !self.is_clogged() {
            let base = self.base;
            self.advance(buffers, stats, |id| id <= base);
        }
    }

    /// When the first frame without a verdict is due, if any is known to exist.
    pub(super) fn due(&self) -> Option<Instant> {
        let (ahead, next) = self
            .slots
            .iter()
            .enumerate()
            .find_map(|(ahead, slot)| match slot {
                Slot::Unknown => None,
                Slot::Open(Open { stamp, .. }) | Slot::Done(stamp) => Some((ahead as u64, stamp)),
            })?;
        // Of a frame of which nothing came, the time stamp lies between those of its neighbours.
        let between = next.sent.saturating_sub(self.base_sent);
        let sent = next.sent - between / (ahead + 1) * ahead;
        Some(self.clock.due(sent, next.budget).min(next.latest))
    }

    pub(super) fn take(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Whether there is something for the application.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Drops all that is not handed over yet.
    pub(super) fn close(mut self, buffers: &mut Buffers) {
        for slot in self.slots.drain(..) {
            if let Slot::Open(open) = slot {
                buffers.give_up(open.got, open.data);
            }
        }
        for ready in self.ready {
            buffers.drop(ready.data);
        }
    }

    /// A frame beyond the window came: all before `base` is given up, at once.
    fn push_out(&mut self, base: u64, buffers: &mut Buffers, stats: &mut ReceiverStats) {
        let mut first = self.base;
        self.advance_to(base, |frames, id, slot| match slot {
            Slot::Open(open) => buffers.give_up(open.got, open.data),
            Slot::Unknown => {}
            Slot::Done(_) => {
                frames.skipped(first, id, stats);
                first = id + 1;
            }
        });
        // What was never heard of, behind what is remembered.
        self.base = self.base.max(base);
        self.skipped(first, self.base, stats);
    }

    fn skipped(&mut self, first: u64, end: u64, stats: &mut ReceiverStats) {
        let verdict = match end - first {
            0 => return,
            1 => Verdict::Missing {
                flow: self.flow,
                id: first,
            },
            _ => Verdict::Skipped {
                flow: self.flow,
                first,
                last: end - 1,
            },
        };
        stats.missing += end - first;
        self.ready.push_back(Ready {
            verdict,
            data: Vec::new(),
        });
    }

    /// Moves over frames that have their verdict, and gives up those that `give_up` names.
    fn advance(
        &mut self,
        buffers: &mut Buffers,
        stats: &mut ReceiverStats,
        give_up: impl Fn(u64) -> bool,
    ) {
        loop {
            let id = self.base;
            match self.slots.front() {
                Some(Slot::Done(_)) => {}
                Some(_) if give_up(id) => self.skipped(id, id + 1, stats),
                _ => return,
            }
            self.advance_to(id + 1, |_, _, slot| {
                if let Slot::Open(open) = slot {
                    buffers.give_up(open.got, open.data);
                }
            });
        }
    }

    fn advance_to(&mut self, base: u64, mut each: impl FnMut(&mut Self, u64, Slot)) {
        while self.base < base
            && let Some(slot) = self.slots.pop_front()
        {
            let id = self.base;
            self.base += 1;
            if let Slot::Open(Open { stamp, .. }) | Slot::Done(stamp) = &slot {
                self.base_sent = stamp.sent;
            }
            each(self, id, slot);
        }
    }
}
