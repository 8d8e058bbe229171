//! Tests of the endpoint without connections: routing, answers, and connections that wait.

use std::time::Duration;

use mpquic_test_support::tls::Identity;
use mpquic_wire::packet::{FIXED_BIT, LONG_TYPE_MASK};
use proptest::prelude::*;

use super::*;
use crate::{ConnectionError, limits};

pub(super) const CLIENT: &str = "192.0.2.1:1111";

pub(super) fn path(remote: &str) -> FourTuple {
    FourTuple {
        local: "0.0.0.0:443".parse().unwrap(),
        remote: remote.parse().unwrap(),
    }
}

fn server_config(max_incoming: usize) -> Arc<ServerConfig> {
    let tls = Identity::new().server();
    let mut config = ServerConfig::new(Arc::new(tls)).unwrap();
    config.max_incoming(max_incoming).retry_above(usize::MAX);
    Arc::new(config)
}

/// An endpoint, the time, and the answers it wrote.
pub(super) struct Bench {
    pub(super) endpoint: Endpoint,
    pub(super) now: Instant,
    pub(super) buf: Vec<u8>,
}

impl Bench {
    pub(super) fn client() -> Self {
        Self::with(None)
    }

    pub(super) fn server() -> Self {
        Self::with(Some(server_config(limits::MAX_INCOMING)))
    }

