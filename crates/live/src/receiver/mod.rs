//! The receiver: puts frames together, brings back what was lost, and says of each frame what became of it, once.

mod clock;
mod frames;

use std::time::Instant;

use crate::rlc::{Decoder, RepairOutcome};
use crate::wire::{Body, MAX_PARTS, Malformed, Packet};
use frames::{Frames, Ready};

/// How many frames of a flow may be without a verdict at a time. When a frame so far ahead comes, those before are given up:
/// what keeps a peer from making us remember more.
pub const MAX_FRAMES: u64 = 1_024;

/// How many verdicts wait for an application that does not ask for them, until datagrams are refused.
pub const MAX_READY: usize = 2_048;

/// Buffers up to this size are used again.
const REUSED: usize = 256 << 10;

/// How many buffers are kept to be used again.
const KEPT: usize = 64;

/// The most bytes of a frame's map of parts.
const MAP: usize = (MAX_PARTS / 8) as usize;

/// What a receiver may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many flows there may be. Default: 16.
    pub flows: usize,
    /// Bytes of frames, of all flows: of those that are not whole, and of those that the application has not taken. What is
    /// beyond is refused. Default: 8 MiB.
    pub bytes: usize,
}

impl Limits {
    /// The most bytes that a receiver with these limits takes of the allocator, whatever comes: what
    /// [`Receiver::memory_use`] never exceeds. Beside `bytes` twice, as buffers are used again for frames that may be smaller,
    /// it is 16 MiB for buffers that wait for use and 5 MiB for each flow's symbols and notes on frames.
    ///
    /// ```
    /// use mpquic_live::{Limits, Receiver};
    ///
    /// let limits = Limits { flows: 2, bytes: 1 << 20 };
    /// assert!(limits.max_memory() <= 28 << 20);
    /// assert!(Receiver::new(limits).memory_use() <= limits.max_memory());
    /// ```
    pub const fn max_memory(&self) -> usize {
        let pool = KEPT * (REUSED + MAP + size_of::<Vec<u8>>() + size_of::<Vec<u64>>());
        // A vector of flows has room for up to twice as many, and for four at first.
        let places = self.flows.saturating_mul(2).saturating_add(4);
        self.bytes
            .saturating_mul(2)
            .saturating_add(pool)
            .saturating_add(places.saturating_mul(size_of::<(u32, Inbound)>()))
            .saturating_add(
                self.flows
                    .saturating_mul(Decoder::MAX_MEMORY + Frames::MAX_MEMORY),
            )
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 16,
            bytes: 8 << 20,
        }
    }
}

/// What became of a frame: each has one, in the order in which it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It is whole: its bytes are in the buffer.
    Frame {
        /// Whose frame.
        flow: u32,
        /// Its number.
        id: u64,
        /// Whether it is a key frame.
        key: bool,
        /// Whether a part of it was brought back by a repair packet.
        repaired: bool,
    },
    /// It is due, and not whole.
    Missing {
        /// Whose frame.
        flow: u32,
        /// Its number.
        id: u64,
    },
    /// So many frames in a row are missing that they were given up together, as one [`MAX_FRAMES`] later has come.
    Skipped {
        /// Whose frames.
        flow: u32,
        /// The first one's number.
        first: u64,
        /// The last one's number.
        last: u64,
    },
}

/// A datagram that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The peer sent what is not of the format.
    #[error("the peer sent a malformed datagram: {0}")]
    Malformed(#[from] Malformed),
    /// The peer began more flows than [`Limits::flows`].
    #[error("the peer has too many flows")]
    TooManyFlows,
    /// The application has left [`MAX_READY`] verdicts of the flow.
    #[error("the application does not take what is ready")]
    Clogged,
}

/// What a receiver has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStats {
    /// Frames handed over.
    pub frames: u64,
    /// Of these, those that repair packets made whole.
    pub repaired: u64,
    /// Frames that were missing when they were due, or skipped.
    pub missing: u64,
    /// Parts that came once more.
    pub duplicates: u64,
    /// Parts that came after their frame's verdict.
    pub late: u64,
    /// Parts that were refused: they contradict others, or [`Limits::bytes`] are held.
    pub refused: u64,
    /// Repair packets that told something new.
    pub repairs_used: u64,
    /// Repair packets that did not.
    pub repairs_unused: u64,
}

