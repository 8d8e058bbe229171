//! Transport parameters with whatever values (RFC 9000 section 18).

use crate::wire::{Reader, put_varint};

/// Identifiers of transport parameters.
#[expect(
    missing_docs,
    reason = "the names of RFC 9000 section 18.2 and RFC 10069"
)]
pub mod id {
    pub const ORIGINAL_DCID: u64 = 0x00;
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub const RESET_TOKEN: u64 = 0x02;
    pub const INITIAL_MAX_DATA: u64 = 0x04;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    pub const PREFERRED_ADDRESS: u64 = 0x0d;
    pub const ACTIVE_CID_LIMIT: u64 = 0x0e;
    pub const INITIAL_SCID: u64 = 0x0f;
    pub const RETRY_SCID: u64 = 0x10;
    pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub const INITIAL_MAX_PATH_ID: u64 = 0x3e;
}

/// Parameters in the order in which they are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(pub Vec<(u64, Vec<u8>)>);

impl Params {
    /// Large limits for whatever the other side wants to send, and multipath if there is a largest path ID.
    pub fn generous(max_path_id: Option<u64>) -> Self {
        let mut params = Self::default();
        for (id, value) in [
            (id::MAX_IDLE_TIMEOUT, 30_000),
            (id::INITIAL_MAX_DATA, 1 << 40),
            (id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, 1 << 40),
            (id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, 1 << 40),
            (id::INITIAL_MAX_STREAM_DATA_UNI, 1 << 40),
            (id::INITIAL_MAX_STREAMS_BIDI, 1 << 40),
            (id::INITIAL_MAX_STREAMS_UNI, 1 << 40),
            (id::ACTIVE_CID_LIMIT, 8),
            (id::MAX_DATAGRAM_FRAME_SIZE, 65_535),
        ] {
            params.set(id, value);
        }
        if let Some(max) = max_path_id {
            params.set(id::INITIAL_MAX_PATH_ID, max);
        }
        params
    }

    /// Sets one whose value is an integer.
    pub fn set(&mut self, id: u64, value: u64) -> &mut Self {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        self.set_bytes(id, &bytes)
    }

    /// Sets one to these bytes.
    pub fn set_bytes(&mut self, id: u64, value: &[u8]) -> &mut Self {
        self.remove(id);
        self.0.push((id, value.to_vec()));
        self
    }

    /// Leaves one out.
    pub fn remove(&mut self, id: u64) -> &mut Self {
        self.0.retain(|(other, _)| *other != id);
        self
    }

    /// One whose value is an integer.
    pub fn get(&self, id: u64) -> Option<u64> {
        let (_, value) = self.0.iter().find(|(other, _)| *other == id)?;
        Reader(value).varint()
    }

    /// As TLS carries them.
    pub fn encode(&self) -> Vec<u8> {
        let mut buf = Vec::new();
        for (id, value) in &self.0 {
            put_varint(&mut buf, *id);
            put_varint(&mut buf, value.len() as u64);
            buf.extend_from_slice(value);
        }
        buf
    }

    /// What TLS carried, as far as it can be read.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut r = Reader(bytes);
        let mut all = Vec::new();
        while let Some(id) = r.varint() {
            let Some(value) = r.counted() else { break };
            all.push((id, value.to_vec()));
        }
        Self(all)
    }
}
