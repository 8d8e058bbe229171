//! Which stream IDs are open, used, or still to be had, per direction.

use mpquic_sched_core::StreamId;

use super::range_map::RangeMap;

/// The most streams there can be of one type (RFC 9000 section 4.6).
pub(super) const MAX_STREAMS: u64 = 1 << 60;

/// Streams of one direction that we open.
#[derive(Debug, Default)]
pub(super) struct LocalIds {
    /// The index of the next one.
    pub(super) next: u64,
    /// The peer's limit.
    pub(super) limit: u64,
    /// An open was refused: Available is owed.
    pub(super) wanted: bool,
    /// The limit that STREAMS_BLOCKED was sent for.
    pub(super) told_blocked_at: Option<u64>,
}

impl LocalIds {
    /// STREAMS_BLOCKED is due: once per limit (RFC 9000 section 4.6).
    pub(super) fn is_blocked_due(&self) -> bool {
        self.wanted && self.told_blocked_at != Some(self.limit)
    }
}

/// Streams of one direction that the peer opens.
#[derive(Debug)]
pub(super) struct RemoteIds {
    /// One past the highest index that the peer used.
    opened: u64,
    /// The index of the next one to be accepted.
    accepted: u64,
    /// Opened only by the use of a higher index (RFC 9000 section 2.1); they have no state yet.
    untouched: RangeMap<()>,
    /// How many may be open at a time.
    concurrent: u64,
    /// Closed in both directions.
    closed: u64,
    /// The limit that the peer was told.
    announced: u64,
    /// A new limit is worth a frame. Asked with each packet, so it is worked out where what it rests on changes.
    due: bool,
    /// A frame with the limit was lost.
    lost: bool,
}

/// What a peer's use of a stream ID means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The stream, and perhaps some before it, came to be.
    New,
    /// It exists, untouched so far.
    First,
    /// It was used before, and may be over.
    Known,
    /// Beyond the limit.
    Forbidden,
}

impl RemoteIds {
    pub(super) fn new(concurrent: u64) -> Self {
        let concurrent = concurrent.min(MAX_STREAMS);
        Self {
            opened: 0,
            accepted: 0,
            untouched: RangeMap::default(),
            concurrent,
            closed: 0,
            announced: concurrent,
            due: false,
            lost: false,
        }
    }

    /// The peer uses the stream with this index.
    pub(super) fn on_use(&mut self, id: StreamId) -> Use {
        let index = id.index();
        if index >= self.announced {
            return Use::Forbidden;
        }
        if index >= self.opened {
            //= specs/rfc9000.txt#section-3.2
            //# Before a stream is created, all streams of the same type with lower- numbered stream
            //# IDs MUST be created.
            self.untouched.insert(self.opened, index, ());
            self.opened = index + 1;
            self.due |= self.is_worth_a_frame();
            return Use::New;
        }
        self.touch(index)
    }

    fn touch(&mut self, index: u64) -> Use {
        if self.untouched.probe(index).0.is_none() {
            return Use::Known;
        }
        self.untouched.remove(index, index + 1);
        Use::First
    }

    /// The next stream for the application, and whether it must be made first.
    pub(super) fn accept(&mut self) -> Option<(u64, bool)> {
        if self.accepted >= self.opened {
            return None;
        }
        let index = self.accepted;
        self.accepted += 1;
        Some((index, self.touch(index) == Use::First))
    }

    /// How many are open, and may be.
    pub(super) fn open(&self) -> (u64, u64) {
        (self.opened - self.closed, self.concurrent)
    }

    pub(super) fn has_unaccepted(&self) -> bool {
        self.accepted < self.opened
    }

    /// So many may be open at a time from now on; what the peer was promised stays so.
    pub(super) fn set_concurrent(&mut self, concurrent: u64) {
        self.concurrent = concurrent.min(MAX_STREAMS);
        self.due = self.is_worth_a_frame();
    }

    /// One is over in both directions: there may be another.
    pub(super) fn on_closed(&mut self) {
        self.closed += 1;
        self.due |= self.is_worth_a_frame();
    }

    fn target(&self) -> u64 {
        self.closed.saturating_add(self.concurrent).min(MAX_STREAMS)
    }

    /// Whether a new limit is to be announced.
    pub(super) const fn is_due(&self) -> bool {
        self.due || self.lost
    }

