//! The data plane: streams, datagrams, the scheduler that sends them, and the batches in which they leave.

mod batch;
mod fill;
mod handles;
mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{
    Acked, EcnCodepoint, Lost, PathId, PathIndex, PathKey, PathSet, PathUpdate, Scheduler, Sent,
    Side,
};

use batch::Batches;
pub use batch::SpareBuffers;
pub(crate) use batch::{Batch, BatchMut, Popped, Sizes};
pub use handles::{Datagrams, RecvStream, SchedulerRef, SendStream, Streams};
pub(crate) use plan::BoundData;

use crate::datagram;
use crate::forecast::ReceiveRate;
use crate::limits;
use crate::memory::Memory;
use crate::path::Paths;
use crate::recovery::earlier;
pub(crate) use crate::schedule::Planned;
use crate::schedule::{Purse, Schedule};
use crate::sent_frame::StreamRange;
use crate::stream::{self, PeerStreamParams, StreamEvent};
use crate::{ConnectionStats, ThroughputForecast, TransportConfig, TransportError};
use mpquic_wire::frame::Stream;
use mpquic_wire::transport_parameters::TransportParameters;

/// A connection's data and what decides when and where it leaves.
pub(crate) struct DataPlane {
    streams: stream::Streams,
    datagrams: datagram::Datagrams,
    schedule: Schedule,
    batches: Batches,
    receive_rate: ReceiveRate,
    /// The peer has to take so many bytes per second of what waits for it, over each such period.
    min_rate: Option<(u64, Duration)>,
    /// When such a period ends.
    pace_at: Option<Instant>,
}

impl DataPlane {
    /// Without data. `watched`: somebody wants to know what the scheduler decides.
    pub(crate) fn new(
        now: Instant,
        side: Side,
        config: &TransportConfig,
        scheduler: Box<dyn Scheduler>,
        watched: bool,
    ) -> Self {
        let mut schedule = Schedule::new(scheduler);
        schedule.watch(watched);
        schedule.purse = Purse::new(config.copy_budget);
        let mut streams = stream::Streams::new(side, config);
        streams.enable_sched_events(schedule.follows_streams());
        Self {
            streams,
            datagrams: datagram::Datagrams::new(config),
            schedule,
            batches: Batches::default(),
            receive_rate: ReceiveRate::default(),
            min_rate: config.min_rate,
            pace_at: config.min_rate.map(|(_, period)| now + period),
        }
    }

    #[inline]
    pub(crate) fn streams(&self) -> &stream::Streams {
        &self.streams
    }

    #[inline]
    pub(crate) fn streams_mut(&mut self) -> &mut stream::Streams {
        &mut self.streams
    }

