//! Ready-made applications: any number of simultaneous downloads, uploads and echoes of verified content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mpquic_proto::{Dir, Event, StreamEvent, StreamId, VarInt};

use crate::AppError;
use crate::app::{App, AppContext};
use crate::stream_io::{Check, Read, Source, finish, read, write, write_all};

/// The largest amount of data that an echo holds before it stops reading.
const ECHO_BUFFER: usize = 64 * 1024;
/// The longest request line.
const MAX_REQUEST: usize = 64;
/// The server's response to a complete and correct upload.
const UPLOAD_DONE: &[u8] = b"OK";

/// A client's task: content of a given size, generated from a seed, on a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// The server sends, the client verifies.
    Download {
        /// The size.
        bytes: u64,
        /// The seed of the content.
        seed: u64,
    },
    /// The client sends, the server verifies.
    Upload {
        /// The size.
        bytes: u64,
        /// The seed of the content.
        seed: u64,
    },
    /// The client sends, the server returns the data, the client verifies.
    Echo {
        /// The size.
        bytes: u64,
        /// The seed of the content.
        seed: u64,
    },
}

impl Job {
    const fn parts(self) -> (&'static str, u64, u64) {
        match self {
            Self::Download { bytes, seed } => ("GET", bytes, seed),
            Self::Upload { bytes, seed } => ("PUT", bytes, seed),
            Self::Echo { bytes, seed } => ("ECHO", bytes, seed),
        }
    }

    fn request(self) -> Vec<u8> {
        let (verb, bytes, seed) = self.parts();
        format!("{verb} {bytes} {seed}\n").into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let (verb, bytes, seed) = (words.next()?, words.next()?, words.next()?);
        let (bytes, seed) = (bytes.parse().ok()?, seed.parse().ok()?);
        match (verb, words.next()) {
            ("GET", None) => Some(Self::Download { bytes, seed }),
            ("PUT", None) => Some(Self::Upload { bytes, seed }),
            ("ECHO", None) => Some(Self::Echo { bytes, seed }),
            _ => None,
        }
    }
}

/// A job of the client in progress.
#[derive(Debug)]
struct ClientStream {
    number: usize,
    request: Vec<u8>,
    source: Source,
    sent: bool,
    check: Check,
    /// Uploads only: the response so far.
    answer: Option<Vec<u8>>,
}

impl ClientStream {
    fn new(number: usize, job: Job) -> Self {
        let (_, bytes, seed) = job.parts();
        let (sends, receives) = match job {
            Job::Download { .. } => (0, bytes),
            Job::Upload { .. } => (bytes, 0),
            Job::Echo { .. } => (bytes, bytes),
        };
        Self {
            number,
            request: job.request(),
            source: Source::new(sends, seed),
            sent: false,
            check: Check::new(receives, seed),
            answer: matches!(job, Job::Upload { .. }).then(Vec::new),
        }
    }

    fn write(&mut self, cx: &mut AppContext<'_>, stream: StreamId) -> Result<(), AppError> {
        if !self.sent
            && write_all(cx, stream, &mut self.request)?
            && self.source.pump(cx, stream)?
        {
            finish(cx, stream)?;
            self.sent = true;
        }
        Ok(())
    }

    /// Returns `true` at the end of the stream if all was correct.
    fn read(&mut self, cx: &mut AppContext<'_>, stream: StreamId) -> Result<bool, AppError> {
        loop {
            match (read(cx, stream)?, &mut self.answer) {
                (Read::Blocked, _) => return Ok(false),
                (Read::Data(data), None) => self.check.take(stream, &data)?,
                (Read::Data(data), Some(answer)) if answer.len() < MAX_REQUEST => {
                    answer.extend_from_slice(&data);
                }
                (Read::End, None) => return self.check.end(stream).map(|()| true),
                (Read::End, Some(answer)) if answer == UPLOAD_DONE => return Ok(true),
                (Read::Data(_) | Read::End, Some(_)) => {
                    return Err(AppError::Protocol {
                        stream,
                        message: "the upload was not confirmed".into(),
                    });
                }
            }
        }
    }
}

/// Runs all its jobs at the same time. Does not close the connection afterwards.
#[derive(Debug, Default)]
pub struct TransferClient {
    jobs: Vec<Job>,
    begun: usize,
    connected: bool,
    streams: BTreeMap<StreamId, ClientStream>,
    completed: Vec<Option<Duration>>,
}

