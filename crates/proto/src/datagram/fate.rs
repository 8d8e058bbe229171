//! What became of datagrams that carry a tag: which of them wait, are in flight or were lost lately, and what the
//! application is still to be told. It neither sends nor judges losses.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Instant;

use crate::PathId;
use crate::limits::{MAX_DATAGRAM_FATES, MAX_LOST_DATAGRAMS};
use crate::sent_frame::Tag;

/// Something that happened to a datagram with a tag. Of [`Datagrams::fate`](crate::Datagrams::fate).
///
/// ```
/// use std::collections::HashMap;
///
/// use mpquic_proto::{Connection, Fate};
///
/// /// Takes those out of `waiting` that need no repair, and returns the tags of those that do.
/// fn settle(connection: &mut Connection, waiting: &mut HashMap<u64, Vec<u8>>) -> Vec<u64> {
///     let mut repair = Vec::new();
///     while let Some(news) = connection.datagrams().fate() {
///         match news.fate {
///             Fate::Acknowledged { .. } => drop(waiting.remove(&news.tag)),
///             Fate::Lost { .. } => repair.push(news.tag),
///             _ => {}
///         }
///     }
///     repair
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramFate {
    /// The tag that the application gave it ([`DatagramOptions::tag`](crate::DatagramOptions::tag)).
    pub tag: u64,
    /// What happened.
    pub fate: Fate,
}

/// What happened to a datagram.
///
/// [`Sent`](Self::Sent) comes once for each copy that leaves. All others are final: each datagram has one of them, whatever the
/// number of its copies. The first acknowledgement of a copy decides. Without one, it is what became of the copy that was the
/// last to be settled. One thing can follow: an acknowledgement of a copy that was declared lost too early. Of a path that has ended,
/// none is heard any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// A packet with it left.
    Sent {
        /// The path that it went on.
        path: PathId,
        /// When.
        at: Instant,
    },
    /// The peer has it: its transport does, which may still drop it if its application reads too slowly.
    Acknowledged {
        /// The path that the copy went on that was acknowledged first.
        path: PathId,
        /// When that copy left.
        sent: Instant,
        /// When the acknowledgement came.
        at: Instant,
        /// It was given up before: reported as [`Lost`](Self::Lost), or as [`Unsent`](Self::Unsent) for its last copy.
        after_loss: bool,
    },
    /// No copy of it is in flight any more, and none was acknowledged: the last one was declared lost, or its path ended.
    Lost {
        /// The path that the last copy went on.
        path: PathId,
        /// When that copy left.
        sent: Instant,
        /// When it was declared lost.
        at: Instant,
    },
    /// It was dropped before it left; if there are several copies, the last of them, and those that left were lost.
    Unsent {
        /// Why.
        why: Unsendable,
    },
    /// The connection ended while it was in flight: nobody knows.
    Undecided,
}

/// Why a datagram was dropped before it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsendable {
    /// Its deadline passed.
    Expired,
    /// The path that alone may carry it ended.
    PathEnded,
    /// The buffer was full, and newer ones took its place.
    Displaced,
    /// No packet is large enough any more.
    TooLarge,
    /// The server rejected early data.
    EarlyDataRejected,
    /// The connection ended.
    Closed,
}

/// What was said of a datagram's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Lost,
    /// Or it needs to be said no more.
    Acknowledged,
}

/// A datagram that is followed. Its place is free once it has no copies.
#[derive(Debug)]
struct Entry {
    tag: u64,
    /// Copies that wait to be sent.
    waiting: u16,
    /// Copies in flight.
    flying: u16,
    /// Copies that were lost and are remembered.
    lost: u16,
    told: Told,
    was_sent: bool,
}

/// A copy that was declared lost, by the number of its packet.
#[derive(Debug)]
struct LostCopy {
    number: u64,
    tag: Tag,
    sent: Instant,
}

/// The copies lost lately on a path, in the order of their packets.
#[derive(Debug)]
struct LostOnPath {
    path: PathId,
    copies: VecDeque<LostCopy>,
}