    pub(super) fn with(server: Option<Arc<ServerConfig>>) -> Self {
        Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::new([5; 32])), server),
            now: Instant::now(),
            buf: Vec::new(),
        }
    }

    pub(super) fn handle_from(&mut self, remote: &str, datagram: &[u8]) -> Option<DatagramEvent> {
        self.buf.clear();
        self.endpoint
            .handle(self.now, path(remote), None, datagram.into(), &mut self.buf)
    }

    pub(super) fn handle(&mut self, datagram: &[u8]) -> Option<DatagramEvent> {
        self.handle_from(CLIENT, datagram)
    }

    /// The connection that a datagram is for.
    fn target(&mut self, datagram: &[u8]) -> Option<ConnectionHandle> {
        match self.handle(datagram)? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                assert_eq!(event.datagrams, datagram);
                assert_eq!(event.network_path, path(CLIENT));
                Some(handle)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn response(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        match self.handle(datagram)? {
            DatagramEvent::Response(transmit) => {
                assert_eq!(transmit.network_path, path(CLIENT));
                assert_eq!(transmit.size, self.buf.len());
                assert_eq!(transmit.segment_size, None);
                Some(self.buf.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn incoming(&mut self, datagram: &[u8]) -> Option<Incoming> {
        match self.handle(datagram)? {
            DatagramEvent::NewConnection(incoming) => Some(incoming),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn tell(&mut self, handle: ConnectionHandle, event: EndpointEvent) {
        self.endpoint.handle_event(handle, event);
    }

    /// Nothing left behind by those that wait.
    pub(super) fn assert_none_waits(&self) {
        assert_eq!(self.endpoint.half_open(), HalfOpen::default());
        assert_eq!(self.endpoint.poll_timeout(), None);
        assert_eq!(self.endpoint.waiting.len(), 0);
        assert_eq!(self.endpoint.waiting.bytes(), 0);
        // What was closed keeps its route for a while.
        let closed = self.endpoint.refused.len();
        assert!(self.endpoint.routes.sizes().0 <= closed && closed <= limits::MAX_CLOSED_KEPT);
    }
}

fn cid(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8])
}

fn short(id: &[u8], len: usize) -> Vec<u8> {
    let mut datagram = [&[0x40], id].concat();
    datagram.resize(len.max(datagram.len()), 0xee);
    datagram
}

fn long(first: u8, version: u32, dcid: &[u8], scid: &[u8], len: usize) -> Vec<u8> {
    let mut datagram = vec![first];
    datagram.extend(version.to_be_bytes());
    for id in [dcid, scid] {
        datagram.push(id.len() as u8);
        datagram.extend(id);
    }
    if version == Version::V1.number() && first & LONG_TYPE_MASK == 0 {
        // An Initial packet: no token, and the rest is its payload.
        let rest = len.saturating_sub(datagram.len() + 3) as u16;
        datagram.push(0);
        datagram.extend((0x4000 | rest).to_be_bytes());
    }
    datagram.resize(len.max(datagram.len()), 0xee);
    datagram
}

pub(super) fn initial(dcid: u64) -> Vec<u8> {
    long(0xc0, 1, &dcid.to_be_bytes(), &[9; 8], 1200)
}

#[test]
fn routes_by_connection_id_until_retired() {
    let mut bench = Bench::client();
    let a = bench.endpoint.register(None);
    let b = bench.endpoint.register(None);
    bench.tell(a, EndpointEvent::AddCid(cid(1)));
    bench.tell(b, EndpointEvent::AddCid(cid(2)));
    // Taken already: stays with the first.
    bench.tell(b, EndpointEvent::AddCid(cid(1)));
    bench.tell(b, EndpointEvent::RetireCid(cid(1)));
    assert_eq!(bench.target(&short(&cid(1), 30)), Some(a));
    assert_eq!(bench.target(&short(&cid(2), 30)), Some(b));
    assert_eq!(bench.target(&long(0xe0, 1, &cid(2), &[], 30)), Some(b));
    // Version negotiation for a client; not another version.
    assert_eq!(bench.target(&long(0x80, 0, &cid(2), &[], 30)), Some(b));
    assert!(bench.handle(&long(0xc0, 2, &cid(2), &[], 1200)).is_none());
    bench.tell(a, EndpointEvent::RetireCid(cid(1)));
    assert!(bench.handle(&short(&cid(1), 30)).is_none());
}

//= specs/rfc9000.txt#section-17.2
//= type=test
//# Packets containing a zero value for this bit are not valid packets in this version and MUST be
//# discarded.
//= specs/rfc9000.txt#section-17.3.1
//= type=test
//# Packets containing a zero value for this bit are not valid packets in this version and MUST be
//# discarded.
/// RFC 9287: a packet without the QUIC bit is routed, begins a connection and is answered with a reset only where
/// the endpoint takes either value of it. Version negotiation has none (RFC 9000 section 17.2.1).
#[test]
fn packets_without_the_quic_bit() {
    for greased in [true, false] {
        let mut config = EndpointConfig::new([5; 32]);
        config.grease_quic_bit(greased);
        let server = Some(server_config(limits::MAX_INCOMING));
        let mut bench = Bench::server();
        bench.endpoint = Endpoint::new(Arc::new(config), server);
        let a = bench.endpoint.register(None);
        bench.tell(a, EndpointEvent::AddCid(cid(1)));
        let short = |id: &[u8]| {
            let mut datagram = short(id, 100);
            datagram[0] &= !FIXED_BIT;
            datagram
        };
        let routed = greased.then_some(a);
        assert_eq!(bench.target(&short(&cid(1))), routed);
        assert_eq!(bench.target(&long(0xa0, 1, &cid(1), &[], 100)), routed);
        assert_eq!(bench.target(&long(0x80, 0, &cid(1), &[], 30)), Some(a));
        assert_eq!(bench.response(&short(&cid(2))).is_some(), greased);
        let mut first = initial(1);
        first[0] &= !FIXED_BIT;
        assert_eq!(bench.incoming(&first).is_some(), greased);
    }
}

#[test]
fn drained_connections_leave_nothing() {
    let mut bench = Bench::client();
    let remote = CLIENT.parse().unwrap();
    let a = bench.endpoint.register(None);
    let b = bench.endpoint.register(None);
    assert_ne!(a, b);
    for n in 0..10 {
        bench.tell(a, EndpointEvent::AddCid(cid(n)));
        bench.tell(a, EndpointEvent::AddResetToken(remote, [n; 16]));
    }
    bench.tell(b, EndpointEvent::AddCid(cid(50)));
    assert_eq!(bench.endpoint.open_connections(), 2);
    bench.tell(a, EndpointEvent::Drained);
    assert_eq!(bench.endpoint.open_connections(), 1);
    assert_eq!(bench.endpoint.routes.sizes(), (1, 0));
    // Events of the gone change nothing.
    bench.tell(a, EndpointEvent::AddCid(cid(1)));
    bench.tell(a, EndpointEvent::Drained);
    assert_eq!(bench.endpoint.routes.sizes(), (1, 0));
    assert_eq!(bench.target(&short(&cid(50), 30)), Some(b));
}

//= specs/rfc9000.txt#section-10.3
//= type=test
//# However, endpoints MUST treat any packet ending in a valid stateless reset token as a Stateless
//# Reset, as other QUIC versions might allow the use of a long header.
#[test]
fn stateless_resets_reach_the_connection() {
    let mut bench = Bench::client();
    let remote = CLIENT.parse().unwrap();
    let a = bench.endpoint.register(None);
    bench.tell(a, EndpointEvent::AddResetToken(remote, [7; 16]));
    let mut reset = short(&cid(200), 30);
    reset.extend([7; 16]);
    assert_eq!(bench.target(&reset), Some(a));
    // With any header, whole or not (RFC 9000 section 10.3), from 21 bytes on.
    let mut odd = vec![0xff; 5];
    odd.extend([7; 16]);
    assert_eq!(bench.target(&odd), Some(a));
    assert!(bench.handle(&odd[1..]).is_none());
    // From elsewhere, or later, it is not one.
    assert!(!matches!(
        bench.handle_from("192.0.2.1:1112", &reset),
        Some(DatagramEvent::ConnectionEvent(..))
    ));
    bench.tell(a, EndpointEvent::RemoveResetToken(remote, [7; 16]));
    assert!(bench.handle(&odd).is_none());
}

/// What receive offload has joined comes apart where the connection changes, and not elsewhere.
#[test]
fn datagrams_that_came_together_are_looked_up_once_for_each_connection() {
    let mut bench = Bench::client();
    let mut connect = |id: u8| {
        let handle = bench.endpoint.register(None);
        bench.tell(handle, EndpointEvent::AddCid(cid(id)));
        handle
    };
    let (a, b) = (connect(1), connect(2));
    let mut message = BytesMut::new();
    let mut expected = Vec::new();
    let unknown = long(0xc0, 0x1a2a_3a4a, &cid(1), &cid(7), 40);
    for (datagram, to) in [
        (short(&cid(1), 40), Some(a)),
        (short(&cid(1), 40), Some(a)),
        (short(&cid(2), 40), Some(b)),
        (short(&cid(1), 40), Some(a)),
        // Nobody's, and of another form.
        (short(&cid(9), 40), None),
        (unknown, None),
        (short(&cid(2), 40), Some(b)),
        (short(&cid(2), 40), Some(b)),
        // The last one is shorter.
        (short(&cid(2), 21), Some(b)),
    ] {
        message.extend_from_slice(&datagram);
        expected.push((to, datagram));
    }
    let mut got = Vec::new();
    let mut counts = Vec::new();
    while !message.is_empty() {
        let Bench {
            endpoint, now, buf, ..
        } = &mut bench;
        match endpoint.handle_first(*now, path(CLIENT), None, &mut message, 40, buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let pieces = event.datagrams.chunks(event.segment);
                got.extend(pieces.map(|piece| (Some(handle), piece.to_vec())));
                counts.push(event.count());
            }
            other => assert!(other.is_none(), "{other:?}"),
        }
    }
    expected.retain(|(to, _)| to.is_some());
    assert_eq!(got, expected);
    assert_eq!(counts, [2, 1, 1, 3]);
    // Nor is there an end in what is empty, or shorter than a header.
    for rest in [&[][..], &[0x40, 1]] {
        let mut rest = BytesMut::from(rest);
        let Bench {
            endpoint, now, buf, ..
        } = &mut bench;
        let none = endpoint.handle_first(*now, path(CLIENT), None, &mut rest, 1, buf);
        assert!(none.is_none());
        assert!(rest.len() < 2);
    }
}

/// RFC 9287: what receive offload has joined stays together whatever the QUIC bits are, where either value is taken. Where
/// it is not, a datagram without the bit is nobody's, and those around it are still the connection's.
#[test]
fn datagrams_that_came_together_may_differ_in_the_quic_bit() {
    for (greased, expected) in [(true, &[4][..]), (false, &[1, 2])] {
        let mut config = EndpointConfig::new([5; 32]);
        config.grease_quic_bit(greased);
        let mut bench = Bench::client();
        bench.endpoint = Endpoint::new(Arc::new(config), None);
        let a = bench.endpoint.register(None);
        bench.tell(a, EndpointEvent::AddCid(cid(1)));
        let mut message = BytesMut::new();
        for bit in [FIXED_BIT, 0, FIXED_BIT, FIXED_BIT] {
            let mut datagram = short(&cid(1), 40);
            datagram[0] = datagram[0] & !FIXED_BIT | bit;
            message.extend_from_slice(&datagram);
        }
        let mut counts = Vec::new();
        while !message.is_empty() {
            let Bench {
                endpoint, now, buf, ..
            } = &mut bench;
            match endpoint.handle_first(*now, path(CLIENT), None, &mut message, 40, buf) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    assert_eq!(handle, a);
                    counts.push(event.count());
                }
                other => assert!(!greased && other.is_none(), "{other:?}"),
            }
        }
        assert_eq!(counts, expected);
    }
}

#[test]
fn sends_stateless_resets_by_size_and_rate() {
    let mut bench = Bench::server();
    let expected = bench.endpoint.reset_key.token(&cid(1));
    for len in [43, 44, 100, 1500] {
        let reset = bench.response(&short(&cid(1), len)).unwrap();
        assert!(reset.len() < len);
        assert_eq!(reset[reset.len() - 16..], expected);
    }
    for len in 0..43 {
        assert!(bench.handle(&short(&cid(1), len)).is_none());
    }
    // Never to long headers.
    assert!(bench.handle(&long(0xe0, 1, &cid(1), &[], 1200)).is_none());
    let flood = (0..1000)
        .filter(|_| bench.response(&short(&cid(1), 100)).is_some())
        .count();
    assert!(flood <= 64, "{flood}");
    bench.now += Duration::from_secs(1);
    assert!(bench.response(&short(&cid(1), 100)).is_some());
}

#[test]
fn two_endpoints_that_reset_each_other_stop() {
    let (mut a, mut b) = (Bench::client(), Bench::client());
    let mut packet = short(&cid(1), 1400);
    let mut count = 0;
    while let Some(answer) = a.response(&packet) {
        packet = answer;
        std::mem::swap(&mut a, &mut b);
        count += 1;
        assert!(count < 60);
    }
}

//= specs/rfc9000.txt#section-5.2.2
//= type=test
//# If a server receives a packet that indicates an unsupported version and if the packet is large
//# enough to initiate a new connection for any supported version, the server SHOULD send a Version
//# Negotiation packet as described in Section 6.1.
#[test]
fn version_negotiation() {
    let mut bench = Bench::server();
    let strange = long(0x90, 0xabcd, &[1; 30], &[2; 200], 1200);
    let answer = bench.response(&strange).unwrap();
    let parsed = parse_invariant(&answer, 8).unwrap();
    assert!(
        matches!(parsed, Invariant::Long { version: 0, dcid, scid, .. }
            if dcid == [2; 200] && scid == [1; 30])
    );
    // Not for small ones, not in reply to itself, not by clients.
    assert!(bench.handle(&strange[..1199]).is_none());
    let mut negotiation = answer.clone();
    negotiation.resize(1300, 0);
    assert!(bench.handle(&negotiation).is_none());
    assert!(Bench::client().handle(&strange).is_none());
    bench.endpoint.set_server_config(None);
    assert!(bench.handle(&strange).is_none());
}

//= specs/rfc9000.txt#section-5.2.2
//= type=test
//# Clients are not able to send Handshake packets prior to receiving a server response, so servers
//# SHOULD ignore any such packets.
//= specs/rfc9000.txt#section-14.1
//= type=test
//# A server MUST discard an Initial packet that is carried in a UDP datagram with a payload that is
//# smaller than the smallest allowed maximum datagram size of 1200 bytes.
#[test]
fn what_is_no_first_initial() {
    let mut bench = Bench::server();
    let dcid = [1; 8];
    let cases = [
        initial(1)[..1199].to_vec(),
        long(0xc0, 1, &dcid[..7], &[], 1200),
        long(0xc0, 1, &[1; 21], &[], 1200),
        long(0xc0, 1, &dcid, &[1; 21], 1200),
        // 0-RTT, Handshake, Retry.
        long(0xd0, 1, &dcid, &[], 1200),
        long(0xe0, 1, &dcid, &[], 1200),
        long(0xf0, 1, &dcid, &[], 1200),
        // A header that ends nowhere.
        [&long(0xc0, 1, &dcid, &[], 20)[..16], &[0xee; 1200]].concat(),
    ];
    for case in cases {
        assert!(bench.handle(&case).is_none());
    }
    bench.assert_none_waits();
    assert!(Bench::client().handle(&initial(1)).is_none());
    let incoming = bench.incoming(&long(0xcf, 1, &[1; 20], &[], 1200)).unwrap();
    assert_eq!(incoming.network_path(), path(CLIENT));
    bench.endpoint.ignore(incoming);
    bench.assert_none_waits();
}

#[test]
fn repeated_initials_wait_together() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    let other = bench.incoming(&initial(2)).unwrap();
    for _ in 0..3 {
        assert!(bench.handle(&initial(1)).is_none());
    }
    assert_eq!(bench.endpoint.forget(&incoming).unwrap().len(), 3);
    assert_eq!(bench.endpoint.forget(&other).unwrap().len(), 0);
    bench.assert_none_waits();
}

