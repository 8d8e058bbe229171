//! First flights with early data that somebody recorded and sends again, from other addresses and to all shards of a server.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::common::{client_tls, identity, loopback, run, server_tls};
use mpquic::{ClientConfig, Endpoint, Incoming, ServerConfig};

const SHARDS: u16 = 4;
/// From so many addresses a copy goes to each of the server's.
const COPIES: usize = 4;
/// Nobody completes the handshakes of copies.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// A server with a shard for each of its addresses, and a client.
fn ends() -> (Endpoint, Endpoint) {
    let identity = identity();
    let mut tls = server_tls(&identity);
    tls.max_early_data_size = u32::MAX;
    let mut config = ServerConfig::new(Arc::new(tls)).unwrap();
    config.handshake_timeout(HANDSHAKE_TIMEOUT);
    let sockets = (1..=4).map(|last| UdpSocket::bind(loopback(last)).unwrap());
    let server = sockets.fold(Endpoint::builder(), |builder, socket| {
        builder.socket(socket)
    });
    let server = server.server(config).shards(SHARDS).build().unwrap();
    let mut tls = client_tls(&identity);
    tls.enable_early_data = true;
    let client = Endpoint::client(&[loopback(1)]).unwrap();
    client.set_default_client_config(ClientConfig::new(Arc::new(tls)).unwrap());
    (server, client)
}

/// A connection that brings the client a ticket.
async fn get_ticket(server: &Endpoint, client: &Endpoint) {
    let accepting = async {
        let connection = server.accept().await.unwrap().await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.finish().unwrap();
        connection.closed().await;
    };
    let connecting = async {
        let connecting = client.connect(server.local_addrs()[0], "localhost");
        let connection = connecting.unwrap().await.unwrap();
        let mut stream = connection.accept_uni().await.unwrap();
        stream.read_to_end(9).await.unwrap();
        connection.close(0u32.into(), b"");
    };
    tokio::join!(accepting, connecting);
}

/// The datagrams of a client that comes back with early data, none of which has arrived anywhere.
async fn first_flight(client: &Endpoint) -> Vec<Vec<u8>> {
    let wire = tokio::net::UdpSocket::bind(loopback(1)).await.unwrap();
    let connecting = client.connect(wire.local_addr().unwrap(), "localhost");
    let Ok((connection, _)) = connecting.unwrap().into_0rtt() else {
        panic!("no ticket");
    };
    let (mut send, _recv) = connection.open_bi().await.unwrap();
    // More than one datagram has.
    send.write_all(&[7; 2_000]).await.unwrap();
    send.finish().unwrap();
    let mut flight = Vec::new();
    let mut len = 0;
    while len < 3_000 {
        let mut buf = vec![0; 65_536];
        let (count, _) = wire.recv_from(&mut buf).await.unwrap();
        buf.truncate(count);
        len += count;
        flight.push(buf);
    }
    flight
}

/// Whether a connection's application was given early data before the handshake was given up.
async fn early_data_of(incoming: Incoming) -> bool {
    let Ok((connection, _)) = incoming.accept().unwrap().into_0rtt() else {
        panic!("servers can always answer early");
    };
    match connection.accept_bi().await {
        Ok((_, mut recv)) => {
            let all = recv.read_to_end(1 << 20).await;
            assert!(all.is_err() || recv.is_0rtt());
            true
        }
        Err(_) => false,
    }
}

/// Copies of one flight at every shard at once begin one connection, and that has the early data.
#[test]
fn copies_of_a_first_flight_at_all_shards_are_taken_once() {
    run(async {
        let (server, client) = ends();
        get_ticket(&server, &client).await;
        let flight = first_flight(&client).await;
        for _ in 0..COPIES {
            for target in server.local_addrs() {
                let from = tokio::net::UdpSocket::bind(loopback(9)).await.unwrap();
                for datagram in &flight {
                    from.send_to(datagram, target).await.unwrap();
                }
            }
        }
        let mut connections = JoinSet::new();
        let mut early = 0;
        let first = server.accept().await.unwrap();
        connections.spawn(early_data_of(first));
        let mut begun = 1;
        while !connections.is_empty() {
            tokio::select! {
                incoming = server.accept() => {
                    connections.spawn(early_data_of(incoming.unwrap()));
                    begun += 1;
                }
                Some(ended) = connections.join_next() => early += usize::from(ended.unwrap()),
            }
        }
        // A flight has one connection ID, which names one shard: the others hand their copies over to it.
        let stats = server.shard_stats();
        let copy = flight.len() as u64;
        assert!(
            stats.iter().all(|shard| shard.received >= copy),
            "{stats:?}"
        );
        assert_eq!((begun, early), (1, 1), "{stats:?}");
    });
}
