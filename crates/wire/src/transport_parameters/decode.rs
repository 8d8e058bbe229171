//! Reads transport parameters and checks each by itself (RFC 9000 sections 7.4 and 18.2).

use mpquic_sched_core::{ConnectionId, Side};

use super::{PreferredAddress, TransportParameters, VersionInformation, id};
use crate::TransportError;
use crate::frame::MAX_STREAM_COUNT;
use crate::packet::MAX_CID_LEN;
use crate::packet::varint::Reader;

fn invalid(reason: &'static str) -> TransportError {
    TransportError::transport_parameter(reason)
}

/// A parameter that is one varint and nothing else.
fn int(mut value: Reader<'_>) -> Result<u64, TransportError> {
    match value.varint() {
        Ok(x) if value.is_empty() => Ok(x),
        _ => Err(invalid("an integer parameter of the wrong length")),
    }
}

/// An integer that `valid` accepts.
fn checked(
    value: Reader<'_>,
    valid: impl FnOnce(u64) -> bool,
    reason: &'static str,
) -> Result<u64, TransportError> {
    let x = int(value)?;
    if valid(x) {
        Ok(x)
    } else {
        //= specs/rfc9000.txt#section-7.4
        //# An endpoint MUST treat receipt of a transport parameter with an invalid value as a
        //# connection error of type TRANSPORT_PARAMETER_ERROR.
        Err(invalid(reason))
    }
}

/// RFC 9000 section 4.6.
fn streams(value: Reader<'_>) -> Result<u64, TransportError> {
    checked(
        value,
        //= specs/rfc9000.txt#section-4.6
        //# If either is received, the connection MUST be closed immediately with a connection error
        //# of type TRANSPORT_PARAMETER_ERROR if the offending value was received in a transport
        //# parameter or of type FRAME_ENCODING_ERROR if it was received in a frame; see Section
        //# 10.2.
        |x| x <= MAX_STREAM_COUNT,
        "initial_max_streams above 2^60",
    )
}

fn cid(value: Reader<'_>) -> Result<ConnectionId, TransportError> {
    if value.remaining() > MAX_CID_LEN {
        return Err(invalid("a connection ID above 20 bytes"));
    }
    Ok(ConnectionId::new(value.rest()))
}

fn token(mut value: Reader<'_>) -> Result<[u8; 16], TransportError> {
    match value.array() {
        Ok(token) if value.is_empty() => Ok(token),
        _ => Err(invalid("stateless_reset_token not of 16 bytes")),
    }
}

/// IDs seen so far. Known ones fit the mask; of others there are at most as many as the encoding has
/// bytes, and they are compared once, at the end.
#[derive(Default)]
struct Seen {
    known: u64,
    other: Vec<u64>,
}

impl Seen {
    /// Whether `id` is new, as far as that can be told at once.
    fn insert(&mut self, id: u64) -> bool {
        if id < 64 {
            let bit = 1 << id;
            let new = self.known & bit == 0;
            self.known |= bit;
            new
        } else {
            self.other.push(id);
            true
        }
    }