/// Memory of frames, used again.
#[derive(Debug)]
struct Buffers {
    /// Bytes of frames, at most [`Limits::bytes`].
    held: usize,
    /// By how much the buffers of these frames are larger than the frames: as much at most.
    excess: usize,
    most: usize,
    /// Each at most [`REUSED`] bytes.
    data: Vec<Vec<u8>>,
    maps: Vec<Vec<u64>>,
}

impl Buffers {
    fn take(&mut self, len: usize) -> Option<(Vec<u8>, Vec<u64>)> {
        if self.held + len > self.most {
            return None;
        }
        let mut data = self.data.pop().unwrap_or_default();
        // Many small frames in large buffers would take far more memory than they have bytes.
        if self.excess + data.capacity().saturating_sub(len) > self.most {
            data = Vec::new();
        }
        data.reserve_exact(len);
        data.resize(len, 0);
        self.held += len;
        self.excess += data.capacity() - len;
        Some((data, self.maps.pop().unwrap_or_default()))
    }

    /// A frame's bytes are not the receiver's any more.
    fn leave(&mut self, data: &Vec<u8>) {
        self.held -= data.len();
        self.excess -= data.capacity() - data.len();
    }

    fn give_up(&mut self, map: Vec<u64>, data: Vec<u8>) {
        self.put_map(map);
        self.drop(data);
    }

    fn drop(&mut self, data: Vec<u8>) {
        self.leave(&data);
        self.put(data);
    }

    fn put_map(&mut self, mut map: Vec<u64>) {
        map.clear();
        if self.maps.len() < KEPT {
            self.maps.push(map);
        }
    }

    fn put(&mut self, mut data: Vec<u8>) {
        data.clear();
        if (1..=REUSED).contains(&data.capacity()) && self.data.len() < KEPT {
            self.data.push(data);
        }
    }

    /// Of frames and of what waits for use.
    fn memory(&self) -> usize {
        let data: usize = self.data.iter().map(Vec::capacity).sum();
        let maps: usize = self.maps.iter().map(Vec::capacity).sum();
        self.held
            + self.excess
            + data
            + self.data.capacity() * size_of::<Vec<u8>>()
            + maps * size_of::<u64>()
            + self.maps.capacity() * size_of::<Vec<u64>>()
    }
}

/// What came in as datagrams goes out as frames.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use mpquic_live::wire::{Body, Packet};
/// use mpquic_live::{Receiver, Verdict};
///
/// let mut receiver = Receiver::default();
/// let mut now = Instant::now();
/// let datagram = |frame, parts, payload| {
///     let (mut body, mut datagram) = (Vec::new(), Vec::new());
///     Body { key: false, frame, sent: 50 * frame, budget: 180, length: 5, parts, part: 0, payload }.write(&mut body);
///     Packet::Source { flow: 0, symbol: frame as u32, body: &body }.write(&mut datagram);
///     datagram
/// };
/// let mut buffer = Vec::new();
///
/// receiver.receive(now, &datagram(0, 1, b"whole"))?;
/// let whole = Verdict::Frame { flow: 0, id: 0, key: false, repaired: false };
/// assert_eq!(receiver.poll(now, &mut buffer), Some(whole));
/// assert_eq!(buffer, b"whole");
///
/// receiver.receive(now, &datagram(1, 2, b"hal"))?; // The other part does not come.
/// assert_eq!(receiver.poll(now, &mut buffer), None);
/// now = receiver.poll_timeout().unwrap();
/// assert_eq!(receiver.poll(now, &mut buffer), Some(Verdict::Missing { flow: 0, id: 1 }));
/// # Ok::<(), mpquic_live::ReceiveError>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    limits: Limits,
    /// In the order of their numbers.
    flows: Vec<(u32, Inbound)>,
    buffers: Buffers,
    stats: ReceiverStats,
}

#[derive(Debug)]
struct Inbound {
    decoder: Decoder,
    /// From the first source packet on.
    frames: Option<Frames>,
}

impl Receiver {
    /// A receiver of no flows; each begins with its first datagram.
    pub fn new(limits: Limits) -> Self {
        let buffers = Buffers {
            held: 0,
            excess: 0,
            most: limits.bytes,
            data: Vec::with_capacity(KEPT),
            maps: Vec::with_capacity(KEPT),
        };
        Self {
            limits,
            flows: Vec::new(),
            buffers,
            stats: ReceiverStats::default(),
        }
    }

