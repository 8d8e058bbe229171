//! Two links, of which one is pulled: no transfer breaks, and the one that is left carries them.

use std::time::Duration;

use crate::common::{
    FIRST, Far, Near, SECOND, client_settings, far, near, pattern, run, socks, target,
};
use mpquic_sim::{LinkConfig, Relay};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LEN: usize = 1_000_000;
const TRANSFERS: usize = 10;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client with two links of its own to a server, as a machine with two interfaces has.
async fn two_links() -> (Far, Near, Relay) {
    let far = far(&["127.0.0.0/8:*"], Duration::from_secs(60));
    let link = |rate, delay| LinkConfig::new(rate, ms(delay));
    let (fast, slow) = (link(40_000_000, 5), link(20_000_000, 15));
    let listen = (FIRST, 0).into();
    let relay = Relay::spawn(listen, far.address, fast.clone(), fast.clone(), 1).unwrap();
    relay.add_links(FIRST, fast.clone(), fast, 2).unwrap();
    relay.add_links(SECOND, slow.clone(), slow, 3).unwrap();
    let settings = client_settings(relay.addr(), &[FIRST, SECOND]);
    let near = near(far.fingerprint, settings).await.unwrap();
    (far, near, relay)
}

#[test]
fn ten_transfers_survive_a_link_that_is_pulled() {
    run(async {
        let (_far, near, relay) = two_links().await;
        // It sends what was asked for, then takes the same back.
        let source = target(|mut socket| async move {
            let data = pattern(LEN);
            let (mut reader, mut writer) = socket.split();
            let sending = async {
                writer.write_all(&data).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut back = Vec::new();
            let ((), read) = tokio::join!(sending, reader.read_to_end(&mut back));
            read.unwrap();
            assert!(back == data);
        })
        .await;
        let mut transfers = tokio::task::JoinSet::new();
        let (progress, mut progressed) = tokio::sync::mpsc::channel(TRANSFERS);
        for _ in 0..TRANSFERS {
            let progress = progress.clone();
            let proxy = near.proxy;
            transfers.spawn(async move {
                let (code, _, mut socket) = socks(proxy, 1, source).await;
                assert_eq!(code, 0);
                let mut data = vec![0; LEN];
                let (first, rest) = data.split_at_mut(LEN / 4);
                socket.read_exact(first).await.unwrap();
                progress.send(()).await.unwrap();
                socket.read_exact(rest).await.unwrap();
                assert!(data == pattern(LEN));
                socket.write_all(&data).await.unwrap();
                socket.shutdown().await.unwrap();
                // The target has checked all of it when it closes.
                assert_eq!(socket.read(&mut data).await.unwrap(), 0);
            });
        }
        for _ in 0..TRANSFERS {
            progressed.recv().await.unwrap();
        }
        let both = near.client.report();
        assert_eq!(both.links.len(), 2, "{both:?}");
        assert!(
            both.links.iter().all(|link| link.received > 100_000),
            "{both:?}"
        );
        // All are in the middle of it.
        assert!(relay.set_links_up(FIRST, false));
        while let Some(done) = transfers.join_next().await {
            done.unwrap();
        }
        near.stop().await;
    });
}

#[test]
fn a_link_that_is_out_carries_nothing() {
    run(async {
        let (_far, near, _relay) = two_links().await;
        let source = target(|mut socket| async move {
            while let Ok(len) = socket.read_u32().await {
                socket.write_all(&vec![1; len as usize]).await.unwrap();
            }
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, source).await;
        let mut fetch = async |len: u32| {
            socket.write_u32(len).await.unwrap();
            let mut data = vec![0; len as usize];
            socket.read_exact(&mut data).await.unwrap();
        };
        // Until both are open and in use.
        loop {
            fetch(1_000_000).await;
            let report = near.client.report();
            if report.links.len() == 2 && report.links.iter().all(|link| link.received > 50_000) {
                break;
            }
        }
        assert!(near.client.set_out(SECOND, true));
        // The last one would carry all the same.
        assert!(!near.client.set_out(FIRST, true));
        let report = near.client.report();
        let first = report.links.iter().find(|link| link.local == FIRST);
        assert!(first.is_some_and(|link| !link.out), "{report:?}");
        assert!(report.links.iter().all(|link| !link.last), "{report:?}");
        // What was in flight when the server heard of it is over with this.
        fetch(200_000).await;
        let received = |near: &Near| {
            let report = near.client.report();
            let link = report.links.iter().find(|link| link.local == SECOND);
            link.map(|link| (link.out, link.received)).unwrap()
        };
        let (out, before) = received(&near);
        assert!(out);
        fetch(2_000_000).await;
        let (_, after) = received(&near);
        assert!(after - before < 100_000, "{before} {after}");
        assert!(near.client.set_out(SECOND, false));
        loop {
            fetch(500_000).await;
            let (out, now) = received(&near);
            assert!(!out);
            if now > after + 100_000 {
                break;
            }
        }
        near.stop().await;
    });
}

#[test]
fn the_scheduler_is_switched_on_both_sides_in_the_middle_of_a_transfer() {
    run(async {
        let (_far, near, _relay) = two_links().await;
        let source = target(|mut socket| async move {
            while let Ok(len) = socket.read_u32().await {
                socket.write_all(&pattern(len as usize)).await.unwrap();
            }
        })
        .await;
        let (_, _, mut socket) = socks(near.proxy, 1, source).await;
        let mut fetch = async |len: u32| {
            socket.write_u32(len).await.unwrap();
            let mut data = vec![0; len as usize];
            socket
                .read_exact(&mut data[..len as usize / 2])
                .await
                .unwrap();
            let chosen = near.client.scheduler();
            near.client
                .set_scheduler(if chosen.as_deref() == Some("redundant") {
                    "minrtt"
                } else {
                    "redundant"
                })
                .unwrap();
            socket
                .read_exact(&mut data[len as usize / 2..])
                .await
                .unwrap();
            assert!(data == pattern(len as usize));
        };
        // Until the server sends all twice: `redundant` of the client alone would not.
        let both = |near: &Near| -> u64 {
            near.client
                .report()
                .links
                .iter()
                .map(|link| link.received)
                .sum()
        };
        let mut most = 0.0_f64;
        while most < 1.5 {
            let before = both(&near);
            fetch(1_000_000).await;
            most = most.max((both(&near) - before) as f64 / 1e6);
        }
        let refused = near.client.set_scheduler("nope").unwrap_err().to_string();
        assert!(refused.contains("unknown scheduler `nope`"), "{refused}");
        near.stop().await;
    });
}
