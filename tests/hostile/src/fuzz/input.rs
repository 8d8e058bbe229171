//! Bytes of a fuzzer as decisions; no bytes left is the end.

use crate::peer::Peer;
use crate::wire::Frame;

/// What is left of an input.
#[derive(Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

/// Where encodings, limits and windows end.
const EDGES: [u64; 16] = [
    63,
    64,
    255,
    1 << 14,
    (1 << 14) - 1,
    1 << 16,
    (1 << 20) + 1,
    1 << 24,
    (1 << 30) - 1,
    1 << 30,
    (1 << 32) - 1,
    1 << 32,
    1 << 60,
    (1 << 60) + 1,
    (1 << 62) - 2,
    (1 << 62) - 1,
];

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Mostly small; sometimes at an edge.
    pub(super) fn number(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            small @ 0..192 => small.into(),
            wide @ 192..224 => {
                let more = self.byte()?;
                u64::from(wide - 192) << 8 | u64::from(more)
            }
            edge => EDGES[usize::from(edge) % EDGES.len()],
        })
    }

    /// A path ID that may be in use, or any.
    pub(super) fn path(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            near @ 0..240 => u64::from(near % 12),
            edge => EDGES[usize::from(edge) % EDGES.len()],
        })
    }

    /// A stream that may be in use, or any.
    fn stream(&mut self) -> Option<u64> {
        Some(match self.byte()? {
            near @ 0..240 => u64::from(near % 24),
            edge => EDGES[usize::from(edge) % EDGES.len()],
        })
    }

    fn some_path(&mut self, multipath: bool) -> Option<Option<u64>> {
        let path = self.path()?;
        Some(multipath.then_some(path))
    }

    /// A frame of any type with any fields.
    pub(super) fn frame(&mut self, peer: &Peer) -> Option<Frame> {
        let kind = self.byte()?;
        let multi = kind & 0x80 != 0;
        Some(match kind % 32 {
            0 => Frame::Padding(1 + usize::from(self.byte()?)),
            1 => Frame::Ping,
            2 | 3 => {
                let path = self.some_path(multi)?;
                let head = [self.number()?, self.number()?, self.number()?];
                let ranges = u64::from(self.byte()? % 4);
                Frame::ack_with(path, head, ranges, kind % 32 == 3, || self.number())?
            }
            4 => Frame::ResetStream {
                id: self.stream()?,
                code: self.number()?,
                size: self.number()?,
            },
            5 => Frame::StopSending {
                id: self.stream()?,
                code: self.number()?,
            },
            6 => {
                let (offset, len) = (self.number()?, self.byte()?);
                Frame::Crypto {
                    offset,
                    data: self.bytes(len.into()).to_vec(),
                }
            }
            7 => Frame::NewToken(vec![7; usize::from(self.byte()?)]),
            8..12 => {
                let (id, offset, len) = (self.stream()?, self.number()?, self.byte()?);
                Frame::Stream {
                    id,
                    offset,
                    fin: multi,
                    data: vec![len; len.into()],
                }
            }
            12 => Frame::MaxData(self.number()?),
            13 => Frame::MaxStreamData {
                id: self.stream()?,
                max: self.number()?,
            },
            14 => Frame::MaxStreams {
                uni: multi,
                max: self.number()?,
            },
            15 => Frame::DataBlocked(self.number()?),
            16 => Frame::StreamDataBlocked {
                id: self.stream()?,
                max: self.number()?,
            },
            17 => Frame::StreamsBlocked {
                uni: multi,
                max: self.number()?,
            },
            18 | 19 => {
                let path = self.some_path(multi)?;
                let (seq, retire_prior_to) = (self.number()?, self.number()?);
                // Now and then one that was issued for something else.
                let of = if kind & 0x40 != 0 {
                    0
                } else {
                    path.unwrap_or(0) as u32
                };
                let mut token = [0; 16];
                token[..8].copy_from_slice(&seq.to_be_bytes());
                token[8..12].copy_from_slice(&of.to_be_bytes());
                Frame::NewCid {
                    path,
                    seq,
                    retire_prior_to,
                    cid: peer.own_cid(of, seq as u32),
                    token,
                }
            }
            20 => Frame::RetireCid {
                path: self.some_path(multi)?,
                seq: self.number()?,
            },
            21 => Frame::PathChallenge([self.byte()?; 8]),
            22 => Frame::PathResponse([self.byte()?; 8]),
            23 => Frame::Datagram(vec![1; usize::from(self.byte()?)]),
            24 if kind & 0x60 == 0x60 => Frame::Close {
                app: multi,
                code: self.number()?,
                reason: Vec::new(),
            },
            24 => Frame::PathStatus {
                path: self.path()?,
                seq: self.number()?,
                backup: multi,
            },
            25 => Frame::PathAbandon {
                path: self.path()?,
                code: self.number()?,
            },
            26 => Frame::PathStatus {
                path: self.path()?,
                seq: self.number()?,
                backup: multi,
            },
            27 => Frame::MaxPathId(self.number()?),
            28 => Frame::PathsBlocked(self.number()?),
            29 => Frame::PathCidsBlocked {
                path: self.path()?,
                next: self.number()?,
            },
            30 => Frame::HandshakeDone,
            _ => {
                let len = self.byte()?;
                Frame::Raw(self.bytes(usize::from(len % 48)).to_vec())
            }
        })
    }
}
