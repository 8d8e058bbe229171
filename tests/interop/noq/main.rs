//! Tests of multipath (RFC 10069) with another implementation, noq, over loopback sockets, with noq
//! as the server and as the client. No test depends on timing: the only time limit fails a test
//! that hangs.
//!
//! These tests meet the following differences of noq 1.4, which the RFC allows or does not cover:
//!
//! - Its sender only follows its own path status. It reports the peer's preference to the
//!   application (see its `PathEvent::RemoteStatus`). RFC 10069, path status management, allows
//!   this. Therefore, only our sender must leave a backup path unused.
//! - Its sender fills the path with the lowest ID first, and uses others when its window is
//!   exhausted. Therefore, only our sender must use every path.
//! - `open_path` does not wait for connection IDs and does not report when they come. These tests
//!   therefore retry after each round trip.
//! - Its API cannot use a path ID above the peer's limit. `crates/proto/src/connection/receive/tests/path_ids.rs`
//!   tests how we respond to that.

mod early;
mod pair;
mod streams;

use std::future::Future;
use std::time::Duration;

use mpquic::{OpenPathError, PathError, PathErrorCode, PathEvent, PathId, PathStatus};
use mpquic_sim::LinkConfig;

use pair::{Between, Client, Pair, loopback, noq_id, noq_transport, our_transport};

const MIB: usize = 1 << 20;

/// Runs a test with each implementation as the client.
fn run<F: Future<Output = ()>>(client: Client, test: impl FnOnce(Client) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test(client))
            .await
            .expect("the test hangs");
    });
}

