//! Sockets that close beneath a connection: it goes on from the next one, however often that happens, waits while there is none, and
//! ends at once, with a reason, where it cannot go on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Pair, client_config, loopback, pattern, run, server_config};
use crate::race::relay;
use mpquic::{Connection, ConnectionError, Endpoint, PathError, PathEvent, PathId};
use tokio::net::UdpSocket;

/// What the client's only path has as its local address.
fn local_of(client: &Connection) -> SocketAddr {
    let path = client.path(PathId::ZERO).unwrap();
    path.network_path().unwrap().local
}

/// Until the connection's task has seen that the sockets changed.
async fn is_at(client: &Connection, local: SocketAddr) {
    while local_of(client) != local && client.close_reason().is_none() {
        tokio::task::yield_now().await;
    }
}

async fn request(client: &Connection, server: &Connection) {
    let ask = async {
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"request").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"request");
    };
    let answer = async {
        let (mut send, mut recv) = server.accept_bi().await.unwrap();
        let request = recv.read_to_end(100).await.unwrap();
        send.write_all(&request).await.unwrap();
        send.finish().unwrap();
    };
    tokio::join!(ask, answer);
}

/// The link is down meanwhile, so that the server issues no connection IDs for further addresses.
#[test]
fn a_connection_outlives_any_number_of_sockets_without_an_answer() {
    for (max_paths, removes) in [(1, false), (8, false), (1, true), (8, true)] {
        run(async {
            for times in [4, 5, 8, 20, 40] {
                let pair = Pair::with(&[loopback(1)], |transport| {
                    transport.max_paths(max_paths);
                });
                let up = Arc::new(AtomicBool::new(true));
                let link = Arc::clone(&up);
                let front = relay(pair.server_addr, move |_| link.load(Ordering::Relaxed)).await;
                let connecting = pair.client.connect(front, "localhost").unwrap();
                let accepting = async { pair.server.accept().await.unwrap().await.unwrap() };
                let (client, server) = tokio::join!(connecting, accepting);
                let client = client.unwrap();
                request(&client, &server).await;
                client.handshake_confirmed().await.unwrap();
                up.store(false, Ordering::Relaxed);
                for _ in 0..times {
                    let old = pair.client.local_addr().unwrap();
                    let new = if removes {
                        assert!(pair.client.remove_socket(old));
                        pair.client.add_socket(loopback(1)).unwrap()
                    } else {
                        pair.client.rebind(old, loopback(1)).unwrap()
                    };
                    is_at(&client, new).await;
                }
                up.store(true, Ordering::Relaxed);
                request(&client, &server).await;
                assert_eq!(local_of(&client), pair.client.local_addr().unwrap());
                assert_eq!(client.paths().len(), 1);
            }
        });
    }
}

/// More sockets than the one that is there remembers, and the connection's task sees the last one only.
#[test]
fn sockets_that_nobody_has_seen_are_no_harm() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        request(&client, &server).await;
        client.handshake_confirmed().await.unwrap();
        for _ in 0..100 {
            let old = pair.client.local_addr().unwrap();
            pair.client.rebind(old, loopback(1)).unwrap();
        }
        request(&client, &server).await;
        assert_eq!(local_of(&client), pair.client.local_addr().unwrap());
    });
}

/// In the midst of a transfer, whichever side sends: sockets change faster than the server can issue connection IDs.
#[test]
fn a_transfer_goes_on_through_a_storm_of_sockets() {
    const PIECE: usize = 100_000;
    for (max_paths, up) in [(1, false), (8, false), (1, true), (8, true)] {
        run(async {
            let pair = Pair::with(&[loopback(1)], |transport| {
                transport.max_paths(max_paths);
            });
            let (client, server) = pair.connect().await;
            request(&client, &server).await;
            client.handshake_confirmed().await.unwrap();
            let (from, to) = match up {
                true => (&client, &server),
                false => (&server, &client),
            };
            let data = pattern(40 * PIECE);
            let send = async {
                let mut stream = from.open_uni().await.unwrap();
                stream.write_all(&data).await.unwrap();
                stream.finish().unwrap();
                stream.stopped().await.unwrap();
            };
            let receive = async {
                let mut stream = to.accept_uni().await.unwrap();
                let mut piece = vec![0; PIECE];
                for expected in data.chunks(PIECE) {
                    stream.read_exact(&mut piece).await.unwrap();
                    assert!(piece == expected);
                    let old = pair.client.local_addr().unwrap();
                    pair.client.rebind(old, loopback(1)).unwrap();
                }
            };
            tokio::join!(send, receive);
            request(&client, &server).await;
        });
    }
}

#[test]
fn a_connection_without_a_socket_says_so_and_waits_for_one() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        request(&client, &server).await;
        client.handshake_confirmed().await.unwrap();
        for _ in 0..2 {
            let mut events = client.path_events();
            let stranded = PathEvent::Stranded { id: PathId::ZERO };
            pair.client.remove_socket(local_of(&client));
            assert_eq!(events.recv().await, Some(stranded));
            // Nothing that it wants to send leaves, and it says so once.
            let mut asked = client.open_uni().await.unwrap();
            asked.write_all(b"is anybody there?").await.unwrap();
            let new = pair.client.add_socket(loopback(1)).unwrap();
            is_at(&client, new).await;
            request(&client, &server).await;
            while let Some(event) = events.try_recv() {
                assert_ne!(event, stranded);
            }
            assert_eq!(local_of(&client), new);
        }
    });
}

