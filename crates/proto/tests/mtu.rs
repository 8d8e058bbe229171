//! The largest datagram of a path that shrinks in mid-transfer, loses at random, falls silent or becomes another one
//! (RFC 8899 section 4.3, RFC 9000 section 14).

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{Pair, client_addr};
use mpquic_proto::{Dir, PathId, TransportConfig};

fn connected() -> Pair {
    let mut server = TransportConfig::default();
    server.keep_alive_interval(Some(Duration::from_millis(200)));
    let mut pair = Pair::new(TransportConfig::default(), server);
    pair.connect();
    assert!(pair.run_until(Duration::from_secs(2), |pair| mtu(pair) == 1452));
    pair
}

/// What the server takes the path's datagrams to be.
fn mtu(pair: &mut Pair) -> u16 {
    let stats = pair.server.connection.as_mut();
    stats.map_or(0, |(_, server)| {
        server.path(PathId::ZERO).unwrap().stats().mtu
    })
}

/// The server sends so many bytes; whether they arrive within the time.
fn download(pair: &mut Pair, len: usize, limit: Duration) -> bool {
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let data = vec![7; len];
    let (mut written, mut received, mut buf) = (0, 0, vec![0; 65536]);
    pair.run_until(limit, |pair| {
        while written < len {
            let Ok(more) = pair.s().send_stream(id).write(&data[written..]) else {
                break;
            };
            written += more;
        }
        pair.c().streams().accept(Dir::Uni);
        while let Ok(Some(read)) = pair.c().recv_stream(id).read(&mut buf) {
            received += read;
        }
        received == len
    })
}

/// Time in which little is sent: probes of the size go by the way.
fn wait(pair: &mut Pair, time: Duration) {
    pair.run_until(time, |_| false);
}

/// From some moment on, nothing above a limit passes.
fn narrow(pair: &mut Pair, limit: usize) {
    pair.filter = Box::new(move |_, _, data| data.len() <= limit);
}

#[test]
fn a_path_that_shrinks_is_used_at_the_base_size_and_searched_later() {
    for limit in [1200, 1300] {
        let mut pair = connected();
        assert!(download(&mut pair, 500_000, Duration::from_secs(5)));
        narrow(&mut pair, limit);
        let start = pair.now;
        assert!(
            download(&mut pair, 500_000, Duration::from_secs(10)),
            "stuck with {}",
            mtu(&mut pair)
        );
        println!(
            "narrowed to {limit}: 500,000 bytes in {:?}",
            pair.now - start
        );
        assert!(mtu(&mut pair) <= limit as u16);
        wait(&mut pair, Duration::from_secs(120));
        let found = mtu(&mut pair);
        assert!(
            (limit as u16 - 16..=limit as u16).contains(&found),
            "{found}"
        );
        assert!(download(&mut pair, 500_000, Duration::from_secs(5)));
    }
}

#[test]
fn losses_of_any_size_are_no_black_hole() {
    let mut pair = connected();
    let mut random = 1u32;
    pair.filter = Box::new(move |_, _, _| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random >> 24 > 25
    });
    let least = Rc::new(Cell::new(u16::MAX));
    for _ in 0..5 {
        assert!(download(&mut pair, 200_000, Duration::from_secs(60)));
        least.set(least.get().min(mtu(&mut pair)));
    }
    assert!(pair.s().stats().lost_packets > 50);
    assert_eq!(least.get(), 1452);
}

/// Silence is no black hole: the size is found again as soon as the path is back.
#[test]
fn a_path_that_was_silent_is_searched_at_once() {
    let mut pair = connected();
    pair.filter = Box::new(|_, _, _| false);
    assert!(!download(&mut pair, 500_000, Duration::from_secs(3)));
    assert_eq!(
        mtu(&mut pair),
        1200,
        "small probes are the likelier to pass"
    );
    pair.filter = Box::new(|_, _, _| true);
    wait(&mut pair, Duration::from_secs(5));
    assert_eq!(mtu(&mut pair), 1452);
}

/// RFC 8899 section 3: the size belongs to the network path.
#[test]
fn another_network_path_is_searched_from_the_start() {
    for (host, port) in [(1, 6000), (9, 5000)] {
        let mut pair = connected();
        assert!(download(&mut pair, 500_000, Duration::from_secs(5)));
        let outside = SocketAddr::from(([10, 9, 0, host], port));
        let outside = match host {
            1 => SocketAddr::new(client_addr(0).ip(), port),
            _ => outside,
        };
        pair.nat = vec![(client_addr(0), outside)];
        narrow(&mut pair, 1250);
        pair.c().ping();
        assert!(pair.run_until(Duration::from_secs(5), |pair| {
            pair.s().path(PathId::ZERO).unwrap().network_path().remote == outside
        }));
        assert_eq!(mtu(&mut pair), 1200, "{outside}");
        let start = pair.now;
        assert!(download(&mut pair, 200_000, Duration::from_secs(3)));
        println!("moved to {outside}: {:?}", pair.now - start);
        wait(&mut pair, Duration::from_secs(30));
        let found = mtu(&mut pair);
        assert!((1234..=1250).contains(&found), "{found}");
    }
}

