//! Decodes the frames about one path: PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 sections 19.17 and 19.18), PATH_ABANDON and PATH_STATUS_* (RFC 10069, New Frames).

use super::Frame;
use super::decode::Malformed;
use super::types;
use crate::PathErrorCode;
use crate::packet::varint::Reader;

pub(super) fn decode<'a>(ty: u64, r: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    Ok(match ty {
        types::PATH_CHALLENGE => Frame::PathChallenge(r.u64()?),
        types::PATH_RESPONSE => Frame::PathResponse(r.u64()?),
        types::PATH_ABANDON => Frame::PathAbandon {
            path: r.varint()?,
            error: PathErrorCode(r.varint()?),
        },
        types::PATH_STATUS_BACKUP => Frame::PathStatusBackup {
            path: r.varint()?,
            seq: r.varint()?,
        },
        types::PATH_STATUS_AVAILABLE => Frame::PathStatusAvailable {
            path: r.varint()?,
            seq: r.varint()?,
        },
        _ => return Err(Malformed("unknown frame type")),
    })
}
