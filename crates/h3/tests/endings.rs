//! How messages end that are not finished, and which codes the peer sees (RFC 9114 sections 4.1.1 and 8.1).

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use crate::common::raw::{Pair, control, ended, frame, ok, pair, post, stopped};
use crate::common::{ask, pattern, run};
use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use http::{HeaderMap, Request, Response, StatusCode};
use mpquic::TransportConfig;
use tokio::sync::{Notify, oneshot};

type Answer = h3::server::RequestStream<mpquic_h3::BidiStream<Bytes>, Bytes>;
type Asked = h3::client::RequestStream<mpquic_h3::BidiStream<Bytes>, Bytes>;

const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const REQUEST_CANCELLED: u64 = 0x10c;

fn with(status: StatusCode) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

/// The first poll of a future, which has to wait; then it is given up.
async fn give_up<F: Future>(future: F) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending(), "it did not wait");
        std::task::Poll::Ready(())
    })
    .await;
}

/// Sends a request, the body of which does not end, to a server that handles it so. How the answer ended, and with which code the
/// request was stopped.
async fn handled<F>(
    handler: impl FnOnce(Answer) -> F + Send + 'static,
) -> (Result<Vec<u8>, u64>, Option<u64>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Pair {
        server,
        client,
        endpoints: _endpoints,
    } = pair(TransportConfig::default(), TransportConfig::default()).await;
    let serving = tokio::spawn(async move {
        let transport = mpquic_h3::Connection::new(server);
        let mut server = h3::server::builder();
        let server = server.max_field_section_size(16 * 1024);
        let mut requests = server.build::<_, Bytes>(transport).await.unwrap();
        let resolver = requests.accept().await.unwrap().unwrap();
        let handling = tokio::spawn(async move {
            let (_, stream) = resolver.resolve_request().await.unwrap();
            handler(stream).await;
        });
        assert!(requests.accept().await.is_err());
        // Some of them panic.
        let _ = handling.await;
    });
    let _control = control(&client).await;
    let (mut send, mut recv) = client.open_bi().await.unwrap();
    send.write_all(&post(0)).await.unwrap();
    // It may have been stopped by then.
    let _ = send.write_all(&frame(0, b"the beginning of a body")).await;
    let seen = (ended(&mut recv).await, stopped(&send).await);
    client.close(0x100_u32.into(), b"");
    serving.await.unwrap();
    seen
}

/// The head of an answer, and the beginning of its body.
async fn begin(stream: &mut Answer) {
    stream.send_response(with(StatusCode::OK)).await.unwrap();
    stream.send_data(pattern(5_000)).await.unwrap();
}

#[test]
fn an_answer_that_is_left_is_reset() {
    run(async {
        // As an error that leaves the handler by `?`.
        let (answer, _) = handled(async |mut stream: Answer| begin(&mut stream).await).await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // Nothing but the head, which alone would be a whole answer.
        let (answer, _) = handled(async |mut stream: Answer| {
            stream.send_response(with(StatusCode::OK)).await.unwrap();
        })
        .await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // Nothing at all.
        let (answer, _) = handled(async |stream: Answer| drop(stream)).await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // The trailers are not the end, as h3 says.
        let (answer, _) = handled(async |mut stream: Answer| {
            begin(&mut stream).await;
            stream.send_trailers(HeaderMap::new()).await.unwrap();
        })
        .await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // The half that sends.
        let (answer, _) = handled(async |stream: Answer| {
            let (mut send, recv) = stream.split();
            send.send_response(with(StatusCode::OK)).await.unwrap();
            send.send_data(pattern(5_000)).await.unwrap();
            drop(send);
            drop(recv);
        })
        .await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        let (answer, stop) = handled(async |mut stream: Answer| {
            begin(&mut stream).await;
            panic!("as a handler may");
        })
        .await;
        assert_eq!((answer, stop), (Err(INTERNAL_ERROR), Some(INTERNAL_ERROR)));

        let (answer, _) = handled(async |mut stream: Answer| {
            let (begun, waiting) = oneshot::channel();
            let task = tokio::spawn(async move {
                begin(&mut stream).await;
                begun.send(()).unwrap();
                pending::<()>().await;
            });
            waiting.await.unwrap();
            task.abort();
        })
        .await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // In the middle of a write.
        let (answer, _) = handled(async |mut stream: Answer| {
            begin(&mut stream).await;
            give_up(stream.send_data(pattern(50_000_000))).await;
        })
        .await;
        assert_eq!(answer, Err(REQUEST_CANCELLED));

        // What the handler chose stays.
        let (answer, _) = handled(async |mut stream: Answer| {
            begin(&mut stream).await;
            stream.stop_stream(Code::H3_CONNECT_ERROR);
        })
        .await;
        assert_eq!(answer, Err(Code::H3_CONNECT_ERROR.value()));
    });
}

