//! Whom a server lets in: what a first Initial packet must be, who must prove their address first.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use mpquic_sched_core::{ConnectionId, EcnCodepoint, TransportErrorCode};
use mpquic_wire::packet::{MAX_CID_LEN, ProtectedPacket, Version, decode_next};

use super::{
    DatagramEvent, Endpoint, Incoming, MIN_INITIAL_SIZE, RetryError, Route, accept_queue::Asked,
    answer_to, refusal, retry,
};
use crate::cid::CidGenerator;
use crate::handshake::AddressProof;
use crate::token::{TokenReuseError, Verdict};
use crate::{FourTuple, ServerConfig, Transmit};

/// The shortest destination connection ID that a client may make up (RFC 9000 section 7.2).
const MIN_INITIAL_DCID: usize = 8;

/// A packet that may begin a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstPacket<'a> {
    pub(super) now: Instant,
    pub(super) network_path: FourTuple,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) version: Version,
    pub(super) datagram: &'a [u8],
    pub(super) dcid: &'a [u8],
    pub(super) scid: &'a [u8],
}

impl Endpoint {
    /// A client's first Initial packet. No key of a packet is derived and nothing decrypted but the token, so that
    /// a flood of them costs little, and nothing but this once there is no room for more.
    pub(super) fn admit(
        &mut self,
        first: &FirstPacket<'_>,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        let server = Arc::clone(self.server.as_ref()?);
        let FirstPacket { now, datagram, .. } = *first;
        //= specs/rfc9000.txt#section-14.1
        //# A server MUST discard an Initial packet that is carried in a UDP datagram with a payload
        //# that is smaller than the smallest allowed maximum datagram size of 1200 bytes.
        let valid = datagram.len() >= MIN_INITIAL_SIZE
            && (MIN_INITIAL_DCID..=MAX_CID_LEN).contains(&first.dcid.len())
            && first.scid.len() <= MAX_CID_LEN;
        if !valid {
            return None;
        }
        self.handle_timeout(now);
        // Whether it is worth a place that is taken depends on its token.
        if !self.has_room(&server, datagram.len(), None)
            && !self.could_make_room(&server, datagram.len(), true)
        {
            return None;
        }
        let Ok(ProtectedPacket::Long { token, .. }) = decode_next(datagram, self.generator.len())
        else {
            return None;
        };
        let (dcid, scid) = (ConnectionId::new(first.dcid), ConnectionId::new(first.scid));
        let network_path = first.network_path;
        if self
            .census
            .is_full(server.connection_limits(), network_path.remote)
        {
            self.census.on_refused();
            if !self.refusal_rate.take(now) {
                return None;
            }
            // Nothing is kept: the client may come again when there is room.
            let code = TransportErrorCode::CONNECTION_REFUSED;
            let transmit = self.write_refusal(first, &dcid, &scid, code, buf)?;
            return Some(DatagramEvent::Response(transmit));
        }
        let Some(proof) = self.prove(first, &datagram[token], &dcid, &server) else {
            //= specs/rfc9000.txt#section-8.1.2
            //# Instead, the server SHOULD immediately close (Section 10.2) the connection with an
            //# INVALID_TOKEN error.
            if !self.invalid_token_rate.take(now) {
                return None;
            }
            //= specs/rfc9000.txt#section-8.1.2
            //# If a server receives a client Initial that contains an invalid Retry token but is
            //# otherwise valid, it knows the client will not accept another Retry token.
            // Nobody has sent a token that was damaged on the way: the packet will come again.
            if !refusal::is_genuine(datagram, first.version, &dcid) {
                return None;
            }
            let code = TransportErrorCode::INVALID_TOKEN;
            let transmit = self.write_refusal(first, &dcid, &scid, code, buf)?;
            return Some(DatagramEvent::Response(transmit));
        };
        if !proof.is_valid() && self.half_open().connections >= server.retry_above {
            // Whoever sends from addresses of others fills no more places than these.
            //= specs/rfc9000.txt#section-17.2.5.1
            //# A server MUST NOT send more than one Retry packet in response to a single UDP
            //# datagram.
            if let Some(queue) = &mut self.accept_queue {
                let client = Asked {
                    network_path,
                    version: first.version,
                    dcid,
                    scid,
                };
                queue.ask(client, server.max_retries_waiting);
                return Some(DatagramEvent::Queued);
            }
            let transmit = self.write_retry(now, network_path, first.version, &dcid, &scid, buf);
            return Some(DatagramEvent::Response(transmit));
        }
        if !self.make_room(&server, datagram.len(), proof.is_valid()) {
            return None;
        }
        let expires = now + server.handshake_timeout;
        let place = self.waiting.open(dcid, datagram.len(), expires)?;
        self.routes.add(dcid, Route::Incoming(place.index));
        for event in self.early.take(now, &dcid, &network_path) {
            let (ecn, datagram) = (event.ecn, &event.datagrams);
            self.waiting
                .buffer(place.index, event.now, network_path, ecn, datagram);
        }
        let incoming = Incoming {
            index: place.index,
            number: place.number,
            received: now,
            expires,
            network_path,
            ecn: first.ecn,
            version: first.version,
            // A copy: the buffer that it came in may be large and shared, and this may wait long.
            datagram: datagram.into(),
            dcid,
            scid,
            proof,
        };
        match &mut self.accept_queue {
            Some(queue) => {
                queue.push(incoming);
                Some(DatagramEvent::Queued)
            }
            None => Some(DatagramEvent::NewConnection(incoming)),
        }
    }

    /// Writes an Initial packet with CONNECTION_CLOSE that answers a first packet.
    fn write_refusal(
        &mut self,
        first: &FirstPacket<'_>,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        code: TransportErrorCode,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let own = self.generator.generate(&mut self.rng);
        let size = refusal::write(buf, first.version, dcid, scid, &own, code).ok()?;
        Some(answer_to(first.network_path, size))
    }

