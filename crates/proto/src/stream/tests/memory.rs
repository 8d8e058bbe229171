//! What a hostile peer's frames cost: memory per byte sent, look-ups and frames per stream; and what many
//! peers that never read pin together.

use std::sync::Arc;

use super::*;
use crate::limits::GUARANTEED_MEMORY;
use crate::memory::Memory;

/// A frame's bytes on the wire beside its data: type, stream ID, offset, length.
const FRAME: usize = 1 + 2 + 4 + 1;

/// One byte in each block of 16 KiB, in the first stream and then in others, up to all credit that there
/// is: memory for each byte sent is a small multiple, and what is set off against it is small.
#[test]
fn bytes_far_apart_take_little_memory() {
    let now = Instant::now();
    let mut s = server(&TransportConfig::default());
    let (mut sent, mut index) = (0, 0);
    loop {
        let id = client_stream(Dir::Uni, index);
        let limit = Streams::local_params(&TransportConfig::default()).max_stream_data_uni;
        let mut refused = false;
        for at in (100..limit).step_by(16 * 1024) {
            refused |= s.on_stream(now, RTT, id, at, false, b"x").is_err();
            sent += FRAME + 1;
        }
        while let Some(packet) = control_packet(&mut s) {
            assert!(packet.frames.is_empty(), "credit for {:?}", packet.frames);
        }
        index += 1;
        if refused {
            break;
        }
    }
    let held = s.memory();
    println!("{sent} bytes sent, {held} held");
    assert!(held <= 8 * sent + 32 * 1024, "{held} bytes for {sent}");
}

/// The same within one block of many streams.
#[test]
fn a_byte_in_each_of_many_streams_takes_little_memory() {
    let now = Instant::now();
    let mut config = TransportConfig::default();
    config.max_concurrent_uni_streams(1000);
    let mut s = server(&config);
    let mut sent = 0;
    // Up to the connection's credit.
    for index in 0..90 {
        let id = client_stream(Dir::Uni, index);
        for at in [0, 16_000] {
            s.on_stream(now, RTT, id, at, false, b"x").unwrap();
            sent += FRAME + 1;
        }
    }
    let held = s.memory();
    println!("{sent} bytes sent, {held} held");
    // Most of it are the streams' own structs.
    assert!(held <= 64 * sent, "{held} bytes for {sent}");
}

/// A window that is used up behind a gap, by a peer that fills the gap only when it has got all that there
/// is to be had: what it can have waiting is what it sent.
#[test]
fn windows_do_not_grow_while_nothing_is_read() {
    let now = Instant::now();
    let mut s = server(&TransportConfig::default());
    let id = client_stream(Dir::Uni, 0);
    let first = Streams::local_params(&TransportConfig::default()).max_stream_data_uni;
    let mut at = 1;
    while s.on_stream(now, RTT, id, at, false, &[1; 1024]).is_ok() {
        at += 1024;
        while control_packet(&mut s).is_some() {}
    }
    let window = s.recvs[id].window.size();
    assert!(window <= 2 * first, "{window} bytes");
}

/// A million streams that are opened and reset, while one stays open: nothing is left of them, and the
/// peer's limit rises in steps.
#[test]
fn a_million_streams_leave_nothing_behind() {
    const STREAMS: u64 = 1_000_000;
    let now = Instant::now();
    let mut s = server(&TransportConfig::default());
    let concurrent = s.remote[Dir::Bi as usize].open().1;
    let first = client_stream(Dir::Bi, 0);
    s.on_stream(now, RTT, first, 0, false, b"x").unwrap();
    assert_eq!(s.accept(Dir::Bi), Some(first));
    s.set_peer_params(params(100, 100, 0));
    // Its data waits in front of all others' for as long as the peer likes.
    s.write(first, &[0; 100]).unwrap();
    while data_packet(&mut s, 1200, Data::Next, 0).is_some() {}
    s.on_max_stream_data(first, 1000).unwrap();
    s.write(first, &[0; 100]).unwrap();
    let (mut limits, mut most) = (0, 0);
    for index in 1..=STREAMS {
        let id = client_stream(Dir::Bi, index);
        s.on_stream(now, RTT, id, 0, false, b"request").unwrap();
        assert_eq!(s.accept(Dir::Bi), Some(id));
        s.write(id, b"answer").unwrap();
        s.on_reset_stream(id, code(1), 7).unwrap();
        s.on_stop_sending(id, code(1)).unwrap();
        assert!(s.read(id, &mut [0; 10]).is_err());
        assert!(s.write(id, b"more").is_err());
        while let Some(packet) = control_packet(&mut s) {
            limits += packet
                .frames
                .iter()
                .filter(|frame| **frame == SentFrame::MaxStreams(Dir::Bi))
                .count() as u64;
            acked(&mut s, &packet.frames);
        }
        events(&mut s);
        most = most.max(s.memory());
        assert_eq!(s.open_halves(), (1, 1));
    }
    assert!(most < 64 * 1024, "{most} bytes");
    let queued = s.fresh.iter().count() + s.again.iter().count();
    let control = s.send_control.len() + s.recv_control.len();
    assert!(queued + control <= 200, "{queued} and {control} queued");
    let steps = STREAMS / (concurrent / 8);
    assert!(limits <= steps + 1, "{limits} times MAX_STREAMS");
}

