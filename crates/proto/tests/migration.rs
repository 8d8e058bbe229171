//! A client that moves by itself, a server that forbids it or wants it, and addresses that nobody knows (RFC 9000 section
//! 9; RFC 10069, Relation to Other Transport Parameters).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{self, Pair, client_addr, download, server_addr, tuple};
use mpquic_proto::{
    Dir, Event, FourTuple, PathError, PathEvent, PathId, ServerConfig, TransportConfig,
};

fn single() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_paths(1);
    config
}

/// Single-path and multipath pairs.
fn pairs(configure: impl Fn(&mut ServerConfig)) -> Vec<Pair> {
    [single(), TransportConfig::default()]
        .into_iter()
        .map(|config| {
            let mut pair = Pair::with_server(config.clone(), config, &configure);
            pair.connect();
            let later = pair.now + Duration::from_secs(1);
            pair.run_until(Duration::from_secs(1), |_| false);
            pair.now = later;
            pair
        })
        .collect()
}

fn preferred() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 101], 4433))
}

/// Which connection IDs each side sent to, from which address to which.
type Uses = Rc<RefCell<BTreeMap<(bool, Vec<u8>), Vec<(SocketAddr, SocketAddr)>>>>;

fn watch_ids(pair: &mut Pair) -> Uses {
    let uses: Uses = Rc::default();
    let seen = Rc::clone(&uses);
    pair.filter = Box::new(move |from_client, tuple, data| {
        if data[0] & 0x80 == 0 {
            let id = (from_client, data[1..9].to_vec());
            let way = (tuple.local, tuple.remote);
            let mut seen = seen.borrow_mut();
            let ways = seen.entry(id).or_default();
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        true
    });
    uses
}

//= specs/rfc9000.txt#section-9.5
//= type=test
//# An endpoint MUST NOT reuse a connection ID when sending from more than one local address -- for
//# example, when initiating connection migration as described in Section 9.2 or when probing a new
//# network path as described in Section 9.1.
//= specs/rfc9000.txt#section-9.5
//= type=test
//# Similarly, an endpoint MUST NOT reuse a connection ID when sending to more than one destination
//# address.
fn no_id_on_two_ways(uses: &Uses) {
    for ((from_client, id), ways) in uses.borrow().iter() {
        assert_eq!(ways.len(), 1, "client: {from_client}, {id:x?}: {ways:?}");
    }
}

fn moved(pair: &mut Pair, local: SocketAddr) {
    let done = pair.run_until(Duration::from_secs(2), |pair| {
        let there = pair.s().path(PathId::ZERO).unwrap().network_path().remote == local;
        there
            && pair
                .s()
                .path(PathId::ZERO)
                .is_ok_and(|path| path.is_validated())
            && pair
                .client
                .events
                .contains(&Event::Path(PathEvent::Moved { id: PathId::ZERO }))
    });
    assert!(
        done,
        "{:?}",
        pair.s().path(PathId::ZERO).map(|path| path.network_path())
    );
}

//= specs/rfc9000.txt#section-9.2
//= type=test
//# To establish reachability on the new path, an endpoint initiates path validation (Section 8.2) on
//# the new path.
#[test]
fn a_client_moves_its_only_path() {
    for mut pair in pairs(|_| {}) {
        let uses = watch_ids(&mut pair);
        assert!(download(&mut pair, 300_000));
        let before = pair.c().path(PathId::ZERO).unwrap().stats().sent_packets;
        for host in [2, 3, 4] {
            let local = SocketAddr::from(([10, 0, 0, host], 5000));
            pair.client.events.clear();
            let now = pair.now;
            pair.c().path_mut(PathId::ZERO).migrate(now, local).unwrap();
            moved(&mut pair, local);
            assert!(download(&mut pair, 300_000));
        }
        let after = pair.c().path(PathId::ZERO).unwrap().stats();
        assert!(after.sent_packets > before, "the path is the same one");
        assert_eq!(pair.c().paths().ids().count(), 1);
        no_id_on_two_ways(&uses);
    }
}

/// The old address is gone with all that was on its way to it, in the midst of a transfer.
#[test]
fn what_was_on_its_way_to_the_old_address_is_sent_again() {
    for mut pair in pairs(|_| {}) {
        let id = pair.s().streams().open(Dir::Uni).unwrap();
        assert_eq!(pair.s().send_stream(id).write(&[7; 200_000]), Ok(200_000));
        pair.s().send_stream(id).finish().unwrap();
        let (old, local) = (client_addr(0), SocketAddr::from(([10, 0, 0, 2], 5000)));
        pair.filter = Box::new(move |_, tuple, _| tuple.remote != old);
        let late = pair.now + Duration::from_millis(45);
        pair.run_until(Duration::from_millis(45), |_| false);
        pair.now = late;
        let now = pair.now;
        pair.c().path_mut(PathId::ZERO).migrate(now, local).unwrap();
        let (mut read, mut buf) = (0, [0; 65536]);
        let done = pair.run_until(Duration::from_secs(2), |pair| {
            pair.c().streams().accept(Dir::Uni);
            while let Ok(Some(n)) = pair.c().recv_stream(id).read(&mut buf) {
                read += n;
            }
            read == 200_000
        });
        assert!(done, "{read} bytes");
    }
}

#[test]
fn an_address_that_leads_nowhere_is_left_again() {
    for mut pair in pairs(|_| {}) {
        let dead = SocketAddr::from(([10, 0, 0, 66], 5000));
        pair.filter = Box::new(move |_, tuple, _| tuple.local != dead && tuple.remote != dead);
        let now = pair.now;
        pair.c().path_mut(PathId::ZERO).migrate(now, dead).unwrap();
        let back = pair.run_until(Duration::from_secs(25), |pair| {
            pair.c().path(PathId::ZERO).map(|path| path.network_path()) == Ok(tuple(0))
        });
        assert!(back && download(&mut pair, 100_000));
    }
}

/// The same where the server prefers an address that cannot be reached, and which the client tries from the new one, too.
#[test]
fn the_way_back_is_kept_while_a_preferred_address_is_tried() {
    for config in [single(), TransportConfig::default()] {
        let mut pair = Pair::with_server(config.clone(), config, |config| {
            config.preferred_address_v4(Some("10.0.0.101:4433".parse().unwrap()));
        });
        let uses = watch_ids(&mut pair);
        let mut watch = std::mem::replace(&mut pair.filter, Box::new(|_, _, _| true));
        let dead = SocketAddr::from(([10, 0, 0, 66], 5000));
        pair.filter = Box::new(move |from_client, tuple, data| {
            watch(from_client, tuple, data);
            let ends = [tuple.local, tuple.remote];
            !ends.contains(&dead) && !ends.contains(&preferred())
        });
        pair.connect();
        assert!(download(&mut pair, 300_000));
        let now = pair.now;
        pair.c().path_mut(PathId::ZERO).migrate(now, dead).unwrap();
        let back = pair.run_until(Duration::from_secs(25), |pair| {
            pair.c().path(PathId::ZERO).map(|path| path.network_path()) == Ok(tuple(0))
        });
        assert!(back && download(&mut pair, 100_000));
        no_id_on_two_ways(&uses);
    }
}

/// The client's address is gone time and again, and the link is down meanwhile: the connection IDs for further addresses that
/// the client waits for cannot come to an address that is gone. So it goes on with the last one that it has.
#[test]
fn a_client_whose_address_is_gone_goes_on_without_new_connection_ids() {
    for times in [1, 5, 40] {
        for mut pair in pairs(|_| {}) {
            let uses = watch_ids(&mut pair);
            let mut watch = std::mem::replace(&mut pair.filter, Box::new(|_, _, _| true));
            let down = Rc::new(Cell::new(true));
            let link = Rc::clone(&down);
            pair.filter = Box::new(move |from_client, tuple, data| {
                watch(from_client, tuple, data) && !link.get()
            });
            let mut local = client_addr(0);
            for port in 0..times {
                local = SocketAddr::from(([10, 0, 0, 2], 6000 + port));
                let now = pair.now;
                pair.c()
                    .path_mut(PathId::ZERO)
                    .replace_local(now, local)
                    .unwrap();
                let later = pair.now + Duration::from_millis(50);
                pair.run_until(Duration::from_millis(50), |_| false);
                pair.now = later;
                let path = pair.c().path(PathId::ZERO).unwrap().network_path();
                assert_eq!(path.local, local);
            }
            down.set(false);
            pair.client.events.clear();
            moved(&mut pair, local);
            assert!(download(&mut pair, 300_000));
            assert_eq!(pair.c().paths().ids().count(), 1);
            // Only what there was no other connection ID for was sent with one that was used before.
            let uses = uses.borrow();
            let reused = uses.iter().filter(|(_, ways)| ways.len() > 1);
            let most = if times > 1 { 2 } else { 0 };
            assert!(reused.count() <= most, "{uses:?}");
        }
    }
}

/// The same while the server answers: each address has a connection ID of its own, as RFC 9000 section 9.5 wants.
#[test]
fn a_client_whose_address_is_gone_uses_a_new_connection_id_if_there_is_one() {
    for mut pair in pairs(|_| {}) {
        let uses = watch_ids(&mut pair);
        for port in 6000..6020 {
            let local = SocketAddr::from(([10, 0, 0, 2], port));
            pair.client.events.clear();
            let now = pair.now;
            pair.c()
                .path_mut(PathId::ZERO)
                .replace_local(now, local)
                .unwrap();
            moved(&mut pair, local);
        }
        assert!(download(&mut pair, 300_000));
        no_id_on_two_ways(&uses);
    }
}

/// Another path carries the connection: it is no reason to use a connection ID twice.
#[test]
fn a_path_beside_another_one_does_not_reuse_its_connection_id() {
    let mut pair = pairs(|_| {}).remove(1);
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
    let later = pair.now + Duration::from_secs(1);
    pair.run_until(Duration::from_secs(1), |_| false);
    pair.now = later;
    pair.filter = Box::new(|_, _, _| false);
    let refused = (6000..6040).find_map(|port| {
        let local = SocketAddr::from(([10, 0, 1, 2], port));
        pair.c().path_mut(id).replace_local(later, local).err()
    });
    assert_eq!(refused, Some(PathError::NoCidAvailable { path: id }));
    // Once it is the last one, it does.
    let other = PathId::ZERO;
    let code = mpquic_proto::PathErrorCode::PATH_UNSTABLE_OR_POOR;
    pair.c().path_mut(other).close(later, code).unwrap();
    let local = SocketAddr::from(([10, 0, 1, 2], 7000));
    pair.c().path_mut(id).replace_local(later, local).unwrap();
    pair.filter = Box::new(|_, _, _| true);
    assert!(download(&mut pair, 300_000));
}

/// An address that is gone is no place to go back to, however long nothing is heard at the new one.
#[test]
fn nobody_goes_back_to_an_address_that_is_gone() {
    let mut config = single();
    config.max_idle_timeout(None);
    let mut pair = Pair::new(config.clone(), config);
    pair.connect();
    assert!(download(&mut pair, 100_000));
    pair.filter = Box::new(|_, _, _| false);
    let (now, local) = (pair.now, SocketAddr::from(([10, 0, 0, 2], 6000)));
    pair.c()
        .path_mut(PathId::ZERO)
        .replace_local(now, local)
        .unwrap();
    let id = pair.c().streams().open(Dir::Bi).unwrap();
    assert_eq!(pair.c().send_stream(id).write(b"request"), Ok(7));
    let later = pair.now + Duration::from_secs(120);
    let back = pair.run_until(Duration::from_secs(120), |pair| {
        pair.c().path(PathId::ZERO).unwrap().network_path().local != local
    });
    pair.now = later;
    assert!(!back);
    pair.filter = Box::new(|_, _, _| true);
    pair.c().ping();
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        pair.s().path(PathId::ZERO).unwrap().network_path().remote == local
    }));
    assert!(download(&mut pair, 100_000));
}

