//! Transport parameters across connections (RFC 9000 section 7.4.1): what a client remembers of a server's for 0-RTT,
//! and what a server that accepts 0-RTT must not have reduced.

use super::{
    DEFAULT_ACK_DELAY_EXPONENT, DEFAULT_MAX_ACK_DELAY_MS, MAX_UDP_PAYLOAD_SIZE, TransportParameters,
};
use crate::TransportError;

/// The limits that a client's 0-RTT packets rest on.
pub const LIMITS: usize = 8;

impl TransportParameters {
    /// What of a server's parameters holds for 0-RTT packets on a later connection.
    pub fn remembered(mut self) -> Self {
        //= specs/rfc9000.txt#section-7.4.1
        //# A client MUST NOT use remembered values for the following parameters:
        //# ack_delay_exponent, max_ack_delay, initial_source_connection_id,
        //# original_destination_connection_id, preferred_address, retry_source_connection_id, and
        //# stateless_reset_token.
        self.ack_delay_exponent = DEFAULT_ACK_DELAY_EXPONENT;
        self.max_ack_delay_ms = DEFAULT_MAX_ACK_DELAY_MS;
        self.initial_source_connection_id = None;
        self.original_destination_connection_id = None;
        self.preferred_address = None;
        self.retry_source_connection_id = None;
        self.stateless_reset_token = None;
        //= specs/rfc10069-draft.md#nego
        //# The initial_max_path_id parameter MUST NOT be remembered
        //# for use in a subsequent connection ({{Section 7.4.1 of QUIC-TRANSPORT}}).
        self.initial_max_path_id = None;
        //= specs/quic-ack-frequency.md#nego
        //# Endpoints MUST NOT remember the value of the min_ack_delay transport parameter they
        //# received for use in a subsequent connection.
        self.min_ack_delay_us = None;
        // RFC 9287 section 3.1: without a token of the same connection, a client clears no bit of a new one.
        self.grease_quic_bit = false;
        self
    }

    /// The limits that a client may have relied on in 0-RTT packets.
    pub fn early_limits(&self) -> [u64; LIMITS] {
        [
            self.active_connection_id_limit,
            self.initial_max_data,
            self.initial_max_stream_data_bidi_local,
            self.initial_max_stream_data_bidi_remote,
            self.initial_max_stream_data_uni,
            self.initial_max_streams_bidi,
            self.initial_max_streams_uni,
            // RFC 9221 section 3.
            self.max_datagram_frame_size.unwrap_or(0),
        ]
    }

    /// A server that accepted 0-RTT sent these parameters; the client used the `remembered` ones.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION if one of them is smaller now.
    pub fn check_not_reduced(&self, remembered: &Self) -> Result<(), TransportError> {
        //= specs/rfc9000.txt#section-7.4.1
        //# In particular, a server that accepts 0-RTT data MUST NOT set values for the following
        //# parameters (Section 18.2) that are smaller than the remembered values of the parameters.
        //= specs/rfc9221.txt#section-3
        //# If a client stores the value of the max_datagram_frame_size transport parameter with
        //# their 0-RTT state, they MUST validate that the new value of the max_datagram_frame_size
        //# transport parameter sent by the server in the handshake is greater than or equal to the
        //# stored value; if not, the client MUST terminate the connection with error
        //# PROTOCOL_VIOLATION.
        if are_reduced(&remembered.early_limits(), &self.early_limits()) {
            return Err(TransportError::protocol_violation(
                "0-RTT accepted with smaller limits than those remembered",
            ));
        }
        Ok(())
    }

    /// The largest UDP payload for 0-RTT packets to a server whose remembered parameters these are.
    pub fn early_udp_payload(&self) -> usize {
        usize::try_from(self.max_udp_payload_size.min(MAX_UDP_PAYLOAD_SIZE)).unwrap_or(usize::MAX)
    }
}