#[test]
fn memory_of_the_waiting_is_bounded() {
    let mut bench = Bench::server();
    // Jumbo datagrams for one; many for all.
    assert!(
        bench
            .incoming(&long(0xc0, 1, &[1; 8], &[], 15_001))
            .is_none()
    );
    let mut all = Vec::new();
    for n in 0..limits::MAX_INCOMING as u64 {
        let Some(incoming) = bench.incoming(&initial(n)) else {
            break;
        };
        all.push(incoming);
        for size in [1, 9000, 9000, 1200, 9000] {
            bench.handle(&long(0xc0, 1, &n.to_be_bytes(), &[], size));
        }
        assert!(bench.endpoint.waiting.bytes() <= limits::MAX_INCOMING_BUFFER_TOTAL);
    }
    for incoming in all {
        let kept: usize = bench
            .endpoint
            .forget(&incoming)
            .unwrap()
            .iter()
            .map(|event| event.datagrams.len())
            .sum();
        assert!(kept + 1200 <= limits::MAX_INCOMING_BUFFER);
    }
    bench.assert_none_waits();
    // Tiny datagrams are not cheaper than what keeping them takes.
    let incoming = bench.incoming(&initial(1)).unwrap();
    for _ in 0..100_000 {
        bench.handle(&long(0xc0, 1, &1_u64.to_be_bytes(), &[], 0));
    }
    assert!(bench.endpoint.forget(&incoming).unwrap().len() < 200);
}

