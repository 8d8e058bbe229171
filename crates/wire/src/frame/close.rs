//! CONNECTION_CLOSE of the transport and of the application (RFC 9000 section 19.19).

use bytes::Bytes;
use mpquic_sched_core::{TransportErrorCode, coding::Codec};

use super::decode::{Malformed, varint62};
use super::types;
use crate::packet::varint::{self, Reader};
use crate::{ApplicationClose, ConnectionClose};

/// Bytes of CONNECTION_CLOSE reason that are kept.
pub const MAX_CLOSE_REASON: usize = 512;

/// The frame's fields after its type: code, triggering frame type (transport only), reason.
struct Fields<'a> {
    code: u64,
    frame_type: Option<u64>,
    reason: &'a [u8],
}

impl Fields<'_> {
    const fn ty(&self) -> u64 {
        match self.frame_type {
            Some(_) => types::CONNECTION_CLOSE,
            None => types::APPLICATION_CLOSE,
        }
    }

    fn fixed_size(&self) -> usize {
        varint::size(self.ty()) + varint::size(self.code) + self.frame_type.map_or(0, varint::size)
    }

    fn size(&self) -> usize {
        self.fixed_size() + varint::size(self.reason.len() as u64) + self.reason.len()
    }

    /// With no reason.
    fn smallest(&self) -> usize {
        self.fixed_size() + 1
    }

    /// Cuts the reason so that the frame takes at most `limit` bytes; the codes are never cut. False, and nothing
    /// written, if the frame does not fit without a reason.
    fn encode(&self, buf: &mut Vec<u8>, limit: usize) -> bool {
        if self.smallest() > limit {
            return false;
        }
        // The length's size is taken for the whole reason: at worst a byte of reason is lost.
        let room = limit
            .saturating_sub(self.fixed_size())
            .saturating_sub(varint::size(self.reason.len() as u64));
        let reason = &self.reason[..self.reason.len().min(room)];
        varint::put(buf, self.ty());
        varint::put(buf, self.code);
        if let Some(frame_type) = self.frame_type {
            varint::put(buf, frame_type);
        }
        varint::put(buf, reason.len() as u64);
        buf.extend_from_slice(reason);
        true
    }
}

/// What is kept of the peer's reason: a copy, bounded.
fn reason(r: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    let reason = r.varint_bytes()?;
    Ok(Bytes::copy_from_slice(
        &reason[..reason.len().min(MAX_CLOSE_REASON)],
    ))
}

impl ConnectionClose {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        // An arbitrary code has no other way in than its own decoder.
        let mut rest = r.rest();
        let error_code = TransportErrorCode::decode(&mut rest).map_err(|_| Malformed("cut off"))?;
        *r = Reader::new(rest);
        Ok(Self {
            error_code,
            frame_type: r.varint()?,
            reason: reason(r)?,
        })
    }

    fn fields(&self) -> Fields<'_> {
        Fields {
            code: self.error_code.into(),
            frame_type: Some(self.frame_type),
            reason: &self.reason,
        }
    }

    /// Appends the frame; the reason is cut so that the frame takes at most `limit` bytes. False, and nothing written,
    /// if not even the codes fit.
    pub fn encode(&self, buf: &mut Vec<u8>, limit: usize) -> bool {
        self.fields().encode(buf, limit)
    }

    /// With the whole reason.
    pub fn size(&self) -> usize {
        self.fields().size()
    }
}

impl ApplicationClose {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            error_code: varint62(r.varint()?),
            reason: reason(r)?,
        })
    }

    fn fields(&self) -> Fields<'_> {
        Fields {
            code: self.error_code.into_inner(),
            frame_type: None,
            reason: &self.reason,
        }
    }

    /// Appends the frame; the reason is cut so that the frame takes at most `limit` bytes. False, and nothing written,
    /// if not even the codes fit.
    pub fn encode(&self, buf: &mut Vec<u8>, limit: usize) -> bool {
        self.fields().encode(buf, limit)
    }

    /// With the whole reason.
    pub fn size(&self) -> usize {
        self.fields().size()
    }
}
