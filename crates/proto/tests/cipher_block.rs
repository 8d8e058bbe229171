//! Full packets that are whole blocks of the cipher: which are, that they still leave in one call, and that the application's
//! datagrams have all the room that they were told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pair::{Pair, download};
use bytes::Bytes;
use mpquic_proto::{
    Dir, EndpointConfig, NumberSpace, Observer, PacketSent, PathId, Side, TransportConfig,
};

const BLOCK: usize = 16;

/// A first byte, a connection ID, a packet number of one or two bytes before what is encrypted; a tag behind it.
const AROUND: [usize; 2] = [1 + 8 + 1 + 16, 1 + 8 + 2 + 16];

/// Bytes of each sent packet.
type Sizes = Arc<Mutex<Vec<usize>>>;

struct Watch(Sizes);

impl Observer for Watch {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        if !packet.mtu_probe && matches!(packet.space, NumberSpace::Path(_)) {
            self.0.lock().unwrap().push(packet.size.into());
        }
    }
}

/// A connection whose server makes whole blocks, and what it sends.
fn connected() -> (Pair, Sizes) {
    let sizes = Sizes::default();
    let mut server = EndpointConfig::new([2; 32]);
    let watched = Arc::clone(&sizes);
    server
        .cipher_block(BLOCK as u16)
        .observer(move |side| match side {
            Side::Server => Some(Box::new(Watch(Arc::clone(&watched)))),
            Side::Client => None,
        });
    let config = TransportConfig::default();
    let endpoints = [EndpointConfig::new([1; 32]), server];
    let mut pair = Pair::with_endpoints(config.clone(), config, endpoints);
    pair.connect();
    assert!(pair.run_until(Duration::from_secs(2), |pair| {
        let path = pair.s().path(PathId::ZERO).map(|path| path.stats());
        path.unwrap().mtu == 1452
    }));
    sizes.lock().unwrap().clear();
    (pair, sizes)
}

#[test]
fn full_packets_are_whole_blocks_and_leave_together() {
    let (mut pair, sizes) = connected();
    assert!(download(&mut pair, 1 << 20));
    let sizes = std::mem::take(&mut *sizes.lock().unwrap());
    let full: Vec<_> = sizes.iter().filter(|size| **size + BLOCK > 1452).collect();
    assert!(
        full.len() * 10 > sizes.len() * 9,
        "{} of {}",
        full.len(),
        sizes.len()
    );
    for size in full {
        let whole = AROUND.iter().any(|around| (size - around) % BLOCK == 0);
        assert!(whole, "{size}");
    }

    let id = pair.s().streams().open(Dir::Uni).unwrap();
    pair.s().send_stream(id).write(&[7; 20_000]).unwrap();
    let (now, mut buf) = (pair.now, Vec::new());
    let transmit = pair.s().poll_transmit(now, 10, &mut buf).unwrap();
    let segment = transmit.segment_size.unwrap();
    assert!((1452 - BLOCK + 1..=1452).contains(&segment), "{segment}");
    assert_eq!(transmit.size, 10 * segment);
}

#[test]
fn datagrams_have_all_the_room_beside_a_stream() {
    let (mut pair, _) = connected();
    let most = pair.s().datagrams().max_size().unwrap();
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let mut received = 0;
    for round in 0..20 {
        // Before the stream's data and after it, of every length at which the blocks may end.
        let size = most - round;
        let data = Bytes::from(vec![3; size]);
        assert_eq!(pair.s().datagrams().send(data.clone(), false), Ok(()));
        pair.s().send_stream(id).write(&[7; 8_000]).unwrap();
        assert_eq!(pair.s().datagrams().send(data, false), Ok(()));
        pair.run_until(Duration::from_millis(100), |_| false);
        while let Some(data) = pair.c().datagrams().recv() {
            assert_eq!(data.len(), size);
            received += 1;
        }
    }
    assert_eq!(received, 40);
}