impl TransferClient {
    /// A client with these jobs.
    pub fn new(jobs: impl IntoIterator<Item = Job>) -> Self {
        let jobs: Vec<_> = jobs.into_iter().collect();
        Self {
            completed: vec![None; jobs.len()],
            jobs,
            ..Self::default()
        }
    }

    /// A client with one download.
    pub fn download(bytes: u64) -> Self {
        Self::new([Job::Download { bytes, seed: 1 }])
    }

    /// A client with one upload.
    pub fn upload(bytes: u64) -> Self {
        Self::new([Job::Upload { bytes, seed: 2 }])
    }

    /// A client with one echo.
    pub fn echo(bytes: u64) -> Self {
        Self::new([Job::Echo { bytes, seed: 3 }])
    }

    /// A client that downloads and uploads this many bytes at the same time.
    pub fn both_directions(bytes: u64) -> Self {
        Self::new([
            Job::Download { bytes, seed: 4 },
            Job::Upload { bytes, seed: 5 },
        ])
    }

    /// When each job was complete: received to its end and correct, or (an upload) confirmed by the
    /// server.
    pub fn completed(&self) -> &[Option<Duration>] {
        &self.completed
    }

    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        while let Some(&job) = self.jobs.get(self.begun) {
            let Some(id) = cx.connection.streams().open(Dir::Bi) else {
                return Ok(());
            };
            let mut stream = ClientStream::new(self.begun, job);
            stream.write(cx, id)?;
            self.streams.insert(id, stream);
            self.begun += 1;
        }
        Ok(())
    }
}

impl App for TransferClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match *event {
            Event::Connected => {
                self.connected = true;
                self.begin(cx)
            }
            Event::Stream(StreamEvent::Available { dir: Dir::Bi }) if self.connected => {
                self.begin(cx)
            }
            Event::Stream(StreamEvent::Writable { id }) => match self.streams.get_mut(&id) {
                Some(stream) => stream.write(cx, id),
                None => Ok(()),
            },
            Event::Stream(StreamEvent::Readable { id }) => {
                let Some(stream) = self.streams.get_mut(&id) else {
                    return Ok(());
                };
                if stream.read(cx, id)? {
                    self.completed[stream.number] = Some(cx.now());
                    self.streams.remove(&id);
                }
                Ok(())
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

    fn is_complete(&self) -> bool {
        self.completed.iter().all(Option::is_some)
    }
}

/// A request on the server in progress.
#[derive(Debug)]
enum ServerStream {
    Request(Vec<u8>),
    Download(Source),
    Upload(Check),
    /// An upload is being confirmed.
    Confirm(Vec<u8>),
    Echo {
        held: VecDeque<Bytes>,
        held_bytes: usize,
        ended: bool,
    },
}

impl ServerStream {
    /// Returns `true` when the request is complete.
    fn go_on(&mut self, cx: &mut AppContext<'_>, stream: StreamId) -> Result<bool, AppError> {
        loop {
            match self {
                Self::Request(line) => match read(cx, stream)? {
                    Read::Blocked => return Ok(false),
                    Read::Data(data) => {
                        line.extend_from_slice(&data);
                        let end = line.iter().position(|&byte| byte == b'\n');
                        if let Some(end) = end {
                            let job = Job::parse(&line[..end])
                                .ok_or_else(|| bad_request(stream, line))?;
                            let rest = line.split_off(end + 1);
                            *self = Self::begin(job, stream, rest)?;
                        } else if line.len() > MAX_REQUEST {
                            return Err(bad_request(stream, line));
                        }
                    }
                    Read::End => return Err(bad_request(stream, line)),
                },
                Self::Download(source) => {
                    if !source.pump(cx, stream)? {
                        return Ok(false);
                    }
                    finish(cx, stream)?;
                    return Ok(true);
                }
                Self::Upload(check) => match read(cx, stream)? {
                    Read::Blocked => return Ok(false),
                    Read::Data(data) => check.take(stream, &data)?,
                    Read::End => {
                        check.end(stream)?;
                        *self = Self::Confirm(UPLOAD_DONE.to_vec());
                    }
                },
                Self::Confirm(answer) => {
                    if !write_all(cx, stream, answer)? {
                        return Ok(false);
                    }
                    finish(cx, stream)?;
                    return Ok(true);
                }
                Self::Echo {
                    held,
                    held_bytes,
                    ended,
                } => {
                    while let Some(data) = held.front_mut() {
                        let taken = write(cx, stream, data)?;
                        if taken == 0 {
                            break;
                        }
                        *held_bytes -= taken;
                        let _ = data.split_to(taken);
                        if data.is_empty() {
                            held.pop_front();
                        }
                    }
                    if *ended && held.is_empty() {
                        finish(cx, stream)?;
                        return Ok(true);
                    }
                    if *ended || *held_bytes >= ECHO_BUFFER {
                        return Ok(false);
                    }
                    match read(cx, stream)? {
                        Read::Blocked => return Ok(false),
                        Read::Data(data) => {
                            *held_bytes += data.len();
                            held.push_back(data);
                        }
                        Read::End => *ended = true,
                    }
                }
            }
        }
    }

