//! SA-ECF: ECF's question asked of each stream in turn.

use serde::{Deserialize, Serialize};

use crate::support::{Advice, Waiting, backlog};
use crate::{
    Context, Decision, EcfConfig, InvalidConfig, PathIndex, PathUpdate, PathUpdateKind, PathView,
    Scheduler, StreamId, StreamView,
};

/// Sends on the slower path the first stream that would not be complete sooner without it.
///
/// **Rule.** `f` is the path with the smallest smoothed RTT, `s` the one with the smallest among
/// those with room ([`Context::sendable`]). If they are the same, send, in the transport's order of
/// streams. Otherwise go through the streams with new data in that order, and apply the two tests
/// of [`Ecf`](crate::Ecf) to each, with K the bytes that the connection will send until that stream
/// is complete, and a flag of the stream's own. The first stream that is not told to wait goes on
/// `s`, it alone. If all are, wait for `f`.
///
/// What will be sent until stream j, of which r_j bytes are left, is complete depends on how
/// streams share the connection ([`StreamSharing`]). What is left of a stream is what the
/// application said that it would be ([`StreamHints::size`](crate::StreamHints::size)), or what it
/// has written if that is more.
///
/// So a short stream of high priority keeps to the fast path, while a long one that follows, which
/// will take a while anyway, already uses the slow one.
///
/// **When it waits** for `f`: as [`Ecf`](crate::Ecf), with the same bounds and the same treatment
/// of pacers, of paths without a sample and of what is not new data.
///
/// **Source.** Rabitsch, Hurtig, Brunstrom: *A Stream-Aware Multipath QUIC Scheduler for
/// Heterogeneous Paths*, EPIQ 2018, as far as its abstract tells, and ECF's kernel form. Counting
/// the streams before an exclusive one is ours (a public Rust version counts r_j alone), as are the
/// floor of one window, the flag being one of stream and pair of paths, and all that is ours in
/// ECF.
///
/// **Cost.** One walk over the slots; if `f` has no room, up to two walks over
/// [`Context::streams`] for each stream that is told to wait. 1 KiB of state: the flags of 64
/// streams. Where two streams fall on one place, the older one's flag is forgotten.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{
///     Context, Data, Decision, PathSet, PathView, QueueView, SaEcf, Scheduler,
///     StreamId, StreamView,
/// };
/// use mpquic_sched::{Dir, Side};
///
/// let view = |slot, rtt_ms, window| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     view.pto = Duration::from_millis(rtt_ms + 25);
///     view.cwnd = window;
///     view
/// };
/// let mut paths = [view(0, 40, 60_000), view(1, 200, 30_000)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 60_000); // its window is full
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (650_000, 1_000_000);
///
/// let style_sheet = StreamView::new(StreamId::new(Side::Server, Dir::Uni, 0), 9, 50_000);
/// let film = StreamView::new(StreamId::new(Side::Server, Dir::Uni, 1), 1, 600_000);
///
/// // ECF would send the style sheet's next packet on the slow path: it comes first.
/// let streams = [style_sheet, film];
/// let cx = Context::new(Instant::now(), &paths, &queue, 0).with_streams(&streams);
/// let decision = SaEcf::default().decide(&cx);
/// let expected = Decision::Send {
///     path: paths[1].index,
///     data: Data::Stream(film.id),
///     copies: PathSet::EMPTY,
/// };
/// assert_eq!(decision, expected);
/// ```
#[derive(Debug, Clone)]
pub struct SaEcf {
    config: SaEcfConfig,
    wait: Waiting,
    flags: StreamFlags,
}

/// Settings of [`SaEcf`].
///
/// ```
/// use mpquic_sched::{SaEcfConfig, StreamSharing};
///
/// let config: SaEcfConfig = serde_json::from_str(r#"{"sharing": "weighted"}"#)?;
/// assert_eq!(config.sharing, StreamSharing::Weighted);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SaEcfConfig {
    /// How the streams are taken to share the connection. Default `by_turns`.
    pub sharing: StreamSharing,
    /// The settings of ECF itself.
    pub ecf: EcfConfig,
}

impl SaEcfConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        self.ecf.check().map_err(|problem| problem.within("ecf"))
    }
}

/// How streams share a connection: what is sent until stream j, with r_j bytes left, is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamSharing {
    /// As this project's transport does it: all of the streams with a higher priority, and of those
    /// with the same one, which take turns, as much as of stream j: `Σ r_i + Σ min(r_i, r_j)`.
    #[default]
    ByTurns,
    /// One after the other, in the transport's order: all of the streams before it, and r_j.
    Exclusive,
    /// In proportion to their priorities, taken for weights of at least 1:
    /// `Σ min(r_i, r_j · weight_i / weight_j)`. For transports and comparisons where priorities are
    /// weights, as with HTTP/2.
    Weighted,
}

