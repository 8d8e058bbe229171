//! The application of both sides: opens its streams, sends and verifies what the plan says, resets
//! and stops streams where the plan says so, and detects when everything possible is done.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use mpquic_proto::{Dir, Event, ReadError, Side, StreamEvent, StreamId, VarInt, WriteError};
use mpquic_sim::{App, AppContext, AppError, content};

use super::plan::{Half, Plan};

const CHUNK: usize = 8 * 1024;

/// A half of a stream that this side sends.
#[derive(Debug)]
struct Sending {
    half: Half,
    written: u64,
    finished: bool,
}

/// A half of a stream that this side receives.
#[derive(Debug)]
struct Receiving {
    half: Half,
    read: u64,
}

pub(crate) struct Chaos {
    plan: Rc<Plan>,
    side: Side,
    connected: bool,
    /// The connection has ended: what arrived before can be read, and nothing can be written.
    ended: bool,
    /// Streams are to be opened before the handshake is complete.
    early: bool,
    /// Streams that this side has opened, by direction.
    opened: [u64; 2],
    /// Streams of the peer that this side has accepted.
    accepted: [u64; 2],
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, Receiving>,
    /// Streams that wait because the reader is lazy.
    unread: Vec<StreamId>,
    next_read: Option<Duration>,
}

impl Chaos {
    pub(crate) fn new(plan: &Rc<Plan>, side: Side) -> Self {
        Self {
            plan: Rc::clone(plan),
            side,
            connected: false,
            ended: false,
            early: plan.early.is_some(),
            opened: [0; 2],
            accepted: [0; 2],
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            unread: Vec::new(),
            next_read: None,
        }
    }

    /// Registers the halves of a new stream.
    fn take_in(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let ours = id.initiator() == self.side;
        if !ours || id.dir() == Dir::Bi {
            let half = self.plan.half(id, !self.side);
            self.receiving.insert(id, Receiving { half, read: 0 });
            self.read_now_or_later(cx, id)?;
        }
        if (ours || id.dir() == Dir::Bi) && !self.ended {
            let half = self.plan.half(id, self.side);
            let sending = Sending {
                half,
                written: 0,
                finished: false,
            };
            self.sending.insert(id, sending);
            self.write(cx, id)?;
        }
        Ok(())
    }