#[test]
fn saturation_drops_initials_and_recovers() {
    let mut bench = Bench::with(Some(server_config(10)));
    let mut all: Vec<_> = (0..100)
        .filter_map(|n| bench.incoming(&initial(n)))
        .collect();
    assert_eq!(all.len(), 10);
    assert_eq!(bench.endpoint.routes.sizes().0, 10);
    bench.endpoint.ignore(all.pop().unwrap());
    assert!(bench.incoming(&initial(200)).is_some_and(|incoming| {
        all.push(incoming);
        true
    }));
    assert!(bench.incoming(&initial(201)).is_none());
}

#[test]
fn the_half_open_budget_counts_connections() {
    let mut config = (*shared_server()).clone();
    config.max_half_open(5);
    let mut bench = Bench::with(Some(Arc::new(config)));
    let mut waiting: Vec<_> = (0..10)
        .filter_map(|n| bench.incoming(&initial(n)))
        .collect();
    assert_eq!(waiting.len(), 5);
    assert_eq!(bench.endpoint.half_open().connections, 5);
    // One is gone, another's handshake is under way: the place of the first is free.
    bench.endpoint.ignore(waiting.pop().unwrap());
    let incoming = waiting.pop().unwrap();
    assert!(bench.endpoint.forget(&incoming).is_some());
    let handle = bench.endpoint.register(Some(Share::default()));
    assert!(bench.incoming(&initial(20)).is_some());
    assert!(bench.incoming(&initial(21)).is_none());
    // Complete: no longer half open. To say so twice changes nothing.
    for _ in 0..2 {
        bench.tell(handle, EndpointEvent::HandshakeComplete);
        assert_eq!(bench.endpoint.half_open().connections, 4);
    }
    assert!(bench.incoming(&initial(22)).is_some());
    assert!(bench.incoming(&initial(23)).is_none());
    bench.tell(handle, EndpointEvent::Drained);
    assert_eq!(bench.endpoint.half_open().connections, 5);
}

