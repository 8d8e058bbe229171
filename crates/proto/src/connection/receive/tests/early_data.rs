//! 0-RTT packets that must not be as they are, servers that break what they promised, and keys that are to be
//! forgotten (RFC 9000 sections 7.4.1 and 17.2.3, RFC 9001 sections 4.6 and 4.9.3).

use std::sync::Arc;
use std::time::Duration;

use mpquic_sched_core::{Dir, Side, TransportErrorCode};
use mpquic_wire::transport_parameters::LIMITS;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::forge::{self, Forgery, Outcome, Packet};
use super::pair::{Pair, Tls};
use crate::limits::{GUARANTEED_MEMORY, MAX_UNDECRYPTABLE_PACKETS};
use crate::memory::Memory;
use crate::{PathId, TransportConfig};

const VIOLATION: Outcome = Outcome::Closed(TransportErrorCode::PROTOCOL_VIOLATION);

/// Of both sides.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

fn ready() -> Pair {
    forge::ready_for(
        Packet::ZeroRtt,
        TransportConfig::default(),
        TransportConfig::default(),
    )
}

fn deliver(payload: &[u8]) -> Outcome {
    forge::deliver(&mut ready(), Side::Client, Packet::ZeroRtt, payload)
}

//= specs/rfc9000.txt#section-12.4
//= type=test
//# An endpoint MUST treat receipt of a packet containing no frames as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn without_frames() {
    assert_eq!(deliver(&[]), VIOLATION);
    assert_eq!(deliver(&[0]), Outcome::Accepted);
}

//= specs/rfc9000.txt#section-17.2
//= type=test
//# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits after
//# removing both packet and header protection as a connection error of type PROTOCOL_VIOLATION.
#[test]
fn with_reserved_bits() {
    let forgery = Forgery {
        first_byte: 0x04,
        ..Forgery::new(Packet::ZeroRtt, &[1])
    };
    assert_eq!(forgery.deliver(&mut ready(), Side::Client), VIOLATION);
    // Without the keys, nobody closes anything.
    let mut pair = ready();
    let (mut datagram, _) = forgery.seal(&mut pair, Side::Client);
    *datagram.last_mut().unwrap() ^= 1;
    forge::hand_over(&mut pair, Side::Server, &datagram);
    assert!(!pair.s().is_closed());
}

//= specs/rfc9000.txt#section-12.3
//= type=test
//# A receiver MUST discard a newly unprotected packet unless it is certain that it has not
//# processed another packet with the same packet number from the same packet number space.
#[test]
fn twice() {
    let mut pair = ready();
    let frame = forge::varints(&[0x0e, 2, 0, 1, 7]);
    let (datagram, _) = Forgery::new(Packet::ZeroRtt, &frame).seal(&mut pair, Side::Client);
    for _ in 0..3 {
        forge::hand_over(&mut pair, Side::Server, &datagram);
        assert_eq!(pair.s().stats().received_stream_bytes, 1);
    }
}

/// RFC 9000 section 17.2.3: "A server SHOULD treat a violation of remembered limits (Section 7.4.1) as a connection
/// error of an appropriate type (for instance, a FLOW_CONTROL_ERROR for exceeding stream data limits)."
#[test]
fn beyond_the_limits() {
    // The last byte that a stream may have, and the one behind it.
    let last = (1 << 20) - 1;
    assert_eq!(
        deliver(&forge::varints(&[0x0e, 2, last, 1, 7])),
        Outcome::Accepted
    );
    let code = TransportErrorCode::FLOW_CONTROL_ERROR;
    let outcome = deliver(&forge::varints(&[0x0e, 2, last + 1, 1, 7]));
    assert_eq!(outcome, Outcome::Closed(code));
    // Stream 128 of 128.
    let code = TransportErrorCode::STREAM_LIMIT_ERROR;
    let outcome = deliver(&forge::varints(&[0x0e, 4 * 128 + 2, 0, 1, 7]));
    assert_eq!(outcome, Outcome::Closed(code));
}

