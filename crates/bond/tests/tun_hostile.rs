//! A client of a tunnel that makes its packets, lanes and requests itself, against the program: nothing of it gets to the server's device but what its rules have, and no
//! more waits for it than the limits say. Needs root, Linux and a TUN device; elsewhere it says why it does nothing.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mpquic::{Connection, Endpoint, SendStream};
use socket2::{Domain, Protocol, Socket, Type};

use crate::common::process::DEADLINE;
use crate::common::run;
use crate::common::stranger::{ask, connected, greet};
use crate::tun::{Net, SERVER};

const TCP: u8 = 6;
const UDP: u8 = 17;
const OWN: [u8; 4] = [10, 66, 0, 2];
const ALLOWED: [u8; 4] = [10, 88, 0, 2];
const PORT: u16 = 9;
const COOKIE: [u8; 16] = [7; 16];
/// What a packet that is in order carries.
const HONEST: &[u8] = b"honest";

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    let ports = [4000_u16.to_be_bytes(), port.to_be_bytes()].concat();
    [&ports[..], &len, &[0, 0], payload].concat()
}

/// A packet of IPv4; `fragment` has its flags and offset.
fn v4(from: [u8; 4], to: [u8; 4], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.iter().chain(&to));
    let words = packet.chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.extend(payload);
    packet
}

fn v6(from: &str, to: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    for address in [from, to] {
        packet.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    packet.extend(payload);
    packet
}

fn honest() -> Vec<u8> {
    v4(OWN, ALLOWED, UDP, 0, &udp(PORT, HONEST))
}

/// What must not get to the device, with what is wrong with it.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let good = udp(PORT, b"hostile");
    let mut packets = Vec::new();
    // The server, a neighbour, a machine behind it, this host, nobody, everybody.
    for from in [
        [10, 66, 0, 1],
        [10, 66, 0, 3],
        ALLOWED,
        [127, 0, 0, 1],
        [0; 4],
        [255; 4],
    ] {
        packets.push(("a source of another", v4(from, ALLOWED, UDP, 0, &good)));
    }
    for from in [
        "fd66::1",
        "fd66::3",
        "fd88::2",
        "::1",
        "fe80::1",
        "::",
        "::ffff:10.66.0.2",
    ] {
        packets.push(("a source of another", v6(from, "fd88::2", UDP, &good)));
    }
    // The server by all of its addresses, its tunnel's port among them; itself; a neighbour; this host; groups; all; the services of clouds.
    let server = [10, 77, 0, 1];
    let to_port = |port| udp(port, b"hostile");
    for (to, port) in [
        ([10, 66, 0, 1], PORT),
        (server, 4433),
        ([10, 77, 1, 1], 4433),
        ([10, 77, 1, 2], PORT),
        ([10, 88, 0, 1], PORT),
        (OWN, PORT),
        ([10, 66, 0, 3], PORT),
        ([10, 66, 0, 255], PORT),
        ([127, 0, 0, 1], PORT),
        ([224, 0, 0, 1], PORT),
        ([255; 4], PORT),
        ([169, 254, 169, 254], 80),
        ([0; 4], PORT),
    ] {
        packets.push((
            "a target that is not allowed",
            v4(OWN, to, UDP, 0, &to_port(port)),
        ));
    }
    for to in [
        "fd66::1",
        "fd66::2",
        "fd66::3",
        "fd88::1",
        "::1",
        "::",
        "ff02::1",
        "fe80::1",
        "::ffff:10.66.0.1",
    ] {
        packets.push((
            "a target that is not allowed",
            v6("fd66::2", to, UDP, &good),
        ));
    }
    packets.push(("another port", v4(OWN, ALLOWED, UDP, 0, &to_port(10))));
    packets.push(("another port", v6("fd66::2", "fd88::2", TCP, &to_port(10))));
    // Of fragments, the first alone has a port, and only if it is not too short for one.
    packets.push(("a later fragment", v4(OWN, ALLOWED, UDP, 1, &good)));
    packets.push((
        "a fragment that ends before the port",
        v4(OWN, ALLOWED, UDP, 0x2000, &good[..2]),
    ));
    packets.push((
        "a later fragment",
        v6(
            "fd66::2",
            "fd88::2",
            44,
            &[&[UDP, 0, 0, 8, 0, 0, 0, 1], &good[..]].concat(),
        ),
    ));
    packets.push((
        "half of a head of a fragment",
        v6("fd66::2", "fd88::2", 44, &[UDP, 0, 0, 0]),
    ));
    for protocol in [1, 4, 41, 47, 50, 132] {
        packets.push((
            "a protocol without ports",
            v4(OWN, ALLOWED, protocol, 0, &good),
        ));
    }
    // Options hop by hop, routing headers, options of the target, another fragment inside of one.
    for next in [0, 43, 60, 51, 135] {
        packets.push((
            "a head behind which a port may hide",
            v6(
                "fd66::2",
                "fd88::2",
                next,
                &[&[UDP, 0, 0, 0, 0, 0, 0, 0], &good[..]].concat(),
            ),
        ));
    }
    packets.push((
        "a fragment of a fragment",
        v6(
            "fd66::2",
            "fd88::2",
            44,
            &[&[44, 0, 0, 0, 0, 0, 0, 1], &good[..]].concat(),
        ),
    ));
    // Lengths that lie, and what is no packet.
    let whole = honest();
    for at in [0, 1, 19, 20, whole.len() - 1] {
        packets.push(("a packet cut off", whole[..at].to_vec()));
    }
    packets.push(("more than its length", [&whole[..], &[0; 9]].concat()));
    for first in [0x40, 0x44, 0x4f, 0x05, 0x55, 0xf5] {
        let mut odd = whole.clone();
        odd[0] = first;
        packets.push(("a head of no length or version", odd));
    }
    packets
}