/// The datagrams that are followed. A connection without any has no such thing.
#[derive(Debug, Default)]
pub(super) struct Fates {
    entries: Vec<Entry>,
    /// Places of entries that are free.
    free: Vec<Tag>,
    lost: Vec<LostOnPath>,
    news: VecDeque<DatagramFate>,
    /// News that the application did not take in time.
    dropped: u64,
    /// The application knows that there are news.
    announced: bool,
    /// The connection is over.
    ended: bool,
}

impl Fates {
    /// A datagram is queued, so many times. `None` if it will not leave.
    pub(super) fn follow(&mut self, tag: u64, copies: usize) -> Option<Tag> {
        if self.ended {
            let why = Unsendable::Closed;
            self.tell(tag, Fate::Unsent { why });
            return None;
        }
        if copies == 0 {
            let why = Unsendable::PathEnded;
            self.tell(tag, Fate::Unsent { why });
            return None;
        }
        let entry = Entry {
            tag,
            waiting: copies as u16,
            flying: 0,
            lost: 0,
            told: Told::Nothing,
            was_sent: false,
        };
        if let Some(place) = self.free.pop() {
            *self.entry(place)? = entry;
            return Some(place);
        }
        let place = Tag::new(self.entries.len())?;
        self.entries.push(entry);
        Some(place)
    }

    fn entry(&mut self, tag: Tag) -> Option<&mut Entry> {
        self.entries.get_mut(tag.place())
    }