/// The client moves on before the first move was validated. That the address it left proves to work after all is no
/// reason to go back there.
#[test]
fn an_answer_from_an_address_that_was_left_changes_nothing() {
    for mut pair in pairs(|_| {}) {
        let [left, local] = [2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 5000)));
        let now = pair.now;
        pair.c().path_mut(PathId::ZERO).migrate(now, left).unwrap();
        // No answer of the server comes back from there for now.
        pair.filter = Box::new(move |_, tuple, _| tuple.remote != left);
        let later = pair.now + Duration::from_millis(200);
        pair.run_until(Duration::from_millis(200), |_| false);
        pair.now = later;
        pair.client.events.clear();
        pair.c()
            .path_mut(PathId::ZERO)
            .migrate(later, local)
            .unwrap();
        moved(&mut pair, local);
        pair.filter = Box::new(|_, _, _| true);
        let later = pair.now + Duration::from_secs(30);
        pair.run_until(Duration::from_secs(20), |pair| {
            pair.c().path(PathId::ZERO).unwrap().network_path().local == left
        });
        pair.now = later;
        assert_eq!(
            pair.c().path(PathId::ZERO).unwrap().network_path().local,
            local
        );
        assert!(download(&mut pair, 300_000));
    }
}

#[test]
fn only_clients_move_and_only_once_they_may() {
    let local = SocketAddr::from(([10, 0, 0, 2], 5000));
    let mut pair = Pair::new(single(), single());
    let now = pair.now;
    let early = pair.c().path_mut(PathId::ZERO).migrate(now, local);
    assert_eq!(early, Err(PathError::HandshakeIncomplete));
    let early = pair.c().path_mut(PathId::ZERO).replace_local(now, local);
    assert_eq!(early, Err(PathError::HandshakeIncomplete));
    pair.connect();
    let now = pair.now;
    let server = pair.s().path_mut(PathId::ZERO).migrate(now, server_addr());
    assert_eq!(server, Err(PathError::ServerSide));
    let other = pair.c().path_mut(PathId(3)).migrate(now, local);
    assert_eq!(other, Err(PathError::NotOpen(PathId(3))));
}

