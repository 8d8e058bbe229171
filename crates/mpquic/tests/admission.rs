//! Clients that prove their address before they are let in, over real sockets.

mod common;

use common::{Pair, client_config, identity, loopback, run, server_config};
use mpquic::{Endpoint, TransportConfig};

#[test]
fn an_application_can_ask_for_a_proof_once() {
    run(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.server_addr, "localhost").unwrap();
        let accepting = async {
            let first = pair.server.accept().await.unwrap();
            assert!(!first.remote_address_validated() && first.may_retry());
            first.retry().unwrap();
            let second = pair.server.accept().await.unwrap();
            assert!(second.remote_address_validated() && !second.may_retry());
            // No second time; nothing is lost by asking.
            let error = second.retry().unwrap_err();
            assert!(error.to_string().contains("Retry"));
            error.into_incoming().await
        };
        let (client, server) = tokio::join!(connecting, accepting);
        let (client, server) = (client.unwrap(), server.unwrap());
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"here").await.unwrap();
        send.finish().unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"here");
    });
}

#[test]
fn above_the_threshold_the_endpoint_asks_by_itself() {
    run(async {
        let identity = identity();
        let mut config = server_config(&identity, TransportConfig::default());
        config.retry_above(0);
        let server = Endpoint::server(config, &[loopback(1)]).unwrap();
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        let config = client_config(&identity, TransportConfig::default());
        let to = server.local_addrs()[0];
        let connecting = client.connect_with(config, to, "localhost").unwrap();
        let accepting = async {
            let incoming = server.accept().await.unwrap();
            assert!(incoming.remote_address_validated() && !incoming.may_retry());
            incoming.await
        };
        let (client, server) = tokio::join!(connecting, accepting);
        client.unwrap();
        server.unwrap();
    });
}
