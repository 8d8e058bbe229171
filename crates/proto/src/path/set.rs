//! All paths of a connection: slots of open ones, abandoned ones on their way out, the memory of which path IDs were ever
//! used, and what the paths share: connection IDs, limits, the congestion controller.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionId, MAX_PATHS, PathIndex, Side};
use mpquic_wire::transport_parameters::{PreferredAddress, TransportParameters};
use rand::rngs::StdRng;
use smallvec::SmallVec;

use super::overall::Traffic;
use super::{AckFrequency, Path, PathLimits, PendingAbandons, SettledPackets, StatusState};
use crate::cid::{CidGenerator, LocalCids, RemoteCids, ResetKey};
use crate::congestion::{Controller, ControllerContext};
use crate::number_set::NumberSet;
use crate::space::{PacketSpace, ReceivedPacket};
use crate::{
    EndpointConfig, FourTuple, PathError, PathErrorCode, PathId, PathStats, TransportConfig, limits,
};

/// What a path ID in a frame or packet means. Every handler answers all three; an ID above the limit that we
/// announced never gets here.
pub(crate) enum PathState<'a> {
    /// Allowed, and no path yet.
    NeverOpened(PathId),
    /// Open.
    Open(&'a mut Path),
    /// Abandoned; its remains, if they are still kept.
    Abandoned(Option<&'a mut RetiredPath>),
}

/// What is kept of an abandoned path for three PTOs (RFC 10069, Path Close): enough to acknowledge stragglers and not to
/// answer them with stateless resets. Nothing is sent on it.
pub(crate) struct RetiredPath {
    pub(crate) id: PathId,
    /// Still takes packets, and owes acknowledgements for them, which travel on other paths.
    pub(crate) space: PacketSpace,
    /// When the rest is forgotten: three PTOs after the peer has abandoned the path too. Until it
    /// has, it may send on the path, and a stateless reset in answer would end its connection.
    discard_at: Option<Instant>,
    /// Its addresses and figures when it was abandoned, if it was ever open.
    pub(crate) last: Option<(FourTuple, PathStats)>,
}

impl RetiredPath {
    /// The remains of a path that is abandoned now. `discard_at` is set if the peer abandoned it.
    pub(crate) fn new(
        id: PathId,
        space: PacketSpace,
        discard_at: Option<Instant>,
        last: Option<(FourTuple, PathStats)>,
    ) -> Self {
        Self {
            id,
            space,
            discard_at,
            last,
        }
    }

    /// The peer has abandoned the path too: its remains are kept until then (RFC 10069, Path Close: for three PTOs after
    /// the frame was received).
    pub(crate) fn on_peer_abandoned(&mut self, until: Instant) {
        //= specs/rfc10069-draft.md#path-close
        //# Therefore, knowledge of the connection IDs issued to the peer and of the state of the
        //# number space associated to the path SHOULD be retained for 3 PTO after the PATH_ABANDON
        //# frame has been received.
        self.discard_at.get_or_insert(until);
    }

    /// When the remains are forgotten.
    pub(crate) fn discard_at(&self) -> Option<Instant> {
        self.discard_at
    }

    /// Acknowledgements that are due by now go as soon as possible.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.space.acks.timer().is_some_and(|at| at <= now) {
            self.space.acks.force();
        }
    }
}