/// A pair whose sides know that their links take IP packets of 9,000 bytes, over a path that takes UDP payloads of `limit`.
fn on_jumbo_links(limit: usize) -> Pair {
    let mut pair = connected();
    pair.link_mtu = Some(9000);
    narrow(&mut pair, limit);
    pair
}

#[test]
fn a_jumbo_link_is_used_by_transfers_and_not_by_less() {
    let mut pair = on_jumbo_links(8972);
    assert!(download(&mut pair, 200_000, Duration::from_secs(5)));
    wait(&mut pair, Duration::from_secs(5));
    assert_eq!(mtu(&mut pair), 1452);
    assert!(download(&mut pair, 100_000, Duration::from_secs(5)));
    assert!(download(&mut pair, 5_000_000, Duration::from_secs(5)));
    assert_eq!(mtu(&mut pair), 8972);
    let before = pair.s().stats();
    assert!(download(&mut pair, 5_000_000, Duration::from_secs(5)));
    let after = pair.s().stats();
    let packets = after.sent_packets - before.sent_packets;
    assert!(packets < 5_000_000 / 8000, "{packets}");
    assert_eq!(after.lost_packets, 0);
    // The other direction is searched by its own sender.
    let theirs = pair.c().path(PathId::ZERO).unwrap().stats().mtu;
    assert_eq!(theirs, 1452);
}

/// No datagram beyond it, whatever the link takes.
#[test]
fn a_configured_size_counts_for_more_than_the_link() {
    let mut server = TransportConfig::default();
    server.max_mtu(1452).unwrap();
    let mut pair = Pair::new(TransportConfig::default(), server);
    pair.link_mtu = Some(9000);
    let largest = Rc::new(Cell::new(0));
    let seen = Rc::clone(&largest);
    pair.filter = Box::new(move |_, _, data| {
        seen.set(seen.get().max(data.len()));
        true
    });
    pair.connect();
    assert!(download(&mut pair, 5_000_000, Duration::from_secs(5)));
    assert_eq!(largest.get(), 1452);
}

/// The links take more than what is between them: some probes get lost, and no data; nor are they taken for congestion.
#[test]
fn a_narrow_path_between_jumbo_links_costs_few_probes() {
    let mut pair = on_jumbo_links(1472);
    let probes = Rc::new(Cell::new(0));
    let seen = Rc::clone(&probes);
    pair.filter = Box::new(move |_, _, data| {
        seen.set(seen.get() + usize::from(data.len() > 1472));
        data.len() <= 1472
    });
    let start = pair.now;
    for _ in 0..20 {
        assert!(download(&mut pair, 5_000_000, Duration::from_secs(10)));
    }
    wait(&mut pair, Duration::from_secs(20));
    println!("{} probes in {:?}", probes.get(), pair.now - start);
    assert_eq!(probes.get(), 6);
    assert_eq!(mtu(&mut pair), 1452);
    let stats = pair.s().stats();
    assert_eq!((stats.lost_packets, stats.retransmitted_bytes), (0, 0));
    let path = pair.s().path(PathId::ZERO).unwrap().stats();
    assert_eq!(path.congestion_events, 0);
}

#[test]
fn a_jumbo_path_that_shrinks_is_used_at_what_is_left() {
    for limit in [1200, 1472] {
        let mut pair = on_jumbo_links(8972);
        assert!(download(&mut pair, 5_000_000, Duration::from_secs(5)));
        assert_eq!(mtu(&mut pair), 8972);
        narrow(&mut pair, limit);
        let start = pair.now;
        assert!(
            download(&mut pair, 500_000, Duration::from_secs(10)),
            "stuck with {}",
            mtu(&mut pair)
        );
        println!(
            "narrowed to {limit}: 500,000 bytes in {:?}",
            pair.now - start
        );
        wait(&mut pair, Duration::from_secs(10));
        assert_eq!(mtu(&mut pair), limit.min(1452) as u16);
        // Wide again: the jumbo size is back with the next search.
        narrow(&mut pair, 8972);
        wait(&mut pair, Duration::from_secs(700));
        for _ in 0..2 {
            assert!(download(&mut pair, 5_000_000, Duration::from_secs(10)));
        }
        assert_eq!(mtu(&mut pair), 8972);
    }
}