//= specs/rfc9000.txt#section-18.2
//= type=test
//# An endpoint that receives this transport parameter MUST NOT use a new local address when sending
//# to the address that the peer used during the handshake.
//= specs/rfc10069-draft.md#relation-to-other-transport-parameters
//= type=test
//# If an endpoint receives a disable_active_migration transport parameter, it is forbidden to
//# establish new paths to the peer's handshake address.
//= specs/rfc9000.txt#section-9
//= type=test
//# If the peer violates this requirement, the endpoint MUST either drop the incoming packets on that
//# path without generating a Stateless Reset or proceed with path validation and allow the peer to
//# migrate.
#[test]
fn a_server_that_forbids_it_has_its_way() {
    for mut pair in pairs(|config| {
        config.migration(false);
    }) {
        let now = pair.now;
        let local = SocketAddr::from(([10, 0, 0, 2], 5000));
        let refused = pair.c().path_mut(PathId::ZERO).migrate(now, local);
        assert_eq!(refused, Err(PathError::MigrationDisabled));
        let refused = pair.c().path_mut(PathId::ZERO).replace_local(now, local);
        assert_eq!(refused, Err(PathError::MigrationDisabled));
        if pair.c().paths().is_multipath() {
            let refused = pair.c().open_path(now, tuple(1));
            assert_eq!(refused, Err(PathError::MigrationDisabled));
        }
        // What comes from elsewhere is dropped, and answered by nobody.
        pair.nat = vec![(client_addr(0), SocketAddr::from(([203, 0, 113, 1], 77)))];
        pair.filter = Box::new(|from_client, _, _| from_client);
        let heard = pair
            .s()
            .path(PathId::ZERO)
            .unwrap()
            .stats()
            .received_datagrams;
        pair.c().ping();
        pair.run_until(Duration::from_secs(1), |_| false);
        let stats = pair.s().path(PathId::ZERO).unwrap().stats();
        assert_eq!(stats.received_datagrams, heard);
        assert_eq!(
            pair.s().path(PathId::ZERO).unwrap().network_path().remote,
            client_addr(0)
        );
        pair.nat.clear();
        pair.filter = Box::new(|_, _, _| true);
        assert!(download(&mut pair, 100_000));
    }
}

