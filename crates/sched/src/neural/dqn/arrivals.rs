//! How many packets were acknowledged in order of late, each path in its own order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Acked, Lost, MAX_PATHS, PathUpdate, PathUpdateKind, Sent};

/// Packets of a path that are followed at a time; of more, the oldest count as lost. The reference follows 5000 in all.
const PACKETS: usize = 4096;

/// A window is counted in so many parts.
const PARTS: u32 = 50;

/// Counts packets that are acknowledged after all packets that left before them on the same path, or once these are
/// acknowledged or lost.
#[derive(Debug)]
pub(super) struct Arrivals {
    paths: [VecDeque<Packet>; MAX_PATHS],
    window: Duration,
    /// How many came in a part of the window, and when it began.
    parts: VecDeque<(Instant, u32)>,
}

/// A packet on its way, or one that waits for those before it.
#[derive(Debug, Clone, Copy)]
struct Packet {
    decision: u64,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Acked,
    Lost,
}

impl Arrivals {
    /// Counts over windows of this length, to a fiftieth of it.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            paths: std::array::from_fn(|_| VecDeque::new()),
            window,
            parts: VecDeque::with_capacity(PARTS as usize + 2),
        }
    }

    /// Those of the last window.
    pub(super) fn recent(&mut self, now: Instant) -> u32 {
        self.forget(now);
        self.parts.iter().map(|(_, count)| count).sum()
    }

    #[inline]
    pub(super) fn on_sent(&mut self, event: &Sent) {
        let path = &mut self.paths[event.path.get()];
        let packet = Packet {
            decision: event.decision,
            fate: Fate::Open,
        };
        // One that was not opened has no room; and none but the newest decision's packet is sought in it.
        if path.capacity() == 0
            || path
                .back()
                .is_some_and(|last| last.decision >= event.decision)
        {
            return;
        }
        if path.len() == PACKETS {
            path.pop_front();
        }
        path.push_back(packet);
    }

    #[inline]
    pub(super) fn on_acked(&mut self, event: &Acked) {
        if let Some(decision) = event.decision {
            self.settle(event.path.get(), decision, Fate::Acked, event.now);
        }
    }

    #[inline]
    pub(super) fn on_lost(&mut self, event: &Lost) {
        if let Some(decision) = event.decision {
            self.settle(event.path.get(), decision, Fate::Lost, event.now);
        }
    }

    pub(super) fn on_path(&mut self, event: &PathUpdate) {
        let path = &mut self.paths[event.path.get()];
        match event.kind {
            PathUpdateKind::Opened if path.capacity() == 0 => path.reserve_exact(PACKETS),
            PathUpdateKind::Abandoned => path.clear(),
            _ => {}
        }
    }

    #[inline]
    fn settle(&mut self, path: usize, decision: u64, fate: Fate, now: Instant) {
        let packets = &mut self.paths[path];
        // Mostly it is the oldest one.
        let place = match packets.front() {
            Some(oldest) if oldest.decision == decision => Ok(0),
            _ => packets.binary_search_by_key(&decision, |packet| packet.decision),
        };
        let Ok(place) = place else {
            return;
        };
        if packets[place].fate == Fate::Open {
            packets[place].fate = fate;
        }
        let mut count = 0;
        while let Some(oldest) = packets.front().filter(|packet| packet.fate != Fate::Open) {
            count += u32::from(oldest.fate == Fate::Acked);
            packets.pop_front();
        }
        if count > 0 {
            self.count(now, count);
        }
    }

    #[inline]
    fn count(&mut self, now: Instant, count: u32) {
        if let Some((since, sum)) = self.parts.back_mut()
            && now.saturating_duration_since(*since) < self.window / PARTS
        {
            *sum += count;
            return;
        }
        self.forget(now);
        self.parts.push_back((now, count));
    }

    fn forget(&mut self, now: Instant) {
        let window = self.window;
        let is_old = |since: Instant| now.saturating_duration_since(since) > window;
        while self.parts.front().is_some_and(|(since, _)| is_old(*since)) {
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathId;
    use crate::PathIndex;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn slot(slot: usize) -> PathIndex {
        PathIndex::new(slot).unwrap()
    }

    struct Fixture {
        arrivals: Arrivals,
        start: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            let start = Instant::now();
            let mut arrivals = Arrivals::new(ms(50));
            for path in 0..2 {
                let opened =
                    PathUpdate::new(slot(path), PathId::ZERO, start, PathUpdateKind::Opened);
                arrivals.on_path(&opened);
            }
            Self { arrivals, start }
        }

        fn sent(&mut self, path: usize, decision: u64) {
            let sent = Sent::new(slot(path), self.start, 1200, decision, false, 1150);
            self.arrivals.on_sent(&sent);
        }

        fn acked(&mut self, path: usize, decision: u64, at: u64) {
            let now = self.start + ms(at);
            let acked = Acked::new(slot(path), now, self.start, 1200, None, Some(decision), 0);
            self.arrivals.on_acked(&acked);
        }

        fn lost(&mut self, path: usize, decision: u64, at: u64) {
            let now = self.start + ms(at);
            let lost = Lost::new(slot(path), now, self.start, 1200, Some(decision));
            self.arrivals.on_lost(&lost);
        }

        fn recent(&mut self, at: u64) -> u32 {
            self.arrivals.recent(self.start + ms(at))
        }
    }

    #[test]
    fn each_path_has_its_own_order() {
        let mut f = Fixture::new();
        for decision in 0..8 {
            f.sent(decision as usize % 2, decision);
        }
        f.acked(0, 2, 10);
        assert_eq!(f.recent(10), 0, "decision 0 comes first");
        f.acked(1, 1, 10);
        assert_eq!(f.recent(10), 1, "whatever path 0 lacks");
        f.acked(0, 0, 11);
        assert_eq!(f.recent(11), 3);
        f.acked(0, 6, 12);
        f.lost(0, 4, 13);
        assert_eq!(f.recent(13), 4, "the lost one holds nothing up, nor counts");
        f.acked(0, 4, 14);
        assert_eq!(f.recent(14), 4, "it comes after all, too late");
        f.acked(1, 99, 14);
        assert_eq!(f.recent(14), 4, "of no packet that was sent");
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut f = Fixture::new();
        for decision in 0..100 {
            f.sent(0, decision);
            f.acked(0, decision, decision);
        }
        // Those at 50 to 99 ms and the one at 49, which is not older than 50.
        assert_eq!(f.recent(99), 51);
        assert_eq!(f.recent(149), 1);
        assert_eq!(f.recent(150), 0);
    }

    #[test]
    fn more_packets_than_there_is_room_for_push_out_the_oldest() {
        let mut f = Fixture::new();
        for decision in 0..PACKETS as u64 + 10 {
            f.sent(0, decision);
        }
        f.acked(0, 5, 0);
        assert_eq!(f.recent(0), 0);
        f.acked(0, 10, 0);
        assert_eq!(f.recent(0), 1);
        assert_eq!(f.arrivals.paths[0].capacity(), PACKETS);
        let abandoned = PathUpdate::new(slot(0), PathId::ZERO, f.start, PathUpdateKind::Abandoned);
        f.arrivals.on_path(&abandoned);
        f.sent(0, 20_000);
        f.acked(0, 20_000, 0);
        assert_eq!(f.recent(0), 2);
    }
}
