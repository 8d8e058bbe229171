//! The handshake of a connection: the TLS session, the Initial and Handshake packet number spaces, Retry, tokens, early
//! data, packets that came before their keys, and the addresses that a client begins on.

mod attempt;
mod copies;
mod crypto_stream;
mod early_data;
mod long;
mod retry;
mod session;
mod sessions;
mod short;
mod start;
#[cfg(test)]
mod tests;
mod timers;
mod tokens;
mod tries;
mod undecryptable;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_sched_core::{ConnectionId, EcnCodepoint, Side, TransportErrorCode};
use rand::rngs::StdRng;
use smallvec::SmallVec;

pub(crate) use attempt::{Attempt, Refused};
pub(crate) use long::{Opened, Source};
pub use session::Session;
pub(crate) use short::NotOpened;
pub use start::ConnectError;
pub(crate) use start::{AddressProof, Ends, FirstFlight};
pub(crate) use timers::TimerFacts;
pub(crate) use tries::Tries;
pub(crate) use undecryptable::Undecryptable;

use self::long::HandshakeSpaces;
use self::tokens::Tokens;
use self::undecryptable::Buffered;
use crate::events::{DatagramMeta, EndpointEvent, EndpointEvents};
use crate::frame_writer::FrameWriter;
use crate::sent_frame::SentFrame;
use crate::shards::Counted;
use crate::space::{PacketSpace, SpaceId};
use crate::token::{AddressTokens, SharedTokenStore};
use crate::{FourTuple, PathId, TransportError};
use mpquic_wire::crypto::OneRttKeys;
use mpquic_wire::frame::{AckFrame, Frame};
use mpquic_wire::packet::{QuicBit, Version};
use mpquic_wire::transport_parameters::{ExpectedConnectionIds, TransportParameters};

/// Changes of what a half-open connection keeps that the endpoint does not hear of.
const MEMORY_STEP: usize = 1024;

/// The handshake of one connection.
pub(crate) struct Handshake {
    side: Side,
    version: Version,
    /// Our connection ID of the handshake.
    scid: ConnectionId,
    /// The destination connection ID of the client's first Initial packet; on servers, of the first that was not
    /// answered by a Retry packet.
    original_dcid: ConnectionId,
    /// The peer's connection ID of the handshake: the source of its packets with long headers.
    remote_scid: ConnectionId,
    session: Session,
    spaces: HandshakeSpaces,
    undecryptable: Undecryptable,
    /// On clients: the server's ID in the Retry that was acted on, which its transport parameters must name (RFC 9000
    /// section 7.3).
    retry_source: Option<ConnectionId>,
    /// On clients: goes into all Initial packets. Of a Retry packet, or of an earlier connection.
    initial_token: Bytes,
    tokens: Tokens,
    /// On servers: the connection's place among those that are complete.
    counted: Option<Box<Counted>>,
    /// Of the packets that this side sends.
    quic_bit: QuicBit,
    /// On clients with several addresses to begin on, until the handshake is confirmed.
    attempt: Option<Box<Attempt>>,
    /// When it must be complete.
    deadline: Option<Instant>,
    /// What the endpoint was told of its memory.
    memory_told: usize,
    /// A packet of the peer was decrypted.
    heard: bool,
    /// What the peer says of itself: of the earlier connection while early data is offered, and the defaults before anything
    /// is known.
    peer: TransportParameters,
    /// Its own were read.
    parameters_known: bool,
    /// RFC 9001 section 4.1.2.
    confirmed: bool,
    /// On servers: HANDSHAKE_DONE is to be sent.
    done_pending: bool,
}

/// What reading a CRYPTO frame brought.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The peer's transport parameters are known now.
    pub(crate) parameters: bool,
    /// The server has not taken the early data: it is as if it had never been sent.
    pub(crate) early_data_rejected: bool,
    /// A server can send 1-RTT packets now, and knows what its client takes.
    pub(crate) early_answers: bool,
    /// TLS is complete now (RFC 9001 section 4.1.1).
    pub(crate) complete: bool,
    /// There are new keys, and packets that may have waited for them.
    pub(crate) decryptable: bool,
}

