//! One end of a connection that keeps no rule: TLS by rustls, packets with any frames under any number, connection ID
//! and key phase. It answers nothing by itself but TLS; what to send is the attack's business.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{
    self, DirectionalKeys, HeaderProtectionKey, KeyChange, Keys, PacketKeySet, Secrets,
};

use crate::packet::{self, Header, Long, VERSION_1};
use crate::params::{Params, id};
use crate::wire::{Frame, payload};

/// Bytes of the connection IDs of a [`Peer`]: who it is, the path ID and a sequence number.
pub const CID_LEN: usize = 12;

/// A packet number space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Of Initial packets.
    Initial,
    /// Of Handshake packets.
    Handshake,
    /// Of the 1-RTT packets of a path ID.
    Data(u32),
}

/// A packet of the other side, decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Where its number counts.
    pub space: Space,
    /// Its number.
    pub number: u64,
    /// The connection ID that it was sent to.
    pub dcid: Vec<u8>,
    /// Its frames.
    pub frames: Vec<Frame>,
    /// Its size, header and tag included.
    pub size: usize,
}

/// A packet to be sealed. What is `None` is as a friendly peer would have it.
#[derive(Debug, Clone, Default)]
pub struct Sealing {
    /// The packet number.
    pub number: Option<u64>,
    /// The destination connection ID.
    pub dcid: Option<Vec<u8>>,
    /// Bits of the first byte that are set before header protection.
    pub first_bits: u8,
    /// How many key updates before or after the current keys; negative for old ones.
    pub generation: i32,
    /// The version of a long header.
    pub version: Option<u32>,
    /// The source connection ID of a long header.
    pub scid: Option<Vec<u8>>,
}

/// A connection ID of the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TheirCid {
    /// Its sequence number.
    pub seq: u64,
    /// The ID.
    pub cid: Vec<u8>,
    /// Its stateless reset token; zero for that of the handshake.
    pub token: [u8; 16],
}

#[derive(Default)]
struct Level {
    out: Vec<u8>,
    sent: usize,
    parts: BTreeMap<u64, Vec<u8>>,
    read: u64,
}

impl Level {
    fn take_in(&mut self, offset: u64, data: &[u8]) -> Vec<u8> {
        self.parts.insert(offset, data.to_vec());
        let mut ready = Vec::new();
        while let Some((&offset, _)) = self.parts.range(..=self.read).next() {
            let Some(data) = self.parts.remove(&offset) else {
                break;
            };
            let skip = (self.read - offset) as usize;
            if let Some(new) = data.get(skip..) {
                ready.extend_from_slice(new);
                self.read += new.len() as u64;
            }
        }
        ready
    }
}

struct OneRtt {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    /// By how many updates came before.
    generations: Vec<PacketKeySet>,
    secrets: Secrets,
    local: usize,
    remote: usize,
}

impl OneRtt {
    fn set(&mut self, generation: usize) -> &PacketKeySet {
        while self.generations.len() <= generation {
            let next = self.secrets.next_packet_keys();
            self.generations.push(next);
        }
        &self.generations[generation]
    }
}

enum Tls {
    Waiting(Arc<rustls::ServerConfig>),
    Running(Box<quic::Connection>),
}