/// The paths.
pub(crate) struct Paths {
    /// As many as were ever needed at a time.
    pub(super) slots: Vec<Option<Path>>,
    /// One past the highest slot in use: nobody walks over the empty ones beyond.
    pub(super) used: usize,
    /// The slot of the path that a packet came on last: only where to look first.
    recent: usize,
    retired: Vec<RetiredPath>,
    abandons: PendingAbandons,
    /// What the peer wants of path IDs that are not in use yet (RFC 10069, PATH_STATUS frames: all path IDs below the
    /// limit can be spoken of). At most as many as there are slots.
    early_status: Vec<(PathId, StatusState)>,
    abandoned: NumberSet,
    abandoned_count: u32,
    /// Of these, those of which nothing is kept any more.
    discarded_count: u32,
    largest_used: PathId,
    open: usize,
    /// There if both sides speak RFC 10069.
    pub(super) limits: Option<PathLimits>,
    pub(super) local_cids: LocalCids,
    pub(super) remote_cids: RemoteCids,
    pub(super) controller: Box<dyn Controller>,
    pub(super) ack_frequency: AckFrequency,
    /// Bytes of suspect paths that were offered to others while it was not certain whose the silence was.
    pub(super) offered_unconfirmed: u64,
    pub(super) side: Side,
    pub(super) config: Arc<TransportConfig>,
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) cid_generator: CidGenerator,
    pub(super) reset_key: Arc<ResetKey>,
    pub(super) peer: PeerFacts,
    /// The addresses of the handshake.
    pub(super) handshake_tuple: FourTuple,
    /// Servers: the client may move (RFC 9000 section 9). Clients: the server's preferred address is followed (section
    /// 9.6).
    pub(super) follows_peer: bool,
    /// The peer refused a path that was opened before the handshake was confirmed.
    pub(super) early_refused: bool,
    /// The handshake is complete.
    pub(super) complete: bool,
    /// It is confirmed, too.
    pub(super) confirmed: bool,
    /// Data of ours may go on some path before that is validated.
    pub(super) ahead: bool,
    /// Of all paths that there were.
    pub(super) traffic: Traffic,
    /// On servers: where the client received in the connection before, by its token.
    pub(super) known_addresses: SmallVec<[IpAddr; 2]>,
    /// What the last acknowledgement or timeout settled. Kept for its allocations.
    pub(super) settled: SettledPackets,
}

/// What the paths of a connection begin with.
pub(crate) struct PathsSetup {
    pub(crate) side: Side,
    /// The addresses of the handshake.
    pub(crate) tuple: FourTuple,
    /// Our connection ID for the first path.
    pub(crate) local: ConnectionId,
    /// The peer's.
    pub(crate) remote: ConnectionId,
    pub(crate) cid_generator: CidGenerator,
    pub(crate) reset_key: Arc<ResetKey>,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) endpoint: Arc<EndpointConfig>,
}

/// What the peer's transport parameters say of paths. Before they are known, the defaults.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerFacts {
    pub(super) cid_limit: u64,
    pub(super) max_udp_payload: u16,
    pub(super) ack_delay_exponent: u8,
    pub(super) forbids_migration: bool,
    pub(super) preferred_address: Option<PreferredAddress>,
    pub(super) initial_max_path_id: u32,
}

impl From<&TransportParameters> for PeerFacts {
    fn from(peer: &TransportParameters) -> Self {
        Self {
            cid_limit: peer.active_connection_id_limit,
            max_udp_payload: peer.max_udp_payload(),
            ack_delay_exponent: peer.ack_delay_exponent,
            forbids_migration: peer.disable_active_migration,
            preferred_address: peer.preferred_address,
            initial_max_path_id: peer.initial_max_path_id.unwrap_or(0),
        }
    }
}

impl Paths {
    /// No path yet.
    pub(crate) fn new(setup: PathsSetup, rng: &mut StdRng) -> Self {
        let config = setup.config;
        let mut context = ControllerContext::new(config.initial_window, config.slow_start, rng);
        let ack_frequency = AckFrequency::new(
            config.max_ack_delay,
            config.ack_frequency_config,
            setup.endpoint.alarm_delay,
        );
        Self {
            slots: Vec::new(),
            used: 0,
            recent: 0,
            retired: Vec::new(),
            abandons: PendingAbandons::default(),
            early_status: Vec::new(),
            abandoned: NumberSet::default(),
            abandoned_count: 0,
            discarded_count: 0,
            largest_used: PathId::ZERO,
            open: 0,
            limits: None,
            local_cids: LocalCids::new(setup.local),
            remote_cids: RemoteCids::new(setup.remote),
            controller: config.congestion.build(&mut context),
            ack_frequency,
            offered_unconfirmed: 0,
            side: setup.side,
            config,
            endpoint: setup.endpoint,
            cid_generator: setup.cid_generator,
            reset_key: setup.reset_key,
            peer: PeerFacts::from(&TransportParameters::default()),
            handshake_tuple: setup.tuple,
            follows_peer: true,
            early_refused: false,
            complete: false,
            confirmed: false,
            ahead: false,
            traffic: Traffic::default(),
            known_addresses: SmallVec::new(),
            settled: SettledPackets::default(),
        }
    }

    /// Whether multipath was negotiated.
    pub(crate) fn is_multipath(&self) -> bool {
        self.limits.is_some()
    }