macro_rules! both_ways {
    ($($name:ident),* $(,)?) => {
        mod our_client {
            $(#[test] fn $name() { super::run(super::Client::Ours, super::$name); })*
        }
        mod noq_client {
            $(#[test] fn $name() { super::run(super::Client::Noq, super::$name); })*
        }
    };
}

both_ways!(
    two_and_three_paths_carry_data,
    a_path_abandoned_by_us,
    a_path_abandoned_by_noq,
    backup_paths_are_left_alone,
    the_limit_of_paths_holds,
    an_abandoned_path_makes_room_for_another,
    two_paths_on_the_same_addresses,
    keys_are_updated_with_several_paths,
    links_that_lose_and_reorder,
    a_nat_moves_a_path,
    early_data,
);

use early::early_data;

/// Path initiation and validation, with a packet number space and a nonce per path.
async fn two_and_three_paths_carry_data(client: Client) {
    let mut pair = Pair::new(client).await;
    assert!(pair.ours.is_multipath());
    assert!(pair.noq.is_multipath_enabled());
    let mut ids = vec![PathId::ZERO];
    for number in 1..=2 {
        let id = pair.open(number).await;
        assert_eq!(id, PathId(number as u32), "IDs are used in order");
        ids.push(id);
        let (sent, received) = (pair.sent(&ids), pair.received(&ids));
        pair.exchange(32 * MIB, || ()).await;
        let now = (pair.sent(&ids), pair.received(&ids));
        for path in 0..ids.len() {
            assert!(now.0[path] > sent[path], "path {path}: {sent:?} {now:?}");
            assert!(
                now.1[path] > received[path],
                "path {path}: {received:?} {now:?}"
            );
        }
        assert_eq!(pair.ours.paths().len(), ids.len());
    }
    assert_eq!(pair.ours.stats().undecryptable_packets, 0);
    pair.finish().await;
}

/// Path close, with a code other than the application's.
async fn a_path_abandoned_by_us(client: Client) {
    let mut pair = Pair::new(client).await;
    let first = pair.open(1).await;
    pair.open(2).await;
    let code = PathErrorCode::PATH_UNSTABLE_OR_POOR;
    for id in [first, PathId::ZERO] {
        let path = pair.ours.path(id).unwrap();
        pair.exchange(16 * MIB, || path.close(code).unwrap()).await;
        pair.abandoned(id, code, false).await;
    }
    assert_eq!(pair.ours.paths().len(), 1);
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// noq has only one code for its application: APPLICATION_ABANDON_PATH.
async fn a_path_abandoned_by_noq(client: Client) {
    let mut pair = Pair::new(client).await;
    let first = pair.open(1).await;
    pair.open(2).await;
    for id in [first, PathId::ZERO] {
        let path = pair.noq.path(noq_id(id)).unwrap();
        pair.exchange(16 * MIB, || path.close().unwrap()).await;
        let code = PathErrorCode::APPLICATION_ABANDON_PATH;
        pair.abandoned(id, code, true).await;
    }
    assert_eq!(pair.ours.paths().len(), 1);
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// Path status management: the frames of both sides, and how our sender reacts.
async fn backup_paths_are_left_alone(client: Client) {
    let mut pair = Pair::new(client).await;
    let id = pair.open(1).await;
    let ids = [PathId::ZERO, id];
    let path = pair.ours.path(id).unwrap();
    let noq_path = pair.noq.path(noq_id(id)).unwrap();

    noq_path.set_status(noq::PathStatus::Backup).unwrap();
    let told = PathEvent::RemoteStatus {
        id,
        status: PathStatus::Backup,
    };
    pair.our_event(|event| *event == told).await;
    assert_eq!(path.remote_status(), Ok(Some(PathStatus::Backup)));
    assert_eq!(
        path.status(),
        Ok(PathStatus::Available),
        "each side has its own"
    );
    pair.only_first_path_is_used(ids).await;

    noq_path.set_status(noq::PathStatus::Available).unwrap();
    let told = PathEvent::RemoteStatus {
        id,
        status: PathStatus::Available,
    };
    pair.our_event(|event| *event == told).await;
    let before = pair.sent(&ids);
    pair.upload(8 * MIB, || ()).await;
    let after = pair.sent(&ids);
    assert!(after[0] > before[0] && after[1] > before[1]);

    for status in [
        PathStatus::Backup,
        PathStatus::Available,
        PathStatus::Backup,
    ] {
        path.set_status(status).unwrap();
        let told = match status {
            PathStatus::Backup => noq::PathStatus::Backup,
            _ => noq::PathStatus::Available,
        };
        pair.noq_event(|event| match event {
            noq::PathEvent::RemoteStatus { id: of, status, .. } => {
                *of == noq_id(id) && *status == told
            }
            _ => false,
        })
        .await;
    }
    pair.only_first_path_is_used(ids).await;

    // The available path closes, so only the backup path is left.
    pair.ours
        .path(PathId::ZERO)
        .unwrap()
        .close(PathErrorCode::NO_ERROR)
        .unwrap();
    pair.abandoned(PathId::ZERO, PathErrorCode::NO_ERROR, false)
        .await;
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

impl Pair {
    /// Sends data, and checks that only the first path carried it. If the first path had trouble
    /// meanwhile, for example because the machine paused, the other path was used legitimately. The
    /// check is then repeated.
    async fn only_first_path_is_used(&mut self, ids: [PathId; 2]) {
        let in_trouble = |events: &mut mpquic::PathEvents| {
            let events = std::iter::from_fn(|| events.try_recv());
            events
                .filter(|event| {
                    matches!(
                        event,
                        PathEvent::Suspect { .. } | PathEvent::Recovered { .. }
                    )
                })
                .count()
                > 0
        };
        loop {
            in_trouble(&mut self.our_events);
            let before = self.sent(&ids);
            self.upload(8 * MIB, || ()).await;
            let after = self.sent(&ids);
            if in_trouble(&mut self.our_events) {
                continue;
            }
            assert_eq!(after[1], before[1], "a backup path carried data");
            assert!(after[0] >= before[0] + 8 * MIB as u64);
            return;
        }
    }
}

/// MAX_PATH_ID and PATHS_BLOCKED: a side that opens more paths than the peer allows gets a local
/// error.
async fn the_limit_of_paths_holds(client: Client) {
    let (ours, noq) = match client {
        Client::Ours => (4, 2),
        Client::Noq => (2, 4),
    };
    let mut pair = Pair::with(
        client,
        our_transport(ours),
        noq_transport(noq),
        Between::Nothing,
    )
    .await;
    pair.open(1).await;
    let (local, remote) = pair.route(2);
    match client {
        Client::Ours => {
            let error = pair.ours.open_path(local, remote).await.unwrap_err();
            let limit = PathId(1);
            let expected = OpenPathError::Path(PathError::NoPathIdLeft { limit });
            assert_eq!(error, expected);
            while pair.noq.stats().frame_rx.paths_blocked == 0 {
                pair.round_trip().await;
            }
        }
        Client::Noq => {
            let path = noq::FourTuple::new(remote, Some(local));
            let opened = pair.noq.open_path(path, noq::PathStatus::Available).await;
            assert_eq!(opened.unwrap_err(), noq::PathError::MaxPathIdReached);
            while pair.noq.stats().frame_tx.paths_blocked == 0 {
                pair.round_trip().await;
            }
        }
    }
    pair.exchange(MIB, || ()).await;
    assert_eq!(pair.ours.paths().len(), 2);
    pair.finish().await;
}

/// An abandoned path raises MAX_PATH_ID on both sides. Its ID is never used again.
async fn an_abandoned_path_makes_room_for_another(client: Client) {
    let mut pair = Pair::with(client, our_transport(2), noq_transport(2), Between::Nothing).await;
    for round in 1..=4 {
        let id = pair.open(1).await;
        assert_eq!(id, PathId(round));
        pair.exchange(MIB, || ()).await;
        let by_noq = round % 2 == 0;
        let code = PathErrorCode::APPLICATION_ABANDON_PATH;
        match by_noq {
            true => pair.noq.path(noq_id(id)).unwrap().close().unwrap(),
            false => pair.ours.path(id).unwrap().close(code).unwrap(),
        }
        pair.abandoned(id, code, by_noq).await;
    }
    let id = pair.open(2).await;
    assert_eq!(id, PathId(5));
    pair.exchange(MIB, || ()).await;
    pair.finish().await;
}

/// RFC 10069 section 1: several path IDs may have the same 4-tuple.
async fn two_paths_on_the_same_addresses(client: Client) {
    let mut pair = Pair::new(client).await;
    let id = pair.open(0).await;
    let ids = [PathId::ZERO, id];
    pair.exchange(8 * MIB, || ()).await;
    assert!(pair.sent(&ids).iter().all(|sent| *sent > 0));
    assert!(pair.received(&ids).iter().all(|received| *received > 0));
    pair.finish().await;
}

/// One key phase for all paths, each with its own packet numbers.
async fn keys_are_updated_with_several_paths(client: Client) {
    let mut pair = Pair::new(client).await;
    pair.open(1).await;
    pair.open(2).await;
    pair.exchange(16 * MIB, || pair.ours.force_key_update())
        .await;
    pair.exchange(16 * MIB, || pair.noq.force_key_update())
        .await;
    assert_eq!(pair.ours.stats().undecryptable_packets, 0);
    pair.finish().await;
}

/// Paths open and close and keys change over links with losses and reordering, so that every frame
/// is lost sometimes.
async fn links_that_lose_and_reorder(client: Client) {
    let mut link = LinkConfig::new(200_000_000, Duration::from_millis(5)).with_loss(0.02);
    link.reordering = 0.01;
    link.duplication = 0.01;
    link.corruption = 0.001;
    let mut pair = Pair::with(
        client,
        our_transport(3),
        noq_transport(3),
        Between::Links(&link),
    )
    .await;
    let code = PathErrorCode::APPLICATION_ABANDON_PATH;
    let (first, second) = (pair.open(1).await, pair.open(2).await);
    for id in [first, second] {
        let by_noq = id == second;
        let (ours, noq) = (pair.ours.path(id), pair.noq.path(noq_id(id)));
        let (ours, noq) = (ours.unwrap(), noq.unwrap());
        let close = || match by_noq {
            true => noq.close().unwrap(),
            false => ours.close(code).unwrap(),
        };
        pair.exchange(2 * MIB, close).await;
        pair.abandoned(id, code, by_noq).await;
        let again = pair.open(3).await;
        ours_or_noq_updates(&pair, by_noq).await;
        assert_eq!(again, PathId(if by_noq { 4 } else { 3 }));
    }
    assert_eq!(pair.ours.paths().len(), 3);
    pair.finish().await;
}

async fn ours_or_noq_updates(pair: &Pair, noq: bool) {
    let update = || match noq {
        true => pair.noq.force_key_update(),
        false => pair.ours.force_key_update(),
    };
    pair.exchange(2 * MIB, update).await;
}

/// Probing and migration: when the 4-tuple of a path ID changes, it is the same path to another
/// address. First the port changes, then the host.
async fn a_nat_moves_a_path(client: Client) {
    let (ours, noq) = (our_transport(2), noq_transport(2));
    let mut pair = Pair::with(client, ours, noq, Between::Nat).await;
    let id = pair.open(1).await;
    let forget = pair.nat.as_ref().unwrap().forget.clone();
    // The client's address on the path, as the server sees it.
    let seen = |pair: &Pair| match pair.client {
        Client::Ours => {
            let path = pair.noq.path(noq_id(id)).unwrap();
            path.network_path().unwrap().remote()
        }
        Client::Noq => {
            let path = pair.ours.path(id).unwrap();
            path.network_path().unwrap().remote
        }
    };
    let mut before = seen(&pair);
    for host in [loopback(1), loopback(9)] {
        pair.exchange(2 * MIB, || forget.send(host).unwrap()).await;
        // The NAT drops datagrams to the old port, so the client must send first. noq does not
        // report a migration to its application, so the test continues until it sees one.
        while seen(&pair) == before {
            match client {
                Client::Ours => pair.ours.ping(),
                Client::Noq => pair.noq.path(noq_id(id)).unwrap().ping().unwrap(),
            }
            pair.exchange(MIB, || ()).await;
        }
        before = seen(&pair);
        assert_eq!(before.ip(), host);
        if pair.client == Client::Noq {
            pair.our_event(|event| *event == PathEvent::Moved { id })
                .await;
        }
        // The other path carried everything meanwhile. Now this path must carry data again.
        let sent = pair.sent(&[id]);
        while pair.sent(&[id]) == sent {
            pair.exchange(2 * MIB, || ()).await;
        }
    }
    assert_eq!(pair.ours.paths().len(), 2);
    pair.finish().await;
}
