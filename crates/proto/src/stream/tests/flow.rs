//! Credit: who is blocked by what, who is told, and how windows grow.

use super::*;
use crate::WriteError;
use crate::stream::flow::INITIAL_WINDOW;

fn client(params: PeerStreamParams, config: &TransportConfig) -> Streams {
    let mut s = Streams::new(Side::Client, config);
    s.set_peer_params(params);
    s
}

//= specs/rfc9000.txt#section-2.2
//= type=test
//# An endpoint MUST NOT send data on any stream without ensuring that it is within the flow control
//# limits set by its peer.
#[test]
fn nothing_goes_before_the_peer_has_spoken() {
    let mut s = Streams::new(Side::Client, &TransportConfig::default());
    assert_eq!(s.open(Dir::Bi), None);
    assert_eq!(events(&mut s), []);
    s.set_peer_params(params(1000, 100, 1));
    assert_eq!(events(&mut s), [StreamEvent::Available { dir: Dir::Bi }]);
    s.open(Dir::Bi).unwrap();
    assert_eq!(s.open(Dir::Bi), None);
    assert_eq!(s.open(Dir::Bi), None);
    let p = control_packet(&mut s).unwrap();
    assert_eq!(p.frames[..], [SentFrame::StreamsBlocked(Dir::Bi)]);
    assert!(control_packet(&mut s).is_none());
    lost(&mut s, &p.frames, 0);
    assert!(control_packet(&mut s).is_some());
    s.on_max_streams(Dir::Bi, 2).unwrap();
    s.on_max_streams(Dir::Bi, 1).unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Available { dir: Dir::Bi }]);
    assert!(s.open(Dir::Bi).is_some());
}

//= specs/rfc9000.txt#section-19.13
//= type=test
//# A sender SHOULD send a STREAM_DATA_BLOCKED frame (type=0x15) when it wishes to send data but is
//# unable to do so due to stream-level flow control.
#[test]
fn blocked_by_the_stream() {
    let mut s = client(params(10_000, 100, 1), &TransportConfig::default());
    let id = s.open(Dir::Uni).unwrap();
    assert_eq!(s.write(id, &[0; 150]), Ok(100));
    for _ in 0..3 {
        assert_eq!(s.write(id, &[0; 50]), Err(WriteError::Blocked));
    }
    let p = control_packet(&mut s).unwrap();
    assert_eq!(p.frames[..], [SentFrame::StreamDataBlocked(id)]);
    assert!(control_packet(&mut s).is_none());
    s.on_max_stream_data(id, 100).unwrap();
    assert_eq!(events(&mut s), []);
    s.on_max_stream_data(id, 150).unwrap();
    lost(&mut s, &p.frames, 0);
    assert!(control_packet(&mut s).is_none());
    assert_eq!(events(&mut s), [StreamEvent::Writable { id }]);
    assert_eq!(s.write(id, &[0; 70]), Ok(50));
}

//= specs/rfc9000.txt#section-4.1
//= type=test
//# Senders MUST NOT send data in excess of either limit.
//= specs/rfc9000.txt#section-19.12
//= type=test
//# A sender SHOULD send a DATA_BLOCKED frame (type=0x14) when it wishes to send data but is unable
//# to do so due to connection-level flow control; see Section 4.
#[test]
fn blocked_by_the_connection() {
    let mut s = client(params(1000, 5000, 2), &TransportConfig::default());
    let id = s.open(Dir::Uni).unwrap();
    let other = s.open(Dir::Uni).unwrap();
    s.write(id, &[0; 2000]).unwrap();
    assert!(!s.can_send_control());
    let p = data_packet(&mut s, 700, Data::Next, 0).unwrap();
    // A gap takes credit too.
    assert!(data_packet(&mut s, 700, Data::Ahead(400), 0).is_none());
    assert!(data_packet(&mut s, 700, Data::Ahead(100), 0).is_some());
    assert_eq!(s.window_left(), 0);
    let filled = data_packet(&mut s, 700, Data::Next, 0).unwrap();
    assert!(filled.payload.len() <= 120);
    assert!(!s.can_send_data());
    assert!(data_packet(&mut s, 700, Data::Next, 0).is_none());
    let blocked = control_packet(&mut s).unwrap();
    assert_eq!(blocked.frames[..], [SentFrame::DataBlocked]);
    assert!(control_packet(&mut s).is_none());
    // Neither an empty stream's end nor a retransmission needs credit.
    s.finish(other).unwrap();
    assert!(s.can_send_data());
    let fin = data_packet(&mut s, 700, Data::Next, 0).unwrap();
    assert!(matches!(fin.frames[0], SentFrame::Stream(r) if r.id == other && r.fin));
    lost(&mut s, &p.frames, 0);
    assert!(data_packet(&mut s, 700, Data::Next, 0).is_some());
    s.on_max_data(1001);
    let one = data_packet(&mut s, 700, Data::Next, 0).unwrap();
    assert_eq!(one.payload.len(), 6);
}

