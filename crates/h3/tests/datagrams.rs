//! HTTP datagrams (RFC 9297) in both directions, with h3 over quinn as the peer.

use std::future::poll_fn;

use crate::common::{
    loopback, our_client, our_server, pattern, quinn_client, quinn_server, run, tls,
};
use bytes::{Buf, Bytes};
use h3::quic;
use h3_datagram::datagram_handler::HandleDatagramsExt;
use h3_datagram::quic_traits::{DatagramConnectionExt, RecvDatagram};
use http::{Request, Response, StatusCode};
use mpquic::TransportConfig;

/// How many go there and back.
const COUNT: usize = 50;

/// Sends back every datagram of one request, then answers the request.
async fn serve<C>(connection: C)
where
    C: quic::Connection<Bytes> + DatagramConnectionExt<Bytes>,
    C::BidiStream: quic::BidiStream<Bytes>,
    <C::RecvDatagramHandler as RecvDatagram>::Buffer: Buf,
{
    let mut connection = h3::server::builder()
        .enable_datagram(true)
        .build(connection)
        .await
        .unwrap();
    let resolver = connection.accept().await.unwrap().unwrap();
    let (_, mut stream) = resolver.resolve_request().await.unwrap();
    let mut reader = connection.get_datagram_reader();
    let mut sender = connection.get_datagram_sender(stream.id());
    for _ in 0..COUNT {
        let datagram = reader.read_datagram().await.unwrap();
        assert_eq!(datagram.stream_id(), stream.id());
        let mut payload = datagram.into_payload();
        let bytes = payload.copy_to_bytes(payload.remaining());
        sender.send_datagram(bytes).unwrap();
    }
    stream.send_response(Response::new(())).await.unwrap();
    stream.finish().await.unwrap();
    // Until the client is done.
    let error = connection.accept().await.err();
    assert!(error.is_none_or(|error| error.is_h3_no_error()));
}

async fn ask<C>(connection: C)
where
    C: quic::Connection<Bytes> + DatagramConnectionExt<Bytes>,
    <C::OpenStreams as quic::OpenStreams<Bytes>>::BidiStream: quic::BidiStream<Bytes>,
{
    let (mut driver, mut send_request) = h3::client::builder()
        .enable_datagram(true)
        .build::<_, _, Bytes>(connection)
        .await
        .unwrap();
    let request = Request::get("https://localhost/").body(()).unwrap();
    let mut stream = send_request.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    let mut reader = driver.get_datagram_reader();
    let mut sender = driver.get_datagram_sender(stream.id());
    let exchange = async move {
        for index in 0..COUNT {
            let sent = pattern(1 + 17 * index);
            sender.send_datagram(sent.clone()).unwrap();
            // One at a time: nothing is lost on the way.
            let datagram = reader.read_datagram().await.unwrap();
            let mut payload = datagram.into_payload();
            assert!(payload.copy_to_bytes(payload.remaining()) == sent);
        }
        let response = stream.recv_response().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        drop(send_request);
    };
    let closing = poll_fn(|cx| driver.poll_close(cx));
    let (error, ()) = tokio::join!(closing, exchange);
    assert!(error.is_h3_no_error(), "{error}");
}

#[test]
fn a_quinn_client_sends_datagrams_to_our_server() {
    run(async {
        let (client_tls, server_tls) = tls();
        let server = our_server(server_tls, TransportConfig::default());
        let client = quinn_client(client_tls);
        let address = server.local_addrs()[0];
        let serving = async {
            let connection = server.accept().await.unwrap().await.unwrap();
            serve(mpquic_h3::Connection::new(connection)).await;
        };
        let asking = async {
            let connection = client.connect(address, "localhost").unwrap().await.unwrap();
            ask(h3_quinn::Connection::new(connection)).await;
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn our_client_sends_datagrams_to_a_quinn_server() {
    run(async {
        let (client_tls, server_tls) = tls();
        let server = quinn_server(server_tls);
        let client = our_client(client_tls, &[loopback(1)]);
        let address = server.local_addr().unwrap();
        let serving = async {
            let connection = server.accept().await.unwrap().await.unwrap();
            serve(h3_quinn::Connection::new(connection)).await;
        };
        let asking = async {
            let connection = client.connect(address, "localhost").unwrap().await.unwrap();
            ask(mpquic_h3::Connection::new(connection)).await;
        };
        tokio::join!(serving, asking);
    });
}
