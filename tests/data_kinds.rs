//! Each kind of data that a scheduler can request, and copies, as seen on the wire. The tests use
//! two paths in virtual time, a scripted scheduler on the server, and a record of every packet from
//! the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Later, MEGABYTE, Record, Recorder, Script, Told, has_room, ms, slot};
use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{PathErrorCode, PathId, PathStats, Side, StreamId, TransportConfig};
use mpquic_sched::{Context, Data, Decision, PathSet, PathUpdateKind};
use mpquic_sim::{
    Action, Job, LinkConfig, Network, QueueLimit, Report, TransferClient, TransferServer,
};

const FAST: PathId = PathId(0);
const SLOW: PathId = PathId(1);
/// When the client requests the first byte: both paths are open by then.
const BEGIN: Duration = ms(500);
const LIMIT: Duration = Duration::from_secs(60);
/// Smaller than the initial congestion window, so that the window has no effect.
const SMALL: u64 = 10_000;

/// The result of a download with a scripted scheduler.
struct Run {
    /// The server's packets with stream data.
    sent: Vec<Record>,
    told: Told,
    report: Report,
    /// The server's statistics of both paths.
    paths: [PathStats; 2],
}

/// The transfer starts when both paths are open.
fn run<D>(jobs: &[Job], make: impl Fn() -> D + Send + Sync + 'static) -> Run
where
    D: FnMut(&Context<'_>, &Told) -> Decision + Send + 'static,
{
    run_with(jobs, BEGIN, make, |network| {
        open_slow_path(network, ms(100))
    })
}

fn open_slow_path(network: &mut Network, at: Duration) {
    let (client, server) = (1, 0);
    network.at(at, Action::OpenPath { client, server });
}

fn run_with<D>(
    jobs: &[Job],
    begin: Duration,
    make: impl Fn() -> D + Send + Sync + 'static,
    prepare: impl FnOnce(&mut Network),
) -> Run
where
    D: FnMut(&Context<'_>, &Told) -> Decision + Send + 'static,
{
    let (mut transport, recorder) = (TransportConfig::default(), Recorder::default());
    transport.slow_start(SlowStart::HyStartPlusPlus);
    recorder.attach(&mut transport, Side::Server);
    let told = Script::attach(&mut transport, make);
    // Queues that lose nothing: data is only sent twice if the script requests it.
    let link =
        |rate, delay| LinkConfig::new(rate, ms(delay)).with_queue(QueueLimit::Packets(100_000));
    let mut network = Network::builder(1)
        .symmetric_path(link(20_000_000, 10))
        .symmetric_path(link(10_000_000, 40))
        .server_transport(transport)
        .server(TransferServer::new())
        .client(Later::new(begin, TransferClient::new(jobs.iter().copied())))
        .build()
        .unwrap();
    prepare(&mut network);
    let report = network.run_to_completion(LIMIT).unwrap();
    let server = network.connection(Side::Server).unwrap();
    let mut sent = recorder.take();
    sent.retain(|record| !record.data.is_empty());
    let told = told.lock().unwrap().clone();
    Run {
        paths: [FAST, SLOW].map(|id| server.path(id).unwrap().stats()),
        sent,
        told,
        report,
    }
}

const fn download(bytes: u64) -> Job {
    Job::Download { bytes, seed: 1 }
}

/// Only control frames wait, or the part of the run under test has not started yet.
fn nothing_to_see(cx: &Context<'_>) -> bool {
    cx.queue.unsent == 0 && cx.queue.retransmittable == 0 && cx.queue.in_flight == 0
}

/// This path if it has room, otherwise the other one if that has room.
fn prefer(cx: &Context<'_>, index: usize) -> Decision {
    match [index, 1 - index].into_iter().find(|i| has_room(cx, *i)) {
        Some(index) => Decision::send(slot(index)),
        None => Decision::Wait { until: None },
    }
}

fn send(index: usize, data: Data) -> Decision {
    Decision::Send {
        path: slot(index),
        data,
        copies: PathSet::EMPTY,
    }
}

/// Bytes of a stream as disjoint ranges.
#[derive(Default)]
struct Bytes(BTreeMap<u64, u64>);

impl Bytes {
    /// Adds a range that does not overlap the others.
    fn add(&mut self, start: u64, end: u64) {
        if start < end {
            assert_eq!(
                self.below(end) - self.below(start),
                0,
                "{start}..{end} again"
            );
            self.0.insert(start, end);
        }
    }

    /// The number of bytes below an offset.
    fn below(&self, offset: u64) -> u64 {
        let ranges = self.0.range(..offset);
        ranges.map(|(start, end)| offset.min(*end) - start).sum()
    }
}

#[test]
fn next_is_the_streams_own_order_whatever_the_path() {
    let run = run(&[download(MEGABYTE)], || {
        |cx: &Context<'_>, _: &Told| prefer(cx, (cx.decision % 2) as usize)
    });
    let mut end = 0;
    for piece in run.sent.iter().flat_map(|record| &record.data) {
        assert_eq!(piece.start, end);
        end = piece.end;
    }
    assert_eq!(end, MEGABYTE);
    assert!(
        run.paths
            .iter()
            .all(|path| path.sent_stream_bytes > MEGABYTE / 10)
    );
    assert_eq!(run.report.server.reinjected_bytes, 0);
}

#[test]
fn a_stream_can_be_pinned_to_a_path() {
    let streams = [0, 4].map(|id| StreamId::from(mpquic_proto::VarInt::from_u32(id)));
    let run = run(&[download(MEGABYTE), download(MEGABYTE)], move || {
        move |cx: &Context<'_>, _: &Told| {
            if nothing_to_see(cx) {
                return prefer(cx, 0);
            }
            // Alternating, since a stream may have nothing to send at the moment.
            let index = (cx.decision % 2) as usize;
            match [index, 1 - index].into_iter().find(|i| has_room(cx, *i)) {
                Some(index) => send(index, Data::Stream(streams[index])),
                None => Decision::Wait { until: None },
            }
        }
    });
    for record in &run.sent {
        let stream = streams[record.path.0 as usize];
        assert!(
            record.data.iter().all(|piece| piece.id == stream),
            "{record:?}"
        );
    }
    for path in run.paths {
        assert_eq!(path.sent_stream_bytes, MEGABYTE);
    }
}

#[test]
fn ahead_leaves_a_gap_that_the_fast_path_fills() {
    const GAP: u64 = 100_000;
    let run = run(&[download(MEGABYTE)], || {
        |cx: &Context<'_>, _: &Told| {
            if nothing_to_see(cx) {
                return prefer(cx, 0);
            }
            if has_room(cx, 1) && cx.queue.unsent > GAP + 2000 {
                send(1, Data::Ahead(GAP))
            } else if has_room(cx, 0) {
                send(0, Data::Next)
            } else {
                Decision::Wait { until: None }
            }
        }
    });
    let mut sent = Bytes::default();
    let mut ahead = 0;
    for record in &run.sent {
        for piece in &record.data {
            let unsent = piece.start - sent.below(piece.start);
            let expected = if record.path == SLOW { GAP } else { 0 };
            assert_eq!(unsent, expected, "{record:?}");
            ahead += u64::from(record.path == SLOW);
            sent.add(piece.start, piece.end);
        }
    }
    // Every byte once: the fast path filled the gaps.
    assert_eq!(sent.below(u64::MAX), MEGABYTE);
    assert!(ahead > 50, "{ahead} packets");
    assert_eq!(run.report.server.lost_packets, 0);
    assert!(run.report.client.max_out_of_order > 0);
}

#[test]
fn unacked_copies_what_is_in_flight_elsewhere_and_nothing_twice() {
    let run = run(&[download(MEGABYTE)], || {
        |cx: &Context<'_>, _: &Told| {
            if nothing_to_see(cx) {
                return prefer(cx, 0);
            }
            if has_room(cx, 0) && cx.queue.unsent > 0 {
                send(0, Data::Next)
            } else if has_room(cx, 1) {
                send(1, Data::Reinject)
            } else {
                Decision::Wait { until: None }
            }
        }
    });
    let acked: BTreeMap<u64, _> = run
        .told
        .acked
        .iter()
        .filter_map(|acked| Some((acked.decision?, acked.now)))
        .collect();
    let (mut originals, mut copies) = (Vec::new(), Bytes::default());
    for record in &run.sent {
        for piece in &record.data {
            if record.path == FAST {
                originals.push((piece, acked.get(&record.decision.unwrap())));
                continue;
            }
            copies.add(piece.start, piece.end);
            let mut at = piece.start;
            while at < piece.end {
                let (original, acked) = originals
                    .iter()
                    .find(|(original, _)| original.start <= at && at < original.end)
                    .expect("a copy of something sent");
                let gone = acked.is_some_and(|acked| *acked < record.now);
                assert!(!gone, "acknowledged before it was copied");
                at = original.end;
            }
        }
    }
    let copied = copies.below(u64::MAX);
    assert!(copied > MEGABYTE / 10, "{copied}");
    assert_eq!(copied, run.paths[1].sent_stream_bytes);
    assert_eq!(copied, run.report.server.reinjected_bytes);
    assert_eq!(run.paths[0].sent_stream_bytes, MEGABYTE);
}

