//! Datagrams of live frames: any bytes, packets with any fields, and honest frames with repair of which some are lost. What is
//! read is written as it was; each frame has at most one verdict; and the receiver's memory stays within what its limits say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mpquic_live::rlc::{DENSE, Encoder};
use mpquic_live::wire::{Body, MAX_SENT, Packet};
use mpquic_live::{Limits, ReceiveError, Receiver, Verdict};

use super::input::Input;
use super::{Features, feature};
use crate::wire::put_varint;

/// No frame that the honest sender sends has more bytes.
const HONEST: usize = 3_000;

/// The flow of the honest sender, whom nobody else can speak for: others send to those from 1 on.
const HONEST_FLOW: u32 = 0;

struct Run {
    receiver: Receiver,
    limits: Limits,
    now: Instant,
    /// By flow: the ranges of frames that had their verdict, the last one's number by the first one's.
    verdicts: BTreeMap<u32, BTreeMap<u64, u64>>,
    buffer: Vec<u8>,
    features: Features,
    encoder: Encoder,
    /// How long the honest sender's frames are.
    lens: Vec<usize>,
}

/// Runs the commands in `data` against a receiver.
pub fn live(data: &[u8]) -> Features {
    let mut input = Input(data);
    let kind = input.byte().unwrap_or(0);
    let limits = Limits {
        flows: 1 + usize::from(kind & 3),
        bytes: [4 << 10, 64 << 10, 1 << 20, 8 << 20][usize::from(kind >> 2 & 3)],
    };
    let mut run = Run {
        receiver: Receiver::new(limits),
        limits,
        now: Instant::now(),
        verdicts: BTreeMap::new(),
        buffer: Vec::new(),
        features: Features::new(),
        encoder: Encoder::new(128),
        lens: Vec::new(),
    };
    while run.step(&mut input).is_some() {
        run.check();
    }
    run.poll();
    run.check();
    // What has no verdict yet has one when it is due: the receiver names a time until all is told.
    for _ in 0..8_192 {
        let Some(due) = run.receiver.poll_timeout() else {
            break;
        };
        run.now = run.now.max(due);
        run.poll();
    }
    assert_eq!(run.receiver.poll_timeout(), None);
    for flow in 0..8 {
        run.receiver.close(flow);
    }
    assert_eq!(run.receiver.held(), 0);
    run.check();
    run.features
}

impl Run {
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let op = input.byte()?;
        match op % 8 {
            0 => {
                let len = input.byte()?;
                let datagram = input.bytes(usize::from(len)).to_vec();
                self.receive(&datagram);
            }
            1 | 2 => {
                let datagram = source(input)?;
                self.receive(&datagram);
            }
            3 => {
                let datagram = repair(input)?;
                self.receive(&datagram);
            }
            4 => self.honest_frame(usize::from(input.byte()?) * 12, input.byte()?),
            5 => self.honest_repair(u16::from(input.byte()?), usize::from(input.byte()?) % 128),
            6 => self.now += Duration::from_millis(input.number()?.min(100_000)),
            _ if op >= 0xe0 => {
                let flow = u32::from(input.byte()? % 6);
                self.receiver.close(flow);
                self.verdicts.remove(&flow);
                if flow == HONEST_FLOW {
                    self.encoder = Encoder::new(128);
                    self.lens.clear();
                }
            }
            _ => self.poll(),
        }
        Some(())
    }

    fn receive(&mut self, datagram: &[u8]) {
        read_and_write(datagram);
        // Whoever can change what the honest sender sends can do harm: that is the transport's matter.
        let flow = match Packet::read(datagram) {
            Ok(Packet::Source { flow, .. } | Packet::Repair { flow, .. }) => flow,
            _ => u32::MAX,
        };
        if flow != HONEST_FLOW {
            self.deliver(datagram);
        }
    }

    fn deliver(&mut self, datagram: &[u8]) {
        let outcome = self.receiver.receive(self.now, datagram);
        let kind = match outcome {
            Ok(()) => 0_u8,
            Err(ReceiveError::Malformed(_)) => 1,
            Err(ReceiveError::TooManyFlows) => 2,
            Err(ReceiveError::Clogged) => 3,
            Err(_) => 4,
        };
        let first = datagram.first().copied().unwrap_or(0);
        self.features.insert(feature(20, (kind, first & 0x1f)));
    }

    /// A frame in one to seven parts, of which those with a bit in `comes` arrive.
    fn honest_frame(&mut self, len: usize, comes: u8) {
        let frame = self.lens.len() as u64;
        let data = content(frame, len.min(HONEST));
        self.lens.push(data.len());
        let parts = data.len().div_ceil(500).max(1) as u32;
        for part in 0..parts {
            let (begin, end) = mpquic_live::wire::part_range(data.len() as u32, parts, part);
            let body = Body {
                key: frame.is_multiple_of(8),
                frame,
                sent: 33 * frame,
                budget: 150,
                length: data.len() as u32,
                parts,
                part,
                payload: &data[begin..end],
            };
            let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
            body.write(&mut bytes);
            let Ok(symbol) = self.encoder.push(&bytes) else {
                return;
            };
            Packet::Source {
                flow: HONEST_FLOW,
                symbol: symbol as u32,
                body: &bytes,
            }
            .write(&mut datagram);
            if comes >> part & 1 != 0 {
                self.deliver(&datagram);
            }
        }
    }

    fn honest_repair(&mut self, key: u16, window: usize) {
        let count = (window as u64).min(self.encoder.next() - self.encoder.oldest());
        if count == 0 {
            return;
        }
        let first = self.encoder.next() - count;
        let (mut symbol, mut datagram) = (Vec::new(), Vec::new());
        self.encoder
            .encode(first, count as usize, key, DENSE, &mut symbol);
        Packet::Repair {
            flow: HONEST_FLOW,
            key,
            density: DENSE,
            window: count as u16,
            first: first as u32,
            symbol: &symbol,
        }
        .write(&mut datagram);
        self.deliver(&datagram);
    }

    fn poll(&mut self) {
        while let Some(verdict) = self.receiver.poll(self.now, &mut self.buffer) {
            self.features
                .insert(feature(21, std::mem::discriminant(&verdict)));
            let (flow, first, last) = match verdict {
                Verdict::Frame {
                    flow, id, repaired, ..
                } => {
                    self.features.insert(feature(22, repaired));
                    if flow == HONEST_FLOW {
                        assert_eq!(self.buffer, content(id, self.lens[id as usize]));
                    }
                    (flow, id, id)
                }
                Verdict::Missing { flow, id } => (flow, id, id),
                Verdict::Skipped { flow, first, last } => (flow, first, last),
                other => panic!("{other:?}"),
            };
            let ranges = self.verdicts.entry(flow).or_default();
            let before = ranges.range(..=last).next_back();
            assert!(
                first <= last && before.is_none_or(|(_, end)| *end < first),
                "a second verdict: {verdict:?}"
            );
            ranges.insert(first, last);
        }
        let due = self.receiver.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "due, and not told");
        assert!(self.buffer.len() <= self.limits.bytes);
    }

    /// What holds at every moment.
    fn check(&mut self) {
        let (held, memory) = (self.receiver.held(), self.receiver.memory_use());
        assert!(held <= self.limits.bytes, "{held} bytes of frames");
        let most = self.limits.max_memory();
        assert!(memory <= most, "{memory} bytes in use of {most}");
        let stats = self.receiver.stats();
        for (kind, value) in [
            (23, stats.frames),
            (24, stats.missing),
            (25, stats.refused),
            (26, stats.repairs_used),
            (27, stats.duplicates),
            (28, memory as u64),
        ] {
            self.features
                .insert(feature(kind, 64 - value.leading_zeros()));
        }
    }
}

