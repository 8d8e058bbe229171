//! What the progress of TLS means for the connection: parameters, keys dropped, confirmation, the
//! extension negotiated; does not touch packets.

use std::time::Instant;

use mpquic_sched_core::{PathUpdateKind, Side, TransportErrorCode};

use super::{Connection, Event};
use crate::config::PathStart;
use crate::events::EndpointEvent;
use crate::handshake::Progress;
use crate::space::SpaceId;
use crate::transport_parameters::{ExpectedConnectionIds, TransportParameters};
use crate::{Observation, Parameters, PathEvent, PathId, TransportError};

/// Changes of what a half-open connection keeps that the endpoint does not hear of.
const HANDSHAKE_MEMORY_STEP: usize = 1024;

impl Connection {
    /// A CRYPTO frame.
    pub(crate) fn on_crypto(
        &mut self,
        now: Instant,
        space_id: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let progress = self.handshake.on_crypto(space_id, offset, data)?;
        self.read_parameters(now)?;
        self.on_progress(now, progress)
    }

    fn on_progress(&mut self, now: Instant, progress: Progress) -> Result<(), TransportError> {
        if progress.one_rtt_keys
            && self.side == Side::Server
            && self.peer_known
            && self.config.path_start == PathStart::Complete
        {
            self.start_multipath();
            self.paths
                .issue_early_cids(&mut self.rng, &mut self.endpoint_events);
        }
        if progress.complete {
            if !self.peer_known {
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
            if self
                .counted
                .as_mut()
                .is_some_and(|counted| !counted.enter())
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
            self.state.establish();
            self.events.push_back(Event::Connected);
            self.watch.note(now, Observation::HandshakeComplete);
            self.start_multipath();
            self.handshake_deadline = None;
            if self.side == Side::Server {
                self.endpoint_events
                    .push_back(EndpointEvent::HandshakeComplete);
                // RFC 9001 section 4.1.2: for a server, complete is confirmed.
                //= specs/rfc9000.txt#section-19.20
                //# Servers MUST NOT send a HANDSHAKE_DONE frame before completing the handshake.
                //= specs/rfc9001.txt#section-4.1.2
                //# The server MUST send a HANDSHAKE_DONE frame as soon as the handshake is
                //# complete.
                self.handshake_done_pending = true;
                self.on_address_proven(now, PathId::ZERO);
                self.confirm(now);
            }
            self.paths
                .issue_cids(&mut self.rng, &mut self.endpoint_events);
            self.events
                .push_back(Event::Path(PathEvent::Opened { id: PathId::ZERO }));
            if let Some(index) = self.paths.get(PathId::ZERO).map(|path| path.index) {
                self.tell_scheduler(now, index, PathUpdateKind::Opened);
                self.tell_scheduler(now, index, PathUpdateKind::Validated);
            }
        }
        if (progress.handshake_keys || progress.one_rtt_keys || progress.complete)
            && !self.handshake.undecryptable.is_empty()
        {
            self.retry_undecryptable(now);
        }
        Ok(())
    }

    /// Tells the endpoint what a half-open connection keeps, once it differs by enough to matter.
    pub(crate) fn tell_handshake_memory(&mut self) {
        if self.side != Side::Server || !self.state.is_handshaking() {
            return;
        }
        let bytes = self.handshake.memory();
        if bytes.abs_diff(self.handshake_memory_told) >= HANDSHAKE_MEMORY_STEP {
            self.handshake_memory_told = bytes;
            self.endpoint_events
                .push_back(EndpointEvent::HandshakeBytes(bytes));
        }
    }

    /// Reads the peer's transport parameters as soon as TLS has them.
    fn read_parameters(&mut self, now: Instant) -> Result<(), TransportError> {
        if self.peer_known {
            return Ok(());
        }
        let Some(encoded) = self.handshake.peer_parameters() else {
            return Ok(());
        };
        let peer = TransportParameters::decode(!self.side, encoded)?;
        let remote_scid = self.paths.remote_cids().active(PathId::ZERO);
        peer.validate(&ExpectedConnectionIds {
            initial_source: remote_scid.unwrap_or(self.original_dcid),
            original_destination: (self.side == Side::Client).then_some(self.original_dcid),
            retry_source: self.retry.as_ref().map(|retry| retry.source),
        })?;
        self.settle_early_data(&peer)?;
        //= specs/rfc9000.txt#section-7.4.1
        //# Once the handshake completes, the client uses the transport parameters established in
        //# the handshake.
        if let Some(information) = &peer.version_information {
            information.check(self.version)?;
        }
        if peer.grease_quic_bit && self.endpoint_config.grease_quic_bit {
            let seed = self.paths.reset_token(&self.handshake_scid);
            self.quic_bit.start(seed);
        }
        //= specs/rfc9000.txt#section-7.4.1
        //# The client MUST use the server's new values in the handshake instead; if the server does
        //# not provide new values, the default values are used.
        self.peer = peer;
        self.peer_known = true;
        self.paths.set_peer(&self.peer, &mut self.endpoint_events)?;
        self.data.set_peer_params(&self.peer);
        self.watch.note(
            now,
            Observation::Parameters(Parameters::of(&self.peer, true)),
        );
        self.events.push_back(Event::HandshakeDataReady);
        Ok(())
    }

    /// RFC 10069: used once the handshake is complete, if both sides sent initial_max_path_id. A server that issues
    /// connection IDs before that does so in packets that its client cannot read earlier.
    fn start_multipath(&mut self) {
        //= specs/rfc9000.txt#section-19.21
        //# An extension to QUIC that wishes to use a new type of frame MUST first ensure that a
        //# peer is able to understand the frame.
        //= specs/rfc10069-draft.md#connection-lifecycle-and-packet-protection
        //# If either of the endpoints does not advertise the initial_max_path_id transport
        //# parameter, then both endpoints MUST NOT use any frame or mechanism defined in this
        //# document.
        if self.config.max_paths > 1
            && let Some(remote) = self.peer.initial_max_path_id
        {
            self.paths
                .start_multipath(self.config.max_paths - 1, remote);
        }
    }

    /// HANDSHAKE_DONE came.
    pub(crate) fn on_handshake_done(&mut self, now: Instant) -> Result<(), TransportError> {
        if self.side == Side::Server {
            //= specs/rfc9000.txt#section-19.20
            //# A server MUST treat receipt of a HANDSHAKE_DONE frame as a connection error of type
            //# PROTOCOL_VIOLATION.
            return Err(TransportError::protocol_violation(
                "HANDSHAKE_DONE from a client",
            ));
        }
        let repeated = self.confirmed;
        self.confirm(now);
        //= specs/rfc9000.txt#section-9.6.1
        //# Once the handshake is confirmed, the client SHOULD select one of the two addresses
        //# provided by the server and initiate path validation (see Section 8.2).
        if !repeated {
            self.paths.try_preferred_address(now);
        }
        Ok(())
    }

    /// RFC 9001 section 4.1.2.
    fn confirm(&mut self, now: Instant) {
        if self.confirmed {
            return;
        }
        self.confirmed = true;
        //= specs/rfc9001.txt#section-4.9.2
        //# An endpoint MUST discard its Handshake keys when the TLS handshake is confirmed (Section
        //# 4.1.2).
        self.discard_space(SpaceId::Handshake);
        if let Some(keys) = &mut self.handshake.one_rtt {
            keys.make_next();
        }
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            // RFC 9002 section 6.2.1: the PTO starts afresh.
            path.reset_pto_backoff();
            path.validate();
        }
        self.events.push_back(Event::HandshakeConfirmed);
        self.watch.note(now, Observation::HandshakeConfirmed);
        self.announce_available();
    }

    /// RFC 9001 section 4.9.1: a client drops Initial keys when it first sends a Handshake packet, a
    /// server when it first processes one.
    pub(crate) fn discard_space(&mut self, space_id: SpaceId) {
        self.handshake.discard(space_id);
        //= specs/rfc9002.txt#section-6.4
        //# The sender MUST discard all recovery state associated with those packets and MUST remove
        //# them from the count of bytes in flight.
        if self.spaces.discard(space_id)
            && let Some(path) = self.paths.get_mut(PathId::ZERO)
        {
            //= specs/rfc9002.txt#section-6.2.2
            //# When Initial or Handshake keys are discarded, the PTO and loss detection timers MUST
            //# be reset, because discarding keys indicates forward progress and the loss detection
            //# timer might have been set for a now- discarded packet number space.
            path.reset_pto_backoff();
        }
        if space_id == SpaceId::Initial {
            self.initial_token = bytes::Bytes::new();
        }
    }
}