/// RFC 9000 section 2.1: a stream opens all of lower numbers, which take no memory until they are used.
#[test]
fn the_highest_stream_alone_takes_memory() {
    let now = Instant::now();
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(1 << 60);
    let mut s = server(&config);
    let id = client_stream(Dir::Bi, (1 << 60) - 1);
    s.on_stream(now, RTT, id, 0, false, b"x").unwrap();
    assert_eq!(s.open_halves(), (1, 1));
    assert!(s.memory() < 4 * 1024, "{} bytes", s.memory());
}

/// Peers that grant all windows and acknowledge nothing, on paths that look fast: together they pin no more
/// than the endpoint's budget, and the next one to come goes on.
#[test]
fn slow_readers_share_one_budget() {
    const BUDGET: u64 = 64 << 20;
    const PEERS: usize = 100;
    let memory = Arc::new(Memory::new(BUDGET, BUDGET));
    let writer = || {
        let mut s = client_of_a_slow_reader();
        s.share(&memory);
        let id = s.open(Dir::Uni).unwrap();
        (s, id)
    };
    let mut peers: Vec<_> = (0..PEERS).map(|_| writer()).collect();
    let data = vec![0; 64 * 1024];
    for _ in 0..300 {
        for (s, id) in &mut peers {
            let _ = s.write(*id, &data);
        }
    }
    let pinned: u64 = peers.iter().map(|(s, _)| s.buffered_send()).sum();
    assert!(
        pinned <= BUDGET + PEERS as u64 * GUARANTEED_MEMORY,
        "{pinned}"
    );
    assert!(pinned >= BUDGET / 2, "{pinned}");
    // The first ones came when there was much; the next one still gets something, and goes on as it is
    // acknowledged.
    let (mut next, id) = writer();
    let written = next.write(id, &data).unwrap();
    assert!(written as u64 >= GUARANTEED_MEMORY, "{written}");
    while next.write(id, &data).is_ok() {}
    assert_eq!(next.write(id, &data), Err(crate::WriteError::Blocked));
    while let Some(packet) = data_packet(&mut next, 1200, Data::Next, 0) {
        acked(&mut next, &packet.frames);
    }
    assert!(events(&mut next).contains(&StreamEvent::Writable { id }));
    // When the others end, all of it is back.
    drop(peers);
    assert!(memory.in_use().send <= BUDGET / 100);
    let written: usize = std::iter::from_fn(|| next.write(id, &data).ok()).sum();
    assert!(written > 8 << 20, "{written}");
    next.on_closed();
    assert_eq!(memory.in_use().send, 0);
}

/// One whose paths could carry anything.
fn client_of_a_slow_reader() -> Streams {
    let mut s = Streams::new(Side::Client, &TransportConfig::default());
    s.set_peer_params(params(1 << 40, 1 << 40, 10));
    s.set_worthwhile(1 << 40);
    s
}

/// What is written ahead follows what the paths can use, up to the configured window.
#[test]
fn the_send_buffer_follows_the_paths() {
    let mut s = client_of_a_slow_reader();
    let id = s.open(Dir::Uni).unwrap();
    let data = vec![0; 1 << 20];
    let fill = |s: &mut Streams| {
        while s.write(id, &data).is_ok() {}
        s.buffered_send()
    };
    s.set_worthwhile(0);
    assert_eq!(fill(&mut s), crate::limits::MIN_SEND_BUFFER);
    s.set_worthwhile(3 << 20);
    assert_eq!(fill(&mut s), 3 << 20);
    // Acknowledged behind a gap: kept, but of no use to any path.
    let first = data_packet(&mut s, 1200, Data::Next, 0).unwrap();
    for _ in 0..1000 {
        let packet = data_packet(&mut s, 1200, Data::Next, 0).unwrap();
        acked(&mut s, &packet.frames);
    }
    let behind = s.queue().out_of_order;
    assert!(behind > 1 << 20);
    assert_eq!(fill(&mut s), (3 << 20) + behind);
    acked(&mut s, &first.frames);
    s.set_worthwhile(u64::MAX);
    assert_eq!(fill(&mut s), 16 << 20);
}

