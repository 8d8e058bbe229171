//! Type, size, encoding and place (RFC 9000 table 3) of every frame.

use mpquic_sched_core::Dir;

use super::{Frame, types};
use crate::packet::PacketType;
use crate::packet::varint;

impl Frame<'_> {
    /// The type as [`Frame::encode`] writes it: STREAM and DATAGRAM with a length.
    pub fn ty(&self) -> u64 {
        match self {
            Self::Padding => types::PADDING,
            Self::Ping => types::PING,
            Self::Ack(f) => f.ty(),
            Self::ResetStream(_) => types::RESET_STREAM,
            Self::StopSending(_) => types::STOP_SENDING,
            Self::Crypto(_) => types::CRYPTO,
            Self::NewToken(_) => types::NEW_TOKEN,
            Self::Stream(f) => f.ty(),
            Self::MaxData(_) => types::MAX_DATA,
            Self::MaxStreamData { .. } => types::MAX_STREAM_DATA,
            Self::MaxStreams { dir: Dir::Bi, .. } => types::MAX_STREAMS_BIDI,
            Self::MaxStreams { dir: Dir::Uni, .. } => types::MAX_STREAMS_UNI,
            Self::DataBlocked { .. } => types::DATA_BLOCKED,
            Self::StreamDataBlocked { .. } => types::STREAM_DATA_BLOCKED,
            Self::StreamsBlocked { dir: Dir::Bi, .. } => types::STREAMS_BLOCKED_BIDI,
            Self::StreamsBlocked { dir: Dir::Uni, .. } => types::STREAMS_BLOCKED_UNI,
            Self::NewConnectionId(f) => f.ty(),
            Self::RetireConnectionId(f) => f.ty(),
            Self::PathChallenge(_) => types::PATH_CHALLENGE,
            Self::PathResponse(_) => types::PATH_RESPONSE,
            Self::ConnectionClose(_) => types::CONNECTION_CLOSE,
            Self::ApplicationClose(_) => types::APPLICATION_CLOSE,
            Self::HandshakeDone => types::HANDSHAKE_DONE,
            Self::AckFrequency(_) => types::ACK_FREQUENCY,
            Self::ImmediateAck => types::IMMEDIATE_ACK,
            Self::Datagram(_) => types::DATAGRAM_LEN,
            Self::PathAbandon { .. } => types::PATH_ABANDON,
            Self::PathStatusBackup { .. } => types::PATH_STATUS_BACKUP,
            Self::PathStatusAvailable { .. } => types::PATH_STATUS_AVAILABLE,
            Self::MaxPathId(_) => types::MAX_PATH_ID,
            Self::PathsBlocked(_) => types::PATHS_BLOCKED,
            Self::PathCidsBlocked { .. } => types::PATH_CIDS_BLOCKED,
        }
    }

    /// Whether a packet with this frame must be acknowledged (RFC 9002 section 2).
    #[inline]
    pub const fn is_ack_eliciting(&self) -> bool {
        //= specs/rfc9000.txt#section-19.21
        //# Extension frames MUST be congestion controlled and MUST cause an ACK frame to be sent.
        !matches!(
            self,
            Self::Padding | Self::Ack(_) | Self::ConnectionClose(_) | Self::ApplicationClose(_)
        )
    }

    /// Whether a packet of such frames only is a probing packet (RFC 9000 section 9.1).
    #[inline]
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding
                | Self::PathChallenge(_)
                | Self::PathResponse(_)
                | Self::NewConnectionId(_)
        )
    }

    /// Whether this frame is one of RFC 10069, for which the extension must have been negotiated.
    #[inline]
    pub const fn is_multipath(&self) -> bool {
        match self {
            Self::Ack(f) => f.path.is_some(),
            Self::NewConnectionId(f) => f.path.is_some(),
            Self::RetireConnectionId(f) => f.path.is_some(),
            Self::PathAbandon { .. }
            | Self::PathStatusBackup { .. }
            | Self::PathStatusAvailable { .. }
            | Self::MaxPathId(_)
            | Self::PathsBlocked(_)
            | Self::PathCidsBlocked { .. } => true,
            _ => false,
        }
    }

    /// RFC 9000 table 3 for packets before 1-RTT, which may carry everything; DATAGRAM as RFC 9221
    /// section 4 has it; frames of RFC 10069 are for 1-RTT packets only. Elsewhere a frame is a
    /// PROTOCOL_VIOLATION.
    //= specs/rfc9221.txt#section-5
    //# Like STREAM frames, DATAGRAM frames contain application data and MUST be protected with
    //# either 0-RTT or 1-RTT keys.
    //= specs/rfc9221.txt#section-6
    //# All application data transmitted with the DATAGRAM frame, like the STREAM frame, MUST be
    //# protected either by 0-RTT or 1-RTT keys.
    #[inline]
    pub const fn allowed_in(&self, packet: PacketType) -> bool {
        match packet {
            PacketType::Initial | PacketType::Handshake => match self {
                Self::Padding | Self::Ping | Self::Crypto(_) | Self::ConnectionClose(_) => true,
                Self::Ack(f) => f.path.is_none(),
                _ => false,
            },
            PacketType::ZeroRtt => {
                //= specs/quic-ack-frequency.md#nego
                //# Consequently, ACK_FREQUENCY
                //# and IMMEDIATE_ACK frames cannot be sent in 0-RTT packets, as per
                //# {{Section 7.4.1 of QUIC-TRANSPORT}}.
                !self.is_multipath()
                    && !matches!(
                        self,
                        Self::Ack(_)
                            | Self::AckFrequency(_)
                            | Self::ImmediateAck
                            | Self::Crypto(_)
                            | Self::NewToken(_)
                            | Self::PathResponse(_)
                            | Self::RetireConnectionId(_)
                            | Self::HandshakeDone
                    )
            }
        }
    }

    /// The fields of frames that are a type and up to two varints.
    const fn varints(&self) -> ([u64; 2], usize) {
        match *self {
            Self::MaxData(x)
            | Self::MaxStreams { count: x, .. }
            | Self::DataBlocked { offset: x }
            | Self::StreamsBlocked { limit: x, .. }
            | Self::MaxPathId(x)
            | Self::PathsBlocked(x) => ([x, 0], 1),
            Self::PathAbandon { path, error } => ([path, error.0], 2),
            Self::PathStatusBackup { path, seq } | Self::PathStatusAvailable { path, seq } => {
                ([path, seq], 2)
            }
            Self::PathCidsBlocked { path, next_seq } => ([path, next_seq], 2),
            _ => ([0, 0], 0),
        }
    }

    /// Appends the frame. STREAM, CRYPTO, DATAGRAM carry their length; PADDING is one byte; a
    /// close carries its whole reason.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        match self {
            Self::Ack(f) => f.encode(buf),
            Self::ResetStream(f) => f.encode(buf),
            Self::StopSending(f) => f.encode(buf),
            Self::Crypto(f) => f.encode(buf),
            Self::NewToken(token) => {
                varint::put(buf, types::NEW_TOKEN);
                varint::put(buf, token.len() as u64);
                buf.extend_from_slice(token);
            }
            Self::Stream(f) => f.encode(buf),
            Self::NewConnectionId(f) => f.encode(buf),
            Self::RetireConnectionId(f) => f.encode(buf),
            Self::AckFrequency(f) => f.encode(buf),
            Self::MaxStreamData { id, offset } | Self::StreamDataBlocked { id, offset } => {
                varint::put(buf, self.ty());
                varint::put(buf, (*id).into());
                varint::put(buf, *offset);
            }
            Self::PathChallenge(token) | Self::PathResponse(token) => {
                varint::put(buf, self.ty());
                buf.extend_from_slice(&token.to_be_bytes());
            }
            Self::ConnectionClose(f) => {
                f.encode(buf, usize::MAX);
            }
            Self::ApplicationClose(f) => {
                f.encode(buf, usize::MAX);
            }
            Self::Datagram(data) => {
                encode_datagram_header(buf, Some(data.len()));
                buf.extend_from_slice(data);
            }
            _ => {
                varint::put(buf, self.ty());
                let (fields, count) = self.varints();
                for &x in &fields[..count] {
                    varint::put(buf, x);
                }
            }
        }
    }

    /// Bytes that [`Frame::encode`] appends.
    pub fn size(&self) -> usize {
        match self {
            Self::Ack(f) => f.size(),
            Self::ResetStream(f) => f.size(),
            Self::StopSending(f) => f.size(),
            Self::Crypto(f) => f.size(),
            Self::NewToken(token) => 1 + varint::size(token.len() as u64) + token.len(),
            Self::Stream(f) => f.size(),
            Self::NewConnectionId(f) => f.size(),
            Self::RetireConnectionId(f) => f.size(),
            Self::AckFrequency(f) => f.size(),
            Self::MaxStreamData { id, offset } | Self::StreamDataBlocked { id, offset } => {
                1 + varint::size((*id).into()) + varint::size(*offset)
            }
            Self::PathChallenge(_) | Self::PathResponse(_) => 9,
            Self::ConnectionClose(f) => f.size(),
            Self::ApplicationClose(f) => f.size(),
            Self::Datagram(data) => datagram_header_size(Some(data.len())) + data.len(),
            _ => {
                let (fields, count) = self.varints();
                varint::size(self.ty())
                    + fields[..count]
                        .iter()
                        .map(|&x| varint::size(x))
                        .sum::<usize>()
            }
        }
    }
}

/// Appends a DATAGRAM frame up to its data. Without `len`, the data reaches to the packet's end.
#[inline]
pub fn encode_datagram_header(buf: &mut Vec<u8>, len: Option<usize>) {
    match len {
        Some(len) => {
            buf.push(types::DATAGRAM_LEN as u8);
            varint::put(buf, len as u64);
        }
        None => buf.push(types::DATAGRAM as u8),
    }
}

/// Bytes that [`encode_datagram_header`] appends.
#[inline]
pub fn datagram_header_size(len: Option<usize>) -> usize {
    1 + len.map_or(0, |len| varint::size(len as u64))
}