impl Handshake {
    pub(crate) fn new(ends: &Ends, session: Session, rng: &mut StdRng) -> Self {
        Self {
            side: ends.side,
            version: ends.version,
            scid: ends.scid,
            original_dcid: ends.original_dcid,
            remote_scid: ends.remote_cid,
            session,
            spaces: HandshakeSpaces::new(rng),
            undecryptable: Undecryptable::default(),
            retry_source: None,
            initial_token: Bytes::new(),
            tokens: Tokens::default(),
            counted: None,
            quic_bit: QuicBit::default(),
            attempt: None,
            deadline: None,
            memory_told: 0,
            heard: false,
            peer: TransportParameters::default(),
            parameters_known: false,
            confirmed: false,
            done_pending: false,
        }
    }

    /// It must be complete by then.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// On clients: begins with a token of an earlier connection to the server, if there is one, and keeps those that it
    /// gives.
    pub(crate) fn keep_tokens(&mut self, store: SharedTokenStore, server_name: &str) {
        // RFC 9369 section 5: a token of one version is not used with another. All that are kept are of version 1.
        if self.version == Version::V1 {
            self.initial_token = self.tokens.keep(store, server_name);
        }
    }

    /// On servers: gives the client so many tokens at first.
    pub(crate) fn give_tokens(&mut self, tokens: &Arc<AddressTokens>, first: u32) {
        // As clients keep them.
        if self.version == Version::V1 {
            self.tokens.give(tokens, first);
        }
    }

    /// On servers: it has a place among the connections that are complete, if there is one left by then.
    pub(crate) fn count(&mut self, counted: Counted) {
        self.counted = Some(Box::new(counted));
    }

    /// A client that resumes a session, if TLS lets it send early data: offers it, with the server's limits of the earlier
    /// connection, which hold until its own are known. Returns whether it did.
    //= specs/rfc9000.txt#section-7.4.1
    //# When sending frames in 0-RTT packets, a client MUST only use remembered transport
    //# parameters; importantly, it MUST NOT use updated values that it learns from the server's
    //# updated transport parameters or from frames received in 1-RTT packets.
    pub(crate) fn offer_early_data(&mut self) -> bool {
        let encoded = self.session.remembered_parameters();
        // What a store of sessions has kept may be anything.
        let parameters = encoded.and_then(|it| TransportParameters::decode(Side::Server, it).ok());
        let Some(parameters) = parameters else {
            return false;
        };
        self.session.offer_early_data();
        //= specs/rfc9000.txt#section-7.4.1
        //# A client that attempts to send 0-RTT data MUST remember all other transport parameters
        //# used by the server that it is able to process.
        self.peer = parameters.remembered();
        true
    }

