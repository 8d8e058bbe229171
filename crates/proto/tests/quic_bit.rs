//! The QUIC bit of packets between endpoints that take either value of it, and those that do not (RFC 9287).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{self, Pair, tuple};
use mpquic_proto::{ClientConfig, Dir, EndpointConfig, Version};
use mpquic_test_support::tls::Identity;
use proptest::prelude::*;

/// First packets of datagrams by their QUIC bit, in arrays of two: the client's and the server's; with long headers
/// and with short ones.
#[derive(Debug, Default)]
struct Seen {
    cleared: [[u32; 2]; 2],
    set: [[u32; 2]; 2],
}

/// A connection that is about to begin, and what is seen of it. Arrays: the client's, the server's.
fn pair(version: Version, greased: [bool; 2], seeds: [u8; 2]) -> (Pair, Rc<RefCell<Seen>>) {
    let identity = Identity::new();
    let server = pair::server_config(&identity);
    let mut client = ClientConfig::with_root_certificates(identity.roots()).unwrap();
    client.version(version);
    let configs = [0, 1].map(|side| {
        let mut config = EndpointConfig::new([seeds[side]; 32]);
        config.grease_quic_bit(greased[side]);
        config
    });
    let mut pair = Pair::of(client, server, configs);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let record = Rc::clone(&seen);
    pair.filter = Box::new(move |from_client, _, datagram| {
        let mut seen = record.borrow_mut();
        let side = usize::from(!from_client);
        let form = usize::from(datagram[0] & 0x80 == 0);
        if datagram[0] & 0x40 == 0 {
            seen.cleared[side][form] += 1;
        } else {
            seen.set[side][form] += 1;
        }
        true
    });
    (pair, seen)
}

/// Sends in both directions, over two paths.
fn exchange(pair: &mut Pair) {
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(2), |pair| pair.both_validated(id)));
    let stream = pair.c().streams().open(Dir::Bi).unwrap();
    let len = 200_000;
    let (mut written, mut received) = ([0; 2], [0; 2]);
    let (data, mut buf) = (vec![7; len], vec![0; 65536]);
    assert!(pair.run_until(Duration::from_secs(10), |pair| {
        pair.s().streams().accept(Dir::Bi);
        for side in [0, 1] {
            let connection = if side == 0 { pair.c() } else { pair.s() };
            while written[side] < len
                && let Ok(more) = connection.send_stream(stream).write(&data[written[side]..])
            {
                written[side] += more;
            }
            while let Ok(Some(read)) = connection.recv_stream(stream).read(&mut buf) {
                received[side] += read;
            }
        }
        received == [len; 2]
    }));
    assert_eq!(pair.c().stats().undecryptable_packets, 0);
    assert_eq!(pair.s().stats().undecryptable_packets, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The bit is cleared where both sides have said that they take it, in about half of all packets, and nowhere
    /// else; every packet is understood.
    #[test]
    fn greased_only_where_both_sides_take_it(
        greased in any::<[bool; 2]>(),
        seeds in any::<[u8; 2]>(),
        version in prop_oneof![Just(Version::V1), Just(Version::V2)],
        retry in any::<bool>(),
    ) {
        let (mut pair, seen) = pair(version, greased, seeds);
        pair.retry = retry;
        pair.connect();
        exchange(&mut pair);
        let seen = seen.borrow();
        let both = greased == [true; 2];
        // Section 3.1: a client's first packets leave before it knows what the server takes.
        prop_assert!(seen.set[0][0] > 0, "{seen:?}");
        for side in [0, 1] {
            let (cleared, all) = (seen.cleared[side][1], seen.cleared[side][1] + seen.set[side][1]);
            prop_assert!(all > 50, "{seen:?}");
            if both {
                prop_assert!(cleared > all / 5 && cleared < all * 4 / 5, "{seen:?}");
            } else {
                prop_assert_eq!(seen.cleared[side], [0; 2]);
            }
        }
    }
}

/// An endpoint that has not said that it takes them drops packets without the bit unseen.
#[test]
fn packets_without_the_bit_are_dropped_where_it_is_not_greased() {
    for greased in [true, false] {
        let (mut pair, _) = pair(Version::V1, [greased; 2], [1, 2]);
        pair.connect();
        pair.run_until(Duration::from_millis(500), |_| false);
        let before = pair.s().stats().undecryptable_packets;
        pair.c().ping();
        assert!(pair.run_until(Duration::from_secs(1), |pair| {
            !pair.server.inbound.is_empty()
        }));
        let mut altered = 0;
        for flying in &mut pair.server.inbound {
            // Altered, it is no packet of the client's: taken in, it cannot be decrypted.
            flying.data[0] ^= 0x40;
            altered += 1;
        }
        pair.run_until(Duration::from_millis(11), |_| false);
        let failed = pair.s().stats().undecryptable_packets - before;
        assert_eq!(failed, if greased { altered } else { 0 });
    }
}
