//! Frames on the wire, written and read by code of its own, so that it cannot share a fault with the code under
//! test; keeps no rule of any RFC but the encodings.

/// Appends a variable-length integer (RFC 9000 section 16). A value above 2^62 - 1 loses its highest bits.
pub fn put_varint(buf: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => buf.push(value as u8),
        0x40..0x4000 => buf.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => buf.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => {
            let value = value & 0x3fff_ffff_ffff_ffff | 0xc000_0000_0000_0000;
            buf.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Reads fields one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// A variable-length integer.
    pub fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.bytes(1 << (first >> 6))?;
        let value = bytes[1..]
            .iter()
            .fold(u64::from(first & 0x3f), |value, byte| {
                (value << 8) | u64::from(*byte)
            });
        Some(value)
    }

    /// Bytes after their number as a variable-length integer.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
}

/// A frame with whatever values. With `path`, frames that exist in two kinds are those of RFC 10069.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "fields have the names of RFC 9000 section 19 and RFC 10069"
)]
pub enum Frame {
    /// PADDING, so many bytes.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK or PATH_ACK. After the first range, pairs of Gap and ACK Range Length.
    Ack {
        path: Option<u64>,
        largest: u64,
        delay: u64,
        first: u64,
        ranges: Vec<(u64, u64)>,
        ecn: Option<[u64; 3]>,
    },
    /// RESET_STREAM.
    ResetStream { id: u64, code: u64, size: u64 },
    /// STOP_SENDING.
    StopSending { id: u64, code: u64 },
    /// CRYPTO.
    Crypto { offset: u64, data: Vec<u8> },
    /// NEW_TOKEN.
    NewToken(Vec<u8>),
    /// STREAM, always with offset and length.
    Stream {
        id: u64,
        offset: u64,
        fin: bool,
        data: Vec<u8>,
    },
    /// MAX_DATA.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData { id: u64, max: u64 },
    /// MAX_STREAMS.
    MaxStreams { uni: bool, max: u64 },
    /// DATA_BLOCKED.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked { id: u64, max: u64 },
    /// STREAMS_BLOCKED.
    StreamsBlocked { uni: bool, max: u64 },
    /// NEW_CONNECTION_ID or PATH_NEW_CONNECTION_ID.
    NewCid {
        path: Option<u64>,
        seq: u64,
        retire_prior_to: u64,
        cid: Vec<u8>,
        token: [u8; 16],
    },
    /// RETIRE_CONNECTION_ID or PATH_RETIRE_CONNECTION_ID.
    RetireCid { path: Option<u64>, seq: u64 },
    /// PATH_CHALLENGE.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE of type 0x1c, or with `app` of type 0x1d.
    Close {
        app: bool,
        code: u64,
        reason: Vec<u8>,
    },
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM with a length.
    Datagram(Vec<u8>),
    /// PATH_ABANDON.
    PathAbandon { path: u64, code: u64 },
    /// PATH_STATUS_BACKUP, or without `backup` PATH_STATUS_AVAILABLE.
    PathStatus { path: u64, seq: u64, backup: bool },
    /// MAX_PATH_ID.
    MaxPathId(u64),
    /// PATHS_BLOCKED.
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED.
    PathCidsBlocked { path: u64, next: u64 },
    /// Bytes that are no frame, or one of an extension that is not known here: all to the end of the packet.
    Raw(Vec<u8>),
}

impl Frame {
    /// An ACK or PATH_ACK of the largest number, the delay and the first range, whose other fields are drawn one by one:
    /// so many ranges, and the three counts if it is one with ECN.
    pub(crate) fn ack_with(
        path: Option<u64>,
        [largest, delay, first]: [u64; 3],
        ranges: u64,
        with_ecn: bool,
        mut next: impl FnMut() -> Option<u64>,
    ) -> Option<Self> {
        let mut ecn = None;
        let mut all = Vec::new();
        for _ in 0..ranges {
            all.push((next()?, next()?));
        }
        if with_ecn {
            ecn = Some([next()?, next()?, next()?]);
        }
        Some(Self::Ack {
            path,
            largest,
            delay,
            first,
            ranges: all,
            ecn,
        })
    }

