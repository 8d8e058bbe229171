//! Connections over several local addresses, and to several addresses of a server, through real sockets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pair, client_config, loopback, run};
use mpquic::{
    AttemptError, ConnectionError, Endpoint, FullMesh, PathManager, RaceConfig, TransportConfig,
};
use tokio::net::UdpSocket;

/// Passes datagrams on to a server, but for those of the clients for which `passes` is false. Its address.
pub(crate) async fn relay(
    server: SocketAddr,
    passes: impl Fn(IpAddr) -> bool + Send + 'static,
) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind(loopback(1)).await.unwrap());
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let mut backs: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut buffer = vec![0; 65_536];
        while let Ok((size, client)) = front.recv_from(&mut buffer).await {
            if !passes(client.ip()) {
                continue;
            }
            if let Entry::Vacant(place) = backs.entry(client) {
                let back = Arc::new(UdpSocket::bind(loopback(1)).await.unwrap());
                place.insert(Arc::clone(&back));
                let front = Arc::clone(&front);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 65_536];
                    while let Ok((size, _)) = back.recv_from(&mut buffer).await {
                        front.send_to(&buffer[..size], client).await.unwrap();
                    }
                });
            }
            backs[&client]
                .send_to(&buffer[..size], server)
                .await
                .unwrap();
        }
    });
    address
}

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Transport settings that give up after so long.
fn impatient(timeout: Duration) -> impl Fn(&mut TransportConfig) {
    move |transport| {
        transport.max_idle_timeout(Some(timeout));
    }
}

#[test]
fn a_dead_first_address_does_not_keep_a_connection_from_the_second() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        pair.client.set_path_manager(FullMesh::new());
        let remote = relay(pair.server_addr, |client| client != FIRST).await;
        let server = pair.server.clone();
        let accepted = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            let asked = recv.read_to_end(100).await.unwrap();
            send.write_all(&asked).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap();
            server.half_open().connections
        });
        let connection = pair.client.connect(remote, "localhost").unwrap();
        let connection = connection.await.unwrap();
        assert_eq!(connection.local_ip(), Some(SECOND));
        assert_eq!(connection.remote_address(), remote);
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"hello");
        assert_eq!(accepted.await.unwrap(), 0);
    });
}

#[test]
fn the_first_address_has_the_connection_if_nothing_is_wrong_with_it() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        // The second address is not heard.
        let remote = relay(pair.server_addr, |client| client != SECOND).await;
        let server = pair.server.clone();
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let connection = pair.client.connect(remote, "localhost").unwrap();
        assert_eq!(connection.await.unwrap().local_ip(), Some(FIRST));
    });
}

#[test]
fn both_addresses_dead_is_said_of_each_once_the_time_for_the_handshake_is_over() {
    run(async {
        // The idle timeout would take half a minute.
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let remote = relay(pair.server_addr, |_| false).await;
        let locals = pair.client.local_addrs();
        let mut config = client_config(&pair.identity, TransportConfig::default());
        config.handshake_timeout(Duration::from_millis(100));
        let connecting = pair.client.connect_with(config, remote, "localhost");
        let connecting = connecting.unwrap();
        let Err(ConnectionError::Unreachable(attempts)) = connecting.await else {
            panic!("not the error that was expected");
        };
        let tried: Vec<_> = attempts.iter().map(|one| one.network_path.local).collect();
        assert_eq!(tried, locals);
        assert!(
            attempts.iter().all(
                |one| one.network_path.remote == remote && one.reason == AttemptError::NoAnswer
            )
        );
    });
}

#[test]
fn what_the_system_refuses_to_send_is_said_and_holds_up_nothing() {
    run(async {
        let pair = Pair::with(&[loopback(1)], |_| ());
        // From a loopback address, the system sends to no other host.
        let outside: SocketAddr = "198.51.100.1:443".parse().unwrap();
        let connecting = pair
            .client
            .connect_any(&[outside, pair.server_addr], "localhost");
        let server = pair.server.clone();
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let connection = connecting.unwrap().await.unwrap();
        assert_eq!(connection.remote_address(), pair.server_addr);

        let both = ["198.51.100.1:443", "198.51.100.2:443"].map(|text| text.parse().unwrap());
        let connecting = pair.client.connect_any(&both, "localhost").unwrap();
        let Err(ConnectionError::Unreachable(attempts)) = connecting.await else {
            panic!("not the error that was expected");
        };
        let tried: Vec<_> = attempts.iter().map(|one| one.network_path.remote).collect();
        assert_eq!(tried, both);
        for attempt in attempts.iter() {
            assert!(
                matches!(attempt.reason, AttemptError::NotSent(_)),
                "{attempt}"
            );
        }
    });
}

#[test]
fn a_dead_server_address_costs_the_delay_between_attempts_and_paths_go_where_it_answered() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        pair.client.set_path_manager(FullMesh::new());
        let dead = relay(pair.server_addr, |_| false).await;
        let server = pair.server.clone();
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let remotes = [dead, pair.server_addr];
        let connection = pair.client.connect_any(&remotes, "localhost").unwrap();
        let connection = connection.await.unwrap();
        assert_eq!(connection.remote_address(), pair.server_addr);
        let mut events = connection.path_events();
        while connection.paths().len() < 2 {
            events.recv().await.unwrap();
        }
        for path in connection.paths() {
            assert_eq!(path.network_path().unwrap().remote, pair.server_addr);
        }
    });
}

#[test]
fn a_server_that_cannot_prove_who_it_is_gives_way_to_the_next_one() {
    run(async {
        let pair = Pair::new();
        let other = Pair::new();
        let impostor = other.server.clone();
        tokio::spawn(async move {
            while let Some(one) = impostor.accept().await {
                let _ = one.await;
            }
        });
        // Alone, it is the error that it is.
        let connecting = pair.client.connect(other.server_addr, "localhost").unwrap();
        let alone = connecting.await.unwrap_err();
        assert!(
            matches!(alone, ConnectionError::TransportError(_)),
            "{alone}"
        );
        let server = pair.server.clone();
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let remotes = [other.server_addr, pair.server_addr];
        let connection = pair.client.connect_any(&remotes, "localhost").unwrap();
        let connection = connection.await.unwrap();
        assert_eq!(connection.remote_address(), pair.server_addr);
    });
}

#[test]
fn without_a_race_a_connection_begins_on_the_first_address_only() {
    run(async {
        let pair = Pair::with(
            &[loopback(1), loopback(2)],
            impatient(Duration::from_millis(100)),
        );
        pair.client.set_path_manager(PathManager::Manual);
        let remote = relay(pair.server_addr, |client| client != FIRST).await;
        let mut transport = TransportConfig::default();
        impatient(Duration::from_millis(100))(&mut transport);
        let mut config = client_config(&pair.identity, transport);
        config.race(None);
        let connecting = pair
            .client
            .connect_with(config, remote, "localhost")
            .unwrap();
        assert_eq!(connecting.await.unwrap_err(), ConnectionError::TimedOut);
    });
}

#[test]
fn nothing_is_copied_from_a_wildcard_address() {
    run(async {
        let pair = Pair::new();
        let wildcard: SocketAddr = "0.0.0.0:0".parse().unwrap();
        let client = Endpoint::client(&[wildcard, loopback(2)]).unwrap();
        let mut config = client_config(&pair.identity, TransportConfig::default());
        config.race(Some(RaceConfig::default()));
        let server = pair.server.clone();
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let connection = client
            .connect_with(config, pair.server_addr, "localhost")
            .unwrap();
        let connection = connection.await.unwrap();
        assert_eq!(connection.local_ip(), Some(FIRST));
    });
}