#[test]
fn the_half_open_budget_counts_bytes() {
    let mut config = (*shared_server()).clone();
    config.half_open_memory(3 * limits::HALF_OPEN_COST);
    let mut bench = Bench::with(Some(Arc::new(config)));
    let handle = bench.endpoint.register(Some(Share::default()));
    let room = |bench: &mut Bench, n| match bench.incoming(&initial(n)) {
        Some(incoming) => {
            bench.endpoint.ignore(incoming);
            true
        }
        None => false,
    };
    assert!(room(&mut bench, 1));
    let more = 2 * limits::HALF_OPEN_COST;
    bench.tell(handle, EndpointEvent::HandshakeBytes(more));
    assert_eq!(bench.endpoint.half_open().bytes, 3 * limits::HALF_OPEN_COST);
    assert!(!room(&mut bench, 2));
    bench.tell(handle, EndpointEvent::HandshakeBytes(100));
    assert!(room(&mut bench, 3));
    bench.tell(handle, EndpointEvent::HandshakeBytes(more));
    bench.tell(handle, EndpointEvent::Drained);
    bench.assert_none_waits();
}

#[test]
fn what_nobody_accepts_expires() {
    let mut bench = Bench::server();
    let start = bench.now;
    let old = bench.incoming(&initial(1)).unwrap();
    bench.handle(&initial(1));
    bench.now += Duration::from_secs(4);
    let young = bench.incoming(&initial(2)).unwrap();
    assert_eq!(old.expires(), start + Duration::from_secs(10));
    assert_eq!(bench.endpoint.poll_timeout(), Some(old.expires()));
    let early = old.expires() - Duration::from_nanos(1);
    bench.endpoint.handle_timeout(early);
    assert_eq!(bench.endpoint.half_open().connections, 2);
    bench.endpoint.handle_timeout(old.expires());
    assert_eq!(bench.endpoint.half_open().connections, 1);
    assert_eq!(bench.endpoint.poll_timeout(), Some(young.expires()));
    // Its client begins again. The old one cannot be accepted, nor take the new one's place.
    let again = bench.incoming(&initial(1)).unwrap();
    let error = bench
        .endpoint
        .accept(old, bench.now, &mut Vec::new(), None)
        .err()
        .unwrap();
    assert!(matches!(error.cause, ConnectionError::TimedOut) && error.response.is_none());
    assert_eq!(bench.endpoint.half_open().connections, 2);
    bench.endpoint.ignore(again);
    bench.endpoint.ignore(young);
    bench.assert_none_waits();
}

