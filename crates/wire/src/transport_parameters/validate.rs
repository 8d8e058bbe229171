//! Checks transport parameters against the handshake that carried them (RFC 9000 section 7.3; RFC 10069, initial_max_path_id).

use mpquic_sched_core::ConnectionId;

use super::TransportParameters;
use crate::TransportError;

/// The connection IDs that the peer must confirm: those of the packets that this endpoint saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedConnectionIds {
    /// The Source Connection ID of the peer's first Initial packet.
    pub initial_source: ConnectionId,
    /// At a client, the Destination Connection ID of its own first Initial packet; `None` at a server.
    pub original_destination: Option<ConnectionId>,
    /// At a client, the Source Connection ID of the Retry that it acted on, if any; `None` at a server.
    pub retry_source: Option<ConnectionId>,
}

impl TransportParameters {
    /// Authenticates the connection IDs of the handshake (RFC 9000 section 7.3), and applies the
    /// rules that tie parameters to them.
    ///
    /// # Errors
    ///
    /// TRANSPORT_PARAMETER_ERROR if an ID is missing, differs, or is there though it must not be;
    /// PROTOCOL_VIOLATION for multipath with a zero-length ID.
    //= specs/rfc9000.txt#section-7.3
    //# The values provided by a peer for these transport parameters MUST match the values that an
    //# endpoint used in the Destination and Source Connection ID fields of Initial packets that it
    //# sent (and received, for servers).
    //= specs/rfc9000.txt#section-7.3
    //# An endpoint MUST treat the following as a connection error of type TRANSPORT_PARAMETER_ERROR
    //# or PROTOCOL_VIOLATION:
    pub fn validate(&self, expected: &ExpectedConnectionIds) -> Result<(), TransportError> {
        for (name, is, should) in [
            (
                "initial_source_connection_id is missing or wrong",
                self.initial_source_connection_id,
                Some(expected.initial_source),
            ),
            (
                "original_destination_connection_id is missing, wrong or unexpected",
                self.original_destination_connection_id,
                expected.original_destination,
            ),
            (
                "retry_source_connection_id is missing, wrong or unexpected",
                self.retry_source_connection_id,
                expected.retry_source,
            ),
        ] {
            //= specs/rfc9000.txt#section-7.3
            //# Endpoints MUST validate that received transport parameters match received connection
            //# ID values.
            //= specs/rfc9000.txt#section-7.3
            //# An endpoint MUST treat the absence of the initial_source_connection_id transport
            //# parameter from either endpoint or the absence of the
            //# original_destination_connection_id transport parameter from the server as a
            //# connection error of type TRANSPORT_PARAMETER_ERROR.
            if is != should {
                return Err(TransportError::transport_parameter(name));
            }
        }
        if expected.initial_source.is_empty() {
            if self.preferred_address.is_some() {
                //= specs/rfc9000.txt#section-18.2
                //# A client MUST treat a violation of these requirements as a connection error of
                //# type TRANSPORT_PARAMETER_ERROR.
                return Err(TransportError::transport_parameter(
                    "preferred_address with a zero-length connection ID",
                ));
            }
            //= specs/rfc10069-draft.md#nego
            //# If an initial_max_path_id transport parameter is received and the carrying packet
            //# contains a zero-length connection ID, the receiver MUST treat this as a connection
            //# error of type PROTOCOL_VIOLATION and close the connection.
            if self.initial_max_path_id.is_some() {
                return Err(TransportError::protocol_violation(
                    "initial_max_path_id with a zero-length connection ID",
                ));
            }
        }
        Ok(())
    }
}
