//! Decodes the frames of flow control (RFC 9000 sections 19.9 to 19.14).

use mpquic_sched_core::Dir;

use super::Frame;
use super::decode::{Malformed, stream_id};
use super::types;
use crate::packet::varint::Reader;

/// A stream count above this could not be expressed as a stream ID (RFC 9000 section 19.11).
pub const MAX_STREAM_COUNT: u64 = 1 << 60;

pub(super) fn decode<'a>(ty: u64, r: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    Ok(match ty {
        types::MAX_DATA => Frame::MaxData(r.varint()?),
        types::MAX_STREAM_DATA => Frame::MaxStreamData {
            id: stream_id(r.varint()?),
            offset: r.varint()?,
        },
        types::MAX_STREAMS_BIDI | types::MAX_STREAMS_UNI => Frame::MaxStreams {
            dir: dir(ty),
            count: stream_count(r)?,
        },
        types::DATA_BLOCKED => Frame::DataBlocked {
            offset: r.varint()?,
        },
        types::STREAM_DATA_BLOCKED => Frame::StreamDataBlocked {
            id: stream_id(r.varint()?),
            offset: r.varint()?,
        },
        types::STREAMS_BLOCKED_BIDI | types::STREAMS_BLOCKED_UNI => Frame::StreamsBlocked {
            dir: dir(ty),
            limit: stream_count(r)?,
        },
        _ => return Err(Malformed("unknown frame type")),
    })
}

/// The lowest bit of these types tells the direction.
const fn dir(ty: u64) -> Dir {
    if ty & 1 == 0 { Dir::Bi } else { Dir::Uni }
}

fn stream_count(r: &mut Reader<'_>) -> Result<u64, Malformed> {
    match r.varint()? {
        //= specs/rfc9000.txt#section-19.11
        //# Receipt of a frame that permits opening of a stream larger than this limit MUST be
        //# treated as a connection error of type FRAME_ENCODING_ERROR.
        //= specs/rfc9000.txt#section-19.14
        //# Receipt of a frame that encodes a larger stream ID MUST be treated as a connection error
        //# of type STREAM_LIMIT_ERROR or FRAME_ENCODING_ERROR.
        //= specs/rfc9000.txt#section-4.6
        //# If either is received, the connection MUST be closed immediately with a connection error
        //# of type TRANSPORT_PARAMETER_ERROR if the offending value was received in a transport
        //# parameter or of type FRAME_ENCODING_ERROR if it was received in a frame; see Section
        //# 10.2.
        count if count > MAX_STREAM_COUNT => Err(Malformed("stream count above 2^60")),
        count => Ok(count),
    }
}