    fn open(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        for dir in [Dir::Bi, Dir::Uni] {
            while self.opened[dir as usize] < self.plan.streams(self.side, dir) {
                let Some(id) = cx.connection.streams().open(dir) else {
                    break;
                };
                self.opened[dir as usize] += 1;
                self.take_in(cx, id)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let Some(sending) = self.sending.get_mut(&id) else {
            return Ok(());
        };
        let mut buffer = [0; CHUNK];
        let Half {
            seed, len, reset, ..
        } = sending.half;
        let limit = reset.map_or(len, |(at, _)| at);
        while sending.written < limit {
            let size = (limit - sending.written).min(CHUNK as u64) as usize;
            content::fill(seed, sending.written, &mut buffer[..size]);
            match cx.connection.send_stream(id).write(&buffer[..size]) {
                Ok(taken) => sending.written += taken as u64,
                Err(WriteError::Blocked) => return Ok(()),
                Err(WriteError::Stopped(code)) => return self.stopped(cx, id, code),
                // Stopped before it was accepted. The event reported it.
                Err(WriteError::ClosedStream) if sending.half.stop.is_some() => {
                    self.sending.remove(&id);
                    return Ok(());
                }
                Err(_) => return Err(AppError::Closed { stream: id }),
            }
        }
        if let Some((_, code)) = reset {
            self.sending.remove(&id);
            // It may have been stopped, which an event then reports.
            let _ = cx.connection.send_stream(id).reset(code);
        } else if !sending.finished && cx.connection.send_stream(id).finish().is_ok() {
            // If it was not reset, it was stopped.
            sending.finished = true;
        }
        Ok(())
    }

    /// The peer has stopped a stream.
    fn stopped(
        &mut self,
        cx: &mut AppContext<'_>,
        id: StreamId,
        code: VarInt,
    ) -> Result<(), AppError> {
        let half = self.plan.half(id, self.side);
        if half.stop.is_none_or(|(_, stop)| stop != code) {
            return Err(wrong(id, format!("stopped with {code} against {half:?}")));
        }
        self.sending.remove(&id);
        // The stream limit is only free again after this side has reset the stream.
        let _ = cx.connection.send_stream(id).reset(code);
        Ok(())
    }

    fn read_now_or_later(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        match self.plan.lazy[self.side as usize] {
            None => self.read(cx, id),
            Some(interval) => {
                self.unread.push(id);
                self.next_read.get_or_insert_with(|| cx.now() + interval);
                Ok(())
            }
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_>, id: StreamId) -> Result<(), AppError> {
        let Some(receiving) = self.receiving.get_mut(&id) else {
            return Ok(());
        };
        let half = receiving.half;
        loop {
            if let Some((at, code)) = half.stop
                && receiving.read >= at
            {
                self.receiving.remove(&id);
                // The stream may have just ended.
                let _ = cx.connection.recv_stream(id).stop(code);
                return Ok(());
            }
            match cx.read(id, CHUNK) {
                Ok(Some(data)) => {
                    content::verify(half.seed, receiving.read, &data)
                        .map_err(|offset| AppError::Mismatch { stream: id, offset })?;
                    receiving.read += data.len() as u64;
                }
                Ok(None) => {
                    if receiving.read != half.len || half.reset.is_some() {
                        let read = receiving.read;
                        return Err(wrong(id, format!("end at {read} against {half:?}")));
                    }
                    self.receiving.remove(&id);
                    return Ok(());
                }
                Err(ReadError::Blocked) => return Ok(()),
                Err(ReadError::Reset(code)) => {
                    if half.reset.is_none_or(|(_, reset)| reset != code) {
                        return Err(wrong(id, format!("reset with {code} against {half:?}")));
                    }
                    self.receiving.remove(&id);
                    return Ok(());
                }
                Err(_) => return Err(AppError::Closed { stream: id }),
            }
        }
    }
}

fn wrong(stream: StreamId, message: String) -> AppError {
    AppError::Other(format!("{stream}: {message}"))
}

impl App for Chaos {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if let Event::Connected = event {
            self.connected = true;
            self.early = false;
            if cx.connection.session().rejected_0rtt() {
                // As if nothing had been opened.
                self.opened = [0; 2];
                self.sending.clear();
                self.receiving.clear();
                self.unread.clear();
            }
            return self.open(cx);
        }
        self.ended |= matches!(event, Event::ConnectionLost { .. });
        let Event::Stream(event) = event else {
            return Ok(());
        };
        match *event {
            StreamEvent::Available { .. } | StreamEvent::Writable { .. } if self.ended => Err(
                AppError::Other(format!("{event:?} after the end of the connection")),
            ),
            StreamEvent::Available { .. } if self.connected || self.plan.early.is_some() => {
                self.open(cx)
            }
            StreamEvent::Opened { dir } => {
                while let Some(id) = cx.connection.streams().accept(dir) {
                    self.accepted[dir as usize] += 1;
                    self.take_in(cx, id)?;
                }
                Ok(())
            }
            StreamEvent::Readable { id } => self.read_now_or_later(cx, id),
            StreamEvent::Writable { id } => self.write(cx, id),
            StreamEvent::Stopped { id, error_code } => self.stopped(cx, id, error_code),
            StreamEvent::Finished { id } => match self.sending.remove(&id) {
                Some(sending) if !sending.finished => {
                    Err(wrong(id, "acknowledged before it was finished".into()))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        if self.early {
            return Some(Duration::ZERO);
        }
        self.next_read
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if std::mem::take(&mut self.early) {
            self.open(cx)?;
            if self.next_read.is_none_or(|at| at > cx.now()) {
                return Ok(());
            }
        }
        self.next_read = None;
        for id in std::mem::take(&mut self.unread) {
            self.read(cx, id)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let all = |done: &[u64; 2], side| {
            done[0] == self.plan.streams(side, Dir::Bi)
                && done[1] == self.plan.streams(side, Dir::Uni)
        };
        self.connected
            && all(&self.opened, self.side)
            && all(&self.accepted, !self.side)
            && self.sending.is_empty()
            && self.receiving.is_empty()
    }
}

impl std::fmt::Debug for Chaos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chaos")
            .field("opened", &self.opened)
            .field("accepted", &self.accepted)
            .field("sending", &self.sending)
            .field("receiving", &self.receiving)
            .finish_non_exhaustive()
    }
}
