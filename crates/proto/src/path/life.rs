//! The life of a path: opened by the client, accepted by the server, abandoned, discarded (RFC 10069, path initiation and
//! path close).

use std::net::IpAddr;
use std::time::Instant;

use mpquic_sched_core::{PathIndex, PathStatus, Side};
use rand::rngs::StdRng;
use smallvec::SmallVec;

use super::{Epoch, NetworkPath, Path, PathLimits, PathState, Paths, RetiredPath, memory_key};
use crate::config::{EarlyPathData, PathStart};
use crate::congestion::NewPath;
use crate::events::{DatagramMeta, EndpointEvents};
use crate::space::PacketSpace;
use crate::{FourTuple, PathError, PathErrorCode, PathId, TransportError};

/// A path ID that was abandoned. What the path had in flight is among the lost packets.
pub(crate) struct AbandonedPath {
    /// Slot and last addresses, if it was open.
    pub(crate) last: Option<(PathIndex, FourTuple)>,
    /// An older one of which nothing is kept any more, for want of room.
    pub(crate) discarded: Option<PathId>,
}

/// What PATH_ABANDON means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerAbandons {
    /// A path ID that was abandoned before.
    Nothing,
    /// The only open path.
    LastPath(PathId),
    /// One to be abandoned here, too.
    Path(PathId),
}

impl Paths {
    /// Opens path 0 on the addresses of the handshake.
    pub(crate) fn begin(&mut self, now: Instant, rng: &mut StdRng) {
        if let Some(index) = self.free_slot() {
            // RFC 9000 section 8.1: a client needs no proof of the server's address, its Initial is one.
            let validated = self.side == Side::Client;
            let network = NetworkPath::new(self.handshake_tuple, validated);
            let space = PacketSpace::new(rng);
            let config = &self.config;
            let path = Path::new(now, PathId::ZERO, index, network, space, config);
            self.enter(now, path);
        }
    }

