//! Stream-based minRTT: each stream stays on the path that was the fastest at its first bytes; splits none.

use serde::{Deserialize, Serialize};

use crate::support::binding::{Bound, BoundStreams, Choice, Paths};
use crate::support::usable;
use crate::{
    Acked, Context, Decision, Lost, PathIndex, PathSet, PathUpdate, PathView, Scheduler, Sent,
    StreamUpdate, StreamView,
};

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
///     Context, Data, Decision, PathView, QueueView, Scheduler, StreamId, StreamMinRtt,
///     StreamView,
/// };
///
/// let view = |slot, rtt| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt));
///     view.in_flight = 12_000;
///     view
/// };
/// let mut paths = [view(0, 40), view(1, 15)];
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (20_000, 1_000_000);
/// let id = |index| StreamId::from(mpquic_sched::VarInt::from_u32(index));
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
    streams: BoundStreams,
    rule: Rule,
}

/// The path for a stream: the fastest.
#[derive(Debug, Clone)]
struct Rule {
    fewest_streams: bool,
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
        let StreamMinRttConfig { fewest_streams } = *config;
        Self {
            streams: BoundStreams::new(),
            rule: Rule { fewest_streams },
        }
    }
}

impl Default for StreamMinRtt {
    fn default() -> Self {
        Self::new(&StreamMinRttConfig::default())
    }
}

impl Rule {
    fn of(&self, cx: &Context<'_>, paths: PathSet, bound: &Bound) -> Option<PathIndex> {
        let load = |path: &PathView| {
            if self.fewest_streams {
                bound.count(path.index)
            } else {
                0
            }
        };
        usable(cx)
            .filter(|path| paths.contains(path.index))
            .min_by_key(|path| (load(path), path.rtt_rank()))
            .map(|path| path.index)
    }
}

impl Choice for Rule {
    fn bind(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        paths: Paths,
        bound: &Bound,
    ) -> Option<PathIndex> {
        // Begun before there was a choice: there is no hurry to make a bad one.
        let among = if stream.started() {
            paths.open
        } else {
            paths.roomy
        };
        self.of(cx, among, bound)
    }

    fn detour(&mut self, cx: &Context<'_>, paths: Paths, bound: &Bound) -> Option<PathIndex> {
        self.of(cx, paths.roomy, bound)
    }
}

impl Scheduler for StreamMinRtt {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.streams.decide(cx, &mut self.rule)
    }

    fn on_sent(&mut self, event: &Sent) {
        self.streams.on_sent(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.streams.on_path(event);
    }

    fn on_acked(&mut self, _event: &Acked) {
        self.streams.on_change();
    }

    fn on_lost(&mut self, _event: &Lost) {
        self.streams.on_change();
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.streams.on_stream(event);
    }

    fn wants_streams(&self) -> bool {
        true
    }
}
