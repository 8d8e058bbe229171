//! How connections come about, or do not.

use crate::common::{self, ALPN, Pair, client_config, identity, loopback, run};
use mpquic::{ConnectError, ConnectionError, Endpoint, Side, TransportConfig, TransportErrorCode};

#[test]
fn both_ends_agree_on_what_the_handshake_said() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        assert_eq!(client.side(), Side::Client);
        assert_eq!(server.side(), Side::Server);
        assert_eq!(client.alpn().as_deref(), Some(ALPN));
        assert_eq!(server.alpn().as_deref(), Some(ALPN));
        let data = server.handshake_data();
        assert_eq!(data.server_name.as_deref(), Some("localhost"));
        assert_eq!(client.remote_address(), pair.server_addr);
        assert_eq!(server.remote_address(), pair.client.local_addrs()[0]);
        let chain = client.peer_identity().unwrap();
        assert_eq!(chain, std::slice::from_ref(&pair.identity.certificate));
        assert_eq!(server.peer_identity(), None);

        let mut keys = [[0; 32]; 2];
        client
            .export_keying_material(&mut keys[0], b"test", b"")
            .unwrap();
        server
            .export_keying_material(&mut keys[1], b"test", b"")
            .unwrap();
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], [0; 32]);
        client.handshake_confirmed().await.unwrap();
    });
}

#[test]
fn handshake_data_comes_before_the_connection() {
    run(async {
        let pair = Pair::new();
        let mut connecting = pair.client.connect(pair.server_addr, "localhost").unwrap();
        let mut accepting = pair.server.accept().await.unwrap().accept().unwrap();
        let (client, server) =
            tokio::join!(connecting.handshake_data(), accepting.handshake_data());
        assert_eq!(client.unwrap().protocol.as_deref(), Some(ALPN));
        assert_eq!(server.unwrap().server_name.as_deref(), Some("localhost"));
        let (client, server) = tokio::join!(connecting, accepting);
        client.unwrap();
        server.unwrap();
    });
}

#[test]
fn an_unknown_certificate_is_refused() {
    run(async {
        let pair = Pair::new();
        let stranger = client_config(&identity(), TransportConfig::default());
        let connecting = pair
            .client
            .connect_with(stranger, pair.server_addr, "localhost")
            .unwrap();
        let accepting = async { pair.server.accept().await.unwrap().await };
        let (client, server) = tokio::join!(connecting, accepting);
        assert!(matches!(client, Err(ConnectionError::TransportError(_))));
        assert!(matches!(server, Err(ConnectionError::ConnectionClosed(_))));
    });
}

#[test]
fn a_refused_client_hears_of_it() {
    run(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.server_addr, "localhost").unwrap();
        let refusing = async { pair.server.accept().await.unwrap().refuse() };
        let (client, ()) = tokio::join!(connecting, refusing);
        let Err(ConnectionError::ConnectionClosed(close)) = client else {
            panic!("{client:?}");
        };
        assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
    });
}

#[test]
fn an_endpoint_is_client_and_server_at_once() {
    run(async {
        let a = Pair::new();
        let b = Pair::new();
        a.server
            .set_default_client_config(client_config(&b.identity, TransportConfig::default()));
        let connecting = a.server.connect(b.server_addr, "localhost").unwrap();
        let accepting = async { b.server.accept().await.unwrap().await };
        let (there, back) = tokio::join!(connecting, accepting);
        assert_eq!(back.unwrap().remote_address(), a.server_addr);
        there.unwrap();
        a.connect().await;
    });
}

#[test]
fn what_cannot_be_tried_is_an_error_at_once() {
    run(async {
        let pair = Pair::new();
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        let error = client.connect(pair.server_addr, "localhost").unwrap_err();
        assert_eq!(error, ConnectError::NoDefaultClientConfig);
        let remote = "[2001:db8::1]:443".parse().unwrap();
        let error = pair.client.connect(remote, "localhost").unwrap_err();
        assert_eq!(error, ConnectError::NoSocket(remote));
        let error = pair
            .client
            .connect(pair.server_addr, "no name")
            .unwrap_err();
        assert!(matches!(error, ConnectError::Start(_)), "{error}");
        let elsewhere = pair
            .client
            .connect_from(loopback(77), None, pair.server_addr, "localhost");
        assert!(matches!(elsewhere, Err(ConnectError::NoLocalSocket { .. })));
        pair.client.close(0u32.into(), b"");
        let error = pair
            .client
            .connect(pair.server_addr, "localhost")
            .unwrap_err();
        assert_eq!(error, ConnectError::EndpointClosed);
        assert!(Endpoint::client(&[]).is_err());
    });
}

#[test]
fn a_wildcard_server_answers_from_the_address_that_was_asked() {
    run(async {
        let pair = Pair::new();
        let config = common::server_config(&pair.identity, TransportConfig::default());
        let server = Endpoint::server(config, &["0.0.0.0:0".parse().unwrap()]).unwrap();
        let port = server.local_addrs()[0].port();
        for last in [1, 2, 3] {
            let asked = (std::net::Ipv4Addr::new(127, 0, 0, last), port).into();
            let connecting = pair.client.connect(asked, "localhost").unwrap();
            let incoming = server.accept().await.unwrap();
            assert_eq!(incoming.local_address(), asked);
            // A client takes no packet of the handshake from another address: this would not end.
            let (client, there) = tokio::join!(connecting, incoming);
            assert_eq!(there.unwrap().local_ip(), Some(asked.ip()));
            assert_eq!(client.unwrap().remote_address(), asked);
        }
    });
}

#[test]
fn a_session_is_resumed() {
    run(async {
        let pair = Pair::new();
        for _ in 0..5 {
            let (client, server) = pair.connect().await;
            // The session ticket comes with or before this.
            let mut stream = server.open_uni().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            client.accept_uni().await.unwrap();
            client.handshake_confirmed().await.unwrap();
        }
    });
}