    /// What the peer says of itself.
    pub(crate) fn peer(&self) -> &TransportParameters {
        &self.peer
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn scid(&self) -> ConnectionId {
        self.scid
    }

    pub(crate) fn original_dcid(&self) -> ConnectionId {
        self.original_dcid
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Whether any packet of the peer was decrypted: if not, what came was no client's Initial.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard
    }

    /// Whether TLS is complete (RFC 9001 section 4.1.1).
    pub(crate) fn is_complete(&self) -> bool {
        self.session.is_complete()
    }

    /// Whether it is confirmed (RFC 9001 section 4.1.2).
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether there are Initial or Handshake keys. Without them, there is nothing of it to be sent any more.
    pub(crate) fn has_long_keys(&self) -> bool {
        self.session.initial.is_some() || self.session.handshake.is_some()
    }

    pub(crate) fn has_keys(&self, space_id: SpaceId) -> bool {
        match space_id {
            SpaceId::Initial => self.session.initial.is_some(),
            SpaceId::Handshake => self.session.handshake.is_some(),
            SpaceId::Data => self.session.one_rtt.is_some(),
        }
    }

    pub(crate) fn one_rtt(&self) -> Option<&OneRttKeys> {
        self.session.one_rtt.as_ref()
    }

    pub(crate) fn one_rtt_mut(&mut self) -> Option<&mut OneRttKeys> {
        self.session.one_rtt.as_mut()
    }

    /// Whether an acknowledgement of 1-RTT packets says something of their keys: the current ones are new, or used up.
    #[inline]
    pub(crate) fn keys_await_ack(&self) -> bool {
        let keys = self.session.one_rtt.as_ref();
        keys.is_some_and(|keys| keys.awaits_ack() || keys.update_due())
    }

    /// 1-RTT packets of a path were acknowledged, the largest of them with this number. Starts the key update that may be
    /// due: returns how many there were with it.
    #[cold]
    pub(crate) fn on_keys_acked(
        &mut self,
        now: Instant,
        nonce_path: Option<PathId>,
        largest: u64,
        pto: Duration,
    ) -> Option<u64> {
        let keys = self.session.one_rtt.as_mut()?;
        keys.on_acked(nonce_path, largest, now, pto);
        //= specs/rfc9001.txt#section-6.6
        //# Endpoints MUST initiate a key update before sending more protected packets than
        //# the confidentiality limit for the selected AEAD permits.
        let updates = keys.update_due() && self.confirmed && keys.initiate_update(now);
        updates.then(|| keys.updates())
    }

    /// Starts a key update, unless one is in progress or it is too early.
    //= specs/rfc9001.txt#section-6.1
    //# An endpoint MUST NOT initiate a key update prior to having confirmed the handshake (Section
    //# 4.1.2).
    pub(crate) fn update_keys(&mut self, now: Instant) {
        if self.confirmed
            && let Some(keys) = self.one_rtt_mut()
        {
            keys.initiate_update(now);
        }
    }

    /// How often the keys of 1-RTT packets were updated.
    pub(crate) fn key_updates(&self) -> u64 {
        self.one_rtt().map_or(0, OneRttKeys::updates)
    }

    #[cfg(test)]
    pub(crate) fn early_data(&self) -> &early_data::EarlyData {
        &self.session.early_data
    }

    /// Whether application data can be sent before it is complete.
    pub(crate) fn has_early_keys(&self) -> bool {
        match self.side {
            Side::Client => self.session.early_data.keys().is_some(),
            Side::Server => self.session.one_rtt.is_some() && self.parameters_known,
        }
    }

    /// The number space of Initial or Handshake packets, until its keys are dropped.
    pub(crate) fn space(&self, space_id: SpaceId) -> Option<&PacketSpace> {
        self.spaces.get(space_id)
    }

    pub(crate) fn space_mut(&mut self, space_id: SpaceId) -> Option<&mut PacketSpace> {
        self.spaces.get_mut(space_id)
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = &PacketSpace> {
        self.spaces.iter()
    }

    /// Bytes in flight in both.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.spaces.bytes_in_flight()
    }

    pub(crate) fn undecryptable(&self) -> &Undecryptable {
        &self.undecryptable
    }

    /// The addresses that a client with several of them begins on.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        self.attempt.as_deref()
    }

