//! What happened, as small values of one size: what goes from the connection to whoever writes.

use mpquic_proto::congestion::LossCause;
use mpquic_proto::sched::Data;
use mpquic_proto::{
    Choice, CongestionControl, ConnectionError, ConnectionId, Dir, FrameInfo, NumberSpace,
    Parameters, PathChange, PathMetrics, PathStatus, Started,
};

/// Frames of a packet, and ranges of its ACK frames, that are written down at most; how many more there were is told.
pub(crate) const MAX_PIECES: usize = 64;

/// Which header a packet has, and so where its number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketType {
    Initial,
    Handshake,
    ZeroRtt,
    OneRtt,
}

impl PacketType {
    pub(crate) fn new(space: NumberSpace, early: bool) -> Self {
        match (space, early) {
            (NumberSpace::Initial, _) => Self::Initial,
            (NumberSpace::Handshake, _) => Self::Handshake,
            (NumberSpace::Path(_), true) => Self::ZeroRtt,
            (NumberSpace::Path(_), false) => Self::OneRtt,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::ZeroRtt => "0RTT",
            Self::OneRtt => "1RTT",
        }
    }

    pub(crate) fn space(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::ZeroRtt | Self::OneRtt => "application_data",
        }
    }
}

/// A packet, sent or received; its pieces follow as records of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) ty: PacketType,
    pub(crate) path: u32,
    pub(crate) number: u64,
    pub(crate) size: u16,
    /// Records that follow: frames, and ranges of ACK frames.
    pub(crate) pieces: u16,
    /// Frames that do not.
    pub(crate) left_out: u16,
    pub(crate) mtu_probe: bool,
    pub(crate) retransmission: bool,
    pub(crate) decision: Option<u64>,
}

/// A frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame {
    Stream {
        id: u64,
        offset: u64,
        length: u64,
        fin: bool,
    },
    /// Its ranges follow.
    Ack {
        path: Option<u32>,
        delay: u64,
        left_out: u16,
    },
    Ecn([u64; 3]),
    /// Any frame that is a name and a few numbers.
    Plain(Plain, [u64; 3]),
    NewConnectionId {
        path: Option<u32>,
        sequence: u32,
        retire_prior_to: u32,
        id: ConnectionId,
    },
    Close {
        application: bool,
        code: u64,
    },
}

/// Frames that are a name and a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    Padding,
    Ping,
    ResetStream,
    StopSending,
    Crypto,
    NewToken,
    MaxData,
    MaxStreamData,
    MaxStreamsBidi,
    MaxStreamsUni,
    DataBlocked,
    StreamDataBlocked,
    StreamsBlockedBidi,
    StreamsBlockedUni,
    RetireConnectionId,
    PathRetireConnectionId,
    PathChallenge,
    PathResponse,
    HandshakeDone,
    AckFrequency,
    ImmediateAck,
    Datagram,
    PathAbandon,
    PathStatusAvailable,
    PathStatusBackup,
    MaxPathId,
    PathsBlocked,
    PathCidsBlocked,
    Unknown,
}

impl Frame {
    /// A frame other than ACK, which is several records.
    pub(crate) fn of(frame: &FrameInfo<'_>) -> Self {
        let plain = Self::Plain;
        match *frame {
            FrameInfo::Stream(piece) => Self::Stream {
                id: piece.id.into(),
                offset: piece.start,
                length: piece.end - piece.start,
                fin: piece.fin,
            },
            FrameInfo::Padding { length } => plain(Plain::Padding, [length as u64, 0, 0]),
            FrameInfo::Ping => plain(Plain::Ping, [0; 3]),
            FrameInfo::ResetStream {
                id,
                error_code,
                final_size,
            } => plain(Plain::ResetStream, [id.into(), error_code, final_size]),
            FrameInfo::StopSending { id, error_code } => {
                plain(Plain::StopSending, [id.into(), error_code, 0])
            }
            FrameInfo::Crypto { offset, length } => {
                plain(Plain::Crypto, [offset, length as u64, 0])
            }
            FrameInfo::NewToken { length } => plain(Plain::NewToken, [length as u64, 0, 0]),
            FrameInfo::MaxData { maximum } => plain(Plain::MaxData, [maximum, 0, 0]),
            FrameInfo::MaxStreamData { id, maximum } => {
                plain(Plain::MaxStreamData, [id.into(), maximum, 0])
            }
            FrameInfo::MaxStreams { dir, maximum } => match dir {
                Dir::Bi => plain(Plain::MaxStreamsBidi, [maximum, 0, 0]),
                Dir::Uni => plain(Plain::MaxStreamsUni, [maximum, 0, 0]),
            },
            FrameInfo::DataBlocked { limit } => plain(Plain::DataBlocked, [limit, 0, 0]),
            FrameInfo::StreamDataBlocked { id, limit } => {
                plain(Plain::StreamDataBlocked, [id.into(), limit, 0])
            }
            FrameInfo::StreamsBlocked { dir, limit } => match dir {
                Dir::Bi => plain(Plain::StreamsBlockedBidi, [limit, 0, 0]),
                Dir::Uni => plain(Plain::StreamsBlockedUni, [limit, 0, 0]),
            },
            FrameInfo::NewConnectionId {
                path,
                sequence,
                retire_prior_to,
                id,
            } => Self::NewConnectionId {
                path: path.map(narrow),
                sequence: narrow(sequence),
                retire_prior_to: narrow(retire_prior_to),
                id,
            },
            FrameInfo::RetireConnectionId {
                path: None,
                sequence,
            } => plain(Plain::RetireConnectionId, [sequence, 0, 0]),
            FrameInfo::RetireConnectionId {
                path: Some(path),
                sequence,
            } => plain(Plain::PathRetireConnectionId, [path, sequence, 0]),
            FrameInfo::PathChallenge { data } => plain(Plain::PathChallenge, [data, 0, 0]),
            FrameInfo::PathResponse { data } => plain(Plain::PathResponse, [data, 0, 0]),
            FrameInfo::ConnectionClose {
                application,
                error_code,
            } => Self::Close {
                application,
                code: error_code,
            },
            FrameInfo::HandshakeDone => plain(Plain::HandshakeDone, [0; 3]),
            FrameInfo::AckFrequency { sequence } => plain(Plain::AckFrequency, [sequence, 0, 0]),
            FrameInfo::ImmediateAck => plain(Plain::ImmediateAck, [0; 3]),
            FrameInfo::Datagram { length } => plain(Plain::Datagram, [length as u64, 0, 0]),
            FrameInfo::PathAbandon { path, error_code } => {
                plain(Plain::PathAbandon, [path, error_code.0, 0])
            }
            FrameInfo::PathStatus {
                path,
                status,
                sequence,
            } => match status {
                PathStatus::Backup => plain(Plain::PathStatusBackup, [path, sequence, 0]),
                _ => plain(Plain::PathStatusAvailable, [path, sequence, 0]),
            },
            FrameInfo::MaxPathId { maximum } => plain(Plain::MaxPathId, [maximum, 0, 0]),
            FrameInfo::PathsBlocked { limit } => plain(Plain::PathsBlocked, [limit, 0, 0]),
            FrameInfo::PathCidsBlocked {
                path,
                next_sequence,
            } => plain(Plain::PathCidsBlocked, [path, next_sequence, 0]),
            _ => plain(Plain::Unknown, [0; 3]),
        }
    }
}

