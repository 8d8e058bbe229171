//! A scheduler that makes random valid requests: any path with room, any kind of data, copies
//! anywhere, waits of any length. It may slow transfers down, but must not harm them.

use std::time::{Duration, Instant};

use mpquic_proto::{StreamId, VarInt};
use mpquic_sched::{
    Context, Data, Decision, PathIndex, PathSet, Scheduler, StreamUpdate, StreamUpdateKind,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) struct Adversary {
    rng: StdRng,
    /// Streams that it has heard of, including finished ones.
    streams: Vec<StreamId>,
    wakeup: Option<Instant>,
}

impl Adversary {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            streams: Vec::new(),
            wakeup: None,
        }
    }

    fn soon(&mut self, now: Instant) -> Instant {
        now + Duration::from_micros(self.rng.random_range(1..200_000))
    }

    fn data(&mut self) -> Data {
        let rng = &mut self.rng;
        match rng.random_range(0..11) {
            0..=3 => Data::Next,
            4 | 5 => match self.streams.len() {
                // A stream that may not exist.
                0 => Data::Stream(StreamId::from(VarInt::from_u32(rng.random_range(0..64)))),
                len => Data::Stream(self.streams[rng.random_range(0..len)]),
            },
            6 | 7 => Data::Ahead(1 << rng.random_range(0..20)),
            8 => Data::Reinject,
            9 => Data::Redundant,
            _ => Data::Control,
        }
    }
}

impl Scheduler for Adversary {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        if self.rng.random_bool(0.02) {
            self.wakeup = Some(self.soon(cx.now));
        }
        let able: Vec<_> = cx.paths.iter().filter(|path| path.can_send).collect();
        if able.is_empty() || self.rng.random_bool(0.1) {
            let until = self.rng.random_bool(0.5).then(|| self.soon(cx.now));
            return Decision::Wait { until };
        }
        let path = able[self.rng.random_range(0..able.len())].index;
        let data = self.data();
        let mut copies = PathSet::EMPTY;
        if self.rng.random_bool(0.2) {
            // Includes slots without a path.
            let slots = 0..cx.paths.len().max(1) + 1;
            let slots = slots.filter(|_| self.rng.random_bool(0.5));
            copies = slots.filter_map(PathIndex::new).collect();
        }
        Decision::Send { path, data, copies }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        if event.kind == StreamUpdateKind::Opened {
            self.streams.push(event.id);
        }
    }

    fn wants_streams(&self) -> bool {
        true
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    fn on_wakeup(&mut self, _: &Context<'_>) {
        self.wakeup = None;
    }
}