    /// Multipath is negotiated if both sides have sent initial_max_path_id. No effect if it was before.
    //= specs/rfc9000.txt#section-19.21
    //# An extension to QUIC that wishes to use a new type of frame MUST first ensure that a
    //# peer is able to understand the frame.
    //= specs/rfc10069-draft.md#connection-lifecycle-and-packet-protection
    //# If either of the endpoints does not advertise the initial_max_path_id transport
    //# parameter, then both endpoints MUST NOT use any frame or mechanism defined in this
    //# document.
    pub(crate) fn start_multipath(&mut self, remote_max: Option<u32>) {
        if self.config.max_paths > 1
            && let Some(remote_max) = remote_max
        {
            let limits = || PathLimits::new(self.config.max_paths - 1, remote_max);
            self.limits.get_or_insert_with(limits);
        }
    }

    /// The path ID that goes into the nonce of 1-RTT packets: none without the extension.
    pub(crate) fn nonce_path(&self, id: PathId) -> Option<PathId> {
        self.is_multipath().then_some(id)
    }

    #[cfg(test)]
    pub(crate) fn limits(&self) -> Option<&PathLimits> {
        self.limits.as_ref()
    }

    /// Our connection IDs.
    pub(crate) fn local_cids(&self) -> &LocalCids {
        &self.local_cids
    }

    /// The peer's connection IDs.
    pub(crate) fn remote_cids(&self) -> &RemoteCids {
        &self.remote_cids
    }

    pub(crate) fn ack_frequency(&self) -> &AckFrequency {
        &self.ack_frequency
    }

    pub(crate) fn ack_frequency_mut(&mut self) -> &mut AckFrequency {
        &mut self.ack_frequency
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// An open path, and the controller that has its window.
    pub(crate) fn with_controller(
        &mut self,
        index: PathIndex,
    ) -> Option<(&mut Path, &mut dyn Controller)> {
        let path = self.slots.get_mut(index.get())?.as_mut()?;
        Some((path, &mut *self.controller))
    }

    /// The path of an ID.
    ///
    /// # Errors
    ///
    /// If it is not open.
    pub(crate) fn open_one(&self, id: PathId) -> Result<&Path, PathError> {
        self.get(id).ok_or(PathError::NotOpen(id))
    }

    /// The lowest free slot.
    pub(super) fn free_slot(&self) -> Option<PathIndex> {
        let free = self.slots.iter().position(Option::is_none);
        // None beyond the last.
        PathIndex::new(free.unwrap_or(self.slots.len()))
    }

    /// Puts an open path into its slot, which must be free.
    pub(super) fn insert(&mut self, mut path: Path) -> &mut Path {
        let early = self.early_status.iter().position(|(id, _)| *id == path.id);
        if let Some(at) = early {
            path.status = self.early_status.swap_remove(at).1;
        }
        self.largest_used = self.largest_used.max(path.id);
        self.open += 1;
        self.used = self.used.max(path.index.get() + 1);
        if self.slots.len() < self.used {
            // As many as are in use: paths are large, and most connections have one or two.
            self.slots.reserve_exact(self.used - self.slots.len());
            self.slots.resize_with(self.used, || None);
        }
        let slot = &mut self.slots[path.index.get()];
        debug_assert!(slot.is_none());
        slot.insert(path)
    }

    /// The status of a path ID that is not in use yet, for frames that speak of it early; `None` if
    /// too many are spoken of.
    pub(super) fn early_status(&mut self, id: PathId) -> Option<&mut StatusState> {
        let at = match self.early_status.iter().position(|(other, _)| *other == id) {
            Some(at) => at,
            None if self.early_status.len() < MAX_PATHS => {
                self.early_status.push((id, StatusState::default()));
                self.early_status.len() - 1
            }
            None => return None,
        };
        Some(&mut self.early_status[at].1)
    }

    /// Number of open paths.
    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// One past the highest slot in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn largest_used(&self) -> PathId {
        self.largest_used
    }

    /// How many path IDs were abandoned over the connection's life.
    #[cfg(test)]
    pub(crate) fn abandoned_count(&self) -> u32 {
        self.abandoned_count
    }

    /// The largest path ID to allow the peer, if so many paths may be open: each abandoned ID makes room for a new one.
    /// Beyond `max_paths` of them, it does so only once nothing is kept of the old one, three PTOs later: a peer that
    /// opens and abandons paths as fast as it can gets no further than that.
    pub(super) fn limit(&self, max_paths: u32) -> u32 {
        let replaced = self.discarded_count.saturating_add(max_paths);
        (max_paths - 1).saturating_add(self.abandoned_count.min(replaced))
    }

