//! An endpoint in shards: each connection has one, on all its paths, whoever finds it: the kernel or the other shards.

use std::future::IntoFuture;
use std::net::{SocketAddr, UdpSocket};

use crate::common::{client_config, identity, loopback, pattern, run, server_config};
use mpquic::sched::RoundRobin;
use mpquic::{
    ClientConfig, ConfigError, Connection, ConnectionError, ConnectionIdGenerator, Endpoint,
    EndpointBuilder, PathManager, ServerConfig, ShardStats, TransportConfig,
};

const SHARDS: u16 = 4;
const CONNECTIONS: usize = 8;

fn configs() -> (ServerConfig, ClientConfig) {
    let identity = identity();
    let transport = || {
        let mut transport = TransportConfig::default();
        // So that all paths carry data.
        transport.scheduler(|| Box::new(RoundRobin::default()));
        transport
    };
    (
        server_config(&identity, transport()),
        client_config(&identity, transport()),
    )
}

/// Connections from a client with these addresses, with a path from each of them to one of the server's addresses.
async fn connect(server: &Endpoint, client: &Endpoint) -> Vec<(Connection, Connection)> {
    client.set_path_manager(PathManager::Manual);
    let addresses = server.local_addrs();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let connecting = client.connect(addresses[0], "localhost").unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (here, there) = tokio::join!(connecting, accepting);
        let here = here.unwrap();
        let locals = client.local_addrs();
        let used = here.paths()[0].network_path().unwrap().local;
        let others = locals.into_iter().filter(|local| *local != used);
        for (local, remote) in others.zip(addresses.iter().cycle().skip(1)) {
            here.open_path_from(local, *remote).await.unwrap();
        }
        connections.push((here, there));
    }
    connections
}

async fn send(from: &Connection, to: &Connection, data: &[u8]) {
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(data).await.unwrap();
        stream.finish().unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert!(stream.read_to_end(data.len()).await.unwrap() == data);
    };
    tokio::join!(send, receive);
}

/// Waits until each datagram that came to a socket of the endpoint has come to one of its connections.
async fn all_arrived<'a>(
    endpoint: &Endpoint,
    connections: impl Iterator<Item = &'a Connection> + Clone,
) -> Vec<ShardStats> {
    loop {
        let stats = endpoint.shard_stats();
        let received: u64 = stats.iter().map(|shard| shard.received).sum();
        let arrived = connections
            .clone()
            .map(|one| one.stats().received_datagrams);
        if received == arrived.sum::<u64>() {
            return stats;
        }
        tokio::task::yield_now().await;
    }
}

async fn exchange(server: &Endpoint, client: &Endpoint) -> [Vec<ShardStats>; 2] {
    let connections = connect(server, client).await;
    let data = pattern(1 << 20);
    for (here, there) in &connections {
        tokio::join!(send(here, there, &data), send(there, here, &data));
        for path in there.paths() {
            assert!(path.stats().unwrap().received_stream_bytes > 0);
        }
    }
    let stats = [
        all_arrived(server, connections.iter().map(|pair| &pair.1)).await,
        all_arrived(client, connections.iter().map(|pair| &pair.0)).await,
    ];
    for shards in &stats {
        let sum: usize = shards.iter().map(|shard| shard.connections).sum();
        assert_eq!(sum, CONNECTIONS);
        assert!(shards.iter().all(|shard| shard.dropped == 0));
    }
    drop(connections);
    client.close(0_u32.into(), b"");
    tokio::join!(server.wait_idle(), client.wait_idle());
    assert_eq!(server.open_connections(), 0);
    stats
}

/// Paths between four addresses of the client and two of the server: by their addresses they would be anywhere. No datagram
/// comes to a shard that is not its own.
#[cfg(target_os = "linux")]
#[test]
fn the_kernel_finds_the_shard_of_every_path() {
    run(async {
        let (server, client) = configs();
        let server = Endpoint::builder()
            .bind_all(&[loopback(1), loopback(2)])
            .server(server)
            .shards(SHARDS)
            .build()
            .unwrap();
        let client = Endpoint::builder()
            .bind_all(&[1, 2, 3, 4].map(loopback))
            .default_client(client)
            .shards(SHARDS)
            .build()
            .unwrap();
        for shards in exchange(&server, &client).await {
            assert!(
                shards.iter().all(|shard| shard.forwarded == 0),
                "{shards:?}"
            );
            let used = shards.iter().filter(|shard| shard.received > 0).count();
            assert!(used > 1, "{shards:?}");
            // Who has no connection has received nothing, and the others have.
            for shard in &shards {
                assert_eq!(shard.received > 0, shard.connections > 0, "{shards:?}");
            }
        }
    });
}