/// Many readers that take nothing hold what they are guaranteed, once a quarter of the budget is lent; those whose
/// paths carry more hold more.
#[test]
fn in_a_crowd_nobody_holds_more_than_the_paths_use() {
    const BUDGET: u64 = 64 << 20;
    let memory = Arc::new(Memory::new(BUDGET, 0));
    let data = vec![0; 64 * 1024];
    let fill = |usable: u64| {
        let mut s = Streams::new(Side::Client, &TransportConfig::default());
        s.share(&memory);
        s.set_peer_params(params(1 << 40, 1 << 40, 10));
        s.set_worthwhile(usable);
        let id = s.open(Dir::Uni).unwrap();
        while s.write(id, &data).is_ok() {}
        (s, id)
    };
    let slow: Vec<_> = (0..1000).map(|_| fill(0)).collect();
    let held = |peers: &[(Streams, _)]| -> Vec<u64> {
        peers.iter().map(|(s, _)| s.buffered_send()).collect()
    };
    let held = held(&slow);
    assert_eq!(held.first(), Some(&crate::limits::MIN_SEND_BUFFER));
    assert_eq!(held.last(), Some(&GUARANTEED_MEMORY));
    let lent = memory.in_use().send;
    assert!(
        lent <= BUDGET / 4 + crate::limits::MIN_SEND_BUFFER,
        "{lent}"
    );
    let (mut fast, id) = fill(3 << 20);
    assert_eq!(fast.buffered_send(), 3 << 20);
    // One of the crowd goes on as it is acknowledged.
    let (mut one, id_of_one) = fill(0);
    for (s, id) in [(&mut fast, id), (&mut one, id_of_one)] {
        while let Some(packet) = data_packet(s, 1200, Data::Next, 0) {
            acked(s, &packet.frames);
        }
        assert!(events(s).contains(&StreamEvent::Writable { id }));
    }
}

/// Requests one after another: the halves of each stream are those of the one before, and nothing of it is left in them.
#[test]
fn the_halves_of_a_stream_that_is_over_serve_the_next_one() {
    let now = Instant::now();
    let mut s = server(&TransportConfig::default());
    let mut places = Vec::new();
    for index in 0..3 {
        let id = client_stream(Dir::Bi, index);
        s.on_stream(now, RTT, id, 0, true, &[7; 1000]).unwrap();
        assert_eq!(s.accept(Dir::Bi), Some(id));
        let halves = (s.sends.get(id).unwrap(), s.recvs.get(id).unwrap());
        let place = (std::ptr::from_ref(halves.0), std::ptr::from_ref(halves.1));
        places.push(place);
        let new = SendStream::new(id, halves.0.credit());
        assert_eq!(format!("{:?}", halves.0), format!("{new:?}"));

        let mut request = [0; 1000];
        assert_eq!(s.read(id, &mut request), Ok(Some(1000)));
        assert_eq!((request, s.read(id, &mut request)), ([7; 1000], Ok(None)));
        assert_eq!(s.write(id, &[8; 1024]), Ok(1024));
        s.set_priority(id, 3).unwrap();
        s.finish(id).unwrap();
        let answer = data_packet(&mut s, 1400, Data::Next, 0).unwrap();
        acked(&mut s, &answer.frames);
        assert_eq!(s.open_halves(), (0, 0));
    }
    assert_eq!(places, [places[0]; 3]);
    s.shrink();
    assert_eq!(s.memory(), 0);
}

/// What came of a stream and was not read is not there for the next one.
#[test]
fn a_stream_that_was_stopped_leaves_nothing_to_the_next_one() {
    let now = Instant::now();
    let mut s = server(&TransportConfig::default());
    for index in 0..3 {
        let id = client_stream(Dir::Uni, index);
        s.on_stream(now, RTT, id, 0, true, &[index as u8; 5000])
            .unwrap();
        let half = s.recvs.get(id).unwrap();
        assert!(!half.expects_data() && half.is_readable());
        let mut first = [0; 10];
        assert_eq!(s.read(id, &mut first), Ok(Some(10)));
        assert_eq!(first, [index as u8; 10]);
        s.stop(id, code(1)).unwrap();
        assert!(s.recvs.is_empty());
    }
}
