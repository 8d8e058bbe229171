//! What the tests share: a service and its client over any transport that h3 takes, and both transports.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of it"
)]

pub(crate) mod raw;

use std::future::{Future, poll_fn};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use h3::error::Code;
use h3::quic;
use http::{Request, Response, StatusCode};
use mpquic::TransportConfig;
pub(crate) use mpquic_test_support::runtime::run;
use mpquic_test_support::tls::Identity;

pub(crate) fn loopback(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), 0).into()
}

/// TLS of both sides, for a certificate that the client trusts.
pub(crate) fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
    let identity = Identity::new();
    let (mut client, mut server) = (identity.client(), identity.server());
    client.alpn_protocols = vec![b"h3".to_vec()];
    server.alpn_protocols = vec![b"h3".to_vec()];
    (client, server)
}

pub(crate) fn our_server(
    tls: rustls::ServerConfig,
    transport: TransportConfig,
) -> mpquic::Endpoint {
    let mut config = mpquic::ServerConfig::new(Arc::new(tls)).unwrap();
    config.transport(Arc::new(transport));
    mpquic::Endpoint::server(config, &[loopback(1)]).unwrap()
}

pub(crate) fn our_client(tls: rustls::ClientConfig, locals: &[SocketAddr]) -> mpquic::Endpoint {
    let endpoint = mpquic::Endpoint::client(locals).unwrap();
    endpoint.set_default_client_config(mpquic::ClientConfig::new(Arc::new(tls)).unwrap());
    endpoint
}

pub(crate) fn quinn_server(tls: rustls::ServerConfig) -> quinn::Endpoint {
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    quinn::Endpoint::server(quinn::ServerConfig::with_crypto(Arc::new(tls)), loopback(1)).unwrap()
}

pub(crate) fn quinn_client(tls: rustls::ClientConfig) -> quinn::Endpoint {
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut endpoint = quinn::Endpoint::client(loopback(1)).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls)));
    endpoint
}

pub(crate) fn pattern(len: usize) -> Bytes {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Answers requests until the client closes the connection: `GET /LEN` with so many bytes, `POST /echo` with what it got,
/// `/cancelled` with a reset, anything else with 404.
pub(crate) async fn serve<C>(connection: C)
where
    C: quic::Connection<Bytes> + 'static,
    C::BidiStream: quic::BidiStream<Bytes> + Send + 'static,
    <C::BidiStream as quic::BidiStream<Bytes>>::RecvStream: Send,
    <C::BidiStream as quic::BidiStream<Bytes>>::SendStream: Send,
    <C as quic::OpenStreams<Bytes>>::BidiStream: Send,
    C: Send,
{
    let mut connection = h3::server::Connection::new(connection).await.unwrap();
    let mut answers = tokio::task::JoinSet::new();
    loop {
        match connection.accept().await {
            Ok(Some(resolver)) => {
                let (request, stream) = resolver.resolve_request().await.unwrap();
                answers.spawn(answer(request, stream));
            }
            Ok(None) => break,
            Err(error) => {
                assert!(error.is_h3_no_error(), "{error}");
                break;
            }
        }
    }
    while let Some(answered) = answers.join_next().await {
        answered.unwrap();
    }
}

async fn answer<S>(request: Request<()>, mut stream: h3::server::RequestStream<S, Bytes>)
where
    S: quic::BidiStream<Bytes>,
{
    let path = request.uri().path().trim_start_matches('/');
    let respond = |status| Response::builder().status(status).body(()).unwrap();
    if path == "cancelled" {
        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
    } else if path == "echo" {
        stream.send_response(respond(StatusCode::OK)).await.unwrap();
        while let Some(mut data) = stream.recv_data().await.unwrap() {
            let bytes = data.copy_to_bytes(data.remaining());
            stream.send_data(bytes).await.unwrap();
        }
        stream.finish().await.unwrap();
    } else if let Ok(len) = path.parse() {
        stream.send_response(respond(StatusCode::OK)).await.unwrap();
        stream.send_data(pattern(len)).await.unwrap();
        stream.finish().await.unwrap();
    } else {
        let response = respond(StatusCode::NOT_FOUND);
        stream.send_response(response).await.unwrap();
        stream.finish().await.unwrap();
    }
}

/// Sends a request, with a body if there is one; gives the status and the body of the answer.
pub(crate) async fn ask<O>(
    send_request: &mut h3::client::SendRequest<O, Bytes>,
    path: &str,
    body: Option<Bytes>,
) -> Result<(StatusCode, Bytes), h3::error::StreamError>
where
    O: quic::OpenStreams<Bytes>,
    O::BidiStream: quic::BidiStream<Bytes>,
{
    let request = Request::builder()
        .method(if body.is_some() { "POST" } else { "GET" })
        .uri(format!("https://localhost/{path}"))
        .body(())
        .unwrap();
    let stream = send_request.send_request(request).await?;
    let (mut send, mut recv) = stream.split();
    let sending = async {
        if let Some(body) = body {
            send.send_data(body).await?;
        }
        send.finish().await
    };
    let receiving = async {
        let status = recv.recv_response().await?.status();
        let mut all = BytesMut::new();
        while let Some(mut data) = recv.recv_data().await? {
            all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok((status, all.freeze()))
    };
    let (sent, received) = tokio::join!(sending, receiving);
    let received = received?;
    sent?;
    Ok(received)
}

/// Everything that [`serve`] answers, asked for and checked, the larger part of it at once; then closes the connection.
pub(crate) async fn exercise<C>(connection: C)
where
    C: quic::Connection<Bytes>,
    C::OpenStreams: Clone,
    <C::OpenStreams as quic::OpenStreams<Bytes>>::BidiStream: quic::BidiStream<Bytes>,
{
    let (mut driver, mut send_request) = h3::client::new(connection).await.unwrap();
    let requests = async move {
        let (status, body) = ask(&mut send_request, "3000000", None).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert!(body == pattern(3_000_000));

        let sent = pattern(700_000);
        let (status, body) = ask(&mut send_request, "echo", Some(sent.clone()))
            .await
            .unwrap();
        assert_eq!(status, StatusCode::OK);
        assert!(body == sent);

        let (status, body) = ask(&mut send_request, "nothing/here", None).await.unwrap();
        assert_eq!((status, body.len()), (StatusCode::NOT_FOUND, 0));

        let error = ask(&mut send_request, "cancelled", None).await.unwrap_err();
        let terminated = matches!(
            error,
            h3::error::StreamError::RemoteTerminate { code, .. } if code == Code::H3_REQUEST_CANCELLED
        );
        assert!(terminated, "{error:?}");

        let many = (0..150).map(|index| {
            let mut send_request = send_request.clone();
            async move {
                let len = 1000 + 37 * index;
                let (_, body) = ask(&mut send_request, &len.to_string(), None)
                    .await
                    .unwrap();
                assert!(body == pattern(len));
            }
        });
        futures_of(many).await;
    };
    // It ends when nobody can ask any more: `requests` owns the last handle.
    let closing = poll_fn(|cx| driver.poll_close(cx));
    let (error, ()) = tokio::join!(closing, requests);
    assert!(error.is_h3_no_error(), "{error}");
}

/// Waits for all of them, polled by one task.
async fn futures_of<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut waiting: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        waiting.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if waiting.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}
