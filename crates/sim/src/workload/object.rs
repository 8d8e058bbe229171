//! HTTP-like objects: the request line on a bidirectional stream, and the server that answers it.

use std::collections::BTreeMap;

use mpquic_proto::{Dir, Event, StreamEvent, StreamHints, StreamId, VarInt};

use crate::AppError;
use crate::app::{App, AppContext};
use crate::stream_io::{Read, Source, finish, read};

/// The longest request line.
const MAX_REQUEST: usize = 128;

/// A request for an object: content of a given size, generated from a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// `None`: endless, until the connection ends.
    pub(crate) bytes: Option<u64>,
    pub(crate) seed: u64,
    /// The priority that the server sets on the response's stream, similar to RFC 9218.
    pub(crate) priority: i32,
    /// The number of a media segment.
    pub(crate) chunk: Option<u64>,
    /// The segments that the player holds, and whether it has marked this one for exploration; `None`
    /// from players that mark none, whose requests are shorter.
    pub(crate) held: Option<(u64, bool)>,
}

impl Request {
    pub(crate) const fn new(bytes: u64, seed: u64) -> Self {
        Self {
            bytes: Some(bytes),
            seed,
            priority: 0,
            chunk: None,
            held: None,
        }
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let (bytes, chunk) = (number(self.bytes), number(self.chunk));
        // The length must not depend on the seed, so that every request takes the same time.
        let held = self.held.map_or_else(String::new, |(buffered, explore)| {
            format!(" {buffered} {}", u8::from(explore))
        });
        let (seed, priority) = (self.seed, self.priority);
        format!("GET {bytes} {seed:016x} {priority} {chunk}{held}\n").into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let number = |word: &str| match word {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        };
        let words: Vec<_> = std::str::from_utf8(line).ok()?.split(' ').collect();
        let ["GET", bytes, seed, priority, chunk, ref held @ ..] = words[..] else {
            return None;
        };
        let held = match held {
            [] => None,
            [buffered, "0"] => Some((buffered.parse().ok()?, false)),
            [buffered, "1"] => Some((buffered.parse().ok()?, true)),
            _ => return None,
        };
        Some(Self {
            bytes: number(bytes)?,
            seed: u64::from_str_radix(seed, 16).ok()?,
            priority: priority.parse().ok()?,
            chunk: number(chunk)?,
            held,
        })
    }
}

#[derive(Debug)]
enum Answer {
    /// Its request so far.
    Asked(Vec<u8>),
    Sending(Source),
    /// Sent, but the client's end of stream was not read yet. Only then is a stream closed in both
    /// directions (RFC 9000 section 3).
    Sent,
}

/// Answers all requests for objects at the same time, as fast as the transport accepts the data. It
/// sets the requested priority on each response's stream, and tells the transport the size and
/// chunk number.
#[derive(Debug, Default)]
pub struct ObjectServer {
    streams: BTreeMap<StreamId, Answer>,
    served: u64,
}

impl ObjectServer {
    /// A server without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of objects sent completely.
    pub const fn served(&self) -> u64 {
        self.served
    }

    fn go_on(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let Some(answer) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        loop {
            match answer {
                Answer::Asked(line) => match read(cx, id)? {
                    Read::Blocked => return Ok(()),
                    Read::Data(data) if line.len() + data.len() <= MAX_REQUEST => {
                        line.extend_from_slice(&data);
                        if let Some((b'\n', line)) = line.split_last() {
                            let request =
                                Request::parse(line).ok_or_else(|| bad_request(id, line))?;
                            *answer = Answer::Sending(begin(cx, id, request)?);
                        }
                    }
                    Read::Data(_) | Read::End => return Err(bad_request(id, line)),
                },
                Answer::Sending(source) => {
                    if !source.pump(cx, id)? {
                        return Ok(());
                    }
                    finish(cx, id)?;
                    self.served += 1;
                    *answer = Answer::Sent;
                }
                Answer::Sent => {
                    match read(cx, id)? {
                        Read::Blocked => {}
                        Read::End => {
                            self.streams.remove(&id);
                        }
                        Read::Data(data) => return Err(bad_request(id, &data)),
                    }
                    return Ok(());
                }
            }
        }
    }
}

fn begin(cx: &mut AppContext<'_>, id: StreamId, request: Request) -> Result<Source, AppError> {
    let closed = |_| AppError::Closed { stream: id };
    cx.connection
        .send_stream(id)
        .set_priority(request.priority)
        .map_err(closed)?;
    let hints = StreamHints {
        size: request.bytes,
        deadline: None,
        chunk: request.chunk,
        buffered: request.held.map(|held| held.0),
        explore: request.held.is_some_and(|held| held.1),
        ..StreamHints::default()
    };
    cx.connection
        .send_stream(id)
        .set_hints(hints)
        .map_err(closed)?;
    Ok(Source::new(request.bytes.unwrap_or(u64::MAX), request.seed))
}

fn bad_request(stream: StreamId, line: &[u8]) -> AppError {
    let shown = &line[..line.len().min(MAX_REQUEST)];
    AppError::Protocol {
        stream,
        message: format!("bad request: {}", shown.escape_ascii()),
    }
}

/// Stops a stream that the protocol does not use, so that it does not use up flow control.
pub(crate) fn refuse_uni(cx: &mut AppContext<'_>) {
    while let Some(id) = cx.connection.streams().accept(Dir::Uni) {
        let _ = cx.connection.recv_stream(id).stop(VarInt::from_u32(1));
    }
}

impl App for ObjectServer {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = cx.connection.streams().accept(Dir::Bi) {
                    self.streams.insert(id, Answer::Asked(Vec::new()));
                    self.go_on(cx, id)?;
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                refuse_uni(cx);
                Ok(())
            }
            Event::Stream(StreamEvent::Readable { id } | StreamEvent::Writable { id }) => {
                self.go_on(cx, id)
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => match self.streams.get(&id) {
                Some(_) => Err(AppError::GivenUp {
                    stream: id,
                    code: error_code,
                }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_written() {
        let most = Request {
            bytes: Some(u64::MAX),
            seed: u64::MAX,
            priority: i32::MIN,
            chunk: Some(u64::MAX),
            held: Some((u64::MAX, true)),
        };
        let endless = Request {
            bytes: None,
            ..Request::new(0, 7)
        };
        let unmarked = Request {
            held: Some((2, false)),
            ..Request::new(9, 7)
        };
        for request in [most, endless, unmarked, Request::new(2_000_000, 1)] {
            let line = request.line();
            assert!(line.len() <= MAX_REQUEST);
            let (end, line) = line.split_last().unwrap();
            assert_eq!((*end, Request::parse(line)), (b'\n', Some(request)));
        }
        for bad in [
            "",
            "GET 1 2 3",
            "GET 1 2 3 4 5",
            "GET 1 2 3 4 5 2",
            "GET 1 2 3 4 5 0 0",
            "PUT 1 2 3 4",
            "GET x 2 3 -",
        ] {
            assert_eq!(Request::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