/// A hostile peer.
pub struct Peer {
    who: u32,
    is_client: bool,
    has_no_cid: bool,
    params: Params,
    tls: Tls,
    initial: Option<Keys>,
    handshake: Option<Keys>,
    one_rtt: Option<OneRtt>,
    levels: [Level; 3],
    next: BTreeMap<Space, u64>,
    received: BTreeMap<Space, BTreeSet<u64>>,
    to_ack: BTreeSet<Space>,
    marked: BTreeMap<Space, u64>,
    /// Where Initial and Handshake packets go to.
    pub handshake_dcid: Vec<u8>,
    /// The token of Initial packets.
    pub token: Vec<u8>,
    /// What the other side issued, by path ID.
    pub their_cids: BTreeMap<u32, Vec<TheirCid>>,
    /// The largest path ID that the other side allows.
    pub their_max_path_id: Option<u64>,
    /// The other side's transport parameters, once TLS has them.
    pub their_params: Params,
    /// The tokens of NEW_TOKEN frames.
    pub new_tokens: Vec<Vec<u8>>,
    /// TLS is complete.
    pub complete: bool,
    /// A HANDSHAKE_DONE has come.
    pub confirmed: bool,
    /// The close that the other side has sent: type 0x1d, code, reason.
    pub close: Option<(bool, u64, Vec<u8>)>,
    /// TLS has refused what came.
    pub tls_error: Option<rustls::Error>,
    /// Retry packets that came.
    pub retries: usize,
    /// Packets that no key opened.
    pub unopened: usize,
    /// Packets under a number that another packet of the same path had: one nonce used twice.
    pub reused: usize,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("is_client", &self.is_client)
            .field("complete", &self.complete)
            .field("close", &self.close)
            .finish_non_exhaustive()
    }
}

fn initial_keys(dcid: &[u8], is_client: bool) -> Option<Keys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    let side = if is_client {
        rustls::Side::Client
    } else {
        rustls::Side::Server
    };
    Some(suite.keys(dcid, side, quic::Version::V1))
}

impl Peer {
    fn new(who: u32, is_client: bool, params: Params, tls: Tls) -> Self {
        Self {
            who,
            is_client,
            has_no_cid: false,
            params,
            tls,
            initial: None,
            handshake: None,
            one_rtt: None,
            levels: Default::default(),
            next: BTreeMap::new(),
            received: BTreeMap::new(),
            to_ack: BTreeSet::new(),
            marked: BTreeMap::new(),
            handshake_dcid: Vec::new(),
            token: Vec::new(),
            their_cids: BTreeMap::new(),
            their_max_path_id: None,
            their_params: Params::default(),
            new_tokens: Vec::new(),
            complete: false,
            confirmed: false,
            close: None,
            tls_error: None,
            retries: 0,
            unopened: 0,
            reused: 0,
        }
    }

