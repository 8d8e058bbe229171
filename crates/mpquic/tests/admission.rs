//! Clients that prove their address before they are let in, over real sockets.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::common::{Identity, Pair, client_config, identity, loopback, run, server_config};
use mpquic::{
    Bytes, ClientConfig, Endpoint, EndpointConfig, TokenMemoryStore, TokenStore, TransportConfig,
};
use tokio::sync::Notify;

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

/// Tells when a token comes.
#[derive(Default)]
struct Announcing {
    store: TokenMemoryStore,
    came: Notify,
}

impl TokenStore for Announcing {
    fn insert(&self, server_name: &str, token: Bytes) {
        self.store.insert(server_name, token);
        self.came.notify_one();
    }

    fn take(&self, server_name: &str) -> Option<Bytes> {
        self.store.take(server_name)
    }
}

/// A server that has every client prove its address.
fn strict(identity: &Identity, endpoint: EndpointConfig) -> Endpoint {
    let mut config = server_config(identity, TransportConfig::default());
    config.retry_above(0);
    let builder = Endpoint::builder().bind(loopback(1)).server(config);
    builder.endpoint_config(endpoint).build().unwrap()
}

/// Connects; whether the server needed a Retry packet to believe the client's address.
async fn needs_retry(client: &Endpoint, config: &ClientConfig, server: &Endpoint) -> bool {
    let to = server.local_addrs()[0];
    let connecting = client
        .connect_with(config.clone(), to, "localhost")
        .unwrap();
    let accepting = async {
        let incoming = server.accept().await.unwrap();
        assert!(incoming.remote_address_validated());
        let retried = !incoming.may_retry();
        (incoming.await.unwrap(), retried)
    };
    let (connected, (_accepted, retried)) = tokio::join!(connecting, accepting);
    connected.unwrap().handshake_confirmed().await.unwrap();
    retried
}

#[test]
fn a_token_spares_the_next_connection_the_retry_even_at_another_process() {
    run(async {
        let identity = identity();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (now, since_epoch) = (Instant::now(), since_epoch.unwrap());
        let process = |seed: u8, key: u8| {
            let mut config = EndpointConfig::new([seed; 32]);
            config.token_key([key; 32]).clock(now, since_epoch);
            strict(&identity, config)
        };
        let (a, b, stranger) = (process(1, 7), process(2, 7), process(3, 8));
        let client = Endpoint::client(&[loopback(1)]).unwrap();
        let store = Arc::new(Announcing::default());
        let mut config = client_config(&identity, TransportConfig::default());
        config.token_store(store.clone());

        assert!(needs_retry(&client, &config, &a).await);
        for server in [&a, &b, &a] {
            store.came.notified().await;
            assert!(!needs_retry(&client, &config, server).await);
        }
        // With another key: the token is none.
        store.came.notified().await;
        assert!(needs_retry(&client, &config, &stranger).await);
        // The newest token is the stranger's now; it understands A's after it has learned A's key.
        stranger.rotate_token_key([7; 32]);
        store.came.notified().await;
        assert!(!needs_retry(&client, &config, &stranger).await);
    });
}