/// All data on the fast path first, then all of it on the slow one, too.
fn unacked_on_the_slow_path(cx: &Context<'_>, _: &Told) -> Decision {
    if nothing_to_see(cx) || cx.queue.unsent > 0 {
        return prefer(cx, 0);
    }
    match has_room(cx, 1) {
        true => send(1, Data::Reinject),
        false => Decision::Wait { until: None },
    }
}

#[test]
fn unacked_takes_the_oldest_first() {
    let run = run(&[download(SMALL)], || unacked_on_the_slow_path);
    let mut end = 0;
    for record in run.sent.iter().filter(|record| record.path == SLOW) {
        for piece in &record.data {
            assert_eq!(piece.start, end);
            end = piece.end;
        }
    }
    assert_eq!(end, SMALL);
}

/// The slow path's MTU discovery lags behind the fast path's. Data that does not fit into one
/// packet goes into the next one.
/// not fit goes into the next one.
#[test]
fn unacked_leaves_nothing_out_where_packets_are_smaller() {
    let run = run_with(
        &[download(SMALL)],
        ms(700),
        || unacked_on_the_slow_path,
        |network| open_slow_path(network, ms(590)),
    );
    let sizes = |path| {
        let records = run.sent.iter().filter(move |record| record.path == path);
        let data = records.flat_map(|record| &record.data);
        data.map(|piece| piece.end - piece.start).max()
    };
    assert!(sizes(SLOW) < sizes(FAST));
    let mut copied = Bytes::default();
    for record in run.sent.iter().filter(|record| record.path == SLOW) {
        for piece in &record.data {
            copied.add(piece.start, piece.end);
        }
    }
    assert_eq!(copied.below(u64::MAX), SMALL);
}

