//! Records as bytes and back; knows no file, no clock and no scheduler.

use serde::{Deserialize, Serialize};

use super::{MAX_VALUES, Schema};

/// What a segment begins with.
pub(super) const MAGIC: &[u8; 8] = b"MPQTRAJ\n";
/// What `format` must say. To be counted up when older files can no longer be read.
pub(super) const FORMAT: u64 = 1;
/// What `crate` must say.
pub(super) const CRATE: &str = env!("CARGO_PKG_NAME");

/// Length, its complement, checksum.
pub(super) const FRAME: usize = 8;
/// Of a decision without its numbers, which is the longest head there is but for the outcome's.
const DECIDED: usize = 1 + 8 + 8 + 8 + 1 + 2 + 2;
const ENDED: usize = 1 + 8 + 8 + 1 + 9 * 8;
/// The longest payload that a scheduler's thread makes of so many numbers.
pub(super) const fn longest(values: usize) -> usize {
    let decided = DECIDED + 4 * values;
    if decided > ENDED { decided } else { ENDED }
}

const HEADER: u8 = 0;
const SCHEMA: u8 = 1;
const OPENED: u8 = 2;
const DECISION: u8 = 3;
const REWARD: u8 = 4;
const OUTCOME: u8 = 5;

/// The first record of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    #[serde(rename = "crate")]
    pub(super) name: String,
    pub(super) format: u64,
    /// Sixteen hexadecimal digits: what the segments of one recording share.
    pub(super) recording: String,
    pub(super) segment: u64,
}

/// A state was answered with an action.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decided {
    /// The connection.
    pub connection: u64,
    /// The decision's number; the same connection has no two of the same, and they grow.
    pub number: u64,
    /// When, microseconds since the first that the connection's scheduler was told.
    pub us: u64,
    /// Whether the policy's answer was not followed: a network's because it could not be, a bandit's because chance had
    /// it so.
    pub fell_back: bool,
    /// What was known.
    pub state: Vec<f32>,
    /// What was done.
    pub action: Vec<f32>,
}

/// A decision earned something.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Rewarded {
    /// The connection.
    pub connection: u64,
    /// The number of the decision.
    pub number: u64,
    /// When that was known, microseconds since the first that the connection's scheduler was told.
    pub us: u64,
    /// How much, in the scheduler's unit.
    pub reward: f64,
    /// Whether an episode ends with it.
    pub done: bool,
}

/// How a connection went, as its scheduler was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The time from the first to the last that its scheduler was told, microseconds.
    pub us: u64,
    /// Whether the recorder ended before the connection did.
    pub cut: bool,
    /// Packets that it placed.
    pub sent_packets: u64,
    /// Bytes of these on the wire.
    pub sent_bytes: u64,
    /// How many of these packets carried data that was sent before.
    pub retransmissions: u64,
    /// Bytes of packets that were acknowledged, on the wire.
    pub acked_bytes: u64,
    /// Stream bytes that became contiguous at the receiver.
    pub contiguous_bytes: u64,
    /// Packets that were declared lost.
    pub lost_packets: u64,
    /// Decisions that were told to the recorder.
    pub decisions: u64,
    /// Rewards that were.
    pub rewards: u64,
    /// Decisions and rewards that are not in the file, because they came faster than they could be written, or were not
    /// as the schema has it.
    pub dropped: u64,
}

/// A record.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// What the records of connections with this schema look like.
    #[non_exhaustive]
    Schema {
        /// Its number within the segment.
        id: u32,
        /// What they look like.
        schema: Schema,
    },
    /// From here on, the segment tells of this connection.
    #[non_exhaustive]
    Opened {
        /// The connection.
        connection: u64,
        /// Its schema.
        schema: u32,
    },
    /// A decision.
    Decided(Decided),
    /// A reward.
    Rewarded(Rewarded),
    /// A connection has ended; nothing more is told of it.
    #[non_exhaustive]
    Ended {
        /// The connection.
        connection: u64,
        /// How it went.
        outcome: Outcome,
    },
}