#[test]
fn a_full_queue_makes_room_by_expiry_alone() {
    let mut bench = Bench::with(Some(server_config(3)));
    let kept: Vec<_> = (0..5).map(|n| bench.incoming(&initial(n))).collect();
    assert_eq!(kept.iter().flatten().count(), 3);
    bench.now += Duration::from_secs(10);
    // Nobody called `handle_timeout`, and the application still has the others.
    assert!(bench.incoming(&initial(9)).is_some());
    assert_eq!(bench.endpoint.half_open().connections, 1);
}

//= specs/rfc9000.txt#section-5.2.2
//= type=test
//# If a server refuses to accept a new connection, it SHOULD send an Initial packet containing a
//# CONNECTION_CLOSE frame with error code CONNECTION_REFUSED.
#[test]
fn refusal_answers_the_client() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    let mut buf = vec![1, 2, 3];
    let transmit = bench.endpoint.refuse(incoming, &mut buf);
    assert_eq!(transmit.network_path, path(CLIENT));
    assert_eq!(transmit.size, buf.len() - 3);
    let header = parse_invariant(&buf[3..], 8).unwrap();
    assert!(
        matches!(header, Invariant::Long { version: 1, dcid, scid, .. }
            if dcid == [9; 8] && scid.len() == 8)
    );
    bench.assert_none_waits();
}