    pub(crate) fn is_abandoned(&self, id: PathId) -> bool {
        self.abandoned.contains(id.0.into())
    }

    fn mark_abandoned(&mut self, id: PathId) {
        if self.abandoned.insert(id.0.into()) {
            self.abandoned_count += 1;
            self.early_status.retain(|(other, _)| *other != id);
        }
    }

    /// What the path ID of a packet means.
    #[inline]
    pub(crate) fn state(&mut self, id: PathId) -> PathState<'_> {
        // Mostly it is open: no ID is that and abandoned.
        match self.find(id) {
            true => match &mut self.slots[self.recent] {
                Some(path) => PathState::Open(path),
                None => PathState::NeverOpened(id),
            },
            false => self.state_of_closed(id),
        }
    }

    /// A 0-RTT or 1-RTT packet was processed. Whether anything is kept of its path.
    #[inline]
    pub(crate) fn on_packet_received(&mut self, id: PathId, packet: &ReceivedPacket) -> bool {
        match self.state(id) {
            PathState::Open(path) => path.on_packet_received(packet),
            PathState::Abandoned(Some(retired)) => {
                retired.space.on_received(packet);
            }
            PathState::Abandoned(None) | PathState::NeverOpened(_) => return false,
        }
        true
    }

    /// The open path of a packet.
    #[inline]
    pub(crate) fn receiving(&mut self, id: PathId) -> Option<&mut Path> {
        match self.find(id) {
            true => self.slots[self.recent].as_mut(),
            false => None,
        }
    }

    /// Whether there is an open path of this ID: it is in `recent` then. Packets come in runs on the same path, and each asks
    /// several times.
    #[inline]
    fn find(&mut self, id: PathId) -> bool {
        match self.slots.get(self.recent) {
            Some(Some(path)) if path.id == id => true,
            _ => self.find_elsewhere(id),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&mut self, id: PathId) -> bool {
        let slot = self.slot_of(id);
        self.recent = slot.unwrap_or(self.recent);
        slot.is_some()
    }

    #[cold]
    #[inline(never)]
    fn state_of_closed(&mut self, id: PathId) -> PathState<'_> {
        if self.is_abandoned(id) {
            let retired = self.retired.iter_mut().find(|path| path.id == id);
            PathState::Abandoned(retired)
        } else {
            PathState::NeverOpened(id)
        }
    }

    /// The slot of an open path. Not inlined: it is asked for all over.
    #[inline(never)]
    fn slot_of(&self, id: PathId) -> Option<usize> {
        let mut slots = self.slots[..self.used].iter();
        slots.position(|slot| slot.as_ref().is_some_and(|path| path.id == id))
    }

    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.slots.get(self.slot_of(id)?)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        let slot = self.slot_of(id)?;
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn at(&self, index: PathIndex) -> Option<&Path> {
        self.slots.get(index.get())?.as_ref()
    }

    /// The path in a slot, by number.
    pub(crate) fn in_slot(&self, slot: usize) -> Option<&Path> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: PathIndex) -> Option<&mut Path> {
        self.slots.get_mut(index.get())?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.slots[..self.used].iter().filter_map(Option::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.slots[..self.used]
            .iter_mut()
            .filter_map(Option::as_mut)
    }

    /// Takes an open path out of its slot; its ID counts as abandoned from here on.
    pub(super) fn take(&mut self, id: PathId) -> Option<Path> {
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|path| path.id == id))?;
        let path = slot.take();
        self.open -= 1;
        let last = self.slots.iter().rposition(Option::is_some);
        self.used = last.map_or(0, |last| last + 1);
        self.mark_abandoned(id);
        path
    }

    /// PendingAbandons a path ID on which no path was opened.
    pub(super) fn abandon_unused(&mut self, id: PathId) {
        self.largest_used = self.largest_used.max(id);
        self.mark_abandoned(id);
    }

    /// Keeps the remains of an abandoned path, and tells the peer with this code. Over the cap, the oldest that the peer has abandoned
    /// too goes, or else the oldest: it is returned.
    pub(super) fn retire(
        &mut self,
        path: RetiredPath,
        error_code: PathErrorCode,
    ) -> Option<RetiredPath> {
        self.abandons.push(path.id, error_code);
        self.retired.push(path);
        let over = self.retired.len() > limits::MAX_ABANDONED_PATHS;
        let answered = |path: &RetiredPath| path.discard_at.is_some();
        over.then(|| {
            let oldest = self.retired.iter().position(answered);
            self.discarded_count += 1;
            self.retired.remove(oldest.unwrap_or(0))
        })
    }

    pub(crate) fn retired(&self) -> &[RetiredPath] {
        &self.retired
    }

    pub(crate) fn retired_mut(&mut self) -> &mut [RetiredPath] {
        &mut self.retired
    }

    /// The PATH_ABANDON frames that the peer does not have for certain.
    pub(crate) fn abandons(&self) -> &PendingAbandons {
        &self.abandons
    }

    pub(super) fn abandons_mut(&mut self) -> &mut PendingAbandons {
        &mut self.abandons
    }

    /// Takes out the remains of a path whose time has come.
    pub(crate) fn discard_due(&mut self, now: Instant) -> Option<PathId> {
        let due = |path: &RetiredPath| path.discard_at.is_some_and(|at| at <= now);
        let at = self.retired.iter().position(due)?;
        self.discarded_count += 1;
        Some(self.retired.remove(at).id)
    }

    /// The path with the oldest packet in flight of those that the scheduler asked for.
    #[inline(never)]
    pub(crate) fn oldest_scheduled_in_flight(&self) -> Option<PathIndex> {
        let oldest = |path: &Path| {
            let mut sent = path.space().sent.iter();
            let (_, packet) = sent.find(|(_, packet)| packet.decision.is_some())?;
            Some((packet.time_sent, path.index))
        };
        let (_, index) = self.iter().filter_map(oldest).min()?;
        Some(index)
    }

    /// The longest round trip of all paths that a receive window must cover.
    #[inline(never)]
    pub(crate) fn covered_rtt(&self) -> Duration {
        let covered = self.iter().map(|path| path.rtt().covered()).max();
        covered.unwrap_or(self.config.initial_rtt)
    }

    /// The path IDs up to `max` that are not abandoned, ascending, open or not. The limit that we announce rises by one for
    /// each ID that is abandoned, so that there are never more of them than paths are allowed: what this costs does not
    /// grow with the IDs that a peer has used up.
    pub(crate) fn not_abandoned(&self, max: PathId) -> impl Iterator<Item = PathId> + '_ {
        self.abandoned
            .missing(max.0.into())
            .filter_map(|id| u32::try_from(id).ok().map(PathId))
    }

    /// The ranges in which abandoned IDs are remembered.
    #[cfg(test)]
    pub(crate) fn abandoned_ranges(&self) -> usize {
        self.abandoned.ranges()
    }

    /// The lowest path ID up to `max` that was never used.
    //= specs/rfc10069-draft.md#issuing-new-connection-ids
    //# Similarly, endpoints SHOULD consume path IDs in a continuous way, i.e., when creating paths.
    //= specs/rfc10069-draft.md#path-close
    //# After a path is abandoned, the path ID MUST NOT be reused for new paths, as the path ID is
    //# part of the nonce calculation {{nonce}}.
    pub(crate) fn next_unused(&self, max: PathId) -> Option<PathId> {
        self.not_abandoned(max).find(|id| self.get(*id).is_none())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    proptest! {
        #[test]
        fn abandoned_ids_are_remembered(ids in proptest::collection::vec(0u32..64, 0..80)) {
            let mut paths = paths();
            let mut model = std::collections::BTreeSet::new();
            for id in ids {
                paths.abandon_unused(PathId(id));
                model.insert(id);
            }
            for id in 0..70 {
                prop_assert_eq!(paths.is_abandoned(PathId(id)), model.contains(&id));
            }
            prop_assert_eq!(paths.abandoned_count() as usize, model.len());
        }
    }

    /// No path yet.
    pub(in crate::path) fn paths() -> Paths {
        with_config(Side::Client, TransportConfig::default())
    }

    pub(in crate::path) fn with_config(side: Side, config: TransportConfig) -> Paths {
        let endpoint = EndpointConfig::new([0; 32]);
        let cid = ConnectionId::new(&[7; 8]);
        let setup = PathsSetup {
            side,
            tuple: tuple(),
            local: cid,
            remote: cid,
            cid_generator: endpoint.cids.clone(),
            reset_key: Arc::new(ResetKey::new(&[0; 32])),
            config: Arc::new(config),
            endpoint: Arc::new(endpoint),
        };
        Paths::new(setup, &mut StdRng::seed_from_u64(1))
    }

    /// The same for a connection that negotiated multipath.
    pub(in crate::path) fn multipath(side: Side) -> Paths {
        let mut config = TransportConfig::default();
        config.max_paths(4);
        let mut paths = with_config(side, config);
        paths.on_handshake_complete(Some(100));
        paths
    }

    impl Paths {
        /// The peer issues a connection ID for a path.
        pub(in crate::path) fn know_cid(&mut self, id: u32) {
            let cid = ConnectionId::new(&[id as u8; 8]);
            let cids = &mut self.remote_cids;
            assert!(cids.on_new(PathId(id), 0, 0, cid, [id as u8; 16]).is_ok());
        }

        /// The peer issues a connection ID with this sequence number for other addresses of a path.
        pub(in crate::path) fn know_other_cid(&mut self, id: u32, sequence: u8) {
            let cid = ConnectionId::new(&[100 + sequence; 8]);
            let token = [100 + sequence; 16];
            let cids = &mut self.remote_cids;
            let known = cids.on_new(PathId(id), sequence.into(), 0, cid, token);
            assert!(known.is_ok());
        }
    }

    pub(in crate::path) fn tuple() -> FourTuple {
        FourTuple {
            local: "192.0.2.1:1".parse().unwrap(),
            remote: "192.0.2.2:2".parse().unwrap(),
        }
    }

    /// So many paths, validated, with IDs from 0 on.
    pub(crate) fn open_paths(count: u32) -> Paths {
        let mut paths = paths();
        for id in 0..count {
            open(&mut paths, id);
        }
        paths
    }

    /// Opens a validated path that has a connection ID of the peer.
    pub(in crate::path) fn open(paths: &mut Paths, id: u32) -> PathIndex {
        let path = path(paths, id);
        let index = path.index;
        paths.enter(Instant::now(), path);
        if id > 0 {
            paths.know_cid(id);
            assert!(paths.remote_cids.activate(PathId(id)).is_some());
        }
        index
    }

    fn path(paths: &Paths, id: u32) -> Path {
        let now = Instant::now();
        let space = PacketSpace::new(&mut StdRng::seed_from_u64(1));
        let network = crate::path::NetworkPath::new(tuple(), true);
        let (index, config) = (paths.free_slot().unwrap(), TransportConfig::default());
        Path::new(now, PathId(id), index, network, space, &config)
    }

    /// Where a packet's path was found last is no answer for another path, nor for one that has its place now.
    #[test]
    fn a_path_is_not_taken_for_the_one_before_it() {
        let mut paths = paths();
        for id in [0, 1] {
            paths.insert(path(&paths, id));
        }
        let receiving = |paths: &mut Paths, id| paths.receiving(PathId(id)).map(|path| path.id.0);
        for id in [1, 0, 1, 1] {
            assert_eq!(receiving(&mut paths, id), Some(id));
            assert_eq!(receiving(&mut paths, 2), None);
        }
        paths.take(PathId(1));
        assert_eq!(receiving(&mut paths, 1), None);
        assert!(matches!(paths.state(PathId(1)), PathState::Abandoned(None)));
        // In the same slot.
        let slot = paths.insert(path(&paths, 2)).index.get();
        assert_eq!(slot, 1);
        assert_eq!(receiving(&mut paths, 1), None);
        assert!(matches!(paths.state(PathId(1)), PathState::Abandoned(None)));
        assert_eq!(receiving(&mut paths, 2), Some(2));
        assert!(matches!(paths.state(PathId(2)), PathState::Open(path) if path.id.0 == 2));
        assert!(matches!(paths.state(PathId(0)), PathState::Open(path) if path.id.0 == 0));
    }

    #[test]
    fn an_unused_id_and_an_abandoned_one() {
        let mut paths = paths();
        paths.abandon_unused(PathId(2));
        assert!(matches!(
            paths.state(PathId(1)),
            PathState::NeverOpened(PathId(1))
        ));
        assert!(matches!(paths.state(PathId(2)), PathState::Abandoned(None)));
        assert_eq!(paths.next_unused(PathId(3)), Some(PathId(0)));
    }
}
