//! Several paths: opened by hand or by policy, used, preferred, closed.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::common::{self, Pair, loopback, pattern, run};
use mpquic::{
    Connection, Endpoint, FullMesh, LocalAddr, OpenPathError, PathError, PathErrorCode, PathEvent,
    PathEvents, PathId, PathManager, PathStatus, TransportConfig,
};

const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

async fn wait_for(events: &mut PathEvents, wanted: impl Fn(&PathEvent) -> bool) -> PathEvent {
    loop {
        let event = events.recv().await.expect("the connection ended");
        if wanted(&event) {
            return event;
        }
    }
}

async fn transfer(from: &Connection, to: &Connection, len: usize) {
    let data = pattern(len);
    let send = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&data).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receive = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert!(stream.read_to_end(len).await.unwrap() == data);
    };
    tokio::join!(send, receive);
}

//= specs/rfc10069-draft.md#path-close
//= type=test
//# An endpoint that wants to abandon a path MUST explicitly close the path by sending a
//# PATH_ABANDON frame (see {{path-abandon-frame}}).
//= specs/rfc10069-draft.md#path-close
//= type=test
//# After a path is abandoned, the path ID MUST NOT be reused for new paths, as the path ID is part
//# of the nonce calculation {{nonce}}.
#[test]
fn a_second_path_is_opened_used_and_closed() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let (client, server) = pair.connect().await;
        let mut there = server.path_events();
        let mut here = client.path_events();
        let path = client
            .open_path("127.0.0.2".parse().unwrap(), pair.server_addr)
            .await
            .unwrap();
        assert!(client.is_multipath());
        assert_eq!(path.id(), PathId(1));
        assert_eq!(
            path.network_path().unwrap().local,
            pair.client.local_addrs()[1]
        );
        assert_eq!(client.paths().len(), 2);
        wait_for(&mut there, |event| {
            *event == PathEvent::Opened { id: PathId(1) }
        })
        .await;
        let seen = server.path(PathId(1)).unwrap().network_path().unwrap();
        assert_eq!(seen.remote, pair.client.local_addrs()[1]);

        transfer(&client, &server, 4 << 20).await;
        transfer(&server, &client, 4 << 20).await;

        path.close(PathErrorCode::APPLICATION_ABANDON_PATH).unwrap();
        let gone = |event: &PathEvent| matches!(event, PathEvent::Abandoned { .. });
        let by_us = PathEvent::Abandoned {
            id: PathId(1),
            error_code: PathErrorCode::APPLICATION_ABANDON_PATH,
            by_peer: false,
        };
        assert_eq!(wait_for(&mut here, gone).await, by_us);
        let by_peer = PathEvent::Abandoned {
            id: PathId(1),
            error_code: PathErrorCode::APPLICATION_ABANDON_PATH,
            by_peer: true,
        };
        assert_eq!(wait_for(&mut there, gone).await, by_peer);
        transfer(&client, &server, 1 << 20).await;

        // The ID is never used again.
        let path = client.open_path(SECOND, pair.server_addr).await.unwrap();
        assert_eq!(path.id(), PathId(2));
        assert!(client.path(PathId(1)).is_err());
    });
}

