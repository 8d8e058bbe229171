//! The client's side of requests for objects: requests them, reads them, verifies every byte, and records the times.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpquic_proto::{Dir, Event, StreamEvent, StreamId};

use super::object::Request;
use crate::AppError;
use crate::app::AppContext;
use crate::stream_io::{Check, Read, finish, read, write_all};

/// The times of one object, in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// When the application wanted the object. This is the time of the request's first byte, unless
    /// the peer's stream limit delayed it.
    pub(crate) requested: Duration,
    /// When the first bytes were delivered.
    pub(crate) first_byte: Duration,
    /// When the last byte was delivered in order.
    pub(crate) completed: Duration,
}

impl Times {
    /// The time from the request's first byte to the last byte delivered in order.
    pub(crate) fn completion(&self) -> Duration {
        self.completed - self.requested
    }
}

/// The progress of an object, which has the number that the caller gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    FirstBytes {
        number: usize,
    },
    /// The whole object was delivered in order and was correct.
    Done {
        number: usize,
        times: Times,
    },
}

#[derive(Debug)]
struct Download {
    number: usize,
    request: Vec<u8>,
    asked: bool,
    check: Check,
    bytes: u64,
    requested: Duration,
    first_byte: Option<Duration>,
    done: bool,
}

/// The objects that are requested and not complete.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    streams: BTreeMap<StreamId, Download>,
    /// Delayed by the peer's stream limit.
    held_back: VecDeque<Download>,
    /// The sum over all objects.
    received: u64,
    progress: VecDeque<Progress>,
}

impl Downloads {
    /// Requests an object.
    pub(crate) fn start(
        &mut self,
        cx: &mut AppContext<'_>,
        number: usize,
        request: Request,
    ) -> Result<(), AppError> {
        let bytes = request.bytes.unwrap_or(u64::MAX);
        self.held_back.push_back(Download {
            number,
            request: request.line(),
            asked: false,
            check: Check::new(bytes, request.seed),
            bytes,
            requested: cx.now(),
            first_byte: None,
            done: false,
        });
        self.open(cx)
    }

    fn open(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        while !self.held_back.is_empty()
            && let Some(id) = cx.connection.streams().open(Dir::Bi)
            && let Some(mut download) = self.held_back.pop_front()
        {
            download.ask(cx, id)?;
            self.streams.insert(id, download);
        }
        Ok(())
    }

    /// Bytes delivered in order, summed over all objects.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Whether all requested objects are complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.held_back.is_empty()
    }

    /// The next event, oldest first.
    pub(crate) fn poll(&mut self) -> Option<Progress> {
        self.progress.pop_front()
    }

    pub(crate) fn on_event(
        &mut self,
        cx: &mut AppContext<'_>,
        event: &Event,
    ) -> Result<(), AppError> {
        match *event {
            Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.open(cx),
            Event::Stream(StreamEvent::Writable { id }) => match self.streams.get_mut(&id) {
                Some(download) => download.ask(cx, id),
                None => Ok(()),
            },
            Event::Stream(StreamEvent::Readable { id }) => self.read(cx, id),
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

    fn read(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let Some(download) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let number = download.number;
        let ended = loop {
            match read(cx, id)? {
                Read::Data(data) => {
                    download.check.take(id, &data)?;
                    self.received += data.len() as u64;
                    if download.first_byte.is_none() {
                        download.first_byte = Some(cx.now());
                        self.progress.push_back(Progress::FirstBytes { number });
                    }
                }
                Read::End => break true,
                Read::Blocked => break false,
            }
        };
        if ended {
            download.check.end(id)?;
        }
        // The end of the stream may come after the last byte. The object is complete with the last
        // byte.
        if !download.done && (ended || download.check.received() == download.bytes) {
            download.done = true;
            let times = Times {
                requested: download.requested,
                first_byte: download.first_byte.unwrap_or_else(|| cx.now()),
                completed: cx.now(),
            };
            self.progress.push_back(Progress::Done { number, times });
        }
        if ended {
            self.streams.remove(&id);
        }
        Ok(())
    }
}

impl Download {
    fn ask(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        if !self.asked && write_all(cx, id, &mut self.request)? {
            finish(cx, id)?;
            self.asked = true;
        }
        Ok(())
    }
}
