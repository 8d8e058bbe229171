//! Streams bound to paths: who belongs where, detours, turns by priority; which path a stream is bound to is its user's choice.

use super::{Fastest, comes_back, usable};
use crate::{
    Context, Data, Decision, MAX_PATHS, PathIndex, PathSet, PathUpdate, PathUpdateKind, Sent,
    StreamId, StreamUpdate, StreamUpdateKind, StreamView,
};

/// Streams that are bound at most. More than any peer allows at a time; a transport that failed to
/// tell the end of streams would not make it leak.
pub(crate) const MAX_BINDINGS: usize = 1 << 14;

/// Streams that there is room for from the start.
pub(crate) const USUAL_BINDINGS: usize = 128;

/// Streams that are remembered for having had nothing for their path.
const MAX_IDLE: usize = 8;

/// Chooses paths for streams.
pub trait Choice {
    /// The path for a stream that is bound to none: for good; `None` if it has to wait for one.
    fn bind(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        paths: Paths,
        bound: &Bound,
    ) -> Option<PathIndex>;

    /// The path for a stream while its own cannot be used; `None` if it has to wait for one.
    fn detour(&mut self, cx: &Context<'_>, paths: Paths, bound: &Bound) -> Option<PathIndex>;
}

/// The usable paths of a decision: those of the best standing that will have room again by themselves.
#[derive(Debug, Clone, Copy)]
pub struct Paths {
    /// All of them.
    pub open: PathSet,
    /// Those with room in their windows: what its pacer holds back for a moment is no reason to bind a
    /// stream elsewhere for good.
    pub roomy: PathSet,
    /// Those that can send now.
    able: PathSet,
}

impl Paths {
    fn of(cx: &Context<'_>) -> Self {
        let [mut open, mut roomy, mut able] = [PathSet::EMPTY; 3];
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
        Self { open, roomy, able }
    }
}

/// The streams, and the paths that they are bound to.
#[derive(Debug, Clone)]
pub struct Bound {
    /// By stream ID; each stream at most once.
    bindings: Vec<Binding>,
    /// How many streams are bound to each path.
    count: [u32; MAX_PATHS],
}

/// Where a stream belongs.
#[derive(Debug, Clone, Copy)]
struct Binding {
    stream: StreamId,
    path: PathIndex,
    /// Where it goes while that path cannot be used.
    detour: Option<PathIndex>,
}

impl Bound {
    fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.bindings
            .binary_search_by_key(&id, |binding| binding.stream)
    }

    /// How many streams are bound to this path.
    pub const fn count(&self, path: PathIndex) -> u32 {
        self.count[path.get()]
    }

    /// The path that a stream is bound to, whether it is on a detour or not.
    pub fn path_of(&self, stream: StreamId) -> Option<PathIndex> {
        self.find(stream).ok().map(|at| self.bindings[at].path)
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
            self.count[path.get()] += 1;
        }
    }

    fn unbind(&mut self, id: StreamId) {
        if let Ok(at) = self.find(id) {
            let Binding { path, .. } = self.bindings.remove(at);
            self.count[path.get()] -= 1;
        }
    }

    /// The path for a stream's next packet, with room or without; `None` if it has none and is given
    /// none.
    fn place(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        paths: Paths,
        choice: &mut impl Choice,
    ) -> Option<PathIndex> {
        let Ok(at) = self.find(stream.id) else {
            let path = choice.bind(cx, stream, paths, self)?;
            self.bind(stream.id, path);
            return Some(path);
        };
        let Binding { path, detour, .. } = self.bindings[at];
        let to = if paths.open.contains(path) {
            path
        } else if let Some(detour) = detour.filter(|detour| paths.open.contains(*detour)) {
            detour
        } else {
            choice.detour(cx, paths, self)?
        };
        self.bindings[at].detour = Some(to).filter(|to| *to != path);
        Some(to)
    }
}

/// Serves streams on the paths that they are bound to.
#[derive(Debug, Clone)]
pub struct BoundStreams {
    bound: Bound,
    /// The decision made last, until its packet has left.
    asked: Option<(u64, StreamView)>,
    /// Streams that had nothing for their path, as they were then; the newest of them, in a ring.
    idle: [Option<StreamView>; MAX_IDLE],
    /// How many there have been.
    idles: usize,
}

impl Default for BoundStreams {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl BoundStreams {
    /// No stream is bound.
    pub fn new() -> Self {
        Self {
            bound: Bound {
                // More streams than this make it grow, once.
                bindings: Vec::with_capacity(USUAL_BINDINGS),
                count: [0; MAX_PATHS],
            },
            asked: None,
            idle: [None; MAX_IDLE],
            idles: 0,
        }
    }

    /// Makes room for so many streams, as far as any are kept, so that binding them allocates nothing.
    pub fn make_room(&mut self, streams: usize) {
        let bindings = &mut self.bound.bindings;
        bindings.reserve(streams.min(MAX_BINDINGS).saturating_sub(bindings.len()));
    }

    /// A packet of the first stream in the transport's order whose path can send, those with data to
    /// be sent again before the others. Control frames and datagrams go first, on the fastest path;
    /// and while one path is open, everything goes there and nothing is bound.
    pub fn decide(&mut self, cx: &Context<'_>, choice: &mut impl Choice) -> Decision {
        self.note_idle(cx.decision);
        let Some(Fastest {
            sendable: Some(fastest),
            ..
        }) = Fastest::of(cx)
        else {
            return Decision::Wait { until: None };
        };
        let nothing = cx.queue.unsent == 0 && cx.queue.retransmittable == 0;
        if nothing || cx.streams.is_empty() || cx.open().nth(1).is_none() {
            return Decision::send(fastest.index);
        }
        if cx.queue.control {
            return Decision::send_data(fastest.index, Data::Control);
        }
        let paths = Paths::of(cx);
        // What is to be sent again is late already; then new data, in the transport's order.
        for again in [true, false] {
            for stream in cx.streams {
                if again != (stream.retransmittable > 0) || self.idle.contains(&Some(*stream)) {
                    continue;
                }
                let Some(path) = self.bound.place(cx, stream, paths, choice) else {
                    continue;
                };
                if !paths.able.contains(path) {
                    continue;
                }
                self.asked = Some((cx.decision, *stream));
                return Decision::send_data(path, Data::Stream(stream.id));
            }
        }
        Decision::Wait { until: None }
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

    /// A packet left.
    pub fn on_sent(&mut self, event: &Sent) {
        self.asked.take_if(|asked| asked.0 == event.decision);
    }

    /// Something happened by which a stream may have something for its path again: a packet was
    /// acknowledged or lost.
    pub fn on_change(&mut self) {
        self.asked = None;
        if self.idles > 0 {
            self.idle = [None; MAX_IDLE];
            self.idles = 0;
        }
    }

    /// Something happened to a path: nothing stays bound to one that ended.
    pub fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            // A slot's next path is another one.
            let bound = &mut self.bound;
            bound.bindings.retain(|binding| binding.path != event.path);
            for binding in &mut bound.bindings {
                binding.detour.take_if(|detour| *detour == event.path);
            }
            bound.count[event.path.get()] = 0;
        }
        self.on_change();
    }

    /// Something happened to a stream: one that is over is bound to nothing.
    pub fn on_stream(&mut self, event: &StreamUpdate) {
        if matches!(
            event.kind,
            StreamUpdateKind::FullyAcked | StreamUpdateKind::Reset
        ) {
            self.bound.unbind(event.id);
        }
    }
}
