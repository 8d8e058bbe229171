//! Helpers for the whole-stack tests: seeds in parallel, a record of what was sent, scripted schedulers.
#![allow(dead_code, reason = "each test binary uses its part of it")]

pub(crate) mod real;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::{
    Event, NumberSpace, Observer, PacketSent, PathId, Side, StreamPiece, TransportConfig,
};
use mpquic_sched::{
    Acked, Context, Decision, Lost, PathIndex, PathUpdate, Scheduler, Sent, StreamUpdate,
};
use mpquic_sim::{App, AppContext, AppError, TransferClient};

pub(crate) const MEGABYTE: u64 = 1_000_000;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How many seeds run at a time.
const WORKERS: usize = 2;

/// Runs a test for each seed, several at a time. Returns the results in the order of the seeds. If
/// seeds fail, it still runs all of them and then reports the failed ones.
pub(crate) fn for_seeds<R: Send>(
    seeds: std::ops::Range<u64>,
    test: impl Fn(u64) -> R + Sync,
) -> Vec<R> {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new(Vec::new());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| test(seed))) {
                        Ok(result) => results.lock().unwrap().push((seed, result)),
                        Err(_) => {
                            println!("failed with seed {seed}");
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort_unstable();
    assert!(failed.is_empty(), "failed with seeds {failed:?}");
    let mut results = results.into_inner().unwrap();
    results.sort_unstable_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}

/// These seeds. `SEEDS=77` selects one seed with full output, `SEEDS=1000..9000` any others.
pub(crate) fn seeds_or(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let asked = std::env::var("SEEDS").unwrap_or_default();
    let (from, to) = match asked.split_once("..") {
        Some((from, to)) => (from.parse().ok(), to.parse().ok()),
        None => (asked.parse().ok(), None),
    };
    match (from, to) {
        (Some(from), Some(to)) => from..to,
        (Some(seed), None) => seed..seed + 1,
        (None, _) => usual,
    }
}

/// A fifth of these seeds, each day another one: all within five days. `EVERY_SEED=1` selects all of them, as `.ci/run` does,
/// and `SEEDS` any others, as in [`seeds_or`].
pub(crate) fn seeds_of_today(all: std::ops::Range<u64>) -> std::ops::Range<u64> {
    const PARTS: u64 = 5;
    if std::env::var_os("EVERY_SEED").is_some() {
        return seeds_or(all);
    }
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let day = since_1970.as_secs() / 86_400;
    let share = (all.end - all.start).div_ceil(PARTS);
    let from = all.start + day % PARTS * share;
    let today = from..all.end.min(from + share);
    println!("seeds {today:?} of {all:?} today");
    seeds_or(today)
}

/// Appends each seed's trace hash to the file in `TRACE_HASHES`, if set. To verify a change that
/// must not alter behaviour, compare the hashes from before and after.
pub(crate) fn keep_hashes(test: &str, hashes: impl IntoIterator<Item = (u64, u128)>) {
    let Some(path) = std::env::var_os("TRACE_HASHES") else {
        return;
    };
    let mut lines = String::new();
    for (seed, hash) in hashes {
        lines.push_str(&format!("{test} {seed} {hash:032x}\n"));
    }
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path);
    file.and_then(|mut file| file.write_all(lines.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

pub(crate) fn median<T: Ord + Copy>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// A packet on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) now: Instant,
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) decision: Option<u64>,
    pub(crate) data: Vec<StreamPiece>,
}

/// What one side sent in 1-RTT packets, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Record>>>);

impl Recorder {
    /// Records what connections with this configuration send.
    pub(crate) fn attach(&self, config: &mut TransportConfig, side: Side) {
        let recorder = self.clone();
        config.observer(move |of| {
            (of == side).then(|| Box::new(recorder.clone()) as Box<dyn Observer>)
        });
    }

    pub(crate) fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Recorder {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        if let NumberSpace::Path(path) = packet.space {
            self.0.lock().unwrap().push(Record {
                now: packet.now,
                path,
                number: packet.number,
                decision: packet.decision,
                data: packet.stream_data().collect(),
            });
        }
    }
}

/// What a scheduler was told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) acked: Vec<Acked>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) paths: Vec<PathUpdate>,
    pub(crate) streams: Vec<StreamUpdate>,
    pub(crate) sent: Vec<Sent>,
}

type Decide = Box<dyn FnMut(&Context<'_>, &Told) -> Decision + Send>;

/// A scheduler that follows a function, and records what it is told.
pub(crate) struct Script {
    decide: Decide,
    told: Arc<Mutex<Told>>,
}

impl Script {
    /// Makes `decide` the scheduler of all connections with this configuration on this side, with no copies but those that it
    /// asks for. Returns what the scheduler is told.
    pub(crate) fn attach<D>(
        config: &mut TransportConfig,
        make: impl Fn() -> D + Send + Sync + 'static,
    ) -> Arc<Mutex<Told>>
    where
        D: FnMut(&Context<'_>, &Told) -> Decision + Send + 'static,
    {
        let told = Arc::new(Mutex::new(Told::default()));
        let shared = Arc::clone(&told);
        config.tail_copies(false);
        config.scheduler(move || {
            Box::new(Self {
                decide: Box::new(make()),
                told: Arc::clone(&shared),
            })
        });
        told
    }
}

impl Scheduler for Script {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        (self.decide)(cx, &self.told.lock().unwrap())
    }

    fn on_sent(&mut self, event: &Sent) {
        self.told.lock().unwrap().sent.push(*event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.told.lock().unwrap().acked.push(*event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.told.lock().unwrap().lost.push(*event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.told.lock().unwrap().paths.push(*event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.told.lock().unwrap().streams.push(*event);
    }
}

pub(crate) fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

/// Whether the path in this slot has room now.
pub(crate) fn has_room(cx: &Context<'_>, index: usize) -> bool {
    cx.path(slot(index)).is_some_and(|path| path.can_send)
}

/// A client that starts its transfers at a given time, when all paths are open.
pub(crate) struct Later {
    begin: Option<Duration>,
    inner: TransferClient,
}

impl Later {
    pub(crate) fn new(begin: Duration, inner: TransferClient) -> Self {
        Self {
            begin: Some(begin),
            inner,
        }
    }

    pub(crate) fn inner(&self) -> &TransferClient {
        &self.inner
    }
}

impl App for Later {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match (event, self.begin) {
            (Event::Connected, Some(_)) => Ok(()),
            _ => self.inner.on_event(cx, event),
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.begin
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.begin = None;
        self.inner.on_event(cx, &Event::Connected)
    }

    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }
}
