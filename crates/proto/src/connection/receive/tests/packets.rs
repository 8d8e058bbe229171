//! Packets that must not be sent as they are, whatever frames they carry: without any, with reserved
//! bits, in datagrams too small, with tokens of servers, with TLS messages of a level that is over.

use mpquic_sched_core::{Side, TransportErrorCode};

use super::forge::{self, Forgery, Outcome, Packet};
use super::pair::Pair;
use crate::TransportConfig;

const PROTECTED: [Packet; 3] = [Packet::Initial, Packet::Handshake, Packet::OneRtt];
const SIDES: [Side; 2] = [Side::Client, Side::Server];
const VIOLATION: Outcome = Outcome::Closed(TransportErrorCode::PROTOCOL_VIOLATION);

fn ready_for(packet: Packet) -> Pair {
    forge::ready_for(
        packet,
        TransportConfig::default(),
        TransportConfig::default(),
    )
}

//= specs/rfc9000.txt#section-12.4
//= type=test
//# An endpoint MUST treat receipt of a packet containing no frames as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn without_frames() {
    for packet in PROTECTED {
        for sender in SIDES {
            let outcome = forge::deliver(&mut ready_for(packet), sender, packet, &[]);
            assert_eq!(outcome, VIOLATION, "{packet:?} from {sender:?}");
            // One byte of PADDING makes the difference.
            let outcome = forge::deliver(&mut ready_for(packet), sender, packet, &[0]);
            assert_eq!(outcome, Outcome::Accepted, "{packet:?} from {sender:?}");
        }
    }
}

/// The reserved bits of the first byte: 0x0c of long headers (RFC 9000 section 17.2), 0x18 of short
/// ones (section 17.3.1).
fn reserved_bits(packet: Packet) -> [u8; 3] {
    match packet {
        Packet::OneRtt => [0x08, 0x10, 0x18],
        _ => [0x04, 0x08, 0x0c],
    }
}

//= specs/rfc9000.txt#section-17.2
//= type=test
//# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits after
//# removing both packet and header protection as a connection error of type PROTOCOL_VIOLATION.
//= specs/rfc9000.txt#section-17.3.1
//= type=test
//# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits, after
//# removing both packet and header protection, as a connection error of type PROTOCOL_VIOLATION.
#[test]
fn with_reserved_bits() {
    for packet in PROTECTED {
        for sender in SIDES {
            for bits in reserved_bits(packet) {
                let forgery = Forgery {
                    first_byte: bits,
                    ..Forgery::new(packet, &[1])
                };
                let outcome = forgery.deliver(&mut ready_for(packet), sender);
                assert_eq!(outcome, VIOLATION, "{packet:?} from {sender:?}, {bits:#x}");
            }
        }
    }
}

/// The same sections: "Discarding such a packet after only removing header protection can expose the
/// endpoint to attacks", and so would closing. Who does not have the keys closes nothing.
#[test]
fn reserved_bits_of_packets_that_are_not_authentic() {
    for packet in PROTECTED {
        for sender in SIDES {
            for bits in reserved_bits(packet) {
                let mut pair = ready_for(packet);
                let forgery = Forgery {
                    first_byte: bits,
                    datagram: 0,
                    ..Forgery::new(packet, &[0; 1200])
                };
                let (mut datagram, _) = forgery.seal(&mut pair, sender);
                *datagram.last_mut().unwrap() ^= 1;
                forge::hand_over(&mut pair, !sender, &datagram);
                assert!(!forge::side_of(&mut pair, !sender).is_closed());
            }
        }
    }
}

/// RFC 9000 section 14.1: "A server MUST discard an Initial packet that is carried in a UDP datagram
/// with a payload that is smaller than the smallest allowed maximum datagram size of 1200 bytes. A
/// server MAY also immediately close the connection". Clients have no such rule: a server need not
/// expand datagrams whose Initial packets are not ack-eliciting.
//= specs/rfc9000.txt#section-14.1
//= type=test
//# A server MUST discard an Initial packet that is carried in a UDP datagram with a payload that is
//# smaller than the smallest allowed maximum datagram size of 1200 bytes.
#[test]
fn initial_packets_in_small_datagrams() {
    let send = |from, datagram| {
        let forgery = Forgery {
            datagram,
            ..Forgery::new(Packet::Initial, &[1])
        };
        forgery.deliver(&mut ready_for(Packet::Initial), from)
    };
    assert_eq!(send(Side::Client, 1199), Outcome::Dropped);
    assert_eq!(send(Side::Client, 0), Outcome::Dropped);
    assert_eq!(send(Side::Client, 1200), Outcome::Accepted);
    assert_eq!(send(Side::Server, 0), Outcome::Accepted);
}