#[test]
fn what_all_windows_leave() {
    let mut s = client(params(600, 300, 2), &TransportConfig::default());
    let seen = |s: &Streams| {
        let queue = s.queue();
        (queue.credit, queue.blocked)
    };
    let (x, y) = (s.open(Dir::Uni).unwrap(), s.open(Dir::Uni).unwrap());
    assert_eq!(seen(&s), (0, false), "nobody wants to send");
    assert_eq!(s.write(x, &[0; 400]), Ok(300));
    assert_eq!(seen(&s), (300, false), "the stream's window is the smaller");
    data_packet(&mut s, 700, Data::Next, 0).unwrap();
    assert_eq!(seen(&s), (0, false), "nor does anybody now");
    assert_eq!(s.write(x, &[0; 400]), Err(WriteError::Blocked));
    assert_eq!(
        seen(&s),
        (0, true),
        "the writer waits for the stream's window"
    );
    s.on_max_stream_data(x, 500).unwrap();
    assert_eq!(seen(&s), (0, false));
    assert_eq!(s.write(x, &[0; 400]), Ok(200));
    assert_eq!(seen(&s), (200, false));
    s.finish(x).unwrap();
    assert_eq!(seen(&s), (300, false), "only the connection's counts");
    assert_eq!(s.write(y, &[0; 300]), Ok(300));
    data_packet(&mut s, 700, Data::Next, 0).unwrap();
    assert_eq!(s.window_left(), 0);
    assert_eq!(seen(&s), (0, true), "it is used up");
    s.on_max_data(700);
    assert_eq!(seen(&s), (100, false));
    s.on_max_data(1000);
    assert_eq!(seen(&s), (200, false), "the stream's again");
    s.reset(y, code(0)).unwrap();
    assert_eq!(seen(&s), (0, false));
}

#[test]
fn blocked_by_the_send_window() {
    let mut config = TransportConfig::default();
    config.send_window(3000);
    let (mut a, _) = pair(&config);
    let (x, y) = (a.open(Dir::Uni).unwrap(), a.open(Dir::Uni).unwrap());
    assert_eq!(a.write(x, &[0; 5000]), Ok(3000));
    for id in [x, y, y] {
        assert_eq!(a.write(id, &[0; 5000]), Err(WriteError::Blocked));
    }
    let p: Vec<_> = std::iter::from_fn(|| data_packet(&mut a, 1200, Data::Next, 0)).collect();
    acked(&mut a, &p[0].frames);
    assert_eq!(events(&mut a), []);
    acked(&mut a, &p[1].frames);
    let woken = [x, y].map(|id| StreamEvent::Writable { id });
    assert_eq!(events(&mut a), woken);
    assert_eq!(a.write(y, &[0; 5000]), Ok(3000 - a_left(&a)));
    a.reset(y, code(0)).unwrap();
    assert!(a.buffered_send() < 1000);
}

fn a_left(a: &Streams) -> usize {
    // What was kept before the last write filled the window.
    let first = a.sends.values().next().unwrap();
    first.buffer.len() as usize
}

//= specs/rfc9000.txt#section-4.2
//= type=test
//# Therefore, a receiver MUST NOT wait for a STREAM_DATA_BLOCKED or DATA_BLOCKED frame before
//# sending a MAX_STREAM_DATA or MAX_DATA frame; doing so could result in the sender being blocked
//# for the rest of the connection.
#[test]
fn reading_returns_credit_and_lost_credit_is_repeated() {
    let mut config = TransportConfig::default();
    config.stream_receive_window(4000).receive_window(4000);
    let (mut a, mut b) = pair(&config);
    let id = a.open(Dir::Uni).unwrap();
    assert_eq!(a.write(id, &[0; 9000]), Ok(4000));
    exchange(&mut a, &mut b, Instant::now());
    assert!(b.buffered_recv() == 4000 && !b.can_send_control());
    b.read(id, &mut [0; 999]).unwrap();
    assert!(!b.can_send_control());
    b.read(id, &mut [0; 1]).unwrap();
    let p = control_packet(&mut b).unwrap();
    assert_eq!(
        p.frames[..],
        [SentFrame::MaxData, SentFrame::MaxStreamData(id)]
    );
    lost(&mut b, &p.frames, 0);
    let p = control_packet(&mut b).unwrap();
    deliver(&mut a, Instant::now(), &p.payload).unwrap();
    assert_eq!(a.write(id, &[0; 9000]), Ok(1000));
    assert_eq!(a.window_left(), 1000);
    // No credit for a stream whose end is known.
    a.finish(id).unwrap();
    exchange(&mut a, &mut b, Instant::now());
    b.read(id, &mut [0; 3000]).unwrap();
    let p = control_packet(&mut b).unwrap();
    assert_eq!(p.frames[..], [SentFrame::MaxData]);
}

