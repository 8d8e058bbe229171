//! Two handshakes that talk to each other, without connections: what they have to say is handed over by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::ConnectionId;
use mpquic_test_support::tls::Identity;
use mpquic_wire::crypto::seal_long;
use mpquic_wire::frame::FrameIter;
use mpquic_wire::packet::{PacketType, encode_long_header, encode_short_header};
use rand::SeedableRng;

use super::*;
use crate::congestion::RttEstimator;
use crate::limits;
use crate::space::tests_support;

const LEVELS: [SpaceId; 3] = [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data];

fn cid(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8])
}

/// Our connection IDs are 1 on the client and 2 on the server; the client's first packet went to 3.
struct Pair {
    now: Instant,
    client: Handshake,
    server: Handshake,
}

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// `change`: what the server says of itself.
    fn with(change: impl FnOnce(&mut TransportParameters)) -> Self {
        let identity = Identity::new();
        let (client, server) = (identity.client(), identity.server());
        let of_client = TransportParameters {
            initial_source_connection_id: Some(cid(1)),
            ..TransportParameters::default()
        };
        let mut of_server = TransportParameters {
            initial_source_connection_id: Some(cid(2)),
            original_destination_connection_id: Some(cid(3)),
            ..TransportParameters::default()
        };
        change(&mut of_server);
        let version = Version::V1;
        let client =
            Session::client(Arc::new(client), "localhost", &of_client, &cid(3), version).unwrap();
        let server = Session::server(Arc::new(server), &of_server, &cid(3), version).unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let ends = |side, scid, remote_cid| Ends {
            side,
            version,
            scid,
            original_dcid: cid(3),
            remote_cid,
        };
        Self {
            now: Instant::now(),
            client: Handshake::new(&ends(Side::Client, cid(1), cid(3)), client, &mut rng),
            server: Handshake::new(&ends(Side::Server, cid(2), cid(1)), server, &mut rng),
        }
    }

    fn both(&mut self, from: Side) -> (&mut Handshake, &mut Handshake) {
        match from {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }

    /// Hands over what a side has to say at each level. What the other side makes of it, all together.
    fn say(&mut self, from: Side) -> Result<Progress, TransportError> {
        let mut all = Progress::default();
        let now = self.now;
        let (sender, receiver) = self.both(from);
        for level in LEVELS {
            let mut buf = Vec::new();
            let mut w = FrameWriter::new(&mut buf, 20_000);
            match level {
                SpaceId::Data => sender.fill_control(&mut w),
                level => sender.fill(level, &mut w, now),
            }
            for frame in FrameIter::new(&buf) {
                let Ok(Frame::Crypto(crypto)) = frame else {
                    continue;
                };
                receiver.hear(&sender.scid());
                let progress = receiver.on_crypto(level, crypto.offset, crypto.data)?;
                all.parameters |= progress.parameters;
                all.early_answers |= progress.early_answers;
                all.complete |= progress.complete;
                all.decryptable |= progress.decryptable;
            }
        }
        Ok(all)
    }

    /// A packet with this payload, as the sender protects it.
    fn packet(&mut self, from: Side, ty: PacketType, first: u8) -> (Vec<u8>, usize) {
        let (sender, receiver) = self.both(from);
        let (dcid, scid) = (receiver.scid(), sender.scid());
        let mut buf = Vec::new();
        let marks = encode_long_header(&mut buf, ty, Version::V1, &dcid, &scid, &[], 7, 4);
        buf[0] |= first;
        buf.extend_from_slice(&[0; 20]);
        let level = match ty {
            PacketType::Initial => SpaceId::Initial,
            PacketType::Handshake => SpaceId::Handshake,
            PacketType::ZeroRtt => SpaceId::Data,
        };
        seal_long(sender.local_keys(level).unwrap(), &mut buf, &marks, 7).unwrap();
        (buf, marks.pn_offset)
    }

    fn open(&mut self, to: Side, ty: PacketType, packet: &(Vec<u8>, usize)) -> Opened {
        let (receiver, _) = self.both(to);
        receiver.open(ty, Some(0), packet.1, &mut packet.0.clone())
    }
}

