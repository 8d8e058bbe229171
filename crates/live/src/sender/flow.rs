//! One flow at the sender: its frames and packets, and what became of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::path::PathId;
use super::rates::{ARMS, Rates, Repair, Situation};
use super::replay::{Carry, replay};
use crate::rlc::{Encoder, MAX_WINDOW};
use crate::wire::{Body, MAX_FRAME, part_range};

/// How many packets of a flow are remembered.
pub(super) const REMEMBERED: usize = 1_024;

/// The most copies of a packet, beside the hedge.
pub(super) const MAX_COPIES: u8 = 2;

/// Over how many packets shares of losses are taken.
const SHARES: f64 = 256.0;

/// Frames or messages of one kind: a deadline, and what a frame in time is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    pub(super) deadline: Duration,
    pub(super) worth: f64,
    pub(super) repair: Repair,
}

impl Flow {
    /// Frames that are of use for so long after they are handed over: from 1 ms to 60 s, anything else counts as the nearest.
    pub fn new(deadline: Duration) -> Self {
        let deadline = deadline.clamp(Duration::from_millis(1), Duration::from_secs(60));
        Self {
            deadline,
            worth: 0.02,
            repair: Repair::default(),
        }
    }

    /// The price of bytes: how large a share of frames in time as many bytes of repair as of frames are worth. With 0.02, which is
    /// the default, 1 % more frames are worth 50 % more bytes; with 0.1, 10 % more. 0 or less: whatever brings more frames.
    pub fn worth(mut self, price: f64) -> Self {
        self.worth = if price > 0.0 { price } else { 0.0 };
        self
    }

    /// For how long its frames are of use.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The price of bytes, as [`worth`](Self::worth) has it.
    pub const fn price(&self) -> f64 {
        self.worth
    }

    /// Who chooses the rate of repair. Default: [`Repair::Learned`].
    pub fn repair(mut self, repair: Repair) -> Self {
        self.repair = repair;
        self
    }
}

/// What is said of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// A key frame, without which others are of no use. The receiver is told.
    pub key: bool,
}

/// Why a frame is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no such flow.
    #[error("there is no flow {0}")]
    NoFlow(u32),
    /// The frame needs more packets than a flow remembers.
    #[error("the frame has {len} bytes, of {max} that fit the packets of a frame")]
    TooLong {
        /// Bytes of the frame.
        len: usize,
        /// How many it may have.
        max: usize,
    },
}

/// A source packet that may still be sent again or repaired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) deadline: Instant,
    /// When it arrived, as far as its acknowledgement tells.
    pub(super) arrival: Option<Instant>,
    /// It was handed to the transport.
    pub(super) left: bool,
    /// It was dropped: too late.
    pub(super) dropped: bool,
    /// How often it is on its way, and may still be acknowledged in time.
    pub(super) live: u8,
    pub(super) copies: u8,
}

impl Packet {
    /// Whether sending it again is of use.
    pub(super) fn wants(&self) -> bool {
        self.arrival.is_none() && !self.dropped
    }
}

/// A frame that was not judged yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) first: u64,
    pub(super) parts: u32,
    pub(super) deadline: Instant,
    /// When the last of its packets was handed to the transport.
    pub(super) left: Option<Instant>,
    /// How many repair packets each rate would have sent with it.
    pub(super) repairs: [u8; ARMS],
    arm: usize,
    situation: Situation,
    /// How many of its packets went over which path; of more paths than have a place, nothing is known.
    carried: [Option<(PathId, u16)>; 4],
}

impl Frame {
    pub(super) fn carried(&self, path: PathId) -> u16 {
        self.carried
            .iter()
            .flatten()
            .find(|(id, _)| *id == path)
            .map_or(0, |(_, count)| *count)
    }

    /// Whether all of its packets have left, as far as their paths are known.
    pub(super) fn has_left(&self) -> bool {
        let carried = self.carried.iter().flatten();
        carried.map(|(_, count)| u32::from(*count)).sum::<u32>() >= self.parts
    }

    fn carry(&mut self, path: PathId) {
        for place in &mut self.carried {
            match place {
                Some((id, count)) if *id == path => {
                    *count = count.saturating_add(1);
                    return;
                }
                Some(_) => {}
                None => {
                    *place = Some((path, 1));
                    return;
                }
            }
        }
    }
}

