//! How large each collection is that a peer can make grow, beside its cap, and what a connection is charged for it in bytes: for
//! tests that hold every moment of a connection against `limits.rs`, and its memory against the charge. Changes nothing.

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::limits;
use crate::path::{Addresses, NetworkPath};
use crate::space::{PacketSpace, SpaceId};

/// A collection, how large it is, and how large it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionSize {
    /// What it holds.
    pub what: &'static str,
    /// Its size: elements, or bytes where the cap is in bytes.
    pub size: u64,
    /// Its cap.
    pub cap: u64,
}

impl CollectionSize {
    /// Calls `f` with every collection of a connection that the peer can make grow.
    pub fn for_each(connection: &Connection, mut f: impl FnMut(Self)) {
        let mut tell = |what, size: usize, cap: usize| {
            f(Self {
                what,
                size: size as u64,
                cap: cap as u64,
            });
        };
        for space in connection.handshake.spaces() {
            tell_space(space, &mut tell);
        }
        for path in connection.paths.iter() {
            tell_space(path.space(), &mut tell);
            let addresses = 1 + usize::from(path.network(Addresses::Previous).is_some());
            tell(
                "addresses of a path",
                addresses,
                limits::MAX_ADDRESSES_PER_PATH,
            );
            tell(
                "path probes in flight",
                path.space().sent.path_probes(),
                2 * limits::MAX_PATH_PROBES_IN_FLIGHT,
            );
            for network in [Addresses::Current, Addresses::Previous]
                .into_iter()
                .filter_map(|which| path.network(which))
            {
                tell(
                    "path responses to send",
                    NetworkPath::responses_due(network),
                    limits::MAX_PENDING_PATH_RESPONSES,
                );
            }
        }
        for retired in connection.paths.retired() {
            tell_space(&retired.space, &mut tell);
        }
        tell(
            "open paths",
            connection.paths.open_count(),
            limits::MAX_OPEN_PATHS,
        );
        tell(
            "abandoned paths kept",
            connection.paths.retired().len(),
            limits::MAX_ABANDONED_PATHS,
        );
        tell(
            "PATH_ABANDON frames",
            connection.paths.abandons().len(),
            limits::MAX_PENDING_ABANDONS,
        );
        for space_id in [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data] {
            let (bytes, gaps) = connection.handshake.session().buffered(space_id);
            tell("CRYPTO bytes", bytes, limits::MAX_CRYPTO_BUFFER as usize);
            tell("CRYPTO gaps", gaps, limits::MAX_CRYPTO_GAPS);
        }
        let further =
            limits::MAX_PATH_IDS_ISSUED_EARLY as usize * limits::MAX_UNDECRYPTABLE_PER_FURTHER_PATH;
        tell(
            "undecryptable packets",
            connection.handshake.undecryptable().len(),
            limits::MAX_UNDECRYPTABLE_PACKETS + further,
        );
        tell(
            "bytes of undecryptable packets",
            connection.handshake.undecryptable().bytes(),
            limits::MAX_UNDECRYPTABLE_BYTES + further * limits::MAX_UNDECRYPTABLE_FURTHER_PACKET,
        );
        let (retiring, most_held) = connection.paths.remote_cids().sizes();
        tell(
            "connection IDs to retire",
            retiring,
            limits::MAX_PENDING_RETIRE,
        );
        tell(
            "the peer's connection IDs of a path",
            most_held,
            limits::ACTIVE_CONNECTION_ID_LIMIT as usize,
        );
        let (path_ids, most_issued) = connection.paths.local_cids().sizes();
        tell(
            "path IDs with connection IDs of ours",
            path_ids,
            limits::MAX_OPEN_PATHS
                + limits::MAX_ABANDONED_PATHS
                + limits::MAX_PATH_IDS_ISSUED_AHEAD as usize,
        );
        tell(
            "connection IDs of ours of a path",
            most_issued,
            limits::MAX_ISSUED_CIDS_PER_PATH as usize,
        );
        connection.data.for_each_size(&mut tell);
    }
}

/// What is charged for one of each, in bytes. Ours: within a small factor of what it takes.
mod charge {
    pub(super) const CONNECTION: u64 = 32 << 10;
    pub(super) const OPEN_PATH: u64 = 4096;
    pub(super) const ABANDONED_PATH: u64 = 512;
    pub(super) const PATH_ABANDON: u64 = 16;
    pub(super) const CONNECTION_ID: u64 = 64;
    pub(super) const RETIREMENT: u64 = 32;
    pub(super) const RANGE: u64 = 16;
    pub(super) const SENT_PACKET: u64 = 128;
    pub(super) const CRYPTO_GAP: u64 = 32;
    pub(super) const KEPT_PACKET: u64 = 64;
    pub(super) const HALF_OF_A_STREAM: u64 = 512;
    /// Of a stream that is read out of order: what was read leaves its range behind.
    pub(super) const UNORDERED_GAP: u64 = 12;
}

impl CollectionSize {
    /// Calls `f` with everything that a connection is charged for, and for how many bytes. The sum is what it may hold times a
    /// constant, whatever its peer does: a test asserts that.
    pub fn for_each_charge(connection: &Connection, mut f: impl FnMut(&'static str, u64)) {
        let (paths, handshake) = (&connection.paths, &connection.handshake);
        f("a connection", charge::CONNECTION);
        f("open paths", paths.open_count() as u64 * charge::OPEN_PATH);
        f(
            "abandoned paths",
            paths.retired().len() as u64 * charge::ABANDONED_PATH,
        );
        f(
            "PATH_ABANDON frames",
            paths.abandons().len() as u64 * charge::PATH_ABANDON,
        );
        let ids = paths.remote_cids().held() + paths.local_cids().held();
        f("connection IDs", ids as u64 * charge::CONNECTION_ID);
        let (retiring, _) = paths.remote_cids().sizes();
        f("retirements", retiring as u64 * charge::RETIREMENT);
        let of_paths = paths.iter().map(|path| path.space());
        let of_retired = paths.retired().iter().map(|path| &path.space);
        let (mut ranges, mut sent) = (0, 0);
        for space in handshake.spaces().chain(of_paths).chain(of_retired) {
            ranges += space.received.ranges() as u64;
            sent += space.sent.remembered() as u64;
        }
        f("ranges of received packets", ranges * charge::RANGE);
        f("sent packets", sent * charge::SENT_PACKET);
        for space_id in [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data] {
            let (bytes, gaps) = handshake.session().buffered(space_id);
            f("CRYPTO", bytes as u64 + gaps as u64 * charge::CRYPTO_GAP);
        }
        let kept = handshake.undecryptable();
        let packets = kept.len() as u64 * charge::KEPT_PACKET;
        f("undecryptable packets", kept.bytes() as u64 + packets);
        let gaps = connection.data.streams().unordered_gaps() as u64;
        f("gaps of unordered streams", gaps * charge::UNORDERED_GAP);
        connection
            .data
            .for_each_charge(charge::HALF_OF_A_STREAM, &mut f);
    }
}

impl CollectionSize {
    /// The same of an endpoint, beside its connections: clients that are none yet, those that are none any more, and what finds the
    /// others.
    pub fn for_each_endpoint_charge(endpoint: &Endpoint, mut f: impl FnMut(&'static str, u64)) {
        endpoint.for_each_charge(&mut f);
    }
}

fn tell_space(space: &PacketSpace, tell: &mut impl FnMut(&'static str, usize, usize)) {
    tell(
        "ranges of received packets",
        space.received.ranges(),
        limits::MAX_ACK_RANGES,
    );
}
