//! Walks the frames of a decrypted packet.

use std::iter::FusedIterator;

use mpquic_sched_core::{StreamId, VarInt};

use super::{
    AckFrame, AckFrequencyFrame, Crypto, Frame, NewConnectionId, ResetStream, RetireConnectionId,
    StopSending, Stream, flow, path_control, path_limit, types,
};
use crate::packet::varint::{self, Reader, UnexpectedEnd};
use crate::{ApplicationClose, ConnectionClose, TransportError};

/// The types of STREAM frames as the bytes that they are on the wire.
const STREAM_FIRST: u8 = types::STREAM as u8;
const STREAM_LAST: u8 = types::STREAM_LAST as u8;

/// Why a frame cannot be decoded; becomes FRAME_ENCODING_ERROR.
#[derive(Debug, Clone, Copy)]
pub struct Malformed(pub(super) &'static str);

impl From<UnexpectedEnd> for Malformed {
    fn from(_: UnexpectedEnd) -> Self {
        Self("cut off")
    }
}

/// A value that came from a varint as a [`VarInt`]: always in range.
#[inline]
pub(super) fn varint62(x: u64) -> VarInt {
    VarInt::from_u64(x).unwrap_or(VarInt::MAX)
}

#[inline]
pub(super) fn stream_id(x: u64) -> StreamId {
    varint62(x).into()
}

/// The frames of one packet's payload, in order. A run of PADDING is one [`Frame::Padding`]. Ends
/// after the first error.
#[derive(Debug, Clone)]
pub struct FrameIter<'a> {
    rest: Reader<'a>,
    ty: u64,
}