/// Path IDs have 32 bits (RFC 10069), and nobody issues so many connection IDs.
fn narrow(wide: u64) -> u32 {
    u32::try_from(wide).unwrap_or(u32::MAX)
}

/// What a path measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metrics {
    pub(crate) path: u32,
    /// Microseconds; `None` before the first sample.
    pub(crate) latest_rtt: Option<u32>,
    pub(crate) min_rtt: u32,
    pub(crate) smoothed_rtt: u32,
    pub(crate) rtt_variation: u32,
    pub(crate) pto_count: u16,
    pub(crate) mtu: u16,
    pub(crate) cwnd: u64,
    pub(crate) in_flight: u64,
    /// Bytes per second.
    pub(crate) delivery_rate: u64,
}

impl Metrics {
    pub(crate) fn of(metrics: &PathMetrics) -> Self {
        let micros =
            |time: std::time::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        Self {
            path: metrics.id.0,
            latest_rtt: metrics.latest_rtt.map(micros),
            min_rtt: micros(metrics.min_rtt),
            smoothed_rtt: micros(metrics.smoothed_rtt),
            rtt_variation: micros(metrics.rtt_variation),
            pto_count: u16::try_from(metrics.pto_count).unwrap_or(u16::MAX),
            mtu: metrics.mtu,
            cwnd: metrics.cwnd,
            in_flight: metrics.in_flight,
            delivery_rate: metrics.delivery_rate,
        }
    }
}

/// What a scheduler said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) choice: Chosen,
    pub(crate) why: Option<&'static str>,
}

/// What it chose, as far as it is written down: two decisions that are the same here are told once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Send { path: u32, data: Data, copies: u8 },
    Wait,
    Overridden { path: u32 },
}

impl Chosen {
    pub(crate) fn of(choice: &Choice) -> Self {
        match *choice {
            Choice::Send { path, data, copies } => Self::Send {
                path: path.0,
                data,
                copies: u8::try_from(copies).unwrap_or(u8::MAX),
            },
            Choice::Overridden { path } => Self::Overridden { path: path.0 },
            _ => Self::Wait,
        }
    }
}

/// One record. What is rare is boxed, so that what is frequent is small.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Sent(Packet),
    Received(Packet),
    /// Of the packet before.
    Frame(Frame),
    /// Of the ACK frame before.
    Range(u64, u64),
    /// So many packets in a row.
    Acked {
        ty: PacketType,
        path: u32,
        first: u64,
        count: u32,
    },
    Lost {
        ty: PacketType,
        path: u32,
        number: u64,
        size: u16,
        mtu_probe: bool,
        abandoned: bool,
    },
    Metrics(Metrics),
    /// A loss event of a path, and why.
    Judged(u32, LossCause),
    /// Another controller steers a path.
    Steered(u32, CongestionControl),
    OutOfOrder(u64),
    Decided(u64, Decision),
    KeyUpdate {
        phase: u64,
        by_peer: bool,
    },
    Undecryptable {
        ty: PacketType,
        path: u32,
    },
    HandshakeComplete,
    HandshakeConfirmed,
    Rare(Box<Rare>),
    /// So many records were left out here, since whoever writes could not keep up.
    LeftOut(u64),
}

/// What happens a few times per connection.
#[derive(Debug, Clone)]
pub(crate) enum Rare {
    Started(Started),
    Parameters(Parameters),
    Path(PathChange),
    Closed(ConnectionError),
}

/// A record and its time, nanoseconds since the connection began.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) at: u64,
    pub(crate) record: Record,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_fits_in_a_cache_line_and_a_bit() {
        assert!(size_of::<Timed>() <= 72, "{}", size_of::<Timed>());
    }
}