#[test]
fn copies_put_the_same_ranges_on_both_paths() {
    let both = || {
        |cx: &Context<'_>, _: &Told| match has_room(cx, 0) {
            true => Decision::Send {
                path: slot(0),
                data: Data::Next,
                copies: PathSet::only(slot(1)),
            },
            false => Decision::Wait { until: None },
        }
    };
    let ranges = |run: &Run, path: PathId| -> Vec<_> {
        let records = run.sent.iter().filter(|record| record.path == path);
        records
            .flat_map(|record| record.data.iter().map(|piece| (piece.start, piece.end)))
            .collect()
    };
    // Within the first window of each path: both paths carry everything.
    let small = run(&[download(SMALL)], both);
    let originals = ranges(&small, FAST);
    assert_eq!(originals.last().map(|range| range.1), Some(SMALL));
    assert_eq!(ranges(&small, SLOW), originals);
    assert_eq!(small.report.server.reinjected_bytes, SMALL);

    // More than the slow path can carry: data that does not fit is left out, and no data is sent
    // twice on a path.
    let large = run(&[download(MEGABYTE)], both);
    let originals: BTreeSet<_> = ranges(&large, FAST).into_iter().collect();
    let copies = ranges(&large, SLOW);
    let distinct: BTreeSet<_> = copies.iter().copied().collect();
    assert_eq!(distinct.len(), copies.len());
    assert!(distinct.is_subset(&originals));
    assert!(copies.len() > originals.len() / 10 && copies.len() < originals.len());
    let counted = large.paths[1].copied_packets;
    assert_eq!(counted, copies.len() as u64);
}

/// A new path in a slot has carried nothing yet, so data that its predecessor carried can be copied
/// to it. Redundant data goes to any path with room, the fast one first.
fn redundant(cx: &Context<'_>, _: &Told) -> Decision {
    if nothing_to_see(cx) {
        return prefer(cx, 0);
    }
    match [0, 1].into_iter().find(|index| has_room(cx, *index)) {
        Some(index) => send(index, Data::Redundant),
        None => Decision::Wait { until: None },
    }
}

