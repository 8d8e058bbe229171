//! The server of real-time messages: creates each at its time, and writes it as soon as the transport accepts it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpquic_proto::{Dir, Event, StreamEvent, StreamHints, StreamId};
use serde::{Deserialize, Serialize};

use super::object::refuse_uni;
use crate::app::{App, AppContext};
use crate::stream_io::{Read, finish, read, write_all};
use crate::{AppError, content};

/// Bytes at the start of a message: its number, and its creation time (virtual time in
/// nanoseconds).
pub(super) const HEADER: usize = 16;

/// The longest request line.
const MAX_REQUEST: usize = 128;

/// How messages are placed on streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All messages on the stream of the request. Each waits for those before it.
    #[default]
    OneStream,
    /// Each message on its own unidirectional stream, with its deadline, size and number as hints.
    PerMessage,
}

/// The client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageRequest {
    pub(super) layout: Layout,
    /// The size of each message, header included.
    pub(super) bytes: u64,
    pub(super) count: u64,
    pub(super) interval: Duration,
    pub(super) deadline: Duration,
    pub(super) seed: u64,
}

impl MessageRequest {
    pub(super) fn line(&self) -> Vec<u8> {
        let layout = match self.layout {
            Layout::OneStream => 'O',
            Layout::PerMessage => 'P',
        };
        let (interval, deadline) = (self.interval.as_nanos(), self.deadline.as_nanos());
        let Self {
            bytes, count, seed, ..
        } = self;
        format!("MSG {layout} {bytes} {count} {interval} {deadline} {seed:016x}\n").into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let words: Vec<_> = std::str::from_utf8(line).ok()?.split(' ').collect();
        let ["MSG", layout, ref numbers @ .., seed] = words[..] else {
            return None;
        };
        let layout = match layout {
            "O" => Layout::OneStream,
            "P" => Layout::PerMessage,
            _ => return None,
        };
        let numbers: Vec<u64> = numbers
            .iter()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let [bytes, count, interval, deadline] = numbers[..] else {
            return None;
        };
        Some(Self {
            layout,
            bytes,
            count,
            interval: Duration::from_nanos(interval),
            deadline: Duration::from_nanos(deadline),
            seed: u64::from_str_radix(seed, 16).ok()?,
        })
    }

    /// The seed of a message's content after the header.
    pub(super) const fn content_seed(&self, number: u64) -> u64 {
        content::word(self.seed, number)
    }

    fn message(&self, number: u64, made: Duration) -> Vec<u8> {
        let mut message = vec![0; self.bytes as usize];
        message[..8].copy_from_slice(&number.to_le_bytes());
        let nanos = u64::try_from(made.as_nanos()).unwrap_or(u64::MAX);
        message[8..HEADER].copy_from_slice(&nanos.to_le_bytes());
        content::fill(self.content_seed(number), 0, &mut message[HEADER..]);
        message
    }
}

/// Serves one client of messages.
#[derive(Debug, Default)]
pub struct MessageServer {
    /// The stream of the request.
    asked: Option<StreamId>,
    line: Vec<u8>,
    request: Option<MessageRequest>,
    /// When the first message was created.
    began: Duration,
    made: u64,
    /// Messages, with their number and time, that wait for room on their stream or for a stream.
    waiting: VecDeque<(u64, Duration, Vec<u8>)>,
    /// Messages that the transport has accepted in part, by stream.
    partial: BTreeMap<StreamId, Vec<u8>>,
    finished: bool,
}

impl MessageServer {
    /// A server that waits for a request.
    pub fn new() -> Self {
        Self::default()
    }

    fn next_message(&self) -> Option<Duration> {
        let request = self.request?;
        let made = u32::try_from(self.made).ok()?;
        (self.made < request.count).then(|| self.began + request.interval.saturating_mul(made))
    }

