//! The screen: takes frames, and notes when each came.

use std::collections::BTreeMap;
use std::time::Duration;

use mpquic_live::{Limits, Receiver, Verdict};
use mpquic_proto::{Dir, Event, ReadError, StreamEvent, StreamId};

use super::{HEADER, Live, Protection};
use crate::app::{App, AppContext};
use crate::stream_io::{finish, write};
use crate::workload::start::Start;
use crate::{AppError, content};

/// How many bytes are read at a time.
const CHUNK: usize = 64 << 10;

pub(super) struct LiveClient {
    live: Live,
    seed: u64,
    start: Start,
    asked: Option<StreamId>,
    receiver: Receiver,
    due: Option<Duration>,
    buffer: Vec<u8>,
    /// Frames that are not whole, by stream.
    partial: BTreeMap<StreamId, Vec<u8>>,
    /// Number and delay, in the order in which they came.
    frames: Vec<(u64, Duration)>,
    seen: Vec<bool>,
    newest: Option<u64>,
    last_new: Option<Duration>,
    freeze: Duration,
    ended: bool,
}

impl LiveClient {
    pub(super) fn new(live: Live, seed: u64) -> Self {
        let limits = Limits {
            flows: 1,
            ..Limits::default()
        };
        Self {
            seed,
            start: Start::new(live.warm),
            asked: None,
            receiver: Receiver::new(limits),
            due: None,
            buffer: Vec::new(),
            partial: BTreeMap::new(),
            frames: Vec::new(),
            seen: Vec::new(),
            newest: None,
            last_new: None,
            freeze: Duration::ZERO,
            ended: false,
            live,
        }
    }

    pub(super) fn frames(&self) -> &[(u64, Duration)] {
        &self.frames
    }

    /// The longest time between two new frames.
    pub(super) const fn longest_freeze(&self) -> Duration {
        self.freeze
    }

    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let Some(id) = cx.connection.streams().open(Dir::Bi) else {
            return Err(AppError::Other("no stream for the request".into()));
        };
        self.asked = Some(id);
        write(cx, id, b"LIVE\n")?;
        finish(cx, id)
    }

    /// A frame is whole.
    fn take(&mut self, now: Duration, number: Option<u64>, frame: &[u8]) -> Result<(), AppError> {
        let word = |at: usize| {
            let bytes = frame.get(at..at + 8).and_then(|b| b.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (named, made) = (word(0), Duration::from_nanos(word(8)));
        let wrong = |what: &str| Err(AppError::Other(format!("frame {named}: {what}")));
        if number.is_some_and(|number| number != named) || named >= self.live.count() || made > now
        {
            return wrong("its number or time is wrong");
        }
        if frame.len() != self.live.bytes(self.seed, named)
            || content::verify(content::word(self.seed, named), 0, &frame[HEADER..]).is_err()
        {
            return wrong("its content is wrong");
        }
        let place = named as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.seen[place], true) {
            return wrong("it came twice");
        }
        self.frames.push((named, now - made));
        if self.newest < Some(named) {
            if let Some(last) = self.last_new {
                self.freeze = self.freeze.max(now - last);
            }
            (self.newest, self.last_new) = (Some(named), Some(now));
        }
        Ok(())
    }

    fn poll(&mut self, cx: &AppContext<'_>) -> Result<(), AppError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(verdict) = self.receiver.poll(cx.instant(), &mut buffer) {
            if let Verdict::Frame { id, .. } = verdict {
                self.take(cx.now(), Some(id), &buffer)?;
            }
        }
        self.buffer = buffer;
        let due = self.receiver.poll_timeout();
        self.due = due
            .map(|at| cx.now() + at.saturating_duration_since(cx.instant()))
            // So that virtual time goes on.
            .map(|at| at.max(cx.now() + Duration::from_micros(50)));
        Ok(())
    }

    fn read(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        loop {
            match cx.read(id, CHUNK) {
                Ok(Some(data)) => {
                    if let Some(frame) = self.partial.get_mut(&id) {
                        frame.extend_from_slice(&data);
                    }
                }
                Ok(None) => {
                    self.ended |= self.asked == Some(id);
                    if let Some(frame) = self.partial.remove(&id) {
                        self.take(cx.now(), None, &frame)?;
                    }
                    return Ok(());
                }
                Err(ReadError::Blocked) => return Ok(()),
                // Late, and given up.
                Err(ReadError::Reset(_)) if self.partial.remove(&id).is_some() => return Ok(()),
                Err(_) => return Err(AppError::Closed { stream: id }),
            }
        }
    }
}

impl App for LiveClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.begin(cx)?;
        }
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = cx.connection.streams().accept(Dir::Uni) {
                    self.partial.insert(id, Vec::new());
                    self.read(cx, id)?;
                }
            }
            Event::Stream(StreamEvent::Readable { id })
                if self.asked == Some(id) || self.partial.contains_key(&id) =>
            {
                self.read(cx, id)?;
            }
            Event::DatagramReceived => {
                while let Some(datagram) = cx.connection.datagrams().recv() {
                    self.receiver
                        .receive(cx.instant(), &datagram)
                        .map_err(|error| AppError::Other(error.to_string()))?;
                }
                self.poll(cx)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        let due = self
            .due
            .filter(|_| self.live.protection != Protection::Streams);
        [self.start.next_wakeup(), due].into_iter().flatten().min()
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) {
            self.begin(cx)?;
        }
        self.poll(cx)
    }

    fn is_complete(&self) -> bool {
        self.ended
    }
}