//= specs/rfc9000.txt#section-9
//= type=test
//# If a client receives packets from an unknown server address, the client MUST discard these
//# packets.
#[test]
fn clients_take_nothing_from_addresses_that_they_do_not_know() {
    for mut pair in pairs(|_| {}) {
        let stranger = SocketAddr::from(([10, 0, 0, 99], 4433));
        for (from, heard) in [(stranger, false), (server_addr(), true)] {
            let kept = Rc::new(RefCell::new(Vec::new()));
            let keep = Rc::clone(&kept);
            pair.filter = Box::new(move |from_client, _, data| {
                if !from_client {
                    keep.borrow_mut().push(data.to_vec());
                }
                from_client
            });
            pair.s().ping();
            pair.step();
            pair.filter = Box::new(|_, _, _| true);
            let before = pair.c().stats().received_datagrams;
            for data in kept.borrow_mut().drain(..) {
                let tuple = FourTuple {
                    local: client_addr(0),
                    remote: from,
                };
                let at = pair.now;
                pair.client
                    .inbound
                    .push_front(pair::Flying { at, tuple, data });
            }
            pair.step();
            let after = pair.c().stats().received_datagrams;
            assert_eq!(after > before, heard, "{from}");
        }
    }
}

//= specs/rfc9000.txt#section-9.6.1
//= type=test
//# Once the handshake is confirmed, the client SHOULD select one of the two addresses provided by the
//# server and initiate path validation (see Section 8.2).
//= specs/rfc9000.txt#section-9.6.1
//= type=test
//# As soon as path validation succeeds, the client SHOULD begin sending all future packets to the new
//# server address using the new connection ID and discontinue use of the old server address.
//= specs/rfc9000.txt#section-9.6.2
//= type=test
//# The server MUST probe on the path toward the client from its preferred address.
//= specs/rfc10069-draft.md#relation-to-other-transport-parameters
//= type=test
//# A such, the path ID for the connection ID specified in the preferred_address transport parameter
//# is 0.
#[test]
fn a_client_goes_on_at_the_address_that_the_server_prefers() {
    let address = "10.0.0.101:4433".parse().unwrap();
    for migration in [true, false] {
        for config in [single(), TransportConfig::default()] {
            let mut pair = Pair::with_server(config.clone(), config, |config| {
                config
                    .preferred_address_v4(Some(address))
                    .migration(migration);
            });
            let uses = watch_ids(&mut pair);
            pair.connect();
            let at_once = pair.now;
            let done = pair.run_until(Duration::from_secs(1), |pair| {
                let there =
                    pair.c().path(PathId::ZERO).unwrap().network_path().remote == preferred();
                there && pair.s().path(PathId::ZERO).unwrap().network_path().local == preferred()
            });
            assert!(
                done,
                "{:?}",
                pair.s().path(PathId::ZERO).map(|path| path.network_path())
            );
            assert!(pair.now - at_once < Duration::from_millis(100));
            assert!(download(&mut pair, 300_000));
            no_id_on_two_ways(&uses);
            // From there, the client may move even if it may not at the address of the handshake.
            let local = SocketAddr::from(([10, 0, 0, 2], 5000));
            pair.client.events.clear();
            let now = pair.now;
            pair.c().path_mut(PathId::ZERO).migrate(now, local).unwrap();
            moved(&mut pair, local);
            assert!(download(&mut pair, 300_000));
        }
    }
}