impl<'a> FrameIter<'a> {
    /// An empty payload gives no frame: the caller's PROTOCOL_VIOLATION (RFC 9000 section 12.4).
    #[inline]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            rest: Reader::new(payload),
            ty: 0,
        }
    }

    /// The type of the frame last returned, exactly as on the wire (flag bits included).
    #[inline]
    pub const fn last_type(&self) -> u64 {
        self.ty
    }

    /// Bytes that were not decoded yet.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.remaining()
    }

    #[inline]
    fn decode_type(&mut self) -> Result<u64, TransportError> {
        match self.rest.rest() {
            // The type of all but rare frames has six bits, which is one byte.
            [first @ 0..0x40, rest @ ..] => {
                self.rest = Reader::new(rest);
                Ok(u64::from(*first))
            }
            _ => self.decode_long_type(),
        }
    }

    #[cold]
    #[inline(never)]
    fn decode_long_type(&mut self) -> Result<u64, TransportError> {
        let before = self.rest.remaining();
        let ty = self
            .rest
            .varint()
            .map_err(|UnexpectedEnd| TransportError::frame_encoding("frame type cut off"))?;
        //= specs/rfc9000.txt#section-12.4
        //# To ensure simple and efficient implementations of frame parsing, a frame type MUST use
        //# the shortest possible encoding.
        if before - self.rest.remaining() != varint::size(ty) {
            return Err(TransportError::protocol_violation(
                "frame type not in its shortest encoding",
            )
            .in_frame(ty));
        }
        Ok(ty)
    }

    /// The next frame, if it is a STREAM frame: without what it costs to tell it from all others. If it is `None`,
    /// [`next`](Iterator::next) goes on.
    #[inline]
    pub fn next_stream(&mut self) -> Option<Result<Stream<'a>, Malformed>> {
        let [first @ STREAM_FIRST..=STREAM_LAST, rest @ ..] = self.rest.rest() else {
            return None;
        };
        self.ty = u64::from(*first);
        self.rest = Reader::new(rest);
        Some(Stream::decode(self.ty, &mut self.rest))
    }

    /// The error of a frame that [`next_stream`](Self::next_stream) could not decode. Ends the iteration.
    #[cold]
    #[inline(never)]
    pub fn malformed(&mut self, Malformed(reason): Malformed) -> TransportError {
        self.rest = Reader::new(&[]);
        TransportError::frame_encoding(reason).in_frame(self.ty)
    }

    #[inline]
    fn decode_body(&mut self, ty: u64) -> Result<Frame<'a>, Malformed> {
        match ty {
            types::STREAM..=types::STREAM_LAST => {
                Stream::decode(ty, &mut self.rest).map(Frame::Stream)
            }
            //= specs/rfc9000.txt#section-19.3
            //# QUIC implementations MUST properly handle both types, and, if they have enabled ECN
            //# for packets they send, they SHOULD use the information in the ECN section to manage
            //# their congestion state.
            types::ACK | types::ACK_ECN => {
                AckFrame::decode(false, ty == types::ACK_ECN, &mut self.rest).map(Frame::Ack)
            }
            types::PATH_ACK | types::PATH_ACK_ECN => {
                AckFrame::decode(true, ty == types::PATH_ACK_ECN, &mut self.rest).map(Frame::Ack)
            }
            types::PADDING => {
                let rest = self.rest.rest();
                let end = rest.iter().position(|b| *b != 0);
                self.rest = Reader::new(&rest[end.unwrap_or(rest.len())..]);
                Ok(Frame::Padding)
            }
            _ => self.decode_other(ty),
        }
    }

    /// What few packets have, apart from what most have.
    #[inline(never)]
    fn decode_other(&mut self, ty: u64) -> Result<Frame<'a>, Malformed> {
        let r = &mut self.rest;
        Ok(match ty {
            types::PING => Frame::Ping,
            types::RESET_STREAM => Frame::ResetStream(ResetStream::decode(r)?),
            types::STOP_SENDING => Frame::StopSending(StopSending::decode(r)?),
            types::CRYPTO => Frame::Crypto(Crypto::decode(r)?),
            types::NEW_TOKEN => match r.varint_bytes()? {
                //= specs/rfc9000.txt#section-19.7
                //# A client MUST treat receipt of a NEW_TOKEN frame with an empty Token field as a
                //# connection error of type FRAME_ENCODING_ERROR.
                [] => return Err(Malformed("empty token")),
                token => Frame::NewToken(token),
            },
            types::MAX_DATA..=types::STREAMS_BLOCKED_UNI => flow::decode(ty, r)?,
            types::NEW_CONNECTION_ID => Frame::NewConnectionId(NewConnectionId::decode(false, r)?),
            types::RETIRE_CONNECTION_ID => {
                Frame::RetireConnectionId(RetireConnectionId::decode(false, r)?)
            }
            types::PATH_CHALLENGE | types::PATH_RESPONSE => path_control::decode(ty, r)?,
            types::CONNECTION_CLOSE => Frame::ConnectionClose(ConnectionClose::decode(r)?),
            types::APPLICATION_CLOSE => Frame::ApplicationClose(ApplicationClose::decode(r)?),
            types::HANDSHAKE_DONE => Frame::HandshakeDone,
            types::IMMEDIATE_ACK => Frame::ImmediateAck,
            types::ACK_FREQUENCY => Frame::AckFrequency(AckFrequencyFrame::decode(r)?),
            types::DATAGRAM => Frame::Datagram(r.take_rest()),
            types::DATAGRAM_LEN => Frame::Datagram(r.varint_bytes()?),
            types::PATH_ABANDON..=types::PATH_STATUS_AVAILABLE => path_control::decode(ty, r)?,
            types::PATH_NEW_CONNECTION_ID => {
                Frame::NewConnectionId(NewConnectionId::decode(true, r)?)
            }
            types::PATH_RETIRE_CONNECTION_ID => {
                Frame::RetireConnectionId(RetireConnectionId::decode(true, r)?)
            }
            types::MAX_PATH_ID..=types::PATH_CIDS_BLOCKED => path_limit::decode(ty, r)?,
            //= specs/rfc9000.txt#section-12.4
            //# An endpoint MUST treat the receipt of a frame of unknown type as a connection error
            //# of type FRAME_ENCODING_ERROR.
            _ => return Err(Malformed("unknown frame type")),
        })
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, error: TransportError) -> Option<Result<Frame<'a>, TransportError>> {
        self.rest = Reader::new(&[]);
        Some(Err(error))
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = Result<Frame<'a>, TransportError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let ty = match self.decode_type() {
            Ok(ty) => ty,
            Err(error) => return self.fail(error),
        };
        self.ty = ty;
        match self.decode_body(ty) {
            Ok(frame) => Some(Ok(frame)),
            Err(Malformed(reason)) => {
                self.fail(TransportError::frame_encoding(reason).in_frame(ty))
            }
        }
    }
}

impl FusedIterator for FrameIter<'_> {}