#[test]
fn an_early_answer_stops_the_request_without_an_error() {
    run(async {
        for status in [303, 401, 405, 413] {
            let (answer, stop) = handled(async move |mut stream: Answer| {
                let status = StatusCode::from_u16(status).unwrap();
                stream.send_response(with(status)).await.unwrap();
                stream.finish().await.unwrap();
            })
            .await;
            assert!(answer.is_ok(), "{status}: {answer:?}");
            assert_eq!(stop, Some(NO_ERROR), "{status}");
        }
        let (answer, stop) = handled(async |stream: Answer| {
            let (mut send, recv) = stream.split();
            drop(recv);
            send.send_response(with(StatusCode::PAYLOAD_TOO_LARGE))
                .await
                .unwrap();
            send.finish().await.unwrap();
        })
        .await;
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!(stop, Some(NO_ERROR));
    });
}

/// h3 0.0.8 answers it by itself, and leaves the stream without finishing it.
#[test]
fn the_answer_431_of_h3_is_whole() {
    run(async {
        let Pair {
            server,
            client,
            endpoints: _endpoints,
        } = pair(TransportConfig::default(), TransportConfig::default()).await;
        let serving = tokio::spawn(async move {
            let transport = mpquic_h3::Connection::new(server);
            let mut server = h3::server::builder();
            let server = server.max_field_section_size(16 * 1024);
            let mut requests = server.build::<_, Bytes>(transport).await.unwrap();
            let resolver = requests.accept().await.unwrap().unwrap();
            let error = resolver.resolve_request().await.err().unwrap();
            assert!(matches!(error, StreamError::HeaderTooBig { .. }), "{error}");
            assert!(requests.accept().await.is_err());
        });
        let _control = control(&client).await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(&post(60_000)).await.unwrap();
        let answer = ended(&mut recv).await.unwrap();
        // The name of a line of the static table, and "431" in Huffman's code.
        assert_eq!(answer, b"\x01\x08\0\0\x5f\x09\x83\x69\x90\xff");
        assert_eq!(stopped(&send).await, Some(NO_ERROR));
        client.close(0x100_u32.into(), b"");
        serving.await.unwrap();
    });
}

/// What a server sees of a request that our client leaves so: how it ended, and with which code the answer was stopped.
async fn left<F>(leave: impl FnOnce(Asked) -> F) -> (Result<Vec<u8>, u64>, Option<u64>)
where
    F: Future<Output = ()>,
{
    let Pair {
        server,
        client,
        endpoints: _endpoints,
    } = pair(TransportConfig::default(), TransportConfig::default()).await;
    let transport = mpquic_h3::Connection::new(client);
    let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
    let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let request = Request::post("https://localhost/").body(()).unwrap();
    let asked = send_request.send_request(request).await.unwrap();
    let _control = control(&server).await;
    let (mut send, mut recv) = server.accept_bi().await.unwrap();
    send.write_all(&ok()).await.unwrap();
    send.write_all(&frame(0, b"the beginning of an answer"))
        .await
        .unwrap();
    leave(asked).await;
    let seen = (ended(&mut recv).await, stopped(&send).await);
    drop(send_request);
    assert!(driving.await.unwrap().is_h3_no_error());
    seen
}

