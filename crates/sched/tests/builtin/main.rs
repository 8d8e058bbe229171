//! The built-in schedulers and the registry, seen from outside the crate.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod properties;
mod registry;
mod streams_waiting;
mod tables;
mod waiting;
mod waiting_properties;

use std::time::{Duration, Instant};

use mpquic_sched::{Context, Decision, PathIndex, PathView, QueueView, Scheduler};

/// An open path with room, with this smoothed RTT in milliseconds; 0 is "no sample".
fn path(slot: usize, rtt: u64) -> PathView {
    let mut view = PathView::closed(PathIndex::new(slot).unwrap());
    view.id = slot as u32;
    view.open = true;
    view.can_send = true;
    view.smoothed_rtt = Duration::from_millis(rtt);
    view
}

/// The same without room.
fn full(slot: usize, rtt: u64) -> PathView {
    let mut view = path(slot, rtt);
    view.can_send = false;
    view
}

/// The slot that the scheduler chooses, `None` if it waits. Nothing but plain packets is expected.
fn ask(scheduler: &mut dyn Scheduler, paths: &[PathView]) -> Option<usize> {
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
fn ask_times(scheduler: &mut dyn Scheduler, paths: &[PathView], times: usize) -> Vec<usize> {
    (0..times)
        .map(|_| ask(scheduler, paths).expect("waits"))
        .collect()
}