    /// An announcement was lost.
    pub(super) const fn announce_again(&mut self) {
        self.lost = true;
    }

    /// Whether an eighth of the concurrency has come back, or the peer has no more than that left.
    fn is_worth_a_frame(&self) -> bool {
        // Negative where the application lowered the concurrency: what was promised stays so.
        let news = self.target().saturating_sub(self.announced);
        let step = (self.concurrent / 8).max(1);
        //= specs/rfc9000.txt#section-4.6
        //# An endpoint MUST NOT wait to receive this signal before advertising additional credit,
        //# since doing so will mean that the peer will be blocked for at least an entire round
        //# trip, and potentially indefinitely if the peer chooses not to send STREAMS_BLOCKED
        //# frames.
        news > 0 && (news >= step || self.announced - self.opened < step)
    }

    /// The limit for a frame that is being written.
    pub(super) fn announce(&mut self) -> u64 {
        (self.due, self.lost) = (false, false);
        // A smaller limit would have no effect (RFC 9000 section 4.6).
        self.announced = self.announced.max(self.target());
        self.announced
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::{Dir, Side};
    use proptest::prelude::*;

    use super::*;

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, index)
    }

    proptest! {
        /// What is kept of it says what is to be announced.
        #[test]
        fn an_announcement_is_due_when_it_is_worth_a_frame(
            concurrent in 0_u64..40,
            ops in prop::collection::vec((0_u8..5, 0_u64..60), 0..60),
        ) {
            let mut ids = RemoteIds::new(concurrent);
            let mut lost = false;
            for (op, index) in ops {
                match op {
                    0 => {
                        ids.on_use(id(index));
                    }
                    1 if ids.open().0 > 0 => ids.on_closed(),
                    2 if ids.is_due() => {
                        ids.announce();
                        lost = false;
                    }
                    3 => {
                        ids.announce_again();
                        lost = true;
                    }
                    4 => ids.set_concurrent(index),
                    _ => {}
                }
                prop_assert_eq!(ids.is_due(), lost || ids.is_worth_a_frame());
            }
        }
    }

    #[test]
    fn a_new_concurrency_raises_the_limit_and_never_takes_it_back() {
        let mut ids = RemoteIds::new(4);
        ids.set_concurrent(10);
        assert!(ids.is_due());
        assert_eq!(ids.announce(), 10);
        ids.set_concurrent(2);
        assert!(!ids.is_due());
        assert_eq!(ids.on_use(id(9)), Use::New);
        // Nothing new until fewer than two are open.
        for _ in 0..8 {
            ids.on_closed();
            assert!(!ids.is_due());
        }
        ids.on_closed();
        assert!(ids.is_due());
        assert_eq!(ids.announce(), 11);
        ids.announce_again();
        ids.set_concurrent(0);
        assert_eq!(ids.announce(), 11);
    }

    #[test]
    fn implicit_opens_cost_nothing_until_used() {
        let mut ids = RemoteIds::new(1 << 60);
        assert_eq!(ids.on_use(id((1 << 60) - 1)), Use::New);
        assert_eq!(ids.untouched.iter().count(), 1);
        assert_eq!(ids.accept(), Some((0, true)));
        assert_eq!(ids.on_use(id(0)), Use::Known);
        assert_eq!(ids.on_use(id(7)), Use::First);
        assert_eq!(ids.on_use(id(7)), Use::Known);
    }

    //= specs/rfc9000.txt#section-4.6
    //= type=test
    //# An endpoint MUST NOT wait to receive this signal before advertising additional credit, since
    //# doing so will mean that the peer will be blocked for at least an entire round trip, and
    //# potentially indefinitely if the peer chooses not to send STREAMS_BLOCKED frames.
    #[test]
    fn credit_returns_in_steps_or_when_short() {
        let mut ids = RemoteIds::new(16);
        assert_eq!(ids.on_use(id(16)), Use::Forbidden);
        ids.on_use(id(3));
        ids.on_closed();
        assert!(!ids.is_due());
        ids.on_closed();
        assert!(ids.is_due());
        assert_eq!(ids.announce(), 18);
        ids.on_use(id(17));
        assert!(!ids.is_due());
        ids.on_closed();
        assert!(ids.is_due());
        assert_eq!(ids.announce(), 19);
    }
}