/// Data for which the endpoint has no memory is dropped, as that of 1-RTT packets is.
#[test]
fn beyond_the_memory() {
    let mut pair = ready();
    pair.s().data.share(&Arc::new(Memory::new(0, 0)));
    let dcid = forge::original_dcid(pair.c());
    for piece in 0..200 {
        // All but the first byte, so that nothing can be read.
        let head = forge::varints(&[0x0e, 2, 1 + 1000 * piece, 1000]);
        let frame = [&head[..], &[7; 1000]].concat();
        let forgery = Forgery::new(Packet::ZeroRtt, &frame);
        let datagram = forgery.seal_as(&mut pair, Side::Client, &dcid, 100 + piece);
        forge::hand_over(&mut pair, Side::Server, &datagram);
    }
    assert!(!pair.s().is_closed());
    let stats = pair.s().stats();
    assert!(stats.received_stream_bytes <= 2 * GUARANTEED_MEMORY);
    assert!(stats.refused_packets >= 50, "{}", stats.refused_packets);
}

//= specs/rfc9001.txt#section-4.6.2
//= type=test
//# When rejecting 0-RTT, a server MUST NOT process any 0-RTT packets, even if it could.
#[test]
fn a_server_that_rejects_early_data_processes_none() {
    let mut tls = Tls::new();
    tls.get_tickets(&TransportConfig::default());
    tls.server.max_early_data_size = 0;
    let mut pair = tls.pair(TransportConfig::default(), TransportConfig::default());
    assert!(pair.run_until(Duration::from_secs(1), |pair| {
        pair.server.connection.is_some()
    }));
    let outcome = forge::deliver(&mut pair, Side::Client, Packet::ZeroRtt, &[1]);
    assert_eq!(outcome, Outcome::Dropped);
    assert_eq!(forge::kept_undecryptable(pair.s()), 0);
}

//= specs/rfc9001.txt#section-4.9.3
//= type=test
//# After receiving a 1-RTT packet, servers MUST discard 0-RTT keys within a short time; the
//# RECOMMENDED time period is three times the Probe Timeout (PTO, see [QUIC-RECOVERY]).
#[test]
fn keys_are_forgotten_soon_after_the_first_one_rtt_packet() {
    let mut pair = ready();
    let dcid = forge::cid_of(pair.s(), PathId::ZERO);
    let datagrams: Vec<_> = (0..2_u64)
        .map(|i| {
            let forgery = Forgery::new(Packet::ZeroRtt, &[1]);
            let number = 1000 + i;
            (
                forgery.seal_as(&mut pair, Side::Client, &dcid, number),
                number,
            )
        })
        .collect();
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    pair.c().send_stream(id).write(b"x").unwrap();
    pair.connect();
    assert!(forge::has_early_keys(pair.s()) && !forge::has_early_keys(pair.c()));
    // Overtaken by a 1-RTT packet, but not by much.
    forge::hand_over(&mut pair, Side::Server, &datagrams[0].0);
    assert!(forge::was_received(
        pair.s(),
        Packet::ZeroRtt,
        datagrams[0].1
    ));
    // Three PTOs, of which none was longer than that before the first RTT sample.
    let at = forge::early_key_timer(pair.s()).unwrap();
    assert!(
        at > pair.now
            && at <= pair.now + 9 * TransportConfig::default().initial_rtt + 3 * MAX_ACK_DELAY
    );
    assert!(pair.s().poll_timeout().is_some_and(|next| next <= at));
    pair.s().handle_timeout(at - Duration::from_millis(1));
    assert!(forge::has_early_keys(pair.s()));
    pair.s().handle_timeout(at);
    assert!(!forge::has_early_keys(pair.s()));
    forge::hand_over(&mut pair, Side::Server, &datagrams[1].0);
    assert!(!forge::was_received(
        pair.s(),
        Packet::ZeroRtt,
        datagrams[1].1
    ));
}