    /// Opens a path between these addresses, and starts to validate them.
    ///
    /// # Errors
    ///
    /// See [`PathError`]. If the peer's path limit is reached or it has issued no connection IDs, it will be told.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Result<(PathId, PathIndex), PathError> {
        if self.side == Side::Server {
            return Err(PathError::ServerSide);
        }
        if !self.may_open() {
            return Err(PathError::HandshakeIncomplete);
        }
        if !self.is_multipath() {
            return Err(PathError::MultipathNotNegotiated);
        }
        let open = self.open_count();
        if open >= self.config.max_paths as usize {
            return Err(PathError::TooManyPaths(open));
        }
        //= specs/rfc10069-draft.md#relation-to-other-transport-parameters
        //# If an endpoint receives a disable_active_migration transport parameter, it is forbidden to
        //# establish new paths to the peer's handshake address.
        self.may_send_from_elsewhere(tuple.remote)?;
        //= specs/rfc10069-draft.md#path-initiation
        //# To open a new path, an endpoint MUST use a new connection ID associated with an unused
        //# path ID.
        let id = self.take_unused()?;
        let mut network = NetworkPath::opened_by_us(tuple);
        // Never more than a challenge to an address that has not shown that it is the server's.
        if tuple.remote == self.handshake_tuple.remote {
            network = match self.config.early_path_data {
                EarlyPathData::Never => network,
                EarlyPathData::Client => network.ahead_of_validation(),
                EarlyPathData::Both => network.ahead_of_validation().with_credit(),
            };
            self.ahead = true;
        }
        let index = self.add(now, id, network, rng, events);
        Ok((id, index.ok_or(PathError::TooManyPaths(open))?))
    }

    /// On servers: the client received at these addresses in the connection before.
    pub(crate) fn know_addresses(&mut self, addresses: &[IpAddr]) {
        self.known_addresses = SmallVec::from_slice(addresses);
    }

    /// The path ID to open next, if both sides speak RFC 10069.
    ///
    /// # Errors
    ///
    /// If the peer's limit is reached or it has issued no connection ID for the path: it will be told.
    fn take_unused(&mut self) -> Result<PathId, PathError> {
        let limits = self.limits.as_ref();
        let limit = limits.map_or(PathId::ZERO, PathLimits::usable_max);
        let next = self.next_unused(limit);
        let limits = self.limits.as_mut();
        let limits = limits.ok_or(PathError::MultipathNotNegotiated)?;
        let Some(id) = next else {
            limits.note_blocked();
            return Err(PathError::NoPathIdLeft { limit });
        };
        if !self.remote_cids.has_unused(id) {
            limits.note_cids_blocked(id);
            return Err(PathError::NoCidAvailable { path: id });
        }
        Ok(id)
    }

    /// A packet of so many bytes decrypted that came on a path ID which was not used before: on servers, the client opens
    /// it. `None` if there is no room for it, or this side is the client, whose peer opens no paths.
    pub(crate) fn accept(
        &mut self,
        id: PathId,
        arrival: &DatagramMeta,
        packet: usize,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Option<PathIndex> {
        if self.side == Side::Client || !self.is_multipath() {
            return None;
        }
        let mut network = NetworkPath::new(arrival.tuple, false);
        //= specs/rfc10069-draft.md#address-validation-token
        //# To avoid issues when clients make the "wrong" choice, a server SHOULD issue tokens that
        //# are capable of validating any of the previously validated addresses.
        // RFC 9000 section 8.1 lets a server send without limit to whom a token validates. Nobody has answered from there
        // yet, though: an initial window may go ahead of the validation, and no more; once for each address, or a client
        // that opens path after path would send it there again and again.
        let remote = arrival.tuple.remote.ip().to_canonical();
        let known = self.known_addresses.iter().position(|ip| *ip == remote);
        if known.is_some() {
            let mtu = self.config.initial_mtu;
            network = network.known_by_token(self.config.initial_window.bytes(mtu));
        }
        let index = self.add(arrival.now, id, network, rng, events)?;
        if let Some(known) = known {
            self.known_addresses.swap_remove(known);
        }
        if let Some(path) = self.at_mut(index) {
            path.on_first_datagram(packet, arrival.bytes);
        }
        Some(index)
    }

    /// Takes a slot for a path and starts to validate its addresses.
    fn add(
        &mut self,
        now: Instant,
        id: PathId,
        network: NetworkPath,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> Option<PathIndex> {
        let interval = self.challenge_interval();
        let index = self.free_slot()?;
        let space = PacketSpace::new(rng);
        let mut path = Path::new(now, id, index, network, space, &self.config);
        //= specs/rfc10069-draft.md#path-initiation
        //# A client that wants to use a new path MUST validate the peer's address as described in
        //# {{Section 8.2 of QUIC-TRANSPORT}}, unless it has previously validated the 4-tuple used
        //# for that path.
        path.start_challenge(now, interval);
        self.enter(now, path);
        self.limit_mtu(index);
        self.activate_cid(id, events);
        self.issue_cids(rng, events);
        Some(index)
    }

    /// Puts a path into its slot, which is free. What earlier connections know of it is looked up.
    pub(super) fn enter(&mut self, now: Instant, path: Path) {
        let (index, epoch) = (path.index, Epoch::new(&self.endpoint));
        let key = memory_key(self.side, path.tuple());
        let config = std::sync::Arc::clone(&self.config);
        let path = self.insert(path);
        path.remember(now, key, epoch, &config);
        let initial = path.initial_window(&config);
        let new = NewPath::new(index, now, config.initial_mtu)
            .with_initial_window(initial)
            .with_saved(path.saved());
        self.controller.add_path(&new);
    }

    /// The peer takes no larger UDP payload than its transport parameters say.
    pub(super) fn limit_mtu(&mut self, index: PathIndex) {
        let payload = self.peer.max_udp_payload;
        if let Some((path, controller)) = self.with_controller(index) {
            path.limit_mtu(payload, controller);
        }
    }

    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP came, perhaps for a path that is not in use yet. Returns the path and
    /// what the scheduler goes by, if it is open and the frame is news.
    pub(crate) fn on_status(
        &mut self,
        id: u64,
        status: PathStatus,
        seq: u64,
    ) -> Result<Option<(PathId, PathIndex, PathStatus)>, TransportError> {
        match self.of_frame(Some(id))? {
            PathState::Abandoned(_) => Ok(None),
            PathState::NeverOpened(id) => {
                if let Some(early) = self.early_status(id) {
                    early.on_remote(status, seq);
                }
                Ok(None)
            }
            PathState::Open(path) => {
                let news = path.status_mut().on_remote(status, seq);
                Ok(news.then(|| (path.id, path.index, path.status().effective())))
            }
        }
    }

    /// PATH_ABANDON came.
    pub(crate) fn on_peer_abandons(
        &mut self,
        now: Instant,
        id: u64,
        confirmed: bool,
    ) -> Result<PeerAbandons, TransportError> {
        let until = now + 3 * self.largest_pto();
        let only = self.open_count() == 1;
        let meaning = match self.of_frame(Some(id))? {
            PathState::Abandoned(None) => PeerAbandons::Nothing,
            PathState::Abandoned(Some(retired)) => {
                retired.on_peer_abandoned(until);
                PeerAbandons::Nothing
            }
            PathState::NeverOpened(id) => PeerAbandons::Path(id),
            PathState::Open(path) if only => PeerAbandons::LastPath(path.id),
            PathState::Open(path) => PeerAbandons::Path(path.id),
        };
        if matches!(meaning, PeerAbandons::Path(_)) {
            // Not every peer may like paths that begin so soon.
            self.early_refused |= !confirmed;
        }
        Ok(meaning)
    }

    /// The handshake is complete. The peer sent this initial_max_path_id.
    pub(crate) fn on_handshake_complete(&mut self, remote_max: Option<u32>) {
        self.complete = true;
        self.start_multipath(remote_max);
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether this side may open paths now: it is a client, and the handshake is where
    /// [`TransportConfig::path_start`](crate::TransportConfig::path_start) has it. Once the peer has refused a path that
    /// was opened before the handshake was confirmed, no other is opened until it is.
    pub(crate) fn may_open(&self) -> bool {
        let handshake = match self.config.path_start {
            PathStart::Complete if !self.early_refused => self.complete,
            _ => self.confirmed,
        };
        handshake && self.side.is_client()
    }

    /// Ends a path ID, opened or not. What it had in flight is lost.
    pub(crate) fn abandon(
        &mut self,
        now: Instant,
        id: PathId,
        error_code: PathErrorCode,
        by_peer: bool,
        rng: &mut StdRng,
        events: &mut EndpointEvents,
    ) -> AbandonedPath {
        let pto = self.largest_pto();
        //= specs/rfc10069-draft.md#path-close
        //# Endpoints that send a PATH_ABANDON frame MUST treat all connection IDs received from the
        //# peer for the path ID indicated in the PATH_ABANDON as immediately retired, and
        //# subsequently cannot send any packet on that path anymore.
        if let Some(token) = self.remote_cids.abandon(id) {
            self.forget_reset_token(id, token, events);
        }
        self.local_cids.stop_issuing(id);
        let (index, space, last) = match self.take(id) {
            Some(mut path) => {
                let last = (path.tuple(), path.stats(self.controller()));
                //= specs/rfc10069-draft.md#ack-after-abandon
                //# When an endpoint finally deletes all state associated with the path, the packets
                //# sent over the path and not yet acknowledged MUST be considered lost.
                path.drain_in_flight(&mut self.settled.lost);
                self.controller.remove_path(path.index);
                for other in self.iter_mut() {
                    other.forget_path(path.index);
                }
                (Some(path.index), path.into_space(), Some(last))
            }
            None => {
                self.abandon_unused(id);
                (None, PacketSpace::new(rng), None)
            }
        };
        //= specs/rfc10069-draft.md#path-close
        //# Therefore, knowledge of the connection IDs issued to the peer and of the state of the
        //# number space associated to the path SHOULD be retained for 3 PTO after the PATH_ABANDON
        //# frame has been received.
        let discard_at = by_peer.then(|| now + 3 * pto);
        //= specs/rfc10069-draft.md#path-close
        //# An endpoint that wants to abandon a path MUST explicitly close the path by sending a
        //# PATH_ABANDON frame (see {{path-abandon-frame}}).
        //= specs/rfc10069-draft.md#path-close
        //# When an endpoint receives a PATH_ABANDON frame, it MUST send a corresponding
        //# PATH_ABANDON frame, if it has not already done so, and respectively treat all connection
        //# IDs received from the peer for that path as immediately retired.
        let retired = RetiredPath::new(id, space, discard_at, last);
        let discarded = self.retire(retired, error_code).map(|path| path.id);
        match discarded {
            Some(discarded) => self.discard(discarded, rng, events),
            None => self.raise_limit(rng, events),
        }
        AbandonedPath {
            last: index.zip(last).map(|(index, (tuple, _))| (index, tuple)),
            discarded,
        }
    }

    /// Forgets the connection IDs of an abandoned path of which nothing else is kept any more.
    pub(crate) fn discard(&mut self, id: PathId, rng: &mut StdRng, events: &mut EndpointEvents) {
        self.drop_cids(id, events);
        self.raise_limit(rng, events);
    }

    /// Allows the peer as many new path IDs as the abandoned ones make room for.
    fn raise_limit(&mut self, rng: &mut StdRng, events: &mut EndpointEvents) {
        let max = self.limit(self.config.max_paths);
        if let Some(limits) = &mut self.limits {
            limits.raise_local(max);
        }
        self.issue_cids(rng, events);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::super::set::tests::{multipath, open as open_path, tuple, with_config};
    use super::*;
    use crate::events::EndpointEvent;
    use crate::limits;

    fn from(port: u16) -> FourTuple {
        let mut tuple = tuple();
        tuple.local.set_port(port);
        tuple
    }

    #[test]
    fn a_path_is_opened_once_the_peer_has_issued_a_connection_id_for_it() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut events = EndpointEvents::new();
        let mut paths = multipath(Side::Client);
        open_path(&mut paths, 0);
        let missing = Err(PathError::NoCidAvailable { path: PathId(1) });
        let mut open = |paths: &mut Paths, port| paths.open(now, from(port), &mut rng, &mut events);
        assert_eq!(open(&mut paths, 2), missing);
        paths.know_cid(1);
        let (id, index) = open(&mut paths, 2).unwrap();
        assert_eq!((id, index.get(), paths.open_count()), (PathId(1), 1, 2));
        let path = paths.at(index).unwrap();
        assert!(!path.is_validated() && path.probe_due(now, || true).is_some());
        assert_eq!(
            paths
                .remote_cid(id, super::super::Addresses::Current)
                .unwrap()[0],
            1
        );
        // The endpoint knows by which token the peer resets the path, and which connection IDs lead here.
        let token = EndpointEvent::AddResetToken(tuple().remote, [1; 16]);
        assert!(events.contains(&token));
        let cids = |event: &&EndpointEvent| matches!(event, EndpointEvent::AddCid(_));
        assert!(events.iter().filter(cids).count() > 2);
    }

    #[test]
    fn a_client_opens_paths_from_the_moment_that_is_configured() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut events = EndpointEvents::new();
        for start in [PathStart::Complete, PathStart::Confirmed] {
            let mut config = crate::TransportConfig::default();
            config.max_paths(4).path_start(start);
            let mut paths = with_config(Side::Client, config);
            open_path(&mut paths, 0);
            paths.know_cid(1);
            let early = Err(PathError::HandshakeIncomplete);
            let mut open = |paths: &mut Paths| {
                let opened = paths.open(now, from(2), &mut rng, &mut events);
                opened.map(|(id, _)| id)
            };
            assert_eq!(open(&mut paths), early);
            paths.on_handshake_complete(Some(100));
            if start == PathStart::Complete {
                // The peer refuses one that came before the confirmation.
                assert_eq!(open(&mut paths), Ok(PathId(1)));
                assert!(paths.on_peer_abandons(now, 1, false).is_ok());
            }
            assert_eq!(open(&mut paths), early);
            assert_eq!(paths.take_available(), None);
            paths.on_handshake_confirmed(now);
            assert!(paths.may_open());
        }
        let mut paths = multipath(Side::Server);
        paths.on_handshake_confirmed(now);
        let opened = paths.open(now, from(2), &mut rng, &mut events);
        assert_eq!(opened, Err(PathError::ServerSide));
    }

    #[test]
    fn a_server_accepts_what_a_client_opens_and_not_the_other_way_round() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut events = EndpointEvents::new();
        for (side, accepts) in [(Side::Server, true), (Side::Client, false)] {
            let mut paths = multipath(side);
            open_path(&mut paths, 0);
            let mut arrival = DatagramMeta::new(now, from(2), None);
            arrival.bytes = 1200;
            let index = paths.accept(PathId(1), &arrival, 50, &mut rng, &mut events);
            assert_eq!(index.is_some(), accepts);
            let Some(path) = index.and_then(|index| paths.at(index)) else {
                continue;
            };
            // RFC 9000 section 8.1: three times the packet, as the rest of the datagram is counted with its packets.
            assert_eq!((path.tuple(), path.send_limit()), (from(2), 150));
        }
    }

    #[test]
    fn a_known_address_gets_an_initial_window_ahead_of_its_validation_once() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut events = EndpointEvents::new();
        let mut paths = multipath(Side::Server);
        open_path(&mut paths, 0);
        paths.know_addresses(&[tuple().remote.ip()]);
        let arrival = DatagramMeta::new(now, from(2), None);
        let limits = [1, 2].map(|id| {
            let index = paths.accept(PathId(id), &arrival, 0, &mut rng, &mut events);
            paths.at(index.unwrap()).unwrap().send_limit()
        });
        assert!(limits[0] >= 10 * 1200 && limits[1] == 0, "{limits:?}");
    }

    #[test]
    fn an_abandoned_path_is_remembered_until_there_is_no_room_for_it() {
        let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(1));
        let mut events = EndpointEvents::new();
        let mut paths = multipath(Side::Server);
        open_path(&mut paths, 0);
        let index = open_path(&mut paths, 1);
        let code = PathErrorCode::NO_ERROR;
        let abandoned = paths.abandon(now, PathId(1), code, true, &mut rng, &mut events);
        assert_eq!(abandoned.last, Some((index, tuple())));
        assert_eq!((abandoned.discarded, paths.open_count()), (None, 1));
        assert!(events.contains(&EndpointEvent::RemoveResetToken(tuple().remote, [1; 16])));
        assert!(matches!(
            paths.state(PathId(1)),
            PathState::Abandoned(Some(_))
        ));
        let meaning = paths.on_peer_abandons(now, 1, true);
        assert_eq!(meaning, Ok(PeerAbandons::Nothing));
        for id in 2..=limits::MAX_ABANDONED_PATHS as u32 {
            let abandoned = paths.abandon(now, PathId(id), code, true, &mut rng, &mut events);
            assert!(abandoned.last.is_none() && abandoned.discarded.is_none());
        }
        let last = PathId(limits::MAX_ABANDONED_PATHS as u32 + 1);
        let abandoned = paths.abandon(now, last, code, true, &mut rng, &mut events);
        assert_eq!(abandoned.discarded, Some(PathId(1)));
        assert!(matches!(paths.state(PathId(1)), PathState::Abandoned(None)));
    }

    #[test]
    fn a_peer_that_abandons_the_last_path_ends_the_connection() {
        let now = Instant::now();
        let mut paths = multipath(Side::Client);
        open_path(&mut paths, 0);
        let last = paths.on_peer_abandons(now, 0, true);
        assert_eq!(last, Ok(PeerAbandons::LastPath(PathId::ZERO)));
        open_path(&mut paths, 1);
        for (confirmed, refused) in [(true, false), (false, true)] {
            let path = paths.on_peer_abandons(now, 1, confirmed);
            assert_eq!(path, Ok(PeerAbandons::Path(PathId(1))));
            assert_eq!(paths.early_refused, refused);
        }
        let unused = paths.on_peer_abandons(now, 2, true);
        assert_eq!(unused, Ok(PeerAbandons::Path(PathId(2))));
        assert!(paths.on_peer_abandons(now, 1 << 20, true).is_err());
    }

    #[test]
    fn the_status_of_a_path_is_known_before_it_opens() {
        let mut paths = multipath(Side::Client);
        let index = open_path(&mut paths, 0);
        let backup = PathStatus::Backup;
        assert_eq!(paths.on_status(1, backup, 0), Ok(None));
        let other = open_path(&mut paths, 1);
        let status = paths.at(other).map(|path| path.status().effective());
        assert_eq!(status, Some(backup));
        let news = Some((PathId::ZERO, index, backup));
        assert_eq!(paths.on_status(0, backup, 7), Ok(news));
        assert_eq!(paths.on_status(0, PathStatus::Available, 7), Ok(None));
    }
}