/// How many packets the server's process has handed to its system, or tried to.
fn at_device(net: &Net) -> u64 {
    let of = |what: &str| -> u64 {
        let file = format!("/sys/class/net/mpbond0/statistics/{what}");
        net.exec("far", &format!("cat {file}"))
            .trim()
            .parse()
            .unwrap()
    };
    of("rx_packets") + of("rx_dropped") + of("rx_errors")
}

async fn guest(pin: &str) -> (Endpoint, Connection) {
    let fingerprint = pin.strip_prefix("sha256:").unwrap().parse().unwrap();
    let server = SocketAddr::new(SERVER.parse().unwrap(), 4433);
    let local = (Ipv4Addr::new(10, 77, 1, 2), 0).into();
    let (endpoint, connection) = connected(local, server, fingerprint).await.unwrap();
    greet(&connection).await;
    (endpoint, connection)
}

fn tunnel(cookie: [u8; 16]) -> Vec<u8> {
    [&[6][..], &cookie].concat()
}

async fn write(lane: &mut SendStream, packet: &[u8]) {
    let framed = [&(packet.len() as u16).to_be_bytes()[..], packet].concat();
    lane.write_all(&framed).await.unwrap();
}

fn datagram(part: u8, number: u32, rest: &[u8]) -> bytes::Bytes {
    [&[0xff; 4][..], &[part], &number.to_be_bytes(), rest]
        .concat()
        .into()
}

/// Those that came to the machine behind the server; `None` was nothing for a while.
fn took(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut taken = [0; 2000];
    let (len, from) = socket.recv_from(&mut taken).ok()?;
    assert_eq!(from, (Ipv4Addr::from(OWN), 4000).into());
    Some(taken[..len].to_vec())
}