//= specs/rfc9000.txt#section-7.4.1
//= type=test
//# In particular, a server that accepts 0-RTT data MUST NOT set values for the following parameters
//# (Section 18.2) that are smaller than the remembered values of the parameters.
//= specs/rfc9221.txt#section-3
//= type=test
//# If a client stores the value of the max_datagram_frame_size transport parameter with their 0-RTT
//# state, they MUST validate that the new value of the max_datagram_frame_size transport parameter
//# sent by the server in the handshake is greater than or equal to the stored value; if not, the
//# client MUST terminate the connection with error PROTOCOL_VIOLATION.
#[test]
fn a_server_that_accepts_early_data_and_reduces_a_limit_is_refused() {
    let lower: [fn(&mut TransportConfig); 4] = [
        |config| {
            config.receive_window(1000);
        },
        |config| {
            config.stream_receive_window(1000);
        },
        |config| {
            config.max_concurrent_uni_streams(1);
        },
        |config| {
            config.datagram_receive_buffer(None);
        },
    ];
    for lower in lower {
        let mut tls = Tls::new();
        // With this store, our server does what it otherwise would not.
        tls.server.session_storage = Arc::new(Forgetful(ServerSessionMemoryCache::new(8)));
        tls.get_tickets(&TransportConfig::default());
        let mut smaller = TransportConfig::default();
        lower(&mut smaller);
        let mut pair = tls.pair(TransportConfig::default(), smaller);
        assert!(pair.c().session().has_0rtt());
        let closed = |pair: &mut Pair| pair.c().is_closed();
        assert!(pair.run_until(Duration::from_secs(1), closed));
        let error = forge::own_error(pair.c()).unwrap();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

/// A store that forgets which limits a session was promised.
#[derive(Debug)]
struct Forgetful(Arc<ServerSessionMemoryCache>);

impl StoresServerSessions for Forgetful {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = self.0.take(key)?;
        value[..8 * LIMITS].fill(0);
        Some(value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// RFC 9001 section 5.7: "A server could receive packets protected with 0-RTT keys prior to receiving a TLS ClientHello.
/// The server MAY retain these packets for later decryption in anticipation of receiving a ClientHello."
//= specs/rfc9001.txt#section-5.7
//= type=test
//# The server MAY retain these packets for later decryption in anticipation of receiving a
//# ClientHello.
#[test]
fn packets_before_the_client_hello_wait_for_it() {
    let tls = Tls::new();
    let mut pair = tls.resumed_pair(TransportConfig::default(), TransportConfig::default());
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    assert_eq!(pair.c().send_stream(id).write(&[7; 8000]), Ok(8000));
    let dcid = forge::original_dcid(pair.c());
    // A first Initial packet with nothing but a PING; then everything of the client's but its ClientHello.
    let ping = Forgery::new(Packet::Initial, &[1]).seal_as(&mut pair, Side::Client, &dcid, 100);
    pair.step();
    let hello = pair.server.inbound.pop_front().unwrap();
    let first = super::pair::Flying {
        data: ping,
        ..hello.clone()
    };
    pair.server.inbound.push_front(first);
    let flying = pair.server.inbound.len() - 1;
    assert!(flying >= 5);
    pair.step();
    assert!(pair.s().is_handshaking());
    assert_eq!(forge::kept_undecryptable(pair.s()), flying);
    assert_eq!(pair.s().stats().received_stream_bytes, 0);
    forge::hand_over(&mut pair, Side::Server, &hello.data);
    assert_eq!(forge::kept_undecryptable(pair.s()), 0);
    assert_eq!(pair.s().stats().received_stream_bytes, 8000);
    assert!(pair.s().session().accepted_0rtt() && pair.s().recv_stream(id).is_0rtt());
}

/// As many as of any other packets, whoever sends them.
#[test]
fn a_flood_before_the_client_hello() {
    let tls = Tls::new();
    let mut pair = tls.resumed_pair(TransportConfig::default(), TransportConfig::default());
    let dcid = forge::original_dcid(pair.c());
    let ping = Forgery::new(Packet::Initial, &[1]).seal_as(&mut pair, Side::Client, &dcid, 100);
    pair.step();
    let hello = std::mem::replace(&mut pair.server.inbound[0].data, ping);
    pair.step();
    for i in 0..1000 {
        let forgery = Forgery::new(Packet::ZeroRtt, &[0; 1000]);
        let datagram = forgery.seal_as(&mut pair, Side::Client, &dcid, 200 + i);
        forge::hand_over(&mut pair, Side::Server, &datagram);
        let kept = forge::kept_undecryptable(pair.s());
        assert_eq!(kept, MAX_UNDECRYPTABLE_PACKETS.min(i as usize + 1));
    }
    forge::hand_over(&mut pair, Side::Server, &hello);
    assert_eq!(forge::kept_undecryptable(pair.s()), 0);
    assert!(pair.s().session().accepted_0rtt() && !pair.s().is_closed());
}

//= specs/rfc9001.txt#section-4.6.1
//= type=test
//# A client MUST treat receipt of a NewSessionTicket that contains an early_data extension with any
//# other value as a connection error of type PROTOCOL_VIOLATION.
#[test]
fn a_ticket_with_a_limit_on_early_data() {
    let ticket = |limit: u32| {
        let mut body = vec![0, 0, 0, 60, 1, 2, 3, 4]; // lifetime, age_add
        body.extend([1, 9]); // nonce
        body.extend([0, 2, 5, 5]); // ticket
        body.extend([0, 8, 0, 42, 0, 4]); // one extension: early_data
        body.extend(limit.to_be_bytes());
        [&[4, 0, 0, body.len() as u8][..], &body].concat()
    };
    for (limit, expected) in [(u32::MAX, Outcome::Accepted), (1000, VIOLATION)] {
        let mut tls = Tls::new();
        // The server sends none by itself: its CRYPTO stream begins with this one.
        tls.server.send_tls13_tickets = 0;
        let mut pair = tls.pair(TransportConfig::default(), TransportConfig::default());
        pair.connect();
        forge::settle(&mut pair);
        let message = ticket(limit);
        let frame = [&forge::varints(&[6, 0, message.len() as u64])[..], &message].concat();
        let outcome = forge::deliver(&mut pair, Side::Server, Packet::OneRtt, &frame);
        assert_eq!(outcome, expected, "{limit}");
    }
}

//= specs/rfc9001.txt#section-4.6.2
//= type=test
//# When 0-RTT was rejected, a client SHOULD treat receipt of an acknowledgment for a 0-RTT packet as
//# a connection error of type PROTOCOL_VIOLATION, if it is able to detect the condition.
#[test]
fn an_acknowledgement_of_a_rejected_packet() {
    for rejected in [true, false] {
        let mut tls = Tls::new();
        tls.get_tickets(&TransportConfig::default());
        tls.server.max_early_data_size = 0;
        let mut pair = tls.pair(TransportConfig::default(), TransportConfig::default());
        let early = forge::next_number(pair.c());
        let id = pair.c().streams().open(Dir::Uni).unwrap();
        pair.c().send_stream(id).write(&[1; 100]).unwrap();
        pair.connect();
        assert!(pair.c().session().rejected_0rtt());
        forge::settle(&mut pair);
        let first = forge::next_number(pair.c());
        let number = if rejected { early } else { first };
        if !rejected {
            // The next packet is one that may be acknowledged.
            pair.c().ping();
            let mut buf = Vec::new();
            let now = pair.now;
            assert!(pair.c().poll_transmit(now, 1, &mut buf).is_some());
        }
        let ack = forge::varints(&[2, number, 0, 0, 0]);
        let outcome = forge::deliver(&mut pair, Side::Server, Packet::OneRtt, &ack);
        let expected = if rejected {
            VIOLATION
        } else {
            Outcome::Accepted
        };
        assert_eq!(outcome, expected);
    }
}