#[test]
fn it_is_complete_after_a_round_trip_and_a_half_and_tells_each_thing_once() {
    let mut pair = Pair::new();
    let said = pair.say(Side::Client).unwrap();
    assert!(said.parameters && said.early_answers && !said.complete);
    let said = pair.say(Side::Server).unwrap();
    assert!(said.parameters && said.complete);
    assert!(pair.client.is_complete() && !pair.server.is_complete());
    let said = pair.say(Side::Client).unwrap();
    assert!(!said.parameters && !said.early_answers && said.complete);
    let source = |side: &Handshake| side.peer().initial_source_connection_id;
    let sources = [source(&pair.client), source(&pair.server)];
    assert_eq!(sources, [Some(cid(2)), Some(cid(1))]);
    // The server is to say so, until that is acknowledged.
    pair.server.complete().unwrap();
    pair.server.confirm();
    for _ in 0..2 {
        assert!(pair.server.can_send_control());
        let mut buf = Vec::new();
        pair.server
            .fill_control(&mut FrameWriter::new(&mut buf, 1200));
        let frames = FrameIter::new(&buf).map(Result::unwrap);
        assert_eq!(
            frames
                .filter(|frame| *frame == Frame::HandshakeDone)
                .count(),
            1
        );
        pair.server
            .on_frame_lost(SpaceId::Data, &SentFrame::HandshakeDone);
    }
    assert_eq!(pair.client.on_done(), Ok(true));
    pair.client.confirm();
    assert_eq!(pair.client.on_done(), Ok(false));
    let error = pair.server.on_done().unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    for side in [&pair.client, &pair.server] {
        assert!(side.is_confirmed() && side.has_keys(SpaceId::Data));
        assert!(!side.has_keys(SpaceId::Handshake) && side.space(SpaceId::Handshake).is_none());
    }
}

//= specs/rfc9000.txt#section-7.3
//= type=test
//# An endpoint MUST treat the following as a connection error of type TRANSPORT_PARAMETER_ERROR or
//# PROTOCOL_VIOLATION:
#[test]
fn connection_ids_are_held_against_the_parameters() {
    let wrong: [fn(&mut TransportParameters); 3] = [
        |server| server.initial_source_connection_id = Some(cid(9)),
        |server| server.original_destination_connection_id = Some(cid(9)),
        |server| server.retry_source_connection_id = Some(cid(9)),
    ];
    for change in wrong {
        let mut pair = Pair::with(change);
        pair.say(Side::Client).unwrap();
        let error = pair.say(Side::Server).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    }
}

#[test]
fn what_becomes_of_a_packet_depends_on_the_keys_that_are_there() {
    let mut pair = Pair::new();
    let initial = pair.packet(Side::Client, PacketType::Initial, 0);
    let opened = pair.open(Side::Server, PacketType::Initial, &initial);
    let Opened::Packet(7, payload) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(payload.len(), 20);
    let forged = pair.packet(Side::Client, PacketType::Initial, 0x0c);
    let opened = pair.open(Side::Server, PacketType::Initial, &forged);
    assert_eq!(opened, Opened::ReservedBits);
    let mut changed = initial.clone();
    changed.0[40] ^= 1;
    let opened = pair.open(Side::Server, PacketType::Initial, &changed);
    assert_eq!(opened, Opened::Undecryptable);
    // Before the ClientHello, nobody knows what becomes of early data; then it is known that it is not taken.
    let opened = pair.open(Side::Server, PacketType::ZeroRtt, &initial);
    assert_eq!(opened, Opened::TooEarly);
    pair.say(Side::Client).unwrap();
    let opened = pair.open(Side::Server, PacketType::ZeroRtt, &initial);
    assert_eq!(opened, Opened::Dropped);
    let handshake = pair.packet(Side::Server, PacketType::Handshake, 0);
    let opened = pair.open(Side::Client, PacketType::Handshake, &handshake);
    assert_eq!(opened, Opened::TooEarly);
    pair.say(Side::Server).unwrap();
    let opened = pair.open(Side::Client, PacketType::Handshake, &handshake);
    assert!(matches!(opened, Opened::Packet(7, _)));
    assert!(pair.client.discard(SpaceId::Handshake) && !pair.client.discard(SpaceId::Handshake));
    let opened = pair.open(Side::Client, PacketType::Handshake, &handshake);
    assert_eq!(opened, Opened::Dropped);
}

#[test]
fn the_first_packet_names_the_server_and_no_other_source_counts_from_then_on() {
    let mut pair = Pair::new();
    assert!(!pair.client.is_heard());
    assert_eq!(pair.client.hear(&cid(2)), Source::New);
    assert_eq!(pair.client.hear(&cid(2)), Source::Known);
    assert_eq!(pair.client.hear(&cid(8)), Source::Other);
    assert_eq!(pair.server.hear(&cid(8)), Source::Other);
    assert!(!pair.server.is_heard());
    assert_eq!(pair.server.hear(&cid(1)), Source::Known);
    assert!(pair.server.is_heard());
}

