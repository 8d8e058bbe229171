//! Early data (RFC 9001 section 4.6) in the life of a connection: what a client assumes of the server until it has
//! answered, and what becomes of that; builds no packets.

use mpquic_sched_core::{Side, StreamId};

use super::Connection;
use crate::transport_parameters::TransportParameters;
use crate::{PathId, TransportError, space::SpaceId};

impl Connection {
    /// A client that resumes a session takes the server's limits of the earlier connection for those of
    /// this one, if TLS lets it send early data.
    //= specs/rfc9000.txt#section-7.4.1
    //# When sending frames in 0-RTT packets, a client MUST only use remembered transport
    //# parameters; importantly, it MUST NOT use updated values that it learns from the server's
    //# updated transport parameters or from frames received in 1-RTT packets.
    pub(super) fn start_early_data(&mut self) {
        let Some(encoded) = self.handshake.remembered_parameters() else {
            return;
        };
        // What a store of sessions has kept may be anything.
        let Ok(parameters) = TransportParameters::decode(Side::Server, encoded) else {
            return;
        };
        //= specs/rfc9000.txt#section-7.4.1
        //# A client that attempts to send 0-RTT data MUST remember all other transport parameters
        //# used by the server that it is able to process.
        self.peer = parameters.remembered();
        self.handshake.offer_early_data();
        self.data.set_peer_params(&self.peer);
    }

    /// A client has the server's own parameters: whether it took the early data, and what follows.
    pub(super) fn settle_early_data(
        &mut self,
        parameters: &TransportParameters,
    ) -> Result<(), TransportError> {
        match self.handshake.settle_early_data() {
            //= specs/rfc9000.txt#section-7.4.1
            //# If 0-RTT data is accepted by the server, the server MUST NOT reduce any limits or
            //# alter any values that might be violated by the client with its 0-RTT data.
            Some(true) => parameters.check_not_reduced(&self.peer),
            Some(false) => {
                self.forget_early_data();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The server did not take the early data: it is as if it had never been sent.
    fn forget_early_data(&mut self) {
        //= specs/rfc9002.txt#section-6.4
        //# When 0-RTT is rejected, recovery state for all in-flight 0-RTT packets is discarded.
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            path.discard_in_flight();
            if let Some((number, _)) = path.next_number() {
                self.handshake.early_data.reject_below(number);
            }
        }
        //= specs/rfc9001.txt#section-4.6.2
        //# The client therefore MUST reset the state of all streams, including application state
        //# bound to those streams.
        self.data.start_over(&self.config);
    }

    /// A Retry came: the server has dropped what was sent so far. It goes out again after the new Initial packet.
    pub(super) fn repeat_early_data(&mut self) {
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        let index = path.index;
        //= specs/rfc9000.txt#section-17.2.3
        //# A client SHOULD attempt to resend data in 0-RTT packets after it sends a new Initial
        //# packet.
        for packet in path.discard_in_flight() {
            for frame in &packet.frames {
                self.on_frame_lost(SpaceId::Data, frame, index);
            }
        }
    }

    /// Whether this connection sends, or has sent, early data (0-RTT): a client that resumes a session,
    /// if its TLS configuration enables early data and the server's ticket allows it. On servers,
    /// whether early data was accepted.
    ///
    /// A client can open streams and write to them from the start then. What it writes before the
    /// handshake is complete can be read by the server twice and more: whoever recorded the packets can
    /// send them again, to the same server or to another one of the same service. Write only what does
    /// no harm when it is repeated (RFC 9001 section 9.2).
    pub fn has_0rtt(&self) -> bool {
        self.handshake.early_data.is_used()
    }

    /// Whether the server has accepted early data. On clients, false until the handshake is complete.
    pub fn accepted_0rtt(&self) -> bool {
        self.handshake.early_data.is_accepted()
    }

    /// Whether the server has rejected this client's early data. Streams that were opened before
    /// [`Event::Connected`](crate::Event::Connected) are gone then, with all that was written to them, and so are
    /// datagrams; their IDs are given to the streams that are opened from then on.
    pub fn rejected_0rtt(&self) -> bool {
        self.handshake.early_data.is_rejected()
    }

    /// On servers, whether data of this stream came in 0-RTT packets, so that it may be a repetition of
    /// what another connection brought before. False once the stream was read to its end.
    pub fn is_0rtt(&self, id: StreamId) -> bool {
        self.has_0rtt() && self.data.streams().is_early(id)
    }

    /// Whether the TLS session is one of an earlier connection. False until the handshake data is known.
    pub fn is_resumed(&self) -> bool {
        self.handshake.is_resumed()
    }
}