/// The streams that wait, and for which pair of paths; each has its place by its ID.
#[derive(Debug, Clone)]
struct StreamFlags([Flag; FLAGS]);

const FLAGS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flag {
    stream: StreamId,
    pair: Option<(PathIndex, PathIndex)>,
}

impl Default for StreamFlags {
    fn default() -> Self {
        let stream = StreamId::new(crate::Side::Client, crate::Dir::Bi, 0);
        Self([Flag { stream, pair: None }; FLAGS])
    }
}

impl StreamFlags {
    fn place(stream: StreamId) -> usize {
        // The two lowest bits of an ID tell who opened it and for which directions; the rest counts.
        let bits = u64::from(stream);
        ((bits >> 2) + (bits & 3) * 16) as usize % FLAGS
    }

    fn get(&self, stream: StreamId, pair: (PathIndex, PathIndex)) -> bool {
        let flag = &self.0[Self::place(stream)];
        flag.stream == stream && flag.pair == Some(pair)
    }

    fn set(&mut self, stream: StreamId, pair: (PathIndex, PathIndex), value: bool) {
        let flag = &mut self.0[Self::place(stream)];
        if value {
            *flag = Flag {
                stream,
                pair: Some(pair),
            };
        } else if flag.stream == stream {
            flag.pair = None;
        }
    }

    /// A path ended.
    fn forget(&mut self, path: PathIndex) {
        for flag in &mut self.0 {
            if flag
                .pair
                .is_some_and(|(fast, slow)| fast == path || slow == path)
            {
                flag.pair = None;
            }
        }
    }
}

/// Bytes that the application has still to see sent.
fn remaining(stream: &StreamView) -> u64 {
    let announced = stream.size.unwrap_or(0).saturating_sub(stream.sent);
    stream.unsent.max(announced)
}

impl StreamSharing {
    /// What the connection sends until the stream at this place is complete, bytes. `before` is
    /// what is left of those before it.
    fn backlog(self, streams: &[StreamView], at: usize, before: u64) -> u64 {
        let own = remaining(&streams[at]);
        match self {
            Self::Exclusive => before.saturating_add(own),
            Self::ByTurns => {
                let share = |stream: &StreamView| match stream.priority.cmp(&streams[at].priority) {
                    std::cmp::Ordering::Greater => remaining(stream),
                    std::cmp::Ordering::Equal => remaining(stream).min(own),
                    std::cmp::Ordering::Less => 0,
                };
                let shares = streams.iter().map(share);
                shares.fold(0, u64::saturating_add)
            }
            Self::Weighted => {
                let weight = |stream: &StreamView| f64::from(stream.priority.max(1));
                let per_weight = own as f64 / weight(&streams[at]);
                let share = |stream: &StreamView| {
                    (remaining(stream) as f64).min(per_weight * weight(stream))
                };
                streams.iter().map(share).sum::<f64>() as u64
            }
        }
    }
}

impl Default for SaEcf {
    fn default() -> Self {
        Self::new(&SaEcfConfig::default())
    }
}

impl SaEcf {
    /// A scheduler with these settings.
    pub fn new(config: &SaEcfConfig) -> Self {
        Self {
            config: config.clone(),
            wait: Waiting::new(config.ecf.wait_for_pacer),
            flags: StreamFlags::default(),
        }
    }

    /// The first stream that ECF does not tell to wait.
    fn first_to_go(
        &mut self,
        fast: &PathView,
        slow: &PathView,
        streams: &[StreamView],
    ) -> Option<StreamId> {
        let pair = (fast.index, slow.index);
        let mut before = 0;
        for (at, stream) in streams.iter().enumerate() {
            // Without new data it has nothing to ask for, but it may come to have some.
            if stream.unsent > 0 {
                let backlog = self.config.sharing.backlog(streams, at, before);
                let mut waiting = self.flags.get(stream.id, pair);
                let ecf = &self.config.ecf;
                let wait = ecf.says_wait(fast, slow, backlog, &mut waiting);
                self.flags.set(stream.id, pair, waiting);
                if !wait {
                    return Some(stream.id);
                }
            }
            before = remaining(stream).saturating_add(before);
        }
        None
    }

    fn advise(&mut self, cx: &Context<'_>, fast: &PathView, slow: &PathView) -> Advice {
        if cx.streams.is_empty() {
            // The transport tells nothing of the streams: the connection is one.
            let ecf = &self.config.ecf;
            return Advice::wait_if(ecf.says_wait(fast, slow, backlog(cx), &mut false));
        }
        match self.first_to_go(fast, slow, cx.streams) {
            Some(stream) => Advice::SendStream(stream),
            None => Advice::Wait,
        }
    }
}

impl Scheduler for SaEcf {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let mut wait = self.wait;
        let decision = wait.decide(cx, |fast, slow| self.advise(cx, fast, slow));
        self.wait = wait;
        decision
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            self.flags.forget(event.path);
        }
    }

    fn wants_streams(&self) -> bool {
        true
    }
}