#[test]
fn hostile_packets_go_nowhere() {
    let Some(net) = Net::new("tunevil") else {
        return;
    };
    let (_server, pin) = net.server(&["10.88.0.2:9", "[fd88::2]:9", "*:*"]);
    let target = net.at("tail", || UdpSocket::bind("10.88.0.2:9").unwrap());
    target
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let wait = || {
        let begun = Instant::now();
        while took(&target).is_none_or(|payload| payload != HONEST) {
            assert!(begun.elapsed() < DEADLINE, "what is allowed does not come");
        }
    };
    let attack = async {
        let (_endpoint, connection) = guest(&pin).await;
        assert_ne!(
            ask(&connection, &[7, 0]).await.0,
            Some(0),
            "a lane without a tunnel"
        );
        let (answer, mut control, mut lease) = ask(&connection, &tunnel(COOKIE)).await;
        assert_eq!(answer, Some(0));
        lease.read_exact(&mut [0; 2 + 2 + 1]).await.unwrap();
        // Another tunnel beside it, by whichever secret.
        for cookie in [COOKIE, [8; 16]] {
            assert_eq!(ask(&connection, &tunnel(cookie)).await.0, Some(6));
        }
        let (answer, mut lane, mut back) = ask(&connection, &[7, 0]).await;
        assert_eq!(answer, Some(0));
        // The same one again, and some that there are not.
        for number in [0, 32, 255] {
            let (_, _send, mut recv) = ask(&connection, &[7, number]).await;
            assert!(recv.read_exact(&mut [0]).await.is_err(), "{number}");
        }
        let (before, mut taken) = (at_device(&net), 0);
        let only_honest = |what: &str, packet: &[u8], taken: u64| {
            let came = at_device(&net) - before;
            assert_eq!(came, taken, "{what}: {packet:02x?}");
        };
        for (what, packet) in hostile() {
            write(&mut lane, &packet).await;
            write(&mut lane, &honest()).await;
            wait();
            taken += 1;
            only_honest(what, &packet, taken);
        }
        // The same in datagrams, whole and in halves, beside some that are of no kind.
        let mut number = 0;
        let mut next = || {
            number += 1;
            number
        };
        let send = |part: u8, number: u32, rest: &[u8]| {
            // One that does not fit is lost.
            let _ = connection.send_datagram(datagram(part, number, rest));
        };
        for (what, packet) in hostile() {
            send(0, next(), &packet);
            send(3, next(), &packet);
            let (first, second) = packet.split_at(packet.len() / 2);
            for order in [[(1, first), (2, second)], [(2, second), (1, first)]] {
                let number = next();
                for (part, half) in order {
                    send(part, number, half);
                }
            }
            // One that is lost is sent again.
            let begun = Instant::now();
            loop {
                // A copy of it is none.
                let number = next();
                send(0, number, &honest());
                send(0, number, &honest());
                if took(&target).is_some() {
                    break;
                }
                assert!(begun.elapsed() < DEADLINE, "what is allowed does not come");
            }
            taken += 1;
            while took(&target).is_some() {
                taken += 1;
            }
            only_honest(what, &packet, taken);
        }
        // The end of a tunnel is that of its lanes: who has its address next is not spoken for.
        control.reset(0_u32.into()).unwrap();
        let end = tokio::time::timeout(DEADLINE / 4, back.read_exact(&mut [0])).await;
        assert!(end.expect("a lane lives on without its tunnel").is_err());
        let denied = async || ask(&connection, &[7, 1]).await.0;
        let begun = Instant::now();
        while denied().await != Some(1) {
            assert!(begun.elapsed() < DEADLINE, "lanes without a tunnel");
        }
        // Again, with the same addresses; nobody has those of others as well.
        assert_ne!(ask(&connection, &tunnel([8; 16])).await.0, Some(0));
        let (answer, _control, _lease) = ask(&connection, &tunnel(COOKIE)).await;
        assert_eq!(answer, Some(0));
        let (answer, mut lane, _back) = ask(&connection, &[7, 0]).await;
        assert_eq!(answer, Some(0));
        write(&mut lane, &honest()).await;
        wait();
    };
    net.at("near", || run(attack));
}

/// Resident memory of a process, bytes.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// A client that takes nothing of what comes for it: of 60 MB, its share waits.
#[test]
fn packets_that_nobody_takes_are_dropped() {
    let Some(net) = Net::new("tunfull") else {
        return;
    };
    let (server, pin) = net.server(&["10.88.0.0/24:*"]);
    let server_id = server.child.id();
    let raw = net.at("tail", || {
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).unwrap()
    });
    let target = net.at("tail", || UdpSocket::bind("10.88.0.2:9").unwrap());
    let to = SocketAddr::from((Ipv4Addr::from(OWN), 0)).into();
    let handed = || -> u64 {
        let file = "/sys/class/net/mpbond0/statistics/tx_packets";
        net.exec("far", &format!("cat {file}"))
            .trim()
            .parse()
            .unwrap()
    };
    let flood = async {
        let (_endpoint, connection) = guest(&pin).await;
        let (answer, _control, _lease) = ask(&connection, &tunnel(COOKIE)).await;
        assert_eq!(answer, Some(0));
        let (before, first, begun) = (memory(server_id), handed(), Instant::now());
        let mut packet = [0; 1_320];
        let mut flow = 0_u32;
        // Of many flows, so that all lanes have some. What the device does not take is no part of it.
        while handed() < first + 45_000 {
            assert!(begun.elapsed() < DEADLINE, "{}", handed() - first);
            for _ in 0..500 {
                flow += 1;
                packet[..4].copy_from_slice(&flow.to_be_bytes());
                packet[12] = 0x50;
                raw.send_to(&packet, &to).unwrap();
            }
        }
        // The packets before this one have been read.
        while {
            target.send_to(HONEST, (Ipv4Addr::from(OWN), 4000)).unwrap();
            let came = tokio::time::timeout(Duration::from_millis(300), connection.read_datagram());
            came.await.is_err()
        } {
            assert!(begun.elapsed() < DEADLINE, "the server reads no packets");
        }
        let more = memory(server_id).saturating_sub(before);
        assert!(more < 20_000_000, "{more} bytes more are held");
    };
    net.at("near", || run(flood));
}
