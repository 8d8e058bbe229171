//! Views of paths and queues, and a scheduler that is asked as a transport asks it.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Context, Data, Decision, PathIndex, PathSet, PathView, QueueView, Scheduler, Sent, StreamView,
};

/// An open path with room, with this smoothed RTT in milliseconds; 0 is "no sample".
pub(crate) fn path(slot: usize, rtt: u64) -> PathView {
    PathView::of(slot, Duration::from_millis(rtt))
}

/// The same without room.
pub(crate) fn full(slot: usize, rtt: u64) -> PathView {
    let mut view = path(slot, rtt);
    view.can_send = false;
    view
}

/// The slot that the scheduler chooses, `None` if it waits. Nothing but plain packets is expected.
pub(crate) fn ask(scheduler: &mut dyn Scheduler, paths: &[PathView]) -> Option<usize> {
    let queue = QueueView::default();
    match scheduler.decide(&Context::new(Instant::now(), paths, &queue, 0)) {
        Decision::Wait { until } => {
            assert_eq!(until, None);
            None
        }
        decision @ Decision::Send { path, .. } => {
            assert_eq!(decision, Decision::send(path));
            Some(path.get())
        }
    }
}

/// The slots of so many decisions in a row.
pub(crate) fn ask_times(
    scheduler: &mut dyn Scheduler,
    paths: &[PathView],
    times: usize,
) -> Vec<usize> {
    (0..times)
        .map(|_| ask(scheduler, paths).expect("waits"))
        .collect()
}

/// Stream data in a packet of [`path`]'s, bytes: its MTU less what the schedulers take for overhead.
pub(crate) const PACKET: u64 = 1200;

/// A path with a window of so many packets, of which so many are in flight; full if all are.
pub(crate) fn loaded(slot: usize, rtt: u64, window: u64, in_flight: u64) -> PathView {
    let mut view = path(slot, rtt);
    view.mtu = 1235;
    view.cwnd = window * 1235;
    view.in_flight = in_flight * 1235;
    view.can_send = in_flight < window;
    view.pto = Duration::from_millis(2 * rtt + 25);
    view.latest_rtt = view.smoothed_rtt;
    view.min_rtt = view.smoothed_rtt;
    view
}

/// So many bytes to send, all of them allowed by the connection's window.
pub(crate) fn unsent(bytes: u64) -> QueueView {
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left) = (bytes, u64::MAX);
    queue
}

/// A scheduler that is asked as a transport asks it: decisions are numbered, and what it sends
/// leaves.
pub(crate) struct Asked<S> {
    pub(crate) scheduler: S,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    pub(crate) number: u64,
}

impl<S: Scheduler> Asked<S> {
    pub(crate) fn new(scheduler: S) -> Self {
        let start = Instant::now();
        Self {
            scheduler,
            start,
            now: start,
            number: 0,
        }
    }

    /// The time is so many milliseconds after the start from now on.
    pub(crate) fn at(&mut self, ms: u64) -> &mut Self {
        self.now = self.start + Duration::from_millis(ms);
        self
    }

    pub(crate) fn decide(
        &mut self,
        paths: &[PathView],
        queue: &QueueView,
        streams: &[StreamView],
    ) -> Decision {
        let cx = Context::new(self.now, paths, queue, self.number).with_streams(streams);
        let decision = self.scheduler.decide(&cx);
        self.number += 1;
        decision
    }

    /// The packet of the decision made last left.
    pub(crate) fn sent(&mut self, path: PathIndex, retransmission: bool) {
        let sent = Sent::new(path, self.now, 1235, self.number - 1, retransmission, 1200);
        self.scheduler.on_sent(&sent);
    }

    /// Path and kind of data of the next packet, which leaves; `None` for a wait.
    pub(crate) fn next(&mut self, paths: &[PathView], queue: &QueueView) -> Option<(usize, Data)> {
        self.next_of(paths, queue, &[])
    }

    pub(crate) fn next_of(
        &mut self,
        paths: &[PathView],
        queue: &QueueView,
        streams: &[StreamView],
    ) -> Option<(usize, Data)> {
        let decision = self.decide(paths, queue, streams);
        let Decision::Send { path, data, copies } = decision else {
            return None;
        };
        assert_eq!(copies, PathSet::EMPTY);
        self.sent(path, false);
        Some((path.get(), data))
    }

    /// Until when it waits, milliseconds after the start.
    #[track_caller]
    pub(crate) fn waits(&mut self, paths: &[PathView], queue: &QueueView) -> Option<u128> {
        match self.decide(paths, queue, &[]) {
            Decision::Wait { until } => until.map(|until| (until - self.start).as_millis()),
            decision => panic!("{decision:?}"),
        }
    }
}
