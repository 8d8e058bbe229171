//! Requests and answers: with h3 over quinn as the peer in both directions, and with ourselves over one and two paths.

use std::net::{IpAddr, Ipv4Addr};

use crate::common::{
    ask, exercise, loopback, our_client, our_server, pattern, quinn_client, quinn_server, run,
    serve, tls,
};
use mpquic::{TransportConfig, sched};

#[test]
fn a_quinn_client_asks_our_server() {
    run(async {
        let (client_tls, server_tls) = tls();
        let server = our_server(server_tls, TransportConfig::default());
        let client = quinn_client(client_tls);
        let address = server.local_addrs()[0];
        let serving = async {
            let connection = server.accept().await.unwrap().await.unwrap();
            assert_eq!(connection.alpn().as_deref(), Some(&b"h3"[..]));
            serve(mpquic_h3::Connection::new(connection)).await;
        };
        let asking = async {
            let connection = client.connect(address, "localhost").unwrap().await.unwrap();
            exercise(h3_quinn::Connection::new(connection)).await;
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn our_client_asks_a_quinn_server() {
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
            exercise(mpquic_h3::Connection::new(connection)).await;
        };
        tokio::join!(serving, asking);
    });
}

#[test]
fn answers_come_over_two_paths() {
    run(async {
        let (client_tls, server_tls) = tls();
        let mut transport = TransportConfig::default();
        // The other schedulers may find that the first path is enough.
        transport.scheduler(|| Box::new(sched::RoundRobin::default()));
        let server = our_server(server_tls, transport);
        let client = our_client(client_tls, &[loopback(1), loopback(2)]);
        let address = server.local_addrs()[0];
        let serving = async {
            let connection = server.accept().await.unwrap().await.unwrap();
            serve(mpquic_h3::Connection::new(connection)).await;
        };
        let asking = async {
            let connection = client.connect(address, "localhost").unwrap().await.unwrap();
            let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
            connection.open_path(second, address).await.unwrap();
            let transport = mpquic_h3::Connection::new(connection.clone());
            let (mut driver, mut send_request) = h3::client::new(transport).await.unwrap();
            let requests = async move {
                let (_, body) = ask(&mut send_request, "8000000", None).await.unwrap();
                assert!(body == pattern(8_000_000));
            };
            let paths = async {
                requests.await;
                connection
                    .paths()
                    .iter()
                    .map(|path| path.stats().unwrap().received_stream_bytes)
                    .collect::<Vec<_>>()
            };
            let (error, received) =
                tokio::join!(std::future::poll_fn(|cx| driver.poll_close(cx)), paths);
            assert!(error.is_h3_no_error(), "{error}");
            received
        };
        let ((), received) = tokio::join!(serving, asking);
        assert_eq!(received.len(), 2);
        assert!(
            received.iter().all(|bytes| *bytes > 1_000_000),
            "{received:?}"
        );
    });
}