#[test]
fn a_request_that_is_left_is_reset() {
    run(async {
        let cancelled = (Err(REQUEST_CANCELLED), Some(REQUEST_CANCELLED));
        let seen = left(async |mut asked: Asked| {
            asked.send_data(pattern(5_000)).await.unwrap();
        })
        .await;
        assert_eq!(seen, cancelled);

        let seen = left(async |asked: Asked| drop(asked)).await;
        assert_eq!(seen, cancelled);

        let seen = left(async |asked: Asked| {
            let (mut send, recv) = asked.split();
            send.send_data(pattern(5_000)).await.unwrap();
            drop((send, recv));
        })
        .await;
        assert_eq!(seen, cancelled);

        let seen = left(async |mut asked: Asked| {
            give_up(asked.send_data(pattern(50_000_000))).await;
        })
        .await;
        assert_eq!(seen, cancelled);

        let seen = left(async |mut asked: Asked| {
            let panicking = tokio::spawn(async move {
                asked.send_data(pattern(5_000)).await.unwrap();
                panic!("as a client may");
            });
            panicking.await.unwrap_err();
        })
        .await;
        assert_eq!(seen, (Err(INTERNAL_ERROR), Some(INTERNAL_ERROR)));

        // The request is whole, the answer is not wanted any more.
        let (request, stop) = left(async |mut asked: Asked| {
            asked.finish().await.unwrap();
            asked.recv_response().await.unwrap();
        })
        .await;
        assert!(request.is_ok(), "{request:?}");
        assert_eq!(stop, Some(REQUEST_CANCELLED));
    });
}

/// How much the server buffers, and more than that: a write of so much waits until it is read.
const MUCH: usize = 8_000_000;

/// One request whose body nobody reads yet, another that is in progress, and what the server is told to do with them: `POST /slow`
/// waits for the gate. Both are answered with the length of their bodies.
struct Uploads {
    send_request: h3::client::SendRequest<mpquic_h3::OpenStreams, Bytes>,
    slow: Asked,
    other: Asked,
    gate: Arc<Notify>,
    client: mpquic::Connection,
    driving: tokio::task::JoinHandle<h3::error::ConnectionError>,
    _endpoints: [mpquic::Endpoint; 2],
}

impl Uploads {
    async fn begin() -> Self {
        let mut narrow = TransportConfig::default();
        narrow.stream_receive_window(100_000);
        let mut little = TransportConfig::default();
        little.send_window(100_000);
        let Pair {
            server,
            client,
            endpoints: _endpoints,
        } = pair(narrow, little).await;
        let gate = Arc::new(Notify::new());
        tokio::spawn(serve(server, Arc::clone(&gate)));
        let transport = mpquic_h3::Connection::new(client.clone());
        let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
        let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        let request = |path| {
            Request::post(format!("https://localhost/{path}"))
                .body(())
                .unwrap()
        };
        let slow = send_request.send_request(request("slow")).await.unwrap();
        let mut other = send_request.send_request(request("other")).await.unwrap();
        other.send_data(Bytes::from_static(b"12345")).await.unwrap();
        Self {
            send_request,
            slow,
            other,
            gate,
            client,
            driving,
            _endpoints,
        }
    }

    /// The other request goes on, and so does the connection.
    async fn others_live(mut self) {
        self.other
            .send_data(Bytes::from_static(b"678"))
            .await
            .unwrap();
        self.other.finish().await.unwrap();
        assert_eq!(length(&mut self.other).await, 8);
        let (status, body) = ask(&mut self.send_request, "third", Some(pattern(10)))
            .await
            .unwrap();
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"10"[..]));
        assert!(self.client.close_reason().is_none());
        drop(self.send_request);
        assert!(self.driving.await.unwrap().is_h3_no_error());
    }
}

async fn serve(connection: mpquic::Connection, gate: Arc<Notify>) {
    let transport = mpquic_h3::Connection::new(connection);
    let mut requests = h3::server::Connection::<_, Bytes>::new(transport)
        .await
        .unwrap();
    while let Ok(Some(resolver)) = requests.accept().await {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await.unwrap();
            if request.uri().path() == "/slow" {
                gate.notified().await;
            }
            let mut length = 0;
            // A reset is no surprise here.
            while let Ok(Some(data)) = stream.recv_data().await {
                length += data.remaining();
            }
            // To the end: an answer before it would stop what is left of the request.
            let _ = stream.recv_trailers().await;
            if stream.send_response(with(StatusCode::OK)).await.is_ok() {
                let _ = stream.send_data(length.to_string().into()).await;
                let _ = stream.finish().await;
            }
        });
    }
}