/// Sockets that the endpoint did not bind: one shard reads each, and all have connections. The paths of a connection come to
/// all four shards; what is not the reader's own is passed on.
#[test]
fn without_the_kernel_shards_pass_on_what_is_not_theirs() {
    run(async {
        let (server, client) = configs();
        let with = |addresses: [SocketAddr; 4]| {
            let bind = |builder: EndpointBuilder, local: SocketAddr| {
                builder.socket(UdpSocket::bind(local).unwrap())
            };
            addresses.into_iter().fold(Endpoint::builder(), bind)
        };
        let addresses = [1, 2, 3, 4].map(loopback);
        let server = with(addresses).server(server).shards(SHARDS);
        let server = server.build().unwrap();
        let client = with(addresses).default_client(client).shards(SHARDS);
        let client = client.build().unwrap();
        for shards in exchange(&server, &client).await {
            // A path of each connection comes to each of them.
            assert!(shards.iter().all(|shard| shard.received > 0));
            let received: u64 = shards.iter().map(|shard| shard.received).sum();
            let forwarded: u64 = shards.iter().map(|shard| shard.forwarded).sum();
            assert!(
                forwarded > received / 2 && forwarded < received,
                "{shards:?}"
            );
        }
    });
}

/// A path that moves to other addresses stays with its shard, and so does what a server of several threads does with it.
#[test]
fn a_path_that_moves_stays_with_its_shard() {
    run(async {
        let (server, client) = configs();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(1).enable_all().build().unwrap()
            })
            .collect();
        let handles = threads.iter().map(|thread| thread.handle().clone());
        let server = Endpoint::builder()
            .bind(loopback(1))
            .server(server)
            .shards_on(handles.collect())
            .build()
            .unwrap();
        let client = Endpoint::builder()
            .bind(loopback(1))
            .default_client(client)
            .build()
            .unwrap();
        let to = server.local_addrs()[0];
        let connecting = client.connect(to, "localhost").unwrap();
        let incoming = server.accept().await.unwrap();
        let accepting = incoming.runtime().clone().spawn(incoming.into_future());
        let (here, there) = tokio::join!(connecting, accepting);
        let (here, there) = (here.unwrap(), there.unwrap().unwrap());
        let id = there.runtime().id();
        assert!(threads.iter().any(|thread| thread.handle().id() == id));
        // Before, a client may not move (RFC 9000 section 9).
        here.handshake_confirmed().await.unwrap();
        let data = pattern(100_000);
        for _ in 0..12 {
            let old = client.local_addrs()[0];
            client.rebind(old, loopback(1)).unwrap();
            send(&here, &there, &data).await;
            send(&there, &here, &data).await;
        }
        let shards = server.shard_stats();
        let owner = shards.iter().position(|shard| shard.connections == 1);
        for (index, shard) in shards.iter().enumerate() {
            assert_eq!(
                shard.received > 0,
                Some(index) == owner || shard.forwarded > 0
            );
            if cfg!(target_os = "linux") {
                assert_eq!(shard.forwarded, 0);
            }
        }
        client.close(0_u32.into(), b"");
        tokio::join!(server.wait_idle(), client.wait_idle());
        // Runtimes must not be dropped in the task of another one.
        for thread in threads {
            thread.shutdown_background();
        }
    });
}

/// When the runtime of a shard ends, its connections do, and those of the others go on.
#[test]
fn a_shard_whose_runtime_ends_takes_only_its_own_connections_along() {
    run(async {
        let (server, client) = configs();
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(1).enable_all().build().unwrap()
            })
            .collect();
        let handles = threads.iter().map(|thread| thread.handle().clone());
        let server = Endpoint::builder()
            .bind(loopback(1))
            .server(server)
            .shards_on(handles.collect())
            .build()
            .unwrap();
        let client = Endpoint::builder()
            .bind(loopback(1))
            .default_client(client)
            .build()
            .unwrap();
        let ended = threads[0].handle().id();
        let pairs = connect(&server, &client).await;
        threads.remove(0).shutdown_background();
        let data = pattern(100_000);
        let mut counts = [0; 2];
        for (here, there) in &pairs {
            if there.runtime().id() == ended {
                let error = there.closed().await;
                assert!(!matches!(error, ConnectionError::TimedOut), "{error}");
                counts[0] += 1;
            } else {
                send(here, there, &data).await;
                send(there, here, &data).await;
                counts[1] += 1;
            }
        }
        assert_eq!(counts[0] + counts[1], CONNECTIONS);
        drop(pairs);
        for thread in threads {
            thread.shutdown_background();
        }
    });
}

#[derive(Debug)]
struct Constant;

impl ConnectionIdGenerator for Constant {
    fn id_len(&self) -> usize {
        8
    }

    fn write_id(&self, id: &mut [u8]) {
        id.fill(7);
    }
}

#[test]
fn shards_that_cannot_be_are_refused() {
    run(async {
        let build = |builder: EndpointBuilder| {
            let error = builder.bind(loopback(1)).build().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            let source = error.into_inner().unwrap();
            source.downcast::<ConfigError>().unwrap()
        };
        for count in [0, 257] {
            let error = build(Endpoint::builder().shards(count));
            assert!(matches!(*error, ConfigError::OutOfRange { .. }));
        }
        let mut config = mpquic::EndpointConfig::new([1; 32]);
        config.connection_ids(std::sync::Arc::new(Constant));
        let error = build(Endpoint::builder().endpoint_config(config).shards(2));
        assert!(matches!(*error, ConfigError::UnsteerableIds { .. }));
    });
}
