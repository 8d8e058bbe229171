//! A connection for a scheduler to be recorded in.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Acked, Context, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView, QueueView, Scheduler,
    Sent,
};

/// A fast path that fills and empties, a slow one with room, everything acknowledged later, in order.
pub(crate) fn drive(scheduler: &mut dyn Scheduler, start: Instant) {
    let mut paths = [0, 1].map(|slot| {
        let mut view = PathView::closed(PathIndex::new(slot).unwrap());
        (view.open, view.cwnd) = (true, 100_000);
        view.smoothed_rtt = Duration::from_millis(20 + 30 * slot as u64);
        view.pto = view.smoothed_rtt * 3;
        let opened = PathUpdateKind::Opened;
        scheduler.on_path(&PathUpdate::new(view.index, PathId::ZERO, start, opened));
        view
    });
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20, 1 << 20);
    for number in 0..3000_u64 {
        let now = start + Duration::from_micros(500 * number);
        (paths[0].can_send, paths[1].can_send) = (number % 3 == 0, true);
        paths[0].in_flight = 90_000 + number * 7919 % 10_000;
        let cx = Context::new(now, &paths, &queue, number);
        let decision = scheduler.decide(&cx);
        if let mpquic_sched::Decision::Send { path, .. } = decision {
            scheduler.on_sent(&Sent::new(path, now, 1452, number, false, 1400));
            let sent = now;
            let now = now + Duration::from_micros(100);
            scheduler.on_acked(&Acked::new(path, now, sent, 1452, None, Some(number), 1400));
        }
    }
}
