//! The sending end: handles of flows, and the task that hears of fates and keeps time.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mpquic::sched::memory::{Recall, Store};
use mpquic::{Connection, ConnectionError, PathId, PathStats, PathStatus};
use tokio::sync::Notify;

use super::memory::{self, OWN, Pair};
use super::receiver::now;
use crate::{Config, Flow, FrameInfo, Learned, MAX_PAYLOAD, Outlet, SendError, SenderStats};

/// What a [`LiveSender`] is set up with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LiveConfig {
    /// What it learned is kept there, per pair of paths, for the next connection over the same. Default: nowhere.
    pub memory: Option<Store>,
    /// For what is drawn: nothing but [`Repair::Hedge`](crate::Repair::Hedge).
    pub seed: u64,
}

impl LiveConfig {
    /// The default, with this memory.
    pub fn with_memory(memory: Store) -> Self {
        Self {
            memory: Some(memory),
            ..Self::default()
        }
    }
}

/// Why a frame or a flow is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The peer takes no datagrams, or none that are large enough: it is not configured for them.
    #[error("the peer takes no datagrams of 128 bytes or more")]
    NoDatagrams,
    /// The frame itself.
    #[error(transparent)]
    Frame(#[from] SendError),
    /// The connection is over.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

/// Sends frames over a connection so that they are in time: [`Sender`](crate::Sender) with a task that hears of fates and keeps time.
/// May be cloned; the task ends with the connection, or with the last handle and flow.
///
/// It takes the news of all datagrams with a tag, so that the application has none of its own on this connection; datagrams without
/// one are its own affair. Have [`tune`](crate::tune) set what this side wants of its transport.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../mpquic/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Pair { client: connection, server, .. } = pair().await?;
/// use std::time::Duration;
/// use mpquic_live::{Flow, FrameInfo, Limits, LiveConfig, LiveReceiver, LiveSender, Received};
///
/// let live = LiveSender::new(&connection, LiveConfig::default())?;
/// let camera = live.flow(Flow::new(Duration::from_millis(200)).worth(0.02));
/// camera.send(&[7; 3_000], FrameInfo { key: true })?;
///
/// // At the other end:
/// let mut frames = LiveReceiver::new(&server, Limits::default());
/// match frames.recv().await? {
///     Received::Frame { flow, id, data, .. } => {
///         assert_eq!((flow, id), (camera.id(), 0));
///         assert_eq!(data, [7; 3_000]);
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LiveSender(Arc<Handle>);

/// One flow of a [`LiveSender`]. May be cloned.
#[derive(Debug, Clone)]
pub struct LiveFlow {
    handle: Arc<Handle>,
    id: u32,
}

/// The last one of these ends the task.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.deposit();
        state.abandoned = true;
        drop(state);
        self.0.work.notify_one();
    }
}

#[derive(Debug)]
struct Shared {
    connection: Connection,
    state: Mutex<State>,
    work: Notify,
}

#[derive(Debug)]
struct State {
    outlet: Outlet,
    /// Each flow's part of the memory, by its number.
    memories: Vec<Recall>,
    store: Option<Store>,
    pair: Option<Pair>,
    abandoned: bool,
}

impl LiveSender {
    /// Begins to send over this connection, with a task on its runtime.
    ///
    /// # Errors
    ///
    /// If the connection is over, or its peer takes no datagrams.
    pub fn new(connection: &Connection, config: LiveConfig) -> Result<Self, LiveError> {
        if let Some(error) = connection.close_reason() {
            return Err(error.into());
        }
        let max_datagram = match connection.max_datagram_size() {
            Some(most) if most >= 128 => most.min(MAX_PAYLOAD),
            _ => return Err(LiveError::NoDatagrams),
        };
        let sender = Config {
            max_datagram,
            seed: config.seed,
        };
        let shared = Arc::new(Shared {
            connection: connection.clone(),
            state: Mutex::new(State {
                outlet: Outlet::new(sender, now()),
                memories: Vec::new(),
                store: config.memory,
                pair: None,
                abandoned: false,
            }),
            work: Notify::new(),
        });
        connection.runtime().spawn(run(Arc::clone(&shared)));
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// Begins a flow. It goes on from what an earlier one with this deadline and price has learned over the same paths, if there is
    /// a [memory](LiveConfig::memory).
    pub fn flow(&self, flow: Flow) -> LiveFlow {
        let shared = &self.0.0;
        let mut state = shared.lock();
        let id = state.outlet.sender().flow(now(), flow);
        let recall = state
            .store
            .as_ref()
            .map_or_else(Recall::none, |store| memory::recall_of(store, &flow));
        if let Some(learned) = state.pair.and_then(|pair| memory::recall(&recall, pair)) {
            state.outlet.sender().go_on_from(id, &learned);
        }
        state.memories.push(recall);
        LiveFlow {
            handle: Arc::clone(&self.0),
            id,
        }
    }

    /// What it has done.
    pub fn stats(&self) -> SenderStats {
        self.0.0.lock().outlet.sender().stats()
    }
}

impl LiveFlow {
    /// Its number, which the receiver is told.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Sends a frame. Never waits: what cannot be sent in time is dropped later, and counted. Returns its number.
    ///
    /// # Errors
    ///
    /// If the frame is too long, or the connection is over.
    pub fn send(&self, frame: &[u8], info: FrameInfo) -> Result<u64, LiveError> {
        let shared = &self.handle.0;
        if let Some(error) = shared.connection.close_reason() {
            return Err(error.into());
        }
        let now = now();
        let mut state = shared.lock();
        shared.look(&mut state, now);
        let id = state.outlet.sender().send(now, self.id, frame, info)?;
        shared.transmit(&mut state, now);
        drop(state);
        // When to look again has changed.
        shared.work.notify_one();
        Ok(id)
    }

