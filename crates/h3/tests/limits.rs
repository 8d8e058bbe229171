//! What h3 is given of a peer that sends too much: one frame of [`max_frame_size`](mpquic_h3::Connection::max_frame_size), and
//! nothing ahead of what the application reads.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::raw::{
    Pair, control, ended, frame, frame_header, honest, ok, pair, post, stopped,
};
use crate::common::{ask, run};
use bytes::{Buf, Bytes};
use h3::error::StreamError;
use http::{Request, Response};
use mpquic::{Connection, ConnectionError, TransportConfig, WriteError};
use mpquic_h3::FrameTooLarge;

const EXCESSIVE_LOAD: u64 = 0x107;
const HEADERS: u64 = 1;
/// Frames that h3 holds.
const SETTINGS: u64 = 4;
const GOAWAY: u64 = 7;
/// What HTTP/3 reserves for nothing (RFC 9114 section 7.2.8).
const RESERVED: u64 = 0x21;

fn standard() -> (TransportConfig, TransportConfig) {
    (TransportConfig::default(), TransportConfig::default())
}

/// Runs a client that says what it likes, and an honest server, until the client is done.
async fn against_a_server<F: Future<Output = ()>>(client: impl FnOnce(Connection) -> F) {
    against(mpquic_h3::Connection::new, client).await;
}

async fn against<F: Future<Output = ()>>(
    server_of: impl FnOnce(Connection) -> mpquic_h3::Connection,
    client: impl FnOnce(Connection) -> F,
) {
    let (server_config, client_config) = standard();
    let Pair {
        server,
        client: connection,
        endpoints: _endpoints,
    } = pair(server_config, client_config).await;
    let transport = server_of(server);
    let serving = tokio::spawn(async move {
        let mut requests = h3::server::Connection::<_, Bytes>::new(transport)
            .await
            .unwrap();
        while let Ok(Some(resolver)) = requests.accept().await {
            tokio::spawn(async move {
                let Ok((_, mut stream)) = resolver.resolve_request().await else {
                    return;
                };
                while let Ok(Some(mut data)) = stream.recv_data().await {
                    data.advance(data.remaining());
                }
                if stream.recv_trailers().await.is_ok() {
                    stream.send_response(Response::new(())).await.unwrap();
                    stream.finish().await.unwrap();
                }
            });
        }
    });
    client(connection.clone()).await;
    connection.close(0x100_u32.into(), b"");
    serving.await.unwrap();
}

/// Writes a frame that says that it is so long, and its payload for as long as it is taken. Gives the code of the end.
async fn endless(send: &mut mpquic::SendStream, ty: u64) -> Result<u64, ConnectionError> {
    let mut piece = frame_header(ty, 1 << 40).freeze();
    loop {
        match send.write_all(&piece).await {
            Ok(()) => piece = Bytes::from_static(&[0; 16 * 1024]),
            Err(WriteError::Stopped(code)) => return Ok(code.into_inner()),
            Err(WriteError::ConnectionLost(reason)) => return Err(reason),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn endless_fields_end_their_request() {
    run(against_a_server(async |connection: Connection| {
        let _control = control(&connection).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        assert_eq!(endless(&mut send, HEADERS).await, Ok(EXCESSIVE_LOAD));
        assert_eq!(ended(&mut recv).await, Err(EXCESSIVE_LOAD));
        honest(&connection).await;

        // As trailers, after a body that is longer than any limit.
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&post(0)).await.unwrap();
        send.write_all(&frame(0, &[7; 300_000])).await.unwrap();
        assert_eq!(endless(&mut send, HEADERS).await, Ok(EXCESSIVE_LOAD));
        assert_eq!(ended(&mut recv).await, Err(EXCESSIVE_LOAD));
        honest(&connection).await;

        // A frame that has no place there at all.
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        assert_eq!(endless(&mut send, SETTINGS).await, Ok(EXCESSIVE_LOAD));
        honest(&connection).await;
    }));
}

#[test]
fn a_control_stream_with_an_endless_frame_ends_the_connection() {
    run(async {
        for begun in [&b"\0"[..], b"\0\x04\0"] {
            let ty = if begun.len() == 1 { SETTINGS } else { GOAWAY };
            against_a_server(async |connection: Connection| {
                let mut control = connection.open_uni().await.unwrap();
                control.write_all(begun).await.unwrap();
                let reason = endless(&mut control, ty).await.unwrap_or_else(|lost| {
                    let ConnectionError::ApplicationClosed(close) = lost else {
                        panic!("{lost}");
                    };
                    close.error_code.into_inner()
                });
                assert_eq!(reason, EXCESSIVE_LOAD);
                let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
                    panic!("not by the application");
                };
                assert_eq!(close.error_code.into_inner(), EXCESSIVE_LOAD);
                let name = if ty == SETTINGS { "SETTINGS" } else { "GOAWAY" };
                let reason = String::from_utf8_lossy(&close.reason);
                assert!(reason.contains(name), "{reason}");
            })
            .await;
        }
    });
}

/// RFC 9114 section 9: frames of unknown types are ignored, whatever their length.
#[test]
fn large_frames_that_nobody_knows_are_skipped() {
    run(against_a_server(async |connection: Connection| {
        let mut control = control(&connection).await;
        let unknown = frame(RESERVED, &[0xff; 3_000_000]);
        control.write_all(&unknown).await.unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        for part in [
            unknown.clone(),
            post(0),
            unknown.clone(),
            frame(0, b"body"),
            unknown.clone(),
        ] {
            send.write_all(&part).await.unwrap();
        }
        send.finish().unwrap();
        assert!(ended(&mut recv).await.is_ok());
        // The control stream was read to its end, too: the server knows what follows there.
        control.write_all(&frame(0, b"")).await.unwrap();
        let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
            panic!("not by the application");
        };
        assert_eq!(close.error_code.into_inner(), 0x105, "H3_FRAME_UNEXPECTED");
    }));
}

