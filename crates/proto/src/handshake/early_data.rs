//! The keys of 0-RTT packets, and whether the server took them (RFC 9001 sections 4.6 and 4.9.3).

use std::time::Instant;

use mpquic_wire::frame::AckFrame;
use rustls::quic::DirectionalKeys;

use crate::TransportError;

/// What becomes of early data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fate {
    /// The client offered none, or the server did not take it.
    #[default]
    None,
    /// The client sends it, and does not know yet whether the server takes it.
    Offered,
    Accepted,
    /// The client sent it in vain.
    Rejected,
}

/// Early data of one connection.
#[derive(Default)]
pub(crate) struct EarlyData {
    fate: Fate,
    /// The client's for sending, the server's for receiving. Boxed: few connections have them, and not for long.
    keys: Option<Box<DirectionalKeys>>,
    /// On clients whose early data was rejected, the first packet number that is not one of a 0-RTT packet.
    rejected_below: u64,
    /// On servers, when the keys are forgotten.
    discard_at: Option<Instant>,
}

impl EarlyData {
    /// A client may send with these keys.
    pub(super) fn offer(&mut self, keys: DirectionalKeys) {
        self.fate = Fate::Offered;
        self.keys = Some(Box::new(keys));
    }

    /// A server takes what comes with these keys.
    pub(super) fn accept(&mut self, keys: DirectionalKeys) {
        self.fate = Fate::Accepted;
        self.keys = Some(Box::new(keys));
    }

    /// The client has 1-RTT keys, and knows whether the server took what it sent before. Returns that,
    /// once; `None` if it offered nothing.
    pub(super) fn settle(&mut self, accepted: bool) -> Option<bool> {
        //= specs/rfc9001.txt#section-5.6
        //# Once a client has installed 1-RTT keys, it MUST NOT send any more 0-RTT packets.
        //= specs/rfc9001.txt#section-4.9.3
        //# Therefore, a client SHOULD discard 0-RTT keys as soon as it installs 1-RTT keys as they
        //# have no use after that moment.
        self.keys = None;
        if self.fate != Fate::Offered {
            return None;
        }
        self.fate = if accepted {
            Fate::Accepted
        } else {
            Fate::Rejected
        };
        Some(accepted)
    }

    /// Whether the client offered any, or the server took some.
    pub(crate) fn is_used(&self) -> bool {
        self.fate != Fate::None
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.fate == Fate::Accepted
    }

    pub(crate) fn is_rejected(&self) -> bool {
        self.fate == Fate::Rejected
    }

    /// All packets below this number were 0-RTT packets, and rejected.
    pub(crate) fn reject_below(&mut self, number: u64) {
        self.rejected_below = number;
    }

    /// The peer has rejected 0-RTT packets: an acknowledgement of packets on path 0 must not be of those.
    #[cold]
    pub(crate) fn check_ack(&self, frame: &AckFrame<'_>) -> Result<(), TransportError> {
        let mut ranges = frame.blocks.iter();
        //= specs/rfc9001.txt#section-4.6.2
        //# When 0-RTT was rejected, a client SHOULD treat receipt of an acknowledgment for a
        //# 0-RTT packet as a connection error of type PROTOCOL_VIOLATION, if it is able to
        //# detect the condition.
        if ranges.any(|range| *range.start() < self.rejected_below) {
            return Err(TransportError::protocol_violation(
                "acknowledgement of a 0-RTT packet that was rejected",
            ));
        }
        Ok(())
    }

    pub(crate) fn keys(&self) -> Option<&DirectionalKeys> {
        self.keys.as_deref()
    }

    /// A server received a 1-RTT packet: the keys will be forgotten at `at`, unless that is known already.
    pub(crate) fn discard_at(&mut self, at: Instant) {
        if self.keys.is_some() {
            //= specs/rfc9001.txt#section-4.9.3
            //# After receiving a 1-RTT packet, servers MUST discard 0-RTT keys within a short time;
            //# the RECOMMENDED time period is three times the Probe Timeout (PTO, see
            //# [QUIC-RECOVERY]).
            self.discard_at.get_or_insert(at);
        }
    }

    pub(crate) fn timer(&self) -> Option<Instant> {
        self.discard_at
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.discard_at.is_some_and(|at| at <= now) {
            self.keys = None;
            self.discard_at = None;
        }
    }
}