/// Bytes per second, in the mean of the last second or so; in the first second, of what there was of it.
#[derive(Debug)]
pub(super) struct Meter {
    begin: Instant,
    level: f64,
    at: Instant,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            begin: now,
            level: 0.0,
            at: now,
        }
    }

    pub(super) fn add(&mut self, now: Instant, bytes: usize) {
        if self.level(now) < 1.0 {
            self.begin = now;
        }
        self.level = self.level(now) + bytes as f64;
        self.at = self.at.max(now);
    }

    fn level(&self, now: Instant) -> f64 {
        self.level * (-now.saturating_duration_since(self.at).as_secs_f64()).exp()
    }

    pub(super) fn rate(&self, now: Instant) -> f64 {
        // A tenth of a second: the first frame is not the rate of its instant.
        let elapsed = now
            .saturating_duration_since(self.begin)
            .as_secs_f64()
            .max(0.1);
        self.level(now) / (1.0 - (-elapsed).exp())
    }
}

/// A flow at the sender.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) id: u32,
    pub(super) flow: Flow,
    pub(super) encoder: Encoder,
    /// The number of the first of `packets`.
    base: u64,
    packets: VecDeque<Packet>,
    frames: VecDeque<Frame>,
    next_frame: u64,
    pub(super) rates: Rates,
    carry: Carry,
    /// Repair packets that are due, in parts of one.
    pub(super) due: f64,
    /// The rate of repair of the last frame, as headroom allowed it.
    pub(super) rate: f64,
    pub(super) repair_key: u16,
    /// Bytes of frames, and of all that was sent beside.
    pub(super) frames_meter: Meter,
    pub(super) extra_meter: Meter,
    /// The share of packets that arrive.
    pub(super) share: f64,
    /// A frame was judged: the flow is past its start, in which windows double each round trip.
    pub(super) judged: bool,
    scratch: Vec<u8>,
}

impl Outbound {
    pub(super) fn new(id: u32, flow: Flow, now: Instant, seed: u64) -> Self {
        Self {
            id,
            flow,
            encoder: Encoder::new(REMEMBERED),
            base: 0,
            packets: VecDeque::with_capacity(REMEMBERED),
            frames: VecDeque::with_capacity(REMEMBERED),
            next_frame: 0,
            rates: Rates::new(flow.repair, flow.worth, seed),
            carry: Carry::default(),
            due: 0.0,
            rate: 0.0,
            repair_key: 0,
            frames_meter: Meter::new(now),
            extra_meter: Meter::new(now),
            share: 1.0,
            judged: false,
            scratch: Vec::with_capacity(2_048),
        }
    }

    /// Takes a frame: cuts it into packets. Returns its number and how many packets it has; those before it that had to make room
    /// and never left are counted in `dropped`.
    pub(super) fn push(
        &mut self,
        now: Instant,
        data: &[u8],
        info: FrameInfo,
        place: &Place,
        dropped: &mut u64,
    ) -> Result<(u64, u32), SendError> {
        // Its fields as long as they can be for this frame.
        let fixed = 1
            + varint_len(self.next_frame)
            + varint_len(place.sent)
            + varint_len(u64::from(place.budget));
        let most =
            place.body - fixed - varint_len(data.len() as u64) - 2 * varint_len(REMEMBERED as u64);
        let max = (most * REMEMBERED).min(MAX_FRAME);
        if data.len() > max {
            return Err(SendError::TooLong {
                len: data.len(),
                max,
            });
        }
        let parts = data.len().div_ceil(most).max(1) as u32;
        while self.packets.len() + parts as usize > REMEMBERED {
            *dropped += self.forget();
        }
        let (rate, arm) = self.rates.choose(place.situation);
        self.rate = rate.min(place.cap);
        self.due += self.rate * f64::from(parts);
        let deadline = now + self.flow.deadline;
        let first = self.encoder.next();
        for part in 0..parts {
            let (from, to) = part_range(data.len() as u32, parts, part);
            let body = Body {
                key: info.key,
                frame: self.next_frame,
                sent: place.sent,
                budget: place.budget,
                length: data.len() as u32,
                parts,
                part,
                payload: &data[from..to],
            };
            self.scratch.clear();
            body.write(&mut self.scratch);
            // Not longer than a symbol: `place.body` is not.
            let _ = self.encoder.push(&self.scratch);
            self.packets.push_back(Packet {
                deadline,
                arrival: None,
                left: false,
                dropped: false,
                live: 0,
                copies: 0,
            });
        }
        self.frames.push_back(Frame {
            first,
            parts,
            deadline,
            left: None,
            repairs: self.carry.frame(parts, place.cap),
            arm,
            situation: place.situation,
            carried: [None; 4],
        });
        self.next_frame += 1;
        Ok((self.next_frame - 1, parts))
    }

