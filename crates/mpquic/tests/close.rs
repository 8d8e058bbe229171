//! How connections and endpoints end, and who hears of it.

use std::time::Duration;

use crate::common::{Pair, client_config, loopback, run};
use mpquic::sched::{Context, Decision, Scheduler};
use mpquic::{
    ClientConfig, ConnectionError, ReadError, TransportConfig, TransportErrorCode, VarInt,
    WriteError,
};
use tokio::net::UdpSocket;

const CODE: VarInt = VarInt::from_u32(7);

fn application_code(error: &ConnectionError) -> (VarInt, &[u8]) {
    let ConnectionError::ApplicationClosed(close) = error else {
        panic!("{error:?}");
    };
    (close.error_code, &close.reason)
}

#[test]
fn code_and_reason_arrive_and_both_endpoints_become_idle() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        assert_eq!(client.close_reason(), None);
        client.close(CODE, b"enough");
        assert_eq!(client.closed().await, ConnectionError::LocallyClosed);
        let reason = server.closed().await;
        assert_eq!(application_code(&reason), (CODE, b"enough".as_slice()));
        assert_eq!(server.close_reason(), Some(reason));
        tokio::join!(pair.client.wait_idle(), pair.server.wait_idle());
        assert_eq!(pair.client.open_connections(), 0);
        // A second time changes nothing.
        client.close(VarInt::from_u32(8), b"");
        assert_eq!(client.close_reason(), Some(ConnectionError::LocallyClosed));
    });
}

/// The bytes arrive as they are; whoever shows the error forges no line of a log, and no terminal obeys.
#[test]
fn a_hostile_reason_is_shown_on_one_line() {
    run(async {
        let hostile = b"bye\r\n203.0.113.9: sent secret\x1b[2J\xe2\x80\xae\xff";
        let shown = r"bye\r\n203.0.113.9: sent secret\u{1b}[2J\u{202e}";
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = server.open_uni().await.unwrap();
        client.close(CODE, hostile);
        let reason = server.closed().await;
        assert_eq!(application_code(&reason), (CODE, hostile.as_slice()));
        let write = stream.write_all(b"x").await.unwrap_err();
        let io = std::io::Error::from(write.clone());
        for text in [reason.to_string(), write.to_string(), io.to_string()] {
            assert!(text.contains(shown), "{text}");
            assert!(
                !text.contains(|c: char| c.is_control() || c == '\u{202e}'),
                "{text:?}"
            );
        }
    });
}

#[test]
fn everything_that_waits_ends() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let lost = ConnectionError::LocallyClosed;
        let mut events = client.path_events();
        let stopped = send.stopped();
        tokio::join!(
            async { assert_eq!(client.accept_uni().await.unwrap_err(), lost) },
            async { assert_eq!(client.accept_bi().await.unwrap_err(), lost) },
            async { assert_eq!(client.read_datagram().await.unwrap_err(), lost) },
            async {
                let error = recv.read(&mut [0]).await.unwrap_err();
                assert_eq!(error, ReadError::ConnectionLost(lost.clone()));
            },
            async { assert!(stopped.await.is_err()) },
            async { while events.recv().await.is_some() {} },
            async { client.close(CODE, b"") },
        );
        let error = send.write_all(b"y").await.unwrap_err();
        assert_eq!(error, WriteError::ConnectionLost(lost.clone()));
        assert_eq!(client.open_uni().await.unwrap_err(), lost);
        assert_eq!(client.path_events().recv().await, None);
    });
}

#[test]
fn the_last_handle_closes() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let path = client.paths().remove(0);
        drop(client);
        // The stream and the path keep it open.
        stream.write_all(b"y").await.unwrap();
        let mut there = server.accept_uni().await.unwrap();
        there.read_exact(&mut [0; 2]).await.unwrap();
        drop(stream);
        assert_eq!(there.read(&mut [0]).await, Ok(None));
        drop(path);
        let reason = server.closed().await;
        assert_eq!(application_code(&reason).0, VarInt::from_u32(0));
        // What is left of it counts until its time is over.
        assert_eq!(pair.client.open_connections(), 1);
        pair.client.wait_idle().await;
        assert_eq!(pair.client.open_connections(), 0);
    });
}