    /// How many bytes per second an encoder may make for this flow; `None` while no path says what it can carry.
    pub fn target_rate(&self) -> Option<u64> {
        let mut state = self.handle.0.lock();
        state.outlet.sender().target_rate(now(), self.id)
    }

    /// The rate of repair of the last frame: repair packets for each source packet.
    pub fn repair_rate(&self) -> f64 {
        let mut state = self.handle.0.lock();
        state.outlet.sender().repair_rate(self.id).unwrap_or(0.0)
    }

    /// What it has learned; `None` if it does not learn by replay.
    pub fn learned(&self) -> Option<Learned> {
        self.handle.0.lock().outlet.sender().learned(self.id)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears what the transport has to say.
    fn look(&self, state: &mut State, now: Instant) {
        while let Some(news) = self.connection.try_datagram_fate() {
            state.outlet.fate(now, &news);
        }
        let paths: Vec<(PathId, PathStatus, PathStats)> = self
            .connection
            .paths()
            .iter()
            .filter_map(|path| Some((path.id(), path.status().ok()?, path.stats().ok()?)))
            .collect();
        if state.store.is_some() {
            let measured: Vec<_> = paths.iter().map(|(id, _, stats)| (*id, *stats)).collect();
            state.follow(Pair::of(&self.connection, &measured));
        }
        state.outlet.set_paths(paths);
    }

    /// Hands over what is to be sent.
    fn transmit(&self, state: &mut State, now: Instant) {
        while let Some((datagram, options)) = state.outlet.poll_transmit(now) {
            let tag = state.outlet.last_tag();
            let sent = self.connection.send_datagram_with(datagram, options);
            if sent.is_err() {
                state.outlet.refused(now, tag);
            }
        }
    }
}

impl State {
    /// The pair of paths may be another one.
    fn follow(&mut self, pair: Option<Pair>) {
        if pair.is_none() || pair == self.pair {
            return;
        }
        self.deposit();
        self.pair = pair;
        let Some(pair) = pair else { return };
        for (flow, recall) in (0_u32..).zip(&self.memories) {
            let own = self.outlet.sender().learned(flow);
            if own.is_some_and(|own| own.frames() < OWN)
                && let Some(learned) = memory::recall(recall, pair)
            {
                self.outlet.sender().go_on_from(flow, &learned);
            }
        }
    }

    /// Keeps what the flows have learned of these paths.
    fn deposit(&mut self) {
        let Some(pair) = self.pair else { return };
        for (flow, recall) in (0_u32..).zip(&self.memories) {
            if let Some(learned) = self.outlet.sender().learned(flow)
                && learned.frames() >= OWN
            {
                memory::remember(recall, pair, &learned);
            }
        }
    }
}

async fn run(shared: Arc<Shared>) {
    loop {
        let due = {
            let mut state = shared.lock();
            if state.abandoned || shared.connection.close_reason().is_some() {
                state.deposit();
                return;
            }
            let now = now();
            shared.look(&mut state, now);
            shared.transmit(&mut state, now);
            state.outlet.sender().poll_timeout(now)
        };
        let due = async {
            match due {
                // The clock of timers counts whole milliseconds.
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            news = shared.connection.datagram_fate() => {
                if let Ok(news) = news {
                    shared.lock().outlet.fate(now(), &news);
                }
            }
            () = shared.work.notified() => {}
            () = due => {}
        }
    }
}
