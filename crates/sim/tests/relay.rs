//! Tests of the relay between plain UDP sockets. They only have lower bounds on times: a loaded
//! machine may be late, but never early.
#![allow(
    clippy::disallowed_methods,
    reason = "the relay lives in real time, and so do its tests"
)]

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mpquic_sim::{LinkConfig, MahimahiTrace, QueueLimit, Relay};

/// Long enough for any machine. Only a failed test waits this long.
const PATIENCE: Duration = Duration::from_secs(20);

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A target, a relay to it, and a client that is connected to the relay.
fn setup(up: LinkConfig, down: LinkConfig) -> (UdpSocket, Relay, UdpSocket) {
    let target = socket();
    let relay = Relay::spawn(loopback(), target.local_addr().unwrap(), up, down, 1).unwrap();
    let client = socket();
    client.connect(relay.addr()).unwrap();
    (target, relay, client)
}

fn receive_number(socket: &UdpSocket) -> (u32, SocketAddr) {
    let mut buffer = [0; 2000];
    let (size, from) = socket.recv_from(&mut buffer).unwrap();
    assert!(size >= 4);
    (u32::from_be_bytes(buffer[..4].try_into().unwrap()), from)
}

fn datagram(number: u32, size: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(size, 0xa5);
    bytes
}

#[test]
fn datagrams_arrive_in_order_and_answers_come_back() {
    let (target, relay, client) = setup(LinkConfig::default(), LinkConfig::default());
    for number in 0..200 {
        client.send(&datagram(number, 1200)).unwrap();
        let (got, from) = receive_number(&target);
        assert_eq!(got, number);
        target.send_to(&datagram(number, 1000), from).unwrap();
        assert_eq!(receive_number(&client).0, number);
    }
    let stats = relay.stats();
    assert_eq!((stats.clients, stats.refused, stats.send_errors), (1, 0, 0));
    assert_eq!(
        (stats.up.delivered, stats.up.bytes_delivered),
        (200, 240_000)
    );
    assert_eq!(
        (stats.down.delivered, stats.down.bytes_delivered),
        (200, 200_000)
    );
}

#[test]
fn each_client_has_a_port_of_its_own() {
    let (target, relay, first) = setup(LinkConfig::default(), LinkConfig::default());
    let second = socket();
    second.connect(relay.addr()).unwrap();
    first.send(&datagram(1, 100)).unwrap();
    let (_, seen_first) = receive_number(&target);
    second.send(&datagram(2, 100)).unwrap();
    let (_, seen_second) = receive_number(&target);
    assert_ne!(seen_first, seen_second);
    target.send_to(&datagram(22, 100), seen_second).unwrap();
    target.send_to(&datagram(11, 100), seen_first).unwrap();
    assert_eq!(receive_number(&first).0, 11);
    assert_eq!(receive_number(&second).0, 22);
    assert_eq!(relay.stats().clients, 2);
}

#[test]
fn nothing_is_earlier_than_the_delay() {
    let (up, down) = (Duration::from_millis(30), Duration::from_millis(50));
    let link = |delay| LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    let (target, _relay, client) = setup(link(up), link(down));
    for number in 0..5 {
        let sent = Instant::now();
        client.send(&datagram(number, 500)).unwrap();
        let (_, from) = receive_number(&target);
        assert!(sent.elapsed() >= up);
        target.send_to(&datagram(number, 500), from).unwrap();
        assert_eq!(receive_number(&client).0, number);
        assert!(sent.elapsed() >= up + down);
    }
}

#[test]
fn nothing_is_faster_than_the_rate() {
    // 200 packets of 1228 bytes on the link at 10 Mbit/s: 196.48 ms.
    let up = LinkConfig::new(10_000_000, Duration::ZERO).with_queue(QueueLimit::Packets(1000));
    let (target, relay, client) = setup(up, LinkConfig::default());
    let began = Instant::now();
    for number in 0..200 {
        client.send(&datagram(number, 1200)).unwrap();
    }
    for number in 0..200 {
        assert_eq!(receive_number(&target).0, number);
        let on_link = Duration::from_nanos((u64::from(number) + 1) * 982_400);
        assert!(began.elapsed() >= on_link, "{number}");
    }
    let busy = relay.stats().up.busy;
    assert_eq!(busy, Duration::from_nanos(200 * 982_400));
}