    fn has_duplicates(mut self) -> bool {
        self.other.sort_unstable();
        self.other.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl TransportParameters {
    /// What `sender` sent. Parameters that are not known are ignored (RFC 9000 section 7.4.2).
    ///
    /// # Errors
    ///
    /// TRANSPORT_PARAMETER_ERROR for anything truncated, sent twice, out of bounds, or sent by a
    /// client although it is the server's to send.
    pub fn decode(sender: Side, data: &[u8]) -> Result<Self, TransportError> {
        let mut params = Self::default();
        let mut seen = Seen::default();
        let mut r = Reader::new(data);
        while !r.is_empty() {
            let (Ok(id), Ok(value)) = (r.varint(), r.varint_bytes()) else {
                return Err(invalid("truncated"));
            };
            //= specs/rfc9000.txt#section-7.4
            //# An endpoint SHOULD treat receipt of duplicate transport parameters as a connection
            //# error of type TRANSPORT_PARAMETER_ERROR.
            if !seen.insert(id) {
                return Err(invalid("sent twice"));
            }
            params.set(sender, id, Reader::new(value))?;
        }
        if seen.has_duplicates() {
            return Err(invalid("sent twice"));
        }
        //= specs/quic-ack-frequency.md#nego
        //# Endpoints that support this extension MUST treat receipt of a min_ack_delay that
        //# is greater than the max_ack_delay as a connection error of type
        //# TRANSPORT_PARAMETER_ERROR.
        if params
            .min_ack_delay_us
            .is_some_and(|min| min > params.max_ack_delay_ms * 1000)
        {
            return Err(invalid("min_ack_delay above max_ack_delay"));
        }
        Ok(params)
    }

    fn set(&mut self, sender: Side, id: u64, mut value: Reader<'_>) -> Result<(), TransportError> {
        match id {
            id::ORIGINAL_DESTINATION_CONNECTION_ID
            | id::STATELESS_RESET_TOKEN
            | id::PREFERRED_ADDRESS
            | id::RETRY_SOURCE_CONNECTION_ID
                if sender == Side::Client =>
            {
                //= specs/rfc9000.txt#section-18.2
                //# A server MUST treat receipt of any of these transport parameters as a connection
                //# error of type TRANSPORT_PARAMETER_ERROR.
                return Err(invalid("a server's parameter from a client"));
            }
            id::ORIGINAL_DESTINATION_CONNECTION_ID => {
                self.original_destination_connection_id = Some(cid(value)?);
            }
            id::MAX_IDLE_TIMEOUT => self.max_idle_timeout_ms = int(value)?,
            id::STATELESS_RESET_TOKEN => self.stateless_reset_token = Some(token(value)?),
            id::MAX_UDP_PAYLOAD_SIZE => {
                self.max_udp_payload_size =
                    checked(value, |x| x >= 1200, "max_udp_payload_size below 1200")?;
            }
            id::INITIAL_MAX_DATA => self.initial_max_data = int(value)?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
                self.initial_max_stream_data_bidi_local = int(value)?;
            }
            id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                self.initial_max_stream_data_bidi_remote = int(value)?;
            }
            id::INITIAL_MAX_STREAM_DATA_UNI => self.initial_max_stream_data_uni = int(value)?,
            id::INITIAL_MAX_STREAMS_BIDI => self.initial_max_streams_bidi = streams(value)?,
            id::INITIAL_MAX_STREAMS_UNI => self.initial_max_streams_uni = streams(value)?,
            id::ACK_DELAY_EXPONENT => {
                let x = checked(value, |x| x <= 20, "ack_delay_exponent above 20")?;
                self.ack_delay_exponent = x as u8;
            }
            id::MAX_ACK_DELAY => {
                self.max_ack_delay_ms =
                    checked(value, |x| x < 1 << 14, "max_ack_delay of 2^14 or more")?;
            }
            id::DISABLE_ACTIVE_MIGRATION => {
                if !value.is_empty() {
                    return Err(invalid("disable_active_migration with a value"));
                }
                self.disable_active_migration = true;
            }
            id::PREFERRED_ADDRESS => {
                self.preferred_address = match PreferredAddress::decode(&mut value) {
                    Ok(address) if value.is_empty() => Some(address),
                    _ => return Err(invalid("malformed preferred_address")),
                };
            }
            //= specs/rfc9000.txt#section-18.2
            //# An endpoint that receives a value less than 2 MUST close the connection with an
            //# error of type TRANSPORT_PARAMETER_ERROR.
            id::ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_connection_id_limit =
                    checked(value, |x| x >= 2, "active_connection_id_limit below 2")?;
            }
            id::INITIAL_SOURCE_CONNECTION_ID => {
                self.initial_source_connection_id = Some(cid(value)?);
            }
            id::RETRY_SOURCE_CONNECTION_ID => {
                self.retry_source_connection_id = Some(cid(value)?);
            }
            id::MAX_DATAGRAM_FRAME_SIZE => {
                // RFC 9221 section 3: 0 is the default, no datagrams.
                self.max_datagram_frame_size = Some(int(value)?).filter(|&size| size > 0);
            }
            id::INITIAL_MAX_PATH_ID => {
                let x = int(value)?;
                //= specs/rfc10069-draft.md#nego
                //# If an initial_max_path_id transport parameter value higher than 2<sup>32</sup>-1
                //# is received, the receiver MUST close the connection with an error of type
                //# TRANSPORT_PARAMETER_ERROR.
                let x = u32::try_from(x);
                self.initial_max_path_id =
                    Some(x.map_err(|_| invalid("initial_max_path_id above 2^32-1"))?);
            }
            id::VERSION_INFORMATION => {
                // RFC 9368 section 4.
                let information = VersionInformation::decode(value);
                self.version_information =
                    Some(information.ok_or_else(|| invalid("malformed version_information"))?);
            }
            id::GREASE_QUIC_BIT => {
                // RFC 9287 section 3: a value is an error.
                if !value.is_empty() {
                    return Err(invalid("grease_quic_bit with a value"));
                }
                self.grease_quic_bit = true;
            }
            id::MIN_ACK_DELAY => self.min_ack_delay_us = Some(int(value)?),
            //= specs/rfc9000.txt#section-7.4.2
            //# An endpoint MUST ignore transport parameters that it does not support.
            _ => {}
        }
        Ok(())
    }
}
