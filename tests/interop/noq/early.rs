//! Early data between this crate and noq, on connections that use several paths afterwards: the parameter that allows
//! them is not remembered (RFC 10069).

use std::net::SocketAddr;
use std::sync::Arc;

use crate::pair::{Client, loopback, noq_transport, our_transport, tls};

const REQUEST: &[u8] = b"GET /";

/// A client's connection with early data, from connecting to the answer of the first request.
macro_rules! ask_early {
    ($connecting:expr) => {{
        let Ok((connection, accepted)) = $connecting.into_0rtt() else {
            panic!("no ticket");
        };
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(REQUEST).await.unwrap();
        send.finish().unwrap();
        let answer = recv.read_to_end(100).await.unwrap();
        assert_eq!(answer, REQUEST);
        assert!(accepted.await);
        connection
    }};
}

/// A server's connection, from the incoming one to the answer of the first request.
macro_rules! answer_early {
    ($server:expr) => {{
        let incoming = $server.accept().await.unwrap();
        let Ok((connection, _)) = incoming.accept().unwrap().into_0rtt() else {
            panic!("servers can always answer early");
        };
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        let request = recv.read_to_end(100).await.unwrap();
        send.write_all(&request).await.unwrap();
        send.finish().unwrap();
        connection
    }};
}

/// A first connection, whose tickets have arrived when it is closed.
macro_rules! get_tickets {
    ($connecting:expr, $server:expr) => {{
        let serving = async {
            let connection = $server.accept().await.unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.finish().unwrap();
            connection.closed().await;
        };
        let asking = async {
            let connection = $connecting.await.unwrap();
            let mut stream = connection.accept_uni().await.unwrap();
            assert_eq!(stream.read_to_end(9).await.unwrap(), b"x");
            connection.close(0_u32.into(), b"");
        };
        tokio::join!(serving, asking);
    }};
}

pub(crate) async fn early_data(client: Client) {
    let (mut client_tls, mut server_tls) = tls();
    client_tls.enable_early_data = true;
    server_tls.max_early_data_size = u32::MAX;
    let any = SocketAddr::new(loopback(1), 0);
    let (ours, noq) = (Arc::new(our_transport(4)), Arc::new(noq_transport(4)));
    match client {
        Client::Ours => {
            let crypto = noq::crypto::rustls::QuicServerConfig::try_from(server_tls).unwrap();
            let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(noq);
            let server = noq::Endpoint::server(config, any).unwrap();
            let remote = server.local_addr().unwrap();
            let client = mpquic::Endpoint::client(&[any]).unwrap();
            let mut config = mpquic::ClientConfig::new(Arc::new(client_tls)).unwrap();
            config.transport(ours);
            client.set_default_client_config(config);
            get_tickets!(client.connect(remote, "localhost").unwrap(), server);
            let asking = async {
                let connection = ask_early!(client.connect(remote, "localhost").unwrap());
                connection.open_path(loopback(1), remote).await.unwrap();
                assert!(connection.is_resumed() && connection.is_multipath());
                connection.close(0_u32.into(), b"");
            };
            let serving = async { answer_early!(server).closed().await };
            tokio::join!(asking, serving);
        }
        Client::Noq => {
            let mut config = mpquic::ServerConfig::new(Arc::new(server_tls)).unwrap();
            config.transport(ours);
            let server = mpquic::Endpoint::server(config, &[any]).unwrap();
            let remote = server.local_addrs()[0];
            let client = noq::Endpoint::client(any).unwrap();
            let crypto = noq::crypto::rustls::QuicClientConfig::try_from(client_tls).unwrap();
            let mut config = noq::ClientConfig::new(Arc::new(crypto));
            config.transport_config(noq);
            client.set_default_client_config(config);
            get_tickets!(client.connect(remote, "localhost").unwrap(), server);
            let asking = async {
                let connection = ask_early!(client.connect(remote, "localhost").unwrap());
                connection.close(0_u32.into(), b"");
            };
            let serving = async {
                let connection = answer_early!(server);
                assert!(connection.accepted_0rtt() && connection.is_resumed());
                connection.closed().await;
                assert!(connection.is_multipath());
            };
            tokio::join!(asking, serving);
        }
    }
}