    pub(crate) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        self.attempt.as_deref_mut()
    }

    /// A datagram with this Initial or Handshake packet leaves: those that the connection may begin on, too, send it.
    /// `silent`: the server has fallen silent on the one that is chosen. The end of the handshake may reach it another way.
    pub(crate) fn copy_datagram(
        &mut self,
        now: Instant,
        packet: u64,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
        silent: bool,
    ) {
        //= specs/rfc9000.txt#section-18.2
        //# An endpoint that receives this transport parameter MUST NOT use a new local address when
        //# sending to the address that the peer used during the handshake.
        let again = silent && !self.peer.disable_active_migration && !self.confirmed;
        if let Some(attempt) = &mut self.attempt {
            attempt.copy(now, packet, ecn, datagram, again);
        }
    }

    /// Begins on several addresses, of which one becomes that of the handshake.
    pub(crate) fn set_attempt(&mut self, attempt: Option<Box<Attempt>>) {
        self.attempt = attempt;
    }

    /// Takes in a CRYPTO frame and lets TLS answer.
    pub(crate) fn on_crypto(
        &mut self,
        space_id: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<Progress, TransportError> {
        let new = self.session.on_crypto(space_id, offset, data)?;
        let mut progress = Progress::default();
        if !self.parameters_known {
            self.read_parameters(&mut progress)?;
        }
        if new.complete && !self.parameters_known {
            //= specs/rfc9001.txt#section-8.2
            //# Endpoints MUST send the quic_transport_parameters extension; endpoints that
            //# receive ClientHello or EncryptedExtensions messages without the
            //# quic_transport_parameters extension MUST close the connection with an error of
            //# type 0x016d (equivalent to a fatal TLS missing_extension alert, see Section
            //# 4.8).
            return Err(TransportError::crypto(
                109,
                "the peer sent no transport parameters",
            ));
        }
        progress.early_answers = new.one_rtt && self.has_early_keys();
        progress.complete = new.complete;
        progress.decryptable =
            (new.handshake || new.one_rtt || new.complete) && !self.undecryptable.is_empty();
        Ok(progress)
    }

    /// Reads the peer's transport parameters as soon as TLS has them.
    fn read_parameters(&mut self, progress: &mut Progress) -> Result<(), TransportError> {
        let Some(encoded) = self.session.peer_parameters() else {
            return Ok(());
        };
        let peer = TransportParameters::decode(!self.side, encoded)?;
        peer.validate(&ExpectedConnectionIds {
            initial_source: self.remote_scid,
            original_destination: (self.side == Side::Client).then_some(self.original_dcid),
            retry_source: self.retry_source,
        })?;
        match self.session.settle_early_data() {
            //= specs/rfc9000.txt#section-7.4.1
            //# If 0-RTT data is accepted by the server, the server MUST NOT reduce any limits or
            //# alter any values that might be violated by the client with its 0-RTT data.
            Some(true) => peer.check_not_reduced(&self.peer)?,
            Some(false) => progress.early_data_rejected = true,
            None => {}
        }
        //= specs/rfc9000.txt#section-7.4.1
        //# Once the handshake completes, the client uses the transport parameters established in
        //# the handshake.
        if let Some(information) = &peer.version_information {
            information.check(self.version)?;
        }
        //= specs/rfc9000.txt#section-7.4.1
        //# The client MUST use the server's new values in the handshake instead; if the server does
        //# not provide new values, the default values are used.
        self.peer = peer;
        self.parameters_known = true;
        progress.parameters = true;
        Ok(())
    }

    /// It is complete.
    ///
    /// # Errors
    ///
    /// If there are too many connections.
    pub(crate) fn complete(&mut self) -> Result<(), TransportError> {
        if let Some(counted) = &mut self.counted
            && !counted.enter()
        {
            //= specs/rfc9000.txt#section-5.2.2
            //# If a server refuses to accept a new connection, it SHOULD send an Initial packet
            //# containing a CONNECTION_CLOSE frame with error code CONNECTION_REFUSED.
            // Others were faster, while the handshake was under way.
            return Err(TransportError::new(
                TransportErrorCode::CONNECTION_REFUSED,
                "too many connections",
            ));
        }
        self.deadline = None;
        //= specs/rfc9000.txt#section-19.20
        //# Servers MUST NOT send a HANDSHAKE_DONE frame before completing the handshake.
        //= specs/rfc9001.txt#section-4.1.2
        //# The server MUST send a HANDSHAKE_DONE frame as soon as the handshake is
        //# complete.
        self.done_pending = self.side == Side::Server;
        Ok(())
    }

    /// The peer takes either value of the QUIC bit (RFC 9287 section 3.1). `seed`: known to no observer.
    pub(crate) fn grease_quic_bit(&mut self, seed: [u8; 16]) {
        self.quic_bit.start(seed);
    }

    /// Gives the first byte of a packet, whose header is not yet protected, its QUIC bit.
    #[inline]
    pub(crate) fn draw_quic_bit(&mut self, first: &mut u8) {
        self.quic_bit.apply(first);
    }

    /// HANDSHAKE_DONE came. Whether it confirms the handshake.
    pub(crate) fn on_done(&self) -> Result<bool, TransportError> {
        if self.side == Side::Server {
            //= specs/rfc9000.txt#section-19.20
            //# A server MUST treat receipt of a HANDSHAKE_DONE frame as a connection error of type
            //# PROTOCOL_VIOLATION.
            return Err(TransportError::protocol_violation(
                "HANDSHAKE_DONE from a client",
            ));
        }
        Ok(!self.confirmed)
    }

    /// RFC 9001 section 4.1.2.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
        //= specs/rfc9001.txt#section-4.9.2
        //# An endpoint MUST discard its Handshake keys when the TLS handshake is confirmed (Section
        //# 4.1.2).
        self.discard(SpaceId::Handshake);
        if let Some(keys) = &mut self.session.one_rtt {
            keys.make_next();
        }
    }

    /// RFC 9001 section 4.9: the keys of a level and all that it had to send are dropped. True if its space was there until
    /// now: the PTO of the path starts afresh then.
    //= specs/rfc9002.txt#section-6.2.2
    //# When Initial or Handshake keys are discarded, the PTO and loss detection timers MUST
    //# be reset, because discarding keys indicates forward progress and the loss detection
    //# timer might have been set for a now- discarded packet number space.
    pub(crate) fn discard(&mut self, space_id: SpaceId) -> bool {
        self.session.discard(space_id);
        if space_id == SpaceId::Initial {
            self.initial_token = Bytes::new();
        }
        //= specs/rfc9002.txt#section-6.4
        //# The sender MUST discard all recovery state associated with those packets and MUST remove
        //# them from the count of bytes in flight.
        self.spaces.discard(space_id)
    }

    /// All 0-RTT packets have numbers below this one, and the server has rejected them.
    pub(crate) fn reject_early_data_below(&mut self, number: u64) {
        self.session.early_data.reject_below(number);
    }

    /// An acknowledgement of packets on path 0.
    ///
    /// # Errors
    ///
    /// If it is of early data that the peer has rejected.
    #[inline]
    pub(crate) fn check_ack(&self, frame: &AckFrame<'_>) -> Result<(), TransportError> {
        match self.session.early_data.is_rejected() {
            true => self.session.early_data.check_ack(frame),
            false => Ok(()),
        }
    }

    /// A 1-RTT packet came: soon nothing can come with 0-RTT keys any more.
    #[inline]
    pub(crate) fn on_one_rtt_packet(&mut self, discard_at: impl FnOnce() -> Instant) {
        if self.session.early_data.keys().is_some() {
            self.session.early_data.discard_at(discard_at());
        }
    }

    /// On servers: the client receives where a path leads.
    pub(crate) fn on_address_proven(
        &mut self,
        now: Instant,
        rng: &mut StdRng,
        path: Option<FourTuple>,
    ) {
        if let Some(path) = path {
            self.tokens.on_proven(now, rng, path.remote.ip());
        }
    }

    /// A NEW_TOKEN frame.
    pub(crate) fn on_new_token(&self, token: &[u8]) -> Result<(), TransportError> {
        self.tokens.on_new_token(self.side, token)
    }

    /// Whether it has frames for a 1-RTT packet.
    pub(crate) fn can_send_control(&self) -> bool {
        self.done_pending || self.tokens.can_send() || self.session.can_send(SpaceId::Data)
    }

    /// HANDSHAKE_DONE and CRYPTO frames of a 1-RTT packet.
    pub(crate) fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        if self.done_pending && w.put(&Frame::HandshakeDone) {
            w.record(SentFrame::HandshakeDone);
            self.done_pending = false;
        }
        self.session.stream(SpaceId::Data).fill(w);
    }

    pub(crate) fn fill_new_tokens(&mut self, w: &mut FrameWriter<'_>) {
        self.tokens.fill(w);
    }

    /// The levels at which the peer may have keys to read a close on this path.
    //= specs/rfc9000.txt#section-10.2.3
    //# After the handshake is confirmed (see Section 4.1.2 of [QUIC-TLS]), an endpoint MUST
    //# send any CONNECTION_CLOSE frames in a 1-RTT packet.
    //= specs/rfc9000.txt#section-10.2.3
    //# Under these circumstances, a server SHOULD send a CONNECTION_CLOSE frame in both
    //# Handshake and Initial packets to ensure that at least one of them is processable by the
    //# client.
    //= specs/rfc9000.txt#section-10.2.3
    //# * Prior to confirming the handshake, a peer might be unable to process 1-RTT packets, so
    //# an endpoint SHOULD send a CONNECTION_CLOSE frame in both Handshake and 1-RTT packets.
    pub(crate) fn close_levels(&self, path: PathId) -> SmallVec<[SpaceId; 3]> {
        let early = path == PathId::ZERO && !self.confirmed;
        let one_rtt = self.session.one_rtt.is_some() && (self.is_complete() || self.confirmed);
        let levels = [
            (SpaceId::Initial, early && self.has_keys(SpaceId::Initial)),
            (
                SpaceId::Handshake,
                early && self.has_keys(SpaceId::Handshake),
            ),
            (SpaceId::Data, one_rtt),
        ];
        let known = levels.into_iter().filter(|(_, known)| *known);
        known.map(|(level, _)| level).collect()
    }

    /// The connection ends before three PTOs have passed: its endpoint drops what still comes for the ID of the handshake.
    pub(crate) fn retire_cid_quietly(&self, now: Instant, events: &mut EndpointEvents) {
        // A connection with an ID of length zero has the endpoint to itself, and its next one has the same ID.
        if !self.scid.is_empty() {
            events.push_back(EndpointEvent::RetireCidQuietly(self.scid, now));
        }
    }

    /// Packets of the Initial or Handshake space were acknowledged.
    pub(crate) fn on_acked(&mut self, space_id: SpaceId) {
        self.spaces.on_acked(space_id);
    }

    /// A frame of its own arrived.
    pub(crate) fn on_frame_acked(&mut self, space_id: SpaceId, frame: &SentFrame) {
        match *frame {
            SentFrame::Crypto { start, end } => {
                self.session.stream(space_id).on_acked(start, end);
            }
            SentFrame::Ack { largest, .. } => {
                if let Some(space) = self.spaces.get_mut(space_id) {
                    space.received.discard_below(largest + 1);
                }
            }
            SentFrame::NewToken(number) => self.tokens.on_acked(number),
            _ => {}
        }
    }

    /// A frame of its own was lost, or is to be sent again at any rate.
    pub(crate) fn on_frame_lost(&mut self, space_id: SpaceId, frame: &SentFrame) {
        match *frame {
            //= specs/rfc9001.txt#section-4
            //# If QUIC needs to retransmit that data, it MUST use the same keys even if TLS has
            //# already updated to newer keys.
            //= specs/rfc9001.txt#section-4.9
            //# If packets from a lower encryption level contain CRYPTO frames, frames that
            //# retransmit that data MUST be sent at the same encryption level.
            SentFrame::Crypto { start, end } => self.session.stream(space_id).on_lost(start, end),
            //= specs/rfc9000.txt#section-13.3
            //# * The HANDSHAKE_DONE frame MUST be retransmitted until it is acknowledged.
            SentFrame::HandshakeDone => self.done_pending = true,
            SentFrame::NewToken(number) => self.tokens.on_lost(number),
            _ => {}
        }
    }

    /// Keeps a packet until the keys of this level are there.
    pub(crate) fn keep_undecryptable(
        &mut self,
        space_id: SpaceId,
        path: PathId,
        arrival: &DatagramMeta,
        bytes: &[u8],
    ) {
        self.undecryptable.push(space_id, path, arrival, bytes);
    }

    /// Packets that have waited for keys that are there now, of one level, the oldest first (RFC 9001 section 5.7). Those of
    /// the Initial level are 0-RTT packets that came before the ClientHello.
    pub(crate) fn take_decryptable(&mut self) -> Option<Vec<Buffered>> {
        for space_id in [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data] {
            let ready = match space_id {
                SpaceId::Data => self.session.is_complete(),
                SpaceId::Handshake => self.session.handshake.is_some(),
                SpaceId::Initial => !self.session.awaits_client_hello(),
            };
            if ready {
                let packets = self.undecryptable.take(space_id);
                if !packets.is_empty() {
                    return Some(packets);
                }
            }
        }
        None
    }

    /// On servers: what the endpoint should hear of the memory of handshake data and of packets that wait for keys, once it
    /// differs by enough to matter.
    pub(crate) fn memory_to_tell(&mut self) -> Option<usize> {
        if self.side == Side::Client {
            return None;
        }
        let bytes = self.session.memory() + self.undecryptable.memory();
        if bytes.abs_diff(self.memory_told) < MEMORY_STEP {
            return None;
        }
        self.memory_told = bytes;
        Some(bytes)
    }

    /// Gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.session.shrink();
    }

    /// The connection is over.
    pub(crate) fn on_closed(&mut self) {
        self.counted = None;
        self.undecryptable.clear();
    }
}
