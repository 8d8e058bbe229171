//! What the connection does for schedulers that learn: keys that name paths across connections, and
//! an end that comes when the connection is over, not when it has drained.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pair::{Pair, client_addr, server_addr, tuple};
use mpquic_proto::sched::{
    Context, Decision, Learned, PathKey, PathUpdate, PathUpdateKind, Scheduler,
};
use mpquic_proto::{FourTuple, PathErrorCode, PathId, Side, TransportConfig, VarInt};

/// What a scheduler was told of paths, and whether it is gone.
#[derive(Default)]
struct Told {
    events: Vec<(PathId, PathUpdateKind, Option<PathKey>)>,
    /// Keys that views had, of open paths.
    seen: Vec<(PathId, Option<PathKey>)>,
    gone: bool,
}

struct Notes(Arc<Mutex<Told>>);

impl Scheduler for Notes {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let mut told = self.0.lock().unwrap();
        for path in cx.open() {
            let seen = (path.id, path.key);
            if !told.seen.contains(&seen) {
                told.seen.push(seen);
            }
        }
        match cx.sendable().next() {
            Some(path) => Decision::send(path.index),
            None => Decision::Wait { until: None },
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        let mut told = self.0.lock().unwrap();
        told.events.push((event.id, event.kind, event.key));
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("notes");
        learned.refused = self.0.lock().unwrap().events.len() as u64;
        Some(learned)
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.lock().unwrap().gone = true;
    }
}

fn noting() -> (TransportConfig, Arc<Mutex<Told>>) {
    let told = Arc::<Mutex<Told>>::default();
    let mut config = TransportConfig::default();
    let notes = Arc::clone(&told);
    config.scheduler(move || Box::new(Notes(Arc::clone(&notes))));
    (config, told)
}

/// Both ends with two paths, and what their schedulers were told.
fn connected() -> (Pair, [Arc<Mutex<Told>>; 2], PathId) {
    let ((client, for_client), (server, for_server)) = (noting(), noting());
    let mut pair = Pair::new(client, server);
    pair.connect();
    let now = pair.now;
    let id = pair.c().open_path(now, tuple(1)).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_validated(id)));
    (pair, [for_client, for_server], id)
}

fn key(local: SocketAddr, remote: SocketAddr) -> Option<PathKey> {
    Some(FourTuple { local, remote }.key())
}

#[test]
fn each_side_has_a_key_of_its_own_for_each_path() {
    let (mut pair, [client, server], id) = connected();
    // So that the schedulers are asked.
    pair.c().ping();
    for side in [Side::Client, Side::Server] {
        let connection = if side.is_client() { pair.c() } else { pair.s() };
        let stream = connection.streams().open(mpquic_proto::Dir::Uni).unwrap();
        connection.send_stream(stream).write(b"x").unwrap();
    }
    let asked = |told: &Arc<Mutex<Told>>| told.lock().unwrap().seen.len() == 2;
    assert!(pair.run_until(Duration::from_secs(1), |_| asked(&client) && asked(&server)));
    for (told, swap) in [(client, false), (server, true)] {
        let told = told.lock().unwrap();
        for path in [PathId::ZERO, id] {
            let (a, b) = (client_addr(path.0 as u8), server_addr());
            let expected = if swap { key(b, a) } else { key(a, b) };
            let validated = (path, PathUpdateKind::Validated, expected);
            assert!(told.events.contains(&validated), "{:?}", told.events);
            assert!(told.seen.contains(&(path, expected)), "{:?}", told.seen);
        }
    }
}

#[test]
fn a_host_that_moves_has_another_key_and_a_port_does_not_matter() {
    let (mut pair, [_, server], id) = connected();
    let moves = || {
        let told = server.lock().unwrap();
        let moved = told.events.iter();
        moved
            .filter(|(_, kind, _)| *kind == PathUpdateKind::Moved)
            .copied()
            .collect::<Vec<_>>()
    };
    for (host, port, expected) in [(9, 1, 1), (9, 2, 1), (8, 3, 2)] {
        let outside = SocketAddr::from(([203, 0, 113, host], port));
        pair.nat = vec![(client_addr(1), outside)];
        pair.c().ping();
        assert!(pair.run_until(Duration::from_secs(5), |pair| {
            pair.s().path(id).is_ok_and(|path| path.is_validated())
                && pair.s().path(id).unwrap().network_path().remote == outside
        }));
        let moves = moves();
        assert_eq!(moves.len(), expected);
        let last = (id, PathUpdateKind::Moved, key(server_addr(), outside));
        assert_eq!(moves.last(), Some(&last));
    }
    // It ends under the name that it had last.
    let now = pair.now;
    pair.s()
        .path_mut(id)
        .close(now, PathErrorCode::APPLICATION_ABANDON_PATH)
        .unwrap();
    let told = server.lock().unwrap();
    let outside = SocketAddr::from(([203, 0, 113, 8], 3));
    let last = (id, PathUpdateKind::Abandoned, key(server_addr(), outside));
    assert_eq!(told.events.last(), Some(&last));
}

#[test]
fn a_local_address_that_is_not_known_counts_as_unspecified() {
    let (client, told) = noting();
    let mut pair = Pair::new(client, TransportConfig::default());
    pair.connect();
    let wildcard = SocketAddr::from(([0, 0, 0, 0], 5000));
    let mut tuple = tuple(1);
    tuple.local = wildcard;
    pair.nat = vec![(wildcard, client_addr(1))];
    let now = pair.now;
    let id = pair.c().open_path(now, tuple).unwrap();
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.c().path(id).is_ok_and(|path| path.is_validated())
    }));
    let unknown = (id, PathUpdateKind::Validated, key(wildcard, server_addr()));
    assert!(told.lock().unwrap().events.contains(&unknown));
}

#[test]
fn what_was_learned_outlives_the_scheduler_which_goes_with_the_connection() {
    let (mut pair, [client, server], _) = connected();
    let gone = |told: &Arc<Mutex<Told>>| told.lock().unwrap().gone;
    let events = |told: &Arc<Mutex<Told>>| told.lock().unwrap().events.len() as u64;
    let learned = pair.c().scheduler().learned().unwrap();
    assert_eq!(learned.refused, events(&client));
    assert!(!gone(&client));
    let now = pair.now;
    pair.c().close(now, VarInt::from_u32(0), Vec::new().into());
    assert!(gone(&client) && !gone(&server));
    assert!(!pair.c().is_drained());
    assert!(pair.run_until(Duration::from_secs(1), |_| gone(&server)));
    assert!(!pair.s().is_drained());
    assert_eq!(pair.c().scheduler().learned(), Some(learned));
    assert!(pair.run_until(Duration::from_secs(20), |pair| {
        pair.c().is_drained() && pair.s().is_drained()
    }));
    assert_eq!(
        pair.s().scheduler().learned().unwrap().refused,
        events(&server)
    );
    assert_eq!(pair.s().scheduler().learned().unwrap().scheduler, "notes");
}

#[test]
fn schedulers_that_do_not_learn_have_nothing_to_tell() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.connect();
    assert_eq!(pair.c().scheduler().learned(), None);
    let now = pair.now;
    pair.c().close(now, VarInt::from_u32(0), Vec::new().into());
    assert_eq!(pair.c().scheduler().learned(), None);
}