    pub(super) fn packet(&mut self, symbol: u64) -> Option<&mut Packet> {
        let place = symbol.checked_sub(self.base)?;
        self.packets.get_mut(place as usize)
    }

    pub(super) fn frame_of(&mut self, symbol: u64) -> Option<&mut Frame> {
        let place = self
            .frames
            .partition_point(|frame| frame.first + u64::from(frame.parts) <= symbol);
        self.frames
            .get_mut(place)
            .filter(|frame| frame.first <= symbol)
    }

    /// A source packet was handed to the transport.
    pub(super) fn left(&mut self, symbol: u64, now: Instant) {
        if let Some(packet) = self.packet(symbol) {
            packet.left = true;
            packet.live += 1;
        }
        if let Some(frame) = self.frame_of(symbol)
            && symbol + 1 == frame.first + u64::from(frame.parts)
        {
            frame.left = Some(now);
        }
    }

    pub(super) fn went_over(&mut self, symbol: u64, path: PathId) {
        if let Some(frame) = self.frame_of(symbol) {
            frame.carry(path);
        }
    }

    /// A packet was acknowledged or lost.
    pub(super) fn count(&mut self, arrived: bool) {
        self.share += (f64::from(u8::from(arrived)) - self.share) / SHARES;
    }

    /// What a repair packet is to cover: from the oldest packet that is neither acknowledged nor too late, to the last that left.
    pub(super) fn window(&self, at: Instant) -> Option<(u64, usize, Instant)> {
        let left = self
            .packets
            .partition_point(|packet| packet.left || packet.dropped);
        let first = (left.saturating_sub(MAX_WINDOW)..left)
            .find(|place| self.packets[*place].wants() && self.packets[*place].deadline > at)?;
        Some((
            self.base + first as u64,
            left - first,
            self.packets[left - 1].deadline,
        ))
    }

    /// When the next frame can be judged: a deadline and a round trip after it.
    pub(super) fn judged_at(&self, round_trip: Duration) -> Option<Instant> {
        self.frames.front().map(|frame| frame.deadline + round_trip)
    }

    /// Judges the frames whose packets' fates are known, and learns. Returns how many packets never left.
    pub(super) fn judge(&mut self, now: Instant, round_trip: Duration, way: Duration) -> u64 {
        let mut dropped = 0;
        while self.judged_at(round_trip).is_some_and(|at| at <= now) {
            let rewards = replay(&self.frames, &self.packets, self.base, self.share, way);
            let frame = self.frames[0];
            self.judged = true;
            self.rates.learn(&rewards, frame.arm, frame.situation);
            dropped += self.forget();
        }
        dropped
    }

    /// Forgets the oldest frame. Returns how many of its packets never left.
    fn forget(&mut self) -> u64 {
        let Some(frame) = self.frames.pop_front() else {
            return 0;
        };
        self.base = frame.first + u64::from(frame.parts);
        self.packets
            .drain(..frame.parts as usize)
            .filter(|packet| !packet.left && !packet.dropped)
            .count() as u64
    }
}

/// What a frame is told of the world.
#[derive(Debug)]
pub(super) struct Place {
    /// Milliseconds since the sender began.
    pub(super) sent: u64,
    pub(super) budget: u32,
    /// The most bytes of a body.
    pub(super) body: usize,
    /// The highest rate of repair that headroom allows.
    pub(super) cap: f64,
    pub(super) situation: Situation,
}

const fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}