#[test]
fn accepting_without_a_configuration_refuses() {
    let mut bench = Bench::server();
    let incoming = bench.incoming(&initial(1)).unwrap();
    bench.endpoint.set_server_config(None);
    let mut buf = Vec::new();
    let error = bench
        .endpoint
        .accept(incoming, bench.now, &mut buf, None)
        .err()
        .unwrap();
    assert_eq!(error.response.unwrap().size, buf.len());
    bench.assert_none_waits();
    assert_eq!(bench.endpoint.open_connections(), 0);
}

#[test]
fn another_endpoints_incoming_harms_nothing() {
    let (mut a, mut b) = (Bench::server(), Bench::server());
    let from_a = a.incoming(&initial(1)).unwrap();
    let of_b = b.incoming(&initial(2)).unwrap();
    b.endpoint.ignore(from_a);
    assert_eq!(b.endpoint.waiting.len(), 1);
    b.endpoint.ignore(of_b);
    b.assert_none_waits();
}

#[test]
fn targets() {
    let check = |remote: &str, name: &str| check_target(remote.parse().unwrap(), name);
    assert_eq!(check("192.0.2.1:443", "example.org"), Ok(()));
    assert_eq!(check("[2001:db8::1]:443", "192.0.2.1"), Ok(()));
    for remote in ["192.0.2.1:0", "0.0.0.0:443", "[::]:443"] {
        assert_eq!(
            check(remote, "example.org"),
            Err(ConnectError::InvalidRemoteAddress(remote.parse().unwrap()))
        );
    }
    assert_eq!(
        check("192.0.2.1:443", "no such name"),
        Err(ConnectError::InvalidServerName("no such name".into()))
    );
}

proptest! {
    /// CVE-2024-45311: first and repeated Initials of a few clients, refused and ignored in any
    /// order, from any address, never panic or leak.
    #[test]
    fn initials_in_any_order(ops in prop::collection::vec((0..5_u8, 0..3_u64, 0..9_usize), 0..200)) {
        let mut bench = Bench::with(Some(shared_server()));
        let mut all: Vec<Incoming> = Vec::new();
        for (op, client, at) in ops {
            match op {
                0..3 => {
                    let remote = format!("192.0.2.{}:5", op + 1);
                    if let Some(event) = bench.handle_from(&remote, &initial(client)) {
                        match event {
                            DatagramEvent::NewConnection(incoming) => {
                                prop_assert!(all.iter().all(|other| other.dcid != incoming.dcid));
                                all.push(incoming);
                            }
                            // It was refused before.
                            DatagramEvent::Response(_) => {
                                prop_assert!(!bench.endpoint.refused.is_empty());
                            }
                            DatagramEvent::ConnectionEvent(..)
                            | DatagramEvent::Forward(..)
                            | DatagramEvent::Queued => panic!("{event:?}"),
                        }
                    }
                }
                _ if all.is_empty() => {}
                3 => {
                    let incoming = all.swap_remove(at % all.len());
                    prop_assert!(bench.endpoint.refuse(incoming, &mut bench.buf).size > 0);
                }
                _ => {
                    let incoming = all.swap_remove(at % all.len());
                    bench.endpoint.ignore(incoming);
                }
            }
            prop_assert_eq!(bench.endpoint.waiting.len(), all.len());
        }
        for incoming in all {
            bench.endpoint.ignore(incoming);
        }
        bench.assert_none_waits();
    }

    /// No datagram makes a panic, or an answer larger than itself.
    #[test]
    fn any_datagram(bytes in prop::collection::vec(any::<u8>(), 0..1400), from in 0..3_u8) {
        let mut bench = Bench::with(Some(shared_server()));
        let a = bench.endpoint.register(None);
        bench.tell(a, EndpointEvent::AddResetToken(CLIENT.parse().unwrap(), [1; 16]));
        let mut bytes = bytes;
        match (from, bytes.first_mut()) {
            (1, Some(first)) => *first |= 0xc0,
            (2, Some(first)) => *first = *first & 0x3f | 0x40,
            _ => {}
        }
        if let Some(DatagramEvent::Response(transmit)) = bench.handle(&bytes) {
            prop_assert!(transmit.size < bytes.len());
        }
    }
}