/// A client that gets such an answer.
#[test]
fn an_endless_answer_ends_its_request() {
    run(async {
        let (server_config, client_config) = standard();
        let Pair {
            server,
            client,
            endpoints: _endpoints,
        } = pair(server_config, client_config).await;
        let serving = tokio::spawn(async move {
            let _control = control(&server).await;
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            assert_eq!(endless(&mut send, HEADERS).await, Ok(EXCESSIVE_LOAD));
            let _ = ended(&mut recv).await;
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            send.write_all(&ok()).await.unwrap();
            send.finish().unwrap();
            ended(&mut recv).await.unwrap();
            server.closed().await;
        });
        let transport = mpquic_h3::Connection::new(client);
        let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
        let asking = async move {
            let request = Request::get("https://localhost/").body(()).unwrap();
            let mut stream = send_request.send_request(request).await.unwrap();
            stream.finish().await.unwrap();
            let StreamError::Undefined(error) = stream.recv_response().await.unwrap_err() else {
                panic!("another error");
            };
            let error = error.downcast_ref::<FrameTooLarge>().unwrap();
            assert_eq!(
                (error.frame_type, error.length, error.limit),
                (1, 1 << 40, 65_536)
            );
            let (status, _) = ask(&mut send_request, "", None).await.unwrap();
            assert!(status.is_success());
        };
        let (error, ()) = tokio::join!(poll_fn(|cx| driver.poll_close(cx)), asking);
        assert!(error.is_h3_no_error(), "{error}");
        serving.await.unwrap();
    });
}

#[test]
fn the_limit_is_a_setting() {
    // Less than 1 KiB counts as 1 KiB.
    let least = |connection| mpquic_h3::Connection::new(connection).max_frame_size(0);
    run(against(least, async |connection: Connection| {
        let _control = control(&connection).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&post(900)).await.unwrap();
        send.finish().unwrap();
        ended(&mut recv).await.unwrap();
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(&post(1100)).await.unwrap();
        assert_eq!(ended(&mut recv).await, Err(EXCESSIVE_LOAD));
        assert_eq!(stopped(&send).await, Some(EXCESSIVE_LOAD));
    }));
}

/// h3 takes a piece of the stream for each frame header, and one for each piece of a body. If a piece had many small frames, it would
/// hold the rest of the stream while the application is at the beginning.
#[test]
fn h3_holds_nothing_ahead_of_the_application() {
    const READ: usize = 100;
    const WINDOW: usize = 20_000;
    run(async {
        let (mut server_config, mut client_config) = standard();
        server_config.stream_receive_window(WINDOW as u64);
        server_config.window_auto_tuning(false);
        client_config.send_window(WINDOW as u64);
        let Pair {
            server,
            client,
            endpoints: _endpoints,
        } = pair(server_config, client_config).await;
        let serving = tokio::spawn(async move {
            let transport = mpquic_h3::Connection::new(server);
            let mut requests = h3::server::Connection::<_, Bytes>::new(transport)
                .await
                .unwrap();
            let resolver = requests.accept().await.unwrap().unwrap();
            let (_, mut slow) = resolver.resolve_request().await.unwrap();
            // A slow application: one frame for each of the other requests.
            while let Ok(Some(resolver)) = requests.accept().await {
                let (_, mut stream) = resolver.resolve_request().await.unwrap();
                assert_eq!(slow.recv_data().await.unwrap().unwrap().remaining(), 1);
                stream.send_response(Response::new(())).await.unwrap();
                stream.finish().await.unwrap();
            }
        });
        let _control = control(&client).await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(&post(0)).await.unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let writing = tokio::spawn({
            let taken = Arc::clone(&taken);
            async move {
                let frames = b"\0\x01x".repeat(1_000);
                loop {
                    let Ok(count) = send.write(&frames).await else {
                        return;
                    };
                    // Whole frames only.
                    let rest = (3 - count % 3) % 3;
                    send.write_all(&b"\0\x01x"[3 - rest..]).await.unwrap();
                    taken.fetch_add(count + rest, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..READ {
            honest(&client).await;
        }
        let taken = taken.load(Ordering::Relaxed);
        assert!(
            taken < 3 * READ + 4 * WINDOW,
            "{taken} bytes were taken for {READ} frames"
        );
        writing.abort();
        client.close(0x100_u32.into(), b"");
        serving.await.unwrap();
    });
}