#[test]
fn initial_packets_are_expanded_and_probes_are_urgent() {
    let mut pair = Pair::new();
    let now = pair.now;
    let waiting = pair.client.waiting(now).unwrap();
    assert!(waiting.initial && waiting.padded && !waiting.handshake && !waiting.urgent);
    assert_eq!(pair.server.waiting(now), None);
    pair.say(Side::Client).unwrap();
    assert_eq!(pair.client.waiting(now), None);
    let waiting = pair.server.waiting(now).unwrap();
    assert!(waiting.initial && waiting.padded && waiting.handshake && !waiting.urgent);
    // Nothing is in flight, the client is to unblock the server: a probe that carries the ClientHello again.
    assert!(pair.client.on_pto());
    assert!(pair.client.waiting(now).unwrap().urgent);
    let mut buf = Vec::new();
    let mut w = FrameWriter::new(&mut buf, 1200);
    pair.client.fill(SpaceId::Initial, &mut w, now);
    let again = matches!(w.frames[..], [SentFrame::Crypto { start: 0, .. }]);
    assert!(again, "{:?}", w.frames);
    assert_eq!(pair.client.waiting(now), None);
}

#[test]
fn probe_timeouts_wait_for_what_they_are_of_use_for() {
    let mut pair = Pair::new();
    let now = pair.now;
    let rtt = RttEstimator::new(Duration::from_millis(100));
    let facts = TimerFacts {
        rtt: &rtt,
        pto_count: 0,
        at_limit: false,
        idle_since: now,
    };
    // A client without anything in flight, as its packets were acknowledged: the server may be at its limit.
    let pto = Duration::from_millis(300);
    assert_eq!(pair.client.pto_deadline(Some(&facts)), Some(now + pto));
    let doubled = TimerFacts {
        pto_count: 1,
        ..facts
    };
    assert_eq!(
        pair.client.pto_deadline(Some(&doubled)),
        Some(now + 2 * pto)
    );
    assert_eq!(pair.client.pto_deadline(None), None);
    let limited = TimerFacts {
        at_limit: true,
        ..facts
    };
    let mut rng = StdRng::seed_from_u64(1);
    assert_eq!(pair.server.pto_deadline(Some(&facts)), None);
    let space = pair.server.space_mut(SpaceId::Initial).unwrap();
    space.on_sent(tests_support::packet(now), &mut rng);
    assert_eq!(pair.server.pto_deadline(Some(&facts)), Some(now + pto));
    assert_eq!(pair.server.pto_deadline(Some(&limited)), None);
    assert!(!pair.server.on_pto());
    // Until the probes have left.
    assert_eq!(pair.server.pto_deadline(Some(&facts)), None);
    assert!(
        pair.server
            .waiting(now)
            .is_some_and(|waiting| waiting.urgent)
    );
    // The deadline counts, whatever is in flight.
    pair.server.set_deadline(Some(now + pto / 2));
    assert_eq!(pair.server.next_timeout(Some(&facts)), Some(now + pto / 2));
    assert!(!pair.server.is_late(now) && pair.server.is_late(now + pto / 2));
}

#[test]
fn packets_that_came_too_early_are_told_of_and_taken_once() {
    let mut pair = Pair::new();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let tuple = FourTuple {
        local: address,
        remote: address,
    };
    let arrival = DatagramMeta::new(pair.now, tuple, None);
    assert_eq!(pair.server.memory_to_tell(), None);
    for (level, size) in [(SpaceId::Initial, 1100), (SpaceId::Data, 100)] {
        let packet = vec![0; size];
        pair.server
            .keep_undecryptable(level, PathId::ZERO, &arrival, &packet);
    }
    assert_eq!(pair.server.memory_to_tell(), Some(1200));
    assert_eq!(pair.server.memory_to_tell(), None, "no change that matters");
    assert!(pair.server.take_decryptable().is_none());
    assert!(pair.say(Side::Client).unwrap().decryptable);
    let packets = pair.server.take_decryptable().unwrap();
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].packet.len(), 1100);
    assert!(pair.server.take_decryptable().is_none(), "1-RTT: not yet");
    pair.say(Side::Server).unwrap();
    assert!(pair.say(Side::Client).unwrap().decryptable);
    assert_eq!(pair.server.take_decryptable().unwrap().len(), 1);
    assert!(pair.server.undecryptable().is_empty());
    // Clients have no budget to keep.
    assert_eq!(pair.client.memory_to_tell(), None);
}

