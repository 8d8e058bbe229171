//! UDP as frames in time: there and back, with one end that is not set to it, and with a client that sends what makes no sense.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_live::wire::{Body, MAX_FRAME, MAX_PARTS, MAX_SENT, Packet};
use mpquic_live::{Limits, Receiver, Verdict};

use crate::common::stranger::{ask, greet, stranger};
use crate::common::{
    FIRST, Far, HOUR, Near, client_settings, echoes_udp, far, far_with, near, run, udp_echo,
};

const LOCAL: &[&str] = &["127.0.0.0/8:*"];
const LIVE: Option<Duration> = Some(Duration::from_secs(2));

async fn client(far: &Far, live: Option<Duration>) -> Near {
    let mut settings = client_settings(far.address, &[FIRST]);
    settings.live = live;
    near(far.fingerprint, settings).await.unwrap()
}

#[test]
fn datagrams_that_fit_no_packet_go_in_parts() {
    run(async {
        let far = far_with(LOCAL, HOUR, LIVE);
        let near = client(&far, LIVE).await;
        // No path of a loopback takes 8,000 bytes at once here: packets have 1,452 at most.
        echoes_udp(&near, &[b"abc", &[7; 8_000], b"defgh"]).await;
        near.stop().await;
    });
}

#[test]
fn one_end_alone_changes_nothing() {
    run(async {
        for (server, this) in [(None, LIVE), (LIVE, None)] {
            let far = far_with(LOCAL, HOUR, server);
            let near = client(&far, this).await;
            echoes_udp(&near, &[b"abc", b"defgh"]).await;
            near.stop().await;
        }
    });
}

#[test]
fn a_server_without_it_says_so() {
    run(async {
        let far = far(LOCAL, HOUR);
        let (_endpoint, connection) = stranger(&far).await;
        greet(&connection).await;
        assert_ne!(ask(&connection, &[8]).await.0, Some(0));
    });
}

/// Flows without number, frames of megabytes of which one part comes, times and deadlines of centuries, repair of what never was: the
/// server takes none of it for its own, and serves the same client's honest datagrams.
#[test]
fn what_makes_no_sense_is_lost() {
    run(async {
        let far = far_with(LOCAL, HOUR, LIVE);
        let echo = udp_echo().await;
        let (_endpoint, connection) = stranger(&far).await;
        greet(&connection).await;
        let (answer, ..) = ask(&connection, &[8]).await;
        assert_eq!(answer, Some(0));
        let (answer, _send, _recv) = ask(&connection, &[2]).await;
        assert_eq!(answer, Some(0));
        for number in 0..5_000_u32 {
            let (mut body, mut datagram) = (Vec::new(), Vec::new());
            Body {
                key: true,
                frame: u64::from(number).pow(2),
                sent: [0, MAX_SENT, u64::from(number)][number as usize % 3],
                budget: [0, u32::MAX][number as usize % 2],
                length: MAX_FRAME as u32,
                parts: MAX_PARTS,
                part: number % MAX_PARTS,
                payload: &[7; 1_024],
            }
            .write(&mut body);
            let (flow, symbol) = (number % 1_000, number.wrapping_mul(0x9e37_79b9));
            let packet = match number % 5 {
                0 => Packet::Source {
                    flow,
                    symbol,
                    body: &[0xff; 40],
                },
                1 => Packet::Repair {
                    flow: flow % 3,
                    key: number as u16,
                    density: 15,
                    window: 1 + number as u16 % 128,
                    first: symbol,
                    symbol: &body[..],
                },
                _ => Packet::Source {
                    flow,
                    symbol,
                    body: &body,
                },
            };
            packet.write(&mut datagram);
            if number % 7 == 0 {
                datagram.truncate(number as usize % 16);
            }
            // More than the paths take are dropped before they leave, as datagrams are.
            let _ = connection.send_datagram(datagram.into());
        }
        // The second stream after the greeting's and the request's, to an echo.
        let mut honest = vec![0, 0, 0, 2, 4, 127, 0, 0, 1];
        honest.extend_from_slice(&echo.port().to_be_bytes());
        let head = honest.len();
        honest.extend_from_slice(b"honest");
        let mut receiver = Receiver::new(Limits::default());
        let mut frame = Vec::new();
        loop {
            connection
                .send_datagram(Bytes::from(honest.clone()))
                .unwrap();
            let waited = tokio::time::timeout(Duration::from_millis(500), async {
                let datagram = connection.read_datagram().await.unwrap();
                receiver.receive(Instant::now(), &datagram).unwrap();
            });
            if waited.await.is_ok()
                && let Some(Verdict::Frame { .. }) = receiver.poll(Instant::now(), &mut frame)
            {
                assert_eq!(&frame[head..], b"tsenoh");
                return;
            }
        }
    });
}