//= specs/rfc9000.txt#section-9.6.1
//= type=test
//# If path validation fails, the client MUST continue sending all future packets to the server's
//# original IP address.
//= specs/rfc9000.txt#section-21.5.3
//= type=test
//# A client MUST NOT send non-probing frames to a preferred address prior to validating that address;
//# see Section 8.
#[test]
fn a_preferred_address_that_cannot_be_reached_changes_nothing() {
    let address = "10.0.0.101:4433".parse().unwrap();
    for config in [single(), TransportConfig::default()] {
        let mut pair = Pair::with_server(config.clone(), config, |config| {
            config.preferred_address_v4(Some(address));
        });
        let probes = Rc::new(RefCell::new(0));
        let count = Rc::clone(&probes);
        pair.filter = Box::new(move |_, tuple, _| {
            *count.borrow_mut() += u32::from(tuple.remote == preferred());
            tuple.remote != preferred() && tuple.local != preferred()
        });
        pair.connect();
        assert!(download(&mut pair, 300_000));
        let later = pair.now + Duration::from_secs(20);
        pair.run_until(Duration::from_secs(20), |_| false);
        pair.now = later;
        assert!(download(&mut pair, 300_000));
        assert_eq!(
            pair.c().path(PathId::ZERO).map(|path| path.network_path()),
            Ok(tuple(0))
        );
        assert!((1..=7).contains(&*probes.borrow()), "{}", probes.borrow());
    }
}

