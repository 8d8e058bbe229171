//! What data a peer can make an endpoint hold: budgets over all connections, back-pressure, and a least rate.

use std::time::Duration;

use crate::pair::Pair;
use mpquic_proto::limits::{GUARANTEED_MEMORY, MIN_SEND_BUFFER};
use mpquic_proto::{
    CollectionSize, ConnectionError, Dir, EndpointConfig, InitialWindow, ReadError, StreamId,
    TransportConfig, WriteError,
};

const SECOND: Duration = Duration::from_secs(1);

/// Writes zeros until no more fits; how many.
fn write_all_that_fits(connection: &mut mpquic_proto::Connection, id: StreamId) -> usize {
    let mut written = 0;
    while let Ok(n) = connection.send_stream(id).write(&[0; 10_000]) {
        written += n;
    }
    written
}

fn connected(server: TransportConfig, endpoint: EndpointConfig) -> Pair {
    let client_endpoint = EndpointConfig::new([1; 32]);
    let mut pair = Pair::with_endpoints(
        TransportConfig::default(),
        server,
        [client_endpoint, endpoint],
    );
    pair.connect();
    pair
}

/// Reads what there is at the client; true at the end.
fn read_all(pair: &mut Pair, id: StreamId, got: &mut usize) -> bool {
    let mut buf = [0; 10_000];
    loop {
        match pair.c().recv_stream(id).read(&mut buf) {
            Ok(Some(n)) => *got += n,
            Ok(None) => return true,
            Err(ReadError::Blocked | ReadError::ClosedStream) => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The client never acknowledges and has paths that carry next to nothing, whatever its windows are.
#[test]
fn a_peer_that_takes_nothing_pins_what_its_paths_could_use() {
    let mut pair = connected(TransportConfig::default(), EndpointConfig::new([2; 32]));
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let mut written = write_all_that_fits(pair.s(), id);
    pair.filter = Box::new(|from_client, _, _| !from_client);
    pair.run_until(SECOND, |pair| {
        written += write_all_that_fits(pair.s(), id);
        false
    });
    assert_eq!(written as u64, MIN_SEND_BUFFER);
    let used = pair.server.endpoint.memory_use();
    assert!(used.send <= MIN_SEND_BUFFER && used.send + GUARANTEED_MEMORY >= MIN_SEND_BUFFER);
    // All of it comes back with the connection's end, though the application still has the connection.
    let now = pair.now;
    pair.s().close(now, 0u32.into(), "bye".into());
    assert_eq!(pair.server.endpoint.memory_use().send, 0);
}

/// What was written ahead of the acknowledgements at most, while a long transfer crosses links of this round trip.
fn written_ahead(round_trip: Duration) -> u64 {
    let mut pair = connected(TransportConfig::default(), EndpointConfig::new([2; 32]));
    pair.delay = round_trip / 2;
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let (mut most, mut got) = (0, 0);
    let arrived = pair.run_until(10 * SECOND, |pair| {
        write_all_that_fits(pair.s(), id);
        most = most.max(pair.server.endpoint.memory_use().send);
        pair.c().streams().accept(Dir::Uni);
        read_all(pair, id, &mut got);
        got > 40 << 20
    });
    assert!(arrived, "{got} bytes came");
    most
}

/// Beyond that, data would leave the processor's cache before it is sent.
#[test]
fn little_is_written_ahead_to_a_near_peer() {
    let near = written_ahead(Duration::from_micros(100));
    assert!(near <= (1 << 20) + 100_000 * 5, "{near} bytes");
    let far = written_ahead(Duration::from_millis(2));
    assert!(
        far > 3 << 20,
        "{far} bytes: near or far makes no difference"
    );
}

/// A writer that waits because the endpoint's memory is used up goes on, and so does the transfer.
#[test]
fn without_memory_to_borrow_a_transfer_goes_on_in_small_steps() {
    const TOTAL: usize = 2 << 20;
    let mut endpoint = EndpointConfig::new([2; 32]);
    endpoint.send_memory(0);
    let mut pair = connected(TransportConfig::default(), endpoint);
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let (mut written, mut got, mut blocked) = (0, 0, 0);
    let done = pair.run_until(60 * SECOND, |pair| {
        // Something always happens before time moves on: what is written below does not wait.
        pair.c().ping();
        // As an application does: it writes again when it is told that it can.
        let told = written == 0
            || pair.server.events.drain(..).any(|event| {
                matches!(
                    event,
                    mpquic_proto::Event::Stream(mpquic_proto::StreamEvent::Writable { .. })
                )
            });
        while told && written < TOTAL {
            match pair.s().send_stream(id).write(&[7; 10_000]) {
                Ok(n) => written += n,
                Err(WriteError::Blocked) => {
                    blocked += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        pair.client.events.clear();
        read_all(pair, id, &mut got);
        assert!((written - got) as u64 <= GUARANTEED_MEMORY);
        got >= TOTAL
    });
    assert!(done, "{got} of {written} bytes");
    let least = TOTAL / GUARANTEED_MEMORY as usize;
    assert!(blocked >= least, "{blocked} times");
}

/// The server keeps its application from reading, and memory for received data runs out: packets are
/// dropped, no connection is closed, and all arrives once it reads.
#[test]
fn without_memory_for_received_data_packets_wait_at_the_sender() {
    const TOTAL: usize = 300_000;
    let mut endpoint = EndpointConfig::new([2; 32]);
    endpoint.receive_memory(0);
    let mut pair = connected(TransportConfig::default(), endpoint);
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[7; TOTAL]), Ok(TOTAL));
    pair.c().send_stream(id).finish().unwrap();
    pair.run_until(3 * SECOND, |_| false);
    let stats = pair.s().stats();
    assert!(stats.refused_packets > 10, "{stats:?}");
    assert!(!pair.s().is_closed() && !pair.c().is_closed());
    let mut largest = 0;
    CollectionSize::for_each(pair.s(), |seen| {
        if seen.what == "memory of a stream" {
            largest = largest.max(seen.size);
        }
    });
    // The reserve, and the rest of a block.
    let most = 2 * GUARANTEED_MEMORY + (16 << 10);
    assert!(largest <= most, "{largest} bytes: {stats:?}");
    assert_eq!(pair.server.endpoint.memory_use().receive, 0);
    assert_eq!(pair.s().streams().accept(Dir::Uni), Some(id));
    let mut got = 0;
    let done = pair.run_until(60 * SECOND, |pair| {
        let mut buf = [0; 10_000];
        loop {
            match pair.s().recv_stream(id).read(&mut buf) {
                Ok(Some(n)) => got += n,
                Ok(None) => return true,
                Err(ReadError::Blocked) => return false,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(done && got == TOTAL, "{got} bytes");
}

/// An application that reads promptly needs no more than what each connection may always hold.
#[test]
fn without_memory_for_received_data_a_reader_goes_on() {
    const TOTAL: usize = 3 << 20;
    let mut endpoint = EndpointConfig::new([1; 32]);
    endpoint.receive_memory(0);
    let transport = TransportConfig::default;
    let server = EndpointConfig::new([2; 32]);
    let mut pair = Pair::with_endpoints(transport(), transport(), [endpoint, server]);
    pair.connect();
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    // Some packets are lost: what comes behind a gap needs memory.
    let mut count = 0;
    pair.filter = Box::new(move |from_client, _, _| {
        count += u64::from(!from_client);
        from_client || count % 50 != 0
    });
    let (mut written, mut got) = (0, 0);
    let done = pair.run_until(120 * SECOND, |pair| {
        while written < TOTAL
            && let Ok(n) = pair.s().send_stream(id).write(&[7; 10_000])
        {
            written += n;
        }
        read_all(pair, id, &mut got);
        got >= TOTAL
    });
    assert!(done, "{got} of {written} bytes: {:?}", pair.c().stats());
}

/// Losses in bursts in a flight as long as the first windows allow, and packets of changing room, so that what is sent
/// again is cut in other places than at first. An application that reads promptly gets all of it, though nothing can be
/// borrowed: what comes next for it always finds room, whatever else is in the same packet, and the sender comes to send
/// it. The network is good again after two seconds.
#[test]
fn without_memory_for_received_data_a_reader_is_never_stuck() {
    const TOTAL: usize = 1 << 20;
    let mut slowest = Duration::ZERO;
    for (seed, streams) in (0..40).flat_map(|seed| [(seed, 1), (seed, 3)]) {
        let talks = seed % 2 == 0;
        let mut endpoint = EndpointConfig::new([1; 32]);
        endpoint.receive_memory(0);
        let mut server = TransportConfig::default();
        server.initial_window(InitialWindow::Packets(800)).unwrap();
        let mut pair = Pair::with_endpoints(
            TransportConfig::default(),
            server,
            [endpoint, EndpointConfig::new([2; 32])],
        );
        pair.connect();
        let mut draws = (seed + 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = move |bound: u64| {
            draws ^= draws << 13;
            draws ^= draws >> 7;
            draws ^= draws << 17;
            draws % bound
        };
        let bad = std::rc::Rc::new(std::cell::Cell::new(true));
        let is_bad = std::rc::Rc::clone(&bad);
        let mut burst = 0;
        pair.filter = Box::new(move |from_client, _, _| {
            if !is_bad.get() {
                return true;
            }
            if from_client {
                return draw(10) != 0;
            }
            if burst == 0 && draw(8) == 0 {
                burst = 1 + draw(12);
            }
            burst = u64::saturating_sub(burst, 1);
            burst == 0
        });
        let ids: Vec<_> = (0..streams)
            .map(|_| pair.s().streams().open(Dir::Uni).unwrap())
            .collect();
        let back = pair.c().streams().open(Dir::Uni).unwrap();
        let mut written = vec![0; streams];
        let mut got = vec![0; streams];
        let began = pair.now;
        let done = pair.run_until(8 * SECOND, |pair| {
            bad.set(pair.now < began + 2 * SECOND);
            for (id, written) in ids.iter().zip(&mut written) {
                while *written < TOTAL / streams {
                    let most = 10_000.min(TOTAL / streams - *written);
                    match pair.s().send_stream(*id).write(&[7; 10_000][..most]) {
                        Ok(n) => *written += n,
                        Err(_) => break,
                    }
                }
            }
            // Acknowledgements take some of the room beside the data.
            if talks {
                let _ = pair.c().send_stream(back).write(&[1; 20]);
            }
            while pair.c().streams().accept(Dir::Uni).is_some() {}
            for (id, got) in ids.iter().zip(&mut got) {
                read_all(pair, *id, got);
            }
            got.iter().sum::<usize>() >= TOTAL / streams * streams
        });
        let took = pair.now - began;
        slowest = slowest.max(took);
        let refused = pair.c().stats().refused_packets;
        println!("seed {seed}, {streams} streams: {took:?}, {refused} packets refused");
        assert!(
            done,
            "seed {seed}, {streams} streams: {got:?} of {written:?} bytes, {refused} packets refused, {:?}",
            pair.c().lost_reason(),
        );
    }
    println!("the slowest took {slowest:?}");
}

fn with_least_rate() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.min_peer_rate(1000, 10 * SECOND);
    config
}

/// A reader that takes ten bytes a second, of a stream with a window of its own choice.
#[test]
fn a_peer_below_the_least_rate_is_closed() {
    let mut client = TransportConfig::default();
    client.receive_window(1000).max_idle_timeout(None);
    let run = |server: TransportConfig, per_second: usize| {
        let mut pair = Pair::new(client.clone(), server);
        pair.connect();
        let id = pair.s().streams().open(Dir::Uni).unwrap();
        let start = pair.now;
        let mut taken = 0;
        pair.run_until(60 * SECOND, |pair| {
            write_all_that_fits(pair.s(), id);
            let now = pair.now;
            pair.c().ping();
            let may = (now - start).as_secs() as usize * per_second;
            let mut buf = vec![0; may - taken];
            if let Ok(Some(n)) = pair.c().recv_stream(id).read(&mut buf) {
                taken += n;
            }
            pair.s().is_closed()
        });
        (pair.now - start, pair.s().lost_reason().cloned())
    };
    let (after, reason) = run(with_least_rate(), 10);
    assert_eq!(reason, Some(ConnectionError::TooSlow));
    assert!(after >= 10 * SECOND && after <= 21 * SECOND, "{after:?}");
    assert_eq!(run(with_least_rate(), 2000).1, None);
    assert_eq!(
        run(TransportConfig::default(), 10).1,
        None,
        "off by default"
    );
}

/// Nothing waits for the peer: it cannot be too slow.
#[test]
fn a_connection_without_data_to_take_is_not_closed() {
    let mut config = with_least_rate();
    config.keep_alive_interval(Some(SECOND));
    let mut pair = Pair::new(TransportConfig::default(), config);
    pair.connect();
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let mut next = pair.now;
    pair.run_until(100 * SECOND, |pair| {
        if pair.now >= next {
            next += 5 * SECOND;
            pair.s().send_stream(id).write(&[1; 10]).unwrap();
        }
        false
    });
    assert_eq!(pair.s().lost_reason(), None);
}