/// Whoever names several addresses wants them used: a path from each, unless somebody says otherwise. Servers open none.
#[test]
fn several_addresses_are_used_unless_told_otherwise() {
    run(async {
        let both = [loopback(1), loopback(2)];
        let identity = common::identity();
        let config = || common::server_config(&identity, TransportConfig::default());
        let server = Endpoint::server(config(), &both).unwrap();
        let address = server.local_addrs()[0];
        let client_config = common::client_config(&identity, TransportConfig::default());
        let connect = async |client: &Endpoint| {
            client.set_default_client_config(client_config.clone());
            let connecting = client.connect(address, "localhost").unwrap();
            let accepting = async { server.accept().await.unwrap().await.unwrap() };
            let (client, server) = tokio::join!(connecting, accepting);
            (client.unwrap(), server)
        };
        let plain = Endpoint::client(&both).unwrap();
        let built = Endpoint::builder().bind(both[0]).bind(both[1]);
        let later = Endpoint::client(&both[..1]).unwrap();
        later.add_socket(both[1]).unwrap();
        for client in [plain, built.build().unwrap(), later] {
            let (here, there) = connect(&client).await;
            let mut events = here.path_events();
            let locals = client.local_addrs();
            loop {
                let paths = here.paths();
                let used = paths.iter().map(|path| path.network_path().unwrap().local);
                let used: HashSet<_> = used.collect();
                if locals.iter().all(|local| used.contains(local)) {
                    assert_eq!(paths.len(), 2);
                    break;
                }
                events.recv().await.unwrap();
            }
            transfer(&there, &here, 1 << 20).await;
            // Who asks for it by hand gets it, and another one for a second time.
            let locals: Vec<_> = locals
                .iter()
                .filter(|local| **local != first_local(&here))
                .collect();
            let path = here.open_path_from(*locals[0], address).await.unwrap();
            assert_eq!(path.id(), PathId(1));
            let path = here.open_path_from(*locals[0], address).await.unwrap();
            assert_eq!(path.id(), PathId(2));
        }
        // With one address, if it is said so, or from one of them, there is one path. Those of a mesh would be there: they are
        // opened with the end of the handshake.
        let one = Endpoint::client(&both[..1]).unwrap();
        let manual = Endpoint::client(&both).unwrap();
        manual.set_path_manager(PathManager::Manual);
        let built = Endpoint::builder().bind_all(&both);
        let built = built.path_manager(PathManager::Manual).build().unwrap();
        for client in [one, manual, built] {
            let (here, there) = connect(&client).await;
            here.handshake_confirmed().await.unwrap();
            transfer(&there, &here, 1 << 20).await;
            assert_eq!(here.paths().len(), 1);
        }
        let from_one = Endpoint::client(&both).unwrap();
        let local = from_one.local_addrs()[0];
        let config = Some(client_config.clone());
        let connecting = from_one.connect_from(local, config, address, "localhost");
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (here, there) = tokio::join!(connecting.unwrap(), accepting);
        let here = here.unwrap();
        here.handshake_confirmed().await.unwrap();
        transfer(&there, &here, 1 << 20).await;
        assert_eq!(here.paths().len(), 1);
    });
}

fn first_local(connection: &Connection) -> std::net::SocketAddr {
    let first = connection.path(PathId::ZERO).unwrap();
    first.network_path().unwrap().local
}

#[test]
fn a_path_can_be_asked_for_as_soon_as_the_connection_is_there() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2), loopback(3)], |_| ());
        let (client, _server) = pair.connect().await;
        let third = pair.client.local_addrs()[2];
        let (two, three) = tokio::join!(
            client.open_path(SECOND, pair.server_addr),
            client.open_path_from(third, pair.server_addr),
        );
        assert_ne!(two.unwrap().id(), three.unwrap().id());
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let (client, server) = pair.connect().await;
        let elsewhere = IpAddr::from([127, 0, 0, 9]);
        let error = client
            .open_path(elsewhere, pair.server_addr)
            .await
            .unwrap_err();
        let expected = OpenPathError::NoLocalSocket {
            local: LocalAddr::Ip(elsewhere),
            remote: pair.server_addr,
        };
        assert_eq!(error, expected);
        let own = server.local_ip().unwrap();
        let error = server
            .open_path(own, server.remote_address())
            .await
            .unwrap_err();
        assert_eq!(error, OpenPathError::Path(PathError::ServerSide));
    });
}

//= specs/rfc10069-draft.md#connection-lifecycle-and-packet-protection
//= type=test
//# If either of the endpoints does not advertise the initial_max_path_id transport parameter, then
//# both endpoints MUST NOT use any frame or mechanism defined in this document.
#[test]
fn without_the_extension_there_is_one_path() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |transport| {
            transport.max_paths(1);
        });
        let (client, server) = pair.connect().await;
        client.handshake_confirmed().await.unwrap();
        assert!(!client.is_multipath());
        let error = client
            .open_path(SECOND, pair.server_addr)
            .await
            .unwrap_err();
        assert_eq!(
            error,
            OpenPathError::Path(PathError::MultipathNotNegotiated)
        );
        let last = client.paths().remove(0);
        assert!(last.close(PathErrorCode::NO_ERROR).is_err());
        transfer(&client, &server, 1 << 20).await;
    });
}

#[test]
fn the_last_path_stays() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        client.handshake_confirmed().await.unwrap();
        let error = client.paths()[0]
            .close(PathErrorCode::NO_ERROR)
            .unwrap_err();
        assert_eq!(error, PathError::LastPath(PathId::ZERO));
    });
}

