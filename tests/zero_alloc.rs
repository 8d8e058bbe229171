//! Allocations on the hot path: none in a scheduler, next to none in a steady bulk transfer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{
    AckFrequencyConfig, CongestionControl, DatagramOptions, Dir, ReadError, Side, TransportConfig,
};
use mpquic_sched::{
    Acked, Context, Decision, Lost, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView,
    QueueView, Sent,
};
use mpquic_sim::BackToBack;
use mpquic_test_support::allocator::{Change, Counting};
use serde_json::Value;

thread_local! {
    /// Whose code runs: 0 the harness's, 1 the client's, 2 the server's.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    static COUNTS: [Cell<u64>; 3] = const { [Cell::new(0), Cell::new(0), Cell::new(0)] };
}

fn count(change: Change) {
    if change.allocated.is_none() {
        return;
    }
    RUNNING.with(|running| {
        COUNTS.with(|counts| {
            let count = &counts[running.get()];
            count.set(count.get() + 1);
        });
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting::new(count);

fn meter(side: Option<Side>) {
    RUNNING.set(side.map_or(0, |side| side as usize + 1));
}

fn counts() -> [u64; 3] {
    COUNTS.with(|counts| [counts[0].get(), counts[1].get(), counts[2].get()])
}

#[test]
fn schedulers_allocate_nothing() {
    let now = Instant::now();
    let views: Vec<PathView> = (0..8)
        .map(|slot| {
            let mut view = PathView::closed(PathIndex::new(slot).unwrap());
            view.open = true;
            view.can_send = slot != 3;
            view.smoothed_rtt = Duration::from_millis(80 - 7 * slot as u64);
            view
        })
        .collect();
    let queue = QueueView::default();
    let registry = mpquic_workspace::schedulers();
    let mut decisions = 0u64;
    for name in registry.names() {
        let mut scheduler = registry.build(name, &Value::Null).unwrap();
        for view in &views {
            let id = PathId(view.index.get() as u32);
            scheduler.on_path(&PathUpdate::new(
                view.index,
                id,
                now,
                PathUpdateKind::Opened,
            ));
        }
        let before = counts()[0];
        for number in 0..10_000 {
            let cx = Context::new(now, &views, &queue, number);
            let Decision::Send { path, .. } = scheduler.decide(&cx) else {
                continue;
            };
            decisions += 1;
            let rtt = Some(Duration::from_millis(30));
            scheduler.on_sent(&Sent::new(path, now, 1200, number, false, 1160));
            scheduler.on_acked(&Acked::new(path, now, now, 1200, rtt, Some(number), 1100));
            scheduler.on_lost(&Lost::new(path, now, now, 1200, Some(number)));
        }
        assert_eq!(counts()[0] - before, 0, "{name} allocates");
    }
    assert!(decisions >= 20_000);
}

/// Moves `len` bytes from server to client. Returns each side's packets and allocations, including
/// those of the application's calls, after the first third, in which windows and pools reach their
/// sizes. The client takes chunks, which it drops one by one, or copies.
fn steady(pair: &mut BackToBack, len: usize, chunks: bool) -> [(u64, u64); 2] {
    let data = vec![7; 64 << 10];
    let mut buf = vec![0; 64 << 10];
    let id = pair
        .side(Side::Server)
        .unwrap()
        .streams()
        .open(Dir::Uni)
        .unwrap();
    let (mut left, mut received) = (len, 0);
    let mut start = None;
    let snapshot = |pair: &mut BackToBack| {
        let sent =
            [Side::Client, Side::Server].map(|side| pair.side(side).unwrap().stats().sent_packets);
        (sent, counts())
    };
    pair.run_while(|pair| {
        let server = pair.side(Side::Server).unwrap();
        meter(Some(Side::Server));
        while left > 0 {
            let Ok(written) = server.send_stream(id).write(&data[..left.min(data.len())]) else {
                break;
            };
            left -= written;
            if left == 0 {
                server.send_stream(id).finish().unwrap();
            }
        }
        let client = pair.side(Side::Client).unwrap();
        meter(Some(Side::Client));
        client.streams().accept(Dir::Uni);
        let mut taken = None;
        let more = loop {
            let read = match chunks {
                true => client.recv_stream(id).read_chunk(usize::MAX).map(|chunk| {
                    let len = chunk.as_ref().map(Bytes::len);
                    taken = chunk;
                    len
                }),
                false => client.recv_stream(id).read(&mut buf),
            };
            match read {
                Ok(Some(read)) => received += read,
                Ok(None) => break false,
                Err(ReadError::Blocked | ReadError::ClosedStream) => break true,
                Err(error) => panic!("{error}"),
            }
        };
        meter(None);
        if received > len / 3 && start.is_none() {
            start = Some(snapshot(pair));
        }
        more
    })
    .unwrap();
    assert_eq!(received, len);
    let (sent_before, counts_before) = start.unwrap();
    let (sent, counts) = snapshot(pair);
    [Side::Client, Side::Server].map(|side| {
        let at = side as usize;
        let allocations = counts[at + 1] - counts_before[at + 1];
        (sent[at] - sent_before[at], allocations)
    })
}

#[test]
fn a_steady_transfer_allocates_less_than_once_in_five_packets() {
    // The last four schedulers request gaps, copies and lists of streams.
    let cubic = CongestionControl::Cubic;
    let fewer = Some(AckFrequencyConfig::default());
    for (paths, name, congestion, ack_frequency, chunks) in [
        (1, "roundrobin", cubic, None, false),
        (1, "roundrobin", cubic, None, true),
        (2, "roundrobin", cubic, None, false),
        (2, "roundrobin", cubic, None, true),
        (2, "roundrobin", cubic, fewer, false),
        (2, "roundrobin", CongestionControl::Bbr, None, false),
        (2, "daps", cubic, None, false),
        (2, "redundant", cubic, None, false),
        (2, "stms", cubic, None, false),
        (2, "stream_minrtt", cubic, None, false),
    ] {
        let mut transport = TransportConfig::default();
        transport
            .congestion(congestion)
            .ack_frequency_config(ack_frequency);
        let factory = mpquic_workspace::schedulers()
            .factory(name, &Value::Null)
            .unwrap();
        transport.scheduler(factory);
        let delay = Duration::from_millis(1);
        let mut pair = BackToBack::connect(transport, paths, delay, meter).unwrap();
        let [client, server] = steady(&mut pair, 32 << 20, chunks);
        for (side, (sent, allocations)) in [("client", client), ("server", server)] {
            // Per data packet: the receiver handles as many as the sender sends.
            let per_packet = allocations as f64 / server.0 as f64;
            println!(
                "{paths} path(s), {name}, {congestion}, chunks {chunks}, {side}: {per_packet:.4} allocations per data packet, {sent} packets sent"
            );
            assert!(
                per_packet < 0.2,
                "{name}, {congestion}, {side}: {per_packet}"
            );
        }
    }
}

/// Who looks at a connection makes it allocate no more: what is written down goes through a ring that is there already.
#[test]
fn a_transfer_that_is_written_down_allocates_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let qlog = mpquic::qlog::Qlog::to_dir(dir.path()).unwrap();
    let allocations = [false, true].map(|written| {
        let mut transport = TransportConfig::default();
        transport.scheduler(
            mpquic_workspace::schedulers()
                .factory("roundrobin", &Value::Null)
                .unwrap(),
        );
        if written {
            qlog.attach(&mut transport);
        }
        let mut pair = BackToBack::connect(transport, 2, Duration::from_millis(1), meter).unwrap();
        let [client, server] = steady(&mut pair, 32 << 20, false);
        let of = |(_, allocations)| allocations as f64 / server.0 as f64;
        [of(client), of(server)]
    });
    println!(
        "allocations per data packet of client and server, unobserved and observed: {allocations:.4?}"
    );
    for (without, with) in allocations[0].into_iter().zip(allocations[1]) {
        assert!(with <= without + 0.001, "{with} instead of {without}");
    }
}

/// Sends datagrams from server to client, and drains what is told of them. The server's packets and allocations after the
/// first third.
fn steady_datagrams(pair: &mut BackToBack, count: u64, tagged: bool) -> (u64, u64) {
    static DATA: [u8; 1000] = [7; 1000];
    let (mut number, mut received, mut told) = (0, 0, 0);
    let mut start = None;
    let sent = |pair: &mut BackToBack| pair.side(Side::Server).unwrap().stats().sent_packets;
    pair.run_while(|pair| {
        let server = pair.side(Side::Server).unwrap();
        meter(Some(Side::Server));
        while number < count {
            let options = match tagged {
                true => DatagramOptions::new().tag(number),
                false => DatagramOptions::new(),
            };
            let data = Bytes::from_static(&DATA);
            if server.datagrams().send_with(data, options, false).is_err() {
                break;
            }
            number += 1;
        }
        while server.datagrams().fate().is_some() {
            told += 1;
        }
        meter(None);
        let client = pair.side(Side::Client).unwrap();
        while client.datagrams().recv().is_some() {
            received += 1;
        }
        if received > count / 3 && start.is_none() {
            start = Some((sent(pair), counts()[2]));
        }
        received < count
    })
    .unwrap();
    assert!(told >= if tagged { 2 * count - 1000 } else { 0 });
    let (sent_before, before) = start.unwrap();
    (sent(pair) - sent_before, counts()[2] - before)
}

/// To follow the fate of datagrams allocates nothing.
#[test]
fn datagrams_allocate_nothing_whether_their_fate_is_asked_for_or_not() {
    for (paths, tagged) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut transport = TransportConfig::default();
        transport.datagram_send_buffer(64 << 10).scheduler(
            mpquic_workspace::schedulers()
                .factory("roundrobin", &Value::Null)
                .unwrap(),
        );
        let mut pair =
            BackToBack::connect(transport, paths, Duration::from_millis(1), meter).unwrap();
        let (sent, allocations) = steady_datagrams(&mut pair, 20_000, tagged);
        println!(
            "{paths} path(s), tagged {tagged}: {allocations} allocations for {sent} packets sent"
        );
        assert!(sent > 10_000 && allocations * 200 < sent, "{allocations}");
    }
}