/// RFC 9000 section 14.1: a client expands every datagram with an Initial packet, that with its close
/// too. Here it closes with the keys of all levels, before it has sent a Handshake packet.
#[test]
fn a_client_that_closes_expands_its_datagram() {
    let mut pair = ready_for(Packet::Initial);
    while let Some(datagram) = pair.client.inbound.pop_front() {
        forge::hand_over(&mut pair, Side::Client, &datagram.data);
    }
    let now = pair.now;
    assert!(!pair.c().is_handshaking());
    pair.c().close(now, 0u32.into(), Default::default());
    let mut buf = Vec::new();
    assert!(pair.c().poll_transmit(now, 1, &mut buf).is_some());
    let is_initial = buf[0] & 0xf0 == 0xc0;
    assert_eq!((is_initial, buf.len()), (true, 1200));
}

/// RFC 9000 section 17.2.2: "clients that receive an Initial packet with a non-zero Token Length field
/// MUST either discard the packet or generate a connection error of type PROTOCOL_VIOLATION." We
/// discard it: Initial packets are not authentic.
//= specs/rfc9000.txt#section-17.2.2
//= type=test
//# Initial packets sent by the server MUST set the Token Length field to 0; clients that receive an
//# Initial packet with a non-zero Token Length field MUST either discard the packet or generate a
//# connection error of type PROTOCOL_VIOLATION.
#[test]
fn initial_packets_of_a_server_with_a_token() {
    let send = |from| {
        let forgery = Forgery {
            token: b"token",
            ..Forgery::new(Packet::Initial, &[1])
        };
        forgery.deliver(&mut ready_for(Packet::Initial), from)
    };
    assert_eq!(send(Side::Server), Outcome::Dropped);
    assert_eq!(send(Side::Client), Outcome::Accepted);
}

/// CRYPTO with one byte at this offset.
fn crypto_at(offset: u64) -> Vec<u8> {
    [forge::varints(&[0x06, offset, 1]), vec![0]].concat()
}

/// RFC 9001 section 4.1.3: a packet "from a previously installed encryption level" must not "contain
/// data that extends past the end of previously received data in that flow. Implementations MUST
/// treat any violations of this requirement as a connection error of type PROTOCOL_VIOLATION."
//= specs/rfc9001.txt#section-4.1.3
//= type=test
//# * If the packet is from a previously installed encryption level, it MUST NOT contain data that
//# extends past the end of previously received data in that flow.
//= specs/rfc9001.txt#section-4.1.3
//= type=test
//# Implementations MUST treat any violations of this requirement as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn tls_messages_of_a_level_that_is_over() {
    for (packet, sender) in [
        // The server has the ClientHello: TLS reads from the Handshake level.
        (Packet::Initial, Side::Client),
        // The client has completed TLS: it reads from the 1-RTT level.
        (Packet::Handshake, Side::Server),
    ] {
        let outcome = forge::deliver(&mut ready_for(packet), sender, packet, &crypto_at(5000));
        assert_eq!(outcome, VIOLATION, "{packet:?}");
        // A retransmission is welcome, be it late.
        let outcome = forge::deliver(&mut ready_for(packet), sender, packet, &crypto_at(0));
        assert_eq!(outcome, Outcome::Accepted, "{packet:?}");
    }
    // The level that TLS reads from takes data in any order.
    for (packet, sender) in [
        (Packet::Initial, Side::Server),
        (Packet::Handshake, Side::Client),
        (Packet::OneRtt, Side::Server),
        (Packet::OneRtt, Side::Client),
    ] {
        let outcome = forge::deliver(&mut ready_for(packet), sender, packet, &crypto_at(5000));
        assert_eq!(outcome, Outcome::Accepted, "{packet:?}");
    }
}

/// The same section: "When TLS provides keys for a higher encryption level, if there is data from a
/// previous encryption level that TLS has not consumed, this MUST be treated as a connection error of
/// type PROTOCOL_VIOLATION."
//= specs/rfc9001.txt#section-4.1.3
//= type=test
//# When TLS provides keys for a higher encryption level, if there is data from a previous
//# encryption level that TLS has not consumed, this MUST be treated as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn tls_messages_left_over_when_a_level_ends() {
    // The client gets the byte first, and the ServerHello next.
    let mut pair = ready_for(Packet::Initial);
    let outcome = forge::deliver(&mut pair, Side::Server, Packet::Initial, &crypto_at(5000));
    assert_eq!(outcome, Outcome::Accepted);
    pair.step();
    let error = forge::own_error(pair.c()).unwrap();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    // The server gets it before the Finished.
    let mut pair = ready_for(Packet::Handshake);
    let outcome = forge::deliver(&mut pair, Side::Client, Packet::Handshake, &crypto_at(5000));
    assert_eq!(outcome, Outcome::Accepted);
    pair.step();
    let error = forge::own_error(pair.s()).unwrap();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}
