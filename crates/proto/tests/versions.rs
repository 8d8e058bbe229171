//! Connections of each version of QUIC (RFC 9369), and what becomes of clients and servers that speak different ones.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::pair::{self, Pair, tuple};
use mpquic_proto::{
    ClientConfig, ConnectionError, Dir, EndpointConfig, ServerConfig, TransportConfig, Version,
};
use mpquic_test_support::tls::Identity;

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

/// A client that connects with this version, and a server that speaks these.
fn pair(version: Version, spoken: &[Version]) -> Pair {
    let identity = Identity::new();
    let server = pair::server_config(&identity);
    let mut client = ClientConfig::with_root_certificates(identity.roots()).unwrap();
    client.version(version);
    let mut config = EndpointConfig::new([2; 32]);
    config.supported_versions(spoken);
    Pair::of(client, server, [EndpointConfig::new([1; 32]), config])
}

/// The version of a datagram's first packet, if it has a long header.
fn version_of(datagram: &[u8]) -> Option<u32> {
    let (first, rest) = datagram.split_first()?;
    (first & 0x80 != 0).then(|| u32::from_be_bytes(*rest.first_chunk().unwrap()))
}

/// Sends from client to server.
fn upload(pair: &mut Pair, len: usize) -> bool {
    let id = pair.c().streams().open(Dir::Uni).unwrap();
    let data = vec![7; len];
    let (mut written, mut received, mut buf) = (0, 0, vec![0; 65536]);
    pair.run_until(Duration::from_secs(10), |pair| {
        while written < len {
            let Ok(more) = pair.c().send_stream(id).write(&data[written..]) else {
                break;
            };
            written += more;
        }
        pair.s().streams().accept(Dir::Uni);
        while let Ok(Some(read)) = pair.s().recv_stream(id).read(&mut buf) {
            received += read;
        }
        received == len
    })
}

#[test]
fn a_connection_of_each_version_with_two_paths_and_a_key_update() {
    for version in VERSIONS {
        for retry in [false, true] {
            let mut pair = pair(version, &VERSIONS);
            pair.retry = retry;
            let others = Rc::new(Cell::new(0));
            let seen = Rc::clone(&others);
            pair.filter = Box::new(move |_, _, datagram| {
                let other = version_of(datagram).is_some_and(|of| of != version.number());
                seen.set(seen.get() + u32::from(other));
                true
            });
            pair.connect();
            assert_eq!([pair.c().version(), pair.s().version()], [version; 2]);
            let now = pair.now;
            let id = pair.c().open_path(now, tuple(1)).unwrap();
            assert!(pair.run_until(Duration::from_secs(2), |pair| pair.both_validated(id)));
            assert!(upload(&mut pair, 500_000));
            let now = pair.now;
            pair.c().force_key_update(now);
            assert!(upload(&mut pair, 500_000));
            assert_eq!(pair.c().stats().key_updates, 1);
            assert_eq!(others.get(), 0, "{version:?}, Retry {retry}");
        }
    }
}

/// RFC 9000 section 6: the server names what it speaks, and the client gives up.
#[test]
fn without_a_common_version_the_client_learns_of_it() {
    for version in VERSIONS {
        let other = VERSIONS
            .into_iter()
            .find(|other| *other != version)
            .unwrap();
        let mut pair = pair(version, &[other]);
        let over = pair.run_until(Duration::from_secs(2), |pair| pair.c().is_closed());
        assert!(over, "{version:?}");
        assert_eq!(
            pair.c().lost_reason(),
            Some(&ConnectionError::VersionMismatch)
        );
        assert!(pair.server.connection.is_none());
    }
}

/// Some packets change their version on the way: they are dropped, and do no harm.
#[test]
fn packets_of_another_version_are_dropped() {
    for version in VERSIONS {
        let other = VERSIONS
            .into_iter()
            .find(|other| *other != version)
            .unwrap();
        let mut pair = pair(version, &VERSIONS);
        let accepted = pair.run_until(Duration::from_secs(2), |pair| {
            pair.server.connection.is_some()
        });
        assert!(accepted);
        for to in [&mut pair.client, &mut pair.server] {
            let forged: Vec<_> = to
                .inbound
                .iter()
                .filter(|flying| version_of(&flying.data).is_some())
                .cloned()
                .map(|mut flying| {
                    flying.data[1..5].copy_from_slice(&other.number().to_be_bytes());
                    flying
                })
                .collect();
            for flying in forged {
                to.inbound.push_front(flying);
            }
        }
        pair.connect();
        assert_eq!([pair.c().version(), pair.s().version()], [version; 2]);
    }
}

/// RFC 9369 section 5: what a connection of version 1 left behind is not used with version 2.
#[test]
fn sessions_are_not_resumed_with_version_2() {
    let tls = pair::Tls::new();
    let transport = TransportConfig::default();
    tls.get_tickets(&transport);
    let server = || ServerConfig::new(Arc::new(tls.server.clone())).unwrap();
    for (version, resumed) in [
        (Version::V2, false),
        (Version::V2, false),
        (Version::V1, true),
    ] {
        let mut client = ClientConfig::new(Arc::new(tls.client.clone())).unwrap();
        client.version(version);
        let mut pair = Pair::of(
            client,
            server(),
            [1, 2].map(|seed| EndpointConfig::new([seed; 32])),
        );
        pair.connect();
        pair.run_until(Duration::from_secs(1), |_| false);
        assert_eq!(pair.c().session().is_resumed(), resumed, "{version:?}");
    }
}