#[test]
fn redundant_data_goes_everywhere_in_order() {
    let run = run(&[download(SMALL)], || redundant);
    for path in [FAST, SLOW] {
        let mut end = 0;
        let records = run.sent.iter().filter(|record| record.path == path);
        for piece in records.flat_map(|record| &record.data) {
            assert_eq!(piece.start, end);
            end = piece.end;
        }
        assert_eq!(end, SMALL);
    }
    assert_eq!(run.report.server.reinjected_bytes, SMALL);
}

#[test]
fn redundant_data_is_new_only_where_nothing_older_is_left() {
    let run = run(&[download(MEGABYTE)], || redundant);
    let acked: BTreeMap<u64, _> = run
        .told
        .acked
        .iter()
        .filter_map(|acked| Some((acked.decision?, acked.now)))
        .collect();
    let mut carried = [Bytes::default(), Bytes::default()];
    let mut sent = 0;
    for (at, record) in run.sent.iter().enumerate() {
        let own = record.path.0 as usize;
        for piece in &record.data {
            if piece.end > sent {
                // All earlier data of the other path was sent on this path, or has arrived on the
                // other one.
                for older in run.sent[..at]
                    .iter()
                    .filter(|older| older.path != record.path)
                {
                    let gone = acked.get(&older.decision.unwrap());
                    let gone = gone.is_some_and(|gone| *gone <= record.now);
                    for piece in &older.data {
                        let here = carried[own].below(piece.end) - carried[own].below(piece.start);
                        assert!(
                            gone || here == piece.end - piece.start,
                            "{piece:?} {record:?}"
                        );
                    }
                }
                sent = piece.end;
            }
            // No data is sent twice on a path, since nothing is lost.
            carried[own].add(piece.start, piece.end);
        }
    }
    assert_eq!(sent, MEGABYTE);
    // The fast path carried nearly everything, and the slow one what was in flight on the fast one.
    assert!(carried[0].below(MEGABYTE) > MEGABYTE * 9 / 10);
    assert!(carried[1].below(MEGABYTE) > MEGABYTE / 10);
}

#[test]
fn control_frames_go_alone_if_asked() {
    let asked: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let note = Arc::clone(&asked);
    // The upload makes the server raise its windows.
    let upload = Job::Upload {
        bytes: 5 * MEGABYTE,
        seed: 2,
    };
    let run = run(&[upload, download(MEGABYTE)], move || {
        let note = Arc::clone(&note);
        move |cx: &Context<'_>, _: &Told| {
            if cx.queue.control && cx.queue.unsent > 0 && has_room(cx, 0) {
                note.lock().unwrap().insert(cx.decision);
                return send(0, Data::Control);
            }
            prefer(cx, 0)
        }
    });
    let asked = asked.lock().unwrap();
    let sent: BTreeSet<_> = run.told.sent.iter().map(|sent| sent.decision).collect();
    assert!(!asked.is_empty() && asked.is_subset(&sent));
    let with_data = run.sent.iter().filter_map(|record| record.decision);
    assert_eq!(with_data.filter(|number| asked.contains(number)).count(), 0);
}