#[test]
fn the_peer_hears_of_a_preference() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2)], |_| ());
        let (client, server) = pair.connect().await;
        let mut there = server.path_events();
        let path = client.open_path(SECOND, pair.server_addr).await.unwrap();
        assert_eq!(path.status(), Ok(PathStatus::Available));
        path.set_status(PathStatus::Backup).unwrap();
        assert_eq!(path.status(), Ok(PathStatus::Backup));
        let told = PathEvent::RemoteStatus {
            id: path.id(),
            status: PathStatus::Backup,
        };
        wait_for(&mut there, |event| *event == told).await;
        let same = server.path(path.id()).unwrap();
        assert_eq!(same.remote_status(), Ok(Some(PathStatus::Backup)));
    });
}

#[test]
fn a_full_mesh_opens_what_there_is_and_what_comes() {
    run(async {
        let pair = Pair::with(&[loopback(1), loopback(2), loopback(3)], |_| ());
        pair.client.set_path_manager(FullMesh::new());
        let (client, server) = pair.connect().await;
        // Subscribed after the fact: what was opened before shows in the list.
        let mut events = client.path_events();
        let validated = |count: usize| {
            let server = &server;
            move || server.paths().len() >= count
        };
        let mut there = server.path_events();
        let enough = validated(3);
        while !enough() {
            there.recv().await.unwrap();
        }
        let local = pair.client.add_socket(loopback(4)).unwrap();
        wait_for(&mut events, |event| {
            let PathEvent::Opened { id } = event else {
                return false;
            };
            let path = client.path(*id).and_then(|path| path.network_path());
            path.is_ok_and(|path| path.local == local)
        })
        .await;
        assert_eq!(client.paths().len(), 4);
        transfer(&client, &server, 4 << 20).await;

        // An interface goes down under load, and the transfer does not mind.
        let remove = async {
            assert!(pair.client.remove_socket(local));
            wait_for(&mut events, |event| {
                matches!(event, PathEvent::Abandoned { error_code, by_peer: false, .. }
                    if *error_code == PathErrorCode::PATH_UNSTABLE_OR_POOR)
            })
            .await
        };
        tokio::join!(transfer(&client, &server, 16 << 20), remove);
    });
}

/// The address of the only interface changes, in the midst of a connection: it goes on, with multipath and without.
#[test]
fn a_connection_goes_on_from_another_socket() {
    run(async {
        for max_paths in [1, 8] {
            let pair = Pair::with(&[loopback(1)], |transport| {
                transport.max_paths(max_paths);
            });
            let (client, server) = pair.connect().await;
            transfer(&server, &client, 1 << 20).await;
            for host in [2, 3] {
                let mut there = server.path_events();
                let old = pair.client.local_addrs()[0];
                let new = pair.client.rebind(old, loopback(host)).unwrap();
                transfer(&client, &server, 1 << 20).await;
                transfer(&server, &client, 1 << 20).await;
                wait_for(&mut there, |event| {
                    *event == PathEvent::Moved { id: PathId(0) }
                })
                .await;
                let path = client.path(PathId(0)).unwrap().network_path().unwrap();
                assert_eq!(path.local, new);
                assert_eq!(client.paths().len(), 1);
                let seen = server.path(PathId(0)).unwrap().network_path().unwrap();
                assert_eq!(seen.remote, new);
            }
        }
    });
}

/// Nothing has to be sent for it: a download goes on when its client's socket is replaced.
#[test]
fn a_download_goes_on_from_another_socket() {
    run(async {
        for max_paths in [1, 8] {
            let pair = Pair::with(&[loopback(1)], |transport| {
                transport.max_paths(max_paths);
            });
            let (client, server) = pair.connect().await;
            let data = pattern(16 << 20);
            let sent = data.clone();
            let sending = tokio::spawn(async move {
                let mut stream = server.open_uni().await.unwrap();
                stream.write_all(&sent).await.unwrap();
                stream.finish().unwrap();
                stream.stopped().await.unwrap();
            });
            let mut stream = client.accept_uni().await.unwrap();
            let mut first = vec![0; 1 << 20];
            stream.read_exact(&mut first).await.unwrap();
            let old = pair.client.local_addrs()[0];
            pair.client.rebind(old, loopback(2)).unwrap();
            let rest = stream.read_to_end(data.len()).await.unwrap();
            assert!([first, rest].concat() == data);
            sending.await.unwrap();
        }
    });
}