    fn begin(job: Job, stream: StreamId, rest: Vec<u8>) -> Result<Self, AppError> {
        Ok(match job {
            Job::Download { bytes, seed } => {
                if !rest.is_empty() {
                    return Err(bad_request(stream, &rest));
                }
                Self::Download(Source::new(bytes, seed))
            }
            Job::Upload { bytes, seed } => {
                let mut check = Check::new(bytes, seed);
                check.take(stream, &rest)?;
                Self::Upload(check)
            }
            Job::Echo { .. } => {
                let held_bytes = rest.len();
                let rest = (held_bytes > 0).then(|| Bytes::from(rest));
                Self::Echo {
                    held: rest.into_iter().collect(),
                    held_bytes,
                    ended: false,
                }
            }
        })
    }
}

fn bad_request(stream: StreamId, line: &[u8]) -> AppError {
    let shown = &line[..line.len().min(MAX_REQUEST)];
    AppError::Protocol {
        stream,
        message: format!("bad request: {}", shown.escape_ascii()),
    }
}

/// Serves [`TransferClient`]s.
#[derive(Debug, Default)]
pub struct TransferServer {
    streams: BTreeMap<StreamId, ServerStream>,
    /// Answered, but the client's end of stream was not read yet. Only then is a stream closed in
    /// both directions (RFC 9000 section 3).
    draining: BTreeSet<StreamId>,
    served: u64,
}

impl TransferServer {
    /// A server without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of completed requests.
    pub const fn served(&self) -> u64 {
        self.served
    }

    fn go_on(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        if let Some(stream) = self.streams.get_mut(&id) {
            if !stream.go_on(cx, id)? {
                return Ok(());
            }
            let was_download = matches!(stream, ServerStream::Download(_));
            self.streams.remove(&id);
            self.served += 1;
            if was_download {
                self.draining.insert(id);
            }
        }
        if self.draining.contains(&id) {
            match read(cx, id)? {
                Read::Blocked => {}
                Read::End => {
                    self.draining.remove(&id);
                }
                Read::Data(data) => return Err(bad_request(id, &data)),
            }
        }
        Ok(())
    }
}

impl App for TransferServer {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = cx.connection.streams().accept(Dir::Bi) {
                    self.streams.insert(id, ServerStream::Request(Vec::new()));
                    self.go_on(cx, id)?;
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                // The server does not use unidirectional streams. It stops them, so that they do
                // not use up flow control.
                while let Some(id) = cx.connection.streams().accept(Dir::Uni) {
                    let _ = cx.connection.recv_stream(id).stop(VarInt::from_u32(1));
                }
                Ok(())
            }
            Event::Stream(StreamEvent::Readable { id } | StreamEvent::Writable { id }) => {
                self.go_on(cx, id)
            }
            Event::Stream(StreamEvent::Stopped { id, error_code })
                if self.streams.contains_key(&id) =>
            {
                Err(AppError::GivenUp {
                    stream: id,
                    code: error_code,
                })
            }
            _ => Ok(()),
        }
    }

    fn is_complete(&self) -> bool {
        self.streams.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_written() {
        for job in [
            Job::Download { bytes: 0, seed: 9 },
            Job::Upload {
                bytes: u64::MAX,
                seed: u64::MAX,
            },
            Job::Echo { bytes: 7, seed: 0 },
        ] {
            let request = job.request();
            assert!(request.len() <= MAX_REQUEST);
            let (end, line) = request.split_last().unwrap();
            assert_eq!((*end, Job::parse(line)), (b'\n', Some(job)));
        }
        for bad in ["", "GET", "GET 1", "GET 1 2 3", "GET -1 2", "HEAD 1 2"] {
            assert_eq!(Job::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
