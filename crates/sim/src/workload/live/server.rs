//! The camera: makes frames at their times, and sends them as the workload says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mpquic_live::{Config, Flow, FrameInfo, Outlet};
use mpquic_proto::{Dir, Event, Fate, StreamEvent, StreamHints, StreamId, VarInt};

use super::{Live, Protection};
use crate::AppError;
use crate::app::{App, AppContext};
use crate::stream_io::{finish, write};
use crate::workload::object::refuse_uni;

/// For how long, after the last deadline, what is on its way may still arrive.
const TAIL: Duration = Duration::from_secs(1);

/// What a sender's times are rounded up to, so that virtual time goes on.
const TICK: Duration = Duration::from_micros(50);

/// A frame on its stream.
struct OnStream {
    rest: Vec<u8>,
    due: Duration,
}

pub(super) struct LiveServer {
    live: Live,
    seed: u64,
    asked: Option<StreamId>,
    began: Duration,
    made: u64,
    bytes: u64,
    outlet: Option<Outlet>,
    wakeup: Option<Duration>,
    /// Datagrams handed over, and how often one left.
    handed: u64,
    left: u64,
    streams: BTreeMap<StreamId, OnStream>,
    /// Frames that no stream was left for, with their due times.
    waiting: Vec<(Vec<u8>, Duration)>,
    /// Stream bytes that each path has sent.
    carried: BTreeMap<mpquic_proto::PathId, u64>,
    finished: bool,
}

impl LiveServer {
    pub(super) const fn new(live: Live, seed: u64) -> Self {
        Self {
            live,
            seed,
            asked: None,
            began: Duration::ZERO,
            made: 0,
            bytes: 0,
            outlet: None,
            wakeup: None,
            handed: 0,
            left: 0,
            streams: BTreeMap::new(),
            waiting: Vec::new(),
            carried: BTreeMap::new(),
            finished: false,
        }
    }

    /// Bytes sent beyond those of the frames, as a share of these.
    pub(super) fn extra(&self) -> f64 {
        let Some(outlet) = &self.outlet else {
            let carried: u64 = self.carried.values().sum();
            return carried as f64 / self.bytes.max(1) as f64 - 1.0;
        };
        let once = 1.0 + outlet.stats().overhead();
        once * self.left as f64 / self.handed.max(1) as f64 - 1.0
    }

    fn begin(&mut self, cx: &mut AppContext<'_>, asked: StreamId) {
        self.asked = Some(asked);
        self.began = cx.now();
        if self.live.protection == Protection::Streams {
            return;
        }
        let config = Config {
            seed: self.seed,
            ..Config::default()
        };
        let mut outlet = Outlet::new(config, cx.instant());
        let flow = Flow::new(self.live.deadline())
            .worth(self.live.price)
            .repair(self.live.repair());
        outlet.sender().flow(cx.instant(), flow);
        self.outlet = Some(outlet);
    }

    fn next_frame(&self) -> Option<Duration> {
        self.asked?;
        let made = u32::try_from(self.made).ok()?;
        (self.made < self.live.count())
            .then(|| self.began + self.live.interval().saturating_mul(made))
    }

    fn end(&self) -> Duration {
        self.began + self.live.duration + self.live.deadline() + TAIL
    }

    /// Does all that is due.
    fn go_on(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let Some(asked) = self.asked.filter(|_| !self.finished) else {
            return Ok(());
        };
        self.hear(cx);
        while let Some(at) = self.next_frame()
            && at <= cx.now()
        {
            let number = self.made;
            let frame = self.live.frame(self.seed, number, at);
            self.made += 1;
            self.bytes += frame.len() as u64;
            match &mut self.outlet {
                Some(outlet) => {
                    let key = self.live.is_key(number);
                    outlet
                        .sender()
                        .send(cx.instant(), 0, &frame, FrameInfo { key })
                        .map_err(|error| AppError::Other(error.to_string()))?;
                }
                None => self.waiting.push((frame, at + self.live.deadline())),
            }
        }
        match self.outlet {
            Some(_) => self.transmit(cx),
            None => self.write(cx)?,
        }
        if cx.now() >= self.end() {
            self.finished = true;
            self.wakeup = None;
            return finish(cx, asked);
        }
        let due = self.due(cx);
        let next = [self.next_frame(), due, Some(self.end())];
        let next = next.into_iter().flatten().min();
        self.wakeup = next.map(|at| at.max(cx.now() + TICK));
        Ok(())
    }

