//! A server's Retry, on the client (RFC 9000 section 17.2.5): once per attempt, before anything else
//! of the server's. The server's side is the endpoint's.

use bytes::Bytes;
use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::verify_retry_tag;

use super::Handshake;
use crate::crypto::initial_keys;
use crate::limits;
use crate::sent_frame::SentFrame;
use crate::space::SpaceId;

impl Handshake {
    /// Whether a Retry for our ID `dcid` is to be acted on. If not, it is dropped in silence: anyone who saw the first
    /// Initial packet can make a Retry.
    pub(crate) fn accepts_retry(
        &self,
        dcid: &ConnectionId,
        source: &ConnectionId,
        token: &[u8],
        packet: &[u8],
    ) -> bool {
        let expected = self.side == Side::Client
            //= specs/rfc9000.txt#section-17.2.5.2
            //# After the client has received and processed an Initial or Retry packet from the
            //# server, it MUST discard any subsequent Retry packets that it receives.
            && !self.heard
            //= specs/rfc9000.txt#section-17.2.5.2
            //# A client MUST accept and process at most one Retry packet for each connection
            //# attempt.
            && self.retry_source.is_none()
            && *dcid == self.scid
            //= specs/rfc9000.txt#section-17.2.5.1
            //# A client MUST discard a Retry packet that contains a Source Connection ID field that
            //# is identical to the Destination Connection ID field of its Initial packet.
            && *source != self.original_dcid
            && token.len() <= limits::MAX_RETRY_TOKEN;
        //= specs/rfc9000.txt#section-17.2.5.2
        //# Clients MUST discard Retry packets that have a Retry Integrity Tag that cannot be
        //# validated; see Section 5.8 of [QUIC-TLS].
        expected && verify_retry_tag(self.version, &self.original_dcid, packet)
    }

    /// Begins again with the token of a Retry, whose packets go to `source` from now on.
    //= specs/rfc9000.txt#section-8.1.3
    //# In comparison, a token obtained in a Retry packet MUST be used immediately during the
    //# connection attempt and cannot be used in subsequent connection attempts.
    pub(crate) fn retry(&mut self, source: ConnectionId, token: &[u8]) {
        // RFC 9001 section 5.2: the keys of Initial packets follow the new destination.
        self.session.initial = Some(initial_keys(self.version, &source, self.side));
        self.retry_source = Some(source);
        //= specs/rfc9000.txt#section-8.1.2
        //# This token MUST be repeated by the client in all Initial packets it sends for that
        //# connection after it receives the Retry packet.
        //= specs/rfc9000.txt#section-8.1.3
        //# The client MUST include the token in all Initial packets it sends, unless a Retry replaces
        //# the token with a newer one.
        //= specs/rfc9000.txt#section-8.1.3
        //# The client MUST NOT use the token provided in a Retry for future connections.
        self.initial_token = Bytes::copy_from_slice(token);
        // RFC 9002 section 6.2.3: what is in flight was dropped by the server; the same CRYPTO data goes
        // out again, in packets whose numbers go on (RFC 9000 section 17.2.5.3).
        let mut lost = Vec::new();
        if let Some(space) = self.spaces.get_mut(SpaceId::Initial) {
            //= specs/rfc9000.txt#section-17.2.5.3
            //# A client MUST use the same cryptographic handshake message it included in this
            //# packet.
            //= specs/rfc9000.txt#section-17.2.5.3
            //# A client MUST NOT reset the packet number for any packet number space after
            //# processing a Retry packet.
            space.drain_all(&mut lost);
            space.last_ack_eliciting_sent = None;
        }
        for (_, packet) in lost {
            for frame in &packet.frames {
                if let SentFrame::Crypto { start, end } = *frame {
                    self.session.stream(SpaceId::Initial).on_lost(start, end);
                }
            }
        }
        self.spaces.request_probes(SpaceId::Initial, 0);
    }

    /// Whether a Version Negotiation packet for our ID `dcid` may be about this attempt.
    //= specs/rfc9000.txt#section-6.2
    //# A client MUST discard any Version Negotiation packet if it has received and
    //# successfully processed any other packet, including an earlier Version
    //# Negotiation packet.
    //= specs/rfc9000.txt#section-6.2
    //# A client MUST discard a Version Negotiation packet that lists the QUIC version
    //# selected by the client.
    pub(crate) fn accepts_negotiation(
        &self,
        dcid: &ConnectionId,
        mut versions: impl Iterator<Item = u32>,
    ) -> bool {
        self.side == Side::Client
            && !self.heard
            && self.retry_source.is_none()
            && *dcid == self.scid
            && !versions.any(|version| version == self.version.number())
    }
}