/// The client has to move before it was able to use the address that the server prefers.
//= specs/rfc9000.txt#section-9.6.3
//= type=test
//# In this case, the client SHOULD perform path validation to both the original and preferred server
//# address from the client's new address concurrently.
//= specs/rfc9000.txt#section-9.6.3
//= type=test
//# If path validation of the server's preferred address succeeds, the client MUST abandon validation
//# of the original address and migrate to using the server's preferred address.
//= specs/rfc9000.txt#section-9.6.3
//= type=test
//# If path validation of the server's preferred address fails but validation of the server's original
//# address succeeds, the client MAY migrate to its new address and continue sending to the server's
//# original address.
#[test]
fn a_client_that_moves_first_asks_at_both_addresses_of_the_server() {
    let local = SocketAddr::from(([10, 0, 0, 2], 5000));
    for (config, reachable) in [
        (single(), true),
        (single(), false),
        (TransportConfig::default(), true),
        (TransportConfig::default(), false),
    ] {
        let mut pair = Pair::with_server(config.clone(), config, |config| {
            config.preferred_address_v4(Some("10.0.0.101:4433".parse().unwrap()));
        });
        let uses = watch_ids(&mut pair);
        let mut watch = std::mem::replace(&mut pair.filter, Box::new(|_, _, _| true));
        // Where the client's datagrams of full size went from its new address, in order.
        let asked = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&asked);
        pair.filter = Box::new(move |from_client, tuple, data| {
            watch(from_client, tuple, data);
            let (client, server) = match from_client {
                true => (tuple.local, tuple.remote),
                false => (tuple.remote, tuple.local),
            };
            if from_client && client == local && data.len() >= 1200 {
                seen.borrow_mut().push(server);
            }
            // From where it was, the client cannot reach the preferred address.
            server != preferred() || (reachable && client == local)
        });
        pair.connect();
        assert!(download(&mut pair, 300_000));
        assert_eq!(
            pair.c().path(PathId::ZERO).map(|path| path.network_path()),
            Ok(tuple(0))
        );
        pair.client.events.clear();
        let now = pair.now;
        pair.c().path_mut(PathId::ZERO).migrate(now, local).unwrap();
        pair.step();
        let mut first: Vec<_> = asked.borrow().clone();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first, [server_addr(), preferred()], "at once");
        moved(&mut pair, local);
        let wanted = if reachable {
            preferred()
        } else {
            server_addr()
        };
        let there = |pair: &mut Pair| {
            let client = pair.c().path(PathId::ZERO).unwrap().network_path();
            let server = pair.s().path(PathId::ZERO).unwrap().network_path();
            (client.local, client.remote) == (local, wanted)
                && (server.local, server.remote) == (wanted, local)
        };
        assert!(pair.run_until(Duration::from_secs(5), there));
        asked.borrow_mut().clear();
        assert!(download(&mut pair, 300_000));
        if reachable {
            assert!(!asked.borrow().contains(&server_addr()), "abandoned");
        }
        let later = pair.now + Duration::from_secs(20);
        pair.run_until(Duration::from_secs(20), |_| false);
        pair.now = later;
        assert!(there(&mut pair) && download(&mut pair, 300_000));
        no_id_on_two_ways(&uses);
    }
}