/// Making a key for each case would take most of the time.
pub(crate) fn shared_server() -> Arc<ServerConfig> {
    static SHARED: std::sync::OnceLock<Arc<ServerConfig>> = std::sync::OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| server_config(limits::MAX_INCOMING)))
}

/// A server that takes early data.
fn early_bench() -> Bench {
    let mut bench = Bench::server();
    let server = bench.endpoint.server.take().unwrap();
    let mut server = Arc::unwrap_or_clone(server);
    let mut tls = Arc::unwrap_or_clone(server.tls);
    tls.max_early_data_size = u32::MAX;
    server.tls = Arc::new(tls);
    bench.endpoint.server = Some(Arc::new(server));
    bench
}

fn zero_rtt(dcid: u64, len: usize) -> Vec<u8> {
    long(0xd0, 1, &dcid.to_be_bytes(), &[9; 8], len)
}

//= specs/rfc9000.txt#section-5.2.2
//= type=test
//# If the packet is a 0-RTT packet, the server MAY buffer a limited number of these packets in
//# anticipation of a late-arriving Initial packet.
#[test]
fn early_packets_wait_a_moment_for_their_initial() {
    let mut bench = early_bench();
    let datagram = zero_rtt(7, 1000);
    assert!(bench.handle(&datagram).is_none());
    assert!(bench.handle(&zero_rtt(8, 1000)).is_none());
    let incoming = bench.incoming(&initial(7)).unwrap();
    let kept = bench.endpoint.forget(&incoming).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].datagrams, datagram);
    // From another address it is another client's.
    assert!(
        bench
            .handle_from("192.0.2.2:1", &zero_rtt(9, 1000))
            .is_none()
    );
    let incoming = bench.incoming(&initial(9)).unwrap();
    assert!(bench.endpoint.forget(&incoming).unwrap().is_empty());
    // Not for long.
    bench.handle(&zero_rtt(10, 1000));
    bench.now += Duration::from_secs(1);
    let incoming = bench.incoming(&initial(10)).unwrap();
    assert!(bench.endpoint.forget(&incoming).unwrap().is_empty());
    assert_eq!(bench.endpoint.early.len(), 0);
}

#[test]
fn a_flood_of_early_packets_from_nowhere_is_bounded() {
    let mut bench = early_bench();
    for i in 0..1000 {
        assert!(bench.handle(&zero_rtt(i, 1400)).is_none());
    }
    assert_eq!(bench.endpoint.early.len(), limits::MAX_EARLY_DATAGRAMS);
    // The newest are kept; nothing larger than packets of the Internet, and nothing with an ID too short.
    let incoming = bench.incoming(&initial(999)).unwrap();
    assert_eq!(bench.endpoint.forget(&incoming).unwrap().len(), 1);
    bench.handle(&zero_rtt(999, 9000));
    bench.handle(&long(0xd0, 1, &[1; 7], &[], 1000));
    assert_eq!(bench.endpoint.early.len(), limits::MAX_EARLY_DATAGRAMS - 1);
    // Who takes no early data keeps none.
    let mut bench = Bench::server();
    bench.handle(&zero_rtt(1, 1000));
    assert_eq!(bench.endpoint.early.len(), 0);
}