/// A sender that always has data, a reader that keeps up, one window per round trip: the windows
/// reach their maxima, blocks are recycled.
#[test]
fn windows_grow_to_their_maxima_under_load() {
    let config = TransportConfig::default();
    let (mut a, mut b) = pair(&config);
    a.set_worthwhile(1 << 40);
    let id = a.open(Dir::Uni).unwrap();
    let mut now = Instant::now();
    let data = vec![5; 64 * 1024];
    let mut buf = vec![0; 64 * 1024];
    let (mut sent, mut got) = (0, 0);
    for _ in 0..12 {
        // One round trip: all that the windows allow goes, then the credit comes back.
        let mut packets = Vec::new();
        loop {
            while let Ok(n) = a.write(id, &data) {
                sent += n;
            }
            let Some(p) = data_packet(&mut a, 1452, Data::Next, 0) else {
                break;
            };
            packets.push(p);
        }
        now += RTT;
        for p in packets {
            deliver(&mut b, now, &p.payload).unwrap();
            while let Ok(Some(n)) = b.read(id, &mut buf) {
                assert!(buf[..n].iter().all(|x| *x == 5));
                got += n;
            }
            acked(&mut a, &p.frames);
        }
        while let Some(p) = control_packet(&mut b) {
            deliver(&mut a, now, &p.payload).unwrap();
        }
        events(&mut a);
        events(&mut b);
    }
    assert_eq!(sent, got);
    assert_eq!(b.recvs[id].window.size(), config.stream_receive_window);
    assert_eq!(b.window.size(), config.receive_window);
    assert_eq!((b.max_gaps_seen(), b.max_out_of_order_seen()), (0, 0));
}

#[test]
fn a_window_that_is_raised_begins_as_others_do() {
    let mut config = TransportConfig::default();
    config.receive_window(64 << 10);
    let (_, mut b) = pair(&config);
    assert_eq!(b.window.size(), 64 << 10);
    b.set_receive_window(100 << 10);
    assert_eq!(b.window.size(), 100 << 10);
    b.set_receive_window(24 << 20);
    assert_eq!(b.window.size(), INITIAL_WINDOW);
    assert!(b.window.is_due());
}

/// RUSTSEC-2026-0185: one byte at every second offset closes the connection, early.
#[test]
fn one_byte_frames_with_gaps_hit_the_cap() {
    let mut s = server(&TransportConfig::default());
    let id = client_stream(Dir::Uni, 0);
    let mut frames = 0;
    let error = loop {
        let at = 1 + 2 * frames;
        if let Err(error) = s.on_stream(Instant::now(), RTT, id, at, false, b"x") {
            break error;
        }
        frames += 1;
        assert!(frames < 1 << 20);
    };
    assert_eq!(error.code, TransportErrorCode::INTERNAL_ERROR);
    assert!(frames <= crate::limits::max_stream_gaps(1 << 20) as u64 + 1);
}