/// A socket of the same address, as a server's: its clients find it there.
#[test]
fn a_server_whose_address_comes_back_goes_on() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        request(&client, &server).await;
        let mut events = server.path_events();
        pair.server.remove_socket(pair.server_addr);
        let stranded = PathEvent::Stranded { id: PathId::ZERO };
        assert_eq!(events.recv().await, Some(stranded));
        // The socket is closed once nobody uses it any more.
        let mut added = pair.server.add_socket(pair.server_addr);
        while added.is_err() {
            tokio::task::yield_now().await;
            added = pair.server.add_socket(pair.server_addr);
        }
        request(&client, &server).await;
    });
}

fn lost(local: SocketAddr, reason: PathError) -> ConnectionError {
    ConnectionError::LocalAddressLost { local, reason }
}

#[test]
fn where_the_server_forbids_another_address_the_connection_ends_at_once() {
    for removes in [false, true] {
        run(async {
            let pair = Pair::new();
            let mut config = server_config(&pair.identity, Default::default());
            config.migration(false);
            pair.server.set_server_config(Some(config));
            let (client, _server) = pair.connect().await;
            client.handshake_confirmed().await.unwrap();
            let old = local_of(&client);
            if removes {
                pair.client.add_socket(loopback(1)).unwrap();
                pair.client.remove_socket(old);
            } else {
                pair.client.rebind(old, loopback(1)).unwrap();
            }
            let reason = client.closed().await;
            assert_eq!(reason, lost(old, PathError::MigrationDisabled));
            pair.client.wait_idle().await;
        });
    }
}

#[test]
fn a_handshake_whose_socket_is_gone_ends_at_once() {
    for removes in [false, true] {
        run(async {
            let pair = Pair::new();
            let silent = UdpSocket::bind(loopback(1)).await.unwrap();
            let server = silent.local_addr().unwrap();
            let connecting = pair.client.connect(server, "localhost").unwrap();
            let old = pair.client.local_addr().unwrap();
            if removes {
                pair.client.remove_socket(old);
            } else {
                pair.client.rebind(old, loopback(1)).unwrap();
            }
            let reason = connecting.await.unwrap_err();
            assert_eq!(reason, lost(old, PathError::HandshakeIncomplete));
        });
    }
}

/// One of the addresses that a connection begins on goes, and then the other.
#[test]
fn a_handshake_goes_on_from_the_sockets_that_are_left() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let silent = UdpSocket::bind(loopback(1)).await.unwrap();
        let server = silent.local_addr().unwrap();
        let connecting = pair.client.connect(server, "localhost").unwrap();
        for old in pair.client.local_addrs() {
            pair.client.remove_socket(old);
        }
        let reason = connecting.await.unwrap_err();
        let ConnectionError::Unreachable(attempts) = &reason else {
            panic!("{reason:?}");
        };
        assert_eq!(attempts.len(), 2, "{reason}");

        // The first address goes, and the handshake is done from the second.
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let gone = pair.client.local_addrs()[0];
        let connecting = pair.client.connect(pair.server_addr, "localhost").unwrap();
        pair.client.remove_socket(gone);
        // The server may have answered at the address that is gone, and waits for that attempt, too.
        let accepting = async {
            let mut attempts = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    incoming = pair.server.accept() => {
                        let incoming = incoming.unwrap();
                        attempts.spawn(async { incoming.await.ok() });
                    }
                    Some(done) = attempts.join_next() => {
                        if let Some(server) = done.unwrap() {
                            return server;
                        }
                    }
                }
            }
        };
        let (client, server) = tokio::join!(connecting, accepting);
        request(&client.unwrap(), &server).await;
    });
}

#[test]
fn a_server_that_leaves_its_address_has_its_connections_end() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        request(&client, &server).await;
        pair.server.rebind(pair.server_addr, loopback(1)).unwrap();
        let reason = server.closed().await;
        assert_eq!(reason, lost(pair.server_addr, PathError::ServerSide));
        pair.server.wait_idle().await;
    });
}

#[test]
fn without_a_socket_and_a_handle_to_add_one_a_connection_is_over() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        request(&client, &server).await;
        let Pair {
            client: endpoint, ..
        } = pair;
        let local = local_of(&client);
        let mut events = client.path_events();
        endpoint.remove_socket(local);
        let stranded = PathEvent::Stranded { id: PathId::ZERO };
        assert_eq!(events.recv().await, Some(stranded));
        drop(endpoint);
        let reason = client.closed().await;
        assert_eq!(reason, lost(local, PathError::NoSocketLeft));
    });
}

/// Nobody can be told, and nobody can ask again.
#[test]
fn a_connection_that_closes_without_a_socket_is_over() {
    run(async {
        let pair = Pair::new();
        // So long a round trip is assumed that the closing state would outlast the test.
        let mut transport = mpquic::TransportConfig::default();
        transport.initial_rtt(std::time::Duration::from_secs(100));
        let config = client_config(&pair.identity, transport);
        let silent = UdpSocket::bind(loopback(1)).await.unwrap();
        let server = silent.local_addr().unwrap();
        let endpoint = Endpoint::client(&[loopback(1)]).unwrap();
        let connecting = endpoint.connect_with(config, server, "localhost").unwrap();
        // Its first packet has left.
        silent.recv_from(&mut [0; 2048]).await.unwrap();
        endpoint.remove_socket(endpoint.local_addr().unwrap());
        drop(connecting);
        endpoint.wait_idle().await;
    });
}