/// The length that the server tells.
async fn length(asked: &mut Asked) -> usize {
    assert_eq!(
        asked.recv_response().await.unwrap().status(),
        StatusCode::OK
    );
    let mut body = asked.recv_data().await.unwrap().unwrap();
    let body = body.copy_to_bytes(body.remaining());
    std::str::from_utf8(&body).unwrap().parse().unwrap()
}

#[test]
fn a_write_that_is_given_up_is_written_before_the_next() {
    run(async {
        let mut uploads = Uploads::begin().await;
        give_up(uploads.slow.send_data(pattern(MUCH))).await;
        uploads.gate.notify_one();
        uploads
            .slow
            .send_data(Bytes::from_static(b"more"))
            .await
            .unwrap();
        uploads.slow.finish().await.unwrap();
        assert_eq!(length(&mut uploads.slow).await, MUCH + 4);
        uploads.others_live().await;

        let mut uploads = Uploads::begin().await;
        give_up(uploads.slow.send_data(pattern(MUCH))).await;
        uploads.gate.notify_one();
        uploads.slow.send_trailers(HeaderMap::new()).await.unwrap();
        uploads.slow.finish().await.unwrap();
        assert_eq!(length(&mut uploads.slow).await, MUCH);
        uploads.others_live().await;

        let mut uploads = Uploads::begin().await;
        give_up(uploads.slow.send_data(pattern(MUCH))).await;
        give_up(uploads.slow.send_trailers(HeaderMap::new())).await;
        // `finish` may be given up as well.
        give_up(uploads.slow.finish()).await;
        uploads.gate.notify_one();
        uploads.slow.finish().await.unwrap();
        assert_eq!(length(&mut uploads.slow).await, MUCH);
        uploads.others_live().await;

        // And nothing after it.
        let mut uploads = Uploads::begin().await;
        give_up(uploads.slow.send_data(pattern(MUCH))).await;
        drop(uploads.slow);
        uploads.gate.notify_one();
        let request = Request::post("https://localhost/again").body(()).unwrap();
        uploads.slow = uploads.send_request.send_request(request).await.unwrap();
        uploads.others_live().await;
    });
}

#[test]
fn too_many_writes_that_are_given_up_reset_their_stream_only() {
    run(async {
        let mut uploads = Uploads::begin().await;
        for _ in 0..9 {
            give_up(uploads.slow.send_data(pattern(MUCH))).await;
        }
        let error = uploads.slow.send_data(pattern(MUCH)).await.unwrap_err();
        assert!(matches!(error, StreamError::Undefined(_)), "{error}");
        assert!(uploads.slow.finish().await.is_err(), "it has a gap");
        uploads.gate.notify_one();
        uploads.others_live().await;
    });
}

/// A deadline around a slow reader, on a server.
#[test]
fn an_answer_goes_on_after_a_write_that_was_given_up() {
    run(async {
        let mut little = TransportConfig::default();
        little.send_window(100_000);
        let Pair {
            server,
            client,
            endpoints: _endpoints,
        } = pair(little, TransportConfig::default()).await;
        let serving = tokio::spawn(async move {
            let transport = mpquic_h3::Connection::new(server);
            let mut requests = h3::server::Connection::<_, Bytes>::new(transport)
                .await
                .unwrap();
            let resolver = requests.accept().await.unwrap().unwrap();
            let answering = tokio::spawn(async move {
                let (_, mut stream) = resolver.resolve_request().await.unwrap();
                give_up(async {
                    stream.send_response(with(StatusCode::OK)).await.unwrap();
                    stream.send_data(pattern(MUCH)).await.unwrap();
                })
                .await;
                stream.send_data(pattern(5)).await.unwrap();
                stream.finish().await.unwrap();
            });
            assert!(requests.accept().await.err().unwrap().is_h3_no_error());
            answering.await.unwrap();
        });
        let transport = mpquic_h3::Connection::new(client);
        let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
        let asking = async move {
            let (status, body) = ask(&mut send_request, "", None).await.unwrap();
            assert_eq!(status, StatusCode::OK);
            assert_eq!(body.len(), MUCH + 5);
            assert!(body[..MUCH] == pattern(MUCH)[..] && body[MUCH..] == pattern(5)[..]);
        };
        let (error, ()) = tokio::join!(poll_fn(|cx| driver.poll_close(cx)), asking);
        assert!(error.is_h3_no_error(), "{error}");
        serving.await.unwrap();
    });
}