    /// Whether datagrams wait for a path that the scheduler chooses.
    #[inline]
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagrams.can_send()
    }

    /// The paths for which datagrams wait that only they may carry.
    #[inline]
    pub(crate) fn paths_of_datagrams(&self) -> PathSet {
        self.datagrams.steered()
    }

    #[inline]
    pub(crate) fn datagrams_mut(&mut self) -> &mut datagram::Datagrams {
        &mut self.datagrams
    }

    /// What is kept counts for this memory from now on.
    pub(crate) fn share(&mut self, memory: &Arc<Memory>) {
        self.streams.share(memory);
        self.datagrams.share(memory);
    }

    /// The peer's limits.
    pub(crate) fn set_peer_params(&mut self, peer: &TransportParameters) {
        self.datagrams.set_peer_max(peer.max_datagram_frame_size);
        self.streams.set_peer_params(PeerStreamParams {
            max_data: peer.initial_max_data,
            max_stream_data_bidi_local: peer.initial_max_stream_data_bidi_local,
            max_stream_data_bidi_remote: peer.initial_max_stream_data_bidi_remote,
            max_stream_data_uni: peer.initial_max_stream_data_uni,
            max_streams_bidi: peer.initial_max_streams_bidi,
            max_streams_uni: peer.initial_max_streams_uni,
        });
    }

    /// The server has rejected early data: streams and datagrams begin anew.
    pub(crate) fn start_over(&mut self, config: &TransportConfig) {
        self.streams.start_over(config);
        self.datagrams.start_over();
    }

    /// What the application may want to know of a stream; `closed`: nothing can be written any more.
    pub(crate) fn poll_event(&mut self, closed: impl Fn() -> bool) -> Option<StreamEvent> {
        while let Some(event) = self.streams.poll_event() {
            // What was received can still be read.
            let invites = matches!(
                event,
                StreamEvent::Writable { .. } | StreamEvent::Available { .. }
            );
            if !(invites && closed()) {
                return Some(event);
            }
        }
        None
    }

    /// True once after a datagram was refused for want of space, when there is space again.
    pub(crate) fn poll_unblocked(&mut self, closed: impl Fn() -> bool) -> bool {
        self.datagrams.is_blocked() && !closed() && self.datagrams.poll_unblocked()
    }

    /// Whether the fate of any datagram was asked for.
    #[inline]
    pub(crate) fn has_fates(&self) -> bool {
        self.datagrams.has_fates()
    }

    /// True once after there were none, when there are news of datagrams.
    #[inline]
    pub(crate) fn poll_fates(&mut self) -> bool {
        self.datagrams.poll_fates()
    }

    /// A STREAM frame. `rtt`: of all paths, asked for by the first frame of a batch only.
    #[inline]
    pub(crate) fn on_stream_frame(
        &mut self,
        now: Instant,
        rtt: impl Fn() -> Duration,
        stream: &Stream<'_>,
    ) -> Result<(), TransportError> {
        let before = self.streams.received();
        self.streams.on_stream_frame(now, &rtt, stream)?;
        let rise = self.streams.received() - before;
        self.receive_rate.on_received(now, rise, rtt);
        Ok(())
    }

    /// What the connection may be expected to carry. `send`: what its paths deliver, bytes per second.
    pub(crate) fn forecast(&self, send: u64) -> ThroughputForecast {
        let (receive, receive_low) = self.receive_rate.forecast();
        ThroughputForecast {
            receive,
            receive_low,
            send: (send > 0).then_some(send),
        }
    }

    /// A packet with data left.
    #[inline]
    pub(crate) fn on_sent(&mut self, event: &Sent) {
        self.schedule.purse.on_sent(event.new_bytes.into());
        self.schedule.on_sent(event);
    }

    /// A packet left with so many bytes of copies.
    #[cold]
    pub(crate) fn on_copied(&mut self, bytes: u64) {
        self.schedule.on_copied(bytes);
    }

    /// A packet was acknowledged, and so were its frames.
    #[inline]
    pub(crate) fn on_acked(&mut self, event: &Acked) {
        self.schedule.on_acked(event);
    }

    /// A packet was lost, and so were its frames.
    #[inline]
    pub(crate) fn on_lost(&mut self, event: &Lost) {
        self.schedule.on_lost(event);
    }

    /// A piece of a stream was lost on a path.
    pub(crate) fn on_range_lost(&mut self, range: &StreamRange, path: PathIndex) {
        self.streams.on_lost(range, path);
        if range.carried.len() > 1 {
            self.schedule.on_copy_lost();
        }
    }

    /// When to look again although nothing happened: at the scheduler, if `waits` (control frames or data), and at
    /// datagrams that wait for one path. `pto`: the smallest of all paths.
    pub(crate) fn next_timeout(
        &self,
        paths: &Paths,
        waits: impl FnOnce() -> bool,
        pto: impl FnOnce() -> Duration,
    ) -> Option<Instant> {
        let mut next = self.schedule.next_timeout(pto);
        if next.is_some() && !self.has_copies(paths) && !waits() {
            next = None;
        }
        for path in self.datagrams.steered().iter() {
            next = earlier(next, self.schedule.release_of(path));
        }
        next
    }

    /// When the next look at the peer's pace is due, if it has to keep one.
    #[inline]
    pub(crate) fn pace_timer(&self) -> Option<Instant> {
        self.pace_at
    }

    /// Whether a period is over in which the peer took less of what waited for it than it had to.
    pub(crate) fn is_too_slow(&mut self, now: Instant) -> bool {
        let Some((rate, period)) = self.min_rate else {
            return false;
        };
        if self.pace_at.is_none_or(|at| at > now) {
            return false;
        }
        self.pace_at = Some(now + period);
        let least = u128::from(rate) * period.as_millis() / 1000;
        let taken = self.streams.end_period();
        taken.is_some_and(|taken| u128::from(taken) < least)
    }

    /// A timer of the scheduler may have come.
    pub(crate) fn on_timeout(&mut self, now: Instant, pto: Duration) {
        self.schedule.on_timeout(now, pto);
    }

    /// Whether the scheduler may have more to copy.
    pub(super) fn has_copies(&self, paths: &Paths) -> bool {
        paths.used() > 1 && self.schedule.is_copying() && self.is_in_flight()
    }

    /// What the scheduler is to know of a path.
    pub(crate) fn on_path(&mut self, event: &PathUpdate) {
        self.schedule.on_path(event);
    }

    /// The name of the network path that the scheduler was last told for a path.
    pub(crate) fn path_key(&self, path: PathIndex) -> Option<PathKey> {
        self.schedule.key(path)
    }

    /// A slot was given to a new path.
    pub(crate) fn on_new_path(&mut self, path: PathIndex) {
        self.schedule.on_new_path(path);
    }

    /// A path has new addresses: what was made for the old ones and did not leave counts as sent to them.
    pub(crate) fn on_path_moved(&mut self, path: PathIndex) {
        self.batches.forget(path);
    }

    /// A path ended. All that it had in flight is lost already.
    pub(crate) fn on_path_ended(&mut self, event: &PathUpdate) {
        self.schedule.forget_path(event.path);
        self.streams.forget_path(event.path);
        self.datagrams.forget_path(event.path, event.id);
        self.schedule.on_path(event);
    }

    /// Another scheduler takes the place of this one; it is still to be told of the paths, and then of the streams.
    pub(crate) fn replace_scheduler(&mut self, now: Instant, scheduler: Box<dyn Scheduler>) {
        // What was noted so far is for the old one.
        self.schedule.on_streams(&mut self.streams);
        self.schedule.replace(now, scheduler);
    }

    /// Tells a scheduler that took another one's place of the streams that are not delivered.
    pub(crate) fn tell_of_streams(&mut self) {
        self.streams
            .enable_sched_events(self.schedule.follows_streams());
        for event in self.streams.story() {
            self.schedule.on_stream(&event);
        }
    }

    /// The connection is over: the scheduler goes, and what was kept to be sent. What was received can still be read.
    pub(crate) fn on_closed(&mut self) {
        self.schedule.end();
        self.streams.on_closed();
        self.datagrams.on_closed();
    }

    /// The same, and the scheduler, which has panicked, perhaps, is not even dropped.
    pub(crate) fn abandon_scheduler(&mut self) {
        self.schedule.abandon();
    }

    /// The connection is at rest: gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.streams.shrink();
        self.batches.shrink();
        self.datagrams.shrink();
    }

    /// Whether a batch is ready to be handed out.
    #[inline]
    pub(crate) fn has_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The batch of a path, to be built and [put back](Self::put_batch).
    pub(crate) fn take_batch(
        &mut self,
        index: PathIndex,
        id: PathId,
        ecn: Option<EcnCodepoint>,
    ) -> Batch {
        self.batches.take(index, id, ecn)
    }

    /// Puts a batch back that was taken.
    pub(crate) fn put_batch(&mut self, batch: Batch) {
        self.batches.put(batch);
    }

    /// Appends the next batch that is built to `buf`.
    pub(crate) fn pop_batch(&mut self, buf: &mut Vec<u8>) -> Option<Popped> {
        self.batches.pop(buf)
    }

    /// Exchanges the free buffers of batches.
    pub(crate) fn swap_spare(&mut self, buffers: &mut SpareBuffers) {
        self.batches.swap_spare(buffers);
    }

    /// Adds the figures of streams, datagrams and scheduling.
    pub(crate) fn add_stats(&self, stats: &mut ConnectionStats) {
        stats.decisions = self.schedule.decisions();
        stats.waits = self.schedule.waits();
        stats.overridden_waits = self.schedule.overridden();
        stats.wait_time = self.schedule.wait_time();
        stats.copies = self.schedule.purse.copies;
        stats.dropped_datagrams = self.datagrams.dropped();
        stats.expired_datagrams = self.datagrams.expired();
        stats.stranded_datagrams = self.datagrams.stranded();
        stats.dropped_fates = self.datagrams.dropped_fates();
        stats.max_receive_gaps = self.streams.max_gaps_seen();
        stats.out_of_order = self.streams.out_of_order();
        stats.max_out_of_order = self.streams.max_out_of_order_seen();
    }

    /// Calls `tell` with every collection that the peer can make grow: its name, its size and its cap.
    pub(crate) fn for_each_size(&self, tell: &mut impl FnMut(&'static str, usize, usize)) {
        let (received, limit) = self.datagrams.received_size();
        tell("bytes of received datagrams", received, limit);
        let (news, lost) = self.datagrams.fate_sizes();
        tell("news of datagrams", news, limits::MAX_DATAGRAM_FATES);
        tell("lost datagrams", lost, limits::MAX_LOST_DATAGRAMS);
        self.streams.for_each_size(tell);
    }

    /// Calls `tell` with what streams and datagrams are charged for, in bytes; `half` for each half of a stream.
    pub(crate) fn for_each_charge(&self, half: u64, tell: &mut impl FnMut(&'static str, u64)) {
        let (received, _) = self.datagrams.received_size();
        tell("received datagrams", received as u64);
        tell("datagrams to send", self.datagrams.send_size() as u64);
        let (sends, recvs) = self.streams.open_halves();
        tell("streams", (sends + recvs) as u64 * half);
        tell("credit used and not read", self.streams.credit_in_use());
        tell("written data", self.streams.buffered_send());
    }
}

#[cfg(test)]
mod tests;
