//! Stream-based minRTT: each stream stays on the path that was the fastest at its first bytes; splits none.

use serde::{Deserialize, Serialize};

use crate::ranking::{Fastest, comes_back, rank, usable};
use crate::{
    Acked, Context, Data, Decision, Lost, MAX_PATHS, PathEvent, PathEventKind, PathIndex, PathSet,
    PathView, Scheduler, Sent, StreamEvent, StreamEventKind, StreamId, StreamView, gap,
};

/// Streams that are bound at most. More than any peer allows at a time; a transport that failed to
/// tell the end of streams would not make it leak.
const MAX_BINDINGS: usize = 1 << 14;

/// Streams that are remembered for having had nothing for their path.
const MAX_IDLE: usize = 8;

/// Binds each stream to one path, when its first bytes are sent.
///
/// **Rule.** A stream that gets its first bytes is bound to the path of [`Context::sendable`] with
/// the smallest smoothed RTT, ranked as by [`MinRtt`](crate::MinRtt); with `fewest_streams`, to
/// the fastest of those paths that have the fewest streams bound to them. All that the stream sends
/// goes there, retransmissions too, until it is acknowledged in full. Streams are bound and served
/// by descending priority, and by turns among equals, on each path for itself: one whose path
/// is full is passed over. Control frames and datagrams go first, on the fastest path. Nothing is
/// bound while one path is open. When the path of a stream closes, falls into trouble or gives way
/// to paths of a better [standing](PathView::standing), the stream is bound again, as if these were
/// its first bytes. No path has room, or none has anything to send: wait for the next event.
///
/// Two things are not up to a scheduler: the transport's loss probes may carry a stream's data on
/// any path, and beyond the first [`MAX_STREAM_VIEWS`](crate::MAX_STREAM_VIEWS) streams that wait,
/// one has to wait until it comes into view.
///
/// **Source.** Kanakis, "SAILfish" (MSc thesis, 2020), section 5.2.3, from the code base of FStream,
/// where `fewest_streams` is the fallback variant in the same file; which of the two the thesis
/// measured is not known. Ours: binding again, as no failure is foreseen there. How much load
/// is bound to a path does not count, so that a burst of requests all goes to the fastest one.
///
/// **Cost.** Two walks over the slots, and one over the streams that wait, each with a binary
/// search among the streams that are not acknowledged; 16 bytes of state for each of these.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{
///     Context, Data, Decision, PathIndex, PathView, QueueView, Scheduler, StreamId, StreamMinRtt,
///     StreamView,
/// };
///
/// let view = |slot, rtt| {
///     let mut view = PathView::closed(PathIndex::new(slot).unwrap());
///     (view.open, view.can_send, view.in_flight) = (true, true, 12_000);
///     view.smoothed_rtt = Duration::from_millis(rtt);
///     view
/// };
/// let mut paths = [view(0, 40), view(1, 15)];
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (20_000, 1_000_000);
/// let id = |index| StreamId::from(quinn_proto::VarInt::from_u32(index));
/// let streams = [StreamView::new(id(0), 0, 10_000), StreamView::new(id(4), 0, 10_000)];
///
/// let mut scheduler = StreamMinRtt::default();
/// let mut decide = |paths: &[PathView], streams: &[StreamView]| {
///     let cx = Context::new(Instant::now(), paths, &queue, 0).with_streams(streams);
///     match scheduler.decide(&cx) {
///         Decision::Send { path, data, .. } => Some((path.get(), data)),
///         Decision::Wait { .. } => None,
///     }
/// };
/// assert_eq!(decide(&paths, &streams), Some((1, Data::Stream(id(0)))));
///
/// paths[1].can_send = false; // the second stream's first bytes find the fast path full
/// assert_eq!(decide(&paths, &streams), Some((0, Data::Stream(id(4)))));
///
/// paths[1].can_send = true;
/// paths[0].can_send = false; // it stays where it is
/// assert_eq!(decide(&paths, &streams[1..]), None);
/// ```
#[derive(Debug, Clone)]
pub struct StreamMinRtt {
    config: StreamMinRttConfig,
    /// By stream ID; each stream at most once.
    bindings: Vec<(StreamId, PathIndex)>,
    /// How many streams are bound to each path.
    bound: [u32; MAX_PATHS],
    /// The decision made last, until its packet has left.
    asked: Option<(u64, StreamView)>,
    /// Streams that had nothing for their path, as they were then; the newest of them, in a ring.
    idle: [Option<StreamView>; MAX_IDLE],
    /// How many there have been.
    idles: usize,
}

/// Settings of [`StreamMinRtt`].
///
/// ```
/// use mpquic_sched::StreamMinRttConfig;
///
/// let config: StreamMinRttConfig = serde_json::from_str(r#"{"fewest_streams": true}"#)?;
/// assert!(config.fewest_streams && !StreamMinRttConfig::default().fewest_streams);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamMinRttConfig {
    /// Whether paths with fewer streams bound to them come before faster ones. Default false.
    pub fewest_streams: bool,
}

