//! Unreliable datagrams.

mod common;

use common::{Pair, loopback, run};
use mpquic::SendDatagramError;

#[test]
fn they_arrive_on_a_network_that_loses_nothing() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for number in 0..100u8 {
            client
                .send_datagram_wait(vec![number; 100].into())
                .await
                .unwrap();
            let data = server.read_datagram().await.unwrap();
            assert_eq!(data, vec![number; 100]);
            server.send_datagram(data.clone()).unwrap();
            assert_eq!(client.read_datagram().await.unwrap(), data);
        }
        assert!(client.datagram_send_buffer_space() > 0);
    });
}

#[test]
fn the_largest_fits_and_one_byte_more_does_not() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let size = client.max_datagram_size().unwrap();
        // Probing may find room for more in between, never for less.
        client.send_datagram(vec![1; size].into()).unwrap();
        assert_eq!(server.read_datagram().await.unwrap().len(), size);
        let error = client.send_datagram(vec![1; 1 << 16].into()).unwrap_err();
        assert_eq!(error, SendDatagramError::TooLarge);
    });
}

#[test]
fn a_peer_that_takes_none_is_an_error() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |transport| {
            transport.datagram_receive_buffer(None);
        });
        let (client, _server) = pair.connect().await;
        assert_eq!(client.max_datagram_size(), None);
        let error = client.send_datagram(b"x".as_slice().into()).unwrap_err();
        assert!(matches!(
            error,
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled
        ));
    });
}