/// Whether any of these limits is smaller now than it was.
pub fn are_reduced(before: &[u64; LIMITS], now: &[u64; LIMITS]) -> bool {
    before.iter().zip(now).any(|(before, now)| now < before)
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::{ConnectionId, Side};

    use super::*;

    /// All parameters, none at its default.
    fn full() -> TransportParameters {
        TransportParameters {
            max_idle_timeout_ms: 1,
            max_udp_payload_size: 1300,
            initial_max_data: 2,
            initial_max_stream_data_bidi_local: 3,
            initial_max_stream_data_bidi_remote: 4,
            initial_max_stream_data_uni: 5,
            initial_max_streams_bidi: 6,
            initial_max_streams_uni: 7,
            ack_delay_exponent: 8,
            max_ack_delay_ms: 9,
            disable_active_migration: true,
            active_connection_id_limit: 10,
            initial_source_connection_id: Some(ConnectionId::new(&[1; 8])),
            original_destination_connection_id: Some(ConnectionId::new(&[2; 8])),
            retry_source_connection_id: Some(ConnectionId::new(&[3; 8])),
            stateless_reset_token: Some([4; 16]),
            max_datagram_frame_size: Some(11),
            initial_max_path_id: Some(12),
            min_ack_delay_us: Some(13),
            grease_quic_bit: true,
            ..TransportParameters::default()
        }
    }

    //= specs/rfc9000.txt#section-7.4.1
    //= type=test
    //# A client MUST NOT use remembered values for the following parameters: ack_delay_exponent,
    //# max_ack_delay, initial_source_connection_id, original_destination_connection_id,
    //# preferred_address, retry_source_connection_id, and stateless_reset_token.
    //= specs/rfc10069-draft.md#nego
    //= type=test
    //# The initial_max_path_id parameter MUST NOT be remembered
    //# for use in a subsequent connection ({{Section 7.4.1 of QUIC-TRANSPORT}}).
    #[test]
    fn what_is_remembered_and_what_is_not() {
        let expected = TransportParameters {
            ack_delay_exponent: 3,
            max_ack_delay_ms: 25,
            initial_source_connection_id: None,
            original_destination_connection_id: None,
            preferred_address: None,
            retry_source_connection_id: None,
            stateless_reset_token: None,
            initial_max_path_id: None,
            min_ack_delay_us: None,
            grease_quic_bit: false,
            ..full()
        };
        let mut encoded = Vec::new();
        full().encode(Side::Server, &mut encoded);
        let decoded = TransportParameters::decode(Side::Server, &encoded).unwrap();
        assert_eq!(decoded.remembered(), expected);
    }

    //= specs/rfc9000.txt#section-7.4.1
    //= type=test
    //# In particular, a server that accepts 0-RTT data MUST NOT set values for the following
    //# parameters (Section 18.2) that are smaller than the remembered values of the parameters.
    #[test]
    fn each_limit_counts() {
        let lower: [fn(&mut TransportParameters); LIMITS] = [
            |p| p.active_connection_id_limit -= 1,
            |p| p.initial_max_data -= 1,
            |p| p.initial_max_stream_data_bidi_local -= 1,
            |p| p.initial_max_stream_data_bidi_remote -= 1,
            |p| p.initial_max_stream_data_uni -= 1,
            |p| p.initial_max_streams_bidi -= 1,
            |p| p.initial_max_streams_uni -= 1,
            |p| p.max_datagram_frame_size = None,
        ];
        let remembered = full().remembered();
        assert_eq!(full().check_not_reduced(&remembered), Ok(()));
        for lower in lower {
            let (mut smaller, mut before) = (full(), full().remembered());
            lower(&mut smaller);
            let error = smaller.check_not_reduced(&remembered).unwrap_err();
            assert_eq!(
                error.code,
                mpquic_sched_core::TransportErrorCode::PROTOCOL_VIOLATION
            );
            // The other way round, the limit has risen.
            lower(&mut before);
            assert_eq!(full().check_not_reduced(&before), Ok(()));
        }
    }
}