#[test]
fn a_retry_is_acted_on_once_and_before_anything_else_of_the_servers() {
    let retry = |source: ConnectionId, token: &[u8]| {
        let mut packet = Vec::new();
        mpquic_wire::packet::encode_retry_header(&mut packet, Version::V1, &cid(1), &source, token);
        let tag = mpquic_wire::crypto::retry_tag(Version::V1, &cid(3), &packet);
        packet.extend_from_slice(&tag);
        packet
    };
    let packet = retry(cid(5), b"token");
    let mut pair = Pair::new();
    let accepts = |client: &Handshake| client.accepts_retry(&cid(1), &cid(5), b"token", &packet);
    assert!(accepts(&pair.client) && !accepts(&pair.server));
    assert!(
        !pair
            .client
            .accepts_retry(&cid(9), &cid(5), b"token", &packet)
    );
    let same = retry(cid(3), b"token");
    assert!(!pair.client.accepts_retry(&cid(1), &cid(3), b"token", &same));
    let long = vec![0; limits::MAX_RETRY_TOKEN + 1];
    let packet_with_long = retry(cid(5), &long);
    assert!(
        !pair
            .client
            .accepts_retry(&cid(1), &cid(5), &long, &packet_with_long)
    );
    assert!(pair.client.accepts_negotiation(&cid(1), [7, 8].into_iter()));
    assert!(!pair.client.accepts_negotiation(&cid(1), [7, 1].into_iter()));

    pair.client.retry(cid(5), b"token");
    assert_eq!(pair.client.initial_token(), b"token");
    assert!(!accepts(&pair.client), "at most one");
    assert!(!pair.client.accepts_negotiation(&cid(1), [7].into_iter()));
    // The token goes with the keys.
    assert!(pair.client.discard(SpaceId::Initial));
    assert!(pair.client.initial_token().is_empty());

    let mut pair = Pair::new();
    pair.client.hear(&cid(2));
    assert!(!accepts(&pair.client), "a packet came before");
}

#[test]
fn a_side_takes_only_the_long_packets_that_its_peer_may_send() {
    let pair = Pair::new();
    let (v1, none, some) = (Version::V1, 6..6, 6..7);
    let (client, server) = (&pair.client, &pair.server);
    assert!(server.takes(PacketType::Initial, v1, &some, 1200));
    assert!(!server.takes(PacketType::Initial, v1, &some, 1199));
    assert!(client.takes(PacketType::Initial, v1, &none, 100));
    assert!(!client.takes(PacketType::Initial, v1, &some, 1200));
    assert!(server.takes(PacketType::ZeroRtt, v1, &none, 100));
    assert!(!client.takes(PacketType::ZeroRtt, v1, &none, 1200));
    for side in [client, server] {
        assert!(side.takes(PacketType::Handshake, v1, &none, 100));
        assert!(!side.takes(PacketType::Handshake, Version::V2, &none, 1200));
    }
}

#[test]
fn a_close_goes_to_the_levels_whose_keys_the_peer_may_have() {
    let mut pair = Pair::new();
    let levels = |side: &Handshake| side.close_levels(PathId::ZERO).to_vec();
    assert_eq!(levels(&pair.client), [SpaceId::Initial]);
    pair.say(Side::Client).unwrap();
    // The client may not have read the server's Finished.
    assert_eq!(levels(&pair.server), LEVELS[..2]);
    pair.say(Side::Server).unwrap();
    assert_eq!(levels(&pair.client), LEVELS);
    pair.say(Side::Client).unwrap();
    pair.server.confirm();
    assert_eq!(levels(&pair.server), [SpaceId::Data]);
    // Nothing of the handshake goes on another path.
    let other = pair.client.close_levels(PathId(1));
    assert_eq!(other.as_slice(), [SpaceId::Data]);
}

#[test]
fn a_1_rtt_packet_is_opened_unless_it_was_changed() {
    let mut pair = Pair::new();
    for side in [Side::Client, Side::Server, Side::Client] {
        pair.say(side).unwrap();
    }
    let now = pair.now;
    let mut seal = |first: u8| {
        let mut buf = Vec::new();
        let pn_offset = encode_short_header(&mut buf, &cid(2), false, 7, 4);
        buf[0] |= first;
        buf.extend_from_slice(&[0; 20]);
        let keys = pair.client.one_rtt_mut().unwrap();
        let sealed = keys.seal_packet(&mut buf, 0, pn_offset, 4, None, 7);
        sealed.unwrap();
        (buf, pn_offset)
    };
    let ((packet, at), (reserved, _)) = (seal(0), seal(0x18));
    let mut open = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let pto = || unreachable!("no key update is under way");
        pair.server.open_short(now, None, 0, at, &mut bytes, pto)
    };
    let opened = open(&packet).unwrap();
    assert_eq!((opened.number, opened.payload), (7, at + 4..at + 24));
    assert!(!opened.reserved_bits && opened.updated.is_none());
    assert!(open(&reserved).unwrap().reserved_bits);
    assert_eq!(open(&packet[..at + 3]), Err(NotOpened::NoPacket));
    let (last, rest) = packet.split_last().unwrap();
    let changed = [rest, &[last ^ 1]].concat();
    assert_eq!(open(&changed), Err(NotOpened::Undecryptable));
    // Its acknowledgement is of interest to new keys only.
    assert!(pair.client.keys_await_ack());
    let pto = Duration::from_millis(100);
    assert_eq!(pair.client.on_keys_acked(now, None, 7, pto), None);
    assert!(!pair.client.keys_await_ack());
    pair.client.confirm();
    pair.client.update_keys(now);
    assert_eq!(pair.client.key_updates(), 1);
}
