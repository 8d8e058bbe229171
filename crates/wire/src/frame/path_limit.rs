//! Decodes the frames about how many paths there may be (RFC 10069, MAX_PATH_ID frame, and after).

use super::Frame;
use super::decode::Malformed;
use super::types;
use crate::packet::varint::Reader;

/// Values above 2^32-1 are returned as they are: that is a PROTOCOL_VIOLATION of the frame's
/// meaning, not of its encoding, and the owner of path IDs compares them with its limit anyway.
pub(super) fn decode<'a>(ty: u64, r: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    Ok(match ty {
        types::MAX_PATH_ID => Frame::MaxPathId(r.varint()?),
        types::PATHS_BLOCKED => Frame::PathsBlocked(r.varint()?),
        types::PATH_CIDS_BLOCKED => Frame::PathCidsBlocked {
            path: r.varint()?,
            next_seq: r.varint()?,
        },
        _ => return Err(Malformed("unknown frame type")),
    })
}