/// Writes payloads into memory that was set aside before.
pub(super) struct Encoder<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.buffer.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    /// The bytes written; `None` if they did not fit.
    pub(super) fn decided(
        mut self,
        connection: u64,
        number: u64,
        us: u64,
        fell_back: bool,
        [state, action]: [&[f32]; 2],
    ) -> Option<usize> {
        self.put(&[DECISION])?;
        for word in [connection, number, us] {
            self.put(&word.to_le_bytes())?;
        }
        self.put(&[u8::from(fell_back)])?;
        for values in [state, action] {
            self.put(&u16::try_from(values.len()).ok()?.to_le_bytes())?;
        }
        for value in state.iter().chain(action) {
            self.put(&value.to_le_bytes())?;
        }
        Some(self.at)
    }

    /// The same of a reward.
    pub(super) fn rewarded(mut self, event: &Rewarded) -> Option<usize> {
        self.put(&[REWARD])?;
        for word in [event.connection, event.number, event.us] {
            self.put(&word.to_le_bytes())?;
        }
        self.put(&[u8::from(event.done)])?;
        self.put(&event.reward.to_le_bytes())?;
        Some(self.at)
    }
}

/// The payload of the first record.
pub(super) fn header(recording: u64, segment: u64) -> Vec<u8> {
    let header = Header {
        name: CRATE.to_owned(),
        format: FORMAT,
        recording: format!("{recording:016x}"),
        segment,
    };
    let mut payload = vec![HEADER];
    payload.extend(serde_json::json!(header).to_string().bytes());
    payload
}

/// The payload of a schema, of which the text is there.
pub(super) fn schema(id: u32, text: &str) -> Vec<u8> {
    let mut payload = vec![SCHEMA];
    payload.extend(id.to_le_bytes());
    payload.extend(text.bytes());
    payload
}

/// The payload that names a connection's schema.
pub(super) fn opened(connection: u64, schema: u32) -> Vec<u8> {
    let mut payload = vec![OPENED];
    payload.extend(connection.to_le_bytes());
    payload.extend(schema.to_le_bytes());
    payload
}

/// The payload of an outcome.
pub(super) fn ended(connection: u64, outcome: &Outcome) -> Vec<u8> {
    let mut payload = vec![OUTCOME];
    payload.extend(connection.to_le_bytes());
    payload.extend(outcome.us.to_le_bytes());
    payload.push(u8::from(outcome.cut));
    for count in outcome.counts() {
        payload.extend(count.to_le_bytes());
    }
    payload
}

impl Outcome {
    const fn counts(&self) -> [u64; 9] {
        [
            self.sent_packets,
            self.sent_bytes,
            self.retransmissions,
            self.acked_bytes,
            self.contiguous_bytes,
            self.lost_packets,
            self.decisions,
            self.rewards,
            self.dropped,
        ]
    }
}

/// Puts a record with this payload behind the others.
pub(super) fn frame(into: &mut Vec<u8>, payload: &[u8]) {
    debug_assert!(payload.len() <= usize::from(u16::MAX));
    let length = payload.len() as u16;
    into.extend(length.to_le_bytes());
    into.extend((!length).to_le_bytes());
    into.extend(crc32fast::hash(payload).to_le_bytes());
    into.extend(payload);
}

