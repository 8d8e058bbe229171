//! (PATH_)NEW_CONNECTION_ID and (PATH_)RETIRE_CONNECTION_ID (RFC 9000 sections 19.15 and 19.16, RFC 10069, New Frames).

use mpquic_sched_core::ConnectionId;

use super::decode::Malformed;
use super::types;
use crate::packet::MAX_CID_LEN;
use crate::packet::varint::{self, Reader};

/// NEW_CONNECTION_ID, or with a path PATH_NEW_CONNECTION_ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewConnectionId {
    /// `None` for NEW_CONNECTION_ID.
    pub path: Option<u64>,
    /// Sequence Number.
    pub sequence: u64,
    /// Retire Prior To.
    pub retire_prior_to: u64,
    /// The connection ID, of 1 to 20 bytes.
    pub id: ConnectionId,
    /// Stateless Reset Token.
    pub reset_token: [u8; 16],
}

impl NewConnectionId {
    pub(super) fn decode(path: bool, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let path = if path { Some(r.varint()?) } else { None };
        let sequence = r.varint()?;
        let retire_prior_to = r.varint()?;
        //= specs/rfc9000.txt#section-19.15
        //# Receiving a value in the Retire Prior To field that is greater than that in the Sequence
        //# Number field MUST be treated as a connection error of type FRAME_ENCODING_ERROR.
        if retire_prior_to > sequence {
            return Err(Malformed("Retire Prior To above the sequence number"));
        }
        let len = usize::from(r.u8()?);
        //= specs/rfc9000.txt#section-19.15
        //# Values less than 1 and greater than 20 are invalid and MUST be treated as a connection
        //# error of type FRAME_ENCODING_ERROR.
        if !(1..=MAX_CID_LEN).contains(&len) {
            return Err(Malformed("connection ID not of 1 to 20 bytes"));
        }
        Ok(Self {
            path,
            sequence,
            retire_prior_to,
            id: ConnectionId::new(r.bytes(len)?),
            reset_token: r.array()?,
        })
    }

    /// The frame type on the wire.
    pub const fn ty(&self) -> u64 {
        match self.path {
            None => types::NEW_CONNECTION_ID,
            Some(_) => types::PATH_NEW_CONNECTION_ID,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        varint::put(buf, self.ty());
        if let Some(path) = self.path {
            varint::put(buf, path);
        }
        varint::put(buf, self.sequence);
        varint::put(buf, self.retire_prior_to);
        buf.push(self.id.len() as u8);
        buf.extend_from_slice(&self.id);
        buf.extend_from_slice(&self.reset_token);
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        varint::size(self.ty())
            + self.path.map_or(0, varint::size)
            + varint::size(self.sequence)
            + varint::size(self.retire_prior_to)
            + 1
            + self.id.len()
            + self.reset_token.len()
    }
}

/// RETIRE_CONNECTION_ID, or with a path PATH_RETIRE_CONNECTION_ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetireConnectionId {
    /// `None` for RETIRE_CONNECTION_ID.
    pub path: Option<u64>,
    /// Sequence Number.
    pub sequence: u64,
}

impl RetireConnectionId {
    pub(super) fn decode(path: bool, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            path: if path { Some(r.varint()?) } else { None },
            sequence: r.varint()?,
        })
    }

    /// The frame type on the wire.
    pub const fn ty(&self) -> u64 {
        match self.path {
            None => types::RETIRE_CONNECTION_ID,
            Some(_) => types::PATH_RETIRE_CONNECTION_ID,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        varint::put(buf, self.ty());
        if let Some(path) = self.path {
            varint::put(buf, path);
        }
        varint::put(buf, self.sequence);
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        varint::size(self.ty()) + self.path.map_or(0, varint::size) + varint::size(self.sequence)
    }
}