#[test]
fn nothing_is_faster_than_the_trace() {
    // An opportunity every 2 ms for one full packet: 1472 bytes and the headers.
    let trace = MahimahiTrace::from_millis([2]).unwrap();
    let up = LinkConfig::from_trace(trace, Duration::ZERO);
    let (target, relay, client) = setup(up, LinkConfig::default());
    let began = Instant::now();
    for number in 0..50 {
        client.send(&datagram(number, 1472)).unwrap();
    }
    for number in 0..50 {
        assert_eq!(receive_number(&target).0, number);
        // The first packet comes at any time, each further one at least 2 ms after the one before.
        assert!(began.elapsed() >= number * Duration::from_millis(2));
    }
    assert_eq!(relay.stats().up.delivered, 50);
}

#[test]
fn a_dark_relay_loses_all_and_works_again_when_lit() {
    let (target, relay, client) = setup(LinkConfig::default(), LinkConfig::default());
    relay.set_up(false);
    client.send(&datagram(1, 100)).unwrap();
    // If the link came up before the relay has read the datagram, the datagram would get through.
    let began = Instant::now();
    while relay.stats().up.packets_in < 1 {
        assert!(began.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    relay.set_up(true);
    client.send(&datagram(2, 100)).unwrap();
    assert_eq!(receive_number(&target).0, 2);
    assert_eq!(relay.stats().up.dropped_outage, 1);
}

#[test]
fn settings_can_change() {
    let slow = LinkConfig::new(1000, Duration::from_secs(3600));
    let (target, relay, client) = setup(slow, LinkConfig::default());
    relay.set_delay(Duration::ZERO).unwrap();
    // A second on the link at first.
    client.send(&datagram(1, 97)).unwrap();
    relay.set_rate(None).unwrap();
    assert_eq!(receive_number(&target).0, 1);
    assert!(relay.set_rate(Some(0)).is_err());
    assert!(relay.set_loss(2.0).is_err());
    relay.set_loss(1.0).unwrap();
    client.send(&datagram(2, 97)).unwrap();
    relay.set_loss(0.0).unwrap();
}

#[test]
fn an_impossible_link_is_refused() {
    let bad = LinkConfig::default().with_loss(1.5);
    let error = Relay::spawn(loopback(), loopback(), bad, LinkConfig::default(), 1)
        .err()
        .unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("`loss` is 1.5"), "{error}");
}

#[test]
fn its_port_is_free_after_the_drop() {
    let (_target, relay, _client) = setup(LinkConfig::default(), LinkConfig::default());
    let address = relay.addr();
    drop(relay);
    UdpSocket::bind(address).unwrap();
}

/// Clients at some addresses have links of their own, in both directions.
#[test]
fn clients_of_one_relay_may_have_different_links() {
    let target = socket();
    let open = LinkConfig::default;
    let relay = Relay::spawn(loopback(), target.local_addr().unwrap(), open(), open(), 1).unwrap();
    let second = IpAddr::from([127, 0, 0, 2]);
    let slow = || LinkConfig::new(100_000_000, Duration::from_millis(30));
    relay.add_links(second, slow(), slow(), 2).unwrap();
    let again = relay.add_links(second, open(), open(), 3).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::InvalidInput);
    let clients = [socket(), UdpSocket::bind((second, 0)).unwrap()];
    let round_trip = |client: &UdpSocket| {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(relay.addr()).unwrap();
        let begin = Instant::now();
        client.send(&datagram(7, 100)).unwrap();
        let (_, from) = receive_number(&target);
        target.send_to(&datagram(8, 100), from).unwrap();
        assert_eq!(receive_number(client).0, 8);
        begin.elapsed()
    };
    round_trip(&clients[0]);
    assert!(round_trip(&clients[1]) >= Duration::from_millis(60));
    let (up, down) = relay.link_stats(second).unwrap();
    assert_eq!((up.delivered, down.delivered), (1, 1));
    assert_eq!(relay.stats().up.delivered, 1);
    assert!(relay.link_stats(IpAddr::from([127, 0, 0, 3])).is_none());

    // The one fails, the other does not.
    assert!(relay.set_links_up(second, false));
    clients[1].send(&datagram(9, 100)).unwrap();
    while relay.link_stats(second).unwrap().0.dropped_outage == 0 {
        std::thread::yield_now();
    }
    round_trip(&clients[0]);
}