/// The payload of the record that the bytes begin with, and the bytes behind it; `None` if there is none that is whole.
pub(super) fn unframe(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (complement, rest) = rest.split_first_chunk::<2>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let length = u16::from_le_bytes(*length);
    // A checksum alone would leave a changed length one chance in 2^32 to look right.
    if length != !u16::from_le_bytes(*complement) {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(usize::from(length))?;
    (crc32fast::hash(payload) == u32::from_le_bytes(*checksum)).then_some((payload, rest))
}

/// Whether the bytes, which begin with no whole record, are what a crash leaves behind: the beginning of one, or zeros.
pub(super) fn is_torn(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return true;
    };
    let length = u16::from_le_bytes([head[0], head[1]]);
    let sound = length == !u16::from_le_bytes([head[2], head[3]]);
    // File systems may know of a file's length before they have what is in it.
    sound && rest.len() < 4 + usize::from(length) || bytes.iter().all(|byte| *byte == 0)
}

/// Reads a payload from its front.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| format!("the record ends {} bytes too early", N - self.0.len()))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn word(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("expected flags of 0 or 1, got {other}")),
        }
    }

    fn values(&mut self, count: usize) -> Result<Vec<f32>, String> {
        // What is there is counted before memory is taken for it.
        let (bytes, rest) = self
            .0
            .split_at_checked(4 * count)
            .ok_or_else(|| format!("expected {count} numbers, got {} bytes", self.0.len()))?;
        self.0 = rest;
        let (chunks, _) = bytes.as_chunks();
        Ok(chunks
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect())
    }
}

/// The header in a segment's first payload.
pub(super) fn decode_header(payload: &[u8]) -> Result<Header, String> {
    match payload.split_first() {
        Some((&HEADER, text)) => serde_json::from_slice(text).map_err(|error| error.to_string()),
        _ => Err("the first record is no header".to_owned()),
    }
}

/// What a payload says; else what is wrong with it.
pub(super) fn decode(payload: &[u8]) -> Result<Event, String> {
    let mut bytes = Decoder(payload);
    let [kind] = bytes.take()?;
    let event = match kind {
        SCHEMA => {
            let id = u32::from_le_bytes(bytes.take()?);
            let text = std::mem::take(&mut bytes.0);
            let schema: Schema = serde_json::from_slice(text).map_err(|error| error.to_string())?;
            if let Some(problem) = schema.problem() {
                return Err(problem);
            }
            Event::Schema { id, schema }
        }
        OPENED => Event::Opened {
            connection: bytes.word()?,
            schema: u32::from_le_bytes(bytes.take()?),
        },
        DECISION => {
            let [connection, number, us] = [bytes.word()?, bytes.word()?, bytes.word()?];
            let fell_back = bytes.flag()?;
            let state = usize::from(u16::from_le_bytes(bytes.take()?));
            let action = usize::from(u16::from_le_bytes(bytes.take()?));
            if state + action > MAX_VALUES {
                return Err(format!(
                    "expected at most {MAX_VALUES} numbers, got {}",
                    state + action
                ));
            }
            Event::Decided(Decided {
                connection,
                number,
                us,
                fell_back,
                state: bytes.values(state)?,
                action: bytes.values(action)?,
            })
        }
        REWARD => {
            let [connection, number, us] = [bytes.word()?, bytes.word()?, bytes.word()?];
            let done = bytes.flag()?;
            Event::Rewarded(Rewarded {
                connection,
                number,
                us,
                reward: bytes.take().map(f64::from_le_bytes)?,
                done,
            })
        }
        OUTCOME => Event::Ended {
            connection: bytes.word()?,
            outcome: Outcome {
                us: bytes.word()?,
                cut: bytes.flag()?,
                sent_packets: bytes.word()?,
                sent_bytes: bytes.word()?,
                retransmissions: bytes.word()?,
                acked_bytes: bytes.word()?,
                contiguous_bytes: bytes.word()?,
                lost_packets: bytes.word()?,
                decisions: bytes.word()?,
                rewards: bytes.word()?,
                dropped: bytes.word()?,
            },
        },
        other => return Err(format!("expected a record of kind 1 to 5, got {other}")),
    };
    if bytes.0.is_empty() {
        Ok(event)
    } else {
        Err(format!("the record has {} bytes too many", bytes.0.len()))
    }
}
