//! Frames over real connections of mpquic: two paths over loopback, in real time.

use std::collections::BTreeSet;
use std::time::Duration;

use mpquic::sched::memory::Store;
use mpquic::{ConnectionError, VarInt};
use mpquic_live::{
    Flow, FrameInfo, Limits, LiveConfig, LiveError, LiveReceiver, LiveSender, Received,
};
use mpquic_test_support::runtime::run;

include!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../mpquic/tests/doc/pair.rs"
));

const DEADLINE: Duration = Duration::from_secs(5);

async fn two_paths() -> Pair {
    let pair = pair().await.unwrap();
    let local = pair.client_endpoint.local_addrs()[1];
    let remote = pair.client.remote_address();
    pair.client.open_path_from(local, remote).await.unwrap();
    pair
}

fn frame(number: u64) -> Vec<u8> {
    (0..200 + 900 * (number % 9))
        .map(|i| (i * number) as u8)
        .collect()
}

/// Both ends at once send and receive, over two paths: each frame comes, once, as it was sent.
#[test]
fn frames_go_both_ways() {
    run(async {
        let pair = two_paths().await;
        let mut tasks = Vec::new();
        for (here, there) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let live = LiveSender::new(here, LiveConfig::default()).unwrap();
            let flows = [0, 1].map(|_| live.flow(Flow::new(DEADLINE)));
            let mut receiver = LiveReceiver::new(there, Limits::default());
            tasks.push(tokio::spawn(async move {
                let receive = async {
                    let mut seen = BTreeSet::new();
                    while seen.len() < 100 {
                        let Ok(Received::Frame {
                            flow,
                            id,
                            key,
                            data,
                            ..
                        }) = receiver.recv().await
                        else {
                            panic!("a frame is missing")
                        };
                        assert!(seen.insert((flow, id)), "it came twice");
                        assert_eq!(data, frame(id));
                        assert_eq!(key, id % 10 == 0);
                    }
                    receiver
                };
                let send = async {
                    for id in 0..50 {
                        for flow in &flows {
                            let key = id % 10 == 0;
                            assert_eq!(flow.send(&frame(id), FrameInfo { key }), Ok(id));
                        }
                        tokio::task::yield_now().await;
                    }
                };
                let (receiver, ()) = tokio::join!(receive, send);
                assert_eq!(live.stats().frames, 100);
                assert_eq!(receiver.stats().frames, 100);
                assert_eq!(receiver.refused(), 0);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// What a flow has learned is there for the next connection over the same paths, whether the handle is dropped or the
/// connection ends.
#[test]
fn what_was_learned_is_kept() {
    run(async {
        for close in [false, true] {
            let store = Store::new();
            let pair = two_paths().await;
            let live =
                LiveSender::new(&pair.client, LiveConfig::with_memory(store.clone())).unwrap();
            let flow = live.flow(Flow::new(Duration::from_millis(1)));
            while flow.learned().unwrap().frames() < 40.0 {
                flow.send(b"small", FrameInfo::default()).unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let learned = flow.learned().unwrap();
            if close {
                pair.client.close(VarInt::from_u32(0), b"done");
                pair.client.closed().await;
            }
            drop((live, flow));
            assert_eq!(store.len(), 1);

            let again = two_paths().await;
            let live = LiveSender::new(&again.client, LiveConfig::with_memory(store)).unwrap();
            let flow = live.flow(Flow::new(Duration::from_millis(1)));
            // The pair is known once the paths are looked at.
            flow.send(b"small", FrameInfo::default()).unwrap();
            let known = flow.learned().unwrap();
            assert!(known.frames() >= 29.0, "{} frames", known.frames());
            let of = |means: &[f64; 10]| means.iter().sum::<f64>();
            assert!((of(known.means()) - of(learned.means())).abs() < 1.0);
            // With another price or deadline, it is another flow.
            let other = live.flow(Flow::new(Duration::from_millis(2)));
            assert_eq!(other.learned().unwrap().frames(), 0.0);
        }
    });
}

#[test]
fn the_end_of_a_connection_is_told() {
    run(async {
        let pair = two_paths().await;
        let live = LiveSender::new(&pair.client, LiveConfig::default()).unwrap();
        let flow = live.flow(Flow::new(DEADLINE));
        flow.send(&[1; 10_000], FrameInfo::default()).unwrap();
        let mut receiver = LiveReceiver::new(&pair.server, Limits::default());
        assert!(matches!(
            receiver.recv().await,
            Ok(Received::Frame { id: 0, .. })
        ));
        pair.client.close(VarInt::from_u32(7), b"done");
        pair.client.closed().await;
        pair.server_endpoint.wait_idle().await;
        assert!(matches!(
            receiver.recv().await,
            Err(ConnectionError::ApplicationClosed(_))
        ));
        assert!(matches!(
            flow.send(&[1], FrameInfo::default()),
            Err(LiveError::Connection(ConnectionError::LocallyClosed))
        ));
        assert!(matches!(
            LiveSender::new(&pair.client, LiveConfig::default()),
            Err(LiveError::Connection(_))
        ));
    });
}