#[test]
fn a_new_path_in_an_old_slot_carries_what_the_old_one_did() {
    let (mut transport, recorder) = (TransportConfig::default(), Recorder::default());
    recorder.attach(&mut transport, Side::Server);
    Script::attach(&mut transport, || {
        |cx: &Context<'_>, _: &Told| {
            if nothing_to_see(cx) {
                return prefer(cx, 0);
            }
            // All data on path 0 with copies in the other slot. Data in flight there is then copied
            // again.
            match (cx.queue.unsent > 0, has_room(cx, 1)) {
                (true, _) if has_room(cx, 0) => Decision::Send {
                    path: slot(0),
                    data: Data::Next,
                    copies: PathSet::only(slot(1)),
                },
                (false, true) => send(1, Data::Reinject),
                _ => Decision::Wait { until: None },
            }
        }
    });
    let mut network = Network::builder(1)
        .symmetric_path(LinkConfig::new(20_000_000, ms(200)))
        .symmetric_path(LinkConfig::new(20_000_000, ms(10)))
        .symmetric_path(LinkConfig::new(20_000_000, ms(10)))
        .server_transport(transport)
        .server(TransferServer::new())
        .client(Later::new(ms(2000), TransferClient::download(SMALL)))
        .build()
        .unwrap();
    open_slow_path(&mut network, ms(1000));
    // Copies on path 1 are lost. The path ends at once on the server, where path 2 takes its slot.
    let dark = Action::SetLinkUp {
        path: 1,
        from: Some(Side::Server),
        up: false,
    };
    let close = Action::ClosePath {
        side: Side::Server,
        id: PathId(1),
        code: PathErrorCode::PATH_UNSTABLE_OR_POOR,
    };
    let (client, server) = (2, 0);
    network.at(ms(2000), dark);
    network.at(ms(2015), close);
    network.at(ms(2020), Action::OpenPath { client, server });
    network.run_to_completion(LIMIT).unwrap();
    let mut bytes = [(); 3].map(|()| Bytes::default());
    for record in recorder.take() {
        for piece in &record.data {
            bytes[record.path.0 as usize].add(piece.start, piece.end);
        }
    }
    assert_eq!(bytes.map(|bytes| bytes.below(u64::MAX)), [SMALL; 3]);
}

/// A path falls silent with data in flight. The scheduler learns of it, and at the same instant the
/// data goes to the other path, as far as that has room.
#[test]
fn a_path_in_trouble_is_suspect_and_its_data_goes_elsewhere_at_once() {
    let dark = BEGIN + ms(300);
    let run = run_with(
        &[download(4 * MEGABYTE)],
        BEGIN,
        || {
            // The slow path gets little data, so that it has room when it is needed.
            |cx: &Context<'_>, _: &Told| {
                let suspect = cx.path(slot(0)).is_some_and(|path| path.suspect);
                if suspect && has_room(cx, 1) {
                    return Decision::send(slot(1));
                }
                let idle = cx.path(slot(1)).is_some_and(|path| path.in_flight < 5000);
                match (has_room(cx, 0) && !suspect, has_room(cx, 1) && idle) {
                    (true, _) => Decision::send(slot(0)),
                    (false, true) => Decision::send(slot(1)),
                    (false, false) => Decision::Wait { until: None },
                }
            }
        },
        |network| {
            open_slow_path(network, ms(100));
            let link = |up| Action::SetLinkUp {
                path: 0,
                from: None,
                up,
            };
            network.at(dark, link(false));
            network.at(dark + ms(1000), link(true));
        },
    );
    let find = |kind| {
        let mut events = run.told.paths.iter();
        events.find(|event| event.path == slot(0) && event.kind == kind)
    };
    let suspect = find(PathUpdateKind::Suspect)
        .expect("the path falls suspect")
        .now;
    let recovered = find(PathUpdateKind::Recovered).expect("and recovers").now;
    assert!(suspect < recovered);

    // Data in flight on the dark path when it became suspect: sent, and acknowledged later or
    // never.
    let acked: BTreeSet<u64> = run
        .told
        .acked
        .iter()
        .filter(|acked| acked.now <= suspect)
        .filter_map(|acked| acked.decision)
        .collect();
    let in_flight: Vec<_> = run
        .sent
        .iter()
        .filter(|record| record.path == FAST && record.now < suspect)
        .filter(|record| !acked.contains(&record.decision.unwrap()))
        .flat_map(|record| &record.data)
        .collect();
    assert!(in_flight.len() > 10);
    let elsewhere: Vec<_> = run
        .sent
        .iter()
        .filter(|record| record.path == SLOW && record.now == suspect)
        .flat_map(|record| &record.data)
        .collect();
    // The oldest data first, from its first byte on.
    assert!(!elsewhere.is_empty(), "nothing left at that instant");
    let mut at = in_flight[0].start;
    for piece in elsewhere {
        assert_eq!(piece.start, at);
        at = piece.end;
    }
    // All of it is sent before the path recovers.
    let mut moved = Bytes::default();
    for record in &run.sent {
        if record.path == SLOW && record.now >= suspect && record.now < recovered {
            for piece in &record.data {
                moved.add(piece.start, piece.end);
            }
        }
    }
    for piece in in_flight {
        assert_eq!(
            moved.below(piece.end) - moved.below(piece.start),
            piece.end - piece.start
        );
    }
}