    /// What the transport has to say of datagrams and paths.
    fn hear(&mut self, cx: &mut AppContext<'_>) {
        let protection = self.live.protection;
        let Some(outlet) = &mut self.outlet else {
            for path in cx.connection.paths().iter() {
                self.carried
                    .insert(path.id(), path.stats().sent_stream_bytes);
            }
            return;
        };
        while let Some(news) = cx.connection.datagrams().fate() {
            let sent = matches!(news.fate, Fate::Sent { .. });
            self.left += u64::from(sent);
            // Who is not told that it left knows nothing of silence and lateness; who is not told that it was lost, nothing of that.
            let told = match protection {
                Protection::Retransmit => !sent,
                Protection::Bare | Protection::Twice => {
                    matches!(news.fate, Fate::Acknowledged { .. })
                }
                _ => true,
            };
            if told {
                outlet.fate(cx.instant(), &news);
            }
        }
        let paths = cx.connection.paths().iter();
        outlet.set_paths(paths.map(|path| (path.id(), path.status(), path.stats())));
    }

    fn transmit(&mut self, cx: &mut AppContext<'_>) {
        let now = cx.instant();
        let Some(outlet) = &mut self.outlet else {
            return;
        };
        while let Some((datagram, mut options)) = outlet.poll_transmit(now) {
            if self.live.protection == Protection::Twice {
                options = options.all_paths();
            }
            self.handed += 1;
            let tag = outlet.last_tag();
            if cx
                .connection
                .datagrams()
                .send_with(datagram, options, true)
                .is_err()
            {
                outlet.refused(now, tag);
            }
        }
    }

    /// Frames on their streams, and resets of those that are late.
    fn write(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let now = cx.now();
        let late: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, frame)| frame.due <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.streams.remove(&id);
            // It may have been delivered by now.
            let _ = cx.connection.send_stream(id).reset(VarInt::from_u32(0));
        }
        self.waiting.retain(|(_, due)| *due > now);
        while !self.waiting.is_empty()
            && let Some(id) = cx.connection.streams().open(Dir::Uni)
        {
            let (rest, due) = self.waiting.remove(0);
            let hints = StreamHints {
                size: Some(rest.len() as u64),
                deadline: cx.instant().checked_add(due - now),
                ..StreamHints::default()
            };
            let _ = cx.connection.send_stream(id).set_hints(hints);
            self.streams.insert(id, OnStream { rest, due });
            self.push(cx, id)?;
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let Some(frame) = self
            .streams
            .get_mut(&id)
            .filter(|frame| !frame.rest.is_empty())
        else {
            return Ok(());
        };
        while !frame.rest.is_empty() {
            let taken = write(cx, id, &frame.rest)?;
            if taken == 0 {
                return Ok(());
            }
            frame.rest.drain(..taken);
        }
        finish(cx, id)
    }

    /// When something is due beside frames.
    fn due(&mut self, cx: &AppContext<'_>) -> Option<Duration> {
        let Some(outlet) = &mut self.outlet else {
            return self.streams.values().map(|frame| frame.due).min();
        };
        let from: Instant = cx.instant();
        let at = match self.live.protection {
            Protection::Bare | Protection::Twice => None,
            _ => outlet.sender().poll_timeout(from),
        };
        at.map(|at| cx.now() + at.saturating_duration_since(from))
    }
}

impl App for LiveServer {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match *event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) if self.asked.is_none() => {
                if let Some(id) = cx.connection.streams().accept(Dir::Bi) {
                    self.begin(cx, id);
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => refuse_uni(cx),
            Event::Stream(StreamEvent::Writable { id }) => self.push(cx, id)?,
            Event::Stream(StreamEvent::Finished { id }) => {
                self.streams.remove(&id);
            }
            _ => {}
        }
        self.go_on(cx)
    }

    fn next_wakeup(&self) -> Option<Duration> {
        self.wakeup
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        self.go_on(cx)
    }
}