#[test]
fn an_endpoint_closes_all_its_connections_and_accepts_no_more() {
    run(async {
        let pair = Pair::new();
        let (one, _one) = pair.connect().await;
        let (two, _two) = pair.connect().await;
        let accept = pair.server.accept();
        let close = async { pair.server.close(CODE, b"going down") };
        let (accepted, ()) = tokio::join!(accept, close);
        assert!(accepted.is_none());
        for connection in [one, two] {
            let reason = connection.closed().await;
            assert_eq!(application_code(&reason), (CODE, b"going down".as_slice()));
        }
        pair.server.wait_idle().await;
        let late = pair.client.connect(pair.server_addr, "localhost").unwrap();
        assert!(matches!(
            late.await,
            Err(ConnectionError::ConnectionClosed(_))
        ));
    });
}

#[test]
fn dropping_the_attempt_gives_it_up() {
    run(async {
        let pair = Pair::new();
        drop(pair.client.connect(pair.server_addr, "localhost").unwrap());
        pair.client.wait_idle().await;
    });
}

#[test]
fn what_was_received_before_the_close_can_be_read_after() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"last words").await.unwrap();
        stream.finish().unwrap();
        let mut there = server.accept_uni().await.unwrap();
        stream.stopped().await.unwrap();
        client.close(CODE, b"");
        server.closed().await;
        assert_eq!(there.read_to_end(100).await.unwrap(), b"last words");
    });
}

/// A client that assumes such a round trip that three probe timeouts outlast the test.
fn patient(pair: &Pair) -> ClientConfig {
    let mut transport = TransportConfig::default();
    transport.initial_rtt(Duration::from_secs(1000));
    client_config(&pair.identity, transport)
}

/// Nobody has answered, so that nobody asks again: an endpoint does not wait for that.
#[test]
fn an_attempt_that_nobody_answered_leaves_nothing_to_wait_for() {
    run(async {
        for locals in [1, 2] {
            let locals: Vec<_> = (1..=locals).map(loopback).collect();
            let pair = Pair::with(&locals, |_| ());
            let silent = UdpSocket::bind(loopback(1)).await.unwrap();
            let server = silent.local_addr().unwrap();
            let connect = || {
                let config = patient(&pair);
                pair.client
                    .connect_with(config, server, "localhost")
                    .unwrap()
            };
            // Before anything has left, and after.
            drop(connect());
            pair.client.wait_idle().await;
            let connecting = connect();
            while silent.recv(&mut [0; 2048]).await.unwrap() < 1200 {}
            drop(connecting);
            pair.client.wait_idle().await;
            // By the application, and by the endpoint.
            let connecting = connect();
            pair.client.close(CODE, b"enough");
            assert_eq!(
                connecting.await.unwrap_err(),
                ConnectionError::LocallyClosed
            );
            pair.client.wait_idle().await;
        }
    });
}

#[test]
fn an_attempt_that_the_server_refuses_leaves_nothing_to_wait_for() {
    run(async {
        let pair = Pair::new();
        let config = patient(&pair);
        let connecting = pair
            .client
            .connect_with(config, pair.server_addr, "localhost");
        let refuse = async { pair.server.accept().await.unwrap().refuse() };
        let (outcome, ()) = tokio::join!(connecting.unwrap(), refuse);
        let Err(ConnectionError::ConnectionClosed(close)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
        pair.client.wait_idle().await;
    });
}

struct Panics;

impl Scheduler for Panics {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        panic!("no idea");
    }
}

/// The peer is told, and so is everybody who waits here.
#[test]
fn a_scheduler_that_panics_ends_its_connection_with_an_error_on_both_sides() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        client.handshake_confirmed().await.unwrap();
        server.set_scheduler(|| Box::new(Panics));
        let mut stream = server.open_uni().await.unwrap();
        let write = async {
            let error = stream.write_all(&vec![7; 64 << 20]).await.unwrap_err();
            let WriteError::ConnectionLost(ConnectionError::TransportError(error)) = error else {
                panic!("{error:?}");
            };
            assert_eq!(error.code, TransportErrorCode::INTERNAL_ERROR);
            assert!(error.reason.contains("scheduler Panics"), "{error}");
            assert!(error.reason.contains("no idea"), "{error}");
        };
        let accept = async { assert!(server.accept_bi().await.is_err()) };
        let (reason, (), ()) = tokio::join!(client.closed(), write, accept);
        let ConnectionError::ConnectionClosed(close) = reason else {
            panic!("{reason:?}");
        };
        assert_eq!(close.error_code, TransportErrorCode::INTERNAL_ERROR);
        let text = String::from_utf8_lossy(&close.reason);
        assert!(
            text.contains("scheduler Panics") && !text.contains("no idea"),
            "{text}"
        );
        drop((stream, server));
        pair.server.wait_idle().await;
        // The endpoint is none the worse for it.
        drop(pair.connect().await);
    });
}