fn content(frame: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (frame * 7 + i * 13) as u8)
        .collect()
}

fn read_and_write(datagram: &[u8]) {
    let Ok(packet) = Packet::read(datagram) else {
        return;
    };
    let mut again = Vec::new();
    packet.write(&mut again);
    assert_eq!(Packet::read(&again), Ok(packet));
    if let Packet::Source { body, .. } = packet
        && let Ok(body) = Body::read(body)
    {
        again.clear();
        body.write(&mut again);
        assert_eq!(Body::read(&again), Ok(body));
    }
}

/// A source packet with any fields and mostly as many bytes as they say.
fn source(input: &mut Input<'_>) -> Option<Vec<u8>> {
    let mut datagram = vec![0x10];
    put_varint(&mut datagram, 1 + u64::from(input.byte()? % 6));
    datagram.extend((input.number()? as u32).to_be_bytes());
    datagram.push(input.byte()? & 1);
    put_varint(&mut datagram, input.number()?);
    put_varint(&mut datagram, input.number()?.min(MAX_SENT));
    put_varint(&mut datagram, input.number()?);
    let (length, parts, part) = (input.number()?, input.number()?, input.number()?);
    let (length, parts) = match input.byte()? {
        // So many bytes in each part: as large as a datagram at most.
        0..128 => (length.saturating_mul(parts), parts),
        _ => (length, parts),
    };
    for field in [length, parts, part] {
        put_varint(&mut datagram, field.min(1 << 40));
    }
    let payload = length / parts.max(1) + u64::from(part < length % parts.max(1));
    datagram.resize(datagram.len() + payload.min(2_100) as usize, 0x5a);
    Some(datagram)
}

/// A repair packet with any fields.
fn repair(input: &mut Input<'_>) -> Option<Vec<u8>> {
    let mut datagram = vec![0x11];
    put_varint(&mut datagram, 1 + u64::from(input.byte()? % 6));
    datagram.extend((input.number()? as u16).to_be_bytes());
    let density = u16::from(input.byte()? & 15);
    datagram.extend((density << 12 | u16::from(input.byte()?)).to_be_bytes());
    datagram.extend((input.number()? as u32).to_be_bytes());
    let (len, fill) = (input.number()?.min(2_100), input.byte()?);
    // A length that a recovered symbol may have is at the beginning.
    datagram.extend(input.bytes(2));
    datagram.resize(datagram.len() + len as usize, fill);
    Some(datagram)
}
