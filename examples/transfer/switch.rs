//! A scheduler that can be replaced during a connection. A connection gets its scheduler before the
//! server knows the client's request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mpquic::sched::{
    Acked, Context, Decision, Learned, Lost, PathUpdate, PathUpdateKind, Scheduler, Sent,
    StreamUpdate, StreamUpdateKind,
};

/// A handle that replaces a connection's scheduler from outside.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<SlotInner>);

#[derive(Default)]
struct SlotInner {
    /// With this flag, a decision costs one load on the hot path, and takes no lock.
    filled: AtomicBool,
    next: Mutex<Option<Box<dyn Scheduler>>>,
}

impl Slot {
    /// Replaces the scheduler before the next decision or event.
    pub(crate) fn put(&self, scheduler: Box<dyn Scheduler>) {
        let mut next = self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = Some(scheduler);
        self.0.filled.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Box<dyn Scheduler>> {
        if !self.0.filled.load(Ordering::Acquire) {
            return None;
        }
        let mut next = self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.filled.store(false, Ordering::Relaxed);
        next.take()
    }
}

/// Forwards everything to the current scheduler.
pub(crate) struct Switchable {
    current: Box<dyn Scheduler>,
    slot: Slot,
    /// The events that a new scheduler must get for existing paths.
    paths: Vec<PathUpdate>,
    /// The events that it must get for existing streams.
    streams: Vec<StreamUpdate>,
}

impl Switchable {
    /// Starts with `first`. A scheduler in `slot` replaces it.
    pub(crate) const fn new(first: Box<dyn Scheduler>, slot: Slot) -> Self {
        Self {
            current: first,
            slot,
            paths: Vec::new(),
            streams: Vec::new(),
        }
    }

    fn current(&mut self) -> &mut dyn Scheduler {
        if let Some(mut next) = self.slot.take() {
            for event in &self.paths {
                next.on_path(event);
            }
            for event in &self.streams {
                next.on_stream(event);
            }
            self.current = next;
        }
        &mut *self.current
    }
}

impl Scheduler for Switchable {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.current().decide(cx)
    }

    fn on_sent(&mut self, event: &Sent) {
        self.current().on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.current().on_acked(event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.current().on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.current().on_path(event);
        // An event replaces an earlier one of the same kind, so there are only a few per path.
        let over = event.kind == PathUpdateKind::Abandoned;
        let kind = std::mem::discriminant(&event.kind);
        self.paths.retain(|known| {
            known.path != event.path || !over && std::mem::discriminant(&known.kind) != kind
        });
        match event.kind {
            PathUpdateKind::Opened | PathUpdateKind::Validated | PathUpdateKind::Status(_) => {
                self.paths.push(*event);
            }
            // Transient states, which a path's view shows as well.
            _ => {}
        }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.current().on_stream(event);
        match event.kind {
            StreamUpdateKind::Opened => self.streams.push(*event),
            StreamUpdateKind::FullyAcked | StreamUpdateKind::Reset => {
                self.streams.retain(|known| known.id != event.id);
            }
            _ => {}
        }
    }

    fn wants_streams(&self) -> bool {
        self.current.wants_streams()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.current.next_wakeup()
    }

    fn on_wakeup(&mut self, cx: &Context<'_>) {
        self.current().on_wakeup(cx);
    }

    fn learned(&self) -> Option<Learned> {
        self.current.learned()
    }
}

#[cfg(test)]
mod tests {
    use mpquic::sched::{PathIndex, PathStatus, StreamId};

    use super::*;

    /// Records the events that it receives.
    struct Spy(Arc<Mutex<Vec<String>>>);

    impl Spy {
        fn pair() -> (Box<Self>, Arc<Mutex<Vec<String>>>) {
            let notes = Arc::default();
            (Box::new(Self(Arc::clone(&notes))), notes)
        }

        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl Scheduler for Spy {
        fn decide(&mut self, _: &Context<'_>) -> Decision {
            self.note("decide".into());
            Decision::Wait { until: None }
        }

        fn on_path(&mut self, event: &PathUpdate) {
            self.note(format!("{} {:?}", event.path.get(), event.kind));
        }

        fn on_stream(&mut self, event: &StreamUpdate) {
            self.note(format!("{} {:?}", event.id, event.kind));
        }
    }

    #[test]
    fn a_new_scheduler_hears_what_still_holds() {
        let now = Instant::now();
        let path = |slot: usize, kind| {
            PathUpdate::new(
                PathIndex::new(slot).unwrap(),
                mpquic::PathId(slot as u32),
                now,
                kind,
            )
        };
        let stream = |id: u64, kind| {
            StreamUpdate::new(StreamId::from(mpquic::VarInt::try_from(id).unwrap()), kind)
        };
        let ((first, first_notes), (second, second_notes)) = (Spy::pair(), Spy::pair());
        let slot = Slot::default();
        let mut switch = Switchable::new(first, slot.clone());
        for event in [
            path(0, PathUpdateKind::Opened),
            path(0, PathUpdateKind::Validated),
            path(1, PathUpdateKind::Opened),
            path(0, PathUpdateKind::Status(PathStatus::Backup)),
            path(0, PathUpdateKind::Suspect),
            path(0, PathUpdateKind::Status(PathStatus::Available)),
            path(1, PathUpdateKind::Abandoned),
            path(2, PathUpdateKind::Opened),
        ] {
            switch.on_path(&event);
        }
        switch.on_stream(&stream(0, StreamUpdateKind::Opened));
        switch.on_stream(&stream(4, StreamUpdateKind::Opened));
        switch.on_stream(&stream(0, StreamUpdateKind::FullyAcked));
        assert_eq!(first_notes.lock().unwrap().len(), 11);

        slot.put(second);
        let queue = mpquic::sched::QueueView::default();
        switch.decide(&Context::new(now, &[], &queue, 0));
        assert_eq!(first_notes.lock().unwrap().len(), 11);
        let notes = second_notes.lock().unwrap();
        assert_eq!(
            notes[..],
            [
                "0 Opened",
                "0 Validated",
                "0 Status(Available)",
                "2 Opened",
                "client bidirectional stream 1 Opened",
                "decide",
            ]
        );
    }
}