    /// A copy left.
    pub(super) fn on_sent(&mut self, tag: Tag, path: PathId, at: Instant) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        entry.waiting -= 1;
        entry.flying += 1;
        entry.was_sent = true;
        let tag = entry.tag;
        self.tell(tag, Fate::Sent { path, at });
    }

    /// A copy was dropped before it left.
    pub(super) fn on_unsent(&mut self, tag: Tag, why: Unsendable) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        entry.waiting -= 1;
        let last = entry.waiting == 0 && entry.flying == 0;
        if last && entry.told == Told::Nothing {
            // An acknowledgement of a copy that was lost before can still follow.
            entry.told = Told::Lost;
            let tag = entry.tag;
            self.tell(tag, Fate::Unsent { why });
        }
        self.release(tag);
    }

    /// A copy was acknowledged.
    pub(super) fn on_acked(&mut self, tag: Tag, path: PathId, sent: Instant, at: Instant) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        entry.flying -= 1;
        self.on_arrived(tag, path, sent, at);
        self.release(tag);
    }

    fn on_arrived(&mut self, tag: Tag, path: PathId, sent: Instant, at: Instant) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        let told = std::mem::replace(&mut entry.told, Told::Acknowledged);
        if told == Told::Acknowledged {
            return;
        }
        let tag = entry.tag;
        let after_loss = told == Told::Lost;
        self.tell(
            tag,
            Fate::Acknowledged {
                path,
                sent,
                at,
                after_loss,
            },
        );
    }

    /// A copy was declared lost in the packet with this number; `None` if nothing will be heard of that packet.
    pub(super) fn on_lost(
        &mut self,
        tag: Tag,
        path: PathId,
        number: Option<u64>,
        sent: Instant,
        at: Instant,
    ) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        entry.flying -= 1;
        let open = entry.told != Told::Acknowledged;
        if let Some(number) = number.filter(|_| open) {
            entry.lost += 1;
            self.remember(path, LostCopy { number, tag, sent });
        }
        let Some(entry) = self.entry(tag) else {
            return;
        };
        let last = entry.waiting == 0 && entry.flying == 0;
        if last && entry.told == Told::Nothing {
            entry.told = Told::Lost;
            let tag = entry.tag;
            self.tell(tag, Fate::Lost { path, sent, at });
        }
        self.release(tag);
    }

    fn remember(&mut self, path: PathId, copy: LostCopy) {
        let place = self.lost.iter().position(|lost| lost.path == path);
        let place = place.unwrap_or_else(|| {
            self.lost.push(LostOnPath {
                path,
                copies: VecDeque::new(),
            });
            self.lost.len() - 1
        });
        let copies = &mut self.lost[place].copies;
        debug_assert!(
            copies
                .back()
                .is_none_or(|newest| newest.number <= copy.number)
        );
        let oldest = match copies.len() {
            MAX_LOST_DATAGRAMS => copies.pop_front(),
            _ => None,
        };
        copies.push_back(copy);
        if let Some(oldest) = oldest {
            self.forget_lost(oldest.tag);
        }
    }

    fn forget_lost(&mut self, tag: Tag) {
        if let Some(entry) = self.entry(tag) {
            entry.lost -= 1;
            self.release(tag);
        }
    }

    /// Packets of a path were acknowledged, perhaps not for the first time: `blocks` are their numbers, descending.
    pub(super) fn on_late_ack(
        &mut self,
        path: PathId,
        blocks: impl Iterator<Item = RangeInclusive<u64>>,
        at: Instant,
    ) {
        let Some(place) = self.lost.iter().position(|lost| lost.path == path) else {
            return;
        };
        for block in blocks {
            let (low, high) = block.into_inner();
            let copies = &self.lost[place].copies;
            let (Some(oldest), Some(newest)) = (copies.front(), copies.back()) else {
                return;
            };
            if high < oldest.number {
                return;
            }
            if low <= newest.number {
                self.on_late_block(place, path, low, high, at);
            }
        }
    }

    #[inline(never)]
    fn on_late_block(&mut self, place: usize, path: PathId, low: u64, high: u64, at: Instant) {
        loop {
            let copies = &mut self.lost[place].copies;
            let first = copies.partition_point(|copy| copy.number < low);
            if copies.get(first).is_none_or(|copy| copy.number > high) {
                return;
            }
            let Some(copy) = copies.remove(first) else {
                return;
            };
            self.on_arrived(copy.tag, path, copy.sent, at);
            self.forget_lost(copy.tag);
        }
    }

    /// A path ended: nothing more will be heard of its packets.
    pub(super) fn forget_path(&mut self, path: PathId) {
        let Some(place) = self.lost.iter().position(|lost| lost.path == path) else {
            return;
        };
        for copy in self.lost.swap_remove(place).copies {
            self.forget_lost(copy.tag);
        }
    }

    /// The connection is over: those without an end get one.
    pub(super) fn end(&mut self) {
        self.ended = true;
        for entry in std::mem::take(&mut self.entries) {
            let followed = entry.waiting > 0 || entry.flying > 0;
            if !followed || entry.told != Told::Nothing {
                continue;
            }
            let why = Unsendable::Closed;
            self.tell(
                entry.tag,
                match entry.was_sent {
                    true => Fate::Undecided,
                    false => Fate::Unsent { why },
                },
            );
        }
        self.free = Vec::new();
        self.lost = Vec::new();
    }

    /// Frees the place of a datagram of which nothing more can be said.
    fn release(&mut self, tag: Tag) {
        let Some(entry) = self.entry(tag) else {
            return;
        };
        if entry.waiting == 0 && entry.flying == 0 && entry.lost == 0 {
            self.free.push(tag);
        }
    }

    fn tell(&mut self, tag: u64, fate: Fate) {
        if self.news.len() == MAX_DATAGRAM_FATES {
            self.news.pop_front();
            self.dropped += 1;
        }
        self.news.push_back(DatagramFate { tag, fate });
    }

    /// The oldest news.
    pub(super) fn next(&mut self) -> Option<DatagramFate> {
        let news = self.news.pop_front();
        self.announced &= !self.news.is_empty();
        news
    }

    /// True once after there were none, when there are news.
    pub(super) fn poll_news(&mut self) -> bool {
        let first = !self.announced && !self.news.is_empty();
        self.announced |= first;
        first
    }

    /// News that the application did not take in time.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The connection is at rest, so that nothing more will be heard of what was lost: gives back memory that is kept to be
    /// used again. Whether nothing is left.
    pub(super) fn shrink(&mut self) -> bool {
        let rests = |entry: &Entry| entry.waiting == 0 && entry.flying == 0;
        if self.entries.iter().all(rests) {
            self.entries = Vec::new();
            self.free = Vec::new();
            self.lost = Vec::new();
        }
        self.news.shrink_to_fit();
        self.entries.is_empty() && self.news.is_empty() && self.dropped == 0 && !self.ended
    }

    /// How many news wait, and how many lost copies are remembered on the path with most of them.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let lost = self.lost.iter().map(|lost| lost.copies.len()).max();
        (self.news.len(), lost.unwrap_or(0))
    }
}

#[cfg(test)]
#[path = "fate_tests.rs"]
mod tests;