/// A client's NAT gives it another port while the server still uses its original address, so that the server asks there
/// before it follows. What came was small, and so is the first question.
//= specs/rfc9000.txt#section-8
//= type=test
//# Therefore, after receiving packets from an address that is not yet validated, an endpoint MUST
//# limit the amount of data it sends to the unvalidated address to three times the amount of data
//# received from that address.
//= specs/rfc9000.txt#section-8.2.1
//= type=test
//# To ensure that the path MTU is large enough, the endpoint MUST perform a second path validation
//# by sending a PATH_CHALLENGE frame in a datagram of at least 1200 bytes.
#[test]
fn an_answer_to_a_small_question_lifts_the_limit_of_an_address_that_no_path_uses_yet() {
    let outside = SocketAddr::from(([203, 0, 113, 1], 7000));
    for config in [single(), TransportConfig::default()] {
        let mut pair = Pair::with_server(config.clone(), config, |config| {
            config.preferred_address_v4(Some("10.0.0.101:4433".parse().unwrap()));
        });
        // How many of the client's datagrams still reach the preferred address: its question first.
        let let_in = Rc::new(Cell::new(1));
        // What the server received there from behind the NAT, and sent back.
        let wire = Rc::new(Cell::new((0, 0)));
        let (left, bytes) = (Rc::clone(&let_in), Rc::clone(&wire));
        pair.filter = Box::new(move |from_client, tuple, data| {
            let (received, sent) = bytes.get();
            if from_client && tuple.remote == preferred() {
                let Some(fewer) = u32::checked_sub(left.get(), 1) else {
                    return false;
                };
                left.set(fewer);
                bytes.set((received + data.len(), sent));
            } else if tuple.remote == outside {
                bytes.set((received, sent + data.len()));
                // A full datagram does not get through.
                return data.len() < 1200;
            }
            true
        });
        pair.connect();
        assert!(pair.run_until(Duration::from_secs(5), |pair| {
            pair.c().path(PathId::ZERO).unwrap().network_path().remote == preferred()
        }));
        let limit = |pair: &mut Pair| {
            let mut limits = pair.s().paths().amplification();
            let there = limits.find(|(tuple, _)| tuple.remote == outside);
            there.map(|(_, limit)| limit)
        };
        assert_eq!((let_in.get(), limit(&mut pair)), (0, None));
        pair.nat = vec![(client_addr(0), outside)];
        wire.set((0, 0));
        let_in.set(1);
        pair.c().ping();
        assert!(pair.run_until(Duration::from_secs(5), |pair| limit(pair).is_some()));
        let (received, sent) = wire.get();
        assert!(received < 400 && (1..=3 * received).contains(&sent));
        assert_eq!(limit(&mut pair), Some(Some((sent as u64, received as u64))));
        let_in.set(1);
        assert!(pair.run_until(Duration::from_secs(5), |pair| { limit(pair) == Some(None) }));
        // The address is proven. That full datagrams arrive there is not: the server asks again, and does not move.
        assert!(!pair.run_until(Duration::from_secs(5), |pair| limit(pair).is_none()));
        let (received, sent) = wire.get();
        assert!(sent > 3 * received, "{sent} for {received}");
        assert_eq!(
            pair.s().path(PathId::ZERO).unwrap().network_path().local,
            server_addr()
        );
        assert_eq!(
            pair.s().path(PathId::ZERO).map(|path| path.amplification()),
            Ok(None)
        );
    }
}
