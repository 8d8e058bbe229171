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
/// the smallest smoothed RTT, ranked as by [`MinRtt`](crate::MinRtt); a path that only its pacer
/// holds back counts as one of them. With `fewest_streams`, it is bound to the fastest of those of
/// them that have the fewest streams bound to them. All that the stream sends goes there,
/// retransmissions too, until it is acknowledged in full. Streams are bound and served by descending
/// priority, and by turns among equals, on each path for itself: one whose path is full is passed
/// over. Control frames and datagrams go first, on the fastest path. Nothing is
/// bound while one path is open: a stream that has begun by the time a second one opens is
/// bound to the fastest path, with room or without. When the path of a stream ends, the stream is
/// bound again, as if these were its first bytes. While it is in trouble, or gives way to paths of a
/// better [standing](PathView::standing), the stream makes a detour, chosen in the same way, and
/// returns. No path has room, or none has anything to send: wait for the next event.
///
/// Two things are not up to a scheduler: the transport's loss probes may carry a stream's data on
/// any path, and beyond the first [`MAX_STREAM_VIEWS`](crate::MAX_STREAM_VIEWS) streams that wait,
/// one has to wait until it comes into view.
///
/// **Source.** Kanakis, "SAILfish" (MSc thesis, 2020), section 5.2.3, from the code base of FStream,
/// where `fewest_streams` is the fallback variant in the same file; which of the two the thesis
/// measured is not known. Ours: binding again and detours, as no failure is foreseen there. How much
/// load is bound to a path does not count, so that a burst of requests all goes to the fastest one.
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
    bindings: Vec<Binding>,
    /// How many streams are bound to each path.
    bound: [u32; MAX_PATHS],
    /// The decision made last, until its packet has left.
    asked: Option<(u64, StreamView)>,
    /// Streams that had nothing for their path, as they were then; the newest of them, in a ring.
    idle: [Option<StreamView>; MAX_IDLE],
    /// How many there have been.
    idles: usize,
}

/// Where a stream belongs.
#[derive(Debug, Clone, Copy)]
struct Binding {
    stream: StreamId,
    path: PathIndex,
    /// Where it goes while that path cannot be used.
    detour: Option<PathIndex>,
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

    fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.bindings
            .binary_search_by_key(&id, |binding| binding.stream)
    }

    fn bind(&mut self, stream: StreamId, path: PathIndex) {
        if let Some(&Binding { stream: oldest, .. }) = self.bindings.first()
            && self.bindings.len() == MAX_BINDINGS
        {
            self.unbind(oldest);
        }
        if let Err(at) = self.find(stream) {
            let binding = Binding {
                stream,
                path,
                detour: None,
            };
            self.bindings.insert(at, binding);
            self.bound[path.get()] += 1;
        }
    }

    fn unbind(&mut self, id: StreamId) {
        if let Ok(at) = self.find(id) {
            let Binding { path, .. } = self.bindings.remove(at);
            self.bound[path.get()] -= 1;
        }
    }

    /// The path for a stream's next packet, with room or without; `None` if it has none and no path
    /// has room. `open` are the paths that it may be on, `roomy` those of them with room in
    /// their windows.
    fn place(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        open: PathSet,
        roomy: PathSet,
    ) -> Option<PathIndex> {
        let Ok(at) = self.find(stream.id) else {
            // Begun before there was a choice: there is no hurry to make a bad one.
            let path = self.choose(cx, if stream.started() { open } else { roomy })?;
            self.bind(stream.id, path);
            return Some(path);
        };
        let Binding { path, detour, .. } = self.bindings[at];
        let to = if open.contains(path) {
            path
        } else if let Some(detour) = detour.filter(|detour| open.contains(*detour)) {
            detour
        } else {
            self.choose(cx, roomy)?
        };
        self.bindings[at].detour = Some(to).filter(|to| *to != path);
        Some(to)
    }

    /// The path of these for a stream that is bound to none.
    fn choose(&self, cx: &Context<'_>, paths: PathSet) -> Option<PathIndex> {
        let load = |path: &PathView| {
            if self.config.fewest_streams {
                self.bound[path.index.get()]
            } else {
                0
            }
        };
        usable(cx)
            .filter(|path| paths.contains(path.index))
            .min_by_key(|path| (load(path), rank(path)))
            .map(|path| path.index)
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
        // What its pacer holds back for a moment is no reason to bind a stream elsewhere for good.
        let mut roomy = PathSet::EMPTY;
        // Nothing stays bound to a path that will not have room again by itself.
        for path in usable(cx).filter(|path| comes_back(path)) {
            open.insert(path.index);
            if path.can_send {
                able.insert(path.index);
            }
            if path.can_send || path.next_release.is_some() {
                roomy.insert(path.index);
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
                let Some(path) = self.place(cx, stream, open, roomy) else {
                    continue;
                };
                if !able.contains(path) {
                    continue;
                }
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
            // A slot's next path is another one.
            self.bindings.retain(|binding| binding.path != event.path);
            for binding in &mut self.bindings {
                binding.detour.take_if(|detour| *detour == event.path);
            }
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
