//! Tests of the queues of datagrams.

use super::*;

fn datagrams(send: usize, recv: Option<usize>) -> Datagrams {
    let mut config = TransportConfig::default();
    config
        .datagram_send_buffer(send)
        .datagram_receive_buffer(recv);
    Datagrams::new(&config)
}

fn fill(d: &mut Datagrams, room: usize) -> Vec<u8> {
    let mut buf = Vec::new();
    let mut w = FrameWriter::new(&mut buf, room);
    d.fill(&mut w, None, PathId::ZERO, Instant::now());
    assert!(buf.len() <= room);
    buf
}

#[test]
fn refusals() {
    let data = Bytes::from_static(&[7; 100]);
    let mut d = datagrams(0, None);
    assert_eq!(
        d.send(data.clone(), None, None, None, false, 1200),
        Err(SendDatagramError::Disabled)
    );
    let mut d = datagrams(300, None);
    let refused = d.send(data.clone(), None, None, None, false, 1200);
    //= specs/rfc9221.txt#section-3
    //= type=test
    //# An endpoint MUST NOT send DATAGRAM frames until it has received the
    //# max_datagram_frame_size transport parameter with a non-zero value during the handshake
    //# (or during a previous handshake if 0-RTT is used).
    assert_eq!(refused, Err(SendDatagramError::UnsupportedByPeer));
    d.set_peer_max(Some(102));
    assert_eq!(d.max_size(1200), Some(99));
    let refused = d.send(data.clone(), None, None, None, false, 1200);
    //= specs/rfc9221.txt#section-3
    //= type=test
    //# An endpoint MUST NOT send DATAGRAM frames that are larger than the
    //# max_datagram_frame_size value it has received from its peer.
    assert_eq!(refused, Err(SendDatagramError::TooLarge));
    d.set_peer_max(Some(65535));
    assert_eq!(d.max_size(1200), Some(1197));
    assert_eq!(d.max_size(64), Some(61));
    d.send(data.clone(), None, None, None, false, 1200).unwrap();
    d.send(data.clone(), None, None, None, false, 1200).unwrap();
    let refused = d.send(data.clone(), None, None, None, false, 1200);
    assert_eq!(refused, Err(SendDatagramError::Blocked(data.clone())));
    assert!(!d.poll_unblocked());
    d.send(data, None, None, None, true, 1200).unwrap();
    assert_eq!(d.outgoing.size(), 2 * 132);
    assert_eq!(fill(&mut d, 1200).len(), 2 * 103);
    assert!(!d.can_send() && d.poll_unblocked() && !d.poll_unblocked());
    assert!(d.on_datagram(b"x").is_err());
}

#[test]
fn sizes_at_the_borders_fit() {
    for room in 1..=1500 {
        let mut d = datagrams(1 << 20, None);
        d.set_peer_max(Some(65535));
        if let Some(max) = d.max_size(room) {
            d.send(vec![1; max].into(), None, None, None, false, room)
                .unwrap();
            assert!(!fill(&mut d, room).is_empty(), "{room}");
        }
    }
    let mut d = datagrams(1 << 20, None);
    d.set_peer_max(Some(65535));
    d.send(vec![1; 1000].into(), None, None, None, false, 1200)
        .unwrap();
    assert!(fill(&mut d, 900).is_empty());
    assert_eq!(u64::from(fill(&mut d, 1001)[0]), types::DATAGRAM);
    d.send(vec![1; 1000].into(), None, None, None, false, 1200)
        .unwrap();
    assert_eq!(d.drop_oversized(None, 1000), 1);
    assert!(!d.can_send());
}

#[test]
fn the_oldest_received_go_first() {
    let mut d = datagrams(0, Some(1000));
    for n in 0..100_000u32 {
        let first = d.on_datagram(&n.to_be_bytes()).unwrap();
        assert_eq!(first, n == 0);
        d.on_datagram(&[]).unwrap();
    }
    assert!(d.incoming.size <= 1000);
    assert!(d.dropped() > 199_900);
    d.on_datagram(b"last").unwrap();
    let all: Vec<_> = std::iter::from_fn(|| d.recv()).collect();
    assert_eq!(all.last().unwrap(), &Bytes::from_static(b"last"));
    assert_eq!(d.incoming.size, 0);
    assert!(!d.on_datagram(&[0; 2000]).unwrap());
}
