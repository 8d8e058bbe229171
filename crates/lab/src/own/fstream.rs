//! FStream, which splits each stream over the paths so that its parts end together. Decides only; a rival of SAILfish's chapter 6.

use mpquic_sched::{
    Acked, Context, Data, Decision, Lost, MAX_PATHS, PathUpdate, PathUpdateKind, PathView,
    Scheduler, Sent, StreamId, StreamUpdate, StreamUpdateKind, StreamView,
};
use serde::Deserialize;

/// Streams that are known of at most, as the schedulers that bind streams have it.
const MOST_STREAMS: usize = 1 << 14;

/// Streams that had nothing for their path and are remembered for it.
const IDLE: usize = 8;

/// Less is no byte: what is left of a share is a fraction.
const A_BYTE: f64 = 0.5;

/// Assigns each stream, by its size and priority, a volume on each path, and sends no more of it there.
///
/// **Rule.** A stream's share of a path's rate is its priority over the sum of the priorities of all streams that have a volume
/// there and are not acknowledged. At its first bytes, a stream is split such that, at these shares and half a round trip later, all its parts
/// end at the same time; a path that would only begin after that gets nothing. With `whole`, all of it goes to the path on which it would end first.
/// What is written later is split in the same way. On a path, streams share by their priorities. What is to be sent
/// again goes first, on any path of the stream's; control frames and datagrams go on the fastest one.
///
/// **Source.** The two rules for servers in the code base of FStream (Shi et al. 2019) that SAILfish's builds on
/// (`vunetsys/mpquic-rl`, `quic-go/scheduler.go` of c673d3a): `choosePaths`, and `choosePath` for `whole`. Its rate is that of the
/// stack's estimator; ours is the delivery rate, before the first one the window over the round trip. Ours: a stream that lost a
/// path is split anew.
#[derive(Debug)]
pub(super) struct FStream {
    whole: bool,
    /// By stream ID; each stream at most once.
    streams: Vec<Placed>,
    /// The sum of the priorities of the streams with a volume on each path.
    load: [f64; MAX_PATHS],
    /// The decision made last, until its packet has left.
    asked: Option<(u64, StreamId, usize)>,
    /// Streams that had nothing for a path; the newest of them, in a ring.
    idle: [Option<(StreamId, usize)>; IDLE],
    idles: usize,
}

/// Settings of [`FStream`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FStreamConfig {
    /// Whether a stream goes to one path only. Default false.
    whole: bool,
}

/// What a stream has on each path.
#[derive(Debug)]
struct Placed {
    id: StreamId,
    weight: f64,
    /// Bytes that may still be sent there for the first time.
    left: [f64; MAX_PATHS],
    /// Bytes sent there.
    sent: [f64; MAX_PATHS],
    /// Whether it had a volume there.
    on: [bool; MAX_PATHS],
}

/// The usable paths of a decision.
type Usable<'a> = [Option<&'a PathView>; MAX_PATHS];

impl FStream {
    pub(super) fn new(config: &FStreamConfig) -> Self {
        Self {
            whole: config.whole,
            streams: Vec::with_capacity(128),
            load: [0.0; MAX_PATHS],
            asked: None,
            idle: [None; IDLE],
            idles: 0,
        }
    }

    fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&id, |placed| placed.id)
    }

    /// Where a stream is in the list, with a volume for all that it has to send.
    fn place(&mut self, stream: &StreamView, usable: &Usable<'_>) -> usize {
        let at = self.find(stream.id).unwrap_or_else(|at| {
            if self.streams.len() == MOST_STREAMS {
                let oldest = self.streams[0].id;
                self.forget(oldest);
            }
            let at = at.min(self.streams.len());
            let placed = Placed {
                id: stream.id,
                weight: f64::from(stream.priority.max(1)),
                left: [0.0; MAX_PATHS],
                sent: [0.0; MAX_PATHS],
                on: [false; MAX_PATHS],
            };
            self.streams.insert(at, placed);
            at
        });
        let placed = &mut self.streams[at];
        for (left, path) in placed.left.iter_mut().zip(usable) {
            if path.is_none() {
                *left = 0.0;
            }
        }
        let more = stream.unsent as f64 - placed.left.iter().sum::<f64>();
        if more < A_BYTE {
            return at;
        }
        let others =
            |slot: usize| self.load[slot] - f64::from(u8::from(placed.on[slot])) * placed.weight;
        let volumes = split(usable, more, self.whole, |slot| {
            placed.weight / (placed.weight + others(slot).max(0.0))
        });
        for (slot, volume) in volumes.into_iter().enumerate() {
            if volume > 0.0 {
                placed.left[slot] += volume;
                if !placed.on[slot] {
                    placed.on[slot] = true;
                    self.load[slot] += placed.weight;
                }
            }
        }
        at
    }

    fn forget(&mut self, id: StreamId) {
        if let Ok(at) = self.find(id) {
            let placed = self.streams.remove(at);
            for (load, on) in self.load.iter_mut().zip(placed.on) {
                if on {
                    *load = (*load - placed.weight).max(0.0);
                }
            }
        }
    }

    /// Something may have something for its path again.
    fn wake(&mut self) {
        self.asked = None;
        self.idle = [None; IDLE];
    }

    /// The stream whose packet goes on a path, if any.
    fn next(&self, streams: &[StreamView], slot: usize, again: bool) -> Option<StreamId> {
        let waiting = streams
            .iter()
            .filter(|stream| !self.idle.contains(&Some((stream.id, slot))));
        let placed = waiting.filter_map(|stream| Some((stream, self.find(stream.id).ok()?)));
        let mut placed = placed.map(|(stream, at)| (stream, &self.streams[at]));
        if again {
            let found =
                placed.find(|(stream, placed)| stream.retransmittable > 0 && placed.on[slot]);
            return found.map(|(stream, _)| stream.id);
        }
        let served = |placed: &Placed| placed.sent[slot] / placed.weight;
        placed
            .filter(|(stream, placed)| stream.unsent > 0 && placed.left[slot] >= A_BYTE)
            .min_by(|(_, one), (_, other)| served(one).total_cmp(&served(other)))
            .map(|(stream, _)| stream.id)
    }
}

/// A path's rate as far as it is known, bytes per second.
fn rate(path: &PathView) -> f64 {
    match path.delivery_rate {
        0 => path.cwnd as f64 / path.smoothed_rtt.as_secs_f64().max(1e-3),
        rate => rate as f64,
    }
}

/// How much of so many bytes goes where, at a share of each path's rate, so that all parts end together; or all where they end first.
fn split(
    usable: &Usable<'_>,
    bytes: f64,
    whole: bool,
    share: impl Fn(usize) -> f64,
) -> [f64; MAX_PATHS] {
    // Rate and delay by slot, the nearest path first.
    let mut by_delay = [(f64::INFINITY, 0.0, 0); MAX_PATHS];
    for (slot, path) in usable.iter().enumerate() {
        if let Some(path) = path {
            let delay = path.smoothed_rtt.as_secs_f64() / 2.0;
            by_delay[slot] = (delay, (rate(path) * share(slot)).max(1.0), slot);
        }
    }
    by_delay.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.2.cmp(&other.2)));
    let known = by_delay.partition_point(|(delay, ..)| delay.is_finite());
    let mut volumes = [0.0; MAX_PATHS];
    let by_delay = &by_delay[..known];
    if whole {
        let end = |(delay, rate, _): &(f64, f64, usize)| bytes / rate + delay;
        let first = by_delay
            .iter()
            .min_by(|one, other| end(one).total_cmp(&end(other)));
        if let Some((_, _, slot)) = first {
            volumes[*slot] = bytes;
        }
        return volumes;
    }
    // With the first paths alone, all ends at this time; the next one joins if it could begin before.
    let (mut rates, mut ahead, mut end) = (0.0, 0.0, f64::INFINITY);
    let mut used = 0;
    for (delay, rate, _) in by_delay {
        if *delay >= end {
            break;
        }
        rates += rate;
        ahead += rate * delay;
        end = (bytes + ahead) / rates;
        used += 1;
    }
    for (delay, rate, slot) in &by_delay[..used] {
        volumes[*slot] = rate * (end - delay);
    }
    volumes
}

