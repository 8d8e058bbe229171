//! Tests of a connection's streams as a whole: a pair of them, and a reader of their frames.

mod flow;
mod hostile;
mod memory;
mod model;
mod packing;
mod states;

use std::time::{Duration, Instant};

use mpquic_sched_core::{Data, Dir, PathIndex, Side, StreamId, VarInt};

use super::counters::AckedBytes;
use super::recv::RecvStream;
use super::send::SendStream;
use super::{PeerStreamParams, StreamEvent, Streams};
use crate::frame_writer::{FrameWriter, Resent};
use crate::sent_frame::{SentFrame, SentFrames, StreamRange};
use crate::{TransportConfig, TransportError, TransportErrorCode};

impl Streams {
    /// Memory for received data and for streams, in bytes.
    fn memory(&self) -> usize {
        let buffers: usize = self.recvs.values().map(|s| s.assembler.memory()).sum();
        let recvs = self.recvs.len() * size_of::<RecvStream>();
        let sends = self.sends.len() * size_of::<SendStream>();
        buffers + recvs + sends + self.pool.memory() + self.spare.memory()
    }
}

const RTT: Duration = Duration::from_millis(50);

fn path(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

fn code(n: u32) -> VarInt {
    VarInt::from_u32(n)
}

/// A packet's payload and its record.
#[derive(Debug, Clone)]
struct Packet {
    payload: Vec<u8>,
    frames: SentFrames,
    resent: Resent,
}

fn packet(size: usize, f: impl FnOnce(&mut FrameWriter<'_>)) -> Packet {
    let mut payload = Vec::new();
    let mut w = FrameWriter::new(&mut payload, size);
    f(&mut w);
    let resent = w.resent();
    let frames = std::mem::take(&mut w.frames);
    assert!(payload.len() <= size);
    Packet {
        payload,
        frames,
        resent,
    }
}

fn data_packet(s: &mut Streams, size: usize, pick: Data, on: usize) -> Option<Packet> {
    let mut wrote = false;
    let packet = packet(size, |w| wrote = s.fill(w, pick, path(on)));
    assert_eq!(wrote, !packet.frames.is_empty());
    wrote.then_some(packet)
}

fn control_packet(s: &mut Streams) -> Option<Packet> {
    if !s.can_send_control() {
        return None;
    }
    let packet = packet(1200, |w| s.fill_control(w));
    Some(packet)
}

/// Reads frames without the crate's codec, so that both check each other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> u64 {
        let len = 1 << (self.0[0] >> 6);
        let mut value = u64::from(self.0[0] & 0x3f);
        for byte in &self.0[1..len] {
            value = value << 8 | u64::from(*byte);
        }
        self.0 = &self.0[len..];
        value
    }

    fn id(&mut self) -> StreamId {
        VarInt::from_u64(self.varint()).unwrap().into()
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }
}

/// Hands every frame of a payload to `s`.
fn deliver(s: &mut Streams, now: Instant, payload: &[u8]) -> Result<(), TransportError> {
    let mut r = Reader(payload);
    while !r.0.is_empty() {
        match r.varint() {
            0 => {}
            0x04 => {
                let (id, code, size) = (r.id(), r.varint(), r.varint());
                s.on_reset_stream(id, VarInt::from_u64(code).unwrap(), size)?;
            }
            0x05 => {
                let (id, code) = (r.id(), r.varint());
                s.on_stop_sending(id, VarInt::from_u64(code).unwrap())?;
            }
            ty @ 0x08..=0x0f => {
                let id = r.id();
                let offset = if ty & 4 != 0 { r.varint() } else { 0 };
                let len = if ty & 2 != 0 {
                    r.varint() as usize
                } else {
                    r.0.len()
                };
                s.on_stream(now, RTT, id, offset, ty & 1 != 0, r.bytes(len))?;
            }
            0x10 => s.on_max_data(r.varint()),
            0x11 => {
                let (id, limit) = (r.id(), r.varint());
                s.on_max_stream_data(id, limit)?;
            }
            0x12 => s.on_max_streams(Dir::Bi, r.varint())?,
            0x13 => s.on_max_streams(Dir::Uni, r.varint())?,
            0x14 => {
                r.varint();
            }
            0x15 => {
                let (id, _) = (r.id(), r.varint());
                s.on_stream_data_blocked(id)?;
            }
            0x16 => s.on_streams_blocked(Dir::Bi, r.varint())?,
            0x17 => s.on_streams_blocked(Dir::Uni, r.varint())?,
            ty => panic!("frame type {ty:#x}"),
        }
    }
    Ok(())
}

fn acked(s: &mut Streams, frames: &SentFrames) {
    for frame in frames {
        match frame {
            SentFrame::Stream(r) => {
                s.on_acked(r);
            }
            other => {
                s.settle_acked();
                s.on_control_acked(other);
            }
        }
    }
    s.settle_acked();
}

fn acked_range(s: &mut Streams, r: &StreamRange) -> AckedBytes {
    let acked = s.on_acked(r);
    s.settle_acked();
    acked
}

fn lost(s: &mut Streams, frames: &SentFrames, on: usize) {
    for frame in frames {
        match frame {
            SentFrame::Stream(r) => s.on_lost(r, path(on)),
            other => s.on_control_lost(other),
        }
    }
}

fn events(s: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| s.poll_event()).collect()
}

/// Moves everything both ways without loss until nothing more moves.
fn exchange(a: &mut Streams, b: &mut Streams, now: Instant) {
    loop {
        let mut moved = false;
        for turn in 0..2 {
            let (from, to) = if turn == 0 {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            while let Some(packet) =
                control_packet(from).or_else(|| data_packet(from, 1200, Data::Next, 0))
            {
                moved = true;
                deliver(to, now, &packet.payload).unwrap();
                acked(from, &packet.frames);
            }
        }
        if !moved {
            return;
        }
    }
}

/// A client and a server of these settings that know each other's limits.
fn pair(config: &TransportConfig) -> (Streams, Streams) {
    let mut client = Streams::new(Side::Client, config);
    let mut server = Streams::new(Side::Server, config);
    client.set_peer_params(Streams::local_params(config));
    server.set_peer_params(Streams::local_params(config));
    (client, server)
}

/// A server with streams allowed but nobody at the other end.
fn server(config: &TransportConfig) -> Streams {
    pair(config).1
}

fn client_stream(dir: Dir, index: u64) -> StreamId {
    StreamId::new(Side::Client, dir, index)
}

fn pattern(id: StreamId, start: u64, len: usize) -> Vec<u8> {
    (start..start + len as u64)
        .map(|at| (at * 7 + u64::from(id) * 31) as u8 ^ (at >> 8) as u8)
        .collect()
}

#[track_caller]
fn fails(result: Result<(), TransportError>, code: TransportErrorCode) {
    assert_eq!(result.unwrap_err().code, code);
}

fn params(max_data: u64, stream: u64, streams: u64) -> PeerStreamParams {
    PeerStreamParams {
        max_data,
        max_stream_data_bidi_local: stream,
        max_stream_data_bidi_remote: stream,
        max_stream_data_uni: stream,
        max_streams_bidi: streams,
        max_streams_uni: streams,
    }
}

impl Streams {
    /// A STREAM frame of these parts.
    pub(crate) fn on_stream(
        &mut self,
        now: Instant,
        rtt: Duration,
        id: StreamId,
        offset: u64,
        fin: bool,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let frame = mpquic_wire::frame::Stream {
            id,
            offset,
            fin,
            data,
        };
        self.on_stream_frame(now, || rtt, &frame)
    }
}