    /// Whether one more may wait, whose first datagram has so many bytes; without this one, if there is one.
    fn has_room(&self, server: &ServerConfig, datagram: usize, without: Option<&Incoming>) -> bool {
        let gone = usize::from(without.is_some());
        let bytes = without.map_or(0, |one| self.waiting.bytes_of(one));
        let mut half_open = self.half_open();
        half_open.connections -= gone;
        half_open.bytes -= bytes;
        self.waiting.len() - gone < server.max_incoming
            && self.waiting.fits(datagram, bytes)
            && half_open.has_room(server, datagram)
    }

    /// Whether there would be room in the place of one in the queue who is worth no more.
    fn could_make_room(&self, server: &ServerConfig, datagram: usize, proven: bool) -> bool {
        let least = self
            .accept_queue
            .as_ref()
            .and_then(|queue| queue.least(proven));
        least.is_some_and(|least| self.has_room(server, datagram, Some(least)))
    }

    /// Whether there is room, if need be in the place of one in the queue, who is forgotten: of those who come in a flood, the
    /// last one is no less likely to be honest, and the likeliest to be still waiting.
    fn make_room(&mut self, server: &ServerConfig, datagram: usize, proven: bool) -> bool {
        if self.has_room(server, datagram, None) {
            return true;
        }
        let could = self.could_make_room(server, datagram, proven);
        let queue = self.accept_queue.as_mut().filter(|_| could);
        if let Some(least) = queue.and_then(|queue| queue.give_up(proven)) {
            self.forget(&least);
        }
        could
    }

    /// A 0-RTT packet of a connection that nobody has asked for yet: its Initial packet may have been overtaken.
    pub(super) fn keep_early(&mut self, packet: &FirstPacket<'_>) {
        let server = self.server.as_ref();
        let takes_early_data = server.is_some_and(|server| server.tls.max_early_data_size > 0);
        if takes_early_data && (MIN_INITIAL_DCID..=MAX_CID_LEN).contains(&packet.dcid.len()) {
            self.early.keep(packet);
        }
    }

    /// What a token proves. `None` if it is one of a Retry packet and does not count.
    fn prove(
        &self,
        first: &FirstPacket<'_>,
        token: &[u8],
        dcid: &ConnectionId,
        server: &ServerConfig,
    ) -> Option<AddressProof> {
        //= specs/rfc9000.txt#section-8.1.3
        //# When a server receives an Initial packet with an address validation token, it MUST attempt
        //# to validate the token, unless it has already completed address validation.
        //= specs/rfc9000.txt#section-8.1.3
        //# If the validation succeeds, the server SHOULD then allow the handshake to proceed.
        let remote = first.network_path.remote;
        let lifetimes = server.token_lifetimes();
        let verdict = self.tokens.check(first.now, token, remote, dcid, lifetimes);
        match verdict {
            Verdict::Nothing => Some(AddressProof::None),
            Verdict::Retry { original_dcid } => Some(AddressProof::Retry { original_dcid }),
            //= specs/rfc9000.txt#section-8.1.4
            //# Tokens that are provided in NEW_TOKEN frames (Section 19.7) need to be valid for longer
            //# but SHOULD NOT be accepted multiple times.
            //= specs/rfc9000.txt#section-8.1.4
            //# To protect against such attacks, servers MUST ensure that replay of tokens is
            //# prevented or limited.
            // RFC 9369 section 5: nor do tokens of one version count with another. All of them are of version 1.
            Verdict::New { .. } if first.version != Version::V1 => Some(AddressProof::None),
            Verdict::New {
                nonce,
                issued,
                addresses,
            } => {
                let config = &server.validation_tokens;
                let issued = SystemTime::UNIX_EPOCH.checked_add(issued)?;
                match config.log.check_and_insert(nonce, issued, config.lifetime) {
                    Ok(()) => Some(AddressProof::Token { addresses }),
                    Err(TokenReuseError) => Some(AddressProof::None),
                }
            }
            Verdict::InvalidRetry => None,
        }
    }

    /// Answers an incoming connection with a Retry packet, written to `buf`, and forgets it. The client begins again
    /// with a token that proves its address, if it is there: then there is another [`Incoming`], whose
    /// [`remote_address_validated`](Incoming::remote_address_validated) is true.
    ///
    /// # Errors
    ///
    /// If the client has answered a Retry packet already. The error gives the incoming connection back.
    pub fn retry(
        &mut self,
        incoming: Incoming,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Result<Transmit, RetryError> {
        if !incoming.may_retry() {
            return Err(RetryError(Box::new(incoming)));
        }
        self.forget(&incoming);
        let (dcid, scid) = (incoming.dcid, incoming.scid);
        Ok(self.write_retry(
            now,
            incoming.network_path,
            incoming.version,
            &dcid,
            &scid,
            buf,
        ))
    }

    pub(super) fn write_retry(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        version: Version,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        // The client sends its next Initial packet to this ID, which must be as long as those that clients make up.
        let ids = CidGenerator::new(self.generator.len().max(MIN_INITIAL_DCID));
        let mut own = ids.generate(&mut self.rng);
        //= specs/rfc9000.txt#section-17.2.5.1
        //# This value MUST NOT be equal to the Destination Connection ID field of the packet sent by
        //# the client.
        while own == *dcid {
            own = ids.generate(&mut self.rng);
        }
        let remote = network_path.remote;
        let token = self.tokens.retry(now, &mut self.rng, remote, *dcid, &own);
        let size = retry::write(buf, version, dcid, scid, &own, &token);
        answer_to(network_path, size)
    }
}