impl Scheduler for FStream {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        if let Some((decision, stream, slot)) = self.asked.take()
            && decision != cx.decision
        {
            self.idle[self.idles % IDLE] = Some((stream, slot));
            self.idles += 1;
        }
        let rank = |path: &&PathView| (path.standing(), path.rtt_rank());
        let Some(fastest) = cx.sendable().min_by_key(rank) else {
            return Decision::Wait { until: None };
        };
        let nothing = cx.queue.unsent == 0 && cx.queue.retransmittable == 0;
        if nothing || cx.streams.is_empty() || cx.open().nth(1).is_none() {
            return Decision::send(fastest.index);
        }
        if cx.queue.control {
            return Decision::send_data(fastest.index, Data::Control);
        }
        let usable: Usable<'_> = cx.fold_usable(
            || [None; MAX_PATHS],
            |usable, path| usable[path.index.get()] = Some(path),
        );
        for stream in cx.streams {
            self.place(stream, &usable);
        }
        let mut able: Usable<'_> = [None; MAX_PATHS];
        for path in cx.sendable() {
            able[path.index.get()] = Some(path);
        }
        able.sort_unstable_by_key(|path| path.map_or((u8::MAX, u64::MAX), |path| rank(&path)));
        for again in [true, false] {
            for path in able.into_iter().flatten() {
                if let Some(stream) = self.next(cx.streams, path.index.get(), again) {
                    self.asked = Some((cx.decision, stream, path.index.get()));
                    return Decision::send_data(path.index, Data::Stream(stream));
                }
            }
        }
        Decision::Wait { until: None }
    }

    fn on_sent(&mut self, event: &Sent) {
        let Some((_, stream, slot)) = self.asked.take_if(|asked| asked.0 == event.decision) else {
            return;
        };
        if let Ok(at) = self.find(stream) {
            let placed = &mut self.streams[at];
            placed.left[slot] = (placed.left[slot] - f64::from(event.new_bytes)).max(0.0);
            placed.sent[slot] += f64::from(event.size);
        }
    }

    fn on_acked(&mut self, _: &Acked) {
        self.wake();
    }

    fn on_lost(&mut self, _: &Lost) {
        self.wake();
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Abandoned {
            let slot = event.path.get();
            for placed in &mut self.streams {
                (placed.left[slot], placed.sent[slot], placed.on[slot]) = (0.0, 0.0, false);
            }
            self.load[slot] = 0.0;
        }
        self.wake();
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        match event.kind {
            StreamUpdateKind::FullyAcked | StreamUpdateKind::Reset => self.forget(event.id),
            _ => self.wake(),
        }
    }

    fn wants_streams(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mpquic_sched::{PathId, QueueView, Registry, VarInt};
    use serde_json::json;

    use super::*;

    fn path(slot: usize, rtt: u64, rate: u64) -> PathView {
        let mut path = PathView::of(slot, Duration::from_millis(rtt));
        (path.can_send, path.delivery_rate, path.in_flight) = (true, rate, 1200);
        path
    }

    fn id(number: u32) -> StreamId {
        StreamId::from(VarInt::from_u32(4 * number))
    }

    /// Sends all of the streams, each path whenever it has room; how many bytes of each went where.
    fn sent(
        scheduler: &mut dyn Scheduler,
        paths: &[PathView],
        streams: &mut [StreamView],
    ) -> Vec<[u64; 2]> {
        let mut went = vec![[0; 2]; streams.len()];
        let mut queue = QueueView::default();
        (queue.window_left, queue.flow_control_window) = (1 << 30, 1 << 30);
        for number in 0.. {
            queue.unsent = streams.iter().map(|stream| stream.unsent).sum();
            let waiting: Vec<_> = streams.iter().copied().filter(|s| s.unsent > 0).collect();
            let mut paths = paths.to_vec();
            // By turns, so that none is the only choice for long.
            if paths.len() > 1 {
                paths[number as usize % 2].can_send = false;
            }
            if waiting.is_empty() {
                break;
            }
            let now = now();
            let cx = Context::new(now, &paths, &queue, number).with_streams(&waiting);
            let Decision::Send { path, data, .. } = scheduler.decide(&cx) else {
                assert!(number < 10_000, "stuck");
                continue;
            };
            let Data::Stream(stream) = data else {
                panic!("{data:?}")
            };
            let at = streams.iter().position(|s| s.id == stream).unwrap();
            let bytes = streams[at].unsent.min(100);
            streams[at].unsent -= bytes;
            streams[at].sent += bytes;
            went[at][path.get()] += bytes;
            scheduler.on_sent(&Sent::new(path, now, 100, number, false, bytes as u16));
        }
        went
    }

    #[expect(clippy::disallowed_methods, reason = "a point to start from")]
    fn now() -> Instant {
        Instant::now()
    }

    fn built(config: &serde_json::Value) -> Box<dyn Scheduler> {
        let mut registry = Registry::empty();
        crate::own::register(&mut registry).unwrap();
        registry.build("fstream", config).unwrap()
    }

    #[test]
    fn the_parts_of_a_stream_end_together() {
        // 1 MB/s from 10 ms on and 0.5 MB/s from 50 ms on: 100 kB end 90 ms after the first path's delay, 50 kB of them by 60 ms.
        let paths = [path(0, 20, 1_000_000), path(1, 100, 500_000)];
        let mut streams = [StreamView::new(id(0), 16, 100_000)];
        let mut scheduler = built(&json!({}));
        assert!(scheduler.wants_streams(), "else it is told of none");
        let went = sent(&mut *scheduler, &paths, &mut streams);
        let expected = (100_000.0 + 1e6 * 0.01 + 5e5 * 0.05) / 1.5e6;
        let first = (expected - 0.01) * 1e6;
        assert!(
            (went[0][0] as f64 - first).abs() <= 200.0,
            "{went:?} {first}"
        );
        assert_eq!(went[0].iter().sum::<u64>(), 100_000);
        // What ends on the near path before the far one could begin goes there.
        let mut streams = [StreamView::new(id(1), 16, 30_000)];
        let went = sent(&mut *built(&json!({})), &paths, &mut streams);
        assert_eq!(went[0], [30_000, 0]);
    }

    #[test]
    fn a_whole_stream_goes_where_it_ends_first_beside_the_others() {
        let paths = [path(0, 20, 1_000_000), path(1, 100, 500_000)];
        let mut streams = [
            StreamView::new(id(0), 100, 100_000),
            StreamView::new(id(1), 20, 100_000),
            StreamView::new(id(2), 100, 10_000),
        ];
        let went = sent(&mut *built(&json!({"whole": true})), &paths, &mut streams);
        // The second one would have a sixth of the first path; the third one half of it.
        assert_eq!(went, [[100_000, 0], [0, 100_000], [10_000, 0]]);
    }

    #[test]
    fn streams_on_a_path_share_it_by_their_priorities() {
        let paths = [path(0, 20, 1_000_000), path(1, 900, 1_000)];
        let mut scheduler = built(&json!({}));
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left) = (200_000, 1 << 30);
        let streams = [
            StreamView::new(id(0), 30, 100_000),
            StreamView::new(id(1), 10, 100_000),
        ];
        let mut sent = [0; 2];
        for number in 0..400 {
            let cx = Context::new(now(), &paths, &queue, number).with_streams(&streams);
            if let Decision::Send { path, data, .. } = scheduler.decide(&cx) {
                sent[usize::from(data == Data::Stream(id(1)))] += 1;
                scheduler.on_sent(&Sent::new(path, now(), 100, number, false, 100));
            }
        }
        assert!((290..=310).contains(&sent[0]), "{sent:?}");
    }

    #[test]
    fn a_stream_is_split_anew_when_a_path_ends() {
        let paths = [
            path(0, 20, 1_000_000),
            path(1, 30, 1_000_000),
            path(2, 9_000, 1_000),
        ];
        let mut scheduler = built(&json!({}));
        let mut queue = QueueView::default();
        (queue.unsent, queue.window_left) = (100_000, 1 << 30);
        let streams = [StreamView::new(id(0), 1, 100_000)];
        let mut decide = |paths: &[PathView], number| {
            let cx = Context::new(now(), paths, &queue, number).with_streams(&streams);
            scheduler.decide(&cx)
        };
        assert!(matches!(decide(&paths, 0), Decision::Send { path, .. } if path.get() == 0));
        let mut left = paths.clone();
        left[0].open = false;
        left[0].can_send = false;
        assert!(matches!(decide(&left, 1), Decision::Send { path, .. } if path.get() == 1));
        let gone = PathUpdate::new(
            paths[0].index,
            PathId::ZERO,
            now(),
            PathUpdateKind::Abandoned,
        );
        scheduler.on_path(&gone);
        // All of it fits into what is left.
        let mut streams = [StreamView::new(id(0), 1, 100_000)];
        let went = sent(&mut *scheduler, &left, &mut streams);
        assert_eq!(went[0], [0, 100_000]);
    }
}