    /// A datagram came. Ask [`poll`](Self::poll) then.
    ///
    /// # Errors
    ///
    /// If it is not taken; the receiver goes on as if it had been lost.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), ReceiveError> {
        let packet = Packet::read(datagram)?;
        let id = match packet {
            Packet::Source { flow, body, .. } => {
                Body::read(body)?;
                flow
            }
            Packet::Repair { flow, .. } => flow,
            Packet::Probe => return Ok(()),
        };
        let place = match self.flows.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(place) => place,
            Err(_) if self.flows.len() >= self.limits.flows => {
                return Err(ReceiveError::TooManyFlows);
            }
            Err(place) => {
                self.flows.insert(
                    place,
                    (
                        id,
                        Inbound {
                            decoder: Decoder::new(),
                            frames: None,
                        },
                    ),
                );
                place
            }
        };
        let Inbound { decoder, frames } = &mut self.flows[place].1;
        if let Some(frames) = frames {
            frames.expire(now, &mut self.buffers, &mut self.stats);
            if frames.is_clogged() {
                return Err(ReceiveError::Clogged);
            }
        }
        match packet {
            Packet::Source { symbol, body, .. } => {
                decoder.source(symbol, body);
                let body = Body::read(body)?;
                frames
                    .get_or_insert_with(|| Frames::new(id, now, body.sent))
                    .part(now, &body, false, &mut self.buffers, &mut self.stats);
            }
            Packet::Repair {
                key,
                density,
                window,
                first,
                symbol,
                ..
            } => match decoder.repair(first, usize::from(window), key, density, symbol) {
                RepairOutcome::Taken => self.stats.repairs_used += 1,
                _ => self.stats.repairs_unused += 1,
            },
            Packet::Probe => {}
        }
        while let Some(number) = decoder.recovered() {
            let Some(Ok(body)) = decoder.content(number).map(Body::read) else {
                self.stats.refused += 1;
                continue;
            };
            frames
                .get_or_insert_with(|| Frames::new(id, now, body.sent))
                .part(now, &body, true, &mut self.buffers, &mut self.stats);
        }
        Ok(())
    }

    /// What became of the next frame. A whole frame's bytes are swapped into `frame`, whose memory is used again; otherwise it
    /// is empty.
    pub fn poll(&mut self, now: Instant, frame: &mut Vec<u8>) -> Option<Verdict> {
        for (_, flow) in &mut self.flows {
            let Some(frames) = &mut flow.frames else {
                continue;
            };
            if !frames.is_ready() {
                frames.expire(now, &mut self.buffers, &mut self.stats);
            }
            if let Some(Ready { verdict, mut data }) = frames.take() {
                self.buffers.leave(&data);
                std::mem::swap(frame, &mut data);
                self.buffers.put(data);
                return Some(verdict);
            }
        }
        None
    }

    /// When to [`poll`](Self::poll) even if nothing comes: the next frame is due then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flows
            .iter()
            .filter_map(|(_, flow)| flow.frames.as_ref()?.due())
            .min()
    }

    /// Forgets a flow, with what of it has no verdict yet. Should more of it come, it begins anew.
    pub fn close(&mut self, flow: u32) {
        if let Ok(place) = self.flows.binary_search_by_key(&flow, |(id, _)| *id)
            && let Some(frames) = self.flows.remove(place).1.frames
        {
            frames.close(&mut self.buffers);
        }
    }

    /// What it has seen.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Bytes of frames that are not whole or not taken by the application: at most [`Limits::bytes`].
    pub fn held(&self) -> usize {
        self.buffers.held
    }

    /// Bytes that it has of the allocator, at most [`Limits::max_memory`]. It looks at all that is held: not for each datagram.
    pub fn memory_use(&self) -> usize {
        let of_flows: usize = self
            .flows
            .iter()
            .map(|(_, Inbound { decoder, frames })| {
                decoder.memory_use() + frames.as_ref().map_or(0, Frames::memory_use)
            })
            .sum();
        self.buffers.memory() + of_flows + self.flows.capacity() * size_of::<(u32, Inbound)>()
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}
