//! Tests of the data plane with paths and without a handshake: what is planned, what is written, and what is left.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_sched_core::{
    Context, Data, Decision, Dir, MinRtt, PathIndex, PathSet, PathUpdate, PathUpdateKind,
    Scheduler, Side, StreamId,
};
use mpquic_wire::transport_parameters::TransportParameters;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{BoundData, DataPlane, Planned};
use crate::datagram::DatagramOptions;
use crate::frame_writer::FrameWriter;
use crate::observe::ObserverHooks;
use crate::path::{Paths, test_paths};
use crate::sent_frame::SentFrame;
use crate::space::{PacketOrigin, SentPacket};
use crate::{PathId, TransportConfig};

/// Room for frames in each packet.
const ROOM: usize = 1000;

/// A plane and its paths, of which each has room.
struct Fixture {
    now: Instant,
    data: DataPlane,
    paths: Paths,
    watch: ObserverHooks,
    rng: StdRng,
}

impl Fixture {
    fn new(scheduler: impl Scheduler + 'static, paths: u32) -> Self {
        Self::with_config(scheduler, paths, &TransportConfig::default())
    }

    fn with_config(
        scheduler: impl Scheduler + 'static,
        paths: u32,
        config: &TransportConfig,
    ) -> Self {
        let now = Instant::now();
        let mut data = DataPlane::new(now, Side::Client, config, Box::new(scheduler), false);
        data.set_peer_params(&TransportParameters {
            initial_max_data: 1 << 20,
            initial_max_stream_data_uni: 1 << 20,
            initial_max_streams_uni: 10,
            max_datagram_frame_size: Some(65535),
            ..TransportParameters::default()
        });
        Self {
            now,
            data,
            paths: test_paths(paths),
            watch: ObserverHooks::new(now, None),
            rng: StdRng::seed_from_u64(1),
        }
    }

    fn write(&mut self, bytes: usize) -> StreamId {
        let id = self.data.streams_handle(false).open(Dir::Uni).unwrap();
        let written = self.data.send_stream(id, false).write(&vec![7; bytes]);
        assert_eq!(written, Ok(bytes));
        id
    }

    fn datagram(&mut self, options: DatagramOptions) {
        let data = Bytes::from_static(b"datagram");
        let mut datagrams = self.data.datagrams_handle(&self.paths, false);
        assert_eq!(datagrams.send_with(data, options, false), Ok(()));
    }

    fn plan_first(&mut self) -> Option<Planned> {
        let control = self.data.has_datagrams();
        let waits = control || self.data.can_send_streams();
        let (paths, watch) = (&mut self.paths, &mut self.watch);
        self.data.plan_first(self.now, paths, watch, control, waits)
    }

    fn plan_next(&mut self, sent: &Planned) -> Option<Planned> {
        let control = self.data.has_datagrams();
        let (paths, watch) = (&mut self.paths, &mut self.watch);
        self.data
            .plan_next(self.now, paths, watch, sent, control, true)
    }

    /// Fills a packet, and notes it as sent if anything is in it. Returns its frames.
    fn send(
        &mut self,
        path: PathIndex,
        origin: PacketOrigin,
        fill: impl FnOnce(&mut DataPlane, &mut FrameWriter<'_>, &mut Paths),
    ) -> Vec<SentFrame> {
        let mut buf = Vec::new();
        let mut w = FrameWriter::new(&mut buf, ROOM);
        fill(&mut self.data, &mut w, &mut self.paths);
        let resent = w.resent();
        let sent = SentPacket {
            time_sent: self.now,
            size: ROOM as u16,
            ack_eliciting: true,
            in_flight: true,
            ecn_marked: false,
            mtu_probe: false,
            path_probe: false,
            elsewhere: false,
            decision: origin.decision(),
            delivery: None,
            frames: w.frames,
        };
        let frames = sent.frames.to_vec();
        if !frames.is_empty() {
            let (path, controller) = self.paths.with_controller(path).unwrap();
            path.on_packet_sent(self.now, sent, resent, origin, controller, &mut self.rng);
        }
        frames
    }

    fn send_planned(&mut self, planned: &Planned) -> Vec<SentFrame> {
        let now = self.now;
        let (path, origin) = (planned.path, PacketOrigin::Decision(planned.number));
        self.send(path, origin, |data, w, paths| {
            data.fill(w, now, paths, planned.data, planned.copying, path);
        })
    }

    fn send_bound(&mut self, bound: BoundData) -> Vec<SentFrame> {
        let now = self.now;
        let origin = bound.copy_of();
        let origin = origin.map_or(PacketOrigin::Unscheduled, PacketOrigin::Copy);
        self.send(bound.path(), origin, |data, w, paths| {
            data.fill_bound(w, now, paths, bound);
        })
    }
}

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

/// The bytes of a stream among frames.
fn stream_bytes(frames: &[SentFrame]) -> u64 {
    let ranges = frames.iter().filter_map(SentFrame::stream);
    ranges.map(|range| range.end - range.start).sum()
}

#[test]
fn packets_are_planned_until_nothing_waits() {
    let mut f = Fixture::new(MinRtt::default(), 1);
    assert_eq!(f.plan_first(), None);
    f.write(2500);
    let mut next = f.plan_first();
    let mut sizes = Vec::new();
    while let Some(planned) = next {
        sizes.push(stream_bytes(&f.send_planned(&planned)));
        next = f.plan_next(&planned);
    }
    assert_eq!(sizes.len(), 3);
    assert_eq!(sizes.iter().sum::<u64>(), 2500);
    assert!(!f.data.can_send_streams() && f.data.is_in_flight());
}

#[test]
fn what_is_kept_comes_first_in_the_next_batch() {
    let mut f = Fixture::new(MinRtt::default(), 1);
    f.write(2500);
    let planned = f.plan_first().unwrap();
    f.data.keep(planned);
    assert_eq!(f.plan_first(), Some(planned));
    assert_ne!(f.plan_first(), Some(planned));
}

#[test]
fn datagrams_leave_on_the_path_that_they_are_bound_to() {
    let mut f = Fixture::new(MinRtt::default(), 2);
    f.datagram(DatagramOptions::new().path(PathId(1)));
    // No scheduler is asked.
    assert!(!f.data.has_datagrams());
    let waiting: Vec<_> = f.data.paths_of_datagrams().iter().collect();
    assert_eq!(waiting, [slot(1)]);
    let bound = f.data.datagrams_for(f.now, &mut f.paths, slot(1)).unwrap();
    assert_eq!((bound.path(), bound.copy_of()), (slot(1), None));
    let frames = f.send_bound(bound);
    assert!(matches!(
        frames[..],
        [SentFrame::Datagram { len: 8, tag: None }]
    ));
    assert!(f.data.paths_of_datagrams().is_empty());
}

#[test]
fn a_path_that_ends_takes_along_what_is_bound_to_it() {
    let mut f = Fixture::new(MinRtt::default(), 2);
    f.datagram(DatagramOptions::new().path(PathId(1)));
    f.datagram(DatagramOptions::new());
    let event = PathUpdate::new(slot(1), PathId(1), f.now, PathUpdateKind::Abandoned);
    f.data.on_path_ended(&event);
    assert!(f.data.paths_of_datagrams().is_empty() && f.data.has_datagrams());
    let mut stats = crate::ConnectionStats::default();
    f.data.add_stats(&mut stats);
    assert_eq!(stats.stranded_datagrams, 1);
}

/// Sends on the first path, with a copy on the second.
struct Twice;

impl Scheduler for Twice {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Send {
            path: slot(0),
            data: Data::Next,
            copies: PathSet::only(slot(1)),
        }
    }
}