/// The healthy counterpart, through windows that grow: two paths, packets alternating, one of
/// them 10 MiB behind.
#[test]
fn alternation_of_unequal_paths_never_hits_the_cap() {
    let mut config = TransportConfig::default();
    config.send_window(64 << 20);
    let (mut a, mut b) = pair(&config);
    // As it is once the windows have grown.
    a.set_worthwhile(1 << 40);
    a.set_peer_params(params(32 << 20, 16 << 20, 10));
    let id = a.open(Dir::Uni).unwrap();
    b.window = super::super::flow::RecvWindow::new(32 << 20, 32 << 20);
    b.on_stream(Instant::now(), RTT, id, 0, false, b"").unwrap();
    b.recvs.get_mut(id).unwrap().window = super::super::flow::RecvWindow::new(16 << 20, 16 << 20);
    let data = vec![5; 64 * 1024];
    let mut buf = vec![0; 64 * 1024];
    let mut slow = std::collections::VecDeque::new();
    let (mut lag, mut got) = (0, 0);
    let total = 24 << 20;
    let mut left = total;
    loop {
        while left > 0 && a.queue().unsent < 10_000 {
            left -= a.write(id, &data).unwrap();
        }
        for on in 0..2 {
            let Some(p) = data_packet(&mut a, 1200, Data::Next, on) else {
                continue;
            };
            if on == 0 {
                deliver(&mut b, Instant::now(), &p.payload).unwrap();
                acked(&mut a, &p.frames);
                lag += p.payload.len();
            } else {
                slow.push_back(p);
            }
        }
        if lag > 5 << 20 || !a.can_send_data() {
            let Some(p) = slow.pop_front() else { break };
            deliver(&mut b, Instant::now(), &p.payload).unwrap();
            acked(&mut a, &p.frames);
        }
        while let Ok(Some(n)) = b.read(id, &mut buf) {
            got += n;
        }
        while let Some(p) = control_packet(&mut b) {
            deliver(&mut a, Instant::now(), &p.payload).unwrap();
        }
    }
    assert_eq!(got, total);
    let most = b.max_gaps_seen();
    assert!(
        most > 3000 && most < crate::limits::max_stream_gaps(16 << 20) / 4,
        "{most}"
    );
    assert!(b.max_out_of_order_seen() > 4 << 20);
    assert_eq!(a.queue().out_of_order, 0);
}

/// All credit is used up and the first bytes are still on a slow path: the window grows whatever the
/// round trips were, but not for a reader that leaves data where it is.
#[test]
fn a_window_used_up_behind_a_gap_grows() {
    const PIECE: u64 = 1 << 10;
    for (first, grows) in [(PIECE, true), (0, false)] {
        let mut s = server(&TransportConfig::default());
        let id = client_stream(Dir::Uni, 0);
        let mut now = Instant::now();
        let limit = Streams::local_params(&TransportConfig::default()).max_stream_data_uni;
        for at in (first..limit).step_by(PIECE as usize) {
            now += RTT;
            let data = vec![5; PIECE as usize];
            s.on_stream(now, RTT, id, at, false, &data).unwrap();
        }
        let window = s.recvs[id].window.size();
        assert_eq!(window, if grows { 2 * limit } else { limit });
        let p = control_packet(&mut s);
        let announced = p.is_some_and(|p| p.frames.contains(&SentFrame::MaxStreamData(id)));
        assert_eq!(announced, grows);
        assert!(s.window.size() >= window);
    }
}

/// The receiver's out-of-order queue: bytes beyond the first gap of each stream, summed over streams,
/// whatever becomes of them.
#[test]
fn bytes_beyond_a_gap_are_counted_over_all_streams() {
    let mut s = server(&TransportConfig::default());
    let [a, b, c] = [0, 1, 2].map(|index| client_stream(Dir::Uni, index));
    let now = Instant::now();
    let put = |s: &mut Streams, id, at, len| {
        s.on_stream(now, RTT, id, at, false, &vec![5; len]).unwrap();
        s.out_of_order()
    };
    assert_eq!(put(&mut s, a, 0, 100), 0);
    assert_eq!(put(&mut s, a, 200, 100), 100);
    // Half of it is new.
    assert_eq!(put(&mut s, a, 250, 100), 150);
    assert_eq!(put(&mut s, b, 1000, 30), 180);
    assert_eq!(put(&mut s, c, 7, 20), 200);
    // The application's reading changes nothing; the arrival of what was missing does.
    let mut buf = [0; 100];
    assert_eq!(s.read(a, &mut buf), Ok(Some(100)));
    assert_eq!(s.out_of_order(), 200);
    assert_eq!(put(&mut s, a, 100, 100), 50);
    assert_eq!(put(&mut s, a, 400, 10), 60);
    s.stop(a, code(1)).unwrap();
    assert_eq!(s.out_of_order(), 50);
    assert_eq!(put(&mut s, a, 600, 10), 50);
    s.on_reset_stream(b, code(2), 2000).unwrap();
    assert_eq!(s.out_of_order(), 20);
    assert_eq!(put(&mut s, c, 0, 7), 0);
    assert_eq!(s.max_out_of_order_seen(), 200);
}

#[test]
fn without_auto_tuning_windows_are_at_their_maxima_from_the_start() {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(5 << 20)
        .receive_window(6 << 20)
        .send_window(u64::MAX)
        .window_auto_tuning(false);
    let (mut a, b) = pair(&config);
    assert_eq!(b.window.limit(), 6 << 20);
    let id = a.open(Dir::Uni).unwrap();
    assert_eq!(a.write(id, &vec![0; 8 << 20]), Ok(5 << 20));
    config.window_auto_tuning(true);
    assert!(pair(&config).1.window.limit() < 6 << 20);
}
