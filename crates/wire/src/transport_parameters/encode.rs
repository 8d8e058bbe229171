//! Writes transport parameters (RFC 9000 section 18); those that equal their default are left out.

use mpquic_sched_core::Side;
use rand::{Rng, RngExt};

use super::{
    DEFAULT_ACK_DELAY_EXPONENT, DEFAULT_ACTIVE_CONNECTION_ID_LIMIT, DEFAULT_MAX_ACK_DELAY_MS,
    MAX_UDP_PAYLOAD_SIZE, TransportParameters, id,
};
use crate::packet::varint;

/// A reserved parameter, which every receiver must ignore (RFC 9000 section 18.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grease {
    id: u64,
    value: [u8; 16],
    len: u8,
}

impl Grease {
    /// IDs of the form 31 * N + 27 are reserved.
    pub fn new(rng: &mut impl Rng) -> Self {
        let mut value = [0; 16];
        rng.fill_bytes(&mut value);
        Self {
            id: 31 * rng.random_range(0..=(varint::MAX - 27) / 31) + 27,
            value,
            len: rng.random_range(0..=16),
        }
    }
}

fn put(buf: &mut Vec<u8>, id: u64, value: &[u8]) {
    varint::put(buf, id);
    varint::put(buf, value.len() as u64);
    buf.extend_from_slice(value);
}

fn put_int(buf: &mut Vec<u8>, id: u64, value: u64) {
    varint::put(buf, id);
    varint::put(buf, varint::size(value) as u64);
    varint::put(buf, value);
}

impl TransportParameters {
    /// Appends what `side` sends: a client never sends what is the server's to send
    /// (RFC 9000 section 18.2).
    //= specs/rfc9000.txt#section-7.4
    //# An endpoint MUST NOT send a parameter more than once in a given transport parameters
    //# extension.
    pub fn encode(&self, side: Side, buf: &mut Vec<u8>) {
        for (id, value, default) in [
            (id::MAX_IDLE_TIMEOUT, self.max_idle_timeout_ms, 0),
            (
                id::MAX_UDP_PAYLOAD_SIZE,
                self.max_udp_payload_size,
                MAX_UDP_PAYLOAD_SIZE,
            ),
            (id::INITIAL_MAX_DATA, self.initial_max_data, 0),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
                self.initial_max_stream_data_bidi_local,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
                self.initial_max_stream_data_bidi_remote,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_UNI,
                self.initial_max_stream_data_uni,
                0,
            ),
            (
                id::INITIAL_MAX_STREAMS_BIDI,
                self.initial_max_streams_bidi,
                0,
            ),
            (id::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni, 0),
            (
                id::ACK_DELAY_EXPONENT,
                self.ack_delay_exponent.into(),
                DEFAULT_ACK_DELAY_EXPONENT.into(),
            ),
            (
                id::MAX_ACK_DELAY,
                self.max_ack_delay_ms,
                DEFAULT_MAX_ACK_DELAY_MS,
            ),
            (
                id::ACTIVE_CONNECTION_ID_LIMIT,
                self.active_connection_id_limit,
                DEFAULT_ACTIVE_CONNECTION_ID_LIMIT,
            ),
        ] {
            if value != default {
                put_int(buf, id, value);
            }
        }
        if self.disable_active_migration {
            put(buf, id::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if let Some(cid) = &self.initial_source_connection_id {
            put(buf, id::INITIAL_SOURCE_CONNECTION_ID, cid);
        }
        if let Some(size) = self.max_datagram_frame_size {
            put_int(buf, id::MAX_DATAGRAM_FRAME_SIZE, size);
        }
        if let Some(path) = self.initial_max_path_id {
            put_int(buf, id::INITIAL_MAX_PATH_ID, path.into());
        }
        if let Some(information) = &self.version_information {
            put(buf, id::VERSION_INFORMATION, &information.value());
        }
        if let Some(delay) = self.min_ack_delay_us {
            put_int(buf, id::MIN_ACK_DELAY, delay);
        }
        if self.grease_quic_bit {
            put(buf, id::GREASE_QUIC_BIT, &[]);
        }
        if side == Side::Server {
            //= specs/rfc9000.txt#section-18.2
            //# This transport parameter MUST NOT be sent by a client but MAY be sent by a server.
            //= specs/rfc9000.txt#section-18.2
            //# A client MUST NOT include any server-only transport parameter:
            //# original_destination_connection_id, preferred_address, retry_source_connection_id,
            //# or stateless_reset_token.
            self.encode_server_only(buf);
        }
        if let Some(grease) = &self.grease {
            put(buf, grease.id, &grease.value[..grease.len.into()]);
        }
    }

    fn encode_server_only(&self, buf: &mut Vec<u8>) {
        if let Some(cid) = &self.original_destination_connection_id {
            put(buf, id::ORIGINAL_DESTINATION_CONNECTION_ID, cid);
        }
        if let Some(cid) = &self.retry_source_connection_id {
            put(buf, id::RETRY_SOURCE_CONNECTION_ID, cid);
        }
        if let Some(token) = &self.stateless_reset_token {
            put(buf, id::STATELESS_RESET_TOKEN, token);
        }
        if let Some(address) = &self.preferred_address {
            varint::put(buf, id::PREFERRED_ADDRESS);
            varint::put(buf, address.size() as u64);
            address.encode(buf);
        }
    }
}
