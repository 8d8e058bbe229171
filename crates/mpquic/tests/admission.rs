//! Clients that prove their address before they are let in, over real sockets.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::common::{Identity, Pair, client_config, identity, loopback, run, server_config};
use mpquic::{
    Bytes, ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig,
    TokenMemoryStore, TokenStore, TransportConfig, TransportErrorCode, VarInt,
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

/// A server with these limits, and a client with a socket in each of two networks.
fn capped(configure: impl FnOnce(&mut ServerConfig), shards: u16) -> (Endpoint, Endpoint) {
    let identity = identity();
    let mut config = server_config(&identity, TransportConfig::default());
    configure(&mut config);
    let builder = Endpoint::builder().bind(loopback(1)).shards(shards);
    let server = builder.server(config).build().unwrap();
    let client = Endpoint::client(&[loopback(1), ELSEWHERE.parse().unwrap()]).unwrap();
    client.set_default_client_config(client_config(&identity, TransportConfig::default()));
    (server, client)
}

const ELSEWHERE: &str = "127.0.1.1:0";

/// A connection from the client's socket with this number: both ends, or why the client has none.
async fn connect(
    server: &Endpoint,
    client: &Endpoint,
    socket: usize,
) -> Result<(Connection, Connection), ConnectionError> {
    let (local, remote) = (client.local_addrs()[socket], server.local_addr().unwrap());
    let connecting = client.connect_from(local, None, remote, "localhost");
    let connecting = connecting.unwrap();
    // Nobody comes to be accepted if the endpoint refuses.
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    tokio::pin!(connecting, accepting);
    tokio::select! {
        here = &mut connecting => Ok((here?, accepting.await)),
        there = &mut accepting => Ok((connecting.await?, there)),
    }
}

fn is_refused(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::CONNECTION_REFUSED)
}

/// Until so many are complete.
async fn settles(server: &Endpoint, complete: usize) {
    while server.connection_count().complete != complete {
        tokio::task::yield_now().await;
    }
}

#[test]
fn connections_beyond_the_limit_are_refused_until_one_is_gone() {
    run(async {
        let (server, client) = capped(
            |config| {
                config.max_connections(3);
            },
            1,
        );
        let mut open = Vec::new();
        for socket in [0, 1, 0] {
            open.push(connect(&server, &client, socket).await.unwrap());
        }
        for refused in 1..=5 {
            let error = connect(&server, &client, 1).await.unwrap_err();
            assert!(is_refused(&error), "{error:?}");
            let count = server.connection_count();
            assert_eq!((count.complete, count.refused), (3, refused));
        }
        assert_eq!(server.open_connections(), 3, "nothing is kept of those");
        let (gone, _) = open.pop().unwrap();
        gone.close(VarInt::from_u32(0), b"");
        settles(&server, 2).await;
        open.push(connect(&server, &client, 1).await.unwrap());
        assert_eq!(server.connection_count().complete, 3);
    });
}

#[test]
fn a_network_has_its_share_wherever_its_connections_move() {
    run(async {
        let (server, client) = capped(
            |config| {
                config.max_connections_per_prefix(2);
            },
            1,
        );
        let mut open = Vec::new();
        for socket in [0, 0, 1] {
            open.push(connect(&server, &client, socket).await.unwrap());
        }
        let error = connect(&server, &client, 0).await.unwrap_err();
        assert!(is_refused(&error), "{error:?}");
        for (client, _) in &open {
            client.handshake_confirmed().await.unwrap();
        }
        // The first two go elsewhere, and count where they began.
        let new = client
            .rebind(client.local_addrs()[0], ELSEWHERE.parse().unwrap())
            .unwrap();
        for (here, there) in &open[..2] {
            let mut stream = here.open_uni().await.unwrap();
            stream.write_all(b"moved").await.unwrap();
            stream.finish().unwrap();
            let mut stream = there.accept_uni().await.unwrap();
            stream.read_to_end(10).await.unwrap();
            assert_eq!(there.remote_address(), new);
        }
        open.push(connect(&server, &client, 1).await.unwrap());
        let error = connect(&server, &client, 1).await.unwrap_err();
        assert!(is_refused(&error), "{error:?}");
        client.add_socket(loopback(1)).unwrap();
        let error = connect(&server, &client, 2).await.unwrap_err();
        assert!(is_refused(&error), "{error:?}");
    });
}

/// All are let in before the first one is complete.
#[test]
fn handshakes_that_run_at_the_same_time_do_not_pass_the_limit() {
    for shards in [1, 4] {
        run(async {
            let (server, client) = capped(
                |config| {
                    config.max_connections(3);
                },
                shards,
            );
            let (accepting, remote) = (server.clone(), server.local_addr().unwrap());
            let accepted = tokio::spawn(async move {
                let mut attempts = tokio::task::JoinSet::new();
                while let Some(incoming) = accepting.accept().await {
                    attempts.spawn(incoming.into_future());
                }
                let all = attempts.join_all().await;
                all.into_iter().filter_map(Result::ok).collect::<Vec<_>>()
            });
            let mut attempts = tokio::task::JoinSet::new();
            for _ in 0..40 {
                let local = client.local_addrs()[0];
                let connecting = client.connect_from(local, None, remote, "localhost");
                let connecting = connecting.unwrap();
                attempts.spawn(async move {
                    match connecting.await {
                        // To the client, it was complete before the server refused it.
                        Ok(connection) => {
                            let answer = connection.accept_uni().await;
                            answer.map(|_| connection)
                        }
                        Err(error) => Err(error),
                    }
                });
            }
            // Whoever is not refused waits for a stream.
            for _ in 0..37 {
                let error = attempts.join_next().await.unwrap().unwrap().unwrap_err();
                assert!(is_refused(&error), "{error:?}");
            }
            let count = server.connection_count();
            assert_eq!((count.complete, count.refused), (3, 37));
            server.close(VarInt::from_u32(0), b"");
            assert_eq!(accepted.await.unwrap().len(), 3);
        });
    }
}