    /// ACK or PATH_ACK of all numbers from `from` to `to`.
    pub fn ack(path: Option<u64>, from: u64, to: u64) -> Self {
        Self::Ack {
            path,
            largest: to,
            delay: 0,
            first: to.saturating_sub(from),
            ranges: Vec::new(),
            ecn: None,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        let fields = |buf: &mut Vec<u8>, fields: &[u64]| {
            for field in fields {
                put_varint(buf, *field);
            }
        };
        let counted = |buf: &mut Vec<u8>, data: &[u8]| {
            put_varint(buf, data.len() as u64);
            buf.extend_from_slice(data);
        };
        match self {
            Self::Padding(count) => buf.resize(buf.len() + count, 0),
            Self::Ping => buf.push(1),
            Self::Ack {
                path,
                largest,
                delay,
                first,
                ranges,
                ecn,
            } => {
                let ty = if path.is_some() { 0x3e } else { 0x02 };
                put_varint(buf, ty + u64::from(ecn.is_some()));
                if let Some(path) = path {
                    put_varint(buf, *path);
                }
                fields(buf, &[*largest, *delay, ranges.len() as u64, *first]);
                for (gap, len) in ranges {
                    fields(buf, &[*gap, *len]);
                }
                if let Some(counts) = ecn {
                    fields(buf, counts);
                }
            }
            Self::ResetStream { id, code, size } => fields(buf, &[0x04, *id, *code, *size]),
            Self::StopSending { id, code } => fields(buf, &[0x05, *id, *code]),
            Self::Crypto { offset, data } => {
                fields(buf, &[0x06, *offset]);
                counted(buf, data);
            }
            Self::NewToken(token) => {
                buf.push(0x07);
                counted(buf, token);
            }
            Self::Stream {
                id,
                offset,
                fin,
                data,
            } => {
                fields(buf, &[0x0e | u64::from(*fin), *id, *offset]);
                counted(buf, data);
            }
            Self::MaxData(max) => fields(buf, &[0x10, *max]),
            Self::MaxStreamData { id, max } => fields(buf, &[0x11, *id, *max]),
            Self::MaxStreams { uni, max } => fields(buf, &[0x12 + u64::from(*uni), *max]),
            Self::DataBlocked(max) => fields(buf, &[0x14, *max]),
            Self::StreamDataBlocked { id, max } => fields(buf, &[0x15, *id, *max]),
            Self::StreamsBlocked { uni, max } => fields(buf, &[0x16 + u64::from(*uni), *max]),
            Self::NewCid {
                path,
                seq,
                retire_prior_to,
                cid,
                token,
            } => {
                match path {
                    Some(path) => fields(buf, &[0x3e78, *path]),
                    None => buf.push(0x18),
                }
                fields(buf, &[*seq, *retire_prior_to]);
                buf.push(cid.len() as u8);
                buf.extend_from_slice(cid);
                buf.extend_from_slice(token);
            }
            Self::RetireCid { path, seq } => match path {
                Some(path) => fields(buf, &[0x3e79, *path, *seq]),
                None => fields(buf, &[0x19, *seq]),
            },
            Self::PathChallenge(data) => {
                buf.push(0x1a);
                buf.extend_from_slice(data);
            }
            Self::PathResponse(data) => {
                buf.push(0x1b);
                buf.extend_from_slice(data);
            }
            Self::Close { app, code, reason } => {
                fields(buf, &[0x1c + u64::from(*app), *code]);
                if !app {
                    buf.push(0);
                }
                counted(buf, reason);
            }
            Self::HandshakeDone => buf.push(0x1e),
            Self::Datagram(data) => {
                buf.push(0x31);
                counted(buf, data);
            }
            Self::PathAbandon { path, code } => fields(buf, &[0x3e75, *path, *code]),
            Self::PathStatus { path, seq, backup } => {
                fields(buf, &[0x3e77 - u64::from(*backup), *path, *seq]);
            }
            Self::MaxPathId(max) => fields(buf, &[0x3e7a, *max]),
            Self::PathsBlocked(max) => fields(buf, &[0x3e7b, *max]),
            Self::PathCidsBlocked { path, next } => fields(buf, &[0x3e7c, *path, *next]),
            Self::Raw(bytes) => buf.extend_from_slice(bytes),
        }
    }

    /// The frames of a payload. What cannot be read ends it as [`Frame::Raw`].
    pub fn parse_all(payload: &[u8]) -> Vec<Self> {
        let mut frames = Vec::new();
        let mut reader = Reader(payload);
        while !reader.0.is_empty() {
            let rest = reader.0;
            match Self::parse(&mut reader) {
                Some(frame) => frames.push(frame),
                None => {
                    frames.push(Self::Raw(rest.to_vec()));
                    break;
                }
            }
        }
        frames
    }

    fn parse(r: &mut Reader<'_>) -> Option<Self> {
        let ty = r.varint()?;
        Some(match ty {
            0x00 => {
                let more = r.0.iter().take_while(|byte| **byte == 0).count();
                r.bytes(more)?;
                Self::Padding(1 + more)
            }
            0x01 => Self::Ping,
            0x02 | 0x03 | 0x3e | 0x3f => {
                let path = if ty >= 0x3e { Some(r.varint()?) } else { None };
                let (largest, delay, count) = (r.varint()?, r.varint()?, r.varint()?);
                let head = [largest, delay, r.varint()?];
                Self::ack_with(path, head, count, ty & 1 == 1, || r.varint())?
            }
            0x04 => Self::ResetStream {
                id: r.varint()?,
                code: r.varint()?,
                size: r.varint()?,
            },
            0x05 => Self::StopSending {
                id: r.varint()?,
                code: r.varint()?,
            },
            0x06 => Self::Crypto {
                offset: r.varint()?,
                data: r.counted()?.to_vec(),
            },
            0x07 => Self::NewToken(r.counted()?.to_vec()),
            0x08..=0x0f => {
                let id = r.varint()?;
                let offset = if ty & 4 == 4 { r.varint()? } else { 0 };
                let data = if ty & 2 == 2 {
                    r.counted()?
                } else {
                    r.bytes(r.0.len())?
                };
                Self::Stream {
                    id,
                    offset,
                    fin: ty & 1 == 1,
                    data: data.to_vec(),
                }
            }
            0x10 => Self::MaxData(r.varint()?),
            0x11 => Self::MaxStreamData {
                id: r.varint()?,
                max: r.varint()?,
            },
            0x12 | 0x13 => Self::MaxStreams {
                uni: ty == 0x13,
                max: r.varint()?,
            },
            0x14 => Self::DataBlocked(r.varint()?),
            0x15 => Self::StreamDataBlocked {
                id: r.varint()?,
                max: r.varint()?,
            },
            0x16 | 0x17 => Self::StreamsBlocked {
                uni: ty == 0x17,
                max: r.varint()?,
            },
            0x18 | 0x3e78 => {
                let path = if ty == 0x18 { None } else { Some(r.varint()?) };
                let (seq, retire_prior_to) = (r.varint()?, r.varint()?);
                let len = r.byte()?;
                Self::NewCid {
                    path,
                    seq,
                    retire_prior_to,
                    cid: r.bytes(len.into())?.to_vec(),
                    token: r.array()?,
                }
            }
            0x19 | 0x3e79 => Self::RetireCid {
                path: if ty == 0x19 { None } else { Some(r.varint()?) },
                seq: r.varint()?,
            },
            0x1a => Self::PathChallenge(r.array()?),
            0x1b => Self::PathResponse(r.array()?),
            0x1c | 0x1d => {
                let code = r.varint()?;
                if ty == 0x1c {
                    r.varint()?;
                }
                Self::Close {
                    app: ty == 0x1d,
                    code,
                    reason: r.counted()?.to_vec(),
                }
            }
            0x1e => Self::HandshakeDone,
            0x30 => Self::Datagram(r.bytes(r.0.len())?.to_vec()),
            0x31 => Self::Datagram(r.counted()?.to_vec()),
            0x3e75 => Self::PathAbandon {
                path: r.varint()?,
                code: r.varint()?,
            },
            0x3e76 | 0x3e77 => Self::PathStatus {
                path: r.varint()?,
                seq: r.varint()?,
                backup: ty == 0x3e76,
            },
            0x3e7a => Self::MaxPathId(r.varint()?),
            0x3e7b => Self::PathsBlocked(r.varint()?),
            0x3e7c => Self::PathCidsBlocked {
                path: r.varint()?,
                next: r.varint()?,
            },
            _ => return None,
        })
    }

    /// Whether a packet with it must be acknowledged (RFC 9000 section 13.2).
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding(_) | Self::Ack { .. } | Self::Close { .. }
        )
    }
}

/// The payload of these frames.
pub fn payload(frames: &[Frame]) -> Vec<u8> {
    let mut buf = Vec::new();
    for frame in frames {
        frame.encode(&mut buf);
    }
    buf
}