#[test]
fn a_copy_follows_on_the_other_path() {
    let mut f = Fixture::new(Twice, 2);
    f.write(500);
    let planned = f.plan_first().unwrap();
    let original = f.send_planned(&planned);
    let number = f.paths.at(slot(0)).unwrap().space().sent.first().unwrap().0;
    assert!(!f.data.has_copies_to_send());
    f.data.plan_copies(&f.paths, &planned, number);
    assert!(f.data.has_copies_to_send());
    let copy = f.data.next_copy(f.now, &mut f.paths).unwrap();
    assert_eq!(
        (copy.path(), copy.copy_of()),
        (slot(1), Some(planned.number))
    );
    let copied = f.send_bound(copy);
    assert_eq!((stream_bytes(&original), stream_bytes(&copied)), (500, 500));
    assert!(!f.data.has_copies_to_send());
    // The original knows where its data is, too.
    let first = f.paths.at(slot(0)).unwrap().space().sent.first().unwrap().1;
    let carried = first
        .frames
        .iter()
        .find_map(SentFrame::stream)
        .unwrap()
        .carried;
    assert!(carried.contains(slot(1)));
}

#[test]
fn a_probe_repeats_what_is_in_flight_when_nothing_waits() {
    let mut f = Fixture::new(MinRtt::default(), 1);
    f.write(100);
    let planned = f.plan_first().unwrap();
    f.send_planned(&planned);
    let now = f.now;
    let mut probe = || {
        f.send(slot(0), PacketOrigin::Unscheduled, |data, w, paths| {
            data.fill_probe(w, now, paths, slot(0), None);
        })
    };
    assert_eq!(stream_bytes(&probe()), 100);
}

#[test]
fn a_closed_connection_opens_and_writes_nothing() {
    let mut f = Fixture::new(MinRtt::default(), 1);
    let id = f.write(100);
    assert_eq!(f.data.streams_handle(true).open(Dir::Uni), None);
    let written = f.data.send_stream(id, true).write(b"more");
    assert_eq!(written, Err(crate::WriteError::ClosedStream));
}

#[test]
fn a_peer_that_takes_less_than_it_must_is_too_slow_once_a_period_is_over() {
    let period = Duration::from_secs(1);
    let mut config = TransportConfig::default();
    config.min_peer_rate(1000, period);
    let mut f = Fixture::with_config(MinRtt::default(), 1, &config);
    assert_eq!(f.data.pace_timer(), Some(f.now + period));
    f.write(2500);
    assert!(!f.data.is_too_slow(f.now), "the period is not over");
    // Nothing waited when the first one began.
    assert!(!f.data.is_too_slow(f.now + period));
    assert_eq!(f.data.pace_timer(), Some(f.now + 2 * period));
    assert!(f.data.is_too_slow(f.now + 2 * period));
    let mut f = Fixture::new(MinRtt::default(), 1);
    assert!(f.data.pace_timer().is_none() && !f.data.is_too_slow(f.now + period));
}

#[test]
fn a_forecast_names_what_the_paths_deliver_once_they_do() {
    let f = Fixture::new(MinRtt::default(), 1);
    assert_eq!(f.data.forecast(0).send, None);
    assert_eq!(f.data.forecast(5000).send, Some(5000));
}