    fn read_request(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        loop {
            match read(cx, id)? {
                Read::Blocked => return Ok(()),
                Read::Data(data)
                    if self.request.is_none() && self.line.len() + data.len() <= MAX_REQUEST =>
                {
                    self.line.extend_from_slice(&data);
                }
                Read::End if self.line.last() == Some(&b'\n') => return Ok(()),
                Read::Data(_) | Read::End => return Err(self.bad_request(id)),
            }
            if let Some((b'\n', line)) = self.line.split_last() {
                let request = MessageRequest::parse(line)
                    .filter(|request| request.bytes >= HEADER as u64)
                    .ok_or_else(|| self.bad_request(id))?;
                self.request = Some(request);
                self.began = cx.now();
                self.make(cx)?;
            }
        }
    }

    fn bad_request(&self, stream: StreamId) -> AppError {
        AppError::Protocol {
            stream,
            message: format!("bad request: {}", self.line.escape_ascii()),
        }
    }

    /// Creates the messages that are due, and writes what the transport accepts.
    fn make(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        while let (Some(request), Some(at)) = (self.request, self.next_message())
            && at <= cx.now()
        {
            let message = request.message(self.made, at);
            self.waiting.push_back((self.made, at, message));
            self.made += 1;
        }
        self.write(cx)
    }

    fn write(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let (Some(request), Some(asked)) = (self.request, self.asked) else {
            return Ok(());
        };
        match request.layout {
            Layout::OneStream => {
                while let Some((_, _, message)) = self.waiting.front_mut() {
                    if !write_all(cx, asked, message)? {
                        return Ok(());
                    }
                    self.waiting.pop_front();
                }
            }
            Layout::PerMessage => {
                while !self.waiting.is_empty()
                    && let Some(id) = cx.connection.streams().open(Dir::Uni)
                    && let Some((number, made, message)) = self.waiting.pop_front()
                {
                    let due = made + request.deadline;
                    let hints = StreamHints {
                        size: Some(request.bytes),
                        // The message may have waited for a stream until after its deadline.
                        deadline: match due.checked_sub(cx.now()) {
                            Some(left) => cx.instant().checked_add(left),
                            None => cx.instant().checked_sub(cx.now() - due),
                        },
                        chunk: Some(number),
                        ..StreamHints::default()
                    };
                    cx.connection
                        .send_stream(id)
                        .set_hints(hints)
                        .map_err(|_| AppError::Closed { stream: id })?;
                    self.partial.insert(id, message);
                    self.write_partial(cx, id)?;
                }
            }
        }
        if self.made == request.count && self.waiting.is_empty() && !self.finished {
            self.finished = true;
            finish(cx, asked)?;
        }
        Ok(())
    }

    fn write_partial(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        if let Some(message) = self.partial.get_mut(&id)
            && write_all(cx, id, message)?
        {
            finish(cx, id)?;
            self.partial.remove(&id);
        }
        Ok(())
    }
}

impl App for MessageServer {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = cx.connection.streams().accept(Dir::Bi) {
                    if self.asked.is_some() {
                        return Err(AppError::Protocol {
                            stream: id,
                            message: "a second request for messages".into(),
                        });
                    }
                    self.asked = Some(id);
                    self.read_request(cx, id)?;
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                refuse_uni(cx);
                Ok(())
            }
            Event::Stream(StreamEvent::Readable { id }) if self.asked == Some(id) => {
                self.read_request(cx, id)
            }
            Event::Stream(StreamEvent::Writable { id }) => {
                self.write_partial(cx, id)?;
                self.write(cx)
            }
            Event::Stream(StreamEvent::Available { dir: Dir::Uni }) => self.write(cx),
            _ => Ok(()),
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.next_message()
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.make(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_written() {
        let request = MessageRequest {
            layout: Layout::PerMessage,
            bytes: u64::MAX,
            count: u64::MAX,
            interval: Duration::from_nanos(u64::MAX),
            deadline: Duration::from_millis(33),
            seed: u64::MAX,
        };
        let line = request.line();
        assert!(line.len() <= MAX_REQUEST);
        let (end, line) = line.split_last().unwrap();
        assert_eq!((*end, MessageRequest::parse(line)), (b'\n', Some(request)));
        for bad in ["MSG", "MSG X 1 2 3 4 5", "MSG O 1 2 3 4", "GET O 1 2 3 4 5"] {
            assert_eq!(MessageRequest::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