    /// A client that sends its first packet to this connection ID. `who` tells it from other peers: its connection IDs
    /// begin with it.
    ///
    /// # Errors
    ///
    /// If rustls refuses the configuration.
    pub fn client(
        who: u32,
        first_dcid: &[u8],
        params: Params,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Self, rustls::Error> {
        Self::client_of("localhost", who, first_dcid, params, tls)
    }

    /// The same for a server of this name.
    ///
    /// # Errors
    ///
    /// If rustls refuses the configuration, or it is no name.
    pub fn client_of(
        name: &str,
        who: u32,
        first_dcid: &[u8],
        mut params: Params,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Self, rustls::Error> {
        params.set_bytes(id::INITIAL_SCID, &own_cid(who, 0, 0));
        let name = name.to_owned();
        let name = ServerName::try_from(name).map_err(|_| rustls::Error::EncryptError)?;
        let tls = quic::ClientConnection::new(tls, quic::Version::V1, name, params.encode())?;
        let mut this = Self::new(who, true, params, Tls::Running(Box::new(tls.into())));
        this.handshake_dcid = first_dcid.to_vec();
        this.initial = initial_keys(first_dcid, true);
        this.write_tls();
        Ok(this)
    }

    /// A client whose packets have a source connection ID of no length.
    ///
    /// # Errors
    ///
    /// If rustls refuses the configuration.
    pub fn client_without_cid(
        first_dcid: &[u8],
        params: Params,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Self, rustls::Error> {
        let mut this = Self::client(0, first_dcid, params.clone(), Arc::clone(&tls))?;
        let name = ServerName::try_from("localhost").map_err(|_| rustls::Error::EncryptError)?;
        let tls = quic::ClientConnection::new(tls, quic::Version::V1, name, params.encode())?;
        this.params = params;
        this.tls = Tls::Running(Box::new(tls.into()));
        this.levels = Default::default();
        this.has_no_cid = true;
        this.write_tls();
        Ok(this)
    }

    /// A server that waits for a client's first packet.
    pub fn server(who: u32, params: Params, tls: Arc<rustls::ServerConfig>) -> Self {
        Self::new(who, false, params, Tls::Waiting(tls))
    }

    /// Our connection ID for a path with this sequence number.
    pub fn own_cid(&self, path: u32, seq: u32) -> Vec<u8> {
        own_cid(self.who, path, seq)
    }

    /// The frame that issues our connection ID for a path.
    pub fn issue(&self, path: u32, seq: u32) -> Frame {
        Frame::NewCid {
            path: self.is_multipath().then_some(path.into()),
            seq: seq.into(),
            retire_prior_to: 0,
            cid: self.own_cid(path, seq),
            token: reset_token(path, seq),
        }
    }

    /// Whether both sides have announced multipath.
    pub fn is_multipath(&self) -> bool {
        let announced = |params: &Params| params.get(id::INITIAL_MAX_PATH_ID).is_some();
        announced(&self.params) && announced(&self.their_params)
    }

    /// Whether 1-RTT packets can be sealed.
    pub const fn has_one_rtt(&self) -> bool {
        self.one_rtt.is_some()
    }

    /// Whether Handshake packets can be sealed.
    pub const fn has_handshake(&self) -> bool {
        self.handshake.is_some()
    }

    /// The connection ID of the other side for a path that is the first of those not retired.
    pub fn dcid(&self, path: u32) -> Option<&TheirCid> {
        self.their_cids.get(&path)?.first()
    }

    /// The number of the next packet of a space.
    pub fn next_number(&self, space: Space) -> u64 {
        self.next.get(&space).copied().unwrap_or(0)
    }

    /// Counts on from this number.
    pub fn set_next_number(&mut self, space: Space, number: u64) {
        self.next.insert(space, number);
    }

    /// The numbers that were received in a space.
    pub fn received(&self, space: Space) -> impl Iterator<Item = u64> + '_ {
        self.received.get(&space).into_iter().flatten().copied()
    }

    /// From now on, 1-RTT packets have the next keys.
    pub fn update_keys(&mut self) {
        if let Some(keys) = &mut self.one_rtt {
            keys.local += 1;
        }
    }

    /// How many key updates of the other side were seen.
    pub fn their_updates(&self) -> usize {
        self.one_rtt.as_ref().map_or(0, |keys| keys.remote)
    }

    /// A packet of these frames as a friendly peer would send it, at its size; `None` without keys or connection ID.
    pub fn seal(&mut self, space: Space, frames: &[Frame]) -> Option<Vec<u8>> {
        self.seal_as(space, &payload(frames), &Sealing::default())
    }

    /// A packet with this payload.
    pub fn seal_as(&mut self, space: Space, payload: &[u8], how: &Sealing) -> Option<Vec<u8>> {
        let number = how.number.unwrap_or_else(|| self.next_number(space));
        let next = self.next.entry(space).or_insert(0);
        *next = (*next).max(number + 1);
        let version = how.version.unwrap_or(VERSION_1);
        let long = |ty, keys: &DirectionalKeys| {
            let dcid = how.dcid.as_ref().unwrap_or(&self.handshake_dcid);
            let own = if self.has_no_cid {
                Vec::new()
            } else {
                self.own_cid(0, 0)
            };
            let scid = how.scid.clone().unwrap_or(own);
            packet::seal_long(
                ty,
                version,
                dcid,
                &scid,
                &self.token,
                number,
                how.first_bits,
                payload,
                keys,
            )
        };
        match space {
            Space::Initial => Some(long(Long::Initial, &self.initial.as_ref()?.local)),
            Space::Handshake => Some(long(Long::Handshake, &self.handshake.as_ref()?.local)),
            Space::Data(path) => {
                let dcid = match &how.dcid {
                    Some(dcid) => dcid.clone(),
                    None => self.dcid(path)?.cid.clone(),
                };
                let keys = self.one_rtt.as_mut()?;
                let generation = keys.local.saturating_add_signed(how.generation as isize);
                keys.set(generation);
                Some(packet::seal_short(
                    &dcid,
                    path,
                    number,
                    generation % 2 == 1,
                    how.first_bits,
                    payload,
                    keys.local_header.as_ref(),
                    keys.generations[generation].local.as_ref(),
                ))
            }
        }
    }

    /// A message of TLS in 1-RTT packets, behind all that was sent there.
    pub fn tls_message(&mut self, data: &[u8]) -> Frame {
        let level = &mut self.levels[2];
        let offset = level.out.len() as u64;
        level.out.extend_from_slice(data);
        level.sent = level.out.len();
        let data = data.to_vec();
        Frame::Crypto { offset, data }
    }

    /// What TLS wants to send and what must be acknowledged in Initial and Handshake packets, as datagrams.
    pub fn flight(&mut self) -> Vec<Vec<u8>> {
        const CHUNK: usize = 1000;
        let mut datagrams = Vec::new();
        for (level, space) in [Space::Initial, Space::Handshake, Space::Data(0)]
            .into_iter()
            .enumerate()
        {
            loop {
                let mut frames = Vec::new();
                if level < 2 && self.to_ack.remove(&space) {
                    frames.extend(self.ack_of(space));
                }
                let state = &self.levels[level];
                let end = state.out.len().min(state.sent + CHUNK);
                if state.sent < end {
                    let data = state.out[state.sent..end].to_vec();
                    let offset = state.sent as u64;
                    frames.push(Frame::Crypto { offset, data });
                }
                if frames.is_empty() {
                    break;
                }
                if space == Space::Initial {
                    // RFC 9000 section 14.1.
                    let size = payload(&frames).len();
                    frames.push(Frame::Padding(1162usize.saturating_sub(size).max(1)));
                }
                let Some(mut packet) = self.seal(space, &frames) else {
                    break;
                };
                if space == Space::Initial && packet.len() < 1200 {
                    packet.resize(1200, 0);
                }
                self.levels[level].sent = end;
                datagrams.push(packet);
            }
        }
        datagrams
    }

    /// Has TLS' messages sent again by the next [`flight`](Self::flight).
    pub fn repeat_flight(&mut self) {
        for level in &mut self.levels {
            level.sent = 0;
        }
    }

    /// An acknowledgement of all that was received in a space.
    pub fn ack_of(&self, space: Space) -> Option<Frame> {
        let numbers = self.received.get(&space)?;
        let mut descending = numbers.iter().rev().copied();
        let largest = descending.next()?;
        let (mut lowest, mut first, mut ranges) = (largest, None, Vec::new());
        let mut top = largest;
        for number in descending {
            if number + 1 == lowest {
                lowest = number;
                continue;
            }
            match first {
                None => first = Some(top - lowest),
                Some(_) => {
                    if let Some((_, len)) = ranges.last_mut() {
                        *len = top - lowest;
                    }
                }
            }
            if ranges.len() == 60 {
                break;
            }
            ranges.push((lowest - number - 2, 0));
            (top, lowest) = (number, number);
        }
        match ranges.last_mut() {
            Some((_, len)) => *len = top - lowest,
            None => first = first.or(Some(top - lowest)),
        }
        let path = match space {
            Space::Data(path) if self.is_multipath() => Some(path.into()),
            _ => None,
        };
        Some(Frame::Ack {
            path,
            largest,
            delay: 0,
            first: first.unwrap_or(0),
            ranges,
            ecn: self.marked.get(&space).map(|marked| [*marked, 0, 0]),
        })
    }

    /// Acknowledgements of all 1-RTT packets that came since the last call.
    pub fn take_acks(&mut self) -> Vec<Frame> {
        let due: Vec<_> = self
            .to_ack
            .iter()
            .copied()
            .filter(|space| matches!(space, Space::Data(_)))
            .collect();
        due.iter()
            .filter_map(|space| {
                self.to_ack.remove(space);
                self.ack_of(*space)
            })
            .collect()
    }

    /// The same for a datagram that came with ECT(0) or without.
    pub fn receive_marked(&mut self, datagram: &[u8], marked: bool) -> Vec<Opened> {
        let opened = self.receive(datagram);
        if marked {
            for packet in &opened {
                *self.marked.entry(packet.space).or_default() += 1;
            }
        }
        opened
    }

    /// Takes in a datagram: decrypts its packets, runs TLS, notes connection IDs and limits.
    pub fn receive(&mut self, datagram: &[u8]) -> Vec<Opened> {
        let mut all = Vec::new();
        let mut rest = datagram.to_vec();
        while !rest.is_empty() {
            let Some(header) = packet::parse_header(&rest, CID_LEN) else {
                break;
            };
            let end = match &header {
                Header::Long { end, .. } => *end,
                _ => rest.len(),
            };
            let after = rest.split_off(end);
            match self.open(&mut rest, header) {
                Some(opened) => {
                    self.on_packet(&opened);
                    all.push(opened);
                }
                None => self.unopened += 1,
            }
            rest = after;
        }
        all
    }

    fn open(&mut self, packet: &mut [u8], header: Header) -> Option<Opened> {
        let size = packet.len();
        match header {
            Header::Long {
                ty,
                dcid,
                scid,
                number_at,
                ..
            } => {
                if ty == Long::Initial && self.initial.is_none() && !self.is_client {
                    self.accept(&dcid, &scid)?;
                }
                let (space, keys) = match ty {
                    Long::Initial => (Space::Initial, self.initial.as_ref()?),
                    Long::Handshake => (Space::Handshake, self.handshake.as_ref()?),
                    _ => return None,
                };
                let remote = &keys.remote;
                let (_, number, len) =
                    packet::unprotect(packet, number_at, remote.header.as_ref())?;
                let number = packet::expand(number, len, self.expected(space));
                let body = packet::open(
                    packet,
                    number_at + len,
                    number,
                    None,
                    remote.packet.as_ref(),
                )?;
                self.handshake_dcid = scid.clone();
                if self.their_cids.is_empty() {
                    let first = TheirCid {
                        seq: 0,
                        cid: scid,
                        token: [0; 16],
                    };
                    self.their_cids.insert(0, vec![first]);
                }
                let frames = Frame::parse_all(&body);
                Some(Opened {
                    space,
                    number,
                    dcid,
                    frames,
                    size,
                })
            }
            Header::Retry { scid, token, .. } => {
                self.retries += 1;
                self.token = token;
                self.initial = initial_keys(&scid, true);
                self.handshake_dcid = scid;
                self.repeat_flight();
                None
            }
            Header::Versions(_) => None,
            Header::Short { dcid, number_at } => {
                let path = u32::from_be_bytes(dcid.get(4..8)?.try_into().ok()?);
                let space = Space::Data(path);
                let expected = self.expected(space);
                let keys = self.one_rtt.as_mut()?;
                let (first, number, len) =
                    packet::unprotect(packet, number_at, keys.remote_header.as_ref())?;
                let number = packet::expand(number, len, expected);
                let phase = usize::from(first & 4 != 0);
                let current = keys.remote;
                // The current keys, or their neighbours of the other phase.
                let candidates = if current % 2 == phase {
                    vec![current]
                } else {
                    [Some(current + 1), current.checked_sub(1)]
                        .into_iter()
                        .flatten()
                        .collect()
                };
                for generation in candidates {
                    let key = keys.set(generation).remote.as_ref();
                    let Some(body) = packet::open(packet, number_at + len, number, Some(path), key)
                    else {
                        continue;
                    };
                    keys.remote = keys.remote.max(generation);
                    let frames = Frame::parse_all(&body);
                    return Some(Opened {
                        space,
                        number,
                        dcid,
                        frames,
                        size,
                    });
                }
                None
            }
        }
    }

    fn expected(&self, space: Space) -> u64 {
        let numbers = self.received.get(&space);
        numbers
            .and_then(|numbers| numbers.last())
            .map_or(0, |largest| largest + 1)
    }

    fn accept(&mut self, dcid: &[u8], scid: &[u8]) -> Option<()> {
        let Tls::Waiting(config) = &self.tls else {
            return None;
        };
        let config = Arc::clone(config);
        let scid_of_ours = self.own_cid(0, 0);
        self.params.set_bytes(id::ORIGINAL_DCID, dcid);
        self.params.set_bytes(id::INITIAL_SCID, &scid_of_ours);
        let params = self.params.encode();
        let tls = quic::ServerConnection::new(config, quic::Version::V1, params).ok()?;
        self.tls = Tls::Running(Box::new(tls.into()));
        self.initial = initial_keys(dcid, false);
        self.handshake_dcid = scid.to_vec();
        Some(())
    }

    fn on_packet(&mut self, opened: &Opened) {
        let numbers = self.received.entry(opened.space).or_default();
        let again = !numbers.insert(opened.number);
        // The keys of Initial packets are no secret: a server that keeps nothing of a client numbers from 0 each time.
        self.reused += usize::from(again && opened.space != Space::Initial);
        if opened.frames.iter().any(Frame::is_ack_eliciting) {
            self.to_ack.insert(opened.space);
        }
        let level = match opened.space {
            Space::Initial => 0,
            Space::Handshake => 1,
            Space::Data(_) => 2,
        };
        for frame in &opened.frames {
            match frame {
                Frame::Crypto { offset, data } => self.on_crypto(level, *offset, data),
                Frame::HandshakeDone => self.confirmed = true,
                Frame::NewToken(token) => self.new_tokens.push(token.clone()),
                Frame::NewCid {
                    path,
                    seq,
                    retire_prior_to,
                    cid,
                    token,
                } => {
                    let path = path.unwrap_or(0) as u32;
                    let held = self.their_cids.entry(path).or_default();
                    held.retain(|held| held.seq >= *retire_prior_to && held.seq != *seq);
                    held.push(TheirCid {
                        seq: *seq,
                        cid: cid.clone(),
                        token: *token,
                    });
                    held.sort_by_key(|held| held.seq);
                }
                Frame::MaxPathId(max) => {
                    self.their_max_path_id = self.their_max_path_id.max(Some(*max))
                }
                Frame::Close { app, code, reason } => {
                    self.close = self
                        .close
                        .take()
                        .or_else(|| Some((*app, *code, reason.clone())));
                }
                _ => {}
            }
        }
    }

    fn on_crypto(&mut self, level: usize, offset: u64, data: &[u8]) {
        let ready = self.levels[level].take_in(offset, data);
        if let Tls::Running(tls) = &mut self.tls
            && !ready.is_empty()
            && let Err(error) = tls.read_hs(&ready)
        {
            self.tls_error.get_or_insert(error);
        }
        self.write_tls();
    }

    fn write_tls(&mut self) {
        let Tls::Running(tls) = &mut self.tls else {
            return;
        };
        loop {
            let level = match (&self.handshake, &self.one_rtt) {
                (_, Some(_)) => 2,
                (Some(_), None) => 1,
                (None, None) => 0,
            };
            let before = self.levels[level].out.len();
            let change = tls.write_hs(&mut self.levels[level].out);
            match change {
                Some(KeyChange::Handshake { keys }) => self.handshake = Some(keys),
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(OneRtt {
                        local_header: keys.local.header,
                        remote_header: keys.remote.header,
                        generations: vec![PacketKeySet {
                            local: keys.local.packet,
                            remote: keys.remote.packet,
                        }],
                        secrets: next,
                        local: 0,
                        remote: 0,
                    });
                }
                None if self.levels[level].out.len() == before => break,
                None => {}
            }
        }
        if self.their_params.0.is_empty()
            && let Some(params) = tls.quic_transport_parameters()
        {
            self.their_params = Params::parse(params);
            self.their_max_path_id = self.their_params.get(id::INITIAL_MAX_PATH_ID);
        }
        self.complete = !tls.is_handshaking();
    }
}

fn own_cid(who: u32, path: u32, seq: u32) -> Vec<u8> {
    [who, path, seq]
        .iter()
        .flat_map(|part| part.to_be_bytes())
        .collect()
}

/// The stateless reset token that goes with our connection ID.
pub fn reset_token(path: u32, seq: u32) -> [u8; 16] {
    let mut token = [0xA5; 16];
    token[..4].copy_from_slice(&path.to_be_bytes());
    token[4..8].copy_from_slice(&seq.to_be_bytes());
    token
}