impl StreamMinRtt {
    /// A scheduler with these settings.
    pub fn new(config: &StreamMinRttConfig) -> Self {
        Self {
            config: config.clone(),
            // More streams than this make it grow, once.
            bindings: Vec::with_capacity(128),
            bound: [0; MAX_PATHS],
            asked: None,
            idle: [None; MAX_IDLE],
            idles: 0,
        }
    }

    fn binding(&self, id: StreamId) -> Result<usize, usize> {
        self.bindings.binary_search_by_key(&id, |binding| binding.0)
    }

    fn bind(&mut self, id: StreamId, path: PathIndex) {
        if let Ok(at) = self.binding(id) {
            self.bound[self.bindings[at].1.get()] -= 1;
            self.bindings[at].1 = path;
        } else {
            if let Some(&(oldest, _)) = self.bindings.first()
                && self.bindings.len() == MAX_BINDINGS
            {
                self.unbind(oldest);
            }
            let at = self.binding(id).unwrap_or_else(|at| at);
            self.bindings.insert(at, (id, path));
        }
        self.bound[path.get()] += 1;
    }

    fn unbind(&mut self, id: StreamId) {
        if let Ok(at) = self.binding(id) {
            let (_, path) = self.bindings.remove(at);
            self.bound[path.get()] -= 1;
        }
    }

    /// The path for a stream that is bound to none.
    fn choose<'a>(&self, cx: &Context<'a>) -> Option<&'a PathView> {
        let load = |path: &PathView| {
            if self.config.fewest_streams {
                self.bound[path.index.get()]
            } else {
                0
            }
        };
        usable(cx)
            .filter(|path| path.can_send)
            .min_by_key(|path| (load(path), rank(path)))
    }

    /// The decision made last came to nothing: its stream is left out until it has changed.
    fn note_idle(&mut self, decision: u64) {
        if let Some((asked, stream)) = self.asked.take()
            && asked != decision
        {
            self.idle[self.idles % MAX_IDLE] = Some(stream);
            self.idles += 1;
        }
    }

    /// Something happened by which a stream may have something for its path again.
    fn forget_idle(&mut self) {
        self.asked = None;
        if self.idles > 0 {
            self.idle = [None; MAX_IDLE];
            self.idles = 0;
        }
    }
}

impl Default for StreamMinRtt {
    fn default() -> Self {
        Self::new(&StreamMinRttConfig::default())
    }
}

impl Scheduler for StreamMinRtt {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.note_idle(cx.decision);
        let Some(Fastest {
            sendable: Some(fastest),
            ..
        }) = Fastest::of(cx)
        else {
            return Decision::Wait { until: None };
        };
        let (mut open, mut able) = (PathSet::EMPTY, PathSet::EMPTY);
        // Nothing stays bound to a path that will not have room again by itself.
        for path in usable(cx).filter(|path| comes_back(path)) {
            open.insert(path.index);
            if path.can_send {
                able.insert(path.index);
            }
        }
        let nothing = cx.queue.unsent == 0 && cx.queue.retransmittable == 0;
        if nothing || cx.streams.is_empty() || cx.open().nth(1).is_none() {
            return Decision::send(fastest.index);
        }
        if cx.queue.control {
            return gap::send(fastest.index, Data::Control);
        }
        // What is to be sent again is late already; then new data, in the transport's order.
        for again in [true, false] {
            for stream in cx.streams {
                if again != (stream.retransmittable > 0) || self.idle.contains(&Some(*stream)) {
                    continue;
                }
                let bound = self.binding(stream.id).ok().map(|at| self.bindings[at].1);
                let path = match bound.filter(|path| open.contains(*path)) {
                    Some(path) if able.contains(path) => path,
                    Some(_) => continue,
                    None => {
                        let Some(path) = self.choose(cx) else {
                            return Decision::Wait { until: None };
                        };
                        self.bind(stream.id, path.index);
                        path.index
                    }
                };
                self.asked = Some((cx.decision, *stream));
                return gap::send(path, Data::Stream(stream.id));
            }
        }
        Decision::Wait { until: None }
    }

    fn on_sent(&mut self, event: &Sent) {
        self.asked.take_if(|asked| asked.0 == event.decision);
    }

    fn on_path(&mut self, event: &PathEvent) {
        if event.kind == PathEventKind::Abandoned {
            self.bindings.retain(|binding| binding.1 != event.path);
            self.bound[event.path.get()] = 0;
        }
        self.forget_idle();
    }

    fn on_acked(&mut self, _event: &Acked) {
        self.forget_idle();
    }

    fn on_lost(&mut self, _event: &Lost) {
        self.forget_idle();
    }

    fn on_stream(&mut self, event: &StreamEvent) {
        if matches!(
            event.kind,
            StreamEventKind::FullyAcked | StreamEventKind::Reset
        ) {
            self.unbind(event.id);
        }
    }

    fn wants_streams(&self) -> bool {
        true
    }
}
