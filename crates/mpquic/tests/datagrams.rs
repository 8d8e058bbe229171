//! Unreliable datagrams.

use std::time::{Duration, Instant};

use crate::common::{Pair, loopback, run};
use mpquic::{DatagramOptions, Fate, PathErrorCode, PathId, SendDatagramError, VarInt};

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

#[test]
fn they_go_where_the_options_say() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let (client, server) = pair.connect().await;
        let second = loopback(2).ip();
        let path = client.open_path(second, pair.server_addr).await.unwrap();
        assert_eq!(path.id(), PathId(1));

        // One that is too late is dropped, whatever the others do.
        let past = Instant::now()
            .checked_sub(Duration::from_millis(1))
            .unwrap();
        let late = DatagramOptions::new().path(path.id()).deadline(past);
        client
            .send_datagram_with(vec![0; 900].into(), late)
            .unwrap();
        let before = path.stats().unwrap().sent_bytes;
        for number in 1..20u8 {
            let options = DatagramOptions::new().path(path.id());
            let data = vec![number; 900];
            client
                .send_datagram_with(data.clone().into(), options)
                .unwrap();
            assert_eq!(server.read_datagram().await.unwrap(), data);
        }
        let sent = path.stats().unwrap().sent_bytes - before;
        assert!(sent >= 19 * 900, "{sent} bytes");
        assert_eq!(client.stats().expired_datagrams, 1);

        let everywhere = DatagramOptions::new().all_paths();
        client
            .send_datagram_with(vec![20; 900].into(), everywhere)
            .unwrap();
        for _ in 0..2 {
            assert_eq!(server.read_datagram().await.unwrap(), vec![20; 900]);
        }

        let id = path.id();
        path.close(PathErrorCode::APPLICATION_ABANDON_PATH).unwrap();
        let options = DatagramOptions::new().path(id);
        let error = client.send_datagram_with(vec![21; 900].into(), options);
        assert_eq!(error, Err(SendDatagramError::PathNotOpen));
    });
}

#[test]
fn their_fates_are_told_to_who_asks() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let (client, server) = pair.connect().await;
        assert_eq!(client.try_datagram_fate(), None);
        let options = DatagramOptions::new();
        // Who waits before there is anything is woken.
        let waits = tokio::spawn({
            let client = client.clone();
            async move { client.datagram_fate().await }
        });
        tokio::task::yield_now().await;
        for tag in 0..10 {
            let data = vec![tag as u8; 100].into();
            client.send_datagram_with(data, options.tag(tag)).unwrap();
        }
        let first = waits.await.unwrap().unwrap();
        assert!(first.tag == 0 && matches!(first.fate, Fate::Sent { .. }));
        let mut ended = [false; 10];
        while ended.contains(&false) {
            let news = client.datagram_fate().await.unwrap();
            if let Fate::Acknowledged { sent, at, .. } = news.fate {
                assert!(sent <= at && !std::mem::replace(&mut ended[news.tag as usize], true));
            }
        }
        assert_eq!(client.try_datagram_fate(), None);
        assert_eq!(server.try_datagram_fate(), None);
        // What nobody can know any more comes before the error.
        client
            .send_datagram_with(vec![7; 100].into(), options.tag(10))
            .unwrap();
        client.close(VarInt::from_u32(0), b"");
        let news = client.datagram_fate().await.unwrap();
        assert_eq!(news.tag, 10);
        while client.datagram_fate().await.is_ok() {}
    });
}
